package spoolman

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
)

// Import imports the vendors, filaments and spools of a Spoolman server, and the definitions of their custom fields.
// Open returns the file.
func Import(
	ctx context.Context, i imports.Importer, file io.Reader, o imports.SourceOptions,
) (result imports.SourceResult, err error) {
	source, err := readSource(file)
	if err != nil {
		return result, err
	}
	return i.Source(ctx, source, o)
}

// readSource reads the items and the definitions of custom fields from a file.
func readSource(file io.Reader) (*imports.Source, error) {
	s := &imports.Source{Items: map[string][]*imports.Item{}}
	items := map[string]map[string]*imports.Item{"vendor": {}, "filament": {}, "spool": {}} // by entity and key
	// once adds an item and returns it. If an item with the same key exists, once returns the existing item.
	once := func(item *imports.Item) *imports.Item {
		if known := items[item.Entity][item.Key]; known != nil {
			return known
		}
		items[item.Entity][item.Key] = item
		s.Items[item.Entity] = append(s.Items[item.Entity], item)
		return item
	}
	vendorOf := func(n int, object spoolmanObject) *imports.Item {
		if len(object) == 0 || object["id"] == strconv.Itoa(unknownVendor) {
			return nil
		}
		return once(convertVendor(n, object))
	}
	filamentOf := func(n int, object spoolmanObject) *imports.Item {
		return once(convertFilament(n, object, vendorOf(n, object.part("vendor"))))
	}
	err := readSpoolman(file, func(list string, n int, object spoolmanObject) {
		switch list {
		case "vendor":
			vendorOf(n, object)
		case "filament":
			filamentOf(n, object)
		case "spool":
			once(convertSpool(n, object, filamentOf(n, object.part("filament"))))
		case "field_vendor", "field_filament", "field_spool":
			if f, ok := convertField(strings.TrimPrefix(list, "field_"), object); ok {
				s.Fields = append(s.Fields, f)
			}
		}
	})
	return s, err
}

// convertField converts the definition of a custom field.
func convertField(entity string, s spoolmanObject) (f inventory.CustomField, ok bool) {
	body := map[string]any{"entity": entity, "key": s.text("key"), "name": s.text("name"),
		"type": s.text("field_type")}
	for name, field := range map[string]string{"unit": "unit", "default_value": "default_value"} {
		if s[field] != "" {
			body[name] = s[field]
		}
	}
	for name, field := range map[string]string{"position": "order", "multiple": "multi_choice", "choices": "choices"} {
		if s[field] != "" {
			body[name] = json.RawMessage(s[field])
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return f, false
	}
	f, err = server.DecodeBody[inventory.CustomField](text)
	return f, err == nil
}
