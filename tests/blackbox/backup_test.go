package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
	"spoolwright/web/start"
)

// TestBackup runs the commands of docs/backup.md and checks that the restored service returns the same data as
// before. Except for Copy, the dump is made while clients write, and restored into another cluster. DatabaseURL also
// copies the data alone.
func TestBackup(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	p := buildProgram(t)
	t.Run("Copy", func(t *testing.T) { t.Parallel(); testBackupCopy(t, p) })
	t.Run("Private", func(t *testing.T) { t.Parallel(); testBackupPrivate(t, p) })
	if testkit.InCI(0, 1) == 1 {
		t.Run("DatabaseURL", func(t *testing.T) { t.Parallel(); testBackupDatabaseURL(t, p) })
	}
}

// runBackupCommands runs a shell block of docs/backup.md, which must print nothing. If pg_dump is not in PATH, it
// adds the directory of the newest installed version. The programs of an older PostgreSQL refuse a newer server, so
// those in POSTGRES_BIN are required if it is set.
func runBackupCommands(t *testing.T, dir, script string, env ...string) {
	t.Helper()
	if folder := os.Getenv("POSTGRES_BIN"); folder != "" {
		if _, err := exec.LookPath(filepath.Join(folder, "pg_dump")); err != nil {
			skipTest(t, "POSTGRES_BIN contains no pg_dump")
		}
	} else if _, err := exec.LookPath("pg_dump"); err != nil {
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"); len(found) == 0 {
			skipTest(t, "pg_dump is not installed")
		} else {
			env = append(env, "PATH="+filepath.Dir(found[len(found)-1])+":"+os.Getenv("PATH"))
		}
	}
	bash := exec.Command("bash", "-euo", "pipefail", "-c", script)
	bash.Dir, bash.Env = dir, append(processEnv(nil), env...)
	if out, err := bash.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
}

// addAdmin adds an admin and logs in.
func (p program) addAdmin(t *testing.T, c *process, env []string, tenant, email string) (token string) {
	t.Helper()
	p.addUser(t, env, tenant, email, "admin")
	return c.login(t, email, testPassword)
}

// createSampleData creates resources of every kind in the token's tenant, and deletes a spool.
func createSampleData(t *testing.T, c *process, token string) {
	t.Helper()
	check(t, start.Load(func(r start.Request) ([]byte, error) {
		var object any
		if len(r.Body) > 0 {
			object = json.RawMessage(r.Body)
		}
		status, created := c.call(t, token, r.Method, r.Path, object)
		if status >= 300 {
			t.Fatalf("%s %s %s: %d %v", r.Method, r.Path, r.Body, status, created)
		}
		return json.Marshal(created)
	}))
	// A ledger entry for each spool that has filament left, and one deleted spool.
	list := c.get(t, token, "/api/v1/spools?limit=100&in_stock=true")
	spools := list["items"].([]any)
	for _, spool := range spools {
		path := fmt.Sprintf("/api/v1/spools/%v/deduct", spool.(map[string]any)["id"])
		deduction := map[string]any{"weight_grams": 0.000001, "reason": "Grüße, 株式会社"}
		c.create(t, token, path, deduction)
	}
	deleted := false
	for _, spool := range spools { // a spool of a planned run cannot be deleted
		if !deleted {
			status, _ := c.call(t, token, "DELETE", fmt.Sprint("/api/v1/spools/", spool.(map[string]any)["id"]), nil)
			deleted = status == 204
		}
	}
	if !deleted {
		t.Fatal("no spool could be deleted")
	}
}

// later matches the fields that change without a request: ready_at is noted about a second after a change, and the
// expected end of a run that takes longer than estimated is the present.
var later = regexp.MustCompile(`"(ready_at|expected_end_at)":(null|"[^"]*"),`)

// readAll returns the responses, by path, to all GET requests for the data of the token's tenant.
func readAll(t *testing.T, c *process, token string) map[string]string {
	t.Helper()
	all := map[string]string{}
	get := func(path string) string {
		a := c.must(t, "GET", path, bearer(token), nil)
		all[path] = fmt.Sprint(a.status, " ", later.ReplaceAllString(string(a.body), ""))
		return string(a.body)
	}
	get("/api/v1/auth/me")
	for _, resource := range []string{"spools", "products", "production-runs", "orders"} {
		var list struct{ Items []struct{ ID string } }
		check(t, json.Unmarshal([]byte(get("/api/v1/"+resource+"?limit=100")), &list))
		for _, item := range list.Items {
			id := item.ID
			get("/api/v1/" + resource + "/" + id)
			if resource == "spools" {
				get("/api/v1/spools/" + id + "/usage?limit=100")
			}
			if resource == "products" || resource == "orders" {
				get("/api/v1/" + resource + "/" + id + "/availability")
			}
		}
	}
	if len(all) < 15 {
		t.Errorf("%d resources, want at least 15", len(all))
	}
	return all
}

