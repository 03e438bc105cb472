package db

import (
	"context"
	"slices"
	"sync"
)

// together combines the first Read of several functions.
type together struct {
	d    *DB
	ctx  context.Context
	sent chan struct{} // closed when err is set

	mu      sync.Mutex
	stmts   [][]*Stmt // by function
	missing int       // the functions that have neither called Read nor returned
	err     error
}

type togetherKey struct{}

// member is the part of a function in a together.
type member struct {
	*together
	n       int
	arrived bool
}

// Together runs the functions concurrently, and sends the first Read of each of them in one round trip, as one
// transaction, in the order of the functions. AllowScans of one function therefore applies to the later ones too. If a
// statement fails, all of these reads fail. The contexts that the functions get are bound to the actor of ctx, and no
// function may bind its own to another one. A function must call Read from its own goroutine.
func (d *DB) Together(ctx context.Context, functions ...func(ctx context.Context)) {
	t := &together{d: d, ctx: ctx, sent: make(chan struct{}), stmts: make([][]*Stmt, len(functions)),
		missing: len(functions)}
	var running sync.WaitGroup
	panics := make([]any, len(functions))
	for n, fn := range functions {
		running.Go(func() {
			m := &member{together: t, n: n}
			defer func() {
				panics[n] = recover()
				m.arrive(nil)
			}()
			fn(context.WithValue(ctx, togetherKey{}, m))
		})
	}
	running.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// read is Read for a function. It reports false after the first call.
func (m *member) read(stmts []*Stmt) (bool, error) {
	if m.arrived {
		return false, nil
	}
	m.arrive(stmts)
	<-m.sent
	return true, m.err
}

// arrive adds the statements of the function. The last function to arrive sends those of all.
func (m *member) arrive(stmts []*Stmt) {
	if m.arrived {
		return
	}
	m.arrived = true
	m.mu.Lock()
	m.stmts[m.n] = stmts
	m.missing--
	last := m.missing == 0
	m.mu.Unlock()
	if !last {
		return
	}
	defer close(m.sent)
	m.err = errAbandoned // for the others, if the statements panic
	if all := slices.Concat(m.stmts...); len(all) > 0 {
		m.err = m.d.Read(m.ctx, all...)
	}
}
