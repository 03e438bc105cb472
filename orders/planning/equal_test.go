package planning_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"spoolwright/tests/testkit"
)

// black are spools of 1,000 g that type and color do not tell apart.
var black = map[string]j{
	"PETG":     {},
	"PETG-CF":  {"material_name": "PETG-CF"},
	"2.85 mm":  {"diameter_mm": 2.85},
	"filament": {}, // of an entry of the filaments, which a test adds
}

// equalFarm is a farm with a printer for 1.75 mm and an entry of the filaments, "PETG Black" of Acme.
func equalFarm(t *testing.T) (f farm, filament string) {
	f = farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "Prusa"})
	return f, f.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Black", "diameter_mm": 1.75,
		"vendor": "Acme", "net_weight_grams": 1000}).Want(201).ID()
}

func (f farm) black(kind, filament string, price float64) string {
	f.t.Helper()
	body := j{"material_type": "PETG", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000,
		"purchase_price": price}
	if kind == "filament" {
		body = j{"filament_id": filament, "purchase_price": price}
	}
	for name, value := range black[kind] {
		body[name] = value
	}
	return f.Post(f.t, "/api/v1/spools", body).Want(201).ID()
}

func (f farm) needs(material j) string {
	f.t.Helper()
	material["weight_grams"] = 100
	return f.Post(f.t, "/api/v1/products", j{"name": "Lamp", "materials": []j{material}}).Want(201).ID()
}

// A plan, availability, reservations, levels and prices take only the spools that are what a product needs.
func TestEqualFilament(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		material j // of a product; filament_id is set by the test
		level    j
		takes    []string // of black
		cost     string   // of 100 g
		shows    map[string]string
	}{
		"type and color": {
			material: j{"material_type": "PETG", "color": "black"}, level: j{"color": "BLACK"},
			takes: []string{"PETG", "filament"}, cost: "3",
			shows: map[string]string{"material_name": "null", "diameter_mm": "1.75", "filament_id": "null"},
		},
		"the name of the type": {
			material: j{"material_type": "PETG", "color": "black", "material_name": "petg"},
			level:    j{"color": "BLACK", "material_name": "PETG"},
			takes:    []string{"PETG", "filament"}, cost: "3",
		},
		"another name": {
			material: j{"material_type": "PETG", "color": "Black", "material_name": "petg cf"},
			level:    j{"color": "Black", "material_name": "PETG_CF"},
			takes:    []string{"PETG-CF"}, cost: "6",
			shows: map[string]string{"material_name": "petg cf", "diameter_mm": "1.75"},
		},
		"another diameter": {
			material: j{"material_type": "PETG", "color": "Black", "diameter_mm": 2.85},
			level:    j{"color": "Black", "diameter_mm": 2.85},
			takes:    []string{"2.85 mm"}, cost: "8",
			shows: map[string]string{"diameter_mm": "2.85"},
		},
		"one filament": {
			material: j{"filament_id": ""}, level: j{"color": "Black", "brand": "acme"},
			takes: []string{"filament"}, cost: "4",
			shows: map[string]string{"material_type": "PETG", "color": "Black", "brand": "Acme", "diameter_mm": "1.75"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, filament := equalFarm(t)
			if c.material["filament_id"] != nil {
				c.material["filament_id"] = filament
			}
			spools := map[string]string{}
			for kind, price := range map[string]float64{"PETG": 20, "PETG-CF": 60, "2.85 mm": 80, "filament": 40} {
				spools[f.black(kind, filament, price)] = kind
			}
			if c.material["diameter_mm"] != nil {
				f.printer(j{"name": "Ultimaker", "diameter_mm": 2.85})
			}
			lamp := f.needs(c.material)
			f.Get(t, "/api/v1/products/"+lamp).Want(200).Shows(map[string]string{"total_cost": c.cost})
			level := c.level
			level["material_type"], level["minimum_grams"] = "PETG", 1
			levelPath := "/api/v1/stock-levels/" + f.Post(t, "/api/v1/stock-levels", level).Want(201).ID()

			stock := map[int]string{1: "1000", 2: "2000"}[len(c.takes)]
			f.Get(t, "/api/v1/products/"+lamp+"/availability?quantity=3").Want(200).Shows(map[string]string{
				"materials.0.remaining_grams": stock, "materials.0.available_grams": stock, "materials.0.missing_grams": "0"})
			pieces := 10 * len(c.takes) // as many as there is filament for
			order := f.order(lamp, pieces+1)
			reserved := map[int]string{1: "1100", 2: "2100"}[len(c.takes)]
			available := f.Get(t, "/api/v1/products/"+lamp+"/availability").Want(200).Shows(map[string]string{
				"materials.0.reserved_grams": reserved, "materials.0.available_grams": "-100"})
			for field, want := range c.shows {
				available.Shows(map[string]string{"materials.0." + field: want})
			}
			// What one brand is reserved is known where the product names its filament.
			f.Get(t, levelPath).Want(200).Shows(map[string]string{"remaining_grams": stock, "reserved_grams": reserved,
				"low": "true"})

			plan := f.Post(t, order+"/plan", j{"create": true}).Want(200)
			plan.WantLen(t, "runs", pieces)
			taken := map[string]bool{}
			for i := range pieces {
				spool := plan.Text("runs." + strconv.Itoa(i) + ".materials.0.spool_id")
				taken[spools[spool]] = true
			}
			testkit.Equal(t, len(taken), len(c.takes), "kinds of spools that a plan takes: %v", taken)
			for _, kind := range c.takes {
				if !taken[kind] {
					t.Errorf("the plan takes %v, not %s", taken, kind)
				}
			}
			plan.Shows(map[string]string{"missing.0.missing_grams": "100"})
			for field, want := range c.shows {
				if field != "brand" {
					plan.Shows(map[string]string{"missing.0." + field: want})
				}
			}
			// The runs reserve the same filament, of which nothing is left.
			f.Get(t, levelPath).Want(200).Shows(map[string]string{"remaining_grams": stock, "reserved_grams": reserved})
		})
	}
}

