package cli

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// Passwords are not encrypted without TLS, so a log line warns if other machines can reach such an address.
func TestWarningOfPublicAddress(t *testing.T) {
	t.Parallel()
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}
	for _, test := range []struct {
		config Config
		want   bool
	}{
		{Config{Listen: "127.0.0.1:0"}, false}, {Config{Listen: "0.0.0.0:0"}, true}, {Config{Listen: ":0"}, true},
		{Config{Listen: ":0", TLSSelfSigned: true}, false}, {Config{Listen: ":0", TrustedProxies: proxy}, false},
	} {
		var log bytes.Buffer
		test.config.Log = slog.New(slog.NewTextHandler(&log, nil))
		l, err := Listen(test.config)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if got := strings.Contains(log.String(), "LISTEN_ADDR accepts connections from other machines"); got != test.want {
			t.Errorf("%+v: warned is %v, want %v", test.config, got, test.want)
		}
	}
}

// METRICS_ADDR needs no token, so a log line warns if other machines can reach it.
func TestWarningOfPublicMetrics(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"": false, "127.0.0.1:0": false, "0.0.0.0:0": true, ":0": true} {
		var log bytes.Buffer
		l, err := Listen(Config{Listen: "127.0.0.1:0", MetricsAddr: address,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if got := strings.Contains(log.String(), "METRICS_ADDR accepts connections from other machines"); got != want {
			t.Errorf("METRICS_ADDR=%q: warned is %v, want %v", address, got, want)
		}
	}
}
