package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"spoolwright/value/language"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// locale determines how pages write and read numbers, and how they write dates.
type locale struct {
	language, decimal string
	group             string // the first character stands between groups of digits; the others are also read so
	date, day         string
	money             string // how an amount of 1 in the currency ¤ is written; "" is behind the amount
	indian            bool   // the last three digits form a group, and each two before them
	unknown           bool   // a number such as 1.000 may have another meaning in the visitor's language
}

// iso is the locale of a language that locales does not have.
var iso = &locale{language: "en", decimal: ".", group: space, date: "2006-01-02", day: "01-02", unknown: true}

const space = "\u202f"

// writings are the decimal marks and the marks between groups of digits of languages, and of languages in regions, as
// in the Common Locale Data Repository. A region that is not listed writes as its language does.
var writings = []struct{ decimal, group, languages string }{
	{",", ".", `an ar-dz ar-eh ar-ly ar-ma ar-mr ar-tn ast az bs ca da de dsb el en-be en-de en-dk en-nl en-si es eu fo
		fr-lu fr-ma fur fy gl hr hsb id is it jv kl ku lb lo mk ms-bn ms-id nds nl pt ro rw sc sl sr su sw-cd tr vi wo`},
	{",", space + ".", "de-at en-at"},
	{",", space, `af be bg br cs cv en-fi en-se en-za eo es-cr et fi fr hu hy ka kab kk ky lt lv nb nn no oc os pl pt-ao
		pt-ch pt-cv pt-gq pt-gw pt-lu pt-mo pt-mz pt-pt pt-st pt-tl ru se sk smn sq sv tg tk tt uk uz`},
	{".", "’", "de-ch de-li en-ch gsw it-ch rm"},
	{".", ",", `am ar bo chr cy en es-419 es-bz es-cu es-do es-gt es-hn es-mx es-ni es-pa es-pe es-pr es-sv es-us fa
		fil ga gd gv ha haw he ig ii iw ja km ko lg mi mn ms mt my om ps si so sw th ti tl to ug yi yo zh zu`},
	{".", ",indian", "as bn brx doi dz en-in gu hi kn kok ks mai ml mni mr ne or pa sa sat sd ta te ur"},
}

// days are the layouts of dates with a year and without. All other languages have those of iso.
var days = []struct{ date, day, languages string }{
	{"Jan\u00a02,\u00a02006", "Jan\u00a02", "en-us"},
	{"2\u00a0Jan\u00a02006", "2\u00a0Jan", "en"},
	{"02.01.2006", "02.01.", "bs cs da de hr is sk sl sr"},
	{"02.01.2006", "02.01", "az be bg et fi hy ka kk lv mk nb nn no pl ro ru sq tr uk"},
	{"02/01/2006", "02/01", "ca el es eu fr gl hi id it pt vi"},
	{"02-01-2006", "02-01", "nl"},
	{"2006/1/2", "1/2", "ja zh"},
}

// moneys are the languages, and languages in regions, that do not write the sign of a currency behind the amount.
var moneys = []struct{ money, languages string }{
	{"1¤", "en-be en-de en-dk en-fi en-se en-si pt-ao pt-ch pt-cv pt-gq pt-gw pt-lu pt-mo pt-mz pt-pt pt-st pt-tl"},
	{"¤\u00a01", "de-at de-ch de-li en-at en-ch it-ch ms nl pt"},
	{"¤1", "cy en es-419 es-mx es-us ga gu hi ja kn ko ml mr ta te th ur zh"},
}

// signs are the signs of currencies that no other currency of this table has, except yen and yuan.
var signs = map[string]string{"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "CNY": "¥", "BRL": "R$", "INR": "₹",
	"KRW": "₩", "TRY": "₺", "UAH": "₴", "ILS": "₪", "VND": "₫", "PHP": "₱", "PLN": "zł", "CZK": "Kč", "HUF": "Ft"}

