package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
	"spoolwright/value"
)

// sheetRow is a row of the files of these tests.
type sheetRow struct {
	Name     value.Optional[string]        `json:"name"`
	Weight   value.Optional[value.Decimal] `json:"weight_grams" rule:"maximum=1000000"`
	Diameter value.Optional[value.Decimal] `json:"diameter_mm" rule:"maximum=10"`
	Count    value.Optional[int64]         `json:"quantity" rule:"maximum=1000000"`
	Price    value.Optional[value.Decimal] `json:"price" rule:"maximum=1000000"`
	Day      value.Optional[value.Date]    `json:"day"`
	Used     value.Optional[bool]          `json:"used"`
	Total    value.Decimal                 `json:"total" rule:"readOnly"`
	Number   value.Optional[int64]         `json:"filament_number" rule:"maximum=1000000"`
	SKU      value.Optional[string]        `json:"sku"`
}

// readSheet returns the values of the last column that is not "name", one per row, or the problem with it.
func readSheet(t *testing.T, file string, how transfer.Reading) (values []string) {
	t.Helper()
	how.Mode = transfer.Create
	sheet, err := transfer.ReadSheet([]byte(file), "", 1000, func([]string) int { return 0 })
	testkit.Check(t, err)
	table := &transfer.Table{Names: transfer.Texts(sheet.Rows[0].Cells), Header: sheet.Rows[0].Line, Rows: sheet.Rows[1:],
		Separator: sheet.Separator}
	how = transfer.DetectFormats[sheetRow](table, how)
	records, err := transfer.ReadRecords[sheetRow](table, how)
	testkit.Check(t, err)
	column := records.Fields()[len(records.Fields())-1]
	for {
		row, ok := records.Next()
		if !ok {
			return values
		}
		value := "null"
		if v := server.Row(&row.In)[column]; v != nil {
			value = fmt.Sprint(v)
		}
		for _, p := range row.Problems {
			value = p.Field + " " + p.Message
		}
		values = append(values, value)
	}
}

