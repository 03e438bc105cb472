package catalog

import (
	"context"
	"io"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
)

// ImportedProducts is the result of an import.
type ImportedProducts struct {
	transfer.ImportCounts
	Rows []ImportedProduct `json:"rows"`
}

// ImportedProduct is what an import has done with a product.
type ImportedProduct struct {
	Row    int64                 `json:"row" rule:"notNull"`
	ID     *server.UUID          `json:"id"`
	SKU    *string               `json:"sku"`
	Action transfer.ImportAction `json:"action" rule:"notNull"`
}

// importRow is a row of a file, with the columns of an export: a product, and perhaps one of its materials.
type importRow struct {
	ID server.Optional[string] `json:"id"`
	Product
	MaterialID    server.Optional[server.UUID]            `json:"materials.id"`
	MaterialType  server.Optional[inventory.MaterialType] `json:"materials.material_type"`
	Color         server.Optional[string]                 `json:"materials.color"`
	Weight        server.Optional[server.Decimal]         `json:"materials.weight_grams" rule:"maximum=1000000"`
	IsRequired    server.Optional[bool]                   `json:"materials.is_required"`
	MaterialNotes server.Optional[string]                 `json:"materials.notes" rule:"maxLength=2000"`
	Priced        server.Decimal                          `json:"materials.cost" rule:"readOnly"`
	ComponentID   server.UUID                             `json:"components.id" rule:"readOnly"`
	Component     server.Optional[server.UUID]            `json:"components.component_product_id"`
	ComponentName string                                  `json:"components.component_name" rule:"readOnly"`
	Quantity      int64                                   `json:"components.quantity" rule:"readOnly"`
	PartNotes     string                                  `json:"components.notes" rule:"readOnly"`
	UnitCost      server.Decimal                          `json:"components.unit_cost" rule:"readOnly"`
	PartCost      server.Decimal                          `json:"components.cost" rule:"readOnly"`
}

// productColumns are the columns of products that an import sets, and materialColumns those of materials.
var (
	productColumns  = server.SchemaOf[Product]().Writable()
	materialColumns = server.SchemaOf[ProductMaterial]().Writable()
)

// material returns the values of the row's material by column.
func (r *importRow) material() map[string]any {
	return map[string]any{"material_type": r.MaterialType.Arg(), "color": r.Color.Arg(),
		"weight_grams": r.Weight.Arg(), "is_required": r.IsRequired.Arg(), "notes": r.MaterialNotes.Arg()}
}

// hasMaterial reports whether the row has a value of a material.
func (r *importRow) hasMaterial() bool {
	return !r.MaterialID.IsNull() || !r.MaterialType.IsNull() || !r.Color.IsNull() || !r.Weight.IsNull() ||
		r.IsRequired.Or(false) || !r.MaterialNotes.IsNull()
}

var importDoc = &server.Doc{
	ID: "importProducts", Tag: Tag, Summary: "Import products from CSV",
	Description: "Creates or changes all products of a CSV file with their materials, or none. The columns are " +
		"those of `exportProducts`: fields of a product, and of a material with a name such as `materials.color`. " +
		"A product has a row for each material, with its own fields repeated. Rows with the same `id` are one " +
		"product; without an `id`, those with the same `sku`, and without both, those with the same `name`.\n\n" +
		"With the `mode` `create`, each product is a new one and must satisfy the rules of `POST " +
		"/api/v1/products`; ids are ignored otherwise. With `update`, rows change the product that their `id`, or " +
		"else their `sku`, names: only the columns of the file change, and an empty cell is null. A row without " +
		"both is skipped. With `upsert`, a row without both is a new product, and so is one with an unknown `id` or, " +
		"without it, an unknown `sku`; a row with an unknown `id` and a known `sku` changes the product with the " +
		"`sku`.\n\n" +
		"A row names a material of its product by `materials.id` or, without it, by type and colour; if the " +
		"product has no such material, it is added. A `materials.weight_grams` of 0 removes the material. " +
		"Materials that the file does not name stay as they are, and so do components: their columns are ignored, " +
		"and a new product cannot " +
		"have any.\n\n" + transfer.ImportRules(maxRows),
}

