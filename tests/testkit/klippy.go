package testkit

import (
	"bufio"
	"encoding/json"
	"maps"
	"net"
	"os"
	"sync"

	"spoolwright/production/watch/watchtest"
)

// Klippy is the Unix socket of Klipper, as far as the real Moonraker needs it to see a printer that prints.
type Klippy struct {
	mu       sync.Mutex
	conn     net.Conn
	status   map[string]watchtest.Fields
	watchers int
}

// Serve serves the socket until the listener is closed.
func (k *Klippy) Serve(l net.Listener) {
	k.mu.Lock()
	k.reset()
	k.mu.Unlock()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		k.mu.Lock()
		k.conn = conn
		k.mu.Unlock()
		go k.serve(conn)
	}
}

func (k *Klippy) reset() {
	k.status = map[string]watchtest.Fields{
		"webhooks": {"state": "ready", "state_message": "Printer is ready"},
		"print_stats": {"state": "standby", "filename": "", "total_duration": 0.0, "print_duration": 0.0,
			"filament_used": 0.0, "message": ""},
		"virtual_sdcard": {"progress": 0.0, "is_active": false},
		"display_status": {"progress": 0.0},
		"toolhead":       {"position": []float64{0, 0, 0, 0}, "extruder": "extruder"},
		"heaters":        {"available_sensors": []string{}, "available_heaters": []string{}},
		"pause_resume":   {"is_paused": false},
		"idle_timeout":   {"state": "Idle"},
	}
}

// Restart closes the connection and forgets the job, as Klipper does when it restarts.
func (k *Klippy) Restart() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conn.Close()
	k.conn = nil
	k.reset()
}

// serve answers the requests of a connection: JSON texts that end with the byte 3.
func (k *Klippy) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		text, err := r.ReadBytes(3)
		if err != nil {
			return
		}
		var request struct {
			ID     any
			Method string
			Params struct{ Objects map[string]any }
		}
		json.Unmarshal(text[:len(text)-1], &request)
		k.mu.Lock()
		var result any = watchtest.Fields{}
		switch request.Method {
		case "info":
			result = watchtest.Fields{"state": "ready", "state_message": "Printer is ready", "hostname": "printer",
				"klipper_path": "/nonexistent", "python_path": "/nonexistent", "software_version": "v0.13.0",
				"process_id": os.Getpid()}
		case "list_endpoints":
			result = watchtest.Fields{"endpoints": []string{"info", "objects/list", "objects/query", "objects/subscribe"}}
		case "objects/list":
			names := []string{}
			for name := range k.status {
				names = append(names, name)
			}
			result = watchtest.Fields{"objects": names}
		case "objects/query", "objects/subscribe":
			status := watchtest.Fields{}
			for name := range request.Params.Objects {
				if k.status[name] != nil {
					status[name] = k.status[name]
				}
			}
			result = watchtest.Fields{"eventtime": 1.0, "status": status}
		}
		k.send(watchtest.Fields{"id": request.ID, "result": result})
		if _, watches := request.Params.Objects["display_status"]; watches && request.Method == "objects/subscribe" {
			k.watchers++
		}
		k.mu.Unlock()
	}
}

// Watchers returns how many subscriptions of watchers were answered: others do not ask for display_status.
func (k *Klippy) Watchers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watchers
}

func (k *Klippy) send(message any) {
	text, _ := json.Marshal(message)
	if k.conn != nil {
		k.conn.Write(append(text, 3))
	}
}

// Update sets fields of an object and sends them.
func (k *Klippy) Update(object string, fields watchtest.Fields) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(k.status[object], fields)
	k.send(watchtest.Fields{"method": "process_status_update",
		"params": watchtest.Fields{"eventtime": 1.0, "status": watchtest.Fields{object: fields}}})
}
