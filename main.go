// Command spoolwright serves the Spoolwright API: filament spools, product catalog and production runs of 3D-print
// farms, each tenant's data apart from the others'. This file only wires: environment, database, routes, server.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/auth"
	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/inventory"
	"spoolwright/production"
	"spoolwright/server"
)

// version is the release; a build from a checkout adds what Go recorded of it.
const version = "0.1.0"

// features make the routes of the API beyond accounts, in the order of the documentation.
var features = []func(*db.DB) []server.Route{
	inventory.Routes,
	catalog.Routes,
	production.Routes,
}

// definitions are the SQL functions of the features. A feature comes after those whose functions it calls.
var definitions = slices.Concat(inventory.Definitions, catalog.Definitions, production.Definitions)

// routes is the whole API.
func routes(d *db.DB, a *auth.Service) []server.Route {
	all := a.Routes()
	for _, feature := range features {
		all = append(all, feature(d)...)
	}
	return all
}

const usage = `Spoolwright keeps the filament spools, product catalog and production runs of 3D-print farms.

Usage: spoolwright [COMMAND]

  serve                serve the API (also without a command)
  demo                 serve a throwaway farm with sample data on loopback
  migrate              bring the database up to this program's schema
  version [-sbom]      show the version, or the software bill of materials (CycloneDX JSON)
` + auth.CommandUsage + transferUsage + `
Each command shows with -h what it takes.

Environment:
`

const transferUsage = `  import spools FILE.csv --tenant NAME
                       enter spools: all rows of the file, or none
  import spoolman URL|FILE --tenant NAME [--skip-bad]
                       take over the spools of a Spoolman server
  export spools|products|runs --tenant NAME [--format csv|jsonl]
                       write all of them to standard output
`

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// run is the program: 0 is success, 2 a mistake in arguments or environment, 1 any other failure.
func run(args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.Sleep(2 * time.Second) // some send one signal twice, to the process and to its group
		stop()                      // another one ends the program at once
	})

	command := "serve"
	if len(args) > 0 {
		command = args[0]
	}
	fail := func(code int, err error) int {
		fmt.Fprintln(stderr, "spoolwright:", err)
		return code
	}
	switch command {
	case "-h", "-help", "--help", "help":
		printUsage(stdout)
		return 0
	case "version", "-version", "--version":
		if info, ok := debug.ReadBuildInfo(); ok && len(args) == 2 && strings.TrimLeft(args[1], "-") == "sbom" {
			stdout.Write(server.SBOM(info, version))
			return 0
		}
		if len(args) == 2 && isHelp(args[1]) {
			printUsage(stdout)
			return 0
		}
		if len(args) > 1 {
			return fail(2, errors.New("version takes no arguments but -sbom"))
		}
		fmt.Fprintln(stdout, "spoolwright", buildVersion())
		return 0
	}
	var work func(context.Context, *db.DB, streams) error // of the commands that do something in the database and end
	var help bytes.Buffer
	var err error
	switch command {
	case "user", "tenant":
		var accounts func(context.Context, auth.Accounts, io.Reader, io.Writer) error
		accounts, err = auth.ParseCommand(args, &help)
		work = func(ctx context.Context, d *db.DB, s streams) error {
			return accounts(ctx, auth.Accounts{DB: d, Hasher: auth.NewHasher(0)}, s.in, s.out)
		}
	case "import", "export":
		work, err = parseTransfer(args, &help)
	case "serve", "demo", "migrate":
		if len(args) > 1 {
			if isHelp(args[1]) {
				printUsage(stdout)
				return 0
			}
			err = fmt.Errorf("%s takes no arguments (see -h)", command)
		}
	default:
		err = fmt.Errorf("unknown command %q (see -h)", command)
	}
	if errors.Is(err, flag.ErrHelp) {
		stdout.Write(help.Bytes())
		return 0
	}
	if err != nil {
		return fail(2, err)
	}
	c, err := loadConfig(getenv)
	if err != nil {
		return fail(2, err)
	}
	c.log = newLogger(c, stderr)
	switch command {
	case "serve":
		err = serve(ctx, c, stdout, stderr)
	case "demo":
		err = demo(ctx, c, stdout)
	case "migrate":
		err = withDatabase(ctx, c, local.Attach, func(*db.DB) error { return nil })
	default:
		if makes := command == "user" && args[1] == "add"; !makes && c.databaseURL == "" && !local.Exists(c.dataDir) {
			return fail(2, fmt.Errorf("there is no farm in %s: is DATA_DIR right?", c.dataDir))
		}
		err = withDatabase(ctx, c, local.Attach, func(d *db.DB) error { return work(ctx, d, streams{stdin, stdout, stderr}) })
	}
	var m misuse
	switch {
	case err == nil:
		return 0
	case errors.As(err, &m):
		return fail(2, err)
	case errors.Is(err, errInterrupted) && (command == "serve" || command == "demo"):
		c.log.Info("stopped before it was ready")
		return 0
	}
	return fail(1, err)
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exports are what can be exported.
var exports = map[string]func(context.Context, *db.DB, io.Writer, string) (int, error){
	"spools":   inventory.Export,
	"products": catalog.Export,
	"runs":     production.Export,
}

