package web

import (
	"fmt"
	"slices"
	"strconv"
)

// nestedList is a list of objects that a resource can have from its beginning, such as the items of an order. The form
// of a new resource has a row of inputs for each object.
type nestedList struct {
	name, title, hint string
	count             int // the number of rows in a new form
	fields            []editorField

	// choices returns the read and, after it, the options of the first field. If there are none, the form has the
	// fields in without or, if these are missing, does not have the list.
	choices func() (read, func() []option)
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

// reads returns the reads of the choices of the editor's nested lists. The function rows may be called after them.
func (e *editor) reads(v *visit, f *form) (reads []read, rows func() []nestedRows) {
	options := make([]func() []option, len(e.lists))
	for i, l := range e.lists {
		var one read
		one, options[i] = l.choices()
		reads = append(reads, one)
	}
	return reads, func() (all []nestedRows) {
		for i, l := range e.lists {
			if choices := options[i](); len(choices) > 1 {
				all = append(all, l.rows(v, f, l.fields, choices))
			} else if len(l.without) > 0 {
				all = append(all, l.rows(v, f, l.without, l.without[0].options))
			}
		}
		return all
	}
}

// rows returns the rows of the list: those of the form and, if the visitor asks for more, as many again.
func (l *nestedList) rows(v *visit, f *form, fields []editorField, choices []option) nestedRows {
	count := l.count
	if n, err := strconv.Atoi(f.Values.Get("rows." + l.name)); err == nil && n > count {
		count = min(n, maxRows)
	}
	if f.Values.Has("more") {
		count = min(count+l.count, maxRows)
	}
	f.Values.Set("rows."+l.name, strconv.Itoa(count))
	shown := nestedRows{Name: l.name, Title: l.title, Hint: l.hint}
	for row := range count {
		line := nestedRow{Label: fmt.Sprintf("%s %d", l.title, row+1)}
		for i, in := range fields {
			one := newInput(f, fmt.Sprintf("%s[%d].%s", l.name, row, in.name), in.label, v.settings(in)...)
			if i == 0 {
				one.Options = choices
			}
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

// chooseProduct returns the read and the options of a choice of products.
func chooseProduct() (read, func() []option) {
	var list struct{ Items []product }
	return get(productsByName, &list), func() []option { return productOptions(list.Items, "") }
}

// chooseFilament returns the read and the options of a choice of filaments.
func chooseFilament() (read, func() []option) {
	var list struct{ Items []filament }
	return get(newestFilaments, &list), func() []option { return filamentOptions(list.Items) }
}

// newestFilaments is the address of the filaments to choose from.
const newestFilaments = "/api/v1/filaments?limit=100"

// filamentOptions returns the options of a choice of filaments.
func filamentOptions(items []filament) []option {
	options := []option{{"", "Choose a filament"}}
	for _, item := range items {
		name := item.Title()
		if item.Vendor != "" {
			name += ", " + item.Vendor
		}
		options = append(options, option{item.ID, name})
	}
	return options
}
