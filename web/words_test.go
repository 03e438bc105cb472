package web_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/value/language"
)

// TestWords checks that the values of the API that pages show as words have translations.
func TestWords(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../testdata/openapi.json")
	testkit.Check(t, err)
	var document struct {
		Components struct {
			Schemas map[string]struct{ Enum []string }
		}
	}
	testkit.Check(t, json.Unmarshal(b, &document))
	for _, name := range []string{"RunStatus", "OrderStatus", "PrinterStatus", "PrinterCondition", "DeliveryStatus",
		"JobOutcome", "RunAction", "FailureReason", "Role", "KeyRole", "ActorKind", "Resources", "CustomEntity",
		"CustomType"} {
		values := document.Components.Schemas[name].Enum
		if len(values) == 0 {
			t.Errorf("the document has no values of %s", name)
		}
		for _, value := range values {
			word := strings.ReplaceAll(strings.ToUpper(value[:1])+value[1:], "_", " ")
			if text := language.Accepted("qps").Text(language.Text(word)); !strings.HasPrefix(text, "⟦") {
				t.Errorf("%s: the languages have no text %q", name, word)
			}
		}
	}
}
