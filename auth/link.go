package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// A password link lets a person set a password without knowing the old password. Its token is short, so that the
// address of the link fits into a message. It consists of the id of the tenant, of random bytes, and of a code that
// rejects a forged token without a query. The user's row has only the SHA-256 of the newest token, until the token is
// used.

// The parts of a token of a link, in bytes. The random bytes together with the code cannot be guessed.
const (
	linkTenant = 16
	linkRandom = 10
	linkCode   = 6
)

// newLink returns the token of a new link for a user of the tenant.
func (t *Tokens) newLink(tenant string) string {
	token, _ := hex.DecodeString(strings.ReplaceAll(tenant, "-", "")) // a UUID
	token = append(token, make([]byte, linkRandom)...)
	rand.Read(token[linkTenant:])
	return base64.RawURLEncoding.EncodeToString(append(token, codeOfLink(t.signing, token)...))
}

// parseLink returns the id of the tenant in the token of a link. It reports false if newLink has not made the token.
func (t *Tokens) parseLink(token string) (tenant string, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != linkTenant+linkRandom+linkCode {
		return "", false
	}
	content, code := b[:linkTenant+linkRandom], b[linkTenant+linkRandom:]
	for _, key := range t.keys.Keys {
		if secret, isSecret := key.([]byte); isSecret && hmac.Equal(code, codeOfLink(secret, content)) {
			return value.ParseID(hex.EncodeToString(b[:4]) + "-" + hex.EncodeToString(b[4:6]) + "-" +
				hex.EncodeToString(b[6:8]) + "-" + hex.EncodeToString(b[8:10]) + "-" + hex.EncodeToString(b[10:16]))
		}
	}
	return "", false
}

// codeOfLink returns the code of a token. No JSON Web Token has the signed text: it contains a colon.
func codeOfLink(secret, content []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("spoolwright:password-link:")) // a hash returns no errors
	mac.Write(content)
	return mac.Sum(nil)[:linkCode]
}

// linkFor is how long a password link is valid.
const linkFor = 24 * time.Hour

// PasswordLink is the response to the creation of a link.
type PasswordLink struct {
	Token     string           `json:"token" rule:"secret"`
	ExpiresAt *value.Timestamp `json:"expires_at"`
}

// LinkRequest is the optional body of the operation that creates a link.
type LinkRequest struct {
	Send value.Optional[bool] `json:"send" rule:"notNull,writeOnly"`
}

var createPasswordLinkDoc = &server.Doc{
	ID: "createPasswordLink", Tag: usersTag, Summary: "Create a password link",
	Description: "Returns a token with which a person sets the password of the user, once, within 24 hours: on the " +
		"page `/password-link/{token}` of the service, or with `POST /api/v1/auth/password-link`. It serves new users, " +
		"and users who forgot their password. The current password stays valid until the link is used. This is the only " +
		"response with the token: the service stores its hash, and a response to a repeated `Idempotency-Key` has an " +
		"empty `token`. A new link replaces the previous one. A change of the password ends the link, and so does " +
		"disabling the user. A disabled user gets no link.\n\nWith `send`, the service sends the link to the user by " +
		"e-mail, and the response has an empty `token` and no `expires_at`: the link is made when the e-mail is sent, and " +
		"is valid for 24 hours after that. If the mail server does not accept the e-mail, the service tries again for 25 " +
		"hours. `GET /api/v1/users/{id}` shows the state of the e-mail. While an e-mail waits, no second one is queued " +
		"for the user. Creating a link without `send` cancels it.",
	Errors: []*server.Error{errUserDisabled},
}

var errUserDisabled = server.Conflict("USER_DISABLED",
	"The user is disabled and could not use the link; enable the user first")

func (s *Service) createPasswordLink(
	ctx context.Context, r *server.Request[LinkRequest],
) (server.OK[PasswordLink], error) {
	now, id := s.now().UTC().Truncate(time.Second), r.ID("id")
	if r.In.Send.Or(false) {
		return s.sendPasswordLink(ctx, id)
	}
	token := s.tokens.newLink(db.ActorOf(ctx).Tenant)
	link := db.SQL(`update users set link_hash = $2, link_expires_at = $3 where id = $1 and disabled_at is null
		returning link_expires_at as expires_at`, id, linkHash(token), now.Add(linkFor))
	// The link of an e-mail that waits would replace this one.
	waiting := db.SQL(`delete from link_emails where user_id = $1 and next_try_at is not null`, id)
	exists := db.SQL(`select id from users where id = $1`, id)
	if err := s.db.Write(ctx, link, waiting, exists); err != nil {
		return nil, err
	}
	switch {
	case exists.Rows() == 0:
		return nil, server.ErrNotFound
	case link.Rows() == 0:
		return nil, errUserDisabled
	}
	return withSecret(link.Object(), "token", token), nil
}

