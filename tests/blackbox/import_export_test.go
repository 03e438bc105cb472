package blackbox_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// testCommandHelp checks the help of every command, which must work with invalid settings too, and the errors for
// wrong arguments.
func testCommandHelp(t *testing.T, p program) {
	env := []string{"LISTEN_ADDR=nonsense"}
	for command, want := range map[string]string{
		"serve": "DATABASE_URL", "demo": "DATABASE_URL", "migrate": "DATABASE_URL", "version": "-sbom",
		"user": "user add --email", "user add": "-init", "user passwd": "-password-stdin",
		"user disable": "-email", "user enable": "-email", "user list": "-json",
		"user move": "-tenant", "user remove": "-email",
		"tenant": "tenant list", "tenant list": "-json", "tenant rename": "NEW-NAME", "tenant remove": "-yes",
		"tenant export": "-webhooks", "tenant import": "-init",
		"import": "import spoolman", "import spools": "FILE.csv", "import products": "FILE...",
		"import orders":   "FILE...",
		"import spoolman": "-skip-bad",
		"export":          "export production-runs", "export spools": "-format", "export products": "jsonl",
		"export production-runs": "-tenant", "export orders": "-tenant",
	} {
		for _, flag := range []string{"-h", "-help", "--help"} {
			stdout, stderr, code := p.run(t, "", env, append(strings.Fields(command), flag)...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
				t.Errorf("%s %s: status %d, %q is not in\n%s%s", command, flag, code, want, stdout, stderr)
			}
		}
	}
	for _, group := range []string{"user", "tenant", "import", "export"} {
		stdout, stderr, code := p.run(t, "", env, group)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "\n  "+group+" ") {
			t.Errorf("%s alone: status %d, want the help of its commands\n%s%s", group, code, stdout, stderr)
		}
	}
	for command, want := range map[string]string{
		"import frogs x --tenant t":           "import spools, import vendors",
		"export frogs":                        "export production-runs",
		"import spools":                       "is missing",
		"import spools --tenant t":            "is missing",
		"import spools a.csv b.csv":           `unexpected argument "b.csv"`,
		"import spools --tenant t a.csv -x":   "-x",
		"import spools a.csv --skip-bad":      "-skip-bad",
		"import spools a.csv --mode replace":  "create, update or upsert",
		"export spools x --tenant t":          `unexpected argument "x"`,
		"export spools --tenant t --format x": "csv or jsonl",
		"user list --tenant":                  "flag needs an argument",
		"user add --password secret":          "-password",
		"user passwd":                         "--email is missing",
	} {
		p.fails(t, 2, nil, strings.Fields(command), want)
	}
}

