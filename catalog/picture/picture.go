// Package picture makes small pictures of products from what people send and from what slicers write. It decodes a
// picture and encodes it anew, so that nothing of the original remains but its pixels.
package picture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"iter"
	"runtime"

	"spoolwright/server"
	"spoolwright/value/language"
)

// The limits of a picture to decode, and the width and height of the pictures made from it. A JPEG file can have many
// scans of all its pixels in few bytes.
const (
	MaxBytes  = 5 << 20
	maxPixels = 20_000_000
	maxSide   = 20_000
	maxScans  = 100
	maxWork   = 400_000_000 // samples of all scans: 20 for each pixel of the largest picture
	size      = 512
	thumb     = 96
)

// Picture is a picture in two sizes.
type Picture struct {
	Media   string // image/png or image/jpeg
	Version string // a hash of the pictures, in hexadecimal digits
	Full    []byte // at most 512 pixels wide and high
	Small   []byte // at most 96 pixels wide and high, with the same Media
}

// ErrFormat is the error of a picture that is neither PNG nor JPEG, or that is damaged.
var ErrFormat = invalid("must be a complete PNG or JPEG picture; WebP and other formats are not read")

// invalid returns the 422 of a picture.
func invalid(format language.Text, args ...any) error { return server.Invalid("body", format, args...) }

// Maker makes pictures. The zero value is ready to use. All pictures of one Maker share the work allowed for one
// picture, so that a file with many pictures takes no longer than one picture.
type Maker struct{ work int }

// Make returns the picture of the bytes of a PNG or JPEG file. It waits for its turn; see server.DecodesPicture. The
// error is a 422 that describes what is wrong with the file, or reports that the request has ended or has waited too
// long.
func (m *Maker) Make(ctx context.Context, data []byte) (*Picture, error) {
	if len(data) > MaxBytes {
		return nil, invalid("must have at most 5 MB")
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, ErrFormat
	}
	width, height := config.Width, config.Height
	switch {
	case width < 1 || height < 1:
		return nil, ErrFormat
	case width > maxSide || height > maxSide || width*height > maxPixels:
		return nil, invalid("has %d × %d pixels; it must have at most %d million", width, height, maxPixels/1_000_000)
	}
	n := needsOf(data, format, width*height)
	m.work += n.work
	switch {
	case n.scans > maxScans || m.work > maxWork:
		return nil, invalid("is a JPEG picture of %d scans; the maximum is %d, and less for a large picture: save it again",
			n.scans, maxScans)
	case n.memory > server.MaxPicture:
		return nil, invalid("needs %d MiB to be decoded; the maximum is %d: save it smaller, with fewer bits per pixel, "+
			"or not as a progressive or interlaced picture", n.memory>>20, server.MaxPicture>>20)
	}
	done, err := server.DecodesPicture(ctx, n.memory)
	if err != nil {
		return nil, err
	}
	defer done()
	if n.memory > 16<<20 {
		defer runtime.GC() // before the next one needs as much
	}
	img, _, err := image.Decode(&reader{ctx, bytes.NewReader(data)})
	if err == nil {
		var p *Picture
		p, err = made(ctx, img, data, format)
		return p, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, ErrFormat
}

// reader reads until the context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// needs is the cost of decoding a picture: bytes of memory, computed samples of pixels, and scans.
type needs struct{ memory, work, scans int }

// needsOf returns the needs of a file whose first bytes image.DecodeConfig has accepted.
func needsOf(data []byte, format string, pixels int) (n needs) {
	if format == "png" { // the depth, the kind of colors and the interlacing are in the first chunk
		sample := 4
		switch depth, kind, transparent := data[24], data[25], bytes.Contains(data, []byte("tRNS")); {
		case depth == 16 && (kind != 0 || transparent):
			sample = 8
		case depth == 16:
			sample = 2
		case kind == 3, kind == 0 && !transparent:
			sample = 1
		}
		if n.memory = pixels * sample; data[28] != 0 {
			n.memory *= 2 // each pass is an image
		}
		n.work = n.memory
		return n
	}
	progressive, transformed := false, false
	samples, all := map[byte]int{}, 0 // of the components, by their ids
	for kind, segment := range segments(data) {
		switch {
		case kind >= 0xc0 && kind <= 0xc2 && len(segment) >= 6 && all == 0:
			progressive = kind == 0xc2
			largest := 1
			for i := 6; i+2 < len(segment); i += 3 {
				largest = max(largest, int(segment[i+1]>>4)*int(segment[i+1]&15))
			}
			for i := 6; i+2 < len(segment); i += 3 {
				one := (pixels*int(segment[i+1]>>4)*int(segment[i+1]&15) + largest - 1) / largest
				samples[segment[i]], all = one, all+one
			}
			transformed = transformed || len(samples) == 4 || string(segment[6:7]) == "R"
		case kind == 0xee && bytes.HasPrefix(segment, []byte("Adobe")) && len(segment) >= 12:
			transformed = transformed || segment[11] == 0
		case kind == 0xda && len(segment) > 0:
			n.scans++
			for i := 1; i+1 < len(segment) && i <= 2*int(segment[0]); i += 2 {
				n.work += samples[segment[i]]
			}
		}
	}
	if n.memory = all; transformed {
		n.memory += 4 * pixels // an image in RGB or CMYK beside that of the components
	}
	if progressive {
		n.memory += 4 * all // the coefficients
	}
	return n
}

// segments returns the kinds and the contents of the segments of a JPEG file. Like the decoder of package jpeg, it
// skips the bytes between segments, such as the pixels after the header of a scan.
func segments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(kind byte, segment []byte) bool) {
		for pos := 2; pos+4 <= len(data); {
			kind := data[pos+1]
			switch {
			case data[pos] != 0xff || kind == 0 || kind == 0xff || kind >= 0xd0 && kind <= 0xd7:
				pos++
				continue
			case kind == 0xd9: // the end
				return
			}
			length := int(data[pos+2])<<8 | int(data[pos+3])
			if length < 2 || pos+2+length > len(data) || !yield(kind, data[pos+4:pos+2+length]) {
				return
			}
			pos += 2 + length
		}
	}
}

