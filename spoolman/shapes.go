package spoolman

import (
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
)

// The id of a filament or vendor is its number. A spool without a filament shows a filament that is computed from
// the spool's own fields. Equal spools show the same computed filament; its id is a hash of these fields, and higher
// than all numbers. In the same way, the brand of such a spool shows a computed vendor, unless a vendor has the name
// of the brand.
const firstComputed = 1_000_000_000

// unknownVendor is the id of the vendor that a filament without a vendor shows. Every filament shows a vendor, because
// OpenSpoolMan does not check whether a filament has a vendor before it reads the vendor's name.
const unknownVendor = firstComputed

func computedID(fields ...string) string {
	return fmt.Sprintf(`(%d + (('x' || left(md5(concat_ws('|', %s)), 8))::bit(32)::int & 1073741823))`,
		firstComputed+1, strings.Join(fields, ", "))
}

// groupID is the id of the computed filament of a spool s, which is null if the spool has a filament. Its value is
// that of computedID for the fields of the spool; the trigger spool_computed sets it.
const groupID = `s.computed_filament`

// brandID is the id of the computed vendor of a spool s without a filament. It is null if the spool has no brand.
var brandID = `case when s.brand_key <> '' then ` + computedID(`s.brand_key`) + ` end`

// member is a member of a JSON object: its name, and the SQL expression for its value. If the value is null, the
// object does not have the member.
type member struct {
	name  string
	kind  kind
	value string
}

// kind returns the SQL expression that converts the value of a member to JSON.
type kind func(value string) string

func whole(value string) string   { return value } // for integers, booleans, and texts that are JSON
func decimal(value string) string { return `trim_scale(` + value + `)` }
func text(value string) string    { return `to_json(` + value + `)` }

func instant(value string) string {
	return `to_char(` + value + ` at time zone 'UTC', '\"YYYY-MM-DD"T"HH24:MI:SS"Z"\"')`
}

// objectOf returns the expression for a JSON object as text. The first member must not be null.
func objectOf(members ...member) string {
	var b strings.Builder
	b.WriteString(`concat('{"` + members[0].name + `":', ` + members[0].kind(members[0].value))
	for _, m := range members[1:] {
		b.WriteString(`, ',"` + m.name + `":' || ` + m.kind(m.value))
	}
	return b.String() + `, '}')`
}

// column returns the member as a column of a statement that uses db.Stmt.Sparse.
func (m member) column(prefix string) string {
	value := m.value
	switch {
	case m.name == "extra":
		value = "(" + value + ")::jsonb"
	case m.name == "registered" || m.name == "first_used" || m.name == "last_used":
		value = "date_trunc('second', " + value + ")"
	}
	return value + ` as "` + prefix + m.name + `"`
}

// columnsOf returns the columns of an object.
func columnsOf(prefix string, members []member) string {
	var columns []string
	for _, m := range members {
		columns = append(columns, m.column(prefix))
	}
	return strings.Join(columns, ", ")
}

// either returns members with the values of first if the condition is true, and with the values of second otherwise.
// second must have all members of first.
func either(condition string, first, second []member) []member {
	all := slices.Clone(second)
	for i, m := range all {
		value := "null"
		for _, other := range first {
			if other.name == m.name {
				value = other.value
			}
		}
		all[i].value = `case when ` + condition + ` then ` + value + ` else ` + m.value + ` end`
	}
	return all
}

// extraOf returns the expression for the custom fields of a row. Each value becomes a text that contains JSON.
func extraOf(row string) string {
	return `case when ` + row + `.extra = '{}' then '{}' else extra_texts(` + row + `.extra) end`
}

// usualTemperature returns the expression for the usual temperature in °C of a material. part is 0 for the extruder
// and 1 for the bed. The templates of spoolman2slicer fail if a filament has no temperature.
func usualTemperature(part int, material string) string {
	// A case expression would compare the material with each of them whenever a statement begins.
	all := [2]string{
		`{"PLA": 210, "PETG": 240, "ABS": 250, "TPU": 225, "ASA": 255, "Nylon": 260, "PC": 270, "HIPS": 240, "PVA": 200,
			"Custom": 210}`,
		`{"PLA": 60, "PETG": 80, "ABS": 100, "TPU": 50, "ASA": 100, "Nylon": 80, "PC": 110, "HIPS": 100, "PVA": 60,
			"Custom": 60}`,
	}
	return `('` + all[part] + `'::jsonb -> ` + material + `)::int`
}

// temperature returns the expression for the temperature of a filament f. If nobody has set the temperature, it is
// null, unless the filament has a custom material without a name: then it is the usual temperature. Clients of this
// API cannot create such filaments.
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

	// If a filament has several colors, f.color_hex is the first color. Only the service's own API shows it.
	oneColor      = `case when cardinality(f.color_hexes) < 2 then upper(substr(f.color_hex, 2)) end`
	severalColors = `case when cardinality(f.color_hexes) > 1
		then upper(replace(array_to_string(f.color_hexes, ','), '#', '')) end`
)

