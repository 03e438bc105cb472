package watch

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/value/language"
)

// Times of kind bambu.
const (
	bambuKeepAlive = 30 * time.Second
	bambuQuiet     = 2 * time.Minute  // without a message: the connection is stale
	bambuLook      = 5 * time.Second  // how often the state is looked at without messages
	bambuNameTime  = 15 * time.Second // for the name of a job that starts, which may come after its state
	bambuErrorTime = 10 * time.Second // for the error code of a job that failed
	bambuPushall   = 5 * time.Minute  // between requests for the whole state, which cost a P1 much
)

// bambuWhole is the least size of a message that may have the whole state, in bytes.
const bambuWhole = 4 << 10

// bambuCancelled is the print_error of a job that a person stopped. It is 0 again after some seconds.
const bambuCancelled = 0x0300400c

// bambu listens to a printer of Bambu Lab by MQTT in its network. It works without developer mode, because it sends
// nothing but the request for the whole state.
type bambu struct {
	Connection
	dial    Dial
	address string

	report  bambuReport
	slots   map[string]Slot // by name
	sent    []int           // the trays of the file's filaments, as they were sent with the job sentFor
	sentFor string

	runs     bool // between the start and the end of a job
	starting time.Time
	named    bool      // the name of the job has arrived since the end of the one before
	stopped  time.Time // when IDLE or FAILED came; IDLE may come for a moment in the middle of a job
	fault    int64     // the last print_error of the job that is not 0
	seen     []int     // the trays that it printed from
	asked    time.Time // for the whole state
}

// bambuReport are the fields of print that count. Messages have those that changed, and decode into it.
type bambuReport struct {
	Command loose  `json:"command"`
	State   loose  `json:"gcode_state"`
	Percent loose  `json:"mc_percent"`
	Minutes loose  `json:"mc_remaining_time"`
	Error   loose  `json:"print_error"`
	File    *loose `json:"gcode_file"`
	Name    *loose `json:"subtask_name"`
	Subtask *loose `json:"subtask_id"`
	Type    loose  `json:"print_type"`
	Param   loose  `json:"param"`       // of project_file: Metadata/plate_2.gcode
	Sent    []int  `json:"ams_mapping"` // of project_file: global numbers of trays, by filament
	Mapping []int  `json:"mapping"`     // unit*256 + slot, by filament
	AMS     struct {
		Now   loose `json:"tray_now"`
		Units []struct {
			ID    loose       `json:"id"`
			Trays []bambuTray `json:"tray"`
		} `json:"ams"`
	} `json:"ams"`
	External *bambuTray `json:"vt_tray"`
}

// loose is a text or number, whose type differs among models and versions. Something else leaves it as it is.
type loose string

func (l *loose) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil && string(b) != "null" {
		*l = loose(cut(s, 500))
	} else if b[0] == '-' || b[0] >= '0' && b[0] <= '9' {
		*l = loose(b)
	}
	return nil
}

// number returns an integer, and whether it is one.
func (l loose) number() (int64, bool) {
	f, err := strconv.ParseFloat(string(l), 64)
	return int64(f), err == nil && f > -1e15 && f < 1e15
}

func newBambu(c Connection, dial Dial) (*bambu, error) {
	u, err := addressOf(c.Address, "8883")
	if err != nil {
		return nil, err
	} else if strings.Contains(c.Address, "/") {
		return nil, invalid("address", "must be a host name or an IP address, such as 192.168.1.20")
	}
	if !regexp.MustCompile(`^[0-9A-Za-z]{8,40}$`).MatchString(c.Serial) {
		return nil, invalid("serial", "must have 8 to 40 letters and digits, as on the screen of the bambu")
	}
	return &bambu{Connection: c, dial: dial, address: u.Host}, nil
}

