package pieces_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
)

// A pool is the stock of a product. unvalued of its pieces have no known cost, and value is the cost of the others.
type pool struct {
	onHand, unvalued int64
	value            *big.Rat
}

func (s *pool) had() int64    { return max(s.onHand, 0) }
func (s *pool) valued() int64 { return s.had() - s.unvalued }

// average returns the cost of pieces with a known cost.
func (s *pool) average(pieces int64) *big.Rat {
	if s.valued() == 0 {
		return nil
	}
	return round6(quo(times(s.value, whole(pieces)), whole(s.valued())))
}

// pool returns the stock of a product.
func (l ledger) pool(product any) *pool {
	for _, s := range l.where("product_pieces", "product_id", product) {
		return &pool{s.int("on_hand"), s.int("unvalued"), s.rat("value")}
	}
	return &pool{value: new(big.Rat)}
}

// movement is what an entry of the ledger of pieces does to the stock.
type movement struct {
	unvalued int64
	value    *big.Rat
}

// take takes pieces out of the stock, as far as they are there. without is how many of them have no known cost, as far
// as the stock has such pieces. cost is the cost of the others, or nil: then it is their average cost in stock.
func (s *pool) take(pieces, without int64, cost *big.Rat) movement {
	gone := min(pieces, s.had())
	of := pieces - without
	without = min(max(without, gone-s.valued()), s.unvalued, gone)
	switch known := gone - without; {
	case known == s.valued():
		return movement{-without, negative(s.value)}
	case cost == nil:
		return movement{-without, negative(s.average(known))}
	default:
		return movement{-without, negative(least(round6(quo(times(cost, whole(known)), whole(of))), s.value))}
	}
}

// put brings pieces into the stock. without is how many of them have no known cost; these fill a negative stock first.
// cost is the cost of the others, or of the number of, if that is larger. It is negative if a run became cheaper, but
// the value of the stock never is.
func (s *pool) put(pieces, without int64, cost *big.Rat, of int64) movement {
	known := pieces - without
	if cost == nil {
		known = 0
	}
	more := max(s.onHand+pieces, 0) - s.had()
	without = max(more-known, 0)
	if more == without {
		return movement{without, new(big.Rat)}
	}
	value := round6(quo(times(cost, whole(more-without)), whole(max(known, of))))
	return movement{without, negative(least(negative(value), s.value))}
}

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func negative(x *big.Rat) *big.Rat {
	if x == nil {
		return nil
	}
	return new(big.Rat).Neg(x)
}

// stockEqualsModel compares each entry of the ledger of pieces with what the entries before it make of it, and the
// stock with the sum of the entries. Each run has the good pieces in the ledger, at their part of its cost, and each
// item of an order the delivered ones.
func (l ledger) stockEqualsModel(t *testing.T, totals map[any]parts) {
	t.Helper()
	stock := map[any]*pool{}
	for i, e := range l["piece_entries"] {
		s := stock[e["product_id"]]
		if s == nil {
			s = &pool{value: new(big.Rat)}
			stock[e["product_id"]] = s
		}
		if want, ok := l.movement(s, e, l["piece_entries"][:i]); ok &&
			(e.int("unvalued") != want.unvalued || e.rat("value").Cmp(want.value) != 0) {
			t.Errorf("with %d pieces, %d without a known cost and %s for the others, an entry has %d and %s, want %d and %s: %v",
				s.onHand, s.unvalued, s.value.FloatString(6), e.int("unvalued"), e.rat("value").FloatString(6), want.unvalued,
				want.value.FloatString(6), e)
		}
		if back := l.comesBack(e, l["piece_entries"][:i]); back > 0 && e.int("shortfall") != -back {
			t.Errorf("%d pieces of an entry of a run were not in stock when they left: %v", back, e)
		}
		balanced := int64(0)
		for _, b := range l.where("piece_entries", "balances", e["id"]) {
			balanced += b.int("pieces")
		}
		if l.countedAfter(e, l["piece_entries"][:i]) && balanced != -e.int("pieces") || balanced*e.int("pieces") > 0 {
			t.Errorf("a count after an entry takes %d pieces of it back: %v", -balanced, e)
		}
		s.onHand, s.unvalued, s.value = s.onHand+e.int("pieces"), s.unvalued+e.int("unvalued"), sum(s.value, e.rat("value"))
		if e.int("on_hand") != s.onHand || e.int("stock_unvalued") != s.unvalued || e.rat("stock_value").Cmp(s.value) != 0 ||
			s.unvalued < 0 || s.valued() < 0 || s.value.Sign() < 0 || s.valued() == 0 && s.value.Sign() > 0 {
			t.Errorf("an entry leaves %+v: %v", s, e)
		}
	}
	for product, s := range stock {
		if p := l.pool(product); p.onHand != s.onHand || p.unvalued != s.unvalued || p.value.Cmp(s.value) != 0 {
			t.Errorf("the entries of a product add up to %+v, the stock is %+v", s, p)
		}
	}
	for _, i := range l["order_items"] {
		got := int64(0)
		for _, e := range l.where("piece_entries", "order_item_id", i["id"]) {
			if e["kind"] == "delivered" || e["kind"] == "returned" {
				got += e.int("shortfall") - e.int("pieces")
			}
		}
		if got != i.int("delivered") {
			t.Errorf("%d pieces of an item of an order are delivered, %d in the ledger", i.int("delivered"), got)
		}
	}
	l.runsEqualEntries(t, totals)
}

