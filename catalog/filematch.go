package catalog

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"spoolwright/catalog/slicer"
	"spoolwright/inventory"
	"spoolwright/value"
)

// rankedFilament is a filament of the farm with its similarity to a filament of a file.
type rankedFilament struct {
	*stockedFilament
	equalColor bool
	distance   float64 // of the colors; infinite if one is not known
	vendor     bool    // whether the vendor is that of the file
}

// nearColor is the distance up to which two colors count as similar. A slicer's color is often that of a menu, and not
// that of the filament.
const nearColor = 90

func (r rankedFilament) match() FileMatch {
	switch {
	case r.equalColor:
		return "equal"
	case r.distance <= nearColor:
		return "near"
	}
	return "material"
}

// rank returns the filaments of the farm with the material of m, the most similar first. A material and its spellings
// are equal by the rule of inventory: type, name and diameter.
func rank(m slicer.Filament, stock []stockedFilament) (ranked []rankedFilament) {
	kind := typeOf(m)
	for i := range stock {
		s := &stock[i]
		if s.MaterialType != kind || !inventory.SameMaterial(string(kind), m.Type, orEmpty(s.MaterialName)) {
			continue
		}
		if d, _ := strconv.ParseFloat(s.Diameter.String(), 64); m.DiameterMM > 0 && math.Abs(d-m.DiameterMM) > 0.2 {
			continue
		} else if m.DiameterMM == 0 && !s.Usual {
			continue
		}
		r := rankedFilament{stockedFilament: s, distance: distance(m.Color, orEmpty(s.ColorHex))}
		r.equalColor = r.distance == 0 || m.Color != "" && strings.EqualFold(m.Color, s.Color)
		if brand := strings.ToLower(orEmpty(s.Brand)); brand != "" {
			r.vendor = strings.Contains(strings.ToLower(m.Vendor+" "+m.Profile), brand)
		}
		ranked = append(ranked, r)
	}
	value.Sort(ranked, func(a, b rankedFilament) int {
		return cmp.Or(less(a.equalColor, b.equalColor), cmp.Compare(a.distance, b.distance), less(a.vendor, b.vendor))
	})
	return ranked
}

// less orders true before false.
func less(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// maxCandidates is the maximum number of candidates of a filament in a response.
const maxCandidates = 20

// candidates returns the filaments for a choice: those of the material or, if the file does not name it, all.
func candidates(ranked []rankedFilament, stock []stockedFilament, any bool) []FileCandidate {
	list := []FileCandidate{}
	add := func(s *stockedFilament) {
		if len(list) < maxCandidates {
			list = append(list, FileCandidate{FilamentNo: s.Number, MaterialType: s.MaterialType,
				MaterialName: s.MaterialName, Color: s.Color, ColorHex: s.ColorHex, Brand: s.Brand, DiameterMM: s.Diameter})
		}
	}
	for _, r := range ranked {
		add(r.stockedFilament)
	}
	for i := range stock {
		if any {
			add(&stock[i])
		}
	}
	return list
}

// rgb returns the color of a text such as #1A1A1A or #1A1A1AFF.
func rgb(text string) (c [3]float64, ok bool) {
	text, isHex := strings.CutPrefix(text, "#")
	if !isHex || len(text) != 6 && len(text) != 8 {
		return c, false
	}
	n, err := strconv.ParseUint(text[:6], 16, 32)
	if err != nil {
		return c, false
	}
	return [3]float64{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}, true
}

// distance returns the distance of two colors as people see it, from 0 to about 765, or infinity if one is not known.
func distance(a, b string) float64 {
	x, ok1 := rgb(a)
	y, ok2 := rgb(b)
	if !ok1 || !ok2 {
		return math.Inf(1)
	}
	red, green, blue := x[0]-y[0], x[1]-y[1], x[2]-y[2]
	mean := (x[0] + y[0]) / 2
	return math.Sqrt((2+mean/256)*red*red + 4*green*green + (2+(255-mean)/256)*blue*blue)
}

// colorNames are the names of colors for filaments that the farm does not have.
var colorNames = []struct{ hex, name string }{
	{"#000000", "Black"}, {"#FFFFFF", "White"}, {"#808080", "Grey"}, {"#C0C0C0", "Silver"}, {"#FF0000", "Red"},
	{"#8B0000", "Dark red"}, {"#FF8000", "Orange"}, {"#FFFF00", "Yellow"}, {"#FFD700", "Gold"}, {"#00FF00", "Green"},
	{"#006400", "Dark green"}, {"#008000", "Green"}, {"#00FFFF", "Cyan"}, {"#008080", "Teal"}, {"#0000FF", "Blue"},
	{"#000080", "Dark blue"}, {"#87CEEB", "Light blue"}, {"#800080", "Purple"}, {"#FF00FF", "Magenta"},
	{"#FFC0CB", "Pink"}, {"#8B4513", "Brown"}, {"#F5F5DC", "Beige"},
}

// colorName returns the name of the nearest color for a hex value, or the text if it is a name.
func colorName(text string) string {
	if _, ok := rgb(text); !ok {
		return text
	}
	return slices.MinFunc(colorNames, func(a, b struct{ hex, name string }) int {
		return cmp.Compare(distance(text, a.hex), distance(text, b.hex))
	}).name
}

// typeOf returns the type of the material of a filament. Some slicers have types of their own, such as SILK, which the
// name of the profile explains.
func typeOf(m slicer.Filament) inventory.MaterialType {
	kind := inventory.MaterialOf(m.Type)
	if kind == "Custom" {
		kind = inventory.MaterialOf(m.Profile)
	}
	return kind
}
