package transfer_test

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/transfer"
)

// readAll returns the rows of a CSV file and the lines on which they start. It quotes texts, but not null.
func readAll(t *testing.T, text string) (rows [][]string, lines []int, errs int) {
	t.Helper()
	r := transfer.NewReader(strings.NewReader(text))
	for {
		row, line, err := r.Next()
		switch err {
		case nil:
			cells := []string{}
			for _, c := range row {
				if c == nil {
					cells = append(cells, "null")
				} else {
					cells = append(cells, strconv.Quote(*c))
				}
			}
			rows, lines = append(rows, cells), append(lines, line)
		case io.EOF:
			return rows, lines, errs
		case transfer.ErrSyntax:
			errs++
		default:
			t.Fatalf("%q: %v", text, err)
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		rows  [][]string
		lines []int
		errs  int
	}{
		{"", nil, nil, 0},
		{"\n\r\n", nil, nil, 0},
		{"a,b", [][]string{{`"a"`, `"b"`}}, []int{1}, 0},
		{"\ufeffa\r\nb\r\n", [][]string{{`"a"`}, {`"b"`}}, []int{1, 2}, 0},
		{"a,,\"\"\n", [][]string{{`"a"`, "null", `""`}}, []int{1}, 0},
		{"\"\"\n", [][]string{{`""`}}, []int{1}, 0},
		{"\"a\"\"b\",\"c,d\"\n", [][]string{{`"a\"b"`, `"c,d"`}}, []int{1}, 0},
		{"\"a\r\nb\n\",c\n\nd\n", [][]string{{`"a\r\nb\n"`, `"c"`}, {`"d"`}}, []int{1, 5}, 0},
		{"a\"b,c\"\n", [][]string{{`"a\"b"`, `"c\""`}}, []int{1}, 0},
		{"\"a\"b,c\nd\n", [][]string{{`"d"`}}, []int{2}, 1},
		{"\"a\"\rb\nd\n", [][]string{{`"d"`}}, []int{2}, 1},
		{"a\n\"b\nc", [][]string{{`"a"`}}, []int{1}, 1},
	} {
		rows, lines, errs := readAll(t, test.text)
		if !slices.EqualFunc(rows, test.rows, slices.Equal) || !slices.Equal(lines, test.lines) || errs != test.errs {
			t.Errorf("%q: %v on the lines %v, %d errors; want %v, %v, %d",
				test.text, rows, lines, errs, test.rows, test.lines, test.errs)
		}
	}
	if _, _, err := transfer.NewReader(strings.NewReader(strings.Repeat("x", 1<<20+1))).Next(); err == nil {
		t.Error("the reader accepts a row of more than 1 MiB")
	}
}

// TestAppendCell checks which texts are quoted. A carriage return must be: programs such as Excel read it as a line
// break, other than Reader and encoding/csv.
func TestAppendCell(t *testing.T) {
	t.Parallel()
	if got := transfer.AppendCell([]byte("x"), nil); string(got) != "x" {
		t.Errorf("null is written as %q, want nothing", got)
	}
	for text, want := range map[string]string{
		"": `""`, "a": "a", "a b": "a b", " a": `" a"`, "a\t": "\"a\t\"", "a,b": `"a,b"`, `a"b`: `"a""b"`,
		"a\nb": "\"a\nb\"", "a\rb": "\"a\rb\"", "a\r\nb": "\"a\r\nb\"", "\ufeffa": "\"\ufeffa\"", "é;'": "é;'",
	} {
		if got := transfer.AppendCell(nil, &text); string(got) != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

// FuzzAppendCell checks that Reader and encoding/csv read the cells back.
func FuzzAppendCell(f *testing.F) {
	for _, text := range []string{"", "a", " a ", "a,b", `"`, "a\nb", "a\rb", "a\r\nb", "\ufeffa", "null", "\xff",
		"\u2028"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		line := transfer.AppendCell(nil, &first)
		line = append(transfer.AppendCell(append(line, ','), &second), ",\n"...)
		want := []string{strconv.Quote(first), strconv.Quote(second), "null"}
		if rows, _, errs := readAll(t, string(line)); errs > 0 || len(rows) != 1 || !slices.Equal(rows[0], want) {
			t.Errorf("Reader reads %q as %v, want %v", line, rows, want)
		}
		want = []string{first, second, ""}
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "\r\n", "\n") // as encoding/csv does
		}
		r := csv.NewReader(strings.NewReader(string(line)))
		if row, err := r.Read(); err != nil || !slices.Equal(row, want) {
			t.Errorf("encoding/csv reads %q as %q %v, want %q", line, row, err, want)
		}
	})
}
