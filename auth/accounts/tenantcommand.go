package accounts

import (
	"context"
	"flag"
	"fmt"

	"spoolwright/cli"
)

func tenantCommands() []cli.Command {
	return []cli.Command{
		{
			Name: "tenant list", Args: "[--json]", Needs: cli.Farm,
			Help: "list the tenants",
			Setup: func(flags *flag.FlagSet) cli.Run {
				asJSON := jsonFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					tenants, err := Accounts{DB: c.DB}.Tenants(ctx)
					return writeList(c.Out, tenants, err, *asJSON, "TENANT USERS CREATED ID", tenantRow)
				}
			},
		}, {
			Name: "tenant allow-passwords", Args: "NAME", Needs: cli.Farm,
			Help: "allow logins by password where the tenant requires the sign-on at its provider",
			Setup: cli.Without(func(ctx context.Context, c *cli.Call) error {
				tenant, changed, err := Accounts{DB: c.DB}.AllowPasswords(ctx, c.Operands[0])
				if err == nil && !changed {
					err = fmt.Errorf("the tenant %q allows logins by password already", tenant.Name)
				}
				return report(c, err, "users of the tenant %q can log in by password again", tenant.Name)
			}),
		}, {
			Name: "tenant rename", Args: "NAME NEW-NAME", Needs: cli.Farm,
			Help: "change the name of a tenant",
			Setup: cli.Without(func(ctx context.Context, c *cli.Call) error {
				from, to := c.Operands[0], c.Operands[1]
				err := Accounts{DB: c.DB}.RenameTenant(ctx, c.Owner, from, to)
				return report(c, err, "renamed the tenant %q to %q", from, to)
			}),
		}, {
			Name: "tenant remove", Args: "NAME --yes", Needs: cli.Farm,
			Help: "delete a tenant with its users and all its data; this cannot be undone",
			Setup: func(flags *flag.FlagSet) cli.Run {
				yes := flags.Bool("yes", false, "confirm that all data of the tenant are deleted")
				return func(ctx context.Context, c *cli.Call) error {
					name := c.Operands[0]
					if !*yes {
						return cli.Misuse{Err: fmt.Errorf("tenant remove deletes all data of the tenant %q, and this cannot be "+
							"undone: confirm with --yes", name)}
					}
					err := Accounts{DB: c.DB}.RemoveTenant(ctx, c.Owner, name)
					return report(c, err, "removed the tenant %q, its users and all its data", name)
				}
			},
		},
	}
}

func tenantRow(t TenantInfo) []string {
	return []string{t.Name, fmt.Sprint(t.Users), t.CreatedAt.UTC().Format("2006-01-02"), t.ID}
}
