package web

import (
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

// catalogPart is the part of a page that searches the catalog of filaments and adds one of them to the farm.
type catalogPart struct {
	Path    string // of the page, to which the search is sent
	Query   string
	Items   []catalogItem
	Total   int
	Problem string
	Then    string // what follows after a filament is added: spools, or ""
	Refused bool   // whether the form of the page has errors, which get the focus
	Filled  bool   // whether the catalog has entries
	Fill    *form  // the form that fills the catalog
	Source  string // the address from which the catalog can be fetched, or ""
}

// catalogItem is an entry of the catalog: a filament that can be bought.
type catalogItem struct {
	filament
	ExternalID string `json:"external_id"`
	Maker      string `json:"vendor"`
	Key        string // an idempotency key for the form that adds it
}

// Facts returns what tells filaments of the same name apart.
func (i catalogItem) Facts(v view) string {
	return strings.Join([]string{i.Maker, v.Grams(i.NetWeight), v.Number(i.Diameter, 2) + "\u00a0mm"}, " · ")
}

// Swatch returns the picture of the colors.
func (i catalogItem) Swatch() template.HTML { return i.filament.Swatch() }

// More says how many further entries match, or returns "".
func (p *catalogPart) More(v view) string {
	more := p.Total - len(p.Items)
	if len(p.Items) == 0 || more <= 0 {
		return ""
	}
	return v.t("and %d more in the catalog: type more words.|and %d more in the catalog: type more words.", more)
}

// fetchCatalog adds the part to the page of a new resource. The query of the page's address contains the search.
func (v *visit) fetchCatalog(page *editorPage, then string) error {
	p := &catalogPart{Path: page.Action, Then: then, Query: strings.TrimSpace(v.r.URL.Query().Get("catalog"))}
	query := url.Values{"limit": {"1"}}
	if p.Query != "" {
		query = url.Values{"limit": {"20"}, "search": {p.Query}, "sort_by": {"vendor"}, "sort_order": {"asc"}}
	}
	var hits found[catalogItem]
	l := listing{filters: []filter{searchFilter}, visit: v}
	if err := l.refused(v.fetch(read{path: "/api/v1/filament-catalog", query: query, into: &hits})); err != nil {
		return err
	}
	p.Fill, p.Source = v.newForm(), v.site.Catalog.URL
	p.Refused = page.Form.IsRefused()
	p.Problem, p.Total, p.Filled = l.Problem, hits.Total, hits.Total > 0 || p.Query != ""
	if p.Query != "" {
		p.Items = hits.Items
	}
	for i := range p.Items {
		p.Items[i].Key = v.newForm().Key
	}
	page.Catalog = p
	return nil
}

// fillCatalog fills the catalog from the file in the form or, without a file, from the address of the operator.
func fillCatalog(v *visit) error {
	result, err := v.fillCatalog()
	if err == nil {
		v.tell(&notice{Text: v.t("The catalog is filled: %s new, %s changed. Search for your filament.",
			v.Count(int(result.Created)), v.Count(int(result.Updated)))})
		return v.redirect("/filaments/new")
	}
	e := server.AsError(err)
	if e.Status == 500 {
		return err
	}
	f := v.newForm()
	f.Problem = v.message(e.Detail)
	if len(e.Fields) > 0 {
		f.Problem = v.t("Nothing was added to the catalog.")
		for _, problem := range e.Fields[:min(3, len(e.Fields))] {
			name := strings.Replace(problem.Field, "body", v.t("the file"), 1)
			f.Problem += " " + v.language.Sentence(v.t("%s %s|a field and its problem", name, v.Message(problem.Message)))
		}
	}
	return filaments.newPage(v, e.Status, f)
}

func (v *visit) fillCatalog() (result inventory.CatalogImported, err error) {
	ctx := db.As(v.r.Context(), v.Actor)
	parts, err := v.r.MultipartReader()
	if err != nil {
		if v.site.Catalog.URL == "" {
			return result, server.ErrNotFound
		}
		return v.site.Catalog.Fetch(ctx)
	}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return result, server.Invalid("body", "is missing: choose one")
		}
		if err != nil {
			return result, formError(err)
		}
		if part.FormName() == "file" && part.FileName() != "" {
			return v.site.Catalog.Import(ctx, part)
		}
	}
}

// catalogFields are the fields that a filament gets from the catalog.
var catalogFields = []string{"material_type", "material_name", "name", "color", "color_hex", "color_hexes",
	"color_arrangement", "diameter_mm", "density_g_cm3", "net_weight_grams", "spool_weight_grams",
	"extruder_temperature_c", "bed_temperature_c", "external_id", "vendor"}

// addFromCatalog creates a filament from an entry of the catalog. If the farm already has the filament, it shows that
// filament.
func addFromCatalog(v *visit) error {
	f := v.sent()
	var entry struct{ Items []map[string]json.RawMessage }
	var known struct{ Items []filament }
	query := url.Values{"external_id": {f.Values.Get("external_id")}, "limit": {"1"}}
	if err := v.fetch(read{path: "/api/v1/filament-catalog", query: query, into: &entry},
		read{path: "/api/v1/filaments", query: query, into: &known}); err != nil {
		return err
	}
	next := func(id string) string {
		if f.Values.Get("then") == "spools" {
			return "/spools/new?filament_id=" + id
		}
		return "/filaments/" + id
	}
	if len(known.Items) > 0 {
		v.tell(&notice{Text: v.t("The farm already has this filament.")})
		return v.redirect(next(known.Items[0].ID))
	}
	if len(entry.Items) == 0 {
		f.Problem = v.t("The catalog no longer has this filament.")
		return filaments.newPage(v, 422, f)
	}
	body := map[string]any{}
	for _, name := range catalogFields {
		if value := entry.Items[0][name]; len(value) > 0 && string(value) != "null" {
			body[name] = value
		}
	}
	var created filament
	ok, err := v.send(f, http.MethodPost, "/api/v1/filaments", body, &created)
	n := &notice{Text: v.t("The filament was added from the catalog.")}
	if f.Values.Get("then") == "" {
		n.Next = []option{{"/spools/new?filament_id=" + created.ID, v.t("Add spools")}}
	}
	v.tell(n)
	return v.then(ok, err, next(created.ID), func() error { return filaments.newPage(v, 422, f) })
}
