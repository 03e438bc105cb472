package stock_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/orders/stock"
	"spoolwright/tests/testkit"
)

const levels = "/api/v1/stock-levels"

// countLowStock creates a webhook for events of low stock, and returns a function that checks the levels and counts
// the events. It fails the test if no change of the stock has asked for the check.
func countLowStock(t *testing.T, c *testkit.Client) func() int {
	t.Helper()
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	c.CheckLevels(t)
	testkit.Check(t, c.API.DB.Write(ctx, db.SQL(`insert into webhooks (id, url, events, secret)
		values (uuid_v7(), 'https://farm.example', '{inventory.low_stock}', '')`)))
	return func() (n int) {
		t.Helper()
		if c.CheckLevels(t) == 0 {
			t.Error("no transaction asked for a check of the levels")
		}
		count := db.SQL(`select count(*) from webhook_deliveries where type = 'inventory.low_stock'`).Into(&n)
		testkit.Check(t, c.API.DB.Read(ctx, count))
		return n
	}
}

// Each operation that changes stock or reservations makes a level low, or fine again, with one event.
func TestLevelsFollowOperations(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	// farm is a tenant with a spool of 1,000 g and a level of 900 g, and a product that needs 150 g.
	type farm struct {
		*testkit.Client
		t                     *testing.T
		spool, level, product string
		run, material, item   string
	}
	spool := func(f *farm) string { return "/api/v1/spools/" + f.spool }
	newRun := func(f *farm, grams any) {
		run := f.Post(f.t, runs, j{"materials": []j{{"spool_id": f.spool, "estimated_weight_grams": grams}}}).Want(201)
		f.run, f.material = runs+"/"+run.ID(), run.Text("materials.0.id")
	}
	material := func(f *farm) string { return f.run + "/materials/" + f.material }
	newOrder := func(f *farm, quantity int) {
		order := f.Post(f.t, path, j{"items": []j{{"product_id": f.product, "quantity": quantity}}}).Want(201)
		f.run, f.item = path+"/"+order.ID(), order.Text("items.0.id")
	}
	report := func(grams string) func(*farm) {
		return func(f *farm) {
			err := api.DB.Write(db.As(f.t.Context(), f.Actor),
				db.SQL(`select report_use(1, $1::numeric, null, null, null)::text`, grams))
			if err != nil {
				f.t.Error(err)
			}
		}
	}
	patch := func(of func(*farm) string, body j) func(*farm) {
		return func(f *farm) { f.Patch(f.t, of(f), body).Want(200) }
	}
	current := func(f *farm) string { return f.run }
	deduct := func(f *farm) { f.Post(f.t, spool(f)+"/deduct", j{"weight_grams": 150}).Want(200) }
	refill := patch(spool, j{"remaining_weight_grams": 990})
	remove := func(of func(*farm) string) func(*farm) {
		return func(f *farm) { f.Delete(f.t, of(f)).Want(204) }
	}
	materialPath := func(f *farm) string {
		return products + "/" + f.product + "/materials/" + f.Get(f.t, products+"/"+f.product).Text("materials.0.id")
	}
	for name, steps := range map[string][]func(*farm){ // after the first, the third, ... the level is low
		"deduct, edit":    {deduct, refill},
		"remove, restore": {remove(spool), func(f *farm) { f.Post(f.t, spool(f)+"/restore", nil).Want(200) }},
		"archive":         {patch(spool, j{"archived": true}), patch(spool, j{"archived": false})},
		"color":           {patch(spool, j{"color": "Red"}), patch(spool, j{"color": "BLACK"})},
		"material":        {patch(spool, j{"material_type": "ABS"}), patch(spool, j{"material_type": "PLA"})},
		"measure": {func(f *farm) { f.Post(f.t, spool(f)+"/measure", j{"gross_grams": 1099.999999}).Want(200) },
			func(f *farm) { f.Post(f.t, spool(f)+"/measure", j{"gross_grams": 1190}).Want(200) }},
		"printers": {report("150"), report("-150")},
		"create":   {deduct, func(f *farm) { f.Client.NewSpool(f.t, 140, nil) }},
		"import": {deduct, func(f *farm) {
			f.With("Content-Type", "text/csv").Post(f.t, "/api/v1/spools/import",
				"material_type,color,diameter_mm,net_weight_grams\nPLA,black,1.75,140\n").Want(200)
		}},
		"import of Spoolman": {deduct, func(f *farm) {
			file := strings.NewReader(`[{"id": 1, "registered": "2024-01-15T10:00:00Z", "archived": false,
				"initial_weight": 150, "remaining_weight": 150, "filament": {"id": 1, "registered": "2024-01-15T10:00:00Z",
				"name": "Black",
				"material": "PLA", "density": 1.24, "diameter": 1.75, "weight": 150}}]`)
			result, err := imports.Importer{DB: api.DB}.Spoolman(db.As(f.t.Context(), f.Actor), file,
				imports.SourceOptions{})
			if err != nil || result.Counts["spool"].Created != 1 {
				f.t.Fatal(result, err)
			}
		}},
		"remove and restore a completed run of an order": {
			func(f *farm) { newOrder(f, 1) },
			func(f *farm) {
				order := f.run
				f.run = runs + "/" + f.Post(f.t, runs,
					j{"items": []j{{"product_id": f.product, "order_item_id": f.item}},
						"materials": []j{{"spool_id": f.spool, "actual_weight_grams": 1}}}).Want(201).ID()
				f.Post(f.t, f.run+"/complete", nil).Want(200)
				f.Delete(f.t, f.run).Want(204)
				f.Post(f.t, f.run+"/restore", nil).Want(200)
				f.Get(f.t, order).Shows(map[string]string{"status": "in_production"})
			}},
		"quantity of an item of an order": {
			func(f *farm) { newOrder(f, 1) },
			func(f *farm) { f.Delete(f.t, f.run+"/items/"+f.item).Want(204) },
			func(f *farm) {
				product := f.Client.NewProduct(f.t, "B", 5)
				f.item = f.Post(f.t, f.run+"/items", j{"product_id": product, "quantity": 21}).Want(201).ID()
			},
			func(f *farm) { f.Patch(f.t, f.run+"/items/"+f.item, j{"quantity": 2}).Want(200) },
			func(f *farm) { f.Patch(f.t, f.run+"/items/"+f.item, j{"quantity": 21}).Want(200) }},
		"create and delete a run": {func(f *farm) { newRun(f, 100.5) }, remove(current)},
		"materials of a run": {func(f *farm) { newRun(f, 150) }, remove(material), func(f *farm) {
			f.material = f.Post(f.t, f.run+"/materials",
				j{"spool_id": f.spool, "estimated_weight_grams": 150}).Want(201).ID()
		}, patch(material, j{"estimated_weight_grams": 10}), patch(material, j{"actual_weight_grams": 101})},
		"status of a run": {func(f *farm) { newRun(f, 150) }, patch(current, j{"status": "failed"}),
			patch(current, j{"status": "paused"}), patch(current, j{"status": "cancelled"})},
		"complete with less": {func(f *farm) { newRun(f, 150) }, func(f *farm) {
			f.Post(f.t, f.run+"/complete",
				j{"materials": []j{{"id": f.material, "actual_weight_grams": 10}}}).Want(200)
		}},
		"complete with more": {func(f *farm) {
			newRun(f, 50)
			f.Post(f.t, f.run+"/complete",
				j{"materials": []j{{"id": f.material, "actual_weight_grams": 101}}}).Want(200)
		}, refill},
		"fail with less": {func(f *farm) { newRun(f, 150) }, func(f *farm) {
			f.Post(f.t, f.run+"/fail", j{"reason": "clog"}).Want(200)
		}},
		"cancel with more": {func(f *farm) {
			newRun(f, 50)
			f.Post(f.t, f.run+"/cancel", j{"materials": []j{{"id": f.material, "wasted_grams": 101}}}).Want(200)
		}, refill},
		"items of a run": {func(f *farm) {
			run := f.Post(f.t, runs, j{"items": []j{{"product_id": f.product}}}).Want(201)
			f.run, f.item = runs+"/"+run.ID(), run.Text("items.0.id")
		}, func(f *farm) { f.Delete(f.t, f.run+"/items/"+f.item).Want(204) }, func(f *farm) {
			f.item = f.Post(f.t, f.run+"/items", j{"product_id": f.product}).Want(201).ID()
		}},
		"create and cancel an order": {func(f *farm) { newOrder(f, 1) }, patch(current, j{"status": "cancelled"})},
		"finish an order":            {func(f *farm) { newOrder(f, 1) }, patch(current, j{"status": "done"})},
		"remove an order":            {func(f *farm) { newOrder(f, 1) }, remove(current)},
		"items of an order": {func(f *farm) { newOrder(f, 1) }, func(f *farm) {
			f.Delete(f.t, f.run+"/items/"+f.item).Want(204)
		}, func(f *farm) { f.Post(f.t, f.run+"/items", j{"product_id": f.product}).Want(201) }},
		"a bill of materials": {func(f *farm) { newOrder(f, 1) },
			func(f *farm) { f.Patch(f.t, materialPath(f), j{"weight_grams": 10}).Want(200) },
			func(f *farm) { f.Patch(f.t, materialPath(f), j{"weight_grams": 101}).Want(200) },
			func(f *farm) { f.Delete(f.t, materialPath(f)).Want(204) },
			func(f *farm) {
				f.Post(f.t, products+"/"+f.product+"/materials",
					j{"material_type": "PLA", "color": "Black", "weight_grams": 150}).Want(201)
			}},
		"components": {func(f *farm) {
			set := f.Post(f.t, products, j{"name": "Set",
				"components": []j{{"component_product_id": f.product}}}).Want(201)
			f.item = products + "/" + set.ID() + "/components/" + set.Text("components.0.id")
			f.Post(f.t, path, j{"items": []j{{"product_id": set.ID()}}}).Want(201)
		}, func(f *farm) { f.Delete(f.t, f.item).Want(204) }, func(f *farm) {
			set := strings.Split(f.item, "/components/")[0]
			f.item = set + "/components/" +
				f.Post(f.t, set+"/components", j{"component_product_id": f.product}).Want(201).ID()
		}, func(f *farm) { f.Delete(f.t, f.item).Want(204) }, func(f *farm) {
			set := strings.Split(f.item, "/components/")[0]
			light := f.Client.NewProduct(f.t, "B", 10)
			f.item = set + "/components/" +
				f.Post(f.t, set+"/components", j{"component_product_id": light, "quantity": 11}).
					Want(201).ID()
		}, func(f *farm) { f.Patch(f.t, f.item, j{"quantity": 1}).Want(200) }},
		"the level": {patch(func(f *farm) string { return levels + "/" + f.level }, j{"minimum_grams": 1001}),
			patch(func(f *farm) string { return levels + "/" + f.level }, j{"minimum_grams": 909})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			f := &farm{Client: c, t: t, spool: c.NewSpool(t, 1000, j{"spool_weight_grams": 200}),
				product: c.NewProduct(t, "A", 150)}
			c.NewSpool(t, 1000, j{"material_type": "ABS", "color": "Red"}) // does not count
			f.level = c.Post(t, levels, j{"material_type": "PLA", "color": "black", "minimum_grams": 900}).Want(201).
				Shows(map[string]string{"low": "false", "available_grams": "1000"}).ID()
			events := countLowStock(t, c)
			for n, step := range steps {
				step(f)
				low := n%2 == 0
				c.Get(t, levels+"/"+f.level).Shows(map[string]string{"low": fmt.Sprint(low), "low_since": "null"})
				if got := events(); got != n/2+1 {
					t.Fatalf("after step %d: %d events, want %d", n+1, got, n/2+1)
				}
				a := c.Get(t, levels+"/"+f.level).Want(200)
				if a.Text("low") != fmt.Sprint(low) || (a.Text("low_since") != "null") != low {
					t.Fatalf("after step %d: %s", n+1, a.Body)
				}
			}
		})
	}
}