// connect opens the connection, and keeps the fingerprint of the printer's certificate.
func (b *bambu) connect(ctx context.Context) (*mqtt, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	plain, err := b.dial(ctx, "tcp", b.address)
	if err != nil {
		return nil, problemOf(err, b.address)
	}
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	fingerprint := ""
	// The certificate is of the manufacturer's authority and names the serial number instead of a host. New models
	// have new authorities, so the certificate itself is compared with the one that was seen first.
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			fingerprint = hex.EncodeToString(sum[:])
			switch {
			case s.PeerCertificates[0].Subject.CommonName != b.Serial:
				return problem("certificate", "The printer at this address has another serial number.")
			case b.Fingerprint != "" && !strings.EqualFold(b.Fingerprint, fingerprint):
				p := problem("certificate", "The certificate has changed. If the printer is the same, confirm it.")
				p.Fingerprint = fingerprint
				return p
			}
			return nil
		}})
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, problemOf(err, b.address)
	}
	m := &mqtt{conn, bufio.NewReader(conn)}
	id := "spoolwright" + rand.Text() // equal ids throw each other out
	if err := m.login(id, "bblp", b.Secret, "device/"+b.Serial+"/report", bambuKeepAlive); err != nil {
		plain.Close()
		return nil, problemOf(err, b.address)
	}
	b.Fingerprint = fingerprint
	return m, nil
}

// pushall asks for the whole state.
func (b *bambu) pushall(m *mqtt) error {
	b.asked = time.Now()
	return m.publish("device/"+b.Serial+"/request", `{"pushing":{"sequence_id":"0","command":"pushall"}}`)
}

func (b *bambu) watch(ctx context.Context, yield func(Observation)) error {
	m, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { m.Close() })()
	defer m.Close()
	*b = bambu{Connection: b.Connection, dial: b.dial, address: b.address, slots: map[string]Slot{}, named: true}
	if err := b.pushall(m); err != nil {
		return problemOf(err, b.address)
	}
	heard, pinged, read := time.Now(), time.Now(), time.Time{}
	for {
		kind, body, err := m.receive(bambuLook)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			err = nil
		case err != nil:
			return problemOf(err, b.address)
		case kind&0xf0 == mqttPublish:
			text, err := message(body)
			if err != nil {
				return problemOf(err, b.address)
			}
			heard = time.Now()
			// An X1 sends its whole state each second; while it is idle, some of these messages are enough.
			if whole := len(text) >= bambuWhole; !whole || b.runs || heard.Sub(read) >= bambuLook {
				b.take(text)
				if whole {
					read = heard
				}
			}
		}
		now := time.Now()
		if now.Sub(heard) > bambuQuiet {
			return problem("stale", "The printer is connected, but sends nothing: it sleeps or hangs.")
		}
		if now.Sub(pinged) >= bambuKeepAlive/2 {
			pinged, err = now, m.send(mqttPingreq)
		}
		o, ask := b.observe(now)
		if ask && err == nil && now.Sub(b.asked) > bambuPushall {
			err = b.pushall(m)
		}
		if err != nil {
			return problemOf(err, b.address)
		}
		yield(o)
	}
}

// take merges a message into the report. A message that cannot be read changes nothing.
func (b *bambu) take(text []byte) {
	old, r := b.report, b.report
	r.Command, r.Param, r.Sent, r.AMS.Units, r.External = "", "", nil, nil, nil
	r.File, r.Name, r.Subtask, r.Mapping = nil, nil, nil, slices.Clone(r.Mapping)
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(text, &struct{ Print *bambuReport }{&r}), &syntax) {
		return
	}
	switch {
	case r.Command == "project_file": // somebody sends a job, which has not started
		if b.sent, b.sentFor = r.Sent, string(or(r.Name, "")); r.Param != "" {
			b.report.File = &r.Param
		}
		return
	case r.Command != "" && r.Command != "push_status":
		return
	}
	b.named = b.named || r.File != nil || r.Name != nil || r.Subtask != nil
	r.File, r.Name, r.Subtask = cmp.Or(r.File, old.File), cmp.Or(r.Name, old.Name), cmp.Or(r.Subtask, old.Subtask)
	b.report = r
	b.load()
}

