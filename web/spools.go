package web

import (
	"encoding/json"
	"html/template"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

type spool struct {
	ID           string     `json:"id"`
	Number       int64      `json:"number"`
	FilamentID   string     `json:"filament_id"`
	MaterialType string     `json:"material_type"`
	MaterialName string     `json:"material_name"`
	Brand        string     `json:"brand"`
	Color        string     `json:"color"`
	ColorHex     string     `json:"color_hex"`
	Finish       string     `json:"finish"`
	NetWeight    num        `json:"net_weight_grams"`
	Remaining    num        `json:"remaining_weight_grams"`
	Location     string     `json:"location"`
	Archived     bool       `json:"archived"`
	LastUsedAt   *time.Time `json:"last_used_at"`
}

// spoolDetails is a spool, as the API returns it.
type spoolDetails struct {
	spool
	Diameter     num        `json:"diameter_mm"`
	SpoolWeight  num        `json:"spool_weight_grams"`
	Price        num        `json:"purchase_price"`
	Supplier     string     `json:"supplier"`
	PurchaseDate string     `json:"purchase_date"`
	Notes        string     `json:"notes"`
	LotNumber    string     `json:"lot_number"`
	Density      num        `json:"density_g_cm3"`
	CreatedAt    *time.Time `json:"created_at"`
	Extra        map[string]any
}

// Name returns the name of the spool for people.
func (s spool) Name() string {
	return inventory.MaterialLabel(s.MaterialType, s.MaterialName) + " " + s.Color
}

// Maker returns the brand and the finish.
func (s spool) Maker() string {
	return strings.Trim(s.Brand+" · "+s.Finish, " ·")
}

// Swatch returns the picture of the color.
func (s spool) Swatch() template.HTML { return newSwatch(s.Color, s.IsTranslucent(), s.ColorHex) }

// IsTranslucent reports whether the finish or the color says that the filament is translucent.
func (s spool) IsTranslucent() bool { return isTranslucent(s.Finish + " " + s.Color) }

// isTranslucent reports whether a name says that a filament is translucent.
func isTranslucent(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "transl") || strings.Contains(name, "transp") || strings.Contains(name, "clear")
}

// Percent returns how full the spool is.
func (s spool) Percent() int { return percent(s.Remaining, s.NetWeight) }

// Bar returns the picture of how full the spool is.
func (s spool) Bar() template.HTML { return newBar(s.Percent()) }

type spoolList struct {
	listing
	Items    []spool `json:"items"`
	Selected string  // the id of the spool beside the list
	Form     *form   // the form that changes several spools
	Chosen   map[string]bool
}

var spoolFilters = []filter{searchFilter, {"material", "material_type", "Material", anyMaterial},
	{"stock", "in_stock", "Stock", []word{anything, {"true", "With filament"}, {"false", "Empty"}}},
	{"archived", "archived", "Archived",
		[]word{{"", "Not archived"}, {"true", "Archived"}, {"any", "Archived or not"}}},
	{"vendor", "brand", "Vendor", nil}, {"color", "color", "Color", nil}, {"location", "location", "Location", nil},
	{"filament", "filament_id", "Filament", nil}}

var spoolOrders = []listOrder{
	{"newest", "Newest first", "created_at", "desc"},
	{"number", "Number", "number", "asc"},
	{"least", "Least filament first", "remaining_weight_grams", "asc"},
	{"used", "Last used first", "last_used_at", "desc"},
	{"material", "Material", "material_type", "asc"},
	{"color", "Color", "color", "asc"},
	{"location", "Location", "location", "asc"},
	{"filament", "Grouped by filament", "filament_id", "desc"},
}

// spoolColumns are the columns of the list, after that with the boxes to choose spools.
var spoolColumns = []column{{label: "No.", class: "number", by: "number"}, {label: "Filament", by: "material_type"},
	{label: "Remaining", class: "remaining", by: "remaining_weight_grams"},
	{label: "Location", class: "location", by: "location"},
	{label: "Last used", class: "used", by: "last_used_at", falls: true}}

