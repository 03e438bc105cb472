package shops

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"spoolwright/orders"
)

// message is what one message of a shop says about an order.
type message struct {
	order string // the id of the order in the shop
	said
}

// said is what all messages of a shop together say about an order. It is stored as JSON. merge adds a message; the
// result does not depend on the order of the messages, nor on how often each came.
type said struct {
	Updated time.Time         `json:"updated"` // when the shop last changed Order
	Order   *order            `json:"order,omitempty"`
	Refunds map[string]refund `json:"refunds,omitempty"` // by their ids in the shop; they are never taken back
	Wanted  bool              `json:"wanted,omitempty"`  // whether the order was once neither waiting nor cancelled
	Filled  bool              `json:"filled,omitempty"`  // whether the order once had lines
	Deleted time.Time         `json:"deleted"`           // when the last message that the order was deleted came

	// The deliveries of these messages. Such a message has no time, so that one that comes again would be newer.
	Deletions []string `json:"deletions,omitempty"`
}

// order is an order in the shop. It has only what production needs.
type order struct {
	Reference string `json:"reference"`
	Customer  string `json:"customer,omitempty"`
	Due       string `json:"due,omitempty"`
	Note      string `json:"note,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"` // for its payment
	Cancelled bool   `json:"cancelled,omitempty"`
	Lines     []line `json:"lines,omitempty"`
}

// line is a line of an order. Left is the quantity without what was removed or refunded, if the shop says so, or -1.
type line struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	SKU      string `json:"sku,omitempty"`
	Quantity int64  `json:"quantity"`
	Left     int64  `json:"left"`
	Price    string `json:"price,omitempty"`
}

// refund is a quantity of a line that was refunded.
type refund struct {
	Line     string `json:"line"`
	Quantity int64  `json:"quantity"`
}

// maxRefunds is the maximum number of refunds of an order.
const maxRefunds = 4 * maxLines

// maxDeletions is the maximum number of messages that an order was deleted.
const maxDeletions = 100

// merge adds what a message says.
func (s *said) merge(m said) {
	s.Filled = s.Filled || m.Filled || s.Order.isFilled() || m.Order.isFilled()
	if m.Order != nil {
		if s.Order == nil || m.isNewer(*s) {
			s.Order, s.Updated = m.Order, m.Updated
		}
		s.Wanted = s.Wanted || !m.Order.Waiting && !m.Order.Cancelled
	}
	s.Wanted = s.Wanted || m.Wanted
	for id, r := range m.Refunds {
		if s.Refunds == nil {
			s.Refunds = map[string]refund{}
		}
		if old, ok := s.Refunds[id]; !ok && len(s.Refunds) < maxRefunds || ok && r.Quantity > old.Quantity {
			s.Refunds[id] = r
		}
	}
	for _, delivery := range m.Deletions {
		if slices.Contains(s.Deletions, delivery) || len(s.Deletions) >= maxDeletions {
			continue
		}
		s.Deletions = append(s.Deletions, delivery)
		if m.Deleted.After(s.Deleted) {
			s.Deleted = m.Deleted
		}
	}
}

func (o *order) isFilled() bool { return o != nil && len(o.Lines) > 0 }

// isNewer reports whether the order in s is newer than that in other. Shops count whole seconds: of two orders of the
// same time, one that is cancelled, and then one that is paid, is newer, and otherwise either, but always the same
// one.
func (s said) isNewer(other said) bool {
	if !s.Updated.Equal(other.Updated) {
		return s.Updated.After(other.Updated)
	}
	if s.Order.rank() != other.Order.rank() {
		return s.Order.rank() > other.Order.rank()
	}
	a, _ := json.Marshal(s.Order)
	b, _ := json.Marshal(other.Order)
	return bytes.Compare(a, b) > 0
}

func (o *order) rank() int {
	switch {
	case o.Cancelled:
		return 2
	case o.Waiting:
		return 0
	}
	return 1
}

// incoming returns the order as it should be here, or nil if there is nothing to print yet: the shop has not said what
// it is, or waits for the payment. An order of which nothing is left is cancelled.
func (s said) incoming(source string) *orders.Incoming {
	if s.Order == nil || !s.Wanted {
		return nil
	}
	refunded := map[string]int64{}
	for _, r := range s.Refunds {
		refunded[r.Line] += r.Quantity
	}
	in := orders.Incoming{Source: source, Reference: s.Order.Reference, Customer: s.Order.Customer,
		DueDate: s.Order.Due, Notes: s.Order.Note,
		Cancelled: s.Order.Cancelled || s.Deleted.After(s.Updated)}
	left := int64(0)
	for _, l := range s.Order.Lines {
		n := l.Quantity - refunded[l.ID]
		if l.Left >= 0 {
			n = min(n, l.Left)
		}
		n = max(0, n)
		left += n
		in.Lines = append(in.Lines, orders.IncomingLine{Key: l.ID, Title: l.Title, SKU: l.SKU, Quantity: n,
			UnitPrice: l.Price})
	}
	if left == 0 && (s.Filled || len(in.Lines) > 0) {
		in.Cancelled = true
	}
	return &in
}
