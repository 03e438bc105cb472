package inventory_test

import (
	"context"
	"math/big"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/tests/testkit"
)

// TestPrices tests the rule of filament_prices in prices.sql. If the spools of the material and the color are of one
// filament, and are all that are, the price of the filament is that of the color.
func TestPrices(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	type stock struct {
		material, color  string
		price, remaining any // of 1,000 g; archivedGrams for an archived spool
		removed          bool
	}
	type archivedGrams int
	for name, c := range map[string]struct {
		stock           []stock
		material, color string
		want            string // a fraction; "" if the price is unknown
	}{
		"no spools": {
			nil,
			"PLA", "black", "",
		},
		"one spool": {
			[]stock{{"PLA", "Black", 25, 1000, false}},
			"PLA", "black", "25/1000",
		},
		"weighted by remaining weight": {
			[]stock{{"PLA", "Black", 30, 100, false}, {"PLA", "Black", 10, 200, false}},
			"PLA", "black", "1/60",
		},
		"thirds are not rounded": {
			[]stock{{"PLA", "Black", 10, 1, false}, {"PLA", "Black", 10, 1, false}, {"PLA", "Black", 20, 1, false}},
			"PLA", "black", "1/75",
		},
		"another case": {
			[]stock{{"PLA", "bLaCk", 10, 100, false}, {"PLA", "BLACK", 30, 100, false}},
			"PLA", "black", "20/1000",
		},
		"another case beyond ASCII": {
			[]stock{{"PLA", "GRÜN", 10, 100, false}, {"PLA", "Black", 30, 100, false}},
			"PLA", "grün", "10/1000",
		},
		"empty spools have no weight": {
			[]stock{{"PLA", "Black", 10, 100, false}, {"PLA", "Black", 30, 0, false}},
			"PLA", "black", "10/1000",
		},
		"only empty spools: plain mean": {
			[]stock{{"PLA", "Black", 10, 0, false}, {"PLA", "Black", 40, 0, false}},
			"PLA", "black", "25/1000",
		},
		"only an empty spool of the color": {
			[]stock{{"PLA", "Black", 10, 0, false}, {"PLA", "Red", 40, 500, false}},
			"PLA", "black", "10/1000",
		},
		"spools without a price": {
			[]stock{{"PLA", "Black", nil, 1000, false}, {"PLA", "Black", 40, 1, false}},
			"PLA", "black", "40/1000",
		},
		"a price of zero": {
			[]stock{{"PLA", "Black", 0, 100, false}, {"PLA", "Red", 40, 100, false}},
			"PLA", "black", "0",
		},
		"other colors, weighted": {
			[]stock{{"PLA", "Red", 30, 100, false}, {"PLA", "Blue", 10, 300, false}, {"PLA", "Green", 90, 0, false}},
			"PLA", "black", "15/1000",
		},
		"other colors, plain mean": {
			[]stock{{"PLA", "Red", 30, 0, false}, {"PLA", "Blue", 10, 0, false}},
			"PLA", "black", "20/1000",
		},
		"only a spool of the color without a price": {
			[]stock{{"PLA", "Black", nil, 100, false}, {"PLA", "Blue", 10, 5, false}},
			"PLA", "black", "10/1000",
		},
		"only another material": {
			[]stock{{"PETG", "Black", 30, 100, false}},
			"PLA", "black", "",
		},
		"only a removed spool": {
			[]stock{{"PLA", "Black", 30, 100, true}},
			"PLA", "black", "",
		},
		"an archived spool counts as empty": {
			[]stock{{"PLA", "Black", 10, 100, false}, {"PLA", "Black", 30, archivedGrams(500), false}},
			"PLA", "black", "10/1000",
		},
		"only archived and empty spools: plain mean": {
			[]stock{{"PLA", "Black", 10, 0, false}, {"PLA", "Black", 40, archivedGrams(500), false}},
			"PLA", "black", "25/1000",
		},
		"other colors, one of them archived": {
			[]stock{{"PLA", "Red", 30, archivedGrams(100), false}, {"PLA", "Blue", 10, 300, false}},
			"PLA", "black", "10/1000",
		},
		"other colors, only archived and empty spools: plain mean": {
			[]stock{{"PLA", "Red", 30, archivedGrams(100), false}, {"PLA", "Blue", 10, 0, false}},
			"PLA", "black", "20/1000",
		},
		"a removed spool of another color": {
			[]stock{{"PLA", "Red", 30, 100, true}, {"PLA", "Blue", 10, 0, false}},
			"PLA", "black", "10/1000",
		},
	} {
		test := func(t *testing.T, ofFilament bool) {
			t.Parallel()
			client := api.Operator(t)
			var id *string
			if ofFilament {
				made := client.Post(t, filaments, filament(j{"material_type": c.material, "color": c.color})).Want(201).ID()
				id = &made
			}
			for _, s := range c.stock {
				_, archived := s.remaining.(archivedGrams)
				body := j{"net_weight_grams": 1000, "archived": archived, "purchase_price": s.price,
					"remaining_weight_grams": s.remaining}
				if ofFilament && s.material == c.material && strings.EqualFold(s.color, c.color) {
					body["filament_id"] = *id
				} else {
					body["material_type"], body["color"], body["diameter_mm"] = s.material, s.color, 1.75
				}
				made := client.Post(t, spools, body).Want(201)
				if s.removed {
					client.Delete(t, spools+"/"+made.ID()).Want(204)
				}
			}
			// The triple is passed twice, and with another: the function returns one row for each of the two.
			var rows int
			var amount, grams *string
			ctx := db.As(context.Background(), db.Actor{Tenant: client.Actor.Tenant})
			key := c.material + "//1.75"
			materials, colors := []string{key, "ASA//1.75", key}, []string{c.color, c.color, c.color}
			of := []*string{id, nil, id}
			const prices = `filament_prices($1::text[], $2::text[], $3::uuid[])`
			err := api.DB.Read(ctx,
				db.SQL(`select count(*) from `+prices, materials, colors, of).Into(&rows),
				db.SQL(`
					select amount::text, grams::text from `+prices+`
					where material_key = $4 and color_key = $5`, materials, colors, of, key, c.color).Into(&amount,
					&grams))
			testkit.Check(t, err)
			testkit.Equal(t, rows, 2, "rows")
			if amount == nil || grams == nil {
				if c.want != "" || amount != grams {
					t.Errorf("amount %v, grams %v, want %s", amount, grams, c.want)
				}
				return
			}
			got, _ := new(big.Rat).SetString(*amount)
			divisor, _ := new(big.Rat).SetString(*grams)
			want, ok := new(big.Rat).SetString(c.want)
			if got.Quo(got, divisor); !ok || got.Cmp(want) != 0 {
				t.Errorf("%s / %s, want %s", *amount, *grams, c.want)
			}
		}
		t.Run(name, func(t *testing.T) { test(t, false) })
		t.Run(name+", of a filament", func(t *testing.T) { test(t, true) })
	}
}
