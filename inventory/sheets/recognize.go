// Package sheets reads the spreadsheets that people keep of their filament, products and orders: it knows columns in ten
// languages and converts cells with units, amounts and dates to the values of the API.
package sheets

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"spoolwright/auth"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Reader reads the sheets that people keep as tables of a resource: it finds the row of titles, recognizes columns by
// their titles and values, and converts cells.
type Reader struct {
	schema        *server.Schema
	fields        map[string]*server.Field // those that a file can have
	concepts      map[string]string        // the fields of concepts; a concept that is missing has no field
	detectFormats func(*transfer.Table, transfer.Reading) transfer.Reading
	one           string   // the noun for a row, such as spool
	keys          []string // fields that name a resource
	makes         bool     // whether it converts concepts of spools to fields
	made          []string // the concepts that are not fields, but are converted to fields

	dictionary func() dictionary // of the titles that people give to columns
}

// New returns the reader for a resource with the fields of T. Keys are the fields with which a row names a
// resource.
func New[T any](one string, concepts map[string]string, keys ...string) *Reader {
	s := &Reader{schema: server.SchemaOf[T](), fields: map[string]*server.Field{}, concepts: concepts, one: one,
		keys: keys, detectFormats: transfer.DetectFormats[T], dictionary: ownTitles}
	for _, f := range s.schema.Fields {
		if nested, _ := f.Nested(); nested == nil {
			s.fields[f.Name] = f
		}
	}
	s.makes = one == "spool"
	for _, concept := range strings.Fields(Made) {
		if s.concepts[concept] == concept {
			s.made = append(s.made, concept)
		}
	}
	return s
}

// With returns the reader for a resource with titles of its own, instead of those of inventory and products. titles is
// a text for Words, whose sections are concepts.
func (s *Reader) With(titles string) *Reader {
	other := *s
	other.dictionary = sync.OnceValue(func() dictionary { return dictionaryOf(titles) })
	return &other
}

// meanings returns the concepts that a title can mean, as those of a dictionary.
func (s *Reader) meanings(title string) ([]string, int) { return s.dictionary().meanings(title) }

// Made are concepts of spools that are not fields; the import converts them to fields.
const Made = "filament_name quantity remaining_percent used_weight_grams gross_weight_grams full_weight_grams state " +
	"used_up filler price_per_kg total_price"

// Good returns how many of the titles are known.
func (s *Reader) Good(titles []string) int {
	known, sum := 0, 0
	for _, title := range titles {
		if title = start(title); title == "" {
			continue
		}
		if s.Exact(title) != "" {
			known, sum = known+1, sum+100
		} else if concepts, sure := s.meanings(title); len(concepts) > 0 && concepts[0] != "" && sure >= 60 {
			known, sum = known+1, sum+sure
		}
	}
	if known < 2 && len(titles) > 2 {
		return 0
	}
	return sum / 10
}

// Exact returns the field with the name of a title, as in the API, or "".
func (s *Reader) Exact(title string) string {
	name := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(title)))
	if s.fields[name] != nil {
		return name
	}
	return ""
}

// isTarget reports whether a column can be mapped to a name.
func (s *Reader) isTarget(name string) bool {
	if key, ok := strings.CutPrefix(name, "extra."); ok {
		return s.fields["extra"] != nil && value.IsExtraKey(key)
	}
	f := s.fields[name]
	return f != nil && (!f.ReadOnly || slices.Contains(s.keys, name)) ||
		slices.Contains(s.made, name)
}

type column struct {
	title  string
	texts  []string // the beginnings of the texts that are not empty, without the blanks around them
	number bool     // whether all texts are numbers in JSON
	target string   // the field, or the concept that is converted to fields; "" is left out
	why    transfer.Why
	note   string
	ignore bool   // whether the title is known, but not imported
	unit   string // the unit in the title, or a guess for all numbers
	guess  bool   // whether the unit is a guess
}

// candidate is a column that can have a target.
type candidate struct {
	column int
	target string
	score  int
	why    transfer.Why
}

