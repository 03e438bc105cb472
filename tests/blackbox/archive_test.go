package blackbox_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/accounts"
	"spoolwright/auth/archive"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/tests/testkit"
)

// installation is a database of its own, with the service on it.
type installation struct {
	*testAPI
	name  string
	super *pgx.Conn
	owner tables.Owner
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	name := testkit.MigratedDatabase(t)
	in := &installation{name: name, owner: tables.Owner{URL: testkit.WithDatabase(testkit.Private().OwnerURL(), name)}}
	d, err := db.Open(t.Context(), db.Config{URL: testkit.WithDatabase(testkit.Private().AppURL(), name), MaxConns: 4})
	check(t, err)
	t.Cleanup(d.Close)
	in.super, err = pgx.Connect(t.Context(), testkit.WithDatabase(testkit.Private().SuperURL(), name))
	check(t, err)
	t.Cleanup(func() { in.super.Close(context.Background()) })
	in.testAPI = newTestAPI(t, testkit.Options{DB: d, PerMinute: 1_000_000, PerHour: 10_000_000})
	return in
}

// run runs a command of the program in the installation.
func (in *installation) run(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	call := &cli.Call{In: bytes.NewReader(stdin), Out: &out, Err: &out, DB: in.api.DB, Owner: in.owner}
	_, run, err := cli.Parse(slices.Concat(archive.Commands, accounts.Commands(1000)), args, call)
	if err == nil {
		err = run(t.Context(), call)
	}
	return out.String(), err
}

