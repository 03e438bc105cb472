package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestReport checks what is shown of the events of a run, and that each test counts once.
func TestReport(t *testing.T) {
	var events strings.Builder
	events.WriteString("go: warning\n")
	for _, e := range []event{
		{"output", "a", "TestGood", "    a_test.go:1: secret\n"}, {"pass", "a", "TestGood", ""},
		{"output", "a", "TestTool", "=== RUN   TestTool\n"},
		{"output", "a", "TestTool", "    a_test.go:2: no node: 1\n"},
		{"output", "a", "TestTool", "--- SKIP: TestTool (0.00s)\n"}, {"skip", "a", "TestTool", ""},
		{"output", "b", "TestBad/sub", "    b_test.go:3: got 1\n"},
		{"output", "b", "TestBad/sub", "        of a page\n        FAIL  /page\n"},
		{"fail", "b", "TestBad/sub", ""}, {"fail", "b", "TestBad", ""},
		{"output", "a", "", "PASS\n"}, {"output", "a", "", "ok  \ta\t1.0s\n"}, {"pass", "a", "", ""},
		{"skip", "b", "TestSame", ""}, {"skip", "b", "TestOther", ""},
		{"output", "b", "TestPanics", "panic: no\n"},
		{"output", "b", "", "FAIL\tb\t1.0s\n"}, {"fail", "b", "", ""},
		{"build-output", "", "", "c.go:1:1: error\n"},
		{"output", "c", "", "FAIL\tc [build failed]\n"}, {"fail", "c", "", ""},
		{"output", "d", "", "?   \td\t[no test files]\n"}, {"skip", "d", "", ""},
	} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(b, '\n'))
	}
	var shown strings.Builder
	last := report(&shown, strings.NewReader(events.String()))
	const want = "go: warning\n    b_test.go:3: got 1\n        of a page\n        FAIL  /page\n" +
		"ok  \ta\t1.0s\npanic: no\nFAIL\tb\t1.0s\nc.go:1:1: error\nFAIL\tc [build failed]\n?   \td\t[no test files]\n"
	if shown.String() != want {
		t.Errorf("got\n%swant\n%s", &shown, want)
	}
	const line = "FAILED b TestBad/sub\n    b_test.go:3: got 1\n    FAIL  /page\n" +
		"FAILED packages: 2; 3 tests ran: 1 passed, 2 failed; 3 skipped: no node: 1 (1); no reason (2)"
	if last != line {
		t.Errorf("the last lines are %q, want %q", last, line)
	}
}
