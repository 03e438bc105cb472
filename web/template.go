package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"sync"

	"spoolwright/server"
)

//go:embed templates static
var files embed.FS

// parsed contains the templates of pages that have been shown, by the names of the files.
var parsed sync.Map

// templateOf returns the template of a page, with the layout and the parts that pages share. It parses a template when
// the page is first shown, because all templates need 2.9 MB, and parsing them takes longer than the rest of the
// program's start.
func templateOf(name string) *template.Template {
	t, ok := parsed.Load(name)
	if !ok {
		t, _ = parsed.LoadOrStore(name, template.Must(template.New("").Funcs(functions).ParseFS(files,
			"templates/layout.html", "templates/parts.html", "templates/"+name+".html")))
	}
	return t.(*template.Template)
}

// functions are the functions of templates that do not depend on the visitor.
var functions = template.FuncMap{
	"label":    label,
	"mark":     newMark,
	"positive": func(n num) bool { return float(n) > 0 },
	"inc":      func(i int) int { return i + 1 },
	"input":    newInput,
	"options":  writeOptions,
	"choose":   func(in input, options []option) input { in.Options = options; return in },
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
	write := func() error { b.Reset(); return templateOf(name).ExecuteTemplate(&b, "layout", all) }
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