func (in *installation) must(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	out, err := in.run(t, stdin, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

// export returns the file of the fixture's tenant.
func (in *installation) export(t *testing.T, tenant string, flags ...string) []byte {
	t.Helper()
	return []byte(in.must(t, nil, append([]string{"tenant", "export", "tenant " + tenant, "-"}, flags...)...))
}

// refuses checks that the installation does not import a file, with one line that has the text.
func (in *installation) refuses(t *testing.T, file []byte, want string, flags ...string) {
	t.Helper()
	out, err := in.run(t, file, append([]string{"tenant", "import", "-"}, flags...)...)
	if err == nil || out != "" || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) ||
		!strings.HasPrefix(err.Error(), "nothing was imported: ") {
		t.Errorf("the import prints %q, and the error is %v, want %q in it", out, err, want)
	}
}

// rows returns all rows of a tenant, as sorted JSON, by table.
func (in *installation) rows(t *testing.T, tenant string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	names, err := in.super.Query(t.Context(), `select c.relname from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace`)
	check(t, err)
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	check(t, err)
	for _, table := range tables {
		rows, err := in.super.Query(t.Context(), `select to_jsonb(r)::text from `+pgx.Identifier{table}.Sanitize()+
			` r where tenant_id = $1 order by 1`, tenant)
		check(t, err)
		all[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
	}
	return all
}

// notInFiles are the tables that a file does not have, with the reason.
var notInFiles = map[string]string{
	"sessions": "of the installation", "login_addresses": "of the installation", "sign_on_uses": "of the installation",
	"idempotency_keys": "of the installation", "queue_signals": "made by the import",
	"queue_items": "made by the service", "webhook_emails": "of the installation", "link_emails": "of the installation",
	"printer_leases": "of the installation", "deleted_rows": "for clients of the installation",
	"usage_days": "made by the service", "usage_changes": "made by the service", "usage_summaries": "made by the service",
}

// fullFarm creates a tenant that has rows in all tables of tenants but notInFiles.
func (in *installation) fullFarm(t *testing.T) *fixture {
	t.Helper()
	f := in.newFullFixture(t)
	c := f.admin
	factor := f.tenant.User(t, "viewer")
	app := factor.Post(t, "/api/v1/auth/otp", testkit.JSON{"current_password": testkit.Password}).Want(200).Text("secret")
	factor.Post(t, "/api/v1/auth/otp/confirm", testkit.JSON{"otp": testkit.TOTP(app, time.Now())}).Want(200)
	user := f.create(t, "/api/v1/users", "/api/v1/users")
	c.Delete(t, "/api/v1/users/"+user).Want(204)
	c.With("Idempotency-Key", "once").Post(t, "/api/v1/spools", blackSpool).Want(201)
	for _, hidden := range []string{"/api/v1/spools", "/api/v1/products"} {
		c.Delete(t, hidden+"/"+f.create(t, hidden, hidden)).Want(204)
	}
	inColors := c.Post(t, "/api/v1/products", testkit.JSON{"name": "In colors",
		"plates": []testkit.JSON{{"materials": []testkit.JSON{
			{"material_type": "PLA", "color": "Black", "weight_grams": 1}, {"material_type": "PLA", "color": "Red",
				"weight_grams": 1}}}}}).Want(201).ID()
	gone := c.Post(t, "/api/v1/filaments", testkit.JSON{"material_type": "PLA", "color": "Gone", "diameter_mm": 1.75}).
		Want(201).ID()
	c.Post(t, "/api/v1/products", testkit.JSON{"variant_of": inColors, "selling_price": 3, "variant_materials": []testkit.JSON{
		{"replaces_color": "Black", "color": "Blue"}, {"filament_id": gone}}}).Want(201)
	c.Delete(t, "/api/v1/filaments/"+gone).Want(204) // hidden
	c.Post(t, "/api/v1/products", testkit.JSON{"name": "On plates",
		"plates": []testkit.JSON{{"pieces_per_plate": 2}, {}}}).
		Want(201)
	// What other rows name is hidden.
	filament := c.Post(t, "/api/v1/filaments", testkit.JSON{"material_type": "PLA", "color": "Jade", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201).ID()
	old := c.Post(t, "/api/v1/spools", testkit.JSON{"filament_id": filament}).Want(201).ID()
	away := c.Post(t, "/api/v1/printers", testkit.JSON{"name": "Away"}).Want(201).ID()
	jade := c.Post(t, "/api/v1/products", testkit.JSON{"name": "Of jade",
		"materials": []testkit.JSON{{"filament_id": filament, "weight_grams": 1}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs", testkit.JSON{"printer_id": away, "items": []testkit.JSON{{"product_id": jade}},
		"materials": []testkit.JSON{{"spool_id": old, "actual_weight_grams": 1}}, "status": "completed"}).Want(201)
	for _, path := range []string{"spools/" + old, "filaments/" + filament, "printers/" + away} {
		c.Delete(t, "/api/v1/"+path).Want(204)
	}
	odd := "\\.\n\\N\t\"'\\\r\x01 漢字 \u200f"
	spool := c.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Odd", "diameter_mm": 1.75,
		"net_weight_grams": 1000, "purchase_price": 19.99, "notes": odd + strings.Repeat("é", 9000)}).Want(201).ID()
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 0.000001, "reason": "Grüße"}).Want(200)
	c.Post(t, "/api/v1/spools/"+spool+"/refill", testkit.JSON{"lot_number": "L2"}).Want(200)
	c.With("Content-Type", "text/csv").Post(t, "/api/v1/spools/import",
		"material_type,color,diameter_mm,net_weight_grams\nPLA,Listed,1.75,1000\n").Want(200)
	key := "/api/v1/api-keys/" + f.create(t, "/api/v1/api-keys", "/api/v1/api-keys")
	c.Post(t, key+"/rotate", nil).Want(200)
	c.Delete(t, key).Want(204)
	printer := f.create(t, "/api/v1/printers", "/api/v1/printers")
	c.Post(t, "/api/v1/printer-states", testkit.JSON{"states": []testkit.JSON{{"printer_id": printer, "sequence": 1,
		"state": "idle", "slots": []testkit.JSON{{"slot": "A1", "tag": "4E9A3C01"}}}}}).Want(200)
	c.Do(t, "PUT", "/api/v1/printers/"+printer+"/slots/1", testkit.JSON{"spool_id": spool}).Want(200)
	tenant := `'` + f.tenant.ID + `'`
	testkit.ExecURL(t, testkit.WithDatabase(testkit.Private().SuperURL(), in.name),
		`insert into spoolman_items values (`+tenant+`, 'spool', '1 x', '`+spool+`', '{}')`,
		`insert into printer_settings values (`+tenant+`, 'currency', '"EUR"')`,
		`insert into shop_orders (tenant_id, shop_id, number) select tenant_id, id, '1' from shops
			where tenant_id = `+tenant+` limit 1`,
		`insert into first_steps (tenant_id, samples_at) values (`+tenant+`, '2024-01-01')`,
		`insert into sample_rows values (`+tenant+`, '`+spool+`')`,
		`insert into import_columns values (`+tenant+`, 'spools', '{"Sorte":"material_type","Bild":""}')`,
		`insert into file_orders (tenant_id, source, reference, order_id, merged) select tenant_id, 'etsy', '1', id, '{}'
			from orders where tenant_id = `+tenant+` limit 1`)
	if len(in.rows(t, f.tenant.ID)["filament_catalog"]) == 0 {
		testkit.ExecURL(t, testkit.WithDatabase(testkit.Private().SuperURL(), in.name),
			`insert into filament_catalog (tenant_id, id, external_id, vendor, name, material_type, material_name, color,
				diameter_mm, density_g_cm3, net_weight_grams)
			values (`+tenant+`, gen_random_uuid(), 'x', 'v', 'n', 'PLA', 'PLA', 'Red', 1.75, 1.24, 1000)`)
	}
	return f
}

