package webhooks_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/testkit"
)

// The dispatcher delivers the events of all databases, and one that is out of reach delays only its own.
func TestDeliveryFromAllDatabases(t *testing.T) {
	t.Parallel()
	h := testkit.NewHomes(t, db.Config{MaxConns: 8})
	f := startWithout(t, h.Open(t), nil)
	near, far := f.TenantIn(t, 0), f.TenantIn(t, 1)
	nearReceiver, farReceiver := receive(t, nil), receive(t, nil)
	f.webhook(t, near.User(t, "admin"), nearReceiver.URL)
	f.webhook(t, far.User(t, "admin"), farReceiver.URL)
	nearOperator, farOperator := near.User(t, "operator"), far.User(t, "operator")

	complete(t, farOperator)
	h.Down()
	f.run(t, f.config)
	for range 3 {
		complete(t, nearOperator)
		nearReceiver.wait(t)
	}
	farReceiver.wantNone(t, 0)
	h.Up(t)
	farReceiver.wait(t)
	testkit.Eventually(t, "the database is back", func() bool { return f.DB.FurtherUp()[0] })
	complete(t, farOperator)
	farReceiver.wait(t)
}