// parseTransfer reads the arguments of import and export. The error is flag.ErrHelp, with the help written, or says what is wrong.
func parseTransfer(args []string, help io.Writer) (func(context.Context, *db.DB, streams) error, error) {
	name := strings.Join(args[:min(2, len(args))], " ")
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	tenant := flags.String("tenant", "", "name of the tenant (spoolwright tenant list shows them)")
	var format string
	var skipBad bool
	var synopsis, about string
	what := strings.TrimPrefix(name, args[0]+" ")
	switch {
	case name == "import spools":
		synopsis = "import spools FILE.csv --tenant NAME"
		about = "The first line names the columns as the API names the fields of a spool; material_type, color, diameter_mm and\n" +
			"net_weight_grams are needed. Each row is held to the rules of the API. If one is not right nothing is imported.\n" +
			"FILE may be - for standard input."
	case name == "import spoolman":
		synopsis = "import spoolman URL|FILE --tenant NAME [--skip-bad]"
		about = "Takes over the spools of a Spoolman server, archived ones too: from its address, such as http://spoolman.local:7912, or\n" +
			"from a file with what its /api/v1/spool answers or what it exports as JSON or CSV. It may be repeated: spools that an\n" +
			"earlier import has entered are left as they are. FILE may be - for standard input."
		flags.BoolVar(&skipBad, "skip-bad", false, "leave out spools that cannot be taken over, instead of importing nothing")
	case args[0] == "export" && exports[what] != nil:
		synopsis = name + " --tenant NAME [--format csv|jsonl]"
		about = "Writes all " + what + " to standard output, oldest first."
		flags.StringVar(&format, "format", "csv", "csv, or jsonl for one JSON object in a line")
	default:
		if isHelp(what) {
			fmt.Fprint(help, "Usage:\n"+transferUsage)
			return nil, flag.ErrHelp
		}
		return nil, fmt.Errorf("%q is no command; there are: import spools, import spoolman, export spools, export products, export runs (see %s -h)", name, args[0])
	}
	var words []string
	for rest := args[2:]; ; rest = flags.Args()[1:] { // flags may stand before the file and after it
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, "Usage: spoolwright %s\n\n%s\n\n", synopsis, about)
			flags.SetOutput(help)
			flags.PrintDefaults()
			return nil, err
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w (see %s -h)", name, err, name)
		}
		if flags.NArg() == 0 {
			break
		}
		words = append(words, flags.Arg(0))
	}
	wanted := 0
	if args[0] == "import" {
		wanted = 1
	}
	switch {
	case len(words) > wanted:
		return nil, fmt.Errorf("%s: %q is not understood (see %s -h)", name, words[wanted], name)
	case len(words) < wanted:
		return nil, fmt.Errorf("%s: say what to import (see %s -h)", name, name)
	case *tenant == "":
		return nil, fmt.Errorf("%s: --tenant is missing; `spoolwright tenant list` shows which there are", name)
	case format != "" && format != "csv" && format != "jsonl":
		return nil, fmt.Errorf("%s: --format must be csv or jsonl", name)
	}
	return func(ctx context.Context, d *db.DB, s streams) error {
		id, err := auth.Accounts{DB: d}.FindTenant(ctx, *tenant)
		if err != nil {
			return err
		}
		ctx = db.As(ctx, db.Actor{Tenant: id})
		if args[0] == "import" {
			err = runImport(ctx, d, s, what, words[0], *tenant, skipBad)
		} else {
			signal.Ignore(syscall.SIGPIPE) // | head: an error like any other, so that what was started is stopped
			out := bufio.NewWriterSize(s.out, 64<<10)
			if _, err = exports[what](ctx, d, out, format); err == nil {
				err = out.Flush()
			}
		}
		return interrupted(ctx, err)
	}, nil
}

