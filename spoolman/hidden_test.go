package spoolman_test

import (
	"bytes"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// What was removed is in no response and in no export. A computed filament is like its first spool that is not
// removed.
func TestRemovedIsNowhere(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	c := p.operator
	// What others name is hidden when it is removed, and not deleted.
	const vendors, filaments = "/api/v1/vendors", "/api/v1/filaments"
	vendor := c.Post(t, vendors, j{"name": "Gone vendor"}).Want(201).ID()
	namesake := c.Post(t, vendors, j{"name": "Kept", "notes": "gone notes"}).Want(201).ID()
	filament := c.Post(t, filaments, j{"name": "Gone filament", "vendor_id": vendor, "material_type": "PLA",
		"material_name": "Gone PLA", "color": "Gone blue", "color_hex": "#0000ff", "diameter_mm": 1.75,
		"article_number": "Gone-1", "notes": "gone"}).Want(201).ID()
	second := c.Post(t, filaments, j{"name": "Gone too", "vendor_id": namesake, "material_type": "PLA",
		"color": "Gone green", "diameter_mm": 1.75}).Want(201).ID()
	spool := c.Post(t, spools, j{"filament_id": filament, "net_weight_grams": 1000}).Want(201).ID()
	c.Post(t, "/api/v1/custom-fields", j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201)
	gone := p.add(t, j{"brand": "Gone brand", "color": "Gone red", "color_hex": "#ff0000", "location": "Gone shelf",
		"lot_number": "Gone lot", "material_name": "Gone PETG", "notes": "gone", "extra": j{"tag": `"gone"`}})
	first := p.add(t, j{"brand": "Kept", "color": "White", "purchase_price": 11, "notes": "gone"})
	p.add(t, j{"brand": "Kept", "color": "White", "purchase_price": 22})
	for _, path := range []string{vendors + "/" + vendor, vendors + "/" + namesake, filaments + "/" + filament,
		filaments + "/" + second, spools + "/" + spool, gone, first} {
		c.Delete(t, path).Want(204)
	}
	for path, want := range map[string]string{vendors: "2", filaments: "1", spools: "3"} {
		c.Get(t, path+"?hidden=true").Want(200).Shows(map[string]string{"total": want})
	}
	for path, want := range map[string]string{
		"spool": "1", "spool?allow_archived=true": "1", "filament": "1", "filament?limit=1": "1", "vendor": "1",
		"vendor?limit=1": "1", "filament?sort=id:desc&limit=5": "1", "filament?material=gone": "0", "vendor?name=gone": "0",
		"spool/group?group_by=location": "", "spool/group?group_by=filament": "",
		"material": "", "location": "", "lot-number": "", "article-number": "", "field/spool/tag/values": "",
		"search?q=gone": "", "search?q=gone&allow_archived=true": "", "search?q=white": "", "search?q=%23ff0000": "",
		"search?q=%230000ff": "", "search?q=1": "",
	} {
		a := p.do(t, "GET", path, "")
		if a.status != 200 || strings.Contains(strings.ToLower(a.body), "gone ") ||
			strings.Contains(strings.ToLower(a.body), `"gone`) || strings.Contains(a.body, `"price":11`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if total := a.header.Get("X-Total-Count"); want != "" && !strings.Contains(path, "limit") && total != want {
			t.Errorf("%s: X-Total-Count %s, want %s: %s", path, total, want, a.body)
		}
	}
	a := p.want(t, "GET", "spool", "", 200)
	group, brand := at(t, strings.Trim(a.body, "[]"), "filament.id"),
		at(t, strings.Trim(a.body, "[]"), "filament.vendor.id")
	p.want(t, "GET", "filament/"+group, "", 200, `"price":22`)
	for _, path := range []string{"filament", "filament?limit=1", "filament?sort=id:desc&limit=1"} {
		p.want(t, "GET", path, "", 200, `"price":22`) // what was removed does not fill the page
	}
	p.want(t, "GET", "search?q=white&spools_per_filament=5", "", 200, `"spool_count":1`)
	p.want(t, "GET", "vendor/"+brand, "", 200, `"Kept"`)
	for _, path := range []string{"spool/1", "spool/2", "spool/3", "filament/1", "filament/2", "vendor/1", "vendor/2"} {
		p.want(t, "GET", path, "", 404)
	}
	var b bytes.Buffer
	testkit.Check(t, spoolman.Export(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), api.DB, &b))
	if text := strings.ToLower(b.String()); strings.Contains(text, "gone") || !strings.Contains(text, "kept") {
		t.Errorf("the export has what was removed: %s", text)
	}
}

// A spool that another request changes meanwhile is weighed after that change.
func TestMeasureOfChangedSpool(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	h := p.operator.Hold(t, `update spools set remaining_weight_grams = 700 where id = '`+path[len(spools)+1:]+`'`)
	answered := h.Start(1, func() { p.want(t, "PUT", "spool/1/measure", `{"weight":500}`, 200) })
	h.Commit()
	<-answered
	p.wantLedger(t, path, "created 0 1000", "measured 700 500")
}

// A report that waits for the removal of its spool does not find the spool. One of a spool whose printer is deleted
// meanwhile counts, and names no printer.
func TestReportWhileRemoved(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	h := p.operator.Hold(t, `update spools set hidden_at = now() where id = '`+path[len(spools)+1:]+`'`)
	answered := h.StartWaiting(1, func() { p.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 404) })
	h.Commit()
	<-answered
	p.operator.Post(t, path+"/restore", nil).Want(200)
	p.wantLedger(t, path, "created 0 1000")

	id := p.operator.Post(t, "/api/v1/printers", j{"name": "A"}).Want(201).ID()
	p.operator.Do(t, "PUT", "/api/v1/printers/"+id+"/slots/1", j{"spool_number": 1}).Want(200)
	h = p.operator.Hold(t, `delete from printers where id = '`+id+`'`)
	answered = h.StartWaiting(1, func() {
		p.want(t, "PUT", "spool/1/use", `{"use_weight": 10}`, 200, `"remaining_weight":990`)
	})
	h.Commit()
	<-answered
	p.operator.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "2", "items.0.printer_id": "null"})
}

