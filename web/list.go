package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/server"
)

// perPage is the number of entries of a page of a list.
const perPage = 50

// listing is a list of the API as the address of the page selects it. The type of the page's data embeds it.
type listing struct {
	Total   int        `json:"total"`
	Path    string     `json:"-"` // of the page
	Noun    string     `json:"-"` // of one entry
	Filter  url.Values `json:"-"`
	Page    int        `json:"-"`
	Problem string     `json:"-"` // with the filters

	filters []filter
	orders  []listOrder
}

// filter is a filter of a list: its name in the address, the parameter of the API, and what the page offers to choose
// from, or nothing.
type filter struct {
	name, parameter, label string
	options                []option
}

// searchFilter is the filter of all lists that can be searched.
var searchFilter = filter{"search", "search", "", nil}

// listOrder is an order of a list: its name in the address, what people call it, and the parameters of the API.
type listOrder struct{ name, label, by, direction string }

// maxSorted is the number of entries up to which a list offers the orders for which the API reads all of them.
const maxSorted = 100_000

// readsAll reports whether the API reads all entries of the list for the order, because no index has it.
func (o listOrder) readsAll() bool {
	return o.by != "created_at" && o.by != "number" && o.by != "due_date"
}

// listing returns the list that the address of the page selects, and its query of the API.
func (v *visit) listing(path, noun string, filters []filter, orders []listOrder) (listing, url.Values) {
	asked := v.r.URL.Query()
	l := listing{Path: path, Noun: noun, Filter: url.Values{}, Page: 1, filters: filters, orders: orders}
	query := url.Values{"limit": {strconv.Itoa(perPage)}}
	for _, f := range filters {
		if value := strings.TrimSpace(asked.Get(f.name)); value != "" {
			l.Filter.Set(f.name, value)
			query.Set(f.parameter, value)
		}
	}
	for i, o := range orders {
		if i == 0 || o.name == asked.Get("sort") {
			query.Set("sort_by", o.by)
			query.Set("sort_order", o.direction)
			if i > 0 {
				l.Filter.Set("sort", o.name)
			}
		}
	}
	if n, err := strconv.Atoi(asked.Get("page")); err == nil && n > 1 && n < 1_000_000 {
		l.Page = n
		query.Set("skip", strconv.Itoa((n-1)*perPage))
	}
	return l, query
}

// refused keeps what the API says about the filters. It returns an error that has nothing to do with them.
func (l *listing) refused(err error) error {
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
		all = append(all, sentence(label(name)+" "+problem.Message))
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

// address returns the address of a page of the list.
func (l *listing) address(page int) string {
	query := url.Values{}
	for name, values := range l.Filter {
		query[name] = values
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return (&url.URL{Path: l.Path, RawQuery: query.Encode()}).String()
}

// Address returns the address of the list.
func (l *listing) Address() string { return l.address(l.Page) }

// Query returns the query of the address of the list, with its question mark.
func (l *listing) Query() string { return strings.TrimPrefix(l.Address(), l.Path) }

// Previous and Next return the addresses of the other pages of the list, or "".
func (l *listing) Previous() string {
	if l.Page == 1 {
		return ""
	}
	return l.address(l.Page - 1)
}

func (l *listing) Next() string {
	if l.Page*perPage >= l.Total {
		return ""
	}
	return l.address(l.Page + 1)
}

// Range returns which entries the page shows.
func (l *listing) Range() string {
	switch {
	case l.Total == 1:
		return "1 " + l.Noun
	case l.Total <= perPage && l.Page == 1:
		return fmt.Sprintf("%d %ss", l.Total, l.Noun)
	}
	first := (l.Page-1)*perPage + 1
	return fmt.Sprintf("%d–%d of %d", min(first, l.Total), min(first+perPage-1, l.Total), l.Total)
}

// IsFiltered reports whether the list has filters.
func (l *listing) IsFiltered() bool {
	for name := range l.Filter {
		if name != "sort" {
			return true
		}
	}
	return false
}

// HasSearch reports whether the list can be searched.
func (l *listing) HasSearch() bool { return len(l.filters) > 0 && l.filters[0].name == "search" }

// pick is a choice among options.
type pick struct {
	Name, Label, Value string
	Options            []option
}

// Picks returns the choices of the filters and of the order.
func (l *listing) Picks() (picks []pick) {
	for _, f := range l.filters {
		if f.options != nil {
			picks = append(picks, pick{f.name, f.label, l.Filter.Get(f.name), f.options})
		}
	}
	if len(l.orders) > 1 {
		p := pick{"sort", "Order", l.Filter.Get("sort"), []option{{"", l.orders[0].label}}}
		for _, o := range l.orders[1:] {
			if l.Total <= maxSorted || !o.readsAll() || o.name == p.Value {
				p.Options = append(p.Options, option{o.name, o.label})
			}
		}
		picks = append(picks, p)
	}
	return picks
}

// listOf is the page of a list of the API.
type listOf[T any] struct {
	*editor // of the entries
	filters []filter
	orders  []listOrder
	query   func(*listing, url.Values)           // changes the query of the API, if it is not nil
	fetch   func(*visit, read, *[]T) error       // reads the entries and more, if it is not nil
	row     func(v *visit, r *rows, entry *T)    // writes the row of an entry
	below   func(v *visit, r *rows, entries []T) // writes what is below the table, if it is not nil

	Title, Class string        // of the page, and of the table
	Head         template.HTML // the cells of the first row of the table
	Empty        string        // what the page says if there are no entries
	Add, First   string        // the names of the links to the form of a new entry, and of the first one
	Other        option        // a page beside it, or none
}

// listPage is the data of the page.
type listPage[T any] struct {
	listing
	Items []T        `json:"items"`
	List  *listOf[T] `json:"-"`
}

func (l *listOf[T]) show(v *visit) error {
	p := &listPage[T]{List: l}
	var query url.Values
	p.listing, query = v.listing(l.path, l.noun, l.filters, l.orders)
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
	return v.show(p.status(), "list", l.Title, p)
}

// Rows returns the rows of the table.
func (p *listPage[T]) Rows(v view) template.HTML {
	var r rows
	for i := range p.Items {
		p.List.row(v.visit, &r, &p.Items[i])
	}
	return r.html()
}

// Below returns what is below the table.
func (p *listPage[T]) Below(v view) template.HTML {
	var r rows
	if p.List.below != nil {
		p.List.below(v.visit, &r, p.Items)
	}
	return r.html()
}
