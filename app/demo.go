package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/web/start"
)

// demoCommand runs a farm with sample data and watched printers, to try the API.
func demoCommand() cli.Command {
	return cli.Command{
		Name: "demo", Needs: cli.Settings,
		Help: "serve a throwaway farm with sample data and, unless WATCH=off, watched printers on loopback",
		Setup: cli.Without(func(ctx context.Context, call *cli.Call) error {
			c := call.Config
			host, _, _ := net.SplitHostPort(c.Listen)
			if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && host != "localhost" {
				return cli.Misuse{Err: errors.New("demo serves on loopback only, because its password is public: " +
					"set LISTEN_ADDR to 127.0.0.1 and a port")}
			}
			removeLeftovers(c.Log)
			dir, remove, err := makeFolder()
			if err != nil {
				return err
			}
			defer remove()
			c.DataDir, c.DatabaseURL, c.MigrateURL, c.Throwaway = dir, "", "", true
			c.JWTSecrets = []string{rand.Text() + rand.Text()}
			l, err := cli.Listen(c)
			if err != nil {
				return err
			}
			defer l.Close()
			return cli.WithDatabase(ctx, c, local.Start, func(d *db.DB) error {
				user := accounts.NewUser{Tenant: "demo farm", NewTenant: true, Email: "demo@farm.example",
					Name: "Demo", Role: "admin", Password: "demo-password"}
				a := accounts.Accounts{DB: d, Hasher: secrets.NewHasher(secrets.Rounds)}
				if _, err := a.Add(ctx, user); err != nil {
					return err
				}
				c.Watch = os.Getenv("WATCH") != "off"
				c.WatchNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
				if err := loadDemo(ctx, c, d, user); err != nil {
					return fmt.Errorf("sample data: %w", err)
				}
				return serveOn(ctx, call, c, d, l, func(base string, once *auth.OneLogin) error {
					return accounts.Announce(call.Out, "a demo farm", base, accounts.Link(base, once, user), user,
						"Ctrl-C; then everything is gone")
				})
			})
		}),
	}
}

// loadDemo sends the sample data, as the user, to a second server without request limits.
func loadDemo(ctx context.Context, c cli.Config, d *db.DB, user accounts.NewUser) error {
	watch := c.Watch
	c.Watch, c.PerMinute, c.PerHour, c.DrainDelay, c.Log = false, 0, 0, 0, slog.New(slog.DiscardHandler)
	s, err := newServer(c, d, nil, nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(serving, l) }()

	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	var token string
	send := func(request start.Request) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, request.Method, "http://"+l.Addr().String()+request.Path,
			bytes.NewReader(request.Body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", cmp.Or(request.Media, "application/json"))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode >= 300 {
			err = fmt.Errorf("%s %s %s: %s %s", request.Method, request.Path, request.Body, response.Status, text)
		}
		return text, err
	}
	if err = fillDemo(ctx, d, user, &token, send); err == nil && watch {
		err = watchDemo(ctx, send)
	}
	transport.CloseIdleConnections()
	stop()
	return errors.Join(err, <-stopped)
}

// fillDemo logs in as the user, and fills the farm with settings and sample data. It sets token to the access token.
func fillDemo(ctx context.Context, d *db.DB, user accounts.NewUser, token *string,
	send func(start.Request) ([]byte, error)) error {
	login, err := json.Marshal(map[string]string{"email": user.Email, "password": user.Password})
	if err != nil {
		return err
	}
	answer, err := send(start.Request{Method: http.MethodPost, Path: "/api/v1/auth/login", Body: login})
	if err != nil {
		return err
	}
	var session struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(answer, &session); err != nil {
		return err
	}
	*token = session.Token
	rates := start.Request{Method: http.MethodPatch, Path: "/api/v1/settings", Body: []byte(demoSettings)}
	if _, err := send(rates); err != nil {
		return err
	}
	actor, _, err := d.FindLogin(ctx, auth.EmailKey(user.Email))
	if err != nil {
		return err
	}
	actor.Role = user.Role
	ctx = db.As(ctx, actor)
	steps := start.New(d)
	if err := steps.Hide(ctx); err != nil {
		return err
	}
	return steps.Fill(ctx, send)
}

// demoSettings are the currency and the rates of the farm.
const demoSettings = `{"currency": "EUR", "labour_hour_cost": 24, "machine_hour_cost": 0.35, "machine_power_watts": 120,
	"energy_kwh_cost": 0.31, "failure_rate_percent": 5}`
