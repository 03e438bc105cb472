package web

import "strconv"

// product is a product, as the API returns it.
type product struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Description   string `json:"description"`
	SKU           string `json:"sku"`
	Category      string `json:"category"`
	Minutes       num    `json:"estimated_print_time_minutes"`
	Notes         string `json:"notes"`
	MaterialCost  num    `json:"material_cost"`
	ComponentCost num    `json:"component_cost"`
	TotalCost     num    `json:"total_cost"`
	Complete      bool   `json:"costs_complete"`
	Materials     []struct {
		ID       string
		Material string `json:"material_type"`
		Color    string
		Weight   num  `json:"weight_grams"`
		Required bool `json:"is_required"`
		Notes    string
		Cost     num
	}
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
	Parts     []*part // its own components
	Remove    string  // the address of the form that removes it from the product of the page, or ""
}

// partTree has the components of a product through all levels, each followed by its own.
type partTree struct {
	Entries  []*part
	Complete bool `json:"entries_complete"`
}

// Parts returns the components of the product, which have theirs.
func (t partTree) Parts() []*part {
	last := []*part{{}} // of each level; level 0 is the product
	for _, p := range t.Entries {
		last = append(last[:p.Level], p)
		above := last[p.Level-1]
		above.Parts = append(above.Parts, p)
	}
	return last[0].Parts
}

var productList = &listOf[product]{editor: products, Title: "Products", Add: "Add a product",
	Empty: "There are no products yet. A product is what you print, with the filament that it needs.",
	First: "Add the first product", filters: []filter{searchFilter, {"category", "category", "", nil}},
	orders: []listOrder{{"", "Newest first", "created_at", "desc"}, {"name", "Name", "name", "asc"},
		{"sku", "SKU", "sku", "asc"}, {"category", "Category", "category", "asc"},
		{"cost", "Highest cost first", "total_cost", "desc"}},
	Head: `<th>Product</th><th class="wide">Category</th><th class="amount wide">Print time</th>` +
		`<th class="amount">Filament cost</th>`,
	row: func(v *visit, r *rows, p *product) {
		r.add(`<tr><td><a class="title" href="/products/{}"><b>{}</b></a>`, p.ID, p.Name)
		r.some(`<small>{}</small>`, p.SKU)
		r.add(`</td><td class="wide">{}</td><td class="amount wide">{}</td><td class="amount">{}`, p.Category,
			v.Minutes(p.Minutes), v.Money(p.TotalCost))
		r.when(!p.Complete, `<small>not complete</small>`)
		r.add(`</td></tr>` + "\n")
	}}

var products = &editor{api: "/api/v1/products", path: "/products", noun: "product",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"sku", text}, "SKU", "", nil},
		{field{"category", text}, "Category", "", nil},
		{field{"estimated_print_time_minutes", number}, "Print time", "type=number;unit=minutes", nil},
		{field{"labour_minutes", number}, "Work on a piece", "type=number;unit=minutes", nil},
		{field{"pieces_per_plate", number}, "Pieces on a plate", "type=number", nil},
		{field{"selling_price", number}, "Selling price", "type=number;unit=$currency", nil},
		{field{"description", text}, "Description", "rows=3", nil},
		{field{"notes", text}, "Notes", "rows=3", nil},
	}}

// availability is what a product or an order needs, and what is there.
type availability struct {
	CanPrint  bool `json:"can_print"`
	Quantity  int
	Materials []struct {
		Material  string `json:"material_type"`
		Color     string
		Needed    num `json:"needed_grams"`
		Available num `json:"available_grams"`
		Missing   num `json:"missing_grams"`
		Spools    []struct {
			ID     string
			Number int64
		}
	}
}

// IsMissing reports whether an amount is more than nothing.
func (v *visit) IsMissing(n num) bool { return value(n) > 0 }

// productPage is the page of a product.
type productPage struct {
	forms
	Product  product
	Tree     partTree
	Stock    availability
	Quantity string
	Costs    costs
	UsedIn   struct{ Items []product }
	Others   struct{ Items []product } // that can be components
	Options  struct{ Materials, Products []option }
}

func showProduct(v *visit) error { return v.productPage(200, "", nil) }

// productPage shows a product. If f is not nil, it is the form with the name, which the API has refused.
func (v *visit) productPage(status int, name string, f *form) error {
	id := v.r.PathValue("id")
	p := &productPage{forms: v.forms(name, f), Quantity: "1"}
	if n, err := strconv.Atoi(v.r.URL.Query().Get("quantity")); err == nil && n > 0 && n <= 1_000_000 {
		p.Quantity = strconv.Itoa(n)
	}
	if err := v.fetch(
		get("/api/v1/products/{id}", &p.Product),
		get("/api/v1/products/{id}/cost-breakdown", &p.Costs),
		get("/api/v1/products/{id}/component-tree?limit=200", &p.Tree),
		get("/api/v1/products/{id}/availability?quantity="+p.Quantity, &p.Stock),
		get("/api/v1/products?component_product_id={id}&limit=20", &p.UsedIn),
		get(productsByName, &p.Others),
	); err != nil {
		return err
	}
	for _, one := range p.Tree.Entries {
		if one.Level == 1 && v.CanWrite() {
			one.Remove = "/products/" + id + "/components/" + one.ID + "/remove"
		}
	}
	p.Options.Materials = materials
	p.Options.Products = productOptions(p.Others.Items, id)
	return v.show(status, "product", p.Product.Name, p)
}

// productsByName are the products to choose from.
const productsByName = "/api/v1/products?limit=100&sort_by=name&sort_order=asc"

// productOptions returns a choice of products other than the one with the id.
func productOptions(items []product, but string) []option {
	options := []option{{"", "Choose a product"}}
	for _, item := range items {
		if item.ID == but {
			continue
		}
		name := item.Name
		if item.SKU != "" {
			name += " (" + item.SKU + ")"
		}
		options = append(options, option{item.ID, name})
	}
	return options
}

var oneProduct = resource{"/api/v1/products", "/products", (*visit).productPage}
