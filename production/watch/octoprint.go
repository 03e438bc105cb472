package watch

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"spoolwright/value/language"
)

// octoprint polls OctoPrint. It has no identity of jobs: a job is another one if its printing time is shorter, or if
// the counts of prints of its file have grown. The counts also tell how a job ended between two polls.
type octoprint struct {
	*site
	origin, path string // the file of the job that runs, if printed is not 0
	printed      float64
	counts       *printCounts // before the job
	cancelling   bool
}

// printCounts are the prints of a file: prints of GET /api/files/ORIGIN/PATH.
type printCounts struct {
	Success, Failure int
}

// octoFlags are state.flags of GET /api/printer. Printing is also true while the printer pauses, cancels and finishes.
type octoFlags struct {
	Printing, Paused, Pausing, Cancelling, Finishing, Error, ClosedOrError bool
}

type octoPrinter struct {
	State struct {
		Text  string
		Error string
		Flags octoFlags
	}
}

// octoJob is the answer to GET /api/job. Version 2 leaves null fields out.
type octoJob struct {
	Job struct {
		File struct {
			Path, Name, Origin string
		}
	}
	Progress struct {
		Completion    *float64 // percent
		PrintTime     float64
		PrintTimeLeft float64
	}
	State string
	Error string
}

func (p *octoprint) watch(ctx context.Context, yield func(Observation)) error {
	return poll(ctx, p.look, yield)
}

func (p *octoprint) look(ctx context.Context) (Observation, error) {
	var s octoPrinter
	code, err := p.get(ctx, "/api/printer?exclude=temperature,sd", &s)
	if err != nil {
		return Observation{}, err
	}
	var j octoJob
	if found, err := p.get(ctx, "/api/job", &j); err != nil {
		return Observation{}, err
	} else if code == 404 || found != 200 {
		return Observation{}, problem("kind", "What answers at %s is not %s.", p.address, "OctoPrint")
	}
	o := Observation{State: Idle, Phase: None}
	f, text := s.State.Flags, s.State.Text
	if code == 409 { // the serial port is closed
		f, text = octoFlags{ClosedOrError: true}, j.State
	}
	sends := strings.HasPrefix(text, "Sending") || strings.HasPrefix(text, "Transferring") // a file to the SD card
	switch {
	case sends:
		o.Message = text
		return o, nil
	case f.Printing || f.Paused || f.Pausing || f.Cancelling || f.Finishing:
		return p.prints(ctx, f, j)
	case f.ClosedOrError || f.Error:
		o.State, o.Message, o.Code = Offline,
			language.Sprintf("OctoPrint answers, but the printer is off or not connected to it."), text
		if failure := cmp.Or(s.State.Error, j.Error); f.Error || failure != "" || strings.Contains(text, "rror") {
			o.State, o.Message, o.Code = Attention, cmp.Or(failure, text), "error"
		}
		if p.printed > 0 { // it lost the printer while it printed
			o.Phase, o.Outcome, o.Reason = Ended, Failed, cmp.Or(j.Error, text, language.Sprintf(
				"connection to the printer lost"))
			o.File = p.path
		}
	default:
		o, err = p.ended(ctx, o, j)
		if err != nil {
			return o, err
		}
	}
	p.printed, p.cancelling, p.counts = 0, false, nil
	return o, nil
}

// prints returns the observation of a job that runs.
func (p *octoprint) prints(ctx context.Context, f octoFlags, j octoJob) (Observation, error) {
	file := j.Job.File
	o := Observation{State: Printing, Phase: Runs, File: cmp.Or(file.Path, file.Name), Elapsed: j.Progress.PrintTime,
		Left: j.Progress.PrintTimeLeft}
	if f.Paused || f.Pausing {
		o.State = Paused
	}
	if c := j.Progress.Completion; c != nil {
		o.Progress = new(*c / 100)
	}
	other := p.printed > 0 && o.File != p.path
	if again := p.printed > 0 && !other && o.Elapsed > 0 && o.Elapsed < p.printed-5; again || other {
		before := *p
		now, err := p.count(ctx, p.origin, p.path)
		if err != nil {
			return o, err
		}
		o.Before, p.printed = before.since(now), 0
	}
	if p.printed == 0 {
		p.origin, p.path, p.cancelling = file.Origin, o.File, false
		var err error
		if p.counts, err = p.count(ctx, p.origin, p.path); err != nil {
			return o, err
		}
	}
	p.printed = max(o.Elapsed, 0.1)
	p.cancelling = p.cancelling || f.Cancelling
	return o, nil
}

// ended returns the observation of a printer that does not print. A file that is chosen keeps the percentage of its
// last print: 100 if it is complete, none after it was cancelled.
func (p *octoprint) ended(ctx context.Context, o Observation, j octoJob) (Observation, error) {
	file := cmp.Or(j.Job.File.Path, j.Job.File.Name)
	switch c := j.Progress.Completion; {
	case c != nil && *c >= 100 && !p.cancelling:
		o.Phase, o.Outcome, o.File, o.Elapsed = Ended, Completed, file, j.Progress.PrintTime
	case p.printed == 0 || file == "":
	case p.cancelling:
		o.Phase, o.Outcome, o.File = Ended, Cancelled, p.path
	default:
		now, err := p.count(ctx, p.origin, p.path)
		if err != nil {
			return o, err
		}
		if outcome := p.since(now); outcome != "" {
			o.Phase, o.Outcome, o.File = Ended, outcome, p.path
		}
	}
	return o, nil
}

// since returns how the job ended, by the counts of its file before and after it. A failure of a printer that is still
// connected is a cancelled job.
func (p *octoprint) since(now *printCounts) string {
	switch {
	case p.counts == nil || now == nil:
	case now.Success > p.counts.Success:
		return Completed
	case now.Failure > p.counts.Failure:
		return Cancelled
	}
	return ""
}

// count reads the counts of a file; nil if OctoPrint does not count it, as on an SD card.
func (p *octoprint) count(ctx context.Context, origin, path string) (*printCounts, error) {
	if path == "" || origin != "local" {
		return nil, nil
	}
	var f struct {
		Prints printCounts
	}
	code, err := p.get(ctx, "/api/files/local/"+(&url.URL{Path: path}).EscapedPath(), &f)
	if err != nil || code != 200 {
		return nil, err
	}
	return &f.Prints, nil
}
