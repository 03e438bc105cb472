package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/catalog"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// user add creates a tenant only with --new-tenant, and the error lists the tenants.
func TestUserAddWithoutNewTenant(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{MaxConns: 2})
	a := accounts.Accounts{DB: d, Hasher: secrets.NewHasher(testRounds)}
	add := func(flags ...string) (string, error) {
		out, _, err := command(t, a, "", append([]string{"user", "add", "--role", "operator",
			"--email", email(), "--name", "x"}, flags...)...)
		return out, err
	}
	wantError := func(want string, flags ...string) {
		t.Helper()
		if out, err := add(flags...); err == nil || err.Error() != want || out != "" {
			t.Errorf("%q: %v, printed %q, want %q", flags, err, out, want)
		}
	}
	wantError("name the tenant with --tenant; there are no tenants yet; --new-tenant creates a tenant")
	wantError(`there is no tenant "farm"; there are no tenants yet; --new-tenant creates a tenant`, "--tenant", "farm")
	wantError("the tenant name must have 1 to 200 characters, without blanks at its start or end", "--new-tenant")
	if _, err := add("--tenant", "farm", "--new-tenant"); err != nil {
		t.Fatal(err)
	}
	// The only tenant is the default.
	if _, err := add(); err != nil {
		t.Error(err)
	}
	// An empty name does not choose the only tenant where that would be dangerous.
	for _, args := range [][]string{{"tenant", "remove", "", "--yes"}, {"tenant", "rename", "", "x"}} {
		if _, _, err := command(t, a, "", args...); err == nil ||
			!strings.Contains(err.Error(), "1 to 200 characters") {
			t.Errorf("%q: %v", args, err)
		}
	}
	wantError(`there is no tenant "fram"; the tenants are "farm"; --new-tenant creates a tenant`, "--tenant", "fram")
	if users, err := a.Users(t.Context(), "farm"); err != nil || len(users) != 2 {
		t.Errorf("%d users, %v; want 2", len(users), err)
	}
	for i := range 11 {
		if _, err := add("--tenant", "farm "+string(rune('a'+i)), "--new-tenant"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := add()
	for _, want := range []string{
		"name the tenant with --tenant; the tenants are \"", ", and 2 others (see tenant list)",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// user move keeps the password and the role; the user sees only the new tenant.
func TestUserMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inventory.Routes)
	a := w.accounts()
	from, to := w.Tenant(t), w.Tenant(t)
	user, colleague := from.User(t, "operator"), from.User(t, "operator")
	target := to.User(t, "admin")
	names := tenantNames(t, a)
	set := w.login(t, user)
	spool := as(w.Anonymous(), set.Access).Post(t, "/api/v1/spools", spoolBody).Want(201).Text("id")

	move := []string{"user", "move", "--email", strings.ToUpper(user.Email), "--tenant", names[to.ID]}
	want := "moved " + strings.ToUpper(user.Email) + ` from the tenant "` + names[from.ID] + `" to "` + names[to.ID] +
		`"; all sessions have ended` + "\n"
	testkit.Equal(t, must(t, a, "", move...), want, "printed")
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	as(w.Anonymous(), set.Access).Get(t, mePath).WantError(401, "INVALID_TOKEN")
	moved := tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)))
	me := as(w.Anonymous(), moved.Access).Get(t, mePath).Want(200)
	if me.Text("tenant_id") != to.ID || me.Text("email") != user.Email {
		t.Errorf("%s, want the tenant %s", me.Body, to.ID)
	}
	as(w.Anonymous(), moved.Access).Get(t, "/api/v1/spools/"+spool).WantError(404, "NOT_FOUND")
	colleague.Get(t, "/api/v1/spools/"+spool).Want(200)
	if p, err := w.Tokens.ParseAccess(moved.Access); err != nil || p.Role != "operator" {
		t.Errorf("%+v, %v", p, err)
	}
	// The ledger of the old tenant keeps the id and the name of the user.
	usage := colleague.Get(t, "/api/v1/spools/"+spool+"/usage").Want(200)
	body := string(usage.Body)
	if !strings.Contains(body, user.Actor.User) || !strings.Contains(body, "Test operator") {
		t.Errorf("the ledger %s lacks the user %s", usage.Body, user.Actor.User)
	}
	target.Get(t, "/api/v1/users").Want(200)

	for want, args := range map[string][]string{
		"is in the tenant":               move,
		"no user has this e-mail: x@y":   {"user", "move", "--email", "x@y", "--tenant", names[to.ID]},
		`there is no tenant "no such"; `: {"user", "move", "--email", user.Email, "--tenant", "no such"},
	} {
		if out, _, err := command(t, a, "", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v, printed %q, want %q", args, err, out, want)
		}
	}
}

