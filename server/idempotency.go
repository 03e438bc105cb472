package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/value/language"
)

// IdempotencyKey returns the Idempotency-Key of a request, or "" if the request has none. If the key is invalid, it
// adds a problem to problems.
func IdempotencyKey(r *http.Request, problems *Problems) string {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return ""
	}
	key := values[0]
	notPrintable := func(c rune) bool { return c < ' ' || c > '~' }
	if len(values) > 1 || key == "" || len(key) > 255 || strings.ContainsFunc(key, notPrintable) {
		problems.Add("Idempotency-Key", "must be one header of 1 to 255 printable ASCII characters")
	}
	return key
}

// ErrKeyConflict is the error of a request whose Idempotency-Key was used for another request.
var ErrKeyConflict = &Error{Status: 409, Code: "IDEMPOTENCY_CONFLICT",
	Detail: language.Sprintf("This Idempotency-Key was used for another request within the last 24 hours")}

// claimSQL stores a caller's key with the fingerprint of the request and the status of the response. It returns a row
// unless the caller has used the key within 24 hours.
const claimSQL = `
	insert into idempotency_keys as k (user_id, key, request, status) values ($1, $2, $3, $4)
	on conflict (tenant_id, user_id, key) do update
		set request = excluded.request, status = excluded.status, location = null, body = null, created_at = now()
		where k.created_at < now() - interval '24 hours'
	returning key`

// Once returns two statements for one transaction. The first stores the key without a response, and runs sql. Sql is a
// statement that reads from claim, which has one row if the caller has not used the key within 24 hours, and no row
// otherwise. The parameters of sql from $5 on are args. The second statement sets first to the fingerprint of the
// request that has used the key.
func Once(caller, key string, request []byte, first *[]byte, sql string, args ...any) (once, stored *db.Stmt) {
	once = db.SQL("with claim as ("+claimSQL+") "+sql, append([]any{caller, key, request, http.StatusOK}, args...)...)
	stored = db.SQL(`select request from idempotency_keys where user_id = $1 and key = $2`, caller, key).Into(first)
	return once, stored
}

// once runs an operation at most once for a key of the caller. If the operation has already run, once returns the stored
// response. The column user_id holds the id of the user or of the API key.
//
// One transaction stores the key and contains the operation's effect. A concurrent request with the same key waits at
// the insert until the first request ends. After a broken connection, also during COMMIT, once tries again: if the key
// is stored, the effect is stored too.
//
// The insert locks an existing row of the key. Therefore a replay also commits a change: with synchronous replication,
// its COMMIT waits until the standby has the lock and all earlier changes, such as the operation's effect.
func (o *operation) once(next responder) responder {
	return func(ctx context.Context, c call) (response, error) {
		if c.key == "" {
			return next(ctx, c)
		}
		return o.runOnce(ctx, c, next)
	}
}

func (o *operation) runOnce(ctx context.Context, c call, next responder) (answer response, err error) {
	target, body := o.path(c), c.body
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	if c.sum != nil {
		body = *c.sum
	}
	user := db.ActorOf(ctx).ID()
	requests := o.s.fingerprints(target, body)
	err = o.s.DB.TxRepeatable(ctx, func(ctx context.Context) error {
		answer = response{}
		claim := db.SQL(claimSQL, user, c.key, requests[0], nil)
		var first []byte
		stored := db.SQL(`
			select request, coalesce(status, 0), coalesce(location, ''), coalesce(body, '')
			from idempotency_keys where user_id = $1 and key = $2`, user, c.key).
			Into(&first, &answer.status, &answer.location, &answer.body)
		if err := o.s.DB.Write(ctx, claim, stored); err != nil {
			return err
		}
		if claim.Rows() == 0 {
			if !slices.ContainsFunc(requests, func(request []byte) bool { return bytes.Equal(first, request) }) {
				return ErrKeyConflict
			}
			answer.replayed = true
			return nil
		}
		var err error
		if answer, err = next(ctx, c); err != nil {
			return err
		}
		return o.s.DB.Write(ctx,
			db.SQL(`
				update idempotency_keys set status = $3, location = nullif($4, ''), body = $5
				where user_id = $1 and key = $2`, user, c.key, answer.status, answer.location, answer.stored),
			db.SQL(sweepSQL))
	})
	return answer, err
}

// fingerprints returns a hash of the request for each secret, beginning with the newest secret. The secret is the key
// of the hash, so that someone who reads the table cannot guess a password in a body.
func (s *Server) fingerprints(path string, body []byte) (all [][]byte) {
	for _, secret := range s.Secrets {
		sum := hmac.New(sha256.New, []byte(secret))
		sum.Write([]byte("idempotency\n" + path + "\n"))
		sum.Write(body)
		all = append(all, sum.Sum(nil))
	}
	return all
}

// ForgetKeys returns the statement that deletes a user's keys with the stored responses.
func ForgetKeys(user string) db.Statement {
	return db.Statement{SQL: `delete from idempotency_keys where user_id = $1`, Args: []any{user}}
}

// sweepSQL deletes up to 20 expired keys of the tenant. Each write with a key runs it, so that expired keys are
// deleted faster than new keys are added.
const sweepSQL = `delete from idempotency_keys where (tenant_id, user_id, key) in (
	select tenant_id, user_id, key from idempotency_keys where created_at < now() - interval '24 hours'
	order by created_at limit 20 for update skip locked)`

// Sweep deletes the expired idempotency keys of all tenants, including tenants that no longer write.
func Sweep(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error {
		for ctx.Err() == nil {
			swept := db.SQL(sweepSQL + ` returning key`)
			if err := d.Write(ctx, swept); err != nil || swept.Rows() == 0 {
				return err
			}
		}
		return ctx.Err()
	})
}
