// Package follow tells programs what changes in a farm, so that they can keep a copy of it.
package follow

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

var tag = &server.Tag{Name: "stream", Description: "What changes in a farm, for programs that keep a copy of it."}

// Routes returns the operation of the stream.
func Routes(d *db.DB) []server.Route {
	return []server.Route{server.Op("GET /api/v1/stream", server.Read, server.HandleEvents(
		func(_ *server.Request[struct{}], last string) (server.Poll, error) { return newStream(d, last) }), followDoc)}
}

const (
	// window is longer than a transaction of a request takes: updated_at is the time at which it began.
	window = "20 seconds"

	// overlap is added to the time since a Last-Event-ID, which the transactions of a client may precede.
	overlap = time.Minute

	maxChanges = 1000           // of an event
	maxRecent  = 10_000         // changes within window
	maxSince   = 24 * time.Hour // since a Last-Event-ID
)

var followDoc = &server.Doc{
	ID: "getStream", Tag: tag, Summary: "Get a stream of what changes",
	Description: "A stream of server-sent events, by a bearer token or an API key. The data of an event is a JSON " +
		"object: `changed` and `deleted` are lists of objects with the `resource`, the last part of the path of its list, " +
		"and the `id`. `changed` has vendors, filaments, spools, printers, orders and production runs that were created, " +
		"changed, removed or restored; `deleted` has what no longer exists, also products. Changes by all instances of the " +
		"service arrive within two seconds, at least once. With `reset`, there were too many: read the lists again. The " +
		"first event comes at once.\n\nThe stream ends after 15 minutes, when access ends, and when the service stops. A " +
		"client that connects again sends the `id` of its last event as `Last-Event-ID`, as browsers do, and the first " +
		"event has what happened since then; after more than a day, and for a time in the future, it is a `reset`. Other " +
		"products than deleted ones are not in the stream: `updated_from` finds them.\n\nA tenant has at most 10 such " +
		"streams, a user or an API key at most 5. `docs/clients.md` shows how to keep a copy.",
}

type item struct {
	Resource string `json:"resource"`
	ID       string `json:"id"`
}

type event struct {
	Reset   bool   `json:"reset"`
	Changed []item `json:"changed"`
	Deleted []item `json:"deleted"`
}

// stream is what a stream has sent.
type stream struct {
	db     *db.DB
	since  any                  // the moment from which the first poll reads, or nil
	reset  bool                 // whether a reset is due
	begun  bool                 // whether there was a poll
	missed bool                 // whether the last poll found too many changes
	seen   map[item]seenVersion // what changed within window
}

type seenVersion struct {
	at      string
	deleted bool
}

// newStream returns the function that reads what has changed since its last call.
func newStream(d *db.DB, last string) (server.Poll, error) {
	s := &stream{db: d, seen: map[item]seenVersion{}}
	if last != "" {
		at, problem := value.ParseTimestamp(last)
		if problem != "" {
			return nil, server.Invalid("Last-Event-ID", "must be the id of an event")
		}
		age := d.Now().Sub(at.Time)
		if s.since = at.Add(-overlap); age > maxSince || age < -overlap {
			s.since, s.reset = nil, true
		}
	}
	return s.poll, nil
}

// changes selects what has changed since the moment $1 or, if it is null, within window.
var changes = func() string {
	const since = `coalesce($1::timestamptz, now() - interval '` + window + `')`
	return `
		select 'spools' as resource, s.id, s.updated_at as at, false as deleted
		from (` + inventory.UpdatedSpools(since) + `) c cross join lateral (
			select id, updated_at from spools x where x.id = c.id and x.updated_at >= ` + since + ` offset 0) s
		union all select 'vendors', id, updated_at, false from vendors where updated_at >= ` + since + `
		union all select 'filaments', id, updated_at, false from filaments where updated_at >= ` + since + `
		union all select 'printers', id, updated_at, false from printers where updated_at >= ` + since + `
		union all select 'orders', id, updated_at, false from orders where updated_at >= ` + since + `
		union all select 'production-runs', id, updated_at, false from production_runs where updated_at >= ` + since + `
		union all select resource, id, deleted_at, true from deleted_rows where deleted_at >= ` + since + `
		limit ` + strconv.Itoa(maxRecent+1)
}()

// poll reads what has changed since the last poll, and returns the event with it.
func (s *stream) poll(ctx context.Context) (id string, data []byte, err error) {
	var text []byte
	var now time.Time
	err = s.db.Read(ctx, db.SQL(`
		select clock_timestamp(), coalesce(json_agg(json_build_array(resource, id, at, deleted) order by at), '[]')::text
		from (`+changes+`) c`, s.since).Into(&now, &text))
	if err != nil {
		return "", nil, err
	}
	var rows [][4]any
	if err := json.Unmarshal(text, &rows); err != nil {
		return "", nil, err
	}
	tooMany := len(rows) > maxRecent
	e := event{Reset: s.reset || s.missed != tooMany, Changed: []item{}, Deleted: []item{}}
	known := !s.begun && s.since == nil // without a Last-Event-ID, the client reads the lists after the first event
	seen := map[item]seenVersion{}
	for _, row := range rows {
		it, version := item{row[0].(string), row[1].(string)}, seenVersion{row[2].(string), row[3].(bool)}
		if seen[it] = version; known || s.seen[it] == version {
			continue
		}
		if version.deleted {
			e.Deleted = append(e.Deleted, it)
		} else {
			e.Changed = append(e.Changed, it)
		}
	}
	if e.Reset = e.Reset || !tooMany && len(e.Changed)+len(e.Deleted) > maxChanges; e.Reset || tooMany {
		e.Changed, e.Deleted = []item{}, []item{}
	}
	first := !s.begun
	s.begun, s.since, s.reset, s.missed, s.seen = true, nil, false, tooMany, seen
	if !first && !e.Reset && len(e.Changed)+len(e.Deleted) == 0 {
		return "", nil, nil
	}
	data, err = json.Marshal(e)
	return now.UTC().Format(time.RFC3339Nano), data, err
}