// locales maps languages, and languages in regions, to their locales.
var locales = func() map[string]*locale {
	all := map[string]*locale{}
	for _, m := range writings {
		group, isIndian := strings.CutSuffix(m.group, "indian")
		for name := range strings.FieldsSeq(m.languages) {
			all[name] = &locale{name, m.decimal, group, iso.date, iso.day, "", isIndian, false}
		}
	}
	us := *all["en"]
	all["en-us"] = &us
	each := func(languages string, set func(*locale)) {
		for of := range strings.FieldsSeq(languages) {
			for name, l := range all {
				if name == of || strings.HasPrefix(name, of+"-") {
					set(l)
				}
			}
		}
	}
	for _, d := range slices.Backward(days) { // a region comes after its language
		each(d.languages, func(l *locale) { l.date, l.day = d.date, d.day })
	}
	for _, m := range slices.Backward(moneys) {
		each(m.languages, func(l *locale) { l.money = m.money })
	}
	return all
}()

// localeOf returns the locale of the first language of an Accept-Language header.
func localeOf(header string) *locale {
	first, _, _ := strings.Cut(strings.ToLower(header), ",")
	first, _, _ = strings.Cut(strings.TrimSpace(first), ";")
	subtags := strings.Split(first, "-")
	for _, region := range subtags[1:] { // a script may precede the region
		if l := locales[subtags[0]+"-"+region]; l != nil {
			return l
		}
	}
	if l := locales[subtags[0]]; l != nil {
		return l
	}
	return iso
}

// num is a decimal number of the API, or "" for null.
type num = json.Number

func float(n num) float64 { f, _ := n.Float64(); return f }

// Number writes a number with at most the given number of digits after the decimal mark.
func (v *visit) Number(n num, digits int) string {
	if n == "" {
		return "–"
	}
	return v.locale.number(float(n), digits)
}

func (l *locale) number(f float64, digits int) string {
	s := strconv.FormatFloat(math.Abs(f), 'f', digits, 64)
	whole, rest, _ := strings.Cut(s, ".")
	rest = strings.TrimRight(rest, "0")
	_, mark := utf8.DecodeRuneInString(l.group)
	for i, size := len(whole)-3, 3; i > 0; i -= size {
		whole = whole[:i] + l.group[:mark] + whole[i:]
		if l.indian {
			size = 2
		}
	}
	if rest != "" {
		whole = l.certain(whole + l.decimal + rest)
	}
	if f < 0 && strings.Trim(whole, "0") != "" {
		whole = "−" + whole
	}
	return whole
}

var threeDecimals = regexp.MustCompile(`^-?[1-9][0-9]{0,2}\.[0-9]{3}$`)

// certain appends a zero to a number whose three decimals may look like a group of digits to the visitor.
func (l *locale) certain(number string) string {
	if l.unknown && threeDecimals.MatchString(number) {
		return number + "0"
	}
	return number
}

func trimFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// plain writes a number as the text of an input: with the decimal mark of the language, and without groups.
func (l *locale) plain(f float64) string {
	return l.certain(strings.Replace(trimFloat(f), ".", l.decimal, 1))
}

// text writes a number of the API as plain does, and null as "".
func (l *locale) text(n num) string {
	if n == "" {
		return ""
	}
	return l.plain(float(n))
}

// Grams writes a weight: up to 999 g in grams, and then in kilograms to the gram.
func (v *visit) Grams(n num) string {
	if n == "" {
		return "–"
	}
	digits := 1
	switch grams := math.Abs(float(n)); {
	case grams >= 999.5:
		return v.locale.number(float(n)/1000, 3) + "\u00a0kg"
	case grams >= 100:
		digits = 0
	}
	return v.Number(n, digits) + "\u00a0g"
}

// Kilos writes a weight of many spools.
func (v *visit) Kilos(n num) string {
	if math.Abs(float(n)) < 999.5 {
		return v.Grams(n)
	}
	return v.locale.number(float(n)/1000, 1) + "\u00a0kg"
}

// Change writes a change of a weight with its sign.
func (v *visit) Change(n num) string {
	if float(n) > 0 {
		return "+" + v.Grams(n)
	}
	return v.Grams(n)
}

// minorUnits maps the currencies of ISO 4217 that do not have two decimals to their number of decimals.
var minorUnits = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0,
	"UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
}

// Money writes an amount in the currency of the farm.
func (v *visit) Money(n num) string { return v.MoneyIn("", n) }

