package transfer

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value/language"
)

// Decimal is the decimal mark of the numbers of a file.
type Decimal string

// The decimal marks.
const (
	Comma Decimal = "comma"
	Point Decimal = "point"
)

// Enum returns both marks.
func (Decimal) Enum() []string { return []string{string(Comma), string(Point)} }

// DateOrder is the order of day and month in dates with the year at the end.
type DateOrder string

// The orders of dates.
const (
	DayFirst   DateOrder = "dmy"
	MonthFirst DateOrder = "mdy"
)

// Enum returns both orders.
func (DateOrder) Enum() []string { return []string{string(DayFirst), string(MonthFirst)} }

// Reading determines how an import reads a file: the settings of the sender, completed by DetectFormats.
type Reading struct {
	Mode    Mode
	Decimal Decimal   // "" means that DetectFormats decides
	Dates   DateOrder // likewise
	// Mapping maps titles of columns to fields, or to "" for a column to leave out. If it is nil, the names and values of
	// the columns decide.
	Mapping map[string]string
	// Remembered is the mapping of an earlier file. It takes precedence over the names and values of the columns, and can
	// name columns that are not in the file.
	Remembered map[string]string
	Program    *Program          // the program that wrote the file, or nil
	Worksheet  string            // the name of the worksheet in a workbook, or "" for the one whose titles match best
	Defaults   map[string]string // values of fields for rows without them
	// Corrections replace texts of rows, by their lines and the titles of their columns. A row with nil is left out.
	Corrections map[int]map[string]string
	SkipInvalid bool // imports the valid rows if others are invalid
	Suggest     bool // suggests defaults, and leaves out columns that are not known
	// Currency returns the currency of the farm, or "" if the farm has none. It is called if an amount has a currency.
	Currency func() (string, error)

	// Ended returns an error once the request has ended, and reading then stops with this error. It may be nil.
	Ended func() error

	marked map[string]bool   // columns of booleans whose only values are marks such as x
	codes  map[string]*codes // the columns of codes
}

// Program is a program that is known to have written a file. Settings of the sender take precedence.
type Program struct {
	Name     string
	Fields   map[string]string // the fields of its columns, by their titles; other columns are left out
	Defaults map[string]string // values that are suggested and used for fields without a default
	Dates    DateOrder         // the order if the file does not show it, or ""
}

// Number returns a number in the form that the API accepts, or a problem. The reading is the result of DetectFormats.
func (how Reading) Number(field *server.Field, text string) (number, problem string) {
	return (&records{how: how}).number(field, text)
}

// Err returns the error of a request that has ended, or nil.
func (how Reading) Err() error {
	if how.Ended == nil {
		return nil
	}
	return how.Ended()
}

// In returns the reading with the currency of the actor's tenant, and with the end of the context.
func (how Reading) In(ctx context.Context, d *db.DB) Reading {
	known := false
	var currency string
	how.Ended = ctx.Err
	how.Currency = func() (string, error) {
		if known {
			return currency, nil
		}
		err := d.Read(ctx, db.SQL(`select coalesce(currency, '') from tenants`).Into(&currency))
		known = err == nil
		return currency, err
	}
	return how
}

// formatVotes records the formats that the cells of a file prove.
type formatVotes struct {
	comma, point         bool
	dayFirst, monthFirst bool
}

// DetectFormats reads a file of records of T to its end, and decides the decimal mark of the numbers and the order of
// the dates, unless the reading sets them. A cell with only one possible reading decides for all other cells. Cells
// that contradict each other decide nothing. If no cell decides the decimal mark, the separator does: spreadsheet
// programs write semicolons where the comma is the decimal mark. ReadRecords reports the errors of the file.
func DetectFormats[T any](file *Table, how Reading) Reading {
	return detectFormats(server.SchemaOf[T](), file, how)
}

func detectFormats(schema *server.Schema, file *Table, how Reading) Reading {
	records, err := open(schema, file)
	if err != nil {
		return how
	}
	var found formatVotes
	marks, others := map[string]bool{}, map[string]bool{}
	how.codes = map[string]*codes{}
	for _, f := range records.fields {
		if isCode(f) && !f.IsNumber() {
			how.codes[f.Name] = &codes{}
		}
	}
	for _, row := range file.Rows {
		if how.Err() != nil {
			break
		}
		for i, cell := range row.Cells[:min(len(row.Cells), len(records.fields))] {
			text := textOf(cell)
			switch f := records.fields[i]; {
			case text == "":
			case f.Set:
			case how.codes[f.Name] != nil:
				how.codes[f.Name].see(text)
			case f.IsNumber():
				found.number(f, text)
			case f.IsDate():
				found.date(text)
			case f.IsBool() && mark[strings.ToLower(text)]:
				marks[f.Name] = true
			case f.IsBool():
				others[f.Name] = true
			}
		}
	}
	if how.Decimal == "" {
		switch separator := file.Separator; {
		case found.comma && found.point:
		case found.comma || !found.point && separator == ';':
			how.Decimal = Comma
		case found.point || separator == ',':
			how.Decimal = Point
		}
	}
	if how.Dates == "" && found.dayFirst != found.monthFirst {
		how.Dates = DayFirst
		if found.monthFirst {
			how.Dates = MonthFirst
		}
	}
	how.marked = marks
	for name := range others {
		delete(marks, name)
	}
	return how
}

