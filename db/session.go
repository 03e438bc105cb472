package db

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/dial"
)

// A connection that leads to PostgreSQL directly keeps the settings that are the same for all transactions: the role,
// the schemas, and the timeouts. A transaction then only binds itself to an actor (binding). Through a pooler, which
// assigns a server connection to each transaction, the session has no settings, and each transaction begins with
// settingsSQL.

// settingsSQL applies the settings to the current transaction if $1 is 0. Otherwise, it applies the settings to the
// session and returns a row for each setting if $1 is the server process of the session. If $1 is another number, the
// connection leads through a pooler, which gives its clients its own process numbers, and settingsSQL does nothing.
//
// A transaction waits for its next statement only while this process works, and that of a frozen process for less time
// than others wait for its locks. Imports, archives and exports work longer between statements, and set other times.
//
// Compiling a plan (jit) takes longer than any statement of the service. The random_page_cost is for SSDs and data in
// memory; with the default, which is for rotating disks, PostgreSQL reads whole tables for lists.
const settingsSQL = `
	select set_config(s.name, s.value, $1 = 0) from (values
		('role', '` + appRole + `'), ('search_path', '` + appSchemas + `'), ('statement_timeout', '8s'),
		('lock_timeout', '5s'), ('idle_in_transaction_session_timeout', '4s'),
		('jit', 'off'), ('random_page_cost', '1.1')
	) s (name, value) where $1 in (0, pg_backend_pid())`

// A binding binds the current transaction to an actor: it sets the tenant, the user and the API key, which the
// policies of the tables, the ledger and the audit log read, and checks the actor. The second statement also sets the
// origin of the transaction for the audit log, its last argument.
//
// There is a binding for each kind of actor, because PostgreSQL prepares all conditions of a statement whenever it
// executes it: one statement for all kinds takes 1.5 times as many instructions.
type binding struct{ sql, withOrigin string }

var (
	// bindNobody binds to the tenant $1, which may be empty.
	bindNobody = newBinding(1, `
		when set_config('app.user_id', '', true) is null then null
		when set_config('app.api_key_id', '', true) is null then null`)

	// bindUser binds to the user $2 of the tenant $1, who must exist, be enabled, and have the role $3. Unless $4 is
	// true, the user must not lack the second factor that the tenant requires.
	bindUser = newBinding(4, `
		when set_config('app.user_id', $2::text, true) is null then null
		when set_config('app.api_key_id', '', true) is null then null
		when not coalesce((
			select case when u.otp_missing and not $4
				then raise_code('SW403', 'the caller must set up a second factor first') is null else true end
			from users u where `+validUser("$2::uuid", "$3")+`), false)
			then raise_code('SW401', 'the caller is unknown, disabled, or has another role')`)

	// bindKey binds to the API key $2 of the tenant $1, which must exist and must not be revoked or expired. $3 must be
	// the SHA-256 of its secret, or of its previous secret until the previous secret expires.
	bindKey = newBinding(3, `
		when set_config('app.user_id', '', true) is null then null
		when set_config('app.api_key_id', $2::text, true) is null then null
		when not exists (select from api_keys k where `+validKey("$2::uuid", "$3")+`)
			then raise_code('SW402', 'the API key is unknown, revoked or expired')`)
)

// validUser returns the condition that u is the user of the tenant $1, enabled, and has the role.
func validUser(id, role string) string {
	return `u.tenant_id = $1::uuid and u.id = ` + id + ` and u.role = ` + role + ` and u.disabled_at is null`
}

// validKey returns the condition that k is the API key of the tenant $1, valid, and has a valid secret with the hash.
func validKey(id, hash string) string {
	return `k.tenant_id = $1::uuid and k.id = ` + id + `
		and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
		and (k.hash = ` + hash + ` or k.previous_hash = ` + hash + ` and k.previous_until > now())`
}

// Refused returns a statement that selects the indexes, as n, of those actors that a binding would refuse. The
// transaction must be bound to the tenant, and the actors must be users and API keys of it.
func Refused(tenant string, actors []Actor) *Stmt {
	rows := make([]map[string]any, len(actors))
	for i, a := range actors {
		rows[i] = map[string]any{"is_user": a.User != "", "id": a.ID(), "role": a.Role, "setting_up": a.SettingUp,
			"hash": `\x` + hex.EncodeToString([]byte(a.KeyHash))}
	}
	return SQL(`
		select a.n from json_to_recordset($2::json) as a (
			n int, is_user boolean, id uuid, role text, setting_up boolean, hash bytea)
		where not case when a.is_user
			then exists (
				select from users u where `+validUser("a.id", "a.role")+` and (a.setting_up or not u.otp_missing))
			else exists (select from api_keys k where `+validKey("a.id", "a.hash")+`) end`, tenant, Recordset(rows))
}

