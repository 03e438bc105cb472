package web

import (
	"html/template"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value/language"
)

// perPage is the number of entries of a page of most lists.
const perPage = 50

// perPage returns the number of entries of a page. The page of the printers begins with those that need a person, so it
// has as many as the API returns at once.
func (n *noun) perPage() int {
	if n == printerNoun {
		return 100
	}
	return perPage
}

// listing is a page of a list with filters and an order, which the address of the page selects. The type of the page's
// data embeds listing.
type listing struct {
	Total   int        `json:"total"`
	Path    string     `json:"-"` // the path of the page
	Noun    *noun      `json:"-"` // of an entry
	Filter  url.Values `json:"-"`
	Page    int        `json:"-"`
	Problem string     `json:"-"` // the problems with the filters

	filters []filter
	orders  []listOrder
	columns []column
	order   listOrder           // of the shown page
	data    map[string][]option // by the name of a filter, further options that are data
	visit   *visit
}

// filter is a filter of a list: its name in the address, the parameter of the API, the label, and the options of its
// choice. The first option has no value. A filter without options has no choice on the page.
type filter struct {
	name, parameter string
	label           language.Text
	options         []word
}

// searchFilter is the first filter of each list that can be searched.
var searchFilter = filter{"search", "search", "Search", nil}

// anything is the first option of a filter, for all values.
var anything = word{"", "All|of a filter"}

// listOrder is an order of a list: its name in the address, its label on the page, and the parameters sort_by and
// sort_order of the API.
type listOrder struct {
	name          string
	label         language.Text
	by, direction string
}

// column is a column of the table of a list: the label, the HTML class and a note of its head, and the field of the
// API's list by which a click on the head sorts. The first click sorts in falling order if falls is true.
type column struct {
	label language.Text
	class string
	by    string // or "" if the API does not sort by what the column shows
	falls bool
	note  language.Text
}

// maxSorted is the maximum number of entries of a list that offers orders without an index. For such an order, the API
// reads all entries.
const maxSorted = 100_000

// readsAll reports whether the API reads all entries of the list for the order, because no index has the order.
func (o listOrder) readsAll() bool {
	return o.by != "created_at" && o.by != "number" && o.by != "due_date"
}

// listing returns the list that the address of the page selects, and the query for the API.
func (v *visit) listing(path string, noun *noun, filters []filter, orders []listOrder, columns ...column,
) (listing, url.Values) {
	asked := v.r.URL.Query()
	l := listing{Path: path, Noun: noun, Filter: url.Values{}, Page: 1, filters: filters, orders: orders,
		columns: columns, visit: v}
	query := url.Values{"limit": {strconv.Itoa(noun.perPage())}}
	for _, f := range filters {
		if value := strings.TrimSpace(asked.Get(f.name)); value != "" {
			l.Filter.Set(f.name, value)
			query.Set(f.parameter, value)
		}
	}
	if len(orders) > 0 {
		l.order = l.chosenOrder(asked.Get("sort"))
		query.Set("sort_by", l.order.by)
		query.Set("sort_order", l.order.direction)
		if l.order.name != orders[0].name {
			l.Filter.Set("sort", l.order.name)
		}
	}
	if n, err := strconv.Atoi(asked.Get("page")); err == nil && n > 1 && n < 1_000_000 {
		l.Page = n
		query.Set("skip", strconv.Itoa((n-1)*noun.perPage()))
	}
	return l, query
}

// chosenOrder returns the order with the name, or the first order of the list.
func (l *listing) chosenOrder(name string) listOrder {
	for _, o := range l.orders {
		if o.name == name {
			return o
		}
	}
	for _, c := range l.columns {
		if c.by == "" {
			continue
		}
		for _, direction := range []string{"asc", "desc"} {
			if o := l.orderBy(c.by, direction); o.name == name {
				return o
			}
		}
	}
	return l.orders[0]
}

// orderBy returns the order by a field: one of the orders of the list, or else one whose name is the field, with a
// minus for the falling order.
func (l *listing) orderBy(by, direction string) listOrder {
	for _, o := range l.orders {
		if o.by == by && o.direction == direction {
			return o
		}
	}
	if direction == "desc" {
		return listOrder{"-" + by, "", by, direction}
	}
	return listOrder{by, "", by, direction}
}

