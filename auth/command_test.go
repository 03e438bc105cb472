package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"spoolwright/auth"
	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// command runs an account command as main does, and returns what it printed.
func command(t *testing.T, a auth.Accounts, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	run, err := auth.ParseCommand(args, &errs)
	if err == nil {
		err = run(t.Context(), a, strings.NewReader(stdin), &out)
	}
	return out.String(), errs.String(), err
}

// must is command for what has to succeed.
func must(t *testing.T, a auth.Accounts, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, err := command(t, a, stdin, args...)
	if err != nil || stderr != "" {
		t.Fatalf("%q: %v %s", args, err, stderr)
	}
	return stdout
}

func email() string { return db.NewID() + "@test.example" }

var shownPassword = regexp.MustCompile(`^password: ([A-Z2-7]{26})\n$`)

func TestUserAdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	farm := "farm " + db.NewID()
	log := func(email, password string) *authtest.Response {
		t.Helper()
		return w.Anonymous().Post(t, loginPath, credentials(email, password))
	}
	admin, viewer := "Ada."+email(), email()

	// A random password is shown once, and works.
	m := shownPassword.FindStringSubmatch(must(t, a, "", "user", "add", "--tenant", farm, "--email", " "+admin+" ", "--name", "Ada L.", "--role", "admin"))
	if m == nil {
		t.Fatal("no password was shown")
	}
	set := tokensOf(t, log(strings.ToUpper(admin), m[1]))
	me := as(w.Anonymous(), set.Access).Get(t, mePath).Want(200)
	me.Shows(map[string]string{"email": admin, "name": "Ada L."})
	tenant := me.Text("tenant_id")

	// From standard input: a line, and the same tenant.
	for i, c := range []struct{ stdin, password string }{
		{"correct horse battery\n", "correct horse battery"},
		{"correct horse battery\r\nmore", "correct horse battery"},
		{" blanks count \n", " blanks count "},
		{"no line break", "no line break"},
		{"пароль пароль\n", "пароль пароль"},
	} {
		user := fmt.Sprint(i, viewer)
		if out := must(t, a, c.stdin, "user", "add", "--tenant", farm, "--email", user, "--name", "Bob", "--role", "viewer", "--password-stdin"); out != "" {
			t.Errorf("printed %q", out)
		}
		set := tokensOf(t, log(user, c.password))
		if p, err := w.Tokens.ParseAccess(set.Access); err != nil || p.Role != "viewer" || p.TenantID != tenant {
			t.Errorf("%+v, %v; the tenant is %s", p, err, tenant)
		}
	}
	must(t, a, "", "user", "add", "--tenant", farm, "--email", email(), "--name", "Eve")

	other := "other " + farm
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"taken", "", []string{"--tenant", farm, "--email", admin, "--name", "x"}, "the e-mail " + admin + " is taken"},
		{"taken, in other case", "", []string{"--tenant", farm, "--email", strings.ToUpper(admin), "--name", "x"}, "is taken"},
		{"taken in another tenant", "", []string{"--tenant", other, "--email", admin, "--name", "x"}, "is taken"},
		{"no e-mail", "", []string{"--tenant", other, "--email", "ada", "--name", "x"}, `"ada" is not an e-mail address`},
		{"no host", "", []string{"--tenant", other, "--email", "ada@", "--name", "x"}, "is not an e-mail address"},
		{"no name before it", "", []string{"--tenant", other, "--email", "@farm.example", "--name", "x"}, "is not an e-mail address"},
		{"a space", "", []string{"--tenant", other, "--email", "a da@farm.example", "--name", "x"}, "is not an e-mail address"},
		{"a line break", "", []string{"--tenant", other, "--email", "ada@farm.example\nx", "--name", "x"}, "is not an e-mail address"},
		{"not UTF-8", "", []string{"--tenant", other, "--email", "\xff@farm.example", "--name", "x"}, "is not an e-mail address"},
		{"too long", "", []string{"--tenant", other, "--email", strings.Repeat("x", 320) + "@farm.example", "--name", "x"}, "is not an e-mail address"},
		{"a bad role", "", []string{"--tenant", other, "--email", email(), "--name", "x", "--role", "root"}, `the role "root" is none of admin, operator, viewer`},
		{"a role in other case", "", []string{"--tenant", other, "--email", email(), "--name", "x", "--role", "Admin"}, "is none of"},
		{"a weak password", "short\n", []string{"--tenant", other, "--email", email(), "--name", "x", "--password-stdin"}, "must have at least 10 characters"},
		{"no password", "", []string{"--tenant", other, "--email", email(), "--name", "x", "--password-stdin"}, "must have at least 10 characters"},
		{"a password without end", strings.Repeat("x", 10_000), []string{"--tenant", other, "--email", email(), "--name", "x", "--password-stdin"}, "must have at most 200 characters"},
		{"a blank tenant", "", []string{"--tenant", " ", "--email", email(), "--name", "x"}, "the tenant needs a name"},
		{"a tenant too long", "", []string{"--tenant", strings.Repeat("漢", 201), "--email", email(), "--name", "x"}, "the tenant needs a name of 1 to 200 characters"},
		{"a tenant that is not UTF-8", "", []string{"--tenant", "\xff", "--email", email(), "--name", "x"}, "the tenant needs a name"},
		{"a name too long", "", []string{"--tenant", other, "--email", email(), "--name", strings.Repeat("漢", 201)}, "1 to 200 characters"},
		{"a name that is not UTF-8", "", []string{"--tenant", other, "--email", email(), "--name", "\xff"}, "must be text"},
	} {
		out, _, err := command(t, a, c.stdin, append([]string{"user", "add"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SQLSTATE") || out != "" {
			t.Errorf("%s: %v, want %q; printed %q", c.name, err, c.want, out)
		}
	}
	if _, err := a.Users(t.Context(), other); err == nil {
		t.Error("a mistake has made a tenant")
	}
	tokensOf(t, log(admin, m[1]))

	// As long as may be, counted in characters.
	long := strings.Repeat("漢", 150)
	must(t, a, "", "user", "add", "--tenant", long+db.NewID(), "--email", email(), "--name", long)
}

// Several commands that make the same tenant at once make one.
func TestUserAddAtOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t)
	a := auth.Accounts{DB: d, Hasher: auth.NewHasher(1)}
	for range 10 { // a race is not lost every time
		farm, same := "farm "+db.NewID(), email()
		actors := make([]db.Actor, 8)
		taken := make([]error, 8)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range actors {
			wg.Go(func() {
				<-begin
				var err error
				actors[i], err = a.Add(t.Context(), auth.NewUser{Tenant: farm, Email: email(), Name: "x", Role: "operator", Password: authtest.Password})
				if err != nil {
					t.Error(err)
				}
				_, taken[i] = a.Add(t.Context(), auth.NewUser{Tenant: farm + " 2", Email: same, Name: "x", Role: "operator", Password: authtest.Password})
			})
		}
		close(begin)
		wg.Wait()
		for _, actor := range actors {
			if actor.Tenant != actors[0].Tenant || actor.User == "" {
				t.Fatalf("the users are %+v", actors)
			}
		}
		made := 0
		for _, err := range taken {
			if err == nil {
				made++
			} else if !strings.Contains(err.Error(), "is taken") {
				t.Error(err)
			}
		}
		if made != 1 {
			t.Errorf("the same e-mail was made %d times: %v", made, taken)
		}
		for name, want := range map[string]int{farm: 8, farm + " 2": 1} {
			if users, err := a.Users(t.Context(), name); err != nil || len(users) != want {
				t.Errorf("%s has %d users, %v", name, len(users), err)
			}
		}
		tenants, err := a.Tenants(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(slices.DeleteFunc(tenants, func(i auth.TenantInfo) bool { return i.Name != farm && i.Name != farm+" 2" })); n != 2 {
			t.Fatalf("%d tenants, want 2", n)
		}
	}
}

