package planning

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spoolwright/server"
	"spoolwright/value"
)

// farm is the complete input of a plan. docs/planning.md has the rules of plans.
type farm struct {
	items    []item // in the order of planning
	products map[string]product
	printers []printer // the available printers, in the order of preference
	spools   []spool   // the spools in stock, in the order of their numbers
	// The grams that this plan may still use. left has the free grams of each group of spools. The free grams of a
	// filament are the sum of left over its groups, less loose.
	left  map[group]value.Decimal
	loose map[filament]value.Decimal
}

// item is a product and the number of pieces to plan.
type item struct {
	OrderID     *string `json:"order_id"`
	OrderItemID *string `json:"order_item_id"`
	ProductID   string  `json:"product_id"`
	Quantity    int64
}

// filament is a material in a color: the keys material_key and color_key.
type filament struct{ Material, Key string }

// group is the spools with the same filament and the same row of the table filaments. Filament is "" for spools
// without such a row.
type group struct {
	filament
	Filament string
}

// product has the requirements of one piece of a product.
type product struct {
	Name      string
	PerPlate  int64
	Most      int64          // the most pieces on a plate that a person chooses
	Minutes   *value.Decimal // nil if it is unknown
	Materials []need
	Picture   *string // the version of its picture; nil if it has none
}

// need is an amount of a filament. If Filament is "", any group of the filament will do; otherwise only the group
// with this Filament.
type need struct {
	group
	Type, Color string
	Name        *string
	Diameter    value.Decimal
	Grams       value.Decimal
}

// takes reports whether the need can use the spools of the group.
func (n need) takes(g group) bool {
	return n.filament == g.filament && (n.Filament == "" || n.Filament == g.Filament)
}

type printer struct {
	ID, Name  string
	Diameter  value.Decimal
	Slots     int
	Materials []string  // nil if the printer takes all materials
	Free      time.Time // when the last of its unfinished runs ends
	UpdatedAt string    `json:"updated_at"`
}

type spool struct {
	ID      string
	Number  int64
	Free    value.Decimal // the grams that are not reserved by unfinished runs
	Opened  bool
	Printer string // the printer in which it is loaded or whose unfinished runs use it, or ""
	group
	EditedAt *string `json:"edited_at"`
}

// run is a run of a plan. It prints one plate.
type run struct {
	item
	printer    *printer
	start, end time.Time
	hours      *value.Decimal
	grams      value.Decimal
	materials  []part
}

// part is the filament that a run takes from a spool.
type part struct {
	need
	spool *spool
}

// unplanned is an item whose pieces no run can print, and the reason.
type unplanned struct {
	item
	reason string // NO_PRINTER, NO_FILAMENT or LEFT_OUT
}

// leftOut is the reason of pieces for which a person has chosen no run.
const leftOut = "LEFT_OUT"

func (f *farm) byFilament() map[filament][]*spool {
	spools := map[filament][]*spool{}
	for i := range f.spools {
		s := &f.spools[i]
		spools[s.filament] = append(spools[s.filament], s)
	}
	return spools
}

// choose returns the runs that print the items, and the pieces that it cannot plan. It books the time of printers and
// the filament of spools in the farm.
func (f *farm) choose() (runs []run, rest []unplanned) {
	spools := f.byFilament()
	for _, i := range f.items {
		p := f.products[i.ProductID]
		for i.Quantity > 0 {
			plate := i
			plate.Quantity = min(i.Quantity, p.PerPlate)
			at := f.printer(p)
			if at == nil {
				rest = append(rest, unplanned{i, "NO_PRINTER"})
				break
			}
			r, lacking := f.run(plate, p, at, func(n need) []part { return f.pick(n, at.ID, spools[n.filament]) })
			if lacking != nil {
				rest = append(rest, unplanned{i, "NO_FILAMENT"})
				break
			}
			runs = append(runs, r)
			i.Quantity -= plate.Quantity
		}
	}
	return runs, rest
}

// printer returns the printer that is free first among the printers that can print the product, or nil if no printer
// can.
func (f *farm) printer(p product) (first *printer) {
	for i := range f.printers {
		at := &f.printers[i]
		if at.prints(p) && (first == nil || at.Free.Before(first.Free)) {
			first = at
		}
	}
	return first
}

// prints reports whether the printer can print the product.
func (at *printer) prints(p product) bool {
	return len(p.Materials) <= at.Slots && !slices.ContainsFunc(p.Materials, func(n need) bool {
		return n.Diameter != at.Diameter || len(at.Materials) > 0 && !slices.Contains(at.Materials, n.Type)
	})
}

// free returns how many free grams the need can use.
func (f *farm) free(n need) value.Decimal {
	var own, all value.Decimal
	for g, grams := range f.left {
		if g.filament == n.filament {
			all += max(grams, 0)
			if n.takes(g) {
				own += max(grams, 0)
			}
		}
	}
	return max(0, min(own, all-f.loose[n.filament]))
}

