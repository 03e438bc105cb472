package value_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"spoolwright/value"
)

// jsonTexts are texts that JSON escapes, or that a wrong encoder breaks.
var jsonTexts = []string{
	"", " ", `"`, `\`, `\"`, "\n\r\t\b\f\v", "\x00", "a\x00b", "\x01\x1f\x7f", "\u0080\u009f", "\u2028\u2029", "\ufeff",
	"\ufffd", "\uffff", "é", "漢字", "🖨️🧵", "\U0010ffff", "e\u0301", "</script>", "&<>", `a\u0000b`, `{"a":1}`,
	strings.Repeat("ä🧵\n\"", 3000),
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	var every strings.Builder
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) {
			every.WriteRune(r)
		}
	}
	for _, text := range append([]string{every.String()}, jsonTexts...) {
		for _, got := range [][]byte{value.AppendString([]byte("x"), text), value.AppendString([]byte("x"), []byte(text))} {
			var back string
			if err := json.Unmarshal(got[1:], &back); err != nil || back != text || got[0] != 'x' {
				t.Errorf("%.40q is encoded as %.80s: %v", text, got, err)
			}
		}
	}
	// Invalid UTF-8 cannot come from PostgreSQL, but from requests. Each invalid byte becomes U+FFFD.
	for text, want := range map[string]string{
		"\xff":             `"\ufffd"`,
		"a\xc3":            `"a\ufffd"`,
		"\xed\xa0\x80":     `"\ufffd\ufffd\ufffd"`,
		"\xf0\x9f\xa7x\"":  `"\ufffd\ufffd\ufffdx\""`,
		"\xc0\x80":         `"\ufffd\ufffd"`,
		"\xf4\x90\x80\x80": `"\ufffd\ufffd\ufffd\ufffd"`,
	} {
		if got := string(value.AppendString(nil, text)); got != want {
			t.Errorf("%q is encoded as %s, want %s", text, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add(text)
	}
	f.Add("\xff\x00\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, text string) {
		var back string
		got := value.AppendString(nil, text)
		if err := json.Unmarshal(got, &back); err != nil || back != string([]rune(text)) {
			t.Errorf("%q is encoded as %s", text, got)
		}
	})
}
