//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of process that lock the data folder, as recorded in the lock file.
const (
	service = "service"
	command = "command"
)

// lockTimeout limits the wait for another process to release the data folder or to become ready.
const lockTimeout = 30 * time.Second

// Server is a running PostgreSQL. Its methods are safe for concurrent use.
type Server struct {
	*folder
	options Options
	log     *slog.Logger
	tools   tools
	secrets secrets
	output  *os.File

	keepsLock bool // Stop does not unlock the data folder; Upgrade unlocks it at its end

	pid atomic.Int64

	running context.Context // ends when Stop is called
	cancel  context.CancelFunc
	once    sync.Once
	stopCtx context.Context // of Stop, set before running ends
	stopErr error
	stopped chan struct{}
}

// Start locks the data folder, starts PostgreSQL, and returns when PostgreSQL accepts connections and its roles and
// database exist. If a crash of this program left a PostgreSQL running on the cluster, Start adopts this PostgreSQL.
// Until Stop is called, PostgreSQL is restarted whenever it dies. The context limits the start, not the life of the
// server.
//
// If the cluster is in archive recovery (point-in-time recovery), Start waits for the end of recovery as long as
// recovery makes progress, even if ctx ends earlier.
//
// The error wraps ErrInUse if another service holds the folder, and ErrNoPostgres if no suitable binaries are
// installed. After an error, no process that Start has started keeps running, except a PostgreSQL whose archive
// recovery makes no progress.
func Start(ctx context.Context, o Options) (*Server, error) { return open(ctx, o, service) }

// Attach is Start for commands that run beside a service. It connects to the PostgreSQL of a running service, and Stop
// then has no effect. If no service runs, Attach waits for other commands to end and starts PostgreSQL, and Stop stops
// it. The error wraps ErrInUse if another process holds the folder for 30 seconds and the PostgreSQL of that process
// does not answer. Other errors are the errors of Start.
func Attach(ctx context.Context, o Options) (*Server, error) { return open(ctx, o, command) }

// RemoveThrowaway removes the throwaway that a killed process left in dir. If the PostgreSQL of the throwaway is still
// running, RemoveThrowaway stops it. The error wraps ErrInUse if another process uses dir.
func RemoveThrowaway(dir string) error {
	f, err := openFolder(dir, true)
	if err != nil {
		return err
	}
	if err := f.acquire(command); err != nil {
		return err
	}
	return (&Server{folder: f, options: Options{Throwaway: true}}).close()
}

// OwnerURL returns the connection string of the login for migrations. The login owns the database and is not a
// superuser.
func (s *Server) OwnerURL() string { return s.url(OwnerRole, s.secrets.Owner, Database) }

// AppURL returns the connection string of the service's login. The login owns nothing and is a member of AppRole.
func (s *Server) AppURL() string { return s.url(LoginRole, s.secrets.Login, Database) }

// SuperURL returns the connection string of the superuser for the same database.
func (s *Server) SuperURL() string { return s.url(superuser, s.secrets.Superuser, Database) }

// PID returns the process id of the postmaster. It changes when PostgreSQL is restarted.
func (s *Server) PID() int { return int(s.pid.Load()) }

// Stop disconnects all clients, stops PostgreSQL, and returns when PostgreSQL has ended and the data folder is
// unlocked. If ctx ends first, PostgreSQL is stopped immediately and recovers at its next start. Further calls return
// the result of the first call. If Attach connected to a running service, Stop has no effect. Stop does not interrupt
// an archive recovery: it waits for the end of recovery, even if ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	s.once.Do(func() {
		s.stopCtx = ctx
		s.cancel()
	})
	<-s.stopped
	return s.stopErr
}

func (s *Server) url(role, password, database string) string {
	sockets := strings.ReplaceAll(url.QueryEscape(s.sockets), "+", "%20") // libpq does not read + as a space
	return fmt.Sprintf("postgres://%s:%s@/%s?host=%s&port=%s&sslmode=disable", role, password, database, sockets, port)
}

