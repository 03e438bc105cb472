package web

import (
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"strconv"

	"spoolwright/server"
)

type plate struct {
	ID        string
	Plate     num
	Name      string
	Quantity  int64
	Minutes   num `json:"estimated_print_time_minutes"`
	PerPlate  num `json:"pieces_per_plate"`
	Materials []productMaterial
	Cost      num    `json:"total_cost"`
	Complete  bool   `json:"costs_complete"`
	OnHand    int    `json:"on_hand"`
	Picture   string `json:"picture_version"`
}

// Thumb returns the picture of the plate in small.
func (p plate) Thumb() template.HTML { return thumb(p.ID, p.Picture) }

// PrintMinutes returns the time to print one piece, with all its plates, or "" if it is not known.
func (p product) PrintMinutes() num {
	if len(p.Plates) == 0 || p.Minutes != "" {
		return p.Minutes
	}
	sum := int64(0)
	for _, one := range p.Plates {
		minutes, err := strconv.ParseInt(string(one.Minutes), 10, 64)
		if err != nil {
			return ""
		}
		sum += minutes * one.Quantity
	}
	return num(strconv.FormatInt(sum, 10))
}

// withoutPlates returns the components that are not plates of the product.
func (p product) withoutPlates(parts []*part) (others []*part) {
	isPlate := map[string]bool{}
	for _, one := range p.Plates {
		isPlate[one.ID] = true
	}
	for _, one := range parts {
		if !isPlate[one.ProductID] {
			others = append(others, one)
		}
	}
	return others
}

// addPlate adds a plate to a product. In a product without plates, the current print becomes the first plate.
func addPlate(v *visit) error {
	f := v.sent()
	added := f.body(field{"name", text}, field{"quantity", number}, field{"pieces_per_plate", number},
		field{"estimated_print_time_minutes", number})
	// The choice of a material always has a value.
	if material := f.body(field{"color", text}, field{"weight_grams", number}); len(material) > 0 {
		material["material_type"] = f.value(field{"material_type", text})
		added["materials"] = []any{material}
	}
	for range 3 {
		var product map[string]json.RawMessage
		if err := v.fetch(read{path: "/api/v1/products/{id}", into: &product, tag: &f.Tag}); err != nil {
			return err
		}
		plates, err := platesBefore(product)
		if err != nil {
			return err
		}
		ok, err := v.send(f, http.MethodPatch, "/api/v1/products/{id}", map[string]any{"plates": append(plates, added)}, nil)
		if isConflict(err) { // somebody has changed the product meanwhile
			continue
		}
		if ok {
			v.tell(&notice{Text: v.t("The plate is added.")})
		}
		return v.then(ok, err, v.here("/products"), func() error { return v.productPage(422, "plates", f) })
	}
	f.Problem = v.t("The product changes too often at the moment. Try again.")
	return v.productPage(422, "plates", f)
}

// platesBefore returns the plates that a product keeps when it gets another one.
func platesBefore(product map[string]json.RawMessage) (plates []any, err error) {
	var known []struct{ ID string }
	if err := json.Unmarshal(product["plates"], &known); err != nil {
		return nil, err
	}
	for _, one := range known {
		plates = append(plates, map[string]any{"id": one.ID})
	}
	if len(known) > 0 {
		return plates, nil
	}
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(product["materials"], &all); err != nil {
		return nil, err
	}
	materials := []any{}
	for _, one := range all {
		if string(one["is_required"]) == "true" {
			materials = append(materials, partBody("materials", one))
		}
	}
	if len(materials) == 0 && string(product["estimated_print_time_minutes"]) == "null" {
		return nil, nil
	}
	return []any{map[string]any{"estimated_print_time_minutes": product["estimated_print_time_minutes"],
		"pieces_per_plate": product["pieces_per_plate"], "materials": materials}}, nil
}

// plateFields are the fields of a plate that a visitor can change.
var plateFields = []field{{"name", text}, {"estimated_print_time_minutes", number}, {"pieces_per_plate", number},
	{"quantity", number}}

// showPlate sets the values of the form for the plate with the id.
func (p *product) showPlate(f *form, id string) {
	for _, one := range p.Plates {
		if one.ID == id {
			f.show("name", one.Name)
			f.show("estimated_print_time_minutes", f.read.text(one.Minutes))
			f.show("pieces_per_plate", f.read.text(one.PerPlate))
			f.show("quantity", strconv.FormatInt(one.Quantity, 10))
		}
	}
}

// plateEdit makes the body of the operation that changes the plate {part}. It has all plates, because the operation
// removes the others. The ETag of the form, which is older than these, rejects a change of the plates since then.
func plateEdit(f *form) map[string]any {
	v, changed := f.read.visit, f.changed(plateFields...)
	if len(changed) == 0 {
		return changed
	}
	var p product
	if err := v.fetch(get("/api/v1/products/{id}", &p)); err != nil {
		f.Problem = v.message(server.AsError(err).Detail)
	}
	var plates []any
	for _, one := range p.Plates {
		plate := map[string]any{"id": one.ID}
		if one.ID == v.r.PathValue("part") {
			maps.Copy(plate, changed)
		}
		plates = append(plates, plate)
	}
	return map[string]any{"plates": plates}
}

// removePlate removes the plate {part} from a product.
func removePlate(v *visit) error {
	var product product
	if err := v.fetch(get("/api/v1/products/{id}", &product)); err != nil {
		return err
	}
	component := v.r.PathValue("part")
	for _, one := range product.Components {
		if one.ProductID == v.r.PathValue("part") {
			component = one.ID
		}
	}
	f := v.sent()
	ok, err := v.send(f, http.MethodDelete, "/api/v1/products/{id}/components/"+component, nil, nil)
	if ok {
		v.tell(&notice{Text: v.t("The plate is removed."),
			Undo: &undo{Name: v.t("Undo"),
				Action: "/products/" + v.r.PathValue("id") + "/plates/" + v.r.PathValue("part") + "/back"}})
	}
	return v.then(ok, err, v.here("/products"), func() error { return v.productPage(422, "part", f) })
}

// putPlateBack makes a removed plate {part} one of the product's plates again.
func putPlateBack(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, http.MethodPost, "/api/v1/products/{part}/restore", nil, nil)
	if ok {
		v.tell(&notice{Text: v.t("The plate is back.")})
	}
	return v.then(ok, err, v.here("/products"), func() error { return v.productPage(422, "part", f) })
}
