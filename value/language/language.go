// Package language translates the texts of the program that people read on pages, labels and packing slips, and in
// e-mails and messages. The English text is the key of its translations. A file for each language has the
// translations: see docs/languages.md. The API, logs, the audit log, the command line and files are in English.
package language

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text is a text of the program in English. It is the format of its arguments, if it has any. After "|" stands the
// plural if the text contains %d, such as "%d spool|%d spools": the first number among the arguments decides. Otherwise
// the context for translators stands there, such as "Open|verb"; nobody sees it.
//
// Each constant of this type must have a translation in each language. TestLanguages checks this.
type Text string

// Language is one of the languages of people.
type Language struct {
	Code string // the language tag, such as de or pt-BR
	Name string // in the language itself
	stop string // the mark at the end of a sentence

	form func(n int64) int // returns the index of the plural form for a number
	load func() translations
}

// translations are the contents of the file of a language.
type translations struct {
	texts   map[Text]string
	formats []format // the texts with arguments, for Message
}

// English is the language of the texts themselves.
var English = &Language{Code: "en", Name: "English", stop: ".", form: one,
	load: func() translations { return translations{} }}

// All are all languages, in the order of their names.
var All = []*Language{
	with("de", "Deutsch", ".", one), English, with("es", "Español", ".", one), with("fr", "Français", ".", zeroOrOne),
	with("it", "Italiano", ".", one), with("nl", "Nederlands", ".", one), with("pl", "Polski", ".", polish),
	with("pt-BR", "Português (Brasil)", ".", zeroOrOne), with("ja", "日本語", "。", none),
	with("zh-CN", "简体中文", "。", none),
}

// The plural forms of numbers without decimals, as in the Common Locale Data Repository.
func none(int64) int { return 0 }

func one(n int64) int {
	if n == 1 {
		return 0
	}
	return 1
}

func zeroOrOne(n int64) int { return min(1, int(n/2)) }

func polish(n int64) int {
	switch {
	case n == 1:
		return 0
	case n%10 >= 2 && n%10 <= 4 && (n%100 < 12 || n%100 > 14):
		return 1
	}
	return 2
}

func with(code, name, stop string, form func(int64) int) *Language {
	return &Language{code, name, stop, form, sync.OnceValue(func() translations { return parse(file(code)) })}
}

// madeUp is nil except in tests.
var madeUp *Language

// UseMadeUp adds a language for tests, with the tag qps, that nobody can choose. It puts each text that l translates
// into brackets, and makes it 40 percent longer. It must be called before a server starts.
func (l *Language) UseMadeUp() {
	made := &Language{Code: "qps", Name: "⟦Made up⟧", stop: "⟧", form: one}
	made.load = sync.OnceValue(func() translations {
		t := translations{texts: map[Text]string{}}
		for text := range l.load().texts {
			forms := strings.Split(string(text), "|")
			if !hasForms(text) {
				forms = forms[:1]
			}
			for i, form := range forms {
				forms[i] = "⟦" + form + strings.Repeat(" long", len(form)*4/50+1)[1:] + "⟧"
			}
			t.add(text, strings.Join(forms, "|"))
		}
		return t.sorted()
	})
	madeUp = made
}

// Of returns the language with the tag, or nil if there is none.
func Of(code string) *Language {
	for _, l := range All {
		if l.Code == code {
			return l
		}
	}
	return nil
}

// First returns the language with the first of the tags that is one, or English.
func First(codes ...string) *Language {
	for _, code := range codes {
		if l := Of(code); l != nil {
			return l
		}
	}
	return English
}

// Codes returns the tags of all languages, in the order of All.
func Codes() (codes []string) {
	for _, l := range All {
		codes = append(codes, l.Code)
	}
	return codes
}

// Accepted returns the language that an Accept-Language header prefers, or English. A region without a file has the
// language of another region.
func Accepted(header string) *Language {
	type wish struct {
		language *Language
		weight   float64
	}
	if madeUp != nil && header == madeUp.Code {
		return madeUp
	}
	var wishes []wish
	for part := range strings.SplitSeq(header, ",") {
		tag, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // 0 if it is not a number
		}
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		i := slices.IndexFunc(All, func(l *Language) bool {
			of, _, _ := strings.Cut(l.Code, "-")
			return of == primary
		})
		if i >= 0 && weight > 0 {
			wishes = append(wishes, wish{All[i], weight})
		}
	}
	if len(wishes) == 0 {
		return English
	}
	return slices.MaxFunc(wishes, func(a, b wish) int { return cmp.Compare(a.weight, b.weight) }).language
}

// Text returns a text in the language, formatted with the arguments. A text without a translation is in English.
func (l *Language) Text(text Text, args ...any) string {
	s := string(text)
	if translated, ok := l.load().texts[text]; ok {
		s = translated
	}
	if one, rest, ok := strings.Cut(s, "|"); ok {
		if !hasForms(text) {
			s = one
		} else if forms := append([]string{one}, strings.Split(rest, "|")...); true {
			s = forms[min(l.form(firstNumber(args)), len(forms)-1)]
		}
	}
	if len(args) == 0 {
		return s
	}
	return fmt.Sprintf(s, args...)
}

// Sprintf returns a text in English, formatted with the arguments: a message of the API, for Message.
func Sprintf(text Text, args ...any) string { return English.Text(text, args...) }

