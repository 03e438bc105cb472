package web

import (
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value/language"
)

// product is a product, as the API returns it.
type product struct {
	ID            string `json:"id"`
	Number        int    `json:"number"`
	Name          string `json:"name"`
	Description   string `json:"description"`
	SKU           string `json:"sku"`
	Category      string `json:"category"`
	Minutes       num    `json:"estimated_print_time_minutes"`
	Notes         string `json:"notes"`
	MaterialCost  num    `json:"material_cost"`
	ComponentCost num    `json:"component_cost"`
	TotalCost     num    `json:"total_cost"`
	Price         num    `json:"selling_price"`
	Complete      bool   `json:"costs_complete"`
	Picture       string `json:"picture_version"`
	File          string `json:"file_name"`
	Printer       string `json:"printer_model"`
	Materials     []productMaterial
	Components    []component
	Plates        []plate
	PlateOf       string         `json:"plate_of"`
	Plate         num            `json:"plate"`
	VariantOf     string         `json:"variant_of"`
	VariantCount  int            `json:"variant_count"` // of an entry of a list
	Entries       []variantEntry `json:"variant_materials"`
	pieceStock

	// A list has these, too.
	Full     costs     `json:"-"`
	Lacks    []string  `json:"-"` // unknown parts of the cost that are known for other products of the page
	Variants []variant `json:"-"`
}

// material describes a filament, as the API returns it. The diameter may be "".
type material struct {
	Material   string `json:"material_type"`
	Exact      string `json:"material_name"`
	Color      string
	Brand      string
	Diameter   num    `json:"diameter_mm"`
	FilamentID string `json:"filament_id"`
}

// Title returns the name of the filament for people. It omits the usual diameter of 1.75 mm.
func (m material) Title() string {
	title := inventory.MaterialLabel(m.Material, m.Exact) + " " + m.Color
	if m.Diameter != "" && m.Diameter != "1.75" {
		title += " " + m.Diameter.String() + "\u00a0mm"
	}
	if m.FilamentID != "" && m.Brand != "" {
		title += " (" + m.Brand + ")"
	}
	return title
}

// isOf reports whether the material m of a product is counted in the needed material o. Unlike m, o always has a
// diameter.
func (m material) isOf(o material) bool {
	return m.FilamentID == o.FilamentID && m.Material == o.Material && strings.EqualFold(m.Color, o.Color) &&
		(m.Diameter == "" || m.Diameter == o.Diameter) && inventory.SameMaterial(m.Material, m.Exact, o.Exact)
}

type productMaterial struct {
	material
	ID       string
	Weight   num  `json:"weight_grams"`
	Required bool `json:"is_required"`
	Notes    string
	Cost     num
	Basis    string `json:"cost_basis"`
}

// Swatch returns the picture of the color that the material's name means.
func (m productMaterial) Swatch() template.HTML { return newSwatch(m.Color, false) }

// BasisNote returns the source of the price in the cost, or "" if the price is that of the filament itself.
func (m productMaterial) BasisNote(v translator) string {
	switch m.Basis {
	case "material":
		return v.t("price of other colors")
	case "color":
		if m.FilamentID != "" {
			return v.t("price of other filaments of the color")
		}
	}
	return ""
}

// CostNote says what the sum of the costs is, with its restrictions.
func (p product) CostNote(v translator) string {
	notes := []string{v.t("of filament")}
	if slices.ContainsFunc(p.Materials, func(m productMaterial) bool { return m.Basis == "material" }) {
		notes = append(notes, v.t("partly at the price of other colors"))
	}
	if !p.Complete {
		notes = append(notes, v.t("not complete"))
	}
	return commas(v, notes)
}

type component struct {
	ID        string
	ProductID string `json:"component_product_id"`
	Quantity  num
}

// part is a component in the tree of a product.
type part struct {
	ID        string
	Level     int
	ProductID string `json:"component_product_id"`
	Name      string `json:"component_name"`
	Quantity  num
	Total     num `json:"total_quantity"`
	Cost      num
	Complete  bool    `json:"costs_complete"`
	Parts     []*part // the components of the component
	Form      *form   // changes the component, if it is one of the product of the page
	Address   string  // of the form
}

