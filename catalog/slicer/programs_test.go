package slicer_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spoolwright/catalog/slicer"
)

// cube is a cube with edges of 20 mm.
const cube = `solid cube
facet normal -1 0 0 outer loop vertex 0 0 0 vertex 0 0 20 vertex 0 20 20 endloop endfacet
facet normal -1 0 0 outer loop vertex 0 0 0 vertex 0 20 20 vertex 0 20 0 endloop endfacet
facet normal 1 0 0 outer loop vertex 20 0 0 vertex 20 20 0 vertex 20 20 20 endloop endfacet
facet normal 1 0 0 outer loop vertex 20 0 0 vertex 20 20 20 vertex 20 0 20 endloop endfacet
facet normal 0 -1 0 outer loop vertex 0 0 0 vertex 20 0 0 vertex 20 0 20 endloop endfacet
facet normal 0 -1 0 outer loop vertex 0 0 0 vertex 20 0 20 vertex 0 0 20 endloop endfacet
facet normal 0 1 0 outer loop vertex 0 20 0 vertex 0 20 20 vertex 20 20 20 endloop endfacet
facet normal 0 1 0 outer loop vertex 0 20 0 vertex 20 20 20 vertex 20 20 0 endloop endfacet
facet normal 0 0 -1 outer loop vertex 0 0 0 vertex 0 20 0 vertex 20 20 0 endloop endfacet
facet normal 0 0 -1 outer loop vertex 0 0 0 vertex 20 20 0 vertex 20 0 0 endloop endfacet
facet normal 0 0 1 outer loop vertex 0 0 20 vertex 20 0 20 vertex 20 20 20 endloop endfacet
facet normal 0 0 1 outer loop vertex 0 0 20 vertex 20 20 20 vertex 0 20 20 endloop endfacet
endsolid cube
`

// lines puts each part of the model on a line of its own.
var lines = strings.NewReplacer(" outer", "\nouter", " vertex", "\nvertex", " endloop", "\nendloop",
	" endfacet", "\nendfacet")

// slice runs a slicer, and returns what it printed and the file that it wrote.
func slice(t *testing.T, program string, args ...string) (printed, gcode string, f *slicer.File) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	folder := t.TempDir()
	model, out := filepath.Join(folder, "cube.stl"), filepath.Join(folder, "cube.gcode")
	if err := os.WriteFile(model, []byte(lines.Replace(cube)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, arg := range args {
		switch arg {
		case "MODEL":
			args[i] = model
		case "OUT":
			args[i] = out
		}
	}
	text, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%.2000s", program, err, text)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err = slicer.Read(file)
	if err != nil || len(f.Plates[0].Filaments) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), string(written), f
}

// said returns the number behind a text.
func said(t *testing.T, text, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", pattern)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPrusaSlicer(t *testing.T) {
	t.Parallel()
	_, gcode, f := slice(t, "prusa-slicer", "-g", "--filament-type", "PETG", "--filament-density", "1.27",
		"--filament-colour", "#FF0000", "--layer-height", "0.2", "-o", "OUT", "MODEL")
	p, m := f.Plates[0], f.Plates[0].Filaments[0]
	time := said(t, gcode, `estimated printing time \(normal mode\) = (\d+)m`)
	if grams := said(t, gcode, `filament used \[g\] = ([\d.]+)`); m.Grams != grams || p.Seconds/60 != int64(time) {
		t.Errorf("%g g and %d s, want %g g and %g minutes", m.Grams, p.Seconds, grams, time)
	}
	if m.Type != "PETG" || m.Color != "#FF0000" || f.LayerHeightMM != 0.2 || m.FromLength {
		t.Errorf("%+v", f)
	}
}

// TestCuraEngine needs the definitions of printers that are part of Cura.
func TestCuraEngine(t *testing.T) {
	t.Parallel()
	definitions := os.Getenv("CURA_DEFINITIONS")
	if definitions == "" {
		definitions = "/usr/share/cura/resources/definitions"
	}
	definition := filepath.Join(definitions, "fdmprinter.def.json")
	if _, err := os.Stat(definition); err != nil {
		t.Skipf("Cura's definitions are not installed: %v", err)
	}
	printed, _, f := slice(t, "CuraEngine", "slice", "-v", "-j", definition, "-o", "OUT", "-s", "layer_height=0.2",
		"-s", "material_diameter=1.75", "-s", "roofing_layer_count=0", "-l", "MODEL")
	p, m := f.Plates[0], f.Plates[0].Filaments[0]
	seconds, metres := said(t, printed, `;TIME:(\d+)`), said(t, printed, `;Filament used: ([\d.]+)m`)
	if math.Abs(float64(p.Seconds)-seconds) > 1 || math.Abs(m.Length/1000-metres) > 0.0001 {
		t.Errorf("%d s and %g mm, want %g s and %g m", p.Seconds, m.Length, seconds, metres)
	}
	volume := said(t, printed, `Filament \(mm\^3\): (\d+)`)
	if grams := m.GramsAt(1.24, 2.85); math.Abs(grams-volume*1.24/1000) > 0.01 && math.Abs(m.GramsAt(1.24, 1.75)-
		volume*1.24/1000) > 0.01 {
		t.Errorf("%g g, want %g mm3", grams, volume)
	}
}
