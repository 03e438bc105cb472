package shops

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spoolwright/orders"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// parse returns the parsed message, or nil if it is not about an order. delivery identifies the message among messages
// with the same body, and is the same if a message is repeated; it can be empty. now is the time at which the message
// came. The error is a 422.
func parse(kind string, body []byte, delivery string, now time.Time) (*message, error) {
	switch kind {
	case "shopify":
		return parseShopify(body)
	case "woocommerce":
		return parseWooCommerce(body, delivery, now)
	}
	return parseGeneric(body)
}

// maxLines is the maximum number of lines of an order.
const maxLines = 500

// clean returns a text that can be stored, without blanks around it and with at most most characters. Control characters
// become blanks, except line breaks if lines is set.
func clean(text string, most int, lines bool) string {
	text = strings.TrimSpace(strings.Map(func(c rune) rune {
		switch {
		case c == '\n' && lines:
			return c
		case unicode.IsControl(c):
			return ' '
		case c == utf8.RuneError, value.IsDirection(c):
			return -1
		}
		return c
	}, text))
	if utf8.RuneCountInString(text) > most {
		text = strings.TrimSpace(string([]rune(text)[:most]))
	}
	return text
}

// cleanTitle returns the title of a line, of at most orders.MaxTitle bytes.
func cleanTitle(text string) string {
	text = clean(text, 1000, false)
	for len(text) > orders.MaxTitle {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return strings.TrimSpace(text)
}

// amount returns an amount that a shop has sent, or nil if it is unknown or out of range.
func amount(text string) *big.Rat {
	d, ok := value.ParseDecimal(text)
	if !ok || d < 0 {
		return nil
	}
	r, _ := new(big.Rat).SetString(d.String())
	return r
}

// add returns the sum of the amounts that are known, or nil.
func add(amounts ...*big.Rat) (sum *big.Rat) {
	for _, a := range amounts {
		if a != nil && sum == nil {
			sum = new(big.Rat)
		}
		if a != nil {
			sum.Add(sum, a)
		}
	}
	return sum
}

// setPrice sets the price of all units of a line: total, or else the price of a unit times the quantity, less a
// discount on all units, and the tax of that. Each argument may be nil. A price that is out of range is unknown.
func (l *line) setPrice(unit, total, discount, tax *big.Rat) {
	l.Priced = max(l.Quantity, 1)
	pieces := big.NewRat(l.Priced, 1)
	if total == nil && unit != nil {
		total = new(big.Rat).Mul(unit, pieces)
	}
	if l.Amount, l.Tax = "", ""; total == nil {
		return
	}
	if total = new(big.Rat).Set(total); discount != nil {
		total.Sub(total, discount)
	}
	if total.Sign() < 0 {
		total.SetInt64(0)
	}
	if total.Cmp(pieces.Mul(pieces, big.NewRat(1_000_000, 1))) <= 0 && total.Cmp(big.NewRat(999_999_999, 1)) <= 0 {
		l.Amount = total.FloatString(6)
		if tax != nil {
			l.Tax = tax.FloatString(6)
		}
	}
}

// shares divides an amount in proportion to weights. The shares add up to the amount; all but one are whole cents.
func shares(amount *big.Rat, weights []*big.Rat) []*big.Rat {
	all, upto, paid := add(weights...), new(big.Rat), new(big.Rat)
	parts := make([]*big.Rat, len(weights))
	for i, w := range weights {
		if parts[i] = new(big.Rat); all.Sign() == 0 || w.Sign() == 0 {
			continue
		}
		upto.Add(upto, w)
		part := new(big.Rat).Quo(new(big.Rat).Mul(amount, upto), all)
		if upto.Cmp(all) < 0 {
			part.SetString(part.FloatString(2))
		}
		parts[i].Sub(part, paid)
		paid = part
	}
	return parts
}

// cleanLines checks and cleans the lines of an order. name is the member of the message that has the lines.
func cleanLines(all []line, name string) ([]line, error) {
	if len(all) > maxLines {
		return nil, server.Invalid(name, "must have at most %d entries", maxLines)
	}
	seen, keys := map[string]bool{}, lineKeys{}
	kept := all[:0]
	for i, l := range all {
		one := fmt.Sprintf("%s[%d]", name, i)
		l.SKU = clean(l.SKU, 200, false)
		if l.Title = cleanTitle(l.Title); l.Title == "" {
			l.Title = "Without a name"
			if l.SKU != "" {
				l.Title = l.SKU
			}
		}
		if l.ID = clean(l.ID, 200, false); l.ID == "" {
			l.ID = keys.next(l)
		}
		if seen[l.ID] {
			return nil, server.Invalid(one+".id", "is also the id of an earlier line")
		}
		seen[l.ID] = true
		if l.Quantity < 0 || l.Quantity > 1_000_000 {
			return nil, server.Invalid(one+".quantity", "must be from 0 to 1000000")
		}
		kept = append(kept, l)
	}
	return kept, nil
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// currencyOf returns the code of a currency that a shop has sent as a code or a sign, or "" if it has sent none. An
// unknown currency is XXX, so that amounts do not count as amounts in the farm's currency.
func currencyOf(text string) string {
	if text = strings.ToUpper(strings.TrimSpace(text)); text == "" || currencyForm.MatchString(text) {
		return text
	}
	if n, ok := transfer.ParseNumber("1 " + text); ok && currencyForm.MatchString(n.Currency()) {
		return n.Currency()
	}
	return "XXX"
}

// maxID is the maximum number of characters of the id of an order in its shop.
const maxID = 100

// cleaned returns the message with its texts and lines cleaned, or a 422 if it is not a valid order. The arguments are
// the names of members of the message: the id, the time of the change, and the lines.
func (m *message) cleaned(id, updated, lines string) (*message, error) {
	var err error
	switch m.order = clean(m.order, maxID+1, false); {
	case m.order == "":
		return nil, server.Invalid(id, "is required")
	case utf8.RuneCountInString(m.order) > maxID:
		return nil, server.Invalid(id, "must have at most %d characters", maxID)
	}
	if o := m.Order; o != nil {
		if m.Updated.IsZero() {
			return nil, server.Invalid(updated, "is required")
		}
		if o.Reference = clean(o.Reference, 200, false); o.Reference == "" {
			o.Reference = m.order
		}
		o.Currency = currencyOf(o.Currency)
		o.Customer, o.Note = clean(o.Customer, 200, false), clean(o.Note, 10_000, true)
		if _, problem := value.ParseDate(o.Due); problem != "" {
			o.Due = ""
		}
		if o.Lines, err = cleanLines(o.Lines, lines); err != nil {
			return nil, err
		}
		if len(m.Same) == 0 {
			text, err := json.Marshal(o)
			if err != nil {
				return nil, err
			}
			m.Same = []string{fmt.Sprintf("%x", sha256.Sum256(text))}
		}
	}
	if len(m.Refunds) > maxRefunds {
		return nil, errRefunds
	}
	for id, r := range m.Refunds {
		if r.Line == "" || id == "" || len(id) > 100 || len(r.Line) > 200 || r.Quantity < 0 || r.Quantity > 1_000_000 {
			delete(m.Refunds, id)
		}
	}
	return m, nil
}

var errRefunds = server.Invalid("refunds", "must have at most %d entries", maxRefunds)

// remark returns a choice of the customer for a line, such as a text to print, from the title of the line, the name of
// the choice and its value in JSON. It returns "" if the name is for programs, or the value is neither a text nor a
// number.
func remark(title, name string, value json.RawMessage) string {
	var text word
	title, name = cleanTitle(title), clean(name, 200, false)
	if name == "" || strings.HasPrefix(name, "_") || json.Unmarshal(value, &text) != nil {
		return ""
	}
	chosen := clean(html.UnescapeString(string(text)), 2000, false)
	if chosen == "" {
		return ""
	}
	return title + ": " + name + ": " + chosen
}

// noted returns the note of an order with remarks about its lines.
func noted(note string, remarks []string) string {
	for _, text := range remarks {
		if text != "" {
			note += "\n" + text
		}
	}
	return strings.TrimSpace(note)
}

// shopifyOrder is an order or, with OrderID, a refund in a message of Shopify.
type shopifyOrder struct {
	ID          word            `json:"id"`
	OrderID     word            `json:"order_id"`
	Name        word            `json:"name"`
	UpdatedAt   moment          `json:"updated_at"`
	CancelledAt *string         `json:"cancelled_at"`
	Fulfilled   string          `json:"fulfillment_status"`
	Currency    string          `json:"currency"` // of all amounts without a currency of their own
	Included    *bool           `json:"taxes_included"`
	Note        string          `json:"note"`
	Customer    *shopifyName    `json:"customer"`
	Shipping    *shopifyName    `json:"shipping_address"`
	Lines       []shopifyLine   `json:"line_items"`
	Refunds     []shopifyRefund `json:"refunds"`
	Refunded    []shopifyPart   `json:"refund_line_items"`
}

type shopifyName struct {
	First string `json:"first_name"`
	Last  string `json:"last_name"`
	Name  string `json:"name"`
}

type shopifyLine struct {
	ID        word   `json:"id"`
	Name      string `json:"name"` // the title with that of the variant
	Title     string `json:"title"`
	Variant   string `json:"variant_title"`
	SKU       word   `json:"sku"`
	Quantity  count  `json:"quantity"`
	Left      *count `json:"current_quantity"`
	Open      *count `json:"fulfillable_quantity"`
	Price     word   `json:"price"`
	Fulfilled string `json:"fulfillment_status"`
	Discounts []struct {
		Amount word `json:"amount"`
	} `json:"discount_allocations"` // includes its share of discounts of the whole order
	Taxes []struct {
		Price word `json:"price"`
	} `json:"tax_lines"`
	Chosen properties `json:"properties"`
}

// properties are the choices of a customer. Their form depends on the apps of the shop; unknown forms are left out.
type properties []property

type property struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func (p *properties) UnmarshalJSON(b []byte) error {
	var all []property
	if json.Unmarshal(b, &all) == nil {
		*p = all
	}
	return nil
}

type shopifyRefund struct {
	Refunded []shopifyPart `json:"refund_line_items"`
}

type shopifyPart struct {
	ID       word  `json:"id"`
	Line     word  `json:"line_item_id"`
	Quantity count `json:"quantity"`
}

func parseShopify(body []byte) (*message, error) {
	var o shopifyOrder
	if err := decodeMessage(body, &o); err != nil {
		return nil, err
	}
	m := &message{order: string(o.ID)}
	m.Refunds = map[string]refund{}
	refunded := func(parts []shopifyPart) {
		for _, p := range parts {
			m.Refunds[string(p.ID)] = refund{string(p.Line), int64(p.Quantity)}
		}
	}
	switch {
	case o.OrderID != "":
		m.order = string(o.OrderID)
		refunded(o.Refunded)
		return m.cleaned("order_id", "updated_at", "line_items")
	case o.Lines == nil:
		return nil, nil
	}
	m.Updated = o.UpdatedAt.Time
	m.Order = &order{Reference: string(o.Name), Note: o.Note, Cancelled: o.CancelledAt != nil, Currency: o.Currency,
		Included: o.Included}
	for _, name := range []*shopifyName{o.Customer, o.Shipping} {
		if name != nil && m.Order.Customer == "" {
			if m.Order.Customer = strings.TrimSpace(name.First + " " + name.Last); m.Order.Customer == "" {
				m.Order.Customer = name.Name
			}
		}
	}
	for _, r := range o.Refunds {
		refunded(r.Refunded)
	}
	var remarks []string
	for _, l := range o.Lines {
		title := l.Name
		if title == "" {
			title = withOptions(l.Title, l.Variant)
		}
		var off, tax *big.Rat
		for _, d := range l.Discounts {
			off = add(off, amount(string(d.Amount)))
		}
		if l.Taxes != nil {
			tax = new(big.Rat)
		}
		for _, t := range l.Taxes {
			tax = add(tax, amount(string(t.Price)))
		}
		left := int64(-1)
		if l.Left != nil {
			left = max(0, int64(*l.Left))
		}
		shipped := int64(0)
		if o.Fulfilled == "fulfilled" || l.Fulfilled == "fulfilled" {
			shipped = allOf(int64(l.Quantity))
		} else if l.Fulfilled == "partial" && l.Open != nil {
			shipped = max(0, left-int64(*l.Open))
			if left < 0 {
				shipped = max(0, int64(l.Quantity-*l.Open))
			}
		}
		one := line{ID: string(l.ID), Title: title, SKU: string(l.SKU), Quantity: int64(l.Quantity), Left: left,
			Shipped: shipped}
		one.setPrice(amount(string(l.Price)), nil, off, tax)
		m.Order.Lines = append(m.Order.Lines, one)
		for _, chosen := range l.Chosen {
			remarks = append(remarks, remark(title, chosen.Name, chosen.Value))
		}
	}
	m.Order.Note = noted(m.Order.Note, remarks)
	return m.cleaned("id", "updated_at", "line_items")
}

// wooOrder is an order in a message of WooCommerce. A message that an order was deleted has only the id.
type wooOrder struct {
	ID       word   `json:"id"`
	Number   word   `json:"number"`
	Status   string `json:"status"`
	Modified moment `json:"date_modified_gmt"`
	Currency string `json:"currency"`
	Note     string `json:"customer_note"`
	Billing  *struct {
		First string `json:"first_name"`
		Last  string `json:"last_name"`
	} `json:"billing"`
	Lines   []wooLine   `json:"line_items"`
	Refunds []wooRefund `json:"refunds"`
}

// wooLine is a line of an order. A part of a bundle names the line of the bundle, or names its product in the
// metadata.
type wooLine struct {
	ID        word    `json:"id"`
	Product   word    `json:"product_id"`
	Variation word    `json:"variation_id"`
	Name      string  `json:"name"`
	SKU       word    `json:"sku"`
	Quantity  count   `json:"quantity"`
	Price     word    `json:"price"` // of a piece, after discounts and without tax, rounded
	Total     word    `json:"total"` // of all pieces, likewise
	Tax       word    `json:"total_tax"`
	Bundle    partOf  `json:"bundled_by"`
	Composite partOf  `json:"composite_parent"`
	Meta      wooMeta `json:"meta_data"`
}

// partOf is the id of a line, or "" if it is neither a text nor a number.
type partOf string

func (p *partOf) UnmarshalJSON(b []byte) error {
	var id word
	if json.Unmarshal(b, &id) == nil && id != "0" {
		*p = partOf(id)
	}
	return nil
}

// wooBundles maps ids to the lines of an order, and products to their last line.
type wooBundles struct{ lines, products map[string]string }

// of returns the id of the bundle that contains a line, or "". A bundle comes before its parts.
func (w wooBundles) of(l wooLine) string {
	bundle := w.lines[string(cmp.Or(l.Bundle, l.Composite))]
	for _, meta := range l.Meta {
		var product word
		if meta.Key == "_woosb_parent_id" && json.Unmarshal(meta.Value, &product) == nil {
			bundle = w.products[string(product)]
		}
	}
	w.lines[string(l.ID)] = string(l.ID)
	if bundle == "" {
		w.products[string(l.Product)], w.products[string(l.Variation)] = string(l.ID), string(l.ID)
	}
	return bundle
}

// wooMeta has the choices of a customer for a line, and private data of plugins.
type wooMeta []wooChoice

type wooChoice struct {
	Key   string          `json:"key"`
	Name  string          `json:"display_key"`
	Value json.RawMessage `json:"value"`
	Shown json.RawMessage `json:"display_value"`
}

func (w *wooMeta) UnmarshalJSON(b []byte) error {
	var all []wooChoice
	if json.Unmarshal(b, &all) == nil {
		*w = all
	}
	return nil
}

// remark returns the remark for a choice that is not in the title.
func (c wooChoice) remark(title string) string {
	if text := c.text(); text == "" || inTitle(title, text) {
		return ""
	}
	return remark(title, cmp.Or(c.Name, c.Key), c.value())
}

// value returns the value of the choice as people see it.
func (c wooChoice) value() json.RawMessage {
	if strings.HasPrefix(c.Key, "pa_") && c.Shown != nil {
		return c.Shown
	}
	return c.Value
}

// text returns the value of the choice, or "" if it is no text or private data.
func (c wooChoice) text() string {
	var text word
	if strings.HasPrefix(c.Key, "_") || json.Unmarshal(c.value(), &text) != nil {
		return ""
	}
	return string(text)
}

// title returns the name of the line with all attributes of its variation. WooCommerce leaves out attributes of more
// than one word, and three or more attributes. The key of an attribute is made from its name; that of a text for which a
// plugin asks usually is its name.
func (l *wooLine) title() string {
	title := html.UnescapeString(l.Name)
	for _, c := range l.Meta {
		isAttribute := strings.HasPrefix(c.Key, "pa_") ||
			c.Key != c.Name && c.Key == strings.ReplaceAll(strings.ToLower(c.Name), " ", "-")
		if text := html.UnescapeString(c.text()); isAttribute && l.Variation > "0" && text != "" && !inTitle(title, text) {
			title = withOptions(title, text)
		}
	}
	return title
}

// withOptions adds an option to the title of a line, as the shops do: "Dragon - Blue, 20 cm".
func withOptions(title, option string) string {
	switch {
	case title == "" || option == "":
		return title + option
	case strings.Contains(title, " - "):
		return title + ", " + option
	}
	return title + " - " + option
}

// inTitle reports whether the title of a line has the option.
func inTitle(title, option string) bool {
	_, options, _ := strings.Cut(title, " - ")
	return slices.ContainsFunc(strings.Split(options, ", "), func(o string) bool { return strings.EqualFold(o, option) })
}

// wooRefund is a refunded part of an order. WooCommerce itself sends only the total, which is negative. Some shops add
// the lines of the refund: their quantity is negative, and their metadata name the line of the order.
type wooRefund struct {
	Total word `json:"total"`
	Lines []struct {
		Quantity count `json:"quantity"`
		Meta     []struct {
			Key   string          `json:"key"`
			Value json.RawMessage `json:"value"`
		} `json:"meta_data"`
	} `json:"line_items"`
}

// wooRefunded returns the refunded quantities, by the ids of lines, and the totals of the refunds without lines.
func wooRefunded(refunds []wooRefund) (quantities map[string]int64, totals []string) {
	quantities = map[string]int64{}
	for _, r := range refunds {
		named := false
		for _, l := range r.Lines {
			n := int64(max(l.Quantity, -l.Quantity))
			if n <= 0 || n > 1_000_000 {
				continue
			}
			for _, meta := range l.Meta {
				var id word
				if meta.Key == "_refunded_item_id" && json.Unmarshal(meta.Value, &id) == nil && id != "" {
					quantities[string(id)] = min(quantities[string(id)]+n, 1_000_000)
					named = true
					break
				}
			}
		}
		if total, ok := value.ParseDecimal(strings.TrimPrefix(string(r.Total), "-")); ok && !named && total > 0 {
			totals = append(totals, total.String())
		}
	}
	return quantities, totals
}

// wooMissing are the states in which an order of WooCommerce is not to be printed, or no longer.
var wooMissing = map[string]bool{"cancelled": true, "refunded": true, "failed": true, "trash": true}

// wooWaiting are the states in which the customer has not paid yet.
var wooWaiting = map[string]bool{"pending": true, "checkout-draft": true, "auto-draft": true, "draft": true}

func parseWooCommerce(body []byte, delivery string, now time.Time) (*message, error) {
	var o wooOrder
	if err := decodeMessage(body, &o); err != nil {
		return nil, err
	}
	m := &message{order: string(o.ID)}
	switch {
	case o.ID == "":
		return nil, nil
	case o.Status == "" && o.Lines == nil:
		m.Deleted, m.Deletions = now.UTC(), []string{clean(delivery, 100, false)}
		return m.cleaned("id", "date_modified_gmt", "line_items")
	case o.Lines == nil:
		return nil, nil
	}
	if m.Updated = o.Modified.Time; delivery != "" {
		m.Same = []string{clean(delivery, 100, false)}
	}
	m.Order = &order{Reference: string(o.Number), Note: o.Note, Waiting: wooWaiting[o.Status],
		Cancelled: wooMissing[o.Status], Currency: o.Currency, Included: new(bool)}
	if o.Billing != nil {
		m.Order.Customer = o.Billing.First + " " + o.Billing.Last
	}
	if len(o.Refunds) > maxRefunds {
		return nil, errRefunds
	}
	refunded, totals := wooRefunded(o.Refunds)
	if len(totals) > 0 && !m.Order.Cancelled {
		m.Order.Note = strings.TrimSpace(m.Order.Note + "\nPartial refund; the shop did not name the lines: " +
			strings.Join(totals, ", "))
	}
	var remarks []string
	bundles := wooBundles{map[string]string{}, map[string]string{}}
	for _, l := range o.Lines {
		left := int64(-1)
		if n := refunded[string(l.ID)]; n > 0 {
			left = max(0, int64(l.Quantity)-n)
		}
		shipped := int64(0)
		if stateOf(o.Status) == isShipped {
			shipped = allOf(int64(l.Quantity))
		}
		title := l.title()
		one := line{ID: string(l.ID), Title: title, SKU: string(l.SKU),
			Quantity: int64(l.Quantity), Left: left, Shipped: shipped, Bundle: bundles.of(l)}
		one.setPrice(amount(string(l.Price)), amount(string(l.Total)), nil, amount(string(l.Tax)))
		m.Order.Lines = append(m.Order.Lines, one)
		for _, chosen := range l.Meta {
			remarks = append(remarks, chosen.remark(title))
		}
	}
	m.Order.Note = noted(m.Order.Note, remarks)
	return m.cleaned("id", "date_modified_gmt", "line_items")
}

// genericOrder is an order of any other shop: see docs/shops.md.
type genericOrder struct {
	ID        word   `json:"id"`
	Reference word   `json:"reference"`
	UpdatedAt moment `json:"updated_at"`
	Cancelled bool   `json:"cancelled"`
	Customer  string `json:"customer"`
	Due       string `json:"due_date"`
	Notes     string `json:"notes"`
	Currency  string `json:"currency"`
	Included  *bool  `json:"prices_include_tax"`
	Lines     []struct {
		ID       word   `json:"id"`
		Title    string `json:"title"`
		SKU      word   `json:"sku"`
		Quantity *count `json:"quantity"`
		Shipped  *count `json:"shipped"`
		Price    word   `json:"unit_price"`
		Total    word   `json:"line_price"`
		Tax      word   `json:"tax_amount"`
	} `json:"lines"`
}

func parseGeneric(body []byte) (*message, error) {
	var o genericOrder
	if err := decodeMessage(body, &o); err != nil {
		return nil, err
	}
	m := &message{order: string(o.ID)}
	m.Updated = o.UpdatedAt.Time
	m.Order = &order{Reference: string(o.Reference), Customer: o.Customer, Due: o.Due, Note: o.Notes,
		Cancelled: o.Cancelled, Currency: o.Currency, Included: o.Included}
	for i, l := range o.Lines {
		n := int64(1)
		if l.Quantity != nil {
			n = int64(*l.Quantity)
		}
		one := line{ID: string(l.ID), Title: l.Title, SKU: string(l.SKU), Quantity: n, Left: -1}
		if l.Shipped != nil {
			one.Shipped = int64(*l.Shipped)
		}
		if one.Shipped < 0 || one.Shipped > 1_000_000 {
			return nil, server.Invalid(fmt.Sprintf("lines[%d].shipped", i), "must be from 0 to 1000000")
		}
		one.setPrice(amount(string(l.Price)), amount(string(l.Total)), nil, amount(string(l.Tax)))
		m.Order.Lines = append(m.Order.Lines, one)
	}
	return m.cleaned("id", "updated_at", "lines")
}
