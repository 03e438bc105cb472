package imports

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// noVendor is the id of the vendor that our own API for clients of Spoolman shows for a filament without a vendor.
const noVendor = "1000000000"

// Spoolman imports the vendors, filaments and spools of a file of Spoolman, and the definitions of custom fields.
// The file is the response of its /api/v1/spool, its JSON or CSV export of spools, or an object with its lists.
func (i Importer) Spoolman(ctx context.Context, file io.Reader, o SourceOptions) (result SourceResult, err error) {
	read, err := readSource(file)
	if err != nil {
		return result, err
	}
	return i.source(ctx, read, o)
}

// spoolmanFile is a file of Spoolman that is imported as a file of spools, filaments or vendors.
type spoolmanFile struct {
	sourceWriter
	skipInvalid bool
	entity      string // of the rows: spool or, if the file has no spools, filament or vendor
	items       []*sourceItem
}

// readSpoolmanFile reads a file of Spoolman with at most most rows. It returns nil for a file that is neither JSON nor
// a CSV export of Spoolman. The error is a 422.
func readSpoolmanFile(file []byte, how transfer.Reading, most int) (*spoolmanFile, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")))
	isJSON := len(text) > 0 && (text[0] == '[' || text[0] == '{') && json.Valid(text)
	header, _, err := transfer.NewReader(bytes.NewReader(text)).Next()
	if !isJSON && (err != nil || listOf(transfer.Texts(header)) == "") {
		return nil, nil
	}
	source, err := readSource(bytes.NewReader(file))
	foreign := func(s *sourceItem) bool { return s.Parent.ID == "" }
	if err == nil && (len(source.Items) == 0 || slices.ContainsFunc(source.Items["spool"], foreign)) {
		err = errNotSpoolman
	}
	if err != nil {
		return &spoolmanFile{}, server.Invalid("body", "cannot be imported: %s", err)
	}
	f := &spoolmanFile{sourceWriter: sourceWriter{source: source}, skipInvalid: how.SkipInvalid}
	for _, t := range itemTables {
		if n := len(source.Items[t.entity]); n > 0 {
			f.entity, f.items = t.entity, source.Items[t.entity]
		}
	}
	if len(f.items) > most {
		return f, server.Invalid("body", "must have at most %d %ss", most, f.entity)
	}
	return f, nil
}

// prepare prepares the items, and reserves the numbers of new spools. If there are invalid items, and these are not
// to be left out, the error is a 422 that names the first of them.
func (f *spoolmanFile) prepare(ctx context.Context, d *db.DB, dryRun bool) error {
	f.d, f.dryRun = d, dryRun
	if err := f.prepareFields(ctx); err != nil {
		return err
	}
	var problems server.Problems
	invalid := f.source.invalid()
	for _, item := range invalid[:min(len(invalid), transfer.MaxListed)] {
		problems.Add(item.Where, "%s", transfer.Describe(item.Problems))
	}
	if len(invalid) > transfer.MaxListed {
		problems.Add("rows", "%d others are invalid", len(invalid)-transfer.MaxListed)
	}
	if err := problems.Err(); err != nil && !f.skipInvalid {
		return err
	}
	return f.reserve(ctx)
}

// write imports all items in the transaction of ctx. The counts and the rows of the result are those of f.items.
func (f *spoolmanFile) write(ctx context.Context) (result Imported, err error) {
	all, err := f.sourceWriter.write(ctx)
	if err != nil {
		return result, kindError(inventory.CostError(err))
	}
	result = Imported{ImportCounts: all.Counts[f.entity], CustomFields: importedFields(all.Fields), Rows: []ImportedRow{}}
	result.ImportID = all.importID
	result.Changes, result.InvalidRows = []transfer.Change{}, []transfer.InvalidRow{}
	result.Invalid, result.Skipped = result.Skipped, 0
	for i, row := range all.Rows[len(all.Rows)-len(f.items):] {
		one := ImportedRow{Row: int64(f.items[i].row), Action: row.Action}
		if id := value.UUID(f.ids[f.items[i]]); id != "" && !(f.dryRun && row.Action == "created") {
			one.ID, one.Number = &id, &row.Number
		}
		result.Rows = append(result.Rows, one)
	}
	for _, item := range f.source.invalid() {
		if len(result.InvalidRows) == transfer.MaxListed {
			break
		}
		row := transfer.InvalidRow{Row: int64(item.row), Errors: []transfer.RowError{},
			Cells: []transfer.RowCell{{Column: item.Entity, Text: item.ID}}}
		for _, p := range item.Problems {
			row.Errors = append(row.Errors, transfer.RowError{Field: p.Field, Message: p.Message})
		}
		result.InvalidRows = append(result.InvalidRows, row)
	}
	return result, nil
}

