package spoolman

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

var keyForm = regexp.MustCompile(value.ExtraKey)

// definition is the definition of a custom field in requests and responses of this API.
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

// readDefinition decodes and validates the definition of a custom field. The error is a 422 if the definition has the
// wrong form, and a 400 if its fields contradict each other.
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
	f.Default = value.Some(*d.Default)
	var problems server.Problems
	if f.Check(&problems); problems.Err() != nil {
		return f, contradiction(problems.Err())
	}
	return f, nil
}

// contradiction converts a 422 to a 400. This API responds 400 if a definition contradicts itself or the stored
// definition of the same field.
func contradiction(err error) error {
	if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 422 {
		return badRequest("%s", e.Detail)
	}
	return err
}

// entity returns the entity in the path of a request about custom fields: vendor, filament or spool.
func (q request) entity() (string, error) {
	entity := q.r.PathValue("entity")
	if resources[entity].json == "" {
		return "", server.Invalid("entity_type", "must be vendor, filament or spool")
	}
	return entity, nil
}

// entityKey returns the entity and the key of the custom field in the path of a request.
func (q request) entityKey() (entity, key string, err error) {
	if entity, err = q.entity(); err != nil {
		return "", "", err
	}
	if key = q.r.PathValue("key"); !keyForm.MatchString(key) {
		return "", "", server.Invalid("key", "must have 1 to 64 lower-case letters, digits and underscores")
	}
	return entity, key, nil
}

func (q request) fields() error {
	entity, err := q.entity()
	if err != nil {
		return err
	}
	return q.sendFields(entity)
}

func (q request) sendFields(entity string) error {
	all, err := q.definitions(q.r.Context(), q.db.Read, entity)
	if err != nil {
		return err
	}
	return q.sendJSON(all)
}

func (q request) defineField() error {
	entity, key, err := q.entityKey()
	if err != nil {
		return err
	}
	text, err := server.ReadBody(q.w, q.r)
	if err != nil {
		return err
	}
	f, err := server.DecodesBody(q.r.Context(), text, func() (inventory.CustomField, error) {
		return readDefinition(text, entity, key)
	})
	if err == nil {
		err = contradiction(inventory.DefineField(q.r.Context(), q.db, f))
	}
	if err != nil {
		return err
	}
	return q.sendFields(entity)
}

func (q request) removeField() error {
	entity, key, err := q.entityKey()
	if err != nil {
		return err
	}
	err = inventory.RemoveField(q.r.Context(), q.db, entity, key)
	if errors.Is(err, server.ErrNotFound) {
		return noField(entity, key)
	}
	if err != nil {
		return contradiction(err)
	}
	return q.sendFields(entity)
}

func noField(entity, key string) error {
	return &server.Error{Status: 404, Code: "NOT_FOUND", Detail: "No custom field " + key + " exists for " + entity + "s"}
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

// fieldValues sends the distinct values of a custom field as texts.
func (q request) fieldValues() error {
	entity, key, err := q.entityKey()
	if err != nil {
		return err
	}
	var defined bool
	var items []byte
	err = q.db.Read(q.r.Context(), db.FreshPlan(), db.SQL(`
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

// setDefinitions defines all custom fields of an entity. text is a JSON list of definitions. setDefinitions removes
// the custom fields of the entity that the list does not contain.
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
