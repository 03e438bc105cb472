package production

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// UsageGroup determines how the usage report groups its rows.
type UsageGroup string

// Enum returns all groups.
func (UsageGroup) Enum() []string {
	return []string{"material", "color", "printer", "day", "week", "month"}
}

// UsageQuery are the parameters of the usage report.
type UsageQuery struct {
	GroupBy   value.Optional[UsageGroup] `query:"group_by" rule:"default=material"`
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
	Period
}

// UsageReport is the filament that was used in a period.
type UsageReport struct {
	From      value.Date       `json:"from" rule:"notNull"`
	To        value.Date       `json:"to" rule:"notNull"`
	GroupBy   UsageGroup       `json:"group_by" rule:"notNull"`
	Grams     value.Decimal    `json:"grams" rule:"notNull"`
	Wasted    value.Decimal    `json:"wasted_grams" rule:"notNull"`
	Corrected value.Decimal    `json:"corrected_grams" rule:"notNull"`
	Cost      value.Decimal    `json:"cost"`
	Unpriced  value.Decimal    `json:"unpriced_grams" rule:"notNull"`
	Lost      value.Decimal    `json:"lost_grams" rule:"notNull"`
	LostCost  value.Decimal    `json:"lost_cost"`
	Currency  string           `json:"currency"`
	Groups    int64            `json:"groups" rule:"notNull"`
	Items     []UsageReportRow `json:"items"`
}

// UsageReportRow is a group of the usage report.
type UsageReportRow struct {
	Material  inventory.MaterialType `json:"material_type"`
	Color     string                 `json:"color"`
	PrinterID value.UUID             `json:"printer_id"`
	Printer   string                 `json:"printer_name"`
	Start     value.Date             `json:"start"`
	Grams     value.Decimal          `json:"grams" rule:"notNull"`
	Wasted    value.Decimal          `json:"wasted_grams" rule:"notNull"`
	Corrected value.Decimal          `json:"corrected_grams" rule:"notNull"`
	Cost      value.Decimal          `json:"cost"`
	Unpriced  value.Decimal          `json:"unpriced_grams" rule:"notNull"`
	Lost      value.Decimal          `json:"lost_grams" rule:"notNull"`
	LostCost  value.Decimal          `json:"lost_cost"`
	Remaining value.Decimal          `json:"remaining_grams"`
	Daily     value.Decimal          `json:"grams_per_day"`
	DaysLeft  value.Decimal          `json:"days_left"`
}

var usageReportDoc = &server.Doc{
	ID: "reportUsage", Tag: inventory.ReportsTag, Summary: "Report the filament that was used",
	Description: "Adds up the usage ledger. `grams` are what was used: by deductions, by runs, and by reports of " +
		"printers, including use beyond the recorded weight of a spool. `wasted_grams` are the part that runs wasted: the " +
		"use of failed and cancelled runs, and the share of the failed pieces of completed runs. `corrected_grams` are " +
		"the grams that weighing and edits of the remaining weight removed, negative if they added more; they are not in " +
		"`grams`. The use of a run counts on the day of its end (`completed_at`), once it has ended.\n\n" +
		"`cost` is at the price of the time of the use: the use of an ended run has the cost of the run, and other use has " +
		"the price of the contents of the spool at that time. A change of the price or the net weight of a spool corrects " +
		"the cost of its present contents, since the spool was added or refilled (`refillSpool`), but not that of ended " +
		"runs: a run that ended without a price has no cost until it is corrected. Use without a price adds nothing to " +
		"`cost`, and 0 g cost 0; `unpriced_grams` are the grams without a price.\n\n" +
		"`lost_grams` are filament that nobody used: the rest on removed spools, on the day of the removal, and on spools " +
		"that were refilled, with its cost. They are not in `grams`. Restoring a spool takes its loss back. Losses have " +
		"no printer.\n\n" +
		"`group_by=material` and `color` (a material and a color) also return what remains in stock, the mean use " +
		"of the last 30 days, and how many days the stock lasts at that rate. `printer` is the printer of the run " +
		"or of the API key that reported the use, or else only a name: the `printer_name` of the run or that of " +
		"the key. `day`, `week` (from Monday) and `month` return the first day of each, oldest first; the other " +
		"groups have the largest first. A report has at most 1,000 groups; `grams` and `cost` are the totals of " +
		"all `groups`.\n\n" +
		"`printer_id` selects what one printer used, by any group; `days_left` is then at the rate of this " +
		"printer.\n\n" +
		"All groups of a report add up to its totals exactly. The report reads a summary of past days, but with " +
		"`printer_id` the ledger. A change of a spool's material, color or price changes their costs and groups within " +
		"about an hour.",
}