// partTree contains the components of a product on all levels. After each component come its own components.
type partTree struct {
	Entries  []*part
	Complete bool `json:"entries_complete"`
}

// Parts returns the components of the product, and sets the Parts of all components.
func (t partTree) Parts() []*part {
	last := []*part{{}} // the last component of each level; level 0 is the product
	for _, p := range t.Entries {
		last = append(last[:p.Level], p)
		above := last[p.Level-1]
		above.Parts = append(above.Parts, p)
	}
	return last[0].Parts
}

var productList = &listOf[product]{editor: products, Title: "Products", Add: "Add a product",
	Empty: "There are no products yet. A product is what you print, with the filament that it needs.",
	First: "Add the first product", Also: word{"/products/files", "From sliced files"},
	Other: word{"/products/labels", "Labels"},
	filters: []filter{searchFilter, {"category", "category", "Category", nil},
		{"location", "location", "Location", nil}},
	orders: []listOrder{{"", "Newest first", "created_at", "desc"}, {"name", "Name", "name", "asc"},
		{"sku", "SKU", "sku", "asc"}, {"category", "Category", "category", "asc"},
		{"cost", "Highest cost of filament first", "total_cost", "desc"}},
	columns: []column{{label: "Product", by: "name"}, {label: "Category", class: "wide", by: "category"},
		{label: "In stock", class: "amount"},
		{label: "Print time", class: "amount wide", by: "estimated_print_time_minutes", falls: true},
		{label: "Price", class: "amount wide", by: "selling_price", falls: true},
		{label: "Cost", class: "amount wide"}, {label: "Margin", class: "amount"}},
	query: withoutVariants,
	fetch: func(v *visit, entries read, products *[]product) error {
		if err := v.fetch(entries); err != nil || len(*products) == 0 {
			return err
		}
		if err := v.fetchVariants(*products); err != nil {
			return err
		}
		return v.fetchCosts(*products)
	},
	row: func(v *visit, r *rows, p *product) {
		r.add(`<tr><td>`)
		r.picture(thumb(p.ID, p.Picture))
		r.add(`<a class="title" href="/products/{}"><b>{}</b></a>`, p.ID, p.Name)
		r.some(` <small>{}</small>`, join(" · ", p.SKU, p.Location))
		p.addVariants(v, r)
		r.add(`</td><td class="wide">{}</td>`, p.Category)
		if p.hasFew() {
			r.add(`<td class="amount late">{} <small>{}</small></td>`, v.Count(p.OnHand), v.t("low|stock"))
		} else {
			r.add(`<td class="amount">{}</td>`, v.Count(p.OnHand))
		}
		r.add(`<td class="amount wide">{}</td><td class="amount wide">{}</td>`, v.Minutes(p.Minutes), v.Money(p.Price))
		r.add(`<td class="amount wide">{}`, v.Money(p.Full.Full))
		r.when(len(p.Lacks) > 0 && p.Full.Margin == "", ` <small>{}</small>`, v.t("not complete"))
		r.add(`</td><td class="amount">{}`, v.Money(p.Full.Margin))
		r.when(len(p.Lacks) > 0 && p.Full.Margin != "", ` <small>{}</small>`, v.t("not complete"))
		r.add(`</td></tr>` + "\n")
	},
	below: func(_ *visit, products []product) any {
		if len(products) == 0 {
			return costs{}
		}
		return costs{Unknown: without(products[0].Full.Unknown, products[0].Lacks)}
	}}

// fetchCosts reads the costs of the products, and divides the parts that are unknown into those of all products and
// the Lacks of each.
func (v *visit) fetchCosts(products []product) error {
	var ids []string
	for _, p := range products {
		ids = append(ids, p.ID)
	}
	var found struct {
		Items []struct {
			ID      string
			Full    num `json:"full_cost"`
			Margin  num
			Unknown []string `json:"unknown_parts"`
		}
	}
	if err := v.fetch(get("/api/v1/products/costs?ids="+strings.Join(ids, ","), &found)); err != nil {
		return err
	}
	all := map[string]costs{}
	var common []string
	for i, one := range found.Items {
		all[one.ID] = costs{Full: one.Full, Margin: one.Margin, Unknown: one.Unknown}
		if i == 0 {
			common = one.Unknown
		}
		common = without(common, without(common, one.Unknown))
	}
	for i := range products {
		p := &products[i]
		p.Full = all[p.ID]
		p.Lacks = without(p.Full.Unknown, common)
	}
	return nil
}

