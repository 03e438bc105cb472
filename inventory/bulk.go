package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Selection selects spools by their ids, their numbers or a filter.
type Selection struct {
	IDs     value.Optional[value.Several[value.UUID]] `json:"ids"`
	Numbers value.Optional[value.Several[int64]]      `json:"numbers" rule:"minimum=1,maximum=999999999"`
	Filter  *SpoolFilter                              `json:"filter"`
	DryRun  value.Optional[bool]                      `json:"dry_run"`
}

// Check reports a selection that does not use exactly one of these three ways.
func (s *Selection) Check(problems *server.Problems) {
	given := 0
	for _, is := range []bool{!s.IDs.IsNull(), !s.Numbers.IsNull(), s.Filter != nil} {
		if is {
			given++
		}
	}
	if given != 1 && len(*problems) == 0 {
		problems.Add("body", "must have exactly one of ids, numbers and filter")
	}
	if s.Filter != nil && s.Filter.Hidden.Or("false") != "false" {
		problems.Add("filter.hidden", "must be false: removed spools are not changed")
	}
}

// SpoolChanges is the request to change several spools.
type SpoolChanges struct {
	Selection
	Changes        *Spool                          `json:"changes" rule:"required"`
	UnchangedSince value.Optional[value.Timestamp] `json:"unchanged_since"`
}

// SpoolRemoval is the request to remove several spools.
type SpoolRemoval struct{ Selection }

// BulkResult counts the spools of a bulk operation.
type BulkResult struct {
	Matched int64 `json:"matched" rule:"notNull"`
	Changed int64 `json:"changed" rule:"notNull"`
	DryRun  bool  `json:"dry_run" rule:"notNull"`

	At value.Timestamp `json:"changed_at"`
}

var errChangedSpools = server.Conflict("SPOOLS_CHANGED", "These spools were changed since: %s", "3, 7").
	On("unchanged_since")

var errUnknownSpools = server.BadRequest("UNKNOWN_REFERENCE", "Not a spool: %s", "ids[3]").On("ids[3]")

const bulkRules = "The request selects at most 1,000 spools by `ids`, by `numbers` or by `filter`, which has the " +
	"filters of the list by name. All of them are changed, or none. An id or a number of no spool returns " +
	"`UNKNOWN_REFERENCE`; a filter that matches more spools returns `422`. With `dry_run`, the request is checked " +
	"as without it, and nothing changes. The request can be repeated: it needs no `Idempotency-Key`. `If-Match` is " +
	"not supported."

var updateManyDoc = &server.Doc{
	ID: "updateSpools", Tag: SpoolsTag, Summary: "Update several spools",
	Description: "Changes the fields in `changes` of several spools. " + bulkRules + "\n\nFor each spool, a changed " +
		"`remaining_weight_grams` is an entry of the usage ledger, as when it is updated alone.\n\nWith " +
		"`unchanged_since`, nothing changes if one of the spools was changed after that time (`SPOOLS_CHANGED`). A " +
		"request with the `changed_at` of another one takes that one back, and nothing that happened since.",
	Errors:  []*server.Error{errUnknownSpools, errChangedSpools, errFilamentField.On("changes")},
	Request: `{"filter":{"brand":"Polymaker","archived":"true"},"changes":{"location":"Shelf A3"},"dry_run":false}`,
}

func (h handlers) updateMany(ctx context.Context, r *server.Request[SpoolChanges]) (server.OK[BulkResult], error) {
	var result server.OK[BulkResult]
	err := withExtra(ctx, h.db, "spool", r.In.Changes.Extra, func(ctx context.Context) (err error) {
		result, err = h.updateAll(ctx, r)
		return err
	})
	return result, err
}

func (h handlers) updateAll(ctx context.Context, r *server.Request[SpoolChanges]) (server.OK[BulkResult], error) {
	in := &r.In
	result, err := h.bulk(ctx, &in.Selection, in.UnchangedSince, in.Changes, func(ids []string, changes *Spool) *db.Stmt {
		set, args := server.Assignments(changes, []any{ids})
		if set == "" {
			return db.SQL(`select 0, 0`)
		}
		return EditSpools(`update spools set `+set+`, updated_at = now(), edited_at = now()
			from (select id as old_id, remaining_weight_grams as before, archived as was_archived from spools
				where id = any ($1::uuid[])) old
			where id = old_id and id = any ($1::uuid[]) and not (`+server.Unchanged(set)+`)
			returning id, before, remaining_weight_grams, was_archived::int - spools.archived::int as counted`,
			`select count(*), count_rows('spools', coalesce(sum(counted), 0)) from spool`, args...)
	})
	return result, costErrorOn("changes.purchase_price", err)
}

var deleteManyDoc = &server.Doc{
	ID: "deleteSpools", Tag: SpoolsTag, Summary: "Remove several spools",
	Description: "Hides several spools, as `deleteSpool` does. " + bulkRules,
	Errors:      []*server.Error{errUnknownSpools},
	Request:     `{"filter":{"in_stock":false,"brand":"Polymaker"},"dry_run":false}`,
}

