// Mutate tests the tests. For each sabotage, it breaks a copy of the program and runs tests, at least one of which
// must fail, and pass without the sabotage. It takes about half an hour. Run it in the root of the checkout:
//
//	go run ./tools/mutate [-conditions [-since REVISION]] [-only REGEXP] [-part N/M] [-sample N [-seed N]]
//		[-jobs N] [-list]
//
// With -conditions it finds the sabotages by itself: in the SQL of the program, it removes one condition for hidden,
// archived, disabled, revoked or expired rows at a time, one lock of rows, or one time of a change, and runs the tests
// of the package. In Go, it replaces a comparison by its opposite, or removes the return of an error, a statement that
// locks rows, or the use of a mutex; the tests then run with the race detector. With -since it does so only in files
// that differ from those of a revision. Some sabotages need not be seen, because another condition or lock has the same
// effect: accepted.txt has the reasons. Where it can, it changes the SQL in the compiled tests, which it compiles once
// for each package.
//
// With -sample it tries only N random ones. It prints the seed of the choice; -seed repeats it.
//
// With -part it runs one of M parts. N is a number from 1 to M, or the word today, which chooses another part each
// day. A part consists of neighbors in sabotages.txt, because neighbors mostly share the packages of their tests.
//
// It exits with status 1 if the tests pass despite a sabotage, if no test ran (for example because the broken program
// does not compile), or if the text that a sabotage replaces does not occur exactly once.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

//go:embed sabotages.txt
var sabotages string

// sabotage replaces a text in a file of the program. At least one of the tests in pkg must then fail.
type sabotage struct {
	name           string
	file, old, new string
	pkg, tests     string
	again          string // if no test sees it, the tests of package blackbox that are tried then, or ""

	// Of a condition: its line, what is removed, and why no test needs to see it, or "".
	line, cut, reason string
	begin, end        int  // of what is removed, in old
	race              bool // whether the tests need the race detector
}

// parse returns the sabotages in a text of paragraphs.
func parse(text string) (all []sabotage, err error) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var s sabotage
		var old, new []string
		for line := range strings.SplitSeq(paragraph, "\n") {
			key, value, _ := strings.Cut(line, ": ")
			switch {
			case strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "-"):
				old = append(old, line[1:])
			case strings.HasPrefix(line, "+"):
				new = append(new, line[1:])
			case key == "name":
				s.name = value
			case key == "file":
				s.file = value
			case key == "test":
				s.pkg, s.tests, _ = strings.Cut(value, " ")
			default:
				return nil, fmt.Errorf("sabotages.txt: unexpected line %q", line)
			}
		}
		if s.old, s.new = strings.Join(old, "\n"), strings.Join(new, "\n"); s.old == "" && s.name == "" {
			continue // a heading
		}
		if s.name == "" || s.file == "" || s.tests == "" || s.old == "" {
			return nil, fmt.Errorf("sabotages.txt: incomplete paragraph:\n%s", paragraph)
		}
		all = append(all, s)
	}
	return all, nil
}

type result struct {
	sabotage
	verdict, by string
	test        string // the test that failed, or ""
	took        time.Duration
}

func main() {
	only := flag.String("only", "", "run only sabotages whose names match this regular expression")
	part := flag.String("part", "", "run only one of M parts: `N/M`, or today/M for another one each day")
	found := flag.Bool("conditions", false, "change each condition, lock and return of an error instead of what "+
		"sabotages.txt says")
	since := flag.String("since", "", "with -conditions: only files that differ from those of this git revision")
	sample := flag.Int("sample", 0, "run only `N` random sabotages")
	seed := flag.Uint64("seed", 0, "the seed of the sample; 0 is a random one")
	list := flag.Bool("list", false, "list the sabotages and check that the texts they replace and their tests exist")
	jobs := flag.Int("jobs", 1, "number of sabotages to run in parallel")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options{*only, *part, *since, *found, *list, *sample, *jobs, *seed}); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are the flags of the command line.
type options struct {
	only, part, since string

	found, list  bool
	sample, jobs int
	seed         uint64
}

// acceptAll sets the reasons of accepted.txt.
func acceptAll(all []sabotage) error {
	reasons, err := parseAccepted(acceptedText)
	if err != nil {
		return err
	}
	return accept(all, reasons)
}

// split returns the sabotages to try, and the accepted ones.
func split(all []sabotage) (try, may []sabotage) {
	for _, s := range all {
		if s.reason == "" {
			try = append(try, s)
		} else {
			may = append(may, s)
		}
	}
	return try, may
}

// changedSince returns the sabotages of files that differ from those of a git revision.
func changedSince(all []sabotage, revision string) ([]sabotage, error) {
	out, err := exec.Command("git", "diff", "--name-only", "-z", revision, "--").Output()
	if err != nil {
		return nil, fmt.Errorf("git diff: %w", err)
	}
	files := strings.Split(string(out), "\x00")
	return slices.DeleteFunc(all, func(s sabotage) bool { return !slices.Contains(files, s.file) }), nil
}

