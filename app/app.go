// Package app puts the program together: it lists the features, their SQL functions, their events and the commands,
// and connects settings, database and server.
package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/catalog"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/demo"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/planning"
	"spoolwright/printers"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/server/openapi"
	"spoolwright/spoolman"
	"spoolwright/stock"
	"spoolwright/web"
	"spoolwright/webhooks"
)

// Features return the routes of the API other than accounts and webhooks, in the order of the documentation.
var Features = []func(*db.DB) []server.Route{
	inventory.Routes,
	printers.Routes,
	catalog.Routes,
	production.Routes(orders.Runs),
	orders.Routes,
	stock.Routes,
	planning.Routes,
}

// Definitions are the SQL functions of the features. A feature comes after those whose functions it calls.
var Definitions = slices.Concat(
	webhooks.Definitions, inventory.Definitions, printers.Definitions, catalog.Definitions, production.Definitions,
	orders.Definitions, stock.Definitions, spoolman.Definitions,
)

// Events are the events that webhooks get.
var Events = slices.Concat(
	webhooks.Events, inventory.Events, catalog.Events, production.Events, orders.Events, stock.Events,
)

// Commands are all commands, in the order of the help. The first one is the default.
var Commands = slices.Concat(
	[]cli.Command{
		{Name: "serve", Help: "serve the API (the default)", Needs: cli.Settings, Setup: cli.Without(serve)},
		demo.Command(func(c cli.Config, d *db.DB) (*server.Server, error) { return newServer(c, d, nil) }, serveOn),
		{Name: "migrate", Help: "migrate the database to this program's schema", Needs: cli.NewFarm,
			Setup: cli.Without(func(context.Context, *cli.Call) error { return nil })}, // opening it has migrated it
		cli.UpgradeCommand,
		cli.HealthCommand,
		cli.VersionCommand,
	},
	accounts.Commands(auth.Rounds),
	inventory.Commands, spoolman.Commands,
	printers.Commands,
	catalog.Commands,
	production.Commands,
	orders.Commands,
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
	demo.RemoveLeftovers(c.Log)
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
		return serveOn(ctx, c, d, l, func(base string, once *auth.OneLogin) error {
			if c.DatabaseURL != "" {
				return nil
			}
			return accounts.FirstLogin(ctx, c, d, base, once, call.Out)
		})
	})
}

// serveOn serves the database on the listeners until ctx ends. It calls announce after the last line that a start
// logs, so that a login that it prints stays in sight. announce gets the URL of the service, and what makes a link of
// a login, or nil if there are no pages.
func serveOn(ctx context.Context, c cli.Config, d *db.DB, l cli.Listeners,
	announce func(base string, once *auth.OneLogin) error,
) error {
	var once *auth.OneLogin
	if c.Web != "off" {
		once = new(auth.OneLogin)
	}
	s, err := newServer(c, d, once)
	if err != nil {
		return err
	}
	if l.Metrics != nil {
		h := &http.Server{Handler: s.Metrics.Handler(), ReadHeaderTimeout: 10 * time.Second}
		go h.Serve(l.Metrics)
		defer h.Close()
	}
	go sweep(ctx, c, d)
	base := c.BaseURL(l)
	c.Log.Info("serving", "url", base, "docs", base+"/docs", "version", cli.BuildVersion())
	if err := announce(base, once); err != nil {
		return err
	}
	err = s.Serve(ctx, l.API)
	c.Log.Info("stopped")
	return err
}

// newServer returns the server. Once is the login of the link that the first start prints, or nil.
func newServer(c cli.Config, d *db.DB, once *auth.OneLogin) (*server.Server, error) {
	tokens, err := auth.NewTokens(c.JWTSecrets, c.AccessTTL, c.RefreshTTL, time.Now)
	if err != nil {
		return nil, err
	}
	hooks := webhooks.New(webhooks.Config{
		DB: d, Secrets: c.JWTSecrets, AllowedNetworks: c.WebhookNetworks, Version: cli.Version, Log: c.Log,
	})
	a := auth.New(d, tokens, auth.NewHasher(auth.Rounds), time.Now)
	routes := a.Routes()
	for _, feature := range Features {
		routes = append(routes, feature(d)...)
	}
	routes = append(routes, hooks.Routes()...)
	var site func(*server.Server) *server.Site
	if c.Web != "off" {
		site = web.New(web.Config{Auth: a, Once: once, Insecure: c.Web == "insecure"})
	}
	surface := spoolman.Surface(d)
	if c.KeyInPath {
		surface.KeyPrefix = spoolman.KeyPrefix
	}
	return server.New(server.Config{
		Routes: routes, Events: Events, Document: openapi.Document,
		Surfaces: []server.Surface{surface}, Site: site, DB: d,
		Authenticate: a.Authenticate, Secrets: c.JWTSecrets, Ready: d.Ready, Stopped: a.Stop,
		Background: hooks.Run,
		PerMinute:  c.PerMinute, PerHour: c.PerHour, TenantPerMinute: c.TenantPerMinute,
		TrustedProxies: c.TrustedProxies, CORSOrigins: c.CORSOrigins,
		HSTS: c.TLSCert != "", DrainDelay: c.DrainDelay, Version: cli.Version, Log: c.Log,
		Metrics: server.NewMetrics(cli.BuildVersion(), d.Stats, hooks.WriteMetrics).WithFurther(d.FurtherUp),
	}), nil
}

// sweep removes expired idempotency keys and summarises the usage ledgers, now and every hour, until ctx ends.
func sweep(ctx context.Context, c cli.Config, d *db.DB) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := server.Sweep(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot remove expired idempotency keys; retrying in an hour", "error", err)
		}
		if err := inventory.SummariseUsage(ctx, d); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot summarise the usage ledgers; retrying in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
