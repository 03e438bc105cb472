package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"spoolwright/db"
)

// ListQuery are the parameters that every list takes; a list's own query type embeds it first.
type ListQuery struct {
	Skip      Optional[int64]  `query:"skip" rule:"minimum=0,maximum=999999999,default=0" doc:"How many items to leave out at the start." example:"0"`
	Limit     Optional[int64]  `query:"limit" rule:"minimum=1,maximum=100,default=20" doc:"The most items to return." example:"20"`
	SortBy    Optional[string] `query:"sort_by" rule:"default=created_at" doc:"The field to sort by: any scalar field of the items. Ties are broken by id, nulls come last." example:"\"created_at\""`
	SortOrder Optional[string] `query:"sort_order" rule:"enum=asc|desc,named=SortOrder,default=desc" doc:"Ascending or descending." example:"\"desc\""`
}

// List is a list being put together: which rows, in which order, which page of them.
type List struct {
	table, columns, counted string
	where                   []string
	args                    []any
}

// NewList starts a list of a table's columns. Counted names the resource in row_counts that holds the number of all rows
// that base selects; with any further condition the rows are counted.
func NewList(table, columns, base, counted string) *List {
	l := &List{table: table, columns: columns, counted: counted}
	if base != "" {
		l.where = append(l.where, base)
	}
	return l
}

// Where adds a condition, in which ? stands for arg.
func (l *List) Where(condition string, arg any) {
	l.args = append(l.args, arg)
	l.counted = ""
	l.where = append(l.where, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(l.args))))
}

// deepSkip is from where on a page is found in the index first and its rows are fetched after.
const deepSkip = 1000

// ListPage answers a list: one round trip for the page and its total, which run makes. T is the type of the items; it decides what
// may be sorted by.
func ListPage[T any](ctx context.Context, run func(context.Context, ...*db.Stmt) error, l *List, q ListQuery) (Page[T], error) {
	skip, limit := q.Skip.Or(0), q.Limit.Or(20)
	sort, order := q.SortBy.Or("created_at"), q.SortOrder.Or("desc")
	schema := SchemaOf[T]()
	field := schema.byName[sort]
	if field == nil || field.list || field.WriteOnly {
		return nil, Invalid("sort_by", "must be one of %s", strings.Join(schema.Sortable(), ", "))
	}
	by := func(prefix string) string {
		nulls := ""
		if order == "desc" && !field.NotNull {
			nulls = " nulls last"
		}
		text := prefix + sort + " " + order + nulls
		if sort != "id" {
			text += ", " + prefix + "id " + order
		}
		return text
	}
	conditions, args := l.where, l.args
	var before []*db.Stmt
	if sort != "created_at" && sort != "id" {
		// Without an index for the order all rows are looked at. How that is done best depends on how many there are: row-level security's
		// own condition would make PostgreSQL plan for a tenant of average size, once for all.
		before = []*db.Stmt{db.SQL(`select set_config('plan_cache_mode', 'force_custom_plan', true)`)}
		args = append(args[:len(args):len(args)], db.ActorOf(ctx).Tenant)
		conditions = append(conditions[:len(conditions):len(conditions)], "tenant_id = $"+strconv.Itoa(len(args)))
	}
	where := ""
	if len(conditions) > 0 {
		where = " where " + strings.Join(conditions, " and ")
	}
	var total int64
	count := db.SQL("select coalesce(sum(rows), 0)::bigint from row_counts where resource = '" + l.counted + "'").Into(&total)
	if l.counted == "" {
		count = db.SQL("select count(*) from "+l.table+where, args...).Into(&total)
	}
	// As text, not as arguments: for a limit it cannot see, PostgreSQL would plan the statement anew each time.
	window := " limit " + strconv.FormatInt(limit, 10)
	if skip > 0 {
		args = append(args[:len(args):len(args)], skip)
		window += " offset $" + strconv.Itoa(len(args))
	}
	var page *db.Stmt
	if skip < deepSkip {
		page = db.SQL("select "+l.columns+" from "+l.table+where+" order by "+by("")+window, args...)
	} else {
		page = db.SQL("select "+l.columns+" from "+l.table+" join (select tenant_id, id from "+l.table+where+" order by "+by("")+window+
			") page using (tenant_id, id) order by "+by(""), args...)
	}
	page.Expect(int(limit))
	if err := run(ctx, append(before, page, count)...); err != nil {
		return nil, err
	}
	items := page.Array()
	answer := append(make([]byte, 0, len(items)+80), `{"items":`...)
	answer = append(answer, items...)
	return fmt.Appendf(answer, `,"total":%d,"skip":%d,"limit":%d}`, total, skip, limit), nil
}
