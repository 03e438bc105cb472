package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// filesPage is the page that exports and imports files.
type filesPage struct {
	Form *form
	Text string // the text that was pasted, if there is a problem with it
	Done *imported

	Past   found[pastImport] // the last imports, if the visitor can undo them
	Undone *undone
}

type pastImport struct {
	ID, Resources    string
	Created, Updated int
	CreatedAt        *time.Time `json:"created_at"`
	Creator          string     `json:"created_by_name"`
	UndoEndsAt       *time.Time `json:"undo_ends_at"`
	UndoneAt         *time.Time `json:"undone_at"`
}

// undone is the result of the undo of an import.
type undone struct {
	Removed, Restored int
	Left              []struct {
		Resources, Name, Reason string
		Number                  int
	}
}

type imported struct {
	Created, Updated, Unchanged, Skipped, Invalid int
	What                                          word                         // what was imported
	ImportID                                      string                       `json:"import_id"`
	CustomFields                                  []struct{ Key, Type string } `json:"custom_fields"`
}

var (
	imports = []word{{"spools", "Spools"}, {"filaments", "Filaments"}, {"vendors", "Vendors"},
		{"products", "Products"}, {"orders", "Orders"}}
	exports     = append(imports[:5:5], word{"production-runs", "Runs"})
	importModes = []word{{"upsert", "Update what has a known number or id, add other rows"},
		{"update", "Update what has a known number or id, add nothing"}, {"create", "Add every row"}}
	decimalMarks = []word{{"", "Detect from the file"}, {"point", "1,234.5 (decimal point)"},
		{"comma", "1.234,5 (decimal comma)"}}
	dateOrders = []word{{"", "Detect from the file"}, {"dmy", "31/12/2024"}, {"mdy", "12/31/2024"}}
)

// Exports returns the resources that can be exported, and What those that can be imported.
func (p *filesPage) Exports(v view) []option { return v.options(exports) }
func (p *filesPage) What(v view) []option    { return v.options(imports) }

// Text says what was imported.
func (i *imported) Text(v view) string {
	what, skipped := v.t(i.What.Name), v.Count(i.Skipped)
	created, updated, unchanged := v.Count(i.Created), v.Count(i.Updated), v.Count(i.Unchanged)
	text := v.t("Imported %s: %s created, %s updated, %s unchanged, %s skipped.", what, created, updated, unchanged,
		skipped)
	if i.Invalid > 0 {
		text = v.t("Imported %s: %s created, %s updated, %s unchanged, %s skipped, %s left out.", what, created, updated,
			unchanged, skipped, v.Count(i.Invalid))
	}
	var fields []string
	for _, f := range i.CustomFields {
		fields = append(fields, f.Key+" ("+v.nameOf(customTypes, f.Type)+")")
	}
	if len(fields) > 0 {
		text += " " + v.t("New custom fields: %s.", commas(v, fields))
	}
	return text
}

// showFiles shows the first page of an import. Its address can say what to import.
func showFiles(v *visit) error { return v.filesPage(200, &filesPage{Form: v.prefilled()}) }

func (v *visit) filesPage(status int, p *filesPage) error {
	if v.CanWrite() {
		if err := v.fetch(get("/api/v1/imports?limit=5", &p.Past)); err != nil {
			return err
		}
	}
	return v.show(status, "files", v.t("Import and export"), p)
}

// undoImport undoes an import, and says what it has left.
func undoImport(v *visit) error {
	answer := v.call("POST", "/api/v1/imports/{id}/undo", nil, nil)
	p := &filesPage{Form: v.newForm()}
	if err := answer.Err(); err != nil {
		if err := p.Form.keepProblems(err); err != nil {
			return err
		}
		p.Form.Problem = v.message(server.AsError(err).Detail)
		return v.filesPage(409, p)
	}
	if err := json.Unmarshal(answer.Body, &p.Undone); err != nil {
		return err
	}
	return v.filesPage(200, p)
}