func runImport(ctx context.Context, d *db.DB, s streams, what, source, tenant string, skipBad bool) error {
	var file *os.File
	var err error
	switch {
	case source == "-":
		file, err = inventory.Keep(s.in)
	case what == "spoolman":
		file, err = inventory.OpenSpoolman(ctx, source)
	default:
		file, err = os.Open(source)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder, not a file", source)
	} else if err == nil && !info.Mode().IsRegular() { // a pipe can be read only once
		pipe := file
		defer pipe.Close()
		if file, err = inventory.Keep(pipe); err != nil {
			return err
		}
		defer file.Close()
	}
	clear, i := "", inventory.Import{DB: d}
	i.Bad = func(where string, problems []server.FieldError) {
		var texts []string
		for _, p := range problems {
			texts = append(texts, p.Field+" "+p.Message)
		}
		fmt.Fprintf(s.err, "%s%s\n", clear, auth.Printable(where+": "+strings.Join(texts, "; ")))
	}
	if isTerminal(s.err) {
		clear = "\r\x1b[K"
		i.Progress = func(rows int) { fmt.Fprintf(s.err, "%s%d rows", clear, rows) }
	}
	var done inventory.Imported
	if what == "spools" {
		done, err = i.Spools(ctx, file)
	} else {
		done, err = i.Spoolman(ctx, file, skipBad)
	}
	fmt.Fprint(s.err, clear)
	if errors.Is(err, inventory.ErrBadRows) {
		if what == "spoolman" {
			return fmt.Errorf("nothing was imported, because of %d of the spools; put them right in Spoolman, or leave them out with --skip-bad", done.Bad)
		}
		return fmt.Errorf("nothing was imported, because of %d of the rows", done.Bad)
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	text := fmt.Sprintf("%d spools were imported into %s", done.Added, tenant)
	if done.Added == 1 {
		text = "1 spool was imported into " + tenant
	}
	if done.Existing > 0 {
		text += fmt.Sprintf("; %d were there already and are left as they are", done.Existing)
	}
	if done.Bad > 0 {
		text += fmt.Sprintf("; %d were left out", done.Bad)
	}
	fmt.Fprintln(s.out, text)
	return nil
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// misuse is a mistake in the environment that only shows when it is used.
type misuse struct{ error }

func printUsage(w io.Writer) {
	fmt.Fprint(w, usage)
	for _, s := range settings {
		text := s.usage
		if s.value != "" {
			text += " (default " + s.value + ")"
		}
		fmt.Fprintf(w, "  %-28s %s\n", s.name, text)
	}
}

func buildVersion() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " (" + s.Value[:min(12, len(s.Value))] + ")"
			}
		}
	}
	return v
}

