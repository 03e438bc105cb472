package blackbox_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// TestKeyRoles checks for each operation and each role of API keys: it works if the access level of the role suffices,
// and otherwise it is rejected without an effect. No key can call the operations on accounts and keys.
func TestKeyRoles(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	rejecting := 0
	for _, op := range w.operations {
		if op.UsersOnly {
			rejecting++
		}
		for _, prefix := range []string{"auth", "users", "api-keys", "webhooks", "shops"} {
			if pathParts(op.Path())[2] == prefix && !op.UsersOnly {
				t.Errorf("%s accepts API keys", op.Pattern)
			}
		}
	}
	if rejecting < 15 || rejecting == len(w.operations) {
		t.Errorf("%d of %d operations reject keys", rejecting, len(w.operations))
	}
	levels := map[string]server.Access{"viewer": server.Read, "operator": server.Write, "printer": server.Public,
		"watcher": server.Public}
	rejects := func(op *operation, role string) bool {
		return op.UsersOnly || op.Access > levels[role] && !(role == "watcher" && op.Watchers)
	}
	f := w.newFullFixture(t).prepareBodies(t)
	keys := map[string]*testkit.Client{}
	for role := range levels {
		keys[role] = f.usedKey(t, role)
	}
	before := f.snapshot(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		for role, key := range keys {
			if rejects(op, role) {
				f.do(t, key, op, f.path(t, op.Path()), f.body(t, op)).WantError(403, "FORBIDDEN")
			}
		}
	})
	f.wantUnchanged(t, before)
	accepts := func(op *operation) bool { return !rejects(op, "operator") }
	w.forEach(t, accepts, func(t *testing.T, op *operation) {
		t.Parallel()
		f, path, body := w.newRequest(t, op)
		for _, role := range []string{"viewer", "operator", "watcher"} {
			if rejects(op, role) {
				continue
			}
			if a := f.do(t, f.usedKey(t, role), op, path, body); a.Status >= 300 {
				t.Errorf("%s with a key of the role %s: %d %s", a.What, role, a.Status, a.Body)
			}
		}
	})
}

// usedKey creates an API key whose last_used_at is in the future, so that requests with it do not change it. The
// instance knows the key.
func (f *fixture) usedKey(t *testing.T, role string) *testkit.Client {
	t.Helper()
	key := f.tenant.Key(t, role)
	err := f.api.DB.Write(db.As(context.Background(), db.Actor{Tenant: f.tenant.ID}),
		db.SQL(`update api_keys set last_used_at = now() + interval '1 day' where id = $1`, key.Actor.APIKey))
	check(t, err)
	key.Get(t, "/api/v1/nothing").WantError(404, "NOT_FOUND")
	return key
}

// TestInvalidKeys checks that no operation accepts a key that is forged, truncated, expired or revoked, or that is
// sent beside a token, and that a key in the query has no effect.
func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	ctx := db.As(context.Background(), db.Actor{Tenant: f.tenant.ID})
	change := func(columns string) *testkit.Client {
		t.Helper()
		c := f.usedKey(t, "operator")
		check(t, w.api.DB.Write(ctx, db.SQL(`update api_keys set `+columns+` where id = $1`,
			c.Actor.APIKey)))
		return c
	}
	valid := f.usedKey(t, "operator")
	secret := valid.Header.Get("X-API-Key")
	other := "x"
	if secret[20] == 'x' {
		other = "y"
	}
	clients := map[string]*testkit.Client{
		"expired":        change(`expires_at = now()`),
		"revoked":        change(`revoked_at = now()`),
		"replaced":       change(`hash = sha256('')`),
		"truncated":      valid.With("X-API-Key", secret[:len(secret)-1]),
		"forged":         valid.With("X-API-Key", secret[:20]+other+secret[21:]),
		"with a token":   valid.With("Authorization", "Bearer "+f.admin.Token),
		"invalid, token": f.admin.With("X-API-Key", "x"),
	}
	before := f.snapshot(t)
	w.forEach(t, isProtected, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for name, c := range clients {
			a := f.do(t, c, op, path, body)
			// An instance does not read the database to reject a key that it knows for its role.
			known := name == "expired" || name == "revoked" || name == "replaced"
			if known && (op.UsersOnly || op.Access > server.Write) && a.Status == 403 {
				continue
			}
			if a.Status != 401 || a.Text("code") != "INVALID_API_KEY" || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %s: %d %s", name, a.What, a.Status, a.Body)
			}
		}
		f.do(t, w.api.Anonymous(), op, path+"?X-API-Key="+secret+"&api_key="+secret, body).
			WantError(401, "INVALID_TOKEN")
	})
	f.wantUnchanged(t, before)
}

