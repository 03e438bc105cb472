package server

import (
	"net/http"
	"strings"

	"spoolwright/value"
)

// requestInfo holds data of a request that the functions of its chain set or need, such as the fields of its log line.
type requestInfo struct {
	statusWriter
	id      string
	server  *Server
	pattern string // of the route
	address string // the client's
	err     error  // to log
	fail    func(http.ResponseWriter, *http.Request, *Error)
	ended   []func() // called when the request has ended

	caller  Caller
	known   bool  // whether there is a caller, in whose limits the request counts
	denied  error // of a wrong token or API key
	called  bool  // set by Server.Call and Forward: the caller is known, and the request counts in no limit
	counted bool  // whether the request of a page has counted in a limit
	kept    int   // the bytes of the memory for bodies that the request has; see keep
	quiet   bool  // whether the operation changes nothing that pages show
	streams bool  // set by StreamChanges: metrics ignore the duration of the request
}

type infoKey struct{}

func infoOf(r *http.Request) *requestInfo {
	info, _ := r.Context().Value(infoKey{}).(*requestInfo)
	if info == nil {
		return &requestInfo{}
	}
	return info
}

// requestIDOf returns the X-Request-Id of the request if it consists of 1 to 128 letters, digits, dots, dashes and
// underscores, and otherwise a new id.
func requestIDOf(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' ||
			c == '.')
	}) {
		return value.NewID()
	}
	return id
}
