package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Error is an error response. Its body has the members "detail" and "code" and, if the error concerns fields of the
// request, "errors" with all of these fields. The field err is logged and never sent.
type Error struct {
	Status     int
	Code       string // machine-readable, such as NOT_FOUND
	Detail     string // for a person
	Fields     []FieldError
	RetryAfter time.Duration // sent as Retry-After if it is not zero
	Header     http.Header   // further headers
	format     language.Text // the format of Detail, for With
	err        error
}

// FieldError is a problem with a field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.err != nil {
		return e.Code + ": " + e.err.Error()
	}
	return e.Code + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.err }

// Because returns a copy of e with err as the error to log.
func (e *Error) Because(err error) *Error {
	c := *e
	c.err = err
	return &c
}

// With returns a copy of e whose detail has these values in place of the example values.
func (e *Error) With(values ...any) *Error {
	c := *e
	c.Detail = language.Sprintf(e.format, values...)
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Field)
	}
	return c.On(fields...)
}

// On returns a copy of e that concerns these fields of the request. The message of each field is the detail.
func (e *Error) On(fields ...string) *Error {
	c := *e
	c.Fields = nil
	for _, name := range fields {
		c.Fields = append(c.Fields, FieldError{name, e.Detail})
	}
	return &c
}

// Each returns a copy of e that concerns fields with a message of their own.
func (e *Error) Each(fields ...FieldError) *Error {
	c := *e
	c.Fields = fields
	return &c
}

// Errors that several packages return.
var (
	ErrNotFound     = &Error{Status: 404, Code: "NOT_FOUND", Detail: language.Sprintf("The resource does not exist")}
	ErrForbidden    = &Error{Status: 403, Code: "FORBIDDEN", Detail: language.Sprintf("Your role does not permit this")}
	ErrInvalidToken = &Error{Status: 401, Code: "INVALID_TOKEN",
		Detail: language.Sprintf("Could not validate credentials")}
	ErrInvalidKey   = &Error{Status: 401, Code: "INVALID_API_KEY", Detail: language.Sprintf("The API key is not valid")}
	ErrTokenExpired = &Error{Status: 401, Code: "TOKEN_EXPIRED", Detail: language.Sprintf("Token has expired")}
	ErrUnavailable  = &Error{Status: 503, Code: "UNAVAILABLE", RetryAfter: time.Second,
		Detail: language.Sprintf("The service is temporarily unavailable; try again")}

	// ErrSetUp is the error of a user who must set up a second factor first.
	ErrSetUp = &Error{Status: 403, Code: "OTP_SETUP_REQUIRED",
		Detail: language.Sprintf("The farm requires a second factor: set it up first")}

	// ErrTwoCredentials is ErrInvalidKey for a request that also has an access token or another key.
	ErrTwoCredentials = &Error{Status: 401, Code: "INVALID_API_KEY",
		Detail: language.Sprintf("Send one X-API-Key header or an Authorization header, not both")}

	// errOnlyUsers is ErrForbidden for a request with an API key to an operation for users only.
	errOnlyUsers = &Error{Status: 403, Code: "FORBIDDEN",
		Detail: language.Sprintf("API keys do not permit this; log in as a user")}

	// errOnlyKeys is ErrForbidden for a request of a user to an operation for API keys only.
	errOnlyKeys = &Error{Status: 403, Code: "FORBIDDEN",
		Detail: language.Sprintf("This is for API keys only; send one as X-API-Key")}

	// errOutcomeUnknown is ErrUnavailable for a write that may have taken effect.
	errOutcomeUnknown = &Error{Status: 503, Code: "UNAVAILABLE", RetryAfter: time.Second,
		Detail: language.Sprintf("The request may or may not have taken effect; " +
			"repeat it with the same Idempotency-Key, or check before you repeat it")}
)

var (
	errNoPath = &Error{Status: 404, Code: "NOT_FOUND", Detail: language.Sprintf("The path does not exist")}

	// ErrMethod is the error of a request with a method that the path does not support.
	ErrMethod = &Error{Status: 405, Code: "METHOD_NOT_ALLOWED",
		Detail: language.Sprintf("The path does not support this method")}

	// ErrTooMany is the error of a request that exceeds a rate limit.
	ErrTooMany = &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED",
		Detail: language.Sprintf("Too many requests; try again later")}
)

// ErrInternal is the error of a defect of the service.
var ErrInternal = &Error{Status: 500, Code: "INTERNAL_ERROR",
	Detail: language.Sprintf("Internal error; the log of the service contains it under this request's id"),
	format: "Internal error; the log of the service contains it under this request's id (%s)"}

// BadRequest returns a 400: the request is valid, but cannot be executed. The detail is formatted with example values,
// for the OpenAPI document. A handler calls With to replace the example values by its own.
func BadRequest(code string, format language.Text, example ...any) *Error {
	return &Error{Status: 400, Code: code, Detail: language.Sprintf(format, example...), format: format}
}

// Conflict returns a 409, like BadRequest: the request contradicts an earlier one.
func Conflict(code string, format language.Text, example ...any) *Error {
	e := BadRequest(code, format, example...)
	e.Status = http.StatusConflict
	return e
}

// Invalid returns a 422 for one field.
func Invalid(field string, message language.Text, args ...any) *Error {
	return invalid([]FieldError{{field, language.Sprintf(message, args...)}})
}

// Problems are the problems with a request, at most one for each field.
type Problems []FieldError

