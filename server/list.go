package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"spoolwright/db"
)

// ListQuery are the parameters of every list. The query type of a list embeds it as its first field, unless it is that
// of HandleList.
type ListQuery struct {
	Skip      Optional[int64]     `query:"skip" rule:"maximum=999999999,default=0"`
	Limit     Optional[int64]     `query:"limit" rule:"minimum=1,maximum=100,default=20"`
	SortBy    Optional[string]    `query:"sort_by" rule:"default=created_at"`
	SortOrder Optional[SortOrder] `query:"sort_order" rule:"default=desc"`
	After     Optional[string]    `query:"after"`

	order order
	last  *db.Position // that After names
}

// Listing are the parameters of a list: those of every list, and a filter.
type Listing[F any] struct {
	ListQuery
	Filter F `query:"*"`
}

// HandleList returns the endpoint of a list of the items T that a filter selects.
func HandleList[T, F any](d *db.DB, list func(filter F) *List) Endpoint {
	return Handle(func(ctx context.Context, r *Request[Listing[F]]) (Page[T], error) {
		return ListPage[T](ctx, d.Read, list(r.In.Filter), r.In.ListQuery)
	})
}

// resolve checks SortBy and After for a list of items with the schema.
func (q *ListQuery) resolve(items *Schema, problems *Problems) {
	q.order = order{items.byName[q.SortBy.Or("created_at")], q.SortOrder.Or("desc")}
	if f := q.order.field; f == nil || !f.isSortable() {
		problems.Add("sort_by", "must be one of %s", strings.Join(items.Sortable(), ", "))
		return
	}
	if q.After.IsNull() {
		return
	}
	var problem string
	if q.last, problem = q.order.parse(*q.After.Value); problem != "" {
		problems.Add("after", "%s", problem)
	}
	if q.Skip.Or(0) > 0 {
		problems.Add("after", "cannot be combined with skip")
	}
}

// SortOrder is the direction of a list's order.
type SortOrder string

// Enum returns all orders.
func (SortOrder) Enum() []string { return []string{"asc", "desc"} }

// order is an order of items: by a field, and then by id.
type order struct {
	field     *Field
	direction SortOrder
}

// clause returns the order as SQL.
func (o order) clause() string {
	text := " order by " + o.field.Name + " " + string(o.direction)
	if o.direction == "desc" && !o.field.NotNull {
		text += " nulls last"
	}
	if o.field.Name != "id" {
		text += ", id " + string(o.direction)
	}
	return text
}

// columns returns the columns by which the order sorts, with the key of the item.
func (o order) columns() string {
	if o.field.Name == "id" {
		return "tenant_id, id"
	}
	return "tenant_id, id, " + o.field.Name
}

// after returns the condition for the items after the position. Columns that are null are not after it.
func (o order) after(p *db.Position, arg func(any) string) string {
	operator := " < "
	if o.direction == "asc" {
		operator = " > "
	}
	id := arg(p.ID) + "::text::uuid"
	if o.field.Name == "id" {
		return "id" + operator + id
	}
	value := arg(p.Value) + "::text::" + cursorTypes[o.field.Kind]
	return "(" + o.field.Name + ", id)" + operator + "(" + value + ", " + id + ")"
}

// cursorTypes are the SQL types of the columns whose order can have cursors.
var cursorTypes = map[reflect.Type]string{
	reflect.TypeFor[Timestamp](): "timestamptz",
	reflect.TypeFor[Date]():      "date",
	reflect.TypeFor[int64]():     "int",
	reflect.TypeFor[UUID]():      "uuid",
}

// A cursor is the position of an item in an order. It consists of four words, in base64: the field and the direction
// of the order, and the value of the field and the id of the item.

// cursor returns the value of next for a page that ends at the position.
func (o order) cursor(p db.Position) string {
	words := []string{o.field.Name, string(o.direction), p.Value, p.ID}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(words, " ")))
}

