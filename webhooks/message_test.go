package webhooks_test

import (
	"mime"
	"net/http"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/value/language"
	"spoolwright/webhooks"
)

// messenger is a webhook of a farm whose receiver is a chat.
type messenger struct {
	farm  *farm
	admin *testkit.Client
	path  string         // of the webhook
	seen  chan [2]string // the texts and links that the chat shows
}

// messenger creates a webhook with the format, in a farm with the language. The chat has the path, and expects the
// token.
func (f *farm) messenger(t *testing.T, format string, serve chat, path, token, language string) *messenger {
	t.Helper()
	m := &messenger{farm: f, admin: f.Tenant(t).User(t, "admin"), seen: make(chan [2]string, 100)}
	m.admin.Patch(t, "/api/v1/settings", testkit.JSON{"language": language, "currency": "EUR"}).Want(200)
	s := receive(t, nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, link := serve(w, r)
		m.seen <- [2]string{text, link}
	})
	body := testkit.JSON{"url": s.URL + path, "format": format, "events": []string{"order.done"}}
	if token != "" {
		body["token"] = token
	}
	m.path = hooksPath + m.admin.Post(t, "/api/v1/webhooks", body).Want(201).ID()
	return m
}

// send sends an event with the data, which no feature has made, and returns the text and the link of its message.
func (m *messenger) send(t *testing.T, event, data string) (text, link string) {
	t.Helper()
	m.farm.sql(t, m.admin, `
		insert into webhook_deliveries (id, webhook_id, event_id, type, body, status)
		values (uuid_v7(), $1, 'msg_' || uuid_v7(), $2, $3, 'failed')`,
		strings.TrimPrefix(m.path, hooksPath), event, `{"type":"`+event+`","data":{`+data+`}}`)
	delivery := m.path + "/deliveries/" + m.admin.Get(t, m.path+"/deliveries?limit=1").Text("items.0.id")
	m.admin.Post(t, delivery+"/redeliver", nil).Want(200)
	eventually(t, m.admin, delivery, map[string]string{"status": "delivered"})
	seen := <-m.seen
	return seen[0], seen[1]
}

// Each event has a sentence for people, and leads to the page of its thing.
func TestMessages(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.PublicURL = farmURL })
	m := f.messenger(t, "slack", slack, "/services/T0/B0/XX", "", "en")
	const id = `"id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61"`
	for _, e := range []struct{ event, data, want, page string }{
		{"inventory.low_stock", `"material_type":"PETG","color":"Jet Black","available_grams":312,"minimum_grams":1000`,
			"Low stock: PETG Jet Black, 312 g of 1 kg", "/stock"},
		{"inventory.low_stock", `"material_type":"PLA","material_name":"PLA+","brand":"Acme","available_grams":-1250,
			"minimum_grams":9.5,"color":null`, "Low stock: PLA+ from Acme, -1.25 kg of 9.5 g", "/stock"},
		{"production_run.failed", id + `,"printer_name":"Prusa 1","failure_reason":"adhesion",
			"items":[{"product_name":"Phone stand","quantity":2}],"item_count":1,"actual_total_filament_grams":38,
			"actual_print_time_hours":null`, "Failed: 2 × Phone stand on Prusa 1, adhesion, 38 g", "/runs/"},
		{"production_run.failed", id + `,"printer_name":null,"failure_reason":"power_loss","items":[],"item_count":0,
			"actual_total_filament_grams":0.25,"actual_print_time_hours":0.5`,
			"Failed: a run, power loss, 30 min, 0.3 g", "/runs/"},
		{"production_run.completed", id + `,"printer_name":"P","items":[{"product_name":"A","quantity":1},
			{"product_name":"B","quantity":2},{"product_name":"C","quantity":3}],"item_count":5,
			"actual_total_filament_grams":999.6,"actual_print_time_hours":4.5`,
			"Completed: 1 × A, 2 × B, 3 × C and 2 more on P, 4 h 30 min, 1 kg", "/runs/"},
		{"production_run.planned", id + `,"printer_name":"P","items":[{"product_name":"A","quantity":1}],"item_count":1,
			"estimated_total_filament_grams":12.4,"estimated_print_time_hours":2`, "Planned: 1 × A on P, 2 h, 12 g", "/runs/"},
		{"production_run.started", id + `,"printer_name":"P","items":[],"item_count":0`, "Started: a run on P", "/runs/"},
		{"order.received", id + `,"source":"etsy","reference":"7","customer":"Zoë","due_date":"2030-02-01",
			"items":[{"quantity":2},{"quantity":1}],"item_count":2`,
			"New order: etsy 7 for Zoë, 3 pieces, due 2030-02-01", "/orders/"},
		{"order.done", id + `,"source":null,"reference":null,"customer":null,"due_date":null,
			"items":[{"quantity":1}],"item_count":300`, "Order done: 300 items", "/orders/"},
		{"order.cancelled", id + `,"items":[],"item_count":0`, "Order cancelled", "/orders/"},
		{"printer.attention", id + `,"printer_name":"P","message":"Filament runout"`, "Needs you: P, Filament runout",
			"/printers/"},
		{"printer.offline", id + `,"printer_name":"P","message":null`, "Offline: P", "/printers/"},
		{"spool.empty", id + `,"number":12,"material_type":"PLA","color":"Red","brand":"Prusament","location":"Shelf 2"`,
			"Spool empty: #12 PLA Red from Prusament, Shelf 2", "/spools/"},
		{"product.cost_changed", id + `,"name":"Vase","total_cost":1,"previous_total_cost":2.5`,
			"Cost changed: Vase, 1.00 EUR instead of 2.50 EUR", "/products/"},
		{"webhook.test", `"webhook_id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61","message":"This is a test."`,
			"Test: This is a test.", "/settings/webhooks/"},
		{"spool.eaten", id, "Event: spool.eaten", ""},
	} {
		text, link := m.send(t, e.event, e.data)
		testkit.Equal(t, text, e.want, "the message of %s", e.event)
		want := farmURL + e.page
		if strings.HasSuffix(e.page, "/") {
			want += "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61"
		}
		testkit.Equal(t, link, want, "the link of %s", e.event)
	}
	for _, event := range webhooks.EventType("").Enum() {
		if text, _ := m.send(t, event, id); strings.HasPrefix(text, "Event") {
			t.Errorf("%s has no sentence: %s", event, text)
		}
	}
}