// plainNumber matches a number of the API with only one reading: groups of digits have no leading zero.
var plainNumber = regexp.MustCompile(`^-?\d+$|^-?\d+(\.\d+)?[eE][-+]?\d+$`)

// number adds the vote of a number.
func (e *formatVotes) number(f *server.Field, text string) {
	n, ok := ParseNumber(text)
	if !ok || plainNumber.MatchString(text) {
		return
	}
	point, comma := readings(f, n)
	e.point = e.point || point != "" && comma == ""
	e.comma = e.comma || comma != "" && point == ""
}

// readings returns n.Readings(). If the field allows only one of two readings, the other is "".
func readings(f *server.Field, n Number) (point, comma string) {
	point, comma = n.Readings()
	if point == comma || point == "" || comma == "" || !f.Input {
		return point, comma
	}
	allowed := func(reading string) bool {
		value, ok := n.Value(f.Name, reading, "")
		return ok && f.Allows(value)
	}
	switch p, c := allowed(point), allowed(comma); {
	case p && !c:
		return point, ""
	case c && !p:
		return "", comma
	}
	return point, comma
}

// date adds the vote of a date.
func (e *formatVotes) date(text string) {
	dmy, mdy := readDate(text)
	e.dayFirst = e.dayFirst || dmy != "" && mdy == ""
	e.monthFirst = e.monthFirst || mdy != "" && dmy == ""
}

// cell returns a cell in the form that the API accepts, or the problem with the cell.
func (r *records) cell(f *server.Field, cell Cell, hasID bool) (normal Cell, problem string) {
	text := textOf(cell)
	if column := r.how.codes[f.Name]; column != nil && text != "" {
		if problem = column.damage(text, hasID); problem != "" {
			return cell, problem
		}
	}
	switch {
	case f.ReadOnly || f.Set:
	case f.IsBool() && text == "" && r.how.marked[f.Name]:
		text = "false"
		return &text, ""
	case text == "":
	case f.IsNumber():
		text, problem = r.number(f, text)
		return &text, problem
	case f.IsDate():
		text, problem = r.date(text)
		return &text, problem
	case f.IsBool():
		if value, ok := truth[strings.ToLower(text)]; ok {
			text = strconv.FormatBool(value)
			return &text, ""
		}
	}
	for _, value := range f.Enum {
		if strings.EqualFold(text, value) {
			return &value, ""
		}
	}
	return cell, ""
}

// number returns a number in the form that the API accepts, or a problem if the number is ambiguous. A text that is
// not a number is returned unchanged.
func (r *records) number(f *server.Field, text string) (number, problem string) {
	if isCode(f) && exponent.MatchString(text) {
		return text, rounded(text)
	}
	n, ok := ParseNumber(text)
	if !ok || plainNumber.MatchString(text) {
		return text, ""
	}
	point, comma := readings(f, n)
	reading := point + comma // one of them is ""
	if point != "" && comma != "" {
		switch {
		case point == comma || r.how.Decimal == Point:
			reading = point
		case r.how.Decimal == Comma:
			reading = comma
		default:
			last := strings.LastIndexAny(n.Text, ".,")
			whole, fraction := point, comma
			if n.Text[last] == '.' {
				whole, fraction = comma, point
			}
			return text, language.Sprintf("can be read as %s or as %s, and the file does not show which: choose its "+
				"decimal mark "+
				"(decimal), or write %s or %s.%s0; the value is %q", whole, fraction, whole, n.Text[:last], n.Text[last+1:], text)
		}
	}
	if reading == "" {
		return text, ""
	}
	currency := ""
	if IsAmount(f.Name) && n.Currency() != "" {
		var err error
		if currency, err = r.currency(n); err != nil {
			return text, language.Sprintf("cannot be read: the currency of the farm is not known; try again")
		}
	}
	value, ok := n.Value(f.Name, reading, currency)
	switch {
	case ok:
		return value, ""
	case currency != "" && currencyForm.MatchString(n.Before+n.Unit):
		return text, language.Sprintf("must be an amount in %s; the value is %q", currency, shorten(text))
	}
	return text, ""
}

// currency returns the currency of the farm or, if the farm has none, the first currency in the file.
func (r *records) currency(n Number) (string, error) {
	if r.farm == nil && r.how.Currency != nil {
		currency, err := r.how.Currency()
		if err != nil {
			return "", err
		}
		r.farm = &currency
	}
	if r.farm != nil && *r.farm != "" {
		return *r.farm, nil
	}
	if currencyForm.MatchString(n.Before+n.Unit) && r.first == "" {
		r.first = n.Currency()
	}
	return r.first, nil
}

