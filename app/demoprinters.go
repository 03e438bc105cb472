package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"spoolwright/production/watch/watchtest"
	"spoolwright/web/start"
)

// demoPercent is how long a printer of the demo prints one percent of a job.
const demoPercent = 20 * time.Second

// demoPrinter is a fake of a printer of the sample data.
type demoPrinter struct {
	name, kind, file string
	percent          int // of the job, when the demo starts
	serve            func(net.Listener)
	show             func(job, percent int) // at 100, the job has ended
}

const demoSerial, demoCode = "00M00A000000000", "12345678"

// demoPrinters returns the printers that the demo watches: each kind, and one that needs a person.
func demoPrinters() []demoPrinter {
	const stand, shade, bracket = "phone-stand.gcode", "lamp-shade.gcode", "hose-bracket.gcode"
	voron, x1c, mk4 := &watchtest.Moonraker{}, &watchtest.Bambu{Serial: demoSerial, Code: demoCode}, &watchtest.PrusaLink{}
	runout, octo := &watchtest.PrusaLink{}, &watchtest.OctoPrint{}
	voron.Klipper(true)
	over := func(h http.Handler) func(net.Listener) { return func(l net.Listener) { http.Serve(l, h) } }
	state := func(percent int, printing, ended string) string {
		if percent == 100 {
			return ended
		}
		return printing
	}
	return []demoPrinter{
		{"Voron 2.4 #3", "moonraker", bracket, 96, over(voron), func(job, percent int) {
			seconds, id := 396*float64(percent), fmt.Sprintf("%06X", job)
			voron.Row(id, float64(job), bracket, state(percent, "in_progress", "completed"), seconds, 1330*float64(percent))
			voron.Update("virtual_sdcard", watchtest.Fields{"progress": float64(percent) / 100})
			voron.Update("print_stats", watchtest.Fields{"state": state(percent, "printing", "complete"), "filename": bracket,
				"total_duration": seconds, "print_duration": seconds, "filament_used": 1330 * float64(percent)})
		}},
		{"Bambu X1C #2", "bambu", stand, 23, x1c.Serve, func(job, percent int) {
			tray := func(id, kind, color string) watchtest.Fields {
				return watchtest.Fields{"id": id, "tray_type": kind, "tray_color": color, "remain": 60}
			}
			x1c.Send(watchtest.Fields{"gcode_state": state(percent, "RUNNING", "FINISH"), "mc_percent": percent,
				"mc_remaining_time": (100 - percent) * 27 / 10, "subtask_name": stand, "subtask_id": fmt.Sprint(job),
				"print_type": "local", "gcode_file": stand, "ams": watchtest.Fields{"tray_now": "0", "ams": []any{
					watchtest.Fields{"id": "0", "tray": []any{tray("0", "PLA", "F5F5F0FF"), tray("1", "PETG", "E8E8E8FF")}}}}})
		}},
		{"Prusa MK4 #5", "prusalink", stand, 61, over(mk4), func(job, percent int) {
			mk4.Set(state(percent, "PRINTING", "FINISHED"), watchtest.Fields{"id": job, "progress": percent,
				"time_printing": 243 * percent, "time_remaining": 243 * (100 - percent)},
				watchtest.Fields{"name": stand, "display_name": stand})
		}},
		{"Prusa MK4 #6", "prusalink", "lamp-base.gcode", 57, over(runout), func(job, _ int) {
			runout.Set("ATTENTION", watchtest.Fields{"id": job, "progress": 57, "time_printing": 7200, "time_remaining": 5400},
				watchtest.Fields{"name": "lamp-base.gcode", "display_name": "lamp-base.gcode"})
		}},
		{"Bambu X1C #8", "octoprint", shade, 80, over(octo), func(_, percent int) {
			flags := []string{"printing"}
			if percent == 100 {
				flags = []string{"ready"}
			}
			octo.Set(state(percent, "Printing", "Operational"), flags, shade, float64(percent), 180*float64(percent))
		}},
	}
}

// watchDemo serves the printers until ctx ends, and connects the farm's printers to them.
func watchDemo(ctx context.Context, send func(start.Request) ([]byte, error)) error {
	answer, err := send(start.Request{Method: http.MethodGet, Path: "/api/v1/printers/names?limit=100"})
	if err != nil {
		return err
	}
	var names struct{ Items []struct{ ID, Name string } }
	if err := json.Unmarshal(answer, &names); err != nil {
		return err
	}
	ids := map[string]string{}
	for _, p := range names.Items {
		ids[p.Name] = p.ID
	}
	for _, p := range demoPrinters() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		p.show(1, p.percent)
		go p.serve(l)
		go p.print(ctx)
		connection := map[string]string{"kind": p.kind, "address": "http://" + l.Addr().String()}
		if p.kind == "bambu" {
			connection = map[string]string{"kind": p.kind, "address": l.Addr().String(), "serial": demoSerial,
				"secret": demoCode}
		}
		body, err := json.Marshal(connection)
		if err != nil {
			return err
		}
		if _, err := send(start.Request{Method: http.MethodPut, Path: "/api/v1/printers/" + ids[p.name] + "/connection",
			Body: body}); err != nil {
			return err
		}
	}
	return nil
}

// print prints one job after another.
func (p demoPrinter) print(ctx context.Context) {
	for job, percent := 1, p.percent; ; percent++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(demoPercent):
		}
		if percent > 100+3 { // somebody has taken the pieces off the plate
			job, percent = job+1, 1
		}
		p.show(job, min(percent, 100))
	}
}
