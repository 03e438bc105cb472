package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
)

// MostSeveral is the maximum number of resources that a request creates or updates one by one.
const MostSeveral = 100

// BulkRules describes an operation that uses Several.
const BulkRules = "The request has 1 to 100 `items`, and all of them take effect or none. An error names the entry, " +
	"such as `items[2].name`. The response has the items in the same order. A request whose response would have " +
	"more than 4 MiB is invalid."

// NewRequest returns a request with the input and the path parameter id, for a handler that another handler calls.
func NewRequest[In any](in In, id string) *Request[In] {
	return &Request[In]{In: in, request: request{ids: pathIDs{[]string{"id"}, []string{id}}}}
}

// Several runs one for each entry of items in a single transaction, and returns the list of the results. An error of
// one gets the entry before the names of its fields, and part, such as "changes.". ErrNotFound becomes unknown, with
// the field id of the entry. If id is not nil, it returns the id of the resource that an entry changes: Several changes
// resources in the order of their ids, so that requests at a time do not wait for each other in a circle.
func Several[T any](ctx context.Context, d *db.DB, items []T, part string, unknown *Error, id func(T) string,
	one func(context.Context, T) ([]byte, error),
) ([]byte, error) {
	if len(items) == 0 {
		return nil, Invalid("items", "must have 1 to %d entries", MostSeveral)
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	if id != nil {
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(id(items[a]), id(items[b])) })
		for n := 1; n < len(order); n++ {
			if id(items[order[n]]) == id(items[order[n-1]]) {
				return nil, Invalid(fmt.Sprintf("items[%d].id", order[n]), "is in the list twice")
			}
		}
	}
	results := make([][]byte, len(items))
	err := d.Tx(ctx, func(ctx context.Context) error {
		size := 0
		for _, i := range order {
			result, err := one(ctx, items[i])
			if e, ok := errors.AsType[*Error](err); ok {
				entry := fmt.Sprintf("items[%d].", i)
				if e == ErrNotFound && unknown != nil {
					return unknown.With(entry + "id").On(entry + "id")
				}
				return e.within(i, part)
			}
			if err != nil {
				return err
			}
			results[i] = result
			if size += len(result); size > largeBytes {
				return Invalid("items", "must have fewer entries: the response would have more than %d MB", largeBytes>>20)
			}
		}
		return nil
	})
	return append(append([]byte(`{"items":[`), bytes.Join(results, []byte(","))...), "]}"...), err
}

// within returns a copy of an error that concerns the part of entry i of items.
func (e *Error) within(i int, part string) *Error {
	c, entry := *e, fmt.Sprintf("items[%d]", i)
	c.Detail, c.Fields = entry+": "+e.Detail, nil
	for _, f := range e.Fields {
		if f.Field = entry + "." + part + f.Field; e.Status != 422 {
			f.Message = c.Detail
		}
		c.Fields = append(c.Fields, f)
	}
	if e.Fields == nil {
		c.Fields = []FieldError{{entry, c.Detail}}
	}
	return &c
}

// InEntries returns the errors of an operation on one resource as those of Several, for its Doc.
func InEntries(all []*Error, part string) (entries []*Error) {
	for _, e := range all {
		entries = append(entries, e.within(1, part))
	}
	return entries
}
