package db

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// FindLogin returns the user of an e-mail address, which must be in its compared form (lower case), and false if
// there is none. It reads the login directory, which is outside of tenants. The Actor has no role, so that
// transactions on its behalf do not check the user.
func (d *DB) FindLogin(ctx context.Context, email string) (Actor, bool, error) {
	var tenant, user string
	rows, err := d.directory(ctx, `select tenant_id::text, user_id::text from login_find($1)`, []any{email},
		&tenant, &user)
	return Actor{Tenant: tenant, User: user}, rows > 0, err
}

// FindKey returns the API key whose secret has the SHA-256, of 32 bytes, and false if there is none. It reads the key
// directory, which does not know whether the key is still valid: transactions on behalf of the Actor check it.
func (d *DB) FindKey(ctx context.Context, hash string) (Actor, bool, error) {
	var tenant, key string
	rows, err := d.directory(ctx, `select tenant_id::text, key_id::text from key_find($1)`, []any{[]byte(hash)},
		&tenant, &key)
	return Actor{Tenant: tenant, APIKey: key, KeyHash: hash}, rows > 0, err
}

// Tenants returns the ids of all tenants that have a user, for the account commands.
func (d *DB) Tenants(ctx context.Context) ([]string, error) {
	var all []string
	_, err := d.directory(ctx, `select coalesce(array_agg(t::text), '{}') from login_tenants() t`, nil, &all)
	return all, err
}

// directory runs one statement that is bound to no tenant: it sees no rows of tenants.
func (d *DB) directory(ctx context.Context, sql string, args []any, dest ...any) (rows int, err error) {
	client := ctx
	ctx, cancel := detach(ctx)
	defer cancel()
	stmt := SQL(sql, args...).Into(dest...)
	err = d.retry(ctx, true, func() error {
		h, err := d.shares.acquire(ctx, client, "", reading)
		if err != nil {
			return err
		}
		defer h.release()
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var b pgx.Batch
		d.queueBind(&b, conn.Conn(), Actor{})
		if err := d.queue(ctx, &b, []*Stmt{stmt}, nil); err != nil {
			return err
		}
		return conn.SendBatch(ctx, &b).Close()
	})
	return stmt.rows, err
}
