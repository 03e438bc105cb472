package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
)

// keyring maps hashes of the secrets of API keys to the keys, so that a request with a known key takes no additional
// round trip. A cached entry stays correct, because a hash never becomes the hash of another key, and the tenant and
// the role of a key never change; the request's first statement checks everything else. The keyring also records when
// keys were used. When the keyring is full, add empties it.
type keyring struct {
	mu   sync.RWMutex
	keys map[string]*knownKey
	due  []*knownKey // the keys whose use must be written; see used

	writing chan struct{} // holds a value while writeDue runs
}

// knownKey is a key and the last time it was used.
type knownKey struct {
	caller  server.Caller
	used    atomic.Int64 // in Unix microseconds
	written atomic.Int64 // the latest value of used that was written to the database or waits in keyring.due
}

// maxKnownKeys bounds the keyring to about 5 MiB.
const maxKnownKeys = 16_384

// After a use of an API key, its last_used_at is written within useDelay if the stored time is older than useInterval,
// and when the service stops. Thus last_used_at is at most useInterval and useDelay too early, even if the service is
// killed.
const (
	useInterval = 10 * time.Minute
	useDelay    = time.Second
)

func (k *keyring) find(hash string) *knownKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys[hash]
}

// add returns the entry of the hash. It creates the entry if it does not exist.
func (k *keyring) add(hash string, caller server.Caller, lastUsed time.Time) *knownKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.keys[hash]; known != nil {
		return known
	}
	if k.keys == nil || len(k.keys) >= maxKnownKeys {
		k.keys = map[string]*knownKey{}
	}
	known := &knownKey{caller: caller}
	known.used.Store(lastUsed.UnixMicro())
	known.written.Store(lastUsed.UnixMicro())
	k.keys[hash] = known
	return known
}

// keyRoles maps the roles of API keys to their permissions. A key of a printer or a watcher has its level only on routes
// that accept it.
var keyRoles = map[KeyRole]server.Caller{
	"viewer":   {Level: server.Read},
	"operator": {Level: server.Write},
	"printer":  {Level: server.Write, Printer: true},
	"watcher":  {Level: server.Write, Watcher: true},
}

// keyCaller returns the API key with the secret, and records that it was used.
func (s *Service) keyCaller(ctx context.Context, secret string, admit func() error) (server.Caller, error) {
	if !secrets.IsKey(secret) {
		return server.Caller{}, server.ErrInvalidKey
	}
	hash := secrets.KeyHash(secret)
	known := s.keys.find(hash)
	if known == nil {
		if err := admit(); err != nil {
			return server.Caller{}, err
		}
		var err error
		if known, err = s.findKey(ctx, hash); err != nil {
			return server.Caller{}, err
		}
	}
	s.used(known)
	return known.caller, nil
}

// findKey finds the valid key with the hash and adds it to the keyring. If no valid key has the hash, the error is
// server.ErrInvalidKey.
func (s *Service) findKey(ctx context.Context, hash string) (*knownKey, error) {
	actor, found, err := s.db.FindKey(ctx, hash)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, server.ErrInvalidKey
	}
	var role string
	var lastUsed *time.Time
	key := db.SQL(`select role, last_used_at from api_keys where id = $1`, actor.APIKey).Into(&role, &lastUsed)
	if err := s.db.Read(db.As(ctx, actor), key); errors.Is(err, db.ErrKeyRevoked) {
		return nil, server.ErrInvalidKey.Because(err)
	} else if err != nil {
		return nil, err
	}
	caller, ok := keyRoles[KeyRole(role)]
	if !ok {
		return nil, server.ErrInvalidKey // the role was added by a newer program
	}
	caller.Actor = actor
	var used time.Time
	if lastUsed != nil {
		used = *lastUsed
	}
	return s.keys.add(hash, caller, used), nil
}

// used records the use of a key now. If the written time is older than useInterval, the key becomes due. All due keys
// are written together after useDelay.
func (s *Service) used(key *knownKey) {
	now, written := s.now().UnixMicro(), key.written.Load()
	key.used.Store(now)
	if now-written < useInterval.Microseconds() || !key.written.CompareAndSwap(written, now) {
		return
	}
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	if s.keys.due = append(s.keys.due, key); len(s.keys.due) == 1 {
		time.AfterFunc(useDelay, func() {
			s.writeDue(context.Background(), false) // after an error, the next use of a key tries again
		})
	}
}

// Stop writes the uses of API keys that are not in the database yet. It must be called after the last request.
func (s *Service) Stop(ctx context.Context) error {
	s.lookups.Wait()
	return s.writeDue(ctx, true)
}

// writeDue writes the uses of the due keys or, if all is set, of all keys. It first waits until no other writeDue
// runs.
func (s *Service) writeDue(ctx context.Context, all bool) error {
	select {
	case s.keys.writing <- struct{}{}:
		defer func() { <-s.keys.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.keys.mu.Lock()
	due := s.keys.due
	s.keys.due = nil
	if all {
		for _, key := range s.keys.keys {
			if key.used.Load() > key.written.Load() {
				due = append(due, key)
			}
		}
	}
	s.keys.mu.Unlock()
	return s.writeUses(ctx, due)
}

// writeUses writes the last use of the keys, in one statement for each tenant. It returns the errors of all tenants.
func (s *Service) writeUses(ctx context.Context, keys []*knownKey) error {
	slices.SortFunc(keys, func(a, b *knownKey) int {
		x, y := a.caller.Actor, b.caller.Actor
		return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.APIKey, y.APIKey)) // one order prevents deadlocks
	})
	var failed []error
	for len(keys) > 0 && ctx.Err() == nil {
		tenant := keys[0].caller.Actor.Tenant
		n := slices.IndexFunc(keys, func(k *knownKey) bool { return k.caller.Actor.Tenant != tenant })
		if n < 0 {
			n = len(keys)
		}
		var ids []string
		var times []time.Time
		var hashes [][]byte
		for _, key := range keys[:n] {
			used := key.used.Load()
			key.written.Store(used)
			ids, times = append(ids, key.caller.Actor.APIKey), append(times, time.UnixMicro(used).UTC())
			hashes = append(hashes, []byte(key.caller.Actor.KeyHash))
		}
		// Requests with an expired or revoked secret do not count as uses.
		err := s.db.Write(db.As(ctx, db.Actor{Tenant: tenant}), db.SQL(`
			update api_keys k set last_used_at = u.used_at
			from (
				select v.id, max(u.used_at) as used_at
				from unnest($2::uuid[], $3::timestamptz[], $4::bytea[]) u (id, used_at, hash)
				join api_keys v on v.tenant_id = $1 and v.id = u.id
					and (v.hash = u.hash or v.previous_hash = u.hash and v.previous_until > u.used_at)
					and u.used_at < coalesce(least(v.revoked_at, v.expires_at), 'infinity')
				group by v.id
			) u
			where k.tenant_id = $1 and k.id = u.id and u.used_at > coalesce(k.last_used_at, '-infinity')`,
			tenant, ids, times, hashes))
		if err != nil {
			failed = append(failed, err)
			for _, key := range keys[:n] {
				key.written.Store(0)
			}
		}
		keys = keys[n:]
	}
	return errors.Join(append(failed, ctx.Err())...)
}
