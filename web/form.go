package web

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value/language"
)

// A form is HTML whose inputs have the names of the fields of an operation. Its hidden inputs are:
//
//	once     an idempotency key, made when the page was shown
//	tag      in an edit, the ETag of the resource
//	was.F    in an edit, the value of the field F when the page was shown
//
// So a form that is sent twice has one effect, and an edit changes only the fields that the visitor changed.

// form is a form with the values to show and the problems with them.
type form struct {
	Values  url.Values
	Was     url.Values        // in an edit, the values when the page was shown
	Theirs  url.Values        // in an edit, the values that somebody else saved meanwhile
	Errors  map[string]string // problems by field
	Problem string            // a problem with the form as a whole
	Key     string
	Tag     string
	read    reader
	zone    *time.Location
	id      string            // precedes the ids of the form's elements
	shown   []fault           // the fields with problems that the page shows: see Mark
	unread  map[string]string // by field, why the text is not a number
	rows    map[string][]int  // by nested list, the form's row of each object in the body
	hits    map[string]*hits  // by the name of a picker, what it has found
	picking bool              // whether a picker asks, so that the form is shown again
	failed  error             // why a picker could not search
	confirm map[string]bool   // by field, whether the API asks to confirm the value
	isFull  bool              // whether the API asks if the spool is full
}

// newForm returns a form that has not been sent.
func newForm(read reader) *form {
	return &form{Values: url.Values{}, Was: url.Values{}, Theirs: url.Values{}, Errors: map[string]string{},
		Key: rand.Text(), read: read, id: rand.Text()[:6], unread: map[string]string{}, rows: map[string][]int{},
		hits: map[string]*hits{}, confirm: map[string]bool{}}
}

func (v *visit) newForm() *form {
	f := newForm(v.reader())
	f.zone = v.zone
	return f
}

func (v *visit) reader() reader { return reader{v.locale, v.Currency, v} }

// sent returns the form that the visitor has sent. A form without a key gets a new key.
func (v *visit) sent() *form {
	f := v.newForm()
	for name, values := range v.r.PostForm {
		for i := range values { // browsers send another end of line than pages have
			values[i] = strings.ReplaceAll(values[i], "\r\n", "\n")
		}
		if field, ok := strings.CutPrefix(name, "was."); ok {
			f.Was[field] = values
		} else {
			f.Values[name] = values
		}
	}
	f.takePicks()
	v.seek(f)
	if key := f.Values.Get("once"); key != "" {
		f.Key = key
	}
	f.Tag = f.Values.Get("tag")
	return f
}

// prefilled returns a new form with the values in the query of the page's address.
func (v *visit) prefilled() *form {
	f := v.newForm()
	for name, values := range v.r.URL.Query() {
		f.Values[name] = values
	}
	return f
}

// asked returns the form in the query of the page's address.
func (v *visit) asked() *form {
	f := v.prefilled()
	v.seek(f)
	return f
}

// kind determines how the text of an input becomes a value of JSON.
type kind int

const (
	text         kind = iota
	number            // a text that is not a number is sent unchanged, so that the API refuses it
	flag              // a checkbox, or "true" and "false"
	named             // the name of another resource: vendor has the name of the resource with the id vendor_id
	optionalFlag      // "true", "false" or nothing
	list              // texts, separated by commas
	set               // like list, but an empty input is an empty list and not null
	span              // two numbers, separated by a dash; one may be missing
	moment            // a time in the time zone of the farm
	rates             // exchange rates such as USD 0.92; GBP 1.17
	scanned           // the number of a spool, typed or scanned from a label: see spoolCode
)

// momentLayout is the layout in which browsers read and write a time in an input.
const momentLayout = "2006-01-02T15:04"

// field is an input of a form.
type field struct {
	name string
	kind kind
}

