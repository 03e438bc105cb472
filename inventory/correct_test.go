package inventory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// newest returns the path of the newest entry of a spool's ledger.
func newest(t *testing.T, c *testkit.Client, path string) string {
	t.Helper()
	return path + "/usage/" + c.Get(t, path+"/usage?limit=1").Want(200).Text("items.0.id")
}

// report records what a printer reports for the spool with the number.
func report(t *testing.T, c *testkit.Client, number, grams any) {
	t.Helper()
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(
		`select (report_use($1::int, $2::text::numeric, null, null, null)).spool`, number, fmt.Sprint(grams))))
}

// Each kind of entry is reversed by one with the opposite grams, once.
func TestReverse(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c, ada := tenant.User(t, "operator"), tenant.User(t, "admin")
	made := c.Post(t, spools, spool(j{"spool_weight_grams": 200, "remaining_weight_grams": 900,
		"purchase_price": 20})).Want(201)
	path := spools + "/" + made.ID()
	for _, test := range []struct {
		kind   string
		change func()
		left   string // after the change
	}{
		{"deducted", func() { c.Post(t, path+"/deduct", j{"weight_grams": 45.5, "reason": "x"}).Want(200) }, "854.5"},
		{"measured", func() { c.Post(t, path+"/measure", j{"gross_grams": 1000}).Want(200) }, "800"},
		{"measured", func() { c.Post(t, path+"/measure", j{"gross_grams": 1150}).Want(200) }, "950"},
		{"edited", func() { c.Patch(t, path, j{"remaining_weight_grams": 1000}).Want(200) }, "1000"},
		{"edited", func() { c.Patch(t, path, j{"remaining_weight_grams": 10}).Want(200) }, "10"},
		{"printed", func() { report(t, c, 1, 12.25) }, "887.75"},
		{"printed", func() { report(t, c, 1, -50) }, "950"},
	} {
		test.change()
		before := c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": test.left})
		entry := newest(t, c, path)
		first := c.Get(t, path+"/usage?limit=1").Text("items.0.id")
		a := ada.Post(t, entry+"/reverse", j{"reason": "Wrong"}).Want(200)
		is(t, a, "", j{"id": uuid, "spool_id": made.ID(), "kind": test.kind, "reason": "Wrong", "run_id": nil,
			"user_id": ada.Actor.User, "user_name": "Test admin", "api_key_id": nil, "printer_id": nil,
			"before_grams": json.Number(test.left), "after_grams": json.Number("900"),
			"change_grams":    json.Number(sum("900", "-"+test.left)),
			"shortfall_grams": nil, "covered_grams": nil, "reverses_id": first, "reversed_by_id": nil, "moves_id": nil,
			"weighing_id": nil, "balances_id": nil, "created_at": moment, "updated_at": nil,
			"remaining_weight_grams": json.Number("900"), "warnings": []any{}})
		after := c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "900"})
		if compare(after.Text("updated_at"), before.Text("updated_at")) <= 0 {
			t.Errorf("updated_at was %s and is %s", before.Text("updated_at"), after.Text("updated_at"))
		}
		c.Get(t, path+"/usage?limit=2").Shows(map[string]string{"items.0.id": a.ID(), "items.0.reverses_id": first,
			"items.1.id": first, "items.1.reversed_by_id": a.ID()})
		detail := c.Post(t, entry+"/reverse", nil).WantError(409, "USAGE_ALREADY_REVERSED").Text("detail")
		if !strings.Contains(detail, a.ID()) {
			t.Errorf("the detail does not name the entry: %s", detail)
		}
		c.Post(t, path+"/usage/"+a.ID()+"/reverse", nil).WantError(409, "USAGE_NOT_REVERSIBLE")
	}
	entries := ledger(t, c, path)
	testkit.Equal(t, len(entries), 15, "entries")
	c.Post(t, path+"/usage/"+entries[0]["id"].(string)+"/reverse", nil).WantError(409, "USAGE_NOT_REVERSIBLE")
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "0", "cost": "0", "corrected_grams": "0",
		"items.0.grams": "0", "items.0.grams_per_day": "0", "items.0.days_left": "null"})
}

// sum returns the sum of two amounts.
func sum(a, b string) string {
	s := strings.TrimRight(rat(a).Add(rat(a), rat(b)).FloatString(6), "0")
	return strings.TrimSuffix(s, ".")
}

