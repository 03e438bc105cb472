package inventory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
)

// importer imports into the client's tenant and collects what it tells of bad rows.
func importer(t *testing.T, c *authtest.Client) (i inventory.Importer, ctx context.Context, bad *[]string) {
	t.Helper()
	bad = new([]string)
	return inventory.Importer{DB: c.API.DB, Invalid: func(where string, problems []server.FieldError) {
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
		}
		slices.Sort(fields)
		*bad = append(*bad, where+": "+strings.Join(fields, " "))
	}}, db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), bad
}

func export(t *testing.T, c *authtest.Client, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := inventory.Export(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), c.API.DB, &b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// withoutServerFields parses a CSV export and leaves out the columns that the service sets. Texts are quoted, null is not.
func withoutServerFields(t *testing.T, text string) (rows [][]string) {
	t.Helper()
	r := transfer.NewReader(strings.NewReader(text))
	var keep []int
	for {
		row, _, err := r.Next()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		if rows == nil {
			for i, name := range row {
				if !slices.Contains([]string{"id", "created_at", "updated_at"}, *name) {
					keep = append(keep, i)
				}
			}
		}
		var kept []string
		for _, i := range keep {
			text := "null"
			if row[i] != nil {
				text = strconv.Quote(*row[i])
			}
			kept = append(kept, text)
		}
		rows = append(rows, kept)
	}
}

// What was exported can be imported elsewhere, and nothing is lost, whatever is in it.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{}, inventory.Routes)
	from, to := api.Operator(t), api.Operator(t)
	base := authtest.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	var ids []string
	for _, changes := range []authtest.JSON{
		{},
		{"brand": "", "finish": "", "supplier": "", "notes": ""},
		{"brand": "a, b", "color": `say "black"`, "notes": "one\r\ntwo\nthree\rfour\n\n", "finish": " silk ", "supplier": `"`},
		{"color": "=1+1", "brand": "Größe №5 \U0001f9f5", "notes": "\ufeffmark", "supplier": "null"},
		{"net_weight_grams": 0.000001, "remaining_weight_grams": 999999.999999, "spool_weight_grams": 0, "purchase_price": 12.345678, "purchase_date": "2024-02-29", "color_hex": "#a0B1c2"},
		{"material_type": "Custom", "diameter_mm": 2.85, "remaining_weight_grams": 0},
	} {
		body := maps.Clone(base)
		maps.Copy(body, changes)
		ids = append(ids, from.Post(t, "/api/v1/spools", body).Want(201).ID())
	}
	gone := from.Post(t, "/api/v1/spools", base).Want(201).ID()
	from.Delete(t, "/api/v1/spools/"+gone).Want(204)

	text := export(t, from, "csv")
	i, ctx, bad := importer(t, to)
	done, err := i.CSV(ctx, strings.NewReader(text))
	if err != nil || done != (inventory.ImportResult{Created: len(ids)}) || len(*bad) > 0 {
		t.Fatalf("%+v %v %v", done, err, *bad)
	}
	want, got := withoutServerFields(t, text), withoutServerFields(t, export(t, to, "csv"))
	if !slices.EqualFunc(want, got, slices.Equal) {
		t.Errorf("exported\n%v\nimported\n%v", want, got)
	}

	// JSON lines are what the API shows.
	lines := strings.Split(strings.TrimSuffix(export(t, from, "jsonl"), "\n"), "\n")
	if len(lines) != len(ids) {
		t.Fatalf("%d lines", len(lines))
	}
	for n, id := range ids {
		if shown := from.Get(t, "/api/v1/spools/"+id).Want(200).Body; string(shown) != lines[n] {
			t.Errorf("line %d is\n%s\nthe API shows\n%s", n, lines[n], shown)
		}
	}

	// Imported spools are like others: in lists, with a ledger, for their own tenant only.
	list := to.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(len(ids)), "items.0.material_type": "Custom"})
	usage := to.Get(t, "/api/v1/spools/"+list.Text("items.1.id")+"/usage").Want(200)
	usage.Shows(map[string]string{"total": "1", "items.0.kind": "created", "items.0.before_grams": "0", "items.0.after_grams": "999999.999999", "items.0.user_id": "null"})
	from.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(len(ids))})
	to.Post(t, "/api/v1/spools/"+list.Text("items.1.id")+"/deduct", authtest.JSON{"weight_grams": 1}).Want(200)
}

