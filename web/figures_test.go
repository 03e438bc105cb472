package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// The form of a failure proposes the grams of the time that has passed, unless printers reported some.
func TestProposedWaste(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	for _, test := range []struct {
		hours   any
		ago     time.Duration
		pending bool
		want    string
	}{
		{10, 150 * time.Minute, false, "20"}, // a quarter of 80 g
		{1, 50 * time.Hour, false, "80"},     // all at most
		{nil, time.Hour, false, ""},
		{10, 0, true, ""},
	} {
		body := j{"estimated_print_time_hours": test.hours,
			"materials": []j{{"spool_id": spool, "estimated_weight_grams": 80}}}
		if !test.pending {
			body["status"], body["started_at"] = "in_progress", time.Now().Add(-test.ago).UTC().Format(time.RFC3339)
		}
		run := "/runs/" + c.Post(t, "/api/v1/production-runs", body).Want(201).ID()
		p := b.get(t, run).want(t, 200)
		for _, form := range []string{"/fail", "/cancel"} {
			testkit.Equal(t, p.form(t, run+form).Get("materials[0].wasted_grams"), test.want, "%v: %s", test, form)
		}
		if test.want != "" {
			p.shows(t, "% of the estimated time has passed: about "+test.want+" g of 80 g may be used.")
		}
	}
	reported := "/runs/" + c.Post(t, "/api/v1/production-runs", j{"status": "in_progress",
		"estimated_print_time_hours": 1, "started_at": "2024-01-15T10:00:00Z",
		"materials": []j{{"spool_id": spool, "estimated_weight_grams": 80,
			"actual_weight_grams": 5}}}).Want(201).ID()
	b.get(t, reported).submit(t, reported+"/cancel", "materials[0].wasted_grams", "3").to(t, reported).
		shows(t, "Cancelled", "3 g")
}

// Reports lead to usual periods, have rows for days without use, and say how long filament lasts.
func TestPeriodsOfReports(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 10_000, j{"net_weight_grams": 10_000})
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 1}).Want(200)
	now := time.Now().UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, path := range []string{"/reports?by=month", "/reports/margins?by=month"} {
		p := b.get(t, path).shows(t, "This month Last month This year Last year")
		base, _, _ := strings.Cut(path, "?")
		for _, span := range []string{
			fmt.Sprintf("from=%s&amp;to=%s", first.Format(time.DateOnly), first.AddDate(0, 1, -1).Format(time.DateOnly)),
			fmt.Sprintf("from=%s&amp;to=%s", first.AddDate(0, -1, 0).Format(time.DateOnly),
				first.AddDate(0, 0, -1).Format(time.DateOnly)),
			fmt.Sprintf("from=%d-01-01&amp;to=%d-12-31", now.Year()-1, now.Year()-1)} {
			link := base + "?by=month&amp;" + span
			testkit.Contains(t, p.text, `href="`+link+`"`, "%s: no link to %s", path, link)
			b.get(t, strings.ReplaceAll(link, "&amp;", "&")).want(t, 200)
		}
	}
	b.get(t, "/reports").shows(t, "10 kg over a year")
	days := b.get(t, "/reports?by=day").shows(t, now.AddDate(0, 0, -1).Format(time.DateOnly)+" 0 g")
	if n := strings.Count(days.text, `class="use"`); n != 30 {
		t.Errorf("%d rows for 30 days: %s", n, days.words())
	}
	testkit.Equal(t, strings.Count(b.get(t, "/").text, `<rect class="none"`), 29, "bars for 29 days without use")
}

