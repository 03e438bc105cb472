package inventory_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// weighed returns the path of a new spool of 1,000 g, and a function that says what the spool has: by the scale, or
// by an edit of its remaining weight.
func weighed(t *testing.T, c *testkit.Client, color string, edits bool) (path string, weigh func(grams int) string) {
	path = spools + "/" + c.Post(t, spools, spool(j{"color": color, "spool_weight_grams": 200,
		"purchase_price": 20})).Want(201).ID()
	return path, func(grams int) string {
		if edits {
			c.Patch(t, path, j{"remaining_weight_grams": grams}).Want(200)
		} else {
			c.Post(t, path+"/measure", j{"gross_grams": 200 + grams}).Want(200)
		}
		return newest(t, c, path)
	}
}

// What is taken back before a weighing changes the difference that the weighing has found, and not the spool.
func TestReverseBeforeWeighing(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	for _, edits := range []bool{false, true} {
		c := api.Tenant(t).User(t, "operator")
		path, weigh := weighed(t, c, "Black", edits)
		has := func(grams string) {
			t.Helper()
			c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": grams})
			ledger(t, c, path)
		}
		c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
		c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
		twice := newest(t, c, path)
		first := weigh(900)
		c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "200", "corrected_grams": "-100"})
		second := weigh(890)
		a := c.Post(t, twice+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "100",
			"remaining_weight_grams": "890", "warnings.0.code": "WEIGHED_SINCE", "warnings.0.grams": "100",
			"warnings.0.detail": "PLA Black (spool 1) was weighed after that, and keeps 890 g"})
		has("890")
		kind := "measured"
		if edits {
			kind = "edited"
		}
		c.Get(t, path+"/usage?limit=1").Want(200).Shows(map[string]string{"items.0.kind": kind,
			"items.0.change_grams": "-100",
			"items.0.weighing_id":  first[strings.LastIndex(first, "/")+1:], "items.0.balances_id": a.ID()})
		c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "100", "corrected_grams": "10"})

		// The balance is no change of its own.
		balance := newest(t, c, path)
		detail := c.Post(t, balance+"/reverse", nil).WantError(409, "USAGE_NOT_REVERSIBLE").Text("detail")
		if !strings.Contains(detail, "balances another one at a weighing") {
			t.Error(detail)
		}

		// Without the weighings, the spool has what the other entries say.
		c.Post(t, second+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "900",
			"warnings": "[]"})
		c.Post(t, path+"/deduct", j{"weight_grams": 30}).Want(200)
		c.Post(t, first+"/reverse", nil).Want(200).Shows(map[string]string{"change_grams": "-100",
			"remaining_weight_grams": "870", "warnings": "[]"})
		has("870")
		c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "130", "corrected_grams": "0"})

		// What came after the last weighing changes the spool.
		weigh(500)
		c.Post(t, path+"/deduct", j{"weight_grams": 40}).Want(200)
		c.Post(t, newest(t, c, path)+"/reverse", nil).Want(200).
			Shows(map[string]string{"remaining_weight_grams": "500", "warnings": "[]"})
		has("500")

		// A weighing before another one is taken back.
		last := weigh(510)
		weigh(480)
		c.Post(t, last+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "480"})
		has("480")
	}
}

