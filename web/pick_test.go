package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A color is picked without a code, also without JavaScript. What was typed wins over what was picked.
func TestColorPicker(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.Post(t, "/api/v1/vendors", j{"name": "Polymaker"}).Want(201)
	page := b.get(t, "/filaments/new").want(t, 200)
	if got := page.form(t, "/filaments/new"); got.Get("color_hex.pick") != "#808080" ||
		!strings.Contains(page.text, `<option value="Polymaker">`) {
		t.Errorf("the form has %v", got)
	}
	for _, test := range []struct{ code, pick, want string }{
		{"", "#808080", "null"}, {"", "#ff8800", "#FF8800"}, {"#112233", "#808080", "#112233"},
		{"#112233", "#ff8800", "#112233"}, {"", "nonsense", "null"},
	} {
		at := page.submit(t, "/filaments/new", "once", "", "color", "Sea", "color_hex", test.code,
			"color_hex.pick", test.pick).want(t, 303).header.Get("Location")
		c.Get(t, "/api/v1"+at).Shows(map[string]string{"color_hex": test.want})
	}

	// A refused form shows what was picked, so that it counts once.
	refused := page.submit(t, "/filaments/new", "color", "", "color_hex", "", "color_hex.pick", "#ff8800").want(t, 422)
	if got := refused.form(t, "/filaments/new"); got.Get("color_hex") != "#FF8800" ||
		got.Get("color_hex.pick") != "#ff8800" {
		t.Errorf("what was picked is lost: %v", got)
	}
	at := refused.submit(t, "/filaments/new", "color", "Sea", "color_hex.pick", "#00ff00").want(t, 303).
		header.Get("Location")
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"color_hex": "#00FF00"})

	// An edit changes, clears and leaves the color.
	edit := func(want string, inputs ...string) {
		t.Helper()
		b.get(t, at+"/edit").submit(t, at+"/edit", inputs...).to(t, at)
		c.Get(t, "/api/v1"+at).Shows(map[string]string{"color_hex": want})
	}
	edit("#00FF00", "notes", "x")
	edit("#123456", "color_hex.pick", "#123456")
	edit("#AABBCC", "color_hex", "#AABBCC")
	edit("null", "color_hex", "")
	edit("#654321", "color_hex.pick", "#654321")

	own := b.get(t, "/spools/new?own=1").submit(t, "/spools/new?own=1", "color", "Red", "net_weight_grams", "1000",
		"color_hex.pick", "#aa0000").want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+own).Shows(map[string]string{"color_hex": "#AA0000"})
	testkit.Contains(t, b.get(t, "/spools/new?own=1").text, `<option value="Polymaker">`,
		"the brand has no suggestions")
}

// A color without a code is shown as its name says, and only shown.
func TestGuessedSwatch(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Schwarz", "diameter_mm": 1.75}).
		Want(201).ID()
	spool := c.NewSpool(t, 500, j{"color": "Galaxy Black"})
	const guessed, set = `fill="#1B1B1B"`, `fill="#00FF00"`
	for _, path := range []string{"/filaments", "/filaments/" + filament, "/spools", "/spools/" + spool} {
		testkit.Contains(t, b.get(t, path).want(t, 200).text, guessed, "%s has no black", path)
	}
	for _, path := range []string{"/filaments/" + filament, "/spools/" + spool} {
		c.Get(t, "/api/v1"+path).Shows(map[string]string{"color_hex": "null"})
		b.get(t, path+"/edit").submit(t, path+"/edit", "notes", "x").to(t, path)
		c.Get(t, "/api/v1"+path).Shows(map[string]string{"color_hex": "null"})
		c.Patch(t, "/api/v1"+path, j{"color_hex": "#00FF00"}).Want(200)
		if p := b.get(t, path); strings.Contains(p.text, guessed) || !strings.Contains(p.text, set) {
			t.Errorf("%s has another color than the one that is set: %s", path, p.text)
		}
	}
	odd := c.NewSpool(t, 500, j{"color": "Regenbogen"})
	testkit.Contains(t, b.get(t, "/spools/"+odd).text, `class="unknown"`, "a color without a meaning is shown")
}
