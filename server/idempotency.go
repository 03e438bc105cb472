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
)

// idempotencyKey returns the request's key, "" if it has none, or why it is not taken.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", Invalid("Idempotency-Key", "must be one header of 1 to 255 printable ASCII characters")
	}
	return key, nil
}

var errKeyConflict = &Error{Status: 409, Code: "IDEMPOTENCY_CONFLICT", Detail: "This Idempotency-Key was used for another request within the last 24 hours"}

// once runs a handler at most once for a user's key. The key is written in the transaction of the handler's own effect,
// so either both are there or neither. A twin in flight waits at the insert until the first has ended. A connection
// that breaks, even during COMMIT, is no risk: the next try finds the key, or may run the handler again. The insert locks
// the row that it finds, so a replay commits a change as well: with synchronous replication it waits until the standby has
// the row and, before it, the effect.
func (s *Server) once(ctx context.Context, key, path string, body []byte, run func(context.Context) (Response, error)) (answer Response, replayed bool, err error) {
	user := db.ActorOf(ctx).User
	requests := s.fingerprints(path, body)

	err = s.DB.TxRepeatable(ctx, func(ctx context.Context) error {
		answer, replayed = Response{}, false
		claim := db.SQL(`
			insert into idempotency_keys as k (user_id, key, request) values ($1, $2, $3)
			on conflict (tenant_id, user_id, key) do update
				set request = excluded.request, status = null, location = null, body = null, created_at = now()
				where k.created_at < now() - interval '24 hours'
			returning key`, user, key, requests[0])
		var first []byte
		kept := db.SQL(`select request, coalesce(status, 0), coalesce(location, ''), coalesce(body, '') from idempotency_keys where user_id = $1 and key = $2`, user, key).
			Into(&first, &answer.Status, &answer.Location, &answer.Body)
		if err := s.DB.Write(ctx, claim, kept); err != nil {
			return err
		}
		if claim.Rows() == 0 {
			if !slices.ContainsFunc(requests, func(request []byte) bool { return bytes.Equal(first, request) }) {
				return errKeyConflict
			}
			replayed = true
			return nil
		}
		var err error
		if answer, err = run(ctx); err != nil {
			return err
		}
		return s.DB.Write(ctx,
			db.SQL(`update idempotency_keys set status = $3, location = nullif($4, ''), body = $5 where user_id = $1 and key = $2`,
				user, key, answer.Status, answer.Location, answer.Body),
			db.SQL(sweepSQL))
	})
	return answer, replayed && err == nil, err
}

// fingerprints tell whether two requests are the same: one for each secret, the newest first. Without a secret nobody can find out by
// trying what a body was that had a password in it.
func (s *Server) fingerprints(path string, body []byte) (all [][]byte) {
	for _, secret := range s.Secrets {
		sum := hmac.New(sha256.New, []byte(secret))
		sum.Write([]byte("idempotency\n" + path + "\n"))
		sum.Write(body)
		all = append(all, sum.Sum(nil))
	}
	return all
}

// sweepSQL removes a few of the tenant's expired keys. With each write that has a key it removes more than the write adds.
const sweepSQL = `delete from idempotency_keys where (tenant_id, user_id, key) in (
	select tenant_id, user_id, key from idempotency_keys where created_at < now() - interval '24 hours' order by created_at limit 20 for update skip locked)`

// Sweep removes expired idempotency keys of all tenants, for those that write no more.
func Sweep(ctx context.Context, d *db.DB) error {
	tenants, err := d.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		for {
			swept := db.SQL(sweepSQL + ` returning key`)
			if err := d.Write(db.As(ctx, db.Actor{Tenant: tenant}), swept); err != nil {
				return err
			}
			if swept.Rows() == 0 {
				break
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
