package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// A change of a price takes effect when a product is changed or recalculated, and not before.
func TestPriceChangesTakeEffectLater(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	black := createSpool(t, c, "PLA", "Black", 10)
	top, middle, bottom, aside := createProduct(t, c, "Top"), createProduct(t, c, "Middle"),
		createProduct(t, c, "Bottom"), createProduct(t, c, "Aside")
	addComponent(t, c, top, middle, 2)
	inMiddle := addComponent(t, c, middle, bottom, 3)
	addComponent(t, c, aside, bottom, 1)
	for _, p := range []string{top, middle, bottom, aside} {
		addMaterial(t, c, p, "PLA", "black", 100)
	}
	totals := func(when, wantTop, wantMiddle, wantBottom, wantAside string) {
		t.Helper()
		for path, want := range map[string]string{top: wantTop, middle: wantMiddle, bottom: wantBottom,
			aside: wantAside} {
			if a := c.Get(t, path); a.Text("total_cost") != want {
				t.Errorf("%s: %s costs %s, want %s", when, a.Text("name"), a.Text("total_cost"), want)
			}
		}
	}
	totals("at 0.01", "9", "4", "1", "2")

	c.Patch(t, black, j{"purchase_price": 20}).Want(200)
	totals("before any product is changed", "9", "4", "1", "2")
	c.Patch(t, inMiddle, j{"quantity": 2}).Want(200)
	totals("after middle was changed", "9", "4", "1", "2") // two components of 1, and the material at the new price
	c.Get(t, middle).Shows(map[string]string{"material_cost": "2", "component_cost": "2"})
	c.Get(t, top).Shows(map[string]string{"material_cost": "1", "component_cost": "8"})

	// All products follow that contain a product below the recalculated one, even those that do not contain it.
	c.Post(t, middle+"/recalculate", nil).Want(200).
		Shows(map[string]string{"material_cost": "2", "component_cost": "4", "total_cost": "6"})
	totals("after middle was recalculated", "13", "6", "2", "3")
	c.Get(t, aside).Shows(map[string]string{"material_cost": "1", "component_cost": "2"})
	c.Post(t, top+"/recalculate", nil).Want(200)
	totals("after top was recalculated", "14", "6", "2", "3")
}

// Prices are not rounded, so that costs are rounded once: 1/30 of 0.030015 is 0.0010005, but 0.033333 times 0.030015
// is less.
func TestCostsAreRoundedOnce(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for _, price := range []int{25, 25, 50} {
		createSpool(t, c, "PLA", "Black", price)
	}
	p := createProduct(t, c, "Small")
	for grams, want := range map[string]string{"0.030015": "0.001001", "0.000015": "0.000001", "0.000014": "0",
		"0.030014": "0.001", "900000": "30000", "1000000": "33333.333333", "500000": "16666.666667"} {
		c.Post(t, p+"/materials", `{"material_type":"PLA","color":"black","weight_grams":`+grams+`}`).Want(201).
			Shows(map[string]string{"weight_grams": grams, "cost": want})
	}
}

