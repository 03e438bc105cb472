package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	spools   = "/api/v1/spools"
	products = "/api/v1/products"
)

func newAPI(t *testing.T) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{}, inventory.Routes, catalog.Routes)
}

// createProduct creates a product and returns its path.
func createProduct(t *testing.T, c *testkit.Client, name string) string {
	t.Helper()
	return products + "/" + c.Post(t, products, j{"name": name}).Want(201).ID()
}

// idOf returns the id at the end of a path.
func idOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// addComponent adds the product at other to the one at path, and returns the path of the component.
func addComponent(t *testing.T, c *testkit.Client, path, other string, quantity int) string {
	t.Helper()
	return c.Post(t, path+"/components", j{"component_product_id": idOf(other), "quantity": quantity}).Want(201).
		Header.Get("Location")
}

// addMaterial adds a material to the product at path, and returns the path of the material.
func addMaterial(t *testing.T, c *testkit.Client, path, kind, color string, grams float64) string {
	t.Helper()
	return c.Post(t, path+"/materials", j{"material_type": kind, "color": color, "weight_grams": grams}).Want(201).
		Header.Get("Location")
}

// createSpool creates a spool of 1,000 g and returns its path.
func createSpool(t *testing.T, c *testkit.Client, kind, color string, price any) string {
	t.Helper()
	return spools + "/" +
		c.Post(t, spools, j{"material_type": kind, "color": color, "diameter_mm": 1.75, "net_weight_grams": 1000,
			"purchase_price": price}).Want(201).ID()
}

func TestProductLifecycle(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	made := c.Post(t, products, j{"name": "Dragon", "description": "Articulated", "sku": "DRG-1", "category": "Toys",
		"estimated_print_time_minutes": 180, "labour_minutes": 1.5, "pieces_per_plate": 4, "selling_price": 12.5,
		"notes": "0.2 mm"}).Want(201)
	dragon := products + "/" + made.ID()
	testkit.Equal(t, made.Header.Get("Location"), dragon, "Location")
	made.Shows(map[string]string{"name": "Dragon", "description": "Articulated", "sku": "DRG-1", "category": "Toys",
		"estimated_print_time_minutes": "180", "labour_minutes": "1.5", "pieces_per_plate": "4", "selling_price": "12.5",
		"notes": "0.2 mm", "materials": "[]", "components": "[]",
		"material_cost": "0", "component_cost": "0", "total_cost": "0"})
	testkit.Equal(t, string(c.Get(t, dragon).Want(200).Body), string(made.Body), "the response of GET")

	// There is no price without a spool.
	body := c.Post(t, dragon+"/materials", j{"material_type": "PLA", "color": "Black", "weight_grams": 45,
		"is_required": false, "notes": "body"}).Want(201)
	body.Shows(map[string]string{"material_type": "PLA", "color": "Black", "weight_grams": "45",
		"is_required": "false", "notes": "body", "cost": "null"})
	testkit.Equal(t, body.Header.Get("Location"), dragon+"/materials/"+body.ID(), "Location")
	c.Get(t, dragon).Shows(map[string]string{"material_cost": "0", "total_cost": "0", "materials.0.cost": "null"})

	// The example of the interface specification: 45 g and 5 g at 0.025 per gram.
	createSpool(t, c, "PLA", "Black", 25)
	createSpool(t, c, "PLA", "Red", 25)
	eyes := c.Post(t, dragon+"/materials", j{"material_type": "PLA", "color": "Red", "weight_grams": 5}).Want(201)
	eyes.Shows(map[string]string{"is_required": "true", "notes": "null", "cost": "0.125"})
	c.Get(t, dragon).
		Shows(map[string]string{"materials.0.id": body.ID(), "materials.0.cost": "1.125", "materials.1.id": eyes.ID(),
			"materials.1.cost": "0.125", "material_cost": "1.25", "component_cost": "0", "total_cost": "1.25"})

	wing := createProduct(t, c, "Wing")
	addMaterial(t, c, wing, "PLA", "black", 10)
	wings := c.Post(t, dragon+"/components", j{"component_product_id": idOf(wing), "quantity": 2,
		"notes": "left and right"}).Want(201)
	wings.Shows(map[string]string{"component_product_id": idOf(wing), "component_name": "Wing", "quantity": "2",
		"notes": "left and right", "unit_cost": "0.25", "cost": "0.5"})
	testkit.Equal(t, wings.Header.Get("Location"), dragon+"/components/"+wings.ID(), "Location")
	c.Get(t, dragon).
		Shows(map[string]string{"components.0.id": wings.ID(), "components.0.component_name": "Wing",
			"components.0.cost": "0.5", "material_cost": "1.25", "component_cost": "0.5", "total_cost": "1.75"})
	c.Post(t, dragon+"/recalculate", nil).Want(200).
		Shows(map[string]string{"id": idOf(dragon), "material_cost": "1.25", "component_cost": "0.5",
			"total_cost": "1.75", "cost_breakdown.materials.0.material": "PLA Black",
			"cost_breakdown.materials.0.weight": "45", "cost_breakdown.materials.0.cost": "1.125",
			"cost_breakdown.materials.1.material": "PLA Red", "cost_breakdown.materials.1.weight": "5",
			"cost_breakdown.materials.1.cost": "0.125", "cost_breakdown.components.0.component": "Wing",
			"cost_breakdown.components.0.quantity": "2", "cost_breakdown.components.0.cost": "0.5"})

	c.Patch(t, dragon+"/components/"+wings.ID(), j{"quantity": 4, "notes": nil}).Want(200).
		Shows(map[string]string{"quantity": "4", "notes": "null", "cost": "1"})
	c.Patch(t, dragon+"/materials/"+eyes.ID(), j{"weight_grams": 10, "color": "Black"}).Want(200).
		Shows(map[string]string{"cost": "0.25", "color": "Black"})
	c.Get(t, dragon).Shows(map[string]string{"material_cost": "1.375", "component_cost": "1", "total_cost": "2.375"})
	c.Patch(t, dragon, j{"name": "Great dragon", "sku": nil}).Want(200).
		Shows(map[string]string{"name": "Great dragon", "sku": "null", "category": "Toys",
			"materials.1.id": eyes.ID(), "total_cost": "2.375"})
	c.Delete(t, wing).WantError(400, "PRODUCT_IN_USE")
	c.Delete(t, dragon+"/materials/"+body.ID()).Want(204)
	c.Delete(t, dragon+"/components/"+wings.ID()).Want(204)
	c.Get(t, dragon).
		Shows(map[string]string{"material_cost": "0.25", "component_cost": "0", "total_cost": "0.25",
			"components": "[]"})
	for _, path := range []string{dragon + "/materials/" + body.ID(), dragon + "/components/" + wings.ID()} {
		c.Delete(t, path).WantError(404, "NOT_FOUND")
		c.Patch(t, path, j{}).WantError(404, "NOT_FOUND")
		c.Patch(t, path, j{"notes": "x"}).WantError(404, "NOT_FOUND")
	}
	c.Delete(t, wing).Want(204)
	c.Delete(t, wing).WantError(404, "NOT_FOUND")
}

