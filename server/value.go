package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spoolwright/db"
)

// Decimal is an exact decimal number in millionths, for weights in grams, prices, costs and hours. Go code compares
// and adds Decimals; PostgreSQL does all other arithmetic.
type Decimal int64

const DecimalOne Decimal = 1_000_000

// maxDecimal is the largest number in requests. A float64 of a client represents its nine integer and six fraction
// digits exactly enough.
const maxDecimal = 999_999_999 * DecimalOne

// ParseDecimal parses a JSON number and rounds it to six decimals, half away from zero. It returns false if s is not
// a JSON number, or exceeds 999,999,999 (also as 1e400).
func ParseDecimal(s string) (Decimal, bool) {
	d, _, ok := parseDecimal(s)
	return d, ok
}

// parseDecimal is ParseDecimal and also reports whether the number needed no rounding.
func parseDecimal(s string) (d Decimal, exact, ok bool) {
	// Only numbers among all valid JSON texts start and end like this.
	if s == "" || s[0] != '-' && !isDigit(s[0]) || !isDigit(s[len(s)-1]) || !json.Valid([]byte(s)) {
		return 0, false, false
	}
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		sign, text := 1, strings.TrimPrefix(s[i+1:], "+")
		if strings.HasPrefix(text, "-") {
			sign, text = -1, text[1:]
		}
		text = strings.TrimLeft(text, "0")
		exponent, _ = strconv.Atoi("0" + text[:min(len(text), 9)]) // 9 digits exceed the length of any body
		exponent *= sign
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := whole + fraction
	point := len(whole) + exponent // digits before the decimal point
	trimmed := strings.TrimLeft(digits, "0")
	point -= len(digits) - len(trimmed)
	if trimmed == "" {
		return 0, true, true
	}
	if point > 9 {
		return 0, false, false
	}
	keep := point + 6 // digits that count in millionths
	if keep < 0 {
		return 0, false, true
	}
	var n Decimal
	for i := range keep {
		n *= 10
		if i < len(trimmed) {
			n += Decimal(trimmed[i] - '0')
		}
	}
	if keep < len(trimmed) && trimmed[keep] >= '5' {
		n++
	}
	if n > maxDecimal {
		return 0, false, false
	}
	if negative {
		n = -n
	}
	return n, keep >= len(trimmed) || strings.Trim(trimmed[keep:], "0") == "", true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// String returns the shortest exact decimal text.
func (d Decimal) String() string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := sign + strconv.FormatInt(int64(d/DecimalOne), 10)
	if rest := d % DecimalOne; rest != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(int64(rest+DecimalOne), 10)[1:], "0")
	}
	return s
}

// MarshalJSON writes the exact number.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads a number of the database.
func (d *Decimal) UnmarshalJSON(b []byte) error {
	n, exact, ok := parseDecimal(string(b))
	if !exact || !ok {
		return fmt.Errorf("%s is not a number with nine integer and six fraction digits", b)
	}
	*d = n
	return nil
}

// Timestamp is a point in time, truncated to microseconds.
type Timestamp struct{ time.Time }

// Moment is a point in time in a query: a timestamp or, if the date is not empty, the beginning of that day in the
// time zone of the tenant.
type Moment struct {
	time.Time
	date Date
}

// MarshalJSON encodes the zero time as null.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.Time.MarshalJSON()
}

// Date is a calendar day, YYYY-MM-DD.
type Date string

// UUID is an id in its canonical text form.
type UUID string

// Set is a list of different values of an Enum, with at least one. In SQL it is an array of texts. In a query, the
// values are separated by commas, and can be there twice.
type Set[E Enum] []string

func (Set[E]) element() reflect.Type { return reflect.TypeFor[E]() }
func (s Set[E]) texts() []string     { return s }

// separated is the text of a Set in a query.
type separated string

