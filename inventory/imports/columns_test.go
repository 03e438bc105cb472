package imports_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// A column means what its title says: values confirm or contradict it, and never overrule it. A title that is not
// known, whose values are like those of another column, is left out, and a part of a title needs values that fit in
// every row.
func TestTitlesRule(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t).With("Content-Type", "text/csv")
	for _, test := range []struct{ file, want string }{
		// Codes are no prices and no materials, whatever they look like.
		{"Material,Color,SKU\nPLA,Red,TST001\nPLA,Blue,TST 002\n", "Material=material_type;Color=color;SKU="},
		{"Material,Color,EAN\nPLA,Red,EUR 1\nPLA,Blue,EUR 2\n", "Material=material_type;Color=color;EAN="},
		{"Material,Color,Thing\nPLA,Red,TST001\nPLA,Blue,TST002\n", "Material=material_type;Color=color;Thing="},
		{"Material,Color,Thing\nPLA,Red,TRY001\nPLA,Blue,TRY002\n", "Material=material_type;Color=color;Thing="},
		{"Material,Color,Thing\nPLA,Red,TRY 100\nPLA,Blue,0.05 EUR\n", "Material=material_type;Color=color;Thing=purchase_price"},
		{"Material;Farbe;Bestellnummer\nPLA;Rot;PLA-BLK-1\nPETG;Blau;PETG-BLU-2\n",
			"Material=material_type;Farbe=color;Bestellnummer="},
		{"Material;Couleur;Référence\nPLA;Rouge;PLA-R1\nPETG;Bleu;PETG-B2\n",
			"Material=material_type;Couleur=color;Référence="},
		{"Material,Color,Seite\nPLA,Red,https://shop.example/pla-red\nPLA,Blue,https://shop.example/pla-blue\n",
			"Material=material_type;Color=color;Seite="},
		{"Color,Weight,Thing\nRed,1000,shop/pla-red\nBlue,1000,shop/pla-blue\n", "Color=color;Weight=net_weight_grams;Thing="},
		{"Color,Weight,Thing\nRed,1000,my old pla from Bob\nBlue,1000,pla of the club\n",
			"Color=color;Weight=net_weight_grams;Thing="},
		{"Color,Weight,Thing\nRed,1000,PLA Silk\nBlue,1000,PETG-CF\n",
			"Color=color;Weight=net_weight_grams;Thing=material_type"},
		// A second color is not the color, and its code is not the code of the color.
		{"Brand,Name,Color,Secondary_Color\nA,Fire PLA,#FF0000,#00FF00\nA,Sea PLA,#0000FF,#00FFFF\n",
			"Brand=brand;Name=filament_name;Color=color;Secondary_Color="},
		{"Material,Color,Zweite Farbe,Alt Color\nPLA,Red,Blue,Green\n", "Material=material_type;Color=color;Zweite Farbe=;Alt Color="},
		{"Material,Color,X\nPLA,#FF0000,#00FF00\nPLA,#0000FF,#00FFFF\n", "Material=material_type;Color=color;X="},
		{"Material,Color,X\nPLA,Red,#FF0000\nPLA,Blue,#0000FF\n", "Material=material_type;Color=color;X=color_hex"},
		{"Material,Color,Weight,X\nPLA,Red,1000,250 g\nPLA,Blue,1000,220 g\n",
			"Material=material_type;Color=color;Weight=net_weight_grams;X="},
		{"Material,Color,Price,X\nPLA,Red,20,€ 5\nPLA,Blue,20,€ 6\n", "Material=material_type;Color=color;Price=purchase_price;X="},
		{"Material,Color,Y\nPLA,Red,PETG\nPLA,Blue,ABS\n", "Material=material_type;Color=color;Y="},
		// Parts of titles.
		{"Material,Color,noz_size\nPLA,Red,0.4mm\nPLA,Blue,0.6mm\n", "Material=material_type;Color=color;noz_size="},
		{"Material,Color,tip size\nPLA,Red,0.4\nPLA,Blue,0.6\n", "Material=material_type;Color=color;tip size="},
		{"Material,Color,Düsengröße\nPLA,Red,0.4\nPLA,Blue,0.6\n", "Material=material_type;Color=color;Düsengröße="},
		{"Material,Color,variantid\nPLA,Red,4711\nPLA,Blue,4712\n", "Material=material_type;Color=color;variantid="},
		{"Material,Color,Color ID,brand_url\nPLA,Red,7,x\nPLA,Blue,8,y\n",
			"Material=material_type;Color=color;Color ID=;brand_url="},
		{"Material,Color,Variant key\nPLA,Red,a1b2\nPLA,Blue,c3d4\n", "Material=material_type;Color=color;Variant key="},
		{"Material,Color,Extra: spool_type\nPLA,Red,cardboard\nPLA,Blue,refill\n",
			"Material=material_type;Color=color;Extra: spool_type="},
		{"Material,Color,Spulentyp\nPLA,Rot,Pappe\n", "Material=material_type;Color=color;Spulentyp="},
		{"Material;Farbe;Auf Lager\nPLA;Rot;ja\nPLA;Blau;nein\n", "Material=material_type;Farbe=color;Auf Lager=state"},
		{"Material;Farbe;Lager Nord\nPLA;Rot;ja\nPLA;Blau;nein\n", "Material=material_type;Farbe=color;Lager Nord="},
		{"Material;Farbe;Lager Nord\nPLA;Rot;A1\nPLA;Blau;B2\n", "Material=material_type;Farbe=color;Lager Nord=location"},
		{"Material,Color,Printed weight\nPLA,Red,12\nPLA,Blue,850\n", "Material=material_type;Color=color;Printed weight="},
		{"Material,Color,Box location,Box weight\nPLA,Red,A1,300\nPLA,Blue,B2,310\n",
			"Material=material_type;Color=color;Box location=location;Box weight="},
		{"Material,Color,Location id,Count of spools\nPLA,Red,7,2\nPLA,Blue,8,1\n",
			"Material=material_type;Color=color;Location id=;Count of spools=quantity"},
		// A filament is a material if its values are nothing else.
		{"Filament,Farbe\nPLA,Rot\nPETG,Blau\n", "Filament=material_type;Farbe=color"},
		{"Filament,Qty\nPrusament PLA Galaxy Black,1\n", "Filament=filament_name;Qty=quantity"},
	} {
		testkit.Equal(t, fieldsOf(c.Post(t, importPath+"/check", test.file).Want(200)), test.want, "%q", test.file)
	}
}