// A file with all parts brings all rows of a farm, and nothing else, into another installation, where it works as
// before. A new table must be filled by fullFarm, and so compared, or be in notInFiles.
func TestArchiveHasAllRows(t *testing.T) {
	t.Parallel()
	from, to := newInstallation(t), newInstallation(t)
	for _, setting := range []string{"timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "bytea_output = 'escape'",
		"intervalstyle = 'iso_8601'"} {
		testkit.ExecURL(t, testkit.WithDatabase(testkit.Private().SuperURL(), to.name),
			`alter database `+to.name+` set `+setting)
	}
	f := from.fullFarm(t)
	key := f.tenant.Key(t, "operator")
	neighbor := from.newFixture(t)
	neighbor.admin.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Neighborly",
		"diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201)
	resident := to.newFixture(t)
	resident.admin.Post(t, "/api/v1/spools", blackSpool).Want(201)
	residents := to.rows(t, resident.tenant.ID)

	file := from.export(t, f.tenant.ID, "--users", "--keys", "--webhooks")
	before := from.rows(t, f.tenant.ID)
	text := lines(t, file)
	for _, secret := range []string{neighbor.tenant.ID, "Neighborly", neighbor.admin.Actor.User} {
		testkit.Lacks(t, text, secret, "the file has %q of another tenant", secret)
	}
	out := to.must(t, file, "tenant", "import", "-")
	if !strings.Contains(out, "imported the tenant") || strings.Contains(out, "user add") {
		t.Errorf("the import prints %q", out)
	}
	after := to.rows(t, f.tenant.ID)
	for table, rows := range before {
		if notInFiles[table] != "" {
			continue
		}
		if len(rows) == 0 {
			t.Errorf("fullFarm has no rows of %s", table)
		}
		if !slices.Equal(after[table], rows) {
			t.Errorf("the table %s differs:\n%.2000s\nwant\n%.2000s", table, after[table], rows)
		}
	}
	for _, kind := range []string{db.Webhook, db.Stock} {
		testkit.Contains(t, strings.Join(after["queue_signals"], "\n"), `"`+kind+`"`,
			"the import added no %s to the queue", kind)
	}
	for table := range notInFiles {
		if table != "queue_signals" && len(after[table]) > 0 {
			t.Errorf("the table %s has %q", table, after[table])
		}
	}
	if now := to.rows(t, resident.tenant.ID); !maps.EqualFunc(now, residents, slices.Equal) {
		t.Error("the import changed another tenant")
	}

	// The users log in, the keys work, and the pages of the API are the same.
	moved := *f.admin
	moved.API = to.api
	login := testkit.JSON{"email": f.admin.Email, "password": testkit.Password}
	moved.Token = to.api.Anonymous().Post(t, "/api/v1/auth/login", login).Want(200).Text("access_token")
	for path, old := range f.snapshot(t) {
		if strings.Contains(path, "/auth/") || strings.HasSuffix(path, "/api-keys") || strings.HasSuffix(path, "/queue") ||
			strings.HasSuffix(path, "/audit-log") {
			continue // sessions, uses of keys, times that begin now, and new entries of logs
		}
		testkit.Equal(t, string(moved.Get(t, path).Want(200).Body), old, "GET %s", path)
	}
	// Numbers continue, and what was hidden can be shown again.
	movedKey := *key
	movedKey.API = to.api
	var numbers []string
	for _, c := range []*testkit.Client{f.admin, &moved} {
		spool := c.Post(t, "/api/v1/spools", blackSpool).Want(201)
		numbers = append(numbers, spool.Text("number")+" "+
			c.Post(t, "/api/v1/vendors", testkit.JSON{"name": "Next"}).Want(201).Text("number")+" "+
			c.Get(t, "/api/v1/spools?limit=1").Want(200).Text("total"))
	}
	testkit.Equal(t, numbers[1], numbers[0], "the next numbers, and the total")
	spool := movedKey.Get(t, "/api/v1/spools?color=odd").Want(200).Text("items.0.id")
	movedKey.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
	to.refuses(t, file, "the tenant already exists in this installation")
	to.refuses(t, file, "the tenant already exists in this installation", "--name", "another")

	// A tenant that was removed can be restored.
	to.must(t, nil, "tenant", "remove", "tenant "+f.tenant.ID, "--yes")
	to.must(t, file, "tenant", "import", "-", "--name", "Restored")
	before["tenants"][0] = strings.Replace(before["tenants"][0], "tenant "+f.tenant.ID, "Restored", 1)
	if restored := to.rows(t, f.tenant.ID); !slices.Equal(restored["tenants"], before["tenants"]) ||
		!slices.Equal(restored["spool_usage"], before["spool_usage"]) {
		t.Error("the restored tenant differs")
	}
}

