package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// TestTransactions checks that an event exists exactly if its cause does, and reaches webhooks of its tenant only.
func TestTransactions(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	mine, theirs := receive(t, nil), receive(t, nil)
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	f.webhook(t, admin, mine.URL)
	f.webhook(t, f.Tenant(t).User(t, "admin"), theirs.URL)
	failed := f.webhook(t, admin, theirs.URL)
	admin.Patch(t, hooksPath+failed.ID(), testkit.JSON{"events": []string{"production_run.failed"}}).Want(200)

	operator := tenant.User(t, "operator")
	run := complete(t, operator)
	testkit.Equal(t, testkit.NewResponse(t, mine.wait(t).body).Text("data.id"), run, "the run of the event")
	operator.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
	for range 3 {
		again := operator.With("Idempotency-Key", "complete")
		again.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
	}
	rollback := errors.New("rolled back")
	bound := db.As(t.Context(), db.Actor{Tenant: tenant.ID})
	err := f.DB.Tx(bound, func(ctx context.Context) error {
		emit := db.SQL(`select
			emit_event(event_webhooks('production_run.completed'), 'production_run.completed', '{}')::text`)
		if err := f.DB.Write(ctx, emit); err != nil {
			return err
		}
		return rollback
	})
	if !errors.Is(err, rollback) {
		t.Error(err)
	}
	mine.wantNone(t, 400*time.Millisecond)
	theirs.wantNone(t, 0)
}

// TestEventTime checks how events show times, whatever format the session has.
func TestEventTime(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	bound := db.As(t.Context(), db.Actor{Tenant: f.Tenant(t).ID})
	format := db.SQL(`select set_config('DateStyle', 'German', true), set_config('TimeZone', 'Asia/Tokyo', true)`)
	for _, want := range []string{
		"2024-01-10T00:00:00Z", "2024-01-15T10:20:30Z", "2024-01-15T10:20:30.1Z", "2024-02-29T00:00:00.00001Z",
		"2024-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	} {
		var got string
		err := f.DB.Write(bound, format, db.SQL(`select event_time($1::text::timestamptz)`, want).Into(&got))
		if err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// TestDisabledWebhooks checks that a disabled webhook gets no events, that its pending deliveries fail, and that the
// deliveries of a deleted webhook are deleted.
func TestDisabledWebhooks(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.Schedule = []time.Duration{time.Hour} })
	s := receive(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{"status": "pending", "tries": "1"})
	s.wait(t)
	admin.Patch(t, path, testkit.JSON{"disabled": true}).Want(200).Shows(map[string]string{"disabled_reason": "null"})
	eventually(t, admin, delivery, map[string]string{"status": "failed", "error": "the webhook is disabled"})
	admin.Post(t, path+"/test", nil).WantError(409, "WEBHOOK_DISABLED")
	admin.Post(t, delivery+"/redeliver", nil).WantError(409, "WEBHOOK_DISABLED")
	complete(t, tenant.User(t, "operator"))
	s.wantNone(t, 300*time.Millisecond)
	admin.Get(t, path+"/deliveries").Want(200).
		Shows(map[string]string{"total": "1", "items.0.status": "failed", "items.0.tries": "1"})
	admin.Patch(t, path, testkit.JSON{"disabled": false}).Want(200)
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	s.wait(t)
	admin.Delete(t, path).Want(204)
	f.emptied(t, admin, "webhook_deliveries")
	f.emptied(t, admin, "webhooks")
}

// emptied waits until the tenant has no row in the table.
func (f *farm) emptied(t *testing.T, c *testkit.Client, table string) {
	t.Helper()
	testkit.Eventually(t, table+" is empty", func() bool {
		var n int
		stmt := db.SQL(`select count(*) from ` + table).Into(&n)
		testkit.Check(t, f.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), stmt))
		return n == 0
	})
}

