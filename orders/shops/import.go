package shops

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"time"

	"spoolwright/auth/accounts"
	"spoolwright/catalog"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// ImportedOrders is the result of an import of orders.
type ImportedOrders struct {
	transfer.ImportCounts
	ImportID *value.UUID     `json:"import_id"`
	Rows     []ImportedOrder `json:"rows"`
}

// ImportedOrder is the result of an import for an order.
type ImportedOrder struct {
	Row       int64                 `json:"row" rule:"notNull"`
	ID        *value.UUID           `json:"id"`
	Source    *string               `json:"source"`
	Reference string                `json:"reference" rule:"notNull"`
	Action    transfer.ImportAction `json:"action" rule:"notNull"`
	Reason    *SkipReason           `json:"reason" rule:"named=OrderSkipReason"`
}

// SkipReason is the reason why an import left out an order.
type SkipReason string

// Enum returns all reasons.
func (SkipReason) Enum() []string { return []string{"shipped", "cancelled", "unpaid"} }

// maxFileRows is the maximum number of rows of an import through the API.
const maxFileRows = 10_000

const importExample = "Order,Customer,SKU,Item,Quantity,Price,Due\n" +
	"1042,Ada,DRG-001,Dragon,2,12.50,2026-02-01\n1042,,HOOK-01,Coat hook,1,4.00,\n"

var importOrdersDoc = &server.Doc{
	ID: "importOrders", Tag: withFileFields, Summary: "Import orders from CSV",
	Description: "Creates or changes the orders of a CSV file, all or none, by the rules for the messages of a shop. " +
		"Rows with the same `source` and `reference` are the lines of one order. Etsy's order items, the orders of " +
		"Shopify, those of WooCommerce from its usual plugins, and the order reports of Amazon are recognized by " +
		"their titles. Any other file can have the columns " + fileFields + ".\n\n" +
		"The `source` of orders comes from a column or a default. Otherwise it is the name of the connection to a " +
		"shop of the program that wrote the file, if there is exactly one, or else `etsy`, `shopify`, `woocommerce` " +
		"or `amazon`. If it is the name of a connection, the orders are those of the connection. Its messages take " +
		"precedence over the file, except that a later cancellation in the file counts.\n\nA line becomes an item if " +
		"a product has its `sku`, or if it has an assignment from `assignOrderLine`; the others stay in " +
		"`unassigned_lines`. Importing a file again changes only what has changed in the file. Changes by people stay " +
		"until the file changes the same value.\n\nA new order is `skipped` if the file marks it as shipped, canceled " +
		"or not paid; `reason` has the cause. Lines that are already shipped have the quantity 0. The status of an " +
		"existing order changes only if it is canceled.\n\n" + transfer.ImportRules(maxFileRows),
}

var checkOrdersDoc = &server.Doc{ID: "checkOrderImport", Tag: withFileFields, Summary: "Check a file of orders",
	Description: transfer.CheckDescription}

var withFileFields = orders.Tag.With(fields, transfer.Fields)

// fileFields are the fields of a file, for texts.
var fileFields = "`" + strings.Join(fileSheets.Targets(), "`, `") + "`"

// FileRoutes are the operations that import orders from files, and the undo of imports.
func FileRoutes(d *db.DB) []server.Route {
	return []server.Route{
		server.Op("POST /api/v1/orders/import", server.Write, fileImport.FileEndpoint(d), importOrdersDoc),
		server.Op("POST /api/v1/orders/import/check", server.Write, fileImport.FileCheckEndpoint(d), checkOrdersDoc),
		server.Op("POST /api/v1/imports/{id}/undo", server.Write,
			imports.Undo(d, production.RunsOfSpool, catalog.ProductsOfFilament,
				append(catalog.Undo(usesOfProduct), undoOrders)...), imports.UndoDoc),
	}
}

// Commands are the commands for files of orders.
var Commands = []cli.Command{{
	Name: "import orders", Args: transfer.FileArgs, Needs: cli.Farm,
	Help: "create or change orders from CSV files\n\n" +
		"Etsy's order items and the orders of Shopify and WooCommerce are recognized by their first line. For other\n" +
		"files, --map sets the field of a column that is not recognized, and --default source=NAME the shop of the\n" +
		"orders. Rows with the same source and reference are one order. All orders of a file are imported, or none,\n" +
		"except with --skip-invalid. New orders that are shipped, canceled or not paid are left out. Importing a file\n" +
		"again changes nothing twice.\n\n" +
		"FILE may be - for standard input. Each of several files is imported separately: a file that cannot be\n" +
		"imported does not stop the others, and the exit status is then 1.",
	Setup: func(flags *flag.FlagSet) cli.Run {
		how, dryRun := transfer.FileFlags(flags)
		return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
			return cli.EachOperand(ctx, c, func(c *cli.Call) error { return importOrders(ctx, c, *how, *dryRun) })
		})
	},
}}

