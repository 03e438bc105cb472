package catalog_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// A removed product is in the list of hidden products, and restore shows it again with its materials and components.
func TestHideAndRestoreProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 10}
	wing := c.Post(t, products, j{"name": "Wing", "sku": "W"}).Want(201).ID()
	created := c.Post(t, products, j{"name": "Dragon", "sku": "D", "materials": []j{material}, "components": []j{
		{"component_product_id": wing}}}).Want(201)
	dragon := products + "/" + created.ID()
	wing = products + "/" + wing
	before := c.Get(t, dragon).Want(200)
	c.Post(t, dragon+"/restore", nil).Want(200).Shows(map[string]string{"updated_at": before.Text("updated_at")})

	c.Delete(t, wing).WantError(400, "PRODUCT_IN_USE")
	c.Delete(t, dragon).Want(204)
	c.Delete(t, wing).Want(204)
	c.Get(t, products).Want(200).Shows(map[string]string{"total": "0"})
	hidden := c.Get(t, products+"?hidden=true").Want(200).Shows(map[string]string{"total": "2"})
	if hidden.Value("items.0.hidden_at") == nil {
		t.Errorf("hidden_at is null: %s", hidden.Body)
	}
	api.Operator(t).Post(t, dragon+"/restore", nil).WantError(404, "NOT_FOUND")

	c.Post(t, dragon+"/restore", nil).WantError(409, "COMPONENT_HIDDEN")
	other := products + "/" + c.Post(t, products, j{"name": "Other wing", "sku": "W"}).Want(201).ID()
	c.Post(t, wing+"/restore", nil).WantError(409, "DUPLICATE_SKU")
	c.Patch(t, other, j{"sku": nil}).Want(200)
	c.Post(t, wing+"/restore", nil).Want(200).Shows(map[string]string{"sku": "W"})
	c.Post(t, wing+"/materials", material).Want(201)
	c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": material["color"], "diameter_mm": 1.75,
		"net_weight_grams": 1000, "purchase_price": 20}).Want(201)
	c.Post(t, wing+"/recalculate", nil).Want(200) // the hidden dragon does not follow
	restored := c.Post(t, dragon+"/restore", nil).Want(200)
	cost := c.Get(t, wing).Text("total_cost")
	restored.Shows(map[string]string{"component_cost": cost, "material_cost": cost, "costs_complete": "true",
		"components.0.component_product_id": wing[strings.LastIndexByte(wing, '/')+1:]})
	if restored.Value("hidden_at") != nil || cost == "0" {
		t.Errorf("%s", restored.Body)
	}
	c.Get(t, products).Want(200).Shows(map[string]string{"total": "3"})
	c.Get(t, products+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
}

// Concurrent requests hide and restore products with one SKU. At most one of them is visible, and the total of the
// list stays the number of its products.
func TestConcurrentHideAndRestoreProducts(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var paths []string
	for range 2 {
		path := products + "/" + c.Post(t, products, j{"name": "x", "sku": "S"}).Want(201).ID()
		c.Delete(t, path).Want(204)
		paths = append(paths, path)
	}
	c.Post(t, paths[0]+"/restore", nil).Want(200) // the other one with the SKU is hidden
	c.Delete(t, paths[0]).Want(204)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 10 {
				method, rest, want := "DELETE", "", "204 404"
				if (n+i)%2 == 0 {
					method, rest, want = "POST", "/restore", "200 409"
				}
				a, err := c.Send(method, paths[n%2]+rest, nil)
				if err != nil || !strings.Contains(want, strconv.Itoa(a.Status)) {
					t.Errorf("%s: %v %+v", method, err, a)
				}
			}
		})
	}
	all.Wait()
	list := c.Get(t, products).Want(200)
	if n := len(list.List("items")); n > 1 || list.Text("total") != strconv.Itoa(n) {
		t.Errorf("%s", list.Body)
	}
}

// Nothing changes a product while it is hidden, nor its materials and components.
func TestHiddenStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	part := c.NewProduct(t, "PART", 5)
	product := products + "/" + c.NewProduct(t, "WHOLE", 10)
	component := c.Post(t, product+"/components", j{"component_product_id": part}).Want(201).ID()
	material := c.Get(t, product).Want(200).Text("materials.0.id")
	c.WantHiddenUnchanged(t, product, j{"name": "x", "sku": "x", "notes": "x", "selling_price": 1, "labour_minutes": 1,
		"minimum_pieces": 1, "pieces_per_plate": 2}, map[string]any{
		"POST /materials":                 j{"material_type": "PLA", "color": "Red", "weight_grams": 1},
		"PATCH /materials/" + material:    j{"weight_grams": 1},
		"DELETE /materials/" + material:   nil,
		"POST /components":                j{"component_product_id": c.NewProduct(t, "OTHER", 1)},
		"PATCH /components/" + component:  j{"quantity": 2},
		"DELETE /components/" + component: nil,
		"POST /recalculate":               nil,
	})
}

