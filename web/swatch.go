package web

// swatch is the picture of the colors of a filament.
type swatch struct {
	Hex         string // of one color, or "" if none is known
	Parts       []part // of several colors
	Translucent bool
}

// part is a part of the ring of a swatch: one of several equal parts.
type part struct {
	Hex              string
	Of, Rest, Offset int
}

// newSwatch returns the swatch of colors such as #RRGGBB. Others are left out.
func newSwatch(translucent bool, colors ...string) swatch {
	s := swatch{Translucent: translucent}
	var known []string
	for _, hex := range colors {
		if hexColor.MatchString(hex) {
			known = append(known, hex)
		}
	}
	if len(known) == 1 {
		s.Hex = known[0]
		return s
	}
	for i, hex := range known {
		s.Parts = append(s.Parts, part{hex, len(known), len(known) - 1, -i})
	}
	return s
}
