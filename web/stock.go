package web

import (
	"cmp"
	"html/template"
	"math"
	"net/http"
	"net/url"
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
	Purchase  struct {
		Filament string `json:"filament_id"`
		Vendor   string `json:"vendor"`
		Article  string `json:"article_number"`
		URL      string `json:"url"`
		Price    num    `json:"price"`
		PriceOf  string `json:"price_of"`
		Net      num    `json:"net_weight_grams"`
		Spools   num    `json:"spools"`
	} `json:"purchase"`
}

// Name returns the material, color and diameter of the level.
func (l stockLevel) Name() string {
	name := strings.TrimSpace(inventory.MaterialLabel(l.Material, l.Exact) + " " + l.Color)
	if l.Diameter != "" {
		name += " " + l.Diameter.String() + "\u00a0mm"
	}
	return name
}

// OnItsWay says what is ordered for a level, and when it is expected.
func (v *visit) OnItsWay(l stockLevel) string {
	switch {
	case l.Incoming == "":
		return v.t("Nothing is on its way.")
	case l.Expected != "":
		return v.t("%s on its way, expected on %s", v.Kilos(l.Incoming), v.OnDay(l.Expected))
	}
	return v.t("%s on its way", v.Kilos(l.Incoming))
}

// Vendor returns the vendor of what to buy.
func (l stockLevel) Vendor() string { return cmp.Or(l.Purchase.Vendor, l.Brand) }

// Shop returns the host of the link to what to buy.
func (l stockLevel) Shop() string { return hostOf(l.Purchase.URL) }

// IsOrdered reports whether all that is missing is on its way.
func (l stockLevel) IsOrdered() bool { return float(l.Incoming) >= float(l.Missing) }

// Ordered returns the grams that are on their way after the spools to buy are ordered, or what is missing if their
// weight is unknown.
func (l stockLevel) Ordered() string {
	grams := max(float(l.Missing), float(l.Incoming))
	if l.Purchase.Spools != "" {
		grams = float(l.Incoming) + float(l.Purchase.Spools)*float(l.Purchase.Net)
	}
	return strconv.FormatFloat(math.Round(grams*1e6)/1e6, 'f', -1, 64)
}