func (h handlers) deleteMany(ctx context.Context, r *server.Request[SpoolRemoval]) (server.OK[BulkResult], error) {
	var since value.Optional[value.Timestamp] // any spool may have changed
	return h.bulk(ctx, &r.In.Selection, since, &Spool{}, func(ids []string, _ *Spool) *db.Stmt {
		return db.SQL(`
			with hidden as (
				update spools set hidden_at = now(), updated_at = now(), edited_at = now()
				where id = any ($1::uuid[]) returning archived
			)
			select count(*), count_rows('spools', -count(*) filter (where not archived)) from hidden`, ids)
	})
}

// bulk locks the selected spools, passes their ids to change, and runs the statement that change returns. The
// statement counts the spools, and returns how many it changed in the first of two columns. If since is set, the error
// names spools that changed after that time. A dry run does the same and then rolls back, so it reports the same counts
// and errors.
func (h handlers) bulk(ctx context.Context, s *Selection, since value.Optional[value.Timestamp], in *Spool,
	change func([]string, *Spool) *db.Stmt,
) (server.OK[BulkResult], error) {
	if s.Filter != nil && reflect.ValueOf(*s.Filter).IsZero() {
		return nil, server.Invalid("filter", "must have at least one filter")
	}
	result := BulkResult{DryRun: s.DryRun.Or(false)}
	run := func(ctx context.Context) error {
		lock := s.lock(ctx)
		if in.NamesFilament() {
			lock = append([]*db.Stmt{lockFilaments(in)}, lock...)
		}
		return h.db.Decide(ctx, lock, func() ([]*db.Stmt, error) {
			ids, at, err := s.found(lock[len(lock)-1], since)
			changes := *in
			if err != nil {
				return nil, err
			}
			if in.NamesFilament() {
				err = attachOne(lock[0], &changes, false)
			} else if in.mayFollow() {
				err = checkFollowed(lock[len(lock)-1], &changes)
			}
			if e, ok := errors.AsType[*server.Error](err); ok {
				return nil, e.On("changes")
			} else if err != nil {
				return nil, err
			}
			result.Matched, result.At = int64(len(ids)), at
			return []*db.Stmt{change(ids, &changes).Into(&result.Changed, nil)}, nil
		})
	}
	if result.DryRun {
		real := run
		run = func(ctx context.Context) error { return h.db.DryRun(ctx, real) }
	}
	if err := run(ctx); err != nil {
		return nil, err
	}
	return server.Encode(result)
}

// lock returns statements that lock the selected spools. The last statement returns the ids and numbers of these
// spools.
func (s *Selection) lock(ctx context.Context) []*db.Stmt {
	const columns, shown = "id, number, updated_at, now() as at, filament_id, " + Followed, "hidden_at is null"
	switch {
	case s.Filter != nil:
		return s.Filter.list().Lock(ctx, columns, value.MaxSeveral+1)
	case s.IDs.IsNull():
		return []*db.Stmt{server.LockRows("spools", columns, `
			select s.id from unnest($1::int[]) n (number) cross join lateral (
				select id from spools where number = n.number
			) s`, shown, []int64(*s.Numbers.Value))}
	}
	var ids []string
	for _, id := range *s.IDs.Value {
		ids = append(ids, string(id))
	}
	return []*db.Stmt{server.LockRows("spools", columns, `select unnest($1::uuid[]) as id`, shown, ids)}
}

// found returns the ids of the locked spools, and the time of the transaction if there are any. It returns an error if
// the selection has too many spools, names ids or numbers that do not exist, or has spools that changed after since.
func (s *Selection) found(locked *db.Stmt, since value.Optional[value.Timestamp],
) (ids []string, at value.Timestamp, err error) {
	var spools []struct {
		ID        value.UUID
		Number    int64
		UpdatedAt value.Timestamp `json:"updated_at"`
		At        value.Timestamp
	}
	if err := json.Unmarshal(locked.Array(), &spools); err != nil {
		return nil, at, err
	}
	known := map[any]bool{}
	var changed []string
	for _, spool := range spools {
		ids, at = append(ids, string(spool.ID)), spool.At
		if !since.IsNull() && spool.UpdatedAt.After(since.Value.Time) {
			changed = append(changed, strconv.FormatInt(spool.Number, 10))
		}
		known[spool.ID], known[spool.Number] = true, true
	}
	var unknown []string
	check := func(list string, i int, key any) {
		if !known[key] {
			unknown = append(unknown, fmt.Sprintf("%s[%d]", list, i))
		}
	}
	switch {
	case s.Filter != nil && len(ids) > value.MaxSeveral:
		return nil, at, server.Invalid("filter", "must match at most %d spools", value.MaxSeveral)
	case s.Filter != nil:
	case s.IDs.IsNull():
		for i, number := range *s.Numbers.Value {
			check("numbers", i, number)
		}
	default:
		for i, id := range *s.IDs.Value {
			check("ids", i, id)
		}
	}
	if len(unknown) > 0 {
		listed := unknown[:min(transfer.MaxListed, len(unknown))]
		return nil, at, errUnknownSpools.With(server.JoinFields(unknown)).On(listed...)
	}
	if len(changed) > 0 {
		return nil, at, errChangedSpools.With(server.JoinFields(changed))
	}
	return ids, at, nil
}
