package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"spoolwright/tests/testkit"
)

const (
	someID    = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	thingPath = "/api/v1/things/" + someID
)

// nest returns a body with the nesting depth, which counts the outermost object.
func nest(depth int) string {
	return `{"name":"x","weight":1,"deep":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
}

func TestBodiesAreDecoded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const base = `"name":"x","weight":1`
	bad := func(code string) func(method, name, body string) {
		return func(method, name, body string) {
			t.Helper()
			path := "/api/v1/things"
			if method == "PATCH" {
				path = thingPath
			}
			r := send(t, s, method, path, body)
			testkit.Equal(t, r.StatusCode, 400, "%s: %.200s", name, text(t, r))
			wantError(t, r, 400, code)
		}
	}
	malformed := bad("MALFORMED_JSON")
	for name, body := range map[string]string{
		"space":                          " ",
		"cut off":                        `{` + base,
		"trailing comma":                 `{` + base + `,}`,
		"trailing data":                  `{` + base + `} {}`,
		"trailing bracket":               `{` + base + `}}`,
		"trailing NUL":                   `{` + base + "}\x00",
		"two objects":                    `{` + base + "}\n{" + base + `}`,
		"a comment":                      `{` + base + `} // x`,
		"single quotes":                  `{'name':'x'}`,
		"no quotes":                      `{name:"x"}`,
		"a byte order mark":              "\xef\xbb\xbf{" + base + `}`,
		"a leading zero":                 `{"name":"x","weight":01}`,
		"a plus":                         `{"name":"x","weight":+1}`,
		"NaN":                            `{"name":"x","weight":NaN}`,
		"a line break in a string":       "{\"name\":\"x\ny\",\"weight\":1}",
		"a bad escape":                   `{"name":"\x","weight":1}`,
		"half a character":               "{\"name\":\"\xc3\",\"weight\":1}",
		"a surrogate in UTF-8":           "{\"name\":\"\xed\xa0\x80\",\"weight\":1}",
		"not UTF-8 in a key":             "{" + base + ",\"\xff\":1}",
		"UTF-16":                         "{\x00\"\x00}\x00",
		"a key twice":                    `{` + base + `,"name":"y"}`,
		"a key twice, by an escape":      `{` + base + `,"n\u0061me":"y"}`,
		"a key twice, both by escapes":   `{"weight":1,"\u006eame":"x","n\u0061me":"y"}`,
		"an unknown key twice":           `{` + base + `,"z":1,"z":1}`,
		"a read-only key twice":          `{` + base + `,"id":1,"id":1}`,
		"a key twice, nested":            `{` + base + `,"parts":[{"a":1,"b":2,"a":3}]}`,
		"a key twice, nested, escaped":   `{` + base + `,"parts":[{"a":{"x":1,"\u0078":2}}]}`,
		"the empty key twice":            `{` + base + `,"":1,"":2}`,
		"nested 33 deep":                 nest(33),
		"objects nested 33 deep":         `{"d":` + strings.Repeat(`{"a":`, 32) + `1` + strings.Repeat(`}`, 32) + `}`,
		"nested a hundred thousand deep": nest(100_000),
	} {
		malformed("POST", name, body)
		malformed("PATCH", name, body)
	}
	malformed("PATCH", "only a key twice", `{"name":null,"name":null}`)

	for _, c := range []struct {
		name, method, body string
		fields             string // in alphabetical order
	}{
		{"not an object: a list", "POST", `[]`, "body"},
		{"not an object: null", "POST", `null`, "body"},
		{"not an object: a number", "POST", ` 1 `, "body"},
		{"not an object: a string", "PATCH", `"name"`, "body"},
		{"no fields", "POST", `{}`, "name weight"},
		{"null for required fields", "POST", `{"name":null,"weight":null}`, "name weight"},
		{"null for required fields, PATCH", "PATCH", `{"name":null,"weight":null}`, "name weight"},
		{"null for a notNull field, PATCH", "PATCH", `{"left":null}`, "left"},
		{"unknown field", "POST", `{` + base + `,"wieght":1}`, "wieght"},
		{"unknown field, PATCH", "PATCH", `{"wieght":1}`, "wieght"},
		{"keys in another case", "POST", `{` + base + `,"NAME":"y","Weight":2}`, "NAME Weight"},
		{"only a key in another case", "POST", `{"NAME":"y","weight":1}`, "NAME name"},
		{"the empty key", "POST", `{` + base + `,"":1}`, ""},
		{"a key with NUL", "POST", `{` + base + `,"name\u0000":1}`, "name\x00"},
		{"a key with half a surrogate pair", "POST", `{` + base + `,"\ud800":1}`, "\ufffd"},
		{"a key that looks like a format", "POST", `{` + base + `,"%s%d":1}`, "%s%d"},
		{"nested 32 deep", "POST", nest(32), "deep"},
		{"a string for a nested list", "POST", `{` + base + `,"parts":"x"}`, "parts"},
		{"many problems", "POST",
			`{"name":"","note":"12345678901","kind":"pla","hex":"#12345","weight":0,"price":-1,"size":2,` +
				`"count":1.5,"left":11,"flag":1,"at":"now","day":"2024-02-30","ref":"x","parts":[1],"x":1}`,
			"at count day flag hex kind left name note parts[0] price ref size weight x"},
		{"the wrong type for each field", "POST",
			`{"name":1,"note":{},"kind":[],"hex":true,"weight":"1","price":[1],"size":{"a":1},` +
				`"count":"7","left":false,"flag":"true","at":1705312800,"day":20240115,"ref":1}`,
			"at count day flag hex kind left name note price ref size weight"},
		{"a rule about two fields", "POST", `{` + base + `,"price":1,"left":2}`, "left"},
		{"a rule about two fields, and another problem", "PATCH", `{"price":1,"left":2,"count":0}`, "count left"},
	} {
		path := "/api/v1/things"
		if c.method == "PATCH" {
			path = thingPath
		}
		r := send(t, s, c.method, path, c.body)
		e := wantError(t, r, 422, "VALIDATION_ERROR")
		testkit.Equal(t, strings.Join(e.fields(), " "), c.fields, "%s: problems: %s", c.name, text(t, r))
		for i, f := range e.Errors {
			if f.Message == "" || strings.Contains(f.Message, "%!") ||
				i < 3 && !strings.Contains(e.Detail, f.Message) {
				t.Errorf("%s: %s", c.name, text(t, r))
			}
		}
	}

	for _, c := range []struct{ name, method, body, want string }{
		{"required fields", "POST", `{"name":"x","weight":1}`, `{"name":"x","weight":"1"}`},
		{"white space", "POST", " \t\r\n{ \"name\" : \"x\" ,\n\"weight\":1 } \n", `{"name":"x","weight":"1"}`},
		{"escaped keys", "POST", `{"n\u0061me":"x","w\u0065ight":1}`, `{"name":"x","weight":"1"}`},
		{"no fields, PATCH", "PATCH", `{}`, `{}`},
		{"null clears", "PATCH",
			`{"note":null,"price":null,"flag":null,"at":null,"day":null,"ref":null,"count":null,"kind":null,"hex":null}`,
			`{"at":null,"count":null,"day":null,"flag":null,"hex":null,"kind":null,"note":null,"price":null,"ref":null}`},
		{"null for a notNull field, POST", "POST", `{` + base + `,"left":null}`,
			`{"left":null,"name":"x","weight":"1"}`},
		{"read-only fields are ignored", "POST", `{` + base + `,"id":17,"created_at":{"a":[]}}`,
			`{"name":"x","weight":"1"}`},
		{"an empty nested list", "POST", `{` + base + `,"parts":[ ]}`, `{"name":"x","weight":"1"}`},
		{"null for a nested list", "POST", `{` + base + `,"parts":null}`, `{"name":"x","weight":"1"}`},
		{"a nested list, PATCH", "PATCH", `{"parts":[{"id":"` + someID + `","x":[[]]}]}`, `{}`},
		{"the same key on two levels", "PATCH", `{"name":"x","parts":[{"name":"y"},{"name":"z","parts":{"name":1}}]}`,
			`{"name":"x"}`},
		{"blanks around texts", "POST", `{"name":"\t a \u00a0b\ufeff\n","note":" x ","weight":1}`,
			`{"name":"a  b","note":" x ","weight":"1"}`},
		{"a surrogate pair", "POST", `{"name":"\ud83e\uddf5","weight":1}`, `{"name":"🧵","weight":"1"}`},
		{"rounding", "POST", `{"name":"x","weight":0.0000005,"price":1.23456789}`,
			`{"name":"x","price":"1.234568","weight":"0.000001"}`},
		{"all fields", "POST",
			`{"name":" x ","note":"1234567890","kind":"PETG","hex":"#aAfF09","weight":1e6,"price":0,"size":2.850,` +
				`"count":1e2,"left":0,"flag":false,"at":"2024-01-15T10:00:00+02:00","day":"2024-02-29",` +
				`"ref":"` + strings.ToUpper(someID) + `"}`,
			`{"at":"2024-01-15T08:00:00Z","count":100,"day":"2024-02-29","flag":false,"hex":"#aAfF09",` +
				`"kind":"PETG","left":"0","name":"x","note":"1234567890","price":"0",` +
				`"ref":"` + someID + `","size":"2.85","weight":"1000000"}`},
	} {
		path := "/api/v1/things"
		if c.method == "PATCH" {
			path = thingPath
		}
		r := send(t, s, c.method, path, c.body)
		got := text(t, r)
		var e Echo
		if json.Unmarshal([]byte(got), &e); r.StatusCode != 200 || e.Got != c.want {
			t.Errorf("%s: %d %s, want %s", c.name, r.StatusCode, got, c.want)
		}
	}
}

