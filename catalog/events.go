package catalog

import (
	"reflect"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// Events are the events of products, for the OpenAPI document.
var Events = webhooks.Declare(server.Event{
	Type: "product.cost_changed", Tag: Tag, Summary: "The cost of a product changed",
	Description: "Sent for each product whose `total_cost` changed: when it was recalculated, or when its materials " +
		"or components, or the cost of a component, changed. A new product causes no event.",
	Data: reflect.TypeFor[CostChanged](),
})

// CostChanged is the data of a product.cost_changed.
type CostChanged struct {
	ID            value.UUID    `json:"id" rule:"notNull"`
	SKU           string        `json:"sku"`
	Name          string        `json:"name" rule:"notNull"`
	TotalCost     value.Decimal `json:"total_cost" rule:"notNull"`
	PreviousCost  value.Decimal `json:"previous_total_cost" rule:"notNull"`
	CostsComplete bool          `json:"costs_complete" rule:"notNull"`
}
