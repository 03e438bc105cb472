package catalog_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

const fromFile = products + "/from-file?filename="

// sent returns the client with the media type of files.
func sent(c *testkit.Client) *testkit.Client {
	return c.With("Content-Type", "application/octet-stream")
}

// sample returns a file of the tests of the slicers.
func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("slicer/testdata/" + name)
	testkit.Check(t, err)
	return string(data)
}

// pngFile returns a picture of one color.
func pngFile(t *testing.T, width, height int, c color.NRGBA) string {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		img.SetNRGBA(i%width, i/width, c)
	}
	var b bytes.Buffer
	testkit.Check(t, png.Encode(&b, img))
	return b.String()
}

// texts returns the values in the form of Response.Text.
func texts(values j) map[string]string {
	all := map[string]string{}
	for name, v := range values {
		if all[name] = fmt.Sprint(v); v == nil {
			all[name] = "null"
		}
	}
	return all
}

func addFilament(t *testing.T, c *testkit.Client, fields j) int {
	t.Helper()
	all := j{"diameter_mm": 1.75}
	for name, v := range fields {
		all[name] = v
	}
	n, err := strconv.Atoi(c.Post(t, "/api/v1/filaments", all).Want(201).Text("number"))
	testkit.Check(t, err)
	return n
}

func TestProductFromFile(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	addFilament(t, c, j{"material_type": "PLA", "color": "Fire", "color_hex": "#ff8000"})
	addFilament(t, c, j{"material_type": "PLA", "color": "Sky", "color_hex": "#0080ff"})

	// A dry run says what would be done, and shows the picture.
	path := fromFile + "folder%2Fcoat+hook.gcode"
	dry := sent(c).Post(t, path+"&dry_run=true", sample(t, "prusaslicer.gcode")).Want(200)
	dry.Shows(texts(j{"action": "created", "dry_run": true, "product_id": nil, "name": "coat hook",
		"estimated_print_time_minutes": 21, "pieces_per_plate": 3, "file_name": "coat hook.gcode",
		"sliced_by": "PrusaSlicer 2.7.4+win64", "printer_model": "MK4", "nozzle_mm": 0.4, "layer_height_mm": 0.2,
		"plates.0.minutes": 62, "plates.0.weight_grams": 11.97, "materials.0.match": "equal",
		"materials.0.material_type": "PLA", "materials.0.color": "Fire", "materials.0.weight_grams": 3.99,
		"materials.0.file_color": "#FF8000", "materials.0.from_length": false, "materials.0.candidates.1.color": "Sky"}))
	data, err := base64.StdEncoding.DecodeString(dry.Text("picture"))
	testkit.Check(t, err)
	if _, _, err := image.Decode(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	c.Get(t, products).Want(200).WantLen(t, "items", 0)

	made := sent(c).Post(t, path, sample(t, "prusaslicer.gcode")).Want(200)
	made.Shows(texts(j{"action": "created", "dry_run": false, "picture": nil}))
	product := products + "/" + made.Text("product_id")
	got := c.Get(t, product).Want(200)
	got.Shows(texts(j{"name": "coat hook", "estimated_print_time_minutes": 21, "pieces_per_plate": 3,
		"file_name": "coat hook.gcode", "file_sha256": made.Text("file_sha256"), "printer_model": "MK4",
		"nozzle_mm": 0.4, "layer_height_mm": 0.2, "materials.0.color": "Fire", "materials.0.weight_grams": 3.99,
		"materials.0.notes": "Prusament PLA @MK4"}))
	c.Get(t, product+"/picture?version="+got.Text("picture_version")).Want(200)

	// The file finds its product.
	for _, filter := range []string{"file_sha256=" + made.Text("file_sha256"), "file_name=coat+hook.gcode"} {
		c.Get(t, products+"?"+filter).Want(200).WantLen(t, "items", 1)
		api.Operator(t).Get(t, products+"?"+filter).Want(200).WantLen(t, "items", 0)
	}
	c.Get(t, products+"?file_name=hook.gcode").Want(200).WantLen(t, "items", 0)

	// The same file again changes nothing, and another one updates the product.
	update := "&product_id=" + made.Text("product_id")
	sent(c).Post(t, path+update, sample(t, "prusaslicer.gcode")).Want(200).
		Shows(texts(j{"action": "unchanged"}))
	c.Patch(t, product, j{"name": "Hook", "sku": "H-1"}).Want(200)
	other := strings.NewReplacer("1h 2m 5s", "1h 30m", "[g] = 11.97", "[g] = 15.00").
		Replace(sample(t, "prusaslicer.gcode"))
	for _, query := range []string{"&dry_run=true", ""} {
		sent(c).Post(t, path+update+query, other).Want(200).Shows(texts(j{"action": "updated", "name": "Hook",
			"changes.0.field": "estimated_print_time_minutes", "changes.0.old": "21", "changes.0.new": "30",
			"changes.1.field": "file_sha256", "changes.2.field": "materials.PLA Fire", "changes.2.old": "3.99",
			"changes.2.new": "5"}))
	}
	c.Get(t, product).Want(200).Shows(texts(j{"name": "Hook", "sku": "H-1", "estimated_print_time_minutes": 30,
		"materials.0.weight_grams": 5}))

	// Another material replaces the first one, and an optional one stays.
	c.Post(t, product+"/materials", j{"material_type": "PVA", "color": "Natural", "weight_grams": 1,
		"is_required": false}).
		Want(201)
	sent(c).Post(t, path+update, strings.ReplaceAll(other, "filament_type = PLA", "filament_type = PETG")).Want(200)
	bill := c.Get(t, product).Want(200)
	bill.WantLen(t, "materials", 2)
	bill.Shows(texts(j{"materials.0.material_type": "PVA", "materials.1.material_type": "PETG",
		"materials.1.color": "Orange"}))
}

// A filament matches by its code, by the name of its color in any language, and also if the name of its material only
// says more.
func TestFileMatchesNames(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	for name, test := range map[string]struct {
		filament j
		match    string
	}{
		"says more":          {j{"material_name": "PLA Basic", "color": "Weiß", "color_hex": "#FFFFFF"}, "near"},
		"words alone":        {j{"material_name": "Basic", "color": "Snow", "color_hex": "#FEFEFE"}, "near"},
		"other material":     {j{"material_name": "PLA-CF", "color": "White", "color_hex": "#FFFFFF"}, "none"},
		"other and more":     {j{"material_name": "PLA-CF Basic", "color": "White", "color_hex": "#FFFFFF"}, "none"},
		"German":             {j{"color": "Weiß"}, "near"},
		"Spanish":            {j{"color": "Blanco brillante"}, "near"},
		"other color":        {j{"color": "Schwarz"}, "material"},
		"code over the name": {j{"color": "Weiß", "color_hex": "#000000"}, "material"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			test.filament["material_type"] = "PLA"
			addFilament(t, c, test.filament)
			sent(c).Post(t, fromFile+"prusaslicer-mmu.gcode&dry_run=true", sample(t, "prusaslicer-mmu.gcode")).Want(200).
				Shows(texts(j{"materials.0.file_color": "#FFFFFF", "materials.0.match": test.match}))
		})
	}
	// The farm's own name for a code counts, on another material, too.
	c := api.Operator(t)
	addFilament(t, c, j{"material_type": "PLA", "material_name": "PLA-CF", "color": "Polar", "color_hex": "#FFFFFF"})
	sent(c).Post(t, fromFile+"prusaslicer-mmu.gcode&dry_run=true", sample(t, "prusaslicer-mmu.gcode")).Want(200).
		Shows(texts(j{"materials.0.match": "none", "materials.0.color": "Polar", "materials.0.material_name": nil}))
	// The plain name comes before one that says more, and a near color before another one of the plain name.
	c = api.Operator(t)
	addFilament(t, c, j{"material_type": "PLA", "material_name": "PLA Basic", "color": "A", "color_hex": "#FFFFFF"})
	addFilament(t, c, j{"material_type": "PLA", "color": "B", "color_hex": "#FAFAFA"})
	addFilament(t, c, j{"material_type": "PLA", "color": "C", "color_hex": "#FF0000"})
	sent(c).Post(t, fromFile+"prusaslicer-mmu.gcode&dry_run=true", sample(t, "prusaslicer-mmu.gcode")).Want(200).
		Shows(texts(j{"materials.0.candidates.0.color": "A", "materials.0.candidates.1.color": "B",
			"materials.0.candidates.2.color": "C"}))
}