// Messages are in the language of the farm; what is data stays as it is.
func TestMessagesInGerman(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	m := f.messenger(t, "slack", slack, "/services/T0/B0/XX", "", "de")
	l := language.Of("de")
	for _, e := range []struct{ event, data, want string }{
		{"production_run.failed", `"printer_name":"Prusa 1","failure_reason":"adhesion","item_count":1,
			"items":[{"product_name":"Failed","quantity":2}],"actual_print_time_hours":1.5`,
			l.Text("Failed|run") + ": " + l.Text("%s on %s|printer", "2 × Failed", "Prusa 1") + ", " + l.Text("adhesion") +
				", " + l.Text("%d h %d min", 1, 30)},
		{"spool.empty", `"number":12,"material_type":"PLA","color":"Red","brand":"Test"`,
			l.Text("Spool empty") + ": " + l.Text("%s from %s|brand", "#12 PLA Red", "Test")},
		{"order.in_production", `"reference":"A7","customer":"Zoë","due_date":"2030-02-01","items":[{"quantity":3}],
			"item_count":1`, l.Text("Order in production") + ": " + l.Text("%s for %s|customer", "A7", "Zoë") + ", " +
			l.Text("%d piece|%d pieces", 3) + ", " + l.Text("due %s", "2030-02-01")},
		{"webhook.test", `"message":"This is a test."`, l.Text("Test") + ": " + l.Text("This is a test.")},
	} {
		text, _ := m.send(t, e.event, e.data)
		testkit.Equal(t, text, e.want, "the message of %s", e.event)
	}
	// A title is encoded for a header of ntfy.
	m = f.messenger(t, "ntfy", ntfy, "/my-farm", "tk_secret", "ja")
	text, _ := m.send(t, "production_run.reopened", `"printer_name":"P","items":[],"item_count":0`)
	title, _, _ := strings.Cut(text, ":")
	decoded, err := new(mime.WordDecoder).DecodeHeader(title)
	testkit.Check(t, err)
	testkit.Equal(t, decoded, language.Of("ja").Text("Prints again"), "the title")
	if title == decoded {
		t.Errorf("the title %q is ASCII, and tests nothing", title)
	}
}

// The receivers take the longest messages, with the longest address of a farm: see the limits that they check.
func TestLargestMessages(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.PublicURL = "https://" + strings.Repeat("a", 290) })
	for format, c := range map[string]struct {
		serve       chat
		path, token string
	}{
		"discord": {discord, "/api/webhooks/123/abc-DEF_1", ""}, "slack": {slack, "/services/T0/B0/XX", ""},
		"ntfy": {ntfy, "/my-farm", "tk_secret"}, "gotify": {gotify, "/push", "A.secret"},
		"teams": {teams, "/workflows/1?sig=1", ""},
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			m := f.messenger(t, format, c.serve, c.path, c.token, "en")
			for event, data := range map[string]string{
				"production_run.failed": `"items":[{"product_name":"@everyone <!here> \\[a](b)"}]`,
				"order.received":        `"customer":"` + strings.Repeat("*", 2000) + `\r\nX: y"`,
				"order.done":            `"customer":"` + strings.Repeat("ö", 2000) + `"`,
			} {
				if text, _ := m.send(t, event, data); text == "" || strings.ContainsAny(text, "\r\n\x00") {
					t.Errorf("the text is %q", text)
				}
			}
		})
	}
}