func TestExportPages(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	var b strings.Builder
	b.WriteString("material_type,color,diameter_mm,net_weight_grams\n")
	for n := range 1203 {
		fmt.Fprintf(&b, "PLA,%04d,1.75,1000\n", n)
	}
	i, ctx, _ := importer(t, c)
	if done, err := i.CSV(ctx, strings.NewReader(b.String())); err != nil || done.Created != 1203 {
		t.Fatalf("%+v %v", done, err)
	}
	rows := withoutServerFields(t, export(t, c, "csv"))[1:]
	for n, row := range rows {
		if row[2] != fmt.Sprintf(`"%04d"`, n) {
			t.Fatalf("row %d is %v", n, row)
		}
	}
	if len(rows) != 1203 {
		t.Errorf("%d rows", len(rows))
	}
}

const header = "material_type,color,diameter_mm,net_weight_grams"

func TestImportNamesEveryBadRow(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	i, ctx, bad := importer(t, c)
	file := "\ufeffnotes," + header + ",brand,remaining_weight_grams,color_hex,purchase_price,purchase_date,id,cost_per_gram\r\n" +
		"\"two\r\nlines\",PLA,Black,1.75,1000,,,,,,x,y\r\n" + // 2 and 3
		",PLO,,2,x,,-1,red,1e400,2024-02-30,,\n" + // 4
		"\n" +
		",PLA,Black,1.75,1000\n" + // 6
		"\"a\" b,PLA,Black,1.75,1000,,,,,,,\n" + // 7
		",PLA,\"\",1.75,0,,,,,,,\n" + // 8
		",PLA,Black,1.75,0.000001,,,,1000000,,,\n" + // 9
		"\"three\n\n\",PLA,Black,1.75,1000,,,,,,,,\n" + // 10 to 12
		",PLA,Black, 1.75 ,1000,,,,,,," // 13
	done, err := i.CSV(ctx, strings.NewReader(file))
	want := []string{
		"line 4: color color_hex diameter_mm material_type net_weight_grams purchase_date purchase_price remaining_weight_grams",
		"line 6: row", "line 7: row", "line 8: color net_weight_grams", "line 9: purchase_price", "line 10: row",
	}
	if err != inventory.InvalidRows(len(want)) || done != (inventory.ImportResult{Invalid: len(want)}) || !slices.Equal(*bad, want) {
		t.Errorf("%+v %v\n%s", done, err, strings.Join(*bad, "\n"))
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
}

func TestImportRefusesFiles(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	for file, want := range map[string]string{
		"":                           "empty",
		"\n\n":                       "empty",
		header + ",weight\n":         `unknown column "weight"`,
		header + ",Color\n":          `unknown column "Color"`,
		header + ",color\n":          "appears twice",
		"material_type,color\n":      "diameter_mm is missing",
		"material_type;color\nPLA;x": "commas",
		header + "\nPLA,\"" + strings.Repeat("x\n", 600_000): "line 2: a row is longer",
	} {
		i, ctx, bad := importer(t, c)
		if _, err := i.CSV(ctx, strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) || len(*bad) > 0 {
			t.Errorf("%.60q: %v %v, want %q", file, err, *bad, want)
		}
	}
	i, ctx, bad := importer(t, c)
	if _, err := i.CSV(ctx, strings.NewReader(header+"\nPLA,Black,1.75,1000\nPLA,\"Bl")); err != inventory.InvalidRows(1) || !slices.Equal(*bad, []string{"line 3: row"}) {
		t.Errorf("a quote that is never closed: %v %v", err, *bad)
	}
	if done, err := i.CSV(ctx, strings.NewReader(header)); err != nil || done != (inventory.ImportResult{}) {
		t.Errorf("no rows: %+v %v", done, err)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
}

// An import and the API say the same of the same values.
func TestImportAgreesWithTheAPI(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	good := map[string]string{"material_type": `"PLA"`, "color": `"Black"`, "diameter_mm": "1.75", "net_weight_grams": "1000", "purchase_price": "20"}
	for field, values := range map[string][]string{
		"material_type":          {`"PETG"`, `"petg"`, `"X"`},
		"color":                  {`"x"`, `"   "`, `"` + strings.Repeat("é", 200) + `"`, `"` + strings.Repeat("é", 201) + `"`},
		"brand":                  {`""`, `"` + strings.Repeat("x", 201) + `"`},
		"color_hex":              {`"#00ff00"`, `"00ff00"`, `"#00ff0"`},
		"diameter_mm":            {"1.750", "2.85", "2.850001", "1.7", "0"},
		"net_weight_grams":       {"0", "0.0000004", "0.0000005", "1000000", "1000000.1", "-1", "1e3", "1E400", "01"},
		"remaining_weight_grams": {"0", "-0", "-0.1", "1000000"},
		"purchase_price":         {"0", "1000000", "1000000.000001"},
		"purchase_date":          {`"2024-02-29"`, `"2023-02-29"`, `"24-01-01"`},
		"notes":                  {`"` + strings.Repeat("x", 10_000) + `"`, `"` + strings.Repeat("x", 10_001) + `"`},
	} {
		for _, value := range values {
			row := maps.Clone(good)
			row[field] = value
			agree(t, c, row)
		}
	}
	for _, price := range []string{"999.999999", "999.9999990000005", "1000", "1000.000001"} { // cost_per_gram around its bound
		row := maps.Clone(good)
		row["net_weight_grams"], row["purchase_price"] = "0.000001", price
		agree(t, c, row)
	}
}

func agree(t *testing.T, c *authtest.Client, row map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(row))
	var members, cells []string
	for _, name := range names {
		members = append(members, `"`+name+`":`+row[name])
		cells = append(cells, row[name])
	}
	i, ctx, bad := importer(t, c)
	done, err := i.CSV(ctx, strings.NewReader(strings.Join(names, ",")+"\n"+strings.Join(cells, ",")+"\n"))
	a := c.Post(t, "/api/v1/spools", "{"+strings.Join(members, ",")+"}")
	// What is no JSON at all is wrong either way.
	if taken := err == nil && done.Created == 1; taken != (a.Status == 201) || !taken && len(*bad) != 1 {
		t.Errorf("%v: the API says %d %s; the import %+v %v %v", row, a.Status, a.Body, done, err, *bad)
	} else if a.Status == 422 && !strings.Contains(string(a.Body), `"field":"`+strings.Fields((*bad)[0])[2]+`"`) {
		t.Errorf("%v: %s, and %v", row, a.Body, *bad)
	}
}

// While an import is under way, others make spools and do not wait for it.
func TestImportHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	i, ctx, _ := importer(t, c)
	rows := 2500
	file := header + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", rows)
	made := 0
	i.Progress = func(n int) {
		if n != 2000 {
			return
		}
		var wg sync.WaitGroup // more than there are shards of the count
		var mu sync.Mutex
		for range 40 {
			wg.Go(func() {
				a, err := c.Send("POST", "/api/v1/spools", authtest.JSON{"material_type": "PETG", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && a.Status == 201 {
					made++
				}
			})
		}
		wg.Wait()
	}
	done, err := i.CSV(ctx, strings.NewReader(file))
	if err != nil || done.Created != rows || made != 80 { // both times that the file is read
		t.Fatalf("%+v %v, %d were made", done, err, made)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows + made)})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows)})
}

