package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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

// done removes the States that were taken and of which is reports true.
func (q *queue) done(is func(State) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sent := slices.DeleteFunc(slices.Clone(q.states[:q.taken]), func(s queued) bool {
		if !is(s.State) {
			return false
		}
		if q.counts[s.PrinterID]--; q.counts[s.PrinterID] == 0 {
			delete(q.counts, s.PrinterID)
		}
		return true
	})
	q.states, q.taken = append(sent, q.states[q.taken:]...), 0
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
		results, err := w.Sink.Send(sending, w.Name, states)
		done()
		type key struct {
			printer  string
			sequence int64
		}
		had := map[key]bool{} // the States that the Sink answered
		for _, r := range results {
			had[key{r.PrinterID, r.Sequence}] = true
			if r.Outcome == "refused" && r.Error != nil {
				w.Log.Warn("The service refuses a state", "printer", r.PrinterID, "code", r.Error.Code,
					"detail", r.Error.Detail)
			}
		}
		refusal, refused := errors.AsType[*Refusal](err)
		if refused && len(refusal.Bad) == 0 && len(states) == 1 {
			refusal.Bad = []int{0}
		}
		for i, s := range states {
			if refused && slices.Contains(refusal.Bad, i) {
				w.Log.Error("The service refuses a state", "printer", s.PrinterID, "error", err)
				had[key{s.PrinterID, s.Sequence}] = true
			}
		}
		w.queue.done(func(s State) bool { return had[key{s.PrinterID, s.Sequence}] })
		switch {
		case refused && len(had) > 0: // the others at once
			continue
		case refused:
			n = max(len(states)/2, 1)
		case len(had) == 0:
			w.Log.Warn("Cannot send the states of printers", "error", err)
			if pause(ctx, wait/2+rand.N(wait)) != nil {
				pause(last, firstRetry)
			}
			wait = min(2*wait, lastRetry)
			continue
		default:
			n = min(2*n, maxBatch)
		}
		wait = firstRetry
		if ctx.Err() == nil {
			pause(ctx, sendEvery)
		}
	}
}
