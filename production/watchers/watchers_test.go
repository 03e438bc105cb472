package watchers_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/production/watch"
	"spoolwright/production/watch/watchtest"
	"spoolwright/production/watchers"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	path   = "/api/v1/printers"
	states = "/api/v1/printer-states"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// serve runs the watcher of a service until end is called.
func serve(t *testing.T, api *testkit.API, log io.Writer) (end func()) {
	t.Helper()
	dial := watchers.Dial(loopback)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	s := watchers.Service{API: api.Server, DB: api.DB, Dial: dial, Log: slog.New(slog.NewTextHandler(log, nil)),
		Connections: printers.NewConnections(api.DB, []string{testkit.Secret}, dial)}
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	return func() { cancel(); <-ended }
}

// The service watches the printers of the farms with connections: a job starts and completes a run, also while the
// service stops and starts again; another address counts within seconds, and without a connection nobody watches.
func TestService(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{DB: testkit.Database(t, db.Config{})}, testkit.Features...)
	c, other := api.Tenant(t).User(t, "admin"), api.Tenant(t).User(t, "admin")
	printer := c.Post(t, path, j{"name": "Voron"}).Want(201).ID()
	const secret = "0123456789abcdef0123456789abcdef"
	fake, second := &watchtest.Moonraker{Key: secret}, &watchtest.Moonraker{}
	fake.Klipper(true)
	second.Klipper(true)
	fake.Spoolman = "https://x:swk_key@farm.example/spoolman"
	spool := c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	fake.Activate(spool.Value("number"))
	h, h2 := httptest.NewServer(fake), httptest.NewServer(second)
	t.Cleanup(h.Close)
	t.Cleanup(h2.Close)
	at := path + "/" + printer + "/connection"
	c.Do(t, "PUT", at, j{"kind": "moonraker", "address": h.URL, "secret": secret}).Want(200)
	var log bytes.Buffer
	end := serve(t, api, &log)
	shows := func(field, want string) func() bool {
		return func() bool {
			a := c.Get(t, states+"?state=idle,printing").Want(200)
			return a.Text("total") == "1" && (!strings.HasPrefix(field, "job.") || a.Value("items.0.job") != nil) &&
				a.Text("items.0."+field) == want
		}
	}
	testkit.Eventually(t, "the printer is idle", shows("state", "idle"))
	c.Get(t, path+"/"+printer).Want(200).Shows(map[string]string{"loaded.0.spool_id": spool.ID()})

	print := func(m *watchtest.Moonraker, state, file, job, row string, mm float64) {
		m.Row(job, 1.7e9, file, row, 90, mm)
		m.Update("print_stats", watchtest.Fields{"state": state, "filename": file, "total_duration": 90.0,
			"filament_used": mm})
	}
	print(fake, "printing", "dragon.gcode", "000001", "in_progress", 100)
	testkit.Eventually(t, "it prints", shows("state", "printing"))
	run := c.Get(t, states).Want(200).Text("items.0.run_id")
	c.Get(t, "/api/v1/production-runs/"+run).Want(200).Shows(map[string]string{"status": "in_progress",
		"notes": "dragon.gcode"})
	end()
	testkit.Contains(t, log.String(), "WATCH_NETWORKS", "no warning that all farms share the networks: %s", &log)
	end = serve(t, api, io.Discard)
	print(fake, "complete", "dragon.gcode", "000001", "completed", 2000)
	testkit.Eventually(t, "the job has ended", shows("job.outcome", "completed"))
	c.Get(t, states).Want(200).Shows(map[string]string{"total": "1", "items.0.run_id": run, "items.0.watched": "true"})
	c.Get(t, "/api/v1/production-runs").Want(200).Shows(map[string]string{"total": "1"})

	print(second, "printing", "boat.gcode", "000007", "in_progress", 100)
	c.Do(t, "PUT", at, j{"kind": "moonraker", "address": h2.URL}).Want(200)
	testkit.Eventually(t, "the other address counts", shows("job.file", "boat.gcode"))
	c.Delete(t, at).Want(204)
	print(second, "complete", "boat.gcode", "000007", "completed", 200)
	end()
	c.Get(t, states).Want(200).Shows(map[string]string{"items.0.job.file": "boat.gcode"})
	other.Get(t, states).Want(200).Shows(map[string]string{"total": "0"})
}