// A level is low from below its minimum until 110 % of it.
func TestLevelThresholds(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := "/api/v1/spools/" + c.NewSpool(t, 1000, nil)
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()
	events := countLowStock(t, c)
	since := "null"
	for _, step := range []struct{ remaining, missing, low string }{
		{"900", "0", "false"}, {"899.999999", "90.000001", "true"}, {"989.999999", "0.000001", "true"},
		{"500", "490", "true"}, {"990", "0", "false"}, {"900", "0", "false"},
	} {
		c.Patch(t, spool, j{"remaining_weight_grams": json.Number(step.remaining)}).Want(200)
		c.Get(t, level).Shows(map[string]string{"low": step.low, "missing_grams": step.missing})
		c.CheckLevels(t)
		a := c.Get(t, level).Want(200).Shows(map[string]string{"low": step.low, "missing_grams": step.missing})
		if got := a.Text("low_since"); step.low == "true" && since != "null" && got != since {
			t.Errorf("at %s g, the level is low since %s, and was since %s", step.remaining, got, since)
		}
		since = a.Text("low_since")
	}
	c.Patch(t, spool, j{"notes": "x", "remaining_weight_grams": 901}).Want(200)
	testkit.Equal(t, events(), 1, "events")
}

// Of concurrent checks after concurrent deductions that together make a level low, exactly one sends the event.
func TestLevelsConcurrently(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()
	c.Post(t, levels, j{"material_type": "PLA", "color": "Black", "minimum_grams": 10}).Want(201)
	events := countLowStock(t, c)
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	spools := make([]string, 8)
	for i := range spools {
		spools[i] = "/api/v1/spools/" + c.NewSpool(t, 125, nil)
	}
	c.CheckLevels(t)
	for round := range 12 {
		c.Get(t, level).Shows(map[string]string{"low": "false", "available_grams": "1000"})
		var all sync.WaitGroup
		start := make(chan bool)
		for _, spool := range spools {
			all.Go(func() {
				<-start
				if a, err := c.Send("POST", spool+"/deduct", j{"weight_grams": 13}); err != nil || a.Status != 200 {
					t.Errorf("%v %v", a, err)
				}
			})
		}
		close(start)
		all.Wait()
		testkit.Concurrently(4, func(int) {
			if err := c.API.DB.Write(ctx, db.SQL(`select check_levels()::text`)); err != nil {
				t.Error(err)
			}
		})
		c.Get(t, level).Shows(map[string]string{"low": "true", "available_grams": "896", "missing_grams": "94"})
		if n := events(); n != round+1 {
			t.Fatalf("round %d: %d events", round+1, n)
		}
		for _, spool := range spools {
			c.Patch(t, spool, j{"remaining_weight_grams": 125}).Want(200)
		}
		events()
	}
}

