package pieces_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

const (
	margins     = "/api/v1/reports/margins"
	stockReport = "/api/v1/reports/pieces"
	settings    = "/api/v1/settings"
)

// newCostFarm returns an operator of a farm where only filament costs something: 0.02 a gram.
func newCostFarm(t *testing.T) (tenant *testkit.Tenant, c *testkit.Client, spool string) {
	t.Helper()
	tenant = newFarm(t).Tenant(t)
	tenant.User(t, "admin").Patch(t, settings, j{"labour_hour_cost": 0, "machine_hour_cost": 0, "energy_kwh_cost": 0,
		"failure_rate_percent": 0, "currency": "EUR"}).Want(200)
	c = tenant.User(t, "operator")
	spool = c.NewSpool(t, 100_000, j{"net_weight_grams": 100_000, "purchase_price": 2000})
	return tenant, c, spool
}

// printed completes a run of pieces of a product, for an item of an order unless that is nil. It returns its path.
func printed(t *testing.T, c *testkit.Client, spool, product string, item any, pieces, grams int) string {
	t.Helper()
	a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": product, "quantity": pieces,
		"order_item_id": item}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": grams}}}).Want(201)
	c.Post(t, runs+"/"+a.ID()+"/complete", nil).Want(200)
	return runs + "/" + a.ID()
}

// The example of docs/costs.md: a run prints ten pieces for 20, four of them for one order. Another order takes five
// from the shelf.
func TestOrdersCostWhatTheirPiecesCost(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	p := c.Post(t, products, j{"name": "Hook", "selling_price": 5, "materials": []j{{"material_type": "PLA",
		"color": "Black", "weight_grams": 150}}}).Want(201).ID()
	first, item := c.NewOrder(t, p, 4)
	second, _ := c.NewOrder(t, p, 5)
	money := func(order, cost, stock, expected, unknown string) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(map[string]string{"cost": cost, "cost_parts.stock": stock,
			"expected_cost": expected, "unknown_parts": unknown})
		for _, row := range c.Exported(t, orderURL, "jsonl") {
			if a := testkit.NewResponse(t, []byte(row)); orderURL+"/"+a.ID() == order {
				a.Shows(map[string]string{"cost": cost, "cost_parts.stock": stock, "expected_cost": expected})
			}
		}
	}
	// report checks the margins of all orders, and what no order has cost, and the stock.
	report := func(total, ofFirst, ofSecond, none, pieces, worth string) {
		t.Helper()
		a := c.Get(t, margins+"?group_by=order").Want(200)
		a.Shows(map[string]string{"cost": total})
		want := map[string]string{first: ofFirst, second: ofSecond, "": none}
		for i := range a.List("items") {
			row := fmt.Sprintf("items.%d.", i)
			order := orderURL + "/" + a.Text(row+"order_id")
			if strings.HasSuffix(order, "null") {
				order = ""
			}
			testkit.Equal(t, a.Text(row+"cost"), want[order], "cost of %s", order)
			delete(want, order)
		}
		for order, cost := range want {
			testkit.Equal(t, cost, "", "the cost of %q, which has no row in the report", order)
		}
		c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": pieces, "piece_value": worth, "currency": "EUR"})
	}

	money(first, "0", "0", "12", "[]")
	run := printed(t, c, spool, p, item, 10, 1000)
	money(first, "8", "-12", "0", "[]")
	money(second, "0", "0", "10", "[]")
	report("8", "8", "", "", "10", "20")
	c.Post(t, first+"/deliver", nil).Want(200).Shows(map[string]string{"margin": "12", "margin_percent": "60"})
	money(first, "8", "-12", "0", "[]")
	report("8", "8", "", "", "6", "12")

	c.Post(t, second+"/deliver", nil).Want(200).Shows(map[string]string{"revenue": "25", "margin": "15"})
	money(second, "10", "10", "0", "[]")
	report("18", "8", "10", "", "1", "2")
	c.Post(t, second+"/return", j{"items": []j{{"id": c.Get(t, second).Text("items.0.id"), "quantity": 2}}}).Want(200)
	money(second, "6", "6", "0", "[]")
	report("14", "8", "6", "", "3", "6")

	// Scrapped pieces are a cost that no order has, until that is taken back.
	scrapped := c.Post(t, products+"/"+p+"/scrap", j{"quantity": 1}).Want(200).ID()
	report("16", "8", "6", "2", "2", "4")
	c.Post(t, entries+"/"+scrapped+"/reverse", nil).Want(200)
	report("14", "8", "6", "", "3", "6")

	// The run used 250 g more, 0.50 for each piece. The three in stock are worth it; the rest stays with the run.
	c.Post(t, run+"/correct", j{"materials": []j{{"spool_number": 1, "actual_weight_grams": 1250}}}).Want(200)
	money(second, "6", "6", "0", "[]")
	money(first, "11.5", "-13.5", "0", "[]")
	report("17.5", "11.5", "6", "", "3", "7.5")

	// All is taken back: the pieces are in stock again with their cost, and the cancelled order costs nothing but the
	// difference.
	c.Patch(t, second, j{"status": "received"}).Want(200)
	money(second, "0", "0", "11.25", "[]")
	c.Post(t, second+"/cancel", nil).Want(200)
	money(second, "0", "0", "0", "[]")
	c.Post(t, first+"/return", j{"items": []j{{"id": item, "quantity": 1, "to_stock": false}}}).Want(200)
	money(first, "11.5", "-13.5", "0", "[]") // the broken piece stays its cost
	report("11.5", "11.5", "", "", "6", "13.5")

	// A failed run costs the order that it printed for.
	failed := c.NewRun(t, p, item, 1, j{"status": "in_progress", "materials": []j{{"spool_id": spool,
		"actual_weight_grams": 50}}})
	c.Post(t, failed+"/fail", j{"reason": "clog"}).Want(200)
	money(first, "12.5", "-13.5", "0", "[]")

	// Other tenants have none of it.
	other := c.API.Operator(t)
	other.Get(t, margins).Want(200).Shows(map[string]string{"cost": "0", "items": "[]"})
	other.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "0", "piece_value": "0", "items": "[]"})
}

