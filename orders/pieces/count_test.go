package pieces_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// counting is a farm in which only filament costs something, with a product P.
type counting struct {
	*testkit.Client
	t        *testing.T
	spool, p string
	spent    int // what ended runs cost
}

func newCounting(t *testing.T) *counting {
	_, c, spool := newCostFarm(t)
	return &counting{Client: c, t: t, spool: spool, p: c.NewProduct(t, "P", 10)}
}

// run completes a run of pieces of P that costs 50, and returns its path and the id of its item.
func (c *counting) run(pieces int) (path, item string) {
	c.t.Helper()
	path = printed(c.t, c.Client, c.spool, c.p, nil, pieces, 2500)
	c.spent += 50
	return path, c.Get(c.t, path).Want(200).Text("items.0.id")
}

func (c *counting) count(product string, n int) (entry string) {
	c.t.Helper()
	return c.Post(c.t, products+"/"+product+"/count", j{"counted": n}).Want(200).ID()
}

func (c *counting) correct(path, item string, good, failed int) *testkit.Response {
	c.t.Helper()
	return c.Post(c.t, path+"/correct", j{"items": []j{{"id": item, "successful_quantity": good,
		"failed_quantity": failed}}}).Want(200)
}

// since checks that the response about a run warns that P was counted since, with the pieces by which the count
// changes, or has no warnings if that number is 0.
func (c *counting) since(a *testkit.Response, pieces int) {
	c.t.Helper()
	if pieces == 0 {
		a.WantLen(c.t, "warnings", 0)
		return
	}
	a.Shows(map[string]string{"warnings.0.code": "COUNTED_SINCE", "warnings.0.product_id": c.p})
	detail := a.Text("warnings.0.detail")
	if !strings.HasPrefix(detail, "Product P was counted on ") ||
		!strings.HasSuffix(detail, fmt.Sprintf(" changes by %d", pieces)) {
		c.t.Errorf("the warning is %q", detail)
	}
}

// removed is since for the removal of pieces of a run.
func (c *counting) removed(a *testkit.Response, pieces int) {
	c.t.Helper()
	var all []struct{ Code, Detail string }
	if text := a.Want(204).Header.Get("Warnings"); text != "" || pieces != 0 {
		testkit.Check(c.t, json.Unmarshal([]byte(text), &all))
	}
	if (len(all) == 1) != (pieces != 0) || len(all) > 0 && (all[0].Code != "COUNTED_SINCE" ||
		!strings.HasPrefix(all[0].Detail, "Product P was counted on ") ||
		!strings.HasSuffix(all[0].Detail, fmt.Sprintf(" changes by %d", pieces))) {
		c.t.Errorf("the warnings are %v", all)
	}
}

func (c *counting) reverse(entry string) *testkit.Response {
	c.t.Helper()
	return c.Post(c.t, entries+"/"+entry+"/reverse", nil).Want(200)
}

// newest returns the newest entry of the ledger of P that has the kind.
func (c *counting) newest(kind string) string {
	c.t.Helper()
	return c.Get(c.t, products+"/"+c.p+"/piece-entries?kind="+kind).Want(200).Text("items.0.id")
}

// is fails the test unless the stock of P has these pieces and this value, and each amount spent is either in the
// costs of the margins report or in the stock, once.
func (c *counting) is(onHand int, worth string) {
	c.t.Helper()
	testkit.Equal(c.t, balanced(c.t, c.Client, c.p), onHand, "pieces in stock")
	testkit.Equal(c.t, c.Get(c.t, products+"/"+c.p).Want(200).Text("piece_value"), worth, "their value")
	number := func(text string) float64 {
		n, _ := strconv.ParseFloat(text, 64) // null is 0
		return n
	}
	cost := number(c.Get(c.t, margins).Want(200).Text("cost"))
	stock := number(c.Get(c.t, stockReport).Want(200).Text("piece_value"))
	testkit.Equal(c.t, fmt.Sprintf("%.4f", cost+stock), fmt.Sprintf("%.4f", float64(c.spent)), "costs and stock")
}

