package local

import (
	"context"
	"errors"
)

// errWindows is the error of all that needs a private PostgreSQL or files that other accounts cannot read.
var errWindows = errors.New("on Windows, this program has no private PostgreSQL and no files with secrets: set " +
	"DATABASE_URL and JWT_SECRET, and for HTTPS TLS_CERT_FILE and TLS_KEY_FILE, or use WSL")

// Server is a running PostgreSQL. There is none on Windows.
type Server struct{}

// Start returns an error.
func Start(context.Context, Options) (*Server, error) { return nil, errWindows }

// Attach returns an error.
func Attach(context.Context, Options) (*Server, error) { return nil, errWindows }

// RemoveThrowaway does nothing.
func RemoveThrowaway(string) error { return nil }

// Exists returns true, so that commands go on to Attach, whose error says what to do.
func Exists(string) bool { return true }

// Upgrade returns an error.
func Upgrade(context.Context, Options, func(ctx context.Context, from, to *Server) error) (Upgraded, error) {
	return Upgraded{}, errWindows
}

// ThisPackage returns false.
func ThisPackage() (Package, bool) { return Package{}, false }

// Install returns an error.
func (Package) Install(context.Context) (string, error) { return "", errWindows }

// ReadPrivate returns an error.
func ReadPrivate(string) ([]byte, error) { return nil, errWindows }

// WritePrivate returns an error.
func WritePrivate(string, []byte) error { return errWindows }

// OwnerURL returns "".
func (*Server) OwnerURL() string { return "" }

// AppURL returns "".
func (*Server) AppURL() string { return "" }

// SuperURL returns "".
func (*Server) SuperURL() string { return "" }

// Stop does nothing.
func (*Server) Stop(context.Context) error { return nil }
