package main

import (
	"slices"
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
