// Package watchers runs watchers of printers: in the service, and as the command "watch" in the network of a farm.
package watchers

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"spoolwright/production/watch"
)

// call sends a request to an operation of the API and returns the status and the body of the response.
type call func(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error)

// sink sends the states of printers to the API.
type sink struct{ call call }

// do sends in, as JSON, unless it is nil, and reads the response into out.
func (s sink) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	status, answer, err := s.call(ctx, method, path, body)
	switch {
	case err != nil:
		return err
	case status == 200:
		return json.Unmarshal(answer, out)
	}
	var problem struct {
		Detail string
		Errors []struct{ Field string }
	}
	json.Unmarshal(answer, &problem)
	refusal := &watch.Refusal{Err: fmt.Errorf("the service answers with the status %d: %.300s", status, problem.Detail)}
	for _, e := range problem.Errors {
		if m := badState.FindStringSubmatch(e.Field); m != nil {
			n, _ := strconv.Atoi(m[1]) // the pattern allows only digits
			refusal.Bad = append(refusal.Bad, n)
		}
	}
	if status == 413 || len(refusal.Bad) > 0 {
		return refusal
	}
	return refusal.Err
}

var badState = regexp.MustCompile(`^states\[([0-9]+)\]`)

func (s sink) Lease(ctx context.Context, name string, printers []string, last bool) (map[string]*watch.State, error) {
	var out struct {
		Printers []string `json:"printer_ids"`
		States   []watch.State
	}
	in := map[string]any{"watcher": name, "printer_ids": printers, "with_states": last}
	if err := s.do(ctx, "POST", "/api/v1/printer-states/lease", in, &out); err != nil {
		return nil, err
	}
	held := map[string]*watch.State{}
	for _, id := range out.Printers {
		held[id] = nil
	}
	for i := range out.States {
		held[out.States[i].PrinterID] = &out.States[i]
	}
	return held, nil
}

func (s sink) Send(ctx context.Context, name string, states []watch.State) ([]watch.Result, error) {
	var out struct{ Results []watch.Result }
	err := s.do(ctx, "POST", "/api/v1/printer-states", map[string]any{"watcher": name, "states": states}, &out)
	return out.Results, err
}