// run plans a run that prints a plate at a printer, and books its filament and its time. The function pick returns the
// spools for a need, or nil. If there is not enough filament, run returns the need that lacks it, and books nothing.
func (f *farm) run(plate item, p product, at *printer, pick func(need) []part) (r run, lacking *need) {
	r = run{item: plate, printer: at, start: at.Free, end: at.Free}
	take := func(parts []part, sign value.Decimal) {
		for _, part := range parts {
			part.spool.Free -= sign * part.Grams
			f.left[part.spool.group] -= sign * part.Grams
		}
	}
	// Materials that name one group come first: other materials can use the rest of that group.
	for _, n := range first(p.Materials) {
		n.Grams = times(n.Grams, plate.Quantity)
		parts := pick(n)
		if parts == nil || f.free(n) < n.Grams {
			take(r.materials, -1)
			return run{}, &n
		}
		take(parts, 1)
		r.materials = append(r.materials, parts...)
		r.grams += n.Grams
	}
	if len(r.materials) > server.MaxEntries {
		take(r.materials, -1)
		return run{}, &r.materials[0].need
	}
	for _, part := range r.materials {
		part.spool.Printer = cmp.Or(part.spool.Printer, at.ID)
	}
	const most = 6_000_000 * value.DecimalOne // the maximum of a run's minutes
	if p.Minutes != nil && times(*p.Minutes, plate.Quantity) <= most {
		minutes := times(*p.Minutes, plate.Quantity)
		hours := (2*minutes + 60) / 120 // rounded as in package production
		r.hours = &hours
		r.end = r.start.Add(time.Duration(hours) * (time.Hour / time.Duration(value.DecimalOne)))
		if r.end.After(lastTime) {
			r.end = lastTime
		}
		at.Free = r.end
	}
	return r, nil
}

// lastTime is the latest time that a timestamp in JSON can have; run_queue has the same limit.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// times returns n times q, or the largest number on overflow.
func times(n value.Decimal, q int64) value.Decimal {
	if n > 0 && q > math.MaxInt64/4/int64(n) {
		return math.MaxInt64 / 4
	}
	return n * value.Decimal(q)
}

// onSpools returns the grams that the need can use on spools, without those that unfinished runs reserve.
func (f *farm) onSpools(n need) (grams value.Decimal) {
	for _, s := range f.spools {
		if n.takes(s.group) {
			grams += max(s.Free, 0)
		}
	}
	return grams
}

// entry returns the id of the required filament, or nil if any filament will do.
func (n need) entry() *string {
	if n.Filament == "" {
		return nil
	}
	return &n.Filament
}

// first returns the materials in the order in which they take filament: materials that name one group come first.
func first(materials []need) []need {
	sorted := slices.Clone(materials)
	value.Sort(sorted, func(a, b need) int {
		switch {
		case a.Filament != "" && b.Filament == "":
			return -1
		case a.Filament == "" && b.Filament != "":
			return 1
		}
		return 0
	})
	return sorted
}

// pick returns the spools from which a run at the printer takes the filament: the best spool that has enough, or else
// as many of the best spools as necessary. It returns nil if all spools together do not have enough. It does not use
// the reserved grams of a group.
func (f *farm) pick(n need, at string, spools []*spool) (parts []part) {
	rank := func(s *spool) int {
		switch {
		case s.Printer == at:
			return 0
		case s.Printer != "":
			return 3
		case s.Opened:
			return 1
		}
		return 2
	}
	// Spools are compared by rank, then by the smaller rest, then by number.
	better := func(a, b *spool) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Free, b.Free), cmp.Compare(a.Number, b.Number))
	}
	var best *spool
	var fitting []*spool
	for _, s := range spools {
		if !n.takes(s.group) {
			continue
		}
		fitting = append(fitting, s)
		if min(s.Free, f.left[s.group]) >= n.Grams && (best == nil || better(s, best) < 0) {
			best = s
		}
	}
	if best != nil {
		return []part{{n, best}}
	}
	slices.SortFunc(fitting, better)
	return f.spread(n, fitting)
}

// spread returns the spools from which a need takes its filament: as much as possible from each one, in their order. It
// returns nil if they do not have enough.
func (f *farm) spread(n need, spools []*spool) (parts []part) {
	left := map[group]value.Decimal{}
	for _, s := range spools {
		if _, ok := left[s.group]; !ok {
			left[s.group] = f.left[s.group]
		}
		if grams := min(n.Grams, s.Free, left[s.group]); grams > 0 {
			one := n
			one.Grams = grams
			parts = append(parts, part{one, s})
			n.Grams -= grams
			left[s.group] -= grams
		}
	}
	if n.Grams > 0 {
		return nil
	}
	return parts
}
