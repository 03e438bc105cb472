package inventory_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const filaments = "/api/v1/filaments"

// filament returns the body of a POST with the required fields and the given ones.
func filament(fields j) j {
	body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75}
	maps.Copy(body, fields)
	return body
}

func TestFilaments(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	all := filament(j{"vendor": "Polymaker", "name": "PolyLite", "material_name": "PLA+", "color_hex": "#1A1A1A",
		"color_hexes": []string{"#1A1A1A", "#C0C0C0"}, "color_arrangement": "coaxial", "density_g_cm3": 1.24,
		"net_weight_grams": 1000, "spool_weight_grams": 140, "price": 24.99, "extruder_temperature_c": 215,
		"bed_temperature_c": 60, "article_number": "A1", "url": "https://shop.example/a?b=1#c",
		"external_id": "x", "notes": "n"})
	made := c.Post(t, filaments, all).Want(201)
	delete(all, "vendor")
	for name, value := range all {
		if name != "color_hexes" {
			made.Shows(map[string]string{name: fmt.Sprint(value)})
		}
	}
	vendor := made.Text("vendor_id")
	made.Shows(map[string]string{"number": "1", "vendor_name": "Polymaker", "spool_count": "0",
		"remaining_grams": "0"})
	path := filaments + "/" + made.ID()
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(made.Body), "the response of GET")
	c.Patch(t, path, string(made.Body)).Want(200).
		Shows(map[string]string{"vendor_id": vendor, "color_hexes.1": "#C0C0C0"})

	// A link is an address that a page can link to.
	for _, link := range []any{"", "shop.example/a", "javascript:alert(1)", "ftp://shop.example", "https://",
		"https:// x", "https://a@shop.example", "https://shop.example/a b", "https://shop.example/" + strings.Repeat("a", 1980), 1} {
		c.Patch(t, path, j{"url": link}).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": "url"})
	}
	c.Patch(t, path, j{"url": nil}).Want(200).Shows(map[string]string{"url": "null"})
	c.Patch(t, path, j{"url": "http://10.0.0.1:8080?a=ü"}).Want(200)

	// A vendor by name is the one that there is, or a new one.
	c.Post(t, filaments, filament(j{"vendor": "POLYMAKER"})).Want(201).
		Shows(map[string]string{"number": "2", "vendor_id": vendor, "vendor_name": "Polymaker", "color_hexes": "[]"})
	c.Post(t, filaments, filament(j{"vendor_id": vendor})).Want(201).
		Shows(map[string]string{"vendor_name": "Polymaker"})
	c.Post(t, filaments, filament(nil)).Want(201).Shows(map[string]string{"vendor_id": "null", "vendor_name": "null"})
	c.Patch(t, path, j{"vendor": "New"}).Want(200).Shows(map[string]string{"vendor_name": "New", "name": "PolyLite"})
	c.Patch(t, path, j{"vendor_id": nil, "color_hexes": []string{}}).Want(200).
		Shows(map[string]string{"vendor_name": "null", "color_hexes": "[]"})
	c.Patch(t, path, j{"vendor_id": vendor, "bed_temperature_c": nil}).Want(200).
		Shows(map[string]string{"vendor_name": "Polymaker", "bed_temperature_c": "null"})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "2", "items.0.name": "New", "items.0.number": "2"})

	// A vendor that filaments name is hidden, and no other filament can name it.
	c.Delete(t, vendors+"/"+vendor).Want(204)
	c.Get(t, path).Want(200).Shows(map[string]string{"vendor_id": vendor, "vendor_name": "Polymaker"})
	for _, id := range []string{vendor, value.NewID(), api.Operator(t).Post(t, vendors, j{"name": "x"}).Want(201).ID()} {
		c.Post(t, filaments, filament(j{"vendor_id": id})).WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, path, j{"vendor_id": id, "name": "x"}).WantError(400, "UNKNOWN_REFERENCE")
	}
	c.Get(t, path).Shows(map[string]string{"name": "PolyLite"})
	again := c.Post(t, filaments, filament(j{"vendor": "Polymaker"})).Want(201).Text("vendor_id")
	c.Post(t, vendors+"/"+vendor+"/restore", nil).WantError(409, "DUPLICATE_VENDOR")
	c.Patch(t, vendors+"/"+again, j{"name": "Poly"}).Want(200)
	c.Post(t, vendors+"/"+vendor+"/restore", nil).Want(200).Shows(map[string]string{"hidden_at": "null"})

	// A filament that nothing names is deleted.
	c.Delete(t, path).Want(204)
	for _, body := range []j{{}, {"name": "x"}, {"vendor": "Never"}} {
		c.Patch(t, path, body).WantError(404, "NOT_FOUND")
	}
	c.Get(t, filaments+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, vendors+"?name=never").Want(200).Shows(map[string]string{"total": "0"})

	c.Post(t, filaments, j{}).Fields("material_type", "color", "diameter_mm")
	c.Post(t, filaments, filament(j{"vendor": "x", "vendor_id": vendor, "color_hexes": []any{"red"}, "diameter_mm": 3,
		"color_arrangement": "x", "extruder_temperature_c": 1.5, "price": -1})).
		Fields("vendor", "color_hexes", "diameter_mm", "color_arrangement", "extruder_temperature_c", "price")
	c.Post(t, filaments, filament(j{"vendor": " ", "color_hexes": "#1A1A1A"})).Fields("vendor", "color_hexes")
	tenant.User(t, "viewer").Post(t, filaments, filament(nil)).WantError(403, "FORBIDDEN")
	api.Operator(t).Get(t, filaments).Want(200).Shows(map[string]string{"total": "0"})
	testkit.WantChecked(t, "filaments", "material_type", inventory.MaterialType("").Enum())
}

