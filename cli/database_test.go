package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// An error of a start names the variable once and repeats neither prefixes nor attempts.
func TestExplain(t *testing.T) {
	t.Parallel()
	_, err := pgconn.Connect(t.Context(), "postgres://farm:secret@127.0.0.1:1/farm")
	want := "DATABASE_URL: failed to connect to `user=farm database=farm`: 127.0.0.1:1 (127.0.0.1): dial error: " +
		"dial tcp 127.0.0.1:1: connect: connection refused: check the host and the port, and that PostgreSQL runs there"
	if got := explain("DATABASE_URL", fmt.Errorf("database: %w", err)); got.Error() != want || !errors.Is(got, err) {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
	if got := explain("", err); got != err {
		t.Errorf("got %v for the private PostgreSQL, want %v", got, err)
	}
}
