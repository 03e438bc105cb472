// Package auth manages tenants, users, passwords, sessions and tokens. It authenticates requests, serves /api/v1/auth
// and /api/v1/users, and implements the account commands.
package auth

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// Service serves /api/v1/auth and /api/v1/users and authenticates the requests of all routes.
type Service struct {
	db       *db.DB
	tokens   *Tokens
	hasher   *Hasher
	throttle *Throttle
	now      func() time.Time
}

// New returns a Service. It reads the time of failed logins and refresh tokens from now.
func New(d *db.DB, tokens *Tokens, hasher *Hasher, now func() time.Time) *Service {
	return &Service{db: d, tokens: tokens, hasher: hasher, throttle: NewThrottle(now), now: now}
}

// Role determines which operations a user may call.
type Role string

// roles maps each role to its access level.
var roles = []struct {
	name   Role
	access server.Access
}{{"admin", server.Admin}, {"operator", server.Write}, {"viewer", server.Read}}

// Enum returns all roles.
func (Role) Enum() (names []string) {
	for _, role := range roles {
		names = append(names, string(role.name))
	}
	return names
}

// access returns the role's access level, or server.Public for an unknown role.
func (r Role) access() server.Access {
	for _, role := range roles {
		if role.name == r {
			return role.access
		}
	}
	return server.Public
}

// Authenticate returns the caller that the bearer token names. The error is server.ErrInvalidToken (also without a
// token) or server.ErrTokenExpired. It does not read the database: the request's first statement checks that the user
// still exists, is enabled and has the role.
func (s *Service) Authenticate(r *http.Request) (server.Caller, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return server.Caller{}, server.ErrInvalidToken
	}
	p, err := s.tokens.ParseAccess(strings.TrimSpace(token))
	if err != nil {
		return server.Caller{}, tokenError(err)
	}
	actor := db.Actor{Tenant: p.TenantID, User: p.UserID, Role: p.Role}
	return server.Caller{Actor: actor, Level: Role(p.Role).access()}, nil
}

// tokenError maps an error of ParseAccess or ParseRefresh to the error of a response.
func tokenError(err error) error {
	if errors.Is(err, ErrTokenExpired) {
		return server.ErrTokenExpired
	}
	return server.ErrInvalidToken.Because(err)
}