// Pieces whose cost is unknown are named and never cost nothing.
func TestUnknownCostOfPieces(t *testing.T) {
	t.Parallel()
	tenant, c, spool := newCostFarm(t)
	p := c.NewProduct(t, "P", 100)
	c.Post(t, products+"/"+p+"/count", j{"counted": 3}).Want(200)
	order, _ := c.NewOrder(t, p, 2)
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "null", "unknown_parts": "[stock revenue]",
		"cost_parts.stock": "null", "cost_parts.filament": "0"})
	c.Get(t, margins+"?group_by=order").Want(200).Shows(map[string]string{"cost": "null", "groups": "1",
		"unknown_parts": "[stock revenue]"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "1", "unvalued_pieces": "1", "piece_value": "null",
		"items.0.piece_value": "null", "items.0.piece_cost": "null", "items.0.product_id": p})

	// A run prints two pieces for an order. It gets these, and not the one without a cost.
	second, item := c.NewOrder(t, p, 2)
	printed(t, c, spool, p, item, 2, 200)
	c.Post(t, second+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "4", "unknown_parts": "[revenue]"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "1", "unvalued_pieces": "1"})

	// Pieces that were not in stock have no known cost: one of three.
	third, item := c.NewOrder(t, p, 3)
	printed(t, c, spool, p, item, 1, 100)
	c.Post(t, third+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "2", "warnings.0.pieces": "1",
		"unknown_parts": "[stock revenue]"})

	// The run's machine is unknown: the order keeps its part of what is known.
	tenant.User(t, "admin").Patch(t, settings, j{"machine_hour_cost": nil}).Want(200)
	fourth, item := c.NewOrder(t, p, 1)
	printed(t, c, spool, p, item, 4, 400)
	c.Get(t, fourth).Want(200).Shows(map[string]string{"cost": "2", "cost_parts.filament": "8", "cost_parts.stock": "-6",
		"unknown_parts": "[machine revenue]"})
	c.Post(t, fourth+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "2",
		"unknown_parts": "[machine revenue]"})
	c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "14", "cost_parts.stock": "0"})
}

// When the cost of a run becomes known, by a correction or because the run is opened and completed again, its pieces in
// stock have their part of it, as if it had been known at the end.
func TestCostBecomesKnown(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(t *testing.T, c *testkit.Client, run, spool string){
		"correct": func(t *testing.T, c *testkit.Client, run, spool string) {
			c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": 0.02}}}).Want(200)
		},
		"reopen": func(t *testing.T, c *testkit.Client, run, spool string) {
			c.Post(t, run+"/reopen", nil).Want(200)
			c.Patch(t, "/api/v1/spools/"+spool, j{"purchase_price": 2000}).Want(200)
			c.Post(t, run+"/complete", nil).Want(200)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c, _ := newCostFarm(t)
			spool := c.NewSpool(t, 100_000, j{"net_weight_grams": 100_000})
			p := c.NewProduct(t, "P", 100)
			order, item := c.NewOrder(t, p, 2)
			run := printed(t, c, spool, p, item, 5, 500)
			c.Post(t, order+"/deliver", nil).Want(200)
			c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "null", "unvalued_pieces": "3"})
			known(t, c, run, spool)
			c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "6", "unvalued_pieces": "0", "on_hand": "3"})
			c.Get(t, order).Want(200).Shows(map[string]string{"cost": "4", "unknown_parts": "[revenue]"})
			c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "4", "waiting_cost": "0"})
			entered := len(c.Get(t, entries+"?run_id="+run[len(runs)+1:]).Want(200).List("items"))
			c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": 0.04}}}).Want(200)
			c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "12", "on_hand": "3"})
			c.Get(t, entries+"?run_id="+run[len(runs)+1:]).Want(200).WantLen(t, "items", entered+1)
			c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": nil}}}).Want(200)
			c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": 0.02}}}).Want(200)
			c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "6", "on_hand": "3"})
			c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "4", "waiting_cost": "0"})
		})
	}
}

