package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spoolwright/server"
)

// removedPage is the page with the removed things of a collection, beginning with the thing that was removed last, or
// the page of one removed thing.
type removedPage struct {
	listing
	Items []removed
	One   *removed // on the page of one removed thing, the thing; otherwise nil
}

// removed is a thing that was removed, and can be restored.
type removed struct {
	Name    string
	At      *time.Time
	By      string // the name of the user or API key, or "" if the command line removed the thing
	Restore string // the address of the form that restores the thing
}

// None returns the text of a list without removed things.
func (p *removedPage) None() string { return p.visit.t(p.Noun.noneRemoved) }

// Up returns the list of the things that are not removed.
func (p *removedPage) Up() option {
	path := strings.TrimSuffix(p.Path, "/removed")
	return option{path, p.visit.t(lists[path])}
}

// hidden reads removed things of the collection. Query has parameters of the API's list. Total is the number of
// removed things on all pages.
func (e *editor) hidden(v *visit, query url.Values) (all []removed, total int, err error) {
	query.Set("hidden", "true")
	if e.path == "/spools" {
		query.Set("archived", "any")
	}
	var list struct {
		Items []map[string]any
		Total int
	}
	if err := v.fetch(read{path: e.api, query: query, into: &list}); err != nil {
		return nil, 0, err
	}
	for _, values := range list.Items {
		if e.path == "/runs" {
			values["title"] = titleOf(v, values)
		}
		f := v.newForm()
		f.fill(values)
		id := f.Values.Get("id")
		one := removed{Name: e.name(f.Values.Get), By: f.Values.Get("hidden_by_name"),
			Restore: e.path + "/" + id + "/restore"}
		if at, err := time.Parse(time.RFC3339, f.Values.Get("hidden_at")); err == nil {
			one.At = &at
		}
		all = append(all, one)
	}
	return all, list.Total, nil
}

// hiddenOne returns the removed thing with the id, or nil if no removed thing has the id.
func (e *editor) hiddenOne(v *visit, id string) (*removed, error) {
	all, _, err := e.hidden(v, url.Values{"id": {id}})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

func (e *editor) showRemoved(v *visit) error {
	l, query := v.listing(e.path+"/removed", e.noun, nil, []listOrder{{"", "", "hidden_at", "desc"}})
	p := &removedPage{listing: l}
	var err error
	if p.Items, p.Total, err = e.hidden(v, query); err != nil {
		return err
	}
	return v.show(200, "removed", v.t(e.noun.allRemoved), p)
}

// orRemoved returns the handler of the page of a thing. If the thing was removed, the page says when, and offers to
// restore it.
func (e *editor) orRemoved(show func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		err := show(v)
		if err == nil || server.AsError(err).Status != http.StatusNotFound {
			return err
		}
		one, listed := e.hiddenOne(v, v.r.PathValue("id"))
		if listed != nil {
			return listed
		}
		if one == nil {
			return err
		}
		return e.removedPage(v, one)
	}
}

func (e *editor) removedPage(v *visit, one *removed) error {
	return v.show(http.StatusNotFound, "removed", one.Name,
		&removedPage{listing: listing{Path: e.path + "/removed", visit: v}, One: one})
}

// undoRemoval returns the form that restores the removed thing of the page, or nil if the thing cannot be restored.
func (e *editor) undoRemoval(v *visit) *undo {
	if e.back != "" || e.path == levels.path {
		return nil
	}
	one, err := e.hiddenOne(v, v.r.PathValue("id"))
	if err != nil || one == nil {
		return nil
	}
	return &undo{Name: v.t("Undo"), Action: one.Restore}
}

// restore restores the thing of the page.
func (e *editor) restore(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodPost, e.api+"/{id}/restore", nil, nil)
	if err == nil && !ok {
		return server.Conflict("NOT_RESTORED", "%s", f.Problem).With(f.Problem)
	}
	v.tell(&notice{Text: v.t(e.noun.restored)})
	return v.then(ok, err, e.one(v.r.PathValue("id")), nil)
}

// restores returns the pages that show and restore removed things of the collection.
func (e *editor) restores() []page {
	return []page{
		{"GET " + e.path + "/removed", server.Read, e.showRemoved},
		{"POST " + e.path + "/{id}/restore", server.Write, e.restore},
	}
}

// removedRuns is the editor of runs, for the pages that remove runs and show and restore removed runs.
var removedRuns = &editor{api: "/api/v1/production-runs", path: "/runs", noun: runNoun,
	name: func(get func(string) string) string { return get("title") }}

func titleOf(v *visit, values map[string]any) string {
	var r run
	b, _ := json.Marshal(values) // values of the API
	json.Unmarshal(b, &r)
	return r.Title(v)
}
