package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// owners names the tables of each package: those that only it writes.
var owners = map[string]string{
	"db": "counters deleted_rows key_directory login_directory queue_items queue_signals sample_rows shop_directory " +
		"tenant_directory",
	"db/schema": "schema_definitions schema_migrations",
	"server":    "idempotency_keys",
	"auth": "api_keys audit_log former_users link_emails login_addresses sessions sign_on_providers sign_on_uses " +
		"tenants user_otps users",
	"webhooks": "webhook_deliveries webhook_emails webhooks",
	"inventory": "custom_fields filament_catalog filaments import_rows imports spool_contents spool_usage " +
		"spoolman_items spools usage_changes vendors",
	"catalog": "piece_entries product_components product_materials product_pictures product_pieces products " +
		"variant_materials",
	"production": "printer_jobs printer_leases printer_state_changes printer_states production_runs run_history " +
		"run_items run_materials usage_days usage_summaries",
	"orders/shops":        "file_orders shop_orders shops",
	"orders":              "order_assignments order_items order_lines orders",
	"orders/stock":        "stock_levels",
	"production/printers": "printer_connections printer_slots printers spool_tags",
	"spoolman":            "printer_settings",
	"web/start":           "first_steps",
	"transfer":            "import_columns",
}

// exceptions are what breaks the rules. The list must not grow.
var exceptions = []string{
	// Each access checks in its round trip that the actor still exists.
	"db/session.go reads auth api_keys",
	"db/session.go reads auth users",

	"server/list.go reads auth tenants",              // filters by days use the time zone of the tenant
	"auth/key.go reads production/printers printers", // a key of the role printer names its printer, which it locks
	"production/run.go reads orders order_items",     // the filter order_id of the list of runs

	// An entry that a run counts as its own use is not corrected: the ledger asks when the run printed.
	"inventory/report.sql reads production production_runs",

	// A product shows what orders reserve of its pieces in stock.
	"catalog/product.go uses orders/stock product_stock",
}

