package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// A spool needs nothing but a filament, and changes with it.
func TestSpoolsFollowFilament(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	made := c.Post(t, filaments, filament(j{"vendor": "Polymaker", "color_hex": "#1A1A1A", "net_weight_grams": 750,
		"spool_weight_grams": 140, "price": 15, "density_g_cm3": 1.25, "material_name": "PLA-CF"})).Want(201)
	path, id := filaments+"/"+made.ID(), made.ID()
	followed := map[string]string{"filament_id": id, "material_type": "PLA", "brand": "Polymaker", "color": "Black",
		"material_name": "PLA-CF", "color_hex": "#1A1A1A", "diameter_mm": "1.75", "density_g_cm3": "1.25"}
	created := c.Post(t, spools, j{"filament_id": id}).Want(201).Shows(followed).Shows(map[string]string{
		"net_weight_grams": "750", "remaining_weight_grams": "750", "spool_weight_grams": "140",
		"purchase_price": "15", "cost_per_gram": "0.02"})
	spoolPath := spools + "/" + created.ID()
	c.Post(t, spools+"/batch", j{"quantity": 2, "filament_number": 1, "net_weight_grams": 1000, "purchase_price": nil,
		"remaining_weight_grams": 10, "color": "Black"}).Want(201)
	batch := c.Get(t, spools+"?filament_id="+id+"&search=polymaker").Want(200).Shows(map[string]string{"total": "3",
		"items.1.net_weight_grams": "1000", "items.1.purchase_price": "null", "items.1.spool_weight_grams": "140"})
	c.Get(t, path).Want(200).Shows(map[string]string{"spool_count": "3", "remaining_grams": "770"})
	c.Get(t, vendors+"/"+made.Text("vendor_id")).Want(200).
		Shows(map[string]string{"spool_count": "3", "remaining_grams": "770"})

	// The fields of the filament change with it, and with its vendor, and not otherwise.
	old := c.Get(t, spoolPath).Want(200)
	c.Patch(t, path, j{"material_type": "PETG", "material_name": "PETG+", "color": "Jet", "color_hex": nil,
		"diameter_mm": 2.85, "vendor": "Prusament", "density_g_cm3": 1.27, "price": 99, "net_weight_grams": 1}).Want(200)
	changed := map[string]string{"material_type": "PETG", "material_name": "PETG+", "brand": "Prusament", "color": "Jet",
		"color_hex": "null", "diameter_mm": "2.85", "density_g_cm3": "1.27", "purchase_price": "15",
		"net_weight_grams": "750"}
	now := c.Get(t, spoolPath).Want(200).Shows(changed)
	if !now.Time("updated_at").After(old.Time("updated_at")) || now.Header.Get("ETag") == old.Header.Get("ETag") {
		t.Errorf("updated_at was %s and is %s", old.Text("updated_at"), now.Text("updated_at"))
	}
	c.With("If-Match", old.Header.Get("ETag")).Patch(t, spoolPath, j{"notes": "x"}).
		WantError(412, "PRECONDITION_FAILED")
	c.Get(t, spools+"?color=jet&material_type=PETG&brand=prusament").Want(200).Shows(map[string]string{"total": "3"})
	c.Patch(t, path, j{"bed_temperature_c": 60, "color": "Jet"}).Want(200)
	c.Get(t, spoolPath).Want(200).Shows(map[string]string{"updated_at": now.Text("updated_at")})
	vendor := c.Get(t, path).Want(200).Text("vendor_id")
	c.Patch(t, vendors+"/"+vendor, j{"name": "Prusa"}).Want(200)
	c.Get(t, path).Want(200).Shows(map[string]string{"vendor_name": "Prusa"})
	c.Get(t, spoolPath).Want(200).Shows(map[string]string{"brand": "Prusa"})
	c.Patch(t, vendors+"/"+vendor, j{"name": "polymaker"}).WantError(409, "DUPLICATE_VENDOR")

	// A spool cannot differ from its filament; the values that it has may be sent.
	current := c.Get(t, spoolPath).Want(200)
	for name, value := range map[string]any{"material_type": "PLA", "material_name": nil, "brand": nil, "color": "Red",
		"color_hex": "#000000", "diameter_mm": 1.75, "density_g_cm3": nil} {
		for _, body := range []j{
			{name: value}, {name: value, "filament_id": id}, {name: value, "filament_number": 1},
		} {
			a := c.Patch(t, spoolPath, body).WantError(409, "FILAMENT_FIELD")
			a.Shows(map[string]string{"errors.0.field": name})
			if !strings.Contains(a.Text("detail"), name) {
				t.Errorf("%s", a.Body)
			}
		}
		c.Patch(t, spools, j{"filter": j{"brand": "prusa"}, "changes": j{name: value}}).
			WantError(409, "FILAMENT_FIELD")
		if value != nil {
			c.Post(t, spools, j{"filament_id": id, name: value}).WantError(409, "FILAMENT_FIELD")
		}
	}
	delete(changed, "brand")
	c.Patch(t, spoolPath, string(current.Body)).Want(200).Shows(changed).Shows(map[string]string{"filament_id": id})
	c.Patch(t, spoolPath, j{"color": "Jet", "notes": "n"}).Want(200).Shows(map[string]string{"notes": "n"})

	// Attach and detach.
	own := spools + "/" + c.Post(t, spools, spool(j{"brand": "Own"})).Want(201).ID()
	c.Patch(t, own, j{"filament_number": 1, "location": "A"}).Want(200).
		Shows(map[string]string{"filament_id": id, "brand": "Prusa", "color": "Jet", "net_weight_grams": "1000"})
	c.Patch(t, own, j{"filament_id": nil, "color": "Red"}).Want(200).
		Shows(map[string]string{"filament_id": "null", "brand": "Prusa", "color": "Red", "location": "A"})
	c.Patch(t, spools, j{"numbers": []int{4}, "changes": j{"filament_id": id, "notes": "b"}}).Want(200).
		Shows(map[string]string{"changed": "1"})
	c.Get(t, own).Want(200).Shows(map[string]string{"filament_id": id, "color": "Jet", "notes": "b"})
	c.Patch(t, spools, j{"numbers": []int{4}, "changes": j{"filament_id": nil, "color": "Blue"}}).Want(200)
	c.Patch(t, path, j{"color": "Coal"}).Want(200)
	c.Get(t, own).Want(200).Shows(map[string]string{"filament_id": "null", "color": "Blue"})
	c.Get(t, spools+"/"+batch.Text("items.0.id")).Want(200).Shows(map[string]string{"color": "Coal"})

	// Bad input, other tenants, roles.
	foreign := api.Operator(t).Post(t, filaments, filament(nil)).Want(201).ID()
	for _, body := range []j{{"filament_id": value.NewID()}, {"filament_id": foreign}, {"filament_number": 9}} {
		a := c.Post(t, spools, body).WantError(400, "UNKNOWN_REFERENCE")
		for name := range body {
			a.Shows(map[string]string{"errors.0.field": name})
		}
		c.Patch(t, own, body).WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, spools, j{"numbers": []int{4}, "changes": body}).WantError(400, "UNKNOWN_REFERENCE")
	}
	c.Post(t, spools, j{"filament_id": id, "filament_number": 1}).Fields("filament_number")
	c.Post(t, spools, j{"filament_id": nil}).Fields("material_type", "color", "diameter_mm", "net_weight_grams")
	c.Patch(t, own, j{"color": nil}).Fields("color")
	bare := c.Post(t, filaments, filament(nil)).Want(201).ID()
	c.Post(t, spools, j{"filament_id": bare}).Fields("net_weight_grams")
	c.Post(t, spools, j{"filament_id": bare, "net_weight_grams": 5}).Want(201)
	tenant.User(t, "viewer").Post(t, spools, j{"filament_id": id}).WantError(403, "FORBIDDEN")

	// A filament with spools is hidden. No other spool can have it, and its spools still follow its vendor.
	c.Delete(t, path).Want(204)
	c.Get(t, filaments+"?hidden=true").Want(200).Shows(map[string]string{"total": "1", "items.0.id": id})
	c.Post(t, spools, j{"filament_id": id}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, spoolPath, j{"color": "Red"}).WantError(409, "FILAMENT_FIELD")
	c.Patch(t, spoolPath, j{"location": "B", "color": "Coal"}).Want(200).Shows(map[string]string{"location": "B"})
	c.Patch(t, vendors+"/"+vendor, j{"name": "Pru"}).Want(200)
	c.Get(t, spoolPath).Want(200).Shows(map[string]string{"brand": "Pru"})
	c.Post(t, path+"/restore", nil).Want(200).Shows(map[string]string{"vendor_name": "Pru", "spool_count": "3"})
}