// The JSON objects, as text, of a vendor v, a filament f with its vendor v, and a spool s. Clients fail on null, so
// the objects do not have unset fields. Every filament has a vendor, and every spool has a remaining weight, because
// clients do not check whether these fields exist.
var (
	vendorMembers = []member{
		{"id", whole, "v.number"},
		{"registered", instant, "v.created_at"},
		{"name", text, "v.name"},
		{"comment", text, "v.notes"},
		{"empty_spool_weight", decimal, "v.empty_spool_weight_grams"},
		{"external_id", text, "v.external_id"},
		{"extra", whole, extraOf("v")},
	}
	vendorJSON = objectOf(vendorMembers...)

	filamentMembers = []member{
		{"id", whole, "f.number"},
		{"registered", instant, "f.created_at"},
		{"name", text, filamentName},
		{"material", text, filamentMaterial},
		{"price", decimal, "f.price"},
		{"density", decimal, filamentDensity},
		{"diameter", decimal, "f.diameter_mm"},
		{"weight", decimal, "f.net_weight_grams"},
		{"spool_weight", decimal, "f.spool_weight_grams"},
		{"article_number", text, "f.article_number"},
		{"comment", text, "f.notes"},
		{"settings_extruder_temp", whole, temperature("extruder_temperature_c", 0)},
		{"settings_bed_temp", whole, temperature("bed_temperature_c", 1)},
		{"color_hex", text, oneColor},
		{"multi_color_hexes", text, severalColors},
		{"multi_color_direction", text, `case when cardinality(f.color_hexes) > 1
			then coalesce(f.color_arrangement, 'coaxial') end`},
		{"external_id", text, "f.external_id"},
		{"extra", whole, extraOf("f")},
	}
	filamentJSON = objectOf(append(slices.Clone(filamentMembers),
		member{"vendor", whole, `coalesce(case when v.id is not null
		then ` + vendorJSON + ` end, ` + unnamed("f.created_at") + `)`})...)

	// brandJSON is the vendor that a spool without a filament shows, and groupJSON is the filament.
	brandJSON = `coalesce((select ` + vendorJSON + ` from ` + vendorOfBrand + `),
		case when s.brand_key <> '' then ` + objectOf(
		member{"id", whole, computedID("s.brand_key")},
		member{"registered", instant, "s.created_at"},
		member{"name", text, "s.brand"},
		member{"extra", whole, "'{}'"}) + ` end, ` + unnamed("s.created_at") + `)`

	groupMembers = []member{
		{"id", whole, groupID},
		{"registered", instant, "s.created_at"},
		{"name", text, "s.color"},
		{"material", text, "coalesce(nullif(s.material_name, ''), s.material_type)"},
		{"price", decimal, "s.purchase_price"},
		{"density", decimal, density},
		{"diameter", decimal, "s.diameter_mm"},
		{"weight", decimal, "s.net_weight_grams"},
		{"spool_weight", decimal, "s.spool_weight_grams"},
		{"settings_extruder_temp", whole, usualTemperature(0, "s.material_type")},
		{"settings_bed_temp", whole, usualTemperature(1, "s.material_type")},
		{"color_hex", text, "upper(substr(s.color_hex, 2))"},
		{"extra", whole, "'{}'"},
	}
	groupJSON = objectOf(append(slices.Clone(groupMembers), member{"vendor", whole, brandJSON})...)

	// shownFilament is the filament that a spool shows, without its vendor.
	shownFilament = either("s.filament_id is null", groupMembers, filamentMembers)

	// spoolJSON needs the JSON of the spool's filament as fil.json. fil.json is null if the spool has no filament.
	spoolMembers = []member{
		{"id", whole, "s.number"},
		{"registered", instant, "s.created_at"},
		{"first_used", instant, "s.first_used_at"},
		{"last_used", instant, "s.last_used_at"},
		{"price", decimal, "s.purchase_price"},
		{"remaining_weight", decimal, "s.remaining_weight_grams"},
		{"initial_weight", decimal, "s.net_weight_grams"},
		{"spool_weight", decimal, "s.spool_weight_grams"},
		{"used_weight", decimal, used},
		{"remaining_length", decimal, `round(s.remaining_weight_grams / ` + perMM + `, 3)`},
		{"used_length", decimal, `round(` + used + ` / ` + perMM + `, 3)`},
		{"location", text, "s.location"},
		{"lot_nr", text, "s.lot_number"},
		{"comment", text, "s.notes"},
		{"archived", whole, "s.archived"},
		{"extra", whole, extraOf("s")},
	}
	spoolJSON = objectOf(append(slices.Clone(spoolMembers),
		member{"filament", whole, `coalesce(fil.json, ` + groupJSON + `)`})...)

	// spoolColumns are the fields of spoolJSON as columns, for db.Stmt.Sparse. They need the spool s, its filament f
	// and its vendor v. A statement with spoolColumns takes a third of the time of a statement with spoolJSON.
	spoolColumns = columnsOf("", spoolMembers) + ", " +
		columnsOf("filament.", shownFilament) + ", " +
		columnsOf("filament.vendor.", []member{
			{"id", whole, `case when v.id is not null then v.number when s.filament_id is null and s.brand_key <> ''
				then ` + computedID("s.brand_key") + ` else ` + fmt.Sprint(unknownVendor) + ` end`},
			{"registered", instant, "coalesce(v.created_at, f.created_at, s.created_at)"},
			{"name", text, `coalesce(v.name, case when s.filament_id is null then nullif(s.brand, '') end, 'Unknown')`},
			{"comment", text, "v.notes"},
			{"empty_spool_weight", decimal, "v.empty_spool_weight_grams"},
			{"external_id", text, "v.external_id"},
			{"extra", whole, "case when v.id is null then '{}' else " + extraOf("v") + " end"},
		})
)

