package spoolman

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/value"
)

// errComputed is the error of a request to change or delete a computed filament or vendor.
var errComputed = badRequest("This filament or vendor is computed from spools without a filament: change these " +
	"spools, or create filaments from them with POST /api/v1/filaments/from-spools")

// change calls changes in a transaction, and sends the changed item. changes returns the number of the item.
func (q request) change(name string, changes func(ctx context.Context) (number int64, err error)) error {
	var text []byte
	err := q.db.Tx(q.r.Context(), func(ctx context.Context) error {
		number, err := changes(ctx)
		if err != nil {
			return err
		}
		item := q.selectItem(name, number).Into(&text)
		if err := q.db.Write(ctx, item); err != nil {
			return err
		}
		if item.Rows() == 0 {
			return notFound(name, number)
		}
		return nil
	})
	if err != nil {
		return extraError(err)
	}
	return q.sendChanged(text)
}

// checkExtra is like inventory.CheckExtra, but returns a 400 instead of a 422: this API responds 400 to invalid custom
// fields.
func (q request) checkExtra(ctx context.Context, entity string, extra value.Optional[value.Extra]) error {
	if len(extra.Or(nil)) == 0 {
		return nil
	}
	err := inventory.CheckExtra(ctx, q.db, entity, *extra.Value)
	if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 422 {
		return badRequest("%s", e.Detail)
	}
	return err
}

// extraError converts the database's error for an item whose new and stored custom fields are too long together.
func extraError(err error) error {
	for _, check := range []string{"spools_valid", "filaments_extra_check", "vendors_extra_check"} {
		if db.Violates(err, check) {
			return server.Invalid("extra",
				"must have at most 100,000 characters together with the existing fields").
				Because(err)
		}
	}
	return err
}

func (q request) create(name string) error {
	b, err := q.body()
	if err != nil {
		return err
	}
	switch name {
	case "spool":
		return q.createSpool(b)
	case "filament":
		in, err := readFilament(b, true)
		if err != nil {
			return err
		}
		return q.change(name, func(ctx context.Context) (int64, error) {
			in := in
			err := q.checkExtra(ctx, name, in.Extra)
			if err == nil {
				err = q.setVendor(ctx, b, &in, true)
			}
			if err != nil {
				return 0, err
			}
			return inventory.AddFilament(ctx, q.db, in)
		})
	}
	in, err := readVendor(b, true)
	if err != nil {
		return err
	}
	return q.change(name, func(ctx context.Context) (int64, error) {
		if err := q.checkExtra(ctx, name, in.Extra); err != nil {
			return 0, err
		}
		return inventory.AddVendor(ctx, q.db, &in)
	})
}

// createSpool creates a spool of a filament. If the filament is computed, the new spool gets the fields of a spool
// that shows this filament.
func (q request) createSpool(b body) error {
	s, err := readSpool(b)
	if err != nil {
		return err
	}
	if s.filament == nil {
		return server.Invalid("filament_id", "must be the id of a filament")
	}
	return q.change("spool", func(ctx context.Context) (int64, error) {
		in := s.in
		err := q.checkExtra(ctx, "spool", in.Extra)
		if err == nil {
			err = q.attach(ctx, &in, *s.filament, true)
		}
		if err != nil {
			return 0, err
		}
		return inventory.AddSpool(ctx, q.db, &in, s.use)
	})
}

