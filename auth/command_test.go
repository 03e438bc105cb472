package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// command runs an account command as main does, and returns what it printed.
func command(t *testing.T, a accounts.Accounts, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return commandOf(t, a, testkit.Private().OwnerURL(), stdin, args...)
}

// commandOf is command with the connection string of the login that owns the tables.
func commandOf(
	t *testing.T, a accounts.Accounts, ownerURL, stdin string, args ...string,
) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	call := &cli.Call{In: strings.NewReader(stdin), Out: &out, Err: &errs, DB: a.DB, Owner: tables.Owner{URL: ownerURL}}
	_, run, err := cli.Parse(accounts.Commands(testRounds), args, call)
	if err == nil {
		err = run(t.Context(), call)
	}
	return out.String(), errs.String(), err
}

// must runs an account command, ends the test if it fails, and returns its output.
func must(t *testing.T, a accounts.Accounts, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, err := command(t, a, stdin, args...)
	if err != nil || stderr != "" {
		t.Fatalf("%q: %v %s", args, err, stderr)
	}
	return stdout
}

func email() string { return value.NewID() + "@test.example" }

var shownPassword = regexp.MustCompile(`^password: ([A-Z2-7]{26})\n$`)

func TestUserAdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	farm := "farm " + value.NewID()
	log := func(email, password string) *testkit.Response {
		t.Helper()
		return w.Anonymous().Post(t, loginPath, credentials(email, password))
	}
	admin, viewer := "Ada."+email(), email()

	// The command prints a random password, and the user can log in with it.
	m := shownPassword.FindStringSubmatch(must(t, a, "", "user", "add", "--tenant", farm, "--new-tenant",
		"--email", " "+admin+" ", "--name", "Ada L.", "--role", "admin"))
	if m == nil {
		t.Fatal("the command printed no password")
	}
	set := tokensOf(t, log(strings.ToUpper(admin), m[1]))
	me := as(w.Anonymous(), set.Access).Get(t, mePath).Want(200)
	me.Shows(map[string]string{"email": admin, "name": "Ada L."})
	tenant := me.Text("tenant_id")

	// The password is one line of standard input; the tenant exists already.
	for i, c := range []struct{ stdin, password string }{
		{"correct horse battery\n", "correct horse battery"},
		{"correct horse battery\r\nmore", "correct horse battery"},
		{" leading and trailing blanks \n", " leading and trailing blanks "},
		{"no line break", "no line break"},
		{"пароль пароль\n", "пароль пароль"},
	} {
		user := fmt.Sprint(i, viewer)
		out := must(t, a, c.stdin, "user", "add", "--tenant", farm, "--email", user, "--name", "Bob",
			"--role", "viewer", "--password-stdin")
		testkit.Equal(t, out, "", "printed")
		set := tokensOf(t, log(user, c.password))
		if p, err := w.Tokens.ParseAccess(set.Access); err != nil || p.Role != "viewer" || p.TenantID != tenant {
			t.Errorf("%+v, %v; the tenant is %s", p, err, tenant)
		}
	}
	must(t, a, "", "user", "add", "--role", "operator", "--tenant", farm, "--email", email(), "--name", "Eve")

	// The names of tenants are case-sensitive.
	upper := strings.ToUpper(farm)
	must(t, a, "", "user", "add", "--role", "operator",
		"--tenant", upper, "--new-tenant", "--email", email(), "--name", "Eve")
	if users, err := a.Users(t.Context(), upper); err != nil || len(users) != 1 {
		t.Errorf("the tenant %q has %d users, %v, want 1", upper, len(users), err)
	}

	// Lengths are counted in characters, not in bytes.
	long := strings.Repeat("漢", 150)
	must(t, a, "", "user", "add", "--role", "operator",
		"--tenant", long+value.NewID(), "--new-tenant", "--email", email(), "--name", long)

	const (
		badEmail  = "email must be an e-mail address"
		badTenant = "the tenant name must have 1 to 200 characters"
	)
	other := "other " + farm
	for _, c := range []struct{ name, flag, value, want string }{
		{"e-mail in use", "email", admin, "The e-mail " + admin + " is already in use"},
		{"e-mail in use, other case", "email", strings.ToUpper(admin), "is already in use"},
		{"e-mail without @", "email", "ada", badEmail},
		{"e-mail without host", "email", "ada@", badEmail},
		{"e-mail without name", "email", "@farm.example", badEmail},
		{"e-mail with a space", "email", "a da@farm.example", badEmail},
		{"e-mail with a line break", "email", "ada@farm.example\nx", badEmail},
		{"e-mail not UTF-8", "email", "\xff@farm.example", "email must be valid Unicode text"},
		{"e-mail too long", "email", strings.Repeat("x", 320) + "@farm.example",
			"email must have at most 320 characters"},
		{"unknown role", "role", "root", "role must be one of admin, operator, viewer"},
		{"role in other case", "role", "Admin", "role must be one of admin, operator, viewer"},
		{"blank tenant", "tenant", " ", badTenant},
		{"tenant too long", "tenant", strings.Repeat("漢", 201), badTenant},
		{"tenant not UTF-8", "tenant", "\xff", badTenant},
		{"blank name", "name", " ", "name must not be blank"},
		{"name too long", "name", strings.Repeat("漢", 201), "name must have at most 200 characters"},
		{"name not UTF-8", "name", "\xff", "name must be valid Unicode text"},
	} {
		// The flag package uses the last value of a repeated flag.
		out, _, err := command(t, a, "", "user", "add", "--role", "operator",
			"--tenant", other, "--new-tenant", "--email", email(),
			"--name", "x", "--"+c.flag, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SQLSTATE") ||
			out != "" {
			t.Errorf("%s: %v, want %q; printed %q", c.name, err, c.want, out)
		}
	}
	for stdin, want := range map[string]string{
		"short\n":                   "must have at least 10 characters",
		"":                          "must have at least 10 characters",
		strings.Repeat("x", 10_000): "must have at most 200 characters",
		commonPassword + "\n":       "is one of the most common passwords",
	} {
		out, _, err := command(t, a, stdin, "user", "add", "--role", "operator",
			"--tenant", other, "--new-tenant", "--email", email(),
			"--name", "x",
			"--password-stdin")
		if err == nil || !strings.Contains(err.Error(), "the password on standard input "+want) || out != "" {
			t.Errorf("password %.10q: %v, want %q; printed %q", stdin, err, want, out)
		}
	}
	if _, err := a.Users(t.Context(), other); err == nil {
		t.Error("a rejected user created a tenant")
	}
	tokensOf(t, log(admin, m[1]))
}

