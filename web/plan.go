package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value/language"
)

// plan is a plan of the runs that print the remaining pieces of an order.
type plan struct {
	Finished  *time.Time `json:"finished_at"`
	Runs      []plannedRun
	Unplanned []struct {
		Product  string `json:"product_name"`
		Quantity int
		Reason   string
	}
	Missing []struct {
		material
		Grams num `json:"missing_grams"`
	}
	FromStock  []plannedPieces `json:"from_stock"`
	ToAssemble []plannedPieces `json:"to_assemble"`
}

type plannedRun struct {
	Printer   string `json:"printer_name"`
	PrinterID string `json:"printer_id"`
	ItemID    string `json:"order_item_id"`
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Picture   string `json:"picture_version"`
	Quantity  int
	Grams     num        `json:"estimated_total_filament_grams"`
	Start     *time.Time `json:"expected_start_at"`
	End       *time.Time `json:"expected_end_at"`
	Materials []plannedMaterial
}

// plannedMaterial is the filament that a run of a plan takes from a spool.
type plannedMaterial struct {
	material
	SpoolID string `json:"spool_id"`
	Number  int64  `json:"spool_number"`
	Grams   num
}

// plannedPieces are pieces of a plan that need no run.
type plannedPieces struct {
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Quantity  int
}

type planPage struct {
	Order order
	Plan  plan
	Form  *form

	Plate     *form  // asks for the pieces on a plate of a product that lacks the number; or nil
	PlateOf   string // the id of the product
	isChanged bool   // whether a person has changed the plan
}

// shownPlates is the maximum number of runs that the page of a plan lists, and mostChanged that of a plan that a person
// can change: the API takes no more.
const shownPlates, mostChanged = 100, 500

// Reason returns the sentence that says why pieces are not planned.
func (p *planPage) Reason(v view, code string) string {
	return v.t(map[string]language.Text{
		"NO_PRINTER":  "No available printer can print their materials with a slot for each.",
		"NO_FILAMENT": "Too little filament is left that is not reserved.",
		"LEFT_OUT":    "Left out of this plan."}[code])
}

// Thumb returns the picture of a product, or "".
func (p *planPage) Thumb(product, version string) template.HTML { return thumb(product, version) }

// planRow is a run on the page of a plan, whose printer, spools and pieces can be changed.
type planRow struct {
	plannedRun
	Printer, Quantity input
	Spools            []input
	Hidden            []input // what the form repeats
	Open, First       bool    // whether the inputs are shown; whether the printer has no earlier run
}

// runRow returns how the names of the inputs of a run begin in the form of a plan.
func runRow(i int) string { return fmt.Sprintf("runs[%d].", i) }

// spoolRows returns how the names of the inputs of the spools of a run begin, in a form that was sent.
func spoolRows(f *form, i int) (names []string) {
	for {
		name := fmt.Sprintf("%smaterials[%d].", runRow(i), len(names))
		if !f.Values.Has(name + "of") {
			return names
		}
		names = append(names, name)
	}
}

// Rows returns the runs that the page lists. The form repeats the others.
func (p *planPage) Rows() (shown []planRow) {
	f, seen := p.Form, map[string]bool{} // the printers by id
	for i, r := range p.Plan.Runs {
		in := func(name string, label language.Text, more ...string) input {
			return newInput(f, runRow(i)+name, label, more...)
		}
		row := planRow{plannedRun: r, Hidden: []input{in("order_item_id", "", "value="+r.ItemID),
			in("product_id", "", "value="+r.ProductID), in("product_name", "", "value="+r.Product),
			in("picture_version", "", "value="+r.Picture)}}
		row.Printer = in("printer_id", "Printer", "find=printers", "value="+r.PrinterID, "named="+r.Printer)
		row.First, seen[r.PrinterID] = !seen[r.PrinterID], true
		row.Quantity = in("quantity", "Pieces", "type=number", "hint=0 leaves the run out.",
			"value="+strconv.Itoa(r.Quantity))
		for j, m := range r.Materials {
			name, number := fmt.Sprintf("materials[%d].", j), strconv.FormatInt(m.Number, 10)
			row.Spools = append(row.Spools, in(name+"spool_id", "Spool", "find=spools", "value="+number,
				"named="+join(" ", "#"+number, m.Title())))
			row.Hidden = append(row.Hidden, in(name+"of", "", "value="+number+" "+m.SpoolID))
		}
		for name := range f.Errors {
			row.Open = row.Open || strings.HasPrefix(name, runRow(i))
		}
		for name := range f.hits {
			row.Open = row.Open || strings.HasPrefix(name, runRow(i))
		}
		shown = append(shown, row)
	}
	return shown
}

