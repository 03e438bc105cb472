package spoolman

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/auth/audit"
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
	kind := strings.TrimSuffix(name, "s")
	all := q
	all.query = url.Values{"allow_archived": q.query["allow_archived"]}
	selected, err := all.selects(kind)
	if err != nil {
		return err
	}
	selected.order = selected.id
	media := ""
	if format == "csv" {
		media = "text/csv; charset=utf-8"
	}
	return server.RespondStream(q.w, q.r, media, name+"."+format, func(ctx context.Context, to io.Writer) error {
		var extras []byte
		ids, err := q.readIDs(ctx, selected.idsOf(kind, window{limit: maxItems + 1}), audit.Export(name), db.FreshPlan(),
			selected.extraKeys().Into(&extras))
		if err != nil {
			return err
		}
		if len(ids) > maxItems {
			return server.Invalid("export", "is for at most %d items", maxItems)
		}
		var more []string
		if err := json.Unmarshal(extras, &more); err != nil {
			return err
		}
		write, end := exportTo(to, format, slices.Sorted(slices.Values(slices.Concat(columns, more))))
		err = q.eachPart(ctx, kind, ids, func(part []byte) error {
			items := json.NewDecoder(bytes.NewReader(part))
			items.UseNumber()
			if _, err := items.Token(); err != nil {
				return err
			}
			for items.More() {
				var item map[string]any
				if err := items.Decode(&item); err != nil {
					return err
				}
				row := map[string]any{}
				flatten(row, "", item)
				if err := write(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return end()
	})
}

// extraKeys returns the statement that reads the columns of the selected items' custom fields, as a JSON array.
func (s *selection) extraKeys() *db.Stmt {
	var all []string
	for prefix, e := range s.extras {
		all = append(all, `select distinct '`+prefix+`' || key as name from `+s.source(e.column)+
			` cross join lateral jsonb_object_keys(`+e.column+`) key`+s.condition())
	}
	slices.Sort(all)
	return db.SQL(`select coalesce(json_agg(name), '[]')::text from (`+strings.Join(all, ` union `)+`) names`, s.args...)
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

// exportTo returns a function that writes a row, and one that writes the end of the file.
func exportTo(to io.Writer, format string, columns []string) (write func(row map[string]any) error, end func() error) {
	if format == "json" {
		before := "["
		write = func(row map[string]any) error {
			item := map[string]any{}
			for _, name := range columns {
				if value, ok := row[name]; ok || !strings.Contains("."+name, ".extra.") {
					item[name] = value
				}
			}
			text, err := json.Marshal(item)
			if err == nil {
				_, err = to.Write(append([]byte(before), text...))
			}
			before = ","
			return err
		}
		return write, func() error {
			_, err := io.WriteString(to, strings.TrimSuffix(before, ",")+"]")
			return err
		}
	}
	w := csv.NewWriter(to)
	w.UseCRLF = true
	w.Write(columns)
	write = func(row map[string]any) error {
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
		return w.Write(cells)
	}
	return write, func() error { w.Flush(); return w.Error() }
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
