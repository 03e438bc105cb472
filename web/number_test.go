package web

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spoolwright/value/language"
)

// inEnglish is the visit of a person who reads English.
var inEnglish = &visit{language: language.English}

// allLocales are the locales by the names that an Accept-Language header has for them.
func allLocales() map[string]*locale {
	all := map[string]*locale{"": iso}
	for name, l := range locales {
		all[name] = l
	}
	return all
}

// What a page shows means the same number when it is typed on that page: with the marks between groups, and as the
// text of an input.
func TestNumbersAreReadAsShown(t *testing.T) {
	t.Parallel()
	for name, l := range allLocales() {
		r := reader{l, "EUR", inEnglish}
		v := &visit{locale: l}
		v.Currency = "EUR"
		numbers := []float64{0, 0.001, 0.125, 0.5, 1, 1.185, 12.5, 12.345, 100, 999.999, 1000, 1185, 2980, 10000.25,
			123456.789, 999999999, 0.000001, 1.000001}
		for range 500 {
			numbers = append(numbers, math.Round(math.Pow(10, 15*rand.Float64()-6)*1e6)/1e6)
		}
		for _, f := range numbers {
			want := trimFloat(f)
			for _, text := range []string{l.number(f, 6), l.plain(f), l.number(-f, 6)} {
				got, problem := r.read("weight_grams", text)
				if strings.TrimPrefix(string(got), "-") != want {
					t.Errorf("%s: %q is read as %q (%s), want %s", name, text, got, problem, want)
				}
			}
			n := json.Number(trimFloat(math.Round(f*100) / 100))
			if got, problem := r.read("price", v.Money(n)); got != n {
				t.Errorf("%s: %q is read as %q (%s), want %s", name, v.Money(n), got, problem, n)
			}
			n = json.Number(trimFloat(math.Round(f)))
			if f > 100 {
				if got, problem := r.read("weight_grams", v.Grams(n)); got != n {
					t.Errorf("%s: %q is read as %q (%s), want %s", name, v.Grams(n), got, problem, n)
				}
			}
		}
	}
}

