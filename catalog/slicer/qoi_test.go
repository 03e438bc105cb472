package slicer

import (
	"bytes"
	"image/color"
	"image/png"
	"testing"
)

// The operations of a picture make its pixels, and a picture that ends early or is too large is left out.
func TestQOI(t *testing.T) {
	t.Parallel()
	head := func(width, height byte) []byte {
		return append([]byte("qoif"), 0, 0, 0, width, 0, 0, 0, height, 4, 0)
	}
	ops := []byte{
		0xfe, 10, 20, 30, // RGB
		0xc0 | 1,                  // twice more
		0x40 | 3<<4 | 0<<2 | 2,    // +1, -2, 0
		0x80 | (32 + 5), 9<<4 | 6, // green +5, red +5+1, blue +5-2
		0xff, 1, 2, 3, 4, // RGBA
		(10*3 + 20*5 + 30*7 + 255*11) % 64,      // the first one
		0xfe, 0, 255, 0, 0x40 | 0<<4 | 3<<2 | 2, // -2, +1, 0: both wrap around
	}
	want := []color.NRGBA{{10, 20, 30, 255}, {10, 20, 30, 255}, {10, 20, 30, 255}, {11, 18, 30, 255}, {17, 23, 33, 255},
		{1, 2, 3, 4}, {10, 20, 30, 255}, {0, 255, 0, 255}, {254, 0, 0, 255}}
	file := append(append(head(3, 3), ops...), 0, 0, 0, 0, 0, 0, 0, 1)
	img, err := png.Decode(bytes.NewReader(fromQOI(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range want {
		if got := color.NRGBAModel.Convert(img.At(i%3, i/3)); got != c {
			t.Errorf("pixel %d: %v, want %v", i, got, c)
		}
	}
	for n := range len(head(3, 3)) + len(ops) - 1 {
		if n >= 4 && fromQOI(file[:n]) != nil && n < len(file)-9 {
			t.Errorf("the first %d bytes are a picture", n)
		}
	}
	for _, bad := range [][]byte{head(0, 3), head(3, 0), append([]byte("qoif"), 255, 255, 255, 255, 0, 0, 0, 1, 4, 0, 0xfd),
		append([]byte("qoif"), 0, 0, 4, 0, 0, 0, 4, 0, 4, 0, 0xfd)} {
		if fromQOI(bad) != nil {
			t.Errorf("%v is a picture", bad)
		}
	}
	if fromQOI([]byte("\x89PNG and more than its head")) != nil || fromQOI(nil) != nil {
		t.Error("something else is a picture")
	}
}

func FuzzQOI(f *testing.F) {
	f.Add([]byte("qoif\x00\x00\x00\x02\x00\x00\x00\x02\x04\x00\xfe\x01\x02\x03\xc2\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if made := fromQOI(data); made != nil {
			if _, err := png.Decode(bytes.NewReader(made)); err != nil {
				t.Error(err)
			}
		}
	})
}