var (
	plateOf = regexp.MustCompile(`plate_(\d{1,3})\.gcode`)
	words   = map[int64]language.Text{0x03008003: "The printer sees spaghetti.", 0x03008004: "The filament ran out.",
		0x07008011: "The filament of the AMS ran out."}
)

// inWords returns the text for a print_error. Its third digit counts the AMS units.
func inWords(fault int64) string {
	if text, ok := words[fault&^0x30000]; ok {
		return language.Sprintf(text)
	}
	return language.Sprintf("The printer shows the error %s.", fmt.Sprintf("%08X", fault))
}

// observe returns the observation of the report, and whether the whole state is missing.
func (b *bambu) observe(now time.Time) (o Observation, ask bool) {
	r, file := b.report, string(or(b.report.File, ""))
	o.Replays, o.Fingerprint, o.Slots = true, b.Fingerprint, b.list()
	if r.State == "" {
		o.State, o.Message = Unknown, language.Sprintf("The printer is connected, but has not said what it does yet.")
		return o, true
	}
	fault, _ := r.Error.number()
	if fault != 0 && fault != bambuCancelled {
		b.fault, o.Code, o.Message = fault, fmt.Sprintf("%08X", fault), inWords(fault)
	} else if fault != 0 {
		b.fault = fault
	}
	nothing := o
	if o.File = string(or(r.Name, "")); o.File == "" && file != "" {
		o.File = path.Base(file)
	}
	if m := plateOf.FindStringSubmatch(file); m != nil {
		o.Plate, _ = strconv.Atoi(m[1])
	}
	if o.Key = string(or(r.Subtask, "")); o.Key == "0" {
		o.Key = ""
	}
	switch r.State {
	case "PREPARE", "RUNNING", "PAUSE":
		if r.Type != "system" && !strings.HasPrefix(file, "/usr/") {
			b.stopped = time.Time{}
			return b.running(now, o, nothing, fault)
		}
		nothing.State, nothing.Phase, nothing.Message = Idle, None, language.Sprintf("The printer calibrates itself.")
		return nothing, false
	case "IDLE", "FINISH", "FAILED":
	default: // INIT, OFFLINE, SLICING in the cloud
		return nothing, false
	}
	o.State, b.starting = Idle, time.Time{}
	if b.stopped.IsZero() {
		b.stopped = now
	}
	switch waited := now.Sub(b.stopped); {
	case r.State == "FINISH":
		o.Phase, o.Outcome = Ended, Completed
	case r.State == "IDLE":
		if o.Phase = None; waited < endsAfter {
			return o, false
		}
	case b.runs && b.fault == 0 && waited < bambuErrorTime:
		return nothing, false
	default:
		if o.Phase, o.Outcome = Ended, Unknown; b.fault == bambuCancelled {
			o.Outcome = Cancelled
		} else if b.fault != 0 {
			o.Outcome, o.Reason = Failed, inWords(b.fault)
		}
	}
	if b.runs {
		b.runs, b.named, b.sent, b.seen = false, false, nil, nil
	}
	return o, false
}

// running adds what counts while a job runs. It returns nothing until the name of the job has come.
func (b *bambu) running(now time.Time, o, nothing Observation, fault int64) (Observation, bool) {
	r := b.report
	if b.starting.IsZero() {
		b.starting = now
	}
	if !b.runs {
		if !b.named && now.Sub(b.starting) < bambuNameTime {
			return nothing, true
		}
		if b.runs, b.fault = true, fault; b.sentFor != string(or(r.Name, "")) {
			b.sent = nil
		}
	}
	if o.State, o.Phase = Printing, Runs; r.State == "PREPARE" { // the percentage is the one of the job before
		o.Progress = new(0.0)
		return o, false
	}
	o.Used = b.uses()
	if p, ok := r.Percent.number(); ok {
		o.Progress = new(float64(p) / 100)
	}
	if m, ok := r.Minutes.number(); ok {
		o.Left = float64(m) * 60
	}
	if r.State == "PAUSE" {
		if o.State = Paused; o.Code != "" {
			o.State = Attention
		}
	}
	return o, false
}
