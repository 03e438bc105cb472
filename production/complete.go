package production

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/webhooks"
)

//go:embed complete.sql
var completeSQL string

//go:embed end.sql
var endSQL string

// Definitions are the SQL functions of production runs: complete_run and end_run. They call take_filament of
// inventory and emit_event_to of webhooks.
var Definitions = []db.Definition{
	{Name: "production/end", Version: 1, SQL: endSQL},
	{Name: "production/complete", Version: 1, SQL: completeSQL},
	{Name: "production/fail", Version: 1, SQL: failSQL},
}

// Events are the events of production runs, for the OpenAPI document.
var Events = webhooks.Declare(server.Event{
	Type: "production_run.completed", Tag: tag, Summary: "A production run was completed",
	Description: "Sent when `completeProductionRun` has deducted the filament of the run.",
	Data:        reflect.TypeFor[RunCompleted](),
}, server.Event{
	Type: "production_run.failed", Tag: tag, Summary: "A production run failed",
	Description: "Sent when `failProductionRun` has ended the run. A cancelled run has no event.",
	Data:        reflect.TypeFor[RunFailed](),
})

// RunCompleted is the data of a production_run.completed.
type RunCompleted struct {
	ID          server.UUID      `json:"id" rule:"notNull"`
	PrinterName string           `json:"printer_name"`
	StartedAt   server.Timestamp `json:"started_at"`
	CompletedAt server.Timestamp `json:"completed_at" rule:"notNull"`
	ActualHours server.Decimal   `json:"actual_print_time_hours"`
	ActualGrams server.Decimal   `json:"actual_total_filament_grams"`
}

// RunFailed is the data of a production_run.failed.
type RunFailed struct {
	RunCompleted
	FailureReason FailureReason `json:"failure_reason" rule:"notNull"`
}

// CompleteRequest is the body of complete.
type CompleteRequest struct {
	Materials []CompleteMaterial `json:"materials"`
	Items     []CompleteItem     `json:"items"`
}

// CompleteMaterial is the actual weight of a material.
type CompleteMaterial struct {
	ID           server.Optional[server.UUID]    `json:"id" rule:"required"`
	ActualWeight server.Optional[server.Decimal] `json:"actual_weight_grams" rule:"required,maximum=1000000"`
}

// CompleteItem is the numbers of good and failed pieces of an item, and why pieces failed.
type CompleteItem struct {
	ID                 server.Optional[server.UUID] `json:"id" rule:"required"`
	SuccessfulQuantity server.Optional[int64]       `json:"successful_quantity" rule:"maximum=1000000"`
	FailedQuantity     server.Optional[int64]       `json:"failed_quantity" rule:"maximum=1000000"`

	FailureReason server.Optional[FailureReason] `json:"failure_reason"`
}

// Check reports ids that are in a list twice.
func (r *CompleteRequest) Check(problems *server.Problems) {
	materials := make([]server.Optional[server.UUID], len(r.Materials))
	for i, m := range r.Materials {
		materials[i] = m.ID
	}
	checkOnce("materials", materials, problems)
	items := make([]server.Optional[server.UUID], len(r.Items))
	for i, item := range r.Items {
		items[i] = item.ID
	}
	checkOnce("items", items, problems)
}

// checkOnce reports ids that are in a list twice.
func checkOnce(list string, ids []server.Optional[server.UUID], problems *server.Problems) {
	seen := map[server.UUID]bool{}
	for i, id := range ids {
		if key := id.Or(""); key != "" && seen[key] {
			problems.Add(fmt.Sprintf("%s[%d].id", list, i), "is in the list twice")
		}
		seen[id.Or("")] = true
	}
}

// lists returns the lists as arguments of complete_run.
func (r *CompleteRequest) lists() (materials, items string) {
	weights := make([]map[string]any, len(r.Materials))
	for i, m := range r.Materials {
		weights[i] = map[string]any{"id": m.ID.Arg(), "actual_weight_grams": m.ActualWeight.Arg()}
	}
	pieces := make([]map[string]any, len(r.Items))
	for i, item := range r.Items {
		pieces[i] = map[string]any{"id": item.ID.Arg()}
		if item.SuccessfulQuantity.Set {
			pieces[i]["successful_quantity"] = item.SuccessfulQuantity.Arg()
		}
		if item.FailedQuantity.Set {
			pieces[i]["failed_quantity"] = item.FailedQuantity.Arg()
		}
		if item.FailureReason.Set {
			pieces[i]["failure_reason"] = item.FailureReason.Arg()
		}
	}
	return db.Recordset(weights), db.Recordset(pieces)
}

// Completion is the response to complete.
type Completion struct {
	ID               server.UUID      `json:"id" rule:"notNull"`
	Status           string           `json:"status" rule:"notNull,enum=completed"`
	CompletedAt      server.Timestamp `json:"completed_at" rule:"notNull"`
	InventoryUpdated bool             `json:"inventory_updated" rule:"notNull"`
	SpoolsUpdated    []SpoolDeduction `json:"spools_updated"`
}