// A number is shown and read with the marks of the language and its country. Want is how a page shows 1234567.5, and
// thousand how 1000 is written. In an unknown language, what may have another meaning is asked about.
func TestMarksOfLanguages(t *testing.T) {
	t.Parallel()
	for header, test := range map[string]struct{ want, thousand string }{
		"en-US": {"1,234,567.5", "1,000"}, "en-GB": {"1,234,567.5", "1,000"}, "en": {"1,234,567.5", "1,000"},
		"en-AU,en;q=0.9": {"1,234,567.5", "1,000"}, "en-IN": {"12,34,567.5", "1,000"}, "hi-IN": {"12,34,567.5", "1,000"},
		"en-ZA": {"1 234 567,5", "1 000"}, "de-DE": {"1.234.567,5", "1.000"}, "de-CH": {"1’234’567.5", "1’000"},
		"de-AT": {"1 234 567,5", "1.000"}, "fr-CH": {"1 234 567,5", "1 000"}, "fr-CA": {"1 234 567,5", "1 000"},
		"it-IT": {"1.234.567,5", "1.000"}, "it-CH": {"1’234’567.5", "1’000"}, "tr-TR": {"1.234.567,5", "1.000"},
		"tr": {"1.234.567,5", "1.000"}, "el-GR": {"1.234.567,5", "1.000"}, "ro-RO": {"1.234.567,5", "1.000"},
		"id-ID": {"1.234.567,5", "1.000"}, "vi-VN": {"1.234.567,5", "1.000"}, "hr-HR": {"1.234.567,5", "1.000"},
		"sl-SI": {"1.234.567,5", "1.000"}, "sr-Latn-RS": {"1.234.567,5", "1.000"}, "mk": {"1.234.567,5", "1.000"},
		"es-ES": {"1.234.567,5", "1.000"}, "es-AR": {"1.234.567,5", "1.000"}, "es-MX": {"1,234,567.5", "1,000"},
		"es-419": {"1,234,567.5", "1,000"}, "es-US": {"1,234,567.5", "1,000"}, "es-CR": {"1 234 567,5", "1 000"},
		"pt-BR": {"1.234.567,5", "1.000"}, "pt-PT": {"1 234 567,5", "1 000"}, "sv-SE": {"1 234 567,5", "1 000"},
		"nb-NO": {"1 234 567,5", "1 000"}, "no": {"1 234 567,5", "1 000"}, "ru-RU": {"1 234 567,5", "1 000"},
		"uk": {"1 234 567,5", "1 000"}, "bg-BG": {"1 234 567,5", "1 000"}, "hu": {"1 234 567,5", "1 000"},
		"sk": {"1 234 567,5", "1 000"}, "lt": {"1 234 567,5", "1 000"}, "lv": {"1 234 567,5", "1 000"},
		"et": {"1 234 567,5", "1 000"}, "ka": {"1 234 567,5", "1 000"}, "sq": {"1 234 567,5", "1 000"},
		"kk": {"1 234 567,5", "1 000"}, "az-Latn-AZ": {"1.234.567,5", "1.000"}, "zh-Hans-CN": {"1,234,567.5", "1,000"},
		"ja-JP": {"1,234,567.5", "1,000"}, "ko": {"1,234,567.5", "1,000"}, "th-TH": {"1,234,567.5", "1,000"},
		"ar-MA": {"1.234.567,5", "1.000"}, "ar-AE": {"1,234,567.5", "1,000"}, "IS-is": {"1.234.567,5", "1.000"},
	} {
		l := localeOf(header)
		r := reader{l, "", inEnglish}
		if got := l.number(1234567.5, 2); got != strings.ReplaceAll(test.want, " ", "\u202f") {
			t.Errorf("%s: shows %s, want %s", header, got, test.want)
		}
		for text, want := range map[string]json.Number{test.want: "1234567.5", test.thousand: "1000",
			test.thousand + l.decimal + "50": "1000.5", "-" + test.thousand: "-1000"} {
			if got, problem := r.read("pieces", text); got != want {
				t.Errorf("%s: %s is read as %s (%s), want %s", header, text, got, problem, want)
			}
		}
	}
	for _, header := range []string{"", "*", "xx", "tlh-Latn", "st-ZA", "de_DE"} {
		r := reader{localeOf(header), "", inEnglish}
		for _, text := range []string{"1.000", "1,000", "12.345", "999,999"} {
			if got, problem := r.read("pieces", text); got != "" || !strings.Contains(problem, "can be read as") {
				t.Errorf("%s: %s is read as %s (%s)", header, text, got, problem)
			}
		}
		for text, want := range map[string]json.Number{"1.0000": "1", "0.125": "0.125", "1.5": "1.5", "1,5": "1.5",
			"1 000": "1000", "1 234.567": "1234.567", "1,234.5": "1234.5", "1.234,5": "1234.5"} {
			if got, problem := r.read("pieces", text); got != want {
				t.Errorf("%s: %s is read as %s (%s), want %s", header, text, got, problem, want)
			}
		}
	}
	hindi := reader{localeOf("hi"), "", inEnglish}
	for text, want := range map[string]json.Number{"1,00,000": "100000", "12,34,567.25": "1234567.25", "1,00,00": "",
		"1,0,000": "", "100,000": "100000"} {
		if got, _ := hindi.read("pieces", text); got != want {
			t.Errorf("hi: %s is read as %s, want %s", text, got, want)
		}
	}
}

