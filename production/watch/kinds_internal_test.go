package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"spoolwright/production/watch/watchtest"
)

// rig runs one printer on a network in memory, by the fake clock of a bubble.
type rig struct {
	t    *testing.T
	net  fakeNet
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	got     []string
	jobs    []string
	states  []State
	problem *Problem
}

// follow watches the connection as a Watcher does, with a second between connections.
func (r *rig) follow(c Connection) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop, r.done = cancel, make(chan struct{})
	tracker := newTracker("p", nil, time.Now(), func(s State, _ bool) {
		r.got, r.states = append(r.got, show(s, &r.jobs)), append(r.states, s)
	})
	k, err := newKind(c, r.net.Dial)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for pause(ctx, time.Second) == nil {
			r.mu.Lock()
			tracker.tick(time.Now())
			r.mu.Unlock()
		}
	}()
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			err := k.watch(ctx, func(o Observation) {
				r.mu.Lock()
				defer r.mu.Unlock()
				tracker.see(time.Now(), o)
			})
			r.mu.Lock()
			r.problem = problemOf(err, c.Address)
			tracker.lost(time.Now(), r.problem)
			r.mu.Unlock()
			pause(ctx, time.Second)
		}
	}()
}

func (r *rig) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// want requires the states since the last call.
func (r *rig) want(want string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.got, ", "); got != want {
		r.t.Errorf("the states are\n%s\nwant\n%s", got, want)
	}
	r.got = nil
}

func inBubble(t *testing.T, test func(*testing.T, *rig)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		test(t, r)
		if r.stop != nil {
			r.stop()
			<-r.done
		}
	})
}

func TestPrusaLink(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &watchtest.PrusaLink{Key: "secret"}
		p.Set("FINISHED", nil, nil)
		stop := r.net.Serve("mk4:80", p)
		defer func() { stop() }()
		r.follow(Connection{Kind: "prusalink", Address: "mk4", Secret: "secret"})
		r.wait(time.Second)
		r.want("idle")
		file := watchtest.Fields{"name": "SPICE~1.GCO", "display_name": "spice_box.gcode"}
		job := func(id int, progress, seconds float64) watchtest.Fields {
			return watchtest.Fields{"id": id, "progress": progress, "time_printing": seconds, "time_remaining": 60}
		}
		p.Set("PRINTING", job(7, 3, 20), file)
		r.wait(pollIdle)
		p.Set("ATTENTION", job(7, 40, 300), file)
		r.wait(pollIdle)
		p.Set("BUSY", nil, nil)
		r.wait(time.Minute)
		p.Set("PRINTING", job(7, 50, 400), file)
		r.wait(pollIdle)
		p.Set("PAUSED", job(7, 50, 400), file)
		r.wait(pollIdle)
		p.Set("FINISHED", nil, nil)
		r.wait(pollIdle)
		r.want("printing spice_box.gcode#1 3%, attention spice_box.gcode#1 40%, printing spice_box.gcode#1 50%, " +
			"paused spice_box.gcode#1 50%, idle spice_box.gcode#1 100% completed")
		if id := r.jobs[0]; id != "7/SPICE~1.GCO" {
			t.Errorf("the id of the job is %q", id)
		}

		p.Set("PRINTING", job(8, 99.8, 500), file)
		r.wait(pollIdle)
		p.Set("IDLE", nil, nil) // somebody left the screen between two polls
		r.wait(40 * time.Second)
		r.want("printing spice_box.gcode#2 100%, idle spice_box.gcode#2 100% unknown")

		// A power cut: the same number goes on.
		p.Set("PRINTING", job(9, 10, 50), file)
		r.wait(pollIdle)
		stop()
		r.wait(10 * time.Minute)
		stop = r.net.Serve("mk4:80", p)
		p.Set("IDLE", nil, nil)
		r.wait(10 * time.Second)
		p.Set("PRINTING", job(9, 12, 60), file)
		r.wait(10 * time.Second)
		p.Set("STOPPED", nil, nil)
		r.wait(pollIdle)
		p.Set("ERROR", nil, nil)
		r.wait(pollIdle)
		r.want("printing spice_box.gcode#3 10%, offline!port spice_box.gcode#3 10%, " +
			"unknown spice_box.gcode#3 10%, printing spice_box.gcode#3 12%, " +
			"idle spice_box.gcode#3 12% cancelled, attention")
	})
}

