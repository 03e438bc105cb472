package blackbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spoolwright/app"
	"spoolwright/server"
	"spoolwright/server/openapi"
)

// vocabulary has the names in the OpenAPI document that clients use.
type vocabulary struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
			Enum       []string
		}
	}
}

// TestVocabularyGolden compares all names that clients use with testdata/vocabulary.golden: paths, operation ids,
// parameters, fields, values of enumerations, codes of errors, events and commands. Read the file as one page before
// you change it: each thing has one name.
func TestVocabularyGolden(t *testing.T) {
	t.Parallel()
	var v vocabulary
	routes := programRoutes(t)
	check(t, json.Unmarshal(openapi.Document(routes, "test", app.Events...), &v))
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "\n%s\n\n", title) }
	b.WriteString("Operations and their query parameters\n\n")
	codes := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(v.Paths)) {
		for _, method := range []string{"get", "post", "patch", "delete"} {
			text, ok := v.Paths[path][method]
			if !ok {
				continue
			}
			var op struct {
				OperationID string
				Parameters  []struct{ Name, In string }
			}
			check(t, json.Unmarshal(text, &op))
			fmt.Fprintf(&b, "%s %s %s", strings.ToUpper(method), path, op.OperationID)
			for _, p := range op.Parameters {
				if p.In == "query" {
					b.WriteString(" " + p.Name)
				}
			}
			b.WriteString("\n")
		}
	}
	section("Fields by schema")
	for _, name := range slices.Sorted(maps.Keys(v.Components.Schemas)) {
		if s := v.Components.Schemas[name]; s.Properties != nil {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(slices.Sorted(maps.Keys(s.Properties)), " "))
		}
	}
	section("Values of enumerations")
	for _, name := range slices.Sorted(maps.Keys(v.Components.Schemas)) {
		if s := v.Components.Schemas[name]; s.Enum != nil {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(s.Enum, " "))
		}
	}
	section("Codes of errors")
	for _, r := range routes {
		for _, e := range r.Doc.Errors {
			codes[fmt.Sprintf("%d %s", e.Status, e.Code)] = true
		}
	}
	b.WriteString(strings.Join(slices.Sorted(maps.Keys(codes)), "\n") + "\n")
	section("Events")
	for _, e := range app.Events {
		b.WriteString(e.Type + "\n")
	}
	section("Commands")
	for _, c := range app.Commands {
		b.WriteString(strings.TrimSpace(c.Name+" "+c.Args) + "\n")
	}
	compareGolden(t, "testdata/vocabulary.golden", []byte(b.String()))
}

// contractNames are the weights that the interface specification names without "_grams".
var contractNames = []string{"CostShare.weight", "MaterialShare.weight", "SpoolDeduction.previous_weight",
	"SpoolDeduction.new_weight", "SpoolDeduction.deducted", "Deducted.deducted"}

var weightWord = regexp.MustCompile(`(^|_)(weight|needed|remaining|reserved|available|missing|wasted|deducted)($|_)`)

// TestNamingRules holds each route to the rules for names and statuses.
func TestNamingRules(t *testing.T) {
	t.Parallel()
	routes := programRoutes(t)
	checked := map[string]bool{}
	for _, r := range routes {
		rest := strings.TrimPrefix(r.Path(), "/api/v1/")
		first, _, _ := strings.Cut(rest, "/")
		if r.Doc.Tag.Name != first {
			t.Errorf("%s: the tag is %q, want %q", r.Pattern, r.Doc.Tag.Name, first)
		}
		parts := strings.Split(rest, "/")
		last := parts[len(parts)-1]
		nested := strings.Count(r.Path(), "{") > 1 || r.Method() == "POST" && len(parts) == 3 &&
			strings.HasSuffix(last, "s") && first != "auth"
		verbs := map[string][]string{
			"GET": {"get", "list", "export", "report"}, "PATCH": {"update"}, "DELETE": {"delete", "revoke"},
		}[r.Method()]
		switch {
		case nested && r.Method() == "POST" && strings.HasSuffix(last, "s"):
			verbs = []string{"add"}
		case nested && r.Method() == "DELETE":
			verbs = []string{"remove"}
		case r.Method() == "POST" && len(parts) > 1 && !strings.HasPrefix(last, "{") && first != "auth":
			verbs = []string{last, "create"} // POST /spools/{id}/deduct is deductSpool
		case r.Method() == "POST" && first != "auth":
			verbs = []string{"create"}
		}
		if verbs != nil && !slices.ContainsFunc(verbs, func(v string) bool { return strings.HasPrefix(r.Doc.ID, v) }) {
			t.Errorf("%s: the operation id %s does not begin with one of %q", r.Pattern, r.Doc.ID, verbs)
		}
		status := r.Endpoint.Out.Status
		if r.Method() == "DELETE" && status != 204 && r.Doc.ID != "deleteSpools" || // it answers with counts
			slices.Contains([]string{"add", "create"}, verbsOf(r.Doc.ID)) &&
				status != 201 && r.Doc.ID != "createPlan" &&
				r.Doc.ID != "createFilamentsFromSpools" && // which may create none
				r.Doc.ID != "createProductFromFile" && // which may update one
				r.Doc.ID != "createPrinterStates" && // each of which has its own result
				r.Doc.ID != "createProductionRunFromFile" && // which may be a dry run
				r.Doc.ID != "createPasswordLink" { // which has no address of its own
			t.Errorf("%s: the status of a success is %d", r.Pattern, status)
		}
		checkNames(t, server.SchemaOfType(r.Endpoint.In), checked)
		if item := r.Endpoint.Out.Item; item != nil {
			checkNames(t, server.SchemaOfType(item), checked)
		}
	}
}

// verbsOf returns the first word of an operation id.
func verbsOf(id string) string {
	return id[:strings.IndexFunc(id+"A", func(r rune) bool { return r <= 'Z' })]
}

// checkNames checks the names of a schema's fields, and of those of nested schemas.
func checkNames(t *testing.T, s *server.Schema, checked map[string]bool) {
	t.Helper()
	if checked[s.Name] {
		return
	}
	checked[s.Name] = true
	for _, f := range s.Fields {
		name := s.Name + "." + f.Name
		if nested, _ := f.Nested(); nested != nil {
			checkNames(t, nested, checked)
			continue
		}
		isWeight := f.Kind.String() == "value.Decimal" && weightWord.MatchString(f.Name)
		if isWeight && !strings.HasSuffix(f.Name, "_grams") && !f.Query && !slices.Contains(contractNames, name) {
			t.Errorf("the weight %s does not end in _grams", name)
		}
		isTime := strings.HasSuffix(f.Name, "_at") || strings.HasSuffix(f.Name, "_since")
		if f.Kind.String() == "value.Timestamp" && !isTime && !f.Query {
			t.Errorf("the time %s does not end in _at", name)
		}
		isPeriod := slices.Contains([]string{"from", "to", "start"}, f.Name) // of a report
		if f.Kind.String() == "value.Date" && !strings.HasSuffix(f.Name, "_date") && !f.Query && !isPeriod {
			t.Errorf("the date %s does not end in _date", name)
		}
		isRange := strings.HasSuffix(f.Name, "_from") || strings.HasSuffix(f.Name, "_to")
		if f.Query && (f.Kind.String() == "value.Timestamp" || f.Kind.String() == "value.Date") &&
			!isRange && f.Name != "from" && f.Name != "to" {
			t.Errorf("the range %s does not end in _from or _to", name)
		}
	}
}
