package value

import (
	"net/url"
	"strconv"
	"strings"
)

// maxOrigin is the maximum length of an origin in bytes.
const maxOrigin = 300

// Origin returns the origin in a text such as https://farm.example:8443, which may end with a slash, as browsers show
// it. It returns false for all other texts, also for origins of other schemes than http and https.
func Origin(text string) (origin string, ok bool) {
	origin = strings.TrimSuffix(text, "/")
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") ||
		origin != u.Scheme+"://"+u.Host || len(origin) > maxOrigin {
		return "", false
	}
	if u.Port() != "" {
		if port, err := strconv.Atoi(u.Port()); err != nil || port > 65535 {
			return "", false
		}
	}
	return origin, true
}
