package testkit

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// WantHiddenUnchanged removes the resource at the path, changes it while it is hidden, and restores it. It sends a
// PATCH for each field, and the other requests, such as "POST /items", with their bodies; a []any has several bodies.
// Each must return 404, and afterwards the resource must be as before.
func (c *Client) WantHiddenUnchanged(tb testing.TB, path string, fields JSON, others map[string]any) {
	tb.Helper()
	state := func() JSON {
		tb.Helper()
		var all JSON
		Check(tb, json.Unmarshal(c.Get(tb, path).Want(200).Body, &all))
		delete(all, "updated_at")
		return all
	}
	before := state()
	c.Delete(tb, path).Want(204)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		c.Patch(tb, path, JSON{field: fields[field]}).WantError(404, "NOT_FOUND")
	}
	for _, request := range slices.Sorted(maps.Keys(others)) {
		method, rest, _ := strings.Cut(request, " ")
		bodies, several := others[request].([]any)
		if !several {
			bodies = []any{others[request]}
		}
		for _, body := range bodies {
			c.Do(tb, method, path+rest, body).WantError(404, "NOT_FOUND")
		}
	}
	c.Delete(tb, path).WantError(404, "NOT_FOUND")
	c.Post(tb, path+"/restore", nil).Want(200)
	if after := state(); !reflect.DeepEqual(after, before) {
		tb.Errorf("%s changed while it was hidden: %v, want %v", path, after, before)
	}
}