// Ended deliveries are deleted after 30 days, as are those of deleted webhooks. Pending ones which are not in the
// queue are sent.
func TestEndedDeliveriesAreDeleted(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{}), nil)
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	hook := f.webhook(t, admin, s.URL)
	path := hooksPath + hook.ID()
	add := func(status, age string) {
		t.Helper()
		f.sql(t, admin, `
			insert into webhook_deliveries (id, webhook_id, event_id, type, body, status, created_at)
			select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7abc8abc' ||
				lpad(to_hex(n), 12, '0'))::uuid,
				$1, $2, 'webhook.test', '{}', $2, at
			from (select now() - $3::text::interval as at) a, generate_series(1, 1500) n`, hook.ID(), status, age)
	}
	add("delivered", "30 days 1 minute")
	add("failed", "31 days")
	add("delivered", "29 days 23 hours")
	add("failed", "1 minute")
	testkit.Check(t, webhooks.New(f.config).Maintain(t.Context()))
	admin.Get(t, path+"/deliveries").Want(200).Shows(map[string]string{"total": "3000"})

	admin.Post(t, path+"/test", nil).Want(200)
	testkit.ExecURL(t, f.super(t), `update webhook_deliveries set id = '018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a',
		created_at = now() - interval '31 days' where status = 'pending'`) // pending ones are kept
	if _, err := f.DB.Claim(t.Context(), db.Webhook, value.NewID(), 10,
		time.Hour); err != nil { // an instance that never works
		t.Fatal(err)
	}
	for range 2 {
		testkit.Check(t, webhooks.New(f.config).Maintain(t.Context()))
	}
	testkit.ExecURL(t, f.super(t), `update queue_items set leased_until = now()`)
	if claimed, err := f.DB.Claim(t.Context(), db.Webhook, value.NewID(), 10, time.Second); err != nil ||
		len(claimed) != 1 {
		t.Errorf("Maintain queues %v, %v", claimed, err)
	}
	time.Sleep(time.Second) // until the lease ends
	f.run(t, f.config)
	s.wait(t)
	admin.Delete(t, path).Want(204)
	f.emptied(t, admin, "webhook_deliveries")
}

// super returns the superuser's connection string of the farm's database.
func (f *farm) super(t *testing.T) string {
	t.Helper()
	var name string
	stmt := db.SQL(`select current_database()::text`).Into(&name)
	testkit.Check(t, f.DB.Read(db.As(t.Context(), db.Actor{Tenant: value.NewID()}), stmt))
	return strings.Replace(testkit.Private().SuperURL(), "@/spoolwright?", "@/"+name+"?", 1)
}

// Another instance takes over a webhook when the lease of an instance that was killed ends, not earlier.
func TestLeaseOfKilledInstanceEnds(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{}), func(c *webhooks.Config) {
		c.Lease, c.Grace = 2*time.Second, testkit.WaitTimeout // the stop below must record the try, however long it takes
	})
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	admin.Post(t, path+"/test", nil).Want(200)
	killed := value.NewID()
	items, err := f.DB.Claim(t.Context(), db.Webhook, killed, 10, time.Hour)
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	if again, err := f.DB.Claim(t.Context(), db.Webhook, value.NewID(), 10, time.Second); err != nil || len(again) > 0 {
		t.Errorf("a second holder gets %v, %v", again, err)
	}
	bound := db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant})
	var held bool
	renew := db.SQL(`select queue_renew($1, $2, 2)`, items[0].ID, killed).Into(&held)
	begin := time.Now()
	if err := f.DB.Write(bound, renew); err != nil || !held {
		t.Fatalf("the holder does not renew the lease: %v, %v", held, err)
	}
	f.run(t, f.config)
	s.wait(t)
	if took := time.Since(begin); took < 1900*time.Millisecond {
		t.Errorf("the event was sent after %v, while another instance had the lease", took)
	}
	if err := f.DB.Write(bound, renew); err != nil || held {
		t.Errorf("the previous holder renews the lease: %v, %v", held, err)
	}
	// A lease of another tenant cannot be renewed or released.
	f.stop()
	admin.Post(t, path+"/test", nil).Want(200)
	if items, err = f.DB.Claim(t.Context(), db.Webhook, killed, 10, time.Hour); err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	foreign := db.As(t.Context(), db.Actor{Tenant: value.NewID()})
	if err := f.DB.Write(foreign, renew); err != nil || held {
		t.Errorf("another tenant renews the lease: %v, %v", held, err)
	}
	release := db.SQL(`select queue_release($1, $2, 0)`, items[0].ID, killed).Into(&held)
	testkit.Check(t, f.DB.Write(foreign, release))
	if again, err := f.DB.Claim(t.Context(), db.Webhook, value.NewID(), 10, time.Second); err != nil || len(again) > 0 {
		t.Errorf("another tenant releases the lease: %v, %v", again, err)
	}
}

