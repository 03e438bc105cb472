package spoolman

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/value"
)

// resource describes a list: its rows, their JSON, and the columns to filter and to sort by. A column is a SQL
// expression.
type resource struct {
	rows    string // the rows of tenant $1
	json    string
	item    string // a join that makes the JSON of the row i; "" if the rows have it
	id      string
	texts   map[string]string // text filters; "" selects unset values
	names   map[string]string // text filters; "" selects only empty texts
	ids     map[string]string // filters by ids; -1 selects unset values
	times   map[string]string // filters by times
	numbers map[string]string // further columns to sort by
	extras  map[string]extra  // custom fields, by the prefix of their names
}

// extra is a column with custom fields, and the entity that the fields belong to.
type extra struct{ column, entity string }

var (
	vendorName = `coalesce(v.name, case when s.filament_id is null then s.brand end)`
	vendorID   = `coalesce(v.number, case when s.filament_id is null then ` + brandID + ` end)`
	filamentID = `coalesce(f.number, ` + groupID + `)`
	spoolName  = `nullif(coalesce(f.name, s.color), '')`
	material   = `nullif(coalesce(f.material_name, nullif(s.material_name, ''), s.material_type), '')`

	resources = map[string]resource{
		"spool": {
			rows: "spools s", json: spoolJSON, id: "s.number",
			texts: map[string]string{"filament.name": spoolName, "filament_name": spoolName,
				"filament.material": material, "filament_material": material, "location": "s.location",
				"lot_nr": "s.lot_number", "filament.multi_color_direction": "f.color_arrangement"},
			names: map[string]string{"filament.vendor.name": vendorName, "vendor_name": vendorName},
			ids: map[string]string{"filament.id": filamentID, "filament_id": filamentID,
				"filament.vendor.id": vendorID, "vendor_id": vendorID},
			times: map[string]string{"first_used": "s.first_used_at", "last_used": "s.last_used_at",
				"registered": "s.created_at"},
			numbers: withShown(map[string]string{"id": "s.number", "comment": "s.notes", "archived": "s.archived",
				"price": "coalesce(s.purchase_price, f.price)", "initial_weight": "s.net_weight_grams",
				"spool_weight": "s.spool_weight_grams", "used_weight": used,
				"remaining_weight": "s.remaining_weight_grams",
				"used_length":      used + " / " + perMM, "remaining_length": "s.remaining_weight_grams / " + perMM,
				"filament.vendor_id": vendorID, "filament.vendor.registered": "v.created_at",
				"filament.vendor.comment":            "v.notes",
				"filament.vendor.empty_spool_weight": "v.empty_spool_weight_grams",
				"filament.vendor.external_id":        "v.external_id"}, "filament.", shownFilament),
			extras: map[string]extra{"extra.": {"s.extra", "spool"}, "filament.extra.": {"f.extra", "filament"},
				"filament.vendor.extra.": {"v.extra", "vendor"}},
		},
		"filament": {
			rows: filamentRows, json: "j.json", item: joinFilamentItem, id: "i.id",
			texts: map[string]string{"name": "i.name", "material": "i.material", "article_number": "i.article_number",
				"external_id": "i.external_id"},
			names: map[string]string{"vendor.name": "i.vendor_name", "vendor_name": "i.vendor_name"},
			ids:   map[string]string{"vendor.id": "i.vendor_id", "vendor_id": "i.vendor_id"},
			numbers: map[string]string{"id": "i.id", "registered": "i.registered", "price": "i.price",
				"density": "i.density", "diameter": "i.diameter", "weight": "i.weight",
				"spool_weight": "i.spool_weight",
				"comment":      "i.comment", "settings_extruder_temp": "i.extruder", "settings_bed_temp": "i.bed",
				"color_hex":             "case when cardinality(i.colors) = 1 then i.colors[1] end",
				"multi_color_hexes":     "case when cardinality(i.colors) > 1 then i.colors end",
				"multi_color_direction": "i.direction",
				"vendor.registered":     "i.vendor_registered", "vendor.comment": "i.vendor_comment",
				"vendor.empty_spool_weight": "i.vendor_weight", "vendor.external_id": "i.vendor_external_id"},
			extras: map[string]extra{"extra.": {"i.extra", "filament"}, "vendor.extra.": {"i.vendor_extra", "vendor"}},
		},
		"vendor": {
			rows: vendorRows, json: "i.json", id: "i.id",
			texts: map[string]string{"external_id": "i.external_id"},
			names: map[string]string{"name": "i.name"},
			numbers: map[string]string{"id": "i.id", "registered": "i.registered", "comment": "i.comment",
				"empty_spool_weight": "i.weight"},
			extras: map[string]extra{"extra.": {"i.extra", "vendor"}},
		},
	}

	// filamentRows are all filaments, and the computed filaments of the spools without a filament.
	filamentRows = `(
		select f.number as id, f.created_at as registered, ` + filamentName + ` as name, v.number as vendor_id,
			v.name as vendor_name, v.created_at as vendor_registered, v.notes as vendor_comment,
			v.empty_spool_weight_grams as vendor_weight, v.external_id as vendor_external_id, v.extra as vendor_extra,
			` + filamentMaterial + ` as material, f.price, ` + filamentDensity +
		` as density, f.diameter_mm as diameter,
			f.net_weight_grams as weight, f.spool_weight_grams as spool_weight, f.article_number, f.notes as comment,
			f.extruder_temperature_c as extruder, f.bed_temperature_c as bed,
			case when cardinality(f.color_hexes) > 1 then f.color_hexes when f.color_hex is not null
				then array[f.color_hex] end as colors,
			f.color_arrangement as direction, f.external_id, f.extra
		from filaments f` + joinVendor + ` where f.tenant_id = $1::uuid and f.hidden_at is null
		union all
		select ` + groupID + `, s.created_at, s.color, coalesce(v.number, ` + brandID + `), coalesce(v.name, s.brand),
			coalesce(v.created_at, s.created_at), v.notes, v.empty_spool_weight_grams, v.external_id, v.extra,
			coalesce(nullif(s.material_name, ''), s.material_type), s.purchase_price, ` + density +
		`, s.diameter_mm, s.net_weight_grams, s.spool_weight_grams,
			null, null, null, null, case when s.color_hex is not null then array[s.color_hex] end, null, null, null
		from (
			select distinct on (` + groupID + `) s.* from spools s
			where s.tenant_id = $1::uuid and s.hidden_at is null and ` + groupID + ` is not null
			order by ` + groupID + `, s.number
		) s left join lateral (select * from ` + vendorOfBrand + `) v on true
	) i`

	// joinFilamentItem joins the JSON of the filament i, which may be computed.
	joinFilamentItem = ` cross join lateral (
		select ` + filamentJSON + ` as json from filaments f` + joinVendor + `
		where f.tenant_id = $1::uuid and f.number = i.id and f.hidden_at is null
		union all
		select ` + groupJSON + ` from (
			select * from spools s where s.tenant_id = $1::uuid and s.hidden_at is null and ` + groupID + ` = i.id
			order by s.number limit 1
		) s
	) j`

	// allFilaments is the number of all filaments.
	allFilaments = `select coalesce((select total from counters where kind = 'filaments'), 0)
		+ (select count(*) from (select distinct ` + groupID + ` from spools s
			where s.tenant_id = $1::uuid and s.hidden_at is null and ` + groupID + ` is not null) groups)`

	// vendorRows are all vendors, and the computed vendors of the spools without a filament. These have a
	// computed_filament, by which an index finds them.
	vendorRows = `(
		select v.number as id, v.created_at as registered, v.name, v.notes as comment,
			v.empty_spool_weight_grams as weight, v.external_id, v.extra, ` + vendorJSON + ` as json
		from vendors v where v.tenant_id = $1::uuid and v.hidden_at is null
		union all
		select ` + brandID + `, s.created_at, s.brand, null, null, null, null, ` + brandJSON + `
		from (
			select distinct on (s.brand_key) s.* from spools s
			where s.tenant_id = $1::uuid and s.hidden_at is null and s.computed_filament is not null and s.brand_key <> ''
				and not exists (select from ` + vendorOfBrand + `)
			order by s.brand_key, s.number
		) s
	) i`
)

