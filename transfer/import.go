package transfer

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Fields describes the fields of the requests and responses of imports. The tags of import operations refer to it.
//
//go:embed fields.md
var Fields string

// ImportQuery are the parameters of an import with modes.
type ImportQuery struct {
	Mode value.Optional[Mode] `query:"mode" rule:"default=create,named=ImportMode"`
	FileQuery
}

// FileQuery are the parameters of an import.
type FileQuery struct {
	Decimal   value.Optional[Decimal]   `query:"decimal" rule:"named=DecimalMark"`
	DateOrder value.Optional[DateOrder] `query:"date_order" rule:"named=DateOrder"`
	DryRun    value.Optional[bool]      `query:"dry_run" rule:"default=false"`
	Mapping   value.Optional[string]    `query:"mapping" rule:"maxLength=50000"`
	Worksheet value.Optional[string]    `query:"worksheet" rule:"maxLength=100"`
	Defaults  value.Optional[string]    `query:"defaults" rule:"maxLength=10000"`
	Fixes     value.Optional[string]    `query:"corrections" rule:"maxLength=200000"`
	Skip      value.Optional[bool]      `query:"skip_invalid" rule:"default=false"`
}

// reading returns the settings, and whether to change nothing. The error is a 422.
func (q ImportQuery) reading() (how Reading, dryRun bool, err error) {
	how, dryRun, err = q.FileQuery.reading()
	how.Mode = q.Mode.Or(Create)
	return how, dryRun, err
}

// reading returns the settings with the mode Create.
func (q FileQuery) reading() (how Reading, dryRun bool, err error) {
	how = Reading{Mode: Create, Decimal: q.Decimal.Or(""), Dates: q.DateOrder.Or(""), SkipInvalid: q.Skip.Or(false),
		Worksheet: q.Worksheet.Or("")}
	var problems server.Problems
	for name, to := range map[string]struct {
		text value.Optional[string]
		into *map[string]string
	}{"mapping": {q.Mapping, &how.Mapping}, "defaults": {q.Defaults, &how.Defaults}} {
		if to.text.IsNull() {
			continue
		}
		var given map[string]*string
		if json.Unmarshal([]byte(to.text.Or("")), &given) != nil || given == nil {
			problems.Add(name, "must be a JSON object with texts, such as {\"Weight (g)\": \"net_weight_grams\"}")
			continue
		}
		*to.into = map[string]string{}
		for key, text := range given {
			if (*to.into)[key] = ""; text != nil {
				(*to.into)[key] = *text
			}
		}
	}
	if text := q.Fixes; !text.IsNull() {
		var given map[string]map[string]string
		if json.Unmarshal([]byte(text.Or("")), &given) != nil || given == nil {
			problems.Add("corrections", "must be a JSON object with lines, such as {\"7\": {\"Type\": \"PLA\"}, \"9\": null}")
		}
		how.Corrections = map[int]map[string]string{}
		for line, texts := range given {
			n, err := strconv.Atoi(line)
			if err != nil {
				problems.Add("corrections", "must have numbers of lines")
			}
			how.Corrections[n] = texts
		}
	}
	return how, q.DryRun.Or(false), problems.Err()
}

// ImportCounts has the numbers of rows that an import created, updated, left unchanged and skipped, and those that it
// left out because they are invalid.
type ImportCounts struct {
	Created   int64 `json:"created" rule:"notNull"`
	Updated   int64 `json:"updated" rule:"notNull"`
	Unchanged int64 `json:"unchanged" rule:"notNull"`
	Skipped   int64 `json:"skipped" rule:"notNull"`
	Invalid   int64 `json:"invalid" rule:"notNull"`
	DryRun    bool  `json:"dry_run" rule:"notNull"`

	Changes     []Change     `json:"changes" rule:"notNull"`
	InvalidRows []InvalidRow `json:"invalid_rows" rule:"notNull"`

	RepeatedRows int64           `json:"repeated_rows" rule:"notNull"`
	RepeatedAt   value.Timestamp `json:"repeated_at"`

	// Last is the last statement of the transaction, or nil: others wait for what it locks.
	Last *db.Stmt `json:"-"`
}

// Count counts an action.
func (c *ImportCounts) Count(a ImportAction) {
	switch a {
	case "created":
		c.Created++
	case "updated":
		c.Updated++
	case "unchanged":
		c.Unchanged++
	case "skipped":
		c.Skipped++
	}
}

// ImportAction is the action of an import for a row.
type ImportAction string

// Enum returns all actions.
func (ImportAction) Enum() []string { return []string{"created", "updated", "unchanged", "skipped"} }

// MaxListed is the maximum number of invalid rows that an import lists.
const MaxListed = 50

