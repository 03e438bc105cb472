package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"spoolwright/db"
	"spoolwright/server"
)

// What is wrong with a token. One that is expired is otherwise right.
var (
	ErrTokenExpired = errors.New("auth: token is expired")
	ErrTokenInvalid = errors.New("auth: token is invalid")
)

const (
	issuer          = "spoolwright"
	accessAudience  = "spoolwright:access"
	refreshAudience = "spoolwright:refresh"
	minSecretBytes  = 32
	maxTokenBytes   = 4 << 10
	issuedAtSkew    = 5 * time.Second // how far the clock of the instance that made a token may be ahead
)

// Principal is who an access token speaks for. The ids are UUIDs in canonical form.
type Principal struct {
	TenantID, UserID string
	Role             string // admin, operator or viewer
}

func (p Principal) valid() bool {
	return isID(p.TenantID) && isID(p.UserID) && levels[p.Role] != server.Public
}

// Refresh is what a refresh token says. The ids are UUIDs in canonical form.
type Refresh struct {
	TenantID, UserID, SessionID string
	Counter                     int64     // how many tokens of the session came before; not negative
	IssuedAt                    time.Time // to the second
}

func (r Refresh) valid() bool {
	return isID(r.TenantID) && isID(r.UserID) && isID(r.SessionID) && r.Counter >= 0
}

func (r Refresh) jti() string { return r.SessionID + "." + strconv.FormatInt(r.Counter, 10) }

// Tokens signs and checks JSON Web Tokens with HS256. It is safe for concurrent use.
type Tokens struct {
	signing    []byte
	keys       jwt.VerificationKeySet
	accessTTL  time.Duration
	refreshTTL time.Duration
	now        func() time.Time
	parser     *jwt.Parser
	right      rightTokens
}

// rightTokens remembers access tokens that were found right, by their SHA-256: to find that out costs more than the rest of what the
// service does for a request. Of a token only its expiry changes with time, and that is looked at each time. Whether the user still
// may do anything is not remembered: the database is asked with each request.
type rightTokens struct {
	mu   sync.RWMutex
	says map[[sha256.Size]byte]rightToken
}

type rightToken struct {
	Principal
	expires time.Time
}

// maxRightTokens bounds the memory to about 4 MiB.
const maxRightTokens = 16_384

func (r *rightTokens) find(hash [sha256.Size]byte) (rightToken, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	token, ok := r.says[hash]
	return token, ok
}

func (r *rightTokens) add(hash [sha256.Size]byte, token rightToken) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.says == nil || len(r.says) >= maxRightTokens {
		r.says = map[[sha256.Size]byte]rightToken{}
	}
	r.says[hash] = token
}

type accessClaims struct {
	jwt.RegisteredClaims
	Tenant string `json:"tenant"`
	Role   string `json:"role"`
}

type refreshClaims struct {
	jwt.RegisteredClaims
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Counter int64  `json:"counter"`
}

// NewTokens makes a Tokens. The first secret signs, all verify; it is an error if there is none, one is shorter than 32 bytes, or
// a lifetime is under a second.
func NewTokens(secrets []string, accessTTL, refreshTTL time.Duration, now func() time.Time) (*Tokens, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no token secret")
	}
	if accessTTL < time.Second || refreshTTL < time.Second {
		return nil, errors.New("a token must live for a second at least")
	}
	t := &Tokens{signing: []byte(secrets[0]), accessTTL: accessTTL, refreshTTL: refreshTTL, now: now}
	for i, secret := range secrets {
		if len(secret) < minSecretBytes {
			return nil, fmt.Errorf("token secret %d has %d bytes; it needs at least %d", i+1, len(secret), minSecretBytes)
		}
		t.keys.Keys = append(t.keys.Keys, []byte(secret))
	}
	// The library would report "expired" beside other faults; claims are checked here, one after the other.
	t.parser = jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
	return t, nil
}

// AccessTTL returns how long an access token is valid.
func (t *Tokens) AccessTTL() time.Duration { return t.accessTTL }