// A delivery that is added while a worker releases its lease is not forgotten, although another claim is merging its
// signal at that moment.
func TestReleaseWaitsForSignal(t *testing.T) {
	t.Parallel()
	for name, due := range map[string]any{"work is left": 60.0, "no work is left": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startWithout(t, testkit.Database(t, db.Config{}), nil)
			admin := f.Tenant(t).User(t, "admin")
			path := hooksPath + f.webhook(t, admin, receive(t, nil).URL).ID()
			holder := value.NewID()
			admin.Post(t, path+"/test", nil).Want(200)
			items, err := f.DB.Claim(t.Context(), db.Webhook, holder, 10, time.Hour)
			if err != nil || len(items) != 1 {
				t.Fatal(items, err)
			}
			admin.Post(t, path+"/test", nil).Want(200)

			// A connection of the service would wait for a lock for five seconds only.
			super, err := pgx.Connect(t.Context(), f.super(t))
			testkit.Check(t, err)
			defer super.Close(context.Background())
			_, err = super.Exec(t.Context(), `select set_config('app.tenant_id', $1, false),
				set_config('lock_timeout', '3min', false)`, admin.Actor.Tenant)
			testkit.Check(t, err)
			claim := admin.Hold(t, `select queue_claim('webhook', uuid_v7(), 0, 60, '{}')`)
			var released bool
			done := claim.StartWaiting(1, func() {
				err = super.QueryRow(t.Context(), `select queue_release($1, $2, $3::float8)`, items[0].ID, holder, due).
					Scan(&released)
			})
			claim.Commit()
			<-done
			if err != nil || released {
				t.Errorf("released: %t, %v; want false, because the webhook has a new delivery", released, err)
			}
		})
	}
}

// A dispatcher without work sends less than one query a second, and a signal wakes it at once.
func TestIdleDispatcherWaits(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	d := testkit.Database(t, db.Config{MaxConns: 8, RoundTrip: func([]db.Statement) { trips.Add(1) }})
	f := startWithout(t, d, func(c *webhooks.Config) { c.Poll = 0 })
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	f.run(t, f.config)
	time.Sleep(500 * time.Millisecond)                                                     // for what the dispatcher does at its start
	testkit.Eventually(t, "less than one round trip a second, without work", func() bool { // Maintain may be late
		begin, before := time.Now(), trips.Load()
		time.Sleep(5 * time.Second) // the time in which the round trips are counted
		return float64(trips.Load()-before) < time.Since(begin).Seconds()
	})
	f.stop()

	c := f.config
	c.Poll = time.Hour // so that only a signal can wake the dispatcher
	f.run(t, c)
	for n := range 10 {
		if n%2 == 0 {
			admin.Post(t, path+"/test", nil).Want(200)
		} else {
			complete(t, admin)
		}
		s.wait(t)
	}
	testkit.Equal(t, len(s.requests()), 10, "requests of 10 events")
	f.stop()

	c.Poll = 20 * time.Millisecond
	f.run(t, c)
	admin.Post(t, path+"/test", nil).Want(200)
	s.wait(t)
	f.stop()
	testkit.Eventually(t, "the stopped dispatcher sends nothing", func() bool { // a query of Maintain may be late
		before := trips.Load()
		time.Sleep(300 * time.Millisecond) // many times Poll
		return trips.Load() == before
	})
}

// TestShutdown checks that a stop waits for running tries and records them, starts no others, and cuts off those that
// take longer than the Grace; the events are sent after the next start.
func TestShutdown(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.Grace = testkit.WaitTimeout })
	first, second := make(chan struct{}), make(chan struct{})
	answerFirst, answerSecond := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(second) })
	var block atomic.Pointer[chan struct{}]
	block.Store(&first)
	s := receive(t, func(w http.ResponseWriter, r *http.Request) { <-*block.Load() })
	t.Cleanup(func() { answerFirst(); answerSecond() }) // otherwise the receiver would not stop after a failure
	admin := f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	for range 6 {
		admin.Post(t, path+"/test", nil).Want(200)
	}
	for range 4 {
		s.wait(t)
	}
	f.cancel()                         // before the answers, after which another try would start
	time.Sleep(300 * time.Millisecond) // a stop that does not wait would cut off the tries
	answerFirst()
	f.stop()
	admin.Get(t, path+"/deliveries?status=delivered").Want(200).Shows(map[string]string{"total": "4"})
	testkit.Equal(t, len(s.requests()), 4, "requests of 4 tries")

	block.Store(&second)
	c := f.config
	c.Grace, c.Timeout = time.Second, time.Hour // a stop that cuts off nothing ends after the latter
	f.run(t, c)
	s.wait(t)
	s.wait(t)
	stopped := make(chan struct{})
	go func() { f.stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(testkit.WaitTimeout):
		answerSecond()
		t.Fatal("the stop does not cut off the tries")
	}
	admin.Get(t, path+"/deliveries?status=pending").Want(200).Shows(map[string]string{"total": "2",
		"items.0.tries": "0"})
	answerSecond()
	f.run(t, f.config)
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "6"})
}

