package blackbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// followed is the data of an event of the stream.
type followed struct {
	Reset            bool
	Changed, Deleted []struct{ Resource, ID string }
}

// has reports whether the event has a resource among those that changed or, with deleted, were deleted.
func (f followed) has(resource, id string, deleted bool) bool {
	list := f.Changed
	if deleted {
		list = f.Deleted
	}
	return slices.Contains(list, struct{ Resource, ID string }{resource, id})
}

// stream is an open stream of a client.
type stream struct {
	*http.Response
	lines *bufio.Scanner
	last  string // the id of the last event
	end   func()
}

// follow opens a stream, after the event with the id last, unless it is empty.
func follow(t *testing.T, c *testkit.Client, last string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", c.API.URL+"/api/v1/stream", nil)
	check(t, err)
	maps.Copy(r.Header, c.Header)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(r)
	check(t, err)
	return &stream{response, bufio.NewScanner(response.Body), last, cancel}
}

// next returns the next event. ok is false at the end of the stream.
func (s *stream) next() (e followed, ok bool) {
	for s.lines.Scan() {
		name, text, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			s.last = text
		case "data":
			return e, json.Unmarshal([]byte(text), &e) == nil
		}
	}
	return e, false
}

// until reads events until one has the resource, and fails the test after half a minute.
func (s *stream) until(t *testing.T, resource, id string, deleted bool) {
	t.Helper()
	begin := time.Now()
	late := time.AfterFunc(30*time.Second, s.end)
	defer late.Stop()
	for {
		e, ok := s.next()
		if !ok {
			t.Fatalf("the stream has no %s %s", resource, id)
		}
		if e.has(resource, id, deleted) {
			break
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Logf("%s arrived after %v", resource, took)
	}
}

// The stream tells what any instance changes in the tenant, and what is deleted for good, to users and API keys of all
// roles but printers. It is bounded, continues after the last event, and ends with the access of its caller.
func TestFollow(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	second := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	user, key, other := tenant.User(t, "operator"), tenant.Key(t, "viewer"), api.Operator(t)
	elsewhere := second.TenantOf(tenant.ID).User(t, "operator")
	s, foreign := follow(t, key, ""), follow(t, other, "")
	if e, ok := s.next(); !ok || e.Reset || len(e.Changed)+len(e.Deleted) > 0 || s.last == "" {
		t.Fatalf("the first event is %v, id %q", e, s.last)
	}
	spool := elsewhere.NewSpool(t, 500, nil)
	s.until(t, "spools", spool, false)
	elsewhere.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 1}).Want(200)
	s.until(t, "spools", spool, false)
	vendor := elsewhere.Post(t, "/api/v1/vendors", j{"name": "v"}).Want(201).ID()
	s.until(t, "vendors", vendor, false)
	elsewhere.Delete(t, "/api/v1/vendors/"+vendor).Want(204)
	s.until(t, "vendors", vendor, true)
	run := user.Post(t, "/api/v1/production-runs", j{}).Want(201).ID()
	s.until(t, "production-runs", run, false)

	// What happens while the client is away.
	last := s.last
	s.end()
	user.Delete(t, "/api/v1/production-runs/"+run).Want(204)
	user.Delete(t, "/api/v1/spools/"+spool).Want(204)
	s = follow(t, elsewhere, last)
	if e, _ := s.next(); !e.has("production-runs", run, true) || !e.has("spools", spool, false) || e.Reset {
		t.Errorf("after the last event: %v", e)
	}
	old := follow(t, user, time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339))
	if e, _ := old.next(); !e.Reset {
		t.Errorf("after a day: %v", e)
	}
	ahead := follow(t, user, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	if e, _ := ahead.next(); !e.Reset {
		t.Errorf("after an event in the future: %v", e)
	}
	user.With("Last-Event-ID", "1").Get(t, "/api/v1/stream").Fields("Last-Event-ID")
	tenant.Key(t, "printer").Get(t, "/api/v1/stream").WantError(403, "FORBIDDEN")
	api.Anonymous().Get(t, "/api/v1/stream").Want(401)
	head, err := user.Send("HEAD", "/api/v1/stream", nil) // which ends
	check(t, err)
	testkit.Equal(t, head.Status, 200, "HEAD")

	// The other tenant has seen nothing.
	mark := other.Post(t, "/api/v1/vendors", j{"name": "mark"}).Want(201).ID()
	for {
		e, ok := foreign.next()
		if !ok || len(e.Deleted) > 0 || len(e.Changed) > 0 && !e.has("vendors", mark, false) {
			t.Fatalf("the stream of another tenant has %v", e)
		}
		if len(e.Changed) > 0 {
			break
		}
	}

	// Access ends.
	admin := tenant.User(t, "admin")
	admin.Delete(t, "/api/v1/users/"+user.Actor.User).Want(204)
	for _, ok := old.next(); ok; _, ok = old.next() {
	}
	opens := func(c *testkit.Client) (n int) {
		for range 20 {
			if response := follow(t, c, ""); response.StatusCode != 200 {
				testkit.Equal(t, response.StatusCode, 429, "too many streams")
				break
			}
			n++
		}
		return n
	}
	testkit.Equal(t, opens(tenant.Key(t, "viewer")), 5, "streams of an API key")
	if n := opens(tenant.Key(t, "viewer")) + opens(tenant.Key(t, "viewer")); n > 5 {
		t.Errorf("the tenant has %d more streams", n)
	}
}