// config is the environment, read and checked.
type config struct {
	listen, databaseURL, dataDir string
	jwtSecrets                   []string
	accessTTL, refreshTTL        time.Duration
	perMinute, perHour           int
	trustedProxies               []netip.Prefix
	corsOrigins                  []string
	tlsCert, tlsKey              string
	metricsAddr, migrateURL      string
	maxConns                     int
	drainDelay                   time.Duration
	logFormat                    string
	logLevel                     slog.Level
	log                          *slog.Logger
	throwaway                    bool // demo only
}

// settings are all environment variables. A test compares docs/configuration.md with them.
var settings = []struct {
	name, value, usage string
	set                func(c *config, v string) error
}{
	{"LISTEN_ADDR", "127.0.0.1:8000", "address to serve on", func(c *config, v string) error { c.listen = v; return checkAddr(v) }},
	{"DATABASE_URL", "", "PostgreSQL to use; without it the service runs a private one", func(c *config, v string) error { c.databaseURL = v; return checkURL(v) }},
	{"MIGRATE_DATABASE_URL", "", "login of the database's owner, for migrations; DATABASE_URL is then a login that owns nothing", func(c *config, v string) error { c.migrateURL = v; return checkURL(v) }},
	{"DATA_DIR", "./data", "folder of the private PostgreSQL and of generated secrets", func(c *config, v string) error { c.dataDir = v; return checkFolder(v) }},
	{"JWT_SECRET", "", "secret that signs tokens, 32 bytes at least; several, separated by commas: the first signs, all verify", func(c *config, v string) error {
		for secret := range strings.SplitSeq(v, ",") {
			if secret = strings.TrimSpace(secret); len(secret) < 32 {
				return errors.New("each secret must have at least 32 bytes")
			}
			c.jwtSecrets = append(c.jwtSecrets, secret)
		}
		return nil
	}},
	{"ACCESS_TOKEN_EXPIRE_MINUTES", "30", "lifetime of access tokens", func(c *config, v string) error { return duration(&c.accessTTL, v, time.Minute, 1, 60*24*7) }},
	{"REFRESH_TOKEN_EXPIRE_DAYS", "7", "lifetime of refresh tokens", func(c *config, v string) error { return duration(&c.refreshTTL, v, 24*time.Hour, 1, 3650) }},
	{"RATE_LIMIT_PER_MINUTE", "100", "requests per user and minute; 0 turns the limit off", func(c *config, v string) error { return count(&c.perMinute, v, 0, 1_000_000_000) }},
	{"RATE_LIMIT_PER_HOUR", "1000", "requests per user and hour; 0 turns the limit off", func(c *config, v string) error { return count(&c.perHour, v, 0, 1_000_000_000) }},
	{"TRUSTED_PROXIES", "", "addresses or networks whose X-Forwarded-For is believed, separated by commas", func(c *config, v string) (err error) {
		c.trustedProxies, err = server.ParsePrefixes(v)
		return err
	}},
	{"CORS_ALLOWED_ORIGINS", "", "origins whose pages may call the API, such as https://farm.example, separated by commas", func(c *config, v string) error {
		for origin := range strings.SplitSeq(v, ",") {
			origin = strings.TrimSpace(origin)
			u, err := url.Parse(origin)
			if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
				return fmt.Errorf("%q is no origin such as https://farm.example", origin)
			}
			c.corsOrigins = append(c.corsOrigins, origin)
		}
		return nil
	}},
	{"TLS_CERT_FILE", "", "certificate chain (PEM); with TLS_KEY_FILE the service speaks HTTPS; both are read again when they change", func(c *config, v string) error { c.tlsCert = v; return nil }},
	{"TLS_KEY_FILE", "", "private key (PEM)", func(c *config, v string) error { c.tlsKey = v; return nil }},
	{"METRICS_ADDR", "", "address for /metrics (Prometheus) and /debug/pprof/; for operators only, off without it", func(c *config, v string) error { c.metricsAddr = v; return checkAddr(v) }},
	{"DB_MAX_CONNS", "", "most database connections; eight per core, 8 to 32, unless set; half of them at most for reads", func(c *config, v string) error { return count(&c.maxConns, v, 1, 10_000) }},
	{"DRAIN_SECONDS", "1", "seconds that the service goes on after SIGTERM while /readyz already says no, so that load balancers notice", func(c *config, v string) error {
		return duration(&c.drainDelay, v, time.Second, 0, 600)
	}},
	{"LOG_FORMAT", "text", "text or json", func(c *config, v string) error {
		c.logFormat = v
		if v != "text" && v != "json" {
			return errors.New("must be text or json")
		}
		return nil
	}},
	{"LOG_LEVEL", "info", "debug, info, warn or error", func(c *config, v string) error {
		if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(v)) {
			return errors.New("must be debug, info, warn or error")
		}
		return c.logLevel.UnmarshalText([]byte(v))
	}},
}

