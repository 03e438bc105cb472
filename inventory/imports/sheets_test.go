package imports_test

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// fieldsOf returns the columns of a check as "title=field", separated by semicolons.
func fieldsOf(check *testkit.Response) string {
	var all []string
	for i := range check.List("columns") {
		at := fmt.Sprintf("columns.%d.", i)
		all = append(all, check.Text(at+"title")+"="+strings.ReplaceAll(check.Text(at+"field"), "null", ""))
	}
	return strings.Join(all, ";")
}

// problemsOf returns the groups of problems of a check as "count field message", separated by semicolons.
func problemsOf(check *testkit.Response) string {
	var all []string
	for i := range check.List("errors") {
		at := fmt.Sprintf("errors.%d.", i)
		all = append(all, check.Text(at+"count")+" "+check.Text(at+"field")+" "+check.Text(at+"message"))
	}
	return strings.Join(all, ";")
}

func changesOf(check *testkit.Response) string {
	var all []string
	for i := range check.List("changes") {
		at := fmt.Sprintf("changes.%d.", i)
		all = append(all, check.Text(at+"count")+" "+check.Text(at+"text")+" -> "+check.Text(at+"detail"))
	}
	return strings.Join(all, ";")
}

// What a column is follows from its name in many forms, or from its values.
// A check shows how the import reads the first rows, before anything is written.
func TestFirstRowsAreShown(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t).With("Content-Type", "text/csv")
	const file = "Hersteller;Farbe;Material;Gewicht;Rest;Preis;Gekauft;Durchmesser\n" +
		"Acme;0000FF;Silk PLA;1,5 kg;50 %;1.024,50;21.10.2026;1,75\nAcme;Rot;Holz?;750;;;;\nAcme;Rot;PETG;750;;;;1,75\n"
	a := c.Post(t, spools+"/import/check", file).Want(200).Shows(map[string]string{"read_rows.#": "2",
		"rows.0.cells.3.text": "1,5 kg", "read_rows.0.row": "2", "read_rows.1.row": "4"})
	var read []string
	for i := range 10 {
		cell := fmt.Sprint("read_rows.0.cells.", i)
		read = append(read, a.Text(cell+".column")+"="+a.Text(cell+".text"))
	}
	testkit.Equal(t, strings.Join(read, " "), "material_type=PLA brand=Acme color=Blue color_hex=#0000FF diameter_mm=1.75 "+
		"net_weight_grams=1500 remaining_weight_grams=750 purchase_price=1024.5 purchase_date=2026-10-21 "+
		"material_name=Silk PLA", "the first row")
	// Without the column of a required field, no row can be read.
	c.Post(t, spools+"/import/check", "Farbe\nRot\n").Want(200).Shows(map[string]string{"read_rows": "[]"})
}

