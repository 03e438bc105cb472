package sheets

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spoolwright/inventory"
	"spoolwright/inventory/colors"
	"spoolwright/transfer"
	"spoolwright/value/language"
)

// maxForm is the maximum length in characters of a cell, unless its field allows longer texts. It is also the maximum
// length in bytes of a title, and of the part of a text that is examined to recognize a column.
const maxForm = 200

// start returns the beginning of a text, which is enough to recognize it.
func start(text string) string { return text[:min(len(text), maxForm)] }

// The functions in this file read the texts of cells as people write them. They never decide between two readings of a
// number or a date; package transfer does this for the whole file.

// otherMaterials are materials without a type of their own. Their type is Custom.
var otherMaterials = regexp.MustCompile(`(?i)\b(PEEK|PEKK|PEI|ULTEM|PPSU?|PPS|PP|PE|HDPE|LDPE|PET|RPET|` +
	`PETT|PCTG|CPE|PVB|PVDF|` +
	`POM|PMMA|ACRYL|SAN|TPE|TPC|TPS|TPI|EVA|PHA|PCL|PBT|PVC|BVOH|SBS|SEBS|SBC|MABS|PSU|PES|PAI|PBS|` +
	`FLEX|CFPEEK|PPO|PPE|` +
	`FILAFLEX|NINJAFLEX)([- ]?(CF|GF)\d*)?\b`)

// unknownMaterials are words for the type Custom.
var unknownMaterials = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`custom other others misc andere anderes sonstige sonstiges autre autres
		otro otros altro
		altri overig overige anders outro outros inne inny jine ostatni annat ovrigt special spezial`) {
		unknownMaterials[word] = true
	}
}

// spokenMaterials are names of materials that MaterialOf does not know.
var spokenMaterials = map[string]string{"polylactid": "PLA", "polylactide": "PLA", "polylacticacid": "PLA",
	"petg": "PETG", "pet-g": "PETG", "nylon": "Nylon", "polyamid": "Nylon", "poliamida": "Nylon", "poliammide": "Nylon",
	"poliamid": "Nylon", "polyamide": "Nylon", "polykarbonat": "PC", "polycarbonat": "PC", "policarbonato": "PC",
	"poliweglan": "PC", "polycarbonaat": "PC", "styrol": "HIPS"}

// readMaterial returns the type of a material and its exact name, or "" if the type is enough. It returns false if the
// text is not a material.
func readMaterial(text string) (kind, name string, ok bool) {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range inventory.MaterialType("").Enum() {
		if strings.EqualFold(known, text) {
			return known, "", true
		}
	}
	folded := fold(text)
	kind = string(inventory.MaterialOf(text))
	switch {
	case kind != "Custom":
	case spokenMaterials[strings.ReplaceAll(folded, " ", "")] != "":
		return spokenMaterials[strings.ReplaceAll(folded, " ", "")], "", true
	case unknownMaterials[folded]:
		return kind, "", true
	case !otherMaterials.MatchString(text):
		return "", "", false
	}
	if inventory.MaterialLabel(kind, text) == kind {
		return kind, "", true
	}
	return kind, text, true
}

// filledMaterial matches the end of the name of a material, such as -CF10 or +.
var filledMaterial = regexp.MustCompile(`^(?i)([-+]?(CF|GF|HF|ESD|FR|HT)\d*|\++|plus|pro|\d{1,3}[AD]?|%|\d+%)*$`)

