package spoolman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/value"
)

// Export writes the custom fields, vendors, filaments and spools of the tenant of ctx, except removed items, as a JSON
// object with the lists of Spoolman. Import reads this format.
func Export(ctx context.Context, d *db.DB, w io.Writer) error {
	f, err := readFarm(ctx, d)
	if err != nil {
		return err
	}
	return f.write(w)
}

// Load creates the resources of the tenant of ctx in an empty Spoolman server. Export writes the same resources. Load
// returns the number of vendors, filaments and spools that it created, also if it fails.
func Load(ctx context.Context, d *db.DB, address string) (created int, err error) {
	f, err := readFarm(ctx, d)
	if err != nil {
		return 0, err
	}
	return f.load(ctx, address)
}

// entities are the lists of a farm, in the order in which they can be created.
var entities = []string{"vendor", "filament", "spool"}

// farm holds the custom fields, vendors, filaments and spools of a tenant, in the format of Spoolman.
type farm struct {
	fields map[string][]definition
	lists  map[string][]map[string]any
}

// exported returns the query for the JSON of the items of an entity whose numbers are higher than $2.
func exported(entity string) string {
	switch entity {
	case "vendor":
		return `select v.number as id, (` + vendorJSON + `)::json as item from vendors v
			where v.tenant_id = $1::uuid and v.number > $2::int and v.hidden_at is null
			order by v.number limit $3`
	case "filament":
		return `select f.number as id, (` + filamentJSON +
			`)::json as item, f.extruder_temperature_c is null as no_extruder,
				f.bed_temperature_c is null as no_bed
			from filaments f` + joinVendor + `
			where f.tenant_id = $1::uuid and f.number > $2::int and f.hidden_at is null
			order by f.number limit $3`
	}
	// Reports can use more filament than a spool has. The last ledger entry of the empty spool then has the shortfall.
	return `select s.number as id, (` + spoolJSON + `)::json as item, case when s.remaining_weight_grams = 0 then (
				select nullif(greatest(u.shortfall_grams, 0), 0) from spool_usage u
				where u.tenant_id = $1::uuid and u.spool_id = s.id
				order by u.created_at desc, u.id desc limit 1
			) end as shortfall
		from spools s` + joinFilamentJSON + `
		where s.tenant_id = $1::uuid and s.number > $2::int and s.number is not null and s.hidden_at is null
		order by s.number limit $3`
}

func readFarm(ctx context.Context, d *db.DB) (*farm, error) {
	f := &farm{fields: map[string][]definition{}, lists: map[string][]map[string]any{}}
	definitions := inventory.SelectCustomFields(entities...)
	if err := d.Read(ctx, definitions); err != nil {
		return nil, err
	}
	fields, err := inventory.CustomFields(definitions)
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		definition := definitionOf(field)
		f.fields[definition.Entity] = append(f.fields[definition.Entity], definition)
	}
	const page = 500
	for _, entity := range entities {
		f.lists[entity] = []map[string]any{}
		for last := int64(0); ; {
			rows := db.SQL(exported(entity), db.ActorOf(ctx).Tenant, last, page)
			if err := d.Read(ctx, rows); err != nil {
				return nil, err
			}
			var items []struct {
				ID         int64
				Item       map[string]any
				NoExtruder bool `json:"no_extruder"`
				NoBed      bool `json:"no_bed"`
				Shortfall  *json.Number
			}
			decoder := json.NewDecoder(bytes.NewReader(rows.Array()))
			decoder.UseNumber()
			if err := decoder.Decode(&items); err != nil {
				return nil, err
			}
			for _, row := range items {
				if last = row.ID; row.NoExtruder { // the JSON has a usual temperature, which no user has set
					delete(row.Item, "settings_extruder_temp")
				}
				if row.NoBed {
					delete(row.Item, "settings_bed_temp")
				}
				if row.Shortfall != nil {
					row.Item["used_weight"] = sum(row.Item["used_weight"], *row.Shortfall)
				}
				f.add(entity, row.Item)
			}
			if len(items) < page {
				break
			}
		}
	}
	return f, nil
}

func sum(a, b any) json.Number {
	x, _ := value.ParseDecimal(fmt.Sprint(a))
	y, _ := value.ParseDecimal(fmt.Sprint(b))
	return json.Number((x + y).String())
}

// idOf returns the id of an item, or 0.
func idOf(item any) int64 {
	object, _ := item.(map[string]any)
	id, _ := strconv.ParseInt(fmt.Sprint(object["id"]), 10, 64)
	return id
}

// add adds an item. It leaves out the vendor that the API shows for a filament without a vendor.
func (f *farm) add(entity string, item map[string]any) {
	filament, _ := item["filament"].(map[string]any)
	for _, object := range []map[string]any{item, filament} {
		if idOf(object["vendor"]) == unknownVendor {
			delete(object, "vendor")
		}
	}
	if filament != nil && fmt.Sprint(filament["price"]) == fmt.Sprint(item["price"]) {
		delete(item, "price") // the filament has the same price
	}
	f.lists[entity] = append(f.lists[entity], item)
}

// write writes a JSON object with all lists.
func (f *farm) write(w io.Writer) error {
	all := map[string]any{}
	for _, entity := range entities {
		all["field_"+entity], all[entity] = f.fields[entity], f.lists[entity]
		if f.fields[entity] == nil {
			all["field_"+entity] = []definition{}
		}
	}
	return json.NewEncoder(w).Encode(all)
}

// loader creates items in a Spoolman server.
type loader struct {
	client  *http.Client
	base    *url.URL
	created int
}

