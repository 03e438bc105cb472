package web

import (
	"net/url"
	"slices"
	"time"

	"spoolwright/webhooks"
)

// webhook is a webhook, as the API returns it.
type webhook struct {
	ID, URL, Description, Secret string
	Events                       []string
	Disabled                     bool
	Reason                       string     `json:"disabled_reason"`
	FailingSince                 *time.Time `json:"failing_since"`
}

// State returns whether the service sends events to the webhook, in words.
func (w webhook) State() string {
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

// webhookEvents returns the events to which a webhook can subscribe.
var webhookEvents = webhooks.Subscription("").Enum

type webhookList struct {
	Items  []webhook
	New    webhook // the webhook that was just created, or empty
	Form   *form
	Events []string
}

// Gets reports whether the visitor has chosen the events in the form.
func (l *webhookList) Gets(events string) bool {
	return slices.Contains(l.Form.Values["events"], events)
}

func listWebhooks(v *visit) error { return v.webhookList(200, &webhookList{Form: v.newForm()}) }

func (v *visit) webhookList(status int, l *webhookList) error {
	l.Events = webhookEvents()
	if err := v.fetch(get("/api/v1/webhooks", l)); err != nil {
		return err
	}
	return v.show(status, "webhooks", "Webhooks", l)
}

// createWebhook creates a webhook, and shows its secret once.
func createWebhook(v *visit) error {
	l := &webhookList{Form: v.sent()}
	body := l.Form.body(field{"url", text}, field{"description", text})
	body["events"] = append([]string{}, l.Form.Values["events"]...)
	l.Form.Values["events"] = body["events"].([]string) // the form must have events, so that refuse shows their problem
	ok, err := v.send(l.Form, "POST", "/api/v1/webhooks", body, &l.New)
	switch {
	case err != nil:
		return err
	case !ok:
		return v.webhookList(422, l)
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

var deliveryFilters = []filter{{"status", "status", "Status", []option{{"", "All deliveries"}, {"pending", "Pending"},
	{"delivered", "Delivered"}, {"failed", "Failed"}}}}

func showWebhook(v *visit) error { return v.webhookPage(200, "", nil) }

func (v *visit) webhookPage(status int, name string, f *form) error {
	var query url.Values
	l := &deliveryList{forms: v.forms(name, f), Once: v.newForm().Key}
	l.listing, query = v.listing("/settings/webhooks/"+v.r.PathValue("id"), "deliverie", deliveryFilters, nil)
	if err := l.refused(v.fetch(get("/api/v1/webhooks/{id}", &l.Webhook),
		read{path: "/api/v1/webhooks/{id}/deliveries", query: query, into: l})); err != nil {
		return err
	}
	return v.show(max(status, l.status()), "webhook", "Webhook", l)
}

var oneWebhook = resource{"/api/v1/webhooks", "/settings/webhooks", (*visit).webhookPage}

// disabled returns a function that makes the body of an operation. The operation disables or enables a webhook.
func disabled(yes bool) func(*form) map[string]any {
	return func(*form) map[string]any { return map[string]any{"disabled": yes} }
}

func removeWebhook(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "DELETE", "/api/v1/webhooks/{id}", nil, nil)
	v.tell(&notice{Text: "The webhook is removed."})
	return v.then(ok, err, "/settings/webhooks", func() error { return v.webhookPage(422, "remove", f) })
}
