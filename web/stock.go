package web

import (
	"html/template"
	"strings"
)

// stockLevel is a stock level, as the API returns it.
type stockLevel struct {
	ID        string `json:"id"`
	Material  string `json:"material_type"`
	Color     string `json:"color"`
	Brand     string `json:"brand"`
	Minimum   num    `json:"minimum_grams"`
	Remaining num    `json:"remaining_grams"`
	Reserved  num    `json:"reserved_grams"`
	Available num    `json:"available_grams"`
	Missing   num    `json:"missing_grams"`
	Low       bool   `json:"low"`
}

// Name returns what the level is about.
func (l stockLevel) Name() string { return strings.TrimSpace(l.Material + " " + l.Color) }

// Percent returns how much of the minimum is available.
func (l stockLevel) Percent() int {
	if minimum := value(l.Minimum); minimum > 0 {
		return max(0, min(100, int(value(l.Available)/minimum*100)))
	}
	return 100
}

// levelRow is what a row of the list shows of a stock level.
type levelRow struct {
	ID, Name, Brand, Available, Reserved, Minimum, Missing string

	Bar template.HTML // how much is available
	Low bool
}

// Rows returns the rows of the list.
func (p *stockPage) Rows(v view) []levelRow {
	rows := make([]levelRow, len(p.Items))
	for i, l := range p.Items {
		rows[i] = levelRow{l.ID, l.Name(), l.Brand, v.Kilos(l.Available), v.Kilos(l.Reserved), v.Kilos(l.Minimum),
			v.Kilos(l.Missing), newBar(l.Percent()), l.Low}
	}
	return rows
}

type stockPage struct {
	listing
	Items []stockLevel `json:"items"`
}

// Shopping returns the levels that are low as lines of text.
func (p *stockPage) Shopping(v view) string {
	var b strings.Builder
	for _, l := range p.Items {
		if l.Low {
			b.WriteString(v.Kilos(l.Missing) + " " + strings.TrimSpace(l.Name()+" "+l.Brand) + "\n")
		}
	}
	return b.String()
}

func (p *stockPage) Picks() []pick {
	return []pick{p.pick("low", "Level", option{"", "All levels"}, option{"true", "Low ones"},
		option{"false", "Met ones"}),
		p.pick("material", "Material", append([]option{{"", "Any material"}}, materials()...)...)}
}

var levels = &editor{api: "/api/v1/stock-levels", path: "/stock", noun: "stock level", stay: true,
	name: func(get func(string) string) string { return get("material_type") + " " + get("color") },
	fields: []editorField{
		{field{"material_type", text}, "Material", "", materials()},
		{field{"color", text}, "Color", "hint=Empty: any color", nil},
		{field{"brand", text}, "Vendor", "hint=Empty: any vendor", nil},
		{field{"minimum_grams", number}, "At least", "type=number;unit=g;required", nil},
	}}

func listStock(v *visit) error {
	base, query := v.listing("/stock", "stock level", map[string]string{"low": "low", "material": "material_type"},
		listOrder{"", "", "missing_grams", "desc"})
	p := &stockPage{listing: base}
	return v.showList("/api/v1/stock-levels", "stock", "Stock levels", query, p)
}