// Accounts.Add rejects a user with the same sentence as POST /api/v1/users.
func TestAddAndAPIRejectTheSameUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	farm := w.Tenant(t)
	admin := farm.User(t, "admin")
	for field, values := range map[string][]string{
		"email": {"", "bob", "bob@", "@farm.example", "a b@farm.example", "a@b@c", "a\n@farm.example",
			"a\u00a0@farm.example", "a\u0085@farm.example", "a\x7f@farm.example", "a\x00@farm.example",
			"\ufffd@farm.example", strings.Repeat("x", 320) + "@x", admin.Email},
		"name": {"", "  ", strings.Repeat("x", 201), "\x00", "\ufffd"},
		"role": {"", "Admin", "owner"},
		"password": {"", "123456789", strings.Repeat("x", 201), strings.Repeat("é", 9), strings.Repeat(" ", 12),
			commonPassword, "a NUL \x00 in it"},
	} {
		for _, value := range values {
			u := accounts.NewUser{
				Tenant: "new " + farm.ID, NewTenant: true,
				Email: email(), Name: "x", Role: "viewer", Password: testkit.Password,
			}
			switch field {
			case "email":
				u.Email = value
			case "name":
				u.Name = value
			case "role":
				u.Role = value
			case "password":
				u.Password = value
			}
			body := j{"email": u.Email, "name": u.Name, "role": u.Role, "password": u.Password}
			response := admin.Post(t, "/api/v1/users", body)
			_, err := w.accounts().Add(t.Context(), u)
			if response.Status < 400 || err == nil || err.Error() != response.Text("detail") {
				t.Errorf("%s %.20q: API %d %s, command %v", field, value, response.Status, response.Body, err)
			}
		}
	}
}