func TestDigest(t *testing.T) {
	for _, pi := range []bool{false, true} {
		t.Run("", func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := &watchtest.PrusaLink{Digest: "pass", Pi: pi}
				p.Set("READY", nil, nil)
				defer r.net.Serve("mk3:8080", p)()
				for secret, want := range map[string]string{"pass": "", "maker:pass": "", "wrong": "key", "": "key"} {
					c := Connection{Kind: "prusalink", Address: "http://mk3:8080/", Secret: secret}
					if pi && secret == "pass" {
						want = "key" // it takes it for a key
					}
					if _, err := Test(t.Context(), c, r.net.Dial); codeOf(err) != want {
						t.Errorf("with %q: %v", secret, err)
					}
				}
			})
		})
	}
}

func codeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestOctoPrint(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &watchtest.OctoPrint{Key: "k"}
		const file = "jobs/a%20b/dir.gcode"
		p.Prints(file, 3, 1)
		ready, printing := []string{"ready"}, []string{"printing"}
		p.Set("Operational", ready, file, 100, 50)
		stop := r.net.Serve("octo:80", p)
		defer func() { stop() }()
		r.follow(Connection{Kind: "octoprint", Address: "octo", Secret: "k"})
		r.wait(time.Second)
		r.want("idle")
		p.Set("Printing", printing, file, 12.5, 30)
		r.wait(pollIdle)
		p.Set("Pausing", []string{"printing", "pausing"}, file, 12.5, 30)
		r.wait(pollIdle)
		p.Set("Printing", printing, file, 50, 60)
		r.wait(pollIdle)
		p.Set("Operational", ready, file, 100, 120)
		r.wait(pollIdle)
		r.want("printing " + file + "#1 12%, paused " + file + "#1 12%, printing " + file + "#1 50%, idle " + file +
			"#1 100% completed")

		// Cancelled between two polls: the counts of the file tell it.
		p.Prints(file, 4, 1)
		p.Set("Printing", printing, file, 1, 2)
		r.wait(pollIdle)
		p.Prints(file, 4, 2)
		p.Set("Operational", ready, file, nil, nil)
		r.wait(pollIdle)
		r.want("printing " + file + "#2 1%, idle " + file + "#2 1% cancelled")

		// Started again between two polls.
		p.Set("Printing", printing, file, 1, 200)
		r.wait(pollIdle)
		p.Prints(file, 5, 2)
		p.Set("Printing", printing, file, 1, 2)
		r.wait(pollIdle)
		r.want("printing " + file + "#3 1%, idle " + file + "#3 100% completed, printing " + file + "#4 1%")

		// Cancelled in sight: OctoPrint counts it as a failure, too.
		p.Set("Cancelling", []string{"printing", "cancelling"}, file, 1, 4)
		r.wait(pollIdle)
		p.Prints(file, 5, 3)
		p.Set("Operational", ready, file, nil, nil)
		r.wait(pollIdle)
		r.wait(pollIdle)
		r.want("idle " + file + "#4 1% cancelled")

		// The printer is switched off, or OctoPrint restarts without a trace of the job.
		p.Set("Printing", printing, file, 1, 4)
		r.wait(pollIdle)
		p.Set("Offline", nil, "", nil, nil)
		r.wait(pollIdle)
		r.want("printing " + file + "#5 1%, offline!Offline " + file + "#5 1% failed")
		p.Set("Printing", printing, file, 1, 4)
		r.wait(pollIdle)
		stop()
		r.wait(30 * time.Second)
		stop = r.net.Serve("octo:80", p)
		p.Set("Operational", ready, "", nil, nil)
		r.wait(40 * time.Second)
		r.want("printing " + file + "#6 1%, idle " + file + "#6 1% unknown")

		p.Set("Sending file to SD", printing, "", nil, nil)
		r.wait(pollIdle)
		r.want("")
	})
}

