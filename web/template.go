package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"text/template/parse"

	"spoolwright/server"
	"spoolwright/value/language"
)

//go:embed templates static
var files embed.FS

// parsed contains the templates of pages that have been shown, by the names of the files and the languages.
var parsed sync.Map

// templateOf returns the template of a page in a language, with the layout and the parts that pages share. It parses a
// template when the page is first shown, because all templates of a language need 2.9 MB, and parsing them takes longer
// than the rest of the program's start.
func templateOf(name string, l *language.Language) *template.Template {
	key := [2]string{name, l.Code}
	t, ok := parsed.Load(key)
	if !ok {
		made := template.Must(template.New("").Funcs(functions(l)).ParseFS(files,
			"templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
		for _, part := range made.Templates() {
			if part.Tree != nil {
				translate(part.Tree.Root, l)
			}
		}
		t, _ = parsed.LoadOrStore(key, made)
	}
	return t.(*template.Template)
}

// translate replaces calls of t with a text alone, which are most of them, by the translation. So a page does not
// translate and escape the same texts each time.
func translate(list *parse.ListNode, l *language.Language) {
	if list == nil {
		return
	}
	for i, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			if text, ok := constant(node.Pipe); ok {
				list.Nodes[i] = &parse.TextNode{NodeType: parse.NodeText, Pos: node.Pos,
					Text: []byte(template.HTMLEscapeString(l.Text(text)))}
			}
		case *parse.IfNode:
			translate(node.List, l)
			translate(node.ElseList, l)
		case *parse.WithNode:
			translate(node.List, l)
			translate(node.ElseList, l)
		case *parse.RangeNode:
			translate(node.List, l)
			translate(node.ElseList, l)
		}
	}
}

// constant returns the text of a pipeline such as t "Save". Lines of a long text are joined by spaces.
func constant(pipe *parse.PipeNode) (text language.Text, ok bool) {
	if len(pipe.Decl) > 0 || len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 2 {
		return "", false
	}
	called, isName := pipe.Cmds[0].Args[0].(*parse.IdentifierNode)
	arg, isText := pipe.Cmds[0].Args[1].(*parse.StringNode)
	if !isName || !isText || called.Ident != "t" {
		return "", false
	}
	return language.Text(strings.Join(strings.Fields(arg.Text), " ")), true
}

// functions returns the functions of templates in a language that do not depend on the visitor.
func functions(l *language.Language) template.FuncMap {
	return template.FuncMap{
		"t":        func(text language.Text, args ...any) string { return l.Text(text, args...) },
		"label":    func(name string) string { return l.Text(language.Text(label(name))) },
		"mark":     newMark,
		"art":      art,
		"positive": func(n num) bool { return float(n) > 0 },
		"inc":      func(i int) int { return i + 1 },
		"input":    newInput,
		"options":  writeOptions,
		"choose":   func(in input, options []option) input { in.Options = options; return in },
	}
}

// view is the data of a template.
type view struct {
	*visit
	Title     string
	Data      any
	IsRefused bool // whether the page shows a form with problems
}

// With returns a copy of the view with other data, for templates that pages share.
func (v view) With(data any) view { v.Data = data; return v }

// show writes a page from the template with the name.
func (v *visit) show(status int, name, title string, data any) error {
	var b bytes.Buffer
	if v.isFinding && status == http.StatusUnprocessableEntity { // nothing was refused
		status = http.StatusOK
	}
	all := view{v, title, data, status >= 400 && name != "error" && name != "removed"}
	write := func() error { b.Reset(); return templateOf(name, v.language).ExecuteTemplate(&b, "layout", all) }
	err := write()
	if err == nil && all.IsRefused { // again, because the summary of a form names the fields that follow it
		err = write()
	}
	if err != nil {
		return err
	}
	server.SendPage(v.w, v.r, status, b.Bytes())
	return nil
}