// MoneyIn writes an amount in a currency, or if that is "" in that of the farm: with the sign of the currency if it
// has one of its own, and else with its code.
func (v *visit) MoneyIn(currency string, n num) string {
	if n == "" {
		return "–"
	}
	currency = cmp.Or(currency, v.Currency)
	decimals := 2
	if n, ok := minorUnits[currency]; ok {
		decimals = n
	}
	s := v.locale.number(float(n), decimals)
	if decimals > 0 {
		whole, cents, _ := strings.Cut(s, v.locale.decimal)
		s = v.locale.certain(whole + v.locale.decimal + (cents + "0000")[:decimals])
	}
	sign, isBefore := signs[currency], strings.HasPrefix(v.locale.money, "¤")
	switch last, _ := utf8.DecodeLastRuneInString(sign); {
	case currency == "":
		return s
	case sign == "", v.locale.unknown, sign == "¥" && currency != v.Currency, isBefore && unicode.IsLetter(last):
		return s + "\u00a0" + currency
	case isBefore:
		amount, isNegative := strings.CutPrefix(s, "−")
		s = strings.NewReplacer("¤", sign, "1", amount).Replace(v.locale.money)
		if isNegative {
			s = "−" + s
		}
		return s
	}
	return s + "\u00a0" + sign
}

// Minutes writes a duration in minutes, and Hours one in hours, such as 45 min, 1 h 35 min and 2 d 3 h.
func (v *visit) Minutes(n num) string {
	if n == "" {
		return "–"
	}
	minutes := int64(math.Round(float(n)))
	amount := func(n int64, unit language.Text) string { return v.locale.number(float64(n), 0) + "\u00a0" + v.t(unit) }
	rest := func(n int64, unit language.Text) string {
		if n == 0 {
			return ""
		}
		return "\u00a0" + amount(n, unit)
	}
	switch {
	case minutes < 60:
		return amount(minutes, "min|minutes")
	case minutes < 24*60:
		return amount(minutes/60, "h|hours") + rest(minutes%60, "min|minutes")
	}
	return amount(minutes/(24*60), "d|days") + rest(minutes/60%24, "h|hours")
}

func (v *visit) Hours(n num) string {
	if n == "" {
		return "–"
	}
	return v.Minutes(num(trimFloat(float(n) * 60)))
}

// Lasts writes for how many days filament lasts.
func (v *visit) Lasts(days num) string {
	switch {
	case days == "":
		return "–"
	case float(days) > 365:
		return v.t("over a year")
	}
	return v.t("%d day|%d days", int(math.Round(float(days))))
}

func (v *visit) month(t time.Time) string {
	return v.t("%s %s|month and year", v.t(monthNames[t.Month()-1]), strconv.Itoa(t.Year()))
}

var monthNames = [12]language.Text{"January", "February", "March", "April", "May|month", "June", "July", "August",
	"September", "October", "November", "December"}

// Time writes a time in the time zone of the farm, and Date only the day of the time: that of today, tomorrow and
// yesterday in words. Moment and OnDate are Time and Date without such words, for sentences that have a preposition
// before the time.
func (v *visit) Time(t *time.Time) string   { return v.at(t, true, clock) }
func (v *visit) Date(t *time.Time) string   { return v.at(t, true, "") }
func (v *visit) Moment(t *time.Time) string { return v.at(t, false, clock) }
func (v *visit) OnDate(t *time.Time) string { return v.at(t, false, "") }

const clock = "\u00a015:04"

// at writes the day of a time, and behind it what the layout has.
func (v *visit) at(t *time.Time, inWords bool, layout string) string {
	if t == nil {
		return "–"
	}
	local := t.In(v.zone)
	return v.day(local, inWords) + local.Format(layout)
}

// day writes the day of a time, without the year if it is this year.
func (v *visit) day(t time.Time, inWords bool) string {
	now := v.Now()
	switch days := daysBetween(t, now); {
	case inWords && days == 0:
		return v.t("today")
	case inWords && days == 1:
		return v.t("yesterday")
	case inWords && days == -1:
		return v.t("tomorrow")
	case t.Year() == now.Year() && !v.locale.unknown:
		return t.Format(v.locale.day)
	}
	return t.Format(v.locale.date)
}