// user remove ends all access and frees the e-mail.
func TestUserRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inventory.Routes)
	a := w.accounts()
	farm := w.Tenant(t)
	user, colleague := farm.User(t, "operator"), farm.User(t, "operator")
	set := w.login(t, user)
	spool := as(w.Anonymous(), set.Access).Post(t, "/api/v1/spools", spoolBody).Want(201).Text("id")
	out := must(t, a, "", "user", "remove", "--email", user.Email)
	if !strings.HasPrefix(out, "removed "+user.Email+" from the tenant \"") {
		t.Errorf("printed %q", out)
	}
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	as(w.Anonymous(), set.Access).Get(t, mePath).WantError(401, "INVALID_TOKEN")
	w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)).WantError(401, "INVALID_CREDENTIALS")
	colleague.Get(t, "/api/v1/spools/"+spool).Want(200)
	if _, _, err := command(t, a, "", "user", "remove", "--email", user.Email); !errors.Is(err, accounts.ErrNoUser) {
		t.Errorf("a second removal: %v", err)
	}
	name := tenantNames(t, a)[farm.ID]
	must(t, a, testkit.Password, "user", "add", "--role", "operator",
		"--tenant", name, "--email", user.Email, "--name", "x",
		"--password-stdin")
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)))
}

func TestTenantRename(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	a := accounts.Accounts{DB: d, Hasher: secrets.NewHasher(testRounds)}
	one, two := "one "+value.NewID(), "two "+value.NewID()
	for _, name := range []string{one, two} {
		must(t, a, "", "user", "add", "--role", "operator",
			"--tenant", name, "--new-tenant", "--email", email(), "--name", "x")
	}
	out := must(t, a, "", "tenant", "rename", one, one+" new")
	testkit.Equal(t, out, `renamed the tenant "`+one+`" to "`+one+` new"`+"\n", "printed")
	for _, c := range [][3]string{
		{one + " new", two, "there is already a tenant"}, {one, "x", "there is no tenant"},
		{two, " ", "1 to 200 characters"},
		{"", "x", "1 to 200 characters"},
	} {
		_, _, err := command(t, a, "", "tenant", "rename", c[0], c[1])
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if users, err := a.Users(t.Context(), one+" new"); err != nil || len(users) != 1 || users[0].Tenant != one+" new" {
		t.Errorf("%+v %v", users, err)
	}
	must(t, a, "", "tenant", "rename", two, two) // the same name
}

// tenant remove deletes all rows of the tenant in all tables, and no row of another tenant.
func TestTenantRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inventory.Routes, catalog.Routes, production.Routes(orders.Runs), orders.Routes,
		func(d *db.DB) []server.Route {
			return webhooks.New(webhooks.Config{DB: d, Secrets: []string{testkit.Secret}}).Routes()
		})
	a := w.accounts()
	farm, other := w.Tenant(t), w.Tenant(t)
	for _, tenant := range []*testkit.Tenant{farm, other} {
		user := tenant.User(t, "admin")
		tenant.Key(t, "viewer").Get(t, "/api/v1/spools").Want(200)
		set := w.login(t, user)
		c := as(w.Anonymous(), set.Access)
		spool := c.Post(t, "/api/v1/spools", spoolBody).Want(201).Text("id")
		c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 5}).Want(200)
		part := c.Post(t, "/api/v1/products", j{"name": "part"}).Want(201).Text("id")
		whole := c.Post(t, "/api/v1/products", j{"name": "whole"}).Want(201).Text("id")
		c.Post(t, "/api/v1/products/"+part+"/materials",
			j{"material_type": "PLA", "color": "Red", "weight_grams": 5}).Want(201)
		c.Post(t, "/api/v1/products/"+whole+"/components", j{"component_product_id": part}).Want(201)
		hook := c.Post(t, "/api/v1/webhooks", j{"url": "https://hooks.example", "events": []string{"order.received"}}).
			Want(201).Text("id")
		c.Post(t, "/api/v1/webhooks/"+hook+"/test", nil).Want(200)
		run := c.Post(t, "/api/v1/production-runs", j{}).Want(201).Text("id")
		item := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": part}}}).Want(201).Text("items.0.id")
		c.Post(t, "/api/v1/production-runs/"+run+"/items", j{"product_id": part, "order_item_id": item}).Want(201)
		c.Post(t, "/api/v1/production-runs/"+run+"/materials",
			j{"spool_id": spool, "estimated_weight_grams": 1}).Want(201)
	}
	before := rowsOf(t, other.ID)
	if rows := rowsOf(t, farm.ID); len(rows) < 10 {
		t.Fatalf("the tenant has rows in %v only", rows)
	}
	name := tenantNames(t, a)[farm.ID]
	_, _, err := command(t, a, "", "tenant", "remove", name)
	if _, ok := errors.AsType[cli.Misuse](err); !ok || !strings.Contains(err.Error(), "confirm with --yes") {
		t.Errorf("without --yes: %v", err)
	}
	out := must(t, a, "", "tenant", "remove", "--yes", name)
	testkit.Equal(t, out, `removed the tenant "`+name+`", its users and all its data`+"\n", "printed")
	if rows := rowsOf(t, farm.ID); len(rows) > 0 {
		t.Errorf("the removed tenant has rows in %v", rows)
	}
	testkit.EqualSlices(t, rowsOf(t, other.ID), before, "tables with rows of the other tenant")
	if _, ok := tenantNames(t, a)[farm.ID]; ok {
		t.Error("tenant list shows the removed tenant")
	}
}

