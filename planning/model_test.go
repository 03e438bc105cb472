package planning

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"spoolwright/server"
)

// randomFarm returns a farm with few printers, spools and filaments, so that much is missing.
func randomFarm(r *rand.Rand) *farm {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	filaments := []filament{{"PLA", "black"}, {"PLA", "red"}, {"ABS", "black"}}
	f := &farm{products: map[string]product{}, budget: map[filament]server.Decimal{}}
	for i := range r.IntN(4) {
		p := printer{ID: fmt.Sprint("p", i), Slots: 1 + r.IntN(3), Free: start.Add(time.Duration(r.IntN(5)) * time.Hour)}
		if r.IntN(3) == 0 {
			p.Materials = []string{[]string{"PLA", "ABS"}[r.IntN(2)]}
		}
		f.printers = append(f.printers, p)
	}
	for i := range r.IntN(8) {
		s := spool{ID: fmt.Sprint("s", i), Number: int64(i), Free: server.Decimal(r.IntN(1000)), Opened: r.IntN(2) == 0,
			filament: filaments[r.IntN(3)]}
		if len(f.printers) > 0 && r.IntN(3) == 0 {
			s.Printer = f.printers[r.IntN(len(f.printers))].ID
		}
		f.spools = append(f.spools, s)
		f.budget[s.filament] += s.Free
	}
	for _, n := range filaments {
		f.budget[n] -= server.Decimal(r.IntN(300))
	}
	for i := range 1 + r.IntN(4) {
		p := product{PerPlate: 1 + r.Int64N(4)}
		if r.IntN(4) > 0 {
			minutes := server.Decimal(r.IntN(600)) * server.DecimalOne
			p.Minutes = &minutes
		}
		for _, n := range filaments {
			if r.IntN(2) == 0 {
				p.Materials = append(p.Materials, need{n, n.Key, 1 + server.Decimal(r.IntN(150))})
			}
		}
		f.products[fmt.Sprint(i)] = p
	}
	for range r.IntN(6) {
		f.items = append(f.items, item{ProductID: fmt.Sprint(r.IntN(len(f.products))), Quantity: 1 + r.Int64N(9)})
	}
	return f
}

// copied returns a farm that shares nothing that a plan changes.
func (f *farm) copied() *farm {
	c := *f
	c.printers, c.spools = append([]printer(nil), f.printers...), append([]spool(nil), f.spools...)
	c.budget = map[filament]server.Decimal{}
	for n, grams := range f.budget {
		c.budget[n] = grams
	}
	return &c
}

// TestPlansOfRandomFarms holds plans to what docs/planning.md promises, which this test computes in other ways: no
// spool and no reserve is over-committed, no piece is missing or double, no printer is in two places, the same farm
// has the same plan, and what is unplanned could not be planned.
func TestPlansOfRandomFarms(t *testing.T) {
	t.Parallel()
	farms := uint64(3000)
	if os.Getenv("CI_STRICT") != "" { // as in testkit.InCI, which this package cannot import
		farms = 30000
	}
	for seed := range farms {
		before := randomFarm(rand.New(rand.NewPCG(seed, 0)))
		f := before.copied()
		plan := f.plan(nil, false)
		if again := before.copied().plan(nil, false); !reflect.DeepEqual(plan, again) {
			t.Fatalf("farm %d has two plans:\n%+v\n%+v", seed, plan, again)
		}
		spools, budget := map[string]spool{}, map[filament]server.Decimal{}
		taken, used := map[server.UUID]server.Decimal{}, map[filament]server.Decimal{}
		printers, free := map[string]printer{}, map[string]time.Time{}
		for _, s := range before.spools {
			spools[s.ID] = s
		}
		for _, p := range before.printers {
			printers[p.ID], free[p.ID] = p, p.Free
		}
		for n, grams := range before.budget {
			budget[n] = grams
		}
		pieces := map[string]int64{}
		for _, r := range plan.Runs {
			p, at := before.products[string(r.ProductID)], printers[string(r.PrinterID)]
			pieces[string(r.ProductID)] += r.Quantity
			if r.Quantity < 1 || r.Quantity > p.PerPlate {
				t.Fatalf("farm %d: a plate has %d of %d pieces", seed, r.Quantity, p.PerPlate)
			}
			if !r.StartAt.Equal(free[at.ID]) {
				t.Fatalf("farm %d: %s starts at %s and is free at %s", seed, at.ID, r.StartAt, free[at.ID])
			}
			for id, other := range free { // no other printer that can print it is free earlier
				if canPrint(printers[id], p) && other.Before(free[at.ID]) {
					t.Fatalf("farm %d: %s is free before %s", seed, id, at.ID)
				}
			}
			if !canPrint(at, p) {
				t.Fatalf("farm %d: %s cannot print %+v", seed, at.ID, p)
			}
			if p.Minutes != nil {
				free[at.ID] = r.EndAt.Time
				want := time.Duration(*p.Minutes/server.DecimalOne) * time.Minute * time.Duration(r.Quantity)
				if got := r.EndAt.Sub(r.StartAt.Time); (got - want).Abs() > time.Second {
					t.Fatalf("farm %d: a run of %s takes %s", seed, want, got)
				}
			}
			sum := map[filament]server.Decimal{}
			for _, m := range r.Materials {
				s := spools[string(m.SpoolID)]
				taken[m.SpoolID] += m.Grams
				used[s.filament] += m.Grams
				sum[s.filament] += m.Grams
				if taken[m.SpoolID] > s.Free || m.Grams <= 0 {
					t.Fatalf("farm %d: %s is over-committed", seed, s.ID)
				}
			}
			for _, n := range p.Materials {
				if sum[n.filament] != n.Grams*server.Decimal(r.Quantity) || used[n.filament] > budget[n.filament] {
					t.Fatalf("farm %d: a run takes %d of %d g of %v", seed, sum[n.filament], n.Grams, n.filament)
				}
			}
		}
		for _, u := range plan.Unplanned {
			p := before.products[string(u.ProductID)]
			pieces[string(u.ProductID)] += u.Quantity
			fits := false
			for _, at := range printers {
				fits = fits || canPrint(at, p)
			}
			if fits == (u.Reason == "NO_PRINTER") {
				t.Fatalf("farm %d: the reason is %s", seed, u.Reason)
			}
		}
		for _, i := range before.items {
			pieces[i.ProductID] -= i.Quantity
		}
		for product, n := range pieces {
			if n != 0 {
				t.Fatalf("farm %d: %d pieces too many of %s", seed, n, product)
			}
		}
		for _, m := range plan.Missing {
			if m.Missing <= 0 {
				t.Fatalf("farm %d: %+v", seed, m)
			}
		}
	}
}

func canPrint(at printer, p product) bool {
	for _, n := range p.Materials {
		known := len(at.Materials) == 0
		for _, m := range at.Materials {
			known = known || m == n.Type
		}
		if !known {
			return false
		}
	}
	return len(p.Materials) <= at.Slots
}
