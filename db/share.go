package db

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// class is a kind of work that needs a connection. Each has its own limits.
type class int

const (
	reading    class = iota
	writing          // may wait for the disk, for a row lock, or for a standby
	serialized       // writing under a lock that admits one transaction of a tenant at a time; see Lock
	classes
)

// maxSerialized is how many serialized transactions of one tenant have a connection: one runs, and one waits for its lock, so
// that PostgreSQL can hand the lock over at once. More of them would hold connections just to wait.
const maxSerialized = 2

// activeFor is how long, at least, a tenant counts as active after its last request.
const activeFor = time.Second

// shares divides the connections of a pool among tenants. A request gets its share before it takes a connection, so that
// requests that wait hold nothing.
//
// Reads get at most half of the connections and writes three quarters, so that neither keeps the other out, however long it
// takes. While other tenants are active, one tenant gets at most a quarter: of all connections, of those for reads, and
// of those for writes. Without other active tenants it gets all of them but the last, which is for tenants that
// have none, so that a tenant that was idle does not wait for the requests of a busy one. Among tenants that wait,
// freed connections go round; requests of one tenant and class are served in order.
//
// The tenant "" is the service itself, for logins and checks of readiness. It gets up to a quarter of the connections whatever
// the tenants do, has one of a larger pool to itself, and does not count as active.
type shares struct {
	mu       sync.Mutex
	conns    int          // of the pool
	total    int          // for tenants
	limit    [classes]int // for tenants; serialized counts as writing
	inUse    int          // of total
	used     [classes]int // of limit
	service  int          // in use by the service itself
	tenants  map[string]*share
	active   int       // how many of tenants are not ""
	queue    list.List // of *share: the tenants that wait, the next one first
	seq      int64
	sweeping bool
	window   time.Duration

	waits, waited atomic.Int64 // how many requests waited, and for how many nanoseconds
}

// share is what one tenant has.
type share struct {
	tenant  string
	held    int
	used    [classes]int
	waiting [classes]list.List // of *waiter
	queued  *list.Element      // in shares.queue; nil if nothing waits
	idle    bool               // held nothing at the last sweep
}

type waiter struct {
	class   class
	seq     int64
	granted chan struct{} // closed, with the mutex held, when the waiter has its connection
}

func newShares(conns int) *shares {
	return &shares{
		conns:   conns,
		total:   conns - min(1, conns/8),
		limit:   [classes]int{reading: max(1, conns/2), writing: conns - conns/4},
		tenants: map[string]*share{},
		window:  activeFor,
	}
}

// acquire waits until the tenant may use one more connection for work of a class. It returns a context's error if ctx ends
// before that, or client, the context of the request.
func (s *shares) acquire(ctx, client context.Context, tenant string, c class) (hold, error) {
	s.mu.Lock()
	t := s.tenants[tenant]
	if t == nil {
		t = s.add(tenant)
	}
	t.idle = false
	if s.admits(t, c) {
		s.count(t, c, 1)
		s.mu.Unlock()
		return hold{s, t, c}, nil
	}
	w := &waiter{class: c, seq: s.seq, granted: make(chan struct{})}
	s.seq++
	element := t.waiting[c].PushBack(w)
	if t.queued == nil {
		t.queued = s.queue.PushBack(t)
	}
	s.mu.Unlock()
	begin := time.Now()
	defer func() {
		s.waits.Add(1)
		s.waited.Add(int64(time.Since(begin)))
	}()
	var err error
	select {
	case <-w.granted:
		return hold{s, t, c}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-client.Done():
		err = client.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.granted:
		s.giveBack(t, c)
	default:
		t.waiting[c].Remove(element)
		s.unqueue(t)
	}
	return hold{}, err
}

// hold is the right to use a connection.
type hold struct {
	shares *shares
	share  *share
	class  class
}

// release gives the connection back, and to a request that waits.
func (h *hold) release() {
	h.shares.mu.Lock()
	h.shares.giveBack(h.share, h.class)
	h.shares.mu.Unlock()
}