func loadConfig(getenv func(string) string) (config, error) {
	var c config
	for _, s := range settings {
		v := getenv(s.name)
		if v == "" {
			v = s.value
		}
		if v == "" {
			continue
		}
		if err := s.set(&c, v); err != nil {
			return c, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	switch {
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return c, errors.New("TLS_CERT_FILE and TLS_KEY_FILE go together")
	case c.migrateURL != "" && c.databaseURL == "":
		return c, errors.New("MIGRATE_DATABASE_URL goes with DATABASE_URL")
	}
	return c, nil
}

func checkAddr(v string) error {
	_, port, err := net.SplitHostPort(v)
	if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is no address such as 127.0.0.1:8000", v)
	}
	return nil
}

func checkURL(v string) error {
	if _, err := pgconn.ParseConfig(v); err != nil {
		// Neither the value nor the parser's error is shown: both may hold the password.
		return errors.New("is no connection string such as postgres://user:password@host:5432/database")
	}
	return nil
}

// checkFolder takes a folder, and a path where one can be made.
func checkFolder(v string) error {
	info, err := os.Stat(v)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return fmt.Errorf("%q is no folder", v)
	}
	return nil
}

func count(to *int, v string, least, most int) (err error) {
	if *to, err = strconv.Atoi(v); err != nil || *to < least || *to > most {
		return fmt.Errorf("%q is no whole number from %d to %d", v, least, most)
	}
	return nil
}

func duration(to *time.Duration, v string, unit time.Duration, least, most int) error {
	var n int
	err := count(&n, v, least, most)
	*to = time.Duration(n) * unit
	return err
}

func newLogger(c config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// withDatabase starts the private PostgreSQL (or uses DATABASE_URL), migrates, opens, runs fn, and undoes all that.
func withDatabase(ctx context.Context, c config, start func(context.Context, local.Options) (*local.Server, error), fn func(*db.DB) error) (err error) {
	ownerURL, appURL := c.migrateURL, c.databaseURL
	if appURL == "" {
		private, err := start(ctx, local.Options{Dir: c.dataDir, Log: c.log, Throwaway: c.throwaway})
		if err != nil {
			return interrupted(ctx, err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			if stopErr := private.Stop(ctx); stopErr != nil && err == nil {
				err = stopErr
			}
		}()
		ownerURL, appURL = private.OwnerURL(), private.AppURL()
	}
	if ownerURL == "" {
		ownerURL = appURL
	}
	applied, err := db.Migrate(ctx, ownerURL, appURL, definitions)
	if err != nil {
		return interrupted(ctx, err)
	}
	if applied != (db.Applied{}) {
		c.log.Info("the database was migrated", "migrations", applied.Migrations, "definitions", applied.Definitions)
	}
	d, err := db.Open(ctx, db.Config{URL: appURL, MaxConns: c.maxConns, Log: c.log, Definitions: definitions})
	if err != nil {
		return interrupted(ctx, err)
	}
	defer d.Close()
	return fn(d)
}

var errInterrupted = errors.New("interrupted")

// interrupted marks the error of a start that was stopped on the way, whatever form it took there.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if c.databaseURL != "" && c.jwtSecrets == nil {
		return misuse{errors.New("DATABASE_URL needs JWT_SECRET too: 32 random bytes or more, the same for all instances (for example from `openssl rand -hex 32`)")}
	}
	l, err := listen(c)
	if err != nil {
		return err
	}
	defer l.Close()
	return withDatabase(ctx, c, local.Start, func(d *db.DB) error {
		if c.jwtSecrets == nil {
			secret, err := keptSecret(filepath.Join(c.dataDir, "jwt-secret"))
			if err != nil {
				return err
			}
			c.jwtSecrets = []string{secret}
		}
		if c.databaseURL == "" {
			if err := firstLogin(ctx, c, d, l.api.Addr(), stdout); err != nil {
				return err
			}
		}
		return serveOn(ctx, c, d, l)
	})
}

