package shops_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// id returns the id of the connection.
func (s *shop) id() string { return strings.Split(s.address, "/")[2] }

// during sends messages or files, each after the one before waits, while a transaction holds what the statements lock.
func during(t *testing.T, c *testkit.Client, held []string, send ...func()) {
	t.Helper()
	h := c.Hold(t, held...)
	var ended []chan struct{}
	for i, one := range send {
		ended = append(ended, h.Start(i+1, one))
	}
	h.Commit()
	for _, end := range ended {
		<-end
	}
}

// lockOrder returns a statement that locks the order at the path.
func lockOrder(order string) string {
	return `select from orders where id = '` + order[len(orders)+1:] + `' for no key update`
}

// Of two concurrent messages about an order, the second is merged with the first.
func TestMessagesOfOneOrderAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	line := func(quantity int) j { return j{"id": "1", "title": "Dragon", "quantity": quantity} }
	s.send(t, generic(1, 1, line(1)))
	during(t, s.c, []string{lockOrder(find(t, s.c, "A-1"))},
		func() { s.send(t, generic(1, 3, line(3))) },
		func() { s.send(t, generic(1, 2, line(2))) }) // older
	testkit.Equal(t, itemsOf(t, s.c, "A-1"), "Dragon 3", "the lines")
}

// A message that waits for a delivery leaves the delivered item alone.
func TestMessageWaitsForDelivery(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	s.c.NewProduct(t, "DRG-RED", 10)
	s.send(t, generic(1, 1, j{"id": "1", "title": "D", "sku": "DRG-RED", "quantity": 2}))
	order := find(t, s.c, "A-1")
	during(t, s.c, []string{lockOrder(order), `update order_items set delivered = 1, delivered_at = now()
		where order_id = '` + order[len(orders)+1:] + `'`},
		func() { s.send(t, generic(1, 2, j{"id": "1", "title": "D", "sku": "DRAGON-R", "quantity": 5})) })
	testkit.Equal(t, itemsOf(t, s.c, "A-1"), "DRG-RED 5", "the items")
}

// A message takes over an order with its reference, but not one that another message takes over at the same time.
func TestMessageWaitsForAnotherReference(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	order := orders + "/" + s.c.Post(t, orders, j{"source": "generic.example", "reference": "A-1"}).Want(201).ID()
	during(t, s.c, []string{lockOrder(order), `insert into shop_orders (shop_id, number, order_id)
		values ('` + s.id() + `', '9', '` + order[len(orders)+1:] + `')`},
		func() { s.send(t, generic(1, 1, j{"id": "1", "title": "Dragon", "quantity": 1})) })
	testkit.Equal(t, itemsOf(t, s.c, "A-1"), "", "the lines of the order that another message has")
	testkit.Equal(t, itemsOf(t, s.c, "A-1 (1)"), "Dragon 1", "the lines")
}

// A message to a connection, and a new secret of it, wait while it is deleted. Then there is none.
func TestConnectionDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(s *shop) int{
		"message: 401": func(s *shop) int {
			body := encode(t, generic(2, 1))
			status, _ := s.post(t, body, s.sign(body))
			return status
		},
		"secret: 404": func(s *shop) int { return s.c.Post(t, path+"/"+s.id()+"/rotate", nil).Status },
	} {
		s := newShop(t, "generic")
		s.send(t, generic(1, 1)) // so that the next one does not change the row of the connection
		status := 0
		during(t, s.c, []string{`delete from shop_orders where shop_id = '` + s.id() + `'`,
			`delete from shops where id = '` + s.id() + `'`}, func() { status = send(s) })
		if !strings.HasSuffix(name, fmt.Sprint(status)) {
			t.Errorf("%s: got %d", name, status)
		}
	}
}

// The deletion of a connection waits for a message, and deletes its state.
func TestDeletionWaitsForMessage(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	during(t, s.c, []string{`insert into shop_orders (shop_id, number) values ('` + s.id() + `', '1')`},
		func() { s.c.Delete(t, path+"/"+s.id()).Want(204) })
}

// A file that waits for a message, or for another file, is merged with it.
func TestFileWaits(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	s := connect(t, c, "shopify")
	s.send(t, shopifyOrder(1, 1, 2))
	cancelled := shopifyTitles + shopifyRow("#1001", "paid", "", "2026-01-09 00:00:00 +0000", "820982911946154001", 2,
		"Dragon - Red", "12.50", "DRG", "")
	during(t, c, []string{lockOrder(find(t, c, "#1001"))},
		func() { s.send(t, shopifyOrder(1, 2, 3)) },
		func() { post(t, c, "", cancelled).Want(200) })
	c.Get(t, find(t, c, "#1001")).Want(200).Shows(map[string]string{"status": "cancelled"})
	testkit.Equal(t, itemsOf(t, c, "#1001"), "Dragon - Red 3", "the lines after the message and the file")

	file := func(quantity int) string { return fmt.Sprintf("Source,Order,Item,Qty\nmarket,M-1,Vase,%d\n", quantity) }
	post(t, c, "", file(2)).Want(200)
	during(t, c, []string{lockOrder(find(t, c, "M-1"))},
		func() { post(t, c, "", file(3)).Want(200) },
		func() { post(t, c, "", file(2)).Want(200) })
	testkit.Equal(t, itemsOf(t, c, "M-1"), "Vase 2", "the lines after both files")
}
