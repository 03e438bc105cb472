package web

import "net/http"

// invitation is a new password link of a user, which is shown once.
type invitation struct{ Address, Name string }

// Roles returns the roles of users, to choose from.
func (p *settingsPage) Roles() []option { return p.options(roles) }

// invite creates a user without a password. The link with which the person sets one is sent by e-mail or, if the
// service sends none, is shown.
func invite(v *visit) error {
	f := v.sent()
	body := f.body(field{"email", text}, field{"name", text}, field{"role", text})
	if v.CanSendLinks() {
		body["send"] = true
	}
	var user account
	ok, err := v.send(f, http.MethodPost, "/api/v1/users", body, &user)
	switch {
	case err != nil:
		return err
	case !ok:
		return v.guestRefused(f)
	case v.CanSendLinks():
		return v.redirect("/settings/users")
	}
	return v.showPasswordLinkOf(user.ID, v.newForm())
}

func (v *visit) guestRefused(f *form) error { return v.settingsPage(422, &settingsPage{Guest: f}) }

// createPasswordLink creates a password link of the user of the page.
func createPasswordLink(v *visit) error { return v.showPasswordLinkOf(v.r.PathValue("id"), v.sent()) }

// sendPasswordLink sends a password link to the user of the page by e-mail.
func sendPasswordLink(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodPost, "/api/v1/users/"+v.r.PathValue("id")+"/password-link",
		map[string]any{"send": true}, nil)
	if err != nil {
		return err
	}
	if !ok {
		return v.guestRefused(f)
	}
	return v.redirect("/settings/users")
}

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
	return v.settingsPage(200, &settingsPage{Link: made})
}