// runsEqualEntries compares what items of runs brought into stock with their good pieces and their cost.
func (l ledger) runsEqualEntries(t *testing.T, totals map[any]parts) {
	t.Helper()
	type made struct {
		pieces, unknown int64
		cost            *big.Rat
	}
	entries := map[any]*made{}
	for _, e := range l["piece_entries"] {
		if e["run_id"] == nil {
			continue
		}
		m := entries[e["run_item_id"]]
		if m == nil {
			m = &made{cost: new(big.Rat)}
			entries[e["run_item_id"]] = m
		}
		if m.cost = sum(m.cost, e.rat("cost")); e["kind"] != "used" {
			m.pieces += e.int("pieces") - e.int("shortfall")
			if e["cost"] == nil {
				m.unknown += e.int("pieces") - e.int("shortfall")
			}
		}
	}
	for _, run := range l["production_runs"] {
		for i, item := range l.where("run_items", "run_id", run["id"]) {
			good, _ := piecesOf(run, item)
			got, cost, known := entries[item["id"]], new(big.Rat), totals[run["id"]] != nil
			delete(entries, item["id"])
			for _, name := range runParts {
				if _, shares := l.shares(run, totals[run["id"]][name]); good > 0 && shares[i] != nil {
					cost = sum(cost, shares[i])
				} else if good > 0 {
					known = false
				}
			}
			switch {
			case got == nil && good > 0 || got != nil && got.pieces != good:
				t.Errorf("a run has %d good pieces of an item, in the ledger %+v: %v", good, got, item)
			case good > 0 && known && got.unknown == 0 && cost.Cmp(got.cost) != 0:
				t.Errorf("an item of a run cost %s, %s in the ledger: %v", cost.FloatString(6), got.cost.FloatString(6), item)
			}
		}
	}
	for _, m := range entries {
		if m.pieces != 0 {
			t.Errorf("an item that was removed from its run left %d pieces", m.pieces)
		}
	}
}

