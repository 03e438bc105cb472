package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Conversion is a sheet whose columns were recognized.
type Conversion struct {
	Table    *Table
	Sheet    *Sheet
	Columns  []SheetColumn
	Defaults []DefaultValue // that were suggested
	Missing  []string       // required fields without a column and a default
	Changed  []CellChange   // in the order of the rows
	Program  *Program       // the program that wrote the file, or nil

	titles map[string]string // by field
}

// Why is the reason why a column has its field.
type Why string

// Enum returns all reasons.
func (Why) Enum() []string { return []string{"given", "remembered", "name", "values", "none"} }

// SheetColumn is a column of a file that is checked.
type SheetColumn struct {
	Title string      `json:"title" rule:"notNull"`
	Field *string     `json:"field"`
	Why   Why         `json:"why" rule:"notNull,named=ColumnReason"`
	Note  *string     `json:"note"`
	Texts []SheetText `json:"texts" rule:"notNull"`
}

// SheetText is one of the first texts of a column.
type SheetText struct {
	Text string `json:"text" rule:"notNull"`
}

// DefaultValue is the value of a field in rows without a value for it.
type DefaultValue struct {
	Field string `json:"field" rule:"notNull"`
	Value string `json:"value" rule:"notNull"`
}

// CellChange is a text that the import reads as something other than its literal value.
type CellChange struct {
	Line   int
	Field  string
	Text   string
	Detail string // what it becomes, such as "PLA, name PLA+"
}

// Change groups the rows in which the import reads a text as the same other value.
type Change struct {
	Field  string `json:"field" rule:"notNull"`
	Text   string `json:"text" rule:"notNull"`
	Detail string `json:"detail" rule:"notNull"`
	Count  int64  `json:"count" rule:"notNull"`
	Row    int64  `json:"first_row" rule:"notNull"`
}

// RowError is a problem with a cell of a row.
type RowError struct {
	Field   string  `json:"field" rule:"notNull"`
	Column  *string `json:"column"`
	Message string  `json:"message" rule:"notNull"`
}

// RowCell is the text of a column in a row.
type RowCell struct {
	Column string `json:"column" rule:"notNull"`
	Text   string `json:"text" rule:"notNull"`
}

// InvalidRow is a row that cannot be imported.
type InvalidRow struct {
	Row    int64      `json:"row" rule:"notNull"`
	Cells  []RowCell  `json:"cells" rule:"notNull"`
	Errors []RowError `json:"errors" rule:"notNull"`
}

// SheetRow is one of the first rows of a file.
type SheetRow struct {
	Row   int64     `json:"row" rule:"notNull"`
	Cells []RowCell `json:"cells" rule:"notNull"`
}

// ErrorGroup groups the rows that have the same problem.
type ErrorGroup struct {
	Field   string      `json:"field" rule:"notNull"`
	Column  *string     `json:"column"`
	Message string      `json:"message" rule:"notNull"`
	Count   int64       `json:"count" rule:"notNull"`
	Row     *int64      `json:"first_row"`
	Texts   []SheetText `json:"texts" rule:"notNull"`
}

// ImportCheck is the result of the check of a file. The counts are those of the import of its valid rows.
type ImportCheck struct {
	ImportCounts
	Program    *string        `json:"program"`
	Header     int64          `json:"header_row" rule:"notNull"`
	Columns    []SheetColumn  `json:"columns" rule:"notNull"`
	Defaults   []DefaultValue `json:"defaults" rule:"notNull"`
	Rows       []SheetRow     `json:"rows" rule:"notNull"`
	ReadRows   []SheetRow     `json:"read_rows" rule:"notNull"`
	Errors     []ErrorGroup   `json:"errors" rule:"notNull"`
	Worksheets []Worksheet    `json:"worksheets" rule:"notNull"`
}

// Worksheet is a worksheet of a workbook.
type Worksheet struct {
	Name   string `json:"name" rule:"notNull"`
	IsRead bool   `json:"read" rule:"notNull"`
}

const (
	maxGroups  = 50  // groups of changes and of errors
	maxSample  = 8   // rows of a sample
	maxTexts   = 3   // texts of a sample
	maxCellLen = 200 // characters of a text in an answer
)

// Title returns the title of the column of a field, or nil.
func (c *Conversion) title(field string) *string {
	if c.titles == nil {
		c.titles = map[string]string{}
		for _, column := range c.Columns {
			if column.Field != nil {
				c.titles[*column.Field] = column.Title
			}
		}
	}
	if title, ok := c.titles[field]; ok {
		return &title
	}
	return nil
}

