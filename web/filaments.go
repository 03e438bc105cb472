package web

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/inventory"
)

// filament is a filament, as the API returns it.
type filament struct {
	ID           string   `json:"id"`
	Number       int64    `json:"number"`
	Vendor       string   `json:"vendor_name"`
	Name         string   `json:"name"`
	MaterialType string   `json:"material_type"`
	MaterialName string   `json:"material_name"`
	Color        string   `json:"color"`
	ColorHex     string   `json:"color_hex"`
	ColorHexes   []string `json:"color_hexes"`
	Diameter     num      `json:"diameter_mm"`
	Density      num      `json:"density_g_cm3"`
	NetWeight    num      `json:"net_weight_grams"`
	SpoolWeight  num      `json:"spool_weight_grams"`
	Price        num      `json:"price"`
	Extruder     num      `json:"extruder_temperature_c"`
	Bed          num      `json:"bed_temperature_c"`
	Article      string   `json:"article_number"`
	URL          string   `json:"url"`
	Notes        string   `json:"notes"`
	SpoolCount   int      `json:"spool_count"`
	Remaining    num      `json:"remaining_grams"`
	Extra        map[string]any
}

// Title returns the name of the filament for people: the material and the color.
func (f filament) Title() string {
	return inventory.MaterialLabel(f.MaterialType, f.MaterialName) + " " + f.Color
}

// Maker returns the vendor and the name of the filament.
func (f filament) Maker() string {
	name := f.Name
	if name == f.Color {
		name = ""
	}
	return strings.Trim(f.Vendor+" · "+name, " ·")
}

// Shop returns the host of the link.
func (f filament) Shop() string { return hostOf(f.URL) }

// hostOf returns the host of an address, for people.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimPrefix(u.Host, "www.")
}

// Swatch returns the picture of the colors.
func (f filament) Swatch() template.HTML {
	colors := f.ColorHexes
	if len(colors) == 0 {
		colors = []string{f.ColorHex}
	}
	s := spool{Color: f.Color, Finish: f.Name}
	return newSwatch(f.Color, s.IsTranslucent(), colors...)
}

var filamentList = &listOf[filament]{editor: filaments, Title: "Filaments", Class: "spools", Add: "Add a filament",
	Empty: "There are no filaments yet. A filament is what you buy; its spools have its material, color and weights.",
	First: "Add the first filament", Other: word{"/vendors", "Vendors"},
	Also: word{"/filaments/from-spools", "From spools"},
	filters: []filter{searchFilter, {"material", "material_type", "Material", anyMaterial},
		{"vendor", "vendor", "Vendor", nil}},
	orders: []listOrder{{"", "Newest first", "created_at", "desc"}, {"number", "Number", "number", "asc"},
		{"material", "Material", "material_type", "asc"}, {"color", "Color", "color", "asc"},
		{"vendor", "Vendor", "vendor_name", "asc"}, {"most", "Most filament first", "remaining_grams", "desc"}},
	columns: []column{{label: "No.", class: "number", by: "number"}, {label: "Filament", by: "material_type"},
		{label: "Spools", class: "amount count", by: "spool_count", falls: true},
		{label: "Left|what remains", class: "amount left", by: "remaining_grams", falls: true},
		{label: "Price", class: "amount price", by: "price"}},
	row: func(v *visit, r *rows, f *filament) {
		r.add(`<tr><td class="number">#{}</td><td class="name"><a href="/filaments/{}">`,
			strconv.FormatInt(f.Number, 10), f.ID)
		r.picture(f.Swatch())
		r.add(`<span><b>{}</b> `, f.Title())
		r.some(` <small>{}</small>`, f.Maker())
		r.add(`</span></a></td><td class="amount count">{}</td><td class="amount left">{}</td>`+
			`<td class="amount price">{}</td></tr>`+"\n", strconv.Itoa(f.SpoolCount), v.Kilos(f.Remaining),
			v.Money(f.Price))
	}}

