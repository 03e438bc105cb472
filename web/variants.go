package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spoolwright/inventory/colors"
)

// variant is a variant of a product of the page.
type variant struct {
	product
	colors string // what its name has in addition to that of its product
}

// Swatch returns the picture of the variant's colors, as their names mean them.
func (o variant) Swatch() template.HTML {
	var codes []string
	for name := range strings.SplitSeq(o.colors, " / ") {
		codes = append(codes, colors.Guess(name))
	}
	return newSwatch(o.colors, false, codes...)
}

// Colors returns the colors of the variant, or its name.
func (o variant) Colors() string { return o.colors }

// withoutVariants makes a list show variants below their products. A search also finds variants themselves.
func withoutVariants(_ *listing, query url.Values) {
	if query.Get("search") == "" {
		query.Set("variants", "false")
	}
}

func (p *product) setVariants(all []product) {
	for _, one := range all {
		if one.VariantOf == p.ID {
			name, ok := strings.CutPrefix(one.Name, p.Name+", ")
			if !ok {
				name = one.Name
			}
			p.Variants = append(p.Variants, variant{one, name})
		}
	}
}

// fetchVariants reads variants of the products of a list, at most 100. VariantCount says how many a product has; its
// page has all of them.
func (v *visit) fetchVariants(products []product) error {
	var ids []string
	for _, p := range products {
		if p.VariantCount > 0 {
			ids = append(ids, p.ID)
		}
	}
	if ids == nil {
		return nil
	}
	var all found[product]
	path := "/api/v1/products?limit=100&sort_order=asc&variant_of=" + strings.Join(ids, ",")
	if err := v.fetch(get(path, &all)); err != nil {
		return err
	}
	for i := range products {
		products[i].setVariants(all.Items)
	}
	return nil
}

func (p *product) addVariants(v *visit, r *rows) {
	for i, one := range p.Variants {
		r.when(i == 0, "\n"+`<ul class="variants">`)
		r.add(`<li>`)
		r.picture(one.Swatch())
		r.add(`<a href="/products/{}">{}</a> <small>{}</small></li>`+"\n", one.ID, one.Colors(),
			join(" · ", one.SKU, v.t("%d in stock", one.OnHand)))
	}
	r.when(len(p.Variants) > 0, `</ul>`)
	if p.VariantCount > len(p.Variants) {
		r.add(` <a href="/products/{}">{}</a>`, p.ID, v.t("All %d variants|All %d variants", p.VariantCount))
	}
}

// variantsPart is the part of the page of a product with its variants, and what its new variants can be made of.
type variantsPart struct {
	found[product]
	All       []variant
	Filaments []filament  // in stock, of the materials of the product
	More      bool        // whether the farm has more filaments than the page has read
	Parts     []option    // the colors to replace
	Rows      []nestedRow // of a variant: what it has instead of materials
}

// choose sets what the forms for variants offer.
func (part *variantsPart) choose(v *visit, p *productPage, stock []filament) {
	p.Product.setVariants(part.Items)
	part.All = p.Product.Variants
	part.Parts = []option{{"", v.t("All materials")}}
	materials := slices.Clone(p.Product.Materials)
	for _, plate := range p.Product.Plates {
		materials = append(materials, plate.Materials...)
	}
	for _, m := range materials {
		if !slices.ContainsFunc(part.Parts, func(o option) bool { return strings.EqualFold(o.Value, m.Color) }) {
			part.Parts = append(part.Parts, option{m.Color, m.Color})
		}
	}
	for _, f := range stock {
		if f.SpoolCount > 0 && slices.ContainsFunc(materials, func(m productMaterial) bool {
			return m.Material == f.MaterialType
		}) {
			part.Filaments = append(part.Filaments, f)
		}
	}
	if p.Product.VariantOf != "" && p.Product.PlateOf == "" && v.CanWrite() {
		f := p.Form("colors")
		if f.Tag == "" {
			f.Tag = p.Tag
		}
		p.Product.showColors(f)
		list := nestedList{name: "variant_materials", title: "Colors", count: len(p.Product.Entries) + 1}
		part.Rows = list.rows(v, f, variantFields).Rows
	}
}

