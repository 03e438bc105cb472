package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"spoolwright/auth/audit"
	"spoolwright/auth/oidc"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// A sign-on leads a browser to the farm's provider and back. Meanwhile, only the browser keeps what the answer must
// match, in a cookie that is signed. So a sign-on that nobody ends writes nothing.

const (
	// signOnWait is the maximum time between the start of a sign-on and the answer of the provider.
	signOnWait = 10 * time.Minute

	// signOnFor is the longest session after a sign-on. Then the provider is asked again, so that a person who may no
	// longer sign in there loses the access here.
	signOnFor = 24 * time.Hour
)

// SignOnWith allows persons to sign on at the providers of farms. The providers send them back to site, the origin of
// the service: a request must not decide about this address. Without a site, nobody can sign on.
func (s *Service) SignOnWith(client *oidc.Client, site string) { s.signOn, s.signOnSite = client, site }

// SignOnAddress returns the address at which the users of a farm sign on, or "" if the service has no PUBLIC_URL.
func (s *Service) SignOnAddress(tenant string) string {
	if s.signOn == nil || s.signOnSite == "" {
		return ""
	}
	return s.signOnSite + "/sign-on/" + tenant
}

// onlyFarm is the farm with sign-on of an installation with one farm.
type onlyFarm struct {
	mu     sync.Mutex
	tenant string    // "" if there is none, or more farms than one
	at     time.Time // when a caller began to look for it
}

// OnlySignOn returns the tenant if the installation has only one, and it has a provider. Otherwise it returns "", so
// that a page reveals nothing about farms. The answer may be a minute old.
func (s *Service) OnlySignOn(ctx context.Context) (string, error) {
	if s.signOnSite == "" {
		return "", nil
	}
	if tenant, isFresh := s.only.get(s.now()); isFresh {
		return tenant, nil
	}
	tenants, err := s.db.Tenants(ctx)
	if err != nil {
		return "", err
	}
	found := ""
	if len(tenants) == 1 {
		provider := db.SQL(`select tenant_id::text from sign_on_providers`).Into(&found)
		if err := s.db.Read(db.As(ctx, db.Actor{Tenant: tenants[0]}), provider); err != nil {
			return "", err
		}
	}
	s.only.mu.Lock()
	defer s.only.mu.Unlock()
	s.only.tenant = found
	return found, nil
}

// get returns the last answer. If it is a minute old, get returns false to one caller, which looks for a new answer. The
// others do not wait for it.
func (o *onlyFarm) get(now time.Time) (tenant string, isFresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isFresh = now.Sub(o.at) < time.Minute && !now.Before(o.at); !isFresh {
		o.at = now
	}
	return o.tenant, isFresh
}

// forget makes the next caller of get look for the answer.
func (o *onlyFarm) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = time.Time{}
}

// signOnClaims is the content of the cookie of a sign-on.
type signOnClaims struct {
	jwt.RegisteredClaims // the subject is the tenant
	Issuer, State        string
	Nonce, Verifier      string
	Next                 string
}

// parseSignOn verifies the cookie of a sign-on at the provider of the tenant.
func (t *Tokens) parseSignOn(raw, tenant string) (c signOnClaims, ok bool) {
	ok = t.verify(raw, &c) && t.check(&c.RegisteredClaims, signOnAudience, c.Subject == tenant && c.State != "") == nil
	return c, ok
}

var (
	errNoSignOn = &server.Error{Status: 404, Code: "NOT_FOUND", Detail: language.Sprintf(
		"There is no sign-on at this address. Ask an administrator of your farm for the right one.")}
	errSignOnAgain = server.BadRequest("SIGN_ON_AGAIN",
		"Sign in again: this took too long, was done already, or was begun in another browser")
	errSignOnFailed   = server.BadRequest("SIGN_ON_FAILED", "The sign-in at the provider failed: %s", "its audience")
	errNotVerified    = &server.Error{Status: 403, Code: "FORBIDDEN", Detail: language.Sprintf(noVerifiedEmail)}
	errNotOfFarm      = &server.Error{Status: 403, Code: "FORBIDDEN", Detail: language.Sprintf(noAccess)}
	errSignOnRequired = &server.Error{Status: 401, Code: "SIGN_ON_REQUIRED", Detail: language.Sprintf(
		"Your farm signs in only at its provider. An administrator of the farm has the address for that.")}
)

