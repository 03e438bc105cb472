package catalog

import (
	"context"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

// ProductMaterial is a material of a product: an amount of filament that one piece of it needs.
type ProductMaterial struct {
	ID           server.UUID                             `json:"id" rule:"readOnly,notNull"`
	MaterialType server.Optional[inventory.MaterialType] `json:"material_type" rule:"required"`
	Color        server.Optional[string]                 `json:"color" rule:"required"`
	Weight       server.Optional[server.Decimal]         `json:"weight_grams" rule:"required,exclusiveMinimum=0,maximum=1000000"`
	IsRequired   server.Optional[bool]                   `json:"is_required" rule:"notNull"`
	Notes        server.Optional[string]                 `json:"notes" rule:"maxLength=2000"`
	Cost         server.Decimal                          `json:"cost" rule:"readOnly"`
}

// costField returns the field to report if the request makes a cost too large.
func (m *ProductMaterial) costField() string {
	switch {
	case m.Weight.Set:
		return "weight_grams"
	case m.Color.Set:
		return "color"
	case m.MaterialType.Set:
		return "material_type"
	}
	return "total_cost" // because of the current prices
}

func getMaterial(product, id string) *db.Stmt {
	return db.SQL(`
		select id, material_type, color, weight_grams, is_required, notes, cost from product_materials
		where product_id = $1 and id = $2
			and exists (select from products p where p.id = $1 and p.hidden_at is null)`, product, id)
}

const costsFollow = "Recomputes the costs of the product from the current spool prices, and the costs of all " +
	"products that contain it, in the same transaction."

var addMaterialDoc = &server.Doc{
	ID: "addProductMaterial", Tag: Tag, Summary: "Add a material to a product",
	Description: costsFollow + " `recalculateProduct` describes how prices are computed.",
}

func (h handlers) addMaterial(
	ctx context.Context, r *server.Request[ProductMaterial],
) (server.Created[ProductMaterial], error) {
	product, id, in := r.ID("id"), db.NewID(), &r.In
	var full bool
	added := db.SQL(`
		with product as (
			select p.id, (select count(*) from product_materials m where m.product_id = p.id) >= $8 as is_full
			from products p where p.id = $1 and p.hidden_at is null
		), material as (
			insert into product_materials (id, product_id, material_type, color, weight_grams, is_required, notes)
			select $2::uuid, p.id, $3::text, $4::text, $5::numeric, $6::boolean, $7::text from product p where not is_full
			returning product_id
		)
		select is_full, (select recompute_costs(array[product_id], false) from material) from product`,
		product, id, in.MaterialType.Arg(), in.Color.Arg(), in.Weight.Arg(), in.IsRequired.Or(true), in.Notes.Arg(),
		server.MaxEntries).Into(&full, nil)
	material := getMaterial(product, id)
	err := h.db.Write(ctx, lockCatalog(), added, material)
	if err == nil && full {
		return nil, server.TooManyEntries("materials")
	}
	return server.One(material, costError(err, in.costField()))
}

// addMaterials returns a statement that adds the materials to a product, if it exists.
func addMaterials(product string, materials []ProductMaterial) *db.Stmt {
	rows := make([]map[string]any, len(materials))
	for i, m := range materials {
		rows[i] = map[string]any{"id": db.NewID(), "material_type": m.MaterialType.Arg(), "color": m.Color.Arg(),
			"weight_grams": m.Weight.Arg(), "is_required": m.IsRequired.Or(true), "notes": m.Notes.Arg()}
	}
	return db.SQL(`
		insert into product_materials (id, product_id, material_type, color, weight_grams, is_required, notes)
		select m.id, p.id, m.material_type, m.color, m.weight_grams, m.is_required, m.notes
		from products p, json_to_recordset($2::json) m (n int, id uuid, material_type text, color text,
			weight_grams numeric, is_required boolean, notes text)
		where p.id = $1 order by m.n`, product, db.Recordset(rows))
}

var updateMaterialDoc = &server.Doc{
	ID: "updateProductMaterial", Tag: Tag, Summary: "Update a material of a product", Description: costsFollow,
}

func (h handlers) updateMaterial(
	ctx context.Context, r *server.Request[ProductMaterial],
) (server.OK[ProductMaterial], error) {
	product, id := r.ID("id"), r.ID("material_id")
	material := getMaterial(product, id)
	var err error
	if set, args := server.Assignments(&r.In, []any{product, id}); set == "" {
		err = h.db.Read(ctx, material)
	} else {
		changed := db.SQL(`
			with material as (
				update product_materials set `+set+`
				where product_id = $1 and id = $2
					and exists (select from products p where p.id = $1 and p.hidden_at is null)
				returning product_id
			)
			select recompute_costs(array[product_id], false) from material`, args...)
		err = h.db.Write(ctx, lockCatalog(), changed, material)
	}
	return server.One(material, costError(err, r.In.costField()))
}

var deleteMaterialDoc = &server.Doc{
	ID: "removeProductMaterial", Tag: Tag, Summary: "Remove a material from a product", Description: costsFollow,
}

func (h handlers) deleteMaterial(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with material as (
			delete from product_materials
			where product_id = $1 and id = $2
				and exists (select from products p where p.id = $1 and p.hidden_at is null)
			returning product_id
		)
		select recompute_costs(array[product_id], false) from material`, r.ID("id"), r.ID("material_id"))
	return nil, server.Found(removed, costError(h.db.Write(ctx, lockCatalog(), removed), "total_cost"))
}
