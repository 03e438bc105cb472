package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func TestMarksOfStates(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	run := c.Post(t, "/api/v1/production-runs", j{}).Want(201).ID()
	path, _ := c.NewOrder(t, c.NewProduct(t, "H-1", 10), 1)
	for _, is := range []struct{ path, status, class, text string }{
		{"/api/v1/production-runs/" + run, "pending", "wait", "Planned"},
		{"/api/v1/production-runs/" + run, "in_progress", "now", "Printing"},
		{"/api/v1/production-runs/" + run, "paused", "hold", "Paused"},
		{"/api/v1/production-runs/" + run, "failed", "bad", "Failed"},
		{"/api/v1/production-runs/" + run, "cancelled", "off", "Cancelled"},
		{path, "received", "wait", "Received"},
		{path, "done", "good", "Done"},
	} {
		c.Patch(t, is.path, j{"status": is.status}).Want(200)
		page := strings.NewReplacer("/api/v1", "", "production-runs", "runs").Replace(is.path)
		if text := b.get(t, page).text; !strings.Contains(text, `<i class="mark `+is.class+`"></i>`+is.text) {
			t.Errorf("%s has no mark %s", is.status, is.class)
		}
	}
	testkit.Contains(t, b.get(t, "/orders?status=done").text, `<i class="mark good"></i>Done`,
		"the list of orders has no marks")
}
