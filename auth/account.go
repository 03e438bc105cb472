package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/server"
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

// ErrNoUser means that no user has the e-mail.
var ErrNoUser = errors.New("no user has this e-mail")

// Accounts creates, changes and lists users and tenants on behalf of the operator of the service: the account commands
// and the first start. It may act on every tenant, so no request handler may use it.
type Accounts struct {
	DB     *db.DB
	Hasher *Hasher
}

// NewUser is the input of Accounts.Add.
type NewUser struct{ Tenant, Email, Name, Role, Password string }

// Add creates a user, and the tenant if no tenant has the name. It validates the user by the rules of POST
// /api/v1/users; the error names the invalid fields, or says that the e-mail is in use (e-mails are unique across all
// tenants).
func (a Accounts) Add(ctx context.Context, u NewUser) (db.Actor, error) {
	if err := checkTenantName(u.Tenant); err != nil {
		return db.Actor{}, err
	}
	user, err := u.account()
	if err != nil {
		return db.Actor{}, err
	}
	hash, err := a.Hasher.Hash(ctx, u.Password)
	if err != nil {
		return db.Actor{}, err
	}
	for {
		actor, err := a.add(ctx, u.Tenant, &user, hash)
		if !errors.Is(err, errTenantExists) {
			return actor, withoutCode(err)
		}
	}
}

// account validates u as the body of POST /api/v1/users.
func (u NewUser) account() (UserAccount, error) {
	body, err := json.Marshal(map[string]string{
		"email": strings.TrimSpace(u.Email), "name": u.Name, "role": u.Role, "password": u.Password,
	})
	if err != nil {
		return UserAccount{}, err
	}
	account, err := server.DecodeBody[UserAccount](body)
	return account, withoutCode(err)
}

// withoutCode reduces a *server.Error to its sentence, because a command prints no error codes. It returns any other
// error unchanged.
func withoutCode(err error) error {
	if e, ok := errors.AsType[*server.Error](err); ok {
		return errors.New(e.Detail)
	}
	return err
}

// add inserts the user, and the tenant if it does not exist. It returns errTenantExists if another transaction created
// the tenant since add read the list of tenants.
func (a Accounts) add(ctx context.Context, tenant string, user *UserAccount, hash string) (db.Actor, error) {
	actor := db.Actor{User: db.NewID(), Role: string(*user.Role.Value)}
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return db.Actor{}, err
	}
	for _, t := range tenants {
		if t.Name == tenant {
			actor.Tenant = t.ID
		}
	}
	isNew := actor.Tenant == ""
	if isNew {
		actor.Tenant = db.NewID()
	}
	err = a.DB.Tx(db.As(ctx, db.Actor{Tenant: actor.Tenant}), func(tx context.Context) error {
		if isNew {
			created, err := a.lockTenantName(tx, actor.Tenant, tenant, tenants)
			if err != nil {
				return err
			}
			if created {
				return errTenantExists
			}
			if err := a.DB.Write(tx, db.SQL(`insert into tenants (name) values ($1)`, tenant)); err != nil {
				return err
			}
		}
		_, err := insertUser(tx, a.DB, actor.User, user, hash)
		return err
	})
	return actor, err
}

// lockTenantName locks the tenant name and reports whether another transaction created it since known was read. It
// reads the new tenants' names within the same transaction, because the pool may have only one connection; for that it
// binds the transaction to each new tenant, and at the end to own again.
func (a Accounts) lockTenantName(tx context.Context, own, name string, known []TenantInfo) (bool, error) {
	var ids []string
	err := a.DB.Write(tx,
		db.SQL(`select pg_advisory_xact_lock(hashtextextended('tenant ' || $1::text, 0))::text`, name),
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

var errTenantExists = errors.New("another command created the tenant at the same time")

func checkTenantName(name string) error {
	if strings.TrimSpace(name) != name || name == "" || utf8.RuneCountInString(name) > 200 ||
		!utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return errors.New("the tenant name must have 1 to 200 characters, without blanks at its start or end")
	}
	return nil
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

// SetDisabled disables or enables a user and ends all the user's sessions. The service rejects the next request of a
// disabled user. It may disable the last admin of a tenant.
func (a Accounts) SetDisabled(ctx context.Context, email string, disabled bool) error {
	return a.change(ctx, email,
		`update users set disabled_at = case when $2 then coalesce(disabled_at, now()) end where id = $1`, disabled)
}

// change runs an UPDATE whose $1 is the id of the user with the e-mail and whose $2 is arg, and deletes the user's
// sessions, in one transaction. It returns ErrNoUser if no user has the e-mail.
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

// Tenants returns all tenants that have a user.
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
			db.SQL(`select name, created_at, (select count(*) from users) from tenants`).
				Into(&t.Name, &t.CreatedAt, &t.Users))
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// FindTenant returns the id of the tenant with the name. The error for an unknown name says how to list the tenants.
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
	return "", fmt.Errorf("there is no tenant %q; `spoolwright tenant list` lists the tenants", name)
}

// Users returns the users of the named tenant, or of all tenants if the name is empty.
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
		err := a.DB.Read(db.As(ctx, db.Actor{Tenant: t.ID}), db.SQL(`
			select coalesce(json_agg(json_build_object(
				'tenant', $1::text, 'id', id, 'email', email, 'name', name, 'role', role,
				'disabled_at', disabled_at, 'created_at', created_at) order by email), '[]')
			from users`, t.Name).Into(&users))
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
