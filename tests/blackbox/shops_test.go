package blackbox_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// TestShopCommands runs the commands of docs/shops.md, which connect a shop and send an order.
func TestShopCommands(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Tenant(t).User(t, "admin")
	needTools(t, "curl", "openssl")
	run := exec.Command("sh", "-eu", "-c", block(t, "sh", `"$SPOOLWRIGHT$address"`))
	run.Env = append(os.Environ(), "SPOOLWRIGHT="+c.API.URL, "TOKEN="+c.Token)
	out, err := run.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "{}" {
		t.Fatalf("%v: %s", err, out)
	}
	c.Get(t, ordersURL).Want(200).Shows(map[string]string{"total": "1", "items.0.source": "dragons.example",
		"items.0.reference": "A-1042", "items.0.unassigned_count": "1"})
	c.Get(t, "/api/v1/shops").Want(200).Shows(map[string]string{"total": "1", "items.0.kind": "generic"})
	testkit.Equal(t, c.Get(t, "/api/v1/shops").Text("items.0.refused_at"), "null", "refused_at")
}
