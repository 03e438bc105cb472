package production_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/value"
)

// The costs of several products are in the order of their ids, each once, without removed and unknown products.
func TestListCosts(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const costs = "/api/v1/products/costs"
	var ids []string
	for i := range 3 {
		ids = append(ids, c.Post(t, "/api/v1/products", j{"name": fmt.Sprint("P", i), "selling_price": i + 1}).
			Want(201).ID())
	}
	price := func(i int) string { return fmt.Sprintf("items.%d.selling_price", i) }
	c.Get(t, costs+"?ids="+strings.Join([]string{ids[2], value.NewID(), ids[0], ids[2], ids[1]}, ",")).Want(200).
		Shows(map[string]string{price(0): "3", price(1): "1", price(2): "2"}).WantLen(t, "items", 3)
	c.Do(t, "DELETE", "/api/v1/products/"+ids[0], nil).Want(204)
	c.Get(t, "/api/v1/products/"+ids[0]+"/cost-breakdown").WantError(404, "NOT_FOUND")
	c.Get(t, costs+"?ids="+strings.Join(ids, ",")).Want(200).
		Shows(map[string]string{"items.0.id": ids[1], "items.1.id": ids[2]}).WantLen(t, "items", 2)

	for _, none := range []string{"", "?ids=" + value.NewID()} {
		c.Get(t, costs+none).Want(200).Shows(map[string]string{"items": "[]"})
	}
	many := strings.Repeat(ids[1]+",", value.MaxQueried)
	c.Get(t, costs+"?ids="+strings.TrimSuffix(many, ",")).Want(200).Shows(map[string]string{"items.0.id": ids[1]})
	for _, wrong := range []string{many + ids[1], "x", ids[1] + ",x", ids[1] + ",", ","} {
		c.Get(t, costs+"?ids="+wrong).Fields("ids")
	}
}
