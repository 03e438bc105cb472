package spoolman

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

var keyForm = regexp.MustCompile(server.ExtraKey)

// definition is a custom field in this API.
type definition struct {
	Name     *string  `json:"name"`
	Order    int64    `json:"order"`
	Unit     *string  `json:"unit,omitempty"`
	Type     *string  `json:"field_type"`
	Default  *string  `json:"default_value,omitempty"`
	Choices  []string `json:"choices,omitempty"`
	Multiple *bool    `json:"multi_choice,omitempty"`
	Key      string   `json:"key"`
	Entity   string   `json:"entity_type"`
}

// definitionOf converts a custom field.
func definitionOf(f inventory.CustomField) definition {
	kind := string(*f.Type.Value)
	d := definition{Name: f.Name.Value, Order: f.Position.Or(0), Unit: f.Unit.Value, Type: &kind,
		Default: f.Default.Value,
		Key:     *f.Key.Value, Entity: string(*f.Entity.Value)}
	if kind == "choice" {
		d.Choices, d.Multiple = f.Choices.Or(nil), f.Multiple.Value
	}
	return d
}

// readDefinition decodes and validates a custom field. The status of what contradicts itself is 400, and 422 of what
// has another form.
func readDefinition(text []byte, entity, key string) (f inventory.CustomField, err error) {
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return f, server.Invalid("body", "must be the definition of a custom field")
	}
	switch {
	case d.Name == nil || d.Type == nil:
		return f, server.Invalid("name", "and field_type are required")
	case !keyForm.MatchString(key):
		return f, server.Invalid("key", "must have 1 to 64 lower-case letters, digits and underscores")
	case d.Choices != nil && len(d.Choices) == 0:
		return f, server.Invalid("choices", "must have an entry")
	case *d.Type == "choice" && d.Choices == nil:
		return f, badRequest("A field of the type choice needs choices")
	case *d.Type == "choice" && d.Multiple == nil:
		return f, badRequest("A field of the type choice needs multi_choice")
	case *d.Type != "choice" && (d.Choices != nil || d.Multiple != nil):
		return f, badRequest("Only a field of the type choice has choices and multi_choice")
	}
	native := object{"entity": entity, "key": key, "name": d.Name, "type": d.Type, "position": d.Order, "unit": d.Unit}
	if d.Choices != nil {
		native["choices"], native["multiple"] = d.Choices, d.Multiple
	}
	text, err = json.Marshal(native)
	if err != nil {
		return f, err
	}
	if f, err = server.DecodeBody[inventory.CustomField](text); err != nil || d.Default == nil {
		return f, err
	}
	f.Default = server.Some(*d.Default)
	var problems server.Problems
	if f.Check(&problems); problems.Err() != nil {
		return f, contradiction(problems.Err())
	}
	return f, nil
}

// contradiction converts a 422 of the service to the 400 that this API has for a definition that contradicts itself or
// the one that is there.
func contradiction(err error) error {
	if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 422 {
		return badRequest("%s", e.Detail)
	}
	return err
}

// field lists, defines and removes custom fields, and lists their values.
func (q request) field(method string, parts []string) error {
	if len(parts) == 0 || resources[parts[0]].json == "" {
		return server.Invalid("entity_type", "must be vendor, filament or spool")
	}
	entity := parts[0]
	if len(parts) > 1 && !keyForm.MatchString(parts[1]) {
		return server.Invalid("key", "must have 1 to 64 lower-case letters, digits and underscores")
	}
	switch {
	case len(parts) == 1 && method == http.MethodGet:
	case len(parts) == 3 && parts[2] == "values" && method == http.MethodGet:
		return q.fieldValues(entity, parts[1])
	case len(parts) == 2 && method == http.MethodDelete:
		err := inventory.RemoveField(q.r.Context(), q.db, entity, parts[1])
		if errors.Is(err, server.ErrNotFound) {
			return noField(entity, parts[1])
		}
		if err != nil {
			return contradiction(err)
		}
	case len(parts) == 2 && method == http.MethodPost:
		text, err := server.ReadBody(q.w, q.r)
		if err != nil {
			return err
		}
		f, err := readDefinition(text, entity, parts[1])
		if err == nil {
			err = contradiction(inventory.DefineField(q.r.Context(), q.db, f))
		}
		if err != nil {
			return err
		}
	default:
		return errMethod
	}
	all, err := q.definitions(q.r.Context(), q.db.Read, entity)
	if err != nil {
		return err
	}
	return q.sendJSON(all)
}

func noField(entity, key string) error {
	return &server.Error{Status: 404, Code: "NOT_FOUND", Detail: "There is no custom field " + key + " of a " + entity}
}

// definitions returns the custom fields of an entity.
func (q request) definitions(ctx context.Context, run runner, entity string) ([]definition, error) {
	definitions := inventory.SelectCustomFields(entity)
	if err := run(ctx, definitions); err != nil {
		return nil, err
	}
	fields, err := inventory.CustomFields(definitions)
	all := []definition{}
	for _, f := range fields {
		all = append(all, definitionOf(f))
	}
	return all, err
}

// fieldValues sends the distinct texts of a custom field.
func (q request) fieldValues(entity, key string) error {
	var defined bool
	var items []byte
	err := q.db.Read(q.r.Context(), db.AllowScans(), db.SQL(`
		select exists (select from custom_fields where entity = $2 and key = $3), (
			select coalesce(json_agg(v order by v), '[]')::text from (
				select distinct x.extra ->> $3::text as v from `+entity+`s x
				where x.tenant_id = $1::uuid and x.hidden_at is null and x.extra ->> $3::text <> '' limit 20000
			) found)`, q.tenant(), entity, key).Into(&defined, &items))
	if err != nil {
		return err
	}
	if !defined {
		return noField(entity, key)
	}
	return q.send(items)
}

// setDefinitions makes the custom fields of an entity those of a JSON list, and removes the others.
func (q request) setDefinitions(ctx context.Context, entity, text string) error {
	var items []json.RawMessage
	if json.Unmarshal([]byte(text), &items) != nil {
		return badRequest("extra_fields_%s must be a list of custom fields", entity)
	}
	var keys []string
	var fields []inventory.CustomField
	for i, item := range items {
		var d definition
		if json.Unmarshal(item, &d) != nil || d.Entity != entity || slices.Contains(keys, d.Key) {
			return badRequest("The custom field %d of the list must have the entity_type %s and a key of its own", i,
				entity)
		}
		f, err := readDefinition(item, entity, d.Key)
		if err != nil {
			return contradiction(err)
		}
		keys, fields = append(keys, d.Key), append(fields, f)
	}
	old, err := q.definitions(ctx, q.db.Write, entity)
	if err != nil {
		return err
	}
	for _, d := range old {
		if !slices.Contains(keys, d.Key) {
			if err := inventory.RemoveField(ctx, q.db, entity, d.Key); err != nil &&
				!errors.Is(err, server.ErrNotFound) {
				return err
			}
		}
	}
	for _, f := range fields {
		if err := inventory.DefineField(ctx, q.db, f); err != nil {
			return contradiction(err)
		}
	}
	return nil
}