// When the cost of delivered pieces becomes known, the order has it. Other pieces in stock keep their number and their
// cost, or stay without one.
func TestCostOfDeliveredPiecesBecomesKnown(t *testing.T) {
	t.Parallel()
	for _, others := range []struct{ counted, printed int }{{0, 0}, {0, 4}, {3, 0}, {3, 9}} {
		t.Run(fmt.Sprintf("%+v", others), func(t *testing.T) {
			t.Parallel()
			_, c, priced := newCostFarm(t)
			spool := c.NewSpool(t, 100_000, j{"net_weight_grams": 100_000})
			p := c.NewProduct(t, "P", 100)
			order, item := c.NewOrder(t, p, 5)
			run := printed(t, c, spool, p, item, 5, 500)
			c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{
				"unknown_parts": "[filament waste revenue]"})
			c.Post(t, products+"/"+p+"/count", j{"counted": others.counted}).Want(200)
			value := "0"
			if others.printed > 0 {
				printed(t, c, priced, p, nil, others.printed, 100*others.printed)
				value = fmt.Sprint(2 * others.printed)
			} else if others.counted > 0 {
				value = "null"
			}
			inStock := map[string]string{"on_hand": fmt.Sprint(others.counted + others.printed),
				"unvalued_pieces": fmt.Sprint(others.counted), "piece_value": value}
			c.Get(t, stockReport).Want(200).Shows(inStock)
			for grams, cost := range map[string]string{"0.04": "20", "0.02": "10"} {
				c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": json.Number(grams)}}}).
					Want(200)
				c.Get(t, order).Want(200).Shows(map[string]string{"cost": cost, "unknown_parts": "[revenue]"})
				c.Get(t, margins).Want(200).Shows(map[string]string{"cost": cost, "unknown_parts": "[revenue]"})
				c.Get(t, stockReport).Want(200).Shows(inStock)
			}
		})
	}
}

// The cost that becomes known belongs to the pieces of the run: to those that the order has, to those in stock, or to
// those that were scrapped. Other pieces in stock keep their cost, and those without one are still named.
func TestWhosePiecesGetTheCost(t *testing.T) {
	t.Parallel()
	type farm struct {
		*testkit.Client
		product, order, item, priced, spool string
	}
	begin := func(t *testing.T, ordered int) (f farm) {
		t.Parallel()
		_, f.Client, f.priced = newCostFarm(t)
		f.spool = f.NewSpool(t, 100_000, j{"net_weight_grams": 100_000})
		f.product = f.NewProduct(t, "P", 100)
		f.order, f.item = f.NewOrder(t, f.product, ordered)
		return f
	}
	price := func(t *testing.T, f farm, run string, perGram float64, more j) {
		t.Helper()
		body := j{"materials": []j{{"spool_id": f.spool, "cost_per_gram": perGram}}}
		maps.Copy(body, more)
		f.Post(t, run+"/correct", body).Want(200)
	}
	inStock := func(t *testing.T, f farm, onHand, unvalued, value string) {
		t.Helper()
		f.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": onHand, "unvalued_pieces": unvalued,
			"piece_value": value})
	}
	t.Run("of an order that has some of the pieces", func(t *testing.T) {
		f := begin(t, 5)
		run := printed(t, f.Client, f.spool, f.product, f.item, 5, 500)
		f.Post(t, f.order+"/deliver", j{"items": []j{{"id": f.item, "quantity": 2}}}).Want(200)
		price(t, f, run, 0.02, nil)
		inStock(t, f, "3", "0", "6")
		f.Get(t, f.order).Want(200).Shows(map[string]string{"cost": "10", "unknown_parts": "[revenue]"})
		f.Get(t, margins).Want(200).Shows(map[string]string{"cost": "10", "waiting_cost": "6"})
		f.Post(t, f.order+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "10", "unknown_parts": "[revenue]"})
	})
	t.Run("of an order for a part of the pieces", func(t *testing.T) {
		f := begin(t, 3)
		run := printed(t, f.Client, f.spool, f.product, f.item, 5, 500)
		f.Post(t, f.order+"/deliver", j{"items": []j{{"id": f.item, "quantity": 2}}}).Want(200)
		price(t, f, run, 0.02, nil)
		f.Get(t, f.order).Want(200).Shows(map[string]string{"cost": "6", "unknown_parts": "[revenue]"})
		f.Get(t, margins).Want(200).Shows(map[string]string{"cost": "6", "waiting_cost": "2"})
		f.Post(t, f.order+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "6"})
		inStock(t, f, "2", "0", "4")
	})
	t.Run("with more good pieces", func(t *testing.T) {
		f := begin(t, 5)
		run := printed(t, f.Client, f.spool, f.product, f.item, 8, 800)
		item := f.Get(t, run).Text("items.0.id")
		f.Post(t, run+"/correct", j{"items": []j{{"id": item, "successful_quantity": 5, "failed_quantity": 3}}}).Want(200)
		f.Post(t, f.order+"/deliver", nil).Want(200)
		printed(t, f.Client, f.NewSpool(t, 1000, nil), f.product, nil, 3, 300)
		inStock(t, f, "3", "3", "null")
		price(t, f, run, 0.02, j{"items": []j{{"id": item, "successful_quantity": 8, "failed_quantity": 0}}})
		inStock(t, f, "6", "3", "6")
		f.Get(t, f.order).Want(200).Shows(map[string]string{"cost": "10", "unknown_parts": "[revenue]"})
	})
	t.Run("of scrapped pieces", func(t *testing.T) {
		f := begin(t, 1)
		run := printed(t, f.Client, f.spool, f.product, nil, 5, 500)
		f.Post(t, products+"/"+f.product+"/scrap", j{"quantity": 5}).Want(200)
		printed(t, f.Client, f.priced, f.product, nil, 9, 900)
		for _, perGram := range []float64{0.04, 0.02, 0.04} {
			price(t, f, run, perGram, nil)
			inStock(t, f, "9", "0", "18")
			f.Get(t, margins).Want(200).Shows(map[string]string{"cost": fmt.Sprint(500 * perGram)})
		}
	})
	failed := func(f farm, run string) j {
		return j{"items": []j{{"id": f.Get(t, run).Text("items.0.id"), "successful_quantity": 3, "failed_quantity": 2}}}
	}
	t.Run("after some of the pieces failed", func(t *testing.T) {
		f := begin(t, 1)
		run := printed(t, f.Client, f.spool, f.product, nil, 5, 500)
		printed(t, f.Client, f.priced, f.product, nil, 4, 400)
		f.Post(t, run+"/correct", failed(f, run)).Want(200)
		inStock(t, f, "7", "3", "8")
		price(t, f, run, 0.02, nil)
		inStock(t, f, "7", "0", "18")
	})
	t.Run("after it was unknown for a while", func(t *testing.T) {
		f := begin(t, 1)
		run := printed(t, f.Client, f.spool, f.product, nil, 5, 500)
		price(t, f, run, 0.02, nil)
		f.Post(t, run+"/correct", j{"materials": []j{{"spool_id": f.spool, "cost_per_gram": nil}}}).Want(200)
		inStock(t, f, "5", "0", "10")
		f.Post(t, run+"/correct", failed(f, run)).Want(200)
		inStock(t, f, "3", "0", "6")
		price(t, f, run, 0.04, nil)
		inStock(t, f, "3", "0", "20")
	})
	t.Run("beside pieces without a cost", func(t *testing.T) {
		f := begin(t, 5)
		f.Post(t, products+"/"+f.product+"/count", j{"counted": 2}).Want(200)
		run := printed(t, f.Client, f.spool, f.product, f.item, 3, 300)
		price(t, f, run, 0.02, nil)
		inStock(t, f, "5", "2", "6")
		f.Post(t, f.order+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "6",
			"unknown_parts": "[stock revenue]"})
	})
}

