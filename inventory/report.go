package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// ReportsTag is the tag of the operations that return reports.
var ReportsTag = &server.Tag{
	Name: "reports", Fields: fields,
	Description: "What was used and what was wasted, in grams and money. Days begin at midnight in the " +
		"time zone of `getSettings`.",
}

// Period are the query parameters of a report: its first and its last day, in the time zone of the tenant.
type Period struct {
	From value.Optional[value.Date] `query:"from"`
	To   value.Optional[value.Date] `query:"to"`
}

const (
	defaultDays = 30   // the length of the period if the request has no from
	maxDays     = 3660 // the maximum length of a period
)

// MaxGroups is the maximum number of groups in a report.
const MaxGroups = 1000

// Check checks that the period is neither empty nor too long. It does not know the current day in the tenant's time
// zone. So a period without to may begin tomorrow; the period is then that one day.
func (p *Period) Check(problems *server.Problems) {
	parse := func(d value.Optional[value.Date], otherwise time.Time) time.Time {
		if d.IsNull() {
			return otherwise
		}
		t, _ := time.Parse(time.DateOnly, string(*d.Value)) // server has validated it
		return t
	}
	to := parse(p.To, time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1))
	from := parse(p.From, to.AddDate(0, 0, 1-defaultDays))
	switch {
	case from.After(to):
		problems.Add("from", "must not be after to")
	case to.Sub(from) >= maxDays*24*time.Hour:
		problems.Add("from", "must be at most %d days before to", maxDays-1)
	case from.Year() < 1: // the default of from
		problems.Add("to", "must be at least 0001-01-%d without from", defaultDays)
	case to.Year() > 9998:
		problems.Add("to", "must be before the year 9999")
	}
}

// Args returns the arguments $1 to $3 of a statement with PeriodSQL.
func (p Period) Args(ctx context.Context) []any {
	return []any{db.ActorOf(ctx).Tenant, p.From.Arg(), p.To.Arg()}
}

// PeriodSQL is a table expression for the period of a report of the tenant $1 from the day $2 to the day $3. Both
// days may be null. Its columns are the first day, the day after the last day, the current day, and the tenant's
// time zone and currency.
var PeriodSQL = periodSQL("$1", "$2", "$3")

func periodSQL(tenant, from, to string) string {
	return fmt.Sprintf(`period as materialized (
			select coalesce(%[2]s::date, p.last - %[4]d) as first, p.last + 1 as until, p.today, p.zone, p.currency
			from (
				select coalesce(%[3]s::date, greatest(t.today, %[2]s::date)) as last, t.*
				from (
					select (now() at time zone s.time_zone)::date as today, s.time_zone as zone, s.currency
					from tenants s where s.tenant_id = %[1]s
				) t
			) p
		)`, tenant, from, to, defaultDays-1)
}

// UsageGroup tells how the usage report groups its rows.
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
	Currency  string           `json:"currency"`
	Groups    int64            `json:"groups" rule:"notNull"`
	Items     []UsageReportRow `json:"items"`
}

// UsageReportRow is a group of the usage report.
type UsageReportRow struct {
	Material  MaterialType  `json:"material_type"`
	Color     string        `json:"color"`
	PrinterID value.UUID    `json:"printer_id"`
	Printer   string        `json:"printer_name"`
	Start     value.Date    `json:"start"`
	Grams     value.Decimal `json:"grams" rule:"notNull"`
	Wasted    value.Decimal `json:"wasted_grams" rule:"notNull"`
	Corrected value.Decimal `json:"corrected_grams" rule:"notNull"`
	Cost      value.Decimal `json:"cost"`
	Remaining value.Decimal `json:"remaining_grams"`
	Daily     value.Decimal `json:"grams_per_day"`
	DaysLeft  value.Decimal `json:"days_left"`
}

var usageReportDoc = &server.Doc{
	ID: "reportUsage", Tag: ReportsTag, Summary: "Report the filament that was used",
	Description: "Adds up the usage ledger. `grams` are what was used: by deductions, by runs, and by reports of " +
		"printers, with what a spool was not thought to have. `wasted_grams` are those of them that runs wasted: what " +
		"failed and cancelled runs used, and the share of the failed pieces of completed runs. `corrected_grams` are " +
		"what weighing and edits of the remaining weight took away, less than 0 if they added more; they are not in " +
		"`grams`. What a run used counts on the day of its end (`completed_at`), once it has ended. `cost` is at the " +
		"current price of each spool; spools without a price add nothing to it, and 0 g cost 0.\n\n" +
		"`group_by=material` and `color` (a material and a colour) also return what remains in stock, the mean use " +
		"of the last 30 days, and how many days the stock lasts at that rate. `printer` is the printer of the run " +
		"or of the API key that reported the use, or else only a name: the `printer_name` of the run or that of " +
		"the key. `day`, `week` (from Monday) and `month` return the first day of each, oldest first; the other " +
		"groups have the largest first. A report has at most 1,000 groups; `grams` and `cost` are the totals of " +
		"all `groups`.\n\n" +
		"`printer_id` selects what one printer used, by any group; `days_left` is then at the rate of this " +
		"printer.\n\n" +
		"The report reads a summary of past days, but with `printer_id` the ledger. A change of a spool's " +
		"material, colour or price changes their costs and groups within about an hour.",
}

