// Package watch follows printers by their own protocols and says what they do. It only reads: none of its requests
// starts, stops, heats or moves anything.
//
// A kind, such as moonraker.go, speaks one protocol and yields an Observation for each message or poll. A tracker
// turns the observations of a printer into States: what a job is, whether it is a new one, and how it ended. A Watcher
// runs many printers and sends the States to a Sink. The package knows nothing of production runs.
package watch

import (
	"context"
	"net"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/value"
)

// The states of printers.
const (
	Idle      = "idle"
	Printing  = "printing"
	Paused    = "paused"
	Attention = "attention" // needs a person
	Offline   = "offline"
	Unknown   = "unknown" // also an outcome: nobody saw the end
)

// The outcomes of jobs, besides Unknown.
const (
	Completed = "completed"
	Cancelled = "cancelled"
	Failed    = "failed"
)

// State is what a printer does, an element of POST /api/v1/printer-states. What is absent the printer does not say.
type State struct {
	PrinterID  string     `json:"printer_id"`
	Sequence   int64      `json:"sequence"` // grows with each State of a printer, also after a restart of the watcher
	State      string     `json:"state"`
	Message    string     `json:"message,omitempty"`
	Code       string     `json:"code,omitempty"`
	PrinterAt  *time.Time `json:"printer_at,omitempty"` // the printer's clock, to show; it may be wrong by decades
	ObservedAt time.Time  `json:"observed_at"`
	Job        *Job       `json:"job,omitempty"` // the job that runs, or that has ended with this State
	Slots      []Slot     `json:"slots,omitempty"`
}

// Job is one print of a file.
type Job struct {
	ID        string     `json:"id"`
	File      string     `json:"file,omitempty"` // as the printer says it
	Plate     int        `json:"plate,omitempty"`
	Adopted   bool       `json:"adopted"` // it ran already when the watcher saw the printer first, or again
	Certain   bool       `json:"certain"` // false if perhaps nobody started it: a replay, or a reprint not told apart
	StartedAt *time.Time `json:"started_at,omitempty"`
	Elapsed   *float64   `json:"elapsed_seconds,omitempty"`
	Progress  *float64   `json:"progress,omitempty"` // 0 to 1; never decreases
	Left      *float64   `json:"seconds_left,omitempty"`
	Used      []Use      `json:"used,omitempty"`
	Outcome   string     `json:"outcome,omitempty"` // empty while the job runs
	Reason    string     `json:"reason,omitempty"`
}

// Use is the filament that a tool has used since the start of the job, and the slot that it came from.
type Use struct {
	Tool        int      `json:"tool"`
	Slot        string   `json:"slot,omitempty"`
	Millimetres *float64 `json:"millimetres,omitempty"`
}

// Slot is a place for a spool, as people see its name: A1 to D4 and HT1 of an AMS, External, T0 for a tool.
type Slot struct {
	Slot      string `json:"slot"`
	Tag       string `json:"tag,omitempty"` // of the RFID chip
	Material  string `json:"material,omitempty"`
	Color     string `json:"color,omitempty"` // #RRGGBB
	Remaining *int   `json:"remaining_percent,omitempty"`
	Empty     bool   `json:"empty"`
	Spool     int    `json:"spool_number,omitempty"` // in the service
}

// Connection says how to reach a printer. Secret is the API key or the access code; for the digest authentication of
// PrusaLink it may be user:password. Serial and Fingerprint belong to kind bambu: Fingerprint is the SHA-256 of the
// certificate in hexadecimal digits, or empty to accept any whose name is the serial number.
type Connection struct {
	Kind, Address, Secret, Serial, Fingerprint string
}

// String hides the secret from logs.
func (c Connection) String() string { return c.Kind + " " + c.Address }

// GoString hides the secret from logs.
func (c Connection) GoString() string { return c.String() }

// Dial opens network connections. The service passes one that guards networks that it must not reach.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Phase is what an Observation says about the job of a printer.
type Phase int