// A stream of a user ends with the access token of its request.
func TestStreamEndsWithToken(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	api := testkit.New(t, testkit.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }},
		testkit.Features...)
	s := follow(t, api.Operator(t), "")
	late := time.AfterFunc(30*time.Second, s.end)
	s.next()
	ahead.Store(int64(24 * time.Hour))
	for _, ok := s.next(); ok; _, ok = s.next() {
	}
	if !late.Stop() {
		t.Error("the stream goes on")
	}
}

// mirror is a copy of lists that follows a farm.
type mirror struct {
	t      *testing.T
	copies map[string]map[string]string // by list and id
	last   string
	from   map[string]time.Time // the times of the last answers
}

var mirrored = []string{"spools", "orders", "production-runs"}

// read reads a list into the copy: what has changed since a minute before the last answer, or all.
func (m *mirror) read(c *testkit.Client, list string) {
	query, begin := "?limit=100&archived=any", time.Now()
	if list != "spools" {
		query = "?limit=100"
	}
	if from := m.from[list]; !from.IsZero() {
		query += "&hidden=any&updated_from=" + url.QueryEscape(from.Add(-time.Minute).Format(time.RFC3339Nano))
	}
	got, after := map[string]string{}, ""
	for {
		a := c.Get(m.t, "/api/v1/"+list+query+after).Want(200)
		for _, item := range a.List("items") {
			item := item.(map[string]any)
			got[item["id"].(string)] = ownFields(item)
		}
		if a.Value("next") == nil {
			break
		}
		after = "&after=" + a.Text("next")
	}
	if m.from[list].IsZero() {
		m.copies[list] = map[string]string{}
	}
	maps.Copy(m.copies[list], got)
	m.from[list] = begin
}

// ownFields returns the JSON of an item without what is computed from other resources.
func ownFields(item map[string]any) string {
	for _, name := range []string{"ready_at", "produced", "value", "items", "materials", "orders", "print"} {
		delete(item, name)
	}
	text, _ := json.Marshal(item)
	return string(text)
}

// follow follows the farm at the clients, which are those of instances, by turns. After done is closed, it connects
// once more.
func (m *mirror) follow(done chan bool, clients ...*testkit.Client) {
	for n, last := 0, false; !last; n++ {
		select {
		case <-done:
			last = true
		default:
		}
		c := clients[n%len(clients)]
		s := follow(m.t, c, m.last)
		kill := time.AfterFunc(rand.N(3*time.Second), s.end)
		for e, ok := s.next(); ok; e, ok = s.next() {
			m.apply(c, e)
			if m.last = s.last; last {
				break
			}
		}
		if !kill.Stop() && last {
			last = false
		}
		s.end()
	}
}

