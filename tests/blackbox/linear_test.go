package blackbox_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
	"spoolwright/webhooks"
)

// marks is a text that mostly consists of marks of a format.
type marks struct {
	start string
	each  func(n int) string // the n-th mark
	end   string
}

func repeated(start, each, end string) marks {
	return marks{start, func(int) string { return each }, end}
}

func numbered(start, format, end string) marks {
	return marks{start, func(n int) string { return fmt.Sprintf(format, n) }, end}
}

// text returns at most size bytes.
func (m marks) text(size int) []byte {
	b := append(make([]byte, 0, size), m.start...)
	for n := 0; ; n++ {
		each := m.each(n)
		if len(b)+len(each)+len(m.end) > size {
			return append(b, m.end...)
		}
		b = append(b, each...)
	}
}

// csvMarks are those of sheets, after a row of titles.
func csvMarks(titles string) map[string]marks {
	return map[string]marks{
		"separators":         repeated(titles, ";", ""),
		"rows of separators": repeated(titles, ";;;;;;;;\n", ""),
		"quotes":             repeated(titles, `"`, ""),
		"escaped quotes":     repeated(titles+`"`, `""`, "\"\n"),
		"empty texts":        repeated(titles, `"";`, "\n"),
		"broken quotes":      repeated(titles, "\"a\"b;\n", ""),
		"quoted lines":       repeated(titles+`"`, "\n", "\"\n"),
		"lines":              repeated(titles, "\r\n", ""),
		"blanks":             repeated(titles, " \t", "\n"),
		"no titles":          repeated("", "\n;x", ""),
		"equal titles":       repeated("", "a;", "\n1;2\n"),
		"other titles":       numbered("", "t%d;", "\n1;2\n"),
		"names of separator": repeated("", "sep=;\n", ""),
		"a long title":       repeated("", "y", ";Material\nPLA;PLA\n"),
		"a long word":        repeated(titles, "x", "\n"),
		"a long number":      repeated(titles, "7", "\n"),
		"digits in all":      repeated(titles, "7;7.7;7,7;1e9;7%;7 kg;", "\n"),
		"short numbers":      repeated(titles, "1.000,5 kg;\n", ""),
		"dates":              repeated(titles, "1/2/2026;2.1.26;\n", ""),
		"words of materials": repeated(titles, "PLA+ Galaxy Black 1kg ", "\n"),
		"formulas":           repeated(titles, "=\"1\";\n", ""),
		"code page":          repeated(titles, "\xff\xb3;\n", ""),
		"UTF-16":             repeated("\xff\xfe", ";\x00", "\n\x00"),
		"equal rows":         repeated(titles, "A;A;PLA;1000;1,75;1;\n", ""),
		"other rows":         numbered(titles, "A%[1]d;B%[1]d;PLA;1000;1,75;1;\n", ""),
	}
}

// jsonMarks are those of JSON. A list or an object of the format begins with start.
func jsonMarks(start, end string) map[string]marks {
	return map[string]marks{
		"brackets":        repeated("", "[", ""),
		"braces":          repeated("", `{"a":`, ""),
		"nothing":         repeated(start, " \n", end),
		"nested lists":    repeated(start+`{"id":1,"x":`, "[", "}"+end),
		"empty objects":   repeated(start, "{},", "{}"+end),
		"empty lists":     repeated(start, "[],", "[]"+end),
		"numbers":         repeated(start, "7,", "7"+end),
		"a long number":   repeated(start+`{"id":`, "7", "}"+end),
		"a long text":     repeated(start+`{"id":1,"name":"`, "x", `"}`+end),
		"escaped texts":   repeated(start+`{"id":1,"name":"`, `\"\\\u00e9`, `"}`+end),
		"control signs":   repeated(start+`{"id":1,"name":"`, `\u0000`, `"}`+end),
		"unended text":    repeated(start+`{"name":"`, `\"`, ""),
		"equal members":   repeated(start+`{`, `"id":1,`, `"id":1}`+end),
		"other members":   numbered(start+`{`, `"m%d":1,`, `"id":1}`+end),
		"equal objects":   repeated(start, `{"id":1,"name":"a","quantity":1},`, `{"id":1}`+end),
		"other objects":   numbered(start, `{"id":%[1]d,"name":"a%[1]d","title":"b","quantity":1},`, `{"id":-1}`+end),
		"objects on line": numbered("", `{"id":"a%[1]d","name":"a"}`+"\n", ""),
	}
}

