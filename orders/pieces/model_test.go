package pieces_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
	"spoolwright/value"
)

const (
	printersReport = "/api/v1/reports/printers"
	spools         = "/api/v1/spools"
)

// A row is one of a table, and a ledger has the rows of the tables with costs. The model computes costs from them with
// fractions, as simply as possible. A nil fraction is an unknown amount.
type (
	row    map[string]any
	ledger map[string][]row
	parts  map[string]*big.Rat
)

// readLedger reads tables of the tenant, or all that the model knows.
func readLedger(t *testing.T, api *testkit.API, c *testkit.Client, tables ...string) ledger {
	t.Helper()
	if tables == nil {
		tables = strings.Fields("tenants products product_materials product_components spools printers production_runs " +
			"run_items run_materials orders order_items product_pieces piece_entries spool_usage")
	}
	var all []string
	for _, table := range tables {
		order := "created_at, id"
		if table == "tenants" || table == "product_pieces" {
			order = "tenant_id"
		}
		all = append(all, "'"+table+"', (select coalesce(json_agg(t order by "+order+"), '[]') from "+table+" t)")
	}
	tablesAsJSON := db.SQL(`select json_build_object(` + strings.Join(all, ", ") + `) as l`)
	var text json.RawMessage
	testkit.Check(t, api.DB.Read(db.As(t.Context(), c.Actor), db.FreshPlan(), tablesAsJSON.Into(&text)))
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var l ledger
	testkit.Check(t, decoder.Decode(&l))
	return l
}

// where returns the rows of the table that have the value in the column.
func (l ledger) where(table, column string, value any) (rows []row) {
	for _, r := range l[table] {
		if r[column] == value {
			rows = append(rows, r)
		}
	}
	return rows
}

func (l ledger) one(table string, id any) row { return l.where(table, "id", id)[0] }

func (r row) rat(column string) *big.Rat {
	n, ok := r[column].(json.Number)
	if !ok {
		return nil
	}
	x, _ := new(big.Rat).SetString(n.String())
	return x
}

func (r row) int(column string) int64 {
	n, _ := r[column].(json.Number)
	x, _ := n.Int64()
	return x
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// times returns the product, rounded to six decimals, or nil if a factor is nil.
func times(factors ...*big.Rat) *big.Rat {
	x := whole(1)
	for _, f := range factors {
		if f == nil {
			return nil
		}
		x.Mul(x, f)
	}
	return x
}

func quo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }

// rounded returns x with six decimals, or nil.
func round6(x *big.Rat) *big.Rat {
	if x == nil {
		return nil
	}
	y, _ := new(big.Rat).SetString(x.FloatString(6)) // rounds half away from zero
	return y
}

// sum returns the sum of what is known, or nil.
func sum(amounts ...*big.Rat) (total *big.Rat) {
	for _, x := range amounts {
		if x != nil && total == nil {
			total = new(big.Rat)
		}
		if x != nil {
			total.Add(total, x)
		}
	}
	return total
}

func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

// pay returns amount times rate, rounded; a rate of 0 makes it 0 although the amount is unknown.
func pay(amount, rate *big.Rat) *big.Rat {
	if rate != nil && rate.Sign() == 0 {
		return new(big.Rat)
	}
	return round6(times(amount, rate))
}

// pieces are the good and the failed ones of an item of a run.
func piecesOf(run, item row) (good, failed int64) {
	quantity, s, f := item.int("quantity"), item["successful_quantity"], item["failed_quantity"]
	switch run["status"] {
	case "completed":
		good, failed = quantity-item.int("failed_quantity"), item.int("failed_quantity")
		if s != nil {
			good = item.int("successful_quantity")
		}
		if f == nil && s != nil {
			failed = quantity - good
		}
	case "failed":
		failed = quantity
	}
	return good, failed
}

// tree returns the pieces of each product that one piece consists of.
func (l ledger) tree(product any) map[any]int64 {
	all := map[any]int64{product: 1}
	for _, c := range l.where("product_components", "product_id", product) {
		for id, n := range l.tree(c["component_product_id"]) {
			all[id] += n * c.int("quantity")
		}
	}
	return all
}

// minutes returns the time to print pieces of products, and the work on them.
func (l ledger) minutes(made map[any]int64) (printing, work *big.Rat) {
	printing, work = new(big.Rat), new(big.Rat)
	for id, n := range made {
		p := l.one("products", id)
		printed := p.rat("estimated_print_time_minutes")
		required := slices.ContainsFunc(l.where("product_materials", "product_id", id),
			func(m row) bool { return m["is_required"] == true })
		if printed == nil && !required && len(l.where("product_components", "product_id", id)) > 0 {
			printed = new(big.Rat)
		}
		add := func(to **big.Rat, x *big.Rat) {
			if *to != nil && x != nil {
				*to = sum(*to, times(whole(n), x))
			} else {
				*to = nil
			}
		}
		add(&printing, printed)
		add(&work, p.rat("labour_minutes"))
	}
	return printing, work
}

