package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// condition matches a condition or a lock that guards something: that a row is not hidden, archived, disabled, revoked
// or expired, or that it stays so until the end of the transaction. It also matches the time of a change of a spool,
// by which a plan that was computed before the change is refused. The first group is replaced by true, the second
// removed.
var condition = regexp.MustCompile(`(?:\b(?:where|and|or|on|when|if|not)\s|["(` + "`" + `])` +
	`((?:\w+\.)?(?:hidden_at|disabled_at|revoked_at|expires_at)(?: is (?:not )?null| [<>]=? now\(\))` +
	`|not (?:\w+\.)?archived\b)` +
	`|(\s*\bfor (?:no key update|update|share|key share)(?: of \w+)?(?: skip locked| nowait)?\b` +
	`|, edited_at = now\(\))`)

// testedBy names the tests that cover packages, or files of packages, which the tests of the package itself do not.
var testedBy = map[string]struct{ pkg, tests string }{
	"web/start":            {"web", "Sample|Steps"},
	"app/follow":           {"tests/blackbox", "Follow|Changes|Stream"},
	"inventory/sheets":     {"inventory/imports", "."},
	"db/tables":            {"auth/archive", "."},
	"auth/archive":         {"tests/blackbox", "Archive"},
	"auth/accounts":        {"auth", "."},
	"auth/audit":           {"auth", "."},
	"auth/vault":           {"auth", "."},
	"auth/oidc":            {"web", "SignOn"},
	"auth/signon.go":       {"web", "Sign"},
	"auth/provider.go":     {"web", "SignOn"},
	"auth/pages.go":        {"web", "TestSessionEnds"},
	"auth/settings.go":     {"tests/blackbox", "TestIfMatch"},
	"inventory/surface.go": {"spoolman", "."},
	"inventory/report.sql": {"spoolman", "."},
	"catalog/pieces.sql":   {"orders/pieces", "."},
	"catalog/filerun.go":   {"production", "TestProductsOfFiles"},
	"orders/sync.go":       {"orders/shops", "."},
	"db/dial":              {"db", "."},
	"db/schema":            {"db", "."},
	"db/hidden.sql":        {"tests/blackbox", "TestRemovedBy"},
	"server/docs":          {"server", "."},
	"server/metrics":       {"server", "."},
	"server/etag.go":       {"tests/blackbox", "TestIfMatch"},
	"server/hidden.go":     {"tests/blackbox", "TestRemoved"},
	"server/list.go":       {"inventory", "Bulk"},
}

// conditions returns a sabotage for each such condition in the program in dir, and for those of codeOf. A sabotage
// replaces the condition by true, or removes the lock or the time, and runs all tests of the package.
func conditions(dir string) (all []sabotage, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			switch file {
			case "tests", "tools", "sdk", "testdata", "db/migrations", "production/watch/watchtest", ".git":
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
		if filepath.Ext(file) == ".go" {
			code, err := codeOf(file, string(b))
			all = append(all, code...)
			return err
		}
		return nil
	})
	return all, err
}

// conditionsOf returns the sabotages of the conditions in a file.
func conditionsOf(file, text string) (all []sabotage) {
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
			s := conditionIn(file, text, begin, end)
			s.new, s.name = text[:begin]+replacement+text[end:], fmt.Sprintf("%s:%d: %s", file, n+1, s.cut)
			if strings.Contains(s.cut, "hidden_at") || strings.Contains(s.cut, "archived") {
				s.again = "^TestRemoved"
			}
			all = append(all, s)
			from = end - at
		}
		at += len(line)
	}
	return all
}

//go:embed accepted.txt
var acceptedText string

// accepted is a condition or a lock that may be removed without a test that fails, and the reason.
type accepted struct{ file, line, cut, reason string }

// parseAccepted returns the paragraphs of accepted.txt.
func parseAccepted(text string) (all []accepted, err error) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var a accepted
		for line := range strings.SplitSeq(paragraph, "\n") {
			key, value, _ := strings.Cut(line, ": ")
			switch {
			case strings.HasPrefix(line, "#"):
			case key == "file":
				a.file = value
			case key == "line":
				a.line = value
			case key == "cut":
				a.cut = value
			case key == "reason":
				a.reason = value
			default:
				return nil, fmt.Errorf("accepted.txt: unexpected line %q", line)
			}
		}
		if a == (accepted{}) {
			continue // a heading
		}
		if a.file == "" || a.line == "" || a.cut == "" || a.reason == "" {
			return nil, fmt.Errorf("accepted.txt: incomplete paragraph:\n%s", paragraph)
		}
		all = append(all, a)
	}
	return all, nil
}

// accept sets the reason of the sabotages that are accepted. Each reason must be that of exactly one sabotage.
func accept(all []sabotage, reasons []accepted) error {
	var errs []error
	for _, a := range reasons {
		n := 0
		for i, s := range all {
			if s.file == a.file && s.cut == a.cut && strings.Contains(s.line, a.line) {
				all[i].reason = a.reason
				n++
			}
		}
		if n != 1 {
			errs = append(errs, fmt.Errorf("accepted.txt: %d conditions in %s are %q in a line with %q, want one", n, a.file,
				a.cut, a.line))
		}
	}
	return errors.Join(errs...)
}
