package spoolman

import (
	"fmt"
	"strings"

	"spoolwright/db"
)

// Filaments and vendors have the ids of their numbers. A spool without a filament shows one that is computed from its
// own fields. Equal spools show the same, whose id is a hash of these fields, above all numbers. So do brands of such
// spools for vendors.
const firstComputed = 1_000_000_000

// unknownVendor is the id of the vendor that filaments without one show: OpenSpoolMan reads its name without asking.
const unknownVendor = firstComputed

func computedID(fields ...string) string {
	return fmt.Sprintf(`(%d + (('x' || left(md5(concat_ws('|', %s)), 8))::bit(32)::int & 1073741823))`, firstComputed+1,
		strings.Join(fields, ", "))
}

// The ids of the computed filament and vendor of a spool s without a filament. The vendor's is null without a brand.
var (
	groupID = computedID(`s.material_type`, `coalesce(s.brand_key, '')`, `s.color_key`,
		`coalesce(upper(s.color_hex), '')`, `s.diameter_mm::text`)
	brandID = `case when s.brand_key <> '' then ` + computedID(`s.brand_key`) + ` end`
)

// member is a member of a JSON object. The expression is the JSON of its value as text; if that is null, the object
// does not have the member.
type member struct{ name, value string }

// objectOf returns the expression for a JSON object as text. The first member must not be null.
func objectOf(members ...member) string {
	var b strings.Builder
	b.WriteString(`concat('{"` + members[0].name + `":', ` + members[0].value)
	for _, m := range members[1:] {
		b.WriteString(`, ',"` + m.name + `":' || ` + m.value)
	}
	return b.String() + `, '}')`
}

func number(column string) string { return `trim_scale(` + column + `)` }
func text(column string) string   { return `to_json(` + column + `)` }

func instant(column string) string {
	return `to_char(` + column + ` at time zone 'UTC', '\"YYYY-MM-DD"T"HH24:MI:SS"Z"\"')`
}

// extraOf returns the custom fields of a row, whose values are texts with JSON.
func extraOf(row string) string {
	return `case when ` + row + `.extra = '{}' then '{}'
		else (select jsonb_object_agg(key, value::text)::text from jsonb_each(` + row + `.extra)) end`
}

// usualTemperature returns the expression for the usual temperature in °C of the extruder (0) or the bed (1) with a
// material. The templates of spoolman2slicer fail without one.
func usualTemperature(part int, material string) string {
	expression := "case " + material
	for _, m := range []struct {
		name         string
		temperatures [2]int
	}{{"PLA", [2]int{210, 60}}, {"PETG", [2]int{240, 80}}, {"ABS", [2]int{250, 100}}, {"TPU", [2]int{225, 50}},
		{"ASA", [2]int{255, 100}}, {"Nylon", [2]int{260, 80}}, {"PC", [2]int{270, 110}}, {"HIPS", [2]int{240, 100}},
		{"PVA", [2]int{200, 60}}, {"Custom", [2]int{210, 60}}} {
		expression += fmt.Sprintf(" when '%s' then %d", m.name, m.temperatures[part])
	}
	return expression + " end"
}

// temperature returns the temperature of a filament f. Only a filament of an unnamed custom material, which clients of
// this API cannot create, has one without its user's choice.
func temperature(column string, part int) string {
	return `coalesce(f.` + column + `, case when f.material_type = 'Custom' and f.material_name is null then ` +
		usualTemperature(part, "f.material_type") + ` end)`
}

const (
	density = `coalesce(s.density_g_cm3, usual_density(s.material_type))`
	perMM   = `grams_per_mm(s.diameter_mm, ` + density + `)`
	used    = `greatest(s.net_weight_grams - s.remaining_weight_grams, 0)`

	filamentName     = `nullif(coalesce(f.name, f.color), '')`
	filamentMaterial = `nullif(coalesce(f.material_name, f.material_type), '')`
	filamentDensity  = `coalesce(f.density_g_cm3, usual_density(f.material_type))`

	// Of a filament with several colours, color_hex is the first one, which only the service's own API shows.
	oneColor      = `case when cardinality(f.color_hexes) < 2 then upper(substr(f.color_hex, 2)) end`
	severalColors = `case when cardinality(f.color_hexes) > 1
		then upper(replace(array_to_string(f.color_hexes, ','), '#', '')) end`
)

