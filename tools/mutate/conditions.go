package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// condition matches a condition or a lock that guards something: that a row is not hidden, archived, disabled, revoked
// or expired, or that it stays so until the end of the transaction. The first group is removed.
var condition = regexp.MustCompile(`(?:\b(?:where|and|or|on|when|if|not)\s|["(` + "`" + `])` +
	`((?:\w+\.)?(?:hidden_at|disabled_at|revoked_at|expires_at)(?: is (?:not )?null| [<>]=? now\(\))` +
	`|not (?:\w+\.)?archived\b)` +
	`|(\s*\bfor (?:no key update|update|share|key share)(?: of \w+)?(?: skip locked| nowait)?\b)`)

// testedBy names the packages whose tests cover packages without tests of their own.
var testedBy = map[string]string{"start": "web", "archive": "blackbox", "auth/accounts": "auth"}

// conditions returns a sabotage for each such condition in the program in dir. A sabotage replaces the condition by
// true, or removes the lock, and runs all tests of the package.
func conditions(dir string) (all []sabotage, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			switch file {
			case "blackbox", "testkit", "tools", "sdk", "testdata", "db/migrations", "demo", ".git":
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(file, "_test.go") || filepath.Ext(file) != ".go" && filepath.Ext(file) != ".sql" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, conditionsOf(file, string(b))...)
		return nil
	})
	return all, err
}

// conditionsOf returns the sabotages of the conditions in a file.
func conditionsOf(file, text string) (all []sabotage) {
	pkg := filepath.Dir(file)
	if other := testedBy[pkg]; other != "" {
		pkg = other
	}
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		code, _, _ := strings.Cut(line, "-- ")
		code, _, _ = strings.Cut(code, "// ")
		for from := 0; from < len(code); {
			m := condition.FindStringSubmatchIndex(code[from:])
			if m == nil {
				break
			}
			begin, end, replacement := m[2], m[3], "true"
			if begin < 0 {
				begin, end, replacement = m[4], m[5], ""
			}
			begin, end = at+from+begin, at+from+end
			all = append(all, sabotage{
				name: fmt.Sprintf("%s:%d: %s", file, n+1, strings.TrimSpace(text[begin:end])),
				file: file, old: text, new: text[:begin] + replacement + text[end:], pkg: "./" + pkg, tests: ".",
			})
			from = end - at
		}
		at += len(line)
	}
	return all
}
