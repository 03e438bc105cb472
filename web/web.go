// Package web serves the pages for people. A page consists of a file of Go and a template. The Go code reads and
// writes with operations of the API. It has no SQL and no rules of its own: the page shows the data and the errors
// that the API returns.
package web

import (
	"cmp"
	"encoding/csv"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"spoolwright/auth"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value"
	"spoolwright/value/language"
	"spoolwright/web/start"
)

// Config configures New.
type Config struct {
	Auth      *auth.Service
	Start     *start.Service // the first steps of farms, and their sample data
	Once      *auth.OneLogin // the login of the link that the first start prints; nil means no such link
	Insecure  bool           // whether people can sign in without TLS from other machines, too
	PublicURL string         // the setting PUBLIC_URL: an origin, or ""
	Catalog   *inventory.Catalog
	Mail      *mail.Sender // nil if there is no mail server
	Log       *slog.Logger
	Authority func() []byte // the certificate of the service's own authority as PEM; nil if it has none
	Now       func() time.Time
}

// page is an entry of the list of pages: a page, or the address to which a form is sent.
type page struct {
	pattern string
	access  server.Access // the level that the visitor needs; a Public page needs no visitor
	serve   func(*visit) error
}

var pages = slices.Concat([]page{
	{"GET /sign-in", server.Public, showSignIn},
	{"POST /sign-in", server.Public, signIn},
	{"POST /sign-in/code", server.Public, signInWithCode},
	{"GET /sign-on/{tenant}", server.Public, ofFarm(beginSignOn)},
	{"GET /sign-on/{tenant}/callback", server.Public, ofFarm(finishSignOn)},
	{"GET /forgotten-password", server.Public, showForgotten},
	{"POST /forgotten-password", server.Public, forgot},
	{"GET /first-login", server.Public, firstLogin},
	{"GET /password-link/{token}", server.Public, showPasswordLink},
	{"POST /password-link/{token}", server.Public, usePasswordLink},
	{"POST /sign-out", server.Public, signOut},
	{"GET /farm-ca.crt", server.Public, showAuthority},
	{"GET /account", server.Read, showAccount},
	{"POST /account/password", server.Read, changePassword},
	{"POST /account/language", server.Read, chooseLanguage},
	{"POST /account/sessions/{id}/end", server.Read, endSession},
	{"GET " + factorPath, server.Read, showFactor},
	{"POST " + factorPath, server.Read, beginFactor},
	{"POST " + factorPath + "/confirm", server.Read, confirmFactor},
	{"POST " + factorPath + "/recovery-codes", server.Read, renewRecoveryCodes},
	{"POST " + factorPath + "/disable", server.Read, disableFactor},

	{"GET /{$}", server.Read, today},
	{"POST /first-steps/place", server.Admin, confirmPlace},
	{"POST /first-steps/hide", server.Admin, hideSteps},
	{"GET /samples", server.Admin, showSamples},
	{"POST /samples", server.Admin, fillSamples},
	{"POST /samples/remove", server.Admin, removeSamples},
	{"GET /search", server.Read, search},
	{"GET /scan", server.Read, scan},
	{"GET /changes", server.Read, streamChanges},

	{"GET /spools", server.Read, listSpools},
	{"POST /spools", server.Write, changeSpools},
	{"POST /spools/change", server.Write, editChosen},
	{"POST /spools/back", server.Write, takeBack},
	{"GET /spools/new", server.Write, showNewSpools},
	{"POST /spools/new", server.Write, createSpools},
	{"POST /spools/removal", server.Write, removeSpools},
	{"GET /spools/{id}", server.Read, spools.orRemoved(showSpool)},
	{"POST /spools/{id}/weigh", server.Write,
		oneSpool.action("weigh", "POST", "/measure", values(field{"gross_grams", number}, field{"confirmed", optionalFlag},
			field{"full", optionalFlag}), weighed)},
	{"POST /spools/{id}/deduct", server.Write,
		oneSpool.action("deduct", "POST", "/deduct", values(field{"weight_grams", number}, field{"reason", text}),
			deducted)},
	{"POST /spools/{id}/refill", server.Write, oneSpool.action("refill", "POST", "/refill", refill, refilled)},
	{"POST /spools/{id}/usage/reverse", server.Write, reverseUsage},
	{"POST /spools/{id}/usage/{part}/move", server.Write, moveUsage},
	{"POST /spools/{id}/move", server.Write, editSpool("move", field{"location", text}, moved)},
	{"POST /spools/{id}/archive", server.Write, editSpool("archive", field{"archived", flag}, archived)},
	{"POST /spools/{id}/load", server.Write, loadSpool},
	{"GET /s/{number}", server.Read, spoolByNumber},
	{"GET /labels", server.Read, showLabels},
	{"GET /products/labels", server.Read, showProductLabels},
	{"GET /p/{number}", server.Read, productByNumber},
	{"GET /packing", server.Read, showPacking},

	{"GET /filaments", server.Read, filamentList.show},
	{"POST /filaments/from-catalog", server.Write, addFromCatalog},
	{"POST /filaments/catalog", server.Write, fillCatalog},
	{"GET /filaments/from-spools", server.Write, showFromSpools},
	{"POST /filaments/from-spools", server.Write, makeFromSpools},
	{"POST /filaments/{id}/spool-prices", server.Write, changeSpoolPrices},
	{"GET /filaments/{id}", server.Read, filaments.orRemoved(showFilament)},
	{"GET /vendors", server.Read, vendorList.show},

	{"GET /printers", server.Read, printerList.show},
	{"GET /printers/{id}", server.Read, printers.orRemoved(showPrinter)},
	{"POST /printers/{id}/maintained", server.Write,
		onePrinter.action("maintained", "POST", "/maintained", nil, showText("The hours count from 0."))},
	{"POST /printers/{id}/answer", server.Write, answerQuestion},
	{"POST /printers/{id}/slots/{number}", server.Write, loadSlot},
	{"GET /printers/{id}/connection", server.Admin, showConnection},
	{"POST /printers/{id}/connection", server.Admin, saveConnection},
	{"POST /printers/{id}/connection/test", server.Admin, testConnection},
	{"POST /printers/{id}/connection/trust", server.Admin, trustCertificate},
	{"POST /printers/{id}/connection/remove", server.Admin, removeConnection},
	{"POST /printers/{id}/key", server.Admin, connectPrinter},
	{"POST /printers/{id}/key/{part}/revoke", server.Admin, disconnectPrinter},
	{"GET /queue", server.Read, showQueue},

	{"GET /products", server.Read, productList.show},
	{"GET /products/files", server.Write, showSlicedFiles},
	{"POST /products/files", server.Write, readSlicedFiles},
	{"POST /products/files/save", server.Write, saveSlicedFiles},
	{"GET /products/{id}/picture", server.Read, showPicture},
	{"POST /products/{id}/picture", server.Write, setPicture},
	{"POST /products/{id}/picture/remove", server.Write,
		oneProduct.action("picture", "DELETE", "/picture", nil, showText("The picture is removed."))},
	{"GET /products/{id}", server.Read, products.orRemoved(showProduct)},
	{"GET /products/{id}/pieces", server.Read, products.orRemoved(showPieces)},
	{"POST /products/{id}/pieces/reverse", server.Write, reversePieces},
	{"POST /products/{id}/count", server.Write, oneProduct.action("count", "POST", "/count",
		values(field{"counted", number}, field{"reason", text}), recorded("Counted"))},
	{"POST /products/{id}/scrap", server.Write, oneProduct.action("scrap", "POST", "/scrap",
		values(field{"quantity", number}, field{"reason", text}), recorded("Scrapped"))},
	{"POST /products/{id}/adjust", server.Write, oneProduct.action("adjust", "POST", "/adjust",
		values(field{"pieces", number}, field{"reason", text}), recorded("Adjusted"))},
	{"POST /products/{id}/assemble", server.Write, oneProduct.action("assemble", "POST", "/assemble",
		values(field{"quantity", number}), recorded("Assembled"))},
	{"POST /products/{id}/disassemble", server.Write, oneProduct.action("disassemble", "POST", "/disassemble",
		values(field{"quantity", number}), recorded("Taken apart"))},
	{"POST /products/{id}/recalculate", server.Write,
		oneProduct.action("costs", "POST", "/recalculate", nil, showText("The costs now follow the current prices."))},
	{"POST /products/{id}/materials", server.Write,
		oneProduct.action("materials", "POST", "/materials", newMaterial, showText("The material is added."))},
	{"POST /products/{id}/materials/{part}", server.Write,
		oneProduct.edit("material", "PATCH", "/materials/{part}", materialEdit, partForm("material"),
			withBack("The material is changed.", materialFields...))},
	{"POST /products/{id}/materials/{part}/set", server.Write,
		oneProduct.edit("part", "PATCH", "/materials/{part}", setMaterial, materialForm,
			showText("The material is changed."))},
	{"POST /products/{id}/materials/{part}/remove", server.Write,
		removePart("materials", "The material is removed.")},
	{"POST /products/{id}/materials/back", server.Write, putBack("materials", "The material is back.")},
	{"POST /products/{id}/variants", server.Write,
		oneProduct.action("variants", "POST", "/variants", newVariants, showText("The variants are added."))},
	{"POST /products/{id}/colors", server.Write,
		oneProduct.edit("colors", "PATCH", "", variantColors, colorsForm, showText("The colors are saved."))},
	{"POST /products/{id}/plates", server.Write, addPlate},
	{"POST /products/{id}/plates/{part}", server.Write,
		oneProduct.edit("plate", "PATCH", "", plateEdit, partForm("plate"),
			withBack("The plate is changed.", plateFields...))},
	{"POST /products/{id}/plates/{part}/remove", server.Write, removePlate},
	{"POST /products/{id}/plates/{part}/back", server.Write, putPlateBack},
	{"POST /products/{id}/components", server.Write, oneProduct.action("components", "POST", "/components",
		values(field{"component_product_id", text}, field{"quantity", number}), showText("The component is added."))},
	{"POST /products/{id}/components/{part}", server.Write,
		oneProduct.edit("component", "PATCH", "/components/{part}", pieces, partForm("component"),
			withBack("The pieces are changed.", field{"quantity", number}))},
	{"POST /products/{id}/components/{part}/remove", server.Write,
		removePart("components", "The component is removed.")},
	{"POST /products/{id}/components/back", server.Write, putBack("components", "The component is back.")},

	{"GET /runs", server.Read, board},
	{"GET /runs/all", server.Read, showAllRuns},
	{"GET /choices/{kind}", server.Read, showChoices},
	{"GET /runs/new", server.Write, showNewRun},
	{"POST /runs/new", server.Write, createRun},
	{"POST /runs/file", server.Write, readRunFile},
	{"GET /runs/{id}", server.Read, removedRuns.orRemoved(showRun)},
	{"POST /runs/{id}/remove", server.Write, removedRuns.remove},
	{"POST /runs/{id}/earlier", server.Write, moveRun},
	{"POST /runs/{id}/start", server.Write, startRun},
	{"POST /runs/{id}/stop", server.Write, stopRun},
	{"POST /runs/{id}/confirm", server.Write, confirmRun},
	{"POST /runs/{id}/replan", server.Write, replanRun},
	{"POST /runs/{id}/complete", server.Write, oneRun.action("complete", "POST", "/complete", completion,
		withWarnings(withUndo("The run is confirmed.", "Reopen", "/reopen", nil)))},
	{"POST /runs/{id}/fail", server.Write, oneRun.action("fail", "POST", "/fail", failure,
		withWarnings(withUndo("The run has failed.", "Reopen", "/reopen", nil)))},
	{"POST /runs/{id}/fail-and-replan", server.Write, failAndReplan},
	{"POST /runs/{id}/cancel", server.Write, oneRun.action("cancel", "POST", "/cancel", failure,
		withWarnings(withUndo("The run is cancelled.", "Reopen", "/reopen", nil)))},
	{"POST /runs/{id}/reopen", server.Write, oneRun.action("reopen", "POST", "/reopen", values(field{"reason", text}),
		withWarnings(showText("The run is open again."), "WEIGHED_SINCE", "COUNTED_SINCE"))},
	{"POST /runs/{id}/correct", server.Write,
		oneRun.edit("correct", "POST", "/correct", correction, runForm("correct"), withWarnings(corrected))},
	{"POST /runs/{id}/edit", server.Write, oneRun.edit("edit", "PATCH", "", runEdit, runForm("edit"),
		withWarnings(showText("The run is saved."), "WEIGHED_SINCE", "COUNTED_SINCE"))},
	{"POST /runs/{id}/items", server.Write,
		oneRun.action("items", "POST", "/items", newItem, withWarnings(showText("The product is added.")))},
	{"POST /runs/{id}/items/{part}", server.Write,
		oneRun.edit("item", "PATCH", "/items/{part}", pieces, runForm("item"),
			withWarnings(showText("The pieces are changed.")))},
	{"POST /runs/{id}/items/{part}/remove", server.Write,
		oneRun.action("part", "DELETE", "/items/{part}", nil, showText("The product is removed."))},
	{"POST /runs/{id}/materials", server.Write,
		oneRun.action("materials", "POST", "/materials", newSpool, showText("The spool is added."))},
	{"POST /runs/{id}/materials/{part}/exchange", server.Write, oneRun.action("exchange", "POST",
		"/materials/{part}/exchange", exchange, showText("The run goes on with the next spool."))},
	{"POST /runs/{id}/materials/{part}/remove", server.Write,
		oneRun.action("part", "DELETE", "/materials/{part}", nil, showText("The spool is removed from the run."))},

	{"GET /orders", server.Read, orderList.show},
	{"GET /orders/{id}", server.Read, orders.orRemoved(showOrder)},
	{"GET /orders/{id}/plan", server.Write, showPlan},
	{"POST /orders/{id}/plan", server.Write, createPlan},
	{"POST /orders/{id}/plates/{part}", server.Write, setPlate},
	{"POST /orders/{id}/items/{part}/print", server.Write, printItem},
	{"POST /orders/{id}/cancel", server.Write, oneOrder.action("cancel", "POST", "/cancel", nil,
		orderEnded("The order is cancelled."))},
	{"POST /orders/{id}/complete", server.Write, oneOrder.edit("complete", "POST", "/complete", delivered,
		orderForm("complete"), withWarnings(orderEnded("The order is done."), "COUNTED_SINCE"))},
	{"POST /orders/{id}/close", server.Write, closeOrder},
	{"POST /orders/{id}/deliver", server.Write, oneOrder.action("deliver", "POST", "/deliver", delivery, shipped)},
	{"POST /orders/{id}/deliveries/back", server.Write, takeDeliveriesBack},
	{"POST /orders/{id}/open", server.Write,
		oneOrder.action("open", "PATCH", "", values(field{"status", text}),
			withWarnings(showText("The order is open again."), "COUNTED_SINCE"))},
	{"POST /orders/{id}/items", server.Write, oneOrder.action("items", "POST", "/items",
		values(field{"product_id", text}, field{"quantity", number}, field{"unit_price", number}), itemAdded)},
	{"POST /orders/{id}/items/{part}", server.Write, oneOrder.edit("item", "PATCH", "/items/{part}", itemEdit,
		orderForm("item"), withBack("The item is changed.", itemFields...))},
	{"POST /orders/{id}/lines/{part}", server.Write, assignLine},
	{"POST /orders/{id}/items/{part}/remove", server.Write, oneOrder.action("part", "DELETE", "/items/{part}", nil,
		withUndo("The item is removed.", "Undo", "/restore", nil))},
	{"POST /orders/{id}/items/{part}/restore", server.Write, oneOrder.action("part", "POST", "/items/{part}/restore", nil,
		showText("The item is back."))},

	{"GET /stock", server.Read, levelList.show},
	{"GET /stock/shopping-list.csv", server.Read, shoppingFile},
	{"GET /stock/{id}/received", server.Write, receiveLevel},
	{"POST /stock/{id}/ordered", server.Write, orderLevel},
	{"GET /reports", server.Read, reports},
	{"GET /reports/usage.csv", server.Read, usageFile},
	{"GET /reports/margins", server.Read, margins},
	{"GET /reports/filament", server.Read, showFilamentReport},
	{"GET /reports/filament.csv", server.Read, filamentFile},
	{"GET /reports/lot", server.Read, showLotReport},
	{"GET /reports/lot.csv", server.Read, lotFile},
	{"GET /reports/pieces", server.Read, showPiecesReport},
	{"GET /reports/pieces.csv", server.Read, piecesFile},

	{"GET /files", server.Read, showFiles},
	{"POST /files", server.Write, importFile},
	{"POST /files/{id}/undo", server.Write, undoImport},
	{"GET /files/{name}", server.Read, exportFile},

	{"GET /settings", server.Admin, showSettings},
	{"GET /settings/users", server.Admin, showSettings},
	{"GET /settings/keys", server.Admin, showSettings},
	{"GET /settings/fields", server.Admin, showSettings},
	{"GET /settings/backup", server.Admin, showSettings},
	{"GET /settings/audit", server.Admin, showAuditLog},
	{"POST /settings", server.Admin, changeSettings},
	{"POST /settings/address", server.Admin, changeAddress},
	{"GET /settings/farm.gz", server.Admin, exportFarm},
	{"POST /settings/keys", server.Admin, createKey},
	{"POST /settings/keys/{id}/revoke", server.Admin,
		deletes("/api/v1/api-keys/{id}", "/settings/keys", "The key is revoked.", (*visit).keyRefused)},
	{"POST /settings/users", server.Admin, invite},
	{"POST /settings/users/{id}/password-link", server.Admin, createPasswordLink},
	{"POST /settings/users/{id}/password-email", server.Admin, sendPasswordLink},
	{"POST /settings/users/{id}/reset-otp", server.Admin,
		deletes("/api/v1/users/{id}/otp", "/settings/users", "The second factor is removed.", (*visit).guestRefused)},
	{"POST /settings/users/{id}/forget-sign-on", server.Admin,
		deletes("/api/v1/users/{id}/sign-on", "/settings/users", "The account is forgotten.", (*visit).guestRefused)},
	{"GET /settings/sign-on", server.Admin, showSignOn},
	{"POST /settings/sign-on", server.Admin, saveSignOn},
	{"POST /settings/sign-on/remove", server.Admin,
		deletes(signOnAPI, "/settings/sign-on", "The sign-on is removed.",
			func(v *visit, f *form) error { return v.signOnPage(422, f) })},
	{"GET /settings/shops", server.Admin, listShops},
	{"POST /settings/shops", server.Admin, createShop},
	{"POST /settings/shops/{id}/secret", server.Admin, changeShopSecret},
	{"POST /settings/shops/{id}/remove", server.Admin, deletes("/api/v1/shops/{id}", "/settings/shops",
		"The shop is disconnected. Its orders stay.", (*visit).shopRefused)},
	{"POST /settings/shops/names/{id}/forget", server.Admin, deletes("/api/v1/order-assignments/{id}", "/settings/shops",
		"The assignment is deleted. The next line with this name needs a product.", (*visit).shopRefused)},
	{"GET /settings/webhooks", server.Admin, listWebhooks},
	{"POST /settings/webhooks", server.Admin, createWebhook},
	{"GET /settings/webhooks/{id}", server.Admin, showWebhook},
	{"POST /settings/webhooks/{id}/test", server.Admin,
		oneWebhook.action("test", "POST", "/test", nil, showText("A test event is sent."))},
	{"POST /settings/webhooks/{id}/enable", server.Admin,
		oneWebhook.action("enable", "PATCH", "", disabled(false), showText("The webhook is enabled."))},
	{"POST /settings/webhooks/{id}/disable", server.Admin,
		oneWebhook.action("disable", "PATCH", "", disabled(true), showText("The webhook is disabled."))},
	{"POST /settings/webhooks/{id}/remove", server.Admin,
		deletes("/api/v1/webhooks/{id}", "/settings/webhooks", "The webhook is removed.", (*visit).removalRefused)},
	{"POST /settings/webhooks/{id}/deliveries/{part}", server.Admin,
		oneWebhook.action("deliver", "POST", "/deliveries/{part}/redeliver", nil, showText("The event is sent again."))},
}, spools.changes(server.Write), printers.pages(server.Write), filaments.pages(server.Write),
	vendors.pages(server.Write), products.pages(server.Write), orders.pages(server.Write), levels.pages(server.Write),
	spools.restores(), printers.restores(), filaments.restores(), vendors.restores(), products.restores(),
	orders.restores(), removedRuns.restores(),
	users.changes(server.Admin), definitions.pages(server.Admin))