// A change of the stock whose transaction does not see the first level of the tenant is checked after its commit, also
// if the level was checked before. Neither waits for the other.
func TestLevelDuringChange(t *testing.T) {
	t.Parallel()
	name := testkit.MigratedDatabase(t)
	d, err := db.Open(t.Context(), db.Config{URL: testkit.WithDatabase(testkit.Private().AppURL(), name),
		Definitions: app.Definitions})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	super, err := pgx.Connect(t.Context(), testkit.WithDatabase(testkit.Private().SuperURL(), name))
	testkit.Check(t, err)
	defer super.Close(t.Context())
	c := testkit.New(t, testkit.Options{DB: d}, inventory.Routes, stock.Routes).Operator(t)
	c.NewSpool(t, 1000, nil)
	deduction := c.Hold(t, `update spools set remaining_weight_grams = 100`)
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()
	low := c.Post(t, levels, j{"material_type": "ABS", "minimum_grams": 1}).Want(201).ID()
	end := watch(t, d, slog.New(slog.DiscardHandler), 10*time.Millisecond)
	defer end()
	isLow := func(level string) func() bool {
		return func() bool { return c.Get(t, level).Want(200).Text("low_since") != "null" }
	}
	testkit.Eventually(t, "the first check", isLow(levels+"/"+low))
	c.Get(t, level).Shows(map[string]string{"low": "false"})
	deduction.Commit()
	testkit.Eventually(t, "the check after the change", isLow(level))
	testkit.Eventually(t, "the queue is empty", func() bool {
		var items int
		testkit.Check(t, super.QueryRow(t.Context(),
			`select (select count(*) from queue_items) + (select count(*) from queue_signals)`).Scan(&items))
		return items == 0
	})
}

