// Package spoolman serves the API of Spoolman below /spoolman/api/v1, so that the software of printers reports into
// Spoolwright unchanged. The numbers of spools are the ids of its spools.
package spoolman

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/server"
)

// Prefix is the path below which the surface is.
const Prefix = "/spoolman/api/v1/"

// KeyPrefix is Prefix with an API key.
const KeyPrefix = "/spoolman/k/{key}/api/v1/"

//go:embed color.sql
var colorSQL string

// Definitions are the SQL functions of the package.
var Definitions = []db.Definition{{Name: "spoolman/color", Version: 1, SQL: colorSQL}}

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

var errMethod = &server.Error{Status: 405, Code: "METHOD_NOT_ALLOWED",
	Detail: "Spoolwright does not serve this operation of Spoolman's API"}

// notFound returns the 404 for an item.
func notFound(resource string, id any) *server.Error {
	return &server.Error{Status: 404, Code: "NOT_FOUND",
		Detail: fmt.Sprintf("There is no %s with the id %v", resource, id)}
}

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
	path := strings.TrimPrefix(r.URL.Path, Prefix)
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
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return request{handlers: h, w: w, r: r, caller: caller, query: query}.answer(parts)
}

// answer answers the request to a path below Prefix, which consists of parts.
func (q request) answer(parts []string) error {
	method := q.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	first, n := parts[0], len(parts)
	switch {
	case isUpgrade(q.r) && method == http.MethodGet && n <= 2 && slices.Contains(topics, first):
		return q.upgrade(first, parts[1:])
	case n == 1 && resources[first].json != "":
		switch method {
		case http.MethodGet:
			return q.list(first)
		case http.MethodPost:
			return q.create(first)
		}
	case n == 1 && method == http.MethodGet:
		return q.get(first)
	case n == 1 && first == "backup" && method == http.MethodPost:
		return q.backup()
	case first == "field":
		return q.field(method, parts[1:])
	case first == "setting" && n == 2:
		return q.setting(method, parts[1])
	case first == "export" && n == 2 && method == http.MethodGet:
		return q.export(parts[1])
	case first == "external" && method == http.MethodGet:
		return q.external(strings.Join(parts[1:], "/"))
	case first == "location" && n == 2 && method == http.MethodPatch:
		return q.renameLocation(parts[1])
	case first == "spool" && n == 2 && parts[1] == "group" && method == http.MethodGet:
		return q.groups()
	case first == "spool" && n == 3 && parts[1] == "field" && method == http.MethodPatch:
		return q.renameValue(parts[2])
	case n == 2 && resources[first].json != "":
		id, err := parseID(parts[1])
		if err != nil {
			return err
		}
		return q.item(method, first, id)
	case n == 3 && first == "spool" && method == http.MethodPut:
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

// parseID parses an id. No item has one above the largest that the database stores.
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
	reply  func(body []byte) error // what send does instead, if it is not nil
}

// send sends a body with status 200.
func (q request) send(body []byte) error {
	if q.reply != nil {
		return q.reply(body)
	}
	return server.Respond(q.w, q.r, body)
}

func (q request) tenant() string { return q.caller.Actor.Tenant }

func (q request) encode(v any) error {
	if err := q.db.CheckActor(q.r.Context()); err != nil {
		return err
	}
	return q.sendJSON(v)
}

// sendJSON sends a value that was read from the database.
func (q request) sendJSON(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return q.send(body)
}

type object map[string]any

// version is that of the Spoolman API; clients parse it.
const version = "0.26.1"

// get answers a GET of a path with one part other than the lists.
func (q request) get(name string) error {
	const spools, filaments = `spools s where s.tenant_id = $1::uuid and s.hidden_at is null and `,
		`(select f.article_number, ` + filamentMaterial + ` as material from filaments f
			where f.tenant_id = $1::uuid and f.hidden_at is null union all select null, s.material_type from spools s
			where s.tenant_id = $1::uuid and s.hidden_at is null and s.filament_id is null) i where `
	switch name {
	case "info":
		return q.encode(object{"version": version, "debug_mode": false, "automatic_backups": false, "data_dir": "",
			"logs_dir": "", "backups_dir": "", "db_type": "postgres", "external_db_name": "SpoolmanDB",
			"git_commit": "",
			"build_date": ""})
	case "health":
		return q.encode(object{"status": "healthy"})
	case "setting":
		return q.settings()
	case "search":
		return q.search()
	case "material":
		return q.values(filaments, "i.material")
	case "article-number":
		return q.values(filaments, "i.article_number")
	case "location":
		return q.values(spools, "s.location")
	case "lot-number":
		return q.values(spools, "s.lot_number")
	}
	return errMethod
}

// backup says who makes backups: a printer's key must not start one.
func (q request) backup() error {
	return q.encode(object{"created": false,
		"path": "the operator of the service backs up its PostgreSQL database: see docs/backup.md"})
}

// selectItem returns the statement that reads an item as text.
func (q request) selectItem(name string, id int64) *db.Stmt {
	switch name {
	case "spool":
		return db.SQL(numbered["spool"]+` and s.hidden_at is null`, q.tenant(), id)
	case "filament":
		return selectFilament(q.tenant(), id)
	}
	return selectVendor(q.tenant(), id)
}

func (q request) item(method, name string, id int64) error {
	switch method {
	case http.MethodGet:
		if name == "spool" {
			spool := selectSpool(q.tenant(), id).Quick()
			if err := q.db.Read(q.r.Context(), spool); err != nil {
				return err
			}
			if spool.Rows() == 0 {
				return notFound(name, id)
			}
			return q.send(spool.Object())
		}
		var text []byte
		item := q.selectItem(name, id).Into(&text)
		before := []*db.Stmt{item}
		if id >= firstComputed {
			before = []*db.Stmt{db.AllowScans(), item}
		}
		if err := q.db.Read(q.r.Context(), before...); err != nil {
			return err
		}
		if item.Rows() == 0 {
			return notFound(name, id)
		}
		return q.send(text)
	case http.MethodPatch:
		return q.edit(name, id)
	case http.MethodDelete:
		return q.remove(name, id)
	}
	return errMethod
}

type runner func(context.Context, ...*db.Stmt) error

// sendSpool runs the statements and sends the spool with the number. All is one round trip. The first statement
// returns a row if it found the spool, which may be restored after it.
func (q request) sendSpool(id int64, run runner, before ...*db.Stmt) error {
	spool := selectSpool(q.tenant(), id)
	if err := run(q.r.Context(), append(before, spool)...); err != nil {
		return err
	}
	if spool.Rows() == 0 || before[0].Rows() == 0 {
		return notFound("spool", id)
	}
	return q.sendChanged(spool.Object())
}

// sendChanged sends an item that was changed, and makes the sockets send it.
func (q request) sendChanged(item []byte) error {
	q.sockets.changed(q.tenant())
	return q.send(item)
}
