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
	distance   float64 // of the colors; infinite if one is not known
	vendor     bool    // whether the vendor is the one in the file
}

// nearColor is the maximum distance of two similar colors. The color in a slicer often comes from its menu, not from
// the filament.
const nearColor = 0.15

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
		r := rankedFilament{stockedFilament: s, distance: colors.Distance(m.Color, orEmpty(s.ColorHex))}
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

// typeOf returns the type of the material of a filament. Some slicers use types of their own, such as SILK; the name
// of the profile then shows the type.
func typeOf(m slicer.Filament) inventory.MaterialType {
	kind := inventory.MaterialOf(m.Type)
	if kind == "Custom" {
		kind = inventory.MaterialOf(m.Profile)
	}
	return kind
}