// TestKeysOfOtherTenants checks that a key sees no other tenant's resources, and that the response to their ids equals
// that to ids that do not exist.
func TestKeysOfOtherTenants(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	theirs := w.newFullFixture(t).prepareBodies(t)
	before := theirs.snapshot(t)
	acceptsKeys := func(op *operation) bool { return hasID(op) && !op.UsersOnly }
	w.forEach(t, acceptsKeys, func(t *testing.T, op *operation) {
		mine := w.newFixture(t)
		key, body := mine.tenant.Key(t, "operator"), theirs.body(t, op)
		var missing []string
		for _, part := range strings.Split(op.Path(), "{")[1:] {
			if strings.HasPrefix(part, "number}") {
				missing = append(missing, "1")
			} else {
				missing = append(missing, value.NewID())
			}
		}
		want := mine.do(t, key, op, server.PathOf(op.Path(), missing...), body).WantError(404, "NOT_FOUND")
		wantSameResponse(t, want, mine.do(t, key, op, theirs.path(t, op.Path()), body))
	})
	theirs.wantUnchanged(t, before)
}

// testKeys runs the commands of the README that create a key and call the API with it, against the first start of the
// service. After a crash, the time of the last use is still known, and so is the key.
func testKeys(t *testing.T, p program) {
	needTools(t, "curl")
	data := filepath.Join(tempDir(t), "data")
	env := []string{"DATA_DIR=" + data}
	c := p.start(t, env)
	var scripts []string
	for _, b := range fencedBlocks(t, "sh") {
		if strings.Contains(b.text, "key add") {
			scripts = append(scripts, b.text)
		}
	}
	if len(scripts) != 2 || scripts[0] != scripts[1] {
		t.Fatalf("README.md and docs/api-keys.md do not have the same commands: %q", scripts)
	}
	script := scripts[0]
	for old, new := range map[string]string{"go run .": string(p), "http://127.0.0.1:8000": c.url} {
		if n := strings.Count(script, old); n != 1 {
			t.Fatalf("the block contains %q %d times, want once:\n%s", old, n, script)
		}
		script = strings.Replace(script, old, new, 1)
	}
	bash := exec.Command("bash", "-euc", script+"\necho $KEY")
	bash.Env = processEnv(env)
	out, err := bash.CombinedOutput()
	check(t, err)
	list, key, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(list, `{"items":[],"total":0,`) {
		t.Errorf("the commands print %s", out)
	}
	type info struct {
		ID, Name, Role string
		LastUsedAt     *time.Time `json:"last_used_at"`
	}
	used := func() (k info) {
		t.Helper()
		var keys []info
		check(t, json.Unmarshal([]byte(p.succeeds(t, "", env, "key", "list", "--json")), &keys))
		if len(keys) != 1 {
			t.Fatalf("%+v", keys)
		}
		return keys[0]
	}
	eventually(t, "the use is written", func() bool { return used().LastUsedAt != nil })
	c.signal(syscall.SIGKILL)
	<-c.exited
	k := used()
	if k.LastUsedAt == nil || time.Since(*k.LastUsedAt) > 15*time.Minute ||
		k.Name != "my script" || k.Role != "operator" {
		t.Errorf("after a crash: %+v", k)
	}

	// A regular stop writes the last use exactly.
	c = p.start(t, env)
	before := time.Now()
	curl(t, `curl -s -H "X-API-Key: `+key+`" `+c.url+`/api/v1/spools`)
	c.stop(t, syscall.SIGTERM)
	if k := used(); k.LastUsedAt.Before(before.Add(-time.Second)) {
		t.Errorf("after a stop, the last use was at %v, want %v", k.LastUsedAt, before)
	}
	p.succeeds(t, "", env, "key", "revoke", k.ID)
	c = p.start(t, env)
	answer := curl(t, `curl -s -H "X-API-Key: `+key+`" `+c.url+`/api/v1/spools`)
	testkit.Contains(t, answer, "INVALID_API_KEY", "with a revoked key")
	c.stop(t, syscall.SIGTERM)
}
