package main

import (
	"slices"
	"strings"
	"testing"
)

func TestConditionsOf(t *testing.T) {
	const text = `-- where hidden_at is null
select from spools s where s.id = $1 and s.hidden_at is null and not s.archived for no key update;
select (k.expires_at is null or k.expires_at > now()), hidden_at is null as shown from keys k for update skip locked;
`
	const locked = "select (k.expires_at is null or k.expires_at > now()), hidden_at is null as shown from keys k"
	var names, lines []string
	for _, s := range conditionsOf("inventory/x.sql", text) {
		names = append(names, s.name)
		if s.old != text || s.pkg != "./inventory" {
			t.Errorf("%+v", s)
		}
		lines = append(lines, s.new[len("-- where hidden_at is null\n"):])
	}
	want := []string{"inventory/x.sql:2: s.hidden_at is null", "inventory/x.sql:2: not s.archived",
		"inventory/x.sql:2: for no key update", "inventory/x.sql:3: k.expires_at is null",
		"inventory/x.sql:3: k.expires_at > now()", "inventory/x.sql:3: for update skip locked"}
	if !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	const first = "select from spools s where s.id = $1 and s.hidden_at is null and not s.archived for no key update;\n"
	for i, want := range map[int]string{
		0: "select from spools s where s.id = $1 and true and not s.archived for no key update;\n" + locked +
			" for update skip locked;\n",
		2: "select from spools s where s.id = $1 and s.hidden_at is null and not s.archived;\n" + locked +
			" for update skip locked;\n",
		5: first + locked + ";\n",
	} {
		if lines[i] != want {
			t.Errorf("%s: got\n%s", names[i], lines[i])
		}
	}
}

// Each accepted condition exists once, and has a reason.
func TestAccepted(t *testing.T) {
	all, err := conditions("../..")
	if err == nil {
		err = acceptAll(all)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseAccepted("file: a.go\nline: x\ncut: y"); err == nil {
		t.Error("an entry without a reason is accepted")
	}
	if err := accept(all,
		[]accepted{{"production/printers/printer.go", "hidden_at is null", "hidden_at is null", "x"}}); err == nil {
		t.Error("an entry for several conditions is accepted")
	}
	try, may := split(all)
	if len(may) == 0 || len(try)+len(may) != len(all) {
		t.Errorf("%d to try and %d accepted of %d", len(try), len(may), len(all))
	}
}

// Comparisons, returns of errors, locks of rows and mutexes are found in Go; conditions of loops are not changed.
func TestCodeOf(t *testing.T) {
	const text = `package x

func (h *handlers) get(n int) error {
	for n < 3 {
		n++
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.db.Write(lockCatalog(), read(n)); err != nil {
		return err
	}
	if n >= 4 && h.ok {
		return nil
	}
	return h.db.Write(read(n), lockBase())
}
`
	all, err := codeOf("inventory/x.go", text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		old, changed := strings.Split(text, "\n"), strings.Split(s.new, "\n")
		var lines []string
		for i, line := range changed {
			if line != old[i] {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		got = append(got, s.name+": "+strings.Join(lines, "|"))
		if s.old != text || s.pkg != "./inventory" || s.race != strings.Contains(s.name, "mutex") {
			t.Errorf("%+v", s)
		}
	}
	want := []string{
		"inventory/x.go:7: without the mutex h.mu: h.mu.Lock(): |",
		"inventory/x.go:9: no return if err != nil: " +
			"if err := h.db.Write(lockCatalog(), read(n)); false && err != nil {",
		"inventory/x.go:9: without lockCatalog(),: if err := h.db.Write(read(n)); err != nil {",
		"inventory/x.go:12: not n >= 4: if n < 4 && h.ok {",
		"inventory/x.go:15: without lockBase(): return h.db.Write(read(n), )",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
