package web

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"spoolwright/auth"
	"spoolwright/server"
	"spoolwright/value/language"
	"spoolwright/web/start"
)

// visit is a request for a page.
type visit struct {
	auth.Visitor // zero on public pages
	site         *site
	w            http.ResponseWriter
	r            *http.Request
	language     *language.Language
	locale       *locale
	zone         *time.Location
	isAsked      bool         // whether steps was read with the visitor
	steps        *start.Steps // on Today
	isFinding    bool         // whether the form was sent to find something
	farm         string       // whose sign-on the page to sign in offers, or ""
	notice       *notice      // the notice for the page to which the answer redirects, or nil
}

// policy makes browsers load only files of the service for a page, and ignore scripts and styles within the page
// itself.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (s *site) visit(w http.ResponseWriter, r *http.Request) *visit {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Permissions-Policy", noCamera)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Add("Vary", "Accept-Language")
	accepted := r.Header.Get("Accept-Language")
	return &visit{site: s, w: w, r: r, language: language.Accepted(accepted), locale: localeOf(accepted), zone: time.UTC}
}

// Live reports whether a GET of the page's address returns the page again. The page with a refused form is the answer
// to a POST, so that it cannot be read again.
func (v *visit) Live() bool { return v.r.Method == http.MethodGet }

// CanWrite reports whether the visitor may change the data of the farm.
func (v *visit) CanWrite() bool { return v.Level >= server.Write }

// IsAdmin reports whether the visitor is an administrator.
func (v *visit) IsAdmin() bool { return v.Level >= server.Admin }

// t returns a text of the program in the language of the visitor, formatted with the arguments.
func (v *visit) t(text language.Text, args ...any) string {
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			args[i] = v.Counted(n)
		}
	}
	return v.language.Text(text, args...)
}

// message returns a message of the API as a sentence in the language of the visitor.
func (v *visit) message(s string) string { return v.language.Sentence(v.language.Message(s)) }

// Message is message without making a sentence of it: for templates.
func (v *visit) Message(s string) string { return v.language.Message(s) }

// Language returns the tag of the page's language.
func (v *visit) Language() string { return v.language.Code }

// Path returns the path of the page.
func (v *visit) Path() string { return v.r.URL.Path }

// outside maps paths of pages to entries of the navigation. Each page belongs to the entry, although its path is not
// below the path of the entry.
var outside = map[string]string{"/vendors": "/filaments", "/queue": "/runs", "/s": "/spools", "/labels": "/spools",
	"/p": "/products"}

// Section returns the path of the navigation's entry to which the page belongs.
func (v *visit) Section() string {
	top, _, _ := strings.Cut(strings.TrimPrefix(v.Path(), "/"), "/")
	return cmp.Or(outside["/"+top], "/"+top)
}

// Style and Script return the addresses of the assets.
func (v *visit) Style() string  { return assets["style.css"].address }
func (v *visit) Script() string { return assets["script.js"].address }

// redirect redirects the browser to a page of this site, with GET. The page shows the notice, if tell has set one.
func (v *visit) redirect(path string) error {
	if v.notice != nil {
		v.setNotice(v.notice, path)
	}
	v.w.Header().Set("Location", path)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}
