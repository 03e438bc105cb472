package accounts

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"spoolwright/auth"
	"spoolwright/auth/secrets"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/local"
)

// FirstLogin creates a tenant and its admin if there is no tenant yet. It shows the password once: on out if out is a
// terminal, otherwise in the file first-login of the data folder. If once is not nil, it also shows a link for one
// sign-in. If there is a tenant, it shows on a terminal where the service serves.
func FirstLogin(
	ctx context.Context, c cli.Config, d *db.DB, baseURL string, once *auth.OneLogin, out io.Writer,
) error {
	tenants, err := d.Tenants(ctx)
	if err != nil {
		return err
	}
	if len(tenants) > 0 {
		return serving(out, baseURL)
	}
	admin := NewUser{
		Tenant: "farm", NewTenant: true, Email: "admin@farm.example", Name: "Admin", Role: "admin",
		Password: secrets.RandomPassword(),
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
	if _, err := (Accounts{DB: d, Hasher: secrets.NewHasher(secrets.Rounds)}).Add(ctx, admin); err != nil {
		return err
	}
	if onTerminal {
		return Announce(out, "the new farm", baseURL, link, admin, "Ctrl-C; the password is not shown again")
	}
	c.Log.Info("created the first login; its password is in a file that only this account may read", "file", path)
	return nil
}

// Announce prints what the service serves and where, a user's login, and how to stop.
func Announce(out io.Writer, what, baseURL, link string, u NewUser, stop string) error {
	_, err := fmt.Fprintf(out, "\nSpoolwright serves %s on %s\n%sstop:     %s\n\n", what, baseURL,
		loginLines(link, u), stop)
	return err
}

// NoFirstLogin shows on a terminal where a service with DATABASE_URL serves, and warns if its database has no tenant.
// It creates none: of several instances, only one would have the file with the password.
func NoFirstLogin(ctx context.Context, c cli.Config, d *db.DB, baseURL string, out io.Writer) error {
	tenants, err := d.Tenants(ctx)
	if err != nil {
		return err
	}
	if len(tenants) == 0 {
		c.Log.Warn("the database has no users, so nobody can sign in: create the first one with `spoolwright user add " +
			"--tenant FARM --new-tenant --email EMAIL --name NAME --role admin` and the same settings")
	}
	return serving(out, baseURL)
}

// serving prints on a terminal where the service serves, and how to stop it.
func serving(out io.Writer, baseURL string) error {
	if !cli.IsTerminal(out) {
		return nil
	}
	_, err := fmt.Fprintf(out, "Spoolwright serves on %s (Ctrl-C stops it)\n", baseURL)
	return err
}

// Link returns a link that signs in as the user once, or "" if once is nil.
func Link(baseURL string, once *auth.OneLogin, u NewUser) string {
	if once == nil {
		return ""
	}
	return baseURL + "/first-login?key=" + once.Offer(u.Email, u.Password)
}

// loginLines returns the lines with a user's login, and with the link that Link returned.
func loginLines(link string, u NewUser) string {
	if link != "" {
		link = "sign in:  " + link + " (once, on this machine)\n"
	}
	return fmt.Sprintf("e-mail:   %s\npassword: %s\n%s", u.Email, u.Password, link)
}

// LoginText returns a text with a user's login, the link that Link returned, and a command that uses the login.
func LoginText(baseURL, link string, u NewUser) string {
	return fmt.Sprintf("%s\ncurl -s %s/api/v1/auth/login -H 'Content-Type: application/json'"+
		" -d '{\"email\":\"%s\",\"password\":\"%s\"}'\n", loginLines(link, u), baseURL, u.Email, u.Password)
}