// header returns the index of the row with the titles, or -1 if the sheet has none.
func (s *Reader) header(sheet *transfer.Sheet, how transfer.Reading) int {
	mapping, written := namesOf(how.Mapping), names{}
	if how.Mapping == nil {
		mapping = namesOf(how.Remembered)
	}
	if how.Program != nil {
		written = namesOf(how.Program.Fields)
	}
	best, most := -1, 0
	width := 0
	for _, row := range sheet.Rows[:min(len(sheet.Rows), 60)] {
		width = max(width, filled(row))
	}
	for i, row := range sheet.Rows[:min(len(sheet.Rows), 30)] {
		titles := transfer.Texts(row.Cells)
		n := s.Good(titles)
		for _, title := range titles {
			if _, ok := mapping.field(title); ok && title != "" {
				n += 20
			}
			if _, ok := written.field(title); ok {
				n += 20
			}
		}
		n -= 10 * dataIn(row)
		if filled(row)*3 < width { // a title of the sheet
			n /= 4
		}
		if n > most {
			best, most = i, n
		}
	}
	if most >= 6 {
		return best
	}
	for i, row := range sheet.Rows[:min(len(sheet.Rows), 10)] {
		if filled(row)*2 < width {
			continue
		}
		data := dataIn(row)
		if data >= 2 || data == filled(row) {
			return -1
		}
		return i
	}
	return 0
}

// dataIn returns the number of cells that are values and not titles.
func dataIn(row transfer.Row) (n int) {
	for _, text := range transfer.Texts(row.Cells) {
		if text = start(text); text != "" && (isMaterial(text) || numberLike(text) || isDate(text) || isHex(text)) {
			n++
		}
	}
	return n
}

// filled returns the number of cells that are not empty.
func filled(row transfer.Row) (n int) {
	for _, text := range transfer.Texts(row.Cells) {
		if text != "" {
			n++
		}
	}
	return n
}

// names has the fields to which a mapping maps titles: by the titles, and by their normal forms.
type names struct{ exact, normal map[string]string }

func namesOf(mapping map[string]string) names {
	all := names{mapping, map[string]string{}}
	for _, title := range slices.Sorted(maps.Keys(mapping)) {
		if key := normal(start(title), false); key != "" {
			all.normal[key] = mapping[title]
		}
	}
	return all
}

// field returns the field of a title, without regard to case, accents and punctuation.
func (n names) field(title string) (field string, ok bool) {
	if field, ok = n.exact[title]; !ok && len(n.normal) > 0 {
		field, ok = n.normal[normal(start(title), false)]
	}
	return field, ok
}

// remembered returns the field that a column had in an earlier file. It ignores columns that name a resource, because
// each program has ids of its own, and columns without a title whose values do not fit.
func (s *Reader) remembered(c *column, mapping names) (field string, ok bool) {
	field, ok = mapping.field(c.title)
	if !ok || slices.Contains(s.keys, s.Exact(c.title)) || field != "" && !s.isTarget(field) {
		return "", false
	}
	if untitled.MatchString(c.title) && len(c.texts) > 0 {
		for concept, target := range s.concepts {
			if target != field {
				continue
			}
			if other, fits := s.fit(c, concept, field); other != field || fits < 0.5 {
				return "", false
			}
		}
	}
	return field, true
}

// untitled matches the titles that a sheet gives to columns without one.
var untitled = regexp.MustCompile(`^Column \d+$`)

