//go:build unix

package local

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	clusterFolder = "postgres"

	port        = "5432" // part of the socket file's name; no TCP port is opened
	socketFile  = "/.s.PGSQL." + port
	socketLimit = len(syscall.RawSockaddrUnix{}.Path) - 1
)

// folder is the data folder and the paths in it.
type folder struct {
	dir     string // absolute, without symbolic links
	created bool   // created by this process
	account *account

	base        string // the name of the cluster in dir
	cluster     string // base, or the target of the link base
	staging     string // where initdb creates the cluster
	sockets     string
	logFile     string
	secretsFile string

	lockFile string
	lock     *os.File
}

// account is the operating system account that PostgreSQL runs as.
type account struct {
	name string
	uid  int
	cred *syscall.Credential // nil: the account of this process
}

// Exists reports whether the data folder contains a cluster.
func Exists(dir string) bool {
	for _, name := range []string{clusterFolder, filepath.Join(upgradeFolder, upgradeMark)} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// openFolder opens the data folder, creates it if it does not exist, and checks the owners of its files.
func openFolder(dir string, throwaway bool) (*folder, error) {
	if dir == "" {
		return nil, errors.New("the data folder is not set")
	}
	f := &folder{}
	_, err := os.Stat(dir)
	if f.created = errors.Is(err, os.ErrNotExist); f.created {
		mode := os.FileMode(0o700)
		if os.Geteuid() == 0 {
			mode = 0o711 // PostgreSQL's account must enter it
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return nil, err
		}
	}
	if f.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if f.dir, err = filepath.EvalSymlinks(f.dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(f.dir)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(f.dir, info); err != nil {
		return nil, err
	}
	f.base = filepath.Join(f.dir, clusterFolder)
	if throwaway {
		f.base = filepath.Join(f.dir, "throwaway") // separate from the durable cluster
	}
	f.logFile, f.secretsFile = f.base+".log", f.base+".passwords"
	f.lockFile = filepath.Join(f.dir, "postgres.lock")
	f.place(relocated(f.base))
	if f.account, err = chooseAccount(f.cluster); err != nil {
		return nil, err
	}
	for _, file := range []string{f.lockFile, f.logFile, f.secretsFile} {
		if info, err := os.Lstat(file); err == nil {
			if err := checkOwner(file, info, os.Geteuid()); err != nil {
				return nil, err
			}
		}
	}
	return f, f.checkCluster()
}

// place sets the paths that PostgreSQL's account uses.
func (f *folder) place(cluster string) {
	f.cluster, f.staging = cluster, cluster+".new"
	f.sockets = f.socketFolder()
}

// relocatedName is the name of a cluster outside of the data folder.
var relocatedName = regexp.MustCompile(`^postgres-[0-9A-Z]{26}$`)

// relocated returns the cluster to which relocate has linked base, or base itself. Only root follows such a link, and
// only if no other account can have replaced the cluster.
func relocated(base string) string {
	target, err := os.Readlink(base)
	if err != nil || os.Geteuid() != 0 || !filepath.IsAbs(target) ||
		!relocatedName.MatchString(filepath.Base(target)) {
		return base
	}
	link, err1 := os.Lstat(base)
	parent, err2 := os.Lstat(filepath.Dir(target))
	if err1 != nil || err2 != nil || owner(link) != 0 || owner(parent) != 0 || !parent.IsDir() ||
		parent.Mode().Perm()&0o022 != 0 {
		return base
	}
	return target
}

// relocate places a new cluster in the folder elsewhere, and creates a link to it in the data folder.
func (f *folder) relocate(elsewhere string) error {
	if err := os.MkdirAll(elsewhere, 0o711); err != nil {
		return err
	}
	target := filepath.Join(elsewhere, "postgres-"+rand.Text())
	for _, suffix := range []string{"", ".run"} {
		link := filepath.Join(f.dir, clusterFolder) + suffix
		if info, err := os.Lstat(link); err == nil && info.Mode()&os.ModeSymlink != 0 { // left by an interrupted start
			os.Remove(link)
		}
		if err := os.Symlink(target+suffix, link); err != nil {
			return err
		}
	}
	if relocated(filepath.Join(f.dir, clusterFolder)) != target {
		return fmt.Errorf("%s must be a folder of root that no other account can change", elsewhere)
	}
	f.place(target)
	return nil
}

// socketFolder returns a folder beside the cluster. If its path is too long for a socket address, or contains a comma,
// which separates hosts in connection strings, socketFolder returns a folder in the temporary folder.
func (f *folder) socketFolder() string {
	usable := func(p string) bool { return len(p)+len(socketFile) <= socketLimit && !strings.Contains(p, ",") }
	sum := sha256.Sum256([]byte(f.cluster))
	name := fmt.Sprintf("spoolwright-%x-%d", sum[:8], os.Geteuid())
	for _, p := range []string{f.cluster + ".run", filepath.Join(os.TempDir(), name)} {
		if usable(p) && filepath.IsAbs(p) {
			return p
		}
	}
	return filepath.Join("/tmp", name)
}

// makeSockets creates the socket folder and gives it to PostgreSQL's account. In a shared temporary folder, another
// account may have created a file with the same name: makeSockets returns an error unless the name is a directory of
// this account or of PostgreSQL's account.
func (f *folder) makeSockets() error {
	if err := os.Mkdir(f.sockets, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	d, err := os.OpenFile(f.sockets, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s must be a folder, for PostgreSQL's socket: remove it", f.sockets)
	}
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if err := checkOwner(f.sockets, info, os.Geteuid(), f.account.uid); err != nil {
		return err
	}
	if cred := f.account.cred; cred != nil {
		if err := d.Chown(int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	return d.Chmod(0o700)
}

// chown makes PostgreSQL's account the owner of path.
func (f *folder) chown(path string) error {
	if f.account.cred == nil {
		return nil
	}
	return os.Lchown(path, int(f.account.cred.Uid), int(f.account.cred.Gid))
}

// chooseAccount returns the account to run PostgreSQL as. This is the account of this process, unless it is root:
// PostgreSQL refuses to run as root. Then it is postgres or nobody, and preferably the account that already owns the
// cluster.
func chooseAccount(cluster string) (*account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return &account{name: accountName(uid), uid: uid}, nil
	}
	var found *account
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		groups, _ := u.GroupIds()
		var ids []uint32
		for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
			id, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("account %s: %w", name, err)
			}
			ids = append(ids, uint32(id))
		}
		cred := &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}
		a := &account{name: name, uid: int(ids[0]), cred: cred}
		if info, err := os.Lstat(cluster); err == nil && owner(info) == a.uid {
			return a, nil
		}
		if found == nil {
			found = a
		}
	}
	if found == nil {
		return nil, errors.New("PostgreSQL does not run as root, and neither account postgres nor nobody exists: " +
			"start the service as another account")
	}
	return found, nil
}

