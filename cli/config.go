package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/value"
)

// Config is the parsed and validated environment.
type Config struct {
	Listen, MetricsAddr     string
	DatabaseURL, MigrateURL string // DatabaseURL is empty for a private PostgreSQL in DataDir
	DataDir                 string
	elsewhere               string   // local.Options.Elsewhere
	JWTSecrets              []string // the first secret signs, all verify
	AccessTTL, RefreshTTL   time.Duration
	PerMinute, PerHour      int // limits of requests of a user; 0 means no limit
	TenantPerMinute         int // limit of requests of all users of a tenant
	KeyInPath               bool
	TrustedProxies          []netip.Prefix
	CORSOrigins             []string
	Web                     string       // pages for people: on, off, or insecure
	PublicURL               string       // an origin, or ""
	SMTP                    *mail.Server // the mail server; nil without one
	MailFrom                netmail.Address
	WebhookNetworks         []netip.Prefix // private networks that receivers of webhooks may be in
	Watch                   bool           // whether the service watches printers
	WatchNetworks           []netip.Prefix // the networks with printers that it may reach
	CatalogURL              string         // of the file of SpoolmanDB that pages fetch, or ""
	TLSCert, TLSKey         string         // paths of PEM files, both or neither
	TLSSelfSigned           bool           // see OwnTLS
	MaxConns                int            // 0 is the default of db.Open
	DrainDelay              time.Duration
	Log                     *slog.Logger
	Definitions             []db.Definition // of Program
	Throwaway               bool            // the private PostgreSQL is removed at the end; only for the demo
	install                 string          // POSTGRES_INSTALL
	ask                     func(ctx context.Context, question string) bool
	log                     *logWriter // of Log
	logFormat, logLevel     string
}

// setting is an environment variable. The function set parses a value into a Config. The field value is the default.
type setting struct {
	name, value, usage string
	set                func(v string) error
}

