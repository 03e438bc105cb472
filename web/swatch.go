package web

import (
	"encoding/hex"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"spoolwright/inventory/colors"
)

// newSwatch returns the picture of colors: a ring of equal parts. It ignores colors that do not have the form #RRGGBB.
// Without a color, the picture has the one that the name means, until somebody sets a color.
// Rows of lists contain the picture, so that Go writes its HTML, as for newBar: see rows.
func newSwatch(name string, translucent bool, codes ...string) template.HTML {
	var known []string
	for _, code := range codes {
		if len(code) == len("#RRGGBBAA") {
			code = code[:len("#RRGGBB")]
		}
		if isHexColor(code) {
			known = append(known, code)
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
		for i, code := range known {
			fmt.Fprintf(&b, `<path d="M12 6.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 1 1 0-11" fill="none" stroke="%s" `+
				`stroke-width="11" pathLength="%d" stroke-dasharray="1 %d" stroke-dashoffset="%d"/>`,
				code, len(known), len(known)-1, -i)
		}
	}
	b.WriteString(`<circle class="rim" cx="12" cy="12" r="11"/><circle class="hub" cx="12" cy="12" r="3.5"/></svg>`)
	return template.HTML(b.String())
}

// isHexColor reports whether a text is a color of the form #RRGGBB.
func isHexColor(text string) bool {
	_, err := hex.DecodeString(strings.TrimPrefix(text, "#"))
	return err == nil && len(text) == len("#RRGGBB") && text[0] == '#'
}

// drawings are the pictures of empty lists, by the path of the page: lines in a square of 48.
var drawings = map[string]string{
	"/spools": "M24 5a19 19 0 1 0 0 38h20M24 5a19 19 0 0 1 13 33M24 17a7 7 0 1 0 0 14 7 7 0 1 0 0-14" +
		"M24 11a13 13 0 0 0-13 13",
	"/filaments": "M18 7a10 10 0 1 0 0 20 10 10 0 1 0 0-20M30 7a10 10 0 1 0 0 20 10 10 0 1 0 0-20" +
		"M24 19a10 10 0 1 0 0 20 10 10 0 1 0 0-20",
	"/vendors":  "M9 21v21h30V21M6 21l4-13h28l4 13zM20 42V30h8v12",
	"/products": "M24 5l17 9v20l-17 9-17-9V14zM7 14l17 9 17-9M24 23v20",
	"/printers": "M7 6h34v36H7zM7 35h34M19 6v7h10V6M24 13v5M16 35v-8h16v8",
	"/runs":     "M18 5h12v9l-6 7-6-7zM9 42h30M12 36h24M15 30h18",
	"/orders":   "M11 8h26v34H11zM18 5h12v6H18zM17 20h14M17 27h14M17 34h8",
	"/stock":    "M8 6v36M40 6v36M8 18h32M8 30h32M8 42h32M14 18v-7h8v7M26 30v-7h8v7",
}

// art returns the picture of an empty list.
func art(path string) template.HTML {
	return template.HTML(`<svg class="art" viewBox="0 0 48 48" aria-hidden="true"><path d="` + drawings[path] +
		`"/></svg>`)
}

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

// marks maps the states of runs, orders, printers and webhooks to the classes of their marks. Each class has a shape
// and a color, so that nobody needs to see the color.
var marks = map[string]string{"pending": "wait", "received": "wait", "in_progress": "now", "in_production": "now",
	"paused": "hold", "maintenance": "hold", "completed": "good", "done": "good", "Active": "good", "failed": "bad",
	"Failing": "bad", "cancelled": "off", "retired": "off"}

// newMark returns the mark that precedes the text of a state, or "" for a state without a mark.
func newMark(state string) template.HTML {
	class := marks[state]
	if class == "" {
		return ""
	}
	return template.HTML(`<i class="mark ` + class + `"></i>`)
}
