package auth_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// Every user of a tenant reads its settings, and admins change them.
func TestSettings(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/settings"
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin, viewer := tenant.User(t, "admin"), tenant.User(t, "viewer")
	first := viewer.Get(t, path).Want(200).Shows(map[string]string{"time_zone": "UTC", "currency": "null"})
	for _, zone := range []any{"", "Mars/Olympus", "europe/berlin", "+02", "CEST", "localtime", "posix/UTC", "<A>-3",
		nil, 1} {
		admin.Patch(t, path, j{"time_zone": zone}).Fields("time_zone")
	}
	for _, currency := range []any{"", "eur", "EURO", "XXX", "EU ", 1} {
		admin.Patch(t, path, j{"currency": currency}).Fields("currency")
	}
	admin.Patch(t, path, j{"updated_at": nil}).Want(200).Shows(map[string]string{"time_zone": "UTC"})
	etag := first.Header.Get("ETag")
	changed := admin.With("If-Match", etag).Patch(t, path, j{"time_zone": "Europe/Berlin", "currency": "EUR"}).
		Want(200).
		Shows(map[string]string{"time_zone": "Europe/Berlin", "currency": "EUR"})
	admin.With("If-Match", etag).Patch(t, path, j{"currency": nil}).WantError(412, "PRECONDITION_FAILED")
	if changed.Text("updated_at") == first.Text("updated_at") {
		t.Error("updated_at is the same after a change")
	}
	tenant.Key(t, "viewer").Get(t, path).Want(200).Shows(map[string]string{"currency": "EUR"})
	admin.Patch(t, path, j{"currency": nil}).Want(200).Shows(map[string]string{"currency": "null"})
	viewer.Patch(t, path, j{}).WantError(403, "FORBIDDEN")
	tenant.User(t, "operator").Patch(t, path, j{}).WantError(403, "FORBIDDEN")
	admin.Get(t, path).Shows(map[string]string{"labour_hour_cost": "null", "failure_rate_measured": "false"})
	admin.Patch(t, path, j{"labour_hour_cost": 30, "machine_hour_cost": 0.5, "machine_power_watts": 150,
		"energy_kwh_cost":      0.31,
		"failure_rate_percent": 7.5, "failure_rate_measured": true}).Want(200).Shows(map[string]string{
		"labour_hour_cost": "30", "machine_hour_cost": "0.5", "machine_power_watts": "150", "energy_kwh_cost": "0.31",
		"failure_rate_percent": "7.5", "failure_rate_measured": "true"})
	admin.Patch(t, path, j{"labour_hour_cost": -1, "machine_hour_cost": "x", "machine_power_watts": -1,
		"energy_kwh_cost":      1_000_001,
		"failure_rate_percent": 99.5, "failure_rate_measured": nil}).Fields("labour_hour_cost", "machine_hour_cost",
		"machine_power_watts", "energy_kwh_cost", "failure_rate_percent", "failure_rate_measured")
	admin.Patch(t, path, j{"labour_hour_cost": nil}).Want(200).Shows(map[string]string{"labour_hour_cost": "null"})
	api.Tenant(t).User(t, "viewer").Get(t, path).Want(200).Shows(map[string]string{"time_zone": "UTC"})
}