// A filament has the name that its vendor gets meanwhile.
func TestFilamentOfRenamedVendor(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	for _, named := range []string{"vendor_id", "vendor"} {
		for _, method := range []string{"POST", "PATCH"} {
			t.Run(method+" "+named, func(t *testing.T) {
				t.Parallel()
				c := api.Operator(t)
				vendor := c.Post(t, vendors, j{"name": "Prusa"}).Want(201).ID()
				path, body := filaments, filament(nil)
				if method == "PATCH" {
					path, body = filaments+"/"+c.Post(t, filaments, body).Want(201).ID(), j{}
				}
				body[named] = map[string]string{"vendor_id": vendor, "vendor": "prusa"}[named]
				h := c.Hold(t, `update vendors set name = 'PRUSA' where id = '`+vendor+`'`)
				var a *testkit.Response
				done := h.StartWaiting(1, func() { a = c.Do(t, method, path, body) })
				h.Commit()
				<-done
				c.Get(t, filaments+"/"+a.ID()).Want(200).Shows(map[string]string{"vendor_id": vendor, "vendor_name": "PRUSA"})
			})
		}
	}
}

// Concurrent requests name a new vendor: it is created once.
func TestConcurrentFilamentsOfNewVendor(t *testing.T) {
	t.Parallel()
	c := operator(t)
	testkit.Race(t, 10, func(int) (*testkit.Response, error) {
		return c.Send("POST", filaments, filament(j{"vendor": "Prusament"}))
	}).Want(t, map[string]int{"201": 10})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "1"})
	c.Get(t, filaments+"?vendor=prusament").Want(200).Shows(map[string]string{"total": "10"})
}

// Spools of a filament have its weights and price, unless the request has others.
func TestCreateFilamentSpools(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	made := c.Post(t, filaments, filament(j{"vendor": "V", "net_weight_grams": 750, "spool_weight_grams": 140,
		"price": 15})).Want(201)
	path := filaments + "/" + made.ID()
	a := c.Post(t, path+"/spools", j{"quantity": 2}).Want(201).Shows(map[string]string{"items.0.number": "1",
		"items.1.number": "2", "items.1.net_weight_grams": "750", "items.1.remaining_weight_grams": "750",
		"items.1.spool_weight_grams": "140", "items.1.purchase_price": "15", "items.0.filament_id": made.ID(),
		"items.0.brand": "V"})
	testkit.Equal(t, a.Header.Get("Location"), path, "the Location")
	c.Post(t, path+"/spools", j{"quantity": 1, "net_weight_grams": 1000, "remaining_weight_grams": 10,
		"spool_weight_grams": nil, "purchase_price": nil, "location": "A", "lot_number": "L", "supplier": "S",
		"purchase_date": "2024-01-10", "finish": "Matte", "notes": "n", "archived": true}).Want(201).
		Shows(map[string]string{"items.0.net_weight_grams": "1000", "items.0.remaining_weight_grams": "10",
			"items.0.spool_weight_grams": "null", "items.0.purchase_price": "null", "items.0.location": "A",
			"items.0.lot_number": "L", "items.0.supplier": "S", "items.0.purchase_date": "2024-01-10",
			"items.0.finish": "Matte", "items.0.notes": "n", "items.0.archived": "true"})
	c.Get(t, path).Want(200).Shows(map[string]string{"spool_count": "2", "remaining_grams": "1500"})
	wantLedgers(t, c)

	c.Post(t, path+"/spools", j{"quantity": 101, "net_weight_grams": 0}).Fields("quantity", "net_weight_grams")
	c.Post(t, path+"/spools", j{}).Fields("quantity")
	c.Post(t, path+"/spools", j{"quantity": 1, "color": "Red"}).Fields("color")
	bare := filaments + "/" + c.Post(t, filaments, filament(nil)).Want(201).ID()
	c.Post(t, bare+"/spools", j{"quantity": 1}).Fields("net_weight_grams")
	c.Delete(t, bare).Want(204)
	foreign := api.Operator(t).Post(t, filaments, filament(nil)).Want(201).ID()
	for _, id := range []string{value.NewID(), foreign, strings.TrimPrefix(bare, filaments+"/")} {
		c.Post(t, filaments+"/"+id+"/spools", j{"quantity": 1, "net_weight_grams": 1}).WantError(404, "NOT_FOUND")
	}
	tenant.User(t, "viewer").Post(t, path+"/spools", j{"quantity": 1}).WantError(403, "FORBIDDEN")
}
