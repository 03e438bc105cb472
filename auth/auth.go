// Package auth manages users, passwords, sessions, tokens, API keys and the settings of tenants. It authenticates
// requests and serves /api/v1/auth, /api/v1/users, /api/v1/api-keys, /api/v1/settings and /api/v1/sign-on. Package
// accounts has the commands.
package auth

import (
	"context"
	"embed"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/auth/oidc"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value"
)

// Service serves the operations of Routes, and authenticates the requests of all routes.
type Service struct {
	db       *db.DB
	tokens   *Tokens
	hasher   *secrets.Hasher
	throttle *secrets.Throttle
	keys     keyring
	now      func() time.Time

	signOn     *oidc.Client // see SignOnWith
	signOnSite string       // see SignOnWith
	only       onlyFarm

	mail      *mail.Sender   // see SendLinks
	site      string         // see SendLinks
	forgotten chan struct{}  // holds a value during each lookup of Forgotten
	lookups   sync.WaitGroup // the lookups of Forgotten
}

// New returns a Service. The times of failed logins and of refresh tokens come from now.
func New(d *db.DB, tokens *Tokens, hasher *secrets.Hasher, now func() time.Time) *Service {
	return &Service{db: d, tokens: tokens, hasher: hasher, throttle: secrets.NewThrottle(now), now: now,
		keys: keyring{writing: make(chan struct{}, 1)}, forgotten: make(chan struct{}, maxForgotten)}
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

// Authenticate implements server.Config.Authenticate. It returns the caller that the access token or the API key
// names. The error is server.ErrInvalidToken (also without credentials), server.ErrTokenExpired, server.ErrInvalidKey,
// server.ErrTwoCredentials, the error of admit, or an error of the database. Authenticate reads the database only for
// an unknown API key: the request's first statement checks that the user still exists, is enabled and has the role, or
// that the API key is still valid.
func (s *Service) Authenticate(r *http.Request, basic bool, admit func() error) (server.Caller, error) {
	if keys := r.Header["X-Api-Key"]; keys != nil {
		if len(keys) > 1 || r.Header["Authorization"] != nil {
			return server.Caller{}, server.ErrTwoCredentials
		}
		return s.keyCaller(r.Context(), keys[0], admit)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if basic && strings.EqualFold(scheme, "Basic") {
		_, key, _ := r.BasicAuth()
		return s.keyCaller(r.Context(), key, admit)
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return server.Caller{}, server.ErrInvalidToken
	}
	if token = strings.TrimSpace(token); basic && strings.HasPrefix(token, secrets.KeyPrefix) {
		return s.keyCaller(r.Context(), token, admit)
	}
	p, err := s.tokens.ParseAccess(token)
	if err != nil {
		return server.Caller{}, tokenError(err)
	}
	actor := db.Actor{Tenant: p.TenantID, User: p.UserID, Role: p.Role, Session: p.SessionID}
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

// Routes returns the operations of /api/v1/auth, /api/v1/users, /api/v1/api-keys and /api/v1/settings.
func (s *Service) Routes() []server.Route {
	return append([]server.Route{
		server.Op("POST /api/v1/auth/login", server.Public, server.Handle(s.login), loginDoc).ForUsers(),
		server.Op("POST /api/v1/auth/refresh", server.Public, server.Handle(s.refresh), refreshDoc).ForUsers(),
		server.Op("POST /api/v1/auth/logout", server.Read, server.Handle(s.logout), logoutDoc).WithoutKey().ForUsers().
			ForSettingUp(),
		server.Op("POST /api/v1/auth/password-link", server.Public, server.Handle(s.usePasswordLink),
			usePasswordLinkDoc).ForUsers(),
		server.Op("GET /api/v1/auth/me", server.Read, server.Handle(s.me), meDoc).ForUsers().ForSettingUp(),
		server.Op("PATCH /api/v1/auth/me", server.Read, server.Handle(s.updateMe), updateMeDoc).ForUsers().
			ForSettingUp(),
		server.Op("GET /api/v1/auth/sessions", server.Read, server.Handle(s.sessions), sessionsDoc).ForUsers(),
		server.Op("DELETE /api/v1/auth/sessions/{id}", server.Read, server.Handle(s.revokeSession),
			revokeSessionDoc).ForUsers(),
	}, slices.Concat(s.factorRoutes(), s.userRoutes(), s.keyRoutes(), s.settingsRoutes(),
		s.signOnRoutes())...)
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
	RefreshToken value.Optional[string] `json:"refresh_token" rule:"required,maxLength=4096"`
}

// User is the caller.
type User struct {
	ID        value.UUID               `json:"id" rule:"readOnly,notNull"`
	Email     string                   `json:"email" rule:"readOnly,notNull"`
	Name      string                   `json:"name" rule:"readOnly,notNull"`
	Role      Role                     `json:"role" rule:"readOnly,notNull"`
	Language  value.Optional[Language] `json:"language"`
	CreatedAt value.Timestamp          `json:"created_at" rule:"readOnly,notNull"`
	TenantID  value.UUID               `json:"tenant_id" rule:"readOnly,notNull"`

	OTPEnabled       bool                  `json:"otp_enabled" rule:"readOnly,notNull"`
	OTPSetupRequired bool                  `json:"otp_setup_required" rule:"readOnly,notNull"`
	RecoveryCodes    value.Optional[int64] `json:"recovery_codes_left" rule:"readOnly"`
}

// tokenSet returns an access token for the actor and the session's current refresh token.
func (s *Service) tokenSet(actor db.Actor, session Refresh) (server.OK[TokenSet], error) {
	access, err := s.tokens.Access(Principal{TenantID: actor.Tenant, UserID: actor.User, Role: actor.Role,
		SessionID: session.SessionID})
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
		"session: the response is `INVALID_TOKEN`, and the user must log in again. The user must also log in again 90 " +
		"days after the login, or after the lifetime of a refresh token if that is longer.",
	Errors: []*server.Error{server.ErrInvalidToken, server.ErrTokenExpired},
}

// grace is the time for which the previous refresh token is accepted, so that a lost response does not end the
// session.
const grace = 30 * time.Second

// refresh updates the session in one statement, under its row lock. The current token increments the counter. The
// previous token, within grace, returns the current token again. Any other token of the session deletes the session.
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
			expires_at = case when s.counter = $3 then least($5, s.`+s.tokens.lastEnd()+`) else s.expires_at end
		from users u
		where s.id = $1 and s.user_id = $2 and u.tenant_id = s.tenant_id and u.id = s.user_id and u.disabled_at is null
			and s.expires_at > $4 and (s.counter = $3 or s.counter = $3 + 1 and s.refreshed_at >= $6)
		returning s.counter, s.refreshed_at, u.role`,
		token.SessionID, token.UserID, token.Counter, now, now.Add(s.tokens.RefreshTTL()), now.Add(-grace)).
		Into(&token.Counter, &issued, &actor.Role)
	ended := db.SQL(`
		with ended as (
			delete from sessions s where s.id = $1 and s.user_id = $2
				and not (s.counter = $3 + 1 and s.refreshed_at >= $4)
			returning s.counter
		)
		select audit_add('session.reused', 'user', u.id, u.name)::text from ended e join users u on u.id = $2
		where e.counter > $3`,
		token.SessionID, token.UserID, token.Counter, now.Add(-grace))
	err = s.db.Write(db.As(ctx, db.Actor{Tenant: token.TenantID}), alive, ended,
		rememberAddress(token, r.Address, now))
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
		db.SQL(signOutSQL, token.SessionID, caller.User, false))
}

// signOutSQL ends the session $1 of the user $2 or, if $3 is true and the session exists, all sessions of the user.
const signOutSQL = `
	with ended as (
		delete from sessions where user_id = $2 and (id = $1 or $3)
			and exists (select from sessions where id = $1 and user_id = $2)
		returning id
	)
	select audit_add('sign_out', 'user', u.id, u.name, person => u.id)::text from users u
	where u.id = $2 and exists (select from ended)`

var meDoc = &server.Doc{
	ID: "getMe", Tag: tag, Summary: "Get your account", Description: "Returns the user of the access token.",
}

func (s *Service) me(ctx context.Context, _ *server.Request[struct{}]) (server.OK[User], error) {
	user := readMe(db.ActorOf(ctx))
	return server.One(user, s.db.Read(ctx, user))
}

var updateMeDoc = &server.Doc{
	ID: "updateMe", Tag: tag, Summary: "Change your account",
	Description: "Sets the language of pages and e-mails for you; null means that of the farm or the browser. Admins " +
		"change the rest of an account.",
}

// OwnAccount is what users change of their own accounts.
type OwnAccount struct {
	Language value.Optional[Language] `json:"language"`
}

func (s *Service) updateMe(ctx context.Context, r *server.Request[OwnAccount]) (server.OK[User], error) {
	id := db.ActorOf(ctx).User
	user := readMe(db.ActorOf(ctx))
	if !r.In.Language.Set {
		return server.One(user, s.db.Read(ctx, user))
	}
	return server.One(user, s.db.Write(ctx, db.SQL(`
		update users set language = $2, updated_at = now() where id = $1`, id, r.In.Language.Arg()), user))
}

func readMe(caller db.Actor) *db.Stmt {
	return db.SQL(`
		select id, email, name, role, language, created_at, tenant_id, otp_at is not null as otp_enabled,
			otp_missing and not exists (select from sessions s where s.id::text = $2 and s.factor_met) as otp_setup_required,
			(select cardinality(o.recovery_hashes) from user_otps o
				where o.tenant_id = users.tenant_id and o.user_id = users.id and users.otp_at is not null) as recovery_codes_left
		from users where id = $1`, caller.User, caller.Session)
}

// UserSession is an active login of a user.
type UserSession struct {
	ID         value.UUID      `json:"id" rule:"notNull"`
	CreatedAt  value.Timestamp `json:"created_at" rule:"notNull"`
	LastUsedAt value.Timestamp `json:"last_used_at" rule:"notNull"`
	ExpiresAt  value.Timestamp `json:"expires_at" rule:"notNull"`
}

var sessionsDoc = &server.Doc{
	ID: "listSessions", Tag: tag, Summary: "List your sessions",
	Description: "Returns the active logins of the caller, in programs and browsers.",
}

func (s *Service) sessions(
	ctx context.Context, r *server.Request[server.ListQuery],
) (server.Page[UserSession], error) {
	l := server.NewList(`(select *, refreshed_at as last_used_at from sessions) sessions`,
		"id, created_at, last_used_at, expires_at", "", "")
	l.Where("user_id = ?::uuid", db.ActorOf(ctx).User)
	l.Where("expires_at > ?::timestamptz", s.now())
	return server.ListPage[UserSession](ctx, s.db.Read, l, r.In)
}

var revokeSessionDoc = &server.Doc{
	ID: "revokeSession", Tag: tag, Summary: "End one of your sessions",
	Description: "Its refresh token or cookie no longer works. An access token stays valid until it expires.",
}

func (s *Service) revokeSession(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	ended := db.SQL(`
		with ended as (delete from sessions where id = $1 and user_id = $2 returning user_id)
		select audit_add('session.ended', 'user', u.id, u.name)::text as added
			from ended e join users u on u.id = e.user_id`,
		r.ID("id"), db.ActorOf(ctx).User)
	return nil, server.Found(ended, s.db.Write(ctx, ended))
}

// EmailKey returns the form of an e-mail by which e-mails are compared. The login directory stores this form.
func EmailKey(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of users and API keys. Other packages call the function actor_name in their
// statements.
var Definitions = slices.Concat(db.Definitions("auth", functions, "actor", "factor"), audit.Definitions)

// HiddenBy selects the columns hidden_by and hidden_by_name of a table with the column hidden_by.
const HiddenBy = `hidden_by, case when hidden_by is not null then actor_name(hidden_by) end as hidden_by_name`