// shares returns what each item of a run pays of an amount: the first items pay the rounded sum of their shares.
func (l ledger) shares(run row, amount *big.Rat) (items []row, paid []*big.Rat) {
	items = l.where("run_items", "run_id", run["id"])
	weights, total := make([]*big.Rat, len(items)), new(big.Rat)
	for i, item := range items {
		weights[i] = new(big.Rat)
		for _, column := range []string{"estimated_material_cost", "estimated_total_cost"} {
			if x := item.rat(column); x != nil && x.Cmp(weights[i]) > 0 {
				weights[i] = x
			}
		}
		total.Add(total, weights[i])
	}
	if total.Sign() == 0 {
		for i, item := range items {
			weights[i] = item.rat("quantity")
			total.Add(total, weights[i])
		}
	}
	before, upto := new(big.Rat), new(big.Rat)
	for i := range items {
		upto = sum(upto, weights[i])
		if amount == nil {
			paid = append(paid, nil)
			continue
		}
		paid = append(paid, new(big.Rat).Sub(round6(quo(times(amount, upto), total)),
			round6(quo(times(amount, before), total))))
		before = upto
	}
	return items, paid
}

// cost returns what an ended run costs at its own prices, which pricesEqualModel checks.
func (l ledger) cost(run row) parts {
	spent := new(big.Rat)
	for _, m := range l.where("run_materials", "run_id", run["id"]) {
		grams, price := m.rat("actual_weight_grams"), m.rat("cost_per_gram")
		if grams == nil || grams.Sign() == 0 {
			continue
		}
		if spent == nil || price == nil {
			spent = nil
			continue
		}
		spent = sum(spent, round6(times(grams, price)))
	}
	hours := run.rat("actual_print_time_hours")
	if hours == nil && run["status"] == "cancelled" && run["started_at"] == nil {
		hours = new(big.Rat)
	}
	waste, work := new(big.Rat), new(big.Rat)
	if run["status"] == "completed" {
		items, paid := l.shares(run, spent)
		for i, item := range items {
			good, failed := piecesOf(run, item)
			if paid[i] != nil {
				waste = sum(waste, round6(quo(times(paid[i], whole(failed)), item.rat("quantity"))))
			}
			if one := l.work(item); good > 0 && work != nil && one != nil {
				work = sum(work, times(one, whole(good)))
			} else if good > 0 {
				work = nil
			}
		}
	} else {
		waste = spent
	}
	p := parts{"machine": pay(hours, run.rat("hour_cost")), "labour": new(big.Rat)}
	if spent != nil {
		p["waste"], p["filament"] = waste, minus(spent, waste)
	}
	if run["status"] == "completed" {
		p["labour"] = pay(times(work, big.NewRat(1, 60)), run.rat("labour_hour_cost"))
	}
	if energy := run.rat("energy_kwh_cost"); energy != nil && energy.Sign() == 0 {
		p["energy"] = energy
	} else {
		p["energy"] = pay(hours, times(run.rat("power_watts"), energy, big.NewRat(1, 1000)))
	}
	return p
}

// work returns the minutes of work on a good piece of an item of a run: those when the run ended, or the present ones.
func (l ledger) work(item row) *big.Rat {
	if item["labour_minutes"] != nil {
		return item.rat("labour_minutes")
	}
	made := l.tree(item["product_id"])
	if item["parts_from_stock"] == true {
		made = map[any]int64{item["product_id"]: 1}
	}
	_, work := l.minutes(made)
	return work
}

// pricesEqualModel compares the prices of a run that has just ended with those of its farm, printer and spools.
func (l ledger) pricesEqualModel(t *testing.T, run row) {
	t.Helper()
	want := row{}
	maps.Copy(want, l["tenants"][0])
	want["hour_cost"], want["power_watts"] = want["machine_hour_cost"], want["machine_power_watts"]
	for _, p := range l.where("printers", "id", run["printer_id"]) {
		for _, own := range []string{"hour_cost", "power_watts"} {
			want[own] = cmp.Or(p[own], want[own])
		}
	}
	equal := func(of, price string, got, want *big.Rat) {
		if got == nil != (want == nil) || got != nil && got.Cmp(want) != 0 {
			t.Errorf("the %s of %s is %v, want %v", price, of, got, want)
		}
	}
	for _, price := range []string{"hour_cost", "power_watts", "energy_kwh_cost", "labour_hour_cost"} {
		equal("a run", price, run.rat(price), want.rat(price))
	}
	for _, item := range l.where("run_items", "run_id", run["id"]) {
		_, work := l.minutes(l.tree(item["product_id"]))
		equal("an item", "work", l.work(item), work)
	}
	for _, m := range l.where("run_materials", "run_id", run["id"]) {
		if spool := l.one("spools", m["spool_id"]); m["cost_per_gram"] == nil {
			equal("a material", "price", nil, spool.rat("cost_per_gram"))
		}
	}
}

// takeParts takes the parts of assembled products from stock. It returns the pieces of each product that must still be
// made and the cost of the parts, or needed itself if no parts are in stock. free returns how many pieces of a product
// with a known cost are in stock for that.
func (l ledger) takeParts(needed, free map[any]int64) (map[any]int64, *big.Rat) {
	made, rest := map[any]int64{}, maps.Clone(needed)
	var cost *big.Rat
	for len(rest) > 0 {
		level := int64(-1)
		for product := range rest {
			level = max(level, l.one("products", product).int("levels"))
		}
		for product, pieces := range maps.Clone(rest) {
			if l.one("products", product).int("levels") < level {
				continue
			}
			delete(rest, product)
			if taken := min(pieces, free[product]); taken > 0 {
				cost = sum(cost, l.pool(product).average(taken))
				pieces -= taken
			}
			if pieces == 0 {
				continue
			}
			made[product] = pieces
			for _, c := range l.where("product_components", "product_id", product) {
				rest[c["component_product_id"]] += pieces * c.int("quantity")
			}
		}
	}
	if cost == nil {
		return needed, nil
	}
	return made, cost
}