// A count sets the stock. Later changes as of a time before the count change the difference that the count found, not
// the stock.
func TestCountTakesPrecedence(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(c *counting){
		"run of 50 for 5": func(c *counting) {
			run, item := c.run(50)
			c.count(c.p, 5)
			c.is(5, "5")
			c.since(c.correct(run, item, 5, 0), 45)
			c.is(5, "50")
			kinds(c.t, c.Client, c.p, "corrected -45", "counted 45", "counted -45", "produced 50")
			a := c.Get(c.t, products+"/"+c.p+"/piece-entries").Want(200)
			a.Shows(map[string]string{"items.1.balances_id": a.Text("items.0.id"), "items.1.count_id": a.Text("items.2.id"),
				"items.0.balances_id": "null", "items.0.count_id": "null", "items.1.run_id": "null"})
			// As often as needed, in both directions.
			c.correct(run, item, 50, 0)
			c.is(5, "5")
			c.correct(run, item, 4, 46)
			c.is(5, "62.5")
			c.correct(run, item, 5, 45)
			c.is(5, "50")
			// What is changed about a time after the count changes the stock.
			later, other := c.run(5)
			c.is(10, "100")
			c.since(c.correct(later, other, 2, 3), 0)
			c.is(7, "100")
		},
		"run of 5 for 50": func(c *counting) {
			a := c.Post(c.t, runs, j{"status": "in_progress", "items": []j{{"product_id": c.p, "quantity": 50}},
				"materials": []j{{"spool_id": c.spool, "actual_weight_grams": 2500}}}).Want(201)
			run, item := runs+"/"+a.ID(), a.Text("items.0.id")
			c.Post(c.t, run+"/complete", j{"items": []j{{"id": item, "successful_quantity": 5}}}).Want(200)
			c.spent += 50
			c.count(c.p, 40)
			c.correct(run, item, 50, 0)
			c.is(40, "40")
			c.correct(run, item, 0, 50)
			c.is(40, "0")
		},
		"some left since": func(c *counting) {
			run, item := c.run(50)
			c.count(c.p, 5)
			c.Post(c.t, products+"/"+c.p+"/scrap", j{"quantity": 4}).Want(200)
			c.correct(run, item, 5, 45)
			c.is(1, "46")
			c.correct(run, item, 50, 0)
			c.is(1, "1")
		},
		"run reopened, completed again": func(c *counting) {
			run, _ := c.run(5)
			c.count(c.p, 5)
			c.since(c.Post(c.t, run+"/reopen", nil).Want(200), 5)
			c.spent -= 50
			c.is(5, "0")
			kinds(c.t, c.Client, c.p, "corrected -5", "counted 5", "counted 0", "produced 5")
			c.since(c.Post(c.t, run+"/complete", nil).Want(200), 0) // it ends now, after the count
			c.spent += 50
			c.is(10, "50")
		},
		"item of the run": func(c *counting) {
			run, item := c.run(5)
			c.count(c.p, 6)
			c.since(c.Patch(c.t, run+"/items/"+item, j{"quantity": 9}).Want(200), -4)
			c.is(6, "33.333333")
			c.since(c.Patch(c.t, run+"/items/"+item, j{"estimated_total_cost": 3}).Want(200), 0)
			c.since(c.Patch(c.t, run+"/items/"+item, j{}).Want(200), 0)
			c.removed(c.Delete(c.t, run+"/items/"+item), 9)
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 6, "pieces in stock")
			a := c.Post(c.t, run+"/items", j{"product_id": c.p, "quantity": 4}).Want(201)
			c.since(a, -4)
			testkit.Equal(c.t, a.Header.Get("Location"), run+"/items/"+a.ID(), "Location")
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 6, "pieces in stock")
			// What is changed about a time after the count changes the stock.
			run, item = c.run(5)
			c.since(c.Patch(c.t, run+"/items/"+item, j{"quantity": 9}).Want(200), 0)
			c.since(c.Post(c.t, run+"/items", j{"product_id": c.p}).Want(201), 0)
			c.removed(c.Delete(c.t, run+"/items/"+item), 0)
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 7, "pieces in stock")
		},
		"run without filament removed": func(c *counting) {
			a := c.Post(c.t, runs, j{"status": "completed", "items": []j{{"product_id": c.p, "quantity": 5}}}).Want(201)
			c.count(c.p, 5)
			c.removed(c.Delete(c.t, runs+"/"+a.ID()), 5)
			c.is(5, "0")
		},
		"run without filament in another state": func(c *counting) {
			a := c.Post(c.t, runs, j{"status": "completed", "items": []j{{"product_id": c.p, "quantity": 5}},
				"materials": []j{{"spool_id": c.spool}}}).Want(201)
			run := runs + "/" + a.ID()
			c.count(c.p, 5)
			c.Patch(c.t, run, j{"notes": "N"}).Want(200).WantLen(c.t, "warnings", 1)
			c.since(c.Patch(c.t, run, j{"status": "pending"}).Want(200), 5)
			a = c.Patch(c.t, run, j{"status": "completed", "completed_at": "2024-01-10T12:00:00Z"}).Want(200)
			c.since(a, -5)
			a.WantLen(c.t, "warnings", 2)
			a.Shows(map[string]string{"warnings.1.code": "INVENTORY_NOT_UPDATED"})
			c.is(5, "0")
		},
		"run that ended before": func(c *counting) {
			c.count(c.p, 3)
			a := c.Post(c.t, runs, j{"status": "in_progress", "items": []j{{"product_id": c.p, "quantity": 5}},
				"started_at": "2024-01-10T10:00:00Z", "materials": []j{{"spool_id": c.spool,
					"actual_weight_grams": 2500}}}).Want(201)
			run := runs + "/" + a.ID()
			a = c.Post(c.t, run+"/complete", j{"completed_at": "2024-01-10T12:00:00Z"}).Want(200)
			c.since(a, -5)
			a.Shows(map[string]string{"warnings.0.pieces": "-5", "warnings.0.spool_id": "null"})
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 3, "pieces in stock")
			// The time was wrong: it ended after the count, and then before it again.
			c.since(c.Post(c.t, run+"/correct", j{"completed_at": time.Now()}).Want(200), 5)
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 8, "pieces in stock")
			c.since(c.Patch(c.t, run, j{"completed_at": "2024-01-10T13:00:00Z"}).Want(200), -5)
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 3, "pieces in stock")
			c.since(c.Patch(c.t, run, j{"completed_at": "2024-01-10T14:00:00Z", "notes": `"warnings":[]`}).Want(200), 0)
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 3, "pieces in stock")
			c.Get(c.t, products+"/"+c.p+"/piece-entries?kind=corrected").Want(200).Shows(map[string]string{"total": "4"})
		},
		"order done by mistake": func(c *counting) {
			c.run(10)
			order, item := c.NewOrder(c.t, c.p, 10)
			c.Patch(c.t, order, j{"status": "done"}).Want(200)
			c.count(c.p, 10)
			c.Patch(c.t, order, j{"status": "in_production"}).Want(200)
			c.is(10, "50")
			kinds(c.t, c.Client, c.p, "counted -10", "delivered 10", "counted 10", "delivered -10")
			c.Post(c.t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 4}}}).Want(200)
			c.is(6, "30")
		},
		"numbers of a done order": func(c *counting) {
			c.run(20)
			order, item := c.NewOrder(c.t, c.p, 10)
			complete := func(n int) {
				c.Post(c.t, order+"/complete", j{"items": []j{{"id": item, "delivered": n}}}).Want(200)
			}
			complete(10)
			c.count(c.p, 18)
			complete(1)
			c.is(18, "45")
			complete(3)
			c.is(18, "45")
			c.Post(c.t, order+"/return", j{}).Want(200) // they come back now
			c.is(21, "52.5")
		},
		"deliveries": func(c *counting) {
			c.run(20)
			order, item := c.NewOrder(c.t, c.p, 10)
			c.Post(c.t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 4}}}).Want(200)
			wrong := c.newest("delivered")
			c.Post(c.t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 6}}}).Want(200)
			c.Post(c.t, order+"/return", j{"items": []j{{"id": item, "quantity": 2}}}).Want(200)
			c.count(c.p, 15)
			c.reverse(c.newest("returned"))
			c.is(15, "37.5")
			c.reverse(wrong)
			c.is(15, "37.5")
		},
		"scrapped, adjusted": func(c *counting) {
			c.run(20)
			c.Post(c.t, products+"/"+c.p+"/scrap", j{"quantity": 8}).Want(200)
			c.Post(c.t, products+"/"+c.p+"/adjust", j{"pieces": 15}).Want(200)
			c.count(c.p, 2)
			c.reverse(c.newest("corrected")) // more than there is
			c.reverse(c.newest("scrapped"))
			testkit.Equal(c.t, balanced(c.t, c.Client, c.p), 2, "pieces in stock")
		},
		"two counts": func(c *counting) {
			run, item := c.run(50)
			first := c.count(c.p, 8)
			second := c.count(c.p, 5)
			c.correct(run, item, 8, 42)
			c.is(5, "47") // the first count finds nothing missing, and the second one three pieces
			c.Post(c.t, entries+"/"+c.newest("counted")+"/reverse", nil).WantError(409, "ENTRY_NOT_REVERSIBLE")
			c.reverse(first)
			c.is(5, c.Get(c.t, products+"/"+c.p).Text("piece_value"))
			c.reverse(second)
			c.is(8, "50")
			c.correct(run, item, 10, 40)
			c.is(10, "50")
		},
		"count taken back": func(c *counting) {
			run, item := c.run(50)
			count := c.count(c.p, 5)
			c.correct(run, item, 6, 44)
			c.is(5, "49")
			c.reverse(count)
			c.is(6, "50")
			c.Post(c.t, entries+"/"+count+"/reverse", nil).WantError(409, "ENTRY_REVERSED")
		},
		"count taken back without the pieces": func(c *counting) {
			run, item := c.run(5)
			count := c.count(c.p, 50)
			c.Post(c.t, products+"/"+c.p+"/scrap", j{"quantity": 48}).Want(200)
			c.correct(run, item, 1, 4)
			c.Post(c.t, entries+"/"+count+"/reverse", nil).WantError(409, "NOT_ENOUGH_PIECES")
			c.is(2, c.Get(c.t, products+"/"+c.p).Text("piece_value"))
		},
		"parts of a kit": func(c *counting) {
			c.run(20)
			kit := c.Post(c.t, products, j{"name": "Kit", "components": []j{{"component_product_id": c.p,
				"quantity": 3}}}).Want(201).ID()
			a := c.Post(c.t, products+"/"+kit+"/assemble", j{"quantity": 2}).Want(200)
			c.count(c.p, 20) // nobody has assembled anything
			c.reverse(a.Text("entries.0.id"))
			c.is(20, "50")
			testkit.Equal(c.t, balanced(c.t, c.Client, kit), 0, "kits in stock")
		},
		"parts of a run": func(c *counting) {
			c.run(20)
			lamp := c.Post(c.t, products, j{"name": "Lamp", "materials": []j{{"material_type": "PLA", "color": "Black",
				"weight_grams": 1}}, "components": []j{{"component_product_id": c.p, "quantity": 2}}}).Want(201).ID()
			run, item := run(c.t, c.Client, lamp, 9, j{"items": []j{{"product_id": lamp, "quantity": 9,
				"parts_from_stock": true}}, "materials": []j{{"spool_id": c.spool, "actual_weight_grams": 50}}})
			c.Post(c.t, run+"/complete", nil).Want(200)
			c.spent++
			c.is(2, "5")
			c.count(c.p, 10)
			c.correct(run, item, 5, 4)
			c.is(10, c.Get(c.t, products+"/"+c.p).Text("piece_value"))
			c.correct(run, item, 9, 0)
			c.is(10, c.Get(c.t, products+"/"+c.p).Text("piece_value"))
			testkit.Equal(c.t, balanced(c.t, c.Client, lamp), 9, "lamps in stock")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(newCounting(t))
		})
	}
}

// A correction that waits for a count is balanced at it. A run whose completion waits for a count has ended after it,
// also for later corrections.
func TestCorrectionWaitsForCount(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	path, item := c.run(50)
	hold := func(counted, waiting int, wait func()) {
		t.Helper()
		h := c.Hold(t)
		h.Exec(`select lock_pieces(array[$1::uuid])`, c.p)
		done := h.StartWaiting(waiting, wait)
		h.Exec(`select change_pieces(uuid_v7(), $1, 'counted', null, $2, null)`, c.p, counted)
		h.Commit()
		<-done
	}
	hold(5, 1, func() { c.correct(path, item, 5, 45) })
	c.is(5, "50")
	again, other := run(t, c.Client, c.p, 4, j{"materials": []j{{"spool_id": c.spool, "actual_weight_grams": 500}}})
	hold(5, 1, func() { c.Post(t, again+"/complete", nil).Want(200) })
	c.spent += 10
	c.is(9, "60")
	c.correct(again, other, 3, 1)
	c.is(8, "60")
}