// The JSON objects as text, of rows v of vendors, f of filaments with v, and s of spools. Clients fail on null, so unset
// fields are missing. Every filament has a vendor, and every spool a remaining weight, because clients read these
// without asking.
var (
	vendorJSON = objectOf(
		member{"id", "v.number"},
		member{"registered", instant("v.created_at")},
		member{"name", text("v.name")},
		member{"comment", text("v.notes")},
		member{"empty_spool_weight", number("v.empty_spool_weight_grams")},
		member{"external_id", text("v.external_id")},
		member{"extra", extraOf("v")})

	filamentJSON = objectOf(
		member{"id", "f.number"},
		member{"registered", instant("f.created_at")},
		member{"name", text(filamentName)},
		member{"vendor", `coalesce(case when v.id is not null then ` + vendorJSON + ` end,
			` + unnamed("f.created_at") + `)`},
		member{"material", text(filamentMaterial)},
		member{"price", number("f.price")},
		member{"density", number(filamentDensity)},
		member{"diameter", number("f.diameter_mm")},
		member{"weight", number("f.net_weight_grams")},
		member{"spool_weight", number("f.spool_weight_grams")},
		member{"article_number", text("f.article_number")},
		member{"comment", text("f.notes")},
		member{"settings_extruder_temp", temperature("extruder_temperature_c", 0)},
		member{"settings_bed_temp", temperature("bed_temperature_c", 1)},
		member{"color_hex", text(oneColor)},
		member{"multi_color_hexes", text(severalColors)},
		member{"multi_color_direction", `case when cardinality(f.color_hexes) > 1 then ` +
			text("coalesce(f.color_arrangement, 'coaxial')") + ` end`},
		member{"external_id", text("f.external_id")},
		member{"extra", extraOf("f")})

	// brandJSON is the vendor of a spool without a filament, and groupJSON its filament.
	brandJSON = `coalesce(case when s.brand_key <> '' then ` + objectOf(
		member{"id", computedID("s.brand_key")},
		member{"registered", instant("s.created_at")},
		member{"name", text("s.brand")},
		member{"extra", "'{}'"}) + ` end, ` + unnamed("s.created_at") + `)`

	groupJSON = objectOf(
		member{"id", groupID},
		member{"registered", instant("s.created_at")},
		member{"name", text("s.color")},
		member{"vendor", brandJSON},
		member{"material", text("s.material_type")},
		member{"price", number("s.purchase_price")},
		member{"density", number(density)},
		member{"diameter", number("s.diameter_mm")},
		member{"weight", number("s.net_weight_grams")},
		member{"spool_weight", number("s.spool_weight_grams")},
		member{"settings_extruder_temp", usualTemperature(0, "s.material_type")},
		member{"settings_bed_temp", usualTemperature(1, "s.material_type")},
		member{"color_hex", text("upper(substr(s.color_hex, 2))")},
		member{"extra", "'{}'"})

	// spoolJSON needs the JSON of the spool's filament as fil.json, which is null for a spool without one.
	spoolJSON = objectOf(
		member{"id", "s.number"},
		member{"registered", instant("s.created_at")},
		member{"first_used", instant("s.first_used_at")},
		member{"last_used", instant("s.last_used_at")},
		member{"filament", `coalesce(fil.json, ` + groupJSON + `)`},
		member{"price", number("s.purchase_price")},
		member{"remaining_weight", number("s.remaining_weight_grams")},
		member{"initial_weight", number("s.net_weight_grams")},
		member{"spool_weight", number("s.spool_weight_grams")},
		member{"used_weight", number(used)},
		member{"remaining_length", number(`round(s.remaining_weight_grams / ` + perMM + `, 3)`)},
		member{"used_length", number(`round(` + used + ` / ` + perMM + `, 3)`)},
		member{"location", text("s.location")},
		member{"lot_nr", text("s.lot_number")},
		member{"comment", text("s.notes")},
		member{"archived", "s.archived"},
		member{"extra", extraOf("s")})
)

// unnamed returns the JSON of the vendor of a filament without one.
func unnamed(created string) string {
	return objectOf(member{"id", fmt.Sprint(unknownVendor)}, member{"registered", instant(created)},
		member{"name", `'"Unknown"'`}, member{"extra", "'{}'"})
}

// Joins of the filament f of a spool s, of the vendor v of f, and of the JSON of the former. The tenant is $1.
const (
	joinFilament = ` left join lateral (
		select * from filaments f where f.tenant_id = $1::uuid and f.id = s.filament_id offset 0) f on true`
	joinVendor = ` left join lateral (
		select * from vendors v where v.tenant_id = $1::uuid and v.id = f.vendor_id offset 0) v on true`
)

var joinFilamentJSON = ` left join lateral (select ` + filamentJSON + ` as json
	from (select * from filaments f where f.tenant_id = $1::uuid and f.id = s.filament_id offset 0) f` + joinVendor +
	`) fil on true`

// numbered are the queries for the JSON of the item with the number $2, which can be hidden.
var numbered = map[string]string{
	"spool": `select ` + spoolJSON + ` from spools s` + joinFilamentJSON + `
		where s.tenant_id = $1::uuid and s.number = $2::int`,
	"filament": `select ` + filamentJSON + ` from filaments f` + joinVendor + `
		where f.tenant_id = $1::uuid and f.number = $2::int and num_nonnulls(f.number) = 1`,
	"vendor": `select ` + vendorJSON + ` from vendors v
		where v.tenant_id = $1::uuid and v.number = $2::int and num_nonnulls(v.number) = 1`,
}

// selectSpool returns the statement that reads the spool with the number, as JSON. It returns no row if the spool does
// not exist or is hidden.
func selectSpool(tenant string, number int64) *db.Stmt {
	return db.SQL(numbered["spool"]+` and s.hidden_at is null`, tenant, number)
}

// selectFilament is selectSpool for a filament, also for a computed one.
func selectFilament(tenant string, number int64) *db.Stmt {
	if number < firstComputed {
		return db.SQL(numbered["filament"]+` and f.hidden_at is null`, tenant, number)
	}
	return db.SQL(`select `+groupJSON+` from spools s where s.tenant_id = $1::uuid and s.hidden_at is null
		and s.filament_id is null and `+groupID+` = $2::int order by s.number limit 1`, tenant, number)
}

// selectVendor is selectSpool for a vendor, also for a computed one.
func selectVendor(tenant string, number int64) *db.Stmt {
	if number < firstComputed {
		return db.SQL(numbered["vendor"]+` and v.hidden_at is null`, tenant, number)
	}
	return db.SQL(`select `+brandJSON+` from spools s where s.tenant_id = $1::uuid and s.hidden_at is null
		and s.filament_id is null and s.brand_key <> '' and `+brandID+` = $2::int order by s.number limit 1`,
		tenant, number)
}
