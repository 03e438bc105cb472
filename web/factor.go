package web

import "net/http"

// factorPath is the page on which a visitor sets up a second factor. A visitor who must do so has no other page.
const factorPath = "/account/second-factor"

// me is the user of the session as the API shows it.
type me struct {
	OTPEnabled    bool `json:"otp_enabled"`
	RecoveryCodes int  `json:"recovery_codes_left"`
}

type factorPage struct {
	forms
	Me     me
	Secret string   // of an app that is being set up, or ""
	QR     qrCode   // with the secret
	Codes  []string // recovery codes, which are shown once
	On     bool     // whether the second factor was just turned on
}

func showFactor(v *visit) error { return v.factorPage(200, &factorPage{forms: v.forms("", nil)}) }

func (v *visit) factorPage(status int, p *factorPage) error {
	if err := v.fetch(get("/api/v1/auth/me", &p.Me)); err != nil {
		return err
	}
	return v.show(status, "second-factor", v.t("Second factor"), p)
}

// beginFactor shows a new secret.
func beginFactor(v *visit) error {
	f := v.sent()
	var setup struct{ Secret, URI string }
	ok, err := v.send(f, http.MethodPost, "/api/v1/auth/otp",
		map[string]any{"current_password": f.Values.Get("current_password")}, &setup)
	if err != nil {
		return err
	}
	if !ok {
		return v.factorPage(422, &factorPage{forms: v.forms("begin", f)})
	}
	return v.setupPage(200, v.newForm(), setup.Secret, setup.URI)
}

// setupPage shows a secret and asks for the first code. The form has the secret, so that it is shown again after a
// wrong code.
func (v *visit) setupPage(status int, f *form, secret, uri string) error {
	f.Values.Set("secret", secret)
	f.Values.Set("uri", uri)
	code, err := newQR(uri)
	if err != nil {
		return err
	}
	return v.factorPage(status, &factorPage{forms: v.forms("confirm", f), Secret: secret, QR: code})
}

// confirmFactor turns on the second factor, and shows the recovery codes.
func confirmFactor(v *visit) error {
	f := v.sent()
	codes, ok, err := v.codes(f, "/api/v1/auth/otp/confirm")
	if err != nil {
		return err
	}
	if secret, uri := f.Values.Get("secret"), f.Values.Get("uri"); !ok && secret != "" && len(uri) < 1000 {
		f.Values.Del("otp")
		return v.setupPage(422, f, secret, uri)
	}
	v.MustSetUp = false
	return v.factorPage(statusOf(ok), &factorPage{forms: v.forms("begin", f), Codes: codes, On: ok})
}

func renewRecoveryCodes(v *visit) error {
	f := v.sent()
	codes, ok, err := v.codes(f, "/api/v1/auth/otp/recovery-codes")
	if err != nil {
		return err
	}
	return v.factorPage(statusOf(ok), &factorPage{forms: v.forms("codes", f), Codes: codes})
}

func statusOf(ok bool) int {
	if ok {
		return 200
	}
	return 422
}

// codes sends the code in the form to an operation that returns recovery codes.
func (v *visit) codes(f *form, path string) (codes []string, ok bool, err error) {
	var answer struct {
		Codes []string `json:"recovery_codes"`
	}
	ok, err = v.send(f, http.MethodPost, path, map[string]any{"otp": f.Values.Get("otp")}, &answer)
	return answer.Codes, ok, err
}

func disableFactor(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodPost, "/api/v1/auth/otp/disable",
		map[string]any{"current_password": f.Values.Get("current_password"), "otp": f.Values.Get("otp")}, nil)
	v.tell(&notice{Text: v.t("The second factor is turned off.")})
	return v.then(ok, err, factorPath, func() error { return v.factorPage(422, &factorPage{forms: v.forms("off", f)}) })
}