// testImportExport runs the commands import and export: invalid rows, a round trip of the sample farm, repeated
// imports, a closed output, and the memory that 100,000 rows take.
func testImportExport(t *testing.T, p program) {
	testkit.Rig(t)
	url := ownerURL(testkit.MigratedDatabase(t))
	env := []string{"DATABASE_URL=" + url, secretEnv, "LOG_LEVEL=error"}
	for _, farm := range []string{"north", "south"} {
		p.succeeds(t, testPassword, env, "user", "add", "--tenant", farm, "--new-tenant",
			"--email", "ada@"+farm+".example", "--name", "Ada\u200f", "--role", "admin", "--password-stdin")
	}
	for _, flag := range []string{"-json", "--json"} {
		for _, command := range []string{"user", "tenant"} {
			var rows []map[string]any
			out := p.succeeds(t, "", env, command, "list", flag)
			if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 {
				t.Errorf("%s list %s: %s, want a JSON array of 2: %v", command, flag, out, err)
			}
		}
	}
	table := strings.Split(p.succeeds(t, "", env, "user", "list"), "\n")
	column := strings.Index(strings.ReplaceAll(table[1], "\ufffd", "x"), "admin")
	if len(table) != 4 || strings.Contains(table[1], "\u200f") || strings.Index(table[0], "ROLE") != column {
		t.Errorf("the columns are not aligned, or a control character was printed:\n%s", strings.Join(table, "\n"))
	}

	dir := tempDir(t)
	file := filepath.Join(dir, "spools.csv")
	write := func(text string) { check(t, os.WriteFile(file, []byte(text), 0o600)) }
	const header = "material_type,color,diameter_mm,net_weight_grams,notes\n"
	lines := func(farm string) int {
		return strings.Count(p.succeeds(t, "", env, "export", "spools", "--tenant", farm, "--format", "jsonl"), "\n")
	}

	write(header + "PLA,Black,1.75,1000,\nPLO,Black,1.75,1000,\nPLA,White,1.75,1000,\"two\nlines\"\nPLA,,1.75,0,\n")
	stdout, stderr, code := p.run(t, "", env, "import", "spools", file, "--tenant", "north")
	want := "line 3: material_type must be one of PLA, PETG, ABS, TPU, ASA, Nylon, PC, HIPS, PVA, Custom; " +
		"the value is \"PLO\"\n" +
		"line 6: net_weight_grams must be greater than 0; the value is \"0\"; color is required\n" +
		"spoolwright: nothing was imported: 2 rows are invalid\n"
	if code != 1 || stdout != "" || stderr != want || lines("north") != 0 {
		t.Errorf("status %d, %d spools\n%s%swant\n%s", code, lines("north"), stdout, stderr, want)
	}
	// At most 50 invalid rows are listed.
	write(header + strings.Repeat("PLA,,1.75,1000,\n", 62))
	_, stderr, code = p.run(t, "", env, "import", "spools", file, "--tenant", "north")
	want = "line 51: color is required\nrows: 12 other rows are invalid\n" +
		"spoolwright: nothing was imported: 62 rows are invalid\n"
	if code != 1 || !strings.HasSuffix(stderr, want) || strings.Count(stderr, "\n") != 52 {
		t.Errorf("status %d: %s, want 50 rows and\n%s", code, stderr, want)
	}
	write(testkit.Workbook(t, testkit.Worksheet{Name: "A", Rows: [][]any{{"Note"}}}, testkit.Worksheet{Name: "B",
		Rows: [][]any{{"material_type", "color", "diameter_mm", "net_weight_grams"}, {"PLA", "Black", 1.75, 1000}}}))
	for _, more := range [][]string{{}, {"--worksheet", "b"}} {
		p.succeeds(t, "", env, append([]string{"import", "spools", file, "--tenant", "north", "--dry-run"}, more...)...)
	}
	write("PK\x03\x04")
	if _, stderr, code = p.run(t, "", env, "import", "spools", file, "--tenant", "north"); code != 1 ||
		!strings.Contains(stderr, "not a spreadsheet of the kind .xlsx") {
		t.Errorf("status %d: %s", code, stderr)
	}
	// Error messages print control characters of the imported file in escaped form.
	controls := `[{"id": "\u001b[2J7", "filament": {"diameter": "\u001b[31mx\nspool 1: ok", "weight": 1000}}]`
	_, stderr, code = p.run(t, controls, env, "import", "spoolman", "-", "--tenant", "north")
	if code != 1 || strings.Contains(stderr, "\x1b") || strings.Count(stderr, "\n") != 3 {
		t.Errorf("status %d: %q, want status 1 and three lines without control characters", code, stderr)
	}
	// A farm's own list needs a word about the column that nobody knows.
	write("Marke;Farbe;Zeug;Gewicht;Wer\neSun;Rot;PLA+;1 kg;Ann\neSun;Rot;PLO;1 kg;Bob\n")
	own := []string{"import", "spools", file, "--tenant", "north", "--default", "diameter_mm=1.75", "--dry-run"}
	refused := func(want string) {
		t.Helper()
		if _, stderr, code := p.run(t, "", env, own...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("status %d: %s, want %s", code, stderr, want)
		}
	}
	refused(`unknown column "Zeug", "Wer"`)
	own = append(own, "--map", "Wer=", "--map", "zeug=material_type")
	refused("line 3: material_type must be one of")
	stdout, stderr, code = p.run(t, "", env, append(own, "--skip-invalid")...)
	if code != 0 || !strings.Contains(stderr, "line 3 is left out: material_type must be one of") ||
		!strings.Contains(stdout, "1 rows: material_type PLA+: type PLA, name PLA+\ninvalid rows left out: 1\n"+
			"spools created: 1; updated: 0;") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	missing := []string{"import", "spools", filepath.Join(dir, "nothing.csv"), "--tenant", "north"}
	p.fails(t, 1, env, missing, "nothing.csv", "no such file")
	p.fails(t, 1, env, []string{"import", "spools", file, "--tenant", "west"}, `no tenant "west"`, `"north"`)
	p.fails(t, 1, env, []string{"export", "spools", "--tenant", "west"}, `no tenant "west"`, `"south"`)
	p.fails(t, 1, env, []string{"export", "spools"}, "name the tenant with --tenant", `"north"`, `"south"`)

	// Import the sample farm into one tenant, export it, and import the export into another tenant.
	sample := absolutePath(t, "testdata/farm/spools.csv")
	if out := p.succeeds(t, "", env, "import", "spools", "--tenant", "north",
		sample); out != "spools created: 354; updated: 0; unchanged: 0; skipped rows: 0\n" {
		t.Errorf("import spools prints %q", out)
	}
	exported := p.succeeds(t, "", env, "export", "spools", "--tenant", "north")
	p.succeeds(t, exported, env, "import", "spools", "-", "--tenant", "south")
	for _, mode := range [][]string{{"--mode", "update"}, {"--mode", "upsert", "--dry-run"}} {
		out := p.succeeds(t, exported, env, append([]string{"import", "spools", "-", "--tenant", "north"}, mode...)...)
		if !strings.HasPrefix(out, "spools created: 0; updated: 0; unchanged: 354; skipped rows: 0\n") {
			t.Errorf("import spools %s prints %q", mode, out)
		}
	}
	_, stderr, code = p.run(t, "number,notes\n999,x\n", env, "import", "spools", "-", "--tenant", "north", "--mode",
		"update")
	want = "line 2: number is not the number of a spool\nspoolwright: nothing was imported: 1 row is invalid\n"
	if code != 1 || stderr != want {
		t.Errorf("status %d: %q, want %q", code, stderr, want)
	}
	columns := exportedColumns(t, exported)
	again := exportedColumns(t, p.succeeds(t, "", env, "export", "spools", "--tenant=south", "--format=csv"))
	if !slices.Equal(again, columns) || len(columns) != 355 {
		t.Errorf("%d rows were exported and imported, the second export has %d rows or other values, want 355 equal rows",
			len(columns), len(again))
	}
	bills := "name,sku,materials.material_type,materials.color,materials.weight_grams\n" +
		"Dragon,DRG,PLA,Black,45\nDragon,DRG,PETG,Red,5\nHook,,,,\n"
	out := p.succeeds(t, bills, env, "import", "products", "-", "--tenant", "south")
	bills = p.succeeds(t, "", env, "export", "products", "--tenant", "south")
	out += p.succeeds(t, bills, env, "import", "products", "-", "--tenant", "south", "--mode", "update", "--dry-run")
	if want := "products created: 2; updated: 0; unchanged: 0; skipped rows: 0\n" +
		"products created: 0; updated: 0; unchanged: 2; skipped rows: 0\n" +
		"This was a dry run: nothing was changed.\n"; out != want {
		t.Errorf("two calls of import products print %q, want %q", out, want)
	}
	// Sliced files are known by their content; a bad one does not stop the others.
	dir2 := t.TempDir()
	sliced := func(name, from string, replace ...string) string {
		t.Helper()
		text, err := os.ReadFile(absolutePath(t, "catalog/slicer/testdata/"+from))
		check(t, err)
		file := filepath.Join(dir2, name)
		check(t, os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600))
		return file
	}
	hook, clip := sliced("hook.gcode", "prusaslicer.gcode"), sliced("clip.gcode.3mf", "bambu.gcode.3mf")
	letter := sliced("letter.bgcode", "files.golden")
	check(t, os.WriteFile(letter, []byte("GCDE"), 0o600))
	into := []string{"import", "products", "--tenant", "south"}
	out, stderr, code = p.run(t, "", env, append(into, hook, letter, clip)...)
	if code != 1 ||
		!strings.HasPrefix(out, "product created: hook; 21 minutes; 3.99 g of PLA Prusa Orange\nproduct created: Cable") ||
		!strings.HasSuffix(stderr, "letter.bgcode: nothing was imported: The file ends too early; it was not copied "+
			"completely\nspoolwright: 1 of 3 files were not imported\n") {
		t.Errorf("status %d: %q, %q", code, out, stderr)
	}
	engine := sliced("engine.gcode", "curaengine.gcode")
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		p.fails(t, 1, env, append(append(into, engine), flags...),
			"nothing was imported: filaments must choose filament 1")
	}
	out = p.succeeds(t, "", env, append(into, hook)...)
	out += p.succeeds(t, "", env, append(into, sliced("renamed.gcode", "prusaslicer.gcode"))...)
	sliced("renamed.gcode", "prusaslicer.gcode", "1h 2m 5s", "3h 0m 0s")
	out += p.succeeds(t, "", env, append(into, filepath.Join(dir2, "renamed.gcode"), "--dry-run")...)
	out += p.succeeds(t, "", env, append(into, filepath.Join(dir2, "renamed.gcode"))...)
	out += p.succeeds(t, "", env, append(into, sliced("new.gcode", "orcaslicer.gcode"), "--mode", "update")...)
	out += p.succeeds(t, "", env, append(into, hook, "--mode", "create", "--dry-run")...)
	const weight = "minutes; 3.99 g of PLA Prusa Orange\n"
	if want := "product unchanged: hook; 21 " + weight + "product updated: hook; 21 " + weight +
		"product updated: hook; 60 " + weight + "This was a dry run: nothing was changed.\n" +
		"product updated: hook; 60 " + weight + "product skipped: none was made from this file\n" +
		"product created: hook; 21 " + weight + "This was a dry run: nothing was changed.\n"; out != want {
		t.Errorf("import products of sliced files prints\n%s, want\n%s", out, want)
	}
	importsOrders(t, p, env)
	for _, what := range []string{"products", "production-runs", "orders"} {
		out := p.succeeds(t, "", env, "export", what, "--tenant", "north")
		if !strings.HasPrefix(out, "id,") || strings.Count(out, "\n") != 1 {
			t.Errorf("export %s: %q, want only the header", what, out)
		}
	}
	spoolman := []string{"import", "spoolman", absolutePath(t, "testdata/spoolman/spools.json"), "--tenant", "south"}
	out = p.succeeds(t, "", env, spoolman...) + p.succeeds(t, "", env, spoolman...)
	const rest = "updated: 0; unchanged: %d; invalid and skipped: 0\n"
	const fields = "custom fields created: 5\n  vendor country: text\n  vendor rating: integer\n" +
		"  filament drying: text\n  spool humidity: integer\n  spool owner: text\n"
	if want := fields + fmt.Sprintf("vendors created: 2; "+rest+"filaments created: 5; "+rest+"spools created: 5; "+rest+
		"vendors created: 0; "+rest+"filaments created: 0; "+rest+"spools created: 0; "+rest, 0, 0, 0, 2, 5,
		5); out != want {
		t.Errorf("two calls of import spoolman print %q", out)
	}
	// Custom fields that the farm lacks are defined, and printed.
	for _, number := range []string{"", "9999"} {
		extra := "\"{\"\"tag" + number + "\"\":\"\"A\"\"}\"\n"
		columns, row := header[:len(header)-len("notes\n")]+"extra\n", "PLA,Black,1.75,1000,"
		if number != "" {
			columns, row = "number,"+columns, number+","+row
		}
		out := p.succeeds(t, columns+row+extra, env, "import", "spools", "-", "--tenant", "south")
		if out != "custom fields created: 1\n  tag"+number+": text\n"+
			"spools created: 1; updated: 0; unchanged: 0; skipped rows: 0\n" {
			t.Errorf("import spools prints %q", out)
		}
	}
	unreachable := []string{"import", "spoolman", "http://127.0.0.1:1", "--tenant", "south"}
	p.fails(t, 1, env, unreachable, "127.0.0.1:1", "refused")

	// A reader that closes its end of the pipe must not kill the command with SIGPIPE, which would leave PostgreSQL
	// running.
	c := exec.Command("sh", "-c", `"$0" export spools --tenant north | head -n 1`, string(p))
	c.Dir, c.Env = "/", processEnv(env)
	if first, err := c.Output(); err != nil || !strings.HasPrefix(string(first), "id,") {
		t.Errorf("export spools | head -n 1: %q %v", first, err)
	}

	// An export streams rows: even 100,000 rows need less than 64 MiB. An import keeps its rows in memory.
	rows := testkit.InCI(testkit.InRigs(1_000, 5_000), 100_000)
	var many strings.Builder
	many.WriteString(header)
	for n := range rows {
		fmt.Fprintf(&many, "PLA,Color %d,1.75,1000,\"some notes, of which there are many\"\n", n)
	}
	write(many.String())
	for _, args := range [][]string{
		{"import", "spools", file, "--tenant", "north"},
		{"export", "spools", "--tenant", "north", "--format", "jsonl"},
	} {
		c := exec.Command(string(p), args...)
		c.Dir, c.Env = "/", processEnv(env)
		var out testkit.Log
		c.Stdout = &out
		check(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		most := 64 << 10
		if args[0] == "import" {
			most += 6 * rows
		}
		if peak := peakMemory(c.Process.Pid, ended); peak > most {
			t.Errorf("%v used %d KiB, want at most %d", args, peak, most)
		}
		if exported = out.String(); c.ProcessState.ExitCode() != 0 || exported == "" {
			t.Fatalf("%v: %v", args, c.ProcessState)
		}
	}
	testkit.Equal(t, strings.Count(exported, "\n"), rows+354, "spools")
}

