package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func importProducts(t *testing.T, c *testkit.Client, query, file string) *testkit.Response {
	t.Helper()
	return c.With("Content-Type", "text/csv").Post(t, products+"/import?"+query, file)
}

func imported(created, updated, unchanged, skipped int) map[string]string {
	return map[string]string{"created": fmt.Sprint(created), "updated": fmt.Sprint(updated),
		"unchanged": fmt.Sprint(unchanged), "skipped": fmt.Sprint(skipped)}
}

func exportProducts(t *testing.T, c *testkit.Client) string {
	t.Helper()
	return string(c.Get(t, products+"/export").Want(200).Body)
}

// semicolons returns a CSV file as a spreadsheet of a country with decimal commas saves it.
func semicolons(file string) string {
	header, rows, _ := strings.Cut(file, "\n")
	return strings.ReplaceAll(header, ",", ";") + "\n" +
		strings.NewReplacer(`""`, "", ",", ";", ".", ",", "true", "TRUE").Replace(rows)
}

// An export that is imported again changes nothing; edited cells change the products and their materials.
func TestImportOfAnExport(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	createSpool(t, c, "PLA", "Black", 20)
	wing := c.Post(t, products, j{"name": "Wing", "notes": ""}).Want(201)
	dragon := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "estimated_print_time_minutes": 90,
		"labour_minutes": 2.5, "pieces_per_plate": 4, "selling_price": 19.9,
		"materials": []j{
			{"material_type": "PLA", "color": "Black", "weight_grams": 45.5, "notes": "Body"},
			{"material_type": "PLA", "color": "Black", "weight_grams": 10, "is_required": false},
		}, "components": []j{{"component_product_id": wing.ID(), "quantity": 2}}}).Want(201)
	path := products + "/" + dragon.ID()
	c.Post(t, products, j{"name": "Tower", "components": []j{{"sku": "DRG"}}}).Want(201)
	before := exportProducts(t, c)
	for _, file := range []string{before, semicolons(before)} {
		for _, query := range []string{"mode=update", "mode=upsert", "mode=update&dry_run=true"} {
			importProducts(t, c, query, file).Want(200).Shows(imported(0, 0, 3, 0)).Shows(map[string]string{
				"rows.1.row": "3", "rows.1.id": dragon.ID(), "rows.1.sku": "DRG", "rows.1.action": "unchanged",
				"rows.2.row": "6", "rows.2.sku": "null"})
		}
	}
	testkit.Equal(t, exportProducts(t, c), before, "the imports have changed")

	// A renamed product, another weight of its second material, and a new material.
	edited := strings.Replace(before, ",10,false,", ",12.5,false,", 1)
	edited = strings.ReplaceAll(edited, dragon.ID()+",Dragon,", dragon.ID()+",Drake,")
	edited = strings.ReplaceAll(edited, ",90,2.5,4,19.9,", ",90,3,5,,")
	line := strings.Split(strings.Split(edited, "\n")[2], ",")
	for i := range line {
		switch {
		case i == 10:
			line[i] = ""
		case i == 12:
			line[i] = "Red"
		case i > 13:
			line[i] = ""
		}
	}
	edited += strings.Join(line, ",") + "\n"
	importProducts(t, c, "mode=update&dry_run=true", edited).Want(200).Shows(imported(0, 1, 2, 0)).
		Shows(map[string]string{"dry_run": "true", "rows.1.action": "updated"})
	testkit.Equal(t, exportProducts(t, c), before, "a dry run changes products")
	importProducts(t, c, "mode=update", edited).Want(200).Shows(imported(0, 1, 2, 0))
	changed := c.Get(t, path).Want(200).Shows(map[string]string{"name": "Drake", "sku": "DRG",
		"estimated_print_time_minutes": "90", "labour_minutes": "3", "pieces_per_plate": "5",
		"selling_price": "null", "materials.0.notes": "Body", "materials.1.weight_grams": "12.5",
		"materials.1.cost": "0.25", "materials.2.color": "Red", "materials.2.weight_grams": "45.5",
		"materials.2.is_required": "true", "components.0.quantity": "2", "material_cost": "2.07"})
	changed.WantLen(t, "materials", 3)
	c.Get(t, products+"?search=Tower").Shows(map[string]string{"items.0.total_cost": "2.07"})
	c.Get(t, products+"/"+wing.ID()).Shows(map[string]string{"notes": ""})

	// A weight of 0 removes a material; without ids, the type and the color name it.
	importProducts(t, c, "mode=update", "sku,materials.material_type,materials.color,materials.weight_grams\n"+
		"DRG,pla,red,0\n").Want(200).Shows(imported(0, 1, 0, 0))
	importProducts(t, c, "mode=update", "id,materials.id,materials.weight_grams\n"+
		dragon.ID()+","+changed.Text("materials.0.id")+",0\n").Want(200).Shows(imported(0, 1, 0, 0))
	c.Get(t, path).Shows(map[string]string{"material_cost": "0.25"}).WantLen(t, "materials", 1)
	importProducts(t, c, "mode=upsert", "sku,name,materials.material_type,materials.color,materials.weight_grams\n"+
		"DRG,Drake,PLA,Black,25\nNEW,New,PLA,Black,1\nNEW,New,PLA,Black,2\n,Other,,,\n,Drake,PETG,Red,1\n").Want(200).
		Shows(imported(3, 1, 0, 0))
	c.Get(t, path).Shows(map[string]string{"material_cost": "0.5"}).WantLen(t, "materials", 1)
	c.Get(t, products+"?sku=new").Shows(map[string]string{"total": "1", "items.0.material_cost": "0.06"})

	// The export of one tenant is imported into another one.
	file := exportProducts(t, c)
	importProducts(t, other, "mode=update", file).Fields("line 2", "line 3", "line 5", "line 6", "line 8", "line 9")
	importProducts(t, other, "", file).Fields("line 3", "line 5") // components
	lines := strings.Split(file, "\n")
	file = strings.Join(append(append(lines[:2:2], lines[2]), lines[5:]...), "\n")
	importProducts(t, other, "mode=create", file).Want(200).Shows(imported(5, 0, 0, 0))
	importProducts(t, other, "dry_run=true", "name\nA\nB\nA\n").Want(200).Shows(imported(2, 0, 0, 0)).
		Shows(map[string]string{"rows.0.id": "null"})
	other.Get(t, products).Shows(map[string]string{"total": "5"})
}

