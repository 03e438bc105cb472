package language_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"spoolwright/value/language"
)

var update = flag.Bool("update", false, "add missing texts to the files, without translations, and remove unknown ones")

// forms are the numbers of plural forms of the languages.
var forms = map[string]int{"de": 2, "es": 2, "fr": 2, "it": 2, "nl": 2, "pl": 3, "pt-BR": 2, "ja": 1, "zh-CN": 1}

// TestLanguages checks that the file of each language has each text of the program once, with a translation that has
// the same arguments and the plural forms of the language, and no other text.
func TestLanguages(t *testing.T) {
	t.Parallel()
	all := keys(t)
	translations := map[string]map[language.Text]string{}
	for _, l := range language.All {
		if l == language.English {
			continue
		}
		name := l.Code + ".txt"
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		head, body, _ := strings.Cut(string(b), "\n\n")
		has := map[language.Text]string{}
		translations[l.Code] = has
		lines := strings.Split(body, "\n")
		for i, line := range lines {
			text := language.Text(strings.ReplaceAll(line, `\n`, "\n"))
			if line == "" || line[0] == '#' || line[0] == '\t' {
				continue
			}
			translated := ""
			if i+1 < len(lines) {
				translated = strings.ReplaceAll(strings.TrimPrefix(lines[i+1], "\t"), `\n`, "\n")
			}
			if _, twice := has[text]; twice {
				t.Errorf("%s has %q twice", name, text)
			}
			has[text] = translated
		}
		known := map[language.Text]bool{}
		missing := 0
		for _, k := range all {
			known[k.text] = true
			translated := has[k.text]
			if translated == "" {
				if missing++; missing <= 20 && !*update {
					t.Errorf("%s has no translation of %q, in %s", name, k.text, k.file)
				}
				continue
			}
			checkTranslation(t, l.Code, k.text, translated)
		}
		if missing > 0 {
			t.Errorf("%s: %d of %d translations are missing; -update adds their texts", name, missing, len(all))
		}
		for text := range has {
			if !known[text] && !*update {
				t.Errorf("%s has %q, which is no text of the program", name, text)
			}
		}
		if *update {
			write(t, name, head, all, has)
		}
	}
	if *update {
		if err := os.WriteFile("languages.zip", pack(t, all, translations), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("languages.zip"); err != nil || !bytes.Equal(got, pack(t, all, translations)) {
		t.Errorf("languages.zip differs from the files: run this test with -update (%v)", err)
	}
}

// pack returns the texts and their translations as a ZIP file.
func pack(t *testing.T, all []key, translations map[string]map[language.Text]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestCompression)
	})
	add := func(name string, line func(text language.Text) string) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := make([]string, len(all))
		for i, k := range all {
			lines[i] = escape(line(k.text))
		}
		io.WriteString(f, strings.Join(lines, "\n")) // to memory
	}
	add("texts", func(text language.Text) string { return string(text) })
	for _, code := range slices.Sorted(maps.Keys(translations)) {
		add(code, func(text language.Text) string { return translations[code][text] })
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkTranslation(t *testing.T, code string, text language.Text, translated string) {
	t.Helper()
	isPlural := strings.Contains(string(text), "|") && strings.Contains(string(text), "%d")
	all := strings.Split(translated, "|")
	if want := forms[code]; isPlural && len(all) != want {
		t.Errorf("%s: %q has %d plural forms, not %d", code, text, len(all), want)
	}
	if !isPlural && len(all) > 1 {
		t.Errorf("%s: the translation of %q contains |", code, text)
	}
	if !isPlural && !strings.Contains(string(text), "%s") && !strings.Contains(string(text), "%q") &&
		!strings.Contains(string(text), "%d") {
		return // a percent sign
	}
	for _, form := range all {
		want, got := sorted(verbsOf(string(text))), sorted(verbsOf(form))
		if !slices.Equal(want, got) {
			t.Errorf("%s: %q has the arguments %v, and its translation %v", code, text, want, got)
		}
	}
}

// sorted returns verbs without their indexes, sorted.
func sorted(verbs []string) []string {
	for i, v := range verbs {
		verbs[i] = v[len(v)-1:]
	}
	slices.Sort(verbs)
	return verbs
}

// write writes the file of a language: its head, and the texts by the files of the program.
func write(t *testing.T, name, head string, all []key, has map[language.Text]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.TrimSpace(head) + "\n")
	file := ""
	for _, k := range all {
		if k.file != file {
			file = k.file
			b.WriteString("\n# " + file + "\n")
		}
		b.WriteString(entry(k.text, has[k.text]))
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
