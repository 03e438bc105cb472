package planning

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spoolwright/server"
)

// farm is the state from which a plan follows, and nothing else does. Docs/planning.md has the rules.
type farm struct {
	items    []item // in the order in which they are planned
	products map[string]product
	printers []printer // in the order of their numbers: those that are available
	spools   []spool   // in the order of their numbers: those in stock
	budget   map[filament]server.Decimal
}

// item is what is still missing of a product.
type item struct {
	OrderID     *string `json:"order_id"`
	OrderItemID *string `json:"order_item_id"`
	ProductID   string  `json:"product_id"`
	Quantity    int64
}

// filament is a material in a colour.
type filament struct{ Type, Key string }

// product is what a piece of a product needs.
type product struct {
	Name      string
	PerPlate  int64
	Minutes   *server.Decimal // nil if it is unknown
	Materials []need
}

type need struct {
	filament
	Color string
	Grams server.Decimal
}

type printer struct {
	ID, Name  string
	Slots     int
	Materials []string  // none: all
	Free      time.Time // when the last of its unfinished runs ends
	UpdatedAt string    `json:"updated_at"`
}

type spool struct {
	ID      string
	Number  int64
	Free    server.Decimal // what unfinished runs leave of it
	Opened  bool
	Printer string // where it is loaded, or which unfinished runs it is for; "" if there is none
	filament
	EditedAt *string `json:"edited_at"`
}

// run is a run of a plan: a plate.
type run struct {
	item
	printer    *printer
	start, end time.Time
	hours      *server.Decimal
	grams      server.Decimal
	materials  []part
}

// part is what a run takes from a spool.
type part struct {
	need
	spool *spool
}

// unplanned is an item of which no run can print the pieces, and why.
type unplanned struct {
	item
	reason string // NO_PRINTER or NO_FILAMENT
}

// choose returns the runs that print the items, and the pieces that cannot be planned. It changes the farm: printers
// are free later, and spools have less.
func (f *farm) choose() (runs []run, rest []unplanned) {
	byFilament := map[filament][]*spool{}
	for i := range f.spools {
		s := &f.spools[i]
		byFilament[s.filament] = append(byFilament[s.filament], s)
	}
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
			r, ok := f.run(plate, p, at, byFilament)
			if !ok {
				rest = append(rest, unplanned{i, "NO_FILAMENT"})
				break
			}
			runs = append(runs, r)
			i.Quantity -= plate.Quantity
		}
	}
	return runs, rest
}

// printer returns the first printer to be free of those that can print the product, or nil if none can.
func (f *farm) printer(p product) (first *printer) {
	for i := range f.printers {
		at := &f.printers[i]
		fits := len(p.Materials) <= at.Slots && !slices.ContainsFunc(p.Materials, func(n need) bool {
			return len(at.Materials) > 0 && !slices.Contains(at.Materials, n.Type)
		})
		if fits && (first == nil || at.Free.Before(first.Free)) {
			first = at
		}
	}
	return first
}

// run returns the run that prints a plate at a printer, and takes its filament and its time. It is not ok if the
// filament does not suffice, and then takes nothing.
func (f *farm) run(plate item, p product, at *printer, spools map[filament][]*spool) (r run, ok bool) {
	r = run{item: plate, printer: at, start: at.Free, end: at.Free}
	for _, n := range p.Materials {
		n.Grams = times(n.Grams, plate.Quantity)
		parts := pick(n, at.ID, spools[n.filament])
		if parts == nil || f.budget[n.filament] < n.Grams {
			return run{}, false
		}
		r.materials = append(r.materials, parts...)
		r.grams += n.Grams
	}
	if len(r.materials) > server.MaxEntries {
		return run{}, false
	}
	for _, part := range r.materials {
		part.spool.Free -= part.Grams
		part.spool.Printer = cmp.Or(part.spool.Printer, at.ID)
		f.budget[part.filament] -= part.Grams
	}
	const most = 6_000_000 * server.DecimalOne // of the minutes of a run
	if p.Minutes != nil && times(*p.Minutes, plate.Quantity) <= most {
		minutes := times(*p.Minutes, plate.Quantity)
		hours := (2*minutes + 60) / 120 // rounded, as production does
		r.hours = &hours
		r.end = r.start.Add(time.Duration(hours) * (time.Hour / time.Duration(server.DecimalOne)))
		if r.end.After(lastTime) {
			r.end = lastTime
		}
		at.Free = r.end
	}
	return r, true
}

// lastTime is the latest time that a timestamp in JSON can have; run_queue has the same limit.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// times returns n times q, or the largest number if that is too large.
func times(n server.Decimal, q int64) server.Decimal {
	if n > 0 && q > math.MaxInt64/4/int64(n) {
		return math.MaxInt64 / 4
	}
	return n * server.Decimal(q)
}

// pick returns the spools from which a run at the printer takes the filament: the best one that suffices alone, or
// else as many of the best as it takes. It returns nil if they do not suffice together.
func pick(n need, at string, spools []*spool) (parts []part) {
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
	// Better reports whether a is better than b: by the rank, then the smaller rest, then the number.
	better := func(a, b *spool) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Free, b.Free), cmp.Compare(a.Number, b.Number))
	}
	var best *spool
	var total server.Decimal
	for _, s := range spools {
		total += max(s.Free, 0)
		if s.Free >= n.Grams && (best == nil || better(s, best) < 0) {
			best = s
		}
	}
	switch {
	case best != nil:
		return []part{{n, best}}
	case total < n.Grams:
		return nil
	}
	sorted := slices.Clone(spools)
	slices.SortFunc(sorted, better)
	for _, s := range sorted {
		if s.Free > 0 && n.Grams > 0 {
			one := n
			one.Grams = min(n.Grams, s.Free)
			parts = append(parts, part{one, s})
			n.Grams -= one.Grams
		}
	}
	return parts
}