// exportFile sends a CSV file with all resources of a kind, such as spools.csv.
func exportFile(v *visit) error {
	what, ok := strings.CutSuffix(v.r.PathValue("name"), ".csv")
	if !ok || !slices.ContainsFunc(exports, func(o word) bool { return o.Value == what }) {
		return server.ErrNotFound
	}
	v.site.server.Forward(v.w, v.r, v.caller(), "/api/v1/"+what+"/export?format=csv")
	return nil
}

// The import has two pages. The first page takes a file or a text. The second page shows the result of the API's
// check, and its form has the file, the fields of the columns, defaults, and corrections of cells:
//
//	packed          the file, compressed
//	worksheet, read the worksheet to read, and the one whose columns the form has, if the file has several
//	title.N, map.N  the title of a column, and its field or ""
//	default.F       the value of the field F in rows that have none
//	cell.LINE.N     another text for a cell
//	out.LINE        the row is left out
//	whole           set if the file needs no columns, such as one of Spoolman
//	import          "all", or "valid" to leave invalid rows out; without it, the file is checked again

type importPage struct {
	Form     *form
	What     word
	Packed   string
	Check    *checked
	Columns  []importColumn
	Defaults []input
	Rows     []importRow
	Fixed    []option // the names and values of corrections that the page does not show
	IsOpen   bool     // whether the settings of numbers and dates matter
	Sources  []string // the names of connections to shops, for the source of orders
}

// IsWhole reports whether the file is one of a program that is imported without a choice of columns.
func (p *importPage) IsWhole() bool { return len(p.Check.Columns) == 0 }

// IsOrders reports whether the file has orders. Their imports have no modes.
func (p *importPage) IsOrders() bool { return p.What.Value == "orders" }

type checked struct {
	Created, Updated, Unchanged, Skipped, Invalid int
	Program                                       string
	RepeatedRows                                  int        `json:"repeated_rows"`
	RepeatedAt                                    *time.Time `json:"repeated_at"`
	Columns                                       []struct {
		Title, Why  string
		Field, Note *string
		Texts       []struct{ Text string }
	}
	Defaults []struct{ Field, Value string }
	Changes  []struct {
		Count               int
		Field, Text, Detail string
	}
	Errors []struct {
		cellError
		Count int
		Texts []struct{ Text string }
	}
	Worksheets []struct {
		Name string
		Read bool
	}
	ReadRows []struct {
		Row   int
		Cells []struct{ Column, Text string }
	} `json:"read_rows"`
	InvalidRows []struct {
		Row    int
		Cells  []struct{ Column, Text string }
		Errors []cellError
	} `json:"invalid_rows"`
}

// cellError is a problem with a row of the file.
type cellError struct {
	Field, Message string
	Column         *string
}

// What returns the problem in words.
func (e cellError) What(v view) string {
	name := v.label(e.Field)
	if e.Column != nil {
		name = *e.Column
	}
	return v.t("%s %s|a field and its problem", name, v.Message(e.Message))
}

// Text says what the import would do.
func (c *checked) Text(v view) string {
	return v.t("Nothing was imported yet. It would be: %s created, %s updated, %s unchanged, %s skipped.",
		v.Count(c.Created), v.Count(c.Updated), v.Count(c.Unchanged), v.Count(c.Skipped))
}

// Repeated says that rows of the file were imported before.
func (c *checked) Repeated(v view) string {
	return v.t("%d row came in before, last at %s. The import adds it a second time.|"+
		"%d rows came in before, last at %s. The import adds them a second time.", c.RepeatedRows, v.Moment(c.RepeatedAt))
}

// importColumn is a column of the file with its choice of fields.
type importColumn struct {
	Index        int
	Title, Field string
	Options      []option
	Texts, Note  string
}

// importRow is a row of the file. Its cells have inputs if they have problems.
type importRow struct {
	Line     int
	Cells    []importCell
	Problems []string
}