// isMaterial reports whether a text is only the name of a material, with no words that do not belong to it.
func isMaterial(text string) bool {
	if _, _, ok := readMaterial(text); !ok || strings.ContainsAny(text, "/:_@") {
		return false
	}
	named := false
	for _, word := range strings.Fields(strings.NewReplacer("(", " ", ")", " ", ",", " ").Replace(text)) {
		key := strings.ReplaceAll(fold(word), "-", "")
		switch _, _, ok := readMaterial(word); {
		case ok:
			parts := strings.FieldsFunc(word, func(c rune) bool { return c == '-' || c == '+' })
			for i, part := range parts {
				_, _, ok := readMaterial(part)
				if !ok && !modifiers.MatchString(part) && !filledMaterial.MatchString(part) &&
					!(i > 0 && fillers[fold(part)] != "") && strings.ToUpper(word) != "PET-G" {
					return false
				}
			}
			named = true
		case modifiers.MatchString(word), filledMaterial.MatchString(word), fillers[key] != "", brands[key], key == "fiber",
			key == "fibre", key == "filled", key == "filament":
		default:
			return named && unknownMaterials[key]
		}
	}
	return true
}

var (
	hexText  = regexp.MustCompile(`^(?:#|0x|&H)?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`)
	hexShort = regexp.MustCompile(`^#([0-9A-Fa-f])([0-9A-Fa-f])([0-9A-Fa-f])$`)
	hexWith  = regexp.MustCompile(`^(.*\pL.*?)[\s,;:/|(\[]*#([0-9A-Fa-f]{6})[)\]]?$`)
	rgbText  = regexp.MustCompile(`^(?i:rgb)?\s*\(?\s*(\d{1,3})\s*[,;/ ]\s*(\d{1,3})\s*[,;/ ]\s*(\d{1,3})\s*\)?$`)
)

// readHex returns a color as #RRGGBB, and false if the text is not a color in numbers.
func readHex(text string) (hex string, ok bool) {
	text = strings.TrimSpace(text)
	if m := hexText.FindStringSubmatch(text); m != nil {
		return "#" + strings.ToUpper(m[1][:6]), true
	}
	if m := hexShort.FindStringSubmatch(text); m != nil {
		return strings.ToUpper("#" + m[1] + m[1] + m[2] + m[2] + m[3] + m[3]), true
	}
	if m := rgbText.FindStringSubmatch(text); m != nil {
		hex = "#"
		for _, part := range m[1:] {
			n, err := strconv.Atoi(part)
			if err != nil || n > 255 {
				return "", false
			}
			hex += fmt.Sprintf("%02X", n)
		}
		return hex, true
	}
	return "", false
}

// isColor reports whether a text names a color or is one in numbers.
func isColor(text string) bool { return colors.Guess(text) != "" || isHex(text) }

// formula matches a cell such as ="0012", which spreadsheet programs keep as a text.
var formula = regexp.MustCompile(`^="((?:[^"]|"")*)"$`)

// tidy returns the text of a cell without the marks of a spreadsheet. Blanks such as "n/a" become "".
func tidy(text string) string {
	text = strings.Trim(text, " \t\r\n\u00a0\u202f\ufeff\u200b")
	if m := formula.FindStringSubmatch(text); m != nil {
		text = strings.ReplaceAll(m[1], `""`, `"`)
	}
	if blanks[strings.ToLower(text)] {
		return ""
	}
	return text
}

