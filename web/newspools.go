package web

import "strings"

func showNewSpools(v *visit) error { return v.newSpools(200, v.asked()) }

// newSpools shows the form that adds spools of a filament, or with fields of their own.
func (v *visit) newSpools(status int, f *form) error {
	var list struct{ Items []filament }
	var custom customFields
	if err := v.fetch(
		get("/api/v1/filaments?limit=100", &list),
		customRead("spool", &custom),
	); err != nil {
		return err
	}
	if status == 200 {
		custom.preset(f)
	}
	p := &editorPage{Form: f, Action: "/spools/new", Back: "/spools", Label: "Add", Noun: "spools"}
	follows := v.r.URL.Query().Get("own") == "" && len(list.Items) > 0
	if follows {
		filament := newInput(f, "filament_id", "Filament",
			"hint=Material, color, weights and price are those of the filament.")
		filament.Options = []option{{"", "Choose a filament"}}
		for _, item := range list.Items {
			filament.Options = append(filament.Options,
				option{item.ID, strings.TrimSpace(item.Title() + " " + item.Vendor)})
		}
		p.Inputs = []input{filament}
		p.Other = option{"/spools/new?own=1", "Add spools without a filament"}
	} else {
		p.Action += "?own=1"
	}
	p.Inputs = append(p.Inputs, newInput(f, "quantity", "How many", "type=number", "required", "value=1"))
	p.Inputs = append(p.Inputs, spools.inputs(v, f, follows, &custom)...)
	return v.show(status, "editor", "Add spools", p)
}

func createSpools(v *visit) error {
	f := v.sent()
	fields, err := spools.names(v)
	if err != nil {
		return err
	}
	body := f.body(append(fields, field{"quantity", number}, field{"filament_id", text})...)
	var created struct{ Items []spool }
	ok, err := v.send(f, "POST", "/api/v1/spools/batch", body, &created)
	to := "/spools"
	if len(created.Items) == 1 {
		to += "/" + created.Items[0].ID
	}
	return v.then(ok, err, to, func() error { return v.newSpools(422, f) })
}