const importExample = "name,category,materials.material_type,materials.color,materials.weight_grams\n" +
	"Dragon,Toys,PLA,Black,45\nDragon,Toys,PETG,Transparent,12.5\nCoat hook,Home,,,\n"

// productFile has the products of a file.
type productFile struct {
	mode     transfer.Mode
	columns  []string // that are imported
	products []importedProduct
	hidden   map[string]bool // the ids of removed products
}

// importedProduct is a product of a file.
type importedProduct struct {
	line      int                           // of its first row
	keys      []string                      // its id and SKU, if they can name a product
	in        Product                       // from its first row
	materials []*transfer.Record[importRow] // the rows with a material
	component bool                          // whether a row has a component
	foreign   bool                          // whether the ids are those of another farm
}

// readImport decodes and validates at most so many rows of a CSV file. The error is a 422.
func readImport(file io.ReadSeeker, how transfer.Reading, most int) (f productFile, err error) {
	f.mode = how.Mode
	rows, columns, err := transfer.ReadRows[importRow](file, how, most, checkID, "id", "sku")
	if err != nil {
		return f, err
	}
	f.columns = columns
	invalid := transfer.RowProblems{}
	known := map[string]int{} // the products by what makes rows one product
	for i := range rows {
		row := &rows[i]
		name := "name " + row.In.Name.Or("")
		switch {
		case row.In.ID.Or("") != "":
			name = "id " + row.In.ID.Or("")
		case row.In.SKU.Or("") != "":
			name = "sku " + row.In.SKU.Or("")
		}
		n, ok := known[name]
		if !ok || f.skips(row.Keys) {
			n = len(f.products)
			known[name] = n
			f.products = append(f.products, importedProduct{line: row.Line, keys: row.Keys, in: row.In.Product})
		}
		p := &f.products[n]
		if field := difference(&p.in, &row.In.Product); field != "" {
			invalid.Add(row.Line, field, "differs from line %d, which is the same product", p.line)
			continue
		}
		if row.In.hasMaterial() {
			p.materials = append(p.materials, row)
		}
		p.component = p.component || !row.In.Component.IsNull()
	}
	return f, invalid.Err()
}

// checkID brings the id in its usual form, and returns the problem with it.
func checkID(keys []string) []server.FieldError {
	if keys[0] == "" {
		return nil
	}
	id, ok := db.ParseID(keys[0])
	if !ok {
		return []server.FieldError{{Field: "id", Message: "must be a UUID"}}
	}
	keys[0] = id
	return nil
}

// skips reports whether a row with the keys is skipped.
func (f *productFile) skips(keys []string) bool { return f.mode == transfer.Update && keys == nil }

// difference returns the name of a column in which two rows differ, or "".
func difference(a, b *Product) string {
	first, second := server.Row(a), server.Row(b)
	for _, column := range productColumns {
		if first[column] != second[column] {
			return column
		}
	}
	return ""
}

// maxRows limits the time that the transaction of an import through the API takes: it recomputes the costs of each
// product.
const maxRows = 2_000

// importError returns the error of an import for that of its statements.
func importError(err error) error {
	if db.Violates(err, "products_sku") { // a concurrent change
		return server.Invalid("sku", "of a row was given to another product meanwhile; try again").Because(err)
	}
	return costError(err, "materials.weight_grams")
}

// productChanges are the rows to write.
type productChanges struct {
	created, updated           []map[string]any // products
	addedMaterials, materials  []map[string]any // new and changed materials
	removed, renamed, computed []string         // ids of materials, of products with another SKU, and with new costs
}

