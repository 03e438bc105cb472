package web

import (
	"net/url"
	"strings"
)

// newSpools is the page that adds spools.
type newSpools struct {
	Form              *form
	Filaments         []option // the newest
	Materials, Widths []option
	Own               bool // without a filament
}

func showNewSpools(v *visit) error {
	f := newForm()
	for name, values := range v.r.URL.Query() {
		f.Values[name] = values
	}
	if f.Values.Get("quantity") == "" {
		f.Values.Set("quantity", "1")
	}
	return v.newSpools(200, f)
}

func (v *visit) newSpools(status int, f *form) error {
	var list struct{ Items []filament }
	if err := v.fetch(read{path: "/api/v1/filaments", query: url.Values{"limit": {"100"}}, into: &list}); err != nil {
		return err
	}
	p := newSpools{Form: f, Materials: materials(), Widths: widths, Own: f.Values.Get("own") != "" ||
		len(list.Items) == 0}
	p.Filaments = []option{{"", "Choose a filament"}}
	for _, item := range list.Items {
		p.Filaments = append(p.Filaments, option{item.ID, strings.TrimSpace(item.Title() + " " + item.Vendor)})
	}
	return v.show(status, "spools-new", "Add spools", p)
}

// createSpools adds spools of a filament, or with fields of their own.
func createSpools(v *visit) error {
	f := v.sent()
	body := f.body(field{"quantity", number}, field{"filament_id", text}, field{"material_type", text},
		field{"brand", text}, field{"color", text}, field{"color_hex", text}, field{"finish", text},
		field{"diameter_mm", number}, field{"net_weight_grams", number}, field{"spool_weight_grams", number},
		field{"purchase_price", number}, field{"purchase_date", text}, field{"supplier", text},
		field{"location", text},
		field{"lot_number", text}, field{"notes", text})
	var created struct{ Items []spool }
	ok, err := v.send(f, "POST", "/api/v1/spools/batch", body, &created)
	if err != nil {
		return err
	}
	if !ok {
		return v.newSpools(422, f)
	}
	if len(created.Items) == 1 {
		return v.redirect("/spools/" + created.Items[0].ID)
	}
	return v.redirect("/spools")
}
