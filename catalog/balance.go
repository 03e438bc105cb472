package catalog

import (
	"encoding/json"
	"time"

	"spoolwright/db"
	"spoolwright/value"
	"spoolwright/value/language"
)

// CountedSince is the code of warnings about a Balance.
const CountedSince = "COUNTED_SINCE"

// Balance reports that a transaction changed pieces of a product as of a time before a count. The stock stays as it
// is.
type Balance struct {
	ProductID value.UUID `json:"product_id"`
	Product   string     `json:"product_name"`
	Pieces    int64      // change of the count's difference
	CountedAt time.Time  `json:"counted_at"`
}

// Balanced returns a statement that reads the entries that balance the changes of this transaction. of is the id of
// the run, the order or the reversed entry that caused the changes. Balances decodes the result.
func Balanced(of string) *db.Stmt { return db.SQL(`select balanced_now($1)::text`, of) }

// Balances decodes the result of Balanced.
func Balances(list string) (all []Balance) {
	json.Unmarshal([]byte(list), &all) // the result of the function is valid
	return all
}

// Detail describes the assumption for a person.
func (b Balance) Detail() string {
	return language.Sprintf("%s was counted on %s, after this change: its pieces in stock stay as they are, and the "+
		"difference found by the count changes by %d", b.Product, b.CountedAt.UTC().Format("2006-01-02 15:04 UTC"), b.Pieces)
}