// cells returns the texts of a row of the sheet, by the titles of its columns.
func (c *Conversion) cells(row Row) []RowCell {
	cells := []RowCell{}
	for i, column := range c.Columns {
		if i < len(row.Cells) {
			cells = append(cells, RowCell{column.Title, shortened(textOf(row.Cells[i]))})
		}
	}
	return cells
}

func shortened(text string) string { return value.Shorten(text, maxCellLen) }

// rows returns the first invalid rows.
func (c *Conversion) rows(invalid RowProblems) []InvalidRow {
	all := []InvalidRow{}
	for _, row := range c.Sheet.Rows {
		problems := invalid[row.Line]
		if problems == nil || len(all) == MaxListed {
			continue
		}
		one := InvalidRow{Row: int64(row.Line), Cells: c.cells(row), Errors: []RowError{}}
		for _, p := range problems {
			one.Errors = append(one.Errors, RowError{p.Field, c.title(p.Field), p.Message})
		}
		all = append(all, one)
	}
	return all
}

// changes groups the changes of the rows of a table.
func (c *Conversion) changes(table *Table) []Change {
	lines := map[int]bool{}
	for _, row := range table.Rows {
		lines[row.Line] = true
	}
	all, at := []Change{}, map[[3]string]int{}
	for _, one := range c.Changed {
		if !lines[one.Line] {
			continue
		}
		key := [3]string{one.Field, one.Text, one.Detail}
		n, ok := at[key]
		if !ok {
			n = len(all)
			at[key] = n
			all = append(all, Change{Field: one.Field, Text: shortened(one.Text), Detail: shortened(one.Detail),
				Row: int64(one.Line)})
		}
		all[n].Count++
	}
	value.Sort(all, func(a, b Change) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(len(all), maxGroups)]
}

// groups groups the problems of the rows by their fields and messages. The values in the messages become the texts of
// the groups.
func (c *Conversion) groups(invalid RowProblems) []ErrorGroup {
	all, at := []ErrorGroup{}, map[[2]string]int{}
	for _, line := range slices.Sorted(maps.Keys(invalid)) {
		for _, p := range invalid[line] {
			message, text, _ := strings.Cut(p.Message, "; the value is ")
			key := [2]string{p.Field, message}
			n, ok := at[key]
			if !ok {
				n = len(all)
				at[key] = n
				row := int64(line)
				all = append(all, ErrorGroup{Field: p.Field, Column: c.title(p.Field), Message: message, Row: &row,
					Texts: []SheetText{}})
			}
			g := &all[n]
			g.Count++
			text = strings.Trim(text, `"`)
			if text != "" && len(g.Texts) < maxTexts && !slices.Contains(g.Texts, SheetText{text}) {
				g.Texts = append(g.Texts, SheetText{text})
			}
		}
	}
	value.Sort(all, func(a, b ErrorGroup) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(len(all), maxGroups)]
}

// CheckEndpoint returns the endpoint that checks a file of an import with modes. It suggests the meaning of its
// columns, reads all rows, and returns all problems instead of a 422.
func (i Import[F, R]) CheckEndpoint(d *db.DB) server.Endpoint {
	return checkEndpoint[ImportQuery](i.untyped(), d)
}

// FileCheckEndpoint is CheckEndpoint for an import without modes.
func (i Import[F, R]) FileCheckEndpoint(d *db.DB) server.Endpoint {
	return checkEndpoint[FileQuery](i.untyped(), d)
}

func checkEndpoint[Q query](i *untyped, d *db.DB) server.Endpoint {
	e := server.HandleText("text/csv", i.Example,
		func(ctx context.Context, r *server.Request[Q], body []byte) (ImportCheck, error) {
			how, _, err := r.In.reading()
			if err != nil {
				return ImportCheck{}, err
			}
			how.Suggest = true
			if how.Mapping == nil {
				if how.Remembered, err = i.remembered(ctx, d); err != nil {
					return ImportCheck{}, err
				}
			}
			return i.check(ctx, d, body, how.In(ctx, d))
		},
		func(ctx context.Context, r *server.Request[Q], check ImportCheck) (server.OK[ImportCheck], error) {
			if err := d.CheckActor(ctx); err != nil {
				return nil, err
			}
			return server.Encode(check)
		})
	e.Others = []string{WorkbookMedia, OpenDocumentMedia}
	return e
}

