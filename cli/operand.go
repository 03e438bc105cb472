package cli

import (
	"context"
	"fmt"
	"io"
	"os"
)

// OpenFile opens a file. It copies a pipe with Keep.
func OpenFile(path string) (*os.File, error) {
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
		return Keep(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Keep copies a reader that can be read only once into a temporary file that is already unlinked.
func Keep(r io.Reader) (*os.File, error) {
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

// OpenOperand opens the command's operand, which may be standard input.
func OpenOperand(c *Call, open func(source string) (*os.File, error)) (*os.File, error) {
	if c.Operands[0] == "-" {
		return Keep(c.In)
	}
	return open(c.Operands[0])
}

// EachOperand calls fn for each operand of a command, as if it were the only operand. A failure does not stop the
// others: EachOperand prints the error, and returns an error with the number of failures. With a single operand, it
// returns the error itself.
func EachOperand(ctx context.Context, c *Call, fn func(*Call) error) error {
	failed := 0
	for _, name := range c.Operands {
		one := *c
		one.Operands = []string{name}
		err := fn(&one)
		if err != nil && (len(c.Operands) == 1 || ctx.Err() != nil) {
			return err
		}
		if err != nil {
			failed++
			fmt.Fprintln(c.Err, Printable(name+": "+err.Error()))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d files were not imported", failed, len(c.Operands))
	}
	return nil
}
