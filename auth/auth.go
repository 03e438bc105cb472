// Package auth knows tenants, users, passwords and tokens: who is calling, for which tenant, and what they may do. It owns
// the account commands of the program too.
package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// Service answers /api/v1/auth and tells the server who calls.
type Service struct {
	db       *db.DB
	tokens   *Tokens
	hasher   *Hasher
	throttle *Throttle
	now      func() time.Time
}

// New makes a Service. Now is the clock for failed logins and refresh tokens.
func New(d *db.DB, tokens *Tokens, hasher *Hasher, now func() time.Time) *Service {
	return &Service{db: d, tokens: tokens, hasher: hasher, throttle: NewThrottle(now), now: now}
}

// levels is what each role may do.
var levels = map[string]server.Access{"viewer": server.Read, "operator": server.Write, "admin": server.Admin}

// Authenticate reads the bearer token. It returns server.ErrInvalidToken or server.ErrTokenExpired if there is no valid
// one. Whether the user still has that role is checked with the request's first statement.
func (s *Service) Authenticate(r *http.Request) (server.Caller, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return server.Caller{}, server.ErrInvalidToken
	}
	p, err := s.tokens.ParseAccess(strings.TrimSpace(token))
	if err != nil {
		return server.Caller{}, tokenError(err)
	}
	return server.Caller{Actor: db.Actor{Tenant: p.TenantID, User: p.UserID, Role: p.Role}, Level: levels[p.Role]}, nil
}

func tokenError(err error) error {
	if errors.Is(err, ErrTokenExpired) {
		return server.ErrTokenExpired
	}
	return server.ErrInvalidToken.Because(err)
}

var tag = &server.Tag{Name: "auth", Description: "Log in, keep a session, and see who you are."}

// Routes are the operations of /api/v1/auth and /api/v1/users.
func (s *Service) Routes() []server.Route {
	return append([]server.Route{
		server.Op("POST /api/v1/auth/login", server.Public, server.Handle(s.login), loginDoc),
		server.Op("POST /api/v1/auth/refresh", server.Public, server.Handle(s.refresh), refreshDoc),
		server.Op("POST /api/v1/auth/logout", server.Read, server.Handle(s.logout), logoutDoc),
		server.Op("GET /api/v1/auth/me", server.Read, server.Handle(s.me), meDoc),
	}, s.userRoutes()...)
}

// Credentials are an e-mail and a password.
type Credentials struct {
	Email    server.Optional[string] `json:"email" rule:"required,maxLength=320" doc:"Compared without regard to case." example:"\"ada@farm.example\""`
	Password server.Optional[string] `json:"password" rule:"required,maxLength=1000" doc:"The password." example:"\"correct horse battery\""`
}

// TokenSet is what login and refresh return.
type TokenSet struct {
	AccessToken  string `json:"access_token" rule:"notNull" doc:"A JWT for the Authorization header." example:"\"eyJhbGciOiJIUzI1NiJ9.e30.c2ln\""`
	RefreshToken string `json:"refresh_token" rule:"notNull" doc:"A JWT for POST /api/v1/auth/refresh." example:"\"eyJhbGciOiJIUzI1NiJ9.e30.c2ln\""`
	TokenType    string `json:"token_type" rule:"notNull,enum=bearer" doc:"Always bearer." example:"\"bearer\""`
	ExpiresIn    int64  `json:"expires_in" rule:"notNull,maximum=999999999" doc:"Seconds for which the access token is valid." example:"1800"`
}

// RefreshToken is the body of refresh and logout.
type RefreshToken struct {
	RefreshToken server.Optional[string] `json:"refresh_token" rule:"required,maxLength=4096" doc:"The refresh_token of a token set." example:"\"eyJhbGciOiJIUzI1NiJ9.e30.c2ln\""`
}

// User is the caller as GET /api/v1/auth/me shows it.
type User struct {
	ID        server.UUID      `json:"id" rule:"notNull" doc:"The user's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41\""`
	Email     string           `json:"email" rule:"notNull" doc:"The e-mail the user logs in with." example:"\"ada@farm.example\""`
	Name      string           `json:"name" rule:"notNull" doc:"The user's name." example:"\"Ada\""`
	CreatedAt server.Timestamp `json:"created_at" rule:"notNull" doc:"When the user was made." example:"\"2024-01-15T10:00:00Z\""`
	TenantID  server.UUID      `json:"tenant_id" rule:"notNull" doc:"The tenant that the user belongs to." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a42\""`
}

var loginDoc = &server.Doc{
	ID: "login", Tag: tag, Summary: "Log in",
	Description: "Returns an access token and a refresh token. A wrong e-mail and a wrong password get the same answer, in the same time. " +
		"Failed logins within 15 minutes are limited: 5 for an account from one address, 20 from an address, 100 for an account; beyond that " +
		"the answer is a `429` with `Retry-After`, whatever the password.",
	Errors: []*server.Error{errCredentials},
}

var errCredentials = &server.Error{Status: 401, Code: "INVALID_CREDENTIALS", Detail: "Incorrect email or password"}

