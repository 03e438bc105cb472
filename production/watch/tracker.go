package watch

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Bounds of the tracker.
const (
	offlineAfter = time.Minute      // without a connection
	endsAfter    = 20 * time.Second // without a job: some firmware leaves the state RUNNING for moments
	writeEvery   = 30 * time.Second // at most, for what is no transition
	awayAfter    = 2 * time.Minute  // without a connection, what happened meanwhile counts as not seen
	bootsIn      = 15 * time.Second // a printer is away for longer when its power was cut
	replayWithin = 5 * time.Minute  // after that, it may start its last file by itself
	maxUses      = 64
	maxTool      = 1000
	maxLength    = 1e8 // mm; more is an error of the printer
)

// job is a job that the tracker knows.
type job struct {
	Job
	key  string  // the printer's identity of it; may be empty, and may come later than the job
	mm   float64 // of all tools
	tool int     // that uses filament

	said  float64   // the elapsed seconds, by the printer
	begun time.Time // when the watcher saw it first; zero before a restart
}

// tracker turns the observations of one printer into States. It decides by the watcher's own clock and by the order in
// which observations arrive, never by times of the printer, whose clock may be wrong.
type tracker struct {
	id   string
	emit func(s State, transition bool)

	now  State // what the printer does, without job and sequence
	job  *job  // the one that runs
	last *job  // the one that runs or ran last
	live bool  // an observation about the job has arrived on this connection

	never     bool      // the printer was never seen
	lostAt    time.Time // when it was seen last; zero while the connection works
	downAt    time.Time // when the connection failed
	loss      *Problem
	away      time.Duration // how long it was out of sight the last time
	backAt    time.Time
	idleSince time.Time // it has no job, but job has not ended yet

	sent    State
	sentKey string // of its job
	sentAt  time.Time
}

var timeOf = regexp.MustCompile(`@[0-9]{12,14}$`) // that start adds to an id

