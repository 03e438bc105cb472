package blackbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spoolwright/auth/accounts"
	"spoolwright/db"
	"spoolwright/testkit"
)

// movable is a tenant with a resource of every kind, in the first of two databases.
type movable struct {
	*fixture
	homes *testkit.Homes
	other *testkit.API // another instance, which remembers the tenant's first home
}

func newMovable(t *testing.T) *movable {
	t.Helper()
	h := testkit.NewHomes(t, db.Config{MaxConns: 8})
	w := newTestAPI(t, testkit.Options{DB: h.Open(t)})
	m := &movable{w.newFullFixture(t), h, testkit.New(t, testkit.Options{DB: h.Open(t)}, testkit.Features...)}
	m.at(m.other).Get(t, "/api/v1/spools").Want(200)
	return m
}

// at returns the tenant's admin as a client of another instance.
func (m *movable) at(api *testkit.API) *testkit.Client { return m.of(api, m.admin) }

// of returns a client as one of another instance.
func (m *movable) of(api *testkit.API, client *testkit.Client) *testkit.Client {
	c := *client
	c.API = api
	return &c
}

func (m *movable) move(to int) db.Move {
	return db.Move{Owner: m.homes.Owner, Tenant: m.tenant.ID, To: to}
}

// wantOnlyIn fails the test unless all rows of the tenant are in one database.
func (m *movable) wantOnlyIn(t *testing.T, home int) {
	t.Helper()
	tables := []string{"tenants", "users", "spools", "spool_usage", "production_runs", "orders", "webhooks", "api_keys",
		"key_directory", "row_counts", "stock_levels", "printers"}
	present := "select 0"
	for _, table := range tables {
		present += ` + exists (select from ` + table + ` where tenant_id = $1)::int`
	}
	for i, url := range m.homes.Super {
		n := countIn(t, url, present, m.tenant.ID)
		if want := map[bool]int{true: len(tables)}[i == home]; n != want {
			t.Errorf("database %d has rows of the tenant in %d tables, want %d", i, n, want)
		}
		if i == home {
			continue
		}
		// An instance would deliver what an old queue names a second time.
		if countIn(t, url, `select count(*) from queue_items q full join queue_signals s using (tenant_id)
			where tenant_id = $1`, m.tenant.ID) > 0 {
			t.Errorf("database %d has the tenant in its queue", i)
		}
	}
}

// A tenant has the same data in its new home, also for an instance that remembers the old one, and can move back. The
// databases can write dates and times in different forms.
func TestMoveTenant(t *testing.T) {
	t.Parallel()
	m := newMovable(t)
	for _, setting := range []string{"timezone = 'Asia/Kathmandu'", "datestyle = 'German'",
		"bytea_output = 'escape'"} {
		testkit.ExecURL(t, m.homes.Super[1], `do $$ begin
			execute format('alter database %I set `+strings.ReplaceAll(setting, "'", "''")+
			`', current_database()); end $$`)
	}
	// A printer with a loaded spool, a key of its own, and a planned run.
	const printers = "/api/v1/printers"
	printer := m.admin.Post(t, printers, testkit.JSON{"name": "Moved"}).Want(201).ID()
	spool := m.admin.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "TPU", "color": "Moved", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201).ID()
	m.admin.Do(t, "PUT", printers+"/"+printer+"/slots/1", testkit.JSON{"spool_id": spool}).Want(200)
	m.admin.Post(t, "/api/v1/api-keys", testkit.JSON{"name": "Moved", "role": "printer", "printer_id": printer}).Want(201)
	product := m.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Moved", "materials": []testkit.JSON{
		{"material_type": "TPU", "color": "Moved", "weight_grams": 10}}}).Want(201).ID()
	m.admin.Post(t, "/api/v1/plan", testkit.JSON{"create": true, "items": []testkit.JSON{{"product_id": product}}}).
		Want(200).Shows(map[string]string{"runs.0.materials.0.spool_id": spool})
	key := m.tenant.Key(t, "operator")
	login := testkit.JSON{"email": m.admin.Email, "password": testkit.Password}
	neighbour := m.api.Tenant(t).User(t, "operator")
	snapshot := func() map[string]string {
		all := m.snapshot(t)
		// Which show the last use, the logins of this test, and times that begin now.
		maps.DeleteFunc(all, func(path, _ string) bool {
			return strings.Contains(path, "api-keys") || strings.HasSuffix(path, "/sessions") ||
				strings.HasSuffix(path, "/queue")
		})
		return all
	}
	before := snapshot()
	for i, to := range []int{1, 0, 1} {
		var lines []string
		move := m.move(to)
		move.Progress = func(line string) { lines = append(lines, line) }
		check(t, move.Run(t.Context()))
		if !slices.Contains(lines, "tenants: 1 rows copied") {
			t.Errorf("the progress is %q", lines)
		}
		m.wantOnlyIn(t, to)
		// The first request of an instance after a move finds the new home, whatever it needs to know of the caller.
		first := []func(*testkit.API){
			func(api *testkit.API) { m.of(api, key).Get(t, "/api/v1/spools").Want(200) },
			func(api *testkit.API) {
				m.of(api, key).Post(t, "/api/v1/spools/"+db.NewID()+"/deduct", testkit.JSON{"weight_grams": 1}).
					WantError(404, "NOT_FOUND")
			},
			func(api *testkit.API) { api.Anonymous().Post(t, "/api/v1/auth/login", login).Want(200) },
		}
		first[i](m.other)
		first[(i+1)%3](m.api)
		for path, old := range before {
			if now := string(m.at(m.other).Get(t, path).Want(200).Body); now != old {
				t.Errorf("move %d: GET %s of another instance: %s, want %s", i, path, now, old)
			}
		}
		m.wantUnchanged(t, before)
		for _, c := range []*testkit.Client{m.admin, m.at(m.other), key} {
			c.Post(t, "/api/v1/spools", blackSpool).Want(201)
		}
		neighbour.Post(t, "/api/v1/spools", blackSpool).Want(201)
		before = snapshot()
	}
	if n := countIn(t, m.homes.Super[1], `select count(*) from queue_signals where tenant_id = $1`,
		m.tenant.ID); n == 0 {
		t.Error("pending deliveries of webhooks are not in the queue")
	}
	if err := m.move(2).Run(t.Context()); err == nil {
		t.Error("a move to a database that does not exist")
	}
}