// Concurrent commands that add users to the same new tenant create one tenant.
func TestConcurrentUserAdd(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	a := accounts.Accounts{DB: d, Hasher: secrets.NewHasher(1)}
	for range testkit.InRigs(3, 10) { // one round does not always hit the race
		farm, same := "farm "+value.NewID(), email()
		actors := make([]db.Actor, 8)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		add := func(tenant, email string) (db.Actor, error) {
			return a.Add(t.Context(), accounts.NewUser{
				Tenant: tenant, NewTenant: true, Email: email, Name: "x", Role: "operator", Password: testkit.Password,
			})
		}
		for i := range actors {
			wg.Go(func() {
				<-begin
				var err error
				if actors[i], err = add(farm, email()); err != nil {
					t.Error(err)
				}
				_, errs[i] = add(farm+" 2", same)
			})
		}
		close(begin)
		wg.Wait()
		for _, actor := range actors {
			if actor.Tenant != actors[0].Tenant || actor.User == "" {
				t.Fatalf("the users are %+v", actors)
			}
		}
		created := 0
		for _, err := range errs {
			if err == nil {
				created++
			} else if !strings.Contains(err.Error(), "is already in use") {
				t.Error(err)
			}
		}
		testkit.Equal(t, created, 1, "users with the same e-mail: %v", errs)
		for name, want := range map[string]int{farm: 8, farm + " 2": 1} {
			if users, err := a.Users(t.Context(), name); err != nil || len(users) != want {
				t.Errorf("%s has %d users, %v", name, len(users), err)
			}
		}
		tenants, err := a.Tenants(t.Context())
		testkit.Check(t, err)
		tenants = slices.DeleteFunc(tenants,
			func(i accounts.TenantInfo) bool { return !strings.HasPrefix(i.Name, farm) })
		if len(tenants) != 2 {
			t.Fatalf("%d tenants, want 2", len(tenants))
		}
	}
}

// Every account command works with DB_MAX_CONNS=1.
func TestAccountsWithOneConnection(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 1})
	testkit.Check(t, err)
	defer d.Close()
	a := accounts.Accounts{DB: d, Hasher: secrets.NewHasher(testRounds)}
	farm, user := "farm "+value.NewID(), email()
	must(t, a, "", "user", "add", "--role", "operator",
		"--tenant", farm, "--new-tenant", "--email", user, "--name", "x")
	must(t, a, "", "user", "passwd", "--email", user)
	must(t, a, "", "user", "disable", "--email", user)
	must(t, a, "", "user", "enable", "--email", user)
	must(t, a, "", "user", "list", "--tenant", farm)
	must(t, a, "", "tenant", "list")
}

// A new password ends the sessions of the user, and of no other user.
func TestUserPasswd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	user, colleague := w.Operator(t), w.Operator(t)
	set, other := w.login(t, user), w.login(t, colleague)
	must(t, a, "another password\n", "user", "passwd", "--email", strings.ToUpper(user.Email), "--password-stdin")
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	w.refresh(t, other.Refresh)
	w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)).WantError(401, "INVALID_CREDENTIALS")
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, "another password")))
	m := shownPassword.FindStringSubmatch(must(t, a, "", "user", "passwd", "--email", user.Email))
	if m == nil {
		t.Fatal("the command printed no password")
	}
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, m[1])))

	for want, args := range map[string][]string{
		"no user has this e-mail: unknown@test.example": {"user", "passwd", "--email", "unknown@test.example"},
		"must have at least 10 characters":              {"user", "passwd", "--email", user.Email, "--password-stdin"},
	} {
		if out, _, err := command(t, a, "short\n", args...); err == nil || !strings.Contains(err.Error(), want) ||
			out != "" {
			t.Errorf("%q: %v, printed %q", args, err, out)
		}
	}
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, m[1])))
}