// importOrders imports the file that the command's operand names.
func importOrders(ctx context.Context, c *cli.Call, how transfer.Reading, dryRun bool) error {
	file, err := cli.OpenOperand(c, cli.OpenFile)
	if err != nil {
		return err
	}
	defer file.Close()
	return fileImport.Run(ctx, c, file, how, dryRun)
}

var fileImport = transfer.Import[orderFile, ImportedOrders]{
	Resources: "orders", Most: maxFileRows, Example: importExample, Read: readFile, Write: writeFile,
	Error: func(err error) error { return err }, Convert: convertFile, Good: goodTitles, Program: fileProgram,
}

// mergeFile merges an order of a file that has had no messages. It ignores a file that is known to be older. A shipped
// line keeps its quantity; a shipped line that was not known has nothing to print.
func (s *merged) mergeFile(o *fileOrder) {
	if s.Order != nil && o.updated.Before(s.Updated) {
		return
	}
	known := map[string]line{}
	if s.Order != nil {
		for _, l := range s.Order.Lines {
			known[l.ID] = l
		}
	}
	next := o.order
	next.Lines = slices.Clone(o.order.Lines)
	for i := range next.Lines {
		if l := &next.Lines[i]; o.shipped[i] {
			old := known[l.ID]
			l.Quantity, l.Left = old.Quantity, -1
			if old.ID != "" {
				l.Left = old.Left
			}
		}
	}
	s.Order, s.Updated = &next, o.updated
	s.Wanted = s.Wanted || next.isWanted()
}

// mergeNewer merges an order of a file that has had messages. A file has no refunds and no ids of lines, so only the
// state of the order counts, and only if the file is newer.
func (s *merged) mergeNewer(o *fileOrder) (changed bool) {
	if !o.updated.After(s.Updated) || o.order.Cancelled == s.Order.Cancelled && o.order.Waiting == s.Order.Waiting {
		return false
	}
	next := *s.Order
	next.Cancelled, next.Waiting = o.order.Cancelled, o.order.Waiting
	s.Order, s.Updated = &next, o.updated
	s.Wanted = s.Wanted || next.isWanted()
	return true
}

// allShipped reports whether all lines of the order are shipped.
func (o *fileOrder) allShipped() bool { return !slices.Contains(o.shipped, false) }

// fileState is an order of a file, with the stored state of the order.
type fileState struct {
	origin *fileOrder
	fileOrder
	orderID string // "" if the farm does not have the order
	file    merged // of earlier files
	was     string // the text of file, or ""
	shop    *shopState
	update  *orders.ShopOrder
	reason  SkipReason // or ""

	fromFile bool // whether update comes from files, not from messages of the shop
}

// shopState is a row of shop_orders.
type shopState struct {
	ShopID  string  `json:"shop_id"`
	Number  string  `json:"number"`
	OrderID *string `json:"order_id"`
	Merged  string  `json:"merged"`
	Applied *string `json:"applied"`
	merged  merged
}

// writeFile writes the orders of a file in the transaction of ctx.
func writeFile(ctx context.Context, d *db.DB, f *orderFile, dryRun bool) (result ImportedOrders, err error) {
	result.DryRun, result.Rows = dryRun, make([]ImportedOrder, len(f.orders))
	if len(f.orders) == 0 {
		return result, d.CheckActor(ctx)
	}
	all := make([]*fileState, len(f.orders))
	for i, o := range f.orders {
		all[i] = &fileState{origin: o}
	}
	// Orders that get their first message before they are locked are processed again.
	pending, created := all, 0
	var history imports.History
	for tries := 0; len(pending) > 0 && tries < 5; tries++ {
		if err := readStates(ctx, d, pending); err != nil {
			return result, err
		}
		for _, s := range pending {
			if err := s.decide(); err != nil {
				return result, err
			}
		}
		if dryRun {
			break
		}
		var n int
		if pending, n, err = syncStates(ctx, d, pending, &history); err != nil {
			return result, err
		}
		created += n
	}
	if !dryRun {
		for _, s := range pending { // which had new messages at each try
			s.update = nil
		}
	}
	taken := false
	for i, s := range all {
		row := &result.Rows[i]
		row.Row, row.Reference = int64(s.line), s.order.Reference
		if s.source != "" {
			row.Source = &s.source
		}
		switch {
		case s.reason != "":
			row.Action, row.Reason = "skipped", &s.reason
		case s.update == nil:
			row.Action = "unchanged"
		case s.orderID != "":
			row.Action = "updated"
		default:
			row.Action = "created"
		}
		if s.update != nil {
			s.orderID, taken = cmp.Or(s.update.ID, s.orderID), true
		}
		if id := value.UUID(s.orderID); id != "" {
			row.ID = &id
		}
		result.Count(row.Action)
	}
	if dryRun || !taken {
		return result, d.CheckActor(ctx)
	}
	result.Last = orders.Count(created)
	result.ImportID, err = history.Save(ctx, d, "orders", result.Created, result.Updated)
	return result, err
}

