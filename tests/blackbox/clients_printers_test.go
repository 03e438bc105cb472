package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/production/watch/watchtest"
	"spoolwright/tests/testkit"
)

var printTime = flag.Duration("printers.time", 6*time.Second, "how long Moonraker prints in testPrinterClients")

// testPrinterClients connects the software of printers to the service. It needs tools that .ci/run installs:
//
//	PRINTER_CLIENTS  virtual environment with the packages moonraker, spoolman2slicer, requests and aiohttp
//
// The sources of the others are not in a package registry:
//
//	PRINTER_SOURCES  directory with checkouts of octoprint-spoolman, spoolman-homeassistant and openspoolman
//
// Moonraker prints 10 minutes with
//
//	go test ./tests/blackbox -run Program/PrinterClients/Moonraker -timeout 0 -long -printers.time 10m
func testPrinterClients(t *testing.T, p program) {
	testkit.Rig(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *printerFarm)
	}{
		{"Moonraker", testMoonraker},
		{"MoonrakerProxy", testMoonrakerProxy},
		{"Slicer", testSlicer},
		{"OctoPrint", testOctoPrint},
		{"HomeAssistant", testHomeAssistant},
		{"OpenSpoolMan", testOpenSpoolMan},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			printerPython(t) // before the service starts
			test.run(t, newPrinterFarm(t, p))
		})
	}
}

// printerFarm is a service that can be restarted at its address, with three spools and the key of a printer.
type printerFarm struct {
	*process
	program program
	env     []string
	token   string
	key     string
	surface string // the URL to configure in clients

	superURL string // of the database
}

func newPrinterFarm(t *testing.T, p program) *printerFarm {
	t.Helper()
	name := testkit.NewDatabase(t)
	url := ownerURL(name)
	address := freeAddress(t)
	f := &printerFarm{program: p, env: []string{"DATABASE_URL=" + url, secretEnv, "LISTEN_ADDR=" + address},
		superURL: testkit.WithDatabase(testkit.Private().SuperURL(), name)}
	p.addUser(t, f.env, "farm", "ada@farm.example", "admin")
	f.process = p.start(t, f.env)
	f.token = f.login(t, "ada@farm.example", testPassword)
	for _, spool := range []map[string]any{
		{"brand": "Polymaker", "color": "Black", "color_hex": "#101010", "location": "Shelf"},
		{"color": "Red", "material_type": "PETG"},
		{"brand": "Gone", "color": "Blue", "archived": true},
	} {
		all := map[string]any{"material_type": "PLA", "diameter_mm": 1.75, "net_weight_grams": 1000,
			"spool_weight_grams": 200}
		for name, value := range spool {
			all[name] = value
		}
		f.want(t, 201, "POST", "/api/v1/spools", all)
	}
	f.key = f.want(t, 201, "POST", "/api/v1/api-keys", map[string]any{"name": "p", "role": "printer"})["key"].(string)
	f.surface = "http://x:" + f.key + "@" + address + "/spoolman"
	return f
}

// want sends a request of the admin and requires the status.
func (f *printerFarm) want(t *testing.T, status int, method, path string, body any) map[string]any {
	t.Helper()
	got, fields := f.call(t, f.token, method, path, body)
	if got != status {
		t.Fatalf("%s %s: %d %v, want %d", method, path, got, fields, status)
	}
	return fields
}

// used returns the grams that the ledger's entries of printers have for the spool with the number, and checks that the
// ledger's sum is the remaining weight.
func (f *printerFarm) used(t *testing.T, number int) float64 {
	t.Helper()
	list := f.want(t, 200, "GET", fmt.Sprintf("/api/v1/spools?archived=any&number=%d", number), nil)
	spool := list["items"].([]any)[0].(map[string]any)
	entries := f.want(t, 200, "GET", "/api/v1/spools/"+spool["id"].(string)+"/usage?limit=100", nil)["items"].([]any)
	used, left := 0.0, 0.0
	for _, e := range entries {
		entry := e.(map[string]any)
		change := entry["after_grams"].(float64) - entry["before_grams"].(float64)
		left += change
		if entry["kind"] == "printed" {
			used -= change
		}
	}
	if remaining := spool["remaining_weight_grams"].(float64); math.Abs(left-remaining) > 1e-6 {
		t.Errorf("spool %d has %v g left, the ledger's sum is %v", number, remaining, left)
	}
	return used
}

