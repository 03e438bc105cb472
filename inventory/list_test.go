package inventory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// query returns the path of a list: query("limit", 5) is /api/v1/spools?limit=5.
func query(pairs ...any) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]))
	}
	return spools + "?" + values.Encode()
}

// ids returns the ids of a page's items, in order.
func ids(a *testkit.Response) []string {
	var page struct{ Items []struct{ ID string } }
	json.Unmarshal(a.Body, &page)
	all := []string{}
	for _, item := range page.Items {
		all = append(all, item.ID)
	}
	return all
}

// follow reads all pages of a list with the cursors in its responses, and calls between after each page.
func follow(t *testing.T, c *testkit.Client, path string, limit int, between func()) (all []string) {
	t.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	for after := ""; ; {
		a := c.Get(t, fmt.Sprintf("%s%slimit=%d%s", path, join, limit, after)).Want(200)
		page := ids(a)
		all = append(all, page...)
		if a.Value("next") == nil {
			return all
		}
		if len(page) != limit {
			t.Fatalf("%s: %d items and a next page", a.What, len(page))
		}
		after = "&after=" + a.Text("next")
		between()
	}
}

// Cursors work with every filter, for spools with the same created_at, and while spools come and go.
func TestCursorsWithFilters(t *testing.T) {
	t.Parallel()
	c := operator(t)
	fill(t, c, 400, "material_type, brand, remaining_weight_grams, created_at, archived", `
		(array['PLA', 'PETG'])[1 + i % 2], 'B' || i % 3, i % 4, timestamptz '2024-01-01' + i % 5 * interval '1 us',
		i % 7 = 0`)
	for _, path := range []string{
		spools,
		query("archived", "any"),
		query("archived", "true"),
		query("material_type", "PETG"),
		query("material_type", "PETG", "brand", "b1", "in_stock", "true"),
		query("search", "b2"),
		query("search", "b2", "archived", "any"),
		query("number", "17"),
		query("brand", "none"),
	} {
		want := pages(t, c, path, 100)
		for _, limit := range []int{1, 7, 100} {
			if limit == 1 && len(want) > 100 {
				continue
			}
			if got := follow(t, c, path, limit, func() {}); !slices.Equal(got, want) {
				t.Errorf("%s, limit %d: the pages have %d items in another order than the %d", path, limit, len(got),
					len(want))
			}
		}
	}

	// Between the pages, a spool is created, and one before and one after the cursor are removed.
	want := pages(t, c, spools, 100)
	removed := map[string]bool{}
	n := 0
	got := follow(t, c, spools, 10, func() {
		n++
		c.Post(t, spools, spool(nil)).Want(201)
		for _, i := range []int{10*n - 1, len(want) - 2*n} {
			if id := want[i]; !removed[id] {
				removed[id] = true
				c.Delete(t, spools+"/"+id).Want(204)
			}
		}
	})
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] {
			t.Errorf("%s is on two pages", id)
		}
		seen[id] = true
	}
	for i, id := range want {
		if !seen[id] && !removed[id] {
			t.Errorf("spool %d, %s, is on no page", i, id)
		}
	}
	if len(removed) < 40 || len(got) > len(want) {
		t.Errorf("%d spools were removed, and the pages have %d of %d", len(removed), len(got), len(want))
	}
}

