package spoolman_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/testkit"
)

func superuser(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Private().SuperURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// customFieldRows counts the rows of custom fields of an item in every tenant of the test's database.
func customFieldRows(t *testing.T, entity string, number int, name string) (n int) {
	t.Helper()
	const count = "select count(*) from printer_extras where entity = $1 and number = $2 and extra::jsonb ? $3"
	if err := superuser(t).QueryRow(t.Context(), count, entity, number, name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The shapes, lists, filters and edits that clients use.
func TestRequestsOfClients(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.add(t, j{"brand": "Polymaker", "color_hex": "#1A2b3C", "spool_weight_grams": 140, "lot_number": "L1"})
	p.add(t, j{"brand": "polymaker", "color": "black", "color_hex": "#1a2b3c", "location": "Shelf, A"})
	p.add(t, j{"color": "Red", "material_type": "PETG", "archived": true, "purchase_price": 20})
	hidden := p.add(t, j{"brand": "Gone"})
	p.operator.Delete(t, hidden).Want(204)
	p.add(t, j{"brand": "Gone"})

	p.want(t, "GET", "info", "", 200, `"version":"0.26.1"`)
	p.want(t, "GET", "health", "", 200, `"status":"healthy"`)
	p.want(t, "GET", "spool/1", "", 200, `"id":1`, `"color_hex":"1A2b3C"`, `"lot_nr":"L1"`, `"name":"Polymaker"`,
		`"remaining_weight":1000`, `"archived":false`, `"extra":{}`, `"spool_weight":140`, `"density":1.24`)
	p.want(t, "GET", "spool/3", "", 200, `"name":"Unknown"`, `"archived":true`, `"settings_extruder_temp":240`,
		`"settings_bed_temp":80`)
	for path, want := range map[string][]int{
		"spool": {1, 2, 5}, "spool?allow_archived=False": {1, 2, 5}, "spool?allow_archived=true": {1, 2, 3, 5},
		"spool?sort=id:desc&limit=2": {5, 2}, "spool?limit=1&offset=1": {2}, "spool?sort=lot_nr:asc,id:desc": {1, 5, 2},
		"spool?filament.vendor.name=POLY": {1, 2}, `spool?filament.vendor.name="poly"`: {},
		`spool?filament.vendor.name="polymaker",gone`: {1, 2, 5}, `spool?lot_nr=""`: {2, 5}, "spool?filament_id=1": {1, 2},
		"spool?vendor_id=4": {5}, "spool?filament.name=black&nonsense=1": {1, 2, 5},
		"filament": {1, 3, 4}, "filament?vendor_id=1": {1}, "vendor": {1, 3, 4}, "vendor?name=poly": {1},
	} {
		a := p.want(t, "GET", path, "", 200)
		var items []struct{ ID int }
		if err := json.Unmarshal([]byte(a.body), &items); err != nil {
			t.Fatal(err)
		}
		got := []int{}
		for _, item := range items {
			got = append(got, item.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		if total := a.header.Get("X-Total-Count"); !strings.Contains(path, "limit") && total != fmt.Sprint(len(want)) {
			t.Errorf("%s: X-Total-Count %q", path, total)
		}
	}
	p.want(t, "GET", "filament/1", "", 200, `"id":1`, `"vendor":{`)
	p.want(t, "GET", "vendor/4", "", 200, `"name":"Gone"`)
	p.want(t, "GET", "material", "", 200, `["PETG", "PLA"]`)
	p.want(t, "GET", "location", "", 200, `["Shelf, A"]`)
	p.want(t, "GET", "lot-number", "", 200, `["L1"]`)
	p.want(t, "GET", "article-number", "", 200, `[]`)
	p.want(t, "GET", "setting/", "", 200, `"currency":{`, `"base_url":{`)
	p.want(t, "GET", "setting/currency", "", 200, `"value":`)
	for _, path := range []string{"spool/4", "spool/99", "filament/2", "vendor/9", "setting/nonsense"} {
		p.want(t, "GET", path, "", 404)
	}
	p.want(t, "GET", "spool/x", "", 422)
	p.want(t, "GET", "spool?limit=x", "", 422)
	p.want(t, "GET", "spool?vendor_id=x", "", 422)
	p.want(t, "GET", "spool?location=%00", "", 422)
	p.want(t, "GET", "spool?location=%ff", "", 422)
	for _, op := range []string{"POST vendor", "POST filament", "DELETE filament/1", "PATCH vendor/1",
		"POST setting/currency", "GET external/filament", "PATCH location/x", "GET nonsense", "PUT spool/1/nonsense", "GET spool/1/use",
		"POST backup", "DELETE spool", "PUT field/spool/x", "GET field/nonsense"} {
		method, path, _ := strings.Cut(op, " ")
		p.want(t, method, path, "{}", 405)
	}

	p.want(t, "PATCH", "spool/1", `{"location": "Printer 1", "lot_nr": null, "remaining_weight": 500, "archived": false,
		"extra": {"mmu": "\"gate 3\"", "n": "1"}}`, 200, `"location":"Printer 1"`, `"remaining_weight":500`,
		`"mmu":"\"gate 3\""`)
	p.want(t, "PATCH", "spool/1", `{"extra": {"n": "2"}, "used_weight": 100}`, 200, `"n":"2"`, `"mmu":`,
		`"remaining_weight":900`)
	p.want(t, "PATCH", "filament/1", `{"extra": {"k": "[]"}}`, 200, `"k":"[]"`)
	p.want(t, "PATCH", "filament/1", `{"name": "x"}`, 422)
	p.want(t, "PATCH", "spool/1", `{"nonsense": 1}`, 422)
	p.want(t, "PATCH", "spool/1", `{"remaining_weight": -1}`, 422)
	p.want(t, "PATCH", "spool/1", `{"extra": {"n": 2}}`, 422)
	p.want(t, "PATCH", "spool/1", `{"extra": {"n": "{"}}`, 422)
	long := strings.Repeat("ß", 24_994) // 50,000 bytes with {"n":"\"\""}
	p.want(t, "PATCH", "spool/1", `{"extra": {"n": "\"`+long+`\""}}`, 200)
	p.want(t, "PATCH", "spool/1", `{"extra": {"n": "\"`+long+`x\""}}`, 422, `must have at most 50,000 bytes`)
	p.want(t, "GET", "spool?lot_nr="+strings.Repeat("x,", 19), "", 200)
	p.want(t, "GET", "spool?lot_nr="+strings.Repeat("x,", 20), "", 422, "at most 20 values")
	p.want(t, "PATCH", "spool/4", `{"location": "x"}`, 404)
	p.want(t, "PUT", "spool/1/measure", `{"weight": 640}`, 200, `"remaining_weight":500`)
	p.want(t, "PUT", "spool/2/measure", `{"weight": 640}`, 400)
	p.want(t, "POST", "spool", `{"filament_id": 1, "remaining_weight": 10, "location": "New"}`, 200, `"id":6`,
		`"remaining_weight":10`, `"name":"Polymaker"`, `"location":"New"`)
	p.want(t, "POST", "spool", `{"filament_id": 77}`, 404)
	// A request that is rejected has no effect: no spool, and no custom fields.
	p.want(t, "POST", "spool", `{"filament_id": 1, "extra": {"n": 2}}`, 422)
	p.want(t, "GET", "spool/7", "", 404)
	p.want(t, "PATCH", "filament/2", `{"extra": {"lost": "1"}}`, 404)
	if n := customFieldRows(t, "filament", 2, "lost"); n != 0 {
		t.Errorf("a rejected PATCH stored %d rows of custom fields", n)
	}
	p.want(t, "PATCH", "spool/4", `{"extra": {"lost": "1"}}`, 404)
	if n := customFieldRows(t, "spool", 4, "lost"); n != 0 {
		t.Errorf("a PATCH of a hidden spool stored %d rows of custom fields", n)
	}
	p.want(t, "POST", "spool", `{}`, 422)
	p.want(t, "DELETE", "spool/6", "", 200)
	p.want(t, "DELETE", "spool/6", "", 404)
	p.want(t, "GET", "field/spool", "", 200, "[]")
	p.want(t, "POST", "field/spool/mmu", `{"name": "MMU", "field_type": "text", "default_value": null}`, 200,
		`"key":"mmu"`, `"entity_type":"spool"`)
	p.want(t, "POST", "field/spool/Bad", `{"name": "MMU", "field_type": "text"}`, 422)
	p.want(t, "DELETE", "field/spool/mmu", "", 200, "[]")
}

// Custom fields that are too long together with those that the item has are rejected.
func TestLongCustomFields(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.add(t, j{})
	for _, item := range []string{"spool/1", "filament/1"} {
		extra := func(name string) string {
			return fmt.Sprintf(`"extra": {"%s": "\"%s\""}`, name, strings.Repeat("x", 45_000))
		}
		p.want(t, "PATCH", item, `{`+extra("a")+`}`, 200)
		p.want(t, "PATCH", item, `{`+extra("b")+`}`, 200)
		p.want(t, "PATCH", item, `{`+extra("c")+`}`, 422, `extra must have`)
		if item == "spool/1" {
			p.want(t, "PATCH", item, `{"used_weight": 1, `+extra("c")+`}`, 422, `extra must have`)
		}
		p.want(t, "PATCH", item, `{`+extra("a")+`}`, 200)
		p.want(t, "PATCH", item, `{"extra": {"a": null}}`, 200)
		p.want(t, "PATCH", item, `{`+extra("c")+`}`, 200)
	}
}

// Viewers read, printers do nothing outside of the surface, other tenants have other numbers, and invalid keys nothing.
func TestSurfaceAccess(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	path := p.add(t, nil)
	viewer := &printer{api.URL, keyOf(t, tenant, "viewer"), p.operator}
	other := newPrinter(t, api, "printer")
	for _, op := range []string{"GET info", "GET health", "GET spool", "GET spool/1", "GET filament", "GET filament/1",
		"GET vendor", "GET vendor/1", "GET material", "GET location", "GET lot-number", "GET article-number", "GET setting/",
		"GET setting/currency", "GET field/spool", "PUT spool/1/use", "PUT spool/1/measure", "POST spool", "PATCH spool/1",
		"PATCH filament/1", "POST field/spool/x", "DELETE field/spool/x", "DELETE spool/1"} {
		method, target, _ := strings.Cut(op, " ")
		for _, key := range []string{"", "swk_x", p.key[:len(p.key)-1] + "_", "password"} {
			a := (&printer{url: api.URL, key: key}).want(t, method, target, "{}", 401)
			if key == "" && !strings.Contains(fmt.Sprint(a.header.Values("WWW-Authenticate")), "Basic") {
				t.Errorf("%s: WWW-Authenticate is %q", op, a.header.Values("WWW-Authenticate"))
			}
		}
		if method == "GET" {
			viewer.want(t, method, target, "", 200)
		} else {
			viewer.want(t, method, target, "{}", 403)
		}
		if strings.Contains(target, "/1") {
			body := `{"use_weight": 1, "weight": 1, "location": "x", "extra": {}}`
			if strings.HasSuffix(target, "use") {
				body = `{"use_weight": 1}`
			} else if strings.HasPrefix(target, "filament") {
				body = `{"extra": {}}`
			} else if method == "PATCH" {
				body = `{"location": "x"}`
			}
			other.want(t, method, target, body, 404)
		}
	}
	p.operator.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": "1000", "location": "null"})
	// A page of another site cannot use credentials that the browser has stored.
	r, _ := http.NewRequest("POST", api.URL+surface+"spool", strings.NewReader(`{"filament_id": 1}`))
	r.SetBasicAuth("x", p.key)
	r.Header.Set("Origin", "https://evil.example")
	if a, err := http.DefaultClient.Do(r); err != nil || a.StatusCode != 403 {
		t.Errorf("a POST of another origin: %v %v", a, err)
	}
}

// A list without a limit has all spools, but at most 20,000.
func TestLongList(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	if _, err := superuser(t).Exec(t.Context(), `
		insert into spools (tenant_id, id, number, material_type, color, diameter_mm, net_weight_grams,
			remaining_weight_grams)
		select $1, uuid_v7(), n, 'PLA', 'Black', 1.75, 1000, 900 from generate_series(1, 20001) n`,
		p.operator.Actor.Tenant); err != nil {
		t.Fatal(err)
	}
	want := func(query string, length, last int) {
		t.Helper()
		a := p.do(t, "GET", "spool"+query, "")
		var list []struct{ ID int }
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || len(list) != length || list[length-1].ID != last {
			t.Errorf("%s: %d with %d spools: %.200s %v", query, a.status, len(list), a.body, err)
		}
	}
	p.want(t, "GET", "spool", "", 422, "at most 20000 of the 20001")
	want("?offset=1", 20_000, 20_001)
	want("?offset=20000", 1, 20_001)
	p.want(t, "GET", "spool?limit=20001", "", 422)
	p.want(t, "GET", "filament", "", 200)
}

// The bytes of a list are limited, and of all lists that are being sent: custom fields can be long.
func TestListOfLongFields(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	for _, sql := range []string{
		`insert into spools (tenant_id, id, number, material_type, color, diameter_mm, net_weight_grams, remaining_weight_grams)
		select $1, uuid_v7(), n, 'PLA', 'Black', 1.75, 1000, 900 from generate_series(1, 310) n`,
		`insert into printer_extras (tenant_id, entity, number, extra)
		select $1, 'spool', n, '{"x":"' || repeat('x', 99000) || '"}' from generate_series(1, 310) n`,
	} {
		if _, err := superuser(t).Exec(t.Context(), sql, p.operator.Actor.Tenant); err != nil {
			t.Fatal(err)
		}
	}
	p.want(t, "GET", "spool", "", 422, "at most 20000 of the 310 items, and 30 MB")
	p.want(t, "GET", "spool?limit=300", "", 200)
	p.want(t, "GET", "spool?limit=10&offset=300", "", 200)
	p.want(t, "GET", "spool?offset=310", "", 200)

	// A caller that does not read a long list cannot make the service keep many of them.
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %sspool?limit=300 HTTP/1.1\r\nHost: farm.example\r\nX-API-Key: %s\r\n\r\n", surface, p.key)
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.want(t, "GET", "spool?limit=60", "", 503)
	p.want(t, "GET", "spool?limit=20", "", 200)
}