// spoolQuery returns the list that the address of the page selects, and the query for the API.
func (v *visit) spoolQuery() (*spoolList, url.Values) {
	l, query := v.listing("/spools", spoolNoun, spoolFilters, spoolOrders, spoolColumns...)
	return &spoolList{listing: l, Form: v.newForm(), Chosen: map[string]bool{}}, query
}

// Rows returns the HTML of the rows of the list.
func (l *spoolList) Rows(v view) template.HTML {
	var r rows
	withoutFilament, archived := v.t("Without a filament"), v.t("Archived")
	grouped, write, query := l.Filter.Get("sort") == "filament", v.CanWrite(), l.Query()
	for i := range l.Items {
		s := &l.Items[i]
		number, name, maker := strconv.FormatInt(s.Number, 10), s.Name(), s.Maker()
		if grouped && (i == 0 || l.Items[i-1].FilamentID != s.FilamentID) {
			r.add(`<tr class="filament"><th colspan="6" scope="rowgroup">`)
			if s.FilamentID != "" {
				r.add(`<a href="/filaments/{}">{}</a>`, s.FilamentID, name)
				r.some(` · {}`, maker)
			} else {
				r.add(`{}`, withoutFilament)
			}
			r.add(`</th></tr>` + "\n")
		}
		r.add(`<tr>`)
		if write {
			r.add(`<td class="choose"><label><input type="checkbox" name="id" value="{}"`, s.ID)
			r.when(l.Chosen[s.ID], ` checked`)
			r.add(`><span class="hide">{}</span></label></td>`, v.t("Choose %s", "#"+number))
		}
		r.add(`<td class="number">#{}</td><td class="name"><a href="/spools/{}{}">`, number, s.ID, query)
		r.picture(s.Swatch())
		r.add(`<span><b>{}</b> <small><span class="narrow-only">#{}`, name, number)
		r.when(maker != "", ` · `)
		r.add(`</span>{}</small>`, maker)
		r.add(`</span></a>`)
		r.when(s.Archived, `<span class="tag">{}</span>`, archived)
		r.add(`</td><td class="remaining"><div>`)
		r.picture(s.Bar())
		r.add(`<span>{}</span></div></td><td class="location">{}</td><td class="used">{}</td></tr>`+"\n",
			v.Grams(s.Remaining), s.Location, v.Ago(s.LastUsedAt))
	}
	return r.html()
}

// Beside returns the HTML of the narrow list beside the page of a spool.
func (l *spoolList) Beside(v view) template.HTML {
	var r rows
	query := l.Query()
	for i := range l.Items {
		s := &l.Items[i]
		r.add(`<li><a href="/spools/{}{}"`, s.ID, query)
		r.when(s.ID == l.Selected, ` aria-current="page"`)
		r.add(`>`)
		s.compact(v, &r)
	}
	return r.html()
}

// compact writes the end of an entry of a narrow list. The caller has written the beginning, up to the start tag of
// the link.
func (s *spool) compact(v view, r *rows) {
	r.picture(s.Swatch())
	r.add(`<span class="what"><b>{}</b> <small>#{}`, s.Name(), strconv.FormatInt(s.Number, 10))
	r.some(` · {}`, s.Maker())
	r.add(`</small></span> <span class="grams">{}`, v.Grams(s.Remaining))
	r.picture(s.Bar())
	r.add(`</span></a></li>` + "\n")
}

// Every returns the text of the box for all spools that the filters select, or "" if the page lists them all.
func (l *spoolList) Every() string {
	if l.Total <= len(l.Items) {
		return ""
	}
	return l.visit.t("All %d spools of this list", l.visit.Counted(l.Total))
}

// TooMany says that the list has more spools than are changed at once, or returns "".
func (l *spoolList) TooMany() string {
	if l.Total <= value.MaxSeveral {
		return ""
	}
	return l.visit.t("At most %d spools are changed at once: a filter makes the list shorter.",
		l.visit.Counted(value.MaxSeveral))
}

// HasMore reports whether the address sets a filter that the page shows only on demand.
func (l *spoolList) HasMore() bool {
	more := []string{"vendor", "color", "location", "stock", "archived"}
	return slices.ContainsFunc(more, func(name string) bool { return l.Filter.Get(name) != "" })
}

