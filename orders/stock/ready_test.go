package stock_test

import (
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/orders/pieces"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/tests/testkit"
)

// readyFarm is a farm whose orders become ready. Its product kit is assembled from two clips, and lamp is printed and
// contains two clips.
type readyFarm struct {
	*testkit.Client
	t               *testing.T
	admin           *testkit.Client
	clip, kit, lamp string
}

func newReadyFarm(t *testing.T) *readyFarm {
	t.Helper()
	tenant := testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000}, inventory.Routes,
		catalog.Routes, production.Routes(orders.Runs), orders.Routes, pieces.Routes, stock.Routes).Tenant(t)
	f := &readyFarm{Client: tenant.User(t, "operator"), t: t, admin: tenant.User(t, "admin")}
	f.clip = f.NewProduct(t, "CLIP", 5)
	clips := []j{{"component_product_id": f.clip, "quantity": 2}}
	f.kit = f.Post(t, products, j{"name": "Kit", "components": clips}).Want(201).ID()
	f.lamp = f.Post(t, products, j{"name": "Lamp", "components": clips}).Want(201).ID()
	f.material(f.lamp, true)
	return f
}

// material adds a material to a product, and returns its path.
func (f *readyFarm) material(product string, required bool) string {
	f.t.Helper()
	list := products + "/" + product + "/materials"
	return list + "/" + f.Post(f.t, list, j{"material_type": "PLA", "color": "Black", "weight_grams": 10,
		"is_required": required}).Want(201).ID()
}

func (f *readyFarm) count(product string, pieces int) {
	f.t.Helper()
	f.Post(f.t, products+"/"+product+"/count", j{"counted": pieces}).Want(200)
}

// checked checks the pieces. It fails the test if no transaction since the last check has asked for that.
func (f *readyFarm) checked(what string) {
	f.t.Helper()
	if f.CheckLevels(f.t) == 0 {
		f.t.Errorf("no transaction asked for a check: %s", what)
	}
}

// isReady checks whether an order is ready after a change of what.
func (f *readyFarm) isReady(order string, want bool, what string) {
	f.t.Helper()
	f.checked(what)
	testkit.Equal(f.t, f.Get(f.t, order).Want(200).Text("ready_at") != "null", want, "ready: %s", what)
}

