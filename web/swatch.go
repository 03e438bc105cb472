package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
)

// newSwatch returns the picture of colors such as #RRGGBB: a ring of equal parts. Others are left out. Pictures in
// rows are written here, because a template would need most of the time of a page for them.
func newSwatch(translucent bool, colors ...string) template.HTML {
	var known []string
	for _, hex := range colors {
		if hexColor.MatchString(hex) {
			known = append(known, hex)
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

// percent returns how much of a whole there is, from 0 to 100.
func percent(part, whole num) int {
	if value(whole) <= 0 {
		return 0
	}
	return max(0, min(100, int(value(part)/value(whole)*100+0.5)))
}

// newBar returns the picture of how full something is.
func newBar(percent int) template.HTML {
	class := "level"
	if percent < 15 {
		class = "low"
	}
	return template.HTML(`<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">` +
		`<rect class="track" width="100" height="4"/><rect class="` + class + `" width="` + strconv.Itoa(percent) +
		`" height="4"/></svg>`)
}
