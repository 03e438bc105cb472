package db_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// execModes are the ways in which pgx runs a statement. The results of the first three are binary, those of the
// others text. A connection pooler may need any of them.
var execModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// inEachMode runs the test once for each mode.
func inEachMode(t *testing.T, url string, test func(t *testing.T, d *db.DB)) {
	for _, mode := range execModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, db.Config{URL: url + "&default_query_exec_mode=" + mode, MaxConns: 2}))
		})
	}
}

// decode decodes JSON with encoding/json. Numbers keep their text.
func decode[T any](t *testing.T, text []byte) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if d.More() {
		t.Fatalf("data after the first value: %s", text)
	}
	return v
}

func TestEncodeTypes(t *testing.T) {
	t.Parallel()
	inEachMode(t, testkit.Private().AppURL(), func(t *testing.T, d *db.DB) {
		for sql, want := range map[string]string{
			`null::text`:                   `null`,
			`null::numeric`:                `null`,
			`null::timestamptz`:            `null`,
			`null::uuid`:                   `null`,
			`null::jsonb`:                  `null`,
			`''::text`:                     `""`,
			`'PLA'::text`:                  `"PLA"`,
			`'PLA'`:                        `"PLA"`,
			`'PLA'::varchar(9)`:            `"PLA"`,
			`true`:                         `true`,
			`false`:                        `false`,
			`0::smallint`:                  `0`,
			`(-32768)::smallint`:           `-32768`,
			`2147483647`:                   `2147483647`,
			`(-2147483648)::int`:           `-2147483648`,
			`9223372036854775807`:          `9223372036854775807`,
			`(-9223372036854775808)::int8`: `-9223372036854775808`,
			`'0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41'::uuid`:  `"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"`,
			`'00000000-0000-0000-0000-000000000000'::uuid`:  `"00000000-0000-0000-0000-000000000000"`,
			`'2024-02-29'::date`:                            `"2024-02-29"`,
			`'1999-12-31'::date`:                            `"1999-12-31"`,
			`'0001-01-01'::date`:                            `"0001-01-01"`,
			`'9999-12-31'::date`:                            `"9999-12-31"`,
			`'{"a": [1, null, "x"]}'::json`:                 `{"a":[1,null,"x"]}`,
			`'{"b": 1.50}'::jsonb`:                          `{"b":1.50}`,
			`'null'::jsonb`:                                 `null`,
			`json_build_array(json_build_object('a', 1.5))`: `[{"a":1.5}]`,

			`0::numeric`:                    `0`,
			`0.000000::numeric(15,6)`:       `0`,
			`(-0.0)::numeric`:               `0`,
			`1::numeric(15,6)`:              `1`,
			`10::numeric`:                   `10`,
			`100000000::numeric(15,6)`:      `100000000`,
			`1e30::numeric`:                 `1` + strings.Repeat("0", 30),
			`999999999.999999::numeric`:     `999999999.999999`,
			`(-999999999.999999)::numeric`:  `-999999999.999999`,
			`0.000001::numeric(15,6)`:       `0.000001`,
			`(-0.000001)::numeric(15,6)`:    `-0.000001`,
			`0.0001::numeric`:               `0.0001`,
			`0.00001::numeric`:              `0.00001`,
			`1.10::numeric(15,6)`:           `1.1`,
			`1234.5::numeric(15,6)`:         `1234.5`,
			`12345.000100::numeric(15,6)`:   `12345.0001`,
			`10000.0001::numeric`:           `10000.0001`,
			`0.02499::numeric(15,6)`:        `0.02499`,
			`99990000.00009999::numeric`:    `99990000.00009999`,
			`1e-40::numeric`:                `0.` + strings.Repeat("0", 39) + `1`,
			`20000.00000000000000::numeric`: `20000`,

			`'2024-01-15T10:00:00Z'::timestamptz`:        `"2024-01-15T10:00:00Z"`,
			`'2024-01-15T10:00:00+05:30'::timestamptz`:   `"2024-01-15T04:30:00Z"`,
			`'2024-01-15T10:00:00.5Z'::timestamptz`:      `"2024-01-15T10:00:00.5Z"`,
			`'2024-01-15T10:00:00.000001Z'::timestamptz`: `"2024-01-15T10:00:00.000001Z"`,
			`'2024-01-15T10:00:00.999999Z'::timestamptz`: `"2024-01-15T10:00:00.999999Z"`,
			`'2000-01-01T00:00:00Z'::timestamptz`:        `"2000-01-01T00:00:00Z"`,
			`'1999-12-31T23:59:59.999999Z'::timestamptz`: `"1999-12-31T23:59:59.999999Z"`,
			`'1970-01-01T00:00:00Z'::timestamptz`:        `"1970-01-01T00:00:00Z"`,
			`'1969-12-31T23:59:59.25Z'::timestamptz`:     `"1969-12-31T23:59:59.25Z"`,
			`'1850-06-01T12:00:00Z'::timestamptz`:        `"1850-06-01T12:00:00Z"`,
			`'0001-01-01T00:00:00Z'::timestamptz`:        `"0001-01-01T00:00:00Z"`,
			`'9999-12-31T23:59:59.999999Z'::timestamptz`: `"9999-12-31T23:59:59.999999Z"`,
			`'2024-03-31T01:30:00Z'::timestamptz`:        `"2024-03-31T01:30:00Z"`,
		} {
			v := db.SQL(`select ` + sql + ` as v`)
			read(t, d, newBinding(t), v)
			testkit.Equal(t, string(v.Object()), `{"v":`+want+`}`, "%s", sql)
		}
		for _, sql := range []string{
			`'NaN'::numeric`, `'Infinity'::numeric`, `'-Infinity'::numeric`, `'infinity'::timestamptz`,
			`'-infinity'::timestamptz`, `'infinity'::date`, `'-infinity'::date`,
			`'\x00'::bytea`, `1::float8`, `array[1]`, `interval '1 day'`,
		} {
			if err := d.Read(newBinding(t), db.SQL(`select `+sql+` as v`)); err == nil ||
				!strings.Contains(err.Error(), "column v") {
				t.Errorf("%s has no JSON encoding, but the error is %v", sql, err)
			}
		}
	})
}

