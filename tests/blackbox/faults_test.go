package blackbox_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

var (
	faultWrites = flag.Int("faults.writes", 0, "number of writes that TestFaults sends; 0 chooses it")
	faultKills  = flag.Int("faults.kills", 0,
		"number of processes of PostgreSQL or the service that TestFaults kills; 0 chooses it")
)

const (
	faultClients   = 32
	faultInstances = 3
)

// TestFaults kills PostgreSQL (a backend, or the postmaster) and instances of the service while clients write. Each
// client repeats a request with its key until it is acknowledged. In the end the database must contain each
// acknowledged write exactly once, and nothing else. The long form is
//
//	go test ./tests/blackbox -run TestFaults -timeout 0 -faults.writes 1000000 -faults.kills 400
func TestFaults(t *testing.T) {
	t.Parallel()
	writes, kills := 200, 2 // a kill of the postmaster, and one of an instance
	if testkit.Rigs() {
		writes, kills = testkit.InCI(400, 1500), testkit.InCI(4, 8)
	}
	*faultWrites, *faultKills = cmp.Or(*faultWrites, writes), cmp.Or(*faultKills, kills)
	f := newFaultTest(t)
	start := time.Now()
	f.run(faultClients, nil, func() bool { return f.writes.Load() < int64(*faultWrites) })
	working := make(chan struct{})
	go func() { f.clients.Wait(); close(working) }()

	worst, killed := f.killAll(t, working)
	<-working
	took := time.Since(start)
	if err := f.failure(); err != nil {
		t.Fatalf("after %d writes and the kills %v: %v", f.writes.Load(), killed, err)
	}
	t.Logf("%d clients wrote for %v; kills: %v; after PostgreSQL recovered, the service responded within %v",
		faultClients, took.Round(time.Millisecond), killed, worst.Round(time.Millisecond))
	for what, n := range map[string]int{
		"postmaster": *faultKills / 4, "backend": *faultKills / 4, "instance": *faultKills / 2,
	} {
		if killed[what] < n {
			t.Errorf("kills of a %s: %d, want %d", what, killed[what], n)
		}
	}
	if n := f.writes.Load(); n < int64(*faultWrites) {
		t.Errorf("%d writes, want %d", n, *faultWrites)
	}
	f.verify(t, f.postgres.SuperURL())
}

// faultTest is several instances of the service on one PostgreSQL.
type faultTest struct {
	*rig
	postgres *local.Server
}

// newFaultTest starts PostgreSQL and the instances.
func newFaultTest(t *testing.T) *faultTest {
	t.Helper()
	// SIGKILL loses no data that PostgreSQL has passed to the kernel, so fsync may stay off. But commit records must be
	// written before the response, and a killed process may leave a page half written.
	f := &faultTest{postgres: testkit.Cluster(t,
		map[string]string{"synchronous_commit": "on", "full_page_writes": "on"})}
	var instances []*instance
	for i := range faultInstances {
		instances = append(instances, &instance{name: fmt.Sprint(i), env: databaseEnv(f.postgres)})
	}
	f.rig = newRig(t, instances...)
	f.kills = true
	return f
}

// killAll kills processes at random times while the clients write. It returns the longest time from the end of
// PostgreSQL's recovery until the service responded, and the number of kills by kind.
func (f *faultTest) killAll(t *testing.T, working <-chan struct{}) (worst time.Duration, killed map[string]int) {
	t.Helper()
	killed = map[string]int{}
	step := float64(*faultWrites) / float64(*faultKills+2)
	for n := range *faultKills {
		at := int64(step * (float64(n) + 1 + rand.Float64()))
		for f.writes.Load() < at && f.failure() == nil {
			select {
			case <-working:
				return worst, killed
			case <-time.After(time.Millisecond):
			}
		}
		if f.failure() != nil {
			return worst, killed
		}
		if n%2 == 1 {
			f.kill(t, f.instances[rand.IntN(faultInstances)])
			killed["instance"]++
			continue
		}
		if n%4 == 0 {
			f.killPostmaster(t)
			killed["postmaster"]++
		} else {
			f.killBackend(t)
			killed["backend"]++
		}
		worst = max(worst, f.waitForRecovery(t))
	}
	return worst, killed
}

func (f *faultTest) killPostmaster(t *testing.T) {
	t.Helper()
	pid := f.postgres.PID()
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "PostgreSQL has restarted", func() bool { return f.postgres.PID() != pid })
}

// killBackend kills a PostgreSQL backend that serves an instance. PostgreSQL then ends all other backends and
// recovers.
func (f *faultTest) killBackend(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	var pid int
	const query = `select pid from pg_stat_activity where usename = $1 order by random() limit 1`
	check(t, conn.QueryRow(t.Context(), query, local.LoginRole).Scan(&pid))
	err = syscall.Kill(pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) { // the instance has closed the connection in the meantime
		f.killBackend(t)
		return
	}
	check(t, err)
	eventually(t, "PostgreSQL closes all connections", func() bool {
		_, err := conn.Exec(t.Context(), "select 1")
		return err != nil
	})
}

// waitForRecovery waits until PostgreSQL accepts connections, and returns how much longer it takes until every
// instance responds.
func (f *faultTest) waitForRecovery(t *testing.T) time.Duration {
	t.Helper()
	f.eventually(t, "PostgreSQL accepts connections", func() bool {
		conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
		if err == nil {
			err = conn.Ping(t.Context())
			conn.Close(t.Context())
		}
		return err == nil
	})
	since := time.Now()
	for _, at := range f.instances {
		f.eventually(t, "the service responds", func() bool {
			r, err := f.attempt(at.process.Load(), "GET", "/api/v1/spools?limit=1", "", nil)
			return err == nil && r.status == 200
		})
	}
	return time.Since(since)
}