// writeProducts writes the products in the transaction of ctx.
func writeProducts(
	ctx context.Context, d *db.DB, f *productFile, dryRun bool,
) (result ImportedProducts, err error) {
	result = ImportedProducts{Rows: make([]ImportedProduct, len(f.products))}
	result.DryRun = dryRun
	products, err := f.lock(ctx, d)
	if err != nil {
		return result, err
	}
	changes, err := f.compare(products, result.Rows)
	if err != nil {
		return result, err
	}
	for i := range result.Rows {
		row := &result.Rows[i]
		if dryRun && row.Action == "created" {
			row.ID = nil
		}
		result.Count(row.Action)
	}
	if dryRun {
		return result, nil
	}
	return result, changes.write(ctx, d)
}

// lock locks the catalog, and the products that rows name or that have the SKU of a row, and returns these products.
func (f *productFile) lock(ctx context.Context, d *db.DB) (products []transfer.Stored, err error) {
	var ids, skus []string
	for _, p := range f.products {
		if p.keys != nil && p.keys[0] != "" {
			ids = append(ids, p.keys[0])
		}
		if sku := p.in.SKU.Or(""); sku != "" {
			skus = append(skus, sku)
		}
	}
	locked := server.LockRows("products", `id, `+strings.Join(productColumns, ", ")+`, (
				select coalesce(json_agg(json_build_object('id', m.id, 'material_type', m.material_type,
					'color', m.color, 'weight_grams', trim_scale(m.weight_grams), 'is_required', m.is_required,
						'notes', m.notes)), '[]')
				from product_materials m where m.product_id = products.id) as materials`, `
		select unnest($1::uuid[]) as id union all
		select s.id from unnest($2::text[]) k (sku) cross join lateral (
			select id from products where sku = k.sku and sku <> '' and hidden_at is null offset 0
		) s`, "hidden_at is null", ids, skus)
	removed := []string{}
	hidden := db.SQL(`
		select coalesce(array_agg(p.id::text), '{}') from unnest($1::uuid[]) n (id) cross join lateral (
			select id from products where id = n.id and hidden_at is not null offset 0
		) p`, ids).Into(&removed)
	if err := d.Write(ctx, lockCatalog(), locked, hidden); err != nil {
		return nil, err
	}
	f.hidden = map[string]bool{}
	for _, id := range removed {
		f.hidden[id] = true
	}
	return transfer.StoredRows(locked)
}

// compare returns what must change, and sets the report. The error is a 422.
func (f *productFile) compare(products []transfer.Stored, report []ImportedProduct) (c productChanges, err error) {
	byID, bySKU := map[string]transfer.Stored{}, map[string]transfer.Stored{}
	for _, s := range products {
		byID[s.Text("id")] = s
		if sku := s.Text("sku"); sku != "" {
			bySKU[sku] = s
		}
	}
	invalid := transfer.RowProblems{}
	first := map[string]int{}  // the line of each product that is changed
	skus := map[string]int{}   // the line of each SKU
	sku := map[string]string{} // the SKU of each product that is changed
	for i := range f.products {
		p := &f.products[i]
		report[i].Row = int64(p.line)
		if f.skips(p.keys) {
			report[i].Action = "skipped"
			continue
		}
		var s transfer.Stored
		switch {
		case p.keys == nil:
		case p.keys[0] != "":
			if s = byID[p.keys[0]]; s == nil && f.mode == transfer.Upsert && !f.hidden[p.keys[0]] {
				s, p.foreign = bySKU[p.in.SKU.Or("")], true
			} else if s == nil {
				invalid.Add(p.line, "id", "is not the id of a product")
			}
		default:
			if s = bySKU[p.keys[1]]; s == nil && f.mode == transfer.Update {
				invalid.Add(p.line, "sku", "is not the SKU of a product")
			}
		}
		name := p.in.SKU.Or("")
		if s != nil {
			id := s.Text("id")
			if line := first[id]; line > 0 {
				invalid.Add(p.line, "row", "names the product of line %d", line)
			}
			if first[id] = p.line; !slices.Contains(f.columns, "sku") {
				name = s.Text("sku")
			}
			sku[id] = name
		}
		if line := skus[name]; name != "" && line > 0 && invalid[p.line] == nil {
			invalid.Add(p.line, "sku", "is that of line %d", line)
		}
		skus[name] = p.line
		if invalid[p.line] == nil {
			f.change(&c, p, s, &report[i], invalid)
		}
		if name != "" {
			report[i].SKU = &name
		}
	}
	for _, s := range products { // those that have the SKU of a row, and do not give it away
		name, id := s.Text("sku"), s.Text("id")
		if after, ok := sku[id]; name != "" && skus[name] > 0 && (!ok || after == name) && first[id] != skus[name] {
			invalid.Add(skus[name], "sku", "is that of another product")
		}
	}
	return c, invalid.Err()
}