// wantSameData compares two results of readAll.
func wantSameData(t *testing.T, want, got map[string]string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d resources, want %d", len(got), len(want))
	}
	for path, body := range want {
		testkit.Equal(t, got[path], body, "GET %s", path)
	}
}

// writeContinuously creates spools in the token's tenant, and deducts from them, until end is called.
func writeContinuously(t *testing.T, c *process, token string) (end func()) {
	t.Helper()
	var stop atomic.Bool
	var writes atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			spool := map[string]any{
				"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000,
			}
			status, response := c.call(t, token, "POST", "/api/v1/spools", spool)
			if status == 201 {
				path := fmt.Sprintf("/api/v1/spools/%v/deduct", response["id"])
				c.call(t, token, "POST", path, map[string]any{"weight_grams": 1.5})
				writes.Add(1)
				time.Sleep(5 * time.Millisecond) // pg_dump needs the processor too
			}
		}
	}()
	eventually(t, "spools are being created", func() bool { return writes.Load() > 5 })
	return func() { stop.Store(true); <-done }
}

// checkConsistency checks the data of a tenant that was written to during the dump: the list agrees with its total,
// and each spool with its ledger.
func checkConsistency(t *testing.T, c *process, token string) {
	t.Helper()
	spools := c.get(t, token, "/api/v1/spools?limit=100")
	items := spools["items"].([]any)
	if total := int(spools["total"].(float64)); len(items) == 0 || len(items) != min(total, 100) {
		t.Errorf("the total is %v, and the page has %d spools", spools["total"], len(items))
	}
	for _, item := range items {
		spool := item.(map[string]any)
		usage := c.get(t, token, fmt.Sprintf("/api/v1/spools/%v/usage", spool["id"]))
		sum := 0.0
		for _, entry := range usage["items"].([]any) {
			sum += entry.(map[string]any)["change_grams"].(float64)
		}
		if math.Abs(sum-spool["remaining_weight_grams"].(float64)) > 0.0000005 { // the sum of floats is not exact
			t.Errorf("spool %v has %v g left, want %v, the sum of its ledger",
				spool["id"], spool["remaining_weight_grams"], sum)
		}
	}
}

// noLimits are settings that switch rate limits off.
var noLimits = []string{"RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0"}

// testBackupCopy copies the data directory of the stopped service.
func testBackupCopy(t *testing.T, p program) {
	home := tempDir(t)
	env := append([]string{"DATA_DIR=" + home + "/data"}, noLimits...)
	c := p.start(t, env)
	token := p.addAdmin(t, c, env, "farm", "ada@farm.example")
	createSampleData(t, c, token)
	want := readAll(t, c, token)
	c.stop(t, syscall.SIGTERM)

	runBackupCommands(t, home, block(t, "sh", "cp -aL data"))
	check(t, os.RemoveAll(home+"/data"))
	check(t, os.Rename(home+"/backup", home+"/data"))
	c = p.start(t, env)
	wantSameData(t, want, readAll(t, c, token)) // with the token from before the restore
	c.stop(t, syscall.SIGTERM)
}

// testBackupPrivate dumps the private PostgreSQL.
func testBackupPrivate(t *testing.T, p program) {
	home, other := tempDir(t), tempDir(t)
	env := append([]string{"DATA_DIR=" + home + "/data"}, noLimits...)
	c := p.start(t, env)
	token := p.addAdmin(t, c, env, "farm", "ada@farm.example")
	busyToken := p.addAdmin(t, c, env, "busy farm", "bob@farm.example")
	createSampleData(t, c, token)
	want := readAll(t, c, token)
	end := writeContinuously(t, c, busyToken)
	runBackupCommands(t, home, block(t, "sh", "pg_dump -d \"$SUPER\""))
	end()
	wantSameData(t, want, readAll(t, c, token))
	c.stop(t, syscall.SIGTERM)

	// Restore into an empty cluster in another directory.
	env[0] = "DATA_DIR=" + other + "/data"
	c = p.start(t, env)
	runBackupCommands(t, other, fmt.Sprintf("cp -a %s/farm.dump %[1]s/jwt-secret .", home))
	runBackupCommands(t, other, block(t, "sh", "pg_restore -d \"$SUPER\""))
	c.stop(t, syscall.SIGTERM)
	c = p.start(t, env)
	wantRestored(t, c, want, token)
}