func TestColumnsAreRecognized(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t).With("Content-Type", "text/csv")
	for _, test := range []struct{ file, want string }{
		{"Brand,Colour,Type,Weight (g),Left,Cost\nA,Red,PLA,1000,500,20\n",
			"Brand=brand;Colour=color;Type=material_type;Weight (g)=net_weight_grams;" +
				"Left=remaining_weight_grams;Cost=purchase_price"},
		{"Hersteller;Farbe;Material;Gewicht;Preis\nA;Rot;PLA;1.000;20,00\n",
			"Hersteller=brand;Farbe=color;Material=material_type;Gewicht=net_weight_grams;Preis=purchase_price"},
		// By the values.
		{"a;b;c;d;e;f\nPLA;0000FF;1,75;23,49 €;750 g;21.10.2026\nPETG;FFAA00;1,75;19,00 €;1 kg;22.10.2026\n",
			"a=material_type;b=color_hex;c=diameter_mm;d=purchase_price;e=net_weight_grams;f=purchase_date"},
		// Without titles.
		{"Prusament,PLA,Galaxy Black,1 kg\nPrusament,PETG,Jet Black,1 kg\n",
			"Column 1=brand;Column 2=material_type;Column 3=color;Column 4=net_weight_grams"},
		// Material and its kind, a quantity and a stock, prices of one and of all.
		{"Material,Type,Color,Qty,Price,Total\nPLA,Silk,Red,2,20,40\nPETG,Matte,Blue,1,20,20\n",
			"Material=material_type;Type=finish;Color=color;Qty=quantity;Price=purchase_price;Total=total_price"},
		{"Material;Farbe;Bestand;Gewicht\nPLA;Rot;3;1000\n",
			"Material=material_type;Farbe=color;Bestand=quantity;Gewicht=net_weight_grams"},
		{"Material;Farbe;Bestand;Gewicht\nPLA;Rot;350;1000\n",
			"Material=material_type;Farbe=color;Bestand=remaining_weight_grams;Gewicht=net_weight_grams"},
		{"Material;Farbe;Menge\nPLA;Rot;3\n", "Material=material_type;Farbe=color;Menge=quantity"},
		{"Material;Farbe;Menge (g)\nPLA;Rot;750\n", "Material=material_type;Farbe=color;Menge (g)=net_weight_grams"},
		{"Filamentfarbe;Materialart;Füllgewicht in g;Restmenge [g];Einkaufspreis (€, brutto);Kaufdatum (TT.MM.JJJJ)\n" +
			"Rot;PLA;1000;20;20,00;21.10.2026\n", "Filamentfarbe=color;Materialart=material_type;" +
			"Füllgewicht in g=net_weight_grams;Restmenge [g]=remaining_weight_grams;" +
			"Einkaufspreis (€, brutto)=purchase_price;Kaufdatum (TT.MM.JJJJ)=purchase_date"},
		{"Vendor,Brand,Material,Color\nAmazon,eSun,PLA,Red\n",
			"Vendor=supplier;Brand=brand;Material=material_type;Color=color"},
		{"Nr.;Material;Farbe;Bild;Länge\n1;PLA;Rot;x;3\n", "Nr.=;Material=material_type;Farbe=color;Bild=;Länge="},
		// Words without blanks between them, and amounts that there should be.
		{"materialType,colorName,weightInitialG,weightCurrentG,priceEUR\nPLA,Red,1000,730,20\n",
			"materialType=material_type;colorName=color;weightInitialG=net_weight_grams;" +
				"weightCurrentG=remaining_weight_grams;priceEUR=purchase_price"},
		{"Material,Color,low_stock_threshold_pct,Reorder Qty,Minimum weight,Mindestbestand\nPLA,Red,20,3,500,2\n",
			"Material=material_type;Color=color;low_stock_threshold_pct=;Reorder Qty=;Minimum weight=;Mindestbestand="},
		// Lengths are no weights, and ids of other programs no ids.
		{"Material,Color,Total (m),Left (m),Left (g),Total (g)\nPLA,Red,335,100,298,1000\n", "Material=material_type;" +
			"Color=color;Total (m)=;Left (m)=;Left (g)=remaining_weight_grams;Total (g)=net_weight_grams"},
		{"id,filament_id,Material,Color,remaining m\n1,7,PLA,Red,20\n",
			"id=;filament_id=;Material=material_type;Color=color;remaining m="},
		{"COLOR,MATERIAL,WEIGHT KG\nRed,PLA,1\n", "COLOR=color;MATERIAL=material_type;WEIGHT KG=net_weight_grams"},
		{"Material,Color,% left\nPLA,Red,50\n", "Material=material_type;Color=color;% left=remaining_percent"},
	} {
		check := c.Post(t, importPath+"/check", test.file).Want(200)
		testkit.Equal(t, fieldsOf(check), test.want, "%q", test.file)
	}
	// A column that is left out although its title is known says why.
	c.Post(t, importPath+"/check", "Material,Color,Remaining\nPLA,Red,a bit\nPLA,Blue,500\nPLA,Blue,some\n").Want(200).
		Shows(map[string]string{"columns.2.field": "null",
			"columns.2.note": "seems to be remaining_weight_grams, but most values cannot be read"})
	// Vendors and filaments have their own.
	for path, test := range map[string]struct{ file, want string }{
		vendors: {"Marque;Poids bobine vide;Remarques\nFrancofil;250;x\n",
			"Marque=name;Poids bobine vide=empty_spool_weight_grams;Remarques=notes"},
		filaments: {"Märke,Namn,Materialtyp,Färg,Diameter,Pris,Munstyckstemperatur\nA,B,PLA+,Röd,1.75,200,210\n",
			"Märke=vendor_name;Namn=name;Materialtyp=material_type;Färg=color;Diameter=diameter_mm;Pris=price;" +
				"Munstyckstemperatur=extruder_temperature_c"},
	} {
		testkit.Equal(t, fieldsOf(c.Post(t, path+"/import/check", test.file).Want(200)), test.want, "%s", path)
		c.Post(t, path+"/import", test.file).Want(200).Shows(map[string]string{"created": "1"})
	}
	c.Get(t, filaments).Shows(map[string]string{"items.0.material_type": "PLA", "items.0.material_name": "PLA+",
		"items.0.extruder_temperature_c": "210", "items.0.vendor_name": "A"})
}