// CanChange reports whether a person can change the plan.
func (p *planPage) CanChange() bool { return len(p.Plan.Runs) <= mostChanged }

// As returns the text of a plan as it was shown. It is empty if a person has changed the plan.
func (p *planPage) As() string {
	if p.isChanged {
		return ""
	}
	all, _ := planned(p.Form)
	return all
}

// planned returns the text of the runs in the form of a plan, to see whether they were changed, and their number.
func planned(f *form) (all string, n int) {
	var b strings.Builder
	for ; f.Values.Has(runRow(n) + "product_id"); n++ {
		fmt.Fprintf(&b, "%s*%s", f.Values.Get(runRow(n)+"quantity"), f.Values.Get(runRow(n)+"printer_id"))
		for _, name := range spoolRows(f, n) {
			b.WriteString("," + f.Values.Get(name+"spool_id"))
		}
		b.WriteByte(';')
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8]), n
}

func showPlan(v *visit) error { return v.planPage(200, v.newForm(), nil, nil) }

// planPage shows a plan of the order, or the one that the service proposes if it is nil. F is the form that creates the
// runs of the plan. If it was refused, the page shows its runs. Plate is the form for the pieces on a plate of the
// product {part}, if it was refused.
func (v *visit) planPage(status int, f *form, changed *plan, plate *form) error {
	p := &planPage{Form: f, Plate: plate, PlateOf: v.r.PathValue("part"), isChanged: changed != nil}
	err := v.fetch(get("/api/v1/orders/{id}", &p.Order),
		read{method: "POST", path: "/api/v1/orders/{id}/plan", into: &p.Plan})
	if e := server.AsError(err); err != nil && (e.Status != 409 || p.Order.ID == "") {
		return err
	} else if err != nil && f.Problem == "" {
		status, f.Problem = 409, v.message(e.Detail)
	}
	if changed != nil {
		if err := v.namePrinters(changed.Runs, p.Plan.Runs); err != nil {
			return err
		}
		p.Plan = *changed
	} else if plate == nil {
		if err := v.askPlate(p); err != nil {
			return err
		}
	}
	return v.show(status, "plan", v.t("Plan of %s", p.Order.Name(v)), p)
}

// fewRuns is the maximum number of runs for which the page does not ask how many pieces fit on a plate, and mostAsked
// the maximum number of products that it reads to find one without the number.
const fewRuns, mostAsked = 3, 3

// askPlate adds the form for the pieces on a plate of a product without this number, so that each of its runs prints
// one piece.
func (v *visit) askPlate(p *planPage) error {
	runs := map[string]int{} // by product
	var asked []string
	for _, r := range p.Plan.Runs {
		if runs[r.ProductID]++; runs[r.ProductID] == fewRuns+1 && r.Quantity == 1 {
			asked = append(asked, r.ProductID)
		}
	}
	for _, id := range asked[:min(len(asked), mostAsked)] {
		f, err := v.formOf("/api/v1/products/" + id)
		if err != nil && server.AsError(err).Status != http.StatusNotFound { // a removed product stays in orders
			return err
		}
		if err == nil && f.Values.Get("variant_of") != "" { // a variant has the number of its product
			id = f.Values.Get("variant_of")
			f, err = v.formOf("/api/v1/products/" + id)
		}
		if err == nil && f.Values.Get("pieces_per_plate") == "" {
			p.Plate, p.PlateOf = f, id
			return nil
		}
	}
	return nil
}