// A printer takes only filament of its diameter, also where it has the right spool in a slot.
func TestPlanTakesDiameterOfPrinter(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	printer := f.printer(j{"name": "Prusa"})
	f.Get(t, printersURL+"/"+printer).Want(200).Shows(map[string]string{"diameter_mm": "1.75"})
	thick := f.black("2.85 mm", "", 20)
	f.Do(t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": thick}).Want(200)
	// Without a diameter, a product needs that of the farm's printers.
	order := f.order(f.needs(j{"material_type": "PETG", "color": "Black"}), 1)
	plan := func() *testkit.Response { return f.Post(t, order+"/plan", nil).Want(200) }
	plan().Shows(map[string]string{"runs": "[]", "unplanned.0.reason": "NO_FILAMENT", "missing.0.diameter_mm": "1.75"})
	f.Patch(t, printersURL+"/"+printer, j{"diameter_mm": 2.85}).Want(200)
	plan().Shows(map[string]string{"runs.0.materials.0.spool_id": thick, "runs.0.materials.0.diameter_mm": "2.85",
		"unplanned": "[]"})
	// With printers of both diameters, 1.75 mm is the default.
	f.printer(j{"name": "Mini"})
	plan().Shows(map[string]string{"runs": "[]", "unplanned.0.reason": "NO_FILAMENT"})
	order = f.order(f.needs(j{"material_type": "PETG", "color": "Black", "diameter_mm": 2.85}), 1)
	plan().Shows(map[string]string{"runs.0.printer_name": "Prusa", "runs.0.materials.0.spool_id": thick})
	f.Patch(t, printersURL+"/"+printer, j{"status": "maintenance"}).Want(200)
	plan().Shows(map[string]string{"runs": "[]", "unplanned.0.reason": "NO_PRINTER"})
	f.Post(t, printersURL, j{"name": "X", "diameter_mm": 3}).Want(422).Fields("diameter_mm")
}

// A material of a product that names a filament has its fields, and follows it.
func TestMaterialFollowsFilament(t *testing.T) {
	t.Parallel()
	f, filament := equalFarm(t)
	number := f.Get(t, "/api/v1/filaments/"+filament).Want(200).Text("number")
	lamp := f.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{
		{"filament_number": json.Number(number), "weight_grams": 5}}}).Want(201)
	path := "/api/v1/products/" + lamp.ID()
	lamp.Shows(map[string]string{"materials.0.filament_id": filament, "materials.0.material_type": "PETG",
		"materials.0.color": "Black", "materials.0.diameter_mm": "1.75", "materials.0.brand": "Acme"})
	f.Patch(t, "/api/v1/filaments/"+filament, j{"material_name": "PETG-CF", "color": "Coal"}).Want(200)
	f.Get(t, path).Want(200).Shows(map[string]string{"materials.0.material_name": "PETG-CF", "materials.0.color": "Coal"})
	material := path + "/materials/" + lamp.Text("materials.0.id")
	f.Patch(t, material, j{"color": "Red"}).WantError(409, "FILAMENT_FIELD").
		Shows(map[string]string{"errors.0.field": "color"})
	f.Patch(t, material, j{"weight_grams": 6}).Want(200).Shows(map[string]string{"color": "Coal", "weight_grams": "6"})
	f.Patch(t, material, j{"filament_id": nil, "color": "Red"}).Want(200).
		Shows(map[string]string{"color": "Red", "material_name": "PETG-CF", "filament_id": "null", "brand": "null"})
	f.Post(t, path+"/materials", j{"filament_id": lamp.ID(), "weight_grams": 1}).
		WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "filament_id"})
	f.Post(t, path+"/materials", j{"filament_number": 999, "weight_grams": 1}).
		WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "filament_number"})
	f.Post(t, path+"/materials", j{"filament_id": filament, "material_type": "PLA", "weight_grams": 1}).
		WantError(409, "FILAMENT_FIELD").
		Shows(map[string]string{"errors.0.field": "material_type"})
	foreign, theirs := equalFarm(t)
	f.Post(t, path+"/materials", j{"filament_id": theirs, "weight_grams": 1}).WantError(400, "UNKNOWN_REFERENCE")
	foreign.Get(t, path).Want(404)
}