// Cells mean what people mean.
func TestCellsOfPeople(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	const first = "material_type,material_name,brand,color,color_hex,diameter_mm,net_weight_grams," +
		"remaining_weight_grams,spool_weight_grams,purchase_price,purchase_date,notes\n"
	for _, test := range []struct{ file, want string }{
		{"Material;Color;Weight\nPLA+;#0000ff;1 kg\nSilk PLA;Black (#101010);750g\n" +
			"PET-G;Red;1000 gr\nPolylactid;x;0,25 kg\n",
			"PLA,PLA+,,Blue,#0000FF,1.75,1000,1000,,,,\nPLA,Silk PLA,,Black,#101010,1.75,750,750,,,,\n" +
				"PETG,,,Red,,1.75,1000,1000,,,,\nPLA,,,x,,1.75,250,250,,,,\n"},
		// Weights in kilograms without a word about it, and shares as fractions.
		{"Material,Color,Weight,% left\nPLA,Red,1,0.5\nPLA,Red,0.75,1\n",
			"PLA,,,Red,,1.75,1000,500,,,,\nPLA,,,Red,,1.75,750,750,,,,\n"},
		{"Material;Color;Weight;Rest\nPLA;Red;1;0,25\nPLA;Red;2,3;full\n",
			"PLA,,,Red,,1.75,1000,250,,,,\nPLA,,,Red,,1.75,2300,2300,,,,\n"},
		// Pounds and ounces, beside kilograms and alone.
		{"Material,Color,Weight,Remaining\nPLA,Red,2.2 lb,1.1lbs\nPLA,Red,2.2lbs / 1 kg,35.3 oz\n" +
			"PLA,Red,1kg (2.2 lbs),500 g\n",
			"PLA,,,Red,,1.75,997.9,498.95,,,,\nPLA,,,Red,,1.75,1000,1000.74,,,,\nPLA,,,Red,,1.75,1000,500,,,,\n"},
		{"Material,Color,Weight (lb),Left oz,Price per lb\nPLA,Red,2.2,8,9.99\n", "PLA,,,Red,,1.75,997.9,226.8,,,,\n"},
		// Names of shops.
		{"Filament;Gewicht;Preis\nPrusament PLA Galaxy Black 1kg;1000;29,99\neSun PLA+ Silk Red (1,75 mm);1000;SFr. 20.-\n",
			"PLA,,Prusament,Galaxy Black,,1.75,1000,1000,,29.99,,\nPLA,PLA+ Silk,eSun,Red,,1.75,1000,1000,,20,,\n"},
		{"Filament,Qty\nBambu Lab PLA Matte - Charcoal (11101) 1kg Refill,1\n",
			"PLA,PLA Matte,Bambu Lab,Charcoal,,1.75,1000,1000,,,,\n"},
		{"Brand,Name,TD,Color,Owned,Type\nBambu Lab,Jade White,5.2,#FFFFFF,TRUE,PLA\nBambu Lab,Basic,1,#FF0000,TRUE,PLA\n",
			"PLA,,Bambu Lab,Jade White,#FFFFFF,1.75,1000,1000,,,,\nPLA,,Bambu Lab,Red,#FF0000,1.75,1000,1000,,,,Basic\n"},
		{"Type,Color,RGBA\nPLA,,FF0000FF\nPLA,Sky,0000FFFF\n",
			"PLA,,,Red,#FF0000,1.75,1000,1000,,,,\nPLA,,,Sky,#0000FF,1.75,1000,1000,,,,\n"},
		{"Type,Color,Weight,Remaining\nPLA,Red,1kg,~500g\nPLA,Red,1kg,ca. 250\n",
			"PLA,,,Red,,1.75,1000,500,,,,\nPLA,,,Red,,1.75,1000,250,,,,\n"},
		// Diameters, dates and prices.
		{"Material,Color,Dia,Weight,Price,Bought\nPLA,Red,\"3,0\",1000,R$ 100,45306\n" +
			"PLA,Red,Ø 1.75mm,1000,kr 249,15.01.2024 12:30\nPLA,Red,2.85 mm ± 0.05,1000,n/a,2024-01\n",
			"PLA,,,Red,,2.85,1000,1000,,100,2024-01-15,\n|PLA,,,Red,,2.85,1000,1000,,,2024-01-01,\n"},
		// Gross weights, what is used, and notes of several columns.
		{"Material,Color,Net weight,Gross weight,Tare\nPLA,Red,1000,700,200\n", "PLA,,,Red,,1.75,1000,500,200,,,\n"},
		{"Material,Color,Net weight,Used\nPLA,Red,1000,120.5\n", "PLA,,,Red,,1.75,1000,879.5,,,,\n"},
		{"Material,Color,Weight,Price per kg\nPLA,Red,750,20\n", "PLA,,,Red,,1.75,750,750,,15,,\n"},
		{"Material,Color,Weight,Qty,Total price\nPLA,Red,1000,2,39.98\n",
			strings.Repeat("PLA,,,Red,,1.75,1000,1000,,19.99,,\n", 2)},
		// The weights of all spools of a row.
		{"Qty,Total weight of new spools (g),Type,Color,Remaining weight (g),Price per kg\n" +
			"3,3000,PLA,Red,2150,20\n1,750,PLA,Red,40,20\n",
			strings.Repeat("PLA,,,Red,,1.75,1000,1000,,20,,\n", 2) +
				"PLA,,,Red,,1.75,1000,150,,20,,\nPLA,,,Red,,1.75,750,40,,15,,\n"},
		{"Quantité de bobine(s);Poids total des bobines neuves (g);Type;Couleur;Poids restant (g)\n2;2000;PLA;Noir;800\n",
			"PLA,,,Noir,,1.75,1000,800,,,,\nPLA,,,Noir,,1.75,1000,0,,,,\n"},
		{"Type,Color,Qty,Weight,Remaining\nPLA,Red,2,1000,1400\nPLA,Blue,2,1000,600\n", "PLA,,,Red,,1.75,1000,1000,,,,\n" +
			"PLA,,,Red,,1.75,1000,400,,,,\n" + strings.Repeat("PLA,,,Blue,,1.75,1000,600,,,,\n", 2)},
		{"Type,Color,Qty,Total weight\nPLA,Red,3,1000\n", strings.Repeat("PLA,,,Red,,1.75,1000,1000,,,,\n", 3)},
		{"sep=|\nMaterial|Color|Weight\nPLA|a;b,c|1000\n", "PLA,,,\"a;b,c\",,1.75,1000,1000,,,,\n"},
		{"Material,Color,Weight,,\nPLA,=\"Red\",1000,,\n,,,,\n", "PLA,,,Red,,1.75,1000,1000,,,,\n"},
		{"Material,Hex,Weight\nPLA,255,1000\n", "PLA,,,Dark blue,#000255,1.75,1000,1000,,,,\n"},
	} {
		c := api.Operator(t)
		want, _, other := strings.Cut(test.want, "|")
		check := c.With("Content-Type", "text/csv").Post(t, importPath+"/check", test.file)
		query := suggested(t, check)
		if other { // a row with another currency
			query.Set("skip_invalid", "true")
			want += strings.TrimPrefix(test.want, want+"|")
		}
		postMode(t, c, query.Encode(), test.file).Want(200)
		wantSpools(t, c, first+want)
	}
}

