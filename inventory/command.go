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
)

// Commands are the commands for spools.
var Commands = []cli.Command{
	{
		Name: "import spools", Args: "FILE.csv [--tenant NAME]", Needs: cli.Farm,
		Help: "create spools from a CSV file: all rows, or none\n\n" +
			"The first line names the columns. The names are the fields of a spool in the API; material_type, color,\n" +
			"diameter_mm and net_weight_grams are required. The rules for a row are those of the API. Columns may be\n" +
			"separated by commas, semicolons or tabs, numbers may have a decimal comma. If any row is invalid, nothing is\n" +
			"imported. FILE may be - for standard input.",
		Setup: func(flags *flag.FlagSet) cli.Run {
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
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

// maxListed is the maximum number of invalid rows that an import lists.
const maxListed = 50

// runImport opens the command's operand, imports the file, and reports invalid rows, the progress and the result.
func runImport(c *cli.Call, open func(source string) (*os.File, error),
	importFile func(Importer, io.ReadSeeker) (ImportResult, error)) error {
	source := c.Operands[0]
	var file *os.File
	var err error
	if source == "-" {
		file, err = keep(c.In)
	} else {
		file, err = open(source)
	}
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