// PlateInput returns the input of the form for the pieces on a plate.
func (p *planPage) PlateInput(v view) input {
	in := newInput(p.Plate, "pieces_per_plate", "Pieces on a plate", "type=number", "required")
	name := p.Plate.Values.Get("name")
	for _, r := range p.Plan.Runs {
		if r.ProductID == p.PlateOf {
			name = r.Product
		}
	}
	if name != "" { // that of a variant's product is not known once it was refused
		in.Label = v.t("How many pieces of %s fit on a plate?", name)
	}
	return in
}

// setPlate sets the pieces on a plate of the product {part} of a plan.
func setPlate(v *visit) error {
	f, perPlate := v.sent(), field{"pieces_per_plate", number}
	ok, err := v.edit(f, "/api/v1/products/{part}", []field{perPlate})
	if ok {
		v.tell(withBack("The plate is changed.", perPlate)(v, f, nil))
	}
	return v.then(ok, err, "/orders/"+v.r.PathValue("id")+"/plan", func() error {
		return v.planPage(422, v.newForm(), nil, f)
	})
}

// namePrinters sets the missing names of the printers of runs, in one read at most. A printer that is neither in the
// other runs nor among the first 100 of the farm has no name.
func (v *visit) namePrinters(runs, others []plannedRun) error {
	names, read := map[string]string{}, false
	for _, r := range others {
		names[r.PrinterID] = r.Printer
	}
	for i := range runs {
		r := &runs[i]
		if r.Printer != "" || r.PrinterID == "" {
			continue
		}
		if names[r.PrinterID] == "" && !read {
			var printers found[printer]
			if err := v.fetch(get("/api/v1/printers?sort_by=name&sort_order=asc&limit=100", &printers)); err != nil {
				return err
			}
			for _, p := range printers.Items {
				names[p.ID] = p.Name
			}
			read = true
		}
		r.Printer = cmp.Or(names[r.PrinterID], v.t("As chosen before"))
	}
	return nil
}

// createPlan creates the runs of a plan that a person has changed. If they are as they were shown, it makes a new plan
// of the order, and creates its runs. The buttons beside a run move it before the previous run of its printer.
func createPlan(v *visit) error {
	f := v.sent()
	text, n := planned(f)
	if n > mostChanged {
		return server.Invalid("runs", "must have at most %d entries", mostChanged)
	}
	body, moved := map[string]any{"create": true}, f.Values.Get("earlier")
	var order []int
	for i := range n {
		order = append(order, i)
	}
	if at, err := strconv.Atoi(moved); err == nil && at < n {
		printer := func(i int) string { return f.Values.Get(runRow(i) + "printer_id") }
		for i := at - 1; i >= 0; i-- {
			if printer(i) == printer(at) {
				order[i], order[at] = at, i
				break
			}
		}
		body["create"] = false
		f.Key = v.newForm().Key
	}
	if n > 0 && (text != f.Was.Get("runs") || body["create"] == false) {
		runs, err := v.changedRuns(f, order)
		if err != nil {
			return err
		}
		body["runs"] = runs
	}
	var made plan
	ok, err := false, error(nil)
	switch {
	case len(f.Errors) > 0:
	case body["runs"] != nil && len(f.rows["runs"]) == 0:
		f.Problem = v.t("Every run is left out.")
	default:
		ok, err = v.send(f, "POST", "/api/v1/orders/{id}/plan", body, &made)
	}
	if ok && body["create"] == false {
		return v.planPage(200, v.newForm(), &made, nil)
	}
	v.tell(&notice{Text: v.t("The runs are planned."), Next: []option{{"/queue", v.t("Queue")}}})
	return v.then(ok, err, v.here("/orders"), func() error {
		if body["runs"] == nil && !f.picking {
			again := v.newForm()
			again.Problem = f.Problem
			return v.planPage(409, again, nil, nil)
		}
		f.Key = v.newForm().Key
		return v.planPage(422, f, sentPlan(f, n), nil)
	})
}