// unnamed returns the JSON of the vendor that a filament without a vendor shows.
func unnamed(created string) string {
	return objectOf(member{"id", whole, fmt.Sprint(unknownVendor)}, member{"registered", instant, created},
		member{"name", whole, `'"Unknown"'`}, member{"extra", whole, "'{}'"})
}

// Joins of the filament f of a spool s, of the vendor v of f, and of the JSON of f. The tenant is $1.
const (
	joinFilament = ` left join filaments f on f.tenant_id = $1::uuid and f.id = s.filament_id`
	joinVendor   = ` left join vendors v on v.tenant_id = $1::uuid and v.id = f.vendor_id`

	// vendorOfBrand selects the vendor v of a spool s without a filament: the vendor's name is the brand of the spool.
	vendorOfBrand = `vendors v where v.tenant_id = $1::uuid and v.name_key = s.brand_key and s.brand_key <> ''
		and v.hidden_at is null`
	// joinSpoolVendor joins the vendor of the filament f or, if the spool has no filament, vendorOfBrand.
	joinSpoolVendor = ` left join vendors v on v.tenant_id = $1::uuid and v.id = coalesce(f.vendor_id,
		case when s.filament_id is null then (select v.id from ` + vendorOfBrand + `) end)`
)

var joinFilamentJSON = ` left join lateral (select ` + filamentJSON + ` as json
	from (select * from filaments f where f.tenant_id = $1::uuid and f.id = s.filament_id) f` + joinVendor +
	`) fil on true`

// numbered are the queries for the JSON of the item with the number $2. They find hidden items too.
var numbered = map[string]string{
	"spool": `select ` + spoolJSON + ` from spools s` + joinFilamentJSON + `
		where s.tenant_id = $1::uuid and s.number = $2::int`,
	"filament": `select ` + filamentJSON + ` from filaments f` + joinVendor + `
		where f.tenant_id = $1::uuid and f.number = $2::int`,
	"vendor": `select ` + vendorJSON + ` from vendors v
		where v.tenant_id = $1::uuid and v.number = $2::int`,
}

// selectSpool returns the statement whose Object is the spool with the number. It returns no row if the spool does not
// exist or is hidden.
func selectSpool(tenant string, number int64) *db.Stmt {
	return db.SQL(`select `+spoolColumns+` from spools s`+joinFilament+joinSpoolVendor+`
		where s.tenant_id = $1::uuid and s.number = $2::int and s.hidden_at is null`, tenant, number).Sparse()
}

// selectFilament returns the statement that reads the JSON of the filament with an id. The filament may be computed.
// The statement returns no row if the filament does not exist or is hidden.
func selectFilament(tenant string, number int64) *db.Stmt {
	if number < firstComputed {
		return db.SQL(numbered["filament"]+` and f.hidden_at is null`, tenant, number)
	}
	return db.SQL(`select `+groupJSON+` from spools s where s.tenant_id = $1::uuid and s.hidden_at is null
		and `+groupID+` = $2::int order by s.number limit 1`, tenant, number)
}

// selectVendor is selectFilament for a vendor.
func selectVendor(tenant string, number int64) *db.Stmt {
	if number < firstComputed {
		return db.SQL(numbered["vendor"]+` and v.hidden_at is null`, tenant, number)
	}
	return db.SQL(`select `+brandJSON+` from spools s where s.tenant_id = $1::uuid and s.hidden_at is null
		and s.computed_filament is not null and s.brand_key <> '' and `+brandID+` = $2::int order by s.number limit 1`,
		tenant, number)
}

// selectItem returns the statement that reads the JSON of an item.
func (q request) selectItem(name string, id int64) *db.Stmt {
	switch name {
	case "spool":
		return db.SQL(numbered["spool"]+` and s.hidden_at is null`, q.tenant(), id)
	case "filament":
		return selectFilament(q.tenant(), id)
	}
	return selectVendor(q.tenant(), id)
}