// change adds to c what makes the stored product the one of the file; s is nil for a new product.
func (f *productFile) change(
	c *productChanges, p *importedProduct, s transfer.Stored, report *ImportedProduct, invalid transfer.RowProblems,
) {
	values, id := server.Row(&p.in), db.NewID()
	if s == nil {
		if p.in.Name.IsNull() {
			invalid.Add(p.line, "name", "is required")
		}
		if p.component {
			invalid.Add(p.line, "components.component_product_id",
				"must be empty: a new product is imported without components")
		}
		values["id"] = id
		c.created = append(c.created, values)
		report.Action = "created"
	} else {
		id = s.Text("id")
		report.Action = "unchanged"
		for _, column := range productColumns {
			if !slices.Contains(f.columns, column) || transfer.ValueText(values[column]) == s.Text(column) {
				values[column] = s[column]
			} else {
				report.Action = "updated"
				if column == "sku" {
					c.renamed = append(c.renamed, id)
				}
			}
		}
		if values["id"] = id; report.Action == "updated" {
			c.updated = append(c.updated, values)
		}
	}
	report.ID = (*server.UUID)(&id)
	if f.changeMaterials(c, p, s, id, invalid) {
		c.computed = append(c.computed, id)
		if s != nil {
			report.Action = "updated"
		}
	}
}

// changeMaterials is change for the materials. It reports whether any changes.
func (f *productFile) changeMaterials(
	c *productChanges, p *importedProduct, s transfer.Stored, product string, invalid transfer.RowProblems,
) (changed bool) {
	var old []any
	if s != nil {
		old = s["materials"].([]any)
	}
	count, used := len(old), map[string]int{} // the line of each material
	for _, row := range p.materials {
		problem := func(field, message string, args ...any) {
			invalid.Add(row.Line, "materials."+field, message, args...)
		}
		in := &row.In
		named := in.MaterialID
		if p.foreign {
			named = server.Optional[server.UUID]{}
		}
		var same []transfer.Stored
		for _, m := range old {
			m := transfer.Stored(m.(map[string]any))
			if id := named; !id.IsNull() && string(*id.Value) == m.Text("id") || id.IsNull() &&
				in.MaterialType.Arg() == m["material_type"] && strings.EqualFold(in.Color.Or(""), m.Text("color")) {
				same = append(same, m)
			}
		}
		values, removes := in.material(), in.Weight.Or(1) == 0
		switch {
		case len(same) > 1:
			problem("id", "is required, because the product has several materials of this type and colour")
		case len(same) == 0 && s != nil && !named.IsNull():
			problem("id", "is not the id of a material of the product")
		case len(same) == 0:
			for _, column := range []string{"material_type", "color", "weight_grams"} {
				if transfer.ValueText(values[column]) == "" {
					problem(column, "is required")
				}
			}
			if removes {
				problem("weight_grams", "must be greater than 0")
			}
			values["id"], values["product_id"], values["is_required"] = db.NewID(), product, in.IsRequired.Or(true)
			c.addedMaterials, changed = append(c.addedMaterials, values), true
			count++
		default:
			m := same[0]
			id := m.Text("id")
			if line := used[id]; line > 0 {
				problem("id", "is that of line %d", line)
			}
			used[id] = row.Line
			if removes {
				c.removed, changed = append(c.removed, id), true
				count--
				continue
			}
			differs := false
			for _, column := range materialColumns {
				value := transfer.ValueText(values[column])
				switch {
				case value == m.Text(column), !slices.Contains(f.columns, "materials."+column),
					value == "" && column == "is_required":
					values[column] = m[column]
				case value == "" && column != "notes":
					problem(column, "must not be empty")
				default:
					differs = true
				}
			}
			if values["id"] = id; differs {
				c.materials, changed = append(c.materials, values), true
			}
		}
	}
	if count > server.MaxEntries {
		invalid[p.line] = append(invalid[p.line], server.TooManyEntries("materials").Fields...)
	}
	return changed
}

