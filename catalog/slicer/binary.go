package slicer

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash"
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
// blocks of G-code are checked but not decoded.
func readBinary(r *bufio.Reader) (*File, error) {
	var header [10]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	version, checksum := binary.LittleEndian.Uint32(header[4:]), binary.LittleEndian.Uint16(header[8:])
	if version != 1 || checksum > 1 {
		return nil, broken("This binary G-code has the unknown version %d", version)
	}
	b := &binaryFile{r: r, g: newGCode(), checked: checksum == 1, sum: crc32.NewIEEE()}
	complete := false // whether there was G-code
	for {
		if _, err := r.Peek(1); err == io.EOF {
			break
		}
		kind, err := b.block()
		if err != nil {
			return nil, err
		}
		complete = complete || kind == gcodeBlock
	}
	if !complete {
		return nil, errTruncated
	}
	f, err := b.g.file()
	if err == nil {
		f.Format = "bgcode"
	}
	return f, err
}

type binaryFile struct {
	r       *bufio.Reader
	g       *gcode
	checked bool        // whether each block ends with a checksum
	sum     hash.Hash32 // of the block so far
	kept    int         // bytes of the settings and pictures so far
	field   [8]byte
}

// Read reads a part of a block, and adds it to the sum.
func (b *binaryFile) Read(data []byte) (int, error) {
	n, err := b.r.Read(data)
	b.sum.Write(data[:n])
	return n, err
}

// fields returns the next n bytes of a block. They are valid until the next call.
func (b *binaryFile) fields(n int) ([]byte, error) {
	_, err := io.ReadFull(b, b.field[:n])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b.field[:n], err
}

// block reads a block, and returns its kind.
func (b *binaryFile) block() (kind int, err error) {
	b.sum.Reset()
	le := binary.LittleEndian
	head, err := b.fields(8)
	if err != nil {
		return 0, err
	}
	kind, compression, size := int(le.Uint16(head)), le.Uint16(head[2:]), int64(le.Uint32(head[4:]))
	stored := size
	if compression != 0 {
		if head, err = b.fields(4); err != nil {
			return kind, err
		}
		stored = int64(le.Uint32(head))
	}
	if kind > thumbnailBlock || compression > 3 || stored > MaxSize {
		return kind, broken("The file is damaged: a block of the binary G-code has an unknown kind")
	}
	limit, area, picture := int64(maxMeta), 0, &b.g.picture
	wanted := kind != gcodeBlock
	if kind == thumbnailBlock {
		if head, err = b.fields(6); err != nil {
			return kind, err
		}
		limit, area = maxPicture, int(le.Uint16(head[2:]))*int(le.Uint16(head[4:]))
		format := le.Uint16(head) // PNG, JPEG or QOI
		if format == 2 {
			picture = &b.g.qoi
		}
		wanted = format < 3 && area > picture.area && max(size, stored) <= limit
	} else if _, err = b.fields(2); err != nil { // the encoding
		return kind, err
	}
	var data []byte
	if wanted {
		if b.kept += int(max(size, stored, minBlock)); max(size, stored) > limit || b.kept > maxBlocks {
			return kind, errBomb
		}
		data, err = readN(b, stored)
	} else {
		_, err = io.CopyN(io.Discard, b, stored)
	}
	if err != nil {
		return kind, err
	}
	if b.checked {
		want := b.sum.Sum32()
		if head, err = b.fields(4); err != nil {
			return kind, err
		}
		if le.Uint32(head) != want {
			return kind, broken("The file is damaged: a checksum of the binary G-code is wrong")
		}
	}
	if !wanted {
		return kind, nil
	}
	if data, err = unpack(data, compression, int(size)); err != nil {
		return kind, err
	}
	if kind == thumbnailBlock {
		picture.data, picture.area = data, area
		return kind, nil
	}
	for line := range bytes.Lines(data) {
		if name, value, ok := bytes.Cut(line, []byte("=")); ok {
			b.g.setting(name, value)
		}
	}
	return kind, nil
}

func readN(r io.Reader, n int64) ([]byte, error) {
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	if err == io.EOF {
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
