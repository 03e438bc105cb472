package db_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// answer returns the definition of a function that returns n.
func answer(version, n int) []db.Definition {
	return []db.Definition{{Name: "test/answer", Version: version, SQL: fmt.Sprintf(
		`create or replace function answer() returns int language sql as 'select %d'`, n)}}
}

// migrateWith migrates with the definitions of the program and more, and returns the number of installed definitions.
func migrateWith(t *testing.T, u urls, more ...db.Definition) int {
	t.Helper()
	applied, err := db.Migrate(t.Context(), u.owner, u.app, slices.Concat(dbtest.Definitions, more))
	if err != nil {
		t.Fatal(err)
	}
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
		if n := migrateWith(t, u, step.definitions...); n != step.installed {
			t.Errorf("%s: %d definitions were installed, want %d", step.name, n, step.installed)
		}
		if got := query[struct{ N int }](t, super, `select answer()`)[0].N; got != step.want {
			t.Errorf("%s: the function returns %d, want %d", step.name, got, step.want)
		}
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
	own := len(db.WithOwn(nil))
	if sum := installed[1] + installed[2]; sum != own+1 && sum != own+2 {
		t.Errorf("%v definitions were installed, want %d or %d in total", installed, own+1, own+2)
	}
	if got := query[struct{ N int }](t, connect(t, u.super), `select answer()`)[0].N; got != 20 {
		t.Errorf("the function returns %d, want 20", got)
	}
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
	if after := queryStrings(t, super, `select d::text from schema_definitions d order by name`); !slices.Equal(after,
		before) {
		t.Errorf("schema_definitions is %v, want %v", after, before)
	}
	if n := len(queryStrings(t, super, `select proname::text from pg_proc where proname = 'answer'`)); n != 0 {
		t.Error("a definition before the broken one was installed")
	}
	if n := migrateWith(t, u, answer(1, 10)...); n != 1 {
		t.Errorf("then %d definitions were installed, want 1", n)
	}
}

// A login that does not own the schema can migrate while nothing is pending. Otherwise the error says what to do.
func TestDefinitionsNeedTheOwner(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	if applied, err := db.Migrate(t.Context(), u.app, u.app, dbtest.Definitions); err != nil ||
		applied != (db.Applied{}) {
		t.Errorf("%+v, %v", applied, err)
	}
	use := slices.IndexFunc(dbtest.Definitions, func(d db.Definition) bool { return d.Name == "inventory/use" })
	newer := dbtest.Definitions[use]
	newer.Version++
	_, err := db.Migrate(t.Context(), u.app, u.app, []db.Definition{newer})
	if err == nil || !strings.Contains(err.Error(), "definition inventory/use") ||
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
	exec(t, super, `delete from schema_definitions where name in ('test/answer', 'db/bind')`)
	all := regexp.MustCompile(`lacks the definitions db/bind \d+, test/answer 2:`)
	if err := d.Ready(t.Context()); err == nil || !all.MatchString(err.Error()) {
		t.Errorf("Ready without the definitions: %v", err)
	}
	exec(t, super, `drop table schema_definitions`)
	if err := d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not migrated") {
		t.Errorf("Ready without schema_definitions: %v", err)
	}
}

// function has the attributes of a function in pg_proc, without its body.
type function struct{ Name, Attributes string }

func functions(t *testing.T, u urls) []function {
	t.Helper()
	return query[function](t, connect(t, u.super), `
		select oid::regprocedure::text, concat_ws(' | ', pg_get_function_arguments(oid), pg_get_function_result(oid),
			prosecdef, provolatile, proparallel, proconfig, proacl, proowner::regrole)
		from pg_proc where pronamespace = 'public'::regnamespace order by 1`)
}