// While a filament changes, spools of it are created and attached: all of them follow it in the end.
func TestSpoolsFollowConcurrently(t *testing.T) {
	t.Parallel()
	c := operator(t)
	id := c.Post(t, filaments, filament(j{"net_weight_grams": 500})).Want(201).ID()
	var numbers []any
	for range 5 {
		numbers = append(numbers, c.Post(t, spools, spool(nil)).Want(201).Value("number"))
	}
	failed := make(chan string, 100)
	send := func(method, path string, body any) {
		a, err := c.Send(method, path, body)
		if err != nil || a.Status >= 300 {
			failed <- fmt.Sprint(err, a)
		} else {
			failed <- ""
		}
	}
	n := 0
	for i := range 10 {
		go send("PATCH", filaments+"/"+id, j{"color": fmt.Sprint("Color ", i)})
		go send("POST", spools, j{"filament_id": id})
		go send("PATCH", spools, j{"numbers": numbers, "changes": j{"filament_id": id}})
		go send("PATCH", spools, j{"numbers": numbers, "changes": j{"filament_id": nil}})
		n += 4
	}
	for range n {
		if problem := <-failed; problem != "" {
			t.Error(problem)
		}
	}
	color := c.Get(t, filaments+"/"+id).Want(200).Text("color")
	for _, item := range c.Get(t, spools+"?limit=100&filament_id="+id).Want(200).List("items") {
		if got := item.(map[string]any)["color"]; got != color {
			t.Errorf("a spool is %s, want %s", got, color)
		}
	}
}

