package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spoolwright/production/watch/watchtest"
)

// memory is a Sink that keeps the States.
type memory struct {
	mu     sync.Mutex
	states []State
	jobs   []string
	err    error
	bad    string // a printer whose states are refused with the whole request
	most   int    // states in a request, if it is not 0
	sends  int
	denied bool // another watcher has the leases
	silent bool // nobody knows who has them
	last   map[string]*State
}

func (m *memory) Lease(_ context.Context, _ string, ids []string, _ bool) (map[string]*State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := map[string]*State{}
	for _, id := range ids {
		if !m.denied && m.err == nil {
			held[id] = m.last[id]
		}
	}
	if m.silent {
		return nil, errors.New("no answer")
	}
	return held, m.err
}

func (m *memory) Send(_ context.Context, _ string, states []State) (map[int]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sends++
	if m.err != nil {
		return nil, m.err
	}
	if i := slices.IndexFunc(states, func(s State) bool { return s.PrinterID == m.bad }); i >= 0 {
		return map[int]string{i: "bad"}, errors.New("422")
	}
	if m.most > 0 && len(states) > m.most {
		return nil, ErrTooLarge
	}
	m.states = append(m.states, states...)
	return nil, nil
}

// shown returns the States since the last call, and checks that those of a printer are in order.
func (m *memory) shown(t *testing.T) string {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[string]int64{}
	var all []string
	for _, s := range m.states {
		if s.Sequence <= last[s.PrinterID] {
			t.Errorf("sequence %d after %d", s.Sequence, last[s.PrinterID])
		}
		last[s.PrinterID] = s.Sequence
		all = append(all, s.PrinterID+" "+show(s, &m.jobs))
	}
	m.states = nil
	return strings.Join(all, ", ")
}

func (m *memory) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the states are\n%s\nwant\n%s", got, want)
	}
}

func TestWatcher(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		sink := &memory{}
		w := New("w", sink, r.net.Dial, slog.New(slog.NewTextHandler(&log, nil)))
		job := watchtest.Fields{"id": 7, "progress": 3, "time_printing": 20, "time_remaining": 60}
		file := watchtest.Fields{"name": "A.GCO"}
		a, b := &watchtest.PrusaLink{Key: "very-secret"}, &watchtest.PrusaLink{Key: "very-secret"}
		a.Set("IDLE", nil, nil)
		b.Set("IDLE", nil, nil)
		stop := r.net.Serve("a:80", a)
		defer func() { stop() }()
		defer r.net.Serve("b:80", b)()
		connect := func(id, secret string) Printer {
			return Printer{id, Connection{Kind: "prusalink", Address: id, Secret: secret}}
		}
		w.Set([]Printer{connect("a", "very-secret"), connect("b", "wrong-secret"), connect("c", "")})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			w.Run(ctx)
			close(done)
		}()
		r.wait(time.Second)
		equal(t, sink.shown(t), "a idle")
		r.wait(70 * time.Second)
		got := strings.Split(sink.shown(t), ", ")
		slices.Sort(got)
		equal(t, strings.Join(got, ", "), "b unknown!key, c offline!network")

		// The service is down: progress takes the place of older progress, transitions stay.
		sink.set(func() { sink.err = errors.New("down") })
		a.Set("PRINTING", job, file)
		r.wait(15 * time.Second)
		for i := range 40 {
			job := watchtest.Fields{"id": 7, "progress": 3 + i, "time_printing": 20 + i, "time_remaining": 60}
			a.Set("PRINTING", job, file)
			r.wait(15 * time.Second)
		}
		a.Set("FINISHED", nil, nil)
		r.wait(15 * time.Second)
		if n := len(w.queue.states); n > 4 { // one progress may have been on its way
			t.Errorf("%d states wait", n)
		}
		equal(t, sink.shown(t), "")
		sink.set(func() { sink.err = nil })
		r.wait(2 * time.Minute)
		if got := sink.shown(t); !strings.HasPrefix(got, "a printing A.GCO#1 3%, a printing A.GCO#1 ") ||
			!strings.HasSuffix(got, ", a idle A.GCO#1 100% completed") {
			t.Errorf("the states are %s", got)
		}

		// The key is corrected; the printer's job is the same, also while another watcher has the lease.
		w.Set([]Printer{connect("a", "very-secret"), connect("b", "very-secret")})
		r.wait(time.Second)
		equal(t, sink.shown(t), "b idle")
		b.Set("PRINTING", job, file)
		r.wait(12 * time.Second)
		equal(t, sink.shown(t), "b printing A.GCO#1 3%")
		sink.set(func() { sink.denied = true })
		r.wait(time.Hour)
		equal(t, sink.shown(t), "")
		sink.set(func() { sink.denied = false })
		b.Set("STOPPED", nil, nil)
		r.wait(30 * time.Second)
		equal(t, sink.shown(t), "b idle A.GCO#1 3% cancelled")

		// Nothing is sent while it is not known who has the leases.
		sink.set(func() { sink.silent = true })
		r.wait(leaseEvery)
		b.Set("PRINTING", watchtest.Fields{"id": 9, "progress": 1}, file)
		r.wait(time.Minute)
		equal(t, sink.shown(t), "")
		sink.set(func() { sink.silent = false })
		r.wait(10 * time.Second)
		equal(t, sink.shown(t), "b printing A.GCO#2 1%")

		// A state that the service never takes does not hold up the others.
		sink.set(func() { sink.bad, sink.err = "b", errors.New("down") })
		a.Set("PAUSED", watchtest.Fields{"id": 8, "progress": 1}, file)
		b.Set("PAUSED", watchtest.Fields{"id": 8, "progress": 1}, file)
		r.wait(30 * time.Second)
		sink.set(func() { sink.err = nil })
		r.wait(2 * time.Minute)
		equal(t, sink.shown(t), "a paused A.GCO#3 1%")

		// What waits at the end is sent.
		a.Set("STOPPED", nil, nil)
		sink.set(func() { sink.err = errors.New("down") })
		r.wait(12 * time.Second)
		go func() {
			time.Sleep(2 * time.Second)
			sink.set(func() { sink.err = nil })
		}()
		cancel()
		<-done
		equal(t, sink.shown(t), "a idle A.GCO#3 1% cancelled")
		if text := log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "refuses the key") {
			t.Errorf("the log is %s", text)
		}
	})
}

