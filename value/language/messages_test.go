package language_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"spoolwright/value/language"
)

// Each error that an operation declares, with an example in the OpenAPI document, is made from a text of the program:
// so pages show it in each language.
func TestErrorsAreTexts(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for _, k := range keys(t) {
		forms := strings.Split(string(k.text), "|")
		if !strings.Contains(string(k.text), "%d") {
			forms = forms[:1]
		}
		file.WriteString(entry(k.text, "⟦"+strings.Join(forms, "⟧|⟦")+"⟧"))
	}
	l := language.Of("de").With(file.String())
	b, err := os.ReadFile("../../testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatal(err)
	}
	messages := map[string]bool{}
	collect(document, messages)
	if len(messages) < 100 {
		t.Fatalf("only %d messages of errors are in the document", len(messages))
	}
	for m := range messages {
		if !strings.Contains(l.Message(m), "⟦") {
			t.Errorf("no text is the format of %q", m)
		}
	}
}

// collect adds the messages of the errors in a JSON value.
func collect(v any, messages map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			collect(item, messages)
		}
	case map[string]any:
		detail, isError := v["detail"].(string)
		if _, ok := v["code"].(string); ok && isError {
			messages[detail] = true
			fields, _ := v["errors"].([]any)
			for _, f := range fields {
				messages[f.(map[string]any)["message"].(string)] = true
			}
		}
		for _, item := range v {
			collect(item, messages)
		}
	}
}