// Locations returns the locations of the spools on the page.
func (l *spoolList) Locations() (names []string) {
	for _, s := range l.Items {
		if s.Location != "" && !slices.Contains(names, s.Location) {
			names = append(names, s.Location)
		}
	}
	return names
}

// materials are the types of material to choose from. For a filter, anyMaterial has another option for all types.
var (
	materials   = labeled(inventory.MaterialType("").Enum())
	anyMaterial = append([]word{anything}, materials...)
)

// listSpools shows the list of spools. If the search is the code of a label, it redirects to the spool.
func listSpools(v *visit) error {
	if number, ok := spoolCode(v.r.URL.Query().Get("search")); ok {
		return v.redirect("/s/" + number)
	}
	l, query := v.spoolQuery()
	return v.spoolList(l, query)
}

func (v *visit) spoolList(l *spoolList, query url.Values) error {
	if err := l.refused(v.fetch(read{path: "/api/v1/spools", query: query, into: l})); err != nil {
		return err
	}
	if id := l.Filter.Get("filament"); id != "" { // the spools have its name
		name := "–"
		if len(l.Items) > 0 {
			name = l.Items[0].Name()
		} else if f := (filament{}); v.fetch(get("/api/v1/filaments/"+url.PathEscape(id), &f)) == nil {
			name = f.Title()
		}
		l.offer("filament", option{id, name})
	}
	status := l.status()
	if l.Form.Problem != "" || len(l.Form.Errors) > 0 {
		status = 422
	}
	return v.show(status, "spools", v.t("Spools"), l)
}

// changeSpools archives the chosen spools of the list, takes them out of the archive, or leads to their labels.
func changeSpools(v *visit) error {
	l, query := v.spoolQuery()
	l.Form = v.sent()
	if l.Form.Values.Get("action") == "labels" {
		return v.labelChosen(l, query)
	}
	return v.changeChosen(l, query, map[string]any{"archived": l.Form.Values.Get("action") != "unarchive"},
		func() error { return v.spoolList(l, query) })
}

// labelChosen leads to the labels of the chosen spools.
func (v *visit) labelChosen(l *spoolList, query url.Values) error {
	every, _ := strconv.Atoi(l.Form.Values.Get("every"))
	var chosen []map[string]json.RawMessage
	if every <= maxLabels {
		var err error
		if chosen, err = v.chosenSpools(l, query); err != nil {
			return err
		}
	}
	if max(every, len(chosen)) > maxLabels {
		l.Form.Problem = v.t("At most %d labels are printed together.", maxLabels)
	}
	if l.Form.Problem != "" {
		return v.spoolList(l, query)
	}
	return v.redirect("/labels?" + url.Values{"id": l.ids(chosen)}.Encode())
}

// chosen are the fields that several spools can get at once.
var chosen = &editor{api: "/api/v1/spools", path: "/spools", noun: spoolsNoun, entity: "spool",
	fields: []editorField{
		{field{"location", text}, "Location", "hint=Empty fields stay as they are.", nil},
		{field{"purchase_price", number}, "Price", "type=number;unit=$currency", nil},
		{field{"brand", text}, "Vendor", "hint=Of spools without a filament", nil},
		{field{"supplier", text}, "Supplier", "", nil},
		{field{"purchase_date", text}, "Bought on", "type=date", nil},
		{field{"lot_number", text}, "Lot", "", nil},
		{field{"spool_weight_grams", number}, "Empty spool", "type=number;unit=g", nil},
		{field{"notes", text}, "Notes", "rows=3", nil},
	}}