// A mapping says what the columns are, and defaults what is missing. Rows that are not valid are left out on request.
func TestMapping(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	const file = "Stuff,Tint,Heavy,Where,Wet\nPLA+,Red,1000,Shelf,yes\nPLO,Blue,1000,Shelf,5\nPLA,,1000,Box,no\n"
	ask := func(mapping, defaults string, more ...string) string {
		q := url.Values{"mapping": {mapping}, "defaults": {defaults}}
		for i := 0; i < len(more); i += 2 {
			q.Set(more[i], more[i+1])
		}
		return q.Encode()
	}
	const mapping = `{"stuff": "material_type", "Tint": "color", "Heavy": "net_weight_grams", "Wet": "extra.wet"}`
	postMode(t, c, "", file).Fields("line 1")
	refused := postMode(t, c, ask(mapping, `{"diameter_mm": "1,75"}`), file).Fields("line 3", "line 4")
	if !strings.Contains(refused.Text("errors.0.message"), `material_type must be one of`) {
		t.Errorf("%s", refused.Body)
	}
	check := c.With("Content-Type", "text/csv").
		Post(t, importPath+"/check?"+ask(mapping, `{"diameter_mm": "1.75"}`), file).
		Want(200)
	check.Shows(map[string]string{"created": "1", "invalid": "2", "invalid_rows.0.row": "3",
		"invalid_rows.0.cells.0.text": "PLO", "invalid_rows.0.errors.0.column": "Stuff", "header_row": "1",
		"rows.2.cells.3.text": "Box", "columns.0.why": "given", "columns.3.field": "location", "columns.3.why": "name",
		"defaults": "[]"})
	testkit.Equal(t, problemsOf(check), "1 material_type must be one of PLA, PETG, ABS, TPU, ASA, Nylon, PC, HIPS, PVA, "+
		"Custom;1 color is required", "problems")
	testkit.Equal(t, changesOf(check), "1 PLA+ -> type PLA, name PLA+", "changes")
	c.Get(t, spools).Shows(map[string]string{"total": "0"})

	keyed := c.With("Idempotency-Key", "a-farms-own-list")
	for range 2 {
		postMode(t, keyed, ask(mapping, `{"diameter_mm": "1.75", "color": "Green"}`, "skip_invalid", "true"), file).
			Want(200).
			Shows(map[string]string{"created": "2", "invalid": "1", "invalid_rows.0.row": "3", "changes.0.count": "1"})
	}
	c.Get(t, spools+"?sort_order=asc").Shows(map[string]string{"total": "2", "items.0.material_name": "PLA+",
		"items.0.extra.wet": "yes", "items.1.color": "Green", "items.1.location": "Box"})
	api.Operator(t).Get(t, spools).Shows(map[string]string{"total": "0"})

	fixed := ask(mapping, `{"diameter_mm": "1.75"}`, "corrections", `{"3": {"Stuff": "ABS"}, "4": null}`)
	postMode(t, c, fixed, file).Want(200).Shows(map[string]string{"created": "2", "invalid": "0"})
	c.Get(t, spools+"?color=Blue").Shows(map[string]string{"items.0.material_type": "ABS"})

	for query, field := range map[string]string{
		"corrections=[]": "corrections", `corrections={"a":{}}`: "corrections",
		`corrections={"99":null}`: "corrections", `corrections={"1":{"Stuff":"PLA"}}`: "corrections",
		`corrections={"3":{"Nothing":"PLA"}}`: "corrections",
		ask(`{"Nothing": "color"}`, "{}"):     "mapping", ask(`{"Tint": "colour"}`, "{}"): "mapping",
		ask(`{"Tint": "color", "Stuff": "color"}`, "{}"): "mapping", ask(`[1]`, "{}"): "mapping",
		ask("{}", `{"x": "1"}`): "defaults", ask("{}", `{"net_weight_grams": "1.000"}`): "defaults",
		ask(`{"Tint": "created_at"}`, "{}"): "mapping", "mapping=null": "mapping", ask("{}", `{"a": 1}`): "defaults",
		"skip_invalid=maybe": "skip_invalid", ask(`{"Tint": "extra.Ä b"}`, "{}"): "mapping",
	} {
		postMode(t, c, query, file).Fields(field)
		c.With("Content-Type", "text/csv").Post(t, importPath+"/check?"+query, file).Fields(field)
	}
	viewer := tenant.User(t, "viewer").With("Content-Type", "text/csv")
	viewer.Post(t, importPath+"/check", file).WantError(403, "FORBIDDEN")
}