// Each type accepts its values, in one form, and rejects others.
func TestValuesHaveOneForm(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	long := func(n int, of string) string { return `"` + strings.Repeat(of, n) + `"` }
	for field, values := range map[string]map[string]string{
		"name": {
			`"a"`: `"a"`, `" a "`: `"a"`, `" a b\t"`: `"a b"`, long(200, "x"): long(200, "x"),
			long(200, "🧵"):     long(200, "🧵"),
			`"a\u2028\"\\\nb"`: "\"a\u2028\\\"\\\\\\nb\"", `"\u0001"`: `"\u0001"`,
			`""`: "", `" "`: "", `"\t\n\u00a0\u2003\ufeff"`: "", long(201, "x"): "", long(201, "🧵"): "",
			`"a\u0000"`: "",
			`"\ud800"`:  "", `"\udfff\ud800"`: "", `"\ufffd"`: "", `1`: "", `true`: "", `{}`: "", `["a"]`: "",
			`[]`: "",
		},
		"note": {`""`: `""`, `" "`: `" "`, long(10, "é"): long(10, "é"), long(11, "é"): "", `"\u0000"`: ""},
		"kind": {`"PLA"`: `"PLA"`, `"PETG"`: `"PETG"`, `"pla"`: "", `"PLA "`: "", `"ABS"`: "", `""`: "", `1`: ""},
		"hex": {`"#000000"`: `"#000000"`, `"#FFffFF"`: `"#FFffFF"`, `"FFFFFF"`: "", `"#FFF"`: "", `"#GGGGGG"`: "",
			`"#FFFFFFF"`: "", `"#FFFFF "`: "", `""`: "", `"#ＦＦ"`: ""},
		"weight": {`1`: `"1"`, `0.000001`: `"0.000001"`, `1000000`: `"1000000"`, `1E6`: `"1000000"`, `0`: "", `-0`: "",
			`-1`: "", `0.0000004`: "", `1e-400`: "", `1000000.000001`: "", `1e400`: "", `-1e400`: "",
			`1e999999999999`: "",
			`"1"`:            "", `true`: ""},
		"price": {`0`: `"0"`, `-0`: `"0"`, `-0.0000001`: `"0"`, `0e999999999999`: `"0"`, `-0.000001`: "",
			`1000000.0000001`: `"1000000"`, `1e7`: "", `1` + strings.Repeat("0", 500): ""},
		"size": {`1.75`: `"1.75"`, `175e-2`: `"1.75"`, `2.850000`: `"2.85"`, `1.7500001`: `"1.75"`, `1.750001`: "",
			`2`: "", `3`: "", `-1.75`: ""},
		"count": {`1`: `1`, `100`: `100`, `7.0`: `7`, `70e-1`: `7`, `0`: "", `101`: "", `1.5`: "", `0.9999999`: "",
			`1.0000000001`: "", `1e-400`: "", `100.000`: `100`, `-1`: "", `1e300`: "", `"7"`: ""},
		"flag": {`true`: `true`, `false`: `false`, `"true"`: "", `1`: "", `0`: "", `"yes"`: ""},
		"at": {
			`"2024-01-15T10:00:00Z"`: `"2024-01-15T10:00:00Z"`, `"2024-01-15t10:00:00z"`: `"2024-01-15T10:00:00Z"`,
			`"2024-01-15T1:00:00Z"`: "", `"2024-01-15T10:00:00+24:00"`: "", `"2024-01-15T10:00:00-01:60"`: "",
			`"2024-01-15T10:00:00"`: `"2024-01-15T10:00:00Z"`, `"2024-01-15T10:00:00.5"`: `"2024-01-15T10:00:00.5Z"`,
			`"2024-01-15 10:00:00"`: `"2024-01-15T10:00:00Z"`, `"2024-01-15 10:00:00+01:00"`: `"2024-01-15T09:00:00Z"`,
			`"2024-01-15T10:00:00.1234567899-11:30"`: `"2024-01-15T21:30:00.123456Z"`,
			`"1900-01-01T00:00:00Z"`:                 `"1900-01-01T00:00:00Z"`,
			`"9999-12-31T23:59:59.999999Z"`:          `"9999-12-31T23:59:59.999999Z"`,
			`"2000-02-29T00:00:00-00:00"`:            `"2000-02-29T00:00:00Z"`,
			`"1900-01-01T00:00:00+01:00"`:            "", `"9999-12-31T23:59:59-01:00"`: "",
			`"0001-01-01T00:00:00Z"`: "", `"1899-12-31T23:59:59Z"`: "", `"0000-01-01T00:00:00Z"`: "",
			`"2024-02-30T10:00:00Z"`: "", `"2023-02-29T10:00:00Z"`: "", `"2024-01-15T24:00:00Z"`: "",
			`"2024-01-15T10:60:00Z"`: "", `"2024-01-15"`: "", `"10:00:00"`: "", `"2024-01-15T10:00:00,5Z"`: "",
			`"2024-01-15T10:00:00Z "`: "", `"20240115T100000Z"`: "", `"now"`: "", `"infinity"`: "", `""`: "",
			`1705312800`: "", `"10000-01-01T00:00:00Z"`: "",
		},
		"day": {`"2024-01-15"`: `"2024-01-15"`, `"1900-01-01"`: `"1900-01-01"`, `"9999-12-31"`: `"9999-12-31"`,
			`"1899-12-31"`: "", `"0202-05-01"`: "", `"0000-12-31"`: "", `"2024-02-30"`: "", `"2024-1-5"`: "",
			`"15.01.2024"`: "", `"2024-01-15T00:00:00Z"`: "",
			`""`: "", `"today"`: "", `20240115`: ""},
		"ref": {`"` + someID + `"`: `"` + someID + `"`, `"` + strings.ToUpper(someID) + `"`: `"` + someID + `"`,
			`"` + someID + ` "`: "", `"{` + someID + `}"`: "", `["` + someID + `"]`: "", `""`: "", `"x"`: "", `1`: ""},
	} {
		for value, want := range values {
			r := send(t, s, "PATCH", thingPath, `{"`+field+`":`+value+`}`)
			if want == "" {
				e := wantError(t, r, 422, "VALIDATION_ERROR")
				testkit.EqualSlices(t, e.fields(), []string{field}, "%s: %.60s: fields with problems", field, value)
				continue
			}
			var e Echo
			json.Unmarshal([]byte(text(t, r)), &e)
			if object := `{"` + field + `":` + want + `}`; r.StatusCode != 200 ||
				e.Got != object && !sameJSON(e.Got, object) {
				t.Errorf("%s: %.60s is decoded as %.200s, want %.60s", field, value, text(t, r), want)
			}
		}
	}
}

