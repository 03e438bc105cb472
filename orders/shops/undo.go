package shops

import (
	"context"
	"encoding/json"
	"reflect"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/orders"
	"spoolwright/transfer"
)

// usesOfProduct selects what names the product $1, besides products.
const usesOfProduct = `select from order_items where product_id = $1 union all
	select from run_items where product_id = $1 union all select from piece_entries where product_id = $1`

// undoOrders describes how the import of orders is undone. The next file with an order that was removed creates it
// again.
var undoOrders = imports.Undoable{
	Table: "orders", Restore: restoreOrders,
	Uses: `select from order_items i where i.order_id = $1 and (i.delivered > 0
			or exists (select from run_items r where r.order_item_id = i.id)) union all
		select from piece_entries where order_id = $1 union all select from shop_orders where order_id = $1`,
	Forget: `delete from file_orders where order_id = any ($1::uuid[])`,
}

// storedOrder is an order with what an import may have changed in it.
type storedOrder struct {
	ID, Source, File, Merged  string // File is the reference in files
	Reference, Customer, Due  string
	Notes, Currency           string
	Carrier, Tracking         string
	Included                  *bool
	Cancelled, Hidden, OfShop bool
	Lines                     []struct {
		Key, Title, SKU string
		Quantity        int64
		Edited          bool
	}
}

// restoreOrders gives orders the state of the files before an import, except for what was changed since.
func restoreOrders(
	ctx context.Context, d *db.DB, changes []*imports.Change,
) (done imports.Undone, last *db.Stmt, err error) {
	var ids []string
	for _, c := range changes {
		ids = append(ids, c.Item)
	}
	stored := db.SQL(`
		select o.id, f.source, f.reference as file, convert_from(f.merged, 'UTF8') as merged,
			coalesce(o.reference, '') as reference, coalesce(o.customer, '') as customer, coalesce(o.due_date::text, '') as due,
			coalesce(o.notes, '') as notes, coalesce(o.carrier, '') as carrier, coalesce(o.tracking_number, '') as tracking,
			coalesce(o.currency, '') as currency, o.prices_include_tax as included, o.status = 'cancelled' as cancelled,
			o.hidden_at is not null as hidden, exists (select from shop_orders s where s.order_id = o.id) as ofshop, (
				select coalesce(json_agg(json_build_object('key', l.shop_line, 'title', l.title, 'sku', coalesce(l.sku, ''),
					'quantity', l.quantity, 'edited', i.id is not null and (i.delivered > 0
						or (i.withdrawn_at is null) <> (l.quantity > 0)
						or l.quantity > 0 and i.quantity <> least(l.quantity::bigint * l.pieces, 1000000)
						or i.line_price is distinct from l.line_price))), '[]')
				from order_lines l left join order_items i on i.id = l.item_id where l.order_id = o.id
			) as lines
		from orders o left join file_orders f on f.order_id = o.id
		where o.id = any ($1::uuid[]) order by o.source, o.reference, f.source, f.reference`, ids)
	err = d.Write(ctx, db.SQL(`
		select count(*) from (
			select from file_orders where order_id = any ($1::uuid[]) order by source, reference for update
		) locked`, ids), orders.LockAll(ids), stored)
	if err != nil {
		return done, nil, err
	}
	var all []storedOrder
	if err := json.Unmarshal(stored.Array(), &all); err != nil {
		return done, nil, err
	}
	byID := map[string]*storedOrder{}
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	var syncs []*orders.ShopOrder
	var rows []map[string]any
	for _, c := range changes {
		s := byID[c.Item]
		if s == nil { // it was deleted with the samples of the farm
			done.Leave(c, nil, "it was removed since")
			continue
		}
		name := transfer.Stored{"reference": s.Reference}
		switch {
		case s.Hidden:
			done.Leave(c, name, "it was removed since")
			continue
		case s.OfShop:
			done.Leave(c, name, "it follows its shop")
			continue
		case len(c.After) == 0:
			done.LeaveChanged(c, name)
			continue
		case s.Merged != c.After.Text("merged"):
			done.Leave(c, name, "a later file changed it")
			continue
		}
		var before, after merged
		if err := json.Unmarshal([]byte(c.Before.Text("merged")), &before); err != nil {
			return done, nil, err
		}
		if err := json.Unmarshal([]byte(s.Merged), &after); err != nil {
			return done, nil, err
		}
		now := after.incoming(s.Source)
		if now == nil || before.incoming(s.Source) == nil {
			done.LeaveChanged(&imports.Change{Table: c.Table, Item: c.Item}, name)
			continue
		}
		c.Left = s.keep(&before, &after, now)
		next := before.incoming(s.Source)
		if !reflect.DeepEqual(next, now) {
			done.Restored++
			syncs = append(syncs, &orders.ShopOrder{ID: s.ID, Before: now, Now: *next})
		}
		if len(c.Left) > 0 {
			done.LeaveChanged(c, name)
		}
		text, err := json.Marshal(before)
		if err != nil {
			return done, nil, err
		}
		rows = append(rows, map[string]any{"source": s.Source, "file": s.File, "merged": string(text)})
	}
	if _, err := orders.SyncAll(ctx, d, syncs); err != nil {
		return done, nil, err
	}
	return done, nil, d.Write(ctx, db.SQL(`
		update file_orders f set merged = convert_to(n.merged, 'UTF8')
		from json_to_recordset($1::json) n (source text, file text, merged text)
		where f.source = n.source and f.reference = n.file`, db.Recordset(rows)))
}

