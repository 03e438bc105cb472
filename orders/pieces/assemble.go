package pieces

import (
	"context"
	"encoding/json"
	"errors"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// AssemblyRequest is the request to assemble pieces of a product, or to take them apart.
type AssemblyRequest struct {
	Quantity value.Optional[int64]  `json:"quantity" rule:"required,minimum=1,maximum=1000000"`
	Reason   value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

// Assembly is the response to an AssemblyRequest.
type Assembly struct {
	ID      value.UUID `json:"assembly_id" rule:"notNull"`
	Entries []Entry    `json:"entries" rule:"notNull"`
}

// Reversal is the request to reverse an entry.
type Reversal struct {
	Reason value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

var (
	errNoComponents = server.Conflict("NO_COMPONENTS", "The product has no components")
	errReversed     = server.Conflict("ENTRY_REVERSED", "The entry was already reversed")
	errReversal     = server.Conflict("ENTRY_NOT_REVERSIBLE",
		"The entry reverses another entry; record the change again instead")
	errBalance = server.Conflict("ENTRY_NOT_REVERSIBLE",
		"The entry balances a change at a count; reverse the count instead")
	errOfRun = server.Conflict("ENTRY_OF_RUN",
		"The entry belongs to the production run %s; correct the run instead", "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")
	errReturned = server.Conflict("DELIVERY_RETURNED",
		"The customer has sent back pieces of the delivery; reverse the return first")
	errDelivered = server.Conflict("DELIVERED_AGAIN",
		"The customer would have more pieces than were ordered; reverse a later delivery first")
)

var assembleDoc = &server.Doc{
	ID: "assemblePieces", Tag: catalog.Tag, Summary: "Assemble pieces from their components",
	Description: "Assembles pieces of a product: its direct components leave the stock and the pieces enter it, all " +
		"or nothing. `NOT_ENOUGH_PIECES` names each missing component. The cost of the pieces is the cost of their " +
		"parts plus `labour_minutes` of work. Reversing one of the entries reverses all of them.",
	Errors: []*server.Error{errNotEnough, errNoComponents},
}

func (h handlers) assemble(ctx context.Context, r *server.Request[AssemblyRequest]) (server.OK[Assembly], error) {
	return h.assembly(ctx, r, false)
}

var disassembleDoc = &server.Doc{
	ID: "disassemblePieces", Tag: catalog.Tag, Summary: "Take pieces apart",
	Description: "The reverse of `assemblePieces`: the pieces leave the stock and their parts enter it. The parts " +
		"are those that the newest pieces in stock were assembled from, even if the product has other components now; " +
		"for pieces that were not assembled, they are the current direct components. The total cost of the parts is " +
		"that of the pieces.",
	Errors: []*server.Error{errNotEnough, errNoComponents},
}

func (h handlers) disassemble(ctx context.Context, r *server.Request[AssemblyRequest]) (server.OK[Assembly], error) {
	return h.assembly(ctx, r, true)
}

// assembly assembles pieces of a product, or takes them apart.
func (h handlers) assembly(
	ctx context.Context, r *server.Request[AssemblyRequest], apart bool,
) (server.OK[Assembly], error) {
	id := value.NewID()
	var parts int64
	var missing *string
	changed := db.SQL(`
		select c.parts, c.missing from products p
		cross join lateral change_assembly($1, p.id, $3, $4, $5) c
		where p.id = $2 and p.hidden_at is null`, id, r.ID("id"), *r.In.Quantity.Value, apart, r.In.Reason.Arg()).
		Into(&parts, &missing)
	entries := db.SQL(`select `+entryColumns("e")+` from piece_entries e where e.assembly_id = $1
		order by e.created_at, e.id`, id)
	err := server.Found(changed, h.db.Write(ctx, changed, entries))
	if errors.Is(err, db.ErrOutOfRange) {
		return nil, server.Invalid("quantity", "is too large: the number of pieces of a part would exceed its "+
			"maximum").Because(err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case parts == 0:
		return nil, errNoComponents
	case missing != nil:
		return nil, errNotEnough.With(*missing).On("quantity")
	}
	return json.Marshal(map[string]any{"assembly_id": id, "entries": json.RawMessage(entries.Array())})
}

var reverseDoc = &server.Doc{
	ID: "reversePieceEntry", Tag: Tag, Summary: "Reverse an entry of the ledger of pieces",
	Description: "Adds an entry with the opposite pieces, whose `reverses_id` is the reversed entry; for an entry of " +
		"an assembly, it reverses all entries of the assembly. Reversing a delivery lowers `delivered` of the order's " +
		"item and reopens a `done` order. Reversing a return raises `delivered`, at most to the ordered pieces " +
		"(`DELIVERED_AGAIN`).\n\nAn entry can be reversed once (`ENTRY_REVERSED`), and a reversal cannot be reversed " +
		"(`ENTRY_NOT_REVERSIBLE`). To change what a production run has produced or used, correct the run " +
		"(`ENTRY_OF_RUN`). Nothing changes if pieces that are not in stock would leave it (`NOT_ENOUGH_PIECES`). If " +
		"the product was counted after the entry, the stock stays as it is: see `countPieces`. Reversing a count also " +
		"reverses the entries that balance other changes at it. The body may be empty.",
	Errors: []*server.Error{errReversed, errReversal, errBalance, errOfRun, errReturned, errDelivered, errNotEnough},
}

// ReversingEntry is an entry that reverses another entry.
type ReversingEntry struct {
	Entry
	Warnings []CountWarning `json:"warnings" rule:"notNull"`
}

// CountWarning reports that a product was counted after the time of a change.
type CountWarning struct {
	Code      CountWarningCode `json:"code" rule:"notNull"`
	Detail    string           `json:"detail" rule:"notNull"`
	ProductID value.UUID       `json:"product_id" rule:"notNull"`
}

// CountWarningCode is the kind of a CountWarning.
type CountWarningCode string

// Enum returns all codes.
func (CountWarningCode) Enum() []string { return []string{catalog.CountedSince} }

func (h handlers) reverse(ctx context.Context, r *server.Request[Reversal]) (server.OK[ReversingEntry], error) {
	var problem, detail *string
	var balanced string
	counted := catalog.Balanced(r.ID("id")).Into(&balanced)
	reversed := db.SQL(`select problem, detail from reverse_piece_entry($1, $2)`, r.ID("id"), r.In.Reason.Arg()).
		Into(&problem, &detail)
	entry := db.SQL(`select `+entryColumns("e")+` from piece_entries e where e.reverses = $1`, r.ID("id"))
	if err := h.db.Write(ctx, reversed, counted, entry); err != nil {
		return nil, err
	}
	if problem == nil {
		warnings := []CountWarning{}
		for _, b := range catalog.Balances(balanced) {
			warnings = append(warnings, CountWarning{catalog.CountedSince, b.Detail(), b.ProductID})
		}
		list, err := json.Marshal(warnings)
		fields := entry.Object()
		b := append(append([]byte(nil), fields[:len(fields)-1]...), `,"warnings":`...)
		return append(append(b, list...), '}'), err
	}
	switch *problem {
	case "REVERSED":
		return nil, errReversed
	case "REVERSAL":
		return nil, errReversal
	case "BALANCE":
		return nil, errBalance
	case "RUN":
		return nil, errOfRun.With(*detail)
	case "RETURNED":
		return nil, errReturned
	case "DELIVERED":
		return nil, errDelivered
	case "MISSING":
		return nil, errNotEnough.With(*detail)
	}
	return nil, server.ErrNotFound
}