// What the columns of an imported file were is remembered for the checks of the farm's later files of the same kind:
// also that a column was left out, and in another order of the columns. A dry run or a refused import remembers
// nothing, and neither does a file without a mapping.
func TestMappingIsRemembered(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, other := api.Operator(t), api.Operator(t)
	const file = "Stuff,Tint,Heavy,Where,Color\nPLA,Red,1000,Shelf,x\nPETG,Blue,1000,Shelf,y\n"
	const again = "Color,Tint,stuff,HEAVY,Where,Price\nz,Red,PLA,1000,Box,9.5\n"
	check := func(c *testkit.Client, file string) *testkit.Response {
		return c.With("Content-Type", "text/csv").Post(t, importPath+"/check", file).Want(200)
	}
	const byNames = "Color=color;Tint=;stuff=material_type;HEAVY=;Where=location;Price=purchase_price"
	testkit.Equal(t, fieldsOf(check(c, again)), byNames, "before")
	query := func(mapping string, more ...string) string {
		q := url.Values{"mapping": {mapping}, "defaults": {`{"diameter_mm": "1.75"}`}}
		for _, name := range more {
			q.Set(name, "true")
		}
		return q.Encode()
	}
	const mapping = `{"Stuff": "material_type", "Tint": "color", "Heavy": "net_weight_grams", ` +
		`"Where": "supplier", "Color": null}`
	postMode(t, c, query(mapping, "dry_run"), file).Want(200)
	postMode(t, c, query(mapping), file+"PLO,Red,1000,Shelf,x\n").Fields("line 4")
	testkit.Equal(t, fieldsOf(check(c, again)), byNames, "after a dry run and a refused file")

	postMode(t, c, query(mapping), file).Want(200)
	const remembered = "Color=;Tint=color;stuff=material_type;HEAVY=net_weight_grams;Where=supplier;Price=purchase_price"
	checked := check(c, again)
	testkit.Equal(t, fieldsOf(checked), remembered, "after the import")
	checked.Shows(map[string]string{"created": "1", "columns.0.why": "remembered", "columns.3.why": "remembered",
		"columns.5.why": "name"})
	testkit.Equal(t, fieldsOf(check(other, again)), byNames, "another farm")
	testkit.Equal(t,
		fieldsOf(c.With("Content-Type", "text/csv").Post(t, importPath+"/check?mapping={}", again).Want(200)),
		byNames, "the request says what the columns are")

	// A file without a mapping changes nothing, and one with another mapping replaces it.
	postMode(t, c, "", "material_type,color,diameter_mm,net_weight_grams\nPLA,Red,1.75,1000\n").Want(200)
	testkit.Equal(t, fieldsOf(check(c, again)), remembered, "after a file without a mapping")
	postMode(t, c, query(`{"Tint": "notes", "Where": "location"}`),
		"Color,Tint,Material,Weight,Where\nRed,x,PLA,1000,Box\n").
		Want(200)
	testkit.Equal(t, fieldsOf(check(c, again)), strings.Replace(byNames, "Tint=", "Tint=notes", 1), "after another file")

	// Ids are never left out because those of another program were, and a column without a title needs values that fit.
	postMode(t, c, query(`{"ID": null, "Material": "material_type"}`), "ID,Material,Color,Weight\n7,PLA,Red,1000\n").
		Want(200)
	known := "id,material_type,color,diameter_mm,net_weight_grams\n" + c.Get(t, spools).Text("items.0.id") +
		",PLA,Red,1.75,1000\n"
	checked = check(c, known)
	testkit.Equal(t, checked.Text("columns.0.field"), "id", "the column of ids")
	postMode(t, c, query(`{"Column 1": "supplier", "Column 3": "color"}`),
		"Amazon,PLA,Red,1 kg\nAmazon,PETG,Blue,1 kg\n").
		Want(200)
	testkit.Equal(t, fieldsOf(check(c, "Amazon,PETG,Green,1 kg\nAmazon,PLA,Black,1 kg\n")),
		"Column 1=supplier;Column 2=material_type;Column 3=color;Column 4=net_weight_grams", "columns without titles")
	testkit.Equal(t, fieldsOf(check(c, "Amazon,Red,PLA,1 kg\nAmazon,Black,PETG,1 kg\n")),
		"Column 1=supplier;Column 2=color;Column 3=material_type;Column 4=net_weight_grams", "columns of another order")

	// Each kind of file has its own.
	v := c.With("Content-Type", "text/csv")
	v.Post(t, vendors+"/import?"+url.Values{"mapping": {`{"Where": "name"}`}}.Encode(), "Where,Notes\nA,x\n").Want(200)
	testkit.Equal(t, fieldsOf(v.Post(t, vendors+"/import/check", "Notes,Where\nx,B\n").Want(200)),
		"Notes=notes;Where=name", "vendors")
	testkit.Equal(t, fieldsOf(check(c, again)), byNames, "spools")
}