// A tenant has at most 500 levels, also when two are created at the same time.
func TestLevelLimit(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), db.SQL(`
		insert into stock_levels (id, material_type, color, minimum_grams)
		select uuid_v7(), 'PLA', n::text, 1 from generate_series(1, 499) n`)))
	testkit.Race(t, 4, func(i int) (*testkit.Response, error) {
		return c.Send("POST", levels, j{"material_type": "ABS", "color": fmt.Sprint(i), "minimum_grams": 1})
	}).Want(t, map[string]int{"201": 1, "409 STOCK_LEVEL_LIMIT": 3})
	c.Get(t, levels+"?limit=1").Shows(map[string]string{"total": "500"})
}

// A transaction that changes spools of several materials, and then something else, refreshes all their levels.
func TestLevelsOfSeveralMaterials(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var materials []j
	for _, material := range []string{"TPU", "PLA", "ABS"} {
		c.Post(t, levels, j{"material_type": material, "minimum_grams": 900}).Want(201)
		spool := c.NewSpool(t, 1000, j{"material_type": material})
		materials = append(materials, j{"spool_id": spool, "actual_weight_grams": 101})
	}
	c.Post(t, levels, j{"material_type": "PC", "minimum_grams": 1}).Want(201)
	c.CheckLevels(t)
	c.Get(t, levels+"?low=true").Shows(map[string]string{"total": "1", "items.0.material_type": "PC"})
	run := c.Post(t, runs, j{}).Want(201).ID()
	for _, m := range materials {
		c.Post(t, runs+"/"+run+"/materials", m).Want(201)
	}
	c.Post(t, runs+"/"+run+"/complete", nil).Want(200)
	c.Get(t, levels+"?low=true").Shows(map[string]string{"total": "4"})
	c.With("Content-Type", "text/csv").Post(t, "/api/v1/spools/import",
		"material_type,color,diameter_mm,net_weight_grams\n"+
			"ABS,Black,1.75,500\nPC,Red,1.75,1000\nPLA,Red,1.75,500\nTPU,Red,1.75,500\n").Want(200)
	c.Get(t, levels+"?low=true").Shows(map[string]string{"total": "0"})
}