// A tenant has one import at a time; others have theirs meanwhile.
func TestImportsTakeTurns(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{}, inventory.Routes)
	c, stranger := api.Operator(t), api.Operator(t)
	const file = "material_type,color,diameter_mm,net_weight_grams\nPLA,Red,1.75,1000\n"
	i, ctx, _ := importer(t, c)
	j, elsewhere, _ := importer(t, stranger)
	err := api.DB.Bulk(ctx, func(context.Context) error {
		if done, err := i.CSV(ctx, strings.NewReader(file)); !errors.Is(err, db.ErrBulk) || done.Created != 0 {
			t.Errorf("a second import: %+v %v", done, err)
		}
		if done, err := j.CSV(elsewhere, strings.NewReader(file)); err != nil || done.Created != 1 {
			t.Errorf("an import of another tenant: %+v %v", done, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if done, err := i.CSV(ctx, strings.NewReader(file)); err != nil || done.Created != 1 {
		t.Errorf("after it: %+v %v", done, err)
	}
}

// An import that is stopped on the way, or whose file changes under its hands, leaves nothing.
func TestImportIsAllOrNothing(t *testing.T) {
	t.Parallel()
	c := authtest.New(t, authtest.Options{}, inventory.Routes).Operator(t)
	file := header + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", 3500)
	i, ctx, _ := importer(t, c)
	ctx, cancel := context.WithCancel(ctx)
	seen := 0
	i.Progress = func(int) {
		if seen++; seen == 6 { // the third time that the database has got something
			cancel()
		}
	}
	if done, err := i.CSV(ctx, strings.NewReader(file)); !errors.Is(err, context.Canceled) || done.Created != 0 {
		t.Errorf("stopped: %+v %v", done, err)
	}
	i, ctx, _ = importer(t, c)
	if done, err := i.CSV(ctx, &changing{strings.NewReader(file), strings.NewReader(file + "PLA,White,1.75,1000\n")}); err == nil || done.Created != 0 {
		t.Errorf("changed: %+v %v", done, err)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": "0"})
}

// changing is a file that is another one when it is read again.
type changing struct {
	*strings.Reader
	then *strings.Reader
}

func (c *changing) Seek(int64, int) (int64, error) {
	c.Reader = c.then
	return 0, nil
}
