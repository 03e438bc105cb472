package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/auth"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Account is a user as the account commands show it.
type Account struct {
	Tenant    string     `json:"tenant"`
	ID        string     `json:"id"`
	Email     string     `json:"email"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Disabled  *time.Time `json:"disabled_at"`
	OTP       bool       `json:"otp_enabled"`
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

// Accounts creates, changes and lists users and tenants on behalf of the operator of the service, for the account
// commands and the first start. It can change every tenant, so no request handler may use it.
type Accounts struct {
	DB     *db.DB
	Hasher *secrets.Hasher
}

// NewUser is the input of Accounts.Add. Tenant may be empty if only one tenant exists. If NewTenant is set, Add
// creates the tenant if it does not exist.
type NewUser struct {
	Tenant, Email, Name, Role, Password string
	NewTenant                           bool
}

// Add creates a user. It validates the user by the rules of POST /api/v1/users. The error names the invalid fields, or
// reports that the e-mail is in use (e-mails are unique across all tenants).
func (a Accounts) Add(ctx context.Context, u NewUser) (db.Actor, error) {
	if u.Tenant != "" || u.NewTenant {
		if err := checkTenantName(u.Tenant); err != nil {
			return db.Actor{}, err
		}
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
		actor, err := a.add(ctx, u, &user, hash)
		if !errors.Is(err, errTenantExists) {
			return actor, withoutCode(err)
		}
	}
}

// account validates u as the body of POST /api/v1/users.
func (u NewUser) account() (auth.UserAccount, error) {
	body, err := json.Marshal(map[string]string{
		"email": strings.TrimSpace(u.Email), "name": u.Name, "role": u.Role, "password": u.Password,
	})
	if err != nil {
		return auth.UserAccount{}, err
	}
	account, err := server.DecodeBody[auth.UserAccount](body)
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

// add inserts the user and, if it does not exist, the tenant. It returns errTenantExists if another transaction
// created the tenant since add read the list of tenants.
func (a Accounts) add(ctx context.Context, u NewUser, user *auth.UserAccount, hash string) (db.Actor, error) {
	actor := db.Actor{User: value.NewID(), Role: string(*user.Role.Value)}
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return db.Actor{}, err
	}
	info, err := choose(tenants, u.Tenant)
	isNew := err != nil
	if isNew && !u.NewTenant {
		return db.Actor{}, fmt.Errorf("%w; --new-tenant creates a tenant", err)
	}
	actor.Tenant = info.ID
	if isNew {
		actor.Tenant = value.NewID()
	}
	err = a.DB.Tx(db.As(ctx, db.Actor{Tenant: actor.Tenant}), func(tx context.Context) error {
		if isNew {
			created, err := a.lockTenantName(tx, actor.Tenant, u.Tenant, tenants)
			if err != nil {
				return err
			}
			if created {
				return errTenantExists
			}
			if err := a.DB.Write(tx, db.SQL(`insert into tenants (name) values ($1)`, u.Tenant)); err != nil {
				return err
			}
		}
		_, err := auth.InsertUser(tx, a.DB, actor.User, user, hash)
		return err
	})
	return actor, err
}

// lockTenantName locks the tenant name and reports whether another transaction created a tenant with the name since
// known was read. It reads the names of new tenants in the same transaction, because the pool may have only one
// connection: it binds the transaction to each new tenant, and finally to own again.
func (a Accounts) lockTenantName(tx context.Context, own, name string, known []TenantInfo) (bool, error) {
	var ids []string
	err := a.DB.Write(tx,
		db.SQL(lockNameSQL, name),
		db.SQL(`select coalesce(array_agg(t::text), '{}') from login_tenants() t`).Into(&ids))
	if err != nil {
		return false, err
	}
	bind := func(tenant string) *db.Stmt { return db.Actor{Tenant: tenant}.Bind() }
	for _, id := range ids {
		if slices.ContainsFunc(known, func(t TenantInfo) bool { return t.ID == id }) {
			continue
		}
		var other string
		err := a.DB.Read(tx, bind(id), db.SQL(`select name from tenants`).Into(&other), bind(own))
		if err != nil || other == name {
			return err == nil, err
		}
	}
	return false, nil
}

// lockNameSQL locks a tenant name until the end of the transaction.
const lockNameSQL = `select pg_advisory_xact_lock(hashtextextended('tenant ' || $1::text, 0))::text`

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
	if err := secrets.CheckPassword(password); err != nil {
		return err
	}
	hash, err := a.Hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	return a.change(ctx, email, `update users set password_hash = $2, link_hash = null, link_expires_at = null,
		updated_at = now() where id = $1`, hash)
}

// SetDisabled disables or enables a user and ends all the user's sessions. The service rejects the next request of a
// disabled user. It may disable the last admin of a tenant.
func (a Accounts) SetDisabled(ctx context.Context, email string, disabled bool) error {
	return a.change(ctx, email,
		`update users set disabled_at = case when $2 then coalesce(disabled_at, now()) end, updated_at = now()
			where id = $1`, disabled)
}

// ErrNoFactor means that a user has no second factor.
var ErrNoFactor = errors.New("the user has no second factor")

// ResetFactor removes the second factor of a user and ends all the user's sessions. The error wraps ErrNoUser or
// ErrNoFactor.
func (a Accounts) ResetFactor(ctx context.Context, email string) error {
	actor, err := a.findUser(ctx, email)
	if err != nil {
		return err
	}
	found := db.SQL(`select id from users where id = $1 and otp_at is not null for no key update`, actor.User)
	return a.DB.Decide(db.As(ctx, db.Actor{Tenant: actor.Tenant}), []*db.Stmt{found}, func() ([]*db.Stmt, error) {
		if found.Rows() == 0 {
			return nil, ErrNoFactor
		}
		return auth.ResetFactor(actor.User), nil
	})
}

// change runs an UPDATE and deletes the user's sessions in one transaction. In the UPDATE, $1 is the id of the user
// with the e-mail, and $2 is arg. The error wraps ErrNoUser if no user has the e-mail.
func (a Accounts) change(ctx context.Context, email, sql string, arg any) error {
	actor, err := a.findUser(ctx, email)
	if err != nil {
		return err
	}
	return a.DB.Write(db.As(ctx, db.Actor{Tenant: actor.Tenant}), db.SQL(sql, actor.User, arg),
		db.SQL(`delete from sessions where user_id = $1`, actor.User))
}

// AllowPasswords lets the users of a tenant log in by password again, where the tenant requires the sign-on at its
// provider. It reports whether it did.
func (a Accounts) AllowPasswords(ctx context.Context, name string) (TenantInfo, bool, error) {
	tenant, err := a.FindTenant(ctx, name)
	if err != nil {
		return tenant, false, err
	}
	changed := db.SQL(`update sign_on_providers set required = false, updated_at = now() where required returning id`)
	err = a.DB.Write(db.As(ctx, db.Actor{Tenant: tenant.ID}), changed)
	return tenant, changed.Rows() > 0, err
}

// findUser returns the user with the e-mail. The error wraps ErrNoUser if no user has the e-mail.
func (a Accounts) findUser(ctx context.Context, email string) (db.Actor, error) {
	actor, found, err := a.DB.FindLogin(ctx, auth.EmailKey(email))
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", ErrNoUser, email)
	}
	return actor, err
}

// Tenants returns all tenants.
func (a Accounts) Tenants(ctx context.Context) ([]TenantInfo, error) {
	ids, err := a.DB.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]TenantInfo, 0, len(ids))
	for _, id := range ids {
		t := TenantInfo{ID: id}
		row := db.SQL(`select name, created_at, (select count(*) from users) from tenants`).
			Into(&t.Name, &t.CreatedAt, &t.Users)
		if err := a.DB.Read(db.As(ctx, db.Actor{Tenant: id}), row); err != nil {
			return nil, err
		}
		if row.Rows() > 0 { // another command may have removed the tenant in the meantime
			all = append(all, t)
		}
	}
	return all, nil
}

// FindTenant returns the tenant with the name, or the only tenant if the name is empty. Otherwise, the error lists
// tenants.
func (a Accounts) FindTenant(ctx context.Context, name string) (TenantInfo, error) {
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return TenantInfo{}, err
	}
	return choose(tenants, name)
}

// choose returns the tenant with the name, or the only tenant if the name is empty. The error lists at most ten
// tenants.
func choose(tenants []TenantInfo, name string) (TenantInfo, error) {
	for _, t := range tenants {
		if t.Name == name || name == "" && len(tenants) == 1 {
			return t, nil
		}
	}
	const maxNames = 10
	var names []string
	for _, t := range tenants[:min(len(tenants), maxNames)] {
		names = append(names, strconv.Quote(t.Name))
	}
	if len(tenants) > maxNames {
		names = append(names, fmt.Sprintf("and %d others (see tenant list)", len(tenants)-maxNames))
	}
	problem := "name the tenant with --tenant"
	if name != "" {
		problem = fmt.Sprintf("there is no tenant %q", name)
	}
	if len(tenants) == 0 {
		return TenantInfo{}, errors.New(problem + "; there are no tenants yet")
	}
	return TenantInfo{}, fmt.Errorf("%s; the tenants are %s", problem, strings.Join(names, ", "))
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
				'disabled_at', disabled_at, 'otp_enabled', otp_at is not null, 'created_at', created_at) order by email), '[]')
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
