// Package slicer reads the files that slicers write: G-code, binary G-code, 3MF and UFP. It keeps the estimates, the
// names of the filaments and a picture, and nothing else. A file is read once, from its beginning to its end, with a
// few megabytes of memory and no temporary file.
package slicer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"spoolwright/value/language"
)

// MaxSize is the maximum size of a file in bytes.
const MaxSize = 200 << 20

// The limits of reading a file.
const (
	maxPicture  = 2 << 20   // bytes of one picture
	maxPictures = 4 << 20   // bytes of all pictures of a file
	maxMeta     = 1 << 20   // bytes of one list of settings in binary G-code
	maxBlocks   = 32 << 20  // bytes of all settings and pictures in binary G-code, after decompression
	maxSettings = 8 << 20   // bytes of all settings in a ZIP file, after decompression
	minBlock    = 64 << 10  // minimum bytes counted for a setting or picture in binary G-code: unpacking allocates these
	maxToken    = 64 << 10  // bytes of a value, or of an element of XML, in these
	maxText     = 255       // bytes of a name
	maxPlates   = 100       // plates of a file
	maxEntries  = 10_000    // entries of a ZIP file
	maxSlots    = 64        // filaments of a plate
	maxInflated = 2 << 30   // bytes of all entries of a ZIP file after decompression
	freeRatio   = 64 << 20  // unpacked bytes allowed for a ZIP file of any size
	maxRatio    = 40        // unpacked bytes allowed for each further packed byte
	lineBuffer  = 64 << 10  // bytes of a line of G-code that are read
	maxSeconds  = 3_600_000 // 1,000 hours
	maxAmount   = 1e8       // millimeters and milligrams of a filament
)

// File is the content of a sliced file. A text is "" and a number is 0 if the file does not have it.
type File struct {
	Name          string // the title that the file has inside, not the name of the file
	Format        string // "gcode", "bgcode", "3mf" or "ufp"
	Program       string // the slicer with its version
	Printer       string // the model of the printer
	NozzleMM      float64
	LayerHeightMM float64
	Plates        []Plate // at least one
	Incomplete    bool    // G-code without the end that the slicer writes; in other formats, this is an error
	Size          int64
	SHA256        string // in hexadecimal digits
}

// Plate is one print of a file.
type Plate struct {
	Number    int // from 1
	Name      string
	Sliced    bool // false if the file has only the model, and no estimates
	Seconds   int64
	Pieces    int // 0 if the file does not have the number of pieces
	Filaments []Filament
	Picture   []byte // PNG or JPEG as it is in the file, not checked; nil without one
}

// Filament is an amount of filament that a plate needs.
type Filament struct {
	Type       string // such as "PLA"
	Color      string // "#RRGGBB", "#RRGGBBAA" or a name
	Vendor     string
	Profile    string // the slicer's name for the filament
	Grams      float64
	Length     float64 // millimeters
	Volume     float64 // cubic millimeters
	DensityG   float64 // grams per cubic centimeter
	DiameterMM float64
	FromLength bool // the file has no grams: they are computed, or 0 if the file has no density
}

// Error reports a file that cannot be used. Its text is a sentence for people.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func broken(format language.Text, args ...any) error {
	return &Error{language.Sprintf(format, args...)}
}

// ErrTooLarge is the error of a file of more than MaxSize bytes.
var ErrTooLarge = &Error{language.Sprintf("The file is larger than 200 MB")}

// ErrUnknown is the error of a text that has nothing that a slicer writes.
var ErrUnknown = &Error{language.Sprintf(
	"This is not a sliced file: it has neither a print time nor an amount of filament")}

var (
	errTruncated = &Error{language.Sprintf("The file ends too early; it was not copied completely")}
	errBomb      = &Error{language.Sprintf("The file unpacks to far more data than a sliced file has")}
)

