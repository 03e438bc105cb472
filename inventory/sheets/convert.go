package sheets

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spoolwright/inventory/colors"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// maxMade limits the spools that the quantities of a file make.
const maxMade = 100_000

// converter converts the rows of a sheet.
type converter struct {
	*Reader
	how     transfer.Reading // with the formats of the whole file
	columns []column
	header  []string // the texts of the header, or nil
	derive  bool     // whether texts that are not in the form of the API may set other fields, too
	strict  bool     // whether the file has only names of the API, so that other forms are errors
	changed []transfer.CellChange
	digits  map[string]bool // targets of which all numbers are fractions of 1
	ofAll   bool            // whether the net weight is that of all spools of a row
}

// rowValues has the texts of a row by their targets, and the problems with the row.
type rowValues struct {
	line     int
	texts    map[string]string
	raw      []transfer.Cell // of a strict file
	extra    map[string]json.RawMessage
	problems []server.FieldError
	count    int
	left     []string // the remaining weights of the spools of a row, if they differ
}

func (r *rowValues) problem(field string, format language.Text, args ...any) {
	r.problems = append(r.problems, server.FieldError{Field: field, Message: language.Sprintf(format, args...)})
}

// Convert recognizes the columns of a sheet, and converts the sheet to a table of fields. The error is a 422.
func (s *Reader) Convert(sheet *transfer.Sheet, how transfer.Reading) (*transfer.Conversion, error) {
	result := &transfer.Conversion{Sheet: sheet, Table: &transfer.Table{Separator: sheet.Separator}}
	if len(sheet.Rows) == 0 {
		return result, nil
	}
	at := s.header(sheet, how)
	var header *transfer.Row
	line := sheet.Rows[0].Line
	rows := sheet.Rows
	c := &converter{Reader: s, how: how, digits: map[string]bool{}}
	if at >= 0 {
		header, rows = &sheet.Rows[at], rows[at+1:]
		line = header.Line
		if header.Problems != nil {
			return nil, server.Invalid(fmt.Sprintf("line %d", line), "%s", header.Problems[0].Message)
		}
		c.header = transfer.Texts(header.Cells)
		for len(c.header) > 0 && c.header[len(c.header)-1] == "" {
			c.header = c.header[:len(c.header)-1]
		}
	}
	result.Table.Header = line
	titles := sheet.Titles(header, rows)
	c.strict = c.isStrict(how)
	if c.strict {
		titles = c.header
	}
	if len(how.Corrections) > 0 {
		if err := checkCorrections(rows, titles, how.Corrections); err != nil {
			return nil, err
		}
		rows = corrected(rows, titles, how.Corrections)
		changed := *sheet
		changed.Rows = rows
		result.Sheet = &changed
	}
	for i, title := range titles {
		one := column{title: title, number: true}
		for _, row := range rows {
			if i < len(row.Cells) && row.Cells[i] != nil {
				if text := start(tidy(*row.Cells[i])); text != "" {
					one.texts = append(one.texts, text)
					one.number = one.number && !isNotNumber(text)
				}
			}
		}
		c.columns = append(c.columns, one)
	}
	if err := c.check(how); err != nil {
		return nil, err
	}
	s.recognize(c.columns, how)
	if err := how.Err(); err != nil {
		return nil, err
	}
	if c.strict {
		for i := range c.columns {
			c.columns[i].target, c.columns[i].why = s.Exact(c.columns[i].title), "name"
		}
	}
	named := slices.ContainsFunc(s.keys, c.has)
	c.derive = how.Mode == transfer.Create || how.Mode == transfer.Upsert && !named
	defaults, err := c.defaults(result)
	if err != nil {
		return nil, err
	}
	if err := c.unknown(line, len(rows) > 0); err != nil {
		return nil, err
	}
	if err := c.convert(result, rows, defaults); err != nil {
		return nil, err
	}
	if len(result.Table.Rows) > max(maxMade, len(rows)) {
		return nil, server.Invalid("body", "must make at most %d %ss", maxMade, s.one)
	}
	result.Changed = c.changed
	c.describe(result, rows)
	return result, nil
}

// checkCorrections returns a 422 for corrections of lines or columns that the file does not have.
func checkCorrections(rows []transfer.Row, titles []string, by map[int]map[string]string) error {
	lines := make(map[int]bool, len(rows))
	for _, row := range rows {
		lines[row.Line] = true
	}
	var problems server.Problems
	for _, line := range slices.Sorted(maps.Keys(by)) {
		if !lines[line] {
			problems.Add("corrections", "names the line %d, which has no row", line)
		}
		for _, title := range slices.Sorted(maps.Keys(by[line])) {
			if !slices.Contains(titles, title) {
				problems.Add("corrections", "names the column %q, which the file does not have", shortened(title))
			}
		}
	}
	return problems.Err()
}

