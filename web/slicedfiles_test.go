package web_test

import (
	"bytes"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// upload sends a form with files, each a name and a content.
func (b *browser) upload(t *testing.T, path string, fields url.Values, files ...string) *page {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name := range fields {
		testkit.Check(t, w.WriteField(name, fields.Get(name)))
	}
	for i := 0; i < len(files); i += 2 {
		part, err := w.CreateFormFile("file", files[i])
		testkit.Check(t, err)
		_, err = part.Write([]byte(files[i+1]))
		testkit.Check(t, err)
	}
	testkit.Check(t, w.Close())
	r, err := http.NewRequest("POST", b.url(t, path).String(), &body)
	testkit.Check(t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return b.send(t, r)
}

func sliced(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../catalog/slicer/testdata/" + name)
	testkit.Check(t, err)
	return string(data)
}

func TestSlicedFiles(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Fire", "color_hex": "#FF8000", "diameter_mm": 1.75,
		"vendor": "Acme"}).Want(201)
	c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": hostile, "color_hex": "#00FF80",
		"diameter_mm": 1.75}).Want(201)
	const at, save = "/products/files", "/products/files/save"
	b.get(t, "/products").want(t, 200).shows(t, "From sliced files")
	b.get(t, at).want(t, 200)
	b.upload(t, at, nil).want(t, 422).shows(t, "Choose a file.")
	b.upload(t, at, nil, "x.gcode", "Dear Sir").want(t, 422).shows(t, "x.gcode", "This is not a sliced file").
		hides(t, "Save this product")

	// Several files are read, and shown before they are saved.
	p := b.upload(t, at, url.Values{"pieces": {""}}, `C:\files\hook.gcode`, sliced(t, "prusaslicer.gcode"),
		"clips.gcode.3mf", sliced(t, "bambu.gcode.3mf"), "broken.bgcode", "GCDE").want(t, 422)
	p.shows(t, "hook.gcode", "PLA #FF8000", "The farm has it.", "The file ends too early")
	c.Get(t, "/api/v1/products").Want(200).WantLen(t, "items", 0)
	form := p.form(t, save)
	testkit.Equal(t, form.Get("0.name"), "hook", "name")
	testkit.Equal(t, form.Get("0.filament.0"), "PLA\t\tFire\t", "filament")
	form.Set("0.name", "Coat hook")
	form.Set("0.filament.0", "PLA\t\t"+hostile+"\t")
	form.Del("1.save")
	saved := b.do(t, "POST", save, form).want(t, 303)
	b.get(t, saved.header.Get("Location")).want(t, 200).
		shows(t, "The product is saved.", "Coat hook", "hook.gcode", "MK4")
	id := strings.TrimPrefix(saved.header.Get("Location"), "/products/")
	c.Get(t, "/api/v1/products/"+id).Want(200).Shows(map[string]string{"name": "Coat hook", "pieces_per_plate": "3",
		"estimated_print_time_minutes": "21", "materials.0.color": hostile, "materials.0.weight_grams": "3.99",
		"nozzle_mm": "0.4", "file_name": "hook.gcode"})
	c.Get(t, "/api/v1/products").Want(200).WantLen(t, "items", 1)
	// The form has one effect.
	b.do(t, "POST", save, form).want(t, 303)
	c.Get(t, "/api/v1/products").Want(200).WantLen(t, "items", 1)
	form.Set("0.name", " ")
	form.Set("once", "other")
	b.do(t, "POST", save, form).want(t, 422)
	b.do(t, "POST", save, url.Values{"0.read": {"{"}, "0.save": {"1"}}).want(t, 400)
	b.do(t, "POST", save, url.Values{}).want(t, 422).shows(t, "Nothing was chosen")

	// The visitor chooses what the file does not say.
	cura := b.upload(t, at, nil, "gear.gcode", sliced(t, "cura.gcode")).want(t, 200).shows(t, "Choose a filament").
		form(t, save)
	b.do(t, "POST", save, cura).want(t, 422).shows(t, "Choose the filaments")
	c.Get(t, "/api/v1/products").Want(200).WantLen(t, "items", 1)

	// A file is compared with a product, and updates it.
	other := strings.ReplaceAll(sliced(t, "prusaslicer.gcode"), "1h 2m 5s", "3h 0m 0s")
	b.upload(t, at+"?product="+id, nil, "hook.gcode", other).want(t, 200).shows(t, "21", "60")
	c.Get(t, "/api/v1/products/"+id).Want(200).Shows(map[string]string{"estimated_print_time_minutes": "21"})
	b.upload(t, at+"?product="+id+"&update=1", nil, "hook.gcode", other).to(t, "/products/"+id).
		shows(t, "The product now matches the file.")
	c.Get(t, "/api/v1/products/"+id).Want(200).Shows(map[string]string{"estimated_print_time_minutes": "60"})
	b.get(t, at+"?product=0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b01").want(t, 404)
	b.get(t, at+"?product=x").want(t, 422)
}

func TestPictureOfProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b := signIn(t, c)
	at := "/products/" + c.Post(t, "/api/v1/products", j{"name": "Hook"}).Want(201).ID()
	var file bytes.Buffer
	testkit.Check(t, png.Encode(&file, image.NewNRGBA(image.Rect(0, 0, 200, 100))))
	b.get(t, at+"/picture").want(t, 404)
	b.upload(t, at+"/picture", nil).want(t, 422).shows(t, "Choose a file.")
	b.upload(t, at+"/picture", nil, "x.svg", "<svg/>").want(t, 422).shows(t, "PNG or JPEG")
	b.upload(t, at+"/picture", nil, "x.png", file.String()).to(t, at).
		shows(t, "The picture is saved.", "Remove the picture")
	version := c.Get(t, "/api/v1"+at).Want(200).Text("picture_version")
	for _, path := range []string{at, "/products"} {
		if p := b.get(t, path); !strings.Contains(p.text, "picture?") || !strings.Contains(p.text, version) {
			t.Errorf("%s shows no picture", path)
		}
	}
	// Lists of orders, runs, the queue and plans show the picture of the product, and that of no other farm's.
	id := strings.TrimPrefix(at, "/products/")
	order := c.Post(t, "/api/v1/orders", j{"reference": "A", "items": []j{{"product_id": id, "quantity": 2}}}).
		Want(201).ID()
	c.Post(t, "/api/v1/printers", j{"name": "First"}).Want(201)
	c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": id}}, "printer_name": "First"}).Want(201)
	thumb := `src="` + at + "/picture?size=small&amp;version=" + version + `" alt=""`
	for _, path := range []string{"/orders", "/runs", "/runs/all", "/queue", "/", "/orders/" + order + "/plan",
		"/orders/" + order, "/packing?id=" + order} {
		testkit.Contains(t, b.get(t, path).want(t, 200).text, thumb, "%s shows no picture", path)
	}
	shown := b.get(t, at+"/picture?size=small&version="+version).want(t, 200)
	testkit.Equal(t, shown.header.Get("Content-Type"), "image/png", "type")
	testkit.Equal(t, shown.header.Get("Cache-Control"), "private, max-age=31536000, immutable", "cache")
	signIn(t, api.Operator(t)).get(t, at+"/picture").want(t, 404)
	newBrowser(t, api.URL).get(t, at+"/picture").want(t, 303)
	b.get(t, at).submit(t, at+"/picture/remove").to(t, at).shows(t, "The picture is removed.")

	viewer := signIn(t, api.Tenant(t).User(t, "viewer"))
	viewer.get(t, "/products").want(t, 200).hides(t, "From sliced files")
	viewer.upload(t, at+"/picture", nil, "x.png", file.String()).want(t, 403)
	viewer.upload(t, "/products/files", nil, "x.png", file.String()).want(t, 403)
}

func TestRunOfSlicedFile(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b := signIn(t, c)
	c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Fire", "color_hex": "#FF8000", "brand": "Acme",
		"diameter_mm": 1.75, "net_weight_grams": 1000, "purchase_price": 20}).Want(201)
	product := c.With("Content-Type", "application/octet-stream").Post(t,
		"/api/v1/products/from-file?filename=hook.gcode", sliced(t, "prusaslicer.gcode")).Want(200).Text("product_id")
	const at = "/runs/file"
	b.get(t, "/runs/new").want(t, 200).shows(t, "Fill in from a file of a slicer")
	b.upload(t, at, nil).want(t, 422).shows(t, "Choose a file.")
	b.upload(t, at, nil, "x.gcode", "Dear Sir").want(t, 422).shows(t, "This is not a sliced file")
	b.upload(t, at+"?product=x", nil, "hook.gcode", sliced(t, "prusaslicer.gcode")).want(t, 422)

	// The form is filled in, and nothing is saved before it is sent.
	p := b.upload(t, at, nil, `C:\files\hook.gcode`, sliced(t, "prusaslicer.gcode")).want(t, 200)
	c.Get(t, "/api/v1/production-runs").Want(200).WantLen(t, "items", 0)
	form := p.form(t, "/runs/new")
	testkit.Equal(t, form.Get("items[0].product_id"), product, "product")
	testkit.Equal(t, form.Get("items[0].quantity"), "3", "pieces")
	testkit.Equal(t, form.Get("materials[0].spool_number"), "1", "spool")
	testkit.Equal(t, form.Get("materials[0].estimated_weight_grams"), "11.97", "weight")
	testkit.Equal(t, form.Get("notes"), "hook.gcode", "notes")
	saved := b.do(t, "POST", "/runs/new", form).want(t, 303)
	c.Get(t, "/api/v1/production-runs/"+strings.TrimPrefix(saved.header.Get("Location"), "/runs/")).Want(200).
		Shows(map[string]string{"items.0.product_id": product, "materials.0.estimated_weight_grams": "11.97",
			"estimated_print_time_hours": form.Get("estimated_print_time_hours")})

	// What is missing is said, and the product of the address stays.
	other := c.Post(t, "/api/v1/products", j{"name": "Other"}).Want(201).ID()
	p = b.upload(t, at+"?product="+other, nil, "clips.gcode.3mf", sliced(t, "bambu.gcode.3mf")).want(t, 200).
		shows(t, "No spool in stock matches filament 1 of the file.")
	testkit.Equal(t, p.form(t, "/runs/new").Get("items[0].product_id"), other, "product")
	signIn(t, api.Tenant(t).User(t, "viewer")).upload(t, at, nil, "x.gcode", "x").want(t, 403)
}
