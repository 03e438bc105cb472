package production

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

// CompleteRequest is the body of complete.
type CompleteRequest struct {
	Materials []CompleteMaterial `json:"materials"`
	Items     []CompleteItem     `json:"items"`
}

// CompleteMaterial is the actual weight of a material.
type CompleteMaterial struct {
	MaterialName
	ActualWeight server.Optional[server.Decimal] `json:"actual_weight_grams" rule:"required,maximum=1000000"`
}

// CompleteItem is the numbers of good and failed pieces of an item, and why pieces failed.
type CompleteItem struct {
	ID                 server.Optional[server.UUID] `json:"id" rule:"required"`
	SuccessfulQuantity server.Optional[int64]       `json:"successful_quantity" rule:"maximum=1000000"`
	FailedQuantity     server.Optional[int64]       `json:"failed_quantity" rule:"maximum=1000000"`

	FailureReason server.Optional[FailureReason] `json:"failure_reason"`
}

// Completion is the response to complete.
type Completion struct {
	ID               server.UUID      `json:"id" rule:"notNull"`
	Status           string           `json:"status" rule:"notNull,enum=completed"`
	CompletedAt      server.Timestamp `json:"completed_at" rule:"notNull"`
	InventoryUpdated bool             `json:"inventory_updated" rule:"notNull"`
	SpoolsUpdated    []SpoolDeduction `json:"spools_updated"`
}

var errNotOpen = server.BadRequest("RUN_NOT_OPEN",
	"The status of the run is failed or cancelled; such a run cannot be completed")

var completeDoc = &server.Doc{
	ID: "completeProductionRun", Tag: tag, Summary: "Complete a run and deduct its filament",
	Description: "Deducts the actual weight of each material from its spool and adds an entry to each spool's " +
		"usage ledger, all or nothing. A run is completed only once: later requests return " +
		"`RUN_ALREADY_COMPLETED`.\n\n" +
		"The request fails and changes nothing if the run has the status `failed` or `cancelled` (`RUN_NOT_OPEN`), " +
		"if it has no materials (`RUN_HAS_NO_MATERIALS`), if a " +
		"material lacks `actual_weight_grams` (`ACTUAL_USAGE_MISSING`), or if a spool has too little filament " +
		"or was removed (`INSUFFICIENT_FILAMENT`). The `detail` of the last two names the materials or " +
		"spools.\n\n" +
		"Sets `status`, `completed_at` (to the current time, unless it is set), `actual_total_filament_grams` (to " +
		"the sum, or null if it is more than 1,000,000) and `actual_print_time_hours` (to the time from start to " +
		"completion, or null if it is more than 100,000 hours, unless the field is set). The weights include purged " +
		"filament, so purge is not deducted separately. The costs of the run are those of this moment.\n\n" +
		"The body may be empty. It can contain the actual weights of materials and the numbers of pieces of items, " +
		"which are set in the same transaction. Instead of its " +
		"`id`, `spool_id` or `spool_number` name a material if no other one of the run has the spool. As with " +
		"`updateProductionRunMaterial`, the difference of both weights of the spool takes precedence over " +
		"`actual_weight_grams`. An absent number of pieces keeps its value.",
	Errors: []*server.Error{errNotOpen, errNoMaterials, errNotInRun, errUsageMissing, errInsufficient, errDeducted},
}

func (h handlers) complete(ctx context.Context, r *server.Request[CompleteRequest]) (server.OK[Completion], error) {
	e := ending{status: completed, kind: "run", closed: errNotOpen, items: r.In.Items}
	for i, m := range r.In.Materials {
		e.grams = append(e.grams, sentGrams{MaterialName: m.MaterialName,
			field: fmt.Sprintf("materials[%d].actual_weight_grams", i), grams: *m.ActualWeight.Value})
	}
	return h.end(ctx, r.ID("id"), &e)
}