// ImportRules describes the files and the responses of an import with the maximum number of rows.
func ImportRules(rows int) string {
	return fmt.Sprintf("Columns may be separated by commas, semicolons, tabs or vertical bars, and the names of columns "+
		"and the material types may have any case. The whole file determines how its numbers and dates are read: a "+
		"cell such as `1.750` is 1750 in a file with decimal commas, which are also assumed with semicolons between the "+
		"columns, and 1.75 in one with decimal points; `01/02/2024` follows dates such as `31/01/2024`. An ambiguous "+
		"value is invalid, and the message names both readings; `decimal` and `date_order` decide. An amount may have "+
		"the currency of the farm, a weight its unit, and booleans the words of spreadsheets in other "+
		"languages.\n\nInstead of CSV, the body may be a workbook of a spreadsheet program (`.xlsx` or `.ods`), with its "+
		"media type. The import reads the worksheet with the best matching titles in its first rows, or the one that "+
		"`worksheet` names. Numbers and dates of its cells are unambiguous, and a line is a row of the "+
		"worksheet.\n\nA file need not have the names of the API: columns of people's own lists are recognized by "+
		"their names in ten languages and by their values, and `mapping` names the fields of other columns. Rows "+
		"above the titles are left out, and the file may be in UTF-8, in UTF-16, or in a code page of Windows. "+
		"`changes` lists converted texts, such as `PLA+`, which becomes `PLA` with the name `PLA+`. The check of the "+
		"import returns suggestions and all problems, but no `422`.\n\nWith `dry_run`, the response is the same, but "+
		"nothing changes; new resources have no `id`.\n\nThe `errors` of a `422` name the first %d invalid rows by "+
		"their lines, such as `line 3`. A request can have 1 MiB, %d rows and %d columns. A cell can be as long as "+
		"its field, and a number or a date 100 bytes long with all that is around it.", MaxListed, rows, MaxColumns)
}

// CheckDescription describes a check of an import.
const CheckDescription = "Reads a file like the import with the same parameters, but changes nothing. It suggests " +
	"the fields of the columns (`columns`) and values for required fields that the file does not have (`defaults`): " +
	"the import with these as `mapping` and `defaults` has the same result. The field of a column is the one in the " +
	"`mapping` of the farm's last import of this kind, or else the one that its name and values suggest. If the " +
	"request has one of these parameters, the check uses it instead of its suggestions. The counts are those of the " +
	"import of the valid rows; `invalid_rows` and `errors` have the others."

// Problems collects the problems of the rows of a file. It lists the first MaxListed rows with problems.
type Problems struct {
	listed  server.Problems
	invalid int
	all     RowProblems
}

// Add adds the problems of a row.
func (p *Problems) Add(line int, all ...server.FieldError) {
	if slices.Equal(p.all[line], all) { // another spool of the same row
		return
	}
	if p.invalid++; p.invalid <= MaxListed {
		p.listed.Add(fmt.Sprintf("line %d", line), "%s", Describe(all))
	}
	if p.all == nil {
		p.all = RowProblems{}
	}
	p.all[line] = append(p.all[line], all...)
}

// Err returns a 422 with the problems, or nil if there are none.
func (p *Problems) Err() error {
	if p.invalid > MaxListed {
		p.listed.Add("rows", "%d other rows are invalid", p.invalid-MaxListed)
	}
	if e, ok := errors.AsType[*server.Error](p.listed.Err()); ok {
		return e.Because(p.all)
	}
	return nil
}

// Describe joins the problems of a row into a text.
func Describe(problems []server.FieldError) string {
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Field+" "+p.Message)
	}
	return strings.Join(texts, "; ")
}

// ReadRows detects the formats of a table, decodes and validates its rows, at most maximum, and returns the rows and
// the decoded columns. check returns the problems with the texts of a row's keys, and may change the texts. The error
// is a 422.
func ReadRows[T any](
	file *Table, how Reading, maximum int, check func(keys []string) []server.FieldError, keys ...string,
) (rows []Record[T], columns []string, err error) {
	how = DetectFormats[T](file, how)
	records, err := ReadRecords[T](file, how, keys...)
	if err != nil {
		if where, problem, ok := strings.Cut(err.Error(), ": "); ok && strings.HasPrefix(where, "line ") {
			return nil, nil, server.Invalid(where, "%s", problem)
		}
		return nil, nil, server.Invalid("body", "cannot be imported: %s", err)
	}
	var invalid Problems
	for {
		if err := how.Err(); err != nil {
			return nil, nil, err
		}
		row, ok := records.Next()
		if row.Keys != nil {
			row.Problems = append(row.Problems, check(row.Keys)...)
		}
		switch {
		case !ok:
			file.firstRead = firstRows(rows, records.Fields())
			return rows, records.Fields(), invalid.Err()
		case len(row.Problems) > 0:
			invalid.Add(row.Line, row.Problems...)
		case len(rows) == maximum:
			return nil, nil, server.Invalid("body", "must have at most %d rows", maximum)
		default:
			rows = append(rows, row)
		}
	}
}