// What is shown of a spool has the name of its material, and a search finds it.
func TestMaterialNameIsShown(t *testing.T) {
	t.Parallel()
	f, _ := equalFarm(t)
	carbon := f.black("PETG-CF", "", 20)
	f.black("PETG", "", 20)
	entry := f.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "material_name": "PETG-CF", "color": "Black",
		"diameter_mm": 1.75}).Want(201).ID()
	for _, words := range []string{"PETG-CF", "black%20petg-cf"} {
		f.Get(t, "/api/v1/spools?search="+words).Want(200).Shows(map[string]string{"total": "1", "items.0.id": carbon,
			"items.0.material_name": "PETG-CF"})
		f.Get(t, "/api/v1/filaments?search="+words).Want(200).Shows(map[string]string{"total": "1", "items.0.id": entry})
	}
	run := f.Post(t, runsURL, j{"materials": []j{{"spool_id": carbon, "estimated_weight_grams": 10}}}).Want(201)
	run.Shows(map[string]string{"materials.0.spool_name": "PETG-CF Black"})
	check := f.Get(t, runsURL+"/"+run.ID()+"/check").Want(200)
	testkit.Contains(t, string(check.Body), "NO_PRINTER", "the check")
	printer := f.printer(j{"name": "Other"})
	f.Do(t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": carbon}).Want(200)
	f.Get(t, printersURL+"/"+printer).Want(200).Shows(map[string]string{"loaded.0.name": "PETG-CF Black"})
}

// Availability says that nothing in stock is what a product needs, and what there is, the most similar first.
func TestNothingInStockMatches(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	for _, color := range []string{"White", "Graphit", "Grey"} {
		f.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75,
			"net_weight_grams": 1000, "purchase_price": 20}).Want(201)
	}
	f.black("PETG", "", 50)
	lamp := f.needs(j{"material_type": "PLA", "color": "Graphite"})
	f.Get(t, "/api/v1/products/"+lamp).Want(200).
		Shows(map[string]string{"materials.0.cost": "2", "materials.0.cost_basis": "material"})
	found := f.Get(t, "/api/v1/products/"+lamp+"/availability").Want(200).Shows(map[string]string{
		"materials.0.spool_count": "0", "materials.0.in_stock.0.color": "Graphit",
		"materials.0.in_stock.0.remaining_grams": "1000"})
	found.WantLen(t, "materials.0.in_stock", 3)
	material := "/api/v1/products/" + lamp + "/materials/" + f.Get(t, "/api/v1/products/"+lamp).Text("materials.0.id")
	f.Patch(t, material, j{"color": "graphit"}).Want(200).Shows(map[string]string{"cost_basis": "color"})
	f.Get(t, "/api/v1/products/"+lamp+"/availability").Want(200).Shows(map[string]string{
		"materials.0.spool_count": "1", "materials.0.in_stock": "[]"})
}

// A plan finds all equal spools that it needs: whether its runs empty several spools each, or use a part of one each.
func TestPlanUsesManyEqualSpools(t *testing.T) {
	t.Parallel()
	for grams, pieces := range map[float64]int{25: 12, 9: 30, 10: 30} { // of 30 spools with 10 g each
		f, _ := equalFarm(t)
		f.Post(t, "/api/v1/spools/batch", j{"material_type": "PETG", "color": "Black", "diameter_mm": 1.75,
			"net_weight_grams": 10, "quantity": 30}).Want(201)
		product := f.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{{"material_type": "PETG",
			"color": "Black", "weight_grams": grams}}}).Want(201).ID()
		var plan struct {
			Runs      []struct{ Materials []struct{ Grams float64 } }
			Unplanned []json.RawMessage
		}
		a := f.Post(t, "/api/v1/plan", j{"items": []j{{"product_id": product, "quantity": pieces}}}).Want(200)
		testkit.Check(t, json.Unmarshal(a.Body, &plan))
		sum := 0.0
		for _, r := range plan.Runs {
			if len(r.Materials) != 1 && grams <= 10 {
				t.Errorf("%v g: a run takes them from %d spools", grams, len(r.Materials))
			}
			for _, m := range r.Materials {
				sum += m.Grams
			}
		}
		if len(plan.Runs) != pieces || len(plan.Unplanned) > 0 || sum != grams*float64(pieces) {
			t.Errorf("%v g: %d runs of %d with %v g, unplanned %s", grams, len(plan.Runs), pieces, sum, plan.Unplanned)
		}
	}
}
