package accounts

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

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
		_, err = fmt.Fprint(out, "\nThis is shown once.\n\n", LoginText(baseURL, admin), "\n")
		return err
	}
	c.Log.Info("created the first login; its password is in a file that only this account may read", "file", path)
	return nil
}

// LoginText shows a user's login and a command that uses it.
func LoginText(baseURL string, u NewUser) string {
	return fmt.Sprintf("e-mail:   %s\npassword: %s\n\ncurl -s %s/api/v1/auth/login -H 'Content-Type: application/json'"+
		" -d '{\"email\":\"%s\",\"password\":\"%s\"}'\n", u.Email, u.Password, baseURL, u.Email, u.Password)
}