// The whole file decides what a cell means.
func TestFilesShowTheirNumbers(t *testing.T) {
	t.Parallel()
	const both = "weight_grams can be read as 1000 or as 1,"
	farm := func(currency string) transfer.Reading {
		return transfer.Reading{Currency: func() (string, error) { return currency, nil }}
	}
	for _, test := range []struct {
		file string
		how  transfer.Reading
		want string // the values, separated by |; a problem may go on
	}{
		// The separator.
		{"name;weight_grams\na;1.000\nb;1,000", transfer.Reading{}, "1000|1"},
		{"name,weight_grams\na,1.000\nb,\"1,000\"", transfer.Reading{}, "1|1000"},
		{"name\tweight_grams\na\t1.000\nb\t1,000", transfer.Reading{}, both + "|" + both},
		{"weight_grams\n1.000\n", transfer.Reading{}, "1"},
		{"sep=|\nname|weight_grams\na|1.000", transfer.Reading{}, both},
		// Other rows and columns, before and after, prove more than the separator.
		{"name\tweight_grams\na\t1.000\nb\t12,5", transfer.Reading{}, "1000|12.5"},
		{"name\tweight_grams\na\t12.5\nb\t1.000\nc\t1,000", transfer.Reading{}, "12.5|1|1000"},
		{"name;weight_grams\na;1.000\nb;0.125", transfer.Reading{}, "1|0.125"},
		{"name,weight_grams\na,1.000\nb,\"12,5\"", transfer.Reading{}, "1000|12.5"},
		{"name,price,weight_grams\na,\"29,90\",1.000", transfer.Reading{}, "1000"},
		{"total\tweight_grams\n12,5\t1.000", transfer.Reading{}, "1000"},
		{"name\tweight_grams\na\t1.000\nb\t1.234.567,5", transfer.Reading{}, "1000|weight_grams must be"},
		{"name\tweight_grams\na\t1.000\nb\t234.567,5", transfer.Reading{}, "1000|234567.5"},
		{"name\tweight_grams\na\t1.000\nb\t1,234.5", transfer.Reading{}, "1|1234.5"},
		{"name\tweight_grams\na\t1.000\nb\t1234.567", transfer.Reading{}, "1|1234.567"},
		// A text column proves nothing, and neither do whole numbers.
		{"name\tweight_grams\n1,5\t1.000", transfer.Reading{}, both},
		{"name\tweight_grams\na\t1.000\nb\t1500", transfer.Reading{}, both + "|1500"},
		// A value that a field cannot have is no reading.
		{"diameter_mm\tweight_grams\n1.750\t1.000", transfer.Reading{}, "1"},
		{"diameter_mm\tweight_grams\n1,750\t1.000", transfer.Reading{}, "1000"},
		{"quantity\tweight_grams\n1.500\t1.000", transfer.Reading{}, "1000"},
		// Contradictions.
		{"name\tweight_grams\na\t1.5\nb\t1,5\nc\t1.000", transfer.Reading{}, "1.5|1.5|" + both},
		{"name,weight_grams\na,1.5\nb,\"1,5\"\nc,1.000", transfer.Reading{}, "1.5|1.5|" + both},
		// The choice.
		{"name\tweight_grams\na\t1.000\nb\t12.5", transfer.Reading{Decimal: transfer.Comma}, "1000|12.5"},
		{"name;weight_grams\na;1.000", transfer.Reading{Decimal: transfer.Point}, "1"},
		{"name\tweight_grams\na\t1,000", transfer.Reading{Decimal: transfer.Comma}, "1"},
		// Groups and units.
		{"name\tweight_grams\na\t1 000\nb\t1\u00a0000,5\nc\t1'000\nd\t1’000.5", transfer.Reading{},
			"1000|1000.5|1000|1000.5"},
		{"name;weight_grams\na;1 kg\nb;45 g\nc;1,2 kg\nd;1.000 g\ne;2 t\nf;1 mm", transfer.Reading{},
			"1000|45|1200|1000|weight_grams must be a number between 0 and 1000000; the value is \"2 t\"|" +
				"weight_grams must be a number"},
		{"name;weight_grams\na;2 lb\nb;2,2lbs\nc;35.3 oz\nd;1 Pound", transfer.Reading{}, "907.18|997.9|1000.74|453.59"},
		{"name;weight_grams\na;1,2,3\nb;1.00.000\nc;1e3\nd;-5", transfer.Reading{},
			"weight_grams must be a number|weight_grams must be a number|1000|weight_grams must be at least 0"},
		// Amounts.
		{"name;price\na;€ 29,80\nb;29,80 EUR\nc;1.029,80 €", farm("EUR"), "29.8|29.8|1029.8"},
		{"name;price\na;$29.80\nb;US$5", farm("EUR"),
			"price must be an amount in EUR; the value is \"$29.80\"|price must be a number"},
		{"name;price\na;$29.80", farm("USD"), "29.8"},
		{"name;price\na;29,80 €\nb;5 EUR\nc;$5", farm(""), "29.8|5|price must be an amount in EUR"},
		{"name;price\na;5 pcs", farm(""), "price must be a number"},
	} {
		got, want := readSheet(t, test.file, test.how), strings.Split(test.want, "|")
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			ok = ok && (got[i] == want[i] || strings.Contains(want[i], " ") && strings.HasPrefix(got[i], want[i]))
		}
		if !ok {
			t.Errorf("%q:\n%s\nwant\n%s", test.file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The dates of a file decide whether the day or the month is first.
func TestFilesShowTheirDates(t *testing.T) {
	t.Parallel()
	const both = "day can be read as 2024-02-01 or as 2024-01-02,"
	for _, test := range []struct{ file, order, want string }{
		{"01/02/2024", "", both},
		{"01/02/2024 31/01/2024", "", "2024-02-01 2024-01-31"},
		{"01/02/2024 01/31/2024", "", "2024-01-02 2024-01-31"},
		{"31/01/2024 01/31/2024 01/02/2024", "", "2024-01-31 2024-01-31 " + both},
		{"01/02/2024 05/05/2024 2024-12-31", "", both + " 2024-05-05 2024-12-31"},
		{"01/02/2024", "dmy", "2024-02-01"},
		{"01/02/2024", "mdy", "2024-01-02"},
		{"1/2/24", "mdy", "2024-01-02"},
		{"01-02-2024", "", both},
		{"01.02.2024 01/02/2024", "", "2024-02-01 2024-02-01"},
		{"1.2.24", "", "2024-02-01"},
		{"1.2.99", "", "1999-02-01"},
		{"2024/02/01 2024.2.1 2024-02-01T00:00:00", "", "2024-02-01 2024-02-01 2024-02-01"},
		{"1-Feb-2024 Feb-1-2024 1.Februar.2024 01/févr./2024 1-mag-24", "",
			"2024-02-01 2024-02-01 2024-02-01 2024-02-01 2024-05-01"},
		{"31.02.2024", "", "day must be a date such as 2024-01-15; the value is \"31.02.2024\""},
		{"24-01-02", "", "day must be a date"},
		{"32/13/2024", "", "day must be a date"},
		{"45306", "", "day must be a date"},
		{"1/x/2024", "", "day must be a date"},
	} {
		file := "name\tday\nx\t" + strings.ReplaceAll(test.file, " ", "\nx\t")
		got := strings.Join(readSheet(t, file, transfer.Reading{Dates: transfer.DateOrder(test.order)}), " ")
		plain, want := got, test.want
		if strings.Contains(want, both) { // the message goes on
			before, rest, _ := strings.Cut(got, both)
			_, after, _ := strings.Cut(rest, `the value is "`)
			_, after, _ = strings.Cut(after, `"`)
			plain = before + both + after
		}
		if plain != want && !(strings.HasPrefix(want, "day ") && strings.HasPrefix(got, want)) {
			t.Errorf("%q: %s, want %s", test.file, got, want)
		}
	}
	if got := readSheet(t, "day\n15 Jan 2024\n\"Jan 15, 2024\"\n15. Januar 2024 00:00\n", transfer.Reading{}); strings.
		Join(got, " ") != "2024-01-15 2024-01-15 2024-01-15" {
		t.Errorf("dates with blanks: %v", got)
	}
}

// Booleans are those of spreadsheets in several languages.
func TestFilesShowTheirBooleans(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, want string }{
		{"TRUE FALSE true false 1 0 yes No", "true false true false true false true false"},
		{"WAHR FALSCH ja Nein", "true false true false"},
		{"VRAI FAUX oui non", "true false true false"},
		{"VERDADERO FALSO sí no VERO SIM NÃO", "true false true false true true false"},
		{"Waar Onwaar Prawda Fałsz Sant Falskt Pravda Nepravda", "true false true false true false true false"},
		{"x _ X _", "true false true false"}, // an empty cell beside marks
		{"x _ nein", "true null false"},
		{"_ ja", "null true"},
		{"maybe", `used must be true or false; the value is "maybe"`},
	} {
		rows := strings.Split(test.file, " ")
		file := "name\tused\nx\t" + strings.ReplaceAll(strings.Join(rows, "\nx\t"), "_", "")
		if got := strings.Join(readSheet(t, file, transfer.Reading{}), " "); got != test.want {
			t.Errorf("%q: %s, want %s", test.file, got, test.want)
		}
	}
}

// What is written in one language is read back, whatever the separator is.
func TestFilesOfOneLanguage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ decimal, group string }{
		{".", ""}, {",", ""}, {".", ","}, {",", "."}, {",", " "}, {",", "\u202f"}, {".", "’"}, {".", "'"},
	} {
		for _, separator := range []string{",", ";", "\t"} {
			numbers := []string{"1", "0.5", "12.345", "1.185", "985.125", "1000", "999999", "1000.5", "1.75", "0.000001"}
			file := "name" + separator + "weight_grams\n"
			for _, n := range numbers {
				whole, fraction, hasFraction := strings.Cut(n, ".")
				if len(whole) > 3 {
					whole = whole[:len(whole)-3] + test.group + whole[len(whole)-3:]
				}
				if hasFraction {
					whole += test.decimal + fraction
				}
				file += "x" + separator + `"` + whole + "\"\n"
			}
			got := strings.Join(readSheet(t, file, transfer.Reading{}), " ")
			if want := strings.Join(numbers, " "); got != want {
				t.Errorf("decimal %q, group %q, separator %q: %s, want %s", test.decimal, test.group, separator, got, want)
			}
		}
	}
}

