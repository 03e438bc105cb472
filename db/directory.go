package db

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/fair"
)

// FindLogin returns the user of an e-mail address, which must be in its compared form (lower case), and false if
// there is none. It reads the login directory, which is outside of tenants. The Actor has no role, so that
// transactions on its behalf do not check the user.
func (d *DB) FindLogin(ctx context.Context, email string) (Actor, bool, error) {
	var tenant, user string
	rows, err := d.directory(ctx, findLoginSQL, []any{email}, &tenant, &user)
	return Actor{Tenant: tenant, User: user}, rows > 0, err
}

const findLoginSQL = `select tenant_id::text, user_id::text from login_find($1)`

// ErrLoginTaken means that another user has the e-mail address.
var ErrLoginTaken = errors.New("another user has the e-mail address")

// WriteLogin is like Write for statements that insert a user, and enters the user's e-mail address, in its compared
// form, in the login directory. If the last statement returned no row, there is nothing to enter. The statements must
// hold the Lock "users". The error is ErrLoginTaken if another user has the address.
//
// The directory may be in another database than the user. Then it is written before the user is committed, and if the
// user is not committed after all, the next call for the address notices that the entry has no user, and replaces it.
func (d *DB) WriteLogin(ctx context.Context, email, user string, stmts ...*Stmt) error {
	var err error
	if d.homes == nil {
		err = d.Write(ctx, append(stmts,
			SQL(`select login_claim($1, id)::text from users where id = $2`, email, user))...)
	} else {
		err = d.Tx(ctx, func(ctx context.Context) error {
			if err := d.Write(ctx, stmts...); err != nil || stmts[len(stmts)-1].Rows() == 0 {
				return err
			}
			return d.claimLogin(ctx, email, user)
		})
	}
	if Violates(err, "login_directory_pkey") {
		return fmt.Errorf("%w: %w", ErrLoginTaken, err)
	}
	return err
}

// claimLogin enters the e-mail address of a user, whom the transaction of ctx has inserted.
func (d *DB) claimLogin(ctx context.Context, email, user string) error {
	own := ActorOf(ctx).Tenant
	for range 3 {
		var holder Actor
		find := SQL(findLoginSQL, email).Into(&holder.Tenant, &holder.User)
		together := ctx.Value(txKey{}).(*transaction).d == d // the entry and the user are in one transaction
		var err error
		if together {
			err = d.Read(ctx, find)
		} else {
			err = d.inDirectory(ctx, own, find)
		}
		if err != nil {
			return err
		}
		if find.Rows() > 0 {
			if err := d.dropLogin(ctx, email, holder); err != nil {
				return err
			}
		}
		if together {
			return d.Write(ctx, SQL(`select login_claim($1, $2)::text`, email, user))
		}
		err = d.inDirectory(ctx, own, SQL(`select login_claim($1, $2)::text`, email, user))
		if !Violates(err, "login_directory_pkey") {
			return err
		}
	}
	return ErrLoginTaken
}

// dropLogin deletes the entry of a user who does not exist. Otherwise, or if that is unknown, it returns
// ErrLoginTaken.
func (d *DB) dropLogin(ctx context.Context, email string, holder Actor) error {
	exists := SQL(`select id from users where id = $1`, holder.User)
	drop := func() error {
		if exists.Rows() > 0 {
			return ErrLoginTaken
		}
		return d.DropLogin(ctx, email, holder)
	}
	if holder.Tenant == ActorOf(ctx).Tenant { // this transaction has the lock
		if err := d.Read(ctx, exists); err != nil {
			return err
		}
		return drop()
	}
	apart := context.WithValue(As(ctx, Actor{Tenant: holder.Tenant}), txKey{}, nil)
	err := d.Tx(apart, func(ctx context.Context) error {
		// A transaction that has the lock may be inserting the user. Waiting for it could cause a deadlock.
		var locked bool
		try := SQL(`select pg_try_advisory_xact_lock(` + lockKey("users") + `)`).Into(&locked)
		if err := d.Write(ctx, try, exists); err != nil {
			return err
		}
		if !locked {
			return ErrLoginTaken
		}
		return drop()
	})
	if errors.Is(err, ErrUnavailable) {
		return ErrLoginTaken
	}
	return err
}

// DropLogin deletes the entry of a user who was deleted from a database other than that of the login directory.
func (d *DB) DropLogin(ctx context.Context, email string, user Actor) error {
	if d.homes == nil {
		return nil
	}
	return d.inDirectory(ctx, user.Tenant, SQL(`select login_drop($1, $2)::text`, email, user.User))
}

// ForgetLogin is DropLogin for a user whom the caller has deleted. In a transaction, which may fail yet, it does
// nothing: an entry without a user blocks nobody.
func (d *DB) ForgetLogin(ctx context.Context, email string, user Actor) error {
	if _, within := ctx.Value(txKey{}).(*transaction); within {
		return nil
	}
	return d.DropLogin(ctx, email, user)
}

// FindKey returns the API key whose secret has the SHA-256, of 32 bytes, and false if there is none. It reads the key
// directories of all databases, which do not know whether the key is still valid: transactions on behalf of the Actor
// check it. If a database is out of reach and the others do not have the key, the error is ErrUnavailable.
func (d *DB) FindKey(ctx context.Context, hash string) (Actor, bool, error) {
	actor, found, err := d.findKey(ctx, hash)
	if found || d.homes == nil {
		return actor, found, err
	}
	further := d.homes.all[1:]
	actors, errs := make([]Actor, len(further)), make([]error, len(further))
	var all sync.WaitGroup
	for i, h := range further {
		all.Go(func() {
			var one *DB
			if one, errs[i] = h.open(); errs[i] == nil {
				actors[i], _, errs[i] = one.findKey(ctx, hash)
			}
		})
	}
	all.Wait()
	for _, actor := range actors {
		if actor.APIKey != "" {
			return actor, true, nil
		}
	}
	return Actor{}, false, errors.Join(append(errs, err)...)
}

func (d *DB) findKey(ctx context.Context, hash string) (Actor, bool, error) {
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

// EachTenant calls fn for each of Tenants, with a context that is bound to it. It goes on after an error of a tenant
// whose database is unavailable, or for which a statement took too long, and returns the first one.
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
		if oneErr != nil && !d.IsAway(oneErr) && !IsTimeout(oneErr) {
			return oneErr
		}
		if err == nil {
			err = oneErr
		}
	}
	return err
}

// directory runs one statement that is bound to no tenant: it sees no rows of tenants.
func (d *DB) directory(ctx context.Context, sql string, args []any, dest ...any) (rows int, err error) {
	client := ctx
	ctx, cancel := detach(ctx)
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
		d.queueBind(&b, conn.Conn(), Actor{})
		if err := d.queue(ctx, &b, []*Stmt{stmt}, nil, ungated, false); err != nil {
			return err
		}
		return conn.SendBatch(ctx, &b).Close()
	})
	return stmt.rows, err
}
