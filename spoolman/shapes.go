package spoolman

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
)

// A filament is a group of spools with equal attributes, and a vendor a group of spools with an equal brand. The id of
// a group is the lowest number of its spools, hidden ones included.
const (
	filamentKey = `material_type, brand_key, color_key, upper(color_hex), diameter_mm`
	vendorKey   = `coalesce(brand_key, '')`
)

// allSpools selects the spools of tenant $1 with the ids of their groups.
const allSpools = `(select s.*, min(number) over (partition by ` + filamentKey + `) as filament_number,
	min(number) over (partition by ` + vendorKey + `) as vendor_number from spools s where s.tenant_id = $1::uuid) s`

// oneSpool selects the spool with the number $2 of tenant $1 like allSpools. The search for the groups' lowest numbers
// ends at the number of the spool itself.
const oneSpool = `(select s.*,
	(select f.number from spools f where f.tenant_id = s.tenant_id and f.number is not null
		and f.material_type = s.material_type and f.brand_key is not distinct from s.brand_key
		and f.color_key = s.color_key and upper(f.color_hex) is not distinct from upper(s.color_hex)
		and f.diameter_mm = s.diameter_mm order by f.number limit 1) as filament_number,
	(select f.number from spools f where f.tenant_id = s.tenant_id and f.number is not null
		and coalesce(f.brand_key, '') = coalesce(s.brand_key, '') order by f.number limit 1) as vendor_number
	from spools s where s.tenant_id = $1::uuid and s.number = $2::int) s`

