package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"spoolwright/value/language"
)

// Times of kind moonraker.
const (
	pingEvery = 30 * time.Second // how often a connection that may be stale, and the status, are checked
	rowRetry  = 3 * time.Second
	rowWithin = 10 * time.Second // after the start of a job, its row is in the history
)

const maxSpool = 999_999_999 // the greatest number of a spool in the service

// moonraker listens to Moonraker by JSON-RPC over a WebSocket, and reads its history by HTTP. A job's identity is the
// id of its row in the history with its start, because ids begin again when rows are deleted.
type moonraker struct {
	*site
	status  klipper
	heard   time.Time // of the last change of the status
	away    bool      // Klipper is not connected to Moonraker
	history bool      // Moonraker keeps one
	key     string    // of the job that runs or is shown
	begun   time.Time // when the job that runs may have become another one
	asked   time.Time // for the history
	seconds float64   // that the slicer estimated for the job
	slots   []Slot    // with the active spool, if the service is Moonraker's Spoolman
}

// klipper is the state of Klipper's objects. Notifications have the fields that changed, and decode into it.
type klipper struct {
	Stats struct {
		State    string  `json:"state"`
		Message  string  `json:"message"`
		File     string  `json:"filename"`
		Total    float64 `json:"total_duration"` // with pauses
		Printed  float64 `json:"print_duration"`
		Filament float64 `json:"filament_used"` // mm, of all extruders
	} `json:"print_stats"`
	Card    struct{ Progress float64 } `json:"virtual_sdcard"`
	Display struct{ Progress float64 } `json:"display_status"`
	Hooks   struct {
		State   string `json:"state"`
		Message string `json:"state_message"`
	} `json:"webhooks"`
	Toolhead struct{ Extruder string }
}

