package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The decoder accepts the values that match a field's schema, and no others.
func TestDocumentAgreesWithDecoder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := send(t, s, "GET", "/openapi.json", "", "Authorization", "")
	d := testkit.ReadDocument(t, []byte(text(t, r)))
	schema := d.Resolve(testkit.JSON{"$ref": "#/components/schemas/ThingUpdate"})
	values := []string{
		`null`, `true`, `false`, `""`, `" "`, `"x"`, `"12345678901"`, `"PLA"`, `"pla"`, `"#aabbcc"`, `"#aabbc"`, `0`,
		`-1`, `1`, `1.5`, `1.75`, `7`, `100`, `101`, `1000000`, `1000001`, `10.5`,
		`"2024-01-15"`, `"2024-01-15T10:00:00Z"`, `"2024-13-15"`, `"` + someID + `"`, `"0191d5b4"`,
		`"` + strings.Repeat("x", 201) + `"`,
	}
	tried := 0
	for name, property := range schema["properties"].(testkit.JSON) {
		for _, value := range values {
			var v any
			testkit.Check(t, json.Unmarshal([]byte(value), &v))
			described := d.Match(property.(testkit.JSON), v, name) == nil
			status := send(t, s, "PATCH", thingPath, `{"`+name+`":`+value+`}`).StatusCode
			// A schema cannot express that a text must not be blank, and does not express an enum of numbers.
			if accepted := status == http.StatusOK; accepted != described && value != `" "` &&
				!(name == "size" && accepted) {
				t.Errorf("%s: %s matches the schema: %v; status %d", name, value, described, status)
			}
			tried++
		}
	}
	if tried < 300 {
		t.Errorf("the test tried %d values", tried)
	}
}
