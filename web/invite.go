package web

import "net/http"

// invitation is a new password link of a user, which is shown once.
type invitation struct {
	Address, Name string
	SentTo        string // the e-mail address to which the link was sent, or ""
	Problem       string // why it was not sent, or ""
}

// Roles returns the roles of users, to choose from.
func (p *settingsPage) Roles() []option { return roles }

// invite creates a user without a password, and shows the link with which the person sets one.
func invite(v *visit) error {
	f := v.sent()
	var user account
	ok, err := v.send(f, http.MethodPost, "/api/v1/users",
		f.body(field{"email", text}, field{"name", text}, field{"role", text}), &user)
	if err != nil {
		return err
	}
	if !ok {
		return v.settingsPage(422, &settingsPage{Guest: f})
	}
	return v.showPasswordLinkOf(user.ID, v.newForm())
}

// createPasswordLink creates a password link of the user of the page.
func createPasswordLink(v *visit) error { return v.showPasswordLinkOf(v.r.PathValue("id"), v.sent()) }

// showPasswordLinkOf creates a password link of the user with the id, and shows the link once.
func (v *visit) showPasswordLinkOf(id string, f *form) error {
	var link struct{ Token string }
	var user account
	ok, err := v.send(f, http.MethodPost, "/api/v1/users/"+id+"/password-link", nil, &link)
	if err != nil {
		return err
	}
	if !ok || link.Token == "" { // the form was sent twice, and the link is not stored
		return v.redirect("/settings/users")
	}
	if err := v.fetch(get("/api/v1/users/"+id, &user)); err != nil {
		return err
	}
	made := &invitation{Address: v.Address() + "/password-link/" + link.Token, Name: user.Name}
	if v.site.Mail != nil {
		err := v.site.Mail.Send(v.r.Context(), linkMail(user.Email, user.Name, made.Address))
		if err != nil {
			made.Problem = err.Error()
		} else {
			made.SentTo = user.Email
		}
	}
	return v.settingsPage(200, &settingsPage{Link: made})
}