// No operation returns or changes a removed product, or adds it to another one.
func TestRemovedProduct(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	keep := createProduct(t, c, "Keep")
	gone := products + "/" + c.Post(t, products, j{"name": "Gone", "sku": "G-1"}).Want(201).ID()
	m, p := addMaterial(t, c, gone, "PLA", "Black", 1), addComponent(t, c, gone, keep, 1)
	c.Delete(t, keep).WantError(400, "PRODUCT_IN_USE")
	c.Delete(t, gone).Want(204)

	for _, r := range []struct{ method, path, body string }{
		{"GET", gone, ""}, {"PATCH", gone, `{}`}, {"PATCH", gone, `{"name":"x"}`}, {"DELETE", gone, ""},
		{"POST", gone + "/recalculate", ""},
		{"POST", gone + "/materials", `{"material_type":"PLA","color":"Black","weight_grams":1}`}, {"PATCH", m, `{}`},
		{"PATCH", m, `{"notes":"x"}`}, {"DELETE", m, ""},
		{"POST", gone + "/components", `{"component_product_id":"` + idOf(keep) + `"}`}, {"PATCH", p, `{}`},
		{"PATCH", p, `{"quantity":2}`}, {"DELETE", p, ""},
	} {
		var body any
		if r.body != "" {
			body = r.body
		}
		c.Do(t, r.method, r.path, body).WantError(404, "NOT_FOUND")
	}
	c.Post(t, keep+"/components", j{"component_product_id": idOf(gone)}).WantError(400, "UNKNOWN_REFERENCE")
	c.Get(t, products).Shows(map[string]string{"total": "1", "items.0.id": idOf(keep)})
	c.Patch(t, keep, j{"sku": "G-1"}).Want(200)
	c.Patch(t, keep, j{"sku": nil}).Want(200)
	c.Post(t, products, j{"name": "Heir", "sku": "G-1"}).Want(201)
	c.Delete(t, keep).Want(204) // a removed product does not count as containing it
}

