package inventory_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// A deduction keeps the new version of the spool on its page, and adds to no index of spools (HOT): no index has a
// column that it changes.
func TestDeductionIsHOT(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{MaxConns: 1})
	api := testkit.New(t, testkit.Options{DB: d}, testkit.Features...)
	c := api.Operator(t)
	spool := c.NewSpool(t, 500, nil)
	updates := func() (all, hot int) {
		t.Helper()
		testkit.Check(t, d.Read(db.As(t.Context(), c.Actor), db.SQL(`select pg_stat_force_next_flush()::text`)))
		testkit.Check(t, d.Read(db.As(t.Context(), c.Actor), db.SQL(`
			select n_tup_upd::int, n_tup_hot_upd::int from pg_stat_user_tables where relname = 'spools'`).Into(&all, &hot)))
		return all, hot
	}
	all, hot := updates()
	const deductions = 200
	for range deductions {
		c.Post(t, spools+"/"+spool+"/deduct", j{"weight_grams": 1}).Want(200)
	}
	newAll, newHot := updates()
	if all, hot := newAll-all, newHot-hot; all != deductions || hot != deductions {
		t.Errorf("of %d updates for %d deductions, %d are HOT", all, deductions, hot)
	}
}
