package server

import (
	"cmp"
	"context"
	"net/http"

	"spoolwright/value"
	"spoolwright/value/language"
)

// Receiver takes messages that other systems send to an address of their own. A message has no credentials of the
// service: the signature of its body authenticates it. Receivers are not part of the API.
type Receiver struct {
	Pattern string // with the path parameter {id}, a UUID

	// Serve takes a message. It returns ErrSignature, before it parses the body, if the signature is missing or wrong,
	// or if the id is unknown.
	Serve func(ctx context.Context, m Message) error
}

// Message is a request to a Receiver.
type Message struct {
	ID     string // from the path, in canonical form
	Header http.Header
	Body   []byte // at most 1 MiB

	// Count counts a message in the limit of the receiver if its signature is right, and in the limits of the client's
	// address if it needs no signature. Serve calls it first, and returns its error, a 429.
	Count func(signed bool) error
}

// ErrSignature is the error of a message whose signature is not that of the receiver's secret.
var ErrSignature = &Error{Status: 401, Code: "INVALID_SIGNATURE",
	Detail: language.Sprintf("The signature is missing or wrong")}

// receive returns the handler of a receiver. Messages with a wrong signature count in the limits of the client's
// address, and when a limit is reached, all messages from there are rejected before their bodies are read. Others
// count in the limit of their receiver.
func (s *Server) receive(f Receiver) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		info, err := infoOf(r), error(ErrSignature)
		if id, ok := value.ParseID(r.PathValue("id")); ok {
			var body []byte
			if body, err = ReadBody(w, r); err == nil {
				count := func(signed bool) error { return s.countMessage(w, info, id, signed) }
				err = f.Serve(r.Context(), Message{id, r.Header, body, count})
			}
		}
		if err == nil {
			writeJSON(w, http.StatusOK, []byte(`{}`))
		} else if asError(err).Status == http.StatusUnauthorized {
			return cmp.Or(s.limitAddress(w, info), err)
		}
		return err
	}
}
