package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Surface serves all paths below a prefix in the format of another API, for clients that know only the other API. Its
// routes are not part of the OpenAPI document. Unlike other routes, it also accepts API keys of printers, and API keys
// as the password of Basic authentication: clients in printers often support nothing else.
type Surface struct {
	Prefix string // with a slash at the start and the end

	// KeyPrefix, if not empty, is another prefix. It contains {key} in the place of an API key, for clients that can
	// send an API key only as part of an address.
	KeyPrefix string

	// Serve answers a request of the caller by calling Respond. The request's context is bound to the caller. If Serve
	// returns another error than errUndelivered, it must not have written anything: the service then sends the error
	// with the body that Fail returns.
	Serve func(w http.ResponseWriter, r *http.Request, caller Caller) error

	// Fail returns the body of the response to an error.
	Fail func(e *Error) []byte

	// Run is called when the service starts, and returns when ctx ends.
	Run func(ctx context.Context)

	// Close ends open connections that no longer belong to the HTTP server, such as WebSockets. It is called when the
	// service stops.
	Close func()
}

// errUndelivered is the error of Respond if it has begun to write a response and could not finish.
var errUndelivered = errors.New("the response could not be written")

// Respond sends a response of a Surface with status 200. The Content-Type is JSON, unless the header has another one.
// If too many large bodies are being sent, Respond writes nothing and returns ErrUnavailable. It always sends the
// response to a request with another method than GET, because the effect of a write is already committed.
func Respond(w http.ResponseWriter, r *http.Request, body []byte) error {
	if err := infoOf(r).keepAnswer(r, len(body)); err != nil {
		return err
	}
	if err := send(w, http.StatusOK, body); err != nil {
		return errors.Join(errUndelivered, err)
	}
	return nil
}

// RespondStream sends a response of a Surface with status 200 and the media type, JSON if it is empty, while write
// writes it. A browser saves it under the name, unless that is empty. If write returns an error before it has written
// 64 KiB, RespondStream writes nothing and returns the error. A later error breaks the connection, so that the client
// does not mistake a part for the whole.
func RespondStream(w http.ResponseWriter, r *http.Request, media, name string,
	write func(context.Context, io.Writer) error,
) error {
	info := infoOf(r)
	return info.server.sendFile(r.Context(), w, info, &file{cmp.Or(media, jsonMedia), name, write})
}

// keyInPath returns the handler of paths below KeyPrefix. It moves the API key from the path to the header X-Api-Key,
// and calls the handler of the paths below Prefix.
func (f Surface) keyInPath(surface http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.PathValue("key")
		rest := strings.TrimPrefix(r.URL.Path, strings.Replace(f.KeyPrefix, "{key}", key, 1))
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = f.Prefix+rest, ""
		r.Header["X-Api-Key"] = append(r.Header["X-Api-Key"], key)
		surface.ServeHTTP(w, r)
	})
}

// asOwn sends an error in the format of the surface.
func (f Surface) asOwn(w http.ResponseWriter, r *http.Request, e *Error) {
	if e.Status == 401 {
		w.Header().Add("WWW-Authenticate", `Basic realm="spoolwright", charset="UTF-8"`)
	}
	e.writeHeaders(w)
	if e.Status == 500 {
		e = e.detailed(infoOf(r).id)
	}
	send(w, e.Status, f.Fail(e))
}

func (f Surface) serve(w http.ResponseWriter, r *http.Request) error {
	err := f.Serve(w, r, infoOf(r).caller)
	if errors.Is(err, errUndelivered) {
		return nil
	}
	return err
}
