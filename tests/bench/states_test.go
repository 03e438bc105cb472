package bench

import (
	"fmt"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// BenchmarkStates sends the states of 1,000 printers of a farm in one request: that each begins a job, that nothing has
// changed, and half a minute later their progress.
func BenchmarkStates(b *testing.B) {
	api := testkit.New(b, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(b)
	admin, watcher := tenant.User(b, "admin"), tenant.Key(b, "watcher")
	var printers []string
	for i := range 1000 {
		body := testkit.JSON{"name": fmt.Sprint("P", i)}
		printers = append(printers, admin.Post(b, "/api/v1/printers", body).Want(201).ID())
	}
	sequence := 0
	send := func(progress float64) time.Duration {
		sequence++
		var states []testkit.JSON
		for _, p := range printers {
			states = append(states, testkit.JSON{"printer_id": p, "sequence": sequence, "state": "printing",
				"job": testkit.JSON{"id": "1", "file": "dragon.gcode", "progress": progress, "seconds_left": 60}})
		}
		begin := time.Now()
		watcher.Post(b, "/api/v1/printer-states", testkit.JSON{"states": states}).Want(200)
		return time.Since(begin)
	}
	b.ReportMetric(send(0.1).Seconds()*1000, "ms-starts")
	for i := range b.N {
		b.ReportMetric(send(0.1).Seconds()*1000, "ms-unchanged")
		time.Sleep(31 * time.Second)
		b.ReportMetric(send(0.2+float64(i)/50).Seconds()*1000, "ms-progress")
	}
}