// newBinding returns a binding to the tenant $1 with further conditions, which have args arguments together with the
// tenant. If the session lacks the settings of settingsSQL, raise_code raises SW500. CASE evaluates its conditions in
// order, so the policies of the tables in later conditions see the tenant.
func newBinding(args int, conditions string) binding {
	sql := `
	select case
		when current_user <> '` + appRole + `' or current_setting('search_path') <> '` + appSchemas + `'
			then raise_code('SW500', 'the session lost its role or its schemas')
		when set_config('app.tenant_id', $1::text, true) is null then null` + conditions
	origin := `
		when set_config('app.origin', $` + strconv.Itoa(args+1) + `, true) is null then null`
	return binding{sql + ` end`, sql + origin + ` end`}
}

const appSchemas = "public, pg_temp"

// sessionKey is the key of the *session in a connection's custom data. Only prepared sessions have one.
const sessionKey = "spoolwright.session"

// session is a server session with the settings of settingsSQL.
type session struct {
	statements map[string]*preparedStatement // for pipelined transactions, by SQL
	count      int                           // number of statements that were prepared
	queries    []pgx.ExtendedQueryBuilder    // reused to keep their buffers
}

// prepareSession applies settingsSQL to a new connection. If PostgreSQL rejects settingsSQL, because the database is
// not migrated or the login is not a member of the role, the session keeps its settings, and the first transaction
// reports the reason.
//
// If named is set, pgx prepares named statements because the URL does not choose an exec mode. The error is then
// dial.ErrPooler if the connection leads through a pooler.
func prepareSession(ctx context.Context, conn *pgx.Conn, named bool) error {
	dial.RegisterTypes(conn.TypeMap())
	prepared := 0
	var b pgx.Batch // see Ready
	b.Queue(settingsSQL, int32(conn.PgConn().PID())).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			prepared++
		}
		return rows.Err()
	})
	err := conn.SendBatch(ctx, &b).Close()
	var pg *pgconn.PgError
	isPg := errors.As(err, &pg)
	switch {
	// PostgreSQL returns these codes if a pooler has switched the server process: the new process has another
	// statement with the name (42P05) or none (26000).
	case named && (err == nil && prepared == 0 || isPg && (pg.Code == "42P05" || pg.Code == "26000")):
		return dial.ErrPooler
	case err == nil && prepared > 0:
		conn.PgConn().CustomData()[sessionKey] = &session{statements: map[string]*preparedStatement{}}
	case isPg && !isBroken(err):
		return nil
	}
	return err
}

// sessionOf returns the prepared session of a connection, or nil.
func (d *DB) sessionOf(conn *pgx.Conn) *session {
	s, _ := conn.PgConn().CustomData()[sessionKey].(*session)
	if d.unprepared.Load() {
		return nil
	}
	return s
}

// queueBind adds the statements that bind the transaction to the actor. If the tenant is empty, they bind to no
// tenant.
func (d *DB) queueBind(b *pgx.Batch, conn *pgx.Conn, a Actor, origin string) {
	for _, s := range bindOf(a, origin, d.sessionOf(conn) != nil) {
		b.Queue(s.SQL, s.Args...)
	}
}

// bindOf returns the statements that bind a transaction to the actor. If prepared is false, they include settingsSQL.
// Reads need no origin.
func bindOf(a Actor, origin string, prepared bool) []Statement {
	statements := []Statement{a.bind(origin)}
	if !prepared {
		statements = slices.Insert(statements, 0, Statement{settingsSQL, []any{int32(0)}})
	}
	return statements
}

// Bind returns a statement that binds the transaction to the actor from then on, and checks the actor, as the first
// statement of a transaction does. Transactions use it to read several tenants, or to check the actor again under a
// lock. The origin of the transaction stays.
func (a Actor) Bind() *Stmt {
	bind := a.bind("")
	return SQL(bind.SQL, bind.Args...)
}

// bind returns the statement that binds a transaction with an origin, or without one if it is empty.
func (a Actor) bind(origin string) Statement {
	bind, args := bindNobody, []any{a.Tenant}
	switch {
	case a.User != "":
		bind, args = bindUser, []any{a.Tenant, a.User, a.Role, a.SettingUp}
	case a.APIKey != "":
		bind, args = bindKey, []any{a.Tenant, a.APIKey, []byte(a.KeyHash)}
	}
	if origin != "" {
		return Statement{bind.withOrigin, append(args, origin)}
	}
	return Statement{bind.sql, args}
}

// CommandLine is the origin of the transactions of commands.
const CommandLine = "command line"

type originKey struct{}

// From returns a context whose transactions come from the origin, for the audit log: the address of a client, or
// CommandLine. Transactions without an origin are those of the service itself.
func From(ctx context.Context, origin string) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

func originOf(ctx context.Context) string {
	origin, _ := ctx.Value(originKey{}).(string)
	return origin
}

// FreshPlan returns a statement that makes PostgreSQL plan each later execution in the transaction. Statements that
// read many rows with joins need it: a plan that was made while a table was small can be slower by orders of
// magnitude.
func FreshPlan() *Stmt {
	return SQL(`select set_config('plan_cache_mode', 'force_custom_plan', true)`)
}

// isUnprepared reports whether a binding found that the session has lost its settings. No statement of the transaction
// has then been executed.
func isUnprepared(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "SW500"
}
