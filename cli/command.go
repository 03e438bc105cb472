// Package cli is the program's command line: the commands, the settings in the environment, and the database of the
// commands.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/db/tables"
)

// Program defines the command line.
type Program struct {
	Commands    []Command       // in the order of the help; the first one is the default
	Definitions []db.Definition // the SQL functions that the database must have
}

// Command is a command of the program. Its fields determine its help and the checks of its arguments.
type Command struct {
	// Name is one or two words, such as "user add".
	Name string
	// Args are the operands and flags as the help shows them: FILE --tenant NAME [--format csv|jsonl]. The command
	// takes exactly the operands in Args; FILE... at their end stands for one or more. Operands and flags outside of
	// brackets are required.
	Args string
	// Help describes what the command does. The list of commands shows its first paragraph; -h shows the whole text.
	Help string
	// Needs is what must exist before the command runs.
	Needs Need
	// Setup registers the flags and returns the function that runs the command after they are parsed.
	Setup func(*flag.FlagSet) Run
}

// Need is what a command needs. Each level includes the previous levels.
type Need int

const (
	Nothing  Need = iota
	Settings      // the environment is read into Call.Config
	Farm          // Call.DB is the migrated database; a private one must exist
	InitFarm      // like Farm; with the flag --init, which Parse adds, like NewFarm
	NewFarm       // like Farm, and creates a private database if none exists
)

// Run runs a command. Its error becomes the program's last line on standard error.
type Run func(context.Context, *Call) error

// Without returns a Setup that registers no flags.
func Without(run Run) func(*flag.FlagSet) Run { return func(*flag.FlagSet) Run { return run } }

// Call is a call of a command.
type Call struct {
	Operands []string
	In       io.Reader
	Out, Err io.Writer
	Config   Config
	DB       *db.DB
	Owner    tables.Owner // the login that migrated DB

	init bool // the flag --init of InitFarm
}

// Misuse is the error of a wrong argument or setting. The program then exits with status 2.
type Misuse struct{ Err error }

func (m Misuse) Error() string { return m.Err.Error() }

// ErrInterrupted is wrapped by the error of a command that a signal has stopped.
var ErrInterrupted = errors.New("interrupted")

func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return interruption{err}
	}
	return err
}

// interruption is the error of a command that a signal has stopped. Its text does not mention the context.
type interruption struct{ err error }

func (i interruption) Error() string {
	text := strings.TrimSuffix(i.err.Error(), context.Canceled.Error())
	if text = strings.TrimRight(text, ": "); text == "" {
		return ErrInterrupted.Error()
	}
	return ErrInterrupted.Error() + ": " + text
}

func (i interruption) Unwrap() []error { return []error{ErrInterrupted, i.err} }

// Main runs the command that args name and returns the exit status: 0 for success, 2 for a Misuse, and 1 for any other
// error.
func (p Program) Main(args []string, getenv func(string) string, in io.Reader, out, stderr io.Writer) int {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.Sleep(2 * time.Second) // some senders signal both the process and its group
		stop()                      // a later signal ends the program at once
	})
	err := p.run(ctx, args, getenv, &Call{In: in, Out: out, Err: stderr})
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "spoolwright:", printableLines(err.Error()))
	if _, ok := errors.AsType[Misuse](err); ok {
		return 2
	}
	return 1
}

func (p Program) run(ctx context.Context, args []string, getenv func(string) string, call *Call) error {
	command, run, err := Parse(p.Commands, args, call)
	if err != nil || run == nil {
		return err
	}
	if command.Needs == Nothing {
		return run(ctx, call)
	}
	if call.Config, err = loadConfig(getenv, call.Err, IsTerminal(call.Out) && IsTerminal(call.Err)); err != nil {
		return Misuse{err}
	}
	defer call.Config.log.Flush()
	call.Config.Definitions, call.Config.ask = p.Definitions, asker(call)
	if command.Needs == Settings {
		if err = run(ctx, call); errors.Is(err, ErrInterrupted) {
			call.Config.Log.Info("stopped before it was ready")
			return nil
		}
		return err
	}
	if c := call.Config; command.Needs < NewFarm && !call.init && c.DatabaseURL == "" && !local.Exists(c.DataDir) {
		return Misuse{noFarm(c.DataDir, command.Needs == InitFarm)}
	}
	return withDatabase(ctx, call.Config, local.Attach, func(d *db.DB, owner tables.Owner) error {
		call.DB, call.Owner = d, owner
		return interrupted(ctx, run(ctx, call))
	})
}

// noFarm returns the error of a command that needs a farm when the data folder contains none.
func noFarm(dir string, canInit bool) error {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	text := "there is no farm in " + dir + ": set DATA_DIR to the data folder of the service"
	if canInit {
		text += ", or create a farm there with --init"
	}
	return errors.New(text)
}

