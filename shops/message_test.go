package shops_test

import (
	"fmt"
	"testing"
)

// generic returns a message of a generic shop about an order, changed at a second of a day.
func generic(id, second int, lines ...j) j {
	if lines == nil {
		lines = []j{}
	}
	return j{"id": fmt.Sprint(id), "reference": fmt.Sprintf("A-%d", id), "lines": lines,
		"updated_at": fmt.Sprintf("2026-01-05T10:00:%02dZ", second)}
}

// An order without lines is an order.
func TestOrderWithoutLines(t *testing.T) {
	t.Parallel()
	for kind, bodies := range map[string][]string{
		"generic": {`{"id":1,"updated_at":"2026-01-05T10:00:00Z"}`,
			`{"id":2,"updated_at":"2026-01-05T10:00:00Z","lines":null}`,
			`{"id":3,"updated_at":"2026-01-05T10:00:00Z","lines":[]}`},
		"shopify":     {`{"id":1,"name":"#1","updated_at":"2026-01-05T10:00:00Z","line_items":[]}`},
		"woocommerce": {`{"id":1,"status":"processing","date_modified_gmt":"2026-01-05T10:00:00","line_items":[]}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, kind)
			for _, body := range bodies {
				s.send(t, body)
			}
			s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": fmt.Sprint(len(bodies)),
				"items.0.status": "received", "items.0.item_count": "0"})
		})
	}
}
