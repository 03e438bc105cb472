package inventory_test

import (
	"context"
	"math/big"
	"testing"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/inventory"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{}, inventory.Routes)
	type spool struct {
		material, color  string
		price, remaining any // of 1,000 g
		hidden           bool
	}
	for name, c := range map[string]struct {
		spools          []spool
		material, color string
		want            string // a fraction; "" is unknown
	}{
		"no spools":                   {nil, "PLA", "black", ""},
		"one spool":                   {[]spool{{"PLA", "Black", 25, 1000, false}}, "PLA", "black", "25/1000"},
		"weighted by what remains":    {[]spool{{"PLA", "Black", 30, 100, false}, {"PLA", "Black", 10, 200, false}}, "PLA", "black", "1/60"},
		"thirds are not rounded":      {[]spool{{"PLA", "Black", 10, 1, false}, {"PLA", "Black", 10, 1, false}, {"PLA", "Black", 20, 1, false}}, "PLA", "black", "1/75"},
		"case does not matter":        {[]spool{{"PLA", "bLaCk", 10, 100, false}, {"PLA", "BLACK", 30, 100, false}}, "PLA", "black", "20/1000"},
		"nor beyond ASCII":            {[]spool{{"PLA", "GRÜN", 10, 100, false}, {"PLA", "Black", 30, 100, false}}, "PLA", "grün", "10/1000"},
		"empty ones do not weigh":     {[]spool{{"PLA", "Black", 10, 100, false}, {"PLA", "Black", 30, 0, false}}, "PLA", "black", "10/1000"},
		"all empty: plain mean":       {[]spool{{"PLA", "Black", 10, 0, false}, {"PLA", "Black", 40, 0, false}}, "PLA", "black", "25/1000"},
		"an empty one of the colour":  {[]spool{{"PLA", "Black", 10, 0, false}, {"PLA", "Red", 40, 500, false}}, "PLA", "black", "10/1000"},
		"unpriced ones do not count":  {[]spool{{"PLA", "Black", nil, 1000, false}, {"PLA", "Black", 40, 1, false}}, "PLA", "black", "40/1000"},
		"a price of zero is a price":  {[]spool{{"PLA", "Black", 0, 100, false}, {"PLA", "Red", 40, 100, false}}, "PLA", "black", "0"},
		"any colour, weighted":        {[]spool{{"PLA", "Red", 30, 100, false}, {"PLA", "Blue", 10, 300, false}, {"PLA", "Green", 90, 0, false}}, "PLA", "black", "15/1000"},
		"any colour, plain":           {[]spool{{"PLA", "Red", 30, 0, false}, {"PLA", "Blue", 10, 0, false}}, "PLA", "black", "20/1000"},
		"any colour, unpriced exact":  {[]spool{{"PLA", "Black", nil, 100, false}, {"PLA", "Blue", 10, 5, false}}, "PLA", "black", "10/1000"},
		"another material is no help": {[]spool{{"PETG", "Black", 30, 100, false}}, "PLA", "black", ""},
		"hidden ones never count":     {[]spool{{"PLA", "Black", 30, 100, true}}, "PLA", "black", ""},
		"hidden ones, any colour":     {[]spool{{"PLA", "Red", 30, 100, true}, {"PLA", "Blue", 10, 0, false}}, "PLA", "black", "10/1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := api.Operator(t)
			for _, s := range c.spools {
				made := client.Post(t, "/api/v1/spools", j{"material_type": s.material, "color": s.color, "diameter_mm": 1.75, "net_weight_grams": 1000,
					"purchase_price": s.price, "remaining_weight_grams": s.remaining}).Want(201)
				if s.hidden {
					client.Delete(t, "/api/v1/spools/"+made.ID()).Want(204)
				}
			}
			// The pair is asked for twice, and with others: one row for each.
			var rows int
			var amount, grams *string
			ctx := db.As(context.Background(), db.Actor{Tenant: client.Actor.Tenant})
			err := api.DB.Read(ctx,
				db.SQL(`select count(*) from filament_prices($1::text[], $2::text[])`, []string{c.material, "ASA", c.material}, []string{c.color, c.color, c.color}).Into(&rows),
				db.SQL(`select amount::text, grams::text from filament_prices($1::text[], $2::text[]) where material_type = $3 and color_key = $4`,
					[]string{c.material, "ASA", c.material}, []string{c.color, c.color, c.color}, c.material, c.color).Into(&amount, &grams))
			if err != nil {
				t.Fatal(err)
			}
			if rows != 2 {
				t.Errorf("%d rows, want 2", rows)
			}
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
		})
	}
}
