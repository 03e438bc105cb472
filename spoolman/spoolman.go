// Package spoolman serves the API of Spoolman below /spoolman/api/v1, so that the software of printers reports into
// Spoolwright unchanged. The numbers of spools are the ids of its spools.
package spoolman

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

// Prefix is the path below which the surface is.
const Prefix = "/spoolman/api/v1/"

// Surface returns the surface.
func Surface(d *db.DB) server.Surface {
	h := &handlers{db: d, sockets: newHub(d), reports: newReports()}
	return server.Surface{Prefix: Prefix, Serve: h.serve, Fail: fail, Run: h.sockets.watch, Close: h.sockets.close}
}

type handlers struct {
	db      *db.DB
	sockets *hub
	reports *reports
}

// fail returns the body of an error as Spoolman has it.
func fail(e *server.Error) []byte {
	body, _ := json.Marshal(map[string]string{"message": e.Detail})
	return body
}

var (
	errMethod = &server.Error{Status: 405, Code: "METHOD_NOT_ALLOWED",
		Detail: "Spoolwright does not serve this operation of Spoolman's API"}
	errNumber    = &server.Error{Status: 404, Code: "NOT_FOUND", Detail: "No spool has this id"}
	errNoGroup   = &server.Error{Status: 404, Code: "NOT_FOUND", Detail: "No item has this id"}
	errUnweighed = &server.Error{Status: 400, Code: "VALIDATION_ERROR",
		Detail: "The spool has no spool_weight, so it cannot be weighed"}
)

// crossOrigin rejects requests of pages of other sites, for which browsers would add stored Basic credentials.
var crossOrigin = http.NewCrossOriginProtection()

// serve answers a request below Prefix.
func (h *handlers) serve(w http.ResponseWriter, r *http.Request, caller server.Caller) error {
	if err := crossOrigin.Check(r); err != nil {
		return server.ErrForbidden.Because(err)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && caller.Level < server.Write {
		return server.ErrForbidden
	}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !isText(r.URL.RawQuery) || !isText(path) {
		return server.Invalid("query", "is not valid")
	}
	for _, values := range query {
		for _, value := range values {
			if !isText(value) {
				return server.Invalid("query", "must be valid Unicode text")
			}
		}
	}
	return extraError(request{h, w, r, caller, query}.answer(strings.Split(path, "/")))
}

// answer answers the request to a path below Prefix, which consists of parts.
func (q request) answer(parts []string) error {
	method := q.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch {
	case isUpgrade(q.r) && method == http.MethodGet &&
		(len(parts) == 1 && parts[0] == "" || parts[0] == "spool" && len(parts) <= 2):
		return q.upgrade(parts[1:])
	case len(parts) == 1:
		return q.collection(method, parts[0])
	case parts[0] == "field":
		return q.field(method, parts[1:])
	case parts[0] == "setting" && len(parts) == 2 && method == http.MethodGet:
		if setting, ok := settings[parts[1]]; ok {
			return q.encode(setting)
		}
		return errNoGroup
	case len(parts) == 2 && resources[parts[0]].json != "":
		id, err := parseID(parts[1])
		if err != nil {
			return err
		}
		return q.item(method, parts[0], id)
	case len(parts) == 3 && parts[0] == "spool" && method == http.MethodPut:
		id, err := parseID(parts[1])
		if err != nil {
			return err
		}
		switch parts[2] {
		case "use":
			return q.use(id)
		case "measure":
			return q.measure(id)
		}
	}
	return errMethod
}

func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, server.Invalid("id", "must be a whole number")
	}
	return id, nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// request is a request to the surface.
type request struct {
	*handlers
	w      http.ResponseWriter
	r      *http.Request
	caller server.Caller
	query  url.Values
}

// send sends a body with status 200.
func (q request) send(body []byte) error { return server.Respond(q.w, q.r, body) }

func (q request) tenant() string { return q.caller.Actor.Tenant }

func (q request) encode(v any) error {
	if err := q.db.CheckActor(q.r.Context()); err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return q.send(body)
}

type object map[string]any

// version is that of the Spoolman API; clients parse it.
const version = "0.26.1"

var settings = map[string]object{
	"currency":              {"value": `"EUR"`, "is_set": false, "type": "string"},
	"base_url":              {"value": `""`, "is_set": false, "type": "string"},
	"round_prices":          {"value": "false", "is_set": false, "type": "boolean"},
	"extra_fields_spool":    {"value": "[]", "is_set": false, "type": "array"},
	"extra_fields_filament": {"value": "[]", "is_set": false, "type": "array"},
	"extra_fields_vendor":   {"value": "[]", "is_set": false, "type": "array"},
}

// texts are the lists of the distinct values of a column.
var texts = map[string]string{"material": "material_type", "location": "location", "lot-number": "lot_number",
	"article-number": "null::text"}

