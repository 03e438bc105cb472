package web

// vendor is a vendor in a list.
type vendor struct {
	ID, Name   string
	Number     int64
	Notes      string
	SpoolCount int `json:"spool_count"`
	Remaining  num `json:"remaining_grams"`
}

type vendorList struct {
	listing
	Items []vendor `json:"items"`
}

var vendorOrders = []listOrder{{"", "Newest first", "created_at", "desc"}, {"name", "Name", "name", "asc"},
	{"most", "Most filament first", "remaining_grams", "desc"}}

func (l *vendorList) Picks() []pick { return []pick{l.orders(vendorOrders)} }

var vendors = &editor{api: "/api/v1/vendors", path: "/vendors", noun: "vendor", stay: true, entity: "vendor",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"empty_spool_weight_grams", number}, "Empty spool", "type=number;unit=g", nil},
		{field{"notes", text}, "Notes", "rows=4", nil},
	}}

func listVendors(v *visit) error {
	base, query := v.listing("/vendors", "vendor", map[string]string{"search": "search"}, vendorOrders...)
	l := &vendorList{listing: base}
	return v.showList("/api/v1/vendors", "vendors", "Vendors", query, l)
}