// send sends a request and decodes the response.
func (l *loader) send(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	u := *l.base
	u.Path, u.RawQuery, _ = strings.Cut(u.Path+"/api/v1/"+path, "?")
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s answered %s: %s", method, u.Redacted(), response.Status,
			cli.Printable(string(answer[:min(len(answer), 500)])))
	}
	if into == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	return d.Decode(into)
}

// parameters are the fields of requests that create items.
var parameters = map[string][]string{
	"vendor": {"name", "comment", "empty_spool_weight", "external_id", "extra"},
	"filament": {"name", "material", "price", "density", "diameter", "weight", "spool_weight", "article_number",
		"comment",
		"settings_extruder_temp", "settings_bed_temp", "color_hex", "multi_color_hexes", "multi_color_direction",
		"external_id", "extra"},
	"spool": {"first_used", "last_used", "price", "initial_weight", "spool_weight", "used_weight", "location",
		"lot_nr",
		"comment", "archived", "extra"},
}

// maxPlaceholders is the maximum number of items that are created and deleted again so that ids equal numbers.
const maxPlaceholders = 10_000

// load creates everything in an empty Spoolman server, and returns the number of created items. The server assigns
// ids in order. So load also creates items for numbers that the farm does not use, and deletes these items at the
// end.
func (f *farm) load(ctx context.Context, address string) (created int, err error) {
	base, remote, err := serverAddress(address)
	if err == nil && !remote {
		err = errors.New("the address of Spoolman must be like http://spoolman.example:7912")
	}
	if err != nil {
		return 0, err
	}
	client, done := newClient()
	defer done()
	l := &loader{client: client, base: base}
	for _, path := range []string{"vendor", "filament", "spool?allow_archived=true&limit=1"} {
		var items []json.RawMessage
		if err := l.send(ctx, http.MethodGet, path, nil, &items); err != nil {
			return 0, err
		}
		if len(items) > 0 {
			return 0, errors.New("the Spoolman server is not empty")
		}
	}
	for _, entity := range entities {
		for _, d := range f.fields[entity] {
			if err := l.send(ctx, http.MethodPost, "field/"+entity+"/"+d.Key, d, nil); err != nil {
				return 0, err
			}
		}
	}
	// The server's ids, by number, and the highest id that it has given.
	ids := map[string]map[int64]int64{"vendor": {}, "filament": {}, "spool": {}}
	last := map[string]int64{}
	var placeholders []string
	for _, entity := range entities {
		for _, item := range f.withComputed(entity) {
			body := map[string]any{}
			for _, name := range parameters[entity] {
				if value, ok := item[name]; ok {
					body[name] = value
				}
			}
			switch entity {
			case "filament":
				if id := idOf(item["vendor"]); id != 0 {
					body["vendor_id"] = ids["vendor"][id]
				}
			case "spool":
				body["filament_id"] = ids["filament"][idOf(item["filament"])]
				remaining, _ := value.ParseDecimal(fmt.Sprint(item["remaining_weight"]))
				initial, _ := value.ParseDecimal(fmt.Sprint(item["initial_weight"]))
				body["initial_weight"] = json.Number(max(initial, remaining).String())
			}
			number := idOf(item)
			// create creates an item. It returns the id, and null for each field that the server has set by itself.
			create := func(body map[string]any) (id int64, others map[string]any, err error) {
				var answer map[string]any
				if err := l.send(ctx, http.MethodPost, entity, body, &answer); err != nil {
					return 0, nil, fmt.Errorf("%s %d: %w", entity, number, err)
				}
				others = map[string]any{}
				for _, name := range parameters[entity] {
					if body[name] == nil && answer[name] != nil && name != "extra" {
						others[name] = nil
					}
				}
				return idOf(answer), others, nil
			}
			for number < firstComputed && last[entity]+1 < number && len(placeholders) < maxPlaceholders {
				between := maps.Clone(body)
				if entity == "vendor" { // Spoolwright, as the server, requires unique names
					between["name"] = fmt.Sprint("Placeholder ", last[entity]+1)
				}
				if last[entity], _, err = create(between); err != nil {
					return l.created, err
				}
				placeholders = append(placeholders, fmt.Sprintf("%s/%d", entity, last[entity]))
			}
			var others map[string]any
			if last[entity], others, err = create(body); err != nil {
				return l.created, err
			}
			if len(others) > 0 { // for example the spool weight, which the server copies from the vendor
				path := fmt.Sprintf("%s/%d", entity, last[entity])
				if err := l.send(ctx, http.MethodPatch, path, others, nil); err != nil {
					return l.created, err
				}
			}
			l.created++
			ids[entity][number] = last[entity]
		}
	}
	for i := len(placeholders) - 1; i >= 0; i-- {
		if err := l.send(ctx, http.MethodDelete, placeholders[i], nil, nil); err != nil {
			return l.created, err
		}
	}
	return l.created, nil
}

// withComputed returns the list of an entity, and the computed vendors and filaments of spools without a filament.
func (f *farm) withComputed(entity string) []map[string]any {
	all := f.lists[entity]
	known := map[int64]bool{}
	add := func(object any) {
		item, _ := object.(map[string]any)
		if id := idOf(item); id > firstComputed && !known[id] {
			known[id] = true
			all = append(all, item)
		}
	}
	for _, spool := range f.lists["spool"] {
		filament, _ := spool["filament"].(map[string]any)
		switch entity {
		case "vendor":
			add(filament["vendor"])
		case "filament":
			add(filament)
		}
	}
	return all
}
