package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spoolwright/server"
	"spoolwright/value/language"
)

// editor describes the pages that create, change and remove the resources of a collection. The fields are data.
type editor struct {
	api, path string // the paths of the collection in the API and in the pages
	noun      *noun
	fields    []editorField
	back      string // the path of the page with the list; "" stands for the field path
	noPage    bool   // whether resources have no page of their own, so that the list follows a change
	entity    string // the entity whose custom fields a resource has, or ""
	users     string // the path in the API of the list of resources that need the resource {id}, or ""
	lists     []nestedList
	saved     func(*visit, *form, *notice) // if not nil, adds to the notice of a form that was saved
	catalog   bool                         // whether a resource can be made of an entry of the catalog of filaments

	// name returns the name for people of a resource whose values get returns.
	name func(get func(string) string) string
}

// editorField is a field of an editor. More contains the settings for newInput.
type editorField struct {
	field
	label   language.Text
	more    string // separated by semicolons
	options []word
}

// editorPage is the data of the template editor.
type editorPage struct {
	Form                *form
	Inputs              []input
	Lists               []nestedRows
	Vendors             vendorNames // to suggest
	Catalog             *catalogPart
	Heading             string
	Ask                 string // the question before the removal
	Name                string // the name of the page to which Back leads, or ""
	Action, Back, Label string
	Removable           string // the address of the form that removes the resource, or ""
	Hidden              url.Values
	Also                option   // the name and the text of a second button that sends the form, or empty
	Other               option   // the link to another page for the same purpose, or empty
	Users               []option // the addresses and names of resources that need this one, so that it cannot be removed
	MoreUsers           int      // the number of further resources that need this one
}

// HasMore reports whether the form has inputs that may stay empty, in a part of their own.
func (p *editorPage) HasMore() bool {
	return slices.ContainsFunc(p.Inputs, func(in input) bool { return in.May })
}

// inputs returns the inputs of a form. If follows is set, the resource belongs to a filament or is a variant; it then
// has no inputs for the fields with the word own, because the filament or the product has their values.
func (e *editor) inputs(v *visit, f *form, follows bool, custom *customFields) (inputs []input) {
	for _, in := range e.fields {
		if follows && strings.HasPrefix(in.more, "own") {
			continue
		}
		shown := newInput(f, in.name, in.label, v.settings(in)...)
		for _, o := range v.options(in.options) {
			if in.kind == number {
				o.Value = strings.Replace(o.Value, ".", v.locale.decimal, 1)
			}
			shown.Options = append(shown.Options, o)
		}
		inputs = append(inputs, shown)
	}
	return append(inputs, custom.inputs(f)...)
}

// settings returns the settings of a field for newInput.
func (v *visit) settings(in editorField) []string {
	return strings.FieldsFunc(strings.ReplaceAll(in.more, "$currency", v.Currency), func(c rune) bool { return c == ';' })
}

// custom returns the read of the definitions of custom fields, or nil if the resources have no custom fields.
func (e *editor) custom(into *customFields) []read {
	if e.entity == "" {
		return nil
	}
	return []read{customRead(e.entity, into)}
}

// showNew shows the form of a new resource. The query of the address may contain values of the form.
func (e *editor) showNew(v *visit) error { return e.newPage(v, 200, v.prefilled()) }

func (e *editor) newPage(v *visit, status int, f *form) error {
	var custom customFields
	reads, rows := e.reads(v, f)
	p := &editorPage{Form: f, Action: e.path + "/new", Back: e.list(), Name: v.t(lists[e.list()]),
		Label: v.t("Add"), Heading: v.t(e.noun.create)}
	reads = append(reads, e.suggestions(&p.Vendors)...)
	if err := v.fetch(append(reads, e.custom(&custom)...)...); err != nil {
		return err
	}
	if e.catalog {
		if err := v.fetchCatalog(p, ""); err != nil {
			return err
		}
	}
	if status == 200 {
		custom.preset(f)
	}
	p.Inputs, p.Lists = e.inputs(v, f, false, &custom), rows()
	return v.show(status, "editor", p.Heading, p)
}

