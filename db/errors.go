package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrUnavailable means that the database is out of reach, overloaded, or gave up on a statement; a write's outcome may
	// be unknown. The request may be sent again.
	ErrUnavailable = errors.New("the database is unavailable")

	// ErrOutcomeUnknown is an ErrUnavailable after which a write may be committed, rolled back, or committed and later lost in a
	// failover.
	ErrOutcomeUnknown = fmt.Errorf("%w, and the outcome of the write is unknown", ErrUnavailable)

	// ErrRevoked means that the context's actor no longer exists, is disabled, or has another role by now.
	ErrRevoked = errors.New("the caller's access was revoked")

	// ErrBulk means that another import into the tenant is under way.
	ErrBulk = errors.New("another import into this tenant is under way: try again when it has ended")

	// ErrOutOfRange means that a computed number does not fit its column.
	ErrOutOfRange = errors.New("a computed number is out of range")
)

var errInvalidURL = errors.New("the database URL is invalid (it is not shown here, because it may hold a password)")

// Violates reports whether err is the violation of the named constraint or unique index.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && strings.HasPrefix(pg.Code, "23") && pg.ConstraintName == constraint
}

// classify wraps err in the one of this package's errors that fits it.
func classify(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrOutOfRange) {
		return err // of a transaction within
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // whatever PostgreSQL or a pooler has against a new connection
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "SW401":
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		case pg.Code == "22003":
			return fmt.Errorf("%w: %w", ErrOutOfRange, err)
		case isTransient(err), isBroken(err),
			pg.Code == "57014", pg.Code == "55P03", // statement and lock timeout
			pg.Code == "25006",                     // a standby
			strings.HasPrefix(pg.Code, "53"),       // out of connections, memory, disk
			strings.HasPrefix(pg.Code, "58"),       // input/output
			pg.Code == "XX001", pg.Code == "XX002": // damaged data
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	if isBroken(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || pgconn.Timeout(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// isTransient reports whether PostgreSQL rolled the transaction back for a reason that another try may not meet.
func isTransient(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") || internal(err) != nil
}

// internal returns the error by which PostgreSQL met what its authors thought impossible, or nil. Some of these errors come of rare races between
// transactions, such as "new multixact has more than one updating member", which TestFaults met once in 150,000 writes.
func internal(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "XX000" {
		return pg
	}
	return nil
}

// isBroken reports whether the connection, not the statement, is what failed.
func isBroken(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !network.Timeout() || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, pgx.ErrTxClosed) ||
		errors.Is(err, pgconn.ErrConnClosed)
}

// neverSent reports whether the failed statements surely never reached PostgreSQL. pgx also calls it safe to retry when it finds its
// connection closed while it reads the answer.
func neverSent(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}