var (
	about = regexp.MustCompile(`^(?i:ca\.?|circa|approx\.?|about|etwa|env\.?|aprox\.?|ok\.?|asi|cirka|` +
		`~|≈|±|<|>|≤|≥)\s*(\d.*)$`)
	tolerance  = regexp.MustCompile(`\s*(?:±|\+/-|\+-).*$`)
	endOfPrice = regexp.MustCompile(`^(.*\d)[.,:]?\s*[-–—]{1,2}\s*(\p{Sc}|[A-Za-zżłčŁ]{1,4})?$`)
	codeBefore = regexp.MustCompile(`^(-?)\s*(kr|zł|zl|Kč|Kc|Fr|SFr|R\$|US\$|A\$|AU\$|C\$|CA\$|` +
		`NZ\$|HK\$|S\$|Ft)\.?\s*(-?\d.*)$`)
	otherCode = regexp.MustCompile(`^(.*\d)\s*(US\$|A\$|AU\$|C\$|CA\$|NZ\$|HK\$|S\$|R\$|` +
		`euros?|Euros?|EURO|SFr\.?|zl|ZŁ|Kc|KČ|KC|[Dd]ollars?)$`)
	signInside = regexp.MustCompile(`^(\d+)(\p{Sc})(\d{1,2})$`)
	bracketed  = regexp.MustCompile(`^(.*\d.*?)\s*[(\[][^()\[\]]*[)\]]$`)
	diameters  = regexp.MustCompile(`^[øØ⌀∅]?\s*(\d[\d.,]*)\s*(?:mm)?\s*[øØ⌀∅]?$`)
	otherGrams = regexp.MustCompile(`^(.*\d)\s*(?i:grammes?|gramos?|grammi|grammo|gramas?|gramy|` +
		`gramów|gramů|gr\.|gms?|grs?\.?|г)$`)
	otherKilos = regexp.MustCompile(`^(.*\d)\s*(?i:kilos?|kgs\.?|kg\.|kilogrammes?|kilogramos?|` +
		`kilogrammi|kilogramm|quilos?)$`)
	timeOfDay = regexp.MustCompile(`[T ]+\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?` +
		`\s*(?:[AaPp]\.?[Mm]\.?)?(?:Z|[-+]\d\d:?\d\d)?$`)
	weekday     = regexp.MustCompile(`^\pL{2,10}\.?,\s*(.*\d.*)$`)
	monthYear   = regexp.MustCompile(`^(\d{1,2})[./-](\d{4})$`)
	yearMonth   = regexp.MustCompile(`^(\d{4})[./-](\d{1,2})$`)
	serialDay   = regexp.MustCompile(`^[34]\d{4}(?:[.,]\d+)?$|^5[0-5]\d{3}(?:[.,]\d+)?$`)
	germanDates = regexp.MustCompile(`^(\d{1,2})\.\s*(\d{1,2})\.\s*(\d{2,4})\.?$`)
	spacedDate  = regexp.MustCompile(`^(\d{4})[.\s]+(\d{1,2})[.\s]+(\d{1,2})\.?$`)
)

// currencyCodes has the codes of currencies that people write in another way.
var currencyCodes = map[string]string{"r$": "BRL", "us$": "USD", "a$": "AUD", "au$": "AUD", "c$": "CAD", "ca$": "CAD",
	"nz$": "NZD", "hk$": "HKD", "s$": "SGD", "sfr": "CHF", "fr": "CHF", "zl": "PLN", "zł": "PLN", "kc": "CZK",
	"kč": "CZK", "euro": "EUR", "euros": "EUR", "dollar": "$", "dollars": "$", "ft": "HUF"}

// readAmount returns an amount of money in a form that transfer.ParseNumber reads.
func readAmount(text string) string {
	code := func(text string) string {
		text = strings.TrimSuffix(text, ".")
		if code := currencyCodes[strings.ToLower(text)]; code != "" {
			return code
		}
		return text
	}
	if m := codeBefore.FindStringSubmatch(text); m != nil {
		text = m[1] + m[3] + " " + code(m[2])
	}
	if m := endOfPrice.FindStringSubmatch(text); m != nil {
		text = strings.TrimSpace(m[1] + " " + m[2])
	}
	if m := otherCode.FindStringSubmatch(text); m != nil {
		text = m[1] + " " + code(m[2])
	}
	if m := signInside.FindStringSubmatch(text); m != nil && len(m[3]) == 2 {
		return m[1] + "," + m[3] + " " + m[2]
	}
	return text
}

var (
	imperial = regexp.MustCompile(`(?i)\d\s*(?:lbs?|pounds?|oz|ounces?)\b`)
	metric   = regexp.MustCompile(`(?i)\d[\d.,]*\s*k?g\b`)
)

