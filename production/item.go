package production

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// RunItem is a product to print in a run.
type RunItem struct {
	ID                    value.UUID                    `json:"id" rule:"readOnly,notNull"`
	ProductID             value.Optional[value.UUID]    `json:"product_id" rule:"notNull"`
	SKU                   value.Optional[string]        `json:"sku" rule:"writeOnly,notNull,insteadOf=product_id"`
	FileName              value.Optional[string]        `json:"file_name" rule:"writeOnly,notNull,insteadOf=product_id"`
	FileSHA256            value.Optional[string]        `json:"file_sha256" rule:"writeOnly,notNull,insteadOf=product_id"`
	ProductName           string                        `json:"product_name" rule:"readOnly,notNull"`
	OrderItemID           value.Optional[value.UUID]    `json:"order_item_id"`
	PartsFromStock        value.Optional[bool]          `json:"parts_from_stock" rule:"notNull"`
	Quantity              value.Optional[int64]         `json:"quantity" rule:"notNull,exclusiveMinimum=0,maximum=1000000"`
	SuccessfulQuantity    value.Optional[int64]         `json:"successful_quantity" rule:"maximum=1000000"`
	FailedQuantity        value.Optional[int64]         `json:"failed_quantity" rule:"maximum=1000000"`
	FailureReason         value.Optional[FailureReason] `json:"failure_reason"`
	EstimatedMaterialCost value.Optional[value.Decimal] `json:"estimated_material_cost" rule:"maximum=999999999"`
	EstimatedTotalCost    value.Optional[value.Decimal] `json:"estimated_total_cost" rule:"maximum=999999999"`
}

// ChangedRunItem is an item after a change.
type ChangedRunItem struct {
	RunItem
	Warnings []EndWarning `json:"warnings" rule:"readOnly,notNull"`
}

// productField returns the name of the field that names the product.
func (i *RunItem) productField() string {
	switch {
	case !i.SKU.IsNull():
		return "sku"
	case !i.FileName.IsNull():
		return "file_name"
	case !i.FileSHA256.IsNull():
		return "file_sha256"
	}
	return "product_id"
}

// ofFile reports whether a file names the product.
func (i *RunItem) ofFile() bool { return !i.FileName.IsNull() || !i.FileSHA256.IsNull() }

// product returns a subquery that finds the product that the item names, and adds its arguments to args.
func (i *RunItem) product(args *[]any) string {
	add := func(v any, kind string) string {
		*args = append(*args, v)
		return fmt.Sprintf("$%d::%s", len(*args), kind)
	}
	if i.ofFile() {
		return catalog.OfFile(add(i.fileName(), "text"), add(i.FileSHA256.Arg(), "text"))
	}
	return catalog.Named(add(i.ProductID.Arg(), "uuid"), add(i.SKU.Arg(), "text"))
}

// fileName returns the name of the file without the folders that printers put before it, or nil.
func (i *RunItem) fileName() any {
	if i.FileName.IsNull() {
		return nil
	}
	return catalog.BaseName(*i.FileName.Value)
}

const itemColumns = `i.id, i.product_id, p.name as product_name, i.order_item_id, i.parts_from_stock, i.quantity,
	i.successful_quantity, i.failed_quantity, i.failure_reason, i.estimated_material_cost, i.estimated_total_cost`

// allItems is a SQL expression for the JSON of all items of a run in a list.
const allItems = `(select coalesce(json_agg(json_build_object('id', i.id, 'product_id', i.product_id,
		'product_name', p.name, 'order_item_id', i.order_item_id, 'parts_from_stock', i.parts_from_stock,
		'quantity', i.quantity, 'successful_quantity', i.successful_quantity, 'failed_quantity', i.failed_quantity,
		'failure_reason', i.failure_reason, 'estimated_material_cost', trim_scale(i.estimated_material_cost),
		'estimated_total_cost', trim_scale(i.estimated_total_cost)) order by i.created_at, i.id), '[]')
	from run_items i join products p on p.id = i.product_id where i.run_id = production_runs.id)`

