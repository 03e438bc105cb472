// Package watchtest has fakes of the printers that package watch follows, for tests and for the demo. A fake serves
// what its methods set, and answers as the real software was seen to.
package watchtest

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// Fields are the fields of a JSON object.
type Fields = map[string]any

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if v != nil {
		json.NewEncoder(w).Encode(v)
	}
}

// PrusaLink is a printer of Prusa with Buddy firmware: it leaves the job out when it has ended.
type PrusaLink struct {
	Key    string // X-Api-Key
	Digest string // or the password of digest authentication of the user maker
	Pi     bool   // digest as PrusaLink on a Raspberry Pi: qop=auth, MD5-sess

	mu    sync.Mutex
	state string
	job   Fields
	file  Fields
}

// Set sets the state and, if job is not nil, the job: id, progress, time_printing, time_remaining.
func (p *PrusaLink) Set(state string, job, file Fields) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.job, p.file = state, job, file
}

func (p *PrusaLink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.allows(w, r) {
		return
	}
	switch r.URL.Path {
	case "/api/version":
		answer(w, 200, Fields{"api": "2.0.0", "server": "2.1.2", "text": "PrusaLink"})
	case "/api/v1/status":
		status := Fields{"printer": Fields{"state": p.state, "status_printer": Fields{"ok": true, "message": "OK"}}}
		if p.job != nil {
			status["job"] = p.job
		}
		answer(w, 200, status)
	case "/api/v1/job":
		if p.job == nil {
			w.WriteHeader(204)
			return
		}
		job := maps.Clone(p.job)
		job["file"], job["state"] = p.file, p.state
		answer(w, 200, job)
	default:
		w.WriteHeader(404)
	}
}

var md5hex = func(parts ...string) string {
	sum := md5.Sum([]byte(strings.Join(parts, ":")))
	return hex.EncodeToString(sum[:])
}

