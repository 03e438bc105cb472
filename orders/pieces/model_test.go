package pieces_test

import (
	"bytes"
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
			"run_items run_materials orders order_items")
	}
	var all []string
	for _, table := range tables {
		order := "created_at, id"
		if table == "tenants" {
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

// cost returns what an ended run costs at the prices in the ledger.
func (l ledger) cost(run row) parts {
	tenant := l["tenants"][0]
	machine, power := tenant.rat("machine_hour_cost"), tenant.rat("machine_power_watts")
	for _, p := range l.where("printers", "id", run["printer_id"]) {
		if own := p.rat("hour_cost"); own != nil {
			machine = own
		}
		if own := p.rat("power_watts"); own != nil {
			power = own
		}
	}
	spent := new(big.Rat)
	for _, m := range l.where("run_materials", "run_id", run["id"]) {
		grams, price := m.rat("actual_weight_grams"), m.rat("cost_per_gram")
		if price == nil {
			price = l.one("spools", m["spool_id"]).rat("cost_per_gram")
		}
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
			if _, one := l.minutes(l.tree(item["product_id"])); good > 0 && work != nil && one != nil {
				work = sum(work, times(one, whole(good)))
			} else if good > 0 {
				work = nil
			}
		}
	} else {
		waste = spent
	}
	p := parts{"machine": pay(hours, machine), "labour": new(big.Rat)}
	if spent != nil {
		p["waste"], p["filament"] = waste, new(big.Rat).Sub(spent, waste)
	}
	if run["status"] == "completed" {
		p["labour"] = pay(times(work, big.NewRat(1, 60)), tenant.rat("labour_hour_cost"))
	}
	if energy := tenant.rat("energy_kwh_cost"); energy != nil && energy.Sign() == 0 {
		p["energy"] = energy
	} else {
		p["energy"] = pay(hours, times(power, energy, big.NewRat(1, 1000)))
	}
	return p
}

// takeParts takes the parts of assembled products from stock. It returns the pieces of each product that must still be
// made and the cost of the parts, or needed itself if no parts are in stock. free returns how many pieces of a product
// with a known cost are in stock for that.
func (l ledger) takeParts(needed map[any]int64, stock map[any]*inStock, free map[any]int64) (map[any]int64, *big.Rat) {
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
				s := stock[product]
				cost = sum(cost, round6(quo(times(s.value, whole(taken)), whole(s.valued))))
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

// shelved returns the part of a line's cost that goes into stock with its good pieces, and whether all of that cost is
// known. kept is the number of good pieces that are kept for the order.
func shelved(paid parts, good, kept int64) (cost *big.Rat, known bool) {
	cost, known = new(big.Rat), true
	for _, name := range runParts {
		cost = sum(cost, paid[name])
		known = known && paid[name] != nil
	}
	if good == 0 {
		return new(big.Rat), true
	}
	return cost.Sub(cost, round6(quo(times(cost, whole(kept)), whole(good)))), known
}

// keep returns how many of the good pieces of each item of an ended run are kept for an order that was not delivered.
func (l ledger) keep() map[any]int64 {
	before, kept := map[any]int64{}, map[any]int64{}
	all := slices.Clone(l["run_items"])
	slices.SortFunc(all, func(a, b row) int {
		x, y := l.one("production_runs", a["run_id"]), l.one("production_runs", b["run_id"])
		return strings.Compare(fmt.Sprint(x["ended_at"], x["id"], a["id"]), fmt.Sprint(y["ended_at"], y["id"], b["id"]))
	})
	for _, item := range all {
		run := l.one("production_runs", item["run_id"])
		if run["deducted_at"] == nil || item["order_item_id"] == nil {
			continue
		}
		of := l.one("order_items", item["order_item_id"])
		if good, _ := piecesOf(run, item); earns(l.one("orders", of["order_id"]), of) {
			kept[item["id"]] = min(good, max(of.int("quantity")-before[of["id"]], 0))
			before[of["id"]] += good
		}
	}
	return kept
}

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

// move takes the cost of pieces from the sum, or adds it if it is negative.
func (m *money) move(cost *big.Rat) {
	if cost.Sign() != 0 {
		m.parts["stock"] = sum(m.parts["stock"], new(big.Rat).Neg(cost))
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
	same(t, a, prefix+"cost_parts.stock", sum(new(big.Rat), m.parts["stock"]))
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
	changeRecipes(t, api, c, r, testkit.InCI(testkit.InRigs(40, 100), 300))
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
			totals, lines := runsEqualModel(t, c, l)
			marginsEqualModel(t, c, l, totals, lines)
			productsAndOrdersEqualModel(t, c, l, totals)
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
			productsAndOrdersEqualModel(t, c, readLedger(t, api, c), totals)
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

// line is an item of an ended run, or a run without items, and what it paid.
type line struct {
	run, item row
	paid      parts
}

// runsEqualModel returns what the ended runs cost, and what their items paid.
func runsEqualModel(t *testing.T, c *testkit.Client, l ledger) (totals map[any]parts, lines []line) {
	totals = map[any]parts{}
	for _, run := range l["production_runs"] {
		if run["deducted_at"] != nil {
			totals[run["id"]] = l.cost(run)
		}
		cost := totals[run["id"]]
		checkRun(t, c, run, cost)
		if cost == nil {
			continue
		}
		if len(l.where("run_items", "run_id", run["id"])) == 0 {
			lines = append(lines, line{run, nil, cost})
		}
		for i, item := range l.where("run_items", "run_id", run["id"]) {
			paid := parts{}
			for _, name := range runParts {
				_, shares := l.shares(run, cost[name])
				paid[name] = shares[i]
			}
			lines = append(lines, line{run, item, paid})
		}
	}
	return totals, lines
}

// printerOf returns the id of the printer of a run, or else its name, or nil.
func printerOf(run row) any {
	if run["printer_id"] != nil {
		return run["printer_id"]
	}
	return run["printer_key"]
}

func marginsEqualModel(t *testing.T, c *testkit.Client, l ledger, totals map[any]parts, lines []line) {
	sold := map[any]int64{} // pieces of items of orders
	sells := map[any]int64{}
	byEnd := slices.Clone(lines)
	slices.SortFunc(byEnd, func(a, b line) int {
		return strings.Compare(fmt.Sprint(a.run["deducted_at"], a.run["id"], a.item["id"]),
			fmt.Sprint(b.run["deducted_at"], b.run["id"], b.item["id"]))
	})
	for _, n := range byEnd {
		if n.item == nil || n.item["order_item_id"] == nil {
			continue
		}
		of := l.one("order_items", n.item["order_item_id"])
		good, _ := piecesOf(n.run, n.item)
		sells[n.item["id"]] = min(good, of.int("quantity")-sold[of["id"]])
		sold[of["id"]] += sells[n.item["id"]]
	}
	keep := l.keep()
	for _, by := range (orders.MarginGroup("")).Enum() {
		empty := func() *money {
			return &money{parts: parts{}, unknown: map[string]bool{}, runs: map[any]bool{}}
		}
		total, groups := empty(), map[string]*money{}
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
				groups[name] = empty()
			}
			for _, m := range []*money{total, groups[name]} {
				m.add(n.paid, m.parts, runParts)
				m.runs[n.run["id"]] = true
				if n.item == nil {
					continue
				}
				good, failed := piecesOf(n.run, n.item)
				m.good, m.failed = m.good+good, m.failed+failed
				moved, _ := shelved(n.paid, good, keep[n.item["id"]])
				m.move(moved)
				if sells := sells[n.item["id"]]; sells > 0 && earns(order, of) {
					m.revenue = sum(m.revenue, times(of.rat("unit_price"), whole(sells)))
					m.unpriced = m.unpriced || of["unit_price"] == nil
				}
			}
			if n.item == nil {
				continue
			}
			good, _ := piecesOf(n.run, n.item)
			if moved, known := shelved(n.paid, good, keep[n.item["id"]]); !known && moved.Sign() != 0 { // stays in the report
				if by == "order" || by == "customer" {
					name = "null"
				}
				if groups[name] == nil {
					groups[name] = empty()
				}
				for _, m := range []*money{total, groups[name]} {
					m.move(new(big.Rat).Neg(moved))
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

// earns reports whether an item of an order earns its price.
func earns(order, item row) bool {
	return item["withdrawn_at"] == nil && (order["status"] == "done" ||
		order["status"] != "cancelled" && order["hidden_at"] == nil)
}

func productsAndOrdersEqualModel(t *testing.T, c *testkit.Client, l ledger, totals map[any]parts) {
	names := strings.Fields("filament machine energy labour failures")
	for _, p := range l.visible("products") {
		a, want, unknown := c.Get(t, products+"/"+p["id"].(string)+"/cost-breakdown").Want(200), l.expected(p["id"], false),
			map[string]bool{}
		listed := c.Get(t, products+"/costs?ids="+p["id"].(string)).Want(200)
		for _, name := range []string{"full_cost", "full_cost_parts", "unknown_parts", "selling_price", "margin",
			"margin_percent"} {
			testkit.Equal(t, fmt.Sprint(listed.Value("items.0."+name)), fmt.Sprint(a.Value(name)), "%s", name)
		}
		for _, name := range names {
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
	keep, stock := l.keep(), l.stock(totals)
	for _, o := range l["orders"] {
		m := money{parts: parts{}, unknown: map[string]bool{}, runs: map[any]bool{}}
		rest := parts{}
		needed, waiting := map[any]int64{}, map[any]int64{}
		earning := 0
		var ended, needs bool
		for _, i := range l.where("order_items", "order_id", o["id"]) {
			if earns(o, i) {
				earning++
				m.revenue = sum(m.revenue, times(i.rat("unit_price"), i.rat("quantity")))
				if i["unit_price"] == nil {
					m.unknown["revenue"] = true
				}
			}
			left := i.int("quantity")
			if i["withdrawn_at"] != nil {
				left = 0
			}
			for _, item := range l.where("run_items", "order_item_id", i["id"]) {
				run := l.one("production_runs", item["run_id"])
				good, _ := piecesOf(run, item)
				left -= good
				if run["deducted_at"] == nil {
					continue
				}
				ended = true
				m.runs[run["id"]] = true
				paid := parts{}
				for _, name := range runParts {
					all, shares := l.shares(run, totals[run["id"]][name])
					paid[name] = shares[slices.IndexFunc(all, func(x row) bool { return x["id"] == item["id"] })]
				}
				m.add(paid, m.parts, runParts)
				moved, _ := shelved(paid, good, keep[item["id"]])
				m.move(moved)
			}
			if i["withdrawn_at"] == nil && (o["status"] == "received" || o["status"] == "in_production") {
				if left = max(left, 0); left > 0 {
					needed[i["product_id"]] += left
				}
				waiting[i["product_id"]] += i.int("quantity") - left // also of an item that has all its pieces
			}
		}
		free := map[any]int64{}
		for product, s := range stock {
			free[product] = min(s.onHand, s.valued) - waiting[product]
		}
		for product, left := range needed {
			needs = true
			if s := stock[product]; s != nil {
				if taken := min(left, s.onHand-waiting[product], s.valued); taken > 0 {
					rest["stock"] = sum(rest["stock"], round6(quo(times(s.value, whole(taken)), whole(s.valued))))
					left -= taken
					free[product] -= taken
				}
			}
			if needed[product] = left; left == 0 {
				delete(needed, product)
			}
		}
		made, ofParts := l.takeParts(needed, stock, free)
		if ofParts != nil {
			rest["stock"] = sum(rest["stock"], ofParts)
		}
		for product, left := range made {
			one := l.expected(product, ofParts != nil)
			for _, name := range names {
				one[name] = times(one[name], whole(left))
			}
			m.add(one, rest, names)
		}
		cost, expected, margin := new(big.Rat), new(big.Rat), (*big.Rat)(nil)
		if earning == 0 {
			m.revenue = new(big.Rat)
		}
		if ended {
			cost = sum(slices.Collect(maps.Values(m.parts))...)
		}
		if needs {
			expected = sum(slices.Collect(maps.Values(rest))...)
		}
		if m.revenue != nil && cost != nil && expected != nil {
			margin = new(big.Rat).Sub(m.revenue, sum(cost, expected))
		}
		if o["hidden_at"] != nil {
			continue
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

// inStock is the pieces of a product that runs have brought into stock, if none have left it.
type inStock struct {
	onHand, valued int64
	value          *big.Rat
}

func (l ledger) stock(totals map[any]parts) map[any]*inStock {
	all := map[any]*inStock{}
	for _, run := range l["production_runs"] {
		for i, item := range l.where("run_items", "run_id", run["id"]) {
			good, _ := piecesOf(run, item)
			if good == 0 {
				continue
			}
			s := all[item["product_id"]]
			if s == nil {
				s = &inStock{value: new(big.Rat)}
				all[item["product_id"]] = s
			}
			s.onHand += good
			paid := parts{}
			for _, name := range runParts {
				_, shares := l.shares(run, totals[run["id"]][name])
				paid[name] = shares[i]
			}
			if cost, known := shelved(paid, good, 0); known {
				s.valued += good
				s.value = sum(s.value, cost)
			}
		}
	}
	return all
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