// expected returns what one good piece of a product is expected to cost, with its components unless it is alone.
func (l ledger) expected(id any, alone bool) parts {
	tenant, product := l["tenants"][0], l.one("products", id)
	printing, work := l.minutes(l.tree(id))
	filament := product.rat("total_cost")
	if product["costs_complete"] != true {
		filament = nil
	}
	if alone {
		printing, work = l.minutes(map[any]int64{id: 1})
		filament = product.rat("material_cost")
		for _, m := range l.where("product_materials", "product_id", id) {
			if m["is_required"] == true && m["cost"] == nil {
				filament = nil
			}
		}
	}
	energy := times(tenant.rat("machine_power_watts"), tenant.rat("energy_kwh_cost"), big.NewRat(1, 1000))
	if kwh := tenant.rat("energy_kwh_cost"); kwh != nil && kwh.Sign() == 0 {
		energy = kwh
	}
	hours := times(printing, big.NewRat(1, 60))
	p := parts{"machine": pay(hours, tenant.rat("machine_hour_cost")), "energy": pay(hours, energy),
		"labour": pay(times(work, big.NewRat(1, 60)), tenant.rat("labour_hour_cost"))}
	if filament != nil {
		p["filament"] = filament
	}
	bad := tenant.rat("failure_rate_percent")
	good := whole(100)
	if bad != nil {
		good.Sub(good, bad)
	}
	if tenant["failure_rate_measured"] == true {
		var goods, fails int64
		for _, item := range l.where("run_items", "product_id", id) {
			if run := l.one("production_runs", item["run_id"]); run["deducted_at"] != nil {
				g, f := piecesOf(run, item)
				goods, fails = goods+g, fails+f
			}
		}
		if goods+fails > 0 {
			good, bad = whole(goods), whole(fails)
		}
	}
	switch {
	case bad == nil || good.Sign() == 0:
	case bad.Sign() == 0:
		p["failures"] = bad
	case p["filament"] != nil && p["machine"] != nil && p["energy"] != nil:
		p["failures"] = round6(quo(times(sum(p["filament"], p["machine"], p["energy"]), bad), good))
	}
	return p
}

var runParts = strings.Fields("filament waste machine energy labour")

// same reports a number in a response that is not the expected one.
func same(t *testing.T, a *testkit.Response, field string, want *big.Rat) {
	t.Helper()
	text := a.Text(field)
	got, ok := new(big.Rat).SetString(text)
	if want == nil && text != "null" || want != nil && (!ok || got.Cmp(want) != 0) {
		t.Errorf("%s: %s is %s, want %v", a.What, field, text, want)
	}
}

// percent returns the margin in percent of the revenue, with one decimal.
func percent(margin, revenue *big.Rat) *big.Rat {
	if margin == nil || revenue == nil || revenue.Sign() == 0 {
		return nil
	}
	x, _ := new(big.Rat).SetString(quo(times(margin, whole(100)), revenue).FloatString(1))
	return x
}

// money is a sum of the margins report.
type money struct {
	parts        parts
	revenue      *big.Rat
	unpriced     bool
	unknown      map[string]bool
	runs         map[any]bool
	rows         int
	good, failed int64
}

func newMoney() *money {
	return &money{parts: parts{}, unknown: map[string]bool{}, runs: map[any]bool{}}
}

// move takes the cost of pieces from the sum, or adds it if it is negative.
func (m *money) move(cost *big.Rat) {
	if cost.Sign() != 0 {
		m.parts["stock"] = minus(sum(new(big.Rat), m.parts["stock"]), cost)
		m.rows++
	}
}

func (m *money) add(amount, with parts, names []string) {
	for _, name := range names {
		with[name] = sum(with[name], amount[name])
		if amount[name] == nil {
			m.unknown[name] = true
		}
	}
}

// check compares a sum with the fields of a response that begin with the prefix.
func (m *money) check(t *testing.T, a *testkit.Response, prefix string) {
	t.Helper()
	cost := new(big.Rat)
	if m.rows > 0 || len(m.runs) > 0 {
		cost = sum(slices.Collect(maps.Values(m.parts))...)
	}
	m.checkParts(t, a, prefix)
	revenue := m.revenue
	if revenue == nil && !m.unpriced {
		revenue = new(big.Rat)
	}
	var margin *big.Rat
	if revenue != nil && cost != nil {
		margin = new(big.Rat).Sub(revenue, cost)
	}
	same(t, a, prefix+"revenue", revenue)
	same(t, a, prefix+"cost", cost)
	same(t, a, prefix+"margin", margin)
	same(t, a, prefix+"margin_percent", percent(margin, revenue))
	same(t, a, prefix+"runs", whole(int64(len(m.runs))))
	same(t, a, prefix+"pieces", whole(m.good))
	same(t, a, prefix+"failed_pieces", whole(m.failed))
	if m.unpriced {
		m.unknown["revenue"] = true
	}
	wantUnknown(t, a, prefix+"unknown_parts", m.unknown)
}

