package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

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
