package watchers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spoolwright/cli"
	"spoolwright/production/watch/watchtest"
	"spoolwright/production/watchers"
	"spoolwright/tests/testkit"
)

// command runs the command watch with a file until ctx ends, and returns its error and what it has written.
func command(t *testing.T, ctx context.Context, file any, args ...string) (string, error) {
	t.Helper()
	text, err := json.Marshal(file)
	testkit.Check(t, err)
	name := filepath.Join(t.TempDir(), "watch.json")
	testkit.Check(t, os.WriteFile(name, text, 0o600))
	var out bytes.Buffer
	call := &cli.Call{Out: &out, Err: &out, Config: cli.Config{Log: slog.New(slog.NewTextHandler(&out, nil))}}
	_, run, err := cli.Parse(watchers.Commands, append([]string{"watch", name}, args...), call)
	testkit.Check(t, err)
	err = run(ctx, call)
	return out.String(), err
}

// A watcher in the network of a farm sends the states of the printers in its file, and keeps certificates in another
// file. A second one waits. Neither its messages nor the service have the keys of the printers.
func TestCommand(t *testing.T) {
	t.Parallel()
	tenant := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t)
	c, key := tenant.User(t, "admin"), tenant.User(t, "admin").Post(t, "/api/v1/api-keys",
		j{"name": "watch", "role": "watcher"}).Want(201).Text("key")
	c.Post(t, path, j{"name": "Voron"}).Want(201)
	c.Post(t, path, j{"name": "P1S"}).Want(201)
	voron := &watchtest.Moonraker{Key: "a-key-of-a-printer"}
	voron.Klipper(true)
	h := httptest.NewServer(voron)
	t.Cleanup(h.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	t.Cleanup(func() { l.Close() })
	p1s := &watchtest.Bambu{Serial: "01P00A123", Code: "12345678"}
	go p1s.Serve(l)
	p1s.Send(watchtest.Fields{"gcode_state": "IDLE"})
	file := j{"service": c.API.URL, "key": key, "name": "one", "printers": []j{
		{"printer": "voron", "kind": "moonraker", "address": h.URL, "secret": "a-key-of-a-printer"},
		{"printer": "P1S", "kind": "bambu", "address": l.Addr().String(), "serial": "01P00A123", "secret": "12345678"},
		{"printer": "X1", "kind": "octoprint", "address": "127.0.0.1:1"}}}

	tested, err := command(t, t.Context(), file, "--test")
	if err == nil || !strings.Contains(err.Error(), "1 of 3") ||
		!strings.Contains(tested, "voron: idle\nP1S: idle\nX1: ") {
		t.Errorf("the test says %q: %v", tested, err)
	}
	pins := filepath.Join(t.TempDir(), "pins")
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1)
	go func() {
		out, err := command(t, ctx, file, "--certificates", pins)
		if err != nil {
			t.Error(err)
		}
		said <- out
	}()
	testkit.Eventually(t, "both printers are idle", func() bool {
		return c.Get(t, states+"?state=idle").Want(200).Text("total") == "2"
	})
	cancel()
	out := <-said
	if !strings.Contains(out, "X1") || strings.Contains(out, "a-key") || strings.Contains(out, "12345678") ||
		strings.Contains(out, key) {
		t.Errorf("the watcher says %s", out)
	}
	if text, err := os.ReadFile(pins); err != nil || !strings.Contains(string(text), "01P00A123") {
		t.Errorf("the certificates are %s %v", text, err)
	}

	for what, change := range map[string]j{
		"service":                  {"service": "http://farm.example"},
		"key: is missing":          {"key": ""},
		"printers[0]":              {"printers": []j{{"printer": "x", "kind": "x", "address": "x"}}},
		"unknown field":            {"printer": "x"},
		"the farm has none of the": {"printers": []j{{"printer": "x", "kind": "octoprint", "address": "x"}}},
		"refuses the key":          {"key": "swk_x"},
	} {
		other := j{}
		for name, v := range file {
			other[name] = v
		}
		for name, v := range change {
			other[name] = v
		}
		limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := command(t, limited, other)
		cancel()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the error is %v", what, err)
		}
		_, misuse := errors.AsType[cli.Misuse](err)
		testkit.Equal(t, misuse, !strings.HasPrefix(what, "the ") && !strings.HasPrefix(what, "refuses"), "%s", what)
	}
}
