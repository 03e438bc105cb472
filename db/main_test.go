package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// urls has the connection strings of a database for three logins.
type urls struct{ super, owner, app string }

// emptyDatabase creates a database without any migration. It ends with the test.
func emptyDatabase(t *testing.T) urls { t.Helper(); return urlsOf(testkit.NewDatabase(t)) }

func urlsOf(name string) urls {
	p := testkit.Private()
	return urls{testkit.WithDatabase(p.SuperURL(), name), testkit.WithDatabase(p.OwnerURL(), name),
		testkit.WithDatabase(p.AppURL(), name)}
}

// migratedDatabase creates a database for a test that cannot share the common one.
func migratedDatabase(t *testing.T) urls { t.Helper(); return urlsOf(testkit.MigratedDatabase(t)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if err := conn.PgConn().Exec(context.WithoutCancel(t.Context()), sql).Close(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func open(t *testing.T, c db.Config) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), c)
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	return d
}

// openSingle opens a pool with a single connection.
func openSingle(t *testing.T) *db.DB {
	t.Helper()
	return open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 1})
}

// newTenant creates a tenant and returns a context that is bound to it.
func newTenant(t *testing.T, d *db.DB) context.Context {
	t.Helper()
	ctx := db.As(t.Context(), db.Actor{Tenant: value.NewID()})
	write(t, d, ctx, db.SQL(`insert into tenants (name) values ('test')`))
	return ctx
}

func read(t *testing.T, d *db.DB, ctx context.Context, stmts ...*db.Stmt) {
	t.Helper()
	testkit.Check(t, d.Read(ctx, stmts...))
}

func write(t *testing.T, d *db.DB, ctx context.Context, stmts ...*db.Stmt) {
	t.Helper()
	testkit.Check(t, d.Write(ctx, stmts...))
}

// single returns the value of a query with one row and one column.
func single[T any](t *testing.T, d *db.DB, ctx context.Context, sql string, args ...any) T {
	t.Helper()
	var v T
	read(t, d, ctx, db.SQL(sql, args...).Into(&v))
	return v
}

// newBinding returns a context that is bound to a tenant without any row.
func newBinding(t *testing.T) context.Context {
	return db.As(t.Context(), db.Actor{Tenant: value.NewID()})
}
