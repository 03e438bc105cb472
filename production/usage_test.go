package production_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// What was used beyond what a spool had on record is use, and the stock of a material without use lasts for no
// number of days.
func TestUsageBeyondTheSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, "/api/v1/spools", unpriced(j{"remaining_weight_grams": 100, "purchase_price": 20})).Want(201).ID()
	c.Post(t, "/api/v1/spools", unpriced(j{"material_type": "PETG"})).Want(201)
	report := usageURL + "?group_by=material"
	c.Post(t, "/api/v1/spools/"+id+"/deduct", j{"weight_grams": 150, "allow_shortfall": true}).Want(200)
	c.Get(t, report).Want(200).Shows(map[string]string{"grams": "150", "cost": "3", "items.0.grams": "150",
		"items.0.grams_per_day": "5", "items.0.days_left": "0"})
	c.Patch(t, "/api/v1/spools/"+id, j{"remaining_weight_grams": 1000, "spool_weight_grams": 200}).Want(200)
	c.Post(t, "/api/v1/spools/"+id+"/measure", j{"gross_grams": 1350}).Want(200)
	c.Get(t, report).Want(200).Shows(map[string]string{"grams": "150", "corrected_grams": "-1150",
		"items.0.grams": "150", "items.0.corrected_grams": "-1150", "items.0.wasted_grams": "0",
		"items.0.days_left": "230"})
	c.Post(t, "/api/v1/spools/"+id+"/measure", j{"gross_grams": 1250}).Want(200)
	c.Get(t, report).Want(200).Shows(map[string]string{"cost": "3", "items.0.corrected_grams": "-1050",
		"items.0.grams_per_day": "5", "items.0.days_left": "210"})
}

// A material that was only weighed, or whose use was taken back, lasts for no number of days.
func TestNoDaysWithoutUse(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, "/api/v1/spools", unpriced(j{"spool_weight_grams": 200, "purchase_price": nil})).Want(201).ID()
	c.Post(t, "/api/v1/spools/"+id+"/measure", j{"gross_grams": 700}).Want(200)
	c.Get(t, usageURL).Want(200).Shows(map[string]string{"grams": "0", "cost": "0", "corrected_grams": "500",
		"items.0.grams": "0", "items.0.cost": "0", "items.0.grams_per_day": "0", "items.0.days_left": "null"})
	c.AddUsage(t, id, "printed", -0.00001, time.Now())
	c.Get(t, usageURL).Want(200).Shows(map[string]string{"items.0.grams_per_day": "0", "items.0.days_left": "null"})
}

// unpriced returns the body of a POST of a spool without a price, with the given fields.
func unpriced(fields j) j {
	body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	maps.Copy(body, fields)
	return body
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return r
}

