package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	"spoolwright/server"
	"spoolwright/value"
)

// The address of a sign-on names the farm, so that the page to sign in tells nobody which farms and users there are.

// signOnTry is how long a browser keeps the cookie of a sign-on, and knownFarm how long it keeps with which farm it has
// signed on.
const (
	signOnTry = 10 * time.Minute
	knownFarm = 400 * 24 * time.Hour
)

// SignOn returns the address at which the person can sign on, or "". It is that of the farm of the visit, of the farm
// with which this browser has signed on, or of the only farm.
func (v *visit) SignOn() string {
	farm, ok := v.farm, v.farm != ""
	if !ok {
		farm, ok = v.knownFarm()
	}
	if !ok {
		var err error
		if farm, err = v.site.Auth.OnlySignOn(v.r.Context()); err != nil || farm == "" {
			return ""
		}
	}
	address := v.site.Auth.SignOnAddress(farm)
	if to := next(v.r.FormValue("next")); address != "" && to != "/" {
		address += "?" + url.Values{"next": {to}}.Encode()
	}
	return address
}

// knownFarm returns the farm with which this browser has signed on.
func (v *visit) knownFarm() (string, bool) { return value.ParseID(v.stored("-farm")) }

// ofFarm returns the handler of a page of the sign-on of a farm, which the address names.
func ofFarm(handle func(v *visit, farm string) error) func(*visit) error {
	return func(v *visit) error {
		farm, ok := value.ParseID(v.r.PathValue("tenant"))
		switch {
		case !ok:
			return server.ErrNotFound
		case !v.site.signsIn(v.r):
			return v.signInPage(403, v.newForm())
		}
		return handle(v, farm)
	}
}

// beginSignOn leads the browser to the provider of the farm. If a page of another site leads here, the person must press
// the button first: otherwise that page could begin a session in the browser.
func beginSignOn(v *visit, farm string) error {
	if from := v.r.Header.Get("Sec-Fetch-Site"); from == "cross-site" || from == "same-site" {
		v.farm = farm
		return v.signInPage(200, v.newForm())
	}
	to := next(v.r.FormValue("next"))
	if len(to) > 1000 {
		to = "/"
	}
	address, cookie, err := v.site.Auth.BeginSignOn(v.r.Context(), farm, to)
	if err != nil {
		if known, _ := v.knownFarm(); known == farm && server.AsError(err).Status == 404 {
			v.forget("-farm")
		}
		return v.refused(v.newForm(), err, v.signInPage)
	}
	v.setCookie("-sign-on", cookie, signOnTry)
	return v.redirect(address)
}

// finishSignOn signs the person in with the answer of the provider.
func finishSignOn(v *visit, farm string) error {
	cookie := v.stored("-sign-on")
	v.forget("-sign-on")
	end, err := v.site.Auth.FinishSignOn(v.r.Context(), farm, cookie, v.r.URL.Query(), server.Address(v.r))
	if err != nil {
		return v.refused(v.newForm(), err, v.signInPage)
	}
	v.setCookie("-farm", farm, knownFarm)
	if end.Token != "" {
		v.r.Form = url.Values{"next": {end.Next}}
		return v.askForCode(end.Token)
	}
	return v.signedInAs(end.Cookie, next(end.Next))
}

type signOnPage struct {
	Form *form
	Now  *signOnNow // nil if the farm has none
}

type signOnNow struct {
	Address   string `json:"sign_on_url"`
	Redirect  string `json:"redirect_uri"`
	HasSecret bool   `json:"has_client_secret"`
}

const signOnAPI = "/api/v1/sign-on"

var signOnFields = []field{{"issuer", text}, {"client_id", text}, {"client_secret", text}, {"email_domain", text},
	{"role_claim", text}, {"admin_value", text}, {"operator_value", text}, {"viewer_value", text}, {"factors", set},
	{"required", flag}}

// Rules returns the choice whether people can log in by password.
func (p *signOnPage) Rules(v view) []option {
	return v.options([]word{{"false", "Allowed"}, {"true", "Not allowed"}})
}

func showSignOn(v *visit) error { return v.signOnPage(200, nil) }

// signOnNow reads the provider. Without one, the form has neither values nor a tag.
func (v *visit) signOnNow() (*signOnNow, *form, error) {
	f := v.newForm()
	answer := v.call(http.MethodGet, signOnAPI, nil, nil)
	if answer.Status == 404 {
		return nil, f, nil
	}
	if err := answer.Err(); err != nil {
		return nil, f, err
	}
	f.Tag = answer.Header.Get("ETag")
	now, values := &signOnNow{}, map[string]any{}
	if err := json.Unmarshal(answer.Body, now); err != nil {
		return nil, f, err
	}
	err := json.Unmarshal(answer.Body, &values)
	f.fill(values)
	return now, f, err
}

// signOnPage shows the provider. The form f was refused, if it is not nil.
func (v *visit) signOnPage(status int, f *form) error {
	p := &signOnPage{}
	var err error
	if p.Now, p.Form, err = v.signOnNow(); err != nil {
		return err
	}
	p.Form.Was = maps.Clone(p.Form.Values)
	if f != nil {
		p.Form = f
	}
	return v.show(status, "sign-on", v.t("Sign-on")+" · "+v.t("Settings"), p)
}

// saveSignOn sets the provider. An empty secret keeps the present one.
func saveSignOn(v *visit) error {
	f := v.sent()
	body := func(f *form) map[string]any { return f.body(signOnFields...) }
	now, ok := func() (*form, error) { _, f, err := v.signOnNow(); return f, err }, false
	present, err := now()
	if err == nil && f.Tag == "" && present.Tag == "" {
		ok, err = v.send(f, http.MethodPut, signOnAPI, body(f), nil)
	} else if err == nil {
		ok, err = v.change(f, editing{http.MethodPut, signOnAPI, body, now, nil})
	}
	f.Values.Del("client_secret")
	v.tell(&notice{Text: v.t("The sign-on is saved. Try it in another browser.")})
	return v.then(ok, err, "/settings/sign-on", func() error { return v.signOnPage(422, f) })
}

// CanSignOn reports whether the service can lead browsers to providers.
func (v *visit) CanSignOn() bool { return v.site.Auth.SignOnAddress(v.Actor.Tenant) != "" }
