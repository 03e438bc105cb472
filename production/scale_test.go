package production_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// scale is a farm whose spools are weighed.
type scale struct {
	*testkit.Client
	t *testing.T
}

func newScale(t *testing.T) scale { return scale{newFarm(t).Operator(t), t} }

// printing returns the path of a run that prints with the spool, on a printer that reports its use.
func (s scale) printing(spool string) (path string) {
	s.t.Helper()
	printer := s.Post(s.t, printersURL, j{"name": "MK4"}).Want(201).ID()
	s.Do(s.t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
	return runs + "/" + s.Post(s.t, runs, j{"printer_id": printer, "started_at": ago(120), "status": "in_progress",
		"materials": []j{{"spool_id": spool}}}).Want(201).ID()
}

// ago returns the time that many minutes ago.
func ago(minutes int) string {
	return time.Now().UTC().Add(-time.Duration(minutes) * time.Minute).Truncate(time.Second).Format(time.RFC3339)
}

// spool returns the id of a new spool of 1,000 g.
func (s scale) spool(fields j) string {
	all := j{"spool_weight_grams": 200}
	for name, value := range fields {
		all[name] = value
	}
	return createSpool(s.t, s.Client, all)
}

// ran returns the path of a run of the spool that began at a time, or did not, and ended with the request.
func (s scale) ran(spool string, started any, operation string, grams int, end j) string {
	s.t.Helper()
	body := j{"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}
	if started != nil {
		body["started_at"], body["status"] = started, "in_progress"
	}
	path := runs + "/" + s.Post(s.t, runs, body).Want(201).ID()
	s.ends(path, spool, operation, grams, end)
	return path
}

// ends ends a run with the grams.
func (s scale) ends(path, spool, operation string, grams int, end j) *testkit.Response {
	s.t.Helper()
	field, body := "wasted_grams", j{"reason": "clog"}
	if operation == "complete" {
		field, body = "actual_weight_grams", j{}
	}
	for name, value := range end {
		body[name] = value
	}
	body["materials"] = []j{{"spool_id": spool, field: grams}}
	return s.Post(s.t, path+"/"+operation, body).Want(200)
}

func (s scale) correct(path, spool string, fields j) *testkit.Response {
	s.t.Helper()
	fields["spool_id"] = spool
	return s.Post(s.t, path+"/correct", j{"materials": []j{fields}}).Want(200)
}

// left returns the grams on a spool.
func (s scale) left(spool string) int {
	s.t.Helper()
	n, err := strconv.Atoi(remaining(s.t, s.Client, spool))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s scale) weigh(spool string, grams int) {
	s.t.Helper()
	s.Post(s.t, "/api/v1/spools/"+spool+"/measure", j{"gross_grams": 200 + grams}).Want(200)
}

// has checks what remains on a spool, and the chain and the sum of its ledger.
func (s scale) has(spool, grams string) {
	s.t.Helper()
	testkit.Equal(s.t, remaining(s.t, s.Client, spool), grams, "grams of the spool")
	balanced(s.t, s.Client, spool)
	a := s.Get(s.t, "/api/v1/spools/"+spool+"/usage?limit=100&sort_order=asc").Want(200)
	before := "0"
	for i := range a.List("items") {
		entry := fmt.Sprintf("items.%d.", i)
		testkit.Equal(s.t, a.Text(entry+"before_grams"), before, "grams before entry %d", i)
		before = a.Text(entry + "after_grams")
		if strings.HasPrefix(before, "-") {
			s.t.Errorf("entry %d ends with %s g", i, before)
		}
	}
	testkit.Equal(s.t, before, grams, "grams after the last entry")
}

// counts checks what the report of usage counts, as use and as differences of weighings.
func (s scale) counts(grams, corrected string) {
	s.t.Helper()
	s.Get(s.t, "/api/v1/reports/usage?group_by=material").Want(200).
		Shows(map[string]string{"grams": grams, "corrected_grams": corrected})
}

// A typo is corrected after the spool was weighed: the spool keeps its weight, and the weighing has found less or more.
func TestCorrectBeforeWeighing(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"complete", "fail", "cancel"} {
		s := newScale(t)
		spool := s.spool(nil)
		run := s.ran(spool, nil, operation, 950, nil)
		s.weigh(spool, 905)
		s.counts("950", "-855")
		a := s.correct(run, spool, j{"actual_weight_grams": 95}).Shows(map[string]string{
			"actual_total_filament_grams": "95", "warnings.0.code": "WEIGHED_SINCE", "warnings.0.spool_id": spool,
			"warnings.0.detail": "PLA Black (Polymaker) (spool 1) was weighed after the run ended, and keeps 905 g"})
		a.WantLen(t, "warnings", 1)
		s.has(spool, "905")
		s.counts("95", "0")
		s.correct(run, spool, j{"actual_weight_grams": 300})
		s.has(spool, "905")
		s.counts("300", "-205")
		s.correct(run, spool, j{"actual_weight_grams": 95})
		s.Post(t, run+"/correct", j{}).Want(200).Shows(map[string]string{"warnings": "[]"})
		s.has(spool, "905")
		s.counts("95", "0")
		// What is used after the weighing changes the spool.
		later := s.ran(spool, nil, operation, 50, nil)
		s.has(spool, "855")
		s.correct(later, spool, j{"actual_weight_grams": 5}).Shows(map[string]string{"warnings": "[]"})
		s.has(spool, "900")
		s.counts("100", "0")
	}
}

// What a spool did not have at the time is a shortfall, whatever the scale has found since.
func TestCorrectShortfallBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(j{"remaining_weight_grams": 500})
	run := s.ran(spool, nil, "complete", 950, nil)
	s.weigh(spool, 405)
	s.counts("950", "-405")
	s.correct(run, spool, j{"actual_weight_grams": 95})
	s.has(spool, "405")
	s.counts("95", "0")
	s.correct(run, spool, j{"actual_weight_grams": 600})
	s.has(spool, "405")
	s.counts("600", "-405")
	s.Get(s.t, "/api/v1/spools/"+spool+"/usage?limit=1").Shows(map[string]string{"items.0.shortfall_grams": "100"})
	s.weigh(spool, 0)
	s.correct(run, spool, j{"actual_weight_grams": 95})
	s.has(spool, "0")
	s.counts("95", "405")
}