// wantReport compares a report with a query of the ledger alone.
func wantReport(t *testing.T, c *testkit.Client, by string, first, last time.Time) {
	t.Helper()
	keys := map[string]string{"material": "s.material_type", "color": "s.material_type || ' ' || min(s.color)",
		"printer": "''::text", "day": "(u.created_at at time zone 'UTC')::date::text",
		"week":  "date_trunc('week', u.created_at at time zone 'UTC')::date::text",
		"month": "to_char(u.created_at at time zone 'UTC', 'YYYY-MM-01')"}
	group := keys[by]
	if by == "color" {
		group = "s.material_type, s.color_key"
	}
	var text string
	err := c.API.DB.Read(db.As(t.Context(), c.Actor), db.SQL(`
		select coalesce(json_object_agg(key, grams || ' ' || coalesce(cost::text, 'null') || ' ' || corrected),
			'{}')::text from (
			select `+keys[by]+` as key, trim_scale(sum(u.grams)) as grams, trim_scale(sum(u.corrected)) as corrected,
				trim_scale(round(coalesce(sum(u.grams * s.cost_per_gram) filter (where u.kind not in ('measured', 'edited')),
					case when sum(u.grams) = 0 then 0 end), 6)) as cost
			from (select *, case when kind not in ('measured', 'edited') then before_grams - after_grams else 0 end as grams,
				case when kind in ('measured', 'edited') then before_grams - after_grams else 0 end as corrected
				from spool_usage) u join spools s on s.id = u.spool_id
			where u.kind <> 'created' and u.created_at >= $1::text::timestamptz
				and u.created_at < $2::text::timestamptz
			group by `+group+`
		) t`, first.Format(time.RFC3339), last.AddDate(0, 0, 1).Format(time.RFC3339)).Into(&text))
	testkit.Check(t, err)
	want, got := map[string]string{}, map[string]string{}
	testkit.Check(t, json.Unmarshal([]byte(text), &want))
	path := fmt.Sprintf("%s?group_by=%s&from=%s&to=%s", usageURL, by, first.Format(time.DateOnly),
		last.Format(time.DateOnly))
	report := c.Get(t, path).Want(200).Shows(map[string]string{"from": first.Format(time.DateOnly),
		"to": last.Format(time.DateOnly), "group_by": by, "groups": fmt.Sprint(len(want))})
	for i := range report.List("items") {
		text := func(name string) string { return report.Text(fmt.Sprintf("items.%d.%s", i, name)) }
		key := map[string]string{"material": text("material_type"), "color": text("material_type") + " " +
			text("color"),
			"printer": "", "day": text("start"), "week": text("start"), "month": text("start")}[by]
		got[key] = text("grams") + " " + text("cost") + " " + text("corrected_grams")
	}
	// The summary rounds the cost of each day.
	same := func(got, want string) bool {
		a, b := strings.Fields(got), strings.Fields(want)
		if a[1] == "null" || b[1] == "null" || a[0] != b[0] || a[2] != b[2] {
			return got == want
		}
		difference := new(big.Rat).Sub(rat(a[1]), rat(b[1]))
		return difference.Abs(difference).Cmp(rat("0.001")) < 0
	}
	if !maps.EqualFunc(got, want, same) {
		t.Errorf("%s: the report has %v, the ledger %v", path, got, want)
	}
}

// The days of reports and of the export are those of the tenant's time zone, also after it changes, whichever days are
// summarized in which zone.
func TestReportDaysOfTimeZone(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, "/api/v1/spools", unpriced(nil)).Want(201).ID()
	setZone := func(zone string) {
		t.Helper()
		err := c.API.DB.Write(db.As(t.Context(), c.Actor),
			db.SQL(`update tenants set time_zone = $1, currency = 'NZD'`, zone))
		testkit.Check(t, err)
	}
	zone, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Skip(err)
	}
	now := time.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day()-20, 0, 0, 0, 0, zone)
	c.AddUsage(t, id, "deducted", 1, midnight.Add(-time.Second))
	c.AddUsage(t, id, "deducted", 2, midnight)
	c.AddUsage(t, id, "deducted", 4, midnight.AddDate(0, 0, 5))
	// In Havana, 2023-11-05 began twice at midnight.
	fold := time.Date(2023, 11, 5, 4, 30, 0, 0, time.UTC)
	c.AddUsage(t, id, "deducted", 8, fold)
	c.AddUsage(t, id, "deducted", 16, fold.Add(time.Hour))
	c.AddUsage(t, id, "deducted", 32, fold.Add(-time.Hour))
	day := func(n int) string { return midnight.AddDate(0, 0, n).Format(time.DateOnly) }
	check := func(from, to string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		a := c.Get(t, usageURL+"?group_by=day&from="+from+"&to="+to).Want(200).
			Shows(map[string]string{"currency": "NZD"})
		for i := range a.List("items") {
			got[a.Text(fmt.Sprintf("items.%d.start", i))] = a.Text(fmt.Sprintf("items.%d.grams", i))
		}
		if !maps.Equal(got, want) {
			t.Errorf("from %s to %s: %v, want %v", from, to, got, want)
		}
	}
	auckland := func() {
		t.Helper()
		check(day(-1), day(-1), map[string]string{day(-1): "1"})
		check(day(-1), day(9), map[string]string{day(-1): "1", day(0): "2", day(5): "4"})
		export := c.Get(t, usageURL+"/export?from="+day(0)+"&to="+day(0)).Want(200)
		testkit.Equal(t, strings.Count(string(export.Body), "deducted"), 1, "entries in the export of a day")
	}
	utc := midnight.UTC().Format(time.DateOnly)
	setZone("UTC")
	check(utc, utc, map[string]string{utc: "3"})
	for c.Summarize(t, 500) > 0 {
	}
	check(utc, utc, map[string]string{utc: "3"})
	setZone("Pacific/Auckland")
	auckland()
	c.Summarize(t, 500) // deletes days of the old zone
	setZone("UTC")
	check(utc, utc, map[string]string{utc: "3"})
	setZone("Pacific/Auckland")
	for c.Summarize(t, 500) > 0 {
		auckland()
	}
	auckland()
	setZone("America/Havana")
	havana := map[string]string{"2023-11-04": "32", "2023-11-05": "24"}
	check("2023-11-01", "2023-11-10", havana)
	for c.Summarize(t, 500) > 0 {
	}
	check("2023-11-01", "2023-11-10", havana)
	check("2023-11-05", "2023-11-05", map[string]string{"2023-11-05": "24"})
}

