//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

const (
	// upgradeFolder is the folder in the data folder that holds the new cluster of an upgrade.
	upgradeFolder = "upgrade"

	// upgradeMark is a file in upgradeFolder with the version of the old cluster. It exists while the new cluster has
	// all data but has not replaced the old cluster.
	upgradeMark = "complete"
)

// Upgrade replaces the cluster of a data folder with a cluster of the newest installed version of PostgreSQL. It needs
// the binaries of both versions, and room for both clusters. Other processes cannot use the data folder meanwhile. The
// error wraps ErrInUse if another process uses it.
//
// Upgrade starts both clusters and calls move, which must copy the data from the old cluster to the new cluster, whose
// database is empty. The roles and their passwords are the same. After an error, or if the program is killed, the data
// folder contains either the old cluster, unchanged except by move, or the new cluster with all data. In the second
// case, the old cluster is beside the new cluster, with its major version at the end of the name; Upgrade does not
// remove it.
func Upgrade(
	ctx context.Context, o Options, move func(ctx context.Context, from, to *Server) error,
) (Upgraded, error) {
	u, err := upgrade(ctx, o, move)
	if err != nil && !errors.Is(err, ErrInUse) {
		err = fmt.Errorf("private PostgreSQL: %w", err)
	}
	return u, err
}

func upgrade(ctx context.Context, o Options, move func(ctx context.Context, from, to *Server) error,
) (u Upgraded, err error) {
	from, err := lockAlone(o)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, from.unlock()) }()
	u, folder, err := from.planUpgrade()
	if err != nil {
		return u, err
	}
	if err := from.start(ctx); err != nil {
		return u, err
	}
	running := true
	stop := func(s *Server) error { return s.Stop(context.WithoutCancel(ctx)) }
	defer func() {
		if running {
			err = errors.Join(err, stop(from))
		}
	}()

	dir := filepath.Join(from.dir, upgradeFolder)
	if err := removeUpgrade(dir); err != nil { // remove an interrupted upgrade
		return u, err
	}
	to, err := Start(ctx, Options{Dir: dir, Log: o.Log, Elsewhere: o.Elsewhere, Folders: []string{folder},
		secrets: &from.secrets})
	if err != nil {
		return u, errors.Join(err, removeUpgrade(dir))
	}
	err = errors.Join(to.withCause(move(ctx, from, to)), stop(to))
	if err == nil {
		running = false
		err = stop(from)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return u, errors.Join(err, removeUpgrade(dir))
	}
	if err := WritePrivate(filepath.Join(dir, upgradeMark), []byte(strconv.Itoa(u.From))); err != nil {
		return u, err
	}
	return u, from.finishUpgrade()
}

// lockAlone locks the data folder for a command that does not share the folder. The folder remains locked after the
// server has stopped; the caller must unlock it.
func lockAlone(o Options) (*Server, error) {
	f, err := openFolder(o.Dir, false)
	if err != nil {
		return nil, err
	}
	s := &Server{folder: f, options: o, log: o.Log, keepsLock: true, stopped: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.running, s.cancel = context.WithCancel(context.Background())
	return s, s.acquire(command)
}

// planUpgrade returns the versions of an upgrade, and the folder with the binaries of the new version.
func (s *Server) planUpgrade() (u Upgraded, folder string, err error) {
	if err := s.finishUpgrade(); err != nil { // finish an earlier upgrade
		return u, "", err
	}
	current, err := s.findTools()
	if err != nil {
		return u, "", err
	}
	newest, folder, err := s.newestTools()
	if err != nil {
		return u, "", err
	}
	u = Upgraded{From: current.major, To: newest.major, Old: fmt.Sprintf("%s.%d", s.base, current.major)}
	if u.To <= u.From {
		return u, "", fmt.Errorf("the cluster %s has version %d, and no newer version of PostgreSQL is installed",
			s.cluster, u.From)
	}
	if _, err := os.Lstat(u.Old); !errors.Is(err, os.ErrNotExist) {
		return u, "", errors.Join(err,
			fmt.Errorf("%s, the old cluster of an earlier upgrade, is in the way: move it away", u.Old))
	}
	return u, folder, nil
}

// newestTools returns the newest installation, and its folder.
func (s *Server) newestTools() (newest tools, folder string, err error) {
	folders := s.options.Folders
	if folders == nil {
		folders = usualFolders()
	}
	for _, f := range folders {
		if t, err := s.inspect(f); err == nil && t.major > newest.major {
			newest, folder = t, f
		}
	}
	if newest.major == 0 {
		return newest, "", ErrNoPostgres
	}
	return newest, folder, nil
}

// removeUpgrade removes the folder of an incomplete upgrade, and the cluster in the folder.
func removeUpgrade(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	f, err := openFolder(dir, false)
	if err != nil {
		return err
	}
	if err := f.acquire(command); err != nil {
		return err
	}
	defer f.unlock()
	return errors.Join((&Server{folder: f}).remove(), removeAll(dir))
}

// withCause adds the last failure in the log of PostgreSQL to an error of an upgrade, whose log is removed: with a full
// disk, PostgreSQL can only close its connections.
func (s *Server) withCause(err error) error {
	if err == nil {
		return nil
	}
	b, _ := io.ReadAll(io.NewSectionReader(s.output, 0, logLimit))
	if all := failureLine.FindAll(b, -1); all != nil {
		return fmt.Errorf("%w (PostgreSQL: %s)", err, all[len(all)-1])
	}
	return err
}

// failureLine matches the messages of PostgreSQL that end all sessions or say that it cannot write.
var failureLine = regexp.MustCompile(`(PANIC:  .*|.*No space left on device.*)`)

// finishUpgrade replaces the cluster with the new cluster of a complete upgrade, if there is one. It can be called
// again after a crash at any point. The caller must hold the lock, and neither cluster may run.
func (f *folder) finishUpgrade() error {
	dir := filepath.Join(f.dir, upgradeFolder)
	version, err := ReadPrivate(filepath.Join(dir, upgradeMark))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	old := f.base + "." + string(version)
	for _, suffix := range []string{"", ".run"} { // both are links if the new cluster is outside of the data folder
		next, current := filepath.Join(dir, clusterFolder)+suffix, f.base+suffix
		if _, err := os.Lstat(next); errors.Is(err, os.ErrNotExist) {
			continue // moved before a crash
		}
		if err := os.Rename(current, old+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Rename(next, current); err != nil {
			return err
		}
		if err := syncDir(f.dir); err != nil {
			return err
		}
	}
	f.place(relocated(f.base))
	if f.account, err = chooseAccount(f.cluster); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), syncDir(f.dir), f.checkCluster())
}