// errCrash ends a Move as the end of the program would.
var errCrash = errors.New("crash")

// If a move ends at any step, the tenant is complete in one database, and the same command finishes the move. The
// opposite command undoes it.
func TestMoveInterrupted(t *testing.T) {
	t.Parallel()
	m := newMovable(t)
	var steps []string
	trial := m.move(1)
	trial.Step = func(step string) error { steps = append(steps, step); return nil }
	check(t, trial.Run(t.Context()))
	if n := len(steps); n < 20 || !slices.Contains(steps, "departed") {
		t.Fatalf("the steps are %q", steps)
	}
	// The test interrupts each kind of step, and the copies of three tables.
	steps = slices.DeleteFunc(steps, func(step string) bool {
		return strings.HasPrefix(step, "copied ") &&
			!slices.Contains([]string{"copied tenants", "copied spools", "copied row_counts"}, step)
	})
	home := 1
	for _, undo := range []bool{false, true} {
		for i, step := range steps {
			if undo != (i%2 == 1) && testkit.InCI(1, 2) == 1 {
				continue // in CI, each step is followed by both commands
			}
			name := fmt.Sprintf("%s, undo %v", step, undo)
			before := m.snapshot(t)
			move := m.move(1 - home)
			move.Step = func(s string) error {
				if s == step {
					return errCrash
				}
				return nil
			}
			if err := move.Run(t.Context()); !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", name, err)
			}
			m.wantUnchanged(t, before)
			if got := string(m.at(m.other).Get(t, "/api/v1/spools").Want(200).Body); got != before["/api/v1/spools"] {
				t.Errorf("%s: another instance shows other spools", name)
			}
			a := m.admin.Post(t, "/api/v1/spools", blackSpool)
			if step == "departed" {
				if a.WantError(503, "UNAVAILABLE"); a.Header.Get("Retry-After") == "" {
					t.Errorf("%s: a 503 without Retry-After", name)
				}
			} else {
				a.Want(201)
			}
			m.at(m.other).Post(t, "/api/v1/spools", blackSpool)
			before = m.snapshot(t)
			target := 1 - home
			if undo {
				target = home
			}
			if err := m.move(target).Run(t.Context()); err != nil {
				t.Fatalf("%s: the next command: %v", name, err)
			}
			home = target
			m.wantOnlyIn(t, home)
			m.wantUnchanged(t, before)
			m.at(m.other).Post(t, "/api/v1/spools", blackSpool).Want(201)
			m.admin.Post(t, "/api/v1/spools", blackSpool).Want(201)
		}
	}
}

