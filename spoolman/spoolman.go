// Package spoolman serves the API of Spoolman below /spoolman/api/v1, so that the software of printers can report to
// Spoolwright without changes. The id of a spool in this API is the number of the spool.
package spoolman

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Prefix is the beginning of all paths of the surface.
const Prefix = "/spoolman/api/v1/"

// KeyPrefix is the pattern of Prefix with an API key in the path.
const KeyPrefix = "/spoolman/k/{key}/api/v1/"

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of the package.
var Definitions = db.Definitions("spoolman", functions, "color", "extra")

// Surface returns the surface that serves the API of Spoolman.
func Surface(d *db.DB) server.Surface {
	h := &handlers{db: d, mux: routes(), sockets: newHub(d), reports: newReports()}
	return server.Surface{Prefix: Prefix, Serve: h.serve, Fail: fail, Run: h.sockets.watch, Close: h.sockets.close}
}

type handlers struct {
	db      *db.DB
	mux     *http.ServeMux
	sockets *hub
	reports *reports
}

// fail returns the body of an error in the format of Spoolman.
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

// badRequest returns a 400 of this API.
func badRequest(format string, args ...any) *server.Error {
	return &server.Error{Status: 400, Code: "VALIDATION_ERROR", Detail: fmt.Sprintf(format, args...)}
}

// crossOrigin rejects requests from pages of other sites. A browser would add stored Basic credentials to such
// requests.
var crossOrigin = http.NewCrossOriginProtection()

// serve answers a request below Prefix.
func (h *handlers) serve(w http.ResponseWriter, r *http.Request, caller server.Caller) error {
	if err := crossOrigin.Check(r); err != nil {
		return server.ErrForbidden.Because(err)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && caller.Level < server.Write {
		return server.ErrForbidden
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !isText(r.URL.RawQuery) || !isText(r.URL.Path) {
		return server.Invalid("query", "is not valid")
	}
	for name, values := range query {
		for _, value := range values {
			if !isText(value) {
				return server.Invalid("query", "must be valid Unicode text")
			}
		}
		query[name] = values[len(values)-1:] // as in Spoolman
	}
	x := &exchange{ResponseWriter: w, request: request{handlers: h, w: w, caller: caller, query: query}}
	h.mux.ServeHTTP(x, r)
	return x.err
}

// parseID parses an id. It rejects ids that do not fit an integer of PostgreSQL, because no item has such an id.
func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, server.Invalid("id", "must be a whole number")
	}
	return id, nil
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0) && !strings.ContainsFunc(s, value.IsDirection)
}

type request struct {
	*handlers
	w      http.ResponseWriter
	r      *http.Request
	caller server.Caller
	query  url.Values
}

func (q request) send(body []byte) error {
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

// version is the version of Spoolman whose API the surface serves. Clients parse it.
const version = "0.26.1"

func (q request) info() error {
	return q.encode(object{"version": version, "debug_mode": false, "automatic_backups": false, "data_dir": "",
		"logs_dir": "", "backups_dir": "", "db_type": "postgres", "external_db_name": "SpoolmanDB", "git_commit": "",
		"build_date": ""})
}

func (q request) health() error { return q.encode(object{"status": "healthy"}) }

// backup starts no backup, because a printer's key must not start one. The response says who makes the backups.
func (q request) backup() error {
	return q.encode(object{"created": false,
		"path": "the operator of the service backs up its PostgreSQL database: see docs/backup.md"})
}

// get sends an item.
func (q request) get(name string, id int64) error {
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
	run := []*db.Stmt{item}
	if id >= firstComputed {
		run = []*db.Stmt{db.FreshPlan(), item}
	}
	if err := q.db.Read(q.r.Context(), run...); err != nil {
		return err
	}
	if item.Rows() == 0 {
		return notFound(name, id)
	}
	return q.send(text)
}

type runner func(context.Context, ...*db.Stmt) error

// sendSpool runs the statements and sends the spool with the number, in one round trip. The first statement returns a
// row if it found the spool. If it returned none, sendSpool returns a 404, even if a concurrent request has restored
// the spool since.
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

// sendChanged responds with a changed item, and makes the hub send the change to the open sockets.
func (q request) sendChanged(item []byte) error {
	q.sockets.changed(q.tenant())
	return q.send(item)
}