// recognize determines the targets of the columns. A mapping takes precedence, then names, then values.
func (s *Reader) recognize(columns []column, how transfer.Reading) {
	var all []candidate
	taken := map[string]bool{}
	given, remembered, written := namesOf(how.Mapping), namesOf(how.Remembered), names{}
	if how.Program != nil {
		written = namesOf(how.Program.Fields)
	}
	for i := range columns {
		if how.Err() != nil {
			return
		}
		c := &columns[i]
		c.unit, _ = unitOf(c.title)
		if field, ok := given.field(c.title); ok {
			c.target, c.why = field, "given"
			taken[field] = true
			continue
		}
		if how.Program != nil {
			c.why, c.ignore = "none", true
			if field, ok := written.field(c.title); ok && !taken[field] {
				c.target, c.why, taken[field] = field, "name", true
			}
			continue
		}
		if field, ok := s.remembered(c, remembered); ok && (!taken[field] || field == "notes" || isSecond(c.title)) {
			c.target, c.why = field, "remembered"
			taken[field] = field != ""
			continue
		}
		c.why = "none"
		all = append(all, s.candidates(i, c)...)
	}
	value.Sort(all, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	done := map[int]bool{}
	assign := func(c candidate) {
		one := &columns[c.column]
		one.target, one.why = c.target, c.why
		done[c.column], taken[c.target] = true, true
	}
	has := map[string]bool{} // the kinds of values in columns with titles
	for _, byValues := range []bool{false, true} {
		for _, c := range all {
			one := &columns[c.column]
			switch kind := kindOf(c.target, one); {
			case c.score < 40 || done[c.column] || taken[c.target] || (c.why == "values") != byValues:
			case byValues && has[kind] && !untitled.MatchString(one.title):
				one.note, done[c.column] = hasNote(kind), true
			default:
				assign(c)
				if !byValues || !untitled.MatchString(one.title) {
					has[kind] = true
				}
			}
		}
	}
	// Spoolman has some values of a spool in columns of its filament, too. They are used if the spool has none.
	for _, c := range all {
		if c.score >= 80 && !done[c.column] && isSecond(columns[c.column].title) {
			assign(c)
		}
	}
	for _, c := range all {
		if c.score >= 60 && !done[c.column] {
			columns[c.column].note = language.Sprintf("another column is %s", c.target)
			done[c.column] = true
		}
	}
	// A column of descriptions names the filaments if no other column does.
	if s.makes && !taken["color"] && !taken["filament_name"] {
		for _, c := range all {
			if c.target == "filament_name" && c.score >= 40 && columns[c.column].target == "notes" {
				taken["notes"] = false
				assign(c)
				break
			}
		}
	}
	// The total weight of several spools is not a weight with one spool, unless the weight of the spool is known.
	for i := range columns {
		c := &columns[i]
		if c.target == "gross_weight_grams" && c.why == "name" && taken["quantity"] && !taken["net_weight_grams"] &&
			!taken["spool_weight_grams"] && slices.ContainsFunc(words(c.title), isTotalWord) {
			c.target = "net_weight_grams"
			taken["gross_weight_grams"], taken["net_weight_grams"] = false, true
		}
	}
	for i := range columns {
		c := &columns[i]
		if concepts, sure := s.meanings(c.title); c.target == "" && c.why == "none" && sure >= 60 && concepts != nil &&
			how.Program == nil {
			isField := func(name string) bool { return s.concepts[name] != "" }
			c.ignore = concepts[0] == "" || !slices.ContainsFunc(concepts, isField)
		}
	}
}

// candidates returns the targets that a column can have, with their scores: at most 100.
func (s *Reader) candidates(i int, c *column) (all []candidate) {
	if name := s.Exact(c.title); name != "" {
		if !s.isTarget(name) && !slices.Contains(s.keys, name) {
			name = "" // a field that the service computes
			c.ignore = true
		}
		if strings.HasSuffix(name, "id") && slices.Contains(s.keys, name) && len(c.texts) > 0 &&
			!slices.ContainsFunc(c.texts, isUUID) {
			return nil // the ids of another program
		}
		if name == "" {
			return nil
		}
		return []candidate{{i, name, 120, "name"}}
	}
	concepts, sure := s.meanings(c.title)
	add := func(concept string, score int, why transfer.Why) {
		target := s.concepts[concept]
		if target == "" {
			return
		}
		target, fits := s.fit(c, concept, target)
		if why == "name" && sure <= partOfTitle && len(c.texts) > 0 && !(fits == 1 && certain(c, concept)) {
			return // a part of a title needs values that fit in every row
		}
		switch {
		case len(c.texts) == 0:
			score -= 5
		case fits < 0.5:
			switch {
			case score < 60 || why != "name" || c.note != "":
			case isLength(c.unit):
				c.note = language.Sprintf("has lengths, and not %s", target)
			default:
				c.note = language.Sprintf("seems to be %s, but most values cannot be read", target)
			}
			score -= 70
		}
		all = append(all, candidate{i, target, score, why})
	}
	if isSecond(c.title) {
		sure -= 3
	}
	part := sure <= partOfTitle
	for n, concept := range concepts {
		add(concept, sure-8*n, "name")
	}
	// A known title decides the target of the column, even that it has none. Without one, the values decide.
	if len(concepts) > 0 && len(normal(c.title, false)) > 1 && (!part || concepts[0] == "") || len(c.texts) == 0 {
		return all
	}
	for concept, score := range map[string]int{"material_type": 62, "color_hex": 58, "diameter_mm": 60,
		"purchase_price": 50, "purchase_date": 48, "net_weight_grams": 46, "remaining_weight_grams": 44,
		"remaining_percent": 47, "color": 50,
		"brand": 52, "material_name": 42} {
		if s.concepts[concept] != "" && looksLike(c, concept) {
			add(concept, score, "values")
		}
	}
	value.Sort(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.target, b.target))
	})
	return all
}