func TestReadNumbers(t *testing.T) {
	t.Parallel()
	english, german, french, other := reader{locales["en-us"], "USD", inEnglish}, reader{locales["de"], "EUR", inEnglish},
		reader{locales["fr"], "EUR", inEnglish}, reader{iso, "", inEnglish}
	for _, test := range []struct {
		reader
		field, text, want string // want is the number, "" for a text that is none, or a part of the problem
	}{
		{english, "weight_grams", "1,185", "1185"},
		{english, "weight_grams", "1,185.5", "1185.5"},
		{english, "weight_grams", "1.185,5", "1185.5"},
		{english, "weight_grams", "12,5", "12.5"},
		{english, "weight_grams", "0,125", "0.125"},
		{english, "weight_grams", "1.185", "1.185"},
		{english, "weight_grams", "1,000,000", "1000000"},
		{english, "weight_grams", "1.000.000", "1000000"},
		{english, "weight_grams", "1 000", "1000"},
		{english, "weight_grams", "1\u202f000.5", "1000.5"},
		{english, "weight_grams", "1’000.50", "1000.5"},
		{english, "weight_grams", "1,2,3", ""},
		{english, "weight_grams", "1,00,000", ""},
		{english, "weight_grams", "1.000.0", ""},
		{english, "weight_grams", "1 00", ""},
		{english, "weight_grams", "1,000 000", ""},
		{english, "weight_grams", "1e3", ""},
		{english, "weight_grams", "-", ""},
		{english, "weight_grams", ".", ""},
		{english, "weight_grams", "1.5.", ""},
		{english, "weight_grams", ".5", "0.5"},
		{english, "weight_grams", "5.", "5"},
		{english, "weight_grams", "007", "7"},
		{english, "weight_grams", "−5", "-5"},
		{english, "weight_grams", "1,185 g", "1185"},
		{english, "weight_grams", "1.2kg", "1200"},
		{english, "weight_grams", "2 lb", "907.18"},
		{english, "weight_grams", "8 oz", "226.8"},
		{english, "weight_grams", "2 t", ""},
		{english, "weight_grams", "１２．５", "12.5"},
		{english, "weight_grams", "١٬١٨٥٫٥", "1185.5"},
		{english, "purchase_price", "$2,980", "2980"},
		{english, "purchase_price", "29.80 USD", "29.8"},
		{english, "purchase_price", "29.80 €", ""},
		{english, "quantity", "1,000", "1000"},
		{english, "labour_minutes", "1 h 35 min", "95"},
		{english, "labour_minutes", "1:35 h", "95"},
		{english, "actual_print_time_hours", "1:30", "1.5"},
		{english, "quantity", "1:30", ""},
		{german, "weight_grams", "1.185", "1185"},
		{german, "weight_grams", "1.185,5 g", "1185.5"},
		{german, "weight_grams", "1,185", "1.185"},
		{german, "weight_grams", "24.99", "24.99"},
		{german, "purchase_price", "2.980", "2980"},
		{german, "purchase_price", "29,80 €", "29.8"},
		{french, "weight_grams", "1.185", "1.185 can be read as 1185 or as 1,185; write it without a mark, or as 1,185"},
		{french, "weight_grams", "1,185", "1.185"},
		{other, "purchase_price", "€ 29.80", "29.8"},
		{other, "purchase_price", "29.80 pcs", ""},
		{other, "weight_grams", "1,185", "1,185 can be read as 1185 or as 1.185"},
		{other, "weight_grams", "1.185", "1.185 can be read as 1185 or as 1.185; write it without a mark, or as 1.1850"},
		{other, "quantity", "5,000", "can be read as 5000 or as 5"},
	} {
		n, problem := test.read(test.field, test.text)
		got := string(n) + problem
		if got != test.want && (problem == "" || !strings.Contains(problem, test.want) || test.want == "") {
			t.Errorf("%s, %s %q: read as %q, want %q", test.language, test.field, test.text, got, test.want)
		}
		if n != "" && !json.Valid([]byte(n)) {
			t.Errorf("%q is read as %s, which is not a number of JSON", test.text, n)
		}
	}
}

