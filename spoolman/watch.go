package spoolman

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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

// item names a spool, a filament, a vendor or a setting.
type item struct{ resource, id string }

// state tells versions of an item apart.
type state struct {
	at     string
	hidden bool
}

// watch sends the changes of spools, filaments and vendors to the sockets until ctx ends. It polls the tenants that
// have an open socket. So it finds the changes of other instances too, and writes have no additional cost.
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

// changedSpools selects the ids of tenant $1's spools that changed within pollWindow. It reads only these, however
// many spools the tenant has, and needs no index on columns that a deduction changes: those would make deductions
// slower.
var changedSpools = `(
	select u.spool_id as id from spool_usage u where u.tenant_id = $1::uuid and u.id > ` + newerThan(pollWindow) + `
	union select u.spool_id from spool_usage u
		where u.tenant_id = $1::uuid and u.kind = 'printed' and u.id > ` + newerThan("1 hour "+pollWindow) + `
			and u.updated_at > now() - interval '` + pollWindow + `'
	union select s.id from spools s where s.tenant_id = $1::uuid and s.edited_at is not null
		and s.edited_at > now() - interval '` + pollWindow + `'
	limit ` + strconv.Itoa(maxRecent+1) + `) changed`

// changedItems selects what changed within pollWindow: resource, number, version, hidden, new. A spool that only
// follows its filament has no new version: its clients get the message about the filament.
var changedItems = `(
	select 'spool' as resource, s.number,
		concat_ws('|', s.edited_at, s.last_used_at, s.remaining_weight_grams) as version,
		s.hidden_at is not null as hidden, s.created_at = s.updated_at as new, s.updated_at
	from ` + changedSpools + ` cross join lateral (
		select * from spools x where x.tenant_id = $1::uuid and x.id = changed.id offset 0) s
	union all select 'filament', f.number, f.updated_at::text, f.hidden_at is not null, f.created_at = f.updated_at,
		f.updated_at
	from filaments f where f.tenant_id = $1::uuid and num_nonnulls(f.updated_at) = 1
		and f.updated_at > now() - interval '` + pollWindow + `'
	union all select 'vendor', v.number, v.updated_at::text, v.hidden_at is not null, v.created_at = v.updated_at,
		v.updated_at
	from vendors v where v.tenant_id = $1::uuid and num_nonnulls(v.updated_at) = 1
		and v.updated_at > now() - interval '` + pollWindow + `'
) changes`

// poll sends the changes of a tenant's items since the last poll. The first poll of a tenant sends nothing.
func (h *hub) poll(ctx context.Context, tenant string) error {
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	var text []byte
	err := h.db.Read(ctx, db.SQL(`
		select coalesce(json_agg(json_build_array(resource, number::text, version, hidden, new)
			order by updated_at, resource desc, number), '[]')::text
		from `+changedItems, tenant).Into(&text))
	if err != nil {
		return err
	}
	var rows [][5]any
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
	seen := map[item]state{}
	var changed []item
	types := map[item]string{}
	for _, row := range rows {
		it := item{row[0].(string), row[1].(string)}
		now := state{row[2].(string), row[3].(bool)}
		seen[it] = now
		old, known := before[it]
		switch {
		case before == nil || known && old == now || now.hidden && a.removed[it]:
			continue
		case now.hidden:
			types[it] = "deleted"
		case !known && row[4].(bool) || old.hidden:
			types[it] = "added"
		default:
			types[it] = "updated"
		}
		changed = append(changed, it)
	}
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
	const batch = 100 // items of one round trip
	for start := 0; start < len(changed); start += batch {
		part := changed[start:min(start+batch, len(changed))]
		payloads := make([][]byte, len(part))
		var stmts []*db.Stmt
		for i, it := range part {
			number, err := parseID(it.id)
			if err != nil {
				return err
			}
			stmts = append(stmts, db.SQL(numbered[it.resource], tenant, number).Into(&payloads[i]))
		}
		if err := h.db.Read(ctx, stmts...); err != nil {
			return err
		}
		for i, it := range part {
			if payloads[i] != nil { // otherwise it was deleted meanwhile
				h.tell(tenant, it, message(types[it], it.resource, payloads[i]))
			}
		}
	}
	h.mu.Lock()
	a.seen = seen
	h.mu.Unlock()
	return nil
}

// message returns the frame of a message about an item whose JSON is payload.
func message(kind, resource string, payload []byte) []byte {
	return frame(opText, slices.Concat([]byte(`{"type":"`+kind+`","resource":"`+resource+`","date":"`+
		time.Now().UTC().Format(time.RFC3339)+`","payload":`), payload, []byte("}")))
}

// tell sends a frame to the tenant's sockets that want the item.
func (h *hub) tell(tenant string, it item, f []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.tenants[tenant]; a != nil {
		for s := range a.sockets {
			if s.topic == "" || s.topic == it.resource && (s.item == "" || s.item == it.id) {
				s.send(f)
			}
		}
	}
}
