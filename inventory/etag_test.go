package inventory_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
)

// A client that gets a spool, edits it and sends it back cannot overwrite a change that it has not seen.
func TestSpoolConditions(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	with := func(c *testkit.Client, method string, body any, header, value string) *testkit.Response {
		t.Helper()
		return c.With(header, value).Do(t, method, path, body)
	}
	get := c.Get(t, path).Want(200)
	tag := get.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) {
		t.Fatalf("the ETag is %q", tag)
	}
	for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if a := with(c, "GET", nil, "If-None-Match", known).Want(304); len(a.Body) != 0 ||
			a.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %q, ETag %s", known, a.Body, a.Header.Get("ETag"))
		}
	}
	with(c, "GET", nil, "If-None-Match", `"x"`).Want(200)

	changed := with(c, "PATCH", j{"notes": "mine"}, "If-Match", tag).Want(200)
	if got, now := changed.Header.Get("ETag"), c.Get(t, path).Header.Get("ETag"); got == tag || got != now {
		t.Errorf("the ETag after the change is %s and then %s; it was %s", got, now, tag)
	}
	for _, old := range []string{tag, `"x"`, "W/" + changed.Header.Get("ETag"), "x"} {
		with(c, "PATCH", j{"notes": "lost"}, "If-Match", old).WantError(412, "PRECONDITION_FAILED")
		with(c, "DELETE", nil, "If-Match", old).WantError(412, "PRECONDITION_FAILED")
	}
	c.Get(t, path).Shows(map[string]string{"notes": "mine"})
	tag = changed.Header.Get("ETag")
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	with(c, "PATCH", j{"remaining_weight_grams": 1000}, "If-Match", tag).WantError(412, "PRECONDITION_FAILED")
	with(c, "PATCH", j{"notes": ""}, "If-Match", "*").Want(200)
	with(c, "PATCH", j{"net_weight_grams": -1}, "If-Match", `"x"`).Fields("net_weight_grams")
	with(other, "PATCH", j{}, "If-Match", "*").WantError(404, "NOT_FOUND")
	with(other, "PATCH", j{}, "If-Match", tag).WantError(404, "NOT_FOUND")
	with(c, "DELETE", nil, "If-Match", `"x", `+c.Get(t, path).Header.Get("ETag")).Want(204)
	with(c, "DELETE", nil, "If-Match", "*").WantError(404, "NOT_FOUND")
}

// Of concurrent changes of the version that all have read, one succeeds.
func TestConcurrentConditions(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	for range 5 {
		tag := c.Get(t, path).Header.Get("ETag")
		testkit.Race(t, 8, func(i int) (*testkit.Response, error) {
			return c.With("If-Match", tag).Send("PATCH", path, j{"notes": strings.Repeat("x", i+1) + tag})
		}).Want(t, map[string]int{"200": 1, "412 PRECONDITION_FAILED": 7})
	}
}
