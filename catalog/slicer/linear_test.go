package slicer_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"spoolwright/catalog/slicer"
)

// reads counts the calls of Read.
type reads struct {
	r io.Reader
	n int
}

func (r *reads) Read(b []byte) (int, error) {
	r.n++
	return r.r.Read(b)
}

// A reader that looks for the marks of its format takes its file in large pieces, however many marks the file has: it
// neither moves what it has read, nor reads it again. CI reads 50 MB of each, and other runs read 2 MB.
func TestMarksAreReadOnce(t *testing.T) {
	t.Parallel()
	size := 2 << 20
	if os.Getenv("CI_STRICT") != "" {
		size = 50 << 20
	}
	repeated := func(text string) part { return part{[]byte(strings.Repeat(text, 64<<10/len(text))), size / (64 << 10)} }
	streamed := "PK\x03\x04\x14\x00\x08\x00\x00\x00" + strings.Repeat("\x00", 16) + "\x01\x00\x00\x00x"
	for what, of := range map[string][]any{
		"marks of sizes":      {streamed, repeated("PK\x07\x08")},
		"halves of marks":     {streamed, repeated("PK\x07PK")},
		"marks with sizes":    {streamed, repeated("PK\x07\x08\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00")},
		"entries":             {repeated("PK\x03\x04\x14\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 20))},
		"ends of directories": {"PK\x01\x02", repeated("PK\x05")},
		"comments":            {repeated(";\n")},
		"settings":            {repeated("; a = b\n")},
		"pictures":            {repeated("; thumbnail begin 1x1 4\n; AAAA\n; thumbnail end\n")},
		"objects":             {repeated("EXCLUDE_OBJECT_DEFINE NAME=a\n")},
		"one line":            {repeated(";=:")},
		"blocks":              {"GCDE\x01\x00\x00\x00\x00\x00", repeated("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")},
		"packed blocks": {"GCDE\x01\x00\x00\x00\x00\x00",
			repeated("\x02\x00\x01\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x78\x9c\x03\x00\x00\x00\x00\x01")},
	} {
		r := &reads{r: file(of...)}
		_, err := slicer.Read(r)
		if most := size/(32<<10) + 100; r.n > most {
			t.Errorf("%s: %d calls of Read for %d bytes, want at most %d (%v)", what, r.n, size, most, err)
		}
	}
}
