package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// A commit whose wait for the synchronous standby ends early is not a success, whatever ended the wait. Reads
// succeed.
func TestCommitWithoutStandby(t *testing.T) {
	t.Parallel()
	s := dbtest.Cluster(t, dbtest.Synchronous)
	d := open(t, db.Config{URL: s.AppURL(), MaxConns: 1})
	ctx := newTenant(t, d)
	dbtest.LoseStandby(t, s)
	for _, function := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		stop := dbtest.Interrupt(t, s, function)
		for name, run := range map[string]func(*db.Stmt) error{
			"Write": func(stmt *db.Stmt) error { return d.Write(ctx, stmt) },
			"Tx": func(stmt *db.Stmt) error {
				return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, stmt) })
			},
			"Bulk": func(stmt *db.Stmt) error {
				return d.Bulk(ctx, func(ctx context.Context) error { return d.Write(ctx, stmt) })
			},
		} {
			row := name + ", " + function
			if err := run(addRow(row)); !errors.Is(err, db.ErrOutcomeUnknown) || !errors.Is(err, db.ErrUnavailable) {
				t.Errorf("%s: %v", row, err)
			}
			if got := value[int](t, d, ctx, `select count(*)::int from row_counts where resource = $1`,
				row); got != 1 {
				t.Errorf("%s: %d rows, want the committed one", row, got)
			}
			if err := d.Tx(ctx,
				func(ctx context.Context) error { return d.Read(ctx, db.SQL(countTenants)) }); err != nil {
				t.Errorf("a transaction that only reads, after %s: %v", row, err)
			}
		}
		stop()
	}

	// A repeatable transaction is repeated until its own commit is confirmed.
	tries := 0
	stop := dbtest.Interrupt(t, s, "pg_cancel_backend")
	err := d.TxRepeatable(ctx, func(ctx context.Context) error {
		if tries++; tries == 3 {
			dbtest.FindStandby(t, s)
		}
		return d.Write(ctx, db.SQL(`insert into row_counts (resource, shard, rows) values ('repeated', 0, 0)
			on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + 1`))
	})
	stop()
	if err != nil || tries < 3 {
		t.Errorf("a repeatable transaction: %v after %d tries", err, tries)
	}
	write(t, d, ctx, addRow("after")) // no notice of an earlier transaction counts
}

// The service's own deadline ends the wait too.
func TestCommitWithoutStandbyUntilDeadline(t *testing.T) {
	t.Parallel()
	s := dbtest.Cluster(t, dbtest.Synchronous)
	d := open(t, db.Config{URL: s.AppURL()})
	ctx := newTenant(t, d)
	dbtest.LoseStandby(t, s)
	begin := time.Now()
	if err := d.Write(ctx, addRow("alone")); !errors.Is(err, db.ErrOutcomeUnknown) {
		t.Errorf("a write without its standby: %v", err)
	}
	if took := time.Since(begin); took < 9*time.Second {
		t.Errorf("the write failed after %v", took)
	}
	wantRows(t, d, ctx, "alone")
}

// PostgreSQL translates the text of the notice, and gives it the SQLSTATE of any warning.
func TestTranslatedNotice(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t)
	ctx := newTenant(t, d)
	notice := func(routine string) *pgconn.Notice {
		return &pgconn.Notice{Severity: "WARNUNG", SeverityUnlocalized: "WARNING", Code: "01000", Routine: routine,
			Message: "storniere Warten auf synchrone Replikation wegen Benutzeraufforderung"}
	}
	for routine, want := range map[string]error{"SyncRepWaitForLSN": db.ErrOutcomeUnknown, "exec_stmt_raise": nil} {
		err := d.Tx(ctx, func(ctx context.Context) error {
			if err := d.Write(ctx, addRow(routine)); err != nil {
				return err
			}
			db.Notify(ctx, notice(routine))
			return nil
		})
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("a notice of %s: %v, want %v", routine, err, want)
		}
	}
}
