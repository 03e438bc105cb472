package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/value"
	"spoolwright/value/language"
)

// ListQuery are the parameters of every list. The query type of a list embeds ListQuery as its first field. The query
// type of HandleList is listing.
type ListQuery struct {
	Skip      value.Optional[int64]     `query:"skip" rule:"maximum=999999999,default=0"`
	Limit     value.Optional[int64]     `query:"limit" rule:"minimum=1,maximum=100,default=20"`
	SortBy    value.Optional[string]    `query:"sort_by" rule:"default=created_at"`
	SortOrder value.Optional[SortOrder] `query:"sort_order" rule:"default=desc"`
	After     value.Optional[string]    `query:"after"`

	order order
	last  *db.Position // the position that After names
}

// listing are the parameters of a list of HandleList: the parameters of every list, and the parameters of a filter.
type listing[F any] struct {
	ListQuery
	Filter F `query:"*"`
}

// HandleList returns the endpoint of a list of items of type T. List returns the items that a filter selects.
func HandleList[T, F any](d *db.DB, list func(filter F) *List) Endpoint {
	return Handle(func(ctx context.Context, r *Request[listing[F]]) (Page[T], error) {
		return ListPage[T](ctx, d.Read, list(r.In.Filter), r.In.ListQuery)
	})
}

// HandleListOf is HandleList for items of a resource. The query exists selects the resource with the id in the path.
func HandleListOf[T, F any](d *db.DB, exists string, list func(filter F, id string) *List) Endpoint {
	return Handle(func(ctx context.Context, r *Request[listing[F]]) (Page[T], error) {
		return ListPage[T](ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
			of := db.SQL(exists, r.ID("id"))
			return Found(of, d.Read(ctx, append(stmts, of)...))
		}, list(r.In.Filter, r.ID("id")), r.In.ListQuery)
	})
}

// resolve checks SortBy, After and Skip for a list of items with the schema, and sets order and last.
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

// order is an order of items: by a field, and for equal values by id.
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

// columns returns the columns of an item's key, and the column by which the order sorts.
func (o order) columns() string {
	if o.field.Name == "id" {
		return "tenant_id, id"
	}
	return "tenant_id, id, " + o.field.Name
}

// after returns the condition that an item comes after the position. Items whose column is null do not meet it.
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

// cursorTypes are the SQL types of columns by their Go types. An order by a column of another type has no cursors.
var cursorTypes = map[reflect.Type]string{
	reflect.TypeFor[value.Timestamp](): "timestamptz",
	reflect.TypeFor[value.Date]():      "date",
	reflect.TypeFor[int64]():           "int",
	reflect.TypeFor[value.UUID]():      "uuid",
}

// A cursor is the position of an item in an order. It consists of four words, in base64: the field and the direction
// of the order, and the value of the field and the id of the item.

// cursor returns the cursor of a position: the value of next in a page that ends there.
func (o order) cursor(p db.Position) string {
	words := []string{o.field.Name, string(o.direction), p.Value, p.ID}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(words, " ")))
}

// parse returns the position of a cursor, or the problem with it.
func (o order) parse(text string) (*db.Position, string) {
	const problem language.Text = "must be the `next` of a page"
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	words := strings.Split(string(b), " ")
	if err != nil || len(words) != 4 || strings.ContainsAny(text, "\r\n") {
		return nil, language.Sprintf(problem)
	}
	if words[0] != o.field.Name || words[1] != string(o.direction) {
		return nil, language.Sprintf(
			"belongs to another order: repeat the sort_by and sort_order of the page that had it as `next`")
	}
	p := &db.Position{Value: words[2], ID: words[3]}
	id, ok := value.ParseID(p.ID)
	switch o.field.Kind {
	case reflect.TypeFor[value.Timestamp]():
		t, problem := value.ParseTimestamp(p.Value)
		ok = ok && problem == "" && t.Format("2006-01-02T15:04:05.999999Z") == p.Value
	case reflect.TypeFor[value.Date]():
		_, problem := value.ParseDate(p.Value)
		ok = ok && problem == ""
	case reflect.TypeFor[int64]():
		n, err := strconv.ParseInt(p.Value, 10, 32)
		ok = ok && err == nil && strconv.FormatInt(n, 10) == p.Value
	case reflect.TypeFor[value.UUID]():
		ok = ok && p.Value == p.ID
	default:
		ok = false
	}
	if !ok || id != p.ID {
		return nil, language.Sprintf(problem)
	}
	return p, ""
}