// usageBetween returns a query for the use of filament by the tenant $1 from the day first until the day before end,
// at the printer $4, or anywhere if $4 is null. first and end are expressions of columns of the table expression
// summarised. The query reads usage_days for summarised days, and the ledger for the other days.
func usageBetween(byPrinter bool, first, end string) string {
	return fmt.Sprintf(`
		select d.day, d.material_type, d.color_key, d.printer_key, d.color, d.printer_name, d.grams, d.wasted_grams,
			d.corrected_grams, d.cost
		from usage_days d
		where d.tenant_id = $1 and d.by_printer = %[1]v and d.day >= (select %[2]s from summarised)
			and d.day < (select least(%[3]s, next_day) from summarised)
		union all
		select l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name, l.grams, l.wasted_grams,
			l.corrected_grams, l.cost
		from (select greatest(%[2]s, next_day) as first_day, %[3]s as end_day, zone from summarised) s
		cross join lateral ledger_usage($1, s.first_day, s.end_day, s.zone, $4::uuid) l where l.by_printer = %[1]v`,
		byPrinter, first, end)
}

// usageGroups has the grouping key of the rows of usageBetween, and the report fields that the key fills.
var usageGroups = map[UsageGroup]struct{ key, fields string }{
	"material": {"material_type", "material_type as material_type"},
	"color":    {"material_type, color_key", "material_type as material_type, min(color) as color"},
	"printer":  {"printer_key", "min(printer_name) as printer_name"},
	"day":      {"day", "day as start"},
	"week":     {"date_trunc('week', day)", "date_trunc('week', day)::date as start"},
	"month":    {"date_trunc('month', day)", "date_trunc('month', day)::date as start"},
}

