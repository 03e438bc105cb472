package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
)

func showNewSpools(v *visit) error { return v.newSpools(200, v.prefilled()) }

// newSpools shows the form that adds spools. The spools belong to a filament or, with own in the address or if the
// farm has no filaments, have their own material.
func (v *visit) newSpools(status int, f *form) error {
	var list found[struct{}]
	var custom customFields
	p := &editorPage{Form: f, Action: "/spools/new", Back: "/spools", Name: v.t("Spools"), Label: v.t("Add"),
		Heading: v.t(spoolsNoun.create), Also: option{"labels", v.t("Add and print labels")}, Hidden: url.Values{}}
	if level := f.Values.Get("received"); level != "" {
		p.Hidden.Set("received", level)
	}
	reads := append(spools.suggestions(&p.Vendors), get("/api/v1/filaments?limit=1", &list),
		customRead("spool", &custom))
	var of filament
	if id, ok := value.ParseID(f.Values.Get("filament_id")); ok && status == 200 {
		reads = append(reads, get("/api/v1/filaments/"+id, &of))
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	if err := v.fetchCatalog(p, "spools"); err != nil {
		return err
	}
	if status == 200 {
		custom.preset(f)
	}
	follows := v.r.URL.Query().Get("own") == "" && len(list.Items) > 0
	if follows {
		p.Inputs = []input{newInput(f, "filament_id", "Filament", "find=filaments",
			"hint=Material, color, weights and price are those of the filament.")}
		p.Other = option{"/spools/new?own=1", v.t("Add spools without a filament")}
	} else {
		p.Action += "?own=1"
	}
	p.Inputs = append(p.Inputs, newInput(f, "quantity", "How many", "type=number", "required", "value=1"))
	p.Inputs = append(p.Inputs, spools.inputs(v, f, follows, &custom)...)
	for i := range p.Inputs {
		p.Inputs[i].Placeholder = f.read.text(of.inherited()[p.Inputs[i].Name])
	}
	return v.show(status, "editor", v.t("Add spools"), p)
}

// inherited returns the values that a new spool gets from the filament, by the names of the fields.
func (f filament) inherited() map[string]num {
	return map[string]num{"net_weight_grams": f.NetWeight, "remaining_weight_grams": f.NetWeight,
		"spool_weight_grams": f.SpoolWeight, "purchase_price": f.Price}
}

// added returns the notice of new spools. If the numbers of the spools follow each other, the notice has a form that
// removes the spools and, for at most maxLabels spools, a link to their labels.
func (v *visit) added(spools []spool) *notice {
	if len(spools) == 0 {
		return nil
	}
	first, last := spools[0].Number, spools[0].Number
	for _, s := range spools {
		first, last = min(first, s.Number), max(last, s.Number)
	}
	n := &notice{Text: v.t("Spool %s is added.", fmt.Sprint(first))}
	if len(spools) > 1 {
		n.Text = v.t("%d spool is added, %s to %s.|%d spools are added, %s to %s.", len(spools), fmt.Sprint(first),
			fmt.Sprint(last))
	}
	if last-first == int64(len(spools)-1) {
		numbers := fmt.Sprintf("%d-%d", first, last)
		if len(spools) <= maxLabels {
			n.Next = []option{{"/labels?numbers=" + numbers, v.t("Print labels")}}
		}
		n.Undo = &undo{Name: v.t("Undo"), Action: "/spools/removal", Values: url.Values{"numbers": {numbers}}}
	}
	return n
}

// numberRange returns the numbers of a range such as 61-70. It returns false if the text is not a range or has more
// than the number most.
func numberRange(text string, most int64) (numbers []int64, ok bool) {
	from, to, _ := strings.Cut(text, "-")
	first, err1 := strconv.ParseInt(from, 10, 32)
	last, err2 := strconv.ParseInt(to, 10, 32)
	if err1 != nil || err2 != nil || first < 1 || last < first || last > server.MaxNumber || last-first >= most {
		return nil, false
	}
	for n := first; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return numbers, true
}

// removeSpools removes the spools with a range of numbers, which were added together.
func removeSpools(v *visit) error {
	f := v.sent()
	numbers, ok := numberRange(f.Values.Get("numbers"), maxRemoved)
	if !ok {
		return server.ErrNotFound
	}
	ok, err := v.send(f, "DELETE", "/api/v1/spools", map[string]any{"numbers": numbers}, nil)
	if err == nil && !ok {
		return server.Invalid("numbers", "%s", f.Problem)
	}
	first, last := fmt.Sprint(numbers[0]), fmt.Sprint(numbers[len(numbers)-1])
	text := v.t("Spool %s is removed.", first)
	if len(numbers) > 1 {
		text = v.t("Spools %s to %s are removed.", first, last)
	}
	v.tell(&notice{Text: text})
	return v.then(ok, err, "/spools", nil)
}

// maxRemoved is the maximum number of spools that are removed together.
const maxRemoved = 1000

func createSpools(v *visit) error {
	f := v.sent()
	fields, err := spools.names(v)
	if err != nil {
		return err
	}
	body := f.body(append(fields, field{"quantity", number}, field{"filament_id", text})...)
	var created struct{ Items []spool }
	ok, err := v.send(f, "POST", "/api/v1/spools/batch", body, &created)
	if ok {
		if err := v.arrived(f.Values.Get("received")); err != nil {
			return err
		}
	}
	to := "/spools"
	if len(created.Items) == 1 {
		to += "/" + created.Items[0].ID
	}
	n := v.added(created.Items)
	if n != nil && len(n.Next) > 0 && f.Values.Has("labels") {
		to, n.Next = n.Next[0].Value, nil
	}
	v.tell(n)
	return v.then(ok, err, to, func() error { return v.newSpools(422, f) })
}