// allocated returns how many bytes a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Each reader of what people, programs and shops send allocates in proportion to the bytes, whatever marks of its
// format they are: four times the bytes need at most about four times the memory. A reader that copies what it has
// read for each mark needs 16 times. The measure is a count, which does not depend on the machine. CI reads 48 MB of
// rows, and a quarter of the largest request. No test runs beside this one: the count is that of the process.
func TestReadersAreLinear(t *testing.T) {
	w := newUnlimitedAPI(t)
	farm := w.api.Tenant(t)
	admin := farm.User(t, "admin")
	body, file, stream := 16<<10, 16<<10, 64<<10 // a quarter of the larger text
	if os.Getenv("CI_STRICT") == "1" {
		body, file, stream = 64<<10, 256<<10, 12<<20
	}
	// check compares what a reader allocates for a text and for one of four times the bytes.
	check := func(reader string, size int, all map[string]marks, read func([]byte)) {
		t.Helper()
		for what, m := range all {
			small, large := m.text(size), m.text(4*size)
			read(small) // prepares statements
			few := min(allocated(func() { read(small) }), allocated(func() { read(small) }))
			many := allocated(func() { read(large) })
			most := 5*few + 256<<10
			if many > most { // something else may have allocated
				many = min(many, allocated(func() { read(large) }))
			}
			if many > most {
				t.Errorf("%s, %s: %d bytes allocate %d, %d bytes %d", reader, what, len(small), few, len(large), many)
			}
		}
	}
	post := func(c *testkit.Client, path, contentType string, header map[string]string) func([]byte) {
		return func(text []byte) {
			r := httptest.NewRequest("POST", path, bytes.NewReader(text))
			r.Header.Set("Content-Type", contentType)
			if c != nil {
				r.Header.Set("Authorization", "Bearer "+c.Token)
			}
			for name, value := range header {
				r.Header.Set(name, value)
			}
			a := httptest.NewRecorder()
			if w.api.Server.ServeHTTP(a, r); a.Code >= 500 {
				t.Errorf("%s: %d %s for %.60q", path, a.Code, a.Body, text)
			}
		}
	}
	for resources, titles := range map[string]string{
		"spools":    "Brand;Color;Type;Weight;Diameter;Qty;Notes\n",
		"filaments": "Brand;Color;Material;Net weight;Diameter;Name;Notes\n",
		"vendors":   "Name;Notes\n",
		"products":  "Name;SKU;Description\n",
		"orders":    "Order;Item;Status;Price;Notes;Quantity;SKU\n",
	} {
		if !testkit.Rigs() && resources != "spools" && resources != "orders" {
			continue // the reader of spools reads them, too
		}
		check(resources, body, csvMarks(titles), post(admin, "/api/v1/"+resources+"/import/check", "text/csv", nil))
	}
	check("the catalog", body, jsonMarks("[", "]"),
		post(admin, "/api/v1/filament-catalog/import?dry_run=true", "application/jsonl", nil))
	check("a request", body, jsonMarks(`{"items":[`, "]}"), post(admin, "/api/v1/orders", "application/json", nil))

	for kind, start := range map[string]string{
		"generic":     `{"id":"1","updated_at":"2026-01-05T08:00:00Z","lines":[`,
		"woocommerce": `{"id":1,"status":"processing","date_modified_gmt":"2026-01-05T08:00:00","line_items":[`,
		"shopify":     `{"id":1,"name":"#1","updated_at":"2026-01-05T08:00:00Z","line_items":[`,
	} {
		shop := admin.Post(t, "/api/v1/shops", testkit.JSON{"kind": kind, "name": kind + ".example"}).Want(201)
		secret := shop.Text("secret")
		check("messages of "+kind, body, jsonMarks(start, "]}"), func(text []byte) {
			sum := hmac.New(sha256.New, []byte(secret))
			sum.Write(text)
			signature := base64.StdEncoding.EncodeToString(sum.Sum(nil))
			id, now := fmt.Sprint("msg_", len(text)), time.Now().Unix()
			key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			post(nil, shop.Text("address"), "application/json", map[string]string{
				"X-Shopify-Hmac-Sha256": signature, "X-WC-Webhook-Signature": signature, "webhook-id": id,
				"webhook-timestamp": strconv.FormatInt(now, 10), "webhook-signature": webhooks.Signature(key, id, now, text),
			})(text)
		})
	}

	// What commands read is larger.
	ctx := db.As(t.Context(), db.Actor{Tenant: farm.ID})
	for start, end := range map[string]string{"[": "]", `{"spool":[`: "]}", `{"vendor":[`: "]}"} {
		check("a file of Spoolman, "+start, file, jsonMarks(start, end), func(text []byte) {
			ignore := func(string, []server.FieldError) {}
			imports.Importer{DB: w.api.DB, Invalid: ignore}.Spoolman(ctx, bytes.NewReader(text),
				imports.SourceOptions{DryRun: true, SkipInvalid: true})
		})
	}
	check("a file of spools", file, csvMarks("Brand;Color;Type;Weight;Diameter;Qty;Notes\n"), func(text []byte) {
		if sheet, err := transfer.ReadSheet(text, "", math.MaxInt, imports.SpoolSheets.Good); err == nil {
			imports.SpoolSheets.Convert(sheet, transfer.Reading{Mode: transfer.Create, Suggest: true})
		}
	})
	check("rows", stream, csvMarks("a;b\n"), func(text []byte) {
		r := transfer.NewReader(bytes.NewReader(text))
		for {
			if _, _, err := r.Next(); err != nil && err != transfer.ErrSyntax {
				break
			}
		}
	})
}