// choose returns the sabotages whose names match only, or those of the part or the sample.
func choose(all []sabotage, only, part string, sample int, seed uint64) ([]sabotage, error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s sabotage) bool { return !wanted.MatchString(s.name) })
	if sample > 0 && sample < len(all) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	if part == "" {
		return all, nil
	}
	first, second, _ := strings.Cut(part, "/")
	of, err := strconv.Atoi(second)
	n := 1
	switch {
	case err != nil || of < 1:
	case first == "today":
		n = int(time.Now().Unix()/86400)%of + 1
	default:
		n, err = strconv.Atoi(first)
	}
	if err != nil || n < 1 || n > of {
		return nil, fmt.Errorf("the part %q is not N/M or today/M with 1 <= N <= M", part)
	}
	return all[(n-1)*len(all)/of : n*len(all)/of], nil
}

// all returns the sabotages of the file, or the conditions and locks of the program in dir.
func (o options) all(dir string) ([]sabotage, error) {
	if !o.found {
		return parse(sabotages)
	}
	all, err := conditions(dir)
	if err == nil {
		err = acceptAll(all)
	}
	if err == nil && o.since != "" {
		all, err = changedSince(all, o.since)
	}
	return all, err
}

// run tries the chosen sabotages. When ctx ends, it stops the tests and removes its copies of the program.
func run(ctx context.Context, o options) error {
	jobs := o.jobs
	top, err := os.MkdirTemp("", "spoolwright-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	dirs := make(chan string, jobs) // one copy of the program per job
	for i := range jobs {
		dir := filepath.Join(top, fmt.Sprint(i))
		if err := copyTree(dir); err != nil {
			return err
		}
		dirs <- dir
	}
	dir := filepath.Join(top, "0")
	all, err := o.all(dir)
	if err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	if o.sample > 0 && !o.list {
		fmt.Printf("a sample of %d with -seed %d\n", o.sample, o.seed)
	}
	chosen, err := choose(all, o.only, o.part, o.sample, o.seed)
	if err != nil {
		return err
	}
	var outdated []error
	for _, s := range chosen {
		if _, err := s.apply(dir, false); err != nil {
			outdated = append(outdated, err)
		}
		if err := s.hasTests(dir); err != nil {
			outdated = append(outdated, err)
		}
		if o.list {
			fmt.Printf("%s: %s\n", s.file, s.name)
		}
	}
	if err := errors.Join(outdated...); o.list || err != nil {
		return err
	}

	chosen, may := split(chosen)
	for _, s := range may {
		fmt.Printf("%-9s          %s: %s\n", "accepted", s.name, s.reason)
	}

	results := make([]result, len(chosen))
	errs := make([]error, len(chosen))
	var wait sync.WaitGroup
	green := &passed{}
	bins := &binaries{dir: top}
	for i, s := range chosen {
		dir := <-dirs
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { dirs <- dir }()
			r, err := try(ctx, dir, bins, s)
			if r.test != "" && err == nil && !green.without(ctx, dir, r.pkg, r.test) {
				r.verdict, r.by = "UNTRIED", r.test+" fails without the sabotage too"
			}
			results[i], errs[i] = r, err
			fmt.Printf("%-9s %6.1fs  %s: %s\n", r.verdict, r.took.Seconds(), s.name, r.by)
		})
	}
	wait.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	return report(results, o.found, len(may), len(all))
}

// report prints the results. It returns an error if the tests did not catch all sabotages.
func report(results []result, found bool, accepted, all int) error {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	survived := 0
	for _, r := range results {
		if r.verdict != "caught" {
			survived++
		}
		by, _, _ := strings.Cut(r.by, "\n")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.verdict, r.name, r.file, by)
	}
	w.Flush()
	fmt.Printf("\n%d sabotages, %d survived, were broken or were not tried\n", len(results), survived)
	if found {
		fmt.Printf("%d of %d changed conditions and locks seen; %d of those chosen are accepted with a reason; %d in all\n",
			len(results)-survived, len(results), accepted, all)
	}
	if survived > 0 {
		return errors.New("the tests did not catch all sabotages")
	}
	return nil
}