// parse returns the position of a cursor, or the problem with it.
func (o order) parse(text string) (*db.Position, string) {
	const problem = "must be the `next` of a page"
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	words := strings.Split(string(b), " ")
	if err != nil || len(words) != 4 || strings.ContainsAny(text, "\r\n") {
		return nil, problem
	}
	if words[0] != o.field.Name || words[1] != string(o.direction) {
		return nil, "belongs to another order: repeat the sort_by and sort_order of the page that had it as `next`"
	}
	p := &db.Position{Value: words[2], ID: words[3]}
	id, ok := db.ParseID(p.ID)
	switch o.field.Kind {
	case reflect.TypeFor[Timestamp]():
		t, problem := parseTimestamp(p.Value)
		ok = ok && problem == "" && t.Format("2006-01-02T15:04:05.999999Z") == p.Value
	case reflect.TypeFor[Date]():
		_, problem := parseDate(p.Value)
		ok = ok && problem == ""
	case reflect.TypeFor[int64]():
		n, err := strconv.ParseInt(p.Value, 10, 32)
		ok = ok && err == nil && strconv.FormatInt(n, 10) == p.Value
	case reflect.TypeFor[UUID]():
		ok = ok && p.Value == p.ID
	default:
		ok = false
	}
	if !ok || id != p.ID {
		return nil, problem
	}
	return p, ""
}

// ExampleCursor is the cursor of an item in the OpenAPI document.
var ExampleCursor = order{&Field{Name: "created_at"}, "desc"}.cursor(
	db.Position{Value: "2024-01-15T10:00:00Z", ID: "018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a"})

// List builds the statements of a list: the pages that ListPage returns, and those of an export.
type List struct {
	table, columns, counted string
	where                   []string
	args                    []any
	each                    []choice
	sets                    []string // see Among
	ranges                  []string // the columns of Between other than created_at
	orders                  []string // see Ordered
	filters                 int      // conditions other than those of Each, Between and Scan
	newest                  string   // the condition for the index of the default order, if it needs one
	scan                    bool     // whether a condition has no index
	countOrdered            bool     // see CountOrdered
	computed                bool     // see Computed
}

// choice is the condition that a column has one of several values.
type choice struct{ column, values string }

// any returns the condition as SQL.
func (c choice) any() string { return c.column + " = any(" + c.values + ")" }

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
// ones. The index that has the former in the default order has the predicate "hidden_at is null and " + Newest.
func NewHidingList(table, columns, counted string, hidden bool) *List {
	if hidden {
		return NewList(table, columns, "hidden_at is not null", "")
	}
	l := NewList(table, columns, "hidden_at is null", counted)
	l.newest = Newest
	return l
}

// Newest is a condition that is true for all rows. It is in the predicates of the indexes of the default order, so
// that only statements with it use them. Others have a filter: while the table is small, reading all rows in their
// order would seem as good as the index of the filter.
const Newest = "created_at > '-infinity'"

// Filtered is a condition that is true for all rows. It is in the predicates of the indexes of filters by columns that
// are never null, so that only statements with it use them. While PostgreSQL has no statistics, such an index, which
// ends with the id, would seem as good as the primary key for a row that is selected by its id and "hidden_at is
// null", but all entries of the tenant would be read.
const Filtered = "created_at < 'infinity'"

// And adds a condition without a parameter. It does not change how the total is determined.
func (l *List) And(condition string) { l.where = append(l.where, condition) }

// Where adds a condition; each ? in it is replaced by the parameter of arg. The total is then counted.
func (l *List) Where(condition string, arg any) {
	l.counted = ""
	l.filters++
	l.And(strings.ReplaceAll(condition, "?", l.arg(arg)))
}

// arg adds an argument of the statement and returns its parameter.
func (l *List) arg(v any) string {
	l.args = append(l.args, v)
	return "$" + strconv.Itoa(len(l.args))
}

// compared is the form of a text in which it is compared without regard to case, as columns ending in _key have it.
const compared = `lower(?::text collate "und-x-icu") collate "C"`

// WhereText adds the condition that a text equals the filter, if that is set, without regard to case. The column has
// the text in its compared form.
func (l *List) WhereText(column string, filter Optional[string]) {
	if !filter.IsNull() {
		l.Where(column+" = "+compared, *filter.Value)
	}
}

// value is a parameter of a query.
type value interface {
	IsNull() bool
	Arg() any
	sqlType() string
}