// The server's settings for dates must not affect the results. They would affect text results.
func TestEncodeIgnoresServerSettings(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	super := connect(t, u.super)
	exec(t, super, `do $$ begin
		execute format('alter database %I set timezone = ''Europe/Amsterdam''', current_database());
		execute format('alter database %I set datestyle = ''SQL, DMY''', current_database());
	end $$`)
	inEachMode(t, u.app, func(t *testing.T, d *db.DB) {
		v := db.SQL(`
			select '2024-07-15T10:00:00Z'::timestamptz as summer, '1850-06-01T12:00:00.5Z'::timestamptz as early,
				'2024-02-03'::date as day`)
		read(t, d, newBinding(t), v)
		const want = `{"summer":"2024-07-15T10:00:00Z","early":"1850-06-01T12:00:00.5Z","day":"2024-02-03"}`
		if string(v.Object()) != want {
			t.Errorf("%s, want %s", v.Object(), want)
		}
	})
}

func TestEncodeNumbers(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var texts []string
	for range 1000 {
		var b strings.Builder
		if random.IntN(2) == 0 {
			b.WriteByte('-')
		}
		digit := func(n int) {
			for range n {
				b.WriteByte("0000123456789999"[random.IntN(16)])
			}
		}
		digit(1 + random.IntN(20))
		if n := random.IntN(20); n > 0 {
			b.WriteByte('.')
			digit(n)
		}
		texts = append(texts, b.String())
	}
	inEachMode(t, testkit.Private().AppURL(), func(t *testing.T, d *db.DB) {
		numbers := db.SQL(`
			select n::numeric as number, n::numeric::text as text
			from unnest($1::text[]) with ordinality o (n, i) order by i`, texts)
		read(t, d, newBinding(t), numbers)
		rows := decode[[]struct {
			Number json.Number
			Text   string
		}](t, numbers.Array())
		if len(rows) != len(texts) || numbers.Rows() != len(texts) {
			t.Fatalf("%d rows, want %d", len(rows), len(texts))
		}
		for i, row := range rows {
			want, _ := new(big.Rat).SetString(texts[i])
			got, ok := new(big.Rat).SetString(row.Number.String())
			if !ok || got.Cmp(want) != 0 {
				t.Errorf("%s (%s for PostgreSQL) is encoded as %s", texts[i], row.Text, row.Number)
			}
			text := row.Number.String()
			if strings.ContainsAny(text, "eE+") || strings.Contains(text, ".") && strings.HasSuffix(text, "0") ||
				strings.HasSuffix(text, ".") || text == "-0" {
				t.Errorf("%s is encoded as %s, which is not the shortest form", texts[i], text)
			}
		}
	})
}

func TestEncodeTimestamps(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).
		Unix(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix()
	var times []time.Time
	for range 1000 {
		us := random.Int64N(1_000_000)
		for i, cut := random.IntN(7), int64(10); i > 0; i, cut = i-1, cut*10 {
			us -= us % cut // fractions of all lengths
		}
		times = append(times, time.Unix(first+random.Int64N(last-first), us*1000).UTC())
	}
	inEachMode(t, testkit.Private().AppURL(), func(t *testing.T, d *db.DB) {
		stamps := db.SQL(
			`select s as stamp, s::date as day from unnest($1::timestamptz[]) with ordinality o (s, i) order by i`,
			times)
		read(t, d, newBinding(t), stamps)
		rows := decode[[]struct{ Stamp, Day string }](t, stamps.Array())
		for i, row := range rows {
			// encoding/json encodes a time as RFC 3339 without trailing zeros.
			want, _ := times[i].MarshalJSON()
			if `"`+row.Stamp+`"` != string(want) || row.Day != times[i].Format(time.DateOnly) {
				t.Errorf("%v is encoded as %s and %s", times[i], row.Stamp, row.Day)
			}
		}
		testkit.Equal(t, len(rows), len(times), "rows")
	})
}

