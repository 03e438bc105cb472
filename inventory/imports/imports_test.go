package imports_test

import (
	"maps"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	vendors   = "/api/v1/vendors"
	filaments = "/api/v1/filaments"
	spools    = "/api/v1/spools"

	customFields = "/api/v1/custom-fields"
)

// filament returns the body of a POST with the required fields and the given ones.
func filament(fields j) j {
	body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75}
	maps.Copy(body, fields)
	return body
}

// spool returns the body of a POST with the required fields and the given ones.
func spool(fields j) j {
	body := filament(j{"net_weight_grams": 1000})
	maps.Copy(body, fields)
	return body
}

func operator(t *testing.T) *testkit.Client {
	t.Helper()
	return testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
}

// insertSpools creates equal spools, and returns their ids in the order of their numbers.
func insertSpools(t *testing.T, c *testkit.Client, quantity int) (ids []string) {
	t.Helper()
	for _, s := range c.Post(t, spools+"/batch", spool(j{"quantity": quantity})).Want(201).List("items") {
		ids = append(ids, s.(map[string]any)["id"].(string))
	}
	return ids
}

// wantLedgers fails the test unless the ledger of each spool adds up to its remaining weight.
func wantLedgers(t *testing.T, c *testkit.Client) {
	t.Helper()
	var wrong []string
	testkit.Check(t, c.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), db.SQL(`
		select coalesce(array_agg(id::text), '{}') from spools s where remaining_weight_grams is distinct from (
			select sum(after_grams - before_grams) from spool_usage u where u.spool_id = s.id
		)`).Into(&wrong)))
	if len(wrong) > 0 {
		t.Errorf("the ledgers of the spools %v do not add up to their remaining weights", wrong)
	}
}