// sameJSON reports whether two JSON texts have the same value.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil &&
		fmt.Sprint(x) == fmt.Sprint(y)
}

// An error names at most 100 unknown fields, and shortens their names, so that neither the work nor the response grows
// with their number. It still names all problems with known fields.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var b strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&b, `,"k%05d":1`, i)
	}
	r := send(t, s, "POST", "/api/v1/things", `{"name":"x"`+b.String()+`}`)
	e := wantError(t, r, 422, "VALIDATION_ERROR")
	if n := len(e.Errors); n != 101 || e.Errors[99].Field != "k00099" || e.Errors[100].Field != "weight" ||
		!strings.HasSuffix(e.Detail, "and 98 more") {
		t.Errorf("%d problems; %.200s", len(e.Errors), e.Detail)
	}
	for _, key := range []string{strings.Repeat("x", 400_000), strings.Repeat("🧵", 100_000),
		strings.Repeat(`\u0000`, 60_000)} {
		for _, body := range []string{`{"` + key + `":1}`, `{"` + key + `":1,"` + key + `":1}`} {
			if r := send(t, s, "PATCH", thingPath, body); len(text(t, r)) > 3000 ||
				r.StatusCode != 422 && r.StatusCode != 400 {
				t.Errorf("%.20s...: %d with %d bytes", body, r.StatusCode, len(text(t, r)))
			}
		}
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for header, accepted := range map[string]bool{
		"application/json":                     true,
		"APPLICATION/Json":                     true,
		"application/json; charset=utf-8":      true,
		"application/json;charset=UTF-8":       true,
		"application/json; charset=\"utf-8\"":  true,
		"application/json; profile=x":          true,
		"application/json; charset=iso-8859-1": false,
		"application/json; charset=":           false,
		"application/json; charset":            false,
		"application/merge-patch+json":         false,
		"application/jsonp":                    false,
		"application":                          false,
		"text/json":                            false,
		"text/plain":                           false,
		"*/*":                                  false,
		"application/x-www-form-urlencoded":    false,
		"multipart/form-data; boundary=x":      false,
		"":                                     false,
		",":                                    false,
	} {
		for _, method := range []string{"POST", "PATCH"} {
			path := "/api/v1/things"
			if method == "PATCH" {
				path = thingPath
			}
			r := send(t, s, method, path, `{"name":"x","weight":1}`, "Content-Type", header)
			if accepted && r.StatusCode != 200 {
				t.Errorf("%s with %q: %d", method, header, r.StatusCode)
			}
			if !accepted {
				wantError(t, r, 415, "UNSUPPORTED_MEDIA_TYPE")
			}
		}
	}
	for _, coding := range []string{"gzip", "identity", "br"} {
		wantError(t, send(t, s, "POST", "/api/v1/things", `{"name":"x","weight":1}`, "Content-Encoding", coding), 415,
			"UNSUPPORTED_MEDIA_TYPE")
	}
	// Operations without a body ignore the content type, but not a body with data.
	for method, path := range map[string]string{"GET": "/api/v1/things", "DELETE": thingPath} {
		for _, body := range []string{"", " ", "{}", "{ }\n"} {
			if r := send(t, s, method, path, body, "Content-Type", "text/plain"); r.StatusCode >= 300 {
				t.Errorf("%s with the body %q: %d", method, body, r.StatusCode)
			}
		}
		for _, body := range []string{"x", `{"name":"x"}`, "[]", "null"} {
			e := wantError(t, send(t, s, method, path, body), 422, "VALIDATION_ERROR")
			testkit.EqualSlices(t, e.fields(), []string{"body"}, "%s with the body %q: fields with problems", method, body)
		}
	}
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const most = 1 << 20
	body := `{"name":"x","weight":1}`
	padded := body + strings.Repeat(" ", most-len(body))
	if r := send(t, s, "POST", "/api/v1/things", padded); r.StatusCode != 200 {
		t.Errorf("1 MiB: %d %s", r.StatusCode, text(t, r))
	}
	r := send(t, s, "POST", "/api/v1/things", padded+" ")
	wantError(t, r, 413, "PAYLOAD_TOO_LARGE")
	testkit.Equal(t, r.Header.Get("Connection"), "close", "the connection stays open after a body that is too large")
	// A body without Content-Length, much larger than the limit.
	long := httptest.NewRequest("POST", "/api/v1/things",
		io.MultiReader(strings.NewReader(`{"name":"`), io.LimitReader(neverEnds{}, 64<<20)))
	long.ContentLength = -1
	long.Header.Set("Content-Type", "application/json")
	long.Header.Set("Authorization", "Bearer admin")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, long)
	wantError(t, w.Result(), 413, "PAYLOAD_TOO_LARGE")

	broken := httptest.NewRequest("POST", "/api/v1/things", io.MultiReader(strings.NewReader(`{"name":"`), breaks{}))
	broken.Header = long.Header
	w = httptest.NewRecorder()
	s.ServeHTTP(w, broken)
	wantError(t, w.Result(), 400, "MALFORMED_JSON")
}