// settings returns all environment variables, in the order of the help. A test compares them with
// docs/configuration.md.
func (c *Config) settings() []setting {
	return []setting{
		{"LISTEN_ADDR", "127.0.0.1:8000", "address to serve on", text(&c.Listen, checkAddr)},
		{"DATABASE_URL", "", "PostgreSQL to use; without it, the service starts a private one",
			text(&c.DatabaseURL, checkURL)},
		{"MIGRATE_DATABASE_URL", "", "login of the database's owner, for migrations; DATABASE_URL then needs no ownership",
			text(&c.MigrateURL, checkURL)},
		{"DATA_DIR", "./data", "folder of the private PostgreSQL and of generated secrets",
			text(&c.DataDir, checkFolder)},
		{"POSTGRES_INSTALL", "", "yes: if no PostgreSQL is installed, fetch one as install-postgres does; no: do not; if " +
			"empty, ask on a terminal", text(&c.install, oneOf("yes", "no"))},
		{"JWT_SECRET", "", "token secrets, at least 32 bytes each, separated by commas; the first signs, all verify",
			list(&c.JWTSecrets, checkSecret)},
		{"ACCESS_TOKEN_EXPIRE_MINUTES", "30", "lifetime of access tokens",
			duration(&c.AccessTTL, time.Minute, 1, 60*24*7)},
		{"REFRESH_TOKEN_EXPIRE_DAYS", "7", "lifetime of refresh tokens",
			duration(&c.RefreshTTL, 24*time.Hour, 1, 3650)},
		{"RATE_LIMIT_PER_MINUTE", "100", "requests per user and minute; 0 turns the limit off",
			number(&c.PerMinute, 0, 1_000_000_000)},
		{"RATE_LIMIT_PER_HOUR", "1000", "requests per user and hour; 0 turns the limit off",
			number(&c.PerHour, 0, 1_000_000_000)},
		{"RATE_LIMIT_TENANT_PER_MINUTE", "",
			"requests of all users of a tenant per minute; if empty, 10 times that of a user",
			number(&c.TenantPerMinute, 0, 1_000_000_000)},
		{"TRUSTED_PROXIES", "", "addresses or networks of proxies that set X-Forwarded-For, separated by commas",
			func(v string) (err error) { c.TrustedProxies, err = server.ParsePrefixes(v); return err }},
		{"CORS_ALLOWED_ORIGINS", "", "websites that may call the API, such as https://farm.example, separated by commas",
			list(&c.CORSOrigins, checkOrigin)},
		{"WEB", "on", "pages for people: on, off, or insecure, which signs in without TLS from other machines too",
			func(v string) error { c.Web = strings.ToLower(v); return oneOf("on", "off", "insecure")(v) }},
		{"PUBLIC_URL", "", "address of the service in links of e-mails and messages, such as https://farm.example; also " +
			"in labels and lines to copy of farms without an address of their own. Sign-on needs it.",
			func(v string) error { return publicURL(&c.PublicURL, v) }},
		{"SMTP_URL", "", "mail server for password links and messages, such as smtps://user:password@smtp.example:465, or " +
			"smtp:// with STARTTLS", func(v string) error {
			server, err := mail.ParseURL(v)
			c.SMTP = &server
			return err
		}},
		{"SMTP_FROM", "", "sender of e-mails, such as Farm <farm@farm.example>; required with SMTP_URL",
			func(v string) (err error) { c.MailFrom, err = mail.ParseFrom(v); return err }},
		{"WEBHOOK_ALLOWED_NETWORKS", "",
			"private networks that webhooks and the sign-on may reach, also without TLS, such as 192.168.1.0/24, " +
				"separated by commas",
			func(v string) (err error) { c.WebhookNetworks, err = server.ParsePrefixes(v); return err }},
		{"WATCH", "off", "on: the service watches the printers of all farms, whose admins may then connect to all " +
			"addresses in WATCH_NETWORKS",
			onOff(&c.Watch)},
		{"WATCH_NETWORKS", "", "networks with printers that the service may reach, such as 192.168.1.0/24, separated by " +
			"commas",
			func(v string) (err error) { c.WatchNetworks, err = server.ParsePrefixes(v); return err }},
		{"FILAMENT_CATALOG_URL", "", "address of the filaments.json of SpoolmanDB, which people may fetch into the " +
			"catalog of their farm, such as https://donkie.github.io/SpoolmanDB/filaments.json; if empty, they upload a file",
			text(&c.CatalogURL, checkWebURL)},
		{"SPOOLMAN_KEY_IN_PATH", "off", "on: printers may send their API key in the path, /spoolman/k/KEY",
			onOff(&c.KeyInPath)},
		{"TLS_CERT_FILE", "", "certificate chain (PEM), for HTTPS; reloaded when it changes", text(&c.TLSCert, nil)},
		{"TLS_KEY_FILE", "", "private key (PEM), for HTTPS; reloaded when it changes", text(&c.TLSKey, nil)},
		{"TLS_SELF_SIGNED", "off", "on: HTTPS with certificates that the service makes itself, on all addresses of the " +
			"machine if LISTEN_ADDR is not set", onOff(&c.TLSSelfSigned)},
		{"METRICS_ADDR", "", "private address for /metrics (Prometheus) and /debug/pprof/; off if empty",
			text(&c.MetricsAddr, checkAddr)},
		{"DB_MAX_CONNS", "", "maximum number of database connections; if empty, 8 per core, from 8 to 32",
			number(&c.MaxConns, 1, 10_000)},
		{"DRAIN_SECONDS", "1", "seconds after SIGTERM in which requests are still served but /readyz returns 503",
			duration(&c.DrainDelay, time.Second, 0, 600)},
		{"LOG_FORMAT", "text", "text or json", text(&c.logFormat, oneOf("text", "json"))},
		{"LOG_LEVEL", "", "debug, info, warn or error; if empty, info, or warn for text on a terminal",
			text(&c.logLevel, oneOf("debug", "info", "warn", "error"))},
	}
}

