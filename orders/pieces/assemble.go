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

// Reversal is the request to take an entry back.
type Reversal struct {
	Reason value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

var (
	errNoComponents = server.Conflict("NO_COMPONENTS", "The product has no components")
	errReversed     = server.Conflict("ENTRY_REVERSED", "The entry was taken back before")
	errReversal     = server.Conflict("ENTRY_NOT_REVERSIBLE",
		"The entry takes another one back; record the change again instead")
	errBalance = server.Conflict("ENTRY_NOT_REVERSIBLE",
		"The entry balances a change that a count has seen; take the count back instead")
	errOfRun = server.Conflict("ENTRY_OF_RUN",
		"The production run %s has caused the entry; correct the run instead", "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")
	errReturned = server.Conflict("DELIVERY_RETURNED",
		"The customer has sent pieces of the delivery back; take the return back first")
	errDelivered = server.Conflict("DELIVERED_AGAIN",
		"The customer would have more pieces than were ordered; take a later delivery back first")
)

var assembleDoc = &server.Doc{
	ID: "assemblePieces", Tag: catalog.Tag, Summary: "Assemble pieces from their components",
	Description: "Makes pieces of a product: its direct components leave the stock, and the pieces come in, all or " +
		"nothing. `NOT_ENOUGH_PIECES` names each component that is missing. The pieces cost what their parts cost, and " +
		"`labour_minutes` of work. The reversal of one of the entries takes all of them back.",
	Errors: []*server.Error{errNotEnough, errNoComponents},
}

func (h handlers) assemble(ctx context.Context, r *server.Request[AssemblyRequest]) (server.OK[Assembly], error) {
	return h.assembly(ctx, r, false)
}

var disassembleDoc = &server.Doc{
	ID: "disassemblePieces", Tag: catalog.Tag, Summary: "Take pieces apart",
	Description: "The way back of `assemblePieces`: the pieces leave the stock, and their parts come in: those that " +
		"the newest pieces in stock were made of, also if the product has other components now, and the present direct " +
		"components of pieces that nobody has assembled. Together the parts cost what the pieces did.",
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
		return nil, server.Invalid("quantity", "makes the pieces of a part too many").Because(err)
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
	ID: "reversePieceEntry", Tag: Tag, Summary: "Take an entry of the ledger of pieces back",
	Description: "Adds an entry with the opposite pieces, which names the first one in `reverses_id`; for an entry of " +
		"an assembly, it does so for all entries of the assembly. The reversal of a delivery lowers `delivered` of the " +
		"order's item, and a `done` order is open again; that of a return raises it, at most to the ordered pieces " +
		"(`DELIVERED_AGAIN`).\n\n" +
		"An entry is reversed once (`ENTRY_REVERSED`), and a reversal is not reversed (`ENTRY_NOT_REVERSIBLE`). What a " +
		"production run has produced or used is corrected through the run (`ENTRY_OF_RUN`). Nothing changes if pieces " +
		"would leave that are not in stock (`NOT_ENOUGH_PIECES`). If the product was counted after the entry, the stock " +
		"stays as it is: see `countPieces`. The reversal of a count takes back what balances other entries at it. The " +
		"body may be empty.",
	Errors: []*server.Error{errReversed, errReversal, errBalance, errOfRun, errReturned, errDelivered, errNotEnough},
}

// ReversingEntry is an entry that takes another one back.
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
