package inventory_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
)

const vendors = "/api/v1/vendors"

func TestVendors(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	made := c.Post(t, vendors, j{"name": " Ärmel ", "notes": "n", "empty_spool_weight_grams": 140.5,
		"external_id": "x-1"}).Want(201)
	made.Shows(map[string]string{"number": "1", "name": "Ärmel", "notes": "n", "empty_spool_weight_grams": "140.5",
		"external_id": "x-1", "hidden_at": "null"})
	path := vendors + "/" + made.ID()
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(made.Body), "the response of GET")
	c.Patch(t, path, j{"notes": nil}).Want(200).Shows(map[string]string{"name": "Ärmel", "notes": "null"})
	c.Patch(t, path, string(made.Body)).Want(200).Shows(map[string]string{"notes": "n"})

	// The name is unique, without regard to case.
	c.Post(t, vendors, j{"name": "äRMEL"}).WantError(409, "DUPLICATE_VENDOR")
	other := vendors + "/" + c.Post(t, vendors, j{"name": "Other"}).Want(201).ID()
	c.Patch(t, other, j{"name": "ÄRMEL"}).WantError(409, "DUPLICATE_VENDOR")
	c.Patch(t, other, j{"name": "OTHER"}).Want(200).Shows(map[string]string{"name": "OTHER", "number": "2"})
	api.Operator(t).Post(t, vendors, j{"name": "Ärmel"}).Want(201).Shows(map[string]string{"number": "1"})

	// A vendor that nothing names is deleted, and its number is not used again.
	c.Delete(t, other).Want(204)
	c.Get(t, other).WantError(404, "NOT_FOUND")
	c.Post(t, other+"/restore", nil).WantError(404, "NOT_FOUND")
	c.Get(t, vendors+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
	c.Post(t, vendors, j{"name": "Other"}).Want(201).Shows(map[string]string{"number": "3"})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "2", "items.0.name": "Other"})

	c.Post(t, vendors, j{"name": " ", "notes": 1, "empty_spool_weight_grams": -1, "color": 1}).
		Fields("name", "notes", "empty_spool_weight_grams", "color")
	tenant.User(t, "viewer").Post(t, vendors, j{"name": "x"}).WantError(403, "FORBIDDEN")
	api.Operator(t).Get(t, path).WantError(404, "NOT_FOUND")
}

// Of concurrent requests that create the same vendor, one does.
func TestConcurrentVendors(t *testing.T) {
	t.Parallel()
	c := operator(t)
	testkit.Race(t, 10, func(i int) (*testkit.Response, error) {
		return c.Send("POST", vendors, j{"name": []string{"Prusament", "PRUSAMENT"}[i%2]})
	}).Want(t, map[string]int{"201": 1, "409 DUPLICATE_VENDOR": 9})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "1", "items.0.number": "1"})
}

// Nothing changes a vendor, a filament or a spool while it is hidden.
func TestHiddenStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes).Operator(t)
	vendor := vendors + "/" + c.Post(t, vendors, j{"name": "Alpha"}).Want(201).ID()
	filament := "/api/v1/filaments/" + c.Post(t, "/api/v1/filaments", j{
		"vendor_id": strings.TrimPrefix(vendor, vendors+"/"), "material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
		"price": 20}).Want(201).ID()
	follower := spools + "/" + c.Post(t, spools, j{"filament_id": strings.TrimPrefix(filament, "/api/v1/filaments/"),
		"net_weight_grams": 1000}).Want(201).ID()
	c.WantHiddenUnchanged(t, vendor, j{"name": "Beta", "notes": "x", "empty_spool_weight_grams": 1, "external_id": "x",
		"extra": j{}}, nil)
	c.WantHiddenUnchanged(t, filament, j{"name": "x", "color": "Blue", "price": 1, "notes": "x", "vendor": "Alpha",
		"material_type": "ABS", "density_g_cm3": 1, "extra": j{}}, map[string]any{"POST /spools": j{"quantity": 1}})
	c.WantHiddenUnchanged(t, follower, j{"color": "Blue", "filament_id": nil}, nil)
	spool := spools + "/" + c.NewSpool(t, 500, j{"spool_weight_grams": 200})
	c.WantHiddenUnchanged(t, spool, j{"color": "Blue", "remaining_weight_grams": 1, "purchase_price": 1, "notes": "x",
		"archived": true, "location": "x", "filament_id": nil, "extra": j{}},
		map[string]any{"POST /deduct": []any{j{"weight_grams": 1}, j{"weight_grams": 1, "allow_shortfall": true}},
			"POST /measure": j{"gross_grams": 300}})
	c.Get(t, spools).Shows(map[string]string{"total": "2"})
}