type neverEnds struct{}

func (neverEnds) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

type breaks struct{}

func (breaks) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestQueriesAreDecoded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for query, want := range map[string]string{
		"":                              `{}`,
		"skip=0&limit=1":                `{"limit":1,"skip":0}`,
		"limit=100":                     `{"limit":100}`,
		"limit=1e2":                     `{"limit":100}`,
		"skip=999999999":                `{"skip":999999999}`,
		"sort_by=name&sort_order=asc":   `{"sort_by":"name","sort_order":"asc"}`,
		"kind=PLA&flag=true&weight=1.5": `{"flag":true,"kind":"PLA","weight":"1.5"}`,
		"flag=1":                        `{"flag":true}`,
		"flag=0":                        `{"flag":false}`,
		"flag=false":                    `{"flag":false}`,
		"flag=True":                     `{"flag":true}`, // as Python clients send it
		"flag=FALSE":                    `{"flag":false}`,
		"name=a%20b+c%2Bd":              `{"name":"a b c+d"}`,
		"name=%F0%9F%A7%B5":             `{"name":"🧵"}`,
		"name=":                         `{"name":""}`,
		"name":                          `{"name":""}`,
	} {
		r := send(t, s, "GET", "/api/v1/things?"+query, "")
		var e Echo
		if json.Unmarshal([]byte(text(t, r)), &e); r.StatusCode != 200 || e.Got != want {
			t.Errorf("%q: %d %s, want %s", query, r.StatusCode, text(t, r), want)
		}
	}
	for query, want := range map[string]string{
		"limit=0":                          "limit",
		"limit=101":                        "limit",
		"limit=-1":                         "limit",
		"limit=":                           "limit",
		"limit":                            "limit",
		"limit=x":                          "limit",
		"limit=1.5":                        "limit",
		"limit=1e":                         "limit",
		"limit=.5":                         "limit",
		"limit=0x10":                       "limit",
		"limit=%2B5":                       "limit",
		"limit=1e400":                      "limit",
		"limit=null":                       "limit",
		"limit=5&limit=5":                  "limit",
		"limit=99999999999999999999":       "limit",
		"skip=-1":                          "skip",
		"skip=1000000000":                  "skip",
		"sort_order=up":                    "sort_order",
		"sort_order=ASC":                   "sort_order",
		"sort_order=":                      "sort_order",
		"kind=pla":                         "kind",
		"flag=yes":                         "flag",
		"flag=":                            "flag",
		"weight=1001":                      "weight",
		"weight=NaN":                       "weight",
		"name=%00":                         "name",
		"name=%FF":                         "name",
		"name=%ED%A0%80":                   "name",
		"name=a&name=b":                    "name",
		"name=" + strings.Repeat("x", 201): "name",
		"sort_by=%00":                      "sort_by",
		"name=%":                           "query",
		"name=%zz":                         "query",
		"a;b":                              "query",
		"limit=5&tenant_id=x":              "tenant_id",
		"unknown=1&unknown=2&Limit=x&=":    " Limit unknown",
		"limit=0&skip=-1&flag=x&kind=x&name=%00&weight=-1&sort_order=x&x": "" +
			"flag kind limit name skip sort_order weight x",
	} {
		r := send(t, s, "GET", "/api/v1/things?"+query, "")
		e := wantError(t, r, 422, "VALIDATION_ERROR")
		testkit.Equal(t, strings.Join(e.fields(), " "), want, "%q: fields with problems", query)
	}
}

