package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/inventory/sheets"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// ImportedProducts is the result of an import.
type ImportedProducts struct {
	transfer.ImportCounts
	ImportID *value.UUID       `json:"import_id"`
	Rows     []ImportedProduct `json:"rows"`
}

// ImportedProduct reports how an import changed a product.
type ImportedProduct struct {
	Row    int64                 `json:"row" rule:"notNull"`
	ID     *value.UUID           `json:"id"`
	SKU    *string               `json:"sku"`
	Action transfer.ImportAction `json:"action" rule:"notNull"`
}

// importRow is a row of a file, with the columns of an export: a product, and perhaps one of its materials.
type importRow struct {
	ID value.Optional[string] `json:"id"`
	Product
	MaterialID    value.Optional[value.UUID]             `json:"materials.id"`
	MaterialType  value.Optional[inventory.MaterialType] `json:"materials.material_type"`
	Color         value.Optional[string]                 `json:"materials.color"`
	Weight        value.Optional[value.Decimal]          `json:"materials.weight_grams" rule:"maximum=1000000"`
	IsRequired    value.Optional[bool]                   `json:"materials.is_required"`
	MaterialNotes value.Optional[string]                 `json:"materials.notes" rule:"maxLength=2000"`
	MaterialName  value.Optional[string]                 `json:"materials.material_name"`
	DiameterMM    value.Optional[value.Decimal]          `json:"materials.diameter_mm" rule:"enum=1.75|2.85"`
	FilamentID    value.Optional[value.UUID]             `json:"materials.filament_id"`
	FilamentNo    value.Optional[int64]                  `json:"materials.filament_number" rule:"minimum=1,maximum=999999999"`
	Brand         string                                 `json:"materials.brand" rule:"readOnly"`
	Priced        value.Decimal                          `json:"materials.cost" rule:"readOnly"`
	Basis         string                                 `json:"materials.cost_basis" rule:"readOnly"`
	ComponentID   value.UUID                             `json:"components.id" rule:"readOnly"`
	Component     value.Optional[value.UUID]             `json:"components.component_product_id"`
	ComponentName string                                 `json:"components.component_name" rule:"readOnly"`
	Quantity      int64                                  `json:"components.quantity" rule:"readOnly"`
	PartNotes     string                                 `json:"components.notes" rule:"readOnly"`
	UnitCost      value.Decimal                          `json:"components.unit_cost" rule:"readOnly"`
	PartCost      value.Decimal                          `json:"components.cost" rule:"readOnly"`
	ReplacesType  value.Optional[inventory.MaterialType] `json:"variant_materials.replaces_material_type"`
	ReplacesColor value.Optional[string]                 `json:"variant_materials.replaces_color"`
	VariantColor  value.Optional[string]                 `json:"variant_materials.color"`
	VariantID     value.Optional[value.UUID]             `json:"variant_materials.filament_id"`
	VariantNo     value.Optional[int64]                  `json:"variant_materials.filament_number" rule:"minimum=1,maximum=999999999"`
	VariantBrand  string                                 `json:"variant_materials.brand" rule:"readOnly"`
}

// productColumns are the columns of products that an import sets, but variant_of, which never changes. materialColumns
// are the columns of materials that an import sets.
var (
	productColumns = slices.DeleteFunc(server.SchemaOf[Product]().Writable(),
		func(name string) bool { return name == "variant_of" })
	materialColumns = server.SchemaOf[ProductMaterial]().Writable()
)

// material maps columns to the row's values of a material.
func (r *importRow) material() map[string]any {
	return map[string]any{"material_type": r.MaterialType.Arg(), "material_name": r.MaterialName.Arg(),
		"color": r.Color.Arg(), "diameter_mm": r.DiameterMM.Arg(), "filament_id": r.FilamentID.Arg(),
		"weight_grams": r.Weight.Arg(), "is_required": r.IsRequired.Arg(), "notes": r.MaterialNotes.Arg()}
}

