package webhooks

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"

	"spoolwright/value"
)

// message describes an event for people.
type message struct {
	Title string // what happened, in a few words of this package: plain ASCII
	Text  string // what it happened to: one line of at most maxText characters
	Link  string // the page that shows it, or "" if the address of the farm is not known
}

// Sentence returns the message as one line.
func (m message) Sentence() string {
	if m.Text == "" {
		return m.Title
	}
	return m.Title + ": " + m.Text
}

// maxText is the maximum number of characters of a text. With it, a message fits into the limits of all receivers,
// also if each character is escaped: Discord takes 2000 characters, and ntfy 4096 bytes.
const maxText = 700

// eventData are the fields of the data of all events from which messages are made.
type eventData struct {
	ID string `json:"id"`

	// runs
	PrinterName    string      `json:"printer_name"`
	Items          []eventItem `json:"items"` // those of orders have no name
	ItemCount      int         `json:"item_count"`
	EstimatedHours json.Number `json:"estimated_print_time_hours"`
	EstimatedGrams json.Number `json:"estimated_total_filament_grams"`
	Hours          json.Number `json:"actual_print_time_hours"`
	Grams          json.Number `json:"actual_total_filament_grams"`
	FailureReason  string      `json:"failure_reason"`

	// spools and stock levels
	Number       json.Number `json:"number"`
	MaterialType string      `json:"material_type"`
	MaterialName string      `json:"material_name"`
	Color        string      `json:"color"`
	Brand        string      `json:"brand"`
	Location     string      `json:"location"`
	Minimum      json.Number `json:"minimum_grams"`
	Available    json.Number `json:"available_grams"`

	// orders
	Source    string `json:"source"`
	Reference string `json:"reference"`
	Customer  string `json:"customer"`
	DueDate   string `json:"due_date"`

	// products
	Name         string      `json:"name"`
	TotalCost    json.Number `json:"total_cost"`
	PreviousCost json.Number `json:"previous_total_cost"`

	PiecesAvailable json.Number `json:"available"`
	MinimumPieces   json.Number `json:"minimum_pieces"`

	WebhookID string `json:"webhook_id"`
	Message   string `json:"message"`
}

type eventItem struct {
	Name     string      `json:"product_name"`
	Quantity json.Number `json:"quantity"`
}

// sentences has the message of each event. The function text returns the parts of the text; empty parts are left out.
var sentences = map[string]struct {
	title, page string
	text        func(d *eventData, currency string) []string
}{
	"inventory.low_stock": {"Low stock", "/stock", func(d *eventData, _ string) []string {
		return []string{d.filament() + from(" from ", d.Brand), grams(d.Available) + " of " + grams(d.Minimum)}
	}},
	"spool.empty": {"Spool empty", "/spools/", func(d *eventData, _ string) []string {
		return []string{"#" + d.Number.String() + " " + d.filament() + from(" from ", d.Brand), d.Location}
	}},
	"printer.attention":      {"Needs you", "/printers/", (*eventData).printer},
	"printer.offline":        {"Offline", "/printers/", (*eventData).printer},
	"order.received":         {"New order", "/orders/", (*eventData).order},
	"order.in_production":    {"Order in production", "/orders/", (*eventData).order},
	"order.ready":            {"Ready to pack", "/orders/", (*eventData).order},
	"order.done":             {"Order done", "/orders/", (*eventData).order},
	"order.cancelled":        {"Order cancelled", "/orders/", (*eventData).order},
	"production_run.planned": {"Planned", "/runs/", (*eventData).run},
	"production_run.started": {"Started", "/runs/", (*eventData).run},
	"production_run.completed": {"Completed", "/runs/", func(d *eventData, c string) []string {
		d.FailureReason = ""
		return d.run(c)
	}},
	"production_run.failed":    {"Failed", "/runs/", (*eventData).run},
	"production_run.corrected": {"Corrected", "/runs/", (*eventData).run},
	"production_run.reopened":  {"Prints again", "/runs/", (*eventData).run},
	"product.low_stock": {"Low stock", "/products/", func(d *eventData, _ string) []string {
		return []string{d.Name, d.PiecesAvailable.String() + " of " + d.MinimumPieces.String() + " pieces"}
	}},
	"product.cost_changed": {"Cost changed", "/products/", func(d *eventData, currency string) []string {
		return []string{d.Name, money(d.TotalCost, currency) + " instead of " + money(d.PreviousCost, currency)}
	}},
	testEvent: {"Test", "/settings/webhooks/", func(d *eventData, _ string) []string { return []string{d.Message} }},
}

