package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/inventory"
	"spoolwright/server"
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
}

// Name returns what a person calls the spool.
func (s spool) Name() string { return s.MaterialType + " " + s.Color }

// Maker returns the brand and the finish.
func (s spool) Maker() string {
	return strings.Trim(s.Brand+" · "+s.Finish, " ·")
}

// Hex returns the color of the filament, or "" if it is not known.
func (s spool) Hex() string {
	if hexColor.MatchString(s.ColorHex) {
		return s.ColorHex
	}
	return ""
}

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

// perPage is the number of entries of a page of a list.
const perPage = 50

// spoolList is the list of spools with its filters.
type spoolList struct {
	Items    []spool `json:"items"`
	Total    int     `json:"total"`
	Filter   url.Values
	Page     int
	Selected string // the id of the spool beside the list
	Problem  string // with the filters
	Form     *form  // that changes several spools
	Chosen   map[string]bool
}

// spoolFilters are the filters of the list, and the parameters of the API.
var spoolFilters = map[string]string{"search": "search", "material": "material_type", "vendor": "brand",
	"color": "color", "location": "location", "stock": "in_stock", "archived": "archived"}

// spoolOrders are the orders of the list.
var spoolOrders = []struct{ name, label, by, order string }{
	{"", "Newest first", "created_at", "desc"},
	{"number", "Number", "number", "asc"},
	{"least", "Least filament first", "remaining_weight_grams", "asc"},
	{"used", "Last used first", "last_used_at", "desc"},
	{"material", "Material", "material_type", "asc"},
	{"color", "Color", "color", "asc"},
	{"location", "Location", "location", "asc"},
}

// spoolQuery returns the list that the address of the page selects, and its parameters of the API.
func (v *visit) spoolQuery() (*spoolList, url.Values) {
	asked := v.r.URL.Query()
	l := &spoolList{Filter: url.Values{}, Page: 1, Form: newForm(), Chosen: map[string]bool{}}
	query := url.Values{"limit": {strconv.Itoa(perPage)}}
	for name, parameter := range spoolFilters {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			l.Filter.Set(name, value)
			query.Set(parameter, value)
		}
	}
	order := spoolOrders[0]
	for _, o := range spoolOrders {
		if o.name == asked.Get("sort") && o.name != "" {
			order = o
			l.Filter.Set("sort", o.name)
		}
	}
	query.Set("sort_by", order.by)
	query.Set("sort_order", order.order)
	if n, err := strconv.Atoi(asked.Get("page")); err == nil && n > 1 && n < 1_000_000 {
		l.Page = n
		query.Set("skip", strconv.Itoa((n-1)*perPage))
	}
	return l, query
}

// address returns the address of the list, or of the spool beside it, with the filters.
func (l *spoolList) address(path string, page int) string {
	query := url.Values{}
	for name, values := range l.Filter {
		query[name] = values
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Of returns the address of a spool beside the list.
func (l *spoolList) Of(id string) string { return l.address("/spools/"+id, l.Page) }

// Address returns the address of the list.
func (l *spoolList) Address() string { return l.address("/spools", l.Page) }

// Query returns the query of the address of the list, with its question mark.
func (l *spoolList) Query() string {
	_, query, ok := strings.Cut(l.Address(), "?")
	if ok {
		query = "?" + query
	}
	return query
}

// Previous and Next return the addresses of the other pages of the list, or "".
func (l *spoolList) Previous() string {
	if l.Page == 1 {
		return ""
	}
	return l.address("/spools", l.Page-1)
}

func (l *spoolList) Next() string {
	if l.Page*perPage >= l.Total {
		return ""
	}
	return l.address("/spools", l.Page+1)
}

// Range returns which spools the page shows.
func (l *spoolList) Range() string {
	if l.Total == 1 {
		return "1 spool"
	}
	if l.Total <= perPage && l.Page == 1 {
		return fmt.Sprintf("%d spools", l.Total)
	}
	first := (l.Page-1)*perPage + 1
	return fmt.Sprintf("%d–%d of %d", first, first+len(l.Items)-1, l.Total)
}

// IsFiltered reports whether the list has filters.
func (l *spoolList) IsFiltered() bool {
	for name := range l.Filter {
		if name != "sort" {
			return true
		}
	}
	return false
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

// pick is a choice among the options of a filter.
type pick struct {
	Name, Label, Value string
	Options            []option
}

// Pick returns the choice of a filter.
func (l *spoolList) Pick(name, label string) pick {
	p := pick{Name: name, Label: label, Value: l.Filter.Get(name)}
	switch name {
	case "material":
		p.Options = append([]option{{"", "Any material"}}, materials()...)
	case "stock":
		p.Options = []option{{"", "Full or empty"}, {"true", "With filament"}, {"false", "Empty"}}
	case "archived":
		p.Options = []option{{"", "Not archived"}, {"true", "Archived"}, {"any", "Archived or not"}}
	case "sort":
		for _, o := range spoolOrders {
			p.Options = append(p.Options, option{o.name, o.label})
		}
	}
	return p
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
	return v.spoolList(200, l, query)
}

func (v *visit) spoolList(status int, l *spoolList, query url.Values) error {
	if err := v.fetch(read{path: "/api/v1/spools", query: query, into: l}); err != nil {
		e := server.AsError(err)
		if e.Status != 422 {
			return err
		}
		status, l.Problem = 422, filterProblem(e)
	}
	return v.show(status, "spools", "Spools", l)
}

// filterProblem says what is wrong with the filters, by the names that the page has for them.
func filterProblem(e *server.Error) string {
	var all []string
	for _, problem := range e.Fields {
		name := problem.Field
		for shown, parameter := range spoolFilters {
			if parameter == name {
				name = shown
			}
		}
		all = append(all, sentence(label(name)+" "+problem.Message))
	}
	return strings.Join(all, " ")
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
		return v.spoolList(422, l, query)
	}
	return v.redirect(l.Address())
}