// newTracker returns a tracker that goes on after the last State that the service has, which may be nil. The job of
// this State is the last one that the service knows, also if an earlier State ended it.
func newTracker(id string, last *State, now time.Time, emit func(State, bool)) *tracker {
	t := &tracker{id: id, emit: emit, now: State{State: Unknown}, lostAt: now, never: last == nil}
	if last == nil {
		return t
	}
	t.sent.Sequence, t.lostAt = last.Sequence, last.ObservedAt
	t.now.State, t.now.Slots = last.State, last.Slots
	if last.Job != nil {
		j := &job{Job: *last.Job, key: last.Job.ID, said: or(last.Job.Elapsed, 0)}
		j.key = timeOf.ReplaceAllString(j.ID, "")
		for _, u := range j.Used {
			j.mm += or(u.Millimetres, 0)
		}
		if t.last = j; j.Outcome == "" {
			t.job = j
		}
	}
	return t
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// lost says that the connection ended or could not be made. The printer counts as offline later, see tick.
func (t *tracker) lost(now time.Time, why *Problem) {
	if t.lostAt.IsZero() {
		t.lostAt = now
	}
	if t.downAt.IsZero() {
		t.downAt = now
	}
	t.live, t.loss = false, why
}

// suspend says that the printer is not watched from now on.
func (t *tracker) suspend(now time.Time) {
	t.lost(now, nil)
	t.downAt, t.idleSince = time.Time{}, time.Time{}
}

// tick does what is due without an observation.
func (t *tracker) tick(now time.Time) {
	if t.loss != nil && now.Sub(t.downAt) >= offlineAfter {
		t.now.State, t.now.Message, t.now.Code = Offline, t.loss.Text, t.loss.Code
		if t.loss.answers() {
			t.now.State = Unknown
		}
	}
	t.settle(now)
}

// see takes an observation.
func (t *tracker) see(now time.Time, o Observation) {
	if !t.lostAt.IsZero() {
		if t.away, t.backAt = now.Sub(t.lostAt), now; t.never {
			t.away = math.MaxInt64
		}
		t.lostAt, t.never = time.Time{}, false
	}
	t.downAt, t.loss = time.Time{}, nil
	first := !t.live && o.Phase != Keep
	t.live = t.live || first
	unseen := first && t.away > awayAfter
	if o.State != "" || o.Message != "" {
		t.now.Message, t.now.Code = cut(o.Message, 500), cut(o.Code, 100)
	}
	if o.Slots != nil {
		t.now.Slots = o.Slots
	}
	t.catchUp(now, o, first)
	same := t.job != nil && t.same(o, first)
	if o.Phase != None {
		t.idleSince = time.Time{}
	}
	switch {
	case o.Phase == Runs:
		replaces := t.job != nil && !same
		if replaces {
			t.end(now, o.Before, "", Idle, unseen)
		}
		if t.job == nil {
			t.start(now, o, first, unseen, replaces && o.Before == "")
		}
		t.update(now, o, unseen)
	case t.job == nil || o.Phase == Keep:
	case o.Phase == Ended && same:
		t.update(now, o, unseen)
		t.end(now, o.Outcome, o.Reason, cmp.Or(o.State, Idle), unseen)
	case o.Phase == Ended:
		t.end(now, o.Before, "", cmp.Or(o.State, Idle), unseen)
	case t.idleSince.IsZero():
		t.idleSince = now
	}
	switch {
	case t.idleSince.IsZero():
		t.now.State = cmp.Or(o.State, t.now.State)
	case t.now.State == Offline:
		t.now.State = Unknown
	}
	t.settle(now)
}

// same reports whether the observation is about the job that runs.
func (t *tracker) same(o Observation, first bool) bool {
	j := t.job
	if o.Key != "" && j.key != "" && o.Key != j.key && (o.Vouched || first) {
		return false
	}
	if o.Vouched && o.Key != "" && j.key != "" {
		return true
	}
	if o.File != "" && j.File != "" && cut(o.File, 500) != j.File || o.Plate > 0 && j.Plate > 0 && o.Plate != j.Plate {
		return false
	}
	if o.Phase != Runs {
		return true
	}
	if o.Elapsed > 0 && o.Elapsed < j.said-5 {
		return false
	}
	// Percents go back during a print; much smaller ones say something after the printer was out of sight.
	before := or(j.Progress, 0)
	return !first || o.Elapsed > 0 || o.Progress == nil || *o.Progress >= min(before/2, before-0.1)
}

// start begins a job. Its id is the printer's identity if two jobs never have the same; otherwise it has the time too.
// replaces: the job takes the place of one whose end nobody knows.
func (t *tracker) start(now time.Time, o Observation, first, unseen, replaces bool) {
	again := t.last != nil && o.Key != "" && o.Key == t.last.key
	if again && o.Vouched && t.last.Outcome == Unknown {
		t.job = t.last // it was only out of sight
		t.job.Outcome, t.job.Reason = "", ""
		return
	}
	j := &job{key: o.Key, tool: min(max(o.Tool, 0), maxTool), begun: now}
	j.ID = cut(o.Key, 180)
	if !o.Vouched || o.Key == "" || again {
		j.ID += "@" + strconv.FormatInt(now.UnixMilli(), 10)
	}
	j.Adopted = unseen
	repeats := t.last != nil && o.File != "" && t.last.File == cut(o.File, 500)
	replays := repeats && o.Replays && t.away > bootsIn && now.Sub(t.backAt) < replayWithin &&
		t.last.begun.Before(t.backAt)
	j.Certain = !(repeats && (replays || again || replaces && !o.Vouched))
	if o.Elapsed > 0 || !first {
		j.StartedAt = moment(now.Add(-time.Duration(o.Elapsed * float64(time.Second))))
	}
	t.job, t.last = j, j
}

func moment(t time.Time) *time.Time { return new(t.UTC().Truncate(time.Millisecond)) }

// update takes what the observation says about the job. What the printer resets at the end does not count.
func (t *tracker) update(now time.Time, o Observation, unseen bool) {
	j := t.job
	j.key = cmp.Or(o.Key, j.key)
	j.File, j.Plate = cmp.Or(cut(o.File, 500), j.File), cmp.Or(o.Plate, j.Plate)
	switch {
	case o.Elapsed > 0:
		j.said = max(o.Elapsed, j.said)
		j.Elapsed = new(max(math.Floor(min(o.Elapsed, 1e8)), or(j.Elapsed, 0)))
	case j.StartedAt != nil && !(unseen && o.Phase == Ended):
		j.Elapsed = new(max(math.Floor(now.Sub(*j.StartedAt).Seconds()), or(j.Elapsed, 0)))
	}
	for _, u := range o.Used {
		known := func(v Use) bool { return v.Tool == u.Tool && v.Slot == u.Slot }
		if len(j.Used) < maxUses && !slices.ContainsFunc(j.Used, known) {
			j.Used = append(j.Used, u)
		}
	}
	if o.Millimetres > 0 && o.Millimetres < maxLength {
		j.feed(o.Millimetres)
	}
	if o.Phase != Runs {
		return
	}
	if o.Progress != nil {
		j.Progress = new(max(or(j.Progress, 0), math.Round(min(max(*o.Progress, 0), 1)*1e4)/1e4))
	}
	if j.Left = nil; o.Left > 0 {
		j.Left = new(math.Floor(min(o.Left, 1e8)))
	}
	j.tool = min(max(o.Tool, 0), maxTool)
}

// feed adds what the sum of millimetres has grown by to the tool that was in use. The sum decreases a little with a
// retraction; one that was reset does not count.
func (j *job) feed(sum float64) {
	i := slices.IndexFunc(j.Used, func(u Use) bool { return u.Tool == j.tool && u.Slot == "" })
	if sum < j.mm/2 || i < 0 && len(j.Used) == maxUses {
		return
	}
	if i < 0 {
		i = len(j.Used)
		j.Used = append(j.Used, Use{Tool: j.tool})
	}
	mm := max(or(j.Used[i].Millimetres, 0)+sum-j.mm, 0)
	j.Used[i].Millimetres, j.mm = new(math.Round(mm*100)/100), sum
}

// end ends the job that runs, and emits this. If nobody saw the end, the printing time is what the printer said last,
// with the time that was left then.
func (t *tracker) end(now time.Time, outcome, reason, state string, unseen bool) {
	j := t.job
	if j.Outcome, j.Reason = cmp.Or(outcome, Unknown), cut(reason, 200); j.Outcome == Completed {
		if j.Progress = new(1.0); unseen && j.Elapsed != nil {
			j.Elapsed = new(*j.Elapsed + or(j.Left, 0))
		}
	}
	j.Left = nil
	t.job, t.idleSince, t.now.State = nil, time.Time{}, state
	t.write(now, j, true)
}

// catchUp reads the printer's history: how the job ended that ran when the watcher last saw it, and the jobs since
// then. It compares keys and the order of the list, because the clock of a printer may have been set. The history may
// be ahead of an observation that says that the job runs.
func (t *tracker) catchUp(now time.Time, o Observation, first bool) {
	if t.last == nil && len(o.Past) > 0 && o.Past[0].Outcome != "" {
		t.last = o.Past[0].job() // which is not news
	}
	known := -1
	if t.last != nil && t.last.key != "" {
		known = slices.IndexFunc(o.Past, func(p Past) bool { return p.Key == t.last.key })
	}
	for i := known; i >= 0; i-- {
		p := o.Past[i]
		runs := t.job != nil && t.job.key == p.Key
		if p.Outcome == "" || !runs && (t.job != nil || i == known) || p.Key == o.Key && (runs || o.Phase == Runs) ||
			runs && o.Phase == Runs && t.same(o, first) {
			continue
		}
		if !runs {
			t.job = p.job()
			t.last = t.job
		}
		t.update(now, Observation{Phase: Ended, Elapsed: p.Elapsed, Millimetres: p.Millimetres}, true)
		if !p.EndedAt.IsZero() {
			t.now.PrinterAt = moment(p.EndedAt)
		}
		t.end(now, p.Outcome, "", Idle, false)
		t.now.PrinterAt = nil
	}
}

// job returns a job of the history.
func (p Past) job() *job {
	return &job{key: p.Key, Job: Job{ID: cut(p.Key, 200), File: cut(p.File, 500), Adopted: true, Certain: true,
		Outcome: p.Outcome}}
}

// settle ends a job that the printer no longer has, and emits what has changed.
func (t *tracker) settle(now time.Time) {
	if t.job != nil && !t.idleSince.IsZero() && t.lostAt.IsZero() && now.Sub(t.idleSince) >= endsAfter {
		t.end(now, Unknown, "", Idle, false)
	}
	if t.now.State == Unknown && t.now.Message == "" && t.sentAt.IsZero() {
		return // nothing is known yet
	}
	urgent := t.now.State != t.sent.State || t.now.Code != t.sent.Code || t.job.signature() != t.sentKey ||
		!slices.EqualFunc(t.now.Slots, t.sent.Slots, sameSpool)
	if !urgent {
		moved := t.job != nil && or(t.job.Progress, 0) >= or(t.sent.Job.Progress, 0)+0.01
		if !moved && t.now.Message == t.sent.Message || now.Sub(t.sentAt) < writeEvery {
			return
		}
	}
	t.write(now, t.job, urgent)
}

// signature returns what makes a State of the job a transition when it changes.
func (j *job) signature() string {
	if j == nil || j.Outcome != "" {
		return ""
	}
	s := j.ID + "\n" + j.File + "\n" + strconv.Itoa(j.Plate)
	for _, u := range j.Used {
		s += "\n" + strconv.Itoa(u.Tool) + u.Slot
	}
	return s
}

// sameSpool compares slots without the percentages, which change during a print.
func sameSpool(a, b Slot) bool {
	a.Remaining, b.Remaining = nil, nil
	return a == b
}

// write emits the State with the next sequence number: the watcher's clock in microseconds, unless it was set back.
func (t *tracker) write(now time.Time, j *job, transition bool) {
	s := t.now
	s.PrinterID, s.ObservedAt = t.id, *moment(now)
	s.Sequence = max(now.UnixMicro(), t.sent.Sequence+1)
	if j != nil {
		s.Job = new(j.Job)
		s.Job.Used = slices.Clone(j.Used)
	}
	t.sent, t.sentKey, t.sentAt = s, j.signature(), now
	t.emit(s, transition)
}
