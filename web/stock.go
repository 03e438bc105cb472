package web

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
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
	Incoming  num    `json:"incoming_grams"`
	Expected  string `json:"incoming_date"`
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

// OnItsWay says what is ordered, and when it is expected.
func (l stockLevel) OnItsWay(v *visit) string {
	if l.Expected != "" {
		return v.t("%s on its way, expected on %s", v.Kilos(l.Incoming), v.Day(l.Expected))
	}
	return v.t("%s on its way", v.Kilos(l.Incoming))
}

// lowLevels returns all levels that are low, those that lack the most last.
func (v *visit) lowLevels() (all []stockLevel, err error) {
	for more := true; more; {
		var page found[stockLevel]
		err = v.fetch(get("/api/v1/stock-levels?low=true&limit=100&sort_by=missing_grams&skip="+strconv.Itoa(len(all)), &page))
		if all = append(all, page.Items...); err != nil {
			return nil, err
		}
		more = len(page.Items) > 0 && len(all) < page.Total
	}
	return all, nil
}

// shoppingFile sends the shopping list as CSV.
func shoppingFile(v *visit) error {
	low, err := v.lowLevels()
	file, err := v.csvFile("shopping-list", err)
	if err != nil {
		return err
	}
	file.Write([]string{"material", "color", "brand", "diameter_mm", "missing_grams", "incoming_grams", "incoming_date"})
	for _, l := range low {
		file.Write([]string{inventory.MaterialLabel(l.Material, l.Exact), l.Color, l.Brand, string(l.Diameter),
			string(l.Missing), string(l.Incoming), l.Expected})
	}
	file.Flush() // an error means that the client has gone
	return nil
}

// receiveLevel leads to the form of new spools, filled in with what was on its way: the newest filament of the level,
// and as many of its spools as make up the grams.
func receiveLevel(v *visit) error {
	var l stockLevel
	if err := v.fetch(get("/api/v1/stock-levels/{id}", &l)); err != nil {
		return err
	}
	query := url.Values{"material_type": {l.Material}, "limit": {"20"}}
	for name, text := range map[string]string{"color": l.Color, "vendor": l.Brand} {
		if text != "" {
			query.Set(name, text)
		}
	}
	var all struct{ Items []filament }
	if err := v.fetch(read{path: "/api/v1/filaments", query: query, into: &all}); err != nil {
		return err
	}
	to := url.Values{"received": {l.ID}}
	fits := func(f filament) bool {
		return inventory.SameMaterial(l.Material, f.MaterialName, l.Exact) && (l.Diameter == "" || f.Diameter == l.Diameter)
	}
	net := 1000.0
	if i := slices.IndexFunc(all.Items, fits); i >= 0 {
		to.Set("filament_id", all.Items[i].ID)
		net = cmp.Or(float(all.Items[i].NetWeight), net)
	} else {
		to.Set("own", "1")
		for name, text := range map[string]string{"material_type": l.Material, "material_name": l.Exact, "color": l.Color,
			"brand": l.Brand, "diameter_mm": string(l.Diameter), "net_weight_grams": "1000"} {
			if text != "" {
				to.Set(name, text)
			}
		}
	}
	to.Set("quantity", strconv.Itoa(max(1, min(100, int(math.Round(float(l.Incoming)/net))))))
	return v.redirect("/spools/new?" + to.Encode())
}

// arrived removes what was on its way from the level with the id, whose spools are there now. The level may be gone.
func (v *visit) arrived(id string) error {
	if id, ok := value.ParseID(id); ok {
		err := v.call(http.MethodPatch, "/api/v1/stock-levels/"+id, nil, []byte(`{"incoming_grams": null}`)).Err()
		if err != nil && server.AsError(err).Status != 404 {
			return err
		}
	}
	return nil
}

// Percent returns how much of the minimum is available.
func (l stockLevel) Percent() int { return percent(l.Available, l.Minimum) }

var levelList = &listOf[stockLevel]{editor: levels, Title: "Stock levels", Add: "Add a level",
	Empty: "There are no stock levels yet. A level is the minimum of a filament to keep in stock.",
	First: "Add the first level",
	filters: []filter{{"low", "low", "Level",
		[]word{{"", "All levels"}, {"true", "Low ones"}, {"false", "Met ones"}}},
		{"material", "material_type", "Material", anyMaterial}},
	orders: []listOrder{{"", "", "missing_grams", "desc"}},
	row: func(v *visit, r *rows, l *stockLevel) {
		if v.CanWrite() {
			r.add(`<tr><td><a class="title" href="/stock/{}/edit"><b>{}</b></a>`, l.ID, l.Name())
		} else {
			r.add(`<tr><td><span class="title"><b>{}</b></span>`, l.Name())
		}
		r.some(` <small>{}</small>`, l.Brand)
		if l.Incoming != "" {
			r.add(` <small>{}</small>`, l.OnItsWay(v))
			r.when(v.CanWrite(), ` <a href="/stock/{}/received">{}<span class="hide">: {}</span></a>`, l.ID,
				v.t("Received"), l.Name())
		}
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
			line := v.Kilos(l.Missing) + " " + strings.TrimSpace(l.Name()+" "+l.Brand)
			if l.Incoming != "" {
				line += " (" + l.OnItsWay(v) + ")"
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

var levels = &editor{api: "/api/v1/stock-levels", path: "/stock", noun: levelNoun, noPage: true,
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
		{field{"incoming_grams", number}, "Ordered, on its way", "type=number;unit=g", nil},
		{field{"incoming_date", text}, "Expected on", "type=date", nil},
	}}
