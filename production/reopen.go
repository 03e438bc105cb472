package production

import (
	"context"
	"slices"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// ReopenRequest is the body of reopen.
type ReopenRequest struct {
	Reason value.Optional[string] `json:"reason" rule:"maxLength=10000"`
}

var errNotEnded = server.BadRequest("RUN_NOT_ENDED",
	"The run was not ended by complete, fail or cancel, so it has no end to change")

var reopenDoc = &server.Doc{
	ID: "reopenProductionRun", Tag: Tag, Summary: "Reopen a run that has ended",
	Description: "Reverses everything that `completeProductionRun`, `failProductionRun` or `cancelProductionRun` did. " +
		"The run is `in_progress`, or `pending` if it has no `started_at`, and ends again like any run. If printers have " +
		"reported use for a run without `started_at`, that is the time of their first report.\n\n" +
		"Entries of the usage ledgers return the grams that the end took from each spool, and use outside of the run that " +
		"it had counted is outside again. A spool that was weighed after the end keeps its weight. Grams that printers " +
		"reported stay, and those reported after the end are now taken from the spool. The materials again have the " +
		"`actual_weight_grams` and `cost_per_gram` that they had before the end. `completed_at`, " +
		"`actual_print_time_hours`, the costs and their prices, `failure_reason` and `failure_notes` are null. The run " +
		"reserves filament again, the hours no longer count for the printer, and its good pieces are no longer in stock. " +
		"An order that is `done` stays so. The numbers of pieces of items stay until the run ends again.\n\n" +
		"As for a paused run that continues, the printer must be free: while another run is in progress on it, the " +
		"response is `PRINTER_BUSY`. A run that has not ended cannot be reopened (`RUN_NOT_ENDED`). `warnings` are the " +
		"steps of `getProductionRunCheck`, for example that an order of the run is cancelled, and `WEIGHED_SINCE` and " +
		"`COUNTED_SINCE`. The body may be empty.",
	Errors: []*server.Error{errNotEnded, errBusy},
}

// startedBy returns a SQL expression for the time at which a run started. run is an expression for the id of the
// run, and start an expression for its recorded start, which may be null. Without a recorded start, the run started
// at the first report of a printer. Reservations do not depend on this time: see reserved_materials.
func startedBy(start, run string) string {
	return `coalesce(` + start + `, (select min(u.created_at) from spool_usage u where u.run_id = ` + run + `
		and u.kind = 'printed'))`
}

func (h handlers) reopen(ctx context.Context, r *server.Request[ReopenRequest]) (server.OK[Run], error) {
	id := r.ID("id")
	e := ending{changesEnd: true}
	var read reading
	var printer string
	var busy bool
	// As in start, this lock comes after the lock of the run: starts on one printer wait for each other.
	alone := db.SQL(`select pg_advisory_xact_lock(hashtextextended('start on ' || printer_id, 0))::text
		from production_runs where id = $1 and printer_id is not null`, id)
	state := db.SQL(`
		select coalesce(printer_name, ''), `+startedBy("started_at", "$1")+` is not null and printer_id is not null
			and printer_is_busy(printer_id, id, 'paused')
		from production_runs where id = $1`, id).Into(&printer, &busy)
	reads := read.reads(id, &e, "production_run.reopened")
	reads = append([]*db.Stmt{reads[0], alone, state}, append(reads[1:], h.orders.Lock(id))...)

	checks := h.checks(`select $1::uuid as id`, id)
	weighed, balances := []CheckStep{}, ""
	return respondWith(ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
		return h.db.Decide(ctx, reads, func() ([]*db.Stmt, error) {
			if err := read.read(); err != nil {
				return nil, err
			}
			switch status := read.run.status; {
			case status != completed && status != failed && status != cancelled:
				return nil, errNotEnded
			case busy:
				return nil, errBusy.With(printer)
			case status != completed:
				e.kind = "wasted"
			default:
				e.kind = "run"
			}
			before, err := read.remember(id, "reopened", r.In.Reason.Arg())
			if err != nil {
				return nil, err
			}
			writes := []*db.Stmt{before}
			if read.run.deducted { // the ledger is dated by the end of the run, which reopening removes
				back := takenBack(read.run.materials)
				writes = append(writes, take(id, e.kind, back)...)
				weighed = keptWeights(back, read.run.materials)
			}
			writes = append(writes, h.restart(id, read.hooks)...)
			writes = append(writes, h.orders.Follow(id), h.orders.Settle(id), catalog.Balanced(id).Into(&balances))
			return append(writes, stmts...), nil
		})
	}, id, stateColumns, func() ([]CheckStep, error) {
		all, err := readSteps(checks)
		return append(append(weighed, steps(countedSince(balances))...), all[id]...), err
	}, checks)
}