// The removal of a vendor waits for what another request makes of it, and then takes the vendor from it.
func TestRemovedVendorOfChanges(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(vendor, filament, spool string) []string{
		"a filament": func(vendor, filament, _ string) []string {
			return []string{`select from vendors where id = '` + vendor + `' for share`,
				`update filaments set vendor_id = '` + vendor + `', vendor_name = 'V' where id = '` + filament + `'`}
		},
		"a spool": func(_, filament, spool string) []string {
			return []string{`select from filaments where id = '` + filament + `' for share`,
				`update spools set filament_id = '` + filament + `', brand = 'V' where id = '` + spool + `'`}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPrinter(t, start(t), "printer")
			c := p.operator
			vendor := c.Post(t, "/api/v1/vendors", j{"name": "V"}).Want(201).ID()
			body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75}
			if name == "a spool" {
				body["vendor_id"] = vendor
			}
			filament, spool := c.Post(t, "/api/v1/filaments", body).Want(201).ID(), p.add(t, nil)
			h := c.Hold(t, hold(vendor, filament, spool[len(spools)+1:])...)
			answered := h.StartWaiting(1, func() { p.want(t, "DELETE", "vendor/1", "", 200) })
			h.Commit()
			<-answered
			c.Get(t, "/api/v1/filaments/"+filament).Want(200).
				Shows(map[string]string{"vendor_id": "null", "vendor_name": "null"})
			c.Get(t, spool).Want(200).Shows(map[string]string{"brand": "null"})
		})
	}
}

// A filament has the weight of empty spools that its vendor gets meanwhile.
func TestFilamentOfChangedVendor(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	vendor := p.operator.Post(t, "/api/v1/vendors", j{"name": "V", "empty_spool_weight_grams": 140}).Want(201).ID()
	h := p.operator.Hold(t, `update vendors set empty_spool_weight_grams = 200 where id = '`+vendor+`'`)
	answered := h.StartWaiting(1, func() {
		p.want(t, "POST", "filament", `{"vendor_id": 1, "density": 1.24, "diameter": 1.75}`, 200, `"spool_weight":200`)
	})
	h.Commit()
	<-answered
}

// Reports of nothing, and new weights on a scale, which can change the initial weight, are edits of a spool.
func TestEditsOfSpools(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	path := p.add(t, nil)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 0}`, 200)
	p.operator.WantEdited(t, path[len(spools)+1:])
	p.want(t, "PUT", "spool/1/measure", `{"weight": 1100}`, 200, `"initial_weight":1100`)
	p.operator.WantEdited(t, path[len(spools)+1:])
}

// No request finds, changes or names a spool, filament or vendor that was removed.
func TestRemovedIsNotFound(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	c := p.operator
	vendor := c.Post(t, "/api/v1/vendors", j{"name": "V"}).Want(201).ID()
	filament := c.Post(t, "/api/v1/filaments", j{"vendor_id": vendor, "material_type": "PLA", "color": "Blue",
		"diameter_mm": 1.75}).Want(201).ID()
	c.Post(t, "/api/v1/custom-fields", j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201)
	c.Post(t, "/api/v1/spools", j{"filament_id": filament, "net_weight_grams": 1000, "location": "Shelf",
		"extra": j{"tag": "Shelf"}}).Want(201)
	p.add(t, j{"brand": "Loose"})
	loose := p.want(t, "GET", "spool/2", "", 200).body
	group, brand := at(t, loose, "filament.id"), at(t, loose, "filament.vendor.id")
	lists := []string{"vendors", "filaments", "spools"}
	for _, list := range lists {
		testkit.Check(t, api.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`update `+list+` set hidden_at = now()`)))
	}
	hidden := func() (all string) {
		for _, list := range lists {
			all += string(c.Get(t, "/api/v1/"+list+"?hidden=true").Want(200).Body)
		}
		return all
	}
	before := hidden()
	for _, kind := range []string{"vendor", "filament", "spool"} {
		for method, body := range map[string]string{"GET": "", "PATCH": `{"comment": "changed"}`, "DELETE": ""} {
			p.want(t, method, kind+"/1", body, 404)
		}
	}
	for _, path := range []string{"spool/2", "filament/" + group, "vendor/" + brand} {
		p.want(t, "GET", path, "", 404)
	}
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 404)
	p.want(t, "PUT", "spool/1/measure", `{"weight": 500}`, 404)
	p.want(t, "POST", "filament",
		`{"name": "N", "vendor_id": 1, "material": "PLA", "density": 1.24, "diameter": 1.75}`, 404)
	p.want(t, "POST", "filament", `{"name": "N", "vendor_id": `+brand+`, "density": 1.24, "diameter": 1.75}`, 404)
	p.want(t, "POST", "spool", `{"filament_id": 1}`, 404)
	p.want(t, "POST", "vendor", `{"name": "v", "comment": "new"}`, 200, `"id":2,`, `"comment":"new"`)
	p.want(t, "POST", "spool", `{"filament_id": `+group+`}`, 404)
	p.do(t, "PATCH", "location/Shelf", `{"name": "Other"}`)
	for _, field := range []string{"location", "extra.tag"} {
		p.want(t, "PATCH", "spool/field/"+field, `{"value": "Shelf", "new_value": "Other"}`, 200, `"spools_updated":0`)
	}
	testkit.Equal(t, hidden(), before, "what was removed")
}
