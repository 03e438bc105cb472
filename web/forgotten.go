package web

import (
	"context"
	"errors"
	"strings"
	"time"

	"spoolwright/mail"
	"spoolwright/server"
)

// A person who forgot the password gets a link by e-mail. The response is the same, after the same time, whether a user
// has the address or not: what depends on it happens after the response.

// forgottenPage is the data of the page of a forgotten password.
type forgottenPage struct {
	Form *form
	Sent bool
}

// maxMails is the maximum number of forgotten passwords whose links are being made or sent.
const maxMails = 100

// mailPauses are the pauses before the tries to send a link.
var mailPauses = []time.Duration{0, 10 * time.Second, time.Minute}

// CanForget reports whether the service can send links to those who forgot their password. It needs a mail server, and
// the setting PUBLIC_URL: the request of anybody must not decide to which address the link leads.
func (v *visit) CanForget() bool { return v.site.Mail != nil && v.site.PublicURL != "" }

func showForgotten(v *visit) error { return v.forgottenPage(200, v.newForm()) }

func (v *visit) forgottenPage(status int, f *form) error {
	if !v.CanForget() {
		return server.ErrNotFound
	}
	return v.show(status, "forgotten-password", "Forgot your password?", forgottenPage{Form: f})
}

// forgot sends a password link to the user with the e-mail address, if there is one.
func forgot(v *visit) error {
	if !v.CanForget() {
		return server.ErrNotFound
	}
	f := v.sent()
	email := strings.TrimSpace(f.Values.Get("email"))
	if err := mail.CheckAddress(email); err != nil {
		f.Errors["email"] = sentence(err.Error())
		return v.forgottenPage(422, f)
	}
	if err := v.site.Auth.CountForgotten(v.r.Context(), email, server.Address(v.r)); err != nil {
		return v.refused(f, err, v.forgottenPage)
	}
	select {
	case v.site.mails <- struct{}{}:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), 3*time.Minute)
		go func() {
			defer func() { cancel(); <-v.site.mails }()
			v.site.sendForgotten(ctx, email)
		}()
	default:
		v.site.Log.Warn("too many passwords are forgotten at a time: a request was dropped")
	}
	return v.show(200, "forgotten-password", "Forgot your password?", forgottenPage{Sent: true})
}

// sendForgotten makes a password link for the user with the address, and sends it.
func (s *site) sendForgotten(ctx context.Context, email string) {
	link, ok, err := s.Auth.ForgottenLink(ctx, email)
	for _, pause := range mailPauses {
		if err != nil || !ok {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var failed *mail.Error
		err = s.Mail.Send(ctx, linkMail(link.Email, link.Name, s.PublicURL+"/password-link/"+link.Token))
		if err == nil || errors.As(err, &failed) && failed.Code >= 500 {
			break
		}
		if pause != mailPauses[len(mailPauses)-1] {
			err = nil // the next try decides
		}
	}
	if err != nil {
		s.Log.Warn("cannot send the link of a forgotten password", "error", err)
	}
}

// linkMail returns the e-mail with a password link.
func linkMail(to, name, link string) mail.Message {
	return mail.Message{To: to, Subject: "Set your password of Spoolwright", Text: "Hello " + name + ",\n\n" +
		"with this link you set your password. It works once, within 24 hours:\n\n" + link + "\n\n" +
		"If you do not expect this e-mail, ignore it: nothing has changed.\n"}
}
