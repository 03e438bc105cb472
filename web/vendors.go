package web

import (
	"strconv"
	"strings"
)

type vendor struct {
	ID, Name   string
	Number     int64
	Notes      string
	SpoolCount int `json:"spool_count"`
	Remaining  num `json:"remaining_grams"`
}

var vendorList = &listOf[vendor]{editor: vendors, Title: "Vendors", Add: "Add a vendor",
	Empty: "There are no vendors yet. A vendor makes filament, and has the weight of its empty spools.",
	First: "Add a vendor", Other: word{"/filaments", "Filaments"},
	filters: []filter{searchFilter},
	orders: []listOrder{{"", "Newest first", "created_at", "desc"}, {"name", "Name", "name", "asc"},
		{"most", "Most filament first", "remaining_grams", "desc"}},
	columns: []column{{label: "Name", by: "name"}, {label: "Spools", class: "amount", by: "spool_count", falls: true},
		{label: "Filament left", class: "amount", by: "remaining_grams", falls: true}},
	row: func(v *visit, r *rows, one *vendor) {
		if v.CanWrite() {
			r.add(`<tr><td><a class="title" href="/vendors/{}/edit"><b>{}</b></a>`, one.ID, one.Name)
		} else {
			r.add(`<tr><td><span class="title"><b>{}</b></span>`, one.Name)
		}
		r.some(` <small>{}</small>`, one.Notes)
		r.add(`</td><td class="amount">{}</td><td class="amount">{}</td></tr>`+"\n", strconv.Itoa(one.SpoolCount),
			v.Kilos(one.Remaining))
	}}

var vendors = &editor{api: "/api/v1/vendors", path: "/vendors", noun: vendorNoun, noPage: true, entity: "vendor",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"empty_spool_weight_grams", number}, "Empty spool", "type=number;unit=g", nil},
		{field{"notes", text}, "Notes", "rows=4", nil},
	}}

// vendorNames are the names that inputs with the setting list=vendors suggest.
type vendorNames struct{ Items []struct{ Name string } }

// suggestions returns the read of the names of vendors, or nil if the editor has no input for a vendor.
func (e *editor) suggestions(into *vendorNames) []read {
	for _, in := range e.fields {
		if strings.Contains(in.more, "list=vendors") {
			return []read{get("/api/v1/vendors?limit=100&sort_by=name&sort_order=asc", into)}
		}
	}
	return nil
}