// parse stores the decoded value of a JSON list or of a query. It returns the problem with it, or "".
func (s *Set[E]) parse(f *Field, v any) string {
	var e E
	allowed := e.Enum()
	if text, ok := v.(separated); ok {
		for value := range strings.SplitSeq(string(text), ",") {
			if !slices.Contains(allowed, value) {
				return "must be one of " + strings.Join(allowed, ", ") + ", or several of them, separated by commas"
			}
			if !slices.Contains(*s, value) {
				*s = append(*s, value)
			}
		}
		return ""
	}
	entries, ok := v.(array)
	if !ok {
		return "must be a list of strings"
	}
	least := 1
	if f.Empty {
		least, *s = 0, Set[E]{}
	}
	if len(entries) < least || len(entries) > len(allowed) {
		return fmt.Sprintf("must have %d to %d entries", least, len(allowed))
	}
	for _, entry := range entries {
		var value string
		if json.Unmarshal(entry, &value) != nil || !slices.Contains(allowed, value) {
			return "must have entries of " + strings.Join(allowed, ", ")
		}
		if slices.Contains(*s, value) {
			return "must not have an entry twice"
		}
		*s = append(*s, value)
	}
	return ""
}

// Several is a list of values, from 1 to MaxSeveral. In SQL it is an array.
type Several[T UUID | int64] []T

// MaxSeveral is the maximum length of a Several.
const MaxSeveral = 1000

func (Several[T]) element() reflect.Type { return reflect.TypeFor[T]() }

// parse stores the decoded value of a JSON list for the field f. It returns the problem with it, or "".
func (s *Several[T]) parse(f *Field, v any) string {
	entries, ok := v.(array)
	if !ok || len(entries) == 0 || len(entries) > MaxSeveral {
		return "must be a list with 1 to " + strconv.Itoa(MaxSeveral) + " entries"
	}
	one := *f
	one.Set = false
	for i, entry := range entries {
		var value Optional[T]
		problem := value.set(&one, scalar(entry))
		if problem == "" && value.IsNull() {
			problem = "must not be null"
		}
		if problem != "" {
			return fmt.Sprintf("has an invalid entry: %s[%d] %s", f.Name, i, problem)
		}
		*s = append(*s, *value.Value)
	}
	return ""
}

// Extra has the values of custom fields by their keys: texts, numbers, bools, and lists of these. In a PATCH, null
// removes a value, and fields without a key keep theirs. In SQL it is jsonb.
type Extra map[string]json.RawMessage

const (
	// ExtraKey is the form of the key of a custom field.
	ExtraKey = `^[a-z0-9_]{1,64}$`

	// maxExtra is the maximum size of the values of a request, in bytes.
	maxExtra = 50_000
)

var extraKeyForm = regexp.MustCompile(ExtraKey)

// parse stores the decoded value of a JSON object, or of its text in a file. It returns the problem with it, or "".
func (e *Extra) parse(_ *Field, v any) string {
	text, ok := v.(part)
	if s, isText := v.(string); isText {
		text, ok = part(s), json.Valid([]byte(s))
	}
	*e = nil
	if !ok || json.Unmarshal(text, e) != nil || *e == nil {
		return "must be an object with the values of custom fields by their keys"
	}
	return e.problem()
}

// problem returns the problem with the keys and values, or "".
func (e Extra) problem() string {
	size := 0
	for key, value := range e {
		size += len(key) + len(value)
		if !extraKeyForm.MatchString(key) {
			return "must have keys of 1 to 64 lower-case letters, digits and underscores, and not " +
				strconv.Quote(shorten(key, maxRepeated))
		}
		if problem := storable(value); problem != "" {
			return "has an invalid value: " + key + " " + problem
		}
	}
	if size > maxExtra {
		return fmt.Sprintf("must have at most %d bytes", maxExtra)
	}
	return ""
}