const (
	noVerifiedEmail language.Text = "The provider has not verified your e-mail address, so you cannot be recognized."
	noAccess        language.Text = "The provider knows you, but you have no access to this farm. Ask an administrator " +
		"of the farm."
)

// BeginSignOn returns the address to which the browser goes, and the cookie that it must keep. After the sign-on, it
// shows the page next. The error is a 404 if the tenant has no provider.
func (s *Service) BeginSignOn(ctx context.Context, tenant, next string) (address, cookie string, err error) {
	p, err := s.provider(db.As(ctx, db.Actor{Tenant: tenant}), tenant)
	if err != nil {
		return "", "", err
	}
	claims := signOnClaims{RegisteredClaims: registered(signOnAudience, tenant, rand.Text(), s.now(), signOnWait),
		Issuer: p.Issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Next: next}
	if address, err = s.signOn.Address(ctx, p.Registration, claims.attempt(), p.claim); err != nil {
		return "", "", failedSignOn(err)
	}
	cookie, err = s.tokens.sign(claims)
	return address, cookie, err
}

func (c signOnClaims) attempt() oidc.Attempt {
	return oidc.Attempt{State: c.State, Nonce: c.Nonce, Verifier: c.Verifier, Began: c.IssuedAt.Time}
}

// failedSignOn returns the response to an error of package oidc, which has no secrets.
func failedSignOn(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return errSignOnFailed.With(strings.TrimPrefix(err.Error(), "oidc: ")).Because(err)
}

// SignedOn is the end of a sign-on.
type SignedOn struct {
	Cookie string // of the session, or ""
	Token  string // for SignInWithCode, if the user has a second factor and the provider has confirmed none
	Next   string // the page to show
}

// FinishSignOn ends a sign-on with the cookie of BeginSignOn and the parameters of the provider's answer. An answer has
// an effect once.
func (s *Service) FinishSignOn(ctx context.Context, tenant, cookie string, answer url.Values, address string) (
	end SignedOn, err error,
) {
	c, ok := s.tokens.parseSignOn(cookie, tenant)
	if !ok || subtle.ConstantTimeCompare([]byte(c.State), []byte(answer.Get("state"))) != 1 {
		return end, errSignOnAgain
	}
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	p, err := s.provider(ctx, tenant)
	switch {
	case err != nil:
		return end, err
	case p.Issuer != c.Issuer: // an admin has changed it
		return end, errSignOnAgain
	case answer.Get("code") == "" || answer.Has("error"):
		return end, errSignOnFailed.With("it did not sign you in")
	}
	identity, err := s.redeem(ctx, p, c, answer, address)
	if err != nil {
		return end, err
	}
	now, state := s.now(), sha256.Sum256([]byte(c.State))
	used := db.SQL(`insert into sign_on_uses (state, used_at) values ($1, $2) on conflict do nothing returning used_at`,
		state[:], now)
	err = s.db.Write(ctx, used, db.SQL(`delete from sign_on_uses where used_at < $1`, now.Add(-2*signOnWait)))
	if err == nil && used.Rows() == 0 {
		err = errSignOnAgain
	}
	if err != nil {
		return end, err
	}
	user, err := s.signOnUser(ctx, p, identity, address)
	if err != nil {
		return end, err
	}
	end.Next = c.Next
	if user.factor && !user.factorMet {
		end.Token, err = s.passedToken(user)
		return end, err
	}
	session, err := s.startSession(db.As(ctx, user.actor), user, address)
	if err == errCredentials { // the user has changed in the meantime
		err = errNotOfFarm
	}
	if err != nil {
		return end, err
	}
	end.Cookie, err = s.tokens.Cookie(session)
	return end, err
}

// redeem exchanges the code of an answer for an identity. Codes that the provider refuses count as failed logins of the
// address.
func (s *Service) redeem(ctx context.Context, p *provider, c signOnClaims, answer url.Values, address string) (
	*oidc.Identity, error,
) {
	done, err := s.begin(ctx, "sign-on "+p.tenant+" "+address, address, secrets.Anonymous, nil)
	if err != nil {
		return nil, err
	}
	outcome := secrets.Abandoned
	defer func() { done(outcome) }()
	identity, err := s.signOn.Redeem(ctx, p.Registration, c.attempt(), answer.Get("code"), answer.Get("iss"),
		p.claim)
	if errors.Is(err, oidc.ErrCode) || errors.Is(err, oidc.ErrToken) {
		outcome = secrets.Failed
	}
	if err != nil {
		return nil, failedSignOn(err)
	}
	outcome = secrets.Succeeded
	return identity, nil
}