// A removal of a tenant waits for a transaction that has checked a user or an API key and can still add rows.
func TestTenantRemoveWaitsForTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inventory.Routes)
	t.Run("user", func(t *testing.T) { t.Parallel(); testRemoveWaits(t, w, (*testkit.Tenant).User) })
	t.Run("key", func(t *testing.T) { t.Parallel(); testRemoveWaits(t, w, (*testkit.Tenant).Key) })
}

func testRemoveWaits(t *testing.T, w *world, create func(*testkit.Tenant, testing.TB, string) *testkit.Client) {
	farm := w.Tenant(t)
	user := create(farm, t, "operator")
	removed := make(chan error, 1)
	err := w.DB.Tx(db.As(t.Context(), user.Actor), func(ctx context.Context) error {
		if err := w.DB.CheckActor(ctx); err != nil {
			return err
		}
		go func() { removed <- removeTenant(t, farm.ID) }()
		select {
		case err := <-removed:
			t.Errorf("the removal did not wait: %v", err)
			removed <- err
			return err
		case <-time.After(1500 * time.Millisecond):
		}
		return w.DB.Write(ctx, db.SQL(`insert into products (id, name) values ($1, 'late')`, value.NewID()))
	})
	testkit.Check(t, err)
	testkit.Check(t, <-removed)
	if rows := rowsOf(t, farm.ID); len(rows) > 0 {
		t.Errorf("the removed tenant has rows in %v", rows)
	}
}

func removeTenant(t *testing.T, id string) error {
	return tables.Owner{URL: testkit.Private().OwnerURL()}.RemoveTenant(t.Context(), id, accounts.DisableAll)
}