func TestFileMatches(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	plain := addFilament(t, c, j{"material_type": "PLA", "color": "Snow", "color_hex": "#fefefe"})
	addFilament(t, c, j{"material_type": "PLA", "material_name": "PLA-CF", "color": "White", "color_hex": "#ffffff"})
	addFilament(t, c, j{"material_type": "PLA", "color": "White", "color_hex": "#ffffff", "diameter_mm": 2.85})
	petg := addFilament(t, c, j{"material_type": "PETG", "color": "Coal", "color_hex": "#111111", "density_g_cm3": 2})
	c.Post(t, spools, j{"material_type": "ASA", "color": "lime", "color_hex": "#00FF00", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	// What is removed or archived is no match, although it would be the nearest.
	white := j{"material_type": "PLA", "color": "Ghost", "color_hex": "#ffffff", "diameter_mm": 1.75}
	ghost := c.Post(t, "/api/v1/filaments", white).Want(201)
	c.Post(t, spools, j{"filament_id": ghost.ID(), "net_weight_grams": 1000}).Want(201) // otherwise it is deleted
	c.Delete(t, ghost.Header.Get("Location")).Want(204)
	white["net_weight_grams"] = 1000
	c.Delete(t, c.Post(t, spools, white).Want(201).Header.Get("Location")).Want(204)
	white["archived"] = true
	c.Post(t, spools, white).Want(201)
	dry := func(name, query string) *testkit.Response {
		return sent(c).Post(t, fromFile+name+"&dry_run=true"+query, sample(t, name)).Want(200)
	}

	// The nearest color of the equal material, which is neither PLA-CF nor 2.85 mm wide; PETG only in another color.
	dry("prusaslicer-mmu.gcode", "").Shows(texts(j{"materials.0.match": "near", "materials.0.color": "Snow",
		"materials.1.match": "material", "materials.1.material_type": "PETG", "materials.1.color": "Green",
		"materials.1.candidates.0.filament_number": petg}))
	// A spool without a filament counts too.
	dry("superslicer.gcode", "").Shows(texts(j{"materials.0.match": "equal", "materials.0.color": "lime",
		"pieces_per_plate": 2, "materials.0.weight_grams": 3.4}))
	// Cura's G-code names no material, and has lengths.
	dry("cura.gcode", "").Shows(texts(j{"materials.0.match": "none", "materials.0.from_length": true,
		"materials.0.weight_grams": 1.84, "pieces_per_plate": 2}))
	sent(c).Post(t, fromFile+"cura.gcode", sample(t, "cura.gcode")).Fields("filaments")
	dry("cura.gcode", "&filaments=,2&pieces=1").Shows(texts(j{"materials.1.match": "chosen"}))
	chosen := sent(c).Post(t, fromFile+"gear.gcode&pieces=1&filaments="+fmt.Sprintf("%d,%d", plain, petg),
		sample(t, "cura.gcode")).Want(200)
	chosen.Shows(texts(j{"materials.0.color": "Snow", "materials.0.weight_grams": 3.68, "materials.1.color": "Coal",
		"materials.1.weight_grams": 2.41}))

	// Several plates are one product, unless the request names one.
	dry("bambu.gcode.3mf", "").Shows(texts(j{"name": "Cable clip & base", "estimated_print_time_minutes": 50,
		"pieces_per_plate": 1, "materials.1.weight_grams": 4.3, "plates.0.name": "Clips", "plates.1.weight_grams": 3.05}))
	dry("bambu.gcode.3mf", "&plate=1").Shows(texts(j{"name": "Clips", "estimated_print_time_minutes": 20,
		"pieces_per_plate": 2, "materials.0.weight_grams": 5.02}))
	unsliced := dry("unsliced.3mf", "")
	unsliced.WantLen(t, "materials", 0)
	unsliced.Shows(texts(j{"name": "Vase", "estimated_print_time_minutes": nil,
		"warnings.0.text": "The file is not sliced: it has no print time and no filament."}))

	for _, bad := range []struct{ query, fields string }{
		{"&plate=3", "plate"}, {"&plate=0", "plate"}, {"&filaments=99", "filaments"}, {"&filaments=x", "filaments"},
		{"&filaments=1,1,1,1", "filaments"}, {"&pieces=0", "pieces"}, {"&product_id=x", "product_id"},
		{"&product_id=0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b01", "product_id"}, {"&plates=1", "plates"},
	} {
		r := sent(c).Post(t, fromFile+"x"+bad.query, sample(t, "bambu.gcode.3mf"))
		if r.Status != 400 && r.Status != 422 || r.Text("errors.0.field") != bad.fields {
			t.Errorf("%s: %d %s", bad.query, r.Status, r.Body)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	for _, body := range map[string]string{"a letter": "Dear Sir,", "half": sample(t, "prusaslicer.bgcode")[:400],
		"nothing": ""} {
		sent(c).Post(t, fromFile+"x.gcode", body).WantError(400, "UNREADABLE_FILE")
	}
	c.Post(t, fromFile+"x.gcode", j{}).WantError(415, "UNSUPPORTED_MEDIA_TYPE")
	sent(api.Tenant(t).User(t, "viewer")).Post(t, fromFile+"x.gcode", sample(t, "bambu.gcode")).
		WantError(403, "FORBIDDEN")
	other := api.Operator(t)
	id := other.Post(t, products, j{"name": "Somebody else's"}).Want(201).ID()
	sent(c).Post(t, fromFile+"x.gcode&product_id="+id, sample(t, "bambu.gcode")).WantError(400, "UNKNOWN_REFERENCE")

	// A repeated request with the same key makes one product, and another file with the key is refused.
	keyed := sent(c).With("Idempotency-Key", "once")
	first := keyed.Post(t, fromFile+"x.gcode", sample(t, "bambu.gcode")).Want(200)
	if again := keyed.Post(t, fromFile+"x.gcode", sample(t, "bambu.gcode")).Want(200); again.Text("product_id") !=
		first.Text("product_id") {
		t.Error("two products")
	}
	keyed.Post(t, fromFile+"x.gcode", sample(t, "orcaslicer.gcode")).WantError(409, "IDEMPOTENCY_CONFLICT")
	c.Get(t, products).Want(200).WantLen(t, "items", 1)

	// A refused file does not use up the key.
	keyed = sent(c).With("Idempotency-Key", "again")
	keyed.Post(t, fromFile+"x.gcode", "Dear Sir,").WantError(400, "UNREADABLE_FILE")
	keyed.Post(t, fromFile+"x.gcode&plate=7", sample(t, "bambu.gcode")).WantError(400, "UNKNOWN_REFERENCE")
	keyed.Post(t, fromFile+"x.gcode", sample(t, "bambu.gcode")).Want(200)

	// A body of more than 1 MiB is read.
	large := sample(t, "bambu.gcode") + strings.Repeat("G1 X10 Y20 E0.5\n", 200_000)
	sent(c).Post(t, fromFile+"large.gcode", large).Want(200)
}

func TestPictures(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	product := createProduct(t, c, "Hook")
	path := product + "/picture"
	c.Get(t, path).WantError(404, "NOT_FOUND")
	c.Delete(t, path).WantError(404, "NOT_FOUND")

	sent(c).Do(t, "PUT", path, pngFile(t, 1024, 256, color.NRGBA{255, 0, 0, 255})).Want(204)
	version := c.Get(t, product).Want(200).Text("picture_version")
	got := c.Get(t, path+"?version="+version).Want(200)
	img, format, err := image.Decode(bytes.NewReader(got.Body))
	if err != nil || format != "jpeg" || img.Bounds().Dx() != 512 || img.Bounds().Dy() != 128 {
		t.Errorf("%s %v", format, err)
	}
	for name, want := range map[string]string{"Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff",
		"ETag": `"` + version + `"`, "Cache-Control": "private, max-age=31536000, immutable"} {
		testkit.Equal(t, got.Header.Get(name), want, "%s", name)
	}
	again := c.Get(t, path).Want(200)
	testkit.Equal(t, again.Header.Get("Cache-Control"), "private, no-cache", "without the version")
	c.With("If-None-Match", `"`+version+`"`).Get(t, path).Want(304)
	small := c.Get(t, path+"?size=small").Want(200)
	if img, _, err := image.Decode(bytes.NewReader(small.Body)); err != nil || img.Bounds().Dx() != 96 {
		t.Error(err)
	}

	// Another picture has another version.
	sent(c).Do(t, "PUT", path, pngFile(t, 10, 10, color.NRGBA{0, 0, 255, 90})).Want(204)
	if c.Get(t, product).Want(200).Text("picture_version") == version {
		t.Error("the same version")
	}
	testkit.Equal(t, c.Get(t, path).Want(200).Header.Get("Content-Type"), "image/png", "type")

	for _, body := range []string{"", "<svg/>", "GIF89a", pngFile(t, 10, 10, color.NRGBA{})[:40]} {
		sent(c).Do(t, "PUT", path, body).Fields("body")
	}
	sent(c).Do(t, "PUT", path, strings.Repeat("x", 6<<20)).WantError(413, "PAYLOAD_TOO_LARGE")
	c.Get(t, path+"?size=huge").Fields("size")
	for _, stranger := range []*testkit.Client{other, sent(other)} {
		stranger.Get(t, path).WantError(404, "NOT_FOUND")
		stranger.Delete(t, path).WantError(404, "NOT_FOUND")
	}
	sent(other).Do(t, "PUT", path, pngFile(t, 10, 10, color.NRGBA{})).WantError(404, "NOT_FOUND")

	c.Delete(t, path).Want(204)
	c.Get(t, path).WantError(404, "NOT_FOUND")
	c.Get(t, product).Want(200).Shows(texts(j{"picture_version": nil}))

	sent(c).Do(t, "PUT", path, pngFile(t, 10, 10, color.NRGBA{})).Want(204)
	c.Delete(t, product).Want(204)
	c.Get(t, path).WantError(404, "NOT_FOUND")
	sent(c).Do(t, "PUT", path, pngFile(t, 10, 10, color.NRGBA{})).WantError(404, "NOT_FOUND")
}

// The profile explains a type that only the slicer knows.
func TestProductFromFileOfOwnType(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	addFilament(t, c, j{"material_type": "PLA", "material_name": "Silk", "color": "Fire", "color_hex": "#ff8000"})
	file := "; generated by OrcaSlicer 2.3.1\n; filament used [g] = 9.23\n; filament_type = SILK\n" +
		"; filament_settings_id = Flashforge PLA Silk @FF AD5X\n; filament_colour = #FF8000\n" +
		"; estimated printing time (normal mode) = 1h 2m 5s\n"
	sent(c).Post(t, fromFile+"ring.gcode", file).Want(200).Shows(texts(j{"materials.0.match": "equal",
		"materials.0.material_type": "PLA", "materials.0.material_name": "Silk", "materials.0.file_material": "SILK"}))
}

// The grams of all filaments count if a file has no others and one filament. With others, they count for nothing.
func TestProductFromFileWithTotalGrams(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const rest = "; total filament used [g] = 21.5\n; estimated printing time (normal mode) = 2h 30m 0s\n"
	for _, test := range []struct{ lines, grams string }{
		{"; filament_type = PLA\n", "21.5"},
		{"; filament used [g] = 20.25, 1.25\n; filament_type = PLA;PETG\n", "20.25"},
		{"; filament_type = PLA;PETG\n", ""},
	} {
		got := sent(c).Post(t, fromFile+"total.gcode&dry_run=true", "G28\nG1 X0\n"+rest+test.lines).Want(200)
		if test.grams == "" {
			testkit.Equal(t, len(got.List("materials")), 0, "the filaments of %q", test.lines)
		} else {
			testkit.Equal(t, got.Text("materials.0.weight_grams"), test.grams, "the grams of %q", test.lines)
		}
	}
}

// A dry run of a file that does not name a material says that it cannot be saved so.
func TestDryRunWithoutMaterial(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	number := addFilament(t, c, j{"material_type": "PLA", "color": "Black"})
	for _, name := range []string{"simplify3d.gcode", "curaengine.gcode"} {
		dry := sent(c).Post(t, fromFile+name+"&dry_run=true", sample(t, name)).Want(200)
		testkit.Contains(t, string(dry.Body), `"code":"MATERIAL_UNKNOWN"`, "%s", name)
		sent(c).Post(t, fromFile+name, sample(t, name)).WantError(422, "VALIDATION_ERROR")
		chosen := fmt.Sprint("&filaments=", number)
		dry = sent(c).Post(t, fromFile+name+"&dry_run=true"+chosen, sample(t, name)).Want(200)
		testkit.Lacks(t, string(dry.Body), "MATERIAL_UNKNOWN", "%s with a choice", name)
		sent(c).Post(t, fromFile+name+chosen, sample(t, name)).Want(200)
	}
}

// The error of an unknown filament names its number.
func TestUnknownFilamentOfFile(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	sent(c).Post(t, fromFile+"a.gcode&filaments=99999", sample(t, "prusaslicer.gcode")).
		WantError(400, "UNKNOWN_REFERENCE").Shows(map[string]string{"errors.0.field": "filaments",
		"errors.0.message": "Not a filament: number 99999 in filaments"})
}

// G-code without its end is taken with a warning.
func TestIncompleteFile(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for _, name := range []string{"bambu.gcode", "cura.gcode"} {
		all := sample(t, name)
		for text, want := range map[string]bool{all: false, all[:len(all)*3/4]: true} {
			got := sent(c).Post(t, fromFile+name+"&dry_run=true", text).Want(200).Body
			if strings.Contains(string(got), "The file may not be complete: its end is missing.") != want {
				t.Errorf("%d of %d bytes of %s: %s", len(text), len(all), name, got)
			}
		}
	}
}
