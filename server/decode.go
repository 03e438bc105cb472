package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/value"
	"spoolwright/value/language"
)

const (
	jsonMedia = "application/json"

	maxBody  = 1 << 20
	maxDepth = 32

	// maxUnknown is the maximum number of unknown fields or parameters that an error names. Without a limit, a request
	// with many unknown fields would cause a long response.
	maxUnknown = 100
)

var (
	// ErrNotJSON is the error of a body that is not sent as JSON.
	ErrNotJSON = ErrNotMedia(jsonMedia)

	// ErrTooLarge is the error of a body of more than 1 MiB.
	ErrTooLarge = &Error{Status: 413, Code: "PAYLOAD_TOO_LARGE",
		Detail: language.Sprintf("The body is larger than 1 MiB"), Header: http.Header{"Connection": {"close"}}}
)

// ErrNotMedia returns the error of a body that has none of the media types of the operation.
func ErrNotMedia(media string, others ...string) *Error {
	return &Error{Status: 415, Code: "UNSUPPORTED_MEDIA_TYPE",
		Detail: language.Sprintf("Send the body as Content-Type: %s",
			strings.Join(append([]string{media}, others...), " or "))}
}

// readMedia reads a body with one of the media types. An optional body may be missing, or empty with any media type.
// The error is a 413, 415 or 400.
func readMedia(
	w http.ResponseWriter, r *http.Request, optional bool, media string, others ...string,
) ([]byte, error) {
	if !optional {
		if err := checkMedia(r, media, others...); err != nil {
			return nil, err
		}
		return ReadBody(w, r)
	}
	body, err := ReadBody(w, r)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	return body, checkMedia(r, media, others...)
}

// checkMedia returns a 415 if the request's body has another media type, has another character encoding than UTF-8, or
// is compressed.
func checkMedia(r *http.Request, media string, others ...string) error {
	got, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, named := params["charset"]
	if err != nil || got != media && !slices.Contains(others, got) || named && !strings.EqualFold(charset, "utf-8") {
		return ErrNotMedia(media, others...)
	}
	if r.Header.Get("Content-Encoding") != "" {
		return &Error{Status: 415, Code: "UNSUPPORTED_MEDIA_TYPE",
			Detail: language.Sprintf("Send the body without Content-Encoding")}
	}
	return nil
}

// drainBytes is the number of bytes that drain reads of a body that is too large for most operations, and drainTimeout
// the maximum time that drain takes.
const (
	drainBytes   int64 = 8 << 20
	drainTimeout       = 5 * time.Second
)

// drain sends the response and then reads a part of a body that is too large. Without drain, the server would reset a
// connection on which the client still sends, and the client might not see the response. HTTP/2 needs no drain,
// because an HTTP/2 server resets only the stream, after the response.
func drain(w http.ResponseWriter, r *http.Request, n int64) {
	c := http.NewResponseController(w)
	if r.ProtoMajor == 1 && c.Flush() == nil && c.SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
		io.CopyN(io.Discard, r.Body, n)
	}
}

// ReadBody reads a body of any content type. A large one has a share of the memory for bodies until the request ends.
// The error is a 413, a 400, or ErrUnavailable if it waits too long for the share.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, ErrTooLarge // a client that waits for 100 Continue then does not send the body
	}
	if err := keepBody(r); err != nil {
		return nil, err
	}
	// A buffer that grew would take several times as much memory as the body.
	body := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 0)+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, ErrTooLarge
	case err != nil:
		return nil, malformed("The body could not be read completely").Because(err)
	}
	return body.Bytes(), nil
}

// ErrMalformed is the error of a body that is not JSON.
var ErrMalformed = BadRequest("MALFORMED_JSON", "%s", "The body is not valid JSON: unexpected end of JSON input")

func malformed(detail language.Text, args ...any) *Error {
	return ErrMalformed.With(language.Sprintf(detail, args...))
}

