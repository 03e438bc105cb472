package imports

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// A source may have definitions of custom fields. Files have no definitions; see fields.go.

type definitions map[string]map[string]*inventory.CustomField

// definitionsOf decodes the definitions that a statement returned.
func definitionsOf(s *db.Stmt) (definitions, error) {
	all, err := inventory.CustomFields(s)
	d := definitions{"vendor": {}, "filament": {}, "spool": {}}
	for i := range all {
		d.add(&all[i])
	}
	return d, err
}

func (d definitions) add(f *inventory.CustomField) { d[string(*f.Entity.Value)][*f.Key.Value] = f }

// prepareFields finds the missing definitions. It converts values of text fields to texts, and adds a problem to an
// item for each value that does not conform to its definition.
func (w *sourceWriter) prepareFields(ctx context.Context) error {
	existing := inventory.SelectCustomFields("spool", "filament", "vendor")
	if err := w.d.Read(ctx, existing); err != nil {
		return err
	}
	known, err := definitionsOf(existing)
	if err != nil {
		return err
	}
	w.fields = nil
	define := func(f inventory.CustomField) {
		known.add(&f)
		w.fields = append(w.fields, f)
	}
	for _, f := range w.source.Fields {
		old := known[string(*f.Entity.Value)][*f.Key.Value]
		switch {
		case old == nil:
			define(f)
		case addChoices(old, &f):
			define(*old)
		}
	}
	for _, t := range itemTables {
		guesses := fieldGuesses{}
		for _, item := range w.source.Items[t.entity] {
			if len(item.Problems) > 0 {
				continue
			}
			for key, value := range item.extra() {
				if known[t.entity][key] == nil {
					if guesses[key] == nil {
						guesses[key] = newFieldGuess()
					}
					guesses[key].add(value)
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(guesses)) {
			define(guesses[key].field(t.entity, key))
		}
		if n := len(known[t.entity]); n > inventory.MaxCustomFields && len(w.fields) > 0 {
			return language.Error("a %s would have %d custom fields, but at most %d are possible", t.entity, n,
				inventory.MaxCustomFields)
		}
		for _, item := range w.source.Items[t.entity] {
			if len(item.Problems) == 0 {
				item.Problems = item.extraProblems(known[t.entity])
			}
		}
	}
	return nil
}

// addChoices adds the new choices of f to the definition old, and reports whether there were any.
func addChoices(old, f *inventory.CustomField) bool {
	if *old.Type.Value != "choice" || *f.Type.Value != "choice" || old.Multiple.Or(false) != f.Multiple.Or(false) {
		return false
	}
	all := slices.Clone(old.Choices.Or(nil))
	for _, choice := range f.Choices.Or(nil) {
		if !slices.Contains(all, choice) {
			all = append(all, choice)
		}
	}
	if len(all) == len(old.Choices.Or(nil)) || len(all) > value.MaxTexts {
		return false
	}
	old.Choices = value.Some(all)
	return true
}

// hasExtra reports whether an item has values of custom fields.
func (s *sourceFile) hasExtra() bool {
	for _, items := range s.Items {
		if slices.ContainsFunc(items, func(i *sourceItem) bool { return len(i.extra()) > 0 }) {
			return true
		}
	}
	return false
}

// extra returns the values of the item's custom fields.
func (i *sourceItem) extra() map[string]json.RawMessage {
	extra, _ := i.Values["extra"].(map[string]json.RawMessage)
	return extra
}

// extraProblems returns the problems with the item's values of custom fields. It converts values of text fields to
// texts.
func (i *sourceItem) extraProblems(known map[string]*inventory.CustomField) (problems []server.FieldError) {
	extra := i.extra()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		f := known[key]
		if f == nil {
			problems = append(problems, server.FieldError{Field: "extra." + key, Message: language.Sprintf(
				"is not a custom field")})
			continue
		}
		if *f.Type.Value == "text" {
			extra[key] = textValue(extra[key])
		}
		if problem := f.ValueProblem(extra[key]); problem != "" {
			problems = append(problems, server.FieldError{Field: "extra." + key,
				Message: problem + "; " + language.Sprintf("the value is %s", beginning(extra[key]))})
		}
	}
	return problems
}

// beginning returns the first characters of a value, for a message.
func beginning(value json.RawMessage) string {
	runes := []rune(string(value))
	return string(runes[:min(len(runes), 60)])
}

var errFieldsChanged = server.Invalid("extra", "custom fields were changed in the meantime; try again")

// define creates the missing definitions in the transaction of ctx, and locks all definitions until its end. The
// error is errFieldsChanged if the values no longer conform because another transaction changed the definitions.
func (w *sourceWriter) define(ctx context.Context) error {
	for _, f := range w.fields {
		err := inventory.DefineField(ctx, w.d, f)
		if _, ok := errors.AsType[*server.Error](err); ok || db.Violates(err, "custom_fields_key") {
			return errFieldsChanged
		}
		if err != nil {
			return err
		}
	}
	locked := inventory.LockAllCustomFields()
	if err := w.d.Write(ctx, locked); err != nil {
		return err
	}
	known, err := definitionsOf(locked)
	if err != nil {
		return err
	}
	for entity, items := range w.source.Items {
		for _, item := range items {
			if len(item.Problems) == 0 && len(item.extraProblems(known[entity])) > 0 {
				return errFieldsChanged
			}
		}
	}
	return nil
}
