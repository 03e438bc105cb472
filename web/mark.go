package web

import "html/template"

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
