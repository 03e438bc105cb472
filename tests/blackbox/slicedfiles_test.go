package blackbox_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"spoolwright/tests/testkit"
)

// TestSlicedFileCommands runs the commands of docs/sliced-files.md, which read a file of a slicer and set a picture,
// and that of docs/printers.md, which tells the file that a printer prints.
func TestSlicedFileCommands(t *testing.T) {
	t.Parallel()
	tenant := newUnlimitedAPI(t).api.Tenant(t)
	c := tenant.User(t, "operator")
	key := tenant.User(t, "admin").Post(t, "/api/v1/api-keys", map[string]any{"name": "script", "role": "operator"}).
		Want(201).Text("key")
	needTools(t, "curl")
	dir := tempDir(t)
	file, err := os.ReadFile("catalog/slicer/testdata/prusaslicer.gcode")
	check(t, err)
	var picture bytes.Buffer
	check(t, jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 30)), nil))
	check(t, os.WriteFile(filepath.Join(dir, "hook.gcode"), file, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "hook.jpg"), picture.Bytes(), 0o600))
	hook := c.NewProduct(t, "Hook", 10)
	c.Patch(t, "/api/v1/products/"+hook, map[string]any{"file_name": "hook.gcode"}).Want(200)
	for _, has := range []string{"-T hook.gcode", "--data-binary @hook.gcode", "@hook.jpg", "parts/hook.gcode"} {
		run := exec.Command("sh", "-eu", "-c", block(t, "sh", has))
		run.Dir = dir
		run.Env = append(os.Environ(), "URL="+c.API.URL+"/api/v1", "TOKEN="+c.Token, "KEY="+key, "HOOK="+hook)
		out, err := run.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(`"code":"`)) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c.Get(t, "/api/v1/products").Want(200).Shows(map[string]string{"total": "1"}) // the file was only tried
	c.Get(t, "/api/v1/production-runs?printer_name=voron+1").Want(200).
		Shows(map[string]string{"total": "1", "items.0.items.0.product_id": hook, "items.0.status": "in_progress"})
	if c.Get(t, "/api/v1/products/"+hook).Want(200).Text("picture_version") == "null" {
		t.Error("the product has no picture")
	}
	testkit.Equal(t, c.Get(t, "/api/v1/products/"+hook+"/picture").Want(200).Header.Get("Content-Type"), "image/jpeg",
		"the picture")
}
