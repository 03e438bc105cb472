package spoolman_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/testkit"
)

// While one of several databases hangs, sockets of tenants in another one get their messages in time.
func TestSocketsOfSeveralDatabases(t *testing.T) {
	t.Parallel()
	h := testkit.NewHomes(t, db.Config{MaxConns: 8})
	api := startOn(t, h.Open(t))
	newIn := func(home int) *printer {
		tenant := api.TenantIn(t, home)
		return &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	}
	near, far := newIn(0), newIn(1)
	spool := near.add(t, nil)
	far.add(t, nil)
	socket, _ := near.dial(t, "")
	far.dial(t, "")
	conn, err := pgx.Connect(t.Context(), h.Config.Further[0].OwnerURL)
	testkit.Check(t, err)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `begin; lock table spools in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range 6 {
		begin := time.Now()
		near.operator.Post(t, spool+"/deduct", j{"weight_grams": 1}).Want(200)
		socket.wantEvents(t, fmt.Sprint("updated 1 ", 999-i))
		took = append(took, time.Since(begin))
	}
	// If polls waited for the other database, they would wait for lock_timeout each time. A slow machine may delay some.
	slices.Sort(took)
	if took[3] > 4*time.Second {
		t.Errorf("the messages took %v", took)
	}
}
