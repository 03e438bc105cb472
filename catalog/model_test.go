package catalog_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// The model implements the rules for costs in memory, with fractions, as simply as possible.
type (
	modelSpool struct {
		path, material, color string
		price, remaining      *big.Rat // price per gram, or nil; grams
		hidden                bool
	}
	modelMaterial struct {
		path, material, color string
		grams, cost           *big.Rat // cost may be nil
		optional              bool
	}
	modelComponent struct {
		path     string
		of       *modelProduct
		quantity int64
	}
	modelProduct struct {
		path, name string
		materials  []*modelMaterial
		components []*modelComponent
		hidden     bool
	}
	model struct {
		spools   []*modelSpool
		products []*modelProduct
	}
)

var million = big.NewRat(1_000_000, 1)

// round6 rounds a number that is not negative to six decimals, half up.
func round6(x *big.Rat) *big.Rat {
	y := new(big.Rat).Mul(x, million)
	y.Add(y, big.NewRat(1, 2))
	return new(big.Rat).SetFrac(new(big.Int).Div(y.Num(), y.Denom()), million.Num())
}

func decimal(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(s)
	}
	return r
}

// price returns the price per gram, or nil if there is none.
func (m *model) price(material, color string) *big.Rat {
	for _, anyColor := range []bool{false, true} {
		weighted, weight, plain, count := new(big.Rat), new(big.Rat), new(big.Rat), new(big.Rat)
		for _, s := range m.spools {
			if !s.hidden && s.price != nil && s.material == material &&
				(anyColor || strings.EqualFold(s.color, color)) {
				weighted.Add(weighted, new(big.Rat).Mul(s.price, s.remaining))
				weight.Add(weight, s.remaining)
				plain.Add(plain, s.price)
				count.Add(count, big.NewRat(1, 1))
			}
		}
		switch {
		case weight.Sign() > 0:
			return weighted.Quo(weighted, weight)
		case count.Sign() > 0:
			return plain.Quo(plain, count)
		}
	}
	return nil
}

// reprice computes the costs of the product's materials from the current prices.
func (m *model) reprice(p *modelProduct) {
	for _, material := range p.materials {
		material.cost = nil
		if price := m.price(material.material, material.color); price != nil {
			material.cost = round6(price.Mul(price, material.grams))
		}
	}
}

func (p *modelProduct) contains(other *modelProduct) bool {
	return p.tree(map[*modelProduct]bool{})[other]
}

// tree adds the product, and all products that it contains, to all.
func (p *modelProduct) tree(all map[*modelProduct]bool) map[*modelProduct]bool {
	if !all[p] {
		all[p] = true
		for _, c := range p.components {
			c.of.tree(all)
		}
	}
	return all
}

// costs are the costs of a product.
type costs struct {
	material, component, total *big.Rat
	complete                   bool
}

func (p *modelProduct) costs(known map[*modelProduct]costs) costs {
	if c, ok := known[p]; ok {
		return c
	}
	c := costs{new(big.Rat), new(big.Rat), new(big.Rat), true}
	for _, m := range p.materials {
		if m.cost != nil {
			c.material.Add(c.material, m.cost)
		} else if !m.optional {
			c.complete = false
		}
	}
	for _, part := range p.components {
		c.complete = c.complete && part.of.costs(known).complete
		c.component.Add(c.component, new(big.Rat).Mul(big.NewRat(part.quantity, 1), part.of.costs(known).total))
	}
	c.total.Add(c.material, c.component)
	known[p] = c
	return c
}

var tooMuch = big.NewRat(999_999_999, 1)

// overflows reports whether the cost of any product is out of range.
func (m *model) overflows() bool {
	known := map[*modelProduct]costs{}
	for _, p := range m.products {
		if !p.hidden && p.costs(known).total.Cmp(tooMuch) > 0 {
			return true
		}
	}
	return false
}

// snapshot copies the materials and components of all products. The function that it returns restores them.
func (m *model) snapshot() (restore func()) {
	type state struct {
		p          *modelProduct
		materials  []modelMaterial
		list       []*modelMaterial
		components []modelComponent
		parts      []*modelComponent
	}
	var all []state
	for _, p := range m.products {
		s := state{p: p, list: append([]*modelMaterial(nil), p.materials...),
			parts: append([]*modelComponent(nil), p.components...)}
		for _, x := range p.materials {
			s.materials = append(s.materials, *x)
		}
		for _, x := range p.components {
			s.components = append(s.components, *x)
		}
		all = append(all, s)
	}
	return func() {
		for _, s := range all {
			s.p.materials, s.p.components = s.list, s.parts
			for i, x := range s.materials {
				*s.list[i] = x
			}
			for i, x := range s.components {
				*s.parts[i] = x
			}
		}
	}
}

