package orders_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// partly returns an order of 3 pieces at 20 of which 2 are delivered: its path, and that of its item.
func partly(t *testing.T, c *testkit.Client) (order, item, product string) {
	t.Helper()
	product = c.NewProduct(t, "P", 10)
	a := c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 3, "unit_price": 20}}}).Want(201)
	order, item = path+"/"+a.ID(), a.Text("items.0.id")
	c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 2}}}).Want(200)
	return order, order + "/items/" + item, product
}

// warned fails the test unless the answer has these warnings, such as "PLANNED_MORE 2".
func warned(t *testing.T, a *testkit.Response, want ...string) {
	t.Helper()
	got := []string{}
	for i := range a.List("warnings") {
		w := fmt.Sprintf("warnings.%d.", i)
		got = append(got, a.Text(w+"code")+" "+a.Text(w+"pieces"))
	}
	testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "warnings")
}

// An item cannot have fewer pieces than are delivered, nor another product.
func TestItemAfterDelivery(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	order, item, product := partly(t, c)
	other := c.NewProduct(t, "Q", 10)
	c.Patch(t, item, j{"quantity": 1}).Fields("quantity")
	c.Patch(t, item, j{"product_id": other}).Fields("product_id")
	c.Patch(t, item, j{"sku": "Q", "quantity": 1}).Fields("sku", "quantity")
	c.Patch(t, item, j{"product_id": nil}).Fields("product_id")
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.quantity": "3", "items.0.product_id": product,
		"status": "received"})
	warned(t, c.Patch(t, item, j{"product_id": product, "sku": "P"}).Want(200))
	warned(t, c.Patch(t, item, j{"product_id": product, "quantity": 2}).Want(200))
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done", "revenue": "40"})
}

// Delivered pieces of a canceled order or a removed item no longer earn revenue. The order has a warning about them
// until it is closed with what was delivered.
func TestEndAfterPartialDelivery(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	order, item, _ := partly(t, c)
	warned(t, c.Get(t, order).Want(200))
	a := c.Post(t, order+"/cancel", nil).Want(200)
	warned(t, a, "DELIVERED_NOT_EARNED 2")
	a.Shows(map[string]string{"revenue": "0", "warnings.0.order_item_id": item[len(order)+7:],
		"warnings.0.detail": "The customer has got 2 of Product P, which have a cost but no longer earn revenue (40 " +
			"in all); close the order with what was delivered instead"})
	warned(t, c.Get(t, order).Want(200), "DELIVERED_NOT_EARNED 2")
	a = c.Post(t, order+"/complete", j{"items": []j{{"id": item[len(order)+7:], "delivered": 2}}}).Want(200)
	warned(t, a)
	a.Shows(map[string]string{"revenue": "40", "status": "done"})

	warned(t, c.Patch(t, order, j{"status": "cancelled"}).Want(200)) // takes the deliveries of a done order back
	c = c.API.Operator(t)
	order, item, _ = partly(t, c)
	c.Delete(t, item).Want(204)
	warned(t, c.Get(t, order).Want(200), "DELIVERED_NOT_EARNED 2")
	c.Post(t, item+"/restore", nil).Want(200)
	warned(t, c.Get(t, order).Want(200))

	// A removed item is put back by the request that closes the order with its pieces, and only by that.
	id := item[len(order)+7:]
	c.Delete(t, item).Want(204)
	c.Post(t, order+"/deliver", j{"items": []j{{"id": id, "quantity": 1}}}).WantError(400, "UNKNOWN_REFERENCE")
	a = c.Post(t, order+"/complete", j{"items": []j{{"id": id, "delivered": 2}}}).Want(200)
	warned(t, a)
	a.Shows(map[string]string{"status": "done", "revenue": "40", "items.0.delivered": "2", "items.0.quantity": "3"})
	c.Delete(t, item).Want(204)
	warned(t, c.Post(t, order+"/complete", nil).Want(200).Shows(map[string]string{"items": "[]"}),
		"DELIVERED_NOT_EARNED 2")

	// The customer sends them back: the first one, and then all.
	c.Post(t, order+"/return", j{"items": []j{{"id": id, "quantity": 3}}}).Fields("items[0].quantity")
	warned(t, c.Post(t, order+"/return", j{"items": []j{{"id": id, "quantity": 1}}}).Want(200), "DELIVERED_NOT_EARNED 1")
	warned(t, c.Post(t, order+"/return", j{}).Want(200))
	c.Post(t, order+"/complete", j{"items": []j{{"id": id, "delivered": 1}}}).WantError(400, "UNKNOWN_REFERENCE")
}

// Answers say if runs print more pieces than the order needs.
func TestPlannedMoreThanOrdered(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	order, item, product := partly(t, c)
	c.Patch(t, item, j{"quantity": 7}).Want(200)
	c.Post(t, runs, j{"items": []j{{"product_id": product, "quantity": 5, "order_item_id": item[len(order)+7:]}}}).
		Want(201)
	warned(t, c.Get(t, order).Want(200))
	warned(t, c.Patch(t, item, j{"quantity": 4}).Want(200), "PLANNED_MORE 3")
	warned(t, c.Get(t, order).Want(200), "PLANNED_MORE 3")
	warned(t, c.Patch(t, item, j{"quantity": 7}).Want(200))
	warned(t, c.Patch(t, order, j{"status": "cancelled"}).Want(200), "DELIVERED_NOT_EARNED 2", "PLANNED_MORE 5")
	for _, row := range c.Exported(t, path, "jsonl") {
		testkit.Equal(t, strings.Contains(row, `"warnings"`), false, "warnings in an export")
	}
}