func TestProductPatch(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	path := products + "/" + c.Post(t, products, j{"name": "Dragon", "description": "d", "sku": "s", "category": "c",
		"estimated_print_time_minutes": 1, "labour_minutes": 0, "pieces_per_plate": 1, "selling_price": 0,
		"notes": "n"}).Want(201).ID()
	addComponent(t, c, path, createProduct(t, c, "Wing"), 1)
	addMaterial(t, c, path, "PLA", "Black", 1)
	before := c.Get(t, path).Want(200)
	m, p := path+"/materials/"+before.Text("materials.0.id"), path+"/components/"+before.Text("components.0.id")

	// A request without a field, or with read-only fields only, changes nothing, not even updated_at.
	for _, empty := range []string{path, m, p} {
		c.Patch(t, empty, j{}).Want(200)
	}
	c.Patch(t, path, j{"id": value.NewID(), "materials": []j{}, "components": before.Value("components"),
		"total_cost": 1, "created_at": "x"}).Want(200)
	c.Patch(t, m, j{"id": 1, "cost": 2}).Want(200)
	c.Patch(t, p, j{"id": 1, "component_name": "x", "unit_cost": 2, "cost": 3}).Want(200)
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(before.Body), "the products have changed")
	// A response can be sent back.
	c.Patch(t, path, string(before.Body)).Want(200).
		Shows(map[string]string{"name": "Dragon", "materials.0.id": idOf(m), "components.0.id": idOf(p)})
	c.Patch(t, m, before.Value("materials.0")).Want(200)
	c.Patch(t, p, before.Value("components.0")).Want(200)

	cleared := c.Patch(t, path, j{"description": nil, "sku": nil, "category": nil,
		"estimated_print_time_minutes": nil, "labour_minutes": nil, "pieces_per_plate": nil, "selling_price": nil,
		"notes": nil}).Want(200)
	cleared.Shows(map[string]string{"name": "Dragon", "description": "null", "sku": "null", "category": "null",
		"estimated_print_time_minutes": "null", "labour_minutes": "null", "pieces_per_plate": "null",
		"selling_price": "null", "notes": "null"})
	if !cleared.Time("updated_at").After(before.Time("updated_at")) {
		t.Errorf("updated_at was %s and is %s", before.Text("updated_at"), cleared.Text("updated_at"))
	}
	// A change of a material or component updates updated_at of the product, even if the costs stay the same.
	at := cleared.Time("updated_at")
	for _, sub := range []string{m, p} {
		c.Patch(t, sub, j{"notes": "new"}).Want(200)
		now := c.Get(t, path).Time("updated_at")
		if !now.After(at) {
			t.Errorf("%s changed: updated_at was %s and is %s", sub, at, now)
		}
		at = now
	}
}

func TestSKU(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	c.Post(t, products, j{"name": "A", "sku": "X-1"}).Want(201)
	c.Post(t, products, j{"name": "B", "sku": "X-1"}).WantError(409, "DUPLICATE_SKU")
	b := products + "/" + c.Post(t, products, j{"name": "B", "sku": "X-2"}).Want(201).ID()
	c.Patch(t, b, j{"sku": "X-1", "name": "C"}).WantError(409, "DUPLICATE_SKU")
	c.Get(t, b).Shows(map[string]string{"sku": "X-2", "name": "B"})
	c.Patch(t, b, j{"sku": "X-2"}).Want(200)
	c.Patch(t, products+"/"+value.NewID(), j{"sku": "X-1"}).WantError(404, "NOT_FOUND")
	for range 2 {
		c.Post(t, products, j{"name": "without"}).Want(201)
		c.Post(t, products, j{"name": "empty", "sku": ""}).Want(201)
	}
	api.Operator(t).Post(t, products, j{"name": "A", "sku": "X-1"}).Want(201)

	// Of ten concurrent requests, one gets the SKU.
	paths := make([]string, 10)
	for i := range paths {
		paths[i] = createProduct(t, c, "racer")
	}
	testkit.Race(t, len(paths), func(i int) (*testkit.Response, error) {
		return c.Send("PATCH", paths[i], j{"sku": "X-3"})
	}).Want(t, map[string]int{"200": 1, "409 DUPLICATE_SKU": 9})
	testkit.Race(t, 10, func(int) (*testkit.Response, error) {
		return c.Send("POST", products, j{"name": "racer", "sku": "X-4"})
	}).Want(t, map[string]int{"201": 1, "409 DUPLICATE_SKU": 9})
}