// withShown adds the members of an object that spools show to the columns.
func withShown(columns map[string]string, prefix string, members []member) map[string]string {
	for _, m := range members {
		if m.name != "id" && m.name != "extra" {
			columns[prefix+m.name] = m.value
		}
	}
	return columns
}

func (f resource) sortable(name string) string {
	for _, columns := range []map[string]string{f.texts, f.names, f.ids, f.times, f.numbers} {
		if column := columns[name]; column != "" && !isOldName(name) {
			return column
		}
	}
	return ""
}

func isOldName(name string) bool { return name == "filament_name" || name == "filament_material" }

const (
	// maxItems is the maximum number of items of a list. Clients read all spools at once, so maxItems is far above the
	// number of spools of a farm.
	maxItems = 20_000

	// firstItems and partBytes limit the items that are in memory at a time, because comments and custom fields can be
	// long. A longer list is sent in parts; see eachPart.
	firstItems = 1000
	partBytes  = 1 << 20

	// maxTerms is the maximum number of values of a filter. The database compares each value with all items.
	maxTerms = 20
)

// selection selects and orders the rows of a resource.
type selection struct {
	resource
	where  []string
	order  string
	args   []any
	plain  bool // whether there is no filter, and ids decide the order
	fields map[string]inventory.CustomField
}