// The use is of another spool, and both were weighed.
func TestCorrectSpoolBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	a, b := s.spool(nil), s.spool(nil)
	run := s.ran(a, nil, "complete", 95, nil)
	s.weigh(a, 1000)
	s.weigh(b, 905)
	s.counts("95", "0")
	s.correct(run, a, j{"to_spool_id": b}).WantLen(t, "warnings", 2)
	s.has(a, "1000")
	s.has(b, "905")
	s.counts("95", "0")
}

// A run that is opened again after its spool was weighed has used what its end had taken before the weighing.
func TestReopenBeforeWeighing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		operation    string
		first, again int
		left         string
	}{{"complete", 95, 95, "905"}, {"complete", 950, 95, "905"}, {"fail", 95, 150, "850"}, {"cancel", 95, 40, "905"}} {
		s := newScale(t)
		spool := s.spool(nil)
		run := s.ran(spool, ago(60), "complete", test.first, nil)
		s.weigh(spool, 905)
		s.Post(t, run+"/reopen", nil).Want(200).Shows(map[string]string{"materials.0.outside_grams": "null",
			"warnings.0.code": "WEIGHED_SINCE", "warnings.0.spool_id": spool})
		s.has(spool, "905")
		a := s.ends(run, spool, test.operation, test.again, nil).Shows(map[string]string{
			"warnings.0.code": "WEIGHED_SINCE", "warnings.0.grams": fmt.Sprint(min(test.first, test.again)),
			"spools_updated.0.previous_weight": "905", "spools_updated.0.new_weight": test.left})
		a.WantLen(t, "warnings", 1)
		s.has(spool, test.left)
		// A second time, now that the end is after the weighing; and a correction of the end.
		s.Post(t, run+"/reopen", nil).Want(200)
		s.has(spool, "905")
		s.ends(run, spool, "complete", test.again, nil)
		s.has(spool, test.left)
		s.correct(run, spool, j{"actual_weight_grams": 10})
		s.has(spool, "905")
		s.correct(run, spool, j{"actual_weight_grams": 30}).Shows(map[string]string{
			"warnings.0.code": "WEIGHED_DURING_RUN", "warnings.0.detail": "PLA Black (Polymaker) (spool 1) was weighed " +
				"during the run, and keeps its weight: 20 g of the difference count as used before that"})
		s.has(spool, "905")
		s.correct(run, spool, j{"actual_weight_grams": test.first + 20})
		s.has(spool, "885")
	}
}