// loadConfig returns the configuration from the environment, with a logger that writes to w. If terminal is true, a
// person reads the log. The caller must flush Config.log before the program exits. Errors name the variable.
func loadConfig(getenv func(string) string, w io.Writer, terminal bool) (Config, error) {
	c := Config{TenantPerMinute: -1}
	for _, s := range c.settings() {
		v := cmp.Or(getenv(s.name), s.value)
		if v == "" {
			continue
		}
		if err := s.set(v); err != nil {
			return c, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return c, errors.New("TLS_CERT_FILE and TLS_KEY_FILE must be set together")
	case c.TLSSelfSigned && c.TLSCert != "":
		return c, errors.New("TLS_SELF_SIGNED and TLS_CERT_FILE exclude each other: remove one of them")
	case (c.SMTP == nil) != (c.MailFrom.Address == ""):
		return c, errors.New("SMTP_URL and SMTP_FROM must be set together")
	case c.Watch && c.WatchNetworks == nil:
		return c, errors.New("WATCH=on requires WATCH_NETWORKS: the networks with the printers")
	case c.MigrateURL != "" && c.DatabaseURL == "":
		return c, errors.New("MIGRATE_DATABASE_URL requires DATABASE_URL")
	}
	if c.TLSSelfSigned && getenv("LISTEN_ADDR") == "" {
		c.Listen = strings.TrimPrefix(c.Listen, "127.0.0.1") // the service is for other machines
	}
	if getenv("DATA_DIR") == "" { // a folder that the user set, such as a mounted volume, must be usable
		c.elsewhere = "/var/lib/spoolwright"
	}
	if c.TenantPerMinute < 0 {
		c.TenantPerMinute = min(10*c.PerMinute, 1_000_000_000)
	}
	json := strings.EqualFold(c.logFormat, "json")
	person, usual := terminal && !json, "info"
	if person {
		usual = "warn"
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(c.logLevel, usual))); err != nil {
		return c, err
	}
	options := &slog.HandlerOptions{Level: level}
	c.log = &logWriter{w: w}
	var handler slog.Handler
	switch {
	case json:
		handler = slog.NewJSONHandler(c.log, options)
	case person:
		options.ReplaceAttr = clockTime
		handler = withoutAudit{slog.NewTextHandler(c.log, options)}
	default:
		handler = slog.NewTextHandler(c.log, options)
	}
	c.Log = slog.New(logHandler{handler, c.log})
	return c, nil
}

// Warnings returns a sentence for each combination of settings that is valid, but in which one has no effect.
func (c Config) Warnings() (all []string) {
	for _, w := range []struct {
		holds   bool
		warning string
	}{
		{c.SMTP != nil && c.PublicURL == "", "SMTP_URL is set without PUBLIC_URL: e-mails have no links, and no links to " +
			"set passwords are sent"},
		{c.SMTP != nil && c.Web == "off", "SMTP_URL is set with WEB=off: no links to set passwords are sent, because " +
			"they lead to pages"},
		{!c.Watch && c.WatchNetworks != nil, "WATCH_NETWORKS is set with WATCH=off: the service watches no printers"},
		{c.PublicURL != "" && c.Web == "off", "PUBLIC_URL is set with WEB=off: links in messages lead to pages that the " +
			"service does not serve"},
		{c.TLSSelfSigned && strings.HasPrefix(c.PublicURL, "http://"), "PUBLIC_URL begins with http:// and " +
			"TLS_SELF_SIGNED is on: the service answers only https"},
		{c.TenantPerMinute > 0 && c.TenantPerMinute < c.PerMinute, "RATE_LIMIT_TENANT_PER_MINUTE is less than " +
			"RATE_LIMIT_PER_MINUTE, which no user can reach"},
	} {
		if w.holds {
			all = append(all, w.warning)
		}
	}
	return all
}

// Misspelled returns a sentence for each variable that is not a setting, but has nearly the name of one. environ has
// the form of os.Environ.
func Misspelled(environ []string) (all []string) {
	settings := new(Config).settings()
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if name == "PUBLIC" { // of Windows
			continue
		}
		i := slices.IndexFunc(settings, func(s setting) bool { return nearly(name, s.name) })
		if i >= 0 && !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
			all = append(all, name+" is not a setting and has no effect: the setting is "+settings[i].name)
		}
	}
	return all
}

// nearly reports whether a name is that of a setting in other letters or with other underscores, without some letters,
// such as CORS_ORIGINS for CORS_ALLOWED_ORIGINS, with up to three letters at its end, or with a quarter of the letters
// wrong, such as TRUSTED_PROXY, but not the first one: SSL_CERT_FILE of other programs is not TLS_CERT_FILE.
func nearly(name, setting string) bool {
	letters := func(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "_", "") }
	name, setting = letters(name), letters(setting)
	rest := name // without the letters that the setting has in this order
	for _, letter := range setting {
		rest = strings.TrimPrefix(rest, string(letter))
	}
	switch {
	case len(setting) <= 3 || 5*len(name) < 3*len(setting):
		return false
	case rest == "" || len(rest) <= 3 && strings.HasPrefix(name, setting):
		return true
	}
	return name[0] == setting[0] && value.Distance(name, setting) <= len(setting)/4
}