// DB_MAX_CONNS=1 is enough for every command.
func TestAccountsWithOneConnection(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), db.Config{URL: dbtest.Private().AppURL(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a := auth.Accounts{DB: d, Hasher: auth.NewHasher(testRounds)}
	farm, user := "farm "+db.NewID(), email()
	must(t, a, "", "user", "add", "--tenant", farm, "--email", user, "--name", "x")
	must(t, a, "", "user", "passwd", "--email", user)
	must(t, a, "", "user", "disable", "--email", user)
	must(t, a, "", "user", "enable", "--email", user)
	must(t, a, "", "user", "list", "--tenant", farm)
	must(t, a, "", "tenant", "list")
}

func TestUserPasswd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	user, colleague := w.Operator(t), w.Operator(t)
	set, other := w.login(t, user), w.login(t, colleague)
	must(t, a, "another password\n", "user", "passwd", "--email", strings.ToUpper(user.Email), "--password-stdin")
	w.refreshRefused(t, set.Refresh, "INVALID_TOKEN")
	w.refresh(t, other.Refresh)
	w.Anonymous().Post(t, loginPath, credentials(user.Email, authtest.Password)).WantError(401, "INVALID_CREDENTIALS")
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, "another password")))
	m := shownPassword.FindStringSubmatch(must(t, a, "", "user", "passwd", "--email", user.Email))
	if m == nil {
		t.Fatal("no password was shown")
	}
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, m[1])))

	for want, args := range map[string][]string{
		"no user has this e-mail: nobody@test.example": {"user", "passwd", "--email", "nobody@test.example"},
		"must have at least 10 characters":             {"user", "passwd", "--email", user.Email, "--password-stdin"},
	} {
		if out, _, err := command(t, a, "short\n", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v, printed %q", args, err, out)
		}
	}
	tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, m[1])))
}