var addItemDoc = &server.Doc{
	ID: "addProductionRunItem", Tag: Tag, Summary: "Add a product to a run",
	Description: "The defaults of the estimated costs come from the current costs of the product, and do not change " +
		"with them later. With `order_item_id`, the pieces count for an item of an order. That item must have the same " +
		"product, or a product with this one as a component, at any level; `getOrder` shows the effect. " +
		countedItem,
	Errors: []*server.Error{errUnknownProduct, errUnknownOrderItem},
}

const countedItem = "`warnings` has `COUNTED_SINCE` if the run is completed and its pieces were counted after its end."

func (h handlers) addItem(ctx context.Context, r *server.Request[RunItem]) (server.Created[ChangedRunItem], error) {
	id, run, in := value.NewID(), r.ID("id"), &r.In
	args := []any{id, run, in.Quantity.Or(1), in.SuccessfulQuantity.Arg(), in.FailedQuantity.Arg(),
		in.EstimatedMaterialCost.Arg(), in.EstimatedTotalCost.Arg(), server.MaxEntries, in.FailureReason.Arg(),
		in.OrderItemID.Arg(), in.PartsFromStock.Or(false)}
	product := in.product(&args)
	item := db.SQL(`
		with changed as (
			insert into run_items (id, run_id, product_id, quantity, successful_quantity, failed_quantity, failure_reason,
				estimated_material_cost, estimated_total_cost, order_item_id, parts_from_stock, planned_bom,
				labour_minutes)
			select $1::uuid, run.id, p.id, $3::int, $4::int, $5::int, $9,
				coalesce($6::numeric, round(p.material_cost * $3::int, 6)),
				coalesce($7::numeric, round(case when $11 then p.material_cost else p.total_cost end * $3::int, 6)), $10::uuid,
				$11::boolean, case when run.status = 'pending' then product_bom(p.id, $11) end,
				`+workOf("run.id", "p.id", "$11::boolean")+`
			from production_runs run cross join lateral `+product+` p
			where run.id = $2 and run.hidden_at is null
				and (select count(*) from run_items other where other.run_id = $2) < $8
				and ($10::uuid is null or `+h.orders.Problem("$10::uuid", "p.id")+` is null)
			returning *
		), `+touched+`
		select `+itemColumns+` from changed i join products p on p.id = i.product_id`, args...)
	var full bool
	var order orderItem
	locked := lockRun(run)
	statements := []*db.Stmt{locked}
	if !in.OrderItemID.IsNull() {
		statements = append(statements, order.check(h.orders, run, id, in)...)
	}
	statements = append(statements, isFull("run_items", run, &full), item, estimate(run))
	if !in.OrderItemID.IsNull() {
		statements = append(statements, h.orders.Follow(run))
	}
	var balances string
	err := h.db.Write(ctx, append(statements, h.orders.Settle(run), catalog.Balanced(run).Into(&balances))...)
	switch {
	case err != nil:
		return nil, itemError(err)
	case item.Rows() == 1:
		return server.Extend(item.Object(), "warnings", countedSince(balances))
	case locked.Rows() == 0:
		return nil, server.ErrNotFound
	case full:
		return nil, server.TooManyEntries("items")
	}
	return nil, order.err(in)
}

// workOf returns an SQL expression: the minutes of work on a piece of a product, if the run is completed and work has a
// price. Items store them, as complete does, so that later changes of products do not change the cost of the run.
func workOf(run, product, alone string) string {
	return `(select w.labour_minutes
				from production_runs r
				cross join lateral estimate_products(array[` + product + `], array[1::numeric], array[` + alone + `]) w
				where r.id = ` + run + ` and r.status = 'completed' and r.labour_hour_cost > 0
					and w.labour_minutes <= 999999999)`
}

// lockRun returns a statement that locks a run until the end of the transaction. The lock keeps concurrent requests
// from filling the run's lists beyond the limit, and makes changes of items and materials, complete, and edits with
// If-Match wait for each other. Later statements see the changes of the transactions before.
func lockRun(run string) *db.Stmt {
	return db.SQL(`select deducted_at is not null as completed from production_runs
		where id = $1 and hidden_at is null for no key update`, run)
}