// What is left of a spool follows from its state and from its weights, which are one system of equations. Weights that
// contradict each other are asked about.
func TestWhatIsLeft(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	const first = "net_weight_grams,remaining_weight_grams,spool_weight_grams,archived\n"
	for file, want := range map[string]string{
		"Material,Color,Status\nPLA,Red,finished\nPLA,Red,empty\nPLA,Red,leer\nPLA,Red,new\nPLA,Red,in use\n": "" +
			"1000,0,,false\n1000,0,,false\n1000,0,,false\n1000,1000,,false\n1000,1000,,false\n",
		"Material;Farbe;Auf Lager\nPLA;Rot;nein\nPLA;Rot;ja\n":     "1000,0,,false\n1000,1000,,false\n",
		"Material;Couleur;En stock\nPLA;Rouge;non\nPLA;Bleu;oui\n": "1000,0,,false\n1000,1000,,false\n",
		"Material,Color,Owned\nPLA,Red,false\nPLA,Red,true\n":      "1000,0,,false\n1000,1000,,false\n",
		"Material,Color,Owned,Qty\nPLA,Red,0,1\nPLA,Red,1,1\n":     "1000,0,,false\n1000,1000,,false\n",
		"Material,Color,In stock\nPLA,Red,1\nPLA,Red,2\n":          "1000,1000,,false\n1000,1000,,false\n1000,1000,,false\n",
		"Material,Color,Empty\nPLA,Red,yes\nPLA,Red,no\n":          "1000,0,,true\n1000,1000,,false\n",
		"Material,Color,Weight,Left,Status\nPLA,Red,1000,300,finished\nPLA,Red,1000,,used up\n": "1000,300,,false\n" +
			"1000,0,,false\n",
		"Material,Color,Nominal,Tare,Current gross,Full spool weight\nPLA,Red,1000,250,600,1250\n": "1000,350,250,false\n",
		"Material,Color,Full spool weight,Net weight,Gross weight\nPLA,Red,1250,1000,600\n":        "1000,350,250,false\n",
		"Material,Color,Full spool weight,Tare,Gross weight\nPLA,Red,1250,250,600\n":               "1000,350,250,false\n",
		"Material,Color,Gross weight,Left,Weight\nPLA,Red,600,350,1000\n":                          "1000,350,250,false\n",
		"Material,Color,Weight,Used\nPLA,Red,1000,650\n":                                           "1000,350,,false\n",
		"Material,Color,Left,Used\nPLA,Red,350,650\n":                                              "1000,350,,false\n",
		"Material,Color,Weight,Gross weight,Tare\nPLA,Red,1000,245,250\n":                          "1000,0,250,false\n",
		"Material;Farbe;Nettogewicht;Leergewicht;Bruttogewicht\nPLA;Rot;1 kg;250 g;0,6 kg\n":       "1000,350,250,false\n",
	} {
		c := api.Operator(t)
		check := c.With("Content-Type", "text/csv").Post(t, importPath+"/check", file)
		postMode(t, c, suggested(t, check).Encode(), file)
		wantSpools(t, c, first+want)
	}
	c := api.Operator(t).With("Content-Type", "text/csv")
	for file, want := range map[string]string{
		"Material,Color,Nominal,Tare,Full spool weight\nPLA,Red,1000,250,1500\n": "full_weight_grams is not the sum of " +
			"net_weight_grams and spool_weight_grams, 1000 and 250 g",
		"Material,Color,Weight,Tare,Gross weight,Left\nPLA,Red,1000,250,600,700\n": "gross_weight_grams is not the sum",
		"Material,Color,Weight,Tare,Gross weight\nPLA,Red,1000,250,150\n":          "gross_weight_grams must be more than",
		"Material,Color,Weight,Gross weight\nPLA,Red,1000,600\n":                   "gross_weight_grams needs the weight",
		"Material,Color,Weight,Left,Used\nPLA,Red,1000,300,300\n":                  "net_weight_grams is not the sum",
	} {
		got := problemsOf(c.Post(t, importPath+"/check", file).Want(200))
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
}

// Names of colors, materials and brands stay what the file says.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	const first = "brand,material_type,material_name,color,color_hex\n"
	for file, want := range map[string]string{
		"Name,Weight\nPrusament PLA Orange (Prusa Orange),1000\nPETG Ocean (Blue) 1kg,1000\n": "" +
			"Prusament,PLA,,Orange (Prusa Orange),\n,PETG,,Ocean (Blue),\n",
		"Material,Name\nPLA,Orange (Prusa Orange)\n":                  ",PLA,,Orange (Prusa Orange),\n",
		"Material,Name,Hex\nPLA,Bone White,#E0D5C5\n":                 ",PLA,,Bone White,#E0D5C5\n",
		"Material,Color,Filler\nASA,Black,Carbon Fiber\nPLA,Red,\n":   ",ASA,ASA-CF,Black,\n,PLA,,Red,\n",
		"Material;Farbe;Füllstoff\nPETG;Rot;Glasfaser\nPA;Rot;ohne\n": ",PETG,PETG-GF,Rot,\n,Nylon,,Rot,\n",
		"Material,Color\nJAYO PLA+,Red\nPLA,Blue\nBambu Lab PETG HF,Red\n": "JAYO,PLA,PLA+,Red,\n,PLA,,Blue,\n" +
			"Bambu Lab,PETG,PETG HF,Red,\n",
		"Brand,Material,Color\nJAYO,JAYO PLA+,Red\n": "JAYO,PLA,PLA+,Red,\n",
	} {
		c := api.Operator(t)
		check := c.With("Content-Type", "text/csv").Post(t, importPath+"/check", file)
		postMode(t, c, suggested(t, check).Encode(), file)
		wantSpools(t, c, first+want)
	}
	// The same for filaments.
	c := api.Operator(t)
	csv := c.With("Content-Type", "text/csv")
	csv.Post(t, filaments+"/import", "name,material,hex,diameter,filler\nBone White,PLA,#8E9089,1.75,\n"+
		"Prusament ASA Jet Black,ASA,,1.75,carbon fiber\n").Want(200).Shows(map[string]string{"created": "2"})
	c.Get(t, filaments+"?sort_order=asc").Shows(map[string]string{"items.0.color": "Bone White", "items.0.name": "Bone White",
		"items.1.color": "Jet Black", "items.1.name": "Prusament ASA Jet Black", "items.1.vendor_name": "Prusament",
		"items.1.material_name": "ASA-CF"})
}