// corrected returns the rows with the corrections, which name columns by their titles.
func corrected(rows []transfer.Row, titles []string, by map[int]map[string]string) (all []transfer.Row) {
	for _, row := range rows {
		texts, ok := by[row.Line]
		if ok && texts == nil {
			continue
		}
		if len(texts) > 0 {
			cells := make([]transfer.Cell, max(len(titles), len(row.Cells)))
			copy(cells, row.Cells)
			for i, title := range titles {
				if text, ok := texts[title]; ok {
					cells[i] = &text
				}
			}
			row.Cells = cells
		}
		all = append(all, row)
	}
	return all
}

// isStrict reports whether the header has only names of the API, and the sender has set no mapping.
func (c *converter) isStrict(how transfer.Reading) bool {
	if how.Mapping != nil || how.Defaults != nil || how.Suggest || len(c.header) == 0 {
		return false
	}
	seen := map[string]bool{}
	for _, title := range c.header {
		name := c.Exact(title)
		if name == "" || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

func (c *converter) has(target string) bool {
	return slices.ContainsFunc(c.columns, func(one column) bool { return one.target == target })
}

// check checks the names in the mapping and the defaults.
func (c *converter) check(how transfer.Reading) error {
	var problems server.Problems
	targets, columns := map[string]string{}, map[string]bool{}
	for _, one := range c.columns {
		columns[one.title], columns["normal "+normal(one.title, false)] = true, true
	}
	for _, title := range slices.Sorted(maps.Keys(how.Mapping)) {
		field, key := how.Mapping[title], normal(start(title), false)
		known := columns[title] || key != "" && columns["normal "+key]
		switch {
		case !known:
			problems.Add("mapping", "names the column %q, which the file does not have", shortened(title))
		case field != "" && !c.isTarget(field):
			problems.Add("mapping", "names the field %q; the fields are %s", shortened(field), c.names())
		case field != "" && field != "notes" && targets[field] != "" && isSecond(targets[field]) == isSecond(title):
			problems.Add("mapping", "gives the field %s to two columns", field)
		}
		targets[field] = title
	}
	for field := range how.Defaults {
		if !c.isTarget(field) {
			problems.Add("defaults", "names the field %q; the fields are %s", shortened(field), c.names())
		}
	}
	return problems.Err()
}

func shortened(text string) string { return value.Shorten(text, 60) }

// names returns the names of all targets, for a message.
func (s *Reader) names() string { return strings.Join(s.Targets(), ", ") }

// Targets returns the fields to which columns can be mapped, without those of custom fields.
func (s *Reader) Targets() (names []string) {
	for _, f := range s.schema.Fields {
		if s.fields[f.Name] != nil && (!f.ReadOnly || slices.Contains(s.keys, f.Name)) {
			names = append(names, f.Name)
		}
	}
	return append(names, s.made...)
}

// unknown returns an error for columns that are not recognized, unless suggestions leave them out.
func (c *converter) unknown(line int, hasRows bool) error {
	if c.how.Suggest {
		return nil
	}
	var all []string
	for _, one := range c.columns {
		if one.target == "" && one.why == "none" && !one.ignore && (len(one.texts) > 0 || !hasRows) {
			all = append(all, fmt.Sprintf("%q", shortened(one.title)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return server.Invalid(fmt.Sprintf("line %d", line), "unknown column %s: name its field in mapping, or leave it "+
		"out; the columns are %s", strings.Join(all[:min(len(all), 10)], ", "), c.names())
}

// defaults returns the defaults of the sender or, for a check, those that are suggested, as texts of cells.
func (c *converter) defaults(result *transfer.Conversion) (map[string]string, error) {
	all := map[string]string{}
	given := c.how.Defaults
	if given == nil && c.how.Suggest && c.derive {
		given = map[string]string{}
		if f := c.fields["diameter_mm"]; f != nil && f.Required && c.blank("diameter_mm") {
			given["diameter_mm"] = "1.75"
		}
		if f := c.fields["net_weight_grams"]; f != nil && f.Required && !c.has("net_weight_grams") {
			given["net_weight_grams"] = "1000"
		}
		for _, name := range []string{"diameter_mm", "net_weight_grams"} {
			if value := given[name]; value != "" {
				result.Defaults = append(result.Defaults, transfer.DefaultValue{Field: name, Value: value})
			}
		}
	}
	if p := c.how.Program; p != nil {
		merged := maps.Clone(given)
		if merged == nil {
			merged = map[string]string{}
		}
		for name, text := range p.Defaults {
			if _, ok := given[name]; !ok && !c.has(name) {
				merged[name] = text
				result.Defaults = append(result.Defaults, transfer.DefaultValue{Field: name, Value: text})
			}
		}
		given = merged
	}
	for name, text := range given {
		f := c.fields[name]
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if f != nil && f.IsNumber() {
			if name == "diameter_mm" {
				text, _ = readDiameter(text)
			}
			number, problem := transfer.Reading{Decimal: c.how.Decimal}.Number(f, text)
			if problem != "" {
				return nil, server.Invalid("defaults", "%s %s", name, problem)
			}
			text = plain(number)
		}
		all[name] = text
	}
	return all, nil
}

// blank reports whether a row has no value of a target.
func (c *converter) blank(target string) bool {
	most := 0
	for _, one := range c.columns {
		most = max(most, len(one.texts))
	}
	for _, one := range c.columns {
		if one.target == target {
			return len(one.texts) < most
		}
	}
	return true
}

var fraction = regexp.MustCompile(`^-?\d+\.\d+$`)

// plain returns a number in a form with only one reading, which does not decide the format of other numbers.
func plain(number string) string {
	if fraction.MatchString(number) {
		return number + "e0"
	}
	return number
}

func (c *converter) convert(result *transfer.Conversion, rows []transfer.Row, defaults map[string]string) error {
	all := make([]*rowValues, 0, len(rows))
	for _, row := range rows {
		if err := c.how.Err(); err != nil {
			return err
		}
		all = append(all, c.read(row, defaults))
	}
	if !c.strict {
		c.how = c.detectFormats(c.table(result, all), c.how)
		if c.how.Dates == "" && c.how.Program != nil {
			c.how.Dates = c.how.Program.Dates
		}
		c.guessUnits(all)
		c.findTotals(all)
		for _, r := range all {
			c.compute(r)
		}
	}
	table := c.table(result, all)
	result.Table = table
	if c.derive {
		given := map[string]bool{}
		for _, name := range table.Names {
			given[name] = true
		}
		result.Missing = c.schema.Missing(func(name string) bool { return given[name] })
	}
	if c.strict || !c.how.Suggest {
		result.Missing = nil
	}
	return c.how.Err()
}

// table returns the table of the rows. It has the columns of the sheet, even those without values, and the columns
// that rows have values for.
func (c *converter) table(result *transfer.Conversion, all []*rowValues) *transfer.Table {
	table := &transfer.Table{Header: result.Table.Header, Separator: result.Table.Separator}
	used := map[string]bool{}
	for _, one := range c.columns {
		if c.fields[one.target] != nil {
			used[one.target] = true
		}
	}
	for _, r := range all {
		for name := range r.texts {
			used[name] = used[name] || c.fields[name] != nil && r.texts[name] != ""
		}
	}
	if c.strict {
		for _, one := range c.columns {
			table.Names = append(table.Names, one.target)
		}
	}
	for _, f := range c.schema.Fields {
		if used[f.Name] && c.fields[f.Name] != nil && !slices.Contains(table.Names, f.Name) {
			table.Names = append(table.Names, f.Name)
		}
	}
	for _, r := range all {
		row := transfer.Row{Line: r.line, Problems: r.problems, Cells: make([]transfer.Cell, len(table.Names))}
		copy(row.Cells, r.raw)
		for i, name := range table.Names {
			if text, ok := r.texts[name]; ok && text != "" {
				row.Cells[i] = &text
			}
		}
		for n := range max(1, r.count) {
			if i := slices.Index(table.Names, "remaining_weight_grams"); n < len(r.left) && i >= 0 {
				row.Cells = slices.Clone(row.Cells)
				row.Cells[i] = &r.left[n]
			}
			table.Rows = append(table.Rows, row)
			if len(table.Rows) > max(maxMade, len(all)) {
				return table
			}
		}
	}
	return table
}

// lenient are the fields of a file of the API that may have other forms, too.
var lenient = []string{"material_type", "material_name", "color", "color_hex"}

func (c *converter) read(row transfer.Row, defaults map[string]string) *rowValues {
	r := &rowValues{line: row.Line, texts: map[string]string{}, problems: row.Problems}
	if row.Problems != nil {
		return r
	}
	if c.strict {
		cells := row.Cells
		for len(cells) > len(c.columns) && transfer.Texts(cells[len(cells)-1:])[0] == "" {
			cells = cells[:len(cells)-1]
		}
		if len(cells) != len(c.columns) {
			r.problem("row", "has %d fields, but the header has %d", len(cells), len(c.columns))
			return r
		}
		r.raw = cells
	}
	filled := 0
	first := ""
	same := c.header != nil
	for i := range c.columns {
		one := &c.columns[i]
		text, cell := "", ""
		if i < len(row.Cells) && row.Cells[i] != nil {
			cell = strings.TrimSpace(*row.Cells[i])
			text = tidy(*row.Cells[i])
			if !c.derive && c.isFreeText(one.target) {
				text = *row.Cells[i] // an exported file that comes back changes nothing
			}
		}
		if i < len(c.header) {
			same = same && c.header[i] == cell
		}
		if text == "" {
			continue
		}
		if filled++; first == "" {
			first = text
		}
		switch key, custom := strings.CutPrefix(one.target, "extra."); {
		case one.target != "" && !custom && len(text) > maxForm && utf8.RuneCountInString(text) > c.longest(one.target):
			r.problem(one.target, "must have at most %d characters; the value is %q", c.longest(one.target), shortened(text))
		case one.target == "" || c.strict && !slices.Contains(lenient, one.target):
		case custom:
			c.addExtra(r, key, text, one.number)
		case r.texts[one.target] != "" && isSecond(one.title):
		case one.target == "notes" && r.texts["notes"] != "":
			r.texts["notes"] += "\n" + one.title + ": " + text
		default:
			r.texts[one.target] = c.cell(r, one, text)
		}
	}
	if r.extra != nil {
		if object, err := json.Marshal(r.extra); err == nil {
			r.texts["extra"] = string(object)
		}
	}
	if !c.strict {
		if filled == 0 {
			r.problem("row", "has no value")
			return r
		}
		for name, text := range defaults {
			if r.texts[name] == "" {
				r.texts[name] = text
			}
		}
	}
	if c.derive {
		c.name(r)
		c.color(r)
		c.material(r)
	}
	if c.derive && !c.strict {
		c.lonely(r, first, filled, same)
	}
	return r
}

// longest returns the maximum length of a cell of a target in characters.
func (c *converter) longest(target string) int {
	f := c.fields[target]
	switch {
	case f == nil:
		return maxForm
	case f.Set || target == "extra": // lists, and objects in JSON
		return value.MaxExtra
	}
	return max(f.MaxLength, maxForm)
}

// lonely finds rows that are no resources: sums, and titles that are repeated.
func (c *converter) lonely(r *rowValues, first string, filled int, same bool) {
	has := func(name string) bool { return r.texts[name] != "" }
	missing := c.schema.Missing(has)
	_, isTotal := totals[normal(start(first), false)]
	switch {
	case same && filled > 1:
		r.problem("row", "repeats the titles of the columns: leave it out")
	case c.one != "vendor" && isTotal && len(missing) > 0 && !has("filament_number"):
		r.problem("row", "has totals and is no %s: leave it out", c.one)
	case filled == 1 && len(c.columns) > 2 && len(missing) > 1:
		r.problem("row", "has only one value and is no %s: leave it out", c.one)
	}
}

var numberOfJSON = regexp.MustCompile(`^(0|[1-9]\d{0,14})(\.\d+)?$`)

func isNotNumber(text string) bool { return !numberOfJSON.MatchString(text) }

// addExtra adds the value of a custom field.
func (c *converter) addExtra(r *rowValues, key, text string, isNumber bool) {
	if r.extra == nil {
		r.extra = map[string]json.RawMessage{}
	}
	encoded, err := json.Marshal(text)
	if isNumber && !isNotNumber(text) {
		encoded = []byte(text)
	}
	if err == nil {
		r.extra[key] = encoded
	}
}

// change records that a text was converted.
func (c *converter) change(r *rowValues, field, text string, format language.Text, args ...any) {
	c.changed = append(c.changed,
		transfer.CellChange{Line: r.line, Field: field, Text: text, Detail: language.Sprintf(format, args...)})
}

// isFreeText reports whether a target is a text of any form, or a custom field.
func (c *converter) isFreeText(target string) bool {
	f := c.fields[target]
	return strings.HasPrefix(target, "extra.") || f != nil && f.IsFreeText()
}

// cell returns the text of a cell in a form that package transfer reads.
func (c *converter) cell(r *rowValues, one *column, text string) string {
	f := c.fields[one.target]
	base := one.target[strings.LastIndexByte(one.target, '.')+1:]
	if c.strict {
		return text
	}
	switch {
	case base == "diameter_mm":
		read, changed := readDiameter(text)
		if changed && c.derive {
			c.change(r, one.target, text, "%s", strings.TrimSuffix(read, "e0"))
		} else if changed {
			return text
		}
		return read
	case strings.HasSuffix(base, "price") || base == "price_per_kg":
		return readAmount(c.around(r, one, text))
	case strings.HasSuffix(base, "_grams"):
		if isShare(text) {
			return text
		}
		text = readWeight(c.around(r, one, inMetric(text)))
		if n, ok := transfer.ParseNumber(text); ok && n.Unit == "" && weightUnits[one.unit] != "" {
			text += " " + one.unit
		}
		return text
	case f != nil && f.IsDate():
		read, changed := readDate(text)
		if changed && !c.derive {
			return text
		}
		if changed {
			c.change(r, one.target, text, "%s", read)
		}
		return read
	case f != nil && f.IsNumber():
		text = c.around(r, one, text)
		if n, ok := transfer.ParseNumber(text); ok && n.Unit == "" && one.unit == "h" &&
			strings.HasSuffix(base, "_minutes") {
			text += " h"
		}
		return text
	}
	return text
}

// around removes what people write around a number.
func (c *converter) around(r *rowValues, one *column, text string) string {
	text = readNumber(text)
	if m := about.FindStringSubmatch(text); m != nil {
		c.change(r, one.target, text, "%s", m[1])
		return m[1]
	}
	return text
}

// material reads a material such as PLA+: its type is PLA, and its name PLA+.
func (c *converter) material(r *rowValues) {
	prefix := ""
	if c.fields["materials.material_type"] != nil {
		prefix = "materials."
	}
	text := r.texts[prefix+"material_type"]
	if text == "" {
		return
	}
	if !c.strict && prefix == "" {
		text = c.ofBrand(r, text)
		if end, ok := fillers[fold(r.texts["filler"])]; ok && end != "" && !strings.Contains(text, end) {
			c.change(r, "filler", r.texts["filler"], "material %s-%s", text, end)
			text += "-" + end
		}
	}
	kind, name, ok := readMaterial(text)
	if !ok {
		return
	}
	r.texts[prefix+"material_type"] = kind
	switch {
	case r.texts[prefix+"material_name"] != "":
		given := r.texts[prefix+"material_name"]
		if !strings.Contains(fold(given), fold(kind)) && kind != "Custom" && !c.strict {
			// "Silk" beside PLA is the material Silk PLA.
			r.texts[prefix+"material_name"] = given + " " + kind
		}
		if !strings.EqualFold(text, kind) && name != "" {
			c.change(r, prefix+"material_type", text, "type %s", kind)
		}
	case name != "":
		r.texts[prefix+"material_name"] = name
		c.change(r, prefix+"material_type", text, "type %s, name %s", kind, name)
	case !strings.EqualFold(text, kind):
		c.change(r, prefix+"material_type", text, "type %s", kind)
	}
}

// ofBrand returns the name of a material without the brand before it. A row without a brand gets this brand.
func (c *converter) ofBrand(r *rowValues, text string) string {
	field := "brand"
	if c.fields["vendor_name"] != nil {
		field = "vendor_name"
	}
	words := strings.Fields(text)
	for n := min(3, len(words)-1); n > 0; n-- {
		key, rest := normal(strings.Join(words[:n], ""), false), strings.Join(words[n:], " ")
		_, _, ok := readMaterial(rest)
		if given := r.texts[field]; ok && brands[key] && (given == "" || normal(given, false) == key) {
			if given == "" {
				r.texts[field] = strings.Join(words[:n], " ")
				c.change(r, "material_type", text, "brand %s, material %s", r.texts[field], rest)
			}
			return rest
		}
	}
	return text
}

var shortDigits = regexp.MustCompile(`^\d{1,5}$`)

// color reads a color in numbers, and gives it a name.
func (c *converter) color(r *rowValues) {
	prefix := ""
	if c.fields["materials.color"] != nil {
		prefix = "materials."
	}
	name, hex := r.texts[prefix+"color"], r.texts["color_hex"]
	hasHex := c.fields["color_hex"] != nil
	if hex != "" {
		if shortDigits.MatchString(hex) { // a spreadsheet has removed zeros
			padded := strings.Repeat("0", 6-len(hex)) + hex
			c.change(r, "color_hex", hex, "#%s", padded)
			hex = padded
		}
		if read, ok := readHex(hex); ok {
			if c.strict && hexText.MatchString(hex) && strings.HasPrefix(hex, "#") {
				read = hex
			}
			r.texts["color_hex"] = read
			if name == "" && !(c.strict && c.has("color")) {
				r.texts[prefix+"color"] = colors.Name(read)
				c.change(r, "color_hex", hex, "the color %s", colors.Name(read))
			}
		}
	}
	if name == "" || !hasHex {
		return
	}
	read, isHex := readHex(name)
	switch m := hexWith.FindStringSubmatch(name); {
	case isHex && (c.strict && !strings.HasPrefix(name, "#")):
	case isHex:
		if hex == "" {
			r.texts["color_hex"] = read
		}
		r.texts[prefix+"color"] = colors.Name(read)
		c.change(r, "color", name, "the color %s, %s", colors.Name(read), read)
	case m != nil && !c.strict:
		if hex == "" {
			r.texts["color_hex"] = "#" + strings.ToUpper(m[2])
		}
		r.texts[prefix+"color"] = strings.TrimSpace(m[1])
		c.change(r, "color", name, "%s, #%s", strings.TrimSpace(m[1]), strings.ToUpper(m[2]))
	}
}

var (
	sizes = regexp.MustCompile(`(?i)(?:^|[\s,(\[/_-])(?:ø\s*)?\d+(?:[.,]\d+)?\s*(?:kg|g|gr|mm)\b[)\]]?`)
	// productCodes are the numbers of colors in the names of Bambu Lab's shop, such as "Charcoal (11101)".
	productCodes = regexp.MustCompile(`\(\d{5}\)`)
	// modifiers are words that belong to a material beside its type.
	modifiers = regexp.MustCompile(`(?i)^(silk|seide|matt|matte|mat|plus|\+|pro|max|cf|gf|hf|hs|esd|fr|basic|` +
		`basics|lite|tough|` +
		`impact|rapid|hyper|high[- ]?speed|highspeed|speed|wood|carbon|glass|` +
		`aero|lw|recycled|re|ht|\d{2}[ad]|\+\+|2\.0|4043d|850|870|meta|easy|premium|economy|eco|tpu)$`)
)

// bare returns a word of a name without the punctuation around it.
func bare(word string) string { return strings.Trim(word, ",;|()[]/–—-•·:") }

// name reads the parts of the name of a filament that the row has no columns for.
func (c *converter) name(r *rowValues) {
	source, brandField := "filament_name", "brand"
	if c.one == "filament" { // which keeps its name
		source, brandField = "name", "vendor_name"
	}
	text := r.texts[source]
	if text == "" || !c.makes && (c.one != "filament" || r.texts["color"] != "") {
		return
	}
	var parts []string
	as := strings.Fields(productCodes.ReplaceAllString(sizes.ReplaceAllString(text, " "), " ")) // as they stand
	as = slices.DeleteFunc(as, func(w string) bool {
		w = fold(bare(w))
		return w == "" || w == "filament" || w == "refill"
	})
	words := make([]string, len(as))
	for i, word := range as {
		words[i] = bare(word)
	}
	drop := func(from, n int) { words, as = slices.Delete(words, from, from+n), slices.Delete(as, from, from+n) }
	brand := r.texts[brandField]
	for n := min(3, len(words)-1); n > 0; n-- {
		key := normal(strings.Join(words[:n], ""), false)
		if brand == "" && brands[key] {
			r.texts[brandField] = strings.Join(words[:n], " ")
			parts = append(parts, "brand "+r.texts[brandField])
			drop(0, n)
			break
		}
		if brand != "" && key == normal(brand, false) {
			drop(0, n)
			break
		}
	}
	for i, word := range words {
		if _, _, ok := readMaterial(word); !ok || unknownMaterials[fold(word)] || strings.HasPrefix(as[i], "(") && i > 0 {
			continue
		}
		from, to := i, i+1
		for to < len(words) && modifiers.MatchString(words[to]) {
			to++
		}
		for from > 0 && modifiers.MatchString(words[from-1]) {
			from--
		}
		if r.texts["material_type"] == "" {
			r.texts["material_type"] = strings.Join(words[from:to], " ")
			parts = append(parts, "material "+r.texts["material_type"])
		}
		drop(from, to-from)
		break
	}
	rest := strings.Trim(strings.Join(as, " "), " ,;|/–—-•·:")
	if strings.Count(rest, "(") != strings.Count(rest, ")") || strings.HasPrefix(rest, "(") {
		rest = strings.Join(words, " ")
	}
	hex, isHex := readHex(r.texts["color"])
	switch color := r.texts["color"]; {
	case rest == "":
	case isHex && isColor(rest):
		// The column of colors has numbers only, and the name of the filament has the name of the color.
		r.texts["color"] = rest
		if r.texts["color_hex"] == "" {
			r.texts["color_hex"] = hex
		}
		c.change(r, "color", color, "the color %s, %s", rest, hex)
	case color == "":
		r.texts["color"] = rest
		parts = append(parts, "color "+rest)
	case !c.makes:
	case !strings.EqualFold(rest, color) && r.texts["notes"] == "":
		r.texts["notes"] = text
	case !strings.EqualFold(rest, color):
		r.texts["notes"] = text + "\n" + r.texts["notes"]
	}
	if len(parts) > 0 {
		c.change(r, source, text, "%s", strings.Join(parts, ", "))
	}
}

// number returns a number of a row, with the file's decimal mark, and false if there is none. A text that is not a
// number is a problem of the row.
func (c *converter) number(r *rowValues, target, as string) (n float64, ok bool) {
	text := r.texts[target]
	if text == "" || c.fields[as] == nil {
		return 0, false
	}
	read, problem := c.how.Number(c.fields[as], text)
	n, err := strconv.ParseFloat(read, 64)
	switch {
	case problem != "" && target != as:
		r.problem(target, "%s", problem)
	case problem != "":
	case err != nil && target != as:
		r.problem(target, "must be a number; the value is %q", shortened(text))
	case err == nil:
		return n, true
	}
	return 0, false
}

// guessUnits finds weights in kilograms without a unit: no spool has a net weight of 20 g.
func (c *converter) guessUnits(all []*rowValues) {
	if !c.makes || !c.derive {
		return
	}
	const net = "net_weight_grams"
	kilos := func(target string, most float64) bool {
		i := slices.IndexFunc(c.columns, func(one column) bool { return one.target == target })
		if i < 0 || c.columns[i].unit != "" {
			return false
		}
		found := false
		for _, r := range all {
			text := r.texts[target]
			if text == "" || r.problems != nil || isShare(text) {
				continue
			}
			if p, ok := transfer.ParseNumber(text); !ok || p.Unit != "" {
				return false
			}
			n, ok := c.number(&rowValues{texts: r.texts}, target, net)
			if !ok || n > most {
				return false
			}
			found = found || n > 0
		}
		if found {
			c.columns[i].unit, c.columns[i].guess = "kg", true
		}
		return found
	}
	isKilo := kilos(net, 20)
	for _, target := range []string{"remaining_weight_grams", "gross_weight_grams", "used_weight_grams"} {
		if isKilo || !c.has(net) {
			isKilo = kilos(target, 20) || isKilo
		}
	}
	kilos("spool_weight_grams", 2)
	for _, one := range c.columns {
		if !one.guess {
			continue
		}
		for _, r := range all {
			if text := r.texts[one.target]; text != "" && !isShare(text) {
				c.change(r, one.target, text, "%s kg", text)
				r.texts[one.target] = text + " kg"
			}
		}
	}
	i := slices.IndexFunc(c.columns, func(one column) bool { return one.target == "remaining_percent" })
	if i >= 0 {
		fractions, whole := 0, false
		for _, text := range c.columns[i].texts {
			n, ok := c.percent(text)
			whole = whole || !ok || n > 1 || hasUnit(text, "%")
			if n > 0 && n < 1 {
				fractions++
			}
		}
		c.digits["remaining_percent"] = fractions > 0 && !whole
	}
}

// percent reads a share of what a spool has had, in percent.
func (c *converter) percent(text string) (float64, bool) {
	if known := shares[fold(text)]; known != "" {
		text = known
	}
	p, ok := transfer.ParseNumber(readNumber(text))
	if !ok || p.Unit != "" && p.Unit != "%" || p.Before != "" {
		return 0, false
	}
	point, comma := p.Readings()
	for _, reading := range []string{comma, point} {
		n, err := strconv.ParseFloat(reading, 64)
		if err == nil && n <= 100 && !p.Negative {
			return n, true
		}
	}
	return 0, false
}

func rounded(n float64) string {
	return plain(strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64))
}

// quantityOf returns the number of spools in a text, and false if it is not from 1 to 100.
func quantityOf(text string) (n int, ok bool) {
	p, ok := transfer.ParseNumber(readNumber(text))
	point, comma := p.Readings()
	n, err := strconv.Atoi(point)
	if err != nil {
		n, err = strconv.Atoi(comma)
	}
	if !ok || err != nil || p.Negative || n < 1 || n > 100 {
		return 0, false
	}
	return n, true
}

// findTotals detects net weights of all spools of a row: the title has a word for totals, and the weight of each spool
// is then one that shops sell.
func (c *converter) findTotals(all []*rowValues) {
	const net = "net_weight_grams"
	i := slices.IndexFunc(c.columns, func(one column) bool { return one.target == net })
	if !c.makes || !c.derive || i < 0 || !slices.ContainsFunc(words(c.columns[i].title), isTotalWord) {
		return
	}
	for _, r := range all {
		n, ok := quantityOf(r.texts["quantity"])
		weight, hasWeight := c.number(&rowValues{texts: r.texts}, net, net)
		if !ok || !hasWeight || n == 1 {
			continue
		}
		if each := weight / float64(n); each < 100 || math.Mod(math.Round(each*100)/100, 5) != 0 {
			c.ofAll = false
			return
		}
		c.ofAll = true
	}
	if c.ofAll {
		c.columns[i].note = language.Sprintf("of all spools of the row")
	}
}

// share divides the total weights of a row among its spools: full spools come first. It returns the net weight of each
// spool.
func (c *converter) share(r *rowValues, weight float64) float64 {
	const net, left = "net_weight_grams", "remaining_weight_grams"
	if c.ofAll {
		all := r.texts[net]
		weight /= float64(r.count)
		r.texts[net] = rounded(weight)
		c.change(r, net, all, "%s for each of %d spools", strings.TrimSuffix(r.texts[net], "e0"), r.count)
	}
	rest, ok := c.number(r, left, left)
	if !ok || !c.ofAll && (rest <= weight*1.2 || rest > weight*float64(r.count)*1.2) {
		return weight
	}
	all := r.texts[left]
	var shares []string
	for n := range r.count {
		some := min(rest, weight)
		if n == r.count-1 {
			some = rest
		}
		rest -= some
		r.left = append(r.left, rounded(some))
		shares = append(shares, strings.TrimSuffix(rounded(some), "e0"))
	}
	c.change(r, left, strings.TrimSuffix(all, "e0"), "%s", strings.Join(shares, ", "))
	return weight
}

// compute converts concepts that are not fields to fields.
func (c *converter) compute(r *rowValues) {
	if !c.makes || slices.ContainsFunc(r.problems, func(p server.FieldError) bool { return p.Field == "row" }) {
		return
	}
	const net, left = "net_weight_grams", "remaining_weight_grams"
	if text := r.texts["quantity"]; text != "" && c.derive {
		var ok bool
		if r.count, ok = quantityOf(text); !ok {
			r.problem("quantity", "must be a number from 1 to 100; the value is %q", shortened(text))
		}
	}
	percent := r.texts["remaining_percent"]
	if isShare(r.texts[left]) {
		percent = r.texts[left]
		r.texts[left] = ""
	}
	c.weigh(r)
	weight, hasWeight := c.number(r, net, net)
	if r.texts[left] == "" && percent != "" {
		n, ok := c.percent(percent)
		if c.digits["remaining_percent"] && percent == r.texts["remaining_percent"] {
			n *= 100
		}
		switch {
		case !ok || n > 100:
			r.problem("remaining_percent", "must be a number from 0 to 100; the value is %q", shortened(percent))
		case hasWeight:
			r.texts[left] = rounded(weight * n / 100)
			c.change(r, "remaining_percent", percent, "%s %% of the net weight", strconv.FormatFloat(n, 'f', -1, 64))
		}
	}
	c.finish(r)
	if r.count > 1 && hasWeight {
		weight = c.share(r, weight)
	}
	const price = "purchase_price"
	if r.texts[price] != "" {
		return
	}
	if kilo, ok := c.number(r, "price_per_kg", price); ok && hasWeight {
		r.texts[price] = rounded(kilo * weight / 1000)
	} else if total, ok := c.number(r, "total_price", price); ok {
		r.texts[price] = rounded(total / float64(max(1, r.count)))
	}
}

// weigh completes the weights of a spool by three rules: the full weight is the net weight plus the empty spool, the
// gross weight is the remaining weight plus the empty spool, and the net weight is the remaining weight plus the used
// weight. Weights that contradict each other are a problem.
func (c *converter) weigh(r *rowValues) {
	const net, left, spool = "net_weight_grams", "remaining_weight_grams", "spool_weight_grams"
	const full, gross, used = "full_weight_grams", "gross_weight_grams", "used_weight_grams"
	known := map[string]float64{}
	for _, name := range []string{net, left, spool, full, gross, used} {
		as := net
		if name == left || name == spool {
			as = name
		}
		if n, ok := c.number(r, name, as); ok {
			known[name] = n
		}
	}
	rules := [][3]string{{full, net, spool}, {gross, left, spool}, {net, left, used}} // the first is the sum of the others
	set := func(name string, n float64) bool {
		if known[name] = n; n < 0 && name == left && -n <= 10 { // the scale, or another empty spool
			known[name] = 0
		} else if n < 0 {
			r.problem(name, "cannot be computed: the weights of the row contradict each other; it would be %s g",
				strconv.FormatFloat(n, 'f', -1, 64))
			return false
		}
		if c.fields[name] != nil {
			r.texts[name] = rounded(known[name])
		}
		return true
	}
	for range rules { // the result of a rule can be the input of another
		for _, rule := range rules {
			sum, hasSum := known[rule[0]]
			a, hasA := known[rule[1]]
			b, hasB := known[rule[2]]
			ok := true
			switch {
			case !hasSum && hasA && hasB && rule[0] != net:
			case !hasSum && hasA && hasB:
				ok = set(rule[0], a+b)
			case hasSum && !hasA && hasB && rule[0] == gross && sum < b-10:
				r.problem(gross, "must be more than the weight of the empty spool; the value is %q", r.texts[gross])
				ok = false
			case hasSum && !hasA && hasB:
				ok = set(rule[1], sum-b)
			case hasSum && hasA && !hasB && rule[2] == spool:
				ok = set(rule[2], sum-a)
			case hasSum && hasA && hasB && math.Abs(sum-a-b) > max(10, sum/50):
				r.problem(rule[0], "is not the sum of %s and %s, %s and %s g: leave one of these columns out; the value is %q",
					rule[1], rule[2], strings.TrimSuffix(rounded(a), "e0"), strings.TrimSuffix(rounded(b), "e0"), r.texts[rule[0]])
				ok = false
			}
			if !ok {
				return
			}
		}
	}
	if _, ok := known[left]; !ok && r.texts[gross] != "" && r.texts[spool] == "" && r.texts["remaining_percent"] == "" {
		r.problem(gross, "needs the weight of the empty spool: give spool_weight_grams a column or a default")
	}
}

// finish sets the remaining weight of a spool to 0 if its state means that nothing is left.
func (c *converter) finish(r *rowValues) {
	const left = "remaining_weight_grams"
	state, used := r.texts["state"], r.texts["used_up"]
	has, isBool := transfer.Truth(state)
	gone, _ := transfer.Truth(used)
	if gone {
		r.texts["archived"] = "true"
	}
	if state = fold(state); r.texts[left] != "" || !(gone || isBool && !has || shares[state] == "0") {
		return
	}
	r.texts[left] = "0"
	if gone {
		c.change(r, "used_up", used, "0 g are left")
	} else {
		c.change(r, "state", r.texts["state"], "0 g are left")
	}
}

func (c *converter) describe(result *transfer.Conversion, rows []transfer.Row) {
	for i, one := range c.columns {
		shown := transfer.SheetColumn{Title: one.title, Why: one.why, Texts: transfer.FirstTexts(rows, i)}
		note := ""
		if f := c.fields[one.target]; one.target != "" && !(c.strict && f.ReadOnly && !slices.Contains(c.keys, one.target)) {
			shown.Field = &one.target
		}
		switch {
		case one.guess:
			note = language.Sprintf("numbers up to 20 are kilograms")
		case weightUnits[one.unit] != "" && strings.HasSuffix(one.target, "_grams"):
			note = language.Sprintf(weightUnits[one.unit])
			if c.ofAll && one.target == "net_weight_grams" {
				note += ", " + one.note
			}
		case one.target == "net_weight_grams" && c.ofAll:
			note = one.note
		case one.target != "":
		case one.note != "":
			note = one.note
		case one.ignore:
			note = language.Sprintf("a %s has no such field", c.one)
			if strings.ContainsRune("aeiou", rune(c.one[0])) {
				note = language.Sprintf("an %s has no such field", c.one)
			}
		case len(one.texts) == 0:
			note = language.Sprintf("is empty")
		}
		if note != "" {
			shown.Note = &note
		}
		result.Columns = append(result.Columns, shown)
	}
}
