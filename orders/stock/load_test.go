package stock_test

import (
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/orders/pieces"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/tests/testkit"
)

var loadTime = flag.Duration("load.time", time.Duration(testkit.InRigs(500, 2000))*time.Millisecond,
	"how long each part of TestLevelsUnderLoad takes")

// A stock level that changes while runs are completed and kits are assembled delays neither: no request fails, and
// PostgreSQL finds no deadlock. The test logs how long it takes to complete a run, with and without these changes.
func TestLevelsUnderLoad(t *testing.T) {
	s := testkit.Cluster(t, map[string]string{"log_lock_waits": "on", "deadlock_timeout": "200ms",
		"logging_collector": "on"})
	d, err := db.Open(t.Context(), db.Config{URL: s.AppURL(), MaxConns: 16, Definitions: app.Definitions})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	c := testkit.New(t, testkit.Options{DB: d, PerMinute: 1_000_000, PerHour: 10_000_000}, inventory.Routes,
		catalog.Routes, production.Routes(orders.Runs), orders.Routes, pieces.Routes, stock.Routes).Operator(t)
	part := c.NewProduct(t, "PART", 5)
	c.Post(t, products+"/"+part+"/count", j{"counted": 100000}).Want(200)
	kit := products + "/" + c.Post(t, products, j{"name": "Kit",
		"components": []j{{"component_product_id": part}}}).Want(201).ID()
	level := levels + "/" + c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()

	end := watch(t, d, slog.New(slog.DiscardHandler), time.Second)
	defer end()

	const clients = 3
	send := func(method, path string, body any, want int) *testkit.Response {
		a := c.Do(t, method, path, body)
		testkit.Equal(t, a.Status, want, "%s: %s", a.What, a.Body)
		return a
	}
	load := func(changes bool) {
		var mu sync.Mutex
		var took []time.Duration
		end := time.Now().Add(*loadTime)
		testkit.Concurrently(2*clients+1, func(i int) {
			spool := ""
			if i < clients {
				spool = c.NewSpool(t, 1000, nil)
			}
			for n := 0; time.Now().Before(end); n++ {
				switch {
				case i < clients:
					run := runs + "/" + send("POST", runs, j{"items": []j{{"product_id": part}},
						"materials": []j{{"spool_id": spool, "actual_weight_grams": 0.01}}}, 201).ID()
					began := time.Now()
					send("POST", run+"/complete", nil, 200)
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				case i < 2*clients:
					send("POST", kit+"/assemble", j{"quantity": 1}, 200)
				default:
					testkit.Check(t, d.Analyze(t.Context())) // as the service does, but more often
					if changes {
						send("PATCH", level, j{"minimum_grams": 900 + n%2}, 200)
						other := send("POST", levels, j{"material_type": "ABS", "minimum_grams": 1}, 201).ID()
						send("DELETE", levels+"/"+other, nil, 204)
					}
					time.Sleep(500 * time.Millisecond)
				}
			}
		})
		slices.Sort(took)
		what := "without"
		if changes {
			what = "with"
		}
		t.Logf("%s changes of a level: %d runs completed, p50 %v, p99 %v, longest %v", what, len(took),
			took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond),
			took[len(took)-1].Round(time.Millisecond))
	}
	for _, changes := range []bool{false, true} {
		load(changes)
	}

	conn, err := pgx.Connect(t.Context(), s.SuperURL())
	testkit.Check(t, err)
	defer conn.Close(t.Context())
	var log string
	testkit.Check(t, conn.QueryRow(t.Context(), `select pg_read_file(pg_current_logfile())`).Scan(&log))
	for line := range strings.Lines(log) {
		if strings.Contains(line, "deadlock") {
			t.Error(fmt.Sprint("PostgreSQL: ", line))
		}
	}
}
