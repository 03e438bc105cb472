package shops

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spoolwright/value"
)

// Whatever a shop sends, the message is an error, nothing, or an order within the bounds.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"id":1,"name":"#1","updated_at":"2026-01-05T08:00:00Z","line_items":[{"id":2,"quantity":3,"price":"1.50",
			"current_quantity":2}],"refunds":[{"refund_line_items":[{"id":4,"line_item_id":2,"quantity":1}]}]}`,
		`{"id":7,"order_id":1,"refund_line_items":[{"id":4,"line_item_id":2,"quantity":1}]}`,
		`{"id":1,"status":"processing","date_modified_gmt":"2026-01-05T08:00:00","line_items":[{"id":2,"quantity":3,
			"price":1}],"refunds":[{"id":5,"total":"-5.00"},{"id":6,"total":"-1","line_items":[{"quantity":-1,
			"meta_data":[{"key":"_refunded_item_id","value":"2"}]}]}]}`,
		`{"id":1}`,
		`{"id":"a","updated_at":"2026-01-05T08:00:00Z","lines":[{"title":"\u202ex","quantity":1}],"note":"\u2066a"}`,
		`{"id":"a","updated_at":"2026-01-05T08:00:00Z","lines":[{"title":"x","sku":"y","unit_price":1e3}]}`,
	} {
		f.Add([]byte(body))
	}
	now := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, kind := range []string{"shopify", "woocommerce", "generic"} {
			m, err := parse(kind, body, "", now)
			if err != nil || m == nil {
				continue
			}
			var all merged
			all.merge(m.merged)
			in := all.incoming("shop")
			if m.order == "" || utf8.RuneCountInString(m.order) > 100 || len(m.Refunds) > maxRefunds {
				t.Errorf("%s: %+v", kind, m)
			}
			if in == nil {
				continue
			}
			if len(in.Lines) > maxLines || in.Reference == "" || utf8.RuneCountInString(in.Notes) > 10_000 {
				t.Errorf("%s: %+v", kind, in)
			}
			for _, l := range in.Lines {
				if l.Quantity < 0 || l.Quantity > 1_000_000 || l.Title == "" || !utf8.ValidString(l.Title) ||
					strings.ContainsFunc(l.Title+in.Notes, value.IsDirection) {
					t.Errorf("%s: the line %+v", kind, l)
				}
			}
		}
	})
}
