package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
)

// usage is an entry of the usage ledger.
type usage struct {
	Kind      string     `json:"kind"`
	Reason    string     `json:"reason"`
	UserName  string     `json:"user_name"`
	APIKeyID  string     `json:"api_key_id"`
	Before    num        `json:"before_grams"`
	After     num        `json:"after_grams"`
	Change    num        `json:"change_grams"`
	CreatedAt *time.Time `json:"created_at"`
}

// What returns the kind of the entry in words.
func (u usage) What() string {
	return map[string]string{"created": "Added", "edited": "Edited", "deducted": "Deducted", "run": "Production run",
		"measured": "Weighed", "printed": "Reported by a printer", "wasted": "Wasted"}[u.Kind]
}

// Who returns who made the entry.
func (u usage) Who() string {
	if u.UserName == "" && u.APIKeyID != "" {
		return "API key"
	}
	return u.UserName
}

// run is a production run in a list.
type run struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	PrinterID   string     `json:"printer_id"`
	PrinterName string     `json:"printer_name"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	Hours       num        `json:"estimated_print_time_hours"`
	Grams       num        `json:"actual_total_filament_grams"`
	Estimate    num        `json:"estimated_total_filament_grams"`
	Failure     string     `json:"failure_reason"`
	CreatedAt   *time.Time `json:"created_at"`
	Deducted    bool       `json:"inventory_updated"`
}

// End returns when a run that prints ends, or nil if that is not known.
func (r run) End() *time.Time {
	if r.StartedAt == nil || r.Hours == "" {
		return nil
	}
	end := r.StartedAt.Add(time.Duration(value(r.Hours) * float64(time.Hour)))
	return &end
}

// hasEnded reports whether a run that prints should have ended, so that it waits for somebody.
func (r run) hasEnded(now time.Time) bool {
	end := r.End()
	return end != nil && end.Before(now) && r.Status == "in_progress"
}

// State returns the status in words.
func (r run) State() string {
	if r.Failure != "" {
		return label(r.Status) + ": " + strings.ReplaceAll(r.Failure, "_", " ")
	}
	return label(r.Status)
}

// When returns the time that says most about the run.
func (r run) When() *time.Time {
	switch {
	case r.CompletedAt != nil:
		return r.CompletedAt
	case r.StartedAt != nil:
		return r.StartedAt
	}
	return r.CreatedAt
}

// spoolPage is the page of a spool, beside the list from which the visitor came.
type spoolPage struct {
	forms
	Spool  spoolDetails
	Tag    string
	List   *spoolList
	Usage  struct{ Items []usage }
	Runs   struct{ Items []run }
	Chart  *chart
	Slots  []option // of printers, to load the spool into
	Here   option   // the slot where it is
	Custom customFields
}

// Facts returns the values of the custom fields.
func (p *spoolPage) Facts() []fact { return p.Custom.facts(p.read.locale, p.Spool.Extra) }

// Form returns a form of the page.
func (p *spoolPage) Form(name string) *form {
	f := p.forms.Form(name)
	if f == p.sent {
		return f
	}
	f.Values.Set("slot", p.Here.Value)
	if name == "move" || name == "archive" {
		f.Tag = p.Tag
		f.Values.Set("location", p.Spool.Location)
		f.Was.Set("location", p.Spool.Location)
	}
	return f
}

// Action returns the address to which a form of the page is sent.
func (p *spoolPage) Action(name string) string {
	return "/spools/" + p.Spool.ID + "/" + name + p.List.Query()
}

func showSpool(v *visit) error { return v.spoolPage(200, "", nil) }

// spoolPage shows a spool. If f is not nil, it is the form with the name, which the API has refused.
func (v *visit) spoolPage(status int, name string, f *form) error {
	id := v.r.PathValue("id")
	list, query := v.spoolQuery()
	list.Selected = id
	var all struct{ Items []printer }
	p := &spoolPage{forms: v.forms(name, f), List: list}
	err := v.fetch(
		read{path: "/api/v1/spools/{id}", into: &p.Spool, tag: &p.Tag},
		get("/api/v1/spools/{id}/usage?limit=100", &p.Usage),
		get("/api/v1/production-runs?spool_id={id}&limit=10", &p.Runs),
		read{path: "/api/v1/spools", query: query, into: list},
		customRead("spool", &p.Custom),
		get("/api/v1/printers?limit=100&sort_by=name&sort_order=asc", &all),
	)
	if err != nil {
		return err
	}
	p.Slots, p.Here = slotOptions(all.Items, id)
	p.Chart = remainingChart(p.Usage.Items, value(p.Spool.NetWeight), v.site.Now())
	return v.show(status, "spool", fmt.Sprintf("#%d %s", p.Spool.Number, p.Spool.Name()), p)
}

// spoolByNumber is the address on the label of a spool.
func spoolByNumber(v *visit) error {
	var s spool
	number := v.r.PathValue("number")
	if n, err := strconv.Atoi(number); err != nil || n < 1 || n > server.MaxNumber || strconv.Itoa(n) != number {
		return server.ErrNotFound
	}
	if err := v.fetch(get("/api/v1/spools/by-number/"+number, &s)); err != nil {
		return err
	}
	return v.redirect("/spools/" + s.ID)
}

var oneSpool = resource{"/api/v1/spools", "/spools", (*visit).spoolPage}

// editSpool returns the handler of the form with the name on the page of a spool, which changes a field.
func editSpool(name string, in field) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		ok, err := v.edit(f, "/api/v1/spools/{id}", []field{in})
		return v.then(ok, err, v.here("/spools"), func() error { return v.spoolPage(422, name, f) })
	}
}

var widths = []option{{"1.75", "1.75 mm"}, {"2.85", "2.85 mm"}}

// spools are the pages that edit and remove a spool. Its filament has the fields for those that follow one.
var spools = &editor{api: "/api/v1/spools", path: "/spools", noun: "spool", entity: "spool",
	name: func(get func(string) string) string {
		return "#" + get("number") + " " + get("material_type") + " " + get("color")
	},
	fields: []editorField{
		{field{"material_type", text}, "Material", "own", materials},
		{field{"brand", text}, "Brand", "own", nil},
		{field{"color", text}, "Color", "own;required", nil},
		{field{"color_hex", text}, "Color as #RRGGBB", "own;hint=Such as #FA6831", nil},
		{field{"diameter_mm", number}, "Diameter", "own", widths},
		{field{"density_g_cm3", number}, "Density", "own;type=number;unit=g/cm³", nil},
		{field{"finish", text}, "Finish", "", nil},
		{field{"net_weight_grams", number}, "Filament when full", "type=number;unit=g", nil},
		{field{"remaining_weight_grams", number}, "Remaining filament", "type=number;unit=g", nil},
		{field{"spool_weight_grams", number}, "Empty spool", "type=number;unit=g", nil},
		{field{"purchase_price", number}, "Price", "type=number;unit=$currency", nil},
		{field{"location", text}, "Location", "", nil},
		{field{"purchase_date", text}, "Bought on", "type=date", nil},
		{field{"supplier", text}, "Supplier", "", nil},
		{field{"lot_number", text}, "Lot", "", nil},
		{field{"notes", text}, "Notes", "rows=4", nil},
	}}
