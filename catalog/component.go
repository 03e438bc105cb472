package catalog

import (
	"context"

	"spoolwright/db"
	"spoolwright/server"
)

// ProductComponent is a product that is part of another one, in requests and in answers.
type ProductComponent struct {
	ID        server.UUID                  `json:"id" rule:"readOnly,notNull" doc:"The component's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b03\""`
	ProductID server.Optional[server.UUID] `json:"component_product_id" rule:"required" doc:"The product that is the part." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b04\""`
	Name      string                       `json:"component_name" rule:"readOnly,notNull" doc:"The part's name." example:"\"Wing\""`
	Quantity  server.Optional[int64]       `json:"quantity" rule:"notNull,minimum=1,maximum=1000000" doc:"How many of it one piece contains; 1 unless given." example:"2"`
	Notes     server.Optional[string]      `json:"notes" rule:"maxLength=10000" doc:"Anything else." example:"\"Left and right\""`
	UnitCost  server.Decimal               `json:"unit_cost" rule:"readOnly,notNull" doc:"The part's total_cost." example:"0.25"`
	Cost      server.Decimal               `json:"cost" rule:"readOnly,notNull" doc:"quantity times unit_cost." example:"0.5"`
}

// costField is the field of the request that a cost out of range comes from.
func (c *ProductComponent) costField() string {
	switch {
	case c.Quantity.Set:
		return "quantity"
	case c.ProductID.Set:
		return "component_product_id"
	}
	return "total_cost" // today's prices alone
}

func getComponent(product, id string) *db.Stmt {
	return db.SQL(`
		select c.id, c.component_product_id, s.name as component_name, c.quantity, c.notes, s.total_cost as unit_cost, c.quantity * s.total_cost as cost
		from product_components c join products s on s.id = c.component_product_id
		where c.product_id = $1 and c.id = $2 and exists (select from products p where p.id = $1 and p.hidden_at is null)`, product, id)
}

// checkComponent begins a statement: the CTE checked holds why product $1 cannot have product $3 (null: the one it has) as its
// component $2, or null. Target selects what is there to be edited.
func checkComponent(target string) string {
	return `
	with recursive below (id) as (
		select $3::uuid union
		select c.component_product_id from below b join product_components c on c.product_id = b.id
	), checked as materialized (
		select case
			when not exists (` + target + `) then 'NOT_FOUND'
			when $3::uuid is null then null
			when not exists (select from products s where s.id = $3::uuid and s.hidden_at is null) then 'UNKNOWN_REFERENCE'
			when exists (select from below b where b.id = $1) then 'COMPONENT_CYCLE'
			when exists (select from product_components o where o.product_id = $1 and o.component_product_id = $3::uuid and o.id <> $2) then 'DUPLICATE_COMPONENT'
		end as problem
	)`
}

// componentErrors are the problems that checkComponent finds, by code.
var componentErrors = []*server.Error{
	server.BadRequest("UNKNOWN_REFERENCE", "There is no product with the id in component_product_id"),
	server.BadRequest("COMPONENT_CYCLE", "The product would contain itself: component_product_id is this product or contains it"),
	server.BadRequest("DUPLICATE_COMPONENT", "The product has this component already; change its quantity instead"),
}

// edit runs a statement that returns the problem found by checkComponent, if any, and then reads the component.
func (h handlers) edit(ctx context.Context, in *ProductComponent, edit, component *db.Stmt) error {
	var problem *string
	if err := h.db.Write(ctx, lockCatalog(), edit.Into(&problem, nil), component); err != nil {
		return tooLarge(err, in.costField())
	}
	if problem == nil {
		return nil
	}
	for _, e := range componentErrors {
		if e.Code == *problem {
			return e
		}
	}
	return server.ErrNotFound
}

var addComponentDoc = &server.Doc{
	ID: "addProductComponent", Tag: tag, Summary: "Add a component to a product",
	Description: "A component is another product; a product never contains itself, however deep (`COMPONENT_CYCLE`), nor the same component twice (`DUPLICATE_COMPONENT`). " + editDescription,
	Errors:      componentErrors,
}

func (h handlers) addComponent(ctx context.Context, r *server.Request[ProductComponent]) (server.Created[ProductComponent], error) {
	product, id, in := r.ID("id"), db.NewID(), &r.In
	component := getComponent(product, id)
	added := db.SQL(checkComponent(`select from products p where p.id = $1 and p.hidden_at is null`)+`, component as (
			insert into product_components (id, product_id, component_product_id, quantity, notes)
			select $2::uuid, $1::uuid, $3::uuid, $4::int, $5::text from checked where problem is null
			returning product_id
		)
		select problem, (select recompute_costs(product_id, false) from component) from checked`,
		product, id, in.ProductID.Arg(), in.Quantity.Or(1), in.Notes.Arg())
	if err := h.edit(ctx, in, added, component); err != nil {
		return nil, err
	}
	return component.Object(), nil
}

var updateComponentDoc = &server.Doc{
	ID: "updateProductComponent", Tag: tag, Summary: "Change a component of a product",
	Description: "`component_product_id` may be changed too, under the same conditions as when it was added. " + editDescription,
	Errors:      componentErrors,
}

func (h handlers) updateComponent(ctx context.Context, r *server.Request[ProductComponent]) (server.OK[ProductComponent], error) {
	product, id := r.ID("id"), r.ID("component_id")
	component := getComponent(product, id)
	var err error
	if set, args := server.Assignments(&r.In, []any{product, id, r.In.ProductID.Arg()}); set == "" {
		err = h.db.Read(ctx, component)
	} else {
		err = h.edit(ctx, &r.In, db.SQL(checkComponent(`select from product_components c join products p on p.id = c.product_id
				where c.product_id = $1 and c.id = $2 and p.hidden_at is null`)+`, component as (
				update product_components set `+set+` from checked where problem is null and product_id = $1 and id = $2
				returning product_id
			)
			select problem, (select recompute_costs(product_id, false) from component) from checked`, args...), component)
	}
	return server.One(component, err)
}

var deleteComponentDoc = &server.Doc{ID: "removeProductComponent", Tag: tag, Summary: "Remove a component from a product", Description: editDescription}

func (h handlers) deleteComponent(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with component as (
			delete from product_components
			where product_id = $1 and id = $2 and exists (select from products p where p.id = $1 and p.hidden_at is null)
			returning product_id
		)
		select recompute_costs(product_id, false) from component`, r.ID("id"), r.ID("component_id"))
	return nil, server.Found(removed, tooLarge(h.db.Write(ctx, lockCatalog(), removed), "total_cost"))
}
