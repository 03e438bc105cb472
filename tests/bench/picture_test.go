package bench_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// curve is a line of a picture: a request, and its durations in milliseconds by number of rows.
type curve struct {
	name string
	ms   map[int]float64
}

// picture returns an SVG with the curves, in which both axes are logarithmic. what names the rows. It has a white
// background, so that it is readable in dark and light pages.
func picture(title, what string, curves []curve) string {
	const (
		width, height            = 760, 440
		left, right, top, bottom = 60, 230, 40, 50
	)
	colors := []string{"#4477aa", "#ee6677", "#228833", "#b8860b", "#66a8c8", "#aa3377", "#555555", "#dd7711",
		"#882255"}
	minX, maxX, minY, maxY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for n, ms := range c.ms {
			minX, maxX = min(minX, math.Log10(float64(n))), max(maxX, math.Log10(float64(n)))
			minY, maxY = min(minY, math.Log10(ms)), max(maxY, math.Log10(ms))
		}
	}
	minY, maxY = math.Floor(minY), math.Ceil(maxY)
	x := func(n float64) float64 { return left + (math.Log10(n)-minX)/(maxX-minX)*(width-left-right) }
	y := func(ms float64) float64 {
		return height - bottom - (math.Log10(ms)-minY)/(maxY-minY)*(height-top-bottom)
	}

	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
			"\n", width, height)
	fmt.Fprintf(&b, `<title>%s</title><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", title)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="14">%s</text>`+"\n", left, title)
	for e := minY; e <= maxY; e++ {
		ms := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g ms</text>`+
			"\n",
			left, y(ms), width-right, left-6, y(ms)+4, ms)
	}
	for e := math.Ceil(minX); e <= maxX; e++ {
		n := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+
			"\n",
			x(n), top, height-bottom, x(n), height-bottom+18, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-12, what)
	type label struct {
		y    float64
		text string
	}
	var labels []label
	for i, c := range curves {
		sizes := []int{}
		for n := range c.ms {
			sizes = append(sizes, n)
		}
		slices.Sort(sizes)
		points, color := "", colors[i%len(colors)]
		for _, n := range sizes {
			points += fmt.Sprintf(" %.1f,%.1f", x(float64(n)), y(c.ms[n]))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", points[1:], color)
		labels = append(labels, label{y(c.ms[sizes[len(sizes)-1]]), fmt.Sprintf(`fill="%s">%s`, color, c.name)})
	}
	// The labels at the ends of the curves must not overlap.
	slices.SortFunc(labels, func(a, b label) int { return int(math.Copysign(1, a.y-b.y)) })
	last := math.Inf(-1)
	for i := range labels {
		labels[i].y = max(labels[i].y, last+15)
		last = labels[i].y
	}
	for i, limit := len(labels)-1, float64(height-bottom+4); i >= 0; i, limit = i-1, limit-15 {
		labels[i].y = min(labels[i].y, limit)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" %s</text>`+"\n", width-right+8, labels[i].y+4, labels[i].text)
	}
	return b.String() + "</svg>\n"
}
