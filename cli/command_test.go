package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// testCommands are a command with all kinds of arguments and some others.
func testCommands() []Command {
	print := func(_ context.Context, c *Call) error {
		_, err := fmt.Fprintf(c.Out, "ran with %q", c.Operands)
		return err
	}
	return []Command{
		{Name: "serve", Help: "serve the API", Needs: Settings, Setup: Without(print)},
		{
			Name: "copy files", Args: "FROM TO --owner NAME [--force]",
			Help: "copy a file\nin two lines\n\nAnd more about it.",
			Setup: func(flags *flag.FlagSet) Run {
				flags.String("owner", "", "owner of the copy")
				force := flags.Bool("force", false, "overwrite")
				return func(ctx context.Context, c *Call) error {
					if *force {
						return errors.New("forced")
					}
					return print(ctx, c)
				}
			},
		},
		{Name: "copy all", Help: "copy everything", Setup: Without(print)},
		{Name: "read", Args: "FROM FILE... [--force]", Help: "read files", Setup: func(flags *flag.FlagSet) Run {
			flags.Bool("force", false, "")
			return print
		}},
		VersionCommand,
	}
}

const copyHelp = "Usage: spoolwright COMMAND\n\n" +
	"  copy files FROM TO --owner NAME [--force]\n" +
	"                       copy a file\n" +
	"                       in two lines\n" +
	"  copy all             copy everything\n"

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"copy all", 0, "ran with []", ""},
		{"read a b", 0, `ran with ["a" "b"]`, ""},
		{"read a b --force c d", 0, `ran with ["a" "b" "c" "d"]`, ""},
		{"read a", 2, "", "spoolwright: read: FILE is missing (see read -h)\n"},
		{"copy files a b --owner ada", 0, `ran with ["a" "b"]`, ""},
		{"copy files --owner ada a b", 0, `ran with ["a" "b"]`, ""},
		{"copy files a -owner=ada - ", 0, `ran with ["a" "-"]`, ""},
		{"copy files a b --owner ada --force", 1, "", "spoolwright: forced\n"},
		{"copy files a --owner ada", 2, "", "spoolwright: copy files: TO is missing (see copy files -h)\n"},
		{"copy files a b", 2, "", "spoolwright: copy files: --owner is missing (see copy files -h)\n"},
		{"copy files a b c --owner ada", 2, "",
			`spoolwright: copy files: unexpected argument "c" (see copy files -h)` + "\n"},
		{"copy files a b --owner", 2, "",
			"spoolwright: copy files: flag needs an argument: -owner (see copy files -h)\n"},
		{"copy all now", 2, "", "spoolwright: copy all: it takes no arguments (see copy all -h)\n"},
		{"copy some", 2, "",
			`spoolwright: unknown command "copy some"; the commands are copy files, copy all (see copy -h)` + "\n"},
		{"copy", 0, copyHelp, ""},
		{"brew", 2, "", `spoolwright: unknown command "brew" (see -h)` + "\n"},
		{"copy -h", 0, copyHelp, ""},
		{"copy files a --help", 0, "Usage: spoolwright copy files FROM TO --owner NAME [--force]\n\n" +
			"copy a file\nin two lines\n\nAnd more about it.\n\n" +
			"  -force\n    \toverwrite\n  -owner string\n    \towner of the copy\n", ""},
	} {
		var stdout, stderr bytes.Buffer
		p := Program{Commands: testCommands()}
		status := p.Main(strings.Fields(test.args), nil, strings.NewReader(""), &stdout, &stderr)
		if status != test.status || stdout.String() != test.stdout || stderr.String() != test.stderr {
			t.Errorf("%s: status %d\n%s%s", test.args, status, &stdout, &stderr)
		}
	}
}