// apply reads what an event says has changed.
func (m *mirror) apply(c *testkit.Client, e followed) {
	again := map[string]bool{}
	for _, it := range e.Changed {
		again[it.Resource] = true
	}
	for _, list := range mirrored {
		if e.Reset {
			delete(m.from, list)
		}
		if again[list] || m.from[list].IsZero() {
			m.read(c, list)
		}
	}
	for _, it := range e.Deleted {
		delete(m.copies[it.Resource], it.ID)
	}
}

// A client that keeps a copy of spools, orders and runs, by the stream and updated_from, has what the farm has after a
// storm of writes and removals by several clients, although its connections break.
func TestMirror(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	second := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	viewer, key := tenant.Key(t, "viewer"), second.TenantOf(tenant.ID).Key(t, "viewer")
	product := tenant.User(t, "operator").NewProduct(t, "Hook", 10)
	m := &mirror{t: t, copies: map[string]map[string]string{}, from: map[string]time.Time{}}
	storm := func(c *testkit.Client) {
		ids := map[string][]string{}
		for range testkit.InRigs(80, 800) {
			list := mirrored[rand.N(len(mirrored))]
			if len(ids[list]) == 0 || rand.N(4) == 0 {
				body := map[string]j{"orders": {"items": []j{{"product_id": product, "quantity": 2}}},
					"spools": {"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 500}}[list]
				if list == "production-runs" {
					if body = (j{"items": []j{{"product_id": product}}}); len(ids["spools"]) > 0 {
						body["materials"] = []j{{"spool_id": ids["spools"][0], "actual_weight_grams": 5}}
					}
				}
				if a, err := c.Send("POST", "/api/v1/"+list, body); err == nil && a.Status == 201 {
					ids[list] = append(ids[list], testkit.NewResponse(t, a.Body).ID())
				}
				continue
			}
			at := "/api/v1/" + list + "/" + ids[list][rand.N(len(ids[list]))]
			method, path, body := "POST", at, j{}
			switch rand.N(5) {
			case 0:
				c.Send("DELETE", at, nil)
			case 1:
				c.Send("POST", at+"/restore", nil)
			case 2:
				c.Send("PATCH", at, j{"notes": fmt.Sprint(rand.Int())})
			default:
				switch list {
				case "spools":
					path, body = at+"/deduct", j{"weight_grams": 1}
				case "orders":
					method, body = "PATCH", j{"customer": fmt.Sprint(rand.Int())}
				default:
					path = at + "/complete"
				}
				c.Send(method, path, body)
			}
		}
	}
	var writers sync.WaitGroup
	for n := range 4 {
		c := []*testkit.API{api, second}[n%2].TenantOf(tenant.ID).User(t, "operator")
		writers.Go(func() { storm(c) })
	}
	done := make(chan bool)
	go func() { writers.Wait(); close(done) }()
	m.follow(done, viewer, key)
	farm := &mirror{t: t, copies: map[string]map[string]string{}, from: map[string]time.Time{}}
	for _, list := range mirrored {
		farm.copies[list], farm.from[list] = map[string]string{}, time.Unix(1e9, 0)
		farm.read(viewer, list)
		for id, text := range farm.copies[list] {
			if m.copies[list][id] == "" && !strings.Contains(text, `"hidden_at":null`) {
				delete(farm.copies[list], id) // removed before the copy began
			} else if m.copies[list][id] != text {
				t.Errorf("%s: the copy has %s, the farm %s", list, m.copies[list][id], text)
			}
		}
		if t.Logf("%d %s", len(farm.copies[list]), list); len(m.copies[list]) != len(farm.copies[list]) {
			t.Errorf("the copy has %d %s, the farm %d", len(m.copies[list]), list, len(farm.copies[list]))
		}
	}
}
