package start

import (
	"bytes"
	_ "embed"
	"image"
	"image/png"
	"math"
	"strconv"
	"strings"
)

// drawings has the pictures of the products: a line with the SKU, and a line for each shape, from back to front. A
// shape is a color and its corners. Behind the letter o, it is the center and the radii of an ellipse, or the center,
// the inner and outer radius, and the first and last degree of an arc. The color may end with its opacity; 00 makes a
// hole. The picture is 100 wide and high, and transparent around the shapes, as those of slicers are.
//
//go:embed drawings.txt
var drawings string

// drawn returns the picture of the product with the SKU as a PNG file, or nil if it has none.
func drawn(sku string) ([]byte, error) {
	_, shapes, ok := strings.Cut(drawings, "\n= "+sku+"\n")
	if !ok {
		return nil, nil
	}
	shapes, _, _ = strings.Cut(shapes, "\n=")
	img := image.NewNRGBA(image.Rect(0, 0, pictureSize, pictureSize))
	for line := range strings.Lines(shapes) {
		line, round := strings.CutPrefix(line, "o ")
		words := strings.Fields(line)
		shade, err := strconv.ParseUint((words[0] + "FF")[:8], 16, 32)
		if err != nil {
			return nil, err
		}
		corners := make([]corner, len(words)-1)
		for i, word := range words[1:] {
			x, y, _ := strings.Cut(word, ",")
			corners[i].x, _ = strconv.ParseFloat(x, 64)
			corners[i].y, _ = strconv.ParseFloat(y, 64)
		}
		switch {
		case round && len(corners) == 2:
			corners = arc(corners[0], corners[1], corner{0, 360})
		case round:
			inner, outer := corners[1].x, corners[1].y
			back := arc(corners[0], corner{inner, inner}, corner{corners[2].y, corners[2].x})
			corners = append(arc(corners[0], corner{outer, outer}, corners[2]), back...)
		}
		fill(img, corners, uint32(shade))
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

const pictureSize = 400

type corner struct{ x, y float64 }

// arc returns points of an ellipse between two degrees.
func arc(center, radii, degrees corner) []corner {
	all := make([]corner, 73)
	for i := range all {
		at := degrees.x + (degrees.y-degrees.x)*float64(i)/float64(len(all)-1)
		sin, cos := math.Sincos(at * math.Pi / 180)
		all[i] = corner{center.x + radii.x*cos, center.y + radii.y*sin}
	}
	return all
}

// fill fills the polygon with smooth edges: each row of pixels is the mean of four lines.
func fill(img *image.NRGBA, corners []corner, shade uint32) {
	const scale, lines = pictureSize / 100.0, 4
	covered := make([]float64, pictureSize)
	for y := range pictureSize {
		clear(covered)
		for line := range lines {
			at := (float64(y) + (float64(line)+0.5)/lines) / scale
			var crossings []float64
			for i, a := range corners {
				if b := corners[(i+1)%len(corners)]; (a.y > at) != (b.y > at) {
					crossings = append(crossings, (a.x+(at-a.y)/(b.y-a.y)*(b.x-a.x))*scale)
					for n := len(crossings) - 1; n > 0 && crossings[n] < crossings[n-1]; n-- {
						crossings[n], crossings[n-1] = crossings[n-1], crossings[n]
					}
				}
			}
			for ; len(crossings) > 1; crossings = crossings[2:] {
				left, right := max(crossings[0], 0), min(crossings[1], pictureSize)
				for x := int(left); float64(x) < right; x++ {
					covered[x] += (min(float64(x+1), right) - max(float64(x), left)) / lines
				}
			}
		}
		for x, part := range covered {
			if part > 0 {
				p, part := img.Pix[img.PixOffset(x, y):], min(part, 1)
				if shade&0xFF == 0 { // a hole
					p[3] = uint8(float64(p[3])*(1-part) + 0.5)
					continue
				}
				part *= float64(shade&0xFF) / 255
				opacity := part + (1-part)*float64(p[3])/255
				for i, v := range []uint32{shade >> 24, shade >> 16 & 0xFF, shade >> 8 & 0xFF} {
					p[i] = uint8(float64(p[i]) + part/opacity*(float64(v)-float64(p[i])) + 0.5)
				}
				p[3] = uint8(opacity*255 + 0.5)
			}
		}
	}
}
