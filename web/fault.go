package web

import (
	"cmp"
	"html/template"
	"maps"
	"slices"
)

// fault is a problem with a field of a form, for the summary at the top of the form. ID is the id of the input, or ""
// if the page has no input for the field.
type fault struct{ name, ID, Label string }

// maxFaults is the maximum number of problems in a summary, so that it does not push the form out of sight.
const maxFaults = 8

// Mark returns the attributes that tell assistive technology which texts describe the input with the name, and that
// its value is wrong. It also adds a wrong input to the summary of the form.
func (f *form) Mark(name, label string, described ...string) template.HTMLAttr {
	var r rows
	id := f.id + "-" + name
	if f.Errors[name] != "" {
		if !slices.ContainsFunc(f.shown, func(other fault) bool { return other.name == name }) {
			f.shown = append(f.shown, fault{name, id, label})
		}
		r.add(`id="{}" aria-invalid="true"`, id)
		described = append(described, "why")
	}
	for i, what := range described {
		if i == 0 {
			r.add(` aria-describedby="{}-{}`, id, what)
		} else {
			r.add(` {}-{}`, id, what)
		}
	}
	r.when(len(described) > 0, `"`)
	return template.HTMLAttr(r.b.String())
}

// Why returns the id of the element with a text that Mark names, such as "why" for the problem with the input.
func (f *form) Why(name, what string) string { return f.id + "-" + name + "-" + what }

// IsRefused reports whether the form has problems.
func (f *form) IsRefused() bool { return f.Problem != "" || len(f.Errors) > 0 }

// faults returns the fields with problems, in the order in which the page shows them. Fields that the page does not
// show follow.
func (f *form) faults() []fault {
	all := slices.Clone(f.shown)
	for _, name := range slices.Sorted(maps.Keys(f.Errors)) {
		if !slices.ContainsFunc(all, func(other fault) bool { return other.name == name }) {
			all = append(all, fault{name, "", f.read.visit.label(name)})
		}
	}
	return all
}

// Faults returns the problems in the summary.
func (f *form) Faults() []fault { all := f.faults(); return all[:min(maxFaults, len(all))] }

// MoreFaults returns the number of problems that the summary omits.
func (f *form) MoreFaults() int { return max(0, len(f.Errors)-maxFaults) }

// Text returns the problem with the field.
func (f *form) Text(problem fault) string { return f.Errors[problem.name] }

// Mark returns the attributes of the input that form.Mark describes.
func (i input) Mark() template.HTMLAttr {
	var described []string
	if i.Hint != "" {
		described = append(described, "hint")
	}
	if i.Theirs() != "" {
		described = append(described, "theirs")
	}
	return i.Form.Mark(i.Name, cmp.Or(i.Label, i.Form.read.visit.label(i.Name)), described...)
}

// Why returns the id of a text of the input: see form.Why.
func (i input) Why(what string) string { return i.Form.Why(i.Name, what) }

// Focused reports whether the cursor is in the input when the page is shown, such as after a search without JavaScript.
// In a refused form, the summary has the focus.
func (i input) Focused() bool {
	return (i.Autofocus || i.Form.hits[i.Name] != nil) && !i.Form.IsRefused()
}