func TestComponentErrors(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var p [6]string // 0 contains 1, 1 contains 2 and 3, which contain 4; 5 is not contained
	for i := range p {
		p[i] = createProduct(t, c, fmt.Sprint("Product ", i))
	}
	edges := map[[2]int]string{}
	for _, e := range [][2]int{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 4}} {
		edges[e] = addComponent(t, c, p[e[0]], p[e[1]], 1)
	}
	for _, r := range []struct {
		from, to int
		code     string
	}{
		{0, 0, "COMPONENT_CYCLE"}, {1, 0, "COMPONENT_CYCLE"}, {4, 0, "COMPONENT_CYCLE"}, {4, 1, "COMPONENT_CYCLE"},
		{4, 3, "COMPONENT_CYCLE"},
		{0, 1, "DUPLICATE_COMPONENT"}, {3, 4, "DUPLICATE_COMPONENT"},
	} {
		c.Post(t, p[r.from]+"/components", j{"component_product_id": idOf(p[r.to]), "quantity": 2}).
			WantError(componentStatus[r.code], r.code)
	}
	for _, r := range []struct {
		edge [2]int
		to   int
		code string
	}{
		{[2]int{1, 2}, 0, "COMPONENT_CYCLE"}, {[2]int{2, 4}, 1, "COMPONENT_CYCLE"},
		{[2]int{2, 4}, 2, "COMPONENT_CYCLE"}, {[2]int{1, 2}, 3, "DUPLICATE_COMPONENT"},
	} {
		c.Patch(t, edges[r.edge], j{"component_product_id": idOf(p[r.to]), "quantity": 7}).
			WantError(componentStatus[r.code], r.code)
		c.Get(t, p[r.edge[0]]).
			Shows(map[string]string{"components.0.quantity": "1",
				"components.0.component_product_id": idOf(p[r.edge[1]])})
	}
	// An unknown component or product is reported first.
	c.Patch(t, p[0]+"/components/"+value.NewID(), j{"component_product_id": idOf(p[0])}).WantError(404, "NOT_FOUND")
	c.Post(t, products+"/"+value.NewID()+"/components", j{"component_product_id": value.NewID()}).
		WantError(404, "NOT_FOUND")

	c.Patch(t, edges[[2]int{1, 2}], j{"component_product_id": idOf(p[2])}).Want(200) // the current value
	c.Patch(t, edges[[2]int{1, 2}], j{"component_product_id": idOf(p[5]), "quantity": 9}).Want(200).
		Shows(map[string]string{"component_name": "Product 5", "quantity": "9"})
	addComponent(t, c, p[2], p[0], 1) // 0 does not contain 2 any more
	c.Delete(t, edges[[2]int{2, 4}]).Want(204)
	c.Post(t, p[4]+"/components", j{"component_product_id": idOf(p[2])}).WantError(400, "COMPONENT_CYCLE")
	for i := 1; i < 6; i++ {
		if i != 2 {
			c.Delete(t, p[i]).WantError(400, "PRODUCT_IN_USE")
		}
	}
}

// A request that fails changes nothing; it does not update the costs to the current prices either.
func TestFailedRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a, b := createProduct(t, c, "A"), createProduct(t, c, "B")
	black := createSpool(t, c, "PLA", "Black", 10)
	addMaterial(t, c, a, "PLA", "Black", 100)
	p := addComponent(t, c, a, b, 1)
	before := string(c.Get(t, a).Want(200).Body)
	c.Patch(t, black, j{"purchase_price": 20}).Want(200)

	c.Post(t, a+"/components", j{"component_product_id": idOf(a)}).WantError(400, "COMPONENT_CYCLE")
	c.Post(t, a+"/components", j{"component_product_id": idOf(b)}).WantError(409, "DUPLICATE_COMPONENT")
	c.Post(t, a+"/components", j{"component_product_id": value.NewID()}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, p, j{"component_product_id": idOf(a)}).WantError(400, "COMPONENT_CYCLE")
	c.Patch(t, a+"/materials/"+value.NewID(), j{"weight_grams": 1}).WantError(404, "NOT_FOUND")
	c.Delete(t, a+"/materials/"+value.NewID()).WantError(404, "NOT_FOUND")
	c.Patch(t, a+"/components/"+value.NewID(), j{"quantity": 1}).WantError(404, "NOT_FOUND")
	c.Delete(t, a+"/components/"+value.NewID()).WantError(404, "NOT_FOUND")
	c.Delete(t, b).WantError(400, "PRODUCT_IN_USE")
	testkit.Equal(t, string(c.Get(t, a).Want(200).Body), before, "the products have changed")
}

