package web_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
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

// importSheet uploads a file, and imports what the page says about it.
func importSheet(t *testing.T, b *browser, file string, inputs ...string) *page {
	t.Helper()
	form := upload(t, b, file, inputs...).want(t, 200).form(t, "/files")
	form.Set("import", "all")
	return b.do(t, "POST", "/files", form)
}

// A spreadsheet is uploaded as it is, and the page chooses another one of its worksheets.
func TestWorkbookFile(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "operator")
	b := signIn(t, c)
	file := testkit.Workbook(t, testkit.Worksheet{Name: "PLA <new>", Rows: [][]any{
		{"Brand", "Material", "Color", "Diameter", "Net weight"}, {"eSun", "PLA", "Red", 1.75, 1000},
		{"eSun", "PLA", "Blue", 1.75, 1000}}},
		testkit.Worksheet{Name: "Others", Rows: [][]any{{"Type", "Color", "Diameter", "Weight"},
			{"PETG", "Green", 2.85, 750}}})
	p := upload(t, b, file).want(t, 200).shows(t, "2 created", "Worksheet", "PLA <new>")
	form := p.form(t, "/files")
	testkit.Equal(t, form.Get("worksheet"), "PLA <new>", "the worksheet")
	form.Set("worksheet", "Others")
	form.Set("import", "all") // the columns of the other worksheet are shown first
	p = b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Nothing was imported yet", "1 created")
	form = p.form(t, "/files")
	testkit.Equal(t, form.Get("worksheet"), "Others", "the worksheet")
	form.Set("import", "all")
	b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Spools: 1 created")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1", "items.0.material_type": "PETG",
		"items.0.net_weight_grams": "750"})
	upload(t, b, file[:200]).want(t, 422).shows(t, "not a spreadsheet of the kind .xlsx")
}

// A file is checked before it is imported, and the rows with problems can be corrected or left out.
func TestFiles(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	const columns = "material_type,color,diameter_mm,net_weight_grams\n"
	upload(t, b, "").want(t, 422).shows(t, "Choose a file, or paste its text.")
	upload(t, b, "", "text", columns+"PLA,Red,1.75,1000\nWood,<b>,1.75,1000\n").want(t, 200).
		shows(t, "1 created", "1 row has problems", "material_type must be one of PLA", "Wood")
	long := upload(t, b, "", "text", columns+"x"+strings.Repeat("é", 300)+",Red,1.75,1000\n").want(t, 200)
	if strings.ContainsRune(long.text, '\uFFFD') {
		t.Error("a line is cut within a character")
	}
	const file = columns + "PLA,Red,1.75,1000\r\nPETG,Blue,1.75,500\n"
	checked := upload(t, b, file).want(t, 200).shows(t, "Nothing was imported yet. It would be: 2 created", "Import 2",
		"How the first rows are read", "Line 2: Material: PLA Color: Red Diameter (mm): 1.75 Net weight (g): 1000")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	checked.hides(t, "came in before")

	// The file is in the form, and sent twice it is imported once.
	form := checked.form(t, "/files")
	form.Set("import", "all")
	for range 2 {
		b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Spools: 2 created")
	}
	upload(t, b, file).want(t, 200).shows(t, "2 rows came in before, last at", "The import adds them a second time.")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "2"})
	importSheet(t, b, "material_type,color,diameter_mm,net_weight_grams,extra\n"+
		"PLA,Red,1.75,1000,\"{\"\"tag\"\":\"\"A\"\",\"\"n\"\":1}\"\n").
		want(t, 200).shows(t, "0 skipped. New custom fields: n (Whole number), tag (Text).")
	upload(t, b, strings.Repeat("x", 1<<20)).want(t, 413)
	upload(t, b, file, "what", "users").want(t, 404)
	upload(t, b, file, "mode", "x").want(t, 422).shows(t, "Must be one of create")
	importSheet(t, b, "name\nVendor\n", "what", "vendors").want(t, 200).shows(t, "Imported Vendors: 1 created")
	form.Set("packed", "x")
	b.do(t, "POST", "/files", form).want(t, 422).shows(t, "Choose a file")

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/files").want(t, 200).hides(t, "Import a list")
	viewer.do(t, "POST", "/files", form).want(t, 403)
	for _, name := range []string{"spools", "filaments", "vendors", "products", "orders", "production-runs"} {
		p := viewer.get(t, "/files/"+name+".csv").want(t, 200)
		if !strings.HasPrefix(p.header.Get("Content-Type"), "text/csv") ||
			!strings.Contains(p.header.Get("Content-Disposition"), name+".csv") {
			t.Errorf("%s: %v", p.what, p.header)
		}
	}
	testkit.Contains(t, viewer.get(t, "/files/spools.csv").text, "PETG,,Blue", "the file")
	viewer.get(t, "/files/users.csv").want(t, 404)
	viewer.get(t, "/files/spools").want(t, 404)
}