func serveOn(ctx context.Context, c config, d *db.DB, l listeners) error {
	s, err := newServer(c, d)
	if err != nil {
		return err
	}
	if l.metrics != nil {
		h := &http.Server{Handler: s.Metrics.Handler(), ReadHeaderTimeout: 10 * time.Second}
		go h.Serve(l.metrics)
		defer h.Close()
	}
	go sweep(ctx, c, d)
	base := baseURL(c, l.api.Addr())
	c.log.Info("serving", "url", base, "docs", base+"/docs", "version", buildVersion())
	err = s.Serve(ctx, l.api)
	c.log.Info("stopped")
	return err
}

// sweep removes expired idempotency keys, now and every hour, until ctx ends.
func sweep(ctx context.Context, c config, d *db.DB) {
	for tick := time.NewTicker(time.Hour); ; {
		if err := server.Sweep(ctx, d); err != nil && ctx.Err() == nil {
			c.log.Warn("expired idempotency keys could not be removed; trying again in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

func newServer(c config, d *db.DB) (*server.Server, error) {
	tokens, err := auth.NewTokens(c.jwtSecrets, c.accessTTL, c.refreshTTL, time.Now)
	if err != nil {
		return nil, err
	}
	a := auth.New(d, tokens, auth.NewHasher(0), time.Now)
	return server.New(server.Config{
		Routes: routes(d, a), Secrets: c.jwtSecrets, DB: d, Authenticate: a.Authenticate, Ready: d.Ready, PerMinute: c.perMinute, PerHour: c.perHour,
		TrustedProxies: c.trustedProxies, CORSOrigins: c.corsOrigins, HSTS: c.tlsCert != "", Version: version, Log: c.log, DrainDelay: c.drainDelay,
		Metrics: server.NewMetrics(buildVersion(), d.Stats),
	}), nil
}

// listeners are the addresses that the service holds. They are taken before anything else happens, so that an address
// in use changes nothing.
type listeners struct{ api, metrics net.Listener } // metrics may be nil

func (l listeners) Close() {
	l.api.Close()
	if l.metrics != nil {
		l.metrics.Close()
	}
}

func listen(c config) (l listeners, err error) {
	certificate := &keyPair{cert: c.tlsCert, key: c.tlsKey, log: c.log}
	if c.tlsCert != "" {
		if _, err := certificate.get(nil); err != nil {
			return l, misuse{fmt.Errorf("TLS_CERT_FILE and TLS_KEY_FILE: %w", err)}
		}
	}
	if l.api, err = net.Listen("tcp", c.listen); err != nil {
		return l, fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if c.metricsAddr != "" {
		if l.metrics, err = net.Listen("tcp", c.metricsAddr); err != nil {
			l.api.Close()
			return l, fmt.Errorf("METRICS_ADDR: %w", err)
		}
	}
	if c.tlsCert != "" {
		l.api = tls.NewListener(l.api, &tls.Config{GetCertificate: certificate.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	}
	return l, nil
}

func baseURL(c config, addr net.Addr) string {
	scheme := "http"
	if c.tlsCert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr.String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// keyPair reads a certificate again when its files change, looking at most once a second.
type keyPair struct {
	cert, key string
	mu        sync.Mutex
	looked    time.Time
	changed   [2]time.Time
	refused   [2]time.Time // what was complained about
	log       *slog.Logger
	loaded    *tls.Certificate
}

func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.loaded != nil && time.Since(k.looked) < time.Second {
		return k.loaded, nil
	}
	k.looked = time.Now()
	var changed [2]time.Time
	for i, path := range []string{k.cert, k.key} {
		if info, err := os.Stat(path); err == nil {
			changed[i] = info.ModTime()
		}
	}
	if k.loaded != nil && changed == k.changed {
		return k.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		if k.loaded != nil { // perhaps half-written: the old pair serves until the new one is whole
			if changed != k.refused {
				k.log.Warn("the new certificate is not taken; the old one serves on", "error", err)
			}
			k.refused = changed
			return k.loaded, nil
		}
		return nil, err
	}
	k.loaded, k.changed = &pair, changed
	return k.loaded, nil
}

// keptSecret reads a secret that an earlier start made, or makes it.
func keptSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b = []byte(rand.Text() + rand.Text())
		return string(b), writeSecret(path, b)
	}
	if err == nil && len(b) < 32 {
		err = fmt.Errorf("%s is damaged: remove it (all users then have to log in again)", path)
	}
	return string(b), err
}

// writeSecret writes a file that only this account may read, whole or not at all.
func writeSecret(path string, b []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// firstLogin makes a tenant and its admin when there is nobody yet, and says the password once: on a terminal, or in a file.
func firstLogin(ctx context.Context, c config, d *db.DB, addr net.Addr, stdout io.Writer) error {
	tenants, err := d.Tenants(ctx)
	if err != nil || len(tenants) > 0 {
		return err
	}
	admin := auth.NewUser{Tenant: "farm", Email: "admin@farm.example", Name: "Admin", Role: "admin", Password: auth.RandomPassword()}
	text := loginText(baseURL(c, addr), admin)
	path := filepath.Join(c.dataDir, "first-login")
	onTerminal := isTerminal(stdout)
	if !onTerminal {
		// Before the user is made: a crash in between must not leave a password that nobody knows.
		if err := writeSecret(path, []byte(text)); err != nil {
			return err
		}
	}
	if _, err := (auth.Accounts{DB: d, Hasher: auth.NewHasher(0)}).Add(ctx, admin); err != nil {
		return err
	}
	if onTerminal {
		_, err = fmt.Fprint(stdout, "\nThis is shown once.\n\n", text, "\n")
		return err
	}
	c.log.Info("the first login was made; its password is in a file that only this account may read", "file", path)
	return nil
}

func loginText(base string, u auth.NewUser) string {
	return fmt.Sprintf("e-mail:   %s\npassword: %s\n\ncurl -s %s/api/v1/auth/login -H 'Content-Type: application/json' -d '{\"email\":\"%s\",\"password\":\"%s\"}'\n",
		u.Email, u.Password, base, u.Email, u.Password)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

//go:embed testdata/demo.json
var demoData []byte

// demo serves a farm with known credentials and sample data; nothing of it stays.
func demo(ctx context.Context, c config, stdout io.Writer) error {
	host, _, _ := net.SplitHostPort(c.listen)
	if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && host != "localhost" {
		return misuse{errors.New("demo serves on loopback only, for its password is known: set LISTEN_ADDR to 127.0.0.1 and a port")}
	}
	dir, err := os.MkdirTemp("", "spoolwright-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // the account of PostgreSQL has to enter
		return err
	}
	c.dataDir, c.databaseURL, c.migrateURL, c.throwaway = dir, "", "", true
	c.jwtSecrets = []string{rand.Text() + rand.Text()}
	l, err := listen(c)
	if err != nil {
		return err
	}
	defer l.Close()
	return withDatabase(ctx, c, local.Start, func(d *db.DB) error {
		user := auth.NewUser{Tenant: "demo farm", Email: "demo@farm.example", Name: "Demo", Role: "admin", Password: "demo-password"}
		actor, err := (auth.Accounts{DB: d, Hasher: auth.NewHasher(0)}).Add(ctx, user)
		if err != nil {
			return err
		}
		if err := loadDemo(c, d, actor); err != nil {
			return fmt.Errorf("sample data: %w", err)
		}
		base := baseURL(c, l.api.Addr())
		fmt.Fprintf(stdout, "\nA demo farm; everything is gone when it stops (Ctrl-C).\n\n%s\nTry it in a browser: %s/docs\n\n", loginText(base, user), base)
		return serveOn(ctx, c, d, l)
	})
}

// loadDemo sends the sample data through the API, as a client would, but without limits.
func loadDemo(c config, d *db.DB, actor db.Actor) error {
	c.perMinute, c.perHour, c.log = 0, 0, slog.New(slog.DiscardHandler)
	s, err := newServer(c, d)
	if err != nil {
		return err
	}
	tokens, err := auth.NewTokens(c.jwtSecrets, c.accessTTL, c.refreshTTL, time.Now)
	if err != nil {
		return err
	}
	token, err := tokens.Access(auth.Principal{TenantID: actor.Tenant, UserID: actor.User, Role: actor.Role})
	if err != nil {
		return err
	}
	type fields = map[string]any
	var data struct {
		Spools   []fields
		Products []struct {
			Ref        string
			Product    fields
			Materials  []fields
			Components []fields
		}
		Runs []struct {
			Run       fields
			Items     []fields
			Materials []fields
			Complete  bool
		}
	}
	if err := json.Unmarshal(demoData, &data); err != nil {
		return err
	}
	ids := map[any]any{}
	send := func(path string, body fields) (id any, err error) {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequest("POST", path, bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := &answerBuffer{header: http.Header{}}
		s.ServeHTTP(w, r)
		if w.status >= 300 {
			return nil, fmt.Errorf("POST %s %s: %d %s", path, b, w.status, w.body.String())
		}
		var made struct{ ID any }
		return made.ID, json.Unmarshal(w.body.Bytes(), &made)
	}
	// refer puts the id of what the sample data calls by a name of its own.
	refer := func(body fields, reference, field string) {
		body[field] = ids[body[reference]]
		delete(body, reference)
	}
	for _, spool := range data.Spools {
		reference := spool["ref"]
		delete(spool, "ref")
		if ids[reference], err = send("/api/v1/spools", spool); err != nil {
			return err
		}
	}
	for _, p := range data.Products {
		id, err := send("/api/v1/products", p.Product)
		if err != nil {
			return err
		}
		ids[p.Ref] = id
		path := fmt.Sprint("/api/v1/products/", id)
		for _, material := range p.Materials {
			if _, err := send(path+"/materials", material); err != nil {
				return err
			}
		}
		for _, component := range p.Components {
			refer(component, "product_ref", "component_product_id")
			if _, err := send(path+"/components", component); err != nil {
				return err
			}
		}
	}
	for _, r := range data.Runs {
		id, err := send("/api/v1/production-runs", r.Run)
		if err != nil {
			return err
		}
		path := fmt.Sprint("/api/v1/production-runs/", id)
		for _, item := range r.Items {
			refer(item, "product_ref", "product_id")
			if _, err := send(path+"/items", item); err != nil {
				return err
			}
		}
		for _, material := range r.Materials {
			refer(material, "spool_ref", "spool_id")
			if _, err := send(path+"/materials", material); err != nil {
				return err
			}
		}
		if r.Complete {
			if _, err := send(path+"/complete", nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerBuffer is a ResponseWriter in memory.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerBuffer) Header() http.Header         { return a.header }
func (a *answerBuffer) WriteHeader(status int)      { a.status = status }
func (a *answerBuffer) Write(b []byte) (int, error) { return a.body.Write(b) }
