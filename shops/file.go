package shops

import (
	"crypto/sha256"
	"fmt"
	"html"
	"math/big"
	"strings"
	"time"

	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// fileRow is a row of a file: a line of an order, with the fields of the order in one or all of its rows.
type fileRow struct {
	Reference      value.Optional[string]        `json:"reference" rule:"required,maxLength=10000"`
	Source         value.Optional[string]        `json:"source" rule:"maxLength=10000"`
	ShopOrderID    value.Optional[string]        `json:"shop_order_id" rule:"maxLength=10000"`
	Customer       value.Optional[string]        `json:"customer" rule:"maxLength=10000"`
	FirstName      value.Optional[string]        `json:"first_name" rule:"maxLength=10000"`
	LastName       value.Optional[string]        `json:"last_name" rule:"maxLength=10000"`
	DueDate        value.Optional[value.Date]    `json:"due_date"`
	Notes          value.Optional[string]        `json:"notes" rule:"maxLength=100000"`
	Status         value.Optional[string]        `json:"status" rule:"maxLength=10000"`
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
	LineStatus     value.Optional[string]        `json:"line_status" rule:"maxLength=10000"`
	ShippedAt      value.Optional[string]        `json:"shipped_at" rule:"maxLength=10000"`
}

// fileSheets reads sheets of people as lines of orders.
var fileSheets = imports.NewSheets[fileRow]("order", map[string]string{"reference": "reference", "source": "source",
	"customer": "customer", "first_name": "first_name", "last_name": "last_name", "due_date": "due_date",
	"notes": "notes", "status": "status", "shipping_status": "shipping_status", "line_status": "line_status",
	"shipped_at": "shipped_at", "cancelled_at": "cancelled_at", "updated_at": "updated_at", "title": "title",
	"variation": "variation", "sku": "sku", "quantity": "quantity", "refunded_quantity": "refunded_quantity",
	"selling_price": "unit_price", "line_price": "line_price", "discount_price": "discount_price",
	"line_id": "line_id"}).With(titles)

// goodTitles returns how much a row looks like the titles of a file of orders.
func goodTitles(titles []string) int {
	n := fileSheets.Good(titles)
	if p, fields := programOf(titles); p != nil {
		n = max(n, 10*len(fields))
	}
	return n
}

// convertFile finds out what the columns of a sheet mean.
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
				"no column has the title or the SKU of what was ordered: say with mapping which one has")
		}
		c.Missing = append(c.Missing, "title")
	}
	for _, row := range c.Table.Rows {
		if n := at["status"]; n > 0 && row.Cells[n-1] != nil && stateOf(*row.Cells[n-1]) == unknown {
			c.Changed = append(c.Changed, transfer.CellChange{Line: row.Line, Field: "status", Text: *row.Cells[n-1],
				Detail: "an order to print"})
		}
	}
	return c, nil
}

// fileOrder is an order of a file.
type fileOrder struct {
	line    int    // its first row in the file
	source  string // "" if it has none
	number  string // its id in the shop, or ""
	order   order
	updated time.Time // the last time that the file says of it; may be zero
	shipped []bool    // for each line

	rows      []lineRow
	status    string         // of the last row that has one: some programs write it into the first row of an order only
	isShipped bool           // whether the whole order is
	ids       map[string]int // the lines by their ids
	keys      lineKeys
}

// lineRow is a line with what its row says about it.
type lineRow struct {
	line
	status  state
	shipped bool
	remark  string // what the customer has chosen, or ""
}

// orderFile has the orders of a file, in the sequence of their first rows.
type orderFile struct{ orders []*fileOrder }

// readFile reads the rows of a file. The error is a 422.
func readFile(file transfer.File, how transfer.Reading, most int) (f orderFile, err error) {
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
		problem := func(field, format string, args ...any) { invalid.Add(rows[i].Line, field, format, args...) }
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
		case name == "shopify" && row.Status.Or("") != "":
			// The first row of an order again: the order is in the file twice.
			*o = fileOrder{line: o.line, source: source}
		}
		o.order.Reference = reference
		o.add(row, name)
		if message := o.addLine(row); message != "" {
			problem("title", "%s", message)
		}
		if len(o.rows) > maxLines {
			problem("row", "is one of more than %d lines of the order", maxLines)
		}
	}
	for _, o := range f.orders {
		if o.finish(); len(o.order.Lines) == 0 && invalid[o.line] == nil {
			invalid.Add(o.line, "title", "is required: no row of the order has a title or an SKU")
		}
	}
	return f, invalid.Err()
}