// SpoolDeduction is what was deducted from one spool.
type SpoolDeduction struct {
	SpoolID  server.UUID    `json:"spool_id" rule:"notNull"`
	Previous server.Decimal `json:"previous_weight" rule:"notNull"`
	New      server.Decimal `json:"new_weight" rule:"notNull"`
	Deducted server.Decimal `json:"deducted" rule:"notNull"`
}

// The problems of complete, fail and cancel, apart from those of the body, and errNotOpen and errClosed.
var (
	errNotInRun = server.BadRequest("UNKNOWN_REFERENCE", "Not in the run: %s", "materials[1].id").On("materials[1].id")

	errDeducted = server.BadRequest("RUN_ALREADY_COMPLETED", "The run was completed before; its filament is deducted")

	errNoMaterials = server.BadRequest("RUN_HAS_NO_MATERIALS",
		"The run has no materials, so there is nothing to deduct")

	errUsageMissing = server.BadRequest("ACTUAL_USAGE_MISSING",
		"Record actual_weight_grams, or spool_weight_before_grams and spool_weight_after_grams, first for: %s",
		"PLA Black (Polymaker) (material 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a53)")

	errInsufficient = server.BadRequest("INSUFFICIENT_FILAMENT",
		"Too little filament is left, or the spool was removed: %s",
		"PLA Black (Polymaker) (spool 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41) has 100 g of the 155 g needed")
)

// ending is how complete, fail or cancel ends a run.
type ending struct {
	status        RunStatus
	kind          string        // of the entries of the usage ledgers
	closed        *server.Error // for a run with another final status
	reason, notes any           // nil keeps what the run has
	grams         []sentGrams
	items         []CompleteItem
}

// sentGrams is what the request says that a material used.
type sentGrams struct {
	MaterialName
	field    string // of the request, such as materials[0].wasted_grams
	grams    server.Decimal
	material string // the id of the material, once check has found it
}

// MaterialName names a material of a run: by its id, or by its spool.
type MaterialName struct {
	ID          server.Optional[server.UUID] `json:"id"`
	SpoolID     server.Optional[server.UUID] `json:"spool_id" rule:"insteadOf=id"`
	SpoolNumber server.Optional[int64]       `json:"spool_number" rule:"insteadOf=id,minimum=1,maximum=999999999"`
}

// field returns the name of the field that is sent, or "" if none is.
func (n MaterialName) field() string {
	switch {
	case !n.ID.IsNull():
		return "id"
	case !n.SpoolID.IsNull():
		return "spool_id"
	case !n.SpoolNumber.IsNull():
		return "spool_number"
	}
	return ""
}

// names reports whether the name is that of the material. The name of no field is that of any material.
func (n MaterialName) names(m endingMaterial) bool {
	return server.UUID(m.ID) == n.ID.Or(server.UUID(m.ID)) &&
		server.UUID(m.SpoolID) == n.SpoolID.Or(server.UUID(m.SpoolID)) &&
		m.SpoolNumber == n.SpoolNumber.Or(m.SpoolNumber)
}

// endingRun is a run that ends, as the rules see it. The run and the spools of its materials are locked.
type endingRun struct {
	status    RunStatus
	deducted  bool
	materials []endingMaterial // in the order of the spools' ids
	items     []endingItem     // only if the request names items
}

type endingMaterial struct {
	ID          string          `json:"id"`
	Weighed     bool            `json:"weighed"` // whether both weights of the spool are recorded
	Actual      *server.Decimal `json:"actual_weight_grams"`
	SpoolID     string          `json:"spool_id"`
	SpoolNumber int64           `json:"spool_number"`
	SpoolName   string          `json:"spool_name"`
	Remaining   server.Decimal  `json:"remaining_weight_grams"`
	Hidden      bool            `json:"hidden"`
}

type endingItem struct {
	ID         string         `json:"id"`
	Quantity   int64          `json:"quantity"`
	Successful *int64         `json:"successful_quantity"`
	Failed     *int64         `json:"failed_quantity"`
	Reason     *FailureReason `json:"failure_reason"`
}