// signOnUser returns the user of the farm whose account at the provider the identity is. If there is none, it is the
// user with the verified e-mail address, who then has this account, or a new user if the farm allows the domain.
func (s *Service) signOnUser(ctx context.Context, p *provider, identity *oidc.Identity, address string) (
	*loginUser, error,
) {
	user := &loginUser{actor: db.Actor{Tenant: p.tenant}, signedOn: true, issuer: p.Issuer, subject: identity.Subject()}
	user.factorMet = slices.ContainsFunc(identity.Factors(), func(f string) bool { return slices.Contains(p.factors, f) })
	err := s.db.Read(ctx, db.SQL(`
		select id::text from users where sign_on_issuer = $1 and sign_on_subject = $2`, user.issuer, user.subject).
		Into(&user.actor.User))
	if err == nil && user.actor.User == "" {
		err = s.bindUser(ctx, p, identity, user)
	}
	if err != nil {
		return nil, err
	}
	found := s.readUser(user, address)
	if err = s.db.Read(ctx, found); err == nil && found.Rows() == 0 {
		s.db.Later(ctx, audit.FailedSignIn(user.actor.User))
		err = errNotOfFarm // disabled
	}
	return user, err
}

// bindUser finds or creates the user with the verified e-mail address of the identity, and stores that the account at
// the provider is the user's. A user who has another account at the same provider keeps it.
func (s *Service) bindUser(ctx context.Context, p *provider, identity *oidc.Identity, user *loginUser) error {
	email := identity.Email()
	if email == "" {
		return errNotVerified
	}
	holder, found, err := s.db.FindLogin(ctx, EmailKey(email))
	switch {
	case err != nil:
		return err
	case found && holder.Tenant != p.tenant:
		return errNotOfFarm
	case found:
		user.actor.User = holder.User
		bound := bindAccount(user)
		err = s.db.Write(ctx, bound)
		if err == nil && bound.Rows() == 0 {
			s.db.Later(ctx, audit.FailedSignIn(holder.User))
			err = errNotOfFarm
		}
	default:
		err = s.createSignedOn(ctx, p, identity, user)
	}
	if db.Violates(err, "users_tenant_id_sign_on_issuer_sign_on_subject_key") {
		return errSignOnAgain // two answers at the same time
	}
	return err
}

// bindAccount returns a statement that stores the account of a user who has none at the provider.
func bindAccount(user *loginUser) *db.Stmt {
	return db.SQL(`
		update users set sign_on_issuer = $2, sign_on_subject = $3, updated_at = now()
		where id = $1 and disabled_at is null and sign_on_issuer is distinct from $2 returning id`,
		user.actor.User, user.issuer, user.subject)
}

// createSignedOn creates a user of the domain that the farm allows.
func (s *Service) createSignedOn(ctx context.Context, p *provider, identity *oidc.Identity, user *loginUser,
) error {
	email := identity.Email()
	_, domain, _ := strings.Cut(EmailKey(email), "@")
	role, ok := p.role(identity)
	if p.domain == "" || domain != EmailKey(p.domain) || !ok {
		return errNotOfFarm
	}
	var account UserAccount
	var err error
	for _, name := range []string{value.Shorten(oneLine(identity.Name()), 200), email} { // or a name that is not valid
		body, _ := json.Marshal(map[string]any{"email": email, "name": name, "role": role}) // texts are encoded always
		if account, err = server.DecodeBody[UserAccount](body); err == nil {
			break
		}
	}
	if err != nil {
		return errNotOfFarm.Because(err)
	}
	user.actor.User = value.NewID()
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := InsertUser(ctx, s.db, user.actor.User, &account, ""); err != nil {
			return err
		}
		return s.db.Write(ctx, bindAccount(user))
	})
	if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 409 { // another farm's address, or too many users
		return errNotOfFarm.Because(err)
	}
	return err
}