// A run is corrected and reopened after the weighing: what its end had taken is used before the weighing.
func TestReopenCorrected(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	run := s.ran(spool, ago(60), "complete", 40, nil)
	s.weigh(spool, 905)
	s.correct(run, spool, j{"actual_weight_grams": 80})
	s.Post(t, run+"/reopen", nil).Want(200)
	s.ends(run, spool, "complete", 80, nil)
	s.has(spool, "905")
	s.weigh(spool, 900)
	s.Post(t, run+"/reopen", nil).Want(200)
	s.ends(run, spool, "fail", 90, nil)
	s.has(spool, "890")
}

// The end of a run moves to another side of a weighing.
func TestMoveEndAcrossWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	run := s.Post(t, runs, j{"started_at": ago(120), "status": "in_progress",
		"materials": []j{{"spool_id": spool}}}).Want(201)
	path := runs + "/" + run.ID()
	s.weigh(spool, 950)
	s.ends(path, spool, "complete", 95, nil).Shows(map[string]string{"warnings.0.code": "USE_OUTSIDE_RUN"})
	s.has(spool, "855")
	s.counts("95", "50")
	s.Post(t, path+"/correct", j{"completed_at": ago(60)}).Want(200).
		Shows(map[string]string{"warnings.0.code": "WEIGHED_SINCE"})
	s.has(spool, "950")
	s.counts("95", "-45")
	s.correct(path, spool, j{"actual_weight_grams": 50})
	s.has(spool, "950")
	s.counts("50", "0")
	s.Patch(t, path, j{"completed_at": ago(70)}).Want(200)
	s.has(spool, "950")
	s.Post(t, path+"/correct", j{"completed_at": nil, "materials": []j{{"spool_id": spool, "actual_weight_grams": 95}}}).
		Want(200).Shows(map[string]string{"warnings.0.code": "WEIGHED_DURING_RUN"})
	s.has(spool, "855")
	s.counts("95", "50")
}

// A run is recorded after the scale has found what it used.
func TestCompleteBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	s.weigh(spool, 905)
	path := runs + "/" + s.Post(t, runs, j{"started_at": ago(120), "status": "in_progress",
		"materials": []j{{"spool_id": spool}}}).Want(201).ID()
	s.ends(path, spool, "complete", 95, j{"completed_at": ago(60)}).Shows(map[string]string{
		"warnings.0.code": "WEIGHED_SINCE", "warnings.0.grams": "95", "spools_updated.0.previous_weight": "905",
		"spools_updated.0.new_weight": "905", "spools_updated.0.deducted": "0"}).WantLen(t, "warnings", 1)
	s.has(spool, "905")
	s.counts("95", "0")
	s.Post(t, path+"/reopen", nil).Want(200)
	s.has(spool, "905")
	s.counts("0", "95")
}