// printer returns the printer and what it says.
func (d *eventData) printer(string) []string { return []string{d.PrinterName, d.Message} }

// newMessage returns the message of an event with the body. site is the address of the farm, or "" if it is not known.
func newMessage(body []byte, site, currency string) message {
	var event struct {
		Type string    `json:"type"`
		Data eventData `json:"data"`
	}
	// The body is an event of this service. If it cannot be decoded, the message consists of the type.
	_ = json.Unmarshal(body, &event)
	s, ok := sentences[event.Type]
	if !ok {
		return message{Title: "Event", Text: line(event.Type), Link: site}
	}
	m := message{Title: s.title, Text: line(strings.Join(filled(s.text(&event.Data, currency)), ", "))}
	if site != "" {
		m.Link = site + s.page
		if strings.HasSuffix(s.page, "/") {
			m.Link += cmp.Or(event.Data.ID, event.Data.WebhookID)
		}
	}
	return m
}

// line makes one line of a text, and cuts it to maxText characters.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return value.Shorten(text, maxText-1)
}

func filled(parts []string) []string {
	var all []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// from returns a text with a word before it, or "" for an empty text.
func from(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

// filament returns the material and color of a spool or a level, such as PETG Jet Black.
func (d *eventData) filament() string {
	return strings.Join(filled([]string{cmp.Or(d.MaterialName, d.MaterialType), d.Color}), " ")
}

// run returns the products of a run, its printer, the reason of a failure, its duration, and its grams of filament.
func (d *eventData) run(string) []string {
	var names []string
	for _, item := range d.Items {
		names = append(names, item.Quantity.String()+" × "+item.Name)
	}
	what := strings.Join(names, ", ")
	if more := d.ItemCount - len(names); more > 0 {
		what += " and " + strconv.Itoa(more) + " more"
	}
	if what == "" {
		what = "a run"
	}
	return []string{what + from(" on ", d.PrinterName), strings.ReplaceAll(d.FailureReason, "_", " "),
		hours(cmp.Or(d.Hours, d.EstimatedHours)), grams(cmp.Or(d.Grams, d.EstimatedGrams))}
}

// order returns the name of an order, its customer, the number of its pieces, and when it is due.
func (d *eventData) order(string) []string {
	pieces, known := 0, len(d.Items) == d.ItemCount // an event does not have all items of a large order
	for _, item := range d.Items {
		n, err := strconv.Atoi(item.Quantity.String())
		pieces, known = pieces+n, known && err == nil
	}
	count := ""
	switch {
	case known && pieces == 1:
		count = "1 piece"
	case known && pieces > 0:
		count = strconv.Itoa(pieces) + " pieces"
	case !known:
		count = strconv.Itoa(d.ItemCount) + " items"
	}
	name := strings.Join(filled([]string{d.Source, d.Reference}), " ")
	return []string{name + from(" for ", d.Customer), count, from("due ", d.DueDate)}
}

// number writes a number with at most the given number of digits after the point.
func number(f float64, digits int) string {
	scale := math.Pow10(digits)
	return strconv.FormatFloat(math.Round(f*scale)/scale, 'f', -1, 64)
}

// grams writes a weight, or "" for null.
func grams(n json.Number) string {
	f, err := n.Float64()
	switch {
	case err != nil:
		return ""
	case math.Abs(f) >= 999.5:
		return number(f/1000, 2) + " kg"
	case math.Abs(f) >= 10 || f == 0:
		return number(f, 0) + " g"
	}
	return number(f, 1) + " g"
}

// hours writes a duration, or "" for null and for less than half a minute.
func hours(n json.Number) string {
	f, err := n.Float64()
	minutes := int(math.Round(f * 60))
	switch {
	case err != nil || minutes <= 0:
		return ""
	case minutes < 60:
		return strconv.Itoa(minutes) + " min"
	case minutes%60 == 0:
		return strconv.Itoa(minutes/60) + " h"
	}
	return strconv.Itoa(minutes/60) + " h " + strconv.Itoa(minutes%60) + " min"
}

// money writes an amount with at least two decimals.
func money(n json.Number, currency string) string {
	f, err := n.Float64()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strconv.FormatFloat(f, 'f', 2, 64) + " " + currency)
}
