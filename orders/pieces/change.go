package pieces

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Count is the request to set the pieces in stock to a count.
type Count struct {
	Counted value.Optional[int64]  `json:"counted" rule:"required,minimum=0,maximum=1000000"`
	Reason  value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

// Scrap is the request to take unusable pieces out of stock.
type Scrap struct {
	Quantity value.Optional[int64]  `json:"quantity" rule:"required,minimum=1,maximum=1000000"`
	Reason   value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

// Adjustment is the request to add pieces to the stock, or to take some out.
type Adjustment struct {
	Pieces value.Optional[int64]  `json:"pieces" rule:"required,minimum=-1000000,maximum=1000000"`
	Reason value.Optional[string] `json:"reason" rule:"maxLength=2000"`
}

// Check reports an adjustment by no pieces.
func (a *Adjustment) Check(problems *server.Problems) {
	if a.Pieces.Or(1) == 0 {
		problems.Add("pieces", "must not be 0")
	}
}

var errNotEnough = server.Conflict("NOT_ENOUGH_PIECES", "Not enough pieces in stock: %s", "3 of Dragon, 5 are needed")

const changeRules = "The response is the new entry of the ledger; `reversePieceEntry` reverses it. Pieces that " +
	"enter the stock have the average cost of the pieces in stock."

var countDoc = &server.Doc{
	ID: "countPieces", Tag: catalog.Tag, Summary: "Set the pieces in stock to a count",
	Description: "Records the number of pieces of the product on the shelf: `counted` becomes `on_hand`, and the " +
		"entry has the difference. A later change of something that happened before the count, such as a correction " +
		"of a run, does not change the stock: an entry with `balances_id` balances it at the count. " + changeRules,
}

func (h handlers) count(ctx context.Context, r *server.Request[Count]) (server.OK[Entry], error) {
	return h.change(ctx, r.ID("id"), "counted", nil, r.In.Counted.Value, r.In.Reason.Arg())
}

var scrapDoc = &server.Doc{
	ID: "scrapPieces", Tag: catalog.Tag, Summary: "Scrap pieces",
	Description: "Takes unusable pieces of the product out of stock. More pieces than `on_hand` return " +
		"`NOT_ENOUGH_PIECES`. " + changeRules,
	Errors: []*server.Error{errNotEnough},
}

func (h handlers) scrap(ctx context.Context, r *server.Request[Scrap]) (server.OK[Entry], error) {
	n := -*r.In.Quantity.Value
	return h.change(ctx, r.ID("id"), "scrapped", &n, nil, r.In.Reason.Arg())
}

var adjustDoc = &server.Doc{
	ID: "adjustPieces", Tag: catalog.Tag, Summary: "Add pieces to the stock, or take some out",
	Description: "Adds `pieces` to the stock of the product, or takes some out if the number is negative, for " +
		"reasons without an operation of their own: a purchase, a gift, a loss. Taking more than `on_hand` returns " +
		"`NOT_ENOUGH_PIECES`. " +
		changeRules,
	Errors: []*server.Error{errNotEnough},
}

func (h handlers) adjust(ctx context.Context, r *server.Request[Adjustment]) (server.OK[Entry], error) {
	return h.change(ctx, r.ID("id"), "corrected", r.In.Pieces.Value, nil, r.In.Reason.Arg())
}

// change adds an entry to the ledger of a product, and returns it. Either pieces or counted is nil.
func (h handlers) change(
	ctx context.Context, product, kind string, pieces, counted *int64, reason any,
) (server.OK[Entry], error) {
	id := value.NewID()
	var missing *string
	changed := db.SQL(`
		select change_pieces($1, p.id, $3, $4, $5, $6) from products p where p.id = $2 and p.hidden_at is null`,
		id, product, kind, pieces, counted, reason).Into(&missing)
	entry := selectEntry(id)
	if err := server.Found(changed, h.db.Write(ctx, changed, entry)); err != nil {
		return nil, err
	}
	if missing != nil {
		field := map[string]string{"scrapped": "quantity", "corrected": "pieces"}[kind]
		return nil, errNotEnough.With(*missing).On(field)
	}
	return entry.Object(), nil
}
