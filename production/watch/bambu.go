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

// bambuCancelled is the print_error of a job that a person stopped. It is 0 again after some seconds.
const bambuCancelled = 0x0300400c

// bambu listens to a printer of Bambu Lab by MQTT in its network. It works without developer mode, because it sends
// nothing but the request for the whole state.
type bambu struct {
	Connection
	dial    Dial
	address string

	report  bambuReport
	trays   map[int]Slot // by global number
	mapping []int        // the trays of the file's filaments, as somebody sent them with the job

	runs     bool // between the start and the end of a job
	starting time.Time
	named    bool // the name of the job has arrived since the end of the one before
	failing  time.Time
	idling   time.Time // IDLE came in the middle of a job; it may be for a moment
	fault    int64     // the last print_error of the job that is not 0
	tray     int       // that prints
	used     []Use
	asked    time.Time // for the whole state
}

// bambuReport are the fields of print that count. Messages have those that changed, and decode into it. An empty tray
// has only its id.
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

type bambuTray struct {
	ID       loose `json:"id"`
	Tag      loose `json:"tag_uid"`
	UUID     loose `json:"tray_uuid"`
	Material loose `json:"tray_type"`
	Color    loose `json:"tray_color"` // RRGGBBAA
	Remain   loose `json:"remain"`     // percent; -1 unknown
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
		return nil, problem("invalid", "The address of a printer of Bambu Lab is a name or an IP address.")
	}
	if !regexp.MustCompile(`^[0-9A-Za-z]{8,40}$`).MatchString(c.Serial) {
		return nil, problem("invalid", "The serial number has letters and digits; it is on the printer's screen.")
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
	fingerprint := ""
	// The certificate is of the manufacturer's authority and names the serial number instead of a host. New models have
	// new authorities, so the certificate itself is compared with the one that was seen first.
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			fingerprint = hex.EncodeToString(sum[:])
			switch {
			case s.PeerCertificates[0].Subject.CommonName != b.Serial:
				return problem("certificate", "The printer at this address has another serial number.")
			case b.Fingerprint != "" && !strings.EqualFold(b.Fingerprint, fingerprint):
				return &Problem{Code: "certificate", Fingerprint: fingerprint,
					Text: "The printer's certificate has changed. Check that it is the same printer, and confirm the new one."}
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
	defer context.AfterFunc(ctx, func() { m.NetConn().Close() })()
	defer m.NetConn().Close()
	*b = bambu{Connection: b.Connection, dial: b.dial, address: b.address, trays: map[int]Slot{}, named: true, tray: 255}
	if err := b.pushall(m); err != nil {
		return problemOf(err, b.address)
	}
	heard, pinged := time.Now(), time.Now()
	for {
		kind, body, err := m.receive(bambuLook)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			err = nil
		case err != nil:
			return problemOf(err, b.address)
		case kind&0xf0 == mqttPublish:
			text, err := m.message(kind, body)
			if err != nil {
				return problemOf(err, b.address)
			}
			heard = time.Now()
			b.take(text)
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
	r.Command, r.Param, r.Sent, r.AMS.Units, r.External, r.AMS.Now = "", "", nil, nil, nil, ""
	r.File, r.Name, r.Subtask, r.Mapping = nil, nil, nil, slices.Clone(r.Mapping)
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(text, &struct{ Print *bambuReport }{&r}), &syntax) {
		return
	}
	switch {
	case r.Command == "project_file": // somebody sends a job, which has not started
		if b.mapping = r.Sent; r.Param != "" {
			b.report.File = &r.Param
		}
		return
	case r.Command != "" && r.Command != "push_status":
		return
	}
	b.named = b.named || r.File != nil || r.Name != nil || r.Subtask != nil
	r.File, r.Name, r.Subtask = cmp.Or(r.File, old.File), cmp.Or(r.Name, old.Name), cmp.Or(r.Subtask, old.Subtask)
	b.report = r
	for _, unit := range r.AMS.Units {
		id, ok := unit.ID.number()
		for _, tray := range unit.Trays {
			if slot, valid := tray.ID.number(); ok && valid && slot >= 0 && slot < 4 && id < 128 {
				b.put(int(id*4+slot), tray)
			} else if id >= 128 {
				b.put(int(id), tray)
			}
		}
	}
	if r.External != nil {
		b.put(254, *r.External)
	}
	if n, ok := r.Error.number(); ok && n != 0 {
		b.fault = n
	}
	if n, ok := r.AMS.Now.number(); ok {
		b.tray = int(n)
	}
}

// slotName returns the name of a global tray number that people know; "" for none.
func slotName(n int) string {
	switch {
	case n == 254 || n == 255:
		return "External"
	case n >= 128 && n <= 135:
		return "HT" + strconv.Itoa(n-127)
	case n >= 64 && n < 68: // AMS Lite of the A2L
		n -= 64
	case n < 0 || n >= 16:
		return ""
	}
	return string(rune('A'+n/4)) + strconv.Itoa(n%4+1)
}

// put keeps what a tray has. A message has a whole tray, or only what has changed of one with a spool.
func (b *bambu) put(number int, t bambuTray) {
	name := slotName(number)
	if name == "" {
		return
	}
	s := b.trays[number]
	if s.Slot = name; t.Material == "" && t.Color == "" && t.Tag == "" && t.UUID == "" && t.Remain == "" {
		b.trays[number] = Slot{Slot: name, Empty: true}
		return
	}
	for _, tag := range []loose{t.Tag, t.UUID} { // the latter is more reliable
		if strings.Trim(string(tag), "0") != "" {
			s.Tag = cut(string(tag), 100)
		}
	}
	if t.UUID != "" && strings.Trim(string(t.UUID+t.Tag), "0") == "" {
		s.Tag = "" // a spool without a chip
	}
	if s.Material = cut(cmp.Or(string(t.Material), s.Material), 100); len(t.Color) >= 6 {
		s.Color = "#" + strings.ToUpper(cut(string(t.Color), 6))
	}
	if n, ok := t.Remain.number(); ok {
		if s.Remaining = nil; n >= 0 && n <= 100 {
			s.Remaining = new(int(n))
		}
	}
	s.Empty = s.Material == "" && s.Tag == ""
	b.trays[number] = s
}

// prints notes the tray that is in use. Without a mapping, a tray with the same filament continues the one before it,
// which ran out; another one is the next filament of the file.
func (b *bambu) prints() {
	name := slotName(b.tray)
	if b.tray == 255 || name == "" || len(b.report.Mapping) > 0 || len(b.mapping) > 1 {
		return // none; or a number of one unit only, on models that send a mapping
	}
	tool, slot := 0, b.trays[b.tray]
	for _, u := range b.used {
		if u.Slot == name {
			return
		}
		if tool = u.Tool + 1; len(b.mapping) == 1 {
			tool = 0
		}
		for _, other := range b.trays {
			if other.Slot == u.Slot && other.Material == slot.Material && other.Color == slot.Color {
				tool = u.Tool
			}
		}
	}
	b.used = append(b.used, Use{Tool: tool, Slot: name})
}

// uses returns the slots of the job's filaments: by the printer's mapping, the one that was sent with the job, or the
// trays that were in use.
func (b *bambu) uses() []Use {
	var list []Use
	for tool, n := range b.report.Mapping { // hardware unit * 256 + slot
		if unit := n >> 8; n >= 0 && n < 65535 && unit < 128 {
			list = append(list, Use{Tool: tool, Slot: slotName(unit*4 + n&0xff)})
		} else if n >= 0 && n < 65535 {
			list = append(list, Use{Tool: tool, Slot: slotName(unit)})
		}
	}
	if list == nil && len(b.mapping) > 1 {
		for tool, n := range b.mapping {
			if name := slotName(n); name != "" {
				list = append(list, Use{Tool: tool, Slot: name})
			}
		}
	}
	if list == nil {
		list = b.used
	}
	return list
}

var (
	plateOf = regexp.MustCompile(`plate_(\d{1,3})\.gcode`)
	words   = map[int64]string{bambuCancelled: "The print was cancelled.", 0x03008003: "The printer sees spaghetti.",
		0x03008004: "The filament ran out.", 0x07008011: "The filament of the AMS ran out."}
)

// observe returns the observation of the report, and whether the whole state is missing.
func (b *bambu) observe(now time.Time) (o Observation, ask bool) {
	r := b.report
	fault, _ := r.Error.number()
	if o.Replays, o.Fingerprint = true, b.Fingerprint; len(b.trays) > 0 {
		o.Slots = []Slot{}
		for n := range 256 {
			if s, ok := b.trays[n]; ok {
				o.Slots = append(o.Slots, s)
			}
		}
	}
	if r.State == "" {
		o.State, o.Message = Unknown, "The printer is connected, but has not said what it does yet."
		return o, true
	}
	if fault != 0 && fault != bambuCancelled {
		o.Code = fmt.Sprintf("%08X", fault)
		o.Message = cmp.Or(words[fault&^0x00030000], words[fault], "The printer shows the error "+o.Code+".")
	}
	file := string(or(r.File, ""))
	if o.File = string(or(r.Name, "")); o.File == "" && file != "" {
		o.File = path.Base(file)
	}
	if m := plateOf.FindStringSubmatch(file); m != nil {
		o.Plate, _ = strconv.Atoi(m[1])
	}
	if o.Key = string(or(r.Subtask, "")); o.Key == "0" {
		o.Key = ""
	}
	system := r.Type == "system" || strings.HasPrefix(file, "/usr/")
	state := r.State
	switch {
	case state == "IDLE":
		o.State, o.Phase = Idle, None
	case system && (state == "PREPARE" || state == "RUNNING" || state == "PAUSE"):
		return Observation{State: Idle, Phase: None, Message: "The printer calibrates itself.", Slots: o.Slots}, false
	case state == "PREPARE" || state == "RUNNING" || state == "PAUSE":
		return b.running(now, o, fault)
	case state == "FINISH":
		o.State, o.Phase, o.Outcome = Idle, Ended, Completed
	case state == "FAILED":
		if b.failing.IsZero() {
			b.failing = now
		}
		if b.runs && b.fault == 0 && now.Sub(b.failing) < bambuErrorTime {
			return Observation{Message: o.Message, Code: o.Code, Slots: o.Slots}, false
		}
		o.State, o.Phase, o.Outcome = Idle, Ended, Unknown
		if b.fault == bambuCancelled {
			o.Outcome = Cancelled
		} else if b.fault != 0 {
			o.Outcome = Failed
			o.Reason = cmp.Or(words[b.fault&^0x00030000], fmt.Sprintf("error %08X", b.fault))
		}
	default: // INIT, OFFLINE, SLICING in the cloud
		return Observation{Message: o.Message, Code: o.Code, Slots: o.Slots}, false
	}
	if b.idling.IsZero() {
		b.idling = now
	}
	if b.runs && (state != "IDLE" || now.Sub(b.idling) >= endsAfter) {
		b.runs, b.named, b.mapping, b.used = false, false, nil, nil
	}
	b.starting = time.Time{}
	if state != "FAILED" {
		b.failing = time.Time{}
	}
	return o, false
}

// running adds what counts while a job runs.
func (b *bambu) running(now time.Time, o Observation, fault int64) (Observation, bool) {
	r := b.report
	if !b.runs {
		if b.starting.IsZero() {
			b.starting, b.fault = now, fault
		}
		if !b.named && now.Sub(b.starting) < bambuNameTime {
			return Observation{Slots: o.Slots}, true
		}
		b.runs, b.failing = true, time.Time{}
	}
	o.State, o.Phase, b.idling = Printing, Runs, time.Time{}
	if r.State == "PREPARE" { // the percentage is the one of the job before
		o.Progress = new(0.0)
		return o, false
	}
	b.prints()
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