// syncStates updates orders. It returns those that have had messages in the meantime, and how many it has created.
func syncStates(
	ctx context.Context, d *db.DB, all []*fileState, history *imports.History,
) (again []*fileState, created int, err error) {
	var added, known []*orders.ShopOrder
	var ids []string
	for _, s := range all {
		switch t := s.update; {
		case t == nil:
		case t.ID == "":
			t.CreateOnly = true
			added = append(added, t)
		case s.shop == nil:
			ids = append(ids, t.ID)
		}
	}
	if created, err = orders.SyncAll(ctx, d, added); err != nil {
		return nil, 0, err
	}
	var moved []string
	if ids != nil {
		if err := d.Write(ctx, orders.LockAll(ids),
			db.SQL(`
				select coalesce(array_agg(u.id::text), '{}') from unnest($1::uuid[]) u (id)
				where exists (select from shop_orders s where s.order_id = u.id)`, ids).Into(&moved)); err != nil {
			return nil, 0, err
		}
	}
	isMoved := map[string]bool{}
	for _, id := range moved {
		isMoved[id] = true
	}
	var taken []*fileState
	for _, s := range all {
		switch t := s.update; {
		case t == nil:
		case t.ID == "" || s.shop == nil && isMoved[t.ID]:
			again = append(again, s)
		default:
			taken = append(taken, s)
			if !t.CreateOnly {
				known = append(known, t)
			}
		}
	}
	if _, err := orders.SyncAll(ctx, d, known); err != nil {
		return nil, 0, err
	}
	return again, created, writeStates(ctx, d, taken, history)
}

// decide determines the update of an order, or the reason to skip it.
func (s *fileState) decide() error {
	if s.shop != nil && s.shop.merged.Order != nil {
		if s.shop.OrderID != nil {
			return s.decideShop()
		}
		// A file that may be older does not change that the shop has nothing to print.
		if old := &s.shop.merged; (old.Order.Cancelled || old.Deleted.After(old.Updated)) && !s.updated.After(old.Updated) {
			s.reason = "cancelled"
			return nil
		} else if !s.updated.After(old.Updated) && !old.Order.Waiting && !old.Order.isWanted() {
			s.reason = "shipped"
			return nil
		}
	}
	var before *orders.Incoming
	if s.file.Order != nil {
		before = s.file.incoming(s.source)
	} else if s.orderID != "" { // taken over: its shipped lines are in the order, too
		if s.allShipped() {
			return nil
		}
		s.shipped = make([]bool, len(s.shipped))
		s.file.Wanted = true
	}
	s.file.mergeFile(&s.fileOrder)
	now := s.file.incoming(s.source)
	switch {
	case now == nil && s.order.Cancelled,
		now != nil && s.orderID == "" && now.Cancelled && !slices.Contains(s.shipped, true):
		s.reason = "cancelled"
		return nil
	case now == nil:
		s.reason = "unpaid"
		return nil
	case s.orderID == "" && now.Cancelled:
		s.reason = "shipped"
		return nil
	}
	if before != nil {
		old, err := json.Marshal(before)
		if err != nil {
			return err
		}
		next, err := json.Marshal(now)
		if err != nil || bytes.Equal(old, next) {
			return err
		}
	}
	s.update = &orders.ShopOrder{ID: s.orderID, Before: before, Now: *now}
	s.fromFile = true
	return nil
}

// decideShop is decide for an order that messages of the shop created.
func (s *fileState) decideShop() error {
	s.orderID = *s.shop.OrderID
	if s.shop.Applied == nil || !s.shop.merged.mergeNewer(&s.fileOrder) {
		return nil
	}
	var before *orders.Incoming
	if err := json.Unmarshal([]byte(*s.shop.Applied), &before); err != nil {
		return err
	}
	if now := s.shop.merged.incoming(before.Source); now != nil {
		now.Lines = before.Lines
		s.update = &orders.ShopOrder{ID: s.orderID, Before: before, Now: *now}
	}
	return nil
}