// Files that are not tables, or that would hurt, are refused or change nothing but texts.
func TestHostileSheets(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t)
	text := c.With("Content-Type", "text/csv")
	for file, want := range map[string]string{
		"":                                     "the file is empty",
		"\n\n":                                 "the file is empty",
		"PK\x03\x04xxxx":                       "save it as .xlsx or as CSV",
		strings.Repeat("x,", 300) + "\n1,2\n":  "at most 200 columns",
		"Color;Material\n" + "\"a;PLA\n":       "",
		strings.Repeat("\"", 5000):             "",
		"\xff\xfe":                             "the file is empty",
		"\x00\x00\x00\x00,\x00\n\x00":          "",
		"Color,Material,Qty\nRed,PLA,1000\n":   "",
		strings.Repeat("Color\n", 3):           "",
		"sep=\n":                               "",
		"Color,Color,Color\nRed,Blue,Green\n":  "",
		strings.Repeat(",", 1000) + "\n" + ",": "",

		// None of these may be looked at for long.
		strings.Repeat("a,", 4000) + "\n1,2\n":                         "at most 200 columns, and line 1 has 4000",
		manyTitles(130_000) + "\n1,2\n":                                "at most 200 columns, and line 1 has 130000",
		"Color,Material\n1,2\n" + strings.Repeat("Red,PLA\n", 10_100):  "at most 10000 rows",
		"Color,Material\n" + strings.Repeat("x", 1_000_000) + ",PLA\n": "",
		"Color,Weight\nRed," + strings.Repeat("7", 1_000_000) + "\n":   "",
		strings.Repeat("y", 1_000_000) + ",Material\nRed,PLA\n":        "",
	} {
		a := text.Post(t, importPath+"/check", file)
		if want != "" {
			a.WantError(422, "VALIDATION_ERROR")
			if !strings.Contains(string(a.Body), want) {
				t.Errorf("%.40q: %s", file, a.Body)
			}
		}
		if a.Status >= 500 {
			t.Errorf("%.40q: %d", file, a.Status)
		}
		if a = text.Post(t, importPath+"?skip_invalid=true", file); a.Status >= 500 {
			t.Errorf("%.40q: %d", file, a.Status)
		}
	}
	// A cell with a NUL, one that is too long, and one that is a formula.
	const head = "Material;Color;Weight;Notes;Diameter\n"
	rows := "PLA;a\x00b;1000;;1,75\nPLA;" + strings.Repeat("x", 300_000) +
		";1000;;1,75\nPLA;=1+1;1000;=HYPERLINK(1);1,75\n"
	check := text.Post(t, importPath+"/check", head+rows).Want(200)
	check.Shows(map[string]string{"created": "1", "invalid": "2"})
	if len(check.Body) > 20_000 {
		t.Errorf("the answer has %d bytes", len(check.Body))
	}
	postMode(t, c, "skip_invalid=true", head+rows).Want(200).Shows(map[string]string{"created": "1", "invalid": "2"})
	c.Get(t, spools).Shows(map[string]string{"total": "1", "items.0.color": "=1+1", "items.0.notes": "=HYPERLINK(1)"})
	text.Post(t, importPath+"/check", strings.Repeat("x", 1<<20+1)).WantError(413, "PAYLOAD_TOO_LARGE")
	many := "Material;Color;Weight;Diameter;Qty\n" + strings.Repeat("PLA;Red;1000;1,75;100\n", 101)
	postMode(t, c, "", many).Fields("body")
}