// sorts reports whether the list can have the order.
func (l *listing) sorts(o listOrder) bool {
	return l.Total <= maxSorted || !o.readsAll() || o.name == l.order.name
}

// labelOf returns the label of an order on the page. An order without a label of its own has that of its column.
func (l *listing) labelOf(o listOrder) string {
	for _, c := range l.columns {
		if o.label == "" && c.by == o.by {
			return l.visit.t(c.label) + map[string]string{"asc": " ↑", "desc": " ↓"}[o.direction]
		}
	}
	return l.visit.t(o.label)
}

// Head returns the HTML of the heads of the columns. Those by which the list can be sorted are links.
func (l *listing) Head() template.HTML {
	var r rows
	for _, c := range l.columns {
		r.add(`<th`)
		r.some(` class="{}"`, c.class)
		next := l.orderBy(c.by, "asc")
		if c.falls && c.by != l.order.by || c.by == l.order.by && l.order.direction == "asc" {
			next = l.orderBy(c.by, "desc")
		}
		if c.by == "" || !l.sorts(next) {
			r.add(`>{}`, l.visit.t(c.label))
		} else {
			if c.by == l.order.by {
				r.add(` aria-sort="{}ending"`, l.order.direction)
			}
			query := maps.Clone(l.Filter)
			query.Set("sort", next.name)
			if next.name == l.orders[0].name {
				query.Del("sort")
			}
			r.add(`><a href="/{}">{}</a>`, strings.TrimPrefix(l.at(query), "/"), l.visit.t(c.label))
		}
		if c.note != "" {
			r.add(` <small class="wide">{}</small>`, l.visit.t(c.note))
		}
		r.add(`</th>` + "\n")
	}
	return r.html()
}

// refused stores the problems of a 422 with the filters in l.Problem, and returns nil. It returns any other error.
func (l *listing) refused(err error) error {
	v := l.visit
	e := server.AsError(err)
	if err == nil || e.Status != 422 {
		return err
	}
	var all []string
	for _, problem := range e.Fields {
		name := problem.Field
		for _, f := range l.filters {
			if f.parameter == problem.Field {
				name = f.name
			}
		}
		all = append(all, v.refusal(name, problem.Message))
	}
	l.Problem = strings.Join(all, " ")
	return nil
}

// status returns the status of the page.
func (l *listing) status() int {
	if l.Problem != "" {
		return 422
	}
	return 200
}

func (l *listing) address(page int) string {
	query := maps.Clone(l.Filter)
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return l.at(query)
}

// at returns the address of the list with a query.
func (l *listing) at(query url.Values) string {
	return (&url.URL{Path: l.Path, RawQuery: query.Encode()}).String()
}

// without returns the address of the first page of the list without filters.
func (l *listing) without(names ...string) string {
	query := maps.Clone(l.Filter)
	for _, name := range names {
		query.Del(name)
	}
	return l.at(query)
}

// Address returns the address of the shown page of the list.
func (l *listing) Address() string { return l.address(l.Page) }

// Query returns the query of Address, with its question mark.
func (l *listing) Query() string { return strings.TrimPrefix(l.Address(), l.Path) }

// Previous and Next return the addresses of the previous and the next page of the list, or "" if there is no such
// page.
func (l *listing) Previous() string {
	if l.Page == 1 {
		return ""
	}
	return l.address(l.Page - 1)
}

func (l *listing) Next() string {
	if l.Page*l.Noun.perPage() >= l.Total {
		return ""
	}
	return l.address(l.Page + 1)
}

// Range returns the text with the range of entries that the page shows.
func (l *listing) Range() string {
	switch {
	case l.Total <= l.Noun.perPage() && l.Page == 1:
		return l.visit.t(l.Noun.count, l.Total)
	}
	per := l.Noun.perPage()
	first := (l.Page-1)*per + 1
	return l.visit.t("%d–%d of %d", min(first, l.Total), min(first+per-1, l.Total), l.Total)
}

// NoMatch returns the text of a page without entries that match the filters.
func (l *listing) NoMatch() string { return l.visit.t(l.Noun.noMatch) }

// offer adds an option that is data to a filter.
func (l *listing) offer(filter string, o option) {
	if l.data == nil {
		l.data = map[string][]option{}
	}
	l.data[filter] = append(l.data[filter], o)
}

