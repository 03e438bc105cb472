package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
)

// ListQuery are the parameters of every list. The query type of a list embeds it as its first field.
type ListQuery struct {
	Skip      Optional[int64]     `query:"skip" rule:"maximum=999999999,default=0"`
	Limit     Optional[int64]     `query:"limit" rule:"minimum=1,maximum=100,default=20"`
	SortBy    Optional[string]    `query:"sort_by" rule:"default=created_at"`
	SortOrder Optional[SortOrder] `query:"sort_order" rule:"default=desc"`
	After     Optional[string]    `query:"after"`

	by *Field // that SortBy names
}

// resolve checks SortBy and After for a list of items with the schema.
func (q *ListQuery) resolve(items *Schema, problems *Problems) {
	q.by = items.byName[q.SortBy.Or("created_at")]
	if q.by == nil || q.by.List || q.by.Set || q.by.WriteOnly {
		problems.Add("sort_by", "must be one of %s", strings.Join(items.Sortable(), ", "))
	}
	if q.After.IsNull() {
		return
	}
	if _, ok := parseCursor(*q.After.Value); !ok {
		problems.Add("after", "must be the `next` of a page")
	}
	if q.Skip.Or(0) > 0 {
		problems.Add("after", "cannot be combined with skip")
	}
	if !q.isDefaultOrder() {
		problems.Add("after", "cannot be combined with another order than the default: omit sort_by and sort_order")
	}
}

// isDefaultOrder reports whether the order is the newest first, in which pages have a next.
func (q *ListQuery) isDefaultOrder() bool {
	return q.SortBy.Or("created_at") == "created_at" && q.SortOrder.Or("desc") == "desc"
}

// cursorSize is the number of bytes of a cursor, which is the position of an item: its created_at in microseconds since
// 1970, and its id. In requests and responses, they are in base64.
const cursorSize = 8 + 16

// ExampleCursor is the cursor of an item in the OpenAPI document.
var ExampleCursor = cursor(db.Position{
	CreatedAt: time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC), ID: "018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
})