// checkParts compares the parts of a cost with cost_parts of a response.
func (m *money) checkParts(t *testing.T, a *testkit.Response, prefix string) {
	t.Helper()
	for _, name := range runParts {
		want := m.parts[name]
		if len(m.runs) == 0 {
			want = new(big.Rat)
		}
		same(t, a, prefix+"cost_parts."+name, want)
	}
	if stock := m.parts["stock"]; stock != nil || m.unknown["stock"] {
		same(t, a, prefix+"cost_parts.stock", stock)
	} else {
		same(t, a, prefix+"cost_parts.stock", new(big.Rat))
	}
}

func wantUnknown(t *testing.T, a *testkit.Response, field string, want map[string]bool) {
	t.Helper()
	var got []string
	for _, name := range a.List(field) {
		got = append(got, name.(string))
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("%s: %s is %v, want %v", a.What, field, got, want)
	}
}

// costFarm makes a tenant with random products, printers, orders and ended runs.
func costFarm(t *testing.T, api *testkit.API, c *testkit.Client, r *rand.Rand) {
	maybe := func(p float64, value any) any {
		if r.Float64() < p {
			return value
		}
		return nil
	}
	amount := func(most int) json.Number {
		return json.Number(fmt.Sprintf("%d.%06d", r.IntN(most), r.IntN(1_000_000)))
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		testkit.Check(t, api.DB.Write(db.As(t.Context(), c.Actor), db.SQL(sql, args...)))
	}
	text := func(p float64, most int) any {
		if r.IntN(8) == 0 {
			return "0"
		}
		if n := maybe(p, amount(most)); n != nil {
			return string(n.(json.Number))
		}
		return nil
	}
	exec(`update tenants set labour_hour_cost = $1::numeric, machine_hour_cost = $2::numeric,
		energy_kwh_cost = $3::numeric, failure_rate_percent = $4::numeric, failure_rate_measured = $5::boolean,
		machine_power_watts = $6::numeric`, text(.8, 40), text(.8, 3), text(.8, 1), text(.8, 90), r.IntN(2) == 0,
		text(.5, 200))
	for i := range 4 {
		exec(`insert into printers (id, number, name, hour_cost, power_watts, status)
			values ($1::uuid, $2::int, $3, $4::numeric, $5::numeric, $6)`, value.NewID(), i+1, fmt.Sprint("Printer ", i),
			text(.5, 3),
			text(.7, 400), []string{"available", "available", "maintenance", "retired"}[i])
	}
	var spools, made []string
	for i := range 5 {
		spools = append(spools, c.NewSpool(t, 100_000, j{"material_type": []string{"PLA", "PETG"}[i%2],
			"purchase_price": maybe(.9, amount(3000))}))
	}
	for i := range 6 {
		body := j{"name": fmt.Sprint("P", i), "labour_minutes": maybe(.9, amount(20)),
			"selling_price": maybe(.8, amount(60)), "estimated_print_time_minutes": maybe(.9, r.IntN(300))}
		if i == 0 || r.IntN(4) > 0 {
			body["materials"] = []j{{"material_type": []string{"PLA", "PETG"}[r.IntN(2)], "color": "Black",
				"weight_grams": amount(80) + "1", "is_required": r.IntN(3) > 0}}
		}
		if i > 2 {
			body["components"] = []j{{"component_product_id": made[r.IntN(2)], "quantity": 1 + r.IntN(4)},
				{"component_product_id": made[2]}}
		}
		made = append(made, c.Post(t, products, body).Want(201).ID())
	}
	changeRecipes(t, api, c, r, testkit.InCI(testkit.InRigs(60, 100), 300))
	type wanted struct{ id, product, order string }
	var items []wanted
	for i := range 5 {
		var lines []j
		for range 1 + r.IntN(3) {
			lines = append(lines, j{"product_id": made[r.IntN(6)], "quantity": 1 + r.IntN(6),
				"unit_price": maybe(.5, amount(50))})
		}
		a := c.Post(t, orderURL, j{"items": lines, "customer": []any{"Ada", "ada", "Bo", nil}[r.IntN(4)],
			"reference": fmt.Sprint("R", i)}).Want(201)
		for i := range lines {
			items = append(items, wanted{a.Text(fmt.Sprintf("items.%d.id", i)),
				a.Text(fmt.Sprintf("items.%d.product_id", i)), orderURL + "/" + a.ID()})
		}
	}
	for i := range 24 {
		var lines, materials []j
		for range r.IntN(4) {
			of := wanted{product: made[r.IntN(6)]}
			line := j{}
			if r.IntN(3) > 0 {
				of = items[r.IntN(len(items))]
				line["order_item_id"] = of.id
			}
			quantity := 1 + r.IntN(7)
			line["product_id"], line["quantity"] = of.product, quantity
			if r.IntN(2) == 0 {
				line["failed_quantity"] = r.IntN(quantity + 1)
			} else if r.IntN(2) == 0 {
				line["successful_quantity"] = r.IntN(quantity + 1)
			}
			if r.IntN(5) == 0 {
				line["estimated_total_cost"], line["estimated_material_cost"] = 0, amount(2)
			}
			lines = append(lines, line)
		}
		for range 1 + r.IntN(2) {
			materials = append(materials, j{"spool_id": spools[r.IntN(5)], "cost_per_gram": maybe(.2, amount(1)),
				"actual_weight_grams": amount(300)})
		}
		run := runs + "/" + c.Post(t, runs, j{"items": lines, "materials": materials,
			"printer_name": maybe(.8, fmt.Sprint("Printer ", i%4)), "actual_print_time_hours": maybe(.8, amount(30))}).
			Want(201).ID()
		if r.IntN(5) == 0 { // as if it were older than the printer
			exec(`update production_runs r set printer_id = null where r.id = $1::uuid`, run[len(runs)+1:])
		}
		switch i % 6 {
		case 0:
			c.Post(t, run+"/fail", j{"reason": "clog"}).Want(200)
		case 1:
			c.Post(t, run+"/cancel", nil).Want(200)
		case 2: // stays as it is
		default:
			c.Post(t, run+"/complete", nil).Want(200)
		}
	}
	if open := c.Get(t, orderURL+"?status=received,in_production&limit=1").Want(200); open.Text("total") != "0" {
		c.Post(t, orderURL+"/"+open.Text("items.0.id")+"/cancel", nil)
	}
	for _, i := range items {
		if r.IntN(4) == 0 { // may be in use
			c.Delete(t, i.order+"/items/"+i.id)
		}
	}
	if r.IntN(2) == 0 {
		c.Delete(t, orderURL+"/"+c.Get(t, orderURL).Want(200).Text("items.0.id")).Want(204)
	}
}

