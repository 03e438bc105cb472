package spoolman_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/production"
	"spoolwright/tests/testkit"
)

// TestKeyOfPrinter checks what a key that belongs to a printer reports: the ledger, reports and exports have it for
// the printer, also after the key has another one, and the printer is hidden when it is removed.
func TestKeyOfPrinter(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	api := start(t)
	const keys, printers = "/api/v1/api-keys", "/api/v1/printers"
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	first := admin.Post(t, printers, j{"name": "Voron", "slots": 2}).Want(201).ID()
	second := admin.Post(t, printers, j{"name": "Prusa", "slots": 2}).Want(201).ID()
	foreign := api.Operator(t).Post(t, printers, j{"name": "Voron"}).Want(201).ID()
	gone := admin.Post(t, printers, j{"name": "Gone"}).Want(201).ID()
	admin.Delete(t, printers+"/"+gone).Want(204)

	body := func(role string, printer any) j { return j{"name": "K", "role": role, "printer_id": printer} }
	for _, id := range []string{foreign, gone} {
		admin.Post(t, keys, body("printer", id)).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "printer_id"})
	}
	admin.Post(t, keys, body("operator", first)).WantError(422, "VALIDATION_ERROR").
		Shows(map[string]string{"errors.0.field": "printer_id"})
	created := admin.Post(t, keys, body("printer", first)).Want(201)
	created.Shows(map[string]string{"printer_id": first})
	key := keys + "/" + created.ID()
	admin.Get(t, keys).Want(200).Shows(map[string]string{"items.0.printer_id": first})
	admin.Patch(t, key, j{"printer_id": foreign}).WantError(400, "UNKNOWN_REFERENCE")
	operator := admin.Post(t, keys, body("operator", nil)).Want(201).ID()
	admin.Patch(t, keys+"/"+operator, j{"printer_id": first}).WantError(422, "VALIDATION_ERROR")

	spool := admin.Post(t, spools, j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000, "purchase_price": 20}).Want(201)
	p := &printer{api.URL, created.Text("key"), tenant.User(t, "operator")}
	p.want(t, "PUT", "spool/1/use", `{"use_weight":10}`, 200)
	p.want(t, "PUT", "spool/1/use", `{"use_weight":5}`, 200)
	admin.Patch(t, key, j{"printer_id": second}).Want(200).Shows(map[string]string{"printer_id": second})
	p.want(t, "PUT", "spool/1/use", `{"use_weight":7}`, 200)
	admin.Patch(t, key, j{"printer_id": nil}).Want(200).Shows(map[string]string{"printer_id": "null"})
	p.want(t, "PUT", "spool/1/use", `{"use_weight":3}`, 200)
	run := admin.Post(t, "/api/v1/production-runs", j{"printer_id": first, "materials": []j{{"spool_id": spool.ID(),
		"actual_weight_grams": 100}}}).Want(201).ID()
	admin.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	failed := admin.Post(t, "/api/v1/production-runs", j{"printer_id": first, "materials": []j{{"spool_id": spool.ID(),
		"actual_weight_grams": 20}}}).Want(201).ID()
	admin.Post(t, "/api/v1/production-runs/"+failed+"/fail", j{"reason": "clog"}).Want(200)
	admin.Patch(t, printers+"/"+first, j{"name": "Voron 2.4"}).Want(200)

	admin.Get(t, spools+"/"+spool.ID()+"/usage").Want(200).Shows(map[string]string{"total": "6",
		"items.0.printer_id": first, "items.0.kind": "wasted", "items.1.printer_id": first, "items.1.kind": "run",
		"items.2.printer_id": "null", "items.3.printer_id": second, "items.4.printer_id": first,
		"items.4.change_grams": "-15"})
	check := func() {
		t.Helper()
		admin.Get(t, "/api/v1/reports/usage?group_by=printer").Want(200).Shows(map[string]string{"grams": "145",
			"groups": "3", "items.0.printer_id": first, "items.0.printer_name": "Voron 2.4", "items.0.grams": "135",
			"items.1.printer_id": second, "items.1.printer_name": "Prusa", "items.1.grams": "7",
			"items.2.printer_id": "null", "items.2.printer_name": "K", "items.2.grams": "3"})
		for _, group := range []string{"printer", "material", "color", "day", "week", "month"} {
			admin.Get(t, "/api/v1/reports/usage?group_by="+group+"&printer_id="+first).Want(200).
				Shows(map[string]string{"grams": "135", "groups": "1", "items.0.grams": "135", "cost": "2.7"})
		}
	}
	check()
	admin.Get(t, "/api/v1/reports/usage?printer_id="+foreign).Want(200).Shows(map[string]string{"grams": "0"})
	for _, group := range []string{"reason", "printer", "material"} {
		admin.Get(t, "/api/v1/reports/waste?group_by="+group+"&printer_id="+first).Want(200).
			Shows(map[string]string{"grams": "20", "runs": "1", "completed_runs": "1", "rate": "0.5"})
		admin.Get(t, "/api/v1/reports/waste?group_by="+group+"&printer_id="+second).Want(200).
			Shows(map[string]string{"grams": "0", "runs": "0", "groups": "0"})
	}
	admin.Get(t, "/api/v1/reports/waste?group_by=printer").Want(200).Shows(map[string]string{
		"items.0.printer_id": first, "items.0.grams": "20"})
	lines := func(printer string) int {
		export := admin.Get(t, "/api/v1/reports/usage/export?format=jsonl&printer_id="+printer).Want(200)
		return strings.Count(string(export.Body), "\n")
	}
	if a, b := lines(first), lines(second); a != 3 || b != 1 {
		t.Errorf("the exports have %d and %d entries, want 3 and 1", a, b)
	}

	// The ledger and keys keep the printer.
	admin.Delete(t, printers+"/"+second).Want(204)
	admin.Get(t, printers+"?hidden=true").Want(200).Shows(map[string]string{"total": "1", "items.0.id": second})
	third := admin.Post(t, printers, j{"name": "Third"}).Want(201).ID()
	admin.Patch(t, key, j{"printer_id": third}).Want(200)
	admin.Delete(t, printers+"/"+third).Want(204)
	admin.Get(t, key).Want(200).Shows(map[string]string{"printer_id": third})
	admin.Patch(t, key, j{"printer_id": third, "name": "Renamed"}).Want(200)
	p.want(t, "PUT", "spool/1/use", `{"use_weight":1}`, 200)
	admin.Get(t, spools+"/"+spool.ID()+"/usage").Want(200).Shows(map[string]string{"items.0.printer_id": third})

	// A summary of past days has the same groups.
	admin.Hold(t, `update spool_usage set created_at = created_at - interval '3 days'
		where tenant_id = '`+tenant.ID+`' and kind <> 'created' and spool_usage.change_grams <> -1`).Commit()
	testkit.Check(t, production.SummarizeUsage(context.Background(), api.DB))
	admin.Get(t, "/api/v1/reports/usage?group_by=printer").Want(200).Shows(map[string]string{"grams": "146",
		"items.0.printer_id": first, "items.0.printer_name": "Voron 2.4", "items.0.grams": "135"})
}