// ExampleCursor is the cursor of an item in the OpenAPI document.
var ExampleCursor = order{&Field{Rule: value.Rule{Name: "created_at"}}, "desc"}.cursor(
	db.Position{Value: "2024-01-15T10:00:00Z", ID: "018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a"})

// List builds the statements that read the pages of a list and of an export.
type List struct {
	table, columns, counted string
	where                   []string
	args                    []any
	each                    []choice
	sets                    []string // see Among
	ranges                  []string // the columns of Between other than created_at
	orders                  []string // see Ordered
	filters                 int      // the number of conditions, except those of And, Each, Between, Search and Scan
	scan                    bool     // whether a condition has no index
	countOrdered            bool     // see CountOrdered
	computed                bool     // see Computed
	large                   bool     // see Large
	once                    string   // see Once
}

// choice is the condition that a column has one of several values. Values is a SQL expression of an array.
type choice struct{ column, values string }

// any returns the condition as SQL.
func (c choice) any() string { return c.column + " = any(" + c.values + ")" }

// NewList returns a list of a table's columns. If base is not empty, the list contains only rows that meet the
// condition base. Counted is the kind whose total in the table counters is the number of these rows, or is empty.
func NewList(table, columns, base, counted string) *List {
	l := &List{table: table, columns: columns, counted: counted}
	if base != "" {
		l.where = append(l.where, base)
	}
	return l
}

// Hiding are the parameters of each list of a table with the columns updated_at and hidden_at.
type Hiding struct {
	ID          value.Optional[value.UUID]   `query:"id"`
	UpdatedFrom value.Optional[value.Moment] `query:"updated_from"`
	Hidden      value.Optional[Hidden]       `query:"hidden" rule:"default=false"`
}

// Expand is the parameter of a list whose items can have all their own items.
type Expand string

// ExpandRules describes the parameter expand.
const ExpandRules = "With `expand=items`, `all_items` has all items as in the GET of one; the page then ends at 4 MiB."

// Enum returns all values.
func (Expand) Enum() []string { return []string{"items"} }

// Hidden is the filter of a list for removed items.
type Hidden string

// Enum returns all values: only removed items, only the others, or all.
func (Hidden) Enum() []string { return []string{"true", "false", "any"} }

// Check rejects a list of all items without updated_from, because no index has both removed items and the others.
func (h *Hiding) Check(problems *Problems) {
	if h.Hidden.Or("") == "any" && h.UpdatedFrom.IsNull() {
		problems.Add("hidden", "can be any only with updated_from")
	}
}

// NewHidingList returns a list of a table with the columns updated_at and hidden_at. The list contains the rows in
// which hidden_at is null or, as by.Hidden says, the other rows or all. An index must have the order of updated_at.
func NewHidingList(table, columns, counted string, by Hiding) *List {
	var l *List
	switch by.Hidden.Or("false") {
	case "false":
		l = NewList(table, columns, "hidden_at is null", counted)
	case "true":
		l = NewList(table, columns, "hidden_at is not null", "")
	default:
		l = NewList(table, columns, "", "")
	}
	l.WhereEqual("id", by.ID)
	l.Between("updated_at", by.UpdatedFrom, value.Optional[value.Moment]{})
	return l
}

