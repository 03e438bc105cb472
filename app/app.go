// Package app puts the program together: it lists the features, their SQL functions, their events and the commands,
// and connects settings, database and server.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/app/follow"
	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/archive"
	"spoolwright/auth/audit"
	"spoolwright/auth/oidc"
	"spoolwright/auth/secrets"
	"spoolwright/catalog"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/orders"
	"spoolwright/orders/pieces"
	"spoolwright/orders/planning"
	"spoolwright/orders/shops"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/production/printers"
	"spoolwright/production/watch"
	"spoolwright/production/watchers"
	"spoolwright/server"
	"spoolwright/server/metrics"
	"spoolwright/server/openapi"
	"spoolwright/spoolman"
	"spoolwright/web"
	"spoolwright/web/start"
	"spoolwright/webhooks"
)

// Features are functions that return the routes of the API, except accounts and webhooks, in the order of the
// documentation.
var Features = []func(*db.DB) []server.Route{
	inventory.Routes,
	imports.Routes,
	printers.Routes,
	catalog.Routes,
	production.Routes(orders.Runs),
	orders.Routes,
	pieces.Routes,
	shops.FileRoutes,
	stock.Routes,
	planning.Routes,
	follow.Routes,
	archive.Routes,
	audit.Routes,
}

// Definitions are the SQL functions of the features. A feature comes after the features whose functions it calls.
var Definitions = slices.Concat(
	auth.Definitions, webhooks.Definitions, inventory.Definitions, printers.Definitions, catalog.Definitions,
	production.Definitions, orders.Definitions, pieces.Definitions, stock.Definitions, spoolman.Definitions,
	start.Definitions,
)

// Events are all events that webhooks can subscribe to.
var Events = slices.Concat(
	webhooks.Events, inventory.Events, catalog.Events, production.Events, orders.Events, stock.Events,
)

// Commands are all commands, in the order of the help. The first command is the default.
var Commands = slices.Concat(
	[]cli.Command{
		{Name: "serve", Help: "serve the API (the default)", Needs: cli.Settings, Setup: cli.Without(serve)},
		demoCommand(),
		{Name: "migrate", Help: "migrate the database to this program's schema", Needs: cli.NewFarm,
			Setup: cli.Without(func(_ context.Context, call *cli.Call) error { // opening the database has migrated it
				_, err := fmt.Fprintln(call.Out, "The database has this program's schema.")
				return err
			})},
		cli.InstallCommand,
		cli.UpgradeCommand,
		cli.HealthCommand,
		cli.VersionCommand,
	},
	accounts.Commands(secrets.Rounds), archive.Commands,
	imports.Commands, inventory.Commands, spoolman.Commands,
	printers.Commands,
	catalog.Commands,
	production.Commands,
	watchers.Commands,
	orders.Commands,
	shops.Commands,
)

// Main runs the command that args name and returns the exit status of the program.
func Main(args []string, getenv func(string) string, in io.Reader, out, stderr io.Writer) int {
	program := cli.Program{Commands: Commands, Definitions: Definitions}
	return program.Main(args, getenv, in, out, stderr)
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, call *cli.Call) error {
	c := call.Config
	if c.DatabaseURL != "" && c.JWTSecrets == nil {
		return cli.Misuse{Err: errors.New("DATABASE_URL requires JWT_SECRET: 32 random bytes or more, the same for all " +
			"instances (for example from `openssl rand -hex 32`)")}
	}
	removeLeftovers(c.Log)
	l, err := cli.Listen(c)
	if err != nil {
		return err
	}
	defer l.Close()
	return cli.WithDatabase(ctx, c, local.Start, func(d *db.DB) error {
		if c.JWTSecrets == nil {
			secret, err := cli.StoredSecret(filepath.Join(c.DataDir, "jwt-secret"))
			if err != nil {
				return err
			}
			c.JWTSecrets = []string{secret}
		}
		return serveOn(ctx, call, c, d, l, func(base string, once *auth.OneLogin) error {
			if c.DatabaseURL != "" {
				return accounts.NoFirstLogin(ctx, c, d, base, call.Out)
			}
			return accounts.FirstLogin(ctx, c, d, base, once, call.Out)
		})
	})
}