// restart starts the service again after the signal ended it.
func (f *printerFarm) restart(t *testing.T, s syscall.Signal) {
	t.Helper()
	f.signal(s)
	<-f.exited
	f.process = f.program.start(t, f.env)
}

// testReportAfterCrash kills the service after it has sent a report to PostgreSQL, which commits it. A client that
// repeats the report does not use the filament twice, but its next report counts.
func testReportAfterCrash(t *testing.T, p program) {
	testkit.Rig(t)
	f := newPrinterFarm(t, p)
	use := func() error {
		r, err := http.NewRequest("PUT", f.url+"/spoolman/api/v1/spool/1/use", strings.NewReader(`{"use_weight": 10}`))
		check(t, err)
		r.SetBasicAuth("x", f.key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		testkit.Equal(t, a.StatusCode, 200, "the status")
		return nil
	}
	check(t, use())
	h := testkit.Hold(t, f.superURL, `select from spools where number = 1 for update`)
	var err error
	lost := h.StartWaiting(1, func() { err = use() })
	f.signal(syscall.SIGKILL)
	<-f.exited
	if <-lost; err == nil {
		t.Error("the report was answered")
	}
	h.Commit()
	conn, err := pgx.Connect(t.Context(), f.superURL)
	check(t, err)
	defer conn.Close(context.Background())
	eventually(t, "PostgreSQL has committed the report", func() (committed bool) {
		check(t, conn.QueryRow(t.Context(), `select remaining_weight_grams = 980 from spools where number = 1`).
			Scan(&committed))
		return committed
	})
	f.process = p.start(t, f.env)
	// The start may have taken longer than the 5 seconds, and the repetition may take long.
	testkit.ExecURL(t, f.superURL,
		`update spool_usage set updated_at = now() + interval '10 minutes' where kind = 'printed'`)
	check(t, use())
	if used := f.used(t, 1); used != 20 {
		t.Errorf("after the repetition, %v g are used, want 20", used)
	}
	check(t, use())
	if used := f.used(t, 1); used != 30 {
		t.Errorf("after the next report, %v g are used, want 30", used)
	}
}

// awaitUsed waits until a spool has used the grams, within the tolerance. A report can take long on a busy machine.
func (f *printerFarm) awaitUsed(t *testing.T, number int, grams, tolerance float64) {
	t.Helper()
	begin, used := time.Now(), f.used(t, number)
	for ; math.Abs(used-grams) > tolerance; used = f.used(t, number) {
		if time.Since(begin) > testkit.WaitTimeout {
			t.Fatalf("spool %d has used %v g, want %v", number, used, grams)
		}
		time.Sleep(time.Second) // the service limits requests
	}
	t.Logf("spool %d has used %.6f g, want %.6f", number, used, grams)
}

// printerPython returns the interpreter of PRINTER_CLIENTS.
func printerPython(t *testing.T) string { t.Helper(); return pythonIn(t, "PRINTER_CLIENTS") }

// define defines custom fields of spools, as users of the clients that write them must do in Spoolman.
func (f *printerFarm) define(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		f.want(t, 201, "POST", "/api/v1/custom-fields",
			map[string]any{"entity": "spool", "key": key, "name": key, "type": "text"})
	}
}

// needSource returns the folder of a client in PRINTER_SOURCES, or skips the test.
func needSource(t *testing.T, repository, file string) string {
	t.Helper()
	folder := filepath.Join(os.Getenv("PRINTER_SOURCES"), repository)
	if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
		t.Skipf("%s is not in PRINTER_SOURCES; no package registry has it", filepath.Join(repository, file))
	}
	return folder
}