var filaments = &editor{api: "/api/v1/filaments", path: "/filaments", noun: filamentNoun, entity: "filament",
	catalog: true,
	saved: func(v *visit, f *form, n *notice) {
		if price := f.Values.Get("price"); price != "" && price != f.Was.Get("price") {
			n.Undo = &undo{v.t("Change the price of its spools"),
				"/filaments/" + v.r.PathValue("id") + "/spool-prices" + v.query(),
				url.Values{"price": {price}}}
		}
	},
	name: func(get func(string) string) string {
		return inventory.MaterialLabel(get("material_type"), get("material_name")) + " " + get("color")
	},
	fields: []editorField{
		{field{"material_type", text}, "Material", "", materials},
		{field{"material_name", text}, "Exact material", "may;hint=Such as PLA+", nil},
		{field{"color", text}, "Color", "required", nil},
		{field{"vendor", named}, "Vendor", "list=vendors;hint=A new name adds the vendor", nil},
		{field{"color_hex", text}, "Color as #RRGGBB", "pick;hint=Such as #FA6831", nil},
		{field{"color_hexes", set}, "Several colors", "may;hint=Such as #FA6831, #1122AA", nil},
		{field{"name", text}, "Name", "may", nil},
		{field{"diameter_mm", number}, "Diameter", "may", widths},
		{field{"net_weight_grams", number}, "Filament on a full spool", "type=number;unit=g", nil},
		{field{"spool_weight_grams", number}, "Empty spool", "may;type=number;unit=g", nil},
		{field{"price", number}, "Price of a spool", "type=number;unit=$currency", nil},
		{field{"density_g_cm3", number}, "Density", "may;type=number;unit=g/cm³", nil},
		{field{"extruder_temperature_c", number}, "Extruder", "may;type=number;unit=°C", nil},
		{field{"bed_temperature_c", number}, "Bed|of a printer", "may;type=number;unit=°C", nil},
		{field{"article_number", text}, "Article number", "may", nil},
		{field{"url", text}, "Link", "may;type=url;hint=The page of the article in a shop", nil},
		{field{"notes", text}, "Notes", "may;rows=4", nil},
	}}

// changeSpoolPrices sets the price of the spools of a filament that are in stock.
func changeSpoolPrices(v *visit) error {
	f := v.sent()
	var done struct{ Matched int }
	ok, err := v.send(f, http.MethodPatch, "/api/v1/spools", map[string]any{
		"filter":  map[string]any{"filament_id": v.r.PathValue("id"), "in_stock": "true"},
		"changes": map[string]any{"purchase_price": f.value(field{"price", number})}}, &done)
	n := &notice{Text: v.t("The price of %d spool in stock is %s.|The price of %d spools in stock is %s.",
		done.Matched, f.Values.Get("price"))}
	if err == nil && !ok {
		n.Text = strings.TrimSpace(v.t("No price was changed.") + " " + f.Problem)
	}
	v.tell(n)
	return v.then(true, err, v.here("/filaments"), nil)
}

type filamentPage struct {
	Filament filament
	Spools   spoolList
	Custom   customFields
	Level    *form // a new stock level
	Usage    struct {
		Items []struct {
			Material string `json:"material_type"`
			Color    string
			Grams    num
			Days     num `json:"days_left"`
		}
	}
}

// Facts returns the values of the filament's custom fields.
func (p *filamentPage) Facts(v view) []fact { return p.Custom.facts(v.visit, p.Filament.Extra) }

// Days returns the number of days for which the stock of the material and color lasts, or "".
func (p *filamentPage) Days() num {
	for _, row := range p.Usage.Items {
		if row.Material == p.Filament.MaterialType && strings.EqualFold(row.Color, p.Filament.Color) {
			return row.Days
		}
	}
	return ""
}

func showFilament(v *visit) error {
	p := &filamentPage{Level: v.newForm()}
	p.Spools.listing, _ = v.listing("/spools", spoolNoun, spoolFilters, nil)
	p.Spools.Filter = url.Values{"filament": {v.r.PathValue("id")}}
	if err := v.fetch(
		get("/api/v1/filaments/{id}", &p.Filament),
		get("/api/v1/spools?filament_id={id}&limit=50", &p.Spools),
		get("/api/v1/reports/usage?group_by=color", &p.Usage),
		customRead("filament", &p.Custom),
	); err != nil {
		return err
	}
	return v.show(200, "filament", p.Filament.Title(), p)
}