// The shortfall of an entry is taken back too, and what a spool cannot give or hold is in that of the reversal.
func TestReverseShortfall(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(j{"remaining_weight_grams": 30, "purchase_price": 20})).Want(201).ID()
	c.Post(t, path+"/deduct", j{"weight_grams": 45.5, "allow_shortfall": true}).Want(200)
	deducted := newest(t, c, path)
	c.Patch(t, path, j{"remaining_weight_grams": 100}).Want(200)
	edited := newest(t, c, path)
	c.Post(t, deducted+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "30",
		"shortfall_grams": "-15.5", "remaining_weight_grams": "100", "warnings.0.code": "WEIGHED_SINCE",
		"warnings.0.grams":  "30",
		"warnings.0.detail": "PLA Black (spool 1) was weighed after that, and keeps 100 g"})
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "0", "cost": "0", "corrected_grams": "-70"})

	// Of the 70 g that the edit found, 20 g are left.
	c.Post(t, path+"/deduct", j{"weight_grams": 80}).Want(200)
	c.Post(t, edited+"/reverse", nil).Want(200).Shows(map[string]string{"kind": "edited", "change_grams": "-50",
		"shortfall_grams": "50", "remaining_weight_grams": "0", "warnings.0.code": "FILAMENT_SHORTFALL",
		"warnings.0.grams": "50", "warnings.0.detail": "PLA Black (spool 1) had only 20 g on record; " +
			"50 g more were taken, so it is now empty"})
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "80", "cost": "1.6", "corrected_grams": "0"})

	// An entry that only found the spool empty changes no weight.
	c.Post(t, path+"/deduct", j{"weight_grams": 7, "allow_shortfall": true}).Want(200)
	c.Post(t, newest(t, c, path)+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "0",
		"shortfall_grams": "-7", "remaining_weight_grams": "0", "warnings": "[]"})

	// A spool may have more than a full one, but not more than 1,000,000 g.
	c.Patch(t, path, j{"remaining_weight_grams": 950}).Want(200)
	c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
	deducted = newest(t, c, path)
	report(t, c, 1, -150)
	c.Post(t, deducted+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "1100",
		"shortfall_grams": "null", "warnings.0.code": "OVER_NET_WEIGHT", "warnings.0.grams": "100",
		"warnings.0.detail": "PLA Black (spool 1) has 1100 g now, 100 g more than a full one"})
	c.Patch(t, path, j{"remaining_weight_grams": 999_950, "net_weight_grams": 1_000_000}).Want(200)
	c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
	deducted = newest(t, c, path)
	report(t, c, 1, -100)
	c.Patch(t, path, j{"net_weight_grams": 1000}).Want(200)
	c.Post(t, deducted+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "1000000",
		"change_grams": "50", "shortfall_grams": "-50", "warnings.0.code": "OVER_NET_WEIGHT"})
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "-170", "cost": "-3.4"})
	ledger(t, c, path)
}

