package web

import (
	"html/template"
	"strings"
)

// literal is HTML that stands in the source of the program. Only a constant becomes one, so that no text of a person
// is one by mistake.
type literal string

// rows is HTML that is written in Go: the rows of lists and the options of choices, for which a template would need
// most of the time of a page.
type rows struct{ b strings.Builder }

// add writes HTML in which each {} is replaced by the next text. Texts are escaped for the content of an element and
// for quoted attributes. An address may have an id as its part, but must not begin with a text.
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

// when writes HTML as add does, if the condition is true.
func (r *rows) when(condition bool, html literal, texts ...string) {
	if condition {
		r.add(html, texts...)
	}
}

// some writes HTML as add does, unless the text is empty.
func (r *rows) some(html literal, text string) { r.when(text != "", html, text) }

// picture writes a picture, such as that of a color.
func (r *rows) picture(html template.HTML) { r.b.WriteString(string(html)) }

// html returns what was written.
func (r *rows) html() template.HTML { return template.HTML(r.b.String()) }

// writeOptions returns the options of a choice, of which the one with the value is selected.
func writeOptions(options []option, value string) template.HTML {
	var list rows
	for _, o := range options {
		list.add(`<option value="{}"`, o.Value)
		list.when(o.Value == value, ` selected`)
		list.add(`>{}</option>`, o.Name)
	}
	return list.html()
}