// daysBetween returns how many days later the second day is.
func daysBetween(a, b time.Time) int {
	day := func(t time.Time) time.Time { y, m, d := t.Date(); return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	return int(day(b).Sub(day(a)) / (24 * time.Hour))
}

// Clock writes a time of today as hours and minutes, and any other time with its day.
func (v *visit) Clock(t *time.Time) string {
	if t != nil && daysBetween(t.In(v.zone), v.Now()) == 0 {
		return t.In(v.zone).Format("15:04")
	}
	return v.Time(t)
}

// Until writes when a run ends or has ended or, if the end is not known, when it started.
func (v *visit) Until(status string, start, end *time.Time) string {
	switch {
	case status == "paused":
		return v.t("Paused")
	case end != nil && end.Before(v.Now()):
		return unbroken(v.t("ended %s", v.Clock(end)))
	case end != nil:
		return unbroken(v.t("until %s", v.Clock(end)))
	case start != nil:
		return unbroken(v.t("since %s", v.Clock(start)))
	}
	return v.t("Printing")
}

// unbroken returns a text that stays in one line.
func unbroken(text string) string { return strings.ReplaceAll(text, " ", "\u00a0") }

// monday returns the first day of the week.
func monday(t time.Time) time.Time { return t.AddDate(0, 0, -(int(t.Weekday())+6)%7) }

// Day writes a date of the API, such as 2026-01-31. OnDay does so for sentences: see Moment. Full writes it with its
// year, for paper.
func (v *visit) Day(s string) string {
	return onDay(s, func(t time.Time) string { return v.day(t, true) })
}

func (v *visit) OnDay(s string) string {
	return onDay(s, func(t time.Time) string { return v.day(t, false) })
}

func (v *visit) Full(s string) string {
	return onDay(s, func(t time.Time) string { return t.Format(v.locale.date) })
}

// onDay writes a date of the API with a function, or a dash if there is none.
func onDay(s string, write func(time.Time) string) string {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return "–"
	}
	return write(t)
}

// IsPast reports whether a date of the API is before today.
func (v *visit) IsPast(s string) bool { return s != "" && s < v.Now().Format(time.DateOnly) }

// More writes the number of entries of a list that the page does not show, or "" if it shows all.
func (v *visit) More(total, shown int) string {
	if total <= shown {
		return ""
	}
	return v.t("and %d more|and %d more", total-shown)
}

// All returns the link to a list of which the page shows the first rows, with an empty name if it shows all.
func (v *visit) All(total int, address string) option {
	if total <= shownToday {
		return option{}
	}
	return option{address, v.t("all %d|all %d", total)}
}

// Now returns the time in the time zone of the farm.
func (v *visit) Now() time.Time { return v.site.Now().In(v.zone) }

// Ago writes how many days ago a time was. It writes a time at least 30 days ago as a date.
func (v *visit) Ago(t *time.Time) string {
	if t == nil {
		return v.t("never")
	}
	switch days := daysBetween(t.In(v.zone), v.Now()); {
	case days <= 0:
		return v.t("today")
	case days == 1:
		return v.t("yesterday")
	case days < 30:
		return v.t("%d day ago|%d days ago", days)
	}
	return v.Date(t)
}

// label returns the name of a field, or a value of the API, as words in the language of the visitor.
func (v *visit) label(name string) string { return v.t(language.Text(label(name))) }

// spaced makes words of a name of the API.
var spaced = strings.NewReplacer("_grams", "", "_", " ")

// label returns the name of a field of the API as words.
func label(name string) string {
	if name == "body" { // the API names the whole of what was sent so
		return "This"
	}
	name = spaced.Replace(name)
	return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
}

// commas returns texts as one text with commas between them, as the language writes them.
func commas(v translator, texts []string) (all string) {
	for i, text := range texts {
		if all = v.t("%s, %s|items of a list", all, text); i == 0 {
			all = text
		}
	}
	return all
}

// customText returns the value of a custom field as the text of an input.
func (l *locale) customText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case float64:
		return l.plain(value)
	case []any:
		texts, separator := make([]string, len(value)), ", "
		for i, v := range value {
			texts[i] = l.customText(v)
			switch v.(type) {
			case string:
			case map[string]any:
				separator = "; "
			default:
				separator = "–"
			}
		}
		return strings.Join(texts, separator)
	case map[string]any: // an exchange rate
		return l.customText(value["currency"]) + " " + l.customText(value["rate"])
	}
	return fmt.Sprint(value)
}
