package web

import (
	"html/template"
	"time"

	"spoolwright/server"
	"spoolwright/value/language"
)

// plan is a plan of the runs that print the remaining pieces of an order.
type plan struct {
	Finished *time.Time `json:"finished_at"`
	Runs     []struct {
		Printer   string `json:"printer_name"`
		PrinterID string `json:"printer_id"`
		ProductID string `json:"product_id"`
		Product   string `json:"product_name"`
		Picture   string `json:"picture_version"`
		Quantity  int
		Grams     num        `json:"estimated_total_filament_grams"`
		Start     *time.Time `json:"expected_start_at"`
		End       *time.Time `json:"expected_end_at"`
		Materials []struct {
			material
			SpoolID string `json:"spool_id"`
			Number  int64  `json:"spool_number"`
			Grams   num
		}
	}
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

// plannedPieces are pieces of a plan that need no run.
type plannedPieces struct {
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Quantity  int
}

// planPage is the page of an order's plan.
type planPage struct {
	Order order
	Plan  plan
	Form  *form
}

// shownPlates is the maximum number of runs that the page of a plan lists.
const shownPlates = 100

// Reason returns the sentence that says why pieces are not planned.
func (p *planPage) Reason(v view, code string) string {
	return v.t(map[string]language.Text{
		"NO_PRINTER":  "No available printer can print their materials with a slot for each.",
		"NO_FILAMENT": "Too little filament is left that is not reserved."}[code])
}

// Thumb returns the picture of a product, or "".
func (p *planPage) Thumb(product, version string) template.HTML { return thumb(product, version) }

// Shown returns the runs that the page lists.
func (p *planPage) Shown() any { return p.Plan.Runs[:min(shownPlates, len(p.Plan.Runs))] }

func showPlan(v *visit) error { return v.planPage(200, v.newForm()) }

// planPage shows the plan of an order. F is the form that creates the runs of the plan.
func (v *visit) planPage(status int, f *form) error {
	p := &planPage{Form: f}
	err := v.fetch(get("/api/v1/orders/{id}", &p.Order),
		read{method: "POST", path: "/api/v1/orders/{id}/plan", into: &p.Plan})
	if e := server.AsError(err); err != nil && (e.Status != 409 || p.Order.ID == "") {
		return err
	} else if err != nil && f.Problem == "" {
		status, f.Problem = 409, v.message(e.Detail)
	}
	return v.show(status, "plan", v.t("Plan of %s", p.Order.name(v)), p)
}

// createPlan makes a new plan of the order, and creates its runs.
func createPlan(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/orders/{id}/plan", map[string]any{"create": true}, nil)
	v.tell(&notice{Text: v.t("The runs are planned."), Next: []option{{"/queue", v.t("Queue")}}})
	return v.then(ok, err, v.here("/orders"), func() error {
		f.Key = v.newForm().Key
		return v.planPage(409, f)
	})
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
	return v.then(ok, err, to, func() error { return v.planPage(409, f) })
}
