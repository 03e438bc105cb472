package web

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/inventory"
)

// spool is a spool, as the API returns it.
type spool struct {
	ID           string     `json:"id"`
	Number       int64      `json:"number"`
	FilamentID   string     `json:"filament_id"`
	MaterialType string     `json:"material_type"`
	Brand        string     `json:"brand"`
	Color        string     `json:"color"`
	ColorHex     string     `json:"color_hex"`
	Finish       string     `json:"finish"`
	Diameter     num        `json:"diameter_mm"`
	NetWeight    num        `json:"net_weight_grams"`
	Remaining    num        `json:"remaining_weight_grams"`
	SpoolWeight  num        `json:"spool_weight_grams"`
	Price        num        `json:"purchase_price"`
	CostPerGram  num        `json:"cost_per_gram"`
	Supplier     string     `json:"supplier"`
	PurchaseDate string     `json:"purchase_date"`
	Notes        string     `json:"notes"`
	Location     string     `json:"location"`
	LotNumber    string     `json:"lot_number"`
	Density      num        `json:"density_g_cm3"`
	Archived     bool       `json:"archived"`
	FirstUsedAt  *time.Time `json:"first_used_at"`
	LastUsedAt   *time.Time `json:"last_used_at"`
	CreatedAt    *time.Time `json:"created_at"`
	HiddenAt     *time.Time `json:"hidden_at"`
	Extra        map[string]any
}

// Name returns what a person calls the spool.
func (s spool) Name() string { return s.MaterialType + " " + s.Color }

// Maker returns the brand and the finish.
func (s spool) Maker() string {
	return strings.Trim(s.Brand+" · "+s.Finish, " ·")
}

// Swatch returns the picture of the color.
func (s spool) Swatch() template.HTML { return newSwatch(s.IsTranslucent(), s.ColorHex) }

// IsTranslucent reports whether the filament lets light through, as far as its name or finish says so.
func (s spool) IsTranslucent() bool {
	name := strings.ToLower(s.Finish + " " + s.Color)
	return strings.Contains(name, "transl") || strings.Contains(name, "transp") || strings.Contains(name, "clear")
}

// Percent returns how full the spool is.
func (s spool) Percent() int {
	if net := value(s.NetWeight); net > 0 {
		return max(0, min(100, int(value(s.Remaining)/net*100+0.5)))
	}
	return 0
}

// Bar returns the picture of how full the spool is.
func (s spool) Bar() template.HTML { return newBar(s.Percent()) }

// spoolList is the list of spools with its filters.
type spoolList struct {
	listing
	Items    []spool `json:"items"`
	Selected string  // the id of the spool beside the list
	Form     *form   // that changes several spools
	Chosen   map[string]bool
}

// spoolFilters are the filters of the list, and the parameters of the API.
var spoolFilters = map[string]string{"search": "search", "material": "material_type", "vendor": "brand",
	"color": "color", "location": "location", "stock": "in_stock", "archived": "archived", "filament": "filament_id"}

// spoolOrders are the orders of the list.
var spoolOrders = []listOrder{
	{"newest", "Newest first", "created_at", "desc"},
	{"number", "Number", "number", "asc"},
	{"least", "Least filament first", "remaining_weight_grams", "asc"},
	{"used", "Last used first", "last_used_at", "desc"},
	{"material", "Material", "material_type", "asc"},
	{"color", "Color", "color", "asc"},
	{"location", "Location", "location", "asc"},
	{"filament", "Grouped by filament", "filament_id", "desc"},
}

// spoolQuery returns the list that the address of the page selects, and its parameters of the API.
func (v *visit) spoolQuery() (*spoolList, url.Values) {
	l, query := v.listing("/spools", "spool", spoolFilters, spoolOrders...)
	return &spoolList{listing: l, Form: newForm(), Chosen: map[string]bool{}}, query
}

// spoolRow is what a row of the list shows of a spool. Rows have no methods, because a template needs several times as
// long for a method as for a field.
type spoolRow struct {
	ID, FilamentID, Link, Number, Name, Maker, Left, Location, Used string

	Swatch, Bar                        template.HTML
	Archived, Chosen, Selected, Begins bool // Begins: it is the first one of its filament, in a list grouped by them
}

