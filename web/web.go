// Package web serves the pages for people. A page is a file of Go, which reads and writes with operations of the API,
// beside one template. It has no SQL and no rules: what it shows and refuses is what the API returns.
package web

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/server"
)

// Config configures New.
type Config struct {
	Auth     *auth.Service
	Once     *auth.OneLogin // the login of the link that the first start prints; nil means none
	Insecure bool           // sign in without TLS from other machines, too
	Now      func() time.Time
}

// page is a page, or the form of one, in the list of pages.
type page struct {
	pattern string
	access  server.Access // that the visitor needs; Public pages have no visitor
	serve   func(*visit) error
}

// pages are all pages and forms.
var pages = slices.Concat([]page{
	{"GET /sign-in", server.Public, showSignIn},
	{"POST /sign-in", server.Public, signIn},
	{"GET /first-login", server.Public, firstLogin},
	{"GET /password-link/{token}", server.Public, showPasswordLink},
	{"POST /password-link/{token}", server.Public, usePasswordLink},
	{"POST /sign-out", server.Public, signOut},
	{"GET /account", server.Read, showAccount},
	{"POST /account/password", server.Read, changePassword},
	{"POST /account/sessions/{id}/end", server.Read, endSession},

	{"GET /{$}", server.Read, today},
	{"GET /search", server.Read, search},
	{"GET /changes", server.Read, streamChanges},

	{"GET /spools", server.Read, listSpools},
	{"POST /spools", server.Write, changeSpools},
	{"GET /spools/new", server.Write, showNewSpools},
	{"POST /spools/new", server.Write, createSpools},
	{"GET /spools/{id}", server.Read, showSpool},
	{"POST /spools/{id}/weigh", server.Write,
		oneSpool.action("weigh", "POST", "/measure", values(field{"gross_grams", number}, field{"confirmed", perhaps}))},
	{"POST /spools/{id}/deduct", server.Write,
		oneSpool.action("deduct", "POST", "/deduct", values(field{"weight_grams", number}, field{"reason", text}))},
	{"POST /spools/{id}/move", server.Write, editSpool("move", field{"location", text})},
	{"POST /spools/{id}/archive", server.Write, editSpool("archive", field{"archived", flag})},
	{"POST /spools/{id}/restore", server.Write, oneSpool.action("restore", "POST", "/restore", nil)},
	{"POST /spools/{id}/load", server.Write, loadSpool},
	{"GET /s/{number}", server.Read, spoolByNumber},
	{"GET /labels", server.Read, showLabels},

	{"GET /filaments", server.Read, filamentList.show},
	{"GET /filaments/{id}", server.Read, showFilament},
	{"GET /vendors", server.Read, vendorList.show},

	{"GET /printers", server.Read, printerList.show},
	{"GET /printers/{id}", server.Read, showPrinter},
	{"POST /printers/{id}/maintained", server.Write, onePrinter.action("maintained", "POST", "/maintained", nil)},
	{"POST /printers/{id}/slots/{number}", server.Write, loadSlot},
	{"GET /queue", server.Read, showQueue},

	{"GET /products", server.Read, productList.show},
	{"GET /products/{id}", server.Read, showProduct},
	{"POST /products/{id}/recalculate", server.Write, oneProduct.action("costs", "POST", "/recalculate", nil)},
	{"POST /products/{id}/materials", server.Write, oneProduct.action("materials", "POST", "/materials",
		values(field{"material_type", text}, field{"color", text}, field{"weight_grams", number}))},
	{"POST /products/{id}/materials/{part}/remove", server.Write,
		oneProduct.action("part", "DELETE", "/materials/{part}", nil)},
	{"POST /products/{id}/components", server.Write, oneProduct.action("components", "POST", "/components",
		values(field{"component_product_id", text}, field{"quantity", number}))},
	{"POST /products/{id}/components/{part}/remove", server.Write,
		oneProduct.action("part", "DELETE", "/components/{part}", nil)},

	{"GET /runs", server.Read, board},
	{"GET /runs/new", server.Write, showNewRun},
	{"POST /runs/new", server.Write, createRun},
	{"GET /runs/{id}", server.Read, showRun},
	{"POST /runs/{id}/earlier", server.Write, moveRun},
	{"POST /runs/{id}/start", server.Write, oneRun.action("start", "POST", "/start", nil)},
	{"POST /runs/{id}/complete", server.Write, oneRun.action("complete", "POST", "/complete", completion)},
	{"POST /runs/{id}/fail", server.Write, oneRun.action("fail", "POST", "/fail", failure)},
	{"POST /runs/{id}/cancel", server.Write, oneRun.action("cancel", "POST", "/cancel", failure)},

	{"GET /orders", server.Read, orderList.show},
	{"GET /orders/{id}", server.Read, showOrder},
	{"GET /orders/{id}/plan", server.Write, showPlan},
	{"POST /orders/{id}/plan", server.Write, createPlan},
	{"POST /orders/{id}/cancel", server.Write, oneOrder.action("cancel", "POST", "/cancel", nil)},
	{"POST /orders/{id}/items", server.Write, oneOrder.action("items", "POST", "/items",
		values(field{"product_id", text}, field{"quantity", number}))},

	{"GET /stock", server.Read, levelList.show},
	{"GET /reports", server.Read, reports},
	{"GET /reports/usage.csv", server.Read, usageFile},
	{"GET /reports/margins", server.Read, margins},

	{"GET /files", server.Read, showFiles},
	{"POST /files", server.Write, importFile},
	{"GET /files/{name}", server.Read, exportFile},

	{"GET /settings", server.Admin, showSettings},
	{"POST /settings", server.Admin, changeSettings},
	{"POST /settings/keys", server.Admin, createKey},
	{"POST /settings/keys/{id}/revoke", server.Admin, revokeKey},
	{"POST /settings/users/{id}/password-link", server.Admin, createPasswordLink},
	{"GET /settings/webhooks", server.Admin, listWebhooks},
	{"POST /settings/webhooks", server.Admin, createWebhook},
	{"GET /settings/webhooks/{id}", server.Admin, showWebhook},
	{"POST /settings/webhooks/{id}/test", server.Admin, oneWebhook.action("test", "POST", "/test", nil)},
	{"POST /settings/webhooks/{id}/enable", server.Admin, oneWebhook.action("enable", "PATCH", "", disabled(false))},
	{"POST /settings/webhooks/{id}/disable", server.Admin, oneWebhook.action("disable", "PATCH", "", disabled(true))},
	{"POST /settings/webhooks/{id}/remove", server.Admin, removeWebhook},
	{"POST /settings/webhooks/{id}/deliveries/{part}", server.Admin,
		oneWebhook.action("deliver", "POST", "/deliveries/{part}/redeliver", nil)},
}, spools.changes(server.Write), printers.pages(server.Write), filaments.pages(server.Write),
	vendors.pages(server.Write), products.pages(server.Write), orders.pages(server.Write), levels.pages(server.Write),
	users.pages(server.Admin), definitions.pages(server.Admin))

