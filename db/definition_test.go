package db_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/schema"
	"spoolwright/tests/testkit"
)

// answer returns the definition of a function that returns n.
func answer(version, n int) []db.Definition {
	return []db.Definition{{Name: "test/answer", Version: version, SQL: fmt.Sprintf(
		`create or replace function answer() returns int language sql as 'select %d'`, n)}}
}

// migrateWith migrates with the definitions of the program and more, and returns the number of installed definitions.
func migrateWith(t *testing.T, u urls, more ...db.Definition) int {
	t.Helper()
	applied, err := db.Migrate(t.Context(), u.owner, u.app, slices.Concat(app.Definitions, more))
	testkit.Check(t, err)
	return applied.Definitions
}

func TestDefinitionVersions(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	super := connect(t, u.super)
	for _, step := range []struct {
		name            string
		definitions     []db.Definition
		installed, want int
	}{
		{"a new definition is installed", answer(1, 10), 1, 10},
		{"an unchanged one is not installed again", answer(1, 10), 0, 10},
		{"a higher version replaces it", answer(3, 30), 1, 30},
		{"an unchanged higher version is not installed again", answer(3, 30), 0, 30},
		{"a lower version does not replace it", answer(2, 20), 0, 30},
		{"a lower version with the first text does not replace it", answer(1, 10), 0, 30},
		{"a program without the definition leaves it", nil, 0, 30},
		{"the same version with another text, as during development, replaces it", answer(3, 31), 1, 31},
	} {
		testkit.Equal(t, migrateWith(t, u, step.definitions...), step.installed,
			"%s: definitions that were installed", step.name)
		testkit.Equal(t, query[struct{ N int }](t, super, `select answer()`)[0].N, step.want,
			"%s: the function", step.name)
	}
	want := "test/answer 3 " + answer(3, 31)[0].Hash()
	got := queryStrings(t, super,
		`select concat_ws(' ', name, version, sha256) from schema_definitions where name = 'test/answer'`)
	if len(got) != 1 || got[0] != want {
		t.Errorf("schema_definitions has %v, want %s", got, want)
	}
}

// Programs with the older and with the newer text start at the same time. In the end the newer text is installed. It
// was installed once.
func TestDefinitionsAtOnce(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	older, newer := answer(1, 10), answer(2, 20)
	var wg sync.WaitGroup
	var mu sync.Mutex
	installed := map[int]int{} // by version
	for i := range 8 {
		wg.Go(func() {
			definitions := [][]db.Definition{older, newer}[i%2]
			applied, err := db.Migrate(t.Context(), u.owner, u.app, definitions)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			installed[definitions[0].Version] += applied.Definitions
		})
	}
	wg.Wait()
	// The definitions of package db are installed once, and so is the newer text; the older text at most once.
	own := len(db.Schema(nil).Definitions)
	if sum := installed[1] + installed[2]; sum != own+1 && sum != own+2 {
		t.Errorf("%v definitions were installed, want %d or %d in total", installed, own+1, own+2)
	}
	testkit.Equal(t, query[struct{ N int }](t, connect(t, u.super), `select answer()`)[0].N, 20, "the function")
}

// A file that is not in the order of its package stops the program, as does a name without a file. So does, here, a
// package with files that the program does not know.
func TestDefinitionsAreComplete(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a.sql": {Data: []byte("a")}, "b.sql": {Data: []byte("b")}, "b.md": {}}
	testkit.EqualSlices(t, db.Definitions("x", files, "b 3", "a"),
		[]db.Definition{{Name: "x/b", Version: 3, SQL: "b"}, {Name: "x/a", Version: 1, SQL: "a"}}, "the definitions")
	for want, order := range map[string][]string{"x lack a.sql": {"b"}, "c of x": {"a", "b", "c"}, "b c of x": {"a", "b c"}} {
		func() {
			defer func() {
				if err := fmt.Sprint(recover()); !strings.Contains(err, want) {
					t.Errorf("%v: %s, want %q", order, err, want)
				}
			}()
			db.Definitions("x", files, order...)
		}()
	}

	names, texts := map[string]bool{}, map[string]bool{}
	for _, d := range db.Schema(app.Definitions).Definitions {
		if names[d.Name] {
			t.Errorf("there are two definitions %s", d.Name)
		}
		names[d.Name], texts[d.SQL] = true, true
	}
	testkit.Check(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "migrations", "testdata", "node_modules"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".sql":
			sql, err := os.ReadFile(path)
			testkit.Check(t, err)
			if !texts[string(sql)] {
				t.Errorf("%s is no definition of the program", path)
			}
		}
		return nil
	}))
}

