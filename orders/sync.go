package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"

	"spoolwright/db"
	"spoolwright/value"
)

// Incoming is an order as a shop has it. Empty texts are missing.
type Incoming struct {
	Source    string         `json:"source"`
	Reference string         `json:"reference"`
	Customer  string         `json:"customer"`
	DueDate   string         `json:"due_date"` // YYYY-MM-DD
	Notes     string         `json:"notes"`
	Carrier   string         `json:"carrier"`
	Tracking  string         `json:"tracking_number"`
	Currency  string         `json:"currency"`           // an ISO 4217 code, or "" for the currency of the farm
	Included  *bool          `json:"prices_include_tax"` // nil if the shop does not send it: the settings apply
	Cancelled bool           `json:"cancelled"`
	Lines     []IncomingLine `json:"lines"` // with unique Keys
}

// IncomingLine is a line of an Incoming order. Its texts and numbers must be valid in an OrderLine, except that the
// quantity can be 0 for a line that was removed.
type IncomingLine struct {
	Key       string `json:"key"` // the id of the line in the shop
	Title     string `json:"title"`
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	LinePrice string `json:"line_price"` // the price of Priced units, after discounts; a decimal number, or ""
	Priced    int64  `json:"priced"`
	TaxAmount string `json:"tax_amount"` // the tax of LinePrice; a decimal number, or "" to apply the settings
}

// incomingRows returns the lines of an order as rows for json_to_recordset, as lineRows does.
func incomingRows(order string, lines []IncomingLine) []map[string]any {
	rows := make([]map[string]any, len(lines))
	for i, line := range lines {
		rows[i] = map[string]any{"order_id": order, "id": value.NewID(), "item": value.NewID(), "shop_line": line.Key,
			"title": line.Title, "sku": value.OrNil(line.SKU), "quantity": line.Quantity}
		if line.LinePrice != "" {
			rows[i]["line_price"], rows[i]["line_pieces"], rows[i]["tax_amount"] = line.LinePrice, line.Priced,
				value.OrNil(line.TaxAmount)
		}
	}
	return rows
}

// WithProduct returns the keys of the lines that have a product, by their SKU or by an assignment.
func WithProduct(ctx context.Context, d *db.DB, lines []IncomingLine) (map[string]bool, error) {
	var keys []string
	if err := d.Write(ctx, db.SQL(`
		select coalesce(array_agg(l.shop_line), '{}')
		from json_to_recordset($1::json) l (shop_line text, title text, sku text)
		cross join lateral order_line_match(l.title, l.sku) m where m.product_id is not null`,
		db.Recordset(incomingRows("", lines))).Into(&keys)); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, key := range keys {
		known[key] = true
	}
	return known, nil
}

// ShopOrder is an order of a shop, for SyncAll.
type ShopOrder struct {
	ID         string    // of the farm's order; "" if it does not exist yet, or is not known to come from the shop
	Before     *Incoming // the state in the shop at the last synchronization; nil without ID
	Now        Incoming
	CreateOnly bool // does not change an existing order with the source and the reference; ID stays ""
}

// Count returns a statement that counts created orders. It must be the last one of its transaction that locks a row.
func Count(created int) *db.Stmt { return db.SQL(`select count_rows('orders', $1)`, created) }

// Sync is SyncAll for one existing order.
func Sync(ctx context.Context, d *db.DB, id string, before *Incoming, now Incoming) error {
	_, err := SyncAll(ctx, d, []*ShopOrder{{ID: id, Before: before, Now: now}})
	return err
}

// SyncAll updates orders to their state in the shop, in the transaction of ctx, and sets their ids. For an order
// without an id, it creates one, or takes over the existing order with the source and the reference. The orders must
// be distinct. SyncAll returns the number of created orders, for Count.
//
// SyncAll changes only what the shop has changed since Before, so that changes by people stay. In an order that it
// takes over, it only fills empty fields. Runs stay as they are. As with cancelOrder, an order that is done is not
// cancelled.
func SyncAll(ctx context.Context, d *db.DB, all []*ShopOrder) (created int, err error) {
	var added, known []*ShopOrder
	for _, t := range all {
		if t.ID != "" {
			known = append(known, t)
			continue
		}
		t.ID = value.NewID() // lists sort orders created at the same time by their ids
		added = append(added, t)
	}
	// Concurrent transactions with the same new orders wait for each other, and therefore insert them in one sequence.
	slices.SortFunc(added, func(a, b *ShopOrder) int {
		return cmp.Or(cmp.Compare(a.Now.Source, b.Now.Source), cmp.Compare(a.Now.Reference, b.Now.Reference))
	})
	for batch := range batches(added) {
		existing, n, err := createNew(ctx, d, batch)
		if err != nil {
			return 0, err
		}
		created += n
		for _, t := range batch {
			switch id := existing[t.ID]; {
			case id != "" && t.CreateOnly:
				t.ID = ""
			case id != "":
				t.ID = id
				known = append(known, t)
			}
		}
	}
	return created, updateExisting(ctx, d, known)
}