func TestUserDisable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	user, colleague := w.Operator(t), w.Operator(t)
	set := w.login(t, user)
	for range 2 {
		must(t, a, "", "user", "disable", "--email", " "+strings.ToUpper(user.Email))
		user.Get(t, mePath).WantError(401, "INVALID_TOKEN")
		w.refreshRefused(t, set.Refresh, "INVALID_TOKEN")
	}
	colleague.Get(t, mePath).Want(200)
	for range 2 {
		must(t, a, "", "user", "enable", "--email", user.Email)
		user.Get(t, mePath).Want(200)
	}
	w.refreshRefused(t, set.Refresh, "INVALID_TOKEN")
	for _, verb := range []string{"disable", "enable"} {
		if _, _, err := command(t, a, "", "user", verb, "--email", "nobody@test.example"); !errors.Is(err, auth.ErrNoUser) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.accounts()
	farm, other := "farm "+db.NewID(), "other "+db.NewID()
	ada, bob, eve := "a"+email(), "b"+email(), "c"+email()
	for _, u := range [][]string{{farm, bob, "Bob", "viewer"}, {farm, ada, "Ada", "admin"}, {other, eve, "Eve", "operator"}} {
		must(t, a, "", "user", "add", "--tenant", u[0], "--email", u[1], "--name", u[2], "--role", u[3])
	}
	must(t, a, "", "user", "disable", "--email", bob)

	var users []auth.Account
	if err := json.Unmarshal([]byte(must(t, a, "", "user", "list", "--tenant", farm, "--json")), &users); err != nil {
		t.Fatal(err)
	}
	if len(users) != 2 || users[0].Email != ada || users[0].Name != "Ada" || users[0].Role != "admin" || users[0].Tenant != farm || users[0].Disabled != nil || users[0].CreatedAt.IsZero() ||
		users[1].Email != bob || users[1].Disabled == nil {
		t.Errorf("%+v", users)
	}
	if _, ok := db.ParseID(users[0].ID); !ok {
		t.Errorf("%+v", users[0])
	}
	lines := strings.Split(must(t, a, "", "user", "list", "--tenant", farm), "\n")
	for i, want := range []string{`^TENANT +EMAIL +NAME +ROLE +STATE +ID$`, `^` + farm + ` +` + ada + ` +Ada +admin +enabled +` + users[0].ID + `$`, `^` + farm + ` +` + bob + ` +Bob +viewer +disabled +` + users[1].ID + `$`, `^$`} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of %q does not match %s", i+1, lines, want)
		}
	}
	all := must(t, a, "", "user", "list")
	for _, e := range []string{ada, bob, eve} {
		if strings.Count(all, e) != 1 {
			t.Errorf("%s is listed %d times", e, strings.Count(all, e))
		}
	}
	if strings.Contains(all, "pbkdf2") || strings.Contains(must(t, a, "", "user", "list", "--json"), "pbkdf2") {
		t.Error("the list shows password hashes")
	}

	var tenants []auth.TenantInfo
	if err := json.Unmarshal([]byte(must(t, a, "", "tenant", "list", "--json")), &tenants); err != nil {
		t.Fatal(err)
	}
	found := 0
	table := must(t, a, "", "tenant", "list")
	for _, info := range tenants {
		if want := map[string]int{farm: 2, other: 1}[info.Name]; want != 0 {
			found++
			line := regexp.MustCompile(`(?m)^` + info.Name + ` +` + fmt.Sprint(want) + ` +` + info.CreatedAt.UTC().Format("2006-01-02") + ` +` + info.ID + `$`)
			if info.Users != want || !line.MatchString(table) {
				t.Errorf("%+v in %s", info, table)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d tenants were found", found)
	}
	for _, args := range [][]string{{"user", "list", "--tenant", "nobody's farm"}, {"user", "list", "--tenant", "nobody's farm", "--json"}} {
		if out, _, err := command(t, a, "", args...); err == nil || !strings.Contains(err.Error(), `there is no tenant "nobody's farm"`) || out != "" {
			t.Errorf("%q: %v, printed %q", args, err, out)
		}
	}
}

func TestCommandMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want string // in the error; "" is help
		help string // in what is printed
	}{
		{"user -h", "", "user add --tenant NAME"},
		{"user --help", "", "tenant list"},
		{"tenant -help", "", "user passwd"},
		{"user add -h", "", "-password-stdin"},
		{"user passwd --help", "", "the user's e-mail"},
		{"user disable -h", "", "the user's e-mail"},
		{"user list -h", "", "-json"},
		{"tenant list -h", "", "-json"},
		{"user", `unknown command "user"`, ""},
		{"tenant", `unknown command "tenant"`, ""},
		{"user remove", `unknown command "user remove"`, ""},
		{"user ADD", "unknown command", ""},
		{"tenant add", "user add --tenant NAME", ""},
		{"user add", "--tenant is missing", ""},
		{"user add --tenant t --name n", "--email is missing", ""},
		{"user add --tenant t --email e@x", "--name is missing", ""},
		{"user add --tenant t --email e@x --name=", "--name is missing", ""},
		{"user passwd", "--email is missing", ""},
		{"user disable", "--email is missing", ""},
		{"user enable", "--email is missing", ""},
		{"user disable ada@farm.example", `"ada@farm.example" is not understood`, ""},
		{"user disable --email a@b c", `"c" is not understood`, ""},
		{"user passwd --email a@b --password secret", "flag provided but not defined: -password", "-password-stdin"},
		{"user list --color", "flag provided but not defined", "-json"},
		{"user list --tenant", "flag needs an argument", "-json"},
		{"tenant list --json=maybe", "invalid boolean value", "-json"},
	} {
		var stderr bytes.Buffer
		run, err := auth.ParseCommand(strings.Fields(c.args), &stderr)
		if run != nil || err == nil || errors.Is(err, flag.ErrHelp) != (c.want == "") || !strings.Contains(err.Error(), c.want) || !strings.Contains(stderr.String(), c.help) {
			t.Errorf("%s: %v; printed %q", c.args, err, stderr.String())
		}
	}
	if run, err := auth.ParseCommand(nil, &bytes.Buffer{}); run != nil || err == nil {
		t.Error("nothing is a command")
	}
}