// Reports equal the ledger, whichever days are summarized, also after changes of spools and with concurrent summaries.
func TestUsageReportEqualsLedger(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	c := newAPI(t).Operator(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	start := today.AddDate(0, 0, -70)
	var ids []string
	for i, material := range []string{"PLA", "PLA", "PLA", "PETG", "PETG", "TPU"} {
		ids = append(ids, c.Post(t, "/api/v1/spools", unpriced(j{"material_type": material,
			"color":                  []string{"Black", "black", "Red"}[i%3],
			"purchase_price":         []any{20, 25.5, nil}[i%3],
			"remaining_weight_grams": 0, // so that its removal loses nothing
		})).Want(201).ID())
	}
	c.Delete(t, "/api/v1/spools/"+ids[5]).Want(204) // what was used from it counts
	for n := range 400 {
		at := start.Add(time.Duration(random.Int64N(int64(71 * 24 * time.Hour))))
		if n%10 == 0 { // just before or after midnight
			at = at.Truncate(24 * time.Hour).Add(time.Duration(n%3-1) * time.Microsecond)
		}
		if at.After(time.Now()) {
			continue
		}
		kind := []string{"created", "edited", "deducted", "run", "measured", "printed", "wasted"}[random.IntN(7)]
		grams := float64(random.IntN(100_000)) / 1000
		if kind == "measured" && n%2 == 0 {
			grams = -grams
		}
		c.AddUsage(t, ids[random.IntN(len(ids))], kind, grams, at)
	}
	check := func() {
		t.Helper()
		for _, by := range production.UsageGroup("").Enum() {
			first := start.AddDate(0, 0, random.IntN(60)-5)
			wantReport(t, c, by, first, first.AddDate(0, 0, random.IntN(40)))
			wantReport(t, c, by, start, today)
		}
	}
	check()
	testkit.Equal(t, c.Summarize(t, 10), 10, "days that were summarized")
	check()
	testkit.Concurrently(4, func(int) {
		for range 4 {
			if _, err := c.Send("GET", usageURL+"?group_by=day", nil); err != nil {
				t.Error(err)
			}
			c.Summarize(t, 7)
		}
	})
	for c.Summarize(t, 31) > 0 {
	}
	check()

	// The summary ends before the day that can still get entries.
	var open, rows int
	err := c.API.DB.Read(db.As(t.Context(), c.Actor), db.SQL(`
		select (select ((now() - interval '2 hours') at time zone 'UTC')::date - next_day from usage_summaries),
			(select count(*) from usage_days)`).Into(&open, &rows))
	if err != nil || open != 0 || rows < 50 {
		t.Errorf("%v: the summary ends %d days before the first open day, want 0, and has %d rows", err, open, rows)
	}

	// Changes of spools take effect with the next summary.
	c.Patch(t, "/api/v1/spools/"+ids[0], j{"purchase_price": 99, "notes": "x"}).Want(200)
	c.Patch(t, "/api/v1/spools/"+ids[1], j{"color": "Green"}).Want(200)
	c.Patch(t, "/api/v1/spools/"+ids[3], j{"material_type": "ABS"}).Want(200)
	c.Patch(t, "/api/v1/spools/"+ids[4], j{"net_weight_grams": 500}).Want(200)
	c.Patch(t, "/api/v1/spools/"+ids[2], j{"purchase_price": nil, "notes": "x"}).Want(200) // no change
	testkit.Equal(t, c.Summarize(t, 100), 4, "changed spools that were summarized")
	check()
	testkit.Equal(t, c.Summarize(t, 31), 0, "spools that were summarized again")
}

// A change of a spool that was used on many days does not make a summary long: it has no more days than otherwise.
func TestChangedSpoolOfManyDays(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	c := newAPI(t).Operator(t)
	id := c.Post(t, "/api/v1/spools", unpriced(j{"purchase_price": 20})).Want(201).ID()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	start := today.AddDate(0, 0, -40)
	for day := start; day.Before(today); day = day.AddDate(0, 0, 1) {
		c.AddUsage(t, id, "deducted", 10, day.Add(12*time.Hour))
	}
	for c.Summarize(t, 10) > 0 {
	}
	c.Patch(t, "/api/v1/spools/"+id, j{"purchase_price": 30}).Want(200)
	for calls := 1; ; calls++ {
		n := c.Summarize(t, 10)
		wantReport(t, c, "day", start, today)
		if n == 0 && calls == 5 {
			break
		}
		if n < 9 || n > 11 || calls == 5 { // the first call also returns the spool; yesterday may not be closed yet
			t.Fatalf("call %d summarized %d days", calls, n)
		}
	}
}

// The report shows the cause's printer, and how long the stock of a material lasts.
func TestUsageReport(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	black := c.Post(t, "/api/v1/spools", unpriced(j{"purchase_price": 25})).Want(201).ID()
	c.Post(t, "/api/v1/spools", unpriced(j{"color": "Red", "remaining_weight_grams": 300})).Want(201)
	archived := c.Post(t, "/api/v1/spools", unpriced(j{"archived": true})).Want(201).ID()
	removed := c.Post(t, "/api/v1/spools", unpriced(nil)).Want(201).ID()
	c.Delete(t, "/api/v1/spools/"+removed).Want(204)
	now := time.Now().UTC()
	c.AddUsage(t, black, "deducted", 240, now.AddDate(0, 0, -29))
	c.AddUsage(t, archived, "deducted", 30, now.AddDate(0, 0, -1))
	c.AddUsage(t, black, "deducted", 1000, now.AddDate(0, 0, -30)) // before the last 30 days
	c.Post(t, "/api/v1/spools/"+black+"/deduct", j{"weight_grams": 30}).Want(200)
	for range 2 {
		c.Get(t, usageURL).Want(200).Shows(map[string]string{"group_by": "material", "grams": "300", "groups": "1",
			"items.0.material_type": "PLA", "items.0.color": "null", "items.0.grams": "300",
			"items.0.remaining_grams": "1270", "items.0.grams_per_day": "10", "items.0.days_left": "127",
			"to": now.Format(time.DateOnly), "from": now.AddDate(0, 0, -29).Format(time.DateOnly)})
		c.Get(t, usageURL+"?group_by=color&from="+now.Format(time.DateOnly)).Want(200).Shows(map[string]string{
			"grams": "30", "cost": "0.75", "items.0.color": "Black", "items.0.remaining_grams": "970",
			"items.0.days_left": "97"})
		c.Get(t, usageURL+"?group_by=month&from=2020-01-01&to=2020-12-31").Want(200).
			Shows(map[string]string{"grams": "0", "cost": "0", "groups": "0", "items": "[]"})
		c.Summarize(t, 100)
	}
	var lines strings.Builder
	testkit.Check(t, production.ExportUsage(db.As(t.Context(), c.Actor), api.DB, &lines, "jsonl",
		production.UsageSelection{}))
	if n := strings.Count(lines.String(), "\n"); n != 8 || !strings.Contains(lines.String(), `"spool_name":"PLA Red`) {
		t.Errorf("the export has %d entries, want 8: %s", n, &lines)
	}
	if csv := c.Get(t, usageURL+"/export").Want(200); strings.Count(string(csv.Body), "\n") != 9 {
		t.Errorf("the CSV file is %s", csv.Body)
	}
	tenant.User(t, "viewer").Get(t, usageURL).Want(200)
	api.Operator(t).Get(t, usageURL).Want(200).Shows(map[string]string{"groups": "0"}) // another tenant

	for query, field := range map[string]string{
		"group_by=year": "group_by", "from=2024-13-01": "from", "to=yesterday": "to",
		"from=2024-02-01&to=2024-01-31": "from", "from=2000-01-01&to=2020-01-01": "from", "to=9999-12-31": "to",
		"to=1899-12-31": "to",
	} {
		c.Get(t, usageURL+"?"+query).WantError(422,
			"VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": field})
	}
	c.Get(t, usageURL+"?to=1900-01-01").Want(200).Shows(map[string]string{"from": "1899-12-03"})
}