// readSource reads the items and the definitions of custom fields from a file.
func readSource(file io.Reader) (*sourceFile, error) {
	s := &sourceFile{Items: map[string][]*sourceItem{}}
	items := map[string]map[string]*sourceItem{"vendor": {}, "filament": {}, "spool": {}} // by entity and key
	// once adds an item and returns it. If an item with the same key exists, once returns the existing item.
	once := func(item *sourceItem) *sourceItem {
		if known := items[item.Entity][item.Key]; known != nil {
			return known
		}
		items[item.Entity][item.Key] = item
		s.Items[item.Entity] = append(s.Items[item.Entity], item)
		return item
	}
	vendorOf := func(n int, object spoolmanObject) *sourceItem {
		if len(object) == 0 || object["id"] == noVendor {
			return nil
		}
		return once(convertVendor(n, object))
	}
	filamentOf := func(n int, object spoolmanObject) *sourceItem {
		return once(convertFilament(n, object, vendorOf(n, object.part("vendor"))))
	}
	err := readSpoolman(file, func(list string, n int, object spoolmanObject) {
		switch list {
		case "vendor":
			vendorOf(n, object)
		case "filament":
			filamentOf(n, object)
		case "spool":
			once(convertSpool(n, object, filamentOf(n, object.part("filament"))))
		case "field_vendor", "field_filament", "field_spool":
			if f, ok := convertField(strings.TrimPrefix(list, "field_"), object); ok {
				s.Fields = append(s.Fields, f)
			}
		}
	})
	return s, err
}

