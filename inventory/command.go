package inventory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for spools.
var Commands = []cli.Command{
	{
		Name: "import spools", Args: "FILE.csv [--tenant NAME] [--mode create|update|upsert] [--dry-run]",
		Needs: cli.Farm,
		Help: "create or change spools from a CSV file: all rows, or none\n\n" +
			"The first line names the columns. The names are the fields of a spool in the API; material_type, color,\n" +
			"diameter_mm and net_weight_grams are required. The rules for a row are those of the API. Columns may be\n" +
			"separated by commas, semicolons or tabs, numbers may have a decimal comma. If any row is invalid, nothing is\n" +
			"imported. FILE may be - for standard input.\n\n" +
			"With --mode update, each row changes the spool that its id or number names: the columns of the file,\n" +
			"and no others. A row that names no spool is skipped, and with --mode upsert it is a new spool.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			mode := transfer.Create
			flags.Func("mode", "create, update or upsert (default create)", func(v string) error {
				if mode = transfer.Mode(v); !slices.Contains(mode.Enum(), v) {
					return errors.New("must be create, update or upsert")
				}
				return nil
			})
			dryRun := flags.Bool("dry-run", false, "check the file and count the rows, but change nothing")
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				if mode != transfer.Create || *dryRun {
					return importMode(ctx, c, mode, *dryRun)
				}
				return runImport(c, openFile, func(i Importer, file io.ReadSeeker) (ImportResult, error) {
					return i.CSV(ctx, file)
				})
			})
		},
	}, {
		Name: "import spoolman", Args: "URL|FILE [--tenant NAME] [--skip-bad]", Needs: cli.Farm,
		Help: "create spools from those of a Spoolman server\n\n" +
			"The source is the address of the server, such as http://spoolman.local:7912, or a file: the response of its\n" +
			"/api/v1/spool, or its JSON or CSV export. Archived spools are included. The command may be repeated: it does\n" +
			"not change spools that an earlier import created. FILE may be - for standard input.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			skip := flags.Bool("skip-bad", false, "skip invalid spools, instead of importing nothing")
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				open := func(source string) (*os.File, error) { return OpenSpoolman(ctx, source) }
				return runImport(c, open, func(i Importer, file io.ReadSeeker) (ImportResult, error) {
					result, err := i.Spoolman(ctx, file, *skip)
					if _, ok := errors.AsType[InvalidRows](err); ok {
						err = fmt.Errorf("%w; correct them in Spoolman, or skip them with --skip-bad", err)
					}
					return result, err
				})
			})
		},
	},
	Export.Command("spools"),
	ExportUsage.Command("usage"),
	ExportVendors.Command("vendors"),
	ExportFilaments.Command("filaments"),
}

// openFile opens a regular file.
func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a folder, not a file", path)
	case err == nil && !info.Mode().IsRegular(): // a pipe can be read only once
		defer f.Close()
		return keep(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// keep copies what can be read only once into a temporary file that is already unlinked.
func keep(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "spoolwright-import-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openOperand opens the command's operand, which may be standard input.
func openOperand(c *cli.Call, open func(source string) (*os.File, error)) (*os.File, error) {
	if c.Operands[0] == "-" {
		return keep(c.In)
	}
	return open(c.Operands[0])
}

// importMode imports the command's operand, a CSV file, which it keeps in memory.
func importMode(ctx context.Context, c *cli.Call, mode transfer.Mode, dryRun bool) error {
	file, err := openOperand(c, openFile)
	if err != nil {
		return err
	}
	defer file.Close()
	f, err := readImport(file, mode, math.MaxInt)
	if err == nil {
		err = f.reserve(ctx, c.DB, dryRun)
	}
	var result Imported
	if err == nil {
		err = c.DB.Bulk(ctx, func(ctx context.Context) (err error) {
			result, err = f.write(ctx, c.DB, dryRun)
			return err
		})
	}
	if e, ok := errors.AsType[*server.Error](costError(err)); ok {
		for _, p := range e.Fields {
			fmt.Fprintln(c.Err, cli.Printable(p.Field+": "+p.Message))
		}
		err = errors.New("the file is invalid")
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	fmt.Fprintf(c.Out, "spools created: %d; updated: %d; unchanged: %d; skipped rows: %d\n",
		result.Created, result.Updated, result.Unchanged, result.Skipped)
	if dryRun {
		fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
	}
	return nil
}

// maxListed is the maximum number of invalid rows that an import lists.
const maxListed = 50

// runImport opens the command's operand, imports the file, and reports invalid rows, the progress and the result.
func runImport(c *cli.Call, open func(source string) (*os.File, error),
	importFile func(Importer, io.ReadSeeker) (ImportResult, error)) error {
	file, err := openOperand(c, open)
	if err != nil {
		return err
	}
	defer file.Close()

	clearLine, importer := "", Importer{DB: c.DB}
	invalid := 0
	importer.Invalid = func(where string, problems []server.FieldError) {
		if invalid++; invalid > maxListed {
			return
		}
		fmt.Fprintf(c.Err, "%s%s\n", clearLine, cli.Printable(where+": "+describe(problems)))
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
	if invalid > maxListed {
		fmt.Fprintf(c.Err, "and %d other invalid rows\n", invalid-maxListed)
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	fmt.Fprintf(c.Out, "spools imported: %d", result.Created)
	if result.Existing > 0 {
		fmt.Fprintf(c.Out, "; already imported: %d", result.Existing)
	}
	if result.Invalid > 0 {
		fmt.Fprintf(c.Out, "; invalid and skipped: %d", result.Invalid)
	}
	fmt.Fprintln(c.Out)
	return nil
}
