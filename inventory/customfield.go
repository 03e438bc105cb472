package inventory

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

var customFieldTag = &server.Tag{
	Name: "custom-fields", Fields: fields,
	Description: "Fields that a tenant adds to its spools, filaments and vendors. `extra` has their values.",
}

// CustomEntity is the kind of resource that has a custom field.
type CustomEntity string

// Enum returns all entities.
func (CustomEntity) Enum() []string { return []string{"spool", "filament", "vendor"} }

// CustomType is the type of a custom field.
type CustomType string

// Enum returns all types. A range is a list of two numbers, which can be null.
func (CustomType) Enum() []string {
	return []string{"text", "integer", "integer_range", "float", "float_range", "datetime", "boolean", "choice"}
}

// CustomField is the definition of a custom field in requests and responses.
type CustomField struct {
	ID        value.UUID                   `json:"id" rule:"readOnly,notNull"`
	Entity    value.Optional[CustomEntity] `json:"entity" rule:"required"`
	Key       value.Optional[string]       `json:"key" rule:"required,maxLength=64"`
	Name      value.Optional[string]       `json:"name" rule:"required"`
	Type      value.Optional[CustomType]   `json:"type" rule:"required"`
	Position  value.Optional[int64]        `json:"position" rule:"notNull,maximum=1000000"`
	Unit      value.Optional[string]       `json:"unit"`
	Default   value.Optional[string]       `json:"default_value" rule:"maxLength=10000"`
	Choices   value.Optional[value.Texts]  `json:"choices" rule:"notNull"`
	Multiple  value.Optional[bool]         `json:"multiple" rule:"notNull"`
	CreatedAt value.Timestamp              `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt value.Timestamp              `json:"updated_at" rule:"readOnly,notNull"`
}

// CustomFieldChange is the request to change a custom field.
type CustomFieldChange struct {
	Entity   value.Optional[CustomEntity] `json:"entity" rule:"readOnly"`
	Key      value.Optional[string]       `json:"key" rule:"readOnly"`
	Name     value.Optional[string]       `json:"name" rule:"required"`
	Type     value.Optional[CustomType]   `json:"type" rule:"readOnly"`
	Position value.Optional[int64]        `json:"position" rule:"notNull,maximum=1000000"`
	Unit     value.Optional[string]       `json:"unit"`
	Default  value.Optional[string]       `json:"default_value" rule:"maxLength=10000"`
	Choices  value.Optional[value.Texts]  `json:"choices" rule:"notNull"`
	Multiple value.Optional[bool]         `json:"multiple" rule:"readOnly"`
}

const (
	customFieldColumns = `id, entity, key, name, type, position, unit, default_value, array_to_json(choices) as choices,
		multiple, created_at, updated_at`

	// MaxCustomFields is the maximum number of custom fields of an entity.
	MaxCustomFields = 100
)

var customKeyForm = regexp.MustCompile(value.ExtraKey)

// Check validates the fields of a POST. A PATCH is checked by CustomField.change instead, because it has no type.
func (f *CustomField) Check(problems *server.Problems) {
	if f.Type.IsNull() {
		return
	}
	if !f.Key.IsNull() && !customKeyForm.MatchString(*f.Key.Value) {
		problems.Add("key", "must have only lower-case letters, digits and underscores")
	}
	if field, problem := f.problem(); problem != "" {
		problems.Add(field, "%s", problem)
	}
}

// problem returns the first contradiction in a definition, and the name of the field that causes it.
func (f *CustomField) problem() (field, problem string) {
	isChoice, choices := *f.Type.Value == "choice", f.Choices.Or(nil)
	switch {
	case isChoice && len(choices) == 0:
		return "choices", language.Sprintf("are required for the type choice")
	case !isChoice && len(choices) > 0:
		return "choices", language.Sprintf("belong to the type choice only")
	case !isChoice && f.Multiple.Or(false):
		return "multiple", language.Sprintf("belongs to the type choice only")
	case f.Default.IsNull():
		return "", ""
	}
	return "default_value", f.ValueProblem(json.RawMessage(*f.Default.Value))
}

// ValueProblem returns the problem with the value of the field, or "".
func (f *CustomField) ValueProblem(text json.RawMessage) string {
	if problem := (value.Extra{"value": text}).Problem(); problem != "" || !json.Valid(text) {
		return language.Sprintf("must be JSON that can be stored")
	}
	var value any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return language.Sprintf("must be JSON")
	}
	list, isList := value.([]any)
	_, isText := value.(string)
	isChoice := func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(f.Choices.Or(nil), s)
	}
	switch t := *f.Type.Value; t {
	case "text", "datetime":
		if !isText {
			return language.Sprintf("must be a text")
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return language.Sprintf("must be true or false")
		}
	case "integer", "float":
		if !isNumber(value, t == "integer") {
			return language.Sprintf("must be a number of the type %s", t)
		}
	case "integer_range", "float_range":
		inRange := func(v any) bool { return v == nil || isNumber(v, t == "integer_range") }
		if len(list) != 2 || !inRange(list[0]) || !inRange(list[1]) {
			return language.Sprintf("must be a list of two numbers of the type %s, or null",
				strings.TrimSuffix(string(t), "_range"))
		}
	case "choice":
		switch multiple := f.Multiple.Or(false); {
		case multiple && (!isList || slices.ContainsFunc(list, func(v any) bool { return !isChoice(v) })):
			return language.Sprintf("must be a list of choices of the field")
		case !multiple && !isChoice(value):
			return language.Sprintf("must be one of the choices of the field")
		}
	}
	return ""
}

// isNumber reports whether a decoded value is a number, and, if whole is set, whether it is an integer.
func isNumber(v any, whole bool) bool {
	n, ok := v.(json.Number)
	return ok && !(whole && strings.ContainsAny(string(n), ".eE"))
}

// LockCustomFields returns a statement that reads the definitions of an entity's custom fields and locks them until
// the end of the transaction.
func LockCustomFields(entity string) *db.Stmt {
	return db.SQL(`select `+customFieldColumns+` from custom_fields where entity = $1 for share`, entity)
}

// LockAllCustomFields is LockCustomFields for every entity.
func LockAllCustomFields() *db.Stmt {
	return db.SQL(`select ` + customFieldColumns + ` from custom_fields order by id for share`)
}

// CustomFields decodes the definitions that a statement returned. The statement must select customFieldColumns.
func CustomFields(s *db.Stmt) (all []CustomField, err error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(s.Array(), &rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		f, err := server.DecodeBody[CustomField](row)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// SelectCustomFields returns a statement that reads the definitions of the entities' custom fields. CustomFields
// decodes its rows.
func SelectCustomFields(entities ...string) *db.Stmt {
	return db.SQL(`select `+customFieldColumns+` from custom_fields where entity = any ($1::text[])
		order by entity, created_at, id`, entities)
}

// FieldWithKey returns the definition with a key, or nil.
func FieldWithKey(fields []CustomField, key string) *CustomField {
	i := slices.IndexFunc(fields, func(f CustomField) bool { return *f.Key.Value == key })
	if i < 0 {
		return nil
	}
	return &fields[i]
}

// withExtra runs change in a transaction if the values conform to the definitions of the custom fields. The
// transaction locks the definitions. Without values, withExtra only runs change.
func withExtra(ctx context.Context, d *db.DB, entity string, extra value.Optional[value.Extra],
	change func(context.Context) error) error {
	if len(extra.Or(nil)) == 0 {
		return change(ctx)
	}
	err := d.Tx(ctx, func(ctx context.Context) error {
		if err := CheckExtra(ctx, d, entity, *extra.Value); err != nil {
			return err
		}
		return change(ctx)
	})
	for _, check := range []string{"spools_valid", "filaments_extra_check", "vendors_extra_check"} {
		if db.Violates(err, check) { // other conditions of spools_valid were checked before
			return errLongExtra.Because(err)
		}
	}
	return err
}

var errLongExtra = server.BadRequest("EXTRA_TOO_LONG",
	"The values of all custom fields of an item have at most 100,000 characters").On("extra")

// ExtraProblems returns the problems with the values of custom fields.
func ExtraProblems(defined []CustomField, extra value.Extra) (problems server.Problems) {
	for key, value := range extra {
		if f := FieldWithKey(defined, key); f == nil {
			problems.Add("extra."+key, "is not a custom field: POST /api/v1/custom-fields defines one")
		} else if problem := f.ValueProblem(value); problem != "" && string(value) != "null" {
			problems.Add("extra."+key, "%s", problem)
		}
	}
	return problems
}

// CheckExtra returns a 422 unless the values conform to the definitions of the entity's custom fields. It locks
// these definitions until the end of the transaction. A null needs a definition but fits every type.
func CheckExtra(ctx context.Context, d *db.DB, entity string, extra value.Extra) error {
	locked := LockCustomFields(entity)
	if err := d.Write(ctx, locked); err != nil {
		return err
	}
	defined, err := CustomFields(locked)
	if err != nil {
		return err
	}
	return ExtraProblems(defined, extra).Err()
}

// customFieldFilter are the parameters of the list of custom fields.
type customFieldFilter struct {
	Entity value.Optional[CustomEntity] `query:"entity"`
}

var listCustomFieldsDoc = &server.Doc{
	ID: "listCustomFields", Tag: customFieldTag, Summary: "List custom fields",
	Description: "Lists the definitions of the custom fields.",
}

func (f customFieldFilter) list() *server.List {
	l := server.NewList("custom_fields", customFieldColumns, "", "")
	l.CountOrdered()
	l.WhereEqual("entity", f.Entity)
	return l
}

var getCustomFieldDoc = &server.Doc{
	ID: "getCustomField", Tag: customFieldTag, Summary: "Get a custom field",
	Description: "Returns the definition of a custom field.",
}

func selectCustomField(id string) *db.Stmt {
	return db.SQL(`select `+customFieldColumns+` from custom_fields where id = $1`, id)
}

var lockCustomField = server.LockRow("custom_fields")

var (
	errDuplicateField = server.Conflict("DUPLICATE_CUSTOM_FIELD", "A custom field %s of a %s already exists", "tag",
		"spool").On("key")
	errManyFields = server.Invalid("entity", "has %d custom fields already", MaxCustomFields)
	errFieldInUse = server.Invalid("id", "cannot be removed: more than %d items have a value of the custom field",
		maxFollowers)
)

var createCustomFieldDoc = &server.Doc{
	ID: "createCustomField", Tag: customFieldTag, Summary: "Define a custom field",
	Description: "Afterwards, `extra` of spools, filaments or vendors can have a value with the key. The type " +
		"`choice` needs `choices`; with `multiple`, a value is a list of them. A spool, filament or vendor has at " +
		"most 100 custom fields.",
	Errors: []*server.Error{errDuplicateField},
}

func (h handlers) createCustomField(
	ctx context.Context, r *server.Request[CustomField],
) (server.Created[CustomField], error) {
	field := insertCustomField(&r.In)
	err := h.db.Write(ctx, field)
	switch entity := string(*r.In.Entity.Value); {
	case db.Violates(err, "custom_fields_key"):
		return nil, errDuplicateField.With(*r.In.Key.Value, entity).Because(err)
	case err == nil && field.Rows() == 0:
		return nil, errManyFields
	}
	return server.One(field, err)
}

// insertCustomField returns a statement that creates a custom field and returns it. The statement returns no row if
// the entity has MaxCustomFields fields already.
func insertCustomField(in *CustomField) *db.Stmt {
	return db.SQL(`
		insert into custom_fields (id, entity, key, name, type, position, unit, default_value, choices, multiple)
		select $1::uuid, $2, $3, $4, $5, $6::int, $7, $8, $9::text[], $10::boolean
		where (select count(*) from custom_fields where entity = $2) < `+strconv.Itoa(MaxCustomFields)+`
		returning `+customFieldColumns,
		value.NewID(), in.Entity.Arg(), in.Key.Arg(), in.Name.Arg(), in.Type.Arg(), in.Position.Or(0), in.Unit.Arg(),
		in.Default.Arg(), []string(in.Choices.Or(value.Texts{})), in.Multiple.Or(false))
}

var updateCustomFieldDoc = &server.Doc{
	ID: "updateCustomField", Tag: customFieldTag, Summary: "Update a custom field",
	Description: "`entity`, `key`, `type` and `multiple` stay as they are, and choices cannot be removed, because " +
		"values depend on them.",
}

func (h handlers) updateCustomField(
	ctx context.Context, r *server.Request[CustomFieldChange],
) (server.OK[CustomField], error) {
	id := r.ID("id")
	locked := db.SQL(`select `+customFieldColumns+` from custom_fields where id = $1 for no key update`, id)
	field := selectCustomField(id)
	err := h.db.Decide(ctx, []*db.Stmt{locked}, func() ([]*db.Stmt, error) {
		old, err := CustomFields(locked)
		if err == nil && len(old) == 0 {
			err = server.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		in := CustomField{Name: r.In.Name, Position: r.In.Position, Unit: r.In.Unit, Default: r.In.Default,
			Choices: r.In.Choices}
		if name, problem := in.change(&old[0]); problem != "" {
			return nil, server.Invalid(name, "%s", problem)
		}
		return append(updateCustomField(id, &in), field), nil
	})
	return server.One(field, err)
}

// updateCustomField returns the statement that changes a custom field, or no statement if the request has no fields.
func updateCustomField(id string, in *CustomField) []*db.Stmt {
	set, args := server.Assignments(in, []any{id})
	if set == "" {
		return nil
	}
	return []*db.Stmt{db.SQL(`update custom_fields set `+set+`, updated_at = now() where id = $1`, args...)}
}

// change fills in the fields of the definition that the request leaves out. It returns the first problem with the
// request, and the name of the field that causes it.
func (f *CustomField) change(old *CustomField) (field, problem string) {
	inherit(&f.Entity, old.Entity.Value)
	inherit(&f.Key, old.Key.Value)
	inherit(&f.Name, old.Name.Value)
	inherit(&f.Type, old.Type.Value)
	inherit(&f.Position, old.Position.Value)
	inherit(&f.Unit, old.Unit.Value)
	inherit(&f.Default, old.Default.Value)
	inherit(&f.Choices, old.Choices.Value)
	inherit(&f.Multiple, old.Multiple.Value)
	fixed := language.Sprintf("cannot be changed: values depend on it")
	switch {
	case *f.Entity.Value != *old.Entity.Value:
		return "entity", fixed
	case *f.Key.Value != *old.Key.Value:
		return "key", fixed
	case *f.Type.Value != *old.Type.Value:
		return "type", fixed
	case f.Multiple.Or(false) != old.Multiple.Or(false):
		return "multiple", fixed
	}
	for _, choice := range old.Choices.Or(nil) {
		if !slices.Contains(f.Choices.Or(nil), choice) {
			return "choices", language.Sprintf("must contain %q: values depend on it", choice)
		}
	}
	return f.problem()
}

// DefineField creates a custom field, or changes the custom field that has the same entity and key.
func DefineField(ctx context.Context, d *db.DB, in CustomField) error {
	var id string
	entity := string(*in.Entity.Value)
	locked := db.SQL(`select `+customFieldColumns+` from custom_fields where entity = $1 and key = $2
		for no key update`, entity, in.Key.Arg())
	found := db.SQL(`select id::text from custom_fields where entity = $1 and key = $2`, entity,
		in.Key.Arg()).Into(&id)
	var added *db.Stmt
	err := d.Decide(ctx, []*db.Stmt{locked, found}, func() ([]*db.Stmt, error) {
		added = nil
		old, err := CustomFields(locked)
		if err != nil {
			return nil, err
		}
		next := in
		if len(old) == 0 {
			added = insertCustomField(&next)
			return []*db.Stmt{added}, nil
		}
		if name, problem := next.change(&old[0]); problem != "" {
			return nil, server.Invalid(name, "%s", problem)
		}
		return updateCustomField(id, &next), nil
	})
	if err == nil && added != nil && added.Rows() == 0 {
		return errManyFields
	}
	return err
}

var deleteCustomFieldDoc = &server.Doc{
	ID: "deleteCustomField", Tag: customFieldTag, Summary: "Remove a custom field",
	Description: "Deletes the definition, and the values of all spools, filaments or vendors in the same " +
		"transaction. If more than 10,000 have a value, nothing changes (`422`).",
}

func (h handlers) deleteCustomField(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	return nil, removeField(ctx, h.db, `id = $1::uuid`, r.ID("id"))
}

// RemoveField removes the custom field that has the entity and the key, and the values of the field.
func RemoveField(ctx context.Context, d *db.DB, entity, key string) error {
	return removeField(ctx, d, `entity = $1 and key = $2`, entity, key)
}

// removeField removes the custom field that the condition selects, and the values of the field.
func removeField(ctx context.Context, d *db.DB, condition string, args ...any) error {
	var entity, key string
	// The lock waits for transactions that are about to store values.
	field := db.SQL(`select entity, key from custom_fields where `+condition+` for update`, args...).Into(&entity,
		&key)
	removed := db.SQL(`delete from custom_fields where `+condition, args...)
	return d.Tx(ctx, func(ctx context.Context) error {
		if err := server.Found(field, d.Write(ctx, field)); err != nil {
			return err
		}
		items, err := changeEach(ctx, d, entity+"s", `extra ? $2`, `extra = extra - $2`, key)
		if err == nil && items > maxFollowers {
			err = errFieldInUse
		}
		if err != nil {
			return err
		}
		return d.Write(ctx, removed)
	})
}

// changeEach changes the rows of a table that the condition selects, and returns their number. If the condition
// selects more than maxFollowers rows, changeEach changes none. $1 is the tenant; args begin with $2.
func changeEach(ctx context.Context, d *db.DB, table, condition, set string, args ...any) (count int, err error) {
	if table == "spools" {
		set += ", edited_at = now()"
	}
	changed := db.SQL(`
		with found as materialized (
			select id from `+table+` where tenant_id = $1::uuid and `+condition+` limit `+strconv.Itoa(maxFollowers+1)+
		`
		), locked as materialized (
			select locked.id from (
				select id from found where (select count(*) from found) <= `+strconv.Itoa(maxFollowers)+` order by id
			) ids cross join lateral (select id from `+table+` where id = ids.id for no key update) locked
		), changed as (
			update `+table+` set `+set+`, updated_at = now()
			from locked where `+table+`.id = locked.id and `+condition+`
		)
		select count(*) from found`, append([]any{db.ActorOf(ctx).Tenant}, args...)...).Into(&count)
	return count, d.Write(ctx, db.FreshPlan(), changed)
}