// Use is moved in one transaction, with its shortfall, printer, reason and day.
func TestMove(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	var paths []string
	for _, left := range []int{1000, 30, 500} {
		paths = append(paths, spools+"/"+c.Post(t, spools, spool(j{"remaining_weight_grams": left, "purchase_price": 20,
			"color": fmt.Sprint("Color ", left)})).Want(201).ID())
	}
	id := func(i int) string { return strings.TrimPrefix(paths[i], spools+"/") }
	c.Post(t, paths[0]+"/deduct", j{"weight_grams": 45.5, "reason": "Test print"}).Want(200)
	entry := newest(t, c, paths[0])
	first := strings.TrimPrefix(entry, paths[0]+"/usage/")

	for field, body := range map[string]j{"spool_id": {"spool_number": nil}, "reason": {"spool_id": id(1),
		"reason": strings.Repeat("x", 10001)}} {
		c.Post(t, entry+"/move", body).Fields(field)
	}
	for field, named := range map[string]any{"spool_id": value.NewID(), "spool_number": 99} {
		c.Post(t, entry+"/move", j{field: named}).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": field})
	}
	for field, named := range map[string]any{"spool_id": id(0), "spool_number": 1} {
		c.Post(t, entry+"/move", j{field: named}).WantError(400, "SAME_SPOOL").
			Shows(map[string]string{"errors.0.field": field})
	}
	foreign := api.Operator(t).Post(t, spools, spool(nil)).Want(201).ID()
	c.Post(t, entry+"/move", j{"spool_id": foreign}).WantError(400, "UNKNOWN_REFERENCE")
	c.Delete(t, paths[2]).Want(204)
	c.Post(t, entry+"/move", j{"spool_number": 3}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, entry+"/move", j{"spool_id": id(2)}).WantError(400, "UNKNOWN_REFERENCE")
	testkit.Equal(t, len(ledger(t, c, paths[0])), 2, "entries after errors")

	c.Patch(t, paths[1], j{"archived": true}).Want(200)
	a := c.Post(t, entry+"/move", j{"spool_number": 2, "reason": "The other spool"}).Want(200).Shows(map[string]string{
		"reversed.kind": "deducted", "reversed.reason": "The other spool", "reversed.reverses_id": first,
		"reversed.spool_id": id(0), "reversed.change_grams": "45.5", "reversed.remaining_weight_grams": "1000",
		"reversed.moves_id": "null", "reversed.warnings": "[]",
		"recorded.kind": "deducted", "recorded.reason": "Test print", "recorded.moves_id": first,
		"recorded.spool_id": id(1), "recorded.change_grams": "-30", "recorded.shortfall_grams": "15.5",
		"recorded.remaining_weight_grams": "0", "recorded.reverses_id": "null", "recorded.user_id": c.Actor.User,
		"recorded.warnings.0.code": "FILAMENT_SHORTFALL", "recorded.warnings.0.grams": "15.5"})
	c.Post(t, entry+"/move", j{"spool_number": 2}).WantError(409, "USAGE_ALREADY_REVERSED")
	reversal := paths[0] + "/usage/" + a.Text("reversed.id")
	c.Post(t, reversal+"/move", j{"spool_number": 2}).WantError(409, "USAGE_NOT_REVERSIBLE")
	c.Get(t, reportURL+"?group_by=color").Shows(map[string]string{"grams": "45.5", "cost": "0.91",
		"items.0.color": "Color 30", "items.0.grams": "45.5", "items.1.grams": "0"})
	if c.Get(t, paths[1]).Text("last_used_at") == "null" {
		t.Error("the spool is not used")
	}

	// What was moved can be moved again, and reversed.
	moved := paths[1] + "/usage/" + a.Text("recorded.id")
	back := c.Post(t, moved+"/move", j{"spool_id": id(0)}).Want(200).Shows(map[string]string{
		"recorded.change_grams": "-45.5", "recorded.shortfall_grams": "null", "reversed.change_grams": "30",
		"reversed.shortfall_grams": "-15.5", "reversed.remaining_weight_grams": "30"})
	c.Post(t, paths[0]+"/usage/"+back.Text("recorded.id")+"/reverse", nil).Want(200)
	c.Get(t, reportURL).Shows(map[string]string{"grams": "0"})
	for _, path := range paths[:2] {
		ledger(t, c, path)
	}

	// Only use can be moved.
	entries := ledger(t, c, paths[0])
	c.Post(t, paths[0]+"/usage/"+entries[0]["id"].(string)+"/move", j{"spool_number": 2}).
		WantError(409, "USAGE_NOT_REVERSIBLE")
	c.Patch(t, paths[0], j{"remaining_weight_grams": 500}).Want(200)
	c.Post(t, newest(t, c, paths[0])+"/move", j{"spool_number": 2}).WantError(409, "USAGE_NOT_MOVABLE")
	report(t, c, 1, -5)
	c.Post(t, newest(t, c, paths[0])+"/move", j{"spool_number": 2}).WantError(409, "USAGE_NOT_MOVABLE")
	report(t, c, 1, 25)
	c.Post(t, newest(t, c, paths[0])+"/move", j{"spool_number": 2}).Want(200).
		Shows(map[string]string{"recorded.kind": "printed", "recorded.change_grams": "-20"})
}