// serialize makes a hold for writing one for serialized work, and reports whether the tenant may have one more of these.
func (h *hold) serialize() bool {
	h.shares.mu.Lock()
	defer h.shares.mu.Unlock()
	switch {
	case h.class == serialized:
		return true
	case h.share.used[serialized] == maxSerialized:
		return false
	}
	h.class = serialized
	h.share.used[serialized]++
	return true
}

// admits reports whether the tenant may use one more connection for work of a class.
func (s *shares) admits(t *share, c class) bool {
	if s.inUse+s.service == s.conns {
		return false
	}
	if t.tenant == "" {
		return t.held < quarter(s.conns)
	}
	if c == serialized && t.used[serialized] == maxSerialized {
		return false
	}
	c = kind(c)
	if t.held == 0 {
		return s.inUse < s.total && s.used[c] < s.limit[c]
	}
	return s.inUse < allButLast(s.total) && s.used[c] < allButLast(s.limit[c]) &&
		(s.active == 1 || t.held < quarter(s.conns) && t.used[c] < quarter(s.limit[c]))
}

// quarter returns a quarter of n, but at least 1.
func quarter(n int) int { return max(1, n/4) }

// allButLast returns how many of n connections are for tenants that have one already. A few cannot spare any.
func allButLast(n int) int {
	if n < 4 {
		return n
	}
	return n - 1
}

// kind returns the class whose limit applies to c.
func kind(c class) class {
	if c == serialized {
		return writing
	}
	return c
}

func (s *shares) count(t *share, c class, n int) {
	t.held += n
	if t.tenant == "" {
		s.service += n
		return
	}
	s.inUse += n
	s.used[kind(c)] += n
	t.used[kind(c)] += n
	if c == serialized {
		t.used[serialized] += n
	}
}

func (s *shares) giveBack(t *share, c class) {
	s.count(t, c, -1)
	if s.queue.Len() > 0 {
		s.dispatch()
	}
}

// dispatch grants what may be granted. It must be called whenever a limit no longer holds.
func (s *shares) dispatch() {
	for e := s.queue.Front(); e != nil && s.inUse+s.service < s.conns; {
		t := e.Value.(*share)
		first := (*list.Element)(nil)
		for c := range t.waiting {
			if w := t.waiting[c].Front(); w != nil && s.admits(t, class(c)) &&
				(first == nil || w.Value.(*waiter).seq < first.Value.(*waiter).seq) {
				first = w
			}
		}
		if first == nil {
			e = e.Next()
			continue
		}
		w := first.Value.(*waiter)
		t.waiting[w.class].Remove(first)
		s.count(t, w.class, 1)
		close(w.granted)
		s.queue.MoveToBack(e)
		s.unqueue(t)
		e = s.queue.Front()
	}
}

// unqueue removes a tenant from the queue when nothing of it waits any more.
func (s *shares) unqueue(t *share) {
	for c := range t.waiting {
		if t.waiting[c].Len() > 0 {
			return
		}
	}
	s.queue.Remove(t.queued)
	t.queued = nil
}

func (s *shares) add(tenant string) *share {
	t := &share{tenant: tenant}
	s.tenants[tenant] = t
	if tenant != "" {
		s.active++
	}
	if !s.sweeping {
		s.sweeping = true
		time.AfterFunc(s.window, s.sweep)
	}
	return t
}

// sweep forgets the tenants that had no request since the last sweep, and comes again while there are others.
func (s *shares) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, t := range s.tenants {
		switch {
		case t.held > 0 || t.queued != nil:
		case !t.idle:
			t.idle = true
		default:
			delete(s.tenants, tenant)
			if tenant != "" {
				s.active--
			}
		}
	}
	s.dispatch()
	s.sweeping = len(s.tenants) > 0
	if s.sweeping {
		time.AfterFunc(s.window, s.sweep)
	}
}
