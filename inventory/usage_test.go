package inventory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// ledger returns all entries of a spool's ledger, oldest first. It fails the test unless each entry begins with the
// weight at which the previous one ends, and the changes add up to the remaining weight.
func ledger(t *testing.T, c *testkit.Client, path string) []j {
	t.Helper()
	var entries []j
	for {
		a := c.Get(t, fmt.Sprintf("%s/usage?limit=100&skip=%d", path, len(entries))).Want(200)
		for _, item := range a.List("items") {
			entries = append([]j{item.(map[string]any)}, entries...)
		}
		if a.Text("total") == fmt.Sprint(len(entries)) {
			break
		}
		if len(a.List("items")) == 0 {
			t.Fatalf("%s: %d entries of %s", a.What, len(entries), a.Text("total"))
		}
	}
	grams := func(entry j, name string) *big.Rat { return rat(entry[name].(json.Number).String()) }
	before := new(big.Rat)
	for i, entry := range entries {
		if grams(entry, "before_grams").Cmp(before) != 0 {
			t.Fatalf("%s: entry %d begins with %v, the previous one ends with %s", path, i, entry,
				before.FloatString(6))
		}
		before.Add(before, grams(entry, "change_grams"))
		if grams(entry, "after_grams").Cmp(before) != 0 {
			t.Fatalf("%s: entry %d does not add up: %v", path, i, entry)
		}
		if (i == 0) != (entry["kind"] == "created") {
			t.Fatalf("%s: entry %d is %v", path, i, entry)
		}
	}
	if remaining := c.Get(t, path).Want(200).Text("remaining_weight_grams"); rat(remaining).Cmp(before) != 0 {
		t.Fatalf("%s: the changes add up to %s, the spool has %s", path, before.FloatString(6), remaining)
	}
	return entries
}

func TestDeduct(t *testing.T) {
	t.Parallel()
	c := operator(t)
	made := c.Post(t, spools, spool(j{"net_weight_grams": 100})).Want(201)
	path, updated := spools+"/"+made.ID(), made.Text("updated_at")
	for _, test := range []struct{ weight, deducted, remaining string }{
		{"0.1", "0.1", "99.9"},
		{"0.2", "0.2", "99.7"},
		{"0.7", "0.7", "99"},
		{"33.333333", "33.333333", "65.666667"},
		{"0.000001", "0.000001", "65.666666"},
		{"0.0000005", "0.000001", "65.666665"}, // rounded by the service
		{"5.6666654", "5.666665", "60"},
		{"1e1", "10", "50"},
		{"49.999999", "49.999999", "0.000001"},
	} {
		a := c.Post(t, path+"/deduct", `{"weight_grams":`+test.weight+`}`).Want(200)
		is(t, a, "", j{"id": uuid, "remaining_weight_grams": json.Number(test.remaining),
			"deducted": json.Number(test.deducted), "shortfall_grams": json.Number("0")})
		got := c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": test.remaining})
		if now := got.Text("updated_at"); compare(now, updated) <= 0 {
			t.Errorf("updated_at was %s and is %s", updated, now)
		} else {
			updated = now
		}
	}
	c.Get(t, query("in_stock", true)).Want(200).Shows(map[string]string{"total": "1"})
	c.Post(t, path+"/deduct", j{"weight_grams": json.Number("0.000001")}).
		Want(200).Shows(map[string]string{"remaining_weight_grams": "0"})
	c.Get(t, query("in_stock", true)).Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, query("in_stock", false)).Want(200).Shows(map[string]string{"total": "1",
		"items.0.remaining_weight_grams": "0"})
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).WantError(400, "INSUFFICIENT_FILAMENT")
	c.Patch(t, path, j{"remaining_weight_grams": 1}).Want(200)
	c.Get(t, query("in_stock", true)).Want(200).Shows(map[string]string{"total": "1"})
	if entries := ledger(t, c, path); len(entries) != 12 {
		t.Errorf("%d entries: %v", len(entries), entries)
	}
}

// The first deduction sets both times of use, and a later one the second.
func TestTimesOfUse(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	c.Patch(t, path, j{"remaining_weight_grams": 900, "first_used_at": "2020-01-01T00:00:00Z"}).Want(200).
		Shows(map[string]string{"first_used_at": "null", "last_used_at": "null"})
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	first := c.Get(t, path)
	if at := first.Text("first_used_at"); at == "null" || at != first.Text("last_used_at") {
		t.Errorf("after the first deduction: %s", first.Body)
	}
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	second := c.Get(t, path)
	if second.Text("first_used_at") != first.Text("first_used_at") ||
		compare(second.Text("last_used_at"), first.Text("last_used_at")) <= 0 {
		t.Errorf("after the second deduction: %s; after the first one: %s", second.Body, first.Body)
	}
}