func instant(column string) string {
	return `to_char(` + column + ` at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
}

func extraOf(entity, number string) string {
	return `coalesce((select x.extra::jsonb from printer_extras x where x.tenant_id = $1::uuid and x.entity = '` + entity +
		`' and x.number = ` + number + `), '{}')`
}

// usualTemperature returns the expression for the usual temperature in °C of the extruder (0) or the bed (1) with the
// material. The templates of spoolman2slicer fail without one.
func usualTemperature(part int) string {
	expression := "case s.material_type"
	for _, material := range []struct {
		name         string
		temperatures [2]int
	}{{"PLA", [2]int{210, 60}}, {"PETG", [2]int{240, 80}}, {"ABS", [2]int{250, 100}}, {"TPU", [2]int{225, 50}},
		{"ASA", [2]int{255, 100}}, {"Nylon", [2]int{260, 80}}, {"PC", [2]int{270, 110}}, {"HIPS", [2]int{240, 100}},
		{"PVA", [2]int{200, 60}}} {
		expression += fmt.Sprintf(" when '%s' then %d", material.name, material.temperatures[part])
	}
	return expression + " end"
}

// The JSON objects. Clients fail on null, so unset fields are missing. Every filament has a vendor, and every spool a
// remaining weight, because clients read these without asking.
var (
	vendorJSON = `jsonb_build_object('id', s.vendor_number, 'registered', ` + instant("s.created_at") + `,
		'name', coalesce(nullif(s.brand, ''), 'Unknown'), 'extra', ` + extraOf("vendor", "s.vendor_number") + `)`

	filamentJSON = `jsonb_strip_nulls(jsonb_build_object('id', s.filament_number,
		'registered', ` + instant("s.created_at") + `, 'name', s.color, 'vendor', ` + vendorJSON + `,
		'material', s.material_type, 'price', trim_scale(s.purchase_price),
		'density', trim_scale(coalesce(s.density_g_cm3, usual_density(s.material_type))),
		'diameter', trim_scale(s.diameter_mm), 'weight', trim_scale(s.net_weight_grams),
		'spool_weight', trim_scale(s.spool_weight_grams), 'color_hex', substr(s.color_hex, 2),
		'settings_extruder_temp', ` + usualTemperature(0) + `, 'settings_bed_temp', ` + usualTemperature(1) + `,
		'extra', ` + extraOf("filament", "s.filament_number") + `))`

	perMM = `grams_per_mm(s.diameter_mm, coalesce(s.density_g_cm3, usual_density(s.material_type)))`
	used  = `greatest(s.net_weight_grams - s.remaining_weight_grams, 0)`

	spoolJSON = `jsonb_strip_nulls(jsonb_build_object('id', s.number, 'registered', ` + instant("s.created_at") + `,
		'first_used', ` + instant("s.first_used_at") + `, 'last_used', ` + instant("s.last_used_at") + `,
		'filament', ` + filamentJSON + `, 'price', trim_scale(s.purchase_price),
		'remaining_weight', trim_scale(s.remaining_weight_grams), 'initial_weight', trim_scale(s.net_weight_grams),
		'spool_weight', trim_scale(s.spool_weight_grams), 'used_weight', trim_scale(` + used + `),
		'remaining_length', trim_scale(round(s.remaining_weight_grams / ` + perMM + `, 3)),
		'used_length', trim_scale(round(` + used + ` / ` + perMM + `, 3)),
		'location', s.location, 'lot_nr', s.lot_number, 'comment', s.notes, 'archived', s.archived,
		'extra', ` + extraOf("spool", "s.number") + `))`
)

// selectSpool returns the statement that reads the spool with the number, as JSON. It returns no row if the spool does
// not exist or is hidden.
func selectSpool(tenant string, number int64) *db.Stmt {
	return db.SQL(`select `+spoolJSON+`::text from `+oneSpool+` where s.hidden_at is null`, tenant, number)
}

// resource is one of the lists: its JSON, its condition, and the columns that its parameters filter and sort by.
type resource struct {
	json   string
	id     string            // the column of the id
	texts  map[string]string // text filters
	ids    map[string]string // filters by ids
	sorted map[string]string
}

var spoolSort = map[string]string{
	"id": "s.number", "registered": "s.created_at", "first_used": "s.first_used_at", "last_used": "s.last_used_at",
	"price": "s.purchase_price", "remaining_weight": "s.remaining_weight_grams", "used_weight": used,
	"remaining_length": `s.remaining_weight_grams / ` + perMM, "initial_weight": "s.net_weight_grams",
	"location": "s.location", "lot_nr": "s.lot_number", "comment": "s.notes", "archived": "s.archived",
	"filament.id": "s.filament_number", "filament.name": "s.color", "filament.material": "s.material_type",
	"filament.vendor.id": "s.vendor_number", "filament.vendor.name": "s.brand", "filament.diameter": "s.diameter_mm",
}

var resources = map[string]resource{
	"spool": {
		json: spoolJSON, id: "s.number", sorted: spoolSort,
		texts: map[string]string{"filament.name": "s.color", "filament.material": "s.material_type",
			"filament.vendor.name": "s.brand", "location": "s.location", "lot_nr": "s.lot_number",
			"filament_name": "s.color", "filament_material": "s.material_type", "vendor_name": "s.brand"},
		ids: map[string]string{"filament.id": "s.filament_number", "filament_id": "s.filament_number",
			"filament.vendor.id": "s.vendor_number", "vendor_id": "s.vendor_number"},
	},
	"filament": {
		json: filamentJSON, id: "s.filament_number",
		texts: map[string]string{"name": "s.color", "material": "s.material_type", "vendor.name": "s.brand",
			"vendor_name": "s.brand", "color_hex": "s.color_hex"},
		ids: map[string]string{"vendor.id": "s.vendor_number", "vendor_id": "s.vendor_number"},
		sorted: map[string]string{"id": "s.filament_number", "name": "s.color", "material": "s.material_type",
			"vendor.name": "s.brand", "registered": "s.created_at"},
	},
	"vendor": {
		json: vendorJSON, id: "s.vendor_number", texts: map[string]string{"name": "s.brand"},
		sorted: map[string]string{"id": "s.vendor_number", "name": "s.brand", "registered": "s.created_at"},
	},
}

const (
	// maxItems is the maximum number of items of a list. Clients want all spools at once, so it is far above what a
	// farm has.
	maxItems = 20_000

	// maxListBytes bounds the memory that a list takes: comments and custom fields can be long. It is less than the
	// bytes of responses that a caller may leave unread, so that a list can always be sent.
	maxListBytes = 30_000_000

	// maxTerms is the maximum number of texts of a filter, each of which is compared with all spools.
	maxTerms = 20
)

// list returns the statements of a list, which scan its JSON and the number of all matching items. Parameters that the
// resource does not have are ignored. If the list exceeds maxItems or maxListBytes, the JSON is null.
func (f resource) list(tenant string, query url.Values, items *[]byte, total *int64) ([]*db.Stmt, error) {
	args := []any{tenant}
	where := "s.hidden_at is null"
	if f.json == spoolJSON && !isTrue(query.Get("allow_archived")) {
		where += " and not s.archived"
	}
	for name, column := range f.texts {
		if query.Has(name) {
			if strings.Count(query.Get(name), ",") >= maxTerms {
				return nil, server.Invalid(name, "must have at most %d values", maxTerms)
			}
			var condition string
			condition, args = textFilter(column, query.Get(name), args)
			where += " and " + condition
		}
	}
	for name, column := range f.ids {
		if !query.Has(name) {
			continue
		}
		var ids []string
		for text := range strings.SplitSeq(query.Get(name), ",") {
			if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil {
				ids = append(ids, strconv.FormatInt(n, 10)) // -1 stands for an unset vendor, which no spool has
			} else {
				return nil, server.Invalid(name, "must be a list of whole numbers")
			}
		}
		where += " and " + column + " in (" + strings.Join(ids, ",") + ")"
	}
	order := ""
	for part := range strings.SplitSeq(query.Get("sort"), ",") {
		name, direction, _ := strings.Cut(strings.TrimSpace(part), ":")
		if column := f.sorted[name]; column != "" {
			if direction = strings.ToLower(direction); direction != "desc" {
				direction = "asc"
			}
			order += column + " " + direction + " nulls last, "
		}
	}
	// Of a group, the first spool that is not hidden has the attributes.
	from := `(select distinct on (` + f.id + `) s.* from ` + allSpools + ` where ` + where + `
		order by ` + f.id + `, s.number) s`
	window := func(name string, otherwise int64) (int64, error) {
		text := query.Get(name)
		if text == "" {
			return otherwise, nil
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return 0, server.Invalid(name, "must be a whole number")
		}
		return n, nil
	}
	limit, err := window("limit", maxItems+1)
	if err != nil {
		return nil, err
	}
	offset, err := window("offset", 0)
	if err != nil {
		return nil, err
	}
	page := db.SQL(`
		with page as materialized (
			select `+f.json+`::text as j from `+from+` order by `+order+f.id+
		fmt.Sprintf(" limit %d offset %d", min(limit, maxItems+1), offset)+`
		)
		select case when count(*) <= `+strconv.Itoa(maxItems)+` and sum(octet_length(j)) <= `+strconv.Itoa(maxListBytes)+`
			then (select '[' || string_agg(j, ', ') || ']' from page)
			when count(*) = 0 then '[]' end
		from page`, args...).Into(items)
	count := db.SQL(`select count(*) from `+from, args...).Into(total)
	return []*db.Stmt{db.AllowScans(), page, count}, nil
}

// textFilter returns the condition for a filter: a comma means or, quotes an exact match, and "" an unset value.
func textFilter(column, text string, args []any) (string, []any) {
	var any []string
	for term := range strings.SplitSeq(text, ",") {
		value := strings.TrimSpace(term)
		switch {
		case value == `""` || value == "":
			any = append(any, `coalesce(`+column+`, '') = ''`)
			continue
		case len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"':
			args = append(args, value[1:len(value)-1])
			any = append(any, fmt.Sprintf(`lower(%s) = lower($%d::text)`, column, len(args)))
		default:
			args = append(args, value)
			any = append(any, fmt.Sprintf(`strpos(lower(%s), lower($%d::text)) > 0`, column, len(args)))
		}
	}
	return "(" + strings.Join(any, " or ") + ")", args
}

func isTrue(text string) bool { return strings.EqualFold(text, "true") || text == "1" }