// An import ends with a link to what came in and an undo, which says what it leaves. The last imports are listed.
func TestUndoOfFile(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/files").want(t, 200).hides(t, "Last imports")
	p := importSheet(t, b, "material_type,color,diameter_mm,net_weight_grams\nPLA,Red,1.75,1000\nPLA,Blue,1.75,1000\n").
		want(t, 200).shows(t, "Imported Spools: 2 created", "Last imports", "Spools: 2 created, 0 updated")
	undo := "/files/" + c.Get(t, "/api/v1/imports").Text("items.0.id") + "/undo"
	if strings.Count(p.text, `action="`+undo+`"`) != 2 || !strings.Contains(p.text, `<a href="/spools">Spools</a>`) {
		t.Errorf("the page has no link or no undo: %s", p.text)
	}
	c.Post(t, "/api/v1/spools/"+c.Get(t, "/api/v1/spools?color=Red").Text("items.0.id")+"/deduct",
		testkit.JSON{"weight_grams": 1}).Want(200)
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/files").want(t, 200).hides(t, "Last imports")
	viewer.do(t, "POST", undo, nil).want(t, 403)
	b.do(t, "POST", undo, nil).want(t, 200).shows(t, "The import was undone: 1 removed, 0 restored. 1 was left.",
		"Spools 1: it was used since", "Undone")
	b.do(t, "POST", undo, nil).want(t, 409).shows(t, "The import was undone before.")
	b.do(t, "POST", "/files/x/undo", nil).want(t, 404)
	c.Get(t, "/api/v1/spools").Shows(map[string]string{"total": "1"})
}

// A farm's own list is pasted, its columns are given fields, a row is corrected, another one left out, and the rest
// imported.
func TestOwnList(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c, other := api.Operator(t), api.Operator(t)
	b := signIn(t, c)
	const list = "Marke;Farbe;Zeug;Gewicht;Preis;Wer\n" +
		"eSun;Rot;PLA+;1.000;23,49 €;Ann\neSun;Blau;PLO;750;20,00 €;Bob\neSun;Gelb;PETG;1.000;abc;Ann\n" +
		"Summe;;;2.750;43,49 €;\n"
	p := upload(t, b, "", "text", list).want(t, 200).
		shows(t, "1 created", "3 rows have problems", "1 row: PLA+ → type PLA, name PLA+", "has totals and is no spool")
	form := p.form(t, "/files")
	if form.Get("map.2") != "material_type" || form.Get("map.3") != "net_weight_grams" || form.Get("map.5") != "" ||
		form.Get("default.diameter_mm") != "1.75" {
		t.Errorf("the page suggests %v", form)
	}
	form.Set("map.5", "notes")
	form.Set("cell.3.2", "ABS")
	form.Set("out.5", "1")
	again := b.do(t, "POST", "/files", form).want(t, 200).shows(t, "2 created", "1 row has problems", "must be a number")
	form = again.form(t, "/files")
	if form.Get("cell.3.2") != "ABS" || form.Get("out.5") != "1" || form.Get("map.5") != "notes" {
		t.Errorf("the page forgets %v", form)
	}
	form.Set("import", "all")
	b.do(t, "POST", "/files", form).want(t, 422).
		shows(t, "Nothing was imported: some rows are not valid.", "must be a number")
	form.Set("map.0", "color")
	b.do(t, "POST", "/files", form).want(t, 422).shows(t, "gives the field color to two columns")
	form.Set("map.0", "brand")
	form.Set("import", "valid")
	for range 2 {
		b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Spools: 2 created", "1 left out")
	}
	c.Get(t, "/api/v1/spools?sort_order=asc").Shows(map[string]string{"total": "2", "items.0.material_name": "PLA+",
		"items.0.purchase_price": "23.49", "items.0.notes": "Ann", "items.1.material_type": "ABS", "items.1.brand": "eSun",
		"items.1.net_weight_grams": "750", "items.1.diameter_mm": "1.75"})
	other.Get(t, "/api/v1/spools").Shows(map[string]string{"total": "0"})

	// The farm's next file has the same columns.
	next := upload(t, b, "", "text", "Wer;Marke;Farbe;Zeug;Gewicht\nAnn;eSun;Rot;PLA;1.000\n").want(t, 200).
		shows(t, "as in the last file")
	testkit.Equal(t, next.form(t, "/files").Get("map.0"), "notes", "the page has forgotten what the last file was")
	testkit.Equal(t, upload(t, signIn(t, other), "", "text", list).want(t, 200).form(t, "/files").Get("map.5"), "",
		"another farm knows the file")
}