// Since adds the condition that updated_at is at least a moment, if it is set, for a table without an index on
// updated_at. Changed returns a query of the ids of the rows that may have changed since a moment, a SQL expression.
// If changed is nil, and for a moment more than a day ago, all rows of the tenant are read instead.
func (l *List) Since(from value.Optional[value.Moment], changed func(moment string) string) {
	if from.IsNull() {
		return
	}
	l.counted = ""
	moment := l.bound(from)
	l.And("updated_at >= " + moment)
	if changed == nil || time.Since(from.Value.Time) > 24*time.Hour {
		l.scan = true
	} else {
		l.filters++
		l.sets = append(l.sets, changed(moment))
	}
	l.Ordered("updated_at") // the keys of all rows are read once
}

// And adds a condition without a parameter. It does not change how the list determines the total.
func (l *List) And(condition string) { l.where = append(l.where, condition) }

// Where adds a condition, in which it replaces each ? by the parameter of arg. The total is then counted, and not read
// from counters.
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

// compared is a SQL expression of the form in which texts are compared without regard to case. Columns whose names end
// in _key have this form.
const compared = `lower(?::text collate "und-x-icu") collate "C"`

// WhereText adds the condition that a text equals the filter without regard to case, if the filter is set. The column
// must contain the text in the form compared.
func (l *List) WhereText(column string, filter value.Optional[string]) {
	if !filter.IsNull() {
		l.Where(column+" = "+compared, *filter.Value)
	}
}

// filter is a parameter of a query.
type filter interface {
	IsNull() bool
	Arg() any
	SQLType() string
}

// WhereEqual adds the condition that a column equals the filter, if the filter is set.
func (l *List) WhereEqual(column string, by filter) {
	if !by.IsNull() {
		l.Where(column+" = ?::"+by.SQLType(), by.Arg())
	}
}

// WhereOneOf adds the condition that a column has one of the values of the filter, if the filter is set.
func (l *List) WhereOneOf(column string, filter interface{ Values() []string }) {
	if values := filter.Values(); len(values) == 1 {
		l.Where(column+" = ?", values[0])
	} else if len(values) > 1 {
		l.counted = ""
		l.filters++
		l.And(choice{column, "string_to_array(" + l.arg(strings.Join(values, ",")) + ", ',')"}.any())
	}
}

// WhereEach is WhereOneOf for a column that has an index in which the default order follows the column. The page is
// then found among the first items for each value, without reading the other items.
func (l *List) WhereEach(column string, filter interface{ Values() []string }) {
	values := filter.Values()
	if len(values) < 2 {
		l.WhereOneOf(column, filter)
		return
	}
	l.filters++
	l.Each(column, "string_to_array("+l.arg(strings.Join(values, ","))+", ',')")
}

// Each adds the condition of WhereEach for a column whose values are in an array, a SQL expression. Most rows must
// have one of the values, and the index of the default order must begin with the column.
func (l *List) Each(column, values string) {
	l.counted = ""
	l.each = append(l.each, choice{column, values})
}

