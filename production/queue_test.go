package production_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// queueOf returns the notes of the unfinished runs of a printer in their order, each with its position.
func queueOf(t *testing.T, c *testkit.Client, printer string) string {
	t.Helper()
	var all []string
	queue := c.Get(t, "/api/v1/queue?printer_id="+printer).Want(200)
	for i := range queue.List("runs") {
		run := c.Get(t, runs+"/"+queue.Text(fmt.Sprintf("runs.%d.id", i))).Want(200)
		all = append(all, strings.TrimSuffix(run.Text("notes")+run.Text("queue_position"), "null"))
	}
	return strings.Join(all, " ")
}

func TestMoveRun(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	ids := map[string]string{}
	add := func(note string, fields j) {
		t.Helper()
		fields["notes"] = note
		ids[note] = c.Post(t, runs, fields).Want(201).ID()
	}
	for _, note := range []string{"a", "b", "c", "d", "e"} {
		add(note, j{"printer_id": printer})
	}
	add("x", j{})
	add("y", j{})
	move := func(note string, place any) *testkit.Response {
		t.Helper()
		return c.Post(t, runs+"/"+ids[note]+"/move", j{"place": place})
	}
	for _, step := range []struct {
		note  string
		place int
		want  string
	}{
		{"a", 1, "a b c d e"},
		{"c", 2, "a1 c2 b3 d e"},
		{"c", 1, "c1 a2 b3 d e"},
		{"c", 4, "a1 b2 d3 c4 e"},
		{"a", 1000000, "b1 d2 c3 e4 a5"},
		{"a", 5, "b1 d2 c3 e4 a5"},
	} {
		move(step.note, step.place).Want(200)
		testkit.Equal(t, queueOf(t, c, printer), step.want, "%s to %d", step.note, step.place)
	}
	before := c.Get(t, runs+"/"+ids["b"]).Want(200)
	move("d", 2).Want(200) // where it is
	testkit.Equal(t, c.Get(t, runs+"/"+ids["b"]).Want(200).Text("updated_at"), before.Text("updated_at"),
		"a move to the same place changed another run")
	c.Patch(t, runs+"/"+ids["a"], j{"queue_position": 1.5}).Want(200)
	move("e", 2).Want(200)
	testkit.Equal(t, queueOf(t, c, printer), "b1 e2 a3 d4 c5", "beside a position that is no place")
	c.Post(t, runs+"/"+ids["c"]+"/start", nil).Want(200)
	move("d", 1).Want(200).Shows(map[string]string{"queue_position": "1"})
	testkit.Equal(t, queueOf(t, c, printer), "c5 d1 b2 e3 a4", "behind a run that has started")
	if move("y", 1).Want(200); queueOf(t, c, printer) != "c5 d1 b2 e3 a4" {
		t.Error("a run without a printer moved those of a printer")
	}
	c.Get(t, runs+"/"+ids["x"]).Want(200).Shows(map[string]string{"queue_position": "2"})

	move("c", 3).Want(200)
	testkit.Equal(t, queueOf(t, c, printer), "c5 d1 b2 e3 a4", "after the move of a run that has started")
	for _, status := range []string{"completed", "failed", "cancelled"} {
		c.Patch(t, runs+"/"+ids["c"], j{"status": status}).Want(200)
		move("c", 1).WantError(400, "RUN_NOT_OPEN")
	}
	for _, place := range []any{nil, 0, 1.5, "first", 1000001} {
		move("d", place).WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": "place"})
	}
	path := runs + "/" + ids["d"] + "/move"
	tenant.User(t, "viewer").Post(t, path, j{"place": 1}).WantError(403, "FORBIDDEN")
	api.Operator(t).Post(t, path, j{"place": 1}).WantError(404, "NOT_FOUND")
	c.Delete(t, runs+"/"+ids["d"]).Want(204)
	c.Post(t, path, j{"place": 1}).WantError(404, "NOT_FOUND")
}

