package cli

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// logDelay is the maximum time for which lines of a busy log stay in memory.
	logDelay = 100 * time.Millisecond

	// maxLogBuffer is the number of bytes in memory at which lines are written at once.
	maxLogBuffer = 64 << 10
)

// logWriter writes log lines with few system calls. It writes a line at once if it has written nothing in the last
// logDelay. Otherwise it collects lines for at most logDelay. It is safe for concurrent use.
type logWriter struct {
	w io.Writer

	mu      sync.Mutex
	lines   []byte
	written time.Time   // when lines were last written to w
	timer   *time.Timer // calls Flush; runs if lines is not empty
}

// Write takes a line. It never returns an error: a failure to write the log must not stop the program.
func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	collecting := len(l.lines) > 0
	l.lines = append(l.lines, line...)
	wait := logDelay - time.Since(l.written)
	switch {
	case wait <= 0 || len(l.lines) >= maxLogBuffer:
		l.flush()
	case l.timer == nil:
		l.timer = time.AfterFunc(wait, l.Flush)
	case !collecting:
		l.timer.Reset(wait)
	}
	return len(line), nil
}

// Flush writes the collected lines.
func (l *logWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

func (l *logWriter) flush() {
	if len(l.lines) == 0 {
		return
	}
	l.w.Write(l.lines)
	l.lines = l.lines[:0]
	l.written = time.Now()
}

// logHandler flushes the log after warnings and errors.
type logHandler struct {
	slog.Handler
	log *logWriter
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level > slog.LevelInfo {
		h.log.Flush()
	}
	return err
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.log}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.log}
}

// withoutAudit leaves out the entries of the audit log, for a person at a terminal. They are in the database, and in
// logs that are collected.
type withoutAudit struct{ slog.Handler }

func (h withoutAudit) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "audit" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutAudit) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutAudit{h.Handler.WithAttrs(attrs)}
}

func (h withoutAudit) WithGroup(name string) slog.Handler {
	return withoutAudit{h.Handler.WithGroup(name)}
}

// clockTime replaces the time of a record with the clock time of the machine.
func clockTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.StringValue(a.Value.Time().Format(time.TimeOnly))
	}
	return a
}
