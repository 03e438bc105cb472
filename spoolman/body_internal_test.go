package spoolman

import (
	"encoding/json"
	"errors"
	"testing"

	"spoolwright/server"
)

// FuzzBody reads any body of a client of Spoolman as a spool, a filament and a vendor. What it rejects is the client's
// error.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"filament_id": 1, "remaining_weight": "12.5", "first_used": "2024-01-15T10:00:00Z",
		"extra": {"a": "\"b\""}}`))
	f.Add([]byte(`{"name": "A", "density": 1.24, "diameter": 1.7, "multi_color_hexes": "ff0000,#00ff00",
		"vendor_id": null}`))
	f.Add([]byte(`{"name": "V", "empty_spool_weight": 1e400, "external_id": "x", "price": "1,5"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := body{}
		if json.Unmarshal(text, &b) != nil {
			return
		}
		_, spool := readSpool(b)
		_, filament := readFilament(b, true)
		_, changed := readFilament(b, false)
		_, vendor := readVendor(b, true)
		_, renamed := readVendor(b, false)
		for what, err := range map[string]error{"spool": spool, "new filament": filament, "filament": changed,
			"new vendor": vendor, "vendor": renamed} {
			var e *server.Error
			if err != nil && (!errors.As(err, &e) || e.Status >= 500) {
				t.Errorf("%s %s: %v", what, text, err)
			}
		}
	})
}