// manyTitles returns a row of n different titles.
func manyTitles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "t%d,", i)
	}
	return b.String()
}

// A cell that is longer than its field says so, and a long number is none.
func TestLongCells(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t).With("Content-Type", "text/csv")
	head := "Brand;Color;Type;Weight;Diameter;Qty;Notes\n" + strings.Repeat("A;Red;PLA;1000;1,75;1;\n", 3)
	long := func(text string, n int) string { return strings.Repeat(text, n) }
	for row, want := range map[string]string{
		"A;Red;PLA;1000;1,75;1;" + long("x", 9_000):        "",
		"A;" + long("é", 200) + ";PLA;1000;1,75;1;":        "",
		"A;" + long("é", 201) + ";PLA;1000;1,75;1;":        "color: must have at most 200 characters",
		long("b", 400_000) + ";Red;PLA;1000;1,75;1;":       "brand: must have at most 200 characters",
		"A;Red;PLA;" + long("7", 400_000) + ";1,75;1;":     "net_weight_grams: must have at most 200 characters",
		"A;Red;PLA;" + long("7", 150) + ";1,75;1;":         "net_weight_grams: must be a number",
		"A;Red;PLA;1000;1,75;" + long("7", 400_000) + ";":  "quantity: must have at most 200 characters",
		"A;Red;PLA;1000;1,75;1;" + long("n", 500_000):      "notes: must have at most 10000 characters",
		"A;Red;" + long("PLA ", 100_000) + ";1000;1,75;1;": "material_type: must have at most 200 characters",
	} {
		check := c.Post(t, importPath+"/check", head+row+"\n").Want(200)
		got := ""
		if len(check.List("errors")) > 0 {
			got = check.Text("errors.0.field") + ": " + check.Text("errors.0.message")
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%.60s: %s, want %s", row, got, want)
		}
	}
}

