package blackbox_test

import (
	"context"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// TestIfMatch changes each resource that has an ETag: a PUT or PATCH of an old version is a 412, and a change of the
// resource or of its parts changes its ETag and updated_at.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, func(op *operation) bool { return op.Lock != nil }, func(t *testing.T, op *operation) {
		t.Parallel()
		f := w.newFixture(t)
		path := f.path(t, op.Path())
		old := f.admin.Get(t, path).Want(200)
		changed := func(what string) {
			t.Helper()
			now := f.admin.Get(t, path).Want(200)
			if now.Header.Get("ETag") == old.Header.Get("ETag") || !now.Time("updated_at").After(old.Time("updated_at")) {
				t.Errorf("%s: the ETag was %s and is %s, updated_at was %s and is %s", what, old.Header.Get("ETag"),
					now.Header.Get("ETag"), old.Text("updated_at"), now.Text("updated_at"))
			}
			for _, part := range w.operations {
				method, body := part.Method(), any(nil)
				switch {
				case part.Path() != op.Path() || method == "GET":
					continue
				case method == "PATCH":
					body = testkit.JSON{}
				case method == "PUT":
					body = f.body(t, part)
				}
				f.admin.With("If-Match", old.Header.Get("ETag")).Do(t, method, path, body).
					WantError(412, "PRECONDITION_FAILED")
			}
			old = now
		}
		for _, part := range w.operations {
			nested, isNested := strings.CutPrefix(part.Path(), op.Path()+"/")
			switch {
			case (part.Method() == "PATCH" || part.Method() == "PUT") && part.Path() == op.Path():
				f.do(t, f.admin.With("If-Match", old.Header.Get("ETag")), part, path, f.body(t, part)).Want(200)
				changed(part.Pattern)
			case part.Doc.ID == "addFilamentSpools" || part.Doc.ID == "addProductVariants": // resources of their own
			case isNested && part.Method() == "POST" && !strings.Contains(nested, "/") &&
				strings.HasSuffix(nested, "s"):
				one := path + "/" + nested + "/" + f.do(t, f.admin, part, path+"/"+nested, f.body(t, part)).Want(201).
					ID()
				changed(part.Pattern)
				for _, other := range w.operations {
					if strings.HasPrefix(other.Path(), part.Path()+"/{") && other.Method() == "PATCH" {
						f.do(t, f.admin, other, one, f.body(t, other)).Want(200)
						changed(other.Pattern)
					}
				}
				f.admin.Delete(t, one).Want(204)
				changed("DELETE " + part.Path())
			}
		}
	})
}

// A change with If-Match waits for a transaction that has the lock of the resource: of two changes with the same ETag,
// the second one compares it with what the first one leaves.
func TestIfMatchWaits(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	changed := func(op *operation) bool { return op.Lock != nil && w.has("PATCH "+op.Path()) }
	w.forEach(t, changed, func(t *testing.T, op *operation) {
		t.Parallel()
		f := w.newFixture(t)
		path := f.path(t, op.Path())
		var ids []string
		for i, part := range pathParts(op.Path()) {
			if strings.HasPrefix(part, "{") {
				ids = append(ids, pathParts(path)[i])
			}
		}
		current := f.admin.With("If-Match", f.admin.Get(t, path).Want(200).Header.Get("ETag"))
		h := f.admin.Hold(t, `select pg_advisory_xact_lock(hashtextextended('`+f.tenant.ID+`', 0))`)
		locked := h.StartWaiting(1, func() {
			check(t, f.api.DB.Write(db.As(context.Background(), db.Actor{Tenant: f.tenant.ID}), append(op.Lock(ids...),
				db.SQL(`select pg_advisory_xact_lock(hashtextextended($1, 0))::text`, f.tenant.ID))...))
		})
		change := h.StartWaiting(2, func() { current.Patch(t, path, testkit.JSON{}).Want(200) })
		h.Commit()
		<-locked
		<-change
	})
}

// has reports whether there is a route with the pattern.
func (w *testAPI) has(pattern string) bool {
	for _, op := range w.operations {
		if op.Pattern == pattern {
			return true
		}
	}
	return false
}
