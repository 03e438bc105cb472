package language

import "embed"

//go:embed *.txt
var files embed.FS

// file returns the contents of the file of a language.
func file(code string) string {
	b, _ := files.ReadFile(code + ".txt") // a test checks that each language has a file
	return string(b)
}