// WhereEqual adds the condition that a column equals the filter, if that is set.
func (l *List) WhereEqual(column string, filter value) {
	if !filter.IsNull() {
		l.Where(column+" = ?::"+filter.sqlType(), filter.Arg())
	}
}

// WhereOneOf adds the condition that a column has one of the values of the filter, if that is set.
func (l *List) WhereOneOf(column string, filter interface{ Values() []string }) {
	if values := filter.Values(); len(values) == 1 {
		l.Where(column+" = ?", values[0])
	} else if len(values) > 1 {
		l.counted = ""
		l.filters++
		l.And(choice{column, "string_to_array(" + l.arg(strings.Join(values, ",")) + ", ',')"}.any())
	}
}

// WhereEach is WhereOneOf for a column with which an index begins that has the default order for each of its values. A
// page is then found among the first items for each value, however many there are.
func (l *List) WhereEach(column string, filter interface{ Values() []string }) {
	values := filter.Values()
	if len(values) < 2 {
		l.WhereOneOf(column, filter)
		return
	}
	l.filters++
	l.Each(column, "string_to_array("+l.arg(strings.Join(values, ","))+", ',')")
}

// Each is WhereEach for the values of an array, which is SQL, that are those of most rows. The index of the default
// order also begins with the column.
func (l *List) Each(column, values string) {
	l.counted = ""
	l.each = append(l.each, choice{column, values})
}

// Between adds the conditions that a column is at least from and less than to, if these are set. An index has the rows
// in which the column is not null in its order; created_at is in all indexes of lists.
func (l *List) Between(column string, from, to value) {
	if from.IsNull() && to.IsNull() {
		return
	}
	l.counted = ""
	if !from.IsNull() {
		l.And(column + " >= " + l.bound(from))
	}
	if !to.IsNull() {
		l.And(column + " < " + l.bound(to))
	}
	if column == "created_at" {
		l.countOrdered = true
	} else {
		l.ranges = append(l.ranges, column)
		l.Ordered(column)
	}
}

// bound returns the value of a bound of Between as SQL.
func (l *List) bound(v value) string {
	if m, ok := v.(Optional[Moment]); ok && m.Value.date != "" {
		return "(select " + l.arg(v.Arg()) + `::text::date::timestamp at time zone t.time_zone from tenants t
			where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)`
	}
	return l.arg(v.Arg()) + "::" + v.sqlType()
}

// Ordered tells that an index has the order of a column for the rows of the list, and that it is not null in them.
func (l *List) Ordered(column string) { l.orders = append(l.orders, column) }

// Among adds the condition that the id is one of those that a query returns, if the filter is set; each ? in it is
// replaced by its parameter. The rows are looked up by these ids.
func (l *List) Among(ids string, filter value) {
	if !filter.IsNull() {
		l.counted = ""
		l.filters++
		l.sets = append(l.sets, strings.ReplaceAll(ids, "?", l.arg(filter.Arg())+"::"+filter.sqlType()))
	}
}

// CountOrdered makes the total read the index of the default order. Without it, the plan of the count can use any
// index that begins with the tenant: for a small table, the costs of all of them are about the same.
func (l *List) CountOrdered() { l.countOrdered = true }

// Computed tells that the table is a query which computes columns from the rows of others. A page then takes longer.
func (l *List) Computed() { l.computed = true }

// Searchable returns a SQL expression of the form in which a search compares a text: without regard to case and
// accents. The columns search_key have this form.
func Searchable(text string) string {
	return `regexp_replace(normalize(lower((` + text + `) collate "und-x-icu") collate "C", NFKD), ` +
		`U&'[\0300-\036F]', '', 'g')`
}

// maxWords is the maximum number of words of a search.
const maxWords = 10

// Search adds the condition that each word of the text occurs in the row, if the text is set: in the column
// search_key, or in one of the places. Words are separated by white space; a single letter or digit must occur as a
// word of its own, unless it is the whole search. They have no index: row-level
// security evaluates its condition first, because PostgreSQL does not regard text operators as leakproof, so that a
// trigram index would not be used.
func (l *List) Search(text Optional[string], places ...Place) {
	l.search(text, "", places)
}