// bodies are the sizes of the forms that may have more than 1 MiB.
var bodies = map[string]int64{
	"POST /products/files": maxSlicedBytes, "POST /runs/file": maxSlicedBytes, "POST /products/files/save": maxReadBytes,
	"POST /products/{id}/picture": 6 << 20, "POST /filaments/catalog": inventory.MaxCatalogUpload + 1<<20,
}

// site serves the pages of one service.
type site struct {
	Config
	server     *server.Server
	protection *http.CrossOriginProtection
}

// New returns the function Site of a server.Config.
func New(c Config) func(*server.Server) *server.Site {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return func(s *server.Server) *server.Site {
		w := &site{Config: c, server: s, protection: http.NewCrossOriginProtection()}
		result := &server.Site{Identify: w.identify, Fail: w.fail}
		for _, p := range pages {
			result.Pages = append(result.Pages, server.SitePage{Pattern: p.pattern, Serve: w.handler(p),
				Public: p.access == server.Public, Picture: p.pattern == "GET /products/{id}/picture",
				Limit: bodies[p.pattern]})
		}
		for _, a := range assets {
			result.Assets = append(result.Assets, server.SitePage{Pattern: "GET " + a.address, Serve: a.serve})
		}
		return result
	}
}

// handler returns the handler of a page. It redirects a person who is not signed in to the sign-in, which leads back
// to the page.
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
			if l := language.Of(v.Chosen()); l != nil {
				v.language = l
			}
			return p.serve(v)
		}
		if err := v.signedIn(); err != nil || v.Actor.User == "" {
			return err
		}
		if v.MustSetUp && !strings.HasPrefix(v.Path(), factorPath) {
			return v.redirect(factorPath)
		}
		if v.Level < p.access {
			return server.ErrForbidden
		}
		for _, name := range []string{"id", "part"} { // the wildcards of patterns that are UUIDs
			if text := r.PathValue(name); text != "" {
				id, ok := value.ParseID(text)
				if !ok {
					return server.ErrNotFound
				}
				r.SetPathValue(name, id)
			}
		}
		return p.serve(v)
	}
}

