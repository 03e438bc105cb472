package catalog

import (
	"context"
	"fmt"
	"strconv"

	"spoolwright/db"
	"spoolwright/server"
)

// ProductComponent is a component of a product: another product that one piece of it contains.
type ProductComponent struct {
	ID        server.UUID                  `json:"id" rule:"readOnly,notNull"`
	ProductID server.Optional[server.UUID] `json:"component_product_id" rule:"required"`
	Name      string                       `json:"component_name" rule:"readOnly,notNull"`
	Quantity  server.Optional[int64]       `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	Notes     server.Optional[string]      `json:"notes" rule:"maxLength=2000"`
	UnitCost  server.Decimal               `json:"unit_cost" rule:"readOnly,notNull"`
	Cost      server.Decimal               `json:"cost" rule:"readOnly,notNull"`
}

// costField returns the field to report if the request makes a cost too large.
func (c *ProductComponent) costField() string {
	switch {
	case c.Quantity.Set:
		return "quantity"
	case c.ProductID.Set:
		return "component_product_id"
	}
	return "total_cost" // because of the current prices
}

func getComponent(product, id string) *db.Stmt {
	return db.SQL(`
		select c.id, c.component_product_id, s.name as component_name, c.quantity, c.notes,
			s.total_cost as unit_cost, c.quantity * s.total_cost as cost
		from product_components c join products s on s.id = c.component_product_id
		where c.product_id = $1 and c.id = $2
			and exists (select from products p where p.id = $1 and p.hidden_at is null)`, product, id)
}

// checkComponent returns the beginning of a statement that adds or changes component $2 of product $1. $3 is the
// contained product, or null to keep it. The CTE "checked" has one row with the column problem: the code of an error,
// or null if the change is allowed. Target is a query that returns a row if the product, or the component to change,
// exists.
func checkComponent(target string) string {
	return `
	with recursive below (id) as (
		select $3::uuid union
		select c.component_product_id from below b join product_components c on c.product_id = b.id
	), checked as materialized (
		select case
			when not exists (` + target + `) then 'NOT_FOUND'
			when $3::uuid is null then null
			when not exists (select from products s where s.id = $3::uuid and s.hidden_at is null)
				then 'UNKNOWN_REFERENCE'
			when exists (select from below b where b.id = $1) then 'COMPONENT_CYCLE'
			when exists (select from product_components o
				where o.product_id = $1 and o.component_product_id = $3::uuid and o.id <> $2) then 'DUPLICATE_COMPONENT'
			when not exists (select from product_components o where o.id = $2)
				and (select count(*) from product_components o where o.product_id = $1) >= ` +
		strconv.Itoa(server.MaxEntries) + ` then 'TOO_MANY_COMPONENTS'
		end as problem
	)`
}

// componentErrors are the errors whose codes checkComponent returns, except NOT_FOUND.
var componentErrors = []*server.Error{
	server.BadRequest("UNKNOWN_REFERENCE", "component_product_id is not the id of a product").On("component_product_id"),
	server.BadRequest("COMPONENT_CYCLE",
		"The product would contain itself: component_product_id is this product or contains it").On("component_product_id"),
	server.Conflict("DUPLICATE_COMPONENT", "The product already has this component; change its quantity instead").
		On("component_product_id"),
}

// tooManyLevels is the message about components that recompute_costs rejects because of their levels.
const tooManyLevels = "nests components more than 50 levels deep"

// write runs a statement that begins with checkComponent and returns the problem and the id of the recomputed product,
// and then the one that reads the component.
func (h handlers) write(ctx context.Context, in *ProductComponent, change, component *db.Stmt) error {
	var problem, recomputed *string
	err := h.db.Write(ctx, lockCatalog(), change.Into(&problem, &recomputed), component)
	switch {
	case db.Violates(err, "products_levels_range"):
		return server.Invalid("component_product_id", tooManyLevels).Because(err)
	case err != nil:
		return costError(err, in.costField())
	case problem == nil:
		return nil
	case *problem == "TOO_MANY_COMPONENTS":
		return server.TooManyEntries("components")
	}
	for _, e := range componentErrors {
		if e.Code == *problem {
			return e
		}
	}
	return server.ErrNotFound
}

var addComponentDoc = &server.Doc{
	ID: "addProductComponent", Tag: Tag, Summary: "Add a component to a product",
	Description: "A component is another product. A product must not contain itself, directly or through other " +
		"products (`COMPONENT_CYCLE`), and can have a component only once (`DUPLICATE_COMPONENT`). Components nest at " +
		"most 50 levels deep. " + costsFollow,
	Errors: componentErrors,
}

func (h handlers) addComponent(
	ctx context.Context, r *server.Request[ProductComponent],
) (server.Created[ProductComponent], error) {
	product, id, in := r.ID("id"), db.NewID(), &r.In
	component := getComponent(product, id)
	added := db.SQL(checkComponent(`select from products p where p.id = $1 and p.hidden_at is null`)+`, component as (
			insert into product_components (id, product_id, component_product_id, quantity, notes)
			select $2::uuid, $1::uuid, $3::uuid, $4::int, $5::text from checked where problem is null
			returning product_id
		)
		select problem, (select recompute_costs(product_id, false)::text from component) from checked`,
		product, id, in.ProductID.Arg(), in.Quantity.Or(1), in.Notes.Arg())
	if err := h.write(ctx, in, added, component); err != nil {
		return nil, err
	}
	return component.Object(), nil
}

// componentRows returns the components as an argument for json_to_recordset, with new ids. The error is a
// DUPLICATE_COMPONENT.
func componentRows(components []ProductComponent) (string, error) {
	rows := make([]map[string]any, len(components))
	first := map[any]int{}
	for i, c := range components {
		if j, ok := first[c.ProductID.Arg()]; ok {
			name := func(i int) string { return fmt.Sprintf("components[%d].component_product_id", i) }
			return "", errDuplicateEntry.With(name(i), name(j)).On(name(i))
		}
		first[c.ProductID.Arg()] = i
		rows[i] = map[string]any{"id": db.NewID(), "component_product_id": c.ProductID.Arg(),
			"quantity": c.Quantity.Or(1), "notes": c.Notes.Arg()}
	}
	return db.Recordset(rows), nil
}

// addComponents returns a statement that adds the rows of componentRows to a product, if it exists. A new product
// cannot close a cycle.
func addComponents(product, rows string) *db.Stmt {
	return db.SQL(`
		insert into product_components (id, product_id, component_product_id, quantity, notes)
		select c.id, p.id, c.component_product_id, c.quantity, c.notes
		from products p, json_to_recordset($2::json) c (n int, id uuid, component_product_id uuid, quantity int, notes text)
		where p.id = $1 order by c.n`, product, rows)
}

var updateComponentDoc = &server.Doc{
	ID: "updateProductComponent", Tag: Tag, Summary: "Update a component of a product",
	Description: "A new `component_product_id` must meet the same conditions as when a component is added. " +
		costsFollow,
	Errors: componentErrors,
}

func (h handlers) updateComponent(
	ctx context.Context, r *server.Request[ProductComponent],
) (server.OK[ProductComponent], error) {
	product, id := r.ID("id"), r.ID("component_id")
	component := getComponent(product, id)
	var err error
	if set, args := server.Assignments(&r.In, []any{product, id, r.In.ProductID.Arg()}); set == "" {
		err = h.db.Read(ctx, component)
	} else {
		change := db.SQL(checkComponent(`
				select from product_components c join products p on p.id = c.product_id
				where c.product_id = $1 and c.id = $2 and p.hidden_at is null`)+`, component as (
				update product_components set `+set+`
				from checked where problem is null and product_id = $1 and id = $2
				returning product_id
			)
			select problem, (select recompute_costs(product_id, false)::text from component) from checked`, args...)
		err = h.write(ctx, &r.In, change, component)
	}
	return server.One(component, err)
}

var deleteComponentDoc = &server.Doc{
	ID: "removeProductComponent", Tag: Tag, Summary: "Remove a component from a product", Description: costsFollow,
}

func (h handlers) deleteComponent(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with component as (
			delete from product_components
			where product_id = $1 and id = $2
				and exists (select from products p where p.id = $1 and p.hidden_at is null)
			returning product_id
		)
		select recompute_costs(product_id, false) from component`, r.ID("id"), r.ID("component_id"))
	return nil, server.Found(removed, costError(h.db.Write(ctx, lockCatalog(), removed), "total_cost"))
}
