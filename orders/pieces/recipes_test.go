package pieces_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// visible returns the rows of the table that were not removed.
func (l ledger) visible(table string) []row { return l.where(table, "hidden_at", nil) }

// price returns the price per gram of the filament of a product's material, or nil if no spool has one.
func (l ledger) price(material row) *big.Rat {
	for _, anyColor := range []bool{false, true} {
		paid, grams, prices, count := new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
		for _, s := range l.visible("spools") {
			price := s.rat("cost_per_gram")
			if price != nil && s["material_type"] == material["material_type"] &&
				(anyColor || strings.EqualFold(s["color"].(string), material["color"].(string))) {
				paid, grams = sum(paid, times(price, s.rat("remaining_weight_grams"))), sum(grams, s.rat("remaining_weight_grams"))
				prices, count = sum(prices, price), sum(count, whole(1))
			}
		}
		switch {
		case grams.Sign() > 0:
			return quo(paid, grams)
		case count.Sign() > 0:
			return quo(prices, count)
		}
	}
	return nil
}

// materialCost returns what the filament of a product costs without its components, and whether it is all known.
func (l ledger) materialCost(product any) (cost *big.Rat, complete bool) {
	cost, complete = new(big.Rat), true
	for _, m := range l.where("product_materials", "product_id", product) {
		cost = sum(cost, m.rat("cost"))
		complete = complete && (m["cost"] != nil || m["is_required"] != true)
	}
	return cost, complete
}

// totalCost returns what the filament of a product costs with its components, and whether it is all known.
func (l ledger) totalCost(product any) (cost *big.Rat, complete bool) {
	cost, complete = l.materialCost(product)
	for _, c := range l.where("product_components", "product_id", product) {
		one, known := l.totalCost(c["component_product_id"])
		cost, complete = sum(cost, times(one, c.rat("quantity"))), complete && known
	}
	return cost, complete
}

// componentError returns the code of the error if the product cannot have the component, or "". changed is the
// component that it would replace, or nil.
func (l ledger) componentError(product, component row, changed any) string {
	if component["hidden_at"] != nil {
		return "UNKNOWN_REFERENCE"
	}
	if l.tree(component["id"])[product["id"]] > 0 {
		return "COMPONENT_CYCLE"
	}
	for _, c := range l.where("product_components", "product_id", product["id"]) {
		if c["component_product_id"] == component["id"] && c["id"] != changed {
			return "DUPLICATE_COMPONENT"
		}
	}
	return ""
}

