package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spoolwright/server"

	"spoolwright/tests/testkit"
)

// An error before a file is sent is an error response. A later one breaks the connection: the client must not take a
// part of the file for the whole.
func TestFileErrors(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{0: 404, 1000: 404, 1 << 20: 200} {
		write := func(_ context.Context, _ *server.Request[server.ExportQuery], w io.Writer,
			_ server.ExportFormat) error {
			if _, err := io.WriteString(w, strings.Repeat("x", size)); err != nil {
				return err
			}
			return server.ErrNotFound
		}
		tag := &server.Tag{Name: "files"}
		s := server.New(server.Config{Routes: []server.Route{server.Op("GET /api/v1/files", server.Public,
			server.HandleExport("x", write), &server.Doc{ID: "getFile", Tag: tag})}})
		h := httptest.NewServer(s)
		defer h.Close()
		r, err := http.Get(h.URL + "/api/v1/files")
		testkit.Check(t, err)
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		broken := errors.Is(err, io.ErrUnexpectedEOF)
		if r.StatusCode != want || broken != (want == 200) ||
			want == 404 && !strings.Contains(string(body), "NOT_FOUND") {
			t.Errorf("after %d bytes: %d, %v, %.100s", size, r.StatusCode, err, body)
		}
	}
}

// An export rejects a body as the other operations that read none.
func TestFileRejectsBody(t *testing.T) {
	t.Parallel()
	write := func(_ context.Context, _ *server.Request[server.ExportQuery], w io.Writer, _ server.ExportFormat) error {
		return nil
	}
	s := server.New(server.Config{Routes: []server.Route{server.Op("GET /api/v1/files", server.Public,
		server.HandleExport("x", write), &server.Doc{ID: "getFile", Tag: &server.Tag{Name: "files"}})}})
	for body, want := range map[string]int{"": 200, "{}": 200, `{"from":"2026"}`: 422} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/files", strings.NewReader(body)))
		testkit.Equal(t, w.Code, want, "body %q: status: %s", body, w.Body)
	}
}

// A user can have eight files sent at a time, because each has a part of its content in memory. A further one waits for
// 20 seconds. The files of a farm have a share, too: 16. The clock of the test is simulated.
func TestFilesAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testFilesAtATime)
}

func testFilesAtATime(t *testing.T) {
	writing, release := make(chan struct{}, 20), make(chan struct{})
	write := func(context.Context, *server.Request[server.ExportQuery], io.Writer, server.ExportFormat) error {
		writing <- struct{}{}
		select {
		case <-release:
		case <-time.After(testkit.WaitTimeout): // one too many was sent
		}
		return nil
	}
	s := newServer(t, func(c *server.Config) {
		c.Routes = append(c.Routes, server.Op("GET /api/v1/files", server.Read,
			server.HandleExport("x", write), doc("getFile")))
	})
	status := func(token string) int {
		return send(t, s, "GET", "/api/v1/files", "", "Authorization", "Bearer "+token).StatusCode
	}
	var group sync.WaitGroup
	get := func(token string) {
		group.Go(func() {
			testkit.Equal(t, status(token), 200, "a file")
		})
		<-writing
	}
	for range 8 {
		get("viewer.a")
	}
	testkit.Equal(t, status("viewer.a"), 503, "a ninth file of a user")
	for range 8 {
		get("viewer.b")
	}
	testkit.Equal(t, status("viewer.c"), 503, "a 17th file of a farm")
	close(release)
	group.Wait()
}
