package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// addressLog is a log that keeps the address of the last line.
type addressLog struct {
	slog.Handler
	address string
}

func (l *addressLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *addressLog) Handle(_ context.Context, line slog.Record) error {
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "address" {
			l.address = a.Value.String()
		}
		return true
	})
	return nil
}

// loggedAddress returns a function that sends a request and returns the client's address in the log of a service with
// the trusted proxies.
func loggedAddress(tb testing.TB, trusted string) func(peer, xff string) string {
	tb.Helper()
	prefixes, err := server.ParsePrefixes(trusted)
	testkit.Check(tb, err)
	log := &addressLog{Handler: slog.DiscardHandler}
	s := server.New(server.Config{TrustedProxies: prefixes, Log: slog.New(log)})
	return func(peer, xff string) string {
		r := httptest.NewRequest("GET", "/healthz", nil)
		r.RemoteAddr = peer
		if xff != "" {
			r.Header.Set("X-Forwarded-For", xff)
		}
		log.address = "none"
		s.ServeHTTP(httptest.NewRecorder(), r)
		return log.address
	}
}

func TestClientAddr(t *testing.T) {
	const proxies = "127.0.0.1, ::1, 10.0.0.0/8, fd00::/8, ::ffff:172.16.0.0/108"
	for _, c := range []struct{ peer, xff, trusted, want string }{
		{"192.0.2.1:5000", "", "", "192.0.2.1"},
		{"192.0.2.1:5000", "198.51.100.7", "", "192.0.2.1"},
		{"192.0.2.1:5000", "198.51.100.7", proxies, "192.0.2.1"},
		{"192.0.2.1", "", "", "192.0.2.1"},

		{"127.0.0.1:5000", "", proxies, "127.0.0.1"},
		{"127.0.0.1:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "198.51.100.7, 10.1.2.3", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "1.1.1.1, 198.51.100.7,10.1.2.3 , 10.9.9.9", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "made up, 198.51.100.7", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "10.0.0.1, 10.0.0.2", proxies, "127.0.0.1"},
		{"[::1]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"[::ffff:10.0.0.1]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"172.31.0.1:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"172.32.0.1:5000", "198.51.100.7", proxies, "172.32.0.1"},
		{"10.0.0.1:5000", "198.51.100.7:41234", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "[2001:db8:1:2:3::4]:41234", proxies, "2001:db8:1:2::/64"},

		{"10.0.0.1:5000", "unknown", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.7, garbage, 10.0.0.2", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.7,", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", ",,,,", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.777", proxies, "10.0.0.1"},
		{"@", "198.51.100.7", proxies, "@"},
		{"", "198.51.100.7", proxies, ""},

		{"[2001:db8:1:2:3:4:5:6]:5000", "", "", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::]:5000", "", "", "2001:db8:1:2::/64"},
		{"[2001:db8:1:3::]:5000", "", "", "2001:db8:1:3::/64"},
		{"[::ffff:192.0.2.1]:5000", "", "", "192.0.2.1"},
		{"[fe80::1%eth0]:5000", "", "", "fe80::/64"},
		{"[fd00::1%eth0]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "::ffff:198.51.100.7", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "198.51.100.7", "0.0.0.0/0", "10.0.0.1"},
	} {
		if got := loggedAddress(t, c.trusted)(c.peer, c.xff); got != c.want {
			t.Errorf("the address of %q with %q and trusted %q is %q, want %q", c.peer, c.xff, c.trusted, got, c.want)
		}
	}
}

func TestParsePrefixes(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "[]",
		" , ":                      "[]",
		"10.0.0.1":                 "[10.0.0.1/32]",
		"10.1.2.3/8,":              "[10.0.0.0/8]",
		"::1 , 2001:db8::1/32":     "[::1/128 2001:db8::/32]",
		"::ffff:10.0.0.1":          "[10.0.0.1/32]",
		"::ffff:10.0.0.0/104":      "[10.0.0.0/8]",
		"127.0.0.1,10.0.0.0/8,::1": "[127.0.0.1/32 10.0.0.0/8 ::1/128]",
	} {
		if got, err := server.ParsePrefixes(in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("ParsePrefixes(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"localhost", "10.0.0.0/33", "10.0.0.0/8/8", "10.0.0", "*", "10.0.0.1:80",
		"fe80::1%eth0", "10.0.0.1 10.0.0.2", "1.1.1.1,/8"} {
		got, err := server.ParsePrefixes(in)
		if err == nil || got != nil || !strings.Contains(err.Error(), `"`) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParsePrefixes(%q) = %v, %v; want an error that names it", in, got, err)
		}
	}
}

func FuzzClientAddr(f *testing.F) {
	f.Add("10.0.0.1:5000", "198.51.100.7, 10.0.0.2")
	f.Add("[::1]:1", "[2001:db8::1]:2")
	address := loggedAddress(f, "127.0.0.0/8,::1,10.0.0.0/8")
	f.Fuzz(func(t *testing.T, peer, xff string) {
		got := address(peer, xff)
		if _, err := server.ParsePrefixes(got); err != nil && got != value.Shorten(peer, 64) {
			t.Errorf("the address of %q with %q is %q", peer, xff, got)
		}
	})
}