// orderItem is the reason why an item of a run cannot print an item of an order.
type orderItem struct {
	problem *string
	product bool // whether the product exists
}

// check returns statements that lock the orders and set o. id is the id of the item of the run, which may be new.
func (o *orderItem) check(orders Orders, run, id string, in *RunItem) []*db.Stmt {
	args := []any{id, in.OrderItemID.Arg(), in.ProductID.Arg(), in.SKU.IsNull() && !in.ofFile()}
	product := in.product(&args)
	return []*db.Stmt{orders.Lock(run, string(*in.OrderItemID.Value)), db.SQL(`
		select case when i.order_item_id is distinct from $2::uuid
				then `+orders.Problem("$2::uuid", "coalesce($3::uuid, p.id, i.product_id)")+` end,
			p.id is not null or ($4 and coalesce($3::uuid, i.product_id) = i.product_id) is true
		from (select) always left join run_items i on i.id = $1
		left join lateral `+product+` p on true`, args...).Into(&o.problem, &o.product)}
}

// err returns the error of a statement that changed no row although the run and the item exist: either the item of
// the order does not fit, or the product does not exist.
func (o *orderItem) err(in *RunItem) error {
	if o.product && o.problem != nil {
		return orderItemError(*o.problem)
	}
	return errUnknownProduct.With(server.WithValue(in.productField(), in.SKU)).On(in.productField())
}

// isFull returns a statement that sets full to whether the run has the maximum number of rows in the table.
func isFull(table, run string, full *bool) *db.Stmt {
	return db.SQL(`select count(*) >= $2 from `+table+` where run_id = $1`, run, server.MaxEntries).Into(full)
}

// itemRows returns the items as an argument for json_to_recordset, with new ids.
func itemRows(items []RunItem) string {
	rows := make([]map[string]any, len(items))
	for i, item := range items {
		rows[i] = map[string]any{"id": value.NewID(), "product_id": item.ProductID.Arg(), "sku": item.SKU.Arg(),
			"file_name": item.fileName(), "file_sha256": item.FileSHA256.Arg(),
			"quantity":            item.Quantity.Or(1),
			"order_item_id":       item.OrderItemID.Arg(),
			"parts_from_stock":    item.PartsFromStock.Or(false),
			"successful_quantity": item.SuccessfulQuantity.Arg(), "failed_quantity": item.FailedQuantity.Arg(),
			"failure_reason":          item.FailureReason.Arg(),
			"estimated_material_cost": item.EstimatedMaterialCost.Arg(),
			"estimated_total_cost":    item.EstimatedTotalCost.Arg()}
	}
	return db.Recordset(rows)
}

// visibleRun is the condition that the run $2 is not hidden.
const visibleRun = `exists (select from production_runs r where r.id = $2 and r.hidden_at is null)`

var updateItemDoc = &server.Doc{
	ID: "updateProductionRunItem", Tag: Tag, Summary: "Update an item of a run",
	Description: "Records the numbers of good and failed pieces. A change of the quantity or the product does not " +
		"change the estimated costs. The costs of a completed run follow from its pieces, at the prices of its end. " +
		countedItem,
	Errors: []*server.Error{errUnknownProduct, errUnknownOrderItem},
}

