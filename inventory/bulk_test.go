package inventory_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// counts are the fields of the answer of a bulk operation.
func counts(matched, changed int, dryRun bool) map[string]string {
	return map[string]string{"matched": fmt.Sprint(matched), "changed": fmt.Sprint(changed),
		"dry_run": fmt.Sprint(dryRun)}
}

// insertSpools inserts n equal spools of 1,000 g with the ledger entries, and returns their ids in the order of their
// numbers.
func insertSpools(t *testing.T, c *testkit.Client, n int) (ids []string) {
	t.Helper()
	for n > 0 {
		most := min(n, 100)
		list := c.Post(t, spools+"/batch", spool(j{"quantity": most, "purchase_price": 20})).Want(201).List("items")
		for _, s := range list {
			ids = append(ids, s.(map[string]any)["id"].(string))
		}
		n -= most
	}
	return ids
}

// The spools of a bulk operation are named by ids, by numbers, or by the filters of the list. A dry run answers the
// same and changes nothing. A spool that already has the values keeps its ETag.
func TestBulkUpdate(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	ids := insertSpools(t, c, 4)
	theirs := other.Post(t, spools, spool(nil)).Want(201).ID()
	before := c.Get(t, spools).Want(200).Body
	for _, selection := range []j{
		{"ids": ids[:2]}, {"ids": []string{ids[0], ids[1], ids[0]}}, {"numbers": []int{1, 2, 2}},
	} {
		body := j{"changes": j{"location": "A", "remaining_weight_grams": 500}, "dry_run": true}
		for k, v := range selection {
			body[k] = v
		}
		c.Patch(t, spools, body).Want(200).Shows(counts(2, 2, true))
	}
	testkit.Equal(t, string(c.Get(t, spools).Want(200).Body), string(before), "a dry run has changed")
	c.Patch(t, spools, j{"ids": ids[:2], "changes": j{"location": "A", "remaining_weight_grams": 500}}).Want(200).
		Shows(counts(2, 2, false))
	c.Get(t, spools+"/"+ids[1]).Shows(map[string]string{"location": "A", "remaining_weight_grams": "500"})
	c.Get(t, spools+"/"+ids[1]+"/usage").Shows(map[string]string{
		"total": "2", "items.0.kind": "edited", "items.0.before_grams": "1000", "items.0.after_grams": "500",
		"items.0.user_id": c.Actor.User,
	})
	tag := c.Get(t, spools+"/"+ids[0]).Header.Get("ETag")
	c.Patch(t, spools, j{"filter": j{"material_type": "PLA"}, "changes": j{"location": "A"}}).Want(200).
		Shows(counts(4, 2, false))
	testkit.Equal(t, c.Get(t, spools+"/"+ids[0]).Header.Get("ETag"), tag,
		"a spool that was not changed has another ETag")
	c.Get(t, spools+"/"+ids[2]+"/usage").Shows(map[string]string{"total": "1"})
	c.Patch(t, spools, j{"filter": j{"number": 3}, "changes": j{"archived": true}}).Want(200).
		Shows(counts(1, 1, false))
	c.Get(t, spools+"?limit=1").Shows(map[string]string{"total": "3"})
	c.Patch(t, spools, j{"filter": j{"search": "BLACK", "in_stock": true}, "changes": j{}}).Want(200).
		Shows(counts(3, 0, false))
	c.Patch(t, spools, j{"filter": j{"search": "black", "archived": true}, "changes": j{"notes": "x"}}).Want(200).
		Shows(counts(1, 1, false))
	c.Patch(t, spools, j{"filter": j{"color": "none"}, "changes": j{"notes": "x"}}).Want(200).
		Shows(counts(0, 0, false))
	other.Get(t, spools+"/"+theirs).Shows(map[string]string{"location": "null"})
}

func TestBulkDelete(t *testing.T) {
	t.Parallel()
	c := operator(t)
	ids := insertSpools(t, c, 5)
	c.Do(t, "DELETE", spools, j{"numbers": []int{1, 2}, "dry_run": true}).Want(200).Shows(counts(2, 2, true))
	c.Get(t, spools).Shows(map[string]string{"total": "5"})
	c.Do(t, "DELETE", spools, j{"numbers": []int{1, 2}}).Want(200).Shows(counts(2, 2, false))
	c.Get(t, spools).Shows(map[string]string{"total": "3"})
	c.Get(t, spools+"?hidden=true").Shows(map[string]string{"total": "2"})
	c.Get(t, spools+"/"+ids[0]).WantError(404, "NOT_FOUND")
	c.Do(t, "DELETE", spools, j{"filter": j{"color": "black"}}).Want(200).Shows(counts(3, 3, false))
	c.Get(t, spools).Shows(map[string]string{"total": "0"})
	c.Post(t, spools+"/"+ids[0]+"/restore", nil).Want(200)
	c.Get(t, spools).Shows(map[string]string{"total": "1"})
}