// Parse finds the command that args name, and sets call.Operands. It returns the command and the function that runs
// it. If args ask for help, it writes the help to call.Out and returns no function. Every error is a Misuse.
func Parse(commands []Command, args []string, call *Call) (Command, Run, error) {
	if len(args) == 0 {
		args = []string{commands[0].Name}
	}
	switch strings.TrimLeft(args[0], "-") {
	case "h", "help":
		writeUsage(call.Out, commands)
		return Command{}, nil, nil
	case "version":
		args = append([]string{"version"}, args[1:]...)
	}
	for _, c := range commands {
		if words := strings.Fields(c.Name); len(args) >= len(words) && slices.Equal(words, args[:len(words)]) {
			run, err := c.parse(args[len(words):], call)
			return c, run, err
		}
	}
	var group []Command // the commands that begin with the same word
	var names []string
	for _, c := range commands {
		if strings.HasPrefix(c.Name, args[0]+" ") {
			group, names = append(group, c), append(names, c.Name)
		}
	}
	switch {
	case len(group) == 0:
		return Command{}, nil, Misuse{fmt.Errorf("unknown command %q (see -h)", args[0])}
	case len(args) == 1 || isHelp(args[1]):
		fmt.Fprint(call.Out, "Usage: spoolwright COMMAND\n\n")
		writeCommands(call.Out, group)
		return Command{}, nil, nil
	}
	return Command{}, nil, Misuse{fmt.Errorf("unknown command %q; the commands are %s (see %s -h)",
		strings.Join(args[:min(2, len(args))], " "), strings.Join(names, ", "), args[0])}
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// parse parses the arguments after the name of the command. Flags may be before, between and after operands.
func (c Command) parse(args []string, call *Call) (Run, error) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := c.Setup(flags)
	if c.Needs == InitFarm {
		flags.BoolVar(&call.init, "init", false, "create the private PostgreSQL in DATA_DIR if there is none")
	}
	misuse := func(format string, a ...any) (Run, error) {
		return nil, Misuse{fmt.Errorf("%s: %w (see %[1]s -h)", c.Name, fmt.Errorf(format, a...))}
	}
	operands, required := c.required()
	for ; ; args = flags.Args()[1:] {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			c.writeHelp(call.Out, flags)
			return nil, nil
		} else if err != nil {
			return misuse("%w", err)
		}
		if flags.NArg() == 0 {
			break
		}
		call.Operands = append(call.Operands, flags.Arg(0))
	}
	n := len(call.Operands)
	repeated := len(operands) > 0 && strings.HasSuffix(operands[len(operands)-1], "...")
	switch {
	case n > len(operands) && c.Args == "":
		return misuse("it takes no arguments")
	case n > len(operands) && !repeated:
		return misuse("unexpected argument %q", call.Operands[len(operands)])
	case n < len(operands):
		return misuse("%s is missing", strings.TrimSuffix(operands[n], "..."))
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return misuse("--%s is missing", name)
		}
	}
	if c.Needs >= Farm {
		return func(ctx context.Context, call *Call) error { return run(db.From(ctx, db.CommandLine), call) }, nil
	}
	return run, nil
}

// required returns the operands and the flags in Args that are outside of brackets.
func (c Command) required() (operands, flags []string) {
	words := strings.Fields(c.Args)
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "["):
			return operands, flags // optional arguments come last
		case strings.HasPrefix(word, "--"):
			flags = append(flags, word[len("--"):])
		case i == 0 || !strings.HasPrefix(words[i-1], "--"):
			operands = append(operands, word)
		}
	}
	return operands, flags
}

func (c Command) writeHelp(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: spoolwright %s\n\n%s\n", strings.TrimSpace(c.Name+" "+c.Args), c.Help)
	if c.Args == "" {
		writeSettings(w)
		return
	}
	fmt.Fprintln(w)
	flags.SetOutput(w)
	flags.PrintDefaults()
}

func writeUsage(w io.Writer, commands []Command) {
	fmt.Fprint(w, "Spoolwright keeps the filament spools, product catalog and production runs of 3D-print farms.\n\n"+
		"Usage: spoolwright [COMMAND]\n\n")
	writeCommands(w, commands)
	fmt.Fprint(w, "\nEach command explains its arguments with -h.\n")
	writeSettings(w)
}

// writeCommands lists the commands. The help of a command is beside its synopsis or, if the synopsis is too long,
// below it.
func writeCommands(w io.Writer, commands []Command) {
	const indent = "                       "
	for _, c := range commands {
		synopsis := "  " + strings.TrimSpace(c.Name+" "+c.Args)
		if len(synopsis) > len(indent)-2 {
			fmt.Fprintln(w, synopsis)
			synopsis = ""
		}
		help, _, _ := strings.Cut(c.Help, "\n\n")
		fmt.Fprintf(w, "%-*s%s\n", len(indent), synopsis, strings.ReplaceAll(help, "\n", "\n"+indent))
	}
}

// printableLines is Printable for a text of several lines, such as an error that contains text from a server.
func printableLines(s string) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, Printable(line))
	}
	return strings.Join(lines, "\n")
}

// Printable returns a text of unknown origin in a form that is safe to print on a terminal. It replaces characters
// that move the cursor or change the direction of text.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !(nullErr == nil && os.SameFile(info, null))
}