// value returns the value of an input for JSON. It is nil for an empty input, unless the kind is flag or set.
func (f *form) value(in field) any {
	s := strings.TrimSpace(f.Values.Get(in.name))
	switch {
	case in.kind == flag, in.kind == optionalFlag && (s == "true" || s == "false"):
		return s == "true"
	case s == "" && in.kind == set:
		return []string{}
	case in.kind == rates:
		all := []any{}
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ';' || r == '\n' }) {
			code, rate, _ := strings.Cut(strings.TrimSpace(part), " ")
			all = append(all, map[string]any{"currency": strings.ToUpper(code), "rate": f.number(in.name, rate)})
		}
		return all
	case s == "":
		return nil
	case in.kind == number:
		return f.number(in.name, s)
	case in.kind == scanned:
		if number, ok := spoolCode(s); ok {
			s = number
			f.Values.Set(in.name, s) // as the page shows it
		}
		return f.number(in.name, strings.TrimPrefix(s, "#"))
	case in.kind == moment:
		for _, layout := range []string{momentLayout, momentLayout + ":05"} {
			if t, err := time.ParseInLocation(layout, s, f.zone); err == nil {
				return t.UTC().Format(time.RFC3339)
			}
		}
	case in.kind == list || in.kind == set:
		texts := strings.Split(s, ",")
		for i := range texts {
			texts[i] = strings.TrimSpace(texts[i])
		}
		return texts
	case in.kind == span:
		for _, dash := range []string{"–", "-"} {
			if from, to, ok := strings.Cut(s, dash); ok {
				return []any{f.number(in.name, from), f.number(in.name, to)}
			}
		}
	}
	return s
}

// number returns the number in the text s of the field with the name. It returns nil for an empty text, and the text
// itself if it is not a number.
func (f *form) number(name, s string) any {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil
	}
	n, problem := f.read.read(name[strings.LastIndexByte(name, '.')+1:], s)
	if n != "" {
		return n
	}
	if problem != "" {
		f.unread[name] = problem
	}
	return s
}

// put sets a value in a body. A name that begins with "extra." is the name of a custom field, which belongs into the
// object extra.
func put(body map[string]any, name string, value any) {
	key, ok := strings.CutPrefix(name, "extra.")
	if !ok {
		body[name] = value
		return
	}
	if body["extra"] == nil {
		body["extra"] = map[string]any{}
	}
	body["extra"].(map[string]any)[key] = value
}

// body returns the body of a request with the fields that are not empty.
func (f *form) body(fields ...field) map[string]any {
	body := map[string]any{}
	for _, in := range fields {
		if value := f.value(in); value != nil {
			put(body, in.name, value)
		}
	}
	return body
}

// changed returns the body of a request with the fields that the visitor changed.
func (f *form) changed(fields ...field) map[string]any {
	body := map[string]any{}
	for _, in := range fields {
		if f.Values.Get(in.name) == f.Was.Get(in.name) {
			continue
		}
		value := f.value(in)
		if in.kind == named && value == nil {
			body[in.name+"_id"] = nil
		} else {
			put(body, in.name, value)
		}
	}
	return body
}

// send runs an operation with the body, and with the idempotency key or the ETag of the form. It decodes the response
// into into, if into is not nil. If the API refuses the values of the form, send stores the problems in the form and
// returns false. It returns any other error.
func (v *visit) send(f *form, method, path string, body map[string]any, into any) (bool, error) {
	if f.picking {
		return false, f.failed
	}
	header := http.Header{}
	if method == http.MethodPost {
		header.Set("Idempotency-Key", f.Key)
	}
	if f.Tag != "" {
		header.Set("If-Match", f.Tag)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return false, err
		}
	}
	answer := v.call(method, path, header, text)
	if err := answer.Err(); err != nil {
		return false, f.keepProblems(err)
	}
	if into == nil || len(answer.Body) == 0 {
		return true, nil
	}
	return true, json.Unmarshal(answer.Body, into)
}

