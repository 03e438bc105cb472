package web

import (
	"encoding/json"
	"net/url"
	"time"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// pieceStock is the stock of a product, as the API returns it with the product.
type pieceStock struct {
	OnHand    int `json:"on_hand"`
	Reserved  int
	Available int
	Incoming  int
	Missing   int
	Minimum   num `json:"minimum_pieces"`
	Location  string
	PieceCost num `json:"piece_cost"`
}

// IsLow reports whether fewer pieces are available than the product should have in stock.
func (s pieceStock) IsLow() bool { return float64(s.Available) < float(s.Minimum) }

// hasFew reports whether fewer pieces are in stock than the product should have. Lists have no reserved pieces.
func (s pieceStock) hasFew() bool { return float64(s.OnHand) < float(s.Minimum) }

// Count writes a number of pieces.
func (v *visit) Count(n int) string { return v.locale.number(float64(n), 0) }

// Counted returns a number of things as the argument of a text.
func (v *visit) Counted(n int) language.Count { return language.Count{N: int64(n), Text: v.Count(n)} }

// Signed writes a number of pieces with its sign.
func (v *visit) Signed(n int) string {
	if n > 0 {
		return "+" + v.Count(n)
	}
	return v.Count(n)
}

type pieceEntry struct {
	ID           string
	ProductID    string `json:"product_id"`
	Kind         string
	Pieces       int
	Shortfall    int
	OnHand       int    `json:"on_hand"`
	Cost         num    `json:"cost"`
	RunID        string `json:"run_id"`
	OrderID      string `json:"order_id"`
	OrderItemID  string `json:"order_item_id"`
	Reference    string
	Reason       string
	UserID       string     `json:"user_id"`
	UserName     string     `json:"user_name"`
	APIKeyID     string     `json:"api_key_id"`
	ReversesID   string     `json:"reverses_id"`
	ReversedByID string     `json:"reversed_by_id"`
	CreatedAt    *time.Time `json:"created_at"`
}

func (e pieceEntry) what() language.Text {
	return map[string]language.Text{"produced": "Printed", "used": "Used by a print", "assembled": "Assembled",
		"disassembled": "Taken apart", "delivered": "Delivered|pieces", "returned": "Returned", "counted": "Counted",
		"scrapped": "Scrapped", "corrected": "Corrected"}[e.Kind]
}

// Address returns the address of the run or the order that has caused the entry, or "".
func (e pieceEntry) Address() string {
	switch {
	case e.RunID != "":
		return "/runs/" + e.RunID
	case e.OrderID != "":
		return "/orders/" + e.OrderID
	}
	return ""
}

// CanReverse reports whether the page offers to take the entry back.
func (e pieceEntry) CanReverse() bool {
	return e.RunID == "" && e.ReversesID == "" && e.ReversedByID == ""
}

// correction returns a text if the entry is a correction or was corrected, or "".
func (e pieceEntry) correction() language.Text {
	switch {
	case e.ReversedByID != "":
		return "Taken back"
	case e.ReversesID != "":
		return "Takes back an earlier entry"
	}
	return ""
}

// pieceLedger is the template with entries of a product's ledger.
type pieceLedger struct {
	Product string // the id
	Items   []ledgerRow
}

// ledgerRow is an entry with its texts in the language of the visitor.
type ledgerRow struct {
	pieceEntry
	What, Correction string
}

func (v *visit) pieceLedger(product string, entries []pieceEntry) pieceLedger {
	l := pieceLedger{Product: product}
	for _, e := range entries {
		l.Items = append(l.Items, ledgerRow{e, v.t(e.what()), v.t(e.correction())})
	}
	return l
}

// Ledger returns the newest entries.
func (p *productPage) Ledger() pieceLedger {
	return p.read.visit.pieceLedger(p.Product.ID, p.Pieces.Items)
}

// piecesPage is the page with the ledger of a product's pieces.
type piecesPage struct {
	listing
	Product product      `json:"-"`
	Items   []pieceEntry `json:"items"`
}

// Ledger returns the entries of the page.
func (p *piecesPage) Ledger() pieceLedger { return p.visit.pieceLedger(p.Product.ID, p.Items) }

func showPieces(v *visit) error {
	p := &piecesPage{}
	var query url.Values
	p.listing, query = v.listing("/products/"+v.r.PathValue("id")+"/pieces", entryNoun, nil,
		[]listOrder{{"", "Newest first", "created_at", "desc"}})
	if err := v.fetch(get("/api/v1/products/{id}", &p.Product),
		read{path: "/api/v1/products/{id}/piece-entries", query: query, into: p}); err != nil {
		return err
	}
	return v.show(200, "pieces", v.t("Pieces of %s", p.Product.Name), p)
}

// recorded returns a function that makes the notice of a form that has changed the pieces in stock. The notice begins
// with the text, and has a form that takes the entry back.
func recorded(text language.Text) makeNotice {
	return func(v *visit, _ *form, answer json.RawMessage) *notice {
		var assembly struct{ Entries []pieceEntry }
		var e pieceEntry
		json.Unmarshal(answer, &e) // an answer of the API is valid
		json.Unmarshal(answer, &assembly)
		for _, one := range assembly.Entries {
			if one.ProductID == v.r.PathValue("id") {
				e = one
			}
		}
		return &notice{Text: v.changed(text, e),
			Undo: &undo{v.t("Undo"), "/products/" + v.r.PathValue("id") + "/pieces/reverse" + v.query(),
				url.Values{"entry": {e.ID}}}}
	}
}

// changed says by which entry the pieces in stock have changed.
func (v *visit) changed(text language.Text, e pieceEntry) string {
	return v.t("%s: %s, %d in stock.", v.t(text), v.Signed(e.Pieces), e.OnHand)
}

// reversePieces takes back an entry of the ledger of pieces. The page has one form for all entries; the field entry
// has the id.
func reversePieces(v *visit) error {
	entry, ok := value.ParseID(v.r.PostForm.Get("entry"))
	if !ok {
		return server.ErrNotFound
	}
	v.r.SetPathValue("part", entry)
	f := v.sent()
	var answer json.RawMessage
	ok, err := v.send(f, "POST", "/api/v1/piece-entries/{part}/reverse", nil, &answer)
	var e pieceEntry
	json.Unmarshal(answer, &e) // an answer of the API is valid
	v.tell((&notice{Text: v.changed("Taken back", e)}).warn(v, answer))
	return v.then(ok, err, v.here("/products"), func() error { return v.productPage(422, "entry", f) })
}

// availablePart has the sources of the pieces of a product that an item of an order needs.
type availablePart struct {
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Needed    int
	Reserved  int
	Incoming  int
	Missing   int
}

// availableItem has the sources of the undelivered pieces of an item of an open order. The parts are components of
// missing pieces.
type availableItem struct {
	ID string
	availablePart
	Until *time.Time `json:"expected_end_at"`
	Parts []availablePart
}

// words describes where the pieces are: in stock, in unfinished runs, or missing. Missing pieces consist of the parts,
// if there are any.
func (a *availablePart) words(v *visit, until *time.Time, parts string) (words []string) {
	if a.Reserved > 0 {
		words = append(words, v.t("%d in stock", a.Reserved))
	}
	if a.Incoming > 0 && until != nil && until.After(v.Now()) {
		words = append(words, v.t("%d on the way until %s", a.Incoming, v.Clock(until)))
	} else if a.Incoming > 0 {
		words = append(words, v.t("%d on the way", a.Incoming))
	}
	if a.Missing > 0 && parts != "" {
		words = append(words, v.t("%d to make of %s", a.Missing, parts))
	} else if a.Missing > 0 {
		words = append(words, v.t("%d missing|%d missing", a.Missing))
	}
	return words
}

// words describes where the pieces and their parts are.
func (a *availableItem) words(v *visit) []string {
	var parts []string
	for i := range a.Parts {
		one := &a.Parts[i]
		parts = append(parts, one.Product+" ("+commas(v, one.words(v, nil, ""))+")")
	}
	return a.availablePart.words(v, a.Until, commas(v, parts))
}