func TestProductList(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var ids []string
	for i, p := range []j{
		{"name": "Dragon", "description": "100% PLA", "category": "Toys", "sku": "B",
			"estimated_print_time_minutes": 30},
		{"name": "snake_case", "category": "TOYS", "sku": "C", "estimated_print_time_minutes": 10},
		{"name": "Vase", "description": "für Blumen", "category": "Home", "sku": "A",
			"estimated_print_time_minutes": 20},
		{"name": "ÄRMEL", "description": "dragon sleeve", "category": "toys and more"},
	} {
		p["notes"] = fmt.Sprint("never searched ", i)
		ids = append(ids, c.Post(t, products, p).Want(201).ID())
	}
	c.Delete(t, createProduct(t, c, "Dragon, removed")).Want(204)
	order := []int{0, 1, 2, 3}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(ids[a], ids[b]) })
	byID := strings.ReplaceAll(strings.Trim(fmt.Sprint(order), "[]"), " ", "")
	slices.Reverse(order)
	downID := strings.ReplaceAll(strings.Trim(fmt.Sprint(order), "[]"), " ", "")
	for query, want := range map[string]string{
		"":                                      "3210",
		"?limit=2":                              "32",
		"?skip=1&limit=2":                       "21",
		"?skip=2000":                            "",
		"?category=toys":                        "10",
		"?category=Toys%20and":                  "",
		"?category=tOYS&search=SNAKE":           "1",
		"?search=dragon":                        "30",
		"?search=%25":                           "0",
		"?search=_":                             "1",
		"?search=%25dragon%25":                  "",
		"?search=%C3%A4rm":                      "3",
		"?search=F%C3%9CR":                      "2",
		"?search=never":                         "",
		"?search=vasef":                         "",
		"?search=eldrag":                        "",
		"?search=":                              "3210",
		"?search=a&limit=2":                     "32",
		"?search=a&skip=2":                      "10",
		"?search=a&skip=4":                      "",
		"?search=a&skip=2000":                   "",
		"?search=a&sort_by=id&sort_order=asc":   byID,
		"?search=a&sort_by=sku":                 "1023",
		"?search=a&sort_by=total_cost&limit=3":  downID[:3],
		"?sort_by=name&sort_order=asc":          "0213",
		"?sort_by=sku":                          "1023",
		"?sort_by=sku&sort_order=asc":           "2013",
		"?sort_by=created_at":                   "3210",
		"?sort_by=total_cost":                   downID,
		"?sort_by=id&sort_order=asc":            byID,
		"?sort_by=category&limit=1":             "3",
		"?sort_by=material_cost&sort_order=asc": byID,
		"?sort_by=description&limit=1":          "2",
		"?sort_by=estimated_print_time_minutes&sort_order=asc": "1203",
		"?sort_by=estimated_print_time_minutes":                "0213",
	} {
		a := c.Get(t, products+query).Want(200)
		got := ""
		for i := range a.List("items") {
			for n, id := range ids {
				if a.Text(fmt.Sprintf("items.%d.id", i)) == id {
					got += fmt.Sprint(n)
				}
			}
		}
		testkit.Equal(t, got, want, "%s: products", query)
		if total := a.Text("total"); strings.Contains(query, "search=a&") && total != "4" {
			t.Errorf("%s: total %s, want 4", query, total)
		} else if !strings.Contains(query, "limit") && !strings.Contains(query, "skip") &&
			total != fmt.Sprint(len(want)) {
			t.Errorf("%s: total %s, want %d", query, total, len(want))
		}
	}
	// The items of the list have exactly these fields.
	item := c.Get(t, products+"?limit=1").Want(200).Value("items.0").(map[string]any)
	want := []string{"id", "name", "description", "sku", "category", "estimated_print_time_minutes", "labour_minutes",
		"pieces_per_plate", "selling_price", "material_cost", "total_cost", "costs_complete", "hidden_at",
		"created_at", "updated_at", "hidden_by", "hidden_by_name", "file_name", "file_sha256", "printer_model",
		"picture_version", "minimum_pieces", "location", "on_hand", "plate_of", "plate", "number", "variant_of",
		"variant_count"}
	for _, name := range want {
		if _, ok := item[name]; !ok {
			t.Errorf("the list item has no %s", name)
		}
	}
	testkit.Equal(t, len(item), len(want), "fields of the list item %v", item)
	for query, field := range map[string]string{"sort_by=notes": "sort_by", "sort_by=materials": "sort_by",
		"sort_by=component_cost": "sort_by", "sort_by=tenant_id": "sort_by", "sort_order=up": "sort_order",
		"limit=0": "limit", "limit=101": "limit", "skip=-1": "skip", "search=a%00": "search",
		"search=" + strings.Repeat("a", 101): "search",
		"category=%FF":                       "category"} {
		c.Get(t, products+"?"+query).Fields(field)
	}
	c.Get(t, products+"?search="+strings.Repeat("%C3%A4", 100)).Want(200).Shows(map[string]string{"total": "0"})
}