type importCell struct {
	Name, Title, Text string
	IsWrong           bool
}

// Worksheets returns the worksheets of the file, if it has several.
func (p *importPage) Worksheets() (all []option) {
	if len(p.Check.Worksheets) > 1 {
		for _, w := range p.Check.Worksheets {
			all = append(all, option{w.Name, w.Name})
		}
	}
	return all
}

// Sample returns the first rows as the import reads them.
func (p *importPage) Sample(v view) (rows []importRow) {
	for _, row := range p.Check.ReadRows[:min(3, len(p.Check.ReadRows))] {
		one := importRow{Line: row.Row}
		for _, cell := range row.Cells {
			one.Cells = append(one.Cells, importCell{Title: v.nameOf(columnFields[p.What.Value], cell.Column), Text: cell.Text})
		}
		rows = append(rows, one)
	}
	return rows
}

// Modes, Marks and Dates return the choices of the settings.
func (p *importPage) Modes(v view) []option { return v.options(importModes) }
func (p *importPage) Marks(v view) []option { return v.options(decimalMarks) }
func (p *importPage) Dates(v view) []option { return v.options(dateOrders) }

// Valid returns how many resources the valid rows create or change.
func (p *importPage) Valid() int { return p.Check.Created + p.Check.Updated + p.Check.Unchanged }

// maxFile is the maximum size of a file, in bytes. It is that of a request to the API.
const maxFile = 1 << 20

// pack compresses a file for a hidden input, and unpack returns the file.
func pack(file []byte) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(file)
	w.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

func unpack(packed string) ([]byte, error) {
	text, err := base64.RawURLEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	file, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(file) > maxFile {
		err = server.ErrTooLarge
	}
	return file, err
}

// sentFile returns the file of the form: a new file, a pasted text, or the file of the previous page.
func (v *visit) sentFile(f *form) ([]byte, error) {
	if file, _, err := v.r.FormFile("file"); err == nil {
		defer file.Close()
		sent, err := io.ReadAll(file)
		if err != nil {
			return nil, server.ErrTooLarge
		}
		if len(sent) > 0 {
			return sent, nil
		}
	}
	if packed := f.Values.Get("packed"); packed != "" {
		file, err := unpack(packed)
		if err != nil && !errors.Is(err, server.ErrTooLarge) {
			file, err = nil, nil
		}
		return file, err
	}
	return []byte(strings.TrimPrefix(f.Values.Get("text"), "\ufeff")), nil
}