// check returns why the run cannot end like this, or nil. It does not check the materials' weights. The values that
// the request sends for items replace those in run.items.
func (e *ending) check(run *endingRun) error {
	final := run.status == completed || run.status == failed || run.status == cancelled
	switch {
	case run.deducted && run.status == completed:
		return errDeducted
	case run.deducted || final && run.status != e.status:
		return e.closed
	}
	var unknown []string
	var problems server.Problems
	for i := range e.grams {
		sent := &e.grams[i]
		var found []string
		for _, m := range run.materials {
			if sent.names(m) {
				found = append(found, m.ID)
			}
		}
		field, name := sent.field, sent.MaterialName.field()
		if name != "" {
			field = fmt.Sprintf("materials[%d].%s", i, name)
		}
		switch {
		case len(found) == 1:
			sent.material = found[0]
			if slices.ContainsFunc(e.grams[:i], func(g sentGrams) bool { return g.material == sent.material }) {
				problems.Add(field, "names a material that is in the list twice")
			}
		case name == "":
			problems.Add(field, "needs a run of one material; this one has %d: name them in materials",
				len(run.materials))
		case found == nil:
			unknown = append(unknown, field)
		default:
			problems.Add(field, "is the spool of several materials of the run; name one by its id")
		}
	}
	for i, sent := range e.items {
		n := slices.IndexFunc(run.items, func(item endingItem) bool { return item.ID == string(*sent.ID.Value) })
		if n < 0 {
			unknown = append(unknown, fmt.Sprintf("items[%d].id", i))
			continue
		}
		if slices.ContainsFunc(e.items[:i], func(o CompleteItem) bool { return *o.ID.Value == *sent.ID.Value }) {
			problems.Add(fmt.Sprintf("items[%d].id", i), "is in the list twice")
		}
		item := &run.items[n]
		replace(&item.Successful, sent.SuccessfulQuantity)
		replace(&item.Failed, sent.FailedQuantity)
		replace(&item.Reason, sent.FailureReason)
		if orZero(item.Successful)+orZero(item.Failed) > item.Quantity {
			problems.Add(fmt.Sprintf("items[%d].successful_quantity", i), tooManyPieces)
		}
	}
	switch {
	case unknown != nil:
		return errNotInRun.With(server.JoinFields(unknown)).On(unknown...)
	case problems != nil:
		return problems.Err()
	case e.status == completed && len(run.materials) == 0:
		return errNoMaterials
	}
	return nil
}

func replace[T any](stored **T, sent server.Optional[T]) {
	if sent.Set {
		*stored = sent.Value
	}
}

func orZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

// used returns the grams that a material used, or nil if they are unknown: the difference of both weights of its
// spool, else what the request says, else what was recorded before.
func (e *ending) used(m endingMaterial) *server.Decimal {
	i := slices.IndexFunc(e.grams, func(sent sentGrams) bool { return sent.material == m.ID })
	if m.Weighed || i < 0 {
		return m.Actual // PostgreSQL computes it from both weights, or else has the recorded value
	}
	return &e.grams[i].grams
}

// deductions returns what to deduct from each spool, in the order of their ids. A run that did not complete need not
// have used its spools.
func (e *ending) deductions(materials []endingMaterial) ([]SpoolDeduction, error) {
	total := map[string]server.Decimal{}
	var missing []string
	for _, m := range materials {
		switch grams := e.used(m); {
		case grams == nil && e.status == completed:
			missing = append(missing, fmt.Sprintf("%s (material %s)", m.SpoolName, m.ID))
		case orZero(grams) > 0 || e.status == completed:
			total[m.SpoolID] += *grams
		}
	}
	if missing != nil {
		return nil, errUsageMissing.With(strings.Join(missing, ", ")).On("materials")
	}
	all, short, fields := []SpoolDeduction{}, []string{}, []string(nil)
	for _, m := range materials {
		grams, ok := total[m.SpoolID]
		if !ok {
			continue
		}
		delete(total, m.SpoolID)
		switch {
		case m.Remaining < grams:
			short = append(short, fmt.Sprintf("%s (spool %s) has %s g of the %s g needed",
				m.SpoolName, m.SpoolID, m.Remaining, grams))
		case m.Hidden:
			short = append(short, fmt.Sprintf("%s (spool %s) was removed", m.SpoolName, m.SpoolID))
		default:
			all = append(all, SpoolDeduction{server.UUID(m.SpoolID), m.Remaining, m.Remaining - grams, grams})
			continue
		}
		fields = append(fields, e.sentFor(materials, m.SpoolID)...)
	}
	if len(short) > 0 {
		return nil, errInsufficient.With(strings.Join(short, ", ")).On(fields...)
	}
	return all, nil
}