// SearchNumbered is Search for a table with the column number. A word such as 70 also occurs in the row with this
// number, and a word such as #70 only in that. The query of the id of a row has its number as ?.
func (l *List) SearchNumbered(text Optional[string], query string, places ...Place) {
	l.search(text, query, places)
}

func (l *List) search(text Optional[string], query string, places []Place) {
	all := words(text.Or(""))
	for _, word := range all {
		digits, marked := strings.CutPrefix(word, "#")
		number, err := strconv.ParseInt(digits, 10, 32)
		isNumber := err == nil && number > 0 && digits[0] != '+'
		if isNumber && marked && query != "" {
			l.counted = ""
			l.filters++
			l.sets = append(l.sets, strings.ReplaceAll(query, "?", l.arg(number)+"::int"))
			continue
		}
		if isNumber {
			word = digits
		}
		// "Shelf A" is not meant to find "Shelf B" because of the A in PLA, nor 7 every spool of 1.75 mm.
		first, size := utf8.DecodeRuneInString(word)
		isWhole := size == len(word) && (unicode.IsLetter(first) && len(all) > 1 ||
			unicode.IsDigit(first) && (len(all) > 1 || query != ""))
		// The subquery makes PostgreSQL evaluate the expression once, and not for each row.
		word = Searchable(l.arg(word) + "::text")
		occurs := func(in string) string { return "strpos(" + in + ", (select " + word + ")) > 0" }
		if isWhole {
			occurs = func(in string) string {
				return in + " ~ (select '(^|[^[:alnum:]])' || " + word + " || '($|[^[:alnum:]])')"
			}
		}
		any := []string{occurs("search_key")}
		if isNumber && query != "" {
			any = append(any, "number = "+l.arg(number)+"::int")
		}
		for _, p := range places {
			any = append(any, p.condition(occurs))
		}
		l.counted, l.scan = "", true
		l.And("(" + strings.Join(any, " or ") + ")")
	}
}

// Place is where else than in its search_key a row shows texts: in rows of other tables.
type Place struct {
	Column string // of the list's table
	Rows   string // the beginning of a query of values of the column, up to its last condition
	Key    string // the search_key of the rows with the texts, which has them and others
	Texts  string // the texts: a SQL expression of such a row
}

// condition returns the condition that a word occurs in the texts. The array makes PostgreSQL expect few values, so
// that it hashes them, however many the tables had when it planned the statement.
func (p Place) condition(occurs func(text string) string) string {
	return p.Column + " in (select unnest(array(" + p.Rows + " and " + occurs(p.Key) + " and " +
		occurs(Searchable(p.Texts)) + ")))"
}

// words returns the words of a search, without what pages write around and between texts.
func words(search string) (words []string) {
	for _, word := range strings.FieldsFunc(search, isBlank) {
		trimmed := strings.TrimRight(strings.TrimLeft(word, "("), "),")
		if trimmed == "" {
			trimmed = word
		}
		if trimmed != "·" && trimmed != "–" && !slices.Contains(words, trimmed) {
			words = append(words, trimmed)
		}
	}
	return words
}

// Scan is Where for a condition without an index. The page and its total come from one scan of the tenant's rows that
// meet the other conditions.
func (l *List) Scan(condition string, arg any) {
	l.Where(condition, arg)
	l.filters--
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
	return listPage(ctx, run, l, q)
}

// listPage is ListPage for items of any type.
func listPage(ctx context.Context, run func(context.Context, ...*db.Stmt) error, l *List, q ListQuery,
) ([]byte, error) {
	skip, limit, by := q.Skip.Or(0), q.Limit.Or(20), q.order.field.Name
	inAllIndexes := by == "created_at" || by == "id"
	p := pageOf{q: &q, ordered: inAllIndexes || slices.Contains(l.orders, by)}
	// A filter can leave few rows that an index of another order would find late, or never.
	p.scans = l.scan || !p.ordered || !inAllIndexes && l.filters > 0
	p.found = l.scan || len(l.sets) > 0 ||
		slices.ContainsFunc(l.ranges, func(column string) bool { return column != by })
	if q.last != nil && !p.ordered {
		return nil, Invalid("after", "cannot be combined with the order by %s without a filter on it", by)
	}
	var before []*db.Stmt
	if p.scans {
		before = []*db.Stmt{db.AllowScans()}
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
	}
	var total int64
	page := l.page(p).Total(&total).Expect(int(limit))
	if p.ordered {
		page.Keep(int(limit), by)
	}
	if l.counted != "" && !p.scans && !l.computed && skip < quickSkip {
		page.Quick()
	}
	if err := run(ctx, append(before, page)...); err != nil {
		return nil, err
	}
	answer := newPage(page.Array(), total, skip, limit)
	if next := page.Next(); next != nil {
		return append(append(append(answer, '"'), q.order.cursor(*next)...), `"}`...), nil
	}
	return append(answer, "null}"...), nil
}