// importFile checks the file in the form and shows the result, or imports it.
func importFile(v *visit) error {
	if err := v.r.ParseMultipartForm(maxFile); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return server.ErrTooLarge
	}
	f := v.sent()
	what := slices.IndexFunc(imports, func(o word) bool { return o.Value == f.Values.Get("what") })
	if what < 0 {
		return server.ErrNotFound
	}
	file, err := v.sentFile(f)
	if err != nil {
		return err
	}
	p := &importPage{Form: f, What: imports[what]}
	first := func() error { return v.filesPage(422, &filesPage{Form: f, Text: f.Values.Get("text")}) }
	if len(bytes.TrimSpace(file)) == 0 {
		f.Errors["file"] = v.t("Choose a file, or paste its text.")
		return first()
	}
	query := p.query(f)
	path := "/api/v1/" + p.What.Value + "/import"
	text := http.Header{"Content-Type": {transfer.MediaOf(file)}}
	if how := f.Values.Get("import"); how != "" && (query.Has("mapping") || f.Values.Get("whole") != "") {
		header := text.Clone()
		header.Set("Idempotency-Key", f.Key)
		query.Set("skip_invalid", strconv.FormatBool(how == "valid"))
		answer := v.call("POST", path+"?"+query.Encode(), header, file)
		query.Del("skip_invalid")
		if answer.Err() == nil {
			done := &imported{What: p.What}
			if err := json.Unmarshal(answer.Body, done); err != nil {
				return err
			}
			return v.filesPage(200, &filesPage{Form: v.newForm(), Done: done})
		}
		if err := f.keepProblems(answer.Err()); err != nil {
			return err
		}
		f.Problem = cmp.Or(f.Problem, v.t("Nothing was imported."))
		if server.AsError(answer.Err()).Status == 422 {
			f.Problem = v.t("Nothing was imported: some rows are not valid.")
		}
	}
	answer := v.call("POST", path+"/check?"+query.Encode(), text, file)
	if err := answer.Err(); err != nil && query.Has("mapping") { // two columns with one field, or a default in words
		for _, problem := range server.AsError(err).Fields {
			if query.Has(problem.Field) && problem.Field != "mode" {
				f.Problem = v.refusal(problem.Field, problem.Message)
				query.Del(problem.Field)
			}
		}
		answer = v.call("POST", path+"/check?"+query.Encode(), text, file)
	}
	if err := answer.Err(); err != nil {
		if err := f.keepProblems(err); err != nil {
			return err
		}
		return first()
	}
	if err := json.Unmarshal(answer.Body, &p.Check); err != nil {
		return err
	}
	p.Packed = pack(file)
	if p.IsOrders() && v.IsAdmin() {
		var shops shopList
		if err := v.fetch(get("/api/v1/shops?limit=100&sort_by=name&sort_order=asc", &shops)); err != nil {
			return err
		}
		for _, s := range shops.Items {
			p.Sources = append(p.Sources, s.Name)
		}
	}
	p.fill(f)
	status := 200
	if f.Problem != "" {
		status = 422
	}
	return v.show(status, "import", v.t("Import %s|a kind of things", v.t(p.What.Name)), p)
}

// query returns the parameters of the check and of the import.
func (p *importPage) query(f *form) url.Values {
	query := url.Values{}
	if !p.IsOrders() {
		query.Set("mode", cmp.Or(f.Values.Get("mode"), importModes[0].Value))
	}
	for _, name := range []string{"worksheet", "decimal", "date_order"} {
		if chosen := f.Values.Get(name); chosen != "" {
			query.Set(name, chosen)
		}
	}
	if !f.Values.Has("title.0") || f.Values.Get("worksheet") != f.Values.Get("read") {
		return query
	}
	mapping, defaults, corrections := map[string]*string{}, map[string]string{}, map[string]map[string]string{}
	titles := map[string]string{}
	for i := 0; f.Values.Has(fmt.Sprint("title.", i)); i++ {
		title, field := f.Values.Get(fmt.Sprint("title.", i)), f.Values.Get(fmt.Sprint("map.", i))
		titles[strconv.Itoa(i)] = title
		mapping[title] = nil
		if field != "" {
			mapping[title] = &field
		}
	}
	for name := range f.Values {
		value := f.Values.Get(name)
		if field, ok := strings.CutPrefix(name, "default."); ok && strings.TrimSpace(value) != "" {
			defaults[field] = value
		}
		if at, ok := strings.CutPrefix(name, "cell."); ok {
			line, column, _ := strings.Cut(at, ".")
			if title, known := titles[column]; known {
				if corrections[line] == nil {
					corrections[line] = map[string]string{}
				}
				corrections[line][title] = value
			}
		}
	}
	for name := range f.Values {
		if line, ok := strings.CutPrefix(name, "out."); ok {
			corrections[line] = nil
		}
	}
	for name, value := range map[string]any{"mapping": mapping, "defaults": defaults, "corrections": corrections} {
		if text, err := json.Marshal(value); err == nil {
			query.Set(name, string(text))
		}
	}
	return query
}

