package inventory

import (
	"encoding/json"

	"spoolwright/db"
	"spoolwright/value"
)

// InsertSpools returns a statement that inserts spools and the first entries of their ledgers. insert is an INSERT
// into spools without RETURNING. shortfall is an expression for the grams that were used although the spool did not
// have them, or null. result is a SELECT from spool, a CTE with the ids and the remaining weights of the new spools.
func InsertSpools(insert, shortfall, result string, args ...any) *db.Stmt {
	return db.SQL(`
		with spool as (
			`+insert+`
			returning id, remaining_weight_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams, shortfall_grams)
			select id, 'created', 0, remaining_weight_grams, `+shortfall+` from spool
		)
		`+result, args...)
}

// EditSpools returns a statement that updates spools, and adds a ledger entry for each spool whose remaining weight
// changes. update is an UPDATE of spools that returns at least id, remaining_weight_grams, and before, the remaining
// weight before the update. result is a SELECT from spool, a CTE with what the UPDATE returns.
func EditSpools(update, result string, args ...any) *db.Stmt {
	return db.SQL(`
		with spool as (
			`+update+`
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
			select id, 'edited', before, remaining_weight_grams from spool where before <> remaining_weight_grams
		)
		`+result, args...)
}

// Entry is a new entry of the ledger of a locked spool. Empty fields are null.
type Entry struct {
	ID        string        `json:"id"`
	Spool     string        `json:"spool_id"`
	Kind      string        `json:"kind"` // a UsageKind
	Reason    *string       `json:"reason"`
	Before    value.Decimal `json:"before_grams"`
	After     value.Decimal `json:"after_grams"`
	Shortfall value.Decimal `json:"shortfall_grams,omitzero"`

	Run        string `json:"run_id,omitempty"`
	CountedRun string `json:"counted_run_id,omitempty"`
	Reverses   string `json:"reverses_id,omitempty"`
	Moves      string `json:"moves_id,omitempty"`
	Weighing   string `json:"weighing_id,omitempty"`
	Balances   string `json:"balances_id,omitempty"`

	Printer  *string `json:"printer_id"`
	Reporter *string `json:"reporter_id"`
	UsedAt   string  `json:"used_at,omitempty"`
}

// Record returns a statement that adds entries to the ledgers of spools, in this order. Each spool then has the weight
// after its last entry. used says whether the spools were used now. The transaction must have locked the spools and
// read their weights, and ended the runs of the entries.
func Record(used bool, entries []Entry) *db.Stmt {
	set := "updated_at = now()"
	if used {
		set += ", first_used_at = coalesce(first_used_at, now()), last_used_at = now()"
	}
	rows, _ := json.Marshal(entries) // strings and numbers cannot fail
	const columns = `id, spool_id, kind, reason, before_grams, after_grams, shortfall_grams, run_id, counted_run_id,
		reverses_id, moves_id, weighing_id, balances_id, printer_id, reporter_id, used_at`
	return db.SQL(`
		with e as materialized (
			select * from json_populate_recordset(null::spool_usage, $1::json) with ordinality e
		), spool as (
			update spools set remaining_weight_grams = l.after_grams, `+set+`
			from (select distinct on (e.spool_id) e.spool_id, e.after_grams from e order by e.spool_id, e.ordinality desc) l
			where spools.id = any (array(select e.spool_id from e)) and spools.id = l.spool_id
		), entry as (
			insert into spool_usage (`+columns+`) select `+columns+` from e order by ordinality
		)
		select usage_dated(array(select e.used_at from e where e.used_at is not null))::text`, string(rows))
}

// newerThan returns a SQL expression for the lowest id of a ledger entry that is not older than a moment, a SQL
// expression. The first 48 bits of an id are the time in milliseconds.
func newerThan(moment string) string {
	return `(lpad(to_hex((extract(epoch from ` + moment + `) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`
}

// ChangedSpools returns a query of the ids of the spools that were edited, or have changed their remaining weight,
// since a moment, a SQL expression. It does not read the other spools. It needs no index on a column that a deduction
// changes: such an index would make deductions slower.
func ChangedSpools(moment string) string {
	return `select u.spool_id as id from spool_usage u where u.id > ` + newerThan(moment) + `
		union select u.spool_id from spool_usage u
			where u.kind = 'printed' and u.id > ` + newerThan(moment+" - interval '1 hour'") + `
				and u.updated_at > ` + moment + `
		union select s.id from spools s where s.edited_at is not null and s.edited_at > ` + moment
}

// UpdatedSpools is ChangedSpools with the spools that changed with their filaments. The ids of entries have the time of
// an instance or of PostgreSQL, which can differ: some of the spools may not have changed since the moment.
func UpdatedSpools(moment string) string {
	return ChangedSpools("("+moment+" - interval '1 minute')") + `
		union select s.id from filaments f join spools s on s.filament_id = f.id where f.updated_at >= ` + moment
}

