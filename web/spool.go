package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

type usage struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Reason    string     `json:"reason"`
	UserID    string     `json:"user_id"`
	UserName  string     `json:"user_name"`
	APIKeyID  string     `json:"api_key_id"`
	Before    num        `json:"before_grams"`
	After     num        `json:"after_grams"`
	Change    num        `json:"change_grams"`
	CreatedAt *time.Time `json:"created_at"`

	Shortfall    num    `json:"shortfall_grams"`
	RunID        string `json:"run_id"`
	ReversesID   string `json:"reverses_id"`
	ReversedByID string `json:"reversed_by_id"`
	MovesID      string `json:"moves_id"`
	BalancesID   string `json:"balances_id"`
}

// CanReverse reports whether the page offers to take the entry back. The API also refuses to take back an entry that
// counts in a run.
func (u usage) CanReverse() bool {
	return u.Kind != "created" && u.Kind != "discarded" && u.Kind != "refilled" && u.RunID == "" && u.BalancesID == "" &&
		u.ReversesID == "" && u.ReversedByID == ""
}

// CanMove reports whether the page offers to record the entry on another spool: the entry must be use of filament.
func (u usage) CanMove() bool {
	return u.CanReverse() && (u.Kind == "deducted" || u.Kind == "printed") && float(u.Shortfall)-float(u.Change) > 0
}

// What returns the kind of the entry in words.
func (u usage) What(v view) string {
	return v.t(map[string]language.Text{"created": "Added", "edited": "Edited", "deducted": "Deducted",
		"run": "Production run", "measured": "Weighed", "printed": "Reported by a printer", "wasted": "Wasted",
		"discarded": "Rest before the refill", "refilled": "Refilled"}[u.Kind])
}

// Who returns the name of the user who made an entry, the words for an API key, or "".
func (v *visit) Who(user, apiKey string) string {
	if user == "" && apiKey != "" {
		return v.t("API key")
	}
	return user
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
	Slots  found[struct{}] // the printers into which the spool can be loaded
	Here   choice          // the slot that contains the spool, or empty
	Custom customFields
	Moving string // the id of the entry that the visitor wants to move to another spool, or ""
}

// Facts returns the values of the spool's custom fields.
func (p *spoolPage) Facts(v view) []fact { return p.Custom.facts(v.visit, p.Spool.Extra) }

// Form returns the form of the page with the name, with the current values of the spool unless it was refused.
func (p *spoolPage) Form(name string) *form {
	f := p.forms.Form(name)
	if f == p.sent {
		return f
	}
	f.show("slot", p.Here.Value)
	if name == "refill" {
		f.Values.Set("net_weight_grams", p.read.text(p.Spool.NetWeight))
		f.Values.Set("purchase_price", p.read.text(p.Spool.Price))
	}
	if name == "move" || name == "archive" {
		f.Tag = p.Tag
		f.Values.Set("location", p.Spool.Location)
		f.Was.Set("location", p.Spool.Location)
	}
	return f
}

// Slot returns the input for the slot of the form that loads the spool.
func (p *spoolPage) Slot(f *form) input {
	in := newInput(f, "slot", "Load into", "find=slots", "none=Nowhere")
	if p.Here.Value != "" && in.Value() == p.Here.Value {
		in.Named = p.Here.Name
	}
	return in
}

// Correction returns a text if the entry is a correction or was corrected, or "".
func (p *spoolPage) Correction(v view, u usage) string {
	switch {
	case u.ReversedByID != "":
		return v.t("Taken back")
	case u.ReversesID != "":
		for _, first := range p.Usage.Items {
			if first.ID == u.ReversesID {
				return v.t("Takes back the entry of %s", v.Moment(first.CreatedAt))
			}
		}
		return v.t("Takes back an older entry")
	case u.BalancesID != "":
		return v.t("Balances an earlier change, so that the weight stays")
	case u.MovesID != "":
		return v.t("Moved here from another spool")
	}
	return ""
}

// Printed returns the title of the run of the entry, or "" if the run is not on the page.
func (p *spoolPage) Printed(v translator, u usage) string {
	for _, r := range p.Runs.Items {
		if r.ID == u.RunID {
			return r.Title(v)
		}
	}
	return ""
}

// Action returns the address to which the form with the name is sent.
func (p *spoolPage) Action(name string) string {
	return "/spools/" + p.Spool.ID + "/" + name + p.List.Query()
}

func showSpool(v *visit) error { return v.spoolPage(200, "", nil) }

