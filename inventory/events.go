package inventory

import (
	"reflect"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// Events are the events of spools, for the OpenAPI document.
var Events = webhooks.Declare(server.Event{
	Type: "spool.empty", Tag: SpoolsTag, Summary: "A spool became empty",
	Description: "Sent when the remaining weight of a spool becomes 0: by a deduction, a run, a printer, a scale " +
		"or an edit.",
	Data: reflect.TypeFor[SpoolEmpty](),
})

// SpoolEmpty is the data of a spool.empty.
type SpoolEmpty struct {
	ID           value.UUID   `json:"id" rule:"notNull"`
	Number       int64        `json:"number" rule:"notNull"`
	MaterialType MaterialType `json:"material_type" rule:"notNull"`
	MaterialName string       `json:"material_name"`
	Color        string       `json:"color" rule:"notNull"`
	Brand        string       `json:"brand"`
	Location     string       `json:"location"`
}
