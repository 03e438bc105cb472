package auth_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/cli"
	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// newFarm creates a tenant with an admin by the account commands, and returns the names of both.
func newFarm(t *testing.T, a accounts.Accounts) (farm, admin string) {
	t.Helper()
	farm, admin = "farm "+value.NewID(), email()
	must(t, a, "", "user", "add", "--tenant", farm, "--new-tenant", "--email", admin, "--name", "Ada", "--role",
		"admin")
	return farm, admin
}

// key add prints only the secret, which works at once, until key revoke.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	a := accounts.Accounts{DB: api.DB, Hasher: secrets.NewHasher(testRounds)}
	farm, _ := newFarm(t, a)
	other, _ := newFarm(t, a)
	add := func(args ...string) *testkit.Client {
		t.Helper()
		secret, ended := strings.CutSuffix(must(t, a, "", append([]string{"key", "add"}, args...)...), "\n")
		if !ended || !secrets.IsKey(secret) {
			t.Fatalf("printed %q", secret)
		}
		return withKey(api, secret)
	}
	operator := add("--tenant", farm, "--name", "a script", "--role", "operator")
	operator.Post(t, spoolsPath, spoolBody).Want(201)
	viewer := add("--tenant", farm, "--name", "dash\x1b[31mboard", "--role", "viewer", "--expires", "2100-01-31")
	viewer.Get(t, spoolsPath).Want(200).Shows(map[string]string{"total": "1"})
	add("--tenant", other, "--name", "x", "--role", "printer", "--expires", "2100-01-31T10:00:00+01:00").
		Get(t, spoolsPath).WantError(403, "FORBIDDEN")

	var keys []accounts.KeyInfo
	testkit.Check(t, json.Unmarshal([]byte(must(t, a, "", "key", "list", "--tenant", farm, "--json")), &keys))
	if len(keys) != 2 || keys[0].Name != "a script" || keys[0].Role != "operator" || keys[0].ExpiresAt != nil ||
		keys[1].Role != "viewer" || keys[1].ExpiresAt.Year() != 2100 || keys[1].Tenant != farm {
		t.Fatalf("%+v", keys)
	}
	if out := must(t, a, "", "key", "list"); !strings.Contains(out, keys[0].ID) || !strings.Contains(out, other) ||
		strings.Contains(out, "\x1b") || strings.Contains(out, operator.Header.Get("X-API-Key")[8:]) {
		t.Errorf("printed %q", out)
	}
	for range 2 {
		testkit.Equal(t, must(t, a, "", "key", "revoke", keys[0].ID), `revoked the API key "a script"`+"\n", "printed")
		operator.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	}
	viewer.Get(t, spoolsPath).Want(200)
	if out := must(t, a, "", "key", "list", "--tenant", farm); !strings.Contains(out, "revoked") ||
		!strings.Contains(out, "valid") {
		t.Errorf("printed %q", out)
	}
}

func TestKeyCommandErrors(t *testing.T) {
	t.Parallel()
	a := newWorld(t).accounts()
	farm, _ := newFarm(t, a)
	newFarm(t, a)
	for args, want := range map[string]string{
		"add --name x --role viewer":                           "name the tenant with --tenant",
		"add --name x --role viewer --tenant nothing":          `there is no tenant "nothing"`,
		"list --tenant nothing":                                `there is no tenant "nothing"`,
		"add --role viewer":                                    "--name is missing",
		"add --name x --role admin --tenant F":                 "role must be one of",
		"add --name x --role viewer --expires 2020-01-01":      "expires_at must be in the future",
		"add --name x --role viewer --expires soon --tenant F": "expires_at",
		"revoke":                  "ID is missing",
		"revoke swk_Ab3d":         "the id must be a UUID",
		"revoke " + value.NewID(): "no API key has this id",
	} {
		words := strings.Fields(args)
		for i, word := range words {
			if word == "F" {
				words[i] = farm
			}
		}
		_, _, err := command(t, a, "", append([]string{"key"}, words...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if _, ok := errors.AsType[cli.Misuse](err); ok != (strings.Contains(want, "missing") ||
			args == "revoke swk_Ab3d") {
			t.Errorf("%s: a misuse is %v", args, ok)
		}
	}
}