var blackSpool = testkit.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}

// lines returns the text in a file.
func lines(t *testing.T, file []byte) string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	check(t, err)
	text, err := io.ReadAll(zip)
	check(t, err)
	return string(text)
}

// unpacksTo reports whether a file, which may be damaged, contains the text.
func unpacksTo(file []byte, text string) bool {
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return false
	}
	got, err := io.ReadAll(zip)
	return err == nil && string(got) == text
}

// rewritten returns a file with another text in it and the right checksum.
func rewritten(t *testing.T, file []byte, change func(string) string) []byte {
	t.Helper()
	text := change(lines(t, file))
	end := strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1
	sum := sha256.Sum256([]byte(text[:end]))
	text = text[:end] + regexp.MustCompile(`"sha256":"[0-9a-f]*"`).
		ReplaceAllString(text[end:], `"sha256":"`+hex.EncodeToString(sum[:])+`"`)
	return zipped(t, text)
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	check(t, err)
	_, err = io.WriteString(zip, text)
	check(t, errors.Join(err, zip.Close()))
	return b.Bytes()
}

// A file without parts has no secret. The farm's data are the same, and the ledger shows the names of the users and
// keys. An admin who was created afterwards uses the farm.
func TestArchiveWithoutSecrets(t *testing.T) {
	t.Parallel()
	from, to := newInstallation(t), newInstallation(t)
	f := from.fullFarm(t)
	spool := f.admin.Post(t, "/api/v1/spools", blackSpool).Want(201).ID()
	for _, c := range []*testkit.Client{f.admin, f.tenant.Key(t, "operator")} {
		c.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
	}
	usage := "/api/v1/spools/" + spool + "/usage"
	ledger := string(f.admin.Get(t, usage).Want(200).Body)
	file := from.export(t, f.tenant.ID)
	text := lines(t, file)
	secrets, err := from.super.Query(t.Context(), `select t.relname, a.attname from pg_class t
		join pg_attribute a on a.attrelid = t.oid and a.attname ~ '(hash|secret|password)'
		where t.relkind = 'r' and t.relnamespace = 'public'::regnamespace and t.relname not like 'schema%'`)
	check(t, err)
	type column struct{ Table, Name string }
	columns, err := pgx.CollectRows(secrets, pgx.RowToStructByPos[column])
	check(t, err)
	found := 0
	for _, column := range columns {
		var values []string
		check(t, from.super.QueryRow(t.Context(), `select coalesce(array_agg(`+column.Name+`::text), '{}')
			from `+column.Table+` where `+column.Name+` is not null`).Scan(&values))
		for _, value := range values {
			found++
			testkit.Lacks(t, text, strings.TrimPrefix(value, `\x`),
				"the file has a value of %s.%s", column.Table, column.Name)
		}
	}
	if len(columns) < 6 || found < 6 {
		t.Errorf("%d values of %v", found, columns)
	}
	before := from.rows(t, f.tenant.ID)
	out := to.must(t, file, "tenant", "import", "-", "--name", "At home")
	testkit.Contains(t, out, `user add --role admin --email E --name N --tenant "At home"`, "the import")
	after := to.rows(t, f.tenant.ID)
	partly := []string{"tenants", "users", "former_users", "api_keys", "webhooks", "webhook_deliveries",
		"login_directory", "key_directory", "shops", "shop_orders", "printer_connections", "shop_directory", "user_otps",
		"sign_on_providers"}
	for table, rows := range before {
		if notInFiles[table] == "" && !slices.Contains(partly, table) && !slices.Equal(after[table], rows) {
			t.Errorf("the table %s differs:\n%.2000s\nwant\n%.2000s", table, after[table], rows)
		}
	}
	for _, table := range []string{"users", "user_otps", "webhooks", "webhook_deliveries", "login_directory",
		"key_directory"} {
		testkit.Equal(t, len(after[table]), 0, "rows of %s", table)
	}
	stock := fmt.Sprintf(`{"kind": "stock", "item_id": "%[1]s", "tenant_id": "%[1]s"}`, f.tenant.ID)
	testkit.EqualSlices(t, slices.Compact(after["queue_signals"]), []string{stock}, "the queue")
	to.must(t, []byte(testkit.Password), "user", "add", "--role", "admin", "--email", "new@farm.example", "--name", "New",
		"--tenant", "At home", "--password-stdin")
	admin := *f.admin
	admin.API = to.api
	admin.Token = to.api.Anonymous().Post(t, "/api/v1/auth/login", testkit.JSON{"email": "new@farm.example",
		"password": testkit.Password}).Want(200).Text("access_token")
	testkit.Equal(t, string(admin.Get(t, usage).Want(200).Body), ledger, "the ledger")
	admin.Get(t, "/api/v1/api-keys?revoked=false").Want(200).WantLen(t, "items", 0)
}