func convertField(entity string, s spoolmanObject) (f inventory.CustomField, ok bool) {
	body := map[string]any{"entity": entity, "key": s.text("key"), "name": s.text("name"),
		"type": s.text("field_type")}
	for name, field := range map[string]string{"unit": "unit", "default_value": "default_value"} {
		if s[field] != "" {
			body[name] = s[field]
		}
	}
	for name, field := range map[string]string{"position": "order", "multiple": "multi_choice", "choices": "choices"} {
		if s[field] != "" {
			body[name] = json.RawMessage(s[field])
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return f, false
	}
	f, err = server.DecodeBody[inventory.CustomField](text)
	return f, err == nil
}

// maxObject limits the size of one object in JSON. The limit is not exact, because the decoder reads ahead.
const maxObject = 1 << 20

var errLargeObject = language.Error("one spool has more than %d bytes", maxObject)

// objectReader limits the bytes that can be read between two calls of next.
type objectReader struct {
	r    io.Reader
	left int
}

func (o *objectReader) next() { o.left = maxObject }

func (o *objectReader) Read(b []byte) (int, error) {
	if o.left <= 0 {
		return 0, errLargeObject
	}
	n, err := o.r.Read(b[:min(len(b), o.left)])
	o.left -= n
	return n, err
}

// spoolmanObject holds the fields of an object as texts. Fields of nested objects have names such as
// filament.vendor.name, as in Spoolman's own export. Fields that are null or empty are absent.
type spoolmanObject map[string]string

// text returns the first of the fields that is present, or "".
func (s spoolmanObject) text(names ...string) string {
	for _, name := range names {
		if s[name] != "" {
			return s[name]
		}
	}
	return ""
}

// part returns the fields of a nested object, with their names in it.
func (s spoolmanObject) part(name string) spoolmanObject {
	part := spoolmanObject{}
	for field, value := range s {
		if inner, ok := strings.CutPrefix(field, name+"."); ok {
			part[inner] = value
		}
	}
	return part
}

// readSpoolman calls use for each object in the file. list is the name of the list that contains the object.
func readSpoolman(file io.Reader, use func(list string, n int, object spoolmanObject)) error {
	r := bufio.NewReader(file)
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	start, _ := r.Peek(512)
	if start = bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && start[0] != '[' && start[0] != '{' {
		return readSpoolmanCSV(r, use)
	}
	limited := &objectReader{r: r}
	limited.next()
	d := json.NewDecoder(limited)
	d.UseNumber()
	first, err := d.Token()
	if err != nil || first != json.Delim('[') && first != json.Delim('{') {
		return errNotSpoolman
	}
	if first == json.Delim('[') {
		err = readList(d, limited, "spool", func(list string, n int, object spoolmanObject) {
			use(cmp.Or(listOf(slices.Collect(maps.Keys(object))), list), n, object)
		})
	} else {
		known := 0
		for d.More() && err == nil {
			limited.next()
			var name, open json.Token
			if name, err = d.Token(); err == nil {
				open, err = d.Token()
			}
			if err != nil || open != json.Delim('[') {
				return errNotSpoolman
			}
			known++
			err = readList(d, limited, fmt.Sprint(name), use)
		}
		if err == nil && known == 0 {
			return errNotSpoolman
		}
		if err == nil {
			if _, err = d.Token(); err != nil {
				err = errIncomplete
			}
		}
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return language.Error("unexpected text after the end of the list: import one list at a time")
	}
	return nil
}

// readList calls use for the objects of a list. The caller has read the opening bracket of the list.
func readList(
	d *json.Decoder, limited *objectReader, list string, use func(string, int, spoolmanObject),
) error {
	for n := 1; ; n++ {
		limited.next()
		if !d.More() {
			if limited.left <= 0 {
				return errLargeObject
			}
			if _, err := d.Token(); err != nil {
				return errIncomplete
			}
			return nil
		}
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			return fmt.Errorf("%s %d of the list: not a JSON object: %w", list, n, err)
		}
		flat := spoolmanObject{}
		flat.add("", object)
		use(list, n, flat)
	}
}

var errIncomplete = language.Error("the list has no end: the file is incomplete")

var errNotSpoolman = language.Error("not a list of spools from Spoolman: " +
	"neither a response of its /api/v1/spool nor one of its exports")

func (s spoolmanObject) add(prefix string, object map[string]any) {
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			s.add(prefix+name+".", v)
		case []any: // the choices of a custom field, or its default
			if text, err := json.Marshal(v); err == nil {
				s[prefix+name] = string(text)
			}
		case string:
			if v = strings.TrimSpace(v); v != "" {
				s[prefix+name] = v
			}
		case json.Number:
			s[prefix+name] = v.String()
		case bool:
			s[prefix+name] = fmt.Sprint(v)
		}
	}
}

// The fields of Spoolman's filaments and vendors, without those of their parts.
var (
	spoolmanFilament = strings.Fields(`id registered name material price density diameter weight spool_weight
		article_number comment settings_extruder_temp settings_bed_temp color_hex multi_color_hexes
		multi_color_direction external_id`)
	spoolmanVendor = strings.Fields("id registered name comment empty_spool_weight external_id")
)

// listOf returns the list of Spoolman whose objects have fields with these names: spool, filament or vendor. It
// returns "" if no list has them.
func listOf(names []string) string {
	has := func(wanted ...string) bool {
		return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(names, name) })
	}
	only := func(known []string, parts ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			part, _, _ := strings.Cut(name, ".")
			return !slices.Contains(known, name) && !slices.Contains(parts, part)
		})
	}
	switch {
	case has("id", "filament.diameter"):
		return "spool"
	case has("id", "registered", "density", "diameter") && only(spoolmanFilament, "vendor", "extra"):
		return "filament"
	case has("id", "registered", "name") && only(spoolmanVendor, "extra"):
		return "vendor"
	}
	return ""
}

