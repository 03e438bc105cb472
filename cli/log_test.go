package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes records each call of Write.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), nil
}

func (w *writes) want(t *testing.T, when string, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, want := strings.Join(w.all, "|"), strings.Join(want, "|"); got != want {
		t.Errorf("%s: the writes are %q, want %q", when, got, want)
	}
	w.all = nil
}

func TestLogWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		l := &logWriter{w: w}
		handler := logHandler{slog.NewTextHandler(l, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key != slog.MessageKey && a.Key != "n" {
					return slog.Attr{}
				}
				return a
			},
		}), l}
		log := slog.New(handler)
		for range 2 { // the timer is created, and used again
			log.Info("a")
			w.want(t, "the first line", "msg=a\n")
			time.Sleep(20 * time.Millisecond) // of the bubble, as all times in this test
			log.Info("b")
			log.Info("c")
			time.Sleep(79 * time.Millisecond)
			w.want(t, "99 ms later")
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			w.want(t, "101 ms later", "msg=b\nmsg=c\n")
			log.Info("d")
			log.With("n", 1).Error("e")
			w.want(t, "an error", "msg=d\nmsg=e n=1\n")
			log.WithGroup("g").Info("f")
			log.Warn("w")
			w.want(t, "a warning", "msg=f\nmsg=w\n")
			log.Info("g")
			l.Flush()
			w.want(t, "Flush", "msg=g\n")
			l.Flush()
			time.Sleep(time.Second)
			synctest.Wait()
			w.want(t, "without lines")
		}
		log.Info("h")
		w.want(t, "after a pause", "msg=h\n")
		long := strings.Repeat("x", maxLogBuffer/2)
		log.Info(long)
		w.want(t, "a long line")
		log.Info(long)
		w.want(t, "many bytes", "msg="+long+"\nmsg="+long+"\n")
	})
}

func TestLogWriterConcurrent(t *testing.T) {
	w := &writes{}
	l := &logWriter{w: w}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				l.Write([]byte("line\n"))
			}
		})
	}
	group.Wait()
	l.Flush()
	all := strings.Join(w.all, "")
	if want := strings.Repeat("line\n", 8000); all != want {
		t.Errorf("%d bytes were written, want %d", len(all), len(want))
	}
	if len(w.all) > 800 {
		t.Errorf("there were %d calls of Write", len(w.all))
	}
}

// The log of a command is complete when the program ends.
func TestLogIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	const lines = 10
	program := Program{Commands: []Command{{
		Name: "serve", Help: "serve the API", Needs: Settings, Setup: Without(func(_ context.Context, c *Call) error {
			for range lines {
				c.Config.Log.Info("line")
			}
			return nil
		}),
	}}}
	var log bytes.Buffer
	program.Main(nil, func(string) string { return "" }, strings.NewReader(""), io.Discard, &log)
	if n := strings.Count(log.String(), "msg=line\n"); n != lines {
		t.Errorf("the log has %d lines, want %d:\n%s", n, lines, log.String())
	}
}

// A person at a terminal reads warnings with clock times, and none of the entries of the audit log, which logs that are
// collected have.
func TestLogOnTerminal(t *testing.T) {
	const clock = `time=\d\d:\d\d:\d\d`
	for _, test := range []struct {
		format, level string
		terminal      bool
		want          string
	}{
		{"", "", true, `^` + clock + ` level=WARN msg=careful n=1\n$`},
		{"text", "info", true, `^` + clock + ` level=INFO msg=request n=1\n` + clock + ` level=WARN msg=careful n=1\n$`},
		{"", "", false, `^time=\d{4}-\S+ level=INFO msg=audit n=1\n.*msg=request n=1\n.*msg=careful n=1\n$`},
		{"json", "", true, `^{"time":"\d{4}-.*"msg":"audit","n":1}\n.*"msg":"request","n":1}\n.*"msg":"careful","n":1}\n$`},
	} {
		var out strings.Builder
		settings := map[string]string{"LOG_FORMAT": test.format, "LOG_LEVEL": test.level}
		c, err := loadConfig(func(name string) string { return settings[name] }, &out, test.terminal)
		if err != nil {
			t.Fatal(err)
		}
		log := c.Log.With("n", 1)
		log.Info("audit")
		log.Info("request")
		log.Warn("careful")
		c.log.Flush()
		if !regexp.MustCompile(test.want).MatchString(out.String()) {
			t.Errorf("%+v: the log has\n%s", test, out.String())
		}
	}
}