func (r *importRow) hasMaterial() bool {
	return !r.MaterialID.IsNull() || !r.FilamentID.IsNull() || !r.FilamentNo.IsNull() || !r.MaterialType.IsNull() ||
		!r.MaterialName.IsNull() || !r.DiameterMM.IsNull() || !r.Color.IsNull() || !r.Weight.IsNull() ||
		r.IsRequired.Or(false) || !r.MaterialNotes.IsNull()
}

var importDoc = &server.Doc{
	ID: "importProducts", Tag: Tag, Summary: "Import products from CSV",
	Description: "Creates or changes all products of a CSV file with their materials, or none. The columns are " +
		"those of `exportProducts`: fields of a product, and of a material with a name such as `materials.color`. " +
		"A product has a row for each material, with its own fields repeated. Rows with the same `id` are one " +
		"product; without an `id`, those with the same `sku`, and without both, those with the same `name`.\n\n" +
		"With the `mode` `create`, each product is a new one and must satisfy the rules of `POST /api/v1/products`; ids " +
		"only group rows. With `update`, rows change the product with their `id` or, without an `id`, with their `sku`: " +
		"only the columns of the file change, and an empty cell sets null. A row with neither is skipped. With `upsert`, " +
		"a row with neither is a new product, and so is one with an unknown `id` or, without an `id`, an unknown `sku`; a " +
		"row with an unknown `id` and a known `sku` changes the product with the `sku`.\n\n" +
		"A row names a material of its product by `materials.id` or, without it, by its filament, or else by type, " +
		"color, name and diameter as far as the file has them; if the product has no such material, it is added. " +
		"`materials.filament_number` can stand for `materials.filament_id`. A `materials.weight_grams` of 0 removes " +
		"the material. " +
		"Materials that the file does not name stay as they are, and so do components and plates: their columns are " +
		"ignored, and a new product cannot have any. A new product is no plate, whatever its `plate_of` says.\n\n" +
		"A new product with `variant_of`, or `variant_of_sku`, is a variant of that product, which the file may contain. " +
		"A row of a variant has at most one of its `variant_materials`, and no material; a row without `sku` and `name` is a " +
		"variant on its own. Its other cells are empty, or have the values of the product as the file makes it.\n\n" +
		transfer.ImportRules(maxRows),
}

var checkDoc = &server.Doc{ID: "checkProductImport", Tag: Tag, Summary: "Check a file of products",
	Description: transfer.CheckDescription}

const importExample = "name,category,materials.material_type,materials.color,materials.weight_grams\n" +
	"Dragon,Toys,PLA,Black,45\nDragon,Toys,PETG,Transparent,12.5\nCoat hook,Home,,,\n"

type productFile struct {
	mode     transfer.Mode
	columns  []string // the imported columns
	products []importedProduct
	taken    map[string]bool // the ids of rows that are ids of products, including removed ones

	filaments map[string]transfer.Stored // by id and, unless hidden, by number
}

type importedProduct struct {
	line      int                           // the line of its first row
	hash      int64                         // of its first row
	keys      []string                      // its id and SKU, if they can name a product
	id        string                        // its id in the file, or ""
	in        Product                       // the fields of its first row
	materials []*transfer.Record[importRow] // the rows with a material
	component bool                          // whether a row has a component
	entries   []VariantMaterial             // variant_materials
	lines     []int                         // of the entries
	foreign   bool                          // whether the ids come from another farm
}