// write writes the changes.
func (c *productChanges) write(ctx context.Context, d *db.DB) error {
	// Products that exchange their SKUs have none for a moment.
	if err := inBatches(ctx, d, c.renamed, `update products set sku = null where id = any ($1::uuid[])`); err != nil {
		return err
	}
	columns := strings.Join(productColumns, ", ")
	if err := inRows(ctx, d, c.updated, `
		update products p set (`+columns+`, updated_at) = row(r.`+strings.Join(productColumns, ", r.")+`, now())
		from json_populate_recordset(null::products, $1::json) r
		where p.id = r.id and p.id = any ($2::uuid[])`); err != nil {
		return err
	}
	if err := inRows(ctx, d, c.created, `
		insert into products (id, `+columns+`)
		select id, `+columns+` from json_populate_recordset(null::products, $1::json) where id = any ($2::uuid[])`,
	); err != nil {
		return err
	}
	if err := inBatches(ctx, d, c.removed, `delete from product_materials where id = any ($1::uuid[])`); err != nil {
		return err
	}
	columns = strings.Join(materialColumns, ", ")
	if err := inRows(ctx, d, c.materials, `
		update product_materials m set (`+columns+`) = row(r.`+strings.Join(materialColumns, ", r.")+`)
		from json_populate_recordset(null::product_materials, $1::json) r
		where m.id = r.id and m.id = any ($2::uuid[])`); err != nil {
		return err
	}
	if err := inRows(ctx, d, c.addedMaterials, `
		insert into product_materials (id, product_id, `+columns+`)
		select id, product_id, `+columns+` from json_populate_recordset(null::product_materials, $1::json)
		where id = any ($2::uuid[]) order by id`); err != nil {
		return err
	}
	return inBatches(ctx, d, c.computed, `select recompute_costs($1::uuid[], false)::text`)
}

// inBatches runs a statement with the ids $1, for some of them at a time.
func inBatches(ctx context.Context, d *db.DB, ids []string, statement string) error {
	for batch := range slices.Chunk(ids, transfer.BatchRows) {
		if err := d.Write(ctx, db.SQL(statement, batch)); err != nil {
			return err
		}
	}
	return nil
}

// inRows runs a statement with the rows $1 and their ids $2, for some of them at a time.
func inRows(ctx context.Context, d *db.DB, rows []map[string]any, statement string) error {
	return transfer.InBatches(rows, func(list string, ids []string) error {
		return d.Write(ctx, db.SQL(statement, list, ids))
	})
}

// productImport imports products.
var productImport = transfer.Import[productFile, ImportedProducts]{
	Resources: "products", Most: maxRows, Example: importExample, Read: readImport, Write: writeProducts,
	Error: importError,
	Help: "create or change products and their materials from a CSV file: all rows, or none\n\n" +
		"The first line names the columns, which are those of `export products`. A product has a row for each\n" +
		"material, with its own fields repeated: rows with the same id, else sku, else name are one product. If any\n" +
		"row is invalid, nothing is imported. FILE may be - for standard input.\n\n" +
		"With --mode update, the rows change the products that their id or sku names: the columns of the file, and\n" +
		"no others. With --mode upsert, the default, rows with an unknown id or sku, or without both, are new\n" +
		"products, and with --mode create all rows.",
}
