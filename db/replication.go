package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/dial"
)

// errUnreplicated means that PostgreSQL committed the transaction but stopped waiting for its synchronous standby, so
// that a failover can lose the transaction.
var errUnreplicated = fmt.Errorf("%w: committed on the primary, but not confirmed by a synchronous standby",
	ErrOutcomeUnknown)

// unreplicatedKey is the key in a connection's custom data that is set if PostgreSQL sent the warning since
// beginWrite.
const unreplicatedKey = "spoolwright.unreplicated"

// recordNotice is the notice handler of every connection.
func recordNotice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if dial.IsUnreplicated(n) {
		conn.CustomData()[unreplicatedKey] = true
	}
	switch n.Code {
	case "SW200":
		conn.CustomData()[queuedKey] = true
	case auditCode:
		entries, _ := conn.CustomData()[auditKey].([]string)
		conn.CustomData()[auditKey] = append(entries, n.Message)
	}
}

// beginWrite forgets the notices of earlier transactions of the connection.
func beginWrite(conn *pgxpool.Conn) {
	data := conn.Conn().PgConn().CustomData()
	delete(data, unreplicatedKey)
	delete(data, queuedKey)
	delete(data, auditKey)
}

// endWrite returns the outcome of a transaction that changed something. The argument err is the result of its commit.
func (d *DB) endWrite(conn *pgxpool.Conn, err error) error {
	data := conn.Conn().PgConn().CustomData()
	if data[queuedKey] != nil {
		select {
		case d.queued <- struct{}{}:
		default:
		}
	}
	if err != nil {
		return withOutcome(err)
	}
	if d.diskFailed.Load() != 0 {
		d.diskFailed.Store(0)
	}
	if entries, ok := data[auditKey].([]string); ok {
		d.logEntries(entries)
	}
	if data[unreplicatedKey] != nil {
		return errUnreplicated
	}
	return nil
}

// withOutcome wraps the error of a commit in ErrOutcomeUnknown if PostgreSQL may have committed.
func withOutcome(err error) error {
	var pg *pgconn.PgError
	switch {
	case neverSent(err), errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &pg) && !isBroken(err):
		return err
	case isBroken(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		pgconn.Timeout(err):
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// errReadOnly means that the connection leads to a standby, or to a former primary that a failover has demoted.
var errReadOnly = fmt.Errorf("%w: PostgreSQL accepts only reads: it is a standby, or was demoted", ErrUnavailable)

// isReadOnly reports whether PostgreSQL rejected a write because it accepts only reads.
func isReadOnly(err error) bool {
	if err == nil {
		return false // in most cases, without an allocation
	}
	var pg *pgconn.PgError
	return errors.Is(err, errReadOnly) || errors.As(err, &pg) && pg.Code == "25006"
}

// reconnectAfter is the minimum time between two replacements of the connections because PostgreSQL is read-only.
const reconnectAfter = time.Second

// reconnect closes the idle connections of the pool at once, and the others when they are released, so that new
// connections lead to the new primary.
func (d *DB) reconnect() {
	now, last := time.Now().UnixNano(), d.reconnected.Load()
	if now-last >= int64(reconnectAfter) && d.reconnected.CompareAndSwap(last, now) {
		d.pool.Reset()
	}
}

// release returns the connection to the pool after a transaction with the result err, or closes it if it is read-only.
func release(ctx context.Context, conn *pgxpool.Conn, err error) {
	if isReadOnly(err) {
		conn.Conn().Close(ctx)
	}
	conn.Release()
}
