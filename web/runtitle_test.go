package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// All pages name a run by what it prints, with its spools, printer and order.
func TestRunTitles(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, j{"color_hex": "#c0ffee"})
	var items []j
	for _, name := range []string{"Stand", "Lamp", "Hook", "Box"} {
		items = append(items, j{"product_id": c.NewProduct(t, name, 5), "quantity": 2})
	}
	order, item := c.NewOrder(t, items[0]["product_id"].(string), 4)
	c.Patch(t, order, j{"reference": "1042"}).Want(200)
	items[0]["order_item_id"] = item
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	run := c.Post(t, "/api/v1/production-runs", j{"printer_id": printer, "items": items,
		"estimated_print_time_hours": 100,
		"materials":                  []j{{"spool_id": spool, "estimated_weight_grams": 40}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/start", nil).Want(200)
	const title = "2 × Product Stand, 2 × Product Lamp and 2 more"
	shows := func(path string, texts ...string) *page {
		t.Helper()
		p := b.get(t, path).want(t, 200).shows(t, texts...)
		testkit.Contains(t, p.text, `fill="#c0ffee"`, "%s: the run has no swatch", path)
		return p
	}
	for _, path := range []string{"/runs", "/queue", "/printers/" + printer, "/runs/" + run} {
		testkit.Contains(t, shows(path, title).text, `class="bar progress"`, "%s: has no progress", path)
	}
	shows("/runs", title+" MK4 · 1042 · 40 g · until")
	shows("/runs/"+run, title+" Printing · MK4 · 1042", "#1 PLA Black")
	shows("/printers", title)
	shows(strings.TrimPrefix(order, "/api/v1"), title+" Printing · MK4")
	shows("/search?q=stand", title+" Printing · MK4 · 1042 · 40 g")
	b.get(t, "/").shows(t, title)
	c.Post(t, "/api/v1/production-runs/"+run+"/fail", j{"reason": "clog", "wasted_grams": 10}).Want(200)
	shows("/printers/"+printer, title+" Failed: clog · 1042 · 10 g") // MK4 is the title
	shows("/spools/"+spool, title+" MK4 · 1042 Failed: clog", "Wasted "+title)

	// A run that prints no product is named by its printer.
	bare := c.Post(t, "/api/v1/production-runs", j{"printer_id": printer}).Want(201).ID()
	b.get(t, "/runs").shows(t, "Planned MK4")
	b.get(t, "/runs/"+bare).shows(t, "MK4 Planned")
	c.Post(t, "/api/v1/production-runs/"+bare+"/cancel", nil).Want(200)
	c.Delete(t, "/api/v1/production-runs/"+run).Want(204)
	b.get(t, "/runs/removed").shows(t, title)
}
