package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// searchPage is the page with the results of the search box, which all pages have.
type searchPage struct {
	Query     string
	Spools    struct{ Items []spool }
	Printers  struct{ Items []printer }
	Vendors   struct{ Items []vendor }
	Runs      struct{ Items []run }
	Filaments struct{ Items []filament }
	Products  struct{ Items []product }
	Orders    struct{ Items []order }
	Problem   string
}

// IsEmpty reports whether nothing was found.
func (p *searchPage) IsEmpty() bool {
	return len(p.Spools.Items)+len(p.Filaments.Items)+len(p.Products.Items)+len(p.Orders.Items)+len(p.Printers.Items)+
		len(p.Vendors.Items)+len(p.Runs.Items) == 0
}

// search shows the things in which all words of the query occur. If the query is the code of a label, search redirects
// to the spool. If the query is a number, the spool with the number comes first, also if it is archived. If nothing
// else is found, or the number has a #, search redirects to this spool, if it exists.
func search(v *visit) error {
	p := &searchPage{Query: strings.TrimSpace(v.r.URL.Query().Get("q"))}
	number := strings.TrimPrefix(p.Query, "#")
	if p.Query == "" {
		return v.show(200, "search", v.t("Search"), p)
	}
	if code, ok := spoolCode(p.Query); ok {
		return v.redirect("/s/" + code)
	}
	if code, ok := productCode(p.Query); ok {
		return v.redirect("/p/" + code)
	}
	query := url.Values{"search": {p.Query}, "limit": {"10"}}
	reads := []read{
		{path: "/api/v1/spools", query: query, into: &p.Spools},
		{path: "/api/v1/filaments", query: query, into: &p.Filaments},
		{path: "/api/v1/products", query: query, into: &p.Products},
		{path: "/api/v1/orders", query: query, into: &p.Orders},
		{path: "/api/v1/printers", query: query, into: &p.Printers},
		{path: "/api/v1/vendors", query: query, into: &p.Vendors},
		{path: "/api/v1/production-runs", query: query, into: &p.Runs},
	}
	var numbered struct{ Items []spool }
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 1_000_000_000 {
		reads = append(reads, read{path: "/api/v1/spools", into: &numbered,
			query: url.Values{"number": {strconv.Itoa(n)}, "archived": {"any"}}})
	}
	l := listing{filters: []filter{searchFilter}, visit: v}
	if err := l.refused(v.fetch(reads...)); err != nil {
		return err
	}
	p.Problem = l.Problem
	if len(numbered.Items) > 0 {
		first := numbered.Items[0]
		p.Spools.Items = slices.DeleteFunc(p.Spools.Items, func(s spool) bool { return s.ID == first.ID })
		if p.Query != number || p.IsEmpty() {
			return v.redirect("/spools/" + first.ID)
		}
		p.Spools.Items = append(numbered.Items, p.Spools.Items...)
	}
	return v.show(l.status(), "search", v.t("Search"), p)
}