// Orders are ready, or not any more, after each change that adds or takes pieces for them.
func TestReadyFollowsChanges(t *testing.T) {
	t.Parallel()
	t.Run("setting", func(t *testing.T) {
		t.Parallel()
		f := newReadyFarm(t)
		f.count(f.clip, 4)
		order, _ := f.NewOrder(t, f.kit, 2)
		f.isReady(order, true, "the parts are there")
		f.admin.Patch(t, "/api/v1/settings", j{"assemble_on_delivery": false}).Want(200)
		f.isReady(order, false, "nothing is assembled")
		f.admin.Patch(t, "/api/v1/settings", j{"assemble_on_delivery": true}).Want(200)
		f.isReady(order, true, "kits are assembled")
		f.admin.Patch(t, "/api/v1/settings", j{"assemble_on_delivery": true, "currency": "CHF"}).Want(200)
		testkit.Equal(t, f.CheckLevels(t), 0, "checks because of an unchanged setting")
	})
	t.Run("materials", func(t *testing.T) {
		t.Parallel()
		f := newReadyFarm(t)
		f.count(f.clip, 4)
		order, _ := f.NewOrder(t, f.kit, 2)
		f.isReady(order, true, "the parts are there")
		material := f.material(f.kit, true)
		f.isReady(order, false, "the kit is printed")
		f.Patch(t, material, j{"is_required": false}).Want(200)
		f.isReady(order, true, "the material is optional")
		f.Patch(t, material, j{"is_required": true}).Want(200)
		f.isReady(order, false, "the material is required")
		f.Delete(t, material).Want(204)
		f.isReady(order, true, "the material was removed")
	})
	t.Run("items of runs", func(t *testing.T) {
		t.Parallel()
		f := newReadyFarm(t)
		f.count(f.clip, 2)
		_, item := f.NewOrder(t, f.lamp, 1)
		other, _ := f.NewOrder(t, f.clip, 2)
		f.isReady(other, false, "the lamp needs the clips")
		run := f.NewRun(t, f.lamp, item, 1, nil)
		f.isReady(other, true, "a run prints the lamp with its clips")
		entry := run + "/items/" + f.Get(t, run).Text("items.0.id")
		f.Patch(t, entry, j{"parts_from_stock": true}).Want(200)
		f.isReady(other, false, "the run takes the clips")
		f.Patch(t, entry, j{"parts_from_stock": false}).Want(200)
		f.isReady(other, true, "the run does not take the clips")
		f.Patch(t, entry, j{"product_id": f.kit, "order_item_id": nil}).Want(200)
		f.isReady(other, false, "the run prints something else")
		f.Patch(t, entry, j{"product_id": f.lamp, "order_item_id": item}).Want(200)
		f.isReady(other, true, "the run prints the lamp again")
		f.Delete(t, entry).Want(204)
		f.isReady(other, false, "the run prints nothing")
		f.Post(t, run+"/items", j{"product_id": f.lamp, "order_item_id": item}).Want(201)
		f.isReady(other, true, "the run has an item again")
		f.CheckLevels(t)
		f.Patch(t, run+"/items/"+f.Get(t, run).Text("items.0.id"), j{"order_item_id": nil}).Want(200)
		f.isReady(other, true, "the order takes the lamp of a run without an order")
		f.Delete(t, run).Want(204)
		f.isReady(other, false, "the run was deleted")
	})
	t.Run("runs", func(t *testing.T) {
		t.Parallel()
		f := newReadyFarm(t)
		f.count(f.clip, 2)
		_, item := f.NewOrder(t, f.lamp, 1)
		other, _ := f.NewOrder(t, f.clip, 2)
		for _, end := range []func(run string){
			func(run string) { f.Post(t, run+"/cancel", nil).Want(200) },
			func(run string) { f.Patch(t, run, j{"status": "cancelled"}).Want(200) },
			func(run string) { f.Post(t, run+"/fail", j{"reason": "clog"}).Want(200) },
		} {
			run := f.NewRun(t, f.lamp, item, 1, nil)
			f.isReady(other, true, "a run prints the lamp")
			f.Patch(t, run, j{"status": "in_progress"}).Want(200)
			f.CheckLevels(t)
			end(run)
			f.isReady(other, false, "the run has ended")
			f.Delete(t, run).Want(204)
			f.CheckLevels(t)
		}
		// A run that has deducted filament is hidden when it is removed.
		run := f.Post(t, runs, j{"items": []j{{"product_id": f.lamp, "order_item_id": item}},
			"materials": []j{{"spool_id": f.NewSpool(t, 100, nil), "estimated_weight_grams": 10}}}).Want(201)
		path := runs + "/" + run.ID()
		f.Post(t, path+"/fail", j{"reason": "clog", "materials": []j{{"id": run.Text("materials.0.id"),
			"wasted_grams": 5}}}).Want(200)
		f.isReady(other, false, "the run has failed")
		f.Post(t, path+"/reopen", nil).Want(200)
		f.isReady(other, true, "the run was reopened")
		f.Delete(t, path).Want(204)
		f.isReady(other, false, "the run was hidden")
		f.Post(t, path+"/restore", nil).Want(200)
		f.isReady(other, true, "the run was restored")
	})
}

// A product that is low sends one event, until it is fine, has no minimum any more, or is removed.
func TestLowProducts(t *testing.T) {
	t.Parallel()
	f := newReadyFarm(t)
	f.CheckLevels(t)
	ctx := db.As(t.Context(), db.Actor{Tenant: f.Actor.Tenant})
	testkit.Check(t, f.API.DB.Write(ctx, db.SQL(`insert into webhooks (id, url, events, secret)
		values (uuid_v7(), 'https://farm.example', '{product.low_stock}', '')`)))
	vase := f.NewProduct(t, "VASE", 5)
	product := products + "/" + vase
	events := func(want int, what string) {
		t.Helper()
		f.checked(what)
		var n int
		testkit.Check(t, f.API.DB.Read(ctx, db.SQL(
			`select count(*) from webhook_deliveries where type = 'product.low_stock'`).Into(&n)))
		testkit.Equal(t, n, want, "events: %s", what)
	}
	minimum := func(pieces any) { f.Patch(t, product, j{"minimum_pieces": pieces}).Want(200) }
	hidden := f.Post(t, products, j{"name": "Bowl", "minimum_pieces": 5}).Want(201).ID()
	f.Delete(t, products+"/"+hidden).Want(204)
	events(0, "a product was removed before a check")
	minimum(5)
	events(1, "there are no pieces")
	minimum(nil)
	events(1, "no minimum")
	f.count(vase, 100)
	events(1, "100 pieces")
	minimum(95)
	events(1, "100 pieces are not fewer than 95")
	f.count(vase, 3)
	events(2, "3 pieces")
	minimum(nil)
	events(2, "no minimum again")
	minimum(20)
	events(3, "3 pieces are fewer than 20")

	f.Delete(t, product).Want(204)
	events(3, "the product was removed")
	f.count(f.lamp, 1) // asks for a check
	events(3, "a check after the removal")
	f.Post(t, product+"/restore", nil).Want(200)
	events(4, "the product was restored")
}
