package web

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
)

// cookieName returns the name of a session's cookie: spoolwright, with the port if the address of the page has one.
// Browsers send a cookie to all ports of a host, so that without the port two services on one host would replace each
// other's sessions. Over TLS, the name begins with __Host-. Browsers accept such a cookie only over TLS and from the
// host itself, so that no other site of the same domain can set it.
func (s *site) cookieName(r *http.Request) string {
	name := "spoolwright"
	if s.server.IsSecure(r) {
		name = "__Host-spoolwright"
	}
	// The Host is what the browser has in its address, also behind a proxy that forwards it.
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		name += "-" + port
	}
	return name
}

// cookie returns the value of the session's cookie, or "" if the request has no cookie or signsIn is false.
func (s *site) cookie(r *http.Request) string {
	if c, err := r.Cookie(s.cookieName(r)); err == nil && s.signsIn(r) {
		return c.Value
	}
	return ""
}

// signsIn reports whether the connection of the request is safe for the cookie of a session.
func (s *site) signsIn(r *http.Request) bool {
	return s.Insecure || s.server.IsSecure(r) || server.IsLoopback(r)
}

// setCookie sets a cookie whose name is that of the session's cookie with an ending, stored returns its value, or "",
// and forget removes it.
func (v *visit) setCookie(ending, value string, age time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: v.site.cookieName(v.r) + ending, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
		Secure: v.site.server.IsSecure(v.r), SameSite: http.SameSiteLaxMode,
	})
}

func (v *visit) stored(ending string) string {
	c, err := v.r.Cookie(v.site.cookieName(v.r) + ending)
	if err != nil {
		return ""
	}
	return c.Value
}

func (v *visit) forget(ending string) { v.setCookie(ending, "", -time.Second) }

func (s *site) identify(r *http.Request) (server.Caller, bool) {
	actor, ok := s.Auth.Identify(s.cookie(r))
	return server.Caller{Actor: actor}, ok
}

// recognize sets the visitor of the session. It returns an error if there is no session.
func (v *visit) recognize() error {
	cookie := v.site.cookie(v.r)
	var more []*db.Stmt
	if actor, ok := v.site.Auth.Identify(cookie); ok && v.Path() == "/" {
		v.isAsked = true
		var stmt *db.Stmt
		if stmt, v.steps = v.site.Start.Statement(actor.Tenant); stmt != nil {
			more = append(more, stmt)
		}
	}
	visitor, err := v.site.Auth.Visit(v.r.Context(), cookie, server.Address(v.r), more...)
	if limited := v.site.server.CountVisit(v.w, v.r, err); limited != nil {
		return limited
	}
	if err != nil {
		return err
	}
	v.Visitor = visitor
	if zone, err := time.LoadLocation(visitor.TimeZone); err == nil {
		v.zone = zone
	}
	v.speak()
	if visitor.Cookie != "" {
		v.setCookie("", visitor.Cookie, v.site.Auth.CookieAge())
	}
	return nil
}

// signedIn sets the visitor of the session. Without a session, it redirects the browser to the sign-in, and leaves the
// visitor empty.
func (v *visit) signedIn() error {
	if err := v.recognize(); err != nil {
		if e := server.AsError(err); e.Status != http.StatusUnauthorized {
			return err
		}
		to, here := "/sign-in", v.r.URL.RequestURI()
		if v.r.Method != http.MethodGet { // back to the page with the form
			page, err := url.Parse(v.r.Referer())
			if here = ""; err == nil && page.Host == v.r.Host {
				here = next(page.RequestURI())
			}
		}
		if here != "" && here != "/" {
			to += "?" + url.Values{"next": {here}}.Encode()
		}
		return v.redirect(to)
	}
	return nil
}

// signInPage is the data of the sign-in, and of the page on which a person sets a password.
type signInPage struct {
	Form    *form
	Next    string
	Refused bool // whether signsIn is false: the connection has no TLS
	Old     bool // whether the link of the first login is no longer valid
	Set     bool // whether the person has just set the password
	Ended   bool // whether the browser has the cookie of a session that has ended
}

