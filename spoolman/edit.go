package spoolman

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

// fields maps the fields of Spoolman's spools to those of a Spool with the same meaning.
var fields = map[string]string{
	"initial_weight": "net_weight_grams", "remaining_weight": "remaining_weight_grams",
	"spool_weight": "spool_weight_grams", "price": "purchase_price", "location": "location", "lot_nr": "lot_number",
	"comment": "notes", "archived": "archived",
}

// ignored are fields that clients send back as they read them, or that the service computes.
var ignored = []string{"id", "registered", "first_used", "last_used", "filament", "filament_id", "used_weight",
	"used_length", "remaining_length", "extra"}

// spool converts a body to a Spool for a PATCH.
func spool(body map[string]json.RawMessage) (inventory.Spool, error) {
	native := object{}
	for name, value := range body {
		switch field := fields[name]; {
		case field != "":
			native[field] = value
		case !slices.Contains(ignored, name):
			return inventory.Spool{}, server.Invalid(name, "is not a known field")
		}
	}
	text, err := json.Marshal(native)
	if err != nil {
		return inventory.Spool{}, err
	}
	return server.DecodePatch[inventory.Spool](text)
}

func (q request) edit(id int64) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	in, err := spool(body)
	if err != nil {
		return err
	}
	extra, err := customFields(body)
	if err != nil {
		return err
	}
	stmts := mergeExtra("spool", id, extra)
	if !isNull(body["used_weight"]) && isNull(body["remaining_weight"]) {
		weight, ok := server.ParseDecimal(string(body["used_weight"]))
		if !ok || weight < 0 {
			return server.Invalid("used_weight", "must be a number of at least 0")
		}
		return q.editUsed(id, &in, weight, stmts)
	}
	return q.sendSpool(id, q.db.Write, append([]*db.Stmt{inventory.Edit(id, &in)}, stmts...)...)
}

// editUsed edits a spool whose remaining weight becomes the initial weight without the used weight.
func (q request) editUsed(id int64, in *inventory.Spool, used server.Decimal, stmts []*db.Stmt) error {
	var text string
	err := q.db.Tx(q.r.Context(), func(ctx context.Context) error {
		net := in.NetWeight
		if net.IsNull() {
			var initial string
			locked := db.SQL(`select trim_scale(net_weight_grams)::text from spools
				where number = $1 and hidden_at is null for no key update`, id).Into(&initial)
			if err := q.db.Write(ctx, locked); err != nil {
				return err
			}
			weight, ok := server.ParseDecimal(initial)
			if !ok {
				return errNumber
			}
			net = server.Some(weight)
		}
		in.Remaining = server.Some(max(*net.Value-used, 0))
		edited := inventory.Edit(id, in)
		err := q.db.Write(ctx, slices.Concat([]*db.Stmt{edited}, stmts,
			[]*db.Stmt{selectSpool(q.tenant(), id).Into(&text)})...)
		if err == nil && edited.Rows() == 0 {
			err = errNumber
		}
		return err
	})
	if err != nil {
		return err
	}
	return q.sendChanged(text)
}

// create creates a spool of a filament, which must exist: the filaments are those of the spools.
func (q request) create() error {
	body, err := q.body()
	if err != nil {
		return err
	}
	var filament int64
	if json.Unmarshal(body["filament_id"], &filament) != nil {
		return server.Invalid("filament_id", "must be the id of a filament")
	}
	in, err := spool(body)
	if err != nil {
		return err
	}
	if filament < 1 || filament > 1<<31-1 {
		return errNoGroup
	}
	extra, err := customFields(body)
	if err != nil {
		return err
	}
	var text string
	err = q.db.Tx(q.r.Context(), func(ctx context.Context) error {
		var number int64
		copied := inventory.Copy(filament, &in).Into(&number)
		if err := q.db.Write(ctx, copied); err != nil {
			return err
		}
		if copied.Rows() == 0 {
			return errNoGroup
		}
		return q.db.Write(ctx, append(mergeExtra("spool", number, extra), selectSpool(q.tenant(), number).Into(&text))...)
	})
	if err != nil {
		return err
	}
	return q.sendChanged(text)
}

