package accounts

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"spoolwright/auth"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/local"
)

// FirstLogin creates a tenant and its admin if there is no tenant yet. It shows the password once: on out if that is a
// terminal, otherwise in the file first-login of the data folder.
func FirstLogin(ctx context.Context, c cli.Config, d *db.DB, baseURL string, out io.Writer) error {
	tenants, err := d.Tenants(ctx)
	if err != nil || len(tenants) > 0 {
		return err
	}
	admin := NewUser{
		Tenant: "farm", NewTenant: true, Email: "admin@farm.example", Name: "Admin", Role: "admin",
		Password: auth.RandomPassword(),
	}
	path := filepath.Join(c.DataDir, "first-login")
	onTerminal := cli.IsTerminal(out)
	if !onTerminal {
		// Written before the user is created: after a crash in between, the password must not be lost.
		if err := local.WritePrivate(path, []byte(LoginText(baseURL, admin))); err != nil {
			return err
		}
	}
	if _, err := (Accounts{DB: d, Hasher: auth.NewHasher(auth.Rounds)}).Add(ctx, admin); err != nil {
		return err
	}
	if onTerminal {
		return Announce(out, "The first login. The password is shown once; to set another one:\n"+
			"spoolwright user passwd --email "+admin.Email, baseURL, admin)
	}
	c.Log.Info("created the first login; its password is in a file that only this account may read", "file", path)
	return nil
}

// Announce prints a user's login, with a heading and in a frame that stands out between the lines of the log.
func Announce(out io.Writer, heading, baseURL string, u NewUser) error {
	rule := strings.Repeat("=", 80)
	_, err := fmt.Fprintf(out, "\n%s\n%s\n\n%s\nTry it in a browser: %s/docs\n%s\n\n",
		rule, heading, LoginText(baseURL, u), baseURL, rule)
	return err
}

// LoginText shows a user's login and a command that uses it.
func LoginText(baseURL string, u NewUser) string {
	return fmt.Sprintf("e-mail:   %s\npassword: %s\n\ncurl -s %s/api/v1/auth/login -H 'Content-Type: application/json'"+
		" -d '{\"email\":\"%s\",\"password\":\"%s\"}'\n", u.Email, u.Password, baseURL, u.Email, u.Password)
}
