//go:build unix

package watchers_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"math/big"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/production/watch/watchtest"
	"spoolwright/tests/testkit"
)

// partner is a printer with its software. do is what a person or the world does to it: start a job, which takes some
// seconds or is long; pause, resume, complete, cancel, fail; restart the software in the middle of a job; or cut the
// power or the cable of the printer.
type partner interface {
	connection() j
	do(t *testing.T, action string)
}

// TestRealPrinters tells one story to each kind of printer, with the real software as far as there is some: each job
// becomes the run that was planned for it, ends as the printer ended it, and its grams leave the spool once.
func TestRealPrinters(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	for name, kind := range map[string]struct {
		start   func(t *testing.T) partner
		command bool   // the command watch watches it; otherwise the service does
		length  bool   // the printer says how much it used
		again   string // what becomes of a job that is cancelled and its file started again at once
		restart string // and when the software restarts
		cut     string // and when the power is cut
		ghost   bool   // then it starts the file again by itself
	}{
		"moonraker": {start: newMoonraker, command: true, length: true, again: "cancelled", restart: "completed",
			cut: "failed"},
		"octoprint": {start: newOctoPrint, again: "cancelled", restart: "unknown", cut: "failed"},
		"bambu": {start: newBambu, again: "cancelled", restart: "completed", cut: "unknown",
			ghost: true},
		"prusalink": {start: newPrusaLink, command: true, again: "unknown", restart: "completed",
			cut: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kind.start(t)
			s := newStory(t, p, kind.command)
			begin := time.Now()
			for _, step := range []struct {
				actions string
				end     string
			}{
				{"start pause resume complete", "completed"},
				{"start long, cancel", "cancelled"},
				{"start medium, again complete", "completed"},
				{"start long, fail", "failed"},
				{"start watcher complete", "completed"},
				{"start long, restart complete", kind.restart},
				{"start long, cut", kind.cut},
			} {
				s.job(t, step.actions, step.end, kind.again, kind.length)
				t.Logf("%s: %s after %.0f s", step.actions, step.end, time.Since(begin).Seconds())
			}
			if kind.ghost {
				testkit.Eventually(t, "somebody is asked about the file that started by itself", func() bool {
					return s.Get(t, states+"?question=true").Want(200).Text("total") == "1"
				})
				job := s.Get(t, states).Want(200).Text("items.0.job.id")
				s.Post(t, path+"/"+s.printer+"/answer", j{"job": job, "answer": "none"}).Want(200)
			}
			s.end()
			all := s.Get(t, "/api/v1/production-runs?status=pending").Want(200)
			all.Shows(map[string]string{"total": "1"}) // which no job took
			s.Get(t, "/api/v1/production-runs").Want(200).Shows(map[string]string{"total": "9"})
			left := number(t, s.Get(t, "/api/v1/spools/"+s.spool).Want(200), "remaining_weight_grams")
			if math.Abs(left+s.grams-1000) > 1e-4 {
				t.Errorf("the spool of 1000 g has %v g after jobs of %v g", left, s.grams)
			}
		})
	}
}

// story is a farm with a watched printer, a product made from the file dragon.gcode with 100 g, and runs of it.
type story struct {
	*testkit.Client
	partner
	printer, spool string
	grams          float64 // that all jobs used
	watch          func() (end func())
	end            func()
}