// Add adds a problem with a field, unless the field already has one.
func (p *Problems) Add(field string, message language.Text, args ...any) {
	field = value.Shorten(field, value.MaxRepeated)
	for _, known := range *p {
		if known.Field == field {
			return
		}
	}
	*p = append(*p, FieldError{field, language.Sprintf(message, args...)})
}

// Err returns a 422 with the problems, or nil if there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return invalid(p)
}

// join returns a 422 with the problems p and the fields of err. Err is nil or the error of reading and decoding the
// body. If p is not empty, an err without fields, such as a 400, is dropped; if p is empty, join returns err.
func (p Problems) join(err error) error {
	if len(p) == 0 {
		return err
	}
	all := slices.Clone(p)
	var e *Error
	if errors.As(err, &e) {
		for _, problem := range e.Fields {
			all.Add(problem.Field, "%s", problem.Message)
		}
	}
	return all.Err()
}

// WithValue returns the name of a field for an error's detail, followed by its value in quotation marks, if it has one:
// the SKU in `items[1].sku "DRG-1"` says more than the field.
func WithValue(field string, v value.Optional[string]) string {
	if v.IsNull() {
		return field
	}
	return field + " " + strconv.Quote(*v.Value)
}

// JoinFields joins the names of fields for the detail of an error. It names at most ten, such as "items[0].product_id,
// items[2].sku and 3 more".
func JoinFields(names []string) string {
	shown := names[:min(10, len(names))]
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		return language.Sprintf("%s and %d more", text, more)
	}
	return text
}

func invalid(problems Problems) *Error {
	var texts []string
	for _, p := range problems[:min(3, len(problems))] {
		texts = append(texts, p.Field+" "+p.Message)
	}
	detail := strings.Join(texts, "; ")
	if more := len(problems) - len(texts); more > 0 {
		detail = language.Sprintf("%s; and %d more", detail, more)
	}
	return &Error{Status: 422, Code: "VALIDATION_ERROR", Detail: detail, Fields: problems}
}

// asError converts an error of a handler to an Error, the response. An unknown error becomes ErrInternal.
func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, db.ErrRevoked):
		return ErrInvalidToken.Because(err)
	case errors.Is(err, db.ErrSetUp):
		return ErrSetUp.Because(err)
	case errors.Is(err, db.ErrKeyRevoked):
		return ErrInvalidKey.Because(err)
	case errors.Is(err, db.ErrOutcomeUnknown):
		return errOutcomeUnknown.Because(err)
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ErrUnavailable.Because(err)
	case errors.Is(err, db.ErrOutOfRange):
		return Invalid("body", "makes a computed number too large").Because(err)
	}
	return ErrInternal.Because(err)
}

// AsError is asError for other packages: it converts an error of Call or of the database.
func AsError(err error) *Error { return asError(err) }

// Body returns the JSON body of the response. The detail of a status 500 ends with the id of the request.
func (e *Error) Body(requestID string) []byte {
	detail := e.Detail
	if e.Status == 500 {
		detail = e.detailed(requestID).Detail
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(struct {
		Detail string       `json:"detail"`
		Code   string       `json:"code"`
		Errors []FieldError `json:"errors,omitempty"`
	}{detail, e.Code, e.Fields}) // strings have no encoding errors
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")) // writeJSON adds a newline
}

// detailed returns a copy of e, an internal error, whose detail ends with the id of the request.
func (e *Error) detailed(requestID string) *Error {
	c := *e
	c.Detail = language.Sprintf(e.format, requestID)
	return &c
}

func (e *Error) writeHeaders(w http.ResponseWriter) {
	h := w.Header()
	for name, values := range e.Header {
		h[name] = values
	}
	if e.Status == 401 {
		h.Add("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
}

// write sends the response.
func (e *Error) write(w http.ResponseWriter, requestID string) {
	e.writeHeaders(w)
	writeJSON(w, e.Status, e.Body(requestID))
}

// asJSON sends an error, and then reads the rest of a body that is too large.
func asJSON(w http.ResponseWriter, r *http.Request, e *Error) {
	e.write(w, infoOf(r).id)
	if e.Status == http.StatusRequestEntityTooLarge {
		drain(w, r, drainBytes)
	}
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	// The newline makes the prompt of a terminal begin on a new line. A small body and the newline are written one
	// after the other, because append would have to copy most bodies. A large body gets the newline appended, because
	// two writes would take two system calls.
	if len(body) < 2<<10 {
		send(w, status, body, newline)
	} else {
		send(w, status, append(body, '\n'))
	}
}

// Values of headers that most responses have. Header.Set would allocate a slice for each value. The slices must not be
// changed. Header.Add copies them, because they have no spare capacity.
var (
	headerNoSniff  = []string{"nosniff"}
	headerNoFrames = []string{"frame-ancestors 'none'"} // pages and pictures have policies of their own
	headerNoStore  = []string{"no-store"}
	headerJSON     = []string{"application/json"}
)

var newline = []byte("\n")

// send sends a response. The parts of the body follow each other, and may be compressed. The Content-Type is JSON for
// an error, and if the header has no Content-Type.
func send(w http.ResponseWriter, status int, body ...[]byte) error {
	h := w.Header()
	if h["Content-Type"] == nil || status >= 400 {
		h["Content-Type"] = headerJSON
	}
	length := 0
	for _, part := range body {
		length += len(part)
	}
	h.Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
	for _, part := range body {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
