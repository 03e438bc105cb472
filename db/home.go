package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/dial"
	"spoolwright/db/fair"
)

// With several databases, each tenant is at home in one of them. Home 0 is the database of Config.URL, which also has
// the login directory and the table tenant_homes; home n is Config.Further[n-1]. A DB remembers the homes of tenants.
// A tenant that moves leaves a row in tenant_departures of its old home, so that a DB with an old memory notices.

// Further names a further database. OwnerURL is that of the login that migrates it; if it is empty, that of URL does.
type Further struct{ URL, OwnerURL string }

// FurtherError is an error of Open about a further database.
type FurtherError struct {
	Number int // counted from 1
	Err    error
}

func (e *FurtherError) Error() string { return e.Err.Error() }
func (e *FurtherError) Unwrap() error { return e.Err }

// homes are all databases of a DB.
type homes struct {
	directory *DB     // home 0
	all       []*home // by number
	stop      context.CancelFunc
	watchers  sync.WaitGroup

	mu    sync.RWMutex
	known map[string]place // by tenant
}

// maxKnown bounds homes.known to about 10 MiB. When it is full, it is emptied.
const maxKnown = 65_536

// place is where a tenant is at home.
type place struct {
	home  int
	moves int // how often the tenant has moved
}

// home is one of the databases. If it is out of reach, requests for its tenants fail at once, so that they do not hold
// resources that other tenants need.
type home struct {
	number int
	db     atomic.Pointer[DB] // nil until the first connection
	up     atomic.Bool
	queued chan struct{} // of db
}

const (
	watchEvery = 5 * time.Second
	watchDown  = time.Second // while the database is out of reach
	watchTime  = 3 * time.Second
	joinTime   = 10 * time.Second // to connect for the first time, without the time of migrations
)

// openHomes connects to the further databases.
func openHomes(ctx context.Context, first *DB, c Config) (*homes, error) {
	watching, stop := context.WithCancel(context.Background())
	hs := &homes{directory: first, all: []*home{{queued: first.queued}}, known: map[string]place{}, stop: stop}
	hs.all[0].db.Store(first)
	hs.all[0].up.Store(true)
	var joining sync.WaitGroup
	errs := make([]error, len(c.Further))
	for i, f := range c.Further {
		h := &home{number: i + 1, queued: make(chan struct{}, 1)}
		hs.all = append(hs.all, h)
		joining.Go(func() { errs[i] = h.join(ctx, first, c, f) })
	}
	joining.Wait()
	for i, err := range errs {
		if err != nil && (ctx.Err() != nil || !isAway(err)) {
			hs.close()
			return nil, &FurtherError{i + 1, err}
		}
		if err != nil {
			first.log.Warn("a database is out of reach: its tenants get 503", "database", i+1, "error", err)
		}
	}
	for i, h := range hs.all[1:] {
		hs.watchers.Go(func() { h.watch(watching, first, c, c.Further[i]) })
	}
	return hs, nil
}

func (hs *homes) close() {
	hs.stop()
	hs.watchers.Wait()
	for _, h := range hs.all[1:] {
		if d := h.db.Load(); d != nil {
			d.pool.Close()
		}
	}
}

// join migrates the database, checks that it is the one that had this number before, and connects to it.
func (h *home) join(ctx context.Context, first *DB, c Config, f Further) error {
	if err := reach(ctx, cmp.Or(f.OwnerURL, f.URL), joinTime); err != nil {
		return err
	}
	if _, err := Migrate(ctx, cmp.Or(f.OwnerURL, f.URL), f.URL, c.Definitions); err != nil {
		return err
	}
	c.URL, c.Further = f.URL, nil
	d, err := openOne(ctx, c)
	if err != nil {
		return err
	}
	d.queued = h.queued
	if err := h.register(ctx, first, d); err != nil {
		d.pool.Close()
		return err
	}
	h.db.Store(d)
	h.up.Store(true)
	return nil
}

