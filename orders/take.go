package orders

import (
	"context"
	"crypto/sha256"

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
	Cancelled bool           `json:"cancelled"`
	Lines     []IncomingLine `json:"lines"` // each Key is there once
}

// IncomingLine is a line of an Incoming order. Its texts and numbers must be valid in an OrderLine, but the quantity
// can be 0 for a line of which nothing is left.
type IncomingLine struct {
	Key       string `json:"key"` // the id of the line in the shop
	Title     string `json:"title"`
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	UnitPrice string `json:"unit_price"` // a decimal number, or ""
}

// incomingRows returns the lines as an argument for json_to_recordset, as lineRows.
func incomingRows(lines []IncomingLine) string {
	rows := make([]map[string]any, len(lines))
	for i, line := range lines {
		rows[i] = map[string]any{"id": value.NewID(), "item": value.NewID(), "shop_line": line.Key, "title": line.Title,
			"sku": orNil(line.SKU), "quantity": line.Quantity, "unit_price": orNil(line.UnitPrice)}
	}
	return db.Recordset(rows)
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Take makes an order what the shop says now, in the transaction of ctx, and returns its id. Before is what the shop
// said when Take was last called for the order, or nil; id is then empty. Without an id, Take creates the order, or
// takes over the one with the source and the reference.
//
// Only what the shop has changed since then changes, so that what people change in the meantime stays. Runs stay as
// they are. An order that is done is not cancelled, as with cancelOrder.
func Take(ctx context.Context, d *db.DB, id string, before *Incoming, now Incoming) (string, error) {
	if id == "" {
		created, existing, err := takeNew(ctx, d, now)
		if err != nil || existing == "" {
			return created, err
		}
		id, before = existing, nil
	}
	was := Incoming{}
	if before != nil {
		was = *before
	}
	stmts := []*db.Stmt{
		db.SQL(`select id from orders where id = $1 for no key update`, id),
		db.SQL(`
			update orders o set updated_at = now(),
				customer = case when $2 and ($8 or o.customer is null) then $3 else o.customer end,
				due_date = case when $4 and ($8 or o.due_date is null) then $5::date else o.due_date end,
				notes = case when $6 and ($8 or o.notes is null) then $7 else o.notes end
			where o.id = $1 and ($2 or $4 or $6)`,
			id, now.Customer != was.Customer, orNil(now.Customer), now.DueDate != was.DueDate, orNil(now.DueDate),
			now.Notes != was.Notes, orNil(now.Notes), before != nil),
		db.SQL(`select take_order_lines($1, $2::json)::text`, id, incomingRows(now.Lines)),
	}
	switch {
	case now.Cancelled && !was.Cancelled:
		stmts = append(stmts, db.SQL(`update orders set status = 'cancelled', updated_at = now()
			where id = $1 and status in ('received', 'in_production')`, id))
	case !now.Cancelled && was.Cancelled:
		stmts = append(stmts, db.SQL(`update orders set status = 'received', updated_at = now()
			where id = $1 and status = 'cancelled'`, id), settle(id))
	}
	return id, d.Write(ctx, stmts...)
}

// takeNew creates an order. If another one has the source and the reference, it returns the id of that one as existing.
func takeNew(ctx context.Context, d *db.DB, now Incoming) (id, existing string, err error) {
	id = value.NewID()
	status := "received"
	if now.Cancelled {
		status = "cancelled"
	}
	content := sha256.Sum256([]byte("of a shop " + id)) // equal to that of no request
	known := db.SQL(`select o.id::text from orders o where coalesce(o.source, '') = coalesce($1, '') and o.reference = $2
		and o.reference <> '' and o.hidden_at is null and o.id <> $3`, orNil(now.Source), orNil(now.Reference), id).
		Into(&existing)
	err = d.Write(ctx, db.SQL(`
		with line as materialized (`+matchedLines("$9")+`), added as (
			insert into orders (id, source, reference, customer, due_date, notes, status, content, unassigned_count)
			select $1::uuid, $2, $3, $4, $5::date, $6, $7, $8::bytea,
				(select count(*) from line l where l.item_id is null and not l.ignored and l.quantity > 0)
			on conflict (tenant_id, coalesce(source, ''), reference) where hidden_at is null and reference <> '' do nothing
			returning id
		), `+newLines+`
		select id from added`,
		id, orNil(now.Source), orNil(now.Reference), orNil(now.Customer), orNil(now.DueDate), orNil(now.Notes), status,
		content[:], incomingRows(now.Lines)), known)
	return id, existing, err
}