// editChosen shows the form that changes the chosen spools of the list, and changes them once the form is sent.
func editChosen(v *visit) error {
	l, query := v.spoolQuery()
	l.Path = "/spools"
	l.Form = v.sent()
	f := l.Form
	n := len(f.Values["id"])
	if every, err := strconv.Atoi(f.Values.Get("every")); err == nil {
		n = every
	}
	if n < 1 {
		return v.changeChosen(l, query, nil, func() error { return v.spoolList(l, query) })
	}
	var custom customFields
	if err := v.fetch(chosen.custom(&custom)...); err != nil {
		return err
	}
	page := func(status int) error {
		p := &editorPage{Form: f, Inputs: chosen.inputs(v, f, false, &custom), Heading: v.t(chosen.noun.edit),
			Action: v.r.URL.Path + v.query(), Name: v.t("%d spool|%d spools", n), Label: v.t("Save"), Back: l.Address(),
			Hidden: url.Values{"id": f.Values["id"], "every": f.Values["every"], "save": {"1"}}}
		return v.show(status, "editor", p.Heading, p)
	}
	if !f.Values.Has("save") {
		return page(200)
	}
	var fields []field
	for _, in := range chosen.fields {
		fields = append(fields, in.field)
	}
	return v.changeChosen(l, query, f.body(append(fields, custom.fields()...)...), func() error {
		if !f.Values.Has("every") && !f.Values.Has("id") { // others are to be chosen
			return v.spoolList(l, query)
		}
		return page(422)
	})
}

// changeChosen changes the chosen spools of the list. If that is not possible, it calls again to show the form.
func (v *visit) changeChosen(l *spoolList, query url.Values, changes map[string]any, again func() error) error {
	chosen, err := v.chosenSpools(l, query)
	if err != nil {
		return err
	}
	if len(changes) == 0 && l.Form.Problem == "" {
		l.Form.Problem = v.t("Fill in at least one field.")
	}
	if l.Form.Problem != "" {
		return again()
	}
	var done struct {
		Matched, Changed int
		At               string `json:"changed_at"`
	}
	back, numbers, err := before(chosen, changes)
	if err != nil {
		return err
	}
	ok, err := v.send(l.Form, "PATCH", "/api/v1/spools", map[string]any{"ids": l.ids(chosen), "changes": changes},
		&done)
	n := &notice{Text: v.t("Changed %s of %s chosen spools.", v.Count(done.Changed), v.Count(done.Matched))}
	if packed := packNumbers(numbers); packed != "" && back != "" && done.Changed == len(numbers) {
		n.Undo = &undo{v.t("Undo"), "/spools/back" + l.Query(), url.Values{"numbers": {packed}, "changes": {back},
			"since": {done.At}}}
	}
	v.tell(n)
	return v.then(ok, err, l.Address(), again)
}

// chosenSpools returns the chosen spools of the list: those whose boxes are ticked, or all that the filters select, if
// the box "every" is. That has the number of spools that the page has shown. If their number is another one now, or a
// ticked one is not among them, or nothing is chosen, the form has a problem. A ticked spool that the page does not
// list any more has only its id.
func (v *visit) chosenSpools(l *spoolList, query url.Values) (chosen []map[string]json.RawMessage, err error) {
	f, every := l.Form, l.Form.Values.Get("every")
	for _, id := range f.Values["id"] {
		l.Chosen[id] = true
	}
	var page struct {
		Items []map[string]json.RawMessage
		Total int
		Next  string
	}
	if every == "" {
		if err := v.fetch(read{path: "/api/v1/spools", query: query, into: &page}); err != nil {
			return nil, err
		}
		for _, id := range f.Values["id"] {
			quoted, _ := json.Marshal(id)
			one := map[string]json.RawMessage{"id": quoted}
			for _, s := range page.Items {
				if string(s["id"]) == string(quoted) {
					one = s
				}
			}
			chosen = append(chosen, one)
		}
		if len(chosen) == 0 {
			f.Problem = v.t("Choose at least one spool.")
		}
		return chosen, nil
	}
	all := maps.Clone(query)
	all.Del("skip")
	all.Set("limit", "100")
	if n, err := strconv.Atoi(every); err != nil || n > 100 { // more than a page
		all.Set("sort_by", "created_at")
		all.Set("sort_order", "desc")
	}
	for more := true; more && len(chosen) <= value.MaxSeveral; {
		page.Items, page.Next = nil, ""
		if err := v.fetch(read{path: "/api/v1/spools", query: all, into: &page}); err != nil {
			return nil, err
		}
		if len(chosen) == 0 && every != strconv.Itoa(page.Total) {
			break
		}
		chosen, more = append(chosen, page.Items...), page.Next != ""
		all.Set("after", page.Next)
	}
	ids := l.ids(chosen)
	hasLeft := func(id string) bool { return !slices.Contains(ids, id) }
	if every != strconv.Itoa(len(chosen)) || slices.ContainsFunc(f.Values["id"], hasLeft) {
		f.Problem, l.Chosen, l.Page = v.t("The list has other spools now: choose again."), nil, 1
		query.Del("skip")
		f.Values.Del("every")
		f.Values.Del("id")
	}
	return chosen, nil
}

