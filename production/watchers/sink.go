// Package watchers runs watchers of printers: in the service, and as the command "watch" in the network of a farm.
package watchers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"spoolwright/production/watch"
)

// call sends a request to an operation of the API and returns the status and the body of the response.
type call func(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error)

// sink sends the states of printers to the API.
type sink struct{ call call }

// do sends in, as JSON, unless it is nil, and reads the response into out. It returns why elements of states in the
// request are refused, by their indexes.
func (s sink) do(ctx context.Context, method, path string, in, out any) (refused map[int]string, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	status, answer, err := s.call(ctx, method, path, body)
	switch {
	case err != nil:
		return nil, err
	case status == 200:
		return nil, json.Unmarshal(answer, out)
	case status == 413:
		return nil, watch.ErrTooLarge
	}
	var problem struct {
		Detail string
		Errors []struct{ Field, Message string }
	}
	json.Unmarshal(answer, &problem)
	refused = map[int]string{}
	for _, e := range problem.Errors {
		if m := badState.FindStringSubmatch(e.Field); m != nil {
			n, _ := strconv.Atoi(m[1]) // the pattern allows only digits
			refused[n] = e.Field + " " + e.Message
		}
	}
	return refused, fmt.Errorf("the service answers with the status %d: %.300s", status, problem.Detail)
}

var badState = regexp.MustCompile(`^states\[([0-9]+)\]`)

func (s sink) Lease(ctx context.Context, name string, printers []string, last bool) (map[string]*watch.State, error) {
	var out struct {
		Printers []string `json:"printer_ids"`
		States   []watch.State
	}
	in := map[string]any{"watcher": name, "printer_ids": printers, "with_states": last}
	if _, err := s.do(ctx, "POST", "/api/v1/printer-states/lease", in, &out); err != nil {
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

func (s sink) Send(ctx context.Context, name string, states []watch.State) (map[int]string, error) {
	var out struct {
		Results []struct{ Error *struct{ Detail string } }
	}
	in := map[string]any{"watcher": name, "states": states}
	if refused, err := s.do(ctx, "POST", "/api/v1/printer-states", in, &out); err != nil {
		return refused, err
	}
	if len(out.Results) != len(states) {
		return nil, errors.New("the service answers for other states than were sent")
	}
	refused := map[int]string{}
	for i, r := range out.Results {
		if r.Error != nil {
			refused[i] = r.Error.Detail
		}
	}
	return refused, nil
}