// A kit that a delivery assembles costs what its parts cost, also those that a run printed for the order.
func TestKitsCostTheirParts(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	kit, clip, base := newKit(t, c)
	printed(t, c, spool, base, nil, 4, 400) // 2 each
	order, item := c.NewOrder(t, kit, 2)
	printed(t, c, spool, clip, item, 6, 300) // 1 each
	c.Get(t, order).Want(200).Shows(map[string]string{"cost": "0", "cost_parts.filament": "6", "cost_parts.stock": "-6"})
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "cost": "10",
		"cost_parts.filament": "6", "cost_parts.stock": "4", "unknown_parts": "[revenue]"})
	c.Get(t, margins+"?group_by=order").Want(200).Shows(map[string]string{"cost": "10", "groups": "2"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "4", "items.0.product_id": base,
		"items.0.on_hand": "2", "items.0.piece_cost": "2"})

	// A run assembles two more from parts in stock.
	second, item := c.NewOrder(t, kit, 1)
	c.Post(t, products+"/"+clip+"/count", j{"counted": 0}).Want(200)
	printed(t, c, spool, clip, nil, 3, 300)
	a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": kit, "order_item_id": item,
		"parts_from_stock": true}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": 50}}}).Want(201)
	c.Post(t, runs+"/"+a.ID()+"/complete", nil).Want(200)
	c.Get(t, second).Want(200).Shows(map[string]string{"cost": "9", "cost_parts.filament": "1", "cost_parts.stock": "8"})
	c.Post(t, second+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "9"})
	c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "19"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": "2"})
}

// What kits cost is neither lost nor won when they are taken apart. What is known of parts that become a kit of
// unknown cost is a loss in the report, until the assembly is taken back.
func TestAssembliesKeepTheMoney(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	kit, clip, base := newKit(t, c)
	printed(t, c, spool, clip, nil, 3, 300)
	printed(t, c, spool, base, nil, 1, 100)
	one := j{"quantity": 1}
	worth := func(value, lost string) {
		t.Helper()
		c.Get(t, stockReport).Want(200).Shows(map[string]string{"piece_value": value})
		c.Get(t, margins).Want(200).Shows(map[string]string{"cost": lost})
	}
	worth("8", "0")
	c.Post(t, products+"/"+kit+"/assemble", one).Want(200)
	c.Get(t, products+"/"+kit).Want(200).Shows(map[string]string{"piece_cost": "8"})
	c.Post(t, products+"/"+kit+"/disassemble", one).Want(200) // a clip and a base cost the same by their materials
	worth("8", "0")
	c.Get(t, products+"/"+clip).Want(200).Shows(map[string]string{"piece_value": "6", "on_hand": "3"})
	c.Get(t, products+"/"+base).Want(200).Shows(map[string]string{"piece_value": "2", "on_hand": "1"})

	// Clips that cost less are in stock meanwhile: the parts share the 8 by the averages 0.5 and 2.
	c.Post(t, products+"/"+kit+"/assemble", one).Want(200)
	printed(t, c, spool, clip, nil, 2, 50)
	printed(t, c, spool, base, nil, 1, 100)
	c.Post(t, products+"/"+kit+"/disassemble", one).Want(200)
	worth("11", "0")
	c.Get(t, products+"/"+clip).Want(200).Shows(map[string]string{"piece_value": "4.428571", "on_hand": "5"})
	c.Get(t, products+"/"+base).Want(200).Shows(map[string]string{"piece_value": "6.571429", "on_hand": "2"})

	// The cost of a nut is unknown.
	nut := c.NewProduct(t, "NUT", 1)
	c.Post(t, products+"/"+nut+"/adjust", j{"pieces": 1}).Want(200)
	bolted := c.Post(t, products, j{"name": "Bolted", "components": []j{{"component_product_id": base, "quantity": 2},
		{"component_product_id": nut}}}).Want(201).ID()
	a := c.Post(t, products+"/"+bolted+"/assemble", one).Want(200)
	worth("4.428571", "6.571429")
	c.Get(t, products+"/"+bolted).Want(200).Shows(map[string]string{"piece_cost": "null", "on_hand": "1"})
	c.Post(t, entries+"/"+a.Text("entries.0.id")+"/reverse", nil).Want(200)
	worth("11", "0")
}

