// Package archive writes all data of a farm into a file, and creates a farm from such a file, in this installation or
// in another installation.
//
// The file consists of lines and is compressed with gzip. The first line is a Header. Then follows, for each table, a
// line with a section, the rows of the table in the text format of COPY, and the line `\.`. The last line is an
// ending.
package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"time"
)

const (
	fileKind = "spoolwright farm"
	// fileVersion is the version of the format. A program reads files of its own version and of earlier versions. In
	// all versions, the first line of a file is a Header with the version.
	fileVersion = 1
)

// Header is the first line of a file.
type Header struct {
	File    string    `json:"file"` // fileKind
	Version int       `json:"version"`
	Program string    `json:"program"` // the version of the program that wrote the file
	Schema  int       `json:"schema"`  // the number of the database's last migration
	Tenant  string    `json:"tenant_id"`
	Name    string    `json:"tenant"`
	Time    time.Time `json:"exported_at"`
	Parts   Parts     `json:"parts"`
}

// Parts are the optional parts of a file, in addition to the data of the farm.
type Parts struct {
	Users    bool `json:"users"`    // with the hashes of their passwords
	Keys     bool `json:"keys"`     // API keys with the hashes of their secrets
	Webhooks bool `json:"webhooks"` // with their deliveries, and with encrypted secrets
}

// section is the line before the rows of a table.
type section struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

// ending is the last line of a file: the number of rows of each table, and the SHA-256 of all lines before this line.
type ending struct {
	Rows   map[string]int64 `json:"rows"`
	SHA256 string           `json:"sha256"`
}

const endOfRows = `\.` + "\n"

type writer struct {
	zip *gzip.Writer
	sum hash.Hash
	end ending
}

func newWriter(to io.Writer) *writer {
	zip, _ := gzip.NewWriterLevel(to, gzip.BestSpeed)
	return &writer{zip: zip, sum: sha256.New(), end: ending{Rows: map[string]int64{}}}
}

func (w *writer) Write(b []byte) (int, error) {
	w.sum.Write(b)
	return w.zip.Write(b)
}

func (w *writer) line(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// table writes a table. The function fn must write the rows and return their number.
func (w *writer) table(s section, fn func() (int64, error)) error {
	if err := w.line(s); err != nil {
		return err
	}
	rows, err := fn()
	if err != nil {
		return err
	}
	w.end.Rows[s.Table] = rows
	_, err = io.WriteString(w, endOfRows)
	return err
}

// close writes the end of the file.
func (w *writer) close() error {
	w.end.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	if err := w.line(w.end); err != nil {
		return err
	}
	return w.zip.Close()
}

var (
	errForeign = errors.New("the file was not written by tenant export, or its beginning is damaged")
	errDamaged = errors.New("the file is damaged or incomplete")
)

// gzipHeader is the beginning of each file. The checksum of gzip does not protect these bytes.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"

// read reads a file and calls fn for each table. The function fn must read the rows to their end. read returns an
// error if the file is not exactly what a writer wrote. The memory that it needs does not depend on the size of the
// file.
func read(file io.Reader, fn func(h Header, s section, rows io.Reader) error) (h Header, end ending, err error) {
	in := bufio.NewReaderSize(file, 64<<10)
	if begin, _ := in.Peek(len(gzipHeader)); string(begin) != gzipHeader {
		return h, end, errForeign
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return h, end, errForeign
	}
	zip.Multistream(false)
	r := &reader{in: bufio.NewReaderSize(zip, 64<<10), sum: sha256.New()}
	if err := r.line(&h); err != nil || h.File != fileKind {
		return h, end, errForeign
	}
	if h.Version > fileVersion {
		return h, end, fmt.Errorf("the file was written by a newer program, %s: use that program", h.Program)
	}
	counts := map[string]int64{}
	for {
		sum := hex.EncodeToString(r.sum.Sum(nil))
		var next struct {
			section
			ending
		}
		if err := r.line(&next); err != nil {
			return h, end, err
		}
		if next.Table == "" {
			if _, err := r.in.ReadByte(); err != io.EOF { // verifies the checksum of gzip
				return h, end, errDamaged
			}
			if _, err := in.ReadByte(); err != io.EOF || next.SHA256 != sum || !maps.Equal(next.Rows, counts) {
				return h, end, errDamaged
			}
			return h, next.ending, nil
		}
		rows := &rows{reader: r}
		err := fn(h, next.section, rows)
		if rows.err != nil {
			err = rows.err
		}
		if err != nil {
			return h, end, err
		}
		if !rows.ended {
			return h, end, errDamaged
		}
		counts[next.Table] += rows.count
	}
}

// reader reads the lines of a file.
type reader struct {
	in  *bufio.Reader
	sum hash.Hash
}

// line reads a line of JSON.
func (r *reader) line(into any) error {
	text, err := r.in.ReadSlice('\n')
	if err != nil || json.Unmarshal(text, into) != nil {
		return errDamaged
	}
	r.sum.Write(text)
	return nil
}

type rows struct {
	*reader
	count  int64
	rest   []byte // unread rest of the last read
	within bool   // whether the last read ended within a row
	ended  bool
	err    error
}

func (r *rows) Read(to []byte) (n int, _ error) {
	for n < len(to) && !r.ended && r.err == nil {
		if len(r.rest) > 0 {
			copied := copy(to[n:], r.rest)
			n, r.rest = n+copied, r.rest[copied:]
			continue
		}
		text, err := r.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			r.err = errDamaged
			break
		}
		r.sum.Write(text)
		if !r.within && string(text) == endOfRows {
			r.ended = true
			break
		}
		if r.rest, r.within = text, err != nil; !r.within {
			r.count++
		}
	}
	switch {
	case n > 0:
		return n, nil
	case r.err != nil:
		return 0, r.err
	}
	return 0, io.EOF
}
