package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
)

// Concurrently calls do with 0, 1, ..., n-1, each on a goroutine of its own, and waits for all calls.
func Concurrently(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// Race sends n requests at the same time and returns the responses.
func Race(tb testing.TB, n int, send func(i int) (*Response, error)) Responses {
	tb.Helper()
	all, errs := make(Responses, n), make([]error, n)
	Concurrently(n, func(i int) { all[i], errs[i] = send(i) })
	Check(tb, errors.Join(errs...))
	return all
}

// Responses are those of requests that were sent at the same time.
type Responses []*Response

// Want reports an error unless the responses have these statuses so many times, those of errors with their codes:
// "201" and "409 USER_LIMIT".
func (all Responses) Want(tb testing.TB, want map[string]int) {
	tb.Helper()
	got := map[string]int{}
	for _, a := range all {
		var e struct{ Code string }
		if a.Status >= 400 {
			json.Unmarshal(a.Body, &e)
		}
		got[strings.TrimSpace(fmt.Sprint(a.Status, " ", e.Code))]++
	}
	if !maps.Equal(got, want) {
		tb.Errorf("got the statuses %v, want %v", got, want)
	}
}
