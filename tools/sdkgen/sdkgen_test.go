package sdkgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated files in sdk")

// TestGolden compares the generated files in sdk with testdata/openapi.json.
func TestGolden(t *testing.T) {
	openAPI, err := os.ReadFile("../../testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		path = filepath.Join("..", "..", path)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale; run go test ./tools/sdkgen -update and review the difference", path)
		}
	}
}