func TestMoonraker(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := &watchtest.Moonraker{Key: "k"}
		stats := func(state, file string, total, filament float64) {
			m.Update("print_stats", watchtest.Fields{"state": state, "filename": file, "total_duration": total,
				"print_duration": total, "filament_used": filament, "message": ""})
			synctest.Wait()
		}
		progress := func(p float64) { m.Update("virtual_sdcard", watchtest.Fields{"progress": p}) }
		m.Update("toolhead", watchtest.Fields{"extruder": "extruder"})
		m.Row("000001", 1000.5, "old.gcode", "completed", 100, 50)
		stats("complete", "old.gcode", 100, 50)
		stop := r.net.Serve("voron:7125", m)
		defer func() { stop() }()
		r.follow(Connection{Kind: "moonraker", Address: "voron", Secret: "k"})
		r.wait(time.Second)
		r.want("idle")

		// Two tools. The clock of the printer is wrong.
		m.File("a.gcode", watchtest.Fields{"estimated_time": 1000.0})
		m.Row("000002", 7.25, "a.gcode", "in_progress", 0, 0)
		progress(0)
		stats("printing", "a.gcode", 1, 0)
		progress(.1)
		stats("printing", "a.gcode", 100, 300)
		m.Update("toolhead", watchtest.Fields{"extruder": "extruder1"})
		stats("printing", "a.gcode", 200, 500)
		stats("paused", "a.gcode", 300, 500)
		r.want("printing a.gcode#1 0%, printing a.gcode#1 10% T0=300, printing a.gcode#1 10% T0=300 T1=200, " +
			"paused a.gcode#1 10% T0=300 T1=200")
		if s := r.states[1]; s.Job.ID != "000002/7.250" || *s.Job.Left != 999 {
			t.Errorf("the job is %+v", s.Job)
		}
		// The socket is stale for a while, or Moonraker restarts and ends its row; the print goes on.
		stop()
		m.Row("000002", 7.25, "a.gcode", "server_exit", 290, 450)
		stop = r.net.Serve("voron:7125", m)
		stats("printing", "a.gcode", 400, 600)
		r.wait(30 * time.Second)
		stop()
		m.Row("000002", 7.25, "a.gcode", "interrupted", 0, 0) // Moonraker was killed
		stop = r.net.Serve("voron:7125", m)
		r.wait(30 * time.Second)
		stats("complete", "a.gcode", 900, 1400)
		r.want("printing a.gcode#1 10% T0=300 T1=300, idle a.gcode#1 100% completed T0=300 T1=1100")

		// Cancelled, and the same file again.
		m.Row("000003", 8, "b.gcode", "in_progress", 0, 0)
		stats("printing", "b.gcode", 1, 10)
		m.Row("000003", 8, "b.gcode", "cancelled", 3, 20)
		m.Row("000004", 9, "b.gcode", "in_progress", 0, 0)
		stats("printing", "b.gcode", .5, 5)
		stats("printing", "b.gcode", 2, 10)
		r.wait(time.Second)
		r.want("printing b.gcode#2 10% T1=10, idle b.gcode#2 10% cancelled T1=20, printing b.gcode#3 10% T1=5")

		// The row comes after the state.
		m.Row("000004", 9, "b.gcode", "completed", 9, 10)
		stats("complete", "b.gcode", 9, 10)
		stats("printing", "b.gcode", .5, 0)
		m.Row("000005", 9, "b.gcode", "in_progress", 0, 0)
		r.wait(time.Second)
		r.want("idle b.gcode#3 100% completed T1=10, printing b.gcode#4 10%")
		if id := r.states[len(r.states)-1].Job.ID; id != "000005/9.000" {
			t.Errorf("the id is %s", id)
		}

		// An emergency stop, and a restart of Klipper, which forgets the subscription.
		m.Update("webhooks", watchtest.Fields{"state": "shutdown", "state_message": "Lost communication with MCU"})
		synctest.Wait()
		m.Row("000005", 9, "b.gcode", "klippy_shutdown", 3, 10)
		m.Klipper(false)
		r.wait(time.Second)
		m.Klipper(true)
		r.wait(time.Second)
		r.want("attention!shutdown b.gcode#4 10% failed, offline!klipper, idle")
		if reason := r.states[len(r.states)-3].Job.Reason; reason != "Lost communication with MCU" {
			t.Errorf("the reason is %q", reason)
		}
		m.Row("000006", 10, "c.gcode", "in_progress", 0, 0)
		stats("printing", "c.gcode", 1, 10)
		r.want("printing c.gcode#5 0% T0=10")

		// Klipper restarts during a print; the row says so. Another whole job runs while the watcher is away.
		m.Row("000006", 10, "c.gcode", "klippy_disconnect", 3, 10)
		stop()
		m.Klipper(true)
		m.Row("000007", 11, "d.gcode", "completed", 60, 77)
		r.wait(time.Hour)
		stop = r.net.Serve("voron:7125", m)
		r.wait(10 * time.Second)
		r.want("offline!port c.gcode#5 0% T0=10, idle c.gcode#5 0% failed T0=10, " +
			"idle d.gcode#6 adopted 100% completed T0=77")
		m.Update("print_stats", watchtest.Fields{"state": "strange"})
		r.wait(time.Second)
		r.want("")

		// States that arrive after their job is in the history already, and a job that gets no row.
		m.Row("000008", 12, "e.gcode", "completed", 60, 88)
		stats("printing", "e.gcode", 1, 1)
		stats("complete", "e.gcode", 60, 88)
		r.want("idle e.gcode#7 adopted 100% completed T0=88")
		stats("printing", "f.gcode", 1, 1)
		r.wait(rowWithin)
		stats("printing", "f.gcode", 25, 2)
		r.want("printing f.gcode#8 0% T0=2")
	})
}