// Use that is moved before both spools are weighed changes neither of them.
func TestMoveBeforeWeighing(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	c := api.Tenant(t).User(t, "operator")
	from, weigh := weighed(t, c, "Black", false)
	to, weighTo := weighed(t, c, "Red", true)
	shows := func(a, b string) {
		t.Helper()
		for path, grams := range map[string]string{from: a, to: b} {
			c.Get(t, path).Want(200).Shows(map[string]string{"remaining_weight_grams": grams})
			ledger(t, c, path)
		}
	}
	c.Post(t, from+"/deduct", j{"weight_grams": 100}).Want(200)
	use := newest(t, c, from)
	weigh(1000)
	weighTo(900)
	moved := c.Post(t, use+"/move", j{"spool_number": 2}).Want(200).Shows(map[string]string{
		"reversed.warnings.0.code": "WEIGHED_SINCE", "recorded.warnings.0.code": "WEIGHED_SINCE",
		"reversed.remaining_weight_grams": "1000", "recorded.remaining_weight_grams": "900",
		"recorded.warnings.0.grams": "-100", "recorded.shortfall_grams": "null"})
	shows("1000", "900")
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "100", "corrected_grams": "0"})
	// To take the move back takes back what it has balanced.
	c.Post(t, to+"/usage/"+moved.Text("recorded.id")+"/reverse", nil).Want(200)
	shows("1000", "900")
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "0", "corrected_grams": "100"})
	// More than the spool had then is a shortfall, although the spool has it now.
	c.Post(t, from+"/deduct", j{"weight_grams": 950}).Want(200)
	use = newest(t, c, from)
	c.Post(t, to+"/deduct", j{"weight_grams": 800}).Want(200)
	weighTo(990)
	c.Post(t, use+"/move", j{"spool_number": 2}).Want(200).Shows(map[string]string{
		"recorded.change_grams": "-100", "recorded.shortfall_grams": "850"})
	shows("1000", "990")
}

// A refill begins new contents: what is taken back before it was left of the old ones, and is lost.
func TestReverseBeforeRefill(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(j{"purchase_price": 20})).Want(201).ID()
	c.Post(t, path+"/deduct", j{"weight_grams": 900}).Want(200)
	use := newest(t, c, path)
	c.Post(t, path+"/refill", j{"net_weight_grams": 500}).Want(200)
	c.Post(t, use+"/reverse", nil).Want(200).Shows(map[string]string{"remaining_weight_grams": "500",
		"warnings.0.code": "WEIGHED_SINCE"})
	ledger(t, c, path)
	c.Get(t, path+"/usage?limit=1").Shows(map[string]string{"items.0.kind": "discarded", "items.0.change_grams": "-900"})
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"grams": "0", "lost_grams": "1000"})
}

// The weight of the empty spool follows from a full and new one, if a person confirms that it is full.
func TestWeighFull(t *testing.T) {
	t.Parallel()
	c := operator(t)
	path := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	detail := c.Post(t, path+"/measure", j{"gross_grams": 1190.5}).Fields("spool_weight_grams").Text("detail")
	if !strings.Contains(detail, "it is 190.5 g if the spool is full and new") {
		t.Error(detail)
	}
	for _, gross := range []int{999, 1000} {
		c.Post(t, path+"/measure", j{"gross_grams": gross, "full": true}).Fields("full")
		detail := c.Post(t, path+"/measure", j{"gross_grams": gross}).Fields("spool_weight_grams").Text("detail")
		if strings.Contains(detail, "full") {
			t.Error(detail)
		}
	}
	c.Get(t, path).Want(200).Shows(map[string]string{"spool_weight_grams": "null"})
	c.Post(t, path+"/measure", j{"gross_grams": 1190.5, "full": true}).Want(200).Shows(map[string]string{
		"spool_weight_grams": "190.5", "remaining_weight_grams": "1000"})
	c.Post(t, path+"/measure", j{"gross_grams": 1190.5, "full": true}).Fields("full")
	c.Post(t, path+"/measure", j{"gross_grams": 1090.5}).Want(200).Shows(map[string]string{"remaining_weight_grams": "900"})

	// A spool that was used is not full.
	used := spools + "/" + c.Post(t, spools, spool(nil)).Want(201).ID()
	c.Post(t, used+"/deduct", j{"weight_grams": 1}).Want(200)
	detail = c.Post(t, used+"/measure", j{"gross_grams": 1190}).Fields("spool_weight_grams").Text("detail")
	testkit.Equal(t, detail, "spool_weight_grams of the spool must be set before it can be weighed", "detail")
}