// A search reads the products once for both the page and its total.
func TestSearchScansOnce(t *testing.T) {
	t.Parallel()
	var scans atomic.Int64
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 1,
		RoundTrip: func(statements []db.Statement) {
			for _, s := range statements {
				scans.Add(int64(strings.Count(s.SQL, "strpos(")))
			}
		}})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	c := testkit.New(t, testkit.Options{DB: d}, catalog.Routes).Operator(t)
	createProduct(t, c, "Dragon")
	for _, query := range []string{"?search=dragon", "?search=dragon&skip=2000",
		"?search=dragon&category=x&sort_by=name"} {
		scans.Store(0)
		if c.Get(t, products+query).Want(200); scans.Load() != 1 {
			t.Errorf("%s: %d scans, want 1", query, scans.Load())
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	path, other := createProduct(t, c, "Dragon"), createProduct(t, c, "Wing")
	m, p := addMaterial(t, c, path, "PLA", "Black", 1), addComponent(t, c, path, other, 1)
	good := `"component_product_id":"` + idOf(other) + `"`
	long := strings.Repeat("x", 201)
	for _, r := range []struct{ method, path, body, fields string }{
		{"POST", products, `{}`, "name"},
		{"POST", products, `{"name":null}`, "name"},
		{"POST", products,
			`{"name":" ","description":1,"sku":true,"category":[],"estimated_print_time_minutes":1.5,"notes":{}}`,
			"name description sku category estimated_print_time_minutes notes"},
		{"POST", products, `{"name":"` + long + `","sku":"` + long + `","category":"` + long +
			`","description":"a\u0000","estimated_print_time_minutes":-1}`,
			"name sku category description estimated_print_time_minutes"},
		{"POST", products, `{"name":"x","estimated_print_time_minutes":1000001,"Name":"y","price":1}`,
			"estimated_print_time_minutes Name price"},
		{"POST", products, `{"name":"x","estimated_print_time_minutes":1e400,"notes":"` +
			strings.Repeat("x", 10_001) + `"}`, "estimated_print_time_minutes notes"},
		{"POST", products, `{"name":"x","labour_minutes":-1,"pieces_per_plate":0,"selling_price":1000001}`,
			"labour_minutes pieces_per_plate selling_price"},
		{"POST", products, `{"name":"x","materials":[{"material_type":"PLA"}],"components":[1]}`,
			"materials[0].color materials[0].weight_grams components[0]"},
		{"POST", products, `[]`, "body"},
		{"PATCH", path, `{"name":null,"sku":5}`, "name sku"},
		{"PATCH", path, `{"nam":"x"}`, "nam"},
		{"POST", path + "/materials", `{}`, "material_type color weight_grams"},
		{"POST", path + "/materials",
			`{"material_type":"pla","color":"","weight_grams":0,"is_required":"yes","notes":1,"x":1}`,
			"material_type color weight_grams is_required notes x"},
		{"POST", path + "/materials", `{"material_type":null,"color":null,"weight_grams":null,"is_required":null}`,
			"material_type color weight_grams"},
		{"POST", path + "/materials", `{"material_type":"PLA","color":"` + long + `","weight_grams":1000000.000001}`,
			"color weight_grams"},
		{"POST", path + "/materials", `{"material_type":"PLA","color":"x","weight_grams":0.0000004}`, "weight_grams"},
		{"POST", path + "/materials", `{"material_type":"PLA","color":"x","weight_grams":"NaN"}`, "weight_grams"},
		{"PATCH", m, `{"material_type":null,"color":null,"weight_grams":null,"is_required":null}`,
			"material_type color weight_grams is_required"},
		{"PATCH", m, `{"weight_grams":-1,"grams":1}`, "weight_grams grams"},
		{"POST", path + "/components", `{}`, "component_product_id"},
		{"POST", path + "/components", `{"component_product_id":"x","quantity":0,"notes":1,"y":1}`,
			"component_product_id quantity notes y"},
		{"POST", path + "/components", `{"component_product_id":null,"quantity":null}`, "component_product_id"},
		{"POST", path + "/components", `{` + good + `,"quantity":1000001}`, "quantity"},
		{"POST", path + "/components", `{` + good + `,"quantity":1.5}`, "quantity"},
		{"PATCH", p, `{"component_product_id":null,"quantity":null}`, "component_product_id quantity"},
		{"PATCH", p, `{"component_product_id":7,"quantity":"2"}`, "component_product_id quantity"},
		{"GET", products + "/x", "", "id"},
		{"POST", products + "/x/recalculate", "", "id"},
		{"PATCH", products + "/x/materials/y", `{}`, "id material_id"},
		{"DELETE", products + "/x/components/y", "", "id component_id"},
	} {
		var body any
		if r.body != "" {
			body = r.body
		}
		c.Do(t, r.method, r.path, body).Fields(strings.Fields(r.fields)...)
	}
	c.Get(t, path).
		Shows(map[string]string{"name": "Dragon", "materials.0.weight_grams": "1", "components.0.quantity": "1"})
	c.Get(t, products).Shows(map[string]string{"total": "2"})
	c.Post(t, products, j{"name": "x", "materials": []j{}, "components": []j{}, "total_cost": 5, "id": "x"}).
		Want(201).Shows(map[string]string{"total_cost": "0"})
	// Null for a field that is not required is the same as no field.
	c.Post(t, path+"/components", j{"component_product_id": strings.ToUpper(idOf(createProduct(t, c, "Tail"))),
		"quantity": nil}).Want(201).Shows(map[string]string{"quantity": "1"})
	c.Post(t, path+"/materials", j{"material_type": "PLA", "color": "x", "weight_grams": 1, "is_required": nil}).
		Want(201).Shows(map[string]string{"is_required": "true"})
}

// The checks of the tables allow the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "product_materials", "material_type", inventory.MaterialType("").Enum())
}

