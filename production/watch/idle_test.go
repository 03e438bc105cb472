//go:build unix

package watch_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/production/watch"
	"spoolwright/production/watch/watchtest"
)

const fakeSerial = "01P00A123456789"

// serveFakes serves 50 idle printers in a process of their own, and prints their kinds and addresses.
func serveFakes() {
	for i := range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		kind := []string{"moonraker", "bambu", "moonraker", "bambu", "octoprint", "prusalink"}[i%6]
		switch kind {
		case "moonraker":
			m := &watchtest.Moonraker{}
			m.Update("toolhead", watchtest.Fields{"extruder": "extruder"})
			go http.Serve(l, m)
			go func() {
				for range time.Tick(time.Second) { // as Moonraker does
					m.Notify("notify_proc_stat_update", watchtest.Fields{"moonraker_stats": watchtest.Fields{
						"time": 1.5, "cpu_usage": 2.5, "memory": 40000, "mem_units": "kB"}, "cpu_temp": 50.1,
						"network": watchtest.Fields{"lo": watchtest.Fields{"rx_bytes": 1, "tx_bytes": 1}}})
				}
			}()
		case "bambu":
			b := &watchtest.Bambu{Serial: fakeSerial, Code: "1"}
			b.Send(watchtest.Fields{"gcode_state": "IDLE", "padding": strings.Repeat("x", 10000)})
			go b.Serve(l)
			whole := watchtest.Fields{"gcode_state": "IDLE"}
			for i := range 150 {
				whole[fmt.Sprint("field", i)] = watchtest.Fields{"a": i, "b": "some text here", "c": []int{1, 2, 3}}
			}
			go func() {
				for n := range 1 << 30 { // all each second, as an X1 sends it, or a difference, as a P1
					time.Sleep(time.Second)
					if i%4 == 1 {
						b.Send(whole)
						continue
					}
					b.Send(watchtest.Fields{"command": "push_status", "msg": 1, "sequence_id": fmt.Sprint(n),
						"nozzle_temper": 20.1, "bed_temper": 20.2, "wifi_signal": "-52dBm"})
				}
			}()
		case "octoprint":
			o := &watchtest.OctoPrint{}
			o.Set("Operational", []string{"ready"}, "", nil, nil)
			go http.Serve(l, o)
		default:
			p := &watchtest.PrusaLink{}
			p.Set("IDLE", nil, nil)
			go http.Serve(l, p)
		}
		fmt.Println(kind, l.Addr())
	}
	fmt.Println("end")
	select {}
}

func TestMain(m *testing.M) {
	if os.Getenv("WATCH_FAKES") != "" {
		serveFakes()
	}
	os.Exit(m.Run())
}

type discard struct{ states int }

func (d *discard) Lease(_ context.Context, _ string, ids []string, _ bool) (map[string]*watch.State, error) {
	held := map[string]*watch.State{}
	for _, id := range ids {
		held[id] = nil
	}
	return held, nil
}

func (d *discard) Send(_ context.Context, _ string, states []watch.State) (map[int]string, error) {
	d.states += len(states)
	return nil, nil
}

// BenchmarkIdle measures what 50 idle printers cost: percent of a core, and MB of memory.
func BenchmarkIdle(b *testing.B) {
	fakes := exec.Command(os.Args[0])
	fakes.Env = append(os.Environ(), "WATCH_FAKES=1")
	out, err := fakes.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := fakes.Start(); err != nil {
		b.Fatal(err)
	}
	defer fakes.Wait()
	defer fakes.Process.Kill()
	var printers []watch.Printer
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		kind, address, _ := strings.Cut(lines.Text(), " ")
		c := watch.Connection{Kind: kind, Address: address, Secret: "1", Serial: fakeSerial}
		printers = append(printers, watch.Printer{ID: fmt.Sprint(len(printers)), Connection: c})
	}
	sink := &discard{}
	w := watch.New("b", sink, nil, slog.New(slog.DiscardHandler))
	w.Set(printers)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan bool)
	go func() {
		w.Run(ctx)
		close(done)
	}()
	time.Sleep(5 * time.Second)
	used := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin, cpu := time.Now(), used()
	for range b.N {
		time.Sleep(20 * time.Second)
	}
	b.ReportMetric(100*float64(used()-cpu)/float64(time.Since(begin)), "%core")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var n float64
			fmt.Sscan(kb, &n)
			b.ReportMetric(n/1024, "MB-resident")
		}
	}
	b.ReportMetric(float64(m.Sys)/(1<<20), "MB-of-Go")
	b.ReportMetric(float64(sink.states), "states")
	cancel()
	<-done
}