// An admin downloads the file without secrets, from the API and from the page. Others cannot, and a farm has one
// download at a time.
func TestArchiveDownload(t *testing.T) {
	t.Parallel()
	from, to := newInstallation(t), newInstallation(t)
	f := from.fullFarm(t)
	const path = "/api/v1/tenant/export"
	downloaded := f.admin.Get(t, path).Want(200)
	testkit.Equal(t, downloaded.Header.Get("Content-Disposition"), `attachment; filename="farm.gz"`,
		"Content-Disposition")
	header := regexp.MustCompile(`^.*\n`)
	content := func(file []byte) []string { // without the time of the export
		return strings.Split(header.ReplaceAllString(lines(t, file), ""), "\n")
	}
	got, want := content(downloaded.Body), content(from.export(t, f.tenant.ID))
	testkit.Equal(t, len(got)+1, len(want), "lines of the file, and the entry of the second export in the audit log")
	to.must(t, downloaded.Body, "tenant", "import", "-")
	testkit.EqualSlices(t, to.rows(t, f.tenant.ID)["spools"], from.rows(t, f.tenant.ID)["spools"], "spools")
	for _, c := range []*testkit.Client{f.tenant.User(t, "operator"), f.tenant.Key(t, "operator")} {
		c.Get(t, path).Want(403)
	}
	lock := f.admin.Hold(t, `select pg_advisory_xact_lock(hashtextextended('snapshot ' || '`+f.tenant.ID+`', 0))`)
	if a := f.admin.Get(t, path).WantError(503, "UNAVAILABLE"); a.Header.Get("Retry-After") == "" {
		t.Error("a 503 without Retry-After")
	}
	from.newFixture(t).admin.Get(t, path).Want(200)
	lock.Commit()
	f.admin.Get(t, path).Want(200)
}