func TestDefinitionFails(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	super := connect(t, u.super)
	before := queryStrings(t, super, `select d::text from schema_definitions d order by name`)
	broken := db.Definition{Name: "test/broken", Version: 1, SQL: `create function broken() returns int as 'x'`}
	_, err := db.Migrate(t.Context(), u.owner, u.app, append(answer(1, 10), broken))
	if err == nil || !strings.Contains(err.Error(), "definition test/broken") {
		t.Errorf("the error is %v", err)
	}
	testkit.EqualSlices(t, queryStrings(t, super, `select d::text from schema_definitions d order by name`), before,
		"schema_definitions")
	testkit.Equal(t, len(queryStrings(t, super, `select proname::text from pg_proc where proname = 'answer'`)), 0,
		"a definition before the broken one was installed")
	testkit.Equal(t, migrateWith(t, u, answer(1, 10)...), 1, "definitions that were then installed")
}

// A login that does not own the schema can migrate while nothing is pending. Otherwise the error says what to do.
func TestDefinitionsNeedTheOwner(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	if applied, err := db.Migrate(t.Context(), u.app, u.app, app.Definitions); err != nil ||
		applied != (schema.Applied{}) {
		t.Errorf("%+v, %v", applied, err)
	}
	report := slices.IndexFunc(app.Definitions, func(d db.Definition) bool { return d.Name == "inventory/report" })
	newer := app.Definitions[report]
	newer.Version++
	_, err := db.Migrate(t.Context(), u.app, u.app, []db.Definition{newer})
	if err == nil || !strings.Contains(err.Error(), "definition inventory/report") ||
		!strings.Contains(err.Error(), "spoolwright migrate") {
		t.Errorf("a definition is pending: %v", err)
	}
	exec(t, connect(t, u.super), `delete from schema_migrations where version > 1`)
	if _, err = db.Migrate(t.Context(), u.app, u.app, nil); err == nil ||
		!strings.Contains(err.Error(), "spoolwright migrate") {
		t.Errorf("a migration is pending: %v", err)
	}
}

func TestReadyNeedsDefinitions(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	config := db.Config{URL: u.app, MaxConns: 1, Definitions: answer(2, 20)}
	const missing = "lacks the definitions test/answer 2: run `spoolwright migrate`"
	if _, err := db.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Open without the definition: %v", err)
	}
	migrateWith(t, u, answer(1, 10)...)
	if _, err := db.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Open with a lower version: %v", err)
	}
	migrateWith(t, u, answer(2, 20)...)
	d := open(t, config)
	migrateWith(t, u, answer(3, 30)...)
	if err := d.Ready(t.Context()); err != nil {
		t.Errorf("Ready with a higher version: %v", err)
	}
	super := connect(t, u.super)
	exec(t, super, `delete from schema_definitions where name in ('test/answer', 'db/raise_code')`)
	all := regexp.MustCompile(`lacks the definitions db/raise_code \d+, test/answer 2:`)
	if err := d.Ready(t.Context()); err == nil || !all.MatchString(err.Error()) {
		t.Errorf("Ready without the definitions: %v", err)
	}
	exec(t, super, `drop table schema_definitions`)
	if err := d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not migrated") {
		t.Errorf("Ready without schema_definitions: %v", err)
	}
}

// An instance whose clock differs from PostgreSQL's warns from 2 seconds on, and is not ready from 30 seconds on. It
// starts nevertheless, and its time is PostgreSQL's.
func TestReadyComparesClocks(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	for _, test := range []struct {
		ahead         time.Duration
		warned, ready bool
	}{{0, false, true}, {time.Second, false, true}, {4 * time.Second, true, true}, {-4 * time.Second, true, true},
		{31 * time.Second, true, false}, {-31 * time.Second, true, false}} {
		var log bytes.Buffer
		d := open(t, db.Config{URL: u.app, MaxConns: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Now: func() time.Time { return time.Now().Add(test.ahead) }})
		err := d.Ready(t.Context())
		if (err == nil) != test.ready || err != nil &&
			!strings.Contains(err.Error(), "differs from that of PostgreSQL by 31s") {
			t.Errorf("%s ahead: %v", test.ahead, err)
		}
		warnings := strings.Count(log.String(), "synchronize the clocks, for example with NTP")
		if test.warned != (warnings == 1) || warnings > 1 {
			t.Errorf("%s ahead: %d warnings", test.ahead, warnings)
		}
		if differs := time.Until(d.Now()).Abs(); differs > 900*time.Millisecond {
			t.Errorf("%s ahead: the time differs by %s", test.ahead, differs)
		}
	}
}

