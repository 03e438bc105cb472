package web_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// notice returns the text of the notice of a page, or "".
func (p *page) notice() string {
	_, rest, ok := strings.Cut(p.text, `<p role="status">`)
	text, _, _ := strings.Cut(rest, "</p>")
	if !ok {
		return ""
	}
	return strings.ReplaceAll(html.UnescapeString(text), "\u00a0", " ")
}

// says ends the test unless the page has the notice.
func (p *page) says(t *testing.T, want string) *page {
	t.Helper()
	testkit.Equal(t, p.notice(), want, "%s: the notice", p.what)
	return p
}

// take sends the form of the notice.
func (p *page) take(t *testing.T) *page {
	t.Helper()
	_, rest, ok := strings.Cut(p.text, `<div class="notice">`)
	form := formTag.FindStringSubmatch(rest)
	if !ok || form == nil {
		t.Fatalf("%s: the notice has no form: %s", p.what, p.words())
	}
	action, _ := attribute(form[1], "action")
	return (&page{b: p.b, what: p.what, text: form[0]}).submit(t, action)
}

// The page after a form says what was done, once, and takes it back.
func TestNotices(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.NewSpool(t, 500, j{"spool_weight_grams": 200})
	path, at := "/api/v1/spools/"+id, "/spools/"+id
	left := func(grams string) {
		t.Helper()
		c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": grams})
	}

	p := b.get(t, at+"?sort=number").submit(t, at+"/deduct?sort=number", "weight_grams", "45.5").
		to(t, at+"?sort=number").says(t, "Deducted 45.5 g from spool 1.")
	check(t, p)
	b.get(t, at).says(t, "")
	taken := p.take(t)
	taken.to(t, at+"?sort=number").says(t, "Taken back: +45.5 g, 500 g left.").hides(t, "Undo Undo")
	left("500")
	p.take(t).to(t, at+"?sort=number").says(t, "Taken back: +45.5 g, 500 g left.") // the same form
	entry := c.Get(t, path+"/usage?kind=deducted&sort_by=created_at&sort_order=asc").Want(200).Text("items.0.id")
	b.do(t, "POST", at+"/usage/reverse", url.Values{"entry": {entry}}).want(t, 422).
		shows(t, "already reversed this one")
	left("500")

	b.get(t, at).submit(t, at+"/weigh", "gross_grams", "712").to(t, at).says(t, "Weighed spool 1: 512 g.").
		take(t).to(t, at)
	left("500")
	b.get(t, at).submit(t, at+"/move", "location", hostile).to(t, at).says(t, "The spool is at "+hostile+".")
	b.get(t, at).submit(t, at+"/archive").to(t, at).says(t, "The spool is archived.").
		take(t).to(t, at).says(t, "The spool is out of the archive.")
	c.Get(t, path).Shows(map[string]string{"archived": "false"})

	// What somebody else did meanwhile is not taken back.
	form := b.get(t, at).form(t, at+"/deduct")
	form.Set("weight_grams", "10")
	b.do(t, "POST", at+"/deduct", form).want(t, 303)
	c.Post(t, path+"/deduct", j{"weight_grams": 5}).Want(200)
	b.do(t, "POST", at+"/deduct", form).to(t, at).says(t, "Deducted 10 g from spool 1.").hides(t, "Undo")
	left("485")

	// Several spools.
	p = b.get(t, "/spools/new").submit(t, "/spools/new?own=1", "material_type", "PLA", "color", "Red", "quantity", "10",
		"net_weight_grams", "1000").to(t, "/spools").says(t, "10 spools are added, 2 to 11.").shows(t, "Print labels Undo")
	b.get(t, "/labels?numbers=2-11").want(t, 200).shows(t, "#2", "#11").hides(t, "#1 ")
	for _, wrong := range []string{"x", "0-1", "2-1", "2", "1-101", "1-9999999999"} {
		b.get(t, "/labels?numbers="+wrong).want(t, 422)
	}
	p.take(t).to(t, "/spools").says(t, "Spools 2 to 11 are removed.").shows(t, "1 spool")
	b.do(t, "POST", "/spools/removal", url.Values{"numbers": {"2-1"}}).want(t, 404)
	b.get(t, "/spools/new").submit(t, "/spools/new?own=1", "material_type", "PLA", "color", "Red", "quantity", "3",
		"net_weight_grams", "1000", "labels", "1").to(t, "/labels?numbers=12-14").says(t, "3 spools are added, 12 to 14.").
		shows(t, "#12", "#14")
	viewer := signIn(t, c.API.Tenant(t).User(t, "viewer"))
	viewer.do(t, "POST", "/spools/removal", url.Values{"numbers": {"1-1"}}).want(t, 403)

	// A run.
	run := "/runs/" + c.Post(t, "/api/v1/production-runs", j{"materials": []j{{"spool_id": id,
		"estimated_weight_grams": 85}}}).Want(201).ID()
	b.get(t, run).submit(t, run+"/complete").to(t, run).says(t, "The run is confirmed.").
		take(t).to(t, run).says(t, "The run is open again.").shows(t, "Confirm")
	left("485")
}

