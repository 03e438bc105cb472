package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// note is an input whose check is work.
type note struct {
	Text value.Optional[string] `json:"text"`
}

var checkNote func()

func (n *note) Check(*server.Problems) { checkNote() }

// A farm that sends many files or large bodies at once has two of them read at a time. It delays no other farm, a
// request that waits ends with its client and is not read afterwards, and one that waits too long gets a 503.
func TestHeavyWork(t *testing.T) {
	t.Parallel()
	type request = server.Request[struct{}]
	var begun atomic.Int64
	work := func(context.Context) error {
		begun.Add(1)
		time.Sleep(time.Minute)
		return nil
	}
	ok := func(context.Context, *request, int) (server.NoContent, error) { return nil, nil }
	text := server.HandleText("text/plain", "",
		func(ctx context.Context, _ *request, _ []byte) (int, error) { return 0, work(ctx) }, ok)
	stream := server.HandleStream("text/plain", "", 1<<20,
		func(ctx context.Context, _ *request, body io.Reader) (int, []byte, error) {
			if _, err := io.ReadFull(body, make([]byte, 4)); err != nil {
				return 0, nil, err
			}
			return 0, nil, work(ctx)
		}, ok)
	picture := func(bytes int) server.Endpoint {
		return server.HandleStream("text/plain", "", 1<<20,
			func(ctx context.Context, _ *request, body io.Reader) (int, []byte, error) {
				if _, err := io.ReadAll(body); err != nil {
					return 0, nil, err
				}
				done, err := server.DecodesPicture(ctx, bytes)
				if err != nil {
					return 0, nil, err
				}
				defer done()
				return 0, nil, work(ctx)
			}, ok)
	}
	checkNote = func() { work(context.Background()) }
	body := server.Handle(func(context.Context, *server.Request[note]) (server.NoContent, error) { return nil, nil })
	large := `{"text": "x"` + strings.Repeat(" ", 20<<10) + `}`
	for _, c := range []struct {
		what     string
		endpoint server.Endpoint
		sent     string
		alone    int64 // requests of a farm at a time
		other    int64 // further ones of another farm
	}{{"text", text, "file", 2, 1}, {"stream", stream, "file", 2, 1}, {"body", body, large, 2, 1},
		{"picture", picture(1000), "file", 2, 0}, {"large", picture(server.MaxPicture), "file", 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			begun.Store(0)
			s := newServer(t, func(config *server.Config) {
				config.Routes = []server.Route{server.Op("POST /api/v1/files", server.Write, c.endpoint, doc("x"))}
				config.Authenticate = func(r *http.Request, _ bool, _ func() error) (server.Caller, error) {
					farm := r.Header.Get("Authorization")
					return server.Caller{Actor: db.Actor{Tenant: farm, User: farm}, Level: server.Write}, nil
				}
			})
			post := func(farm string) (status *atomic.Int64, cancel context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				status = &atomic.Int64{}
				r := httptest.NewRequest("POST", "/api/v1/files", strings.NewReader(c.sent)).WithContext(ctx)
				r.Header.Set("Authorization", farm)
				r.Header.Set("Content-Type", "text/plain")
				if c.what == "body" {
					r.Header.Set("Content-Type", "application/json")
				}
				go func() {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					status.Store(int64(w.Code))
				}()
				synctest.Wait()
				return status, cancel
			}
			var all []*atomic.Int64
			for range c.alone {
				one, _ := post("a")
				all = append(all, one)
			}
			left, leave := post("a")
			late, _ := post("a")
			testkit.Equal(t, begun.Load(), c.alone, "%s: files of a farm at a time", c.what)
			for range c.other {
				one, _ := post("b")
				all = append(all, one)
			}
			testkit.Equal(t, begun.Load(), c.alone+c.other, "%s: with those of another farm", c.what)
			leave()
			synctest.Wait()
			testkit.Equal(t, left.Load() != 0, true, "%s: a request whose client has left has ended", c.what)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			testkit.Equal(t, late.Load(), 503, "%s: after 30 s", c.what)
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, one := range all {
				testkit.Equal(t, one.Load(), 204, "%s: a file", c.what)
			}
			again, _ := post("a")
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			testkit.Equal(t, again.Load(), 204, "%s: a file afterwards", c.what)
			testkit.Equal(t, begun.Load(), c.alone+c.other+1, "%s: all files that were read", c.what)
		})
	}
}