// floors returns the height of each package: its place in the table of CONTRIBUTING.md, counted from below.
func floors(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../CONTRIBUTING.md")
	testkit.Check(t, err)
	height := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z/]+)/` \\|").FindAllStringSubmatch(string(text), -1) {
		height[row[1]] = -len(height)
	}
	if len(height) < 10 {
		t.Fatalf("CONTRIBUTING.md has the packages %v", height)
	}
	return height
}

// ownerOf returns the package of a file or folder that is in the table.
func ownerOf(name string, height map[string]int) string {
	for {
		if _, ok := height[name]; ok || name == "." {
			return name
		}
		name = path.Dir(name)
	}
}

// inside reports whether a package is another one or stands inside it: it may write and read the tables of that one.
func inside(name, outer string) bool { return name == outer || strings.HasPrefix(name, outer+"/") }

// source is a file of a package, with its SQL or, of a Go file, its string literals and imports.
type source struct {
	path, owner string
	sql         string
	imports     []string
}

// sources returns the files of the program, without migrations and tests.
func sources(t *testing.T, height map[string]int) (all []source) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		owner := ownerOf(name, height)
		if d.IsDir() && name != "." && (owner == "." || d.Name() == "testdata" || d.Name() == "migrations") {
			return fs.SkipDir
		}
		f := source{path: name, owner: owner}
		switch {
		case strings.HasSuffix(name, ".sql"):
			text, err := os.ReadFile("../" + name)
			if err != nil {
				return err
			}
			f.sql = regexp.MustCompile(`--.*`).ReplaceAllString(string(text), "")
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && strings.Contains(name, "/"):
			tree, err := parser.ParseFile(token.NewFileSet(), "../"+name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, spec := range tree.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				f.imports = append(f.imports, imported)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					f.sql += text + "\n;"
				}
				return true
			})
		default:
			return nil
		}
		all = append(all, f)
		return nil
	})
	testkit.Check(t, err)
	if len(all) < 100 {
		t.Fatalf("%d files", len(all))
	}
	return all
}

var (
	createdFunction = regexp.MustCompile(`(?i)create or replace (?:function|procedure) ([a-z_]+)`)
	called          = regexp.MustCompile(`\b([a-z_]+)\(`)
	// The tables of a FROM or USING clause, up to its first subquery, and those of joins.
	readFrom = regexp.MustCompile(`(?i)\b(?:from|join|using)\s+(?:only\s+)?` +
		`([a-z_]+(?:(?:\s+(?:as\s+)?[a-z_]+)?\s*,\s*[a-z_]+)*)`)
	written = regexp.MustCompile(`(?i)\b(?:insert into|update|delete from)\s+([a-z_]+)`)
)

// A package imports packages below it, and calls SQL functions and reads tables of its own or of packages below it. It
// writes only its own tables. The test does not see names that Go puts together at run time.
func TestNothingPointsUp(t *testing.T) {
	t.Parallel()
	height := floors(t)
	all := sources(t, height)
	functions, tables := map[string]string{}, map[string]string{} // to their owners
	for _, f := range all {
		for _, created := range createdFunction.FindAllStringSubmatch(f.sql, -1) {
			functions[created[1]] = f.owner
		}
	}
	for owner, names := range owners {
		for _, name := range strings.Fields(names) {
			tables[name] = owner
		}
	}
	found := map[string]bool{}
	use := func(f source, what, owner string) {
		if height[owner] > height[f.owner] {
			found[f.path+" uses "+owner+" "+what] = true
		}
	}
	for _, f := range all {
		for _, path := range f.imports {
			if path, ok := strings.CutPrefix(path, "spoolwright/"); ok {
				use(f, path, ownerOf(path, height))
			}
		}
		for _, call := range called.FindAllStringSubmatch(f.sql, -1) {
			if owner := functions[call[1]]; owner != "" {
				use(f, call[1], owner)
			}
		}
		for _, write := range written.FindAllStringSubmatch(f.sql, -1) {
			if owner := tables[write[1]]; owner != "" && !inside(f.owner, owner) {
				found[f.path+" writes "+owner+" "+write[1]] = true
			}
		}
		for _, read := range readFrom.FindAllStringSubmatch(f.sql, -1) {
			for item := range strings.SplitSeq(read[1], ",") {
				name := strings.Fields(item)[0]
				if owner := tables[name]; owner != "" && !inside(f.owner, owner) && height[owner] > height[f.owner] {
					found[f.path+" reads "+owner+" "+name] = true
				}
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(exceptions, line) {
			t.Errorf("%s", line)
		}
	}
	for _, line := range exceptions {
		if !found[line] {
			t.Errorf("it is no longer true that %s: remove it from exceptions", line)
		}
	}
	if len(functions) < 40 {
		t.Errorf("the test knows %d functions", len(functions))
	}
}

// Each table has an owner.
func TestTablesHaveOwners(t *testing.T) {
	t.Parallel()
	var want, got []string
	files, _ := filepath.Glob("../db/migrations/*.sql")
	for _, file := range append(files, "../db/schema/schema.go") {
		text, err := os.ReadFile(file)
		testkit.Check(t, err)
		created := regexp.MustCompile(`(?m)create table (?:if not exists )?([a-z_]+)`)
		for _, table := range created.FindAllStringSubmatch(string(text), -1) {
			want = append(want, table[1])
		}
	}
	for _, names := range owners {
		got = append(got, strings.Fields(names)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) {
		t.Errorf("the tables are\n%v, those with an owner\n%v", want, got)
	}
}

// functionOfSQL is a function of a .sql file, up to the end of its body.
var functionOfSQL = regexp.MustCompile(`(?ms)^create (?:or replace )?(?:function|procedure) ([a-z_]+).*?\$\$.*?\$\$`)

// Functions of Go and SQL are short enough to be read at once.
func TestFunctionLength(t *testing.T) {
	t.Parallel()
	const most = 100
	count := map[string]int{}
	check := func(file, function string, lines int) {
		count[path.Ext(file)]++
		if lines > most {
			t.Errorf("%s: %s has %d lines, want at most %d", file, function, lines, most)
		}
	}
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".sql") {
			var text []byte
			text, err = os.ReadFile("../" + name)
			for _, f := range functionOfSQL.FindAllStringSubmatch(string(text), -1) {
				check(name, f[1], strings.Count(f[0], "\n")+1)
			}
		}
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, "../"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range tree.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				check(name, f.Name.Name, set.Position(f.End()).Line-set.Position(f.Pos()).Line+1)
			}
		}
		return nil
	})
	testkit.Check(t, err)
	if count[".go"] < 1000 || count[".sql"] < 200 {
		t.Errorf("the program has the functions %v", count)
	}
}
