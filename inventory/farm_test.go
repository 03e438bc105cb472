package inventory_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/testkit"
)

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return r
}

// round rounds to six decimals, half away from zero.
func round(r *big.Rat) *big.Rat { return rat(r.FloatString(6)) }

var numbers = []string{"diameter_mm", "net_weight_grams", "remaining_weight_grams", "spool_weight_grams",
	"purchase_price"}

// readFarm reads the spools of a farm from a file, as the API returns them, without ids and times.
func readFarm(t *testing.T) (bodies, want []j) {
	t.Helper()
	f, err := os.Open("../testdata/farm/spools.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		body, show := j{}, j{"cost_per_gram": nil}
		for i, name := range rows[0] {
			show[name] = nil
			switch {
			case row[i] == "":
			case slices.Contains(numbers, name):
				body[name] = json.Number(row[i])
				show[name] = body[name]
			default:
				body[name], show[name] = row[i], row[i]
			}
		}
		if show["remaining_weight_grams"] == nil {
			show["remaining_weight_grams"] = show["net_weight_grams"]
		}
		if price, ok := show["purchase_price"].(json.Number); ok {
			show["cost_per_gram"] = json.Number(round(new(big.Rat).Quo(rat(price.String()),
				rat(show["net_weight_grams"].(json.Number).String()))).FloatString(6))
		}
		bodies, want = append(bodies, body), append(want, show)
	}
	return bodies, want
}

// sum returns the sums of remaining grams, purchase prices, and costs of the remaining filament.
func sum(spools []j) [3]string {
	grams, paid, left := new(big.Rat), new(big.Rat), new(big.Rat)
	for _, s := range spools {
		remaining := rat(s["remaining_weight_grams"].(json.Number).String())
		grams.Add(grams, remaining)
		if price, ok := s["purchase_price"].(json.Number); ok {
			paid.Add(paid, rat(price.String()))
			left.Add(left, new(big.Rat).Mul(remaining, rat(s["cost_per_gram"].(json.Number).String())))
		}
	}
	return [3]string{grams.FloatString(6), paid.FloatString(6), left.FloatString(12)}
}

// all returns all spools of a list.
func all(t *testing.T, c *testkit.Client, pairs ...any) []j {
	t.Helper()
	items := []j{}
	for {
		a := c.Get(t, query(append(slices.Clone(pairs), "limit", 100, "skip", len(items))...)).Want(200)
		page := a.List("items")
		for _, item := range page {
			items = append(items, item.(map[string]any))
		}
		if fmt.Sprint(len(items)) == a.Text("total") || len(page) == 0 {
			return items
		}
	}
}

// A farm creates its spools from a file, and all lists agree with the file.
func TestListsAgreeWithImport(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c := api.Operator(t)
	bodies, farm := readFarm(t)
	if len(farm) < 300 {
		t.Fatalf("the farm has %d spools", len(farm))
	}
	for i, body := range bodies {
		made := c.Post(t, spools, body).Want(201)
		for _, field := range []string{"id", "created_at", "updated_at"} {
			farm[i][field] = made.Text(field)
		}
		for name, want := range farm[i] {
			if compare(made.Value(name), want) != 0 {
				t.Errorf("row %d: %s is %v, want %v", i+1, name, made.Value(name), want)
			}
		}
	}

	listed := func(what string, got, want []j) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: %d spools, want %d", what, len(got), len(want))
			return
		}
		for i := range want {
			if got[i]["id"] != want[i]["id"] {
				t.Errorf("%s: item %d is %v, want %v", what, i+1, got[i], want[i])
				return
			}
		}
		if got, want := sum(got), sum(want); got != want {
			t.Errorf("%s: grams, paid and left are %v, want %v", what, got, want)
		}
	}
	slices.SortFunc(farm, sortedBy("created_at", "desc"))
	listed("all", all(t, c), farm)
	for _, field := range server.SchemaOf[inventory.Spool]().Sortable() {
		for _, order := range []string{"asc", "desc"} {
			slices.SortFunc(farm, sortedBy(field, order))
			listed(field+" "+order, all(t, c, "sort_by", field, "sort_order", order), farm)
		}
	}

	// Each filter with each value in the file, also in capitals, and then all filters together.
	slices.SortFunc(farm, sortedBy("created_at", "desc"))
	match := func(pairs ...any) []j {
		var some []j
		for _, s := range farm {
			ok := true
			for i := 0; i < len(pairs); i += 2 {
				switch name, want := pairs[i].(string), pairs[i+1]; name {
				case "in_stock":
					ok = ok && (rat(s["remaining_weight_grams"].(json.Number).String()).Sign() > 0) == want
				default:
					text, _ := s[name].(string)
					ok = ok && s[name] != nil && (text == want || name != "material_type" && strings.EqualFold(text, want.(string)))
				}
			}
			if ok {
				some = append(some, s)
			}
		}
		return some
	}
	check := func(pairs ...any) {
		t.Helper()
		listed(query(pairs...), all(t, c, pairs...), match(pairs...))
	}
	for _, stock := range []bool{true, false} {
		check("in_stock", stock)
	}
	combinations := map[[3]string]bool{}
	for _, field := range []string{"material_type", "brand", "color"} {
		values := map[string]bool{}
		for _, s := range farm {
			if text, ok := s[field].(string); ok {
				values[text] = true
			}
			if brand, ok := s["brand"].(string); ok {
				combinations[[3]string{s["material_type"].(string), brand, s["color"].(string)}] = true
			}
		}
		for value := range values {
			check(field, value)
			if field != "material_type" {
				check(field, strings.ToUpper(value))
			}
		}
	}
	for i, of := range slices.SortedFunc(maps.Keys(combinations),
		func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		if i%9 == 0 {
			check("material_type", of[0], "brand", of[1], "color", of[2], "in_stock", i%2 == 0)
		}
	}
	api.Operator(t).Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
}