func (q request) collection(method, name string) error {
	if method == http.MethodPost && name == "spool" {
		return q.create()
	}
	if method != http.MethodGet {
		return errMethod
	}
	switch name {
	case "info":
		return q.encode(object{"version": version, "debug_mode": false, "automatic_backups": false, "data_dir": "",
			"logs_dir": "", "backups_dir": "", "db_type": "postgres", "git_commit": "", "build_date": ""})
	case "health":
		return q.encode(object{"status": "healthy"})
	case "setting":
		return q.encode(settings)
	}
	if column := texts[name]; column != "" {
		var items string
		err := q.db.Read(q.r.Context(), db.AllowScans(), db.SQL(`
			select coalesce(json_agg(v order by v), '[]')::text from (
				select distinct `+column+` as v from spools
				where tenant_id = $1::uuid and hidden_at is null and `+column+` <> '') found`, q.tenant()).Into(&items))
		if err != nil {
			return err
		}
		return q.send([]byte(items))
	}
	f, ok := resources[name]
	if !ok {
		return errMethod
	}
	var items []byte
	var total int64
	stmts, err := f.list(q.tenant(), q.query, &items, &total)
	if err == nil {
		err = q.db.Read(q.r.Context(), stmts...)
	}
	if err != nil {
		return err
	}
	if items == nil {
		return server.Invalid("limit", "must select fewer items: a list has at most %d of the %d items, and %d MB",
			maxItems, total, maxListBytes/1_000_000)
	}
	q.w.Header().Set("X-Total-Count", strconv.FormatInt(total, 10))
	return q.send(items)
}

func (q request) item(method, name string, id int64) error {
	switch {
	case name == "spool" && method == http.MethodGet:
		return q.sendSpool(id, q.db.Read)
	case name == "spool" && method == http.MethodPatch:
		return q.edit(id)
	case name == "spool" && method == http.MethodDelete:
		hidden := inventory.Hide(id)
		if err := q.db.Write(q.r.Context(), hidden); err != nil {
			return err
		}
		if hidden.Rows() == 0 {
			return errNumber
		}
		q.sockets.changed(q.tenant())
		return q.send([]byte(`{"message":"Success!"}`))
	case name == "filament" && method == http.MethodPatch:
		body, err := q.body()
		if err != nil {
			return err
		}
		for field := range body {
			if field != "extra" {
				return server.Invalid(field, "of a filament can be changed only in its spools")
			}
		}
		extra, err := customFields(body)
		if err != nil {
			return err
		}
		var text string
		err = q.db.Tx(q.r.Context(), func(ctx context.Context) error {
			text, err = q.group(ctx, name, id, q.db.Write, mergeExtra("filament", id, extra)...)
			return err
		})
		if err != nil {
			return err
		}
		return q.send([]byte(text))
	case method == http.MethodGet:
		text, err := q.group(q.r.Context(), name, id, q.db.Read)
		if err != nil {
			return err
		}
		return q.send([]byte(text))
	}
	return errMethod
}

type runner func(context.Context, ...*db.Stmt) error

// sendSpool runs the statements and sends the spool with the number. All is one round trip. The first statement, if
// any, returns a row if it found the spool, which may be restored after it.
func (q request) sendSpool(number int64, run runner, before ...*db.Stmt) error {
	var text string
	spool := selectSpool(q.tenant(), number).Into(&text)
	if err := run(q.r.Context(), append(before, spool)...); err != nil {
		return err
	}
	if spool.Rows() == 0 || len(before) > 0 && before[0].Rows() == 0 {
		return errNumber
	}
	if len(before) > 0 {
		return q.sendChanged(text)
	}
	return q.send([]byte(text))
}

// sendChanged sends a spool that was changed, and makes the sockets send it.
func (q request) sendChanged(spool string) error {
	q.sockets.changed(q.tenant())
	return q.send([]byte(spool))
}

// group runs the statements and returns the filament or vendor with the id. The error is errNoGroup if there is none.
func (q request) group(
	ctx context.Context, name string, id int64, run runner, before ...*db.Stmt,
) (text string, err error) {
	f := resources[name]
	group := db.SQL(`select `+f.json+`::text from `+allSpools+` where s.hidden_at is null and `+f.id+` = $2::int
		order by s.number limit 1`, q.tenant(), id).Into(&text)
	if err := run(ctx, append(before, db.AllowScans(), group)...); err != nil {
		return "", err
	}
	if group.Rows() == 0 {
		return "", errNoGroup
	}
	return text, nil
}

// body reads a JSON object, or a JSON string that contains one, as Moonraker sends it, of any content type.
func (q request) body() (map[string]json.RawMessage, error) {
	text, err := server.ReadBody(q.w, q.r)
	if err != nil {
		return nil, err
	}
	var inner string
	if json.Unmarshal(text, &inner) == nil {
		text = []byte(inner)
	}
	body := map[string]json.RawMessage{}
	if !utf8.Valid(text) || len(text) > 0 && json.Unmarshal(text, &body) != nil {
		return nil, &server.Error{Status: 400, Code: "MALFORMED_JSON", Detail: "The body is not a JSON object"}
	}
	return body, nil
}

// isNull reports whether the value is absent or null.
func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// number returns a number of the body as SQL argument, or nil if it is absent or null.
func number(body map[string]json.RawMessage, name string) (any, error) {
	if isNull(body[name]) {
		return nil, nil
	}
	d, ok := server.ParseDecimal(string(body[name]))
	if !ok {
		return nil, server.Invalid(name, "must be a number between -999999999 and 999999999")
	}
	return d.String(), nil
}
