package spoolman_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// entries returns the paths of a spool's ledger entries, oldest first.
func entries(t *testing.T, c *testkit.Client, spool string) (paths []string) {
	t.Helper()
	a := c.Get(t, spool+"/usage?limit=100").Want(200)
	for i := range a.List("items") {
		paths = append([]string{spool + "/usage/" + a.Text(fmt.Sprintf("items.%d.id", i))}, paths...)
	}
	return paths
}

// Reports by printer count what was reversed or moved for the key that had reported it.
func TestReversedReports(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	c := p.operator
	first, second := p.add(t, nil), p.add(t, nil)
	for _, grams := range []int{10, 5} {
		p.want(t, "PUT", "spool/1/use", fmt.Sprintf(`{"use_weight": %d}`, grams), 200)
	}
	entry := entries(t, c, first)[1]
	c.Post(t, entry+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "15", "kind": "printed"})
	byPrinter := "/api/v1/reports/usage?group_by=printer"
	c.Get(t, byPrinter).Want(200).Shows(map[string]string{"groups": "1", "items.0.printer_name": "printer",
		"items.0.grams": "0"})

	// The next report is a new entry. It is moved twice.
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 3}`, 200, `"remaining_weight":997`)
	p.wantLedger(t, first, "created 0 1000", "printed 1000 985 0", "printed 985 1000", "printed 1000 997 0")
	moved := c.Post(t, entries(t, c, first)[3]+"/move", j{"spool_number": 2}).Want(200)
	back := c.Post(t, second+"/usage/"+moved.Text("recorded.id")+"/move", j{"spool_number": 1}).Want(200)
	c.Get(t, byPrinter).Want(200).Shows(map[string]string{"groups": "1", "items.0.printer_name": "printer",
		"items.0.grams": "3"})
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 4}`, 200, `"remaining_weight":993`)
	c.Post(t, first+"/usage/"+back.Text("recorded.id")+"/reverse", nil).Want(200)
	c.Get(t, byPrinter).Want(200).Shows(map[string]string{"groups": "1", "items.0.grams": "4"})
}

// What a client of this API weighs or types stays, whatever is taken back before it.
func TestWeighingsOfClients(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	c := p.operator
	for i, test := range []struct{ method, path, body, left string }{
		{"PUT", "/measure", `{"weight": 1140}`, "940"},
		{"PATCH", "", `{"remaining_weight": 930}`, "930"},
		{"PATCH", "", `{"used_weight": 80}`, "920"},
	} {
		path := p.add(t, j{"spool_weight_grams": 200})
		for range 2 {
			c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
		}
		p.want(t, test.method, fmt.Sprintf("spool/%d%s", i+1, test.path), test.body, 200, `"remaining_weight":`+test.left)
		c.Post(t, entries(t, c, path)[2]+"/reverse", nil).Want(200).
			Shows(map[string]string{"remaining_weight_grams": test.left, "warnings.0.code": "WEIGHED_SINCE"})
		p.want(t, "GET", fmt.Sprintf("spool/%d", i+1), "", 200, `"remaining_weight":`+test.left)
		c.Post(t, path+"/deduct", j{"weight_grams": 20}).Want(200)
		p.want(t, "PUT", fmt.Sprintf("spool/%d/use", i+1), `{"use_weight": 10}`, 200)
		sum, left := 0, 0
		a := c.Get(t, path+"/usage?limit=100").Want(200)
		for n := range a.List("items") {
			var change int
			fmt.Sscan(a.Text(fmt.Sprintf("items.%d.change_grams", n)), &change)
			sum += change
		}
		fmt.Sscan(test.left, &left)
		testkit.Equal(t, sum, left-30, "sum of the ledger")
	}
}

// An empty spool whose shortfall was taken back has used all of its filament, and no less.
func TestExportOfReversedShortfall(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	c := p.operator
	path := p.add(t, j{"remaining_weight_grams": 0})
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 7}`, 200)
	used := func() string {
		t.Helper()
		var b bytes.Buffer
		testkit.Check(t, spoolman.Export(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), api.DB, &b))
		_, text, _ := strings.Cut(b.String(), `"used_weight":`)
		return strings.TrimSpace(text[:strings.IndexAny(text, ",}")])
	}
	testkit.Equal(t, used(), "1007", "used_weight with a shortfall")
	c.Post(t, entries(t, c, path)[1]+"/reverse", nil).Want(200)
	testkit.Equal(t, used(), "1000", "used_weight without it")
}

// What was reversed is no use outside of a run, and what was moved to a spool of a run is. What runs have used or
// count as their own is neither reversed nor moved.
func TestCorrectionsBesideRuns(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a, b := f.spool(t, 1000), f.spool(t, 1000)
	spool, other := spools+"/"+a, spools+"/"+b
	c.Post(t, other+"/deduct", j{"weight_grams": 8}).Want(200) // before the run
	run := f.run(t, 0, a, 100)
	outside := func(want string) {
		t.Helper()
		f.shows(t, run, map[string]string{"materials.0.outside_grams": want})
	}
	c.Post(t, spool+"/deduct", j{"weight_grams": 30}).Want(200)
	outside("30")
	c.Post(t, entries(t, c, spool)[1]+"/reverse", nil).Want(200)
	outside("null")
	c.Post(t, entries(t, c, other)[1]+"/move", j{"spool_id": a}).Want(200)
	outside("null")
	c.Post(t, other+"/deduct", j{"weight_grams": 20}).Want(200)
	c.Post(t, entries(t, c, other)[3]+"/move", j{"spool_id": a}).Want(200)
	outside("20")
	f.keys[0].uses(t, 1, 40)
	ofRun := entries(t, c, spool)
	printed := ofRun[len(ofRun)-1]
	for _, operation := range []string{"/reverse", "/move"} {
		body := map[string]j{"/reverse": {}, "/move": {"spool_id": b}}[operation]
		detail := c.Post(t, printed+operation, body).WantError(409, "USAGE_OF_RUN").Text("detail")
		if !strings.Contains(detail, strings.TrimPrefix(run, productionRuns+"/")) {
			t.Errorf("the detail does not name the run: %s", detail)
		}
	}

	// The run counts the 20 g that were moved.
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "count_outside_use": true}}}).Want(200).
		Shows(map[string]string{"warnings": "[]", "spools_updated.0.new_weight": "932"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "60"})
	c.Post(t, spool+"/deduct", j{"weight_grams": 5}).Want(200) // after the run
	all := entries(t, c, spool)
	codes := []string{"USAGE_NOT_REVERSIBLE", "USAGE_ALREADY_REVERSED", "USAGE_NOT_REVERSIBLE", "", "USAGE_OF_RUN",
		"USAGE_OF_RUN", "USAGE_OF_RUN", "USAGE_OF_RUN", ""}
	testkit.Equal(t, len(all), len(codes), "entries")
	for i, code := range codes {
		if code == "" {
			c.Post(t, all[i]+"/reverse", nil).Want(200)
		} else {
			c.Post(t, all[i]+"/reverse", nil).WantError(409, code)
		}
	}
	f.shows(t, spool, map[string]string{"remaining_weight_grams": "940"})
	f.shows(t, "/api/v1/reports/usage", map[string]string{"grams": "60"})
}
