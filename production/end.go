package production

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// CompleteRequest is the body of complete.
type CompleteRequest struct {
	Materials []CompleteMaterial `json:"materials"`
	Items     []CompleteItem     `json:"items"`
	EndTime
}

// EndTime has the time when printing ended, and the hours of printing.
type EndTime struct {
	CompletedAt value.Optional[value.Timestamp] `json:"completed_at"`
	Hours       value.Optional[value.Decimal]   `json:"actual_print_time_hours" rule:"maximum=100000"`
}

// CompleteMaterial has the actual weight of a material.
type CompleteMaterial struct {
	MaterialName
	ActualWeight value.Optional[value.Decimal] `json:"actual_weight_grams" rule:"maximum=1000000"`
	CountOutside value.Optional[bool]          `json:"count_outside_use"`
}

// Check reports a material without anything to record.
func (m *CompleteMaterial) Check(problems *server.Problems) {
	if m.ActualWeight.IsNull() && !m.CountOutside.Or(false) {
		problems.Add("actual_weight_grams", "is required without count_outside_use")
	}
}

// CompleteItem has the numbers of good and failed pieces of an item, and the reason for the failures.
type CompleteItem struct {
	ID                 value.Optional[value.UUID] `json:"id" rule:"required"`
	SuccessfulQuantity value.Optional[int64]      `json:"successful_quantity" rule:"maximum=1000000"`
	FailedQuantity     value.Optional[int64]      `json:"failed_quantity" rule:"maximum=1000000"`

	FailureReason value.Optional[FailureReason] `json:"failure_reason"`
}

// Completion is the response to complete.
type Completion struct {
	ID               value.UUID       `json:"id" rule:"notNull"`
	Status           string           `json:"status" rule:"notNull,enum=completed"`
	CompletedAt      value.Timestamp  `json:"completed_at" rule:"notNull"`
	InventoryUpdated bool             `json:"inventory_updated" rule:"notNull"`
	SpoolsUpdated    []SpoolDeduction `json:"spools_updated"`
	Warnings         []EndWarning     `json:"warnings" rule:"notNull"`
}

// EndWarning is an effect of the end of a run that its users may not expect.
type EndWarning struct {
	Code      EndWarningCode `json:"code" rule:"notNull"`
	Detail    string         `json:"detail" rule:"notNull"`
	SpoolID   *value.UUID    `json:"spool_id"` // null if the warning is not about a spool
	Grams     *value.Decimal `json:"grams"`
	ProductID *value.UUID    `json:"product_id"` // null if the warning is not about a product
	Pieces    *int64         `json:"pieces"`
}

// countedSince returns warnings about products that were counted after the end of a run: the result of
// catalog.Balanced.
func countedSince(balances string) []EndWarning {
	all := []EndWarning{}
	for _, b := range catalog.Balances(balances) {
		all = append(all, EndWarning{Code: catalog.CountedSince, Detail: b.Detail(), ProductID: &b.ProductID,
			Pieces: &b.Pieces})
	}
	return all
}

// steps converts warnings to the form of a run's warnings.
func steps(warnings []EndWarning) []CheckStep {
	all := []CheckStep{}
	for _, w := range warnings {
		all = append(all, CheckStep{Code: StepCode(w.Code), Detail: w.Detail, SpoolID: w.SpoolID, ProductID: w.ProductID})
	}
	return all
}

// EndWarningCode is the kind of an EndWarning.
type EndWarningCode string

// Enum returns all codes.
func (EndWarningCode) Enum() []string {
	return []string{"FILAMENT_SHORTFALL", "SPOOL_REMOVED", "SPOOL_ARCHIVED", "USE_OUTSIDE_RUN", "WEIGHED_SINCE",
		"WEIGHED_DURING_RUN", "LONG_PRINT_TIME", catalog.CountedSince}
}

var errNotOpen = server.BadRequest("RUN_NOT_OPEN",
	"The status of the run is failed or cancelled; such a run cannot be completed")

var completeDoc = &server.Doc{
	ID: "completeProductionRun", Tag: Tag, Summary: "Complete a run and deduct its filament",
	Description: "Deducts the actual weight of each material from its spool, less the grams that printers reported for " +
		"the run (`reported_grams`), and adds an entry to each spool's usage ledger, all or nothing. If a material has no " +
		"actual weight, its use is what printers reported. A run is completed only once, unless it is reopened: later " +
		"requests return `RUN_ALREADY_COMPLETED`.\n\n" +
		"The request fails and changes nothing if the run has the status `failed` or `cancelled` (`RUN_NOT_OPEN`), " +
		"if it has no materials (`RUN_HAS_NO_MATERIALS`), or if a material lacks `actual_weight_grams` and printers " +
		"reported nothing for it (`ACTUAL_USAGE_MISSING`, whose `detail` names the materials).\n\n" +
		endWarnings + "\n\n" +
		"Sets `status`, `completed_at`, `actual_total_filament_grams` (to the sum, or null if it is more than 1,000,000) " +
		"and `actual_print_time_hours`. The weights include purged filament, so purge is not deducted separately. The " +
		"costs of the run are those of this moment.\n\n" + endTimes + "\n\n" +
		"The body may be empty. It can contain the actual weights of materials, the numbers of pieces of items, " +
		"`completed_at` and `actual_print_time_hours`, which are set in the same transaction. Instead of its " +
		"`id`, `spool_id` or `spool_number` name a material if no other one of the run has the spool. As with " +
		"`updateProductionRunMaterial`, the difference of both weights of the spool takes precedence over " +
		"`actual_weight_grams`. An absent number of pieces keeps its value.",
	Errors: []*server.Error{errNotOpen, errNoMaterials, errNotInRun, errUsageMissing, errDeducted},
}

