package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value/language"
)

// The session of a browser is a row of sessions, and expires like the session of a refresh token. The cookie is a
// token that names the session; it is neither an access token nor a refresh token. A request more than an hour after
// the cookie was issued extends the session and gets a new cookie. Thus a session ends after a week without requests.

// Visitor is the user of a browser's session.
type Visitor struct {
	Actor                    db.Actor
	Level                    server.Access
	Name, Email              string
	Farm, TimeZone, Currency string
	FarmURL                  string // the setting farm_url, or ""
	Language, FarmLanguage   string // of the user and of the farm, or ""
	Session                  string // its id
	MustSetUp                bool   // whether the user must set up a second factor first
	Cookie                   string // the new cookie if the request extended the session, or ""
}

// extendAfter is the minimum age of a cookie for which a request extends the session.
const extendAfter = time.Hour

// SignIn starts a session of a browser and returns its cookie. If the user has a second factor, it starts no session,
// and returns a token for SignInWithCode instead. The errors are the errors of a login.
func (s *Service) SignIn(ctx context.Context, email, password, address string) (cookie, token string, err error) {
	user, session, err := s.startWith(ctx, email, password, "", address)
	if err == errOTPRequired {
		token, err = s.passedToken(user)
		return "", token, err
	}
	if err != nil {
		return "", "", err
	}
	cookie, err = s.tokens.Cookie(session)
	return cookie, "", err
}

// ErrSignInAgain means that a page waited too long for a code, or that the password has changed in the meantime.
var ErrSignInAgain = &server.Error{Status: 401, Code: "INVALID_TOKEN", Detail: language.Sprintf(
	"Sign in again: this took too long")}

func (s *Service) passedToken(user *loginUser) (string, error) {
	return s.tokens.passed(passed{user.actor.Tenant, user.actor.User, passwordDigest(user.hash), user.issuer,
		user.subject})
}

// SignInWithCode starts a session of a browser and returns its cookie. The token is that of SignIn or FinishSignOn.
func (s *Service) SignInWithCode(ctx context.Context, token, code, address string) (cookie string, err error) {
	p, err := s.tokens.parsePassed(token)
	if err != nil {
		return "", ErrSignInAgain.Because(err)
	}
	user := &loginUser{actor: db.Actor{Tenant: p.TenantID, User: p.UserID}, signedOn: p.Account != "",
		issuer: p.Issuer, subject: p.Account}
	if err := s.db.Read(db.As(ctx, db.Actor{Tenant: p.TenantID}), s.readUser(user, address)); err != nil {
		return "", err
	}
	if !user.factor || passwordDigest(user.hash) != p.Password {
		return "", ErrSignInAgain
	}
	session, err := s.startWithCode(ctx, user, code, address)
	if err != nil {
		return "", err
	}
	return s.tokens.Cookie(session)
}

// passwordDigest returns a digest of a stored hash, which has a salt.
func passwordDigest(hash string) string {
	digest := sha256.Sum256([]byte(hash))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// CookieAge is how long a cookie is valid.
func (s *Service) CookieAge() time.Duration { return s.tokens.RefreshTTL() }

// Identify returns the user that a cookie names. It does not read the database.
func (s *Service) Identify(cookie string) (actor db.Actor, ok bool) {
	session, err := s.tokens.ParseCookie(cookie)
	return db.Actor{Tenant: session.TenantID, User: session.UserID, Session: session.SessionID}, err == nil
}

// Exported adds an entry to the audit log for a file with the content of a page, such as a report.
func (s *Service) Exported(ctx context.Context, v Visitor, resources string) error {
	return s.db.WriteLocal(db.As(ctx, v.Actor), audit.Export(resources))
}

// Visit returns the user of a cookie, in one round trip. The error is server.ErrInvalidToken if the session has ended.
// The statements in more run in the same round trip, for the tenant that Identify returns.
func (s *Service) Visit(ctx context.Context, cookie, address string, more ...*db.Stmt) (Visitor, error) {
	session, err := s.tokens.ParseCookie(cookie)
	if err != nil {
		return Visitor{}, tokenError(err)
	}
	now := s.now().UTC().Truncate(time.Second)
	v := Visitor{Session: session.SessionID,
		Actor: db.Actor{Tenant: session.TenantID, User: session.UserID, Session: session.SessionID}}
	ctx = db.As(ctx, db.Actor{Tenant: session.TenantID})
	found := db.SQL(`
		select u.role, u.name, u.email, u.otp_missing, s.factor_met, t.name, t.time_zone, coalesce(t.currency, ''),
			coalesce(t.farm_url, ''), coalesce(u.language, ''), coalesce(t.language, '')
		from sessions s cross join lateral (
			select role, name, email, otp_missing, language from users
			where tenant_id = s.tenant_id and id = s.user_id and disabled_at is null
		) u cross join lateral (
			select name, time_zone, currency, farm_url, language from tenants where tenant_id = s.tenant_id
		) t
		where s.id = $1 and s.user_id = $2 and s.expires_at > $3`, session.SessionID, session.UserID, now).Quick().
		Into(&v.Actor.Role, &v.Name, &v.Email, &v.MustSetUp, &v.Actor.SettingUp, &v.Farm, &v.TimeZone, &v.Currency,
			&v.FarmURL, &v.Language, &v.FarmLanguage)
	if err := s.db.Read(ctx, append(more, found)...); err != nil {
		return Visitor{}, err
	}
	if found.Rows() == 0 {
		return Visitor{}, server.ErrInvalidToken
	}
	v.Level = Role(v.Actor.Role).access()
	v.MustSetUp = v.MustSetUp && !v.Actor.SettingUp
	if now.Sub(session.IssuedAt) < extendAfter {
		return v, nil
	}
	err = s.db.Write(ctx,
		db.SQL(`update sessions set refreshed_at = $3, expires_at = least($4, `+s.tokens.lastEnd()+`)
			where id = $1 and user_id = $2 and refreshed_at < $3`,
			session.SessionID, session.UserID, now, now.Add(s.tokens.RefreshTTL())),
		rememberAddress(session, address, now))
	if err != nil {
		return Visitor{}, err
	}
	session.IssuedAt = now
	v.Cookie, err = s.tokens.Cookie(session)
	return v, err
}

// SignOut ends the session of a cookie, or all sessions of its user.
func (s *Service) SignOut(ctx context.Context, cookie string, everywhere bool) error {
	session, err := s.tokens.ParseCookie(cookie)
	if err != nil {
		return nil // not a session
	}
	return s.db.Write(db.As(ctx, db.Actor{Tenant: session.TenantID}),
		db.SQL(signOutSQL, session.SessionID, session.UserID, everywhere))
}

// OneLogin is a login that can be used once while the program runs. The zero value has no login.
type OneLogin struct {
	mu                   sync.Mutex
	key, email, password string
}

// Offer replaces the login and returns the key for it.
func (o *OneLogin) Offer(email, password string) (key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key, o.email, o.password = rand.Text(), email, password
	return o.key
}

// Take returns the login for the key. It returns each login only once.
func (o *OneLogin) Take(key string) (email, password string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.key == "" || subtle.ConstantTimeCompare([]byte(key), []byte(o.key)) != 1 {
		return "", "", false
	}
	o.key = ""
	return o.email, o.password, true
}
