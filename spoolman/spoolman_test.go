package spoolman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	spools  = "/api/v1/spools"
	surface = "/spoolman/api/v1/"
)

// start starts a service with the surface.
func start(t *testing.T) *testkit.API {
	t.Helper()
	return startOn(t, nil)
}

// startOn starts a service with the surface on a database, or on that of the tests if it is nil.
func startOn(t *testing.T, d *db.DB) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{DB: d, Change: func(c *server.Config) {
		s := spoolman.Surface(c.DB)
		ctx, stop := context.WithCancel(context.Background())
		t.Cleanup(stop)
		t.Cleanup(s.Close)
		go s.Run(ctx)
		c.Surfaces = []server.Surface{s}
	}}, testkit.Features...)
}

// printer is a client with an API key.
type printer struct {
	url, key string
	operator *testkit.Client
}

// newPrinter creates a tenant and returns a client with a key of the role.
func newPrinter(t *testing.T, api *testkit.API, role string) *printer {
	t.Helper()
	tenant := api.Tenant(t)
	return &printer{api.URL, keyOf(t, tenant, role), tenant.User(t, "operator")}
}

func keyOf(t *testing.T, tenant *testkit.Tenant, role string) string {
	t.Helper()
	return tenant.User(t, "admin").Post(t, "/api/v1/api-keys", j{"name": role, "role": role}).Want(201).Text("key")
}

type answer struct {
	status int
	header http.Header
	body   string
	broken error // why the body is not complete
}

// do sends a request with Basic authentication, without a Content-Type. The body is JSON text.
func (p *printer) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequest(method, p.url+surface+path, strings.NewReader(body))
	testkit.Check(t, err)
	if p.key != "" {
		r.SetBasicAuth("x", p.key)
	}
	a, err := http.DefaultClient.Do(r)
	testkit.Check(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return answer{a.StatusCode, a.Header, string(text), err}
}

// want sends a request and fails the test unless the response has the status, is JSON, and contains the texts.
func (p *printer) want(t testing.TB, method, path, body string, status int, contains ...string) answer {
	t.Helper()
	a := p.do(t, method, path, body)
	if a.status != status || !json.Valid([]byte(a.body)) ||
		status >= 400 && !strings.HasPrefix(a.body, `{"message":`) {
		t.Errorf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	compact := strings.ReplaceAll(a.body, `": `, `":`)
	for _, text := range contains {
		if !strings.Contains(compact, text) {
			t.Errorf("%s %s %s: %s, want %s", method, path, body, a.body, text)
		}
	}
	if strings.Contains(compact, ":null") {
		t.Errorf("%s %s: null in %s", method, path, a.body)
	}
	return a
}

// add creates a spool of 1 kg and returns its path in the API.
func (p *printer) add(t testing.TB, fields j) string {
	t.Helper()
	body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	for name, value := range fields {
		body[name] = value
	}
	return spools + "/" + p.operator.Post(t, spools, body).Want(201).ID()
}

// wantLedger compares the ledger, oldest first, as "kind before after shortfall".
func (p *printer) wantLedger(t testing.TB, path string, want ...string) {
	t.Helper()
	var page struct{ Items []map[string]any }
	a := p.operator.Get(t, path+"/usage?limit=100").Want(200)
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	testkit.Check(t, d.Decode(&page))
	var got []string
	for _, e := range page.Items {
		text := fmt.Sprint(e["kind"], " ", e["before_grams"], " ", e["after_grams"])
		if s := e["shortfall_grams"]; s != nil {
			text += fmt.Sprint(" ", s)
		}
		got = append([]string{text}, got...)
	}
	testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "the ledger")
}

