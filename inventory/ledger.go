package inventory

import (
	"cmp"
	"encoding/json"

	"spoolwright/db"
)

// weightChange is a statement that changes the remaining weight of spools, and adds an entry to the usage ledger for
// each change. Only weightChange and the SQL function report_use change remaining weights. report_use does not use
// weightChange because it may extend the last entry.
type weightChange struct {
	spools string // an INSERT or UPDATE of spools, without RETURNING
	before string // an expression: the remaining weight before, in terms of the changed row
	kind   string // of the entries, a UsageKind
	reason string // an expression, or ""
	run    string // an expression, or ""
	// Further columns of the entries, and the expressions for their values. Each begins with a comma; both may be
	// "".
	fields, values string
	// An expression for the grams that were used although the spool did not have them; or "".
	shortfall string
	// The columns of spool; by default only spools.id and spools.remaining_weight_grams, because each column costs
	// time.
	columns string
}

// statement returns the statement. result is a SELECT from spool, a CTE with columns of the changed spools.
func (c weightChange) statement(result string, args ...any) *db.Stmt {
	columns, values := c.fields, c.values
	if c.reason != "" {
		columns, values = columns+", reason", values+", "+c.reason
	}
	if c.run != "" {
		columns, values = columns+", run_id", values+", "+c.run // the trigger usage_added sets the printer and the time
	}
	if c.shortfall != "" {
		columns, values = columns+", shortfall_grams", values+", "+c.shortfall
	}
	returned := cmp.Or(c.columns, "spools.id, spools.remaining_weight_grams")
	where := ""
	if c.kind == "edited" && c.fields == "" { // the update may have changed only other columns
		where = "where before <> remaining_weight_grams"
	}
	return db.SQL(`
		with spool as (
			`+c.spools+`
			returning `+returned+`, `+c.before+` as before
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams`+columns+`)
			select id, '`+c.kind+`', before, remaining_weight_grams`+values+` from spool `+where+`
		)
		`+result, args...)
}

// InsertSpools returns a statement that inserts spools and the first entries of their ledgers. insert is an INSERT
// into spools without RETURNING. shortfall is an expression for the grams that were used although the spool did not
// have them, or "". result is a SELECT from spool, a CTE with the ids and the remaining weights of the new spools.
func InsertSpools(insert, shortfall, result string, args ...any) *db.Stmt {
	change := newSpools(insert)
	change.shortfall = shortfall
	return change.statement(result, args...)
}

// EditSpools returns a statement that updates spools, and adds a ledger entry for each spool whose remaining weight
// changes. update is an UPDATE of spools without RETURNING; in it, before is the remaining weight before the update.
// result is a SELECT as in InsertSpools.
func EditSpools(update, result string, args ...any) *db.Stmt {
	return weightChange{spools: update, before: "before", kind: "edited"}.statement(result, args...)
}

// newSpools returns the change of a statement that inserts spools.
func newSpools(insert string) weightChange {
	return weightChange{spools: insert, before: "0", kind: "created"}
}

// setUsed sets the times of a spool whose filament is used.
const setUsed = `updated_at = now(), first_used_at = coalesce(first_used_at, now()), last_used_at = now()`

// locked returns an UPDATE of the spool that the condition selects. In the UPDATE, before is the remaining weight
// before it.
func locked(set, condition string) string {
	return `update spools set ` + set + `
		from (select id as old_id, remaining_weight_grams as before from spools
			where ` + condition + ` for no key update) old
		where id = old_id`
}

// Taken is a change that the end of a production run makes to a spool: the weight before and after, and the grams
// that the run used although the spool did not have them. Shortfall is negative if the run recorded too large a
// shortfall before.
type Taken struct {
	Spool                    string
	Before, After, Shortfall string
}

// Returned is filament that left a spool outside of runs and that a run now counts as its own use. Before is the
// weight of the spool without this filament, and After the weight with it. If the run stops counting the filament,
// Before is the weight with it, After the weight without it, and Shortfall the grams that the spool does not have.
type Returned struct {
	Spool                    string
	Before, After, Shortfall string
	Corrected                bool // whether weighing or an edit removed the filament
}