// pages reads all pages of a list, and checks total, skip and limit of each.
func pages(t *testing.T, c *testkit.Client, path string, limit int) []string {
	t.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	all := []string{}
	for {
		a := c.Get(t, fmt.Sprintf("%s%sskip=%d&limit=%d", path, join, len(all), limit)).Want(200)
		page := ids(a)
		total, _ := strconv.Atoi(a.Text("total"))
		a.Shows(map[string]string{"skip": strconv.Itoa(len(all)), "limit": strconv.Itoa(limit)})
		if want := max(0, min(limit, total-len(all))); len(page) != want {
			t.Fatalf("%s: %d items, want %d", a.What, len(page), want)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// fill inserts n spools. Columns and values are SQL, in which i counts from 1.
func fill(t *testing.T, c *testkit.Client, n int, columns, values string) {
	t.Helper()
	err := c.API.DB.Write(db.As(context.Background(), c.Actor), db.SQL(`
		with added as (
			insert into spools (id, number, color, diameter_mm, net_weight_grams, `+columns+`)
			select uuid_v7(), first + i - 1, 'Black', 1.75, 1000, `+values+`
			from next_number('spools', $1) first, generate_series(1, $1) i
			returning archived
		)
		select count_rows('spools', count(*)) from added where not archived`, n))
	testkit.Check(t, err)
}

func TestListShapeAndBounds(t *testing.T) {
	t.Parallel()
	c := operator(t)
	is(t, c.Get(t, spools).Want(200), "", j{"items": []any{}, "total": json.Number("0"), "skip": json.Number("0"),
		"limit": json.Number("20"), "next": nil})
	var newest []string
	for range 25 {
		newest = append([]string{c.Post(t, spools, spool(nil)).Want(201).ID()}, newest...)
	}
	for path, want := range map[string]struct {
		items       []string
		skip, limit string
	}{
		"":                        {newest[:20], "0", "20"},
		"?limit=1":                {newest[:1], "0", "1"},
		"?limit=100":              {newest, "0", "100"},
		"?skip=20":                {newest[20:], "20", "20"},
		"?skip=3&limit=4":         {newest[3:7], "3", "4"},
		"?skip=24&limit=100":      {newest[24:], "24", "100"},
		"?skip=25":                {nil, "25", "20"},
		"?skip=999999999":         {nil, "999999999", "20"},
		"?limit=2&sort_order=asc": {[]string{newest[24], newest[23]}, "0", "2"},
	} {
		a := c.Get(t, spools+path).Want(200).Shows(map[string]string{"total": "25", "skip": want.skip,
			"limit": want.limit})
		testkit.EqualSlices(t, ids(a), want.items, "%s", a.What)
	}
	for _, field := range []string{"", "nonsense", "ID", "tenant_id", "brand_key", "in_stock",
		"color desc", "id;drop table spools", "1", "items"} {
		invalid := c.Get(t, query("sort_by", field)).Fields("sort_by")
		for _, allowed := range []string{"id", "material_type", "brand", "color", "color_hex", "finish", "diameter_mm",
			"net_weight_grams", "remaining_weight_grams", "spool_weight_grams", "purchase_price", "cost_per_gram",
			"supplier", "purchase_date", "notes", "created_at", "updated_at"} {
			if !strings.Contains(invalid.Text("errors.0.message"), allowed) {
				t.Errorf("%s: the message does not contain %s: %s", invalid.What, allowed, invalid.Body)
			}
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	for i, s := range []j{
		{"brand": "Polymaker", "color": "Türkis"},
		{"brand": "POLYMAKER", "color": "TÜRKIS", "material_type": "PETG"},
		{"brand": "Poly", "color": "türkis", "remaining_weight_grams": 0},
		{"brand": "Poly%", "color": "100% Grün_"},
		{"brand": "Pol_maker", "color": "100x Grünx"},
		{"brand": nil, "color": "Türkis-", "material_type": "PETG", "remaining_weight_grams": 0},
		{"brand": "", "color": "Turkis", "remaining_weight_grams": 0.000001},
		{"brand": "Ελλάδα & Söhne", "color": "Ж\\б"},
		{"brand": "Straße", "color": "İğ"},
	} {
		c.Post(t, spools, spool(j{"notes": strconv.Itoa(i)})).Want(201) // matches no filter: Black, without brand
		s["notes"] = strconv.Itoa(i)
		c.Post(t, spools, spool(s)).Want(201)
		other.Post(t, spools, spool(s)).Want(201)
		c.Delete(t, spools+"/"+c.Post(t, spools, spool(s)).Want(201).ID()).Want(204)
	}
	for _, test := range []struct {
		filter []any
		want   string // notes of the matching spools that are not black
	}{
		{[]any{"brand", "polymaker"}, "0 1"},
		{[]any{"brand", "pOLYMAKER"}, "0 1"},
		{[]any{"brand", "Poly"}, "2"},
		{[]any{"brand", "Poly%"}, "3"},
		{[]any{"brand", "%"}, ""},
		{[]any{"brand", "Pol_maker"}, "4"},
		{[]any{"brand", "poly aker"}, ""},
		{[]any{"brand", ""}, "6"},
		{[]any{"brand", "null"}, ""},
		{[]any{"brand", "ΕΛΛΆΔΑ & SÖHNE"}, "7"},
		{[]any{"brand", "STRAßE"}, "8"},
		{[]any{"brand", "polymaker' or '1'='1"}, ""},
		{[]any{"color", "TÜRKIS"}, "0 1 2"},
		{[]any{"color", "türkis"}, "0 1 2"},
		{[]any{"color", "Türkis-"}, "5"},
		{[]any{"color", " Türkis\t"}, "0 1 2"},
		{[]any{"color", "turkis"}, "6"},
		{[]any{"color", "rki"}, ""},
		{[]any{"color", "%"}, ""},
		{[]any{"color", "_______"}, ""},
		{[]any{"color", "100% GRÜN_"}, "3"},
		{[]any{"color", "ж\\Б"}, "7"},
		{[]any{"color", "İĞ"}, "8"},
		{[]any{"in_stock", true, "color", "Türkis"}, "0 1"},
		{[]any{"in_stock", false}, "2 5"},
		{[]any{"in_stock", false, "color", "Türkis"}, "2"},
		{[]any{"in_stock", true, "color", "Turkis"}, "6"},
		{[]any{"material_type", "PETG"}, "1 5"},
		{[]any{"material_type", "PETG", "in_stock", true}, "1"},
		{[]any{"material_type", "PETG", "in_stock", false}, "5"},
		{[]any{"material_type", "PLA", "color", "türkis"}, "0 2"},
		{[]any{"material_type", "PLA", "color", "türkis", "brand", "poly", "in_stock", false}, "2"},
		{[]any{"material_type", "PLA", "color", "türkis", "brand", "poly", "in_stock", true}, ""},
		{[]any{"material_type", "Custom"}, ""},
	} {
		a := c.Get(t, query(append(test.filter, "limit", 100)...)).Want(200)
		notes := []string{}
		for _, item := range a.List("items") {
			notes = append(notes, item.(map[string]any)["notes"].(string))
		}
		slices.Reverse(notes)
		testkit.Equal(t, strings.Join(notes, " "), test.want, "%v", test.filter)
		if total := a.Text("total"); total != strconv.Itoa(len(notes)) {
			t.Errorf("%v: total %s of %d", test.filter, total, len(notes))
		}
	}
	c.Get(t, query("in_stock", true)).Want(200).Shows(map[string]string{"total": "16"})
	c.Get(t, query("color", "BLACK")).Want(200).Shows(map[string]string{"total": "9"})
}

// Each field sorts in both directions, with nulls last and ties ordered by id. The pages contain each spool once, in
// that order.
func TestSortByEveryField(t *testing.T) {
	t.Parallel()
	c := operator(t)
	fill(t, c, 61, `
		material_type, brand, color_hex, finish, remaining_weight_grams, spool_weight_grams, purchase_price, supplier,
		purchase_date, notes, location, lot_number, density_g_cm3, archived, first_used_at, last_used_at, created_at,
		updated_at`, `
		case i % 4 when 0 then 'TPU' when 1 then 'ABS' else 'PLA' end,
		case i % 5 when 0 then null when 1 then '' when 2 then 'a' when 3 then 'B' else 'é' end,
		case when i % 3 > 0 then '#00000' || i % 6 end, case when i % 2 = 0 then 'Silk' end, (i % 7) * 100.5,
		case when i % 4 > 1 then i % 10 + 0.25 end, case when i % 3 > 0 then (i % 12) * 9.5 end,
		case when i > 59 then 's' || i end,
		case when i % 3 > 0 then date '2024-01-31' - i % 40 end, case when i % 2 = 0 then 'n' || i end,
		case when i % 5 > 0 then 'L' || i % 6 end, case when i % 7 > 0 then i % 9 || '' end,
		case when i % 3 > 0 then 1 + i % 8 * 0.01 end, i % 4 = 0,
		case when i % 6 > 0 then timestamptz '2024-02-01' + i % 5 * interval '1 second' end,
		case when i % 6 > 0 then timestamptz '2024-03-01' + i % 5 * interval '1 second' end,
		timestamptz '2024-01-01' + i % 25 * interval '1 microsecond', timestamptz '2024-01-01' + i % 3 * interval '1 hour'`)
	var all []j
	for _, item := range c.Get(t, query("limit", 100, "sort_by", "id", "archived", "any")).Want(200).List("items") {
		all = append(all, item.(map[string]any))
	}
	for _, field := range server.SchemaOf[inventory.Spool]().Sortable() {
		for _, order := range []string{"asc", "desc"} {
			t.Run(field+" "+order, func(t *testing.T) {
				want := sortedIDs(all, field, order)
				path := query("sort_by", field, "sort_order", order, "archived", "any")
				if got := pages(t, c, path, 100); !slices.Equal(got, want) {
					t.Errorf("%v\nwant\n%v", got, want)
				}
				testkit.EqualSlices(t, pages(t, c, path, 17), want, "in pages of 17")
			})
		}
	}
	got := pages(t, c, query("archived", "any"), 7)
	want := pages(t, c, query("sort_by", "created_at", "sort_order", "desc", "archived", "any"), 50)
	if !slices.Equal(got, want) {
		t.Errorf("the default order is %v, want newest first: %v", got, want)
	}
}

// The list of a spool's usage has every order with every filter, and cursors in the orders that an index has.
func TestSortUsageByEveryField(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(j{})).Want(201).ID()
	for i := range 12 {
		c.Post(t, path+"/deduct", j{"weight_grams": 1 + i%4, "reason": fmt.Sprint(i % 3)}).Want(200)
		c.Patch(t, path, j{"remaining_weight_grams": 900 - i*i%7}).Want(200)
	}
	usage := path + "/usage"
	for _, filter := range []string{"", "&kind=deducted", "&kind=edited,created&created_from=2024-01-01T00:00:00Z"} {
		var all []j
		for _, item := range c.Get(t, usage+"?limit=100"+filter).Want(200).List("items") {
			all = append(all, item.(map[string]any))
		}
		for _, field := range server.SchemaOf[inventory.Usage]().Sortable() {
			for _, order := range []string{"asc", "desc"} {
				sorted := usage + "?sort_by=" + field + "&sort_order=" + order + filter
				testkit.EqualSlices(t, pages(t, c, sorted, 5), sortedIDs(all, field, order), "%s", sorted)
			}
		}
		testkit.EqualSlices(t, follow(t, c, usage+"?sort_order=asc"+filter, 5, func() {}),
			sortedIDs(all, "created_at", "asc"), "cursors%s", filter)
	}
}

// sortedIDs returns the ids of the items in the order of a list.
func sortedIDs(items []j, field, order string) []string {
	var all []string
	for _, item := range slices.SortedFunc(slices.Values(items), sortedBy(field, order)) {
		all = append(all, item["id"].(string))
	}
	return all
}

// sortedBy compares spools as the list does: numbers and times by value, others by text; nulls last; ties by id.
func sortedBy(field, order string) func(a, b j) int {
	return func(a, b j) int {
		by := compare(a[field], b[field])
		if by == 0 {
			by = strings.Compare(a["id"].(string), b["id"].(string))
		} else if a[field] == nil || b[field] == nil {
			return by
		}
		if order == "desc" {
			return -by
		}
		return by
	}
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return r
}

func compare(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	if x, ok := a.(bool); ok {
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(b))
	}
	if n, ok := a.(json.Number); ok {
		return rat(n.String()).Cmp(rat(b.(json.Number).String()))
	}
	// The texts would order a whole second after its fractions.
	if before, err := time.Parse(time.RFC3339, a.(string)); err == nil {
		if after, err := time.Parse(time.RFC3339, b.(string)); err == nil {
			return before.Compare(after)
		}
	}
	return strings.Compare(a.(string), b.(string))
}

// Pages beyond deepSkip use another statement and must have the same items in the same order, also if PostgreSQL joins
// with a hash table, which does not keep the order of the page.
func TestDeepPages(t *testing.T) {
	t.Parallel()
	c := operator(t)
	d, err := db.Open(t.Context(), db.Config{
		URL: testkit.Private().AppURL() + "&enable_nestloop=off&enable_mergejoin=off", MaxConns: 2,
	})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	hashJoin := *c
	hashJoin.API = testkit.New(t, testkit.Options{DB: d}, inventory.Routes)
	fill(t, c, 1130, `material_type, remaining_weight_grams, purchase_price, created_at`,
		`'PLA', case when i > 1110 then 0 else i % 9 end, case when i % 3 > 0 then i % 5 end,
		timestamptz '2024-01-01' + i % 700 * interval '1 second'`)
	for _, path := range []string{
		spools,
		query("sort_order", "asc"),
		query("sort_by", "id"),
		query("sort_by", "purchase_price"),
		query("sort_by", "purchase_price", "sort_order", "asc"),
		query("sort_by", "diameter_mm"),
		query("material_type", "PLA", "color", "black"),
		query("material_type", "PLA", "sort_by", "remaining_weight_grams"),
	} {
		join := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		shallow := c.Get(t, path+join+"limit=100&skip=999").Want(200)
		want := shallow.List("items")[1:]
		for _, c := range []*testkit.Client{c, &hashJoin} {
			deep := c.Get(t, path+join+"limit=99&skip=1000").Want(200)
			if got := deep.List("items"); len(got) != 99 || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the page is\n%v, want\n%v", path, got, want)
			}
			deep.Shows(map[string]string{"total": "1130", "skip": "1000", "limit": "99"})
		}
		c.Get(t, path+join+"skip=1125").Want(200).Shows(map[string]string{"items.4.color": "Black", "total": "1130"})
		is(t, c.Get(t, path+join+"skip=1130").Want(200), "", j{"items": []any{}, "total": json.Number("1130"),
			"skip": json.Number("1130"), "limit": json.Number("20"), "next": nil})
	}
	empty := strconv.Itoa(1130/9 - 1110/9 + 20 + 1110/9 - 2)
	c.Get(t, query("in_stock", false, "skip", 1000)).Want(200).Shows(map[string]string{"total": empty})
}

// The items and the total of a response come from one snapshot, also while other requests create and remove spools.
func TestListIsOneSnapshot(t *testing.T) {
	t.Parallel()
	c := operator(t)
	done := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c.Delete(t, spools+"/"+c.Post(t, spools, spool(nil)).ID())
			}
		})
	}
	var readers sync.WaitGroup
	for _, path := range []string{query("limit", 100), query("limit", 100, "color", "Black"),
		query("limit", 100, "sort_by", "brand")} {
		readers.Go(func() {
			for range testkit.InCI(testkit.InRigs(50, 150), 500) {
				if a := c.Get(t, path).Want(200); a.Text("total") != strconv.Itoa(len(a.List("items"))) {
					t.Errorf("%s: %d items, total %s", path, len(a.List("items")), a.Text("total"))
				}
			}
		})
	}
	readers.Wait()
	close(done)
	writers.Wait()
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Lists leave archived spools out unless the request asks for them, and the total is that of the list.
func TestArchivedSpools(t *testing.T) {
	t.Parallel()
	c := operator(t)
	a := c.Post(t, spools, spool(nil)).Want(201).ID()
	b := c.Post(t, spools, spool(j{"archived": true})).Want(201).ID()
	d := c.Post(t, spools, spool(nil)).Want(201).ID()
	wantLists := func(current, archived, all []string) {
		t.Helper()
		for archivedIs, want := range map[any][]string{nil: current, "false": current, "true": archived, "any": all} {
			for _, more := range [][]any{nil, {"material_type", "PLA"}, {"color", "black"}, {"in_stock", true}} {
				params := append([]any{"sort_order", "asc"}, more...)
				if archivedIs != nil {
					params = append(params, "archived", archivedIs)
				}
				page := c.Get(t, query(params...)).Want(200)
				if got := ids(page); !slices.Equal(got, want) || page.Text("total") != fmt.Sprint(len(want)) {
					t.Errorf("archived=%v with %v: %v, total %s; want %v", archivedIs, more, got, page.Text("total"),
						want)
				}
			}
		}
	}
	wantLists([]string{a, d}, []string{b}, []string{a, b, d})
	c.Patch(t, spools+"/"+a, j{"archived": true}).Want(200).Shows(map[string]string{"archived": "true"})
	wantLists([]string{d}, []string{a, b}, []string{a, b, d})
	c.Patch(t, spools+"/"+a, j{"archived": true}).Want(200)
	c.Patch(t, spools+"/"+b, j{"archived": false}).Want(200).Shows(map[string]string{"archived": "false"})
	wantLists([]string{b, d}, []string{a}, []string{a, b, d})
	c.Patch(t, spools+"/"+a, j{"archived": nil}).WantError(422, "VALIDATION_ERROR")

	// Removed spools are listed whether they are archived or not, unless the request asks for one of them.
	c.Get(t, spools+"/"+a).Want(200)
	c.Delete(t, spools+"/"+a).Want(204)
	c.Delete(t, spools+"/"+d).Want(204)
	wantLists([]string{b}, []string{}, []string{b})
	for params, want := range map[string][]string{"": {a, d}, "&archived=true": {a}, "&archived=false": {d},
		"&archived=any": {a, d}} {
		page := c.Get(t, spools+"?sort_order=asc&hidden=true"+params).Want(200)
		if got := ids(page); !slices.Equal(got, want) || page.Text("total") != fmt.Sprint(len(want)) {
			t.Errorf("hidden=true%s: %v, total %s; want %v", params, got, page.Text("total"), want)
		}
	}
	c.Post(t, spools+"/"+a+"/restore", nil).Want(200).Shows(map[string]string{"archived": "true"})
	wantLists([]string{b}, []string{a}, []string{a, b})
	c.Post(t, spools+"/"+d+"/restore", nil).Want(200)
	c.Patch(t, spools+"/"+a, j{"archived": false}).Want(200)
	wantLists([]string{a, b, d}, []string{}, []string{a, b, d})
	c.Get(t, spools+"?archived=maybe").WantError(422, "VALIDATION_ERROR")
}

