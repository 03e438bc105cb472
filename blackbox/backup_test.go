package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"spoolwright/db/local"
	"spoolwright/demo"
)

// TestBackup runs the commands of docs/backup.md on a farm that is in use, restores into an empty cluster, and looks at everything.
func TestBackup(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	t.Run("Copy", func(t *testing.T) { t.Parallel(); testBackupCopy(t, p) })
	t.Run("Private", func(t *testing.T) { t.Parallel(); testBackupPrivate(t, p) })
	t.Run("Own", func(t *testing.T) { t.Parallel(); testBackupOwn(t, p) })
}

// shell runs a shell block of docs/backup.md, with the PostgreSQL tools that belong to the server that tests use.
func shell(t *testing.T, dir, script string, env ...string) {
	t.Helper()
	if _, err := exec.LookPath("pg_dump"); err != nil {
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

// admin adds a user and returns a token of a fresh login.
func (p program) admin(t *testing.T, c *process, env []string, tenant, email string) (token string) {
	t.Helper()
	p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", tenant, "--email", email, "--name", "Ada", "--role", "admin", "--password-stdin")
	return c.login(t, email, "a password for tests")
}

// stock fills the token's farm with something of everything.
func stock(t *testing.T, c *process, token string) {
	t.Helper()
	check(t, demo.Load(func(path string, body []byte) (string, error) {
		var object any
		if len(body) > 0 {
			object = json.RawMessage(body)
		}
		status, created := c.call(t, token, "POST", path, object)
		if status >= 300 {
			t.Fatalf("POST %s %s: %d %v", path, body, status, created)
		}
		id, _ := created["id"].(string)
		return id, nil
	}))
	// A ledger entry for each spool that has filament left, and one deleted spool.
	_, list := c.call(t, token, "GET", "/api/v1/spools?limit=100&in_stock=true", nil)
	spools := list["items"].([]any)
	for _, spool := range spools {
		path := fmt.Sprintf("/api/v1/spools/%v/deduct", spool.(map[string]any)["id"])
		deduction := map[string]any{"weight_grams": 0.000001, "reason": "Grüße, 株式会社"}
		if status, answer := c.call(t, token, "POST", path, deduction); status != 200 {
			t.Fatalf("POST %s: %d %v", path, status, answer)
		}
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

var anyID = regexp.MustCompile(`"id": ?"([0-9a-f-]{36})"`)

// everything is what can be read of the token's farm, byte for byte.
func everything(t *testing.T, c *process, token string) map[string]string {
	t.Helper()
	all := map[string]string{}
	get := func(path string) string {
		r, err := http.NewRequest("GET", c.url+path, nil)
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := c.client.Do(r)
		check(t, err)
		defer response.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(response.Body)
		check(t, err)
		all[path] = fmt.Sprint(response.StatusCode, " ", b.String())
		return b.String()
	}
	get("/api/v1/auth/me")
	for _, resource := range []string{"spools", "products", "production-runs"} {
		for _, id := range anyID.FindAllStringSubmatch(get("/api/v1/"+resource+"?limit=100"), -1) {
			get("/api/v1/" + resource + "/" + id[1])
			if resource == "spools" {
				get("/api/v1/spools/" + id[1] + "/usage?limit=100")
			}
		}
	}
	if len(all) < 15 {
		t.Errorf("only %d resources can be read", len(all))
	}
	return all
}

func alike(t *testing.T, want, got map[string]string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d resources, want %d", len(got), len(want))
	}
	for path, body := range want {
		if got[path] != body {
			t.Errorf("GET %s:\nbefore: %s\nafter:  %s", path, body, got[path])
		}
	}
}

// busy keeps writing to the token's farm until the function that it returns is called.
func busy(t *testing.T, c *process, token string) (end func()) {
	t.Helper()
	var stop atomic.Bool
	var writes atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			status, made := c.call(t, token, "POST", "/api/v1/spools", map[string]any{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000})
			if status == 201 {
				c.call(t, token, "POST", fmt.Sprintf("/api/v1/spools/%v/deduct", made["id"]), map[string]any{"weight_grams": 1.5})
				writes.Add(1)
			}
		}
	}()
	eventually(t, "the other farm is being written to", func() bool { return writes.Load() > 5 })
	return func() { stop.Store(true); <-done }
}

// consistent looks at the farm that was written to during the dump: what is there is whole.
func consistent(t *testing.T, c *process, token string) {
	t.Helper()
	_, spools := c.call(t, token, "GET", "/api/v1/spools?limit=100", nil)
	items := spools["items"].([]any)
	if total := int(spools["total"].(float64)); len(items) == 0 || len(items) != min(total, 100) {
		t.Errorf("the busy farm has %v spools, and shows %d", spools["total"], len(items))
	}
	for _, item := range items {
		spool := item.(map[string]any)
		_, usage := c.call(t, token, "GET", fmt.Sprintf("/api/v1/spools/%v/usage", spool["id"]), nil)
		sum := 0.0
		for _, entry := range usage["items"].([]any) {
			sum += entry.(map[string]any)["change_grams"].(float64)
		}
		if sum != spool["remaining_weight_grams"] {
			t.Errorf("spool %v has %v left, its ledger says %v", spool["id"], spool["remaining_weight_grams"], sum)
		}
	}
}

const farmEnv = "RATE_LIMIT_PER_MINUTE=0"

func testBackupCopy(t *testing.T, p program) {
	home := tempDir(t)
	env := []string{"DATA_DIR=" + home + "/data", farmEnv, "RATE_LIMIT_PER_HOUR=0"}
	c := p.start(t, env)
	token := p.admin(t, c, env, "farm", "ada@farm.example")
	stock(t, c, token)
	want := everything(t, c, token)
	c.stop(t, syscall.SIGTERM)

	shell(t, home, block(t, "sh", "cp -a data"))
	check(t, os.RemoveAll(home+"/data"))
	check(t, os.Rename(home+"/backup", home+"/data"))
	c = p.start(t, env)
	alike(t, want, everything(t, c, token)) // the token too is as good as before
	c.stop(t, syscall.SIGTERM)
}

func testBackupPrivate(t *testing.T, p program) {
	home, other := tempDir(t), tempDir(t)
	env := []string{"DATA_DIR=" + home + "/data", farmEnv, "RATE_LIMIT_PER_HOUR=0"}
	c := p.start(t, env)
	token, busyToken := p.admin(t, c, env, "farm", "ada@farm.example"), p.admin(t, c, env, "busy farm", "bob@farm.example")
	stock(t, c, token)
	want := everything(t, c, token)
	end := busy(t, c, busyToken)
	shell(t, home, block(t, "sh", "pg_dump -d \"$SUPER\""))
	end()
	alike(t, want, everything(t, c, token))
	c.stop(t, syscall.SIGTERM)

	// An empty cluster, elsewhere.
	env[0] = "DATA_DIR=" + other + "/data"
	c = p.start(t, env)
	shell(t, other, fmt.Sprintf("cp -a %s/farm.dump %[1]s/jwt-secret .", home))
	shell(t, other, block(t, "sh", "pg_restore -d \"$SUPER\""))
	c.stop(t, syscall.SIGTERM)
	c = p.start(t, env)
	alike(t, want, everything(t, c, token))
	consistent(t, c, c.login(t, "bob@farm.example", "a password for tests"))
	c.createSpool(t, token) // rights and counters are back too
	if log := c.stderr.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("after the restore:\n%s", log)
	}
	c.stop(t, syscall.SIGTERM)
}