// While a tenant is moved, its writes get a 503 and its reads work. Other tenants notice nothing. Another command
// cannot move it too.
func TestMoveLocksWrites(t *testing.T) {
	t.Parallel()
	m := newMovable(t)
	neighbour := m.api.Tenant(t).User(t, "operator")
	move := m.move(1)
	move.Step = func(step string) error {
		if step == "compared" {
			a := accounts.Accounts{DB: m.api.DB}
			if _, _, err := a.MoveUser(t.Context(), m.homes.Owner, neighbour.Email, "tenant "+
				m.tenant.ID); err == nil {
				t.Error("a user moved into the tenant")
			}
		}
		if step != "copied" {
			return nil
		}
		for _, c := range []*testkit.Client{m.admin, m.at(m.other)} {
			if a := c.Post(t, "/api/v1/spools", blackSpool).WantError(503,
				"UNAVAILABLE"); a.Header.Get("Retry-After") == "" {
				t.Error("a 503 without Retry-After")
			}
			c.With("Idempotency-Key", "x").Post(t, "/api/v1/spools", blackSpool).WantError(503, "UNAVAILABLE")
			c.Get(t, "/api/v1/spools").Want(200)
		}
		neighbour.Post(t, "/api/v1/spools", blackSpool).Want(201)
		if err := m.move(1).Run(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "another command moves the tenant") {
			t.Errorf("a second move at the same time: %v", err)
		}
		return nil
	}
	check(t, move.Run(t.Context()))
	m.admin.With("Idempotency-Key", "x").Post(t, "/api/v1/spools", blackSpool).Want(201)
}

// While writers of two instances work, the program moves the tenant between two databases and is killed at random
// times. No acknowledged write is lost, and none happens twice.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	m := newMovable(t)
	further := m.homes.Config.Further[0]
	env := []string{"DATABASE_URL=" + m.homes.Config.URL, "MIGRATE_DATABASE_URL=" + m.homes.Owner.URL, secretEnv,
		"FURTHER_DATABASE_URLS=" + further.URL, "FURTHER_MIGRATE_DATABASE_URLS=" + further.OwnerURL}
	spool := m.admin.Post(t, "/api/v1/spools", blackSpool).Want(201).ID()
	var deducted, failed atomic.Int64
	var writers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range 4 {
		c := []*testkit.Client{m.admin, m.at(m.other)}[i%2]
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				once := c.With("Idempotency-Key", fmt.Sprintf("%d-%d", i, n))
				for {
					a, err := once.Send("POST", "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 0.001})
					if err == nil && a.Status == 200 {
						deducted.Add(1)
						time.Sleep(5 * time.Millisecond) // the commands need the processor too
						break
					}
					if err != nil || a.Status != 503 {
						t.Errorf("a deduction: %v %+v", err, a)
						return
					}
					failed.Add(1)
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	to, kills := 1, testkit.InCI(4, 8)
	for i := range kills {
		args := []string{"tenant", "move", "--tenant", "tenant " + m.tenant.ID, "--to", fmt.Sprint(to)}
		c := p.launch(t, func(*exec.Cmd) {}, env, args...)
		select {
		case <-c.exited:
		case <-time.After(time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))):
			c.signal(syscall.SIGKILL)
			<-c.exited
		}
		if i%2 == 1 {
			eventually(t, "PostgreSQL has ended the session of the killed command", func() bool {
				_, complaint, code := p.run(t, "", env, args...)
				again := strings.Contains(complaint, "another command moves the tenant")
				if code != 0 && !again {
					t.Fatalf("the command ends with %d: %s", code, complaint)
				}
				return !again
			})
			m.wantOnlyIn(t, to)
			to = 1 - to
		}
	}
	stop()
	writers.Wait()
	got := m.admin.Get(t, "/api/v1/spools/"+spool).Want(200).Value("remaining_weight_grams").(json.Number)
	grams, err := got.Float64()
	check(t, err)
	if want := 1000 - float64(deducted.Load())/1000; math.Abs(grams-want) > 1e-6 {
		t.Errorf("after %d deductions the spool has %v g, want %v", deducted.Load(), got, want)
	}
	t.Logf("%d deductions, %d times 503, %d kills", deducted.Load(), failed.Load(), kills)
}

// Rows that an instance without the setting for further databases writes during a move are not deleted.
func TestMoveKeepsLateWrites(t *testing.T) {
	t.Parallel()
	m := newMovable(t)
	move := m.move(1)
	move.Step = func(step string) error {
		if step == "departed" {
			testkit.ExecURL(t, m.homes.Super[0], `update spools set notes = 'late' where tenant_id = '`+m.tenant.ID+
				`'`)
		}
		return nil
	}
	if err := move.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the table spools has changed") {
		t.Errorf("got %v", err)
	}
	if n := countIn(t, m.homes.Super[0], `select count(*) from spools where tenant_id = $1 and notes = 'late'`,
		m.tenant.ID); n == 0 {
		t.Error("the rows were deleted")
	}
	m.admin.Post(t, "/api/v1/spools", blackSpool).Want(201)
}
