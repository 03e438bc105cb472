package language

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
	"strings"
)

// packed has the English texts, and for each language their translations in the same order, one on each line: a sixth
// of the size of the files. TestLanguages makes it with -update.
//
//go:embed languages.zip
var packed []byte

// file returns the file of a language, without its comments.
func file(code string) string {
	files, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		panic(err) // the tests read all files
	}
	read := func(name string) []string {
		f, err := files.Open(name)
		if err != nil {
			panic(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			panic(err)
		}
		return strings.Split(string(b), "\n")
	}
	var b strings.Builder
	translated := read(code)
	for i, text := range read("texts") {
		b.WriteString(text + "\n\t" + translated[i] + "\n")
	}
	return b.String()
}
