package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spoolwright/server"

	"spoolwright/tests/testkit"
)

// A 422 names the problems with the path, the headers and the body together.
func TestAllProblemsTogether(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	e := wantError(t, send(t, s, "POST", "/api/v1/things", `{"name":7,"surprise":1}`, "Idempotency-Key", "é"), 422,
		"VALIDATION_ERROR")
	testkit.EqualSlices(t, e.fields(), []string{"Idempotency-Key", "name", "surprise", "weight"}, "fields with problems")
	e = wantError(t, send(t, s, "PATCH", "/api/v1/things/x", `{"weight":-1}`), 422, "VALIDATION_ERROR")
	testkit.EqualSlices(t, e.fields(), []string{"id", "weight"}, "fields with problems")
	e = wantError(t, send(t, s, "DELETE", "/api/v1/things/x", `{"weight":-1}`), 422, "VALIDATION_ERROR")
	testkit.EqualSlices(t, e.fields(), []string{"body", "id"}, "fields with problems")
	for _, body := range []string{"", "{"} { // the path takes precedence over a body that cannot be decoded
		e = wantError(t, send(t, s, "PATCH", "/api/v1/things/x", body), 422, "VALIDATION_ERROR")
		testkit.EqualSlices(t, e.fields(), []string{"id"}, "fields with problems")
	}
}

// A client sees the response to a body that is too large, over TLS with HTTP/1.1 and HTTP/2, also if it sends the body
// without waiting for the response.
func TestTooLargeOverTLS(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(newServer(t))
		s.EnableHTTP2 = http2
		s.StartTLS()
		t.Cleanup(s.Close)
		for i := range 16 {
			body := io.Reader(bytes.NewReader(make([]byte, 7<<20)))
			if i%2 == 0 {
				body = io.MultiReader(body) // without Content-Length
			}
			r, err := http.NewRequest("POST", s.URL+"/api/v1/things", body)
			testkit.Check(t, err)
			r.Header.Set("Authorization", "Bearer admin")
			r.Header.Set("Content-Type", "application/json")
			if i%4 == 3 {
				r.Header.Set("Expect", "100-continue")
			}
			a, err := s.Client().Do(r)
			if err != nil {
				t.Errorf("HTTP/2 %v, request %d: %v", http2, i, err)
				continue
			}
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			if err != nil || a.StatusCode != 413 || !strings.Contains(string(text), "PAYLOAD_TOO_LARGE") {
				t.Errorf("HTTP/2 %v, request %d: %d %s %v", http2, i, a.StatusCode, text, err)
			}
			testkit.Equal(t, a.ProtoMajor, map[bool]int{false: 1, true: 2}[http2], "the protocol is %s", a.Proto)
		}
	}
}

// Large lists, other large responses and the document are compressed for clients that accept it. The responses end
// with a newline.
func TestCompression(t *testing.T) {
	t.Parallel()
	list := func(size int) *server.Server {
		return newServer(t, func(c *server.Config) {
			c.Routes = append(c.Routes, server.Op("GET /api/v1/listed", server.Read,
				server.Handle(func(context.Context, *server.Request[struct{}]) (server.Page[Echo], error) {
					item, err := json.Marshal(Echo{Got: strings.Repeat("x", size)})
					return fmt.Appendf(nil, `{"items":[%s],"total":1,"skip":0,"limit":20,"next":null}`, item), err
				}), &server.Doc{ID: "listed", Summary: "x", Tag: c.Routes[0].Doc.Tag}),
				server.Op("POST /api/v1/made", server.Write,
					server.Handle(func(context.Context, *server.Request[struct{}]) (server.OK[Echo], error) {
						return json.Marshal(Echo{Got: strings.Repeat("x", size)})
					}), &server.Doc{ID: "made", Summary: "x", Tag: c.Routes[0].Doc.Tag}))
		})
	}
	for _, test := range []struct {
		target, accept string
		size           int
		compressed     bool
	}{
		{"/api/v1/listed", "gzip", 3000, true},
		{"/api/v1/listed", "gzip;q=0", 3000, false},
		{"/api/v1/listed", "", 3000, false},
		{"/api/v1/listed", "gzip", 300, false},
		{"/api/v1/made", "gzip", 20_000, true},
		{"/api/v1/made", "", 20_000, false},
		{"/openapi.json", "gzip, br", 0, true},
		{"/openapi.json", "", 0, false},
	} {
		method := "GET"
		if test.target == "/api/v1/made" {
			method = "POST"
		}
		r := send(t, list(test.size), method, test.target, "", "Accept-Encoding", test.accept)
		if r.StatusCode != 200 || r.Header.Get("Vary") != "Accept-Encoding" ||
			(r.Header.Get("Content-Encoding") == "gzip") != test.compressed {
			t.Errorf("%+v: %d %v", test, r.StatusCode, r.Header)
			continue
		}
		body := io.Reader(r.Body)
		if test.compressed {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Fatal(err)
			}
		}
		b, err := io.ReadAll(body)
		if err != nil || !json.Valid(b) || !bytes.HasSuffix(b, []byte("}\n")) || bytes.HasSuffix(b, []byte("\n\n")) {
			t.Errorf("%+v: %v, %d bytes", test, err, len(b))
		}
	}
}

func TestRootAndFavicon(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if r := send(t, s, "GET", "/", "", "Authorization", ""); r.StatusCode != 302 ||
		r.Header.Get("Location") != "docs" {
		t.Errorf("/: %d %v", r.StatusCode, r.Header)
	}
	r := send(t, s, "GET", "/favicon.ico", "", "Authorization", "")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(text(t, r), "<svg") {
		t.Errorf("/favicon.ico: %d %v", r.StatusCode, r.Header)
	}
}
