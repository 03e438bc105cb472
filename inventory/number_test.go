package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// numbersOf returns the numbers of the client's spools, hidden ones included, in order.
func numbersOf(t *testing.T, c *testkit.Client) []int {
	t.Helper()
	var all []int
	err := c.API.DB.Read(db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant}),
		db.SQL(`select coalesce(array_agg(number order by number), '{}') from spools`).Into(&all))
	testkit.Check(t, err)
	return all
}

// Each tenant counts its spools from 1. A removed spool keeps its number.
func TestSpoolNumbers(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	first := c.Post(t, spools, spool(j{"number": 77})).Want(201).Shows(map[string]string{"number": "1"}).ID()
	c.Post(t, spools+"/batch", spool(j{"quantity": 3})).Want(201).
		Shows(map[string]string{"items.0.number": "2", "items.1.number": "3", "items.2.number": "4"})
	last := c.Get(t, query("number", 4)).Want(200).Shows(map[string]string{"total": "1", "items.0.number": "4"})
	c.Delete(t, spools+"/"+last.Text("items.0.id")).Want(204)
	c.Post(t, spools, spool(nil)).Want(201).Shows(map[string]string{"number": "5"})
	c.Patch(t, spools+"/"+first, j{"number": 9}).Want(200).Shows(map[string]string{"number": "1"})
	other.Post(t, spools, spool(nil)).Want(201).Shows(map[string]string{"number": "1"})

	c.Get(t, query("number", 1)).Want(200).Shows(map[string]string{"total": "1", "items.0.id": first})
	c.Get(t, query("number", 4)).Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, query("number", 4, "hidden", true)).Want(200).Shows(map[string]string{"total": "1"})
	other.Get(t, query("number", 2)).Want(200).Shows(map[string]string{"total": "0"})
	for _, number := range []string{"0", "-1", "1.5", "x", "1e400", "2147483648"} {
		c.Get(t, query("number", number)).WantError(422, "VALIDATION_ERROR")
	}
}

// The number of a label names a spool as its id does.
func TestSpoolByNumber(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant, other := api.Tenant(t), api.Operator(t)
	c, viewer := tenant.User(t, "operator"), tenant.User(t, "viewer")
	first := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	second := spools + "/" + c.Post(t, spools, spool(j{"archived": true})).Want(201).ID()
	other.Post(t, spools, spool(nil)).Want(201)
	const labels = spools + "/by-number/"
	for number, path := range map[string]string{"1": first, "2": second} {
		want, got := viewer.Get(t, path).Want(200), viewer.Get(t, labels+number).Want(200)
		if string(got.Body) != string(want.Body) || got.Header.Get("ETag") != want.Header.Get("ETag") {
			t.Errorf("the spool %s is %s, want %s", number, got.Body, want.Body)
		}
		c.With("If-None-Match", got.Header.Get("ETag")).Get(t, labels+number).Want(304)
	}
	c.With("If-Match", c.Get(t, labels+"1").Header.Get("ETag")).Patch(t, first, j{"notes": "x"}).Want(200)
	other.Get(t, labels+"2").WantError(404, "NOT_FOUND")
	c.Get(t, labels+"3").WantError(404, "NOT_FOUND")
	c.Delete(t, first).Want(204)
	c.Get(t, labels+"1").WantError(404, "NOT_FOUND")
	c.Post(t, first+"/restore", nil).Want(200)
	c.Get(t, labels+"1").Want(200)
	for _, number := range []string{"0", "-1", "+1", "01", "1.5", "x", "1e3", "1000000000", "99999999999999999999",
		"%201", "usage", strings.TrimPrefix(first, spools+"/")} {
		field := "number"
		if number == "usage" { // the usage of the spool "by-number"
			field = "id"
		}
		c.Get(t, labels+number).Fields(field)
	}
	c.Patch(t, labels+"1", j{}).WantError(405, "METHOD_NOT_ALLOWED")
	for _, path := range []string{labels, spools + "/by-id/1", first + "/x", spools + "/x/1", labels + "1/usage"} {
		c.Get(t, path).WantError(404, "NOT_FOUND")
	}
	c.Get(t, spools+"/by-number").Fields("id")
}

// Concurrent creates and imports get different numbers, almost without gaps.
func TestConcurrentNumbers(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	const creates, rows = 150, 1500
	var wg sync.WaitGroup
	limit := make(chan bool, 32)
	for i := range creates {
		wg.Go(func() {
			limit <- true
			defer func() { <-limit }()
			switch i % 10 {
			case 0:
				failed := errors.New("roll back")
				err := c.API.DB.Tx(db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant}),
					func(ctx context.Context) error {
						err := c.API.DB.Write(ctx, db.SQL(`select next_number('spools')`))
						return errors.Join(err, failed)
					})
				if !errors.Is(err, failed) {
					t.Error(err)
				}
			case 1:
				if a, err := c.Send("POST", spools+"/batch", spool(j{"quantity": 7})); err != nil || a.Status != 201 {
					t.Errorf("%+v %v", a, err)
				}
			default:
				if a, err := c.Send("POST", spools, spool(nil)); err != nil || a.Status != 201 {
					t.Errorf("%+v %v", a, err)
				}
			}
		})
	}
	file := "material_type,color,diameter_mm,net_weight_grams\n" + strings.Repeat("PLA,Black,1.75,1000\n", rows)
	c.With("Content-Type", "text/csv").Post(t, spools+"/import", file).Want(200).
		Shows(map[string]string{"created": fmt.Sprint(rows)})
	wg.Wait()
	const total = creates/10*8 + creates/10*7 + rows
	got := numbersOf(t, c)
	for i, n := range got[1:] {
		if n == got[i] {
			t.Errorf("the number %d occurs twice", n)
		}
	}
	// A rolled back transaction leaves a gap if a later number was committed before.
	if len(got) != total || got[total-1] > total+creates/10+32 {
		t.Errorf("%d spools have the numbers %d to %d, want %d spools", len(got), got[0], got[len(got)-1], total)
	}
}

// A create does not wait for an import that is writing spools.
func TestCreatesBesideImport(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	c.Post(t, spools, spool(nil)).Want(201)
	h := c.Hold(t, `insert into spools (id, number, material_type, color, diameter_mm, net_weight_grams,
		remaining_weight_grams) values (gen_random_uuid(), 1502, 'PLA', 'Black', 1.75, 1000, 1000)`)
	file := "material_type,color,diameter_mm,net_weight_grams\n" + strings.Repeat("PLA,Black,1.75,1000\n", 2000)
	done := h.StartWaiting(1, func() {
		c.With("Content-Type", "text/csv").Post(t, spools+"/import", file).Want(200)
	})
	c.Post(t, spools, spool(nil)).Want(201).Shows(map[string]string{"number": "2002"})
	c.Get(t, spools+"?limit=1").Want(200).Shows(map[string]string{"total": "2"})
	h.Exec(`delete from spools where number = 1502 and tenant_id = $1`, c.Actor.Tenant)
	h.Commit()
	<-done
	c.Get(t, spools+"?limit=1").Want(200).Shows(map[string]string{"total": "2002"})
}