// fill prepares what the page shows of a check.
func (p *importPage) fill(f *form) {
	v := f.read.visit
	for _, w := range p.Check.Worksheets {
		if w.Read {
			f.Values.Set("worksheet", w.Name)
			f.Values.Set("read", w.Name)
		}
	}
	index, shown := map[string]int{}, map[string]bool{}
	for i, c := range p.Check.Columns {
		one := importColumn{Index: i, Title: c.Title, Options: v.columnOptions(p.What.Value, c.Title)}
		index[c.Title] = i
		if c.Field != nil {
			one.Field = *c.Field
		}
		if !slices.ContainsFunc(one.Options, func(o option) bool { return o.Value == one.Field }) {
			one.Options = append(one.Options, option{one.Field, v.label(one.Field)})
		}
		if c.Note != nil {
			one.Note = v.Message(*c.Note)
		}
		if c.Why == "remembered" {
			one.Note = join("; ", one.Note, v.t("as in the last file"))
		}
		var texts []string
		for _, t := range c.Texts {
			texts = append(texts, t.Text)
		}
		one.Texts = strings.Join(texts, " · ")
		p.Columns = append(p.Columns, one)
	}
	for _, d := range p.Check.Defaults {
		f.Values.Set("default."+d.Field, f.read.customText(d.Value))
	}
	names := map[string]bool{}
	for name := range f.Values {
		if field, ok := strings.CutPrefix(name, "default."); ok {
			names[field] = true
		}
	}
	for _, e := range p.Check.Errors {
		if e.Column == nil && e.Field != "row" {
			names[e.Field] = true
		}
		p.IsOpen = p.IsOpen || strings.Contains(e.Message, "(decimal)") || strings.Contains(e.Message, "(date_order)")
	}
	for _, o := range columnFields[p.What.Value] {
		switch {
		case p.IsOrders() && o.Value == "source":
			p.Defaults = append(p.Defaults, newInput(f, "default.source", o.Name, "list=sources",
				"hint=The name of the connection to the shop of these orders, or any other name."))
		case names[o.Value]:
			p.Defaults = append(p.Defaults, newInput(f, "default."+o.Value, o.Name))
		}
	}
	for _, row := range p.Check.InvalidRows {
		one := importRow{Line: row.Row}
		wrong := map[string]bool{}
		for _, e := range row.Errors {
			if e.Column != nil {
				wrong[*e.Column] = true
			}
			one.Problems = append(one.Problems, v.language.Sentence(e.What(view{visit: v})))
		}
		for _, c := range row.Cells {
			cell := importCell{Name: fmt.Sprintf("cell.%d.%d", row.Row, index[c.Column]), Title: c.Column, Text: c.Text,
				IsWrong: wrong[c.Column] && !strings.ContainsAny(c.Text, "\r\n") && !strings.HasSuffix(c.Text, "…")}
			if cell.IsWrong {
				shown[cell.Name] = true
			}
			if cell.IsWrong || cell.Text != "" {
				one.Cells = append(one.Cells, cell)
			}
		}
		p.Rows = append(p.Rows, one)
	}
	for name := range f.Values {
		if (strings.HasPrefix(name, "cell.") || strings.HasPrefix(name, "out.")) && !shown[name] {
			p.Fixed = append(p.Fixed, option{name, f.Values.Get(name)})
		}
	}
	value.Sort(p.Fixed, func(a, b option) int { return strings.Compare(a.Value, b.Value) })
}