// open is Start for a service, and Attach for a command.
func open(ctx context.Context, o Options, as string) (*Server, error) {
	f, err := openFolder(o.Dir, o.Throwaway)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	s := &Server{folder: f, options: o, log: o.Log, stopped: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.running, s.cancel = context.WithCancel(context.Background())
	for begin := time.Now(); ; {
		err := s.acquire(as)
		if err == nil {
			if err = s.start(ctx); err == nil {
				return s, nil
			}
		}
		if !errors.Is(err, ErrInUse) {
			return nil, fmt.Errorf("private PostgreSQL: %w", err)
		}
		// A command ends soon; another service does not.
		if holder := s.holder(); holder == service && as == service {
			return nil, err
		} else if holder == service {
			joinErr := s.join(ctx)
			if joinErr == nil {
				return s, nil
			}
			err = fmt.Errorf("%w, but its PostgreSQL does not answer: %w", err, joinErr)
		}
		if time.Since(begin) > lockTimeout || !sleep(ctx, 20*time.Millisecond) {
			return nil, err
		}
	}
}

// start starts or adopts PostgreSQL. The caller must hold the lock. On error, start releases the lock.
func (s *Server) start(ctx context.Context) (err error) {
	var p *postmaster
	defer func() {
		if err == nil {
			return
		}
		if p != nil && !p.adopted && !errors.Is(err, errStalled) {
			grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err = errors.Join(err, s.shutDown(grace, p), os.RemoveAll(s.sockets))
		}
		err = errors.Join(err, s.close())
	}()
	begin := time.Now()
	if s.options.Throwaway {
		if err := s.remove(); err != nil {
			return err
		}
	} else if err := s.finishUpgrade(); err != nil {
		return fmt.Errorf("finish an upgrade: %w", err)
	}
	if s.tools, err = s.findTools(); err != nil {
		return err
	}
	if s.output, err = openOwn(s.logFile, os.O_APPEND); err != nil {
		return err
	}
	if err := s.createCluster(ctx); err != nil {
		return err
	}
	if s.secrets, err = readSecrets(s.secretsFile); err != nil {
		return fmt.Errorf("passwords of the cluster %s: %w", s.cluster, err)
	}
	if p, err = s.adopt(ctx); err != nil {
		return err
	}
	if p == nil {
		if err := s.makeSockets(); err != nil {
			return err
		}
		s.warnOfInterruptedRecovery()
		if p, err = s.boot(ctx); err != nil {
			if p == nil {
				err = errors.Join(err, os.RemoveAll(s.sockets))
			}
			return err
		}
	}
	if err := s.bootstrap(ctx, true); err != nil {
		return fmt.Errorf("create roles and database in %s: %w", s.cluster, err)
	}
	took := time.Since(begin).Round(time.Millisecond)
	s.log.Info("PostgreSQL is ready", "dir", s.dir, "pid", p.pid, "adopted", p.adopted, "took", took)
	go s.supervise(p)
	return nil
}

// join connects to the PostgreSQL of the service that holds the lock.
func (s *Server) join(ctx context.Context) (err error) {
	if s.secrets, err = readSecrets(s.secretsFile); err != nil {
		return err
	}
	st, ok := s.status()
	if !ok || !st.ready {
		return errors.New("it is not ready")
	}
	s.sockets = st.sockets
	if err := s.bootstrap(ctx, false); err != nil {
		return err
	}
	s.pid.Store(int64(st.pid))
	close(s.stopped)
	return nil
}

// close unlocks the data folder, unless keepsLock is set. It first removes all files of a throwaway cluster.
func (s *Server) close() error {
	var errs []error
	if s.output != nil {
		errs = append(errs, s.output.Close())
	}
	if s.options.Throwaway {
		errs = append(errs, s.remove(), os.Remove(s.lock.Name()))
		if s.created {
			os.Remove(s.dir) // fails if dir contains other files
		}
	}
	if !s.keepsLock {
		errs = append(errs, s.unlock())
	}
	return errors.Join(errs...)
}

// sleep waits for d. It returns false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