// readImport decodes and validates the rows of a CSV file. maximum is the maximum number of rows. The error is a 422.
func readImport(file *transfer.Table, how transfer.Reading, maximum int) (f productFile, err error) {
	f.mode = how.Mode
	rows, columns, err := transfer.ReadRows[importRow](file, how, maximum, checkID, "id", "sku")
	if err != nil {
		return f, err
	}
	f.columns = columns
	invalid := transfer.RowProblems{}
	known := map[string]int{} // the index of each product by its id, its SKU or its name
	for i := range rows {
		row := &rows[i]
		name := "name " + row.In.Name.Or("")
		switch {
		case row.In.ID.Or("") != "":
			name = "id " + row.In.ID.Or("")
		case row.In.SKU.Or("") != "":
			name = "sku " + row.In.SKU.Or("")
		case row.In.Name.IsNull(): // a variant
			name = "line " + strconv.Itoa(row.Line)
		}
		n, ok := known[name]
		if !ok || f.skips(row.Keys) {
			n = len(f.products)
			known[name] = n
			f.products = append(f.products, importedProduct{line: row.Line, hash: row.Hash, keys: row.Keys, in: row.In.Product})
			f.products[n].id, _ = value.ParseID(row.In.ID.Or(""))
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
		if e := row.In.entry(); e != (VariantMaterial{}) {
			p.entries, p.lines = append(p.entries, e), append(p.lines, row.Line)
		}
	}
	return f, invalid.Err()
}

// checkID replaces the id, keys[0], by its canonical form. It returns a problem if the id is not valid.
func checkID(keys []string) []server.FieldError {
	if keys[0] == "" {
		return nil
	}
	id, ok := value.ParseID(keys[0])
	if !ok {
		return []server.FieldError{{Field: "id", Message: language.Sprintf("must be a UUID")}}
	}
	keys[0] = id
	return nil
}

// skips reports whether the import skips a row with the keys.
func (f *productFile) skips(keys []string) bool { return f.mode == transfer.Update && keys == nil }

// difference returns the name of a column in which two rows differ, or "".
func difference(a, b *Product) string {
	first, second := server.Row(a), server.Row(b)
	for _, column := range append(slices.Clone(productColumns), "variant_of") {
		if first[column] != second[column] {
			return column
		}
	}
	return ""
}

// maxRows is the maximum number of rows of an import through the API. It limits the time of the import's transaction,
// which recomputes the costs of each product.
const maxRows = 2_000

// importError converts an error of the import's statements to an error of the import.
func importError(err error) error {
	if db.Violates(err, "products_sku") { // a concurrent change
		return server.Invalid("sku", "of a row was given to another product in the meantime; try again").Because(err)
	}
	return costError(err, "materials.weight_grams")
}

// productChanges are the rows to write.
type productChanges struct {
	created, updated           []map[string]any // products
	addedMaterials, materials  []map[string]any // new and changed materials
	removed, renamed, computed []string         // ids of materials, of products with another SKU, and with new costs
	variants                   []map[string]any // rows of write_variants, whose n is the line

	known   map[string]string        // the ids of the products of the file, by those in the file
	written map[int]*importedProduct // the variants, by their lines
	stored  []transfer.Stored        // the variants that change

	history imports.History
}

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
	if err := changes.history.FindRepeated(ctx, d, "products", &result.ImportCounts); err != nil {
		return result, err
	}
	if dryRun && len(changes.variants) == 0 {
		return result, nil
	}
	if dryRun { // only the database knows what variants follow: write all, and take it back
		if err = d.Write(ctx, db.SQL(`savepoint dry_run`)); err == nil {
			err = changes.write(ctx, d)
		}
		if err == nil {
			err = d.Write(ctx, db.SQL(`rollback to savepoint dry_run`))
		}
		return result, err
	}
	if err := changes.write(ctx, d); err != nil {
		return result, err
	}
	if err := changes.changedVariants(ctx, d); err != nil {
		return result, err
	}
	result.ImportID, err = changes.history.Save(ctx, d, "products", result.Created, result.Updated)
	return result, err
}