// The purchase of a level is the filament whose spool was added last, or the newest, with the last price.
func TestPurchase(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	level := func(fields j) (path string) {
		body := j{"material_type": "PLA", "color": "Black", "minimum_grams": 1000}
		maps.Copy(body, fields)
		return levels + "/" + c.Post(t, levels, body).Want(201).ID()
	}
	shows := func(path, want string) {
		t.Helper()
		names := strings.Fields("filament_id vendor article_number url price price_of net_weight_grams spools")
		a := c.Get(t, path).Want(200)
		var got []string
		for _, name := range names {
			got = append(got, a.Text("purchase."+name))
		}
		testkit.Equal(t, strings.Join(got, " "), want, "the purchase")
	}
	filament := func(fields j) string {
		body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75}
		maps.Copy(body, fields)
		return c.Post(t, "/api/v1/filaments", body).Want(201).ID()
	}
	api.Operator(t).NewSpool(t, 900, j{"purchase_price": 1, "brand": "Foreign"})
	black, all, acme := level(nil), level(j{"color": nil}), level(j{"brand": "ACME"})
	shows(black, "null null null null null null null null")

	// Without a filament, the newest spool that has a price counts.
	for _, price := range []any{20, 21, nil} {
		c.NewSpool(t, 100, j{"brand": "Loose", "purchase_price": price, "archived": true})
	}
	removed := c.NewSpool(t, 100, j{"brand": "Removed", "purchase_price": 22})
	c.Delete(t, "/api/v1/spools/"+removed).Want(204)
	shows(black, "null Loose null null 21 spool 1000 2")
	shows(acme, "null null null null null null null null")

	// The filament of the newest spool, and the price of that spool, or of the filament.
	first := filament(j{"vendor": "Acme", "article_number": "A1", "url": "https://shop.example/1", "price": 30,
		"net_weight_grams": 1000})
	second := filament(j{"vendor": "Other", "article_number": "A2", "price": 40, "net_weight_grams": 500})
	filament(j{"color": "Red", "net_weight_grams": 1})
	filament(j{"material_name": "PLA+"})
	filament(j{"diameter_mm": 2.85})
	filament(j{"material_type": "ABS"})
	c.Delete(t, "/api/v1/filaments/"+filament(nil)).Want(204)
	shows(black, second+" Other A2 null 40 filament 500 3")
	shows(acme, first+" Acme A1 https://shop.example/1 30 filament 1000 2")
	add := func(id string, price any) string {
		return c.Post(t, "/api/v1/spools", j{"filament_id": id, "remaining_weight_grams": 1, "purchase_price": price}).
			Want(201).ID()
	}
	add(first, 29)
	shows(black, first+" Acme A1 https://shop.example/1 29 spool 1000 2")
	shows(all, first+" Acme A1 https://shop.example/1 29 spool 1000 2")
	c.Patch(t, "/api/v1/spools/"+add(second, 41), j{"archived": true}).Want(200)
	shows(black, second+" Other A2 null 41 spool 500 3")
	c.Delete(t, "/api/v1/spools/"+add(first, 1)).Want(204)
	shows(black, second+" Other A2 null 41 spool 500 3")
	c.Patch(t, "/api/v1/spools/"+add(first, 1), j{"purchase_price": nil}).Want(200)
	shows(black, first+" Acme A1 https://shop.example/1 30 filament 1000 2")

	// What is on its way need not be bought.
	c.Patch(t, black, j{"incoming_grams": 1000}).Want(200)
	shows(black, first+" Acme A1 https://shop.example/1 30 filament 1000 1")
	c.Patch(t, black, j{"incoming_grams": 2000}).Want(200)
	shows(black, first+" Acme A1 https://shop.example/1 30 filament 1000 0")
	list := string(c.Get(t, levels).Want(200).Body)
	testkit.Equal(t, strings.Count(list, `"purchase":{"filament_id":"`+first+`"`), 3,
		"levels of the list with the filament")
	c.Get(t, levels+"?sort_by=purchase").WantError(422, "VALIDATION_ERROR")
}

