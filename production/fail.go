package production

import (
	"context"
	"fmt"

	"spoolwright/server"
	"spoolwright/value"
)

// FailureReason is the reason why a run or its pieces failed, or why the run was cancelled.
type FailureReason string

// Enum returns all reasons.
func (FailureReason) Enum() []string {
	return []string{"adhesion", "spaghetti", "layer_shift", "clog", "under_extrusion", "over_extrusion", "warping",
		"stringing", "filament_runout", "power_failure", "printer_error", "operator_error", "quality", "other"}
}

// FailRequest is the body of fail.
type FailRequest struct {
	Reason value.Optional[FailureReason] `json:"reason" rule:"required"`
	Notes  value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Waste
	EndTime
}

// CancelRequest is the body of cancel.
type CancelRequest struct {
	Reason value.Optional[FailureReason] `json:"reason"`
	Notes  value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Waste
	EndTime
}

// Waste is the filament that a run wasted: a weight for each material, or one weight if the run has one material.
type Waste struct {
	Materials []WastedMaterial              `json:"materials"`
	Wasted    value.Optional[value.Decimal] `json:"wasted_grams" rule:"maximum=1000000"`
}

// WastedMaterial is the weight that a material wasted.
type WastedMaterial struct {
	MaterialName
	Wasted       value.Optional[value.Decimal] `json:"wasted_grams" rule:"maximum=1000000"`
	CountOutside value.Optional[bool]          `json:"count_outside_use"`
}

// Check reports a material without anything to record.
func (m *WastedMaterial) Check(problems *server.Problems) {
	if m.Wasted.IsNull() && !m.CountOutside.Or(false) {
		problems.Add("wasted_grams", "is required without count_outside_use")
	}
}

// Check reports materials next to a weight of the whole run.
func (w *Waste) Check(problems *server.Problems) {
	if !w.Wasted.IsNull() && len(w.Materials) > 0 {
		problems.Add("wasted_grams", "must not be sent with materials")
	}
}

// End is the response to fail and cancel.
type End struct {
	ID               value.UUID       `json:"id" rule:"notNull"`
	Status           string           `json:"status" rule:"notNull,enum=failed|cancelled"`
	CompletedAt      value.Timestamp  `json:"completed_at" rule:"notNull"`
	InventoryUpdated bool             `json:"inventory_updated" rule:"notNull"`
	SpoolsUpdated    []SpoolDeduction `json:"spools_updated"`
	Warnings         []EndWarning     `json:"warnings" rule:"notNull"`
}

var errClosed = server.BadRequest("RUN_NOT_OPEN",
	"The run has failed, was cancelled, or has another final status; it cannot be ended again")

const endRules = " adds an entry of the kind `wasted` to each spool's usage ledger, all or nothing. `complete`, " +
	"`fail` and `cancel` together end a run only once: later requests return `RUN_ALREADY_COMPLETED` after " +
	"`complete`, else `RUN_NOT_OPEN`.\n\n" +
	"The wasted grams of a material are the difference of both weights of its spool, if they are recorded, else " +
	"`wasted_grams`, else its `actual_weight_grams`, else the grams that printers reported for the run " +
	"(`reported_grams`), else 0. Reported grams have left the spool already, and are not deducted again. Instead of " +
	"its `id`, `spool_id` or `spool_number` name a material if no other one of the run has the spool. For a run of one " +
	"material, the request may have `wasted_grams` without `materials`.\n\n" + endWarnings + "\n\n" +
	"Sets `status`, `completed_at`, `actual_total_filament_grams` and `actual_print_time_hours` as " +
	"`completeProductionRun` does, `inventory_updated`, and `failure_reason` and `failure_notes` to `reason` and " +
	"`notes`, if they are sent. The costs of the run are those of this moment. Later, `correctProductionRun` and " +
	"`reopenProductionRun` can change all of this.\n\n" + endTimes + "\n\n"

var failDoc = &server.Doc{
	ID: "failProductionRun", Tag: Tag, Summary: "Record that a run failed, and the filament it wasted",
	Description: "Deducts the filament that the failed print wasted from the spools, and" + endRules +
		"A run whose status was set to `failed` by an update can still be ended by this operation; one with the " +
		"status `completed` or `cancelled` cannot.",
	Errors: []*server.Error{errClosed, errNotInRun, errDeducted},
}

var cancelDoc = &server.Doc{
	ID: "cancelProductionRun", Tag: Tag, Summary: "Cancel a run, and record the filament it wasted",
	Description: "Deducts the filament that the run used until it was cancelled from the spools, and" + endRules +
		"The body may be empty. A run whose status was set to `cancelled` by an update can still be ended by this " +
		"operation; one with the status `completed` or `failed` cannot.",
	Errors: []*server.Error{errClosed, errNotInRun, errDeducted},
}

func (h handlers) fail(ctx context.Context, r *server.Request[FailRequest]) (server.OK[End], error) {
	return h.waste(ctx, r.ID("id"), failed, r.In.Reason.Arg(), r.In.Notes.Arg(), r.In.Waste, r.In.EndTime)
}

func (h handlers) cancel(ctx context.Context, r *server.Request[CancelRequest]) (server.OK[End], error) {
	return h.waste(ctx, r.ID("id"), cancelled, r.In.Reason.Arg(), r.In.Notes.Arg(), r.In.Waste,
		r.In.EndTime)
}

// waste ends a run with the status failed or cancelled.
func (h handlers) waste(
	ctx context.Context, id string, status RunStatus, reason, notes any, w Waste, t EndTime,
) (server.OK[End], error) {
	e := ending{status: status, kind: "wasted", closed: errClosed, reason: reason, notes: notes, EndTime: t}
	if e.why = notes; notes == nil {
		e.why = reason
	}
	for i, m := range w.Materials {
		e.grams = append(e.grams, sentGrams{MaterialName: m.MaterialName,
			field: fmt.Sprintf("materials[%d].wasted_grams", i), grams: m.Wasted.Value,
			outside: m.CountOutside.Or(false)})
	}
	if !w.Wasted.IsNull() {
		e.grams = append(e.grams, sentGrams{field: "wasted_grams", grams: w.Wasted.Value})
	}
	return h.end(ctx, id, &e)
}