// pageOf tells how the page of a list is found.
type pageOf struct {
	q       *ListQuery
	ordered bool // an index has the order, so that the page can have a next
	scans   bool // PostgreSQL may read all rows of the tenant
	found   bool // all rows that meet the conditions are read once: an index has them in another order, or none has
}

// page returns the statement of a page and the total. It is one statement, and so one snapshot: the statements of a
// request see the commits of others between them. Each of its rows has the total, which counts the items of all pages.
// If the page can have a next, the statement reads one more item than the limit, which tells whether there is one.
func (l *List) page(p pageOf) *db.Stmt {
	by, skip, fetch := p.q.order, p.q.Skip.Or(0), p.q.Limit.Or(20)
	if p.ordered {
		fetch++
	}
	// The limit is text and not an argument: PostgreSQL prefers custom plans for a limit that it does not know, and
	// would plan the statement each time.
	limit, window := strconv.FormatInt(fetch, 10), ""
	if skip > 0 {
		window = " offset " + l.arg(skip)
	}
	var after []string
	if p.q.last != nil {
		after = []string{by.after(p.q.last, l.arg)}
	}
	with, total, source := "", l.count(), ""
	switch {
	case p.found:
		with = "with found as materialized (select " + by.columns() + " from " + l.matching(by.columns()) + ") "
		total, source = "select count(*) as total from found", "found"+whereOf(after)
	case len(l.each) > 0 && by.field.Name == "created_at":
		most := limit
		if skip > 0 {
			most = l.arg(skip + fetch)
		}
		source = l.first(by, after, most)
	default:
		source = l.table + whereOf(append(l.indexed(l.conditions()), after...))
	}
	source += by.clause() + " limit " + limit + window
	if len(l.each) > 0 || p.found || p.scans || skip >= deepSkip {
		source = l.table + " join (select tenant_id, id from " + source + ") page using (tenant_id, id)"
	}
	return db.SQL(with+"select counted.total, page.* from ("+total+") counted left join (select "+l.columns+
		" from "+source+") page on true"+by.clause(), l.args...)
}

// Export returns the statements of a page of an export: of the first rows after the position, or of the first ones of
// all, in the order of their creation. The last statement returns the rows of resource, a query with the condition
// "id = page.id" at its end.
func (l *List) Export(ctx context.Context, resource string, limit int, after *db.Position) []*db.Stmt {
	before := db.FreshPlan()
	if l.scan || len(l.ranges) > 0 { // an index of the range, or the order and all rows: that depends on their numbers
		before = db.AllowScans()
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
		l.ranges = nil
	}
	by := order{newest.field, "asc"}
	var position []string
	if after != nil {
		position = []string{by.after(after, l.arg)}
	}
	most, source := strconv.Itoa(limit+1), ""
	switch {
	case len(l.sets) > 0:
		source = l.matching(by.columns()) + whereOf(position)
	case len(l.each) > 0:
		source = l.first(by, position, most)
	default:
		source = l.table + whereOf(append(l.indexed(l.conditions()), position...))
	}
	return []*db.Stmt{before, db.SQL(`
		select resource.* from (select created_at, id from `+source+by.clause()+` limit `+most+`) page
		cross join lateral (`+resource+` offset 0) resource order by page.created_at, page.id`, l.args...).
		Keep(limit, "created_at")}
}

// conditions returns all conditions but those of Among.
func (l *List) conditions() []string {
	all := slices.Clone(l.where)
	for _, c := range l.each {
		all = append(all, c.any())
	}
	return all
}