// takenBack returns the filament that the spools get back. Afterwards, the use of the run is the grams that printers
// reported, including reports after its end.
func takenBack(materials []endingMaterial) (all []SpoolDeduction) {
	for len(materials) > 0 {
		spool := materials[0]
		d := SpoolDeduction{SpoolID: value.UUID(spool.SpoolID), Previous: spool.Remaining, weighed: spool.AfterEnd,
			from: spool.AfterEnd.From(spool.Remaining)}
		for len(materials) > 0 && materials[0].SpoolID == spool.SpoolID {
			m := materials[0]
			d.Reported += value.OrZero(m.Reported)
			d.released.grams, d.released.corrected = d.released.grams+m.Counted, d.released.corrected+m.Corrections
			materials = materials[1:]
		}
		rest := d.Reported - spool.Recorded
		d.undo(spool.Own, rest, spool.Short)
		d.silent = rest == 0
		all = append(all, d)
	}
	return all
}

// keptWeights returns warnings about the spools that keep their weights, because they were weighed after the end.
func keptWeights(back []SpoolDeduction, materials []endingMaterial) []CheckStep {
	steps := []CheckStep{}
	for _, d := range back {
		i := slices.IndexFunc(materials, func(m endingMaterial) bool { return value.UUID(m.SpoolID) == d.SpoolID })
		if m := materials[i]; d.weighed != nil && !d.silent {
			steps = append(steps, CheckStep{Code: "WEIGHED_SINCE", SpoolID: &d.SpoolID, Detail: language.Sprintf(
				"%s (spool %d) was weighed after the run ended, and keeps %s g", m.SpoolName, m.SpoolNumber, m.Remaining)})
		}
	}
	return steps
}

// restart returns the statements that remove the end of a run and send the event to the webhooks.
func (h handlers) restart(id string, hooks []string) []*db.Stmt {
	run, args := `select r.id::text`, []any{id}
	if hooks != nil {
		run, args = `select emit_event($2::uuid[], 'production_run.reopened', json_build_object(
			'id', r.id, 'status', r.status, 'printer_id', r.printer_id, 'printer_name', r.printer_name,
			'started_at', event_time(r.started_at), 'items', event_items(r.id), 'item_count', event_item_count(r.id),
			'orders', `+h.orders.Printed("r.id")+`))::text`, append(args, hooks)
	}
	return []*db.Stmt{
		db.SQL(`
			update run_materials set sent_actual_grams = given_grams, cost_per_gram = given_cost, actual_reported = false,
				given_grams = null, given_cost = null, counted_grams = null, counted_corrections = null
			from production_runs r
			where r.id = $1 and r.deducted_at is not null and run_id = r.id`, id),
		db.SQL(`update run_items set labour_minutes = null where run_id = $1 and labour_minutes is not null`, id),
		db.SQL(`
			with r as (
				update production_runs set status = case when s.at is null then 'pending' else 'in_progress' end,
					started_at = s.at, deducted_at = null, completed_at = null, actual_print_time_hours = null,
					actual_total_filament_grams = null,
					failure_reason = null, failure_notes = null, wasted_parts = null, filament_cost = null, waste_cost = null,
					machine_cost = null, energy_cost = null, labour_cost = null, hour_cost = null, power_watts = null,
					energy_kwh_cost = null, labour_hour_cost = null, updated_at = now()
				from (select `+startedBy("started_at", "$1")+` as at from production_runs where id = $1) s
				where id = $1
				returning production_runs.*
			)
			`+run+` from r`, args...),
	}
}
