package webhooks

import (
	"context"
	"sync/atomic"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// tries counts the tries of this instance.
type tries struct {
	delivered, failed, givenUp atomic.Int64
	took                       server.Histogram
}

// observe counts a try that left its delivery with the status.
func (t *tries) observe(status DeliveryStatus, took time.Duration) {
	switch status {
	case "delivered":
		t.delivered.Add(1)
	case "pending":
		t.failed.Add(1)
	default:
		t.givenUp.Add(1)
	}
	t.took.Observe(took)
}

// stateTimeout limits the time for which metrics wait for the state of the queue. A scrape must not fail because the
// database hangs.
const stateTimeout = 2 * time.Second

// WriteMetrics writes the metrics of the dispatcher. It omits those of the queue if a database does not answer in
// time.
func (s *Service) WriteMetrics(w server.MetricsWriter) {
	const total, duration = "webhook_tries_total", "webhook_try_duration_seconds"
	w.Head(total, "counter", "Tries to deliver an event: delivered, failed (a further try follows), given_up.")
	w.Value(total, `outcome="delivered"`, s.metrics.delivered.Load())
	w.Value(total, `outcome="failed"`, s.metrics.failed.Load())
	w.Value(total, `outcome="given_up"`, s.metrics.givenUp.Load())
	w.Head(duration, "histogram", "Time of a try.")
	w.Histogram(duration, "", &s.metrics.took)

	queues := s.DB.Queues()
	states := make(chan *db.QueueState, len(queues))
	for _, q := range queues {
		go func() {
			state, err := q.State(context.Background())
			if err != nil {
				states <- nil
				return
			}
			states <- &state
		}()
	}
	var sum db.QueueState
	timeout := time.After(stateTimeout)
	for range queues {
		select {
		case <-timeout:
			return
		case state := <-states:
			if state == nil {
				return
			}
			sum.Signals += state.Signals
			sum.Waiting += state.Waiting
			sum.Leased += state.Leased
			sum.Oldest = max(sum.Oldest, state.Oldest)
		}
	}
	const queue, oldest = "webhook_queue", "webhook_queue_oldest_seconds"
	w.Head(queue, "gauge", "Of all instances: new events (at most 1000), webhooks with due deliveries that wait for an "+
		"instance, and those that one works on.")
	w.Value(queue, `state="new"`, sum.Signals)
	w.Value(queue, `state="waiting"`, sum.Waiting)
	w.Value(queue, `state="working"`, sum.Leased)
	w.Head(oldest, "gauge", "Of all instances: for how long the first of the waiting webhooks has had due deliveries.")
	w.Value(oldest, "", sum.Oldest.Seconds())
}
