package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/fair"
)

// FindLogin returns the user of an e-mail address in lower case, and false if no user has the address. It reads the
// login directory, which is outside of tenants. The Actor has no role: transactions on its behalf do not check the
// user.
func (d *DB) FindLogin(ctx context.Context, email string) (Actor, bool, error) {
	var tenant, user string
	rows, err := d.directory(ctx, `select tenant_id::text, user_id::text from login_find($1)`, []any{email},
		&tenant, &user)
	return Actor{Tenant: tenant, User: user}, rows > 0, err
}

// FindKey returns the API key whose secret has the SHA-256 hash, of 32 bytes, and false if no key has it. It reads the
// key directory, which also contains expired keys: transactions on behalf of the Actor check that the key is valid.
func (d *DB) FindKey(ctx context.Context, hash string) (Actor, bool, error) {
	var tenant, key string
	rows, err := d.directory(ctx, `select tenant_id::text, key_id::text from key_find($1)`, []any{[]byte(hash)},
		&tenant, &key)
	return Actor{Tenant: tenant, APIKey: key, KeyHash: hash}, rows > 0, err
}

// FindShop returns the tenant of the connection to a shop with the id, and false if there is none. It reads the shop
// directory, which is outside of tenants.
func (d *DB) FindShop(ctx context.Context, id string) (tenant string, found bool, err error) {
	rows, err := d.directory(ctx, `select s::text from shop_find($1) s`, []any{id}, &tenant)
	return tenant, rows > 0, err
}

// Tenants returns the ids of all tenants, for the account commands.
func (d *DB) Tenants(ctx context.Context) ([]string, error) {
	var all []string
	_, err := d.directory(ctx, `select coalesce(array_agg(t::text), '{}') from login_tenants() t`, nil, &all)
	return all, err
}

// EachTenant calls fn for each tenant that Tenants returns, with a context that is bound to the tenant. After
// ErrTimeout it continues with the next tenant, and returns the first such error.
func (d *DB) EachTenant(ctx context.Context, fn func(ctx context.Context, tenant string) error) error {
	tenants, err := d.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		oneErr := fn(As(ctx, Actor{Tenant: tenant}), tenant)
		if oneErr != nil && !errors.Is(oneErr, ErrTimeout) {
			return oneErr
		}
		if err == nil {
			err = oneErr
		}
	}
	return err
}

// directory runs one statement that is bound to no tenant, so that the statement sees no rows of tenants.
func (d *DB) directory(ctx context.Context, sql string, args []any, dest ...any) (rows int, err error) {
	client := ctx
	ctx, cancel := d.detach(ctx)
	defer cancel()
	stmt := SQL(sql, args...).Into(dest...)
	err = d.retry(ctx, true, func() error {
		share, err := d.shares.Acquire(ctx, client, "", fair.Read)
		if err != nil {
			return err
		}
		defer share.Release()
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var b pgx.Batch
		d.queueBind(&b, conn.Conn(), Actor{}, "")
		if err := d.queue(ctx, &b, []*Stmt{stmt}, nil); err != nil {
			return err
		}
		return conn.SendBatch(ctx, &b).Close()
	})
	return stmt.rows, err
}