// A file with an invalid row changes nothing.
func TestImportOfInvalidProducts(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "operator"), api.Operator(t)
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	a := c.Post(t, products, j{"name": "A", "sku": "A", "materials": []j{material, material}}).Want(201)
	b := c.Post(t, products, j{"name": "B", "sku": "B", "materials": []j{material}}).Want(201).ID()
	removed := c.Post(t, products, j{"name": "G", "sku": "G"}).Want(201).ID()
	c.Delete(t, products+"/"+removed).Want(204)
	theirs := other.Post(t, products, j{"name": "T", "sku": "T"}).Want(201).ID()
	before := exportProducts(t, c)
	const columns = "sku,materials.id,materials.material_type,materials.color,materials.weight_grams,name\n"
	for _, test := range []struct{ mode, file, want string }{
		{"create", "sku\nX\n", "line 1: the column name is missing"},
		{"create", "name,sku\nX,A\n", "line 2: sku is that of another product"},
		{"create", "name,sku,category\nX,X,1\nY,Y,1\nX,X,2\n", "line 4: category differs from line 2"},
		{"create", "name,materials.color\nX,Red\n",
			"line 2: materials.material_type is required; materials.weight_grams is required"},
		{"create", "name,components.component_product_id\nX," + b + "\n",
			"line 2: components.component_product_id must"},
		{"create", "name,wheel\nX,1\n", "line 1: unknown column \"wheel\""},
		{"create", "name,materials.material_type\nX,Wood\n", "line 2: materials.material_type must be one of"},
		{"update", "name\nX\n", "line 1: no column names the resources to change: add a column id or sku"},
		{"update", "sku,name\nA,x\nG,x\n", "line 3: sku is not the SKU of a product"},
		{"update", "id,name\n" + theirs + ",x\n", "line 2: id is not the id of a product"},
		{"upsert", "id,name\n" + removed + ",x\n", "line 2: id is not the id of a product"},
		{"update", "id,name\nx,x\n", "line 2: id must be a UUID"},
		{"update", "id,sku,name\n" + b + ",B,x\n,B,x\n", "line 3: row names the product of line 2"},
		{"update", "id,sku\n" + b + ",A\n", "line 2: sku is that of another product"},
		{"upsert", "id,sku,name\n" + b + ",X,x\n,X,x\n", "line 3: sku is that of line 2"},
		{"update", "sku,name\nA,\n", "line 2: name must not be empty"},
		{"upsert", "sku,notes\nX,x\n", "line 2: name is required"},
		{"update", columns + "A,,PLA,black,2,A\n", "line 2: materials.id is required"},
		{"update", columns + "B,,PLA,black,2,B\nB,,PLA,Black,3,B\n", "line 3: materials.id is that of line 2"},
		{"update", columns + "B," + a.Text("materials.0.id") + ",PLA,Black,2,B\n", "line 2: materials.id is not"},
		{"update", columns + "B,,PLA,Red,0,B\n", "line 2: materials.weight_grams must be greater than 0"},
		{"update", columns + "A," + a.Text("materials.0.id") + ",PLA,,2,A\n",
			"line 2: materials.color must not be empty"},
		{"update", columns + "B,,PLA,Red," + strings.Repeat("\"", 2) + ",B\n",
			"line 2: materials.weight_grams is required"},
	} {
		r := importProducts(t, c, "mode="+test.mode, test.file).WantError(422, "VALIDATION_ERROR")
		if got := r.Text("errors.0.field") + ": " + r.Text("errors.0.message"); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %q: %s, want %s", test.mode, test.file, got, test.want)
		}
	}
	many := columns
	for i := range 500 {
		many += fmt.Sprintf("B,,PLA,Red %d,1,B\n", i)
	}
	importProducts(t, c, "mode=update", many).Fields("line 2")
	c.Post(t, spools, j{"material_type": "PC", "color": "Clear", "diameter_mm": 1.75, "net_weight_grams": 0.001,
		"purchase_price": 999_999}).Want(201)
	importProducts(t, c, "mode=update", columns+"B,,PC,Clear,1000,B\n").Fields("materials.weight_grams")
	importProducts(t, c, "mode=replace", "name\nx\n").Fields("mode")
	importProducts(t, tenant.User(t, "viewer"), "", "name\nx\n").WantError(403, "FORBIDDEN")
	testkit.Equal(t, exportProducts(t, c), before, "the imports have changed")
	// Products can exchange their SKUs.
	importProducts(t, c, "mode=update", "id,sku\n"+a.ID()+",B\n"+b+",A\n").Want(200).Shows(imported(0, 2, 0, 0))
	c.Get(t, products+"?sku=A").Shows(map[string]string{"items.0.id": b})
	importProducts(t, c, "mode=update", "sku,name\nA,x\n,y\n").Want(200).Shows(imported(0, 1, 0, 1)).
		Shows(map[string]string{"rows.1.action": "skipped", "rows.1.id": "null"})
}

