package webhooks

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"spoolwright/value/language"
)

// Each declared event has a sentence.
func TestEachEventHasSentence(t *testing.T) {
	t.Parallel()
	if len(declared) == 0 {
		t.Fatal("no feature has declared its events")
	}
	for name := range declared {
		if _, ok := sentences[name]; !ok {
			t.Errorf("%s has no sentence", name)
		}
	}
	for name := range sentences {
		if !declared[name] && name != testEvent {
			t.Errorf("%s is the type of no event", name)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	const id = `"id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61"`
	const site = "https://farm.example"
	for _, m := range []struct{ event, data, want, page string }{
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
		{testEvent, `"webhook_id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61","message":"This is a test."`,
			"Test: This is a test.", "/settings/webhooks/"},
		{"spool.eaten", id, "Event: spool.eaten", ""},
	} {
		body := []byte(`{"type":"` + m.event + `","data":{` + m.data + `}}`)
		if !json.Valid(body) {
			t.Fatalf("%s is no JSON", body)
		}
		got := newMessage(body, site, receiver{currency: "EUR"})
		if got.Sentence() != m.want {
			t.Errorf("%s: %q, want %q", m.event, got.Sentence(), m.want)
		}
		link := site + m.page
		if strings.HasSuffix(m.page, "/") {
			link += "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a61"
		}
		if got.Link != link {
			t.Errorf("%s: the link is %s, want %s", m.event, got.Link, link)
		}
		if newMessage(body, "", receiver{}).Link != "" {
			t.Errorf("%s has a link without the address of the farm", m.event)
		}
	}
}

// Messages are in the language of the farm; what is data stays as it is.
func TestMessagesInGerman(t *testing.T) {
	t.Parallel()
	l := language.Of("de")
	for _, m := range []struct{ event, data, want string }{
		{"production_run.failed", `"printer_name":"Prusa 1","failure_reason":"adhesion","item_count":1,
			"items":[{"product_name":"Failed","quantity":2}],"actual_print_time_hours":1.5`,
			l.Text("Failed|run") + ": " + l.Text("%s on %s|printer", "2 × Failed", "Prusa 1") + ", " + l.Text("adhesion") +
				", " + l.Text("%d h %d min", 1, 30)},
		{"spool.empty", `"number":12,"material_type":"PLA","color":"Red","brand":"Test"`,
			l.Text("Spool empty") + ": " + l.Text("%s from %s|brand", "#12 PLA Red", "Test")},
		{"order.in_production", `"reference":"A7","customer":"Zoë","due_date":"2030-02-01","items":[{"quantity":3}],
			"item_count":1`, l.Text("Order in production") + ": " + l.Text("%s for %s|customer", "A7", "Zoë") + ", " +
			l.Text("%d piece|%d pieces", 3) + ", " + l.Text("due %s", "2030-02-01")},
		{testEvent, `"message":"This is a test."`, l.Text("Test") + ": " + l.Text(testMessage)},
	} {
		body := []byte(`{"type":"` + m.event + `","data":{` + m.data + `}}`)
		if got := newMessage(body, "", receiver{language: "de"}).Sentence(); got != m.want {
			t.Errorf("%s: %q, want %q", m.event, got, m.want)
		}
	}
	d := delivery{to: receiver{url: "https://ntfy.example/farm"}, message: message{Title: "Läuft", Text: "x"}}
	if title := ntfyRequest(d).header.Get("Title"); title != "=?utf-8?b?TMOkdWZ0?=" {
		t.Errorf("the title of ntfy is %q", title)
	}
}

// FuzzMessage makes requests of all formats from any body: none fails, and none is too long.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"production_run.failed","data":{"items":[{"product_name":"@everyone <!here> \\[a](b)"}]}}`))
	f.Add([]byte(`{"type":"order.received","data":{"customer":"` + strings.Repeat("*", 2000) + `\r\nX: y"}}`))
	f.Add([]byte(`nonsense`))
	f.Fuzz(func(t *testing.T, body []byte) {
		site := "https://" + strings.Repeat("a", 290)
		m := newMessage(body, site, receiver{currency: "EUR"})
		d := delivery{to: receiver{url: "https://push.example/message", secrets: [][]byte{[]byte("t")}}, body: body,
			message: m}
		if strings.ContainsAny(m.Text, "\r\n\x00") || !utf8.ValidString(m.Text) || utf8.RuneCountInString(m.Text) > maxText {
			t.Fatalf("the text is %q", m.Text)
		}
		for name, format := range formats {
			r := format.request(d)
			if name != Standard && name != Ntfy && !json.Valid(r.body) {
				t.Errorf("%s: %q", name, r.body)
			}
		}
		if d.message.Title == "" {
			t.Error("the message is empty")
		}
	})
}

// A delivery whose response PostgreSQL rejects would be sent again and again.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"Danke \x00 schön": "Danke  schön", "\xff\x00a\xc3": "a",
		strings.Repeat("ö", maxStored): strings.Repeat("ö", maxStored/2)} {
		if got := printable([]byte(in)); got != want {
			t.Errorf("%q is stored as %q, want %q", in, got, want)
		}
	}
}
