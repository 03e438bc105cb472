package imports

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands that import vendors, filaments and spools from files.
var Commands = []cli.Command{
	{
		Name: "import spools", Args: transfer.ImportArgs, Needs: cli.Farm,
		Help: "create or change spools from a CSV file: all rows, or none\n\n" +
			"The first line names the columns. The names are the fields of a spool in the API, or those of your own list,\n" +
			"in ten languages; --map says what a column is that is not recognised, and --default what is missing.\n" +
			"material_type, color, diameter_mm and net_weight_grams are required. The rules for a row are those of the\n" +
			"API. Columns may be separated by commas, semicolons, tabs or |. The whole file shows whether its numbers have\n" +
			"a decimal comma, and the order of its dates; --decimal and --date-order do where the file does not. If any\n" +
			"row is invalid, nothing is imported, except with --skip-invalid. FILE may be - for standard input.\n\n" +
			"Each row changes the spool that its id or number names: the columns of the file, and no others. A row that\n" +
			"names no spool, or one of another farm, is a new spool. With --mode update, such a row is skipped or invalid,\n" +
			"and with --mode create, each row is a new spool.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			how, dryRun := transfer.ImportFlags(flags)
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				return importSpools(ctx, c, *how, *dryRun)
			})
		},
	},
	vendorKind.imports().Command(),
	filamentKind.imports().Command(),
}

// importSpools imports the CSV file that the command's operand names. If all rows are new spools, it does not hold
// the file in memory.
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
	plain := transfer.HeaderIs(file, func(title string) bool { return SpoolSheets.exact(title) != "" })
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if how.Mode != transfer.Create || dryRun || !plain || how.Mapping != nil || how.Defaults != nil || how.SkipInvalid {
		return spoolImport.Run(ctx, c, file, how, dryRun)
	}
	return runImport(c, file, func(i Importer, file io.ReadSeeker) (Result, error) {
		i.Reading = how
		return i.CSV(ctx, file)
	})
}

// runImport imports a file, and prints invalid rows, the progress and the result.
func runImport(
	c *cli.Call, file *os.File, importFile func(Importer, io.ReadSeeker) (Result, error),
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
	for _, line := range (Imported{CustomFields: result.CustomFields}).Notes() {
		fmt.Fprintln(c.Out, line)
	}
	fmt.Fprintf(c.Out, "spools imported: %d\n", result.Created)
	return nil
}
