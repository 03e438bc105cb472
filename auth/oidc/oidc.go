// Package oidc signs people in at providers of OpenID Connect, with the code flow and PKCE: it finds the endpoints and
// the keys of a provider, exchanges a code for an ID token, and checks the token. It keeps no state of sign-ins.
package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/server/limit"
)

var (
	// ErrUnavailable means that the provider does not answer, or not as a provider does.
	ErrUnavailable = errors.New("oidc: the provider does not answer as it should")

	// ErrCode means that the provider refuses the code.
	ErrCode = errors.New("oidc: the provider refuses the code")

	// ErrToken means that the ID token is not valid.
	ErrToken = errors.New("oidc: the ID token is not valid")
)

const (
	maxBytes   = 64 << 10         // of a response
	fetchTime  = 10 * time.Second // for a response with its body
	fresh      = time.Hour        // how long endpoints and keys are used
	minRefetch = 10 * time.Second // between two reads of the keys because of an unknown key
	maxKnown   = 200              // providers whose endpoints and keys are kept

	// Requests at a time, to all providers and to one: a slow provider does not delay the others.
	maxRequests, maxPerProvider = 256, 4
)

// Client speaks to providers. It is safe for concurrent use.
type Client struct {
	secure, plain *http.Client
	now           func() time.Time
	queue         *limit.Queue

	mu    sync.Mutex
	known map[string]*provider // by issuer
}

// provider is what a provider has published. Its content does not change.
type provider struct {
	endpoints endpoints
	keys      []key
	at, keyAt time.Time // when the endpoints and the keys were read
}

