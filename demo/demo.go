// Package demo runs a farm with sample data, to try the API.
package demo

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

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/local"
	"spoolwright/server"
	"spoolwright/start"
)

// Command returns the command demo. The arguments are functions of package app that create a server and serve it.
func Command(newServer func(cli.Config, *db.DB) (*server.Server, error),
	serve func(context.Context, cli.Config, *db.DB, cli.Listeners, func(string, *auth.OneLogin) error) error,
) cli.Command {
	return cli.Command{
		Name: "demo", Needs: cli.Settings,
		Help: "serve a throwaway farm with sample data on loopback",
		Setup: cli.Without(func(ctx context.Context, call *cli.Call) error {
			c := call.Config
			host, _, _ := net.SplitHostPort(c.Listen)
			if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && host != "localhost" {
				return cli.Misuse{Err: errors.New("demo serves on loopback only, because its password is public: " +
					"set LISTEN_ADDR to 127.0.0.1 and a port")}
			}
			RemoveLeftovers(c.Log)
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
				a := accounts.Accounts{DB: d, Hasher: auth.NewHasher(auth.Rounds)}
				if _, err := a.Add(ctx, user); err != nil {
					return err
				}
				if err := load(ctx, c, d, user, newServer); err != nil {
					return fmt.Errorf("sample data: %w", err)
				}
				return serve(ctx, c, d, l, func(base string, once *auth.OneLogin) error {
					return accounts.Announce(call.Out, "A demo farm; everything is gone when it stops (Ctrl-C).", base,
						accounts.Link(base, once, user), user)
				})
			})
		}),
	}
}

// load sends the sample data, as the user, to a second server without request limits.
func load(ctx context.Context, c cli.Config, d *db.DB, user accounts.NewUser,
	newServer func(cli.Config, *db.DB) (*server.Server, error)) error {
	c.PerMinute, c.PerHour, c.DrainDelay, c.Log = 0, 0, 0, slog.New(slog.DiscardHandler)
	s, err := newServer(c, d)
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
	err = fill(ctx, d, user, &token, send)
	transport.CloseIdleConnections()
	stop()
	return errors.Join(err, <-stopped)
}

// fill logs in as the user, and fills the farm with settings and sample data. It sets token to the access token.
func fill(ctx context.Context, d *db.DB, user accounts.NewUser, token *string,
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
	rates := start.Request{Method: http.MethodPatch, Path: "/api/v1/settings", Body: []byte(settings)}
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

// settings are the currency and the rates of the farm.
const settings = `{"currency": "EUR", "labour_hour_cost": 24, "machine_hour_cost": 0.35, "machine_power_watts": 120,
	"energy_kwh_cost": 0.31, "failure_rate_percent": 5}`