// arg adds an argument and returns its parameter.
func (s *selection) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// selects returns the selection for the filters of the query. It reads the definitions of custom fields only if the
// query names custom fields. It ignores parameters that the resource does not have.
func (q request) selects(name string) (*selection, error) {
	s := &selection{resource: resources[name], args: []any{q.tenant()}, plain: true}
	if name == "spool" {
		s.where = []string{"s.tenant_id = $1::uuid", "s.number is not null", "s.hidden_at is null"}
		if isTrue(q.query.Get("allow_archived")) {
			s.plain = false
		} else {
			s.where = append(s.where, "not s.archived")
		}
	}
	if err := q.readFields(s); err != nil {
		return nil, err
	}
	for _, parameter := range slices.Sorted(maps.Keys(q.query)) {
		value := q.query.Get(parameter)
		condition, err := s.filter(parameter, value)
		if err != nil {
			return nil, err
		}
		if condition != "" {
			s.where, s.plain = append(s.where, "("+condition+")"), false
		}
	}
	return s, nil
}

// readFields reads the definitions of the custom fields that the query names.
func (q request) readFields(s *selection) error {
	var entities []string
	for prefix, e := range s.extras {
		named := func(name string) bool { return strings.HasPrefix(name, prefix) }
		used := slices.ContainsFunc(strings.Split(q.query.Get("sort"), ","), named) ||
			named(q.query.Get("group_by")) || slices.ContainsFunc(slices.Collect(maps.Keys(q.query)), named)
		if used {
			entities = append(entities, e.entity)
		}
	}
	if entities == nil {
		return nil
	}
	definitions := inventory.SelectCustomFields(entities...)
	if err := q.db.Read(q.r.Context(), definitions); err != nil {
		return err
	}
	all, err := inventory.CustomFields(definitions)
	s.fields = map[string]inventory.CustomField{}
	for _, f := range all {
		s.fields[string(*f.Entity.Value)+" "+*f.Key.Value] = f
	}
	return err
}

// extraField returns the column, the key and the definition of the custom field with a name such as extra.tag.
func (s *selection) extraField(name string) (column, key string, field inventory.CustomField, ok bool) {
	for prefix, e := range s.extras {
		if key, found := strings.CutPrefix(name, prefix); found {
			field, ok = s.fields[e.entity+" "+key]
			return e.column, key, field, ok
		}
	}
	return "", "", field, false
}

