package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/auth/accounts"
	"spoolwright/auth/audit"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// The filament catalog of a tenant lists commercial filaments, from which users create their own filaments. It is
// imported from a SpoolmanDB file. It is a table of the tenant, so that row-level security protects it like every
// other table.

var catalogTag = &server.Tag{
	Name: "filament-catalog", Fields: fields,
	Description: "Filaments that can be bought, from a file of SpoolmanDB: a list to choose new filaments from.",
}

func (h handlers) catalogRoutes() []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/filament-catalog", server.Read,
			server.HandleList[CatalogFilament](h.db, catalogFilter.list), listCatalogDoc),
		server.Op("POST /api/v1/filament-catalog/import", server.Write,
			server.HandleText("application/jsonl", importCatalogExample, prepareCatalog, h.importCatalog),
			importCatalogDoc),
	}
}

// CatalogFilament is a filament of the catalog in responses.
type CatalogFilament struct {
	ID                  value.UUID                   `json:"id" rule:"readOnly,notNull"`
	ExternalID          string                       `json:"external_id" rule:"readOnly,notNull"`
	Vendor              string                       `json:"vendor" rule:"readOnly,notNull"`
	Name                string                       `json:"name" rule:"readOnly,notNull"`
	MaterialType        MaterialType                 `json:"material_type" rule:"readOnly,notNull"`
	MaterialName        string                       `json:"material_name" rule:"readOnly,notNull"`
	Color               string                       `json:"color" rule:"readOnly,notNull"`
	ColorHex            string                       `json:"color_hex" rule:"readOnly"`
	ColorHexes          value.Optional[value.Colors] `json:"color_hexes" rule:"readOnly,notNull"`
	ColorArrangement    ColorArrangement             `json:"color_arrangement" rule:"readOnly"`
	DiameterMM          value.Decimal                `json:"diameter_mm" rule:"readOnly,notNull"`
	Density             value.Decimal                `json:"density_g_cm3" rule:"readOnly,notNull"`
	NetWeight           value.Decimal                `json:"net_weight_grams" rule:"readOnly,notNull"`
	SpoolWeight         value.Decimal                `json:"spool_weight_grams" rule:"readOnly"`
	ExtruderTemperature int64                        `json:"extruder_temperature_c" rule:"readOnly"`
	BedTemperature      int64                        `json:"bed_temperature_c" rule:"readOnly"`
	SpoolType           string                       `json:"spool_type" rule:"readOnly"`
	Finish              string                       `json:"finish" rule:"readOnly"`
	Pattern             string                       `json:"pattern" rule:"readOnly"`
	Translucent         bool                         `json:"translucent" rule:"readOnly,notNull"`
	Glow                bool                         `json:"glow" rule:"readOnly,notNull"`
	CreatedAt           value.Timestamp              `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt           value.Timestamp              `json:"updated_at" rule:"readOnly,notNull"`
}

const catalogColumns = `id, external_id, vendor, name, material_type, material_name, color, color_hex,
	array_to_json(color_hexes) as color_hexes, color_arrangement, diameter_mm, density_g_cm3, net_weight_grams,
	spool_weight_grams, extruder_temperature_c, bed_temperature_c, spool_type, finish, pattern, translucent, glow,
	created_at, updated_at`

type catalogFilter struct {
	Vendor       value.Optional[string]                  `query:"vendor"`
	MaterialType value.Optional[value.Set[MaterialType]] `query:"material_type"`
	ExternalID   value.Optional[string]                  `query:"external_id"`
	Search       value.Optional[string]                  `query:"search" rule:"search"`
}

var listCatalogDoc = &server.Doc{
	ID: "listFilamentCatalog", Tag: catalogTag, Summary: "List the filaments of the catalog",
	Description: "To create a filament of an item, send its fields to `POST /api/v1/filaments`, without `id`, " +
		"`spool_type`, `finish`, `pattern`, `translucent`, `glow` and the times.\n\nAll filters but `search` use an " +
		"index. `search` and a `sort_by` without an index read all matching items, of at most 20,000.",
}

func (f catalogFilter) list() *server.List {
	l := server.NewList("filament_catalog", catalogColumns, "", "")
	l.CountOrdered()
	l.WhereText("vendor_key", f.Vendor)
	l.WhereEach("material_type", f.MaterialType)
	l.Among(`select id from filament_catalog where external_id = ?`, f.ExternalID)
	l.Search(f.Search)
	return l
}

// CatalogImport are the parameters of an import of the catalog.
type CatalogImport struct {
	Replace value.Optional[bool] `query:"replace" rule:"default=false"`
	DryRun  value.Optional[bool] `query:"dry_run" rule:"default=false"`
}

const (
	maxCatalog     = 20_000   // items of a tenant
	maxCatalogFile = 64 << 20 // bytes
)

var importCatalogDoc = &server.Doc{
	ID: "importFilamentCatalog", Tag: catalogTag, Summary: "Import the catalog from SpoolmanDB",
	Description: "Creates or changes all filaments of a file in the catalog, or none. The file is the " +
		"`filaments.json` of SpoolmanDB, or its objects one per line, in parts of at most 1 MiB. An object changes " +
		"the item with its id, which is the `external_id` of the item. With `replace`, items that the file does not " +
		"have are removed. A catalog has at most 20,000 items.",
}

const importCatalogExample = `{"id":"polymaker_pla_black_1000_175","manufacturer":"Polymaker","name":"Black",` +
	`"material":"PLA","density":1.24,"weight":1000,"spool_weight":140,"diameter":1.75,"color_hex":"1a1a1a",` +
	`"extruder_temp":215,"bed_temp":60}` + "\n"

type externalFilament struct {
	ID           string       `json:"id"`
	Manufacturer string       `json:"manufacturer"`
	Name         string       `json:"name"`
	Material     string       `json:"material"`
	Density      json.Number  `json:"density"`
	Weight       json.Number  `json:"weight"`
	SpoolWeight  *json.Number `json:"spool_weight"`
	SpoolType    *string      `json:"spool_type"`
	Diameter     json.Number  `json:"diameter"`
	ColorHex     *string      `json:"color_hex"`
	ColorHexes   []string     `json:"color_hexes"`
	ExtruderTemp *json.Number `json:"extruder_temp"`
	BedTemp      *json.Number `json:"bed_temp"`
	Finish       *string      `json:"finish"`
	Direction    *string      `json:"multi_color_direction"`
	Pattern      *string      `json:"pattern"`
	Translucent  bool         `json:"translucent"`
	Glow         bool         `json:"glow"`
}

var hexCode = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})([0-9A-Fa-f]{2})?$`)

