package auth

import (
	"context"
	"crypto/sha256"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// A password link lets a person set a password without knowing the old password. Its token is signed and names the
// tenant and the user, so that a forged token is rejected without a query. The user's row has only the SHA-256 of the
// newest token, until the token is used.

// linkFor is how long a password link is valid.
const linkFor = 24 * time.Hour

// PasswordLink is the response to the creation of a link.
type PasswordLink struct {
	Token     string          `json:"token" rule:"secret"`
	ExpiresAt value.Timestamp `json:"expires_at" rule:"notNull"`
}

var createPasswordLinkDoc = &server.Doc{
	ID: "createPasswordLink", Tag: usersTag, Summary: "Create a password link",
	Description: "Returns a token with which a person sets the password of the user, once, within 24 hours: on the " +
		"page `/password-link/{token}` of the service, or with `POST /api/v1/auth/password-link`. For new users, " +
		"and for those who forgot their password. The current password stays valid until then. This is the only " +
		"response with the token: the service stores its hash, and a response to a repeated `Idempotency-Key` has " +
		"an empty `token`. A new link replaces the previous one. Each change of the password ends it, and " +
		"disabling the user does.",
}

func (s *Service) createPasswordLink(
	ctx context.Context, r *server.Request[struct{}],
) (server.OK[PasswordLink], error) {
	now, id := s.now().UTC().Truncate(time.Second), r.ID("id")
	token, err := s.tokens.refresh(linkAudience, Refresh{TenantID: db.ActorOf(ctx).Tenant, UserID: id,
		SessionID: value.NewID(), IssuedAt: now})
	if err != nil {
		return nil, err
	}
	link := db.SQL(`update users set link_hash = $2, link_expires_at = $3 where id = $1
		returning link_expires_at as expires_at`, id, linkHash(token), now.Add(linkFor))
	if err := s.db.Write(ctx, link); err != nil {
		return nil, err
	}
	if link.Rows() == 0 {
		return nil, server.ErrNotFound
	}
	return withSecret(link.Object(), "token", token), nil
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
	return nil, s.SetPassword(ctx, *r.In.Token.Value, *r.In.New.Value, r.Address)
}

// SetPassword sets the password of the user whom the token of a password link names. The password must pass
// CheckPassword.
func (s *Service) SetPassword(ctx context.Context, token, password, address string) error {
	link, _, err := s.tokens.parseRefresh(linkAudience, token)
	if err != nil {
		return errLink.Because(err)
	}
	ctx = db.As(ctx, db.Actor{Tenant: link.TenantID})
	done, err := s.begin(ctx, "link "+link.UserID, address, Anonymous, nil)
	if err != nil {
		return err
	}
	outcome := Abandoned
	defer func() { done(outcome) }()

	const valid = `id = $1 and link_hash = $2 and link_expires_at > $3 and disabled_at is null`
	args := []any{link.UserID, linkHash(token), s.now()}
	found := db.SQL(`select id from users where `+valid, args...)
	if err := s.db.Read(ctx, found); err != nil {
		return err
	}
	if found.Rows() == 0 {
		outcome = Failed
		return errLink
	}
	outcome = Succeeded
	hash, err := s.hash(ctx, password)
	if err != nil {
		return err
	}
	changed := db.SQL(`
		update users set password_hash = $4, link_hash = null, link_expires_at = null, updated_at = now()
		where `+valid+` returning id`, append(args, hash)...)
	ended := db.SQL(`
		delete from sessions where user_id = $1 and exists (select from users where id = $1 and password_hash = $2)`,
		link.UserID, hash)
	if err := s.db.Write(ctx, changed, ended); err != nil {
		return err
	}
	if changed.Rows() == 0 { // a concurrent request used the link
		return errLink
	}
	return nil
}