// The export has the entries of the days of a report, the oldest first, on several pages, whatever their ids are.
func TestUsageExport(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, "/api/v1/spools", unpriced(nil)).Want(201).ID()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	// Three entries have the same time. The last entries of a day are just before midnight.
	err := c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		insert into spool_usage (id, spool_id, kind, before_grams, after_grams, created_at)
		select gen_random_uuid(), $1, 'deducted', 10000, 10000 - n, $2::text::timestamptz - interval '1 microsecond'
			- n / 3 * interval '1 hour'
		from generate_series(0, 3599) n`, id, today.Format(time.RFC3339)))
	testkit.Check(t, err)
	for query, want := range map[string]int{
		"?from=" + day(-2) + "&to=" + day(-1):  2 * 72,
		"?from=" + day(-40) + "&to=" + day(-2): 39 * 72,
		"?from=" + day(-3):                     3 * 72,
		"?to=" + day(-2):                       30 * 72,
		"?from=" + day(0):                      0,
		"":                                     3600,
	} {
		csvFile := c.Get(t, usageURL+"/export"+query).Want(200)
		rows, err := csv.NewReader(bytes.NewReader(csvFile.Body)).ReadAll()
		testkit.Check(t, err)
		column := func(name string) int { return slices.Index(rows[0], name) }
		sum, entries, before := 0, 0, ""
		seen := map[string]bool{}
		for _, row := range rows[1:] {
			at := row[column("created_at")]
			if at < before {
				t.Fatalf("%s: an entry of %s is after one of %s", query, at, before)
			}
			before = at
			if seen[row[column("id")]] {
				t.Fatalf("%s: an entry is there twice", query)
			}
			seen[row[column("id")]] = true
			if row[column("kind")] == "deducted" {
				change, err := strconv.Atoi(row[column("change_grams")])
				testkit.Check(t, err)
				sum -= change
				entries++
			}
		}
		testkit.Equal(t, entries, want, "%s: entries", query)
		if query != "" {
			c.Get(t, usageURL+query).Want(200).Shows(map[string]string{"grams": fmt.Sprint(sum)})
		}
	}
	for query, field := range map[string]string{"from=2024-13-01": "from", "from=2024-02-01&to=2024-01-31": "from"} {
		c.Get(t, usageURL+"/export?"+query).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": field})
	}
}

// A report of a ledger that was never summarized, and is too long to be read at once, summarizes it first.
func TestUsageReportSummarizes(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{})
	c := testkit.New(t, testkit.Options{DB: d}, production.Routes(orders.Runs)).Tenant(t).User(t, "viewer")
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	var name string
	testkit.Check(t, d.Read(ctx, db.SQL(`select current_database()::text`).Into(&name)))
	testkit.ExecURL(t, strings.Replace(testkit.Private().OwnerURL(), "@/spoolwright?", "@/"+name+"?", 1), `
		alter function ledger_usage rename to fast_ledger_usage`, `
		create function ledger_usage(tenant uuid, first date, last date, zone text, only_printer uuid default null)
		returns table (
			by_printer boolean, day date, material_type text, color_key text, printer_key text, color text, printer_name text,
			grams numeric, wasted_grams numeric, corrected_grams numeric, cost numeric, unpriced_grams numeric
		)
		language plpgsql stable as $$
		begin
			if last - first > 40 then
				perform pg_sleep(20);
			end if;
			return query select * from fast_ledger_usage(tenant, first, last, zone, only_printer);
		end $$`)
	var spool string
	err := d.Write(ctx, db.SQL(`insert into spools (id, material_type, color, diameter_mm, net_weight_grams,
		remaining_weight_grams) values (uuid_v7(), 'PLA', 'Black', 1.75, 1000, 1000) returning id::text`).Into(&spool))
	testkit.Check(t, err)
	now := time.Now().UTC()
	for _, days := range []int{100, 50, 1} {
		c.AddUsage(t, spool, "deducted", float64(days), now.AddDate(0, 0, -days))
	}
	c.Get(t, "/api/v1/reports/usage?from="+now.AddDate(0, 0, -200).Format(time.DateOnly)).Want(200).
		Shows(map[string]string{"grams": "151"})
}
