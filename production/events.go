package production

import (
	"embed"
	"reflect"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of production runs. The package spoolman calls report_printed.
var Definitions = db.Definitions("production", functions, "events", "costs", "queue", "reports", "lot", "history", "usage")

// Events are the events of production runs, for the OpenAPI document.
var Events = webhooks.Declare(server.Event{
	Type: "printer.attention", Tag: watchTag, Summary: "A watched printer needs a person",
	Description: "Sent when the state of a printer becomes `attention`.", Data: reflect.TypeFor[PrinterEvent](),
}, server.Event{
	Type: "printer.offline", Tag: watchTag, Summary: "A watched printer cannot be reached",
	Description: "Sent when the state of a printer becomes `offline`.", Data: reflect.TypeFor[PrinterEvent](),
}, server.Event{
	Type: "production_run.planned", Tag: Tag, Summary: "A production run was planned",
	Description: "Sent for each run that `planOrder` or `createPlan` creates.",
	Data:        reflect.TypeFor[RunPlanned](),
}, server.Event{
	Type: "production_run.started", Tag: Tag, Summary: "A production run was started",
	Description: "Sent when a run gets the status `in_progress`, also when it is created with that status. A paused " +
		"run that continues sends no event.",
	Data: reflect.TypeFor[RunStarted](),
}, server.Event{
	Type: "production_run.completed", Tag: Tag, Summary: "A production run was completed",
	Description: "Sent when `completeProductionRun` deducts the filament of the run.",
	Data:        reflect.TypeFor[RunCompleted](),
}, server.Event{
	Type: "production_run.failed", Tag: Tag, Summary: "A production run failed",
	Description: "Sent when `failProductionRun` ends the run. A cancelled run sends no event.",
	Data:        reflect.TypeFor[RunFailed](),
}, server.Event{
	Type: "production_run.corrected", Tag: Tag, Summary: "The end of a production run was corrected",
	Description: "Sent when `correctProductionRun`, or an update of times or hours, changes a run that has ended. The " +
		"data describe the corrected run.",
	Data: reflect.TypeFor[RunCorrected](),
}, server.Event{
	Type: "production_run.reopened", Tag: Tag, Summary: "A production run prints again",
	Description: "Sent when `reopenProductionRun` reverses the end of a run. There is no `production_run.started` then.",
	Data:        reflect.TypeFor[RunReopened](),
})

// PrinterEvent is the data of a printer.attention and a printer.offline.
type PrinterEvent struct {
	ID          value.UUID `json:"id" rule:"notNull"`
	PrinterName string     `json:"printer_name" rule:"notNull"`
	Message     string     `json:"message"`
	Code        string     `json:"code"`
	File        string     `json:"file"`
	RunID       value.UUID `json:"run_id"`
}

// RunPlanned is the data of a production_run.planned.
type RunPlanned struct {
	ID             value.UUID    `json:"id" rule:"notNull"`
	PrinterID      value.UUID    `json:"printer_id" rule:"notNull"`
	PrinterName    string        `json:"printer_name" rule:"notNull"`
	EstimatedHours value.Decimal `json:"estimated_print_time_hours"`
	EstimatedGrams value.Decimal `json:"estimated_total_filament_grams"`
	PrintedItems
}

// PrintedItems has the first three items of a run in an event, and the number of all items.
type PrintedItems struct {
	Items     []ListedItem `json:"items" rule:"notNull"`
	ItemCount int64        `json:"item_count" rule:"notNull"`
}

// RunStarted is the data of a production_run.started.
type RunStarted struct {
	ID          value.UUID      `json:"id" rule:"notNull"`
	PrinterID   value.UUID      `json:"printer_id"`
	PrinterName string          `json:"printer_name"`
	StartedAt   value.Timestamp `json:"started_at"`
	PrintedItems
}

// RunCompleted is the data of a production_run.completed.
type RunCompleted struct {
	ID          value.UUID      `json:"id" rule:"notNull"`
	PrinterID   value.UUID      `json:"printer_id"`
	PrinterName string          `json:"printer_name"`
	StartedAt   value.Timestamp `json:"started_at"`
	CompletedAt value.Timestamp `json:"completed_at" rule:"notNull"`
	ActualHours value.Decimal   `json:"actual_print_time_hours"`
	ActualGrams value.Decimal   `json:"actual_total_filament_grams"`
	PrintedItems
	Orders []PrintedOrder `json:"orders" rule:"notNull"`
}

// PrintedOrder is an order that a run printed items of.
type PrintedOrder struct {
	ID value.UUID `json:"id" rule:"notNull"`
}

// RunFailed is the data of a production_run.failed.
type RunFailed struct {
	RunCompleted
	FailureReason FailureReason `json:"failure_reason" rule:"notNull"`
}

// RunCorrected is the data of a production_run.corrected.
type RunCorrected struct {
	RunCompleted
	Status        RunStatus     `json:"status" rule:"notNull"`
	FailureReason FailureReason `json:"failure_reason"`
}

// RunReopened is the data of a production_run.reopened.
type RunReopened struct {
	ID          value.UUID      `json:"id" rule:"notNull"`
	Status      RunStatus       `json:"status" rule:"notNull"`
	PrinterID   value.UUID      `json:"printer_id"`
	PrinterName string          `json:"printer_name"`
	StartedAt   value.Timestamp `json:"started_at"`
	PrintedItems
	Orders []PrintedOrder `json:"orders" rule:"notNull"`
}