// SpoolDeduction is what was deducted from one spool.
type SpoolDeduction struct {
	SpoolID  server.UUID    `json:"spool_id" rule:"notNull"`
	Previous server.Decimal `json:"previous_weight" rule:"notNull"`
	New      server.Decimal `json:"new_weight" rule:"notNull"`
	Deducted server.Decimal `json:"deducted" rule:"notNull"`
}

// The problems of complete_run and end_run, apart from NOT_FOUND, TOO_MANY_PIECES and errClosed.
var (
	errNotInRun = server.BadRequest("UNKNOWN_REFERENCE", "Not in the run: %s", "materials[1].id")

	errDeducted = server.BadRequest("RUN_ALREADY_COMPLETED", "The run was completed before; its filament is deducted")

	errNotOpen = server.BadRequest("RUN_NOT_OPEN",
		"The status of the run is failed or cancelled; such a run cannot be completed")

	errNoMaterials = server.BadRequest("RUN_HAS_NO_MATERIALS",
		"The run has no materials, so there is nothing to deduct")

	errUsageMissing = server.BadRequest("ACTUAL_USAGE_MISSING",
		"Record actual_weight_grams, or spool_weight_before_grams and spool_weight_after_grams, first for: %s",
		"PLA Black (Polymaker) (material 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a53)")

	errInsufficient = server.BadRequest("INSUFFICIENT_FILAMENT",
		"Too little filament is left, or the spool was removed: %s",
		"PLA Black (Polymaker) (spool 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41) has 100 g of the 155 g needed")
)

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
		"filament, so purge is not deducted separately.\n\n" +
		"The body may be empty. It can contain the actual weights of materials and the numbers of pieces of items, " +
		"which are set in the same transaction. As with `updateProductionRunMaterial`, the difference of both weights " +
		"of the spool takes precedence over `actual_weight_grams`. An absent number of pieces keeps its value.",
	Errors: []*server.Error{errNotOpen, errNoMaterials, errNotInRun, errUsageMissing, errInsufficient, errDeducted},
}

func (h handlers) complete(ctx context.Context, r *server.Request[CompleteRequest]) (server.OK[Completion], error) {
	materials, items := r.In.lists()
	var problem *string
	var completedAt *time.Time
	var details []byte
	err := h.db.Write(ctx, db.SQL(`
		select problem, finished_at, details from complete_run($1, $2::jsonb, $3::jsonb)`,
		r.ID("id"), materials, items).Into(&problem, &completedAt, &details), h.follow(r.ID("id")))
	switch {
	case err != nil:
		return nil, itemError(err)
	case problem != nil:
		return nil, completeError(*problem, details)
	}
	return endResponse(r.ID("id"), "completed", *completedAt, details)
}

// completeError returns the error for a problem of complete_run or end_run and its details.
func completeError(problem string, details []byte) error {
	var rows []struct {
		MaterialID string      `json:"material_id"`
		SpoolID    string      `json:"spool_id"`
		SpoolName  string      `json:"spool_name"`
		Remaining  json.Number `json:"remaining"`
		Needed     json.Number `json:"needed"`
		Enough     bool        `json:"enough"`
		List       string      `json:"list"`
		N          int32       `json:"n"`
	}
	if details != nil {
		if err := json.Unmarshal(details, &rows); err != nil {
			return fmt.Errorf("details of the end of a run: %w", err)
		}
	}
	var list []string
	switch problem {
	case "NOT_FOUND":
		return server.ErrNotFound
	case errDeducted.Code:
		return errDeducted
	case errNotOpen.Code:
		return errNotOpen
	case errNoMaterials.Code:
		return errNoMaterials
	case errNotInRun.Code:
		for _, row := range rows {
			list = append(list, server.EntryNames(row.List, []int32{row.N}, "id"))
		}
		return errNotInRun.With(strings.Join(list, ", "))
	case "TOO_MANY_PIECES":
		var problems server.Problems
		for _, row := range rows {
			problems.Add(server.EntryNames(row.List, []int32{row.N}, "successful_quantity"), tooManyPieces)
		}
		return problems.Err()
	case errUsageMissing.Code:
		for _, row := range rows {
			list = append(list, fmt.Sprintf("%s (material %s)", row.SpoolName, row.MaterialID))
		}
		return errUsageMissing.With(strings.Join(list, ", "))
	case errInsufficient.Code:
		for _, row := range rows {
			what := "was removed"
			if !row.Enough {
				what = fmt.Sprintf("has %s g of the %s g needed", row.Remaining, row.Needed)
			}
			list = append(list, fmt.Sprintf("%s (spool %s) %s", row.SpoolName, row.SpoolID, what))
		}
		return errInsufficient.With(strings.Join(list, ", "))
	}
	return fmt.Errorf("the end of a run returned the problem %q", problem)
}
