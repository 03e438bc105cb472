package catalog_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/catalog/slicer"
	"spoolwright/tests/testkit"
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

// slice runs a slicer on the cube, and returns what it printed and the file that it wrote. The arguments MODEL and OUT
// stand for the two files.
func slice(t *testing.T, program string, args ...string) (printed, gcode string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		testkit.Skip(t, program+" is not installed")
	}
	folder := t.TempDir()
	model, out := filepath.Join(folder, "cube.stl"), filepath.Join(folder, "cube.gcode")
	testkit.Check(t, os.WriteFile(model, []byte(lines.Replace(cube)), 0o600))
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
	written, err := os.ReadFile(out)
	testkit.Check(t, err)
	return string(text), string(written)
}

// said returns what is behind a text.
func said(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", pattern)
	}
	return m[1]
}

// saidNumber returns the number behind a text.
func saidNumber(t *testing.T, text, pattern string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(said(t, text, pattern), 64)
	testkit.Check(t, err)
	return n
}

// minutes rounds a time as the API does.
func minutes(d time.Duration) int64 { return int64(d.Round(time.Minute) / time.Minute) }

// TestPrusaSlicer imports what PrusaSlicer has made of a cube.
func TestPrusaSlicer(t *testing.T) {
	t.Parallel()
	_, gcode := slice(t, "prusa-slicer", "-g", "--filament-type", "PETG", "--filament-density", "1.27",
		"--filament-colour", "#FF0000", "--layer-height", "0.2", "-o", "OUT", "MODEL")
	c := newAPI(t).Operator(t)
	addFilament(t, c, j{"material_type": "PETG", "color": "Signal", "color_hex": "#ff0000"})
	written := said(t, gcode, `estimated printing time \(normal mode\) = ([\dhms ]+)`)
	took, err := time.ParseDuration(strings.ReplaceAll(written, " ", ""))
	testkit.Check(t, err)
	grams := saidNumber(t, gcode, `\n; filament used \[g\] = ([\d.]+)`)
	sent(c).Post(t, fromFile+"cube.gcode", gcode).Want(200).Shows(texts(j{"action": "created", "file_format": "gcode",
		"estimated_print_time_minutes": minutes(took), "materials.0.weight_grams": grams, "materials.0.match": "equal",
		"materials.0.color": "Signal", "materials.0.from_length": false, "layer_height_mm": 0.2}))
	c.Get(t, products+"?file_name=cube.gcode").Want(200).
		Shows(texts(j{"items.0.estimated_print_time_minutes": minutes(took)}))
}

// TestCuraEngine imports what CuraEngine has made of a cube. It needs the definitions of printers that are part of
// Cura, in the folder CURA_DEFINITIONS.
func TestCuraEngine(t *testing.T) {
	t.Parallel()
	definitions := os.Getenv("CURA_DEFINITIONS")
	if definitions == "" {
		definitions = "/usr/share/cura/resources/definitions"
	}
	definition := filepath.Join(definitions, "fdmprinter.def.json")
	if _, err := os.Stat(definition); err != nil {
		testkit.Skip(t, "Cura's definitions are not installed")
	}
	printed, gcode := slice(t, "CuraEngine", "slice", "-v", "-j", definition, "-o", "OUT", "-s", "layer_height=0.2",
		"-s", "roofing_layer_count=0", "-e0", "-s", "material_diameter=1.75", "-l", "MODEL")
	seconds, metres := saidNumber(t, printed, `;TIME:(\d+)`), saidNumber(t, printed, `;Filament used: ([\d.]+)m`)
	volume := saidNumber(t, printed, `Filament \(mm\^3\): (\d+)`) // a whole number, not rounded

	f, err := slicer.Read(bytes.NewReader([]byte(gcode)))
	testkit.Check(t, err)
	m := f.Plates[0].Filaments[0]
	if read := strconv.FormatFloat(m.Length/1000, 'g', 6, 64); f.Plates[0].Seconds != int64(seconds) ||
		read != strconv.FormatFloat(metres, 'g', 6, 64) || math.Floor(m.GramsAt(1000, 1.75)) != volume {
		t.Errorf("%d s, %s m, %g mm3, want %g s, %g m, %g mm3", f.Plates[0].Seconds, read, m.GramsAt(1000, 1.75), seconds,
			metres, volume)
	}

	c := newAPI(t).Operator(t)
	number := addFilament(t, c, j{"material_type": "PLA", "color": "Sand", "density_g_cm3": 1.3})
	grams := math.Round(metres*1000*math.Pi/4*1.75*1.75*1.3/1000*100) / 100
	sent(c).Post(t, fmt.Sprintf("%scube.gcode&filaments=%d", fromFile, number), gcode).Want(200).Shows(texts(j{
		"estimated_print_time_minutes": minutes(time.Duration(seconds) * time.Second), "materials.0.weight_grams": grams,
		"materials.0.match": "chosen", "materials.0.color": "Sand", "materials.0.from_length": true,
		"layer_height_mm": 0.2}))
}
