package start

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// article is a product of the history, with the filament that the farm prints it from.
type article struct {
	product, filament, sku string
	grams, hours           float64 // of a piece
	price                  float64
}

var articles = []article{
	{"{phone-stand}", "pla-black", "STAND-01", 75, 2, 14.9},
	{"{hose-bracket}", "asa-black", "GARDEN-114", 164, 5.5, 27.5},
	{"{headphone-hook}", "pla-white", "HOOK-HEAD", 46, 1.4, 12},
	{"{planter}", "petg-grey-big", "PLANTER-12", 138, 4.2, 21},
	{"{cable-clips}", "pla-red", "CLIP-10", 24, 0.9, 7.5},
	{"{lamp-shade}", "petg-clear", "LAMP-SHADE", 47, 2.3, 19},
}

// Prices of a kilogram, and the names of the filaments, which are those in farm.json.
var kilograms = map[string]float64{"pla-black": 21.99, "asa-black": 27.99, "pla-white": 21.99, "petg-grey-big": 28.8,
	"pla-red": 21.99, "petg-clear": 27.95}

var (
	shops     = []string{"etsy", "shopify", "woocommerce"}
	customers = []string{"Alan Turing", "Annie Easley", "Barbara Liskov", "Café Nord", "Carol Shaw", "Donald Knuth",
		"Edith Clarke", "Frances Allen", "Garden centre Lind", "Grace Hopper", "Hedy Lamarr", "Joan Clarke",
		"Karen Jones", "Katherine Johnson", "Kite & Drone Club", "Margaret Hamilton", "Mary Jackson", "Radia Perlman",
		"Studio Elf", "Sophie Wilson"}
	reasons = []struct{ reason, notes string }{{"adhesion", "Came off the plate"}, {"spaghetti", "Found in the morning"},
		{"layer_shift", "The belt was loose"}, {"clog", "Nozzle exchanged"}, {"filament_runout", "The sensor was off"}}
	machines = []string{"{mk4-1}", "{mk4-5}", "{x1c-2}", "{x1c-7}", "{voron-3}", "{mk4-6}"}
)

// historyDays is how far back the history goes.
const historyDays = 60

// historian writes the requests of the history. It draws the same numbers each time.
type historian struct {
	requests []template
	random   *rand.Rand
	free     map[string]float64 // by printer, the day on which it has printed all runs so far
	left     map[string]float64 // by filament, the grams on the spool in use
	spools   map[string]int     // by filament, the number of spools so far
}

func (h *historian) add(ref, path string, days float64, body map[string]any) {
	text, _ := json.Marshal(body) // texts and numbers
	h.requests = append(h.requests, template{Ref: ref, Path: path, Days: days, Body: text})
}

// history returns the requests for sixty days of orders, runs and spools, in the order of time.
func history() []template {
	h := &historian{random: rand.New(rand.NewPCG(60, 0)), free: map[string]float64{}, left: map[string]float64{},
		spools: map[string]int{}}
	for _, p := range []struct {
		ref, name, sku, category, material, color string
		minutes                                   int
		labour, price, grams                      float64
	}{
		{"headphone-hook", "Headphone hook", "HOOK-HEAD", "Office", "PLA", "Cotton White", 84, 2, 12, 46},
		{"planter", "Planter, 12 cm", "PLANTER-12", "Garden", "PETG", "Graphite", 252, 2, 21, 138},
		{"cable-clips", "Cable clips, set of 10", "CLIP-10", "Office", "PLA", "Lava Red", 54, 3, 7.5, 24},
	} {
		h.add(p.ref, "/api/v1/products", -historyDays, map[string]any{"name": p.name, "sku": p.sku,
			"category": p.category, "estimated_print_time_minutes": p.minutes, "labour_minutes": p.labour,
			"selling_price": p.price, "materials": []any{map[string]any{"material_type": p.material, "color": p.color,
				"weight_grams": p.grams}}})
	}
	for _, color := range []string{"Marine Blue", "Forest Green"} { // in other colors
		h.add("", "/api/v1/products", -historyDays, map[string]any{"variant_of": "{cable-clips}",
			"variant_materials": []any{map[string]any{"color": color}}})
	}
	n := 0
	for day := -float64(historyDays); day < -2.5; day += 0.4 + 0.7*h.random.Float64() {
		n++
		item := articles[h.random.IntN(len(articles))]
		if h.random.IntN(4) == 0 { // for the shelf, without an order
			h.print(day, item, 2, "")
			continue
		}
		ref, quantity := fmt.Sprintf("sold-%d", n), 1+h.random.IntN(3)
		h.add(ref, "/api/v1/orders", day, map[string]any{"source": shops[h.random.IntN(len(shops))],
			"reference": fmt.Sprint(2000 + n), "customer": customers[h.random.IntN(len(customers))],
			"due_date": fmt.Sprintf("{days %d}", int(day)+6),
			"items":    []any{map[string]any{"sku": item.sku, "quantity": quantity, "unit_price": item.price}}})
		h.print(day+0.1, item, quantity, "{"+ref+".items.0}")
		h.add("", "/api/v1/orders/{"+ref+"}/deliver", 0, nil)
		h.requests[len(h.requests)-1].Body = nil
	}
	for i, printer := range machines[:3] {
		h.add("", "/api/v1/printers/"+printer+"/maintained", -float64(18+5*i), nil)
		h.requests[len(h.requests)-1].Body = nil
	}
	return h.requests
}