// filter returns the condition of a parameter, or "" if the resource has no parameter of this name.
func (s *selection) filter(name, value string) (string, error) {
	parts := strings.Split(value, ",")
	if len(parts) > maxTerms {
		return "", server.Invalid(name, "must have at most %d values", maxTerms)
	}
	var each func(part string) (string, error)
	if column, ok := s.texts[name]; ok {
		each = func(part string) (string, error) { return s.textFilter(column, part, true), nil }
	} else if column, ok := s.names[name]; ok {
		each = func(part string) (string, error) { return s.textFilter(column, part, false), nil }
	} else if column, ok := s.ids[name]; ok {
		each = func(part string) (string, error) {
			n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
			switch {
			case err != nil:
				return "", server.Invalid(name, "must be a list of whole numbers")
			case n == -1:
				return column + " is null", nil
			case column == filamentID && n < firstComputed:
				return "s.filament_id = (select x.id from filaments x where x.tenant_id = $1::uuid and x.number = " +
					s.arg(n) + "::int)", nil
			case column == filamentID:
				column = groupID
			}
			return column + " = " + s.arg(n) + "::int", nil
		}
	} else if column, ok := s.times[name]; ok {
		each = func(part string) (string, error) { return s.timeFilter(name, column, part) }
	} else if column, key, field, ok := s.extraField(name); ok {
		each = func(part string) (string, error) { return s.extraFilter(column, key, field, part) }
	} else {
		return "", nil
	}
	var any []string
	for _, part := range parts {
		condition, err := each(part)
		if err != nil {
			return "", err
		}
		any = append(any, condition)
	}
	return strings.Join(any, " or "), nil
}

// unquote returns a text without its quotes, and whether it had quotes.
func unquote(part string) (string, bool) {
	if len(part) > 1 && part[0] == '"' && part[len(part)-1] == '"' {
		return part[1 : len(part)-1], true
	}
	return part, false
}

// textFilter returns the condition that a text contains a value, or equals the value if the value has quotes. An empty
// value selects empty texts and, if optional is true, unset texts.
func (s *selection) textFilter(column, part string, optional bool) string {
	value, exact := unquote(part)
	switch {
	case value == "" && optional:
		return `coalesce(` + column + `, '') = ''`
	case value == "":
		return column + ` = ''`
	case exact:
		return column + ` = ` + s.arg(value) + `::text`
	}
	return `strpos(lower(` + column + `), lower(` + s.arg(value) + `::text)) > 0`
}

// timeFilter returns the condition for a time, or for a range such as from|to. It compares times in whole seconds,
// because responses have whole seconds.
func (s *selection) timeFilter(name, column, part string) (string, error) {
	value, _ := unquote(part)
	if value == "" {
		return column + " is null", nil
	}
	column = "date_trunc('second', " + column + ")"
	bound := func(operator, text string) (string, error) {
		t, ok := parseTime(text)
		if !ok {
			return "", badRequest("%s has the time %q, which is not one of ISO 8601, such as 2024-05-01T00:00:00Z",
				name, text)
		}
		return column + operator + s.arg(t) + "::timestamptz", nil
	}
	from, to, isRange := strings.Cut(value, "|")
	switch {
	case !isRange:
		return bound(" = ", value)
	case from == "" && to == "":
		return "", badRequest("%s has a range without bounds: it has the form from|to", name)
	case to == "":
		return bound(" >= ", from)
	case from == "":
		return bound(" <= ", to)
	}
	lower, err := bound(" >= ", from)
	if err != nil {
		return "", err
	}
	upper, err := bound(" <= ", to)
	return lower + " and " + upper, err
}

// parseTime parses a time in ISO 8601. A time without an offset is in UTC.
func parseTime(text string) (time.Time, bool) {
	text = strings.TrimSpace(text)
	t, ok := imports.ParseTime(text)
	if !ok { // the plus sign of an offset becomes a blank if a client does not encode it in a query
		t, ok = imports.ParseTime(strings.Replace(text, " ", "+", 1))
	}
	return t, ok
}

// textOf returns the expression for the value of a custom field as text, or as a number if its type is numeric. For
// a range, index selects the bound.
func textOf(column, key string, field inventory.CustomField, index int) string {
	text := column + " ->> " + key
	switch *field.Type.Value {
	case "integer", "float":
		return `case jsonb_typeof(` + column + ` -> ` + key + `) when 'number' then (` + text + `)::numeric end`
	case "integer_range", "float_range":
		bound := fmt.Sprintf(`%s -> %s -> %d`, column, key, index)
		return `case jsonb_typeof(` + bound + `) when 'number' then (` + bound + `)::numeric end`
	}
	return "(" + text + ")"
}

