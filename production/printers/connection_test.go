package printers_test

import (
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/tests/testkit"
)

// A connection of a printer keeps its secret to itself: no response has it, the database has it encrypted, and it never
// goes to another address than that for which it was entered.
func TestConnection(t *testing.T) {
	t.Parallel()
	tenant := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t)
	c := tenant.User(t, "admin")
	printer := path + "/" + c.Post(t, path, j{"name": "Voron"}).Want(201).ID()
	at := printer + "/connection"
	c.Get(t, at).WantError(404, "NOT_FOUND")
	const secret = "0123456789abcdef-secret"
	put := func(body j) *testkit.Response { return c.Do(t, "PUT", at, body) }
	put(j{"kind": "moonraker", "address": "http://10.0.0.7:7125", "secret": secret}).Want(200).
		Shows(map[string]string{"has_secret": "true", "kind": "moonraker", "serial": "null"})
	var sealed []byte
	check := func(want bool, what string) {
		t.Helper()
		a := c.Get(t, at).Want(200)
		testkit.Equal(t, a.Value("has_secret"), any(want), "has_secret %s", what)
		testkit.Lacks(t, string(a.Body), secret, "%s: the response has the secret", what)
		read := db.SQL(`select secret from printer_connections`).Into(&sealed)
		testkit.Check(t, c.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), read))
		testkit.Lacks(t, string(sealed), secret, "%s: the database has the secret in plain text", what)
	}
	check(true, "after it was set")
	put(j{"kind": "moonraker", "address": "http://10.0.0.7:7125"}).Want(200)
	check(true, "after a PUT without it")
	put(j{"kind": "moonraker", "address": "http://10.0.0.8:7125"}).Want(200)
	check(false, "after another address")
	put(j{"kind": "moonraker", "address": "http://10.0.0.8:7125", "secret": secret}).Want(200)
	put(j{"kind": "octoprint", "address": "http://10.0.0.8:7125"}).Want(200)
	check(false, "after another kind")
	put(j{"kind": "octoprint", "address": "http://10.0.0.8:7125", "secret": secret}).Want(200)
	put(j{"kind": "octoprint", "address": "http://10.0.0.8:7125", "secret": nil}).Want(200)
	check(false, "after null")

	print := strings.Repeat("0f", 32)
	bambu := j{"kind": "bambu", "address": "10.0.0.9", "serial": "01P00A123", "secret": "12345678", "fingerprint": print}
	put(bambu).Want(200).Shows(map[string]string{"fingerprint": print, "serial": "01P00A123"})
	put(j{"kind": "bambu", "address": "10.0.0.9", "serial": "01P00A123"}).Want(200).
		Shows(map[string]string{"fingerprint": print, "has_secret": "true"})
	put(j{"kind": "bambu", "address": "10.0.0.9", "serial": "01P00A124"}).Want(200).
		Shows(map[string]string{"fingerprint": "null", "has_secret": "false"})
	for _, x := range []struct {
		field string
		body  j
	}{
		{"address", j{"kind": "moonraker", "address": "http://user:pass@10.0.0.7"}},
		{"address", j{"kind": "moonraker", "address": "http://10.0.0.7/?key=x"}},
		{"address", j{"kind": "moonraker", "address": "ftp://10.0.0.7"}},
		{"address", j{"kind": "bambu", "address": "https://10.0.0.7", "serial": "01P00A123"}},
		{"address", j{"kind": "octoprint", "address": "http://10.0.0.1/a://b"}},
		{"address", j{"kind": "octoprint", "address": "http://10.0.0.1/@b"}},
		{"address", j{"kind": "moonraker", "address": "http://10.0.0.1/ b"}},
		{"address", j{"kind": "bambu", "address": "10.0.0.1/b", "serial": "01P00A123"}},
		{"serial", j{"kind": "bambu", "address": "10.0.0.7", "serial": "../+/#"}},
		{"serial", j{"kind": "bambu", "address": "10.0.0.7"}},
		{"serial", j{"kind": "prusalink", "address": "10.0.0.7", "serial": "x"}},
		{"fingerprint", j{"kind": "bambu", "address": "10.0.0.7", "serial": "01P00A123", "fingerprint": "0F"}},
		{"fingerprint", j{"kind": "octoprint", "address": "10.0.0.7", "fingerprint": print}},
	} {
		put(x.body).Fields(x.field)
	}

	// Only admins, no key, and not for a removed printer or one of another farm.
	for _, role := range []string{"viewer", "operator"} {
		tenant.User(t, role).Get(t, at).WantError(403, "FORBIDDEN")
		tenant.Key(t, role).Do(t, "PUT", at, bambu).WantError(403, "FORBIDDEN")
	}
	other := c.API.Tenant(t).User(t, "admin")
	other.Get(t, at).WantError(404, "NOT_FOUND")
	other.Do(t, "PUT", at, bambu).WantError(404, "NOT_FOUND")
	other.Delete(t, at).WantError(404, "NOT_FOUND")
	c.Post(t, "/api/v1/production-runs", j{"printer_name": "Voron"}).Want(201)
	c.Delete(t, printer).Want(204)
	c.Get(t, at).WantError(404, "NOT_FOUND")
	put(bambu).WantError(404, "NOT_FOUND")
	c.Delete(t, at).WantError(404, "NOT_FOUND")
	c.Post(t, printer+"/restore", nil).Want(200)
	c.Get(t, at).Want(200)
	c.Delete(t, at).Want(204)
	c.Get(t, at).WantError(404, "NOT_FOUND")
}