// usageReport is the statement of the usage report of the tenant $1 from the day $2 to the day $3, of the printer $4
// or of all use, in at most $6 groups by $5. FreshPlan lets PostgreSQL leave out what the group does not need.
const usageReport = `
	with period as materialized (
		select p.*, coalesce((
			select s.next_day from usage_summaries s
			where s.tenant_id = $1 and s.time_zone = p.zone and $4::uuid is null
		), '-infinity') as summarized
		from report_period($1, $2, $3) p
	), used as (
		select usage_group($5::text, u.material_type, u.color_key, u.printer_key, u.day) as keys, u.color, u.printer_name,
			u.grams, u.wasted_grams, u.corrected_grams, u.cost, u.unpriced_grams, 0 as lost_grams, null::numeric as lost_cost
		from period p
		cross join lateral usage_between($1, $5 = 'printer', p.first, p.until, p.zone, p.summarized, $4) u
		union all
		select usage_group($5, l.material_type, l.color_key, '', l.day), l.color, null, 0, 0, 0, null, 0, l.grams, l.cost
		from period p cross join lateral filament_losses($1, p.first, p.until, p.zone) l
		where $4 is null
	), grouped as materialized (
		select keys, min(color collate "C") as color, min(printer_name collate "C") as printer_name, sum(grams) as grams,
			sum(wasted_grams) as wasted_grams, sum(corrected_grams) as corrected_grams, sum(cost) as cost,
			sum(unpriced_grams) as unpriced_grams, sum(lost_grams) as lost_grams, sum(lost_cost) as lost_cost
		from used group by keys
	), recent as ( -- the mean use of a day
		select usage_group($5, u.material_type, u.color_key, null, null) as keys,
			round(greatest(sum(u.grams), 0) / 30, 6) as daily
		from period p
		cross join lateral usage_between($1, false, p.today - 29, p.today + 1, p.zone, p.summarized, $4) u
		where $5 in ('material', 'color')
		group by keys
	), stock as (
		select usage_group($5, s.material_type, s.color_key, null, null) as keys, sum(s.remaining_weight_grams) as grams
		from spools s
		where s.tenant_id = $1 and s.hidden_at is null and not s.archived and $5 in ('material', 'color')
		group by keys
	), item as (
		select case when $5 in ('material', 'color') then keys[1] end as material_type,
			case when $5 = 'color' then g.color end as color, p.id as printer_id,
			case when $5 = 'printer' then coalesce(p.name, g.printer_name) end as printer_name,
			case when $5 in ('day', 'week', 'month') then keys[1]::date end as start,
			trim_scale(g.grams) as grams, trim_scale(g.wasted_grams) as wasted_grams,
			trim_scale(g.corrected_grams) as corrected_grams,
			trim_scale(coalesce(g.cost, case when g.grams = 0 then 0 end)) as cost,
			trim_scale(g.unpriced_grams) as unpriced_grams, trim_scale(g.lost_grams) as lost_grams,
			trim_scale(coalesce(g.lost_cost, case when g.lost_grams = 0 then 0 end)) as lost_cost,
			case when $5 in ('material', 'color') then trim_scale(coalesce(s.grams, 0)) end as remaining_grams,
			case when $5 in ('material', 'color') then trim_scale(coalesce(r.daily, 0)) end as grams_per_day,
			case when r.daily > 0 then trim_scale(least(round(coalesce(s.grams, 0) / r.daily, 1), 999999999)) end
				as days_left
		from grouped g
		left join printers p on $5 = 'printer' and p.tenant_id = $1 and p.id::text = keys[1]
		left join recent r using (keys)
		left join stock s using (keys)
		order by start, g.grams desc, keys collate "C" limit $6
	)
	select p.first as "from", p.until - 1 as "to", $5 as group_by, t.grams, t.wasted_grams,
		t.corrected_grams, t.cost, t.unpriced_grams, t.lost_grams, t.lost_cost, p.currency, t.groups,
		(select coalesce(json_agg(to_json(i)), '[]') from item i) as items
	from period p, (
		select coalesce(sum(grams), 0) as grams, coalesce(sum(wasted_grams), 0) as wasted_grams,
			coalesce(sum(corrected_grams), 0) as corrected_grams,
			coalesce(sum(cost), case when coalesce(sum(grams), 0) = 0 then 0 end) as cost,
			coalesce(sum(unpriced_grams), 0) as unpriced_grams, coalesce(sum(lost_grams), 0) as lost_grams,
			coalesce(sum(lost_cost), case when coalesce(sum(lost_grams), 0) = 0 then 0 end) as lost_cost,
			count(*) as groups
		from grouped
	) t`

