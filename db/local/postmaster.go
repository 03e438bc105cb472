//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmaster is the main process of PostgreSQL.
type postmaster struct {
	pid     int
	proc    *os.Process
	dead    chan struct{} // closed when the process has ended
	adopted bool          // started by an earlier process of this program
	logFrom int64         // offset of the postmaster's first line in the log
}

// state is the content of postmaster.pid.
type state struct {
	pid     int
	sockets string
	ready   bool
}

func (s *Server) pidFile() string { return filepath.Join(s.cluster, "postmaster.pid") }

// status reads postmaster.pid. It returns false if the file is missing or incomplete.
func (s *Server) status() (state, bool) {
	b, err := s.readCluster("postmaster.pid")
	if err != nil {
		return state{}, false
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 6 {
		return state{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return state{}, false
	}
	return state{pid: pid, sockets: lines[4], ready: len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"}, true
}

// launch starts a postmaster in a new session, so that Ctrl-C in the terminal reaches only this process. This process
// then stops PostgreSQL.
func (s *Server) launch() (*postmaster, error) {
	info, err := s.output.Stat()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", s.cluster}
	for _, setting := range s.settings() {
		args = append(args, "-c", setting)
	}
	c := s.command(context.Background(), s.tools.postgres, args...)
	c.SysProcAttr = attributes(s.account.cred, s.options.Throwaway)
	c.Stdout, c.Stderr = s.output, s.output
	p := &postmaster{dead: make(chan struct{}), logFrom: info.Size()}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux kills a throwaway when the thread that started the throwaway ends
		err := c.Start()
		if err != nil {
			started <- err
			return
		}
		p.proc, p.pid = c.Process, c.Process.Pid
		started <- nil
		c.Wait()
		close(p.dead)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.tools.postgres, err)
	}
	return p, nil
}

// adopt returns the postmaster that is already running on the cluster, or nil.
func (s *Server) adopt(ctx context.Context) (*postmaster, error) {
	st, ok := s.status()
	if !ok || !alive(st.pid) {
		return nil, nil
	}
	if !isPostgres(st.pid, s.cluster) {
		// Another program has the process id now. A new postmaster would mistake that program for the old postmaster.
		// Removing the file also removes the protection against surviving children of the old postmaster, so end the
		// children first.
		killOrphans(s.cluster)
		return nil, os.Remove(s.pidFile())
	}
	proc, err := os.FindProcess(st.pid)
	if err != nil {
		return nil, err
	}
	info, err := s.output.Stat()
	if err != nil {
		return nil, err
	}
	p := &postmaster{pid: st.pid, proc: proc, dead: make(chan struct{}), adopted: true, logFrom: info.Size()}
	go func() {
		for alive(p.pid) {
			time.Sleep(50 * time.Millisecond)
		}
		close(p.dead)
	}()
	err = s.awaitReady(ctx, p)
	var died *diedError
	if errors.As(err, &died) {
		return nil, nil
	}
	if st, ok := s.status(); err == nil && ok && st.sockets != s.sockets {
		return nil, s.shutDown(ctx, p) // the socket folder has changed: start again with the new folder
	}
	return p, err
}

// boot starts a postmaster and waits until it is ready. If ctx ends first, boot returns the running postmaster and an
// error.
func (s *Server) boot(ctx context.Context) (*postmaster, error) {
	for try := 1; ; try++ {
		p, err := s.launch()
		if err != nil {
			return nil, err
		}
		if err = s.awaitReady(ctx, p); err == nil {
			return p, nil
		}
		var died *diedError
		if !errors.As(err, &died) {
			return p, err
		}
		// The children of a killed postmaster keep its shared memory in use until they notice its death. Its process
		// id is in use until init has reaped the postmaster.
		again := strings.Contains(died.log, "still in use") ||
			strings.Contains(died.log, `"postmaster.pid" already exists`)
		if try == 40 || !again || !sleep(ctx, 50*time.Millisecond) {
			return nil, err
		}
		if try >= 10 {
			killOrphans(s.cluster)
		}
	}
}

// diedError means that the postmaster has ended; log is the end of its output.
type diedError struct{ log string }

func (e *diedError) Error() string { return "PostgreSQL ended: " + e.log }

// awaitReady waits until p accepts connections that may write. The error is a *diedError if p ends first. The error
// wraps errStalled if archive recovery makes no progress; p then keeps running.
func (s *Server) awaitReady(ctx context.Context, p *postmaster) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	r := recovery{s: s, p: p}
	for {
		recovering := s.inArchiveRecovery() // in recovery, PostgreSQL can be ready but is read-only
		if st, ok := s.status(); ok && st.ready && st.pid == p.pid && !recovering {
			s.pid.Store(int64(p.pid))
			return nil
		}
		if recovering {
			if err := r.report(); err != nil {
				return err
			}
		}
		select {
		case <-p.dead:
			return &diedError{log: s.logSince(p.logFrom)}
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// supervise restarts PostgreSQL whenever it dies. When Stop is called, it stops PostgreSQL and unlocks the data
// folder.
func (s *Server) supervise(p *postmaster) {
	defer close(s.stopped)
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for since := time.Now(); p != nil; {
		select {
		case <-p.dead:
			s.log.Error("PostgreSQL died; restarting it", "pid", p.pid, "log", s.logSince(p.logFrom))
			if time.Since(since) < time.Second {
				sleep(s.running, 300*time.Millisecond)
			}
			p, since = s.restart(), time.Now()
		case <-tick.C:
			if err := s.rotateLog(); err != nil {
				s.log.Warn("cannot rotate PostgreSQL's log", "error", err)
			}
		case <-s.running.Done():
			s.stopErr = s.shutDown(s.stopCtx, p)
			p = nil
		}
	}
	s.stopErr = errors.Join(s.stopErr, os.RemoveAll(s.sockets), s.close())
}

// restart starts PostgreSQL and repeats that until it succeeds. It returns nil if Stop is called first.
func (s *Server) restart() *postmaster {
	for delay := 20 * time.Millisecond; s.running.Err() == nil; delay = min(2*delay, 2*time.Second) {
		err := s.makeSockets()
		if err == nil {
			var p *postmaster
			if p, err = s.boot(s.running); p != nil {
				s.log.Info("PostgreSQL was restarted", "pid", p.pid)
				return p
			}
		}
		if s.running.Err() == nil {
			s.log.Error("cannot restart PostgreSQL", "error", err)
			sleep(s.running, delay)
		}
	}
	return nil
}

// shutDown requests a fast shutdown and waits until the postmaster has ended. When ctx ends, it requests an immediate
// shutdown. It first waits until an archive recovery has ended, even if ctx ends earlier: if PostgreSQL stops before
// it has recorded that recovery reached its target, the next start can replay changes from after the target.
func (s *Server) shutDown(ctx context.Context, p *postmaster) error {
	if s.inArchiveRecovery() {
		s.log.Warn("PostgreSQL is in archive recovery and stops at its end; "+
			"another interrupt ends the service and leaves PostgreSQL running", "pid", p.pid)
		var died *diedError
		if err := s.awaitReady(context.Background(), p); errors.As(err, &died) {
			return nil
		} else if err != nil {
			return err
		}
	}
	p.proc.Signal(syscall.SIGINT)
	select {
	case <-p.dead:
		return nil
	case <-ctx.Done():
	}
	s.log.Warn("PostgreSQL did not stop in time; requesting an immediate shutdown", "pid", p.pid)
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		p.proc.Signal(sig)
		select {
		case <-p.dead:
			return nil
		case <-time.After(8 * time.Second): // the postmaster waits 5 seconds for its children
		}
	}
	return fmt.Errorf("PostgreSQL (process %d) did not stop", p.pid)
}

// remove stops the PostgreSQL that an earlier process left running on the cluster, and removes the cluster and its
// other files.
func (s *Server) remove() error {
	if st, ok := s.status(); ok && alive(st.pid) && isPostgres(st.pid, s.cluster) {
		syscall.Kill(st.pid, syscall.SIGQUIT)
		for begin := time.Now(); alive(st.pid) && time.Since(begin) < 10*time.Second; {
			time.Sleep(5 * time.Millisecond)
		}
	}
	var errs []error
	for _, path := range []string{s.sockets, s.cluster, s.staging, s.secretsFile, s.logFile, s.logFile + ".1"} {
		errs = append(errs, removeAll(path))
	}
	return errors.Join(errs...)
}

// removeAll removes a folder. A process that ends, such as the initdb of a program that was killed, can still add
// files; removeAll then tries again, for ten seconds.
func removeAll(path string) (err error) {
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err = os.RemoveAll(path)
		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) || time.Since(begin) > 10*time.Second {
			return err
		}
	}
}

const logLimit = 8 << 20 // bytes

// rotateLog copies the log to a second file and truncates it when it exceeds logLimit. It does not rename the log,
// because PostgreSQL keeps the file open.
func (s *Server) rotateLog() error {
	info, err := s.output.Stat()
	if err != nil || info.Size() < logLimit {
		return err
	}
	older, err := openOwn(s.logFile+".1", os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = io.Copy(older, io.NewSectionReader(s.output, 0, info.Size()))
	return errors.Join(err, older.Close(), s.output.Truncate(0))
}

// logSince returns the last lines of the log after the offset from.
func (s *Server) logSince(from int64) string {
	const most = 8 << 10
	info, err := s.output.Stat()
	if err != nil {
		return err.Error()
	}
	if from > info.Size() { // the log was rotated
		from = 0
	}
	from = max(from, info.Size()-most)
	b, err := io.ReadAll(io.NewSectionReader(s.output, from, most))
	if err != nil {
		return err.Error()
	}
	if lines := lastLines(string(b)); lines != "" {
		return lines
	}
	return "no message"
}

// lastLines returns the last lines of text, joined into one line.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-6):]
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "; ")
}