// without returns the texts that are not among the others.
func without(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return slices.Contains(others, text) })
}

var products = &editor{api: "/api/v1/products", path: "/products", noun: productNoun,
	users: "/api/v1/products?component_product_id={id}&limit=20&sort_by=name&sort_order=asc",
	name:  func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"sku", text}, "SKU", "may", nil},
		{field{"category", text}, "Category", "own;may", nil},
		{field{"estimated_print_time_minutes", number}, "Print time", "own;type=number;unit=minutes", nil},
		{field{"labour_minutes", number}, "Work on a piece", "own;may;type=number;unit=minutes", nil},
		{field{"pieces_per_plate", number}, "Pieces on a plate", "own;type=number", nil},
		{field{"selling_price", number}, "Selling price", "type=number;unit=$currency", nil},
		{field{"minimum_pieces", number}, "Keep in stock", "own;may;type=number;unit=pieces;hint=Empty: no minimum", nil},
		{field{"location", text}, "Where its pieces are", "own;may", nil},
		{field{"description", text}, "Description", "own;may;rows=3", nil},
		{field{"notes", text}, "Notes", "own;may;rows=3", nil},
	},
	lists: []nestedList{{name: "materials", title: "Filament of a piece", count: 2, any: "/api/v1/filaments",
		hint: "The page of the product has more choices.", fields: []editorField{
			{field{"filament_id", text}, "Filament", "find=filaments", nil},
			{field{"weight_grams", number}, "Weight", "type=number;unit=g", nil}},
		without: []editorField{
			{field{"material_type", text}, "Material", "", append([]word{{"", "Choose"}}, materials...)},
			{field{"color", text}, "Color", "", nil},
			{field{"weight_grams", number}, "Weight", "type=number;unit=g", nil}}},
		{name: "components", title: "Other products in a piece", count: 1, any: "/api/v1/products", fields: []editorField{
			{field{"component_product_id", text}, "Product", "find=products", nil},
			{field{"quantity", number}, "Pieces", "type=number", nil}}}}}

// availability is the filament that a product or an order needs and that is in stock.
type availability struct {
	CanPrint  bool `json:"can_print"`
	Quantity  int
	Materials []struct {
		material
		Needed     num `json:"needed_grams"`
		Available  num `json:"available_grams"`
		Missing    num `json:"missing_grams"`
		SpoolCount int `json:"spool_count"`
		Spools     []struct {
			ID     string
			Number int64
		}
		InStock []stocked `json:"in_stock"`
	}
	Items []availableItem // only of an open order
}

// stocked is a filament in stock that is similar to a needed filament, which is not in stock.
type stocked struct {
	material
	Remaining num `json:"remaining_grams"`
}

// unmatched is a needed material that is not in stock, with similar filaments that are.
type unmatched struct {
	material
	InStock []stocked
	Own     []productMaterial // the materials of the product itself that are counted in the needed material
}

// Unmatched returns the needed materials that are not in stock.
func (p *productPage) Unmatched() (all []unmatched) {
	for _, m := range p.Stock.Materials {
		if m.SpoolCount > 0 {
			continue
		}
		one := unmatched{material: m.material, InStock: m.InStock[:min(len(m.InStock), 5)]}
		for _, own := range p.Product.Materials {
			if own.Required && own.isOf(m.material) {
				one.Own = append(one.Own, own)
			}
		}
		all = append(all, one)
	}
	return all
}

// setMaterial makes the body of the operation that changes a material of a product to a filament in stock.
// The field filament has the title of the filament, to compare it with that of the present material.
func setMaterial(f *form) map[string]any {
	body := map[string]any{"filament_id": nil, "material_name": nil}
	for _, name := range []string{"material_type", "material_name", "color"} {
		if s := f.Values.Get(name); s != "" {
			body[name] = s
		}
	}
	if s := f.Values.Get("diameter_mm"); s == "1.75" || s == "2.85" {
		body["diameter_mm"] = json.Number(s)
	}
	return body
}