// storedProduct has the columns of products and their materials to select, for StoredRows.
var storedProduct = `id, variant_of, (
				select b.sku from products b where b.id = products.variant_of) as variant_of_sku, (
				select coalesce(json_agg(json_build_object('replaces_material_type', e.replaces_material_type,
					'replaces_color', e.replaces_color, 'color', coalesce(f.color, e.color), 'filament_id', e.filament_id,
					'number', f.number) order by e.n), '[]')
				from variant_materials e left join filaments f on f.id = e.filament_id
				where e.variant_id = products.id) as variant_materials, ` + strings.Join(productColumns, ", ") + `, (
				select coalesce(json_agg(json_build_object('id', m.id, 'filament_id', m.filament_id,
					'material_type', m.material_type, 'material_name', m.material_name, 'color', m.color,
					'diameter_mm', trim_scale(m.diameter_mm), 'weight_grams', trim_scale(m.weight_grams),
					'is_required', m.is_required,
						'notes', m.notes)), '[]')
				from product_materials m where m.product_id = products.id) as materials`

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
	// LockRows finds no hidden product. The condition of the SKUs lets PostgreSQL use the index products_sku.
	locked := server.LockRows("products", storedProduct, `
		select unnest($1::uuid[]) as id union all
		select s.id from unnest($2::text[]) k (sku) cross join lateral (
			select id from products where sku = k.sku and sku <> '' and hidden_at is null
		) s`, "hidden_at is null", ids, skus)
	taken := []string{}
	known := db.SQL(`
		select coalesce(array_agg(p.id::text), '{}') from unnest($1::uuid[]) n (id) cross join lateral (
			select id from products where id = n.id
		) p`, ids).Into(&taken)
	bases := db.SQL(`select lock_bases($1::uuid[] || array(
		select id from products where sku = any ($2::text[]) and sku <> '' and hidden_at is null))::text`, ids, skus)
	if err := d.Write(ctx, lockCatalog(), bases, locked, known); err != nil {
		return nil, err
	}
	f.taken = map[string]bool{}
	for _, id := range taken {
		f.taken[id] = true
	}
	if products, err = transfer.StoredRows(locked); err != nil {
		return nil, err
	}
	return products, f.lockFilaments(ctx, d, products)
}

