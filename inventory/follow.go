package inventory

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
)

// A spool that has a filament follows it: the columns below are the filament's. They are stored with the spool too, so
// that lists, prices and stock levels read no other table, and change with the filament in one transaction. A
// transaction that creates or attaches a spool locks the filament first, for share.

// followed are the columns of spools that follow a filament.
const followed = `material_type, brand, color, color_hex, diameter_mm, density_g_cm3`

// followedValues are the values of these columns, of the filament f.
const followedValues = `f.material_type, f.vendor_name, f.color, left(f.color_hex, 7), f.diameter_mm, f.density_g_cm3`

// followedFields are these fields of a filament, or of a spool that follows one, and what a new spool gets from it.
type followedFields struct {
	FilamentID   *server.UUID    `json:"filament_id"`
	Number       int64           `json:"number"`
	MaterialType *MaterialType   `json:"material_type"`
	Brand        *string         `json:"brand"`
	Color        *string         `json:"color"`
	ColorHex     *string         `json:"color_hex"`
	DiameterMM   *server.Decimal `json:"diameter_mm"`
	Density      *server.Decimal `json:"density_g_cm3"`
	NetWeight    *server.Decimal `json:"net_weight_grams"`
	SpoolWeight  *server.Decimal `json:"spool_weight_grams"`
	Price        *server.Decimal `json:"purchase_price"`
}

var (
	errUnknownFilament = server.BadRequest("UNKNOWN_REFERENCE", "Not a filament: %s", "filament_id").On("filament_id")
	errFilamentField   = server.Conflict("FILAMENT_FIELD", "The spool has these fields from its filament: %s. Change "+
		"them with PATCH /api/v1/filaments/{id}, or detach the spool with a filament_id of null", "color").On("color")
)

// namesFilament reports whether the request attaches the spool to a filament.
func (s *Spool) namesFilament() bool { return !s.FilamentID.IsNull() || !s.FilamentNumber.IsNull() }

// mayFollow reports whether a PATCH depends on a filament: it attaches spools to one, or has fields that a spool may
// have from its own.
func (s *Spool) mayFollow() bool {
	followed := s.MaterialType.Set || s.Brand.Set || s.Color.Set || s.ColorHex.Set || s.DiameterMM.Set || s.Density.Set
	return s.namesFilament() || followed && !s.FilamentID.Set
}

// lockFilaments returns a statement that locks the filaments that requests name, in the order of their ids, so that
// they do not change before the end of the transaction. It returns their fields.
func lockFilaments(spools ...*Spool) *db.Stmt {
	ids, numbers := []string{}, []int64{}
	for _, s := range spools {
		if !s.FilamentID.IsNull() {
			ids = append(ids, string(*s.FilamentID.Value))
		} else if !s.FilamentNumber.IsNull() {
			numbers = append(numbers, *s.FilamentNumber.Value)
		}
	}
	return db.SQL(`
		with named as materialized (
			select unnest($1::uuid[]) as id union all
			select f.id from unnest($2::int[]) n (number) cross join lateral (
				select id from filaments where number = n.number and num_nonnulls(number) = 1 offset 0
			) f
		)
		select locked.* from (select distinct id from named order by id) ids cross join lateral (
			select id as filament_id, number, material_type, vendor_name as brand, color, left(color_hex, 7) as color_hex,
				diameter_mm, density_g_cm3, net_weight_grams, spool_weight_grams, price as purchase_price
			from filaments where id = ids.id and hidden_at is null for share
		) locked`, ids, numbers)
}

// filamentsByName are filaments by their ids and by their numbers.
type filamentsByName map[string]*followedFields

// byName returns the filaments that lockFilaments has locked.
func byName(locked *db.Stmt) (filamentsByName, error) {
	all, err := followedOf(locked)
	found := filamentsByName{}
	for i, f := range all {
		found[string(*f.FilamentID)], found[strconv.FormatInt(f.Number, 10)] = &all[i], &all[i]
	}
	return found, err
}

// attachOne is filamentsByName.attach for the filament that is locked.
func attachOne(locked *db.Stmt, s *Spool, isNew bool) error {
	filaments, err := byName(locked)
	if err != nil {
		return err
	}
	return filaments.attach(s, isNew)
}

// stayAll is Spool.stay for all spools that a statement has locked.
func stayAll(locked *db.Stmt, s *Spool) error {
	all, err := followedOf(locked)
	for i := range all {
		if err == nil {
			err = s.stay(&all[i])
		}
	}
	return err
}

// followedOf returns the rows of a statement.
func followedOf(s *db.Stmt) (all []followedFields, err error) {
	return all, json.Unmarshal(s.Array(), &all)
}

// attach makes a spool follow the filament that it names. A new one gets its weights and its price, too, unless it has
// its own.
func (f filamentsByName) attach(s *Spool, isNew bool) error {
	field, name := "filament_id", string(s.FilamentID.Or(""))
	if s.FilamentID.IsNull() {
		field, name = "filament_number", strconv.FormatInt(*s.FilamentNumber.Value, 10)
	}
	filament := f[name]
	if filament == nil {
		return errUnknownFilament.With(field).On(field)
	}
	if err := s.follow(filament); err != nil {
		return err
	}
	set(&s.FilamentID, filament.FilamentID)
	s.FilamentNumber = server.Optional[int64]{}
	if !isNew {
		return nil
	}
	inherit(&s.NetWeight, filament.NetWeight)
	inherit(&s.SpoolWeight, filament.SpoolWeight)
	inherit(&s.PurchasePrice, filament.Price)
	if s.NetWeight.IsNull() {
		return server.Invalid("net_weight_grams", "is required: the filament has none")
	}
	return nil
}