func (h handlers) updateItem(ctx context.Context, r *server.Request[RunItem]) (server.OK[ChangedRunItem], error) {
	run, id, in := r.ID("id"), r.ID("item_id"), &r.In
	var balances string
	item := db.SQL(`
		select `+itemColumns+` from run_items i join products p on p.id = i.product_id
		where i.id = $1 and i.run_id = $2 and `+visibleRun, id, run)
	set, args := server.Assignments(in, []any{id, run})
	if set == "" && !in.SKU.Set && !in.ofFile() {
		if err := h.db.Read(ctx, item); err != nil {
			return nil, err
		}
	} else {
		newProduct := in.ProductID.Set || in.SKU.Set || in.ofFile()
		unlink := in.OrderItemID.Set && in.OrderItemID.IsNull()
		known := ""             // a removed product is allowed only if the item has it already
		named := "null::uuid"   // the product that the SKU or a file names
		product := "product_id" // of the item after the update
		if in.ProductID.Set {
			args = append(args, in.ProductID.Arg())
			product = fmt.Sprintf("$%d::uuid", len(args))
			known = ` and (product_id = ` + product + ` or
				exists (select from products p where p.id = ` + product + ` and p.hidden_at is null))`
		}
		if in.SKU.Set || in.ofFile() {
			named = `(select p.id from ` + in.product(&args) + ` p)`
			product = named
			set = strings.TrimPrefix(set+", product_id = "+named, ", ")
			known += " and " + named + " is not null"
		}
		alone := "parts_from_stock"
		if in.PartsFromStock.Set {
			args = append(args, in.PartsFromStock.Arg())
			alone = fmt.Sprintf("$%d::boolean", len(args))
		}
		if newProduct || in.PartsFromStock.Set {
			set += `, planned_bom = case when product_id = ` + product + ` and parts_from_stock = ` + alone + ` then planned_bom
				when exists (select from production_runs r where r.id = $2 and r.status = 'pending')
				then product_bom(` + product + `, ` + alone + `) end,
				labour_minutes = case when product_id = ` + product + ` and parts_from_stock = ` + alone + `
				then labour_minutes else ` + workOf("$2", product, alone) + ` end`
		}
		if newProduct && !unlink { // the item of an order that the item continues to print
			args = append(args, in.OrderItemID.Arg())
			known += fmt.Sprintf(` and (order_item_id is null or order_item_id <> coalesce($%d::uuid, order_item_id)
				or `, len(args)) + h.orders.Problem("order_item_id", product) + ` is distinct from 'OTHER_PRODUCT')`
		}
		if !in.OrderItemID.IsNull() { // a cancelled or removed order is allowed only if the item prints it already
			args = append(args, in.OrderItemID.Arg(), in.ProductID.Arg())
			item, product := fmt.Sprintf("$%d", len(args)-1),
				fmt.Sprintf("coalesce($%d::uuid, %s, product_id)", len(args), named)
			known += ` and (order_item_id = ` + item + ` or ` + h.orders.Problem(item, product) + ` is null)`
		}
		update := db.SQL(`
			with changed as (
				update run_items set `+set+` where id = $1 and run_id = $2 and `+visibleRun+known+` returning run_id
			), `+touched+`
			select run_id from changed`, args...)
		var order orderItem
		locked := lockRun(run)
		statements := []*db.Stmt{locked}
		if !in.OrderItemID.IsNull() {
			statements = append(statements, order.check(h.orders, run, id, in)...)
		}
		var other bool
		if newProduct && !unlink {
			statements = append(statements, h.otherProduct(run, id, in, &other))
		}
		err := h.db.Write(ctx, append(statements, update, item, estimate(run), h.orders.Follow(run),
			h.orders.Settle(run), catalog.Balanced(run).Into(&balances))...)
		switch {
		case err != nil:
			return nil, itemError(err)
		case other:
			return nil, server.Invalid(in.productField(), otherOrderItemProduct)
		case update.Rows() == 1:
		case locked.Rows() == 0 || item.Rows() == 0:
			return nil, server.ErrNotFound
		default:
			return nil, order.err(in)
		}
	}
	if err := server.Found(item, nil); err != nil {
		return nil, err
	}
	return server.Extend(item.Object(), "warnings", countedSince(balances))
}