func (h handlers) complete(ctx context.Context, r *server.Request[CompleteRequest]) (server.OK[Completion], error) {
	e := ending{status: completed, kind: "run", closed: errNotOpen, items: r.In.Items, EndTime: r.In.EndTime}
	for i, m := range r.In.Materials {
		e.grams = append(e.grams, sentGrams{MaterialName: m.MaterialName,
			field: fmt.Sprintf("materials[%d].actual_weight_grams", i), grams: m.ActualWeight.Value,
			outside: m.CountOutside.Or(false)})
	}
	return h.end(ctx, r.ID("id"), &e)
}

const endTimes = "The run ends at the `completed_at` of the request, or else at that of the run, or else now. If " +
	"neither has `completed_at` or hours, and more than twice the estimate has passed since `started_at`, the run " +
	"probably ended earlier: it ends at the last report of a printer for it, or else now, and `warnings` has " +
	"`LONG_PRINT_TIME`. `actual_print_time_hours` are those of the request, or else those of the run, or else the time " +
	"from `started_at` to `completed_at`. That time is not plausible, and the hours are null, if it is less than a " +
	"minute or more than 100,000 hours or, for a completed run, less than a tenth of the estimate, because the start " +
	"was then recorded late. Without hours, the costs of machine and energy are unknown, and `unknown_parts` names " +
	"them. Reports count the run, and all that it used, on the day of `completed_at`."

const endWarnings = "The use is recorded even if it contradicts the records, and `warnings` report the " +
	"contradictions: a spool that had less filament becomes empty, and the ledger keeps the remaining grams in " +
	"`shortfall_grams` (`FILAMENT_SHORTFALL`); filament was used from a spool that is removed or archived " +
	"(`SPOOL_REMOVED`, `SPOOL_ARCHIVED`). `USE_OUTSIDE_RUN` reports that grams left a spool without a run since this " +
	"one started: by a deduction, weighing, an edit, or a report that belongs to no run (`outside_grams` of the " +
	"material). The run may have used them. With `count_outside_use`, they count as use of the run: it takes that " +
	"much less from the spool, and the ledger moves them to the run.\n\n" +
	"`WEIGHED_SINCE` reports that the spool was weighed, or its remaining weight edited, after the run had ended: the " +
	"spool keeps its weight, and the ledger balances the grams at the weighing. If a run is reopened, the grams that " +
	"its end took before such a weighing count as used before it. `WEIGHED_DURING_RUN` reports that the run used less " +
	"than printers had reported before the spool was weighed: only grams reported later come back, and the ledger " +
	"balances the others at the weighing.\n\n" +
	"`COUNTED_SINCE` reports that a product (`product_id`) was counted after the run ended: its pieces in stock stay " +
	"as they are, and the difference found by the count changes by `pieces`."

// SpoolDeduction is the filament that the end of a run deducted from one spool, in addition to what printers
// reported.
type SpoolDeduction struct {
	SpoolID   value.UUID    `json:"spool_id" rule:"notNull"`
	Previous  value.Decimal `json:"previous_weight" rule:"notNull"`
	New       value.Decimal `json:"new_weight" rule:"notNull"`
	Deducted  value.Decimal `json:"deducted" rule:"notNull"`
	Shortfall value.Decimal `json:"shortfall_grams" rule:"notNull"`
	Reported  value.Decimal `json:"reported_grams" rule:"notNull"`

	counted  counted // use outside of the run that begins to count for the run
	released counted // use outside of the run that no longer counts for the run
	silent   bool    // whether the ledger needs no entry

	weighed  *inventory.Weighing // a weighing after the grams left the spool, which keeps its weight; or nil
	from, to value.Decimal       // the weights before, including kept, and after; at the weighing if weighed is set
	own      *runWeighing        // at which kept grams of the deduction are balanced
	kept     value.Decimal
}

// runWeighing is a weighing during a run, or the weighing at which grams of earlier ends of the run were balanced. If
// the run is corrected or ends again, at most Grams more count as used before it. If the run used less, grams used
// after it are returned first.
type runWeighing struct {
	inventory.Weighing
	Grams value.Decimal `json:"grams"` // that the run had used before the weighing and no longer counts as its use
	Used  value.Decimal `json:"used"`  // that the ends of the run took before the weighing
	After value.Decimal `json:"after"` // that the run used after the weighing
}

// undo deducts rest grams, which reverse the end of a run. Grams that the end took before the weighing are balanced at
// the weighing.
func (d *SpoolDeduction) undo(w *runWeighing, rest, short value.Decimal) {
	if w != nil && d.weighed == nil && rest != 0 {
		d.own, d.kept = w, -w.Used
		d.from += max(d.kept, 0)
	}
	d.to, d.Shortfall = left(d.from, rest, short)
	d.kept = max(d.kept, min(d.released.grams-d.to, 0))
}

// counted is filament that left a spool outside of a run and that the run counts as its own use.
type counted struct {
	grams     value.Decimal
	corrected value.Decimal // the part of grams that weighing and edits removed
}

// The errors of complete, fail and cancel, apart from errors of the body, errNotOpen and errClosed.
var (
	errNotInRun = server.BadRequest("UNKNOWN_REFERENCE", "Not in the run: %s", "materials[1].id").On("materials[1].id")

	errDeducted = server.BadRequest("RUN_ALREADY_COMPLETED", "The run is already completed, and its filament is deducted")

	errNoMaterials = server.BadRequest("RUN_HAS_NO_MATERIALS",
		"The run has no materials, so there is nothing to deduct")

	errUsageMissing = server.BadRequest("ACTUAL_USAGE_MISSING",
		"Record actual_weight_grams, or spool_weight_before_grams and spool_weight_after_grams, first for: %s",
		"PLA Black (Polymaker) (material 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a53)")
)

