//go:build unix

package watch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spoolwright/production/watch"
	"spoolwright/production/watch/watchtest"
)

// moonraker is the real program, whose printer is a fake of Klipper's socket.
type moonraker struct {
	python, dir, address string
	command              *exec.Cmd
}

func (m *moonraker) start(t *testing.T) {
	t.Helper()
	m.command = exec.Command(m.python, "-m", "moonraker", "-d", m.dir, "-n")
	m.command.Dir = m.dir
	m.command.Env = append(os.Environ(), "HOME="+m.dir)
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if a, err := http.Get("http://" + m.address + "/server/info"); err == nil {
			text, _ := io.ReadAll(a.Body)
			a.Body.Close()
			if bytes.Contains(bytes.ReplaceAll(text, []byte(" "), nil), []byte(`"klippy_state":"ready"`)) {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Moonraker does not start")
}

func (m *moonraker) stop(s syscall.Signal) {
	m.command.Process.Signal(s)
	m.command.Wait()
}

// collector is a Sink that keeps what happened to jobs.
type collector struct {
	mu     sync.Mutex
	states []watch.State
}

func (c *collector) Lease(_ context.Context, _ string, ids []string, _ bool) (held []watch.Held, err error) {
	for _, id := range ids {
		held = append(held, watch.Held{PrinterID: id})
	}
	return held, nil
}

func (c *collector) Send(_ context.Context, states []watch.State) (results []watch.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, states...)
	for _, s := range states {
		results = append(results, watch.Result{PrinterID: s.PrinterID, Sequence: s.Sequence})
	}
	return results, nil
}

// await waits for a state of the job with the file, in which is is true, and returns it.
func (c *collector) await(t *testing.T, what string, is func(watch.State) bool) watch.State {
	t.Helper()
	for range 600 {
		c.mu.Lock()
		for _, s := range c.states {
			if is(s) {
				c.mu.Unlock()
				return s
			}
		}
		c.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("timed out waiting until %s; the states are %s", what, c)
	return watch.State{}
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.states {
		text := s.State
		if s.Job != nil {
			text += " " + s.Job.ID + " " + s.Job.File + " " + s.Job.Outcome
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestRealMoonraker prints with Moonraker, which PRINTER_CLIENTS has, and restarts it during a job.
func TestRealMoonraker(t *testing.T) {
	python := filepath.Join(os.Getenv("PRINTER_CLIENTS"), "bin", "python")
	strict := os.Getenv("CI_STRICT") == "1"
	if os.Getenv("RIGS") != "1" && !strict {
		t.Skip("left for CI, RIGS=1 runs it")
	} else if _, err := os.Stat(python); err != nil && strict {
		t.Fatal("PRINTER_CLIENTS is not a virtual environment")
	} else if err != nil {
		t.Skip("PRINTER_CLIENTS is not a virtual environment")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "watch") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "klippy.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &watchtest.Klippy{}
	go k.Serve(l)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &moonraker{python: python, dir: dir, address: free.Addr().String()}
	free.Close()
	_, port, _ := net.SplitHostPort(m.address)
	os.Mkdir(filepath.Join(dir, "config"), 0o700)
	config := fmt.Sprintf("[server]\nhost: 127.0.0.1\nport: %s\nklippy_uds_address: %s\n[machine]\nprovider: none\n"+
		"validate_service: False\nvalidate_config: False\n[announcements]\ndev_mode: True\n[history]\n"+
		"[authorization]\ntrusted_clients: 127.0.0.0/8\n", port, filepath.Join(dir, "klippy.sock"))
	if err := os.WriteFile(filepath.Join(dir, "config", "moonraker.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m.start(t)
	defer func() { m.stop(syscall.SIGKILL) }()

	c := watch.Connection{Kind: "moonraker", Address: m.address}
	if found, err := watch.Test(t.Context(), c, nil); err != nil || found.State != watch.Idle {
		t.Fatalf("Test: %+v, %v", found, err)
	}
	sink := &collector{}
	w := watch.New("w", sink, nil, slog.New(slog.DiscardHandler))
	w.Set([]watch.Printer{{ID: "p", Connection: c}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		w.Run(ctx)
		close(done)
	}()
	defer func() {
		cancel()
		<-done
	}()
	sink.await(t, "the printer is idle", func(s watch.State) bool { return s.State == watch.Idle })

	seconds, mm := 0.0, 0.0
	stats := func(state, file string) {
		k.Update("print_stats", watchtest.Fields{"state": state, "filename": file, "total_duration": seconds,
			"print_duration": seconds, "filament_used": mm})
	}
	begin := func(file string) {
		seconds, mm = 0.1, 0
		stats("printing", file)
	}
	extrude := func(file string, by float64) {
		seconds, mm = seconds+1, mm+by
		stats("printing", file)
	}
	job := func(file, outcome string) func(watch.State) bool {
		return func(s watch.State) bool { return s.Job != nil && s.Job.File == file && s.Job.Outcome == outcome }
	}
	used := func(s watch.State) float64 {
		if len(s.Job.Used) != 1 {
			return -1
		}
		return *s.Job.Used[0].Millimetres
	}

	begin("a.gcode")
	first := sink.await(t, "the job runs", job("a.gcode", ""))
	if !strings.HasPrefix(first.Job.ID, "000001/") || first.Job.Adopted || !first.Job.Certain {
		t.Errorf("the job is %+v", first.Job)
	}
	extrude("a.gcode", 20)
	stats("paused", "a.gcode")
	sink.await(t, "the job is paused", func(s watch.State) bool { return s.State == watch.Paused })
	extrude("a.gcode", 10)
	stats("complete", "a.gcode")
	if s := sink.await(t, "the job is completed", job("a.gcode", "completed")); used(s) != 30 ||
		s.Job.ID != first.Job.ID {
		t.Errorf("the job is %+v", s.Job)
	}

	// Moonraker restarts during a job. Its row of the history ends; the job does not.
	begin("b.gcode")
	extrude("b.gcode", 20)
	second := sink.await(t, "the job runs", job("b.gcode", ""))
	m.stop(syscall.SIGTERM)
	extrude("b.gcode", 50)
	m.start(t)
	extrude("b.gcode", 50)
	time.Sleep(3 * time.Second) // the watcher comes back within two
	extrude("b.gcode", 20)
	stats("complete", "b.gcode")
	s := sink.await(t, "the job is completed", job("b.gcode", "completed"))
	if used(s) != 140 || s.Job.ID != second.Job.ID {
		t.Errorf("the job is %+v", s.Job)
	}

	// Cancelled, and the same file again at once.
	begin("c.gcode")
	third := sink.await(t, "the job runs", job("c.gcode", ""))
	extrude("c.gcode", 20)
	stats("cancelled", "c.gcode")
	begin("c.gcode")
	extrude("c.gcode", 5)
	stats("complete", "c.gcode")
	if s := sink.await(t, "the job is cancelled", job("c.gcode", "cancelled")); used(s) != 20 ||
		s.Job.ID != third.Job.ID {
		t.Errorf("the job is %+v", s.Job)
	}
	if s := sink.await(t, "the job is completed", job("c.gcode", "completed")); used(s) != 5 ||
		s.Job.ID == third.Job.ID {
		t.Errorf("the job is %+v", s.Job)
	}
	ends, all := 0, sink.String()
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for _, s := range sink.states {
		if s.Job != nil && s.Job.Outcome != "" {
			ends++
		}
	}
	if ends != 4 {
		t.Errorf("%d ends: %s", ends, all)
	}
}