// extraFilter returns the condition for a value of a custom field.
func (s *selection) extraFilter(column, name string, field inventory.CustomField, part string) (string, error) {
	key := s.arg(name) + "::text"
	kind := *field.Type.Value
	wanted, _ := unquote(part)
	if part == "" {
		empty := "coalesce(" + column + " ->> " + key + ", '') = ''"
		if kind == "boolean" {
			empty += " or " + column + " ->> " + key + " = 'false'"
		}
		return empty, nil
	}
	number := func(text string) (string, error) {
		d, ok := value.ParseDecimal(text)
		if !ok || strings.HasPrefix(string(kind), "integer") && d%value.DecimalOne != 0 {
			return "", badRequest("Invalid %s filter value for the custom field %s: %q",
				strings.ReplaceAll(string(kind), "_", " "), name, text)
		}
		return s.arg(d.String()) + "::numeric", nil
	}
	bounds := func() (string, error) {
		from, to, ok := strings.Cut(wanted, ":")
		if !ok || from == "" && to == "" {
			return "", badRequest("Invalid range filter value for the custom field %s: %q, not of the form 1:5", name,
				wanted)
		}
		var both []string
		for i, bound := range []struct{ text, operator string }{{from, " >= "}, {to, " <= "}} {
			if bound.text == "" {
				continue
			}
			n, err := number(bound.text)
			if err != nil {
				return "", err
			}
			both = append(both, textOf(column, key, field, i)+bound.operator+n)
		}
		return strings.Join(both, " and "), nil
	}
	switch kind {
	case "text":
		return s.textFilter("("+column+" ->> "+key+")", part, true), nil
	case "integer", "float":
		if strings.Contains(wanted, ":") {
			return bounds()
		}
		n, err := number(wanted)
		return textOf(column, key, field, 0) + " = " + n, err
	case "integer_range", "float_range":
		return bounds()
	case "boolean":
		if b := strings.ToLower(strings.TrimSpace(wanted)); b == "true" || b == "false" {
			return column + " ->> " + key + " = '" + b + "'", nil
		}
		return "", badRequest("Invalid boolean filter value for the custom field %s: neither true nor false", name)
	case "datetime":
		if from, to, isRange := strings.Cut(wanted, "|"); isRange {
			var both []string
			if from != "" {
				both = append(both, textOf(column, key, field, 0)+" >= "+s.arg(from)+"::text")
			}
			if to != "" {
				both = append(both, textOf(column, key, field, 0)+" <= "+s.arg(to)+"::text")
			}
			if both == nil {
				return "", badRequest("A datetime range filter of the custom field %s needs a bound", name)
			}
			return strings.Join(both, " and "), nil
		}
	case "choice":
		if field.Multiple.Or(false) {
			return column + " -> " + key + " ? " + s.arg(wanted) + "::text", nil
		}
	}
	return textOf(column, key, field, 0) + " = " + s.arg(wanted) + "::text", nil
}

// sort sets the order from the parameter. Unset values come last. The ids decide the order of items with equal values.
func (s *selection) sort(text string, columns func(name string) []string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, direction, _ := strings.Cut(item, ":")
		direction = strings.ToLower(strings.TrimSpace(direction))
		if name == "" || direction != "asc" && direction != "desc" {
			return badRequest("sort has %q, which is neither field:asc nor field:desc", item)
		}
		all := columns(name)
		if all == nil {
			return badRequest("sort has the unknown field %s", name)
		}
		for _, column := range all {
			if s.order == "" && name == "id" {
				s.order = column + " " + direction
				return nil
			}
			if column != "" {
				s.order, s.plain = s.order+column+" "+direction+" nulls last, ", false
			}
		}
	}
	s.order += s.id
	return nil
}

// columns returns the columns to sort by for a name, or nil if there are none.
func (s *selection) columns(name string) []string {
	if _, key, field, ok := s.extraField(name); ok {
		column, _, _, _ := s.extraField(name)
		return []string{textOf(column, s.arg(key)+"::text", field, 0)}
	}
	if strings.HasPrefix(name, "extra.") {
		return []string{""} // ignored
	}
	if name == "filament.combined_name" && s.id == "s.number" {
		return []string{vendorName, spoolName}
	}
	if column := s.sortable(name); column != "" {
		return []string{column}
	}
	return nil
}

var (
	namesFilament = regexp.MustCompile(`\bf\.`)
	namesVendor   = regexp.MustCompile(`\bv\.`)
)