// Disabling a user ends the user's sessions and rejects the access token; enabling restores neither session.
func TestUserDisable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	user, colleague := w.Operator(t), w.Operator(t)
	set := w.login(t, user)
	for range 2 {
		upper := strings.ToUpper(user.Email)
		out := must(t, a, "", "user", "disable", "--email", " "+upper)
		testkit.Equal(t, out, "disabled "+upper+"; all sessions have ended\n", "printed")
		user.Get(t, mePath).WantError(401, "INVALID_TOKEN")
		w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	}
	colleague.Get(t, mePath).Want(200)
	for range 2 {
		out := must(t, a, "", "user", "enable", "--email", user.Email)
		testkit.Equal(t, out, "enabled "+user.Email+"; all sessions have ended\n", "printed")
		user.Get(t, mePath).Want(200)
	}
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	for _, verb := range []string{"disable", "enable"} {
		_, _, err := command(t, a, "", "user", verb, "--email", "unknown@test.example")
		if !errors.Is(err, accounts.ErrNoUser) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestListCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	farm, other := "farm "+value.NewID(), "other "+value.NewID()
	ada, bob, eve := "a"+email(), "b"+email(), "c"+email()
	for _, u := range [][]string{
		{farm, bob, "Bob", "viewer"}, {farm, ada, "Ada", "admin"}, {other, eve, "Eve", "operator"},
	} {
		must(t, a, "", "user", "add", "--tenant", u[0], "--new-tenant", "--email", u[1], "--name", u[2], "--role",
			u[3])
	}
	must(t, a, "", "user", "disable", "--email", bob)

	var users []accounts.Account
	testkit.Check(t, json.Unmarshal([]byte(must(t, a, "", "user", "list", "--tenant", farm, "--json")), &users))
	if len(users) != 2 || users[0].Email != ada || users[0].Name != "Ada" || users[0].Role != "admin" ||
		users[0].Tenant != farm || users[0].Disabled != nil || users[0].CreatedAt.IsZero() ||
		users[1].Email != bob || users[1].Disabled == nil {
		t.Errorf("%+v", users)
	}
	if _, ok := value.ParseID(users[0].ID); !ok {
		t.Errorf("%+v", users[0])
	}
	lines := strings.Split(must(t, a, "", "user", "list", "--tenant", farm), "\n")
	for i, want := range []string{
		`^TENANT +EMAIL +NAME +ROLE +STATE +ID$`,
		`^` + farm + ` +` + ada + ` +Ada +admin +enabled +` + users[0].ID + `$`,
		`^` + farm + ` +` + bob + ` +Bob +viewer +disabled +` + users[1].ID + `$`,
		`^$`,
	} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of %q does not match %s", i+1, lines, want)
		}
	}
	all := must(t, a, "", "user", "list")
	for _, e := range []string{ada, bob, eve} {
		testkit.Equal(t, strings.Count(all, e), 1, "the list names %s", e)
	}
	if strings.Contains(all, "pbkdf2") || strings.Contains(must(t, a, "", "user", "list", "--json"), "pbkdf2") {
		t.Error("the list shows password hashes")
	}

	var tenants []accounts.TenantInfo
	testkit.Check(t, json.Unmarshal([]byte(must(t, a, "", "tenant", "list", "--json")), &tenants))
	found := 0
	table := must(t, a, "", "tenant", "list")
	for _, info := range tenants {
		if want := map[string]int{farm: 2, other: 1}[info.Name]; want != 0 {
			found++
			line := regexp.MustCompile(`(?m)^` + info.Name + ` +` + fmt.Sprint(want) + ` +` +
				info.CreatedAt.UTC().Format("2006-01-02") + ` +` + info.ID + `$`)
			if info.Users != want || !line.MatchString(table) {
				t.Errorf("%+v in %s", info, table)
			}
		}
	}
	testkit.Equal(t, found, 2, "tenants in the list")
	for _, format := range []string{"--json=false", "--json"} {
		out, _, err := command(t, a, "", "user", "list", "--tenant", "unknown farm", format)
		if err == nil || !strings.Contains(err.Error(), `there is no tenant "unknown farm"`) || out != "" {
			t.Errorf("%s: %v, printed %q", format, err, out)
		}
	}
}

func TestCommandMistakes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"user add --name n":                         "--email is missing",
		"user move --email e@x":                     "--tenant is missing",
		"user remove":                               "--email is missing",
		"tenant rename a":                           "NEW-NAME is missing",
		"tenant remove":                             "NAME is missing",
		"user add --tenant t --email e@x":           "--name is missing",
		"user add --tenant t --email e@x --name=":   "--name is missing",
		"user add --email e@x --name n":             "--role is missing",
		"key add --name n":                          "--role is missing",
		"user passwd":                               "--email is missing",
		"user disable":                              "--email is missing",
		"user enable":                               "--email is missing",
		"user disable --email a@b c":                `unexpected argument "c"`,
		"user passwd --email a@b --password secret": "flag provided but not defined: -password",
		"user list --tenant":                        "flag needs an argument",
		"tenant list --json=maybe":                  "invalid boolean value",
		"tenant add":                                "the commands are tenant list",
	} {
		_, run, err := cli.Parse(accounts.Commands(testRounds), strings.Fields(args), &cli.Call{})
		if run != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