// Removals at the same time do not deadlock, and no request of another tenant waits for one that waits.
func TestTenantRemovesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inventory.Routes)
	busy, other := w.Tenant(t).User(t, "operator"), w.Tenant(t)
	clients := []*testkit.Client{other.User(t, "operator"), other.Key(t, "operator")}
	var farms []*testkit.Tenant
	for range 8 {
		farm := w.Tenant(t)
		farm.Key(t, "operator")
		farm.User(t, "operator").Post(t, "/api/v1/spools", spoolBody).Want(201)
		farms = append(farms, farm)
	}
	removed := make(chan error, len(farms))
	err := w.DB.Tx(db.As(t.Context(), busy.Actor), func(ctx context.Context) error {
		if err := w.DB.CheckActor(ctx); err != nil {
			return err
		}
		for _, farm := range farms {
			go func() { removed <- removeTenant(t, farm.ID) }()
		}
		super, err := pgx.Connect(ctx, testkit.Private().SuperURL())
		testkit.Check(t, err)
		defer super.Close(ctx)
		testkit.Eventually(t, "the users are disabled", func() (all bool) {
			for _, farm := range farms {
				testkit.Check(t, super.QueryRow(ctx, `select bool_and(disabled_at is not null) from users
					where tenant_id = $1`, farm.ID).Scan(&all))
				if !all {
					return false
				}
			}
			return true
		})
		for _, c := range clients {
			for range 20 {
				c.Post(t, "/api/v1/spools", spoolBody).Want(201)
			}
		}
		var waits bool
		err = super.QueryRow(ctx, `select exists (select from pg_locks where locktype = 'relation'
			and relation in ('users'::regclass, 'api_keys'::regclass) and mode = 'AccessExclusiveLock')`).Scan(&waits)
		if waits {
			t.Error("a removal locks the tables of all tenants")
		}
		return err
	})
	testkit.Check(t, err)
	for range farms {
		testkit.Check(t, <-removed)
	}
	for _, farm := range farms {
		if rows := rowsOf(t, farm.ID); len(rows) > 0 {
			t.Errorf("a removed tenant has rows in %v", rows)
		}
	}
}

// With a login that does not own the tables, the error names MIGRATE_DATABASE_URL.
func TestOwnerCommandsNeedTheOwner(t *testing.T) {
	t.Parallel()
	a := accounts.Accounts{DB: testkit.Open(t), Hasher: secrets.NewHasher(testRounds)}
	name := "farm " + value.NewID()
	must(t, a, "", "user", "add", "--role", "operator",
		"--tenant", name, "--new-tenant", "--email", email(), "--name", "x")
	_, _, err := commandOf(t, a, testkit.Private().AppURL(), "", "tenant", "rename", name, name+" 2")
	if err == nil || !strings.Contains(err.Error(), "set MIGRATE_DATABASE_URL to the login of the database's owner") {
		t.Errorf("got %v", err)
	}
}

var spoolBody = j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000}

// tenantNames returns the names of all tenants by id.
func tenantNames(t *testing.T, a accounts.Accounts) map[string]string {
	t.Helper()
	tenants, err := a.Tenants(t.Context())
	testkit.Check(t, err)
	names := map[string]string{}
	for _, tenant := range tenants {
		names[tenant.ID] = tenant.Name
	}
	return names
}

// rowsOf returns the tables with rows of a tenant, and the numbers of these rows.
func rowsOf(t *testing.T, tenant string) (tables []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Private().SuperURL())
	testkit.Check(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `
		select c.relname || ' ' || (xpath('/row/n/text()', query_to_xml(
			format('select count(*) as n from %I where tenant_id = %L', c.relname, $1::text), true, true, '')))[1]::text
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind = 'r' order by 1`, tenant)
	testkit.Check(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	testkit.Check(t, err)
	return slices.DeleteFunc(all, func(s string) bool { return strings.HasSuffix(s, " 0") })
}
