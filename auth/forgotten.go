package auth

import (
	"context"
	"time"

	"spoolwright/db"
)

// ForgottenLink is a password link for a person who forgot the password.
type ForgottenLink struct{ Token, Email, Name string }

// forgottenPause is the minimum time between two links of a user, so that nobody is flooded with e-mails.
const forgottenPause = time.Hour

// CountForgotten counts a request for a link as a failed login for the address of the client. The error is a 429 if
// there are too many. It does not depend on whether a user has the e-mail address.
func (s *Service) CountForgotten(ctx context.Context, email, address string) error {
	done, err := s.begin(ctx, "forgotten "+EmailKey(email), address, Anonymous, nil)
	if err == nil {
		done(Failed)
	}
	return err
}

// ForgottenLink returns a new password link for the user with the e-mail address. It reports false if no user has the
// address, the user is disabled, or a link was made within the last hour.
func (s *Service) ForgottenLink(ctx context.Context, email string) (link ForgottenLink, ok bool, err error) {
	holder, found, err := s.db.FindLogin(ctx, EmailKey(email))
	if err != nil || !found {
		return ForgottenLink{}, false, err
	}
	now := s.now().UTC().Truncate(time.Second)
	link.Token = s.tokens.newLink(holder.Tenant)
	made := db.SQL(`
		update users set link_hash = $2, link_expires_at = $3
		where id = $1 and disabled_at is null and (link_expires_at is null or link_expires_at <= $4)
		returning email, name`,
		holder.User, linkHash(link.Token), now.Add(linkFor), now.Add(linkFor-forgottenPause)).Into(&link.Email, &link.Name)
	err = s.db.Write(db.As(ctx, db.Actor{Tenant: holder.Tenant}), made)
	return link, made.Rows() > 0, err
}