// navigation is the main entries of the navigation, and outside the entries of pages that are not below their paths.
var (
	navigation = []option{{"/", "Today"}, {"/spools", "Spools"}, {"/filaments", "Filaments"},
		{"/products", "Products"}, {"/printers", "Printers"}, {"/runs", "Runs"}, {"/orders", "Orders"},
		{"/stock", "Stock levels"}, {"/reports", "Reports"}}
	outside = map[string]string{"/vendors": "/filaments", "/queue": "/runs"}
)

//go:embed templates static
var files embed.FS

// parsed are the templates of the pages that have been shown, by the name of their file.
var parsed sync.Map

// templateOf returns the template of a page, with the layout and the parts that pages share. It parses it when the page
// is shown first: all templates need 2.9 MB, and parsing them takes longer than the rest of the program's start.
func templateOf(name string) *template.Template {
	t, ok := parsed.Load(name)
	if !ok {
		t, _ = parsed.LoadOrStore(name, template.Must(template.New("").Funcs(functions).ParseFS(files,
			"templates/layout.html", "templates/parts.html", "templates/"+name+".html")))
	}
	return t.(*template.Template)
}

// site serves the pages of one service.
type site struct {
	Config
	server     *server.Server
	protection *http.CrossOriginProtection
}

// New returns the function that a server.Config needs.
func New(c Config) func(*server.Server) *server.Site {
	if c.Now == nil {
		c.Now = time.Now
	}
	return func(s *server.Server) *server.Site {
		w := &site{Config: c, server: s, protection: http.NewCrossOriginProtection()}
		result := &server.Site{Identify: w.identify, Fail: w.fail}
		for _, p := range pages {
			result.Pages = append(result.Pages, server.SitePage{Pattern: p.pattern, Serve: w.handler(p)})
		}
		for _, a := range assets {
			result.Pages = append(result.Pages, server.SitePage{Pattern: "GET " + a.address, Asset: true, Serve: a.serve})
		}
		return result
	}
}

