package inventory

import (
	"context"
	"strconv"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// ReportsTag is the tag of the operations that return reports.
var ReportsTag = &server.Tag{
	Name: "reports", Fields: fields,
	Description: "What was used and what was wasted, in grams and money. Days begin at midnight in the " +
		"time zone of `getSettings`.",
}

// MaxGroups is the maximum number of groups in a report.
const MaxGroups = 1000

// FilamentGroup tells how the report of the filament in stock groups its rows.
type FilamentGroup string

// Enum returns all groups.
func (FilamentGroup) Enum() []string { return []string{"material", "color"} }

// filamentQuery are the parameters of the report of the filament in stock.
type filamentQuery struct {
	GroupBy value.Optional[FilamentGroup] `query:"group_by" rule:"default=material"`
	To      value.Optional[value.Date]    `query:"to"`
}

// FilamentStock is filament in stock and what it cost.
type FilamentStock struct {
	Spools   int64         `json:"spools" rule:"notNull"`
	Grams    value.Decimal `json:"grams" rule:"notNull"`
	Unpriced value.Decimal `json:"unpriced_grams" rule:"notNull"`
	Value    value.Decimal `json:"filament_value"`
	Archived value.Decimal `json:"archived_value"`
}

// FilamentReport is the filament that was in stock at the end of a day.
type FilamentReport struct {
	To       value.Date    `json:"to" rule:"notNull"`
	GroupBy  FilamentGroup `json:"group_by" rule:"notNull"`
	Currency string        `json:"currency"`
	FilamentStock
	Groups int64               `json:"groups" rule:"notNull"`
	Items  []FilamentReportRow `json:"items"`
}

// FilamentReportRow is a group of a FilamentReport.
type FilamentReportRow struct {
	Material MaterialType `json:"material_type"`
	Color    string       `json:"color"`
	FilamentStock
}

var filamentReportDoc = &server.Doc{
	ID: "reportFilament", Tag: ReportsTag, Summary: "Report the filament in stock and its value",
	Description: "Returns the filament that was on spools at the end of the day `to`, by default now, with what it " +
		"cost: the remaining grams of each spool at the price of the contents that it had then. For the stock at the end " +
		"of a month, `to` is its last day. Entries of the ledger that are made later do not change the report of a past " +
		"day, but an edit of the price of the same contents does.\n\n" +
		"`filament_value` is that of the filament with a price, and null if none has one; `unpriced_grams` are the " +
		"others. Archived spools count, and `archived_value` is their part of the value. Removed spools do not, from the " +
		"day of their removal on: what is left on them is a loss in `reportUsage`. A restored spool counts again on all " +
		"days.\n\n" +
		"`group_by` is `material` or `color` (a material and a color). The groups with the largest value come first. A " +
		"report has at most 1,000 groups; the other fields are totals of all `groups`, and the groups add up to them " +
		"exactly.",
}

func (h handlers) reportFilament(
	ctx context.Context, r *server.Request[filamentQuery],
) (server.OK[FilamentReport], error) {
	by := r.In.GroupBy.Or("material")
	key, color := "material_type", "null"
	if by == "color" {
		key, color = "material_type, color_key", "min(color)"
	}
	const columns = `spools, trim_scale(grams) as grams, trim_scale(unpriced) as unpriced_grams,
		trim_scale(value) as filament_value, trim_scale(archived_value) as archived_value`
	report := db.SQL(`
		with day as materialized (
			select coalesce($2::date, t.today) as last, $2::date < t.today as past,
				($2::date + 1)::timestamp at time zone t.zone as until, t.currency
			from (
				select (now() at time zone s.time_zone)::date as today, s.time_zone as zone, s.currency
				from tenants s where s.tenant_id = $1
			) t
		), spool as materialized (
			select s.material_type, s.color_key, s.color, s.archived, s.remaining_weight_grams as grams,
				round(s.remaining_weight_grams * s.cost_per_gram, 6) as value
			from day d join spools s on s.tenant_id = $1 and s.hidden_at is null and s.in_stock
			where d.past is not true
			union all
			select s.material_type, s.color_key, s.color, s.archived, u.after_grams,
				round(u.after_grams * spool_price(s.id, d.until), 6)
			from day d
			join spools s on s.tenant_id = $1 and (s.hidden_at is null or s.hidden_at >= d.until)
			cross join lateral (
				select u.after_grams from spool_usage u
				where u.tenant_id = $1 and u.spool_id = s.id and u.created_at < d.until
				order by u.created_at desc, u.id desc limit 1
			) u
			where d.past and u.after_grams > 0
		), grouped as materialized (
			select grouping(material_type) = 1 as is_total, material_type, `+color+`::text as color, count(*) as spools,
				coalesce(sum(grams), 0) as grams, coalesce(sum(grams) filter (where value is null), 0) as unpriced,
				coalesce(sum(value), case when count(*) = 0 then 0 end) as value,
				coalesce(sum(value) filter (where archived), 0) as archived_value
			from spool group by grouping sets ((`+key+`), ())
		)
		select d.last as "to", '`+string(by)+`' as group_by, d.currency, `+columns+`,
			(select count(*) from grouped g where not g.is_total) as groups,
			(select coalesce(json_agg(to_json(i)), '[]')
				from (
					select material_type, color, `+columns+` from grouped g where not g.is_total
					order by g.value desc nulls last, g.grams desc, material_type, color limit `+strconv.Itoa(MaxGroups)+`
				) i) as items
		from day d, grouped t where t.is_total`, db.ActorOf(ctx).Tenant, r.In.To.Arg())
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
