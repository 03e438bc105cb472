package web

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"spoolwright/inventory/colors"
)

// newSwatch returns the picture of colors: a ring of equal parts. It ignores colors that do not have the form #RRGGBB.
// Without a color, the picture has the one that the name means, until somebody sets a color.
// Rows of lists contain the picture, so that Go writes its HTML, as for newBar: see rows.
func newSwatch(name string, translucent bool, codes ...string) template.HTML {
	var known []string
	for _, hex := range codes {
		if len(hex) == len("#RRGGBBAA") {
			hex = hex[:len("#RRGGBB")]
		}
		if hexColor.MatchString(hex) {
			known = append(known, hex)
		}
	}
	if len(known) == 0 {
		if guess := colors.Guess(name); guess != "" {
			known = []string{guess}
		}
	}
	var b strings.Builder
	b.WriteString(`<svg class="swatch" viewBox="0 0 24 24" aria-hidden="true"`)
	if translucent {
		b.WriteString(` fill-opacity=".55" stroke-opacity=".55"`)
	}
	b.WriteByte('>')
	switch len(known) {
	case 0:
		b.WriteString(`<path class="unknown" d="M4 20 20 4"/>`)
	case 1:
		b.WriteString(`<circle cx="12" cy="12" r="11" fill="` + known[0] + `"/>`)
	default:
		for i, hex := range known {
			fmt.Fprintf(&b, `<path d="M12 6.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 1 1 0-11" fill="none" stroke="%s" `+
				`stroke-width="11" pathLength="%d" stroke-dasharray="1 %d" stroke-dashoffset="%d"/>`,
				hex, len(known), len(known)-1, -i)
		}
	}
	b.WriteString(`<circle class="rim" cx="12" cy="12" r="11"/><circle class="hub" cx="12" cy="12" r="3.5"/></svg>`)
	return template.HTML(b.String())
}

var hexColor = regexp.MustCompile(`^#[0-9A-Fa-f]{6}$`)

// percent returns the share of part in whole, as a percentage from 0 to 100.
func percent(part, whole num) int {
	if float(whole) <= 0 {
		return 0
	}
	return max(0, min(100, int(float(part)/float(whole)*100+0.5)))
}

// newBar returns the picture of a percentage: a bar that shows how full something is.
func newBar(percent int) template.HTML {
	class := "level"
	if percent < 15 {
		class = "low"
	}
	return template.HTML(`<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">` +
		`<rect class="track" width="100" height="4"/><rect class="` + class + `" width="` + strconv.Itoa(percent) +
		`" height="4"/></svg>`)
}
