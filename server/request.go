package server

import (
	"net/http"
	"strings"

	"spoolwright/value"
)

// requestInfo holds data of a request that handlers set or need, such as the fields of its log line.
type requestInfo struct {
	id      string
	pattern string
	caller  Caller
	address string
	err     error
	streams bool // set by StreamChanges: the duration of the request says nothing about the service
	called  bool // set by Server.Call and Forward: the caller is known, and the request counts in no limit

	inFlight    *inFlight    // the server's, in requests of a Surface; otherwise nil
	connections *connections // the same
}

type infoKey struct{}

func infoOf(r *http.Request) *requestInfo {
	info, _ := r.Context().Value(infoKey{}).(*requestInfo)
	if info == nil {
		return &requestInfo{}
	}
	return info
}

// requestID returns the X-Request-Id of the request if it consists of 1 to 128 letters, digits, dots, dashes and
// underscores, and otherwise a new id.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' ||
			c == '.')
	}) {
		return value.NewID()
	}
	return id
}