// hasNote returns the note of a column whose values are those of a column with a title.
func hasNote(kind string) string {
	switch kind {
	case "weight":
		return language.Sprintf("another column has the weight")
	case "material":
		return language.Sprintf("another column has the material")
	case "price":
		return language.Sprintf("another column has the price")
	case "code of the color":
		return language.Sprintf("another column has the code of the color")
	}
	return language.Sprintf("another column has the %s", kind)
}

// kindOf returns the kind of the values of a target: several targets can have values of one kind.
func kindOf(target string, c *column) string {
	switch {
	case strings.HasSuffix(target, "_grams"):
		return "weight"
	case strings.HasPrefix(target, "material"):
		return "material"
	case strings.Contains(target, "price"):
		return "price"
	case target == "color_hex" || target == "color" && share(c.texts, isHex) > 0.5:
		return "code of the color"
	}
	return target
}

// certain reports whether the values of a column confirm the concept of a part of its title beyond doubt: no text
// could also be something else.
func certain(c *column, concept string) bool {
	all := func(is func(string) bool) bool { return share(c.texts, is) == 1 }
	isBool := func(t string) bool { _, ok := transfer.Truth(t); return ok }
	switch {
	case strings.HasSuffix(concept, "_weight_grams"):
		return weightUnits[c.unit] != "" || c.unit == "g" || c.unit == "%" || all(func(t string) bool {
			return hasWeight(t) || isShare(t) || amountOf(t) >= 50 || amountOf(t) == 0
		}) && slices.ContainsFunc(c.texts, func(t string) bool { return amountOf(t) != 0 })
	case concept == "color":
		return all(func(t string) bool { return !isBool(t) }) && share(c.texts, isColor) >= 0.5
	case concept == "brand":
		return share(c.texts, func(t string) bool { return brands[normal(t, false)] }) >= 0.5
	case concept == "material_name":
		return all(func(t string) bool { return isMaterial(t) || modifiers.MatchString(t) })
	case concept == "finish":
		return all(func(t string) bool { return finishes[fold(t)] })
	case concept == "state" || concept == "used_up" || concept == "archived" || concept == "filler":
		return true
	case slices.Contains([]string{"location", "supplier", "notes", "filament_name", "lot_number"}, concept):
		return all(func(t string) bool { return !isBool(t) && !numberLike(t) && !isDate(t) && !isHex(t) })
	}
	return true
}

// isSecond reports whether a column has values of the filament of a spool, as Spoolman writes them.
func isSecond(title string) bool { return strings.HasPrefix(title, "filament.") }

