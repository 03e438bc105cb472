package app

import (
	"log/slog"
	"os"
)

// makeFolder creates a temporary folder. On Windows, the demo then fails, because it needs a private PostgreSQL.
func makeFolder() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "spoolwright-demo-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// removeLeftovers does nothing.
func removeLeftovers(*slog.Logger) {}
