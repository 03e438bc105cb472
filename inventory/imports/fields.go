package imports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// A file has values of custom fields, but no definitions. The API rejects values without definitions, so an import
// creates the missing definitions.

// ImportedField is a custom field that an import has defined.
type ImportedField struct {
	Key  string               `json:"key" rule:"notNull"`
	Type inventory.CustomType `json:"type" rule:"notNull"`
}

func importedFields(created []inventory.CustomField) []ImportedField {
	all := make([]ImportedField, len(created))
	for i, f := range created {
		all[i] = ImportedField{*f.Key.Value, *f.Type.Value}
	}
	return all
}

// Notes returns further lines that the import command prints after the counts.
func (r Imported) Notes() (lines []string) {
	if len(r.CustomFields) > 0 {
		lines = append(lines, fmt.Sprintf("custom fields created: %d", len(r.CustomFields)))
	}
	for _, f := range r.CustomFields {
		lines = append(lines, fmt.Sprintf("  %s: %s", f.Key, f.Type))
	}
	return lines
}

// fieldGuesses collects the values of custom fields without definitions, by key.
type fieldGuesses map[string]*fieldGuess

// add collects the values of an item that have no definitions, and returns the other values. It drops nulls, which
// need no definition.
func (g fieldGuesses) add(defined []inventory.CustomField, extra value.Extra) (known value.Extra) {
	known = value.Extra{}
	for key, value := range extra {
		switch {
		case inventory.FieldWithKey(defined, key) != nil:
			known[key] = value
		case string(value) != "null":
			if g[key] == nil {
				g[key] = newFieldGuess()
			}
			g[key].add(value)
		}
	}
	return known
}

// define creates the missing definitions of an entity in the transaction of ctx, unless it is a dry run, and returns
// them. The error is a 422.
func (g fieldGuesses) define(
	ctx context.Context, d *db.DB, entity string, defined int, dryRun bool,
) (created []inventory.CustomField, err error) {
	for _, key := range slices.Sorted(maps.Keys(g)) {
		created = append(created, g[key].field(entity, key))
	}
	if n := defined + len(created); n > inventory.MaxCustomFields && created != nil {
		return nil, server.Invalid("extra", "would give a %s %d custom fields, but at most %d are possible", entity, n,
			inventory.MaxCustomFields)
	}
	if dryRun {
		return created, nil
	}
	for _, f := range created {
		err := inventory.DefineField(ctx, d, f)
		if _, ok := errors.AsType[*server.Error](err); ok || db.Violates(err, "custom_fields_key") {
			return nil, server.Invalid("extra", "has a custom field that was defined in the meantime; try "+
				"again").Because(err)
		}
		if err != nil {
			return nil, err
		}
	}
	return created, nil
}

// conform converts the values of created fields of type text to texts, and deletes nulls without a definition.
func conform(defined, created []inventory.CustomField, extra value.Extra) {
	for key, value := range extra {
		f := inventory.FieldWithKey(created, key)
		switch {
		case f == nil && string(value) == "null" && inventory.FieldWithKey(defined, key) == nil:
			delete(extra, key)
		case f != nil && string(value) != "null" && *f.Type.Value == "text":
			extra[key] = textValue(value)
		}
	}
}

// extrasOf returns the custom field values of each row of a file. It leaves out the rows that the mode skips.
func extrasOf[T any](mode transfer.Mode, rows []transfer.Record[T], of func(*T) value.Extra) []value.Extra {
	all := make([]value.Extra, len(rows))
	for i := range rows {
		if mode != transfer.Update || rows[i].Keys != nil {
			all[i] = of(&rows[i].In)
		}
	}
	return all
}

