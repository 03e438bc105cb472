package value

import "unicode/utf8"

// AppendString appends s as a JSON string. It replaces invalid UTF-8 with U+FFFD.
func AppendString[S string | []byte](to []byte, s S) []byte {
	to = append(to, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		to = append(to, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c == '\n':
			to = append(to, '\\', 'n')
		case c == '\t':
			to = append(to, '\\', 't')
		case c == '\r':
			to = append(to, '\\', 'r')
		case c < 0x20:
			const hexDigits = "0123456789abcdef"
			to = append(to, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			to = append(to, `\ufffd`...)
		}
		i++
		start = i
	}
	to = append(to, s[start:]...)
	return append(to, '"')
}
