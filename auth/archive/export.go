package archive

import (
	"context"
	"io"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/tables"
)

// Export writes a file with all data of the tenant of ctx, as of one moment, and with the parts. The memory that it
// needs does not depend on the size of the farm.
func Export(ctx context.Context, d *db.DB, to io.Writer, parts Parts) error {
	if err := d.WriteLocal(ctx, audit.Export("farm")); err != nil {
		return err
	}
	return d.Snapshot(ctx, func(t *tables.Tx) error {
		h := Header{File: fileKind, Version: fileVersion, Program: cli.BuildVersion(), Tenant: db.ActorOf(ctx).Tenant,
			Time: time.Now().UTC().Truncate(time.Second), Parts: parts}
		err := t.Row(`select name, (`+schemaSQL+`) from tenants`, &h.Name, &h.Schema)
		if err != nil {
			return err
		}
		w := newWriter(to)
		if err := w.line(h); err != nil {
			return err
		}
		for _, table := range tablesOf(t.Tables) {
			rows := query(table, parts)
			if rows == "" {
				continue
			}
			err := w.table(section{table.Name, table.Columns}, func() (int64, error) { return t.WriteRows(w, rows) })
			if err != nil {
				return err
			}
		}
		return w.close()
	})
}

const schemaSQL = `select max(version) from schema_migrations`