// checkExtras locks the definitions of the entity's custom fields until the end of the transaction. It calls problem
// for each value in a row of the file that does not conform to its definition. It creates the missing definitions,
// if define is set and it is not a dry run, and returns them.
func checkExtras(ctx context.Context, d *db.DB, entity string, extras []value.Extra, define, dryRun bool,
	problem func(row int, field, message string)) ([]ImportedField, error) {
	if !slices.ContainsFunc(extras, func(e value.Extra) bool { return len(e) > 0 }) {
		return []ImportedField{}, nil
	}
	locked := inventory.LockCustomFields(entity)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	defined, err := inventory.CustomFields(locked)
	if err != nil {
		return nil, err
	}
	guesses := fieldGuesses{}
	if define {
		for _, extra := range extras {
			guesses.add(defined, extra)
		}
	}
	created, err := guesses.define(ctx, d, entity, len(defined), dryRun)
	if err != nil {
		return nil, err
	}
	defined = append(defined, created...)
	for i, extra := range extras {
		conform(defined, created, extra)
		for _, p := range inventory.ExtraProblems(defined, extra) {
			problem(i, p.Field, p.Message)
		}
		for _, key := range slices.Sorted(maps.Keys(extra)) {
			var text string
			if f := inventory.FieldWithKey(defined, key); f == nil || *f.Type.Value != "text" ||
				json.Unmarshal(extra[key], &text) != nil {
				continue
			}
			if damage := transfer.Rounded(text); damage != "" {
				problem(i, "extra."+key, damage)
			}
		}
	}
	return importedFields(created), nil
}

// fieldGuess describes all values of a custom field without a definition.
type fieldGuess struct {
	types          []inventory.CustomType // types that fit all values, the narrowest first
	isTime, isList bool                   // whether all values are times, or lists of texts
	choices        []string               // texts in the lists
}

func newFieldGuess() *fieldGuess {
	return &fieldGuess{
		types:  []inventory.CustomType{"boolean", "integer", "float", "integer_range", "float_range"},
		isTime: true, isList: true,
	}
}

// ParseTime parses a time in ISO 8601. A time without an offset is in UTC.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04", "2006-01-02"} {
		for _, zone := range []string{"Z07:00", ""} {
			if t, err := time.Parse(layout+zone, s); err == nil && t.Year() > 0 && t.Year() < 10000 {
				return t.UTC(), true
			}
		}
	}
	return time.Time{}, false
}

// timeForm is the form of a point in time as Spoolman writes it.
var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d`)

func (g *fieldGuess) add(encoded json.RawMessage) {
	g.types = slices.DeleteFunc(g.types, func(t inventory.CustomType) bool {
		return (&inventory.CustomField{Type: value.Some(t)}).ValueProblem(encoded) != ""
	})
	var text string
	isText := json.Unmarshal(encoded, &text) == nil
	_, ok := ParseTime(text)
	g.isTime = g.isTime && isText && ok && timeForm.MatchString(text)
	var list []string
	g.isList = g.isList && bytes.HasPrefix(encoded, []byte("[")) && json.Unmarshal(encoded, &list) == nil
	for _, choice := range list {
		if g.isList && !slices.Contains(g.choices, choice) {
			g.choices = append(g.choices, choice)
			g.isList = len(g.choices) <= value.MaxTexts
		}
	}
}

// field returns a definition for the field. Its type is the narrowest type that fits all values, or else text.
func (g *fieldGuess) field(entity, key string) inventory.CustomField {
	name := strings.TrimSpace(strings.ReplaceAll(key, "_", " "))
	name = cmp.Or(name, key)
	f := inventory.CustomField{Entity: value.Some(inventory.CustomEntity(entity)), Key: value.Some(key),
		Name: value.Some(strings.ToUpper(name[:1]) + name[1:]), Type: value.Some(inventory.CustomType("text"))}
	switch {
	case len(g.types) > 0:
		f.Type = value.Some(g.types[0])
	case g.isTime:
		f.Type = value.Some(inventory.CustomType("datetime"))
	case g.isList && len(g.choices) > 0:
		text, err := json.Marshal(map[string]any{"entity": entity, "key": key, "name": *f.Name.Value, "type": "choice",
			"choices": g.choices, "multiple": true})
		if err == nil {
			if choice, err := server.DecodeBody[inventory.CustomField](text); err == nil {
				f = choice
			}
		}
	}
	return f
}

// textValue converts a JSON value that is not a string to a JSON string.
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
