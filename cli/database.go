package cli

import (
	"context"
	"time"

	"spoolwright/db"
	"spoolwright/db/local"
)

// databasePatience is how long a program that starts waits for a database that is out of reach.
const databasePatience = time.Minute

// WithDatabase connects to DATABASE_URL or gets a private PostgreSQL from start (local.Start or local.Attach), migrates
// the database, calls fn, and closes what it opened. It waits for a database that is out of reach. The error wraps ErrInterrupted if ctx ended before fn was called.
func WithDatabase(ctx context.Context, c Config, start func(context.Context, local.Options) (*local.Server, error),
	fn func(*db.DB) error) error {
	return withDatabase(ctx, c, start, func(d *db.DB, _ string) error { return fn(d) })
}

// withDatabase is WithDatabase for an fn that also needs the connection string of the login that migrates.
func withDatabase(ctx context.Context, c Config, start func(context.Context, local.Options) (*local.Server, error),
	fn func(d *db.DB, ownerURL string) error) (err error) {
	ownerURL, appURL := c.MigrateURL, c.DatabaseURL
	if appURL == "" {
		private, err := start(ctx, local.Options{Dir: c.DataDir, Log: c.Log, Throwaway: c.Throwaway})
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
	if ownerURL == "" {
		ownerURL = appURL
	}
	var applied db.Applied
	err = db.Await(ctx, c.Log, databasePatience, func(ctx context.Context) (err error) {
		applied, err = db.Migrate(ctx, ownerURL, appURL, c.Definitions)
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	if applied != (db.Applied{}) {
		c.Log.Info("the database was migrated", "migrations", applied.Migrations, "definitions", applied.Definitions)
	}
	var d *db.DB
	err = db.Await(ctx, c.Log, databasePatience, func(ctx context.Context) (err error) {
		d, err = db.Open(ctx, db.Config{URL: appURL, MaxConns: c.MaxConns, Log: c.Log, Definitions: c.Definitions})
		return err
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	defer d.Close()
	return fn(d, ownerURL)
}