// copyTree copies the files of the checkout, including uncommitted changes, except files that git ignores.
func copyTree(to string) error {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// apply replaces the text if write is set, and returns the previous content of the file. The text must occur exactly
// once, so that the sabotage breaks a known place.
func (s sabotage) apply(dir string, write bool) ([]byte, error) {
	path := filepath.Join(dir, s.file)
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(before, []byte(s.old)); n != 1 {
		return nil, fmt.Errorf("%s: the text of %q occurs %d times, want once: update the sabotage", s.file, s.name, n)
	}
	if !write {
		return before, nil
	}
	return before, os.WriteFile(path, bytes.Replace(before, []byte(s.old), []byte(s.new), 1), 0o644)
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// hasTests returns an error if a name in the pattern of the sabotage's tests matches no test of the package.
func (s sabotage) hasTests(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, s.pkg, "*_test.go"))
	if err != nil {
		return err
	}
	var tests []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, match := range testFunc.FindAllSubmatch(b, -1) {
			tests = append(tests, string(match[1]))
		}
	}
	for name := range strings.SplitSeq(s.tests, "|") {
		name, _, _ = strings.Cut(name, "/") // a subtest has no function
		wanted, err := regexp.Compile(name)
		if err != nil {
			return fmt.Errorf("the tests of %q: %w", s.name, err)
		}
		if !slices.ContainsFunc(tests, wanted.MatchString) {
			return fmt.Errorf("%s: no test matches %s of %q: update the sabotage", s.pkg, name, s.name)
		}
	}
	return nil
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	notRun = regexp.MustCompile(`\[(build|setup) failed\]|no tests to run`)

	// go test prints this line if a signal ended the tests. The result of the sabotage is then unknown.
	stopped = regexp.MustCompile(`(?m)^signal: `)
)

// try runs the tests of a sabotage in the copy in dir.
func try(ctx context.Context, dir string, bins *binaries, s sabotage) (result, error) {
	begin := time.Now()
	out, err := bins.test(ctx, dir, s, s.tests)
	if err == nil && s.again != "" {
		s.pkg = "./tests/blackbox"
		out, err = bins.test(ctx, dir, s, s.again)
	}
	if errors.Is(err, errSabotage) {
		return result{}, err
	}
	r := result{sabotage: s, verdict: "SURVIVED", took: time.Since(begin)}
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, errFailed):
		r.verdict, r.by = "caught", string(failed.FindSubmatch(out)[1])
		r.test, _, _ = strings.Cut(r.by, "/")
	case ctx.Err() != nil || exit != nil && !exit.Exited() || stopped.Match(out):
		r.verdict, r.by = "UNTRIED", "the tests were stopped"
	case notRun.Match(out):
		r.verdict, r.by = "BROKEN", "no tests were run:\n"+string(out)
	case err != nil:
		r.verdict, r.by = "caught", "the tests do not start"
		if m := failed.FindSubmatch(out); m != nil {
			r.by = string(m[1])
			r.test, _, _ = strings.Cut(r.by, "/")
		} else if at := bytes.Index(out, []byte("panic:")); at >= 0 {
			r.by, _, _ = strings.Cut(string(out[at:]), "\n")
		}
	}
	return r, nil
}

// passed knows which tests pass without a sabotage. A test that fails with a sabotage has not seen it unless it does.
type passed struct {
	mu    sync.Mutex
	tests map[string]bool // by package and name
}

// without reports whether a test of a package passes in the copy in dir, which has no sabotage.
func (p *passed) without(ctx context.Context, dir, pkg, name string) bool {
	p.mu.Lock()
	passes, known := p.tests[pkg+" "+name]
	p.mu.Unlock()
	if known {
		return passes
	}
	_, err := test(ctx, dir, pkg, "^"+name+"$", false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tests == nil {
		p.tests = map[string]bool{}
	}
	p.tests[pkg+" "+name] = err == nil
	return err == nil
}

// goflags are the flags with which tests are compiled.
const goflags = "GOFLAGS=-buildvcs=false -tags=nopgxregisterdefaulttypes"

// errFailed means that test stopped the tests because one failed.
var errFailed = errors.New("a test failed")

// test runs tests of a package in the copy in dir, with the race detector if race is set.
func test(ctx context.Context, dir, pkg, tests string, race bool) ([]byte, error) {
	return start(ctx, dir, "go", "test", "-v", "-vet=off", "-count=1", "-failfast", "-timeout=10m",
		"-race="+strconv.FormatBool(race), "-run", tests, pkg)
}

// start runs a command that runs tests. When a test fails or ctx ends, it stops the command and all tests: -failfast
// would wait for those that run in parallel.
func start(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	c.Dir = dir
	c.Env = append(os.Environ(), goflags, "RIGS=1")
	out := &output{failed: func() { stop(errFailed) }}
	c.Stdout, c.Stderr = out, out
	err := c.Run()
	if errors.Is(context.Cause(ctx), errFailed) {
		err = errFailed
	}
	return out.Bytes(), err
}

// output collects the output of tests, and calls failed when a test fails. Its writes are not concurrent.
type output struct {
	bytes.Buffer
	failed func()
}

func (o *output) Write(b []byte) (int, error) {
	from := bytes.LastIndexByte(o.Bytes(), '\n') + 1 // the line that may be incomplete
	n, err := o.Buffer.Write(b)
	if lines := o.Bytes()[from:]; bytes.Contains(lines, []byte("--- FAIL: ")) && failed.Match(lines) {
		o.failed()
	}
	return n, err
}