// made makes the Picture of a decoded file.
func made(ctx context.Context, img image.Image, data []byte, format string) (*Picture, error) {
	full, err := shrink(ctx, img, size)
	if err != nil {
		return nil, err
	}
	if format == "jpeg" {
		full = turn(full, orientation(data))
	}
	small, err := shrink(ctx, full, thumb)
	if err != nil {
		return nil, err
	}
	p := &Picture{Media: "image/jpeg"}
	encode := func(b *bytes.Buffer, img image.Image) error { return jpeg.Encode(b, img, &jpeg.Options{Quality: 85}) }
	if !full.Opaque() {
		p.Media, encode = "image/png", encodePNG
	}
	var b, s bytes.Buffer
	if err := encode(&b, full); err != nil {
		return nil, err
	}
	if err := encode(&s, small); err != nil {
		return nil, err
	}
	p.Full, p.Small = b.Bytes(), s.Bytes()
	sum := sha256.Sum256(p.Full)
	p.Version = hex.EncodeToString(sum[:8])
	return p, nil
}

// shrink returns the picture with a width and a height of at most maximum pixels. Each pixel is the mean of the pixels
// that it replaces, weighted by their opacity. The error is that of the context.
func shrink(ctx context.Context, img image.Image, maximum int) (*image.NRGBA, error) {
	from := img.(image.RGBA64Image) // all images of packages png and jpeg are one; it allocates nothing for a pixel
	b := img.Bounds()
	width, height := b.Dx(), b.Dy()
	if longest := max(width, height); longest > maximum {
		width, height = max(1, width*maximum/longest), max(1, height*maximum/longest)
	}
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		y0, y1 := b.Min.Y+y*b.Dy()/height, b.Min.Y+(y+1)*b.Dy()/height
		for x := range width {
			x0, x1 := b.Min.X+x*b.Dx()/width, b.Min.X+(x+1)*b.Dx()/width
			var red, green, blue, alpha, n uint64
			for sy := y0; sy < y1; sy++ {
				for sx := x0; sx < x1; sx++ {
					c := from.RGBA64At(sx, sy)
					red, green, blue = red+uint64(c.R), green+uint64(c.G), blue+uint64(c.B)
					alpha, n = alpha+uint64(c.A), n+1
				}
			}
			if alpha > 0 {
				out.SetNRGBA(x, y, color.NRGBA{uint8(red * 255 / alpha), uint8(green * 255 / alpha),
					uint8(blue * 255 / alpha), uint8(alpha / n >> 8)})
			}
		}
	}
	return out, nil
}

// turn rotates and mirrors the picture by an orientation of EXIF.
func turn(img *image.NRGBA, orientation int) *image.NRGBA {
	if orientation < 2 || orientation > 8 {
		return img
	}
	width, height := img.Rect.Dx(), img.Rect.Dy()
	outWidth, outHeight := width, height
	if orientation > 4 {
		outWidth, outHeight = height, width
	}
	out := image.NewNRGBA(image.Rect(0, 0, outWidth, outHeight))
	for y := range outHeight {
		for x := range outWidth {
			sx, sy := x, y
			if orientation > 4 {
				sx, sy = y, x
			}
			switch orientation {
			case 2, 3, 7, 8:
				sx = width - 1 - sx
			}
			switch orientation {
			case 3, 4, 6, 7:
				sy = height - 1 - sy
			}
			out.SetNRGBA(x, y, img.NRGBAAt(sx, sy))
		}
	}
	return out
}

// orientation returns the orientation in the EXIF data of a JPEG file, or 0.
func orientation(data []byte) int {
	for kind, segment := range segments(data) {
		if kind == 0xda {
			break
		}
		if kind == 0xe1 && bytes.HasPrefix(segment, []byte("Exif\x00\x00")) {
			return tiffOrientation(segment[6:])
		}
	}
	return 0
}

// tiffOrientation returns the orientation in the first directory of TIFF data, or 0.
func tiffOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 0
	}
	number := func(at, n int) (v int) {
		if at < 0 || at+n > len(tiff) {
			return 0
		}
		for i := range n {
			b := tiff[at+i]
			if tiff[0] == 'I' {
				b = tiff[at+n-1-i]
			}
			v = v<<8 | int(b)
		}
		return v
	}
	directory := number(4, 4)
	for i := range min(number(directory, 2), 100) {
		if entry := directory + 2 + 12*i; number(entry, 2) == 0x112 {
			return number(entry+8, 2)
		}
	}
	return 0
}

func encodePNG(b *bytes.Buffer, img image.Image) error { return png.Encode(b, img) }
