package web_test

import (
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// The pages say what stays because a spool was weighed, and ask what they cannot know.
func TestWeighedPages(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, j{"spool_weight_grams": 200})
	at, api := "/spools/"+spool, "/api/v1/spools/"+spool
	has := func(grams string) {
		t.Helper()
		c.Get(t, api).Shows(map[string]string{"remaining_weight_grams": grams})
	}
	for range 2 {
		c.Post(t, api+"/deduct", j{"weight_grams": 100}).Want(200)
	}
	entry := c.Get(t, api+"/usage?limit=1").Text("items.0.id")

	// Less than the empty spool is asked about.
	page := b.get(t, at).submit(t, at+"/weigh", "gross_grams", "150").want(t, 422).shows(t, "confirm it if it is right",
		"The scale shows this weight")
	has("800")
	page.submit(t, at+"/weigh", "gross_grams", "1100", "confirmed", "").to(t, at).says(t, "Weighed spool 1: 900 g.")
	b.do(t, "POST", at+"/usage/reverse", map[string][]string{"entry": {entry}}).to(t, at).
		says(t, "Taken back: +100 g, 900 g left. PLA Black (spool 1) was weighed after that, and keeps 900 g.").
		shows(t, "Balances an earlier change, so that the weight stays")
	has("900")

	// A run is corrected after the spool was weighed, and reopened.
	now := time.Now().UTC()
	ago := func(minutes int) string {
		return now.Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339)
	}
	run, path := newRun(t, c, j{"materials": []j{{"spool_id": spool}}})
	c.Post(t, path+"/complete", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 500}}}).Want(200)
	c.Post(t, api+"/measure", j{"gross_grams": 1050}).Want(200)
	const kept = "PLA Black (spool 1) was weighed after the run ended, and keeps 850 g."
	b.get(t, run).hides(t, "before the spool was weighed").
		submit(t, run+"/correct", "materials[0].actual_weight_grams", "50").to(t, run).
		says(t, "The run is corrected. "+kept)
	has("850")

	// A run of 5 pieces is corrected that was typed in as one of 50, after the pieces were counted.
	product := c.NewProduct(t, "Hook", 5)
	run, path = newRun(t, c, j{"items": []j{{"product_id": product, "quantity": 50}}, "materials": []j{{"spool_id": spool,
		"actual_weight_grams": 0}}})
	c.Post(t, path+"/complete", nil).Want(200)
	c.Post(t, "/api/v1/products/"+product+"/count", j{"counted": 5}).Want(200)
	b.get(t, run).submit(t, run+"/correct", "items[0].successful_quantity", "5", "items[0].failed_quantity", "45").
		to(t, run).shows(t, "The run is corrected. Product Hook was counted on",
		"its pieces in stock stay as they are, and the difference found by the count changes by 45.")
	b.get(t, run).submit(t, run+"/reopen").to(t, run).shows(t, "The run is open again. Product Hook was counted on")

	// Another spool is weighed during a run: the page of the correction asks.
	other := c.NewSpool(t, 1000, j{"spool_weight_grams": 200, "color": "Red"})
	run, _ = newRun(t, c, j{"started_at": ago(60), "status": "in_progress", "materials": []j{{"spool_id": other}}})
	c.Post(t, "/api/v1/spools/"+other+"/measure", j{"gross_grams": 1150}).Want(200)
	remains := func(grams string) {
		t.Helper()
		c.Get(t, "/api/v1/spools/"+other).Shows(map[string]string{"remaining_weight_grams": grams})
	}
	b.get(t, run).submit(t, run+"/complete", "materials[0].actual_weight_grams", "95", "completed_at", "",
		"actual_print_time_hours", "1").to(t, run).shows(t, "The run is confirmed.",
		"PLA Red (spool 2) lost 50 g outside of runs since this run started; they are not counted.")
	remains("855")
	page = b.get(t, run).shows(t, "The difference was used before the spool was weighed, at")
	page.submit(t, run+"/correct", "materials[0].actual_weight_grams", "100").to(t, run).says(t, "The run is corrected. "+
		"PLA Red (spool 2) was weighed during the run: the difference counts as used after the weighing.")
	remains("850")
	corrected := b.get(t, run).submit(t, run+"/correct", "materials[0].actual_weight_grams", "145",
		"materials[0].before_weighing", "true").to(t, run).says(t, "The run is corrected.")
	remains("850")
	corrected.take(t).to(t, run)
	remains("850")

	// Use is moved between spools that were weighed since.
	c.Post(t, api+"/deduct", j{"weight_grams": 10}).Want(200)
	entry = c.Get(t, api+"/usage?limit=1").Text("items.0.id")
	for _, id := range []string{spool, other} {
		c.Patch(t, "/api/v1/spools/"+id, j{"remaining_weight_grams": 600}).Want(200)
	}
	b.get(t, at+"?move="+entry).submit(t, at+"/usage/"+entry+"/move", "spool_number", "2").to(t, at).
		shows(t, "Moved to spool 2: −10 g. PLA Black (spool 1) was weighed after that, and keeps 600 g. "+
			"PLA Red (spool 2) was weighed after that, and keeps 600 g.")
	has("600")
}

// A full and new spool tells the weight of the empty one.
func TestWeighFullSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	at, api := "/spools/"+spool, "/api/v1/spools/"+spool
	page := b.get(t, at).shows(t, "The weight of the empty spool is not known.").hides(t, "The spool is full and new").
		submit(t, at+"/weigh", "gross_grams", "1190").want(t, 422).
		shows(t, "it is 190 g if the spool is full and new, confirm it if it is.", "The spool is full and new")
	page.submit(t, at+"/weigh").want(t, 422)
	page.submit(t, at+"/weigh", "full", "true").to(t, at).says(t, "Weighed spool 1: 1 kg.").
		shows(t, "The empty spool weighs 190 g.")
	c.Get(t, api).Shows(map[string]string{"spool_weight_grams": "190", "remaining_weight_grams": "1000"})
}