// ballast returns memory that is never used, and so takes none of the machine's. It makes the garbage collector wait
// until the heap has about 32 MiB: the objects of a service that many requests use take 8 MiB, and collecting twice as
// often takes a tenth of the processor time of requests. A large heap grows to about twice what is in use, as usual. If
// the environment has GOGC, there is no ballast.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, 16<<20)
}

// serveOn serves the database on the listeners until ctx ends. It calls announce when it is ready, with the URL of
// the service and the OneLogin for a sign-in link, which is nil if there are no pages.
func serveOn(ctx context.Context, call *cli.Call, c cli.Config, d *db.DB, l cli.Listeners,
	announce func(base string, once *auth.OneLogin) error,
) error {
	defer runtime.KeepAlive(ballast())
	own, err := cli.NewOwnTLS(c)
	if err != nil {
		return err
	}
	if own != nil {
		l.API = own.Listener(l.API)
	}
	var once *auth.OneLogin
	if c.Web != "off" {
		once = new(auth.OneLogin)
	}
	s, err := newServer(c, d, once, own)
	if err != nil {
		return err
	}
	if l.Metrics != nil {
		h := &http.Server{Handler: s.Metrics.Handler(), ReadHeaderTimeout: 10 * time.Second}
		go func() {
			if err := h.Serve(l.Metrics); !errors.Is(err, http.ErrServerClosed) {
				c.Log.Error("the metrics are no longer served", "error", err)
			}
		}()
		defer h.Close()
	}
	go sweep(ctx, c, d)
	go analyze(ctx, c, d)
	go compareClocks(ctx, d)
	for _, warning := range append(c.Warnings(), cli.Misspelled(os.Environ())...) {
		c.Log.Warn(warning)
	}
	base := c.BaseURL(l)
	c.Log.Info("serving", "url", base, "docs", base+"/docs", "version", cli.BuildVersion())
	if err := announce(base, once); err != nil {
		return err
	}
	if own != nil {
		own.Announce(l, call.Out)
	}
	err = s.Serve(ctx, l.API)
	c.Log.Info("stopped")
	return err
}