// Levels sort, filter and page, and belong to a material, a color and a brand.
func TestStockLevels(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	c.NewSpool(t, 400, j{"brand": "Polymaker"})
	c.NewSpool(t, 250, j{"brand": "Other"})
	c.NewSpool(t, 50, nil) // without a brand, which is another brand, too
	c.NewSpool(t, 200, j{"color": "Red"})
	c.NewSpool(t, 0, nil)
	product := c.NewProduct(t, "A", 350)
	c.Post(t, path, j{"items": []j{{"product_id": product}}}).Want(201)
	create := func(body j) *testkit.Response { return c.Post(t, levels, body) }
	all := create(j{"material_type": "PLA", "minimum_grams": 600}).Want(201).Shows(map[string]string{"color": "null",
		"brand": "null", "remaining_grams": "900", "reserved_grams": "350", "available_grams": "550",
		"spool_count": "4",
		"low":         "true", "missing_grams": "110"})
	create(j{"material_type": "PLA", "color": "Black", "minimum_grams": 100}).Want(201).Shows(map[string]string{
		"remaining_grams": "700", "reserved_grams": "350", "spool_count": "3", "low": "false", "missing_grams": "0"})
	// The other spools cover 300 g of the 350 g that are reserved.
	create(j{"material_type": "PLA", "color": "Black", "brand": "POLYMAKER", "minimum_grams": 350}).Want(201).
		Shows(map[string]string{"remaining_grams": "400", "reserved_grams": "50", "spool_count": "1", "low": "false"})
	create(j{"material_type": "TPU", "minimum_grams": 0.5}).Want(201).Shows(map[string]string{"spool_count": "0",
		"available_grams": "0", "missing_grams": "0.55", "low": "true"})
	create(j{"material_type": "PLA", "color": "BLACK", "minimum_grams": 1}).WantError(409, "STOCK_LEVEL_EXISTS")
	create(j{"material_type": "PLA", "minimum_grams": 1}).WantError(409, "STOCK_LEVEL_EXISTS")
	other := create(j{"material_type": "PLA", "color": "Red", "minimum_grams": 1}).Want(201)
	c.Patch(t, levels+"/"+other.ID(), j{"color": nil}).WantError(409, "STOCK_LEVEL_EXISTS")
	c.Patch(t, levels+"/"+other.ID(), j{"color": ""}).WantError(409, "STOCK_LEVEL_EXISTS")
	empty := create(j{"material_type": "PLA", "color": "", "brand": "Other", "minimum_grams": 1}).Want(201).
		Shows(map[string]string{"color": "null", "remaining_grams": "250"})
	c.Patch(t, levels+"/"+empty.ID(), j{"color": "Red", "brand": ""}).WantError(409, "STOCK_LEVEL_EXISTS")
	c.Patch(t, levels+"/"+empty.ID(), j{"color": "Black", "brand": ""}).WantError(409, "STOCK_LEVEL_EXISTS")
	c.Patch(t, levels+"/"+empty.ID(), j{"material_type": "ABS", "brand": ""}).Want(200).
		Shows(map[string]string{"color": "null", "brand": "null", "low": "true"})
	c.Delete(t, levels+"/"+empty.ID()).Want(204)
	for field, body := range map[string]j{"minimum_grams": {"material_type": "PLA"},
		"material_type": {"minimum_grams": 1, "material_type": "Wood"}, "low": {"low": "x", "minimum_grams": 0}} {
		a := create(body).WantError(422, "VALIDATION_ERROR")
		if field != "low" {
			a.Shows(map[string]string{"errors.0.field": field})
		}
	}

	list := func(query string, total string, first string) {
		t.Helper()
		c.Get(t, levels+"?"+query).Want(200).Shows(map[string]string{"total": total, "items.0.material_type": first})
	}
	list("", "5", "PLA")
	list("low=true", "2", "TPU")
	list("low=true&sort_by=missing_grams", "2", "PLA")
	list("low=false&sort_by=available_grams&sort_order=asc&limit=1&skip=1", "3", "PLA")
	list("color=black&brand=polymaker&material_type=PLA", "1", "PLA")
	c.Get(t, levels+"?low=false&skip=9").Want(200).Shows(map[string]string{"total": "3", "items": "[]"})
	c.Get(t, levels+"?sort_by=spool_count&sort_order=asc").Want(200).Shows(map[string]string{"items.0.spool_count": "0"})

	id := levels + "/" + all.ID()
	c.Delete(t, id).Want(204)
	c.Get(t, id).WantError(404, "NOT_FOUND")
	c.Delete(t, id).WantError(404, "NOT_FOUND")
}