func TestCostsTooLarge(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	// 500,000,000 per gram
	gold := spools + "/" + c.Post(t, spools, j{"material_type": "Custom", "color": "Gold", "diameter_mm": 1.75,
		"net_weight_grams": 0.002, "purchase_price": 1_000_000}).Want(201).ID()
	child, parent, top := createProduct(t, c, "Child"), createProduct(t, c, "Parent"), createProduct(t, c, "Top")
	m := addMaterial(t, c, child, "Custom", "Gold", 1)
	p := addComponent(t, c, parent, child, 1)
	addMaterial(t, c, parent, "Custom", "Gold", 0.9)
	cheap := addMaterial(t, c, parent, "PLA", "Gold", 1_000_000)
	addComponent(t, c, top, parent, 1)
	read := func() string {
		return string(c.Get(t, child).Body) + string(c.Get(t, parent).Body) + string(c.Get(t, top).Body)
	}
	c.Get(t, top).Shows(map[string]string{"total_cost": "950000000"})

	before := read()
	more := j{"material_type": "Custom", "color": "Gold", "weight_grams": 1.1}
	c.Post(t, child+"/materials", more).Fields("weight_grams")
	c.Post(t, parent+"/materials", more).Fields("weight_grams")
	// the cost of the material itself
	c.Post(t, top+"/materials", j{"material_type": "Custom", "color": "Gold", "weight_grams": 1_000_000}).
		Fields("weight_grams")
	// the cost of top, two levels above
	c.Patch(t, m, j{"weight_grams": 1.2}).Fields("weight_grams")
	c.Patch(t, m, j{"weight_grams": 1_000_000, "color": "Gold"}).Fields("weight_grams")
	c.Patch(t, cheap, j{"material_type": "Custom"}).Fields("material_type")
	c.Patch(t, p, j{"quantity": 2}).Fields("quantity")
	c.Patch(t, p, j{"quantity": 1_000_000}).Fields("quantity")
	c.Post(t, top+"/components", j{"component_product_id": idOf(child)}).Fields("component_product_id")
	c.Post(t, top+"/components", j{"component_product_id": idOf(child), "quantity": 1}).Fields("quantity")
	box := createProduct(t, c, "Box")
	inBox := addComponent(t, c, box, createProduct(t, c, "Nothing"), 3)
	c.Patch(t, inBox, j{"component_product_id": idOf(child)}).Fields("component_product_id")
	testkit.Equal(t, read(), before, "the products have changed")
	// 999,999,999 is not too large.
	c.Patch(t, m, j{"weight_grams": 1.099998}).Want(200)
	filler := c.Post(t, spools, j{"material_type": "ABS", "color": "Grey", "diameter_mm": 1.75, "net_weight_grams": 1,
		"purchase_price": 1}).Want(201)
	exact := c.Post(t, top+"/materials", j{"material_type": "ABS", "color": "Grey", "weight_grams": 999}).Want(201)
	c.Get(t, top).Shows(map[string]string{"total_cost": "999999999"})
	c.Patch(t, top+"/materials/"+exact.ID(), j{"weight_grams": 999.000001}).Fields("weight_grams")
	c.Delete(t, spools+"/"+filler.ID()).Want(204)

	// A higher price alone makes the costs too large.
	c.Patch(t, gold, j{"purchase_price": 1_000_000, "net_weight_grams": 0.0011}).Want(200)
	before = read()
	c.Post(t, top+"/recalculate", nil).Fields("total_cost")
	c.Delete(t, cheap).Fields("total_cost")
	c.Patch(t, p, j{"notes": "x"}).Fields("total_cost")
	testkit.Equal(t, read(), before, "the products have changed")
}

// Both requests of a pair would close a cycle together. In half of the twelve pairs the cycle is longer than two
// products. One request of each pair must fail.
func TestConcurrentCycles(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const pairs = 12
	var from, to [2 * pairs]string
	for i := range pairs {
		a, b := createProduct(t, c, "A"), createProduct(t, c, "B")
		endA, endB := a, b
		if i%2 == 1 {
			for range 3 {
				next := createProduct(t, c, "A below")
				addComponent(t, c, endA, next, 1)
				endA = next
			}
			next := createProduct(t, c, "B below")
			addComponent(t, c, endB, next, 1)
			endB = next
		}
		from[2*i], to[2*i] = endA, b
		from[2*i+1], to[2*i+1] = endB, a
	}
	answers := testkit.Race(t, 2*pairs, func(i int) (*testkit.Response, error) {
		return c.Send("POST", from[i]+"/components", j{"component_product_id": idOf(to[i])})
	})
	for i := range pairs {
		one, other := answers[2*i], answers[2*i+1]
		if one.Status == 400 {
			one, other = other, one
		}
		if one.Status != 201 || other.Status != 400 || !strings.Contains(string(other.Body), `"COMPONENT_CYCLE"`) {
			t.Errorf("pair %d: %d %s, %d %s", i, one.Status, one.Body, other.Status, other.Body)
		}
	}
}

