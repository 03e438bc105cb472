package language

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
)

// packed has the files of all languages: a third of their size. TestLanguages makes it with -update.
//
//go:embed languages.zip
var packed []byte

// file returns the contents of the file of a language.
func file(code string) string {
	files, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		panic(err) // the tests read all files
	}
	f, err := files.Open(code + ".txt")
	if err != nil {
		panic(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	return string(b)
}