// The reading of a sheet ends with its request, within a row or a column.
func TestSheetEnds(t *testing.T) {
	t.Parallel()
	file := "Brand;Color;Type;Weight;Diameter\n" + strings.Repeat("A;Red;PLA;1000;1,75\n", 500)
	sheet, err := transfer.ReadSheet([]byte(file), "", 1000, imports.SpoolSheets.Good)
	testkit.Check(t, err)
	asked := 0
	read := func(end int) error {
		asked = 0
		_, err := imports.SpoolSheets.Convert(sheet, transfer.Reading{Mode: transfer.Create, Ended: func() error {
			if asked++; asked >= end {
				return context.Canceled
			}
			return nil
		}})
		return err
	}
	testkit.Equal(t, read(1<<30), nil, "a request that does not end")
	all := asked
	if all < 1000 {
		t.Errorf("the reading of 500 rows looks %d times whether the request has ended", all)
	}
	for _, end := range []int{1, 5, 6, 300, all} {
		if err := read(end); err != context.Canceled || asked > end+2 {
			t.Errorf("a request that ended at the question %d: %v after %d", end, err, asked)
		}
	}
}

// FuzzSheets reads any file as a sheet. It must not panic, and what it makes of a cell must not grow.
func FuzzSheets(f *testing.F) {
	f.Add([]byte("Brand,Colour,Type,Weight (g),Left,Cost\nA,0000FF,PLA+,1000,50%,$23.49\n"))
	f.Add([]byte("Marke;Farbe\n\"a\nb\";=\"x\"\n"))
	f.Add([]byte("\xff\xfeM\x00a\x00\n\x00"))
	f.Add([]byte("Filament;Gewicht;Rest;Datum\nPrusament PLA Galaxy Black 1kg;1,0;voll;45306\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, suggest := range []bool{false, true} {
			sheet, err := transfer.ReadSheet(file, "", math.MaxInt, imports.SpoolSheets.Good)
			if err != nil {
				continue
			}
			made, err := imports.SpoolSheets.Convert(sheet, transfer.Reading{Mode: transfer.Create, Suggest: suggest})
			if err == nil && made.Table != nil && len(made.Table.Rows) > 100*len(file)+1 {
				t.Errorf("%d rows of %d bytes", len(made.Table.Rows), len(file))
			}
		}
	})
}

// Marks that change the direction of text are rejected from people and programs, and removed from files.
func TestDirectionMarks(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t)
	c.Post(t, "/api/v1/custom-fields", j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201)
	one := spools + "/" + c.NewSpool(t, 1000, nil)
	for _, mark := range []string{"\u202a", "\u202e", "\u2066", "\u2069"} {
		c.Patch(t, one, j{"color": "Red" + mark}).Want(422).Fields("color")
		c.Patch(t, one, j{"extra": j{"tag": mark + "x"}}).Want(422).Fields("extra")
		a := c.With("Content-Type", "text/csv").Post(t, spools+"/import",
			[]byte("material_type,color,diameter_mm,initial_weight_grams\nPLA,"+mark+"Red,1.75,1000\n")).Want(200)
		c.Get(t, spools+"/"+a.Text("rows.0.id")).Want(200).Shows(map[string]string{"color": "Red"})
	}
	c.Patch(t, one, j{"color": "\u200fאדום"}).Want(200) // a mark of one character is part of its language's spelling
}
