package archive

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/db"
)

// Commands are the commands that export and import a whole tenant.
var Commands = []cli.Command{
	{
		Name: "tenant export", Args: "NAME FILE [--users] [--keys] [--webhooks]", Needs: cli.Farm,
		Help: "write all data of a tenant into one file\n\n" +
			"tenant import creates the same tenant from the file, in this or another installation. Clients may write\n" +
			"during the export; the file has the state of one moment. Without flags, it has no secrets: it has the names of\n" +
			"users and API keys, which the usage ledger shows, but nobody can log in with it. FILE may be - for standard\n" +
			"output.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			var parts Parts
			flags.BoolVar(&parts.Users, "users", false, "also write the users, with the hashes of their passwords")
			flags.BoolVar(&parts.Keys, "keys", false, "also write the API keys, with the hashes of their secrets")
			flags.BoolVar(&parts.Webhooks, "webhooks", false,
				"also write the webhooks, their deliveries and the connections to\n"+
					"shops and printers; the secrets are encrypted with the JWT_SECRET of this installation")
			return func(ctx context.Context, c *cli.Call) error {
				tenant, err := accounts.Accounts{DB: c.DB}.FindTenant(ctx, c.Operands[0])
				if err != nil {
					return err
				}
				write := func(to io.Writer) error {
					out := bufio.NewWriterSize(to, 64<<10)
					if err := Export(db.As(ctx, db.Actor{Tenant: tenant.ID}), c.DB, out, parts); err != nil {
						return err
					}
					return out.Flush()
				}
				if path := c.Operands[1]; path != "-" {
					return writeFile(path, write)
				}
				// With `| head`, writing must return an error: if SIGPIPE ended the program, a private PostgreSQL
				// would keep running.
				signal.Ignore(syscall.SIGPIPE)
				return write(c.Out)
			}
		},
	}, {
		Name: "tenant import", Args: "FILE [--name NAME]", Needs: cli.InitFarm,
		Help: "create a tenant from a file that tenant export wrote: all of it, or nothing\n\n" +
			"The tenant has the same ids and numbers as before. It must not exist in this installation. FILE may be - for\n" +
			"standard input.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			name := flags.String("name", "", "name of the new tenant; by default that in the file")
			return func(ctx context.Context, c *cli.Call) error {
				file, err := cli.OpenOperand(c, cli.OpenFile)
				if err != nil {
					return err
				}
				defer file.Close()
				h, rows, err := Import(ctx, accounts.Accounts{DB: c.DB}, c.Owner, file, *name)
				if err != nil {
					return fmt.Errorf("nothing was imported: %w", err)
				}
				fmt.Fprintln(c.Out, cli.Printable(fmt.Sprintf("imported the tenant %q of %s: %d rows", h.Name,
					h.Time.Format("2006-01-02 15:04 MST"), rows)))
				if !h.Parts.Users {
					fmt.Fprintln(c.Out, cli.Printable(fmt.Sprintf("it has no users; create an admin with: "+
						"spoolwright user add --role admin --email E --name N --tenant %q", h.Name)))
				}
				return nil
			}
		},
	},
}

// writeFile writes a file. The file gets its name only when it is complete and on the disk.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