func testBackupOwn(t *testing.T, p program) {
	// Two clusters of their own, for roles belong to a cluster.
	type cluster struct{ admin, rest string }
	var clusters [2]cluster
	for i := range clusters {
		s, err := local.Start(t.Context(), local.Options{Dir: tempDir(t), Throwaway: true})
		check(t, err)
		t.Cleanup(func() { check(t, s.Stop(context.Background())) })
		_, rest, _ := strings.Cut(s.SuperURL(), "@/spoolwright?")
		clusters[i] = cluster{s.SuperURL(), rest}
		for _, statement := range strings.Split(block(t, "sql", "CREATE ROLE farm_owner"), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" && statement != "CREATE ROLE spoolwright_app NOLOGIN" { // which this cluster has
				execSQL(t, s.SuperURL(), statement)
			}
		}
	}
	url := func(c cluster, login string) string { return "postgres://" + login + "@/farm?" + c.rest }
	settings := func(c cluster) []string {
		return []string{"DATABASE_URL=" + url(c, "farm_service:service-password"), "MIGRATE_DATABASE_URL=" + url(c, "farm_owner:owner-password"), secretEnv, farmEnv, "RATE_LIMIT_PER_HOUR=0"}
	}
	home := tempDir(t)
	before, after := clusters[0], clusters[1]
	execSQL(t, before.admin, strings.Split(strings.TrimSpace(block(t, "sql", "CREATE ROLE farm_backup")), "\n")...)

	env := settings(before)
	c := p.start(t, env)
	token, busyToken := p.admin(t, c, env, "farm", "ada@farm.example"), p.admin(t, c, env, "busy farm", "bob@farm.example")
	stock(t, c, token)
	want := everything(t, c, token)
	end := busy(t, c, busyToken)
	shell(t, home, block(t, "sh", "pg_dump -d \"$BACKUP\""), "BACKUP="+url(before, "farm_backup:backup-password"))
	end()
	c.stop(t, syscall.SIGTERM)

	super := strings.Replace(after.admin, "@/spoolwright?", "@/farm?", 1)
	shell(t, home, block(t, "sh", "pg_restore -d \"$ADMIN\""), "ADMIN="+super)
	c = p.start(t, settings(after))
	alike(t, want, everything(t, c, token))
	consistent(t, c, c.login(t, "bob@farm.example", "a password for tests"))
	c.createSpool(t, token)
	if log := c.stderr.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("after the restore:\n%s", log)
	}
	c.stop(t, syscall.SIGTERM)

	// The owner is bound to row-level security: its dump would be empty, and so PostgreSQL refuses to make one.
	if out, err := exec.Command("bash", "-c", "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -1) pg_dump -d \"$0\"", url(before, "farm_owner:owner-password")).CombinedOutput(); err == nil || !strings.Contains(string(out), "row-level security") {
		t.Errorf("a dump by the owner: %v %.500s", err, out)
	}
}