// twoFarms returns a farm of three spools, of which the last one is hidden, and the ids of another farm's spools.
func twoFarms(t *testing.T) (tenant *testkit.Tenant, c *testkit.Client, ids, theirs []string) {
	t.Helper()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant = api.Tenant(t)
	c = tenant.User(t, "operator")
	ids, theirs = insertSpools(t, c, 3), insertSpools(t, api.Operator(t), 5)
	c.Delete(t, spools+"/"+ids[2]).Want(204)
	return tenant, c, ids, theirs
}

// A request with an unknown, hidden or foreign spool, or with an invalid field, changes nothing and names it.
func TestBulkErrors(t *testing.T) {
	t.Parallel()
	tenant, c, ids, theirs := twoFarms(t)
	before := c.Get(t, spools).Want(200).Body
	changes := j{"location": "B"}
	for _, unknown := range []string{value.NewID(), theirs[0], ids[2]} {
		c.Patch(t, spools, j{"ids": []string{ids[0], unknown}, "changes": changes}).
			WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "ids[1]"})
		c.Do(t, "DELETE", spools, j{"ids": []string{ids[0], unknown}}).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "ids[1]"})
	}
	c.Patch(t, spools, j{"numbers": []int{3, 1, 5}, "changes": changes}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "numbers[0]", "errors.1.field": "numbers[2]"})
	many := make([]int, 1001)
	for i := range many {
		many[i] = 1
	}
	for _, bad := range []struct {
		field string
		body  j
	}{
		{"body", j{"changes": changes}},
		{"body", j{"ids": ids[:1], "numbers": []int{1}, "changes": changes}},
		{"body", j{"ids": ids[:1], "filter": j{"number": 1}, "changes": changes}},
		{"changes", j{"ids": ids[:1]}},
		{"changes", j{"ids": ids[:1], "changes": nil}},
		{"changes", j{"ids": ids[:1], "changes": []int{}}},
		{"changes.color", j{"ids": ids[:1], "changes": j{"color": nil}}},
		{"changes.number_", j{"ids": ids[:1], "changes": j{"number_": 1}}},
		{"changes.remaining_weight_grams", j{"ids": ids[:1], "changes": j{"remaining_weight_grams": -1}}},
		{"changes.purchase_price", j{"ids": ids[:1],
			"changes": j{"purchase_price": 1000000, "net_weight_grams": 0.000001}}},
		{"filter", j{"filter": j{}, "changes": changes}},
		{"filter", j{"filter": 1, "changes": changes}},
		{"filter.limit", j{"filter": j{"limit": 1}, "changes": changes}},
		{"filter.material_type", j{"filter": j{"material_type": "PLO"}, "changes": changes}},
		{"filter.material_type", j{"filter": j{"material_type": nil}, "changes": changes}},
		{"filter.brand", j{"filter": j{"brand": []int{1}}, "changes": changes}},
		{"filter.hidden", j{"filter": j{"hidden": true}, "changes": changes}},
		{"ids", j{"ids": []string{}, "changes": changes}},
		{"ids", j{"ids": []string{"x"}, "changes": changes}},
		{"ids", j{"ids": "x", "changes": changes}},
		{"ids", j{"ids": []any{nil}, "changes": changes}},
		{"ids", j{"ids": []any{j{}}, "changes": changes}},
		{"numbers", j{"numbers": []any{1.5}, "changes": changes}},
		{"numbers", j{"numbers": []any{0}, "changes": changes}},
		{"numbers", j{"numbers": many, "changes": changes}},
		{"dry_run", j{"numbers": []any{1}, "changes": changes, "dry_run": "yes"}},
	} {
		c.Patch(t, spools, bad.body).Fields(bad.field)
	}
	// Only PostgreSQL knows the net weight; a dry run fails as well.
	small := c.Post(t, spools, spool(j{"net_weight_grams": 0.000001, "archived": true})).Want(201).ID()
	for _, dryRun := range []bool{true, false} {
		c.Patch(t, spools, j{"ids": []string{ids[0], small}, "changes": j{"purchase_price": 1000000},
			"dry_run": dryRun}).
			Fields("changes.purchase_price")
	}
	c.With("If-Match", "*").Patch(t, spools, j{"ids": ids[:1], "changes": changes}).Fields("If-Match")
	c.With("If-Match", "*").Do(t, "DELETE", spools, j{"ids": ids[:1]}).Fields("If-Match")
	tenant.User(t, "viewer").Patch(t, spools, j{"ids": ids[:1], "changes": changes}).WantError(403, "FORBIDDEN")
	tenant.User(t, "viewer").Do(t, "DELETE", spools, j{"ids": ids[:1]}).WantError(403, "FORBIDDEN")
	testkit.Equal(t, string(c.Get(t, spools).Want(200).Body), string(before), "the requests have changed")
}

