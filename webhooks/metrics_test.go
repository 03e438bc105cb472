package webhooks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server/metrics"
	"spoolwright/tests/testkit"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// scrape returns the lines of /metrics that begin with webhook_.
func scrape(s *webhooks.Service) string {
	recorder := httptest.NewRecorder()
	metrics.New("test", nil, s.WriteMetrics).Handler().ServeHTTP(recorder,
		httptest.NewRequest("GET", "/metrics", nil))
	var all strings.Builder
	for line := range strings.Lines(recorder.Body.String()) {
		if strings.HasPrefix(line, "webhook_") {
			all.WriteString(line)
		}
	}
	return all.String()
}

func wantMetrics(t *testing.T, s *webhooks.Service, want ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the metrics contain all of %q", want), func() bool {
		text := "\n" + scrape(s)
		return !slices.ContainsFunc(want, func(line string) bool { return !strings.Contains(text, "\n"+line) })
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{MaxConns: 8})
	f := startWithout(t, d, nil)
	service := webhooks.New(f.config)
	wantMetrics(t, service, "webhook_tries_total{outcome=\"delivered\"} 0\n", "webhook_try_duration_seconds_count 0\n",
		"webhook_queue{state=\"new\"} 0\n", "webhook_queue_oldest_seconds 0\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { service.Run(ctx); close(ended) }()
	admin := f.Tenant(t).User(t, "admin")
	good := hooksPath + f.webhook(t, admin, receive(t, nil).URL).ID()
	refuses := receive(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(30 * time.Millisecond) // so that the sum of durations is at least this
		w.WriteHeader(500)
	})
	bad := hooksPath + f.webhook(t, admin, refuses.URL).ID()
	for range 3 {
		admin.Post(t, good+"/test", nil).Want(200)
	}
	admin.Post(t, bad+"/test", nil).Want(200)
	wantMetrics(t, service, "webhook_tries_total{outcome=\"delivered\"} 3\n",
		"webhook_tries_total{outcome=\"failed\"} 2\n",
		"webhook_tries_total{outcome=\"given_up\"} 1\n", "webhook_try_duration_seconds_bucket{le=\"0.025\"} ",
		"webhook_try_duration_seconds_count 6\n", "webhook_try_duration_seconds_sum ",
		"webhook_queue{state=\"waiting\"} 0\n", "webhook_queue{state=\"working\"} 0\n")
	cancel()
	<-ended

	admin.Post(t, good+"/test", nil).Want(200)
	wantMetrics(t, service, "webhook_queue{state=\"new\"} 1\n", "webhook_queue{state=\"waiting\"} 0\n")
	claim := func(most int, want int) {
		t.Helper()
		if items, err := d.Claim(t.Context(), db.Webhook, value.NewID(), most, time.Hour); err != nil || len(items) != want {
			t.Fatal(items, err)
		}
	}
	claim(0, 0)
	wantMetrics(t, service, "webhook_queue{state=\"new\"} 0\n", "webhook_queue{state=\"waiting\"} 1\n",
		"webhook_queue{state=\"working\"} 0\n")
	testkit.Eventually(t, "the item is one second old", func() bool {
		var seconds float64
		_, value, _ := strings.Cut(scrape(service), "\nwebhook_queue_oldest_seconds ")
		fmt.Sscan(value, &seconds)
		return seconds >= 1
	})
	claim(1, 1)
	wantMetrics(t, service, "webhook_queue{state=\"waiting\"} 0\n", "webhook_queue{state=\"working\"} 1\n",
		"webhook_queue_oldest_seconds 0\n")
	testkit.ExecURL(t, f.super(t), `update queue_items set leased_until = now()`)
	wantMetrics(t, service, "webhook_queue{state=\"waiting\"} 1\n", "webhook_queue{state=\"working\"} 0\n")
	if text := scrape(service); strings.Contains(text, admin.Actor.Tenant) || strings.Count(text, "\n") > 40 {
		t.Errorf("the metrics name tenants or are many:\n%s", text)
	}
	testkit.ExecURL(t, f.super(t), `revoke execute on function queue_state from spoolwright_app`)
	if text := scrape(service); strings.Contains(text, "webhook_queue") ||
		!strings.Contains(text, "webhook_tries_total") {
		t.Errorf("without the state of the queue:\n%s", text)
	}
}