// checkOwner returns an error if none of the accounts owns path. The argument info describes path.
func checkOwner(path string, info os.FileInfo, uids ...int) error {
	if slices.Contains(uids, owner(info)) {
		return nil
	}
	return fmt.Errorf("%s belongs to account %s, not to %s: start the service as the account that created the data "+
		"folder, or set DATA_DIR to another folder", path, accountName(owner(info)), accountName(uids[0]))
}

// owner returns the uid of the file's owner.
func owner(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// accountName returns the account's name, or its uid if it has none.
func accountName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// acquire locks the data folder for this process, and records in the lock file whether this process is a service or a
// command. The error wraps ErrInUse if another process holds the lock.
func (f *folder) acquire(as string) error {
	lock, err := openOwn(f.lockFile, 0) // closed on exec: PostgreSQL does not inherit the lock
	if err != nil {
		return err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	held, err1 := lock.Stat()
	named, err2 := os.Stat(f.lockFile)
	// A throwaway removes its lock file when it stops. A lock on the removed file would exclude no other process.
	removed := err1 != nil || err2 != nil || !os.SameFile(held, named)
	if errors.Is(err, syscall.EWOULDBLOCK) || err == nil && removed {
		err = fmt.Errorf("%w: %s", ErrInUse, f.dir)
	}
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt([]byte(as), 0)
	}
	if err != nil {
		lock.Close()
		return err
	}
	f.lock = lock
	return nil
}

// unlock releases the lock that acquire took. Closing the descriptor is not enough: while another goroutine starts a
// process, the child has a copy of the descriptor until the child calls exec.
func (f *folder) unlock() error {
	return errors.Join(syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
}

// holder returns the kind of process that acquire recorded in the lock file.
func (f *folder) holder() string {
	b, _ := os.ReadFile(f.lockFile)
	return string(b)
}

// readSecrets returns the passwords that makeSecrets wrote.
func readSecrets(path string) (secrets, error) {
	var s secrets
	b, err := ReadPrivate(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Superuser == "" || s.Owner == "" || s.Login == "" {
		return s, fmt.Errorf("%s: one of the passwords is missing", path)
	}
	return s, nil
}

// makeSecrets writes the passwords of a new cluster to path. If given is nil, it generates the passwords.
func makeSecrets(path string, given *secrets) (secrets, error) {
	s := secrets{Superuser: rand.Text(), Owner: rand.Text(), Login: rand.Text()}
	if given != nil {
		s = *given
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return s, err
	}
	return s, WritePrivate(path, append(b, '\n'))
}

// syncDir flushes a directory, so that a rename in the directory survives a crash of the machine.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
