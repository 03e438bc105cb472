package web

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"spoolwright/inventory"
	"spoolwright/server"
)

// A form is HTML whose inputs have the names of the fields of an operation. Its hidden inputs are:
//
//	once     an idempotency key, made when the page was shown
//	tag      the ETag of what an edit changes
//	was.F    the value of the field F when the page was shown, in an edit
//
// So a form that is sent twice has one effect, and an edit changes only what the visitor changed.

// form is a form with the values to show and the problems with them.
type form struct {
	Values  url.Values
	Was     url.Values        // of an edit: the values when the page was shown
	Theirs  url.Values        // of an edit: values that somebody else saved meanwhile
	Errors  map[string]string // by field
	Problem string            // with the form as a whole
	Key     string
	Tag     string
	read    reader
	unread  map[string]string // by field: why a text is not a number
}

// newForm returns a form that has not been sent.
func newForm(read reader) *form {
	return &form{Values: url.Values{}, Was: url.Values{}, Theirs: url.Values{}, Errors: map[string]string{},
		Key: rand.Text(), read: read, unread: map[string]string{}}
}

func (v *visit) newForm() *form { return newForm(v.reader()) }

func (v *visit) reader() reader { return reader{v.locale, v.Currency} }

// sent returns the form that the visitor has sent.
func (v *visit) sent() *form {
	f := v.newForm()
	for name, values := range v.r.PostForm {
		if field, ok := strings.CutPrefix(name, "was."); ok {
			f.Was[field] = values
		} else {
			f.Values[name] = values
		}
	}
	if key := f.Values.Get("once"); key != "" {
		f.Key = key
	}
	f.Tag = f.Values.Get("tag")
	return f
}

// kind is how the text of an input becomes a value of JSON.
type kind int

const (
	text    kind = iota
	number       // a text that is no number is sent as it is, so that the API says so
	flag         // a checkbox, or "true" and "false"
	named        // the name of another resource, such as vendor, in place of its id in vendor_id
	perhaps      // "true", "false" or nothing
	list         // texts, separated by commas
	set          // like list, and empty without texts
	span         // two numbers, separated by a dash; one may be missing
)

// field is an input of a form.
type field struct {
	name string
	kind kind
}

// value returns the value of a field as JSON: null for an empty input.
func (f *form) value(in field) any {
	s := strings.TrimSpace(strings.ReplaceAll(f.Values.Get(in.name), "\r\n", "\n"))
	switch {
	case in.kind == flag, in.kind == perhaps && (s == "true" || s == "false"):
		return s == "true"
	case s == "" && in.kind == set:
		return []string{}
	case s == "":
		return nil
	case in.kind == number:
		return f.number(in.name, s)
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

// number returns the number that a text means as the value of a field, nil for an empty text, or a text that means none
// as it is.
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

// put sets a value of a body. The names of custom fields begin with extra.
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

// body returns the JSON of the fields that are not empty.
func (f *form) body(fields ...field) map[string]any {
	body := map[string]any{}
	for _, in := range fields {
		if value := f.value(in); value != nil {
			put(body, in.name, value)
		}
	}
	return body
}

// changed returns the JSON of the fields that the visitor changed.
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

// send runs an operation with the values of the form, with its idempotency key or its ETag. If the API refuses the
// values, it reports false, and the form has the problems. Another error is returned.
func (v *visit) send(f *form, method, path string, body map[string]any, into any) (bool, error) {
	header := http.Header{}
	switch {
	case method == http.MethodPost:
		header.Set("Idempotency-Key", f.Key)
	case f.Tag != "":
		header.Set("If-Match", f.Tag)
	}
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return false, err
		}
	}
	answer := v.call(v.r.Context(), method, path, header, text)
	if err := answer.Err(); err != nil {
		return false, f.refuse(err)
	}
	if into == nil {
		return true, nil
	}
	return true, json.Unmarshal(answer.Body, into)
}

// refuse keeps what an error says about the values of the form. It returns an error that has nothing to do with them.
func (f *form) refuse(err error) error {
	e := server.AsError(err)
	switch {
	case e.Status == 403 || e.Status == 404 || e.Status == 401 || e.Status == 500 || isConflict(err):
		return err
	case e.Code == server.ErrKeyConflict.Code:
		f.Key = rand.Text()
		f.Problem = "This form was already sent with other values, and they were saved. Send it again to save these, too."
		return nil
	}
	for _, problem := range e.Fields {
		name := problem.Field
		_, shown := f.Values[name]
		if !shown { // perhaps changes.location
			name = name[strings.LastIndexByte(name, '.')+1:]
			_, shown = f.Values[name]
		}
		if shown && (name == problem.Field || f.Errors[name] == "") {
			f.Errors[name] = sentence(strings.NewReplacer("must not be null", "is required", inventory.Confirm, confirmIt).
				Replace(problem.Message))
		} else if f.Problem == "" {
			f.Problem = sentence(label(problem.Field) + " " + problem.Message)
		}
	}
	for name, problem := range f.unread {
		f.Errors[name] = sentence(problem)
	}
	if len(e.Fields) == 0 {
		f.Problem = sentence(e.Detail)
	}
	return nil
}

