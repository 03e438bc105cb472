package sheets

import (
	_ "embed"
	"iter"
	"strings"
)

// titles has the titles of columns.
//
//go:embed titles.txt
var titles string

// wordsOfCells has the words that cells have.
//
//go:embed words.txt
var wordsOfCells string

var (
	brands     = map[string]bool{}   // makers of filament, in normal form
	blanks     = map[string]bool{}   // texts that stand for an empty cell
	shares     = map[string]string{} // words for the rest on a spool, in percent
	some       = map[string]bool{}   // states of spools that have filament
	fillers    = map[string]string{} // what fills a material, and the end of its name
	finishes   = map[string]bool{}   // surfaces of filament
	otherWords = map[string]bool{}   // words that change the meaning of a part of a title
	totals     = map[string]bool{}   // the words with which a row of sums begins, in normal form
	totalWords = map[string]bool{}   // words of the titles of columns with numbers of several things
)

func init() {
	for section, word := range Words(wordsOfCells) {
		switch section {
		case "brand":
			brands[normal(word, false)] = true
		case "blank":
			blanks[word] = true
		case "some left":
			some[fold(word)] = true
		case "filler", "filler CF", "filler GF":
			fillers[fold(word)] = strings.TrimSpace(strings.TrimPrefix(section, "filler"))
		case "finish":
			finishes[fold(word)] = true
		case "other things":
			otherWords[fold(word)] = true
		case "total":
			totals[normal(word, false)] = true
		case "titles of totals":
			totalWords[word] = true
		default:
			shares[fold(word)] = strings.TrimPrefix(section, "left ")
		}
	}
}

// Words yields the words of a text, each with its section. A line in brackets names the section of the lines after it,
// which have words separated by commas. A line that begins with a number sign and a space is a comment.
func Words(text string) iter.Seq2[string, string] {
	return func(yield func(section, word string) bool) {
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, "["); ok {
				section = strings.TrimSuffix(name, "]")
				continue
			}
			if line == "" || strings.HasPrefix(line, "# ") {
				continue
			}
			for word := range strings.SplitSeq(strings.TrimSuffix(line, ","), ",") {
				if !yield(section, strings.TrimSpace(word)) {
					return
				}
			}
		}
	}
}