// A full queue loses no transition: the printer counts as not watched meanwhile.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	q := queue{wake: make(signal, 1), counts: map[string]int{}}
	tracker := newTracker("p", nil, epoch, q.put)
	for i := range 10 * maxPerPrinter {
		if o := runs(fmt.Sprint(i), "a", 0); !q.full("p") {
			tracker.see(epoch.Add(time.Duration(i)*time.Hour), vouched(o))
		}
	}
	if n := len(q.states); n < maxPerPrinter || n > maxPerPrinter+2 {
		t.Errorf("%d states", n)
	}
	var last State
	for _, s := range q.take(maxBatch) {
		if j := last.Job; j != nil && j.Outcome == "" && (s.Job.ID != j.ID || s.Job.Outcome == "") {
			t.Errorf("%+v after %+v", s.Job, j)
		}
		last = s
	}
}

// The States that a Sink did not answer stay first.
func TestQueueOrder(t *testing.T) {
	t.Parallel()
	q := queue{wake: make(signal, 1), counts: map[string]int{}}
	for i := range 4 {
		q.put(State{PrinterID: fmt.Sprint(i), Sequence: 1}, true)
	}
	q.take(3)
	q.put(State{PrinterID: "0", Sequence: 2}, false) // the older one is being sent
	q.done(func(i int) bool { return i == 1 })
	got := ""
	for _, s := range q.take(maxBatch) {
		got += fmt.Sprint(s.PrinterID, "/", s.Sequence, " ")
	}
	equal(t, got, "0/1 2/1 3/1 0/2 ")
}

// A State that the service refuses holds up no other one, and a request that is too large is divided.
func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{bad: "7", most: 40}
		w := New("w", sink, nil, slog.New(slog.DiscardHandler))
		for i := range 90 {
			w.queue.put(State{PrinterID: fmt.Sprint(i), Sequence: 1}, true)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			w.deliver(ctx)
			close(done)
		}()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if len(sink.states) != 89 || sink.sends > 12 {
			t.Errorf("%d states after %d requests", len(sink.states), sink.sends)
		}
		cancel()
		<-done
	})
}

// The certificate that was seen first is reported, and another one is refused afterwards.
func TestPinned(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		serve := func() (stop func() error) {
			p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "1"}
			p.Send(watchtest.Fields{"gcode_state": "IDLE"})
			l := r.net.Listen("p1s:8883")
			go p.Serve(l)
			return l.Close
		}
		stop := serve()
		sink := &memory{}
		w := New("w", sink, r.net.Dial, slog.New(slog.DiscardHandler))
		var pinned []string
		w.Pinned = func(p Printer, fingerprint string) { pinned = append(pinned, p.ID+" "+fingerprint) }
		c := Connection{Kind: "bambu", Address: "p1s", Secret: "1", Serial: "01P00A123456789"}
		w.Set([]Printer{{"p", c}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			w.Run(ctx)
			close(done)
		}()
		r.wait(time.Minute)
		equal(t, sink.shown(t), "p idle")
		if len(pinned) != 1 || len(pinned[0]) != 2+64 {
			t.Fatalf("%q", pinned)
		}
		stop()
		r.net.Cut("p1s:8883")
		stop = serve() // with another certificate
		r.wait(3 * time.Minute)
		equal(t, sink.shown(t), "p unknown!certificate")
		c.Fingerprint = pinned[0][2:]
		var changed *Problem
		if _, err := Test(t.Context(), c, r.net.Dial); !errors.As(err, &changed) || len(changed.Fingerprint) != 64 ||
			changed.Fingerprint == c.Fingerprint {
			t.Errorf("%v", err)
		}
		// A person confirms it.
		c.Fingerprint = changed.Fingerprint
		w.Set([]Printer{{"p", c}})
		r.wait(time.Minute)
		equal(t, sink.shown(t), "p idle")
		cancel()
		<-done
		stop()
		r.net.Cut("p1s:8883")
	})
}