// "create or replace function" resets the attributes that the statement does not repeat, such as search_path and
// plan_cache_mode. The functions must have the same attributes after the migrations of the first release, which had
// no definitions, after the definitions, and after another version of each definition.
func TestDefinitionsKeepAttributes(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	applyFirstRelease(t, u)
	released := functions(t, u)
	compare := func(when string) {
		t.Helper()
		now := functions(t, u)
		for _, f := range released {
			if !slices.Contains(now, f) {
				t.Errorf("%s: there is no function %+v", when, f)
			}
		}
	}
	all := db.WithOwn(dbtest.Definitions)
	if n := migrateWith(t, u); n != len(all) {
		t.Errorf("%d definitions were installed, want %d", n, len(all))
	}
	compare("after the definitions")
	now := functions(t, u)
	var next []db.Definition
	for _, d := range all {
		next = append(next, db.Definition{Name: d.Name, Version: d.Version + 1, SQL: d.SQL + "\n-- changed"})
	}
	if n := migrateWith(t, u, next...); n != len(all) {
		t.Errorf("%d definitions were installed again, want %d", n, len(all))
	}
	compare("after another version of the definitions")
	if again := functions(t, u); !slices.Equal(again, now) {
		t.Errorf("the functions were\n%v, and with another version of the definitions they are\n%v", now, again)
	}
	super := connect(t, u.super)
	for _, f := range queryStrings(t, super, `
		select proname::text from pg_proc
		where proname in ('use_filament', 'take_filament') and proconfig is distinct from '{plan_cache_mode=force_generic_plan}'`) {
		t.Errorf("%s must have plan_cache_mode = force_generic_plan", f)
	}
	open(t, db.Config{URL: u.app, MaxConns: 1, Definitions: dbtest.Definitions})
}

// superseded are functions that programs of earlier releases call, until a migration drops them.
var superseded = []string{"complete_run"}

func TestFunctionsAreDefined(t *testing.T) {
	t.Parallel()
	defined := map[string]string{}
	for _, d := range db.WithOwn(dbtest.Definitions) {
		for _, m := range regexp.MustCompile(`(?mi)^create (or replace )?function (\w+)`).
			FindAllStringSubmatch(d.SQL, -1) {
			if m[1] == "" || defined[m[2]] != "" {
				t.Errorf("%s: %s must be created or replaced, in one definition", d.Name, m[2])
			}
			defined[m[2]] = d.Name
		}
	}
	super := connect(t, dbtest.Private().SuperURL())
	got := queryStrings(t, super,
		`select proname::text from pg_proc where pronamespace = 'public'::regnamespace order by 1`)
	// The functions of checks are in migrations, which also check the existing rows.
	checks := queryStrings(t, super, `
		select distinct p.proname::text from pg_constraint k
		join pg_depend d on d.classid = 'pg_constraint'::regclass and d.objid = k.oid and d.refclassid = 'pg_proc'::regclass
		join pg_proc p on p.oid = d.refobjid and p.pronamespace = 'public'::regnamespace
		where k.contype = 'c'`)
	want := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(defined)), superseded, checks)))
	if !slices.Equal(got, want) {
		t.Errorf("the database has the functions %v, and the definitions have %v", got, want)
	}
}

// testdata/definitions.txt has the hash of each version of each definition, so that the text of a released version
// cannot change.
func TestDefinitionTextsHaveVersions(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/definitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, d := range db.WithOwn(dbtest.Definitions) {
		line := fmt.Sprintf("%s %d %s", d.Name, d.Version, d.Hash())
		if !slices.Contains(lines, line) {
			t.Errorf("the SQL of %s, version %d, is new or has changed. If the version was released, raise it. "+
				"Add this line to testdata/definitions.txt:\n%s", d.Name, d.Version, line)
		}
		for _, l := range lines {
			var name, hash string
			var version int
			fmt.Sscan(l, &name, &version, &hash)
			if name == d.Name && (version > d.Version || version == d.Version && l != line) {
				t.Errorf("testdata/definitions.txt has %q, and the program has version %d", l, d.Version)
			}
		}
	}
}
