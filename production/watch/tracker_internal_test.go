package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// show returns a State in short: state, code, file, number of the job in this test, flags, percent, outcome, use.
func show(s State, jobs *[]string) string {
	text := s.State
	if s.Code != "" {
		text += "!" + s.Code
	}
	if s.PrinterAt != nil {
		text += fmt.Sprint(" in ", s.PrinterAt.Year())
	}
	if j := s.Job; j != nil {
		n := slices.Index(*jobs, j.ID)
		if n < 0 {
			n = len(*jobs)
			*jobs = append(*jobs, j.ID)
		}
		text += fmt.Sprintf(" %s#%d", j.File, n+1)
		if j.Plate > 0 {
			text += fmt.Sprintf(" plate %d", j.Plate)
		}
		if j.Adopted {
			text += " adopted"
		}
		if !j.Certain {
			text += " unsure"
		}
		if j.Progress != nil {
			text += fmt.Sprintf(" %.0f%%", *j.Progress*100)
		}
		if j.Outcome != "" {
			text += " " + j.Outcome
		}
		for _, u := range j.Used {
			text += fmt.Sprintf(" T%d%s", u.Tool, u.Slot)
			if u.Millimetres != nil {
				text += fmt.Sprintf("=%.0f", *u.Millimetres)
			}
		}
	}
	return text
}

// step is what happens after some seconds: an observation, a lost connection, or nothing.
type step struct {
	after int
	o     *Observation
	lost  *Problem
}

func saw(after int, o Observation) step { return step{after: after, o: &o} }

func gone(after int) step {
	return step{after: after, lost: &Problem{Code: "off", Text: "Nothing answers."}}
}

func runs(key, file string, progress float64) Observation {
	return Observation{State: Printing, Phase: Runs, Key: key, File: file, Progress: new(progress)}
}

// bambuRuns is a job of a printer that may start its last file by itself.
func bambuRuns(key, file string, progress float64) Observation {
	o := runs(key, file, progress)
	o.Replays = true
	return o
}

func vouched(o Observation) Observation {
	o.Vouched = true
	return o
}

func ended(key, file, outcome string) Observation {
	return Observation{State: Idle, Phase: Ended, Key: key, File: file, Outcome: outcome}
}

var (
	idle   = Observation{State: Idle, Phase: None}
	busy   = Observation{}
	second = func(o Observation, elapsed float64) Observation {
		o.Elapsed = elapsed
		return o
	}
)

func mm(o Observation, sum float64, tool int) Observation {
	o.Millimetres, o.Tool = sum, tool
	return o
}

func past(o Observation, rows ...Past) Observation {
	o.Past = rows
	return vouched(o)
}

