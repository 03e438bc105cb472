package inventory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for spools.
var Commands = []cli.Command{
	{
		Name: "import spools", Args: transfer.ImportArgs, Needs: cli.Farm,
		Help: "create or change spools from a CSV file: all rows, or none\n\n" +
			"The first line names the columns. The names are the fields of a spool in the API; material_type, color,\n" +
			"diameter_mm and net_weight_grams are required. The rules for a row are those of the API. Columns may be\n" +
			"separated by commas, semicolons or tabs. The whole file shows whether its numbers have a decimal comma, and\n" +
			"the order of its dates; --decimal and --date-order do where the file does not. If any row is invalid, nothing\n" +
			"is imported. FILE may be - for standard input.\n\n" +
			"Each row changes the spool that its id or number names: the columns of the file, and no others. A row that\n" +
			"names no spool, or one of another farm, is a new spool. With --mode update, such a row is skipped or invalid,\n" +
			"and with --mode create, each row is a new spool.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			how, dryRun := transfer.ImportFlags(flags)
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				return importSpools(ctx, c, *how, *dryRun)
			})
		},
	}, {
		Name: "import spoolman", Args: "URL|FILE [--tenant NAME] [--skip-bad] [--dry-run] [--report FILE]",
		Needs: cli.Farm,
		Help: "create vendors, filaments and spools from those of a Spoolman server\n\n" +
			"The source is the address of the server, such as http://spoolman.local:7912, or a file: the response of its\n" +
			"/api/v1/spool, or its JSON or CSV export, or what `export spoolman` writes. Archived spools are included.\n" +
			"Ids become numbers. The command may be repeated: it changes what has changed in Spoolman since, and nothing\n" +
			"else. The report is a CSV file that says what each item has become. FILE may be - for standard input.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			skip := flags.Bool("skip-bad", false, "skip invalid items, instead of importing nothing")
			dryRun := flags.Bool("dry-run", false, "check the source and report, but change nothing")
			report := flags.String("report", "", "write what each item has become to this `FILE`")
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				return importSpoolman(ctx, c, SpoolmanOptions{SkipInvalid: *skip, DryRun: *dryRun}, *report)
			})
		},
	},
	vendorKind.imports().Command(),
	filamentKind.imports().Command(),
	importCatalogCommand,
	Export.Command("spools"),
	ExportUsage.Command("usage"),
	ExportVendors.Command("vendors"),
	ExportFilaments.Command("filaments"),
}

// importSpools imports the command's operand, a CSV file. A file all of whose rows are new spools is not kept in the
// memory.
func importSpools(ctx context.Context, c *cli.Call, how transfer.Reading, dryRun bool) error {
	file, err := transfer.OpenOperand(c, transfer.OpenFile)
	if err != nil {
		return err
	}
	defer file.Close()
	if how.Mode == transfer.Upsert && !dryRun {
		if !transfer.HasColumn(file, "id", "number", "filament_id", "filament_number") {
			how.Mode = transfer.Create
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	if how.Mode != transfer.Create || dryRun {
		return spoolImport.Run(ctx, c, file, how, dryRun)
	}
	return runImport(c, file, func(i Importer, file io.ReadSeeker) (ImportResult, error) {
		i.Reading = how
		return i.CSV(ctx, file)
	})
}

// runImport imports a file, and reports invalid rows, the progress and the result.
func runImport(
	c *cli.Call, file *os.File, importFile func(Importer, io.ReadSeeker) (ImportResult, error),
) error {
	clearLine, importer := "", Importer{DB: c.DB}
	invalid := 0
	importer.Invalid = func(where string, problems []server.FieldError) {
		if invalid++; invalid > transfer.MaxListed {
			return
		}
		fmt.Fprintf(c.Err, "%s%s\n", clearLine, cli.Printable(where+": "+transfer.Describe(problems)))
	}
	if cli.IsTerminal(c.Err) {
		clearLine = "\r\x1b[K"
		importer.Progress = func(percent int) { fmt.Fprintf(c.Err, "%s%d %%", clearLine, percent) }
		if info, err := file.Stat(); err == nil {
			importer.Size = info.Size()
		}
	}
	result, err := importFile(importer, file)
	fmt.Fprint(c.Err, clearLine)
	if invalid > transfer.MaxListed {
		fmt.Fprintf(c.Err, "and %d other invalid rows\n", invalid-transfer.MaxListed)
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	fmt.Fprintf(c.Out, "spools imported: %d\n", result.Created)
	return nil
}

// importSpoolman imports the command's operand from Spoolman.
func importSpoolman(ctx context.Context, c *cli.Call, o SpoolmanOptions, report string) error {
	file, err := transfer.OpenOperand(c, func(source string) (*os.File, error) { return OpenSpoolman(ctx, source) })
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
	result, err := Importer{DB: c.DB, Invalid: func(where string, problems []server.FieldError) {
		invalid++
		list("%s: %s", where, transfer.Describe(problems))
	}}.Spoolman(ctx, file, o)
	if _, ok := errors.AsType[InvalidRows](err); ok {
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
			return fmt.Errorf("the import is done, but not the report: %w", err)
		}
	}
	if len(result.Fields) > 0 {
		fmt.Fprintf(c.Out, "custom fields created: %d\n", len(result.Fields))
		for _, f := range result.Fields {
			fmt.Fprintf(c.Out, "  %s %s: %s\n", *f.Entity.Value, *f.Key.Value, *f.Type.Value)
		}
	}
	for _, t := range spoolmanTables {
		n := result.Counts[t.entity]
		fmt.Fprintf(c.Out, "%s created: %d; updated: %d; unchanged: %d; invalid and skipped: %d\n", t.table, n.Created,
			n.Updated, n.Unchanged, n.Skipped)
	}
	if o.DryRun {
		fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
	}
	return nil
}