// indexed returns the conditions, and that for the indexes of filters, or for the index of the default order if there
// is no filter.
func (l *List) indexed(conditions []string) []string {
	switch {
	case l.newest == "":
		return conditions
	case l.filters == 0 && len(l.ranges) == 0:
		return append(conditions, l.newest)
	default:
		return append(conditions, Filtered)
	}
}

// matching returns the source of the columns of all rows that meet the conditions.
func (l *List) matching(columns string) string {
	if len(l.sets) == 0 {
		return l.table + whereOf(l.indexed(l.conditions()))
	}
	// Offset 0 makes PostgreSQL look up each id.
	return "(select id as listed from (" + strings.Join(l.sets, " intersect ") + ") ids group by id) ids" +
		" cross join lateral (select " + columns + " from " + l.table +
		whereOf(append(l.conditions(), "id = listed")) + " offset 0) matched"
}

// first returns the source of the keys of the first rows for each of the values of l.each, up to the limit for each.
func (l *List) first(by order, after []string, limit string) string {
	var values strings.Builder
	where := append(l.indexed(slices.Clone(l.where)), after...)
	for i, c := range l.each {
		fmt.Fprintf(&values, "unnest(%s) as each%d (value) cross join ", c.values, i)
		where = append(where, fmt.Sprintf("%s = each%d.value", c.column, i))
	}
	return values.String() + "lateral (select " + by.columns() + " from " + l.table + whereOf(where) + by.clause() +
		" limit " + limit + ") first"
}

// newest is the default order.
var newest = order{&Field{Name: "created_at", NotNull: true, Kind: reflect.TypeFor[Timestamp]()}, "desc"}

// Lock returns statements that lock the rows which meet the conditions, at most limit, in the order of their ids. The
// last one returns the columns of these rows.
func (l *List) Lock(ctx context.Context, columns string, limit int) []*db.Stmt {
	var before []*db.Stmt
	if l.scan {
		before = []*db.Stmt{db.AllowScans()}
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
	}
	// In the default order, which an index has for each filter.
	ids := "select id from " + l.matching("id, created_at") + " order by created_at desc, id desc limit " +
		strconv.Itoa(limit)
	return append(before, LockRows(l.table, columns, ids, strings.Join(l.conditions(), " and "), l.args...))
}

// LockRows returns a statement that locks the rows of a table whose ids a query returns, in the order of the ids. It
// returns the columns of those that meet the condition when they are locked.
func LockRows(table, columns, ids, condition string, args ...any) *db.Stmt {
	return db.SQL(`
		with found as materialized (`+ids+`)
		select locked.* from (select distinct id from found order by id) ids cross join lateral (
			select `+columns+` from `+table+` where id = ids.id and `+condition+` for no key update
		) locked`, args...)
}

func whereOf(conditions []string) string {
	if len(conditions) == 0 {
		return ""
	}
	return " where " + strings.Join(conditions, " and ")
}

// count returns the query that counts the rows of the list as total.
func (l *List) count() string {
	switch where := whereOf(l.indexed(l.conditions())); {
	case l.counted != "":
		return "select coalesce(sum(rows), 0)::bigint as total from row_counts where resource = '" + l.counted + "'"
	case len(l.each) > 0:
		return "select count(*) as total from " + l.first(newest, nil, "all")
	case l.countOrdered:
		return "select count(*) as total from (select from " + l.table + where +
			" order by created_at offset 0) counted"
	default:
		return "select count(*) as total from " + l.table + where
	}
}

// NewPage returns the JSON of the only page of a list, with these items, a JSON array.
func NewPage(items []byte, total, skip, limit int64) []byte {
	return append(newPage(items, total, skip, limit), "null}"...)
}

// newPage returns the JSON of a page up to the value of next, with room for that and the rest.
func newPage(items []byte, total, skip, limit int64) []byte {
	answer := append(make([]byte, 0, len(items)+300), `{"items":`...)
	answer = append(answer, items...)
	return fmt.Appendf(answer, `,"total":%d,"skip":%d,"limit":%d,"next":`, total, skip, limit)
}