// Of two concurrent requests, one that removes a product and one that adds it to another product, one must fail.
func TestConcurrentRemoval(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const pairs = 12
	var parents, parts [pairs]string
	for i := range pairs {
		parents[i], parts[i] = createProduct(t, c, "Parent"), createProduct(t, c, "Part")
	}
	answers := testkit.Race(t, 2*pairs, func(i int) (*testkit.Response, error) {
		if i%2 == 0 {
			return c.Send("DELETE", parts[i/2], nil)
		}
		return c.Send("POST", parents[i/2]+"/components", j{"component_product_id": idOf(parts[i/2])})
	})
	for i := range pairs {
		removed, added := answers[2*i], answers[2*i+1]
		kept := removed.Status == 400 && strings.Contains(string(removed.Body), `"PRODUCT_IN_USE"`) &&
			added.Status == 201
		gone := removed.Status == 204 && added.Status == 400 &&
			strings.Contains(string(added.Body), `"UNKNOWN_REFERENCE"`)
		if !kept && !gone {
			t.Errorf("pair %d: %d %s, %d %s", i, removed.Status, removed.Body, added.Status, added.Body)
		}
	}
}

// Concurrent changes on all levels of a tree result in the same costs as sequential ones.
func TestConcurrentCosts(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	createSpool(t, c, "PLA", "Black", 1000)
	const levels = 12
	var path, materials, components [levels]string
	for i := range levels {
		path[i] = createProduct(t, c, fmt.Sprint("Level ", i))
		materials[i] = addMaterial(t, c, path[i], "PLA", "Black", 1)
		if i > 0 {
			components[i] = addComponent(t, c, path[i], path[i-1], 1)
		}
		if i > 1 {
			addComponent(t, c, path[i], path[i-2], 1)
		}
	}
	for round := 2; round <= 4; round++ {
		answers := testkit.Race(t, 3*levels, func(i int) (*testkit.Response, error) {
			switch at := i / 3; {
			case i%3 == 0:
				return c.Send("PATCH", materials[at], j{"weight_grams": round * (at + 1)})
			case i%3 == 1 && at > 0:
				return c.Send("PATCH", components[at], j{"quantity": round})
			default:
				return c.Send("POST", path[at]+"/recalculate", nil)
			}
		})
		for _, a := range answers {
			testkit.Equal(t, a.Status, 200, "%s: %s", a.What, a.Body)
		}
		var total [levels]int
		for i := range levels {
			total[i] = round * (i + 1)
			if i > 0 {
				total[i] += round * total[i-1]
			}
			if i > 1 {
				total[i] += total[i-2]
			}
			c.Get(t, path[i]).Want(200).
				Shows(map[string]string{"total_cost": fmt.Sprint(total[i]),
					"material_cost": fmt.Sprint(round * (i + 1))})
		}
	}
}

