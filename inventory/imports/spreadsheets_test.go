package imports_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// suggested returns the query of the import that a check suggests.
func suggested(t *testing.T, check *testkit.Response) url.Values {
	t.Helper()
	mapping, defaults := map[string]any{}, map[string]any{}
	for i := range check.Want(200).List("columns") {
		at := fmt.Sprintf("columns.%d.", i)
		mapping[check.Text(at+"title")] = check.Value(at + "field")
	}
	for i := range check.List("defaults") {
		at := fmt.Sprintf("defaults.%d.", i)
		defaults[check.Text(at+"field")] = check.Text(at + "value")
	}
	query := url.Values{}
	for name, value := range map[string]any{"mapping": mapping, "defaults": defaults} {
		text, err := json.Marshal(value)
		testkit.Check(t, err)
		query.Set(name, string(text))
	}
	return query
}

// wantSpools compares the spools of a farm, in the order of their numbers, with the rows of a CSV file.
func wantSpools(t *testing.T, c *testkit.Client, file string) {
	t.Helper()
	wanted, err := csv.NewReader(strings.NewReader(file)).ReadAll()
	testkit.Check(t, err)
	got := c.Get(t, spools+"?archived=any&sort_by=number&sort_order=asc&limit=100").Want(200)
	testkit.Equal(t, got.Text("total"), fmt.Sprint(len(wanted)-1), "the number of spools")
	wrong := 0
	for i, row := range wanted[1:] {
		for k, name := range wanted[0] {
			value := got.Text(fmt.Sprintf("items.%d.%s", i, name))
			if value == "null" {
				value = ""
			}
			if value != row[k] && wrong < 10 {
				t.Errorf("spool %d: %s is %q, want %q", i+1, name, value, row[k])
				wrong++
			}
		}
	}
}

// The lists of farms, as eleven programs and languages write them, are imported as they are: with what the check
// suggests, and without a word about their columns. Beside each file is the list of the spools in it.
func TestSpreadsheets(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	wanted, err := filepath.Glob("../../testdata/spreadsheets/*.want")
	testkit.Check(t, err)
	if len(wanted) < 11 {
		t.Fatalf("%d files", len(wanted))
	}
	invalid := map[string]string{"calc-es.csv": "1"} // a row of totals
	for _, path := range wanted {
		name := strings.TrimSuffix(filepath.Base(path), ".want")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(strings.TrimSuffix(path, ".want"))
			testkit.Check(t, err)
			want, err := os.ReadFile(path)
			testkit.Check(t, err)
			left := "0"
			if invalid[name] != "" {
				left = invalid[name]
			}
			c, other := api.Operator(t), api.Operator(t)
			check := c.With("Content-Type", "text/csv").Post(t, importPath+"/check?mode=upsert", string(file))
			if check.Want(200).Text("invalid") != left {
				t.Fatalf("the check finds %s", check.Text("errors"))
			}
			c.Get(t, spools).Shows(map[string]string{"total": "0"})
			query := suggested(t, check)
			query.Set("mode", "upsert")
			if left != "0" {
				postMode(t, c, query.Encode(), string(file)).WantError(422, "VALIDATION_ERROR")
				query.Set("skip_invalid", "true")
			}
			done := postMode(t, c, query.Encode(), string(file)).Want(200)
			done.Shows(map[string]string{"created": check.Text("created"), "invalid": left, "changes": check.Text("changes")})
			wantSpools(t, c, string(want))
			postMode(t, other, url.Values{"defaults": {query.Get("defaults")}, "skip_invalid": {"true"}}.Encode(),
				string(file)).
				Want(200)
			wantSpools(t, other, string(want))
		})
	}
}
