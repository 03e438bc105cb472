package inventory_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
)

// A file of SpoolmanDB is imported into the catalog of a tenant, also several times.
func TestFilamentCatalog(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/filament-catalog"
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "operator"), api.Operator(t)
	jsonl := c.With("Content-Type", "application/jsonl")
	const black = `{"id":"p_black","manufacturer":"Polymaker","name":"Jet Black","material":"PLA+","density":1.24,` +
		`"weight":1000,"spool_weight":140,"spool_type":"cardboard","diameter":1.75,"color_hex":"1a1a1a",` +
		`"extruder_temp":215,"bed_temp":60,"finish":"matte","translucent":false,"glow":true,"new_field":[1]}`
	const dual = `{"id":"e_dual","manufacturer":"eSun","name":"Dual","material":"PETG","density":1.27,"weight":750,` +
		`"spool_weight":null,"diameter":2.85,"color_hexes":["ff0000","00ff0080"],"multi_color_direction":"coaxial",` +
		`"pattern":"sparkle","translucent":true}`
	counts := func(created, updated, unchanged, removed string) map[string]string {
		return map[string]string{"created": created, "updated": updated, "unchanged": unchanged, "removed": removed}
	}
	jsonl.Post(t, path+"/import?dry_run=true", "["+black+","+dual+"]").Want(200).Shows(counts("2", "0", "0", "0"))
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "0"})
	jsonl.Post(t, path+"/import", "["+black+","+dual+"]").Want(200).Shows(counts("2", "0", "0", "0"))
	list := c.Get(t, path+"?search=jet+black+pla").Want(200).Shows(map[string]string{"total": "1",
		"items.0.external_id": "p_black", "items.0.vendor": "Polymaker", "items.0.name": "Jet Black",
		"items.0.color": "Jet Black", "items.0.material_type": "PLA", "items.0.material_name": "PLA+",
		"items.0.color_hex": "#1A1A1A", "items.0.color_hexes": "[]", "items.0.density_g_cm3": "1.24",
		"items.0.net_weight_grams": "1000", "items.0.spool_weight_grams": "140", "items.0.diameter_mm": "1.75",
		"items.0.extruder_temperature_c": "215", "items.0.bed_temperature_c": "60", "items.0.glow": "true",
		"items.0.finish": "matte", "items.0.spool_type": "cardboard", "items.0.pattern": "null"})
	c.Get(t, path+"?vendor=ESUN&material_type=PETG,ABS&external_id=e_dual").Want(200).Shows(map[string]string{
		"total": "1", "items.0.color_hexes.1": "#00FF0080", "items.0.color_arrangement": "coaxial",
		"items.0.spool_weight_grams": "null", "items.0.translucent": "true"})
	c.Get(t, path+"?external_id=E_DUAL").Want(200).Shows(map[string]string{"total": "0"})
	id := list.Text("items.0.id")
	other.Get(t, path).Want(200).Shows(map[string]string{"total": "0"})

	// A filament of an item.
	body := j{}
	for _, name := range []string{"external_id", "vendor", "name", "material_type", "material_name", "color",
		"color_hex",
		"color_hexes", "diameter_mm", "density_g_cm3", "net_weight_grams", "spool_weight_grams",
		"extruder_temperature_c", "bed_temperature_c"} {
		body[name] = list.Value("items.0." + name)
	}
	c.Post(t, filaments, body).Want(201).Shows(map[string]string{"vendor_name": "Polymaker", "material_name": "PLA+"})

	// Again: equal, changed, removed.
	jsonl.Post(t, path+"/import", black+"\n"+dual+"\n").Want(200).Shows(counts("0", "0", "2", "0"))
	c.Get(t, path+"?external_id=p_black").Want(200).Shows(map[string]string{
		"items.0.updated_at": list.Text("items.0.updated_at")})
	changed := strings.Replace(black, "215", "220", 1)
	jsonl.Post(t, path+"/import?replace=true&dry_run=true", changed).Want(200).Shows(counts("0", "1", "0", "1"))
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "2"})
	jsonl.Post(t, path+"/import?replace=true", changed).Want(200).Shows(counts("0", "1", "0", "1"))
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "1", "items.0.id": id,
		"items.0.extruder_temperature_c": "220"})

	for file, field := range map[string]string{
		"{":           "body",
		`[{"id":1}]`:  "body",
		black + black: "object 2",
		`{"id":"x"}`:  "object 1",
		black + "\n" + strings.Replace(dual, "ff0000", "red", 1):   "object 2",
		black + "\n" + strings.Replace(dual, "coaxial", "both", 1): "object 2",
		black + "\n" + strings.Replace(dual, "1.27", "1e9", 1):     "object 2",
		black + "\n" + strings.Replace(dual, `"Dual"`, `" "`, 1):   "object 2",
	} {
		jsonl.Post(t, path+"/import", file).Fields(field)
	}
	tenant.User(t, "viewer").With("Content-Type", "application/jsonl").Post(t, path+"/import", black).
		WantError(403, "FORBIDDEN")
}