// A code that a spreadsheet may have damaged is refused, with what to do. Other texts stay as they are. Of each column,
// the codes after the bar are refused.
func TestDamagedCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ column, codes, problem string }{
		{"sku", "A-1 3104270001 | 3.10427E+09 1,2E+11 1E+05 1.2e+11 4.00638E+12 1.5E-05", "a spreadsheet rounded"},
		{"sku", "5E10 1E5 1E4X E+09 1E-05 12E+05X 3.1E09 1e5", ""},
		{"filament_number", "12 7 | 1.2E+03 1E+05", "a spreadsheet rounded"},
		{"sku", "00123 00124 12345 123456 A125 | 125 1", "because another code has 5 digits"},
		{"sku", "#1 # #12 N/A ##A | ######## #NAME? #N/A #REF! #DIV/0!", "instead of a code"},
		{"sku", "1 12 125 12345", ""},
		{"sku", "0 1 7", ""},
		{"sku", "A-1 12-05 | 02-Jan 2-Jan 02.Jan Jan-02 02-janv 1-mrt", "changed to a date"},
		{"sku", "A-1 B-2 | 1/2/2024 01.02.2024 1-2-2024 2024-01-02", "changed to a date"},
		{"sku", "1/2/2024 2024-01-02", ""},
		{"sku", "2024-11-05 2024-11-45 A-1", ""},
		{"sku", "MAR-01 JAN-02 02-JAN Marble-01 12-Decor 12-Deck Mars-2024", ""},
		{"sku", "| 1234.0 1235.0 7,00", "can be the code"},
		{"sku", "1234 2.0 A", ""},
		{"sku", "| 123456789012345000 1234567890123460", "keeps 15"},
		{"sku", "123456789012345000 1234567890123461", ""},
		{"sku", "1234567890123460 A", ""},
	} {
		fine, damaged, _ := strings.Cut(test.codes, "|")
		all := append(strings.Fields(fine), strings.Fields(damaged)...)
		file := "name;" + test.column + "\n"
		for _, code := range all {
			file += "n;" + code + "\n"
		}
		for i, got := range readSheet(t, file, transfer.Reading{}) {
			isFine := i < len(strings.Fields(fine))
			if problem := test.column + " "; strings.HasPrefix(got, problem) == isFine ||
				!isFine && (!strings.Contains(got, test.problem) || !strings.Contains(got, "format the column as text")) {
				t.Errorf("%s: %q is read as %q", test.codes, all[i], got)
			}
			if isFine && test.column == "sku" {
				testkit.Equal(t, got, all[i], "of %s", test.codes)
			}
		}
	}
}