// What was removed or archived is neither in stock nor reserved, and has no availability.
func TestRemovedDoesNotCount(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	c.NewSpool(t, 100, j{"color": "Red"})
	archived := "/api/v1/spools/" + c.NewSpool(t, 200, j{"color": "Red"})
	removed := "/api/v1/spools/" + c.NewSpool(t, 400, j{"color": "Red"})
	c.Patch(t, archived, j{"archived": true}).Want(200)
	c.Delete(t, removed).Want(204)
	product := c.NewProduct(t, "A", 10) // of PLA Black
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 1}).Want(201).
		Shows(map[string]string{"remaining_grams": "100", "spool_count": "1", "reserved_grams": "0"}).ID()
	availability := products + "/" + product + "/availability"
	c.Get(t, availability).Want(200).Shows(map[string]string{"materials.0.spool_count": "0",
		"materials.0.in_stock.0.remaining_grams": "100"})

	run := c.Post(t, runs, j{"items": []j{{"product_id": product, "quantity": 3}}}).Want(201).ID()
	c.Get(t, level).Shows(map[string]string{"reserved_grams": "30"})
	order, _ := c.NewOrder(t, product, 4) // the run prints three of its pieces
	c.Get(t, level).Shows(map[string]string{"reserved_grams": "40"})
	hide := func(table, id string) {
		t.Helper()
		testkit.Check(t, c.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}),
			db.SQL(`update `+table+` set hidden_at = now() where id = $1`, id)))
	}
	c.Get(t, products+"/"+product).Want(200).Shows(map[string]string{"incoming": "3"})
	hide("production_runs", run)
	c.Get(t, products+"/"+product).Want(200).Shows(map[string]string{"incoming": "0"})
	c.Get(t, level).Shows(map[string]string{"reserved_grams": "40"})
	hide("orders", order[len(path)+1:])
	c.Get(t, level).Shows(map[string]string{"reserved_grams": "0"})
	c.Get(t, order+"/availability").WantError(404, "NOT_FOUND")
	hide("products", product)
	c.Get(t, availability).WantError(404, "NOT_FOUND")
}

