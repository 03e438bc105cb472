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
	ActualWeight server.Optional[server.Decimal] `json:"actual_weight_grams" rule:"maximum=1000000"`
	CountOutside server.Optional[bool]           `json:"count_outside_use"`
}

// Check reports a material without anything to record.
func (m *CompleteMaterial) Check(problems *server.Problems) {
	if m.ActualWeight.IsNull() && !m.CountOutside.Or(false) {
		problems.Add("actual_weight_grams", "is required without count_outside_use")
	}
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
	Warnings         []EndWarning     `json:"warnings" rule:"notNull"`
}

// EndWarning is something about the end of a run that its users may not expect.
type EndWarning struct {
	Code    EndWarningCode `json:"code" rule:"notNull"`
	Detail  string         `json:"detail" rule:"notNull"`
	SpoolID server.UUID    `json:"spool_id" rule:"notNull"`
	Grams   server.Decimal `json:"grams" rule:"notNull"`
}

// EndWarningCode is the kind of an EndWarning.
type EndWarningCode string

// Enum returns all codes.
func (EndWarningCode) Enum() []string {
	return []string{"FILAMENT_SHORTFALL", "SPOOL_REMOVED", "SPOOL_ARCHIVED", "USE_OUTSIDE_RUN"}
}

var errNotOpen = server.BadRequest("RUN_NOT_OPEN",
	"The status of the run is failed or cancelled; such a run cannot be completed")

var completeDoc = &server.Doc{
	ID: "completeProductionRun", Tag: tag, Summary: "Complete a run and deduct its filament",
	Description: "Deducts the actual weight of each material from its spool, less what printers have reported for the " +
		"run (`reported_grams`), and adds an entry to each spool's usage ledger, all or nothing. A material without an " +
		"actual weight has used what was reported. A run is completed only once: later requests return " +
		"`RUN_ALREADY_COMPLETED`.\n\n" +
		"The request fails and changes nothing if the run has the status `failed` or `cancelled` (`RUN_NOT_OPEN`), " +
		"if it has no materials (`RUN_HAS_NO_MATERIALS`), or if a material lacks `actual_weight_grams` and printers " +
		"reported nothing for it (`ACTUAL_USAGE_MISSING`, whose `detail` names the materials).\n\n" +
		endWarnings + "\n\n" +
		"Sets `status`, `completed_at` (to the current time, unless it is set), `actual_total_filament_grams` (to " +
		"the sum, or null if it is more than 1,000,000) and `actual_print_time_hours` (to the time from start to " +
		"completion, or null if it is more than 100,000 hours, unless the field is set). The weights include purged " +
		"filament, so purge is not deducted separately. The costs of the run are those of this moment.\n\n" +
		"The body may be empty. It can contain the actual weights of materials and the numbers of pieces of items, " +
		"which are set in the same transaction. Instead of its " +
		"`id`, `spool_id` or `spool_number` name a material if no other one of the run has the spool. As with " +
		"`updateProductionRunMaterial`, the difference of both weights of the spool takes precedence over " +
		"`actual_weight_grams`. An absent number of pieces keeps its value.",
	Errors: []*server.Error{errNotOpen, errNoMaterials, errNotInRun, errUsageMissing, errDeducted},
}

func (h handlers) complete(ctx context.Context, r *server.Request[CompleteRequest]) (server.OK[Completion], error) {
	e := ending{status: completed, kind: "run", closed: errNotOpen, items: r.In.Items}
	for i, m := range r.In.Materials {
		e.grams = append(e.grams, sentGrams{MaterialName: m.MaterialName,
			field: fmt.Sprintf("materials[%d].actual_weight_grams", i), grams: m.ActualWeight.Value,
			outside: m.CountOutside.Or(false)})
	}
	return h.end(ctx, r.ID("id"), &e)
}

const endWarnings = "What was used is recorded, also if it does not fit, and `warnings` name what does not: a spool " +
	"that had less filament is empty, and the ledger keeps the other grams in `shortfall_grams` " +
	"(`FILAMENT_SHORTFALL`); filament was used from a spool that is removed or archived (`SPOOL_REMOVED`, " +
	"`SPOOL_ARCHIVED`). `USE_OUTSIDE_RUN` says that grams left a spool without a run since this one started: by a " +
	"deduction, weighing, an edit, or a report that belongs to no run (`outside_grams` of the material). They may be " +
	"the run's. With `count_outside_use`, they are: the run takes that much less from the spool, and the ledger moves " +
	"them to the run."

