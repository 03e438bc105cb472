package accounts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"spoolwright/cli"
	"spoolwright/db"
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
					header := "TENANT USERS CREATED ID"
					if len(tenants) > 0 && tenants[0].Home != nil {
						header += " DATABASE"
					}
					return writeList(c.Out, tenants, err, *asJSON, header, tenantRow)
				}
			},
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
		}, {
			Name: "tenant move", Args: "--tenant NAME --to N", Needs: cli.Farm,
			Help: "move a tenant to another database\n\n" +
				"N is a number of tenant list: 0 is DATABASE_URL, 1 the first of FURTHER_DATABASE_URLS. Writes of the tenant " +
				"get a 503 meanwhile, reads work. All rows are compared before the old ones are deleted. If the command is " +
				"interrupted, repeat it, or move the tenant back.",
			Setup: func(flags *flag.FlagSet) cli.Run {
				name := flags.String("tenant", "", "name of the tenant")
				to := flags.String("to", "", "number of the database")
				return func(ctx context.Context, c *cli.Call) error {
					n, err := strconv.Atoi(*to)
					if err != nil || n < 0 || n > len(c.Owner.Further) {
						return cli.Misuse{Err: fmt.Errorf("--to must be the number of a database: from 0, that of DATABASE_URL, to %d "+
							"(see FURTHER_DATABASE_URLS)", len(c.Owner.Further))}
					}
					if len(c.Owner.Further) == 0 {
						return cli.Misuse{Err: errors.New("there is only one database: set FURTHER_DATABASE_URLS")}
					}
					tenant, err := Accounts{DB: c.DB}.FindTenant(ctx, *name)
					if err != nil {
						return err
					}
					err = db.Move{Owner: c.Owner, Tenant: tenant.ID, To: n, Progress: func(line string) {
						fmt.Fprintln(c.Out, line)
					}}.Run(ctx)
					return report(c, err, "the tenant %q is in database %d", tenant.Name, n)
				}
			},
		},
	}
}

func tenantRow(t TenantInfo) []string {
	row := []string{t.Name, fmt.Sprint(t.Users), t.CreatedAt.UTC().Format("2006-01-02"), t.ID}
	if t.Away {
		row[0], row[1], row[2] = "(out of reach)", "", ""
	}
	if t.Home != nil {
		row = append(row, fmt.Sprint(*t.Home))
	}
	return row
}