// If the spool was weighed during the run, a correction says what it assumes, and the request may say something else.
func TestCorrectWeighedDuringRun(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	path := runs + "/" + s.Post(t, runs, j{"started_at": ago(120), "status": "in_progress",
		"materials": []j{{"spool_id": spool}}}).Want(201).ID()
	s.weigh(spool, 950)
	s.ends(path, spool, "complete", 95, nil)
	s.has(spool, "855")
	if at := s.Get(t, path).Time("materials.0.weighed_at"); time.Since(at) > 10*time.Minute {
		t.Errorf("the spool was weighed at %s", at)
	}
	s.correct(path, spool, j{"actual_weight_grams": 145}).Shows(map[string]string{
		"warnings.0.code": "WEIGHED_DURING_RUN", "warnings.0.detail": "PLA Black (Polymaker) (spool 1) was weighed during " +
			"the run: the difference counts as used after the weighing"})
	s.has(spool, "805")
	s.correct(path, spool, j{"actual_weight_grams": 95})
	s.has(spool, "855")
	s.correct(path, spool, j{"actual_weight_grams": 145,
		"before_weighing": true}).Shows(map[string]string{"warnings": "[]"})
	s.has(spool, "855")
	s.counts("145", "0")

	// Without a weighing, there is nothing to say.
	other := s.spool(nil)
	run := s.ran(other, ago(60), "complete", 95, nil)
	s.correct(run, other, j{"actual_weight_grams": 100,
		"before_weighing": true}).Shows(map[string]string{"warnings": "[]"})
	s.weigh(other, 900)
	s.Get(t, run).Shows(map[string]string{"materials.0.weighed_at": "null"}) // only after the run
}

// Use outside of the run that the run counts stays where it is.
func TestCountedUseBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	path := runs + "/" + s.Post(t, runs, j{"started_at": ago(120), "status": "in_progress",
		"materials": []j{{"spool_id": spool}}}).Want(201).ID()
	s.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 95}).Want(200)
	s.Post(t, path+"/complete", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 95,
		"count_outside_use": true}}}).Want(200)
	s.has(spool, "905")
	s.weigh(spool, 900)
	for _, grams := range []int{50, 120, 95} {
		s.correct(path, spool, j{"actual_weight_grams": grams})
		s.has(spool, "900")
	}
	s.Post(t, path+"/reopen", nil).Want(200)
	s.has(spool, "900")
	s.counts("95", "5")
}

// A report that comes after the end of its run, and after a weighing, is use before the weighing.
func TestLateReportBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	path := s.printing(spool)
	report := func(grams int) {
		s.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": grams}).Want(200)
	}
	report(60)
	s.Post(t, path+"/complete", nil).Want(200)
	report(5)
	s.has(spool, "935")
	s.weigh(spool, 930)
	report(7)
	report(3)
	s.has(spool, "930")
	report(-2)
	s.has(spool, "930")
	s.Get(t, path).Want(200).Shows(map[string]string{"actual_total_filament_grams": "73"})
	s.counts("73", "-3")
}

