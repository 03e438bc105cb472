package web

import (
	"fmt"
	"slices"
	"strconv"

	"spoolwright/value/language"
)

// nestedList is a list of objects that a resource can have from its beginning, such as the items of an order. The form
// of a new resource has a row of inputs for each object.
type nestedList struct {
	name        string
	title, hint language.Text
	count       int // the number of rows in a new form
	fields      []editorField

	// any is the list of the API of what the first field chooses. If it is empty, the form has the fields in without or,
	// if these are missing, does not have the list.
	any     string
	without []editorField
}

// maxRows is the maximum number of rows of a nested list in a form.
const maxRows = 100

// nestedRows is a nested list in a form.
type nestedRows struct {
	Name, Title, Hint string
	Rows              []nestedRow
}

type nestedRow struct {
	Label  string
	Inputs []input
}

// reads returns the reads that tell which of the editor's nested lists the form has. The function rows may be called
// after them.
func (e *editor) reads(v *visit, f *form) (reads []read, rows func() []nestedRows) {
	all := make([]found[struct{}], len(e.lists))
	for i, l := range e.lists {
		reads = append(reads, get(l.any+"?limit=1", &all[i]))
	}
	return reads, func() (lists []nestedRows) {
		for i, l := range e.lists {
			if len(all[i].Items) > 0 {
				lists = append(lists, l.rows(v, f, l.fields))
			} else if len(l.without) > 0 {
				lists = append(lists, l.rows(v, f, l.without))
			}
		}
		return lists
	}
}

// rows returns the rows of the list: those of the form and, if the visitor asks for more, as many again.
func (l *nestedList) rows(v *visit, f *form, fields []editorField) nestedRows {
	count := l.count
	if n, err := strconv.Atoi(f.Values.Get("rows." + l.name)); err == nil && n > count {
		count = min(n, maxRows)
	}
	if f.Values.Has("more") {
		count = min(count+l.count, maxRows)
	}
	f.Values.Set("rows."+l.name, strconv.Itoa(count))
	shown := nestedRows{Name: l.name, Title: v.t(l.title), Hint: v.t(l.hint)}
	for row := range count {
		line := nestedRow{Label: fmt.Sprintf("%s %d", shown.Title, row+1)}
		for _, in := range fields {
			one := newInput(f, fmt.Sprintf("%s[%d].%s", l.name, row, in.name), in.label, v.settings(in)...)
			one.Options = v.options(in.options)
			line.Inputs = append(line.Inputs, one)
		}
		shown.Rows = append(shown.Rows, line)
	}
	return shown
}

// put sets the list in the body of a request.
func (l *nestedList) put(f *form, body map[string]any) {
	var fields []field
	for _, in := range slices.Concat(l.without, l.fields) {
		fields = append(fields, in.field)
	}
	f.putRows(body, l.name, fields...)
}