// A deduction that fails changes nothing.
func TestDeductErrors(t *testing.T) {
	t.Parallel()
	c := operator(t)
	made := c.Post(t, spools, spool(j{"remaining_weight_grams": 7.5})).Want(201)
	path := spools + "/" + made.ID()
	failed := c.Post(t, path+"/deduct", j{"weight_grams": json.Number("7.500001")}).
		WantError(400, "INSUFFICIENT_FILAMENT")
	if detail := failed.Text("detail"); !strings.Contains(detail, "7.5 g") || !strings.Contains(detail, "7.500001 g") {
		t.Errorf("the detail does not contain both weights: %s", detail)
	}
	c.Post(t, path+"/deduct", j{"weight_grams": 1000000}).WantError(400, "INSUFFICIENT_FILAMENT")
	for _, weight := range []string{"0", "-0", "-1", "0.0000004", "-0.0000004", "1000000.000001", "1e400", `"1"`,
		"null", "true", "[]"} {
		c.Post(t, path+"/deduct", `{"weight_grams":`+weight+`}`).Fields("weight_grams")
	}
	c.Post(t, path+"/deduct", j{}).Fields("weight_grams")
	for field, value := range map[string]any{"reason": strings.Repeat("é", 10001), "remaining_weight_grams": 1,
		"id": made.ID(), "Reason": "x"} {
		c.Post(t, path+"/deduct", j{"weight_grams": 1, field: value}).Fields(field)
	}
	c.Post(t, path+"/deduct", `{"weight_grams":1,"reason":"\u0000"}`).Fields("reason")
	c.Post(t, path+"/deduct", `{"weight_grams":1,"weight_grams":2}`).WantError(400, "MALFORMED_JSON")
	c.Post(t, path+"/deduct", nil).WantError(415, "UNSUPPORTED_MEDIA_TYPE")
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(made.Body), "the spool")
	if entries := ledger(t, c, path); len(entries) != 1 {
		t.Errorf("the ledger is %v", entries)
	}
}

// Each entry contains time, user, reason, and the weights before and after.
func TestLedger(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	ada, ben, viewer := tenant.User(t, "operator"), tenant.User(t, "admin"), tenant.User(t, "viewer")
	made := ada.Post(t, spools, spool(nil)).Want(201)
	path, id := spools+"/"+made.ID(), made.ID()
	reason := strings.Repeat("ü", 9_999) + "\n"
	ben.Post(t, path+"/deduct", j{"weight_grams": 45.5, "reason": reason}).Want(200)
	ada.Post(t, path+"/deduct", j{"weight_grams": 4.5, "reason": nil}).Want(200)
	ada.Post(t, path+"/deduct", j{"weight_grams": 50, "reason": ""}).Want(200)
	ben.Patch(t, path, j{"remaining_weight_grams": 950, "notes": "weighed"}).Want(200)

	// These requests do not change the weight.
	ben.Patch(t, path, j{"remaining_weight_grams": 950, "notes": "weighed again"}).
		Want(200).Shows(map[string]string{"notes": "weighed again"})
	ben.Patch(t, path, j{"remaining_weight_grams": 950.0000004}).Want(200)
	ben.Patch(t, path, j{"net_weight_grams": 900, "purchase_price": 3}).
		Want(200).Shows(map[string]string{"remaining_weight_grams": "950"})
	ben.Patch(t, path, j{"remaining_weight_grams": 1, "color": ""}).Fields("color")
	viewer.Patch(t, path, j{"remaining_weight_grams": 1}).WantError(403, "FORBIDDEN")
	viewer.Post(t, path+"/deduct", j{"weight_grams": 1}).WantError(403, "FORBIDDEN")

	entry := func(kind string, reason any, by *testkit.Client, before, after, change string) j {
		return j{"id": uuid, "spool_id": id, "kind": kind, "reason": reason, "run_id": nil,
			"user_id": by.Actor.User, "user_name": "Test " + by.Actor.Role, "api_key_id": nil, "printer_id": nil,
			"before_grams": json.Number(before), "after_grams": json.Number(after),
			"change_grams":    json.Number(change),
			"shortfall_grams": nil, "covered_grams": nil, "updated_at": nil,
			"reverses_id": nil, "reversed_by_id": nil, "moves_id": nil, "weighing_id": nil, "balances_id": nil,
			"created_at": moment}
	}
	want := []j{
		entry("edited", nil, ben, "900", "950", "50"),
		entry("deducted", "", ada, "950", "900", "-50"),
		entry("deducted", nil, ada, "954.5", "950", "-4.5"),
		entry("deducted", reason, ben, "1000", "954.5", "-45.5"),
		entry("created", nil, ada, "0", "1000", "1000"),
	}
	a := viewer.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "5", "skip": "0", "limit": "20"})
	for i := range want {
		is(t, a, fmt.Sprintf("items.%d", i), want[i])
	}
	ledger(t, ada, path)

	// The ledger of an empty spool has an entry too.
	empty := spools + "/" + ada.Post(t, spools, spool(j{"remaining_weight_grams": 0})).Want(201).ID()
	ada.Get(t, empty+"/usage").Want(200).Shows(map[string]string{"total": "1", "items.0.after_grams": "0",
		"items.0.change_grams": "0"})

	api.Operator(t).Get(t, path+"/usage").WantError(404, "NOT_FOUND")
	ada.Delete(t, path).Want(204)
	ada.Get(t, path+"/usage").Want(200)
}

