// Package fair divides the connections of a pool among tenants. A request acquires a share before it takes a
// connection, so that waiting requests hold no connections.
//
// Reads get at most half of the connections, and writes three quarters, so that slow reads cannot block writes, and
// slow writes cannot block reads. While other tenants are active, one tenant gets at most a quarter of all
// connections, a quarter of the connections for reads, and a quarter of the connections for writes. While no other
// tenant is active, the tenant gets all connections of each kind except the last one. The last connection is reserved
// for a tenant that holds none: such a tenant does not wait for the requests of a busy tenant.
//
// While other tenants are active, a tenant whose reads are slow, on average or at the moment, runs fewer reads at a
// time than there are processors.
// Each slow read, such as a search in many long texts, keeps a processor of PostgreSQL busy: on a computer with two
// processors, a tenant with a quarter of the connections for reads would leave no processor for other tenants.
//
// Waiting tenants take turns. The requests of one tenant and class are served in the order in which they came.
//
// Quick reads get as many connections as there are processors, but at least two and at most a quarter of all, because
// a request with a connection also sends other waiting quick reads. For a tenant that holds no connection, the limit
// is twice as high.
//
// The tenant "" is the service itself: logins and readiness checks. It gets at most a quarter of the connections, but
// no other limit applies to it, and a pool of at least 8 keeps a connection for it. It never counts as active.
package fair

import (
	"container/list"
	"context"
	"slices"
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

// maxSerialized is the number of connections of one tenant for serialized transactions: one transaction runs and one
// waits for the lock, so that PostgreSQL can pass the lock on at once. Further transactions would hold connections
// only to wait.
const maxSerialized = 2

// activeFor is the minimum time for which a tenant counts as active after its last request. The maximum is twice as
// long.
const activeFor = time.Second

// slowRead is the average time above which the reads of a tenant count as slow.
const slowRead = 20 * time.Millisecond

// Shares are the shares of a pool. Its methods may be called concurrently.
type Shares struct {
	mu       sync.Mutex
	conns    int          // of the pool
	total    int          // for tenants
	limit    [classes]int // for tenants; Serialized counts as Write, and Quick as Read too
	slow     int          // for the slow reads of a tenant while other tenants are active; quick reads do not count
	inUse    int          // of total, by tenants
	used     [classes]int // of limit
	service  int          // in use by the service itself
	tenants  map[string]*tenant
	active   int       // the number of tenants other than ""
	queue    list.List // the waiting tenants, as *tenant, the next one first
	seq      int64
	sweeping bool // whether a call of sweep is scheduled
	stats    Stats
}

// Stats are totals since New was called.
type Stats struct {
	Waits    int64 // requests that waited
	WaitTime time.Duration
}

// tenant has the connections and the waiting requests of a tenant.
type tenant struct {
	id      string
	held    int
	used    [classes]int
	took    time.Duration      // average time of the reads that are not quick; recent reads count more
	began   []time.Time        // the start times of the running reads that are not quick
	waiting [classes]list.List // of *waiter
	queued  *list.Element      // in Shares.queue; nil if nothing waits
	idle    bool               // whether there was no request since the last sweep
}

type waiter struct {
	class   Class
	seq     int64
	granted chan struct{} // closed when has and began are set
	has     bool          // whether the waiter has its connection
	began   time.Time     // when it got it
}

// New returns the shares of a pool. Processors is the number of processors of the computer that runs the service.
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

// Acquire waits until the tenant may use one more connection. If ctx or client, the context of the HTTP request, ends
// first, it returns the error of that context.
func (s *Shares) Acquire(ctx, client context.Context, id string, c Class) (Share, error) {
	s.mu.Lock()
	t := s.tenants[id]
	if t == nil {
		t = s.add(id)
	}
	t.idle = false
	if s.admits(t, c) {
		began := s.grant(t, c)
		s.mu.Unlock()
		return Share{s, t, c, began}, nil
	}
	w := &waiter{class: c, seq: s.seq, granted: make(chan struct{})}
	s.seq++
	element := t.waiting[c].PushBack(w)
	if t.queued == nil {
		t.queued = s.queue.PushBack(t)
	}
	s.mu.Unlock()

	begin := time.Now()
	var err error
	select {
	case <-w.granted:
	case <-ctx.Done():
		err = ctx.Err()
	case <-client.Done():
		err = client.Err()
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Waits++
	s.stats.WaitTime += now.Sub(begin)
	switch {
	case err == nil:
		return Share{s, t, c, w.began}, nil
	case w.has:
		t.ended(c, w.began)
		s.giveBack(t, c)
	default:
		t.waiting[c].Remove(element)
		s.unqueue(t)
	}
	return Share{}, err
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
	s.tenant.ended(s.class, s.began)
	s.shares.giveBack(s.tenant, s.class)
}

// grant gives the tenant a connection, and returns the time.
func (s *Shares) grant(t *tenant, c Class) time.Time {
	s.count(t, c, 1)
	began := time.Now()
	if c == Read {
		t.began = append(t.began, began)
	}
	return began
}

// ended removes a read with this start time from the running reads.
func (t *tenant) ended(c Class, began time.Time) {
	if c == Read {
		i := slices.IndexFunc(t.began, began.Equal)
		t.began = slices.Delete(t.began, i, i+1)
	}
}

// isSlow reports whether the reads of the tenant are slow on average, or a running one is.
func (t *tenant) isSlow() bool {
	return t.took > slowRead ||
		slices.ContainsFunc(t.began, func(began time.Time) bool { return time.Since(began) > slowRead })
}

// Serialize changes the class of a share from Write to Serialized. If the tenant has maxSerialized such shares, it
// changes nothing and returns false.
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
	if c == Read && s.active > 1 && t.isSlow() && t.used[Read]-t.used[Quick] >= s.slow {
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

// allButLast returns n-1, or n if n is less than 4.
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

// dispatch grants connections to waiting requests until no waiting request may get one. It must be called after each
// change that lets a request get a connection.
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
		w.began = s.grant(t, w.class)
		s.queue.MoveToBack(e)
		s.unqueue(t)
		w.has = true
		close(w.granted)
		e = s.queue.Front()
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

// sweep removes the tenants without a request since the last sweep. It schedules another sweep while tenants are left.
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