// The certificate of a Bambu is stored when it is seen first. A test of the connection says what is wrong with another.
func TestCertificate(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{DB: testkit.Database(t, db.Config{})}, testkit.Features...)
	tenant := api.Tenant(t)
	c := tenant.User(t, "admin")
	at := path + "/" + c.Post(t, path, j{"name": "P1S"}).Want(201).ID() + "/connection"
	listen := func(fake *watchtest.Bambu) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Check(t, err)
		t.Cleanup(func() { l.Close() })
		go fake.Serve(l)
		fake.Send(watchtest.Fields{"gcode_state": "IDLE"})
		return l.Addr().String()
	}
	first := listen(&watchtest.Bambu{Serial: "01P00A123", Code: "12345678"})
	bambu := j{"kind": "bambu", "address": first, "serial": "01P00A123", "secret": "12345678"}
	c.Do(t, "PUT", at, bambu).Want(200)
	seen := c.Post(t, at+"/test", nil).Want(200)
	seen.Shows(map[string]string{"ok": "true", "problem": "null"})
	c.Get(t, at).Want(200).Shows(map[string]string{"fingerprint": "null"})
	var log bytes.Buffer
	end := serve(t, api, &log)
	testkit.Eventually(t, "the certificate is stored", func() bool {
		return c.Get(t, at).Want(200).Text("fingerprint") == seen.Text("fingerprint")
	})
	end()
	if log.Len() > 0 {
		t.Errorf("the log of a service with one farm: %s", &log)
	}

	again := listen(&watchtest.Bambu{Serial: "01P00A123", Code: "12345678"})
	bambu["address"], bambu["fingerprint"] = again, seen.Text("fingerprint")
	c.Do(t, "PUT", at, bambu).Want(200)
	changed := c.Post(t, at+"/test", nil).Want(200)
	changed.Shows(map[string]string{"ok": "false", "problem": "certificate"})
	bambu["fingerprint"] = changed.Text("fingerprint")
	c.Do(t, "PUT", at, bambu).Want(200)
	c.Post(t, at+"/test", nil).Want(200).Shows(map[string]string{"ok": "true"})
	bambu["secret"] = "00000000"
	c.Do(t, "PUT", at, bambu).Want(200)
	wrong := c.Post(t, at+"/test", nil).Want(200)
	wrong.Shows(map[string]string{"ok": "false", "problem": "key"})
	testkit.Lacks(t, string(wrong.Body), "00000000", "the response has the secret")
	tenant.User(t, "operator").Post(t, at+"/test", nil).WantError(403, "FORBIDDEN")
	api.Tenant(t).User(t, "admin").Post(t, at+"/test", nil).WantError(404, "NOT_FOUND")
}

// The service connects to no address outside of the networks of WATCH_NETWORKS, and does not test without WATCH.
func TestNetworks(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")}
	for _, address := range []string{"1.1.1.1:9", "169.254.169.254:80", "[2606:4700:4700::1111]:9"} {
		_, err := watchers.Dial(networks)(t.Context(), "tcp", address)
		if problem, ok := errors.AsType[*watch.Problem](err); !ok || problem.Code != "network" {
			t.Errorf("%s: %v", address, err)
		}
	}
	for dial, want := range map[bool]string{true: "", false: "WATCH_OFF"} {
		features := testkit.Features[:len(testkit.Features)-1]
		api := testkit.New(t, testkit.Options{}, append(features[:len(features):len(features)],
			func(d *db.DB) []server.Route {
				if dial {
					return printers.NewConnections(d, []string{testkit.Secret}, watchers.Dial(networks)).Routes()
				}
				return printers.NewConnections(d, []string{testkit.Secret}, nil).Routes()
			})...)
		c := api.Tenant(t).User(t, "admin")
		h := httptest.NewServer(&watchtest.Moonraker{})
		t.Cleanup(h.Close)
		at := path + "/" + c.Post(t, path, j{"name": "Voron"}).Want(201).ID() + "/connection"
		c.Do(t, "PUT", at, j{"kind": "moonraker", "address": h.URL}).Want(200)
		a := c.Post(t, at+"/test", nil)
		if want != "" {
			a.WantError(409, want)
			continue
		}
		a.Want(200).Shows(map[string]string{"ok": "false", "problem": "network"})
		testkit.Contains(t, a.Text("text"), "WATCH_NETWORKS", "the text of the test")
	}
}