// movement returns what an entry does to the stock s. before are the entries before it. It returns false for entries
// that balance a late change at a count, and for those that only change the cost of pieces, which do not tell how many
// pieces they are about.
func (l ledger) movement(s *pool, e row, before []row) (movement, bool) {
	pieces, cost, kind := e.int("pieces"), e.rat("cost"), e["kind"]
	like := func(columns ...string) (rows []row) { // the entries before with the same values
		for _, b := range before {
			if !slices.ContainsFunc(columns, func(c string) bool { return b[c] != e[c] }) {
				rows = append(rows, b)
			}
		}
		return rows
	}
	switch {
	case e["at_count"] != nil || kind != "delivered" && pieces == 0:
		return movement{}, false
	case e["reverses"] != nil:
		first := before[slices.IndexFunc(before, func(b row) bool { return b["id"] == e["reverses"] })]
		if pieces < 0 {
			return s.take(-pieces, first.int("unvalued"), reversed(first)), true
		}
		return s.put(pieces, -first.int("unvalued"), reversed(first), 0), true
	case kind == "delivered": // as many without a known cost as the order's own pieces
		return s.take(-pieces, -e.int("unvalued"), nil), true
	case kind == "returned":
		paid, known, unknown := new(big.Rat), int64(0), int64(0)
		for _, d := range like("order_item_id") {
			if d["kind"] == "delivered" || d["kind"] == "returned" {
				paid, unknown = minus(paid, d.rat("value")), unknown+d.int("shortfall")-d.int("unvalued")
				known += d.int("unvalued") - d.int("pieces")
			}
		}
		if known <= 0 {
			return s.put(pieces, pieces, nil, 0), true
		}
		without := min(pieces, max(unknown, pieces-known, 0))
		return s.put(pieces, without, round6(quo(times(paid, whole(pieces-without)), whole(known))), 0), true
	case kind == "scrapped" && e["order_item_id"] != nil:
		returned := before[len(before)-1]
		return s.take(-pieces, returned.int("unvalued"), reversed(returned)), true
	case e["run_id"] != nil && kind != "used" && pieces < 0 && cost != nil:
		return s.take(e.int("shortfall")-pieces, 0, negative(cost)), true
	case e["run_id"] != nil && kind != "used" && pieces > 0:
		return s.put(pieces, 0, cost, pieces-e.int("shortfall")), true
	case kind == "used" && pieces > 0:
		paid, had, known := new(big.Rat), int64(0), int64(0)
		for _, u := range like("run_item_id", "product_id", "kind") {
			paid, had = minus(paid, u.rat("value")), had-u.int("pieces")
			known += max(u.int("on_hand")-u.int("pieces"), 0) - max(u.int("on_hand"), 0) + u.int("unvalued")
		}
		without := min(pieces, had-known)
		if pieces == without {
			return s.put(pieces, pieces, nil, 0), true
		}
		return s.put(pieces, without, round6(quo(times(paid, whole(pieces-without)), whole(known))), 0), true
	case kind == "assembled" && pieces > 0: // costs what its parts cost, if their cost is known
		parts := new(big.Rat)
		for _, p := range like("assembly_id") {
			if p["cost"] == nil {
				return s.put(pieces, pieces, nil, 0), true
			}
			parts = minus(parts, p.rat("cost"))
		}
		return s.put(pieces, 0, parts, 0), true
	case kind == "disassembled" && pieces > 0: // as many without a known cost as of the kit, at its cost together
		kit := like("assembly_id")[0]
		m, rest := s.put(pieces, pieces*kit.int("unvalued")/kit.int("pieces"), new(big.Rat), 0), negative(kit.rat("value"))
		for _, p := range l.where("piece_entries", "assembly_id", e["assembly_id"]) {
			if p["reverses"] == nil && p.int("pieces") > 0 && kit.int("unvalued") == 0 {
				rest = minus(rest, p.rat("cost"))
			}
		}
		if kit.int("unvalued") != 0 {
			rest = new(big.Rat)
		}
		return movement{m.unvalued, sum(e.rat("value"), rest)}, true
	case pieces > 0:
		return s.put(pieces, 0, s.average(pieces), 0), true
	}
	return s.take(-pieces, -pieces, nil), true
}

// comesBack returns how many pieces of an entry do not come into stock, because the run brought them before, and they
// were gone when a correction took them out. If the entry only gives pieces a cost that has become known, these are
// those that were gone when the entry before it took them back without a cost.
func (l ledger) comesBack(e row, before []row) (pieces int64) {
	if e["run_id"] == nil || e["kind"] == "used" || e["at_count"] != nil {
		return 0
	}
	var last row
	for _, b := range before {
		if b["run_id"] == e["run_id"] && b["product_id"] == e["product_id"] && b["kind"] != "used" {
			last, pieces = b, pieces+b.int("shortfall")
		}
	}
	if last["run_item_id"] == e["run_item_id"] && last["cost"] == nil && e["cost"] != nil &&
		last.int("pieces") == -e.int("pieces") && last.int("shortfall") == -e.int("shortfall") {
		return last.int("shortfall")
	}
	return min(pieces, e.int("pieces")-e.int("shortfall"))
}

// countedAfter reports whether the product was counted after what an entry records, but before it was recorded. Then
// other entries balance it, so that the stock stays as it was counted.
func (l ledger) countedAfter(e row, before []row) bool {
	return e["happened_at"] != nil && e["balances"] == nil && slices.ContainsFunc(before, func(c row) bool {
		return c["kind"] == "counted" && c["product_id"] == e["product_id"] && c["at_count"] == nil && c["reverses"] == nil &&
			fmt.Sprint(c["created_at"]) > fmt.Sprint(e["happened_at"]) &&
			!slices.ContainsFunc(before, func(r row) bool { return r["reverses"] == c["id"] })
	})
}

// reversed returns the cost that an entry with the opposite pieces has, or nil if all its pieces have no known cost.
func reversed(e row) *big.Rat {
	if e.int("pieces") != 0 && e.int("unvalued") == e.int("pieces") {
		return nil
	}
	if e.int("pieces") > 0 {
		return e.rat("value")
	}
	return negative(e.rat("value"))
}