// The role of the service's transactions cannot change or delete entries.
func TestLedgerIsAppendOnly(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	conn := connect(t, testkit.Private().AppURL())
	const bind = `select set_config('role', 'spoolwright_app', true), set_config('app.tenant_id', $1, true)`
	for _, statement := range []string{
		`update spool_usage set before_grams = 1`,
		`update spool_usage set kind = 'printed'`,
		`update spool_usage set reason = 'another'`,
		`delete from spool_usage`,
		`truncate spool_usage`,
		`delete from spools`,
		`truncate spools cascade`,
		`drop table spool_usage`,
		`alter table spool_usage disable row level security`,
	} {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, bind, c.Actor.Tenant); err != nil {
				t.Fatal(err)
			}
			var rows int
			if err := tx.QueryRow(ctx, `select count(*) from spool_usage`).Scan(&rows); err != nil || rows != 1 {
				t.Fatalf("the role sees %d entries: %v", rows, err)
			}
			_, err := tx.Exec(ctx, statement)
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: %v, want insufficient privilege", statement, err)
		}
	}
	// It can change the weight of an entry only if a printer reported it.
	err0 := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bind, c.Actor.Tenant); err != nil {
			t.Fatal(err)
		}
		changed, err := tx.Exec(ctx, `update spool_usage set after_grams = 1`)
		testkit.Equal(t, changed.RowsAffected(), 0, "entries that an UPDATE changed")
		return err
	})
	if err0 != nil {
		t.Error(err0)
	}
	// It cannot insert an entry for another tenant.
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bind, value.NewID()); err != nil {
			t.Fatal(err)
		}
		_, err := tx.Exec(ctx, `
			insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
			values ($1, $2, 'edited', 1000, 0)`, c.Actor.Tenant, strings.TrimPrefix(path, spools+"/"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("insert for another tenant: %v", err)
	}
	if entries := ledger(t, c, path); len(entries) != 1 {
		t.Errorf("the ledger is %v", entries)
	}
}

// Of 200 concurrent deductions of 7.5 g from 1,000 g, 133 succeed, and 2.5 g are left.
func TestConcurrentDeductions(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	testkit.Race(t, 200, func(int) (*testkit.Response, error) {
		return c.Send("POST", path+"/deduct", j{"weight_grams": 7.5})
	}).Want(t, map[string]int{"200": 133, "400 INSUFFICIENT_FILAMENT": 67})
	c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "2.5"})
	if entries := ledger(t, c, path); len(entries) != 134 {
		t.Errorf("%d entries, want 134", len(entries))
	}
}

// Weighing a spool sets its remaining weight, and needs the weight of the empty spool.
func TestWeighing(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	c.Post(t, path+"/measure", j{"gross_grams": 500}).Fields("spool_weight_grams")
	c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "1000"})
	c.Patch(t, path, j{"spool_weight_grams": 140.5}).Want(200)
	want := []string{"1000"}
	for _, test := range []struct {
		gross, remaining string
		plausible        bool
	}{
		{"990.5", "850", true}, {"140.5", "0", true}, {"140.499999", "0", false}, {"100", "0", false}, {"70.25", "0", false},
		{"1.185", "0", false}, {"0", "0", false}, {"1640.5", "1500", true}, {"1000000", "999859.5", false},
		{"1185", "1044.5", true},
	} {
		body := j{"gross_grams": json.Number(test.gross)}
		if !test.plausible {
			before := c.Get(t, path).Text("remaining_weight_grams")
			refused := c.Post(t, path+"/measure", body).Fields("gross_grams")
			for _, figure := range []string{test.gross + " g", "140.5 g"} {
				if !strings.Contains(refused.Text("detail"), figure) {
					t.Errorf("%s: the message does not name %s: %s", test.gross, figure, refused.Text("detail"))
				}
			}
			c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": before})
			body["confirmed"] = true
		}
		c.Post(t, path+"/measure", body).Want(200).
			Shows(map[string]string{"remaining_weight_grams": test.remaining, "first_used_at": "null"})
		want = append(want, test.remaining)
	}
	for i, entry := range ledger(t, c, path) {
		kind := "measured"
		if i == 0 {
			kind = "created"
		}
		if entry["kind"] != kind || fmt.Sprint(entry["after_grams"]) != want[i] || entry["user_id"] != c.Actor.User {
			t.Errorf("entry %d is %v, want %s to %s", i, entry, kind, want[i])
		}
	}
	for _, body := range []j{{}, {"gross_grams": nil}, {"gross_grams": -1}, {"gross_grams": 1000001},
		{"gross_grams": "1"}} {
		c.Post(t, path+"/measure", body).Fields("gross_grams")
	}
	other.Post(t, path+"/measure", j{"gross_grams": 1}).WantError(404, "NOT_FOUND")
	c.Delete(t, path).Want(204)
	c.Post(t, path+"/measure", j{"gross_grams": 1}).WantError(404, "NOT_FOUND")
}

