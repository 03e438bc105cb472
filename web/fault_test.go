package web_test

import (
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// faulty ends the test unless the page is that of a refused form: "Error" begins the title, one summary has the focus,
// and each of its links leads to an input that is invalid and described by its problem. It returns the summary.
func (p *page) faulty(t *testing.T, links int) string {
	t.Helper()
	p.want(t, 422)
	testkit.Contains(t, p.text, "<title>Error: ", "%s: the title", p.what)
	found := regexp.MustCompile(`(?s)<(div|p) class="problem" role="alert" tabindex="-1" autofocus>.*?</(div|p)>`).
		FindAllString(p.text, -1)
	if len(found) != 1 || strings.Count(p.text, " autofocus") != 1 {
		t.Fatalf("%s: %d summaries, %d elements with autofocus", p.what, len(found), strings.Count(p.text, " autofocus"))
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(p.text, -1) {
		if ids[id[1]] {
			t.Errorf("%s: two elements have the id %s", p.what, id[1])
		}
		ids[id[1]] = true
	}
	hrefs := regexp.MustCompile(`href="#([^"]+)">`).FindAllStringSubmatch(found[0], -1)
	if len(hrefs) != links {
		t.Errorf("%s: %d links in the summary, want %d: %s", p.what, len(hrefs), links, found[0])
	}
	for _, href := range hrefs {
		id := strings.NewReplacer("%5b", "[", "%5d", "]").Replace(href[1])
		tag := regexp.MustCompile(`<(input|select|textarea)[^>]*\sid="` + regexp.QuoteMeta(id) + `"[^>]*>`).
			FindString(p.text)
		describes, _ := attribute(tag, "aria-describedby")
		if !strings.Contains(tag, `aria-invalid="true"`) || !strings.HasSuffix(describes, "-why") {
			t.Errorf("%s: the link to %s leads to %q", p.what, id, tag)
		}
		for id := range strings.FieldsSeq(describes) {
			if !ids[id] {
				t.Errorf("%s: nothing has the id %s", p.what, id)
			}
		}
	}
	return strings.Join(strings.Fields(tags.ReplaceAllString(found[0], " ")), " ")
}

func TestSummaryOfErrors(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	testkit.Lacks(t, b.get(t, "/filaments/new").want(t, 200).text, "Error: ",
		"a form that was not sent has an error")

	// Several fields of an editor, with the labels of the page.
	summary := b.get(t, "/filaments/new").submit(t, "/filaments/new", "material_type", "PLA", "color_hex", "red",
		"diameter_mm", "1.75", "net_weight_grams", "-1").faulty(t, 3)
	for _, label := range []string{"Color :", "Filament on a full spool :"} {
		testkit.Contains(t, summary, label, "the summary does not name %s", label)
	}

	// A nested list, and a form that is not the only one of its page.
	b.get(t, "/runs/new").submit(t, "/runs/new", "materials[1].spool_number", "77").faulty(t, 1)
	spool := c.NewSpool(t, 900, nil)
	at := "/spools/" + spool
	b.get(t, at).submit(t, at+"/deduct", "weight_grams", "-5").faulty(t, 1)
	b.get(t, at).submit(t, at+"/deduct", "weight_grams", "5000").faulty(t, 1)
	printer := "/printers/" + c.Post(t, "/api/v1/printers", j{"name": "P"}).Want(201).Text("id")
	b.get(t, printer).submit(t, printer+"/slots/1").faulty(t, 1)
	b.get(t, "/settings/webhooks").submit(t, "/settings/webhooks", "url", "https://a.example").faulty(t, 1)
	b.get(t, "/account").submit(t, "/account/password", "current_password", "x", "new_password", "y").faulty(t, 1)
	b.get(t, "/files").submit(t, "/files").faulty(t, 1)

	guest := newBrowser(t, api.URL)
	guest.get(t, "/sign-in").submit(t, "/sign-in", "email", "", "password", "").faulty(t, 2)
	refused := guest.get(t, "/sign-in").submit(t, "/sign-in", "email", c.Email, "password", "wrong").want(t, 401)
	testkit.Contains(t, refused.text, "<title>Error: ", "the title of a refused sign-in")

	// Many errors do not push the form away.
	values := []string{}
	for _, name := range []string{"color_hex", "diameter_mm", "net_weight_grams", "spool_weight_grams", "price",
		"density_g_cm3", "extruder_temperature_c", "bed_temperature_c", "color"} {
		values = append(values, name, strings.Repeat("x", 300))
	}
	summary = b.get(t, "/filaments/new").submit(t, "/filaments/new", values...).faulty(t, 8)
	testkit.Contains(t, summary, "and 1 more", "the summary does not say how many errors it omits")
}

func TestNamesOfButtons(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	printer := c.Post(t, "/api/v1/printers", j{"name": "Prusa 1", "slots": 2}).Want(201).Text("id")
	product := c.NewProduct(t, "H-1", 10)
	for range 2 {
		c.Post(t, "/api/v1/production-runs", j{"printer_id": printer,
			"items": []j{{"product_id": product, "quantity": 2}}}).Want(201)
	}
	b := signIn(t, c)
	name := c.Get(t, "/api/v1/products/"+product).Text("name")
	b.get(t, "/queue").shows(t, "Start 2 × "+name+" on Prusa 1")
	testkit.Contains(t, b.get(t, "/queue").text, `aria-label="Earlier: 2 × `+name+`"`,
		"the button that moves a run does not name the run")
	b.get(t, "/printers/"+printer).shows(t, "Load into slot 1", "Load into slot 2")
	if page := b.get(t, "/reports"); strings.Count(page.text, `<label class="pick">`) < 3 ||
		!strings.Contains(page.words(), "From To Show") {
		t.Errorf("the dates of a report have no visible labels: %s", page.words())
	}
}