// A run used less than printers had reported before the spool was weighed: the spool keeps what the scale said, less
// what was reported since. Whatever takes the end back, corrects it or repeats it, leaves the spool with what it would
// have if the run had ended with that figure.
func TestLessThanReportedBeforeWeighing(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"complete", "fail", "cancel"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			s := newScale(t)
			spool := s.spool(nil)
			path := s.printing(spool)
			report := func(grams int) {
				s.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": grams}).Want(200)
			}
			report(300)
			s.weigh(spool, 720)
			// All that comes back was reported before the weighing.
			s.ends(path, spool, operation, 200, nil).Shows(map[string]string{"warnings.0.code": "WEIGHED_DURING_RUN",
				"warnings.0.grams": "-100", "spools_updated.0.previous_weight": "720", "spools_updated.0.new_weight": "720",
				"spools_updated.0.deducted": "0"})
			s.has(spool, "720")
			s.counts("200", "80")
			s.Post(t, path+"/reopen", nil).Want(200)
			s.has(spool, "720")
			s.counts("300", "-20")
			report(10)
			s.has(spool, "710")
			// Of the grams that come back, 10 were used after the weighing.
			s.ends(path, spool, operation, 200, nil).Shows(map[string]string{"warnings.0.code": "WEIGHED_DURING_RUN",
				"warnings.0.grams": "-100", "spools_updated.0.new_weight": "720"})
			for _, test := range []struct {
				grams int
				left  string
			}{{50, "720"}, {250, "720"}, {305, "715"}, {150, "720"}, {320, "700"}, {310, "710"}, {200, "720"}} {
				s.correct(path, spool, j{"actual_weight_grams": test.grams})
				s.has(spool, test.left)
				s.counts(fmt.Sprint(test.grams), fmt.Sprint(280-test.grams+720-s.left(spool)))
			}
			s.correct(path, spool, j{"actual_weight_grams": 190, "before_weighing": true})
			s.has(spool, "720")
			s.Post(t, path+"/reopen", nil).Want(200)
			s.has(spool, "710")
			s.counts("310", "-20")
			s.ends(path, spool, "complete", 330, nil)
			s.has(spool, "690")
		})
	}
}

// Of two weighings during a run, what was used before the last one counts as used before it.
func TestWeighedTwiceDuringRun(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	path := s.printing(spool)
	for i, left := range []int{900, 850} {
		s.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 40 + i}).Want(200)
		s.weigh(spool, left)
	}
	s.ends(path, spool, "complete", 20, nil)
	s.has(spool, "850")
	// Without the last weighing, the first one says what the spool had.
	a := s.Get(t, "/api/v1/spools/"+spool+"/usage?limit=100").Want(200)
	for i, e := range a.List("items") {
		if kind := e.(map[string]any)["kind"]; kind == "measured" && a.Text(fmt.Sprintf("items.%d.weighing_id", i)) == "null" {
			s.Post(t, "/api/v1/spools/"+spool+"/usage/"+a.Text(fmt.Sprintf("items.%d.id", i))+"/reverse", nil).Want(200)
			break
		}
	}
	s.Post(t, path+"/reopen", nil).Want(200)
	s.has(spool, "859")
	s.ends(path, spool, "complete", 20, nil)
	s.has(spool, "900")
}

// A correction of what was used before a weighing during the run is taken back with the end of the run.
func TestReopenCorrectedBeforeWeighing(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	path := s.printing(spool)
	s.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 60}).Want(200)
	s.weigh(spool, 930)
	s.ends(path, spool, "complete", 65, nil)
	s.has(spool, "925")
	s.correct(path, spool, j{"actual_weight_grams": 45, "before_weighing": true})
	s.has(spool, "925")
	s.Post(t, path+"/reopen", nil).Want(200)
	s.has(spool, "930")
	s.ends(path, spool, "complete", 65, nil)
	s.has(spool, "925")
}

// A request that ends a run waits while somebody edits the weight of the spool: that was before the end of the run, and
// what changes about that end changes the spool.
func TestEndWaits(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"complete", "fail", "cancel"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			s := newScale(t)
			spool := s.spool(nil)
			id := s.Post(t, runs, j{"status": "in_progress", "started_at": ago(60),
				"materials": []j{{"spool_id": spool}}}).Want(201).ID()
			field, body := "wasted_grams", j{"reason": "clog"}
			if operation == "complete" {
				field, body = "actual_weight_grams", j{}
			}
			body["materials"] = []j{{"spool_id": spool, field: 100}}
			h := s.Hold(t, `select from production_runs where id = '`+id+`' for no key update`)
			var answer *testkit.Response
			var err error
			ended := h.Start(1, func() { answer, err = s.Send("POST", runs+"/"+id+"/"+operation, body) })
			s.Patch(t, "/api/v1/spools/"+spool, j{"remaining_weight_grams": 500}).Want(200)
			h.Commit()
			<-ended
			testkit.Check(t, err)
			testkit.Equal(t, answer.Status, 200, "%s", answer.Body)
			testkit.NewResponse(t, answer.Body).Shows(map[string]string{"warnings.#": "1",
				"warnings.0.code": "USE_OUTSIDE_RUN"}) // the edit took 500 g
			s.has(spool, "400")
			s.correct(runs+"/"+id, spool, j{"actual_weight_grams": 120})
			s.has(spool, "380")
			s.Post(t, runs+"/"+id+"/reopen", nil).Want(200)
			s.has(spool, "500")
		})
	}
}

