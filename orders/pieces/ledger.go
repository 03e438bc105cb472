package pieces

import (
	"strings"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// EntryKind is the cause of an entry.
type EntryKind string

// Enum returns all kinds.
func (EntryKind) Enum() []string {
	return []string{"produced", "used", "assembled", "disassembled", "delivered", "returned", "counted", "scrapped",
		"corrected"}
}

// Entry is an entry of the ledger of pieces.
type Entry struct {
	ID          value.UUID      `json:"id" rule:"notNull"`
	ProductID   value.UUID      `json:"product_id" rule:"notNull"`
	Product     string          `json:"product_name" rule:"notNull,unsorted"`
	Kind        EntryKind       `json:"kind" rule:"notNull"`
	Pieces      int64           `json:"pieces" rule:"notNull"`
	Shortfall   int64           `json:"shortfall" rule:"notNull"`
	OnHand      int64           `json:"on_hand" rule:"notNull"`
	Cost        value.Decimal   `json:"cost"`
	RunID       value.UUID      `json:"run_id"`
	RunItemID   value.UUID      `json:"run_item_id"`
	OrderID     value.UUID      `json:"order_id"`
	Reference   string          `json:"reference" rule:"unsorted"`
	OrderItemID value.UUID      `json:"order_item_id"`
	AssemblyID  value.UUID      `json:"assembly_id"`
	Reason      string          `json:"reason"`
	UserID      value.UUID      `json:"user_id"`
	APIKeyID    value.UUID      `json:"api_key_id"`
	UserName    string          `json:"user_name" rule:"unsorted"`
	ReversesID  value.UUID      `json:"reverses_id" rule:"unsorted"`
	ReversedBy  value.UUID      `json:"reversed_by_id" rule:"unsorted"`
	BalancesID  value.UUID      `json:"balances_id" rule:"unsorted"`
	CountID     value.UUID      `json:"count_id" rule:"unsorted"`
	CreatedAt   value.Timestamp `json:"created_at" rule:"notNull"`
}

// entryColumns returns the columns of Entry. table is the name of the ledger in the statement.
func entryColumns(table string) string {
	return strings.ReplaceAll(`e.id, e.product_id,
		(select p.name from products p where p.id = e.product_id) as product_name,
		e.kind, e.pieces, e.shortfall, e.on_hand, e.cost, e.run_id, e.run_item_id, e.order_id,
		(select o.reference from orders o where o.id = e.order_id) as reference, e.order_item_id, e.assembly_id, e.reason,
		e.user_id, e.api_key_id,
		case when num_nonnulls(e.user_id, e.api_key_id) > 0 then actor_name(coalesce(e.user_id, e.api_key_id)) end
			as user_name,
		e.reverses as reverses_id, (select v.id from piece_entries v where v.reverses = e.id) as reversed_by_id,
		e.balances as balances_id, e.at_count as count_id, e.created_at`, "e.", table+".")
}

func selectEntry(id string) *db.Stmt {
	return db.SQL(`select `+entryColumns("e")+` from piece_entries e where e.id = $1`, id)
}

// EntryFilter are the parameters of the list of all entries.
type EntryFilter struct {
	ProductID   value.Optional[value.UUID]           `query:"product_id"`
	OrderID     value.Optional[value.UUID]           `query:"order_id"`
	RunID       value.Optional[value.UUID]           `query:"run_id"`
	LotNumber   value.Optional[string]               `query:"lot_number"`
	Kind        value.Optional[value.Set[EntryKind]] `query:"kind"`
	CreatedFrom value.Optional[value.Moment]         `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]         `query:"created_to"`
}

func (f EntryFilter) list() *server.List {
	l := server.NewList("piece_entries", entryColumns("piece_entries"), "", "")
	l.WhereEqual("product_id", f.ProductID)
	l.Among(`select id from piece_entries where order_id = ?`, f.OrderID)
	l.Among(`select id from piece_entries where run_id = ?`, f.RunID)
	l.Among(`select e.id from (select distinct run_id from runs_of_lot(?)) r
		join piece_entries e on e.run_id = r.run_id`, f.LotNumber)
	l.WhereEach("kind", f.Kind)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.CountOrdered()
	return l
}

var listDoc = &server.Doc{
	ID: "listPieceEntries", Tag: Tag, Summary: "List the entries of the ledger of pieces",
	Description: "Lists all changes of the pieces in stock, newest first. Entries never change, and are never " +
		"removed: a reversal is an entry whose `reverses_id` is the reversed entry.",
}

// ProductEntryFilter are the parameters of the list of a product's entries.
type ProductEntryFilter struct {
	Kind        value.Optional[value.Set[EntryKind]] `query:"kind"`
	CreatedFrom value.Optional[value.Moment]         `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]         `query:"created_to"`
}

var listOfProductDoc = &server.Doc{
	ID: "listProductPieceEntries", Tag: catalog.Tag, Summary: "List the entries of the ledger of a product's pieces",
	Description: "Lists all changes of the product's pieces in stock, newest first, also of a product that was removed.",
}

func (f ProductEntryFilter) list(product string) *server.List {
	l := server.NewList("piece_entries", entryColumns("piece_entries"), "", "")
	l.Where("product_id = ?", product)
	l.WhereOneOf("kind", f.Kind)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.CountOrdered()
	return l
}
