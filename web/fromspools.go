package web

import (
	"encoding/json"
	"net/http"

	"spoolwright/inventory"
)

// fromSpools is the page that gives spools without a filament theirs.
type fromSpools struct {
	Spools  int  `json:"spools_changed"`
	Created int  `json:"filaments_created"`
	More    bool `json:"has_more"`
	Items   []struct {
		Action   string
		Vendor   string `json:"vendor_name"`
		Material string `json:"material_type"`
		Exact    string `json:"material_name"`
		Color    string
		Spools   int
	}
	Form *form `json:"-"`
}

// Names returns the names of the filaments, with what happens to them.
func (p *fromSpools) Names(v view) (all []option) {
	for _, f := range p.Items {
		text := v.t(spoolNoun.count, f.Spools)
		if f.Action == "created" {
			text = v.t("%d spool, a new filament|%d spools, a new filament", f.Spools)
		}
		all = append(all, option{text, join(" · ", inventory.MaterialLabel(f.Material, f.Exact)+" "+f.Color, f.Vendor)})
	}
	return all
}

func showFromSpools(v *visit) error { return v.fromSpoolsPage(200, v.newForm()) }

// fromSpoolsPage shows what would happen.
func (v *visit) fromSpoolsPage(status int, f *form) error {
	p := &fromSpools{Form: f}
	answer := v.call(http.MethodPost, "/api/v1/filaments/from-spools", nil, []byte(`{"dry_run": true}`))
	if err := answer.Err(); err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, p); err != nil {
		return err
	}
	return v.show(status, "from-spools", v.t("Filaments of spools"), p)
}

// makeFromSpools gives the spools their filaments, at most as many as a request of the API takes.
func makeFromSpools(v *visit) error {
	f := v.sent()
	var done fromSpools
	ok, err := v.send(f, http.MethodPost, "/api/v1/filaments/from-spools", nil, &done)
	to := "/filaments"
	if done.More {
		to += "/from-spools"
	}
	v.tell(&notice{Text: v.t("Spools with a filament now: %s. New filaments: %s.", v.Count(done.Spools),
		v.Count(done.Created))})
	return v.then(ok, err, to, func() error { return v.fromSpoolsPage(422, f) })
}