// Moonraker may lose a change that comes at the same time as the answer to the subscription.
func TestLostNotification(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := &watchtest.Moonraker{}
		stats := func(state string, total float64) watchtest.Fields {
			return watchtest.Fields{"state": state, "filename": "a.gcode", "total_duration": total,
				"print_duration": total, "filament_used": 10 * total, "message": ""}
		}
		m.Row("000001", 7.25, "a.gcode", "in_progress", 0, 0)
		m.Update("print_stats", stats("printing", 1))
		defer r.net.Serve("voron:7125", m)()
		r.follow(Connection{Kind: "moonraker", Address: "voron"})
		r.wait(time.Second)
		m.Set("print_stats", stats("complete", 60))
		r.wait(pingEvery)
		r.want("printing a.gcode#1 adopted 0% T0=10, idle a.gcode#1 adopted 100% completed T0=600")

		// A notification is newer than the status that is on its way.
		m.Row("000002", 8.5, "a.gcode", "in_progress", 0, 0)
		m.Update("print_stats", stats("printing", 1))
		r.wait(time.Second)
		m.BeforeAnswer(func() { m.Update("print_stats", stats("complete", 60)) })
		r.wait(pingEvery)
		r.want("printing a.gcode#2 0% T0=10, idle a.gcode#2 100% completed T0=600")

		// The same when Klipper goes away.
		m.BeforeAnswer(func() { m.Klipper(false) })
		r.wait(pingEvery)
		r.wait(pingEvery)
		r.want("offline!klipper")
		m.Klipper(true)
		r.want("idle")
	})
}