// readStates reads and locks the stored states of orders. Like messages, it locks the states from messages first, in
// the order of their keys.
func readStates(ctx context.Context, d *db.DB, all []*fileState) error {
	for _, s := range all {
		*s = fileState{origin: s.origin, fileOrder: *s.origin}
	}
	connections := db.SQL(`select id, name from shops`)
	if err := d.Read(ctx, connections); err != nil {
		return err
	}
	var named []struct{ ID, Name string }
	if err := json.Unmarshal(connections.Array(), &named); err != nil {
		return err
	}
	var shop []*fileState
	shopOf := map[*fileState]string{}
	first := map[[2]string]int{} // the line of each order
	invalid := transfer.RowProblems{}
	for _, s := range all {
		for _, c := range named {
			if s.source != "" && strings.EqualFold(c.Name, s.source) {
				s.source, shopOf[s] = c.Name, c.ID
				shop = append(shop, s)
				break
			}
		}
		key := [2]string{s.source, s.order.Reference}
		if line := first[key]; line > 0 {
			invalid.Add(s.line, "source", "differs from that of line %d only in its letters: spell both alike", line)
		}
		first[key] = s.line
	}
	if err := invalid.Err(); err != nil {
		return err
	}
	// Orders are found by their id in the shop, by their number, which is the id in WooCommerce, or by the order of the
	// farm.
	var rows []map[string]any
	for _, s := range shop {
		rows = append(rows, map[string]any{"shop": shopOf[s], "id": s.number, "source": s.source,
			"reference": s.order.Reference})
	}
	var keys []map[string]any
	found := map[string][]*fileState{}
	for start := 0; start < len(rows); start += transfer.BatchRows {
		batch := rows[start:min(start+transfer.BatchRows, len(rows))]
		stmt := db.SQL(`
			select n.n, k.shop_id, k.number
			from json_to_recordset($1::json) n (n int, shop uuid, id text, source text, reference text)
			cross join lateral (
				(select o.shop_id, o.number, 1 as place from shop_orders o where o.shop_id = n.shop and o.number = n.id
				union all
				select s.shop_id, s.number, 2 from orders o join shop_orders s on s.order_id = o.id
				where coalesce(o.source, '') = n.source and o.reference = n.reference and o.reference <> ''
					and o.hidden_at is null
				union all
				select o.shop_id, o.number, 3 from shop_orders o where o.shop_id = n.shop and o.number = n.reference)
				order by place limit 1
			) k
			order by n.n`, db.Recordset(batch))
		if err := d.Read(ctx, stmt); err != nil {
			return err
		}
		var read []struct {
			N      int
			ShopID string `json:"shop_id"`
			Number string
		}
		if err := json.Unmarshal(stmt.Array(), &read); err != nil {
			return err
		}
		for _, r := range read {
			key := r.ShopID + " " + r.Number
			if found[key] == nil {
				keys = append(keys, map[string]any{"shop": r.ShopID, "number": r.Number})
			}
			found[key] = append(found[key], shop[start+r.N])
		}
	}
	if err := lockShopOrders(ctx, d, keys, found); err != nil {
		return err
	}
	return readFiles(ctx, d, all)
}

// lockShopOrders reads and locks orders of shops with the keys shop and number, in the order of their keys, and enters
// them in the states that found has for "shop number".
func lockShopOrders(ctx context.Context, d *db.DB, keys []map[string]any, found map[string][]*fileState) error {
	slices.SortFunc(keys, func(a, b map[string]any) int {
		return strings.Compare(a["shop"].(string)+a["number"].(string), b["shop"].(string)+b["number"].(string))
	})
	for batch := range slices.Chunk(keys, transfer.BatchRows) {
		stmt := db.SQL(`
			select o.* from (
				select * from json_to_recordset($1::json) n (n int, shop uuid, number text) order by n
			) n
			cross join lateral (
				select shop_id, number, order_id, convert_from(merged, 'UTF8') as merged, convert_from(applied, 'UTF8') as applied
				from shop_orders where shop_id = n.shop and number = n.number for update
			) o`, db.Recordset(batch))
		if err := d.Write(ctx, stmt); err != nil {
			return err
		}
		var read []*shopState
		if err := json.Unmarshal(stmt.Array(), &read); err != nil {
			return err
		}
		for _, r := range read {
			if err := json.Unmarshal([]byte(r.Merged), &r.merged); err != nil {
				return err
			}
			for _, s := range found[r.ShopID+" "+r.Number] {
				s.shop = r
			}
		}
	}
	return nil
}

