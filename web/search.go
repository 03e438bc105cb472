package web

import (
	"net/url"
	"strconv"
	"strings"
)

// searchPage is what the search box of all pages finds.
type searchPage struct {
	Query     string
	Spools    struct{ Items []spool }
	Filaments struct{ Items []filament }
	Products  struct{ Items []product }
	Orders    struct{ Items []order }
	Problem   string
}

// search finds a spool by its number, and spools, filaments, products and orders by their texts.
func search(v *visit) error {
	p := &searchPage{Query: strings.TrimSpace(v.r.URL.Query().Get("q"))}
	number := strings.TrimPrefix(p.Query, "#")
	if n, err := strconv.Atoi(number); err == nil && n > 0 && strconv.Itoa(n) == number && p.Query != number {
		return v.redirect("/s/" + number)
	}
	if p.Query == "" {
		return v.show(200, "search", "Search", p)
	}
	query := url.Values{"search": {p.Query}, "limit": {"10"}}
	reads := []read{
		{path: "/api/v1/spools", query: query, into: &p.Spools},
		{path: "/api/v1/filaments", query: query, into: &p.Filaments},
		{path: "/api/v1/products", query: query, into: &p.Products},
		{path: "/api/v1/orders", query: query, into: &p.Orders},
	}
	var numbered struct{ Items []spool }
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 1_000_000_000 {
		reads = append(reads, read{path: "/api/v1/spools", into: &numbered,
			query: url.Values{"number": {strconv.Itoa(n)}, "archived": {"any"}}})
	}
	l := listing{filters: []filter{searchFilter}}
	if err := l.refused(v.fetch(reads...)); err != nil {
		return err
	}
	p.Problem = l.Problem
	p.Spools.Items = append(numbered.Items, p.Spools.Items...)
	return v.show(l.status(), "search", "Search", p)
}
