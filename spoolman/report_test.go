package spoolman

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A report that is equal to one in progress repeats it if the service notices soon that the first client is gone, and
// is another report if the first client is still there, or gets its answer.
func TestEqualReportInProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		goneAfter, endsAfter time.Duration // of the first report
		repeats              bool
		waits                time.Duration // of the second one
	}{
		"the client is gone already":  {0, time.Hour, true, 0},
		"the client is noticed later": {noticeTime / 2, time.Hour, true, noticeTime / 2},
		"the client waits":            {time.Hour, 2 * time.Hour, false, noticeTime},
		"the client gets its answer":  {time.Hour, noticeTime / 2, false, noticeTime / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReports()
				ctx, disconnect := context.WithCancel(t.Context())
				first := r.begin(ctx, "caller", 1, "content")
				time.AfterFunc(c.goneAfter, disconnect)
				ends := time.AfterFunc(c.endsAfter, func() { r.end(first, true) })
				synctest.Wait()
				begun := time.Now()
				second := r.begin(t.Context(), "caller", 1, "content")
				if waited := time.Since(begun); waited != c.waits {
					t.Errorf("it waits for %v, want %v", waited, c.waits)
				}
				if repeats := second.token == first.token; repeats != c.repeats {
					t.Errorf("it repeats the first report: %t, want %t", repeats, c.repeats)
				}
				ends.Stop()
				disconnect()
			})
		})
	}
}

// The service knows a report until knownTime has passed, also after it has begun a new map.
func TestReportIsKnownAfterRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		r.end(r.begin(t.Context(), "caller", 1, "content"), true) // begins a map
		time.Sleep(knownTime - time.Second)
		lost := r.begin(t.Context(), "caller", 2, "content")
		r.end(lost, false)
		time.Sleep(2 * time.Second)
		r.end(r.begin(t.Context(), "caller", 1, "content"), true) // begins the next one
		if again := r.begin(t.Context(), "caller", 2, "content"); !again.again || again.token != lost.token {
			t.Error("a repeated report counts twice")
		}
	})
}
