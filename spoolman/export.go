package spoolman

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
)

var (
	vendorCells = []string{"comment", "empty_spool_weight", "external_id", "id", "name", "registered"}

	filamentCells = append([]string{"article_number", "color_hex", "comment", "density", "diameter", "external_id",
		"id",
		"material", "multi_color_direction", "multi_color_hexes", "name", "price", "registered", "settings_bed_temp",
		"settings_extruder_temp", "spool_weight", "vendor_id", "weight"}, prefixed("vendor.", vendorCells)...)

	spoolCells = append([]string{"archived", "comment", "filament_id", "first_used", "id", "initial_weight",
		"last_used",
		"location", "lot_nr", "price", "registered", "spool_weight", "used_weight"},
		prefixed("filament.", filamentCells)...)
)

func prefixed(prefix string, names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}

// export sends all items of a kind in CSV or JSON. Each field of the item, of its filament and of its vendor is one
// column.
func (q request) export() error {
	name := q.r.PathValue("items")
	columns := map[string][]string{"spools": spoolCells, "filaments": filamentCells, "vendors": vendorCells}[name]
	if columns == nil {
		return errMethod
	}
	format := q.query.Get("fmt")
	if format != "csv" && format != "json" {
		return server.Invalid("fmt", "must be csv or json")
	}
	all := q
	all.query = url.Values{"allow_archived": q.query["allow_archived"]}
	var body []byte
	all.reply = func(list []byte) error { body = list; return nil }
	if err := all.list(strings.TrimSuffix(name, "s")); err != nil {
		return err
	}
	var items []map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&items); err != nil {
		return err
	}
	var rows []map[string]any
	extras := map[string]bool{}
	for _, item := range items {
		row := map[string]any{}
		flatten(row, "", item)
		for key := range row {
			if strings.Contains("."+key, ".extra.") {
				extras[key] = true
			}
		}
		rows = append(rows, row)
	}
	columns = slices.Concat(columns, slices.Sorted(maps.Keys(extras)))
	slices.Sort(columns)
	text, err := exportText(format, columns, rows)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.`+format+`"`)
	if format == "csv" {
		q.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	}
	return q.send(text)
}

// flatten adds the fields of an item to a row. Fields of its filament and its vendor get names such as filament.name.
// flatten leaves out the vendor that the API shows for a filament without a vendor.
func flatten(row map[string]any, prefix string, item map[string]any) {
	for name, value := range item {
		inner, isObject := value.(map[string]any)
		switch {
		case name == "vendor" && isObject && fmt.Sprint(inner["id"]) == fmt.Sprint(unknownVendor):
		case !isObject:
			if s, ok := value.(string); ok && (name == "registered" || name == "first_used" || name == "last_used") {
				value = strings.TrimSuffix(strings.Replace(s, "T", " ", 1), "Z")
			}
			row[prefix+name] = value
		default:
			if name != "extra" {
				row[prefix+name+"_id"] = inner["id"]
			}
			flatten(row, prefix+name+".", inner)
		}
	}
}

func exportText(format string, columns []string, rows []map[string]any) ([]byte, error) {
	if format == "json" {
		all := make([]map[string]any, len(rows))
		for i, row := range rows {
			all[i] = map[string]any{}
			for _, name := range columns {
				if value, ok := row[name]; ok || !strings.Contains("."+name, ".extra.") {
					all[i][name] = value
				}
			}
		}
		return json.Marshal(all)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	w.Write(columns)
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, name := range columns {
			switch v := row[name].(type) {
			case nil:
			case bool:
				cells[i] = map[bool]string{false: "False", true: "True"}[v]
			case string:
				// A spreadsheet would run a text with such a first character as a formula.
				if cells[i] = v; v != "" && strings.ContainsRune("=+-@\t\r", rune(v[0])) {
					cells[i] = "'" + v
				}
			default:
				cells[i] = fmt.Sprint(v)
			}
		}
		w.Write(cells)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func (q request) externalFilaments() error {
	return q.sendExternal(inventory.ExternalFilaments(nil, maxItems))
}

func (q request) searchExternal() error {
	words := strings.Fields(q.query.Get("query"))
	limit := 20
	if text := q.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return server.Invalid("limit", "must be a whole number between 1 and 100")
		}
		limit = n
	}
	switch {
	case len(words) > maxTerms:
		return server.Invalid("query", "must have at most %d words", maxTerms)
	case len(words) == 0:
		return q.encode([]object{})
	}
	return q.sendExternal(inventory.ExternalFilaments(words, limit))
}

func (q request) externalMaterials() error { return q.sendExternal(inventory.ExternalMaterials()) }

// sendExternal runs a statement that reads a part of the tenant's catalog, and sends the result.
func (q request) sendExternal(stmt *db.Stmt) error {
	var body []byte
	if err := q.db.Read(q.r.Context(), db.FreshPlan(), stmt.Into(&body)); err != nil {
		return err
	}
	return q.send(body)
}
