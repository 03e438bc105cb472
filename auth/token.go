package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"spoolwright/auth/secrets"
	"spoolwright/auth/vault"
	"spoolwright/server"
	"spoolwright/value"
)

var (
	// ErrTokenExpired means that the token has expired but is valid otherwise.
	ErrTokenExpired = errors.New("auth: token is expired")

	// ErrTokenInvalid means that the token is malformed, wrongly signed, or has an invalid claim.
	ErrTokenInvalid = errors.New("auth: token is invalid")
)

const (
	issuer          = "spoolwright"
	accessAudience  = "spoolwright:access"
	refreshAudience = "spoolwright:refresh"
	pagesAudience   = "spoolwright:pages"
	codeAudience    = "spoolwright:code"
	signOnAudience  = "spoolwright:sign-on"
	minSecretBytes  = 32
	maxTokenBytes   = 4 << 10
	issuedAtSkew    = 5 * time.Second // tolerance for the clock of another instance that issued a token
)

// Principal is the content of an access token. The ids are UUIDs in canonical form.
type Principal struct {
	TenantID, UserID string
	Role             string // admin, operator or viewer
	SessionID        string // may be empty
}

func (p Principal) valid() bool {
	return isID(p.TenantID) && isID(p.UserID) && Role(p.Role).access() != server.Public &&
		(p.SessionID == "" || isID(p.SessionID))
}

// Refresh is the content of a refresh token. The ids are UUIDs in canonical form.
type Refresh struct {
	TenantID, UserID, SessionID string
	Counter                     int64     // number of earlier tokens of the session, at least 0
	IssuedAt                    time.Time // truncated to seconds
}

func (r Refresh) valid() bool {
	return isID(r.TenantID) && isID(r.UserID) && isID(r.SessionID) && r.Counter >= 0
}

func (r Refresh) jti() string { return r.SessionID + "." + strconv.FormatInt(r.Counter, 10) }

// Tokens signs and verifies JSON Web Tokens with HS256. It is safe for concurrent use.
type Tokens struct {
	signing    []byte
	keys       jwt.VerificationKeySet
	accessTTL  time.Duration
	refreshTTL time.Duration
	now        func() time.Time
	parser     *jwt.Parser
	verified   verified[Principal] // access tokens
	visitors   verified[Refresh]   // cookies of the pages
	vault      vault.Vault         // of the secrets of second factors
	secrets    vault.Vault         // of the secrets of providers
}

// verified remembers verified tokens, because verification costs more CPU time than the rest of a request, and a page
// needs the content twice. Each use still checks the expiry, and the database still checks the user's role and the
// session.
type verified[T any] struct{ known secrets.Known[token[T]] }

type token[T any] struct {
	content T
	expires time.Time
}

// parse returns the content of a token. If the token is not known, parse verifies it, and remembers it if it is valid.
func (v *verified[T]) parse(raw string, now func() time.Time, verify func() (T, time.Time, error),
) (content T, err error) {
	if len(raw) > maxTokenBytes {
		return content, ErrTokenInvalid
	}
	if t, ok := v.known.Find(raw); ok {
		if !now().Before(t.expires) {
			return content, ErrTokenExpired
		}
		return t.content, nil
	}
	found, expires, err := verify()
	if err != nil {
		return content, err
	}
	v.known.Add(raw, token[T]{found, expires})
	return found, nil
}

type accessClaims struct {
	jwt.RegisteredClaims
	Tenant  string `json:"tenant"`
	Role    string `json:"role"`
	Session string `json:"session,omitempty"`
}

type refreshClaims struct {
	jwt.RegisteredClaims
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Counter int64  `json:"counter"`
}