// register enters the database in home 0. The error says that it is another one than before.
func (h *home) register(ctx context.Context, first, d *DB) error {
	var id string
	var registered *string
	var tenants int
	_, err := d.directory(ctx, `select id::text, (select count(*) from login_tenants()) from this_database`, nil,
		&id, &tenants)
	if err != nil {
		return err
	}
	if tenants > 0 {
		return errors.New("the database has a login directory: it is the first one of an installation")
	}
	if _, err := first.directory(ctx, `select home_register($1, $2)::text`, []any{h.number, id},
		&registered); err != nil {
		return err
	}
	if registered == nil || *registered != id {
		return errors.New("another database had this position before: the databases must keep their order, and none " +
			"may be left out")
	}
	return nil
}

// watch connects to the database if that is still to be done, and keeps up current.
func (h *home) watch(ctx context.Context, first *DB, c Config, f Further) {
	for failed := !h.up.Load(); ; {
		pause := watchEvery
		if failed {
			pause = watchDown
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var err error
		if h.db.Load() == nil {
			err = h.join(ctx, first, c, f)
		} else if err = reach(ctx, f.URL, watchTime); err != nil && !isAway(err) {
			err = nil // it answers, for example that it has too many connections
		}
		if ctx.Err() != nil {
			return
		}
		h.up.Store(err == nil)
		switch {
		case err != nil && !failed:
			first.log.Warn("a database is out of reach: its tenants get 503", "database", h.number, "error", err)
		case err == nil && failed:
			first.log.Info("a database is back", "database", h.number)
		case err != nil && !isAway(err):
			first.log.Warn("a database cannot be used: its tenants get 503", "database", h.number, "error", err)
		}
		failed = err != nil
	}
}

// reach connects to a database and closes the connection. It uses no pool, whose connections may all be in use.
func reach(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dial.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// open returns the database, or ErrUnavailable if it is out of reach.
func (h *home) open() (*DB, error) {
	if d := h.db.Load(); d != nil && h.up.Load() {
		return d, nil
	}
	return nil, fmt.Errorf("%w: database %d is out of reach", ErrUnavailable, h.number)
}

// find returns where a tenant is at home, from memory if it is there.
func (hs *homes) find(ctx context.Context, tenant string) (place, error) {
	hs.mu.RLock()
	at, ok := hs.known[tenant]
	hs.mu.RUnlock()
	if ok {
		return at, nil
	}
	return hs.lookUp(ctx, tenant)
}

// lookUp reads from home 0 where a tenant is at home.
func (hs *homes) lookUp(ctx context.Context, tenant string) (at place, err error) {
	if _, err = hs.directory.directory(ctx, `select home, moves from home_find($1)`, []any{tenant},
		&at.home, &at.moves); err != nil {
		return at, err
	}
	if at.home >= len(hs.all) {
		return at, fmt.Errorf("%w: the tenant is at home in database %d, which FURTHER_DATABASE_URLS does not name",
			ErrUnavailable, at.home)
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.known) >= maxKnown {
		clear(hs.known)
	}
	hs.known[tenant] = at
	return at, nil
}

// visit calls fn with the database in which the context's tenant is at home. If the tenant, or the caller, is no
// longer there, or the database is out of reach, it looks up the home, and calls fn again if that is another one.
func (hs *homes) visit(ctx context.Context, write bool, fn func(*DB, gate) error) error {
	tenant := ActorOf(ctx).Tenant
	if tenant == "" {
		return errNoTenant
	}
	at, err := hs.find(ctx, tenant)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		d, err := hs.all[at.home].open()
		again := err != nil
		if err == nil {
			err = fn(d, gate(at.moves))
			again = errors.Is(err, errMoved) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrKeyRevoked)
		}
		if !again || try == 3 {
			return err
		}
		moved := errors.Is(err, errMoved)
		now, lookUpErr := hs.lookUp(ctx, tenant)
		switch {
		case lookUpErr != nil:
			return lookUpErr
		case now == at && !moved:
			return err
		case now == at && write:
			return errMoving
		case now == at:
			// The move ended between its last two steps, the row in tenant_departures and that in tenant_homes. The
			// rows here are complete as long as the home stays the same.
			err = fn(d, ungated)
			if now, lookUpErr = hs.lookUp(ctx, tenant); lookUpErr != nil || now == at {
				return cmp.Or(err, lookUpErr)
			}
		}
		at = now
	}
}

var errNoTenant = errors.New("db: the context has no tenant")

// gate is the number of moves of a tenant that a transaction knows of. The transaction is rejected if the tenant has
// left the database with a later move.
type gate int