// withoutBlanks removes what \s matches in an ECMAScript pattern from both ends of a text.
func withoutBlanks(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) && r != '\u0085' || r == '\ufeff' })
}

// FuzzBody sends bodies. No response is a 500, invalid JSON is a 400, and decoded values are those of encoding/json.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"name":"x","weight":1}`, `{}`, `[]`, `null`, ``, `{"a":{"b":[1,{"c":null}]}}`,
		`{"name":"\ud83e\uddf5","weight":1e-3,"flag":true,"at":"2024-01-15T10:00:00+02:00","day":"2024-02-29"}`,
		`{"name":"x","n\u0061me":"y","weight":1}`, `{"parts":[{}],"count":1e2}`, `{"weight":1e400}`,
		"{\"name\":\"\xff\"}", nest(32), nest(33), `{"":"","\u0000":0}`, `{"size":1.75,"left":0,"price":0}`,
		`{"ref":"` + someID + `"} `,
	} {
		f.Add(body)
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, method := range []string{"POST", "PATCH"} {
			path := "/api/v1/things"
			if method == "PATCH" {
				path = thingPath
			}
			r := send(t, s, method, path, body, "Content-Type", "application/json")
			switch r.StatusCode {
			case 400:
				wantError(t, r, 400, "MALFORMED_JSON")
				continue
			case 422:
				wantError(t, r, 422, "VALIDATION_ERROR")
				if !json.Valid([]byte(body)) {
					t.Errorf("%q is not valid JSON, and the response is %s", body, text(t, r))
				}
				continue
			case 413:
				continue
			case 200:
			default:
				t.Fatalf("%q: %d %s", body, r.StatusCode, text(t, r))
			}
			if !json.Valid([]byte(body)) || !utf8.ValidString(body) {
				t.Fatalf("%q was accepted", body)
			}
			var e Echo
			var got map[string]any
			testkit.Check(t, json.Unmarshal([]byte(text(t, r)), &e))
			testkit.Check(t, json.Unmarshal([]byte(e.Got), &got))
			d := json.NewDecoder(strings.NewReader(body))
			d.UseNumber()
			var want map[string]any
			testkit.Check(t, d.Decode(&want))
			for _, name := range []string{"id", "created_at", "parts"} {
				delete(want, name)
			}
			if len(want) != len(got) {
				t.Fatalf("%q was decoded as %s", body, e.Got)
			}
			for name, value := range want {
				switch v := value.(type) {
				case string:
					if name == "at" || name == "ref" {
						continue // normalized
					}
					if name == "name" {
						v = withoutBlanks(v)
					}
					if got[name] != v {
						t.Errorf("%q: %s is %q", body, name, got[name])
					}
				case json.Number:
					x, ok := new(big.Rat).SetString(fmt.Sprint(got[name]))
					y, _ := v.Float64()
					if z := 0.0; ok {
						z, _ = x.Float64()
						if diff := z - y; diff > 0.000001 || diff < -0.000001 {
							t.Errorf("%q: %s is %v", body, name, got[name])
						}
					}
				default:
					if got[name] != value {
						t.Errorf("%q: %s is %v", body, name, got[name])
					}
				}
			}
		}
	})
}