// RefreshTTL returns how long a refresh token is valid.
func (t *Tokens) RefreshTTL() time.Duration { return t.refreshTTL }

// Access returns a new access token, valid from now. The error says that p is not a proper Principal.
func (t *Tokens) Access(p Principal) (string, error) {
	if !p.valid() {
		return "", fmt.Errorf("auth: no token for tenant %q, user %q, role %q", p.TenantID, p.UserID, p.Role)
	}
	return t.sign(accessClaims{registered(accessAudience, p.UserID, rand.Text(), t.now(), t.accessTTL), p.TenantID, p.Role})
}

// Refresh returns the refresh token for r: the same one for the same r, secret and lifetime. The error says that r is not proper.
func (t *Tokens) Refresh(r Refresh) (string, error) {
	if !r.valid() {
		return "", fmt.Errorf("auth: no token for tenant %q, user %q, session %q, counter %d", r.TenantID, r.UserID, r.SessionID, r.Counter)
	}
	return t.sign(refreshClaims{registered(refreshAudience, r.UserID, r.jti(), r.IssuedAt, t.refreshTTL), r.TenantID, r.SessionID, r.Counter})
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

// ParseAccess returns whom a valid access token speaks for. The error is ErrTokenExpired or ErrTokenInvalid.
func (t *Tokens) ParseAccess(raw string) (Principal, error) {
	if len(raw) > maxTokenBytes {
		return Principal{}, ErrTokenInvalid
	}
	hash := sha256.Sum256([]byte(raw))
	if token, ok := t.right.find(hash); ok {
		if !t.now().Before(token.expires) {
			return Principal{}, ErrTokenExpired
		}
		return token.Principal, nil
	}
	var c accessClaims
	if !t.verify(raw, &c) {
		return Principal{}, ErrTokenInvalid
	}
	p := Principal{c.Tenant, c.Subject, c.Role}
	if err := t.check(&c.RegisteredClaims, accessAudience, p.valid()); err != nil {
		return Principal{}, err
	}
	t.right.add(hash, rightToken{p, c.ExpiresAt.Time})
	return p, nil
}

// ParseRefresh returns what a valid refresh token says. The error is ErrTokenExpired or ErrTokenInvalid.
func (t *Tokens) ParseRefresh(raw string) (Refresh, error) {
	var c refreshClaims
	if !t.verify(raw, &c) {
		return Refresh{}, ErrTokenInvalid
	}
	r := Refresh{TenantID: c.Tenant, UserID: c.Subject, SessionID: c.Session, Counter: c.Counter}
	if err := t.check(&c.RegisteredClaims, refreshAudience, r.valid() && c.ID == r.jti()); err != nil {
		return Refresh{}, err
	}
	r.IssuedAt = c.IssuedAt.UTC()
	return r, nil
}

// verify reads the token into claims, and reports whether it is well formed and signed with one of the secrets.
func (t *Tokens) verify(raw string, claims jwt.Claims) bool {
	// Go's base64 skips line breaks, and the signature's own text is not signed.
	if len(raw) > maxTokenBytes || strings.ContainsAny(raw, "\r\n") {
		return false
	}
	_, err := t.parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return t.keys, nil })
	return err == nil
}

// check looks at the registered claims of a token whose signature and own claims are known to be right or wrong.
func (t *Tokens) check(c *jwt.RegisteredClaims, audience string, right bool) error {
	now := t.now()
	if !right || c.Issuer != issuer || len(c.Audience) != 1 || c.Audience[0] != audience || c.ID == "" ||
		c.ExpiresAt == nil || c.IssuedAt == nil || !c.ExpiresAt.After(c.IssuedAt.Time) || c.IssuedAt.After(now.Add(issuedAtSkew)) ||
		c.NotBefore != nil && c.NotBefore.After(now) {
		return ErrTokenInvalid
	}
	if !now.Before(c.ExpiresAt.Time) {
		return ErrTokenExpired
	}
	return nil
}

// isID reports whether s is a UUID in canonical form.
func isID(s string) bool {
	id, ok := db.ParseID(s)
	return ok && id == s
}
