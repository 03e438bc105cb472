package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Bounds of the queue. A transition is never dropped: while the queue of a printer is full, its observations do not
// count, as if it were not watched.
const (
	maxPerPrinter = 200
	maxQueued     = 100_000
)

// queue has the States that the Sink does not have yet, in order.
type queue struct {
	mu     sync.Mutex
	states []queued
	counts map[string]int
	taken  int // of the first states, which are being sent
	wake   signal
}

type queued struct {
	State
	transition bool
}

// full reports whether the queue takes no State of the printer. It keeps room for those of one observation.
func (q *queue) full(printer string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[printer] >= maxPerPrinter || len(q.states) >= maxQueued
}

// put adds a State. Progress takes the place of older progress of the printer that is not being sent.
func (q *queue) put(s State, transition bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake.send()
	for i := len(q.states) - 1; i >= q.taken && !transition; i-- {
		if q.states[i].PrinterID == s.PrinterID {
			if q.states[i].transition {
				break
			}
			q.states[i].State = s
			return
		}
	}
	q.states = append(q.states, queued{s, transition})
	q.counts[s.PrinterID]++
}

// take returns the first States to send, at most n.
func (q *queue) take(n int) (list []State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = min(n, len(q.states))
	for _, s := range q.states[:q.taken] {
		list = append(list, s.State)
	}
	return list
}

// done removes the States that were taken and of whose indexes is reports true.
func (q *queue) done(is func(i int) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []queued
	for i, s := range q.states[:q.taken] {
		if !is(i) {
			left = append(left, s)
		} else if q.counts[s.PrinterID]--; q.counts[s.PrinterID] == 0 {
			delete(q.counts, s.PrinterID)
		}
	}
	q.states, q.taken = append(left, q.states[q.taken:]...), 0
}

// deliver sends the States of the queue until ctx ends and the queue is empty or the time for the rest is over.
func (w *Watcher) deliver(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })()
	n, wait := maxBatch, firstRetry
	for last.Err() == nil {
		w.mu.Lock()
		failed := w.failed
		w.mu.Unlock()
		if failed && pause(ctx, sendEvery) == nil {
			continue
		}
		states := w.queue.take(n)
		if len(states) == 0 {
			select {
			case <-w.queue.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		sending, done := context.WithTimeout(last, sendWithin)
		refused, err := w.Sink.Send(sending, w.Name, states)
		done()
		if errors.Is(err, ErrTooLarge) && len(states) == 1 {
			refused = map[int]string{0: err.Error()}
		}
		for i, why := range refused {
			w.Log.Error("The service refuses a state", "printer", states[i].PrinterID, "reason", why)
		}
		w.queue.done(func(i int) bool { return err == nil || refused[i] != "" })
		switch {
		case err == nil:
			n = min(2*n, maxBatch)
		case len(refused) > 0: // the others at once
			continue
		case errors.Is(err, ErrTooLarge):
			n = max(len(states)/2, 1)
		default:
			w.Log.Warn("Cannot send the states of printers", "error", err)
			if pause(ctx, wait/2+rand.N(wait)) != nil {
				pause(last, firstRetry)
			}
			wait = min(2*wait, lastRetry)
			continue
		}
		wait = firstRetry
		if ctx.Err() == nil {
			pause(ctx, sendEvery)
		}
	}
}