// Moves on one printer that begin at the same time have the effect of one after the other.
func TestMovesAtOnce(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	var ids []string
	for _, note := range []string{"a", "b", "c"} {
		ids = append(ids, c.Post(t, runs, j{"printer_id": printer, "notes": note}).Want(201).ID())
	}
	h := c.Hold(t, `select from production_runs where id = '`+ids[0]+`' for update`)
	send := func(id string) func() {
		return func() {
			switch a, err := c.Send("POST", runs+"/"+id+"/move", j{"place": 1}); {
			case err != nil:
				t.Errorf("move: %v", err)
			case a.Status != 200:
				t.Errorf("move: %d %s", a.Status, a.Body)
			}
		}
	}
	second := h.StartWaiting(1, send(ids[1]))
	third := h.StartWaiting(2, send(ids[2]))
	h.Commit()
	<-second
	<-third
	if got := queueOf(t, c, printer); got != "c1 b2 a3" && got != "b1 c2 a3" {
		t.Errorf("after two moves to the first place: %s", got)
	}
}

// A move counts the places in the queue that the transaction left for which it waited.
func TestMoveWaitsForQueue(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	var ids []string
	for _, note := range []string{"a", "b", "c"} {
		ids = append(ids, c.Post(t, runs, j{"printer_id": printer, "notes": note}).Want(201).ID())
	}
	got := during(t, c, `select from production_runs where id = '`+ids[2]+`' for no key update`,
		func() (*testkit.Response, error) { return c.Send("POST", runs+"/"+ids[1]+"/move", j{"place": 1}) },
		`update production_runs set queue_position = 0.5 where id = $1`, ids[2])
	testkit.Equal(t, got.Status, 200, "%s", got.Body)
	testkit.Equal(t, queueOf(t, c, printer), "b1 c2 a3", "the queue")
}

// A plan that has waited for its printer plans again if the printer is retired or removed then.
func TestPlanWaitsForPrinter(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	for _, change := range []string{`status = 'retired'`, `hidden_at = now()`} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
			c.NewSpool(t, 1000, nil)
			plan := j{"create": true, "items": []j{{"product_id": c.NewProduct(t, "LAMP", 10)}}}
			got := during(t, c, `select from printers where id = '`+printer+`' for no key update`,
				func() (*testkit.Response, error) { return c.Send("POST", "/api/v1/plan", plan) },
				`update printers set `+change+`, updated_at = now() where id = $1`, printer)
			testkit.Equal(t, got.Status, 200, "%s", got.Body)
			testkit.NewResponse(t, got.Body).Shows(map[string]string{"runs": "[]", "unplanned.0.reason": "NO_PRINTER"})
		})
	}
}

// A plan locks the spools of its runs in the order of their ids, so that it and a removal of several spools cannot
// wait for each other.
func TestPlanLocksSpoolsInOrder(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	c.Post(t, printersURL, j{"name": "MK4"}).Want(201)
	first, second := c.NewSpool(t, 1000, nil), c.NewSpool(t, 1000, j{"color": "Red"})
	red := c.Post(t, "/api/v1/products", j{"name": "Red", "materials": []j{
		{"material_type": "PLA", "color": "Red", "weight_grams": 10}}}).Want(201).ID()
	plan := j{"create": true, "items": []j{{"product_id": red}, {"product_id": c.NewProduct(t, "BLACK", 10)}}}
	h := c.Hold(t, `select from spools where id = '`+first+`' for update`)
	var got *testkit.Response
	var err error
	done := h.StartWaiting(1, func() { got, err = c.Send("POST", "/api/v1/plan", plan) })
	h.Exec(`select from spools where id = $1 for update nowait`, second)
	h.Commit()
	<-done
	testkit.Check(t, err)
	testkit.Equal(t, got.Status, 200, "%s", got.Body)
	testkit.NewResponse(t, got.Body).Shows(map[string]string{"runs.0.materials.0.spool_id": second,
		"runs.1.materials.0.spool_id": first})
}