// Reports compare a period with the one before, draw the use over time, and lead from a reason of waste to its runs.
func TestReportsCompare(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	for _, use := range []struct {
		day   string
		grams float64
		fails string
	}{{"2024-01-31", 40, "clog"}, {"2024-02-29", 50, "clog"}, {"2024-02-02", 10, ""}, {"2024-01-02", 10, ""}} {
		run := c.Post(t, "/api/v1/production-runs", j{"status": "in_progress", "started_at": use.day + "T08:00:00Z",
			"materials": []j{{"spool_id": spool, "actual_weight_grams": use.grams,
				"estimated_weight_grams": 1}}}).Want(201).ID()
		end, body := "/complete", j{"completed_at": use.day + "T10:00:00Z"}
		if use.fails != "" {
			end, body["reason"] = "/fail", use.fails
		}
		c.Post(t, "/api/v1/production-runs/"+run+end, body).Want(200)
	}
	p := b.get(t, "/reports?from=2024-02-01&to=2024-02-29").shows(t,
		"Filament used 60 g 1.20 · 20 % more than from 2024-01-01 to 2024-01-31 50 g in a day",
		"Waste 50 g 1.00 · 25 % more than from 2024-01-01 to 2024-01-31", "Clog 1 50 g")
	if line := "M0 118L"; !strings.Contains(p.text, line) || strings.Count(p.text, "L") < 28 {
		t.Errorf("no curve of 29 days: %s", p.text)
	}
	testkit.Contains(t, p.text, `href="/runs/all?from=2024-02-01&amp;reason=clog&amp;to=2024-02-29"`,
		"no link to the runs")
	b.get(t, "/runs/all?from=2024-02-01&reason=clog&to=2024-02-29").shows(t, "From 2024-02-01 to 2024-02-29", "All runs", "50 g").hides(t, "40 g")
	b.get(t, "/runs/all?reason=clog").shows(t, "50 g", "40 g").hides(t, "10 g")
	b.get(t, "/runs/all?reason=warping").shows(t, "No run matches.")
	for query, want := range map[string]string{
		"from=2024-02-10&to=2024-02-29": "As much as from 2024-01-21 to 2024-02-09", // as many days
		"from=2024-01-01&to=2024-12-31": "50 g in a week",
		"from=2023-01-01&to=2024-12-31": "60 g in a month",
		"from=2024-02-29&to=2024-02-29": "Filament used 50 g 1.00",
	} {
		b.get(t, "/reports?"+query).shows(t, want)
	}
	b.get(t, "/reports?from=x").want(t, 422)
}

// Rows of orders have what is ordered, the progress and the value, and rows of products the price and the margin.
func TestFiguresInLists(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	c.NewSpool(t, 1000, j{"purchase_price": 20})
	product := c.NewProduct(t, "Stand", 50)
	c.Patch(t, "/api/v1/products/"+product, j{"selling_price": 12.5, "estimated_print_time_minutes": 60}).Want(200)
	c.Post(t, "/api/v1/products", j{"name": "Bag"}).Want(201)
	order, item := c.NewOrder(t, product, 4)
	c.Patch(t, order, j{"reference": "1042", "customer": "Ada", "source": "etsy"}).Want(200)
	run := c.NewRun(t, product, item, 3, nil)
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	p := b.get(t, "/orders").shows(t, "Ada In production · 1042 · etsy 4 × Product Stand In production 3 of 4", "50.00")
	testkit.Contains(t, p.text, `aria-label="Pieces printed: 3 of 4"`, "no bar")
	b.get(t, "/products").shows(t, "Product Stand Stand 3 1 h 12.50 1.00 11.50", "Bag 0 – – 0.00 –",
		"Unknown, and not in the sums: machine, energy, work, failures. Admins set the rates.").hides(t, "not complete")
	b.get(t, "/products/"+product).shows(t, "Admins set the rates.")
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"machine_hour_cost": 2, "energy_kwh_cost": 0,
		"failure_rate_percent": 20}).Want(200)
	b.get(t, "/products").shows(t, "Product Stand Stand 3 1 h 12.50 3.75 8.75", "Bag 0 – – 0.00 not complete –",
		"Unknown, and not in the sums: work. Admins set the rates.")
	b.get(t, "/products?search=nothing").shows(t, "No product matches.").hides(t, "Unknown")
	testkit.Contains(t, b.get(t, "/products/"+product).text, `href="/runs/all?product=`+product+`"`,
		"the page of a product does not lead to its runs")
}
