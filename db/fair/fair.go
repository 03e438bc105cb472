// Package fair divides the connections of a pool among tenants. A request acquires a share before it takes a
// connection, so that waiting requests hold no connections.
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
// Quick reads get as many connections as there are processors, but at least two and at most a quarter of all: more of
// them share one (see QuickRead) if fewer connections are used, and PostgreSQL needs less time for a quick read than
// the service does. For a tenant that holds none, the limit is twice as high. A quick read that waited uses its
// connection for other waiting quick reads too, also for those of tenants that have reached their limits, because each
// takes less time than PostgreSQL needs to switch to another connection.
//
// The tenant "" is the service itself: logins and readiness checks. It gets at most a quarter of the connections, but
// no other limit applies to it, and a pool of at least 8 keeps a connection for it. It never counts as active.
package fair

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Class is a kind of request for a connection. Each class has its own limits.
type Class int

const (
	Read       Class = iota
	Quick            // a Read that can share a connection
	Write            // can wait for the disk, for a row lock, or for a standby
	Serialized       // a Write under a lock that only one transaction of the tenant can hold
	classes
)

// maxSerialized is the number of connections of one tenant for serialized transactions: one transaction runs, and one
// waits for the lock, so that PostgreSQL can pass the lock on at once. More of them would hold connections to wait.
const maxSerialized = 2

// activeFor is the minimum time that a tenant counts as active after its last request. The maximum is twice that.
const activeFor = time.Second

// slowRead is the average time from which the reads of a tenant are slow.
const slowRead = 20 * time.Millisecond

// Shares are the shares of a pool. Its methods may be called concurrently.
type Shares struct {
	mu       sync.Mutex
	conns    int          // of the pool
	total    int          // for tenants
	limit    [classes]int // for tenants; Serialized counts as Write, and Quick as Read too
	slow     int          // for the slow reads of a tenant, without quick ones, while other tenants are active
	inUse    int          // of total
	used     [classes]int // of limit
	service  int          // in use by the service itself
	tenants  map[string]*tenant
	active   int       // how many of tenants are not ""
	queue    list.List // of *tenant: those that wait, the next one first
	seq      int64
	sweeping bool // whether a call of sweep is scheduled
	stats    Stats
}

// Stats are totals since New.
type Stats struct {
	Waits    int64 // requests that waited
	WaitTime time.Duration
	Shared   int64 // quick reads that another request sent
}

// tenant has the connections and the waiting requests of a tenant.
type tenant struct {
	id      string
	held    int
	used    [classes]int
	took    time.Duration      // average time of the reads that are not quick; later ones count more
	waiting [classes]list.List // of *waiter
	queued  *list.Element      // in Shares.queue; nil if nothing waits
	idle    bool               // whether there was no request since the last sweep
}

type waiter struct {
	class   Class
	seq     int64
	granted chan struct{} // closed when has is set
	has     bool          // whether the waiter has its connection
	quick   QuickRead     // nil if the class is not Quick
	taken   bool          // whether another waiter sends quick
	took    bool          // whether this one sends those of others
}

// QuickRead is a read that a request can send with its own. The methods are called while the Shares are locked.
type QuickRead interface {
	// Sent is called once, before the read waits. It returns a channel that is closed after another request has sent
	// the read.
	Sent() <-chan struct{}

	// Take makes the request of this read send the other one too. It returns false if it sends enough already.
	Take(other QuickRead) bool
}

// New returns the shares of a pool. The processors are those of the computer that runs the service.
func New(conns, processors int) *Shares {
	quick := max(1, min(conns/4, max(2, processors)))
	return &Shares{
		conns:   conns,
		total:   conns - min(1, conns/8),
		limit:   [classes]int{Read: max(1, conns/2), Quick: quick, Write: conns - conns/4},
		slow:    max(1, processors-1),
		tenants: map[string]*tenant{},
	}
}

// Stats returns the current statistics.
func (s *Shares) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Waiting returns the number of requests that wait.
func (s *Shares) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tenants {
		for c := range t.waiting {
			n += t.waiting[c].Len()
		}
	}
	return n
}

// Acquire waits until the tenant may use one more connection. It returns the error of ctx, or of client, the context
// of the HTTP request, if that ends first.
func (s *Shares) Acquire(ctx, client context.Context, tenant string, c Class) (Share, error) {
	share, _, err := s.acquire(ctx, client, tenant, &waiter{class: c})
	return share, err
}

// AcquireQuick is like Acquire for a quick read. If sent is set, another request has sent the read, and there is no
// Share. Otherwise the caller must send the reads that it took too.
func (s *Shares) AcquireQuick(ctx, client context.Context, tenant string, q QuickRead) (_ Share, sent bool, _ error) {
	return s.acquire(ctx, client, tenant, &waiter{class: Quick, quick: q})
}

