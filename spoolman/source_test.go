package spoolman_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spoolwright/spoolman"
)

// The source of an import is a file or a Spoolman server, which cannot send the import to another host.
func TestSources(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/file") {
			http.Redirect(w, r, "file:///etc/hostname", http.StatusFound)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/elsewhere") {
			http.Redirect(w, r, "http://localhost:1/api/v1/spool", http.StatusFound)
			return
		}
		http.NotFound(w, r)
	}))
	defer other.Close()
	for source, want := range map[string]string{
		other.URL:                "404",
		other.URL + "/file":      "redirects to another host",
		other.URL + "/elsewhere": "redirects to another host, localhost:1",
		"http://127.0.0.1:1":     "refused",
		"ftp://spoolman.example": "http://",
		"file:///etc/hostname":   "http://",
		"http://":                "http://",
		"/nothing/is/here.json":  "no such file",
		strings.Replace(other.URL, "http://", "http://user:hidden@", 1): "404",
	} {
		f, err := spoolman.Open(t.Context(), source)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") || f != nil {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// A response of a Spoolman server without end, here of white space, fails after 256 MiB.
func TestResponseWithoutEnd(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	sent := make(chan int, 1)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := bytes.Repeat([]byte(" "), 1<<20)
		n := 0
		for n < 2*limit {
			if _, err := w.Write(block); err != nil {
				break
			}
			n += len(block)
		}
		sent <- n
	}))
	defer endless.Close()
	f, err := spoolman.Open(t.Context(), endless.URL)
	if err == nil || !strings.Contains(err.Error(), "256 MiB") || f != nil {
		t.Errorf("%v, want an error with the limit", err)
	}
	// The kernel buffers an amount that depends on the machine; the rest cannot be sent when the reader closes.
	if n := <-sent; n >= 2*limit {
		t.Errorf("the whole response of %d bytes was sent, want about %d", n, limit)
	}
}