// sendPasswordLink queues an e-mail with a link for the user.
func (s *Service) sendPasswordLink(ctx context.Context, id string) (server.OK[PasswordLink], error) {
	if !s.CanSendLinks() {
		return nil, errNoLinkMail
	}
	row, queue := queueLink(id, "true")
	// The audit log names the caller of this request; the actor who creates the link later is the service.
	added := db.SQL(`
		select audit_add('user.password_link_created', 'user', u.id, u.name)::text from users u
		where u.id = $1 and u.disabled_at is null`, id)
	exists := db.SQL(`select id from users where id = $1`, id)
	if err := s.db.Write(ctx, row, queue, added, exists); err != nil {
		return nil, err
	}
	switch {
	case exists.Rows() == 0:
		return nil, server.ErrNotFound
	case row.Rows() == 0:
		return nil, errUserDisabled
	}
	return server.OK[PasswordLink](`{"token":"","expires_at":null}`), nil
}

func linkHash(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}

// LinkPassword is the body of the operation that uses a link.
type LinkPassword struct {
	Token value.Optional[string] `json:"token" rule:"required,writeOnly,maxLength=4096"`
	New   value.Optional[string] `json:"new_password" rule:"required,writeOnly,maxLength=200,minLength=10"`
}

// Check applies CheckPassword.
func (l *LinkPassword) Check(problems *server.Problems) {
	checkNewPassword(problems, "new_password", l.New)
}

var usePasswordLinkDoc = &server.Doc{
	ID: "usePasswordLink", Tag: tag, Summary: "Set a password with a link",
	Description: "Sets the password of the user to whom the token of a password link belongs, and ends their " +
		"sessions. The token is valid once. A token that was valid earlier counts as a failed login.",
	Errors: []*server.Error{errLink},
}

var errLink = server.BadRequest("INVALID_LINK",
	"This link is not valid: it was used or replaced, is older than 24 hours, or the user may not log in").On("token")

func (s *Service) usePasswordLink(ctx context.Context, r *server.Request[LinkPassword]) (server.NoContent, error) {
	_, err := s.SetPassword(ctx, *r.In.Token.Value, *r.In.New.Value, r.Address)
	return nil, err
}

// SetPassword sets the password of the user whom the token of a password link names, and returns the user's e-mail. The
// password must pass CheckPassword.
func (s *Service) SetPassword(ctx context.Context, token, password, address string) (email string, err error) {
	tenant, ok := s.tokens.parseLink(token)
	if !ok {
		return "", errLink
	}
	ctx = db.As(ctx, db.Actor{Tenant: tenant})
	hash := linkHash(token)
	done, err := s.begin(ctx, "link "+hex.EncodeToString(hash), address, secrets.Anonymous, nil)
	if err != nil {
		return "", err
	}
	outcome := secrets.Abandoned
	defer func() { done(outcome) }()

	const valid = `link_hash = $1 and link_expires_at > $2 and disabled_at is null`
	var user string
	found := db.SQL(`select id::text, email from users where `+valid, hash, s.now()).Into(&user, &email)
	if err := s.db.Read(ctx, found); err != nil {
		return "", err
	}
	if found.Rows() == 0 {
		outcome = secrets.Failed
		return "", errLink
	}
	outcome = secrets.Succeeded
	hashed, err := s.hash(ctx, password)
	if err != nil {
		return "", err
	}
	// The row keeps link_expires_at, which tells ForgottenLink when the link was made.
	changed := db.SQL(`
		update users set password_hash = $4, link_hash = null, updated_at = now()
		where `+valid+` and id = $3 returning id`, hash, s.now(), user, hashed)
	ended := db.SQL(`
		delete from sessions where user_id = $1 and exists (select from users where id = $1 and password_hash = $2)`,
		user, hashed)
	if err := s.db.Write(ctx, changed, ended); err != nil {
		return "", err
	}
	if changed.Rows() == 0 { // a concurrent request used the link
		return "", errLink
	}
	return email, nil
}