// SpoolDeduction is what the end of a run deducted from one spool, beyond what printers had reported.
type SpoolDeduction struct {
	SpoolID   server.UUID    `json:"spool_id" rule:"notNull"`
	Previous  server.Decimal `json:"previous_weight" rule:"notNull"`
	New       server.Decimal `json:"new_weight" rule:"notNull"`
	Deducted  server.Decimal `json:"deducted" rule:"notNull"`
	Shortfall server.Decimal `json:"shortfall_grams" rule:"notNull"`
	Reported  server.Decimal `json:"reported_grams" rule:"notNull"`

	counted server.Decimal // grams of use outside of the run that become the run's
	silent  bool           // whether the ledger needs no entry
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
	grams    *server.Decimal
	outside  bool   // whether use of the spool outside of the run counts
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
	Archived    bool            `json:"archived"`
	Reported    *server.Decimal `json:"reported_grams"` // of the material
	Outside     server.Decimal  `json:"outside_grams"`  // of the material; the last one of a spool has it
	Short       server.Decimal  `json:"short_grams"`    // of the spool, by the run so far

	used     *server.Decimal // set by deductions
	reported bool            // whether printers reported used
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

// use returns the grams that a material used, or nil if they are unknown, and whether they are what printers reported:
// the difference of both weights of its spool, else what the request says, else what was recorded before, else what was
// reported and, if the request counts it, used outside of the run.
func (e *ending) use(m endingMaterial) (grams *server.Decimal, reported bool) {
	var sent sentGrams
	if i := slices.IndexFunc(e.grams, func(sent sentGrams) bool { return sent.material == m.ID }); i >= 0 {
		sent = e.grams[i]
	}
	switch {
	case !m.Weighed && sent.grams != nil:
		return sent.grams, false
	case m.Actual != nil: // PostgreSQL computes it from both weights, or else has the recorded value
		return m.Actual, false
	case m.Reported == nil && (!sent.outside || m.Outside == 0):
		return nil, true
	}
	used := orZero(m.Reported)
	if sent.outside {
		used += m.Outside
	}
	used = min(used, maxWeight)
	return &used, true
}

const maxWeight = 1_000_000 * server.DecimalOne // of a spool, and of the use of a material

// deductions returns what to deduct from each spool, in the order of their ids, and what the user may not expect of it.
// It sets what the materials used. A run that did not complete need not have used its spools.
func (e *ending) deductions(materials []endingMaterial) ([]SpoolDeduction, []EndWarning, error) {
	var missing []string
	all, warnings := []SpoolDeduction{}, []EndWarning{}
	for i := range materials {
		m := &materials[i]
		if m.used, m.reported = e.use(*m); m.used == nil && e.status == completed {
			missing = append(missing, fmt.Sprintf("%s (material %s)", m.SpoolName, m.ID))
		}
	}
	if missing != nil {
		return nil, nil, errUsageMissing.With(strings.Join(missing, ", ")).On("materials")
	}
	for len(materials) > 0 {
		n := slices.IndexFunc(materials, func(m endingMaterial) bool { return m.SpoolID != materials[0].SpoolID })
		if n < 0 {
			n = len(materials)
		}
		d, w := e.deduction(materials[:n])
		if d != nil {
			all = append(all, *d)
		}
		warnings = append(warnings, w...)
		materials = materials[n:]
	}
	return all, warnings, nil
}

// deduction returns what to deduct for all materials of a spool, or nil.
func (e *ending) deduction(materials []endingMaterial) (d *SpoolDeduction, warnings []EndWarning) {
	spool := materials[0]
	var used, reported, outside, free server.Decimal // free are the reported grams that the figures leave out
	var known, counts bool
	for _, m := range materials {
		used += orZero(m.used)
		reported += orZero(m.Reported)
		outside += m.Outside
		known = known || m.Reported != nil
		if m.reported {
			free += orZero(m.Reported) - min(orZero(m.Reported), maxWeight)
		}
		counts = counts || slices.ContainsFunc(e.grams,
			func(sent sentGrams) bool { return sent.material == m.ID && sent.outside })
	}
	warn := func(code EndWarningCode, grams server.Decimal, format string, args ...any) {
		warnings = append(warnings, EndWarning{code,
			spool.SpoolName + fmt.Sprintf(" (spool %d) ", spool.SpoolNumber) + fmt.Sprintf(format, args...),
			server.UUID(spool.SpoolID), grams})
	}
	rest := used - reported + free // what this call takes, and the use outside that it counts
	if used > 0 || known || e.status == completed {
		d = &SpoolDeduction{SpoolID: server.UUID(spool.SpoolID), Previous: spool.Remaining, Reported: reported}
		if counts {
			d.counted = max(min(outside, rest, maxWeight-spool.Remaining), 0)
		}
		start := spool.Remaining + d.counted
		if rest >= 0 {
			d.New = max(start-rest, 0)
			d.Shortfall = rest - (start - d.New)
		} else { // first, less was short
			if start == 0 {
				d.Shortfall = max(rest, -spool.Short)
			}
			d.New = min(start-rest+d.Shortfall, maxWeight)
			d.Shortfall = rest - (start - d.New)
		}
		d.Deducted = d.Previous - d.New
		d.silent = rest == 0 && known
		if d.Shortfall > 0 {
			warn("FILAMENT_SHORTFALL", d.Shortfall, "was thought to have %s g, and %s g more were used; it is empty now",
				start, d.Shortfall)
		}
		switch {
		case used == 0 && rest == 0:
		case spool.Hidden:
			warn("SPOOL_REMOVED", used, "was removed, and %s g of it were used", used)
		case spool.Archived:
			warn("SPOOL_ARCHIVED", used, "is archived, and %s g of it were used", used)
		}
		outside -= d.counted
	}
	if outside > 0 {
		warn("USE_OUTSIDE_RUN", outside, "lost %s g without a run since this one started, which are not counted", outside)
	}
	return d, warnings
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
				hidden_at is not null as hidden, archived
			from spools where id = m.spool_id for no key update
		) s`, id)
	// Nobody adds to these grams any more: the run and the spools are locked.
	used := db.SQL(`
		select material_reported(m.run_id, m.spool_id, m.id) as reported_grams,
			coalesce(material_outside(m.run_id, m.spool_id, m.id), 0) as outside_grams, coalesce(u.short, 0) as short_grams
		from run_materials m
		left join lateral (select u.short from run_use(m.run_id) u where u.spool_id = m.spool_id offset 0) u on true
		where m.run_id = $1 order by m.spool_id, m.created_at, m.id`, id)
	items := db.SQL(`
		select id, quantity, successful_quantity, failed_quantity, failure_reason
		from run_items where run_id = $1`, id)
	reads := []*db.Stmt{locked, materials, used}
	if len(e.items) > 0 {
		reads = append(reads, items)
	}
	var deductions []SpoolDeduction
	var warnings []EndWarning
	var completedAt time.Time
	err := h.db.Decide(ctx, reads, func() (writes []*db.Stmt, err error) {
		if locked.Rows() == 0 {
			return nil, server.ErrNotFound
		}
		run.materials, run.items = nil, nil
		if err := json.Unmarshal(materials.Array(), &run.materials); err != nil {
			return nil, err
		}
		var uses []endingMaterial // the same ones in the same order
		if err := json.Unmarshal(used.Array(), &uses); err != nil {
			return nil, err
		}
		for i, u := range uses {
			m := &run.materials[i]
			m.Reported, m.Outside, m.Short = u.Reported, u.Outside, u.Short
		}
		if err := json.Unmarshal(items.Array(), &run.items); err != nil {
			return nil, err
		}
		if err := e.check(&run); err != nil {
			return nil, err
		}
		if deductions, warnings, err = e.deductions(run.materials); err != nil {
			return nil, err
		}
		writes = append(e.setLists(id, run.materials, run.items), take(id, e.kind, deductions)...)
		var total server.Decimal
		for _, m := range run.materials {
			total += orZero(m.used)
		}
		finished := h.finish(e, id, total, event, hooks).Into(&completedAt, nil)
		return append(writes, finished, h.orders.Follow(id)), nil
	})
	if err != nil {
		return nil, err
	}
	at := server.Timestamp{Time: completedAt.UTC()}
	return json.Marshal(End{server.UUID(id), string(e.status), at, true, deductions, warnings})
}

// setLists returns statements that set what the materials of the run used, and what the request says about its items.
// The price of each material is frozen.
func (e *ending) setLists(id string, materials []endingMaterial, items []endingItem) (all []*db.Stmt) {
	if len(materials) > 0 {
		rows := make([]map[string]any, len(materials))
		for i, m := range materials {
			grams := m.used
			if m.Weighed { // the weights of the spool take precedence
				grams = nil
				for _, sent := range e.grams {
					if sent.material == m.ID {
						grams = sent.grams
					}
				}
			}
			rows[i] = map[string]any{"id": m.ID, "grams": grams, "reported": m.reported}
		}
		all = append(all, db.SQL(`
			update run_materials m set sent_actual_grams = coalesce(e.grams, m.sent_actual_grams),
				actual_reported = e.reported,
				cost_per_gram = coalesce(m.cost_per_gram, (select s.cost_per_gram from spools s where s.id = m.spool_id))
			from json_to_recordset($2::json) e (id uuid, grams numeric, reported boolean)
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

// take returns statements that deduct from the spools, in the order of the ledger.
func take(run, kind string, deductions []SpoolDeduction) (all []*db.Stmt) {
	var returned, taken []inventory.Taken
	for _, d := range deductions {
		start := d.Previous + d.counted
		if d.counted > 0 {
			returned = append(returned, inventory.Taken{Spool: string(d.SpoolID), Before: d.Previous.String(),
				After: start.String(), Shortfall: "0"})
		}
		if !d.silent {
			taken = append(taken, inventory.Taken{Spool: string(d.SpoolID), Before: start.String(), After: d.New.String(),
				Shortfall: d.Shortfall.String()})
		}
	}
	if returned != nil {
		all = append(all, inventory.Return("Counted in production run "+run, returned))
	}
	if taken != nil {
		all = append(all, inventory.Take(run, kind, taken))
	}
	return all
}

// finish returns a statement that sets the status of the run, which used total, and sends the event to the webhooks. It
// returns completed_at and a column without meaning. Values that a client could not send back are null.
func (h handlers) finish(
	e *ending, id string, total server.Decimal, event string, hooks []string,
) *db.Stmt {
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