// orderLevel stores what is on its way, unless somebody else has stored another value since the page was shown. The
// notice has a form that stores the value before.
func orderLevel(v *visit) error {
	f := v.sent()
	wanted, before := f.Values.Get("incoming_grams"), f.Values.Get("before")
	var now, l stockLevel
	if err := v.fetch(read{path: "/api/v1/stock-levels/{id}", into: &now, tag: &f.Tag}); err != nil {
		return err
	}
	if text := string(now.Incoming); text != before && text != wanted {
		v.tell(&notice{Text: v.t("Saved in the meantime:") + " " + now.Name() + ": " + v.OnItsWay(now)})
		return v.redirect("/stock" + v.query())
	}
	var grams any
	if wanted != "" {
		grams = wanted // which is refused if it is not a number
		if n, ok := value.ParseDecimal(wanted); ok {
			grams = n
		}
	}
	ok, err := v.send(f, http.MethodPatch, "/api/v1/stock-levels/{id}", map[string]any{"incoming_grams": grams}, &l)
	n := &notice{Text: v.t("Not valid")}
	if ok {
		n = &notice{Text: l.Name() + ": " + v.OnItsWay(l), Undo: &undo{v.t("Undo"), v.r.URL.Path + v.query(),
			url.Values{"incoming_grams": {before}, "before": {string(l.Incoming)}}}}
	}
	v.tell(n)
	return v.then(true, err, "/stock"+v.query(), nil)
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
	file.Write([]string{"material", "color", "brand", "diameter_mm", "missing_grams", "incoming_grams", "incoming_date",
		"vendor", "article_number", "url", "price", "price_of", "net_weight_grams", "spools"})
	for _, l := range low {
		p := l.Purchase
		file.Write([]string{inventory.MaterialLabel(l.Material, l.Exact), l.Color, l.Brand, string(l.Diameter),
			string(l.Missing), string(l.Incoming), l.Expected, l.Vendor(), p.Article, p.URL, string(p.Price), p.PriceOf,
			string(p.Net), string(p.Spools)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}

// receiveLevel leads to the form of new spools, filled in with what was on its way: the filament to buy, as many of its
// spools as make up the grams, and the last price.
func receiveLevel(v *visit) error {
	var l stockLevel
	if err := v.fetch(get("/api/v1/stock-levels/{id}", &l)); err != nil {
		return err
	}
	net := cmp.Or(l.Purchase.Net, "1000")
	to := url.Values{"received": {l.ID}}
	to.Set("quantity", strconv.Itoa(max(1, min(100, int(math.Round(float(l.Incoming)/float(net)))))))
	fields := map[string]string{"purchase_price": v.reader().text(l.Purchase.Price)}
	if id := l.Purchase.Filament; id != "" {
		to.Set("filament_id", id)
	} else {
		to.Set("own", "1")
		for name, text := range map[string]string{"material_type": l.Material, "material_name": l.Exact, "color": l.Color,
			"brand": l.Vendor(), "diameter_mm": string(l.Diameter), "net_weight_grams": v.reader().text(net)} {
			fields[name] = text
		}
	}
	for name, text := range fields {
		if text != "" {
			to.Set(name, text)
		}
	}
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
		[]word{anything, {"true", "Low ones"}, {"false", "Met ones"}}},
		{"material", "material_type", "Material", anyMaterial}},
	orders: []listOrder{{"", "", "missing_grams", "desc"}},
	columns: []column{{label: "Filament", by: "material_type"}, {label: "Level", class: "wide gauge"},
		{label: "Available", class: "amount", by: "available_grams"},
		{label: "Reserved", class: "amount wide", by: "reserved_grams", falls: true},
		{label: "At least", class: "amount", by: "minimum_grams", falls: true},
		{label: "Missing", class: "amount", by: "missing_grams", falls: true, note: "to 110 %"}},
	row: func(v *visit, r *rows, l *stockLevel) {
		if v.CanWrite() {
			r.add(`<tr><td><a class="title" href="/stock/{}/edit"><b>{}</b></a>`, l.ID, l.Name())
		} else {
			r.add(`<tr><td><span class="title"><b>{}</b></span>`, l.Name())
		}
		r.some(` <small>{}</small>`, l.Brand)
		if l.Incoming != "" {
			r.add(` <small>{}</small>`, v.OnItsWay(*l))
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

// shopping is the shopping list below the stock levels.
type shopping struct {
	Rows template.HTML
	Text string // to copy
}

// price writes the last price of what to buy, and whose price it is.
func (l *stockLevel) price(v *visit, r *rows) {
	r.add(`{}`, v.Money(l.Purchase.Price))
	switch l.Purchase.PriceOf {
	case "spool":
		r.add(` <small>{}</small>`, v.t("of the last spool|a price"))
	case "filament":
		r.add(` <small>{}</small>`, v.t("of the filament|a price"))
	}
}

func shoppingRow(v *visit, r *rows, l *stockLevel) {
	p, name := l.Purchase, l.Name()
	r.add(`<tr><td>`)
	r.when(p.Filament != "", `<a href="/filaments/{}"><b>{}</b></a>`, p.Filament, name)
	r.when(p.Filament == "", `<b>{}</b>`, name)
	r.add(` <small>{}`, l.Vendor())
	r.some(` · {}`, p.Article)
	r.add(`</small>`)
	if rest, ok := strings.CutPrefix(p.URL, "https://"); ok {
		r.add(` <small><a href="https://{}">{}</a></small>`, rest, l.Shop())
	} else if rest, ok := strings.CutPrefix(p.URL, "http://"); ok {
		r.add(` <small><a href="http://{}">{}</a></small>`, rest, l.Shop())
	}
	if p.PriceOf != "" {
		r.add(` <small class="narrow-only">`)
		l.price(v, r)
		r.add(`</small>`)
	}
	if l.Incoming != "" {
		r.add(` <small>{}</small>`, v.OnItsWay(*l))
	}
	r.add(`</td><td class="amount wide">`)
	l.price(v, r)
	r.add(`</td><td class="amount">{}</td><td class="amount wide">{}</td>`, cmp.Or(p.Spools.String(), "–"),
		v.Kilos(l.Missing))
	switch {
	case !v.CanWrite():
	case l.IsOrdered():
		r.add(`<td class="screen amount"><a class="button plain" href="/stock/{}/received">{}<span
			class="hide">: {}</span></a></td>`, l.ID, v.t("Received"), name)
	default:
		r.add(`<td class="screen amount"><form method="post" action="/stock/{}/ordered{}"><input type="hidden"
			name="incoming_grams" value="{}"><input type="hidden" name="before" value="{}"><button class="plain">{}<span
			class="hide">: {}</span></button></form></td>`, l.ID, v.query(), l.Ordered(), string(l.Incoming),
			v.t("Ordered|filament"), name)
	}
	r.add("</tr>\n")
}

// shoppingList returns the list of the low levels, or nil if there are none.
func shoppingList(v *visit, entries []stockLevel) any {
	list, r := &shopping{}, &rows{}
	for _, l := range entries {
		if !l.Low {
			continue
		}
		shoppingRow(v, r, &l)
		p, amount := l.Purchase, v.Kilos(l.Missing)
		if p.Spools != "" {
			amount = p.Spools.String() + " × " + v.Kilos(p.Net)
		}
		words := []string{amount + " " + l.Name()}
		for _, word := range []string{l.Vendor(), p.Article, p.URL} {
			if word != "" {
				words = append(words, word)
			}
		}
		if !l.IsOrdered() {
			list.Text += strings.Join(words, " · ") + "\n"
		}
	}
	if list.Rows = r.html(); list.Rows == "" {
		return nil
	}
	return list
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