func (h handlers) reportUsage(ctx context.Context, r *server.Request[UsageQuery]) (server.OK[UsageReport], error) {
	report := db.SQL(usageReport, append(r.In.Args(ctx), r.In.PrinterID.Arg(), r.In.GroupBy.Or("material"),
		inventory.MaxGroups)...)
	err := h.db.Read(ctx, db.FreshPlan(), report)
	if errors.Is(err, db.ErrTimeout) {
		// The ledger may be long and not summarized, for example shortly after a start.
		if err = summarizeUsage(ctx, h.db); err == nil {
			err = h.db.Read(ctx, db.FreshPlan(), report)
		}
	}
	return server.One(report, err)
}

// UsageEntry is an entry of the usage ledger in an export.
type UsageEntry struct {
	inventory.Usage
	SpoolNumber int64         `json:"spool_number" rule:"notNull"`
	SpoolName   string        `json:"spool_name" rule:"notNull"`
	PrinterName string        `json:"printer_name"`
	CostPerGram value.Decimal `json:"cost_per_gram"`

	CountedAt value.Timestamp `json:"counted_at" rule:"notNull"`
}

// UsageSelection selects entries of the usage ledger.
type UsageSelection struct {
	Period
	Kind      value.Optional[value.Set[inventory.UsageKind]] `query:"kind"`
	PrinterID value.Optional[value.UUID]                     `query:"printer_id"`
}

// ExportUsage writes the usage ledgers of all spools: the entries of the period, or all entries if there is no
// period.
var ExportUsage = transfer.Export[UsageEntry]("usage", 1000, func(
	_ context.Context, f UsageSelection, limit int, after *db.Position,
) []*db.Stmt {
	var first, end any = "-infinity", "infinity"
	if !f.From.IsNull() || !f.To.IsNull() {
		first, end = f.From.Arg(), f.To.Arg()
	}
	last := db.Position{Value: "-infinity", ID: "00000000-0000-0000-0000-000000000000"}
	if after != nil {
		last = *after
	}
	return []*db.Stmt{db.FreshPlan(), db.SQL(`
		with period as materialized (
			select * from report_period(nullif(current_setting('app.tenant_id', true), '')::uuid, $3, $4)
		)
		select `+inventory.UsageColumns("u")+`, u.counted_at,
			s.number as spool_number, spool_name(s.material_type, s.material_name, s.color, s.brand) as spool_name,
			coalesce((select p.name from printers p where p.id = u.printer_id),
				(select r.printer_name from production_runs r where r.id = u.run_id)) as printer_name,
			use_price(u.run_id, u.spool_id, u.counted_at) as cost_per_gram
		from (
			select *, spool_usage.change_grams, coalesce(used_at, created_at) as counted_at from spool_usage
			where (coalesce(used_at, created_at), id) > ($1::text::timestamptz, $2::uuid)
				and coalesce(used_at, created_at) >= (select first::timestamp at time zone zone from period)
				and coalesce(used_at, created_at) < (select until::timestamp at time zone zone from period)
				and ($5 = '' or kind = any(string_to_array($5, ','))) and ($6::uuid is null or printer_id = $6)
			order by coalesce(used_at, created_at), id limit `+strconv.Itoa(limit+1)+`
		) u
		join spools s on s.id = u.spool_id
		order by u.counted_at, u.id`, last.Value, last.ID, first, end, strings.Join(f.Kind.Values(), ","),
		f.PrinterID.Arg()).
		Keep(limit, "counted_at")}
})

var exportUsageDoc = &server.Doc{
	ID: "exportUsage", Tag: inventory.ReportsTag, Summary: "Export the usage ledger",
	Description: transfer.ExportDescription +
		"entry of the usage ledgers of all spools, also of removed ones, by `counted_at`, the oldest first: the time by " +
		"which reports count it.\n\n" +
		"With `from` or `to`, the file has the entries of the days that `reportUsage` covers with the same " +
		"parameters, and without both those of all days.",
}

// SummarizeUsage summarizes the past days of all tenants' usage ledgers. The usage report reads these summaries.
func SummarizeUsage(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error { return summarizeUsage(ctx, d) })
}

// summarizeUsage summarizes the ledger of one tenant, in one transaction for each month.
func summarizeUsage(ctx context.Context, d *db.DB) error {
	for ctx.Err() == nil {
		var days int
		summary := db.SQL(`select summarize_usage(31)`).Into(&days)
		if err := d.Write(ctx, summary); err != nil || days == 0 {
			return err
		}
	}
	return ctx.Err()
}