// spoolPage shows a spool. If f is not nil, it is a form with the name that the API has refused.
func (v *visit) spoolPage(status int, name string, f *form) error {
	id := v.r.PathValue("id")
	list, query := v.spoolQuery()
	list.Selected = id
	p := &spoolPage{forms: v.forms(name, f), List: list,
		Moving: cmp.Or(v.r.PathValue("part"), v.r.URL.Query().Get("move"))}
	err := v.fetch(
		read{path: "/api/v1/spools/{id}", into: &p.Spool, tag: &p.Tag},
		get("/api/v1/spools/{id}/usage?limit=90", &p.Usage),
		get("/api/v1/production-runs?spool_id={id}&limit=10", &p.Runs),
		read{path: "/api/v1/spools", query: query, into: list},
		customRead("spool", &p.Custom),
		get("/api/v1/printers?limit=1&status=available,maintenance", &p.Slots),
	)
	if err != nil {
		return err
	}
	if p.Here, err = v.slotOf(id); err != nil {
		return err
	}
	p.Chart = remainingChart(p.Usage.Items, float(p.Spool.NetWeight), v.site.Now())
	return v.show(status, "spool", fmt.Sprintf("#%d %s", p.Spool.Number, p.Spool.Name()), p)
}

// spoolByNumber answers the address on the label of a spool. It redirects to the page of the spool with the number.
func spoolByNumber(v *visit) error {
	var s spool
	number := v.r.PathValue("number")
	if !isNumber(number) {
		return server.ErrNotFound
	}
	if err := v.fetch(get("/api/v1/spools/by-number/"+number, &s)); err != nil {
		all, _, listed := spools.hidden(v, url.Values{"number": {number}})
		if listed == nil && len(all) == 1 && server.AsError(err).Status == 404 {
			return spools.removedPage(v, &all[0])
		}
		return err
	}
	return v.redirect("/spools/" + s.ID)
}

var oneSpool = resource{"/api/v1/spools", "/spools", (*visit).spoolPage}

// editSpool returns the handler of a form on the page of a spool. The form has the name, and changes one field.
func editSpool(name string, in field, then makeNotice) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		ok, err := v.edit(f, "/api/v1/spools/{id}", []field{in})
		if ok {
			v.tell(then(v, f, nil))
		}
		return v.then(ok, err, v.here("/spools"), func() error { return v.spoolPage(422, name, f) })
	}
}

// change is a spool with the newest entry of its ledger.
type change struct {
	Spool spool
	Usage struct{ Items []usage }
}

// lastChange returns the spool of the page with the newest entry of its ledger. If a read fails, it returns an empty
// change.
func (v *visit) lastChange() (c change) {
	if v.fetch(get("/api/v1/spools/{id}", &c.Spool), get("/api/v1/spools/{id}/usage?limit=1", &c.Usage)) != nil {
		return change{} // the notice then has no number and no undo
	}
	return c
}

// undo returns the form that reverses the newest entry, which the visitor's form has created. It returns nil if the
// entry has another kind, user or remaining weight: somebody else has changed the spool in the meantime.
func (c change) undo(v *visit, kind string, remaining num) *undo {
	if len(c.Usage.Items) == 0 {
		return nil
	}
	u := c.Usage.Items[0]
	if u.Kind != kind || u.UserID != v.Actor.User || float(u.After) != float(remaining) || u.ReversedByID != "" ||
		u.ReversesID != "" {
		return nil
	}
	return &undo{v.t("Undo"), "/spools/" + c.Spool.ID + "/usage/reverse" + v.query(), url.Values{"entry": {u.ID}}}
}

// deducted, weighed and reversed return the notices of forms that have changed the weight of a spool.
func deducted(v *visit, _ *form, answer json.RawMessage) *notice {
	var done struct {
		Deducted  num
		Remaining num `json:"remaining_weight_grams"`
	}
	json.Unmarshal(answer, &done) // an answer of the API is valid
	c := v.lastChange()
	text := v.t("Deducted %s from spool %s.", v.Grams(done.Deducted), fmt.Sprint(c.Spool.Number))
	if c.Spool.Number == 0 {
		text = v.t("Deducted %s from the spool.", v.Grams(done.Deducted))
	}
	return &notice{Text: text, Undo: c.undo(v, "deducted", done.Remaining)}
}

func weighed(v *visit, _ *form, answer json.RawMessage) *notice {
	var s spool
	json.Unmarshal(answer, &s)
	return &notice{Text: v.t("Weighed spool %s: %s.", fmt.Sprint(s.Number), v.Grams(s.Remaining)),
		Undo: v.lastChange().undo(v, "measured", s.Remaining)}
}

// refill returns the body that refills a spool. A price that was deleted in the form is unknown.
func refill(f *form) map[string]any {
	body := f.body(field{"net_weight_grams", number}, field{"remaining_weight_grams", number},
		field{"purchase_price", number}, field{"purchase_date", text}, field{"lot_number", text})
	if f.Values.Get("purchase_price") == "" {
		body["purchase_price"] = nil
	}
	return body
}

func refilled(v *visit, _ *form, answer json.RawMessage) *notice {
	var s spool
	json.Unmarshal(answer, &s)
	return &notice{Text: v.t("Refilled spool %s: %s.", fmt.Sprint(s.Number), v.Grams(s.Remaining))}
}

