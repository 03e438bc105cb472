package web_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"spoolwright/testkit"
)

// upload sends the form of the page of files with a file, and pairs of names and values.
func upload(t *testing.T, b *browser, file string, inputs ...string) *page {
	t.Helper()
	form := b.get(t, "/files").want(t, 200).form(t, "/files")
	form.Del("file")
	for i := 0; i < len(inputs); i += 2 {
		form.Set(inputs[i], inputs[i+1])
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, values := range form {
		w.WriteField(name, values[0])
	}
	part, err := w.CreateFormFile("file", "x.csv")
	testkit.Check(t, err)
	part.Write([]byte(file))
	w.Close()
	r, err := http.NewRequest("POST", b.base+"/files", &body)
	testkit.Check(t, err)
	r.Header = b.header.Clone()
	r.Header.Set("Content-Type", w.FormDataContentType())
	return b.send(t, r)
}

// A file can be checked before it is imported, and the problems stand beside its lines.
func TestFiles(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	const columns = "material_type,color,diameter_mm,net_weight_grams\n"
	upload(t, b, "").want(t, 422).shows(t, "Choose a file, or paste its text.")
	upload(t, b, "", "text", columns+"PLA,Red,1.75,1000\nWood,<b>,1.75,1000\n").want(t, 422).
		shows(t, "Nothing was imported", "3 Wood,<b>,1.75,1000 material_type must be one of")
	long := upload(t, b, "", "text", columns+"x"+strings.Repeat("é", 200)+",Red,1.75,1000\n").want(t, 422)
	if strings.ContainsRune(long.text, '\uFFFD') {
		t.Error("a line is cut within a character")
	}
	const file = columns + "PLA,Red,1.75,1000\r\nPETG,Blue,1.75,500\n"
	checked := upload(t, b, file).want(t, 200).shows(t, "nothing was changed: 2 created", "3 PETG,Blue,1.75,500 Created")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})

	// The text of the file is in the form, and sent twice it is imported once.
	form := checked.form(t, "/files")
	form.Set("import", "1")
	for range 2 {
		b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported: 2 created")
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "2"})
	upload(t, b, strings.Repeat("x", 1<<20)).want(t, 413)
	upload(t, b, file, "what", "users").want(t, 404)
	upload(t, b, file, "mode", "x").want(t, 422).shows(t, "Must be one of create")
	upload(t, b, "name\n"+strings.Repeat("Vendor\n", 1), "what", "vendors", "import", "1").want(t, 200).
		shows(t, "Imported: 1 created")

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/files").want(t, 200).hides(t, "Import a CSV file")
	viewer.do(t, "POST", "/files", form).want(t, 403)
	for _, name := range []string{"spools", "filaments", "vendors", "products", "orders", "production-runs"} {
		p := viewer.get(t, "/files/"+name+".csv").want(t, 200)
		if !strings.HasPrefix(p.header.Get("Content-Type"), "text/csv") ||
			!strings.Contains(p.header.Get("Content-Disposition"), name+".csv") {
			t.Errorf("%s: %v", p.what, p.header)
		}
	}
	if p := viewer.get(t, "/files/spools.csv"); !strings.Contains(p.text, "PETG,,Blue") {
		t.Errorf("the file is %s", p.text)
	}
	viewer.get(t, "/files/users.csv").want(t, 404)
	viewer.get(t, "/files/spools").want(t, 404)
}

// Webhooks are added, tested, disabled and removed on their pages. The secret is shown once.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b, other := signIn(t, c), signIn(t, api.Tenant(t).User(t, "admin"))
	const list = "/settings/webhooks"
	empty := b.get(t, list).want(t, 200)
	empty.submit(t, list, "url", "http://x").want(t, 422).shows(t, "Must have 1 to ")
	refused := empty.submit(t, list, "url", "http://x.example/", "events", "spool.*").want(t, 422).shows(t, "https")
	if form := refused.form(t, list); form.Get("url") != "http://x.example/" || form.Get("events") != "spool.*" {
		t.Errorf("what was typed is lost: %v", form)
	}
	form := refused.form(t, list)
	form.Set("url", "https://hooks.example/")
	form["events"] = []string{"spool.*", "order.*"}
	b.do(t, "POST", list, form).want(t, 200).shows(t, "It is shown only now", "whsec_", "spool.*, order.*")
	b.do(t, "POST", list, form).to(t, list).hides(t, "whsec_").shows(t, "https://hooks.example/", "Active")
	testkit.Equal(t, c.Get(t, "/api/v1/webhooks").Want(200).Text("total"), "1", "webhooks after a double click")
	at := list + "/" + c.Get(t, "/api/v1/webhooks").Text("items.0.id")
	b.get(t, at).want(t, 200).shows(t, "Nothing was sent.").submit(t, at+"/test").to(t, at).shows(t, "webhook.test")
	b.get(t, at+"?status=delivered").want(t, 200).shows(t, "Nothing was sent.")
	b.get(t, at+"?status=x").want(t, 422).shows(t, "Status must be one of")
	id := c.Get(t, strings.Replace(at, "/settings", "/api/v1", 1)+"/deliveries").Want(200).Text("items.0.id")
	b.do(t, "POST", at+"/deliveries/"+id, map[string][]string{"once": {"a"}}).want(t, 303)
	b.get(t, at).submit(t, at+"/disable").to(t, at).shows(t, "Disabled").submit(t, at+"/enable").
		to(t, at).shows(t, "Active")
	other.get(t, at).want(t, 404)
	for _, action := range []string{"/test", "/enable", "/disable", "/remove", "/deliveries/" + id} {
		other.do(t, "POST", at+action, map[string][]string{}).want(t, 404)
	}
	b.get(t, at).submit(t, at+"/remove").to(t, list).shows(t, "A webhook tells")
}
