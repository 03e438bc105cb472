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

	"spoolwright/db/dbtest"
)

// testCommandHelp checks the help of every command, which must work with invalid settings too, and the errors for
// wrong arguments.
func testCommandHelp(t *testing.T, p program) {
	env := []string{"LISTEN_ADDR=nonsense"}
	for command, want := range map[string]string{
		"serve": "DATABASE_URL", "demo": "DATABASE_URL", "migrate": "DATABASE_URL", "version": "-sbom",
		"user": "user add --tenant", "tenant": "tenant list", "user add": "-password-stdin", "user passwd": "-password-stdin", "user disable": "-email", "user enable": "-email",
		"user list": "-json", "tenant list": "-json",
		"import": "import spoolman", "import spools": "FILE.csv", "import spoolman": "-skip-bad",
		"export": "export runs", "export spools": "-format", "export products": "jsonl", "export runs": "-tenant",
	} {
		for _, flag := range []string{"-h", "-help", "--help"} {
			stdout, stderr, code := p.run(t, "", env, append(strings.Fields(command), flag)...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
				t.Errorf("%s %s: status %d, %q is not in\n%s%s", command, flag, code, want, stdout, stderr)
			}
		}
	}
	for command, want := range map[string]string{
		"import":                              "import spools, import spoolman",
		"import frogs x --tenant t":           "import spools, import spoolman",
		"export":                              "export runs",
		"export frogs":                        "export runs",
		"import spools":                       "is missing",
		"import spools --tenant t":            "is missing",
		"import spools a.csv":                 "--tenant is missing",
		"import spools a.csv b.csv":           `unexpected argument "b.csv"`,
		"import spools --tenant t a.csv -x":   "-x",
		"import spools a.csv --skip-bad":      "-skip-bad",
		"export spools x --tenant t":          `unexpected argument "x"`,
		"export spools":                       "--tenant is missing",
		"export spools --tenant t --format x": "csv or jsonl",
		"user list --tenant":                  "flag needs an argument",
		"user add --password secret":          "-password",
		"user passwd":                         "--email is missing",
	} {
		p.fails(t, 2, nil, strings.Fields(command), want)
	}
}

