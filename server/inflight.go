package server

import "sync"

const (
	// maxInFlight limits the memory of response bodies that are being sent. Without this limit, clients that request
	// large resources and do not read the responses could occupy any amount of memory until WriteTimeout.
	maxInFlight = 256 << 20

	// maxInFlightCaller limits the share of one user or API key.
	maxInFlightCaller = maxInFlight / 8

	// smallBody is the maximum size of a body that is not counted. The number of connections limits the memory of such
	// bodies.
	smallBody = 16 << 10
)

// inFlight counts the bytes of large response bodies that are being sent. The zero value is ready to use.
type inFlight struct {
	mu       sync.Mutex
	total    int
	byCaller map[string]int
}

// add adds n bytes to the count of the caller and returns true. If this would exceed a limit and required is false, it
// adds nothing and returns false.
func (f *inFlight) add(caller string, n int, required bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !required && (f.total+n > maxInFlight || f.byCaller[caller]+n > maxInFlightCaller) {
		return false
	}
	if f.byCaller == nil {
		f.byCaller = map[string]int{}
	}
	f.total += n
	f.byCaller[caller] += n
	return true
}

// remove subtracts n bytes that add has added.
func (f *inFlight) remove(caller string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total -= n
	if f.byCaller[caller] -= n; f.byCaller[caller] == 0 {
		delete(f.byCaller, caller)
	}
}