// batches divides orders into parts of about 1,000 rows: orders and lines.
func batches(all []*ShopOrder) iter.Seq[[]*ShopOrder] {
	return func(yield func([]*ShopOrder) bool) {
		start, rows := 0, 0
		for i, t := range all {
			n := 1 + len(t.Now.Lines)
			if rows > 0 && rows+n > 1000 {
				if !yield(all[start:i]) {
					return
				}
				start, rows = i, 0
			}
			rows += n
		}
		if start < len(all) {
			yield(all[start:])
		}
	}
}

// createNew creates orders, and returns their number. An order whose source and reference exist already is not
// created: existing maps its new id to the id of the existing order.
func createNew(ctx context.Context, d *db.DB, batch []*ShopOrder) (existing map[string]string, created int, err error) {
	var orders, lines []map[string]any
	for _, t := range batch {
		status := "received"
		if t.Now.Cancelled {
			status = "cancelled"
		}
		orders = append(orders, map[string]any{"id": t.ID, "source": value.OrNil(t.Now.Source),
			"reference": value.OrNil(t.Now.Reference), "customer": value.OrNil(t.Now.Customer),
			"due_date": value.OrNil(t.Now.DueDate), "notes": value.OrNil(t.Now.Notes), "carrier": value.OrNil(t.Now.Carrier),
			"tracking": value.OrNil(t.Now.Tracking), "status": status, "currency": value.OrNil(t.Now.Currency),
			"included": t.Now.Included})
		lines = append(lines, incomingRows(t.ID, t.Now.Lines)...)
	}
	rows := db.Recordset(orders)
	known := db.SQL(`
		select n.id, o.existing
		from json_to_recordset($1::json) n (id uuid, source text, reference text)
		cross join lateral (
			select o.id as existing from orders o where coalesce(o.source, '') = coalesce(n.source, '')
				and o.reference = n.reference and o.reference <> '' and o.hidden_at is null
		) o
		where o.existing <> n.id`, rows)
	// This content differs from the content of every request.
	err = d.Write(ctx, db.SQL(`
		with line as materialized (`+matchedLines("$2")+`), added as (
			insert into orders (id, source, reference, customer, due_date, notes, carrier, tracking_number, status, content,
				unassigned_count, `+orderTerms+`)
			select o.id, o.source, o.reference, o.customer, o.due_date, o.notes, o.carrier, o.tracking, o.status,
				sha256(convert_to('of a shop ' || o.id, 'UTF8')), coalesce(u.lines, 0), o.currency, x.rate_now, x.since,
				t.sales_tax_percent, coalesce(o.included, t.prices_include_tax)
			from json_to_recordset($1::json) o (n int, id uuid, source text, reference text, customer text,
				due_date date, notes text, carrier text, tracking text, status text, currency text, included boolean)
			cross join tenants t
			cross join lateral order_exchange(o.currency, null, null) x
			left join (
				select l.order_id, count(*) as lines from line l
				where l.item_id is null and not l.ignored and l.quantity > 0 group by l.order_id
			) u on u.order_id = o.id
			order by o.n
			on conflict (tenant_id, coalesce(source, ''), reference) where hidden_at is null and reference <> '' do nothing
			returning id, `+orderTerms+`
		), `+newLines+`
		select count(*) from added`, rows, db.Recordset(lines)).Into(&created), known)
	if err != nil {
		return nil, 0, err
	}
	var found []struct{ ID, Existing string }
	if err := json.Unmarshal(known.Array(), &found); err != nil {
		return nil, 0, err
	}
	existing = map[string]string{}
	for _, f := range found {
		existing[f.ID] = f.Existing
	}
	return existing, created, nil
}

// LockAll returns a statement that locks orders in the order of their ids, like settle_orders, so that transactions
// with several of the same orders do not deadlock.
func LockAll(ids []string) *db.Stmt {
	return db.SQL(`
		select count(*) from (select distinct u.id from unnest($1::uuid[]) u (id) order by u.id) u
		cross join lateral (select from orders o where o.id = u.id for no key update) o`, ids)
}

