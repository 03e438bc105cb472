package blackbox_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 15 * time.Second

// running are the names of the tests that run now, of those that call watch, in the order of their starts.
var running struct {
	mu    sync.Mutex
	names []string
}

// watch shows the test in the progress until it ends. The helpers that start the API or the program call it.
func watch(t *testing.T) {
	running.mu.Lock()
	defer running.mu.Unlock()
	if slices.Contains(running.names, t.Name()) {
		return
	}
	running.names = append(running.names, t.Name())
	t.Cleanup(func() {
		running.mu.Lock()
		defer running.mu.Unlock()
		at := slices.Index(running.names, t.Name())
		running.names = slices.Delete(running.names, at, at+1)
	})
}

// progressLine names the tests that run: the four that began first, and the number of the others.
func progressLine(elapsed time.Duration) string {
	running.mu.Lock()
	defer running.mu.Unlock()
	const most = 4
	line := strings.Join(running.names[:min(most, len(running.names))], ", ")
	if more := len(running.names) - most; more > 0 {
		line += fmt.Sprintf(" and %d others", more)
	}
	return fmt.Sprintf("blackbox: %v, running %s\n", elapsed.Round(time.Second), line)
}

// showProgress writes a line to w every so often until stop is called.
func showProgress(w io.Writer, every time.Duration) (stop func()) {
	begin, done := time.Now(), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				io.WriteString(w, progressLine(time.Since(begin)))
			}
		}
	})
	return func() { close(done); wait.Wait() }
}

// openProgress returns the terminal, because `go test ./...` keeps back what tests write to standard error until they
// end. Without a terminal, as in CI, nobody sees the progress.
func openProgress() io.Writer {
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		return tty
	}
	return io.Discard
}

// TestProgress checks that the lines name the tests that run, and not those that have ended.
func TestProgress(t *testing.T) {
	watch(t)
	watch(t)
	t.Run("ended", watch)
	lines := make(writes)
	stop := showProgress(lines, time.Millisecond)
	line := <-lines
	go func() { // the last write must not block
		for range lines {
		}
	}()
	stop()
	close(lines)
	if !strings.Contains(line, "s, running ") || strings.Count(line, t.Name()) != 1 {
		t.Errorf("got %q", line)
	}
}

// TestRigsRunInCI checks that no rig is skipped in CI, with RIGS=1 and with -long, and that a skip names how to run it.
func TestRigsRunInCI(t *testing.T) {
	for _, test := range []struct {
		strict, rigs string
		want         bool
	}{{"1", "", true}, {"", "1", true}, {"", "", *testkit.Long}, {"0", "0", *testkit.Long}} {
		t.Setenv("CI_STRICT", test.strict)
		t.Setenv("RIGS", test.rigs)
		testkit.Equal(t, testkit.Rigs(), test.want, "rigs run with CI_STRICT=%s RIGS=%s", test.strict, test.rigs)
	}
}

// writes is a channel of what is written to it.
type writes chan string

func (w writes) Write(b []byte) (int, error) { w <- string(b); return len(b), nil }