// The costs of products, runs and orders, and the reports of margins and printers, equal those of the model, which
// computes them from the rows of the tables: for products after each of many random changes, see changeRecipes. What a
// run cost stays when prices change.
func TestMoneyEqualsModel(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	api := newFarm(t)
	for i := range testkit.InCI(testkit.InRigs(1, 2), 6) {
		t.Run(fmt.Sprint("farm ", i), func(t *testing.T) {
			c := api.Operator(t)
			costFarm(t, api, c, rand.New(rand.NewPCG(seed, uint64(i))))
			l := readLedger(t, api, c)
			totals := runsEqualModel(t, c, l)
			l.stockEqualsModel(t, totals)
			lines := l.lines(totals)
			marginsEqualModel(t, c, l, lines)
			productsEqualModel(t, c, l)
			ordersEqualModel(t, c, l, lines)
			printersEqualModel(t, c, l)

			// All prices change, and what the runs cost does not.
			testkit.Check(t, api.DB.Write(db.As(t.Context(), c.Actor),
				db.SQL(`update tenants set labour_hour_cost = 77, machine_hour_cost = 66, energy_kwh_cost = 55`),
				db.SQL(`update printers set hour_cost = 44, power_watts = 1000`),
				db.SQL(`update products set labour_minutes = 33`)))
			for _, s := range l.visible("spools") {
				c.Patch(t, spools+"/"+s["id"].(string), j{"purchase_price": 99}).Want(200)
			}
			for _, run := range l["production_runs"] {
				checkRun(t, c, run, totals[run["id"]])
			}
			l = readLedger(t, api, c)
			productsEqualModel(t, c, l)
			ordersEqualModel(t, c, l, lines)
		})
	}
}

func checkRun(t *testing.T, c *testkit.Client, run row, want parts) {
	t.Helper()
	a := c.Get(t, runs+"/"+run["id"].(string)).Want(200)
	unknown := map[string]bool{}
	for _, name := range runParts {
		same(t, a, "cost_parts."+name, want[name])
		if unknown[name] = want != nil && want[name] == nil; !unknown[name] {
			delete(unknown, name)
		}
	}
	same(t, a, "cost", sum(slices.Collect(maps.Values(want))...))
	wantUnknown(t, a, "unknown_parts", unknown)
}

// line is an item of an ended run, or a run without items, what it paid, and what became of its good pieces.
type line struct {
	run, item                           row
	paid                                parts
	good, failed, sold, delivered, kept int64
	used, stocked, came                 *big.Rat // the value that left the stock, came into it, and goes with the pieces
	valued                              bool     // whether all of the cost is known
	without                             int64    // the first good pieces, which left the stock before their cost was known
}

// share returns the part of the cost that goes with a number of the good pieces.
func (n *line) share(pieces int64) *big.Rat {
	switch {
	case n.good == 0:
		return new(big.Rat)
	case pieces == n.good:
		return n.came
	case pieces <= n.without:
		return new(big.Rat)
	}
	return round6(quo(times(n.came, whole(pieces-n.without)), whole(n.good-n.without)))
}

// moved returns the value that the line brought into stock and that no order keeps.
func (n *line) moved() *big.Rat { return minus(minus(n.came, n.share(n.kept)), n.used) }

// lines returns what the items of ended runs paid of the costs of the runs, and which of their good pieces orders got.
func (l ledger) lines(totals map[any]parts) (lines []*line) {
	for _, run := range l["production_runs"] {
		cost, items := totals[run["id"]], l.where("run_items", "run_id", run["id"])
		if cost != nil && len(items) == 0 {
			lines = append(lines, &line{run: run, paid: cost, used: new(big.Rat), came: new(big.Rat), stocked: new(big.Rat),
				valued: true})
		}
		for i, item := range items {
			if cost == nil {
				break
			}
			n := &line{run: run, item: item, paid: parts{}, used: new(big.Rat), stocked: new(big.Rat)}
			known := new(big.Rat)
			for _, name := range runParts {
				_, shares := l.shares(run, cost[name])
				n.paid[name] = shares[i]
				known = sum(known, shares[i])
			}
			n.good, n.failed = piecesOf(run, item)
			unknown, carriers := int64(0), int64(0)
			for _, e := range l.where("piece_entries", "run_item_id", item["id"]) {
				switch {
				case e["kind"] == "used":
					n.used = minus(n.used, e.rat("value"))
					continue
				case e["cost"] == nil:
					unknown += e.int("pieces") - e.int("shortfall")
				}
				n.stocked = sum(n.stocked, e.rat("value"))
				if e["product_id"] == item["product_id"] {
					carriers += max(e.int("on_hand"), 0) - max(e.int("on_hand")-e.int("pieces"), 0) - e.int("unvalued")
				}
			}
			n.valued, n.came = unknown == 0, n.stocked
			if n.valued {
				n.without = n.good - min(max(carriers, 0), n.good)
			}
			if !n.valued && n.good > 0 {
				n.came = sum(known, n.used)
			}
			lines = append(lines, n)
		}
	}
	waiting := l.waiting()
	for _, i := range l["order_items"] {
		before, order := int64(0), l.one("orders", i["order_id"])
		for _, n := range own(lines, i) {
			part := func(pieces int64) int64 { return min(max(pieces-before, 0), n.good) }
			n.delivered, n.kept = part(i.int("delivered")), part(i.int("delivered")+waiting[i["id"]])
			if earns(order, i) {
				n.sold = part(sold(order, i))
			}
			before += n.good
		}
	}
	return lines
}