// Weighing is a weighing of a spool, and the grams that the spool should have had then.
type Weighing struct {
	ID       string        `json:"id"`
	At       string        `json:"weighed_at"`
	Kind     string        `json:"kind"`
	Expected value.Decimal `json:"expected"`
}

// weighingSince returns a subquery for the JSON of the first Weighing of a spool after a moment, or null. Both
// arguments are SQL expressions.
func weighingSince(spool, moment string) string {
	return `(select to_json(w) from weighing_since(` + spool + `, ` + moment + `) w)`
}

// Is reports whether both are the same weighing, or both nil.
func (w *Weighing) Is(o *Weighing) bool { return w == o || w != nil && o != nil && w.ID == o.ID }

// From returns the grams from which changes of a spool start that precede w. Without a weighing, these are the
// remaining grams.
func (w *Weighing) From(remaining value.Decimal) value.Decimal {
	if w != nil {
		return w.Expected
	}
	return remaining
}

// Balance returns the entries, which start from the grams of From, as entries that precede w. The spool keeps its
// remaining grams: one more entry takes back the change at the weighing. Without a weighing, Balance changes nothing.
func (w *Weighing) Balance(remaining value.Decimal, entries []Entry) []Entry {
	if w == nil || len(entries) == 0 {
		return entries
	}
	first, last := &entries[0], &entries[len(entries)-1]
	added := last.After - first.Before
	shift := remaining - min(first.Before, last.After) // no entry ends below the remaining grams
	balance := Entry{ID: value.NewID(), Spool: first.Spool, Kind: w.Kind, Weighing: w.ID, Balances: first.ID, UsedAt: w.At,
		Before: remaining + max(added, 0), After: remaining + max(-added, 0)}
	for i := range entries {
		e := &entries[i]
		e.Before, e.After = e.Before+shift, e.After+shift
		if e.Run != "" {
			balance.Balances = e.ID
		}
	}
	switch {
	case added < 0:
		return append([]Entry{balance}, entries...)
	case added > 0:
		return append(entries, balance)
	}
	return entries
}

// plausibleGross is the condition that a scale can show the gross weight $2 for a spool. The upper limit allows half a
// spool more, because vendors give extra filament.
const plausibleGross = `$2::numeric between spool_weight_grams
	and spool_weight_grams + greatest(net_weight_grams, remaining_weight_grams) * 1.5`

// measure returns two statements for one transaction. The first locks the spool, and returns the weight of the empty
// spool, the gross weight of the full one, and what the empty spool weighs if the spool is new and full. The second
// sets the remaining weight to the gross weight less the weight of the empty spool, but at least to 0; or, if the
// spool is full, the weight of the empty spool. The second returns no row if the weight of the empty spool is unknown
// and the spool not full, or the reverse, or if the gross weight is neither plausible nor confirmed.
func measure(id, gross string, confirmed, full bool) (lock, measured *db.Stmt) {
	measured = db.SQL(`
		with spool as (
			update spools set updated_at = now(),
				remaining_weight_grams = case when $4 then net_weight_grams else greatest($2::numeric - spool_weight_grams, 0) end,
				spool_weight_grams = case when $4 then $2::numeric - net_weight_grams else spool_weight_grams end
			from (select id as old_id, remaining_weight_grams as before from spools where id = $1) old
			where id = $1 and id = old_id and hidden_at is null and case when $4
				then spool_weight_grams is null and $2::numeric > net_weight_grams
				else spool_weight_grams is not null and ($3 or `+plausibleGross+`) end
			returning id, before, remaining_weight_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
			select id, 'measured', before, remaining_weight_grams from spool
		)
		select id from spool`, id, gross, confirmed, full)
	return db.SQL(`
		select trim_scale(spool_weight_grams)::text,
			trim_scale(spool_weight_grams + greatest(net_weight_grams, remaining_weight_grams))::text,
			case when $2::numeric > net_weight_grams and remaining_weight_grams = net_weight_grams and first_used_at is null
				then trim_scale($2::numeric - net_weight_grams)::text end
		from spools where id = $1 and hidden_at is null for no key update`, id, gross), measured
}

// edit returns a statement that sets columns of the spool that the condition selects. result is a SELECT of the
// given columns, which must include id and remaining_weight_grams. If archives is set, the UPDATE may change the
// archive, and the statement counts the spool: by 1 if it left the archive, by -1 if it entered it.
//
// The UPDATE repeats the condition, so that PostgreSQL finds the spool by an index, also with statistics from before
// an import.
func edit(condition, columns, result, set string, archives bool, args []any) *db.Stmt {
	counted := ""
	if archives {
		columns += `, was_archived::int - spools.archived::int as counted`
		counted = ` where (select count_rows('spools', sum(counted)) from spool) is not null` // after the UPDATE
	}
	return EditSpools(`update spools set `+set+`, updated_at = now(), edited_at = now()
		from (select id as old_id, remaining_weight_grams as before, archived as was_archived from spools
			where `+condition+` for no key update) old
		where id = old_id and `+condition+`
		returning before, `+columns, `select `+result+` from spool`+counted, args...)
}