// FuzzQuery sends queries. The response is a 200 with the values that url.ParseQuery reads, or a 422.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"", "limit=20&skip=0", "limit=1e2", "name=a+b%20c", "name=%zz", "a;b",
		"flag=1&flag=0", "weight=-0", "sort_by=%00", "&&==&", "kind=PLA&sort_order=asc"} {
		f.Add(query)
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/api/v1/things", nil)
		r.URL.RawQuery = query
		r.Header.Set("Authorization", "Bearer viewer")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == 422 {
			wantError(t, w.Result(), 422, "VALIDATION_ERROR")
			return
		}
		var e Echo
		var got map[string]any
		if w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &e) != nil || json.Unmarshal([]byte(e.Got), &got) != nil {
			t.Fatalf("%q: %d %s", query, w.Code, w.Body)
		}
		want, err := url.ParseQuery(query)
		for name := range want {
			if _, known := got[name]; !known {
				t.Errorf("%q: %q was ignored", query, name)
			}
		}
		if err != nil {
			t.Fatalf("%q was accepted", query)
		}
		for name, value := range got {
			testkit.Equal(t, len(want[name]), 1, "%q: %s is %v", query, name, value)
			if text, ok := value.(string); ok && name != "weight" && text != withoutBlanks(want.Get(name)) {
				t.Errorf("%q: %s is %q", query, name, text)
			}
			if n, ok := value.(float64); ok && (name == "limit" && (n < 1 || n > 100) || n < 0) {
				t.Errorf("%q: %s is %v", query, name, n)
			}
		}
	})
}