// source returns the rows of the selection. It joins the filament and the vendor of a spool only if an expression, a
// filter or the order refers to them.
func (s *selection) source(expressions ...string) string {
	if s.id != "s.number" {
		return s.rows
	}
	text := strings.Join(slices.Concat(expressions, s.where, []string{s.order}), " ")
	switch {
	case namesVendor.MatchString(text):
		return s.rows + joinFilament + joinSpoolVendor
	case namesFilament.MatchString(text):
		return s.rows + joinFilament
	}
	return s.rows
}

func (s *selection) condition() string {
	if s.where == nil {
		return ""
	}
	return " where " + strings.Join(s.where, " and ")
}

// window is the part of a list that a query selects.
type window struct {
	limit, offset int64
	limited       bool // whether the query has a limit
}

// window returns the window of the query. Without a limit, window ignores the offset. See server.List for the limit.
func (q request) window(maxLimit int64) (w window, err error) {
	read := func(name string, otherwise int64) int64 {
		if q.query.Get(name) == "" {
			return otherwise
		}
		n, parseErr := strconv.ParseInt(q.query.Get(name), 10, 32)
		if parseErr != nil || n < 0 {
			err = server.Invalid(name, "must be a whole number")
		}
		return n
	}
	w.limited = q.query.Get("limit") != ""
	w.limit = min(read("limit", maxLimit), maxLimit)
	if w.offset = read("offset", 0); !w.limited {
		w.offset = 0
	}
	return w, err
}

// page returns the window as SQL. The offset is an argument, so that all pages of a list have the same statement.
func (s *selection) page(w window) string {
	text := fmt.Sprintf(" limit %d", w.limit)
	if w.offset > 0 {
		text += " offset " + s.arg(w.offset)
	}
	return text
}

// firstFilaments returns the statement for a page of all filaments in the order of their ids. It reads only the
// filaments up to the end of the page: those with the lowest or highest numbers, and the computed ones from an index.
func (s *selection) firstFilaments(w window) string {
	direction, next := "asc", ">"
	if strings.HasSuffix(s.order, "desc") {
		direction, next = "desc", "<"
	}
	end := s.arg(w.limit+w.offset) + "::bigint"
	spools := groupID + ` as id from spools s where s.tenant_id = $1::uuid and s.hidden_at is null and ` + groupID
	order := ` order by ` + groupID + ` ` + direction + ` limit `
	groups := `(select distinct ` + spools + ` is not null` + order + end + `)`
	if w.limit+w.offset <= maxLookups { // one look-up per computed filament, however many spools it has
		groups = `(with recursive g as (
				(select ` + spools + ` is not null` + order + `1)
				union all
				select n.id from g cross join lateral (select ` + spools + ` ` + next + ` g.id` + order + `1) n
			) select g.id from g limit ` + end + `)`
	}
	return `select i.id from (
			(select f.number as id from filaments f where f.tenant_id = $1::uuid and f.hidden_at is null
				order by f.number ` + direction + ` limit ` + end + `)
			union all ` + groups + `
		) i order by ` + s.order + s.page(w)
}

// maxLookups is the maximum number of computed filaments that a list looks up one after the other.
const maxLookups = 1000

