package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"spoolwright/value/language"
)

type runColumn struct {
	Name  language.Text `json:"-"`
	Empty language.Text `json:"-"` // the text of a column without runs
	Items []run
	Total int
	Key   string          `json:"-"` // precedes the idempotency keys of the buttons
	All   string          `json:"-"` // the address of the list of all runs of the column
	do    *work           // the work of the buttons, or nil
	ready map[string]bool // by id, the runs with a button; nil means all
}

// Cards returns the HTML of the runs of the column.
func (c runColumn) Cards(v view) template.HTML {
	var cards rows
	for i, r := range c.Items {
		words := r.about()
		if r.Status == "failed" || r.Status == "cancelled" {
			words = append(words, r.State(v))
		}
		if grams := cmp.Or(r.Grams, r.Estimate); grams != "" {
			words = append(words, v.Grams(grams))
		}
		if r.Status == "in_progress" || r.Status == "paused" {
			words = append(words, v.Until(r.Status, r.StartedAt, r.End()))
		} else {
			words = append(words, v.Date(r.When()))
		}
		cards.add(`<li class="card"><a href="/runs/{}">`, r.ID)
		cards.picture(thumbOf(r.Items))
		cards.picture(r.Swatches())
		cards.add(`<b>{}</b> <small>`, r.Title(v))
		cards.picture(newMark(r.Status))
		cards.add(`{}</small>`, strings.Join(words, " · "))
		cards.picture(r.Bar(v))
		cards.add(`</a>`)
		if c.do != nil && v.CanWrite() && (c.ready == nil || c.ready[r.ID]) {
			c.do.button(v.visit, &cards, r, c.Key+strconv.Itoa(i), "/runs")
		}
		cards.add(`</li>` + "\n")
	}
	return cards.html()
}

// runsThatPrint is the address of the runs that are printing or paused.
const runsThatPrint = "/api/v1/production-runs?status=in_progress,paused&limit=100"

// board shows the open runs in three columns, and the last runs that have ended in another one.
func board(v *visit) error {
	waiting := runColumn{Name: "To confirm", Empty: "No run waits for you.", All: "/runs/all?status=confirm",
		Key: v.newForm().Key, do: workConfirm}
	planned := runColumn{Name: "Planned|runs", Empty: "Nothing is planned.", All: "/runs/all?status=planned",
		Key: v.newForm().Key, do: workStart, ready: map[string]bool{}}
	printing := runColumn{Name: "Printing", Empty: "Nothing prints.", All: "/runs/all?status=printing"}
	done := runColumn{Name: "Done|runs", Empty: "Nothing was printed yet.", All: "/runs/all?status=ended"}
	var active found[run]
	var ready found[struct{ ID string }]
	if err := v.fetch(
		get(runsToConfirm+"&limit=30", &waiting),
		get("/api/v1/production-runs?status=pending&limit=30", &planned),
		get(runsToStart+"&limit=100", &ready),
		get(runsThatPrint, &active),
		get("/api/v1/production-runs?status=completed,failed,cancelled&limit=20", &done),
	); err != nil {
		return err
	}
	for _, r := range ready.Items {
		planned.ready[r.ID] = true
	}
	active = stillPrinting(v, active)
	printing.Items, printing.Total = active.Items, active.Total
	shown := len(done.Items)
	done.Items = slices.DeleteFunc(done.Items, func(r run) bool { return r.Status == "completed" && !r.Deducted })
	done.Total -= shown - len(done.Items)
	columns := []runColumn{waiting, planned, printing, done}
	if waiting.Total+planned.Total+printing.Total+done.Total == 0 {
		columns = nil
	}
	return v.show(200, "runs", v.t("Runs"), columns)
}