// TestManyEvents sends more events than a worker loads at a time, while the receiver sometimes fails.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) {
		c.Schedule = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, time.Second}
	})
	var n atomic.Int64
	s := receive(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%5 == 0 {
			w.WriteHeader(503)
		}
	})
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	f.sql(t, admin, `
		select emit_event(event_webhooks('production_run.completed'), 'production_run.completed',
			json_build_object('n', n))::text from generate_series(1, 300) n`)
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "300"})
	seen := map[string]string{}
	for _, r := range s.requests() {
		if body, ok := seen[r.id()]; ok && body != string(r.body) {
			t.Errorf("two bodies have the id %s: %s, %s", r.id(), body, r.body)
		}
		seen[r.id()] = string(r.body)
	}
	testkit.Equal(t, len(seen), 300, "events that the receiver got")
	for i := range 300 {
		want := fmt.Sprintf(`"n" : %d}`, i+1)
		found := false
		for _, body := range seen {
			found = found || strings.Contains(body, want)
		}
		if !found {
			t.Errorf("no event contains %s", want)
		}
	}
}

// TestCost checks that many deliveries share connections and transactions, also those of several tenants to one host.
func TestCost(t *testing.T) {
	t.Parallel()
	const tenants, events = 10, 200
	var trips, statements, connections atomic.Int64
	d := testkit.Database(t, db.Config{MaxConns: 16, RoundTrip: func(all []db.Statement) {
		trips.Add(1)
		statements.Add(int64(len(all)))
	}})
	f := startWithout(t, d, nil)
	var received atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { received.Add(1) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	for range tenants {
		admin := f.Tenant(t).User(t, "admin")
		f.webhook(t, admin, s.URL)
		f.sql(t, admin, `select count(emit_event(event_webhooks('order.received'), 'order.received', '{}')::text)
			from generate_series(1, $1)`, events)
	}
	trips.Store(0)
	statements.Store(0)
	begin := time.Now()
	f.run(t, f.config)
	testkit.Eventually(t, "the receiver has all events", func() bool { return received.Load() >= tenants*events })
	f.stop()
	if n := connections.Load(); n > 3*tenants*4 {
		t.Errorf("%d requests needed %d connections, want hardly more than run at a time", tenants*events, n)
	}
	// A webhook needs about 15 transactions, which depends on the order in which tries end, and more on a busy
	// computer, where outcomes are also recorded when flushAfter has passed. One for each outcome would be 200.
	most := tenants * (20 + int64(7*time.Since(begin).Seconds()))
	if n := trips.Load(); n > most {
		t.Errorf("%d deliveries needed %d transactions, want at most %d", tenants*events, n, most)
	}
	if n := statements.Load(); n > 4*most {
		t.Errorf("%d deliveries needed %d statements, want at most %d", tenants*events, n, 4*most)
	}
}

// A webhook that was disabled by hand while a request to it ran stays disabled by hand, although the receiver answers
// that it is gone.
func TestDisabledDuringTry(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	answer := make(chan struct{})
	s := receive(t, func(w http.ResponseWriter, r *http.Request) { <-answer; w.WriteHeader(410) })
	admin := f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	s.wait(t)
	at := admin.Patch(t, path, testkit.JSON{"disabled": true}).Want(200).Text("disabled_at")
	close(answer)
	eventually(t, admin, delivery, map[string]string{"status": "failed"})
	admin.Get(t, path).Want(200).
		Shows(map[string]string{"disabled": "true", "disabled_reason": "null", "disabled_at": at})
}
