package planning

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"spoolwright/value"
)

// randomFarm returns a farm with few printers, spools and filaments, so that much is missing. Some spools are of an
// entry of the filaments, which some products demand.
func randomFarm(r *rand.Rand) *farm {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	thin, thick := value.Decimal(1_750_000), value.Decimal(2_850_000)
	carbon := "PLA-CF"
	needs := []need{
		{group: group{filament{"PLA//1.75", "black"}, ""}, Type: "PLA", Diameter: thin},
		{group: group{filament{"PLA//1.75", "black"}, "x"}, Type: "PLA", Diameter: thin},
		{group: group{filament{"PLA//1.75", "red"}, ""}, Type: "PLA", Diameter: thin},
		{group: group{filament{"PLA/placf/1.75", "black"}, ""}, Type: "PLA", Name: &carbon, Diameter: thin},
		{group: group{filament{"ABS//2.85", "black"}, ""}, Type: "ABS", Diameter: thick},
	}
	f := &farm{products: map[string]product{}, left: map[group]value.Decimal{}, loose: map[filament]value.Decimal{}}
	for i := range r.IntN(4) {
		p := printer{ID: fmt.Sprint("p", i), Slots: 1 + r.IntN(3), Diameter: thin,
			Free: start.Add(time.Duration(r.IntN(5)) * time.Hour)}
		if r.IntN(3) == 0 {
			p.Materials = []string{[]string{"PLA", "ABS"}[r.IntN(2)]}
		}
		if r.IntN(3) == 0 {
			p.Diameter = thick
		}
		f.printers = append(f.printers, p)
	}
	for i := range r.IntN(10) {
		s := spool{ID: fmt.Sprint("s", i), Number: int64(i), Free: value.Decimal(r.IntN(1000)), Opened: r.IntN(2) == 0,
			group: needs[r.IntN(len(needs))].group}
		if s.Filament == "" && r.IntN(3) == 0 {
			s.Filament = "y"
		}
		if len(f.printers) > 0 && r.IntN(3) == 0 {
			s.Printer = f.printers[r.IntN(len(f.printers))].ID
		}
		f.spools = append(f.spools, s)
		f.left[s.group] += s.Free
	}
	for g := range f.left {
		f.left[g] = max(0, f.left[g]-value.Decimal(len(g.Filament)*100))
	}
	for _, n := range needs {
		f.loose[n.filament] = value.Decimal(r.IntN(300))
	}
	for i := range 1 + r.IntN(4) {
		p := product{PerPlate: 1 + r.Int64N(4)}
		p.Most = p.PerPlate
		if r.IntN(4) > 0 {
			minutes := value.Decimal(r.IntN(600)) * value.DecimalOne
			p.Minutes = &minutes
		}
		for _, n := range needs {
			if r.IntN(3) == 0 {
				n.Grams = 1 + value.Decimal(r.IntN(150))
				p.Materials = append(p.Materials, n)
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
	c.left, c.loose = maps.Clone(f.left), maps.Clone(f.loose)
	return &c
}

// TestPlansOfRandomFarms holds plans to what docs/planning.md promises, which this test computes in other ways: no
// spool and no reserve is over-committed, no piece is missing or double, no printer is in two places, the same farm
// has the same plan, and what is unplanned could not be planned.
func TestPlansOfRandomFarms(t *testing.T) {
	t.Parallel()
	farms := uint64(3000)
	if os.Getenv("CI_STRICT") == "1" { // as in testkit.InCI, which this package cannot import
		farms = 30000
	}
	for seed := range farms {
		before := randomFarm(rand.New(rand.NewPCG(seed, 0)))
		f := before.copied()
		plan := planOf(f)
		if again := planOf(before.copied()); !reflect.DeepEqual(plan, again) {
			t.Fatalf("farm %d has two plans:\n%+v\n%+v", seed, plan, again)
		}
		spools, left := map[string]spool{}, map[filament]value.Decimal{}
		taken, used := map[value.UUID]value.Decimal{}, map[group]value.Decimal{}
		printers, free := map[string]printer{}, map[string]time.Time{}
		for _, s := range before.spools {
			spools[s.ID] = s
		}
		for _, p := range before.printers {
			printers[p.ID], free[p.ID] = p, p.Free
		}
		for g, grams := range before.left {
			left[g.filament] += grams
		}
		pieces := map[string]int64{}
		if len(plan.Runs) > 0 { // a person who sends the plan as it is gets it
			again, _, err := before.copied().chosen(plan.Runs)
			if err != nil {
				t.Fatalf("farm %d: %v", seed, err)
			}
			for i, r := range before.plan(again, nil, nil, false).Runs {
				want := plan.Runs[i]
				if len(before.products[string(*r.ProductID.Value)].Materials) > 1 { // equal filament is divided anew
					r.Materials, want.Materials = nil, nil
				}
				if !reflect.DeepEqual(r, want) {
					t.Fatalf("farm %d: run %d of\n%+v\nbecame\n%+v", seed, i, want, r)
				}
			}
		}
		for _, r := range plan.Runs {
			product, quantity := string(*r.ProductID.Value), *r.Quantity.Value
			p, at := before.products[product], printers[string(*r.PrinterID.Value)]
			pieces[product] += quantity
			if quantity < 1 || quantity > p.PerPlate {
				t.Fatalf("farm %d: a plate has %d of %d pieces", seed, quantity, p.PerPlate)
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
				want := time.Duration(*p.Minutes/value.DecimalOne) * time.Minute * time.Duration(quantity)
				if got := r.EndAt.Sub(r.StartAt.Time); (got - want).Abs() > time.Second {
					t.Fatalf("farm %d: a run of %s takes %s", seed, want, got)
				}
			}
			sum, own := map[filament]value.Decimal{}, map[group]value.Decimal{} // of the run
			for _, m := range r.Materials {
				s := spools[string(*m.SpoolID.Value)]
				taken[*m.SpoolID.Value] += m.Grams
				used[s.group] += m.Grams
				sum[s.filament] += m.Grams
				own[s.group] += m.Grams
				left[s.filament] -= m.Grams
				if taken[*m.SpoolID.Value] > s.Free || m.Grams <= 0 {
					t.Fatalf("farm %d: %s is over-committed", seed, s.ID)
				}
				if used[s.group] > before.left[s.group] {
					t.Fatalf("farm %d: what is reserved of %v is taken", seed, s.group)
				}
				if left[s.filament] < before.loose[s.filament] {
					t.Fatalf("farm %d: %d g are left of %v, and %d reserved", seed, left[s.filament], s.filament,
						before.loose[s.filament])
				}
			}
			for _, n := range p.Materials {
				want := n.Grams * value.Decimal(quantity)
				sum[n.filament] -= want
				if n.Filament != "" && own[n.group] < want {
					t.Fatalf("farm %d: a run takes %d of %d g of %v", seed, own[n.group], want, n.group)
				}
			}
			for n, grams := range sum {
				if grams != 0 {
					t.Fatalf("farm %d: a run takes %d g too many of %v", seed, grams, n)
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
		if !known || n.Diameter != at.Diameter {
			return false
		}
	}
	return len(p.Materials) <= at.Slots
}

// stateSQL reads of equal spools only as many as a plan can use. The plan is the same as with all spools.
func TestPlansNeedNoFurtherEqualSpools(t *testing.T) {
	t.Parallel()
	type class struct {
		group
		free    value.Decimal
		opened  bool
		printer string
	}
	fewer := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := randomFarm(r)
		for _, s := range all.spools {
			s.Free = min(s.Free, value.Decimal(20+80*r.IntN(3)))
			for range r.IntN(40) {
				s.ID, s.Number = fmt.Sprint("s", len(all.spools)), int64(len(all.spools))
				all.spools = append(all.spools, s)
				all.left[s.group] += s.Free
			}
		}
		runs, grams := map[filament]int64{}, map[filament]value.Decimal{}
		for _, i := range all.items {
			p := all.products[i.ProductID]
			for _, n := range p.Materials {
				runs[n.filament] += (i.Quantity-1)/p.PerPlate + 1
				grams[n.filament] += n.Grams * value.Decimal(i.Quantity)
			}
		}
		kept := all.copied()
		kept.spools = nil
		places := map[class]int64{}
		for _, s := range all.spools {
			if s.Free <= 0 {
				continue
			}
			c := class{s.group, s.Free, s.Opened, s.Printer}
			if places[c]++; places[c] <= runs[s.filament]+int64(grams[s.filament]/s.Free)+1 {
				kept.spools = append(kept.spools, s)
			} else {
				fewer++
			}
		}
		if want, got := planOf(all), planOf(kept); !reflect.DeepEqual(want, got) {
			t.Fatalf("farm %d: with all %d spools\n%+v\nwith %d\n%+v", seed, len(all.spools), want, len(kept.spools), got)
		}
	}
	if fewer < 5000 {
		t.Errorf("the rule left out %d spools only", fewer)
	}
}

// planOf returns the plan for the farm, and changes the farm.
func planOf(f *farm) Plan {
	runs, rest := f.choose()
	return f.plan(runs, rest, nil, false)
}
