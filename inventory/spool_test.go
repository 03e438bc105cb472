package inventory_test

import (
	"testing"

	"spoolwright/auth/authtest"
	"spoolwright/db/dbtest"
	"spoolwright/inventory"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type j = authtest.JSON

func TestSpoolStory(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{}, inventory.Routes)
	c := api.Operator(t)
	made := c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000, "purchase_price": 25}).Want(201)
	made.Shows(map[string]string{"cost_per_gram": "0.025", "remaining_weight_grams": "1000"})
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1", "items.0.id": made.ID()})
}
