package slicer_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"spoolwright/catalog/slicer"
)

var update = flag.Bool("update", false, "write testdata/files.golden")

// samples are the files of testdata.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"*.gcode", "*.bgcode", "*.3mf", "*.ufp"} {
		names, err := filepath.Glob("testdata/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if all[filepath.Base(name)], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(all) < 12 {
		t.Fatalf("%d files", len(all))
	}
	return all
}

// describe returns what is known of a file, as lines of text.
func describe(f *slicer.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s name=%q program=%q printer=%q nozzle=%g layer=%g\n", f.Format, f.Name, f.Program, f.Printer,
		f.NozzleMM, f.LayerHeightMM)
	for _, p := range f.Plates {
		fmt.Fprintf(&b, "  plate %d %q sliced=%t %d s, %d pieces, picture of %d bytes\n", p.Number, p.Name, p.Sliced,
			p.Seconds, p.Pieces, len(p.Picture))
		for _, m := range p.Filaments {
			fmt.Fprintf(&b, "    %.3f g %.2f mm %.2f mm3 type=%q color=%q vendor=%q profile=%q density=%g diameter=%g "+
				"fromLength=%t\n", m.Grams, m.Length, m.Volume, m.Type, m.Color, m.Vendor, m.Profile, m.DensityG,
				m.DiameterMM, m.FromLength)
		}
	}
	return b.String()
}

func TestDialects(t *testing.T) {
	t.Parallel()
	all := samples(t)
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, err := slicer.Read(bytes.NewReader(all[name]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum := sha256.Sum256(all[name])
		if f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(all[name])) {
			t.Errorf("%s: %d bytes, sum %s", name, f.Size, f.SHA256)
		}
		fmt.Fprintf(&got, "%s\n%s", name, describe(f))

		// One byte at a time gives the same.
		slow, err := slicer.Read(iotest.OneByteReader(bytes.NewReader(all[name])))
		if err != nil || describe(slow) != describe(f) {
			t.Errorf("%s by bytes: %v", name, err)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/files.golden", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/files.golden")
	if err != nil || string(want) != got.String() {
		t.Errorf("differs from files.golden (%v):\n%s", err, got.String())
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	for name, data := range samples(t) {
		if strings.HasSuffix(name, ".gcode") {
			continue // a text has no end; see TestFaults
		}
		for n := range data {
			_, err := slicer.Read(bytes.NewReader(data[:n]))
			if _, ok := errors.AsType[*slicer.Error](err); !ok && !isDirectory(data, n) {
				t.Fatalf("the first %d of %d bytes of %s: %v", n, len(data), name, err)
			}
		}
	}
}

// isDirectory reports whether the first n bytes of a ZIP file include the mark of the end.
func isDirectory(data []byte, n int) bool { return bytes.Contains(data[:n], []byte("PK\x05\x06")) }

func TestFaults(t *testing.T) {
	t.Parallel()
	all := samples(t)
	changed := func(name string, old, new string) []byte {
		data := bytes.Replace(all[name], []byte(old), []byte(new), 1)
		if bytes.Equal(data, all[name]) {
			t.Fatalf("%s has no %q", name, old)
		}
		return data
	}
	head, _, _ := bytes.Cut(all["prusaslicer.gcode"], []byte("; filament used"))
	for _, c := range []struct {
		what string
		data []byte
		want string
	}{
		{"empty", nil, "The file is empty"},
		{"text", []byte("Dear Sir,\nI am a letter.\n"), "This is not a sliced file"},
		{"picture", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01"), "This is neither G-code nor"},
		{"half of G-code", head, "was not copied completely, or PrusaSlicer 2.7.4"},
		{"version", changed("prusaslicer.bgcode", "GCDE\x01", "GCDE\x09"), "unknown version 9"},
		{"checksum", changed("prusaslicer.bgcode", "MK4S", "MK3S"), "checksum"},
		{"checksum of an entry", changed("unsliced.3mf", "IHDR", "IHDX"), "checksum"},
		{"password", changed("unsliced.3mf", "PK\x03\x04\x14\x00\x00\x00", "PK\x03\x04\x14\x00\x01\x00"), "password"},
		{"method", changed("unsliced.3mf", "PK\x03\x04\x14\x00\x00\x00\x00\x00", "PK\x03\x04\x14\x00\x00\x00\x0e\x00"),
			"packed with a method"},
		{"another ZIP file", zipped(t, "letter.txt", []byte("Dear Sir")), "neither a 3MF nor a UFP"},
		{"bomb", zipped(t, "3D/model.gcode", bytes.Repeat([]byte("G1 X123.456 Y78.9 E0.04\n"), 4_000_000)),
			"unpacks to far more"},
		{"bomb of settings", zipped(t, "Metadata/slice_info.config", make([]byte, 5<<20)), "unpacks to far more"},
		{"not XML", zipped(t, "Metadata/slice_info.config", []byte("<a b=<")), "cannot be read"},
	} {
		_, err := slicer.Read(bytes.NewReader(c.data))
		if _, ok := errors.AsType[*slicer.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	failed := errors.New("connection reset")
	if _, err := slicer.Read(io.MultiReader(bytes.NewReader(head), iotest.ErrReader(failed))); err != failed {
		t.Errorf("a broken reader: %v", err)
	}
}

// G-code that was cut off anywhere behind its header is an error or marked, for programs whose files have a known end.
func TestIncompleteGCode(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, marks := range map[string]string{"prusaslicer.gcode": "; prusaslicer_config = end",
		"prusaslicer-mmu.gcode": "; prusaslicer_config = end", "orcaslicer.gcode": "; EXECUTABLE_BLOCK_END",
		"bambu.gcode": "; EXECUTABLE_BLOCK_END", "cura.gcode": ";SETTING_3 ", "creality4.gcode": ";End of Gcode",
		"superslicer.gcode": "", "crealityprint.gcode": "", "curaengine.gcode": "", "simplify3d.gcode": ""} {
		data := all[name]
		if f, err := slicer.Read(bytes.NewReader(data)); err != nil || f.Incomplete {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if marks == "" {
			continue
		}
		read := 0
		for n := 0; n <= bytes.Index(data, []byte(marks)); n++ {
			f, err := slicer.Read(bytes.NewReader(data[:n]))
			if err != nil {
				continue
			}
			read++
			if !f.Incomplete && n > len(data)/4 { // the name of the program is in the header
				t.Fatalf("the first %d of %d bytes of %s count as complete", n, len(data), name)
			}
		}
		if read == 0 && name != "orcaslicer.gcode" { // its estimates are behind the mark
			t.Errorf("%s: no part was read", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		metrics.Read(allocated)
		before := allocated[0].Value.Uint64()
		file, err := slicer.Read(bytes.NewReader(data))
		metrics.Read(allocated)
		if n := allocated[0].Value.Uint64() - before; n > 64<<20 {
			t.Fatalf("%d bytes were allocated in all", n)
		}
		if err != nil {
			if _, ok := errors.AsType[*slicer.Error](err); !ok || len(err.Error()) > 1000 {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if len(file.Plates) == 0 || len(file.Name) > 255 {
			t.Fatalf("%+v", file)
		}
		for _, p := range file.Plates {
			for _, m := range p.Filaments {
				if !(m.Grams >= 0 && m.Grams <= 1e5) {
					t.Fatalf("%g grams", m.Grams)
				}
			}
		}
	})
}

// zipped returns a ZIP file with one entry.
func zipped(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