// The error of an interrupted command does not mention the context.
func TestInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for want, err := range map[string]error{
		"interrupted":                       context.Canceled,
		"interrupted: nothing was imported": fmt.Errorf("nothing was imported: %w", context.Canceled),
		"interrupted: the disk is full":     errors.New("the disk is full"),
	} {
		got := interrupted(ctx, err)
		if got.Error() != want || !errors.Is(got, ErrInterrupted) || !errors.Is(got, err) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A command that needs a farm does not create one, unless it has the flag --init and the user gives it.
func TestCommandsWithoutAFarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(context.Context, *Call) error { return nil }
	command := func(name string, needs Need) Command { return Command{Name: name, Needs: needs, Setup: Without(run)} }
	p := Program{Commands: []Command{command("list", Farm), command("add", InitFarm)}}
	getenv := func(name string) string { return map[string]string{"DATA_DIR": filepath.Join(dir, "data")}[name] }
	for name, want := range map[string]string{
		"list": "there is no farm in " + dir + "/data: set DATA_DIR to the data folder of the service\n",
		"add":  "set DATA_DIR to the data folder of the service, or create a farm there with --init\n",
	} {
		var out bytes.Buffer
		if status := p.Main([]string{name}, getenv, nil, &out, &out); status != 2 ||
			!strings.HasSuffix(out.String(), want) {
			t.Errorf("%s: status %d, %s", name, status, &out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a command created the data folder")
	}
	var call Call
	for _, c := range []struct {
		args []string
		ok   bool
	}{{[]string{"add", "--init"}, true}, {[]string{"list", "--init"}, false}} {
		if _, _, err := Parse(p.Commands, c.args, &call); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if !call.init {
		t.Error("--init has no effect")
	}
}

// The first command is the default, and the one that gets its settings from the environment.
func TestMainReadsSettings(t *testing.T) {
	t.Parallel()
	environment := map[string]string{}
	for _, test := range []struct {
		name, value string
		status      int
		want        string
	}{
		{"", "", 0, "ran with []"},
		{"LOG_FORMAT", "xml", 2, "spoolwright: LOG_FORMAT: must be one of text, json\n"},
		{"LOG_FORMAT", "json", 0, "ran with []"},
		{"TLS_CERT_FILE", "cert.pem", 2, "spoolwright: TLS_CERT_FILE and TLS_KEY_FILE must be set together\n"},
		{"TLS_KEY_FILE", "key.pem", 0, "ran with []"},
		{"SMTP_FROM", "Farm <farm@farm.example>", 2, "spoolwright: SMTP_URL and SMTP_FROM must be set together\n"},
		{"SMTP_URL", "smtps://ada:secret@smtp.example", 0, "ran with []"},
		{"TLS_SELF_SIGNED", "yes", 2, "spoolwright: TLS_SELF_SIGNED: must be one of on, off\n"},
		{"TLS_SELF_SIGNED", "on", 2,
			"spoolwright: TLS_SELF_SIGNED and TLS_CERT_FILE exclude each other: remove one of them\n"},
	} {
		environment[test.name] = test.value
		getenv := func(name string) string { return environment[name] }
		var out bytes.Buffer
		status := Program{Commands: testCommands()}.Main(nil, getenv, nil, &out, &out)
		if status != test.status || out.String() != test.want {
			t.Errorf("%s=%s: status %d\n%s", test.name, test.value, status, &out)
		}
	}
}

func TestHelpListsCommandsAndSettings(t *testing.T) {
	t.Parallel()
	var all []string
	for _, args := range []string{"-h", "-help", "--help", "help"} {
		var out bytes.Buffer
		status := Program{Commands: testCommands()}.Main([]string{args}, nil, nil, &out, &out)
		if status != 0 {
			t.Errorf("%s: status %d", args, status)
		}
		all = append(all, out.String())
	}
	if len(slices.Compact(all)) != 1 {
		t.Errorf("%q", all)
	}
	for _, want := range []string{
		"\n  serve                serve the API\n", "\n  copy all             copy everything\n",
		"\n  LISTEN_ADDR                  address to serve on (default 127.0.0.1:8000)\n",
	} {
		if !strings.Contains(all[0], want) {
			t.Errorf("%q is not in\n%s", want, all[0])
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printableLines("Get: 404 \x1b]0;owned\a\nsecond line"); got !=
		"Get: 404 \ufffd]0;owned\ufffd\nsecond line" {
		t.Errorf("got %q", got)
	}
	t.Parallel()
	if got := Printable("Grüße\x1b[2J\u202e 株\n"); got != "Grüße\ufffd[2J\ufffd 株\ufffd" {
		t.Errorf("%q", got)
	}
}

// /dev/null is no terminal, whatever its file is called: what is written to it is lost.
func TestNullIsNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd, err := syscall.Dup(int(null.Fd())) // two files of one descriptor would both close it, one of them later
	if err != nil {
		t.Fatal(err)
	}
	named := os.NewFile(uintptr(fd), "/dev/stdout")
	defer named.Close()
	if IsTerminal(null) || IsTerminal(named) {
		t.Error("the null device is a terminal")
	}
}
