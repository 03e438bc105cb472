package web

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"spoolwright/value"
	"spoolwright/value/language"
)

// notice is the text at the top of the page that follows a form, and describes the change. Links lead to next steps,
// and another form undoes the change.
//
// The answer to the form sends the notice to the next page in a cookie. The cookie is signed with the cookie of the
// session, so that no other site can make a page show a notice. It contains the path of the page, and is deleted when
// the page shows the notice.
type notice struct {
	Text string   `json:"t"`
	Next []option `json:"n,omitempty"` // links: addresses and names
	Undo *undo    `json:"u,omitempty"` // nil if the change cannot be taken back
	Path string   `json:"p"`           // the path of the page, which setNotice sets
}

type undo struct {
	Name   string     `json:"n"` // the text of the button
	Action string     `json:"a"` // the address to which the form is sent
	Values url.Values `json:"v,omitempty"`
}

// Key returns an idempotency key for the form.
func (*undo) Key() string { return rand.Text() }

// makeNotice returns the notice of a form that the API has accepted. Answer is the answer of the operation. It is
// also called for a form that was sent twice.
type makeNotice func(v *visit, f *form, answer json.RawMessage) *notice

func showText(text language.Text) makeNotice {
	return func(v *visit, _ *form, _ json.RawMessage) *notice { return &notice{Text: v.t(text)} }
}

// withWarnings returns a function that makes the notice of then, and adds the warnings of the answer, or only those
// with one of the codes.
func withWarnings(then makeNotice, codes ...string) makeNotice {
	return func(v *visit, f *form, answer json.RawMessage) *notice {
		return then(v, f, answer).warn(v, answer, codes...)
	}
}

// warn adds warnings of an answer to the notice, as withWarnings does.
func (n *notice) warn(v *visit, answer json.RawMessage, codes ...string) *notice {
	var done struct {
		Warnings []struct{ Code, Detail string }
	}
	json.Unmarshal(answer, &done) // an answer of the API is valid, or empty
	for _, w := range done.Warnings {
		if codes == nil || slices.Contains(codes, w.Code) {
			n.Text += " " + v.message(w.Detail)
		}
	}
	return n
}

// withUndo returns a function that makes a notice with the text and a form. The form has a button with the name and
// these values, and is sent to the path below the address of the thing of the page.
func withUndo(text, name language.Text, path string, values url.Values) makeNotice {
	return func(v *visit, _ *form, _ json.RawMessage) *notice { return v.undoable(v.t(text), name, path, values) }
}

// withBack returns a function that makes a notice with the text, and with a form that sets the fields to the values
// that they had before.
func withBack(text language.Text, fields ...field) makeNotice {
	return func(v *visit, f *form, _ json.RawMessage) *notice {
		back := url.Values{}
		for _, in := range fields {
			back[in.name], back["was."+in.name] = f.Was[in.name], f.Values[in.name]
		}
		return &notice{Text: v.t(text), Undo: &undo{v.t("Undo"), v.r.URL.Path + v.query(), back}}
	}
}

// undoable returns a notice with a text in the language of the visitor and a form, as withUndo does.
func (v *visit) undoable(text string, name language.Text, path string, values url.Values) *notice {
	at := v.r.URL.Path
	at = at[:strings.LastIndexByte(at, '/')] // removes the name of the form that was sent
	return &notice{Text: text, Undo: &undo{v.t(name), at + path + v.query(), values}}
}

// tell sets the notice for the page to which the answer redirects. If the answer does not redirect, nothing shows the
// notice.
func (v *visit) tell(n *notice) { v.notice = n }

const (
	noticeCookie  = "-notice"                 // follows the name of the session's cookie
	noticeAge     = time.Minute               // the life of the cookie
	maxNoticeText = 300                       // in runes
	maxNotice     = 3500                      // in bytes; browsers accept cookies of 4,096 bytes
	noticeSigned  = "spoolwright web notice " // precedes the notice in the signed text
)

// signature returns the signature of a notice for the session with the cookie.
func signature(cookie, encoded string) string {
	mac := hmac.New(sha256.New, []byte(cookie))
	mac.Write([]byte(noticeSigned + encoded)) // a hash returns no errors
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// setNotice sends the notice for the page with the address to the browser.
func (v *visit) setNotice(n *notice, address string) {
	n.Path, _, _ = strings.Cut(address, "?")
	n.Text = value.Shorten(n.Text, maxNoticeText)
	encode := func() string {
		b, _ := json.Marshal(n) // texts cannot fail
		return base64.RawURLEncoding.EncodeToString(b)
	}
	encoded := encode()
	if len(encoded) > maxNotice {
		n.Next, n.Undo = nil, nil
		encoded = encode()
	}
	session := cmp.Or(v.Cookie, v.site.cookie(v.r))
	v.setCookie(noticeCookie, encoded+"."+signature(session, encoded), noticeAge)
}

// Notice returns the notice for the page, or nil. It deletes the cookie, so that the notice is shown once. It returns
// nil for a page that the script reads again.
func (v *visit) Notice() *notice {
	dest := v.r.Header.Get("Sec-Fetch-Dest")
	cookie := v.stored(noticeCookie)
	if cookie == "" || !v.Live() || dest != "" && dest != "document" {
		return nil
	}
	encoded, signed, _ := strings.Cut(cookie, ".")
	if !hmac.Equal([]byte(signed), []byte(signature(v.site.cookie(v.r), encoded))) {
		return nil
	}
	var n notice
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(b, &n) != nil || n.Path != v.Path() {
		return nil
	}
	v.forget(noticeCookie)
	return &n
}