// Components nest at most 50 levels deep, however the levels come together. A product that has more already, as
// earlier versions allowed, can still be changed, but gets no further level.
func TestComponentLevels(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const tooDeep = `"message":"nests components more than 50 levels deep"`
	refused := func(a *testkit.Response) {
		t.Helper()
		if a.Fields("component_product_id"); !strings.Contains(string(a.Body), tooDeep) {
			t.Errorf("%s: %s", a.What, a.Body)
		}
	}
	chain := func(products int) (all []string) { // the bottom first
		for i := range products {
			all = append(all, createProduct(t, c, fmt.Sprint("Product ", i)))
			if i > 0 {
				addComponent(t, c, all[i], all[i-1], 1)
			}
		}
		return all
	}
	upper, lower := chain(26), chain(25)
	m := addMaterial(t, c, lower[0], "PLA", "Black", 1)
	joint := addComponent(t, c, upper[0], lower[24], 1) // 51 products: 50 levels
	top, bottom := upper[25], lower[0]
	above, below := createProduct(t, c, "Above"), createProduct(t, c, "Below")
	refused(c.Post(t, above+"/components", j{"component_product_id": idOf(top)}))
	refused(c.Post(t, bottom+"/components", j{"component_product_id": idOf(below)}))
	aside := addComponent(t, c, above, below, 1)
	refused(c.Patch(t, aside, j{"component_product_id": idOf(top)}))
	c.Get(t, above).Want(200).Shows(map[string]string{"components.0.component_product_id": idOf(below)})
	c.Patch(t, joint, j{"quantity": 2}).Want(200)
	c.Patch(t, m, j{"weight_grams": 2}).Want(200)
	c.Delete(t, joint).Want(204)
	c.Post(t, above+"/components", j{"component_product_id": idOf(top)}).Want(201)

	insert(t, c, `
		with p as (
			insert into products (id, name, levels)
			select uuid_v7(), 'Old ' || n, n
			from generate_series(0, 60) n returning id, levels)
		insert into product_components (id, product_id, component_product_id)
		select uuid_v7(), a.id, b.id from p a join p b on b.levels = a.levels - 1`)
	old := func(n int) string {
		t.Helper()
		return products + "/" + c.Get(t, products+fmt.Sprintf("?search=Old%%20%d", n)).Want(200).Text("items.0.id")
	}
	addMaterial(t, c, old(0), "PLA", "Black", 1)
	c.Patch(t, old(60), j{"name": "Old 60, renamed"}).Want(200)
	c.Post(t, old(60)+"/components", j{"component_product_id": idOf(below)}).Want(201)
	c.Post(t, old(60)+"/recalculate", nil).Want(200)
	refused(c.Post(t, above+"/components", j{"component_product_id": idOf(old(60))}))
	refused(c.Post(t, old(0)+"/components", j{"component_product_id": idOf(below)}))
}

// newCountingAPI starts a service that counts its round trips to the database.
func newCountingAPI(t *testing.T) (*testkit.API, *atomic.Int64) {
	t.Helper()
	d, trips := testkit.CountTrips(t)
	return testkit.New(t, testkit.Options{DB: d}, inventory.Routes, catalog.Routes), trips
}

// insert inserts rows into the client's tenant, where a thousand requests would take too long.
func insert(t *testing.T, c *testkit.Client, sql string, args ...any) {
	t.Helper()
	testkit.Check(t, c.API.DB.Write(db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant}),
		db.SQL(sql, args...)))
}

