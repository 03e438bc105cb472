package blackbox_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/testkit"
)

// homesAPI starts the service with two databases.
func homesAPI(t *testing.T, c db.Config) (*testkit.Homes, *testkit.API) {
	t.Helper()
	h := testkit.NewHomes(t, c)
	return h, testkit.New(t, testkit.Options{DB: h.Open(t)}, testkit.Features...)
}

var blackSpool = testkit.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}

// countIn returns a number that a query finds in a database.
func countIn(t *testing.T, url, sql string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// The data of a tenant are in its home only, and requests with tokens, API keys and idempotency keys find them there.
// A tenant of another home cannot see them.
func TestDataOfTenantsAreAtHome(t *testing.T) {
	t.Parallel()
	h, api := homesAPI(t, db.Config{MaxConns: 8})
	tenants := []*testkit.Tenant{api.TenantIn(t, 0), api.TenantIn(t, 1), api.Tenant(t)}
	homes := []int{0, 1, 0}
	for i, tenant := range tenants {
		user, key := tenant.User(t, "operator"), tenant.Key(t, "operator")
		once := user.With("Idempotency-Key", "once")
		spool := once.Post(t, "/api/v1/spools", blackSpool).Want(201).ID()
		testkit.Equal(t, once.Post(t, "/api/v1/spools", blackSpool).Want(201).ID(), spool,
			"tenant %d: a repeated request created", i)
		key.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
		for home, url := range h.Super {
			want := 0
			if home == homes[i] {
				want = 1
			}
			for _, table := range []string{"tenants", "spools", "api_keys", "key_directory", "idempotency_keys"} {
				sql := `select count(*) from ` + table + ` where tenant_id = $1`
				if n := countIn(t, url, sql, tenant.ID); n != want {
					t.Errorf("tenant %d: database %d has %d rows in %s, want %d", i, home, n, table, want)
				}
			}
		}
		for _, other := range tenants {
			if other != tenant {
				other.User(t, "admin").Get(t, "/api/v1/spools/"+spool).WantError(404, "NOT_FOUND")
			}
		}
		login := testkit.JSON{"email": user.Email, "password": testkit.Password}
		refresh := api.Anonymous().Post(t, "/api/v1/auth/login", login).Want(200).Text("refresh_token")
		api.Anonymous().Post(t, "/api/v1/auth/refresh", testkit.JSON{"refresh_token": refresh}).Want(200)
	}
	api.Anonymous().Post(t, "/api/v1/auth/login", testkit.JSON{"email": "x@x.example", "password": testkit.Password}).
		WantError(401, "INVALID_CREDENTIALS")
	unknown := strings.Repeat("A", 43)
	api.Anonymous().With("X-API-Key", "sw_"+unknown).Get(t, "/api/v1/spools").WantError(401, "INVALID_API_KEY")
	check(t, server.Sweep(t.Context(), api.DB))
	check(t, inventory.SummariseUsage(t.Context(), api.DB))
}

// An e-mail is unique across databases. An entry of the login directory without a user, which a crash leaves, does not
// block the e-mail for anyone.
func TestHomesLogins(t *testing.T) {
	t.Parallel()
	h, api := homesAPI(t, db.Config{MaxConns: 8})
	one, two := api.TenantIn(t, 0), api.TenantIn(t, 1)
	admins := []*testkit.Client{one.User(t, "admin"), two.User(t, "admin")}
	create := func(admin int, email string) *testkit.Response {
		t.Helper()
		return admins[admin].Post(t, "/api/v1/users", testkit.JSON{
			"email": email, "name": "x", "role": "viewer", "password": testkit.Password})
	}
	for admin := range admins {
		email := fmt.Sprintf("ada%d@farm.example", admin)
		id := create(admin, email).Want(201).ID()
		create(0, strings.ToUpper(email)).WantError(409, "EMAIL_TAKEN")
		create(1, email).WantError(409, "EMAIL_TAKEN")
		admins[admin].Patch(t, "/api/v1/users/"+id, testkit.JSON{"email": email, "name": "y"}).Want(200)
		admins[admin].Patch(t, "/api/v1/users/"+id, testkit.JSON{"email": admins[admin].Email}).Want(422)
		login := testkit.JSON{"email": email, "password": testkit.Password}
		api.Anonymous().Post(t, "/api/v1/auth/login", login).Want(200)
		admins[1-admin].Delete(t, "/api/v1/users/"+id).WantError(404, "NOT_FOUND")
		admins[admin].Delete(t, "/api/v1/users/"+id).Want(204)
		api.Anonymous().Post(t, "/api/v1/auth/login", login).WantError(401, "INVALID_CREDENTIALS")
		sql := `select count(*) from login_directory where email_key = $1`
		testkit.Equal(t, countIn(t, h.Super[0], sql, email), 0, "entries of a deleted user in the login directory")
	}
	for holder, tenant := range []*testkit.Tenant{one, two} {
		for admin := range admins {
			email := fmt.Sprintf("lost%d%d@farm.example", holder, admin)
			testkit.ExecURL(t, h.Super[0], fmt.Sprintf(`insert into login_directory values ('%s', '%s', '%s')`,
				email, tenant.ID, db.NewID()))
			create(admin, email).Want(201)
			create(1-admin, email).WantError(409, "EMAIL_TAKEN")
			api.Anonymous().Post(t, "/api/v1/auth/login",
				testkit.JSON{"email": email, "password": testkit.Password}).Want(200)
		}
	}
	// Concurrent requests for one e-mail create one user.
	for round := range 10 {
		email := fmt.Sprintf("race%d@farm.example", round)
		status := make(chan int)
		for i := range 6 {
			go func() {
				a, err := admins[i%2].Send("POST", "/api/v1/users", testkit.JSON{
					"email": email, "name": "x", "role": "viewer", "password": testkit.Password})
				if err != nil {
					status <- 0
					return
				}
				status <- a.Status
			}()
		}
		created := 0
		for range 6 {
			switch s := <-status; s {
			case 201:
				created++
			case 409, 503:
			default:
				t.Errorf("%s: status %d", email, s)
			}
		}
		users := 0
		for _, url := range h.Super {
			users += countIn(t, url, `select count(*) from users where email = $1`, email)
		}
		if created != 1 || users != 1 {
			t.Errorf("%s: %d requests created a user, and there are %d", email, created, users)
		}
	}
}

// While a further database is out of reach, only the requests of its own tenants return 503, also when the service
// starts. They work again when it is back.
func TestHomeDown(t *testing.T) {
	t.Parallel()
	h, api := homesAPI(t, db.Config{MaxConns: 8})
	near, far := api.TenantIn(t, 0), api.TenantIn(t, 1)
	nearUser, farUser := near.User(t, "operator"), far.User(t, "operator")
	nearKey, farKey := near.Key(t, "operator"), far.Key(t, "operator")
	farSpool := farUser.Post(t, "/api/v1/spools", blackSpool).Want(201).ID()
	h.Down()
	eventually(t, "the database counts as out of reach", func() bool { return !api.DB.FurtherUp()[0] })
	restarted := testkit.New(t, testkit.Options{DB: h.Open(t)}, testkit.Features...) // starts while it is down
	for name, api := range map[string]*testkit.API{"running": api, "started": restarted} {
		at := func(c *testkit.Client) *testkit.Client { copied := *c; copied.API = api; return &copied }
		at(nearUser).Post(t, "/api/v1/spools", blackSpool).Want(201)
		at(nearKey).Post(t, "/api/v1/spools", blackSpool).Want(201)
		eventually(t, name+": three requests get a 503 in three seconds", func() bool {
			begin := time.Now()
			a := at(farUser).Post(t, "/api/v1/spools", blackSpool).WantError(503, "UNAVAILABLE")
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: a 503 without Retry-After", name)
			}
			at(farUser).Get(t, "/api/v1/spools").WantError(503, "UNAVAILABLE")
			at(farKey).Get(t, "/api/v1/spools").WantError(503, "UNAVAILABLE")
			return time.Since(begin) < 3*time.Second
		})
		if err := api.DB.Ready(t.Context()); err != nil {
			t.Errorf("%s: not ready: %v", name, err)
		}
		if err := server.Sweep(t.Context(), api.DB); err == nil {
			t.Errorf("%s: the sweep does not report the tenants that it skipped", name)
		}
		a := accounts.Accounts{DB: api.DB, Hasher: auth.NewHasher(1000)}
		info, err := a.Tenants(t.Context())
		if err != nil || len(info) != 2 {
			t.Errorf("%s: the tenants are %v, %v", name, info, err)
		}
		if _, err := a.FindTenant(t.Context(), "tenant "+near.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// A new tenant gets the database that is within reach, but only if its name is certainly new.
		if _, err := a.Add(t.Context(), accounts.NewUser{Tenant: "new " + name, NewTenant: true,
			Email: name + "@farm.example", Name: "x", Role: "admin", Password: testkit.Password}); err == nil {
			t.Errorf("%s: a tenant was created although a tenant out of reach may have its name", name)
		}
		api.Anonymous().Post(t, "/api/v1/auth/login",
			testkit.JSON{"email": nearUser.Email, "password": testkit.Password}).
			Want(200)
		api.Anonymous().Post(t, "/api/v1/auth/login",
			testkit.JSON{"email": farUser.Email, "password": testkit.Password}).
			WantError(503, "UNAVAILABLE")
	}
	h.Up(t)
	for name, api := range map[string]*testkit.API{"running": api, "started": restarted} {
		at := func(c *testkit.Client) *testkit.Client { copied := *c; copied.API = api; return &copied }
		eventually(t, name+": the database is back", func() bool { return api.DB.FurtherUp()[0] })
		at(farUser).Get(t, "/api/v1/spools/"+farSpool).Want(200)
		at(farKey).Post(t, "/api/v1/spools", blackSpool).Want(201)
	}
}

// New tenants go to the database with the fewest tenants. The account commands work in all databases.
func TestHomesAccounts(t *testing.T) {
	t.Parallel()
	h, api := homesAPI(t, db.Config{MaxConns: 8})
	a := accounts.Accounts{DB: api.DB, Hasher: auth.NewHasher(1000)}
	add := func(tenant, email string) error {
		_, err := a.Add(t.Context(), accounts.NewUser{Tenant: tenant, NewTenant: true, Email: email, Name: "x",
			Role: "admin", Password: testkit.Password})
		return err
	}
	for i := range 4 {
		check(t, add(fmt.Sprint("farm ", i), fmt.Sprintf("ada%d@farm.example", i)))
	}
	for home, url := range h.Super {
		testkit.Equal(t, countIn(t, url, `select count(*) from tenants`), 2, "tenants in database %d", home)
	}
	tenants, err := a.Tenants(t.Context())
	if err != nil || len(tenants) != 4 {
		t.Fatal(tenants, err)
	}
	byHome := map[int]accounts.TenantInfo{}
	for _, tenant := range tenants {
		byHome[*tenant.Home] = tenant
	}
	for home := range h.Super {
		tenant := byHome[home]
		email := fmt.Sprintf("bob%d@farm.example", home)
		check(t, add(tenant.Name, email))
		if err := add(tenant.Name, email); err == nil {
			t.Error("two users have one e-mail")
		}
		check(t, a.SetDisabled(t.Context(), email, true))
		secret, err := a.AddKey(t.Context(), accounts.NewKey{Tenant: tenant.Name, Name: "x", Role: "viewer"})
		if err != nil {
			t.Error(err)
		}
		key := api.Anonymous().With("X-API-Key", secret)
		key.Get(t, "/api/v1/spools").Want(200)
		keys, err := a.Keys(t.Context(), tenant.Name)
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		if _, err := a.RevokeKey(t.Context(), keys[0].ID); err != nil {
			t.Error(err)
		}
		key.Get(t, "/api/v1/spools").WantError(401, "INVALID_API_KEY")
		if err := a.RenameTenant(t.Context(), h.Owner, tenant.Name, fmt.Sprint("farm ", 1-home)); err == nil {
			t.Error("two tenants have one name")
		}
		check(t, a.RenameTenant(t.Context(), h.Owner, tenant.Name, "renamed"))
		if _, err := a.RemoveUser(t.Context(), h.Owner, email); err != nil {
			t.Error(err)
		}
		if err := add("renamed", email); err != nil {
			t.Errorf("the e-mail of a removed user is not free: %v", err)
		}
		check(t, a.RemoveTenant(t.Context(), h.Owner, "renamed"))
		for i, url := range h.Super {
			for _, table := range []string{"tenants", "users", "login_directory", "tenant_homes"} {
				sql := `select count(*) from ` + table + ` where tenant_id = $1`
				testkit.Equal(t, countIn(t, url, sql, tenant.ID), 0,
					"rows of a removed tenant in database %d, table %s", i, table)
			}
		}
	}
	if _, _, err := a.MoveUser(t.Context(), h.Owner, "ada0@farm.example", "farm 1"); err == nil {
		t.Error("user move between databases")
	}
}

// The service does not start with a database at the wrong position of the list, or without one that has tenants.
func TestHomesOrder(t *testing.T) {
	t.Parallel()
	h, other := testkit.NewHomes(t, db.Config{MaxConns: 2}), testkit.NewHomes(t, db.Config{MaxConns: 2})
	api := testkit.New(t, testkit.Options{DB: h.Open(t)}, testkit.Features...)
	api.TenantIn(t, 1)
	for name, c := range map[string]struct {
		further []db.Further
		want    string
	}{
		"left out": {nil, "set FURTHER_DATABASE_URLS"},
		"another":  {other.Config.Further, "another database had this position before"},
		"twice": {[]db.Further{h.Config.Further[0], h.Config.Further[0]},
			"another database had this position before"},
		"the first": {[]db.Further{{URL: h.Config.URL, OwnerURL: h.Owner.URL}}, "set FURTHER_DATABASE_URLS"},
		"new in front": {[]db.Further{other.Config.Further[0], h.Config.Further[0]},
			"another database had this position before"},
	} {
		config := h.Config
		config.Further = c.further
		d, err := db.Open(t.Context(), config)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The program serves two databases, one of which is out of reach when it starts again.
func TestHomesProgram(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	h := testkit.NewHomes(t, db.Config{})
	further := h.Config.Further[0]
	env := append([]string{"DATABASE_URL=" + h.Config.URL, "MIGRATE_DATABASE_URL=" + h.Owner.URL, secretEnv,
		"FURTHER_DATABASE_URLS=" + further.URL, "FURTHER_MIGRATE_DATABASE_URLS=" + further.OwnerURL}, noLimits...)
	for i := range 2 {
		p.succeeds(t, testPassword, env, "user", "add", "--tenant", fmt.Sprint("farm ", i), "--new-tenant", "--email",
			fmt.Sprintf("ada%d@farm.example", i), "--name", "Ada", "--role", "admin", "--password-stdin")
	}
	list := p.succeeds(t, "", env, "tenant", "list")
	if !regexp.MustCompile(`(?s)DATABASE.*farm 0 .* 0\n.*farm 1 .* 1\n`).MatchString(list) {
		t.Errorf("tenant list:\n%s", list)
	}
	c := p.start(t, env)
	tokens := []string{c.login(t, "ada0@farm.example", testPassword), c.login(t, "ada1@farm.example", testPassword)}
	c.createSpool(t, tokens[0])
	c.createSpool(t, tokens[1])
	c.stop(t, syscall.SIGTERM)

	h.Down()
	address := freeAddress(t)
	c = p.start(t, append(env, "METRICS_ADDR="+address))
	testkit.Equal(t, c.countSpools(t, tokens[0]), 1, "spools of the tenant of the first database")
	if status, _ := c.call(t, tokens[1], "GET", "/api/v1/spools", nil); status != 503 {
		t.Errorf("the tenant of the other database gets %d", status)
	}
	scrape := func() string {
		r, err := http.Get("http://" + address + "/metrics")
		check(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		check(t, err)
		return string(text)
	}
	if text := scrape(); !strings.Contains(text, "\ndb_further_up{database=\"1\"} 0\n") {
		t.Errorf("the metrics do not show that the database is out of reach:\n%s", text)
	}
	h.Up(t)
	eventually(t, "the database is back", func() bool {
		status, _ := c.call(t, tokens[1], "GET", "/api/v1/spools", nil)
		return status == 200
	})
	if text := scrape(); !strings.Contains(text, "\ndb_further_up{database=\"1\"} 1\n") {
		t.Errorf("the metrics do not show that the database is back:\n%s", text)
	}
	eventually(t, "the log says that the database was out of reach, and is back", func() bool {
		log := c.stderr.String()
		return strings.Contains(log, "a database is out of reach") && strings.Contains(log, "a database is back")
	})
	c.stop(t, syscall.SIGTERM)

	wrong, err := url.Parse(further.URL)
	check(t, err)
	wrong.User = url.UserPassword(wrong.User.Username(), "hidden")
	line := p.fails(t, 1, append(env, "FURTHER_DATABASE_URLS="+wrong.String()), nil, "FURTHER_DATABASE_URLS",
		"password")
	if strings.Contains(line, "hidden") {
		t.Errorf("the error shows a password: %s", line)
	}
	p.fails(t, 1, append(env, "FURTHER_DATABASE_URLS=", "FURTHER_MIGRATE_DATABASE_URLS="), nil,
		"FURTHER_DATABASE_URLS")
}
