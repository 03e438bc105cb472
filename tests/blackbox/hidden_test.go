package blackbox_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// Each list of removed things says who removed them, also after the account was deleted, and finds one by its id. What
// was removed is not removed again.
func TestRemovedBy(t *testing.T) {
	t.Parallel()
	tenant := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t)
	admin, user, key := tenant.User(t, "admin"), tenant.User(t, "operator"), tenant.Key(t, "operator")
	type j = testkit.JSON
	spool, product := user.NewSpool(t, 500, nil), user.NewProduct(t, "Hook", 10)
	vendor := user.Post(t, "/api/v1/vendors", j{"name": "v"}).Want(201).ID()
	filament := user.Post(t, "/api/v1/filaments", j{"vendor_id": vendor, "material_type": "PLA", "color": "Red",
		"diameter_mm": 1.75}).Want(201).ID()
	user.Post(t, "/api/v1/spools", j{"filament_id": filament, "net_weight_grams": 1000}).Want(201)
	printer := user.Post(t, "/api/v1/printers", j{"name": "p"}).Want(201).ID()
	run := user.Post(t, "/api/v1/production-runs", j{"printer_id": printer, "status": "in_progress",
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}).Want(201).ID()
	user.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	hidden := map[string]string{"spools": spool, "vendors": vendor, "filaments": filament, "products": product,
		"orders":          user.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product}}}).Want(201).ID(),
		"production-runs": run, "printers": printer}
	by := func(list, id string, want map[string]string) {
		t.Helper()
		admin.Get(t, "/api/v1/"+list+"?hidden=true&id="+id).Want(200).Shows(want)
	}
	nobody := map[string]string{"total": "0"}
	for list, id := range hidden {
		at := "/api/v1/" + list + "/" + id
		admin.Get(t, "/api/v1/"+list+"?id="+id).Want(200).Shows(map[string]string{"total": "1", "items.0.id": id,
			"items.0.hidden_by": "null", "items.0.hidden_by_name": "null"})
		admin.Get(t, "/api/v1/"+list+"?id="+tenant.ID).Want(200).Shows(nobody)
		by(list, id, nobody)
		key.Delete(t, at).Want(204)
		admin.Get(t, "/api/v1/"+list+"?id="+id).Want(200).Shows(nobody)
		by(list, id, map[string]string{"total": "1", "items.0.id": id, "items.0.hidden_by": key.Actor.APIKey,
			"items.0.hidden_by_name": "Test operator"})
		user.Post(t, at+"/restore", nil).Want(200).Shows(map[string]string{"hidden_by": "null", "hidden_by_name": "null"})
		user.Delete(t, at).Want(204)
		key.Delete(t, at).WantError(404, "NOT_FOUND")
		by(list, id, map[string]string{"items.0.hidden_by": user.Actor.User})
	}
	admin.Delete(t, "/api/v1/users/"+user.Actor.User).Want(204)
	for list, id := range hidden {
		by(list, id, map[string]string{"items.0.hidden_by": user.Actor.User, "items.0.hidden_by_name": "Test operator"})
	}
}