// A search finds spools by a part of their texts, together with the other filters.
func TestSearch(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, other := api.Operator(t), api.Operator(t)
	for i, s := range []j{
		{"color": "Türkis", "brand": "Polymaker", "notes": "first"},
		{"color": "Black", "brand": "Prusament", "supplier": "3DJake", "material_type": "PETG", "notes": "50% off_"},
		{"color": "Jet black", "brand": nil, "notes": "Dry before use", "remaining_weight_grams": 0},
	} {
		s["location"] = strconv.Itoa(i)
		c.Post(t, spools, spool(s)).Want(201)
		other.Post(t, spools, spool(s)).Want(201)
	}
	c.Delete(t, spools+"/"+c.Post(t, spools, spool(j{"notes": "dry"})).Want(201).ID()).Want(204)
	for _, test := range []struct {
		filter []any
		want   string
	}{
		{[]any{"search", "TÜRK"}, "0"}, {[]any{"search", "  black "}, "1 2"}, {[]any{"search", "petg"}, "1"},
		{[]any{"search", "djake"}, "1"}, {[]any{"search", "dry BEFORE"}, "2"}, {[]any{"search", "%"}, "1"},
		{[]any{"search", "_"}, "1"}, {[]any{"search", "polymakertürkis"}, ""}, {[]any{"search", ""}, "0 1 2"},
		{[]any{"search", "black", "in_stock", true}, "1"}, {[]any{"search", "black", "color", "black"}, "1"},
		{[]any{"search", "p", "sort_by", "color", "limit", 1}, "1"}, {[]any{"search", "nothing"}, ""},
	} {
		a := c.Get(t, query(append([]any{"sort_order", "asc"}, test.filter...)...)).Want(200)
		var found []string
		for _, item := range a.List("items") {
			found = append(found, item.(map[string]any)["location"].(string))
		}
		testkit.Equal(t, strings.Join(found, " "), test.want, "%v", test.filter)
	}
	c.Get(t, query("search", strings.Repeat("x", 101))).Fields("search")
	c.Get(t, query("search", "dry", "hidden", true)).Want(200).Shows(map[string]string{"total": "1"})
}