// newServer returns the server. The argument once is the login for the link that the first start prints, or nil; own
// has the certificates of TLS_SELF_SIGNED, or is nil.
func newServer(c cli.Config, d *db.DB, once *auth.OneLogin, own *cli.OwnTLS) (*server.Server, error) {
	tokens, err := auth.NewTokens(c.JWTSecrets, c.AccessTTL, c.RefreshTTL, d.Now)
	if err != nil {
		return nil, err
	}
	sender := c.Mail()
	hooks := webhooks.New(webhooks.Config{
		DB: d, Secrets: c.JWTSecrets, AllowedNetworks: c.WebhookNetworks, Version: cli.Version, Log: c.Log,
		PublicURL: c.PublicURL, Mail: sender,
	})
	a := auth.New(d, tokens, secrets.NewHasher(secrets.Rounds), d.Now)
	outside := webhooks.Config{AllowedNetworks: c.WebhookNetworks}
	if c.Web != "off" { // links lead to pages
		a.SendLinks(sender, c.PublicURL)
		a.SignOnWith(oidc.New(webhooks.NewClient(outside, true), webhooks.NewClient(outside, false), d.Now), c.PublicURL)
	}
	routes := a.Routes()
	for _, feature := range Features {
		routes = append(routes, feature(d)...)
	}
	routes = append(routes, hooks.Routes()...)
	connections := shops.New(d, c.JWTSecrets, time.Now)
	routes = append(routes, connections.Routes()...)
	var dial watch.Dial // nil if the service watches no printers
	if c.Watch {
		dial = watchers.Dial(c.WatchNetworks)
	}
	watched := printers.NewConnections(d, c.JWTSecrets, dial)
	routes = append(routes, watched.Routes()...)
	var site func(*server.Server) *server.Site
	if c.Web != "off" {
		filaments := &inventory.Catalog{DB: d, URL: c.CatalogURL,
			Client: webhooks.NewClient(outside, strings.HasPrefix(c.CatalogURL, "https:"))}
		pages := web.Config{Auth: a, Catalog: filaments, Start: start.New(d), Once: once, Insecure: c.Web == "insecure",
			PublicURL: c.PublicURL, Log: c.Log, Mail: sender, Now: d.Now}
		if own != nil {
			pages.Authority = own.Authority
		}
		site = web.New(pages)
	}
	surface := spoolman.Surface(d)
	if c.KeyInPath {
		surface.KeyPrefix = spoolman.KeyPrefix
	}
	var s *server.Server
	s = server.New(server.Config{
		Routes: routes, Events: Events, Document: openapi.Document,
		Surfaces: []server.Surface{surface}, Receivers: []server.Receiver{connections.Receiver()}, Site: site, DB: d,
		Authenticate: a.Authenticate, Secrets: c.JWTSecrets, Ready: d.Ready, Stopped: a.Stop,
		Background: func(ctx context.Context) {
			levels := stock.Watcher{DB: d, Log: c.Log, Poll: time.Second}
			var watching sync.WaitGroup
			watching.Go(func() { levels.Run(ctx) })
			links := auth.LinkMailer{Service: a, Log: c.Log, Poll: time.Second}
			watching.Go(func() { links.Run(ctx) })
			if dial != nil {
				farms := watchers.Service{API: s, DB: d, Connections: watched, Dial: dial, Log: c.Log}
				watching.Go(func() { farms.Run(ctx) })
			}
			hooks.Run(ctx)
			watching.Wait()
		},
		PerMinute: c.PerMinute, PerHour: c.PerHour, TenantPerMinute: c.TenantPerMinute,
		TrustedProxies: c.TrustedProxies, CORSOrigins: c.CORSOrigins,
		HSTS: c.TLSCert != "", DrainDelay: c.DrainDelay, Version: cli.Version, Log: c.Log,
		Metrics: metrics.New(cli.BuildVersion(), d.Stats, hooks.WriteMetrics),
	})
	return s, nil
}

// sweep removes expired idempotency keys and other old rows, encrypts the keys of printers with the present secret, and
// summarizes the usage ledgers, now and every hour, until ctx ends.
func sweep(ctx context.Context, c cli.Config, d *db.DB) {
	connections := printers.NewConnections(d, c.JWTSecrets, nil)
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := server.Sweep(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot remove expired idempotency keys; retrying in an hour", "error", err)
		}
		if err := audit.Trim(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot delete the old entries of the audit logs; retrying in an hour", "error", err)
		}
		if err := imports.Trim(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot delete what old imports have changed; retrying in an hour", "error", err)
		}
		if err := production.TrimStates(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot delete old changes of the states of printers; retrying in an hour", "error", err)
		}
		if err := connections.Maintain(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot encrypt the keys of printers again; retrying in an hour", "error", err)
		}
		if err := production.SummarizeUsage(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot summarize the usage ledgers; retrying in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// analyze keeps PostgreSQL's statistics up to date until ctx ends.
func analyze(ctx context.Context, c cli.Config, d *db.DB) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.Analyze(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot analyze the tables that have grown; retrying in 15 s", "error", err)
		}
	}
}

// compareClocks compares the clock of this machine with PostgreSQL's each minute until ctx ends: d.Now follows, and a
// large difference is logged.
func compareClocks(ctx context.Context, d *db.DB) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
		check, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = d.Ready(check) // the state is for those who ask /readyz
		cancel()
	}
}
