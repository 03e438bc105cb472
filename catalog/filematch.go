package catalog

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"spoolwright/catalog/slicer"
	"spoolwright/inventory"
	"spoolwright/inventory/colors"
	"spoolwright/value"
)

// rankedFilament is a filament of the farm with its similarity to a filament of a file.
type rankedFilament struct {
	*stockedFilament
	equalColor bool
	moreName   bool    // whether the name of its material only says more, such as PLA Basic for PLA
	distance   float64 // of the colors; infinite if one is not known
	vendor     bool    // whether the vendor is the one in the file
}

// nearColor is the maximum distance of two similar colors. The color in a slicer often comes from its menu, not from
// the filament.
const nearColor = 0.15

func (r rankedFilament) match() FileMatch {
	switch {
	case r.equalColor && !r.moreName:
		return "equal"
	case r.distance <= nearColor:
		return "near"
	}
	return "material"
}

// rank returns the filaments of the farm with the material of m, the most similar first. A material and its spellings
// are equal by the rule of inventory: type, name and diameter. A material whose name only says more comes after the
// others of its color. A farm's code decides about a color; the name counts, in any language, where there is no code.
func rank(m slicer.Filament, stock []stockedFilament) (ranked []rankedFilament) {
	kind := typeOf(m)
	for i := range stock {
		s := &stock[i]
		name := value.OrZero(s.MaterialName)
		same := inventory.SameMaterial(string(kind), m.Type, name)
		if s.MaterialType != kind || !same && !inventory.SaysMore(string(kind), m.Type, name) {
			continue
		}
		if d, _ := strconv.ParseFloat(s.Diameter.String(), 64); m.DiameterMM > 0 && math.Abs(d-m.DiameterMM) > 0.2 {
			continue
		} else if m.DiameterMM == 0 && !s.Usual {
			continue
		}
		r := rankedFilament{stockedFilament: s, moreName: !same, distance: colors.Distance(m.Color, value.OrZero(s.ColorHex))}
		r.equalColor = r.distance == 0 || m.Color != "" && strings.EqualFold(m.Color, s.Color)
		if guess := colors.Guess(s.Color); s.ColorHex == nil && guess != "" {
			if r.distance = colors.Distance(m.Color, guess); colors.Name(guess) == colors.Name(m.Color) {
				r.distance = min(r.distance, nearColor)
			}
		}
		if brand := strings.ToLower(value.OrZero(s.Brand)); brand != "" {
			r.vendor = strings.Contains(strings.ToLower(m.Vendor+" "+m.Profile), brand)
		}
		ranked = append(ranked, r)
	}
	value.Sort(ranked, func(a, b rankedFilament) int {
		return cmp.Or(less(a.equalColor, b.equalColor), less(a.distance <= nearColor, b.distance <= nearColor),
			less(!a.moreName, !b.moreName), cmp.Compare(a.distance, b.distance), less(a.vendor, b.vendor))
	})
	return ranked
}

// ownName returns the name that the farm gives to the color with a code, on a filament of any material, or "".
func ownName(code string, stock []stockedFilament) string {
	for _, s := range stock {
		if code != "" && strings.EqualFold(code, value.OrZero(s.ColorHex)) {
			return s.Color
		}
	}
	return ""
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

// typeOf returns the type of the material of a filament. Some slicers use types of their own, such as SILK; the name
// of the profile then shows the type.
func typeOf(m slicer.Filament) inventory.MaterialType {
	kind := inventory.MaterialOf(m.Type)
	if kind == "Custom" {
		kind = inventory.MaterialOf(m.Profile)
	}
	return kind
}
