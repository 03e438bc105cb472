package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
)

// A file of Spoolman has the values of custom fields and, except for what `export spoolman` writes, not their
// definitions. Without definitions, nobody could send the values back. So an import creates those that are missing.

// definitions are custom fields by entity and key.
type definitions map[string]map[string]*CustomField

// definitionsOf returns the definitions of all fields that a statement has returned.
func definitionsOf(s *db.Stmt) (definitions, error) {
	all, err := CustomFields(s)
	d := definitions{"vendor": {}, "filament": {}, "spool": {}}
	for i := range all {
		d.add(&all[i])
	}
	return d, err
}

func (d definitions) add(f *CustomField) { d[string(*f.Entity.Value)][*f.Key.Value] = f }

// prepareFields finds out which definitions are missing. It makes texts of the values of fields with this type, and
// adds the values that do not conform to the definitions to the problems of the items.
func (w *spoolmanWriter) prepareFields(ctx context.Context) error {
	existing := SelectCustomFields("spool", "filament", "vendor")
	if err := w.d.Read(ctx, existing); err != nil {
		return err
	}
	known, err := definitionsOf(existing)
	if err != nil {
		return err
	}
	w.fields = nil
	define := func(f CustomField) {
		known.add(&f)
		w.fields = append(w.fields, f)
	}
	for _, f := range w.source.fields {
		old := known[string(*f.Entity.Value)][*f.Key.Value]
		switch {
		case old == nil:
			define(f)
		case addChoices(old, &f):
			define(*old)
		}
	}
	for _, t := range spoolmanTables {
		values := map[string][]json.RawMessage{}
		for _, item := range w.source.items[t.entity] {
			if len(item.problems) > 0 {
				continue
			}
			for key, value := range item.extra() {
				if known[t.entity][key] == nil {
					values[key] = append(values[key], value)
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			define(inferField(t.entity, key, values[key]))
		}
		if n := len(known[t.entity]); n > maxCustomFields && len(w.fields) > 0 {
			return fmt.Errorf("a %s would have %d custom fields, but at most %d are possible", t.entity, n, maxCustomFields)
		}
		for _, item := range w.source.items[t.entity] {
			if len(item.problems) == 0 {
				item.problems = item.extraProblems(known[t.entity])
			}
		}
	}
	return nil
}

// addChoices adds the choices of a definition to those of an old one, and reports whether there are new ones.
func addChoices(old, f *CustomField) bool {
	if *old.Type.Value != "choice" || *f.Type.Value != "choice" || old.Multiple.Or(false) != f.Multiple.Or(false) {
		return false
	}
	all := slices.Clone(old.Choices.Or(nil))
	for _, choice := range f.Choices.Or(nil) {
		if !slices.Contains(all, choice) {
			all = append(all, choice)
		}
	}
	if len(all) == len(old.Choices.Or(nil)) || len(all) > server.MaxTexts {
		return false
	}
	old.Choices = server.Some(all)
	return true
}

// hasExtra reports whether an item has values of custom fields.
func (s *spoolmanSource) hasExtra() bool {
	for _, items := range s.items {
		if slices.ContainsFunc(items, func(i *spoolmanItem) bool { return len(i.extra()) > 0 }) {
			return true
		}
	}
	return false
}

// extra returns the values of the item's custom fields.
func (i *spoolmanItem) extra() map[string]json.RawMessage {
	extra, _ := i.values["extra"].(map[string]json.RawMessage)
	return extra
}

// extraProblems returns the problems with the values of custom fields. It makes texts of those of fields with this
// type.
func (i *spoolmanItem) extraProblems(known map[string]*CustomField) (problems []server.FieldError) {
	extra := i.extra()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		f := known[key]
		if f == nil {
			problems = append(problems, server.FieldError{Field: "extra." + key, Message: "is not a custom field"})
			continue
		}
		if *f.Type.Value == "text" {
			extra[key] = textValue(extra[key])
		}
		if problem := f.valueProblem(extra[key]); problem != "" {
			problems = append(problems, server.FieldError{Field: "extra." + key,
				Message: fmt.Sprintf("%s; the value is %s", problem, firstRunes(string(extra[key]), 60))})
		}
	}
	return problems
}

// textValue returns a value, as a text if it is none.
func textValue(value json.RawMessage) json.RawMessage {
	if len(value) > 0 && value[0] == '"' {
		return value
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) == nil {
		value = compact.Bytes()
	}
	text, _ := json.Marshal(string(value))
	return text
}

// timeForm is the form of a point in time as Spoolman writes it.
var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d`)

// inferField returns the definition of a field with these values: the narrowest type that fits all of them, or else
// text.
func inferField(entity, key string, values []json.RawMessage) CustomField {
	name := strings.TrimSpace(strings.ReplaceAll(key, "_", " "))
	if name == "" {
		name = key
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	choices := []string{}
	isTime := true
	for _, value := range values {
		var text string
		isText := json.Unmarshal(value, &text) == nil
		_, ok := ParseSpoolmanTime(text)
		isTime = isTime && isText && ok && timeForm.MatchString(text)
		var list []string
		if json.Unmarshal(value, &list) == nil {
			for _, choice := range list {
				if !slices.Contains(choices, choice) {
					choices = append(choices, choice)
				}
			}
		}
	}
	types := []string{"boolean", "integer", "float", "integer_range", "float_range"}
	if isTime {
		types = append(types, "datetime")
	}
	types = append(types, "choice")
	for _, t := range types {
		body := map[string]any{"entity": entity, "key": key, "name": name, "type": t}
		if t == "choice" {
			body["choices"], body["multiple"] = choices, true
		}
		text, err := json.Marshal(body)
		if err != nil {
			continue
		}
		f, err := server.DecodeBody[CustomField](text)
		if err == nil && !slices.ContainsFunc(values, func(v json.RawMessage) bool { return f.valueProblem(v) != "" }) {
			return f
		}
	}
	return CustomField{Entity: server.Some(CustomEntity(entity)), Key: server.Some(key), Name: server.Some(name),
		Type: server.Some(CustomType("text"))}
}

var errFieldsChanged = errors.New("custom fields were changed meanwhile; try again")

// define creates the definitions that are missing, in the transaction of ctx, and locks all until its end. The error
// is errFieldsChanged if the values do not conform to them, because someone else has changed them.
func (w *spoolmanWriter) define(ctx context.Context) error {
	for _, f := range w.fields {
		err := DefineField(ctx, w.d, f)
		if _, ok := errors.AsType[*server.Error](err); ok || db.Violates(err, "custom_fields_key") {
			return errFieldsChanged
		}
		if err != nil {
			return err
		}
	}
	locked := db.SQL(`select ` + customFieldColumns + ` from custom_fields order by id for share`)
	if err := w.d.Write(ctx, locked); err != nil {
		return err
	}
	known, err := definitionsOf(locked)
	if err != nil {
		return err
	}
	for entity, items := range w.source.items {
		for _, item := range items {
			if len(item.problems) == 0 && len(item.extraProblems(known[entity])) > 0 {
				return errFieldsChanged
			}
		}
	}
	return nil
}
