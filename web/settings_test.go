package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func TestStockAndReports(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	b.get(t, "/stock").want(t, 200).shows(t, "There are no stock levels yet.")
	b.get(t, "/reports").want(t, 200).shows(t, "No filament was used", "Nothing was wasted")
	spool := c.NewSpool(t, 900, j{"purchase_price": 20})
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 100}).Want(200)
	form := b.get(t, "/stock/new").submit(t, "/stock/new", "color", "Black", "minimum_grams", "lots").
		want(t, 422).shows(t, "Must be a number.").form(t, "/stock/new")
	form.Set("minimum_grams", "2000")
	for range 2 {
		b.do(t, "POST", "/stock/new", form).to(t, "/stock").
			shows(t, "1 stock level", "PLA Black 800 g 0 g 2 kg 1.4 kg",
				"Shopping list What is missing brings each filament to 110 % of its level.",
				"PLA Black 20.00 of the last spool 20.00 of the last spool 2 1.4 kg Ordered : PLA Black",
				"2 × 1 kg PLA Black Copy")
	}
	b.get(t, "/stock?low=false").shows(t, "No stock level matches.")
	level := c.Get(t, "/api/v1/stock-levels").Text("items.0.id")
	b.get(t, "/stock/"+level+"/edit").submit(t, "/stock/"+level+"/edit", "minimum_grams", "500").
		to(t, "/stock").hides(t, "Shopping list")
	b.get(t, "/stock/"+level+"/edit").submit(t, "/stock/"+level+"/remove").to(t, "/stock").hides(t, "PLA Black")

	b.get(t, "/reports").shows(t, "Filament used 100 g 2.00", "PLA Black 100 g 2.00 800 g 240 days")
	b.get(t, "/reports").hides(t, "weighing and edits")
	c.Patch(t, "/api/v1/spools/"+spool, j{"remaining_weight_grams": 780}).Want(200)
	b.get(t, "/reports").shows(t, "Filament used 100 g 2.00", "Weighing and edits also removed 20 g.")
	b.get(t, "/reports?by=printer").shows(t, "Without a printer 100 g")
	b.get(t, "/reports?by=moon").want(t, 422).shows(t, "must be one of")
	b.get(t, "/reports?from=x").want(t, 422)
	file := b.get(t, "/reports/usage.csv?by=color").want(t, 200)
	c.Patch(t, "/api/v1/spools/"+spool, j{"remaining_weight_grams": 810}).Want(200)
	b.get(t, "/reports").shows(t, "Weighing and edits also added 10 g.")
	if !strings.HasPrefix(file.header.Get("Content-Type"), "text/csv") ||
		!strings.Contains(file.text, ",100,2,0,20,0,0,0\n") {
		t.Errorf("the file is %v\n%s", file.header, file.text)
	}
}

