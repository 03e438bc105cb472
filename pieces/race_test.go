package pieces_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"spoolwright/testkit"
)

// The ledgers of few products add up while many clients end, correct and reopen runs and count and scrap pieces.
func TestLedgersUnderConcurrency(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	var all []string
	for i := range 3 {
		all = append(all, c.NewProduct(t, fmt.Sprint("P", i), 1))
	}
	spool := c.NewSpool(t, 900, nil)
	testkit.Concurrently(32, func(client int) {
		random := rand.New(rand.NewPCG(45, uint64(client)))
		for range 4 {
			p, n := all[random.IntN(3)], 1+random.IntN(9)
			switch random.IntN(4) {
			case 0:
				c.Post(t, products+"/"+p+"/count", j{"counted": n}).Want(200)
			case 1:
				if a := c.Post(t, products+"/"+p+"/scrap", j{"quantity": n}); a.Status != 409 {
					a.Want(200)
				}
			default:
				order := random.Perm(3)
				var items []j
				for _, i := range order {
					items = append(items, j{"product_id": all[i], "quantity": n})
				}
				a := c.Post(t, runs, j{"status": "in_progress", "items": items,
					"materials": []j{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201)
				run := runs + "/" + a.ID()
				c.Post(t, run+"/complete", nil).Want(200)
				if n%2 == 0 {
					c.Post(t, run+"/correct", j{"items": []j{{"id": a.Text("items.0.id"), "successful_quantity": n - 1,
						"failed_quantity": 1}}}).Want(200)
				}
				if n%3 == 0 {
					c.Post(t, run+"/reopen", nil).Want(200)
				}
			}
		}
	})
	for _, p := range all {
		balanced(t, c, p)
	}
}

// Requests that change the items of one run at the same time leave one number of pieces.
func TestRunItemsChangeConcurrently(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p := c.NewProduct(t, "P", 1)
	path, item := run(t, c, p, 20, nil)
	testkit.Concurrently(8, func(i int) {
		if i == 3 {
			c.Post(t, path+"/complete", nil).Want(200)
			return
		}
		c.Patch(t, path+"/items/"+item, j{"successful_quantity": i + 1, "failed_quantity": 0}).Want(200)
	})
	good := c.Get(t, path).Text("items.0.successful_quantity")
	testkit.Equal(t, fmt.Sprint(balanced(t, c, p)), good, "pieces in stock")
}