// keepProblems stores the problems of an error in the form. It returns errors that do not concern the form's values.
func (f *form) keepProblems(err error) error {
	e, v := server.AsError(err), f.read.visit
	switch {
	case e.Status == 403 || e.Status == 404 || e.Status == 401 || e.Status == 500 || isConflict(err):
		return err
	case e.Code == server.ErrKeyConflict.Code:
		f.Key = rand.Text()
		f.Problem = v.t("This form was already sent with other values, and they were saved. " +
			"Send it again to save these, too.")
		return nil
	}
	for _, problem := range e.Fields {
		full := f.row(problem.Field)
		name := full
		_, shown := f.Values[name]
		if list, _, nested := strings.Cut(full, "["); !shown && nested && f.Values.Has(list) { // an input has the list
			name, shown = list, true
		} else if !shown { // an API name such as changes.location, where the form has the input location
			name = name[strings.LastIndexByte(name, '.')+1:]
			_, shown = f.Values[name]
		}
		if shown && (name == full || f.Errors[name] == "") {
			f.Errors[name] = v.message(pageWords.Replace(problem.Message))
			f.confirm[name] = strings.Contains(problem.Message, inventory.Confirm)
		} else if f.Problem == "" {
			f.Problem = v.refusal(problem.Field, problem.Message)
			f.isFull = strings.Contains(problem.Message, inventory.IsFull)
		}
	}
	for name, problem := range f.unread {
		f.Errors[name] = v.language.Sentence(problem)
	}
	if len(e.Fields) == 0 {
		f.Problem = v.message(e.Detail)
	}
	return nil
}

// row returns the name of the input for a field in the body. In nested lists, it replaces the index of each object in
// the body by the index of the row in the form.
func (f *form) row(field string) string {
	outer := "" // the part of the name that is replaced
	for {
		list, rest, _ := strings.Cut(field, "[")
		index, name, _ := strings.Cut(rest, "]")
		rows := f.rows[outer+list]
		n, err := strconv.Atoi(index)
		if err != nil || n < 0 || n >= len(rows) {
			return outer + field
		}
		outer, field = fmt.Sprintf("%s%s[%d]", outer, list, rows[n]), name
	}
}

// needs adds an error to each of the named inputs that is empty.
func (f *form) needs(names ...string) {
	if f.picking {
		return
	}
	for _, name := range names {
		if strings.TrimSpace(f.Values.Get(name)) == "" {
			f.Errors[name] = f.read.visit.t("Is required.")
		}
	}
}

// MustConfirm reports whether the API asks the visitor to confirm the value of a field.
func (f *form) MustConfirm(name string) bool { return f.confirm[name] }

// pageWords replaces words of the API's messages that are for programs.
var pageWords = strings.NewReplacer("must not be null", "is required", inventory.Confirm, "confirm it if it is right",
	inventory.IsFull, "confirm it if it is")

// The messages with the words of pageWords.
var _ = []language.Text{"is required",
	"is %s g, but the empty spool weighs %s g and the full one %s g; confirm it if it is right",
	"of the spool must be set before it can be weighed; it is %s g if the spool is full and new, " +
		"confirm it if it is"}

// refusal returns the problem with a field for which the page has no input, as a sentence.
func (v *visit) refusal(field, problem string) string {
	return v.language.Sentence(v.t("%s %s|a field and its problem", v.label(field),
		v.language.Message(pageWords.Replace(problem))))
}

// MayBeFull reports whether the API asks the visitor if the spool is full.
func (f *form) MayBeFull() bool { return f.isFull }

// isConflict reports whether somebody else changed the resource after the page was shown.
func isConflict(err error) bool {
	return err != nil && server.AsError(err).Code == server.ErrPrecondition.Code
}

// editing is an operation that changes values which a form has shown.
type editing struct {
	method, path string                     // the operation, on a resource with an ETag or on a part of one
	body         func(*form) map[string]any // makes the body; a PATCH without fields is not sent
	now          func() (*form, error)      // returns the form with the present values and the present ETag
	into         any                        // if not nil, a pointer for the response
}

// edit saves the changed fields of a form to the resource at the path.
func (v *visit) edit(f *form, path string, fields []field) (bool, error) {
	return v.change(f, editing{http.MethodPatch, path, func(f *form) map[string]any { return f.changed(fields...) },
		func() (*form, error) { return v.formOf(path) }, nil})
}

