package spoolman

import (
	"cmp"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
)

// groupBytes limits the groups of an answer. Each can have the comment and the custom fields of a filament.
const groupBytes = 4 << 20

// groups sends the spools that the filters select by filament, vendor, material, location or custom field.
func (q request) groups() error {
	s, err := q.selects("spool")
	if err != nil {
		return err
	}
	by := q.query.Get("group_by")
	// SQL expressions for the key and the title of a group, and for the JSON of its filament or vendor. The JSON comes
	// from the group's spool with the lowest number.
	key, title, item, join := "", "", "null::text", ""
	switch by {
	case "":
		return server.Invalid("group_by", "is required")
	case "filament":
		key, title, item, join = filamentID, spoolName, `coalesce(fil.json, `+groupJSON+`)`, joinFilamentJSON
	case "vendor":
		key, title, join = vendorID, vendorName, joinFilament+joinSpoolVendor
		item = `coalesce(case when v.id is not null then ` + vendorJSON + ` end, ` + brandJSON + `)`
	case "material":
		key = `nullif(` + material + `, '')`
	case "location":
		key = `nullif(s.location, '')`
	default:
		column, name, field, ok := s.extraField(by)
		if !ok || !strings.HasPrefix(by, "extra.") || !isGroupable(field) {
			return badRequest("group_by must be filament, vendor, material, location, or extra.KEY of a custom field " +
				"of spools with single texts")
		}
		key = `nullif(` + column + ` ->> ` + s.arg(name) + `::text, '')`
	}
	title = cmp.Or(title, key)
	orders := map[string]string{"group.spool_count": "g.spools", "group.in_use_count": "g.in_use",
		"group.total_remaining": "g.remaining", "group.last_used": "g.last_used", "group.title": "g.title"}
	order := ""
	for name := range strings.SplitSeq(q.query.Get("sort"), ",") {
		name, direction, _ := strings.Cut(strings.TrimSpace(name), ":")
		if direction = strings.ToLower(direction); name != "" && direction != "asc" && direction != "desc" {
			return badRequest("sort has %q, which is neither field:asc nor field:desc", name)
		}
		if column := orders[name]; column != "" {
			order += column + " " + direction + " nulls last, "
		}
	}
	order = cmp.Or(order, "g.title nulls last, ")
	w, err := q.window(maxItems)
	if err != nil {
		return err
	}
	page := s.page(w)
	members := []member{{"group_by", text, s.arg(by) + "::text"}, {"key", text, "g.key::text"},
		{"spool_count", whole, "g.spools"}, {"in_use_count", whole, "g.in_use"},
		{"total_remaining_weight", decimal, "g.remaining"}, {"last_used", instant, "g.last_used"}}
	if join != "" {
		members = append(members, member{by, whole, "case when g.key is not null then g.item end"})
	}
	var total int64
	groups := db.SQL(`
		with groups as materialized (
			select `+key+` as key, min(`+title+`) as title, count(*) as spools,
				count(*) filter (where `+used+` > 0) as in_use, sum(s.remaining_weight_grams) as remaining,
				max(s.last_used_at) as last_used, min(s.number) as first
			from `+s.source(key, title)+s.condition()+` group by 1
		), page as (
			select g.*, row_number() over (order by `+order+`g.key) as n from groups g order by n`+page+`
		)
		select t.total, g.n as id, `+objectOf(members...)+` from (select count(*) as total from groups) t left join (
			select page.*, x.item from page left join lateral (
				select `+item+` as item from spools s`+join+`
				where s.tenant_id = $1::uuid and s.number = page.first
			) x on true
		) g on true order by g.n`, s.args...).Total(&total).Keep(maxItems, "id").KeepBytes(groupBytes).Bare()
	if err := q.db.Read(q.r.Context(), db.FreshPlan(), groups); err != nil {
		return err
	}
	if groups.Next() != nil {
		return server.Invalid("limit", "must select fewer groups: the selected ones have more than 4 MB")
	}
	q.w.Header().Set("X-Total-Count", strconv.FormatInt(total, 10))
	return q.send(groups.Array())
}