// Error returns an error whose message is a text in English, for Message.
func Error(text Text, args ...any) error { return errors.New(Sprintf(text, args...)) }

// hasForms reports whether a text with "|" has a plural there, and not a context.
func hasForms(text Text) bool { return strings.Contains(string(text), "%d") }

// Count is a number with its text for people, as the argument for %d.
type Count struct {
	N    int64
	Text string
}

// Format writes the text.
func (c Count) Format(f fmt.State, _ rune) { io.WriteString(f, c.Text) }

func (c Count) String() string { return c.Text }

func firstNumber(args []any) int64 {
	for _, arg := range args {
		switch n := arg.(type) {
		case int:
			return int64(n)
		case int64:
			return n
		case Count:
			return n.N
		}
	}
	return 0
}

// Message translates a message of the API, which was formatted in English. The message may consist of several, with a
// semicolon between them and the names of fields before them. Message returns parts that no text of the language has
// as its format as they are.
func (l *Language) Message(english string) string {
	if len(english) > maxMessage {
		return english
	}
	if translated, ok := l.message(english); ok {
		return translated
	}
	parts := strings.Split(english, "; ")
	for i, part := range parts {
		field, problem, _ := strings.Cut(part, " ")
		if translated, ok := l.message(part); ok {
			parts[i] = translated
		} else if translated, ok := l.message(problem); ok {
			parts[i] = field + " " + translated
		}
	}
	return strings.Join(parts, "; ")
}

func (l *Language) message(english string) (translated string, ok bool) {
	all := l.load()
	if translated, ok := all.texts[Text(english)]; ok {
		translated, _, _ = strings.Cut(translated, "|")
		return translated, true
	}
	for _, f := range all.formats {
		args, ok := f.match(english)
		if !ok {
			continue
		}
		n, _ := strconv.ParseInt(f.number(args), 10, 64)
		for i, arg := range args {
			if s := arg.(string); mayBeMessage(s) {
				args[i] = l.Message(s)
			}
		}
		forms := strings.Split(f.translated, "|")
		return fmt.Sprintf(forms[min(l.form(n), len(forms)-1)], args...), true
	}
	return "", false
}

// mayBeMessage reports whether the argument of a message may be a message, and not a name that is data.
func mayBeMessage(s string) bool {
	return strings.Contains(s, " ") && (s[0] >= 'a' && s[0] <= 'z' || strings.HasSuffix(s, "."))
}

// Sentence returns a text as a sentence: with a capital and a full stop.
func (l *Language) Sentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, l.stop) {
		s += l.stop
	}
	return s
}

// format is the format of messages.
type format struct {
	literals   []string // the texts around the arguments
	verbs      []string
	translated string // with %s for each argument
	size       int    // of the literals
}

var verb = regexp.MustCompile(`%(\[[0-9]\])?[sdq]`)

// maxMessage is the maximum length of a message in bytes: the search for its format takes a time that grows with its
// square.
const maxMessage = 4000

// minLiteral is the minimum size of the literals of a format, so that it matches only its own messages.
const minLiteral = 8

// newFormats returns the formats of a text: one for each plural form in English.
func newFormats(text Text, translated string) (all []format) {
	for _, english := range strings.Split(string(text), "|") {
		f := format{literals: verb.Split(english, -1), verbs: verb.FindAllString(english, -1)}
		for i, literal := range f.literals {
			f.literals[i] = strings.ReplaceAll(literal, "%%", "%")
			f.size += len(literal)
		}
		if len(f.verbs) > 0 && f.size >= minLiteral {
			f.translated = verb.ReplaceAllString(translated, "%${1}s")
			all = append(all, f)
		}
	}
	return all
}

// match returns the arguments from which a message was formatted.
func (f format) match(message string) (args []any, ok bool) {
	last := len(f.literals) - 1
	message, ok = strings.CutPrefix(message, f.literals[0])
	if !ok || !strings.HasSuffix(message, f.literals[last]) {
		return nil, false
	}
	message = strings.TrimSuffix(message, f.literals[last])
	for _, literal := range f.literals[1:last] {
		arg, rest, found := strings.Cut(message, literal)
		if !found {
			return nil, false
		}
		args, message = append(args, arg), rest
	}
	return append(args, message), true
}

// number returns the first argument that was formatted with %d.
func (f format) number(args []any) string {
	for i, v := range f.verbs {
		if strings.HasSuffix(v, "d") {
			return args[i].(string)
		}
	}
	return ""
}

// parse returns the translations of a file. A line has an English text; the next line begins with a tab and has the
// translation. A line with # is a comment. \n stands for a new line.
func parse(file string) translations {
	t := translations{texts: map[Text]string{}}
	var text Text
	for line := range strings.Lines(file) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), `\n`, "\n")
		translated, ok := strings.CutPrefix(line, "\t")
		switch {
		case ok && text != "":
			if translated != "" {
				t.add(text, translated)
			}
			text = ""
		case line != "" && !strings.HasPrefix(line, "#"):
			text = Text(line)
		}
	}
	return t.sorted()
}

func (t *translations) add(text Text, translated string) {
	t.texts[text] = translated
	t.formats = append(t.formats, newFormats(text, translated)...)
}

// sorted returns t with the most specific formats first.
func (t translations) sorted() translations {
	slices.SortStableFunc(t.formats, func(a, b format) int { return cmp.Compare(b.size, a.size) })
	return t
}
