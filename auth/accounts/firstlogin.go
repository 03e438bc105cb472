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

// FirstLogin creates a tenant and its admin if there is no tenant yet. It shows the password once: on out if out is a
// terminal, otherwise in the file first-login of the data folder. If once is not nil, it also shows a link for one
// sign-in.
func FirstLogin(
	ctx context.Context, c cli.Config, d *db.DB, baseURL string, once *auth.OneLogin, out io.Writer,
) error {
	tenants, err := d.Tenants(ctx)
	if err != nil || len(tenants) > 0 {
		return err
	}
	admin := NewUser{
		Tenant: "farm", NewTenant: true, Email: "admin@farm.example", Name: "Admin", Role: "admin",
		Password: auth.RandomPassword(),
	}
	link := Link(baseURL, once, admin)
	path := filepath.Join(c.DataDir, "first-login")
	onTerminal := cli.IsTerminal(out)
	if !onTerminal {
		// Write the file before the user is created: after a crash in between, the password must not be lost.
		if err := local.WritePrivate(path, []byte(LoginText(baseURL, link, admin))); err != nil {
			return err
		}
	}
	if _, err := (Accounts{DB: d, Hasher: auth.NewHasher(auth.Rounds)}).Add(ctx, admin); err != nil {
		return err
	}
	if onTerminal {
		return Announce(out, "The first login. The password is shown once; to set another one:\n"+
			"spoolwright user passwd --email "+admin.Email, baseURL, link, admin)
	}
	c.Log.Info("created the first login; its password is in a file that only this account may read", "file", path)
	return nil
}

// Announce prints a user's login, with a heading and in a frame that stands out between the lines of the log.
func Announce(out io.Writer, heading, baseURL, link string, u NewUser) error {
	rule := strings.Repeat("=", 80)
	_, err := fmt.Fprintf(out, "\n%s\n%s\n\n%s\nTry the API in a browser: %s/docs\n%s\n\n",
		rule, heading, LoginText(baseURL, link, u), baseURL, rule)
	return err
}

// Link returns a link that signs in as the user once, or "" if once is nil.
func Link(baseURL string, once *auth.OneLogin, u NewUser) string {
	if once == nil {
		return ""
	}
	return baseURL + "/first-login?key=" + once.Offer(u.Email, u.Password)
}

// LoginText returns a text with a user's login, the link that Link returned, and a command that uses the login.
func LoginText(baseURL, link string, u NewUser) string {
	if link != "" {
		link = "open:     " + link + " (signs in once, on this machine)\n"
	}
	return fmt.Sprintf("e-mail:   %s\npassword: %s\n%s\ncurl -s %s/api/v1/auth/login -H 'Content-Type: application/json'"+
		" -d '{\"email\":\"%s\",\"password\":\"%s\"}'\n", u.Email, u.Password, link, baseURL, u.Email, u.Password)
}
