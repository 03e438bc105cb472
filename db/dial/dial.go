// Package dial connects to PostgreSQL by the connection strings that deployers set, directly or through a connection
// pooler. It also recognizes the warning of a commit that no standby confirmed.
package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// ErrURL is the error of a connection string that pgx cannot parse.
var ErrURL = errors.New("the database URL is invalid (it is not shown here, because it may hold a password)")

// ErrPooler is the error of a connection through a pooler that does not support named statements: some requests would
// fail. Connections whose URL sets default_query_exec_mode are not checked.
var ErrPooler = errors.New("it leads to a connection pooler such as PgBouncer, which requires the parameter " +
	"default_query_exec_mode=cache_describe (see docs/database.md)")

// ConnectTimeout is the time for a connection attempt if the URL does not set connect_timeout.
const ConnectTimeout = 5 * time.Second

// Connect opens a connection.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, ErrURL
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = ConnectTimeout
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	RegisterTypes(conn.TypeMap())
	return conn, nil
}

// RegisterTypes tells pgx the PostgreSQL types of arguments, which pgx must know in the exec modes exec and
// simple_protocol. A pointer has the type of its value. Releases are built with a tag that omits pgx's own list of
// types, whose generic types take 1.4 MB.
func RegisterTypes(types *pgtype.Map) {
	for name, values := range map[string][]any{
		"bool": {false}, "_bool": {[]bool(nil)},
		"int4": {int32(0)}, "_int4": {[]int32(nil)},
		"int8": {0, int64(0)}, "_int8": {[]int(nil), []int64(nil)},
		"float8": {0.0}, "_float8": {[]float64(nil)},
		"text": {""}, "_text": {[]string(nil), []*string(nil)},
		"timestamptz": {time.Time{}}, "_timestamptz": {[]time.Time(nil)},
		"interval": {time.Duration(0)}, "bytea": {[]byte(nil)}, "json": {json.RawMessage(nil)},
	} {
		for _, value := range values {
			types.RegisterDefaultPgType(value, name)
		}
	}
}

// IsNamed reports whether pgx prepares named statements because the URL does not set default_query_exec_mode.
func IsNamed(config *pgx.ConnConfig, url string) bool {
	return config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement &&
		!strings.Contains(url, "default_query_exec_mode")
}

// CheckPooler returns ErrPooler if the connection leads through a pooler.
func CheckPooler(ctx context.Context, conn *pgx.Conn) error {
	var process uint32
	err := conn.QueryRow(ctx, `select pg_backend_pid()::int8`, pgx.QueryExecModeSimpleProtocol).Scan(&process)
	if err == nil && process != conn.PgConn().PID() {
		err = ErrPooler
	}
	return err
}

// IsUnreplicated reports whether the notice says that PostgreSQL committed a transaction without its synchronous
// standby. When something ends the wait for the standby (a cancel request, the end of the session), PostgreSQL reports
// success and sends a warning. The SQLSTATE of the warning is not specific, and its text is translated, so
// IsUnreplicated checks the name of the C function that raised it.
func IsUnreplicated(n *pgconn.Notice) bool {
	return strings.HasPrefix(n.Routine, "SyncRepWait") || strings.Contains(n.Detail, "might not have been replicated")
}
