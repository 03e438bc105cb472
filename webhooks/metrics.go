package webhooks

import (
	"context"
	"sync/atomic"
	"time"

	"spoolwright/db"
	"spoolwright/server/metrics"
)

// tries counts the tries of this instance.
type tries struct {
	delivered, failed, givenUp atomic.Int64
	took                       metrics.Histogram
}

// observe counts a try after which its delivery has the status.
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

// stateTimeout limits the wait for the state of the queue. A scrape of the metrics must not fail because the database
// hangs.
const stateTimeout = 2 * time.Second

// WriteMetrics writes the metrics of the dispatcher. It omits the metrics of the queue if the database does not answer
// in time.
func (s *Service) WriteMetrics(w metrics.Writer) {
	const total, duration = "webhook_tries_total", "webhook_try_duration_seconds"
	w.Head(total, "counter", "Tries to deliver an event: delivered, failed (a further try follows), given_up.")
	w.Value(total, `outcome="delivered"`, s.metrics.delivered.Load())
	w.Value(total, `outcome="failed"`, s.metrics.failed.Load())
	w.Value(total, `outcome="given_up"`, s.metrics.givenUp.Load())
	w.Head(duration, "histogram", "Time of a try.")
	w.Histogram(duration, "", &s.metrics.took)

	states := make(chan db.QueueState, 1)
	go func() {
		defer close(states)
		if state, err := s.DB.QueueState(context.Background()); err == nil {
			states <- state
		}
	}()
	var state db.QueueState
	select {
	case <-time.After(stateTimeout):
		return
	case read, ok := <-states:
		if !ok {
			return
		}
		state = read
	}
	const queue, oldest = "webhook_queue", "webhook_queue_oldest_seconds"
	w.Head(queue, "gauge", "Of all instances: new events (at most 1000), webhooks with due deliveries that wait for an "+
		"instance, and those that one works on.")
	w.Value(queue, `state="new"`, state.Signals)
	w.Value(queue, `state="waiting"`, state.Waiting)
	w.Value(queue, `state="working"`, state.Leased)
	w.Head(oldest, "gauge", "Of all instances: the time for which the first of the waiting webhooks has had due "+
		"deliveries.")
	w.Value(oldest, "", state.Oldest.Seconds())
}