// change runs the operation that a form asks for. All forms that show values which they change use it. If somebody
// else meanwhile changed only other values of the form, change repeats the operation on the new version. If somebody
// else changed the same value, change returns false. The form then has both values and the new version, so that
// sending it again replaces the other value. A form without an ETag is compared with the present values first.
func (v *visit) change(f *form, c editing) (bool, error) {
	if f.picking {
		return false, f.failed
	}
	for range 5 {
		if f.Tag != "" {
			body := c.body(f)
			if f.Problem != "" || len(f.Errors) > 0 {
				return false, nil
			}
			if len(body) == 0 && c.method == http.MethodPatch {
				return true, nil
			}
			ok, err := v.send(f, c.method, c.path, body, c.into)
			if !isConflict(err) {
				return ok, err
			}
		}
		now, err := c.now()
		if err != nil {
			return false, err
		}
		if f.merge(now) {
			f.Problem = v.t("Somebody else changed this in the meantime. Their values are beside yours. " +
				"Save again to replace them.")
			return false, nil
		}
	}
	f.Problem = v.t("This changes too often at the moment. Try again.")
	return false, nil
}

// merge replaces values that the visitor did not change by the present values, and stores the present values of the
// others in Theirs. It reports whether any of these differ from both the value that was shown and the visitor's.
func (f *form) merge(now *form) (both bool) {
	both = f.follow(now)
	for name := range f.Was {
		mine, was, theirs := f.Values.Get(name), f.Was.Get(name), now.Values.Get(name)
		switch {
		case theirs == was:
		case mine == was || mine == theirs: // only the other person changed the field, or both set the same value
			f.Values.Set(name, theirs)
		default:
			f.Theirs.Set(name, theirs)
			both = true
		}
		f.Was.Set(name, theirs)
	}
	f.Tag = now.Tag
	return both
}

// follow renumbers the rows of the form to the indexes of their objects in now. It drops rows of removed objects, adds
// rows for new objects, and reports whether there are new objects.
func (f *form) follow(now *form) (added bool) {
	rows := map[string]string{} // such as items[1] by id
	for name, values := range now.Values {
		if row, ok := strings.CutSuffix(name, "].id"); ok {
			rows[values[0]] = row
		}
	}
	if len(rows) == 0 {
		return false
	}
	ids := maps.Clone(f.Values)
	for _, values := range []url.Values{f.Values, f.Was} {
		moved := url.Values{}
		for name, texts := range values {
			row, field, nested := strings.Cut(name, "].")
			if to, ok := rows[ids.Get(row+"].id")]; nested && ok {
				name = to + "]." + field
			} else if nested {
				continue
			}
			moved[name] = texts
		}
		clear(values)
		maps.Copy(values, moved)
	}
	old := maps.Clone(f.Values)
	for name, texts := range now.Values {
		if row, _, nested := strings.Cut(name, "]."); nested && !old.Has(row+"].id") {
			f.Values[name], f.Was[name], added = texts, texts, true
		}
	}
	return added
}

// formOf reads the resource at a path of the API, and returns a form with its current values and its ETag. It runs the
// reads in more first.
func (v *visit) formOf(path string, more ...read) (*form, error) {
	f := v.newForm()
	var values map[string]any
	if err := v.fetch(append(more, read{path: path, into: &values, tag: &f.Tag})...); err != nil {
		return nil, err
	}
	f.fill(values)
	return f, nil
}

// fill sets the values of the form, and the values in Was, to the values of a resource.
func (f *form) fill(values map[string]any) {
	extra, _ := values["extra"].(map[string]any)
	for key, value := range extra {
		f.Values.Set("extra."+key, f.read.customText(value))
		f.Was.Set("extra."+key, f.Values.Get("extra."+key))
	}
	for name, value := range values {
		f.Values.Set(name, f.read.customText(value))
		f.Was.Set(name, f.Values.Get(name))
		if other, ok := strings.CutSuffix(name, "_name"); ok && values[other+"_id"] != nil {
			f.Values.Set(other, f.Values.Get(name))
			f.Was.Set(other, f.Values.Get(name))
		}
	}
}

// input is the data of the template named input.
type input struct {
	Form                *form
	Name, Label         string
	Type, Unit, Hint    string
	Required, Autofocus bool
	May                 bool // whether the form shows the input among those that may stay empty
	Placeholder         string
	Pick                bool // whether a color picker stands beside the input
	Options             []option
	Kind, None, Named   string // of a picker: see pickers; the words for no choice; the name of the value, if it is known
	List, Rows          string // the id of a datalist; the number of lines of a longer text
}

type option struct{ Value, Name string }

// word is an option whose name is a text of the program.
type word struct {
	Value string
	Name  language.Text
}

