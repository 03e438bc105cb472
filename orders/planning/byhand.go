package planning

import (
	"fmt"
	"slices"

	"spoolwright/server"
	"spoolwright/value"
)

// spools returns the ids of the spools in the runs of the request, or nil.
func (q request) spools() any {
	var ids []string
	for _, r := range q.runs {
		for _, m := range r.Materials {
			ids = append(ids, string(*m.SpoolID.Value))
		}
	}
	if ids == nil {
		return nil
	}
	return ids
}

// lacking is a product of an item of an order, or of no order.
type lacking struct{ item, product string }

// chosen returns the runs that a person has chosen, and the pieces for which there is no run. It follows the rules of
// choose, and returns a 422 for all fields that break one. Like choose, it books the time of printers and the filament
// of spools. It chooses the printer of a run without one, and spools for filament of which the run has no spool.
func (f *farm) chosen(wanted []PlannedRun) (runs []run, rest []unplanned, err error) {
	left := map[lacking]*item{}
	var order []*item // the values of left
	for _, i := range f.items {
		key := lacking{value.OrZero(i.OrderItemID), i.ProductID}
		if left[key] == nil {
			one := i
			one.Quantity = 0
			left[key], order = &one, append(order, &one)
		}
		left[key].Quantity += i.Quantity
	}
	spools, byID := f.byFilament(), map[string]*spool{}
	for i := range f.spools {
		byID[f.spools[i].ID] = &f.spools[i]
	}
	var problems server.Problems
	for n, w := range wanted {
		field := func(name string) string { return fmt.Sprintf("runs[%d].%s", n, name) }
		plate := left[lacking{string(w.OrderItemID.Or("")), string(*w.ProductID.Value)}]
		quantity := *w.Quantity.Value
		if plate == nil {
			name := "product_id"
			if !w.OrderItemID.IsNull() {
				name = "order_item_id"
			}
			problems.Add(field(name), "is not in the plan, or lacks no pieces of the product")
			continue
		}
		p := f.products[plate.ProductID]
		switch {
		case quantity > p.Most:
			problems.Add(field("quantity"), "must be at most %d, the pieces_per_plate of the product", p.Most)
			continue
		case quantity > plate.Quantity:
			problems.Add(field("quantity"), "must not exceed the %d pieces that are still missing", plate.Quantity)
			continue
		}
		at := f.wanted(w.PrinterID, p)
		if at == nil {
			problems.Add(field("printer_id"),
				"must be an available printer that prints the materials of the product, with a slot for each")
			continue
		}
		own, foreign := own(w.Materials, p, byID)
		for _, m := range foreign {
			problems.Add(field(fmt.Sprintf("materials[%d].spool_id", m)),
				"must be a spool in stock with filament that the product needs")
		}
		if foreign != nil {
			continue
		}
		one := *plate
		one.Quantity = quantity
		used := map[*spool]bool{} // by earlier needs of the run
		r, lacks := f.run(one, p, at, func(need need) (parts []part) {
			var fitting, again []*spool
			for _, s := range own {
				switch {
				case need.takes(s.group) && used[s]:
					again = append(again, s)
				case need.takes(s.group):
					fitting = append(fitting, s)
				}
			}
			if fitting = append(fitting, again...); fitting == nil {
				return f.pick(need, at.ID, spools[need.filament])
			}
			parts = f.spread(need, fitting)
			for _, part := range parts {
				used[part.spool] = true
			}
			return parts
		})
		if lacks != nil {
			name := "materials"
			for m := range w.Materials { // the last spool that the need uses
				if slices.ContainsFunc(own, func(s *spool) bool {
					return s.ID == string(*w.Materials[m].SpoolID.Value) && lacks.takes(s.group)
				}) {
					name = fmt.Sprintf("materials[%d].spool_id", m)
				}
			}
			problems.Add(field(name), "has too little filament that is not reserved; the run needs %s g", lacks.Grams)
			continue
		}
		plate.Quantity -= quantity
		runs = append(runs, r)
	}
	for _, i := range order {
		if i.Quantity > 0 {
			rest = append(rest, unplanned{*i, leftOut})
		}
	}
	return runs, rest, problems.Err()
}

// wanted returns the printer with the id, or the best one without an id, or nil if it cannot print the product.
func (f *farm) wanted(id value.Optional[value.UUID], p product) *printer {
	if id.IsNull() {
		return f.printer(p)
	}
	for i := range f.printers {
		if at := &f.printers[i]; at.ID == string(*id.Value) && at.prints(p) {
			return at
		}
	}
	return nil
}

// own returns the spools of the materials, each one once, and the indices of the materials whose spool is not in stock
// or has filament that the product does not need. The spools in stock are in byID.
func own(materials []PlannedMaterial, p product, byID map[string]*spool) (own []*spool, foreign []int) {
	for n, m := range materials {
		s := byID[string(*m.SpoolID.Value)]
		if s == nil || !slices.ContainsFunc(p.Materials, func(need need) bool { return need.takes(s.group) }) {
			foreign = append(foreign, n)
		} else if !slices.Contains(own, s) {
			own = append(own, s)
		}
	}
	return own, foreign
}