// A client can give a spool at most its initial weight. It can send a spool back that has more.
func TestFullSpools(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	p.operator.Patch(t, path, j{"remaining_weight_grams": 1050}).Want(200)
	for _, step := range []struct{ body, remaining string }{
		{`{"remaining_weight": 1050, "initial_weight": 1000}`, "1050"},
		{`{"remaining_weight": 1049}`, "1000"},
		{`{"remaining_weight": 900, "initial_weight": 800}`, "800"},
		{`{"remaining_weight": 850, "initial_weight": 1000}`, "850"},
	} {
		p.want(t, "PATCH", "spool/1", step.body, 200, `"remaining_weight":`+step.remaining+`,`)
	}
	p.wantLedger(t, path, "created 0 1000", "edited 1000 1050", "edited 1050 1000", "edited 1000 800", "edited 800 850")
	filament := p.want(t, "GET", "spool/1", "", 200).body
	p.want(t, "POST", "spool", `{"filament_id": `+at(t, filament, "filament.id")+`, "initial_weight": 500,
		"remaining_weight": 600}`, 200, `"remaining_weight":500`, `"used_weight":0`)
}

// Reports of a printer change the spool and are one entry of the ledger until something else changes the spool.
func TestReports(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 200, `"remaining_weight":990`, `"used_weight":10`)
	p.want(t, "PUT", "spool/1/use", `"{\"use_weight\": 5.5}"`, 200, `"remaining_weight":984.5`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": -0.5}`, 200, `"remaining_weight":985`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 0}`, 200, `"remaining_weight":985`)
	p.wantLedger(t, path, "created 0 1000", "printed 1000 985 0")
	p.operator.Post(t, path+"/deduct", j{"weight_grams": 85}).Want(200)
	// 1 m of 1.75 mm PLA: pi / 4 x 1.75^2 x 1000 x 1.24 / 1000
	p.want(t, "PUT", "spool/1/use", `{"use_length": 1000}`, 200, `"remaining_weight":897.01745`)
	p.operator.Patch(t, path, j{"location": "Shelf"}).Want(200)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 7.01745}`, 200, `"remaining_weight":890`, `"location":"Shelf"`)
	p.wantLedger(t, path, "created 0 1000", "printed 1000 985 0", "deducted 985 900", "printed 900 897.01745 0",
		"printed 897.01745 890 0")

	// More than is left: 0 g, and a correction first reduces the shortfall.
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 900}`, 200, `"remaining_weight":0`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 5}`, 200, `"remaining_weight":0`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": -25}`, 200, `"remaining_weight":10`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 30}`, 200, `"remaining_weight":0`)
	p.wantLedger(t, path, "created 0 1000", "printed 1000 985 0", "deducted 985 900", "printed 900 897.01745 0",
		"printed 897.01745 0 20")
	// A spool does not get fuller than full.
	p.want(t, "PUT", "spool/1/use", `{"use_weight": -100000}`, 200, `"remaining_weight":1000`)
	// One that is fuller than full loses what was used.
	p.operator.Patch(t, path, j{"remaining_weight_grams": 1050}).Want(200)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200, `"remaining_weight":1049`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": -10}`, 200, `"remaining_weight":1050`)
	entry := p.operator.Get(t, path+"/usage?limit=1").Want(200)
	if entry.Text("items.0.api_key_id") == "null" || entry.Text("items.0.user_id") != "null" {
		t.Errorf("the entry names %s", entry.Body)
	}

	for body, status := range map[string]int{`{}`: 400, `{"use_weight": 1, "use_length": 1}`: 400, `[]`: 400,
		`{"use_weight"`:       400,
		`{"use_weight": "x"}`: 422, `{"use_length": 1e400}`: 422, "\xff": 400} {
		p.want(t, "PUT", "spool/1/use", body, status)
	}
	p.want(t, "PUT", "spool/2/use", `{"use_weight": 1}`, 404)
	p.want(t, "PUT", "spool/99999999999/use", `{"use_weight": 1}`, 422)
	p.add(t, j{"density_g_cm3": 2.48}) // twice that of PLA
	p.want(t, "PUT", "spool/2/use", `{"use_length": 1000}`, 200, `"remaining_weight":994.0349`)
}