// date returns a date in the form that the API accepts, or a problem if the date is ambiguous. A text that is not a
// date is returned unchanged.
func (r *records) date(text string) (date, problem string) {
	dmy, mdy := readDate(text)
	switch {
	case dmy == "" && mdy == "":
		return text, ""
	case mdy == "" || dmy == mdy || dmy != "" && r.how.Dates == DayFirst:
		return dmy, ""
	case dmy == "" || r.how.Dates == MonthFirst:
		return mdy, ""
	}
	return text, language.Sprintf("can be read as %s or as %s, and the file does not show which: choose the order of "+
		"its "+
		"dates (date_order), or write one of these; the value is %q", dmy, mdy, text)
}

var (
	// midnight matches the time 00:00 that spreadsheet programs write after a date.
	midnight  = regexp.MustCompile(`[T ]+0?0:00(?::00(?:\.0+)?)?$`)
	yearFirst = regexp.MustCompile(`^(\d{4})[-./](\d{1,2})[-./](\d{1,2})$`)
	// A date with hyphens and a year of two digits does not match, because 24-01-02 may begin with the year.
	yearLast = regexp.MustCompile(`^(\d{1,2})([-./])(\d{1,2})(?:[-./](\d{4})|[./](\d\d))$`)
	dayMonth = regexp.MustCompile(`^(\d{1,2})\.?[- /]?(\pL+)\.?[- /,]*(\d{4}|\d\d)$`)
	monthDay = regexp.MustCompile(`^(\pL+)\.?[- ]*(\d{1,2}),?[- ]+(\d{4}|\d\d)$`)
)

// readDate returns the date that a text means with the day before the month, and with the month before the day. A date
// that is not possible is "". If the order does not matter, both dates are equal. Dots separate only day, month and
// year.
func readDate(text string) (dmy, mdy string) {
	if len(text) > MaxForm {
		return "", ""
	}
	text = midnight.ReplaceAllString(ASCII(text), "")
	if m := yearFirst.FindStringSubmatch(text); m != nil {
		date := dateOf(m[1], m[2], m[3])
		return date, date
	}
	if m := yearLast.FindStringSubmatch(text); m != nil {
		dmy = dateOf(m[4]+m[5], m[3], m[1])
		if m[2] != "." {
			mdy = dateOf(m[4]+m[5], m[1], m[3])
		}
		return dmy, mdy
	}
	if m := dayMonth.FindStringSubmatch(text); m != nil {
		date := dateOf(m[3], monthOf(m[2]), m[1])
		return date, date
	}
	if m := monthDay.FindStringSubmatch(text); m != nil {
		date := dateOf(m[3], monthOf(m[1]), m[2])
		return date, date
	}
	return "", ""
}

// dateOf returns the date in the form of the API, or "" if there is no such date. A year of two digits is between 1970
// and 2069.
func dateOf(year, month, day string) string {
	if len(year) == 2 {
		if year < "70" {
			year = "20" + year
		} else {
			year = "19" + year
		}
	}
	date := fmt.Sprintf("%s-%02s-%02s", year, month, day)
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return ""
	}
	return date
}

// months maps the first letters of the names of months in several languages to the numbers of the months.
var months = map[string]string{
	"jan": "1", "ene": "1", "gen": "1", "jän": "1", "feb": "2", "fév": "2", "fev": "2", "mar": "3", "mär": "3",
	"mrt": "3", "maa": "3", "mrz": "3", "apr": "4", "abr": "4", "avr": "4", "may": "5", "mai": "5", "maj": "5",
	"mag": "5", "mei": "5", "jun": "6", "giu": "6", "juin": "6", "jul": "7", "lug": "7", "juil": "7", "aug": "8",
	"ago": "8", "aoû": "8", "aou": "8", "sep": "9", "set": "9", "oct": "10", "okt": "10", "out": "10", "ott": "10",
	"nov": "11", "dec": "12", "dez": "12", "dic": "12", "déc": "12",
}

// monthOf returns the number of the month with the name, or "" for an unknown name.
func monthOf(name string) string {
	letters := []rune(strings.ToLower(name))
	for n := min(4, len(letters)); n >= 3; n-- {
		if month := months[string(letters[:n])]; month != "" {
			return month
		}
	}
	return ""
}

// truth maps the words for true and false of spreadsheet programs, in several languages, and of people.
var truth = map[string]bool{}

// mark contains the texts that mean true in a column whose other cells are empty.
var mark = map[string]bool{"x": true, "✓": true, "✔": true, "☑": true}

func init() {
	for _, words := range []struct {
		all   string
		value bool
	}{
		{"true t yes y on 1 wahr ja j vrai oui o verdadero sí si s vero verdadeiro sim waar sant sann sand tosi kyllä " +
			"prawda tak pravda ano áno igaz igen истина да doğru evet adevărat da ✓ ✔ ☑ x", true},
		{"false f no n off 0 falsch nein faux non falso não nao nee onwaar falskt nej falsk usann nei epätosi ei " +
			"fałsz nie nepravda ne hamis nem ложь нет yanlış hayır fals nu ✗ ✘ ☐", false},
	} {
		for word := range strings.FieldsSeq(words.all) {
			truth[word] = words.value
		}
	}
}

// Truth returns what a word for true or false means, and false if a text is no such word.
func Truth(text string) (value, ok bool) {
	value, ok = truth[strings.ToLower(strings.TrimSpace(text))]
	return value, ok
}
