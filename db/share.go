package db

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// class is a kind of request for a connection. Each class has its own limits.
type class int

const (
	reading    class = iota
	quick            // reading that can share a connection
	writing          // can wait for the disk, for a row lock, or for a standby
	serialized       // writing under a Lock, which only one transaction of the tenant can hold
	classes
)

// maxSerialized is the number of connections of one tenant for serialized transactions: one transaction runs, and one
// waits for the lock, so that PostgreSQL can pass the lock on at once. More of them would hold connections to wait.
const maxSerialized = 2

// activeFor is the minimum time that a tenant counts as active after its last request. The maximum is twice that.
const activeFor = time.Second

// slowRead is the average time from which the reads of a tenant are slow.
const slowRead = 20 * time.Millisecond

// shares divides the connections of a pool among tenants. A request acquires a share before it takes a connection, so
// that waiting requests hold no connections.
//
// Reads get at most half of the connections, and writes three quarters, so that slow reads cannot block writes, nor
// slow writes reads. While other tenants are active, one tenant gets at most a quarter of the connections, of those
// for reads, and of those for writes. While no other tenant is active, it gets all but the last of each. The last one
// is only for a tenant that holds none: such a tenant does not wait for the requests of a busy one.
//
// While other tenants are active, a tenant whose reads are slow has fewer of them at a time than there are processors.
// Slow reads, such as a search in many long texts, keep a processor of PostgreSQL busy each: on a computer with two
// processors, a quarter of the connections for reads would leave none for the other tenants.
//
// Waiting tenants take turns. The requests of one tenant and class are served in the order in which they came.
//
// Quick reads get at most a quarter of the connections, half of those for reads: more of them share one (see quickRead)
// if fewer connections are used. A tenant that holds none does not wait for this limit. A quick read that waited uses
// its connection for other waiting quick reads too, also those of tenants that may not have one more connection: they
// take no time that counts.
//
// The tenant "" is the service itself: logins and readiness checks. It gets at most a quarter of the connections, but
// no other limit applies to it, and a pool of at least 8 keeps a connection for it. It never counts as active.
type shares struct {
	mu       sync.Mutex
	conns    int          // of the pool
	total    int          // for tenants
	limit    [classes]int // for tenants; serialized counts as writing, and quick as reading too
	slow     int          // for the slow reads of a tenant, without quick ones, while other tenants are active
	inUse    int          // of total
	used     [classes]int // of limit
	service  int          // in use by the service itself
	tenants  map[string]*share
	active   int       // how many of tenants are not ""
	queue    list.List // of *share: the tenants that wait, the next one first
	seq      int64
	sweeping bool // whether a call of sweep is scheduled

	waits, waited atomic.Int64 // number of requests that waited, and their time in nanoseconds
	shared        atomic.Int64 // number of quick reads that another request sent
}

// share has the connections and the waiting requests of a tenant.
type share struct {
	tenant  string
	held    int
	used    [classes]int
	took    time.Duration      // average time of the reads that are not quick; later ones count more
	waiting [classes]list.List // of *waiter
	queued  *list.Element      // in shares.queue; nil if nothing waits
	idle    bool               // whether there was no request since the last sweep
}

type waiter struct {
	class   class
	seq     int64
	granted chan struct{} // closed, with the mutex held, when the waiter has its connection
	quick   *quickRead    // that can share a connection; nil for anything else
}

// newShares returns the shares of a pool. The processors are those of the computer that runs the service.
func newShares(conns, processors int) *shares {
	return &shares{
		conns:   conns,
		total:   conns - min(1, conns/8),
		limit:   [classes]int{reading: max(1, conns/2), quick: max(1, conns/4), writing: conns - conns/4},
		slow:    max(1, processors-1),
		tenants: map[string]*share{},
	}
}

// acquire waits until the tenant may use one more connection. It returns the error of ctx, or of client, the context
// of the HTTP request, if that ends first.
func (s *shares) acquire(ctx, client context.Context, tenant string, c class) (hold, error) {
	return s.await(ctx, client, tenant, &waiter{class: c})
}