func isUUID(text string) bool { _, ok := value.ParseID(text); return ok }

// maxSeen is the maximum number of texts of a column that are examined to recognize it.
const maxSeen = 1000

// share returns the share of the first texts for which is is true.
func share(texts []string, is func(string) bool) float64 {
	texts = texts[:min(len(texts), maxSeen)]
	if len(texts) == 0 {
		return 0
	}
	n := 0
	for _, text := range texts {
		if is(text) {
			n++
		}
	}
	return float64(n) / float64(len(texts))
}

func isHex(text string) bool { _, ok := readHex(text); return ok }

var datePattern = regexp.MustCompile(`^(\d{1,4}[-./ ]\s?\d{1,2}[-./ ]\s?\d{1,4}\.?|` +
	`\d{1,2}\.?[- ]?\pL{3,}\.?[- ,]*\d{2,4}|\pL{3,}\.? ?\d{1,2},? \d{4})`)

func isDate(text string) bool {
	_, changed := readDate(text)
	return changed || datePattern.MatchString(text)
}

// amountOf returns the number of a text for comparisons, with either decimal mark, or -1.
func amountOf(text string) float64 {
	n, ok := transfer.ParseNumber(readNumber(text))
	if !ok {
		return -1
	}
	point, comma := n.Readings()
	var f float64
	if _, err := fmt.Sscan(cmp.Or(comma, point), &f); err != nil {
		return -1
	}
	return f
}

func hasUnit(text string, all ...string) bool {
	n, ok := transfer.ParseNumber(readWeight(readNumber(text)))
	return ok && slices.Contains(all, strings.TrimSuffix(strings.ToLower(n.Unit), "."))
}

func isShare(text string) bool { return shares[fold(text)] != "" || hasUnit(text, "%") }

// paddedCode matches texts such as TRY001, which are no amounts.
var paddedCode = regexp.MustCompile(`(^|[^\d.,])0\d`)

// looksLike reports whether the values of a column alone show that it has the concept.
func looksLike(c *column, concept string) bool {
	texts := c.texts
	switch concept {
	case "material_type", "material_name":
		return share(texts, isMaterial) >= 0.6
	case "color_hex":
		return share(texts, func(s string) bool {
			return isHex(s) && (strings.HasPrefix(s, "#") || !numberLike(s))
		}) >= 0.4 &&
			share(texts, isHex) >= 0.8
	case "diameter_mm":
		return share(texts, isDiameter) >= 0.8
	case "purchase_price":
		return share(texts, func(s string) bool {
			n, ok := transfer.ParseNumber(readAmount(s))
			return ok && (strings.ContainsAny(n.Before+n.Unit, "€$£") || auth.IsCurrency(n.Currency()) && !paddedCode.MatchString(s))
		}) >= 0.6
	case "purchase_date":
		return share(texts, func(s string) bool { return datePattern.MatchString(s) && !isDiameter(s) }) >= 0.8
	case "net_weight_grams", "remaining_weight_grams":
		return share(texts, hasWeight) >= 0.6
	case "remaining_percent":
		return share(texts, isShare) >= 0.7 && share(texts, func(s string) bool { return hasUnit(s, "%") }) >= 0.3
	case "color":
		return share(texts, isColor) >= 0.5
	case "brand":
		return share(texts, func(s string) bool { return brands[normal(s, false)] }) >= 0.4
	}
	return false
}

func isDiameter(text string) bool {
	switch read, changed := readDiameter(text); {
	case changed:
		return true
	default:
		read = strings.TrimRight(strings.ReplaceAll(read, ",", "."), "0")
		return read == "1.75" || read == "2.85"
	}
}

func isLength(unit string) bool { return unit == "m" || unit == "cm" || unit == "mm" }

