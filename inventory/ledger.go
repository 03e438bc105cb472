package inventory

import (
	"cmp"
	"encoding/json"

	"spoolwright/db"
)

// weightChange is a statement that changes the remaining weight of spools. Each change is one entry of the usage
// ledger. Besides this type, only report_use changes remaining weights, because the entry of a printer grows.
type weightChange struct {
	spools string // an INSERT or UPDATE of spools, without RETURNING
	before string // an expression: the remaining weight before, in terms of the changed row
	kind   string // of the entries, a UsageKind
	reason string // an expression, or ""
	run    string // an expression, or ""
	// An expression of the spool: the grams that were used although they were not there; or "".
	shortfall string
	// The columns of spool; by default only spools.id and spools.remaining_weight_grams, because each one takes time.
	columns string
}

// statement returns the statement. result is a SELECT from spool, which has columns of the changed spools.
func (c weightChange) statement(result string, args ...any) *db.Stmt {
	columns, values := "", ""
	if c.reason != "" {
		columns, values = ", reason", ", "+c.reason
	}
	if c.run != "" {
		columns, values = columns+", run_id, printer_id", values+", "+c.run+
			", (select r.printer_id from production_runs r where r.id = "+c.run+")"
	}
	if c.shortfall != "" {
		columns, values = columns+", shortfall_grams", values+", "+c.shortfall
	}
	returned := cmp.Or(c.columns, "spools.id, spools.remaining_weight_grams")
	where := ""
	if c.kind == "edited" { // perhaps only other columns
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

// newSpools returns the change of a statement that inserts spools.
func newSpools(insert string) weightChange {
	return weightChange{spools: insert, before: "0", kind: "created"}
}

// setUsed sets the times of a spool whose filament was used.
const setUsed = `updated_at = now(), first_used_at = coalesce(first_used_at, now()), last_used_at = now()`

// locked returns an UPDATE of the spool for which condition is true. The expression before has its old weight.
func locked(set, condition string) string {
	return `update spools set ` + set + `
		from (select id as old_id, remaining_weight_grams as before from spools
			where ` + condition + ` for no key update) old
		where id = old_id`
}

// Taken is what the end of a production run changes on a spool: its weight before and after, and the grams that were
// used although they were not there, less than 0 if the run had recorded too many of those.
type Taken struct {
	Spool                    string
	Before, After, Shortfall string
}

// Take returns a statement that sets the weights of spools, with entries of the kind run or wasted of the production
// run. The transaction must have locked the spools and read their weights.
func Take(run, kind string, taken []Taken) *db.Stmt {
	return weightChange{
		spools: takenSpools("$1", setUsed), before: takenColumn("$1", "before", "id"), kind: kind,
		run: "$2::uuid", shortfall: `nullif(` + takenColumn("$1", "shortfall", "id") + `, 0)`,
	}.statement(`select id from spool`, takenRows(taken), run)
}

// Return returns a statement that adds filament to spools again which left them without a run, because a run counts it
// as its own. Take comes after it. Both are entries of the ledger, whose sum is what the spool has lost.
func Return(reason string, returned []Taken) *db.Stmt {
	return weightChange{
		spools: takenSpools("$1", "updated_at = now()"), before: takenColumn("$1", "before", "id"), kind: "deducted",
		reason: "$2",
	}.statement(`select id from spool`, takenRows(returned), reason)
}

func takenRows(taken []Taken) string {
	spools := map[string]map[string]string{}
	for _, t := range taken {
		spools[t.Spool] = map[string]string{"before": t.Before, "after": t.After, "shortfall": t.Shortfall}
	}
	b, _ := json.Marshal(spools) // strings cannot fail
	return string(b)
}

// takenColumn returns an expression: a number of the spool in the argument, which takenRows has returned.
func takenColumn(argument, name, spool string) string {
	return `(` + argument + `::json -> (` + spool + `::text) ->> '` + name + `')::numeric`
}

func takenSpools(argument, set string) string {
	return `update spools set remaining_weight_grams = ` + takenColumn(argument, "after", "id") + `, ` + set + `
		where id = any (array(select key::uuid from json_each(` + argument + `::json)))`
}

// plausibleGross is the condition that a spool can have the gross weight $2 on a scale. Half of the empty spool leaves
// room for another kind of empty spool, and half a spool more for what vendors give in addition.
const plausibleGross = `$2::numeric between spool_weight_grams / 2
	and spool_weight_grams + greatest(net_weight_grams, remaining_weight_grams) * 1.5`

// measure returns two statements for one transaction. The first locks the spool, and returns the weight of the empty
// spool and the most that a full one can weigh. The second sets its remaining weight to the gross weight on a scale
// without the weight of the empty spool, at least 0. It returns no row if the weight of the empty spool is unknown, or
// if the weight is not plausible and not confirmed.
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

// edit returns a statement that sets columns of the spool for which condition is true, and returns columns of it, of
// which id and remaining_weight_grams must be two.
func edit(condition, columns, set string, args []any) *db.Stmt {
	return weightChange{
		spools: locked(set+`, updated_at = now(), edited_at = now()`, condition), before: "before", kind: "edited",
		columns: columns,
	}.statement(`select `+columns+` from spool`, args...)
}
