package transfer

import (
	"context"
	"encoding/json"

	"spoolwright/db"
)

const maxMapping = 100_000 // as in import_columns

// given returns the fields that the request assigned to columns, by the titles of the columns, as a JSON object. It
// returns "" if the request assigned none, if a known program wrote the file, because its columns differ from those of
// other files, or if the object is too long for its column, as no real list is.
func (c *Conversion) given() string {
	if c.Program != nil {
		return ""
	}
	mapping := map[string]string{}
	for _, column := range c.Columns {
		if column.Why != "given" {
			continue
		}
		if mapping[column.Title] = ""; column.Field != nil {
			mapping[column.Title] = *column.Field
		}
	}
	if text, err := json.Marshal(mapping); err == nil && len(mapping) > 0 && len(text) <= maxMapping {
		return string(text)
	}
	return ""
}

// remember stores the mapping of a file in the transaction of ctx, for the checks of later files.
func (i *untyped) remember(ctx context.Context, d *db.DB, mapping string) error {
	return d.Write(ctx, db.SQL(`
		insert into import_columns (resources, mapping) values ($1, $2)
		on conflict (tenant_id, resources) do update set mapping = excluded.mapping
		where import_columns.mapping <> excluded.mapping`, i.Resources, mapping))
}

// remembered returns the mapping of the tenant's last import with a mapping, or nil.
func (i *untyped) remembered(ctx context.Context, d *db.DB) (mapping map[string]string, err error) {
	var text string
	stmt := db.SQL(`select mapping from import_columns where resources = $1`, i.Resources).Into(&text)
	if err = d.Read(ctx, stmt); err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &mapping)
	}
	return mapping, err
}