// fit returns the target of a column with a concept, according to its values and the unit in its title, and the share
// of values that fit, from 0 to 1.
func (s *Reader) fit(c *column, concept, target string) (string, float64) {
	texts := c.texts
	titlesOf := s.dictionary()
	both := slices.Contains(titlesOf[normal(c.title, false)], "quantity") ||
		slices.Contains(titlesOf[normal(c.title, true)], "quantity")
	small := share(texts, func(t string) bool {
		n := amountOf(t)
		return n >= 0 && n <= 40 && n == float64(int(n)) && numberLike(t)
	}) == 1 &&
		share(texts, hasWeight) == 0
	switch concept {
	case "material_type":
		if slices.Contains(titlesOf[normal(c.title, false)], "filament_name") {
			return target, share(texts, isMaterial)
		}
		return target, share(texts, func(t string) bool { _, _, ok := readMaterial(t); return ok })
	case "color_hex":
		return target, share(texts, func(t string) bool { return isHex(t) || shortDigits.MatchString(t) })
	case "color":
		if share(texts, isMaterial) > 0.6 {
			return target, 0
		}
		return target, share(texts, func(t string) bool { return !numberLike(t) || isHex(t) })
	case "brand", "supplier", "finish":
		if concept == "finish" && share(texts, isMaterial) > 0.6 {
			return target, 0
		}
		return target, share(texts, func(t string) bool { return !numberLike(t) && !isDate(t) })
	case "filament_name":
		return target, share(texts, func(t string) bool { return strings.ContainsFunc(t, unicode.IsLetter) && !isDate(t) })
	case "diameter_mm":
		return target, share(texts, isDiameter)
	case "net_weight_grams", "remaining_weight_grams", "used_weight_grams", "gross_weight_grams", "full_weight_grams",
		"spool_weight_grams":
		if isLength(c.unit) {
			return target, 0
		}
		percent := func(t string) bool { return hasUnit(t, "%") }
		if c.unit == "%" || share(texts, percent) >= 0.5 || share(texts, isShare) == 1 {
			if concept == "remaining_weight_grams" && s.concepts["remaining_percent"] != "" {
				return s.concepts["remaining_percent"], 1
			}
			return target, 0
		}
		if both && small && c.unit == "" {
			return target, 0
		}
		return target, share(texts, func(t string) bool {
			if m := about.FindStringSubmatch(t); m != nil {
				t = m[1]
			}
			n, _ := transfer.ParseNumber(readWeight(readNumber(t)))
			return (numberLike(readWeight(t)) && (n.Unit == "" || hasWeight(t)) || isShare(t)) && !isDate(t) &&
				!strings.ContainsAny(t, "€$£")
		})
	case "remaining_percent":
		return target, share(texts, func(t string) bool { return isShare(t) || numberLike(t) && amountOf(t) <= 100 })
	case "quantity":
		if c.unit != "" {
			return target, 0
		}
		return target, share(texts, func(t string) bool {
			n := amountOf(t)
			return numberLike(t) && n <= 200 && n == float64(int(n)) && !hasWeight(t) && !hasUnit(t, "%")
		})
	case "purchase_price", "price_per_kg", "total_price", "selling_price":
		if isLength(c.unit) || c.unit == "g" {
			return target, 0
		}
		return target, share(texts, func(t string) bool {
			return numberLike(readAmount(t)) && !isDate(t) && !hasWeight(t)
		})
	case "density_g_cm3", "extruder_temperature_c", "bed_temperature_c", "print_minutes", "labour_minutes",
		"pieces_per_plate":
		return target, share(texts, numberLike)
	case "purchase_date":
		return target, share(texts, isDate)
	case "archived", "used_up":
		return target, share(texts, func(t string) bool { _, ok := transfer.Truth(t); return ok })
	case "state":
		number := share(texts, func(t string) bool { return numberLike(t) && t != "0" && t != "1" }) > 0
		return target, share(texts, func(t string) bool {
			_, isBool := transfer.Truth(t)
			return !number && (isBool || shares[fold(t)] != "" || some[fold(t)])
		})
	case "filler":
		return target, share(texts, func(t string) bool { _, ok := fillers[fold(t)]; return ok })
	}
	return target, 1
}
