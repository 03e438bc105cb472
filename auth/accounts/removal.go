package accounts

import (
	"context"
	"errors"
	"fmt"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/value"
)

// RemoveUser deletes a user, including the last admin of a tenant, and returns the name of the tenant. The usage
// ledger keeps the user's id and name. Access tokens of the user are invalid at once.
func (a Accounts) RemoveUser(ctx context.Context, owner tables.Owner, email string) (tenant string, err error) {
	actor, err := a.findUser(ctx, email)
	if err != nil {
		return "", err
	}
	if err := a.DB.Read(db.As(ctx, db.Actor{Tenant: actor.Tenant}),
		db.SQL(`select name from tenants`).Into(&tenant)); err != nil {
		return "", err
	}
	err = owner.Tx(ctx, actor.Tenant, func(tx *tables.Tx) error {
		return deleteUser(tx, email, actor.User)
	})
	return tenant, err
}

// deleteUser deletes a user, the entry of the e-mail address in the login directory, and the data that belongs only to
// the user.
func deleteUser(tx *tables.Tx, email, user string) error {
	if _, err := tx.Exec(`select login_drop($1, $2)`, auth.EmailKey(email), user); err != nil {
		return err
	}
	deleted := int64(0)
	for _, s := range auth.DeleteUser(user) {
		var err error
		if deleted, err = tx.Exec(s.SQL, s.Args...); err != nil {
			return err
		}
	}
	if deleted == 0 {
		return errors.New("another command changed the user at the same time")
	}
	return nil
}

// MoveUser moves a user to another tenant, with the same e-mail, name, role, language, password and second factor, and
// returns the names of both tenants. The account at the provider of the old tenant is forgotten. The user gets a new
// id; the ledger of the old tenant keeps the old id and the name. All sessions end.
func (a Accounts) MoveUser(ctx context.Context, owner tables.Owner,
	email, tenant string) (from, to string, err error) {
	target, err := a.FindTenant(ctx, tenant)
	if err != nil {
		return "", "", err
	}
	actor, err := a.findUser(ctx, email)
	if err != nil {
		return "", "", err
	}
	if actor.Tenant == target.ID {
		return "", "", fmt.Errorf("the user is in the tenant %q already", target.Name)
	}
	var address, name, role, hash string
	var disabled, factorAt, language *string
	var f struct {
		id, recovery string // the hashes of recovery codes, as an array of PostgreSQL
		secret       []byte
		step         int64
		wrong        int
		since        *string
		created      string
	}
	factor := db.SQL(`
		select id::text, recovery_hashes::text, secret, last_step, wrong_codes, wrong_since::text, created_at::text
		from user_otps where user_id = $1`, actor.User).
		Into(&f.id, &f.recovery, &f.secret, &f.step, &f.wrong, &f.since, &f.created)
	err = a.DB.Read(db.As(ctx, db.Actor{Tenant: actor.Tenant}), db.SQL(`select name from tenants`).Into(&from),
		db.SQL(`select email, name, role, password_hash, disabled_at::text, otp_at::text, language from users
			where id = $1`, actor.User).Into(&address, &name, &role, &hash, &disabled, &factorAt, &language),
		factor)
	if err != nil {
		return "", "", err
	}
	id := value.NewID()
	err = owner.Tx(ctx, actor.Tenant, func(tx *tables.Tx) error {
		if err := deleteUser(tx, email, actor.User); err != nil {
			return err
		}
		if err := tx.Bind(target.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(`select login_claim($1, $2)`, auth.EmailKey(email), id); err != nil {
			return err
		}
		inserted, err := tx.Exec(`
			insert into users (tenant_id, id, email, name, role, password_hash, disabled_at, otp_at,
				language)
			select $1, $2, $3, $4, $5, $6, $7::text::timestamptz, $9::text::timestamptz, $10::text
			where (select count(*) from users where tenant_id = $1) < $8`,
			target.ID, id, address, name, role, hash, disabled, auth.MaxUsers, factorAt, language)
		switch {
		case err != nil:
			return err
		case inserted == 0:
			return withoutCode(auth.ErrUserLimit)
		case factor.Rows() == 0:
			return nil
		}
		_, err = tx.Exec(`
			insert into user_otps (tenant_id, user_id, id, recovery_hashes, secret, last_step, wrong_codes, wrong_since,
				created_at)
			values ($1, $2, $3, $4::text::bytea[], $5, $6, $7, $8::text::timestamptz, $9::text::timestamptz)`,
			target.ID, id, f.id, f.recovery, f.secret, f.step, f.wrong, f.since, f.created)
		return err
	})
	return from, target.Name, err
}

// RenameTenant changes the name of a tenant. The names of tenants are unique.
func (a Accounts) RenameTenant(ctx context.Context, owner tables.Owner, name, newName string) error {
	for _, n := range []string{name, newName} {
		if err := checkTenantName(n); err != nil { // an empty name would choose the only tenant
			return err
		}
	}
	tenant, err := a.FindTenant(ctx, name)
	if err != nil {
		return err
	}
	return owner.Tx(ctx, tenant.ID, func(tx *tables.Tx) error {
		if err := a.ReserveName(ctx, tx, tenant.ID, newName); err != nil {
			return err
		}
		_, err := tx.Exec(`update tenants set name = $2 where tenant_id = $1`, tenant.ID, newName)
		return err
	})
}

// ReserveName locks the name for the tenant until the transaction ends. It returns an error if the name is not valid
// or if another tenant has the name.
func (a Accounts) ReserveName(ctx context.Context, tx *tables.Tx, tenant, name string) error {
	if err := checkTenantName(name); err != nil {
		return err
	}
	if _, err := tx.Exec(lockNameSQL, name); err != nil {
		return err
	}
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t.Name == name && t.ID != tenant {
			return fmt.Errorf("there is already a tenant %q", name)
		}
	}
	return nil
}

// RemoveTenant deletes a tenant, its users and all its data.
func (a Accounts) RemoveTenant(ctx context.Context, owner tables.Owner, name string) error {
	if err := checkTenantName(name); err != nil { // an empty name would choose the only tenant
		return err
	}
	tenant, err := a.FindTenant(ctx, name)
	if err != nil {
		return err
	}
	return owner.RemoveTenant(ctx, tenant.ID, DisableAll)
}

// DisableAll disables all users of a tenant, and revokes its API keys. If the owner of the tables is a superuser, the
// transaction sees the rows of all tenants, so the statements name the tenant.
func DisableAll(tx *tables.Tx, tenant string) error {
	_, err := tx.Exec(`update users set disabled_at = coalesce(disabled_at, now()) where tenant_id = $1`, tenant)
	if err == nil {
		_, err = tx.Exec(`update api_keys set revoked_at = coalesce(revoked_at, now()) where tenant_id = $1`, tenant)
	}
	return err
}