// storable returns the problem with a JSON text that jsonb could not store, or "".
func storable(text json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		switch v := token.(type) {
		case nil:
			if err == io.EOF {
				return ""
			}
			if err != nil {
				return "must be JSON"
			}
		case string:
			if strings.ContainsRune(v, 0) || strings.ContainsRune(v, utf8.RuneError) {
				return "must be valid Unicode text without the character U+0000"
			}
		case json.Number:
			if f, err := v.Float64(); err != nil || len(v) > 40 || f != 0 && math.Abs(f) < 1e-100 {
				return "must have at most 40 digits"
			}
		}
	}
}

// SetText sets the value of a key to a text that contains JSON. It reports whether it does.
func (e Extra) SetText(key, text string) bool {
	if !json.Valid([]byte(text)) {
		return false
	}
	e[key] = json.RawMessage(text)
	return true
}

// Problem is problem for an Extra that was not decoded from a request.
func (e Extra) Problem() string { return e.problem() }

func (e Extra) jsonText() string {
	text, err := json.Marshal(map[string]json.RawMessage(e))
	if err != nil {
		return "{}" // not for valid values
	}
	return string(text)
}

// Values returns the values without those that are null, as text, for a new row.
func (e Extra) Values() string {
	values := maps.Clone(e)
	maps.DeleteFunc(values, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	if values == nil {
		return "{}"
	}
	return values.jsonText()
}

// Texts is a list of different texts of 1 to 200 characters, at most MaxTexts. In SQL it is an array of texts.
type Texts []string

// MaxTexts is the maximum length of Texts.
const MaxTexts = 100

func (Texts) element() reflect.Type { return reflect.TypeFor[string]() }
func (t Texts) texts() []string     { return t }

// parse stores the decoded value of a JSON list. It returns the problem with it, or "".
func (t *Texts) parse(_ *Field, v any) string {
	entries, ok := v.(array)
	if !ok || len(entries) > MaxTexts {
		return "must be a list with at most " + strconv.Itoa(MaxTexts) + " entries"
	}
	*t = Texts{}
	one := Field{Required: true, MaxLength: 200}
	for _, entry := range entries {
		text, problem := one.text(scalar(entry))
		if problem == "" && slices.Contains(*t, text) {
			problem = "must not be there twice"
		}
		if problem != "" {
			return "has an invalid entry, which " + problem
		}
		*t = append(*t, text)
	}
	return ""
}

// Colors is a list of colours in the form #RRGGBB or #RRGGBBAA, at most MaxColors. In SQL it is an array of texts.
type Colors []string

// MaxColors is the maximum length of Colors.
const MaxColors = 10

func (Colors) element() reflect.Type { return reflect.TypeFor[string]() }
func (c Colors) texts() []string     { return c }

// parse stores the decoded value of a JSON list, or of a cell of a CSV file. It returns the problem with it, or "".
func (c *Colors) parse(f *Field, v any) string {
	if text, ok := v.(separated); ok {
		entries := array{}
		for entry := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ',' || r == ' ' }) {
			entries = append(entries, []byte(strconv.Quote(entry)))
		}
		return c.parse(f, entries)
	}
	entries, ok := v.(array)
	if !ok || len(entries) > MaxColors {
		return "must be a list with at most " + strconv.Itoa(MaxColors) + " entries"
	}
	*c = Colors{}
	for _, entry := range entries {
		text, _ := scalar(entry).(string)
		if !alphaColorForm.MatchString(text) {
			return "must have entries of the form #RRGGBB or #RRGGBBAA"
		}
		*c = append(*c, text)
	}
	return ""
}

// scalar returns the decoded value of a JSON text, which json.Valid accepts, as the values of a walker.
func scalar(text []byte) any {
	w := walker{text: text}
	v, _ := w.value(maxDepth) // neither an object nor a list has an error below this depth
	return v
}

// Optional is a field of a request: absent, null, or a value.
type Optional[T any] struct {
	Set   bool // the request contains the field
	Value *T   // nil for null
}

// IsNull reports whether the field is absent or null.
func (o Optional[T]) IsNull() bool { return o.Value == nil }

