package watch

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"spoolwright/value/language"
)

// prusalink polls a printer of Prusa: Buddy firmware, or PrusaLink on a Raspberry Pi. Only the API v1 tells a
// completed job from a stopped one. Buddy firmware leaves the job out when it has ended. A job's number survives a
// power cut.
type prusalink struct {
	*site
	id        int64
	key, file string // of the job with the id
}

// linkStatus is the answer to GET /api/v1/status.
type linkStatus struct {
	Printer struct {
		State  string `json:"state"`
		Status struct {
			Message string `json:"message"`
		} `json:"status_printer"`
	} `json:"printer"`
	Job *struct {
		ID       int64    `json:"id"`
		Progress *float64 `json:"progress"` // percent
		Left     float64  `json:"time_remaining"`
		Printed  float64  `json:"time_printing"`
	} `json:"job"`
}

func (p *prusalink) watch(ctx context.Context, yield func(Observation)) error {
	return poll(ctx, p.look, yield)
}

func (p *prusalink) look(ctx context.Context) (Observation, error) {
	var s linkStatus
	if code, err := p.get(ctx, "/api/v1/status", &s); err != nil {
		return Observation{}, err
	} else if code != 200 || s.Printer.State == "" {
		return Observation{}, problem("kind", "What answers at %s is not %s.", p.address, "PrusaLink with the API v1")
	}
	o := Observation{Vouched: true, Message: s.Printer.Status.Message}
	if o.Message == "OK" {
		o.Message = ""
	}
	if j := s.Job; j != nil && j.ID != 0 {
		if j.ID != p.id {
			if err := p.name(ctx, j.ID); err != nil || p.id != j.ID {
				return Observation{}, err
			}
		}
		o.Key, o.File = p.key, p.file
		o.Elapsed, o.Left = j.Printed, j.Left
		if j.Progress != nil {
			o.Progress = new(*j.Progress / 100)
		}
	}
	o.State = Idle
	switch state := strings.ToUpper(s.Printer.State); state {
	case "PRINTING":
		o.State, o.Phase = Printing, Runs
	case "PAUSED":
		o.State, o.Phase = Paused, Runs
	case "ATTENTION":
		o.State, o.Message = Attention, cmp.Or(o.Message, language.Sprintf(
			"The printer asks for something on its screen."))
		if s.Job != nil {
			o.Phase = Runs
		}
	case "FINISHED":
		o.Phase, o.Outcome = Ended, Completed
	case "STOPPED":
		o.Phase, o.Outcome = Ended, Cancelled
	case "ERROR":
		o.State, o.Phase, o.Outcome, o.Reason = Attention, Ended, Failed, o.Message
		o.Message = cmp.Or(o.Message, language.Sprintf("The printer shows an error."))
	case "IDLE", "READY":
		// After a screen that somebody left, nobody knows how the job ended.
		o.Phase, o.Key, o.File = None, "", ""
	default: // BUSY, also in the middle of a job
		o.State = ""
	}
	return o, nil
}

// name reads the file of the job with the id. Its key has the file too, because the id is a 16-bit number that begins
// again.
func (p *prusalink) name(ctx context.Context, id int64) error {
	var j struct {
		ID   int64 `json:"id"`
		File struct {
			Name    string `json:"name"`
			Display string `json:"display_name"`
		} `json:"file"`
	}
	code, err := p.get(ctx, "/api/v1/job", &j)
	if err != nil {
		return err
	}
	if code == 200 && j.ID == id { // otherwise the job has changed meanwhile
		p.id, p.key = id, cut(strconv.FormatInt(id, 10)+"/"+j.File.Name, 180)
		p.file = cmp.Or(j.File.Display, j.File.Name)
	}
	return nil
}