// testTransfer takes spools in and out, as a person at the terminal does.
func testImportExport(t *testing.T, p program) {
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	env := []string{"DATABASE_URL=" + url, secretEnv, "LOG_LEVEL=error"}
	for _, farm := range []string{"north", "south"} {
		p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", farm, "--email", "ada@"+farm+".example", "--name", "Ada\x1b[2J", "--role", "admin", "--password-stdin")
	}
	for _, flag := range []string{"-json", "--json"} {
		for _, command := range []string{"user", "tenant"} {
			var rows []map[string]any
			if out := p.succeeds(t, "", env, command, "list", flag); json.Unmarshal([]byte(out), &rows) != nil || len(rows) != 2 {
				t.Errorf("%s list %s: %s", command, flag, out)
			}
		}
	}
	table := strings.Split(p.succeeds(t, "", env, "user", "list"), "\n")
	if len(table) != 4 || strings.Contains(table[1], "\x1b") || strings.Index(table[0], "ROLE") != strings.Index(strings.ReplaceAll(table[1], "\ufffd", "x"), "admin") {
		t.Errorf("the table is not straight:\n%s", strings.Join(table, "\n"))
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
	want := "line 3: material_type must be one of PLA, PETG, ABS, TPU, ASA, Nylon, PC, HIPS, PVA, Custom\n" +
		"line 6: net_weight_grams must be greater than 0; color is required\n" +
		"spoolwright: nothing was imported: 2 rows are invalid\n"
	if code != 1 || stdout != "" || stderr != want || lines("north") != 0 {
		t.Errorf("status %d, %d spools\n%s%swant\n%s", code, lines("north"), stdout, stderr, want)
	}
	// What comes from elsewhere does not move the cursor.
	foreign := `[{"id": "\u001b[2J7", "filament": {"diameter": "\u001b[31mx\nspool 1: ok", "weight": 1000}}]`
	if _, stderr, code := p.run(t, foreign, env, "import", "spoolman", "-", "--tenant", "north"); code != 1 || strings.Contains(stderr, "\x1b") || strings.Count(stderr, "\n") != 2 {
		t.Errorf("status %d: %q", code, stderr)
	}
	p.fails(t, 1, env, []string{"import", "spools", filepath.Join(dir, "nothing.csv"), "--tenant", "north"}, "nothing.csv", "no such file")
	p.fails(t, 1, env, []string{"import", "spools", file, "--tenant", "west"}, `no tenant "west"`, "tenant list")
	p.fails(t, 1, env, []string{"export", "spools", "--tenant", "west"}, `no tenant "west"`, "tenant list")

	// The sample farm, out of one tenant and into the other.
	if out := p.succeeds(t, "", env, "import", "spools", "--tenant", "north", absolutePath(t, "testdata/farm/spools.csv")); out != "spools imported: 354\n" {
		t.Errorf("import says %q", out)
	}
	exported := p.succeeds(t, "", env, "export", "spools", "--tenant", "north")
	p.succeeds(t, exported, env, "import", "spools", "-", "--tenant", "south")
	columns := exportedColumns(t, exported)
	if again := exportedColumns(t, p.succeeds(t, "", env, "export", "spools", "--tenant=south", "--format=csv")); !slices.Equal(again, columns) || len(columns) != 355 {
		t.Errorf("out of one and into the other, %d rows became %d, or others", len(columns), len(again))
	}
	for _, what := range []string{"products", "runs"} {
		if out := p.succeeds(t, "", env, "export", what, "--tenant", "north"); !strings.HasPrefix(out, "id,") || strings.Count(out, "\n") != 1 {
			t.Errorf("export %s: %q", what, out)
		}
	}
	out := p.succeeds(t, "", env, "import", "spoolman", absolutePath(t, "testdata/spoolman/spools.json"), "--tenant", "south")
	out += p.succeeds(t, "", env, "import", "spoolman", absolutePath(t, "testdata/spoolman/spools.json"), "--tenant", "south")
	if out != "spools imported: 5\nspools imported: 0; already imported: 5\n" {
		t.Errorf("import spoolman says %q", out)
	}
	p.fails(t, 1, env, []string{"import", "spoolman", "http://127.0.0.1:1", "--tenant", "south"}, "127.0.0.1:1", "refused")

	// What is read by somebody who stops reading ends with a line, not with a signal that would leave PostgreSQL
	// behind.
	c := exec.Command("sh", "-c", `"$0" export spools --tenant north | head -n 1`, string(p))
	c.Dir, c.Env = "/", processEnv(env)
	if first, err := c.Output(); err != nil || !strings.HasPrefix(string(first), "id,") {
		t.Errorf("export to head: %q %v", first, err)
	}

	// Many rows need no more memory than few.
	var many strings.Builder
	many.WriteString(header)
	for n := range 100_000 {
		fmt.Fprintf(&many, "PLA,Colour %d,1.75,1000,\"some notes, of which there are many\"\n", n)
	}
	write(many.String())
	for _, args := range [][]string{{"import", "spools", file, "--tenant", "north"}, {"export", "spools", "--tenant", "north"}} {
		c := exec.Command(string(p), args...)
		c.Dir, c.Env = "/", processEnv(env)
		var out outputBuffer
		c.Stdout = &out
		check(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		if most := peakMemory(c.Process.Pid, ended); most > 96<<10 {
			t.Errorf("%v has taken %d KiB", args, most)
		}
		if c.ProcessState.ExitCode() != 0 || len(out.String()) == 0 {
			t.Fatalf("%v: %v", args, c.ProcessState)
		}
	}
	if n := lines("north"); n != 100_354 {
		t.Errorf("%d spools", n)
	}
}

// mostMemory waits for a process to end and returns the most memory, in KiB, that it was seen to have had; 0 where
// there is no /proc. (What a parent learns of its child in the end includes what the parent itself had when it made
// the child.)
func peakMemory(pid int, ended <-chan error) (most int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return most
		case <-tick.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && filepath.Base(exe) == "spoolwright" {
				if n, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
					most = max(most, n)
				}
			}
		}
	}
}

// checkout is the whole path of a file of the checkout: the program runs elsewhere.
func absolutePath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	check(t, err)
	return path
}

// clientColumns is an export of spools, row by row, without the id in front and the two times at the end.
func exportedColumns(t *testing.T, exported string) (rows []string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(exported)).ReadAll()
	check(t, err)
	for _, row := range all {
		rows = append(rows, strings.Join(row[1:len(row)-2], "|"))
	}
	return rows
}

// testImportOnTerminal looks at what a person sees of a long import.
func testImportOnTerminal(t *testing.T, p program) {
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	env := []string{"DATABASE_URL=" + url, secretEnv, "LOG_LEVEL=error"}
	p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", "farm", "--email", "ada@farm.example", "--name", "Ada", "--role", "admin", "--password-stdin")
	file := filepath.Join(tempDir(t), "spools.csv")
	check(t, os.WriteFile(file, []byte("material_type,color,diameter_mm,net_weight_grams\n"+strings.Repeat("PLA,Black,1.75,1000\n", 2000)), 0o600))
	control, terminal, err := openTerminal()
	if err != nil {
		skipTest(t, "no terminal: "+err.Error())
	}
	defer control.Close()
	c := exec.Command(string(p), "import", "spools", file, "--tenant", "farm")
	c.Dir, c.Env, c.Stdout, c.Stderr = "/", processEnv(env), terminal, terminal
	check(t, c.Start())
	terminal.Close()
	var shown strings.Builder
	buffer := make([]byte, 1024)
	for { // until the other end is closed, which is an error here
		n, err := control.Read(buffer)
		shown.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	check(t, c.Wait())
	for _, want := range []string{"1000 rows", "2000 rows", "\r\x1b[Kspools imported: 2000\r\n"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not in %q", want, shown.String())
		}
	}
}