// A level shows what is on its way, and "Received" leads to the form of new spools, which clears it.
func TestReceiveFilament(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 750, "vendor": "Acme", "article_number": "A-1", "url": "https://www.shop.example/a",
		"price": 18.9}).Want(201).ID()
	b.get(t, "/stock/new").submit(t, "/stock/new", "color", "Black", "minimum_grams", "2000", "incoming_grams", "1500",
		"incoming_date", "2024-03-01").to(t, "/stock").
		shows(t, "1.5 kg on its way, expected on", "of the filament 1 2.2 kg Ordered",
			"1 × 750 g PLA Black · Acme · A-1 · https://www.shop.example/a Copy",
			"Acme · A-1 shop.example 18.90 of the filament 1.5 kg on its way", "CSV", "Received : PLA Black")
	level := c.Get(t, "/api/v1/stock-levels").Text("items.0.id")
	file := b.get(t, "/stock/shopping-list.csv").want(t, 200)
	testkit.Equal(t, file.text, "material,color,brand,diameter_mm,missing_grams,incoming_grams,incoming_date,"+
		"vendor,article_number,url,price,price_of,net_weight_grams,spools\n"+
		"PLA,Black,,,2200,1500,2024-03-01,Acme,A-1,https://www.shop.example/a,18.9,filament,750,1\n", "the file")

	to := b.get(t, "/stock/"+level+"/received").want(t, 303).header.Get("Location")
	form := b.get(t, to).want(t, 200)
	if got := form.form(t, "/spools/new"); got.Get("quantity") != "2" || got.Get("filament_id") != filament ||
		got.Get("purchase_price") != "18.9" {
		t.Errorf("the form of the new spools has %v", got)
	}
	form.submit(t, "/spools/new", "quantity", "none").want(t, 422)
	c.Get(t, "/api/v1/stock-levels").Shows(map[string]string{"items.0.incoming_grams": "1500"})
	form.submit(t, "/spools/new").to(t, "/spools").says(t, "2 spools are added, 1 to 2.")
	c.Get(t, "/api/v1/stock-levels").Shows(map[string]string{"items.0.incoming_grams": "null",
		"items.0.remaining_grams": "1500"})
	b.get(t, "/stock").hides(t, "on its way", "Received")

	// Without a filament of the level, the spools have its material.
	other := c.Post(t, "/api/v1/stock-levels", j{"material_type": "PETG", "color": "Red", "brand": "Acme",
		"minimum_grams": 500, "incoming_grams": 900}).Want(201).ID()
	to = b.get(t, "/stock/"+other+"/received").want(t, 303).header.Get("Location")
	got := b.get(t, to).want(t, 200).form(t, "/spools/new?own=1")
	if got.Get("material_type") != "PETG" || got.Get("color") != "Red" || got.Get("brand") != "Acme" ||
		got.Get("quantity") != "1" || got.Get("received") != other {
		t.Errorf("the form of the new spools has %v", got)
	}
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/stock").shows(t, "900 g on its way").hides(t, "Received")
	viewer.get(t, "/stock/"+other+"/received").want(t, 403)
	stranger := signIn(t, api.Operator(t))
	stranger.get(t, "/stock/"+other+"/received").want(t, 404)
	form = stranger.get(t, "/spools/new?received="+other).want(t, 200) // of another farm: nothing happens there
	form.submit(t, "/spools/new?own=1", "color", "Red", "diameter_mm", "1.75", "net_weight_grams", "1000").want(t, 303)
	c.Get(t, "/api/v1/stock-levels/"+other).Shows(map[string]string{"incoming_grams": "900"})
}

// A click marks what is missing as ordered, once, and can be undone. Nothing that somebody else has stored is
// overwritten.
func TestOrderFilament(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 800}).Want(201)
	level := c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "color": "Black", "minimum_grams": 2000}).
		Want(201).ID()
	incoming := func(want string) {
		t.Helper()
		c.Get(t, "/api/v1/stock-levels/"+level).Shows(map[string]string{"incoming_grams": want})
	}
	ordered := "/stock/" + level + "/ordered"
	page := b.get(t, "/stock").want(t, 200).shows(t, "PLA Black – 3 2.2 kg Ordered", "3 × 800 g PLA Black Copy")
	for range 2 {
		saved := page.submit(t, ordered).to(t, "/stock").says(t, "PLA Black: 2.4 kg on its way").
			shows(t, "PLA Black 2.4 kg on its way – 0 2.2 kg Received").hides(t, "3 ×")
		incoming("2400")
		saved.submit(t, ordered).to(t, "/stock").says(t, "PLA Black: Nothing is on its way.")
		incoming("null")
	}
	c.Patch(t, "/api/v1/stock-levels/"+level, j{"incoming_grams": 600, "incoming_date": "2024-03-01"}).Want(200)
	page.submit(t, ordered).to(t, "/stock").
		says(t, "Saved in the meantime: PLA Black: 600 g on its way, expected on 2024-03-01")
	incoming("600")
	b.get(t, "/stock").shows(t, "2 × 800 g").submit(t, ordered).to(t, "/stock").
		says(t, "PLA Black: 2.2 kg on its way, expected on 2024-03-01")
	incoming("2200")
	b.do(t, "POST", ordered, url.Values{"before": {"2200"}, "incoming_grams": {"lots"}}).to(t, "/stock").
		says(t, "Not valid")
	incoming("2200")

	// Without a net weight, what is missing is ordered.
	other := c.Post(t, "/api/v1/stock-levels", j{"material_type": "ABS", "minimum_grams": 1000}).Want(201).ID()
	b.get(t, "/stock").shows(t, "ABS – – 1.1 kg Ordered", "1.1 kg ABS Copy").
		submit(t, "/stock/"+other+"/ordered").to(t, "/stock").says(t, "ABS: 1.1 kg on its way").hides(t, "Copy")
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/stock").hides(t, "Ordered", "Received")
	viewer.do(t, "POST", ordered, url.Values{"before": {"2200"}}).want(t, 403)
	signIn(t, api.Operator(t)).do(t, "POST", ordered, url.Values{"before": {"2200"}}).want(t, 404)
	incoming("2200")
}

