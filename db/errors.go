package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrUnavailable means that the database is unreachable or overloaded, or that it cancelled a statement. Whether
	// a write was committed may be unknown. The client may retry the request.
	ErrUnavailable = errors.New("the database is unavailable")

	// ErrOutcomeUnknown is an ErrUnavailable for a write that may be committed, rolled back, or committed and later
	// lost in a failover.
	ErrOutcomeUnknown = fmt.Errorf("%w, and the outcome of the write is unknown", ErrUnavailable)

	// ErrTimeout is an ErrUnavailable for a statement that PostgreSQL cancelled because it took too long.
	ErrTimeout = fmt.Errorf("%w: a statement took too long", ErrUnavailable)

	// ErrRevoked means that the context's actor does not exist, is disabled, or has another role.
	ErrRevoked = errors.New("the caller's access was revoked")

	// ErrSetUp means that the context's actor must set up a second factor first.
	ErrSetUp = errors.New("the caller must set up a second factor first")

	// ErrKeyRevoked means that the context's API key does not exist, was revoked or has expired, or that its secret
	// has.
	ErrKeyRevoked = errors.New("the API key is not valid")

	// ErrBulk means that another Bulk of the tenant is running.
	ErrBulk = errors.New("another import into this tenant is running: try again when it has ended")

	// ErrOutOfRange means that a computed number does not fit into its column.
	ErrOutOfRange = errors.New("a computed number is out of range")
)

// Violates reports whether err is a violation of the named constraint or unique index.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && strings.HasPrefix(pg.Code, "23") && pg.ConstraintName == constraint
}

// Detail returns the DETAIL field of the PostgreSQL error in err, or "". SQL functions that raise errors can name a
// row there.
func Detail(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Detail
	}
	return ""
}

// classify wraps err in ErrRevoked, ErrSetUp, ErrKeyRevoked, ErrOutOfRange or ErrUnavailable, or returns err
// unchanged.
func classify(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrSetUp) ||
		errors.Is(err, ErrKeyRevoked) || errors.Is(err, ErrOutOfRange) {
		return err // classified within a transaction
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // whatever reason PostgreSQL or a pooler gives
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "SW401":
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		case pg.Code == "SW403":
			return fmt.Errorf("%w: %w", ErrSetUp, err)
		case pg.Code == "SW402":
			return fmt.Errorf("%w: %w", ErrKeyRevoked, err)
		case pg.Code == "22003":
			return fmt.Errorf("%w: %w", ErrOutOfRange, err)
		case pg.Code == "57014":
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		case isTransient(err), isBroken(err),
			pg.Code == "55P03",                     // lock timeout
			pg.Code == "25006",                     // read-only: a standby
			strings.HasPrefix(pg.Code, "53"),       // out of connections, memory or disk space
			strings.HasPrefix(pg.Code, "58"),       // I/O error
			pg.Code == "XX001", pg.Code == "XX002": // corrupted data or index
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	if isBroken(err) || pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// isTransient reports whether PostgreSQL rolled the transaction back for a reason that a retry may avoid: a
// serialization failure, a deadlock, a stale statement, or an internal error.
func isTransient(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") || isStale(err) ||
		internalError(err) != nil
}

// isStale reports whether a prepared statement failed because a migration changed the types of its columns.
func isStale(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery"
}

// internalError returns the PostgreSQL internal error (XX000) in err, or nil. Rare races between transactions cause
// some of these errors, such as "new multixact has more than one updating member": TestFaults saw it once in 150,000
// writes.
func internalError(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "XX000" {
		return pg
	}
	return nil
}

// diskFailedFor is the time for which Ready fails after a failure of the disk, unless a write succeeds earlier. After
// this time, load balancers send requests again; without writes, the service would not notice that the disk has space.
const diskFailedFor = time.Minute

var errDiskFailed = fmt.Errorf("%w: PostgreSQL could not write to its disk, and no write has succeeded since",
	ErrUnavailable)

// isDiskFailure reports whether PostgreSQL could not write a file, usually because the disk is full.
func isDiskFailure(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "53100" || pg.Code == "58030")
}

// isBroken reports whether the connection failed rather than the statement. PostgreSQL ends a session with an error of
// the severity FATAL, for example 25P03 if a transaction waited too long for its next statement; a crash has PANIC.
func isBroken(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return isOutage(pg) || pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !network.Timeout() || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, pgx.ErrTxClosed) ||
		errors.Is(err, pgconn.ErrConnClosed)
}

// isOutage reports whether the connection failed, or PostgreSQL starts or stops.
func isOutage(pg *pgconn.PgError) bool {
	return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P")
}

// neverSent reports whether the failed statements cannot have reached PostgreSQL. pgconn.SafeToRetry alone is not
// enough: it also accepts a connection that was found closed while the response was read.
func neverSent(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}