// row returns the columns of the item, and the invalid fields.
func (e *externalFilament) row() (row map[string]any, problems []server.FieldError) {
	problem := func(field string, message language.Text, args ...any) {
		problems = append(problems, server.FieldError{Field: field, Message: language.Sprintf(message, args...)})
	}
	row = map[string]any{"id": value.NewID(), "translucent": e.Translucent, "glow": e.Glow}
	for _, text := range []struct {
		column, field string
		value         *string
		required      bool
	}{
		{"external_id", "id", &e.ID, true}, {"vendor", "manufacturer", &e.Manufacturer, true},
		{"name", "name", &e.Name, true}, {"material_name", "material", &e.Material, true},
		{"spool_type", "spool_type", e.SpoolType, false}, {"finish", "finish", e.Finish, false},
		{"pattern", "pattern", e.Pattern, false},
	} {
		if text.value == nil {
			continue
		}
		value := strings.TrimSpace(*text.value)
		if text.required && value == "" {
			problem(text.field, "is required")
		}
		if utf8.RuneCountInString(value) > 200 || strings.ContainsRune(value, 0) {
			problem(text.field, "must have at most 200 characters")
		}
		if row[text.column] = value; value == "" {
			row[text.column] = nil
		}
	}
	row["color"] = row["name"]
	row["material_type"] = MaterialOf(e.Material)
	for _, number := range []struct {
		column, field string
		value         *json.Number
		positive      bool
		most          value.Decimal
	}{
		{"density_g_cm3", "density", &e.Density, true, 100},
		{"net_weight_grams", "weight", &e.Weight, true, 1_000_000},
		{"diameter_mm", "diameter", &e.Diameter, true, 10},
		{"spool_weight_grams", "spool_weight", e.SpoolWeight, false, 1_000_000},
		{"extruder_temperature_c", "extruder_temp", e.ExtruderTemp, false, 1000},
		{"bed_temperature_c", "bed_temp", e.BedTemp, false, 1000},
	} {
		if number.value == nil {
			continue
		}
		d, ok := value.ParseDecimal(string(*number.value))
		whole := strings.HasSuffix(number.column, "_c")
		if !ok || d < 0 || d == 0 && number.positive || d > number.most*value.DecimalOne ||
			whole && d%value.DecimalOne != 0 {
			problem(number.field, "is not a valid number")
			continue
		}
		row[number.column] = json.Number(d.String())
	}
	color := func(field, code string) string {
		m := hexCode.FindStringSubmatch(strings.TrimSpace(code))
		if m == nil {
			problem(field, "must be a color code such as 1a1a1a")
			return ""
		}
		return "#" + strings.ToUpper(m[1]+m[2])
	}
	if e.ColorHex != nil && *e.ColorHex != "" {
		row["color_hex"] = color("color_hex", *e.ColorHex)
	}
	colors := []string{}
	for _, code := range e.ColorHexes {
		colors = append(colors, color("color_hexes", code))
	}
	if row["color_hexes"] = colors; len(colors) > value.MaxColors {
		problem("color_hexes", "must have at most %d entries", value.MaxColors)
	}
	if e.Direction != nil {
		row["color_arrangement"] = *e.Direction
		if !slices.Contains(ColorArrangement("").Enum(), *e.Direction) {
			problem("multi_color_direction", "must be coaxial or longitudinal")
		}
	}
	return row, problems
}

