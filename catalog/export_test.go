package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// An export has the values that the API returns. In CSV, a product has a row for each entry of its bill of materials.
func TestExport(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, catalog.Routes)
	c := api.Operator(t)
	api.Operator(t).Post(t, "/api/v1/products", testkit.JSON{"name": "Somebody else's"}).Want(201)
	wing := c.Post(t, "/api/v1/products", testkit.JSON{"name": "Wing, left", "notes": ""}).Want(201).ID()
	dragon := c.Post(t, "/api/v1/products", testkit.JSON{"name": "Dragon", "sku": "D \"1\""}).Want(201).ID()
	gone := c.Post(t, "/api/v1/products", testkit.JSON{"name": "Gone"}).Want(201).ID()
	c.Delete(t, "/api/v1/products/"+gone).Want(204)
	path := "/api/v1/products/" + dragon
	c.Post(t, path+"/materials", testkit.JSON{"material_type": "PLA", "color": "Red", "weight_grams": 45.5}).
		Want(201)
	c.Post(t, path+"/materials", testkit.JSON{"material_type": "PETG", "color": "Red", "weight_grams": 1}).Want(201)
	c.Post(t, path+"/components", testkit.JSON{"component_product_id": wing, "quantity": 2}).Want(201)

	c.WantExported(t, products, nil, wing, dragon)
	rows := c.Exported(t, products, "csv")
	if len(rows) != 5 {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	if !strings.HasPrefix(rows[0], "id,name,description,sku,category,estimated_print_time_minutes,labour_minutes,"+
		"pieces_per_plate,selling_price,notes,materials.id,materials.material_type,") ||
		!strings.Contains(rows[0], ",components.quantity,") {
		t.Errorf("the header is %s", rows[0])
	}
	for i, want := range []string{
		wing + `,"Wing, left",,,,,,,,"",,`, dragon + `,Dragon,,"D ""1""",,,,,,,`, dragon + `,Dragon,,`, dragon + `,Dragon,,`,
	} {
		if !strings.HasPrefix(rows[i+1], want) {
			t.Errorf("row %d is %s, want %s", i+1, rows[i+1], want)
		}
	}
	for i, want := range []string{",PLA,Red,45.5,true,", ",PETG,Red,1,true,", "," + wing + `,"Wing, left",2,`} {
		if !strings.Contains(rows[i+2], want) {
			t.Errorf("row %d is %s, without %s", i+2, rows[i+2], want)
		}
	}
	if err := catalog.Export(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), api.DB, &strings.Builder{},
		"xml", catalog.ProductFilter{}); err == nil {
		t.Error("the format xml is accepted")
	}
}

// sizes counts the writes of an export, and the bytes of the largest one.
type sizes struct{ lines, bytes, largest int }

func (s *sizes) Write(b []byte) (int, error) {
	s.lines += strings.Count(string(b), "\n")
	s.bytes += len(b)
	s.largest = max(s.largest, len(b))
	return len(b), nil
}

// An export of products with long texts and lists needs little memory: it reads few products at a time, and writes the
// rows of a product, each of which has the product's own texts, one by one.
func TestExportOfLongProducts(t *testing.T) {
	t.Parallel()
	api, trips := newCountingAPI(t)
	c := api.Operator(t)
	insert(t, c, `insert into products (id, name, description, notes)
		select uuid_v7(), 'P' || n, repeat('d', 1000), repeat('n', 1000) from generate_series(1, 9) n`)
	for n := range 9 { // a statement for each product: on a busy machine, one for all could take longer than 8 s
		insert(t, c, fmt.Sprintf(`insert into product_materials (id, product_id, material_type, color, weight_grams, notes)
			select uuid_v7(), p.id, 'PLA', 'Black', n, repeat('m', 700) from products p, generate_series(1, 500) n
			where p.name = 'P%d'`, n+1))
	}
	for format, lines := range map[server.ExportFormat]int{"csv": 1 + 9*500, "jsonl": 9} {
		var s sizes
		before := trips.Load()
		testkit.Check(t, catalog.Export(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), api.DB, &s, format,
			catalog.ProductFilter{}))
		if pages := trips.Load() - before; s.lines != lines || pages != 3 {
			t.Errorf("%s: %d lines of %d pages, want %d of 3", format, s.lines, pages, lines)
		}
		if format == "csv" && (s.bytes < 12_000_000 || s.largest > 30_000) {
			t.Errorf("%d bytes, of which %d at a time", s.bytes, s.largest)
		}
	}
}
