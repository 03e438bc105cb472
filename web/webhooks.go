package web

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"spoolwright/value/language"
)

// webhook is a webhook, as the API returns it.
type webhook struct {
	ID, URL, Format, Description, Secret string
	Events                               []string
	Disabled, Daily                      bool
	Reason                               string     `json:"disabled_reason"`
	FailingSince                         *time.Time `json:"failing_since"`
}

// Title returns the name of the webhook for people. The URLs of chats are secret and meaningless: chats have the kind
// of the receiver as their name.
func (w webhook) Title(v view) string {
	title := nameOf(v.receivers(), w.Format)
	switch w.Format {
	case "standard":
		return w.URL
	case "email":
		title = v.t("E-mail to %s", strings.TrimPrefix(w.URL, "mailto:"))
	}
	if w.Description != "" {
		title += ": " + w.Description
	}
	return title
}

// When returns the events of the webhook in words.
func (w webhook) When(v view) string {
	all, occasions := []string{}, v.options(occasions)
	for _, event := range w.Events {
		all = append(all, nameOf(occasions, event))
	}
	if w.Daily {
		all = append(all, v.t("once a day"))
	}
	return commas(v, all)
}

// receivers returns the kinds of receivers, to choose from. The last one needs a mail server.
func (v *visit) receivers() []option {
	return []option{{"discord", "Discord"}, {"slack", v.t("Slack, Mattermost or Rocket.Chat")},
		{"teams", "Microsoft Teams"}, {"ntfy", "ntfy"}, {"gotify", "Gotify"},
		{"standard", v.t("A program, by signed requests")}, {"email", v.t("E-mail")}}
}

// occasions are the events in words, as "Tell me when" continues.
var occasions = []word{
	{"inventory.low_stock", "filament runs low"}, {"spool.empty", "a spool is empty"},
	{"production_run.planned", "a run is planned"}, {"production_run.started", "a run starts"},
	{"production_run.completed", "a run is completed"}, {"production_run.failed", "a run fails"},
	{"production_run.corrected", "the end of a run is corrected"}, {"production_run.reopened", "a run is opened again"},
	{"printer.attention", "a printer needs a person"}, {"printer.offline", "a printer is offline"},
	{"order.received", "an order arrives"}, {"order.in_production", "an order goes into production"},
	{"order.ready", "an order can be packed"}, {"order.done", "an order is done"},
	{"order.cancelled", "an order is cancelled"},
	{"product.low_stock", "a product runs low"}, {"product.cost_changed", "the cost of a product changes"},
	{"*", "anything happens"},
}

// nameOf returns the name of the option with the value, or the value if there is none.
func nameOf(options []option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Name
		}
	}
	return value
}

// State returns whether the service sends events to the webhook, in words.
func (w webhook) State() language.Text {
	switch {
	case w.Reason == "gone":
		return "Disabled: the receiver has gone"
	case w.Reason == "failing":
		return "Disabled: it failed for days"
	case w.Disabled:
		return "Disabled"
	case w.FailingSince != nil:
		return "Failing"
	}
	return "Active"
}

type webhookList struct {
	Items []webhook
	New   webhook // the webhook that was just created, or empty
	Form  *form
	Mails bool // whether the service has a mail server
}

// Receivers returns the kinds of receivers, to choose from.
func (l *webhookList) Receivers(v view) []option {
	all := append([]option{{"", v.t("Choose")}}, v.receivers()...)
	if !l.Mails {
		all = all[:len(all)-1]
	}
	return all
}

// Occasions returns the events in words.
func (l *webhookList) Occasions(v view) []option { return v.options(occasions) }

// Gets reports whether the visitor has chosen the events in the form.
func (l *webhookList) Gets(events string) bool {
	return slices.Contains(l.Form.Values["events"], events)
}

func listWebhooks(v *visit) error { return v.webhookList(200, &webhookList{Form: v.newForm()}) }

func (v *visit) webhookList(status int, l *webhookList) error {
	l.Mails = v.site.Mail != nil
	if err := v.fetch(get("/api/v1/webhooks", l)); err != nil {
		return err
	}
	return v.show(status, "webhooks", v.t("Webhooks"), l)
}

// createWebhook creates a webhook. It shows the secret of a signed one once, and otherwise the page of the webhook,
// where it can be tested.
func createWebhook(v *visit) error {
	l := &webhookList{Form: v.sent()}
	body := l.Form.body(field{"url", text}, field{"description", text}, field{"format", text},
		field{"token", text}, field{"daily", flag})
	if to, ok := body["url"].(string); ok && body["format"] == "email" && !strings.HasPrefix(to, "mailto:") {
		body["url"] = "mailto:" + to
	}
	body["events"] = append([]string{}, l.Form.Values["events"]...)
	l.Form.Values["events"] = body["events"].([]string) // keepProblems shows the problem of values that the form has
	ok, err := v.send(l.Form, "POST", "/api/v1/webhooks", body, &l.New)
	switch {
	case err != nil:
		return err
	case !ok:
		return v.webhookList(422, l)
	case l.New.Format != "standard":
		v.tell(&notice{Text: v.t("The receiver is added. Send it a test.")})
		return v.redirect("/settings/webhooks/" + l.New.ID)
	case l.New.Secret == "": // the form was sent twice, and the response is not stored
		return v.redirect("/settings/webhooks")
	}
	l.Form = v.newForm()
	return v.webhookList(200, l)
}

// deliveryList is the page of a webhook with its deliveries.
type deliveryList struct {
	listing
	Items []struct {
		ID, Type, Status, Error string
		Tries                   int
		Answer                  num        `json:"response_status"`
		CreatedAt               *time.Time `json:"created_at"`
		NextTryAt               *time.Time `json:"next_try_at"`
	} `json:"items"`
	forms   `json:"-"`
	Webhook webhook
	Once    string // the idempotency key of a form
}

var deliveryFilters = []filter{{"status", "status", "Status", []word{
	anything, {"pending", "Pending"},
	{"delivered", "Delivered"}, {"failed", "Failed"}}}}

func showWebhook(v *visit) error { return v.webhookPage(200, "", nil) }

func (v *visit) webhookPage(status int, name string, f *form) error {
	var query url.Values
	l := &deliveryList{forms: v.forms(name, f), Once: v.newForm().Key}
	l.listing, query = v.listing("/settings/webhooks/"+v.r.PathValue("id"), deliveryNoun, deliveryFilters, nil)
	if err := l.refused(v.fetch(get("/api/v1/webhooks/{id}", &l.Webhook),
		read{path: "/api/v1/webhooks/{id}/deliveries", query: query, into: l})); err != nil {
		return err
	}
	return v.show(max(status, l.status()), "webhook", v.t("Webhook"), l)
}

var oneWebhook = resource{"/api/v1/webhooks", "/settings/webhooks", (*visit).webhookPage}

// disabled returns a function that makes the body of an operation. The operation disables or enables a webhook.
func disabled(yes bool) func(*form) map[string]any {
	return func(*form) map[string]any { return map[string]any{"disabled": yes} }
}

func (v *visit) removalRefused(f *form) error { return v.webhookPage(422, "remove", f) }
