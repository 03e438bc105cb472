package dial_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/dial"
)

// PostgreSQL translates the text of the notice, and gives it the SQLSTATE of any warning. The detail in English is
// enough too.
func TestIsUnreplicated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		routine, detail string
		want            bool
	}{
		{"SyncRepWaitForLSN", "Die Transaktion wurde lokal committet.", true},
		{"", "The transaction has already committed locally, but might not have been replicated to the standby.", true},
		{"exec_stmt_raise", "Die Transaktion wurde lokal committet.", false},
		{"", "", false},
	} {
		n := &pgconn.Notice{Severity: "WARNUNG", SeverityUnlocalized: "WARNING", Code: "01000", Routine: c.routine,
			Message: "storniere Warten auf synchrone Replikation wegen Benutzeraufforderung", Detail: c.detail}
		if got := dial.IsUnreplicated(n); got != c.want {
			t.Errorf("a notice of %q with the detail %q: %v", c.routine, c.detail, got)
		}
	}
}