func (q request) list(name string) error {
	s, err := q.selects(name)
	if err != nil {
		return err
	}
	if name == "filament" && q.query.Has("color_hex") {
		if err := q.colorFilter(s); err != nil {
			return err
		}
	}
	if err := s.sort(q.query.Get("sort"), s.columns); err != nil {
		return err
	}
	w, err := q.window(maxItems + 1)
	if err != nil {
		return err
	}
	first := w
	first.limit = min(w.limit, firstItems+1)
	var count int64
	list := s.first(name, first).Total(&count).Keep(firstItems, "id").KeepBytes(partBytes).Expect(20)
	run := []*db.Stmt{db.FreshPlan(), list}
	if name == "spool" && w.limited && s.plain {
		run = run[1:]
		if w.offset < quickOffset && w.limit <= firstItems {
			list.Quick()
		}
	}
	if err := q.db.Read(q.r.Context(), run...); err != nil {
		return err
	}
	q.w.Header().Set("X-Total-Count", strconv.FormatInt(count, 10))
	if list.Next() == nil {
		return q.send(list.Array())
	}
	if min(count-w.offset, w.limit) > maxItems {
		return server.Invalid("limit", "must select fewer items: a list has at most %d of the %d items", maxItems, count)
	}
	return server.RespondStream(q.w, q.r, "", "", func(ctx context.Context, to io.Writer) error {
		part := list.Array()
		list = nil // the memory
		var first []struct{ ID int64 }
		if err := json.Unmarshal(part, &first); err != nil {
			return err
		}
		sent := map[int64]bool{}
		for _, item := range first {
			sent[item.ID] = true
		}
		ids, err := q.readIDs(ctx, s.idsOf(name, w))
		if err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id int64) bool { return sent[id] })
		if _, err := to.Write(part[:len(part)-1]); err != nil {
			return err
		}
		part = nil
		err = q.eachPart(ctx, name, ids, func(part []byte) error {
			part[0] = ','
			_, err := to.Write(part[:len(part)-1])
			return err
		})
		if err == nil {
			_, err = to.Write([]byte("]"))
		}
		return err
	})
}

// first returns the statement that reads a page of a list, and the number of all items as total.
func (s selection) first(name string, w window) *db.Stmt {
	s.args = slices.Clone(s.args)
	if name != "spool" {
		with, total, page := s.found(name, w)
		return db.SQL(`with `+with+`page as materialized (select page.*, row_number() over () as place from (`+page+`) page)
			select t.total, i.id, i.json from (select (`+total+`) as total) t left join (
				select i.place, i.id, `+s.json+` as json from page i`+s.item+`
			) i on true order by i.place`, s.args...).Bare()
	}
	total := `select count(*) from ` + s.source() + s.condition()
	if w.limited && s.plain {
		total = `select coalesce((select total from counters where kind = 'spools'), 0)`
	}
	page := s.page(w)
	return db.SQL(`select t.total, `+spoolColumns+` from (select (`+total+`) as total) t left join (
			select page.*, row_number() over () as place from (
				select s.* from `+s.source()+s.condition()+` order by `+s.order+page+`
			) page
		) s on true`+joinFilament+joinSpoolVendor+` order by s.place`, s.args...).Sparse()
}

// idsOf returns the statement that reads the ids of a page as a JSON array.
func (s selection) idsOf(name string, w window) *db.Stmt {
	s.args = slices.Clone(s.args)
	with, page := "", ""
	if name == "spool" {
		page = `select s.number as id from ` + s.source() + s.condition() + ` order by ` + s.order + s.page(w)
	} else {
		with, _, page = s.found(name, w)
	}
	return db.SQL(`with `+with+`page as materialized (select page.id, row_number() over () as place from (`+page+`) page)
		select coalesce(json_agg(id order by place), '[]')::text from page`, s.args...)
}

// found returns, for a page of filaments or vendors, common table expressions, the query of the number of all items,
// and the query of the items of the page: their ids, and the JSON of vendors.
func (s *selection) found(name string, w window) (with, total, page string) {
	from := s.source() + s.condition()
	total = `select count(*) from ` + from
	switch {
	case name != "filament":
		page = `select i.id, i.json from ` + from + ` order by ` + s.order + s.page(w)
	case s.plain:
		total, page = allFilaments, s.firstFilaments(w)
	case s.where == nil:
		total, page = allFilaments, `select i.id from `+from+` order by `+s.order+s.page(w)
	default:
		with = `found as materialized (select i.id, row_number() over (order by ` + s.order + `) as n from ` + from + `), `
		total, page = `select count(*) from found`, `select id from found order by n`+s.page(w)
	}
	return with, total, page
}

// readIDs runs a statement of ids, and those before it, which may write.
func (q request) readIDs(ctx context.Context, stmt *db.Stmt, before ...*db.Stmt) (ids []int64, err error) {
	run := q.db.Read
	if len(before) > 0 {
		run = q.db.WriteLocal
	}
	var body []byte
	if err := run(ctx, append(before, db.FreshPlan(), stmt.Into(&body))...); err != nil {
		return nil, err
	}
	return ids, json.Unmarshal(body, &ids)
}