func (p *PrusaLink) allows(w http.ResponseWriter, r *http.Request) bool {
	if p.Key == "" && p.Digest == "" || p.Key != "" && r.Header.Get("X-Api-Key") == p.Key {
		return true
	}
	fields := map[string]string{}
	for _, part := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Digest "), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = strings.Trim(value, `"`)
	}
	a1, a2 := md5hex("maker", "Printer API", p.Digest), md5hex(r.Method, r.URL.RequestURI())
	want := md5hex(a1, "abc", a2)
	challenge := `Digest realm="Printer API", nonce="abc", stale="false"`
	if p.Pi {
		a1 = md5hex(a1, "abc", fields["cnonce"])
		want = md5hex(a1, "abc", fields["nc"], fields["cnonce"], "auth", a2)
		challenge = `Digest realm="Printer API", nonce="abc", qop="auth", opaque="x,y", algorithm="MD5-sess"`
	}
	if p.Digest != "" && fields["response"] == want {
		return true
	}
	if p.Pi && r.Header.Get("X-Api-Key") != "" {
		answer(w, 403, Fields{"title": "403: Forbidden"})
		return false
	}
	w.Header().Set("WWW-Authenticate", challenge)
	answer(w, 401, Fields{"title": "401: Unauthorized"})
	return false
}

// OctoPrint is OctoPrint 1.11 with files of the origin local.
type OctoPrint struct {
	Key string

	mu     sync.Mutex
	text   string
	flags  Fields // nil: the serial port is closed
	job    Fields
	prints map[string]Fields // by path
}

// Set sets the text of the state and the flags that are true besides operational; nil closes the serial port. The job
// has the path of the file, its completion in percent or nil, and its seconds.
func (o *OctoPrint) Set(text string, flags []string, path string, completion any, printTime any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.flags = text, nil
	if flags != nil {
		o.flags = Fields{"operational": true}
		for _, f := range flags {
			o.flags[f] = true
		}
	}
	file := Fields{"path": path, "name": path, "origin": "local"}
	if path == "" {
		file = Fields{"path": nil, "name": nil, "origin": nil}
	}
	o.job = Fields{"job": Fields{"file": file, "filament": Fields{"length": nil, "volume": nil}},
		"progress": Fields{"completion": completion, "printTime": printTime, "printTimeLeft": nil}, "state": text}
}

// Prints sets the counts of prints of a file.
func (o *OctoPrint) Prints(path string, success, failure int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.prints == nil {
		o.prints = map[string]Fields{}
	}
	o.prints[path] = Fields{"success": success, "failure": failure}
}

func (o *OctoPrint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	path, isFile := strings.CutPrefix(r.URL.Path, "/api/files/local/")
	switch {
	case o.Key != "" && r.Header.Get("X-Api-Key") != o.Key:
		answer(w, 403, Fields{"error": "You don't have the permission to access the requested resource."})
	case r.URL.Path == "/api/version":
		answer(w, 200, Fields{"api": "0.1", "server": "1.11.8", "text": "OctoPrint 1.11.8"})
	case r.URL.Path == "/api/job":
		answer(w, 200, o.job)
	case r.URL.Path == "/api/printer" && o.flags == nil:
		answer(w, 409, Fields{"error": "Printer is not operational"})
	case r.URL.Path == "/api/printer":
		answer(w, 200, Fields{"state": Fields{"text": o.text, "flags": o.flags}})
	case isFile && o.prints[path] != nil:
		answer(w, 200, Fields{"name": path, "prints": o.prints[path]})
	default:
		w.WriteHeader(404)
	}
}

// Moonraker is Moonraker 0.11 with a printer whose state is set.
type Moonraker struct {
	Key      string
	Spoolman string // the address of its Spoolman, or ""

	mu      sync.Mutex
	spool   any  // the id of the active spool, or nil
	away    bool // Klipper is
	status  map[string]Fields
	history []Fields
	files   map[string]Fields
	clients map[*websocket.Conn]bool
	before  func() // see BeforeAnswer
}

// Update sets fields of an object of Klipper and tells the clients.
func (m *Moonraker) Update(object string, fields Fields) {
	m.Set(object, fields)
	m.Notify("notify_status_update", Fields{object: fields}, 123.4)
}

// Set sets fields of an object of Klipper, and the notification is lost.
func (m *Moonraker) Set(object string, fields Fields) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status == nil {
		m.status = map[string]Fields{"webhooks": {"state": "ready", "state_message": ""},
			"print_stats": {"state": "standby", "filename": ""}}
	}
	if m.status[object] == nil {
		m.status[object] = Fields{}
	}
	maps.Copy(m.status[object], fields)
}

// BeforeAnswer sets a function that is called once, before the answer to the next query is sent.
func (m *Moonraker) BeforeAnswer(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// Klipper says whether Klipper is connected. It forgets the subscriptions, and its state.
func (m *Moonraker) Klipper(ready bool) {
	m.mu.Lock()
	m.away, m.status = !ready, nil
	m.mu.Unlock()
	if !ready {
		m.Notify("notify_klippy_disconnected")
		return
	}
	m.Update("print_stats", Fields{"state": "standby"})
	m.Notify("notify_klippy_ready")
}

// Row adds a row to the history, or changes the one with the id and start.
func (m *Moonraker) Row(id string, start float64, file, status string, total, mm float64) {
	row := Fields{"job_id": id, "start_time": start, "filename": file, "status": status, "total_duration": total,
		"filament_used": mm, "end_time": nil}
	m.mu.Lock()
	found := false
	for i, old := range m.history {
		if old["job_id"] == id && old["start_time"] == start {
			m.history[i], found = row, true
		}
	}
	if !found {
		m.history = append([]Fields{row}, m.history...)
	}
	m.mu.Unlock()
	action := "finished"
	if status == "in_progress" {
		action = "added"
	}
	m.Notify("notify_history_changed", Fields{"action": action, "job": row})
}

// Activate sets the active spool, or nil.
func (m *Moonraker) Activate(spool any) {
	m.mu.Lock()
	m.spool = spool
	m.mu.Unlock()
	m.Notify("notify_active_spool_set", Fields{"spool_id": spool})
}

// File sets the metadata of a file.
func (m *Moonraker) File(name string, fields Fields) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string]Fields{}
	}
	m.files[name] = fields
}

// Notify sends a notification to the clients.
func (m *Moonraker) Notify(method string, params ...any) {
	text, _ := json.Marshal(Fields{"jsonrpc": "2.0", "method": method, "params": params})
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.clients {
		if m.clients[c] || method != "notify_status_update" {
			c.Write(context.Background(), websocket.MessageText, text)
		}
	}
	if m.away {
		for c := range m.clients {
			m.clients[c] = false
		}
	}
}

func (m *Moonraker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/websocket" {
		m.socket(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q, _ := url.ParseQuery(r.URL.RawQuery)
	switch {
	case m.Key != "" && r.Header.Get("X-Api-Key") != m.Key:
		answer(w, 401, Fields{"error": Fields{"code": 401, "message": "Unauthorized"}})
	case r.URL.Path == "/server/info":
		components := []string{"history"}
		if m.Spoolman != "" {
			components = append(components, "spoolman")
		}
		answer(w, 200, Fields{"result": Fields{"klippy_state": "ready", "moonraker_version": "v0.11.0",
			"components": components}})
	case r.URL.Path == "/server/config":
		answer(w, 200, Fields{"result": Fields{"config": Fields{"spoolman": Fields{"server": m.Spoolman}}}})
	case r.URL.Path == "/server/spoolman/spool_id" && m.Spoolman != "":
		answer(w, 200, Fields{"result": Fields{"spool_id": m.spool}})
	case r.URL.Path == "/server/history/list":
		answer(w, 200, Fields{"result": Fields{"count": len(m.history), "jobs": m.history}})
	case r.URL.Path == "/server/files/metadata" && m.files[q.Get("filename")] != nil:
		answer(w, 200, Fields{"result": m.files[q.Get("filename")]})
	default:
		answer(w, 404, Fields{"error": Fields{"code": 404, "message": "Not Found"}})
	}
}

func (m *Moonraker) socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	m.mu.Lock()
	if m.clients == nil {
		m.clients = map[*websocket.Conn]bool{}
	}
	m.clients[c] = false
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.clients, c)
		m.mu.Unlock()
	}()
	for {
		_, text, err := c.Read(context.Background())
		if err != nil {
			return
		}
		var request struct {
			ID     int64
			Method string
		}
		json.Unmarshal(text, &request)
		m.mu.Lock()
		response := Fields{"jsonrpc": "2.0", "id": request.ID}
		query := request.Method == "printer.objects.query"
		switch {
		case !query && request.Method != "printer.objects.subscribe" || m.away:
			response["error"] = Fields{"code": -32601, "message": "Method not found"}
		default:
			m.clients[c] = m.clients[c] || !query
			response["result"] = Fields{"eventtime": 1.0, "status": m.status}
		}
		text, _ = json.Marshal(response)
		if before := m.before; query && before != nil {
			m.before = nil
			m.mu.Unlock()
			before()
			m.mu.Lock()
		}
		c.Write(context.Background(), websocket.MessageText, text)
		m.mu.Unlock()
	}
}