// customFields returns the custom fields of a body, as JSON, or "" if it has none.
func customFields(body map[string]json.RawMessage) (string, error) {
	if isNull(body["extra"]) {
		return "", nil
	}
	var values map[string]*string
	if json.Unmarshal(body["extra"], &values) != nil || strings.Contains(string(body["extra"]), `\u0000`) {
		return "", server.Invalid("extra", "must be an object whose values are texts with JSON")
	}
	for name, value := range values {
		if value != nil && !json.Valid([]byte(*value)) {
			return "", server.Invalid("extra."+name, "must be a text with JSON")
		}
	}
	text, err := json.Marshal(values)
	if err != nil || len(text) > 50_000 {
		return "", server.Invalid("extra", "must have at most 50,000 bytes, as JSON")
	}
	return string(text), nil
}

// mergeExtra returns the statements that merge custom fields into those of an item: a spool that is not hidden, or a
// filament, whose id can be the number of a hidden spool. It returns none for "".
func mergeExtra(entity string, number int64, extra string) []*db.Stmt {
	if extra == "" {
		return nil
	}
	return []*db.Stmt{db.SQL(`
		insert into printer_extras as x (entity, number, extra)
		select $1, $2::int, jsonb_strip_nulls($3::text::jsonb)::text
		where exists (select from spools where number = $2::int
			and (hidden_at is null or $1 <> 'spool'))
		on conflict (tenant_id, entity, number) do update
			set extra = jsonb_strip_nulls(x.extra::jsonb || $3::text::jsonb)::text`, entity, number, extra)}
}

// extraError converts the error of custom fields that are too long with those that the item has already.
func extraError(err error) error {
	if db.Violates(err, "printer_extras_extra_check") {
		return server.Invalid("extra", "must have at most 100,000 characters together with the fields that are there").
			Because(err)
	}
	return err
}

var keyForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// field lists, defines and removes custom fields.
func (q request) field(method string, parts []string) error {
	entity := parts[0]
	if len(parts) > 2 || entity != "spool" && entity != "filament" && entity != "vendor" {
		return errMethod
	}
	var stmts []*db.Stmt
	run := q.db.Write
	switch {
	case len(parts) == 1 && method == http.MethodGet:
		run = q.db.Read
	case len(parts) == 2 && !keyForm.MatchString(parts[1]):
		return server.Invalid("key", "must have 1 to 64 lower-case letters, digits and underscores")
	case len(parts) == 2 && method == http.MethodDelete:
		stmts = append(stmts, db.SQL(`delete from printer_fields where entity = $1 and key = $2`, entity, parts[1]))
	case len(parts) == 2 && method == http.MethodPost:
		body, err := q.body()
		if err != nil {
			return err
		}
		definition := maps.Clone(body)
		for name, value := range map[string]string{"key": parts[1], "entity_type": entity} {
			definition[name], _ = json.Marshal(value)
		}
		if isNull(definition["name"]) || isNull(definition["field_type"]) {
			return server.Invalid("name", "and field_type are required")
		}
		maps.DeleteFunc(definition, func(_ string, value json.RawMessage) bool { return isNull(value) })
		text, err := json.Marshal(definition)
		if err != nil || len(text) > 9000 || strings.Contains(string(text), `\u0000`) {
			return server.Invalid("body", "must be a definition of at most 9,000 bytes")
		}
		stmts = append(stmts, db.SQL(`
			insert into printer_fields (entity, key, definition)
			select $1, $2, $3 where (select count(*) from printer_fields where entity = $1) < 100
			on conflict (tenant_id, entity, key) do update set definition = excluded.definition`,
			entity, parts[1], string(text)))
	default:
		return errMethod
	}
	var list string
	all := db.SQL(`select coalesce('[' || string_agg(definition, ',' order by created_at, key) || ']', '[]')
		from printer_fields where entity = $1`, entity).Into(&list)
	if err := run(q.r.Context(), append(stmts, all)...); err != nil {
		return err
	}
	return q.send([]byte(list))
}