func TestCreateProductWithLists(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	createSpool(t, c, "PLA", "Black", 25)
	createSpool(t, c, "PETG", "Red", 40)
	wing := c.Post(t, products, j{"name": "Wing", "materials": []j{
		{"material_type": "PLA", "color": "black", "weight_grams": 10}}}).Want(201).
		Shows(map[string]string{"total_cost": "0.25"}).ID()
	tail := idOf(createProduct(t, c, "Tail"))
	created := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "materials": []j{
		{"material_type": "PETG", "color": "Red", "weight_grams": 100, "notes": "Body"},
		{"material_type": "Nylon", "color": "Red", "weight_grams": 5, "is_required": false},
	}, "components": []j{{"component_product_id": wing, "quantity": 2},
		{"component_product_id": tail, "notes": "x"}}}).
		Want(201).Shows(map[string]string{
		"material_cost": "4", "component_cost": "0.5", "total_cost": "4.5",
		"materials.0.material_type": "PETG", "materials.0.cost": "4", "materials.0.is_required": "true",
		"materials.0.notes": "Body", "materials.1.material_type": "Nylon", "materials.1.cost": "null",
		"materials.1.is_required": "false", "components.0.component_name": "Wing", "components.0.quantity": "2",
		"components.0.unit_cost": "0.25", "components.0.cost": "0.5", "components.1.component_name": "Tail",
		"components.1.quantity": "1", "components.1.notes": "x",
	})
	path := products + "/" + created.ID()
	if got := c.Get(t, path).Want(200); string(got.Body) != string(created.Body) {
		t.Errorf("the product is %s, and its creation returned %s", got.Body, created.Body)
	}
	// A change below the new product reaches it.
	addMaterial(t, c, products+"/"+tail, "PLA", "Black", 100)
	c.Get(t, path).Want(200).Shows(map[string]string{"component_cost": "3", "total_cost": "7"})
	c.Post(t, products+"/"+wing+"/components", j{"component_product_id": created.ID()}).WantError(400,
		"COMPONENT_CYCLE")
	c.Post(t, products, j{"name": "x", "materials": nil, "components": []j{}}).Want(201)

	// An invalid entry creates nothing, and is named.
	hidden := createProduct(t, c, "Hidden")
	c.Delete(t, hidden).Want(204)
	theirs := idOf(createProduct(t, api.Operator(t), "Theirs"))
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	component := func(id string) j { return j{"component_product_id": id} }
	total := c.Get(t, products).Text("total")
	for _, test := range []struct {
		body         j
		code, detail string
	}{
		{j{"name": "x", "materials": []j{material}, "components": []j{component(wing), component(idOf(hidden)),
			component(tail), component(theirs)}}, "UNKNOWN_REFERENCE",
			"Not a product: components[1].component_product_id, components[3].component_product_id"},
		{j{"name": "x", "components": []j{component(wing), component(tail), component(wing)}}, "DUPLICATE_COMPONENT",
			"components[2].component_product_id is the same product as components[0].component_product_id"},
		{j{"name": "x", "sku": "DRG", "materials": []j{material}}, "DUPLICATE_SKU", "Another product has the SKU DRG"},
	} {
		status := 409
		if test.code == "UNKNOWN_REFERENCE" {
			status = 400
		}
		testkit.Equal(t, c.Post(t, products, test.body).WantError(status, test.code).Text("detail"), test.detail,
			"the detail")
	}
	c.Post(t, products, j{"name": "x", "materials": []j{material, {"material_type": "Wood", "color": " "}},
		"components": []j{{"component_product_id": "x", "quantity": 0}}}).
		Fields("materials[1].material_type", "materials[1].color", "materials[1].weight_grams",
			"components[0].component_product_id", "components[0].quantity")
	c.Post(t, spools, j{"material_type": "PC", "color": "Clear", "diameter_mm": 1.75, "net_weight_grams": 0.001,
		"purchase_price": 999_999}).Want(201)
	gold := j{"material_type": "PC", "color": "Clear", "weight_grams": 1}
	c.Post(t, products, j{"name": "x", "materials": []j{material, {"material_type": "PC", "color": "Clear",
		"weight_grams": 1000}}, "components": []j{component(wing)}}).Fields("materials")
	rich := c.Post(t, products, j{"name": "Rich", "materials": []j{gold}}).Want(201).ID()
	c.Post(t, products, j{"name": "x", "components": []j{{"component_product_id": rich, "quantity": 2}}}).
		Fields("components")
	var n int
	fmt.Sscan(total, &n)
	c.Get(t, products).Want(200).Shows(map[string]string{"total": fmt.Sprint(n + 1)})
	c.Get(t, products+"?search=x").Want(200).Shows(map[string]string{"total": "1"})
}