// firstRows returns the first rows as they were read.
func firstRows[T any](rows []Record[T], fields []string) []SheetRow {
	all := []SheetRow{}
	for i := range rows[:min(len(rows), maxSample)] {
		row, values := SheetRow{Row: int64(rows[i].Line), Cells: []RowCell{}}, server.Row(&rows[i].In)
		for _, name := range fields {
			if text := ValueText(values[name]); text != "" {
				row.Cells = append(row.Cells, RowCell{name, shortened(text)})
			}
		}
		all = append(all, row)
	}
	return all
}

// ImportArgs are the operand and the flags of a command that imports a CSV file.
const ImportArgs = "FILE.csv [--tenant NAME] [--mode create|update|upsert] " + fileArgs

// FileArgs are the operands and the flags of a command that imports CSV files without modes.
const FileArgs = "FILE... [--tenant NAME] " + fileArgs

const fileArgs = "[--worksheet NAME] [--decimal comma|point] [--date-order dmy|mdy] [--map COLUMN=FIELD]... " +
	"[--default FIELD=VALUE]... [--skip-invalid] [--dry-run]"

// ImportFlags adds the flags of a command that imports a CSV file.
func ImportFlags(flags *flag.FlagSet) (how *Reading, dryRun *bool) {
	how, dryRun = FileFlags(flags)
	how.Mode = Upsert
	choice(flags, "mode", "create, update or upsert (default upsert)", &how.Mode)
	return how, dryRun
}

// FileFlags adds the flags of a command that imports CSV files without modes.
func FileFlags(flags *flag.FlagSet) (how *Reading, dryRun *bool) {
	how = &Reading{Mode: Create}
	choice(flags, "decimal", "the decimal mark of the numbers, comma or point, if it is ambiguous",
		&how.Decimal)
	choice(flags, "date-order", "the order of the dates, dmy or mdy, if it is ambiguous", &how.Dates)
	flags.StringVar(&how.Worksheet, "worksheet", "",
		"the worksheet of a workbook (.xlsx, .ods); by default, the titles decide")
	pairs(flags, "map", "the field of a column; without the field, the column is left out. May be repeated",
		&how.Mapping)
	pairs(flags, "default", "the value of a field in rows without one. May be repeated", &how.Defaults)
	flags.BoolVar(&how.SkipInvalid, "skip-invalid", false, "import the valid rows if others are invalid")
	return how, flags.Bool("dry-run", false, "check the file and count the rows, but change nothing")
}

// pairs adds a flag with pairs such as Color=color.
func pairs(flags *flag.FlagSet, name, usage string, to *map[string]string) {
	flags.Func(name, usage, func(v string) error {
		at := strings.LastIndexByte(v, '=')
		if name == "default" {
			at = strings.IndexByte(v, '=')
		}
		if at < 1 {
			return errors.New("must be two names with = between them")
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[v[:at]] = v[at+1:]
		return nil
	})
}

// choice adds a flag whose value must be a value of the enum E.
func choice[E interface {
	~string
	value.Enum
}](flags *flag.FlagSet, name, usage string, to *E) {
	flags.Func(name, usage, func(v string) error {
		all := E(v).Enum()
		if *to = E(v); !slices.Contains(all, v) {
			last := len(all) - 1
			return fmt.Errorf("must be %s or %s", strings.Join(all[:last], ", "), all[last])
		}
		return nil
	})
}

// runImport runs the import of a CSV file, and prints the counts or the invalid rows.
func runImport(c *cli.Call, resources string, run func() (counts ImportCounts, notes []string, err error)) error {
	counts, notes, err := run()
	if e, ok := errors.AsType[*server.Error](err); ok && len(e.Fields) > 0 {
		for _, p := range e.Fields {
			fmt.Fprintln(c.Err, cli.Printable(p.Field+": "+p.Message))
		}
		if rows, ok := errors.AsType[RowProblems](err); ok {
			err = rows
		} else {
			err = errors.New("the file is invalid")
		}
	}
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	for _, line := range notes {
		fmt.Fprintln(c.Out, line)
	}
	for _, change := range counts.Changes {
		fmt.Fprintln(c.Out, cli.Printable(fmt.Sprintf("%d rows: %s %s: %s", change.Count, change.Field, change.Text,
			change.Detail)))
	}
	for _, row := range counts.InvalidRows {
		var texts []string
		for _, e := range row.Errors {
			texts = append(texts, e.Field+" "+e.Message)
		}
		fmt.Fprintln(c.Err, cli.Printable(fmt.Sprintf("line %d is left out: %s", row.Row, strings.Join(texts, "; "))))
	}
	if counts.Invalid > 0 {
		fmt.Fprintf(c.Out, "invalid rows left out: %d\n", counts.Invalid)
	}
	fmt.Fprintf(c.Out, "%s created: %d; updated: %d; unchanged: %d; skipped rows: %d\n", resources, counts.Created,
		counts.Updated, counts.Unchanged, counts.Skipped)
	if counts.RepeatedRows > 0 {
		fmt.Fprintf(c.Out, "rows of new %s that came in before: %d; last at %s\n", resources, counts.RepeatedRows,
			counts.RepeatedAt.Format(time.RFC3339))
	}
	if counts.DryRun {
		fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
	}
	return nil
}
