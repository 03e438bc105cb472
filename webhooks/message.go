package webhooks

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"

	"spoolwright/value"
	"spoolwright/value/language"
)

// message describes an event for people.
type message struct {
	Title string // what happened, in a few words of this package
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

	language *language.Language
	currency string
}

type eventItem struct {
	Name     string      `json:"product_name"`
	Quantity json.Number `json:"quantity"`
}

// sentences has the message of each event. The function text returns the parts of the text; empty parts are left out.
var sentences = map[string]struct {
	title language.Text
	page  string
	text  func(d *eventData) []string
}{
	"inventory.low_stock": {"Low stock", "/stock", func(d *eventData) []string {
		return []string{d.ofBrand(d.filament()), d.say("%s of %s|in stock", grams(d.Available), grams(d.Minimum))}
	}},
	"spool.empty": {"Spool empty", "/spools/", func(d *eventData) []string {
		return []string{d.ofBrand("#" + d.Number.String() + " " + d.filament()), d.Location}
	}},
	"printer.attention":        {"Needs you", "/printers/", (*eventData).printer},
	"printer.offline":          {"Offline", "/printers/", (*eventData).printer},
	"order.received":           {"New order", "/orders/", (*eventData).order},
	"order.in_production":      {"Order in production", "/orders/", (*eventData).order},
	"order.ready":              {"Ready to pack", "/orders/", (*eventData).order},
	"order.done":               {"Order done", "/orders/", (*eventData).order},
	"order.cancelled":          {"Order cancelled", "/orders/", (*eventData).order},
	"production_run.planned":   {"Planned|run", "/runs/", (*eventData).run},
	"production_run.started":   {"Started|run", "/runs/", (*eventData).run},
	"production_run.completed": {"Completed|run", "/runs/", (*eventData).run},
	"production_run.failed":    {"Failed|run", "/runs/", (*eventData).run},
	"production_run.corrected": {"Corrected|run", "/runs/", (*eventData).run},
	"production_run.reopened":  {"Prints again", "/runs/", (*eventData).run},
	"product.low_stock": {"Low stock", "/products/", func(d *eventData) []string {
		least, _ := d.MinimumPieces.Int64()
		return []string{d.Name, d.say("%s of %d pieces", d.PiecesAvailable.String(),
			language.Count{N: least, Text: d.MinimumPieces.String()})}
	}},
	"product.cost_changed": {"Cost changed", "/products/", func(d *eventData) []string {
		return []string{d.Name, d.say("%s instead of %s", money(d.TotalCost, d.currency),
			money(d.PreviousCost, d.currency))}
	}},
	testEvent: {"Test", "/settings/webhooks/", func(d *eventData) []string {
		return []string{d.language.Message(d.Message)}
	}},
}

const testMessage language.Text = "This is a test."

// say returns a text in the language of the message.
func (d *eventData) say(text language.Text, args ...any) string {
	return d.language.Text(text, args...)
}

// printer returns the printer and what it says.
func (d *eventData) printer() []string { return []string{d.PrinterName, d.language.Message(d.Message)} }

// newMessage returns the message of an event with the body to a receiver. site is the address of the farm, or "" if it
// is not known.
func newMessage(body []byte, site string, to receiver) message {
	var event struct {
		Type string    `json:"type"`
		Data eventData `json:"data"`
	}
	// The body is an event of this service. If it cannot be decoded, the message consists of the type.
	_ = json.Unmarshal(body, &event)
	d := &event.Data
	d.language, d.currency = language.First(to.language), to.currency
	s, ok := sentences[event.Type]
	if !ok {
		return message{Title: d.say("Event"), Text: line(event.Type), Link: site}
	}
	if event.Type == "production_run.completed" {
		d.FailureReason = ""
	}
	m := message{Title: d.say(s.title), Text: line(strings.Join(filled(s.text(d)), ", "))}
	if site != "" {
		m.Link = site + s.page
		if strings.HasSuffix(s.page, "/") {
			m.Link += cmp.Or(d.ID, d.WebhookID)
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

func (d *eventData) ofBrand(filament string) string {
	if d.Brand == "" {
		return filament
	}
	return d.say("%s from %s|brand", filament, d.Brand)
}

// filament returns the material and color of a spool or a level, such as PETG Jet Black.
func (d *eventData) filament() string {
	return strings.Join(filled([]string{cmp.Or(d.MaterialName, d.MaterialType), d.Color}), " ")
}

var reasons = map[string]language.Text{"adhesion": "adhesion", "spaghetti": "spaghetti", "layer_shift": "layer shift",
	"clog": "clog", "under_extrusion": "under extrusion", "over_extrusion": "over extrusion", "warping": "warping",
	"stringing": "stringing", "filament_runout": "filament runout", "power_failure": "power failure",
	"printer_error": "printer error", "operator_error": "operator error", "quality": "quality", "other": "other|reason"}

// run returns the products of a run, its printer, the reason of a failure, its duration, and its grams of filament.
func (d *eventData) run() []string {
	var names []string
	for _, item := range d.Items {
		names = append(names, item.Quantity.String()+" × "+item.Name)
	}
	what := strings.Join(names, ", ")
	if more := d.ItemCount - len(names); more > 0 {
		what = d.say("%s and %d more", what, more)
	}
	switch {
	case what == "" && d.PrinterName == "":
		what = d.say("a run")
	case what == "":
		what = d.say("a run on %s", d.PrinterName)
	case d.PrinterName != "":
		what = d.say("%s on %s|printer", what, d.PrinterName)
	}
	reason := cmp.Or(reasons[d.FailureReason], language.Text(strings.ReplaceAll(d.FailureReason, "_", " ")))
	return []string{what, d.say(reason),
		d.hours(cmp.Or(d.Hours, d.EstimatedHours)), grams(cmp.Or(d.Grams, d.EstimatedGrams))}
}

// order returns the name of an order, its customer, the number of its pieces, and when it is due.
func (d *eventData) order() []string {
	pieces, known := 0, len(d.Items) == d.ItemCount // an event does not have all items of a large order
	for _, item := range d.Items {
		n, err := strconv.Atoi(item.Quantity.String())
		pieces, known = pieces+n, known && err == nil
	}
	count, due := "", ""
	switch {
	case known && pieces > 0:
		count = d.say("%d piece|%d pieces", pieces)
	case !known:
		count = d.say("%d item|%d items", d.ItemCount)
	}
	if d.DueDate != "" {
		due = d.say("due %s", d.DueDate)
	}
	name := strings.Join(filled([]string{d.Source, d.Reference}), " ")
	if d.Customer != "" {
		name = d.say("%s for %s|customer", name, d.Customer)
	}
	return []string{name, count, due}
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
func (d *eventData) hours(n json.Number) string {
	f, err := n.Float64()
	minutes := int(math.Round(f * 60))
	switch {
	case err != nil || minutes <= 0:
		return ""
	case minutes < 60:
		return d.say("%d min", minutes)
	case minutes%60 == 0:
		return d.say("%d h", minutes/60)
	}
	return d.say("%d h %d min", minutes/60, minutes%60)
}

// money writes an amount with at least two decimals.
func money(n json.Number, currency string) string {
	f, err := n.Float64()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strconv.FormatFloat(f, 'f', 2, 64) + " " + currency)
}
