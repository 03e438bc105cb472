package db

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	awaitPause = 250 * time.Millisecond // between two attempts
	awaitLog   = 5 * time.Second        // between two log lines
)

// Await calls connect, which is Migrate or Open, until connect succeeds or the patience has run out, and returns the
// last error of connect. It repeats the call only if the database may become available: Await returns an error of the
// login, the URL, the certificate or the schema at once.
func Await(ctx context.Context, log *slog.Logger, patience time.Duration, connect func(context.Context) error) error {
	begin, logged := time.Now(), time.Time{}
	for {
		err := connect(ctx)
		if err == nil || ctx.Err() != nil || !isAway(err) || time.Since(begin) >= patience {
			return err
		}
		if time.Since(logged) >= awaitLog {
			logged = time.Now()
			log.Warn("waiting for the database", "error", err, "at_most",
				(patience - time.Since(begin)).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(awaitPause):
		}
	}
}

// isAway reports whether the cause of err may pass: the database is out of reach, starts, stops, fails over, or is
// overloaded.
func isAway(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return isOutage(pg) || isReadOnly(err) || strings.HasPrefix(pg.Code, "53")
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || errors.Is(err, fs.ErrPermission) {
		return false
	}
	return isBroken(err) || isReadOnly(err) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}
