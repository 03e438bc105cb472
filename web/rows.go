package web

import (
	"html/template"
	"strings"
)

// literal is HTML that stands in the source of the program. Only a constant becomes one, so that no text of a person
// is one by mistake.
type literal string

// rows is HTML that is written in Go: the rows of long lists, for which a template needs most of the time of a page.
type rows struct{ b strings.Builder }

// add writes HTML in which each {} is replaced by the next text. Texts are escaped for the content of an element and for
// quoted attributes. An address may have an id as its part, but must not begin with a text.
func (r *rows) add(html literal, texts ...string) {
	rest := string(html)
	for _, text := range texts {
		before, after, _ := strings.Cut(rest, "{}")
		r.b.WriteString(before)
		r.b.WriteString(template.HTMLEscapeString(text))
		rest = after
	}
	r.b.WriteString(rest)
}

// some writes HTML as add does, unless the text is empty.
func (r *rows) some(html literal, text string) {
	if text != "" {
		r.add(html, text)
	}
}

// html returns what was written.
func (r *rows) html() template.HTML { return template.HTML(r.b.String()) }