// columnFields are the fields to choose from for a column of a file, with their names for people.
var columnFields = map[string][]word{
	"spools": {{"material_type", "Material"}, {"material_name", "Name of the material"}, {"brand", "Brand"},
		{"color", "Color"}, {"color_hex", "Color in numbers (#RRGGBB)"}, {"finish", "Finish"},
		{"filament_name", "Name with brand, material, color"}, {"diameter_mm", "Diameter (mm)"},
		{"net_weight_grams", "Net weight (g)"}, {"remaining_weight_grams", "What is left (g)"},
		{"remaining_percent", "What is left (%)"}, {"used_weight_grams", "What is used (g)"},
		{"gross_weight_grams", "What is left with the spool (g)"}, {"spool_weight_grams", "Empty spool (g)"},
		{"purchase_price", "Price"}, {"price_per_kg", "Price of a kilogram"}, {"total_price", "Price of all spools"},
		{"quantity", "Number of spools"}, {"purchase_date", "Date of purchase"}, {"supplier", "Supplier"},
		{"location", "Location"}, {"lot_number", "Lot number"}, {"density_g_cm3", "Density (g/cm³)"},
		{"archived", "Archived"}, {"notes", "Notes"}, {"number", "Number of a known spool"},
		{"filament_number", "Number of a known filament"}},
	"filaments": {{"vendor_name", "Vendor"}, {"name", "Name"}, {"material_type", "Material"},
		{"material_name", "Name of the material"}, {"color", "Color"}, {"color_hex", "Color in numbers (#RRGGBB)"},
		{"diameter_mm", "Diameter (mm)"}, {"net_weight_grams", "Net weight (g)"},
		{"spool_weight_grams", "Empty spool (g)"}, {"price", "Price"}, {"density_g_cm3", "Density (g/cm³)"},
		{"extruder_temperature_c", "Nozzle (°C)"}, {"bed_temperature_c", "Bed (°C)"},
		{"article_number", "Article number"}, {"url", "Link"}, {"external_id", "External id"}, {"notes", "Notes"},
		{"number", "Number of a known filament"}},
	"vendors": {{"name", "Name"}, {"empty_spool_weight_grams", "Empty spool (g)"}, {"external_id", "External id"},
		{"notes", "Notes"}, {"number", "Number of a known vendor"}},
	"products": {{"name", "Name"}, {"sku", "SKU"}, {"category", "Category"}, {"description", "Description"},
		{"estimated_print_time_minutes", "Print time (min)"}, {"labour_minutes", "Labor (min)"},
		{"pieces_per_plate", "Pieces per plate"}, {"selling_price", "Selling price"}, {"notes", "Notes"},
		{"materials.material_type", "Material: type"}, {"materials.material_name", "Material: name"},
		{"materials.color", "Material: color"}, {"materials.weight_grams", "Material: weight (g)"},
		{"materials.diameter_mm", "Material: diameter (mm)"}},
	"orders": {{"reference", "Number of the order"}, {"source", "Shop"}, {"customer", "Customer"},
		{"first_name", "Customer: first name"}, {"last_name", "Customer: last name"}, {"title", "Item"},
		{"variation", "Item: variation"}, {"sku", "SKU"}, {"quantity", "Quantity"},
		{"refunded_quantity", "Quantity that was refunded"}, {"unit_price", "Price of one"},
		{"line_price", "Price of the line"}, {"discount_price", "Discount of the line"}, {"tax_amount", "Tax of the line"},
		{"order_discount_price", "Discount of the order"}, {"prices_include_tax", "Prices include tax"},
		{"currency", "Currency"}, {"due_date", "Due date"},
		{"notes", "Notes"}, {"carrier", "Carrier"}, {"tracking_number", "Tracking number"}, {"status", "Status"},
		{"shipping_status", "Status of shipping"},
		{"line_status", "Status of the line"}, {"shipped_at", "Shipped"}, {"cancelled_at", "Cancelled"},
		{"updated_at", "Time of the last change"}, {"line_id", "Id of the line"},
		{"shop_order_id", "Id of the order in the shop"}},
}

// columnOptions returns the fields to choose from for a column with the title.
func (v *visit) columnOptions(what, title string) []option {
	options := append([]option{{"", v.t("Leave out")}}, v.options(columnFields[what])...)
	if what != "products" && what != "orders" {
		options = append(options, option{"extra." + customKey(title), v.t("Custom field")})
	}
	return options
}

// customKey returns the key of a custom field for the title of a column.
func customKey(title string) string {
	key := strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '_'
	}, title), "_")
	return cmp.Or(key[:min(len(key), 40)], "column")
}
