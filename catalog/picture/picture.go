// Package picture makes small pictures of products from what people send and from what slicers write. It decodes a
// picture and encodes it anew, so that nothing of the original remains but its pixels.
package picture

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// The limits of a picture that is decoded, and the width and height of those that are made.
const (
	MaxBytes  = 5 << 20
	maxPixels = 20_000_000
	maxMemory = 96 << 20 // bytes of the pixels
	maxSide   = 20_000
	size      = 512
	thumb     = 96
)

// Picture is a picture in two sizes.
type Picture struct {
	Media   string // image/png or image/jpeg
	Version string // of the bytes: hexadecimal digits
	Full    []byte // at most 512 pixels wide and high
	Small   []byte // at most 96 pixels wide and high, with the same Media
}

// ErrFormat is the error of a picture that is neither PNG nor JPEG, or that is damaged.
var ErrFormat = errors.New("must be a complete PNG or JPEG picture; WebP and other formats are not read")

// busy limits the memory of all pictures that are decoded at the same time.
var busy = make(chan struct{}, 2)

// Make returns the picture of the bytes of a PNG or JPEG file. The error says what is wrong with the file.
func Make(data []byte) (*Picture, error) {
	if len(data) > MaxBytes {
		return nil, errors.New("must have at most 5 MB")
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, ErrFormat
	}
	width, height := config.Width, config.Height
	switch {
	case width < 1 || height < 1:
		return nil, ErrFormat
	case width > maxSide || height > maxSide || width*height > maxPixels ||
		width*height*pixelBytes(config.ColorModel) > maxMemory:
		return nil, fmt.Errorf("has %d × %d pixels; it must have at most %d million", width, height, maxPixels/1_000_000)
	}
	busy <- struct{}{}
	defer func() { <-busy }()
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, ErrFormat
	}
	full := shrink(img, size)
	if format == "jpeg" {
		full = turn(full, orientation(data))
	}
	small := shrink(full, thumb)
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

// pixelBytes returns the bytes that a decoded pixel needs.
func pixelBytes(m color.Model) int {
	switch m {
	case color.NRGBA64Model, color.RGBA64Model:
		return 8
	case color.Gray16Model:
		return 2
	case color.GrayModel:
		return 1
	}
	return 4
}

// shrink returns the picture with at most so many pixels in width and height. Each pixel is the mean of those that it
// stands for, weighted by their opacity.
func shrink(img image.Image, most int) *image.NRGBA {
	b := img.Bounds()
	width, height := b.Dx(), b.Dy()
	if longest := max(width, height); longest > most {
		width, height = max(1, width*most/longest), max(1, height*most/longest)
	}
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		y0, y1 := b.Min.Y+y*b.Dy()/height, b.Min.Y+(y+1)*b.Dy()/height
		for x := range width {
			x0, x1 := b.Min.X+x*b.Dx()/width, b.Min.X+(x+1)*b.Dx()/width
			var red, green, blue, alpha, n uint64
			for sy := y0; sy < y1; sy++ {
				for sx := x0; sx < x1; sx++ {
					r, g, b, a := img.At(sx, sy).RGBA()
					red, green, blue, alpha, n = red+uint64(r), green+uint64(g), blue+uint64(b), alpha+uint64(a), n+1
				}
			}
			if alpha > 0 {
				out.SetNRGBA(x, y, color.NRGBA{uint8(red * 255 / alpha), uint8(green * 255 / alpha),
					uint8(blue * 255 / alpha), uint8(alpha / n >> 8)})
			}
		}
	}
	return out
}

// turn returns the picture as a camera says that it was held: the values of the orientation are those of EXIF.
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
	for pos := 2; pos+4 <= len(data) && data[pos] == 0xff; {
		length := int(data[pos+2])<<8 | int(data[pos+3])
		if length < 2 || pos+2+length > len(data) || data[pos+1] == 0xda {
			return 0
		}
		if segment := data[pos+4 : pos+2+length]; data[pos+1] == 0xe1 && bytes.HasPrefix(segment, []byte("Exif\x00\x00")) {
			return tiffOrientation(segment[6:])
		}
		pos += 2 + length
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
