package web

import (
	"strings"

	"spoolwright/server"
	"spoolwright/server/mail"
)

// A person who forgot the password gets a link by e-mail. The response and its timing do not reveal whether a user has
// the address: everything that depends on it happens after the response.

type forgottenPage struct {
	Form *form
	Sent bool
}

// CanSendLinks reports whether the service can send links by e-mail.
func (v *visit) CanSendLinks() bool { return v.site.Auth.CanSendLinks() }

func showForgotten(v *visit) error { return v.forgottenPage(200, v.newForm()) }

func (v *visit) forgottenPage(status int, f *form) error {
	if !v.CanSendLinks() {
		return server.ErrNotFound
	}
	return v.show(status, "forgotten-password", v.t("Forgot your password?"), forgottenPage{Form: f})
}

// forgot sends a password link to the user with the e-mail address, if there is one.
func forgot(v *visit) error {
	if !v.CanSendLinks() {
		return server.ErrNotFound
	}
	f := v.sent()
	email := strings.TrimSpace(f.Values.Get("email"))
	if err := mail.CheckAddress(email); err != nil {
		f.Errors["email"] = v.message(err.Error())
		return v.forgottenPage(422, f)
	}
	if err := v.site.Auth.CountForgotten(v.r.Context(), email, server.Address(v.r)); err != nil {
		return v.refused(f, err, v.forgottenPage)
	}
	v.site.Auth.Forgotten(v.r.Context(), email, v.site.Log)
	return v.show(200, "forgotten-password", v.t("Forgot your password?"), forgottenPage{Sent: true})
}