// Concurrent imports and changes of the same products neither deadlock nor create a product twice.
func TestImportRaces(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	testkit.Concurrently(6, func(n int) {
		for i := range 4 {
			file := "sku,name,materials.material_type,materials.color,materials.weight_grams\n"
			for k := range 10 {
				if n%2 == 0 {
					k = 9 - k
				}
				file += fmt.Sprintf("S%d,Product %d,PLA,Black,%d\n", k, n, 1+10*n+i)
			}
			if n < 5 {
				if a := importProducts(t, c, "mode=upsert", file); a.Status != 200 {
					a.Fields("sku")
				}
			} else if a := c.Post(t, products, j{"name": "x", "sku": fmt.Sprint("S", i)}); a.Status != 201 {
				a.WantError(409, "DUPLICATE_SKU")
			}
		}
	})
	c.Get(t, products).Shows(map[string]string{"total": "10"})
}

// The weights of a bill of materials are read as the whole file shows them.
func TestImportReadsTheWholeFile(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const columns = "name\tmaterials.material_type\tmaterials.color\tmaterials.weight_grams\tmaterials.is_required\n"
	const open = columns + "Dragon\tPLA\tBlack\t1.000\tx\n"
	refused := importProducts(t, c, "mode=create", open).Fields("line 2")
	testkit.Contains(t, refused.Text("errors.0.message"), "can be read as 1000 or as 1,", "the message")
	importProducts(t, c, "mode=create&decimal=point", open).Want(200)
	c.Get(t, products+"?sort_by=created_at").Shows(map[string]string{"total": "1"})
	importProducts(t, c, "mode=create", strings.NewReplacer("Dragon", "Tower", "\t", ";").Replace(open)+
		"Tower;PETG;Red;2,5 kg;\nHook;;;;\n").Want(200)
	for name, want := range map[string]map[string]string{
		"Dragon": {"materials.0.weight_grams": "1", "materials.0.is_required": "true"},
		"Tower": {"materials.0.weight_grams": "1000", "materials.0.is_required": "true",
			"materials.1.weight_grams": "2500", "materials.1.is_required": "false"},
		"Hook": {"materials": "[]"},
	} {
		id := c.Get(t, products+"?search="+name).Text("items.0.id")
		c.Get(t, products+"/"+id).Want(200).Shows(want)
	}
}