func (l *spoolList) ids(chosen []map[string]json.RawMessage) (ids []string) {
	for _, s := range chosen {
		ids = append(ids, strings.Trim(string(s["id"]), `"`))
	}
	return ids
}

// before returns data for taking back a change of spools, which were read before the change. Back is the JSON of their
// values, and numbers are the numbers of the spools that the change will change. If these spools have different values,
// back is "", because one bulk operation can set only equal values.
func before(spools []map[string]json.RawMessage, changes map[string]any) (back string, numbers []int, err error) {
	now, err := json.Marshal(changes)
	if err != nil {
		return "", nil, err
	}
	same := true
	for _, s := range spools {
		number, err := strconv.Atoi(string(s["number"]))
		if err != nil {
			continue // not on the page any more
		}
		was := map[string]json.RawMessage{}
		for name := range changes {
			was[name] = s[name]
		}
		old, err := json.Marshal(was)
		if err != nil {
			return "", nil, err
		}
		if string(old) == string(now) {
			continue
		}
		numbers = append(numbers, number)
		same = same && (back == "" || back == string(old))
		back = string(old)
	}
	if _, custom := changes["extra"]; !same || custom { // the operation cannot remove the value of a custom field
		back = ""
	}
	return back, numbers, nil
}

// packNumbers returns numbers of spools as a short text, because a notice has little space: the smallest one, and a
// number whose bits are the distances from it. It returns "" if the notice has no space for it. unpackNumbers returns
// the numbers of the text.
func packNumbers(numbers []int) string {
	if len(numbers) == 0 || slices.Max(numbers)-slices.Min(numbers) > 3*maxNotice {
		return ""
	}
	var bits big.Int
	first := slices.Min(numbers)
	for _, n := range numbers {
		bits.SetBit(&bits, n-first, 1)
	}
	return strconv.Itoa(first) + "." + bits.Text(62)
}

func unpackNumbers(text string) (numbers []int, ok bool) {
	start, packed, _ := strings.Cut(text, ".")
	first, err := strconv.Atoi(start)
	bits, ok := new(big.Int).SetString(packed, 62)
	if err != nil || !ok || len(packed) > maxNotice {
		return nil, false
	}
	for i := range bits.BitLen() {
		if bits.Bit(i) == 1 {
			numbers = append(numbers, first+i)
		}
	}
	return numbers, true
}

// takeBack takes back a change of several spools, unless one of the spools was changed meanwhile.
func takeBack(v *visit) error {
	l, query := v.spoolQuery()
	l.Path = "/spools"
	l.Form = v.sent()
	var changes map[string]json.RawMessage
	numbers, ok := unpackNumbers(l.Form.Values.Get("numbers"))
	if !ok || json.Unmarshal([]byte(l.Form.Values.Get("changes")), &changes) != nil {
		return server.ErrNotFound
	}
	var done struct{ Matched int }
	ok, err := v.send(l.Form, "PATCH", "/api/v1/spools", map[string]any{"numbers": numbers, "changes": changes,
		"unchanged_since": l.Form.Values.Get("since")}, &done)
	if !ok && l.Form.Problem == "" {
		l.Form.Problem = v.t("This cannot be taken back.")
	}
	v.tell(&notice{Text: v.t("The change of %d spool is taken back.|The change of %d spools is taken back.",
		done.Matched)})
	return v.then(ok, err, l.Address(), func() error { return v.spoolList(l, query) })
}