// Nothing but a form of the session makes a page say something.
func TestForgedNotices(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b, other := signIn(t, c), signIn(t, c)
	id := c.NewSpool(t, 500, nil)
	at := "/spools/" + id
	answer := b.get(t, at).submit(t, at+"/deduct", "weight_grams", "1").want(t, 303)
	cookie := answer.header.Get("Set-Cookie")
	for _, part := range []string{b.cookie(t) + "-notice=", "; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age=60"} {
		testkit.Contains(t, cookie, part, "the cookie")
	}
	sent := answer.header.Values("Set-Cookie")
	value := strings.TrimPrefix(strings.Split(sent[0], ";")[0], b.cookie(t)+"-notice=")
	put := func(b *browser, value string) {
		b.client.Jar.SetCookies(b.url(t, "/"), []*http.Cookie{{Name: b.cookie(t) + "-notice", Value: value, Path: "/"}})
	}
	for _, wrong := range []string{"", ".", value[1:], "x" + value, value + "x", strings.Split(value, ".")[0],
		strings.Split(value, ".")[0] + "."} {
		put(b, wrong)
		b.get(t, at).want(t, 200).says(t, "")
	}
	put(other, value) // of another session
	other.get(t, at).want(t, 200).says(t, "")
	put(b, value)
	b.get(t, "/spools").says(t, "") // another page
	b.get(t, at+"?notice=x&text=x").says(t, "Deducted 1 g from spool 1.")
	b.get(t, at).says(t, "")

	// What the script reads again does not use up the notice.
	put(b, value)
	b.header.Set("Sec-Fetch-Dest", "empty")
	b.get(t, at).says(t, "")
	b.header.Set("Sec-Fetch-Dest", "document")
	b.get(t, at).says(t, "Deducted 1 g from spool 1.")
}

// The ledger of a spool takes entries back, moves use to another spool, and says which entries belong together.
func TestLedger(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	id, right := c.NewSpool(t, 500, nil), c.NewSpool(t, 500, j{"color": "Red"})
	path, at := "/api/v1/spools/"+id, "/spools/"+id
	number := c.Get(t, "/api/v1/spools/"+right).Want(200).Text("number")
	entry := func() string {
		t.Helper()
		c.Post(t, path+"/deduct", j{"weight_grams": 40}).Want(200)
		return c.Get(t, path+"/usage?limit=1").Want(200).Text("items.0.id")
	}
	b.get(t, at).hides(t, "Take back", "Taken back") // the first entry

	first := entry()
	if p := b.get(t, at).shows(t, "Take back", "Move to another spool"); !strings.Contains(p.text,
		`<button form="back" name="entry" value="`+first+`">`) {
		t.Errorf("the entry has no button: %s", p.text)
	}
	b.get(t, at).submit(t, at+"/usage/reverse", "entry", first).to(t, at).
		shows(t, "Takes back the entry of", "Deducted Taken back").hides(t, "Take back", "Move to another spool")
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "500"})
	b.do(t, "POST", at+"/usage/reverse", url.Values{}).want(t, 404)
	b.do(t, "POST", at+"/usage/reverse", url.Values{"entry": {first}}).want(t, 422).
		shows(t, "already reversed this one")

	second := entry()
	move := at + "/usage/" + second + "/move"
	p := b.get(t, at+"?move="+second)
	for wrong, problem := range map[string]string{"": "Type the number", " ": "Type the number", "x": "number",
		"999": "does not name a spool", "1": "is one of this spool"} {
		p.submit(t, move, "spool_number", wrong).want(t, 422).shows(t, problem)
	}
	p.submit(t, move, "spool_number", b.base+"/s/"+number).to(t, at).
		says(t, "Moved to spool "+number+": −40 g.")
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "500"})
	c.Get(t, "/api/v1/spools/"+right).Shows(map[string]string{"remaining_weight_grams": "460"})
	b.get(t, "/spools/"+right).shows(t, "Moved here from another spool", "Take back")

	// What a run used leads to the run, and is corrected there.
	run := c.Post(t, "/api/v1/production-runs", j{"materials": []j{{"spool_id": id, "actual_weight_grams": 85}}}).
		Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	p = b.get(t, at).hides(t, "Take back")
	if !strings.Contains(p.text, `<a href="/runs/`+run+`">Production run</a>`) {
		t.Errorf("the ledger does not lead to the run: %s", p.words())
	}
	entry()
	signIn(t, tenant.User(t, "viewer")).get(t, at).want(t, 200).shows(t, "Taken back").hides(t, "Take back", "Move to")

	// A full ledger is not too large a page.
	for range 100 {
		c.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	}
	check(t, b.get(t, at).want(t, 200).shows(t, "Take back"))
}

