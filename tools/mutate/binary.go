package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// binaries are the compiled tests of packages without a sabotage. The SQL of a condition is changed in a copy of them,
// which takes a fraction of the time of compiling and linking them again.
type binaries struct {
	dir string

	mu    sync.Mutex
	tests map[string]func() ([]byte, error) // by package
}

// errSabotage means that the sabotage could not be applied.
var errSabotage = errors.New("the sabotage cannot be applied")

// test runs tests of the package of a sabotage. If the sabotage is a condition whose SQL the compiled tests have once,
// it changes these. Otherwise, and for tests that may build the program, it changes the source in the copy in dir, and
// back.
func (b *binaries) test(ctx context.Context, dir string, s sabotage, tests string) ([]byte, error) {
	if text, at := s.literal(); text != "" && (s.pkg != "./tests/blackbox" || tests == s.again) {
		compiled, err := b.compiled(ctx, dir, s.pkg)
		if err != nil {
			return nil, errors.Join(errSabotage, err)
		}
		if i := bytes.Index(compiled, []byte(text)); i >= 0 && i == bytes.LastIndex(compiled, []byte(text)) {
			return b.run(ctx, dir, s, compiled, i+at, tests)
		}
	}
	before, err := s.apply(dir, true)
	if err != nil {
		return nil, errors.Join(errSabotage, err)
	}
	defer os.WriteFile(filepath.Join(dir, s.file), before, 0o644)
	return test(ctx, dir, s.pkg, tests, s.race)
}

// literal returns the string of the program that contains the condition, and the index of the condition in it: a file
// of SQL, or a string in quotes or backticks. Each is contiguous in the program. The text is "" if s is no condition.
func (s sabotage) literal() (text string, at int) {
	if s.cut == "" {
		return "", 0
	}
	if filepath.Ext(s.file) == ".sql" {
		return s.old, s.begin
	}
	quote := "`"
	if before := s.old[:s.begin]; strings.Count(before, "`")%2 == 0 {
		if line := before[strings.LastIndexByte(before, '\n')+1:]; strings.Count(line, `"`)%2 == 0 {
			return "", 0
		}
		quote = `"`
	}
	from := strings.LastIndex(s.old[:s.begin], quote) + 1
	to := s.end + strings.Index(s.old[s.end:], quote)
	return s.old[from:to], s.begin - from
}

// compiled returns the compiled tests of a package.
func (b *binaries) compiled(ctx context.Context, dir, pkg string) ([]byte, error) {
	b.mu.Lock()
	if b.tests == nil {
		b.tests = map[string]func() ([]byte, error){}
	}
	read := b.tests[pkg]
	if read == nil {
		read = sync.OnceValues(func() ([]byte, error) {
			path := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
			c := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", path, pkg)
			c.Dir, c.Env = dir, append(os.Environ(), goflags)
			if out, err := c.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
			}
			return os.ReadFile(path)
		})
		b.tests[pkg] = read
	}
	b.mu.Unlock()
	return read()
}

// run runs the compiled tests of a package, after it has replaced the condition, which begins at an index, by as many
// bytes.
func (b *binaries) run(ctx context.Context, dir string, s sabotage, compiled []byte, at int, tests string,
) ([]byte, error) {
	replacement := s.new[s.begin : s.end+len(s.new)-len(s.old)]
	changed := bytes.Clone(compiled)
	copy(changed[at:], replacement+strings.Repeat(" ", len(s.old)-len(s.new)))
	file, err := os.CreateTemp(b.dir, "changed-*.test")
	if err != nil {
		return nil, errors.Join(errSabotage, err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(changed)
	if err := errors.Join(err, file.Close(), os.Chmod(file.Name(), 0o755)); err != nil {
		return nil, errors.Join(errSabotage, err)
	}
	return start(ctx, filepath.Join(dir, s.pkg), file.Name(), "-test.v", "-test.failfast", "-test.timeout=10m",
		"-test.run="+tests)
}
