package blackbox_test

import (
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/testkit"
)

// removable are the collections whose resources are hidden when they are removed, and can be restored.
var removable = []string{"/api/v1/vendors", "/api/v1/filaments", "/api/v1/spools", "/api/v1/printers", "/api/v1/products",
	"/api/v1/orders", "/api/v1/production-runs"}

// removableOf returns the collection of the resource that a path leads to, or through which it leads; "" if that cannot
// be removed.
func removableOf(path string) string {
	for _, collection := range removable {
		if strings.HasPrefix(path, collection+"/{") || strings.HasPrefix(path, collection+"/by-number/{") {
			return collection
		}
	}
	return ""
}

// ofRemoved are the operations on what was removed, beside its restoration: ledgers can be read, and corrected.
var ofRemoved = []string{"listSpoolUsage", "reverseSpoolUsage", "moveSpoolUsage", "listProductPieceEntries"}

// No other operation finds a resource that was removed, or what belongs to it, and none changes it.
func TestRemovedIsNotFound(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, func(op *operation) bool { return removableOf(op.Path()) != "" },
		func(t *testing.T, op *operation) {
			t.Parallel()
			collection := removableOf(op.Path())
			f, path, body := w.newRequest(t, op)
			id, _, _ := strings.Cut(strings.TrimPrefix(path, collection+"/"), "/")
			if number, ok := strings.CutPrefix(path, collection+"/by-number/"); ok {
				id = f.admin.Get(t, collection+"/by-number/"+number).Want(200).ID()
			}
			f.hide(t, collection, id)
			hidden := collection + "?hidden=true&id=" + id
			before := f.admin.Get(t, hidden).Want(200)
			before.Shows(map[string]string{"total": "1"})
			a := f.do(t, f.admin, op, path, body)
			if op.Path() == collection+"/{id}/restore" || slices.Contains(ofRemoved, op.Doc.ID) {
				a.Want(200)
				return
			}
			if a.Status != 404 || a.Text("code") != "NOT_FOUND" {
				t.Errorf("%s: %d %s", op.Pattern, a.Status, a.Body)
			}
			testkit.Equal(t, string(f.admin.Get(t, hidden).Want(200).Body), string(before.Body), "the removed resource")
		})
}

// No operation accepts a reference to a resource that was removed.
func TestRemovedIsNoReference(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, func(op *operation) bool { return len(referenceFields(op, op.example)) > 0 },
		func(t *testing.T, op *operation) {
			t.Parallel()
			for _, name := range referenceFields(op, op.example) {
				f := w.newFixture(t)
				collection := f.collectionOf(t, op, name)
				if !slices.Contains(removable, collection) {
					continue
				}
				path, body := f.path(t, op.Path()), f.newBody(t, op, op.example)
				id := referenceOf(body, name)
				f.hide(t, collection, id)
				a := f.do(t, f.admin, op, path, body)
				if a.Status != 400 || a.Text("code") != "UNKNOWN_REFERENCE" {
					t.Errorf("%s with a removed %s: %d %s", op.Pattern, name, a.Status, a.Body)
				}
			}
		})
}

// hide removes a resource as if other data needed it: otherwise the service deletes some kinds of them.
func (f *fixture) hide(t *testing.T, collection, id string) {
	t.Helper()
	table := strings.ReplaceAll(strings.TrimPrefix(collection, "/api/v1/"), "-", "_")
	check(t, f.api.DB.Write(db.As(t.Context(), f.admin.Actor),
		db.SQL(`update `+table+` set hidden_at = now() where id = $1`, id)))
}

// referenceOf returns the id in the field that referenceFields names.
func referenceOf(body map[string]any, name string) string {
	if list, entryField, ok := strings.Cut(name, "[0]."); ok {
		return body[list].([]any)[0].(map[string]any)[entryField].(string)
	}
	return body[name].(string)
}