func TestTracker(t *testing.T) {
	t.Parallel()
	open := &State{State: Printing, Sequence: 7, ObservedAt: epoch.Add(-time.Hour),
		Job: &Job{ID: "41", File: "a", Certain: true, Progress: new(0.4), Elapsed: new(600.0),
			Left: new(900.0)}}
	for name, test := range map[string]struct {
		last  *State
		steps []step
		want  string
	}{
		"first message is an end": {nil, []step{saw(0, ended("1", "a", Completed)), saw(60, idle)}, "idle"},
		"first message is a job that runs": {nil,
			[]step{saw(0, second(runs("1", "a", .4), 600)), saw(60, ended("1", "a", Completed))},
			"printing a#1 adopted 40%, idle a#1 adopted 100% completed"},
		"no data decides nothing": {open, []step{saw(0, Observation{State: Unknown, Message: "waiting"}),
			saw(9, busy)},
			"unknown a#1 40%"},
		"pause": {nil, []step{saw(0, idle), saw(5, runs("1", "a", 0)), saw(60, Observation{State: Paused, Phase: Runs,
			Key: "1", File: "a"}), saw(60, runs("1", "a", .5)), saw(60, ended("1", "a", Completed))},
			"idle, printing a#1 0%, paused a#1 0%, printing a#1 50%, idle a#1 100% completed"},
		"offline for ten minutes, the same job": {nil,
			[]step{saw(0, idle), saw(5, vouched(runs("1", "a", .1))), gone(60), {after: 30}, {after: 31}, gone(540),
				saw(1, vouched(runs("1", "a", .6)))},
			"idle, printing a#1 10%, offline!off a#1 10%, printing a#1 60%"},
		"offline for ten minutes, the same number of a job": {nil,
			[]step{saw(0, idle), saw(5, bambuRuns("1", "a", .1)), gone(5), {after: 61}, saw(540, bambuRuns("1", "a", .6)),
				saw(60, ended("1", "a", Completed))},
			"idle, printing a#1 10%, offline!off a#1 10%, printing a#1 60%, idle a#1 100% completed"},
		"a short loss is not offline": {nil, []step{saw(0, idle), gone(5), {after: 50}, saw(5, idle)}, "idle"},
		"ended while offline": {nil,
			[]step{saw(0, idle), saw(5, runs("1", "a", .4)), gone(60), {after: 61},
				saw(3600, ended("1", "a", Completed))},
			"idle, printing a#1 40%, offline!off a#1 40%, idle a#1 100% completed"},
		"idle after offline": {nil,
			[]step{saw(0, idle), saw(5, runs("1", "a", .4)), gone(60), saw(3600, idle), saw(10, idle), {after: 11}},
			"idle, printing a#1 40%, idle a#1 40% unknown"},
		"ended and started again while offline, other key": {nil,
			[]step{saw(0, idle), saw(5, vouched(runs("1", "a", .4))), gone(60),
				saw(3600, vouched(runs("2", "a", .5)))},
			"idle, printing a#1 40%, idle a#1 40% unknown, printing a#2 adopted 50%"},
		"ended and started again while offline, less time": {nil,
			[]step{saw(0, idle), saw(5, second(runs("", "a", .4), 600)), gone(60),
				saw(3600, second(runs("", "a", .5), 30))},
			"idle, printing a#1 40%, idle a#1 40% unknown, printing a#2 adopted unsure 50%"},
		"ended and started again while offline, smaller percentage": {nil,
			[]step{saw(0, idle), saw(5, runs("", "a", .4)), gone(60), saw(3600, runs("", "a", .1))},
			"idle, printing a#1 40%, idle a#1 40% unknown, printing a#2 adopted unsure 10%"},
		"a percentage is corrected while out of sight": {nil,
			[]step{saw(0, idle), saw(5, bambuRuns("", "a", .6)), gone(5), saw(30, bambuRuns("", "a", .45))},
			"idle, printing a#1 60%"},
		"a length that cannot be": {nil, []step{saw(0, idle), saw(5, mm(runs("1", "a", .1), 100, 0)),
			saw(60, mm(runs("1", "a", .2), 1e10, 5000)), saw(60, mm(runs("1", "a", .3), 300, 5000))},
			"idle, printing a#1 10% T0=100, printing a#1 20% T0=100, printing a#1 30% T0=100 T1000=200"},
		"the watcher restarts, @ in the key": {&State{State: Printing, ObservedAt: epoch, Job: &Job{ID: "7/a@0.2mm",
			File: "a@0.2mm", Certain: true}}, []step{saw(30, vouched(runs("7/a@0.2mm", "a@0.2mm", .4)))},
			"printing a@0.2mm#1 40%"},
		"percentages go back": {nil, []step{saw(0, idle), saw(5, runs("", "a", .7)), saw(60, runs("", "a", .2)),
			saw(60, runs("", "a", .9)), saw(5, runs("", "a", .1)), saw(5, ended("", "a", Cancelled))},
			"idle, printing a#1 70%, printing a#1 90%, idle a#1 90% cancelled"},
		"all is printed minutes before the job fails": {nil, []step{saw(0, idle), saw(5, runs("1", "a", 1)),
			saw(300, runs("1", "a", 1)), saw(5, ended("1", "a", Failed))},
			"idle, printing a#1 100%, idle a#1 100% failed"},
		"failed start": {nil, []step{saw(0, idle), saw(5, runs("1", "a", 0)), saw(9, ended("1", "a", Failed))},
			"idle, printing a#1 0%, idle a#1 0% failed"},
		"values are reset at a cancel": {nil, []step{saw(0, idle), saw(5, mm(runs("1", "a", .4), 900, 0)),
			saw(40, Observation{State: Idle, Phase: Ended, Key: "1", Outcome: Cancelled, Progress: new(0.0)})},
			"idle, printing a#1 40% T0=900, idle a#1 40% cancelled T0=900"},
		"an end stays": {nil, []step{saw(0, runs("1", "a", .4)), saw(5, ended("1", "a", Failed)),
			saw(86400, ended("1", "a", Failed)), gone(1), saw(90, ended("1", "a", Failed))},
			"printing a#1 adopted 40%, idle a#1 adopted 40% failed"},
		"an end stays after a restart": {&State{State: Idle, Job: &Job{ID: "1", File: "a", Outcome: Failed}},
			[]step{saw(0, ended("1", "a", Failed))}, "idle"},
		"another job takes the place of one": {nil, []step{saw(0, idle), saw(5, runs("", "a", .4)),
			saw(5, runs("", "b", 0))},
			"idle, printing a#1 40%, idle a#1 40% unknown, printing b#2 0%"},
		"the same file again, told apart": {nil, []step{saw(0, idle), saw(5, second(runs("", "a", .4), 60)),
			saw(5, second(Observation{State: Printing, Phase: Runs, File: "a", Before: Cancelled}, 1))},
			"idle, printing a#1 40%, idle a#1 40% cancelled, printing a#2"},
		"another key after a loss": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .1)), gone(5),
			saw(90, runs("2", "a", .5))},
			"idle, printing a#1 10%, idle a#1 10% unknown, printing a#2 unsure 50%"},
		"another key in sight": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .1)), saw(90, runs("2", "a", .5))},
			"idle, printing a#1 10%, printing a#1 50%"},
		"a job that was out of sight": {nil, []step{saw(0, idle), saw(5, vouched(runs("1", "a", .1))), saw(5, idle),
			{after: 25},
			saw(60, vouched(runs("1", "a", .2)))}, "idle, printing a#1 10%, idle a#1 10% unknown, printing a#1 20%"},
		"a key that was used before": {nil, []step{saw(0, idle), saw(5, vouched(runs("1", "a", .1))),
			saw(5, vouched(ended("1", "a", Cancelled))), saw(60, vouched(runs("1", "a", .2)))},
			"idle, printing a#1 10%, idle a#1 10% cancelled, printing a#2 unsure 20%"},
		"a sum that was reset": {nil, []step{saw(0, idle), saw(5, mm(runs("1", "a", .4), 900, 0)),
			saw(40, mm(ended("1", "a", Cancelled), 10, 0))},
			"idle, printing a#1 40% T0=900, idle a#1 40% cancelled T0=900"},
		"another plate of the file": {nil, []step{saw(0, idle),
			saw(5, Observation{State: Printing, Phase: Runs, File: "a",
				Plate: 1}), gone(5), saw(300, Observation{State: Printing, Phase: Runs, File: "a", Plate: 2})},
			"idle, printing a#1 plate 1, idle a#1 plate 1 unknown, printing a#2 plate 2 adopted unsure"},
		"idle, then out of sight": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .4)), saw(5, idle), gone(5),
			{after: 30},
			saw(5, runs("1", "a", .4))}, "idle, printing a#1 40%"},
		"idle without an end": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .99)), saw(5, idle), saw(10, idle),
			saw(10, idle)}, "idle, printing a#1 99%, idle a#1 99% unknown"},
		"idle for a moment": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .5)), saw(5, idle),
			saw(5, runs("1", "a", .5))},
			"idle, printing a#1 50%"},
		"busy in the middle": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .5)), saw(5, busy), saw(99, busy)},
			"idle, printing a#1 50%"},
		"ghost after a power cut": {nil, []step{saw(0, idle), saw(5, bambuRuns("1", "a", .5)),
			saw(5, ended("1", "a", Completed)),
			gone(60), saw(120, idle), saw(30, bambuRuns("2", "a", 0))},
			"idle, printing a#1 50%, idle a#1 100% completed, printing a#2 unsure 0%"},
		"no ghost, another file": {nil, []step{saw(0, idle), saw(5, bambuRuns("1", "a", .5)),
			saw(5, ended("1", "a", Completed)),
			gone(60), saw(120, idle), saw(30, bambuRuns("2", "b", 0))},
			"idle, printing a#1 50%, idle a#1 100% completed, printing b#2 0%"},
		"no ghost, the start was seen": {nil, []step{saw(0, idle), saw(5, bambuRuns("1", "a", .5)),
			saw(5, ended("1", "a", Completed)), saw(60, bambuRuns("2", "a", 0))},
			"idle, printing a#1 50%, idle a#1 100% completed, printing a#2 0%"},
		"a key of two jobs": {nil, []step{saw(0, idle), saw(5, runs("1", "a", .5)), saw(5, ended("1", "a", Completed)),
			saw(60, runs("1", "a", 0))}, "idle, printing a#1 50%, idle a#1 100% completed, printing a#2 unsure 0%"},
		"no name": {nil, []step{saw(0, idle), saw(5, runs("", "", .5)), saw(60, ended("", "", Completed))},
			"idle, printing #1 50%, idle #1 100% completed"},
		"the watcher restarts": {open, []step{saw(0, vouched(runs("41", "a", .6)))}, "printing a#1 60%"},
		"the watcher restarts, and the printer is idle": {open, []step{saw(0, idle), saw(10, idle), saw(10, idle)},
			"printing a#1 40%, idle a#1 40% unknown"},
		"the watcher restarts, and the printer is off": {open, []step{gone(0), {after: 61}, {after: 86400}},
			"printing a#1 40%, offline!off a#1 40%"},
		"the watcher restarts after the end": {open, []step{saw(0, vouched(ended("41", "a", Completed)))},
			"idle a#1 100% completed"},
		"the watcher restarts during another job": {open, []step{saw(0, vouched(runs("42", "a", .6)))},
			"idle a#1 40% unknown, printing a#2 adopted 60%"},
		"tools": {nil, []step{saw(0, idle), saw(5, mm(runs("1", "a", .1), 100, 0)),
			saw(5, mm(runs("1", "a", .2), 250, 1)),
			saw(5, mm(runs("1", "a", .3), 400, 1)), saw(5, mm(runs("1", "a", .4), 398, 0)),
			saw(40, mm(ended("1", "a", Completed), 500, 0))},
			"idle, printing a#1 10% T0=100, printing a#1 30% T0=250 T1=150, idle a#1 100% completed T0=352 T1=148"},
		"history: an end": {open,
			[]step{saw(0, past(idle, Past{Key: "41", File: "a", Outcome: Failed, Millimetres: 70}))},
			"idle a#1 40% failed T0=70"},
		"history: an end and a whole job": {open, []step{saw(0, past(runs("43", "c", .1), Past{Key: "43", File: "c"},
			Past{Key: "42", File: "b", Outcome: Completed}, Past{Key: "41", File: "a", Outcome: Cancelled}))},
			"idle a#1 40% cancelled, idle b#2 adopted 100% completed, printing c#3 adopted 10%"},
		"history: the clock of the printer runs backwards": {open, []step{saw(0, past(idle,
			Past{Key: "42", File: "b", Outcome: Completed, EndedAt: time.Unix(0, 0)},
			Past{Key: "41", File: "a", Outcome: Cancelled, EndedAt: epoch.AddDate(10, 0, 0)})), saw(60, idle)},
			"idle in 2036 a#1 40% cancelled, idle in 1970 b#2 adopted 100% completed"},
		"history: the job goes on although its row has ended": {open, []step{saw(0, past(runs("41", "a", .5),
			Past{Key: "41", File: "a", Outcome: Unknown})), saw(60, vouched(mm(ended("41", "a", Completed), 140, 0)))},
			"printing a#1 50%, idle a#1 100% completed T0=140"},
		"history: it is ahead": {nil, []step{saw(0, idle), saw(5, vouched(runs("1", "a", .5))),
			saw(1, past(runs("", "a", .6), Past{Key: "1", File: "a", Outcome: Completed})),
			saw(1, past(ended("1", "a", Completed), Past{Key: "1", File: "a", Outcome: Completed}))},
			"idle, printing a#1 50%, idle a#1 100% completed"},
		"history: older jobs are no news": {nil,
			[]step{saw(0, past(idle, Past{Key: "9", File: "a", Outcome: Completed})),
				saw(60, past(idle, Past{Key: "10", File: "b", Outcome: Failed},
					Past{Key: "9", File: "a", Outcome: Completed}))},
			"idle, idle b#1 adopted failed"},
		"history: the last job was deleted": {open,
			[]step{saw(0, past(idle, Past{Key: "1", File: "x", Outcome: Completed})),
				saw(30, idle)}, "printing a#1 40%, idle a#1 40% unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got, jobs []string
			var before State
			now := epoch
			tracker := newTracker("p", test.last, now, func(s State, _ bool) {
				if s.Sequence <= before.Sequence {
					t.Errorf("sequence %d after %d", s.Sequence, before.Sequence)
				}
				before = s
				got = append(got, show(s, &jobs))
			})
			for _, s := range test.steps {
				now = now.Add(time.Duration(s.after) * time.Second)
				switch {
				case s.o != nil:
					tracker.see(now, *s.o)
				case s.lost != nil:
					tracker.lost(now, s.lost)
				}
				tracker.tick(now)
			}
			if all := strings.Join(got, ", "); all != test.want {
				t.Errorf("the states are\n%s\nwant\n%s", all, test.want)
			}
		})
	}
}