// IsFiltered reports whether the address of the page has set a filter.
func (l *listing) IsFiltered() bool {
	for name := range l.Filter {
		if name != "sort" {
			return true
		}
	}
	return false
}

// Restores reports whether removed entries of the list can be restored.
func (l *listing) Restores() bool { return l.Noun.restored != "" && l.Noun != levelNoun }

// HasSearch reports whether the list can be searched.
func (l *listing) HasSearch() bool { return len(l.filters) > 0 && l.filters[0].name == "search" }

// pick is a choice among options.
type pick struct {
	Name, Label, Value string
	Options            []option
}

// chip is a filter that is set: its label, its value in words, and the address of the list without it.
type chip struct{ Label, Value, Without string }

// Chips returns the filters that are set.
func (l *listing) Chips() (chips []chip) {
	for _, f := range l.filters {
		value := l.Filter.Get(f.name)
		if value == "" {
			continue
		}
		c := chip{l.visit.t(f.label), value, l.without(f.name)}
		if f.name == "from" || f.name == "to" {
			c.Value = l.visit.OnDay(value)
		}
		for _, o := range append(l.visit.options(f.options), l.data[f.name]...) {
			if o.Value == value {
				c.Value = o.Name
			}
		}
		chips = append(chips, c)
	}
	return chips
}

// Picks returns the choices of the filters and of the order.
func (l *listing) Picks() (picks []pick) {
	for _, f := range l.filters {
		if f.options != nil {
			picks = append(picks, pick{f.name, l.visit.t(f.label), l.Filter.Get(f.name),
				append(l.visit.options(f.options), l.data[f.name]...)})
		}
	}
	p := pick{"sort", l.visit.t("Order|of a list"), l.Filter.Get("sort"), nil}
	isListed := p.Value == ""
	for i, o := range l.orders {
		if i == 0 {
			o.name = ""
		}
		if i == 0 || l.sorts(o) {
			p.Options = append(p.Options, option{o.name, l.labelOf(o)})
		}
		isListed = isListed || o.name == p.Value
	}
	if !isListed {
		p.Options = append(p.Options, option{p.Value, l.labelOf(l.order)})
	}
	if len(l.orders) > 1 || !isListed {
		picks = append(picks, p)
	}
	return picks
}

// listOf is the page of a list of the API. The template is named after the path of the page.
type listOf[T any] struct {
	*editor // the editor of the entries
	filters []filter
	orders  []listOrder
	columns []column
	query   func(*listing, url.Values)        // if not nil, changes the query for the API
	fetch   func(*visit, read, *[]T) error    // if not nil, reads the entries and other data
	row     func(v *visit, r *rows, entry *T) // writes the row of an entry
	below   func(v *visit, entries []T) any   // if not nil, returns what the template shows below the table

	Title      language.Text // of the page
	Class      string        // of the table
	Empty      language.Text // the text of the page if there are no entries
	Add, First language.Text // the texts of the link to the form of a new entry; First is for an empty list
	Other      word          // the link to a related page, or empty
	Also       word          // the link to another way to add entries, or empty
	More       word          // of an empty list, the link to entries that the list omits without a filter, or empty
}

type listPage[T any] struct {
	listing
	Items []T        `json:"items"`
	List  *listOf[T] `json:"-"`
}

func (l *listOf[T]) show(v *visit) error {
	p := &listPage[T]{List: l}
	var query url.Values
	p.listing, query = v.listing(l.path, l.noun, l.filters, l.orders, l.columns...)
	if l.query != nil {
		l.query(&p.listing, query)
	}
	entries := read{path: l.api, query: query, into: p}
	var err error
	if l.fetch != nil {
		err = l.fetch(v, entries, &p.Items)
	} else {
		err = v.fetch(entries)
	}
	if err := p.refused(err); err != nil {
		return err
	}
	return v.show(p.status(), strings.TrimPrefix(l.path, "/"), v.t(l.Title), p)
}

// Rows returns the rows of the table.
func (p *listPage[T]) Rows(v view) template.HTML {
	var r rows
	for i := range p.Items {
		p.List.row(v.visit, &r, &p.Items[i])
	}
	return r.html()
}

// Below returns what the template shows below the table.
func (p *listPage[T]) Below(v view) any { return p.List.below(v.visit, p.Items) }
