package blackbox_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

var webhookEvents = flag.Int("webhooks.events", testkit.InCI(300, 600),
	"number of events that TestWebhookFaults causes")

// TestWebhookFaults kills PostgreSQL and instances of the service while clients cause events. Each event of a write
// that was acknowledged must arrive, also those of a write that was repeated after an error; an event may arrive
// several times, with one id. No event of a rejected write may arrive. The long form is
//
//	go test ./tests/blackbox -run TestWebhookFaults -timeout 0 -long -webhooks.events 100000
func TestWebhookFaults(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	f := newFaultTest(t)
	var mu sync.Mutex
	ids := map[string]map[string]int{} // by reference of the order, requests by webhook-id
	arrived := map[string]bool{}       // by path of the webhook and reference
	problems := make(chan string, 1000)
	report := func(format string, args ...any) {
		select {
		case problems <- fmt.Sprintf(format, args...):
		default:
		}
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct {
			Type string
			Data struct{ Reference string }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil { // the instance was killed while it sent
			w.WriteHeader(400)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if ids[event.Data.Reference] == nil {
			ids[event.Data.Reference] = map[string]int{}
		}
		ids[event.Data.Reference][r.Header.Get("webhook-id")]++
		arrived[r.URL.Path+event.Data.Reference] = true
		if rand.IntN(20) == 0 { // a failure after the receiver has the event
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(receiver.Close)
	for n := range 3 {
		f.instances[0].process.Load().create(t, f.token, "/api/v1/webhooks",
			map[string]any{"url": fmt.Sprint(receiver.URL, "/", n), "events": []string{"order.received"}})
	}

	client := &rigClient{rig: f.rig}
	var sent atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for f.failure() == nil {
				n := sent.Add(1)
				if n > int64(*webhookEvents) {
					return
				}
				order := map[string]any{"source": "shop", "reference": fmt.Sprint("good ", n)}
				a, err := client.send("POST", "/api/v1/orders", "", order, nil)
				if err != nil || a.status != 201 && a.status != 200 {
					f.fail(fmt.Errorf("POST /api/v1/orders: %d %s %v", a.status, a.body, err))
				}
				if n%10 == 0 {
					order["reference"], order["items"] = fmt.Sprint("bad ", n),
						[]any{map[string]any{"sku": "unknown", "quantity": 1}}
					if a, err := client.send("POST", "/api/v1/orders", "", order, nil); err != nil || a.status != 400 {
						f.fail(fmt.Errorf("an order of an unknown product: %d %s %v", a.status, a.body, err))
					}
				}
			}
		})
	}
	kills := 0
	for step := int64(*webhookEvents / 7); kills < 6 && f.failure() == nil; kills++ {
		for at := sent.Load(); at <= step*int64(kills+1) && f.failure() == nil; at = sent.Load() {
			f.eventually(t, "more events", func() bool { return sent.Load() > at })
		}
		if kills%3 == 1 {
			f.killPostmaster(t)
			f.waitForRecovery(t)
			continue
		}
		f.kill(t, f.instances[rand.IntN(faultInstances)])
	}
	wait.Wait()
	check(t, f.failure())
	missing := 0
	begin := time.Now()
	for ; time.Since(begin) < waitTimeout; time.Sleep(100 * time.Millisecond) { // the report names what is missing
		missing = 0
		mu.Lock()
		for n := range 3 * *webhookEvents {
			if !arrived[fmt.Sprintf("/%dgood %d", n%3, n/3+1)] {
				missing++
			}
		}
		mu.Unlock()
		if missing == 0 {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	duplicates := 0
	for reference, byID := range ids {
		duplicates += max(0, total(byID)-3)
		if len(byID) != 1 {
			report("the event of %s has %d ids", reference, len(byID))
		}
		if len(reference) < 4 || reference[:4] == "bad " {
			report("an event of the rejected order %s arrived", reference)
		}
	}
	if missing > 0 || len(ids) != *webhookEvents {
		t.Errorf("%d deliveries are missing; %d of %d events arrived", missing, len(ids), *webhookEvents)
	}
	close(problems)
	for problem := range problems {
		t.Error(problem)
	}
	t.Logf("%d events for 3 webhooks, %d kills, %d requests without response, %d repeated deliveries, the last after %v",
		*webhookEvents, kills, f.unanswered.Load(), duplicates, time.Since(begin).Round(time.Second))
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
