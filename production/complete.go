package production

import (
	"context"
	_ "embed"
	"fmt"
	"reflect"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/webhooks"
)

var (
	//go:embed events.sql
	eventsSQL string
	//go:embed costs.sql
	costsSQL string
	//go:embed queue.sql
	queueSQL string
)

// Definitions are the SQL functions of production runs.
var Definitions = []db.Definition{
	{Name: "production/events", Version: 1, SQL: eventsSQL},
	{Name: "production/costs", Version: 1, SQL: costsSQL},
	{Name: "production/queue", Version: 1, SQL: queueSQL},
}

// Events are the events of production runs, for the OpenAPI document.
var Events = webhooks.Declare(server.Event{
	Type: "production_run.planned", Tag: tag, Summary: "A production run was planned",
	Description: "Sent for each run that `planOrder` or `createPlan` has created.",
	Data:        reflect.TypeFor[RunPlanned](),
}, server.Event{
	Type: "production_run.started", Tag: tag, Summary: "A production run was started",
	Description: "Sent when a run gets the status `in_progress`, also when it is created with it. A paused run that " +
		"continues has no event.",
	Data: reflect.TypeFor[RunStarted](),
}, server.Event{
	Type: "production_run.completed", Tag: tag, Summary: "A production run was completed",
	Description: "Sent when `completeProductionRun` has deducted the filament of the run.",
	Data:        reflect.TypeFor[RunCompleted](),
}, server.Event{
	Type: "production_run.failed", Tag: tag, Summary: "A production run failed",
	Description: "Sent when `failProductionRun` has ended the run. A cancelled run has no event.",
	Data:        reflect.TypeFor[RunFailed](),
})

// RunPlanned is the data of a production_run.planned.
type RunPlanned struct {
	ID             server.UUID    `json:"id" rule:"notNull"`
	PrinterID      server.UUID    `json:"printer_id" rule:"notNull"`
	PrinterName    string         `json:"printer_name" rule:"notNull"`
	EstimatedHours server.Decimal `json:"estimated_print_time_hours"`
	EstimatedGrams server.Decimal `json:"estimated_total_filament_grams"`
}

// RunStarted is the data of a production_run.started.
type RunStarted struct {
	ID          server.UUID      `json:"id" rule:"notNull"`
	PrinterID   server.UUID      `json:"printer_id"`
	PrinterName string           `json:"printer_name"`
	StartedAt   server.Timestamp `json:"started_at"`
}

// RunCompleted is the data of a production_run.completed.
type RunCompleted struct {
	ID          server.UUID      `json:"id" rule:"notNull"`
	PrinterID   server.UUID      `json:"printer_id"`
	PrinterName string           `json:"printer_name"`
	StartedAt   server.Timestamp `json:"started_at"`
	CompletedAt server.Timestamp `json:"completed_at" rule:"notNull"`
	ActualHours server.Decimal   `json:"actual_print_time_hours"`
	ActualGrams server.Decimal   `json:"actual_total_filament_grams"`
	Orders      []PrintedOrder   `json:"orders" rule:"notNull"`
}

// PrintedOrder is an order that a run printed items of.
type PrintedOrder struct {
	ID server.UUID `json:"id" rule:"notNull"`
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
