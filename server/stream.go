package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"
)

// The time that a client has to send a body that is read while it arrives: until the next bytes, and in total. A
// client has the same total time to receive a file that is sent while it is read.
const (
	streamIdle  = 30 * time.Second
	streamTotal = 15 * time.Minute
)

// streamBody is a body that is read while it arrives.
type streamBody struct {
	body     io.Reader
	control  *http.ResponseController
	start    time.Time
	maxBytes int64
}

// newStreamBody returns the body of a request as a reader. The body may be larger, and may take longer, than other
// bodies. Reading fails with a 413 after maxBytes, and with a 400 if the client stops sending.
func newStreamBody(w http.ResponseWriter, r *http.Request, maxBytes int64) io.Reader {
	if r.ContentLength > maxBytes {
		return failedBody{errLargerThan(maxBytes)}
	}
	return &streamBody{http.MaxBytesReader(w, r.Body, maxBytes), http.NewResponseController(w), time.Now(), maxBytes}
}

// errLargerThan returns the error of a body with more than maxBytes.
func errLargerThan(maxBytes int64) *Error {
	e := *ErrTooLarge
	e.format = "The body is larger than %d MB"
	return (&e).With(maxBytes >> 20)
}

type failedBody struct{ err error }

func (b failedBody) Read([]byte) (int, error) { return 0, b.err }

func (b *streamBody) Read(p []byte) (int, error) {
	// A connection of HTTP/2 or a call within the process has no such deadlines.
	next, last := time.Now().Add(streamIdle), b.start.Add(streamTotal)
	if next.After(last) {
		next = last
	}
	b.control.SetReadDeadline(next)
	b.control.SetWriteDeadline(next.Add(time.Minute))
	n, err := b.body.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return n, err // of the outer request of Server.CallStream
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return n, errLargerThan(b.maxBytes)
	}
	return n, malformed("The body could not be read completely").Because(err)
}

// HandleStream returns an endpoint that reads a body of at most maxBytes while it arrives, and the query In. Prepare
// reads the body before any transaction begins, and returns the input of fn and a checksum of the body. The checksum
// replaces the body in the fingerprint of an Idempotency-Key.
func HandleStream[R any, P any, Out result](media, example string, maxBytes int64,
	prepare func(ctx context.Context, r R, body io.Reader) (read P, sum []byte, err error),
	fn func(context.Context, R, P) (Out, error)) Endpoint {
	var out Out
	e := handle(reflect.TypeFor[R](), out.outcome(),
		func(ctx context.Context, r any, c call) (prepared any, err error) {
			body := &sharedBody{body: c.stream, ctx: ctx}
			defer body.release()
			prepared, *c.sum, err = prepare(ctx, r.(R), body)
			return prepared, err
		},
		func(ctx context.Context, r, prepared any) ([]byte, error) { return fn(ctx, r.(R), prepared.(P)) })
	e.Media, e.Example, e.Limit = media, example, maxBytes
	return e
}