// unsentBody is a body of which nothing arrives. It counts the bodies that the service reads.
type unsentBody struct {
	reading *atomic.Int64
	ctx     context.Context
}

func (b unsentBody) Read([]byte) (int, error) {
	b.reading.Add(1)
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// Bodies that clients send slowly take a part of the memory: 32 MiB of a key or of an address, and 64 MiB of a farm.
// Others are read meanwhile, and a small body is always read.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(config *server.Config) {
			fn := func(context.Context, *server.Request[note]) (server.NoContent, error) { return nil, nil }
			config.Routes = []server.Route{
				server.Op("POST /api/v1/notes", server.Write, server.Handle(fn), doc("x")),
				server.Op("POST /api/v1/letters", server.Public, server.Handle(fn), doc("y"))}
			config.Authenticate = func(r *http.Request, _ bool, _ func() error) (server.Caller, error) {
				farm, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				return server.Caller{Actor: db.Actor{Tenant: farm, User: key}, Level: server.Write}, nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		send := func(path, who, address string, n int, length int64) (reading int64) {
			var count atomic.Int64
			for range n {
				r := httptest.NewRequest("POST", path, unsentBody{&count, ctx}).WithContext(ctx)
				r.ContentLength, r.RemoteAddr = length, address+":1"
				r.Header.Set("Authorization", who)
				r.Header.Set("Content-Type", "application/json")
				go s.ServeHTTP(httptest.NewRecorder(), r)
			}
			synctest.Wait()
			return count.Load()
		}
		const mib, notes, letters = 1 << 20, "/api/v1/notes", "/api/v1/letters"
		testkit.Equal(t, send(notes, "a 1", "192.0.2.1", 50, mib), 32, "bodies of a key")
		testkit.Equal(t, send(notes, "a 2", "192.0.2.1", 20, -1), 20, "bodies of unknown lengths of another key")
		testkit.Equal(t, send(notes, "a 3", "192.0.2.1", 20, mib), 12, "bodies of a third key of the farm")
		testkit.Equal(t, send(notes, "a 3", "192.0.2.1", 20, 100), 20, "small bodies")
		testkit.Equal(t, send(notes, "b 4", "192.0.2.1", 20, mib), 20, "bodies of another farm")
		testkit.Equal(t, send(letters, "", "192.0.2.2", 40, mib), 32, "bodies of a stranger")
		testkit.Equal(t, send(letters, "", "192.0.2.3", 20, mib), 20, "bodies of another stranger")
		cancel()
		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		testkit.Equal(t, send(notes, "a 1", "192.0.2.1", 32, mib), 32, "bodies of a key, after the first ones have ended")
		cancel()
		synctest.Wait()
	})
}

// endlessBody ends its request at the tenth read, and has more bytes nevertheless.
type endlessBody struct {
	reads int
	leave func()
}

func (b *endlessBody) Read(p []byte) (int, error) {
	if b.reads++; b.reads == 10 {
		b.leave()
	}
	return copy(p, "G1 X1\n"), nil
}

// A reader of a body that arrives in parts, such as a sliced file, a picture or an archive, gets no more of it after the
// request has ended.
func TestStreamEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	var got int64
	stream := server.HandleStream("text/plain", "", 1<<30,
		func(_ context.Context, _ *server.Request[struct{}], body io.Reader) (int, []byte, error) {
			var err error
			got, err = io.Copy(io.Discard, body)
			return 0, nil, err
		}, func(context.Context, *server.Request[struct{}], int) (server.NoContent, error) { return nil, nil })
	s := newServer(t, func(config *server.Config) {
		config.Routes = []server.Route{server.Op("POST /api/v1/files", server.Write, stream, doc("x"))}
		config.Authenticate = func(*http.Request, bool, func() error) (server.Caller, error) {
			return server.Caller{Actor: db.Actor{Tenant: "a", User: "a"}, Level: server.Write}, nil
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	body := &endlessBody{leave: cancel}
	r := httptest.NewRequest("POST", "/api/v1/files", io.LimitReader(body, 1<<20)).WithContext(ctx)
	r.Header.Set("Content-Type", "text/plain")
	s.ServeHTTP(httptest.NewRecorder(), r)
	testkit.Equal(t, got, int64(9*len("G1 X1\n")), "the bytes that the reader got")
}