// A change of a weight that waits for another one begins with what that one left.
func TestWeightChangedMeanwhile(t *testing.T) {
	t.Parallel()
	c := operator(t)
	for _, test := range []struct {
		method, rest string
		body         j
		kind, left   string
	}{
		{"PATCH", "", j{"remaining_weight_grams": 300}, "edited", "300"},
		{"POST", "/measure", j{"gross_grams": 500}, "measured", "300"},
		{"POST", "/deduct", j{"weight_grams": 100}, "deducted", "400"},
		{"POST", "/deduct", j{"weight_grams": 600, "allow_shortfall": true}, "deducted", "0"},
		{"POST", "/deduct", j{"weight_grams": 1200, "allow_shortfall": true}, "deducted", "0"},
	} {
		id := c.NewSpool(t, 1000, j{"spool_weight_grams": 200})
		path := spools + "/" + id
		h := c.Hold(t, `update spools set remaining_weight_grams = 500 where id = '`+id+`'`, `
			insert into spool_usage (spool_id, kind, before_grams, after_grams) values ('`+id+`', 'edited', 1000, 500)`)
		var a *testkit.Response
		done := h.StartWaiting(1, func() { a = c.Do(t, test.method, path+test.rest, test.body) })
		h.Commit()
		<-done
		a.Want(200)
		entries := ledger(t, c, path)
		last := entries[len(entries)-1]
		if len(entries) != 3 || last["kind"] != test.kind || fmt.Sprint(last["after_grams"]) != test.left {
			t.Errorf("%s: the ledger is %v, want %s to %s", a.What, entries, test.kind, test.left)
		}
	}
}

// A change that waits for the removal of its spool does not find the spool.
func TestChangeOfSpoolRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	c := operator(t)
	for _, test := range []struct {
		method, rest string
		body         any
	}{
		{"PATCH", "", j{"notes": "x"}}, {"PATCH", "", j{"color": "Red"}}, {"PATCH", "", j{"remaining_weight_grams": 1}},
		{"POST", "/measure", j{"gross_grams": 500}}, {"POST", "/deduct", j{"weight_grams": 1}},
		{"POST", "/deduct", j{"weight_grams": 1, "allow_shortfall": true}}, {"DELETE", "", nil},
	} {
		id := c.NewSpool(t, 1000, j{"spool_weight_grams": 200})
		h := c.Hold(t, `update spools set hidden_at = now() where id = '`+id+`'`)
		var a *testkit.Response
		done := h.StartWaiting(1, func() { a = c.Do(t, test.method, spools+"/"+id+test.rest, test.body) })
		h.Commit()
		<-done
		a.WantError(404, "NOT_FOUND")
		c.Post(t, spools+"/"+id+"/restore", nil).Want(200).
			Shows(map[string]string{"remaining_weight_grams": "1000", "color": "Black", "notes": "null"})
	}
}

// While another client empties and refills the spool, a deduction is rejected only with a weight that was too little.
func TestDeductWhileRefilled(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	var refilling sync.WaitGroup
	var ended atomic.Bool
	refilling.Go(func() {
		for i := 0; !ended.Load(); i++ {
			a, err := c.Send("PATCH", path, j{"remaining_weight_grams": []float64{0.5, 800}[i%2]})
			if err != nil || a.Status != 200 {
				t.Errorf("PATCH: %v %+v", err, a)
				return
			}
		}
	})
	var deducting sync.WaitGroup
	const tooLittle = "The spool has 0.5 g left, less than the 1 g"
	for range 4 {
		deducting.Go(func() {
			for range 100 {
				a, err := c.Send("POST", path+"/deduct", j{"weight_grams": 1})
				if err != nil || a.Status != 200 && !strings.Contains(string(a.Body), tooLittle) {
					t.Errorf("deduct: %v %+v", err, a)
				}
			}
		})
	}
	deducting.Wait()
	ended.Store(true)
	refilling.Wait()
	ledger(t, c, path)
}
