package inventory

import (
	"regexp"
	"slices"
	"strings"
)

// MaterialType is a kind of filament.
type MaterialType string

// Enum returns all types.
func (MaterialType) Enum() []string {
	return []string{"PLA", "PETG", "ABS", "TPU", "ASA", "Nylon", "PC", "HIPS", "PVA", "Custom"}
}

// MaterialLabel returns the name of a material for people, as the SQL function material_label does. If the name is
// only another spelling of the type, it returns the type.
func MaterialLabel(materialType, name string) string {
	if materialKey(materialType, name) == "" {
		return materialType
	}
	return strings.Trim(name, " ")
}

// SameMaterial compares two names of materials of the same type, as the SQL function material_key does.
func SameMaterial(materialType, a, b string) bool {
	return materialKey(materialType, a) == materialKey(materialType, b)
}

// plainWords are words that makers add to the name of a material that prints as the plain one does.
var plainWords = strings.Fields("basic standard classic essential essentials economy eco easy premium original regular " +
	"normal generic")

// SaysMore reports whether the name b of a material of the type names the same material as the name a in more words:
// PLA Basic is PLA, and PLA-CF is not.
func SaysMore(materialType, a, b string) bool {
	words := strings.FieldsFunc(b, func(c rune) bool { return strings.ContainsRune(" \t\u00a0-_", c) })
	plain := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return slices.Contains(plainWords, strings.ToLower(w))
	})
	return len(plain) < len(words) && SameMaterial(materialType, a, strings.Join(plain, " "))
}

// materialKey returns the name of a material in normalized form, or "" if the name is a spelling of the type.
func materialKey(materialType, name string) string {
	plain := map[string][]string{"Nylon": {"pa", "polyamide"}, "PC": {"polycarbonate"}}[materialType]
	key := strings.NewReplacer(" ", "", "\t", "", "\u00a0", "", "-", "", "_", "").Replace(strings.ToLower(name))
	if key == strings.ToLower(materialType) || slices.Contains(plain, key) {
		return ""
	}
	return key
}

// materials has a pattern for each type, which matches upper case: the name alone, or the name with a variant, a
// filler such as CF, a hardness or a number.
var materials = []struct {
	name MaterialType
	word *regexp.Regexp
}{
	{"PLA", regexp.MustCompile(`^(R|E|HT|LW|HS)?PLA(PLUS|PRO|MAX|LITE|CF|GF|HF|HS|ST)?\d*$`)},
	{"PETG", regexp.MustCompile(`^(R|HS)?PETG(PLUS|PRO|CF|GF|HF|HS|ESD)?\d*$`)},
	{"ABS", regexp.MustCompile(`^R?ABS(PLUS|PRO|CF|GF|FR)?\d*$`)},
	{"TPU", regexp.MustCompile(`^TPU(HF|HS)?\d*[AD]?$`)},
	{"ASA", regexp.MustCompile(`^R?ASA(PLUS|CF|GF)?\d*$`)},
	{"Nylon", regexp.MustCompile(`^(NYLON|POLYAMIDE|PA|PAHT|COPA|PPA)\d*(CF|GF)?\d*$`)},
	{"PC", regexp.MustCompile(`^(PC|POLYCARBONATE)(PBT|CF|GF|FR)?\d*$`)},
	{"HIPS", regexp.MustCompile(`^HIPS\d*$`)},
	{"PVA", regexp.MustCompile(`^PVA(PLUS)?\d*$`)},
}

// MaterialOf returns the type of a material; for example, the type of PLA+ is PLA.
func MaterialOf(text string) MaterialType {
	upper := strings.ToUpper(text)
	upper = strings.ReplaceAll(upper, "PET-G", "PETG")
	isSeparator := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	for word := range strings.FieldsFuncSeq(upper, isSeparator) {
		for _, m := range materials {
			if m.word.MatchString(word) {
				return m.name
			}
		}
	}
	return "Custom"
}