// Progress is written at most once in 30 seconds and for 1 %.
func TestThrottle(t *testing.T) {
	t.Parallel()
	states, transitions := 0, 0
	tracker := newTracker("p", nil, epoch, func(_ State, transition bool) {
		if states++; transition {
			transitions++
		}
	})
	for i := range 3600 { // an hour, 18 %
		o := second(runs("1", "a", float64(i)/20000), float64(i))
		o.Message = fmt.Sprint("second ", i/3000)
		tracker.see(epoch.Add(time.Duration(i)*time.Second), o)
	}
	if states != 18 || transitions != 1 {
		t.Errorf("%d states, %d transitions", states, transitions)
	}
	for i := range 100 { // another job, 1 % a second
		tracker.see(epoch.Add(time.Hour+time.Duration(i)*time.Second), runs("1", "b", float64(i)/100))
	}
	if states != 18+1+1+3 || transitions != 3 {
		t.Errorf("%d states, %d transitions", states, transitions)
	}
}

// A job that runs already has started earlier, by the watcher's clock. An end that nobody saw has the printing time
// that was expected.
func TestTimesOfJobs(t *testing.T) {
	t.Parallel()
	var last State
	adopted := newTracker("p", nil, epoch, func(s State, _ bool) { last = s })
	adopted.see(epoch, second(runs("1", "a", .4), 600))
	if j := last.Job; j == nil || !j.Adopted || j.StartedAt == nil || !j.StartedAt.Equal(epoch.Add(-10*time.Minute)) {
		t.Errorf("%+v", j)
	}
	tracker := newTracker("p", &State{ObservedAt: epoch, Job: &Job{ID: "@1", File: "a", Elapsed: new(600.0),
		Left: new(900.0), StartedAt: moment(epoch.Add(-600 * time.Second))}}, epoch,
		func(s State, _ bool) { last = s })
	tracker.see(epoch.Add(72*time.Hour), ended("", "a", Completed))
	if last.Job == nil || *last.Job.Elapsed != 1500 {
		t.Errorf("%+v", last.Job)
	}
}

