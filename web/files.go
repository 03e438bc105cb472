package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
)

// filesPage is the page that exports and imports files.
type filesPage struct {
	Form  *form
	What  []option
	Modes []option
	Marks []option // decimal marks
	Dates []option // orders of day and month
	Text  string   // the text of the file that was sent, for changing and sending it again; "" for a large file
	Done  *imported
	Rows  []importedRow
	More  int // the number of all rows
}

// imported is the result of an import or of a dry run.
type imported struct {
	Created, Updated, Unchanged, Skipped int
	DryRun                               bool                         `json:"dry_run"`
	CustomFields                         []struct{ Key, Type string } `json:"custom_fields"`
	Rows                                 []struct {
		Row    int
		Action string
	}
}

// importedRow is a line of the file with the action of the import, or with the problem of the line.
type importedRow struct {
	Line                  int
	Text, Action, Problem string
}

const (
	shownRows = 50
	shownText = 30_000 // the maximum size of a shown file, in bytes
)

var (
	imports = []option{{"spools", "Spools"}, {"filaments", "Filaments"}, {"vendors", "Vendors"},
		{"products", "Products"}}
	exports     = append(imports[:4:4], option{"orders", "Orders"}, option{"production-runs", "Runs"})
	importModes = []option{{"upsert", "A known number or id is the same thing, other rows are new"},
		{"update", "A known number or id is the same thing, nothing is new"}, {"create", "Each row is new"}}
	decimalMarks = []option{{"", "The file decides"}, {"point", "1,234.5 (decimal point)"},
		{"comma", "1.234,5 (decimal comma)"}}
	dateOrders = []option{{"", "The file decides"}, {"dmy", "31/12/2024"}, {"mdy", "12/31/2024"}}
)

// Exports returns the resources that can be exported.
func (p *filesPage) Exports() []option { return exports }

func showFiles(v *visit) error { return v.filesPage(200, &filesPage{Form: v.newForm()}) }

func (v *visit) filesPage(status int, p *filesPage) error {
	p.What, p.Modes, p.Marks, p.Dates = imports, importModes, decimalMarks, dateOrders
	return v.show(status, "files", "Import and export", p)
}

// exportFile sends a CSV file with all resources of a kind, such as spools.csv.
func exportFile(v *visit) error {
	what, ok := strings.CutSuffix(v.r.PathValue("name"), ".csv")
	if !ok || !slices.ContainsFunc(exports, func(o option) bool { return o.Value == what }) {
		return server.ErrNotFound
	}
	v.site.server.Forward(v.w, v.r, v.caller(), "/api/v1/"+what+"/export?format=csv")
	return nil
}

// importFile imports the file or the text in the form. Without the field import in the form, it only shows the result
// that the import would have.
func importFile(v *visit) error {
	if err := v.r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return server.ErrTooLarge
	}
	f := v.sent()
	p := &filesPage{Form: f}
	body := strings.TrimPrefix(f.Values.Get("text"), "\ufeff")
	if file, _, err := v.r.FormFile("file"); err == nil {
		defer file.Close()
		sent, err := io.ReadAll(file)
		if err != nil {
			return server.ErrTooLarge
		}
		if len(sent) > 0 {
			body = string(sent)
		}
	}
	if len(body) <= shownText {
		p.Text = body
	}
	what := f.Values.Get("what")
	if !slices.ContainsFunc(imports, func(o option) bool { return o.Value == what }) {
		return server.ErrNotFound
	}
	if strings.TrimSpace(body) == "" {
		f.Errors["file"] = "Choose a file, or paste its text."
		return v.filesPage(422, p)
	}
	dry := f.Values.Get("import") == ""
	header := http.Header{"Content-Type": {"text/csv"}}
	if !dry {
		header.Set("Idempotency-Key", f.Key)
	}
	query := url.Values{"mode": {cmp.Or(f.Values.Get("mode"), importModes[0].Value)}, "dry_run": {strconv.FormatBool(dry)}}
	for _, name := range []string{"decimal", "date_order"} {
		if chosen := f.Values.Get(name); chosen != "" {
			query.Set(name, chosen)
		}
	}
	answer := v.call("POST", "/api/v1/"+what+"/import?"+query.Encode(), header, []byte(body))
	lines := strings.Split(body, "\n")
	line := func(n int) importedRow {
		row := importedRow{Line: n}
		if n > 0 && n <= len(lines) {
			row.Text = strings.TrimSuffix(lines[n-1], "\r")
			row.Text = strings.ToValidUTF8(row.Text[:min(200, len(row.Text))], "")
		}
		return row
	}
	if err := answer.Err(); err != nil {
		if err := f.refuse(err); err != nil {
			return err
		}
		for _, problem := range server.AsError(err).Fields {
			if n, err := strconv.Atoi(strings.TrimPrefix(problem.Field, "line ")); err == nil {
				row := line(n)
				row.Problem = problem.Message
				p.Rows = append(p.Rows, row)
			}
		}
		if len(p.Rows) > 0 {
			f.Problem = "Nothing was imported: some lines are not valid."
		}
		return v.filesPage(422, p)
	}
	p.Done = &imported{}
	if err := json.Unmarshal(answer.Body, p.Done); err != nil {
		return err
	}
	for _, done := range p.Done.Rows[:min(shownRows, len(p.Done.Rows))] {
		row := line(done.Row)
		row.Action = done.Action
		p.Rows = append(p.Rows, row)
	}
	p.More = len(p.Done.Rows)
	if !dry {
		p.Form, p.Text = v.newForm(), ""
	}
	return v.filesPage(200, p)
}