// Archived and empty spools accept reports, hidden ones do not exist. Another key starts another entry, and so does an
// entry that is older than an hour or, after a clock jumped back, in the future.
func TestReportsOfOtherSpools(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	second := &printer{api.URL, keyOf(t, tenant, "printer"), p.operator}
	archived, empty := p.add(t, j{"archived": true}), p.add(t, j{"remaining_weight_grams": 0})
	hidden := p.add(t, nil)
	p.operator.Delete(t, hidden).Want(204)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200, `"archived":true`)
	second.want(t, "PUT", "spool/1/use", `{"use_weight": 2}`, 200)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 3}`, 200)
	p.wantLedger(t, archived, "created 0 1000", "printed 1000 999 0", "printed 999 997 0", "printed 997 994 0")
	p.want(t, "PUT", "spool/2/use", `{"use_weight": 4}`, 200, `"remaining_weight":0`)
	p.wantLedger(t, empty, "created 0 0", "printed 0 0 4")
	p.want(t, "PUT", "spool/3/use", `{"use_weight": 1}`, 404)

	conn := superuser(t)
	for _, age := range []string{"61 minutes", "-2 hours"} {
		before := p.operator.Get(t, archived+"/usage").Text("total")
		if _, err := conn.Exec(t.Context(), `
			update spool_usage set created_at = created_at - $2::text::interval where tenant_id = $1`,
			tenant.ID, age); err != nil {
			t.Fatal(err)
		}
		p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
		if after := p.operator.Get(t, archived+"/usage").Text("total"); after == before {
			t.Errorf("a report was added to an entry that is %s old", age)
		}
	}
}

// The report that empties a spool sends an event, and later ones do not.
func TestReportEmptiesSpool(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	admin := tenant.User(t, "admin")
	hook := "/api/v1/webhooks/" + admin.Post(t, "/api/v1/webhooks",
		j{"url": "https://hooks.example", "events": []string{"spool.*"}}).Want(201).ID()
	path := p.add(t, j{"remaining_weight_grams": 10})
	for _, sent := range []string{"0", "1", "1"} {
		p.uses(t, 1, 6)
		admin.Get(t, hook+"/deliveries").Want(200).Shows(map[string]string{"total": sent})
	}
	p.wantLedger(t, path, "created 0 10", "printed 10 0 8")
}

// Concurrent reports of two printers with one key, and deductions, add up.
func TestConcurrentReports(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	testkit.Concurrently(3, func(n int) {
		for range 30 {
			if n == 0 {
				p.operator.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
			} else {
				p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
			}
		}
	})
	p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "910"})
	var sum string
	err := p.operator.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: p.operator.Actor.Tenant}),
		db.SQL(`select trim_scale(sum(spool_usage.change_grams))::text from spool_usage`).Into(&sum))
	if err != nil || sum != "910" {
		t.Errorf("the ledger's sum is %s: %v", sum, err)
	}
}

// An equal report is a repetition if another process got the first one, or if it has the token of the first one. A
// process knows the reports that it got itself.
func TestTokensOfReports(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	ctx := db.As(t.Context(), db.Actor{Tenant: p.operator.Actor.Tenant})
	const content = 7 << 32
	for _, report := range []struct {
		token  int64
		window any
		left   string
	}{
		{content | 1<<16 | 1, nil, "990"},
		{content | 1<<16 | 1, 0, "990"},   // the same request
		{content | 1<<16 | 2, 5.0, "980"}, // another one of the same process
		{content | 2<<16 | 1, 5.0, "980"}, // the request before, repeated to another process
		{content | 2<<16 | 2, nil, "970"}, // another one
		{8<<32 | 3<<16 | 1, 5.0, "960"},   // with another content
	} {
		err := p.operator.API.DB.Write(ctx, db.SQL(`select spool from report_use(1, 10, null, $1::int8, $2::float8)`,
			report.token, report.window))
		testkit.Check(t, err)
		p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": report.left})
	}
}

// inTime calls try until it takes less than 5 seconds, and fails the test if that call returns a problem. Later, an
// equal report is not a repeated one, and a report does not wait for a lock any more.
func inTime(t *testing.T, try func() (problem string)) {
	t.Helper()
	testkit.Eventually(t, "reports take less than 5 seconds", func() bool {
		begin := time.Now()
		problem := try()
		if time.Since(begin) >= 5*time.Second {
			return false
		}
		if problem != "" {
			t.Error(problem)
		}
		return true
	})
}

// A report with an Idempotency-Key counts once. So does one that a client repeats after it did not get the answer.
func TestRepeatedReports(t *testing.T) {
	t.Parallel()
	var served, awaited atomic.Int64 // requests in progress, and those of them whose clients wait for the answer
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		s := spoolman.Surface(c.DB)
		serve := s.Serve
		s.Serve = func(w http.ResponseWriter, r *http.Request, caller server.Caller) error {
			served.Add(1)
			defer served.Add(-1)
			awaited.Add(1)
			stop := context.AfterFunc(r.Context(), func() { awaited.Add(-1) })
			defer func() {
				if stop() {
					awaited.Add(-1)
				}
			}()
			return serve(w, r, caller)
		}
		c.Surfaces = []server.Surface{s}
	}}, testkit.Features...)
	p := newPrinter(t, api, "printer")
	path := p.add(t, nil)
	send := func(ctx context.Context, key, body string) (int, error) {
		r, _ := http.NewRequestWithContext(ctx, "PUT", p.url+surface+"spool/1/use", strings.NewReader(body))
		r.Header.Set("X-API-Key", p.key)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		a.Body.Close()
		return a.StatusCode, nil
	}
	for range 3 {
		if status, err := send(t.Context(), "one", `{"use_weight": 1}`); status != 200 {
			t.Errorf("%d %v", status, err)
		}
	}
	if status, err := send(t.Context(), "one", `{"use_weight": 2}`); status != 409 {
		t.Errorf("another report with the key: %d %v", status, err)
	}
	p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "999"})

	conn := superuser(t)
	for _, left := range []string{"999", "998"} { // 23 hours later, and 46
		if _, err := conn.Exec(t.Context(), `update idempotency_keys set created_at = created_at - interval '23 hours'
			where tenant_id = $1`, p.operator.Actor.Tenant); err != nil {
			t.Fatal(err)
		}
		if status, err := send(t.Context(), "one", `{"use_weight": 1}`); status != 200 {
			t.Errorf("%d %v", status, err)
		}
		p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": left})
	}
	left := func() string { t.Helper(); return p.operator.Get(t, path).Want(200).Text("remaining_weight_grams") }
	// begin locks the spool, so that reports wait until h.Commit. It returns a report that is equal to no earlier one,
	// and what is left if it counts once.
	grams := 10
	begin := func() (h *testkit.Holder, report, once string) {
		t.Helper()
		before, err := strconv.Atoi(left())
		testkit.Check(t, err)
		grams++
		h = p.operator.Hold(t, `select from spools where tenant_id = '`+p.operator.Actor.Tenant+`' for update`)
		return h, fmt.Sprintf(`{"use_weight": %d}`, grams), fmt.Sprint(before - grams)
	}
	// leave sends a report, whose client goes away when n reports wait for h. It returns when the service has noticed
	// that.
	leave := func(h *testkit.Holder, n int, report string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := h.Start(n, func() { send(ctx, "", report) })
		cancel()
		<-done
		testkit.Eventually(t, "no client waits", func() bool { return awaited.Load() == 0 })
	}
	// ended returns when the service has answered all reports, also those whose clients are gone.
	ended := func() {
		t.Helper()
		testkit.Eventually(t, "no report is in progress", func() bool { return served.Load() == 0 })
	}

	// Of several tries at the same time, of which all clients but the last are gone, one counts.
	for _, gone := range []int{1, 2} {
		inTime(t, func() string {
			h, report, once := begin()
			for n := range gone {
				leave(h, n+1, report)
			}
			var status int
			var err error
			done := h.Start(gone+1, func() { status, err = send(t.Context(), "", report) })
			h.Commit()
			<-done
			ended()
			if got := left(); status != 200 || got != once {
				return fmt.Sprintf("the repeated report: %d %v, left %s, want %s", status, err, got, once)
			}
			return ""
		})
	}

	// A try of which the client is gone takes effect before the next one begins.
	inTime(t, func() string {
		h, report, once := begin()
		leave(h, 1, report)
		h.Commit()
		ended()
		first := left()
		status, err := send(t.Context(), "", report)
		if got := left(); status != 200 || first != once || got != once {
			return fmt.Sprintf("the repeated report: %d %v, left %s and then %s, want %s", status, err, first, got, once)
		}
		return ""
	})

	p.operator.Patch(t, path, j{"remaining_weight_grams": 989}).Want(200)
	// Equal reports that were answered count each time.
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 200, `"remaining_weight":979`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 200, `"remaining_weight":969`)
}

// The first report of a key on a spool that an instance gets is ignored if another instance added an equal one in the
// last 5 seconds, whose answer may be lost. All others count.
func TestReportsRepeatedToAnotherInstance(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	first := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	another := func() *printer { return &printer{start(t).URL, first.key, first.operator} }
	path := first.add(t, nil)
	first.add(t, nil)
	conn := superuser(t)
	left := 1000.0
	// use sends a report of the grams, and sets left.
	use := func(p *printer, grams float64) {
		t.Helper()
		var spool struct {
			Left float64 `json:"remaining_weight"`
		}
		a := p.want(t, "PUT", "spool/1/use", fmt.Sprintf(`{"use_weight": %v}`, grams), 200)
		testkit.Check(t, json.Unmarshal([]byte(a.body), &spool))
		left = spool.Left
	}
	counts := func(p *printer, grams float64) {
		t.Helper()
		want := left - grams
		use(p, grams)
		testkit.Equal(t, left, want, "what is left after a report of %v g", grams)
	}
	// repeats sends a report of 10 g, and returns a problem unless it is ignored.
	repeats := func(p *printer) (problem string) {
		t.Helper()
		want := left
		if use(p, 10); left != want {
			problem = fmt.Sprintf("%v g are left after a repeated report, want %v", left, want)
		}
		return problem
	}
	var second *printer
	inTime(t, func() string {
		second = another()
		counts(first, 10)
		return repeats(second)
	})
	counts(second, 10) // further ones count, and go to either instance
	counts(first, 10)
	counts(second, 10)
	second.want(t, "PUT", "spool/2/use", `{"use_weight": 10}`, 200, `"remaining_weight":990`)
	counts(another(), 20) // other content

	inTime(t, func() string {
		counts(first, 10)
		first.operator.Post(t, path+"/deduct", j{"weight_grams": 30}).Want(200)
		left -= 30
		return repeats(another()) // although something else has changed the spool
	})
	ofOther := &printer{another().url, keyOf(t, tenant, "printer"), first.operator}
	counts(ofOther, 10) // of another key

	counts(first, 10)
	if _, err := conn.Exec(t.Context(), `update spool_usage set updated_at = updated_at - interval '5 seconds'
		where tenant_id = $1`, tenant.ID); err != nil {
		t.Fatal(err)
	}
	counts(another(), 10) // too late

	// The entry that the first try was added to may be older.
	if _, err := conn.Exec(t.Context(), `update spool_usage set created_at = created_at - interval '50 minutes'
		where tenant_id = $1`, tenant.ID); err != nil {
		t.Fatal(err)
	}
	fourth := another()
	counts(fourth, 1)
	inTime(t, func() string {
		counts(fourth, 10)
		return repeats(another())
	})

	// An instance still takes it for a repetition if its own first try failed.
	inTime(t, func() string {
		third := another()
		counts(fourth, 10)
		first.operator.Delete(t, path).Want(204)
		third.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 404)
		first.operator.Post(t, path+"/restore", nil).Want(200)
		return repeats(third)
	})
}

// A report that is rejected because the spool was removed does not use its key: sent again, it takes effect.
func TestKeyOfRejectedReport(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	use := func(want int) {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), "PUT", p.url+surface+"spool/1/use",
			strings.NewReader(`{"use_weight": 10}`))
		r.Header.Set("X-API-Key", p.key)
		r.Header.Set("Idempotency-Key", "once")
		a, err := http.DefaultClient.Do(r)
		testkit.Check(t, err)
		a.Body.Close()
		testkit.Equal(t, a.StatusCode, want, "the status")
	}
	p.operator.Delete(t, path).Want(204)
	use(404)
	p.operator.Post(t, path+"/restore", nil).Want(200)
	use(200)
	p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "990"})
}

// While the spool is removed and restored, exactly the reports that are answered with 200 take effect.
func TestReportsWhileRestored(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	var ended atomic.Bool
	var toggling, reporting sync.WaitGroup
	toggling.Go(func() {
		for !ended.Load() {
			for _, request := range [][2]string{{"DELETE", path}, {"POST", path + "/restore"}} {
				if a, err := p.operator.Send(request[0], request[1], nil); err != nil || a.Status >= 300 {
					t.Errorf("%v: %v %+v", request, err, a)
					return
				}
			}
		}
	})
	var used atomic.Int64
	for range 4 {
		reporting.Go(func() {
			for range 100 {
				switch a := p.do(t, "PUT", "spool/1/use", `{"use_weight": 1}`); a.status {
				case 200:
					used.Add(1)
				case 404:
				default:
					t.Errorf("%+v", a)
				}
			}
		})
	}
	reporting.Wait()
	ended.Store(true)
	toggling.Wait()
	p.operator.Get(t, path).Want(200).
		Shows(map[string]string{"remaining_weight_grams": fmt.Sprint(1000 - used.Load())})
}

// Changes of spools through the surface make stock levels low, and fine again.
func TestStockLevels(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.want(t, "POST", "filament", `{"material": "PLA", "density": 1.24, "diameter": 1.75}`, 200)
	p.add(t, j{"spool_weight_grams": 200})
	level := "/api/v1/stock-levels/" + p.operator.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA",
		"minimum_grams": 900}).Want(201).Shows(map[string]string{"low": "false"}).ID()
	for n, step := range []struct{ method, path, body string }{
		{"PUT", "spool/1/use", `{"use_weight": 101}`}, {"PUT", "spool/1/use", `{"use_weight": -91}`},
		{"PUT", "spool/1/use", `{"use_length": 50000}`}, {"PATCH", "spool/1", `{"remaining_weight": 990}`},
		{"PATCH", "spool/1", `{"used_weight": 101}`}, {"PATCH", "spool/1", `{"used_weight": 0}`},
		{"PATCH", "spool/1", `{"archived": true}`}, {"PATCH", "spool/1", `{"archived": false}`},
		{"PUT", "spool/1/measure", `{"weight": 1099}`}, {"PUT", "spool/1/measure", `{"weight": 1190}`},
		{"DELETE", "spool/1", ""}, {"POST", "spool", `{"filament_id": 1}`},
	} {
		p.want(t, step.method, step.path, step.body, 200)
		if got := p.operator.Get(t, level).Want(200).Text("low"); got != fmt.Sprint(n%2 == 0) {
			t.Fatalf("after %s %s: low is %s", step.method, step.body, got)
		}
	}
}