// A product has at most 500 materials and 500 components, also when concurrent requests add them.
func TestFullLists(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	var parts []string
	for range 4 {
		parts = append(parts, idOf(createProduct(t, c, "Part")))
	}
	var materials []j
	for range 498 {
		materials = append(materials, material)
	}
	c.Post(t, products, j{"name": "x",
		"materials": append(materials, material, material, material)}).Fields("materials")
	path := products + "/" + c.Post(t, products, j{"name": "Whole", "materials": materials}).Want(201).ID()
	// Components of different products: inserted here, because creating 498 products takes long.
	insert(t, c, `
		with part as (
			insert into products (id, name) select uuid_v7(), 'Part' from generate_series(1, 498) returning id
		)
		insert into product_components (id, product_id, component_product_id) select uuid_v7(), $1::uuid, id from part`,
		idOf(path))
	for name, body := range map[string]func(i int) j{
		"materials":  func(int) j { return material },
		"components": func(i int) j { return j{"component_product_id": parts[i%4]} },
	} {
		testkit.Race(t, 4, func(i int) (*testkit.Response, error) {
			return c.Send("POST", path+"/"+name, body(i))
		}).Want(t, map[string]int{"201": 2, "422 VALIDATION_ERROR": 2})
	}
	full := c.Get(t, path).Want(200)
	if m, n := len(full.List("materials")), len(full.List("components")); m != 500 || n != 500 {
		t.Errorf("the product has %d materials and %d components, want 500", m, n)
	}
	c.Post(t, path+"/materials", material).Fields("materials")
	for _, part := range parts { // two of them are components already, which is reported first
		if a := c.Post(t, path+"/components", j{"component_product_id": part}); a.Status == 422 {
			a.Fields("components")
		} else {
			a.WantError(409, "DUPLICATE_COMPONENT")
		}
	}
	c.Patch(t, path+"/materials/"+full.Text("materials.0.id"), j{"weight_grams": 2}).Want(200)
	c.Patch(t, path+"/components/"+full.Text("components.0.id"), j{"quantity": 2}).Want(200)
	c.Delete(t, path+"/materials/"+full.Text("materials.0.id")).Want(204)
	c.Post(t, path+"/materials", material).Want(201)
}

// Notes of materials and components have at most 2,000 characters.
func TestLongNotes(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	path, part := createProduct(t, c, "Whole"), createProduct(t, c, "Part")
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	limit, long := strings.Repeat("ä", 2000), strings.Repeat("ä", 2001)
	material["notes"] = long
	c.Post(t, path+"/materials", material).Fields("notes")
	c.Post(t, path+"/components", j{"component_product_id": idOf(part), "notes": long}).Fields("notes")
	c.Post(t, products, j{"name": "x", "materials": []j{material}}).Fields("materials[0].notes")
	for _, entry := range []string{addMaterial(t, c, path, "PLA", "Black", 1), addComponent(t, c, path, part, 1)} {
		c.Patch(t, entry, j{"notes": limit}).Want(200).Shows(map[string]string{"notes": limit})
		c.Patch(t, entry, j{"notes": long}).Fields("notes")
	}
}