// An entry that was reversed or moved does not grow; the next report starts another one.
func TestReversedEntryDoesNotGrow(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	other := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	report(t, c, 1, 10)
	report(t, c, 1, 5)
	first := newest(t, c, path)
	c.Post(t, first+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "15"})
	report(t, c, 1, 3)
	report(t, c, 1, 4)
	second := newest(t, c, path)
	c.Post(t, second+"/move", j{"spool_number": 2}).Want(200).Shows(map[string]string{"recorded.change_grams": "-7"})
	report(t, c, 1, 2)
	report(t, c, 2, 1)
	changes := func(path string) (all []string) {
		for _, entry := range ledger(t, c, path)[1:] {
			all = append(all, fmt.Sprint(entry["change_grams"]))
		}
		return all
	}
	testkit.EqualSlices(t, changes(path), []string{"-15", "15", "-7", "7", "-2"}, "changes of the spool")
	testkit.EqualSlices(t, changes(other), []string{"-7", "-1"}, "changes of the other spool")
	c.Get(t, reportURL).Shows(map[string]string{"grams": "10"})
}

// Reports and exports count a reversal on the day of the first entry, also if the day was summarized before.
func TestDayOfReversal(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	c := operator(t)
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`update tenants set time_zone = 'Asia/Tokyo'`)))
	id := c.Post(t, spools, spool(j{"purchase_price": 20})).Want(201).ID()
	path := spools + "/" + id
	c.Post(t, spools, spool(j{"color": "Red", "purchase_price": 20})).Want(201)
	zone := time.FixedZone("Tokyo", 9*60*60)
	now := time.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day()-20, 0, 0, 0, 0, zone)
	day := func(n int) string { return midnight.AddDate(0, 0, n).Format(time.DateOnly) }
	c.AddUsage(t, id, "deducted", 10, midnight.Add(-time.Second))
	c.AddUsage(t, id, "deducted", 20, midnight)
	c.AddUsage(t, id, "edited", 5, midnight)
	all := func() {
		t.Helper()
		for c.Summarize(t, 31) > 0 {
		}
	}
	of := func(n int, want map[string]string) {
		t.Helper()
		c.Get(t, reportURL+"?group_by=color&from="+day(n)+"&to="+day(n)).Want(200).Shows(want)
	}
	all()
	of(-1, map[string]string{"grams": "10"})
	of(0, map[string]string{"grams": "20", "corrected_grams": "5"})
	entries := map[string]string{}
	for _, item := range c.Get(t, path+"/usage").List("items") {
		e := item.(map[string]any)
		entries[fmt.Sprint(e["change_grams"])] = path + "/usage/" + e["id"].(string)
	}
	c.Post(t, entries["-10"]+"/reverse", nil).Want(200)
	all()
	of(-1, map[string]string{"grams": "0", "cost": "0"})
	of(0, map[string]string{"grams": "20", "cost": "0.4"})
	c.Post(t, entries["-20"]+"/move", j{"spool_number": 2}).Want(200)
	c.Post(t, entries["-5"]+"/reverse", nil).Want(200)
	all()
	of(0, map[string]string{"grams": "20", "corrected_grams": "0", "cost": "0.4", "items.0.color": "Red",
		"items.0.grams": "20", "items.1.grams": "0"})
	of(20, map[string]string{"grams": "0", "corrected_grams": "0"})
	c.Get(t, reportURL).Shows(map[string]string{"grams": "20", "items.0.grams_per_day": "0.666667"})

	for n, want := range map[int]int{-1: 2, 0: 5, 20: 2} { // the spools are of today
		csv := c.Get(t, reportURL+"/export?from="+day(n)+"&to="+day(n)).Want(200)
		testkit.Equal(t, strings.Count(string(csv.Body), "\n")-1, want, "entries in the export of the day %d", n)
	}
	lines := string(c.Get(t, reportURL+"/export?format=jsonl&from="+day(-1)+"&to="+day(-1)).Want(200).Body)
	first := strings.TrimPrefix(entries["-10"], path+"/usage/")
	if !strings.Contains(lines, `"reverses_id":"`+first) || strings.Contains(lines, `"reversed_by_id":"`+first) {
		t.Errorf("the export is %s", lines)
	}
}