// readCatalog reads a JSON array of filaments, or JSON objects that follow each other. The error is a 422.
func readCatalog(r io.Reader) (rows []map[string]any, err error) {
	d := json.NewDecoder(io.LimitReader(r, maxCatalogFile))
	var listed server.Problems
	invalid, known := 0, map[string]bool{}
	for {
		var value json.RawMessage
		err := d.Decode(&value)
		if err == io.EOF {
			if invalid > transfer.MaxListed {
				listed.Add("objects", "%d other objects are invalid", invalid-transfer.MaxListed)
			}
			return rows, listed.Err()
		}
		entries := []json.RawMessage{value}
		if err == nil && value[0] == '[' {
			err = json.Unmarshal(value, &entries)
		}
		if err != nil {
			return nil, server.Invalid("body", "must have objects of SpoolmanDB: %s", err)
		}
		for _, text := range entries {
			var entry externalFilament
			if err := json.Unmarshal(text, &entry); err != nil {
				return nil, server.Invalid("body", "must have objects of SpoolmanDB: %s", err)
			}
			row, problems := entry.row()
			if known[entry.ID] {
				problems = append(problems, server.FieldError{Field: "id", Message: language.Sprintf("is there twice")})
			}
			known[entry.ID] = true
			if len(problems) > 0 {
				if invalid++; invalid <= transfer.MaxListed {
					listed.Add(fmt.Sprintf("object %d", len(rows)+1), "%s", transfer.Describe(problems))
				}
			}
			if rows = append(rows, row); len(rows) > maxCatalog {
				return nil, server.Invalid("body", "must have at most %d objects", maxCatalog)
			}
		}
	}
}

func prepareCatalog(
	_ context.Context, _ *server.Request[CatalogImport], body []byte,
) ([]map[string]any, error) {
	return readCatalog(bytes.NewReader(body))
}