// A run that would have taken more than twice its estimate ended with the last report of its printer. Without one, the
// answer says so.
func TestLongPrintTime(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	spool := s.spool(nil)
	for _, operation := range []string{"complete", "fail", "cancel"} {
		for _, test := range []struct {
			run, end j
			warns    bool
		}{
			{j{"estimated_print_time_hours": 4}, j{}, true},
			{j{"estimated_print_time_hours": 5.4}, j{}, true},
			{j{"estimated_print_time_hours": 5.6}, j{}, false},
			{j{}, j{}, false},
			{j{"estimated_print_time_hours": 0}, j{}, false},
			{j{"estimated_print_time_hours": 4}, j{"completed_at": ago(1)}, false},
			{j{"estimated_print_time_hours": 4}, j{"actual_print_time_hours": 4.25}, false},
			{j{"estimated_print_time_hours": 4, "completed_at": ago(1)}, j{}, false},
			{j{"estimated_print_time_hours": 4, "actual_print_time_hours": 4.25}, j{}, false},
		} {
			body := j{"started_at": ago(11 * 60), "status": "in_progress", "materials": []j{{"spool_id": spool}}}
			for name, value := range test.run {
				body[name] = value
			}
			path := runs + "/" + s.Post(t, runs, body).Want(201).ID()
			a := s.ends(path, spool, operation, 1, test.end)
			if !test.warns {
				a.Shows(map[string]string{"warnings": "[]"})
				continue
			}
			a.Shows(map[string]string{"warnings.0.code": "LONG_PRINT_TIME", "warnings.0.spool_id": "null",
				"warnings.0.grams": "null", "warnings.0.detail": fmt.Sprintf("The run has taken 11.0 h until now, more than "+
					"twice the estimate of %v h; correct completed_at if it ended earlier", test.run["estimated_print_time_hours"])})
			if hours := s.Get(t, path).Text("actual_print_time_hours"); !strings.HasPrefix(hours, "11.0") {
				t.Errorf("%s: %s h", operation, hours)
			}
		}
	}
	// The printer reported last four hours ago; the spool was weighed since then.
	printer := s.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	path := runs + "/" + s.Post(t, runs, j{"printer_id": printer, "started_at": ago(11 * 60), "status": "in_progress",
		"estimated_print_time_hours": 4, "materials": []j{{"spool_id": spool}}}).Want(201).ID()
	s.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 10}).Want(200)
	s.Hold(t, `update spool_usage set created_at = created_at - interval '7 hours',
		updated_at = updated_at - interval '7 hours'
		where run_id = '`+path[len(runs)+1:]+`'`).Commit()
	s.weigh(spool, 700)
	a := s.ends(path, spool, "complete", 15, nil).Shows(map[string]string{"warnings.0.code": "WEIGHED_SINCE"})
	a.WantLen(t, "warnings", 1)
	s.Get(t, path).Want(200).Shows(map[string]string{"completed_at": a.Text("completed_at")})
	hours := s.Get(t, path).Text("actual_print_time_hours")
	if !strings.HasPrefix(hours, "4.0") {
		t.Errorf("the run took %s h", hours)
	}
	testkit.Equal(t, remaining(t, s.Client, spool), "700", "grams")
	balanced(t, s.Client, spool)
}