// The active spool of Moonraker is in the states, if its id is the number of a spool of the service.
func TestActiveSpool(t *testing.T) {
	t.Parallel()
	const ours = "https://x:swk_abc@farm.example/spoolman"
	for name, test := range map[string]struct {
		spoolman string
		active   []any // one after the other
		want     []int // nil: the states have no slot
	}{
		"the service is the Spoolman":                    {ours, []any{12, 13, nil}, []int{12, 13, 0}},
		"no spool is chosen at first":                    {ours, []any{nil, 12}, []int{0, 12}},
		"an id that no spool has":                        {ours, []any{int64(1 << 40), -1, 12}, []int{0, 12}},
		"the ids are those of another Spoolman":          {"http://192.168.1.5:7912", []any{12, 13}, nil},
		"Moonraker has no Spoolman; another client sets": {"", []any{12, 13}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				m := &watchtest.Moonraker{Spoolman: test.spoolman}
				m.Klipper(true)
				m.Activate(test.active[0])
				defer r.net.Serve("voron:7125", m)()
				r.follow(Connection{Kind: "moonraker", Address: "voron"})
				r.wait(time.Second)
				for _, spool := range test.active[1:] {
					m.Activate(spool)
					r.wait(time.Second)
				}
				m.Klipper(true) // it restarts, and the spool stays
				r.wait(time.Second)
				var got []int
				for _, s := range r.states {
					for _, slot := range s.Slots {
						got = append(got, slot.Spool)
						if slot.Slot != "T0" || slot.Empty {
							t.Errorf("the slot is %+v", slot)
						}
					}
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("the spools are %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestBambu(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "12345678"}
		l := r.net.Listen("p1s:8883")
		go p.Serve(l)
		defer l.Close()
		r.follow(Connection{Kind: "bambu", Address: "p1s", Secret: "12345678", Serial: p.Serial})
		r.wait(70 * time.Second)
		r.want("unknown")
		tray := func(id, material, color string) watchtest.Fields {
			return watchtest.Fields{"id": id, "tray_type": material, "tray_color": color, "remain": 80,
				"tag_uid": "0000000000000000", "tray_uuid": "00000000000000000000000000000000"}
		}
		p.Send(watchtest.Fields{"gcode_state": "FINISH", "mc_percent": 100, "subtask_id": "0", "subtask_name": "36mm",
			"gcode_file": "36mm.gcode.3mf", "print_error": 0, "ams": watchtest.Fields{"tray_now": "255", "ams": []any{
				watchtest.Fields{"id": "0", "tray": []any{tray("0", "PLA", "FF0000FF"), tray("1", "PLA", "FF0000FF"),
					tray("2", "PETG", "00FF00FF"), watchtest.Fields{"id": "3"}}}}}})
		r.wait(time.Second)
		r.want("idle")
		if got, want := r.states[len(r.states)-1].Slots, []Slot{{"A1", "", "PLA", "#FF0000", new(80), false, 0},
			{"A2", "", "PLA", "#FF0000", new(80), false, 0}, {"A3", "", "PETG", "#00FF00", new(80), false, 0},
			{Slot: "A4", Empty: true}}; !slices.EqualFunc(got, want, sameSpool) {
			t.Errorf("the slots are %+v", got)
		}
		// The printer takes a file and stays as it is: no start. Then it starts, with the old percentage.
		p.Send(watchtest.Fields{"subtask_id": "1001", "subtask_name": "box"})
		r.wait(50 * time.Second)
		r.want("")
		p.Send(watchtest.Fields{"gcode_state": "PREPARE", "gcode_file": "/data/Metadata/plate_2.gcode"})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "mc_percent": "1", "mc_remaining_time": 60,
			"ams": watchtest.Fields{"tray_now": "0"}})
		r.wait(time.Second)
		p.Raw(`{"print": {"layer_num": "abc", "mc_percent": "37", "unknown": {"a": [1]}}}`)
		p.Raw(`{"print": {"mc_percent": {"no": "number"}, "ams": [1], "gcode_state": null}}`)
		p.Raw(`{"print": `)
		r.wait(time.Minute)
		p.Send(watchtest.Fields{"ams": watchtest.Fields{"tray_now": "1"}}) // the twin, after the first ran out
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "IDLE"}) // for a moment
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING"})
		p.Send(watchtest.Fields{"gcode_state": "PAUSE", "print_error": 0x07008011})
		r.wait(time.Second)
		r.want("printing box#1 plate 2 0%, printing box#1 plate 2 1% T0A1, printing box#1 plate 2 37% T0A1, " +
			"printing box#1 plate 2 37% T0A1 T0A2, attention!07008011 box#1 plate 2 37% T0A1 T0A2")
		if m := r.states[len(r.states)-1].Message; m != "The filament of the AMS ran out." {
			t.Errorf("the message is %q", m)
		}
		// Cancelled: the percentage is reset, the code is there for some seconds only.
		p.Send(watchtest.Fields{"print_error": bambuCancelled})
		p.Send(watchtest.Fields{"mc_percent": 0, "layer_num": 0})
		p.Send(watchtest.Fields{"gcode_state": "FAILED"})
		p.Send(watchtest.Fields{"print_error": 0, "ams": watchtest.Fields{"tray_now": "255"}})
		r.wait(time.Hour)
		r.want("paused box#1 plate 2 37% T0A1 T0A2, idle box#1 plate 2 37% cancelled T0A1 T0A2")

		// A start that fails, and a failure whose code comes later. The sender says which trays the file uses.
		p.Send(watchtest.Fields{"command": "project_file", "param": "Metadata/plate_1.gcode", "subtask_name": "lid",
			"ams_mapping": []int{-1, 2, 0}})
		p.Send(watchtest.Fields{"gcode_state": "PREPARE", "subtask_id": "1002", "subtask_name": "lid",
			"gcode_file": "/data/Metadata/plate_1.gcode"})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING"})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "FAILED"})
		r.wait(2 * time.Second)
		p.Send(watchtest.Fields{"print_error": 0x03008003})
		r.wait(20 * time.Second)
		r.want("printing lid#2 plate 1 0%, printing lid#2 plate 1 0% T1A3 T2A1, " +
			"idle!03008003 lid#2 plate 1 0% failed T1A3 T2A1")

		// A failure without a code, of a job that the screen started again: the names do not come, nor other trays.
		p.Send(watchtest.Fields{"print_error": 0, "gcode_state": "RUNNING", "mc_percent": 5,
			"ams": watchtest.Fields{"tray_now": "2"}})
		r.wait(20 * time.Second)
		p.Send(watchtest.Fields{"gcode_state": "FAILED"})
		r.wait(20 * time.Second)
		r.want("printing lid#3 plate 1 unsure 5% T0A3, idle lid#3 plate 1 unsure 5% unknown T0A3")

		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "gcode_file": "/usr/etc/print/auto_cali_for_user.gcode"})
		r.wait(40 * time.Second)
		r.want("idle")
		// H2D: numbers of trays are of a unit; the mapping is of all.
		p.Send(watchtest.Fields{"gcode_state": "FINISH"})
		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "gcode_file": "x.gcode", "subtask_name": "",
			"subtask_id": "", "mapping": []int{65535, 256 + 3, 128 * 256}, "ams": watchtest.Fields{"tray_now": "3"}})
		r.wait(time.Second)
		r.want("printing x.gcode#4 5% T1B4 T2HT1")
		for _, request := range p.Requests {
			if !strings.Contains(request, `"pushall"`) {
				t.Errorf("the watcher sends %s", request)
			}
		}
	})
}