// runScript runs a script of testdata/clients/printers that imports the file of a client in PRINTER_SOURCES, and
// compares the JSON that it prints.
func (f *printerFarm) runScript(t *testing.T, script, repository, file string, want any) {
	t.Helper()
	folder := needSource(t, repository, file)
	out := runIn(t, tempDir(t), []string{"SPOOLMAN_URL=" + f.surface, "SPOOLMAN_BASE_URL=" + f.surface,
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + filepath.Join(folder, filepath.Dir(file))},
		printerPython(t), absolutePath(t, "testdata/clients/printers/"+script))
	wantPrinted(t, out, want)
}

// PLA and PETG of 1.75 mm.
const (
	plaPerMM  = math.Pi / 4 * 1.75 * 1.75 * 1.24 / 1000
	petgPerMM = math.Pi / 4 * 1.75 * 1.75 * 1.27 / 1000
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-4 }

// testOctoPrint calls the connector of the plugin OctoPrint-Spoolman. While another transaction locks spool 2, a
// report takes longer than the connector's timeout of one second, so that the connector repeats it.
func testOctoPrint(t *testing.T, f *printerFarm) {
	const repository, file = "octoprint-spoolman", "octoprint_Spoolman/modules/SpoolmanConnector.py"
	needSource(t, repository, file)
	conn, err := pgx.Connect(t.Context(), f.superURL)
	check(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `select from spools where number = 2 for update`)
	check(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		const waiting = `select count(*) from pg_locks where not granted and $1 = any (pg_blocking_pids(pid))`
		for n, begin := 0, time.Now(); n == 0 && time.Since(begin) < waitTimeout; time.Sleep(10 * time.Millisecond) {
			if err := conn.QueryRow(t.Context(), waiting, int32(conn.PgConn().PID())).Scan(&n); err != nil {
				t.Error(err)
				return
			}
		}
		time.Sleep(1300 * time.Millisecond) // longer than the connector waits for an answer
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	committed := map[string]any{}
	f.runScript(t, "octoprint.py", repository, file,
		map[string]any{
			"spools": []any{1.0, 2.0}, "committed": []any{committed, committed, committed},
			"unknown": "spoolman_api__spool_not_found", "wrong_key": "spoolman_api__request_failed",
		})
	if used := f.used(t, 1); !near(used, 2000*plaPerMM) {
		t.Errorf("spool 1: %v g, want the grams of 2 m", used)
	}
	if used := f.used(t, 2); !near(used, 500*petgPerMM) {
		t.Errorf("spool 2: %v g, want the %v g of the repeated report once", used, 500*petgPerMM)
	}
}

// testHomeAssistant calls the API class of the integration Spoolman.
func testHomeAssistant(t *testing.T, f *printerFarm) {
	f.want(t, 201, "POST", "/api/v1/spools", map[string]any{"material_type": "PLA", "diameter_mm": 1.75, "color": "x",
		"net_weight_grams": 1})
	f.define(t, "tray")
	f.runScript(t, "homeassistant.py", "spoolman-homeassistant", "custom_components/spoolman/classes/spoolman_api.py",
		map[string]any{
			"health": "healthy", "version": []any{0.0, 26.0, 1.0}, "spools": []any{1.0, 2.0, 4.0},
			"archived": []any{1.0, 2.0, 3.0, 4.0}, "filaments": 4.0, "locations": []any{"Shelf"},
			"fields":  []any{"tray"},
			"patched": []any{"Drawer", 900.0, map[string]any{"tray": "A1"}}, "used": []any{850.0, 950.0},
			"backup": nil, "unknown": 404.0,
		})
	if used := f.used(t, 1); !near(used, 50) {
		t.Errorf("the ledger has %v g", used)
	}
}

// testOpenSpoolMan calls the client module of OpenSpoolMan.
func testOpenSpoolMan(t *testing.T, f *printerFarm) {
	f.define(t, "tag", "active_tray")
	f.runScript(t, "openspoolman.py", "openspoolman", "spoolman_client.py", map[string]any{
		"spools": []any{2.0, 1.0}, "settings": []any{"EUR", "", []any{"tag", "active_tray"}}, "tray": "tray 1",
		"left": []any{987.5, 990.0},
	})
	if used := f.used(t, 1); !near(used, 10) {
		t.Errorf("the ledger has %v g", used)
	}
}

// testSlicer runs spoolman2slicer, which writes a file for each filament and updates it on messages of the WebSocket.
func testSlicer(t *testing.T, f *printerFarm) {
	python := printerPython(t)
	dir := tempDir(t)
	venv := filepath.Dir(filepath.Dir(python))
	config := filepath.Join(dir, "config", "spoolman2slicer")
	check(t, os.MkdirAll(config, 0o700))
	templates := filepath.Join(venv, "share", "spoolman2slicer", "templates-superslicer")
	check(t, os.Symlink(templates, filepath.Join(config, "templates-superslicer")))
	out := filepath.Join(dir, "filaments")
	check(t, os.Mkdir(out, 0o700))
	c := program(python).launch(t, func(c *exec.Cmd) { c.Dir = dir },
		[]string{"XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "PYTHONUNBUFFERED=1"},
		filepath.Join(venv, "bin", "spoolman2slicer"), "--dir", out, "--slicer", "superslicer", "--url", f.surface,
		"--updates", "--verbose")
	contains := func(file, text string) func() bool {
		return func() bool {
			b, err := os.ReadFile(filepath.Join(out, file))
			return err == nil && bytes.Contains(b, []byte(text))
		}
	}
	eventually(t, "the files exist", contains("Polymaker - Black.ini", "filament_colour = #101010"))
	eventually(t, "the files exist", contains("Unknown - Red.ini", "filament_density = 1.27"))
	if _, err := os.Stat(filepath.Join(out, "Gone - Blue.ini")); err == nil {
		t.Error("the archived spool has a file")
	}
	eventually(t, "the client listens",
		func() bool { return strings.Contains(c.stdout.String(), "Waiting for updates") })
	first := f.want(t, 200, "GET", "/api/v1/spools?number=1", nil)["items"].([]any)[0].(map[string]any)["id"].(string)
	second := f.want(t, 200, "GET", "/api/v1/spools?number=2", nil)["items"].([]any)[0].(map[string]any)["id"].(string)
	update := func(id string, body map[string]any, what string, is func() bool) {
		t.Helper()
		// The client does not say when it is connected, and gets no older changes.
		for begin := time.Now(); !is(); time.Sleep(3 * time.Second) {
			if time.Since(begin) > waitTimeout {
				t.Fatalf("timed out waiting until %s", what)
			}
			body["notes"] = time.Now().String()
			f.want(t, 200, "PATCH", "/api/v1/spools/"+id, body)
		}
	}
	update(first, map[string]any{"color_hex": "#aabbcc"}, "the color changes",
		contains("Polymaker - Black.ini", "filament_colour = #AABBCC"))
	f.want(t, 201, "POST", "/api/v1/spools", map[string]any{"material_type": "PLA", "color": "Green", "brand": "New",
		"diameter_mm": 1.75, "net_weight_grams": 1000})
	eventually(t, "the file of a new spool exists", contains("New - Green.ini", "filament_density = 1.24"))
	update(second, map[string]any{"density_g_cm3": 1.3}, "the density changes",
		contains("Unknown - Red.ini", "filament_density = 1.3"))
	c.signal(syscall.SIGKILL)
	<-c.exited
	if log := c.stderr.String(); strings.Contains(log, "ERROR") || strings.Contains(log, "WARNING") {
		t.Errorf("the client reports %s", log)
	}
}

// moonraker is a running Moonraker whose printer is a fake.
type moonraker struct {
	*process
	klippy testkit.Klippy
	e      float64 // position of the extruder in mm
}

// extrude moves the extruder and sends its position.
func (m *moonraker) extrude(mm float64) {
	m.e += mm
	m.klippy.Update("toolhead", watchtest.Fields{"position": []float64{1, 2, 3, m.e}})
}

// startMoonraker starts Moonraker with the service as its Spoolman, and waits until both are connected.
func startMoonraker(t *testing.T, f *printerFarm) *moonraker {
	t.Helper()
	dir := tempDir(t)
	m, socket := &moonraker{}, filepath.Join(dir, "klippy.sock")
	l, err := net.Listen("unix", socket)
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go m.klippy.Serve(l)
	check(t, os.Mkdir(filepath.Join(dir, "config"), 0o700))
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	config := fmt.Sprintf(`
[server]
host: 127.0.0.1
port: %s
klippy_uds_address: %s
[machine]
provider: none
validate_service: False
validate_config: False
[announcements]
dev_mode: True
[authorization]
trusted_clients: 127.0.0.0/8
[spoolman]
server: %s
sync_rate: 1
`, port, socket, f.surface)
	check(t, os.WriteFile(filepath.Join(dir, "config", "moonraker.conf"), []byte(config), 0o600))
	m.process = program(printerPython(t)).launch(t, func(c *exec.Cmd) { c.Dir = dir },
		[]string{"HOME=" + dir, "PYTHONUNBUFFERED=1"}, "-m", "moonraker", "-d", dir, "-n")
	m.url = "http://" + address
	eventually(t, "Moonraker is connected to Klipper", func() bool {
		select {
		case <-m.exited:
			t.Fatal("Moonraker exited")
		default:
		}
		a, err := m.client.Get(m.url + "/server/info")
		if err != nil {
			return false
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return bytes.Contains(b, []byte(`"klippy_state": "ready"`)) ||
			bytes.Contains(b, []byte(`"klippy_state":"ready"`))
	})
	m.awaitSpoolman(t)
	return m
}

// status returns the state of Moonraker's component spoolman.
func (m *moonraker) status(t *testing.T) (s struct {
	Connected bool              `json:"spoolman_connected"`
	Pending   []json.RawMessage `json:"pending_reports"`
	Spool     *int              `json:"spool_id"`
}) {
	t.Helper()
	_, fields := m.call(t, "", "GET", "/server/spoolman/status", nil)
	b, err := json.Marshal(fields["result"])
	check(t, err)
	check(t, json.Unmarshal(b, &s))
	return s
}

func (m *moonraker) awaitSpoolman(t *testing.T) {
	t.Helper()
	eventually(t, "Moonraker is connected to Spoolman", func() bool { return m.status(t).Connected })
}

func (m *moonraker) choose(t *testing.T, spool int) {
	t.Helper()
	body := map[string]any{"spool_id": spool}
	if status, fields := m.call(t, "", "POST", "/server/spoolman/spool_id", body); status != 200 {
		t.Fatalf("Moonraker does not select spool %d: %d %v", spool, status, fields)
	}
}

// sync waits until Moonraker has handled the last position: a request that it passes to Klipper is answered later.
func (m *moonraker) sync(t *testing.T) {
	t.Helper()
	if status, fields := m.call(t, "", "GET", "/printer/info", nil); status != 200 {
		t.Fatalf("/printer/info: %d %v", status, fields)
	}
}

// flush waits until Moonraker has reported everything.
func (m *moonraker) flush(t *testing.T) {
	t.Helper()
	// A report in progress is not pending, so it must be empty for longer than a report usually takes.
	since := time.Now()
	eventually(t, "Moonraker has no pending reports", func() bool {
		if s := m.status(t); !s.Connected || len(s.Pending) > 0 {
			since = time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}

// testMoonraker prints with Moonraker while the service stops and starts. The ledger has what Klipper extruded.
func testMoonraker(t *testing.T, f *printerFarm) {
	m := startMoonraker(t, f)
	// Moonraker ignores positions until it has subscribed to them.
	m.choose(t, 1)
	eventually(t, "Moonraker sees the extrusion", func() bool {
		m.extrude(1)
		m.sync(t)
		return len(m.status(t).Pending) > 0
	})
	m.flush(t)
	before := f.used(t, 1)

	extruded := map[int]float64{}
	reports := 0.0
	begin := time.Now()
	restarts := 0
	for spool := 1; ; {
		m.choose(t, spool)
		for range 20 {
			mm := rand.Float64() * 10
			m.extrude(mm)
			extruded[spool] += mm
			time.Sleep(50 * time.Millisecond) // as a printer does
		}
		// Retraction is no use, and what follows it only beyond the highest position.
		m.extrude(-5)
		m.extrude(5)
		m.sync(t)
		reports += 2
		spool = 3 - spool
		if elapsed := time.Since(begin); restarts < 2 && elapsed > *printTime/3*time.Duration(restarts+1) {
			restarts++
			f.restart(t, syscall.SIGTERM)
		} else if elapsed > *printTime {
			break
		}
	}
	m.flush(t)
	for spool, perMM := range map[int]float64{1: plaPerMM, 2: petgPerMM} {
		want := extruded[spool] * perMM
		if spool == 1 {
			want += before
		}
		f.awaitUsed(t, spool, want, reports*1e-6)
	}

	// Moonraker forgets a spool that is deleted, because of a message or of a report.
	m.choose(t, 2)
	list := f.want(t, 200, "GET", "/api/v1/spools?number=2", nil)
	path := "/api/v1/spools/" + list["items"].([]any)[0].(map[string]any)["id"].(string)
	if status, _ := f.call(t, f.token, "DELETE", path, nil); status != 204 {
		t.Fatalf("DELETE: %d", status)
	}
	eventually(t, "Moonraker has no active spool", func() bool { return m.status(t).Spool == nil })
	m.choose(t, 99)
	m.extrude(10)
	eventually(t, "Moonraker has no active spool", func() bool { return m.status(t).Spool == nil })

	// More than the spool has is accepted.
	m.choose(t, 1)
	m.extrude(1e6)
	m.flush(t)
	f.awaitUsed(t, 1, 1000, 1e-6)
}

// testMoonrakerProxy sends the requests of web pages and of Happy Hare through Moonraker.
func testMoonrakerProxy(t *testing.T, f *printerFarm) {
	m := startMoonraker(t, f)
	proxy := func(method, path, query string, body any) (any, any) {
		t.Helper()
		request := map[string]any{"request_method": method, "path": "/v1/" + path, "use_v2_response": true}
		if query != "" {
			request["query"] = query
		}
		if body != nil {
			request["body"] = body
		}
		status, fields := m.call(t, "", "POST", "/server/spoolman/proxy", request)
		if status != 200 {
			t.Fatalf("%s %s: %d %v", method, path, status, fields)
		}
		result := fields["result"].(map[string]any)
		return result["response"], result["error"]
	}
	for _, path := range []string{"info", "health", "vendor", "filament", "spool", "spool/1", "setting/currency",
		"field/spool", "location", "material"} {
		if response, err := proxy("GET", path, "", nil); err != nil || response == nil {
			t.Errorf("GET %s: %v %v", path, response, err)
		}
	}
	all, _ := proxy("GET", "spool", "allow_archived=true&sort=id:desc", nil)
	testkit.Equal(t, len(all.([]any)), 3, "spools")
	// Happy Hare defines its fields and sends bodies as strings.
	for key, kind := range map[string]string{"printer_name": "text", "mmu_gate_map": "integer"} {
		if _, err := proxy("POST", "field/spool/"+key, "",
			map[string]any{"name": key, "field_type": kind}); err != nil {
			t.Error(err)
		}
	}
	for _, body := range []any{`{"extra": {"printer_name": "\"Voron\"", "mmu_gate_map": "3"}, "location": "Gate 3"}`,
		map[string]any{"remaining_weight": 700.5, "spool_weight": 190, "initial_weight": 1000}} {
		if response, err := proxy("PATCH", "spool/1", "", body); err != nil {
			t.Errorf("PATCH %v: %v %v", body, response, err)
		}
	}
	spool, failure := proxy("GET", "spool/1", "", nil)
	got, _ := spool.(map[string]any)
	if failure != nil || got["location"] != "Gate 3" || got["remaining_weight"] != 700.5 ||
		got["spool_weight"] != 190.0 ||
		!reflect.DeepEqual(got["extra"], map[string]any{"printer_name": `"Voron"`, "mmu_gate_map": "3"}) {
		t.Errorf("the spool is %v, %v", got, failure)
	}
	for path, status := range map[string]float64{"spool/99": 404, "nonsense": 405} {
		_, err := proxy("GET", path, "", nil)
		if e, _ := err.(map[string]any); e["status_code"] != status || e["message"] == "" {
			t.Errorf("GET %s: %v, want %v", path, err, status)
		}
	}
}