// The file of the shopping list has more levels than the API returns at once.
func TestShoppingListIsWhole(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	for i := range 101 {
		c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "color": fmt.Sprint("Color ", i),
			"minimum_grams": 1000}).Want(201)
	}
	file := signIn(t, c).get(t, "/stock/shopping-list.csv").want(t, 200)
	testkit.Equal(t, strings.Count(file.text, ",Color "), 101, "the levels in the file")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	page := b.get(t, "/settings").want(t, 200).shows(t, "Time zone", "People").hides(t, c.Email)
	wrong := page.submit(t, "/settings", "time_zone", "Mars", "currency", "EUR").want(t, 422).shows(t, "IANA")
	if got := wrong.form(t, "/settings"); got.Get("time_zone") != "Mars" || got.Get("currency") != "EUR" {
		t.Errorf("what was typed is lost: %v", got)
	}
	wrong.submit(t, "/settings", "time_zone", "Asia/Tokyo").to(t, "/settings")
	c.Get(t, "/api/v1/settings").Shows(map[string]string{"time_zone": "Asia/Tokyo", "currency": "EUR"})

	// A key is shown once.
	page = b.get(t, "/settings/keys").want(t, 200).shows(t, "Printers and scripts need keys.")
	page.submit(t, "/settings/keys", "name", "", "role", "printer").want(t, 422).shows(t, "Is required.")
	form := page.form(t, "/settings/keys")
	form.Set("name", "Voron")
	form.Set("role", "printer")
	created := b.do(t, "POST", "/settings/keys", form).want(t, 200).shows(t, "shown only now",
		"[spoolman] server: http")
	key := regexp.MustCompile(`swk_\w{36}`).FindString(created.text)
	if again := b.do(t, "POST", "/settings/keys", form).to(t, "/settings/keys"); key == "" ||
		strings.Contains(again.text, key) {
		t.Errorf("the key %s is shown again", key)
	}
	id := c.Get(t, "/api/v1/api-keys").Text("items.0.id")
	b.get(t, "/settings/keys").submit(t, "/settings/keys/"+id+"/revoke").to(t, "/settings/keys").hides(t, "Voron")

	// An invited person has no password until the link sets it.
	users := "/settings/users"
	refused := b.get(t, users).shows(t, c.Email).submit(t, users, "name", "Ada", "email", c.Email, "role", "viewer").
		want(t, 422).
		shows(t, "already in use")
	testkit.Equal(t, refused.form(t, users).Get("name"), "Ada", "what was typed is lost")
	form = refused.form(t, users)
	form.Set("email", "ada-"+c.Email)
	b.do(t, "POST", users, form).want(t, 200)
	invited := b.do(t, "POST", users, form).want(t, 200).shows(t, "Link for Ada", "Viewer, invited")
	link := linkOf(t, invited)
	newBrowser(t, api.URL).get(t, link).want(t, 200).submit(t, link, "new_password", testkit.Password).want(t, 200)
	b.get(t, users).hides(t, "invited", link)
	ada := &testkit.Client{API: api, Email: "ada-" + c.Email}
	in := signIn(t, ada)
	in.get(t, "/spools").want(t, 200).hides(t, "Settings")
	in.get(t, "/settings").want(t, 403)
	user := c.Get(t, "/api/v1/users?email=ada-"+c.Email).Text("items.0.id")
	edit := "/settings/users/" + user + "/edit"
	b.get(t, edit).submit(t, edit, "role", "operator").to(t, users).shows(t, "Operator")
	in.get(t, "/spools/new").want(t, 200)
	b.get(t, edit).submit(t, edit, "disabled", "true").to(t, users).shows(t, "Operator, disabled")
	in.get(t, "/spools").want(t, 303)
	b.get(t, edit).submit(t, "/settings/users/"+user+"/remove").to(t, users).hides(t, "Ada")
}