// What a Bambu printer sends, one message a second, becomes jobs that print.
func TestBambuJobs(t *testing.T) {
	t.Parallel()
	ready := watchtest.Fields{"gcode_state": "IDLE", "mc_percent": 0}
	for name, test := range map[string]struct {
		sent []watchtest.Fields
		want string
	}{
		"the first message is an end": {[]watchtest.Fields{{"gcode_state": "FINISH", "subtask_name": "a"}}, "idle"},
		"the first message is a job at 40 %": {[]watchtest.Fields{{"gcode_state": "RUNNING", "subtask_name": "a",
			"mc_percent": 40}}, "printing a#1 adopted 40%"},
		"a start that fails before it prints": {[]watchtest.Fields{ready, {"gcode_state": "PREPARE", "subtask_name": "a",
			"subtask_id": "7"}, {"gcode_state": "FAILED", "print_error": 0x07008011}},
			"idle, printing a#1 0%, idle!07008011 a#1 0% failed"},
		"a file that is sent and never starts": {[]watchtest.Fields{ready, {"command": "project_file", "subtask_name": "a",
			"param": "Metadata/plate_1.gcode"}, {"subtask_name": "a", "subtask_id": "7"}}, "idle"},
		"a print of the system": {[]watchtest.Fields{ready, {"gcode_state": "RUNNING", "print_type": "system",
			"gcode_file": "flow.gcode", "subtask_name": "flow"}}, "idle, idle"}, // with another message
		"a job without a name": {[]watchtest.Fields{ready, {"gcode_state": "RUNNING", "subtask_name": "", "subtask_id": "0",
			"gcode_file": ""}, {"gcode_state": "FINISH"}}, "idle, printing #1 0%, idle #1 100% completed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "1"}
				l := r.net.Listen("p1s:8883")
				go p.Serve(l)
				defer l.Close()
				p.Send(test.sent[0])
				r.follow(Connection{Kind: "bambu", Address: "p1s", Secret: "1", Serial: p.Serial})
				r.wait(time.Second)
				for _, fields := range test.sent[1:] {
					p.Send(fields)
					r.wait(time.Second)
				}
				r.wait(time.Hour)
				r.want(test.want)
			})
		})
	}
}

// A file that was sent with a mapping starts, and its filament runs out; the screen starts it again with another tray.
func TestBambuTrays(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "1", Silent: true}
		l := r.net.Listen("p1s:8883")
		go p.Serve(l)
		defer l.Close()
		r.follow(Connection{Kind: "bambu", Address: "p1s", Secret: "1", Serial: p.Serial})
		r.wait(time.Second)
		tray := func(id, color, uuid string) watchtest.Fields {
			return watchtest.Fields{"id": id, "tray_type": "PLA", "tray_color": color, "remain": -1, "tray_uuid": uuid,
				"tag_uid": "0123456789ABCDEF"}
		}
		zeros := strings.Repeat("0", 32)
		p.Send(watchtest.Fields{"gcode_state": "IDLE", "subtask_name": "a", "ams": watchtest.Fields{"ams": []any{
			watchtest.Fields{"id": "0", "tray": []any{tray("0", "FF0000FF", "1"+zeros[1:]),
				tray("1", "00FF00FF", zeros)}},
			watchtest.Fields{"id": "1", "tray": []any{tray("0", "00FF00FF", zeros)}}}},
			"vt_tray": watchtest.Fields{"id": "254", "tray_type": "TPU", "tray_color": "transparent"}})
		r.wait(time.Second)
		slots := r.states[0].Slots
		if len(slots) != 4 || slots[0].Tag != "1"+zeros[1:] || slots[1].Tag != "0123456789ABCDEF" ||
			slots[2].Slot != "B1" || slots[2].Remaining != nil || slots[3].Slot != "External" ||
			slots[3].Material != "TPU" || slots[3].Color != "" {
			t.Errorf("the slots are %+v", slots)
		}
		now := func(tray string) watchtest.Fields { return watchtest.Fields{"tray_now": tray} }
		p.Send(watchtest.Fields{"command": "project_file", "subtask_name": "b", "ams_mapping": []int{1, 0}})
		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "subtask_name": "b", "ams": now("1")})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"ams": now("254")}) // nothing that the file uses
		p.Send(watchtest.Fields{"ams": now("4")})   // B1 has the filament of A2
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "FINISH"})
		r.wait(time.Second)
		r.want("idle, printing b#1 T0A2 T1A1, printing b#1 T0A2 T1A1 T0B1, idle b#1 100% completed T0A2 T1A1 T0B1")

		p.Send(watchtest.Fields{"command": "project_file", "subtask_name": "never started",
			"ams_mapping": []int{0, 1}})
		p.Send(watchtest.Fields{"gcode_state": "PREPARE", "subtask_name": "b", "ams": now("0")})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING"})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"ams": now("4")})
		r.wait(time.Second)
		r.want("printing b#2 0%, printing b#2 0% T0A1, printing b#2 0% T0A1 T1B1")

		// An X1 sends all each second.
		p.Send(watchtest.Fields{"gcode_state": "FINISH", "padding": strings.Repeat("x", bambuWhole)})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "subtask_name": "x",
			"padding": strings.Repeat("x", bambuWhole)})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "RUNNING", "subtask_name": "x"})
		r.wait(time.Second)
		r.want("idle b#2 100% completed T0A1 T1B1, printing x#3 T0B1")
		p.Send(watchtest.Fields{"gcode_state": "FAILED", "padding": strings.Repeat("x", bambuWhole),
			"print_error": bambuCancelled})
		r.wait(time.Second)
		p.Send(watchtest.Fields{"gcode_state": "FAILED", "print_error": 0})
		r.wait(time.Second)
		r.want("idle x#3 cancelled T0B1")

		// The name of a job comes after its state. A tray becomes empty.
		empty := watchtest.Fields{"id": "0", "tray": []any{watchtest.Fields{"id": "0"}}}
		p.Send(watchtest.Fields{"gcode_state": "FINISH", "ams": watchtest.Fields{"ams": []any{empty}}})
		r.wait(time.Second)
		if s := r.states[len(r.states)-1].Slots[0]; !s.Empty || s.Tag != "" || s.Color != "" {
			t.Errorf("the slot is %+v", s)
		}
		p.Send(watchtest.Fields{"gcode_state": "PREPARE"})
		r.wait(10 * time.Second)
		r.want("idle")
		p.Send(watchtest.Fields{"subtask_name": "c"})
		r.wait(time.Second)
		r.want("printing c#4 0%")
		if n := len(p.Requests); n != 1 {
			t.Errorf("%d requests for the whole state", n)
		}
	})
}

