package blackbox_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// TestRoundTripsGolden counts the database round trips and statements of every route (the statement that binds the
// transaction to a tenant is one of them), so that the golden file shows an added round trip, or a statement per row,
// in review.
func TestRoundTripsGolden(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var trips, statements int
	d, err := db.Open(context.Background(),
		db.Config{URL: testkit.Private().AppURL(), RoundTrip: func(s []db.Statement) {
			mu.Lock()
			defer mu.Unlock()
			trips++
			statements += len(s)
		}})
	check(t, err)
	t.Cleanup(d.Close)
	w := newTestAPI(t, testkit.Options{DB: d})
	var b bytes.Buffer
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, op := range w.operations {
		f, path, body := w.newRequest(t, op)
		mu.Lock()
		trips, statements = 0, 0
		mu.Unlock()
		if a := f.do(t, f.admin, op, path, body); a.Status >= 300 {
			t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
		}
		mu.Lock()
		fmt.Fprintf(out, "%s\t%s\t%d round trips\t%d statements\n", op.Method(), op.Path(), trips, statements)
		if op.Method() == "GET" && trips > 1 {
			t.Errorf("%s takes %d round trips, want 1 for a read", op.Pattern, trips)
		}
		mu.Unlock()
	}
	out.Flush()
	got := strings.ReplaceAll(b.String(), "1 round trips", "1 round trip")
	compareGolden(t, "testdata/roundtrips.golden", []byte(got))
}
