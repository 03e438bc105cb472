package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// sample returns a picture that is red in its upper left quarter, and else blue with the opacity.
func sample(width, height int, opacity uint8) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.NRGBA{0, 0, 255, opacity}
			if x < width/2 && y < height/2 {
				c = color.NRGBA{255, 0, 0, 255}
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func encoded(t testing.TB, img image.Image, asPNG bool) []byte {
	t.Helper()
	var b bytes.Buffer
	err := png.Encode(&b, img)
	if !asPNG {
		b.Reset()
		err = jpeg.Encode(&b, img, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rotated returns the JPEG file with EXIF data that have the orientation and a comment.
func rotated(data []byte, orientation byte) []byte {
	tiff := "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string([]byte{orientation, 0, 0, 0}) +
		"\x00\x00\x00\x00GPS of my home"
	segment := "Exif\x00\x00" + tiff
	head := []byte{0xff, 0xd8, 0xff, 0xe1, byte((len(segment) + 2) >> 8), byte(len(segment) + 2)}
	return append(append(head, segment...), data[2:]...)
}

func TestMake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		data          []byte
		media         string
		width, height int
		red           image.Point // a point that is red
	}{
		{"PNG", encoded(t, sample(1024, 512, 255), true), "image/jpeg", 512, 256, image.Pt(50, 50)},
		{"translucent PNG", encoded(t, sample(600, 1200, 100), true), "image/png", 256, 512, image.Pt(50, 50)},
		{"JPEG", encoded(t, sample(100, 60, 255), false), "image/jpeg", 100, 60, image.Pt(10, 10)},
		{"turned right", rotated(encoded(t, sample(100, 60, 255), false), 6), "image/jpeg", 60, 100, image.Pt(50, 10)},
		{"turned left", rotated(encoded(t, sample(100, 60, 255), false), 8), "image/jpeg", 60, 100, image.Pt(10, 90)},
		{"upside down", rotated(encoded(t, sample(100, 60, 255), false), 3), "image/jpeg", 100, 60, image.Pt(90, 50)},
	} {
		p, err := new(Maker).Make(t.Context(), c.data)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		img, format, err := image.Decode(bytes.NewReader(p.Full))
		if err != nil || "image/"+format != c.media || p.Media != c.media || len(p.Version) != 16 {
			t.Errorf("%s: %s %s %v", c.what, format, p.Media, err)
			continue
		}
		if b := img.Bounds(); b.Dx() != c.width || b.Dy() != c.height {
			t.Errorf("%s: %v", c.what, b)
		}
		if r, _, b, _ := img.At(c.red.X, c.red.Y).RGBA(); r < 0xe000 || b > 0x2000 {
			t.Errorf("%s: red %x, blue %x", c.what, r, b)
		}
		small, _, err := image.Decode(bytes.NewReader(p.Small))
		if err != nil || max(small.Bounds().Dx(), small.Bounds().Dy()) != 96 {
			t.Errorf("%s: %v", c.what, err)
		}
		if bytes.Contains(p.Full, []byte("my home")) || bytes.Contains(p.Small, []byte("my home")) {
			t.Errorf("%s keeps metadata", c.what)
		}
	}
}

// sized returns the PNG file with another width and height, and with the interlacing, in its header.
func sized(data []byte, width, height uint32, interlaced byte) []byte {
	data = bytes.Clone(data)
	binary.BigEndian.PutUint32(data[16:], width)
	binary.BigEndian.PutUint32(data[20:], height)
	data[28] = interlaced
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

func TestRefused(t *testing.T) {
	t.Parallel()
	ok := encoded(t, sample(10, 10, 255), true)
	huge := sized(ok, 60_000, 60_000, 0)
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":   {nil, "PNG or JPEG"},
		"SVG":       {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`), "PNG or JPEG"},
		"WebP":      {[]byte("RIFF\x1a\x00\x00\x00WEBPVP8L"), "WebP"},
		"GIF":       {[]byte("GIF89a\x01\x00\x01\x00"), "PNG or JPEG"},
		"half":      {ok[:len(ok)-20], "complete"},
		"huge":      {huge, "60000 × 60000 pixels"},
		"too large": {make([]byte, MaxBytes+1), "5 MB"},
	} {
		if _, err := new(Maker).Make(t.Context(), c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzMake(f *testing.F) {
	f.Add(encoded(f, sample(20, 30, 255), true))
	f.Add(encoded(f, sample(20, 30, 9), true))
	f.Add(rotated(encoded(f, sample(20, 30, 255), false), 5))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := new(Maker).Make(t.Context(), data); err == nil && (len(p.Full) == 0 || len(p.Small) == 0) {
			t.Fatal("empty")
		}
	})
}

// progressive returns a JPEG file with the given numbers of pixels, components and further scans. All components have
// the same number of samples, and each further scan covers all blocks of a component in few bytes.
func progressive(width, height, components, scans int) []byte {
	blocks := ((width + 7) / 8) * ((height + 7) / 8)
	b := []byte{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}
	b = append(b, bytes.Repeat([]byte{1}, 64)...)
	segment := func(kind byte, data ...byte) {
		b = append(b, 0xff, kind, byte((len(data)+2)>>8), byte(len(data)+2))
		b = append(b, data...)
	}
	frame := []byte{8, byte(height >> 8), byte(height), byte(width >> 8), byte(width), byte(components)}
	first := []byte{byte(components)}
	for i := range components {
		frame, first = append(frame, byte(i+1), 0x11, 0), append(first, byte(i+1), 0)
	}
	segment(0xc2, frame...)
	code := make([]byte, 18) // one code, the bit 0
	code[1] = 1
	segment(0xc4, code...) // of blocks without a difference
	code[0], code[17] = 0x10, 0xe0
	segment(0xc4, code...) // of 16,384 blocks without anything
	segment(0xda, append(first, 0, 0, 0)...)
	b = append(b, make([]byte, components*blocks/8+1)...)
	rest := make([]byte, ((blocks+16383)/16384*15+7)/8)
	for range scans {
		segment(0xda, 1, 1, 0, 1, 63, 0)
		b = append(b, rest...)
	}
	return append(b, 0xff, 0xd9)
}

// What needs much time or memory is refused before it is decoded.
func TestBounds(t *testing.T) {
	t.Parallel()
	point := image.Rect(0, 0, 1, 1)
	colors, deep := encoded(t, image.NewNRGBA(point), true), encoded(t, image.NewNRGBA64(point), true)
	grey := encoded(t, image.NewGray16(point), true)
	clear := bytes.Replace(grey, []byte("IDAT"), []byte("tRNS"), 1)
	for _, c := range []struct {
		what string
		data []byte
		want string // of the error; "" for none
	}{
		{"progressive", progressive(1000, 600, 3, 9), ""},
		{"100 scans", progressive(100, 60, 3, 99), ""},
		{"101 scans", progressive(1000, 600, 3, 100), "101 scans"},
		{"577 scans", progressive(2000, 1000, 1, 577), "578 scans"},
		{"5 MB of scans", progressive(1000, 600, 1, 300_000), "300001 scans"},
		{"many scans of many pixels", progressive(4000, 4000, 1, 30), "31 scans"},
		{"three components", progressive(5000, 4000, 3, 3), "needs 286 MiB"},
		{"four components", progressive(5000, 4000, 4, 3), "needs 457 MiB"},
		{"large", progressive(2500, 2000, 3, 3), ""},
		{"PNG", sized(colors, 5000, 4000, 0), "complete"}, // it has no pixels
		{"interlaced", sized(colors, 5000, 4000, 1), "needs 152 MiB"},
		{"16 bits", sized(deep, 5000, 4000, 0), "needs 152 MiB"},
		{"16 bits of grey", sized(grey, 5000, 4000, 0), "complete"},
		{"16 bits of grey and a transparent one", sized(clear, 5000, 4000, 0), "needs 152 MiB"},
	} {
		if len(c.data) > MaxBytes {
			t.Errorf("%s: %d bytes", c.what, len(c.data))
		}
		var m Maker
		_, err := m.Make(t.Context(), c.data)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}

	var m Maker // all pictures of a file
	made := 0
	for range 10 {
		if _, err := m.Make(t.Context(), progressive(2000, 2000, 1, 40)); err == nil {
			made++
		}
	}
	if made != 2 {
		t.Errorf("%d pictures of 164 million samples each were made, want 2", made)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Maker).Make(ended, progressive(1000, 600, 3, 9)); err != context.Canceled {
		t.Errorf("when the request has ended: %v", err)
	}
}
