package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"spoolwright/db"
)

// NewProduct creates a product that needs the grams of black PLA, and returns its id.
func (c *Client) NewProduct(tb testing.TB, sku string, grams float64) string {
	tb.Helper()
	return c.Post(tb, "/api/v1/products", JSON{"name": "Product " + sku, "sku": sku, "materials": []JSON{
		{"material_type": "PLA", "color": "Black", "weight_grams": grams}}}).Want(201).ID()
}

// NewSpool creates a spool with the grams of black PLA left, and returns its id. The fields replace default
// fields.
func (c *Client) NewSpool(tb testing.TB, grams float64, fields JSON) string {
	tb.Helper()
	body := JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000,
		"remaining_weight_grams": grams}
	maps.Copy(body, fields)
	return c.Post(tb, "/api/v1/spools", body).Want(201).ID()
}

// NewOrder creates an order with one item, pieces of a product. It returns the path of the order and the id of the
// item.
func (c *Client) NewOrder(tb testing.TB, product string, pieces int) (order, item string) {
	tb.Helper()
	a := c.Post(tb, "/api/v1/orders", JSON{"items": []JSON{{"product_id": product, "quantity": pieces}}}).Want(201)
	return "/api/v1/orders/" + a.ID(), a.Text("items.0.id")
}

// NewRun creates a run that prints pieces of an item of an order, with further fields, and returns the path of the
// run.
func (c *Client) NewRun(tb testing.TB, product, item string, pieces int, fields JSON) string {
	tb.Helper()
	body := JSON{"items": []JSON{{"product_id": product, "order_item_id": item, "quantity": pieces}}}
	maps.Copy(body, fields)
	return "/api/v1/production-runs/" + c.Post(tb, "/api/v1/production-runs", body).Want(201).ID()
}

// Exported returns the lines of an export of the resources at the path, in the format.
func (c *Client) Exported(tb testing.TB, path, format string) []string {
	tb.Helper()
	text := string(c.Get(tb, path+"/export?format="+format).Want(200).Body)
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// WantExported fails the test unless an export in JSON Lines has the resources with the ids, as GET returns them
// except for the omitted fields, which the export must not have.
func (c *Client) WantExported(tb testing.TB, path string, omitted []string, ids ...string) {
	tb.Helper()
	lines := c.Exported(tb, path, "jsonl")
	if len(lines) != len(ids) {
		tb.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, id := range ids {
		var exported, shown map[string]any
		err := errors.Join(json.Unmarshal([]byte(lines[i]), &exported),
			json.Unmarshal(c.Get(tb, path+"/"+id).Want(200).Body, &shown))
		for _, field := range omitted {
			delete(shown, field)
		}
		if err != nil || !reflect.DeepEqual(exported, shown) {
			tb.Errorf("%v: the export has %s, the API %v", err, lines[i], shown)
		}
	}
}

// WantEdited fails the test unless the last change of the spool was an edit: a plan that was computed before it is
// refused, and sockets tell of it.
func (c *Client) WantEdited(tb testing.TB, spool string) {
	tb.Helper()
	var edited bool
	Check(tb, c.API.DB.Read(db.As(tb.Context(), db.Actor{Tenant: c.Actor.Tenant}), db.SQL(
		`select coalesce(edited_at = updated_at, false) from spools where id = $1`, spool).Into(&edited)))
	if !edited {
		tb.Error("the change did not set edited_at")
	}
}

// WantUndone undoes the import that was answered. It fails the test unless the undo has the counts, and leaves the rows
// in left, as "name: reason". A second undo is rejected.
func (c *Client) WantUndone(tb testing.TB, of *Response, removed, restored int, left ...string) {
	tb.Helper()
	path := "/api/v1/imports/" + of.Want(200).Text("import_id") + "/undo"
	a := c.Post(tb, path, nil).Want(200)
	a.Shows(map[string]string{"removed": fmt.Sprint(removed), "restored": fmt.Sprint(restored)})
	var got []string
	for i := range a.List("left") {
		got = append(got, a.Text(fmt.Sprintf("left.%d.name", i))+": "+a.Text(fmt.Sprintf("left.%d.reason", i)))
	}
	EqualSlices(tb, got, left, "left")
	c.Post(tb, path, nil).WantError(409, "IMPORT_UNDONE")
}

// WantLen reports an error unless the list has n entries.
func (r *Response) WantLen(tb testing.TB, list string, n int) {
	tb.Helper()
	if got := len(r.List(list)); got != n {
		tb.Errorf("%s: %s has %d entries, want %d: %s", r.What, list, got, n, r.Body)
	}
}
