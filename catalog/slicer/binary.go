package slicer

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// The kinds of blocks of binary G-code.
const (
	fileMetadata = iota
	gcodeBlock
	slicerMetadata
	printerMetadata
	printMetadata
	thumbnailBlock
)

// readBinary reads binary G-code: a header, and blocks with metadata, pictures and G-code, each with a checksum. The
// blocks of G-code are checked and not decoded.
func readBinary(r *bufio.Reader) (*File, error) {
	var header [10]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	version, checksum := binary.LittleEndian.Uint32(header[4:]), binary.LittleEndian.Uint16(header[8:])
	if version != 1 || checksum > 1 {
		return nil, broken("This binary G-code has the unknown version %d", version)
	}
	g := newGCode()
	complete := false // whether there was G-code
	for {
		if _, err := r.Peek(1); err == io.EOF {
			break
		}
		kind, err := readBlock(r, g, checksum == 1)
		if err != nil {
			return nil, err
		}
		complete = complete || kind == gcodeBlock
	}
	if !complete {
		return nil, errTruncated
	}
	f, err := g.file()
	if err == nil {
		f.Format = "bgcode"
	}
	return f, err
}

// readBlock reads one block, and returns its kind.
func readBlock(r *bufio.Reader, g *gcode, checked bool) (kind int, err error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	field := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(in, b)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		}
		return b
	}
	kind = int(binary.LittleEndian.Uint16(field(2)))
	compression := binary.LittleEndian.Uint16(field(2))
	size := int64(binary.LittleEndian.Uint32(field(4)))
	stored := size
	if compression != 0 {
		stored = int64(binary.LittleEndian.Uint32(field(4)))
	}
	if err != nil {
		return kind, err
	}
	if kind > thumbnailBlock || compression > 3 || stored > MaxSize {
		return kind, broken("The file is damaged: a block of the binary G-code has an unknown kind")
	}
	parameters := field(2) // the encoding, or the format of a picture
	if kind == thumbnailBlock {
		parameters = append(parameters, field(4)...)
	}
	if err != nil {
		return kind, err
	}
	var data []byte
	if kind == gcodeBlock {
		_, err = io.CopyN(io.Discard, in, stored)
	} else {
		if size > maxMeta || stored > maxMeta {
			return kind, errBomb
		}
		data, err = readN(in, stored)
	}
	if err != nil {
		return kind, err
	}
	if checked {
		want := sum.Sum32()
		var b [4]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return kind, io.ErrUnexpectedEOF
		}
		if binary.LittleEndian.Uint32(b[:]) != want {
			return kind, broken("The file is damaged: a checksum of the binary G-code is wrong")
		}
	}
	if kind == gcodeBlock {
		return kind, nil
	}
	if data, err = unpack(data, compression, int(size)); err != nil {
		return kind, err
	}
	if kind == thumbnailBlock {
		area := int(binary.LittleEndian.Uint16(parameters[2:])) * int(binary.LittleEndian.Uint16(parameters[4:]))
		if format := binary.LittleEndian.Uint16(parameters); format < 2 && area > g.picture.area && len(data) <= maxPicture {
			g.picture.data, g.picture.area = data, area
		}
		return kind, nil
	}
	for line := range bytes.Lines(data) {
		if name, value, ok := bytes.Cut(line, []byte("=")); ok {
			g.setting(name, value)
		}
	}
	return kind, nil
}

// readN reads n bytes. It allocates memory as bytes arrive, so that a short file with a large number costs little.
func readN(r io.Reader, n int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, n))
	if err == nil && int64(len(data)) < n {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// unpack decompresses the data of a block. The result has size bytes.
func unpack(data []byte, compression uint16, size int) ([]byte, error) {
	switch compression {
	case 1:
		z, err := zlib.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return readN(z, int64(size))
	case 2:
		return heatshrink(data, 11, 4, size)
	case 3:
		return heatshrink(data, 12, 4, size)
	}
	return data, nil
}
