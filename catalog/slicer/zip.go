package slicer

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
)

// The entries of a ZIP file are read in the order in which they are in the file, by the headers before them. The
// directory at the end of the file is not used: it would need the whole file on the disk first. The directory begins
// where no header of an entry follows.

type entry struct {
	name     string
	method   uint16
	streamed bool // the sizes follow the entry
	packed   int64
	size     int64
	crc      uint32
}

const (
	storedMethod  = 0
	deflateMethod = 8
)

// walkZIP calls visit for each entry. visit may read as much of the entry as it needs.
func walkZIP(r *bufio.Reader, visit func(name string, content io.Reader) error) error {
	w := &walk{}
	for range maxEntries {
		signature, err := r.Peek(4)
		if err != nil {
			return err
		}
		switch string(signature) {
		case "PK\x03\x04":
		case "PK\x01\x02", "PK\x05\x06", "PK\x06\x06":
			return readDirectory(r)
		default:
			return broken("The file is damaged: it is not a complete ZIP file")
		}
		e, err := readEntry(r)
		if err != nil {
			return err
		}
		if err := e.read(r, w, visit); err != nil {
			return err
		}
	}
	return broken("The file has more than %d parts", maxEntries)
}

// walk is the state that all entries of a ZIP file share.
type walk struct {
	packed, unpacked int64         // bytes of the entries so far
	inflater         io.ReadCloser // nil before the first packed entry
}

// inflate returns a reader that decompresses r. It is valid until the next call.
func (w *walk) inflate(r io.Reader) io.Reader {
	if w.inflater == nil {
		w.inflater = flate.NewReader(r)
	} else {
		w.inflater.(flate.Resetter).Reset(r, nil) // never fails without a dictionary
	}
	return w.inflater
}

// readDirectory reads to the end of the file, and looks for the end of the directory there. If that is missing, the
// file was not copied completely.
func readDirectory(r *bufio.Reader) error {
	const end = "PK\x05\x06"
	var last []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		last = append(last, buffer[:n]...)
		if strings.Contains(string(last), end) {
			return nil
		}
		last = append(last[:0], last[max(0, len(last)-len(end)):]...)
		if err == io.EOF {
			return errTruncated
		}
		if err != nil {
			return err
		}
	}
}

func readEntry(r *bufio.Reader) (e entry, err error) {
	var header [30]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return e, err
	}
	le := binary.LittleEndian
	flags := le.Uint16(header[6:])
	e.method, e.crc = le.Uint16(header[8:]), le.Uint32(header[14:])
	e.packed, e.size = int64(le.Uint32(header[18:])), int64(le.Uint32(header[22:]))
	name := make([]byte, int(le.Uint16(header[26:]))+int(le.Uint16(header[28:])))
	if _, err := io.ReadFull(r, name); err != nil {
		return e, err
	}
	extra := name[le.Uint16(header[26:]):]
	e.name = strings.TrimPrefix(string(name[:len(name)-len(extra)]), "/")
	for len(extra) >= 4 { // the sizes of ZIP64
		id, n := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break
		}
		if id == 1 && n >= 16 && e.packed == 0xffffffff {
			e.size, e.packed = int64(le.Uint64(extra[4:])), int64(le.Uint64(extra[12:]))
		}
		extra = extra[4+n:]
	}
	e.streamed = flags&8 != 0 && e.packed == 0
	switch {
	case flags&1 != 0:
		return e, broken("The file is protected by a password")
	case e.method != storedMethod && e.method != deflateMethod:
		return e, broken("The file is packed with a method that is not supported; save it again with the slicer")
	case e.packed < 0 || e.packed > MaxSize:
		return e, errTruncated
	}
	return e, nil
}

// read calls visit with the content of the entry, and moves r to the end of the entry.
func (e *entry) read(r *bufio.Reader, w *walk, visit func(string, io.Reader) error) error {
	packed := &counter{r: r}
	in := &content{e: e, walk: w, sum: crc32.NewIEEE(), packed: &packed.n}
	defer func() { w.packed += packed.n }()
	if !e.streamed {
		limited := &io.LimitedReader{R: packed, N: e.packed}
		in.r = limited
		if e.method == deflateMethod {
			in.r = w.inflate(limited)
		}
		if err := visit(e.name, in); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, limited) // bytes that visit did not read need not be unpacked
		if err == nil && limited.N > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	in.unchecked = true
	if e.method == storedMethod {
		in.r = &stored{packed, in}
	} else {
		in.r = w.inflate(packed) // flate reads no byte more than it needs from a ByteReader
	}
	if err := visit(e.name, in); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	return e.skipSizes(r, packed.n, in.n, in.sum.Sum32())
}

