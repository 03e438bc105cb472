package web

import (
	"net/url"
	"strings"
)

// camera is the header that permits a page to use the camera. All other pages have noCamera.
const (
	camera   = "camera=(self), microphone=(), geolocation=()"
	noCamera = "camera=(), microphone=(), geolocation=()"
)

// scan shows the page that reads the labels of spools with the camera. The form of the page, or a scanner, sends the
// number of a spool or the text of a label. A number leads to the spool, and any other text to the search.
func scan(v *visit) error {
	code := strings.TrimSpace(v.r.URL.Query().Get("q"))
	number := strings.TrimPrefix(code, "#")
	switch {
	case code == "":
		v.w.Header().Set("Permissions-Policy", camera)
		return v.show(200, "scan", v.t("Scan"), nil)
	case isNumber(number):
		return v.redirect("/s/" + number)
	}
	return v.redirect("/search?" + url.Values{"q": {code}}.Encode())
}