// showColors sets the values of the form for the colors of the variant.
func (p *product) showColors(f *form) {
	for i, e := range p.Entries {
		at := fmt.Sprintf("variant_materials[%d].", i)
		f.show(at+"replaces_material_type", e.ReplacesType)
		f.show(at+"replaces_color", e.ReplacesColor)
		f.show(at+"filament_id", e.FilamentID)
		if e.FilamentID != "" {
			e.Color = ""
		}
		f.show(at+"color", e.Color)
	}
}

// colorsForm returns the present values of the form for the colors of a variant.
func colorsForm(v *visit) (*form, error) {
	f := v.newForm()
	var p product
	err := v.fetch(read{path: "/api/v1/products/{id}", into: &p, tag: &f.Tag})
	p.showColors(f)
	return f, err
}

// variantEntry is an entry of the variant_materials of a product.
type variantEntry struct {
	ReplacesType  string `json:"replaces_material_type"`
	ReplacesColor string `json:"replaces_color"`
	Color         string
	FilamentID    string `json:"filament_id"`
}

// Swatch returns the picture of the color.
func (e variantEntry) Swatch() template.HTML { return newSwatch(e.Color, false) }

// Words says what the entry replaces, and by which color.
func (e variantEntry) Words(v translator) string {
	was := cmp.Or(strings.TrimSpace(e.ReplacesType+" "+e.ReplacesColor), v.t("All materials"))
	return was + " → " + e.Color
}

// variantFields are the fields of the form for the colors of a variant.
var variantFields = []editorField{
	{field{"replaces_color", text}, "Instead of the color", "", nil},
	{field{"replaces_material_type", text}, "Of the material", "", append([]word{{"", "All materials"}}, materials...)},
	{field{"color", text}, "Color", "", nil},
	{field{"filament_id", text}, "Only this filament", "find=filaments;none=Any filament", nil},
}

// variantColors makes the body of the operation that changes the colors of a variant: all rows that have any.
func variantColors(f *form) map[string]any {
	entries := []any{}
	for i := range maxRows {
		entry := map[string]any{}
		for _, in := range variantFields {
			if value := f.value(field{fmt.Sprintf("variant_materials[%d].%s", i, in.name), text}); value != nil {
				entry[in.name] = value
			}
		}
		if entry["filament_id"] != nil {
			delete(entry, "color")
		}
		if len(entry) > 0 {
			f.rows["variant_materials"] = append(f.rows["variant_materials"], i)
			entries = append(entries, entry)
		}
	}
	return map[string]any{"variant_materials": entries}
}

// newVariants makes the body of the operation that adds variants: one for each chosen filament and each color.
func newVariants(f *form) map[string]any {
	all := []any{}
	add := func(color, key string, value any) {
		entry := map[string]any{key: value}
		if color := f.Values.Get("replaces_color"); color != "" {
			entry["replaces_color"] = color
		}
		one := map[string]any{"variant_materials": []any{entry}}
		if pattern := f.Values.Get("sku"); pattern != "" {
			one["sku"] = strings.ReplaceAll(pattern, "{color}", strings.ToUpper(notInSKU.ReplaceAllString(color, "-")))
		}
		all = append(all, one)
	}
	for _, chosen := range f.Values["filament"] {
		number, color, _ := strings.Cut(chosen, " ")
		if n, err := strconv.Atoi(number); err == nil {
			add(color, "filament_number", n)
		}
	}
	for name := range strings.SplitSeq(f.Values.Get("colors"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			add(name, "color", name)
		}
	}
	if len(all) == 0 {
		f.Problem = f.read.visit.t("Choose filaments, or type colors.")
	}
	return map[string]any{"variants": all}
}

var notInSKU = regexp.MustCompile(`[^\pL\pN]+`)
