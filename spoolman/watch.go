package spoolman

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"spoolwright/db"
	"spoolwright/inventory"
)

const (
	pollEvery  = time.Second
	checkEvery = 10 // every tenth regular poll also checks the keys of sockets for which there is no message

	// waitFor is how long watch waits for the poll of a tenant before it polls the next tenant. If the previous poll
	// of the tenant took longer than waitFor, watch does not wait.
	waitFor = 100 * time.Millisecond

	// A poll reads the items that changed within pollWindow. pollWindow is longer than any transaction takes, because
	// updated_at is the time at which the transaction began.
	pollWindow = "20 seconds"

	// wakeDelay is the time from a change by this instance to the poll that sends the change. The poll also sends all
	// other changes that happened during wakeDelay.
	wakeDelay = 100 * time.Millisecond

	// The hub closes a tenant's sockets, instead of sending the changes, after more than maxChanges changes between
	// two polls or more than maxRecent changes within pollWindow, for example by an import. The clients read the lists
	// when they connect again.
	maxChanges = 1000
	maxRecent  = 10_000
)

// watch sends the changes of spools, filaments and vendors to the sockets until ctx ends. It polls the database for
// the changes of each tenant that has an open socket. So it finds changes by other instances too, and a write needs no
// additional statement.
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

// visit polls a tenant. If check is set, it then checks the keys of the tenant's sockets. visit returns after waitFor
// even if the poll is still in progress: the poll may wait until other requests of the tenant release a database
// connection. visit does nothing while an earlier visit of the tenant is in progress.
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
			h.check(ctx, tenant) // likewise
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

// changedSpools selects the ids of the spools that changed within pollWindow.
var changedSpools = `(` + inventory.ChangedSpools(`(now() - interval '`+pollWindow+`')`) + `
	limit ` + strconv.Itoa(maxRecent+1) + `) changed`

// changedItems selects the spools, filaments and vendors that changed within pollWindow, with the columns resource,
// number, version, hidden, new and updated_at. A change of a filament gives its spools no new version: clients get a
// message about the filament only.
var changedItems = `(
	select 'spool' as resource, s.number,
		concat_ws('|', s.edited_at, s.last_used_at, s.remaining_weight_grams) as version,
		s.hidden_at is not null as hidden, s.created_at = s.updated_at as new, s.updated_at
	from ` + changedSpools + ` cross join lateral (
		select * from spools x where x.tenant_id = $1::uuid and x.id = changed.id) s
	union all select 'filament', f.number, f.updated_at::text, f.hidden_at is not null, f.created_at = f.updated_at,
		f.updated_at
	from filaments f where f.tenant_id = $1::uuid
		and f.updated_at > now() - interval '` + pollWindow + `'
	union all select 'vendor', v.number, v.updated_at::text, v.hidden_at is not null, v.created_at = v.updated_at,
		v.updated_at
	from vendors v where v.tenant_id = $1::uuid
		and v.updated_at > now() - interval '` + pollWindow + `'
) changes`

// poll sends the changes of a tenant's items since the last poll. The first poll of a tenant sends nothing. The round
// trip that reads the items then checks the callers of the sockets, so that nobody gets changes made after their
// access ended.
func (h *hub) poll(ctx context.Context, tenant string) error {
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	h.mu.Lock()
	var told map[item]bool // removals that the read below finds but that were sent already
	if a := h.tenants[tenant]; a != nil {
		told = maps.Clone(a.removed)
	}
	h.mu.Unlock()
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
		case !known && row[4].(bool) || old.hidden || told[it]:
			types[it] = "added"
		default:
			types[it] = "updated"
		}
		changed = append(changed, it)
	}
	tooMany := a.missed || len(changed) > maxChanges
	if tooMany {
		for s := range a.sockets {
			s.end(websocket.StatusTryAgainLater)
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
		check, end := h.checkCallers(tenant)
		if err := h.db.Read(ctx, append(stmts, check)...); err != nil {
			return err
		}
		if err := end(); err != nil {
			return err
		}
		for i, it := range part {
			if payloads[i] != nil { // nil if the item was deleted in the meantime
				h.broadcast(tenant, it, messageOf(types[it], it.resource, payloads[i]))
			}
			before[it] = seen[it] // if a later batch fails, the next poll does not send this change again
		}
	}
	h.mu.Lock()
	a.seen = seen
	for it := range told { // a.seen has these removals now; the items can be restored and removed again
		delete(a.removed, it)
	}
	h.mu.Unlock()
	return nil
}