func (h handlers) importCatalog(
	ctx context.Context, r *server.Request[CatalogImport], rows []map[string]any,
) (server.OK[CatalogImported], error) {
	var result CatalogImported
	err := h.db.Tx(ctx, func(ctx context.Context) (err error) {
		result, err = writeCatalog(ctx, h.db, rows, r.In.Replace.Or(false), r.In.DryRun.Or(false))
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(result)
}

// CatalogImported counts the changes of an import of the catalog.
type CatalogImported struct {
	Created   int64 `json:"created" rule:"notNull"`
	Updated   int64 `json:"updated" rule:"notNull"`
	Unchanged int64 `json:"unchanged" rule:"notNull"`
	Removed   int64 `json:"removed" rule:"notNull"`
	DryRun    bool  `json:"dry_run" rule:"notNull"`
}

// catalogInputs are the columns that an import sets.
var catalogInputs = strings.Split("external_id vendor name material_type material_name color color_hex color_hexes "+
	"color_arrangement diameter_mm density_g_cm3 net_weight_grams spool_weight_grams extruder_temperature_c "+
	"bed_temperature_c spool_type finish pattern translucent glow", " ")

// writeCatalog writes the rows in the transaction of ctx.
func writeCatalog(
	ctx context.Context, d *db.DB, rows []map[string]any, replace, dryRun bool,
) (result CatalogImported, err error) {
	result.DryRun = dryRun
	columns := strings.Join(catalogInputs, ", ")
	values := func(alias string) string { return alias + "." + strings.Join(catalogInputs, ", "+alias+".") }
	ids := []string{}
	for batch := range slices.Chunk(rows, transfer.BatchRows) {
		for _, row := range batch {
			ids = append(ids, row["external_id"].(string))
		}
		list, err := json.Marshal(batch)
		if err != nil {
			return result, err
		}
		const from = ` from json_populate_recordset(null::filament_catalog, $1::json) r`
		var created, updated int64
		stmts := []*db.Stmt{db.SQL(`
			select count(*) filter (where f.id is null), count(*) filter (where f.changed)`+from+`
			left join lateral (
				select f.id, row(`+values("f")+`) is distinct from row(`+values("r")+`) as changed
				from filament_catalog f where f.external_id = r.external_id
			) f on true`, string(list)).Into(&created, &updated)}
		if !dryRun {
			stmts = append(stmts, db.SQL(`
				insert into filament_catalog as f (id, `+columns+`) select r.id, `+values("r")+from+`
				on conflict (tenant_id, external_id) do update
					set (`+columns+`, updated_at) = row(`+values("excluded")+`, now())
					where row(`+values("f")+`) is distinct from row(`+values("excluded")+`)`, string(list)))
		}
		if err := d.Write(ctx, stmts...); err != nil {
			return result, err
		}
		result.Created, result.Updated = result.Created+created, result.Updated+updated
		result.Unchanged += int64(len(batch)) - created - updated
	}
	if replace {
		removed := db.SQL(`
			with old as (
				select f.id from filament_catalog f
				where not exists (
					select from unnest($1::text[]) n (external_id) where n.external_id = f.external_id)
			), removed as (
				delete from filament_catalog where not $2::boolean and id in (select id from old)
			)
			select count(*) from old`, ids, dryRun).Into(&result.Removed)
		if err := d.Write(ctx, db.FreshPlan(), removed); err != nil {
			return result, err
		}
	}
	var total int64
	last := []*db.Stmt{db.SQL(`select count(*) from (select from filament_catalog limit $1) c`, maxCatalog+1).
		Into(&total)}
	if !dryRun {
		last = append(last, audit.Import("filament catalog"))
	}
	err = d.Write(ctx, last...)
	if dryRun {
		total += result.Created - result.Removed
	}
	if err == nil && total > maxCatalog {
		err = server.Invalid("body", "must leave at most %d filaments in the catalog", maxCatalog)
	}
	return result, err
}

// ExternalFilaments returns a statement whose only row is a JSON array as text: the items of the catalog in the form
// of SpoolmanDB, ordered by id, without unset fields. It selects at most limit items that contain every word, as the
// search of the catalog does.
func ExternalFilaments(words []string, limit int) *db.Stmt {
	return db.SQL(`
		select coalesce('[' || string_agg(item::text, ',' order by external_id) || ']', '[]') from (
			select external_id, json_strip_nulls(json_build_object('id', external_id, 'manufacturer', vendor, 'name', name,
				'material', material_name, 'density', trim_scale(density_g_cm3), 'weight', trim_scale(net_weight_grams),
				'spool_weight', trim_scale(spool_weight_grams), 'spool_type', spool_type,
				'diameter', trim_scale(diameter_mm), 'color_hex', substr(color_hex, 2),
				'color_hexes', (select json_agg(substr(c, 2)) from unnest(color_hexes) c),
				'extruder_temp', extruder_temperature_c, 'bed_temp', bed_temperature_c, 'finish', finish,
				'multi_color_direction', color_arrangement, 'pattern', pattern, 'translucent', translucent, 'glow', glow
			)) as item
			from filament_catalog f where not exists (
				select from unnest((select array_agg(`+server.Searchable("word")+`) from unnest($1::text[]) word)) word
				where strpos(search_key, word) = 0
			)
			order by external_id limit $2
		) items`, words, limit)
}

// ExternalMaterials returns a statement whose only row is a JSON array as text: the materials of the catalog in the
// form of SpoolmanDB. Each material has the density and the temperatures of its first filament.
func ExternalMaterials() *db.Stmt {
	return db.SQL(`
		select coalesce('[' || string_agg(item::text, ',' order by material_name) || ']', '[]') from (
			select distinct on (material_name) material_name, json_strip_nulls(json_build_object(
				'material', material_name, 'density', trim_scale(density_g_cm3),
				'extruder_temp', extruder_temperature_c, 'bed_temp', bed_temperature_c)) as item
			from filament_catalog order by material_name, external_id
		) items`)
}

// Catalog fills the catalogs of filaments for pages: from a file that a person sends, or from the address that the
// operator has set.
type Catalog struct {
	DB     *db.DB
	URL    string // of the file of SpoolmanDB, or "" if it cannot be fetched
	Client *http.Client
}

const (
	// MaxCatalogUpload is the maximum size of a file of SpoolmanDB that a person sends, or that is fetched, in bytes. The
	// file had 5 MB in 2026.
	MaxCatalogUpload = 12 << 20

	catalogTimeout = 20 * time.Second // of fetching the file
)

// Import creates or changes the filaments of a file in the catalog of the tenant, or none. Invalid files are 422.
func (c *Catalog) Import(ctx context.Context, file io.Reader) (result CatalogImported, err error) {
	done, err := server.ReadsFile(ctx)
	if err != nil {
		return result, err
	}
	defer done()
	return c.read(ctx, file)
}

func (c *Catalog) read(ctx context.Context, file io.Reader) (result CatalogImported, err error) {
	rows, err := readCatalog(file)
	if err == nil && len(rows) == 0 {
		err = server.Invalid("body", "has no filaments")
	}
	if err != nil {
		return result, err
	}
	result, err = fillCatalog(ctx, c.DB, rows, false, false)
	if errors.Is(err, db.ErrBulk) {
		err = &server.Error{Status: 503, Code: "UNAVAILABLE", Detail: err.Error()}
	}
	return result, err
}

// fillCatalog writes the rows of a file in a transaction of its own.
func fillCatalog(
	ctx context.Context, d *db.DB, rows []map[string]any, replace, dryRun bool,
) (result CatalogImported, err error) {
	err = d.Bulk(ctx, func(ctx context.Context) (err error) {
		result, err = writeCatalog(ctx, d, rows, replace, dryRun)
		return err
	})
	return result, err
}

// Fetch is Import with the file at the address that the operator has set. If the file cannot be fetched, the error is a
// 422 that says why.
func (c *Catalog) Fetch(ctx context.Context) (result CatalogImported, err error) {
	failed := func(format language.Text, args ...any) (CatalogImported, error) {
		return CatalogImported{}, server.Invalid("body", "of %s cannot be fetched: %s", c.URL,
			language.Sprintf(format, args...))
	}
	done, err := server.ReadsFile(ctx) // before the file is in memory
	if err != nil {
		return result, err
	}
	defer done()
	fetching, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(fetching, http.MethodGet, c.URL, nil)
	if err != nil {
		return failed("%s", err)
	}
	r.Header.Set("User-Agent", "Spoolwright")
	response, err := c.Client.Do(r)
	if err != nil {
		return failed("%s", errors.Unwrap(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return failed("the response is %s", response.Status)
	}
	file, err := io.ReadAll(io.LimitReader(response.Body, MaxCatalogUpload+1))
	switch {
	case err != nil:
		return failed("%s", err)
	case len(file) > MaxCatalogUpload:
		return failed("it has more than %d MB", MaxCatalogUpload>>20)
	}
	return c.read(ctx, bytes.NewReader(file))
}

var importCatalogCommand = cli.Command{
	Name: "import catalog", Args: "filaments.json [--tenant NAME] [--replace] [--dry-run]", Needs: cli.Farm,
	Help: "import the filaments of SpoolmanDB, to choose new filaments from\n\n" +
		"The file is the filaments.json of SpoolmanDB. Filaments of the catalog that the file has are changed, and\n" +
		"with --replace, those that it does not have are removed. FILE may be - for standard input.",
	Setup: func(flags *flag.FlagSet) cli.Run {
		replace := flags.Bool("replace", false, "remove filaments of the catalog that the file does not have")
		dryRun := flags.Bool("dry-run", false, "check the file and count, but change nothing")
		return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
			file, err := cli.OpenOperand(c, cli.OpenFile)
			if err != nil {
				return err
			}
			defer file.Close()
			rows, err := readCatalog(file)
			var result CatalogImported
			if err == nil {
				result, err = fillCatalog(ctx, c.DB, rows, *replace, *dryRun)
			}
			if e, ok := errors.AsType[*server.Error](err); ok {
				for _, p := range e.Fields {
					fmt.Fprintln(c.Err, cli.Printable(p.Field+": "+p.Message))
				}
				err = errors.New("the file is invalid")
			}
			if err != nil {
				return fmt.Errorf("nothing was imported: %w", err)
			}
			fmt.Fprintf(c.Out, "filaments of the catalog created: %d; updated: %d; unchanged: %d; removed: %d\n",
				result.Created, result.Updated, result.Unchanged, result.Removed)
			if *dryRun {
				fmt.Fprintln(c.Out, "This was a dry run: nothing was changed.")
			}
			return nil
		})
	},
}