// Or returns the value, or otherwise if the field is absent or null.
func (o Optional[T]) Or(otherwise T) T {
	if o.Value == nil {
		return otherwise
	}
	return *o.Value
}

// Some returns an Optional with the value v.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: &v} }

// Arg returns the value as an argument of a SQL statement; nil if the field is absent or null.
func (o Optional[T]) Arg() any {
	if o.Value == nil {
		return nil
	}
	switch v := any(*o.Value).(type) {
	case string:
		return v
	case Enum:
		return reflect.ValueOf(v).String()
	case Decimal:
		return v.String()
	case Timestamp:
		return v.Time
	case Moment:
		if v.date != "" {
			return string(v.date)
		}
		return v.Time
	case Date:
		return string(v)
	case UUID:
		return string(v)
	case interface{ texts() []string }:
		return v.texts()
	case Extra:
		return v.jsonText()
	}
	return *o.Value
}

// Values returns the values of a Set; none if the field is absent or null.
func (o Optional[T]) Values() []string {
	if set, ok := any(o.Or(*new(T))).(interface{ texts() []string }); ok {
		return set.texts()
	}
	return nil
}

func (o Optional[T]) isSet() bool { return o.Set }

// sqlType returns the type to cast the argument to, because some exec modes of pgx do not let PostgreSQL infer it.
func (o Optional[T]) sqlType() string {
	var v T
	switch any(v).(type) {
	case Decimal:
		return "numeric"
	case Timestamp, Moment:
		return "timestamptz"
	case Date:
		return "date"
	case UUID:
		return "uuid"
	case int64:
		return "int"
	case bool:
		return "boolean"
	case Extra:
		return "jsonb"
	case interface{ texts() []string }:
		return "text[]"
	}
	return "text"
}

// set stores a decoded scalar: nil, bool, string or number. It returns the problem with it, or "".
func (o *Optional[T]) set(f *Field, v any) string {
	o.Set, o.Value = true, nil
	if v == nil {
		return ""
	}
	var value T
	var problem string
	switch to := any(&value).(type) {
	case *string:
		*to, problem = f.text(v)
	case *bool:
		var ok bool
		if *to, ok = v.(bool); !ok {
			problem = "must be true or false"
		}
	case *Decimal:
		*to, problem = f.number(v)
	case *int64:
		var d Decimal
		if d, problem = f.number(v); problem == "" {
			if _, exact, _ := parseDecimal(string(v.(number))); !exact || d%DecimalOne != 0 {
				problem = "must be a whole number"
			}
		}
		*to = int64(d / DecimalOne)
	case *Timestamp:
		*to, problem = parseTimestamp(v)
	case *Moment:
		*to, problem = parseMoment(v)
	case *Date:
		*to, problem = parseDate(v)
	case *UUID:
		s, _ := v.(string)
		id, ok := db.ParseID(s)
		if !ok {
			problem = "must be a UUID"
		}
		*to = UUID(id)
	case interface{ parse(*Field, any) string }:
		problem = to.parse(f, v)
	case Enum:
		var s string
		s, problem = f.text(v)
		reflect.ValueOf(to).Elem().SetString(s)
	default:
		panic("server: no decoder for the type of field " + f.Name)
	}
	if problem == "" {
		o.Value = &value
	}
	return problem
}

// number is the text of a JSON number.
type number string

func (f *Field) number(v any) (Decimal, string) {
	text, ok := v.(number)
	if !ok {
		return 0, "must be a number"
	}
	d, ok := ParseDecimal(string(text))
	switch {
	case len(f.Numbers) > 0:
		if !ok || !slices.Contains(f.Numbers, d) {
			return 0, "must be one of " + joinStrings(f.Numbers)
		}
	case !ok:
		return 0, "must be a number between " + f.Minimum.String() + " and " + f.Maximum.String()
	case f.Exclusive && d <= f.Minimum:
		return 0, "must be greater than " + f.Minimum.String()
	case d < f.Minimum:
		return 0, "must be at least " + f.Minimum.String()
	case d > f.Maximum:
		return 0, "must be at most " + f.Maximum.String()
	}
	return d, ""
}