// linkOf returns the path of the password link on a page. The address has at most 100 characters, also with a long
// host.
func linkOf(t *testing.T, p *page) string {
	t.Helper()
	found := regexp.MustCompile(`value="http://[^/"]+(/password-link/[^"]+)"`).FindStringSubmatch(p.text)
	if found == nil {
		t.Fatalf("no link: %s", p.words())
	}
	if host := "https://spoolwright.our-farm.example"; len(host+found[1]) > 100 {
		t.Errorf("%s%s is too long", host, found[1])
	}
	return found[1]
}

// An admin creates a password link, with which a person without JavaScript sets a password and signs in.
func TestPasswordLink(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	user := tenant.User(t, "operator")
	form := "/settings/users/" + user.Actor.User + "/password-link"
	link := linkOf(t, signIn(t, tenant.User(t, "admin")).get(t, "/settings/users").submit(t, form).want(t, 200))
	b := newBrowser(t, api.URL)
	p := b.get(t, link).want(t, 200)
	testkit.Equal(t, p.header.Get("Referrer-Policy"), "origin",
		"Referrer-Policy: what the page loads gets its address")
	p.submit(t, link, "new_password", "short").want(t, 422).shows(t, "Must have at least 10 characters.")
	p.submit(t, link, "new_password", "qwerty123456").want(t, 422).shows(t, "Is one of the most common passwords")
	p.submit(t, link, "new_password", "a new and long phrase").want(t, 200).shows(t, "Your password is set.").
		submit(t, "/sign-in", "password", "a new and long phrase").want(t, 303) // the e-mail is filled in
	p.submit(t, link, "new_password", "a new and long phrase").want(t, 400).shows(t, "This link is not valid")
	signIn(t, tenant.User(t, "viewer")).do(t, "POST", form, nil).want(t, 403)
}

// An admin downloads the farm from the settings.
func TestDownloadFarm(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	admin := signIn(t, tenant.User(t, "admin"))
	admin.get(t, "/settings/backup").want(t, 200).shows(t, "Download the farm")
	p := admin.get(t, "/settings/farm.gz").want(t, 200)
	if p.header.Get("Content-Type") != "application/gzip" || !strings.HasPrefix(p.text, "\x1f\x8b") {
		t.Errorf("the response has the headers %v", p.header)
	}
	signIn(t, tenant.User(t, "operator")).get(t, "/settings/farm.gz").want(t, 403)
}

// The tabs of the settings lead to their pages, and mark the page to which the refused form of a tab belongs.
func TestTabsOfSettings(t *testing.T) {
	t.Parallel()
	b := signIn(t, newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin"))
	marked := func(p *page, tab string) {
		t.Helper()
		nav := regexp.MustCompile(`(?s)<nav class="tabs".*?</nav>`).FindString(p.text)
		if strings.Count(nav, "aria-current") != 1 || !strings.Contains(nav, `href="`+tab+`" aria-current="page"`) {
			t.Errorf("%s does not mark %s: %s", p.what, tab, nav)
		}
	}
	for _, tab := range regexp.MustCompile(`href="(/settings[a-z/]*)"`).FindAllStringSubmatch(
		regexp.MustCompile(`(?s)<nav class="tabs".*?</nav>`).FindString(b.get(t, "/settings").text), -1) {
		marked(b.get(t, tab[1]).want(t, 200), tab[1])
	}
	marked(b.get(t, "/settings/keys").submit(t, "/settings/keys", "name", "").want(t, 422), "/settings/keys")
	marked(b.get(t, "/settings/users").submit(t, "/settings/users", "name", "").want(t, 422), "/settings/users")
}