// sentFor returns the names of the fields of the request with grams of materials on the spool.
func (e *ending) sentFor(materials []endingMaterial, spool string) (fields []string) {
	for _, sent := range e.grams {
		if slices.ContainsFunc(materials,
			func(m endingMaterial) bool { return m.ID == sent.material && m.SpoolID == spool }) {
			fields = append(fields, sent.field)
		}
	}
	return fields
}

// end ends a run and deducts the filament of its materials, all or nothing, and only once. It locks the run first, so
// that its items and materials do not change, and then the spools in the order of their ids, so that runs with common
// spools cannot deadlock. It returns the JSON of a Completion or an End.
func (h handlers) end(ctx context.Context, id string, e *ending) ([]byte, error) {
	var run endingRun
	var hooks []string                            // the webhooks that want the event
	event := "production_run." + string(e.status) // there is none for cancelled
	locked := db.SQL(`
		select status, deducted_at is not null, event_webhooks($2)::text[] from production_runs
		where id = $1 and hidden_at is null for no key update`, id, event).Into(&run.status, &run.deducted, &hooks)
	// The join reads the spools in the order of the materials, and each by its primary key.
	materials := db.SQL(`
		select m.id, num_nulls(m.spool_weight_before_grams, m.spool_weight_after_grams) = 0 as weighed,
			m.actual_weight_grams, s.*
		from (select * from run_materials where run_id = $1 order by spool_id, created_at, id) m
		cross join lateral (
			select id as spool_id, number as spool_number, spool_name(material_type, color, brand) as spool_name,
				remaining_weight_grams,
				hidden_at is not null as hidden
			from spools where id = m.spool_id for no key update
		) s`, id)
	items := db.SQL(`
		select id, quantity, successful_quantity, failed_quantity, failure_reason
		from run_items where run_id = $1`, id)
	reads := []*db.Stmt{locked, materials}
	if len(e.items) > 0 {
		reads = append(reads, items)
	}
	var deductions []SpoolDeduction
	var completedAt time.Time
	err := h.db.Decide(ctx, reads, func() (writes []*db.Stmt, err error) {
		if locked.Rows() == 0 {
			return nil, server.ErrNotFound
		}
		run.materials, run.items = nil, nil
		if err := json.Unmarshal(materials.Array(), &run.materials); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(items.Array(), &run.items); err != nil {
			return nil, err
		}
		if err := e.check(&run); err != nil {
			return nil, err
		}
		if deductions, err = e.deductions(run.materials); err != nil {
			return nil, err
		}
		writes = e.setLists(id, run.items)
		if len(deductions) > 0 {
			writes = append(writes, take(id, e.kind, deductions))
		}
		finished := h.finish(e, id, deductions, event, hooks).Into(&completedAt, nil)
		return append(writes, finished, h.orders.Follow(id)), nil
	})
	if err != nil {
		return nil, err
	}
	at := server.Timestamp{Time: completedAt.UTC()}
	return json.Marshal(End{server.UUID(id), string(e.status), at, true, deductions})
}

