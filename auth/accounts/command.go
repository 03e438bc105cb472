package accounts

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"spoolwright/auth/secrets"
	"spoolwright/cli"
	"spoolwright/db"
)

// Commands returns the account commands. They hash passwords with the number of rounds.
func Commands(rounds int) []cli.Command {
	return slices.Concat(userCommands(rounds), tenantCommands(), keyCommands())
}

func userCommands(rounds int) []cli.Command {
	accounts := func(d *db.DB) Accounts { return Accounts{DB: d, Hasher: secrets.NewHasher(rounds)} }
	return []cli.Command{
		{
			Name: "user add",
			Args: "--email E --name N --role admin|operator|viewer [--tenant NAME] [--new-tenant] " +
				"[--password-stdin] [--init]",
			Help:  "create a user; without --password-stdin, a random password is generated and printed",
			Needs: cli.InitFarm,
			Setup: func(flags *flag.FlagSet) cli.Run {
				var u NewUser
				flags.StringVar(&u.Tenant, "tenant", "", "name of the tenant; optional if there is only one")
				flags.BoolVar(&u.NewTenant, "new-tenant", false, "create the tenant if it does not exist")
				flags.StringVar(&u.Email, "email", "", "e-mail, unique across all tenants")
				flags.StringVar(&u.Name, "name", "", "the person's name")
				flags.StringVar(&u.Role, "role", "", "admin, operator or viewer")
				stdin := passwordFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					return withPassword(c, *stdin, func(password string) error {
						u.Password = password
						_, err := accounts(c.DB).Add(ctx, u)
						return err
					})
				}
			},
		}, {
			Name: "user passwd", Args: "--email E [--password-stdin]", Needs: cli.Farm,
			Help: "set a new password; ends the user's sessions",
			Setup: func(flags *flag.FlagSet) cli.Run {
				email, stdin := emailFlag(flags), passwordFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					return withPassword(c, *stdin, func(password string) error {
						return accounts(c.DB).SetPassword(ctx, *email, password)
					})
				}
			},
		}, {
			Name: "user disable", Args: "--email E", Needs: cli.Farm,
			Help:  "reject the user's requests from now on; allowed for the last admin too",
			Setup: setDisabled(true),
		}, {
			Name: "user enable", Args: "--email E", Needs: cli.Farm,
			Help:  "let a disabled user log in again",
			Setup: setDisabled(false),
		}, {
			Name: "user reset-otp", Args: "--email E", Needs: cli.Farm,
			Help: "remove a user's second factor, so that a login needs only the password; ends the user's sessions",
			Setup: func(flags *flag.FlagSet) cli.Run {
				email := emailFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					err := Accounts{DB: c.DB}.ResetFactor(ctx, *email)
					return report(c, err, "removed the second factor of %s; all sessions have ended", strings.TrimSpace(*email))
				}
			},
		}, {
			Name: "user move", Args: "--email E --tenant NAME", Needs: cli.Farm,
			Help: "move a user to another tenant, with the same password, second factor and role; ends the user's sessions",
			Setup: func(flags *flag.FlagSet) cli.Run {
				email, tenant := emailFlag(flags), flags.String("tenant", "", "name of the new tenant")
				return func(ctx context.Context, c *cli.Call) error {
					from, to, err := accounts(c.DB).MoveUser(ctx, c.Owner, *email, *tenant)
					return report(c, err, "moved %s from the tenant %q to %q; all sessions have ended", *email, from,
						to)
				}
			},
		}, {
			Name: "user remove", Args: "--email E", Needs: cli.Farm,
			Help: "delete a user; the usage ledger keeps the user's name; allowed for the last admin too",
			Setup: func(flags *flag.FlagSet) cli.Run {
				email := emailFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					tenant, err := accounts(c.DB).RemoveUser(ctx, c.Owner, *email)
					return report(c, err, "removed %s from the tenant %q; all sessions have ended", *email, tenant)
				}
			},
		}, {
			Name: "user list", Args: "[--tenant NAME] [--json]", Needs: cli.Farm,
			Help: "list the users",
			Setup: func(flags *flag.FlagSet) cli.Run {
				tenant := flags.String("tenant", "", "only this tenant's users")
				asJSON := jsonFlag(flags)
				return func(ctx context.Context, c *cli.Call) error {
					users, err := Accounts{DB: c.DB}.Users(ctx, *tenant)
					return writeList(c.Out, users, err, *asJSON, "TENANT EMAIL NAME ROLE STATE ID", accountRow)
				}
			},
		},
	}
}

// report prints a line that describes what a command did. If err is not nil, it prints nothing and returns err.
func report(c *cli.Call, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, cli.Printable(fmt.Sprintf(format, args...)))
	return err
}

func emailFlag(flags *flag.FlagSet) *string { return flags.String("email", "", "the user's e-mail") }

func passwordFlag(flags *flag.FlagSet) *bool {
	return flags.Bool("password-stdin", false, "read the password from standard input (one line)")
}

func jsonFlag(flags *flag.FlagSet) *bool { return flags.Bool("json", false, "print JSON") }

func setDisabled(disabled bool) func(*flag.FlagSet) cli.Run {
	return func(flags *flag.FlagSet) cli.Run {
		email := emailFlag(flags)
		return func(ctx context.Context, c *cli.Call) error {
			err := Accounts{DB: c.DB}.SetDisabled(ctx, *email, disabled)
			what := "enabled"
			if disabled {
				what = "disabled"
			}
			return report(c, err, "%s %s; all sessions have ended", what, strings.TrimSpace(*email))
		}
	}
}

// withPassword calls use with the password from standard input if stdin is set, and otherwise with a random password,
// which it then prints.
func withPassword(c *cli.Call, stdin bool, use func(password string) error) error {
	if !stdin {
		password := secrets.RandomPassword()
		if err := use(password); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.Out, "password: %s\n", password)
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(c.In, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	password := strings.TrimRight(line, "\r\n")
	if err := secrets.CheckPassword(password); err != nil {
		return fmt.Errorf("the password on standard input %w", err)
	}
	return use(password)
}

func accountRow(a Account) []string {
	state := "enabled"
	if a.Disabled != nil {
		state = "disabled"
	}
	if a.OTP {
		state += ", second factor"
	}
	return []string{a.Tenant, a.Email, a.Name, a.Role, state, a.ID}
}

// writeList writes a list as JSON or as a table with a header. If err is not nil, it writes nothing and returns err.
func writeList[T any](w io.Writer, list []T, err error, asJSON bool, header string, row func(T) []string) error {
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(header, " ", "\t"))
	for _, item := range list {
		cells := row(item)
		for i, cell := range cells {
			cells[i] = cli.Printable(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// InTenant adds the flag tenant. It returns a function that calls run in a context of the tenant with that name, or of
// the only tenant if the flag is not given. If there is no such tenant, the error lists the tenants.
func InTenant(flags *flag.FlagSet, run cli.Run) cli.Run {
	name := flags.String("tenant", "", "name of the tenant (see tenant list); optional if there is only one")
	return func(ctx context.Context, c *cli.Call) error {
		tenant, err := Accounts{DB: c.DB}.FindTenant(ctx, *name)
		if err != nil {
			return err
		}
		return run(db.As(ctx, db.Actor{Tenant: tenant.ID}), c)
	}
}
