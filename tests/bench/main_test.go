// Package bench_test measures the whole program; docs/benchmarks.md has the results. The benchmarks run in the
// root of the checkout, so all paths in them are relative to the root.
package bench_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // there are no tests, which would need PostgreSQL
		os.Exit(m.Run())
	}
	os.Exit(testkit.Run(m))
}