// NewTokens returns a Tokens that signs with the first secret and verifies with all of them. It returns an error if
// there is no secret, a secret has fewer than 32 bytes, or a lifetime is shorter than a second.
func NewTokens(secrets []string, accessTTL, refreshTTL time.Duration, now func() time.Time) (*Tokens, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no token secret is set")
	}
	if accessTTL < time.Second || refreshTTL < time.Second {
		return nil, errors.New("the lifetime of a token must be at least 1 second")
	}
	t := &Tokens{signing: []byte(secrets[0]), accessTTL: accessTTL, refreshTTL: refreshTTL, now: now}
	for i, secret := range secrets {
		if len(secret) < minSecretBytes {
			return nil, fmt.Errorf("token secret %d has %d bytes, it must have at least %d", i+1, len(secret),
				minSecretBytes)
		}
		t.keys.Keys = append(t.keys.Keys, []byte(secret))
	}
	t.vault = vault.New(secrets, "spoolwright: second factors")
	t.secrets = vault.New(secrets, "spoolwright: secrets of providers")
	// The library joins "expired" with other claim errors; check returns ErrTokenExpired only if there is no other
	// error.
	t.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation())
	return t, nil
}

// AccessTTL returns how long an access token is valid.
func (t *Tokens) AccessTTL() time.Duration { return t.accessTTL }

// RefreshTTL returns how long a refresh token is valid.
func (t *Tokens) RefreshTTL() time.Duration { return t.refreshTTL }

// longestSession is the time after which a user must log in again even if the session was used all the time.
const longestSession = 90 * 24 * time.Hour

// lastEnd returns an SQL expression for the time at which a row of sessions ends at the latest.
func (t *Tokens) lastEnd() string {
	return fmt.Sprintf("created_at + interval '1 second' * case when signed_on then %d else %d end",
		signOnFor/time.Second, max(longestSession, t.refreshTTL)/time.Second)
}

// Access returns a new access token for p, valid from now. It returns an error if an id or the role of p is invalid.
func (t *Tokens) Access(p Principal) (string, error) {
	if !p.valid() {
		return "", fmt.Errorf("auth: invalid access token content: tenant %q, user %q, role %q", p.TenantID, p.UserID,
			p.Role)
	}
	claims := registered(accessAudience, p.UserID, rand.Text(), t.now(), t.accessTTL)
	return t.sign(accessClaims{claims, p.TenantID, p.Role, p.SessionID})
}

// Refresh returns the refresh token for r. The same r, secret and lifetime give the same token. It returns an error if
// r is invalid.
func (t *Tokens) Refresh(r Refresh) (string, error) { return t.refresh(refreshAudience, r) }

// refresh returns the token for r with the audience; see Refresh.
func (t *Tokens) refresh(audience string, r Refresh) (string, error) {
	if !r.valid() {
		return "", fmt.Errorf("auth: invalid refresh token content: tenant %q, user %q, session %q, counter %d",
			r.TenantID, r.UserID, r.SessionID, r.Counter)
	}
	claims := registered(audience, r.UserID, r.jti(), r.IssuedAt, t.refreshTTL)
	return t.sign(refreshClaims{claims, r.TenantID, r.SessionID, r.Counter})
}

func registered(audience, user, id string, at time.Time, ttl time.Duration) jwt.RegisteredClaims {
	at = at.Truncate(time.Second)
	return jwt.RegisteredClaims{
		Issuer:    issuer,
		Subject:   user,
		Audience:  jwt.ClaimStrings{audience},
		ExpiresAt: jwt.NewNumericDate(at.Add(ttl)),
		IssuedAt:  jwt.NewNumericDate(at),
		ID:        id,
	}
}

func (t *Tokens) sign(claims jwt.Claims) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(t.signing)
}

// ParseAccess verifies an access token and returns its content. The error is ErrTokenExpired or ErrTokenInvalid.
func (t *Tokens) ParseAccess(raw string) (Principal, error) {
	return t.verified.parse(raw, t.now, func() (Principal, time.Time, error) {
		var c accessClaims
		if !t.verify(raw, &c) {
			return Principal{}, time.Time{}, ErrTokenInvalid
		}
		p := Principal{c.Tenant, c.Subject, c.Role, c.Session}
		if err := t.check(&c.RegisteredClaims, accessAudience, p.valid()); err != nil {
			return Principal{}, time.Time{}, err
		}
		return p, c.ExpiresAt.Time, nil
	})
}

// ParseRefresh verifies a refresh token and returns its content. The error is ErrTokenExpired or ErrTokenInvalid.
func (t *Tokens) ParseRefresh(raw string) (Refresh, error) {
	r, _, err := t.parseRefresh(refreshAudience, raw)
	return r, err
}