// mark precedes the checksum and the sizes that follow an entry. It is optional, except that only the mark shows where
// an uncompressed entry ends.
const mark = "PK\x07\x08"

// skipSizes skips the checksum and the sizes that follow an entry.
func (e *entry) skipSizes(r *bufio.Reader, packed, size int64, sum uint32) error {
	next, _ := r.Peek(maxSizes)
	if n := sizesLen(next, packed, size, sum); n > 0 {
		_, err := r.Discard(n)
		return err
	}
	if len(next) < maxSizes {
		return io.ErrUnexpectedEOF
	}
	return broken("The file is damaged: a checksum is wrong")
}

// maxSizes is the length of the mark, a checksum and two sizes of 8 bytes each.
const maxSizes = 24

// sizesLen returns the length of the checksum and the sizes at the beginning of next, including the mark, or 0 if next
// begins with other values. Sizes have 4 bytes each, or 8 in a ZIP64 file.
func sizesLen(next []byte, packed, size int64, sum uint32) int {
	le := binary.LittleEndian
	start := 0
	if strings.HasPrefix(string(next), mark) {
		start = len(mark)
	}
	for _, width := range []int{4, 8} {
		if len(next) < start+4+2*width {
			break
		}
		got := [2]int64{int64(le.Uint32(next[start+4:])), int64(le.Uint32(next[start+4+width:]))}
		if got == [2]int64{packed, size} && le.Uint32(next[start:]) == sum {
			return start + 4 + 2*width
		}
	}
	return 0
}

// stored reads an entry of unknown size that is not compressed. It ends at a mark followed by the checksum and the
// size of the bytes before the mark. OrcaSlicer and Bambu Studio write the pictures of 3MF files this way.
type stored struct {
	r  *counter
	in *content // counts and hashes the bytes that were read
}

func (s *stored) Read(b []byte) (int, error) {
	// A Peek of more bytes than are buffered moves the buffer, which is cheap only when few bytes are left.
	_, err := s.r.r.Peek(maxSizes)
	if err != nil && err != io.EOF {
		return 0, err
	}
	next, _ := s.r.r.Peek(min(s.r.r.Buffered(), len(b)+maxSizes))
	n := 0
	for {
		at := bytes.Index(next[n:], []byte(mark))
		if at < 0 {
			if n = len(next) - len(mark) + 1; err == io.EOF {
				return 0, io.ErrUnexpectedEOF
			}
			break
		}
		if n += at; n > 0 && len(next)-n < maxSizes {
			break // the bytes after the mark are not buffered yet
		}
		if n == 0 && sizesLen(next, s.in.n, s.in.n, s.in.sum.Sum32()) > 0 {
			return 0, io.EOF
		}
		if n > 0 && hasSize(next[n:], s.in.n+int64(n)) {
			break // it may be the end: the checksum of the bytes before it decides
		}
		n++ // the mark is part of the content
	}
	return s.r.Read(b[:min(n, len(b))])
}

// hasSize reports whether a mark may be followed by a checksum and the size of an entry that is not compressed.
func hasSize(next []byte, size int64) bool {
	le := binary.LittleEndian
	return int64(le.Uint32(next[8:])) == size || int64(le.Uint64(next[8:])) == size
}

// counter counts the bytes that are read. It is a ByteReader.
type counter struct {
	r *bufio.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// content is the unpacked content of an entry. It ends with an error if the checksum is wrong, or if the unpacked
// contents of all entries so far are far larger than the packed ones.
type content struct {
	e      *entry
	walk   *walk
	r      io.Reader
	n      int64
	packed *int64
	sum    interface {
		io.Writer
		Sum32() uint32
	}
	unchecked bool
}

func (c *content) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	c.walk.unpacked += int64(n)
	c.sum.Write(b[:n])
	if c.walk.unpacked > maxInflated || c.walk.unpacked > freeRatio+maxRatio*(c.walk.packed+*c.packed) {
		return 0, errBomb
	}
	if err == io.EOF && !c.unchecked && c.n < c.e.size {
		return 0, io.ErrUnexpectedEOF
	}
	if err == io.EOF && !c.unchecked && (c.sum.Sum32() != c.e.crc || c.n != c.e.size) {
		return 0, broken("The file is damaged: a checksum is wrong")
	}
	return n, err
}