// names returns all fields of the form, including custom fields.
func (e *editor) names(v *visit) (fields []field, err error) {
	for _, in := range e.fields {
		fields = append(fields, in.field)
	}
	var custom customFields
	err = v.fetch(e.custom(&custom)...)
	return append(fields, custom.fields()...), err
}

func (e *editor) create(v *visit) error {
	f := v.sent()
	fields, err := e.names(v)
	if err != nil {
		return err
	}
	if f.Values.Has("more") {
		return e.newPage(v, 200, f)
	}
	body := f.body(fields...)
	for i := range e.lists {
		e.lists[i].put(f, body)
	}
	var created struct{ ID string }
	ok, err := v.send(f, http.MethodPost, e.api, body, &created)
	v.tell(&notice{Text: v.t(e.noun.added)})
	return v.then(ok, err, e.one(created.ID), func() error { return e.newPage(v, 422, f) })
}

// one returns the address of the page to show after a change of the resource with the id.
func (e *editor) one(id string) string {
	if e.noPage || e.back != "" {
		return e.list()
	}
	return e.path + "/" + id
}

// list returns the address of the list.
func (e *editor) list() string { return cmp.Or(e.back, e.path) }

func (e *editor) showEdit(v *visit) error { return e.editPage(v, 200, nil) }

// editPage shows the form of a resource, with the values of f if it is not nil.
func (e *editor) editPage(v *visit, status int, f *form) error {
	var custom customFields
	var vendors vendorNames
	reads := append(e.custom(&custom), e.suggestions(&vendors)...)
	var users found[struct{ ID, Name string }]
	if e.users != "" {
		reads = append(reads, get(e.users, &users))
	}
	now, err := v.formOf(e.api+"/{id}", reads...)
	if err != nil {
		return err
	}
	if f == nil {
		f = now
	}
	name, at := e.name(now.Values.Get), e.path+"/"+now.Values.Get("id")
	follows := now.Values.Get("filament_id") + now.Values.Get("variant_of")
	p := &editorPage{Form: f, Name: name, Heading: v.t(e.noun.edit), Ask: v.t(e.noun.ask), Label: v.t("Save"),
		Vendors: vendors,
		Inputs:  e.inputs(v, f, follows != "", &custom), Action: at + "/edit" + v.query(),
		Back: e.one(now.Values.Get("id")) + v.query(), Removable: at + "/remove" + v.query(),
		MoreUsers: users.Total - len(users.Items)}
	if e.one("") == e.list() {
		p.Name = v.t(lists[e.list()])
	}
	for _, u := range users.Items {
		p.Users = append(p.Users, option{e.path + "/" + u.ID, u.Name})
	}
	return v.show(status, "editor", v.t("Edit %s", name), p)
}

func (e *editor) edit(v *visit) error {
	f := v.sent()
	fields, err := e.names(v)
	if err != nil {
		return err
	}
	ok, err := v.edit(f, e.api+"/{id}", fields)
	n := &notice{Text: v.t(e.noun.saved)}
	if e.saved != nil {
		e.saved(v, f, n)
	}
	v.tell(n)
	return v.then(ok, err, e.one(v.r.PathValue("id"))+v.query(), func() error { return e.editPage(v, 422, f) })
}

func (e *editor) remove(v *visit) error {
	f := v.newForm()
	ok, err := v.send(f, http.MethodDelete, e.api+"/{id}", nil, nil)
	if ok {
		v.tell(&notice{Text: v.t(e.noun.removed), Undo: e.undoRemoval(v)})
	}
	return v.then(ok, err, e.list()+v.query(), func() error {
		now, err := v.formOf(e.api + "/{id}")
		if err != nil {
			return err
		}
		now.Problem = f.Problem
		return e.editPage(v, 422, now)
	})
}

func (e *editor) pages(access server.Access) []page {
	return append(e.changes(access),
		page{"GET " + e.path + "/new", access, e.showNew}, page{"POST " + e.path + "/new", access, e.create})
}

// changes returns the pages of the editor for existing resources.
func (e *editor) changes(access server.Access) []page {
	return []page{
		{"GET " + e.path + "/{id}/edit", access, e.showEdit},
		{"POST " + e.path + "/{id}/edit", access, e.edit},
		{"POST " + e.path + "/{id}/remove", access, e.remove},
	}
}