func (s *Shares) acquire(ctx, client context.Context, id string, w *waiter) (share Share, sent bool, err error) {
	s.mu.Lock()
	t := s.tenants[id]
	if t == nil {
		t = s.add(id)
	}
	t.idle = false
	share = Share{shares: s, tenant: t, class: w.class}
	if s.admits(t, w.class) {
		s.count(t, w.class, 1)
		s.mu.Unlock()
		share.began = time.Now()
		return share, false, nil
	}
	w.seq, w.granted = s.seq, make(chan struct{})
	var done <-chan struct{} // never ready if nil
	if w.quick != nil {
		done = w.quick.Sent()
	}
	s.seq++
	element := t.waiting[w.class].PushBack(w)
	if t.queued == nil {
		t.queued = s.queue.PushBack(t)
	}
	s.mu.Unlock()

	begin := time.Now()
	select {
	case <-w.granted:
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-client.Done():
		err = client.Err()
	}
	share.began = time.Now()
	s.mu.Lock()
	s.stats.Waits++
	s.stats.WaitTime += share.began.Sub(begin)
	if w.taken {
		s.mu.Unlock()
		<-done // the other request may be writing the result now
		return Share{}, true, nil
	}
	defer s.mu.Unlock()
	switch {
	case w.has && (err == nil || w.took):
		return share, false, nil
	case w.has:
		s.giveBack(t, w.class)
	default:
		t.waiting[w.class].Remove(element)
		s.unqueue(t)
	}
	return Share{}, false, err
}

// Share is the right to use a connection.
type Share struct {
	shares *Shares
	tenant *tenant
	class  Class
	began  time.Time
}

// Release ends the right. A waiting request can then get the connection.
func (s *Share) Release() {
	took := time.Since(s.began)
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	if s.class == Read {
		s.tenant.took += (took - s.tenant.took) / 4
	}
	s.shares.giveBack(s.tenant, s.class)
}

// Serialize changes the class of a share from Write to Serialized. It returns false, and changes nothing, if the
// tenant has too many of these.
func (s *Share) Serialize() bool {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	switch {
	case s.class == Serialized:
		return true
	case s.tenant.used[Serialized] == maxSerialized:
		return false
	}
	s.class = Serialized
	s.tenant.used[Serialized]++
	return true
}

// admits reports whether the tenant may use one more connection for the class.
func (s *Shares) admits(t *tenant, c Class) bool {
	if s.inUse+s.service == s.conns {
		return false
	}
	if t.id == "" {
		return t.held < quarter(s.conns)
	}
	if c == Serialized && t.used[Serialized] == maxSerialized {
		return false
	}
	if used := s.used[Quick]; c == Quick && (used >= 2*s.limit[Quick] || used >= s.limit[Quick] && t.held > 0) {
		return false
	}
	if c == Read && s.active > 1 && t.took > slowRead && t.used[Read]-t.used[Quick] >= s.slow {
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
func kind(c Class) Class {
	switch c {
	case Quick:
		return Read
	case Serialized:
		return Write
	}
	return c
}

func (s *Shares) count(t *tenant, c Class, n int) {
	t.held += n
	if t.id == "" {
		s.service += n
		return
	}
	s.inUse += n
	s.used[kind(c)] += n
	t.used[kind(c)] += n
	switch c {
	case Quick:
		s.used[Quick] += n
		t.used[Quick] += n
	case Serialized:
		t.used[Serialized] += n
	}
}

func (s *Shares) giveBack(t *tenant, c Class) {
	s.count(t, c, -1)
	if s.queue.Len() > 0 {
		s.dispatch()
	}
}

// dispatch grants connections to waiting requests until none may get one. It must be called after each change that
// allows more.
func (s *Shares) dispatch() {
	for e := s.queue.Front(); e != nil && s.inUse+s.service < s.conns; {
		t := e.Value.(*tenant)
		first := (*list.Element)(nil)
		for c := range t.waiting {
			if w := t.waiting[c].Front(); w != nil && s.admits(t, Class(c)) &&
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
			s.combine(w)
		}
		w.has = true
		close(w.granted)
		e = s.queue.Front()
	}
}

// combine lets a waiter that has got a connection for a quick read send those of others. The tenants take turns.
func (s *Shares) combine(w *waiter) {
	for e := s.queue.Front(); e != nil; {
		t := e.Value.(*tenant)
		next := e.Next()
		if first := t.waiting[Quick].Front(); first != nil && w.quick.Take(first.Value.(*waiter).quick) {
			t.waiting[Quick].Remove(first)
			first.Value.(*waiter).taken, w.took = true, true
			s.stats.Shared++
			s.queue.MoveToBack(e)
			s.unqueue(t)
			next = s.queue.Front()
		}
		e = next
	}
}

// unqueue removes a tenant from the queue if none of its requests waits.
func (s *Shares) unqueue(t *tenant) {
	for c := range t.waiting {
		if t.waiting[c].Len() > 0 {
			return
		}
	}
	s.queue.Remove(t.queued)
	t.queued = nil
}

func (s *Shares) add(id string) *tenant {
	t := &tenant{id: id}
	s.tenants[id] = t
	if id != "" {
		s.active++
	}
	if !s.sweeping {
		s.sweeping = true
		time.AfterFunc(activeFor, s.sweep)
	}
	return t
}

// sweep removes the tenants that had no request since the last sweep. It runs again while there are other tenants.
func (s *Shares) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.tenants {
		switch {
		case t.held > 0 || t.queued != nil:
		case !t.idle:
			t.idle = true
		default:
			delete(s.tenants, id)
			if id != "" {
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