// ending describes how a request ends a run.
type ending struct {
	status        RunStatus
	kind          string        // of the entries of the usage ledgers
	closed        *server.Error // the error for a run with another final status
	reason, notes any           // nil keeps the value of the run
	why           any           // the reason in the history of the run
	grams         []sentGrams
	items         []CompleteItem
	changesEnd    bool // whether the request changes the end of an ended run: omitted fields keep their values
	started       value.Optional[value.Timestamp]
	EndTime
}

// sentGrams is the used weight that the request sends for a material.
type sentGrams struct {
	MaterialName
	field    string // of the request, such as materials[0].wasted_grams
	grams    *value.Decimal
	outside  bool   // whether the run counts use of the spool outside of runs
	earlier  bool   // whether the difference left the spool before it was weighed during the run
	material string // the id of the material, set by check
}

// MaterialName names a material of a run: by its id, or by its spool.
type MaterialName struct {
	ID          value.Optional[value.UUID] `json:"id"`
	SpoolID     value.Optional[value.UUID] `json:"spool_id" rule:"insteadOf=id"`
	SpoolNumber value.Optional[int64]      `json:"spool_number" rule:"insteadOf=id,minimum=1,maximum=999999999"`
}

// field returns the name of the field that the request sends, or "".
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

// names reports whether the material has the given id or spool. An empty MaterialName names every material.
func (n MaterialName) names(m endingMaterial) bool {
	return value.UUID(m.ID) == n.ID.Or(value.UUID(m.ID)) &&
		value.UUID(m.SpoolID) == n.SpoolID.Or(value.UUID(m.SpoolID)) &&
		m.SpoolNumber == n.SpoolNumber.Or(m.SpoolNumber)
}

// endingRun is a run whose end is recorded. The run and the spools of its materials are locked.
type endingRun struct {
	status    RunStatus
	deducted  bool
	started   *time.Time
	ended     *time.Time
	hours     *string
	early     bool             // whether the run ends, at the time in the request, before it started
	future    bool             // whether the time in the request is in the future
	long      *string          // the hours until now, if they are the print time and more than twice the estimate
	estimate  *string          // in hours
	reported  *time.Time       // with long: the time of a printer's last report, or nil
	materials []endingMaterial // in the order of the spools' ids
	items     []endingItem     // only if the request names items
}

type endingMaterial struct {
	ID          string         `json:"id"`
	Weighed     bool           `json:"weighed"` // whether both weights of the spool are recorded
	Actual      *value.Decimal `json:"actual_weight_grams"`
	SpoolID     string         `json:"spool_id"`
	SpoolNumber int64          `json:"spool_number"`
	SpoolName   string         `json:"spool_name"`
	Remaining   value.Decimal  `json:"remaining_weight_grams"`
	Hidden      bool           `json:"hidden"`
	Archived    bool           `json:"archived"`
	Reported    *value.Decimal `json:"reported_grams"` // of the material
	Outside     value.Decimal  `json:"outside_grams"`  // of the material; the last one of a spool has it
	Corrected   value.Decimal  `json:"corrected"`      // of Outside, by weighing and edits, if the request counts them
	Short       value.Decimal  `json:"short_grams"`    // of the spool, by the run so far
	Recorded    value.Decimal  `json:"recorded_grams"` // of the spool, by all entries of the run
	Taken       value.Decimal  `json:"taken_grams"`    // of the spool, by the entries of the run's end

	// The first weighing of the spool after the end that the request sets, and after the recorded end; or nil.
	AfterEnd   *inventory.Weighing `json:"after_end"`
	AfterEnded *inventory.Weighing `json:"after_ended"`
	Own        *runWeighing        `json:"own"`

	// For the history.
	Estimated *value.Decimal `json:"estimated_weight_grams"`
	Price     *value.Decimal `json:"cost_per_gram"`

	// The recorded values of a run that has ended before.
	ActualReported bool          `json:"actual_reported"`
	Counted        value.Decimal `json:"counted_grams"`
	Corrections    value.Decimal `json:"counted_corrections"`

	// Changes of a correction.
	moved, unweighed, repriced bool
	price                      *value.Decimal // nil is the price of the spool
	left                       bool           // whether move added it for the old spool; stored only if needed

	used     *value.Decimal // set by deductions
	reported bool           // whether printers reported used
}

type endingItem struct {
	ID         string         `json:"id"`
	Quantity   int64          `json:"quantity"`
	Successful *int64         `json:"successful_quantity"`
	Failed     *int64         `json:"failed_quantity"`
	Reason     *FailureReason `json:"failure_reason"`
}