// request returns a request for the objects of klipper. The method subscribe has the id 1; notifications follow its
// answer, until Klipper restarts. The id of another request is the time in milliseconds.
func request(id int64, method string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc": "2.0", "id": %d, "method": "printer.objects.%s", "params": {"objects": {
		"print_stats": null, "virtual_sdcard": ["progress"], "display_status": ["progress"], "webhooks": null,
		"toolhead": ["extruder"]}}}`, id, method)
}

type rpcMessage struct {
	ID     int64
	Method string
	Params []json.RawMessage
	Result struct{ Status json.RawMessage }
	Error  *struct{ Code int }
}

var klipperAway = Observation{State: Offline, Code: "klipper", Message: language.Sprintf(
	"Moonraker answers, but Klipper is not ready.")}

func (m *moonraker) watch(ctx context.Context, yield func(Observation)) error {
	// Moonraker opens WebSockets without a key too, so HTTP finds a wrong one.
	var info struct{ Components []string }
	if code, err := m.read(ctx, "/server/info", &info); err != nil {
		return err
	} else if code != 200 {
		return problem("kind", "What answers at %s is not %s.", m.address, "Moonraker")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := http.Header{}
	if m.Secret != "" {
		header.Set("X-Api-Key", m.Secret)
	}
	conn, answer, err := websocket.Dial(ctx, m.base+"/websocket",
		&websocket.DialOptions{HTTPClient: m.client, HTTPHeader: header})
	if err != nil && answer != nil {
		return problem("kind", "The address opens no WebSocket: a proxy in front of Moonraker needs it.")
	} else if err != nil {
		return problemOf(err, m.address)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	go check(ctx, conn, cancel)
	if m.slots = nil; slices.Contains(info.Components, "spoolman") {
		m.readSpool(ctx)
	}
	if err := conn.Write(ctx, websocket.MessageText, request(1, "subscribe")); err != nil {
		return problemOf(err, m.address)
	}
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return problemOf(cmp.Or(context.Cause(ctx), err), m.address)
		}
		// Moonraker sends its own use of the processor each second.
		var r rpcMessage
		if bytes.Contains(text[:min(len(text), 100)], []byte("notify_proc_stat")) || json.Unmarshal(text, &r) != nil {
			continue
		}
		if r.Method == "notify_klippy_ready" {
			err = conn.Write(ctx, websocket.MessageText, request(1, "subscribe"))
		} else {
			err = m.take(ctx, r, yield)
		}
		if err != nil {
			return problemOf(err, m.address)
		}
	}
}

// check ends the connection if the other side no longer answers, and asks for the whole status: Moonraker sends no
// notification of a change that Klipper sends at the same time as the answer to the subscription.
func check(ctx context.Context, conn *websocket.Conn, cancel context.CancelCauseFunc) {
	for pause(ctx, pingEvery) == nil {
		wait, done := context.WithTimeout(ctx, answerWithin)
		if conn.Ping(wait) != nil {
			cancel(problem("stale", "The connection is open, but nothing answers."))
		}
		done()
		conn.Write(ctx, websocket.MessageText, request(time.Now().UnixMilli(), "query"))
	}
}

// read reads a result by HTTP.
func (m *moonraker) read(ctx context.Context, path string, v any) (int, error) {
	return m.get(ctx, path, &struct{ Result any }{v})
}

// activeSpool is the spool that a person has chosen in Moonraker, by its id in Spoolman. The API of Spoolman in the
// service has the numbers of spools as ids. Moonraker has one active spool for all tools.
type activeSpool struct {
	ID int `json:"spool_id"` // 0 for none
}

func (a activeSpool) slots() []Slot {
	if a.ID < 1 || a.ID > maxSpool {
		a.ID = 0
	}
	return []Slot{{Slot: "T0", Spool: a.ID}}
}

// readSpool reads the active spool if the address of Moonraker's Spoolman has a key of the service. In another
// Spoolman, the id is that of another spool. A Moonraker that does not say the spool is watched without it.
func (m *moonraker) readSpool(ctx context.Context) {
	var all struct {
		Config struct{ Spoolman json.RawMessage }
	}
	var active activeSpool
	m.read(ctx, "/server/config", &all)
	if !bytes.Contains(all.Config.Spoolman, []byte("swk_")) {
		return
	}
	if code, err := m.read(ctx, "/server/spoolman/spool_id", &active); err == nil && code == 200 {
		m.slots = active.slots()
	}
}

// take handles a message.
func (m *moonraker) take(ctx context.Context, r rpcMessage, yield func(Observation)) error {
	before, changed, now := m.status.Stats, true, time.Now()
	if r.ID > 1 && (r.Error != nil || m.away || !m.heard.Before(time.UnixMilli(r.ID))) {
		return nil // a notification may be newer than this status
	} else if r.ID <= 1 {
		m.heard = now
	}
	status := r.Result.Status
	if r.Method == "notify_status_update" && len(r.Params) > 0 {
		status = r.Params[0]
	}
	switch {
	case r.ID == 1 && r.Error != nil && r.Error.Code == -32602:
		return problem("key", "Moonraker refuses the key, or does not trust this address without one.")
	case r.ID == 1:
		m.status = klipper{}
		json.Unmarshal(status, &m.status)
		m.away = m.status.Stats.State == "" // Klipper has not started, or has no virtual_sdcard
	case status != nil:
		json.Unmarshal(status, &m.status) // a field of another type keeps its value
		s := m.status.Stats
		changed = s.State != before.State || s.File != before.File || s.Total < before.Total
	case r.Method == "notify_active_spool_set" && m.slots != nil && len(r.Params) > 0:
		var active activeSpool
		json.Unmarshal(r.Params[0], &active)
		m.slots, changed = active.slots(), false
	case r.Method == "notify_klippy_disconnected":
		m.away = true
	case r.Method == "notify_klippy_shutdown":
		m.status.Hooks.State = "shutdown"
	case r.Method != "notify_history_changed" || m.key != "" && m.status.Stats.State != "standby":
		return nil
	}
	if m.away {
		yield(klipperAway)
		return nil
	}
	o := m.observe()
	o.Slots = m.slots
	if changed {
		m.begun = now
	}
	unknown := o.Phase == Runs && m.key == ""
	if changed || unknown && m.history && now.Sub(m.asked) > rowRetry {
		if err := m.identify(ctx, &o); err != nil {
			return err
		}
	}
	if o.Phase != None {
		o.Key = m.key
	}
	// Moonraker may write the row of a job after the state changes. Or the state is old, and the job has ended.
	if o.Phase == Runs && m.key == "" && m.history && now.Sub(m.begun) < rowWithin {
		o.State, o.Phase = "", Keep
	}
	if printed := m.status.Stats.Printed; o.Phase == Runs && m.seconds > printed {
		o.Left = m.seconds - printed
	} else if o.Phase == Runs && *o.Progress > 0 {
		o.Left = printed * (1 - *o.Progress) / *o.Progress
	}
	yield(o)
	return nil
}

// observe returns the observation of the state, without the job's identity.
func (m *moonraker) observe() Observation {
	s, hooks := m.status.Stats, m.status.Hooks
	o := Observation{Vouched: true, State: Idle, Message: s.Message, File: s.File, Elapsed: s.Total,
		Millimetres: s.Filament, Progress: new(cmp.Or(m.status.Display.Progress, m.status.Card.Progress))}
	o.Tool, _ = strconv.Atoi(strings.TrimPrefix(m.status.Toolhead.Extruder, "extruder"))
	switch s.State {
	case "printing":
		o.Phase, o.State = Runs, Printing
	case "paused":
		o.Phase, o.State = Runs, Paused
	case "complete", "completed": // the latter on printers of Anycubic
		o.Phase, o.Outcome = Ended, Completed
	case "cancelled":
		o.Phase, o.Outcome = Ended, Cancelled
	case "error":
		o.Phase, o.Outcome, o.Reason = Ended, Failed, s.Message
	case "standby":
		o = Observation{Vouched: true, Phase: None, State: Idle}
	default:
		o.State = ""
	}
	if hooks.State == "shutdown" || hooks.State == "error" { // print_stats may still say printing
		if o.Phase == Runs {
			o.Phase, o.Outcome, o.Reason = Ended, Failed, hooks.Message
		}
		o.State, o.Message, o.Code = Attention, cmp.Or(hooks.Message, language.Sprintf("Klipper has stopped.")),
			hooks.State
	}
	return o
}

// moonrakerJob is a row of the history.
type moonrakerJob struct {
	ID       string  `json:"job_id"`
	File     string  `json:"filename"`
	Status   string  `json:"status"`
	Start    float64 `json:"start_time"` // Unix time of the printer's clock
	End      float64 `json:"end_time"`
	Total    float64 `json:"total_duration"`
	Filament float64 `json:"filament_used"`
}

// outcomes are the statuses of the history. Of a job that ran when Moonraker stopped it does not know more.
var outcomes = map[string]string{"in_progress": "", "completed": Completed, "cancelled": Cancelled, "error": Failed,
	"klippy_shutdown": Failed, "klippy_disconnect": Failed}

func (j moonrakerJob) past() Past {
	p := Past{Key: j.ID + "/" + strconv.FormatFloat(j.Start, 'f', 3, 64), File: j.File, Elapsed: j.Total,
		Millimetres: j.Filament, Outcome: Unknown}
	if outcome, known := outcomes[j.Status]; known {
		p.Outcome = outcome
	}
	if j.End > 0 && j.End < 1e11 {
		p.EndedAt = time.Unix(int64(j.End), 0)
	}
	return p
}

// is reports whether the newest row is the job that print_stats shows. A job goes on when Moonraker restarts, although
// its row has ended.
func (j moonrakerJob) is(o Observation) bool {
	goesOn := slices.Contains([]string{"server_exit", "interrupted", "klippy_disconnect"}, j.Status)
	return o.File != "" && j.File == o.File &&
		(j.Status == "in_progress" || o.Phase == Ended || goesOn && o.Elapsed >= j.Total-1)
}

// identify reads the history into o.Past, finds the key of the job that print_stats shows, and the estimate of one
// that runs.
func (m *moonraker) identify(ctx context.Context, o *Observation) error {
	m.key, m.seconds, m.asked = "", 0, time.Now()
	var list struct{ Jobs []moonrakerJob }
	code, err := m.read(ctx, "/server/history/list?limit=50&order=desc", &list)
	if err != nil {
		return err
	}
	m.history = code == 200
	for i, j := range list.Jobs {
		o.Past = append(o.Past, j.past())
		if i == 0 && j.is(*o) {
			m.key = o.Past[0].Key
		}
	}
	if o.Phase != Runs {
		return nil
	}
	var file struct {
		Seconds float64 `json:"estimated_time"`
	}
	// Without it, the progress says how long the job takes.
	m.read(ctx, "/server/files/metadata?filename="+url.QueryEscape(o.File), &file)
	m.seconds = file.Seconds
	return nil
}
