package spoolman

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"spoolwright/db"
)

const (
	pollEvery  = time.Second
	checkEvery = 10 // regular polls, after which the keys of the sockets are checked

	// waitFor is how long other tenants wait for the poll of a tenant, unless its last one took longer.
	waitFor = 100 * time.Millisecond

	// pollWindow is longer than transactions take, because updated_at is the time at which a transaction begins.
	pollWindow = "20 seconds"

	// wakeDelay is the time from a change by this instance to the poll that sends it together with others.
	wakeDelay = 100 * time.Millisecond

	// After more than maxChanges changes between two polls, or more than maxRecent within pollWindow, for example by an
	// import, the sockets are closed instead: their clients read the lists when they connect again.
	maxChanges = 1000
	maxRecent  = 10_000
)

// state tells versions of a spool apart.
type state struct {
	at     string
	hidden bool
}

// watch sends the changes of spools to the sockets until ctx ends. It polls the tenants that have an open socket. So it
// finds the changes of other instances too, and writes have no additional cost.
func (h *hub) watch(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for n := 0; ; {
		var only map[string]bool
		check := false
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
			time.Sleep(wakeDelay)
			h.mu.Lock()
			only, h.dirty = h.dirty, map[string]bool{}
			h.mu.Unlock()
		case <-tick.C:
			n++
			check = n%checkEvery == 0
		}
		h.mu.Lock()
		var tenants []string
		for tenant := range h.tenants {
			if only == nil || only[tenant] {
				tenants = append(tenants, tenant)
			}
		}
		h.mu.Unlock()
		for _, tenant := range tenants {
			h.visit(ctx, tenant, check)
		}
	}
}

// visit polls a tenant, and then checks the keys of its sockets if check is set. It does not wait long for the
// database, which may be one of several and hang, and does nothing while it still waits for an earlier visit.
func (h *hub) visit(ctx context.Context, tenant string, check bool) {
	h.mu.Lock()
	a := h.tenants[tenant]
	if a == nil || a.visited {
		h.mu.Unlock()
		return
	}
	a.visited = true
	slow := a.slow
	h.mu.Unlock()
	done := make(chan bool)
	begin := time.Now()
	go func() {
		h.poll(ctx, tenant) // after an error, the next poll tries again
		if check {
			h.check(ctx, a)
		}
		h.mu.Lock()
		a.visited, a.slow = false, time.Since(begin) > waitFor
		h.mu.Unlock()
		close(done)
	}()
	if slow {
		return
	}
	select {
	case <-done:
	case <-time.After(waitFor):
	}
}

// check closes the sockets whose keys or users are not valid any more.
func (h *hub) check(ctx context.Context, a *audience) {
	callers := map[db.Actor]bool{}
	h.mu.Lock()
	for s := range a.sockets {
		callers[s.caller] = true
	}
	h.mu.Unlock()
	for caller := range callers {
		err := h.db.CheckActor(db.As(ctx, caller))
		if errors.Is(err, db.ErrRevoked) || errors.Is(err, db.ErrKeyRevoked) {
			h.endAll(caller)
		}
	}
}

// endAll closes the sockets of a caller.
func (h *hub) endAll(caller db.Actor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tenants[caller.Tenant]; a != nil {
		for s := range a.sockets {
			if s.caller == caller {
				s.end(closePolicy)
			}
		}
	}
}

// newerThan returns the SQL expression for an id between those of older and those of younger ledger entries. The first
// 48 bits of an id are the time in milliseconds.
func newerThan(interval string) string {
	return `(lpad(to_hex((extract(epoch from now() - interval '` + interval + `') * 1000)::bigint), 12, '0') ||
		repeat('0', 20))::uuid`
}

// changedSpools selects the ids of tenant $1's spools that changed within pollWindow. It reads only these, however many
// spools the tenant has, and needs no index on columns that a deduction changes: those would make deductions slower.
var changedSpools = `(
	select u.spool_id as id from spool_usage u where u.tenant_id = $1::uuid and u.id > ` + newerThan(pollWindow) + `
	union select u.spool_id from spool_usage u
		where u.tenant_id = $1::uuid and u.kind = 'printed' and u.id > ` + newerThan("1 hour "+pollWindow) + `
			and u.updated_at > now() - interval '` + pollWindow + `'
	union select s.id from spools s where s.tenant_id = $1::uuid and s.edited_at is not null
		and s.edited_at > now() - interval '` + pollWindow + `'
	limit ` + strconv.Itoa(maxRecent+1) + `) changed`

// poll sends the changes of a tenant's spools since the last poll. The first poll of a tenant sends nothing.
func (h *hub) poll(ctx context.Context, tenant string) error {
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	var text []byte
	err := h.db.Read(ctx, db.SQL(`
		select coalesce(json_agg(json_build_array(s.number, s.updated_at::text, s.hidden_at is not null,
			s.created_at = s.updated_at) order by s.updated_at, s.number), '[]')::text
		from `+changedSpools+` cross join lateral (
			select * from spools x where x.tenant_id = $1::uuid and x.id = changed.id offset 0) s`, tenant).Into(&text))
	if err != nil {
		return err
	}
	var rows [][4]any
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	h.mu.Lock()
	a := h.tenants[tenant]
	if a == nil {
		h.mu.Unlock()
		return nil
	}
	before := a.seen
	if len(rows) > maxRecent {
		a.missed = true
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()

	seen := map[int64]state{}
	var changed []int64
	types := map[int64]string{}
	for _, row := range rows {
		number := int64(row[0].(float64))
		now := state{row[1].(string), row[2].(bool)}
		seen[number] = now
		old, known := before[number]
		switch {
		case before == nil || known && old == now:
			continue
		case now.hidden:
			types[number] = "deleted"
		case !known && row[3].(bool) || old.hidden:
			types[number] = "added"
		default:
			types[number] = "updated"
		}
		changed = append(changed, number)
	}
	h.mu.Lock()
	tooMany := a.missed || len(changed) > maxChanges
	if tooMany {
		for s := range a.sockets {
			s.end(closeTryLater)
		}
		a.seen, a.missed = seen, false
	}
	h.mu.Unlock()
	if tooMany {
		return nil
	}
	const batch = 100 // spools of one round trip
	for start := 0; start < len(changed); start += batch {
		part := changed[start:min(start+batch, len(changed))]
		payloads := make([]string, len(part))
		var stmts []*db.Stmt
		for i, number := range part {
			stmts = append(stmts, db.SQL(`select `+spoolJSON+`::text from `+oneSpool, tenant, number).Into(&payloads[i]))
		}
		if err := h.db.Read(ctx, stmts...); err != nil {
			return err
		}
		for i, number := range part {
			message := `{"type":"` + types[number] + `","resource":"spool","date":"` +
				time.Now().UTC().Format(time.RFC3339) + `","payload":` + payloads[i] + `}`
			h.tell(tenant, number, frame(opText, []byte(message)))
		}
	}
	h.mu.Lock()
	a.seen = seen
	h.mu.Unlock()
	return nil
}

// tell sends a frame to the tenant's sockets that want the spool.
func (h *hub) tell(tenant string, spool int64, f []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tenants[tenant]; a != nil {
		for s := range a.sockets {
			if s.spool == 0 || s.spool == spool {
				s.send(f)
			}
		}
	}
}