func reversed(v *visit, _ *form, answer json.RawMessage) *notice {
	var done struct {
		Change    num `json:"change_grams"`
		Remaining num `json:"remaining_weight_grams"`
	}
	json.Unmarshal(answer, &done)
	return &notice{Text: v.t("Taken back: %s, %s left.", v.Change(done.Change), v.Grams(done.Remaining))}
}

// reverseUsage takes back an entry of the ledger. The page has one form for all entries; the field entry has the id.
func reverseUsage(v *visit) error {
	entry, ok := value.ParseID(v.r.PostForm.Get("entry"))
	if !ok {
		return server.ErrNotFound
	}
	v.r.SetPathValue("part", entry)
	return oneSpool.action("entry", "POST", "/usage/{part}/reverse", nil, withWarnings(reversed))(v)
}

// moveUsage records an entry of the ledger on another spool. The form has the number of the other spool, typed or
// scanned from the label.
func moveUsage(v *visit) error {
	f := v.sent()
	number := f.value(field{"spool_number", scanned})
	if number == nil && !f.picking {
		f.Problem = v.t("Type the number of the spool that the filament came from.")
		return v.spoolPage(422, "entry", f)
	}
	var done struct {
		Reversed, Recorded struct {
			SpoolID  string `json:"spool_id"`
			Change   num    `json:"change_grams"`
			Warnings []struct{ Detail string }
		}
	}
	ok, err := v.send(f, "POST", "/api/v1/spools/{id}/usage/{part}/move",
		map[string]any{"spool_number": number}, &done)
	if problem := f.Errors["spool_number"]; problem != "" {
		f.Problem = v.t("The entry was not moved. The number: %s", problem)
	}
	text := v.t("Moved to spool %s: %s.", fmt.Sprint(number), v.Change(done.Recorded.Change))
	for _, w := range append(done.Reversed.Warnings, done.Recorded.Warnings...) {
		text += " " + v.message(w.Detail)
	}
	v.tell(&notice{Text: text,
		Next: []option{{"/spools/" + done.Recorded.SpoolID, v.t("Spool %s", fmt.Sprint(number))}}})
	return v.then(ok, err, v.here("/spools"), func() error { return v.spoolPage(422, "entry", f) })
}

// moved and archived return the notices of forms that have moved or archived a spool.
func moved(v *visit, f *form, _ json.RawMessage) *notice {
	if location := f.Values.Get("location"); location != "" {
		return &notice{Text: v.t("The spool is at %s.", location)}
	}
	return &notice{Text: v.t("The spool has no location.")}
}

func archived(v *visit, f *form, _ json.RawMessage) *notice {
	text, now := v.t("The spool is out of the archive."), f.Values.Get("archived")
	if now == "true" {
		text = v.t("The spool is archived.")
	}
	return v.undoable(text, "Undo", "/archive",
		url.Values{"was.archived": {now}, "archived": {f.Was.Get("archived")}})
}

var widths = []word{{"1.75", "1.75 mm"}, {"2.85", "2.85 mm"}}

// anyWidth are the options for a diameter of filament; the empty value means the diameter of the farm's printers.
var anyWidth = append([]word{{"", "That of the printers"}}, widths...)

// spools is the editor of the pages that edit and remove a spool. A spool with a filament gets the fields with the
// word own from the filament.
var spools = &editor{api: "/api/v1/spools", path: "/spools", noun: spoolNoun, entity: "spool",
	name: func(get func(string) string) string {
		return "#" + get("number") + " " +
			inventory.MaterialLabel(get("material_type"), get("material_name")) + " " + get("color")
	},
	fields: []editorField{
		{field{"material_type", text}, "Material", "own", materials},
		{field{"material_name", text}, "Exact material", "own;may;hint=Such as PETG-CF", nil},
		{field{"brand", text}, "Brand", "own;list=vendors", nil},
		{field{"color", text}, "Color", "own;required", nil},
		{field{"color_hex", text}, "Color as #RRGGBB", "own;pick;hint=Such as #FA6831", nil},
		{field{"diameter_mm", number}, "Diameter", "own", widths},
		{field{"density_g_cm3", number}, "Density", "own;may;type=number;unit=g/cm³", nil},
		{field{"finish", text}, "Finish", "may", nil},
		{field{"net_weight_grams", number}, "Filament when full", "type=number;unit=g", nil},
		{field{"remaining_weight_grams", number}, "Remaining filament", "type=number;unit=g", nil},
		{field{"spool_weight_grams", number}, "Empty spool", "may;type=number;unit=g", nil},
		{field{"purchase_price", number}, "Price", "type=number;unit=$currency", nil},
		{field{"location", text}, "Location", "", nil},
		{field{"purchase_date", text}, "Bought on", "may;type=date", nil},
		{field{"supplier", text}, "Supplier", "may", nil},
		{field{"lot_number", text}, "Lot", "may", nil},
		{field{"notes", text}, "Notes", "may;rows=4", nil},
	}}
