package web

import (
	"cmp"

	"spoolwright/server"
	"spoolwright/value/language"
)

// languages returns the choice of a language, by the names of the languages in themselves. None is the name of no
// choice.
func languages(none string) []option {
	all := []option{{"", none}}
	for _, l := range language.All {
		all = append(all, option{l.Code, l.Name})
	}
	return all
}

// speak sets the language of the page: the one that the visitor has chosen, that of the farm, or that of the browser.
func (v *visit) speak() {
	if l := language.Of(cmp.Or(v.Visitor.Language, v.FarmLanguage)); l != nil {
		v.language = l
	}
}

// Chosen returns the language that the address or the form of a page without a visitor names, or "".
func (v *visit) Chosen() string {
	if l := language.Of(v.r.FormValue("language")); l != nil {
		return l.Code
	}
	return ""
}

// Offered returns the languages to choose from on the sign-in page, except that of the page.
func (v *visit) Offered() (all []option) {
	for _, l := range language.All {
		if l != v.language {
			all = append(all, option{l.Code, l.Name})
		}
	}
	return all
}

// keepLanguage stores the language that a person has chosen on the sign-in page. An error does not prevent the sign-in.
func (v *visit) keepLanguage(cookie string) {
	code := v.Chosen()
	if code == "" {
		return
	}
	visitor, err := v.site.Auth.Visit(v.r.Context(), cookie, server.Address(v.r))
	if err == nil {
		err = v.site.server.Call(v.r, server.Caller{Actor: visitor.Actor, Level: visitor.Level}, "PATCH", "/api/v1/auth/me",
			nil, []byte(`{"language":"`+code+`"}`)).Err()
	}
	if err != nil {
		v.site.Log.Warn("cannot store the language chosen at the sign-in", "error", err)
	}
}

// Languages returns the choice of the visitor's language.
func (p *accountPage) Languages() []option {
	return languages(p.Form.read.visit.t("That of the farm or the browser"))
}

func chooseLanguage(v *visit) error {
	f := v.sent()
	body := map[string]any{"language": nil}
	if code := f.Values.Get("language"); code != "" {
		body["language"] = code
	}
	ok, err := v.send(f, "PATCH", "/api/v1/auth/me", body, nil)
	if ok {
		v.Visitor.Language = f.Values.Get("language")
		v.speak()
		v.tell(&notice{Text: v.t("The language is saved.")})
	}
	return v.then(ok, err, "/account", func() error { return v.accountPage(422, f) })
}

// Languages returns the choice of the farm's language.
func (p *settingsPage) Languages() []option {
	return languages(p.Form.read.visit.t("That of each browser"))
}