// farm applies random operations to the service and to the model.
type farm struct {
	t *testing.T
	c *testkit.Client
	r *rand.Rand
	model
	errors map[string]int // by code
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func (f *farm) number(most int64, digits int) string {
	n := f.r.Int64N(most * pow10(digits))
	return decimalText(n, digits)
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func decimalText(n int64, digits int) string {
	return new(big.Rat).SetFrac64(n, pow10(digits)).FloatString(digits)
}

func (f *farm) color() string {
	return pick(f.r, []string{"Black", "BLACK", "black", "Red", "rEd", "Blue", "Grün", "GRÜN", "Never on a spool"})
}

func (f *farm) material() string { return pick(f.r, []string{"PLA", "PLA", "PETG", "ABS", "TPU"}) }

func (f *farm) visible() []*modelProduct {
	var all []*modelProduct
	for _, p := range f.products {
		if !p.hidden {
			all = append(all, p)
		}
	}
	return all
}

func (f *farm) product() *modelProduct { return pick(f.r, f.visible()) }

// expect ends the test unless the response has the error code that the model returns, or the status success if that
// is "".
func (f *farm) expect(a *testkit.Response, success int, code string) bool {
	f.t.Helper()
	if code == "" {
		a.Want(success)
		return true
	}
	status := map[string]int{"VALIDATION_ERROR": 422, "DUPLICATE_COMPONENT": 409}[code]
	a.WantError(cmp.Or(status, 400), code)
	f.errors[code]++
	return false
}

// edit applies a change to the model and sends it to the service. It undoes the change in the model if a cost is too
// large.
func (f *farm) edit(
	p *modelProduct, change func(), send func() *testkit.Response, success int,
) (*testkit.Response, bool) {
	f.t.Helper()
	restore := f.snapshot()
	change()
	f.reprice(p)
	code := ""
	if f.overflows() {
		code = "VALIDATION_ERROR"
		restore()
	}
	a := send()
	return a, f.expect(a, success, code)
}

func (f *farm) addSpool() {
	s := &modelSpool{material: f.material(), color: f.color(), remaining: decimal(f.number(1000, f.r.IntN(7)))}
	body := j{"material_type": s.material, "color": s.color, "diameter_mm": 1.75, "net_weight_grams": 1000,
		"remaining_weight_grams": number(s.remaining)}
	if f.r.IntN(3) == 0 {
		s.remaining.SetInt64(0)
		body["remaining_weight_grams"] = 0
	}
	if f.r.IntN(5) > 0 {
		s.setPrice(body, f.price())
	}
	s.path = spools + "/" + f.c.Post(f.t, spools, body).Want(201).ID()
	f.spools = append(f.spools, s)
}

// price returns the price of a spool. Some prices lead to costs near the upper limit.
func (f *farm) price() string {
	if f.r.IntN(15) == 0 {
		return f.number(200_000, 2)
	}
	return f.number(100, f.r.IntN(4))
}

func (s *modelSpool) setPrice(body j, price string) {
	body["purchase_price"] = number(decimal(price))
	s.price = round6(new(big.Rat).Quo(decimal(price), big.NewRat(1000, 1)))
}

// number returns an exact JSON number.
func number(r *big.Rat) any { return rawNumber(r.FloatString(6)) }

type rawNumber string

func (n rawNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func (f *farm) changeSpool() {
	s := pick(f.r, f.spools)
	if s.hidden {
		return
	}
	switch f.r.IntN(5) {
	case 0:
		s.hidden = true
		f.c.Delete(f.t, s.path).Want(204)
	case 1:
		s.price = nil
		f.c.Patch(f.t, s.path, j{"purchase_price": nil}).Want(200)
	case 2:
		s.remaining = new(big.Rat)
		f.c.Patch(f.t, s.path, j{"remaining_weight_grams": 0}).Want(200)
	default:
		body := j{}
		s.setPrice(body, f.price())
		f.c.Patch(f.t, s.path, body).Want(200)
	}
}

func (f *farm) addProduct() {
	p := &modelProduct{name: fmt.Sprint("Product ", len(f.products))}
	p.path = createProduct(f.t, f.c, p.name)
	f.products = append(f.products, p)
}

func (f *farm) removeProduct() {
	p := f.product()
	code := ""
	for _, other := range f.visible() {
		for _, c := range other.components {
			if c.of == p {
				code = "PRODUCT_IN_USE"
			}
		}
	}
	if f.expect(f.c.Delete(f.t, p.path), 204, code) {
		p.hidden = true
	}
}

func (f *farm) weight() *big.Rat {
	if f.r.IntN(20) == 0 {
		return big.NewRat(1_000_000, 1)
	}
	return new(big.Rat).Add(decimal(f.number(500, f.r.IntN(7))), big.NewRat(1, 1_000_000))
}

func (f *farm) addMaterial() {
	p := f.product()
	m := &modelMaterial{material: f.material(), color: f.color(), grams: f.weight(), optional: f.r.IntN(4) == 0}
	a, ok := f.edit(p, func() { p.materials = append(p.materials, m) }, func() *testkit.Response {
		return f.c.Post(f.t, p.path+"/materials", j{"material_type": m.material, "color": m.color,
			"weight_grams": number(m.grams), "is_required": !m.optional})
	}, 201)
	if ok {
		m.path = a.Header.Get("Location")
		f.same(a, "cost", m.cost)
	}
}

func (f *farm) changeMaterial() {
	p := f.product()
	if len(p.materials) == 0 {
		return
	}
	m := pick(f.r, p.materials)
	if f.r.IntN(3) == 0 {
		f.edit(p, func() { p.materials = without(p.materials, m) },
			func() *testkit.Response { return f.c.Delete(f.t, m.path) }, 204)
		return
	}
	body, grams, color, material, optional := j{}, m.grams, m.color, m.material, m.optional
	if f.r.IntN(4) == 0 {
		optional = !optional
		body["is_required"] = !optional
	}
	if f.r.IntN(2) == 0 {
		grams = f.weight()
		body["weight_grams"] = number(grams)
	}
	if f.r.IntN(2) == 0 {
		color = f.color()
		body["color"] = color
	}
	if f.r.IntN(2) == 0 || len(body) == 0 {
		material = f.material()
		body["material_type"] = material
	}
	change := func() { m.grams, m.color, m.material, m.optional = grams, color, material, optional }
	if a, ok := f.edit(p, change,
		func() *testkit.Response { return f.c.Patch(f.t, m.path, body) }, 200); ok {
		f.same(a, "cost", m.cost)
	}
}

func without[T comparable](all []T, one T) (rest []T) {
	for _, x := range all {
		if x != one {
			rest = append(rest, x)
		}
	}
	return rest
}

// componentError returns the error code if the product cannot have the other one as its component, or "".
func componentError(p, other *modelProduct, changed *modelComponent) string {
	if other.hidden {
		return "UNKNOWN_REFERENCE"
	}
	if other.contains(p) {
		return "COMPONENT_CYCLE"
	}
	for _, c := range p.components {
		if c.of == other && c != changed {
			return "DUPLICATE_COMPONENT"
		}
	}
	return ""
}

func (f *farm) quantity() int64 { return pick(f.r, []int64{1, 1, 1, 1, 2, 2, 3, 7}) }

func (f *farm) addComponent() {
	p, other, quantity := f.product(), pick(f.r, f.products), f.quantity()
	body := j{"component_product_id": idOf(other.path), "quantity": quantity}
	if code := componentError(p, other, nil); code != "" {
		f.expect(f.c.Post(f.t, p.path+"/components", body), 0, code)
		return
	}
	c := &modelComponent{of: other, quantity: quantity}
	a, ok := f.edit(p, func() { p.components = append(p.components, c) },
		func() *testkit.Response { return f.c.Post(f.t, p.path+"/components", body) }, 201)
	if ok {
		c.path = a.Header.Get("Location")
		f.same(a, "unit_cost", other.costs(map[*modelProduct]costs{}).total)
	}
}

func (f *farm) changeComponent() {
	p := f.product()
	if len(p.components) == 0 {
		return
	}
	c := pick(f.r, p.components)
	if f.r.IntN(4) == 0 {
		f.edit(p, func() { p.components = without(p.components, c) },
			func() *testkit.Response { return f.c.Delete(f.t, c.path) }, 204)
		return
	}
	other, quantity := c.of, f.quantity()
	body := j{"quantity": quantity}
	if f.r.IntN(2) == 0 {
		other = pick(f.r, f.products)
		body["component_product_id"] = idOf(other.path)
		if code := componentError(p, other, c); code != "" {
			f.expect(f.c.Patch(f.t, c.path, body), 0, code)
			return
		}
	}
	f.edit(p, func() { c.of, c.quantity = other, quantity },
		func() *testkit.Response { return f.c.Patch(f.t, c.path, body) }, 200)
}

func (f *farm) recalculate() {
	p := f.product()
	restore := f.snapshot()
	for each := range p.tree(map[*modelProduct]bool{}) {
		f.reprice(each)
	}
	code := ""
	if f.overflows() {
		code = "VALIDATION_ERROR"
		restore()
	}
	if a := f.c.Post(f.t, p.path+"/recalculate", nil); f.expect(a, 200, code) {
		want := p.costs(map[*modelProduct]costs{})
		f.same(a, "material_cost", want.material)
		f.same(a, "component_cost", want.component)
		f.same(a, "total_cost", want.total)
		a.Shows(map[string]string{"costs_complete": fmt.Sprint(want.complete)})
	}
}

// same compares a number in a response with the model's number.
func (f *farm) same(a *testkit.Response, path string, want *big.Rat) {
	f.t.Helper()
	got := a.Text(path)
	if want == nil {
		if got != "null" {
			f.t.Fatalf("%s: %s is %s, want null: %s", a.What, path, got, a.Body)
		}
		return
	}
	if got == "null" || decimal(got).Cmp(want) != 0 {
		f.t.Fatalf("%s: %s is %s, want %s: %s", a.What, path, got, want.FloatString(6), a.Body)
	}
}

// check compares the costs of all products, and all fields of one product.
func (f *farm) check() {
	f.t.Helper()
	known := map[*modelProduct]costs{}
	byID := map[string]*modelProduct{}
	for _, p := range f.visible() {
		byID[idOf(p.path)] = p
	}
	want := len(byID)
	for skip := 0; skip < want; skip += 100 {
		a, err := f.c.Send("GET", fmt.Sprintf("%s?limit=100&skip=%d", products, skip), nil)
		if err != nil || a.Status != 200 {
			f.t.Fatalf("%v %+v", err, a)
		}
		var page struct {
			Items []struct {
				ID       string
				Material json.Number `json:"material_cost"`
				Total    json.Number `json:"total_cost"`
				Complete bool        `json:"costs_complete"`
			}
		}
		if err := json.Unmarshal(a.Body, &page); err != nil {
			f.t.Fatal(err)
		}
		for _, item := range page.Items {
			p := byID[item.ID]
			if p == nil {
				f.t.Fatalf("the list has %s, which does not exist in the model", item.ID)
			}
			delete(byID, item.ID)
			c := p.costs(known)
			if got := decimal(item.Material.String()); got.Cmp(c.material) != 0 {
				f.t.Fatalf("%s: material_cost %s, want %s", p.name, item.Material, c.material.FloatString(6))
			}
			if got := decimal(item.Total.String()); got.Cmp(c.total) != 0 {
				f.t.Fatalf("%s: total_cost %s, want %s", p.name, item.Total, c.total.FloatString(6))
			}
			if item.Complete != c.complete {
				f.t.Fatalf("%s: costs_complete %v, want %v", p.name, item.Complete, c.complete)
			}
		}
	}
	if len(byID) > 0 {
		f.t.Fatalf("the list lacks %d products", len(byID))
	}
	p := f.product()
	a := f.c.Get(f.t, p.path).Want(200)
	f.same(a, "component_cost", p.costs(known).component)
	a.Shows(map[string]string{"costs_complete": fmt.Sprint(p.costs(known).complete)})
	if m, c := len(a.List("materials")), len(a.List("components")); m != len(p.materials) || c != len(p.components) {
		f.t.Fatalf("%d materials and %d components, want %d and %d", m, c, len(p.materials), len(p.components))
	}
	for i, m := range p.materials {
		f.same(a, fmt.Sprintf("materials.%d.cost", i), m.cost)
	}
	for i, c := range p.components {
		unit := c.of.costs(known).total
		f.same(a, fmt.Sprintf("components.%d.unit_cost", i), unit)
		f.same(a, fmt.Sprintf("components.%d.cost", i), new(big.Rat).Mul(unit, big.NewRat(c.quantity, 1)))
	}
}

// After each of many random operations, the costs of the service equal those of the model exactly.
func TestCostsEqualModel(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	api := newAPI(t)
	for i, size := range []int{6, 25, 80, 300}[:testkit.InCI(testkit.InRigs(2, 3), 4)] {
		t.Run(fmt.Sprint(size, " products"), func(t *testing.T) {
			f := &farm{t: t, c: api.Operator(t), r: rand.New(rand.NewPCG(seed, uint64(i))), errors: map[string]int{}}
			for range 12 {
				f.addSpool()
			}
			for range size {
				f.addProduct()
			}
			operations := []func(){
				f.addMaterial, f.addMaterial, f.addMaterial, f.changeMaterial, f.changeMaterial,
				f.addComponent, f.addComponent, f.addComponent, f.addComponent, f.changeComponent, f.changeComponent,
				f.changeSpool, f.addSpool, f.recalculate, f.removeProduct,
			}
			for range min(size*4, 400) { // initial data
				pick(f.r, operations[:10])()
			}
			f.check()
			for range 100 {
				pick(f.r, operations)()
				if len(f.visible()) < min(size, 4) {
					f.addProduct()
				}
				f.check()
			}
			t.Logf("errors: %v", f.errors)
		})
	}
}
