package imports

import (
	"bytes"
	"testing"
)

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