// endpoints are the metadata of OpenID Connect Discovery that the flow needs.
type endpoints struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Scopes        []string `json:"scopes_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	NamesIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

// New returns a Client that sends requests with secure to https addresses, and with plain to http addresses. Both must
// be safe for addresses that users enter, and follow no redirects.
func New(secure, plain *http.Client, now func() time.Time) *Client {
	return &Client{secure: secure, plain: plain, now: now, queue: limit.NewQueue(maxRequests, maxPerProvider),
		known: map[string]*provider{}}
}

// Registration is what a provider knows about the client of a farm.
type Registration struct {
	Issuer, ID  string
	Secret      string // empty for a public client
	RedirectURI string
}

// Attempt is one sign-in of one browser. The browser keeps it, so that nobody else can end the sign-in.
type Attempt struct {
	State, Nonce string
	Verifier     string // of PKCE
	Began        time.Time
}

// CheckIssuer reports whether the text can be the identifier of an issuer: an http or https URL without user, query and
// fragment.
func CheckIssuer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && !strings.ContainsAny(text, "#\\ ") && u.String() == text
}

// Address returns the address at which the provider signs the person in. If the provider has a scope with the name of
// the claim, the address asks for it.
func (c *Client) Address(ctx context.Context, r Registration, a Attempt, claim string) (string, error) {
	p, err := c.provider(ctx, r.Issuer)
	if err != nil {
		return "", err
	}
	scope := "openid email profile"
	if claim != "" && slices.Contains(p.endpoints.Scopes, claim) && !slices.Contains(strings.Fields(scope), claim) {
		scope += " " + claim
	}
	u, err := url.Parse(p.endpoints.Authorization)
	if err != nil {
		return "", unavailable("the address for browsers is not valid")
	}
	q := u.Query()
	for name, value := range map[string]string{"response_type": "code", "client_id": r.ID, "scope": scope,
		"redirect_uri": r.RedirectURI, "state": a.State, "nonce": a.Nonce, "code_challenge": challenge(a.Verifier),
		"code_challenge_method": "S256"} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Redeem exchanges a code for the identity of a person. named is the issuer that the answer to the browser names (RFC
// 9207), or "". If the ID token lacks the e-mail address or the claim, which may be "", Redeem asks the endpoint of user
// information. The error is ErrUnavailable, ErrCode or ErrToken with the reason, which has no addresses and secrets.
func (c *Client) Redeem(ctx context.Context, r Registration, a Attempt, code, named, claim string,
) (*Identity, error) {
	p, err := c.provider(ctx, r.Issuer)
	if err != nil {
		return nil, err
	}
	if named != r.Issuer && (named != "" || p.endpoints.NamesIssuer) {
		return nil, fmt.Errorf("%w: the answer is of another issuer", ErrToken)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {r.RedirectURI},
		"code_verifier": {a.Verifier}}
	basic := len(p.endpoints.TokenAuth) == 0 || slices.Contains(p.endpoints.TokenAuth, "client_secret_basic")
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if r.Secret == "" || !basic {
		form.Set("client_id", r.ID)
		if r.Secret != "" {
			form.Set("client_secret", r.Secret)
		}
	} else {
		request := http.Request{Header: header}
		request.SetBasicAuth(url.QueryEscape(r.ID), url.QueryEscape(r.Secret))
	}
	var answer struct {
		IDToken     string `json:"id_token"`
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		Error       string `json:"error"`
	}
	status, err := c.fetch(ctx, r.Issuer, p.endpoints.Token, header, form, &answer)
	switch {
	case err != nil:
		return nil, err
	case status == 400 && answer.Error == "invalid_grant":
		return nil, ErrCode
	case answer.Error == "invalid_client":
		return nil, unavailable("it refuses the client or its secret")
	case status != 200 || answer.IDToken == "":
		return nil, unavailable("it sent no ID token")
	}
	claims, err := c.check(ctx, r, p, a, answer.IDToken)
	if err != nil {
		return nil, err
	}
	identity := &Identity{claims: claims}
	lacks := identity.text("email") == "" || claim != "" && claims[claim] == nil
	if lacks && p.endpoints.UserInfo != "" && answer.AccessToken != "" &&
		strings.EqualFold(answer.TokenType, "Bearer") {
		err = c.addUserInfo(ctx, r.Issuer, p.endpoints.UserInfo, answer.AccessToken, claims)
	}
	return identity, err
}

// addUserInfo adds the claims of the endpoint of user information that the ID token lacks. Of those about the sign-in,
// only the signed ones of the ID token count.
func (c *Client) addUserInfo(ctx context.Context, issuer, endpoint, token string, claims map[string]any) error {
	var more map[string]any
	status, err := c.fetch(ctx, issuer, endpoint, http.Header{"Authorization": {"Bearer " + token}}, nil, &more)
	switch {
	case err != nil:
		return err
	case status != 200:
		return unavailable("it sent no user information")
	case more["sub"] != claims["sub"]:
		return fmt.Errorf("%w: the user information is of another person", ErrToken)
	}
	if _, ok := claims["email"]; ok {
		delete(more, "email_verified") // it is about the address there
	}
	for name, value := range more {
		if _, ok := claims[name]; !ok && name != "amr" && name != "acr" {
			claims[name] = value
		}
	}
	return nil
}

// provider returns what the provider has published in the last hour.
func (c *Client) provider(ctx context.Context, issuer string) (*provider, error) {
	c.mu.Lock()
	p := c.known[issuer]
	c.mu.Unlock()
	if now := c.now(); p != nil && now.Sub(p.at) < fresh && !now.Before(p.at) {
		return p, nil
	}
	p = &provider{at: c.now(), keyAt: c.now()}
	status, err := c.fetch(ctx, issuer, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil, nil,
		&p.endpoints)
	switch {
	case err != nil:
		return nil, err
	case status != 200:
		return nil, unavailable("the issuer has no configuration of OpenID Connect")
	case p.endpoints.Issuer != issuer:
		return nil, unavailable("its configuration is of another issuer")
	}
	addresses := []string{p.endpoints.Authorization, p.endpoints.Token, p.endpoints.Keys}
	if p.endpoints.UserInfo != "" {
		addresses = append(addresses, p.endpoints.UserInfo)
	}
	for _, address := range addresses {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" &&
			(u.Scheme != "http" || !strings.HasPrefix(issuer, "http:")) {
			return nil, unavailable("an address in its configuration is not valid")
		}
	}
	if p.keys, err = c.readKeys(ctx, issuer, p.endpoints.Keys); err != nil {
		return nil, err
	}
	c.remember(issuer, p)
	return p, nil
}

func (c *Client) remember(issuer string, p *provider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		c.known = map[string]*provider{}
	}
	c.known[issuer] = p
}

func unavailable(reason string) error { return fmt.Errorf("%w: %s", ErrUnavailable, reason) }

// fetch reads a JSON object from an address of the provider, which may be up to maxBytes long. It sends the form if it
// is not nil. The error is ErrUnavailable.
func (c *Client) fetch(ctx context.Context, issuer, address string, header http.Header, form url.Values, into any,
) (status int, err error) {
	release, err := c.queue.Acquire(ctx, fetchTime, 1, issuer)
	if err != nil {
		return 0, unavailable("too many sign-ins wait for it")
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, unavailable("an address in its configuration is not valid")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "Spoolwright")
	client := c.secure
	if r.URL.Scheme != "https" {
		client = c.plain
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, unavailable("no connection, or no response in time")
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	switch {
	case err != nil:
		return 0, unavailable("no response in time")
	case len(text) > maxBytes:
		return 0, unavailable("a response is too large")
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return 0, unavailable("it redirects")
	}
	if err := json.Unmarshal(text, into); err != nil && response.StatusCode == 200 {
		return 0, unavailable("a response is not JSON of the expected form")
	}
	return response.StatusCode, nil
}