// Rows returns the rows of the list.
func (l *spoolList) Rows(v view) []spoolRow {
	rows := make([]spoolRow, len(l.Items))
	for i, s := range l.Items {
		rows[i] = spoolRow{s.ID, s.FilamentID, l.Of(s.ID), strconv.FormatInt(s.Number, 10), s.Name(), s.Maker(),
			v.Grams(s.Remaining), s.Location, v.Ago(s.LastUsedAt), s.Swatch(), s.Bar(), s.Archived, l.Chosen[s.ID],
			s.ID == l.Selected,
			l.Filter.Get("sort") == "filament" && (i == 0 || l.Items[i-1].FilamentID != s.FilamentID)}
	}
	return rows
}

// HasMore reports whether a filter is set that the page shows only on demand.
func (l *spoolList) HasMore() bool {
	for _, name := range []string{"vendor", "color", "location", "stock", "archived"} {
		if l.Filter.Get(name) != "" {
			return true
		}
	}
	return false
}

// Locations returns the locations of the spools on the page.
func (l *spoolList) Locations() (names []string) {
	known := map[string]bool{"": true}
	for _, s := range l.Items {
		if !known[s.Location] {
			known[s.Location] = true
			names = append(names, s.Location)
		}
	}
	return names
}

// Pick returns the choice of a filter.
func (l *spoolList) Pick(name string) pick {
	switch name {
	case "material":
		return l.pick(name, "Material", append([]option{{"", "Any material"}}, materials()...)...)
	case "stock":
		return l.pick(name, "Stock", option{"", "Full or empty"}, option{"true", "With filament"},
			option{"false", "Empty"})
	case "archived":
		return l.pick(name, "Archived", option{"", "Not archived"}, option{"true", "Archived"},
			option{"any", "Archived or not"})
	}
	return l.orders(spoolOrders)
}

// Action returns the choice of what to do with several spools.
func (l *spoolList) Action() pick {
	return pick{Value: l.Form.Values.Get("action"), Options: []option{{"", "With the chosen spools…"},
		{"move", "Move to the location"}, {"price", "Set the price"}, {"archive", "Archive"},
		{"unarchive", "Take out of the archive"}}}
}

func materials() (options []option) {
	for _, name := range inventory.MaterialType("").Enum() {
		options = append(options, option{name, name})
	}
	return options
}

// listSpools shows the list of spools.
func listSpools(v *visit) error {
	l, query := v.spoolQuery()
	return v.spoolList(l, query)
}

func (v *visit) spoolList(l *spoolList, query url.Values) error {
	if err := l.refused(v.fetch(read{path: "/api/v1/spools", query: query, into: l})); err != nil {
		return err
	}
	status := l.status()
	if l.Form.Problem != "" || len(l.Form.Errors) > 0 {
		status = 422
	}
	return v.show(status, "spools", "Spools", l)
}

// changeSpools moves, archives, prices or hides the spools that were chosen in the list.
func changeSpools(v *visit) error {
	l, query := v.spoolQuery()
	l.Form = v.sent()
	numbers := []string{}
	for _, id := range l.Form.Values["id"] {
		l.Chosen[id] = true
		numbers = append(numbers, id)
	}
	changes := map[string]any{}
	switch l.Form.Values.Get("action") {
	case "move":
		changes["location"] = l.Form.value(field{"location", text})
	case "price":
		changes["purchase_price"] = l.Form.value(field{"purchase_price", number})
	case "archive":
		changes["archived"] = true
	case "unarchive":
		changes["archived"] = false
	}
	ok := false
	switch {
	case len(numbers) == 0:
		l.Form.Problem = "Choose at least one spool."
	case len(changes) == 0:
		l.Form.Problem = "Choose what to do with the spools."
	default:
		l.Form.Tag = ""
		var err error
		if ok, err = v.send(l.Form, "PATCH", "/api/v1/spools", map[string]any{"ids": numbers, "changes": changes},
			nil); err != nil {
			return err
		}
	}
	if !ok {
		return v.spoolList(l, query)
	}
	return v.redirect(l.Address())
}