// Between adds the conditions that a column is at least from and less than to, if these filters are set. An index must
// have the order of the column for rows in which the column is not null. All indexes of lists contain created_at.
func (l *List) Between(column string, from, to filter) {
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
func (l *List) bound(v filter) string {
	if m, ok := v.(value.Optional[value.Moment]); ok && m.Value.IsDay() {
		return "(select " + l.arg(v.Arg()) + `::text::date::timestamp at time zone t.time_zone from tenants t
			where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)`
	}
	return l.arg(v.Arg()) + "::" + v.SQLType()
}

// Ordered declares that an index has the order of a column for the rows of the list, and that the column is not null
// in these rows.
func (l *List) Ordered(column string) { l.orders = append(l.orders, column) }

// Among adds the condition that the id of a row is among the ids that a query returns, if the filter is set. It
// replaces each ? in the query by the parameter of the filter. The list looks up rows by these ids.
func (l *List) Among(ids string, by filter) {
	if !by.IsNull() {
		l.counted = ""
		l.filters++
		l.sets = append(l.sets, strings.ReplaceAll(ids, "?", l.arg(by.Arg())+"::"+by.SQLType()))
	}
}

// Within adds the condition that the id of a row is among the ids that a query returns. The list looks up rows by
// these ids.
func (l *List) Within(ids string) {
	l.counted = ""
	l.filters++
	l.sets = append(l.sets, ids)
}

// CountOrdered makes the count of the total read the index of the default order. Without CountOrdered, PostgreSQL can
// choose any index that begins with the tenant, because for a small table the costs of all these indexes are about the
// same.
func (l *List) CountOrdered() { l.countOrdered = true }

// Computed declares that the table or the columns are computed from rows of other tables. A page then takes longer,
// and skipped rows are not computed.
func (l *List) Computed() { l.computed = true }

// Large declares that items can be large: a page with a next then ends when its items have 4 MiB, before its limit.
func (l *List) Large() { l.large = true }

// largeBytes is the maximum size of a page of large items, and of the results of several.
const largeBytes = 4 << 20

// Once makes a statement compute the list's table once, as name, for the page, its order and the total together. The
// table must have few rows in total: all of them are kept.
func (l *List) Once(name string) {
	l.once, l.table = "with "+name+" as materialized (select * from "+l.table+") ", name
}

// Searchable returns a SQL expression of the form in which a search compares a text: without regard to case and
// accents. The columns search_key have this form.
func Searchable(text string) string {
	return `regexp_replace(normalize(lower((` + text + `) collate "und-x-icu") collate "C", NFKD), ` +
		`U&'[\0300-\036F]', '', 'g')`
}

// maxWords is the maximum number of words of a search.
const maxWords = 10

// Search adds the condition that each word of the text occurs in the column search_key or in one of the places, if the
// text is set. White space separates words. A single letter or digit must occur as a word of its own, unless it is the
// whole search.
//
// A search uses no index. PostgreSQL does not regard text operators as leakproof, and therefore evaluates the
// condition of row-level security first, so that it would not use a trigram index.
func (l *List) Search(text value.Optional[string], places ...Place) {
	l.search(text, "", places)
}

// SearchNumbered is Search for a table with the column number. A word such as 70 also occurs in the row with the
// number 70, and a word such as #70 occurs only in the row with this number. Query returns the id of the row with the
// number ?.
func (l *List) SearchNumbered(text value.Optional[string], query string, places ...Place) {
	l.search(text, query, places)
}

func (l *List) search(text value.Optional[string], query string, places []Place) {
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
		// If a single letter or digit could be a part of a word, "Shelf A" would find PLA on "Shelf B", and 7 would find
		// every spool of 1.75 mm.
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

// Place is a place outside the search_key of a row where a search also looks: texts in rows of other tables.
type Place struct {
	Column string // the column of the list's table that must be among the results of Rows
	Rows   string // the beginning of a query of the other rows, up to and with its first conditions
	Key    string // the search_key of the other rows, which contains Texts and may contain more
	Texts  string // a SQL expression of the texts in the other rows
}

// condition returns the condition that a word occurs in the texts. The array makes PostgreSQL expect few values and
// hash them, regardless of the size of the tables when it planned the statement.
func (p Place) condition(occurs func(text string) string) string {
	return p.Column + " in (select unnest(array(" + p.Rows + " and " + occurs(p.Key) + " and " +
		occurs(Searchable(p.Texts)) + ")))"
}

// words returns the different words of a search. It removes the parentheses, commas, dots and dashes that pages write
// around and between texts, because people copy them from a page.
func words(search string) (words []string) {
	for _, word := range strings.FieldsFunc(search, value.IsBlank) {
		trimmed := strings.TrimRight(strings.TrimLeft(word, "("), "),")
		trimmed = cmp.Or(trimmed, word)
		if trimmed != "·" && trimmed != "–" && !slices.Contains(words, trimmed) {
			words = append(words, trimmed)
		}
	}
	return words
}

// Scan is Where for a condition without an index. One scan of the tenant's rows that meet the other conditions then
// yields both the page and the total.
func (l *List) Scan(condition string, arg any) {
	l.Where(condition, arg)
	l.filters--
	l.scan = true
}

// deepSkip is the minimum number of skipped rows for which ListPage first finds the keys of the page in an index, and
// then reads the rows with these keys. With an order that has no index, ListPage always finds the keys first: reading
// all columns of all rows would take half as long again.
const deepSkip = 1000

// quickSkip is the minimum number of skipped rows for which a page takes too long to share a round trip with other
// reads.
const quickSkip = 100

// ListPage returns a page of a list of items of type T. It calls run once, with all statements of the page, and once
// more for the total if the page is behind the last item and the keys of all items were not read.
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
	// If few rows match a filter, PostgreSQL would find them late or never in an index with the order of another column.
	p.scans = l.scan || !p.ordered || !inAllIndexes && l.filters > 0
	p.found = l.scan || len(l.sets) > 0 ||
		slices.ContainsFunc(l.ranges, func(column string) bool { return column != by })
	if q.last != nil && !p.ordered {
		return nil, Invalid("after", "cannot be combined with the order by %s without a filter on it", by)
	}
	var before []*db.Stmt
	if p.scans {
		before = []*db.Stmt{db.FreshPlan()}
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
	}
	var total int64
	conditions := len(l.args) // the arguments of the conditions; page adds those of the page
	page := l.page(p).Total(&total).Expect(int(limit)).Head(`{"items":`)
	if p.ordered {
		page.Keep(int(limit), by)
		if l.large {
			page.KeepBytes(largeBytes)
		}
	}
	if l.counted != "" && !p.scans && !l.computed && skip < quickSkip {
		page.Quick()
	}
	if err := run(ctx, append(before, page)...); err != nil {
		return nil, err
	}
	if page.Rows() == 0 && (skip > 0 || q.last != nil) && !p.found { // the page is behind the last item
		if l.counted != "" { // the total of counters needs no condition
			conditions = 0
		}
		count := db.SQL(l.once+l.total(), l.args[:conditions]...).Into(&total)
		if err := run(ctx, append(before, count)...); err != nil {
			return nil, err
		}
	}
	answer := fmt.Appendf(page.Array(), `,"total":%d,"skip":%d,"limit":%d,"next":`, total, skip, limit)
	if next := page.Next(); next != nil {
		return append(append(append(answer, '"'), q.order.cursor(*next)...), `"}`...), nil
	}
	return append(answer, "null}"...), nil
}

// pageOf describes how the statement of a page finds the page.
type pageOf struct {
	q       *ListQuery
	ordered bool // whether an index has the order, so that the page can have a next
	scans   bool // whether PostgreSQL may read all rows of the tenant
	found   bool // whether the keys of all matching rows are read once, because no index has them in the order
}

// page returns the statement that reads a page and the total. A single statement reads both from one snapshot, because
// later statements of a request see the commits of other requests. Each row of the result has the total, which counts
// the items of all pages. An empty page has none, unless the keys of all items were read. If the page can have a next,
// the statement reads one item more than the limit, to find out whether there is a next page.
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
	source, order := "", ""
	switch {
	case p.found:
		source = "found" + whereOf(after)
	case len(l.each) > 0 && by.field.Name == "created_at":
		most := limit
		if skip > 0 {
			most = l.arg(skip + fetch)
		}
		source = l.first(by, after, most)
	default:
		source = l.table + whereOf(append(l.conditions(), after...))
	}
	source += by.clause() + " limit " + limit + window
	if len(l.each) > 0 || p.found || p.scans || skip >= deepSkip || l.computed && skip > 0 {
		source = l.table + " join (select tenant_id, id from " + source + ") page using (tenant_id, id)"
		order = by.clause()
	}
	if p.found {
		return db.SQL("with found as materialized (select "+by.columns()+" from "+l.matching(by.columns())+") "+
			"select counted.total, page.* from (select count(*) as total from found) counted "+
			"left join (select "+l.columns+" from "+source+") page on true"+order, l.args...)
	}
	return db.SQL(l.once+"select ("+l.total()+") as total, "+l.columns+" from "+source+order, l.args...)
}