// attach sets the filament of the spool in to the filament with the id. If that filament is computed, in gets no
// filament. Instead, in gets the fields of the first spool that shows the computed filament.
func (q request) attach(ctx context.Context, in *inventory.Spool, id int64, isNew bool) error {
	switch {
	case id < 1:
		return notFound("filament", id)
	case id < firstComputed:
		in.FilamentNumber = value.Some(id)
		err := inventory.Attach(ctx, q.db, in, isNew, imports.UsualWeight)
		if e, ok := errors.AsType[*server.Error](err); ok && e.Code == "UNKNOWN_REFERENCE" {
			return notFound("filament", id)
		}
		return err
	}
	sample := db.SQL(`select s.material_type, s.material_name, s.brand, s.color, s.color_hex, s.finish, s.diameter_mm,
			s.density_g_cm3,
			s.net_weight_grams, s.spool_weight_grams, s.purchase_price
		from spools s where s.tenant_id = $1::uuid and s.hidden_at is null
			and `+groupID+` = $2::int order by s.number limit 1`, q.tenant(), id)
	if err := q.db.Write(ctx, db.FreshPlan(), sample); err != nil {
		return err
	}
	if sample.Rows() == 0 {
		return notFound("filament", id)
	}
	other, err := server.DecodePatch[inventory.Spool](sample.Object())
	if err != nil {
		return err
	}
	in.FilamentID = value.Optional[value.UUID]{Set: true}
	in.MaterialType, in.MaterialName, in.Brand = other.MaterialType, other.MaterialName, other.Brand
	in.Color, in.ColorHex = other.Color, other.ColorHex
	in.Finish, in.DiameterMM, in.Density = other.Finish, other.DiameterMM, other.Density
	if !isNew {
		return nil
	}
	for _, field := range []struct {
		to, from *value.Optional[value.Decimal]
	}{{&in.NetWeight, &other.NetWeight},
		{&in.SpoolWeight, &other.SpoolWeight}, {&in.PurchasePrice, &other.PurchasePrice}} {
		if !field.to.Set {
			*field.to = *field.from
		}
	}
	return nil
}

func (q request) edit(name string, id int64) error {
	b, err := q.body()
	if err != nil {
		return err
	}
	switch {
	case name == "spool":
		return q.editSpool(id, b)
	case id >= firstComputed:
		return errComputed
	case name == "filament":
		in, err := readFilament(b, false)
		if err != nil {
			return err
		}
		return q.change(name, func(ctx context.Context) (int64, error) {
			in := in
			err := q.checkExtra(ctx, name, in.Extra)
			if err == nil {
				err = q.setVendor(ctx, b, &in, false)
			}
			if err == nil {
				err = q.recolor(ctx, id, &in)
			}
			if err == nil {
				err = inventory.EditFilament(ctx, q.db, id, in)
			}
			return id, missing(err, name, id)
		})
	}
	in, err := readVendor(b, false)
	if err != nil {
		return err
	}
	return q.change(name, func(ctx context.Context) (int64, error) {
		err := q.checkExtra(ctx, name, in.Extra)
		if err == nil {
			err = inventory.EditVendor(ctx, q.db, id, in)
		}
		return id, missing(err, name, id)
	})
}

// recolor also changes the name of a filament's color to the new name of the filament, if the color has the old name
// of the filament or that name is empty. This API has no field for the name of the color.
func (q request) recolor(ctx context.Context, id int64, in *inventory.Filament) error {
	if in.Name.Or("") == "" {
		return nil
	}
	var named bool
	row := db.SQL(`select f.name = f.color or f.name = '' from filaments f where f.tenant_id = $1::uuid
		and f.number = $2::int and f.name is not null`, q.tenant(), id).Into(&named)
	if err := q.db.Write(ctx, row); err != nil {
		return err
	}
	if named {
		in.Color = in.Name
	}
	return nil
}

// missing replaces server.ErrNotFound by a 404 that names the item. It returns all other errors unchanged.
func missing(err error, name string, id int64) error {
	if errors.Is(err, server.ErrNotFound) {
		return notFound(name, id)
	}
	return err
}

func (q request) editSpool(id int64, b body) error {
	s, err := readSpool(b)
	if err != nil {
		return err
	}
	if s.filament == nil && len(s.in.Extra.Or(nil)) == 0 {
		return extraError(q.sendSpool(id, q.db.Write, inventory.Edit(id, &s.in, s.use)))
	}
	return q.change("spool", func(ctx context.Context) (int64, error) {
		in := s.in
		err := q.checkExtra(ctx, "spool", in.Extra)
		if err == nil && s.filament != nil {
			err = q.attach(ctx, &in, *s.filament, false)
		}
		if err != nil {
			return 0, err
		}
		edited := inventory.Edit(id, &in, s.use)
		if err := q.db.Write(ctx, edited); err != nil {
			return 0, err
		}
		if edited.Rows() == 0 {
			return 0, notFound("spool", id)
		}
		return id, nil
	})
}