// A change is one request that changes spools or products. If it succeeds, the materials of the products repriced get
// the current prices. Otherwise the error has the code.
type change struct {
	method, path string
	body         any
	repriced     map[any]int64
	code         string
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// randomChange returns a change of the farm. It removes only products and spools that earlier changes created: the
// products Extra, and spools that are not Black.
func (l ledger) randomChange(r *rand.Rand) change {
	decimal := func(most int) json.Number {
		return json.Number(fmt.Sprintf("%d.%06d", r.IntN(most), r.IntN(1_000_000)))
	}
	color, material := oneOf(r, "black", "Blue", "BLUE", "Grün", "GRÜN"), oneOf(r, "PLA", "PETG", "ABS")
	product, all := oneOf(r, l.visible("products")...), l.visible("spools")
	spool := all[max(r.IntN(len(all)), r.IntN(len(all)))]
	url, of := products+"/"+product["id"].(string), map[any]int64{product["id"]: 1}
	materials := l.where("product_materials", "product_id", product["id"])
	components := l.where("product_components", "product_id", product["id"])
	extra := slices.DeleteFunc(l.visible("products"), func(p row) bool {
		return !strings.HasPrefix(p["name"].(string), "Extra")
	})
	price := oneOf[any](r, nil, decimal(100), decimal(100), decimal(100))
	switch n := r.IntN(18) - 4; {
	case n < -1:
		return change{method: "POST", path: spools, body: j{"material_type": material, "color": color, "diameter_mm": 1.75,
			"net_weight_grams": 1000, "remaining_weight_grams": oneOf(r, "0", decimal(1000)), "purchase_price": price}}
	case n <= 0 && spool["color"] != "Black":
		return change{method: "DELETE", path: spools + "/" + spool["id"].(string)}
	case n == 1 && spool["color"] != "Black":
		return change{method: "PATCH", path: spools + "/" + spool["id"].(string), body: j{"remaining_weight_grams": 0}}
	case n <= 2:
		return change{method: "PATCH", path: spools + "/" + spool["id"].(string), body: j{"purchase_price": price}}
	case n == 3:
		return change{method: "POST", path: products, body: j{"name": fmt.Sprint("Extra ", len(l["products"]))}}
	case n == 4 && len(extra) > 0:
		gone, code := oneOf(r, extra...)["id"], ""
		for _, c := range l.where("product_components", "component_product_id", gone) {
			if l.one("products", c["product_id"])["hidden_at"] == nil {
				code = "PRODUCT_IN_USE"
			}
		}
		return change{method: "DELETE", path: products + "/" + gone.(string), code: code}
	case n <= 6 || len(materials) == 0 && n <= 8:
		return change{method: "POST", path: url + "/materials", repriced: of, body: j{
			"material_type": oneOf(r, material, material, material, "TPU"), // no spool is of TPU
			"color":         oneOf(r, color, color, "Never on a spool"), "weight_grams": decimal(500) + "1",
			"is_required": r.IntN(4) > 0}}
	case n <= 8:
		return change{method: oneOf(r, "PATCH", "PATCH", "DELETE"), path: url + "/materials/" +
			oneOf(r, materials...)["id"].(string), repriced: of, body: oneOf(r, j{"weight_grams": decimal(500) + "1"},
			j{"color": color}, j{"material_type": material}, j{"is_required": r.IntN(2) == 0})}
	case n <= 10 || len(components) == 0 && n <= 12:
		other := oneOf(r, l["products"]...)
		return change{method: "POST", path: url + "/components", repriced: of, code: l.componentError(product, other, nil),
			body: j{"component_product_id": other["id"], "quantity": oneOf(r, 1, 1, 2, 3)}}
	case n == 11:
		other, changed := oneOf(r, l["products"]...), oneOf(r, components...)["id"]
		return change{method: "PATCH", path: url + "/components/" + changed.(string), repriced: of,
			code: l.componentError(product, other, changed),
			body: j{"component_product_id": other["id"], "quantity": oneOf(r, 1, 1, 2, 3)}}
	case n == 12:
		return change{method: oneOf(r, "PATCH", "DELETE"), path: url + "/components/" +
			oneOf(r, components...)["id"].(string), repriced: of, body: j{"quantity": oneOf(r, 1, 1, 2, 3)}}
	default:
		return change{method: "POST", path: url + "/recalculate", repriced: l.tree(product["id"])}
	}
}

// changeRecipes changes at random what products are made of, and the prices of filament. After each change, the costs
// of all products equal those of the model. A price takes effect when a product is changed or recalculated, and not
// before.
func changeRecipes(t *testing.T, api *testkit.API, c *testkit.Client, r *rand.Rand, steps int) {
	tables := []string{"spools", "products", "product_materials", "product_components"}
	before := readLedger(t, api, c, tables...)
	for range steps {
		change := before.randomChange(r)
		if change.method == "DELETE" {
			change.body = nil
		}
		a := c.Do(t, change.method, change.path, change.body)
		if change.code == "" && a.Status >= 300 {
			t.Fatalf("%s: %v: %d %s", a.What, change.body, a.Status, a.Body)
		} else if change.code != "" {
			a.WantError(cmp.Or(map[string]int{"DUPLICATE_COMPONENT": 409}[change.code], 400), change.code)
			change.repriced = nil
		}
		after := readLedger(t, api, c, tables...)
		for _, m := range after["product_materials"] {
			want := (*big.Rat)(nil)
			if change.repriced[m["product_id"]] > 0 {
				want = round6(times(after.price(m), m.rat("weight_grams")))
			} else {
				want = before.one("product_materials", m["id"]).rat("cost")
			}
			if got := m.rat("cost"); got == nil != (want == nil) || got != nil && got.Cmp(want) != 0 {
				t.Fatalf("%s: %v: the cost of a material is %v, want %v: %v", a.What, change.body, got, want, m)
			}
		}
		after.recipesEqualModel(t, c, oneOf(r, after.visible("products")...))
		before = after
	}
}

// recipesEqualModel compares the costs of filament of all products with the model, and all amounts of one product.
func (l ledger) recipesEqualModel(t *testing.T, c *testkit.Client, one row) {
	t.Helper()
	want := map[string]bool{}
	for _, p := range l.visible("products") {
		want[p["id"].(string)] = true
	}
	compare := func(a *testkit.Response, prefix, id string) {
		t.Helper()
		material, _ := l.materialCost(id)
		total, complete := l.totalCost(id)
		same(t, a, prefix+"material_cost", material)
		same(t, a, prefix+"total_cost", total)
		a.Shows(map[string]string{prefix + "costs_complete": fmt.Sprint(complete)})
	}
	list := c.Get(t, products+"?limit=100").Want(200)
	for i := range list.List("items") {
		prefix := fmt.Sprintf("items.%d.", i)
		compare(list, prefix, list.Text(prefix+"id"))
		delete(want, list.Text(prefix+"id"))
	}
	testkit.Equal(t, len(want), 0, "products that the list lacks: %v", slices.Collect(maps.Keys(want)))
	a := c.Get(t, products+"/"+one["id"].(string)).Want(200)
	compare(a, "", one["id"].(string))
	for i, m := range l.where("product_materials", "product_id", one["id"]) {
		same(t, a, fmt.Sprintf("materials.%d.cost", i), m.rat("cost"))
	}
	parts := new(big.Rat)
	for i, part := range l.where("product_components", "product_id", one["id"]) {
		unit, _ := l.totalCost(part["component_product_id"])
		same(t, a, fmt.Sprintf("components.%d.unit_cost", i), unit)
		same(t, a, fmt.Sprintf("components.%d.cost", i), times(unit, part.rat("quantity")))
		parts = sum(parts, times(unit, part.rat("quantity")))
	}
	same(t, a, "component_cost", parts)
	if t.Failed() {
		t.FailNow()
	}
}