// decodeBody decodes the JSON object in body into in, a pointer to a struct with a Schema, and validates it. A patch
// may omit required fields. The error is a 400, or a 422 with all problems.
func decodeBody(body []byte, in any, patch bool) error {
	if !utf8.Valid(body) {
		return malformed("The body is not valid UTF-8")
	}
	if !json.Valid(body) {
		var v any
		return malformed("The body is not valid JSON: %s", json.Unmarshal(body, &v))
	}
	d := decoder{patch: patch}
	if err := d.object(body, reflect.ValueOf(in).Elem(), ""); err != nil {
		return err
	}
	return d.problems.Err()
}

// MaxEntries is the maximum length of a nested list of a resource.
const MaxEntries = 500

const tooManyEntries = "must have at most %d entries"

// TooManyEntries returns a 422 for a request that would add another entry to a full list.
func TooManyEntries(list string) *Error { return Invalid(list, tooManyEntries, MaxEntries) }

// decoder decodes the objects of one body.
type decoder struct {
	patch    bool
	problems Problems
	unknown  int // the number of unknown fields so far
}

// object decodes the JSON object in text into v and validates it. The text must be valid JSON. The problems with the
// fields are added to d.problems, with a prefix such as "items[2]." before the names of the fields. The error is a
// 400, or a 422 if the text is not an object.
func (d *decoder) object(text []byte, v reflect.Value, prefix string) error {
	schema := SchemaOfType(v.Type())
	var problems Problems
	lists, parts := map[*Field]value.Array{}, map[*Field]value.Object{}
	seen := make(map[string]bool, 16)
	walker := walker{text: text, member: func(key string, sent any) {
		seen[key] = sent != nil
		f := schema.byName[key]
		switch {
		case f == nil:
			if d.unknown++; d.unknown <= maxUnknown {
				problems.Add(key, "%s", notAField(key, schema))
			}
		case f.ReadOnly && !f.Fixed:
		case f.List:
			if entries, ok := sent.(value.Array); d.patch && !f.Patched || sent == nil {
				return
			} else if !ok {
				problems.Add(key, "must be a list")
			} else if len(entries) > f.Most {
				problems.Add(key, tooManyEntries, f.Most)
			} else {
				lists[f] = entries
			}
		case f.Part:
			if text, ok := sent.(value.Object); ok {
				parts[f] = text
			} else if sent != nil || f.Required {
				problems.Add(key, "must be a JSON object")
			}
		default:
			if f.Query {
				var problem string
				if sent, problem = f.fromJSON(sent); problem != "" {
					problems.Add(key, "%s", problem)
					return
				}
			}
			field := v.FieldByIndex(f.index).Addr().Interface().(settable)
			if problem := f.decode(field, sent); problem != "" {
				problems.Add(key, "%s", problem)
			} else if sent == nil && (f.Required || d.patch && f.NotNull) {
				problems.Add(key, "must not be null")
			}
		}
	}}
	if err := walker.run(); err != nil {
		return err
	}
	if !d.patch {
		for _, name := range schema.Missing(func(name string) bool { return seen[name] }) {
			problems.Add(name, "is required")
		}
	}
	d.checkNames(schema, v, &problems)
	outer := d.problems
	d.problems = nil
	for _, f := range schema.Fields {
		if err := d.entries(lists[f], v, f, prefix); err != nil {
			return err
		}
		if text := parts[f]; text != nil {
			to := reflect.New(f.Kind)
			v.FieldByIndex(f.index).Set(to)
			inner := decoder{patch: true, unknown: d.unknown}
			if err := inner.object(text, to.Elem(), prefix+f.Name+"."); err != nil {
				return err
			}
			d.problems, d.unknown = append(d.problems, inner.problems...), inner.unknown
		}
	}
	if c, ok := v.Addr().Interface().(checker); ok {
		c.Check(&problems)
	}
	for _, p := range problems {
		outer = append(outer, FieldError{prefix + p.Field, p.Message})
	}
	d.problems = append(outer, d.problems...)
	return nil
}

// checkNames checks the rule insteadOf of Schema. In a POST, a field with an empty text counts as missing.
func (d *decoder) checkNames(schema *Schema, v reflect.Value, problems *Problems) {
	for _, f := range schema.Fields {
		if f.others == nil {
			continue
		}
		var sent, others []string
		named := false
		for i, other := range append([]*Field{f}, f.others...) {
			value := v.FieldByIndex(other.index).Addr().Interface().(settable).Arg()
			if value != nil {
				sent = append(sent, other.Name)
			}
			named = named || value != nil && value != ""
			if i > 0 {
				others = append(others, other.Name)
			}
		}
		switch {
		case len(sent) > 1:
			problems.Add(sent[1], "must not be sent together with %s", sent[0])
		case !d.patch && !named && !f.others[0].Optional:
			problems.Add(f.Name, "is required, or %s", strings.Join(others, " or "))
		}
	}
}

