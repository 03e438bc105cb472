package webhooks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

// TestPlans checks that the dispatcher reads few blocks although the statistics of PostgreSQL are those of a table
// that was small: a tenant has many deliveries that ended, and many that are due later.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprintf("analyzed when small: %t", analyzed), func(t *testing.T) {
			t.Parallel()
			testPlans(t, analyzed)
		})
	}
}

func testPlans(t *testing.T, analyzed bool) {
	cluster := testkit.Cluster(t, map[string]string{"autovacuum": "off"})
	d, err := db.Open(t.Context(), db.Config{URL: cluster.AppURL(), MaxConns: 1})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	f := startWithout(t, d, func(c *webhooks.Config) { c.Poll = time.Hour }) // one claim for each event
	f.run(t, f.config)
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	hook := f.webhook(t, admin, s.URL)
	path := hooksPath + hook.ID()
	const events = 8 // from the sixth execution on, PostgreSQL keeps a plan
	send := func() {
		t.Helper()
		for range events {
			delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
			s.wait(t)
			// To ask for the delivery until it shows the outcome would read blocks.
			testkit.Eventually(t, "the worker has recorded the outcome and released the lease", func() bool {
				state, err := d.QueueState(t.Context())
				testkit.Check(t, err)
				return state == db.QueueState{}
			})
			testkit.Equal(t, admin.Get(t, delivery).Want(200).Text("status"), "delivered", "the status of the delivery")
		}
	}
	blocks := func() (n int) {
		t.Helper()
		f.sql(t, admin, `select pg_stat_force_next_flush()::text`)
		conn, err := pgx.Connect(t.Context(), cluster.SuperURL())
		if err == nil {
			err = conn.QueryRow(t.Context(), `
				select sum(idx_blks_hit + idx_blks_read + heap_blks_hit + heap_blks_read)::int
				from pg_statio_user_tables where relname = 'webhook_deliveries'`).Scan(&n)
			conn.Close(t.Context())
		}
		testkit.Check(t, err)
		return n
	}
	send()
	if analyzed {
		testkit.Exec(t, cluster, "analyze")
	}
	for range 2 {
		f.sql(t, admin, `
			insert into webhook_deliveries (id, webhook_id, event_id, type, body, status, next_try_at)
			select uuid_v7(), $1, n, 'webhook.test', '{}', case n % 4 when 0 then 'pending' else 'delivered' end,
				case n % 4 when 0 then now() + interval '1 day' end
			from generate_series(1, 10000) n`, hook.ID())
		testkit.Check(t, d.Analyze(t.Context())) // as the service does every 15 seconds
		n := 1 << 30
		for range 2 { // Maintain, which reads pending deliveries, may run late
			before := blocks()
			send()
			n = min(n, (blocks()-before)/events)
		}
		t.Logf("%d blocks for each event", n)
		if n > 100 {
			t.Errorf("%d blocks for each event, want at most 100", n)
		}
	}
}
