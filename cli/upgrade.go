package cli

import (
	"context"
	"errors"
	"fmt"

	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/db/tables"
)

// UpgradeCommand moves the private database to a newer PostgreSQL.
var UpgradeCommand = Command{
	Name: "upgrade-data",
	Help: "move the private database to the newest PostgreSQL that is installed\n\n" +
		"Needs the PostgreSQL that created the data folder and the new one, and room for two databases. The service must " +
		"be stopped. The old database remains in the data folder.",
	Needs: Settings,
	Setup: Without(upgradeData),
}

func upgradeData(ctx context.Context, call *Call) error {
	c := call.Config
	if c.DatabaseURL != "" {
		return Misuse{errors.New("DATABASE_URL is set: upgrade-data is for the private database in DATA_DIR; " +
			"upgrade your own with the tools of PostgreSQL")}
	}
	if !local.Exists(c.DataDir) {
		return Misuse{noFarm(c.DataDir, false)}
	}
	migrate := func(ctx context.Context, s *local.Server) error {
		_, err := db.Migrate(ctx, s.OwnerURL(), s.AppURL(), c.Definitions)
		return err
	}
	u, err := local.Upgrade(ctx, local.Options{Dir: c.DataDir, Log: c.Log, Elsewhere: c.elsewhere},
		func(ctx context.Context, from, to *local.Server) error {
			// The tables of both databases must be the same.
			if err := errors.Join(migrate(ctx, from), migrate(ctx, to)); err != nil {
				return err
			}
			return tables.CopyAll(ctx, from.SuperURL(), to.SuperURL(), func(table string, rows int64) {
				fmt.Fprintf(call.Out, "%s: %d rows copied and compared\n", table, rows)
			})
		})
	if errors.Is(err, local.ErrInUse) {
		return fmt.Errorf("%w: stop the service first", err)
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(call.Out, "The database now runs with PostgreSQL %d. The old one, of PostgreSQL %d, is in %s:\n"+
		"remove it after the service has started and your data is there.\n", u.To, u.From, Printable(u.Old))
	return nil
}
