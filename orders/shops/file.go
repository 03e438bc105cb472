package shops

import (
	"crypto/sha256"
	"fmt"
	"html"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"spoolwright/inventory/sheets"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// fileRow is a row of a file: a line of an order, with the fields of the order in one or all of its rows.
type fileRow struct {
	Reference      value.Optional[string]        `json:"reference" rule:"required,maxLength=10000"`
	Source         value.Optional[string]        `json:"source" rule:"maxLength=10000"`
	ShopOrderID    value.Optional[string]        `json:"shop_order_id" rule:"maxLength=10000"`
	Customer       value.Optional[string]        `json:"customer" rule:"maxLength=10000"`
	FirstName      value.Optional[string]        `json:"first_name" rule:"maxLength=10000"`
	LastName       value.Optional[string]        `json:"last_name" rule:"maxLength=10000"`
	Currency       value.Optional[string]        `json:"currency" rule:"maxLength=10000"`
	DueDate        value.Optional[value.Date]    `json:"due_date"`
	Notes          value.Optional[string]        `json:"notes" rule:"maxLength=100000"`
	Carrier        value.Optional[string]        `json:"carrier" rule:"maxLength=10000"`
	Tracking       value.Optional[string]        `json:"tracking_number" rule:"maxLength=10000"`
	Status         value.Optional[string]        `json:"status" rule:"maxLength=10000"`
	PaymentStatus  value.Optional[string]        `json:"payment_status" rule:"maxLength=10000"`
	PaidAt         value.Optional[string]        `json:"paid_at" rule:"maxLength=10000"`
	Personal       value.Optional[string]        `json:"personalization" rule:"maxLength=100000"`
	ShippingStatus value.Optional[string]        `json:"shipping_status" rule:"maxLength=10000"`
	CancelledAt    value.Optional[string]        `json:"cancelled_at" rule:"maxLength=10000"`
	UpdatedAt      value.Optional[string]        `json:"updated_at" rule:"maxLength=10000"`
	LineID         value.Optional[string]        `json:"line_id" rule:"maxLength=10000"`
	Title          value.Optional[string]        `json:"title" rule:"maxLength=10000"`
	Variation      value.Optional[string]        `json:"variation" rule:"maxLength=10000"`
	SKU            value.Optional[string]        `json:"sku" rule:"maxLength=10000"`
	Quantity       value.Optional[int64]         `json:"quantity" rule:"minimum=0,maximum=1000000"`
	Refunded       value.Optional[int64]         `json:"refunded_quantity" rule:"minimum=0,maximum=1000000"`
	UnitPrice      value.Optional[value.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	LinePrice      value.Optional[value.Decimal] `json:"line_price" rule:"maximum=100000000"`
	Discount       value.Optional[value.Decimal] `json:"discount_price" rule:"maximum=100000000"`
	TaxAmount      value.Optional[value.Decimal] `json:"tax_amount" rule:"maximum=100000000"`
	Included       value.Optional[bool]          `json:"prices_include_tax"`
	OrderDiscount  value.Optional[value.Decimal] `json:"order_discount_price" rule:"maximum=100000000"`
	OrderTax       value.Optional[value.Decimal] `json:"order_tax_amount" rule:"maximum=100000000"`
	OrderLines     value.Optional[value.Decimal] `json:"order_lines_price" rule:"maximum=100000000"` // after discounts
	OrderShipping  value.Optional[value.Decimal] `json:"order_shipping_price" rule:"maximum=100000000"`
	OrderTotal     value.Optional[value.Decimal] `json:"order_total_price" rule:"maximum=100000000"`
	Taxable        value.Optional[string]        `json:"taxable" rule:"maxLength=10000"`
	LineStatus     value.Optional[string]        `json:"line_status" rule:"maxLength=10000"`
	ShippedAt      value.Optional[string]        `json:"shipped_at" rule:"maxLength=10000"`
}

// fileSheets reads sheets of people as lines of orders.
var fileSheets = sheets.New[fileRow]("order", map[string]string{"reference": "reference", "source": "source",
	"customer": "customer", "first_name": "first_name", "last_name": "last_name", "due_date": "due_date",
	"notes": "notes", "carrier": "carrier", "tracking_number": "tracking_number", "status": "status",
	"payment_status": "payment_status", "personalization": "personalization", "shipping_status": "shipping_status", "line_status": "line_status",
	"shipped_at": "shipped_at", "cancelled_at": "cancelled_at", "updated_at": "updated_at", "title": "title",
	"variation": "variation", "sku": "sku", "quantity": "quantity", "refunded_quantity": "refunded_quantity",
	"selling_price": "unit_price", "line_price": "line_price", "discount_price": "discount_price",
	"line_id": "line_id", "currency": "currency", "tax_amount": "tax_amount", "prices_include_tax": "prices_include_tax",
	"order_discount": "order_discount_price"}).With(titles)

// goodTitles rates how well a row matches the titles of a file of orders.
func goodTitles(titles []string) int {
	n := fileSheets.Good(titles)
	if p, fields := programOf(titles); p != nil {
		n = max(n, 10*len(fields))
	}
	return n
}

// convertFile determines the fields of the columns of a sheet, and converts the rows.
func convertFile(sheet *transfer.Sheet, how transfer.Reading) (*transfer.Conversion, error) {
	how.Mode = transfer.Create
	c, err := fileSheets.Convert(sheet, how)
	if err != nil || c.Table.Header == 0 {
		return c, err
	}
	at := map[string]int{}
	for i, name := range c.Table.Names {
		at[name] = i + 1
	}
	if at["title"]+at["sku"] == 0 {
		if !how.Suggest {
			return nil, server.Invalid(fmt.Sprintf("line %d", c.Table.Header),
				"no column was recognized as the title or the SKU of the ordered products: name one in mapping")
		}
		c.Missing = append(c.Missing, "title")
	}
	if how.Program != nil {
		completeRows(c.Table, how.Program.Name, at)
	}
	for _, row := range c.Table.Rows {
		if n := at["status"]; n > 0 && row.Cells[n-1] != nil && stateOf(*row.Cells[n-1]) == unknown {
			c.Changed = append(c.Changed, transfer.CellChange{Line: row.Line, Field: "status", Text: *row.Cells[n-1],
				Detail: language.Sprintf("an order to print")})
		}
	}
	return c, nil
}

// completeRows copies the number of an order to the rows below that belong to it, and removes rows that are not part
// of an order: descriptions of the columns, and counts at the end. at maps columns to their positions, counted from 1.
func completeRows(table *transfer.Table, name string, at map[string]int) {
	text := func(row transfer.Row, column string) string {
		if n := at[column]; n > 0 && row.Cells[n-1] != nil {
			return strings.TrimSpace(*row.Cells[n-1])
		}
		return ""
	}
	first := slices.ContainsFunc(programs, func(p program) bool { return p.name == name && p.firstRow })
	var above transfer.Cell
	table.Rows = slices.DeleteFunc(table.Rows, func(row transfer.Row) bool {
		number := text(row, "reference")
		isLine := text(row, "title")+text(row, "sku") != ""
		switch n := at["reference"]; {
		case (name == "tiktok" || name == "ebay") && !strings.ContainsAny(number, "0123456789"):
			return true
		case number == "" && !isLine:
			return true
		case number != "":
			above = row.Cells[n-1]
		case first && n > 0:
			row.Cells[n-1] = above
		}
		return false
	})
}

type fileOrder struct {
	line    int    // its first row in the file
	source  string // "" if it has none
	number  string // its id in the shop, or ""
	order   order
	updated time.Time // the latest time that the file has for it; may be zero
	shipped []bool    // for each line

	rows      []lineRow
	sums      [5]*big.Rat    // indexed by the constants below; nil if the file has no such amount
	status    string         // of the last row that has one: some programs write it into the first row of an order only
	isShipped bool           // whether the whole order is
	isPaid    bool           // whether a row has the time of the payment
	ids       map[string]int // the lines by their ids
	keys      lineKeys
}

// The amounts of a whole order in a file: a discount, the tax, the price of the lines less discounts, the price of
// shipping, and the sum.
const (
	orderDiscount = iota
	orderTax
	orderLines
	orderShipping
	orderTotal
)

// lineRow is a line with the other values of its row.
type lineRow struct {
	line
	status  state
	shipped bool
	remark  string // what the customer has chosen, or ""
	taxable bool
}

// orderFile has the orders of a file, in the order of their first rows.
type orderFile struct{ orders []*fileOrder }

// readFile reads the rows of a file. The error is a 422.
func readFile(file *transfer.Table, how transfer.Reading, most int) (f orderFile, err error) {
	rows, _, err := transfer.ReadRows[fileRow](file, how, most, nil)
	if err != nil {
		return f, err
	}
	name := ""
	if how.Program != nil {
		name = how.Program.Name
	}
	invalid := transfer.RowProblems{}
	known := map[[2]string]*fileOrder{}
	for i := range rows {
		row := &rows[i].In
		problem := func(field string, format language.Text, args ...any) {
			invalid.Add(rows[i].Line, field, format, args...)
		}
		source, reference := clean(row.Source.Or(""), 200, false), clean(row.Reference.Or(""), 200, false)
		if reference == "" {
			problem("reference", "is required")
			continue
		}
		o := known[[2]string{source, reference}]
		switch {
		case o == nil:
			o = &fileOrder{line: rows[i].Line, source: source}
			known[[2]string{source, reference}] = o
			f.orders = append(f.orders, o)
		case name == "shopify" && row.PaymentStatus.Or("") != "":
			// This is the first row of an order that is in the file twice.
			*o = fileOrder{line: o.line, source: source}
		}
		o.order.Reference = reference
		o.add(row, name)
		if message := o.addLine(row, name); message != "" {
			problem("title", "%s", message)
		}
		if len(o.rows) > maxLines {
			problem("row", "exceeds the maximum of %d lines of an order", maxLines)
		}
	}
	if how.Program != nil && slices.Contains(slices.Collect(maps.Values(how.Program.Fields)), "paid_at") {
		for _, o := range f.orders {
			o.order.Waiting = o.order.Waiting || !o.isPaid
		}
	}
	taxed := slices.ContainsFunc(rows, func(r transfer.Record[fileRow]) bool { return r.In.TaxAmount.Or(0) > 0 })
	for _, o := range f.orders {
		if o.finish(name, taxed); len(o.order.Lines) == 0 && invalid[o.line] == nil {
			invalid.Add(o.line, "title", "is required: no row of the order has a title or a SKU")
		}
	}
	return f, invalid.Err()
}

// add adds the values of a row for the whole order. The first row with a value takes precedence.
func (o *fileOrder) add(row *fileRow, program string) {
	first := func(to *string, text string) {
		if *to == "" {
			*to = text
		}
	}
	first(&o.number, clean(row.ShopOrderID.Or(""), 100, false))
	customer := clean(row.Customer.Or(""), 200, false)
	if customer == "" {
		customer = clean(row.FirstName.Or("")+" "+row.LastName.Or(""), 200, false)
	}
	first(&o.order.Customer, customer)
	first(&o.order.Note, clean(row.Notes.Or(""), 10_000, true))
	first(&o.order.Carrier, clean(row.Carrier.Or(""), 100, false))
	first(&o.order.Tracking, clean(row.Tracking.Or(""), 100, false))
	if !row.DueDate.IsNull() {
		first(&o.order.Due, string(*row.DueDate.Value))
	}
	if status := row.Status.Or(""); status != "" {
		o.status = status
	}
	first(&o.order.Currency, currencyOf(row.Currency.Or("")))
	if !row.Included.IsNull() && o.order.Included == nil {
		o.order.Included = row.Included.Value
	}
	for i, sum := range []value.Optional[value.Decimal]{row.OrderDiscount, row.OrderTax, row.OrderLines, row.OrderShipping,
		row.OrderTotal} {
		if o.sums[i] == nil {
			o.sums[i] = decimal(sum)
		}
	}
	o.order.Cancelled = o.order.Cancelled || isSet(row.CancelledAt.Or(""))
	o.order.Waiting = o.order.Waiting || stateOf(o.status) == isWaiting ||
		program == "woocommerce" && strings.TrimPrefix(sheets.Key(o.status), "wc") == "pending"
	switch paymentOf(row.PaymentStatus.Or("")) {
	case isWaiting:
		o.order.Waiting = true
	case isCancelled:
		o.order.Cancelled = true
	}
	o.isPaid = o.isPaid || isSet(row.PaidAt.Or(""))
	o.isShipped = o.isShipped || stateOf(row.ShippingStatus.Or("")) == isShipped
	for _, text := range []string{row.UpdatedAt.Or(""), row.CancelledAt.Or("")} {
		if t := timeOf(text); t.After(o.updated) {
			o.updated = t
		}
	}
}

// timeOf returns the time of a text, or the zero time if the text has no time zone: such times cannot be compared.
func timeOf(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST"} {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil && t.Year() >= 1990 && t.Year() <= 9000 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// addLine adds the line of a row. It returns a problem with the title, or "".
func (o *fileOrder) addLine(row *fileRow, program string) string {
	l := line{Title: cleanTitle(html.UnescapeString(row.Title.Or(""))), SKU: clean(row.SKU.Or(""), 200, false),
		Quantity: row.Quantity.Or(1), Left: -1}
	variation, personal := personalized(clean(html.UnescapeString(row.Variation.Or("")), 5000, false))
	if variation != "" && l.Title != "" {
		l.Title = cleanTitle(l.Title + " - " + clean(variation, 1000, false))
	}
	switch {
	case l.Title != "":
	case l.SKU != "":
		l.Title = l.SKU
	case program == "ebay", row.Quantity.IsNull() && row.UnitPrice.IsNull() && row.LinePrice.IsNull():
		return "" // more about the order
	default:
		return language.Sprintf("is required, or sku")
	}
	if program == "shopify" && l.SKU == "" && tips[sheets.Key(l.Title)] {
		return ""
	}
	if text := clean(html.UnescapeString(row.Personal.Or("")), 5000, false); text != "" && personal == "" {
		personal = text
	}
	if n := row.Refunded.Or(0); n > 0 {
		l.Left = max(0, l.Quantity-n)
	}
	unit, total, discount := decimal(row.UnitPrice), decimal(row.LinePrice), decimal(row.Discount)
	if unit != nil && total != nil && program != "woocommerce" {
		// The price of the line may be the exact price of the units, or another amount, such as one with tax.
		l.setPrice(unit, nil, discount, nil)
		off := new(big.Rat).Sub(total, add(amount(l.Amount), new(big.Rat)))
		if off.Abs(off).Cmp(big.NewRat(max(l.Quantity, 1), 100)) > 0 {
			total = nil
		}
	}
	if program != "amazon" && total != nil {
		discount = nil // the price of the line is less by it already
	}
	l.setPrice(unit, total, discount, decimal(row.TaxAmount))
	if o.ids == nil {
		o.ids, o.keys = map[string]int{}, lineKeys{}
	}
	if l.ID = clean(row.LineID.Or(""), 150, false); l.ID == "" {
		l.ID = o.keys.next(l)
	}
	status := stateOf(o.status)
	one := lineRow{l, status, status == isShipped || stateOf(row.LineStatus.Or("")) == isShipped ||
		isSet(row.ShippedAt.Or("")), "", stateOf(row.Taxable.Or("")) != isOpen && sheets.Key(row.Taxable.Or("")) != "false"}
	if personal != "" {
		one.remark = l.Title + ": " + personal
	}
	if n, ok := o.ids[l.ID]; ok { // the same line again
		o.rows[n] = one
		return ""
	}
	o.ids[l.ID] = len(o.rows)
	o.rows = append(o.rows, one)
	return ""
}

// personalized splits a variation of Etsy into the variation and the text that the customer wants on the product,
// which comes last. With the text, each line would count as another product.
func personalized(variation string) (rest, text string) {
	const name, none = "Personalization:", "Not requested on this item."
	i := strings.Index(variation, name)
	if i < 0 {
		return variation, ""
	}
	rest = strings.TrimRight(variation[:i], ", ")
	if text = strings.TrimSpace(variation[i+len(name):]); text == none {
		return rest, ""
	}
	return rest, name + " " + text
}

// finish builds the lines of the order from all its rows. A canceled line has the quantity 0, unless the whole order
// is canceled.
func (o *fileOrder) finish(program string, taxed bool) {
	o.divide()
	o.settleTax(program, taxed)
	open := false
	for _, row := range o.rows {
		open = open || row.status != isCancelled
	}
	o.order.Cancelled = o.order.Cancelled || !open
	var remarks []string
	for _, row := range o.rows {
		if row.status == isCancelled && open {
			row.Left = 0
		}
		remarks = append(remarks, row.remark)
		o.order.Lines, o.shipped = append(o.order.Lines, row.line), append(o.shipped, row.shipped || o.isShipped)
	}
	o.order.Note = clean(noted(o.order.Note, remarks), 10_000, true)
	o.rows, o.ids, o.keys = nil, nil, nil
}

// decimal returns an amount, or nil.
func decimal(d value.Optional[value.Decimal]) *big.Rat {
	if d.IsNull() {
		return nil
	}
	return amount(d.Value.String())
}

// divide divides the discount of the whole order among its lines, except for the part that is on the shipping or that
// the lines already include. It divides the tax of the whole order, which includes the tax of the shipping, in the
// same way. Whether prices include the tax follows from the sum.
func (o *fileOrder) divide() {
	weights := make([]*big.Rat, len(o.rows), len(o.rows)+1)
	for i, row := range o.rows {
		if weights[i] = amount(row.Amount); weights[i] == nil {
			weights[i] = new(big.Rat)
		}
	}
	off, sum, free := o.sums[orderDiscount], o.sums[orderLines], new(big.Rat) // free is the discount of the shipping
	if off != nil && sum != nil {
		if more := new(big.Rat).Sub(add(weights...), sum); more.Cmp(off) < 0 {
			off, free = more, free.Sub(off, more)
		}
	}
	if off != nil && off.Sign() > 0 {
		for i, part := range shares(off, weights) {
			o.rows[i].setPrice(nil, amount(o.rows[i].Amount), part, nil)
			weights[i].Sub(weights[i], part)
		}
	}
	tax, total := o.sums[orderTax], o.sums[orderTotal]
	if tax == nil || sum == nil || total == nil {
		return
	}
	// The shipping may lack its discount, and the price of the lines may lack a tip that is one of the lines.
	shipping := add(o.sums[orderShipping], new(big.Rat))
	paid := new(big.Rat).Sub(shipping, free)
	for _, rest := range []*big.Rat{add(sum, shipping), add(sum, paid), add(add(weights...), shipping)} {
		switch rest.Sub(total, rest); {
		case o.order.Included != nil:
		case rest.Sign() == 0:
			o.order.Included = new(true)
		case rest.Cmp(tax) == 0:
			o.order.Included = new(false)
		}
	}
	if o.order.Included == nil {
		return
	}
	if paid.Sign() >= 0 && new(big.Rat).Sub(total, add(sum, paid)).Sign() == 0 {
		shipping = paid
	}
	for i, row := range o.rows {
		if !row.taxable {
			weights[i] = new(big.Rat)
		}
	}
	for i, part := range shares(tax, append(weights, shipping))[:len(o.rows)] {
		o.rows[i].setPrice(nil, amount(o.rows[i].Amount), nil, part)
	}
}

// settleTax sets whether prices include the tax. Etsy and marketplaces in North America add it; Amazon's prices
// elsewhere include it; a file without any tax leaves it open.
func (o *fileOrder) settleTax(program string, taxed bool) {
	american := o.order.Currency == "USD" || o.order.Currency == "CAD"
	added := o.sums[orderTax]
	for _, row := range o.rows {
		added = add(added, amount(row.Tax))
	}
	switch {
	case program == "woocommerce", program == "amazon" && american,
		program == "etsy" && added != nil && added.Sign() > 0:
		o.order.Included = new(false)
	case program == "amazon" && taxed:
		o.order.Included = new(true)
	case program == "amazon" || program == "etsy":
		for i := range o.rows {
			o.rows[i].Tax = ""
		}
	}
}

// lineKeys generates ids for lines without one. The ids are the same in every file and message with these lines,
// whatever their sequence. It counts the lines with the same SKU or, without a SKU, the same title.
type lineKeys map[string]int

func (k lineKeys) next(l line) string {
	key := "sku " + sheets.Key(l.SKU)
	if l.SKU == "" {
		key = "title " + strings.ToLower(l.Title)
	}
	k[key]++
	return fmt.Sprintf("file %x %d", sha256.Sum256([]byte(key)), k[key])
}