// A file that does not show how its numbers and dates are to be read is refused with both readings, until its sender
// chooses.
func TestFilesWithTwoReadings(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	const file = "material_type\tcolor\tdiameter_mm\tnet_weight_grams\tpurchase_price\tpurchase_date\n" +
		"PLA\tRed\t1.75\t1.000\t29,99\t01/02/2024\n"
	asked := upload(t, b, file).want(t, 200).shows(t, "net_weight_grams can be read as 1000 or as 1,",
		"purchase_date can be read as 2024-02-01 or as 2024-01-02,")
	form := asked.form(t, "/files")
	form.Set("decimal", "comma")
	form.Set("date_order", "dmy")
	form = b.do(t, "POST", "/files", form).want(t, 200).shows(t, "1 created").form(t, "/files")
	if form.Get("decimal") != "comma" || form.Get("date_order") != "dmy" {
		t.Errorf("the form forgets the choice: %v", form)
	}
	form.Set("import", "all")
	b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Spools: 1 created")
	c.Get(t, "/api/v1/spools").Shows(map[string]string{"items.0.net_weight_grams": "1000",
		"items.0.purchase_price": "29.99", "items.0.purchase_date": "2024-02-01"})
}

// A file of Spoolman needs no columns: it is imported as it is there, and again when something has changed there.
func TestFilesOfSpoolman(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	const spool = `{"id": 7, "registered": "2024-01-15T10:00:00Z", "location": "Shelf", "remaining_weight": 700,
		"filament": {"id": 3, "registered": "2024-01-15T10:00:00Z", "name": "Grey", "material": "PLA", "diameter": 1.75,
		"density": 1.24, "weight": 1000, "vendor": {"id": 2, "registered": "2024-01-15T10:00:00Z", "name": "Acme"}}}`
	checked := upload(t, b, "["+spool+"]").want(t, 200).shows(t, "This is a file of Spoolman", "1 created", "Import 1")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	form := checked.form(t, "/files")
	form.Set("import", "all")
	for range 2 { // sent twice, it is imported once
		b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Spools: 1 created")
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1", "items.0.number": "7",
		"items.0.brand": "Acme", "items.0.remaining_weight_grams": "700"})
	moved := strings.Replace(spool, "Shelf", "Drawer", 1)
	invalid := strings.Replace(strings.Replace(spool, `"id": 7`, `"id": 8`, 1), `"remaining_weight": 700`,
		`"remaining_weight": "x"`, 1)
	form = upload(t, b, "["+moved+","+invalid+"]", "what", "filaments").want(t, 200).
		shows(t, "1 updated", "1 row has problems", "Remaining weight is x", "Correct them in Spoolman").form(t, "/files")
	form.Set("import", "valid")
	b.do(t, "POST", "/files", form).want(t, 200).shows(t, "1 updated", "1 left out")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1", "items.0.location": "Drawer"})
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
	refused := empty.submit(t, list, "url", "http://x.example/", "events", "spool.empty").want(t, 422).
		shows(t, "https")
	if form := refused.form(t, list); form.Get("url") != "http://x.example/" || form.Get("events") != "spool.empty" {
		t.Errorf("what was typed is lost: %v", form)
	}
	form := refused.form(t, list)
	form.Set("url", "https://hooks.example/")
	form["events"] = []string{"spool.empty", "order.done", "order.*"}
	b.do(t, "POST", list, form).want(t, 200).shows(t, "It is shown only now", "whsec_",
		"a spool is empty, an order is done, order.*")
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