// A key of the role watcher reads the names of printers and nothing else, and has limits of its own.
func TestWatcherKey(t *testing.T) {
	t.Parallel()
	tenant := testkit.New(t, testkit.Options{PerMinute: 100, PerHour: 1000}, testkit.Features...).Tenant(t)
	c := tenant.User(t, "operator")
	c.Post(t, path, j{"name": "Voron"}).Want(201)
	watcher := tenant.Key(t, "watcher")
	a := watcher.Get(t, path+"/names").Want(200)
	a.Shows(map[string]string{"total": "1", "items.0.name": "Voron"})
	testkit.Equal(t, a.Header.Get("X-RateLimit-Limit"), "600", "the limit")
	for _, at := range []string{path, "/api/v1/spools", "/api/v1/orders", "/api/v1/production-runs"} {
		watcher.Get(t, at).WantError(403, "FORBIDDEN")
	}
	watcher.Post(t, path, j{"name": "x"}).WantError(403, "FORBIDDEN")
	watcher.Get(t, "/api/v1/api-keys/current").Want(200).Shows(map[string]string{"role": "watcher"})
}

// When JWT_SECRET changes, all configured secrets decrypt the secrets of connections, and Maintain encrypts them with
// the first one. A secret that none decrypts stays, and the test of the connection says so.
func TestConnectionKeyRotation(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t).User(t, "admin")
	at := path + "/" + c.Post(t, path, j{"name": "Voron"}).Want(201).ID() + "/connection"
	c.Do(t, "PUT", at, j{"kind": "octoprint", "address": "10.0.0.8", "secret": "0123456789"}).Want(200)
	tag := c.Get(t, at).Header.Get("ETag")
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	sealed := func() (text string) {
		read := db.SQL(`select encode(secret, 'hex') from printer_connections`).Into(&text)
		testkit.Check(t, c.API.DB.Read(ctx, read))
		return text
	}
	const newer = "a newer secret for tests, of more than 32 bytes"
	before := sealed()
	with := func(secrets ...string) *printers.Connections { return printers.NewConnections(c.API.DB, secrets, nil) }
	for _, secrets := range [][]string{{newer}, {testkit.Secret, newer}} {
		testkit.Check(t, with(secrets...).Maintain(t.Context()))
		testkit.Equal(t, sealed(), before, "the encrypted secret")
	}
	all, err := with(newer).Watched(ctx)
	testkit.Equal(t, err != nil && len(all) == 1 && all[0].Secret == "", true, "the wrong secret decrypts: %v", err)
	testkit.Check(t, with(newer, testkit.Secret).Maintain(t.Context()))
	all, err = with(newer).Watched(ctx)
	testkit.Check(t, err)
	testkit.Equal(t, all[0].Secret, "0123456789", "the secret")
	testkit.Equal(t, c.Get(t, at).Header.Get("ETag"), tag, "the version")
}