// ungated is the gate of a DB with one database, which nothing leaves.
const ungated gate = -1

// statements returns those that reject the transaction if the tenant has left or, for a write, is being moved. A write
// holds the lock of the tenant's home, shared, until it ends. Only the statement after that sees whether the tenant
// left while another transaction had the lock.
func (g gate) statements(tenant string, write bool) (all []Statement) {
	if g == ungated {
		return nil
	}
	if write {
		all = append(all, Statement{`select case when not pg_try_advisory_xact_lock_shared(` + homeLock + `)
			then refuse('SW503', 'the tenant is being moved') end`, []any{tenant}})
	}
	return append(all, Statement{`select refuse('SW410', 'the tenant has moved') from tenant_departures
		where tenant_id = $1 and moves > $2`, []any{tenant, int(g)}})
}

func (g gate) queue(b *pgx.Batch, tenant string, write bool) {
	for _, s := range g.statements(tenant, write) {
		b.Queue(s.SQL, s.Args...)
	}
}

// homeLock is the key of the advisory lock of tenant $1 in its home. Writes share it; a move has it alone.
const homeLock = `hashtextextended('home ' || $1::text, 0)`

// IsAway reports whether an error of a tenant's statements means that the tenant's database is out of reach, while
// those of other tenants may be within reach. With one database, it is false.
func (d *DB) IsAway(err error) bool { return d.homes != nil && errors.Is(err, ErrUnavailable) }

// FurtherUp returns, for each further database, whether it is within reach.
func (d *DB) FurtherUp() []bool {
	if d.homes == nil {
		return nil
	}
	var up []bool
	for _, h := range d.homes.all[1:] {
		up = append(up, h.up.Load())
	}
	return up
}

// Home returns the number of the home of a tenant, or nil if there is only one database.
func (d *DB) Home(ctx context.Context, tenant string) (*int, error) {
	if d.homes == nil {
		return nil, nil
	}
	at, err := d.homes.lookUp(ctx, tenant)
	return &at.home, err
}

// Settle makes the database with the fewest tenants, of those within reach, the home of a new tenant.
func (d *DB) Settle(ctx context.Context, tenant string) error {
	if d.homes == nil {
		return nil
	}
	var numbers, counts []int
	_, err := d.directory(ctx,
		`select coalesce(array_agg(home), '{}'), coalesce(array_agg(number), '{}') from home_counts()`,
		nil, &numbers, &counts)
	if err != nil {
		return err
	}
	tenants := make([]int, len(d.homes.all))
	for i, number := range numbers {
		if number < len(tenants) {
			tenants[number] = counts[i]
		}
	}
	emptiest := 0
	for _, h := range d.homes.all {
		if _, err := h.open(); err == nil && tenants[h.number] < tenants[emptiest] {
			emptiest = h.number
		}
	}
	return d.SettleIn(ctx, tenant, emptiest)
}

// SettleIn makes the database with the number the home of a new tenant.
func (d *DB) SettleIn(ctx context.Context, tenant string, home int) error {
	return d.inDirectory(ctx, tenant, SQL(`select home_claim($1)::text`, home))
}

// inDirectory runs statements in home 0 that are bound to a tenant, which may be at home elsewhere.
func (d *DB) inDirectory(ctx context.Context, tenant string, stmts ...*Stmt) error {
	return d.sendOne(As(ctx, Actor{Tenant: tenant}), ungated, false, stmts)
}

// Exclusive runs fn while it holds the lock of that name in home 0, with a connection of its own. It may take as long
// as ctx allows. With one database it only runs fn: there, the transactions of fn can lock what they need.
func (d *DB) Exclusive(ctx context.Context, name string, fn func() error) error {
	if d.homes == nil {
		return fn()
	}
	_, err := d.tryTx(As(ctx, Actor{Tenant: NewID()}), ctx, ungated, fair.Write, func(ctx context.Context) error {
		err := d.Write(ctx, SQL(`select set_config('idle_in_transaction_session_timeout', '0', true),
			pg_advisory_xact_lock(hashtextextended($1::text, 0))::text`, name))
		if err != nil {
			return err
		}
		return fn()
	})
	if err != nil {
		return classify(err)
	}
	return nil
}
