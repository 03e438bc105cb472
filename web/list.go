package web

import (
	"fmt"
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

	parameters map[string]string
	suffix     string // Query, once it is known
	known      bool
}

// listOrder is an order of a list: its name in the address, what people call it, and the parameters of the API.
type listOrder struct{ name, label, by, direction string }

// listing returns the list that the address of the page selects, and its query of the API. Parameters are those of the
// API by the names that the page has for them.
func (v *visit) listing(path, noun string, parameters map[string]string, orders ...listOrder) (listing, url.Values) {
	asked := v.r.URL.Query()
	l := listing{Path: path, Noun: noun, Filter: url.Values{}, Page: 1, parameters: parameters}
	query := url.Values{"limit": {strconv.Itoa(perPage)}}
	for name, parameter := range parameters {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			l.Filter.Set(name, value)
			query.Set(parameter, value)
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
		for shown, parameter := range l.parameters {
			if parameter == name {
				name = shown
			}
		}
		all = append(all, sentence(label(name)+" "+problem.Message))
	}
	l.Problem = strings.Join(all, " ")
	return nil
}

// showList shows a list of the API, whose type embeds listing, with the template.
func (v *visit) showList(api, template, title string, query url.Values, l interface {
	refused(err error) error
	status() int
},
) error {
	if err := l.refused(v.fetch(read{path: api, query: query, into: l})); err != nil {
		return err
	}
	return v.show(l.status(), template, title, l)
}

// status returns the status of the page.
func (l *listing) status() int {
	if l.Problem != "" {
		return 422
	}
	return 200
}

// address returns the address of a page of the list, or of another path with its filters.
func (l *listing) address(path string, page int) string {
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

// Of returns the address of an entry beside the list.
func (l *listing) Of(id string) string {
	if !l.known {
		l.known, l.suffix = true, l.Query()
	}
	return l.Path + "/" + id + l.suffix
}

// Address returns the address of the list.
func (l *listing) Address() string { return l.address(l.Path, l.Page) }

// Query returns the query of the address of the list, with its question mark.
func (l *listing) Query() string {
	_, query, ok := strings.Cut(l.Address(), "?")
	if ok {
		query = "?" + query
	}
	return query
}

// Previous and Next return the addresses of the other pages of the list, or "".
func (l *listing) Previous() string {
	if l.Page == 1 {
		return ""
	}
	return l.address(l.Path, l.Page-1)
}

func (l *listing) Next() string {
	if l.Page*perPage >= l.Total {
		return ""
	}
	return l.address(l.Path, l.Page+1)
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

// pick is a choice among options.
type pick struct {
	Name, Label, Value string
	Options            []option
}

// pick returns the choice of a filter.
func (l *listing) pick(name, label string, options ...option) pick {
	return pick{Name: name, Label: label, Value: l.Filter.Get(name), Options: options}
}

// orders returns the choice of the order.
func (l *listing) orders(orders []listOrder) pick {
	p := l.pick("sort", "Order")
	for i, o := range orders {
		if i == 0 {
			o.name = ""
		}
		p.Options = append(p.Options, option{o.name, o.label})
	}
	return p
}
