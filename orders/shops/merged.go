package shops

import (
	"math/big"
	"slices"
	"time"

	"spoolwright/orders"
)

// message is a message of a shop about an order.
type message struct {
	order string // the id of the order in the shop
	merged
}

// merged is the state of an order in a shop, merged from all messages about it. It is stored as JSON, in the column
// merged. The result does not depend on repetitions of messages, nor on their order, except for messages with the same
// time.
type merged struct {
	Updated time.Time         `json:"updated"` // when the shop last changed Order
	Order   *order            `json:"order,omitempty"`
	Refunds map[string]refund `json:"refunds,omitempty"` // by their ids in the shop; a refund is final
	Wanted  bool              `json:"wanted,omitempty"`  // whether there was ever something to print
	Filled  bool              `json:"filled,omitempty"`  // whether the order ever had lines
	Deleted time.Time         `json:"deleted"`           // when the last message about the deletion came

	// The deliveries of messages about the deletion. These messages have no time, so a repeated one would seem newer.
	Deletions []string `json:"deletions,omitempty"`

	// The messages with the time Updated. Repetitions of these are ignored.
	Same []string `json:"same,omitempty"`
}

// order is an order in the shop. It has only what production needs.
type order struct {
	Reference string `json:"reference"`
	Customer  string `json:"customer,omitempty"`
	Due       string `json:"due,omitempty"`
	Note      string `json:"note,omitempty"`
	Carrier   string `json:"carrier,omitempty"`
	Tracking  string `json:"tracking,omitempty"`
	Currency  string `json:"currency,omitempty"`
	Included  *bool  `json:"prices_include_tax,omitempty"` // nil if the shop does not send it
	Waiting   bool   `json:"waiting,omitempty"`            // for its payment
	Cancelled bool   `json:"cancelled,omitempty"`
	Lines     []line `json:"lines,omitempty"`
}

// line is a line of an order. Left is the quantity less removed and refunded units, or -1 if the shop does not send
// it.
type line struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	SKU      string `json:"sku,omitempty"`
	Quantity int64  `json:"quantity"`
	Left     int64  `json:"left"`
	Amount   string `json:"amount,omitempty"` // the price of Priced units after discounts; "" if it is unknown
	Tax      string `json:"tax,omitempty"`    // of Amount; "" if it is unknown
	Priced   int64  `json:"priced,omitempty"`
	Shipped  int64  `json:"shipped,omitempty"` // units that were shipped before the order came here; they are not printed
	Bundle   string `json:"bundle,omitempty"`  // the line of the bundle that contains it
}

// refund is a quantity of a line that was refunded.
type refund struct {
	Line     string `json:"line"`
	Quantity int64  `json:"quantity"`
}

// maxRefunds is the maximum number of refunds of an order.
const maxRefunds = 4 * maxLines

// maxDeletions is the maximum number of messages about the deletion of an order.
const maxDeletions = 100

// maxSame is the maximum number of messages with the same time that are remembered.
const maxSame = 100

// merge adds a message.
func (s *merged) merge(m merged) {
	s.Filled = s.Filled || m.Filled || s.Order.isFilled() || m.Order.isFilled()
	if m.Order != nil {
		wanted := s.Wanted || m.Order.isWanted()
		if s.isNewer(m) {
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

// allOf returns the number of shipped units if all of a quantity is shipped: at least 1.
func allOf(quantity int64) int64 { return max(quantity, 1) }

// isShipped reports whether a part of the order was shipped before it came here.
func (o *order) isShipped() bool {
	return slices.ContainsFunc(o.Lines, func(l line) bool { return l.Shipped > 0 })
}

// keepOpen treats units that are open in another version of the order as not shipped before they came here. If that
// version has nothing to print, keepOpen changes nothing.
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

// takeOver marks the order as one that existed here before the first message about it.
func (s *merged) takeOver() {
	s.Wanted = true
	for i := range s.Order.Lines {
		s.Order.Lines[i].Shipped = 0
	}
}

// isNewer reports whether the order of a message is newer than that in s, and remembers the message. Times of shops
// are in whole seconds, and WooCommerce can change lines without changing the time of the order. Of two orders with
// the same time, a canceled one counts as newer, then a paid one, then the one that came later, unless it is a
// repetition.
func (s *merged) isNewer(m merged) bool {
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

func (s *merged) knows(message string) bool { return slices.Contains(s.Same, message) }

func (o *order) rank() int {
	switch {
	case o.Cancelled:
		return 2
	case o.Waiting:
		return 0
	}
	return 1
}

// bundles returns the lines of the incoming order that have other lines as parts.
func (o *order) bundles(in *orders.Incoming) (bundles []orders.IncomingLine) {
	for _, l := range in.Lines {
		if slices.ContainsFunc(o.Lines, func(part line) bool { return part.Bundle == l.Key }) {
			bundles = append(bundles, l)
		}
	}
	return bundles
}

// joinParts sets the quantities of the parts of a bundle to 0 if the farm has the bundle as a product, and adds their
// prices to its price. The parts of other bundles are printed.
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

// incoming returns the order as the farm should have it, or nil if there is nothing to print yet: the order is not
// known, or not paid. An order with nothing left is canceled.
func (s merged) incoming(source string) *orders.Incoming {
	if s.Order == nil || !s.Wanted {
		return nil
	}
	refunded := map[string]int64{}
	for _, r := range s.Refunds {
		refunded[r.Line] += r.Quantity
	}
	in := orders.Incoming{Source: source, Reference: s.Order.Reference, Customer: s.Order.Customer,
		DueDate: s.Order.Due, Notes: s.Order.Note, Carrier: s.Order.Carrier, Tracking: s.Order.Tracking,
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
