package orders

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// OrderLine is a line of an order as the shop sent it, without a product yet.
type OrderLine struct {
	ID        value.UUID                    `json:"id" rule:"readOnly,notNull"`
	Title     value.Optional[string]        `json:"title" rule:"required,maxLength=1000,trim"`
	SKU       value.Optional[string]        `json:"sku"`
	Quantity  value.Optional[int64]         `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice value.Optional[value.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	LinePrice value.Optional[value.Decimal] `json:"line_price" rule:"maximum=999999999"`
	TaxAmount value.Optional[value.Decimal] `json:"tax_amount" rule:"maximum=999999999"`
}

// MaxTitle is the maximum length of a title in bytes. The index of lines without a product contains the title in lower
// case, which may be longer by half, and an index entry has at most 2,704 bytes.
const MaxTitle = 1600

// Check reports a title that is too long.
func (l *OrderLine) Check(problems *server.Problems) {
	if l.Title.Set && !l.Title.IsNull() && len(*l.Title.Value) > MaxTitle {
		problems.Add("title", "must have at most %d bytes", MaxTitle)
	}
	linePrice{l.UnitPrice, l.LinePrice, l.TaxAmount, l.Quantity.Or(1)}.check(problems)
}

// linePrice is the price of a line or an item in a request, for a piece or for all pieces.
type linePrice struct {
	unit, line, tax value.Optional[value.Decimal]
	quantity        int64
}

// maxUnitPrice is the maximum price of a piece.
const maxUnitPrice = 1_000_000

func (p linePrice) check(problems *server.Problems) {
	if !p.line.IsNull() && *p.line.Value > value.Decimal(p.quantity)*maxUnitPrice*value.DecimalOne {
		problems.Add("line_price", tooDear)
	}
	if !p.tax.IsNull() && p.line.IsNull() && p.unit.IsNull() {
		problems.Add("tax_amount", needsPrice)
	}
}

const (
	tooDear    = "must be at most 1,000,000 for a piece"
	needsPrice = "needs unit_price or line_price"
)

// put adds columns to a row: the price as it was given, the number of pieces that it is for, and its tax.
func (p linePrice) put(row map[string]any) map[string]any {
	price, pieces := p.line, p.quantity
	switch {
	case !p.line.IsNull():
	case p.unit.IsNull():
		return row
	case p.tax.IsNull():
		price, pieces = p.unit, 1
	default:
		price = value.Some(*p.unit.Value * value.Decimal(p.quantity))
	}
	row["line_price"], row["line_pieces"], row["tax_amount"] = price.Arg(), pieces, p.tax.Arg()
	return row
}

// lineRows returns the lines of an order as an argument for json_to_recordset, with new ids of the lines and of their
// items.
func lineRows(order string, lines []OrderLine) string {
	rows := make([]map[string]any, len(lines))
	for i, line := range lines {
		rows[i] = linePrice{line.UnitPrice, line.LinePrice, line.TaxAmount, line.Quantity.Or(1)}.put(map[string]any{
			"order_id": order, "id": value.NewID(), "item": value.NewID(), "title": line.Title.Arg(),
			"sku": line.SKU.Arg(), "quantity": line.Quantity.Or(1)})
	}
	return db.Recordset(rows)
}

// matchedLines is a query for the rows of lineRows in the parameter lines, with the product and the pieces that
// order_line_match finds. item_id is null if a line has no item.
func matchedLines(lines string) string {
	return `
			select l.n, l.order_id, l.id, l.shop_line, l.title, l.sku, l.quantity, l.line_price, l.line_pieces, l.tax_amount,
				m.product_id, m.pieces,
				case when m.product_id is not null then l.item end as item_id,
				m.found is not null and m.product_id is null as ignored
			from json_to_recordset(` + lines + `::json) l (n int, order_id uuid, id uuid, item uuid, shop_line text, title text,
				sku text, quantity int, line_price numeric, line_pieces bigint, tax_amount numeric)
			left join lateral (
				select true as found, m.* from order_line_match(l.title, l.sku) m
				where l.quantity > 0 and coalesce(l.quantity::bigint * m.pieces, 0) <= 1000000
			) m on true`
}

// newLines are CTEs that insert the rows of the CTE "line" and their items into the orders that the CTE "added"
// returns. "added" must return the columns orderTerms.
const newLines = `line_items as (
			insert into order_items (id, order_id, product_id, quantity, unit_price, line_price, line_pieces, tax_amount)
			select l.item_id, a.id, l.product_id, l.quantity * l.pieces, coalesce(
				round(l.line_price / (l.line_pieces * l.pieces), 6), (
					select price_in_order(p.selling_price, a.prices_include_tax, a.sales_tax_percent,
						order_rate(a.currency, a.exchange_rate))
					from products p where p.id = l.product_id)), l.line_price, l.line_pieces * l.pieces, l.tax_amount
			from line l join added a on a.id = l.order_id where l.item_id is not null order by l.n
		), lines as (
			insert into order_lines (id, order_id, shop_line, title, sku, quantity, line_price, line_pieces, tax_amount,
				item_id, pieces, ignored)
			select l.id, a.id, l.shop_line, l.title, l.sku, l.quantity, l.line_price, l.line_pieces, l.tax_amount,
				l.item_id, l.pieces, l.ignored
			from line l join added a on a.id = l.order_id order by l.n
		)`

// unassignedLines is SQL for the lines of the order o that have no product yet.
const unassignedLines = `(
			select coalesce(json_agg(json_build_object('id', i.id, 'title', i.title, 'sku', i.sku, 'quantity', i.quantity,
				'unit_price', trim_scale(round(i.line_price / i.line_pieces, 6)), 'line_price', s.line_price,
				'tax_amount', s.tax_amount) order by i.created_at, i.id), '[]')
			from (
				select l.*, null::numeric as unit_price from order_lines l
				where l.order_id = o.id and l.item_id is null and not l.ignored and l.quantity > 0
			) i
			cross join lateral ` + itemPrice + ` a
			cross join lateral (select ` + shownPrice + `) s)`

// LineAssignment is the body of a request to assign a line: a product with a number of pieces, or ignore.
type LineAssignment struct {
	ProductID value.Optional[value.UUID] `json:"product_id"`
	SKU       value.Optional[string]     `json:"sku" rule:"insteadOf=product_id,optional"`
	Pieces    value.Optional[int64]      `json:"pieces" rule:"notNull,minimum=1,maximum=1000"`
	Ignore    value.Optional[bool]       `json:"ignore" rule:"notNull"`
}

// names reports whether the request names a product.
func (a *LineAssignment) names() bool { return !a.ProductID.IsNull() || a.SKU.Or("") != "" }

// Check adds a problem unless the request has either a product or ignore.
func (a *LineAssignment) Check(problems *server.Problems) {
	switch {
	case a.Ignore.Or(false) && a.names():
		problems.Add("ignore", "must not be sent together with a product")
	case !a.Ignore.Or(false) && !a.names():
		problems.Add("product_id", "is required, or sku or ignore")
	}
}

var (
	errUnknownOfLine = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "sku").On("sku")
	errLineAssigned  = server.Conflict("ORDER_LINE_ASSIGNED", "The line has a product already, or is ignored").
				On("product_id")
)

var assignDoc = &server.Doc{
	ID: "assignOrderLine", Tag: Tag, Summary: "Assign a line of an order to a product",
	Description: "Assigns a line of `unassigned_lines` to a product, with the number of `pieces` of the product in " +
		"one unit of the line. With `ignore`, the farm does not print the line. An assigned line becomes an item of " +
		"the order. Its price is that of the line, or the `selling_price` of the product if the line has none.\n\nThe " +
		"assignment is remembered for the `sku` of the line or, if it has none, for its `title`, ignoring case. It " +
		"also applies to unassigned lines of other orders, and to lines of later orders. A product with the SKU of a " +
		"line takes precedence. The SKU of a product with variants does not name one of them: such a line is assigned, " +
		"and an assignment to such a product or to a variant is remembered, for the `sku` together with the `title`. " +
		"`deleteOrderAssignment` deletes the assignment.",
	Request: `{"product_id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61","pieces":2}`,
	Errors:  []*server.Error{errUnknownOfLine, errLineAssigned},
}

func (h handlers) assign(ctx context.Context, r *server.Request[LineAssignment]) (server.OK[Order], error) {
	id, line, in := r.ID("id"), r.ID("line_id"), &r.In
	pieces := in.Pieces.Or(1)
	order := selectOrder(id)
	var product *string
	var assigned, tooMany bool
	found := db.SQL(`
		select (select p.id::text from `+catalog.Named("$3::uuid", "$4::text")+` p),
			l.item_id is not null or l.ignored or l.quantity = 0, l.quantity::bigint * $5 > 1000000
		from order_lines l
		where l.id = $2 and l.order_id = $1 and exists (select from orders o where o.id = $1 and o.hidden_at is null)`,
		id, line, in.ProductID.Arg(), in.SKU.Arg(), pieces).Into(&product, &assigned, &tooMany)
	var waiting []string
	err := h.db.Tx(ctx, func(ctx context.Context) error {
		// The lock serializes requests for the same line, whatever the order in which they match other orders.
		if err := server.Found(found, h.db.Write(ctx, db.Lock("order assignments"), found)); err != nil {
			return err
		}
		switch {
		case assigned:
			return errLineAssigned
		case in.Ignore.Or(false):
		case product == nil && in.ProductID.IsNull():
			return errUnknownOfLine.With(server.WithValue("sku", in.SKU)).On("sku")
		case product == nil:
			return errUnknownOfLine.With("product_id").On("product_id")
		case tooMany:
			return server.Invalid("pieces", "must not exceed 1,000,000 for all units of the line")
		}
		if in.Ignore.Or(false) {
			product = nil
		}
		if err := h.db.Write(ctx,
			db.SQL(`
				insert into order_assignments (id, title, sku, product_id, pieces, with_title)
				select $2, l.title, l.sku, $3::uuid, case when $3::uuid is not null then $4::int end, coalesce(l.sku <> ''
					and exists (select from products p
						where (p.id = $3 or p.sku_key = lower(l.sku collate "und-x-icu") collate "C" and p.hidden_at is null)
							and (p.variant_of is not null
								or exists (select from products v where v.variant_of = p.id and v.hidden_at is null))), false)
				from order_lines l where l.id = $1
				on conflict (tenant_id, match_key) do update set title = excluded.title, sku = excluded.sku,
					product_id = excluded.product_id, pieces = excluded.pieces, updated_at = now()`,
				line, value.NewID(), product, pieces),
			db.SQL(`
				select coalesce(array_agg(distinct o.order_id), '{}')::text[]
				from (
					select l.order_id from order_lines l
					where l.match_key = (select s.match_key from order_lines s where s.id = $1)
						and l.item_id is null and not l.ignored and l.quantity > 0
				) o`, line).Into(&waiting),
		); err != nil {
			return err
		}
		return h.db.Write(ctx, db.SQL(`select match_order_lines($1::uuid[])::text`, waiting), order)
	})
	return answer(order, err)
}

// OrderAssignment is the product that a person assigned to lines of orders.
type OrderAssignment struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Title     string          `json:"title" rule:"notNull"`
	SKU       string          `json:"sku"`
	WithTitle bool            `json:"with_title" rule:"notNull"`
	ProductID value.UUID      `json:"product_id"`
	Product   string          `json:"product_name" rule:"unsorted"`
	Pieces    int64           `json:"pieces"`
	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
	UpdatedAt value.Timestamp `json:"updated_at" rule:"notNull"`
}

// AssignmentFilter selects assignments.
type AssignmentFilter struct {
	ProductID value.Optional[value.UUID] `query:"product_id"`
}

var assignmentsTag = &server.Tag{
	Name: "order-assignments", Fields: fields,
	Description: "The products that people have assigned to lines of orders.",
}

var listAssignmentsDoc = &server.Doc{
	ID: "listOrderAssignments", Tag: assignmentsTag, Summary: "List assignments of lines",
	Description: "Returns the assignments of `assignOrderLine`. An assignment without a product is for lines that " +
		"the farm does not print.",
}

func (f AssignmentFilter) list() *server.List {
	l := server.NewList("order_assignments", `id, title, sku, with_title, product_id,
		(select p.name from products p where p.id = product_id) as product_name, pieces, created_at, updated_at`, "", "")
	l.WhereEqual("product_id", f.ProductID)
	return l
}

var deleteAssignmentDoc = &server.Doc{
	ID: "deleteOrderAssignment", Tag: assignmentsTag, Summary: "Delete an assignment of lines",
	Description: "Lines of later orders with this SKU or title have no product until one is assigned. Items that " +
		"were created from lines stay; `removeOrderItem` removes them.",
}

func (h handlers) deleteAssignment(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	deleted := db.SQL(`delete from order_assignments where id = $1 returning id`, r.ID("id"))
	return nil, server.Found(deleted, h.db.Write(ctx, deleted))
}