func (s *Service) login(ctx context.Context, r *server.Request[Credentials]) (server.OK[TokenSet], error) {
	email := emailKey(*r.In.Email.Value)
	done, wait, ok := s.begin(ctx, email, r.Address)
	if !ok {
		return nil, tooManyFailures(wait)
	}
	outcome := Abandoned
	defer func() { done(outcome) }()

	actor, known, err := s.db.FindLogin(ctx, email)
	if err != nil {
		return nil, err
	}
	var hash string // stays empty for an unknown or disabled user, which costs the same time
	if known {
		err := s.db.Read(db.As(ctx, db.Actor{Tenant: actor.Tenant}),
			db.SQL(`select password_hash, role from users where id = $1 and disabled_at is null`, actor.User).Into(&hash, &actor.Role))
		if err != nil {
			return nil, err
		}
	}
	right, err := s.hasher.Verify(ctx, hash, *r.In.Password.Value)
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
	return s.startSession(db.As(ctx, actor), actor, hash)
}

func tooManyFailures(wait time.Duration) error {
	return &server.Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", Detail: "Too many failed logins; try again later", RetryAfter: wait}
}

// begin is the throttle's Begin, but while it is only undecided attempts that stand in the way, it waits for them, as long
// as hashing would: several logins of one account at once are no attack.
func (s *Service) begin(ctx context.Context, email, address string) (done func(Outcome), wait time.Duration, ok bool) {
	for end := time.Now().Add(queueWait); ; time.Sleep(20 * time.Millisecond) {
		done, wait, ok = s.throttle.Begin(email, address)
		if ok || wait > undecidedWait || ctx.Err() != nil || time.Now().After(end) {
			return done, wait, ok
		}
	}
}

// startSession opens a session for the actor and removes those of the same user that are over. The row lock makes it wait for a
// change of the user that is under way: a password that was replaced since it was looked at opens none.
func (s *Service) startSession(ctx context.Context, actor db.Actor, hash string) (server.OK[TokenSet], error) {
	now := s.now().UTC().Truncate(time.Second)
	session := Refresh{TenantID: actor.Tenant, UserID: actor.User, SessionID: db.NewID(), Counter: 1, IssuedAt: now}
	opened := db.SQL(`
		with u as (select id from users where id = $2 and password_hash = $5 and disabled_at is null for share)
		insert into sessions (id, user_id, counter, refreshed_at, expires_at) select $1, u.id, 1, $3, $4 from u returning id`,
		session.SessionID, actor.User, now, now.Add(s.tokens.RefreshTTL()), hash)
	err := s.db.Write(ctx, db.SQL(`delete from sessions where user_id = $1 and expires_at < $2`, actor.User, now), opened)
	if err == nil && opened.Rows() == 0 {
		err = errCredentials
	}
	if err != nil {
		return nil, err
	}
	return s.tokenSet(actor, session)
}

func (s *Service) tokenSet(actor db.Actor, session Refresh) (server.OK[TokenSet], error) {
	access, err := s.tokens.Access(Principal{TenantID: actor.Tenant, UserID: actor.User, Role: actor.Role})
	if err != nil {
		return nil, err
	}
	refresh, err := s.tokens.Refresh(session)
	if err != nil {
		return nil, err
	}
	return server.Encode(TokenSet{AccessToken: access, RefreshToken: refresh, TokenType: "bearer", ExpiresIn: int64(s.tokens.AccessTTL() / time.Second)})
}

var refreshDoc = &server.Doc{
	ID: "refresh", Tag: tag, Summary: "Get new tokens",
	Description: "Each refresh token is for one use: the answer carries its successor. Should the answer get lost, the same token may be sent again within " +
		"30 seconds and gets the same successor. A token that is older than that ends the session, for it may have been stolen: `INVALID_TOKEN`, and the user has to log in again.",
	Errors: []*server.Error{server.ErrInvalidToken, server.ErrTokenExpired},
}

// grace is how long the refresh token before the current one is still taken: a lost answer must not log anyone out.
const grace = 30 * time.Second

// refresh decides in one statement, under the session's row lock: raise the counter, hand out the current token again, or
// end the session.
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
	if err := s.db.Write(db.As(ctx, db.Actor{Tenant: token.TenantID}), alive, ended); err != nil {
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
	Description: "Ends the session of the refresh token. The access token stays valid until it expires. Logging out twice, or with somebody else's token, " +
		"changes nothing and is a `204` too.",
}

func (s *Service) logout(ctx context.Context, r *server.Request[RefreshToken]) (server.NoContent, error) {
	caller := db.ActorOf(ctx)
	token, err := s.tokens.ParseRefresh(*r.In.RefreshToken.Value)
	if errors.Is(err, ErrTokenExpired) || err == nil && (token.UserID != caller.User || token.TenantID != caller.Tenant) {
		token.SessionID = ""
	} else if err != nil {
		return nil, server.Invalid("refresh_token", "is not a refresh token")
	}
	session := any(token.SessionID)
	if token.SessionID == "" {
		session = nil // the caller is checked all the same
	}
	return nil, s.db.Write(ctx, db.SQL(`delete from sessions where id = $1 and user_id = $2`, session, caller.User))
}

var meDoc = &server.Doc{ID: "getMe", Tag: tag, Summary: "See who you are", Description: "The user of the access token."}

func (s *Service) me(ctx context.Context, _ *server.Request[struct{}]) (server.OK[User], error) {
	user := db.SQL(`select id, email, name, created_at, tenant_id from users where id = $1`, db.ActorOf(ctx).User)
	if err := s.db.Read(ctx, user); err != nil {
		return nil, err
	}
	return user.Object(), nil
}

// emailKey is the form in which e-mails are compared.
func emailKey(email string) string { return strings.ToLower(strings.TrimSpace(email)) }
