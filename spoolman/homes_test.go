package spoolman_test

import (
	"fmt"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/testkit"
)

// While one of several databases hangs, sockets of tenants in another one get their messages in time.
func TestSocketsOfSeveralDatabases(t *testing.T) {
	t.Parallel()
	h := testkit.NewHomes(t, db.Config{MaxConns: 8})
	api := startOn(t, h.Open(t))
	// in returns a function that changes a spool in the database with the number, and waits for the message.
	in := func(home int) (change func()) {
		tenant := api.TenantIn(t, home)
		p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
		path := p.add(t, nil)
		s, _ := p.dial(t, "")
		left := 1000
		return func() {
			t.Helper()
			p.operator.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
			left--
			s.wantEvents(t, fmt.Sprint("updated 1 ", left))
		}
	}
	near, far := in(0), in(1)
	var slowest time.Duration
	for range 5 { // the machine may delay messages of some attempts
		lock := testkit.Hold(t, h.Config.Further[0].OwnerURL, `lock table spools in access exclusive mode`)
		slowest = 0
		for range 6 {
			begin := time.Now()
			near()
			slowest = max(slowest, time.Since(begin))
		}
		lock.Commit()
		if slowest < 4*time.Second { // a poll that waits for the lock takes 5 seconds
			return
		}
		// The service waits only for polls of tenants whose last poll was quick, as that of the second change is.
		far()
		far()
	}
	t.Errorf("one of six messages took %v, and one took as long in each attempt before", slowest)
}
