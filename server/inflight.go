package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"spoolwright/db"
	"spoolwright/server/limit"
)

const (
	// maxInFlight limits the memory of response bodies that are being sent. Without this limit, clients that request
	// large resources and do not read the responses could occupy any amount of memory until WriteTimeout.
	maxInFlight = 256 << 20

	// maxInFlightTenant and maxInFlightCaller limit the shares of a tenant, and of one user or API key.
	maxInFlightTenant = maxInFlight / 4
	maxInFlightCaller = maxInFlight / 8

	// smallBody is the maximum size of a body that is not counted. The number of connections limits the memory of such
	// bodies.
	smallBody = 16 << 10

	// fileInFlight is the size that a file counts as: only a part of it is in memory, as it was read and as it is
	// sent.
	fileInFlight = 4 << 20

	// fileWait is how long a file waits for its share. Meanwhile, no part of it is in memory.
	fileWait = 20 * time.Second
)

var errInFlight = errors.New("too many bytes of large responses are being sent; clients read them too slowly")

// keep waits until the request has n bytes of the memory for bodies, as a share of the caller and of the tenant. The
// request keeps them until it ends. If it does not get them in time, the error is ErrUnavailable.
func (i *requestInfo) keep(ctx context.Context, n int, wait time.Duration) error {
	if n -= i.kept; n <= 0 || i.server == nil {
		return nil
	}
	done, err := i.server.inFlight.Acquire(ctx, wait, n, i.groups(i.caller.Actor)...)
	if errors.Is(err, limit.ErrBusy) {
		return ErrUnavailable.Because(errInFlight)
	}
	if err == nil {
		i.kept, i.ended = i.kept+n, append(i.ended, done)
	}
	return err
}

// keepAnswer is keep for an answer of n bytes. It does not wait, and the answer to a write always gets its memory,
// because its effect is already committed.
func (i *requestInfo) keepAnswer(r *http.Request, n int) error {
	if n <= smallBody {
		return nil
	}
	err := i.keep(r.Context(), n, 0)
	if err != nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		i.ended = append(i.ended, i.server.inFlight.Take(n, i.groups(i.caller.Actor)...))
		return nil
	}
	return err
}

// keepBody is keep for the body of a request that is not read yet.
func keepBody(r *http.Request) error {
	n := min(r.ContentLength, maxBody)
	if n < 0 {
		n = maxBody
	}
	if info := infoOf(r); n > smallBody && !info.called {
		return info.keep(r.Context(), int(n), fileWait)
	}
	return nil
}

// KeepShare waits until the request of a Surface has the share of a file in the memory for bodies. It is for responses
// that may be large, and must be called before they are read.
func KeepShare(r *http.Request) error { return infoOf(r).keep(r.Context(), fileInFlight, fileWait) }

// groups returns the groups of an actor in queues. Clients without an account count as one tenant, whose callers are
// their addresses.
func (i *requestInfo) groups(a db.Actor) []string {
	return []string{"tenant:" + a.Tenant, "caller:" + cmp.Or(a.ID(), i.address)}
}

func (i *requestInfo) end() {
	for _, done := range i.ended {
		done()
	}
}
