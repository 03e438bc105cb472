package cli

import (
	"io"
	"strings"
	"testing"
)

// PUBLIC_URL is an origin that browsers can open; a slash at its end does not matter.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"": "", "https://farm.example": "https://farm.example", "https://farm.example/": "https://farm.example",
		"http://192.168.1.20:8000": "http://192.168.1.20:8000", "http://[fd00::20]:8000/": "http://[fd00::20]:8000",
		"https://MÜLLER.example": "https://MÜLLER.example",

		"farm.example": "error", "//farm.example": "error", "ftp://farm.example": "error", "https://": "error",
		"https://:8000": "error", "https://farm.example:": "error", "https://farm.example:99999": "error",
		"https://farm.example:http": "error", "https://farm.example//": "error", "https://farm.example/farm": "error",
		"https://farm.example?x": "error", "https://farm.example#x": "error", "https://me@farm.example": "error",
		"https://farm example": "error", "https://" + strings.Repeat("a", 300): "error",
	} {
		c, err := loadConfig(func(name string) string { return map[string]string{"PUBLIC_URL": value}[name] }, io.Discard)
		switch {
		case want != "error" && (err != nil || c.PublicURL != want):
			t.Errorf("%s: %s, %v", value, c.PublicURL, err)
		case want == "error" && (err == nil || !strings.HasPrefix(err.Error(), "PUBLIC_URL: ")):
			t.Errorf("%s: %s, %v", value, c.PublicURL, err)
		}
	}
}
