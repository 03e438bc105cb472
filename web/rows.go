package web

import (
	"html/template"
	"strings"
)

// literal is HTML from the source of the program. The compiler converts only constants to a literal implicitly, so
// that a text that a person has typed is not used as HTML by mistake.
type literal string

// rows builds HTML in Go instead of a template: the rows of lists, of which a page shows 50, and the options of
// choices. A template escapes each value by several calls with reflection. Templates for the rows made the page of
// products, which has the shortest rows, 80 % slower, and the page Today, with its runs, 33 % slower. Markup belongs
// into a template if this makes the page at most 15 % slower.
type rows struct{ b strings.Builder }

// add writes HTML, and replaces each {} in it by the next text. It escapes texts for the content of an element and for
// quoted attributes. An address in the HTML may contain a text, such as an id, but must not begin with a text.
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

func (r *rows) picture(html template.HTML) { r.b.WriteString(string(html)) }

// html returns the HTML that was written.
func (r *rows) html() template.HTML { return template.HTML(r.b.String()) }

// writeOptions returns the HTML of the options of a choice. The option with the value is selected. Go writes the HTML,
// because a form can have hundreds of options: see rows.
func writeOptions(options []option, value string) template.HTML {
	var list rows
	for _, o := range options {
		list.add(`<option value="{}"`, o.Value)
		list.when(o.Value == value, ` selected`)
		list.add(`>{}</option>`, o.Name)
	}
	return list.html()
}
