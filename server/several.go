package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/value"
)

// maxSeveral is the maximum number of resources that a request creates or updates one by one.
const maxSeveral = 100

// bulkRules describes an operation on several resources.
const bulkRules = "The request has 1 to 100 `items`, and all of them take effect or none. An error names the entry, " +
	"such as `items[2].name`. The response has the items in the same order. A request whose response would have " +
	"more than 4 MiB is invalid."

// newRequest returns a request with the input and the path parameter id, for a handler that another handler calls.
func newRequest[In any](in In, id string) *Request[In] {
	return &Request[In]{In: in, request: request{ids: pathIDs{[]string{"id"}, []string{id}}}}
}

// Batch is the body of a request that creates several resources.
type Batch[T any] struct {
	Items []T `json:"items" rule:"required,maxItems=100"`
}

// Changes are the changes of one of several resources.
type Changes[T any] struct {
	ID      value.Optional[value.UUID] `json:"id" rule:"required"`
	Changes *T                         `json:"changes" rule:"required"`
}

// Updates is the body of a request that changes several resources.
type Updates[T any] struct {
	Items []Changes[T] `json:"items" rule:"required,patched,maxItems=100"`
}

// HandleBatch returns the endpoint that creates several resources T as create does. The response is a Result.
func HandleBatch[Result, T any, Out ~[]byte](
	d *db.DB, create func(context.Context, *Request[T]) (Out, error),
) Endpoint {
	return Handle(func(ctx context.Context, r *Request[Batch[T]]) (Created[Result], error) {
		return several(ctx, d, r.In.Items, "", nil, nil, func(ctx context.Context, in T) ([]byte, error) {
			return create(ctx, newRequest(in, ""))
		})
	})
}

// HandleUpdates returns the endpoint that changes several resources T as update does. The response is a Result.
func HandleUpdates[Result, T any](
	d *db.DB, unknown *Error, update func(context.Context, *Request[T]) (OK[T], error),
) Endpoint {
	return Handle(func(ctx context.Context, r *Request[Updates[T]]) (OK[Result], error) {
		id := func(in Changes[T]) string { return string(*in.ID.Value) }
		one := func(ctx context.Context, in Changes[T]) ([]byte, error) {
			return update(ctx, newRequest(*in.Changes, id(in)))
		}
		return several(ctx, d, r.In.Items, "changes.", unknown, id, one)
	})
}

// BatchDoc documents HandleBatch of resources. One documents the operation that creates one.
func BatchDoc(one *Doc, resources, request string) *Doc {
	return &Doc{ID: one.ID + "Batch", Tag: one.Tag, Summary: "Create several " + resources,
		Description: "Creates " + resources + ", as `" + one.ID + "` does. " + bulkRules +
			" The `Location` is the list of " + resources + ".",
		Errors: inEntries(one.Errors, ""), Request: request}
}

// UpdatesDoc documents HandleUpdates of resources. One documents the operation that changes one.
func UpdatesDoc(one *Doc, resource string, unknown *Error, request string) *Doc {
	return &Doc{ID: one.ID + "s", Tag: one.Tag, Summary: "Update several " + resource + "s",
		Description: "Changes each " + resource + " by its `id`, as `" + one.ID + "` does. " + bulkRules +
			" `If-Match` is not supported.",
		Errors: append(inEntries(one.Errors, "changes."), unknown), Request: request}
}

// several runs one for each entry of items in a single transaction, and returns the list of the results. An error of
// one gets the entry before the names of its fields, and part, such as "changes.". ErrNotFound becomes unknown, with
// the field id of the entry. If id is not nil, it returns the id of the resource that an entry changes: several changes
// resources in the order of their ids, so that requests at a time do not wait for each other in a circle.
func several[T any](ctx context.Context, d *db.DB, items []T, part string, unknown *Error, id func(T) string,
	one func(context.Context, T) ([]byte, error),
) ([]byte, error) {
	if len(items) == 0 {
		return nil, Invalid("items", "must have 1 to %d entries", maxSeveral)
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

// inEntries returns the errors of an operation on one resource as those of several, for its Doc.
func inEntries(all []*Error, part string) (entries []*Error) {
	for _, e := range all {
		entries = append(entries, e.within(1, part))
	}
	return entries
}
