package cli

import (
	"io"
	"os"
	"regexp"
	"slices"
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
		c, err := loadConfig(func(name string) string { return map[string]string{"PUBLIC_URL": value}[name] }, io.Discard, false)
		switch {
		case want != "error" && (err != nil || c.PublicURL != want):
			t.Errorf("%s: %s, %v", value, c.PublicURL, err)
		case want == "error" && (err == nil || !strings.HasPrefix(err.Error(), "PUBLIC_URL: ")):
			t.Errorf("%s: %s, %v", value, c.PublicURL, err)
		}
	}
}

// A wrong setting is one line that names the variable and what it must be. testdata/wrong-settings.txt has the lines.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/wrong-settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := regexp.MustCompile(`(?m)^([A-Z].*)\n\t(.*)$`).FindAllStringSubmatch(string(b), -1)
	seen := map[string]bool{}
	for _, c := range cases {
		values := map[string]string{}
		for setting := range strings.SplitSeq(c[1], " ") {
			name, value, _ := strings.Cut(setting, "=")
			values[name], seen[name] = value, true
		}
		_, err := loadConfig(func(name string) string { return values[name] }, io.Discard, false)
		if err == nil || err.Error() != c[2] || strings.Contains(c[2], "hid") {
			t.Errorf("%s:\n\t%v, want\n\t%s", c[1], err, c[2])
		}
	}
	for _, s := range new(Config).settings() {
		if !seen[s.name] {
			t.Errorf("testdata/wrong-settings.txt has no wrong value of %s", s.name)
		}
	}
}

// A variable with nearly the name of a setting is a warning at the start.
func TestMisspelled(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"RATE_LIMIT_PER_MIN": "RATE_LIMIT_PER_MINUTE", "LISTENADDR": "LISTEN_ADDR", "LISTEN_ADDRESS": "LISTEN_ADDR",
		"listen_addr": "LISTEN_ADDR", "CORS_ORIGINS": "CORS_ALLOWED_ORIGINS", "TLS_CERT": "TLS_CERT_FILE",
		"SMTP_URLS": "SMTP_URL", "DB_MAX_CONN": "DB_MAX_CONNS", "TRUSTED_PROXY": "TRUSTED_PROXIES",
		"LISTEN_ADRR": "LISTEN_ADDR", "DATABASE_URI": "DATABASE_URL", "JWT_SECRTE": "JWT_SECRET", "LISTEN_FDS": "",
		"LISTEN_PORT": "", "SMTP_HOST": "", "PGDATA": "", "KUBERNETES_SERVICE_HOST": "", "TLS_CA_FILE": "",
		"LOG_FILE": "", "DATA_HOME": "", "PUBLIC_KEY": "", "WATCHDOG_USEC": "", "PUBLIC_URL": "", "WEB": "",
		"WEBS": "", "PATH": "", "HOME": "", "LANG": "", "TEST_DATABASE_URL": "", "GOGC": "", "POSTGRES_BIN": "",
		"DATABASE_URL_TEST": "", "SHELL": "", "LOGNAME": "", "LS_COLORS": "", "SSL_CERT_FILE": "", "": "",
	} {
		var want []string
		if setting != "" {
			want = []string{name + " is not a setting and has no effect: the setting is " + setting}
		}
		if got := Misspelled([]string{name + "=x"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Each combination of settings in which one has no effect is a warning at the start.
func TestWarnings(t *testing.T) {
	t.Parallel()
	mail := map[string]string{"SMTP_URL": "smtp://mail.farm.example", "SMTP_FROM": "farm@farm.example"}
	for _, c := range []struct {
		settings map[string]string
		words    []string // one for each warning
	}{
		{nil, nil},
		{map[string]string{"PUBLIC_URL": "https://farm.example", "TLS_SELF_SIGNED": "on"}, nil},
		{map[string]string{"WEB": "off", "PUBLIC_URL": "https://farm.example"}, []string{"PUBLIC_URL is set with WEB=off"}},
		{map[string]string{"PUBLIC_URL": "http://farm.example", "TLS_SELF_SIGNED": "on"}, []string{"only https"}},
		{map[string]string{"SMTP_URL": mail["SMTP_URL"], "SMTP_FROM": mail["SMTP_FROM"]}, []string{"without PUBLIC_URL"}},
		{map[string]string{"SMTP_URL": mail["SMTP_URL"], "SMTP_FROM": mail["SMTP_FROM"], "WEB": "off",
			"PUBLIC_URL": "https://farm.example"}, []string{"SMTP_URL is set with WEB=off", "PUBLIC_URL is set with WEB=off"}},
		{map[string]string{"SMTP_URL": mail["SMTP_URL"], "SMTP_FROM": mail["SMTP_FROM"],
			"PUBLIC_URL": "https://farm.example"}, nil},
		{map[string]string{"RATE_LIMIT_TENANT_PER_MINUTE": "50"}, []string{"RATE_LIMIT_TENANT_PER_MINUTE is less"}},
		{map[string]string{"RATE_LIMIT_TENANT_PER_MINUTE": "0"}, nil},
		{map[string]string{"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_TENANT_PER_MINUTE": "50"}, nil},
	} {
		config, err := loadConfig(func(name string) string { return c.settings[name] }, io.Discard, false)
		if err != nil {
			t.Errorf("%v: %v", c.settings, err)
			continue
		}
		if !slices.EqualFunc(config.Warnings(), c.words, strings.Contains) {
			t.Errorf("%v: %q, want %q", c.settings, config.Warnings(), c.words)
		}
	}
}