// notAField returns the problem with a name in an object that is not the name of a field of the schema.
func notAField(name string, schema *Schema) string {
	names := make([]string, 0, len(schema.Fields))
	for _, f := range schema.Fields {
		if !f.ReadOnly {
			names = append(names, f.Name)
		}
	}
	if similar := nearest(name, names); similar != "" {
		return language.Sprintf("is not a known field; did you mean %s?", similar)
	}
	return language.Sprintf("is not a known field")
}

// entries decodes texts, the entries of the nested list f, into the list's field in v. The field of an empty list is
// not nil. Also in a PATCH, the entries are those of a POST.
func (d *decoder) entries(texts value.Array, v reflect.Value, f *Field, prefix string) error {
	if texts == nil {
		return nil
	}
	entries := reflect.MakeSlice(reflect.SliceOf(f.Kind), len(texts), len(texts))
	v.FieldByIndex(f.index).Set(entries)
	patch := d.patch
	d.patch = false
	defer func() { d.patch = patch }()
	for i, text := range texts {
		name := fmt.Sprintf("%s%s[%d]", prefix, f.Name, i)
		if text[0] != '{' {
			d.problems = append(d.problems, FieldError{name, language.Sprintf("must be a JSON object")})
		} else if err := d.object(text, entries.Index(i), name+"."); err != nil {
			return err
		}
	}
	return nil
}

// DecodeBody decodes and validates the body of a POST with the input type T, for bodies that the program builds
// itself, for example in a command. The errors are the same as for a request.
func DecodeBody[T any](body []byte) (T, error) {
	var in T
	err := decodeBody(body, &in, false)
	return in, err
}

// checker is an input type with rules that concern several fields.
type checker interface{ Check(*Problems) }

func check(in any, problems Problems) error {
	if c, ok := in.(checker); ok {
		c.Check(&problems)
	}
	return problems.Err()
}

// walker reads a text that json.Valid accepts, and calls member for each member of the outermost object. It rejects
// deep nesting and repeated keys, which json.Valid accepts.
type walker struct {
	text   []byte
	at     int
	member func(key string, value any)
}

func (w *walker) run() error {
	w.space()
	if w.text[w.at] != '{' {
		return Invalid("body", "must be a JSON object")
	}
	_, err := w.value(1)
	return err
}

func (w *walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

func (w *walker) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, malformed("The body is nested more than 32 deep")
	}
	w.space()
	switch c := w.text[w.at]; c {
	case '{':
		start := w.at
		if err := w.object(depth); err != nil || depth != 2 {
			return value.Nested{}, err
		}
		return value.Object(w.text[start:w.at]), nil
	case '[':
		entries, err := w.list(depth)
		if depth == 2 {
			return entries, err
		}
		return value.Nested{}, err
	case '"':
		return w.string(), nil
	case 't':
		w.at += len("true")
		return true, nil
	case 'f':
		w.at += len("false")
		return false, nil
	case 'n':
		w.at += len("null")
		return nil, nil
	}
	start := w.at
	for w.at < len(w.text) && strings.IndexByte("+-.0123456789eE", w.text[w.at]) >= 0 {
		w.at++
	}
	return value.Number(w.text[start:w.at]), nil
}

// list returns the texts of the entries if the list is a member of the outermost object, and nil for any other list.
func (w *walker) list(depth int) (entries value.Array, err error) {
	if depth == 2 {
		entries = value.Array{}
	}
	w.at++
	w.space()
	if w.text[w.at] == ']' {
		w.at++
		return entries, nil
	}
	for {
		w.space()
		start := w.at
		if _, err := w.value(depth + 1); err != nil {
			return nil, err
		}
		if depth == 2 && len(entries) <= value.MaxSeveral { // no list of the API may be longer
			entries = append(entries, w.text[start:w.at])
		}
		w.space()
		w.at++
		if w.text[w.at-1] == ']' {
			return entries, nil
		}
	}
}

