package orders

import (
	"bytes"
	"encoding/json"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// OrderWarning reports an item of an order that needs a decision, or an effect of a request that users may not expect.
type OrderWarning struct {
	Code        OrderWarningCode `json:"code" rule:"notNull"`
	Detail      string           `json:"detail" rule:"notNull"`
	OrderItemID *value.UUID      `json:"order_item_id"`
	ProductID   value.UUID       `json:"product_id" rule:"notNull"`
	Product     string           `json:"product_name" rule:"notNull"`
	Pieces      int64            `json:"pieces" rule:"notNull"`
}

// OrderWarningCode is the kind of an OrderWarning.
type OrderWarningCode string

// Enum returns all codes. The first two occur only in responses to the requests that cause them.
func (OrderWarningCode) Enum() []string {
	return []string{"PIECES_SHORTFALL", catalog.CountedSince, "DELIVERED_NOT_EARNED", "DELIVERED_MORE",
		"DELIVERED_REPLACED", "PLANNED_MORE"}
}

// itemState is the state of an item on which its warnings depend.
type itemState struct {
	ID                          value.UUID
	ProductID                   value.UUID `json:"product_id"`
	Product                     string     `json:"product_name"`
	Quantity, Produced, Planned int64
	Delivered                   *int64
	Revenue                     *value.Decimal // of the delivered pieces
	Open                        bool           // whether the order is open and the item is not withdrawn
	Earns                       bool
	Replaced                    *string // the new product of the item's line in the shop, if it changed after a delivery
}

func (i itemState) warnings() (all []OrderWarning) {
	warn := func(code OrderWarningCode, pieces int64, format language.Text, args ...any) {
		all = append(all, OrderWarning{code, language.Sprintf(format, args...), &i.ID, i.ProductID, i.Product, pieces})
	}
	delivered := value.OrZero(i.Delivered)
	switch {
	case delivered > 0 && !i.Earns:
		if i.Revenue == nil {
			warn("DELIVERED_NOT_EARNED", delivered, "The customer has got %d of %s, which have a cost but no longer earn "+
				"revenue; close the order with what was delivered instead", delivered, i.Product)
			break
		}
		warn("DELIVERED_NOT_EARNED", delivered, "The customer has got %d of %s, which have a cost but no longer earn "+
			"revenue (%s in all); close the order with what was delivered instead", delivered, i.Product, i.Revenue)
	case delivered > i.Quantity:
		warn("DELIVERED_MORE", delivered-i.Quantity, "The customer has got %d of %s, but only %d are ordered now",
			delivered, i.Product, i.Quantity)
	}
	if i.Replaced != nil && i.Earns {
		warn("DELIVERED_REPLACED", delivered, "The customer has got %d of %s, but the shop has since replaced it by "+
			"%s; the order keeps %s", delivered, i.Product, *i.Replaced, i.Product)
	}
	needed := int64(0)
	if i.Open {
		needed = max(i.Quantity-max(i.Produced, delivered), 0)
	}
	if i.Planned > needed {
		warn("PLANNED_MORE", i.Planned-needed, "Unfinished runs print %d of %s, but the order needs %d",
			i.Planned, i.Product, needed)
	}
	return all
}

// countedSince reads the products whose pieces the transaction has changed as of a time before their last count.
type countedSince struct {
	stmt *db.Stmt
	list string
}

func newCountedSince(order string) *countedSince {
	c := &countedSince{}
	c.stmt = catalog.Balanced(order).Into(&c.list)
	return c
}

func (c *countedSince) warnings() (all []OrderWarning) {
	for _, b := range catalog.Balances(c.list) {
		all = append(all, OrderWarning{catalog.CountedSince, b.Detail(), nil, b.ProductID, b.Product, b.Pieces})
	}
	return all
}

// answer returns the order that a statement of selectOrder has read, with additional warnings. It returns err if that
// is not nil.
func answer(order *db.Stmt, err error, more ...OrderWarning) ([]byte, error) {
	if err := server.Found(order, err); err != nil {
		return nil, err
	}
	fields := order.Object()
	if len(more) == 0 && bytes.Contains(fields, []byte(`"warnings":[]`)) {
		return fields, nil
	}
	var o struct{ Warnings json.RawMessage }
	if err := json.Unmarshal(fields, &o); err != nil {
		return nil, err
	}
	var items []itemState
	if err := json.Unmarshal(o.Warnings, &items); err != nil {
		return nil, err
	}
	for _, i := range items {
		more = append(more, i.warnings()...)
	}
	list := []byte("[]")
	if len(more) > 0 {
		if list, err = json.Marshal(more); err != nil {
			return nil, err
		}
	}
	const name = `"warnings":`
	return bytes.Replace(fields, append([]byte(name), o.Warnings...), append([]byte(name), list...), 1), nil
}
