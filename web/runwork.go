package web

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"spoolwright/value/language"
)

// work is the action of a button in the rows of runs.
type work struct {
	name  string
	label language.Text
}

var (
	workStart   = &work{"start", "Start"}
	workConfirm = &work{"confirm", "Confirm"}
)

// The addresses of the runs that wait for the work, without a limit.
const (
	runsToStart   = "/api/v1/production-runs?needs=start&sort_order=asc"
	runsToConfirm = "/api/v1/production-runs?needs=confirmation&sort_by=started_at&sort_order=asc"
)

// button writes the form with the button for a run. Key is the idempotency key, and from the path of the page.
func (w *work) button(v *visit, list *rows, r run, key, from string) {
	list.add(`<form method="post" action="/runs/{}/{}"><input type="hidden" name="once" value="{}">`+
		`<input type="hidden" name="from" value="{}">`, r.ID, w.name, key, from)
	list.add(`<button class="button primary">{}<span class="hide"> {}`, v.t(w.label), r.Title(v))
	if r.PrinterName != "" {
		list.add(` {}`, v.t("on %s|a printer", r.PrinterName))
	}
	list.add(`</span></button></form>`)
}

// from returns the path of the page whose button was clicked, or the path if the page is not one of those with
// buttons.
func (v *visit) from(path string) string {
	if from := v.r.PostForm.Get("from"); slices.Contains([]string{"/", "/runs"}, from) {
		return from
	}
	return path
}

// startRun starts the run of the page, and returns to the page with the button. The undo makes the run what it was.
func startRun(v *visit) error {
	f := v.sent()
	var was run
	if err := v.fetch(get("/api/v1/production-runs/{id}", &was)); err != nil {
		return err
	}
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/start", nil, nil)
	back := url.Values{"status": {was.Status}}
	if was.StartedAt != nil {
		back.Set("started_at", was.StartedAt.Format(time.RFC3339Nano))
	}
	if was.Status == "pending" || was.Status == "paused" {
		v.tell(withUndo("The run is printing.", "Undo", "/stop", back)(v, f, nil))
	}
	return v.then(ok, err, v.from(v.here("/runs")), func() error { return v.runPage(422, "start", f) })
}

// stopRun pauses the run of the page, or takes its start back. It changes nothing if the run does not print.
func stopRun(v *visit) error {
	f := v.sent()
	var was run
	if err := v.fetch(read{path: "/api/v1/production-runs/{id}", into: &was, tag: &f.Tag}); err != nil {
		return err
	}
	body, text := map[string]any{"status": "paused"}, v.t("The run is paused.")
	if f.Values.Get("status") == "pending" {
		body, text = map[string]any{"status": "pending", "started_at": nil}, v.t("The run is planned as before.")
		if at := f.Values.Get("started_at"); at != "" {
			body["started_at"] = at
		}
	}
	if was.Status != "in_progress" {
		v.tell(&notice{Text: v.t("The run is not printing: nothing has changed.")})
		return v.redirect(v.here("/runs"))
	}
	ok, err := v.send(f, "PATCH", "/api/v1/production-runs/{id}", body, nil)
	v.tell(&notice{Text: text})
	return v.then(ok, err, v.here("/runs"), func() error { return v.runPage(422, "start", f) })
}

// confirmRun completes a run with what printers have reported or, if they reported nothing, with the estimates. If a
// value is unknown, it redirects to the form that completes the run.
func confirmRun(v *visit) error {
	f := v.sent()
	var r runDetails
	if err := v.fetch(get("/api/v1/production-runs/{id}", &r)); err != nil {
		return err
	}
	if r.Deducted { // the button was clicked twice, or somebody else was faster
		return v.redirect(v.from(v.here("/runs")))
	}
	body, known := r.expected()
	if r.Failure != "" && r.IsOpen() { // the printer says so
		v.tell(&notice{Text: v.t("The printer says that the run has failed: confirm it here.")})
		return v.redirect("/runs/" + r.ID + "?open=fail")
	}
	if !known || !r.IsOpen() {
		v.tell(&notice{Text: v.t("Enter the missing values, and confirm the run here.")})
		return v.redirect("/runs/" + r.ID + "?open=complete")
	}
	var done struct {
		Spools []struct {
			Deducted num
			Reported num `json:"reported_grams"`
		} `json:"spools_updated"`
		Warnings []struct {
			Code  string
			Grams num
		}
	}
	var answer json.RawMessage
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/complete", body, &answer)
	json.Unmarshal(answer, &done) // an answer of the API is valid
	grams := 0.0
	for _, s := range done.Spools {
		grams += float(s.Deducted) + float(s.Reported)
	}
	for _, w := range done.Warnings {
		if w.Code == "WEIGHED_SINCE" || w.Code == "WEIGHED_DURING_RUN" { // the spool keeps its weight
			grams += float(w.Grams)
		}
	}
	v.tell(v.undoable(v.t("Confirmed: %s used.", v.Grams(num(trimFloat(grams)))), "Reopen", "/reopen", nil))
	return v.then(ok, err, v.from(v.here("/runs")), func() error { return v.runPage(422, "complete", f) })
}

// expected returns the body that completes the run without input from a person, and whether all necessary values are
// known. Recorded and reported weights stay; all pieces are good unless they were counted.
func (r *runDetails) expected() (body map[string]any, known bool) {
	body = map[string]any{}
	var materials, items []map[string]any
	for _, m := range r.Materials {
		if cmp.Or(m.Actual, m.Reported, m.Estimate) == "" || m.Outside != "" {
			return nil, false
		}
		if m.Actual == "" && m.Reported == "" {
			materials = append(materials, map[string]any{"id": m.ID, "actual_weight_grams": m.Estimate})
		}
	}
	for _, i := range r.Items {
		if i.Successful == "" && i.Failed == "" {
			items = append(items, map[string]any{"id": i.ID, "successful_quantity": i.Quantity})
		}
	}
	if materials != nil {
		body["materials"] = materials
	}
	if items != nil {
		body["items"] = items
	}
	return body, len(r.Materials) > 0
}