// wantRestored checks the data, privileges and counters of the farm and the busy farm, and stops the service.
func wantRestored(t *testing.T, c *process, want map[string]string, token string) {
	t.Helper()
	wantSameData(t, want, readAll(t, c, token))
	checkConsistency(t, c, c.login(t, "bob@farm.example", testPassword))
	c.createSpool(t, token)
	log := c.stderr.String()
	testkit.Lacks(t, log, "level=WARN", "the log after the restore")
	testkit.Lacks(t, log, "level=ERROR", "the log after the restore")
	c.stop(t, syscall.SIGTERM)
}

// testBackupDatabaseURL dumps a database that the service does not manage.
func testBackupDatabaseURL(t *testing.T, p program) {
	// Two clusters, because roles belong to a cluster.
	type cluster struct{ admin, rest string }
	var clusters [2]cluster
	for i := range clusters {
		s, err := local.Start(t.Context(), local.Options{Dir: tempDir(t), Throwaway: true})
		check(t, err)
		t.Cleanup(func() { check(t, s.Stop(context.Background())) })
		_, rest, _ := strings.Cut(s.SuperURL(), "@/spoolwright?")
		clusters[i] = cluster{s.SuperURL(), rest}
		for _, statement := range strings.Split(block(t, "sql", "CREATE ROLE farm_owner"), ";\n") {
			statement = strings.TrimSpace(statement)
			if statement == "" || statement == "CREATE ROLE spoolwright_app NOLOGIN" { // the cluster has this role
				continue
			}
			testkit.ExecURL(t, s.SuperURL(), statement)
		}
	}
	url := func(c cluster, login string) string { return "postgres://" + login + "@/farm?" + c.rest }
	settings := func(c cluster) []string {
		return append([]string{
			"DATABASE_URL=" + url(c, "farm_service:service-password"),
			"MIGRATE_DATABASE_URL=" + url(c, "farm_owner:owner-password"), secretEnv,
		}, noLimits...)
	}
	home := tempDir(t)
	before, after := clusters[0], clusters[1]
	testkit.ExecURL(t, before.admin,
		strings.Split(strings.TrimSpace(block(t, "sql", "CREATE ROLE farm_backup")), "\n")...)

	env := settings(before)
	c := p.start(t, env)
	token := p.addAdmin(t, c, env, "farm", "ada@farm.example")
	busyToken := p.addAdmin(t, c, env, "busy farm", "bob@farm.example")
	createSampleData(t, c, token)
	want := readAll(t, c, token)
	end := writeContinuously(t, c, busyToken)
	backupURL := url(before, "farm_backup:backup-password")
	runBackupCommands(t, home, block(t, "sh", "pg_dump -d \"$BACKUP\""), "BACKUP="+backupURL)
	end()
	c.stop(t, syscall.SIGTERM)

	super := strings.Replace(after.admin, "@/spoolwright?", "@/farm?", 1)
	runBackupCommands(t, home, block(t, "sh", "pg_restore -d \"$ADMIN\""), "ADMIN="+super)
	c = p.start(t, settings(after))
	wantRestored(t, c, want, token)

	// The commands for a database from before 1.0.0 copy the data of any database into a new one.
	testkit.ExecURL(t, after.admin, "create database copied owner farm_owner")
	env = nil
	for _, setting := range settings(after) {
		env = append(env, strings.Replace(setting, "@/farm?", "@/copied?", 1))
	}
	c = p.start(t, env) // which migrates
	c.stop(t, syscall.SIGTERM)
	runBackupCommands(t, home, block(t, "sh", "pg_dump -d \"$OLD\""),
		"OLD="+strings.Replace(before.admin, "@/spoolwright?", "@/farm?", 1),
		"NEW="+strings.Replace(after.admin, "@/spoolwright?", "@/copied?", 1))
	c = p.start(t, env)
	wantRestored(t, c, want, token)

	// Row-level security hides all rows from the owner of the tables, so pg_dump must fail and not write an empty
	// dump.
	const dump = `PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -1) pg_dump -d "$0"`
	out, err := exec.Command("bash", "-c", dump, url(before, "farm_owner:owner-password")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "row-level security") {
		t.Errorf("pg_dump as owner: %v %.500s, want an error about row-level security", err, out)
	}
}