// MustConfirm reports whether the API asks to confirm the value of a field.
func (f *form) MustConfirm(name string) bool { return strings.Contains(f.Errors[name], confirmIt) }

// confirmIt is what a page says in place of the API's inventory.Confirm.
const confirmIt = "confirm it if it is right"

// isConflict reports whether somebody else changed the resource after the page was shown.
func isConflict(err error) bool {
	return err != nil && server.AsError(err).Code == server.ErrPrecondition.Code
}

// edit saves the changed fields of a form. If somebody else changed another field of the resource at the path
// meanwhile, the edit is repeated for the new version. If they changed the same field, edit reports false, and the form
// has both values and the new version: sending it again replaces theirs.
func (v *visit) edit(f *form, path string, fields []field) (bool, error) {
	for range 3 {
		body := f.changed(fields...)
		if len(body) == 0 {
			return true, nil
		}
		ok, err := v.send(f, http.MethodPatch, path, body, nil)
		if !isConflict(err) {
			return ok, err
		}
		now, err := v.formOf(path)
		if err != nil {
			return false, err
		}
		both := false
		for _, in := range fields {
			name := in.name
			mine, was, theirs := f.Values.Get(name), f.Was.Get(name), now.Values.Get(name)
			switch {
			case theirs == was:
			case mine == was || mine == theirs: // only they changed it, or to the same value
				f.Values.Set(name, theirs)
			default:
				f.Theirs.Set(name, theirs)
				both = true
			}
			f.Was.Set(name, theirs)
		}
		f.Tag = now.Tag
		if both {
			f.Problem = "Somebody else changed this meanwhile. Their values are beside yours. " +
				"Save again to replace them."
			return false, nil
		}
	}
	f.Problem = "This changes too often at the moment. Try again."
	return false, nil
}

// formOf returns the resource at a path of the API, as it is now, as a form. More reads are in the same round trip.
func (v *visit) formOf(path string, more ...read) (*form, error) {
	f := v.newForm()
	var values map[string]any
	if err := v.fetch(append(more, read{path: path, into: &values, tag: &f.Tag})...); err != nil {
		return nil, err
	}
	f.fill(values)
	return f, nil
}

// fill sets the values to those of a resource, as they are when the page is shown.
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

// input is an input for the template of that name.
type input struct {
	Form                *form
	Name, Label         string
	Type, Unit, Hint    string
	Required, Autofocus bool
	Options             []option
	List, Rows          string // the id of a datalist; the lines of a longer text
}

type option struct{ Value, Name string }

// labeled returns a choice of the names of the API, as words.
func labeled(names []string) (options []option) {
	for _, name := range names {
		options = append(options, option{name, label(name)})
	}
	return options
}

// newInput returns an input of a form. More are required, autofocus, and settings such as unit=g. A value is that of a
// form that was not sent.
func newInput(f *form, name, label string, more ...string) input {
	in := input{Form: f, Name: name, Label: label}
	texts := map[string]*string{"type": &in.Type, "unit": &in.Unit, "hint": &in.Hint, "list": &in.List, "rows": &in.Rows}
	for _, word := range more {
		key, value, _ := strings.Cut(word, "=")
		_, sent := f.Values[name]
		switch {
		case texts[key] != nil:
			*texts[key] = value
		case key == "required":
			in.Required = true
		case key == "autofocus":
			in.Autofocus = true
		case key == "value" && !sent:
			f.Values.Set(name, value)
		}
	}
	return in
}

func (i input) Value() string { return i.Form.Values.Get(i.Name) }
func (i input) Was() string   { return i.Form.Was.Get(i.Name) }
func (i input) IsEdit() bool  { return i.Form.Tag != "" }
func (i input) Error() string { return i.Form.Errors[i.Name] }
func (i input) Theirs() string {
	if values, ok := i.Form.Theirs[i.Name]; ok {
		if values[0] == "" {
			return "empty"
		}
		return values[0]
	}
	return ""
}
func (i input) Numeric() bool { return i.Type == "number" }

// label returns the name of a field of the API as words.
func label(name string) string {
	name = strings.NewReplacer("_grams", "", "_", " ").Replace(name)
	return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
}

// sentence returns a message of the API as a sentence.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