// Export returns the statements that read a page of an export: the first rows after the position, or the first rows of
// all if after is nil, in the order of their creation. The last statement returns the rows of resource, a query that
// ends with the condition "id = page.id".
func (l *List) Export(ctx context.Context, resource string, limit int, after *db.Position) []*db.Stmt {
	if l.scan || len(l.ranges) > 0 { // PostgreSQL chooses the index of a range or of the order by the numbers of rows
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
		source = l.table + whereOf(append(l.conditions(), position...))
	}
	return []*db.Stmt{db.FreshPlan(), db.SQL(`
		select resource.* from (select created_at, id from `+source+by.clause()+` limit `+most+`) page
		cross join lateral (`+resource+`) resource order by page.created_at, page.id`, l.args...).
		Keep(limit, "created_at")}
}

// conditions returns all conditions, except the conditions of Among.
func (l *List) conditions() []string {
	all := slices.Clone(l.where)
	for _, c := range l.each {
		all = append(all, c.any())
	}
	return all
}

// matching returns the FROM item of the columns of all rows that meet the conditions.
func (l *List) matching(columns string) string {
	if len(l.sets) == 0 {
		return l.table + whereOf(l.conditions())
	}
	// Offset 0 makes PostgreSQL look up each id.
	return "(select id as listed from ((" + strings.Join(l.sets, ") intersect (") + ")) ids group by id) ids" +
		" cross join lateral (select " + columns + " from " + l.table +
		whereOf(append(l.conditions(), "id = listed")) + ") matched"
}