// check returns an error if the run cannot end this way. It does not check the weights of materials. It copies the
// values that the request sends for items to run.items.
func (e *ending) check(run *endingRun) error {
	final := run.status == completed || run.status == failed || run.status == cancelled
	switch {
	case e.changesEnd && !run.deducted:
		return errNotEnded
	case e.changesEnd:
	case run.deducted && run.status == completed:
		return errDeducted
	case run.deducted || final && run.status != e.status:
		return e.closed
	}
	var unknown []string
	var problems server.Problems
	switch {
	case run.future:
		problems.Add("completed_at", "must not be in the future")
	case run.early && !e.started.IsNull() && e.CompletedAt.IsNull():
		problems.Add("started_at", "must not be after completed_at, %s", run.ended.UTC().Format(time.RFC3339))
	case run.early && !e.started.IsNull():
		problems.Add("completed_at", "must not be before started_at")
	case run.early:
		problems.Add("completed_at", "must not be before started_at, %s", run.started.UTC().Format(time.RFC3339))
	}
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
				problems.Add(field, "names a material that another entry names already")
			}
		case name == "":
			problems.Add(field, "requires a run with one material; this run has %d: name them in materials",
				len(run.materials))
		case found == nil:
			unknown = append(unknown, field)
		default:
			problems.Add(field, "is the spool of several materials of the run; name the material by its id")
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
		if value.OrZero(item.Successful)+value.OrZero(item.Failed) > item.Quantity {
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

func replace[T any](stored **T, sent value.Optional[T]) {
	if sent.Set {
		*stored = sent.Value
	}
}

// use returns the grams that a material used, or nil if they are unknown. The first known value counts: the
// difference of both weights of its spool, the weight in the request, the weight recorded before, or the grams that
// printers reported. If the request counts use outside of runs, use adds that use to the reported grams. reported
// tells whether the result is the reported grams.
func (e *ending) use(m endingMaterial) (grams *value.Decimal, reported bool) {
	var sent sentGrams
	if i := slices.IndexFunc(e.grams, func(sent sentGrams) bool { return sent.material == m.ID }); i >= 0 {
		sent = e.grams[i]
	}
	switch {
	case !m.Weighed && sent.grams != nil:
		return sent.grams, false
	case e.changesEnd:
		return m.Actual, m.ActualReported
	case m.Actual != nil: // a generated column: the difference of both weights, or else the recorded value
		return m.Actual, false
	case m.Reported == nil && (!sent.outside || m.Outside == 0):
		return nil, true
	}
	used := value.OrZero(m.Reported)
	if sent.outside {
		used += m.Outside
	}
	used = min(used, maxWeight)
	return &used, true
}

const maxWeight = 1_000_000 * value.DecimalOne // of a spool, and of the use of a material

// deductions returns the deduction from each spool, in the order of the spools' ids, and warnings about them. It
// sets the use of each material. Only a completed run must know the use of all materials.
func (e *ending) deductions(materials []endingMaterial) ([]SpoolDeduction, []EndWarning, error) {
	var missing []string
	all, warnings := []SpoolDeduction{}, []EndWarning{}
	for i := range materials {
		m := &materials[i]
		if m.used, m.reported = e.use(*m); m.used == nil && e.status == completed && !e.changesEnd {
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
		all = append(all, d...)
		warnings = append(warnings, w...)
		materials = materials[n:]
	}
	return all, warnings, nil
}

// deduction returns the deduction for all materials of one spool. The deduction is the use of the run less the use
// that is already in the ledger. This holds for a first end, a second end and a correction. If a correction moves the
// end to another side of a weighing, one more deduction returns the recorded use first. deduction also sets the use
// outside of runs that each material counts.
func (e *ending) deduction(materials []endingMaterial) (all []SpoolDeduction, warnings []EndWarning) {
	spool := materials[0]
	var used, reported, outside, free value.Decimal // free: reported grams that the sent weights leave out
	var had counted
	var known, counts, earlier bool
	for i := range materials {
		m := &materials[i]
		used += value.OrZero(m.used)
		reported += value.OrZero(m.Reported)
		outside += m.Outside
		known = known || m.Reported != nil
		if m.reported {
			free += value.OrZero(m.Reported) - min(value.OrZero(m.Reported), maxWeight)
		}
		for _, sent := range e.grams {
			counts = counts || sent.material == m.ID && sent.outside
			earlier = earlier || sent.material == m.ID && sent.earlier
		}
		had.grams, had.corrected = had.grams+m.Counted, had.corrected+m.Corrections
		m.Counted, m.Corrections = 0, 0
	}
	weighed, during, own := spool.AfterEnd, spool.Own, spool.Own
	if recorded := spool.Taken - had.grams; e.changesEnd && recorded != 0 && !weighed.Is(spool.AfterEnded) {
		d := SpoolDeduction{SpoolID: value.UUID(spool.SpoolID), Previous: spool.Remaining, weighed: spool.AfterEnded,
			from: spool.AfterEnded.From(spool.Remaining)}
		d.undo(own, -recorded, spool.Short)
		all = append(all, d)
		if d.weighed == nil {
			spool.Remaining = d.to + min(d.kept, 0)
		}
		own = nil // it describes the previous end
		spool.Recorded, spool.Taken, spool.Short = spool.Recorded-recorded, had.grams, spool.Short+d.Shortfall
	}
	if e.changesEnd && earlier && weighed == nil && during != nil {
		weighed = &during.Weighing
	}
	rest := used - spool.Recorded + free // the grams that this call deducts, with the counted use outside of runs
	if used > 0 || rest != 0 || known || e.status == completed {
		d := SpoolDeduction{SpoolID: value.UUID(spool.SpoolID), Previous: spool.Remaining, Reported: reported,
			weighed: weighed, from: weighed.From(spool.Remaining)}
		if counts {
			d.counted.grams = max(min(outside, rest, maxWeight-d.from), 0)
			for _, m := range materials {
				d.counted.corrected = min(d.counted.corrected+m.Corrected, d.counted.grams)
			}
		}
		keeps := had.atMost(max(spool.Taken+rest, 0))
		d.released = counted{had.grams - keeps.grams, had.corrected - keeps.corrected}
		if own != nil && weighed == nil {
			d.own, d.kept = own, max(min(rest-d.counted.grams, own.Grams), 0)
			d.from += d.kept
		}
		d.to, d.Shortfall = left(d.from+d.counted.grams, rest, spool.Short)
		d.silent = rest == 0 && (known || e.changesEnd)
		if d.own != nil && rest < 0 {
			d.kept = min(d.released.grams+max(rest+max(own.After, 0), -d.to), 0)
		}
		warnings = e.warnings(&spool, &d, used, rest, during, earlier)
		outside -= d.counted.grams
		if d.New = d.to + min(d.kept, 0); weighed != nil {
			d.New = d.Previous
		} else {
			d.Deducted = d.Previous - max(d.New-d.released.grams, 0)
		}
		last := &materials[len(materials)-1]
		last.Counted, last.Corrections = keeps.grams+d.counted.grams, keeps.corrected+d.counted.corrected
		all = append(all, d)
	}
	if outside > 0 {
		warnings = append(warnings, spool.warning("USE_OUTSIDE_RUN", outside, "%s (spool %d) lost %s g outside of runs "+
			"since this run started; they are not counted", spool.SpoolName, spool.SpoolNumber, outside))
	}
	return all, warnings
}

// warnings returns what the user should know about the deduction d of rest grams from a spool, of which the run used
// some. during is the weighing during the run, or nil; earlier reports whether the difference left the spool before it.
func (e *ending) warnings(
	spool *endingMaterial, d *SpoolDeduction, used, rest value.Decimal, during *runWeighing, earlier bool,
) (all []EndWarning) {
	name, number := spool.SpoolName, spool.SpoolNumber
	warn := func(code EndWarningCode, grams value.Decimal, format language.Text, args ...any) {
		all = append(all, spool.warning(code, grams, format, args...))
	}
	switch {
	case d.weighed != nil && rest != d.counted.grams && !earlier:
		warn("WEIGHED_SINCE", rest, "%s (spool %d) was weighed after the run ended, and keeps %s g", name, number,
			spool.Remaining)
	case d.weighed != nil:
	case d.kept > 0 && !e.changesEnd:
		warn("WEIGHED_SINCE", d.kept, "%s (spool %d) was weighed after an earlier end of the run: %s g count as used "+
			"before the weighing", name, number, d.kept)
	case d.kept != 0:
		warn("WEIGHED_DURING_RUN", d.kept, "%s (spool %d) was weighed during the run, and keeps its weight: %s g of "+
			"the difference count as used before that", name, number, d.kept)
	case e.changesEnd && during != nil && rest != 0:
		warn("WEIGHED_DURING_RUN", rest, "%s (spool %d) was weighed during the run: the difference counts as used "+
			"after the weighing", name, number)
	}
	if d.Shortfall > 0 && d.weighed == nil {
		warn("FILAMENT_SHORTFALL", d.Shortfall,
			"%s (spool %d) had only %s g on record; the run used %s g more, so it is now empty", name, number,
			d.from+d.counted.grams, d.Shortfall)
	}
	switch {
	case rest == 0 && (used == 0 || e.changesEnd):
	case spool.Hidden:
		warn("SPOOL_REMOVED", used, "%s (spool %d) was removed, and %s g of it were used", name, number, used)
	case spool.Archived:
		warn("SPOOL_ARCHIVED", used, "%s (spool %d) is archived, and %s g of it were used", name, number, used)
	}
	return all
}

// warning returns a warning about the spool of a material.
func (m *endingMaterial) warning(code EndWarningCode, grams value.Decimal, format language.Text,
	args ...any) EndWarning {
	id := value.UUID(m.SpoolID)
	return EndWarning{Code: code, SpoolID: &id, Grams: &grams, Detail: language.Sprintf(format, args...)}
}

// atMost returns c, limited to the grams.
func (c counted) atMost(grams value.Decimal) counted {
	return counted{min(c.grams, grams), min(c.corrected, grams)}
}

// left returns the remaining grams of a spool after a deduction of rest grams from start grams, and the shortfall: the
// grams that the spool lacks. A negative rest returns grams; it first reduces the shortfall short.
func left(start, rest, short value.Decimal) (grams, shortfall value.Decimal) {
	if rest >= 0 {
		grams = max(start-rest, 0)
	} else {
		if start == 0 {
			shortfall = max(rest, -short)
		}
		grams = min(start-rest+shortfall, maxWeight)
	}
	return grams, rest - (start - grams)
}

// reading has the statements that read a run in order to end, correct or reopen it, and their results. The run is
// locked first, so that its items and materials do not change. Then the spools are locked in the order of their ids,
// so that runs with common spools cannot deadlock.
type reading struct {
	run    endingRun
	hooks  []string // the webhooks subscribed to the event
	state  string   // the result of run_state
	before *db.Stmt // the entry of the history
	locked *db.Stmt

	materials, used, items *db.Stmt
}

// reads returns the statements that lock and read the run. event is the event that the end sends.
func (r *reading) reads(id string, e *ending, event string) []*db.Stmt {
	r.locked = db.SQL(`
		select status, deducted_at is not null, event_webhooks($2)::text[], started_at, completed_at,
			trim_scale(actual_print_time_hours)::text,
			coalesce(coalesce($3::timestamptz, case when $4::timestamptz is not null then completed_at end)
				< date_trunc('minute', case when $5 then $4::timestamptz else started_at end), false),
			coalesce($3::timestamptz >= date_trunc('minute', now()) + interval '1 minute', false),
			run_state(production_runs)::text,
			case when late_end(production_runs) is not null and $6
				then round(extract(epoch from now() - started_at) / 3600, 1)::text end,
			trim_scale(estimated_print_time_hours)::text, nullif(late_end(production_runs), 'infinity')
		from production_runs where id = $1 and hidden_at is null for no key update`, id, event, e.CompletedAt.Arg(),
		e.started.Arg(), e.started.Set, e.CompletedAt.IsNull() && !e.changesEnd && e.Hours.IsNull()).
		Into(&r.run.status, &r.run.deducted, &r.hooks, &r.run.started, &r.run.ended, &r.run.hours, &r.run.early,
			&r.run.future, &r.state, &r.run.long, &r.run.estimate, &r.run.reported)
	// The join reads the spools in the order of the materials, each by its primary key.
	r.materials = db.SQL(`
		select m.id, num_nulls(m.spool_weight_before_grams, m.spool_weight_after_grams) = 0 as weighed,
			m.actual_weight_grams, m.estimated_weight_grams, m.cost_per_gram, m.actual_reported,
			coalesce(m.counted_grams, 0) as counted_grams,
			coalesce(m.counted_corrections, 0) as counted_corrections, s.*
		from (select * from run_materials where run_id = $1 order by spool_id, created_at, id) m
		cross join lateral (
			select `+endingSpool+` from spools where id = m.spool_id for no key update
		) s`, id)
	// No other transaction can add to these grams, because the run and the spools are locked.
	// The weighing after the end keeps the weight of the spool.
	corrected := "0"
	if slices.ContainsFunc(e.grams, func(sent sentGrams) bool { return sent.outside }) {
		corrected = "coalesce(material_outside(m.run_id, m.spool_id, m.id, '{measured,edited}', after_end.weighed_at), 0)"
	}
	r.used = db.SQL(`
		select `+corrected+` as corrected, material_reported(m.run_id, m.spool_id, m.id) as reported_grams,
			coalesce(material_outside(m.run_id, m.spool_id, m.id, until => after_end.weighed_at), 0) as outside_grams,
			coalesce(u.short, 0) as short_grams,
			coalesce(u.grams, 0) as recorded_grams, coalesce(u.taken, 0) as taken_grams, `+weighings+`
		from run_materials m
		cross join `+e.ends(2)+` r`+joinWeighings("m.spool_id")+`
		left join run_use($1) u on u.spool_id = m.spool_id
		where m.run_id = $1 order by m.spool_id, m.created_at, m.id`, append([]any{id}, e.endsArgs()...)...)
	r.items = db.SQL(`
		select id, quantity, successful_quantity, failed_quantity, failure_reason
		from run_items where run_id = $1`, id)
	reads := []*db.Stmt{r.locked, r.materials, r.used}
	if len(e.items) > 0 {
		reads = append(reads, r.items)
	}
	return reads
}

// ends returns a subquery for the run $1 with the additional column ends, the time at which the request ends it. Its
// other arguments are endsArgs, numbered from n. A run that ends now ends after its spools are locked: an edit for
// which the lock has waited was before the end.
func (e *ending) ends(n int) string {
	return fmt.Sprintf(`(
			select r.*, least(coalesce($%d::timestamptz, case when not $%d then r.completed_at end, r.deducted_at,
				case when $%d then late_end(r) end, now.at), now.at) as ends
			from production_runs r cross join (select clock_timestamp() as at) now where r.id = $1
		)`, n, n+1, n+2)
}

func (e *ending) endsArgs() []any {
	return []any{e.CompletedAt.Arg(), e.changesEnd && e.CompletedAt.Set, !e.changesEnd && e.Hours.IsNull()}
}

// weighings are the columns of endingMaterial about the weighings of a spool, from the tables of joinWeighings.
const weighings = `to_json(after_end) as after_end, to_json(after_ended) as after_ended, to_json(own) as own`

// joinWeighings joins the weighings of a spool with r, the result of ending.ends. spool is a SQL expression.
func joinWeighings(spool string) string {
	return `
		left join lateral weighing_since(` + spool + `, r.ends) after_end on true
		left join lateral weighing_since(` + spool + `, r.ended_at) after_ended on true
		left join lateral run_weighing(r.id, ` + spool + `, r.started_at, r.ends) own on true`
}

// endingSpool lists the columns of a spool in endingMaterial.
const endingSpool = `id as spool_id, number as spool_number,
	spool_name(material_type, material_name, color, brand) as spool_name, remaining_weight_grams,
	hidden_at is not null as hidden, archived`

// read decodes the results of the statements into r.run.
func (r *reading) read() error {
	if r.locked.Rows() == 0 {
		return server.ErrNotFound
	}
	r.run.materials, r.run.items = nil, nil
	if err := json.Unmarshal(r.materials.Array(), &r.run.materials); err != nil {
		return err
	}
	var uses []endingMaterial // uses has the same materials in the same order
	if err := json.Unmarshal(r.used.Array(), &uses); err != nil {
		return err
	}
	for i, u := range uses {
		m := &r.run.materials[i]
		m.Reported, m.Outside, m.Short, m.Corrected = u.Reported, u.Outside, u.Short, u.Corrected
		m.Recorded, m.Taken, m.Own = u.Recorded, u.Taken, u.Own
		m.AfterEnd, m.AfterEnded = u.AfterEnd, u.AfterEnded
	}
	return json.Unmarshal(r.items.Array(), &r.run.items)
}

// end ends a run and deducts the filament of its materials, in one transaction and only once. It returns the JSON of
// a Completion or an End.
func (h handlers) end(ctx context.Context, id string, e *ending) ([]byte, error) {
	var r reading
	var deductions []SpoolDeduction
	var warnings []EndWarning
	var completedAt time.Time
	var balances string
	event := "production_run." + string(e.status) // cancelled runs have no event
	err := h.db.Decide(ctx, r.reads(id, e, event), func() (writes []*db.Stmt, err error) {
		if err := r.read(); err != nil {
			return nil, err
		}
		if r.before, err = r.remember(id, string(e.status), e.why); err != nil {
			return nil, err
		}
		if err := e.check(&r.run); err != nil {
			return nil, err
		}
		if deductions, warnings, err = e.deductions(r.run.materials); err != nil {
			return nil, err
		}
		switch run := &r.run; {
		case run.long != nil && run.reported != nil:
			e.CompletedAt = value.Some(value.Timestamp{Time: *run.reported})
		case run.long != nil:
			warnings = append(warnings, EndWarning{Code: "LONG_PRINT_TIME", Detail: language.Sprintf(
				"The run has taken %s h "+
					"until now, more than twice the estimate of %s h; correct completed_at if it ended earlier", *run.long,
				*run.estimate)})
		}
		writes = h.write(id, e, &r, deductions, event, &completedAt)
		return append(writes, h.orders.Follow(id), h.orders.Settle(id), catalog.Balanced(id).Into(&balances)), nil
	})
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, countedSince(balances)...)
	at := value.Timestamp{Time: completedAt.UTC()}
	return json.Marshal(End{value.UUID(id), string(e.status), at, true, deductions, warnings})
}

// write returns the statements that record the end of a run, or its correction, and deduct from the spools. The
// statements set completedAt.
func (h handlers) write(
	id string, e *ending, r *reading, deductions []SpoolDeduction, event string, completedAt *time.Time,
) []*db.Stmt {
	var total value.Decimal
	for _, m := range r.run.materials {
		total += value.OrZero(m.used)
	}
	writes := append([]*db.Stmt{r.before}, e.setLists(id, r.run.materials, r.run.items)...)
	if e.changesEnd && (e.started.Set || e.CompletedAt.Set || e.Hours.Set) {
		writes = append(writes, e.setTimes(id))
	}
	writes = append(writes, h.finish(e, id, total, event, r.hooks).Into(completedAt, nil)) // dates the ledger
	return append(writes, take(id, e.kind, deductions)...)
}

// setLists returns statements that set the use of the run's materials and the item values of the request. The
// statements freeze the price of each material, and keep the values from before the first end, so that reopen can
// restore them.
func (e *ending) setLists(id string, materials []endingMaterial, items []endingItem) (all []*db.Stmt) {
	var rows []map[string]any
	for _, m := range materials {
		if m.left {
			if m.Reported != nil {
				all = append(all, db.SQL(`
					insert into run_materials (id, run_id, spool_id, sent_actual_grams, cost_per_gram, planned_filament)
					select $1, $2, s.id, 0, s.cost_per_gram, spool_filament(s) from spools s where s.id = $3`, m.ID, id, m.SpoolID))
			}
			continue
		}
		grams := m.used
		if m.Weighed { // the weights of the spool take precedence over the recorded weight
			grams = nil
			for _, sent := range e.grams {
				if sent.material == m.ID {
					grams = sent.grams
				}
			}
		}
		row := map[string]any{"id": m.ID, "grams": grams, "reported": m.reported, "spool_id": m.SpoolID,
			"moved": m.moved, "unweighed": m.unweighed, "repriced": m.repriced, "price": m.price}
		if m.Counted > 0 {
			row["counted"], row["corrections"] = m.Counted, m.Corrections
		}
		rows = append(rows, row)
	}
	if rows != nil {
		// The spool may have been refilled since the run ended.
		const price = `(select spool_price(e.spool_id, coalesce(r.ended_at, 'infinity')) from production_runs r
			where r.id = $1)`
		all = append(all, db.SQL(`
			update run_materials m set spool_id = e.spool_id, actual_reported = e.reported,
				sent_actual_grams = coalesce(e.grams, m.sent_actual_grams),
				spool_weight_before_grams = case when not e.unweighed then m.spool_weight_before_grams end,
				spool_weight_after_grams = case when not e.unweighed then m.spool_weight_after_grams end,
				cost_per_gram = coalesce(case when e.repriced then e.price else m.cost_per_gram end, `+price+`),
				planned_filament = case when e.moved then (select spool_filament(s) from spools s where s.id = e.spool_id)
					else m.planned_filament end,
				counted_grams = e.counted, counted_corrections = e.corrections,
				given_grams = case when $3 then m.given_grams else m.sent_actual_grams end,
				given_cost = case when e.moved then `+price+` when $3 then m.given_cost else m.cost_per_gram end
			from json_to_recordset($2::json) e (id uuid, grams numeric, reported boolean, spool_id uuid, moved boolean,
				unweighed boolean, repriced boolean, price numeric, counted numeric, corrections numeric)
			where m.run_id = $1 and m.id = e.id`, id, db.Recordset(rows), e.changesEnd))
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

// take returns the statement that deducts from the spools, or none. For each spool, the ledger gets these entries in
// this order: use outside of the run that begins to count for it, use that the run deducts, and use outside of the run
// that no longer counts for it.
func take(run, kind string, deductions []SpoolDeduction) []*db.Stmt {
	var all []inventory.Entry
	used := false
	for _, d := range deductions {
		var entries []inventory.Entry
		weight := d.from
		add := func(e inventory.Entry, after value.Decimal) {
			e.ID, e.Spool, e.Before, e.After, weight = value.NewID(), string(d.SpoolID), weight, after, after
			entries = append(entries, e)
		}
		count := func(c counted, sign value.Decimal, reason string) {
			for _, part := range c.parts() {
				e := inventory.Entry{Kind: "deducted", Reason: &reason, CountedRun: run}
				if part.corrected > 0 {
					e.Kind = "edited" // so that reports count the filament once, as use
				}
				after := max(weight+sign*part.grams, 0)
				e.Shortfall = after - weight - sign*part.grams
				add(e, after)
			}
		}
		count(d.counted, 1, language.Sprintf("Counted in production run %s", run))
		if !d.silent {
			used = true
			add(inventory.Entry{Kind: kind, Run: run, Shortfall: d.Shortfall}, d.to)
			if d.kept != 0 {
				last := entries[len(entries)-1]
				balance := inventory.Entry{ID: value.NewID(), Spool: last.Spool, Kind: d.own.Kind, UsedAt: d.own.At,
					Weighing: d.own.ID, Balances: last.ID, Before: d.from - d.kept, After: d.from}
				if d.kept > 0 {
					all = append(all, balance)
				} else {
					balance.Before, balance.After, weight = weight, weight+d.kept, weight+d.kept
					entries = append(entries, balance)
				}
			}
		}
		count(d.released, -1, language.Sprintf("No longer counted in production run %s", run))
		all = append(all, d.weighed.Balance(d.Previous, entries)...)
	}
	if all == nil {
		return nil
	}
	return []*db.Stmt{inventory.Record(used, all)}
}

// parts splits c into the grams that weighing and edits removed and the other grams, in the order of
// inventory.Return.
func (c counted) parts() (parts []counted) {
	for _, part := range []counted{{c.corrected, c.corrected}, {c.grams - c.corrected, 0}} {
		if part.grams > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// finish returns a statement that sets the status of the run and its total use, and sends the event to the webhooks.
// The statement returns completed_at and a second column that callers ignore. It stores null for values that a
// client could not send back.
func (h handlers) finish(
	e *ending, id string, total value.Decimal, event string, hooks []string,
) *db.Stmt {
	emit, args := "null", []any{id, string(e.status), e.reason, e.notes, total.String(), e.CompletedAt.Arg(),
		e.Hours.Arg()}
	if hooks != nil {
		emit, args = h.emit(e), append(args, hooks, event)
	}
	source := ""
	if e.grams != nil {
		source = " usage_source = null,"
	}
	return db.SQL(`
		with ended as materialized (
			select r.id, now.at, t.ended, coalesce($7::numeric, r.actual_print_time_hours,
				plausible_hours($2, r.started_at, t.ended, r.estimated_print_time_hours)) as hours,
				$2 = 'cancelled' and r.started_at is null as unstarted
			from production_runs r
			cross join (select clock_timestamp() as at) now -- see ends
			cross join lateral (
				select case when $6::timestamptz is null then least(coalesce(r.completed_at, r.deducted_at, now.at), now.at)
					else greatest(least($6::timestamptz, now.at), r.started_at) end as ended
			) t
			where r.id = $1
		), cost as materialized (
			select e.id, e.at, e.ended, e.hours, c.*
			from ended e cross join run_cost(e.id, $2, coalesce(e.hours, case when e.unstarted then 0 end)) c
		), work as ( -- so that a correction finds the work on a piece, if that has a price
			update run_items i set labour_minutes = w.labour_minutes
			from cost c
			cross join lateral (
				select u.id, u.alone, w.labour_minutes
				from (
					select distinct i.product_id as id, i.parts_from_stock as alone from run_items i
					where i.run_id = c.id and i.labour_minutes is null
				) u
				cross join estimate_products(array[u.id], array[1::numeric], array[u.alone]) w
			) w
			where $2 = 'completed' and c.labour_hour_cost > 0 and i.run_id = c.id and i.product_id = w.id
				and i.parts_from_stock = w.alone and i.labour_minutes is null and w.labour_minutes <= 999999999
		)
		update production_runs r set`+source+` status = $2, deducted_at = coalesce(r.deducted_at, c.at), updated_at = now(),
			wasted_parts = c.wasted_parts, completed_at = c.ended,
			failure_reason = coalesce($3, r.failure_reason), failure_notes = coalesce($4, r.failure_notes),
			actual_total_filament_grams = case when $5::numeric <= 1000000 then $5::numeric end,
			actual_print_time_hours = c.hours, filament_cost = c.filament, waste_cost = c.waste,
			machine_cost = c.machine, energy_cost = c.energy, labour_cost = c.labour, hour_cost = c.hour_cost,
			power_watts = c.power_watts, energy_kwh_cost = c.energy_kwh_cost, labour_hour_cost = c.labour_hour_cost
		from cost c
		where r.id = $1
		returning r.completed_at, `+emit, args...)
}

// emit returns the SQL expression that sends the event $9 to the webhooks $8.
func (h handlers) emit(e *ending) string {
	more := ""
	if e.changesEnd {
		more = `, 'status', r.status`
	}
	if e.changesEnd || e.status == failed {
		more += `, 'failure_reason', r.failure_reason`
	}
	return `emit_event($8::uuid[], $9, json_build_object(
			'id', r.id, 'started_at', event_time(r.started_at), 'completed_at', event_time(r.completed_at),
			'printer_id', r.printer_id, 'printer_name', r.printer_name,
			'actual_print_time_hours', trim_scale(r.actual_print_time_hours),
			'actual_total_filament_grams', trim_scale(r.actual_total_filament_grams),
			'items', event_items(r.id), 'item_count', event_item_count(r.id),
			'orders', ` + h.orders.Printed("r.id") + more + `))::text`
}

// setTimes returns a statement that sets the times of an ended run to those of a correction, except the times that
// finish sets. If the hours were the time from the start to the end, the statement computes them again.
func (e *ending) setTimes(id string) *db.Stmt {
	return db.SQL(`
		update production_runs r set started_at = case when $2 then $3::timestamptz else r.started_at end,
			completed_at = case when not $4 then r.completed_at end,
			actual_print_time_hours = case when not $5 and r.actual_print_time_hours is distinct from plausible_hours(
				r.status, r.started_at, r.completed_at, r.estimated_print_time_hours) then r.actual_print_time_hours end
		where r.id = $1`, id, e.started.Set, e.started.Arg(), e.CompletedAt.Set && e.CompletedAt.IsNull(), e.Hours.Set)
}
