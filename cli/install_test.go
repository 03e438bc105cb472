package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"spoolwright/db/local"
)

// Without a yes, no program is started to fetch PostgreSQL, and nothing is asked if a package would not help.
func TestInstallNeedsConsent(t *testing.T) {
	if _, ok := local.ThisPackage(); !ok {
		t.Skip("there is no package for this platform")
	}
	folder := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", folder)
	t.Setenv("HOME", folder)
	t.Setenv("PATH", folder)
	called := filepath.Join(folder, "called")
	script := "#!/bin/sh\n: >" + called + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(folder, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	missing, other := fmt.Errorf("%w: test", local.ErrInstallable), fmt.Errorf("%w: test", local.ErrNoPostgres)
	for name, test := range map[string]struct {
		err        error
		setting    string
		answer     string // at the terminal; "" without one
		fetch, ask bool
	}{
		"no terminal":        {missing, "", "", false, false},
		"no":                 {missing, "no", "y", false, false},
		"yes":                {missing, "YES", "", true, false},
		"yes on a terminal":  {missing, "yes", "n", true, false},
		"answer no":          {missing, "", "n", false, true},
		"answer yes":         {missing, "", "y", true, true},
		"of another version": {other, "yes", "y", false, false},
	} {
		os.Remove(called)
		asked := false
		c := Config{install: test.setting, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		if test.answer != "" {
			c.ask = func(context.Context, string) bool { asked = true; return test.answer == "y" }
		}
		starts := 0
		_, err := startPrivate(t.Context(), c, func(context.Context, local.Options) (*local.Server, error) {
			starts++
			return nil, test.err
		})
		_, statErr := os.Stat(called)
		if fetched := statErr == nil; fetched != test.fetch || asked != test.ask || starts != 1 || err == nil {
			t.Errorf("%s: fetched %v, asked %v, %d starts, %v", name, fetched, asked, starts, err)
		}
	}
}