func newStory(t *testing.T, p partner, byCommand bool) *story {
	t.Helper()
	api := testkit.New(t, testkit.Options{DB: testkit.Database(t, db.Config{})}, testkit.Features...)
	s := &story{Client: api.Tenant(t).User(t, "admin"), partner: p}
	s.printer = s.Post(t, path, j{"name": "P"}).Want(201).ID()
	s.spool = s.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"density_g_cm3": 1.25, "net_weight_grams": 1000}).Want(201).ID()
	s.Do(t, "PUT", path+"/"+s.printer+"/slots/1", j{"spool_id": s.spool}).Want(200)
	product := s.Post(t, "/api/v1/products", j{"name": "Dragon", "file_name": "dragon.gcode",
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 100}}}).Want(201).ID()
	for range 9 {
		s.Post(t, "/api/v1/production-runs", j{"printer_id": s.printer, "items": []j{{"product_id": product}},
			"materials": []j{{"spool_id": s.spool, "estimated_weight_grams": 100}}}).Want(201)
	}
	if byCommand {
		key := s.Post(t, "/api/v1/api-keys", j{"name": "w", "role": "watcher"}).Want(201).Text("key")
		printer := p.connection()
		printer["printer"] = "P"
		file := j{"service": api.URL, "key": key, "name": "w", "printers": []j{printer}}
		s.watch = func() func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan bool)
			go func() {
				if out, err := command(t, ctx, file); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				close(done)
			}()
			return func() { cancel(); <-done }
		}
	} else {
		s.Do(t, "PUT", path+"/"+s.printer+"/connection", p.connection()).Want(200)
		s.watch = func() func() { return serve(t, api, io.Discard) }
	}
	s.end = s.watch()
	testkit.Eventually(t, "the printer is idle", func() bool {
		return s.Get(t, states+"?state=idle").Want(200).Text("total") == "1"
	})
	return s
}

func number(t *testing.T, r *testkit.Response, field string) float64 {
	t.Helper()
	n, ok := r.Value(field).(json.Number)
	if !ok {
		t.Fatalf("%s is %v in %s", field, r.Value(field), r.Body)
	}
	f, err := n.Float64()
	testkit.Check(t, err)
	return f
}

// job does the actions with the next planned run, and checks the run after each.
func (s *story) job(t *testing.T, actions, end, again string, byLength bool) {
	t.Helper()
	run, start := "", "start"
	shows := func(status string) func() bool {
		return func() bool {
			return s.Get(t, "/api/v1/production-runs/"+run).Want(200).Text("status") == status
		}
	}
	starts := func() {
		before := run
		testkit.Eventually(t, "the job has a run", func() bool {
			a := s.Get(t, states+"?state=printing").Want(200)
			if a.Text("total") != "0" {
				run = a.Text("items.0.run_id")
			}
			return run != before && run != "null"
		})
		testkit.Eventually(t, "the run is in progress", shows("in_progress"))
	}
	words := strings.Fields(actions)
	if length, ok := strings.CutSuffix(words[1], ","); ok {
		words, start = words[1:], "start "+length
	}
	words[0] = start
	for _, action := range words {
		switch action {
		case start:
			s.do(t, start)
			starts()
		case "watcher":
			s.end()
			if m, ok := s.partner.(*moonraker); ok {
				m.subscribed(t, func() { s.end = s.watch() })
			} else {
				s.end = s.watch()
			}
		case "again":
			s.do(t, "wait")
			s.do(t, "cancel")
			s.do(t, start)
			first := run
			starts()
			s.ended(t, first, again, byLength, func(grams float64) bool { return grams > 0 && grams < 100 })
		case "complete":
			if end == "completed" {
				s.do(t, action)
			}
		default:
			s.do(t, action)
		}
		switch action {
		case "pause":
			testkit.Eventually(t, "the run is paused", shows("paused"))
		case "resume":
			testkit.Eventually(t, "the run goes on", shows("in_progress"))
		}
	}
	s.ended(t, run, end, byLength, func(grams float64) bool {
		want := 100.0
		if m, ok := s.partner.(*moonraker); ok {
			want = m.mm * math.Pi * 1.75 * 1.75 / 4 * 1.25 / 1000
		} else if end != "completed" {
			want *= number(t, s.Get(t, states).Want(200), "items.0.job.progress")
		}
		return grams > 0 && math.Abs(grams-want) < 1e-4
	})
}