// peakMemory waits for a process to exit and returns its peak resident memory in KiB, or 0 without /proc. It does not
// use the resource usage that wait returns, because that includes the memory of the test process before exec.
func peakMemory(pid int, ended <-chan error) (peak int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return peak
		case <-tick.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && filepath.Base(exe) == "spoolwright" {
				if n, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
					peak = max(peak, n)
				}
			}
		}
	}
}

// absolutePath returns the absolute path of a file in the checkout, because the program runs in another directory.
func absolutePath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	check(t, err)
	return path
}

// exportedColumns returns the rows of an export of spools without the first column, the id, and the last five: the
// timestamps, and who removed the spool.
func exportedColumns(t *testing.T, exported string) (rows []string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(exported)).ReadAll()
	check(t, err)
	for i, row := range all {
		if i == 0 && row[len(row)-5] != "created_at" {
			t.Fatalf("the header ends with %q", row[len(row)-5:])
		}
		rows = append(rows, strings.Join(row[1:len(row)-5], "|"))
	}
	return rows
}

// importsOrders imports 12,000 rows of orders twice, and files that are wrong.
func importsOrders(t *testing.T, p program, env []string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var rows strings.Builder
	rows.WriteString("Name,Financial Status,Fulfillment Status,Created at,Lineitem quantity,Lineitem name," +
		"Lineitem price,Lineitem sku\n")
	for i := range 4000 {
		fmt.Fprintf(&rows, "#%[1]d,paid,,2026-01-05 10:00:00 +0000,2,Dragon,12.50,drg\n#%[1]d,,,,1,Vase %[1]d,9,\n"+
			"#%[1]d,,,,1,\"Lamp, small\",19,LAMP\n", i)
	}
	shopify := file("shopify.csv", rows.String())
	into := []string{"import", "orders", "--tenant", "south"}
	for _, want := range []string{"orders created: 4000; updated: 0; unchanged: 0; skipped rows: 0\n",
		"orders created: 0; updated: 0; unchanged: 4000; skipped rows: 0\n"} {
		started := time.Now()
		testkit.Equal(t, p.succeeds(t, "", env, append(into, shopify)...), want, "import orders")
		t.Logf("12,000 rows of orders in %v", time.Since(started).Round(time.Millisecond))
	}
	list := file("list.csv", "Was;Nr;Preis\nVase;1;9,00\n")
	good := file("good.csv", "Order,Item,Shipped\n1,Vase,\n2,Vase,yes\n")
	out, stderr, code := p.run(t, "", env, append(into, list, good)...)
	if code != 1 || out != "orders created: 1; updated: 0; unchanged: 0; skipped rows: 1\n" ||
		!strings.Contains(stderr, `unknown column "Was"`) || !strings.HasSuffix(stderr, "1 of 2 files were not imported\n") {
		t.Errorf("status %d: %q, %q", code, out, stderr)
	}
	out = p.succeeds(t, "", env, append(into, list, "--map", "Was=title", "--map", "Nr=reference", "--default",
		"source=market", "--dry-run")...)
	if out != "orders created: 1; updated: 0; unchanged: 0; skipped rows: 0\nThis was a dry run: nothing was changed.\n" {
		t.Errorf("import orders prints %q", out)
	}
}