// cursor returns the value of next for a page that ends at the position.
func cursor(p db.Position) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize), uint64(p.CreatedAt.UnixMicro()))
	b, err := hex.AppendDecode(b, []byte(strings.ReplaceAll(p.ID, "-", "")))
	if err != nil {
		panic(err) // PostgreSQL returned the id
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor returns the position of a cursor.
func parseCursor(text string) (db.Position, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || strings.ContainsAny(text, "\r\n") {
		return db.Position{}, false
	}
	created := time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
	if year := created.Year(); year < 1 || year > 9999 {
		return db.Position{}, false
	}
	id := hex.EncodeToString(b[8:])
	id = id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	return db.Position{CreatedAt: created, ID: id}, true
}

// SortOrder is the direction of a list's order.
type SortOrder string

// Enum returns all orders.
func (SortOrder) Enum() []string { return []string{"asc", "desc"} }

// List builds the statements of a list.
type List struct {
	table, columns, counted string
	where                   []string
	args                    []any
	scan                    bool // whether a condition has no index
	ordered                 bool // see CountOrdered
}

// NewList returns a list of a table's columns in the rows that meet the condition base, if it is not empty. Counted
// names the resource in row_counts with their number, or is empty.
func NewList(table, columns, base, counted string) *List {
	l := &List{table: table, columns: columns, counted: counted}
	if base != "" {
		l.where = append(l.where, base)
	}
	return l
}

// NewHidingList returns a list of a table with the column hidden_at: of the rows in which it is null, or of the hidden
// ones.
func NewHidingList(table, columns, counted string, hidden bool) *List {
	if hidden {
		return NewList(table, columns, "hidden_at is not null", "")
	}
	return NewList(table, columns, "hidden_at is null", counted)
}

// And adds a condition without a parameter. It does not change how the total is determined.
func (l *List) And(condition string) { l.where = append(l.where, condition) }

// Where adds a condition; each ? in it is replaced by the parameter of arg. The total is then counted.
func (l *List) Where(condition string, arg any) {
	l.counted = ""
	l.And(strings.ReplaceAll(condition, "?", l.arg(arg)))
}

// arg adds an argument of the statement and returns its parameter.
func (l *List) arg(v any) string {
	l.args = append(l.args, v)
	return "$" + strconv.Itoa(len(l.args))
}

// compared is the form of a text in which it is compared without regard to case, as generated columns have it.
const compared = `lower(?::text collate "und-x-icu") collate "C"`

// WhereText adds the condition that a text equals the filter, if that is set, without regard to case. The column has
// the text in its compared form.
func (l *List) WhereText(column string, filter Optional[string]) {
	if !filter.IsNull() {
		l.Where(column+" = "+compared, *filter.Value)
	}
}

// CountOrdered makes the total read the index of the default order. Without it, the plan of the count can use any index
// that begins with the tenant: for a small table, the costs of all of them are about the same.
func (l *List) CountOrdered() { l.ordered = true }

// Search adds the condition that the column search_key contains the text, without regard to case. It has no index: row-
// level security evaluates its condition first, because PostgreSQL does not regard text operators as leakproof, so that
// a trigram index would not be used. The page and its total come from one scan of the tenant's rows that meet the other
// conditions.
func (l *List) Search(text string) {
	l.Where("strpos(search_key, "+compared+") > 0", text)
	l.scan = true
}

// deepSkip is the number of skipped rows from which ListPage reads only the index to find a page, and then its rows.
// With an order that has no index, it always finds the keys of the page first: reading all columns of all rows would
// take half as long again.
const deepSkip = 1000

// quickSkip is the number of skipped rows from which a page takes too long to share a round trip with other reads.
const quickSkip = 100

// ListPage returns a page of a list. It calls run once. T is the type of the items, and Page[T] the result of the
// endpoint.
func ListPage[T any](ctx context.Context, run func(context.Context, ...*db.Stmt) error, l *List, q ListQuery,
) (Page[T], error) {
	skip, limit := q.Skip.Or(0), q.Limit.Or(20)
	var before []*db.Stmt
	if l.scan || q.by.Name != "created_at" && q.by.Name != "id" {
		// No index has this condition or order, so PostgreSQL reads all rows.
		before = []*db.Stmt{db.AllowScans()}
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
	}
	var total int64
	page := l.page(q, len(before) == 0).Total(&total).Expect(int(limit))
	if q.isDefaultOrder() {
		page.Keep(int(limit))
	}
	if l.counted != "" && len(before) == 0 && skip < quickSkip {
		page.Quick()
	}
	if err := run(ctx, append(before, page)...); err != nil {
		return nil, err
	}
	answer := newPage(page.Array(), total, skip, limit)
	if next := page.Next(); next != nil {
		return append(append(append(answer, '"'), cursor(*next)...), `"}`...), nil
	}
	return append(answer, "null}"...), nil
}

// orderBy returns the clause that sorts by a field and then by id.
func orderBy(f *Field, direction SortOrder) string {
	clause := " order by " + f.Name + " " + string(direction)
	if direction == "desc" && !f.NotNull {
		clause += " nulls last"
	}
	if f.Name != "id" {
		clause += ", id " + string(direction)
	}
	return clause
}

// page returns the statement of a page and the total. It is one statement, and so one snapshot: the statements of a
// request see the commits of others between them. Each of its rows has the total, which counts the items of all pages.
// In the default order, it reads one more item than the limit, which tells whether there is a next page.
func (l *List) page(q ListQuery, indexed bool) *db.Stmt {
	with, total, from, where, order := "", l.count(), l.table, l.where, orderBy(q.by, q.SortOrder.Or("desc"))
	if l.scan {
		keys := "tenant_id, id"
		if q.by.Name != "id" {
			keys += ", " + q.by.Name
		}
		with = "with found as materialized (select " + keys + " from " + l.table + whereOf(l.where) + ") "
		total, from, where = "select count(*) as total from found", "found", nil
	}
	if !q.After.IsNull() {
		last, _ := parseCursor(*q.After.Value) // ListQuery.Check has accepted it
		after := "(created_at, id) < (" + l.arg(last.CreatedAt) + "::timestamptz, " + l.arg(last.ID) + "::uuid)"
		where = append(slices.Clip(where), after)
	}
	// The limit is text and not an argument: PostgreSQL prefers custom plans for a limit that it does not know, and
	// would plan the statement each time.
	fetch := q.Limit.Or(20)
	if q.isDefaultOrder() {
		fetch++
	}
	window := order + " limit " + strconv.FormatInt(fetch, 10)
	skip := q.Skip.Or(0)
	if skip > 0 {
		window += " offset " + l.arg(skip)
	}
	source := from + whereOf(where) + window
	if !indexed || skip >= deepSkip {
		source = l.table + " join (select tenant_id, id from " + source + ") page using (tenant_id, id)"
	}
	return db.SQL(with+"select counted.total, page.* from ("+total+") counted left join (select "+l.columns+
		" from "+source+") page on true"+order, l.args...)
}

func whereOf(conditions []string) string {
	if len(conditions) == 0 {
		return ""
	}
	return " where " + strings.Join(conditions, " and ")
}

// count returns the query that counts the rows of the list as total.
func (l *List) count() string {
	switch where := whereOf(l.where); {
	case l.counted != "":
		return "select coalesce(sum(rows), 0)::bigint as total from row_counts where resource = '" + l.counted + "'"
	case l.ordered:
		return "select count(*) as total from (select from " + l.table + where + " order by created_at offset 0) counted"
	default:
		return "select count(*) as total from " + l.table + where
	}
}

// NewPage returns the JSON of the only page of a list, with these items, a JSON array.
func NewPage(items []byte, total, skip, limit int64) []byte {
	return append(newPage(items, total, skip, limit), "null}"...)
}

// newPage returns the JSON of a page up to the value of next.
func newPage(items []byte, total, skip, limit int64) []byte {
	answer := append(make([]byte, 0, len(items)+150), `{"items":`...)
	answer = append(answer, items...)
	return fmt.Appendf(answer, `,"total":%d,"skip":%d,"limit":%d,"next":`, total, skip, limit)
}