func joinStrings(numbers []Decimal) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, n.String())
	}
	return strings.Join(texts, ", ")
}

func (f *Field) text(v any) (string, string) {
	s, ok := v.(string)
	if f.short && len(f.Enum) == 0 && f.Format == "" {
		s = strings.TrimFunc(s, isBlank)
	}
	switch {
	case !ok:
		return "", "must be a string"
	case len(f.Enum) > 0:
		for _, allowed := range f.Enum {
			if s == allowed {
				return s, ""
			}
		}
		return "", "must be one of " + strings.Join(f.Enum, ", ")
	case strings.ContainsRune(s, 0):
		return "", "must not contain the character U+0000"
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		return "", "must be valid Unicode text"
	case utf8.RuneCountInString(s) > f.MaxLength:
		return "", "must have at most " + strconv.Itoa(f.MaxLength) + " characters"
	case f.search && len(words(s)) > maxWords:
		return "", "must have at most " + strconv.Itoa(maxWords) + " words"
	case f.Required && strings.TrimFunc(s, isBlank) == "":
		return "", "must not be blank"
	case utf8.RuneCountInString(s) < f.MinLength:
		return "", "must have at least " + strconv.Itoa(f.MinLength) + " characters"
	case f.Format == "email" && (!emailForm.MatchString(s) || strings.ContainsFunc(s, isBlank)):
		return "", "must be an e-mail address such as ada@farm.example"
	case f.Format == "color" && !colorForm.MatchString(s):
		return "", "must have the form #RRGGBB"
	case f.Format == "alphaColor" && !alphaColorForm.MatchString(s):
		return "", "must have the form #RRGGBB or #RRGGBBAA"
	}
	return s, ""
}

// EmailPattern accepts more than valid addresses: only a delivered message proves that an address exists.
const EmailPattern = `^[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+$`

var emailForm = regexp.MustCompile(EmailPattern)

// isBlank reports whether \s in a pattern of the OpenAPI document matches r. Its patterns are those of ECMAScript.
func isBlank(r rune) bool { return unicode.IsSpace(r) && r != '\u0085' || r == '\ufeff' }

// ColorPattern is the form of a color, #RRGGBB, and AlphaColorPattern that of one that can have an alpha.
const (
	ColorPattern      = `^#[0-9A-Fa-f]{6}$`
	AlphaColorPattern = `^#([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`
)

var alphaColorForm = regexp.MustCompile(AlphaColorPattern)

var colorForm = regexp.MustCompile(ColorPattern)

// timestampForm is stricter than time.Parse, and accepts the letters in either case, as RFC 3339 does.
var timestampForm = regexp.MustCompile(
	`^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?$`)

func parseTimestamp(v any) (Timestamp, string) {
	const problem = "must be an RFC 3339 timestamp such as 2024-01-15T10:00:00Z"
	s, ok := v.(string)
	if !ok || !timestampForm.MatchString(s) {
		return Timestamp{}, problem
	}
	s = strings.ToUpper(s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		t = t.UTC().Truncate(time.Microsecond)
		if t.Year() < 1 || t.Year() > 9999 {
			return Timestamp{}, "must be in the years 0001 to 9999"
		}
		return Timestamp{t}, ""
	}
	return Timestamp{}, problem
}

func parseMoment(v any) (Moment, string) {
	if day, problem := parseDate(v); problem == "" {
		return Moment{date: day}, ""
	}
	t, problem := parseTimestamp(v)
	if problem != "" {
		problem += " or a date such as 2024-01-15"
	}
	return Moment{Time: t.Time}, problem
}

func parseDate(v any) (Date, string) {
	s, _ := v.(string)
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1 {
		return "", "must be a date such as 2024-01-15"
	}
	return Date(s), ""
}