// What was removed is found, and restored: from the notice, from the list, and at its address.
func TestRemoved(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b, viewer := signIn(t, c), signIn(t, tenant.User(t, "viewer"))
	id := newFarm(t, c)
	id["product"] = c.NewProduct(t, "Hook", 100) // no other product needs it
	c.NewOrder(t, id["product"], 1)
	c.Delete(t, "/api/v1/production-runs/"+id["failed"]).Want(204)
	b.get(t, "/runs/"+id["failed"]).want(t, 404).shows(t, "Removed", "Restore").
		submit(t, "/runs/"+id["failed"]+"/restore").to(t, "/runs/"+id["failed"]).says(t, "The run is restored.")
	for _, of := range []string{"spool", "filament", "vendor", "product", "printer", "order"} {
		list := "/" + of + "s"
		at := list + "/" + id[of]
		b.get(t, list+"/removed").want(t, 200).shows(t, "No "+of+" is removed.")
		removed := b.get(t, at+"/edit").submit(t, at+"/remove")
		if removed.status == 422 { // something needs it
			t.Errorf("%s: is not removed: %s", of, removed.words())
			continue
		}
		p := removed.to(t, list).says(t, "The "+of+" is removed.").shows(t, "Removed")
		restored := at
		if of == "vendor" {
			restored = list
		} else {
			check(t, b.get(t, at).want(t, 404).shows(t, "Restore", "Removed on", "by Test operator."))
			viewer.get(t, at).want(t, 404).shows(t, "by Test operator.").hides(t, "Restore")
		}
		p.take(t).to(t, restored).says(t, "The "+of+" is restored.")
		b.get(t, at+"/edit").submit(t, at+"/remove").want(t, 303)
		p = b.get(t, list+"/removed").want(t, 200)
		check(t, p)
		check(t, viewer.get(t, list+"/removed").want(t, 200).shows(t, "Test operator").hides(t, "Restore"))
		if of == "spool" {
			number := "1"
			b.get(t, "/s/"+number).want(t, 404).shows(t, "Removed", "Restore")
		}
		p.submit(t, at+"/restore").to(t, restored).says(t, "The "+of+" is restored.")
	}
	b.get(t, "/spools/01a213e8-b341-71b0-9ffb-6054bf035c8e").want(t, 404).shows(t, "Not found")

	// A page is found however many were removed later.
	first := c.NewSpool(t, 100, nil)
	tenant.Key(t, "operator").Delete(t, "/api/v1/spools/"+first).Want(204)
	for range 2 {
		var later []string
		for range 100 {
			later = append(later, c.NewSpool(t, 100, nil))
		}
		c.Do(t, "DELETE", "/api/v1/spools", j{"ids": later}).Want(200)
	}
	b.get(t, "/spools/"+first).want(t, 404).shows(t, "by Test operator.", "Restore")
	b.get(t, "/spools/removed").want(t, 200).shows(t, "of 201", "Next")
}