// A connection that stays open without an answer is made again.
func TestStaleConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := &watchtest.Moonraker{}
		m.Update("print_stats", watchtest.Fields{"state": "standby"})
		hangs := make(chan bool)
		sockets := 0
		defer r.net.Serve("m:7125", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path != "/websocket" {
				m.ServeHTTP(w, q)
				return
			}
			if sockets++; sockets > 1 {
				m.ServeHTTP(w, q)
				return
			}
			c, err := websocket.Accept(w, q, nil)
			if err == nil {
				c.Read(context.Background())
				<-hangs // it answers no ping
				c.CloseNow()
			}
		}))()
		defer close(hangs)
		r.follow(Connection{Kind: "moonraker", Address: "m"})
		r.wait(35 * time.Second)
		r.want("")
		r.wait(10 * time.Second)
		r.want("idle")
		if sockets != 2 {
			t.Errorf("%d connections", sockets)
		}
	})
	t.Run("Bambu", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "1"}
			p.Send(watchtest.Fields{"gcode_state": "IDLE"})
			l := r.net.Listen("p1s:8883")
			go p.Serve(l)
			defer l.Close()
			r.follow(Connection{Kind: "bambu", Address: "p1s", Secret: "1", Serial: p.Serial})
			r.wait(bambuQuiet + 10*time.Second)
			r.want("idle")
			if n := len(p.Requests); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	})
}

// A broker that sends messages for ever instead of the acknowledgement ends neither a test nor a watcher's stop.
func TestEndlessLogin(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		l := r.net.Listen("p1s:8883")
		defer l.Close()
		p := &watchtest.Bambu{Serial: "01P00A123456789", Code: "1", Endless: true}
		go p.Serve(l)
		c := Connection{Kind: "bambu", Address: "p1s", Secret: "1", Serial: p.Serial}
		begin := time.Now()
		if _, err := Test(t.Context(), c, r.net.Dial); err == nil || time.Since(begin) > 3*answerWithin {
			t.Errorf("the test ends after %v: %v", time.Since(begin), err)
		}
		r.follow(c)
		r.wait(5 * time.Second)
		r.stop()
		begin = time.Now()
		if <-r.done; time.Since(begin) > time.Second {
			t.Errorf("the watcher stops after %v", time.Since(begin))
		}
		r.net.Cut("p1s:8883")
		r.wait(time.Second)
	})
}