// first returns the FROM item of the keys of the first rows for each combination of the values of l.each: at most
// limit rows for each combination.
func (l *List) first(by order, after []string, limit string) string {
	var values strings.Builder
	where := append(slices.Clone(l.where), after...)
	for i, c := range l.each {
		fmt.Fprintf(&values, "unnest(%s) as each%d (value) cross join ", c.values, i)
		where = append(where, fmt.Sprintf("%s = each%d.value", c.column, i))
	}
	return values.String() + "lateral (select " + by.columns() + " from " + l.table + whereOf(where) + by.clause() +
		" limit " + limit + ") first"
}

// newest is the default order.
var newest = order{&Field{Rule: value.Rule{Name: "created_at"}, NotNull: true,
	Kind: reflect.TypeFor[value.Timestamp]()}, "desc"}

// Lock returns statements that lock at most limit rows that meet the conditions, in the order of the ids. The last
// statement returns the columns of these rows.
func (l *List) Lock(ctx context.Context, columns string, limit int) []*db.Stmt {
	var before []*db.Stmt
	if l.scan {
		before = []*db.Stmt{db.FreshPlan()}
		l.And("tenant_id = " + l.arg(db.ActorOf(ctx).Tenant))
	}
	// For each filter, an index has the default order.
	ids := "select id from " + l.matching("id, created_at") + " order by created_at desc, id desc limit " +
		strconv.Itoa(limit)
	return append(before, LockRows(l.table, columns, ids, strings.Join(l.conditions(), " and "), l.args...))
}

// LockRows returns a statement that locks the rows of a table with the ids that a query returns, in the order of the
// ids. The statement returns the columns of the rows that still meet the condition when they are locked.
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

// total returns a query of the number of items of all pages.
func (l *List) total() string {
	switch where := whereOf(l.conditions()); {
	case l.counted != "":
		return "select coalesce((select total from counters where kind = '" + l.counted + "'), 0)"
	case len(l.each) > 0:
		return "select count(*) from " + l.first(newest, nil, "all")
	case l.countOrdered:
		return "select count(*) from (select from " + l.table + where + " order by created_at offset 0) counted"
	default:
		return "select count(*) from " + l.table + where
	}
}