// Cookie returns the cookie of a browser for r, as Refresh returns a token.
func (t *Tokens) Cookie(r Refresh) (string, error) { return t.refresh(pagesAudience, r) }

// ParseCookie is ParseRefresh for the cookie of a browser.
func (t *Tokens) ParseCookie(raw string) (Refresh, error) {
	return t.visitors.parse(raw, t.now, func() (Refresh, time.Time, error) { return t.parseRefresh(pagesAudience, raw) })
}

// parseRefresh verifies a token of the audience and returns its content and its expiry.
func (t *Tokens) parseRefresh(audience, raw string) (Refresh, time.Time, error) {
	var c refreshClaims
	if !t.verify(raw, &c) {
		return Refresh{}, time.Time{}, ErrTokenInvalid
	}
	r := Refresh{TenantID: c.Tenant, UserID: c.Subject, SessionID: c.Session, Counter: c.Counter}
	if err := t.check(&c.RegisteredClaims, audience, r.valid() && c.ID == r.jti()); err != nil {
		return Refresh{}, time.Time{}, err
	}
	r.IssuedAt = c.IssuedAt.UTC()
	return r, c.ExpiresAt.Time, nil
}

// passed is the content of a token which proves that a person entered the right password on a page, or signed on. The
// page then asks for a code.
type passed struct {
	TenantID, UserID string
	Password         string // a digest of the stored hash: a new password ends the token
	Issuer, Account  string // if the person signed on: the account at the provider
}

type passedClaims struct {
	jwt.RegisteredClaims
	Tenant   string `json:"tenant"`
	Password string `json:"password"`
	Issuer   string `json:"sign_on_issuer,omitempty"`
	Account  string `json:"sign_on_subject,omitempty"`
}

// passedFor is how long a page waits for a code.
const passedFor = 10 * time.Minute

func (t *Tokens) passed(p passed) (string, error) {
	claims := registered(codeAudience, p.UserID, rand.Text(), t.now(), passedFor)
	return t.sign(passedClaims{claims, p.TenantID, p.Password, p.Issuer, p.Account})
}

// parsePassed verifies a token of passed. The error is ErrTokenExpired or ErrTokenInvalid.
func (t *Tokens) parsePassed(raw string) (passed, error) {
	var c passedClaims
	if !t.verify(raw, &c) {
		return passed{}, ErrTokenInvalid
	}
	p := passed{c.Tenant, c.Subject, c.Password, c.Issuer, c.Account}
	return p, t.check(&c.RegisteredClaims, codeAudience, isID(p.TenantID) && isID(p.UserID) && p.Password != "")
}

// verify decodes the token into claims and reports whether it is well-formed and signed with one of the secrets.
func (t *Tokens) verify(raw string, claims jwt.Claims) bool {
	// encoding/base64 ignores line breaks, so a token with a line break in its signature would also be accepted.
	if len(raw) > maxTokenBytes || strings.ContainsAny(raw, "\r\n") {
		return false
	}
	_, err := t.parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return t.keys, nil })
	return err == nil
}

// check checks the registered claims of a token. valid reports whether its other claims are valid. The error is
// ErrTokenInvalid if a claim is invalid, otherwise ErrTokenExpired if the token has expired.
func (t *Tokens) check(c *jwt.RegisteredClaims, audience string, valid bool) error {
	now := t.now()
	if !valid || c.Issuer != issuer || len(c.Audience) != 1 || c.Audience[0] != audience || c.ID == "" ||
		c.ExpiresAt == nil || c.IssuedAt == nil || !c.ExpiresAt.After(c.IssuedAt.Time) ||
		c.IssuedAt.After(now.Add(issuedAtSkew)) || c.NotBefore != nil && c.NotBefore.After(now) {
		return ErrTokenInvalid
	}
	if !now.Before(c.ExpiresAt.Time) {
		return ErrTokenExpired
	}
	return nil
}

// isID reports whether s is a UUID in canonical form.
func isID(s string) bool {
	id, ok := value.ParseID(s)
	return ok && id == s
}