// setLists returns statements that set what the request says about the run's materials and items.
func (e *ending) setLists(id string, items []endingItem) (all []*db.Stmt) {
	if len(e.grams) > 0 {
		rows := make([]map[string]any, len(e.grams))
		for i, sent := range e.grams {
			rows[i] = map[string]any{"id": sent.material, "grams": sent.grams}
		}
		all = append(all, db.SQL(`
			update run_materials m set sent_actual_grams = e.grams
			from json_to_recordset($2::json) e (id uuid, grams numeric)
			where m.run_id = $1 and m.id = e.id`, id, db.Recordset(rows)))
	}
	if len(items) > 0 {
		rows := make([]map[string]any, len(items))
		for i, item := range items {
			rows[i] = map[string]any{"id": item.ID, "successful_quantity": item.Successful,
				"failed_quantity": item.Failed, "failure_reason": item.Reason}
		}
		all = append(all, db.SQL(`
			update run_items i set successful_quantity = e.successful_quantity, failed_quantity = e.failed_quantity,
				failure_reason = e.failure_reason
			from json_to_recordset($2::json) e (id uuid, successful_quantity int, failed_quantity int, failure_reason text)
			where i.run_id = $1 and i.id = e.id`, id, db.Recordset(rows)))
	}
	return all
}

// take returns a statement that deducts from the spools.
func take(run, kind string, deductions []SpoolDeduction) *db.Stmt {
	spools, grams := make([]string, len(deductions)), make([]string, len(deductions))
	for i, d := range deductions {
		spools[i], grams[i] = string(d.SpoolID), d.Deducted.String()
	}
	return inventory.Take(run, kind, spools, grams)
}

// finish returns a statement that sets the status of the run and sends the event to the webhooks. It returns
// completed_at and a column without meaning. Values that a client could not send back are null.
func (h handlers) finish(e *ending, id string, deductions []SpoolDeduction, event string, hooks []string) *db.Stmt {
	var total server.Decimal
	for _, d := range deductions {
		total += d.Deducted
	}
	emit, args := "null", []any{id, string(e.status), e.reason, e.notes, total.String()}
	if hooks != nil {
		emit, args = h.emit(e), append(args, hooks, event)
	}
	return db.SQL(`
		with ended as materialized (
			select r.id, coalesce(r.actual_print_time_hours,
				(select case when h <= 100000 then h end from (
					select greatest(0, round(extract(epoch from coalesce(r.completed_at, now()) - r.started_at) / 3600, 6)) as h
					where r.started_at is not null) t)) as hours, $2 = 'cancelled' and r.started_at is null as unstarted
			from production_runs r where r.id = $1
		)
		update production_runs r set status = $2, deducted_at = now(), updated_at = now(),
			completed_at = coalesce(r.completed_at, now()),
			failure_reason = coalesce($3, r.failure_reason), failure_notes = coalesce($4, r.failure_notes),
			actual_total_filament_grams = case when $5::numeric <= 1000000 then $5::numeric end,
			actual_print_time_hours = e.hours, filament_cost = c.filament, waste_cost = c.waste,
			machine_cost = c.machine, energy_cost = c.energy, labour_cost = c.labour
		from ended e
		cross join lateral run_cost(e.id, $2, coalesce(e.hours, case when e.unstarted then 0 end)) c
		where r.id = $1
		returning r.completed_at, `+emit, args...)
}

// emit returns the expression that sends the event $7 to the webhooks $6.
func (h handlers) emit(e *ending) string {
	reason := ""
	if e.status == failed {
		reason = `, 'failure_reason', r.failure_reason`
	}
	return `emit_event($6::uuid[], $7, json_build_object(
			'id', r.id, 'started_at', event_time(r.started_at), 'completed_at', event_time(r.completed_at),
			'printer_id', r.printer_id, 'printer_name', r.printer_name,
			'actual_print_time_hours', trim_scale(r.actual_print_time_hours),
			'actual_total_filament_grams', trim_scale(r.actual_total_filament_grams),
			'orders', ` + h.orders.Printed("r.id") + reason + `))::text`
}