// Files that are foreign, damaged or newer, and files that conflict with what there is, are refused with one line, and
// leave nothing behind.
func TestArchiveRefusals(t *testing.T) {
	t.Parallel()
	from, to := newInstallation(t), newInstallation(t)
	f := from.fullFarm(t)
	file := from.export(t, f.tenant.ID, "--users", "--keys", "--webhooks")
	other := to.newFixture(t)

	const foreign, damaged = "was not written by tenant export", "damaged"
	to.refuses(t, nil, foreign)
	to.refuses(t, []byte("name,color\nx,red\n"), foreign)
	to.refuses(t, zipped(t, "name,color\nx,red\n"), foreign)
	to.refuses(t, zipped(t, `{"file":"another","version":1}`+"\n"), foreign)
	for at := 0; at < len(file); at += max(1, len(file)/testkit.InCI(testkit.InRigs(60, 200), 1000)) {
		to.refuses(t, file[:at], damaged)
		flipped := bytes.Clone(file)
		flipped[at] ^= 0xff
		// In a text that repeats itself, gzip can refer to another place with the same text: then nothing is damaged.
		if at < 10 || !unpacksTo(flipped, lines(t, file)) {
			to.refuses(t, flipped, damaged)
		}
	}
	to.refuses(t, file[:len(file)-1], damaged)
	to.refuses(t, append(bytes.Clone(file), 'x'), damaged)
	to.refuses(t, append(bytes.Clone(file), file...), damaged)
	change := func(old, new string) []byte {
		t.Helper()
		return rewritten(t, file, func(text string) string {
			if !strings.Contains(text, old) {
				t.Fatalf("the file does not have %q", old)
			}
			return strings.Replace(text, old, new, 1)
		})
	}
	to.refuses(t, zipped(t, strings.Replace(lines(t, file), "Grüße", "Küsse", 1)), damaged)
	to.refuses(t, change(`"spools":`, `"spools":1`), damaged)
	to.refuses(t, change(`"version":1`, `"version":2`), "written by a newer program")
	to.refuses(t, change(`"schema":`, `"schema":9`), "which this program does not know")
	to.refuses(t, change(`"table":"spools"`, `"table":"robots"`), damaged) // the number of rows is that of spools
	to.refuses(t, rewritten(t, file, func(text string) string {
		return strings.NewReplacer(`"table":"spools"`, `"table":"robots"`, `"spools":`, `"robots":`).Replace(text)
	}), `the table "robots"`)
	to.refuses(t, rewritten(t, file, func(text string) string {
		return strings.NewReplacer(`"table":"spools"`, `"table":"queue_items"`, `"spools":`, `"queue_items":`).Replace(text)
	}), `the table "queue_items"`)
	to.refuses(t, change(`"number"`, `"numero"`), `the column "numero"`)
	to.refuses(t, change("Grüße", "\\xff"), "rejects the rows")
	to.refuses(t, change("\tdeducted\t", "\tstolen\t"), "rejects 1 rows of the table spool_usage")
	to.refuses(t, rewritten(t, file, func(text string) string {
		begin := strings.Index(text, `{"table":"spools"`)
		return text[:begin] + strings.Replace(text[begin:], "\tPLA\t", "\tPLU\t", 1)
	}), "rejects the rows of the table spools")
	to.refuses(t, change(f.tenant.ID, "x"), damaged)
	to.refuses(t, file, "there is already a tenant", "--name", "tenant "+other.tenant.ID)
	to.refuses(t, file, "the tenant name must have", "--name", " x")
	testkit.ExecURL(t, testkit.WithDatabase(testkit.Private().SuperURL(), to.name),
		`insert into login_directory values ('`+f.admin.Email+`', '`+other.tenant.ID+`', '`+other.admin.Actor.User+`')`)
	to.refuses(t, file, "has the e-mail "+f.admin.Email)
	for table, rows := range to.rows(t, f.tenant.ID) {
		testkit.Equal(t, len(rows), 0, "rows of %s", table)
	}

	// A file of an earlier program lacks columns, which get their defaults.
	older := rewritten(t, from.export(t, f.tenant.ID), func(text string) string {
		begin := strings.Index(text, `{"table":"printer_settings"`)
		return text[:begin] + strings.Replace(text[begin:], `["key","value","updated_at"]`, `["key","value"]`, 1)
	})
	older = rewritten(t, older, func(text string) string {
		return regexp.MustCompile(`(?m)^(currency\t"EUR")\t.*$`).ReplaceAllString(text, "$1")
	})
	to.must(t, older, "tenant", "import", "-")
	testkit.Equal(t, len(to.rows(t, f.tenant.ID)["printer_settings"]), 1, "settings of the older file")
	to.must(t, nil, "tenant", "remove", "tenant "+f.tenant.ID, "--yes")
	if _, err := from.run(t, nil, "tenant", "export", "tenant x", "-"); err == nil {
		t.Error("an unknown tenant was exported")
	}
	dir := tempDir(t)
	if _, err := from.run(t, nil, "tenant", "export", "tenant "+f.tenant.ID, dir+"/missing/file"); err == nil {
		t.Error("a file in a folder that does not exist")
	}
	path := filepath.Join(dir, "farm.gz")
	for range 2 { // the second one replaces the first one
		from.must(t, nil, "tenant", "export", "tenant "+f.tenant.ID, path)
		files, err := os.ReadDir(dir)
		check(t, err)
		info, err := os.Stat(path)
		check(t, err)
		if len(files) != 1 || info.Mode().Perm() != 0o600 {
			t.Errorf("the folder has %v, and the mode is %v", files, info.Mode())
		}
	}
	to.must(t, nil, "tenant", "import", path)
}