// print adds the run that prints pieces of the article for an item of an order, or for the shelf. Some runs fail, and
// are printed again.
func (h *historian) print(day float64, item article, pieces int, orderItem string) {
	if h.random.IntN(9) == 0 {
		day = h.run(day, item, pieces, orderItem, true)
	}
	h.run(day, item, pieces, orderItem, false)
}

// run adds a run on the printer that is free first, and returns the day on which the run ends.
func (h *historian) run(day float64, item article, pieces int, orderItem string, fails bool) (end float64) {
	machine := machines[0]
	for _, m := range machines {
		if h.free[m] < h.free[machine] || h.free[machine] == 0 && m == machine {
			machine = m
		}
	}
	start := day
	if free, ok := h.free[machine]; ok && free > start {
		start = free
	}
	hours, grams := item.hours*float64(pieces), item.grams*float64(pieces)
	spool := h.spool(item.filament, grams*1.1, start)
	used := float64(int(grams*(0.97+h.random.Float64()*0.06)*10)) / 10
	if fails {
		hours, used = hours*0.4, float64(int(used*4))/10
	}
	end = start + hours/24
	h.free[machine] = end + 0.05
	h.left[item.filament] -= used
	ref := fmt.Sprintf("printed-%d", len(h.requests))
	piece := map[string]any{"product_id": item.product, "quantity": pieces}
	if orderItem != "" {
		piece["order_item_id"] = orderItem
	}
	ended := map[string]any{"completed_at": fmt.Sprintf("{hours %.2f}", end*24)}
	verb := "/complete"
	if fails {
		reason := reasons[h.random.IntN(len(reasons))]
		verb, ended["reason"], ended["notes"] = "/fail", reason.reason, reason.notes
		ended["materials"] = []any{map[string]any{"id": "{" + ref + ".materials.0}", "wasted_grams": used}}
	} else {
		good := pieces
		if pieces > 1 && h.random.IntN(12) == 0 && orderItem == "" {
			good--
			piece["failure_reason"] = "stringing"
		}
		piece["successful_quantity"], piece["failed_quantity"] = good, pieces-good
		ended["materials"] = []any{map[string]any{"id": "{" + ref + ".materials.0}", "actual_weight_grams": used}}
	}
	h.add(ref, "/api/v1/production-runs", start-0.05, map[string]any{"status": "in_progress", "printer_id": machine,
		"started_at":                 fmt.Sprintf("{hours %.2f}", start*24),
		"estimated_print_time_hours": item.hours * float64(pieces), "items": []any{piece},
		"materials": []any{map[string]any{"spool_id": spool, "estimated_weight_grams": grams}}})
	h.add("", "/api/v1/production-runs/{"+ref+"}"+verb, 0, ended)
	return end + 0.05
}

// spool returns the spool of a filament with enough grams: the one in use, or a new one. The one before is archived.
func (h *historian) spool(filament string, grams, day float64) string {
	ref := func() string { return fmt.Sprintf("used-%s-%d", filament, h.spools[filament]) }
	if h.left[filament] >= grams {
		return "{" + ref() + "}"
	}
	if h.spools[filament] > 0 {
		h.requests = append(h.requests, template{Method: "PATCH", Path: "/api/v1/spools/{" + ref() + "}",
			Body: json.RawMessage(`{"archived":true}`)})
	}
	h.spools[filament]++
	h.left[filament] = 1000
	bought := min(day-3, -historyDays)
	if h.spools[filament] > 1 {
		bought = day - 3
	}
	h.add(ref(), "/api/v1/spools", bought, map[string]any{"filament_id": "{filament-" + filament + "}",
		"net_weight_grams": 1000, "purchase_price": kilograms[filament], "supplier": "3DJake",
		"purchase_date": fmt.Sprintf("{days %d}", int(bought)), "lot_number": strings.ToUpper(filament[:3]) +
			fmt.Sprint(1000+h.random.IntN(9000)), "location": "Rack C"})
	return "{" + ref() + "}"
}