// An exported file that is imported again changes nothing, and creates nothing twice, also in another farm.
func TestFilesComeBack(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c, other := api.Operator(t), api.Operator(t)
	b, there := signIn(t, c), signIn(t, other)
	filament := c.Post(t, "/api/v1/filaments", j{"vendor": "Acme", "name": "Galaxy", "material_type": "PLA",
		"color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
	c.Post(t, "/api/v1/filaments/"+filament+"/spools", j{"quantity": 5}).Want(201)
	c.Post(t, "/api/v1/spools/batch", j{"quantity": 4, "material_type": "PETG", "color": "White", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	removed := c.NewSpool(t, 100, nil)
	c.Post(t, "/api/v1/products", j{"name": "Box", "sku": "B-1",
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10}}}).Want(201)
	for _, list := range []struct{ what, count string }{
		{"vendors", "1"}, {"filaments", "1"}, {"spools", "10"}, {"products", "1"},
	} {
		file := b.get(t, "/files/"+list.what+".csv").want(t, 200).text
		upload(t, b, file, "what", list.what).want(t, 200).shows(t, "0 created, 0 updated, "+list.count+" unchanged")
		importSheet(t, b, file, "what", list.what).want(t, 200).
			shows(t, ": 0 created, 0 updated, "+list.count+" unchanged")
		importSheet(t, there, file, "what", list.what).want(t, 200).shows(t, ": "+list.count+" created")
		importSheet(t, there, file, "what", list.what).want(t, 200).
			shows(t, ": 0 created, 0 updated, "+list.count+" unchanged")
	}

	// The file of a farm with other spools of the same numbers changes none of them.
	file := b.get(t, "/files/spools.csv").want(t, 200).text
	third := api.Operator(t)
	third.Post(t, "/api/v1/spools/batch", j{"quantity": 3, "material_type": "ABS", "color": "Red", "diameter_mm": 1.75,
		"net_weight_grams": 750}).Want(201)
	importSheet(t, signIn(t, third), file).want(t, 200).shows(t, "Imported Spools: 10 created, 0 updated, 0 unchanged")
	upload(t, signIn(t, third), "number,material_type,color,diameter_mm,net_weight_grams\n1,PLA,Blue,1.75,1000\n").
		want(t, 200).shows(t, "number is the number of ABS Red")
	upload(t, signIn(t, third), "number,color\n1,Green\n").want(t, 200).shows(t, "0 created, 1 updated")

	// A row of a removed spool does not create it again.
	c.Delete(t, "/api/v1/spools/"+removed).Want(204)
	upload(t, b, file).want(t, 200).shows(t, "is not the id of a spool")
}

// Orders of a shop are known by the titles of the file. Their source can be a connection, and no mode is asked for.
func TestOrderFiles(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	product := c.NewProduct(t, "DRG", 10)
	c.Post(t, "/api/v1/shops", testkit.JSON{"kind": "woocommerce", "name": "dragons.example"}).Want(201)
	b := signIn(t, c)
	const etsy = "Sale Date,Item Name,Buyer,Quantity,Price,Transaction ID,Date Shipped,Ship Name,Order ID," +
		"Variations,SKU\n" +
		"01/05/26,Dragon,ada,2,12.50,71,,Ada,3001,,drg\n01/05/26,Vase,ada,1,9,72,,Ada,3001,,\n" +
		"01/04/26,Vase,bob,1,9,73,01/05/26,Bob,3000,,\n"
	p := upload(t, b, etsy, "what", "orders").want(t, 200).shows(t, "1 created, 0 updated, 0 unchanged, 1 skipped",
		"New orders that are shipped, canceled or not paid are skipped.", "an order has no such field").
		hides(t, "Known numbers")
	testkit.Contains(t, p.text, `<option value="dragons.example">`, "the page does not suggest the connection")
	form := p.form(t, "/files")
	if form.Get("map.8") != "reference" || form.Get("map.0") != "" || form.Get("default.source") != "etsy" {
		t.Errorf("the page suggests %v", form)
	}
	form.Set("default.source", "My shop")
	form.Set("import", "all")
	b.do(t, "POST", "/files", form).want(t, 200).
		shows(t, "Imported Orders: 1 created", "Those with lines without a product")
	c.Get(t, "/api/v1/orders").Want(200).Shows(map[string]string{"total": "1", "items.0.source": "My shop",
		"items.0.items.0.product_id": product, "items.0.unassigned_count": "1"})

	// Any other list, with a wrong row and a column that has no name of anybody.
	const list = "Order;What;Qty;Price\n1;Vase;1;23,49 €\n2;Vase;x;1,00 €\n"
	form = upload(t, b, list, "what", "orders").want(t, 200).form(t, "/files")
	testkit.Equal(t, form.Get("map.1"), "", "the choice for the column What")
	form.Set("map.1", "title")
	form.Set("default.source", "market")
	checked := b.do(t, "POST", "/files", form).want(t, 200).shows(t, "1 created", "1 row has problems")
	form = checked.form(t, "/files")
	form.Set("cell.3.2", "4")
	form.Set("import", "all")
	b.do(t, "POST", "/files", form).want(t, 200).shows(t, "Imported Orders: 2 created")
	c.Get(t, "/api/v1/orders?source=market").Want(200).Shows(map[string]string{"total": "2"})
}

// No message of a form names the body of the request, which people do not see.
func TestNoBodyInMessages(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for _, file := range []string{`{"spools": 1}`, "PK\x03\x04"} {
		upload(t, b, file, "what", "spools").shows(t, "This cannot be imported").hides(t, "Body")
	}
}
