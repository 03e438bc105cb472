package transfer

import (
	"strings"

	"spoolwright/server"
)

// Known are the resources that the rows of a file may name, also hidden ones, by id and by number.
type Known map[string]Stored

// Resolve makes those rows new ones that name no known resource, for the mode Upsert: the keys of a row are its id and
// its number, and perhaps others. The id decides before the number. The ids of a file of another farm, or of one that
// was imported before into this one, are unknown. Its numbers then name resources if all of them do that are known:
// same reports whether a row describes a resource. Rows that name a hidden resource stay as they are.
//
// A row that has only a number can be a list of other things, numbered by hand. It must not differ from what it names
// in all that differs tells: the return value describes the resource, or is "".
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
				invalid.Add(rows[i].Line, "number", "is that of %s, which the row does not describe: with the mode update "+
					"the row changes it, and without the number it is a new one", other)
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

// Named returns the ids and the numbers by which rows name resources, of a file with the mode Upsert.
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

// EqualText reports whether a field of a row, if the file has it, is the text of a column, without regard to case.
func EqualText[T ~string](field server.Optional[T], s Stored, column string) bool {
	return !field.Set || strings.EqualFold(string(field.Or("")), s.Text(column))
}