// updateExisting changes orders. It locks all of them first.
func updateExisting(ctx context.Context, d *db.DB, all []*ShopOrder) error {
	var ids []string
	for _, t := range all {
		ids = append(ids, t.ID)
	}
	locked := []*db.Stmt{LockAll(ids)}
	for batch := range batches(all) {
		var rows []map[string]any
		var ids, cancelled, reopened []string
		for _, t := range batch {
			was := Incoming{}
			if t.Before != nil {
				was = *t.Before
			}
			rows = append(rows, map[string]any{"id": t.ID, "follows": t.Before != nil,
				"customer": value.OrNil(t.Now.Customer), "new_customer": t.Now.Customer != was.Customer,
				"due_date": value.OrNil(t.Now.DueDate), "new_due_date": t.Now.DueDate != was.DueDate,
				"notes": value.OrNil(t.Now.Notes), "new_notes": t.Now.Notes != was.Notes,
				"carrier": value.OrNil(t.Now.Carrier), "new_carrier": t.Now.Carrier != was.Carrier,
				"tracking": value.OrNil(t.Now.Tracking), "new_tracking": t.Now.Tracking != was.Tracking,
				"currency": value.OrNil(t.Now.Currency), "new_currency": t.Now.Currency != was.Currency,
				"included": t.Now.Included, "new_included": t.Now.Included != nil && (was.Included == nil ||
					*t.Now.Included != *was.Included),
				"lines": db.Recordset(incomingRows(t.ID, t.Now.Lines))})
			ids = append(ids, t.ID)
			switch {
			case t.Now.Cancelled && !was.Cancelled:
				cancelled = append(cancelled, t.ID)
			case !t.Now.Cancelled && was.Cancelled:
				reopened = append(reopened, t.ID)
			}
		}
		text := db.Recordset(rows)
		stmts := append(locked,
			db.SQL(`
				update orders o set updated_at = now(),
					customer = case when n.new_customer and (n.follows or o.customer is null) then n.customer
						else o.customer end,
					due_date = case when n.new_due_date and (n.follows or o.due_date is null) then n.due_date
						else o.due_date end,
					notes = case when n.new_notes and (n.follows or o.notes is null) then n.notes else o.notes end,
					carrier = case when n.new_carrier and (n.follows or o.carrier is null) then n.carrier
						else o.carrier end,
					tracking_number = case when n.new_tracking and (n.follows or o.tracking_number is null) then n.tracking
						else o.tracking_number end,
					prices_include_tax = case when n.new_included and (n.follows or l.is_line) then n.included
						else o.prices_include_tax end,
					currency = c.currency, exchange_rate = x.rate_now, exchange_date = x.since
				from json_to_recordset($1::json) n (id uuid, follows boolean, customer text, new_customer boolean,
					due_date date, new_due_date boolean, notes text, new_notes boolean, carrier text, new_carrier boolean,
					tracking text, new_tracking boolean, currency text, new_currency boolean,
					included boolean, new_included boolean)
				join orders b on b.id = n.id
				cross join lateral (select exists (select from order_lines l where l.order_id = n.id) as is_line) l
				cross join lateral (
					select case when n.new_currency and (n.follows or b.currency is null) then n.currency
						else b.currency end as currency
				) c
				cross join lateral order_exchange(c.currency, case when c.currency = b.currency then b.exchange_rate end,
					case when c.currency = b.currency then b.exchange_date end) x
				where o.id = n.id and o.id = any ($2::uuid[]) and (n.new_customer or n.new_due_date or n.new_notes
					or n.new_carrier or n.new_tracking or n.new_currency or n.new_included)`,
				text, ids),
			db.SQL(`
				select count(sync_order_lines(n.id, n.lines::json)::text)
				from json_to_recordset($1::json) n (id uuid, lines text)`, text))
		if cancelled != nil {
			stmts = append(stmts, db.SQL(`update orders set status = 'cancelled', updated_at = now()
				where id = any ($1::uuid[]) and status in ('received', 'in_production')`, cancelled))
		}
		if reopened != nil {
			stmts = append(stmts, db.SQL(`update orders set status = 'received', updated_at = now()
				where id = any ($1::uuid[]) and status = 'cancelled'`, reopened),
				db.SQL(`select settle_orders($1::uuid[])::text`, reopened))
		}
		if err := d.Write(ctx, stmts...); err != nil {
			return err
		}
		locked = nil
	}
	return nil
}