// ended waits for the end of a run, and confirms it if a person must.
func (s *story) ended(t *testing.T, run, end string, byLength bool, right func(grams float64) bool) {
	t.Helper()
	at, field := "/api/v1/production-runs/"+run, "actual_total_filament_grams"
	if end == "completed" || end == "cancelled" {
		testkit.Eventually(t, "the run is "+end, func() bool { return s.Get(t, at).Want(200).Text("status") == end })
	} else {
		field = "materials.0.actual_weight_grams"
		testkit.Eventually(t, "the run waits for a person", func() bool {
			a := s.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200)
			return a.Text("total") == "1" && a.Text("items.0.id") == run
		})
	}
	ended := s.Get(t, at).Want(200)
	changes := s.Get(t, states+"/changes?printer_id="+s.printer+"&limit=100").Want(200)
	last := ""
	for i := range changes.List("items") {
		if outcome := changes.Text(fmt.Sprintf("items.%d.outcome", i)); outcome != "null" && last == "" {
			last = outcome
		}
	}
	testkit.Equal(t, last, end, "the outcome of the job: %s", changes.Body)
	if end == "unknown" {
		ended.Shows(map[string]string{"status": "in_progress", "usage_source": "null", field: "null"})
		s.Post(t, at+"/cancel", j{"wasted_grams": 7}).Want(200)
		s.grams += 7
		return
	}
	ended.Shows(map[string]string{"usage_source": map[bool]string{true: "length", false: "estimate"}[byLength]})
	grams := number(t, ended, field)
	if !right(grams) {
		t.Errorf("the %s run has %v g", end, grams)
	}
	if end == "failed" {
		s.Post(t, at+"/fail", j{"reason": "other"}).Want(200)
	}
	s.grams += grams
}

// tool returns a program that .ci/run installs.
func tool(t *testing.T, variable, folder, name string) string {
	t.Helper()
	program := filepath.Join(folder, name)
	if _, err := os.Stat(program); folder == "" || err != nil {
		testkit.Skip(t, variable+" has no "+name)
	}
	return program
}

// software is a program that listens on a port of the loopback interface.
type software struct {
	dir, address string
	args         []string
	ready        func() bool
	running      *exec.Cmd
}

// folder returns a folder with a short name, because the names of sockets are short.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "watch")
	testkit.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (s *software) start(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	s.running = exec.Command(s.args[0], s.args[1:]...)
	s.running.Dir, s.running.Env = s.dir, append(os.Environ(), "HOME="+s.dir)
	s.running.Stdout, s.running.Stderr = &out, &out
	testkit.Check(t, s.running.Start())
	started := s.running
	t.Cleanup(func() { started.Process.Kill(); started.Wait() })
	testkit.Eventually(t, s.args[0]+" answers", s.ready)
}

func (s *software) stop(signal os.Signal) {
	s.running.Process.Signal(signal)
	s.running.Wait()
}

