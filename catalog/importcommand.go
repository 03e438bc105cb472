package catalog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"spoolwright/auth/accounts"
	"spoolwright/catalog/slicer"
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// importCommand returns the command that imports products from CSV files and from sliced files.
func importCommand() cli.Command {
	command := productImport.Command()
	command.Args = "FILE..." + strings.TrimPrefix(command.Args, "FILE.csv")
	command.Help = strings.Replace(command.Help, "from a CSV file: all rows, or none",
		"from CSV files or sliced files", 1) + "\n\n" +
		"A sliced file is recognized by its content. It updates the product made from this file, or else from\n" +
		"one with this name; otherwise it becomes a new product. --mode update skips files without such a\n" +
		"product, and --mode create makes new products only. Each file is imported separately: one that\n" +
		"cannot be imported does not stop the others, and the status is then 1."
	command.Setup = func(flags *flag.FlagSet) cli.Run {
		how, dryRun := transfer.ImportFlags(flags)
		return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
			return cli.EachOperand(ctx, c, func(c *cli.Call) error { return importFile(ctx, c, *how, *dryRun) })
		})
	}
	return command
}

// importFile imports the file that is the command's operand.
func importFile(ctx context.Context, c *cli.Call, how transfer.Reading, dryRun bool) error {
	file, err := cli.OpenOperand(c, cli.OpenFile)
	if err != nil {
		return err
	}
	defer file.Close()
	if !strings.HasSuffix(strings.ToLower(c.Operands[0]), ".csv") {
		sliced, err := slicer.Read(file)
		switch {
		case err == nil:
			return importSliced(ctx, c, sliced, how.Mode, dryRun)
		case !errors.Is(err, slicer.ErrUnknown):
			return fmt.Errorf("nothing was imported: %w", err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return productImport.Run(ctx, c, file, how, dryRun)
}

// errRolledBack ends the transaction of a dry run.
var errRolledBack = errors.New("dry run")

// importSliced creates or updates the product of a sliced file, and prints what it did.
func importSliced(ctx context.Context, c *cli.Call, sliced *slicer.File, mode transfer.Mode,
	dryRun bool) error {
	q := FileQuery{}
	if c.Operands[0] != "-" {
		q.FileName = value.Some(c.Operands[0])
	}
	var made *FileResult
	err := c.DB.Bulk(ctx, func(ctx context.Context) error {
		known, err := FindFileProduct(ctx, c.DB, textOrNull(BaseName(q.FileName.Or(""))), sliced.SHA256)
		switch {
		case err != nil:
			return err
		case known != nil && mode != transfer.Create:
			q.ProductID = value.Some(value.UUID(known.ID))
		}
		if known == nil && mode == transfer.Update {
			return nil
		}
		made, err = handlers{c.DB}.makeFromFile(ctx, &q, sliced)
		if err == nil && dryRun {
			return errRolledBack // a dry run does everything, so that it fails where the import would
		}
		return err
	})
	if errors.Is(err, errRolledBack) {
		err = nil
	}
	if e, ok := errors.AsType[*server.Error](err); ok && len(e.Fields) > 0 {
		err = errors.New(transfer.Describe(e.Fields))
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	if made == nil {
		fmt.Fprintln(c.Out, "product skipped: none was made from this file")
		return nil
	}
	text := fmt.Sprintf("product %s: %s", made.Action, made.Name)
	if made.PrintMinutes != nil {
		text += fmt.Sprintf("; %d minutes", *made.PrintMinutes)
	}
	if len(made.Plates) > 1 {
		text += fmt.Sprintf("; %d plates", len(made.Plates))
	}
	for _, m := range made.Materials {
		text += fmt.Sprintf("; %s g of %s", m.Weight, materialTitle(m.MaterialType, m.MaterialName, m.Color))
	}
	fmt.Fprintln(c.Out, cli.Printable(text))
	for _, w := range made.Warnings {
		fmt.Fprintln(c.Err, cli.Printable(w.Text))
	}
	if dryRun {
		fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
	}
	return nil
}
