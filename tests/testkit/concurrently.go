package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
)

// Concurrently calls do with 0, 1, ..., n-1, each in its own goroutine, and waits for all calls to return.
func Concurrently(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// Log collects what several goroutines log.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Race sends n requests at the same time and returns the responses.
func Race(tb testing.TB, n int, send func(i int) (*Response, error)) Responses {
	tb.Helper()
	all, errs := make(Responses, n), make([]error, n)
	Concurrently(n, func(i int) { all[i], errs[i] = send(i) })
	Check(tb, errors.Join(errs...))
	return all
}

// Responses are responses to requests that were sent at the same time.
type Responses []*Response

// Want reports an error unless each status occurs as often as want says. The key for an error response has the status
// and the code, such as "409 USER_LIMIT"; the key for another response has only the status, such as "201".
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