func (v *visit) options(words []word) (options []option) {
	for _, w := range words {
		options = append(options, option{w.Value, v.t(w.Name)})
	}
	return options
}

// labeled returns options whose values are names of the API. It shows the names as words.
func labeled(names []string) (words []word) {
	for _, name := range names {
		words = append(words, word{name, language.Text(label(name))})
	}
	return words
}

// newInput returns an input of a form. The strings in more are the words required, may, autofocus and pick, and settings
// such as unit=g. The setting value is the value in a form that was not sent. The label, the hint, the unit and the
// words for no choice are translated; the setting label is a label that is data.
func newInput(f *form, name string, label language.Text, more ...string) input {
	v := f.read.visit
	in := input{Form: f, Name: name, Label: v.t(label)}
	texts := map[string]*string{"type": &in.Type, "unit": &in.Unit, "hint": &in.Hint, "list": &in.List, "rows": &in.Rows,
		"find": &in.Kind, "none": &in.None, "named": &in.Named, "label": &in.Label}
	for _, word := range more {
		key, value, _ := strings.Cut(word, "=")
		_, sent := f.Values[name]
		switch {
		case texts[key] != nil:
			*texts[key] = value
			if key == "hint" || key == "unit" || key == "none" {
				*texts[key] = v.t(language.Text(value))
			}
		case key == "required":
			in.Required = true
		case key == "autofocus":
			in.Autofocus = true
		case key == "may":
			in.May = true
		case key == "pick":
			in.Pick = true
		case key == "value" && !sent:
			f.Values.Set(name, value)
			if in.IsEdit() {
				f.Was.Set(name, value)
			}
		}
	}
	return in
}

// show sets the value that the form shows in an edit, unless it was sent.
func (f *form) show(name, value string) {
	if !f.Values.Has(name) {
		f.Values.Set(name, value)
		f.Was.Set(name, value)
	}
}

// moment returns a time as the value of an input, or "" for nil.
func (v *visit) moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.In(v.zone).Format(momentLayout)
}

func (i input) Value() string { return i.Form.Values.Get(i.Name) }
func (i input) Was() string   { return i.Form.Was.Get(i.Name) }
func (i input) IsEdit() bool  { return i.Form.Tag != "" || i.Form.Was.Has(i.Name) }
func (i input) Error() string { return i.Form.Errors[i.Name] }
func (i input) Theirs() string {
	if values, ok := i.Form.Theirs[i.Name]; ok {
		for _, o := range i.Options {
			if o.Value == values[0] {
				return o.Name
			}
		}
		if i.Kind != "" && values[0] != "" {
			return i.chosen(values[0]).Name
		}
		return cmp.Or(values[0], i.Form.read.visit.t("empty"))
	}
	return ""
}
func (i input) Numeric() bool { return i.Type == "number" }

// rowInput returns the input of a number in a row of a nested list.
func (f *form) rowInput(list string, row int, name string, label language.Text, value num, more ...string) input {
	return newInput(f, fmt.Sprintf("%s[%d].%s", list, row, name), label,
		append(more, "type=number", "value="+f.read.text(value))...)
}

// putRows sets a nested list in a body from inputs such as items[0].sku. It omits objects whose fields are all empty,
// except for the id, and omits the list if all its objects are omitted. In an edit, an object contains its id and the
// fields that the visitor changed, including changes to an empty value.
func (f *form) putRows(body map[string]any, list string, fields ...field) {
	f.rows[list] = nil
	var all []map[string]any
	for i := 0; ; i++ {
		row, here, filled := map[string]any{}, false, false
		for _, in := range fields {
			name := fmt.Sprintf("%s[%d].%s", list, i, in.name)
			if _, ok := f.Values[name]; !ok {
				continue
			}
			here = true
			isEdit := f.Was.Has(name)
			if isEdit && f.Values.Get(name) == f.Was.Get(name) {
				continue
			}
			if value := f.value(field{name, in.kind}); value != nil || isEdit {
				row[in.name] = value
				filled = filled || in.name != "id"
			}
		}
		if filled {
			all = append(all, row)
			body[list] = all
			f.rows[list] = append(f.rows[list], i)
		}
		if !here {
			return
		}
	}
}