// answers reports whether a response of the software has the text, spaces aside.
func (s *software) answers(path, key, text string) bool {
	r, err := http.NewRequest("GET", "http://"+s.address+path, nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Api-Key", key)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body)
	return strings.Contains(strings.ReplaceAll(string(body), " ", ""), text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	testkit.Check(t, os.MkdirAll(filepath.Dir(name), 0o700))
	testkit.Check(t, os.WriteFile(name, []byte(text), 0o600))
}

// moonraker is the real Moonraker, whose printer is a fake of Klipper's socket.
type moonraker struct {
	software
	klippy      testkit.Klippy
	seconds, mm float64
}

func newMoonraker(t *testing.T) partner {
	python := tool(t, "PRINTER_CLIENTS", os.Getenv("PRINTER_CLIENTS"), "bin/python")
	m := &moonraker{software: software{dir: folder(t), address: freeAddress(t)}}
	socket := filepath.Join(m.dir, "klippy.sock")
	l, err := net.Listen("unix", socket)
	testkit.Check(t, err)
	t.Cleanup(func() { l.Close() })
	go m.klippy.Serve(l)
	_, port, _ := net.SplitHostPort(m.address)
	write(t, m.dir+"/config/moonraker.conf", "[server]\nhost: 127.0.0.1\nport: "+port+"\nklippy_uds_address: "+socket+
		"\n[machine]\nprovider: none\nvalidate_service: False\nvalidate_config: False\n[announcements]\ndev_mode: True\n"+
		"[history]\n[authorization]\ntrusted_clients: 127.0.0.0/8\n")
	m.args = []string{python, "-m", "moonraker", "-d", m.dir, "-n"}
	m.ready = func() bool { return m.answers("/server/info", "", `"klippy_state":"ready"`) }
	m.start(t)
	return m
}

func (m *moonraker) connection() j { return j{"kind": "moonraker", "address": "http://" + m.address} }

func (m *moonraker) stats(state string) {
	m.klippy.Update("print_stats", watchtest.Fields{"state": state, "filename": "dragon.gcode", "message": "",
		"total_duration": m.seconds, "print_duration": m.seconds, "filament_used": m.mm})
}

// subscribed waits until the watcher has subscribed again after f. If the state changes at the moment when Klipper
// answers the subscription, Moonraker does not notify the watcher, and adds a row of its own to the history.
func (m *moonraker) subscribed(t *testing.T, f func()) {
	t.Helper()
	before := m.klippy.Watchers()
	f()
	testkit.Eventually(t, "the watcher is connected again", func() bool { return m.klippy.Watchers() > before })
	for range 2 { // then Moonraker has handled what Klipper sent before
		testkit.Equal(t, m.ready(), true, "Moonraker answers")
	}
}

func (m *moonraker) do(t *testing.T, action string) {
	extrude := func(mm float64) {
		m.seconds, m.mm = m.seconds+60, m.mm+mm
		m.stats("printing")
	}
	switch action {
	case "start", "start medium", "start long":
		m.seconds, m.mm = 0.1, 0
		m.stats("printing")
		extrude(12000)
	case "pause":
		m.stats("paused")
	case "resume":
		extrude(0)
	case "complete":
		extrude(12000)
		m.stats("complete")
	case "cancel":
		m.stats("cancelled")
	case "fail":
		m.stats("error")
	case "restart": // the row of the job in the history ends, the job does not
		m.subscribed(t, func() {
			m.stop(syscall.SIGTERM)
			extrude(6000)
			m.start(t)
		})
	case "cut":
		m.klippy.Restart()
	}
}

// octoprint is the real OctoPrint with its virtual printer. The watcher has the key of a user of the read-only group.
type octoprint struct {
	software
	uploaded string
}

const octoKey, readOnlyKey = "0123456789abcdef0123456789abcdef", "a-key-of-the-read-only-group"

func newOctoPrint(t *testing.T) partner {
	program := tool(t, "OCTOPRINT", os.Getenv("OCTOPRINT"), "bin/octoprint")
	o := &octoprint{software: software{dir: folder(t), address: freeAddress(t)}}
	write(t, o.dir+"/config.yaml", `
api: {key: `+octoKey+`}
server: {firstRun: false, onlineCheck: {enabled: false}}
accessControl: {salt: x}
serial: {autoconnect: true, port: VIRTUAL, baudrate: 115200}
plugins:
  virtual_printer: {enabled: true}
  _disabled: [announcements, softwareupdate, discovery, tracking, errortracking, pluginmanager, backup,
    achievements, firmware_check, health_check, gcodeviewer]
`)
	write(t, o.dir+"/users.yaml", `
watcher: {active: true, apikey: `+readOnlyKey+`, groups: [readonly], password: x, permissions: [], settings: {}}
`)
	_, port, _ := net.SplitHostPort(o.address)
	o.args = []string{program, "serve", "--iknowwhatimdoing", "--basedir", o.dir, "--host", "127.0.0.1", "--port", port}
	o.ready = func() bool { return o.answers("/api/job", octoKey, `"state":"Operational"`) }
	o.start(t)
	return o
}

func (o *octoprint) connection() j {
	return j{"kind": "octoprint", "address": "http://" + o.address, "secret": readOnlyKey}
}

func (o *octoprint) post(t *testing.T, path, media string, body []byte) {
	t.Helper()
	r, err := http.NewRequest("POST", "http://"+o.address+path, bytes.NewReader(body))
	testkit.Check(t, err)
	r.Header.Set("X-Api-Key", octoKey)
	r.Header.Set("Content-Type", media)
	a, err := http.DefaultClient.Do(r)
	testkit.Check(t, err)
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", path, body, a.Status, text)
	}
}

func (o *octoprint) send(t *testing.T, path string, body j) {
	t.Helper()
	text, err := json.Marshal(body)
	testkit.Check(t, err)
	o.post(t, path, "application/json", text)
}

func (o *octoprint) do(t *testing.T, action string) {
	t.Helper()
	switch action {
	case "start", "start medium", "start long": // 15 s, 30 s, ten minutes
		if o.answers("/api/job", octoKey, `"state":"Offline`) {
			o.send(t, "/api/connection", j{"command": "connect", "port": "VIRTUAL", "baudrate": 115200})
		}
		testkit.Eventually(t, "OctoPrint is ready", o.ready)
		if o.uploaded == action { // another upload would forget the counts of prints
			o.send(t, "/api/files/local/dragon.gcode", j{"command": "select", "print": true})
			return
		}
		lines := map[string]int{"start": 75, "start medium": 150, "start long": 3000}[action]
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		form.WriteField("print", "true")
		file, err := form.CreateFormFile("file", "dragon.gcode")
		testkit.Check(t, err)
		io.WriteString(file, strings.Repeat("G4 P200\n", lines))
		testkit.Check(t, form.Close())
		o.uploaded = action
		o.post(t, "/api/files/local", form.FormDataContentType(), body.Bytes())
	case "pause", "resume":
		o.send(t, "/api/job", j{"command": "pause", "action": action})
	case "wait": // without identities, the next job is another one if its printing time is shorter
		time.Sleep(12 * time.Second)
	case "cancel":
		o.send(t, "/api/job", j{"command": "cancel"})
	case "fail":
		o.send(t, "/api/printer/command", j{"command": "!!DEBUG:send Error:Thermal Runaway, system stopped!"})
	case "restart":
		o.stop(os.Kill)
		o.start(t)
	case "cut":
		o.send(t, "/api/connection", j{"command": "disconnect"})
	}
}

// bambu is a Bambu Lab printer whose broker is mosquitto with TLS. The clients may do what a printer permits.
type bambu struct {
	software
	publish string // the program
	plain   string // the port of the printer itself
	print   watchtest.Fields
	job     int
}

const bambuSerial, bambuCode = "01P00A123456789", "12345678"

func newBambu(t *testing.T) partner {
	broker := tool(t, "PATH", "/usr/sbin", "mosquitto")
	b := &bambu{software: software{dir: folder(t), address: freeAddress(t)}, print: watchtest.Fields{},
		publish: tool(t, "PATH", "/usr/bin", "mosquitto_pub")}
	_, port, _ := net.SplitHostPort(b.address)
	plain := freeAddress(t)
	_, b.plain, _ = net.SplitHostPort(plain)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: bambuSerial},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.Check(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Check(t, err)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der},
		"key": {Type: "PRIVATE KEY", Bytes: private}} {
		write(t, filepath.Join(b.dir, name), string(pem.EncodeToMemory(block)))
	}
	write(t, b.dir+"/password", "bblp:"+bambuCode+"\n")
	if out, err := exec.Command(tool(t, "PATH", "/usr/bin", "mosquitto_passwd"), "-U", b.dir+"/password").
		CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	write(t, b.dir+"/acl", "user bblp\ntopic read device/"+bambuSerial+"/report\ntopic write device/"+bambuSerial+
		"/request\n")
	write(t, b.dir+"/conf", "per_listener_settings true\nuser root\n"+
		"listener "+b.plain+" 127.0.0.1\nallow_anonymous true\n"+
		"listener "+port+" 127.0.0.1\ncertfile "+b.dir+"/cert\nkeyfile "+b.dir+"/key\npassword_file "+b.dir+
		"/password\nacl_file "+b.dir+"/acl\n")
	b.args = []string{broker, "-c", b.dir + "/conf"}
	b.ready = func() bool {
		c, err := net.Dial("tcp", b.address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	b.start(t)
	b.report(t, watchtest.Fields{"gcode_state": "IDLE", "print_type": "idle", "subtask_name": "", "subtask_id": "0"})
	return b
}

func (b *bambu) connection() j {
	return j{"kind": "bambu", "address": b.address, "serial": bambuSerial, "secret": bambuCode}
}

// report sends the whole state, as an X1 does, and keeps it for those that connect later.
func (b *bambu) report(t *testing.T, changed watchtest.Fields) {
	t.Helper()
	for name, v := range changed {
		b.print[name] = v
	}
	text, err := json.Marshal(watchtest.Fields{"print": b.print})
	testkit.Check(t, err)
	out, err := exec.Command(b.publish, "-h", "127.0.0.1", "-p", b.plain, "-r", "-t", "device/"+bambuSerial+"/report",
		"-m", string(text)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

func (b *bambu) do(t *testing.T, action string) {
	t.Helper()
	type fields = watchtest.Fields
	switch action {
	case "start", "start medium", "start long":
		b.job++
		b.report(t, fields{"gcode_state": "PREPARE", "subtask_name": "dragon", "gcode_file": "dragon.gcode.3mf",
			"subtask_id": fmt.Sprint(1000 + b.job), "print_type": "local", "mc_percent": 0, "print_error": 0})
		b.report(t, fields{"gcode_state": "RUNNING", "mc_percent": "40", "mc_remaining_time": 30})
	case "pause":
		b.report(t, fields{"gcode_state": "PAUSE"})
	case "resume":
		b.report(t, fields{"gcode_state": "RUNNING"})
	case "complete":
		b.report(t, fields{"gcode_state": "FINISH", "mc_percent": 100, "mc_remaining_time": 0})
	case "cancel": // the code comes with the state, and goes again
		b.report(t, fields{"print_error": 0x0300400c})
		b.report(t, fields{"gcode_state": "FAILED", "mc_percent": 0})
		b.report(t, fields{"print_error": 0})
	case "fail":
		b.report(t, fields{"gcode_state": "FAILED", "print_error": 0x03008004})
	case "restart": // it goes on
		b.stop(os.Kill)
		b.start(t)
		b.report(t, fields{"gcode_state": "RUNNING", "mc_percent": 60})
	case "cut": // and the firmware starts its last file by itself
		b.stop(os.Kill)
		time.Sleep(16 * time.Second)
		b.start(t)
		b.report(t, fields{"gcode_state": "RUNNING", "mc_percent": 1, "subtask_id": "0"})
	}
}

// prusaLink is a fake by the OpenAPI document of PrusaLink.
type prusaLink struct {
	*watchtest.PrusaLink
	address string
	server  *http.Server
	job     int
}

func newPrusaLink(t *testing.T) partner {
	p := &prusaLink{PrusaLink: &watchtest.PrusaLink{Digest: "a password"}, address: "127.0.0.1:0"}
	p.Set("IDLE", nil, nil)
	p.listen(t)
	t.Cleanup(func() { p.server.Close() })
	return p
}

func (p *prusaLink) listen(t *testing.T) {
	l, err := net.Listen("tcp", p.address)
	testkit.Check(t, err)
	p.address, p.server = l.Addr().String(), &http.Server{Handler: p.PrusaLink}
	go p.server.Serve(l)
}

func (p *prusaLink) connection() j {
	return j{"kind": "prusalink", "address": "http://" + p.address, "secret": "maker:a password"}
}

func (p *prusaLink) do(t *testing.T, action string) {
	set := func(state string, percent int) {
		p.Set(state, watchtest.Fields{"id": p.job, "progress": percent, "time_printing": 60 * percent,
			"time_remaining": 6000 - 60*percent},
			watchtest.Fields{"name": "DRAGON~1.GCO", "display_name": "dragon.gcode", "path": "/usb"})
	}
	switch action {
	case "start", "start medium", "start long":
		p.job++
		set("PRINTING", 40)
	case "pause":
		set("PAUSED", 40)
	case "resume":
		set("PRINTING", 41)
	case "complete":
		p.Set("FINISHED", nil, nil)
	case "cancel":
		p.Set("STOPPED", nil, nil)
	case "fail":
		p.Set("ERROR", nil, nil)
	case "restart": // the power was cut for a moment, and the job goes on
		p.server.Close()
		time.Sleep(2 * time.Second)
		set("BUSY", 40)
		p.listen(t)
		time.Sleep(6 * time.Second)
		set("PRINTING", 50)
	case "cut":
		p.server.Close()
		p.Set("IDLE", nil, nil)
		p.listen(t)
	}
}
