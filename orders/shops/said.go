package shops

import (
	"math/big"
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
// result does not depend on how often each came, nor on their order, except for messages of the same time.
type said struct {
	Updated time.Time         `json:"updated"` // when the shop last changed Order
	Order   *order            `json:"order,omitempty"`
	Refunds map[string]refund `json:"refunds,omitempty"` // by their ids in the shop; they are never taken back
	Wanted  bool              `json:"wanted,omitempty"`  // whether there was once something to print
	Filled  bool              `json:"filled,omitempty"`  // whether the order once had lines
	Deleted time.Time         `json:"deleted"`           // when the last message that the order was deleted came

	// The deliveries of these messages. Such a message has no time, so that one that comes again would be newer.
	Deletions []string `json:"deletions,omitempty"`

	// The messages about the order that have the time Updated. One that comes again says nothing new.
	Same []string `json:"same,omitempty"`
}

// order is an order in the shop. It has only what production needs.
type order struct {
	Reference string `json:"reference"`
	Customer  string `json:"customer,omitempty"`
	Due       string `json:"due,omitempty"`
	Note      string `json:"note,omitempty"`
	Currency  string `json:"currency,omitempty"`
	Included  *bool  `json:"prices_include_tax,omitempty"` // nil if the shop does not say it
	Waiting   bool   `json:"waiting,omitempty"`            // for its payment
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
	Amount   string `json:"amount,omitempty"` // what Priced units cost after discounts; "" if it is unknown
	Tax      string `json:"tax,omitempty"`    // of Amount; "" if it is unknown
	Priced   int64  `json:"priced,omitempty"`
	Shipped  int64  `json:"shipped,omitempty"` // of the quantity, before it was here: these are not printed
	Bundle   string `json:"bundle,omitempty"`  // the line of which it is a part
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

// maxSame is how many messages of the same time are told apart.
const maxSame = 100

// merge adds what a message says.
func (s *said) merge(m said) {
	s.Filled = s.Filled || m.Filled || s.Order.isFilled() || m.Order.isFilled()
	if m.Order != nil {
		wanted := s.Wanted || m.Order.isWanted()
		if s.takes(m) {
			m.Order.keepOpen(s.Order, s.Wanted)
			s.Order, s.Updated = m.Order, m.Updated
		} else {
			s.Order.keepOpen(m.Order, m.Order.isWanted())
		}
		s.Wanted = wanted
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

// isWanted reports whether there is something to print: the order is paid, not cancelled, and not shipped.
func (o *order) isWanted() bool {
	return !o.Waiting && !o.Cancelled && (len(o.Lines) == 0 || slices.ContainsFunc(o.Lines, line.isOpen))
}

func (l line) isOpen() bool { return l.Shipped == 0 || l.Shipped < l.Quantity }

// allOf is what is shipped of a quantity, if all of it is: at least 1.
func allOf(quantity int64) int64 { return max(quantity, 1) }

// isShipped reports whether a part of the order was shipped before it was here.
func (o *order) isShipped() bool {
	return slices.ContainsFunc(o.Lines, func(l line) bool { return l.Shipped > 0 })
}

// keepOpen says of the pieces that are open in another version of the order that they were not shipped before they were
// here. If there was nothing to print in that version, it says nothing about them.
func (o *order) keepOpen(other *order, wanted bool) {
	if other == nil || !wanted {
		return
	}
	shipped := map[string]int64{}
	for _, l := range other.Lines {
		shipped[l.ID] = l.Shipped
	}
	for i := range o.Lines {
		if n, ok := shipped[o.Lines[i].ID]; ok {
			o.Lines[i].Shipped = min(o.Lines[i].Shipped, n)
		}
	}
}

// takeOver says that the order was here before the first message about it.
func (s *said) takeOver() {
	s.Wanted = true
	for i := range s.Order.Lines {
		s.Order.Lines[i].Shipped = 0
	}
}

// takes reports whether the order of a message is newer than that in s, and remembers the message. Shops count whole
// seconds, and WooCommerce can change lines without changing the time of the order: of two orders of the same time,
// one that is cancelled, and then one that is paid, is newer, and otherwise the one that came later, unless it has
// come before.
func (s *said) takes(m said) bool {
	switch {
	case s.Order == nil || m.Updated.After(s.Updated):
		s.Same = m.Same
		return true
	case m.Updated.Before(s.Updated) || slices.ContainsFunc(m.Same, s.knows):
		return false
	}
	s.Same = append(s.Same, m.Same...)
	s.Same = s.Same[max(0, len(s.Same)-maxSame):]
	return m.Order.rank() >= s.Order.rank()
}

func (s *said) knows(message string) bool { return slices.Contains(s.Same, message) }

func (o *order) rank() int {
	switch {
	case o.Cancelled:
		return 2
	case o.Waiting:
		return 0
	}
	return 1
}

// bundles returns which lines of the incoming order have parts that are lines too.
func (o *order) bundles(in *orders.Incoming) (bundles []orders.IncomingLine) {
	for _, l := range in.Lines {
		if slices.ContainsFunc(o.Lines, func(part line) bool { return part.Bundle == l.Key }) {
			bundles = append(bundles, l)
		}
	}
	return bundles
}

// joinParts leaves out the parts of bundles that are products here. The price of such a bundle is that of all its
// parts too. The parts of other bundles are printed.
func (o *order) joinParts(in *orders.Incoming, products map[string]bool) {
	at, total, taxes := map[string]int{}, map[string]*big.Rat{}, map[string]*big.Rat{}
	join := func(bundle string, l line) {
		total[bundle] = add(total[bundle], amount(l.Amount))
		taxes[bundle] = add(taxes[bundle], amount(l.Tax))
	}
	for i, l := range o.Lines {
		at[l.ID] = i
		if products[l.ID] {
			join(l.ID, l)
		} else if products[l.Bundle] {
			in.Lines[i].Quantity = 0
			join(l.Bundle, l)
		}
	}
	for id, sum := range total {
		bundle, now := o.Lines[at[id]], &in.Lines[at[id]]
		bundle.setPrice(nil, sum, nil, taxes[id])
		now.LinePrice, now.TaxAmount, now.Priced = bundle.Amount, bundle.Tax, bundle.Priced
	}
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
		Currency: s.Order.Currency, Included: s.Order.Included,
		Cancelled: s.Order.Cancelled || s.Deleted.After(s.Updated)}
	left := int64(0)
	for _, l := range s.Order.Lines {
		n := l.Quantity - refunded[l.ID]
		if l.Left >= 0 {
			n = min(n, l.Left)
		}
		n = max(0, n-l.Shipped)
		left += n
		in.Lines = append(in.Lines, orders.IncomingLine{Key: l.ID, Title: l.Title, SKU: l.SKU, Quantity: n,
			LinePrice: l.Amount, TaxAmount: l.Tax, Priced: l.Priced})
	}
	if left == 0 && (s.Filled || len(in.Lines) > 0) {
		in.Cancelled = true
	}
	return &in
}
