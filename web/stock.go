package web

import (
	"strings"

	"spoolwright/inventory"
)

// stockLevel is a stock level, as the API returns it.
type stockLevel struct {
	ID        string `json:"id"`
	Material  string `json:"material_type"`
	Exact     string `json:"material_name"`
	Color     string `json:"color"`
	Diameter  num    `json:"diameter_mm"`
	Brand     string `json:"brand"`
	Minimum   num    `json:"minimum_grams"`
	Remaining num    `json:"remaining_grams"`
	Reserved  num    `json:"reserved_grams"`
	Available num    `json:"available_grams"`
	Missing   num    `json:"missing_grams"`
	Low       bool   `json:"low"`
}

// Name returns the material, color and diameter of the level.
func (l stockLevel) Name() string {
	name := strings.TrimSpace(inventory.MaterialLabel(l.Material, l.Exact) + " " + l.Color)
	if l.Diameter != "" {
		name += " " + l.Diameter.String() + "\u00a0mm"
	}
	return name
}

// Percent returns how much of the minimum is available.
func (l stockLevel) Percent() int { return percent(l.Available, l.Minimum) }

var levelList = &listOf[stockLevel]{editor: levels, Title: "Stock levels", Add: "Add a level",
	Empty: "There are no stock levels yet. A level is the minimum of a filament to keep in stock.",
	First: "Add the first level",
	filters: []filter{{"low", "low", "Level",
		[]option{{"", "All levels"}, {"true", "Low ones"}, {"false", "Met ones"}}},
		{"material", "material_type", "Material", anyMaterial}},
	orders: []listOrder{{"", "", "missing_grams", "desc"}},
	row: func(v *visit, r *rows, l *stockLevel) {
		if v.CanWrite() {
			r.add(`<tr><td><a class="title" href="/stock/{}/edit"><b>{}</b></a>`, l.ID, l.Name())
		} else {
			r.add(`<tr><td><span class="title"><b>{}</b></span>`, l.Name())
		}
		r.some(` <small>{}</small>`, l.Brand)
		r.add(`</td><td class="wide gauge">`)
		r.picture(newBar(l.Percent()))
		r.add(`</td><td class="amount">{}</td><td class="amount wide">{}</td><td class="amount">{}</td>`,
			v.Kilos(l.Available), v.Kilos(l.Reserved), v.Kilos(l.Minimum))
		if l.Low {
			r.add(`<td class="amount late">{}</td></tr>`+"\n", v.Kilos(l.Missing))
		} else {
			r.add(`<td class="amount">–</td></tr>` + "\n")
		}
	},
	below: shoppingList}

// shoppingList returns a text with a line for each low level.
func shoppingList(v *visit, entries []stockLevel) any {
	var b strings.Builder
	for _, l := range entries {
		if l.Low {
			b.WriteString(v.Kilos(l.Missing) + " " + strings.TrimSpace(l.Name()+" "+l.Brand) + "\n")
		}
	}
	return b.String()
}

var levels = &editor{api: "/api/v1/stock-levels", path: "/stock", noun: "stock level", noPage: true,
	name: func(get func(string) string) string {
		return inventory.MaterialLabel(get("material_type"), get("material_name")) + " " + get("color")
	},
	fields: []editorField{
		{field{"material_type", text}, "Material", "", materials},
		{field{"material_name", text}, "Exact material", "hint=Such as PETG-CF", nil},
		{field{"color", text}, "Color", "hint=Empty: any color", nil},
		{field{"brand", text}, "Vendor", "hint=Empty: any vendor", nil},
		{field{"diameter_mm", number}, "Diameter", "", anyWidth},
		{field{"minimum_grams", number}, "At least", "type=number;unit=g;required", nil},
	}}
