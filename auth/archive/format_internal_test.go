package archive

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

// FuzzRead reads any bytes as a file, and any text as what is in a file. It must not panic, and accepts no file but
// those that a writer wrote.
func FuzzRead(f *testing.F) {
	written := func(rows string) []byte {
		var b bytes.Buffer
		w := newWriter(&b)
		if err := w.line(Header{File: fileKind, Version: fileVersion}); err != nil {
			f.Fatal(err)
		}
		err := w.table(section{Table: "spools", Columns: []string{"id"}}, func() (int64, error) {
			_, err := io.WriteString(w, rows)
			return 1, err
		})
		if err == nil {
			err = w.close()
		}
		if err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	file := written("1\n")
	if _, end, err := read(bytes.NewReader(file), drain); err != nil || end.Rows["spools"] != 1 {
		f.Fatal(err, end)
	}
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := read(bytes.NewReader(b), drain); err == nil && !bytes.HasPrefix(b, []byte(gzipHeader)) {
			t.Errorf("the file %q is accepted", b)
		}
		var packed bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
		zip.Write(b)
		zip.Close()
		h, end, err := read(&packed, drain)
		if err == nil && (h.File != fileKind || h.Version > fileVersion || len(end.SHA256) != 64) {
			t.Errorf("%q is accepted: %+v %+v", b, h, end)
		}
	})
}

func drain(_ Header, _ section, rows io.Reader) error {
	_, err := io.Copy(io.Discard, rows)
	return err
}