// TestProblems sees what Test says about mistakes. No text contains the secret.
func TestProblems(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		bambu := &watchtest.Bambu{Serial: "01P00A123456789", Code: "12345678"}
		bambu.Send(watchtest.Fields{"gcode_state": "IDLE"})
		asleep := &watchtest.Bambu{Serial: "01P00A123456789", Code: "12345678"}
		for address, b := range map[string]*watchtest.Bambu{"p1s:8883": bambu, "asleep:8883": asleep} {
			l := r.net.Listen(address)
			go b.Serve(l)
			defer l.Close()
		}
		octo := &watchtest.OctoPrint{Key: "k"}
		octo.Set("Operational", []string{}, "", nil, nil)
		m := &watchtest.Moonraker{Key: "k"}
		for address, h := range map[string]http.Handler{"octo:80": octo, "m:7125": m,
			"moved:80": http.RedirectHandler("http://elsewhere/", http.StatusFound),
			"html:80":  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }),
			"hangs:80": http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })} {
			defer r.net.Serve(address, h)()
		}
		found, err := Test(t.Context(), Connection{"bambu", "p1s", "12345678", bambu.Serial, ""}, r.net.Dial)
		if err != nil || len(found.Fingerprint) != 64 || found.State != Idle {
			t.Fatalf("%+v, %v", found, err)
		}
		for _, test := range []struct {
			c    Connection
			code string
		}{
			{Connection{"bambu", "p1s", "12345678", bambu.Serial, strings.ToUpper(found.Fingerprint)}, ""},
			{Connection{"bambu", "p1s", "87654321", bambu.Serial, ""}, "key"},
			{Connection{"bambu", "p1s", "12345678", "01P00A000000000", ""}, "certificate"},
			{Connection{"bambu", "p1s", "12345678", bambu.Serial, strings.Repeat("0", 64)}, "certificate"},
			{Connection{"bambu", "asleep", "12345678", bambu.Serial, ""}, "off"},
			{Connection{"bambu", "nowhere", "12345678", bambu.Serial, ""}, "network"},
			{Connection{"bambu", "p1s", "12345678", "", ""}, "invalid"},
			{Connection{"bambu", "http://p1s/", "12345678", bambu.Serial, ""}, "invalid"},
			{Connection{Kind: "octoprint", Address: "octo", Secret: "k"}, ""},
			{Connection{Kind: "octoprint", Address: "octo", Secret: "wrong-secret"}, "key"},
			{Connection{Kind: "octoprint", Address: "http://octo:80/?a"}, "invalid"},
			{Connection{Kind: "octoprint", Address: "file:///etc/passwd"}, "invalid"},
			{Connection{Kind: "octoprint", Address: "octo@host"}, "invalid"},
			{Connection{Kind: "octoprint", Address: "moved"}, "kind"},
			{Connection{Kind: "octoprint", Address: "html"}, "kind"},
			{Connection{Kind: "octoprint", Address: "hangs"}, "off"},
			{Connection{Kind: "octoprint", Address: "m:7125", Secret: "k"}, "kind"},
			{Connection{Kind: "prusalink", Address: "octo", Secret: "k"}, "kind"},
			{Connection{Kind: "moonraker", Address: "m", Secret: "k"}, ""},
			{Connection{Kind: "moonraker", Address: "m"}, "key"},
			{Connection{Kind: "moonraker", Address: "octo:80", Secret: "k"}, "kind"},
			{Connection{Kind: "duet", Address: "octo"}, "invalid"},
		} {
			_, err := Test(t.Context(), test.c, r.net.Dial)
			if codeOf(err) != test.code || err != nil && test.code == "" {
				t.Errorf("%v: %v %q, want %q", test.c, err, codeOf(err), test.code)
			}
			if err != nil && len(test.c.Secret) > 4 && strings.Contains(err.Error(), test.c.Secret) {
				t.Errorf("the text contains the secret: %v", err)
			}
		}
	})
}

// A message of more than 4 MB is refused, and so is one that stops in the middle.
func TestMQTT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		m := &mqtt{near, bufio.NewReader(near)}
		go far.Write([]byte{0x30, 4, 0, 1, 't', '!'})
		_, body, err := m.receive(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := message(body); err != nil || string(text) != "!" {
			t.Errorf("%q %v", text, err)
		}
		if text, err := message(body[:2]); err == nil {
			t.Errorf("%q of a message without a topic", text)
		}
		go far.Write([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})
		if _, _, err := m.receive(time.Second); codeOf(err) != "protocol" {
			t.Errorf("%v", err)
		}
		go far.Write([]byte{0x30, 6, 0})
		if _, _, err := m.receive(time.Second); err != io.ErrUnexpectedEOF {
			t.Errorf("%v", err)
		}
		var timeout net.Error
		if _, _, err := m.receive(time.Second); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
		near.Close()
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a\x00b\nc": "a b c", "äöü\xffxyz": "äöü?x", "Gr\ufffdn": "Gr?n",
		" a ": "a"} {
		if got := cut(text, 5); got != want {
			t.Errorf("cut(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(State{PrinterID: "p", Sequence: 1, State: Idle, ObservedAt: epoch})
	want := `{"printer_id":"p","sequence":1,"state":"idle","observed_at":"2026-11-30T12:00:00Z"}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}