// A file whose rows contradict its ledgers is refused with what is wrong, although its checksum is right.
func TestArchiveBreaksRules(t *testing.T) {
	t.Parallel()
	from, to := newInstallation(t), newInstallation(t)
	f := from.api.Tenant(t)
	c := f.User(t, "admin")
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 3)
	spool := c.NewSpool(t, 950, testkit.JSON{"purchase_price": 19})
	other := c.NewRun(t, product, item, 3, nil)
	run := c.NewRun(t, product, item, 3, testkit.JSON{"materials": []testkit.JSON{
		{"spool_id": spool, "actual_weight_grams": 30}}})
	c.Post(t, run+"/complete", nil).Want(200)
	c.Post(t, order+"/deliver", testkit.JSON{"items": []testkit.JSON{{"id": item, "quantity": 2}}}).Want(200)
	file := from.export(t, f.ID)
	for _, r := range []struct{ table, has, column, value, want string }{
		{"spools", spool, "remaining_weight_grams", "940", "has 940 g, and its usage ledger adds up to 920 g"},
		{"spool_usage", "created", "after_grams", "949", "has 920 g, and its usage ledger adds up to 919 g"},
		{"run_materials", spool, "sent_actual_grams", "29", "has used 29 g of the spool 1, and the usage ledger 30 g"},
		{"run_materials", spool, "cost_per_gram", "0.03", "costs 0.57, and its materials 0.9"},
		{"production_runs", path.Base(run), "filament_cost", "5", "costs 5, and its materials 0.57"},
		{"product_pieces", product, "on_hand", "7", "has 7 pieces in stock"},
		{"product_pieces", product, "unvalued", "0", "0 of them without a cost"},
		{"product_pieces", product, "value", "7", "with the value 7"},
		{"piece_entries", "produced", "pieces", "9", "adds up to 7"},
		{"run_items", path.Base(run), "failed_quantity", "1", "has printed 2 pieces, and the ledger of pieces has 3"},
		{"run_items", path.Base(run), "run_id", path.Base(other), "has printed 0 pieces, and the ledger of pieces has 3"},
		{"order_items", item, "delivered", "3", "has 3 delivered pieces, and the ledger of pieces has 2"},
		{"orders", path.Base(order), "unassigned_count", "2", "has the unassigned_count 2, and 0 such lines"},
		{"counters", "spools", "last", "0", "the last number of spools is 0"},
		{"counters", "orders", "total", "4", "the number of orders is 4"},
	} {
		to.refuses(t, edited(t, file, r.table, r.has, r.column, r.value), r.want)
	}
	for table, rows := range to.rows(t, f.ID) {
		testkit.Equal(t, len(rows), 0, "rows of %s", table)
	}
	to.must(t, edited(t, file, "spools", spool, "notes", "changed"), "tenant", "import", "-")
}

// edited returns a file with another value of a column in the only row of a table that has the text.
func edited(t *testing.T, file []byte, table, has, column, value string) []byte {
	t.Helper()
	return rewritten(t, file, func(text string) string {
		lines, at, rows := strings.SplitAfter(text, "\n"), -1, 0
		for i, line := range lines {
			switch {
			case strings.HasPrefix(line, `{"table":`):
				var s struct{ Columns []string }
				check(t, json.Unmarshal([]byte(line), &s))
				if at = -1; strings.HasPrefix(line, `{"table":"`+table+`"`) {
					at = slices.Index(s.Columns, column)
				}
			case at >= 0 && strings.Contains(line, has):
				cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
				cells[at] = value
				lines[i] = strings.Join(cells, "\t") + "\n"
				rows++
			}
		}
		if rows != 1 {
			t.Fatalf("%d rows of %s have %q, or there is no column %s", rows, table, has, column)
		}
		return strings.Join(lines, "")
	})
}

