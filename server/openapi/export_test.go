package openapi

import (
	"maps"
	"slices"

	"spoolwright/server"
)

// UnusedFields returns the fields of the tables of descriptions that the document of the routes and events does not
// have, and the number of all fields of the tables.
func UnusedFields(routes []server.Route, events []server.Event) (unused []string, all int) {
	d := newDocument(routes)
	d.write("test", events)
	for _, name := range slices.Sorted(maps.Keys(d.docs)) {
		if !d.docs[name].used {
			unused = append(unused, name)
		}
	}
	return unused, len(d.docs)
}