// next returns the path of the page to show after the sign-in. It returns "/" if the path leads to another site.
func next(path string) string {
	u, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || u.Host != "" ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

func showSignIn(v *visit) error {
	if _, ok := v.site.Auth.Identify(v.site.cookie(v.r)); ok {
		if err := v.recognize(); err == nil { // otherwise the session has ended
			return v.redirect(next(v.r.FormValue("next")))
		}
	}
	return v.signInPage(200, v.newForm())
}

func (v *visit) signInPage(status int, f *form) error {
	return v.show(status, "sign-in", v.t("Sign in"),
		signInPage{Form: f, Next: next(v.r.FormValue("next")), Refused: !v.site.signsIn(v.r),
			Ended: v.site.cookie(v.r) != ""})
}

func signIn(v *visit) error {
	f := v.sent()
	if !v.site.signsIn(v.r) {
		return v.signInPage(403, f)
	}
	for _, name := range []string{"email", "password"} {
		if f.Values.Get(name) == "" {
			f.Errors[name] = v.t("Is required.")
		} else if len(f.Values.Get(name)) > 1000 {
			f.Errors[name] = v.t("Is too long.")
		}
	}
	if len(f.Errors) > 0 {
		return v.signInPage(422, f)
	}
	cookie, token, err := v.site.Auth.SignIn(v.r.Context(), f.Values.Get("email"), f.Values.Get("password"),
		server.Address(v.r))
	if err != nil {
		return v.refused(f, err, v.signInPage)
	}
	if token != "" {
		return v.askForCode(token)
	}
	return v.signedInAs(cookie, next(f.Values.Get("next")))
}

// signedInAs begins the session of the cookie and redirects to the path. The session that the browser had before ends.
func (v *visit) signedInAs(cookie, to string) error {
	if err := v.site.Auth.SignOut(v.r.Context(), v.site.cookie(v.r), false); err != nil {
		return err
	}
	v.keepLanguage(cookie)
	v.setCookie("", cookie, v.site.Auth.CookieAge())
	return v.redirect(to)
}

// askForCode shows the page that asks for a code after the right password. The form has a token instead of the
// password.
func (v *visit) askForCode(token string) error {
	f := v.newForm()
	f.Values.Set("token", token)
	return v.codePage(200, f)
}

func (v *visit) codePage(status int, f *form) error {
	return v.show(status, "sign-in-code", v.t("Enter your code"),
		signInPage{Form: f, Next: next(v.r.FormValue("next"))})
}

func signInWithCode(v *visit) error {
	f := v.sent()
	if !v.site.signsIn(v.r) {
		return v.signInPage(403, f)
	}
	if f.needs("otp"); len(f.Errors) > 0 {
		return v.codePage(422, f)
	}
	cookie, err := v.site.Auth.SignInWithCode(v.r.Context(), f.Values.Get("token"), f.Values.Get("otp"),
		server.Address(v.r))
	if err != nil && server.AsError(err).Code == auth.ErrSignInAgain.Code {
		return v.refused(f, err, v.signInPage)
	}
	if err != nil {
		return v.refused(f, err, v.codePage)
	}
	return v.signedInAs(cookie, next(f.Values.Get("next")))
}

// refused shows the form of a page without a visitor again, with the text of the error.
func (v *visit) refused(f *form, err error, page func(status int, f *form) error) error {
	e := server.AsError(err)
	if e.Status >= 500 && e.Status != 503 {
		return err
	}
	status, detail := e.Page(v.w, v.r)
	f.Problem = v.message(detail)
	return page(status, f)
}

// firstLogin signs in with the link that the first start prints. The link works once, and only on the machine of the
// service.
func firstLogin(v *visit) error {
	if v.site.Once == nil || !server.IsLoopback(v.r) {
		return server.ErrNotFound
	}
	email, password, ok := v.site.Once.Take(v.r.FormValue("key"))
	if !ok {
		return v.show(404, "sign-in", v.t("Sign in"), signInPage{Form: v.newForm(), Next: "/", Old: true})
	}
	cookie, token, err := v.site.Auth.SignIn(v.r.Context(), email, password, server.Address(v.r))
	if err != nil {
		return err
	}
	if token != "" {
		return v.askForCode(token)
	}
	return v.signedInAs(cookie, "/")
}

func showPasswordLink(v *visit) error { return v.passwordLinkPage(200, v.newForm()) }

// passwordLinkPage shows the form that sets a password. The address contains the token. The Referrer-Policy keeps
// browsers from sending the address in requests for the files of the page.
func (v *visit) passwordLinkPage(status int, f *form) error {
	v.w.Header().Set("Referrer-Policy", "origin")
	return v.show(status, "password-link", v.t("Set your password"),
		signInPage{Form: f, Refused: !v.site.signsIn(v.r)})
}

func usePasswordLink(v *visit) error {
	f := v.sent()
	if !v.site.signsIn(v.r) {
		return v.passwordLinkPage(403, f)
	}
	password := f.Values.Get("new_password")
	if err := secrets.CheckPassword(password); err != nil {
		f.Errors["new_password"] = v.message(err.Error())
		return v.passwordLinkPage(422, f)
	}
	email, err := v.site.Auth.SetPassword(v.r.Context(), v.r.PathValue("token"), password, server.Address(v.r))
	if err != nil {
		return v.refused(f, err, v.passwordLinkPage)
	}
	f = v.newForm()
	f.Values.Set("email", email)
	return v.show(200, "sign-in", v.t("Sign in"), signInPage{Form: f, Next: "/", Set: true})
}

func signOut(v *visit) error {
	everywhere := v.r.PostForm.Get("everywhere") != ""
	if err := v.site.Auth.SignOut(v.r.Context(), v.site.cookie(v.r), everywhere); err != nil {
		return err
	}
	v.forget("")
	return v.redirect("/sign-in")
}

// streamChanges tells the script of a page when to read the page again. It ends with the session.
func streamChanges(v *visit) error {
	cookie := v.site.cookie(v.r)
	return v.site.server.StreamChanges(v.w, v.r, v.Actor, func(ctx context.Context) error {
		visitor, err := v.site.Auth.Visit(ctx, cookie, server.Address(v.r))
		if err == nil && visitor.MustSetUp {
			err = server.ErrSetUp
		}
		return err
	})
}

type accountPage struct {
	Form     *form
	Me       me
	Sessions found[struct {
		ID      string
		Created *time.Time `json:"created_at"`
		Used    *time.Time `json:"last_used_at"`
	}]
}

func showAccount(v *visit) error { return v.accountPage(200, v.newForm()) }

func (v *visit) accountPage(status int, f *form) error {
	p := &accountPage{Form: f}
	if err := v.fetch(get("/api/v1/auth/me", &p.Me),
		get("/api/v1/auth/sessions?limit=20&sort_by=last_used_at", &p.Sessions)); err != nil {
		return err
	}
	return v.show(status, "account", v.t("Your account"), p)
}

// endSession ends a session of the visitor.
func endSession(v *visit) error {
	_, err := v.send(v.newForm(), "DELETE", "/api/v1/auth/sessions/{id}", nil, nil)
	if err != nil && server.AsError(err).Status != 404 {
		return err
	}
	return v.redirect("/account")
}

// changePassword changes the password of the visitor. This ends all sessions of the visitor, including the current
// one.
func changePassword(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/auth/password",
		map[string]any{"current_password": f.Values.Get("current_password"),
			"new_password": f.Values.Get("new_password")}, nil)
	if err != nil {
		return err
	}
	if !ok {
		return v.accountPage(422, f)
	}
	v.forget("")
	return v.redirect("/sign-in")
}
