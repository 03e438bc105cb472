package db

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/dial"
)

// A connection that leads to PostgreSQL directly keeps the settings that are the same for all transactions: the role,
// the schemas, and the timeouts. A transaction then sets only its tenant and user (bindSessionSQL). On a connection
// through a pooler, which assigns a server connection to each transaction, nothing is set for the session, and
// bind_tenant sets everything for the transaction.

// prepareSQL applies the settings to the session and returns a row for each of them, if $1 is the server process of
// the session. A pooler gives its clients process numbers of its own, which are those of no server process.
//
// Plans must be good while PostgreSQL does not know the tables. A connection plans its statements again after
// Config.PlanAge, because a plan for a small table can read all rows of the table that it has become. Three dangers
// remain for a new plan of a table without statistics, which TestPlans shows: joins, sequential scans, and sorts. A
// join of a set of ids with a table is a lateral subquery with "offset 0", which must look up each id.
//
// A sequential scan would be the best plan for a table that is small when the plan is made, but slow when the table
// has grown. Sorting all rows would be the best plan for a list while PostgreSQL does not know that most rows of the
// table belong to one tenant. Off means that PostgreSQL uses an index that has the order, if there is one. AllowScans
// allows both for the rest of a transaction. PostgreSQL assigns a very high cost to what is off and cannot be avoided,
// and would compile such a plan (jit), which takes longer than running it.
const prepareSQL = `
	select set_config(s.name, s.value, false) from (values
		('role', '` + appRole + `'), ('search_path', '` + appSchemas + `'), ('statement_timeout', '8s'),
		('lock_timeout', '5s'), ('idle_in_transaction_session_timeout', '15s'),
		('enable_seqscan', 'off'), ('enable_sort', 'off'), ('jit', 'off')
	) s (name, value) where $1 = pg_backend_pid()`

// bindSession binds the current transaction to tenant $1. The transaction must be in a prepared session: if the
// session lost its role or its schemas, refuse raises SW500. CASE evaluates its conditions in order, so the policies
// of the tables in later conditions see the tenant.
const bindSession = `
	select case
		when current_user <> '` + appRole + `' or current_setting('search_path') <> '` + appSchemas + `'
			then refuse('SW500', 'the session lost its role or its schemas')
		when set_config('app.tenant_id', $1, true) || `

// bindSessionSQL binds the current transaction to tenant $1 and user $2, both of which may be empty, and checks that
// the user has the role $3, as bind_tenant does.
const bindSessionSQL = bindSession + `set_config('app.user_id', $2, true) is null then null
		when $2 <> '' and not exists (
			select from users u where u.tenant_id = nullif($1, '')::uuid and u.id = nullif($2, '')::uuid
				and u.role = $3 and u.disabled_at is null)
			then refuse('SW401', 'the caller is unknown, disabled, or has another role')
	end`

// bindKeySessionSQL binds the current transaction to tenant $1 and API key $2, and checks that the key is valid and
// has a secret with the hash $3, as bind_key does.
const bindKeySessionSQL = bindSession + `set_config('app.api_key_id', $2, true) is null then null
		when not exists (
			select from api_keys k where k.tenant_id = nullif($1, '')::uuid and k.id = nullif($2, '')::uuid
				and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
				and (k.hash = $3 or k.previous_hash = $3 and k.previous_until > now()))
			then refuse('SW402', 'the API key is unknown, revoked or expired')
	end`

const appSchemas = "public, pg_temp"

// sessionKey is the key in a connection's custom data for its *session, if the session is prepared.
const sessionKey = "spoolwright.session"

// session is a server session with the settings of prepareSQL.
type session struct {
	planned    time.Time                     // when the session last discarded its plans
	statements map[string]*preparedStatement // for pipelined transactions, by SQL
	count      int                           // of statements that were prepared
	queries    []pgx.ExtendedQueryBuilder    // keep their buffers
}

const discardSQL = `discard plans`