// fail writes the page of an error. The page has the navigation if somebody is signed in, except for errors because
// the service is overloaded.
func (s *site) fail(w http.ResponseWriter, r *http.Request, e *server.Error) {
	v := s.visit(w, r)
	status, detail := e.Page(w, r)
	detail = v.message(detail)
	if status < 500 && status != http.StatusTooManyRequests {
		_ = v.recognize() // without a session, the page has no navigation
	}
	title := v.t(cmp.Or(errorTitles[status], "Something went wrong"))
	if err := v.show(status, "error", title, detail); err != nil {
		http.Error(w, detail, status) // the templates are part of the program: not reached
	}
}

// csvFile begins a CSV file with the contents of a page, named after the resources, and adds an entry to the audit
// log. err is the error of reading the resources.
func (v *visit) csvFile(resources string, err error) (*csv.Writer, error) {
	if err == nil {
		err = v.site.Auth.Exported(v.r.Context(), v.Visitor, resources)
	}
	if err != nil {
		return nil, err
	}
	name, _ := strings.CutSuffix(resources, "-report")
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	return csv.NewWriter(v.w), nil
}

// lists are the lists to which the pages of errors and of removed things lead, by their addresses.
var lists = map[string]language.Text{"/spools": "Spools", "/filaments": "Filaments", "/products": "Products",
	"/printers": "Printers", "/runs": "Runs", "/orders": "Orders", "/stock": "Stock levels", "/reports": "Reports",
	"/settings": "Settings", "/vendors": "Vendors", "/settings/users": "People", "/settings/fields": "Custom fields"}

// List returns the list to which the address belongs, or an empty option.
func (v *visit) List() option { return option{v.Section(), v.t(lists[v.Section()])} }

var errorTitles = map[int]language.Text{403: "Not permitted", 404: "Not found", 405: "Not found", 413: "Too large",
	422: "Not valid", 429: "Too many requests", 503: "Not available at the moment"}