// A required material without a price makes the costs of its product incomplete, and of the products that contain it.
func TestCostsComplete(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	createSpool(t, c, "PLA", "Black", 25)
	wing, dragon, fleet := createProduct(t, c, "Wing"), createProduct(t, c, "Dragon"), createProduct(t, c, "Fleet")
	addComponent(t, c, dragon, wing, 2)
	addComponent(t, c, fleet, dragon, 1)
	addMaterial(t, c, wing, "PLA", "Black", 10)
	want := func(when string, complete bool) {
		t.Helper()
		for _, path := range []string{wing, dragon, fleet} {
			if a := c.Get(t, path).Want(200); a.Value("costs_complete") != complete {
				t.Errorf("%s: costs_complete of %s is %s, want %v", when, a.Text("name"), a.Text("costs_complete"),
					complete)
			}
		}
		list := c.Get(t, products+"?sort_by=costs_complete").Want(200)
		for i := range list.List("items") {
			testkit.Equal(t, list.Value(fmt.Sprintf("items.%d.costs_complete", i)), any(complete),
				"%s: costs_complete in the list", when)
		}
	}
	want("with a price", true)
	material := addMaterial(t, c, wing, "Nylon", "Red", 5)
	want("with a required material without a price", false)
	c.Get(t, fleet).Want(200).Shows(map[string]string{"total_cost": "0.5"})
	c.Patch(t, material, j{"is_required": false}).Want(200)
	want("with an optional material without a price", true)
	c.Patch(t, material, j{"is_required": true}).Want(200)
	want("after the material became required", false)
	spool := createSpool(t, c, "Nylon", "White", 50)
	want("before recalculate", false)
	c.Post(t, dragon+"/recalculate", nil).Want(200).Shows(map[string]string{"costs_complete": "true"})
	want("after recalculate", true)
	c.Delete(t, spool).Want(204)
	c.Post(t, wing+"/recalculate", nil).Want(200).Shows(map[string]string{"costs_complete": "false"})
	want("without the spool", false)
	c.Post(t, spool+"/restore", nil).Want(200)
	c.Post(t, fleet+"/recalculate", nil).Want(200).Shows(map[string]string{"costs_complete": "true"})
	want("after the spool was restored", true)
	c.Delete(t, spool).Want(204)
	c.Post(t, wing+"/recalculate", nil).Want(200)
	c.Delete(t, material).Want(204)
	want("without the material", true)

	plain := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	unpriced := j{"material_type": "TPU", "color": "Black", "weight_grams": 1}
	c.Post(t, products, j{"name": "x",
		"materials": []j{plain}}).Want(201).Shows(map[string]string{"costs_complete": "true"})
	part := c.Post(t, products, j{"name": "y", "materials": []j{plain, unpriced}}).Want(201).
		Shows(map[string]string{"costs_complete": "false"}).ID()
	c.Post(t, products, j{"name": "z", "components": []j{{"component_product_id": part}}}).Want(201).
		Shows(map[string]string{"costs_complete": "false"})
	c.Post(t, products, j{"name": "empty", "costs_complete": false}).Want(201).
		Shows(map[string]string{"costs_complete": "true"})
}

// Blanks around short texts are removed, so that a material finds the price of a spool that was entered with a blank.
func TestBlanksAroundTexts(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	c.Post(t, spools, j{"material_type": "PLA", "color": " Jet Black\t", "brand": "\u00a0Prusament \u3000",
		"finish":      " ",
		"diameter_mm": 1.75, "net_weight_grams": 1000, "purchase_price": 25, "notes": "  kept  "}).Want(201).
		Shows(map[string]string{"color": "Jet Black", "brand": "Prusament", "finish": "", "notes": "  kept  "})
	c.Get(t, spools+"?color=%20jet%20black%20&brand=Prusament%20").Want(200).Shows(map[string]string{"total": "1"})
	product := c.Post(t, products,
		j{"name": " Desk lamp ", "sku": " DL-1 ", "category": "Home ", "description": " kept ",
			"materials": []j{{"material_type": "PLA", "color": "jet black ", "weight_grams": 10, "notes": " kept "}}}).
		Want(201).Shows(map[string]string{"name": "Desk lamp", "sku": "DL-1", "category": "Home",
		"description":       " kept ",
		"materials.0.color": "jet black", "materials.0.notes": " kept ", "total_cost": "0.25"}).ID()
	c.Post(t, products, j{"name": "x", "sku": "DL-1 "}).WantError(409, "DUPLICATE_SKU")
	c.Get(t, products+"?category=%20home&search=%20lamp%20").Want(200).Shows(map[string]string{"total": "1"})
	c.Patch(t, products+"/"+product, j{"name": "\n Lamp"}).Want(200).Shows(map[string]string{"name": "Lamp"})
	c.Patch(t, products+"/"+product, j{"name": " \u2003 "}).Fields("name")
	c.Patch(t, products+"/"+product, j{"name": strings.Repeat(" ", 50) + strings.Repeat("x", 200)}).Want(200)
}

// componentStatus is the status of an error that a change of a component causes.
var componentStatus = map[string]int{"COMPONENT_CYCLE": 400, "DUPLICATE_COMPONENT": 409}