// What is ordered is shown beside a level, and changes neither what is available nor whether the level is low.
func TestIncomingFilament(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	c.NewSpool(t, 400, nil)
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "color": "Black", "minimum_grams": 1000,
		"incoming_grams": 2000, "incoming_date": "2024-03-01"}).Want(201).Shows(map[string]string{
		"incoming_grams": "2000", "incoming_date": "2024-03-01", "available_grams": "400", "low": "true",
		"missing_grams": "700"}).ID()
	for _, wrong := range []j{{"incoming_grams": 0}, {"incoming_grams": -1}, {"incoming_grams": 1e10},
		{"incoming_grams": "x"}} {
		c.Patch(t, level, wrong).Fields("incoming_grams")
	}
	c.Patch(t, level, j{"incoming_date": "soon"}).Fields("incoming_date")
	c.Get(t, levels+"?low=true").Shows(map[string]string{"total": "1", "items.0.incoming_grams": "2000"})
	c.Patch(t, level, j{"incoming_grams": 500}).Want(200).Shows(map[string]string{"incoming_grams": "500",
		"incoming_date": "2024-03-01"})
	c.Patch(t, level, j{"incoming_grams": nil}).Want(200).Shows(map[string]string{"incoming_grams": "null",
		"incoming_date": "null", "low": "true", "missing_grams": "700"})
	c.Post(t, levels, j{"material_type": "PETG", "minimum_grams": 1}).Want(201).
		Shows(map[string]string{"incoming_grams": "null", "incoming_date": "null"})
	tenant.User(t, "viewer").Patch(t, level, j{"incoming_grams": 1}).WantError(403, "FORBIDDEN")
	api.Operator(t).Patch(t, level, j{"incoming_grams": 1}).WantError(404, "NOT_FOUND")
}