// own returns the lines whose good pieces were printed for an item of an order, oldest first.
func own(lines []*line, of row) (all []*line) {
	for _, n := range lines {
		if n.item != nil && n.item["order_item_id"] == of["id"] && n.item["product_id"] == of["product_id"] && n.good > 0 {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *line) int {
		return strings.Compare(fmt.Sprint(a.run["ended_at"], a.run["id"], a.item["id"]),
			fmt.Sprint(b.run["ended_at"], b.run["id"], b.item["id"]))
	})
	return all
}

// waiting returns how many pieces in stock wait for each item of an open order, because runs printed them for it. If
// too few are in stock, the first orders get them.
func (l ledger) waiting() map[any]int64 {
	items := slices.Clone(l["order_items"])
	slices.SortStableFunc(items, func(a, b row) int {
		x, y := l.one("orders", a["order_id"]), l.one("orders", b["order_id"])
		return strings.Compare(fmt.Sprint(x["created_at"], x["id"]), fmt.Sprint(y["created_at"], y["id"]))
	})
	before, waiting := map[any]int64{}, map[any]int64{}
	for _, i := range items {
		if i["withdrawn_at"] != nil || l.one("orders", i["order_id"])["is_open"] != true {
			continue
		}
		made := int64(0)
		for _, item := range l.where("run_items", "order_item_id", i["id"]) {
			if good, _ := piecesOf(l.one("production_runs", item["run_id"]), item); item["product_id"] == i["product_id"] {
				made += good
			}
		}
		product := i["product_id"]
		made = max(min(made, i.int("quantity"))-i.int("delivered"), 0)
		waiting[i["id"]] = max(min(made, l.pool(product).had()-before[product]), 0)
		before[product] += made
	}
	return waiting
}

// runsEqualModel returns what the ended runs cost.
func runsEqualModel(t *testing.T, c *testkit.Client, l ledger) (totals map[any]parts) {
	totals = map[any]parts{}
	for _, run := range l["production_runs"] {
		if run["deducted_at"] != nil {
			l.pricesEqualModel(t, run)
			totals[run["id"]] = l.cost(run)
		}
		checkRun(t, c, run, totals[run["id"]])
	}
	return totals
}

// printerOf returns the id of the printer of a run, or else its name, or nil.
func printerOf(run row) any {
	if run["printer_id"] != nil {
		return run["printer_id"]
	}
	return run["printer_key"]
}

// marginsEqualModel compares the report of margins with the model, if pieces have left the stock only with their runs.
func marginsEqualModel(t *testing.T, c *testkit.Client, l ledger, lines []*line) {
	for _, by := range (orders.MarginGroup("")).Enum() {
		total, groups := newMoney(), map[string]*money{}
		for _, n := range lines {
			var of, order row
			if n.item != nil && n.item["order_item_id"] != nil {
				of = l.one("order_items", n.item["order_item_id"])
				order = l.one("orders", of["order_id"])
			}
			key := map[string]any{"product": n.item["product_id"], "variant": n.item["product_id"],
				"order": order["id"], "customer": order["customer_key"],
				"month": fmt.Sprint(n.run["deducted_at"])[:7] + "-01", "printer": printerOf(n.run)}[by]
			name := fmt.Sprint(key)
			if key == nil {
				name = "null"
			}
			if groups[name] == nil {
				groups[name] = newMoney()
			}
			for _, m := range []*money{total, groups[name]} {
				m.add(n.paid, m.parts, runParts)
				m.runs[n.run["id"]] = true
				if n.item == nil {
					continue
				}
				m.good, m.failed = m.good+n.good, m.failed+n.failed
				m.move(n.moved())
				if n.sold > 0 {
					m.revenue = sum(m.revenue, times(of.rat("unit_price"), whole(n.sold)))
					m.unpriced = m.unpriced || of["unit_price"] == nil
				}
			}
			if n.item == nil {
				continue
			}
			// What is not known stays in the report.
			if unknown := sum(n.moved(), n.used, negative(n.stocked)); !n.valued && unknown.Sign() != 0 {
				if by == "order" || by == "customer" {
					name = "null"
				}
				if groups[name] == nil {
					groups[name] = newMoney()
				}
				for _, m := range []*money{total, groups[name]} {
					m.move(negative(unknown))
				}
			}
		}
		a := c.Get(t, margins+"?group_by="+by).Want(200)
		total.check(t, a, "")
		same(t, a, "groups", whole(int64(len(groups))))
		field := map[string]string{"product": "product_id", "variant": "product_id", "order": "order_id",
			"customer": "customer", "month": "start",
			"printer": "printer_id"}[by]
		for i := range a.List("items") {
			prefix := fmt.Sprintf("items.%d.", i)
			name := a.Text(prefix + field)
			if by == "printer" && name == "null" {
				name = a.Text(prefix + "printer_name")
			}
			if by == "customer" || by == "printer" {
				name = strings.ToLower(name)
			}
			if groups[name] == nil {
				t.Errorf("there is no group %s", name)
				continue
			}
			groups[name].check(t, a, prefix)
			delete(groups, name)
		}
		if len(groups) > 0 {
			t.Errorf("the groups %v by %s are not in the report", groups, by)
		}
	}
}

