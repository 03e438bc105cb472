package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/db/schema"
	"spoolwright/db/tables"
)

// databasePatience is the time for which a program that starts waits for an unreachable database.
const databasePatience = time.Minute

// WithDatabase connects to DATABASE_URL or to a private PostgreSQL from start (local.Start or local.Attach), migrates
// the database, calls fn, and closes the connections and the private PostgreSQL. It waits for an unreachable database.
// The error wraps ErrInterrupted if ctx ended before fn was called. If the user runs the database, errors name the
// variable.
func WithDatabase(ctx context.Context, c Config, start func(context.Context, local.Options) (*local.Server, error),
	fn func(*db.DB) error) error {
	return withDatabase(ctx, c, start, func(d *db.DB, _ tables.Owner) error { return fn(d) })
}

// withDatabase is WithDatabase for a function that also needs the login for migrations.
func withDatabase(ctx context.Context, c Config, start func(context.Context, local.Options) (*local.Server, error),
	fn func(d *db.DB, owner tables.Owner) error) (err error) {
	ownerURL, appURL := c.MigrateURL, c.DatabaseURL
	ownerVariable, appVariable := "DATABASE_URL", "DATABASE_URL"
	if ownerURL != "" {
		ownerVariable = "MIGRATE_DATABASE_URL"
	}
	if appURL == "" {
		ownerVariable, appVariable = "", ""
		private, err := startPrivate(ctx, c, start)
		if err != nil {
			return interrupted(ctx, err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			if stopErr := private.Stop(ctx); stopErr != nil && err == nil {
				err = stopErr
			}
		}()
		ownerURL, appURL = private.OwnerURL(), private.AppURL()
	}
	ownerURL = cmp.Or(ownerURL, appURL)
	var applied schema.Applied
	err = db.Await(ctx, c.Log, databasePatience, func(ctx context.Context) (err error) {
		applied, err = db.Migrate(ctx, ownerURL, appURL, c.Definitions)
		return err
	})
	if err != nil {
		return interrupted(ctx, explain(ownerVariable, err))
	}
	if applied.Completed > 0 {
		c.Log.Info("the database was migrated", "version", applied.Completed, "definitions", applied.Definitions)
	}
	var d *db.DB
	config := db.Config{URL: appURL, MaxConns: c.MaxConns, Log: c.Log, Definitions: c.Definitions}
	err = db.Await(ctx, c.Log, databasePatience, func(ctx context.Context) (err error) {
		d, err = db.Open(ctx, config)
		return err
	})
	if err != nil {
		return interrupted(ctx, explain(appVariable, err))
	}
	defer d.Close()
	return fn(d, tables.Owner{URL: ownerURL})
}

const percentEncode = "percent-encode special characters of the password: @ is %40, / is %2F, % is %25"

// explain adds the name of the variable to an error of the database whose URL is in the variable, and advice if it has
// any. An empty variable means the private PostgreSQL.
func explain(variable string, err error) error {
	if variable == "" {
		return err
	}
	advice := ""
	pg, refused := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case refused && (pg.Code == "28P01" || pg.Code == "28000"):
		advice = "check the login and its password; " + percentEncode
	case refused && pg.Code == "3D000":
		advice = "check the name of the database, or create it with CREATE DATABASE"
	case connecting && refused && pg.Code == "42501":
		advice = "run GRANT CONNECT ON DATABASE for the login"
	case connecting && !refused:
		advice = "check the host and the port, and that PostgreSQL runs there"
	}
	return startError{variable, advice, err}
}

type startError struct {
	variable, advice string
	err              error
}

func (e startError) Error() string {
	// A pgx error has a line for each attempt to connect: first with TLS, then without TLS.
	attempts := slices.Compact(strings.Split(strings.TrimPrefix(e.err.Error(), "database: "), "\n\t"))
	text := e.variable + ": " + attempts[0]
	if len(attempts) > 1 {
		text += " " + strings.Join(attempts[1:], "; ")
	}
	if e.advice != "" {
		text += ": " + e.advice
	}
	return text
}

func (e startError) Unwrap() error { return e.err }