// materialForm returns the present values of a form that changes a material of a product.
func materialForm(v *visit) (*form, error) {
	f := v.newForm()
	var p product
	err := v.fetch(read{path: "/api/v1/products/{id}", into: &p, tag: &f.Tag})
	for _, m := range p.Materials {
		if m.ID == v.r.PathValue("part") {
			f.Values.Set("filament", m.Title())
		}
	}
	return f, err
}

// newMaterial makes the body of the operation that adds a material. If the form names a filament, the material gets
// all its fields except the weight from the filament.
func newMaterial(f *form) map[string]any {
	body := f.body(field{"material_type", text}, field{"material_name", text}, field{"color", text},
		field{"diameter_mm", number}, field{"filament_number", number}, field{"weight_grams", number})
	if body["filament_number"] != nil {
		delete(body, "material_type")
	}
	return body
}

// IsMissing reports whether an amount is positive.
func (v *visit) IsMissing(n num) bool { return float(n) > 0 }

type productPage struct {
	forms
	Product  product
	Tag      string // the ETag of the product
	Tree     partTree
	Stock    availability
	Quantity string
	Costs    costs
	Pieces   found[pieceEntry]
	UsedIn   struct{ Items []product }
	Parts    []*part // the components that are not plates
	Variants variantsPart
	Options  struct{ Materials, Widths []option }
}

// showProduct shows a product. The address may ask for the form of variants, which offers many filaments.
func showProduct(v *visit) error {
	open := v.r.URL.Query().Get("open")
	if open != "variants" {
		open = ""
	}
	return v.productPage(200, open, nil)
}