// sold returns the pieces of an item of an order that earn its price, if it earns.
func sold(order, item row) int64 {
	if order["status"] == "done" && item["delivered"] != nil {
		return min(item.int("delivered"), item.int("quantity"))
	}
	return item.int("quantity")
}

// took adds to the money of an order what an item of it took from stock, except pieces that runs printed for it.
func (l ledger) took(item row, own []*line, m *money) {
	cost, scrapped, without, others := new(big.Rat), new(big.Rat), int64(0), item.int("delivered")
	none := true
	for _, e := range l.where("piece_entries", "order_item_id", item["id"]) {
		switch e["kind"] {
		case "delivered", "returned":
			cost, without, none = minus(cost, e.rat("value")), without+e.int("shortfall")-e.int("unvalued"), false
		case "scrapped":
			scrapped, none = minus(scrapped, e.rat("value")), false
		}
	}
	if none {
		return
	}
	for _, n := range own {
		others -= n.delivered
		if n.valued {
			cost, without = minus(cost, n.share(n.delivered)), without-min(n.delivered, n.without)
		} else {
			without -= n.delivered
		}
	}
	if without > 0 {
		m.unknown["stock"] = true
		m.rows++
	}
	if cost.Sign() != 0 || scrapped.Sign() != 0 || others > 0 && without <= 0 {
		m.parts["stock"] = sum(m.parts["stock"], cost, scrapped)
		m.rows++
	}
}

// earns reports whether an item of an order earns its price.
func earns(order, item row) bool {
	return item["withdrawn_at"] == nil && (order["status"] == "done" ||
		order["status"] != "cancelled" && order["hidden_at"] == nil)
}

// expectedParts are the parts of what a product is expected to cost.
var expectedParts = strings.Fields("filament machine energy labour failures")

func productsEqualModel(t *testing.T, c *testkit.Client, l ledger) {
	for _, p := range l.visible("products") {
		a, want, unknown := c.Get(t, products+"/"+p["id"].(string)+"/cost-breakdown").Want(200), l.expected(p["id"], false),
			map[string]bool{}
		listed := c.Get(t, products+"/costs?ids="+p["id"].(string)).Want(200)
		for _, name := range []string{"full_cost", "full_cost_parts", "unknown_parts", "selling_price", "margin",
			"margin_percent"} {
			testkit.Equal(t, fmt.Sprint(listed.Value("items.0."+name)), fmt.Sprint(a.Value(name)), "%s", name)
		}
		for _, name := range expectedParts {
			same(t, a, "full_cost_parts."+name, want[name])
			if want[name] == nil {
				unknown[name] = true
			}
		}
		full, margin := sum(slices.Collect(maps.Values(want))...), (*big.Rat)(nil)
		if full != nil && p["selling_price"] != nil {
			margin = new(big.Rat).Sub(p.rat("selling_price"), full)
		}
		same(t, a, "full_cost", full)
		same(t, a, "margin", margin)
		same(t, a, "margin_percent", percent(margin, p.rat("selling_price")))
		wantUnknown(t, a, "unknown_parts", unknown)
	}
	stock := c.Get(t, stockReport).Want(200)
	for i := range stock.List("items") {
		row := fmt.Sprintf("items.%d.", i)
		pool := l.pool(stock.Text(row + "product_id"))
		same(t, stock, row+"on_hand", whole(pool.onHand))
		same(t, stock, row+"unvalued_pieces", whole(pool.unvalued))
		if pool.valued() > 0 {
			same(t, stock, row+"piece_value", pool.value)
		}
		c.Get(t, products+"/"+stock.Text(row+"product_id")).Want(200).
			Shows(map[string]string{"on_hand": stock.Text(row + "on_hand")})
	}
}