// lockFilaments locks the filaments that materials of the file and of the products name, and sets f.filaments.
func (f *productFile) lockFilaments(ctx context.Context, d *db.DB, products []transfer.Stored) error {
	ids, numbers := []string{}, []int64{}
	for _, p := range f.products {
		for _, row := range p.materials {
			if !row.In.FilamentID.IsNull() {
				ids = append(ids, string(*row.In.FilamentID.Value))
			}
			if !row.In.FilamentNo.IsNull() {
				numbers = append(numbers, *row.In.FilamentNo.Value)
			}
		}
	}
	for _, p := range products {
		for _, m := range p["materials"].([]any) {
			if id := transfer.Stored(m.(map[string]any)).Text("filament_id"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	f.filaments = map[string]transfer.Stored{}
	if len(ids)+len(numbers) == 0 {
		return nil
	}
	locked := db.SQL(`
		with named as materialized (
			select unnest($1::uuid[]) as id union all
			select f.id from unnest($2::int[]) n (number) cross join lateral (
				select id from filaments where number = n.number
			) f
		)
		select locked.* from (select distinct id from named order by id) ids cross join lateral (
			select id, number, material_type, nullif(material_name, '') as material_name, color, diameter_mm,
				hidden_at is not null as hidden
			from filaments where id = ids.id for share
		) locked`, ids, numbers)
	if err := d.Write(ctx, locked); err != nil {
		return err
	}
	rows, err := transfer.StoredRows(locked)
	for _, row := range rows {
		f.filaments[row.Text("id")] = row
		if row.Text("hidden") == "false" {
			f.filaments["number "+row.Text("number")] = row
		}
	}
	return err
}

// filament returns the filament for the material of a row: the filament that the row names or, if the file has no
// column for it, the filament of the stored material. stored is nil for a new material. ok is false if there is no
// such filament.
func (f *productFile) filament(in *importRow, stored transfer.Stored) (filament transfer.Stored, ok bool) {
	old := ""
	if stored != nil {
		old = stored.Text("filament_id")
	}
	name := old
	switch {
	case !in.FilamentID.IsNull():
		name = string(*in.FilamentID.Value)
	case !in.FilamentNo.IsNull():
		name = "number " + strconv.FormatInt(*in.FilamentNo.Value, 10)
	case f.hasFilaments():
		name = ""
	}
	if name == "" {
		return nil, true
	}
	filament = f.filaments[name]
	return filament, filament != nil && (filament.Text("hidden") == "false" || name == old)
}

// names reports whether a row without the id of a material matches the stored material m.
func (f *productFile) names(in *importRow, m transfer.Stored) bool {
	if filament, ok := f.filament(in, nil); filament != nil || !ok {
		return filament != nil && filament.Text("id") == m.Text("filament_id")
	}
	for column, value := range map[string]string{"material_name": in.MaterialName.Or(""),
		"diameter_mm": transfer.ValueText(in.DiameterMM.Arg())} {
		if slices.Contains(f.columns, "materials."+column) && !strings.EqualFold(value, m.Text(column)) {
			return false
		}
	}
	return in.MaterialType.Arg() == m["material_type"] && strings.EqualFold(in.Color.Or(""), m.Text("color"))
}

// compare returns the necessary changes, and fills the report. The error is a 422.
func (f *productFile) compare(products []transfer.Stored, report []ImportedProduct) (c productChanges, err error) {
	byID, bySKU := map[string]transfer.Stored{}, map[string]transfer.Stored{}
	for _, s := range products {
		byID[s.Text("id")] = s
		if sku := s.Text("sku"); sku != "" {
			bySKU[sku] = s
		}
	}
	c.known, c.written = map[string]string{}, map[int]*importedProduct{}
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
			if s = byID[p.keys[0]]; s == nil && f.mode == transfer.Upsert && !f.taken[p.keys[0]] {
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
	for _, s := range products { // products that have the SKU of a row and keep it
		name, id := s.Text("sku"), s.Text("id")
		if after, ok := sku[id]; name != "" && skus[name] > 0 && (!ok || after == name) && first[id] != skus[name] {
			invalid.Add(skus[name], "sku", "is that of another product")
		}
	}
	for _, row := range c.variants { // of a product in the file
		if id := c.known[fmt.Sprint(row["variant_of"])]; id != "" {
			row["variant_of"] = id
		}
	}
	return c, invalid.Err()
}

// change adds to c the changes that make the stored product s equal to the product of the file. s is nil for a new
// product.
func (f *productFile) change(
	c *productChanges, p *importedProduct, s transfer.Stored, report *ImportedProduct, invalid transfer.RowProblems,
) {
	values, id := server.Row(&p.in), value.NewID()
	before, after := transfer.Stored{}, map[string]any{} // of what changes, with each material as a column
	of, ofSKU := string(p.in.VariantOf.Or("")), p.in.VariantOfSKU.Or("")
	switch {
	case s == nil && of+ofSKU != "", s != nil && s.Text("variant_of") != "":
		f.changeVariant(c, p, s, report, invalid)
		return
	case of+ofSKU != "":
		invalid.Add(p.line, "variant_of", "must be empty: a product does not become a variant")
	case len(p.entries) > 0:
		invalid.Add(p.lines[0], "variant_materials.color", "must be empty: the product is not a variant")
	}
	if s == nil {
		if p.in.Name.IsNull() {
			invalid.Add(p.line, "name", "is required")
		}
		if p.component {
			invalid.Add(p.line, "components.component_product_id",
				"must be empty: a new product is imported without components")
		}
		values["id"] = id
		c.history.CreateRow("products", id, p.line, p.hash)
		c.created = append(c.created, values)
		report.Action = "created"
	} else {
		id = s.Text("id")
		report.Action = "unchanged"
		for _, column := range productColumns {
			if !slices.Contains(f.columns, column) || transfer.ValueText(values[column]) == s.Text(column) {
				values[column] = s[column]
			} else {
				report.Action, before[column], after[column] = "updated", s[column], values[column]
				if column == "sku" {
					c.renamed = append(c.renamed, id)
				}
			}
		}
		if values["id"] = id; report.Action == "updated" {
			c.updated = append(c.updated, values)
		}
	}
	c.known[p.id] = id
	report.ID = (*value.UUID)(&id)
	if f.changeMaterials(c, p, s, id, invalid, before, after) {
		c.computed = append(c.computed, id)
		if s != nil {
			report.Action = "updated"
		}
	}
	if before["id"] = id; s != nil && len(after) > 0 {
		c.history.Change("products", before, after, slices.Sorted(maps.Keys(after))...)
	}
}

// changeMaterials adds to c the changes to the materials of the product. It reports whether there are any, and adds the
// former and the new texts of these materials to before and after.
func (f *productFile) changeMaterials(
	c *productChanges, p *importedProduct, s transfer.Stored, product string, invalid transfer.RowProblems,
	before, after map[string]any,
) (changed bool) {
	var old []any
	if s != nil {
		old = s["materials"].([]any)
	}
	count, used := len(old), map[string]int{} // the line of each material
	for _, row := range p.materials {
		problem := func(field string, message language.Text, args ...any) {
			invalid.Add(row.Line, "materials."+field, message, args...)
		}
		in := &row.In
		named := in.MaterialID
		if p.foreign {
			named = value.Optional[value.UUID]{}
		}
		var same []transfer.Stored
		for _, m := range old {
			m := transfer.Stored(m.(map[string]any))
			if id := named; !id.IsNull() && string(*id.Value) == m.Text("id") || id.IsNull() && f.names(in, m) {
				same = append(same, m)
			}
		}
		values, removes := in.material(), in.Weight.Or(1) == 0
		var stored transfer.Stored
		if len(same) == 1 {
			stored = same[0]
		}
		filament := f.setFilament(values, in, stored, problem)
		switch {
		case len(same) > 1:
			problem("id", "is required, because the product has several materials of this type and color")
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
			values["id"], values["product_id"], values["is_required"] = value.NewID(), product, in.IsRequired.Or(true)
			c.addedMaterials, changed = append(c.addedMaterials, values), true
			after[materialColumn+values["id"].(string)] = materialText(values)
			count++
		default:
			m := same[0]
			id := m.Text("id")
			if line := used[id]; line > 0 {
				problem("id", "is that of line %d", line)
			}
			used[id] = row.Line
			before[materialColumn+id], after[materialColumn+id] = materialText(m), nil
			if removes {
				c.removed, changed = append(c.removed, id), true
				count--
				continue
			}
			differs := f.keepMaterial(values, m, filament, problem)
			if values["id"] = id; differs {
				c.materials, changed = append(c.materials, values), true
				after[materialColumn+id] = materialText(values)
			} else {
				delete(after, materialColumn+id)
			}
		}
	}
	if count > server.MaxEntries {
		invalid[p.line] = append(invalid[p.line], server.TooManyEntries("materials").Fields...)
	}
	return changed
}

// addProblem adds a problem with a field of a material.
type addProblem func(field string, message language.Text, args ...any)

// setFilament gives the values of a material the filament that a row names, or else that of the stored material, with
// the columns that follow it. It returns the filament, or nil.
func (f *productFile) setFilament(
	values map[string]any, in *importRow, stored transfer.Stored, problem addProblem,
) transfer.Stored {
	filament, ok := f.filament(in, stored)
	if values["filament_id"] = nil; !ok {
		problem("filament_id", "is not the id or the number of a filament")
	} else if filament != nil {
		values["filament_id"] = filament["id"]
		for _, column := range []string{"material_type", "material_name", "color", "diameter_mm"} {
			value := transfer.ValueText(values[column])
			if value != "" && slices.Contains(f.columns, "materials."+column) &&
				!strings.EqualFold(value, filament.Text(column)) {
				problem(column, "is not that of the filament")
			}
			values[column] = filament[column]
		}
	}
	return filament
}

// keepMaterial gives values those of the stored material m that the file does not change. It reports whether the file
// changes others.
func (f *productFile) keepMaterial(
	values map[string]any, m, filament transfer.Stored, problem addProblem,
) (differs bool) {
	for _, column := range materialColumns {
		value := transfer.ValueText(values[column])
		switch {
		case value == m.Text(column), value == "" && column == "is_required",
			!slices.Contains(f.columns, "materials."+column) &&
				(filament == nil && (column != "filament_id" || !f.hasFilaments()) || !follows(column)):
			values[column] = m[column]
		case value == "" && slices.Contains([]string{"material_type", "color", "weight_grams"}, column):
			problem(column, "must not be empty")
		default:
			differs = true
		}
	}
	return differs
}

// hasFilaments reports whether the file has a column that names filaments.
func (f *productFile) hasFilaments() bool {
	return slices.Contains(f.columns, "materials.filament_id") ||
		slices.Contains(f.columns, "materials.filament_number")
}

// follows reports whether a column of a material depends on its filament.
func follows(column string) bool {
	return slices.Contains([]string{"filament_id", "material_type", "material_name", "color", "diameter_mm"}, column)
}

func (c *productChanges) write(ctx context.Context, d *db.DB) error {
	// First clear each SKU that changes, so that products can exchange their SKUs.
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
		insert into products (id, number, `+columns+`)
		select r.id, f.number + r.ordinality - 1, r.`+strings.Join(productColumns, ", r.")+`
		from next_number('products', json_array_length($1::json), json_array_length($1::json)) f (number)
		cross join json_populate_recordset(null::products, $1::json) with ordinality r
		where r.id = any ($2::uuid[])`); err != nil {
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
	if err := inBatches(ctx, d, c.computed, `select recompute_costs($1::uuid[], false)::text`); err != nil {
		return err
	}
	changed := slices.Clone(c.computed)
	for _, row := range c.updated {
		changed = append(changed, row["id"].(string))
	}
	if err := inBatches(ctx, d, changed, `select derive_variants($1::uuid[])::text`); err != nil {
		return err
	}
	return c.rowError(transfer.InBatches(c.variants, func(list string, _ []string) error {
		return d.Write(ctx, db.SQL(`select write_variants($1::json)::text`, list))
	}))
}

// inBatches runs a statement for batches of the ids. $1 is the ids of a batch.
func inBatches(ctx context.Context, d *db.DB, ids []string, statement string) error {
	for batch := range slices.Chunk(ids, transfer.BatchRows) {
		if err := d.Write(ctx, db.SQL(statement, batch)); err != nil {
			return err
		}
	}
	return nil
}

// inRows runs a statement for batches of the rows. $1 is the rows of a batch, and $2 is their ids.
func inRows(ctx context.Context, d *db.DB, rows []map[string]any, statement string) error {
	return transfer.InBatches(rows, func(list string, ids []string) error {
		return d.Write(ctx, db.SQL(statement, list, ids))
	})
}

// productSheets reads people's spreadsheets as products. Each row has at most one material.
var productSheets = sheets.New[importRow]("product", map[string]string{"filament_name": "name",
	"article_number": "sku", "category": "category", "notes": "notes", "selling_price": "selling_price",
	"purchase_price": "selling_price", "print_minutes": "estimated_print_time_minutes",
	"labour_minutes": "labour_minutes", "pieces_per_plate": "pieces_per_plate",
	"material_type": "materials.material_type", "color": "materials.color", "net_weight_grams": "materials.weight_grams",
	"used_weight_grams": "materials.weight_grams", "material_name": "materials.material_name",
	"diameter_mm": "materials.diameter_mm"}, "id", "sku", "materials.id")

var productImport = transfer.Import[productFile, ImportedProducts]{
	Resources: "products", Most: maxRows, Example: importExample, Read: readImport, Write: writeProducts,
	Error: importError, Convert: productSheets.Convert, Good: productSheets.Good,
	Help: "create or change products and their materials from a CSV file: all rows, or none\n\n" +
		"The first line names the columns, which are those of `export products`. A product has a row for each\n" +
		"material, with its own fields repeated: rows with the same id, else sku, else name are one product. If any\n" +
		"row is invalid, nothing is imported. FILE may be - for standard input.\n\n" +
		"With --mode update, the rows change the products that their id or sku names: the columns of the file, and\n" +
		"no others. With --mode upsert, the default, rows with an unknown id or sku, or without both, are new\n" +
		"products, and with --mode create all rows.",
}