// productPage shows a product. If f is not nil, it is a form with the name that the API has refused.
func (v *visit) productPage(status int, name string, f *form) error {
	id := v.r.PathValue("id")
	p := &productPage{forms: v.forms(name, f), Quantity: "1"}
	if n, err := strconv.Atoi(v.r.URL.Query().Get("quantity")); err == nil && n > 0 && n <= 1_000_000 {
		p.Quantity = strconv.Itoa(n)
	}
	var stock found[filament]
	if f != nil && f.Theirs.Has("filament") {
		f.Problem = v.t("Somebody else has changed the material to %s in the meantime. It was not replaced by %s.",
			f.Theirs.Get("filament"), f.Values.Get("filament"))
	}
	reads := []read{{path: "/api/v1/products/{id}", into: &p.Product, tag: &p.Tag},
		get("/api/v1/products/{id}/cost-breakdown", &p.Costs),
		get("/api/v1/products/{id}/component-tree?limit=200", &p.Tree),
		get("/api/v1/products/{id}/availability?quantity="+p.Quantity, &p.Stock),
		get("/api/v1/products/{id}/piece-entries?limit=5", &p.Pieces),
		get("/api/v1/products?component_product_id={id}&limit=20", &p.UsedIn),
		get("/api/v1/products?variant_of={id}&limit=100&sort_order=asc", &p.Variants)}
	if name == "variants" {
		reads = append(reads, get("/api/v1/filaments?limit=100&sort_by=remaining_grams&sort_order=desc", &stock))
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	for _, one := range p.Tree.Entries {
		if one.Level == 1 && v.CanWrite() {
			one.Form, one.Address = p.Of("component", one.ID), "/products/"+id+"/components/"+one.ID
		}
	}
	p.Parts = p.Product.withoutPlates(p.Tree.Parts())
	p.Variants.choose(v, p, stock.Items)
	p.Variants.More = stock.Total > len(stock.Items)
	p.Options.Materials = v.options(materials)
	for _, o := range v.options(anyWidth) {
		o.Value = strings.Replace(o.Value, ".", v.locale.decimal, 1)
		p.Options.Widths = append(p.Options.Widths, o)
	}
	return v.show(status, "product", p.Product.Name, p)
}

var oneProduct = resource{"/api/v1/products", "/products", (*visit).productPage}

// Of returns the form with the name for the material, component or plate with the id.
func (p *productPage) Of(name, id string) *form {
	if p.IsRefused(name, id) {
		return p.sent
	}
	f := newForm(p.read)
	f.Tag = p.Tag
	for _, m := range p.Product.Materials {
		if m.ID == id {
			f.show("material_type", m.Material)
			f.show("material_name", m.Exact)
			f.show("color", m.Color)
			f.show("weight_grams", p.read.text(m.Weight))
			f.show("notes", m.Notes)
		}
	}
	for _, c := range p.Product.Components {
		if c.ID == id {
			f.show("quantity", p.read.text(c.Quantity))
		}
	}
	p.Product.showPlate(f, id)
	return f
}

// partForm returns the form with the name for the material, component or plate {part}, with the present values.
func partForm(name string) func(*visit) (*form, error) {
	return func(v *visit) (*form, error) {
		p := &productPage{forms: v.forms("", nil)}
		err := v.fetch(read{path: "/api/v1/products/{id}", into: &p.Product, tag: &p.Tag})
		f := p.Of(name, v.r.PathValue("part"))
		if err == nil && len(f.Was) == 0 { // somebody else has removed it
			err = server.ErrNotFound
		}
		return f, err
	}
}

// materialFields are the fields of a material that a visitor can change.
var materialFields = []field{{"material_type", text}, {"material_name", text}, {"color", text},
	{"weight_grams", number}, {"notes", text}}

func materialEdit(f *form) map[string]any { return f.changed(materialFields...) }

// partFields are the fields of materials and components of a product that a request can contain.
var partFields = map[string][]string{
	"materials": {"filament_id", "material_type", "material_name", "color", "diameter_mm", "weight_grams", "is_required",
		"notes"},
	"components": {"component_product_id", "quantity", "notes"},
}

// removePart returns the handler that removes an entry of a list of a product. The notice has a form that adds the
// entry again.
func removePart(list string, text language.Text) func(*visit) error {
	return func(v *visit) error {
		var product map[string]json.RawMessage
		var entries []map[string]json.RawMessage
		err := v.fetch(get("/api/v1/products/{id}", &product))
		if err == nil {
			err = json.Unmarshal(product[list], &entries)
		}
		if err != nil {
			return err
		}
		f := v.sent()
		ok, err := v.send(f, http.MethodDelete, "/api/v1/products/{id}/"+list+"/{part}", nil, nil)
		n := &notice{Text: v.t(text)}
		for _, entry := range entries {
			if string(entry["id"]) != strconv.Quote(v.r.PathValue("part")) {
				continue
			}
			if part, err := json.Marshal(partBody(list, entry)); err == nil {
				n.Undo = &undo{v.t("Undo"), "/products/" + v.r.PathValue("id") + "/" + list + "/back" + v.query(),
					url.Values{"part": {string(part)}}}
			}
		}
		v.tell(n)
		return v.then(ok, err, v.here("/products"), func() error { return v.productPage(422, "part", f) })
	}
}

// partBody returns the body of a request that adds an entry to a list of a product. For a material with a filament,
// the body omits the fields that the material gets from the filament.
func partBody(list string, entry map[string]json.RawMessage) map[string]any {
	body := map[string]any{}
	isSet := func(name string) bool { return len(entry[name]) > 0 && string(entry[name]) != "null" }
	for _, name := range partFields[list] {
		isOfFilament := isSet("filament_id") && slices.Contains(partFields[list][1:5], name) && list == "materials"
		if isSet(name) && !isOfFilament {
			body[name] = entry[name]
		}
	}
	return body
}

// putBack returns the handler that adds an entry to a list of a product again, after removePart has removed the entry.
func putBack(list string, text language.Text) func(*visit) error {
	return oneProduct.action("part", "POST", "/"+list, func(f *form) map[string]any {
		var entry map[string]json.RawMessage
		if err := json.Unmarshal([]byte(f.Values.Get("part")), &entry); err != nil {
			f.Problem = f.read.visit.t("This cannot be restored.")
		}
		return partBody(list, entry)
	}, showText(text))
}