// visit is a request for a page.
type visit struct {
	auth.Visitor // zero on public pages
	site         *site
	w            http.ResponseWriter
	r            *http.Request
	locale       *locale
	zone         *time.Location
}

// policy lets a page load only files of the service, and run no script and style that is in the page itself.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (s *site) visit(w http.ResponseWriter, r *http.Request) *visit {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	return &visit{site: s, w: w, r: r, locale: localeOf(r.Header.Get("Accept-Language")), zone: time.UTC}
}

// handler returns the handler of a page. A visitor who is not signed in is sent to the sign-in, and then back.
func (s *site) handler(p page) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		v := s.visit(w, r)
		if s.protection.Check(r) != nil {
			return &server.Error{Status: 403, Code: "FORBIDDEN",
				Detail: "The form was sent by a page of another site, so nothing was done."}
		}
		if r.Method == http.MethodPost {
			if err := r.ParseForm(); err != nil {
				return server.ErrTooLarge
			}
		}
		if p.access == server.Public {
			return p.serve(v)
		}
		if err := v.signedIn(); err != nil || v.Actor.User == "" {
			return err
		}
		if v.Level < p.access {
			return server.ErrForbidden
		}
		for _, name := range []string{"id", "part"} { // of which page.pattern may have wildcards
			if value := r.PathValue(name); value != "" {
				id, ok := db.ParseID(value)
				if !ok {
					return server.ErrNotFound
				}
				r.SetPathValue(name, id)
			}
		}
		return p.serve(v)
	}
}

// view is what a template gets.
type view struct {
	*visit
	Title string
	Data  any
}

// Live reports whether the page can be read again at its address. The answer to a refused form cannot.
func (v *visit) Live() bool { return v.r.Method == http.MethodGet }

// show writes a page from the template with the name.
func (v *visit) show(status int, name, title string, data any) error {
	var b bytes.Buffer
	if err := templateOf(name).ExecuteTemplate(&b, "layout", view{v, title, data}); err != nil {
		return err
	}
	server.SendPage(v.w, v.r, status, b.Bytes())
	return nil
}

// redirect sends the browser to a page of this site, with GET.
func (v *visit) redirect(path string) error {
	v.w.Header().Set("Location", path)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// fail writes the page of an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, e *server.Error) {
	v := s.visit(w, r)
	status, detail := e.Page(w, r)
	detail = sentence(detail)
	if err := v.show(status, "error", cmp.Or(errorTitles[status], "Something went wrong"), detail); err != nil {
		http.Error(w, detail, status) // the templates are part of the program: not reached
	}
}

var errorTitles = map[int]string{403: "Not permitted", 404: "Not found", 405: "Not found", 413: "Too large",
	422: "Not valid", 429: "Too many requests", 503: "Not available at the moment"}

// CanWrite reports whether the visitor may change what the farm has.
func (v *visit) CanWrite() bool { return v.Level >= server.Write }

// IsAdmin reports whether the visitor is an administrator.
func (v *visit) IsAdmin() bool { return v.Level >= server.Admin }

// Path returns the path of the page.
func (v *visit) Path() string { return v.r.URL.Path }

// Navigation returns the main entries of the navigation, and MoreNavigation those below them.
func (v *visit) Navigation() template.HTML { return v.links(navigation) }

func (v *visit) MoreNavigation() template.HTML {
	links := []option{{"/account", v.Name}, {"/settings", "Settings"}, {"/files", "Import and export"}}
	if !v.IsAdmin() {
		links = slices.Delete(links, 1, 2)
	}
	return v.links(links)
}

// links returns links to pages, with a mark on the one to which the page belongs.
func (v *visit) links(links []option) template.HTML {
	top, _, _ := strings.Cut(strings.TrimPrefix(v.Path(), "/"), "/")
	here := cmp.Or(outside["/"+top], "/"+top)
	var r rows
	for _, l := range links {
		r.add(`<li><a href="{}"`, l.Value)
		r.when(l.Value == here, ` aria-current="page"`)
		r.add(`>{}</a></li>`+"\n", l.Name)
	}
	return r.html()
}

// Style and Script return the addresses of the assets.
func (v *visit) Style() string  { return assets["style.css"].address }
func (v *visit) Script() string { return assets["script.js"].address }

// With returns a view of other data, for templates that pages share.
func (v view) With(data any) view { return view{v.visit, v.Title, data} }