// changedRuns returns the runs of a form in an order, for the API. Runs without pieces are left out.
func (v *visit) changedRuns(f *form, order []int) (runs []map[string]any, err error) {
	spools := &readSpools{ids: map[string]string{}}
	for _, i := range order {
		row := runRow(i)
		if quantity := strings.TrimSpace(f.Values.Get(row + "quantity")); quantity == "0" || quantity == "" {
			continue
		}
		run := map[string]any{}
		for name, kind := range map[string]kind{"order_item_id": 0, "product_id": 0, "printer_id": 0, "quantity": number} {
			if value := f.value(field{row + name, kind}); value != nil {
				run[name] = value
			}
		}
		var materials []map[string]any
		for j, name := range spoolRows(f, i) {
			id, err := v.spoolOf(f, name, spools)
			if err != nil {
				return nil, err
			}
			if id != "" {
				materials = append(materials, map[string]any{"spool_id": id})
				f.rows[row+"materials"] = append(f.rows[row+"materials"], j)
			}
		}
		if materials != nil {
			run["materials"] = materials
		}
		runs, f.rows["runs"] = append(runs, run), append(f.rows["runs"], i)
	}
	return runs, nil
}

// maxNumbers is the maximum number of spools that are read when a changed plan is sent, so that the page takes at most
// ten round trips.
const maxNumbers = 3

// readSpools has the ids of spools by number. Those that do not exist are "".
type readSpools struct {
	ids   map[string]string
	reads int
}

// spoolOf returns the id of the spool that a row of a form names by its number or the code of a label, or "". The form
// keeps the id, so that the spool is not read again when the form is sent again.
func (v *visit) spoolOf(f *form, row string, spools *readSpools) (string, error) {
	text := strings.TrimSpace(f.Values.Get(row + "spool_id"))
	if text == "" {
		return "", nil
	}
	number := pickers["spools"].code(text)
	if shown, id, _ := strings.Cut(f.Values.Get(row+"of"), " "); number == shown {
		spools.ids[number] = id
	}
	id, known := spools.ids[number]
	switch {
	case known || number == "":
	case spools.reads == maxNumbers:
		f.Errors[row+"spool_id"] = v.t("Search for it alone.")
		return "", nil
	default:
		spools.reads++
		var list found[struct{ ID string }]
		err := v.fetch(read{path: "/api/v1/spools", query: url.Values{"number": {number}}, into: &list})
		if err != nil {
			return "", err
		}
		if len(list.Items) > 0 {
			id = list.Items[0].ID
		}
		spools.ids[number] = id
	}
	if id == "" {
		f.Errors[row+"spool_id"] = v.t("Nothing matches %q.", text)
		return "", nil
	}
	f.Values.Set(row+"spool_id", number)
	f.Values.Set(row+"of", number+" "+id)
	return id, nil
}

// sentPlan returns the plan with the n runs in a form that was refused, without their times.
func sentPlan(f *form, n int) *plan {
	p := &plan{}
	for i := range n {
		value := func(name string) string { return f.Values.Get(runRow(i) + name) }
		quantity, _ := strconv.Atoi(value("quantity"))
		r := plannedRun{PrinterID: value("printer_id"), ItemID: value("order_item_id"), ProductID: value("product_id"),
			Product: value("product_name"), Picture: value("picture_version"), Quantity: quantity}
		for _, name := range spoolRows(f, i) {
			number, _ := strconv.ParseInt(f.Values.Get(name+"spool_id"), 10, 64)
			_, id, _ := strings.Cut(f.Values.Get(name+"of"), " ")
			r.Materials = append(r.Materials, plannedMaterial{Number: number, SpoolID: id})
		}
		p.Runs = append(p.Runs, r)
	}
	return p
}

// printItem plans an item of an order, and creates the runs. If some pieces cannot be planned, it leads to the plan of
// the order, which has the reasons.
func printItem(v *visit) error {
	f := v.sent()
	var plan plan
	ok, err := v.send(f, "POST", "/api/v1/orders/{id}/plan",
		map[string]any{"create": true, "item_ids": []string{v.r.PathValue("part")}}, &plan)
	n := &notice{Text: v.t("%d run is planned.|%d runs are planned.", len(plan.Runs)),
		Next: []option{{"/queue", v.t("Queue")}}}
	to := v.here("/orders")
	if len(plan.Unplanned) > 0 {
		to = "/orders/" + v.r.PathValue("id") + "/plan"
	}
	v.tell(n)
	return v.then(ok, err, to, func() error { return v.planPage(409, v.newForm(), nil, nil) })
}