var tag = &server.Tag{
	Name: "auth", Fields: fields,
	Description: "Log in, refresh tokens, log out, and read your own account.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Routes returns the operations of /api/v1/auth and /api/v1/users.
func (s *Service) Routes() []server.Route {
	return append([]server.Route{
		server.Op("POST /api/v1/auth/login", server.Public, server.Handle(s.login), loginDoc),
		server.Op("POST /api/v1/auth/refresh", server.Public, server.Handle(s.refresh), refreshDoc),
		server.Op("POST /api/v1/auth/logout", server.Read, server.Handle(s.logout), logoutDoc).WithoutKey(),
		server.Op("GET /api/v1/auth/me", server.Read, server.Handle(s.me), meDoc),
	}, s.userRoutes()...)
}

// Credentials is the body of a login.
type Credentials struct {
	Email    server.Optional[string] `json:"email" rule:"required,maxLength=320"`
	Password server.Optional[string] `json:"password" rule:"required,maxLength=1000"`
}

// TokenSet is the response of login and refresh.
type TokenSet struct {
	AccessToken  string `json:"access_token" rule:"notNull"`
	RefreshToken string `json:"refresh_token" rule:"notNull"`
	TokenType    string `json:"token_type" rule:"notNull,enum=bearer"`
	ExpiresIn    int64  `json:"expires_in" rule:"notNull,maximum=999999999"`
}

// RefreshToken is the body of refresh and logout.
type RefreshToken struct {
	RefreshToken server.Optional[string] `json:"refresh_token" rule:"required,maxLength=4096"`
}

// User is the response of GET /api/v1/auth/me.
type User struct {
	ID        server.UUID      `json:"id" rule:"notNull"`
	Email     string           `json:"email" rule:"notNull"`
	Name      string           `json:"name" rule:"notNull"`
	CreatedAt server.Timestamp `json:"created_at" rule:"notNull"`
	TenantID  server.UUID      `json:"tenant_id" rule:"notNull"`
}

var loginDoc = &server.Doc{
	ID: "login", Tag: tag, Summary: "Log in",
	Description: "Returns an access token and a refresh token. A wrong e-mail and a wrong password get the same " +
		"response, after the same time. Failed logins within 15 minutes are limited: 5 for an account from one address, " +
		"20 from an address, 100 for an account. Beyond that, every login gets a `429` with `Retry-After`, also with the " +
		"right password. The limit of the account does not apply to the 20 addresses from which the user last logged in " +
		"or refreshed a session within 30 days. An account can log in 300 times within 15 minutes.",
	Errors: []*server.Error{errCredentials},
}

var errCredentials = &server.Error{Status: 401, Code: "INVALID_CREDENTIALS", Detail: "Incorrect email or password"}

func (s *Service) login(ctx context.Context, r *server.Request[Credentials]) (server.OK[TokenSet], error) {
	email := emailKey(*r.In.Email.Value)
	var user *loginUser
	find := func() (err error) {
		if user == nil {
			user, err = s.findUser(ctx, email, r.Address)
		}
		return err
	}
	done, err := s.begin(ctx, email, r.Address, Anonymous, func() (bool, error) {
		err := find()
		return err == nil && user.knownAddress, err
	})
	if err != nil {
		return nil, err
	}
	outcome := Abandoned
	defer func() { done(outcome) }()

	if err := find(); err != nil {
		return nil, err
	}
	// Not the tenant: the order must not depend on whether the account exists.
	right, err := s.hasher.Verify(ctx, user.hash, *r.In.Password.Value, "account "+email, "address "+r.Address)
	if errors.Is(err, ErrBusy) {
		return nil, server.ErrUnavailable.Because(err)
	}
	if err != nil {
		return nil, err
	}
	if !right {
		outcome = Failed
		return nil, errCredentials
	}
	outcome = Succeeded
	return s.startSession(db.As(ctx, user.actor), user, r.Address)
}

// loginUser is the user that a login names. If the user does not exist or is disabled, hash is empty.
type loginUser struct {
	actor        db.Actor
	hash         string
	knownAddress bool // the user logged in or refreshed a session from the address within knownFor
}

// findUser returns the user with the e-mail. It makes the same round trips for an unknown e-mail, so that the time of
// the response does not tell whether the e-mail exists.
func (s *Service) findUser(ctx context.Context, email, address string) (*loginUser, error) {
	actor, found, err := s.db.FindLogin(ctx, email)
	if err != nil {
		return nil, err
	}
	if !found {
		actor = db.Actor{Tenant: db.NewID(), User: db.NewID()}
	}
	u := &loginUser{actor: actor}
	return u, s.db.Read(db.As(ctx, db.Actor{Tenant: actor.Tenant}), db.SQL(`
		select u.password_hash, u.role, exists (
			select from login_addresses a where a.user_id = u.id and a.address = $2 and a.used_at > $3)
		from users u where u.id = $1 and u.disabled_at is null`, actor.User, address, s.now().Add(-knownFor)).
		Into(&u.hash, &u.actor.Role, &u.knownAddress))
}

// knownFor is how long an address counts as known after a login or a refresh, and maxKnown is how many of the latest
// addresses of a user do.
const (
	knownFor = 30 * 24 * time.Hour
	maxKnown = 20
)

// rememberAddress returns a statement that makes the address known for the user of the session, if the session exists,
// and deletes addresses that are no longer known. To save writes, it does not update an address more often than once an
// hour.
func rememberAddress(session Refresh, address string, now time.Time) *db.Stmt {
	return db.SQL(`
		with used as (
			insert into login_addresses as a (user_id, address, used_at)
			select s.user_id, $3, $4 from sessions s where s.id = $1 and s.user_id = $2
			on conflict (tenant_id, user_id, address) do update set used_at = excluded.used_at
				where a.used_at < excluded.used_at - interval '1 hour'
		)
		delete from login_addresses a
		where a.user_id = $2 and a.address <> $3 and (a.used_at <= $5 or a.address not in (
			select o.address from login_addresses o
			where o.user_id = $2 and o.address <> $3 order by o.used_at desc limit $6))`,
		session.SessionID, session.UserID, address, now, now.Add(-knownFor), maxKnown-1)
}

// beginWait is how long an attempt waits for the outcome of others of the same account or address.
const beginWait = 10 * time.Second

// begin calls the throttle's Begin. While running attempts fill a limit, it waits for their outcome, because they may
// be logins with the right password. When the limit of the account is full, it asks known whether the address is a
// known address of the account; a nil known means no. The error is one of known, a 429 if failures fill a limit, or a
// 503 after beginWait.
func (s *Service) begin(
	ctx context.Context, email, address string, source Source, known func() (bool, error),
) (done func(Outcome), err error) {
	timeout := time.NewTimer(beginWait)
	defer timeout.Stop()
	for {
		done, limit := s.throttle.Begin(email, address, source)
		if limit == nil {
			return done, nil
		}
		if limit.Window == accountWindow && known != nil {
			ok, err := known()
			if err != nil {
				return nil, err
			}
			known = nil
			if ok {
				source = KnownAddress
				continue
			}
		}
		if limit.RetryAfter > 0 {
			e := &server.Error{
				Status: 429, Code: "RATE_LIMIT_EXCEEDED", Detail: "Too many failed logins; try again later",
				RetryAfter: limit.RetryAfter,
			}
			if limit.Window == loginWindow {
				e.Detail = "Too many logins of this account; try again later"
			}
			return nil, e
		}
		select {
		case <-limit.Changed:
		case <-timeout.C:
			return nil, server.ErrUnavailable.Because(ErrBusy)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// startSession inserts a session for the user and deletes the user's expired sessions. The row lock waits for a
// concurrent change of the user; if that replaced the password hash or disabled the user, the error is errCredentials.
func (s *Service) startSession(
	ctx context.Context, user *loginUser, address string,
) (server.OK[TokenSet], error) {
	now, actor := s.now().UTC().Truncate(time.Second), user.actor
	session := Refresh{TenantID: actor.Tenant, UserID: actor.User, SessionID: db.NewID(), Counter: 1, IssuedAt: now}
	opened := db.SQL(`
		with u as (select id from users where id = $2 and password_hash = $5 and disabled_at is null for share)
		insert into sessions (id, user_id, counter, refreshed_at, expires_at)
		select $1, u.id, 1, $3, $4 from u returning id`,
		session.SessionID, actor.User, now, now.Add(s.tokens.RefreshTTL()), user.hash)
	err := s.db.Write(ctx,
		db.SQL(`delete from sessions where user_id = $1 and expires_at < $2`, actor.User, now),
		opened,
		rememberAddress(session, address, now))
	if err == nil && opened.Rows() == 0 {
		err = errCredentials
	}
	if err != nil {
		return nil, err
	}
	return s.tokenSet(actor, session)
}

// tokenSet returns an access token for the actor and the session's current refresh token.
func (s *Service) tokenSet(actor db.Actor, session Refresh) (server.OK[TokenSet], error) {
	access, err := s.tokens.Access(Principal{TenantID: actor.Tenant, UserID: actor.User, Role: actor.Role})
	if err != nil {
		return nil, err
	}
	refresh, err := s.tokens.Refresh(session)
	if err != nil {
		return nil, err
	}
	return server.Encode(TokenSet{
		AccessToken: access, RefreshToken: refresh, TokenType: "bearer",
		ExpiresIn: int64(s.tokens.AccessTTL() / time.Second),
	})
}

var refreshDoc = &server.Doc{
	ID: "refresh", Tag: tag, Summary: "Get new tokens",
	Description: "Each refresh token can be used once: the response has its successor. If the response is lost, the " +
		"same token returns the same successor for 30 seconds. An older token may have been stolen, so it ends the " +
		"session: the response is `INVALID_TOKEN`, and the user must log in again.",
	Errors: []*server.Error{server.ErrInvalidToken, server.ErrTokenExpired},
}

// grace is how long the previous refresh token is accepted, so that a lost response does not end the session.
const grace = 30 * time.Second

// refresh updates the session in one statement, under its row lock. The current token increments the counter, the
// previous token within grace returns the current token again, and any other token of the session deletes the session.
func (s *Service) refresh(ctx context.Context, r *server.Request[RefreshToken]) (server.OK[TokenSet], error) {
	token, err := s.tokens.ParseRefresh(*r.In.RefreshToken.Value)
	if err != nil {
		return nil, tokenError(err)
	}
	now := s.now().UTC().Truncate(time.Second)
	actor := db.Actor{Tenant: token.TenantID, User: token.UserID}
	var issued time.Time
	alive := db.SQL(`update sessions s set
			counter = s.counter + (s.counter = $3)::int,
			refreshed_at = case when s.counter = $3 then $4 else s.refreshed_at end,
			expires_at = case when s.counter = $3 then $5 else s.expires_at end
		from users u
		where s.id = $1 and s.user_id = $2 and u.tenant_id = s.tenant_id and u.id = s.user_id and u.disabled_at is null
			and s.expires_at > $4 and (s.counter = $3 or s.counter = $3 + 1 and s.refreshed_at >= $6)
		returning s.counter, s.refreshed_at, u.role`,
		token.SessionID, token.UserID, token.Counter, now, now.Add(s.tokens.RefreshTTL()), now.Add(-grace)).
		Into(&token.Counter, &issued, &actor.Role)
	ended := db.SQL(`delete from sessions s where s.id = $1 and s.user_id = $2
			and not (s.counter = $3 + 1 and s.refreshed_at >= $4)`,
		token.SessionID, token.UserID, token.Counter, now.Add(-grace))
	err = s.db.Write(db.As(ctx, db.Actor{Tenant: token.TenantID}), alive, ended, rememberAddress(token, r.Address, now))
	if err != nil {
		return nil, err
	}
	if alive.Rows() == 0 {
		return nil, server.ErrInvalidToken
	}
	token.IssuedAt = issued
	return s.tokenSet(actor, token)
}

var logoutDoc = &server.Doc{
	ID: "logout", Tag: tag, Summary: "Log out",
	Description: "Ends the session of the refresh token. The access token stays valid until it expires. If the session " +
		"has ended or belongs to another user, nothing changes and the response is also `204`.",
}

func (s *Service) logout(ctx context.Context, r *server.Request[RefreshToken]) (server.NoContent, error) {
	caller := db.ActorOf(ctx)
	token, err := s.tokens.ParseRefresh(*r.In.RefreshToken.Value)
	if err != nil && !errors.Is(err, ErrTokenExpired) {
		return nil, server.Invalid("refresh_token", "is not a refresh token")
	}
	if err != nil || token.UserID != caller.User || token.TenantID != caller.Tenant {
		return nil, s.db.CheckActor(ctx)
	}
	return nil, s.db.Write(ctx,
		db.SQL(`delete from sessions where id = $1 and user_id = $2`, token.SessionID, caller.User))
}

var meDoc = &server.Doc{
	ID: "getMe", Tag: tag, Summary: "Get your account", Description: "Returns the user of the access token.",
}

func (s *Service) me(ctx context.Context, _ *server.Request[struct{}]) (server.OK[User], error) {
	user := db.SQL(`select id, email, name, created_at, tenant_id from users where id = $1`, db.ActorOf(ctx).User)
	if err := s.db.Read(ctx, user); err != nil {
		return nil, err
	}
	return user.Object(), nil
}

// emailKey returns the form of an e-mail that the login directory stores and compares.
func emailKey(email string) string { return strings.ToLower(strings.TrimSpace(email)) }