// keep changes the state before an import so that it has the values after it which the order does not have any more.
// It returns their names.
func (s *storedOrder) keep(before, after *merged, now *orders.Incoming) (left []string) {
	was, to, from := before.incoming(s.Source), before.Order, after.Order
	keep := func(name string, changed, same bool, set func()) {
		if changed && !same {
			left = append(left, name)
			set()
		}
	}
	keep("customer", was.Customer != now.Customer, s.Customer == now.Customer, func() { to.Customer = from.Customer })
	keep("due_date", was.DueDate != now.DueDate, s.Due == now.DueDate, func() { to.Due = from.Due })
	keep("notes", was.Notes != now.Notes, s.Notes == now.Notes, func() { to.Note = from.Note })
	keep("carrier", was.Carrier != now.Carrier, s.Carrier == now.Carrier, func() { to.Carrier = from.Carrier })
	keep("tracking_number", was.Tracking != now.Tracking, s.Tracking == now.Tracking,
		func() { to.Tracking = from.Tracking })
	keep("currency", was.Currency != now.Currency, s.Currency == now.Currency, func() { to.Currency = from.Currency })
	keep("prices_include_tax", !reflect.DeepEqual(was.Included, now.Included), now.Included == nil ||
		reflect.DeepEqual(s.Included, now.Included), func() { to.Included = from.Included })
	keep("items", !reflect.DeepEqual(was.Lines, now.Lines), s.has(now.Lines), func() { to.Lines = from.Lines })
	keep("status", was.Cancelled != now.Cancelled, s.Cancelled == now.Cancelled, func() {
		to.Cancelled, to.Lines = from.Cancelled, from.Lines
	})
	return left
}

// has reports whether the order has the lines, and nobody has edited or delivered their items.
func (s *storedOrder) has(lines []orders.IncomingLine) bool {
	stored := map[string]orders.IncomingLine{}
	for _, l := range s.Lines {
		if !l.Edited {
			stored[l.Key] = orders.IncomingLine{Title: l.Title, SKU: l.SKU, Quantity: l.Quantity}
		}
	}
	for _, l := range lines {
		if stored[l.Key] != (orders.IncomingLine{Title: l.Title, SKU: l.SKU, Quantity: l.Quantity}) {
			return false
		}
	}
	return true
}
