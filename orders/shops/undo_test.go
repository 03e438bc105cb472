package shops_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

const list = "Order,Customer,Item,SKU,Qty,Notes\n"

// Undo removes the orders that an import created, unless somebody works on them. The same file creates them again.
func TestUndoCreatedOrders(t *testing.T) {
	t.Parallel()
	c, dragon, _ := farm(t)
	const file = list + "1,Ada,Dragon,DRG-RED,2,\n2,Ada,Dragon,DRG-RED,1,\n3,Ada,Dragon,DRG-RED,1,\n4,Ada,Dragon,DRG-RED,1,\n" +
		"5,Ada,Dragon,DRG-RED,1,\n"
	done := post(t, c, "", file)
	wantCounts(t, done, "5/0/0/0/0")
	c.Get(t, "/api/v1/imports").Shows(map[string]string{"items.0.resources": "orders", "items.0.created": "5",
		"items.0.id": done.Text("import_id")})
	c.NewRun(t, dragon, c.Get(t, find(t, c, "2")).Text("items.0.id"), 1, testkit.JSON{"status": "pending"})
	c.Patch(t, find(t, c, "3"), testkit.JSON{"notes": "mine"}).Want(200)
	c.Post(t, find(t, c, "4")+"/deliver", nil).Want(200)
	c.Delete(t, find(t, c, "5")).Want(204)
	c.WantUndone(t, done, 1, 0, "2: it was used since", "3: it was changed since", "4: it was used since")
	c.Get(t, orders).Shows(map[string]string{"total": "3"})
	c.Get(t, orders+"?hidden=true").Shows(map[string]string{"total": "2"})
	again := post(t, c, "", file)
	wantCounts(t, again, "2/0/3/0/0")
	c.WantUndone(t, again, 2, 0)
	wantCounts(t, post(t, c, "?dry_run=true", file), "2/0/3/0/0")
	post(t, c, "?dry_run=true", file).Shows(map[string]string{"import_id": "null"})
	post(t, c, "", list+"2,Ada,Dragon,DRG-RED,1,\n").Shows(map[string]string{"import_id": "null"})
}

// A file has the carrier and the tracking number of an order, and the undo of a later file gives them back.
func TestTrackingOfFiles(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	const titles = "Order,Item,SKU,Carrier,Tracking number\n"
	post(t, c, "", titles+"1,Dragon,DRG-RED,DHL,\n2,Dragon,DRG-RED,,\n").Want(200)
	wants := func(order, carrier, tracking string) {
		t.Helper()
		c.Get(t, find(t, c, order)).Want(200).Shows(map[string]string{"carrier": carrier, "tracking_number": tracking})
	}
	wants("1", "DHL", "null")
	c.Patch(t, find(t, c, "2"), testkit.JSON{"tracking_number": "mine"}).Want(200)
	done := post(t, c, "", titles+"1,Dragon,DRG-RED,UPS,1Z9\n2,Dragon,DRG-RED,GLS,22\n").Want(200)
	wants("1", "UPS", "1Z9")
	wants("2", "GLS", "22")
	c.Patch(t, find(t, c, "1"), testkit.JSON{"tracking_number": "1Z8"}).Want(200)
	c.WantUndone(t, done, 0, 2, "1: it was changed since: tracking_number")
	wants("1", "DHL", "1Z8")
	wants("2", "null", "null")
}

