package spoolman_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/tests/testkit"
)

func superuser(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Private().SuperURL())
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// ids returns the ids of a list.
func ids(t *testing.T, list string) []int64 {
	t.Helper()
	var items []struct{ ID int64 }
	testkit.Check(t, json.Unmarshal([]byte(list), &items))
	all := []int64{}
	for _, item := range items {
		all = append(all, item.ID)
	}
	return all
}

// at returns the value at a path of a JSON text, such as filament.id, as text.
func at(t *testing.T, text, path string) string {
	t.Helper()
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	testkit.Check(t, d.Decode(&value))
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}

// The shapes, lists, filters and edits that clients use, with spools that have no filament.
func TestRequestsOfClients(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.add(t, j{"brand": "Polymaker", "color_hex": "#1A2b3C", "spool_weight_grams": 140, "lot_number": "L1"})
	p.add(t, j{"brand": "polymaker", "color": "black", "color_hex": "#1a2b3c", "location": "Shelf, A"})
	p.add(t, j{"color": "Red", "material_type": "Custom", "archived": true, "purchase_price": 20})
	hidden := p.add(t, j{"brand": "Gone"})
	p.operator.Delete(t, hidden).Want(204)
	p.add(t, j{"brand": "Gone"})

	p.want(t, "GET", "info", "", 200, `"version":"0.26.1"`)
	p.want(t, "GET", "health", "", 200, `"status":"healthy"`)
	first := p.want(t, "GET", "spool/1", "", 200, `"id":1`, `"color_hex":"1A2B3C"`, `"lot_nr":"L1"`,
		`"name":"Polymaker"`,
		`"remaining_weight":1000`, `"archived":false`, `"extra":{}`, `"spool_weight":140`, `"density":1.24`).body
	p.want(t, "GET", "spool/3", "", 200, `"name":"Unknown"`, `"archived":true`, `"settings_extruder_temp":210`,
		`"settings_bed_temp":60`)
	group, brand := at(t, first, "filament.id"), at(t, first, "filament.vendor.id")
	if n, err := strconv.ParseInt(group, 10, 32); err != nil || n < 1_000_000_000 {
		t.Errorf("the id of a computed filament is %s, which is not above all numbers", group)
	}
	for path, want := range map[string][]int64{
		"spool": {1, 2, 5}, "spool?allow_archived=False": {1, 2, 5}, "spool?allow_archived=true": {1, 2, 3, 5},
		"spool?sort=id:desc&limit=2": {5, 2}, "spool?limit=1&offset=1": {2},
		"spool?sort=lot_nr:asc,id:desc":   {1, 5, 2},
		"spool?filament.vendor.name=POLY": {1, 2}, `spool?filament.vendor.name="poly"`: {},
		`spool?filament.vendor.name="polymaker",gone`: {2, 5}, `spool?lot_nr=""`: {2, 5},
		"spool?filament_id=" + group: {1, 2}, "spool?vendor_id=" + brand: {1, 2}, "spool?filament.vendor.id=-1": {},
		"spool?filament.name=black&nonsense=1": {1, 2, 5}, "spool?offset=2": {1, 2, 5},
		"spool?lot_nr=L2&lot_nr=L1": {1}, "spool?sort=id:desc&sort=lot_nr:asc": {1, 2, 5},
		"spool?registered=2020-01-01T00:00:00Z|": {1, 2, 5}, "spool?last_used=": {1, 2, 5},
		"spool?last_used=|2020-01-01": {},
	} {
		a := p.want(t, "GET", path, "", 200)
		if got := ids(t, a.body); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		if total := a.header.Get("X-Total-Count"); !strings.Contains(path, "limit") && total != fmt.Sprint(len(want)) {
			t.Errorf("%s: X-Total-Count %q", path, total)
		}
	}
	for path, want := range map[string]int{"filament": 3, "filament?vendor_id=" + brand: 1, "filament?vendor.id=-1": 1,
		"vendor": 2, "vendor?name=poly": 1, "filament?color_hex=1a2b3d": 1, "filament?color_hex=ffffff": 0} {
		if got := ids(t, p.want(t, "GET", path, "", 200).body); len(got) != want {
			t.Errorf("%s: %v, want %d", path, got, want)
		}
	}
	p.want(t, "GET", "filament/"+group, "", 200, `"id":`+group, `"vendor":{"id":`+brand)
	p.want(t, "GET", "vendor/"+brand, "", 200, `"name":"Polymaker"`)
	p.want(t, "GET", "material", "", 200, `["Custom", "PLA"]`)
	p.want(t, "GET", "location", "", 200, `["Shelf, A"]`)
	p.want(t, "GET", "lot-number", "", 200, `["L1"]`)
	p.want(t, "GET", "article-number", "", 200, `[]`)
	for _, path := range []string{"spool/4", "spool/99", "filament/2", "vendor/9", "filament/1000000001",
		"vendor/1000000001", "spool/2147483647"} {
		id := path[strings.Index(path, "/")+1:]
		p.want(t, "GET", path, "", 404, id)
	}
	p.want(t, "GET", "setting/nonsense", "", 404)
	for _, path := range []string{"spool/x", "spool?limit=x", "spool?vendor_id=x", "spool?location=%00",
		"spool?location=%ff",
		"field/nonsense", "spool/group", "export/spools", "search", "filament?color_hex=red"} {
		p.want(t, "GET", path, "", 422)
	}
	for _, path := range []string{"spool?sort=id", "spool?sort=id:up", "filament?sort=nonsense:asc",
		"spool?last_used=then",
		"spool?last_used=|", "spool/group?group_by=color", "spool/group?group_by=extra.none"} {
		p.want(t, "GET", path, "", 400)
	}
	for _, op := range []string{"GET spool/", "GET spool/1/", "GET setting/currency/", "GET field/spool/"} {
		method, path, _ := strings.Cut(op, " ")
		p.want(t, method, path, "", 200)
		if a := p.do(t, "HEAD", path, ""); a.status != 200 || a.body != "" {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
	for _, op := range []string{"GET ", "GET nonsense", "PUT spool", "POST spool/1", "POST info", "DELETE field/spool",
		"GET external/nonsense", "GET export/nonsense", "PUT spool/1/nonsense", "GET spool/1/use", "GET backup",
		"DELETE spool",
		"PUT field/spool/x", "POST external/filament", "PATCH setting/currency"} {
		method, path, _ := strings.Cut(op, " ")
		p.want(t, method, path, "{}", 405)
	}

	p.want(t, "PATCH", "spool/1", `{"location": "Printer 1", "lot_nr": null, "remaining_weight": 500, "archived": false,
		"nonsense": 1}`, 200, `"location":"Printer 1"`, `"remaining_weight":500`)
	p.want(t, "PATCH", "spool/1", `{"used_weight": "100"}`, 200, `"remaining_weight":900`)
	p.want(t, "PATCH", "spool/1", `{"initial_weight": 1200}`, 200, `"remaining_weight":1100`, `"used_weight":100`)
	p.want(t, "PATCH", "spool/1", `{"initial_weight": 1000, "used_weight": 300}`, 200, `"remaining_weight":700`)
	p.want(t, "PATCH", "filament/"+group, `{"name": "x"}`, 400)
	p.want(t, "DELETE", "vendor/"+brand, ``, 400)
	p.want(t, "PATCH", "spool/1", `{"remaining_weight": -1}`, 422, "remaining_weight")
	p.want(t, "GET", "spool?lot_nr="+strings.Repeat("x,", 19), "", 200)
	p.want(t, "GET", "spool?lot_nr="+strings.Repeat("x,", 20), "", 422, "at most 20 values")
	p.want(t, "PATCH", "spool/4", `{"location": "x"}`, 404)
	p.want(t, "PUT", "spool/1/measure", `{"weight": 640}`, 200, `"remaining_weight":500`)
	p.want(t, "PUT", "spool/2/measure", `{"weight": 640}`, 200, `"remaining_weight":640`)
	p.want(t, "POST", "spool", `{"filament_id": `+group+`, "remaining_weight": 10, "location": "New"}`, 200, `"id":6`,
		`"remaining_weight":10`, `"name":"Polymaker"`, `"location":"New"`, `"filament":{"id":`+group)
	p.want(t, "POST", "spool", `{"filament_id": 77}`, 404, "77")
	p.want(t, "POST", "spool", `{"filament_id": 1000000001}`, 404)
	p.want(t, "POST", "spool", `{}`, 422)
	p.want(t, "GET", "spool/7", "", 404)
	p.want(t, "DELETE", "spool/6", "", 200)
	p.want(t, "DELETE", "spool/6", "", 404)
}

// Lists are in the order of what they show: the weight and the price of a spool do not count for those of its
// filament, and one of several colors is not the color.
func TestOrderOfShownFields(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	for _, fields := range []string{`"color_hex": "FF0000"`, `"color_hex": "880000", "price": 5, "weight": 500`,
		`"multi_color_hexes": "000000,FFFFFF", "multi_color_direction": "coaxial", "spool_weight": 9`} {
		p.want(t, "POST", "filament", `{"density": 1.24, "diameter": 1.75, `+fields+`}`, 200)
	}
	for n := range 3 {
		p.want(t, "POST", "spool", fmt.Sprintf(`{"filament_id": %d, "price": %d, "spool_weight": %[2]d,
			"initial_weight": 100}`, n+1, n+1), 200)
	}
	p.add(t, j{"color": "Teal", "color_hex": "#990000", "purchase_price": 4, "net_weight_grams": 400})
	for path, want := range map[string][]int64{
		"spool?sort=filament.color_hex:asc":          {2, 4, 1, 3},
		"spool?sort=filament.multi_color_hexes:asc":  {3, 1, 2, 4},
		"spool?sort=filament.price:asc":              {4, 2, 1, 3},
		"spool?sort=filament.weight:desc":            {2, 4, 1, 3},
		"spool?sort=filament.spool_weight:asc":       {3, 1, 2, 4},
		"filament?sort=color_hex:asc&name=":          {2, 1, 3},
		"filament?sort=multi_color_hexes:asc&name=":  {3, 1, 2},
		"filament?sort=multi_color_hexes:desc&name=": {3, 1, 2},
	} {
		if got := ids(t, p.want(t, "GET", path, "", 200).body); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// Custom fields that are too long together with those that the item has are rejected.
func TestLongCustomFields(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.want(t, "POST", "filament", `{"density": 1, "diameter": 1.75}`, 200)
	p.want(t, "POST", "spool", `{"filament_id": 1}`, 200)
	p.want(t, "POST", "vendor", `{"name": "x"}`, 200)
	for _, entity := range []string{"spool", "filament", "vendor"} {
		for _, key := range []string{"a", "b", "c"} {
			p.want(t, "POST", "field/"+entity+"/"+key, `{"name": "x", "field_type": "text"}`, 200)
		}
		extra := func(name string) string {
			return fmt.Sprintf(`{"extra": {"%s": "\"%s\""}}`, name, strings.Repeat("x", 45_000))
		}
		item := entity + "/1"
		p.want(t, "PATCH", item, extra("a"), 200)
		p.want(t, "PATCH", item, extra("b"), 200)
		p.want(t, "PATCH", item, extra("c"), 422, `extra must have`)
		p.want(t, "PATCH", item, extra("a"), 200)
		p.want(t, "PATCH", item, `{"extra": {"a": null}}`, 200)
		p.want(t, "PATCH", item, extra("c"), 200)
	}
	long := strings.Repeat("ß", 24_999) // 50,001 bytes with the key and the quotes
	p.want(t, "PATCH", "spool/1", `{"extra": {"a": "\"`+long+`\""}}`, 400, `must have at most 50000 bytes`)
}

// Viewers read, printers do nothing outside of the surface, other tenants have other numbers, and invalid keys
// nothing.
func TestSurfaceAccess(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	path := p.add(t, nil)
	p.want(t, "POST", "vendor", `{"name": "Polymaker"}`, 200)
	p.want(t, "POST", "filament", `{"density": 1.24, "diameter": 1.75, "vendor_id": 1}`, 200)
	viewer := &printer{api.URL, keyOf(t, tenant, "viewer"), p.operator}
	other := newPrinter(t, api, "printer")
	for _, op := range []string{"GET info", "GET health", "GET spool", "GET spool/1", "GET filament", "GET filament/1",
		"GET vendor", "GET vendor/1", "GET material", "GET location", "GET lot-number", "GET article-number",
		"GET setting/",
		"GET setting/currency", "GET field/spool", "PUT spool/1/use", "PUT spool/1/measure", "POST spool",
		"PATCH spool/1",
		"GET setting/locations", "POST setting/currency", "POST backup", "GET search?q=x", "GET export/spools?fmt=csv",
		"GET external/filament", "GET spool/group?group_by=location", "PATCH location/x", "PATCH spool/field/location",
		"POST vendor", "POST filament", "PATCH vendor/1", "DELETE vendor/1", "DELETE filament/1",
		"PATCH filament/1", "POST field/spool/x", "DELETE field/spool/x", "DELETE spool/1"} {
		method, target, _ := strings.Cut(op, " ")
		for _, key := range []string{"", "swk_x", p.key[:len(p.key)-1] + "_", "password"} {
			a := (&printer{url: api.URL, key: key}).want(t, method, target, "{}", 401)
			if key == "" && !strings.Contains(fmt.Sprint(a.header.Values("WWW-Authenticate")), "Basic") {
				t.Errorf("%s: WWW-Authenticate is %q", op, a.header.Values("WWW-Authenticate"))
			}
		}
		if method == "GET" {
			if a := viewer.do(t, method, target, ""); a.status != 200 {
				t.Errorf("%s of a viewer: %d %s", op, a.status, a.body)
			}
		} else {
			viewer.want(t, method, target, "{}", 403)
		}
		if strings.Contains(target, "/1") {
			body := `{"use_weight": 1, "weight": 1, "location": "x", "extra": {}}`
			if strings.HasSuffix(target, "use") {
				body = `{"use_weight": 1}`
			} else if strings.HasPrefix(target, "filament") || strings.HasPrefix(target, "vendor") {
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
		with counted as (insert into counters values ($1, 'spools', 20001, 20001))
		insert into spools (tenant_id, id, number, material_type, color, diameter_mm, net_weight_grams,
			remaining_weight_grams)
		select $1, uuid_v7(), n, 'PLA', 'Black', 1.75, 1000, 900 from generate_series(1, 20001) n`,
		p.operator.Actor.Tenant); err != nil {
		t.Fatal(err)
	}
	want := func(query string, length, last int) {
		t.Helper()
		a := p.inTime(t, "spool"+query)
		var list []struct{ ID int }
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || len(list) != length ||
			list[length-1].ID != last {
			t.Errorf("%s: %d with %d spools: %.200s %v", query, a.status, len(list), a.body, err)
		}
	}
	if a := p.inTime(t, "spool"); a.status != 422 || !strings.Contains(a.body, "at most 20000 of the 20001") {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	want("?limit=20000&offset=1", 20_000, 20_001)
	want("?limit=10&offset=20000", 1, 20_001)
	p.want(t, "GET", "spool?limit=20001", "", 422)
	if a := p.inTime(t, "filament"); a.status != 200 {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}

// inTime returns the answer to a GET of a long list. A busy machine may not read the list within the time of a
// request, and answers 503, or breaks the connection if it has sent a part of the list.
func (p *printer) inTime(t *testing.T, path string) (a answer) {
	t.Helper()
	testkit.Eventually(t, path+" is answered", func() bool {
		a = p.do(t, "GET", path, "")
		return a.status != 503 && a.broken == nil
	})
	return a
}

// The bytes of a list are limited, and of all lists that are being sent: custom fields can be long.
func TestListOfLongFields(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	for _, sql := range []string{
		`with counted as (insert into counters values ($1, 'spools', 310, 310))
		insert into spools (tenant_id, id, number, material_type, color, diameter_mm, net_weight_grams,
			remaining_weight_grams, extra)
		select $1, uuid_v7(), n, 'PLA', 'Black', 1.75, 1000, 900, jsonb_build_object('x', repeat('x', 99000))
		from generate_series(1, 150) n`,
	} {
		if _, err := superuser(t).Exec(t.Context(), sql, p.operator.Actor.Tenant); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"spool": 150, "spool?limit=140": 140, "spool?sort=lot_nr:asc,id:desc": 150} {
		a := p.inTime(t, path)
		var list []struct{ ID int }
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 || len(list) != want {
			t.Fatalf("%s: %d with %d spools: %.200s %v", path, a.status, len(list), a.body, err)
		}
		for i, item := range list {
			if n := map[bool]int{true: 150 - i, false: i + 1}[strings.Contains(path, "sort")]; item.ID != n {
				t.Fatalf("%s: the spool at %d has the id %d, want %d", path, i, item.ID, n)
			}
		}
	}
	p.want(t, "GET", "spool?limit=10&offset=140", "", 200)
	p.want(t, "GET", "spool?limit=10&offset=150", "", 200)

	// A caller that does not read long lists cannot make the service keep many of them. On a busy machine the first of
	// these lists may have reached its time limit before the last one begins, so more follow until one is refused.
	readers := 0
	testkit.Eventually(t, "lists that are not read use up the memory of their caller", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		testkit.Check(t, err)
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET %sspool?limit=140 HTTP/1.1\r\nHost: farm.example\r\nX-API-Key: %s\r\n\r\n", surface, p.key)
		begin := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, begin); err != nil {
			t.Fatal(err)
		}
		if readers++; readers > 100 {
			t.Fatal("the service keeps any number of lists that are not read")
		}
		return string(begin) == "HTTP/1.1 503"
	})
	other := &printer{api.URL, keyOf(t, tenant, "operator"), p.operator}
	other.want(t, "GET", "spool?limit=60", "", 200)
}

// The audit log names who has exported what by this API.
func TestExportIsLogged(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
	p.want(t, "GET", "export/spools?fmt=xml", "", 422)
	p.want(t, "GET", "spool", "", 200)
	log := tenant.User(t, "admin")
	log.Get(t, "/api/v1/audit-log?action=data.exported").Want(200).Shows(map[string]string{"total": "0"})
	for i, what := range []string{"spools?fmt=csv", "filaments?fmt=json", "vendors?fmt=csv"} {
		if a := p.do(t, "GET", "export/"+what, ""); a.status != 200 {
			t.Fatalf("export/%s: %d %s", what, a.status, a.body)
		}
		kind, _, _ := strings.Cut(what, "?")
		log.Get(t, "/api/v1/audit-log?action=data.exported").Want(200).Shows(map[string]string{"total": fmt.Sprint(i + 1),
			"items.0.object_kind": kind, "items.0.actor_kind": "api_key", "items.0.actor_name": "printer"})
	}
}