// Mail returns the sender of e-mails, or nil without a mail server.
func (c Config) Mail() *mail.Sender {
	if c.SMTP == nil {
		return nil
	}
	return mail.New(*c.SMTP, c.MailFrom, nil)
}

func writeSettings(w io.Writer) {
	fmt.Fprint(w, "\nEnvironment:\n")
	for _, s := range new(Config).settings() {
		usage := s.usage
		if s.value != "" {
			usage += " (default " + s.value + ")"
		}
		fmt.Fprintf(w, "  %-28s %s\n", s.name, usage)
	}
}

// text returns a function that stores a text if check accepts it. Check may be nil.
func text(to *string, check func(string) error) func(string) error {
	return func(v string) error {
		*to = v
		if check == nil {
			return nil
		}
		return check(v)
	}
}

// list returns a function that stores texts separated by commas.
func list(to *[]string, check func(string) error) func(string) error {
	return func(v string) error {
		for item := range strings.SplitSeq(v, ",") {
			item = strings.TrimSpace(item)
			if err := check(item); err != nil {
				return err
			}
			*to = append(*to, item)
		}
		return nil
	}
}

func number(to *int, minimum, maximum int) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil || *to < minimum || *to > maximum {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, minimum, maximum)
		}
		return nil
	}
}

func duration(to *time.Duration, unit time.Duration, minimum, maximum int) func(string) error {
	return func(v string) error {
		var n int
		err := number(&n, minimum, maximum)(v)
		*to = time.Duration(n) * unit
		return err
	}
}

func onOff(to *bool) func(string) error {
	return func(v string) error {
		*to = strings.EqualFold(v, "on")
		return oneOf("on", "off")(v)
	}
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(allowed, strings.ToLower(v)) {
			return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		}
		return nil
	}
}

func checkSecret(v string) error {
	if len(v) < 32 {
		return errors.New("each secret must have at least 32 bytes")
	}
	return nil
}

// checkOrigin accepts an origin as browsers send it: in lower case, and without the usual port of its scheme.
func checkOrigin(v string) error {
	u, err := url.Parse(v)
	if err == nil && u.Port() != "" {
		err = checkAddr(u.Host)
	}
	if err != nil || u.Scheme == "" || u.Hostname() == "" || v != u.Scheme+"://"+u.Host || strings.HasSuffix(v, ":") ||
		v != strings.ToLower(v) || u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
		return fmt.Errorf("%q is not an origin such as https://farm.example, in lower case and without the usual port", v)
	}
	return nil
}

// publicURL stores an origin that browsers can open. The value may end with a slash, as browsers show it.
func publicURL(to *string, v string) error {
	var ok bool
	if *to, ok = value.Origin(v); !ok {
		return fmt.Errorf("%q is not an address such as https://farm.example or http://192.168.1.20:8000", v)
	}
	return nil
}

func checkWebURL(v string) error {
	u, err := url.Parse(v)
	if err == nil && u.User != nil { // the value contains a password
		return errors.New("must be an address without a user and a password")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not an address such as https://farm.example/file.json", v)
	}
	return nil
}

func checkAddr(v string) error {
	_, port, err := net.SplitHostPort(v)
	if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is not an address such as 127.0.0.1:8000", v)
	}
	return nil
}

func checkURL(v string) error {
	c, err := pgconn.ParseConfig(v)
	// An @ or / in a password ends the password too early; the real @ is then part of the host or the database.
	split := err == nil && strings.Contains(v, "://") &&
		(strings.LastIndex(c.Host, "@") > 0 || strings.Contains(c.Database, "@"))
	if err != nil || split {
		// Both the value and the parser's error may contain the password.
		return errors.New("not a connection string such as postgres://user:password@host:5432/database; " +
			percentEncode)
	}
	return nil
}

// checkFolder accepts a folder, or a path at which a folder can be created.
func checkFolder(v string) error {
	info, err := os.Stat(v)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return fmt.Errorf("%q is not a folder", v)
	}
	return nil
}

// StoredSecret returns the secret in a private file. It creates the file with a random secret if it does not exist.
func StoredSecret(path string) (string, error) {
	b, err := local.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + rand.Text())
		return string(b), local.WritePrivate(path, b)
	}
	if err == nil && len(b) < 32 {
		err = fmt.Errorf("%s is damaged: remove it (all users must then log in again)", path)
	}
	return string(b), err
}
