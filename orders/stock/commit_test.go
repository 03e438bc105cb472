package stock_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"spoolwright/db"

	"spoolwright/tests/testkit"
)

// docs/request.md names every trigger with its tables.
func TestTriggersAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/request.md")
	testkit.Check(t, err)
	c := newAPI(t).Operator(t)
	triggers := db.SQL(`
		select tgname::text as name, tgrelid::regclass::text as "table" from pg_trigger where not tgisinternal`)
	testkit.Check(t, c.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), triggers))
	var all []struct{ Name, Table string }
	if err := json.Unmarshal(triggers.Array(), &all); err != nil || len(all) < 15 {
		t.Fatalf("%d triggers, %v", len(all), err)
	}
	for _, trigger := range all {
		found := false
		for line := range strings.Lines(string(page)) {
			found = found || strings.HasPrefix(line, "| `"+trigger.Name+"` |") &&
				strings.Contains(line, "`"+trigger.Table+"`")
		}
		if !found {
			t.Errorf("docs/request.md has no line with the trigger %s on %s", trigger.Name, trigger.Table)
		}
	}
}
