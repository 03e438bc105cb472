// Package demo runs a farm with sample data, to try the API.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/local"
	"spoolwright/server"
)

// sample is a list of requests in the order in which Load sends them. The method is POST unless a request names
// another method. A path or body can contain the ref of an earlier request in braces; Load replaces it with the id of
// the created resource. A body can contain a time as hours from now, such as {hours -2}, and a date as days from
// today.
//
//go:embed farm.json
var sample []byte

var relative = regexp.MustCompile(`\{(hours|days) (-?\d+)\}`)

// moment returns the time or the date for a match of relative.
func moment(relation string) string {
	found := relative.FindStringSubmatch(relation)
	n, _ := strconv.Atoi(found[2]) // the pattern allows only digits
	if found[1] == "days" {
		return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly)
	}
	return time.Now().UTC().Add(time.Duration(n) * time.Hour).Format(time.RFC3339)
}

// Load creates the sample data through the API. It calls send for each request in turn; send returns the id in the
// response.
func Load(send func(method, path string, body []byte) (id string, err error)) error {
	var requests []struct {
		Ref, Method, Path string
		Body              json.RawMessage
	}
	if err := json.Unmarshal(sample, &requests); err != nil {
		return err
	}
	var ids []string // pairs of a ref in braces and an id
	for _, r := range requests {
		refs := strings.NewReplacer(ids...)
		body := relative.ReplaceAllStringFunc(refs.Replace(string(r.Body)), moment)
		id, err := send(cmp.Or(r.Method, http.MethodPost), refs.Replace(r.Path), []byte(body))
		if err != nil {
			return err
		}
		if r.Ref != "" {
			ids = append(ids, "{"+r.Ref+"}", id)
		}
	}
	return nil
}

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
	var answer struct {
		ID    string
		Token string `json:"access_token"`
	}
	send := func(method, path string, body []byte) (id string, err error) {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+l.Addr().String()+path, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		if answer.Token != "" {
			r.Header.Set("Authorization", "Bearer "+answer.Token)
		}
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode >= 300 {
			err = fmt.Errorf("%s %s %s: %s %s", method, path, body, response.Status, text)
		}
		if err != nil {
			return "", err
		}
		err = json.Unmarshal(text, &answer)
		return answer.ID, err
	}
	login, err := json.Marshal(map[string]string{"email": user.Email, "password": user.Password})
	if err == nil {
		_, err = send(http.MethodPost, "/api/v1/auth/login", login)
	}
	if err == nil {
		err = Load(send)
	}
	transport.CloseIdleConnections()
	stop()
	return errors.Join(err, <-stopped)
}