// check checks a file. The error is a 422 if the file contains no table.
func (i *untyped) check(ctx context.Context, d *db.DB, body []byte, how Reading) (check ImportCheck, err error) {
	skipping := how
	skipping.SkipInvalid = true
	if file, program, err := i.whole(ctx, d, body, skipping, i.Most, true); program != "" || err != nil {
		if err == nil {
			check, err = i.checkWhole(ctx, d, file)
		}
		check.Program = &program
		return check, err
	}
	c, err := i.convert(ctx, d, body, how, i.Most)
	if err != nil {
		return check, err
	}
	if c.Table.Header == 0 {
		return check, server.Invalid("body", "cannot be imported: the file is empty")
	}
	if how.Program = c.Program; c.Program != nil {
		check.Program = &c.Program.Name
	}
	invalid := RowProblems{}
	check.ReadRows = []SheetRow{}
	if len(c.Missing) == 0 {
		var result counted
		var valid *Table
		valid, invalid, result, err = i.sift(ctx, d, c.Table, how, i.Most, d.Tx)
		if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 422 && len(e.Fields) > 0 {
			if _, ok := errors.AsType[RowProblems](err); !ok {
				return check, err
			}
		} else if err != nil {
			return check, err
		}
		if result != nil {
			check.ImportCounts = result.counts()
			check.ReadRows = append(check.ReadRows, valid.firstRead...)
		}
	}
	check.add(len(invalid), c.changes(c.Table), c.rows(invalid))
	check.DryRun, check.Header = true, int64(c.Table.Header)
	check.Columns, check.Defaults = c.Columns, append([]DefaultValue{}, c.Defaults...)
	check.Errors, check.Rows, check.Worksheets = []ErrorGroup{}, []SheetRow{}, []Worksheet{}
	for _, name := range c.Sheet.Worksheets {
		check.Worksheets = append(check.Worksheets, Worksheet{name, name == c.Sheet.Worksheet})
	}
	for _, field := range c.Missing {
		check.Errors = append(check.Errors, ErrorGroup{Field: field, Count: int64(len(c.Table.Rows)), Texts: []SheetText{},
			Message: language.Sprintf("is required: choose its column, or set a default")})
	}
	check.Errors = append(check.Errors, c.groups(invalid)...)
	for _, row := range c.Sheet.Rows {
		if row.Line > c.Table.Header && len(check.Rows) < maxSample {
			check.Rows = append(check.Rows, SheetRow{int64(row.Line), c.cells(row)})
		}
	}
	return check, nil
}

// checkWhole checks a file that the function Whole has read.
func (i *untyped) checkWhole(ctx context.Context, d *db.DB, file any) (check ImportCheck, err error) {
	var result counted
	err = d.Tx(ctx, func(ctx context.Context) (err error) {
		result, err = i.Write(ctx, d, &file, true)
		return err
	})
	if err != nil {
		return check, i.Error(err)
	}
	check.ImportCounts, check.Columns, check.Defaults = result.counts(), []SheetColumn{}, []DefaultValue{}
	check.Rows, check.ReadRows, check.Worksheets = []SheetRow{}, []SheetRow{}, []Worksheet{}
	invalid := RowProblems{}
	for _, row := range check.InvalidRows {
		for _, e := range row.Errors {
			invalid.Add(int(row.Row), e.Field, "%s", e.Message)
		}
	}
	check.Errors = (&Conversion{}).groups(invalid)
	return check, nil
}

// FirstTexts returns the first different texts of a column, for its SheetColumn.
func FirstTexts(rows []Row, column int) []SheetText {
	all := []SheetText{}
	for _, row := range rows {
		if column >= len(row.Cells) || len(all) == maxTexts {
			continue
		}
		text := SheetText{shortened(textOf(row.Cells[column]))}
		if text.Text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// Titles returns the titles of the columns of a sheet, all different. Row is the row of the titles, or nil if the
// sheet has none. A column without a title is named by its place. It leaves out empty columns at the end.
func (s *Sheet) Titles(row *Row, rows []Row) (titles []string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(trim(slices.Clone(r.Cells))))
	}
	var given []string
	if row != nil {
		given = Texts(trim(slices.Clone(row.Cells)))
		width = max(width, len(given))
	}
	taken, next := map[string]bool{}, map[string]int{}
	for i := range width {
		title := ""
		if i < len(given) {
			title = shortened(strings.Join(strings.Fields(given[i]), " "))
		}
		title = cmp.Or(title, fmt.Sprintf("Column %d", i+1))
		for first := title; taken[title]; {
			next[first]++
			title = fmt.Sprintf("%s (%d)", first, next[first]+1)
		}
		taken[title] = true
		titles = append(titles, title)
	}
	return titles
}