// A bulk operation changes up to 1,000 spools.
func TestBulkLimit(t *testing.T) {
	t.Parallel()
	c := operator(t)
	ids := insertSpools(t, c, 1000)
	c.Patch(t, spools, j{"filter": j{"material_type": "PLA"}, "changes": j{"remaining_weight_grams": 10}}).Want(200).
		Shows(counts(1000, 1000, false))
	c.Get(t, spools+"/"+ids[999]+"/usage").Shows(map[string]string{"total": "2", "items.0.change_grams": "-990"})
	last := insertSpools(t, c, 1)
	c.Patch(t, spools, j{"filter": j{"in_stock": true}, "changes": j{"notes": "x"}}).Fields("filter")
	c.Do(t, "DELETE", spools, j{"filter": j{"in_stock": true}}).Fields("filter")
	c.Do(t, "DELETE", spools, j{"ids": ids}).Want(200).Shows(counts(1000, 1000, false))
	c.Get(t, spools).Shows(map[string]string{"total": "1", "items.0.id": last[0], "items.0.notes": "null"})
}

// Concurrent bulk operations and deductions do not deadlock, and the ledger adds up.
func TestBulkRaces(t *testing.T) {
	t.Parallel()
	c := operator(t)
	ids := insertSpools(t, c, 10)
	backwards := make([]string, len(ids))
	for i, id := range ids {
		backwards[len(ids)-1-i] = id
	}
	testkit.Concurrently(8, func(n int) {
		for i := range 5 {
			switch n % 4 {
			case 0:
				c.Patch(t, spools, j{"ids": ids, "changes": j{"remaining_weight_grams": 500 + i}}).Want(200)
			case 1:
				c.Patch(t, spools, j{"ids": backwards, "changes": j{"remaining_weight_grams": 700 + i}}).Want(200)
			case 2:
				c.Patch(t, spools, j{"filter": j{"color": "Black"}, "changes": j{"location": fmt.Sprint(n, i)}}).
					Want(200)
			case 3:
				for _, id := range backwards {
					c.Post(t, spools+"/"+id+"/deduct", j{"weight_grams": 1}).Want(200)
				}
			}
		}
	})
	wantLedgers(t, c)
}

// wantLedgers fails the test unless the ledger of each spool adds up to its remaining weight.
func wantLedgers(t *testing.T, c *testkit.Client) {
	t.Helper()
	for _, s := range c.Get(t, spools).Want(200).List("items") {
		s := s.(map[string]any)
		sum := 0
		for _, e := range c.Get(t, spools+"/"+s["id"].(string)+"/usage?limit=100").Want(200).List("items") {
			change, err := e.(map[string]any)["change_grams"].(json.Number).Int64()
			testkit.Check(t, err)
			sum += int(change)
		}
		testkit.Equal(t, s["remaining_weight_grams"].(json.Number).String(), fmt.Sprint(sum),
			"the remaining weight, beside the ledger")
	}
}

// A bulk update is taken back by another one, unless a spool was changed meanwhile.
func TestTakeBulkUpdateBack(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes).Operator(t)
	ids := insertSpools(t, c, 3)
	change := func(location any, since string) *testkit.Response {
		t.Helper()
		body := j{"ids": ids, "changes": j{"location": location}}
		if since != "" {
			body["unchanged_since"] = since
		}
		return c.Patch(t, spools, body)
	}
	at := change("A", "").Want(200).Text("changed_at")
	c.Get(t, spools+"/"+ids[0]).Want(200).Shows(map[string]string{"updated_at": at})
	at = change(nil, at).Want(200).Text("changed_at")
	c.Get(t, spools+"/"+ids[0]).Want(200).Shows(map[string]string{"location": "null"})
	c.Patch(t, spools+"/"+ids[1], j{"notes": "x"}).Want(200)
	change("B", at).WantError(409, "SPOOLS_CHANGED").Shows(map[string]string{
		"detail": "These spools were changed since: 2", "errors.0.field": "unchanged_since"})
	c.Get(t, spools+"/"+ids[0]).Want(200).Shows(map[string]string{"location": "null"})
	change("B", "yesterday").Fields("unchanged_since")
	c.Patch(t, spools, j{"filter": j{"brand": "none"}, "changes": j{"location": "A"}}).Want(200).
		Shows(map[string]string{"changed_at": "null"})

	// It waits for a change that has begun.
	at = change("C", "").Want(200).Text("changed_at")
	h := c.Hold(t, `update spools set notes = 'y', updated_at = clock_timestamp() where id = '`+ids[2]+`'`)
	done := h.StartWaiting(1, func() { change("D", at).WantError(409, "SPOOLS_CHANGED") })
	h.Commit()
	<-done
}
