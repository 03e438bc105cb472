package spoolman

import (
	"context"
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/server"
)

// settings has the JSON type and the default of each setting. The service stores the settings for clients and does not
// use them itself, except extra_fields_vendor, extra_fields_filament and extra_fields_spool: these are the service's
// custom fields.
var settings = map[string]struct{ kind, otherwise string }{
	"currency": {"string", `"EUR"`}, "round_prices": {"boolean", "false"}, "print_presets": {"array", "[]"},
	"label_designs": {"array", "[]"}, "extra_fields_vendor": {"array", "[]"}, "extra_fields_filament": {"array", "[]"},
	"extra_fields_spool": {"array", "[]"}, "base_url": {"string", `""`}, "locations": {"array", "[]"},
	"locations_spoolorders": {"object", "{}"}, "dashboard_groups": {"object", "{}"},
	"dashboard_spoolorders": {"object", "{}"},
}

// maxSetting is the maximum length of a setting in characters.
const maxSetting = 1<<16 - 1

const extraFields = "extra_fields_"

// readSettings returns all settings by their names.
func (q request) readSettings(ctx context.Context, run runner) (map[string]object, error) {
	var text, currency string
	fields := map[string][]definition{}
	err := run(ctx, db.SQL(`
		select (select coalesce(json_object_agg(key, value), '{}') from printer_settings)::text,
			coalesce((select currency from tenants where tenant_id = $1::uuid), '')`, q.tenant()).Into(&text,
		&currency))
	if err != nil {
		return nil, err
	}
	stored := map[string]string{}
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, err
	}
	for entity := range resources {
		if fields[entity], err = q.definitions(ctx, run, entity); err != nil {
			return nil, err
		}
	}
	all := map[string]object{}
	for key, s := range settings {
		value, isSet := stored[key]
		if !isSet {
			value = s.otherwise
		}
		if entity, ok := strings.CutPrefix(key, extraFields); ok {
			list, err := json.Marshal(fields[entity])
			if err != nil {
				return nil, err
			}
			value, isSet = string(list), len(fields[entity]) > 0
		} else if key == "currency" && !isSet && currency != "" {
			value = `"` + currency + `"`
		}
		all[key] = object{"value": value, "is_set": isSet, "type": s.kind}
	}
	return all, nil
}

func (q request) settings() error {
	all, err := q.readSettings(q.r.Context(), q.db.Read)
	if err != nil {
		return err
	}
	return q.sendJSON(all)
}

func noSetting(key string) error {
	return &server.Error{Status: 404, Code: "NOT_FOUND", Detail: "There is no setting " + key}
}

func (q request) setting() error {
	body, err := q.readSetting(q.r.PathValue("key"))
	if err != nil {
		return err
	}
	return q.send(body)
}

func (q request) readSetting(key string) ([]byte, error) {
	if settings[key].kind == "" {
		return nil, noSetting(key)
	}
	all, err := q.readSettings(q.r.Context(), q.db.Read)
	if err != nil {
		return nil, err
	}
	return json.Marshal(all[key])
}

func (q request) changeSetting() error {
	key := q.r.PathValue("key")
	if settings[key].kind == "" {
		return noSetting(key)
	}
	if err := q.set(key); err != nil {
		return err
	}
	body, err := q.readSetting(key)
	if err != nil {
		return err
	}
	q.sockets.changedSetting(q.r.Context(), q.tenant(), key, body)
	return q.send(body)
}

// set changes a setting. The body is a JSON string whose text is the new value as JSON. If the text is empty or null,
// set resets the setting.
func (q request) set(key string) error {
	media, _, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		// A page of another site can make a browser send a form, but not this content type.
		return &server.Error{Status: 415, Code: "UNSUPPORTED_MEDIA_TYPE", Detail: "The body must be application/json"}
	}
	text, err := server.ReadBody(q.w, q.r)
	if err != nil {
		return err
	}
	var value string
	if json.Unmarshal(text, &value) != nil || !isText(value) {
		return server.Invalid("body", "must be a JSON text that contains JSON")
	}
	entity, isFields := strings.CutPrefix(key, extraFields)
	reset := value == "" || value == "null"
	if !reset {
		if problem := settingProblem(settings[key].kind, value); problem != "" {
			return badRequest("The setting %s %s", key, problem)
		}
	}
	switch {
	case isFields && reset:
		value = "[]"
		fallthrough
	case isFields:
		return q.db.Tx(q.r.Context(), func(ctx context.Context) error { return q.setDefinitions(ctx, entity, value) })
	case reset:
		return q.db.Write(q.r.Context(), db.SQL(`delete from printer_settings where key = $1`, key))
	}
	return q.db.Write(q.r.Context(), db.SQL(`
		insert into printer_settings (key, value) values ($1, $2)
		on conflict (tenant_id, key) do update set value = excluded.value, updated_at = now()`, key, value))
}

func settingProblem(kind, value string) string {
	var v any
	if utf8.RuneCountInString(value) > maxSetting {
		return "must have at most 65535 characters"
	}
	if json.Unmarshal([]byte(value), &v) != nil {
		return "must be JSON"
	}
	ok := false
	switch v.(type) {
	case string:
		ok = kind == "string"
	case bool:
		ok = kind == "boolean"
	case []any:
		ok = kind == "array"
	case map[string]any:
		ok = kind == "object"
	}
	if !ok {
		return "must be of the type " + kind
	}
	return ""
}