func ordersEqualModel(t *testing.T, c *testkit.Client, l ledger, lines []*line) {
	waiting := l.waiting()
	for _, o := range l.visible("orders") {
		m, earning := newMoney(), false
		pieces, waits := map[any]int64{}, map[any]int64{} // of products
		for _, i := range l.where("order_items", "order_id", o["id"]) {
			if earns(o, i) {
				earning = true
				m.revenue = sum(m.revenue, times(i.rat("unit_price"), whole(sold(o, i))))
				if i["unit_price"] == nil {
					m.unknown["revenue"] = true
				}
			}
			for _, n := range lines {
				if n.item != nil && n.item["order_item_id"] == i["id"] {
					m.runs[n.run["id"]] = true
					m.add(n.paid, m.parts, runParts)
					m.move(n.moved())
				}
			}
			l.took(i, own(lines, i), m)
			if i["withdrawn_at"] == nil && o["is_open"] == true {
				pieces[i["product_id"]] += max(i.int("quantity")-i.int("delivered"), 0) - waiting[i["id"]]
				waits[i["product_id"]] += waiting[i["id"]]
			}
		}
		for _, e := range l.where("piece_entries", "order_id", o["id"]) { // of items that were removed from their run
			if e["run_id"] != nil && len(l.where("run_items", "id", e["run_item_id"])) == 0 {
				m.parts["stock"] = minus(sum(new(big.Rat), m.parts["stock"]), e.rat("value"))
				m.rows++
			}
		}
		cost, expected, margin := new(big.Rat), l.expectedRest(m, pieces, waits), (*big.Rat)(nil)
		if !earning {
			m.revenue = new(big.Rat)
		}
		if m.rows > 0 || len(m.runs) > 0 {
			cost = sum(slices.Collect(maps.Values(m.parts))...)
		}
		if m.revenue != nil && cost != nil && expected != nil {
			margin = minus(m.revenue, sum(cost, expected))
		}
		a := c.Get(t, orderURL+"/"+o["id"].(string)).Want(200)
		same(t, a, "revenue", m.revenue)
		same(t, a, "cost", cost)
		m.checkParts(t, a, "")
		same(t, a, "expected_cost", expected)
		same(t, a, "margin", margin)
		same(t, a, "margin_percent", percent(margin, m.revenue))
		wantUnknown(t, a, "unknown_parts", m.unknown)
	}
}

// expectedRest returns the expected cost of the pieces that an order still needs, and adds to its money what is
// unknown. Other pieces in stock wait for the order already.
func (l ledger) expectedRest(m *money, pieces, waits map[any]int64) *big.Rat {
	rest, needed, free := parts{}, map[any]int64{}, map[any]int64{}
	for _, s := range l["product_pieces"] {
		pool := l.pool(s["product_id"])
		free[s["product_id"]] = min(pool.onHand, pool.valued())
	}
	needs := false
	for product, wanted := range pieces {
		wanted, pool := max(wanted, 0), l.pool(product)
		needs = needs || wanted > 0
		free[product] -= waits[product]
		if taken := min(wanted, pool.onHand-waits[product], pool.valued()); taken > 0 {
			rest["stock"] = sum(rest["stock"], pool.average(taken))
			wanted -= taken
			free[product] -= taken
		}
		if wanted > 0 {
			needed[product] = wanted
		}
	}
	if !needs {
		return new(big.Rat)
	}
	made, ofParts := l.takeParts(needed, free)
	if ofParts != nil {
		rest["stock"] = sum(rest["stock"], ofParts)
	}
	for product, left := range made {
		one := l.expected(product, ofParts != nil)
		for _, name := range expectedParts {
			one[name] = times(one[name], whole(left))
		}
		m.add(one, rest, expectedParts)
	}
	return sum(slices.Collect(maps.Values(rest))...)
}

func printersEqualModel(t *testing.T, c *testkit.Client, l ledger) {
	type sums struct {
		hours, grams, cost *big.Rat
		timed              *big.Rat // the cost of the runs whose hours are known
		count              map[any]int64
	}
	want := map[string]*sums{}
	for _, p := range l["printers"] {
		if p["status"] != "retired" {
			want[p["id"].(string)] = &sums{count: map[any]int64{}}
		}
	}
	for _, run := range l["production_runs"] {
		if run["deducted_at"] == nil {
			continue
		}
		name := "null"
		if printer := printerOf(run); printer != nil {
			name = printer.(string)
		}
		if want[name] == nil {
			want[name] = &sums{count: map[any]int64{}}
		}
		s := want[name]
		s.hours = sum(s.hours, run.rat("actual_print_time_hours"))
		s.grams = sum(s.grams, run.rat("actual_total_filament_grams"))
		cost := slices.Collect(maps.Values(l.cost(run)))
		s.cost = sum(append([]*big.Rat{s.cost}, cost...)...)
		if run.rat("actual_print_time_hours") != nil {
			s.timed = sum(append([]*big.Rat{s.timed}, cost...)...)
		} else if run["status"] != "cancelled" || run["started_at"] != nil {
			s.count["without hours"]++
		}
		s.count[run["status"]]++
	}
	a := c.Get(t, printersReport).Want(200)
	same(t, a, "groups", whole(int64(len(want))))
	for i := range a.List("items") {
		prefix := fmt.Sprintf("items.%d.", i)
		name := a.Text(prefix + "printer_id")
		if name == "null" {
			name = strings.ToLower(a.Text(prefix + "printer_name"))
		}
		s := want[name]
		if s == nil {
			t.Errorf("there is no printer %s", name)
			continue
		}
		same(t, a, prefix+"hours", sum(new(big.Rat), s.hours))
		same(t, a, prefix+"grams", sum(new(big.Rat), s.grams))
		same(t, a, prefix+"cost", s.cost)
		for _, status := range strings.Fields("completed failed cancelled") {
			same(t, a, prefix+status+"_runs", whole(s.count[status]))
		}
		same(t, a, prefix+"runs_without_hours", whole(s.count["without hours"]))
		if s.timed != nil && s.hours != nil && s.hours.Sign() > 0 {
			same(t, a, prefix+"cost_per_hour", round6(quo(s.timed, s.hours)))
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("the report lacks %v", want)
	}
}