// prepareSession applies prepareSQL to a new connection. If PostgreSQL rejects it, because it is not migrated or the
// login is not a member of the role, the session stays as it is, and bind_tenant reports the reason.
//
// If named is set, the URL does not choose how statements are sent, so that pgx prepares named statements. The error
// is dial.ErrPooler if the connection leads through a pooler then.
func prepareSession(ctx context.Context, conn *pgx.Conn, named bool) error {
	dial.RegisterTypes(conn.TypeMap())
	prepared := 0
	var b pgx.Batch // see Ready
	b.Queue(prepareSQL, int32(conn.PgConn().PID())).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			prepared++
		}
		return rows.Err()
	})
	err := conn.SendBatch(ctx, &b).Close()
	var pg *pgconn.PgError
	isPg := errors.As(err, &pg)
	switch {
	// The codes are those of a named statement that another server process has, or that the process does not have.
	case named && (err == nil && prepared == 0 || isPg && (pg.Code == "42P05" || pg.Code == "26000")):
		return dial.ErrPooler
	case err == nil && prepared > 0:
		conn.PgConn().CustomData()[sessionKey] = &session{planned: time.Now(),
			statements: map[string]*preparedStatement{}}
	case isPg && !isBroken(err):
		return nil
	}
	return err
}

// outdated reports whether the session must discard its plans now.
func (s *session) outdated(age time.Duration) bool {
	now := time.Now()
	if now.Sub(s.planned) < age {
		return false
	}
	s.planned = now
	return true
}

// sessionOf returns the prepared session of a connection, or nil.
func (d *DB) sessionOf(conn *pgx.Conn) *session {
	s, _ := conn.PgConn().CustomData()[sessionKey].(*session)
	if d.unprepared.Load() {
		return nil
	}
	return s
}

// queueBind adds the statement that binds the transaction to the actor. An empty tenant binds to no tenant.
func (d *DB) queueBind(b *pgx.Batch, conn *pgx.Conn, a Actor) {
	s := d.sessionOf(conn)
	if s != nil && s.outdated(d.planAge) {
		b.Queue(discardSQL)
	}
	bind := bindOf(a, s != nil)
	b.Queue(bind.SQL, bind.Args...)
}

// bindOf returns the statement that binds the transaction to the actor, in a prepared session or in another one.
func bindOf(a Actor, prepared bool) Statement {
	if a.APIKey != "" {
		sql := bindKeySQL
		if prepared {
			sql = bindKeySessionSQL
		}
		return Statement{sql, []any{a.Tenant, a.APIKey, []byte(a.KeyHash)}}
	}
	if prepared {
		role := a.Role
		if a.User == "" {
			role = ""
		}
		return Statement{bindSessionSQL, []any{a.Tenant, a.User, role}}
	}
	var tenant, user, role any
	if a.Tenant != "" {
		tenant = a.Tenant
	}
	if a.User != "" {
		user, role = a.User, a.Role
	}
	return Statement{bindSQL, []any{tenant, user, role}}
}

// AllowScans returns a statement that must precede statements that read all rows of a tenant, such as a sort without
// an index or a report. It allows sequential scans and any sort, and makes PostgreSQL plan each execution: the best
// plan depends on the share of the tenant in the table. A plan for several executions would be one for a tenant of
// average size.
func AllowScans() *Stmt {
	return SQL(`select set_config('plan_cache_mode', 'force_custom_plan', true),
		set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true)`)
}

// FreshPlan returns a statement that makes PostgreSQL plan each later execution in the transaction. Statements that
// read many rows with joins need it: a plan that was made while a table was small can be slower by orders of
// magnitude.
func FreshPlan() *Stmt {
	return SQL(`select set_config('plan_cache_mode', 'force_custom_plan', true)`)
}

// isUnprepared reports whether bindSessionSQL found that the session lost its settings. Nothing has been executed
// then.
func isUnprepared(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "SW500"
}
