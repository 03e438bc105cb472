package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// Filaments are made of the groups of equal spools, once.
func TestFilamentsFromSpools(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "operator"), api.Operator(t)
	theirs := other.Post(t, spools, spool(j{"brand": "Poly"})).Want(201).ID()
	const path = filaments + "/from-spools"
	c.Post(t, path, nil).Want(200).Shows(map[string]string{"spools_changed": "0", "items": "[]"})
	add := func(fields j) string { return spools + "/" + c.Post(t, spools, spool(fields)).Want(201).ID() }
	own := c.Post(t, filaments, filament(j{"color": "Own", "material_name": "PLA+"})).Want(201)
	one := add(j{"brand": "Poly", "color_hex": "#aa0000", "density_g_cm3": 1.25})
	two := add(j{"brand": "POLY", "color": "black", "color_hex": "#AA0000", "density_g_cm3": 1.25, "archived": true,
		"net_weight_grams": 750, "spool_weight_grams": 140, "purchase_price": 15})
	add(j{"brand": "Poly", "color_hex": "#aa0000"})
	add(j{"brand": "", "color": "Own"})
	hidden := add(j{"brand": "Hidden"})
	c.Delete(t, hidden).Want(204)
	before := c.Get(t, one).Want(200)

	dry := c.Post(t, path, j{"dry_run": true}).Want(200).Shows(map[string]string{"dry_run": "true",
		"vendors_created": "1", "filaments_created": "3", "spools_changed": "4", "has_more": "false",
		"items.0.id": "null", "items.0.number": "null", "items.0.action": "created", "items.0.spools": "2"})
	c.Get(t, filaments).Want(200).Shows(map[string]string{"total": "1"})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "0"})
	testkit.Equal(t, c.Get(t, one).Header.Get("ETag"), before.Header.Get("ETag"), "a dry run changes a spool")
	done := c.Post(t, path, nil).Want(200).Shows(map[string]string{"dry_run": "false", "vendors_created": "1",
		"filaments_created": "3", "spools_changed": "4", "items.0.number": "2", "items.2.number": "4",
		"items.0.vendor_name": "POLY", "items.2.vendor_name": "null", "items.2.color": "Own"})
	if a, b := len(dry.List("items")), len(done.List("items")); a != 3 || b != 3 {
		t.Errorf("%d and %d items, want 3", a, b)
	}
	id := done.Text("items.0.id")
	c.Get(t, filaments+"/"+id).Want(200).Shows(map[string]string{"vendor_name": "POLY", "color": "black",
		"color_hex": "#AA0000", "net_weight_grams": "750", "spool_weight_grams": "140", "price": "15",
		"density_g_cm3": "1.25", "spool_count": "1", "extruder_temperature_c": "null", "name": "null"})
	c.Get(t, one).Want(200).Shows(map[string]string{"filament_id": id, "brand": "POLY", "color": "black",
		"color_hex": "#AA0000", "net_weight_grams": "1000"})
	c.Get(t, two).Want(200).Shows(map[string]string{"filament_id": id})
	c.Get(t, spools+"?hidden=true").Want(200).Shows(map[string]string{"items.0.filament_id": "null"})
	c.Get(t, filaments+"/"+own.ID()).Want(200).Shows(map[string]string{"spool_count": "0"})

	// Repeated, it makes nothing; a new equal spool gets the filament that there is.
	c.Post(t, path, nil).Want(200).Shows(map[string]string{"filaments_created": "0", "spools_changed": "0"})
	more := add(j{"brand": "poly", "color": "BLACK", "color_hex": "#aa0000", "density_g_cm3": 1.25})
	c.Post(t, path, nil).Want(200).Shows(map[string]string{"filaments_created": "0", "vendors_created": "0",
		"spools_changed": "1", "items.0.action": "unchanged", "items.0.id": id, "items.0.color": "black"})
	c.Get(t, more).Want(200).Shows(map[string]string{"filament_id": id, "brand": "POLY", "color": "black"})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "1"})
	other.Get(t, spools+"/"+theirs).Want(200).Shows(map[string]string{"filament_id": "null"})
	other.Get(t, filaments).Want(200).Shows(map[string]string{"total": "0"})
	tenant.User(t, "viewer").Post(t, path, nil).WantError(403, "FORBIDDEN")
	c.Post(t, path, j{"dry_run": 1}).Fields("dry_run")
}

// Spools have what the filament that they get has meanwhile.
func TestChangedFilamentOfSpools(t *testing.T) {
	t.Parallel()
	c := operator(t)
	id := c.Post(t, filaments, filament(nil)).Want(201).ID()
	made := c.Post(t, spools, spool(nil)).Want(201).ID()
	h := c.Hold(t, `update filaments set color = 'BLACK' where id = '`+id+`'`)
	done := h.StartWaiting(1, func() { c.Post(t, filaments+"/from-spools", nil) })
	h.Commit()
	<-done
	c.Get(t, spools+"/"+made).Want(200).Shows(map[string]string{"filament_id": id, "color": "BLACK"})
}

// Concurrent requests make each filament once, and a request changes at most 2,000 spools.
func TestFilamentsFromManySpools(t *testing.T) {
	t.Parallel()
	c := operator(t)
	rows := header + "\n" + strings.Repeat("PLA,Black,1.75,1\nPETG,Red,1.75,1\n", 1001)
	c.With("Content-Type", "text/csv").Post(t, spools+"/import", rows).Want(200)
	const path = filaments + "/from-spools"
	c.Post(t, path, j{"dry_run": true}).Want(200).
		Shows(map[string]string{"spools_changed": "2000", "has_more": "true"})
	results := make(chan string, 4)
	for range cap(results) {
		go func() {
			a, err := c.Send("POST", path, nil)
			if err != nil || a.Status != 200 {
				results <- fmt.Sprint(err, a)
			} else {
				results <- ""
			}
		}()
	}
	for range cap(results) {
		if problem := <-results; problem != "" {
			t.Error(problem)
		}
	}
	c.Get(t, filaments+"?sort_order=asc").Want(200).Shows(map[string]string{"total": "2", "items.0.color": "Black",
		"items.0.spool_count": "1001", "items.1.spool_count": "1001"})
}