// Read reads a file. An *Error describes a file that cannot be read; any other error is that of r.
func Read(r io.Reader) (*File, error) {
	in := &source{r: r, sum: sha256.New()}
	buffered := bufio.NewReaderSize(in, lineBuffer)
	f, err := read(buffered)
	if err == nil {
		_, err = io.Copy(io.Discard, buffered) // the checksum includes the bytes after the last part
	}
	switch {
	case in.err != nil:
		return nil, in.err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, errTruncated
	case err != nil:
		if _, ok := errors.AsType[*Error](err); !ok {
			return nil, broken("The file is damaged: %s", err)
		}
		return nil, err
	}
	f.Size, f.SHA256 = in.n, hex.EncodeToString(in.sum.Sum(nil))
	f.clean()
	return f, nil
}

func read(r *bufio.Reader) (*File, error) {
	head, err := r.Peek(8)
	switch {
	case len(head) == 0 && err == io.EOF:
		return nil, broken("The file is empty")
	case err != nil && err != io.EOF:
		return nil, err
	case bytes.HasPrefix(head, []byte("GCDE")):
		return readBinary(r)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return readZIP(r)
	}
	g := newGCode()
	if err := g.scan(r); err != nil {
		return nil, err
	}
	f, err := g.file()
	if err == nil {
		f.Format, f.Incomplete = "gcode", g.incomplete()
	}
	return f, err
}

// source counts and hashes the bytes that it reads, and keeps the error of the underlying reader.
type source struct {
	r   io.Reader
	sum hash.Hash
	n   int64
	err error
}

func (s *source) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(b)
	s.n += int64(n)
	s.sum.Write(b[:n])
	if s.n > MaxSize {
		err = ErrTooLarge
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// clean makes all texts of the file short and printable, and drops impossible numbers.
func (f *File) clean() {
	for _, text := range []*string{&f.Name, &f.Program, &f.Printer} {
		*text = cleanText(*text)
	}
	f.NozzleMM, f.LayerHeightMM = within(f.NozzleMM, 10), within(f.LayerHeightMM, 10)
	pictures := 0
	for i := range f.Plates {
		p := &f.Plates[i]
		p.Name = cleanText(p.Name)
		p.Seconds = min(max(p.Seconds, 0), maxSeconds)
		if pictures += len(p.Picture); pictures > maxPictures {
			p.Picture = nil
		}
		for j := range p.Filaments {
			m := &p.Filaments[j]
			m.Type, m.Color, m.Vendor, m.Profile = cleanText(m.Type), cleanText(m.Color), cleanText(m.Vendor),
				cleanText(m.Profile)
			m.Grams, m.Length, m.Volume = within(m.Grams, maxAmount/1000), within(m.Length, maxAmount),
				within(m.Volume, maxAmount)
			m.DensityG, m.DiameterMM = within(m.DensityG, 100), within(m.DiameterMM, 10)
			if m.Grams == 0 {
				m.Grams = within(m.GramsAt(m.DensityG, m.DiameterMM), maxAmount/1000)
				m.FromLength = true
			}
		}
	}
}

// GramsAt returns the grams of the filament's volume or length with another density in grams per cubic centimeter and
// another diameter in millimeters. It returns 0 if a value that it needs is 0.
func (m *Filament) GramsAt(density, diameter float64) float64 {
	volume := m.Volume
	if volume == 0 {
		volume = m.Length * diameter * diameter * 3.141592653589793 / 4
	}
	return volume * density / 1000
}

// within returns n, or 0 if n is not between 0 and the maximum.
func within(n, maximum float64) float64 {
	if n >= 0 && n <= maximum {
		return n
	}
	return 0
}

// cleanText removes control characters, invalid bytes and outer spaces from the text, and cuts it to maxText bytes.
func cleanText(text string) string {
	text = strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text[:min(len(text), 4*maxText)], ""))
	text = strings.Join(strings.Fields(text), " ")
	for len(text) > maxText {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}
