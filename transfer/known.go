package transfer

import (
	"strings"

	"spoolwright/value"
)

// Known contains the resources that the rows of a file may name, including hidden resources, by id and by number.
type Known map[string]Stored

// Resolve decides, for the mode Upsert, which rows name a known resource, and makes the other rows new resources. The
// keys of a row are its id, its number, and perhaps others. A known id takes precedence over the number. If a file is
// from another farm, or was imported into this farm before, its ids are unknown. The numbers of its rows then name the
// known resources with these numbers, if each of these rows describes its resource: same reports whether a row
// describes it. Rows that name a hidden resource do not change.
//
// A file whose rows have numbers but no ids can be an unrelated list that was numbered by hand. A row of it is an
// error if it does not describe the resource with its number: differs returns a description of the resource in this
// case, and otherwise "".
func Resolve[T any](rows []Record[T], known Known, same func(*T, Stored) bool, differs func(*T, Stored) string) error {
	agree := true
	var unknown []int
	invalid := RowProblems{}
	for i := range rows {
		switch keys := rows[i].Keys; {
		case keys == nil:
		case keys[0] != "":
			if known[keys[0]] != nil {
				continue
			}
			unknown = append(unknown, i)
			if s := known[keys[1]]; keys[1] != "" && s != nil && s["hidden_at"] == nil {
				agree = agree && same(&rows[i].In, s)
			}
		case keys[1] != "" && known[keys[1]] == nil:
			unknown = append(unknown, i)
		case keys[1] != "":
			if other := differs(&rows[i].In, known[keys[1]]); other != "" {
				invalid.Add(rows[i].Line, "number", "is the number of %s, which the row does not describe: with the mode update "+
					"the row changes it, and without the number the row is a new one", other)
			}
		}
	}
	for _, i := range unknown {
		row := &rows[i]
		if s := known[row.Keys[1]]; agree && row.Keys[1] != "" && s != nil {
			row.Keys[0], row.Foreign = "", true
			continue
		}
		if len(row.Keys) > 2 && row.Keys[2] != "" { // a name
			row.Keys[0], row.Keys[1] = "", ""
			continue
		}
		*row = row.New()
		for _, p := range row.Problems {
			invalid.Add(row.Line, p.Field, "%s", p.Message)
		}
	}
	return invalid.Err()
}

// Named returns the ids and the numbers by which the rows of a file name resources. The mode is Upsert.
func Named[T any](rows []Record[T]) (ids, numbers []string) {
	for _, row := range rows {
		if row.Keys == nil {
			continue
		}
		if row.Keys[0] != "" {
			ids = append(ids, row.Keys[0])
		}
		if row.Keys[1] != "" {
			numbers = append(numbers, row.Keys[1])
		}
	}
	return ids, numbers
}

// EqualText reports whether a field equals the text of a column, without regard to case. If the file lacks the field,
// EqualText returns true.
func EqualText[T ~string](field value.Optional[T], s Stored, column string) bool {
	return !field.Set || strings.EqualFold(string(field.Or("")), s.Text(column))
}