// A spool has what its filament gets meanwhile.
func TestSpoolOfChangedFilament(t *testing.T) {
	t.Parallel()
	c := operator(t)
	own := c.Post(t, spools, spool(nil)).Want(201).ID()
	for name, send := range map[string]func(id string) *testkit.Response{
		"create": func(id string) *testkit.Response { return c.Post(t, spools, j{"filament_id": id}) },
		"attach": func(id string) *testkit.Response { return c.Patch(t, spools+"/"+own, j{"filament_id": id}) },
		"import": func(id string) *testkit.Response {
			return c.With("Content-Type", "text/csv").Post(t, spools+"/import", "filament_id\n"+id+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.Post(t, filaments, filament(j{"net_weight_grams": 500})).Want(201).ID()
			h := c.Hold(t, `update filaments set color = 'Jet' where id = '`+id+`'`)
			var a *testkit.Response
			done := h.StartWaiting(1, func() { a = send(id) })
			h.Commit()
			if <-done; a.Status >= 300 {
				t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
			}
			c.Get(t, spools+"?filament_id="+id).Want(200).Shows(map[string]string{"total": "1", "items.0.color": "Jet"})
		})
	}
}

// A spool that gets a filament meanwhile does not differ from it.
func TestChangeOfAttachedSpool(t *testing.T) {
	t.Parallel()
	c := operator(t)
	id := c.Post(t, filaments, filament(j{"color": "Red"})).Want(201).ID()
	own := c.Post(t, spools, spool(nil)).Want(201).ID()
	h := c.Hold(t, `update spools set filament_id = '`+id+`', color = 'Red' where id = '`+own+`'`)
	var a *testkit.Response
	done := h.StartWaiting(1, func() { a = c.Patch(t, spools+"/"+own, j{"color": "Blue"}) })
	h.Commit()
	<-done
	a.WantError(409, "FILAMENT_FIELD")
	c.Get(t, spools+"/"+own).Want(200).Shows(map[string]string{"filament_id": id, "color": "Red"})
}

// A change of a filament locks its spools in the order of their ids, as other changes of several spools do, so that no
// two of them wait for each other.
func TestSpreadLocksSpoolsInOrder(t *testing.T) {
	t.Parallel()
	c := operator(t)
	id := c.Post(t, filaments, filament(j{"net_weight_grams": 500})).Want(201).ID()
	created := c.Post(t, filaments+"/"+id+"/spools", j{"quantity": 2}).Want(201)
	first, second := created.Text("items.0.id"), created.Text("items.1.id")
	c.Patch(t, spools+"/"+first, j{"location": "A"}).Want(200) // so that it is behind the other in the table
	h := c.Hold(t, `select from spools where id = '`+first+`' for update`)
	var a *testkit.Response
	done := h.StartWaiting(1, func() { a = c.Patch(t, filaments+"/"+id, j{"color": "Jet"}) })
	// This fails if the change, which waits for the first spool, has locked the second.
	c.Hold(t, `select from spools where id = '`+second+`' for no key update nowait`).Commit()
	h.Commit()
	<-done
	a.Want(200)
	c.Get(t, spools+"?color=jet").Want(200).Shows(map[string]string{"total": "2"})
}

// A change that would change too many spools is refused.
func TestSpreadLimit(t *testing.T) {
	t.Parallel()
	c := operator(t)
	made := c.Post(t, filaments, filament(j{"vendor": "V", "net_weight_grams": 1})).Want(201)
	path := filaments + "/" + made.ID()
	rows := "filament_id\n" + strings.Repeat(made.ID()+"\n", 2001)
	c.With("Content-Type", "text/csv").Post(t, spools+"/import", rows).Want(200)
	c.Patch(t, path, j{"color": "x", "density_g_cm3": 1, "notes": "x"}).Fields("color", "density_g_cm3")
	c.Patch(t, path, j{"vendor": "x"}).Fields("vendor")
	c.Patch(t, vendors+"/"+made.Text("vendor_id"), j{"name": "x"}).Fields("name")
	c.Patch(t, path, j{"notes": "n"}).Want(200).Shows(map[string]string{"color": "Black", "vendor_name": "V"})
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "1", "items.0.spool_count": "2001"})
	spool := c.Get(t, spools+"?limit=1").Want(200).Text("items.0.id")
	c.Post(t, spools+"/"+spool+"/deduct", j{"weight_grams": 1}).Want(200)
	c.Patch(t, path, j{"color": "x"}).Want(200)
	c.Get(t, spools+"?color=x").Want(200).Shows(map[string]string{"total": "2001"})
}