// add adds what a row says about the whole order. The first row that says something counts.
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
	if !row.DueDate.IsNull() {
		first(&o.order.Due, string(*row.DueDate.Value))
	}
	if status := row.Status.Or(""); status != "" {
		o.status = status
	}
	o.order.Cancelled = o.order.Cancelled || isSet(row.CancelledAt.Or(""))
	o.order.Waiting = o.order.Waiting || stateOf(o.status) == isWaiting ||
		program == "woocommerce" && strings.TrimPrefix(imports.Key(o.status), "wc") == "pending"
	o.isShipped = o.isShipped || stateOf(row.ShippingStatus.Or("")) == isShipped
	for _, text := range []string{row.UpdatedAt.Or(""), row.CancelledAt.Or("")} {
		if t := timeOf(text); t.After(o.updated) {
			o.updated = t
		}
	}
}

// timeOf returns the time of a text with a time zone, or the zero time: without one, the order of two times is not
// known.
func timeOf(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST"} {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil && t.Year() >= 1990 && t.Year() <= 9000 {
			return t.UTC()
		}
	}
	return time.Time{}
}

// addLine adds the line of a row. It returns a problem with the title, or "".
func (o *fileOrder) addLine(row *fileRow) string {
	l := line{Title: cleanTitle(html.UnescapeString(row.Title.Or(""))), SKU: clean(row.SKU.Or(""), 200, false),
		Quantity: row.Quantity.Or(1), Left: -1}
	variation, personal := personalised(clean(html.UnescapeString(row.Variation.Or("")), 5000, false))
	if variation != "" && l.Title != "" {
		l.Title = cleanTitle(l.Title + " - " + clean(variation, 1000, false))
	}
	switch {
	case l.Title != "":
	case l.SKU != "":
		l.Title = l.SKU
	case row.Quantity.IsNull() && row.UnitPrice.IsNull() && row.LinePrice.IsNull():
		return "" // more about the order
	default:
		return "is required, or sku"
	}
	if n := row.Refunded.Or(0); n > 0 {
		l.Left = max(0, l.Quantity-n)
	}
	switch {
	case !row.UnitPrice.IsNull():
		discount := ""
		if !row.Discount.IsNull() {
			discount = row.Discount.Value.String()
		}
		l.Price = price(row.UnitPrice.Value.String(), discount, l.Quantity)
	case !row.LinePrice.IsNull() && l.Quantity > 0:
		r, _ := new(big.Rat).SetString(row.LinePrice.Value.String())
		l.Price = price(r.Quo(r, big.NewRat(l.Quantity, 1)).FloatString(6), "", l.Quantity)
	}
	if o.ids == nil {
		o.ids, o.keys = map[string]int{}, lineKeys{}
	}
	if l.ID = clean(row.LineID.Or(""), 150, false); l.ID == "" {
		l.ID = o.keys.next(l)
	}
	status := stateOf(o.status)
	one := lineRow{l, status, status == isShipped || stateOf(row.LineStatus.Or("")) == isShipped ||
		isSet(row.ShippedAt.Or("")), ""}
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

// personalised takes the text that a customer wants on the product out of a variation of Etsy, where it comes last. It
// would make each line another one.
func personalised(variation string) (rest, text string) {
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

// finish makes the lines of the order when all rows are known. A line that is cancelled has nothing left, unless the
// whole order is cancelled.
func (o *fileOrder) finish() {
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

// lineKeys makes the ids of the lines of an order that have none: the same ones for each file and message that has the
// lines, whatever their sequence. It counts the lines with the same SKU, or the same title if they have no SKU.
type lineKeys map[string]int

func (k lineKeys) next(l line) string {
	key := "sku " + imports.Key(l.SKU)
	if l.SKU == "" {
		key = "title " + strings.ToLower(l.Title)
	}
	k[key]++
	return fmt.Sprintf("file %x %d", sha256.Sum256([]byte(key)), k[key])
}