func (q request) remove(name string, id int64) error {
	err := error(nil)
	switch {
	case name == "spool":
		hidden := inventory.Hide(id)
		err = server.Found(hidden, q.db.Write(q.r.Context(), hidden))
	case id >= firstComputed:
		return errComputed
	default:
		remove := map[string]func(context.Context, *db.DB, int64) error{
			"filament": inventory.RemoveFilament, "vendor": inventory.RemoveVendor}[name]
		var text []byte
		item := q.selectItem(name, id).Into(&text)
		err = q.db.Tx(q.r.Context(), func(ctx context.Context) error {
			if err := q.db.Write(ctx, item); err != nil {
				return err
			}
			return remove(ctx, q.db, id)
		})
		if err == nil {
			q.sockets.removed(q.r.Context(), q.tenant(), name, id, text)
		}
	}
	if err != nil {
		return missing(err, name, id)
	}
	q.sockets.changed(q.tenant())
	return q.send([]byte(`{"message":"Success!"}`))
}

// maxLocation is the maximum length of a renamed location in characters. Clients of this API expect no longer
// locations.
const maxLocation = 64

func (q request) renameLocation() error {
	b, err := q.body()
	if err != nil {
		return err
	}
	to, err := b.required("name")
	if err == nil && utf8.RuneCountInString(to) > maxLocation {
		err = badRequest("A location must have at most %d characters", maxLocation)
	}
	if err == nil {
		_, err = inventory.RenameLocation(q.r.Context(), q.db, q.r.PathValue("name"), to)
	}
	if err != nil {
		return err
	}
	q.sockets.changed(q.tenant())
	return q.encode(to)
}

// renameValue replaces a location, or a value of a custom field, in all spools.
func (q request) renameValue() error {
	field := q.r.PathValue("field")
	b, err := q.body()
	if err != nil {
		return err
	}
	from, err := b.required("value")
	if err != nil {
		return err
	}
	to, err := b.required("new_value")
	if err != nil {
		return err
	}
	n := 0
	key, isExtra := strings.CutPrefix(field, "extra.")
	switch {
	case isExtra:
		err = q.db.Tx(q.r.Context(), func(ctx context.Context) error {
			if err := q.checkGroupable(ctx, key, to); err != nil {
				return err
			}
			n, err = inventory.RenameValue(ctx, q.db, key, from, to)
			return err
		})
	case field != "location":
		err = badRequest("The field %s cannot be renamed: only location and extra.KEY can", field)
	case utf8.RuneCountInString(to) > maxLocation:
		err = badRequest("A location must have at most %d characters", maxLocation)
	default:
		n, err = inventory.RenameLocation(q.r.Context(), q.db, from, to)
	}
	if err != nil {
		return extraError(err)
	}
	q.sockets.changed(q.tenant())
	return q.encode(object{"spools_updated": n})
}

// checkGroupable returns a 400 if the values of a custom field of spools are not single texts, or if the text is not a
// valid value of the field.
func (q request) checkGroupable(ctx context.Context, key, text string) error {
	encoded, err := json.Marshal(text)
	if err != nil {
		return err
	}
	if err := q.checkExtra(ctx, "spool", value.Some(value.Extra{key: encoded})); err != nil {
		return err
	}
	definitions := inventory.SelectCustomFields("spool")
	if err := q.db.Write(ctx, definitions); err != nil {
		return err
	}
	all, err := inventory.CustomFields(definitions)
	for _, f := range all {
		if *f.Key.Value == key && !isGroupable(f) {
			return badRequest("The values of the custom field %s are not single texts", key)
		}
	}
	return err
}

// isGroupable reports whether each value of a custom field is a single text. Several items can have the same text, so
// a request can group the items by it.
func isGroupable(f inventory.CustomField) bool {
	return *f.Type.Value == "text" || *f.Type.Value == "choice" && !f.Multiple.Or(false)
}