// A run that was ended again has its pieces in stock once, at what it costs then.
func TestReopenedRunCostsOnce(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	p := c.NewProduct(t, "P", 100)
	order, item := c.NewOrder(t, p, 4)
	run := printed(t, c, spool, p, item, 10, 1000)
	c.Post(t, order+"/deliver", nil).Want(200)
	c.Post(t, run+"/reopen", nil).Want(200)
	c.Get(t, order).Want(200).Shows(map[string]string{"cost": "8"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "0", "piece_value": "0", "items": "[]"})
	c.Post(t, run+"/complete", nil).Want(200)
	c.Get(t, order).Want(200).Shows(map[string]string{"cost": "8"})
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "6", "piece_value": "12"})
	c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "8"})
}

// The report of a past day has what was in stock at its end, in the time zone of the farm.
func TestStockAtTheEndOfADay(t *testing.T) {
	t.Parallel()
	tenant, c, _ := newCostFarm(t)
	p, q := c.NewProduct(t, "P", 10), c.NewProduct(t, "Q", 10)
	for _, product := range []string{p, q} {
		c.Post(t, products+"/"+product+"/count", j{"counted": 1}).Want(200)
	}
	old := func(product, created string, onHand, unvalued int, worth string) {
		t.Helper()
		testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
			insert into piece_entries (id, product_id, kind, pieces, on_hand, stock_unvalued, stock_value, created_at)
			values (uuid_v7(), $1, 'counted', 1, $2::int, $3::int, $4::numeric, $5::timestamptz)`,
			product, onHand, unvalued, worth, created)))
	}
	old(p, "2024-01-10T12:00:00Z", 4, 0, "8")
	old(p, "2024-01-31T23:30:00Z", 6, 2, "9")
	old(q, "2024-01-20T12:00:00Z", 0, 0, "0")
	old(q, "2024-02-05T12:00:00Z", 3, 3, "0")
	is := func(day, onHand, unvalued, worth, groups string) {
		t.Helper()
		c.Get(t, stockReport+"?to="+day).Want(200).Shows(map[string]string{"to": day, "on_hand": onHand,
			"unvalued_pieces": unvalued, "piece_value": worth, "groups": groups})
	}
	is("2024-01-09", "0", "0", "0", "0")
	is("2024-01-30", "4", "0", "8", "1")
	is("2024-01-31", "6", "2", "9", "1")
	c.Get(t, stockReport+"?to=2024-01-31").Shows(map[string]string{"items.0.product_id": p, "items.0.sku": "P",
		"items.0.piece_cost": "2.25", "items.0.piece_value": "9", "items.0.on_hand": "6"})
	is("2024-02-05", "9", "5", "9", "2")
	is("2090-01-01", "2", "2", "null", "2")
	tenant.User(t, "admin").Patch(t, settings, j{"time_zone": "Europe/Berlin"}).Want(200)
	is("2024-01-31", "4", "0", "8", "1")
	is("2024-02-01", "6", "2", "9", "1")
	tenant.User(t, "viewer").Get(t, stockReport+"?to=2024-02-01").Want(200).Shows(map[string]string{"on_hand": "6"})
	c.Get(t, stockReport+"?to=2024-02-31").Fields("to")
	c.API.Operator(t).Get(t, stockReport+"?to=2024-02-01").Want(200).Shows(map[string]string{"groups": "0"})
}

// spent fails the test unless the margins and the stock have the amount, once; see TestLawOfMoney.
func spent(t *testing.T, c *testkit.Client, want int64) {
	t.Helper()
	a, stock := c.Get(t, margins).Want(200), c.Get(t, stockReport).Want(200)
	sum := new(big.Rat)
	for i, text := range []string{a.Text("cost"), stock.Text("piece_value"), a.Text("waiting_cost")} {
		if n, ok := new(big.Rat).SetString(text); ok {
			sum.Add(sum, n.Mul(n, big.NewRat([]int64{1, 1, -1}[i], 1)))
		}
	}
	if sum.Cmp(big.NewRat(want, 1)) != 0 {
		t.Errorf("%d was spent, and %s is there: %s %s", want, sum.FloatString(6), a.Body, stock.Body)
	}
}

// An item that is removed from a run that has ended takes its pieces along. What got those that have left the stock
// keeps their cost, and the run, or the order that it printed them for, costs that much less. An item that is added
// for them again brings none.
func TestRemovedItemOfRun(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"delivered", "scrapped", "counted"} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			_, c, spool := newCostFarm(t)
			p, q := c.NewProduct(t, "P", 5), c.NewProduct(t, "Q", 5)
			a := c.Post(t, orderURL, j{"items": []j{{"product_id": p, "quantity": 5}, {"product_id": q, "quantity": 5}}}).
				Want(201)
			order, item := orderURL+"/"+a.ID(), j{"product_id": q, "quantity": 5, "order_item_id": a.Text("items.1.id")}
			a = c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": p, "quantity": 5,
				"order_item_id": a.Text("items.0.id")}, item}, "materials": []j{{"spool_id": spool,
				"actual_weight_grams": 50}}}).Want(201)
			run, id := runs+"/"+a.ID(), a.Text("items.1.id")
			c.Post(t, run+"/complete", nil).Want(200)
			switch left {
			case "delivered":
				c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "1"})
			case "scrapped":
				c.Post(t, products+"/"+q+"/scrap", j{"quantity": 5}).Want(200)
			case "counted": // says the same before and after
				c.Post(t, products+"/"+q+"/count", j{"counted": 0}).Want(200)
			}
			for range 2 {
				c.Delete(t, run+"/items/"+id).Want(204)
				spent(t, c, 1)
				onHand(t, c, q, 0)
				losses := map[string]string{"losses.scrapped": "0", "losses.counted": "0", "losses.unsettled": "-0.5"}
				switch left {
				case "delivered":
					c.Get(t, order).Want(200).Shows(map[string]string{"cost": "1"})
					c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "1"})
				case "scrapped":
					losses["losses.scrapped"] = "0.5"
				case "counted":
					losses["losses.unsettled"] = "0"
				}
				c.Get(t, margins).Want(200).Shows(losses)
				id = c.Post(t, run+"/items", item).Want(201).ID()
				spent(t, c, 1)
				onHand(t, c, q, 0)
			}
			if left == "delivered" {
				c.Get(t, order).Want(200).Shows(map[string]string{"cost": "1", "items.1.produced": "5"})
			}
		})
	}
}

// Pieces of unknown cost that a correction takes away take pieces with a known cost along, whose cost stays in the
// report.
func TestUnknownPiecesTakeOthersAlong(t *testing.T) {
	t.Parallel()
	for _, good := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d good", good), func(t *testing.T) {
			t.Parallel()
			_, c, spool := newCostFarm(t)
			p := c.NewProduct(t, "P", 5)
			unpriced := c.NewSpool(t, 1000, nil)
			first := printed(t, c, unpriced, p, nil, 2+good, 50)
			c.Post(t, products+"/"+p+"/scrap", j{"quantity": 2 + good}).Want(200)
			printed(t, c, spool, p, nil, 2, 50)
			spent(t, c, 1)
			c.Post(t, first+"/correct", j{"items": []j{{"id": c.Get(t, first).Text("items.0.id"),
				"successful_quantity": good, "failed_quantity": 2}}}).Want(200)
			onHand(t, c, p, 0)
			spent(t, c, 1)
			c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "1", "unknown_parts": "[filament waste stock]"})
		})
	}
}

// If a run turns out to have cost more, only the pieces of it that may still be in stock become dearer, and not those
// that its order got, whatever else is in stock.
func TestCorrectedCostOfDeliveredPieces(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	p := c.NewProduct(t, "P", 10)
	order, item := c.NewOrder(t, p, 4)
	run := printed(t, c, spool, p, item, 10, 500) // each piece costs 1
	printed(t, c, spool, p, nil, 10, 1000)        // 2
	c.Post(t, order+"/deliver", nil).Want(200)
	c.Get(t, products+"/"+p).Want(200).Shows(map[string]string{"on_hand": "16", "piece_value": "24"})
	c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 1000}}}).Want(200)
	c.Get(t, products+"/"+p).Want(200).Shows(map[string]string{"on_hand": "16", "piece_value": "30"})
	c.Get(t, order).Want(200).Shows(map[string]string{"cost": "10"})
}

// Of scrapped pieces that come back, those without a known cost still have none.
func TestReversedPiecesOfUnknownCost(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	p := c.NewProduct(t, "P", 10)
	c.Post(t, products+"/"+p+"/adjust", j{"pieces": 2}).Want(200)
	printed(t, c, spool, p, nil, 2, 100)
	scrapped := c.Post(t, products+"/"+p+"/scrap", j{"quantity": 3}).Want(200).ID()
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "1", "unvalued_pieces": "0", "piece_value": "1"})
	c.Post(t, entries+"/"+scrapped+"/reverse", nil).Want(200)
	c.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": "4", "unvalued_pieces": "2", "piece_value": "2"})
}

// What an open order is expected to cost follows what a plan would still print, when pieces that were printed for it
// are lost, or come back broken.
func TestExpectedCostOfLostPieces(t *testing.T) {
	t.Parallel()
	for _, lost := range []struct{ how, cost, expected, waiting, plan string }{
		{"scrapped", "0.8", "0.2", "0.8", "2"},
		{"counted", "0.3", "0.7", "0.3", "7"},
		{"other order", "0.6", "0.4", "0.6", "4"},
		{"earlier order", "0.3", "0.7", "1", "7"},
		{"later order", "1", "0", "1", "7"},
		{"reopened", "1", "0.3", "0", "3"},
	} {
		t.Run(lost.how, func(t *testing.T) {
			t.Parallel()
			_, c, spool := newCostFarm(t)
			p := c.Post(t, products, j{"name": "P", "selling_price": 10, "materials": []j{{"material_type": "PLA",
				"color": "Black", "weight_grams": 5}}}).Want(201).ID()
			order, item := c.NewOrder(t, p, 10)
			printed(t, c, spool, p, item, 10, 50)
			c.Get(t, order).Want(200).Shows(map[string]string{"cost": "1", "expected_cost": "0", "margin": "99"})
			all := int64(1)
			switch lost.how {
			case "scrapped":
				c.Post(t, products+"/"+p+"/scrap", j{"quantity": 2}).Want(200)
			case "counted":
				c.Post(t, products+"/"+p+"/count", j{"counted": 3}).Want(200)
			case "other order":
				other, _ := c.NewOrder(t, p, 4)
				c.Post(t, other+"/deliver", nil).Want(200).Shows(map[string]string{"cost": "0.4", "margin": "39.6"})
			case "earlier order": // which is due before, and has pieces of its own
				a := c.Post(t, orderURL, j{"due_date": "2030-01-01", "items": []j{{"product_id": p, "quantity": 7}}}).Want(201)
				printed(t, c, spool, p, a.Text("items.0.id"), 10, 50)
				c.Post(t, products+"/"+p+"/count", j{"counted": 10}).Want(200)
				c.Get(t, orderURL+"/"+a.ID()).Want(200).Shows(map[string]string{"cost": "0.7", "expected_cost": "0"})
				all = 2
			case "later order": // which has pieces of its own
				_, its := c.NewOrder(t, p, 7)
				printed(t, c, spool, p, its, 10, 50)
				c.Post(t, products+"/"+p+"/count", j{"counted": 10}).Want(200)
				all = 2
			case "reopened":
				c.Post(t, order+"/deliver", nil).Want(200)
				c.Post(t, order+"/return", j{"items": []j{{"id": item, "quantity": 3, "to_stock": false}}, "reopen": true}).
					Want(200)
			}
			c.Get(t, order).Want(200).Shows(map[string]string{"cost": lost.cost, "expected_cost": lost.expected})
			c.Get(t, margins).Want(200).Shows(map[string]string{"waiting_cost": lost.waiting})
			spent(t, c, all)
			c.Get(t, products+"/"+p).Want(200).Shows(map[string]string{"missing": lost.plan})
		})
	}
}

// What an order of kits is expected to cost is what it costs in the end: parts in stock cost what they cost, and the
// others what it costs to print them, while parts are printed, kits assembled, and delivered.
func TestExpectedCostOfPartsInStock(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	kit, clip, base := newKit(t, c) // 3 clips and a base of 5 g
	box := c.Post(t, products, j{"name": "Box", "components": []j{{"component_product_id": kit}}}).Want(201).ID()
	order, _ := c.NewOrder(t, kit, 4)
	boxes, _ := c.NewOrder(t, box, 4)
	both := c.Post(t, orderURL, j{"items": []j{{"product_id": kit, "quantity": 1}, {"product_id": clip, "quantity": 6}}}).
		Want(201).ID()
	expects := func(order, cost, expected string) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(map[string]string{"cost": cost, "expected_cost": expected,
			"unknown_parts": "[revenue]"})
		for _, row := range c.Exported(t, orderURL, "jsonl") {
			if a := testkit.NewResponse(t, []byte(row)); orderURL+"/"+a.ID() == order {
				a.Shows(map[string]string{"cost": cost, "expected_cost": expected})
			}
		}
	}
	expects(order, "0", "1.6")
	printed(t, c, spool, clip, nil, 8, 400) // 1.00 a piece
	expects(order, "0", "8.8")
	printed(t, c, spool, base, nil, 2, 100)
	expects(order, "0", "10.6")
	expects(boxes, "0", "10.6")
	expects(orderURL+"/"+both, "0", "9.1") // the item of clips takes six of them first
	a := c.Post(t, products+"/"+kit+"/assemble", j{"quantity": 1}).Want(200)
	expects(order, "0", "10.6")
	expects(boxes, "0", "10.6")
	c.Post(t, entries+"/"+a.Text("entries.0.id")+"/reverse", nil).Want(200)
	printed(t, c, spool, clip, nil, 4, 20)
	printed(t, c, spool, base, nil, 2, 10)
	expects(order, "0", "10.6")
	c.Post(t, products+"/"+kit+"/assemble", j{"quantity": 4}).Want(200)
	expects(order, "0", "10.6")
	c.Post(t, order+"/deliver", nil).Want(200)
	expects(order, "10.6", "0")

	// Parts whose cost nobody knows are like those that are to be printed.
	c.Post(t, products+"/"+clip+"/count", j{"counted": 100}).Want(200)
	expects(boxes, "0", "1.6")
}

// A kit gives back what it was made of, whatever its recipe says since; also one that a customer sent back.
func TestKitsGiveBackTheirParts(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	kit, clip, base := newKit(t, c)
	printed(t, c, spool, clip, nil, 8, 400)
	printed(t, c, spool, base, nil, 2, 100)
	one := j{"quantity": 1}
	has := func(kits, clips int) {
		t.Helper()
		onHand(t, c, kit, kits)
		onHand(t, c, clip, clips)
		spent(t, c, 10)
	}
	c.Post(t, products+"/"+kit+"/assemble", one).Want(200)
	component := c.Get(t, products+"/"+kit).Text("components.0.id")
	c.Patch(t, products+"/"+kit+"/components/"+component, j{"quantity": 5}).Want(200)
	c.Post(t, products+"/"+kit+"/assemble", one).Want(200)
	has(2, 0)
	c.Post(t, products+"/"+kit+"/disassemble", one).Want(200)
	has(1, 5) // of the newest one
	a := c.Post(t, products+"/"+kit+"/disassemble", one).Want(200)
	has(0, 8)
	c.Get(t, products+"/"+base).Want(200).Shows(map[string]string{"on_hand": "2"})
	c.Post(t, entries+"/"+a.Text("entries.0.id")+"/reverse", nil).Want(200)
	has(1, 5)
	c.Get(t, products+"/"+kit).Want(200).Shows(map[string]string{"piece_cost": "5"})

	box := c.Post(t, products, j{"name": "Box", "components": []j{{"component_product_id": kit}}}).Want(201).ID()
	c.Post(t, products+"/"+box+"/assemble", one).Want(200)
	has(0, 5)
	c.Post(t, products+"/"+box+"/disassemble", one).Want(200)
	has(1, 5)
	order, _ := c.NewOrder(t, kit, 1)
	c.Post(t, order+"/deliver", nil).Want(200)
	has(0, 5)
	c.Post(t, order+"/return", j{}).Want(200)
	for _, component := range c.Get(t, products+"/"+kit).List("components") {
		c.Delete(t, fmt.Sprint(products, "/", kit, "/components/", component.(map[string]any)["id"])).Want(204)
	}
	c.Post(t, products+"/"+kit+"/disassemble", one).Want(200)
	has(0, 8)
	c.Post(t, products+"/"+kit+"/adjust", j{"pieces": 1}).Want(200)
	c.Post(t, products+"/"+kit+"/disassemble", one).WantError(409, "NO_COMPONENTS")
}

// The reports of margins, of waste and of pieces add variants, also with plates, to their product, or leave them apart.
// Both have the same totals.
func TestReportsByVariant(t *testing.T) {
	t.Parallel()
	tenant, c, spool := newCostFarm(t)
	base := c.Post(t, products, j{"name": "Hook", "sku": "H", "selling_price": 5, "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 10}}}).Want(201).ID()
	vase := c.NewProduct(t, "VASE", 10)
	c.Patch(t, products+"/"+vase, j{"selling_price": 3}).Want(200)
	made := c.Post(t, products+"/"+base+"/variants", j{"variants": []j{{"color": "Blue"}, {"color": "Red"}}}).Want(201)
	blue, red := made.Text("items.0.id"), made.Text("items.1.id")
	for product, grams := range map[string]int{base: 100, blue: 300, vase: 50} { // ten pieces, of which four are delivered
		order, item := c.NewOrder(t, product, 4)
		printed(t, c, spool, product, item, 10, grams)
		c.Post(t, order+"/deliver", nil).Want(200)
	}
	run := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": red, "quantity": 2}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 20}}}).Want(201)
	c.Post(t, runs+"/"+run.ID()+"/fail", j{"reason": "clog"}).Want(200)
	c.Post(t, products+"/"+red+"/adjust", j{"pieces": 3}).Want(200) // without a known cost
	check := func(address string, totals map[string]string, rows ...string) {
		t.Helper()
		a := c.Get(t, address).Want(200)
		totals["groups"], totals["items.#"] = fmt.Sprint(len(rows)), fmt.Sprint(len(rows))
		a.Shows(totals)
		field := []string{"product_name", "cost", "pieces", "failed_pieces"}
		if strings.HasPrefix(address, stockReport) {
			field = []string{"product_name", "on_hand", "unvalued_pieces", "piece_cost", "piece_value"}
		}
		var got []string
		for i := range rows {
			var row []string
			for _, name := range field {
				row = append(row, a.Text(fmt.Sprintf("items.%d.%s", i, name)))
			}
			got = append(got, strings.Join(row, " "))
		}
		slices.Sort(got)
		slices.Sort(rows)
		testkit.Equal(t, strings.Join(got, ", "), strings.Join(rows, ", "), "the rows of %s", address)
	}
	total := map[string]string{"revenue": "52", "cost": "4", "pieces": "30", "failed_pieces": "2"}
	check(margins, total, "Hook 3.6 20 2", "Product VASE 0.4 10 0")
	check(margins+"?group_by=variant", total, "Hook, Blue 2.4 10 0", "Hook 0.8 10 0", "Product VASE 0.4 10 0",
		"Hook, Red 0.4 0 2")
	waste := map[string]string{"grams": "20", "cost": "0.4"}
	check("/api/v1/reports/waste?group_by=product", waste, "Hook 0.4 20 2", "Product VASE 0 10 0")
	check("/api/v1/reports/waste?group_by=variant", waste, "Hook, Red 0.4 0 2", "Hook 0 10 0", "Hook, Blue 0 10 0",
		"Product VASE 0 10 0")
	stock := map[string]string{"on_hand": "21", "unvalued_pieces": "3", "piece_value": "5.4"}
	for _, day := range []string{"", "&to=2100-01-01"} {
		check(stockReport+"?group_by=variant"+day, stock, "Hook, Blue 6 0 0.6 3.6", "Hook 6 0 0.2 1.2",
			"Product VASE 6 0 0.1 0.6", "Hook, Red 3 3 null null")
		check(stockReport+"?group_by=product"+day, stock, "Hook 15 3 0.4 4.8", "Product VASE 6 0 0.1 0.6")
	}
	c.Get(t, stockReport).Shows(map[string]string{"groups": "4"})
	c.Get(t, stockReport+"?group_by=order").Fields("group_by")
	other := tenant.User(t, "viewer")
	other.Get(t, stockReport+"?group_by=product&limit=1&skip=1").Shows(map[string]string{"items.#": "1", "groups": "2"})
}
