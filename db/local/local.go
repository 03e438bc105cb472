// Package local runs a private PostgreSQL from the binaries installed on this machine: one cluster below a data folder,
// reachable only through a socket that no other account can enter, started, watched and stopped by this process.
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

// ErrInUse is wrapped by the error of Start when another process holds the data folder; the error names the folder.
var ErrInUse = errors.New("data folder is in use by another process")

// Names that Start sets up in the cluster, besides the superuser "postgres".
const (
	Database  = "spoolwright"       // the database, owned by OwnerRole
	OwnerRole = "spoolwright_owner" // login of the migrations, no superuser
	LoginRole = "spoolwright_login" // login of the service, owns nothing, member of AppRole
	AppRole   = "spoolwright_app"   // no login; holds the privileges that migrations grant
)

// Who holds the data folder, as its lock file says.
const (
	service = "service"
	command = "command"
)

// patience bounds the wait for another process that is about to let go of the data folder or to become ready.
const patience = 30 * time.Second

// Options says where and how PostgreSQL runs.
type Options struct {
	// Dir is the data folder; it is made when missing, and everything lives below it, except the socket folder when
	// the path is too long for a socket. Started as root, PostgreSQL runs as account postgres, else nobody, which must
	// be able to enter Dir.
	Dir string

	// Log receives what happens to PostgreSQL; nil discards it.
	Log *slog.Logger

	// Throwaway makes a new, fast and not crash-safe cluster that Stop removes with all it made. It never touches a
	// durable cluster in the same folder. On Linux it ends with this process even when that is killed; elsewhere, and
	// for what a killed process leaves on disk, the next throwaway in the same folder cleans up.
	Throwaway bool

	// Settings are further settings of postgresql.conf, which win over those of this package. An adopted or attached
	// PostgreSQL keeps the settings it was started with.
	Settings map[string]string

	// Folders are searched for postgres and initdb instead of PATH and the usual places; nil means those.
	Folders []string
}

// Server is a PostgreSQL that accepts connections. Its methods may be called from any goroutine.
type Server struct {
	*folder
	options Options
	log     *slog.Logger
	tools   tools
	secrets secrets
	output  *os.File

	pid atomic.Int64

	life    context.Context // ends when Stop is called
	end     context.CancelFunc
	once    sync.Once
	stopCtx context.Context // of Stop, set before life ends
	stopErr error
	stopped chan struct{}
}

// Start runs PostgreSQL on the data folder for this process alone, and returns when it accepts connections and its
// roles and database exist. A PostgreSQL that a crash of this program left running there is adopted. From then on it is
// restarted whenever it dies, until Stop. The end of ctx only ends the start, not the running server.
//
// The error wraps ErrInUse when another service holds the folder, and ErrNoPostgres when no suitable binaries are
// installed. After an error nothing that Start started is left running.
func Start(ctx context.Context, o Options) (*Server, error) { return open(ctx, o, service) }

// Attach gives account commands the PostgreSQL of the data folder: that of a running service, and then Stop is a no-op.
// If no service runs, Attach waits for other commands to end and does what Start does, and Stop stops PostgreSQL again.
// The error wraps ErrInUse when the folder stays in use for half a minute without a PostgreSQL that answers, otherwise
// the errors are those of Start.
func Attach(ctx context.Context, o Options) (*Server, error) { return open(ctx, o, command) }

// OwnerURL is the connection string of the migrations' login, which owns the database and is no superuser.
func (s *Server) OwnerURL() string { return s.url(OwnerRole, s.secrets.Owner, Database) }

// AppURL is the connection string of the service's login, which owns nothing and is a member of AppRole.
func (s *Server) AppURL() string { return s.url(LoginRole, s.secrets.Login, Database) }

// SuperURL is the connection string of the superuser, for the same database.
func (s *Server) SuperURL() string { return s.url(superuser, s.secrets.Superuser, Database) }

// PID is the process id of the postmaster; it changes when PostgreSQL had to be restarted.
func (s *Server) PID() int { return int(s.pid.Load()) }

// Stop ends PostgreSQL, disconnecting its clients, and returns when it has ended and the data folder is free. When ctx
// ends first, PostgreSQL is stopped at once and recovers at its next start. Further calls return the first one's result.
// A server attached to that of a service is only let go of.
func (s *Server) Stop(ctx context.Context) error {
	s.once.Do(func() {
		s.stopCtx = ctx
		s.end()
	})
	<-s.stopped
	return s.stopErr
}

func (s *Server) url(role, password, database string) string {
	sockets := strings.ReplaceAll(url.QueryEscape(s.sockets), "+", "%20") // libpq does not read + as a space
	return fmt.Sprintf("postgres://%s:%s@/%s?host=%s&port=%s&sslmode=disable", role, password, database, sockets, port)
}

func open(ctx context.Context, o Options, as string) (*Server, error) {
	f, err := openFolder(o.Dir, o.Throwaway)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	s := &Server{folder: f, options: o, log: o.Log, stopped: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.life, s.end = context.WithCancel(context.Background())
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
		// A command is done in a moment, another service is not.
		if holder := s.holder(); holder == service && as == service {
			return nil, err
		} else if holder == service {
			joinErr := s.join(ctx)
			if joinErr == nil {
				return s, nil
			}
			err = fmt.Errorf("%w, but its PostgreSQL does not answer: %w", err, joinErr)
		}
		if time.Since(begin) > patience || !sleep(ctx, 20*time.Millisecond) {
			return nil, err
		}
	}
}

// start needs the lock, and gives it up when it fails.
func (s *Server) start(ctx context.Context) (err error) {
	var p *postmaster
	defer func() {
		if err == nil {
			return
		}
		if p != nil && !p.adopted {
			grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err = errors.Join(err, s.halt(grace, p))
		}
		err = errors.Join(err, s.close())
	}()
	begin := time.Now()
	if s.options.Throwaway {
		if err := s.removeThrowaway(); err != nil {
			return err
		}
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
		if p, err = s.boot(ctx); err != nil {
			return errors.Join(err, os.RemoveAll(s.sockets))
		}
	}
	if err := s.bootstrap(ctx, true); err != nil {
		return fmt.Errorf("set up PostgreSQL in %s: %w", s.cluster, err)
	}
	s.log.Info("PostgreSQL is ready", "dir", s.dir, "pid", p.pid, "adopted", p.adopted, "took", time.Since(begin).Round(time.Millisecond))
	go s.supervise(p)
	return nil
}

// join uses the PostgreSQL of the service that holds the lock.
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

// close leaves the cluster, its log and passwords, unless it is a throwaway, and frees the data folder.
func (s *Server) close() error {
	var errs []error
	if s.output != nil {
		errs = append(errs, s.output.Close())
	}
	if s.options.Throwaway {
		errs = append(errs, s.removeThrowaway(), os.Remove(s.lock.Name()))
		if s.dirMade {
			os.Remove(s.dir) // unless others have put something there
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// sleep reports whether d passed before ctx ended.
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
