package db_test

import (
	"testing"

	"spoolwright/db/tables"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// A transaction of a command is repeated after a deadlock, but not one that reads a file.
func TestOwnerRepeatsDeadlock(t *testing.T) {
	t.Parallel()
	owner := tables.Owner{URL: testkit.Private().OwnerURL()}
	for _, code := range []string{"40P01", "40001"} {
		calls := 0
		fail := func(tx *tables.Tx) error {
			if calls++; calls > 2 {
				return nil
			}
			_, err := tx.Exec(`do $$ begin raise exception 'deadlock' using errcode = '` + code + `'; end $$`)
			return err
		}
		testkit.Check(t, owner.Tx(t.Context(), value.NewID(), fail))
		testkit.Equal(t, calls, 3, "calls after two times %s", code)
		calls = 0
		if err := owner.Fill(t.Context(), value.NewID(), fail); err == nil || calls != 1 {
			t.Errorf("Fill returns %v after %d calls", err, calls)
		}
	}
}