// otherProduct returns a statement that sets other to true if the item of the run continues to print an item of an
// order that needs no pieces of the product in the request.
func (h handlers) otherProduct(run, id string, in *RunItem, other *bool) *db.Stmt {
	args := []any{id, run, in.OrderItemID.Arg(), in.ProductID.Arg()}
	product := in.product(&args)
	return db.SQL(`
		select coalesce(bool_or(
			`+h.orders.Problem("i.order_item_id", "coalesce($4::uuid, p.id)")+` = 'OTHER_PRODUCT'), false)
		from run_items i left join lateral `+product+` p on true
		where i.id = $1 and i.run_id = $2 and i.order_item_id = coalesce($3::uuid, i.order_item_id)`, args...).Into(other)
}

const (
	otherOrderProduct     = "is an item of an order with another product, and this product is not a part of that"
	otherOrderItemProduct = "must be the product of the order's item that this item prints, or a part of it"
	cancelledOrder        = "is an item of a cancelled order"

	tooManyPieces = "and failed_quantity together must not be more than quantity"
	costTooLarge  = "makes the estimated cost larger than 999,999,999"
)

// replanned returns a statement that stores the current bills of materials with the items of a run, if the run is
// pending. It must come after statements that change the planned use of filament.
func replanned(run string) *db.Stmt {
	return db.SQL(`
		update run_items i set planned_bom = b.bom
		from (
			select u.id, u.alone, product_bom(u.id, u.alone) as bom
			from (select distinct i.product_id as id, i.parts_from_stock as alone from production_runs r
				join run_items i on i.run_id = r.id
				where r.id = $1 and r.status = 'pending' and r.hidden_at is null) u
		) b
		where i.run_id = $1 and i.product_id = b.id and i.parts_from_stock = b.alone
			and i.planned_bom is distinct from b.bom`, run)
}

// itemError returns the field error for the violation of a constraint of run_items.
func itemError(err error) error {
	switch {
	case db.Violates(err, "run_items_counted"):
		return server.Invalid("successful_quantity", tooManyPieces).Because(err)
	case db.Violates(err, "run_items_estimated_material_cost_check"),
		db.Violates(err, "run_items_estimated_total_cost_check"), errors.Is(err, db.ErrOutOfRange):
		return server.Invalid("quantity", costTooLarge).Because(err)
	}
	return err
}

// orderItemError returns the error for a value of Orders.Problem.
func orderItemError(problem string) error {
	switch problem {
	case "OTHER_PRODUCT":
		return server.Invalid("order_item_id", otherOrderProduct)
	case "CANCELLED":
		return server.Invalid("order_item_id", cancelledOrder)
	}
	return errUnknownOrderItem
}

var deleteItemDoc = &server.Doc{
	ID: "removeProductionRunItem", Tag: Tag, Summary: "Remove an item from a run",
	Description: "Items can be removed even after the run was completed. The materials of the run do not change. " +
		countedRemoval,
}

const countedRemoval = "If the run was completed and its pieces were counted after its end, the header `Warnings` " +
	"of the response is a JSON array with `COUNTED_SINCE`, as the `warnings` of `correctProductionRun`."

func (h handlers) deleteItem(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	run, balances := r.ID("id"), ""
	deleted := db.SQL(`
		with changed as (
			delete from run_items where id = $1 and run_id = $2 and `+visibleRun+` returning run_id
		), `+touched+`
		select run_id from changed`, r.ID("item_id"), run)
	err := h.db.Write(ctx, lockRun(run), deleted, estimate(run), h.orders.Settle(run),
		catalog.Balanced(run).Into(&balances))
	return removal(balances, server.Found(deleted, err))
}

// removal returns the response to the removal of pieces of a run. balances is the result of catalog.Balanced.
func removal(balances string, err error) ([]byte, error) {
	warnings := countedSince(balances)
	if err != nil || len(warnings) == 0 {
		return nil, err
	}
	return json.Marshal(warnings)
}

// Check reports more good and failed pieces than the quantity, if the request has a quantity.
func (i *RunItem) Check(problems *server.Problems) {
	if !i.Quantity.IsNull() && i.SuccessfulQuantity.Or(0)+i.FailedQuantity.Or(0) > *i.Quantity.Value {
		problems.Add("successful_quantity", tooManyPieces)
	}
}
