package language_test

import (
	"testing"

	"spoolwright/value/language"
)

// A browser gets the language that it prefers most, in another region if there is no file for its own.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"": "en", "*": "en", "xx": "en", "nonsense;q=;,": "en", "de": "de", "de-AT": "de", "DE-ch": "de", "zh-TW": "zh-CN",
		"pt": "pt-BR", "pt-PT,pt;q=0.9,en;q=0.8": "pt-BR", "sv, fr;q=0.5": "fr", "fr;q=0.5, ja;q=0.7": "ja",
		"fr; q=0.5 , pl ; q=1": "pl", "de;q=0, en": "en", "de;q=0": "en", "de;q=x,it;q=0.1": "it", "es,nl": "es",
		"deutsch": "en",
	} {
		if got := language.Accepted(header).Code; got != want {
			t.Errorf("Accepted(%q) is %s, want %s", header, got, want)
		}
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{"", "", "en"}, {"ja", "de", "ja"}, {"", "de", "de"}, {"xx", "pl", "pl"}} {
		if got := language.First(c[0], c[1]).Code; got != c[2] {
			t.Errorf("First(%q, %q) is %s, want %s", c[0], c[1], got, c[2])
		}
	}
	if language.Of("pt") != nil || language.Of("pt-BR").Name != "Português (Brasil)" {
		t.Error("Of finds a language by something else than its tag")
	}
}

const spools language.Text = "%d spool|%d spools"

// Each language has the forms of its plural: see https://www.unicode.org/cldr/charts/latest/supplemental/.
func TestPlural(t *testing.T) {
	t.Parallel()
	forms := map[string]string{"en": "%d spool|%d spools", "de": "%d one|%d other", "pl": "%d one|%d few|%d many",
		"fr": "%d one|%d other", "pt-BR": "%d one|%d other", "ja": "%d other"}
	for code, want := range map[string]map[int64]string{
		"en":    {0: "spools", 1: "spool", 2: "spools", 11: "spools"},
		"de":    {0: "other", 1: "one", 2: "other", 21: "other"},
		"fr":    {0: "one", 1: "one", 2: "other", 10: "other"},
		"pt-BR": {0: "one", 1: "one", 2: "other"},
		"ja":    {0: "other", 1: "other", 2: "other"},
		"pl": {0: "many", 1: "one", 2: "few", 4: "few", 5: "many", 11: "many", 12: "many", 14: "many", 21: "many",
			22: "few", 25: "many", 112: "many", 122: "few"},
	} {
		l := language.Of(code).With(string(spools) + "\n\t" + forms[code] + "\n")
		for n, form := range want {
			if got := l.Text(spools, language.Count{N: n, Text: "n"}); got != "n "+form {
				t.Errorf("%s: %d has the form %q, want %s", code, n, got, form)
			}
		}
	}
}

// german is the file of a language for tests.
const german = `# a comment
Open|verb
	Öffnen
Open|state
	offen|e
must be at least %s
	muss mindestens %s sein
must be at least %s, or null
	muss mindestens %s oder leer sein
must have at most %d characters
	darf höchstens %d Zeichen haben|darf höchstens %d Zeichen haben (viele)
must contain %q: values depend on it
	muss %q enthalten: Werte hängen davon ab
%s has printed %d of %s
	Von %[3]s hat %[1]s schon %[2]d gedruckt
has an invalid entry: %s
	hat einen ungültigen Eintrag: %s
the value is %q
	der Wert ist %q
is required
	fehlt
%s %% of the net weight
	%s %% des Nettogewichts
of %s
	von %s
Line\none
	Zeile\neins
`

func TestText(t *testing.T) {
	t.Parallel()
	l := language.Of("de").With(german)
	for text, want := range map[language.Text]string{"Open|verb": "Öffnen", "Open|state": "offen", "Unknown": "Unknown",
		"Unknown|verb": "Unknown", "Line\none": "Zeile\neins", "is required": "fehlt"} {
		if got := l.Text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := l.Text("%s has printed %d of %s", "Prusa", 3, "Vase"); got != "Von Vase hat Prusa schon 3 gedruckt" {
		t.Error(got)
	}
	if got := language.Sprintf("must have at most %d characters", 5); got != "must have at most 5 characters" {
		t.Error(got)
	}
	if got := language.Error("is required|field").Error(); got != "is required" {
		t.Error(got)
	}
}

// A message of the API is translated by the format from which it was made; what is data stays as it is.
func TestMessage(t *testing.T) {
	t.Parallel()
	l := language.Of("de").With(german)
	for message, want := range map[string]string{
		"":                                 "",
		"is required":                      "fehlt",
		"is unknown":                       "is unknown",
		"must be at least 0.5":             "muss mindestens 0.5 sein",
		"must be at least 0.5, or null":    "muss mindestens 0.5 oder leer sein",
		"must be at least ":                "muss mindestens  sein",
		"must have at most 1 characters":   "darf höchstens 1 Zeichen haben",
		"must have at most 200 characters": "darf höchstens 200 Zeichen haben (viele)",
		`must contain "a \" : b": values depend on it`: `muss "a \" : b" enthalten: Werte hängen davon ab`,
		"MK4 has printed 3 of Vase":                    "Von Vase hat MK4 schon 3 gedruckt",
		"is required has printed 3 of Vase":            "Von Vase hat fehlt schon 3 gedruckt",
		"Is required has printed 3 of %s":              "Von %s hat Is required schon 3 gedruckt",
		"12 % of the net weight":                       "12 % des Nettogewichts",
		"of that":                                      "of that", // a format with so few letters matches too much
		"has an invalid entry: ids[3] is required":     "hat einen ungültigen Eintrag: ids[3] fehlt",
		`name is required; sku must be at least 1; the value is "x"`: `name fehlt; sku muss mindestens 1 sein; ` +
			`der Wert ist "x"`,
	} {
		if got := l.Message(message); got != want {
			t.Errorf("%q is %q, want %q", message, got, want)
		}
	}
	if got := language.English.Message("must be at least 1"); got != "must be at least 1" {
		t.Errorf("in English: %q", got)
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	german, japanese := language.Of("de"), language.Of("ja")
	for _, c := range []struct {
		l          *language.Language
		text, want string
	}{
		{german, "", ""}, {german, "name fehlt", "Name fehlt."}, {german, "Name fehlt.", "Name fehlt."},
		{german, "über 5 g", "Über 5 g."}, {german, "ein", "Ein."}, {german, "1 g", "1 g."},
		{japanese, "名前は必須です", "名前は必須です。"}, {japanese, "名前は必須です。", "名前は必須です。"},
		{japanese, "a です", "A です。"},
	} {
		if got := c.l.Sentence(c.text); got != c.want {
			t.Errorf("%s: %q is %q, want %q", c.l.Code, c.text, got, c.want)
		}
	}
}