func (h handlers) reportUsage(ctx context.Context, r *server.Request[UsageQuery]) (server.OK[UsageReport], error) {
	by := r.In.GroupBy.Or("material")
	group := usageGroups[by]
	order, stock, left := "g.grams desc, g.keys", "", ""
	row := func(field, otherwise string) string {
		if strings.Contains(group.fields, " as "+field) {
			return "g." + field
		}
		return otherwise
	}
	switch by {
	case "day", "week", "month":
		order = "g.start"
	case "material", "color":
		// The remaining weights and the rates have the same keys as the groups.
		stock = `, recent as (
				select array[` + group.key + `] as keys, greatest(sum(grams), 0) / 30 as daily
				from (` + usageBetween(false, "today - 29", "today + 1") + `) u group by ` + group.key + `
			), stock as (
				select array[` + group.key + `] as keys, sum(remaining_weight_grams) as remaining
				from spools where tenant_id = $1 and hidden_at is null and not archived group by ` + group.key + `
			)`
		left = ` left join recent using (keys) left join stock using (keys)`
	}
	printerID, printerName := "null", "null"
	if by == "printer" {
		printerID, printerName = "p.id", "coalesce(p.name, g.printer_name)"
		left = ` left join printers p on p.tenant_id = $1 and p.id::text = g.keys[1]`
	}
	remaining, daily, daysLeft := "null", "null", "null"
	if stock != "" {
		remaining, daily = "trim_scale(coalesce(remaining, 0))", "trim_scale(round(coalesce(daily, 0), 6))"
		daysLeft = "case when round(daily, 6) > 0 then " +
			"trim_scale(least(round(coalesce(remaining, 0) / round(daily, 6), 1), 999999999)) end"
	}
	report := db.SQL(`
		with `+PeriodSQL+`, summarised as materialized (
			select p.*, coalesce((
				select s.next_day from usage_summaries s
				where s.tenant_id = $1 and s.time_zone = p.zone and $4::uuid is null
			), '-infinity') as next_day
			from period p
		), grouped as materialized (
			select array[`+group.key+`]::text[] as keys, `+group.fields+`, sum(grams) as grams,
				sum(wasted_grams) as wasted, sum(corrected_grams) as corrected,
				coalesce(sum(cost), case when sum(grams) = 0 then 0 end) as cost
			from (`+usageBetween(by == "printer", "first", "until")+`) u group by `+group.key+`
		)`+strings.ReplaceAll(stock, "] as keys", "]::text[] as keys")+`, page as (
			select g.*, `+printerID+` as printer_id, `+printerName+` as printer, `+remaining+` as remaining,
				`+daily+` as daily, `+daysLeft+` as days_left
			from (select * from grouped g order by `+order+` limit `+strconv.Itoa(MaxGroups)+`) g`+left+`
		)
		select p.first as "from", p.until - 1 as "to", '`+string(by)+`' as group_by, t.grams, t.wasted_grams,
			t.corrected_grams,
			t.cost, p.currency, t.groups,
			(select coalesce(json_agg(json_build_object(
					'material_type', `+row("material_type", "null")+`, 'color', `+row("color", "null")+`,
					'printer_id', g.printer_id, 'printer_name', g.printer,
					'start', `+row("start", "null")+`,
					'grams', trim_scale(g.grams), 'wasted_grams', trim_scale(g.wasted),
					'corrected_grams', trim_scale(g.corrected), 'cost', trim_scale(round(g.cost, 6)),
					'remaining_grams', g.remaining,
					'grams_per_day', g.daily, 'days_left', g.days_left) order by `+order+`), '[]')
				from page g) as items
		from (
			select round(coalesce(sum(grams), 0), 6) as grams, round(coalesce(sum(wasted), 0), 6) as wasted_grams,
				round(coalesce(sum(corrected), 0), 6) as corrected_grams,
				round(coalesce(sum(cost), case when coalesce(sum(grams), 0) = 0 then 0 end), 6) as cost, count(*) as groups
			from grouped
		) t, period p`, append(r.In.Args(ctx), r.In.PrinterID.Arg())...)
	err := h.db.Read(ctx, db.FreshPlan(), report)
	if errors.Is(err, db.ErrTimeout) {
		// The ledger is long, and the service, which has just started, has not summarised it yet.
		if err = summariseUsage(ctx, h.db); err == nil {
			err = h.db.Read(ctx, db.FreshPlan(), report)
		}
	}
	return server.One(report, err)
}

// UsageEntry is an entry of the usage ledger in an export.
type UsageEntry struct {
	Usage
	SpoolNumber int64         `json:"spool_number" rule:"notNull"`
	SpoolName   string        `json:"spool_name" rule:"notNull"`
	PrinterName string        `json:"printer_name"`
	CostPerGram value.Decimal `json:"cost_per_gram"`

	CountedAt value.Timestamp `json:"counted_at" rule:"notNull"`
}

// UsageSelection selects entries of the usage ledger.
type UsageSelection struct {
	Period
	Kind      value.Optional[value.Set[UsageKind]] `query:"kind"`
	PrinterID value.Optional[value.UUID]           `query:"printer_id"`
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
		with `+periodSQL("nullif(current_setting('app.tenant_id', true), '')::uuid", "$3", "$4")+`
		select `+usageColumns("u")+`, u.counted_at,
			s.number as spool_number, spool_name(s.material_type, s.material_name, s.color, s.brand) as spool_name,
			coalesce((select r.printer_name from production_runs r where r.id = u.run_id),
				(select p.name from printers p where p.id = u.printer_id)) as printer_name, s.cost_per_gram
		from (
			select *, coalesce(used_at, created_at) as counted_at from spool_usage
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
	ID: "exportUsage", Tag: ReportsTag, Summary: "Export the usage ledger",
	Description: transfer.ExportDescription +
		"entry of the usage ledgers of all spools, also of removed ones, by `counted_at`, the oldest first: the time by " +
		"which reports count it.\n\n" +
		"With `from` or `to`, the file has the entries of the days that `reportUsage` covers with the same " +
		"parameters, and without both those of all days.",
}

// SummariseUsage summarises the past days of all tenants' usage ledgers. The usage report reads these summaries.
func SummariseUsage(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error { return summariseUsage(ctx, d) })
}

// summariseUsage summarises the ledger of one tenant, in one transaction for each month.
func summariseUsage(ctx context.Context, d *db.DB) error {
	for ctx.Err() == nil {
		var days int
		summary := db.SQL(`select summarise_usage(31)`).Into(&days)
		if err := d.Write(ctx, summary); err != nil || days == 0 {
			return err
		}
	}
	return ctx.Err()
}