// follow gives the request the fields of a filament. The error says which of its fields differ from them.
func (s *Spool) follow(f *followedFields) error {
	if err := s.stay(f); err != nil {
		return err
	}
	set(&s.MaterialType, f.MaterialType)
	set(&s.Brand, f.Brand)
	set(&s.Color, f.Color)
	set(&s.ColorHex, f.ColorHex)
	set(&s.DiameterMM, f.DiameterMM)
	set(&s.Density, f.Density)
	return nil
}

// stay returns an error if the request has fields that differ from those of a filament, or of a spool that follows
// one.
func (s *Spool) stay(f *followedFields) error {
	if f.FilamentID == nil {
		return nil
	}
	var changed []string
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"material_type", differs(s.MaterialType, f.MaterialType)},
		{"brand", differs(s.Brand, f.Brand)},
		{"color", differs(s.Color, f.Color)},
		{"color_hex", differs(s.ColorHex, f.ColorHex)},
		{"diameter_mm", differs(s.DiameterMM, f.DiameterMM)},
		{"density_g_cm3", differs(s.Density, f.Density)},
	} {
		if field.differs {
			changed = append(changed, field.name)
		}
	}
	if changed == nil {
		return nil
	}
	return errFilamentField.With(server.JoinFields(changed)).On(changed...)
}

// differs reports whether the request has a field with another value.
func differs[T comparable](field server.Optional[T], value *T) bool {
	return field.Set && (field.IsNull() != (value == nil) || value != nil && *field.Value != *value)
}

func set[T any](field *server.Optional[T], value *T) {
	*field = server.Optional[T]{Set: true, Value: value}
}

func inherit[T any](field *server.Optional[T], value *T) {
	if !field.Set {
		set(field, value)
	}
}

// maxFollowers and maxStocked are the maximum numbers of spools that a change of a filament or of a vendor changes, of
// all and of those in stock. Deductions from the latter wait for the change.
const (
	maxFollowers = 10_000
	maxStocked   = 2_000
)

// spread says how a change of a filament or of a vendor with the id $1 changes spools.
type spread struct {
	from            string // the table f that has the change
	spools          string // a condition: the spools s that follow it
	columns, values string // the columns of spools, and what they become
}

var (
	spreadFilament = spread{"filaments", `s.filament_id = $1::uuid`, followed,
		followedValues}
	spreadVendor = spread{"vendors",
		`s.filament_id = any (array(select id from filaments where vendor_id = $1::uuid))`, `brand`, `f.name`}
)

// run runs a statement that updates a filament or a vendor, and then changes the spools. The update locks the
// filaments, so that no spool is attached to them meanwhile. Fields are those of the request that spools follow.
// Result returns the filament or vendor; check is called after the update, when result has run for the first time.
func (s spread) run(ctx context.Context, d *db.DB, id string, fields []string, update, result *db.Stmt,
	check func() error,
) error {
	var spools, stocked int
	return d.Decide(ctx, []*db.Stmt{update, s.counted(id).Into(&spools, &stocked), result},
		func() ([]*db.Stmt, error) {
			if err := check(); err != nil {
				return nil, err
			}
			if result.Rows() == 0 {
				return nil, server.ErrNotFound
			}
			if spools > maxFollowers || stocked > maxStocked {
				var problems server.Problems
				for _, name := range fields {
					problems.Add(name, "cannot be changed: there are more than %d spools, or more than %d in stock",
						maxFollowers, maxStocked)
				}
				return nil, problems.Err()
			}
			// Spools in stock come last, so that they are locked for a short time only.
			return append(append(s.changes(id, ` and not s.in_stock`), s.changes(id, "")...), result), nil
		})
}

// counted returns a statement that counts the spools, of all and of those in stock, up to maxFollowers+1.
func (s spread) counted(id string) *db.Stmt {
	return db.SQL(`
		select count(*), count(*) filter (where in_stock)
		from (select s.in_stock from spools s where `+s.spools+` limit $2) followers`, id, maxFollowers+1)
}

// changes returns statements that change those of the spools for which the condition is true. They lock these spools
// in the order of their ids, as other operations on several spools do.
func (s spread) changes(id, condition string) []*db.Stmt {
	from := s.from + ` f where f.id = $1::uuid and ` + s.spools + condition + `
		and row(s.` + strings.ReplaceAll(s.columns, ", ", ", s.") + `) is distinct from row(` + s.values + `)`
	return []*db.Stmt{
		db.SQL(`
			with found as materialized (select s.id from spools s, `+from+`)
			select count(*) from (
				select locked.id from (select id from found order by id) ids cross join lateral (
					select id from spools where id = ids.id for no key update
				) locked
			) locked`, id),
		db.SQL(`update spools s set (`+s.columns+`) = row(`+s.values+`), updated_at = now()
			from `+from, id),
	}
}