// inMetric returns the kilograms or grams of a weight that is also in pounds or ounces, such as "2.2 lb / 1 kg".
func inMetric(text string) string {
	if found := metric.FindString(text); found != "" && imperial.MatchString(text) {
		return found
	}
	return text
}

// weightUnits are the units that a title can have for weights, with their names in the plural.
var weightUnits = map[string]language.Text{"kg": "kilograms", "lb": "pounds", "oz": "ounces"}

// hasWeight reports whether a text is a weight with its unit.
func hasWeight(text string) bool {
	return hasUnit(inMetric(text), "g", "kg", "gr", "lb", "lbs", "pound", "pounds", "oz", "ounce", "ounces")
}

// readWeight returns a weight in a form that transfer.ParseNumber reads.
func readWeight(text string) string {
	text = inMetric(text)
	if m := otherGrams.FindStringSubmatch(text); m != nil {
		return m[1] + " g"
	}
	if m := otherKilos.FindStringSubmatch(text); m != nil {
		return m[1] + " kg"
	}
	return text
}

// readNumber returns a number without what people write around it.
func readNumber(text string) string {
	if m := bracketed.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	return strings.TrimSpace(tolerance.ReplaceAllString(text, ""))
}

// readDiameter returns the diameter of a filament, and whether it differs from the text.
func readDiameter(text string) (diameter string, changed bool) {
	text = readNumber(text)
	m := diameters.FindStringSubmatch(text)
	if m == nil {
		return text, false
	}
	switch strings.ReplaceAll(m[1], ",", ".") {
	case "3", "3.0", "3.00", "2.9", "2.90":
		return "2.85e0", true
	case "175":
		return "1.75e0", true
	case "285":
		return "2.85e0", true
	case "1.7", "1.8":
		return "1.75e0", true
	}
	return m[1], false
}

// readDate returns a day in a form that package transfer reads, and whether it differs from the text.
func readDate(text string) (date string, changed bool) {
	if m := weekday.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	text = strings.TrimSpace(timeOfDay.ReplaceAllString(text, ""))
	if m := germanDates.FindStringSubmatch(text); m != nil {
		return m[1] + "." + m[2] + "." + m[3], false
	}
	if m := spacedDate.FindStringSubmatch(text); m != nil {
		return m[1] + "-" + m[2] + "-" + m[3], false
	}
	month := func(year, month string) (string, bool) {
		if n, err := strconv.Atoi(month); err == nil && n >= 1 && n <= 12 {
			return fmt.Sprintf("%s-%02d-01", year, n), true
		}
		return text, false
	}
	if m := monthYear.FindStringSubmatch(text); m != nil {
		return month(m[2], m[1])
	}
	if m := yearMonth.FindStringSubmatch(text); m != nil {
		return month(m[1], m[2])
	}
	if serialDay.MatchString(text) { // days since the end of 1899, as spreadsheets count them
		if n, err := strconv.Atoi(text[:5]); err == nil {
			return time.Date(1899, 12, 30+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), true
		}
	}
	return text, false
}

// isTotalWord reports whether a word of a title is one of totalWords, or begins with Gesamt.
func isTotalWord(word string) bool { return totalWords[word] || strings.HasPrefix(word, "gesamt") }

// unitLike matches units and currencies behind numbers.
var unitLike = regexp.MustCompile(`^(?i:\p{Sc}|%|mm|kgs?|g|gr|grams?|gramm|kilo|lbs?|pounds?|oz|ounces?|°?c|°|h|` +
	`min|std|stk|pcs|st|ks|szt|uds?|x|×|[a-z]{3}|kr|zł|kč|ft|lei|fr|` +
	`g/cm[³3]|w)\.?$`)

// numberLike reports whether a text is a number, perhaps with a unit.
func numberLike(text string) bool {
	n, ok := transfer.ParseNumber(readNumber(text))
	if !ok || n.Unit != "" && !unitLike.MatchString(n.Unit) {
		return false
	}
	point, comma := n.Readings()
	return point+comma != ""
}
