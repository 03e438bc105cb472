package production

import (
	"context"
	"errors"

	"spoolwright/db"
	"spoolwright/server"
)

// RunItem is a product to be printed in a run.
type RunItem struct {
	ID                    server.UUID                     `json:"id" rule:"readOnly,notNull" doc:"The item's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a52\""`
	ProductID             server.Optional[server.UUID]    `json:"product_id" rule:"required" doc:"The product." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61\""`
	ProductName           string                          `json:"product_name" rule:"readOnly,notNull" doc:"The product's name, also when the product was removed." example:"\"Desk lamp\""`
	Quantity              server.Optional[int64]          `json:"quantity" rule:"notNull,exclusiveMinimum=0,maximum=1000000" doc:"Pieces to print; 1 unless it is sent." example:"2"`
	SuccessfulQuantity    server.Optional[int64]          `json:"successful_quantity" rule:"maximum=1000000" doc:"Pieces that turned out well." example:"2"`
	FailedQuantity        server.Optional[int64]          `json:"failed_quantity" rule:"maximum=1000000" doc:"Pieces that did not. Both together are at most quantity." example:"0"`
	EstimatedMaterialCost server.Optional[server.Decimal] `json:"estimated_material_cost" rule:"maximum=999999999" doc:"Cost of the material; the product's material_cost times quantity unless it is sent." example:"2.5"`
	EstimatedTotalCost    server.Optional[server.Decimal] `json:"estimated_total_cost" rule:"maximum=999999999" doc:"Cost in total; the product's total_cost times quantity unless it is sent." example:"3.1"`
}

const itemColumns = `i.id, i.product_id, p.name as product_name, i.quantity, i.successful_quantity, i.failed_quantity, i.estimated_material_cost, i.estimated_total_cost`

var addItemDoc = &server.Doc{
	ID: "addProductionRunItem", Tag: tag, Summary: "Add a product to a run",
	Description: "The estimated costs default to the product's stored costs times `quantity` and are kept as they are then.",
	Errors:      []*server.Error{errUnknownProduct},
}

func (h handlers) addItem(ctx context.Context, r *server.Request[RunItem]) (server.Created[RunItem], error) {
	id, run, in := db.NewID(), r.ID("id"), &r.In
	item := db.SQL(`
		with i as (
			insert into run_items (id, run_id, product_id, quantity, successful_quantity, failed_quantity, estimated_material_cost, estimated_total_cost)
			select $1::uuid, run.id, p.id, $4::int, $5::int, $6::int, coalesce($7::numeric, round(p.material_cost * $4::int, 6)), coalesce($8::numeric, round(p.total_cost * $4::int, 6))
			from production_runs run, products p
			where run.id = $2 and p.id = $3 and p.hidden_at is null
			returning *
		)
		select `+itemColumns+` from i join products p on p.id = i.product_id`,
		id, run, in.ProductID.Arg(), in.Quantity.Or(1), in.SuccessfulQuantity.Arg(), in.FailedQuantity.Arg(), in.EstimatedMaterialCost.Arg(), in.EstimatedTotalCost.Arg())
	if err := h.db.Write(ctx, item); err != nil {
		return nil, itemProblem(err)
	}
	if item.Rows() == 0 {
		return nil, h.whyNot(ctx, run, "", "", in.ProductID.Arg(), nil)
	}
	return item.Object(), nil
}

var updateItemDoc = &server.Doc{ID: "updateProductionRunItem", Tag: tag, Summary: "Change an item of a run",
	Description: "Record here how many pieces succeeded and failed. The estimated costs do not follow a new quantity or product by themselves.",
	Errors:      []*server.Error{errUnknownProduct}}

func (h handlers) updateItem(ctx context.Context, r *server.Request[RunItem]) (server.OK[RunItem], error) {
	run, id, in := r.ID("id"), r.ID("item_id"), &r.In
	item := db.SQL(`select `+itemColumns+` from run_items i join products p on p.id = i.product_id where i.id = $1 and i.run_id = $2`, id, run)
	set, args := server.Assignments(in, []any{id, run})
	if set == "" {
		if err := h.db.Read(ctx, item); err != nil {
			return nil, err
		}
	} else {
		known := ""
		if in.ProductID.Set {
			args = append(args, in.ProductID.Arg())
			known = " and (product_id = $" + itoa(len(args)) + " or exists (select from products p where p.id = $" + itoa(len(args)) + " and p.hidden_at is null))"
		}
		update := db.SQL(`update run_items set `+set+` where id = $1 and run_id = $2`+known+` returning id`, args...)
		if err := h.db.Write(ctx, update, item); err != nil {
			return nil, itemProblem(err)
		}
		if update.Rows() == 0 && item.Rows() == 1 {
			return nil, errUnknownProduct
		}
	}
	return server.One(item, nil)
}

// itemProblem names the field behind a violated rule.
func itemProblem(err error) error {
	switch {
	case db.Violates(err, "run_items_counted"):
		return server.Invalid("successful_quantity", "and failed_quantity together must not be more than quantity").Because(err)
	case db.Violates(err, "run_items_estimated_material_cost_check"), db.Violates(err, "run_items_estimated_total_cost_check"), errors.Is(err, db.ErrOutOfRange):
		return server.Invalid("quantity", "makes the estimated cost larger than 999,999,999").Because(err)
	}
	return err
}

var deleteItemDoc = &server.Doc{ID: "deleteProductionRunItem", Tag: tag, Summary: "Remove an item from a run",
	Description: "Also after the run was completed. The run's materials stay as they are."}

func (h handlers) deleteItem(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	deleted := db.SQL(`delete from run_items where id = $1 and run_id = $2 returning id`, r.ID("item_id"), r.ID("id"))
	return nil, server.Found(deleted, h.db.Write(ctx, deleted))
}

// Check refuses counts that contradict the quantity, where the request has all of them.
func (i *RunItem) Check(problems *server.Problems) {
	if !i.Quantity.IsNull() && i.SuccessfulQuantity.Or(0)+i.FailedQuantity.Or(0) > *i.Quantity.Value {
		problems.Add("successful_quantity", "and failed_quantity together must not be more than quantity")
	}
}