// Any text is read without a panic, as a number of JSON or as none.
func FuzzReadNumber(f *testing.F) {
	for _, text := range []string{"1,185.5", "1:35 h", "€ 2.980", "１２"} {
		f.Add("weight_grams", text)
		f.Add("price", text)
	}
	f.Fuzz(func(t *testing.T, field, text string) {
		for _, l := range allLocales() {
			n, problem := reader{l, "EUR", inEnglish}.read(field, text)
			if n != "" && (problem != "" || !json.Valid([]byte(n))) {
				t.Errorf("%q is read as %s, %s", text, n, problem)
			}
		}
	})
}

// An amount has the decimals of its currency, and its sign where the language of the browser has it. What a page shows
// can be typed.
func TestMoney(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ language, currency, want string }{
		{"en-us", "EUR", "€1,234.60"}, {"en-us", "JPY", "¥1,235"}, {"en-us", "KWD", "1,234.600 KWD"},
		{"en-us", "", "1,234.60"}, {"en-us", "CLF", "1,234.6000 CLF"}, {"en-us", "CAD", "1,234.60 CAD"},
		{"en-us", "PLN", "1,234.60 PLN"}, {"de", "EUR", "1.234,60 €"}, {"de-at", "EUR", "€ 1 234,60"},
		{"", "EUR", "1 234.60 EUR"},
		{"es", "USD", "1.234,60 $"}, {"es-mx", "USD", "$1,234.60"}, {"fr", "GBP", "1 234,60 £"},
		{"it", "EUR", "1.234,60 €"},
		{"nl", "EUR", "€ 1.234,60"}, {"pl", "PLN", "1 234,60 zł"}, {"pt-br", "BRL", "R$ 1.234,60"},
		{"pt-pt", "EUR", "1 234,60 €"},
		{"ja", "JPY", "¥1,235"}, {"zh-cn", "CNY", "¥1,234.60"}, {"en-de", "EUR", "1.234,60 €"},
	} {
		v := &visit{locale: localeOf(test.language), language: language.English}
		v.Currency = test.currency
		got := strings.NewReplacer("\u00a0", " ", space, " ").Replace(v.Money("1234.6"))
		if got != test.want {
			t.Errorf("%s in %s: %q, want %q", test.currency, test.language, got, test.want)
		}
		if n, problem := v.reader().read("price", v.Money("1234")); n != "1234" {
			t.Errorf("%s in %s: %q is read as %q: %s", test.currency, test.language, v.Money("1234"), n, problem)
		}
	}
	v := &visit{locale: locales["nl"]}
	v.Currency = "CNY"
	if got := v.MoneyIn("JPY", "-5") + v.MoneyIn("EUR", "-5"); got != "−5\u00a0JPY−€\u00a05,00" {
		t.Errorf("%q", got)
	}
}

// A day has a word, or no year, if it is near; a sentence with a preposition has no words.
func TestDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 30, 23, 30, 0, 0, time.UTC) // the 31st in Vienna
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{site: &site{Config: Config{Now: func() time.Time { return now }}}, zone: vienna, locale: locales["en-us"],
		language: language.English}
	for day, want := range map[string]string{"2026-12-31": "today", "2026-12-30": "yesterday", "2027-01-01": "tomorrow",
		"2026-03-09": "Mar 9", "2027-01-02": "Jan 2, 2027", "2025-12-31": "Dec 31, 2025", "": "–"} {
		if got := strings.ReplaceAll(v.Day(day), "\u00a0", " "); got != want {
			t.Errorf("%s: %q, want %q", day, got, want)
		}
	}
	late := now.Add(24 * time.Hour)
	if got := []string{v.Time(&now), v.Clock(&now), v.Time(&late), v.Clock(&late), v.Moment(&now), v.OnDay("2026-12-31"),
		v.Date(&now)}; strings.ReplaceAll(strings.Join(got, ", "), "\u00a0", " ") !=
		"today 00:30, 00:30, tomorrow 00:30, tomorrow 00:30, Dec 31 00:30, Dec 31, today" {
		t.Errorf("%q", got)
	}
}
