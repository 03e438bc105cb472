package web

import (
	"strings"
)

// A color has an input for its code, and beside it the browser's color picker, whose name ends with .pick. A picker
// always has a value, so a hidden input stores the value that the page has shown.

// noColor is what a picker shows for a color without a code.
const noColor = "#808080"

// Picked returns the value of the picker of the input.
func (i input) Picked() string {
	if code := i.Value(); isHexColor(code) {
		return strings.ToLower(code)
	}
	return noColor
}

// takePicks sets the codes of the picked colors. A typed code takes precedence.
func (f *form) takePicks() {
	for name := range f.Values {
		code, ok := strings.CutSuffix(name, ".pick")
		if !ok {
			continue
		}
		pick, shown, text := f.Values.Get(name), f.Was.Get(name), strings.TrimSpace(f.Values.Get(code))
		typed := isHexColor(text) && !strings.EqualFold(text, shown)
		if isHexColor(pick) && !strings.EqualFold(pick, shown) && !typed {
			f.Values.Set(code, strings.ToUpper(pick))
		}
		f.Values.Del(name)
		f.Was.Del(name)
	}
}
