package auth

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// CommandUsage is the help text of the account commands.
const CommandUsage = `  user add --tenant NAME --email E --name N --role admin|operator|viewer [--password-stdin]
                       make a user, and the tenant if it is new; without
                       --password-stdin a random password is made and shown
  user passwd --email E [--password-stdin]
                       set a new password; ends the user's sessions
  user disable --email E
                       refuse the user from now on; also the last admin
  user enable --email E
                       let a disabled user in again
  user list [--tenant NAME] [--json]
  tenant list [--json]
`

// ParseCommand reads the arguments of an account command ("user", "add", ...). The error is flag.ErrHelp or says what
// is wrong; stderr then has the help. The returned function does the work.
func ParseCommand(args []string, stderr io.Writer) (func(ctx context.Context, a Accounts, stdin io.Reader, stdout io.Writer) error, error) {
	name := strings.Join(args[:min(2, len(args))], " ")
	flags := flag.NewFlagSet("spoolwright "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	var tenant, email, fullName, role string
	var passwordStdin, asJSON bool
	required := []string{}
	need := func(p *string, flagName, usage string) {
		flags.StringVar(p, flagName, "", usage)
		required = append(required, flagName)
	}
	var run func(ctx context.Context, a Accounts, stdin io.Reader, stdout io.Writer) error
	switch name {
	case "user add":
		need(&tenant, "tenant", "name of the tenant; it is made if it is new")
		need(&email, "email", "e-mail, unique over all tenants")
		need(&fullName, "name", "the person's name")
		flags.StringVar(&role, "role", "operator", "admin, operator or viewer")
		flags.BoolVar(&passwordStdin, "password-stdin", false, "read the password from standard input (one line)")
		run = func(ctx context.Context, a Accounts, stdin io.Reader, stdout io.Writer) error {
			return withPassword(passwordStdin, stdin, stdout, func(password string) error {
				_, err := a.Add(ctx, NewUser{Tenant: tenant, Email: email, Name: fullName, Role: role, Password: password})
				return err
			})
		}
	case "user passwd":
		need(&email, "email", "the user's e-mail")
		flags.BoolVar(&passwordStdin, "password-stdin", false, "read the password from standard input (one line)")
		run = func(ctx context.Context, a Accounts, stdin io.Reader, stdout io.Writer) error {
			return withPassword(passwordStdin, stdin, stdout, func(password string) error { return a.SetPassword(ctx, email, password) })
		}
	case "user disable", "user enable":
		need(&email, "email", "the user's e-mail")
		run = func(ctx context.Context, a Accounts, _ io.Reader, _ io.Writer) error {
			return a.SetDisabled(ctx, email, name == "user disable")
		}
	case "user list":
		flags.StringVar(&tenant, "tenant", "", "only this tenant's users")
		flags.BoolVar(&asJSON, "json", false, "print JSON")
		run = func(ctx context.Context, a Accounts, _ io.Reader, stdout io.Writer) error {
			users, err := a.Users(ctx, tenant)
			if err != nil || asJSON {
				return errors.Join(err, printJSON(stdout, users, err))
			}
			rows := [][]string{{"TENANT", "EMAIL", "NAME", "ROLE", "STATE", "ID"}}
			for _, u := range users {
				state := "enabled"
				if u.Disabled != nil {
					state = "disabled"
				}
				rows = append(rows, []string{u.Tenant, u.Email, u.Name, u.Role, state, u.ID})
			}
			return printTable(stdout, rows)
		}
	case "tenant list":
		flags.BoolVar(&asJSON, "json", false, "print JSON")
		run = func(ctx context.Context, a Accounts, _ io.Reader, stdout io.Writer) error {
			tenants, err := a.Tenants(ctx)
			if err != nil || asJSON {
				return errors.Join(err, printJSON(stdout, tenants, err))
			}
			rows := [][]string{{"TENANT", "USERS", "CREATED", "ID"}}
			for _, t := range tenants {
				rows = append(rows, []string{t.Name, fmt.Sprint(t.Users), t.CreatedAt.UTC().Format("2006-01-02"), t.ID})
			}
			return printTable(stdout, rows)
		}
	default:
		if strings.HasSuffix(name, "-h") || strings.HasSuffix(name, "-help") {
			fmt.Fprint(stderr, "Account commands:\n"+CommandUsage)
			return nil, flag.ErrHelp
		}
		return nil, fmt.Errorf("unknown command %q; the account commands are:\n%s", name, CommandUsage)
	}
	if err := flags.Parse(args[2:]); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("spoolwright %s: %w (see -h)", name, err)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("spoolwright %s: %q is not understood (see -h)", name, flags.Arg(0))
	}
	for _, flagName := range required {
		if flags.Lookup(flagName).Value.String() == "" {
			return nil, fmt.Errorf("spoolwright %s: --%s is missing (see -h)", name, flagName)
		}
	}
	return run, nil
}

func withPassword(fromStdin bool, stdin io.Reader, stdout io.Writer, use func(password string) error) error {
	if !fromStdin {
		password := RandomPassword()
		if err := use(password); err != nil {
			return err
		}
		_, err := fmt.Fprintf(stdout, "password: %s\n", password)
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(stdin, 4096)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	password := strings.TrimRight(line, "\r\n")
	if err := CheckPassword(password); err != nil {
		return fmt.Errorf("the password on standard input %w", err)
	}
	return use(password)
}

func printJSON(w io.Writer, v any, err error) error {
	if err != nil {
		return nil
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Printable is a text of somebody else's that may be shown on a terminal: without what would move the cursor or turn
// the direction.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func printTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}