var nastyTexts = []string{
	"", " ", "\"", "\\", "\\\"", "'", "''", "$1", "?", "%s", "\n\r\t\b\f\v", "\x01\x1f\x7f", "\u0080\u009f",
	"\u2028\u2029", "\ufeff", "\ufffd", "\uffff",
	"é", "漢字", "🖨️🧵", "\U0010ffff", "e\u0301", "\u202eRTL", "</script>", "&<>", "a\\u0000b", `{"a":1}`, "null",
	strings.Repeat("ä🧵\n", 3000),
}

// Nested JSON has no white space between its tokens, like the rest of a response.
func TestEncodeNestedJSON(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	row := db.SQL(`
		select json_build_object('a b', 1.50, 'list', json_build_array(1, null, true, E' x : y ,\n"\\')) as built,
			(select json_agg(x) from (values (1, 'a'), (2, null)) x (n, t)) as agg,
			E'{"b" : [ ] , "a":\t{ } }'::json as text, '{"b": 1, "a": [1, 2]}'::jsonb as binary, null::json as none`)
	read(t, d, newTenant(t, d), row)
	const want = `{"built":{"a b":1.50,"list":[1,null,true," x : y ,\n\"\\"]},"agg":[{"n":1,"t":"a"},{"n":2,"t":null}],` +
		`"text":{"b":[],"a":{}},"binary":{"a":[1,2],"b":1},"none":null}`
	testkit.Equal(t, string(row.Object()), want, "the row")
}

// Sparse rows lack what is null, and have nested objects.
func TestEncodeSparse(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	row := db.SQL(`select 1 as id, null::text as none, true as "a.b", null::text as "a.c", 2 as "a.d.e", 3 as "a.d.f",
		'x' as "a.g", 4 as "h.i.j", 5 as k`).Sparse()
	read(t, d, newTenant(t, d), row)
	const want = `{"id":1,"a":{"b":true,"d":{"e":2,"f":3},"g":"x"},"h":{"i":{"j":4}},"k":5}`
	testkit.Equal(t, string(row.Object()), want, "the row")
}

func TestEncodeStrings(t *testing.T) {
	t.Parallel()
	// All characters except NUL and surrogates, which PostgreSQL rejects.
	texts := append([]string(nil), nastyTexts...)
	var b strings.Builder
	for r := rune(1); r <= utf8.MaxRune; r++ {
		if r < 0x3000 || r%251 == 0 {
			if utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
	}
	texts = append(texts, b.String())
	inEachMode(t, testkit.Private().AppURL(), func(t *testing.T, d *db.DB) {
		for _, text := range texts {
			v := db.SQL(`select $1::text as v, $1::text collate "C" as "again"`, text)
			read(t, d, newBinding(t), v)
			got := decode[map[string]string](t, v.Object())
			if got["v"] != text || got["again"] != text {
				t.Errorf("%.40q is encoded as %.80s", text, v.Object())
			}
		}
	})
}

// The methods of a statement return the same result for no row, one row and several, and after a second run.
func TestStatementResults(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newBinding(t)
	rows := func(n int) *db.Stmt {
		return db.SQL(`select i as "row", i * 1.5 as half from generate_series(1, $1::int) i`, n)
	}
	none, one, three, scanned := rows(0), rows(1), rows(3), rows(3)
	var i int
	var half string
	scanned.Into(&i, &half)
	missing := rows(0)
	missing.Into(&i, &half)
	read(t, d, ctx, none, one, three, scanned, missing)
	for _, c := range []struct {
		stmt  *db.Stmt
		rows  int
		array string
	}{
		{none, 0, `[]`},
		{one, 1, `[{"row":1,"half":1.5}]`},
		{three, 3, `[{"row":1,"half":1.5},{"row":2,"half":3},{"row":3,"half":4.5}]`},
	} {
		if c.stmt.Rows() != c.rows || string(c.stmt.Array()) != c.array {
			t.Errorf("%d rows: %s, want %d: %s", c.stmt.Rows(), c.stmt.Array(), c.rows, c.array)
		}
		if c.rows > 0 && string(c.stmt.Object()) != `{"row":1,"half":1.5}` {
			t.Errorf("the first of %d rows is %s", c.rows, c.stmt.Object())
		}
	}
	if scanned.Rows() != 3 || i != 1 || half != "1.5" || missing.Rows() != 0 {
		t.Errorf("scanned %d rows: %d, %s; and %d rows", scanned.Rows(), i, half, missing.Rows())
	}
	read(t, d, ctx, three, one)
	testkit.Equal(t, string(three.Array()), `[{"row":1,"half":1.5},{"row":2,"half":3},{"row":3,"half":4.5}]`,
		"after the second run")
	if err := d.Read(ctx, rows(1).Into(&i)); err == nil {
		t.Error("two columns were scanned into one variable")
	}
	testkit.Equal(t, fmt.Sprint(single[[]string](t, d, ctx, `select array['a', 'b']`)), "[a b]",
		"an array was not scanned")
}
