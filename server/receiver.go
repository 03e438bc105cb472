package server

import (
	"context"
	"net/http"

	"spoolwright/value"
)

// Receiver takes messages that other systems send to an address of their own. A message has no credentials of the
// service: its signature, of the body as it was sent, tells who has sent it. Receivers are not part of the API.
type Receiver struct {
	Pattern string // with the path parameter {id}, a UUID

	// Serve takes a message. It returns ErrSignature, before it parses the body, if the signature is missing or wrong,
	// also if nothing has the id.
	Serve func(ctx context.Context, m Message) error
}

// Message is a request to a Receiver.
type Message struct {
	ID     string // from the path, in canonical form
	Header http.Header
	Body   []byte // at most 1 MiB
}

// ErrSignature is the error of a message whose signature is not that of the receiver's secret.
var ErrSignature = &Error{Status: 401, Code: "INVALID_SIGNATURE", Detail: "The signature is missing or wrong"}

// addReceiver registers a receiver. Messages with a wrong signature count in the limits of the client's address, and
// when a limit is reached, all messages from there are rejected before their bodies are read. Others have no limit: a
// shop that gets 429 may stop to send.
func (s *Server) addReceiver(f Receiver) {
	s.handle(f.Pattern, func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		w.Header()["Cache-Control"] = headerNoStore
		err := s.receive(w, r, info, f)
		if err == nil {
			writeJSON(w, http.StatusOK, []byte(`{}`))
			return
		}
		e := asError(err)
		if e.Status == http.StatusUnauthorized {
			if limited := s.limit(w, info, true); limited != nil {
				e = limited
			}
		}
		info.err = e.err
		e.write(w, info.id)
		if e.Status == http.StatusRequestEntityTooLarge {
			drain(w, r, drainBytes)
		}
	})
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request, info *requestInfo, f Receiver) error {
	if err := s.admit(info)(); err != nil {
		return err
	}
	id, ok := value.ParseID(r.PathValue("id"))
	if !ok {
		return ErrSignature
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	return f.Serve(r.Context(), Message{id, r.Header, body})
}
