package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spoolwright/db"
)

// Account is a user as the account commands show it.
type Account struct {
	Tenant    string     `json:"tenant"`
	ID        string     `json:"id"`
	Email     string     `json:"email"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Disabled  *time.Time `json:"disabled_at"`
	CreatedAt time.Time  `json:"created_at"`
}

// TenantInfo is a tenant as the account commands show it.
type TenantInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Users     int       `json:"users"`
	CreatedAt time.Time `json:"created_at"`
}

// ErrNoUser means that nobody has the e-mail.
var ErrNoUser = errors.New("no user has this e-mail")

// Accounts makes and changes users and tenants, tenant by tenant. It is for the command line and the first start, not
// for requests.
type Accounts struct {
	DB     *db.DB
	Hasher *Hasher
}

// NewUser is what a user is made of. The tenant is made too if no tenant has that name.
type NewUser struct{ Tenant, Email, Name, Role, Password string }

// Add makes a user and returns who that is. Errors say what to change: a bad e-mail, role or password, or an e-mail that
// is taken (in any tenant: e-mails are unique over all of them).
func (a Accounts) Add(ctx context.Context, u NewUser) (db.Actor, error) {
	if err := u.check(); err != nil {
		return db.Actor{}, err
	}
	hash, err := a.Hasher.Hash(ctx, u.Password)
	if err != nil {
		return db.Actor{}, err
	}
	for {
		actor, err := a.add(ctx, u, hash)
		switch {
		case errors.Is(err, errTenantMade):
			continue
		case db.Violates(err, "login_directory_pkey"):
			return db.Actor{}, fmt.Errorf("the e-mail %s is taken", u.Email)
		}
		return actor, err
	}
}

func (a Accounts) add(ctx context.Context, u NewUser, hash string) (db.Actor, error) {
	actor := db.Actor{User: db.NewID(), Role: u.Role}
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return db.Actor{}, err
	}
	for _, t := range tenants {
		if t.Name == u.Tenant {
			actor.Tenant = t.ID
		}
	}
	fresh := actor.Tenant == ""
	if fresh {
		actor.Tenant = db.NewID()
	}
	err = a.DB.Tx(db.As(ctx, db.Actor{Tenant: actor.Tenant}), func(tx context.Context) error {
		if fresh {
			// Two commands that make the same tenant at once: the second waits here, and then finds the first one's.
			made, err := a.madeSince(tx, actor.Tenant, u.Tenant, tenants)
			if err != nil {
				return err
			}
			if made {
				return errTenantMade
			}
			if err := a.DB.Write(tx, db.SQL(`insert into tenants (name) values ($1)`, u.Tenant)); err != nil {
				return err
			}
		}
		return a.DB.Write(tx,
			db.SQL(`insert into users (id, email, name, role, password_hash) values ($1, $2, $3, $4, $5)`,
				actor.User, strings.TrimSpace(u.Email), u.Name, u.Role, hash),
			db.SQL(`select login_claim($1, $2)::text`, emailKey(u.Email), actor.User))
	})
	return actor, err
}

// madeSince waits for others that make a tenant with the name, and reports whether one is there that is not among the known.
// It stays in the transaction, for the pool may hold no second connection, and so takes a look from each new tenant's side.
func (a Accounts) madeSince(tx context.Context, own, name string, known []TenantInfo) (bool, error) {
	var ids []string
	err := a.DB.Write(tx, db.SQL(`select pg_advisory_xact_lock(hashtextextended('tenant ' || $1::text, 0))::text`, name),
		db.SQL(`select coalesce(array_agg(t::text), '{}') from login_tenants() t`).Into(&ids))
	if err != nil {
		return false, err
	}
	const bind = `select bind_tenant($1, null, null)::text`
	for _, id := range ids {
		if slices.ContainsFunc(known, func(t TenantInfo) bool { return t.ID == id }) {
			continue
		}
		var other string
		err := a.DB.Read(tx, db.SQL(bind, id), db.SQL(`select name from tenants`).Into(&other), db.SQL(bind, own))
		if err != nil || other == name {
			return err == nil, err
		}
	}
	return false, nil
}

var errTenantMade = errors.New("the tenant was made meanwhile")

func (u NewUser) check() error {
	name, host, _ := strings.Cut(strings.TrimSpace(u.Email), "@")
	switch {
	case name == "" || host == "" || strings.Contains(host, "@") || len(u.Email) > 320 || strings.ContainsFunc(strings.TrimSpace(u.Email), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
	}):
		return fmt.Errorf("%q is not an e-mail address", u.Email)
	case levels[u.Role] == 0:
		return fmt.Errorf("the role %q is none of admin, operator, viewer", u.Role)
	case strings.TrimSpace(u.Tenant) != u.Tenant || u.Tenant == "" || !isName(u.Tenant):
		return errors.New("the tenant needs a name of 1 to 200 characters that neither begins nor ends with a blank")
	case strings.TrimSpace(u.Name) == "" || !isName(u.Name):
		return errors.New("the name must be text of 1 to 200 characters")
	}
	return CheckPassword(u.Password)
}

func isName(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0) && utf8.RuneCountInString(s) <= 200
}

// SetPassword changes a user's password and ends all the user's sessions.
func (a Accounts) SetPassword(ctx context.Context, email, password string) error {
	if err := CheckPassword(password); err != nil {
		return err
	}
	hash, err := a.Hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	return a.change(ctx, email, `update users set password_hash = $2 where id = $1`, hash)
}

// SetDisabled disables or enables a user. A disabled one is refused from the next request on; the sessions end.
func (a Accounts) SetDisabled(ctx context.Context, email string, disabled bool) error {
	return a.change(ctx, email, `update users set disabled_at = case when $2 then coalesce(disabled_at, now()) end where id = $1`, disabled)
}

func (a Accounts) change(ctx context.Context, email, sql string, arg any) error {
	actor, found, err := a.DB.FindLogin(ctx, emailKey(email))
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: %s", ErrNoUser, email)
	}
	return a.DB.Write(db.As(ctx, db.Actor{Tenant: actor.Tenant}), db.SQL(sql, actor.User, arg),
		db.SQL(`delete from sessions where user_id = $1`, actor.User))
}

// Tenants lists all tenants.
func (a Accounts) Tenants(ctx context.Context) ([]TenantInfo, error) {
	ids, err := a.DB.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]TenantInfo, len(ids))
	for i, id := range ids {
		t := &all[i]
		t.ID = id
		err := a.DB.Read(db.As(ctx, db.Actor{Tenant: id}),
			db.SQL(`select name, created_at, (select count(*) from users) from tenants`).Into(&t.Name, &t.CreatedAt, &t.Users))
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// FindTenant returns the id of the tenant with the name. If there is none the error says how to see which there are.
func (a Accounts) FindTenant(ctx context.Context, name string) (string, error) {
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range tenants {
		if t.Name == name {
			return t.ID, nil
		}
	}
	return "", fmt.Errorf("there is no tenant %q; `spoolwright tenant list` shows which there are", name)
}

// Users lists the users of the named tenant, or of all if the name is empty.
func (a Accounts) Users(ctx context.Context, tenant string) ([]Account, error) {
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	all := []Account{}
	found := tenant == ""
	for _, t := range tenants {
		if tenant != "" && t.Name != tenant {
			continue
		}
		found = true
		var users []Account
		err := a.DB.Read(db.As(ctx, db.Actor{Tenant: t.ID}), db.SQL(`select coalesce(json_agg(json_build_object('tenant', $1::text, 'id', id, 'email', email, 'name', name,
			'role', role, 'disabled_at', disabled_at, 'created_at', created_at) order by email), '[]') from users`, t.Name).Into(&users))
		if err != nil {
			return nil, err
		}
		all = append(all, users...)
	}
	if !found {
		return nil, fmt.Errorf("there is no tenant %q", tenant)
	}
	return all, nil
}