// Take returns a statement that sets the weights of spools and adds ledger entries of the production run. kind is
// run or wasted. The transaction must have ended the run, locked the spools and read their weights.
func Take(run, kind string, taken []Taken) *db.Stmt {
	return weightChange{
		spools: takenSpools("$1", setUsed), before: takenColumn("$1", "before", "id"), kind: kind,
		run: "$2::uuid", shortfall: `nullif(` + takenColumn("$1", "shortfall", "id") + `, 0)`,
	}.statement(`select id from spool`, takenRows(taken), run)
}

// Return returns statements that put filament back on spools because a run counts it as its own use: the filament
// left the spools outside of runs. Take must follow, and deducts the same filament for the run. The ledger has an
// entry for each of both steps. If a correction removed the filament, Return adds an entry of kind edited, so that
// reports count the filament once, as use. If the run stops counting the filament, Return must follow Take.
func Return(run, reason string, returned []Returned) (all []*db.Stmt) {
	for _, corrected := range []bool{true, false} {
		var rows []Taken
		for _, r := range returned {
			if r.Corrected == corrected {
				rows = append(rows, Taken{r.Spool, r.Before, r.After, r.Shortfall})
			}
		}
		if rows == nil {
			continue
		}
		kind := "deducted"
		if corrected {
			kind = "edited"
		}
		all = append(all, weightChange{
			spools: takenSpools("$1", "updated_at = now()"), before: takenColumn("$1", "before", "id"), kind: kind,
			reason: "$2", fields: ", counted_run_id", values: ", $3::uuid",
			shortfall: `nullif(` + takenColumn("$1", "shortfall", "id") + `, 0)`,
		}.statement(`select id from spool`, takenRows(rows), reason, run))
	}
	return all
}

func takenRows(taken []Taken) string {
	spools := map[string]map[string]string{}
	for _, t := range taken {
		spools[t.Spool] = map[string]string{"before": t.Before, "after": t.After, "shortfall": t.Shortfall}
	}
	b, _ := json.Marshal(spools) // strings cannot fail
	return string(b)
}

// takenColumn returns an expression for the number called name of a spool. argument is the parameter that holds the
// result of takenRows.
func takenColumn(argument, name, spool string) string {
	return `(` + argument + `::json -> (` + spool + `::text) ->> '` + name + `')::numeric`
}

func takenSpools(argument, set string) string {
	return `update spools set remaining_weight_grams = ` + takenColumn(argument, "after", "id") + `, ` + set + `
		where id = any (array(select key::uuid from json_each(` + argument + `::json)))`
}

// plausibleGross is the condition that a scale can show the gross weight $2 for a spool. The lower limit, half the
// weight of the empty spool, allows for another kind of empty spool. The upper limit allows half a spool more,
// because vendors give extra filament.
const plausibleGross = `$2::numeric between spool_weight_grams / 2
	and spool_weight_grams + greatest(net_weight_grams, remaining_weight_grams) * 1.5`

// measure returns two statements for one transaction. The first locks the spool, and returns the weight of the empty
// spool and the largest plausible gross weight. The second sets the remaining weight to the gross weight less the
// weight of the empty spool, but at least to 0. The second returns no row if the weight of the empty spool is
// unknown, or if the gross weight is neither plausible nor confirmed.
func measure(id, gross string, confirmed bool) (lock, measured *db.Stmt) {
	const condition = `id = $1 and hidden_at is null`
	measured = weightChange{
		spools: locked(`remaining_weight_grams = greatest($2::numeric - spool_weight_grams, 0), updated_at = now()`,
			condition+` and spool_weight_grams is not null and ($3 or `+plausibleGross+`)`),
		before: "before", kind: "measured",
	}.statement(`select id from spool`, id, gross, confirmed)
	return db.SQL(`
		select trim_scale(spool_weight_grams)::text,
			trim_scale(spool_weight_grams + greatest(net_weight_grams, remaining_weight_grams))::text
		from spools where `+condition+` for no key update`, id), measured
}

// edit returns a statement that sets columns of the spool that the condition selects. result is a SELECT of the
// given columns, which must include id and remaining_weight_grams.
func edit(condition, columns, result, set string, args []any) *db.Stmt {
	return weightChange{
		spools: locked(set+`, updated_at = now(), edited_at = now()`, condition), before: "before", kind: "edited",
		columns: columns,
	}.statement(`select `+result+` from spool`, args...)
}