// The phases. The zero Phase is Keep.
const (
	Keep  Phase = iota // nothing: the printer is busy, restarts, or has not said anything yet
	Runs               // a job prints, prepares or is paused
	Ended              // the printer shows a job that has ended, and Outcome
	None               // there is no job, and nothing is known about one that was there before
)

// Observation is what a printer says at one moment. The zero value of a field means that it does not say.
type Observation struct {
	State         string
	Phase         Phase
	Message, Code string
	Slots         []Slot

	Key         string // the printer's identity of the job
	Vouched     bool   // two jobs never have the same Key, and only a person starts a job with a new one
	Replays     bool   // the printer may start its last file by itself when power comes back
	File        string
	Plate       int
	Elapsed     float64 // seconds, with pauses
	Left        float64 // seconds
	Progress    *float64
	Millimetres float64 // of all tools
	Tool        int     // that Millimetres grow with from now on
	Used        []Use
	Outcome     string
	Reason      string

	Fingerprint string // of the certificate that the printer showed

	Before string // the outcome of the job before this one, if the watcher has not seen its end
	Past   []Past // the printer's history, the newest job first
}

// Past is a job in the history of a printer.
type Past struct {
	Key, File, Outcome   string // Outcome is empty while the job runs
	Elapsed, Millimetres float64
	EndedAt              time.Time // of the printer's clock
}

// A kind speaks the protocol of one printer.
type kind interface {
	// watch yields what the printer says until the connection fails or ctx ends.
	watch(ctx context.Context, yield func(Observation)) error
}

// Test watches a printer until it has said what it does. Its error is a *Problem, which says in words what is wrong.
func Test(ctx context.Context, c Connection, dial Dial) (found Observation, err error) {
	k, err := newKind(c, dial)
	if err != nil {
		return found, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerWithin)
	defer cancel()
	err = k.watch(ctx, func(o Observation) {
		if found.State == "" || found.State == Unknown {
			found = o
		}
		if o.State != "" && o.State != Unknown {
			cancel()
		}
	})
	switch {
	case found.State == Unknown:
		return found, problem("off", "%s Perhaps it sleeps: wake its screen.", found.Message)
	case found.State != "":
		return found, nil
	}
	return found, problemOf(err, c.Address)
}

var fingerprintForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check returns a *Problem with its Field if nothing can be watched with the connection, whatever answers there, or if
// it has what only a bambu has.
func Check(c Connection) error {
	_, err := newKind(c, nil)
	switch bambu := c.Kind == "bambu"; {
	case err != nil:
		return err
	case !bambu && c.Serial != "":
		return invalid("serial", "is only for a bambu")
	case c.Fingerprint != "" && !(bambu && fingerprintForm.MatchString(c.Fingerprint)):
		return invalid("fingerprint", "must be the SHA-256 of the certificate of a bambu: 64 hexadecimal digits")
	}
	return nil
}

// newKind returns the client for a connection.
func newKind(c Connection, dial Dial) (kind, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: answerWithin}).DialContext
	}
	switch c.Kind {
	case "moonraker":
		s, err := newSite(c, dial, "7125")
		return &moonraker{site: s}, err
	case "octoprint":
		s, err := newSite(c, dial, "80")
		return &octoprint{site: s}, err
	case "prusalink":
		s, err := newSite(c, dial, "80")
		return &prusalink{site: s}, err
	case "bambu":
		return newBambu(c, dial)
	}
	return nil, invalid("kind", "must be moonraker, octoprint, prusalink or bambu")
}

// cut returns the text as the service accepts it: at most n characters, without control characters, without marks of
// direction, and without U+FFFD, which JSON makes of what is not UTF-8.
func cut(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		} else if r == utf8.RuneError {
			return '?'
		} else if value.IsDirection(r) {
			return -1
		}
		return r
	}, s[:min(len(s), 4*n)])
	for utf8.RuneCountInString(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return strings.TrimSpace(s)
}