func readSpoolmanCSV(r io.Reader, use func(string, int, spoolmanObject)) error {
	c := transfer.NewReader(r)
	header, _, err := c.Next()
	var names []string
	for _, cell := range header {
		names = append(names, value.OrZero(cell))
	}
	list := listOf(names)
	if err != nil || list == "" {
		return errNotSpoolman
	}
	for {
		row, line, err := c.Next()
		if err == io.EOF {
			return nil
		}
		if err == transfer.ErrSyntax {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		if err != nil {
			return err
		}
		if len(row) != len(names) {
			return language.Error("line %d has %d fields, but the header has %d", line, len(row), len(names))
		}
		flat := spoolmanObject{}
		for i, cell := range row {
			text := strings.TrimSpace(value.OrZero(cell))
			// Spoolman writes an apostrophe before texts that a spreadsheet would run as a formula.
			if len(text) > 1 && text[0] == '\'' && strings.ContainsRune("=+-@", rune(text[1])) {
				text = text[1:]
			}
			if text != "" {
				flat[names[i]] = text
			}
		}
		use(list, line, flat)
	}
}

// conversion converts an object of Spoolman to the columns of an item.
type conversion struct {
	spoolmanObject
	*sourceItem
	texts map[string]string // fields of a Vendor, Filament or Spool
	facts []string          // lines for the notes, with the values that fit no field
}

func newItem(entity string, n int, s spoolmanObject) *conversion {
	item := &sourceItem{Entity: entity, ID: s.text("id"), row: n, Where: fmt.Sprintf("%s %d of the list", entity, n)}
	if item.ID != "" {
		item.Where = "Spoolman's " + entity + " " + item.ID
	}
	// Every Spoolman server assigns ids from 1, so the key also has the time of registration, which differs between
	// the items of two servers. The format of the time depends on the source. The key must not depend on the source.
	if item.Key = item.ID; item.Key == "" { // only in a file written by hand: a vendor or filament within a spool
		text, _ := json.Marshal(s)
		sum := sha256.Sum256(text)
		item.Key = "= " + hex.EncodeToString(sum[:16])
	}
	if t, ok := ParseTime(s.text("registered")); ok {
		item.Created = t.Format("2006-01-02T15:04:05.999999Z")
		item.Key += " " + t.Format("2006-01-02T15:04:05Z")
	}
	if n, err := strconv.ParseInt(item.ID, 10, 64); err == nil && n > 0 && n <= server.MaxNumber {
		item.Number = n
	}
	return &conversion{spoolmanObject: s, sourceItem: item, texts: map[string]string{}}
}

func (c *conversion) problem(field string, message language.Text, args ...any) {
	c.Problems = append(c.Problems, server.FieldError{Field: field, Message: language.Sprintf(message, args...)})
}

// fact adds a line to the notes unless the value is empty.
func (c *conversion) fact(name, value string) {
	if value != "" {
		c.facts = append(c.facts, name+": "+value)
	}
}

// short sets a field of at most 200 characters. It adds a longer value to the notes instead.
func (c *conversion) short(field, name, value string) {
	if utf8.RuneCountInString(value) > 200 {
		c.fact(name, value)
		return
	}
	c.texts[field] = value
}

// decimal returns the value of a numeric field. ok is false if the field is absent or invalid; an invalid field is a
// problem of the item.
func (c *conversion) decimal(name string) (d value.Decimal, ok bool) {
	text := c.text(name)
	if d, ok = value.ParseDecimal(text); !ok && text != "" {
		c.problem(name, "is %s, which is not a valid number", text)
	}
	return d, ok
}

// finish decodes the texts into a T, and copies the columns of the T to the values of the item. names maps fields of
// the T to the names of Spoolman, for error messages.
func finish[T any](c *conversion, names map[string]string) *sourceItem {
	var comments []string
	if comment := c.text("comment"); comment != "" {
		comments = append(comments, comment)
	}
	c.texts["notes"] = joinNotes(comments, c.facts, 10_000)
	maps.DeleteFunc(c.texts, func(_, value string) bool { return value == "" })
	fields := slices.Sorted(maps.Keys(c.texts))
	var cells []transfer.Cell
	for _, name := range fields {
		value := c.texts[name]
		cells = append(cells, &value)
	}
	var in T
	for _, p := range server.DecodeTexts(&in, fields, cells, true) {
		if name := names[p.Field]; name != "" {
			p.Field = name
		}
		c.Problems = append(c.Problems, p)
	}
	values := server.Row(&in)
	maps.Copy(values, c.Values)
	values["extra"] = c.extra()
	c.Values = values
	return c.sourceItem
}

// extra returns the values of the custom fields. Spoolman sends each value as a text that contains JSON.
func (c *conversion) extra() map[string]json.RawMessage {
	extra := value.Extra{}
	for name, value := range c.part("extra") {
		if !extra.SetText(name, value) {
			quoted, _ := json.Marshal(value)
			extra[name] = quoted
		}
	}
	if problem := extra.Problem(); problem != "" {
		c.problem("extra", "%s", problem)
	}
	maps.DeleteFunc(extra, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return extra
}

func convertVendor(n int, s spoolmanObject) *sourceItem {
	c := newItem("vendor", n, s)
	c.texts["name"], c.texts["empty_spool_weight_grams"] = s.text("name"), s.text("empty_spool_weight")
	c.short("external_id", "External id", s.text("external_id"))
	if s.text("name") == "" {
		c.problem("name", "is missing")
	}
	return finish[inventory.Vendor](c, map[string]string{"empty_spool_weight_grams": "empty_spool_weight"})
}

func convertFilament(n int, s spoolmanObject, vendor *sourceItem) *sourceItem {
	c := newItem("filament", n, s)
	c.Parent = vendor
	material := s.text("material")
	c.texts["material_type"] = string(inventory.MaterialOf(material))
	c.Values = map[string]any{"name": s.text("name"), "material_name": material} // '' if they are missing
	for name, value := range c.Values {
		if utf8.RuneCountInString(value.(string)) > 200 {
			c.problem(strings.TrimSuffix(name, "_name"), "must have at most 200 characters")
		}
	}
	names := map[string]string{"density_g_cm3": "density", "net_weight_grams": "weight", "price": "price",
		"spool_weight_grams": "spool_weight", "extruder_temperature_c": "settings_extruder_temp",
		"bed_temperature_c": "settings_bed_temp"}
	for field, name := range names {
		if d, ok := c.decimal(name); ok && (d != 0 || field != "net_weight_grams" && field != "density_g_cm3") {
			c.texts[field] = d.String()
		}
	}
	c.short("article_number", "Article number", s.text("article_number"))
	c.short("external_id", "External id", s.text("external_id"))
	c.convertDiameter()
	colors := c.convertColors()
	color := "Unknown"
	if len(colors) > 0 {
		color = colors[0]
	}
	c.texts["color"] = cmp.Or(s["name"], color)
	names["diameter_mm"], names["color"] = "diameter", "name"
	return finish[inventory.Filament](c, names)
}

var colorCode = regexp.MustCompile(`^#?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`)

// convertColors sets color_hex to the first color. It sets color_hexes to all colors if there are several, and to an
// empty list otherwise. It returns all colors.
func (c *conversion) convertColors() []string {
	colors := []string{}
	for code := range strings.SplitSeq(c.text("color_hex", "multi_color_hexes"), ",") {
		if m := colorCode.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			colors = append(colors, "#"+strings.ToUpper(m[1]))
		} else {
			c.fact("Color code", strings.TrimSpace(code))
		}
	}
	if len(colors) > value.MaxColors {
		c.fact("Colors", strings.Join(colors[value.MaxColors:], ", "))
		colors = colors[:value.MaxColors]
	}
	several := []string{}
	if len(colors) > 0 {
		c.texts["color_hex"] = colors[0]
	}
	if len(colors) > 1 {
		several = colors
		direction := c.text("multi_color_direction")
		if slices.Contains(inventory.ColorArrangement("").Enum(), direction) {
			c.texts["color_arrangement"] = direction
		}
	}
	c.Values["color_hexes"] = several
	return colors
}

func (c *conversion) convertDiameter() {
	diameter, ok := c.decimal("diameter")
	nearest, known := inventory.NearestDiameter(diameter)
	switch {
	case known:
		c.texts["diameter_mm"] = nearest.String()
		if nearest != diameter {
			c.fact("Diameter", diameter.String()+" mm")
		}
	case ok:
		c.problem("diameter", "is %s, which is neither 1.75 nor 2.85", diameter)
	case c.text("diameter") == "":
		c.problem("diameter", "is missing")
	}
}

// UsualWeight is the weight of the filament on a new spool for which Spoolman has no weight.
const UsualWeight = 1000 * value.DecimalOne

func convertSpool(n int, s spoolmanObject, filament *sourceItem) *sourceItem {
	c := newItem("spool", n, s)
	c.Parent = filament
	of, by := s.part("filament"), s.part("filament.vendor")
	archived := strings.EqualFold(s.text("archived"), "true") || s.text("archived") == "1"
	c.texts = map[string]string{"archived": fmt.Sprint(archived),
		"spool_weight_grams": cmp.Or(s["spool_weight"], of["spool_weight"], by["empty_spool_weight"]),
		"purchase_price":     cmp.Or(s["price"], of["price"])}
	c.short("location", "Location", s.text("location"))
	c.short("lot_number", "Lot", s.text("lot_nr"))
	c.Values = map[string]any{}
	for column, name := range map[string]string{"first_used_at": "first_used", "last_used_at": "last_used"} {
		text := s.text(name)
		if at, ok := ParseTime(text); ok {
			c.Values[column] = at.Format(time.RFC3339Nano)
		} else {
			c.Values[column] = nil
			c.fact(strings.ReplaceAll(name, "_", " "), text)
		}
	}
	c.convertWeights(of)
	if c.ID == "" {
		c.problem("id", "is missing")
	}
	item := finish[inventory.Spool](c, map[string]string{"net_weight_grams": "initial_weight",
		"remaining_weight_grams": "remaining_weight", "spool_weight_grams": "spool_weight", "purchase_price": "price",
		"location": "location"})
	if filament != nil && len(filament.Problems) > 0 {
		item.Problems = append(item.Problems, server.FieldError{Field: "filament",
			Message: language.Sprintf("is invalid: %s", transfer.Describe(filament.Problems))})
	}
	return item
}

func (c *conversion) convertWeights(filament spoolmanObject) {
	before := len(c.Problems)
	net, _ := c.decimal("initial_weight")
	remaining, known := c.decimal("remaining_weight")
	used, usedKnown := c.decimal("used_weight")
	if net <= 0 {
		net, _ = value.ParseDecimal(filament.text("weight"))
	}
	if len(c.Problems) > before {
		return
	}
	if net <= 0 {
		net = UsualWeight
		c.Remarks = append(c.Remarks, language.Sprintf("has no weight in Spoolman, so it has 1000 g"))
		known = false
	}
	if usedKnown && (!known || remaining <= 0) { // Spoolman shows 0 if a spool was used for more than its weight
		remaining, known = net-used, true
	}
	if !known {
		remaining = net
	}
	if remaining < 0 {
		c.Shortfall = (-remaining).String()
	}
	c.texts["net_weight_grams"], c.texts["remaining_weight_grams"] = net.String(), max(remaining, 0).String()
}

// joinNotes joins comments and facts. limit is the maximum length of the result in characters. If the text is longer,
// joinNotes truncates the comments before the facts.
func joinNotes(comments, facts []string, limit int) string {
	tail := strings.Join(facts, "\n")
	if tail != "" && len(comments) > 0 {
		tail = "\n" + tail
	}
	room := limit - utf8.RuneCountInString(tail)
	head := strings.Join(comments, "\n")
	if utf8.RuneCountInString(head) > max(room, 0) {
		const cut = " …"
		head = firstRunes(head, max(room-utf8.RuneCountInString(cut), 0)) + cut
	}
	return firstRunes(head+tail, limit)
}

func firstRunes(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit])
	}
	return s
}