// Undo gives orders back what the file before had, except for what people have changed since. The next file changes
// them again.
func TestUndoChangedOrders(t *testing.T) {
	t.Parallel()
	c, dragon, hook := farm(t)
	row := func(order int, customer string, quantity int, sku, notes string) string {
		return fmt.Sprintf("%d,%s,%s,%s,%d,%s\n", order, customer, sku, sku, quantity, notes)
	}
	before, after := list, list
	for n := 1; n <= 6; n++ {
		before += row(n, "Ada", 2, "DRG-RED", "old")
		after += row(n, "Bob", 5, "DRG-RED", "new") + row(n, "Bob", 1, "HOOK", "new")
	}
	c.Post(t, orders, testkit.JSON{"reference": "7", "customer": "Own"}).Want(201)
	post(t, c, "", before).Want(200)
	after += row(7, "Bob", 1, "HOOK", "new")
	done := post(t, c, "", after)
	wantCounts(t, done, "0/7/0/0/0")
	c.Patch(t, find(t, c, "2"), testkit.JSON{"customer": "Cy"}).Want(200)
	item := c.Get(t, find(t, c, "3")).Text("items.0.id")
	c.Patch(t, find(t, c, "3")+"/items/"+item, testkit.JSON{"quantity": 9}).Want(200)
	c.Post(t, find(t, c, "4")+"/deliver", testkit.JSON{"items": []testkit.JSON{{
		"id": c.Get(t, find(t, c, "4")).Text("items.0.id"), "quantity": 1}}}).Want(200)
	c.Delete(t, find(t, c, "5")).Want(204)
	post(t, c, "", list+row(6, "Eve", 5, "DRG-RED", "newer")).Want(200)
	c.WantUndone(t, done, 0, 4, "7: what it was before is not known", "2: it was changed since: customer",
		"3: it was changed since: items",
		"4: it was changed since: items", "5: it was removed since", "6: a later file changed it")
	for n, want := range map[string]string{"1": "Ada old 2", "2": "Cy old 2", "3": "Ada old 9+1", "4": "Ada old 5+1",
		"6": "Eve newer 5", "7": "Own new 1"} {
		o := c.Get(t, find(t, c, n)).Want(200)
		got := o.Text("customer") + " " + o.Text("notes") + " " + o.Text("items.0.quantity")
		if len(o.List("items")) > 1 {
			got += "+" + o.Text("items.1.quantity")
		}
		testkit.Equal(t, got, want, "order %s", n)
	}
	c.Get(t, find(t, c, "1")).Shows(map[string]string{"items.0.product_id": dragon})
	wantCounts(t, post(t, c, "", list+row(1, "Bob", 5, "DRG-RED", "new")+row(1, "Bob", 1, "HOOK", "new")), "0/1/0/0/0")
	c.Get(t, find(t, c, "1")).Shows(map[string]string{"customer": "Bob", "items.0.quantity": "5",
		"items.1.product_id": hook, "items.1.quantity": "1"})
}

// An order of a file that has only samples is deleted with them. Undo leaves it.
func TestUndoDeletedOrder(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	post(t, c, "", list+"1,Ada,Vase,,1,old\n").Want(200)
	done := post(t, c, "", list+"1,Bob,Vase,,1,new\n")
	id := strings.TrimPrefix(find(t, c, "1"), orders+"/")
	for _, table := range []string{"file_orders where order_id", "order_lines where order_id", "orders where id"} {
		testkit.ExecURL(t, testkit.Private().SuperURL(), `delete from `+table+` = '`+id+`'`)
	}
	c.WantUndone(t, done, 0, 0, "null: it was removed since")
}

// Undo opens orders again that a file has cancelled. Orders that follow their shop stay as they are.
func TestUndoCancelledOrders(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	const titles, open = "Source,Order,Item,Qty,Status\n", "m,1,Vase,2,open\n"
	s := connect(t, c, "generic")
	first := post(t, c, "", titles+open+"generic.example,A,Dragon,1,open\n")
	wantCounts(t, first, "2/0/0/0/0")
	message := generic(1, 1, testkit.JSON{"id": "1", "title": "Dragon", "quantity": 2})
	message["reference"] = "A"
	s.send(t, message)
	second := post(t, c, "", titles+"m,1,Vase,2,cancelled\n")
	wantCounts(t, second, "0/1/0/0/0")
	c.Get(t, find(t, c, "1")).Shows(map[string]string{"status": "cancelled"})
	c.WantUndone(t, second, 0, 1)
	c.Get(t, find(t, c, "1")).Shows(map[string]string{"status": "received", "unassigned_lines.0.quantity": "2"})
	c.WantUndone(t, first, 0, 0, "1: it was changed since", "A: it was used since")
	c.Get(t, orders).Shows(map[string]string{"total": "2"})
}
