package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"spoolwright/db"
	"spoolwright/testkit"
)

// The first reads of all functions are one round trip, in the order of the functions. Further reads, and functions
// that read nothing, do not disturb it.
func TestTogether(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	d := open(t, db.Config{URL: testkit.Private().AppURL(), RoundTrip: func([]db.Statement) { trips.Add(1) }})
	ctx := db.As(t.Context(), db.Actor{Tenant: db.NewID()})
	read := func(ctx context.Context, to *string, sql string) error { return d.Read(ctx, db.SQL(sql).Into(to)) }
	var first, second, further string
	var errs [3]error
	d.Together(ctx,
		func(ctx context.Context) { errs[0] = read(ctx, &first, `select set_config('app.test', 'set', true)`) },
		func(context.Context) {},
		func(ctx context.Context) {
			errs[1] = read(ctx, &second, `select current_setting('app.test', true)`)
			errs[2] = read(ctx, &further, `select coalesce(current_setting('app.test', true), '')`)
		})
	if err := errors.Join(errs[:]...); err != nil || first != "set" || second != "set" || further != "" {
		t.Errorf("read %q, %q and %q, %v", first, second, further, err)
	}
	testkit.Equal(t, trips.Load(), 2, "round trips")

	d.Together(ctx, func(ctx context.Context) { errs[0] = read(ctx, &first, `select 1/0 || ''`) },
		func(ctx context.Context) { errs[1] = read(ctx, &second, `select 'x'`) })
	if errs[0] == nil || errs[1] == nil {
		t.Errorf("one statement failed, and the errors are %v", errs)
	}

	defer func() {
		if p := recover(); fmt.Sprint(p) != "broken" {
			t.Errorf("recovered %v", p)
		}
		if second != "y" || errs[1] != nil {
			t.Errorf("the other function read %q, %v", second, errs[1])
		}
	}()
	d.Together(ctx, func(context.Context) { panic("broken") },
		func(ctx context.Context) { errs[1] = read(ctx, &second, `select 'y'`) })
}