// eachPart reads the items with the ids, in parts of about partBytes, and calls do with the JSON array of each part.
// No connection to the database is in use while do runs, however slow the client is. An item that was removed since is
// left out.
func (q request) eachPart(ctx context.Context, name string, ids []int64, do func(part []byte) error) error {
	parts := map[string]string{
		"spool": `select ` + spoolColumns + ` from unnest($2::int[]) with ordinality i (id, place)
			join spools s on s.tenant_id = $1::uuid and s.number = i.id and s.hidden_at is null` + joinFilament +
			joinSpoolVendor + ` order by i.place`,
		"filament": `select i.id, j.json from unnest($2::int[]) with ordinality i (id, place)` + joinFilamentItem +
			` order by i.place`,
		"vendor": `select i.id, i.json from ` + vendorRows + `
			join unnest($2::int[]) with ordinality x (id, place) on x.id = i.id order by x.place`,
	}
	partRows := firstItems
	for len(ids) > 0 {
		asked := ids[:min(len(ids), partRows)]
		part := db.SQL(parts[name], q.tenant(), asked).Keep(len(asked), "id").KeepBytes(partBytes)
		if name == "spool" {
			part.Sparse()
		} else {
			part.Bare()
		}
		if err := q.db.Read(ctx, db.FreshPlan(), part); err != nil {
			return err
		}
		if last := part.Next(); last != nil { // long items: ask for fewer, so that few are read in vain
			n, err := strconv.ParseInt(last.ID, 10, 64)
			if err != nil {
				return err
			}
			asked, partRows = ids[:slices.Index(ids, n)+1], part.Rows()
		}
		ids = ids[len(asked):]
		if part.Rows() > 0 {
			if err := do(part.Array()); err != nil {
				return err
			}
		}
	}
	return nil
}

// quickOffset is the lowest offset of pages that take too long to share a round trip with other reads.
const quickOffset = 100

var anyColor = regexp.MustCompile(`^#?[0-9A-Fa-f]{6}([0-9A-Fa-f]{2})?$`)

// colorFilter selects the filaments that have a color similar to the color in the query.
func (q request) colorFilter(s *selection) error {
	color, threshold := q.query.Get("color_hex"), "20"
	if q.query.Get("color_similarity_threshold") != "" {
		threshold = q.query.Get("color_similarity_threshold")
	}
	d, ok := value.ParseDecimal(threshold)
	if !ok {
		return server.Invalid("color_similarity_threshold", "must be a number")
	}
	if !anyColor.MatchString(color) {
		return server.Invalid("color_hex", "must have 6 or 8 hexadecimal digits")
	}
	s.plain = false
	s.where = append(s.where, `exists (select from unnest(i.colors) c
		where color_distance(`+s.arg(color)+`, c) <= `+s.arg(d.String())+`::float8)`)
	return nil
}

// Sources of distinct values, for values.
const (
	ofSpools    = `spools s where s.tenant_id = $1::uuid and s.hidden_at is null and `
	ofFilaments = `(select f.article_number, ` + filamentMaterial + ` as material from filaments f
		where f.tenant_id = $1::uuid and f.hidden_at is null union all
		select null, coalesce(nullif(s.material_name, ''), s.material_type) from spools s
		where s.tenant_id = $1::uuid and s.hidden_at is null and s.computed_filament is not null) i where `
)

func (q request) locations() error      { return q.values(ofSpools, "s.location") }
func (q request) lotNumbers() error     { return q.values(ofSpools, "s.lot_number") }
func (q request) materials() error      { return q.values(ofFilaments, "i.material") }
func (q request) articleNumbers() error { return q.values(ofFilaments, "i.article_number") }

// values sends the distinct values of a column. rows is SQL that ends with the keyword where or and.
func (q request) values(rows, column string) error {
	var items []byte
	err := q.db.Read(q.r.Context(), db.FreshPlan(), db.SQL(`
		select coalesce(json_agg(v order by v), '[]')::text from (
			select distinct `+column+` as v from `+rows+column+` <> ''
			limit `+strconv.Itoa(maxItems)+`) found`, q.tenant()).Into(&items))
	if err != nil {
		return err
	}
	return q.send(items)
}

func isTrue(text string) bool {
	return slices.Contains([]string{"true", "1", "yes", "on", "t", "y"}, strings.ToLower(text))
}