func TestFunctionsAreDefined(t *testing.T) {
	t.Parallel()
	defined := map[string]string{}
	for _, d := range db.Schema(app.Definitions).Definitions {
		for _, m := range regexp.MustCompile(`(?mi)^create (or replace )?function (\w+)`).
			FindAllStringSubmatch(d.SQL, -1) {
			if m[1] == "" || defined[m[2]] != "" {
				t.Errorf("%s: %s must be created or replaced, in one definition", d.Name, m[2])
			}
			defined[m[2]] = d.Name
		}
	}
	super := connect(t, testkit.Private().SuperURL())
	got := queryStrings(t, super,
		`select proname::text from pg_proc where pronamespace = 'public'::regnamespace order by 1`)
	want := append(slices.Collect(maps.Keys(defined)), "file_key", "line_match_key", "line_title_key",
		"tenant_table") // which migrations call
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the database has the functions %v, and the definitions have %v", got, want)
	}
}

var update = flag.Bool("update", false, "write the versions of this program into testdata/definitions.txt")

// line returns the line of a definition in testdata/definitions.txt.
func line(d db.Definition) string { return fmt.Sprintf("%s %d %s", d.Name, d.Version, d.Hash()) }

// needRaise returns the names of the definitions whose text differs from that of a released version, and whose version
// is not higher.
func needRaise(released []string, definitions []db.Definition) (names []string) {
	for _, d := range definitions {
		for _, l := range released {
			var name, hash string
			var version int
			fmt.Sscan(l, &name, &version, &hash)
			if name == d.Name && (version > d.Version || version == d.Version && l != line(d)) {
				names = append(names, d.Name)
				break
			}
		}
	}
	return names
}

// testdata/definitions.txt has the versions that were released, so that their texts cannot change. A migration has the
// version 1: a program rejects a database that was made with another text of it. Before a release,
// when its section in CHANGELOG.md gets a date, -update adds its versions.
func TestReleasedDefinitions(t *testing.T) {
	t.Parallel()
	const path = "testdata/definitions.txt"
	b, err := os.ReadFile(path)
	testkit.Check(t, err)
	released := strings.Split(strings.TrimSpace(string(b)), "\n")
	all := db.Schema(app.Definitions).Definitions
	migrations, err := filepath.Glob("migrations/*.sql")
	testkit.Check(t, err)
	for _, name := range migrations {
		sql, err := os.ReadFile(name)
		testkit.Check(t, err)
		all = append(all, db.Definition{Name: name, Version: 1, SQL: string(sql)})
	}
	for _, name := range needRaise(released, all) {
		t.Errorf("the text of %s has changed since its version was released: raise the version, or add a migration", name)
	}
	var missing []string
	for _, d := range all {
		if !slices.Contains(released, line(d)) {
			missing = append(missing, line(d))
		}
	}
	if *update {
		b := strings.TrimSpace(strings.Join(slices.Concat(released, missing), "\n")) + "\n"
		testkit.Check(t, os.WriteFile(path, []byte(b), 0o644))
		return
	}
	changes, err := os.ReadFile("../CHANGELOG.md")
	testkit.Check(t, err)
	section := regexp.MustCompile(`(?m)^## .*$`).FindString(string(changes))
	if !strings.HasSuffix(section, " - unreleased") && len(missing) > 0 {
		t.Errorf("CHANGELOG.md begins with %q, and %s lacks these lines, which -update adds:\n%s", section, path,
			strings.Join(missing, "\n"))
	}
}

func TestReleasedTextsKeepTheirVersion(t *testing.T) {
	t.Parallel()
	released := []string{line(answer(1, 10)[0]), line(answer(2, 20)[0])}
	for _, c := range []struct {
		version, text int
		raise         bool
	}{{2, 20, false}, {2, 21, true}, {1, 10, true}, {3, 21, false}} {
		if got := needRaise(released, answer(c.version, c.text)); (len(got) > 0) != c.raise {
			t.Errorf("version %d with the text %d must be raised: %v, want %v", c.version, c.text, got, c.raise)
		}
	}
}
