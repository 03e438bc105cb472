package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

const (
	skew     = time.Minute // tolerance for the clock of the provider
	maxKeys  = 50
	maxToken = 32 << 10
)

// challenge returns the challenge S256 of a verifier (RFC 7636).
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// key is a public key of a provider, with the only algorithm that may use it.
type key struct {
	id, algorithm string
	public        crypto.PublicKey
}

// readKeys reads the keys of a provider. It skips keys that are not for signatures, or are of another kind.
func (c *Client) readKeys(ctx context.Context, issuer, address string) (keys []key, err error) {
	var set struct{ Keys []json.RawMessage }
	status, err := c.fetch(ctx, issuer, address, nil, nil, &set)
	switch {
	case err != nil:
		return nil, err
	case status != 200 || len(set.Keys) > maxKeys:
		return nil, unavailable("it has no keys, or too many")
	}
	for _, text := range set.Keys {
		if k, ok := parseKey(text); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, unavailable("it has no key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// parseKey returns the key of a JSON Web Key (RFC 7517), or false for other keys than those of RS256, ES256 and EdDSA.
func parseKey(text []byte) (k key, ok bool) {
	var j struct{ Kty, Use, Kid, Alg, Crv, N, E, X, Y string }
	if json.Unmarshal(text, &j) != nil || j.Use != "" && j.Use != "sig" {
		return k, false
	}
	decode := func(s string) []byte {
		b, _ := base64.RawURLEncoding.Strict().DecodeString(s) // nil is no key of any kind
		return b
	}
	k.id = j.Kid
	switch {
	case j.Kty == "RSA":
		n, e := new(big.Int).SetBytes(decode(j.N)), new(big.Int).SetBytes(decode(j.E))
		if n.BitLen() < 2048 || n.BitLen() > 8192 || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
			return k, false
		}
		k.algorithm, k.public = jwt.SigningMethodRS256.Alg(), &rsa.PublicKey{N: n, E: int(e.Int64())}
	case j.Kty == "EC" && j.Crv == "P-256":
		x, y := decode(j.X), decode(j.Y)
		point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err != nil || len(x) != len(y) {
			return k, false
		}
		k.algorithm, k.public = jwt.SigningMethodES256.Alg(), point
	case j.Kty == "OKP" && j.Crv == "Ed25519":
		x := decode(j.X)
		if len(x) != ed25519.PublicKeySize {
			return k, false
		}
		k.algorithm, k.public = jwt.SigningMethodEdDSA.Alg(), ed25519.PublicKey(x)
	}
	return k, k.algorithm != "" && (j.Alg == "" || j.Alg == k.algorithm)
}

// find returns the keys that may have signed a token with the algorithm and the id of a key, which is empty if the
// token names no key.
func find(keys []key, algorithm, id string) (set jwt.VerificationKeySet) {
	for _, k := range keys {
		if k.algorithm == algorithm && (id == "" || k.id == id) && len(set.Keys) < 10 {
			set.Keys = append(set.Keys, k.public)
		}
	}
	return set
}

var parser = jwt.NewParser(
	jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(),
		jwt.SigningMethodEdDSA.Alg()}),
	jwt.WithStrictDecoding(),
	jwt.WithoutClaimsValidation()) // checkClaims checks them all

// isPrintable reports whether a text has 1 to 255 characters of ASCII, without control characters.
func isPrintable(text string) bool {
	return text != "" && len(text) <= 255 && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// check returns the claims of an ID token if it is valid for the client and the attempt. If the token names a key that
// is not known, check reads the keys of the provider again.
func (c *Client) check(ctx context.Context, r Registration, p *provider, a Attempt, raw string,
) (jwt.MapClaims, error) {
	if len(raw) > maxToken || strings.ContainsAny(raw, "\r\n") {
		return nil, invalid("its form")
	}
	claims := jwt.MapClaims{}
	var failed error
	_, err := parser.ParseWithClaims(raw, claims, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok {
			return nil, jwt.ErrTokenUnverifiable // extensions that must be understood
		}
		id, _ := t.Header["kid"].(string)
		set := find(p.keys, t.Method.Alg(), id)
		if now := c.now(); len(set.Keys) == 0 && now.Sub(p.keyAt) >= minRefetch {
			next := *p
			next.keyAt = now
			if next.keys, failed = c.readKeys(ctx, r.Issuer, p.endpoints.Keys); failed != nil {
				return nil, failed
			}
			c.remember(r.Issuer, &next)
			set = find(next.keys, t.Method.Alg(), id)
		}
		return set, nil
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, invalid("its signature")
	}
	return claims, checkClaims(claims, r, a, c.now())
}

func invalid(what string) error { return fmt.Errorf("%w: %s", ErrToken, what) }

// checkClaims checks the claims of an ID token as section 3.1.3.7 of OpenID Connect Core says.
func checkClaims(claims jwt.MapClaims, r Registration, a Attempt, now time.Time) error {
	audience, err := claims.GetAudience()
	azp, named := claims["azp"]
	expires, err2 := claims.GetExpirationTime()
	issued, err3 := claims.GetIssuedAt()
	notBefore, err4 := claims.GetNotBefore()
	subject, _ := claims["sub"].(string)
	nonce, _ := claims["nonce"].(string)
	switch {
	case claims["iss"] != r.Issuer:
		return invalid("its issuer")
	case err != nil || !slices.Contains(audience, r.ID), named && azp != r.ID, len(audience) > 1 && !named:
		return invalid("its audience")
	case err2 != nil || expires == nil || !now.Before(expires.Add(skew)):
		return invalid("it has expired")
	case err3 != nil || issued == nil || issued.After(now.Add(skew)), err4 != nil,
		notBefore != nil && notBefore.After(now.Add(skew)):
		return invalid("it is from the future")
	case issued.Before(a.Began.Add(-skew)):
		return invalid("it is older than the sign-in")
	case a.Nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(a.Nonce)) != 1:
		return invalid("its nonce")
	case !isPrintable(subject):
		return invalid("its subject")
	}
	return nil
}

// Identity is a person as the provider describes it.
type Identity struct{ claims map[string]any }

func (i *Identity) text(claim string) string { text, _ := i.claims[claim].(string); return text }

// Subject returns the id of the person, which is unique at the provider and never given to another person.
func (i *Identity) Subject() string { return i.text("sub") }

// Name returns the name of the person, or "".
func (i *Identity) Name() string { return i.text("name") }

// Email returns the e-mail address of the person, or "" unless the provider has verified it. An address with control
// characters, or of more than 320 characters, is "" too.
func (i *Identity) Email() string {
	if verified := i.claims["email_verified"]; verified != true && verified != "true" { // some send a text
		return ""
	}
	email := i.text("email")
	if utf8.RuneCountInString(email) > 320 || strings.ContainsFunc(email, unicode.IsControl) {
		return ""
	}
	return email
}

// Values returns the texts of a claim, which is a text or a list.
func (i *Identity) Values(claim string) (values []string) {
	switch v := i.claims[claim].(type) {
	case string:
		return []string{v}
	case []any:
		for _, entry := range v {
			if text, ok := entry.(string); ok {
				values = append(values, text)
			}
		}
	}
	return values
}

// Factors returns how the person has signed in at the provider: the claims amr and acr.
func (i *Identity) Factors() []string { return append(i.Values("amr"), i.Values("acr")...) }