// readFiles reads and locks the states of orders from earlier files, and finds the orders.
func readFiles(ctx context.Context, d *db.DB, all []*fileState) error {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *fileState) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.order.Reference, b.order.Reference))
	})
	for batch := range slices.Chunk(sorted, transfer.BatchRows) {
		rows := make([]map[string]any, len(batch))
		for i, s := range batch {
			rows[i] = map[string]any{"source": s.source, "reference": s.order.Reference}
		}
		text := db.Recordset(rows)
		known := db.SQL(`
			select n.n, f.order_id, f.merged,
				exists (select from orders o where o.id = f.order_id and o.hidden_at is null) as shown
			from (
				select * from json_to_recordset($1::json) n (n int, source text, reference text) order by n
			) n
			cross join lateral (
				select order_id, convert_from(merged, 'UTF8') as merged from file_orders
				where source = n.source and reference = n.reference for update
			) f`, text)
		visible := db.SQL(`
			select n.n, o.id as order_id
			from json_to_recordset($1::json) n (n int, source text, reference text)
			cross join lateral (
				select o.id from orders o where coalesce(o.source, '') = n.source and o.reference = n.reference
					and o.reference <> '' and o.hidden_at is null
			) o`, text)
		if err := d.Write(ctx, known, visible); err != nil {
			return err
		}
		type found struct {
			N       int
			OrderID string `json:"order_id"`
			Merged  string
			Shown   bool
		}
		var orders, files []found
		if err := errors.Join(json.Unmarshal(visible.Array(), &orders), json.Unmarshal(known.Array(), &files)); err != nil {
			return err
		}
		for _, f := range orders {
			batch[f.N].orderID = f.OrderID
		}
		for _, f := range files {
			s := batch[f.N]
			if f.Shown || s.orderID == "" { // it may have been removed, and another order may have its number
				s.orderID = f.OrderID
			}
			if err := json.Unmarshal([]byte(f.Merged), &s.file); err != nil {
				return err
			}
			s.was = f.Merged
		}
	}
	return nil
}

// writeStates stores the states that the file has changed, and adds them to the history.
func writeStates(ctx context.Context, d *db.DB, all []*fileState, history *imports.History) error {
	var files, shops []map[string]any
	for _, s := range all {
		state := s.file
		if !s.fromFile {
			state = s.shop.merged
		}
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		changed := []string{"merged"}
		if !s.fromFile || s.was == "" { // messages follow the shop, and an order that was taken over is no file's
			changed = nil
		}
		if s.update.CreateOnly {
			history.Create("orders", s.update.ID)
		} else {
			history.Change("orders", transfer.Stored{"id": s.update.ID, "merged": s.was},
				map[string]any{"merged": string(text)}, changed...)
		}
		if s.fromFile {
			files = append(files, map[string]any{"source": s.source, "reference": s.order.Reference,
				"order_id": s.update.ID, "merged": string(text)})
			continue
		}
		applied, err := json.Marshal(s.update.Now)
		if err != nil {
			return err
		}
		shops = append(shops, map[string]any{"shop": s.shop.ShopID, "number": s.shop.Number, "merged": string(text),
			"applied": string(applied), "updated": state.Updated.Format(time.RFC3339Nano)})
	}
	for batch := range slices.Chunk(files, transfer.BatchRows) {
		if err := d.Write(ctx, db.SQL(`
			insert into file_orders as f (source, reference, order_id, merged)
			select n.source, n.reference, n.order_id, convert_to(n.merged, 'UTF8')
			from json_to_recordset($1::json) n (n int, source text, reference text, order_id uuid, merged text)
			order by n.n
			on conflict (tenant_id, source, reference) do update set order_id = excluded.order_id, merged = excluded.merged`,
			db.Recordset(batch))); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(shops, transfer.BatchRows) {
		if err := d.Write(ctx, db.SQL(`
			update shop_orders o set merged = convert_to(n.merged, 'UTF8'),
				applied = convert_to(n.applied, 'UTF8'),
				shop_updated_at = n.updated
			from json_to_recordset($1::json) n (shop uuid, number text, merged text, applied text, updated timestamptz)
			where o.shop_id = n.shop and o.number = n.number`, db.Recordset(batch))); err != nil {
			return err
		}
	}
	return nil
}
