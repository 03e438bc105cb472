package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spoolwright/server"
)

// Requests share the checks of readiness: one at a time, one a second, and no request waits longer than a check.
func TestReadyChecksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var checks, running atomic.Int64
		hang := false
		s := server.New(server.Config{Ready: func(ctx context.Context) error {
			checks.Add(1)
			if running.Add(1) > 1 {
				t.Error("two checks run at the same time")
			}
			defer running.Add(-1)
			if hang {
				<-ctx.Done()
				return errors.New("the database hangs")
			}
			time.Sleep(100 * time.Millisecond) // of the bubble, as all times in this test
			return ctx.Err()
		}})
		probe := func(ctx context.Context) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
			return w.Code
		}
		// crowd sends 1,000 requests at once and returns how long the slowest took.
		crowd := func(want int) time.Duration {
			t.Helper()
			begin := time.Now()
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					if got := probe(t.Context()); got != want {
						t.Errorf("/readyz: %d, want %d", got, want)
					}
				})
			}
			wg.Wait()
			return time.Since(begin)
		}
		wantChecks := func(want int64) {
			t.Helper()
			if n := checks.Swap(0); n != want {
				t.Errorf("%d checks, want %d", n, want)
			}
		}
		if took := crowd(http.StatusOK); took != 100*time.Millisecond {
			t.Errorf("1,000 requests took %v, want the time of one check", took)
		}
		wantChecks(1)
		time.Sleep(900 * time.Millisecond)
		if took := crowd(http.StatusOK); took != 0 {
			t.Errorf("with a result of 0.9 seconds ago, requests took %v", took)
		}
		wantChecks(0)
		time.Sleep(100 * time.Millisecond)
		crowd(http.StatusOK)
		wantChecks(1)

		hang = true
		time.Sleep(time.Second)
		if took := crowd(http.StatusServiceUnavailable); took != 2*time.Second {
			t.Errorf("while the database hangs, requests took %v, want 2s", took)
		}
		wantChecks(1)
		if took := crowd(http.StatusServiceUnavailable); took != 0 {
			t.Errorf("after a check that failed, requests took %v", took)
		}
		wantChecks(0)

		// A client that disconnects does not end the check of the others, and does not wait for it.
		hang = false
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begin := time.Now()
		probe(ctx)
		if took := time.Since(begin); took != 10*time.Millisecond {
			t.Errorf("a client that disconnects waits for %v", took)
		}
		if got := probe(t.Context()); got != http.StatusOK {
			t.Errorf("/readyz after a client disconnected: %d", got)
		}
		wantChecks(1)
	})
}
