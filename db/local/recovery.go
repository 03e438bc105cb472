//go:build unix

package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// errStalled is wrapped by the error of a start that has waited for an archive recovery without progress.
var errStalled = errors.New("archive recovery makes no progress")

const (
	recoveryReport = time.Minute      // interval of log messages during archive recovery
	recoveryStall  = 10 * time.Minute // longest time without progress; restore_command may be slow
)

// inArchiveRecovery reports whether the cluster is in archive recovery (point-in-time recovery, or a standby), or will
// enter it at the next start. It checks two files: the control file does not show archive recovery before PostgreSQL
// has read recovery.signal, and PostgreSQL removes recovery.signal before the last steps of recovery.
func (s *Server) inArchiveRecovery() bool {
	return s.recoveryRequested() || s.controlState() == stateArchiveRecovery
}

func (s *Server) recoveryRequested() bool {
	for _, name := range []string{"recovery.signal", "standby.signal"} {
		if _, err := os.Lstat(filepath.Join(s.cluster, name)); err == nil {
			return true
		}
	}
	return false
}

// States of a cluster in its control file (DBState in PostgreSQL's pg_control.h).
const (
	stateUnknown            = 0
	stateShutdownInRecovery = 2
	stateArchiveRecovery    = 5
)

// controlState returns the state in the control file, or stateUnknown if the file cannot be read.
func (s *Server) controlState() uint32 {
	b, err := s.readCluster("global/pg_control")
	if err != nil || len(b) < 20 {
		return stateUnknown
	}
	return binary.NativeEndian.Uint32(b[16:]) // after the identifier (8 bytes) and two versions (4 each)
}

// warnOfInterruptedRecovery logs a warning if archive recovery was interrupted, for example by a crash, after
// PostgreSQL had removed recovery.signal: PostgreSQL then replays all changes that it finds.
func (s *Server) warnOfInterruptedRecovery() {
	state := s.controlState()
	if (state == stateArchiveRecovery || state == stateShutdownInRecovery) && !s.recoveryRequested() {
		s.log.Warn("an archive recovery of the cluster was interrupted before it was complete; the cluster may have "+
			"changes from after the recovery target: check the data, or restore the backup again", "cluster",
			s.cluster)
	}
}

// recovery observes an archive recovery, which can take hours.
type recovery struct {
	s *Server
	p *postmaster

	asked  time.Time // when paused was last read
	paused bool      // replay waits for pg_wal_replay_resume

	logSize int64     // grows with progress: PostgreSQL logs each restored segment, and a line every 10 seconds
	moved   time.Time // when logSize last changed

	reported       time.Time // when report last logged
	reportedPaused bool      // value of paused when report last logged
}

// report logs that recovery is under way, once a minute and when it pauses. The error wraps errStalled.
func (r *recovery) report() error {
	now := time.Now()
	if now.Sub(r.asked) > 200*time.Millisecond {
		r.asked, r.paused = now, r.isPaused()
	}
	info, err := r.s.output.Stat()
	if err != nil {
		return err
	}
	if info.Size() != r.logSize || r.moved.IsZero() || r.paused {
		r.logSize, r.moved = info.Size(), now
	}
	if now.Sub(r.moved) > recoveryStall {
		return fmt.Errorf("%w: PostgreSQL (process %d) logged nothing for %v and is left running; see %s",
			errStalled, r.p.pid, recoveryStall, r.s.logFile)
	}
	if now.Sub(r.reported) < recoveryReport && r.paused == r.reportedPaused {
		return nil
	}
	r.reported, r.reportedPaused = now, r.paused
	if r.paused {
		r.s.log.Warn("archive recovery is paused at its target; check the data, then run SELECT pg_wal_replay_resume() "+
			"as the superuser to end recovery", "pid", r.p.pid, "socket", r.s.sockets)
	} else {
		r.s.log.Info("waiting for the end of archive recovery", "pid", r.p.pid, "log", r.s.logSince(r.p.logFrom))
	}
	return nil
}

// isPaused reports whether recovery is paused. It returns false if PostgreSQL does not accept connections.
func (r *recovery) isPaused() (paused bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.s.url(superuser, r.s.secrets.Superuser, "postgres"))
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `select pg_is_in_recovery() and pg_get_wal_replay_pause_state() = 'paused'`).Scan(&paused)
	return err == nil && paused
}