// A printer with one slot has loaded what its key reports: the active spool of Moonraker.
func TestReportLoadsSpool(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	const printers = "/api/v1/printers"
	one := printers + "/" + admin.Post(t, printers, j{"name": "One"}).Want(201).ID()
	two := printers + "/" + admin.Post(t, printers, j{"name": "Two", "slots": 2}).Want(201).ID()
	var paths []string
	for range 3 {
		paths = append(paths, spools+"/"+admin.Post(t, spools, j{"material_type": "PLA", "color": "Black",
			"diameter_mm": 1.75, "net_weight_grams": 1000, "location": "Shelf"}).Want(201).ID())
	}
	newPrinter := func(path string) *printer {
		var id any
		if path != "" {
			id = path[strings.LastIndex(path, "/")+1:]
		}
		key := admin.Post(t, "/api/v1/api-keys", j{"name": "K", "role": "printer", "printer_id": id}).Want(201)
		return &printer{api.URL, key.Text("key"), admin}
	}
	p := newPrinter(one)
	p.want(t, "PUT", "spool/1/use", `{"use_weight":10}`, 200)
	admin.Get(t, one).Want(200).Shows(map[string]string{"loaded.0.spool_number": "1", "loaded.0.remaining_grams": "990"})
	admin.Get(t, paths[0]).Want(200).Shows(map[string]string{"location": "One"})
	p.want(t, "PUT", "spool/2/use", `{"use_weight":10}`, 200)
	p.want(t, "PUT", "spool/9/use", `{"use_weight":10}`, 404)
	admin.Get(t, one).Want(200).Shows(map[string]string{"loaded.0.spool_number": "2"})
	admin.Get(t, paths[0]).Want(200).Shows(map[string]string{"location": "Shelf"})
	for _, path := range []string{two, ""} { // which slot is not known, or which printer
		newPrinter(path).want(t, "PUT", "spool/3/use", `{"use_weight":10}`, 200)
	}
	admin.Get(t, two).Want(200).Shows(map[string]string{"loaded": "[]"})
	admin.Get(t, paths[2]).Want(200).Shows(map[string]string{"location": "Shelf"})

	// A printer that has printed is hidden when it is removed. Its key still reports, and loads nothing.
	removed := admin.Post(t, printers, j{"name": "Removed"}).Want(201).ID()
	key := newPrinter(printers + "/" + removed)
	run := "/api/v1/production-runs/" + admin.Post(t, "/api/v1/production-runs", j{"printer_id": removed}).Want(201).ID()
	admin.Post(t, run+"/fail", j{"reason": "clog"}).Want(200)
	admin.Delete(t, printers+"/"+removed).Want(204)
	key.want(t, "PUT", "spool/3/use", `{"use_weight":10}`, 200)
	admin.Get(t, paths[2]).Want(200).Shows(map[string]string{"location": "Shelf", "remaining_weight_grams": "970"})

	// The printer changes and disappears while its key reports.
	answered := func(a *testkit.Response) {
		if a.Status >= 500 {
			t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
		}
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for range 10 {
				p.want(t, "PUT", "spool/"+strconv.Itoa(i+1)+"/use", `{"use_weight":1}`, 200)
			}
		})
		wg.Go(func() {
			for n := range 10 {
				answered(admin.Patch(t, one, j{"slots": 1 + n%2}))
				answered(admin.Do(t, "PUT", two+"/slots/1", j{"spool_number": i + 1}))
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			answered(admin.Delete(t, one))
			answered(admin.Post(t, one+"/restore", nil))
		}
	})
	wg.Wait()
	for i, used := range []string{"980", "980", "960"} {
		admin.Get(t, paths[i]).Want(200).Shows(map[string]string{"remaining_weight_grams": used})
	}
}