// Materials in files have their name, diameter and filament; a filament has a number, too.
func TestImportOfFilaments(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	acme := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "material_name": "PETG-CF", "color": "Black",
		"vendor": "Acme", "diameter_mm": 1.75}).Want(201)
	c.Post(t, products, j{"name": "Lamp", "sku": "L", "materials": []j{
		{"filament_id": acme.ID(), "weight_grams": 5},
		{"material_type": "PETG", "color": "Black", "weight_grams": 6},
		{"material_type": "PETG", "material_name": "PETG-CF", "color": "Black", "diameter_mm": 2.85, "weight_grams": 7},
	}}).Want(201)
	before := exportProducts(t, c)
	if !strings.Contains(before, ",PETG-CF,2.85,") || !strings.Contains(before, acme.ID()) {
		t.Errorf("the export is %s", before)
	}
	importProducts(t, c, "mode=upsert", before).Want(200).Shows(imported(0, 0, 1, 0))

	// Another farm has the filament under its number.
	entry := other.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "material_name": "PETG-CF", "color": "Black",
		"diameter_mm": 1.75}).Want(201)
	file := "name,sku,materials.filament_number,materials.material_type,materials.material_name,materials.color," +
		"materials.diameter_mm,materials.weight_grams\n" +
		"Lamp,L," + entry.Text("number") + ",,,,,5\nLamp,L,,PETG,,Black,,6\nLamp,L,,PETG,PETG-CF,Black,2.85,7\n"
	importProducts(t, other, "mode=upsert", file).Want(200).Shows(imported(1, 0, 0, 0))
	importProducts(t, other, "mode=upsert", file).Want(200).Shows(imported(0, 0, 1, 0))
	id := other.Get(t, products+"?sku=L").Want(200).Text("items.0.id")
	other.Get(t, products+"/"+id).Want(200).Shows(map[string]string{
		"materials.0.filament_id": entry.ID(), "materials.0.material_name": "PETG-CF", "materials.0.color": "Black",
		"materials.1.material_name": "null", "materials.1.diameter_mm": "null", "materials.1.weight_grams": "6",
		"materials.2.material_name": "PETG-CF", "materials.2.diameter_mm": "2.85"})
	// Each row changes its own material.
	importProducts(t, other, "mode=upsert", strings.NewReplacer(",5\n", ",50\n", ",6\n", ",60\n", ",7\n", ",70\n").
		Replace(file)).Want(200).Shows(imported(0, 1, 0, 0))
	other.Get(t, products+"/"+id).Want(200).Shows(map[string]string{"materials.0.weight_grams": "50",
		"materials.1.weight_grams": "60", "materials.2.weight_grams": "70"})
	importProducts(t, other, "mode=upsert", "name,sku,materials.filament_number,materials.weight_grams\nLamp,L,999,1\n").
		Want(422)
}