// An import that is killed leaves nothing behind, and can be repeated.
func TestArchiveImportKilled(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	from, to := newInstallation(t), newInstallation(t)
	f := from.fullFarm(t)
	path := filepath.Join(tempDir(t), "farm.gz")
	from.must(t, nil, "tenant", "export", "tenant "+f.tenant.ID, path, "--users")
	env := []string{"DATABASE_URL=" + testkit.WithDatabase(testkit.Private().AppURL(), to.name),
		"MIGRATE_DATABASE_URL=" + to.owner.URL, secretEnv}
	lock := testkit.Hold(t, testkit.WithDatabase(testkit.Private().SuperURL(), to.name),
		`lock table run_materials in access exclusive mode`)
	c := p.launch(t, func(*exec.Cmd) {}, env, "tenant", "import", path)
	killed := lock.Start(1, func() { <-c.exited })
	c.signal(syscall.SIGKILL)
	<-killed
	lock.Commit()
	eventually(t, "PostgreSQL has ended the session of the killed command", func() bool {
		var sessions int
		check(t, to.super.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and usename = 'spoolwright_owner'`).Scan(&sessions))
		return sessions == 0
	})
	for table, rows := range to.rows(t, f.tenant.ID) {
		testkit.Equal(t, len(rows), 0, "rows of %s", table)
	}
	p.succeeds(t, "", env, "tenant", "import", path)
	testkit.EqualSlices(t, to.rows(t, f.tenant.ID)["run_materials"], from.rows(t, f.tenant.ID)["run_materials"],
		"rows of run_materials")
	p.fails(t, 1, env, []string{"tenant", "import", path}, "nothing was imported: the tenant already exists")
}

// Neither the export nor the import keeps the rows of a large farm in the memory.
func TestArchiveOfLargeFarm(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	from, to := newInstallation(t), newInstallation(t)
	f := from.newFixture(t)
	spool := f.admin.Post(t, "/api/v1/spools", blackSpool).Want(201).ID()
	entries := 20_000
	if *testkit.Long {
		entries = 1_000_000
	}
	testkit.ExecURL(t, testkit.WithDatabase(testkit.Private().SuperURL(), from.name), fmt.Sprintf(`
		insert into spool_usage (tenant_id, spool_id, kind, reason, before_grams, after_grams)
		select '%s', '%s', 'measured', repeat(md5(n::text), 3), 900, 900 from generate_series(1, %d) n`,
		f.tenant.ID, spool, entries))
	path := filepath.Join(tempDir(t), "farm.gz")
	for _, in := range []struct {
		*installation
		args []string
	}{
		{from, []string{"tenant", "export", "tenant " + f.tenant.ID, path}},
		{to, []string{"tenant", "import", path}},
	} {
		c := exec.Command(string(p), in.args...)
		c.Env = processEnv([]string{"DATABASE_URL=" + testkit.WithDatabase(testkit.Private().AppURL(), in.name),
			"MIGRATE_DATABASE_URL=" + in.owner.URL, secretEnv})
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		check(t, c.Start())
		ended := make(chan error)
		go func() { ended <- c.Wait() }()
		used := 0 // MiB at most, where the system tells it
		for running := true; running; {
			select {
			case err := <-ended:
				if running = false; err != nil {
					t.Fatalf("%q: %v %s", in.args, err, &out)
				}
			case <-time.After(5 * time.Millisecond):
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
				if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); m != nil {
					kib, _ := strconv.Atoi(string(m[1]))
					used = max(used, kib>>10)
				}
			}
		}
		if t.Logf("%s of %d entries: %d MiB", in.args[1], entries, used); used > 80 {
			t.Errorf("%q uses %d MiB", in.args, used)
		}
	}
	var rows int
	check(t, to.super.QueryRow(t.Context(), `select count(*) from spool_usage where tenant_id = $1`, f.tenant.ID).
		Scan(&rows))
	testkit.Equal(t, rows, entries+1, "entries of the ledger")
}
