package picture

import (
	"bytes"
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
		p, err := Make(c.data)
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

func TestRefused(t *testing.T) {
	t.Parallel()
	ok := encoded(t, sample(10, 10, 255), true)
	huge := bytes.Clone(ok) // says that it has 60,000 × 60,000 pixels
	binary.BigEndian.PutUint32(huge[16:], 60_000)
	binary.BigEndian.PutUint32(huge[20:], 60_000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
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
		if _, err := Make(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzMake(f *testing.F) {
	f.Add(encoded(f, sample(20, 30, 255), true))
	f.Add(encoded(f, sample(20, 30, 9), true))
	f.Add(rotated(encoded(f, sample(20, 30, 255), false), 5))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := Make(data); err == nil && (len(p.Full) == 0 || len(p.Small) == 0) {
			t.Fatal("empty")
		}
	})
}
