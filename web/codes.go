package web

import (
	"net/url"
	"strconv"
	"strings"

	"spoolwright/server"
)

// spoolCode returns the number in the code of a label: web+spoolman:s-3 or /spool/show/3, which are on labels of
// Spoolman, or /s/3, which is on labels of this program. A path may be a whole address. Letters may be upper or lower
// case, because codes of upper case letters are smaller. It returns false for any other text, also a number alone.
func spoolCode(text string) (number string, ok bool) {
	if number, ok = strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "web+spoolman:s-"); !ok {
		return pathNumber(text, "/s/", "/spool/show/")
	}
	return number, isNumber(number)
}

// productCode returns the number in the code of a product's label, /p/3, which may be a whole address.
func productCode(text string) (number string, ok bool) { return pathNumber(text, "/p/") }

// pathNumber returns the number that ends a path or an address after one of the places.
func pathNumber(text string, places ...string) (number string, ok bool) {
	u, err := url.Parse(strings.ToLower(strings.TrimSpace(text)))
	if err != nil {
		return "", false
	}
	path := strings.TrimSuffix(u.Path, "/")
	for _, place := range places {
		if i := strings.LastIndex(path, place); i >= 0 {
			number = path[i+len(place):]
		}
	}
	return number, isNumber(number)
}

// isNumber reports whether a spool or a product can have the number: digits without leading zeros.
func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= server.MaxNumber && strconv.Itoa(n) == text
}