// A material cannot name a removed filament. One that has it keeps it, and cannot name it by its number any more.
func TestRemovedFilament(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Blue", "diameter_mm": 1.75}).Want(201)
	byID := j{"filament_id": filament.ID(), "weight_grams": 1}
	byNumber := j{"filament_number": json.Number(filament.Text("number")), "weight_grams": 1}
	product := products + "/" + c.NewProduct(t, "HOOK", 10)
	lamp := c.Post(t, products, j{"name": "Lamp", "materials": []j{byID}}).Want(201)
	dragon := c.Post(t, products, j{"name": "Dragon", "plates": []j{{"materials": []j{byID}}}}).Want(201)
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`update filaments set hidden_at = now()`)))
	for _, material := range []j{byID, byNumber} {
		c.Post(t, product+"/materials", material).WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, product+"/materials/"+c.Get(t, product).Text("materials.0.id"), material).
			WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, product, j{"plates": []j{{"materials": []j{material}}}}).WantError(400, "UNKNOWN_REFERENCE")
		c.Post(t, products, j{"name": "Shade", "materials": []j{material}}).WantError(400, "UNKNOWN_REFERENCE")
	}
	own := products + "/" + lamp.ID() + "/materials/" + lamp.Text("materials.0.id")
	c.Patch(t, own, byID).Want(200)
	c.Patch(t, own, byNumber).WantError(400, "UNKNOWN_REFERENCE")
	plate := j{"id": dragon.Text("plates.0.id"), "materials": []j{byID}}
	c.Patch(t, products+"/"+dragon.ID(), j{"plates": []j{plate}}).Want(200)
	plate["materials"] = []j{byNumber}
	c.Patch(t, products+"/"+dragon.ID(), j{"plates": []j{plate}}).WantError(400, "UNKNOWN_REFERENCE")
}

// A material, of a request or of a file, that names a filament which is being removed waits, and then there is no such
// filament.
func TestFilamentRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := products + "/" + c.NewProduct(t, "HOOK", 10)
	for status, send := range map[int]func(filament string) (*testkit.Response, error){
		400: func(filament string) (*testkit.Response, error) {
			return c.Send("POST", product+"/materials", j{"filament_id": filament, "weight_grams": 1})
		},
		422: func(filament string) (*testkit.Response, error) {
			return c.With("Content-Type", "text/csv").Send("POST", products+"/import",
				"name,materials.filament_id,materials.weight_grams\nLamp,"+filament+",1\n")
		},
	} {
		blue := j{"material_type": "PLA", "color": "Blue", "diameter_mm": 1.75}
		id := c.Post(t, "/api/v1/filaments", blue).Want(201).ID()
		h := c.Hold(t, `update filaments set hidden_at = now() where id = '`+id+`'`)
		var a *testkit.Response
		var err error
		done := h.StartWaiting(1, func() { a, err = send(id) })
		h.Commit()
		<-done
		testkit.Check(t, err)
		testkit.Equal(t, a.Status, status, "%s: %s", a.What, a.Body)
	}
}

// A removed product keeps its costs when those of its components change, and nobody computes them again.
func TestRemovedProductKeepsCosts(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, "PLA", "Black", 20)
	wing, dragon := createProduct(t, c, "Wing"), createProduct(t, c, "Dragon")
	addMaterial(t, c, wing, "PLA", "Black", 10)
	addComponent(t, c, dragon, wing, 1)
	c.Delete(t, dragon).Want(204)
	addMaterial(t, c, wing, "PLA", "Black", 10)
	addMaterial(t, c, wing, "Nylon", "Red", 1) // has no price
	c.Patch(t, spool, j{"purchase_price": 40}).Want(200)
	c.Post(t, dragon+"/recalculate", nil).WantError(404, "NOT_FOUND")
	c.Get(t, wing).Want(200).Shows(map[string]string{"total_cost": "0.4", "costs_complete": "false"})
	c.Get(t, products+"?hidden=true").Want(200).Shows(map[string]string{"items.0.id": idOf(dragon),
		"items.0.total_cost": "0.2", "items.0.costs_complete": "true"})
}

// An edit with If-Match waits for a transaction that changes the product, and then compares with the newest version.
func TestEditWaitsForProduct(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	path := createProduct(t, c, "Hook")
	edit := c.With("If-Match", c.Get(t, path).Want(200).Header.Get("ETag"))
	h := c.Hold(t, `update products set notes = 'x', updated_at = now() where id = '`+idOf(path)+`'`)
	var a *testkit.Response
	var err error
	done := h.StartWaiting(1, func() { a, err = edit.Send("PATCH", path, j{"name": "x"}) })
	h.Commit()
	<-done
	testkit.Check(t, err)
	testkit.Equal(t, a.Status, 412, "the edit: %s", a.Body)
}