// acquireQuick is like acquire for a quick read. If it returns with q.taken set, another request has sent the read, and
// there is no hold. Otherwise the caller must send the reads in q.others too.
func (s *shares) acquireQuick(ctx, client context.Context, q *quickRead) (hold, error) {
	return s.await(ctx, client, q.actor.Tenant, &waiter{class: quick, quick: q})
}

func (s *shares) await(ctx, client context.Context, tenant string, w *waiter) (hold, error) {
	c := w.class
	s.mu.Lock()
	t := s.tenants[tenant]
	if t == nil {
		t = s.add(tenant)
	}
	t.idle = false
	if s.admits(t, c) {
		s.count(t, c, 1)
		s.mu.Unlock()
		return s.hold(t, c), nil
	}
	w.seq, w.granted = s.seq, make(chan struct{})
	var sent chan struct{} // never ready if nil
	if w.quick != nil {
		sent = make(chan struct{})
		w.quick.sent = sent
	}
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
		return s.hold(t, c), nil
	case <-sent:
		return hold{}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-client.Done():
		err = client.Err()
	}
	s.mu.Lock()
	if w.quick != nil && w.quick.taken { // the other request is writing the results
		s.mu.Unlock()
		<-sent
		return hold{}, nil
	}
	defer s.mu.Unlock()
	select {
	case <-w.granted:
		if w.quick != nil && w.quick.sendsOthers() {
			return s.hold(t, c), nil
		}
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
	began  time.Time
}

func (s *shares) hold(t *share, c class) hold { return hold{s, t, c, time.Now()} }

// release ends the hold. A waiting request can then get the connection.
func (h *hold) release() {
	took := time.Since(h.began)
	h.shares.mu.Lock()
	if h.class == reading {
		h.share.took += (took - h.share.took) / 4
	}
	h.shares.giveBack(h.share, h.class)
	h.shares.mu.Unlock()
}

// serialize changes a hold for writing to one for a serialized transaction. It returns false, and changes nothing, if
// the tenant has too many of these.
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

// admits reports whether the tenant may use one more connection for the class.
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
	if c == quick && t.held > 0 && s.used[quick] >= s.limit[quick] {
		return false
	}
	if c == reading && s.active > 1 && t.took > slowRead && t.used[reading]-t.used[quick] >= s.slow {
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

// allButLast returns how many of n connections tenants that hold one already may use. Of fewer than 4 it is all.
func allButLast(n int) int {
	if n < 4 {
		return n
	}
	return n - 1
}

// kind returns the class whose limit applies to c.
func kind(c class) class {
	switch c {
	case quick:
		return reading
	case serialized:
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
	switch c {
	case quick:
		s.used[quick] += n
		t.used[quick] += n
	case serialized:
		t.used[serialized] += n
	}
}

func (s *shares) giveBack(t *share, c class) {
	s.count(t, c, -1)
	if s.queue.Len() > 0 {
		s.dispatch()
	}
}

// dispatch grants connections to waiting requests until none may get one. It must be called after each change that
// allows more.
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
		s.queue.MoveToBack(e)
		s.unqueue(t)
		if w.quick != nil {
			s.share(w.quick)
		}
		close(w.granted)
		e = s.queue.Front()
	}
}

// share lets a quick read that has got a connection send other ones that wait. The tenants take turns.
func (s *shares) share(q *quickRead) {
	for e := s.queue.Front(); e != nil; {
		t := e.Value.(*share)
		next := e.Next()
		if first := t.waiting[quick].Front(); first != nil && q.take(first.Value.(*waiter).quick) {
			t.waiting[quick].Remove(first)
			s.shared.Add(1)
			s.queue.MoveToBack(e)
			s.unqueue(t)
			next = s.queue.Front()
		}
		e = next
	}
}

// unqueue removes a tenant from the queue if none of its requests waits.
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
		time.AfterFunc(activeFor, s.sweep)
	}
	return t
}

// sweep removes the tenants that had no request since the last sweep. It runs again while there are other tenants.
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
		time.AfterFunc(activeFor, s.sweep)
	}
}
