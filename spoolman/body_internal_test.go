package spoolman

import (
	"bytes"
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

// FuzzSource reads any file as an export of Spoolman. It must not panic.
func FuzzSource(f *testing.F) {
	f.Add([]byte(`{"vendor": [{"id": 1, "name": "A"}], "filament": [{"id": 2, "vendor": {"id": 1}, "density": 1.24,
		"diameter": 1.75}], "spool": [{"id": 3, "filament": {"id": 2}, "used_weight": 10, "extra": {"tag": "\"x\""}}]}`))
	f.Add([]byte(`[{"id": 1, "filament": {"id": 2, "color_hex": "ff0000", "material": "PLA"}}]`))
	f.Fuzz(func(t *testing.T, file []byte) {
		if source, err := readSource(bytes.NewReader(file)); err == nil && source == nil {
			t.Errorf("%q: neither a source nor an error", file)
		}
	})
}
