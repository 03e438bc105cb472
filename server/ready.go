package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	readyTimeout = 2 * time.Second // the maximum duration of a check
	readyFor     = time.Second     // how long the result of a check is used
)

// readiness shares the checks of readiness among requests, because /readyz has no rate limit. At most one check runs
// at a time, and a check begins at the earliest a second after the end of the previous check.
type readiness struct {
	check func(context.Context) error

	mu   sync.Mutex
	last *readyCheck // the newest check; nil before the first request
}

type readyCheck struct {
	done  chan struct{} // closed when the check has ended
	ended time.Time
	err   error
}

// get returns the result of a check that runs now or ended less than a second ago. If there is no such check, it
// starts one. If ctx ends before the check, get returns the error of ctx.
func (r *readiness) get(ctx context.Context) error {
	r.mu.Lock()
	c := r.last
	if c == nil || c.isDone() && time.Since(c.ended) >= readyFor {
		c = &readyCheck{done: make(chan struct{})}
		r.last = c
		go c.run(context.WithoutCancel(ctx), r.check)
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *readyCheck) run(ctx context.Context, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c.err = check(ctx)
	c.ended = time.Now()
	close(c.done)
}

func (c *readyCheck) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	err := errors.New("draining")
	if !s.draining.Load() {
		if err = s.readiness.get(r.Context()); err == nil {
			writeJSON(w, 200, []byte(`{"status":"ready"}`))
			return
		}
	}
	infoOf(r).err = err
	ErrUnavailable.write(w, infoOf(r).id)
}