// TestTrackerInvariants lets random things happen: whatever a printer says, a job starts once and ends once, one runs
// at a time, progress and use never decrease, and a restart of the watcher changes nothing of this.
func TestTrackerInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 60))
		isVouched := seed%2 == 0
		now, jobs := epoch, 1
		var last, withJob *State
		open, outcome, progress := "", map[string]string{}, map[string]float64{}
		emit := func(s State, _ bool) {
			if last != nil && s.Sequence <= last.Sequence {
				t.Fatalf("seed %d: sequence %d after %d", seed, s.Sequence, last.Sequence)
			}
			last = &s
			j := s.Job
			if j == nil {
				if open != "" {
					t.Fatalf("seed %d: job %s is gone without an end", seed, open)
				}
				return
			}
			withJob = &s
			was, known := outcome[j.ID]
			switch {
			case open != "" && open != j.ID:
				t.Fatalf("seed %d: job %s runs besides %s", seed, j.ID, open)
			case was != "" && (was != Unknown || j.Outcome != "" || !isVouched):
				t.Fatalf("seed %d: job %s goes on after its end %s: %s", seed, j.ID, was, j.Outcome)
			case !known && j.Outcome != "" && !j.Adopted:
				t.Fatalf("seed %d: job %s ends without a start", seed, j.ID)
			case or(j.Progress, 0) < progress[j.ID]:
				t.Fatalf("seed %d: the progress of %s decreases", seed, j.ID)
			}
			outcome[j.ID], progress[j.ID], open = j.Outcome, or(j.Progress, 0), j.ID
			if j.Outcome != "" {
				open = ""
			}
		}
		tracker := newTracker("p", nil, now, emit)
		for range 60 {
			now = now.Add(time.Duration(1+r.IntN(90)) * time.Second)
			file := string(rune('a' + r.IntN(2)))
			if r.IntN(3) == 0 {
				jobs++ // vouched keys are never used again
			}
			key := fmt.Sprint(jobs)
			if !isVouched {
				key = []string{"", "1", "2"}[r.IntN(3)]
			}
			o := Observation{State: Idle, Vouched: isVouched, Key: key, File: file, Replays: r.IntN(2) == 0}
			switch r.IntN(9) {
			case 0:
				tracker.lost(now, &Problem{Code: "off"})
				continue
			case 1: // the watcher restarts; the service has the last state, with the last job
				if last != nil {
					seed := *last
					if seed.Job == nil && withJob != nil {
						seed.Job = withJob.Job
					}
					tracker = newTracker("p", &seed, now, emit)
				}
				continue
			case 2:
				tracker.tick(now)
				continue
			case 3:
				o.Phase, o.State = Keep, ""
			case 4:
				o.Phase = None
			case 5:
				o.Phase, o.Outcome = Ended, []string{Completed, Cancelled, Failed}[r.IntN(3)]
			default:
				o.Phase, o.State, o.Progress = Runs, Printing, new(r.Float64())
				o.Elapsed, o.Millimetres = float64(r.IntN(1000)), float64(r.IntN(1000))
			}
			if isVouched && tracker.last != nil && r.IntN(4) == 0 {
				jobs += 2
				o.Key = fmt.Sprint(jobs)
				o.Past = []Past{{Key: o.Key, File: file, Outcome: o.Outcome},
					{Key: fmt.Sprint(jobs - 1), Outcome: Failed},
					{Key: tracker.last.key, File: "b", Outcome: []string{"", Completed, Unknown}[r.IntN(3)]}}
			}
			tracker.see(now, o)
			tracker.tick(now)
		}
	}
}
