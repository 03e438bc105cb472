package spoolman

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands that import from Spoolman and export to Spoolman.
var Commands = []cli.Command{
	{
		Name: "import spoolman", Args: "URL|FILE [--tenant NAME] [--skip-bad] [--dry-run] [--report FILE]",
		Needs: cli.Farm,
		Help: "create vendors, filaments and spools from those of a Spoolman server\n\n" +
			"The source is the address of the server, such as http://spoolman.local:7912, or a file: the response of its\n" +
			"/api/v1/spool, or its JSON or CSV export, or what `export spoolman` writes. Archived spools are included.\n" +
			"Ids become numbers. The command can be repeated: it applies what has changed in Spoolman since, and nothing\n" +
			"else. The report is a CSV file with the result for each item. FILE may be - for standard input.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			skip := flags.Bool("skip-bad", false, "skip invalid items, instead of importing nothing")
			dryRun := flags.Bool("dry-run", false, "check the source and report, but change nothing")
			report := flags.String("report", "", "write the result for each item to this `FILE`")
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				return importFrom(ctx, c, imports.SourceOptions{SkipInvalid: *skip, DryRun: *dryRun}, *report)
			})
		},
	}, {
		Name: "export spoolman", Args: "[--to URL] [--tenant NAME]", Needs: cli.Farm,
		Help: "write all vendors, filaments, spools and custom fields in the form of Spoolman\n\n" +
			"Without --to, the output is a JSON file, which `import spoolman` reads. With --to, they are created in the\n" +
			"Spoolman server at this address, such as http://spoolman.local:7912, which must be empty. Numbers become ids.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			to := flags.String("to", "", "create everything in the empty Spoolman server at this `URL`")
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				if *to == "" {
					return Export(ctx, c.DB, c.Out)
				}
				created, err := Load(ctx, c.DB, *to)
				if err != nil {
					err = fmt.Errorf("created before the error: %d vendors, filaments and spools: %w", created, err)
				} else {
					fmt.Fprintf(c.Out, "vendors, filaments and spools created: %d\n", created)
				}
				return err
			})
		},
	},
}

// importFrom imports the command's operand from Spoolman.
func importFrom(ctx context.Context, c *cli.Call, o imports.SourceOptions, report string) error {
	file, err := cli.OpenOperand(c, func(source string) (*os.File, error) { return Open(ctx, source) })
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	defer file.Close()
	listed, invalid := transfer.MaxListed, 0
	list := func(format string, args ...any) {
		if listed--; listed >= 0 {
			fmt.Fprintln(c.Err, cli.Printable(fmt.Sprintf(format, args...)))
		}
	}
	importer := imports.Importer{DB: c.DB, Invalid: func(where string, problems []server.FieldError) {
		invalid++
		list("%s: %s", where, transfer.Describe(problems))
	}}
	result, err := importer.Spoolman(ctx, file, o)
	if _, ok := errors.AsType[imports.InvalidRows](err); ok {
		err = fmt.Errorf("%w; correct them in Spoolman, or skip them with --skip-bad", err)
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	text := []byte("entity,id,action,number,remark\n")
	for _, f := range result.Fields {
		text = fmt.Appendf(text, "custom field of a %s,%s,created,,%s\n", *f.Entity.Value, *f.Key.Value, *f.Type.Value)
	}
	for _, row := range result.Rows {
		number := ""
		if row.Number > 0 {
			number = fmt.Sprint(row.Number)
		}
		for i, cell := range []string{row.Entity, row.ID, string(row.Action), number, row.Remark} {
			if i > 0 {
				text = append(text, ',')
			}
			text = transfer.AppendCell(text, &cell)
		}
		text = append(text, '\n')
		if row.Remark != "" {
			list("Spoolman's %s %s: %s %s, number %s: %s", row.Entity, row.ID, row.Entity, row.Action, number,
				row.Remark)
		}
	}
	if listed < 0 {
		fmt.Fprintf(c.Err, "and %d other lines, which are in the --report\n", -listed)
	}
	if report != "" {
		if err := os.WriteFile(report, text, 0o600); err != nil {
			return fmt.Errorf("the import succeeded, but writing the report failed: %w", err)
		}
	}
	if len(result.Fields) > 0 {
		fmt.Fprintf(c.Out, "custom fields created: %d\n", len(result.Fields))
		for _, f := range result.Fields {
			fmt.Fprintf(c.Out, "  %s %s: %s\n", *f.Entity.Value, *f.Key.Value, *f.Type.Value)
		}
	}
	for _, entity := range []string{"vendor", "filament", "spool"} {
		n := result.Counts[entity]
		fmt.Fprintf(c.Out, "%ss created: %d; updated: %d; unchanged: %d; invalid and skipped: %d\n", entity, n.Created,
			n.Updated, n.Unchanged, n.Skipped)
	}
	if o.DryRun {
		fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
	}
	return nil
}
