package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"spoolwright/auth"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

func keyCommands() []cli.Command {
	return []cli.Command{
		{
			Name: "key add", Needs: cli.Farm,
			Args: "--name N --role viewer|operator|printer|watcher [--tenant NAME] [--expires TIME]",
			Help: "create an API key and print its secret, which is shown only once",
			Setup: func(flags *flag.FlagSet) cli.Run {
				var k NewKey
				flags.StringVar(&k.Tenant, "tenant", "", "name of the tenant; optional if there is only one")
				flags.StringVar(&k.Name, "name", "", "what the key is for")
				flags.StringVar(&k.Role, "role", "", "viewer, operator, printer or watcher")
				flags.StringVar(&k.Expires, "expires", "",
					"day or RFC 3339 time at which the key expires; without it, never")
				return func(ctx context.Context, c *cli.Call) error {
					secret, err := Accounts{DB: c.DB}.AddKey(ctx, k)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintln(c.Out, secret)
					return err
				}
			},
		}, {
			Name: "key list", Args: "[--tenant NAME] [--json]", Needs: cli.Farm,
			Help: "list the API keys, without their secrets",
			Setup: func(flags *flag.FlagSet) cli.Run {
				tenant := flags.String("tenant", "", "only this tenant's keys")
				asJSON := jsonFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					keys, err := Accounts{DB: c.DB}.Keys(ctx, *tenant)
					return writeList(c.Out, keys, err, *asJSON, "TENANT NAME ROLE STATE USED HINT ID", keyRow)
				}
			},
		}, {
			Name: "key revoke", Args: "ID", Needs: cli.Farm,
			Help: "reject the requests of an API key from now on; this cannot be undone",
			Setup: cli.Without(func(ctx context.Context, c *cli.Call) error {
				name, err := Accounts{DB: c.DB}.RevokeKey(ctx, c.Operands[0])
				return report(c, err, "revoked the API key %q", name)
			}),
		},
	}
}

// NewKey is the input of Accounts.AddKey. Expires is a day or an RFC 3339 time; if it is empty, the key never expires.
type NewKey struct{ Tenant, Name, Role, Expires string }

// AddKey creates an API key of the tenant and returns its secret. It validates the key by the rules of POST
// /api/v1/api-keys; the error names the invalid fields.
func (a Accounts) AddKey(ctx context.Context, k NewKey) (secret string, err error) {
	body := map[string]string{"name": k.Name, "role": k.Role}
	if k.Expires != "" {
		if _, err := time.Parse(time.DateOnly, k.Expires); err == nil {
			k.Expires += "T00:00:00Z"
		}
		body["expires_at"] = k.Expires
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	in, err := server.DecodeBody[auth.AccessKey](text)
	if err == nil {
		err = auth.CheckExpiry(in.ExpiresAt, time.Now())
	}
	if err != nil {
		return "", withoutCode(err)
	}
	tenant, err := a.FindTenant(ctx, k.Tenant)
	if err != nil {
		return "", err
	}
	key, err := auth.InsertKey(db.As(ctx, db.Actor{Tenant: tenant.ID}), a.DB, &in)
	if err != nil {
		return "", withoutCode(err)
	}
	var created struct{ Key string }
	err = json.Unmarshal(key, &created)
	return created.Key, err
}

// KeyInfo is an API key as the commands show it.
type KeyInfo struct {
	Tenant     string     `json:"tenant"`
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Hint       string     `json:"hint"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
}

// Keys returns the API keys of the named tenant, or of all tenants if the name is empty.
func (a Accounts) Keys(ctx context.Context, tenant string) ([]KeyInfo, error) {
	tenants, err := a.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	if tenant != "" {
		t, err := choose(tenants, tenant)
		if err != nil {
			return nil, err
		}
		tenants = []TenantInfo{t}
	}
	all := []KeyInfo{}
	for _, t := range tenants {
		var keys []KeyInfo
		err := a.DB.Read(db.As(ctx, db.Actor{Tenant: t.ID}), db.SQL(`
			select coalesce(json_agg(json_build_object(
				'tenant', $1::text, 'id', id, 'name', name, 'role', role, 'hint', hint, 'created_at', created_at,
				'expires_at', expires_at, 'last_used_at', last_used_at, 'revoked_at', revoked_at)
				order by created_at, id), '[]')
			from api_keys`, t.Name).Into(&keys))
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// RevokeKey revokes the API key with the id, of any tenant, and returns its name.
func (a Accounts) RevokeKey(ctx context.Context, id string) (name string, err error) {
	id, ok := value.ParseID(id)
	if !ok {
		return "", cli.Misuse{Err: errors.New("the id must be a UUID, as key list shows it")}
	}
	found := errors.New("found")
	err = a.DB.EachTenant(ctx, func(ctx context.Context, _ string) error {
		revoke := auth.RevokeKey(id)
		revoke[0].Into(&name)
		err := a.DB.Write(ctx, revoke...)
		if err == nil && revoke[0].Rows() > 0 {
			err = found
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return name, nil
	case err != nil:
		return "", err
	}
	return "", errors.New("no API key has this id; `spoolwright key list` lists the keys")
}

func keyRow(k KeyInfo) []string {
	state, used := "valid", "never"
	switch {
	case k.RevokedAt != nil:
		state = "revoked"
	case k.ExpiresAt != nil && !k.ExpiresAt.After(time.Now()):
		state = "expired"
	}
	if k.LastUsedAt != nil {
		used = k.LastUsedAt.UTC().Format("2006-01-02 15:04")
	}
	return []string{k.Tenant, k.Name, k.Role, state, used, k.Hint, k.ID}
}