// Components name their product by its id or its SKU.
func TestNamedComponents(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	product := func(c *testkit.Client, sku string) string {
		return c.Post(t, products, j{"name": "Part " + sku, "sku": sku}).Want(201).ID()
	}
	wing, tail := product(c, "WING"), product(c, "TAIL")
	c.Delete(t, products+"/"+product(c, "GONE")).Want(204)
	product(other, "THEIRS")

	created := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "components": []j{
		{"sku": " TAIL ", "quantity": 3}, {"component_product_id": wing}}}).Want(201).
		Shows(map[string]string{"components.0.component_product_id": tail, "components.0.quantity": "3",
			"components.1.component_product_id": wing})
	dragon := products + "/" + created.ID()
	part := dragon + "/components/" + created.Text("components.0.id")
	c.Delete(t, part).Want(204)
	part = dragon + "/components/" + c.Post(t, dragon+"/components", j{"sku": "TAIL", "notes": "x"}).Want(201).
		Shows(map[string]string{"component_product_id": tail, "notes": "x"}).ID()
	head := product(c, "HEAD")
	c.Patch(t, part, j{"sku": "HEAD"}).Want(200).Shows(map[string]string{"component_product_id": head, "notes": "x"})
	c.Patch(t, part, j{"sku": "HEAD", "quantity": 2}).Want(200).Shows(map[string]string{"quantity": "2"})
	c.Patch(t, part, j{"sku": "TAIL", "quantity": 4}).Want(200).
		Shows(map[string]string{"component_product_id": tail, "quantity": "4"})

	for _, sku := range []string{"THEIRS", "GONE", "tail", ""} {
		unknown := map[string]string{"code": "UNKNOWN_REFERENCE", "detail": fmt.Sprintf("sku %q does not name a product", sku),
			"errors.0.field": "sku"}
		c.Patch(t, part, j{"sku": sku}).Want(400).Shows(unknown)
		if sku != "" {
			c.Post(t, dragon+"/components", j{"sku": sku}).Want(400).Shows(unknown)
			c.Post(t, products, j{"name": "x", "components": []j{{"sku": "WING"}, {"sku": sku}}}).Want(400).
				Shows(map[string]string{"code": "UNKNOWN_REFERENCE", "errors.0.field": "components[1].sku"})
		}
	}
	duplicate := map[string]string{"code": "DUPLICATE_COMPONENT", "errors.0.field": "sku"}
	c.Post(t, dragon+"/components", j{"sku": "WING"}).Want(409).Shows(duplicate)
	c.Patch(t, part, j{"sku": "WING"}).Want(409).Shows(duplicate)
	duplicate["errors.0.field"] = "components[2].sku"
	duplicate["detail"] = "components[2].sku is the same product as components[1].component_product_id"
	c.Post(t, products, j{"name": "x", "components": []j{{"sku": "TAIL"}, {"component_product_id": wing},
		{"sku": "WING"}, {"sku": "TAIL"}}}).Want(409).Shows(duplicate)
	c.Post(t, products+"/"+tail+"/components", j{"sku": "DRG"}).Want(400).
		Shows(map[string]string{"code": "COMPONENT_CYCLE", "errors.0.field": "sku"})
	c.Get(t, products+"?search=x").Want(200).Shows(map[string]string{"total": "0"})

	c.Post(t, dragon+"/components", j{"sku": ""}).Fields("component_product_id")
	c.Post(t, dragon+"/components", j{"sku": "HEAD", "component_product_id": head}).Fields("sku")
	c.Patch(t, part, j{"sku": "HEAD", "component_product_id": head}).Fields("sku")
	c.Patch(t, part, j{"sku": nil}).Fields("sku")
	c.Post(t, products, j{"name": "x", "components": []j{{}, {"sku": "HEAD", "component_product_id": head}}}).
		Fields("components[0].component_product_id", "components[1].sku")
}

// The tree has each product at each of its places, in order, and ends at the limit with the highest levels.
func TestComponentTree(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	c := a.Operator(t)
	createSpool(t, c, "PLA", "Black", 20)
	rack, hook, screw := createProduct(t, c, "Rack"), createProduct(t, c, "Hook"), createProduct(t, c, "Screw")
	addMaterial(t, c, hook, "PLA", "Black", 50)
	addMaterial(t, c, screw, "PLA", "Black", 2.5)
	addComponent(t, c, hook, screw, 2)
	addComponent(t, c, rack, hook, 3)
	loose := addComponent(t, c, rack, screw, 4)
	c.Get(t, rack+"/component-tree").Want(200).Shows(map[string]string{
		"product_id": idOf(rack), "total_cost": "3.5", "entries_complete": "true",
		"entries.0.component_name": "Hook", "entries.0.level": "1", "entries.0.quantity": "3",
		"entries.0.total_quantity": "3", "entries.0.material_cost": "3", "entries.0.cost": "3.3",
		"entries.1.component_name": "Screw", "entries.1.level": "2", "entries.1.quantity": "2",
		"entries.1.total_quantity": "6", "entries.1.material_cost": "0.3", "entries.1.cost": "0.3",
		"entries.2.id": idOf(loose), "entries.2.component_name": "Screw", "entries.2.level": "1",
		"entries.2.total_quantity": "4", "entries.2.cost": "0.2", "entries.2.costs_complete": "true"})
	c.Get(t, rack+"/component-tree?limit=2").Want(200).Shows(map[string]string{"entries_complete": "false",
		"entries.0.component_name": "Hook", "entries.1.component_name": "Screw", "entries.1.level": "1"})
	c.Get(t, screw+"/component-tree").Want(200).Shows(map[string]string{"entries": "[]", "entries_complete": "true"})
	for _, limit := range []string{"0", "501", "x"} {
		c.Get(t, rack+"/component-tree?limit="+limit).Fields("limit")
	}
	a.Operator(t).Get(t, rack+"/component-tree").WantError(404, "NOT_FOUND")

	// Each round doubles the entries at the bottom: without the limit, there would be millions.
	top := idOf(createProduct(t, c, "Pin"))
	made := func(name string, parts ...j) string {
		return c.Post(t, products, j{"name": name, "components": parts}).Want(201).ID()
	}
	for range 20 {
		left := made("Left", j{"component_product_id": top, "quantity": 1_000_000})
		right := made("Right", j{"component_product_id": top})
		top = made("Both", j{"component_product_id": left}, j{"component_product_id": right})
	}
	tree := c.Get(t, products+"/"+top+"/component-tree").Want(200)
	testkit.Equal(t, len(tree.List("entries")), 500, "entries")
	tree.Shows(map[string]string{"entries_complete": "false", "entries.1.total_quantity": "1000000",
		"entries.3.component_name": "Both", "entries.3.total_quantity": "null"})
}