// The ledgers of archived and of removed spools are corrected too; those of others are not found.
func TestReverseScope(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	other := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	for range 3 {
		c.Post(t, path+"/deduct", j{"weight_grams": 10}).Want(200)
	}
	entries := ledger(t, c, path)
	entry := func(i int) string { return path + "/usage/" + entries[i]["id"].(string) }

	for _, operation := range []string{"/reverse", "/move"} {
		body := j{"spool_number": 2}
		if operation == "/reverse" {
			body = j{}
		}
		tenant.User(t, "viewer").Post(t, entry(1)+operation, body).WantError(403, "FORBIDDEN")
		tenant.Key(t, "viewer").Post(t, entry(1)+operation, body).WantError(403, "FORBIDDEN")
		tenant.Key(t, "printer").Post(t, entry(1)+operation, body).WantError(403, "FORBIDDEN")
		api.Operator(t).Post(t, entry(1)+operation, body).WantError(404, "NOT_FOUND")
		c.Post(t, other+"/usage/"+entries[1]["id"].(string)+operation, body).WantError(404, "NOT_FOUND")
		c.Post(t, path+"/usage/"+value.NewID()+operation, body).WantError(404, "NOT_FOUND")
		c.Post(t, spools+"/"+value.NewID()+"/usage/"+entries[1]["id"].(string)+operation, body).
			WantError(404, "NOT_FOUND")
	}
	c.Post(t, entry(1)+"/reverse", j{"reason": strings.Repeat("x", 10001)}).Fields("reason")
	testkit.Equal(t, len(ledger(t, c, path)), 4, "entries after errors")

	key := tenant.Key(t, "operator")
	a := key.Post(t, entry(1)+"/reverse", j{}).Want(200).Shows(map[string]string{"user_id": "null", "reason": "null"})
	if a.Text("api_key_id") == "null" {
		t.Errorf("the entry does not name the key: %s", a.Body)
	}
	c.Patch(t, path, j{"archived": true}).Want(200)
	c.Post(t, entry(2)+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "990"})
	c.Delete(t, path).Want(204)
	c.Post(t, entry(3)+"/move", j{"spool_number": 2}).Want(200).
		Shows(map[string]string{"reversed.remaining_weight_grams": "1000", "recorded.remaining_weight_grams": "990"})
	c.Get(t, reportURL).Shows(map[string]string{"grams": "10"})
	c.Post(t, path+"/restore", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "1000"})
	ledger(t, c, path)
}

// Of concurrent reversals and moves of an entry, one succeeds, also beside deductions and reports of a printer, which
// are counted once.
func TestConcurrentReversals(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	other := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	for round := range 4 {
		report(t, c, 1, 20)
		entry := newest(t, c, path)
		back := ""
		if round > 0 {
			c.Post(t, other+"/deduct", j{"weight_grams": 5}).Want(200)
			back = newest(t, c, other)
		}
		testkit.Concurrently(12, func(i int) {
			var a *testkit.Response
			var err error
			switch {
			case i < 4:
				a, err = c.Send("POST", entry+"/reverse", nil)
			case i < 6:
				a, err = c.Send("POST", entry+"/move", j{"spool_number": 2})
			case i < 8 && back != "":
				a, err = c.Send("POST", back+"/move", j{"spool_number": 1})
			case i < 10:
				a, err = c.Send("POST", path+"/deduct", j{"weight_grams": 1})
			default:
				err = c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`select (report_use(1, 2, null, null, null)).spool`))
			}
			if err != nil || a != nil && a.Status != 200 && !strings.Contains(string(a.Body), "USAGE_ALREADY_REVERSED") {
				t.Errorf("request %d: %v %+v", i, err, a)
			}
		})
		if back != "" {
			c.Post(t, back+"/reverse", nil).WantError(409, "USAGE_ALREADY_REVERSED")
		}
		c.Post(t, entry+"/reverse", nil).WantError(409, "USAGE_ALREADY_REVERSED")
	}
	// The reports that were not reversed, the deductions, and what was moved are use, once.
	use, reversed := rat("0"), map[string]string{}
	for _, p := range []string{path, other} {
		for _, e := range ledger(t, c, p)[1:] {
			use.Sub(use, rat(fmt.Sprint(e["change_grams"])))
			if e["reverses_id"] != nil {
				reversed[e["reverses_id"].(string)] = fmt.Sprint(e["change_grams"])
			}
		}
		for _, e := range ledger(t, c, p) {
			change, ok := reversed[e["id"].(string)]
			if (e["reversed_by_id"] != nil) != ok || ok && rat(change).Cmp(rat(fmt.Sprint(e["change_grams"])).Neg(
				rat(fmt.Sprint(e["change_grams"])))) != 0 {
				t.Errorf("the reversal has %s g of %v", change, e)
			}
		}
	}
	testkit.Equal(t, len(reversed), 7, "reversals")
	c.Get(t, reportURL).Shows(map[string]string{"grams": strings.TrimSuffix(use.FloatString(0), ".")})
}
