package slicer

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
)

// maxPixels is the maximum size of a picture in the format QOI. Slicers write at most 640 × 640 pixels.
const maxPixels = 1 << 19

// fromQOI returns a picture in the format QOI (qoiformat.org) as PNG, and nil if it is damaged or too large, or in
// another format.
func fromQOI(data []byte) []byte {
	const head = 14
	if len(data) < head || !bytes.HasPrefix(data, []byte("qoif")) {
		return nil
	}
	width, height := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if width == 0 || height == 0 || width > maxPixels || height > maxPixels/width {
		return nil
	}
	img := image.NewNRGBA(image.Rect(0, 0, int(width), int(height)))
	var seen [64]color.NRGBA
	pixel, run := color.NRGBA{A: 255}, 0
	data = data[head:]
	next := func(n int) []byte { // the next bytes, which are 0 after the end
		taken := make([]byte, n)
		data = data[copy(taken, data):]
		return taken
	}
	for at := 0; at < len(img.Pix); at += 4 {
		if run > 0 {
			run--
		} else {
			if len(data) == 0 {
				return nil
			}
			switch op := next(1)[0]; {
			case op == 0xfe:
				c := next(3)
				pixel.R, pixel.G, pixel.B = c[0], c[1], c[2]
			case op == 0xff:
				c := next(4)
				pixel = color.NRGBA{c[0], c[1], c[2], c[3]}
			case op>>6 == 0:
				pixel = seen[op]
			case op>>6 == 1:
				pixel.R += op>>4&3 - 2
				pixel.G += op>>2&3 - 2
				pixel.B += op&3 - 2
			case op>>6 == 2:
				green, others := op&63-32, next(1)[0]
				pixel.R += green + others>>4 - 8
				pixel.G += green
				pixel.B += green + others&15 - 8
			default:
				run = int(op & 63)
			}
			seen[(int(pixel.R)*3+int(pixel.G)*5+int(pixel.B)*7+int(pixel.A)*11)%64] = pixel
		}
		img.Pix[at], img.Pix[at+1], img.Pix[at+2], img.Pix[at+3] = pixel.R, pixel.G, pixel.B, pixel.A
	}
	var b bytes.Buffer
	if png.Encode(&b, img) != nil || b.Len() > maxPicture {
		return nil
	}
	return b.Bytes()
}