func (w *walker) object(depth int) error {
	w.at++
	w.space()
	if w.text[w.at] == '}' {
		w.at++
		return nil
	}
	keys := make(map[string]bool, 16)
	for {
		w.space()
		key := w.string()
		if keys[key] {
			return malformed("The body has the key %s twice", value.Shorten(key, value.MaxRepeated))
		}
		keys[key] = true
		w.space()
		w.at++ // the colon
		value, err := w.value(depth + 1)
		if err != nil {
			return err
		}
		if depth == 1 {
			w.member(key, value)
		}
		w.space()
		w.at++
		if w.text[w.at-1] == '}' {
			return nil
		}
	}
}

func (w *walker) string() string {
	start, escaped := w.at, false
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			escaped = true
			w.at++
		}
	}
	w.at++
	if !escaped {
		return string(w.text[start+1 : w.at-1])
	}
	var s string
	json.Unmarshal(w.text[start:w.at], &s)
	return s
}

// fromJSON converts the JSON value of a query parameter in a body to a scalar. The JSON value of a number or a boolean
// may be a string.
func (f *Field) fromJSON(v any) (any, string) {
	switch v := v.(type) {
	case string:
		return f.fromText(v), ""
	case value.Number:
		return f.fromText(string(v)), ""
	case bool:
		return f.fromText(strconv.FormatBool(v)), ""
	}
	return nil, language.Sprintf("must be a text, a number, true or false, as the parameter of the list")
}

// fromText converts the text of a query parameter or of a cell of a CSV file to a scalar.
func (f *Field) fromText(text string) any {
	if f.Set {
		return value.Separated(text)
	}
	switch f.Kind {
	case reflect.TypeFor[int64](), reflect.TypeFor[value.Decimal]():
		return value.Number(text)
	case reflect.TypeFor[bool]():
		switch strings.ToLower(text) { // Python clients send True
		case "true", "1":
			return true
		case "false", "0":
			return false
		}
	}
	return text
}

// DecodeTexts decodes and validates texts, such as the cells of a row of a CSV file, in the same way as DecodeBody a
// JSON object. In is a pointer to a new value of the input type, and names are the fields to which the texts belong. A
// nil text is null. Except in fields of free text, blanks around a text are ignored and an empty text is null. Values
// of read-only fields are ignored. If patch is set, names may omit required fields, and a null sets its field to null;
// otherwise a null counts as missing. DecodeTexts returns all problems.
func DecodeTexts(in any, names []string, texts []*string, patch bool) []FieldError {
	v := reflect.ValueOf(in).Elem()
	schema := SchemaOfType(v.Type())
	var problems Problems
	given := make(map[string]bool, len(names))
	for i, name := range names {
		f := schema.byName[name]
		if f.ReadOnly {
			continue
		}
		text, null := "", texts[i] == nil
		if !null {
			text = *texts[i]
		}
		if !f.IsFreeText() {
			text = strings.TrimSpace(text)
			null = text == "" && !(f.Set && f.NotNull) // an empty list
		}
		if null && patch && f.Kind == reflect.TypeFor[value.Extra]() {
			text, null = "{}", false
		}
		if null && patch {
			f.decode(v.FieldByIndex(f.index).Addr().Interface().(settable), nil)
			if f.NotNull {
				problems.Add(name, "must not be empty")
			}
		}
		if null {
			continue
		}
		given[name] = true
		if problem := f.decode(v.FieldByIndex(f.index).Addr().Interface().(settable), f.fromText(text)); problem != "" {
			problems.Add(name, "%s", problem)
		}
	}
	if !patch {
		for _, name := range schema.Missing(func(name string) bool { return given[name] }) {
			problems.Add(name, "is required")
		}
	}
	if e, ok := errors.AsType[*Error](check(in, problems)); ok {
		return e.Fields
	}
	return nil
}

// DecodePatch is DecodeBody for the body of a PATCH.
func DecodePatch[T any](body []byte) (T, error) {
	var in T
	err := decodeBody(body, &in, true)
	return in, err
}
