package inventory

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// A spool that has a filament follows the filament: the spool has the filament's values in the columns below. The
// table spools stores copies of the values, so that lists, prices and stock levels read no other table. A change of
// a filament changes its spools in the same transaction. A transaction that creates or attaches a spool first locks
// the filament for share.

// Followed lists the columns that a spool copies from its filament.
const Followed = `material_type, material_name, brand, color, color_hex, diameter_mm, density_g_cm3`

// FollowedValues lists the values of these columns; f is the filament.
const FollowedValues = `f.material_type, nullif(f.material_name, ''), f.vendor_name, f.color, left(f.color_hex, 7),
	f.diameter_mm, f.density_g_cm3`

// FollowedFields are the Followed columns of a filament or of a spool, and the defaults of a new spool of the
// filament.
type FollowedFields struct {
	FilamentID   *value.UUID    `json:"filament_id"`
	Number       int64          `json:"number"`
	MaterialType *MaterialType  `json:"material_type"`
	MaterialName *string        `json:"material_name"`
	Brand        *string        `json:"brand"`
	Color        *string        `json:"color"`
	ColorHex     *string        `json:"color_hex"`
	DiameterMM   *value.Decimal `json:"diameter_mm"`
	Density      *value.Decimal `json:"density_g_cm3"`
	NetWeight    *value.Decimal `json:"net_weight_grams"`
	SpoolWeight  *value.Decimal `json:"spool_weight_grams"`
	Price        *value.Decimal `json:"purchase_price"`
}

// ErrUnknownFilament is the error of a request that names a filament which does not exist.
var ErrUnknownFilament = server.BadRequest("UNKNOWN_REFERENCE", "Not a filament: %s", "filament_id").On("filament_id")

var errFilamentField = server.Conflict("FILAMENT_FIELD", "The spool has these fields from its filament: %s. Change "+
	"them with PATCH /api/v1/filaments/{id}, or detach the spool with a filament_id of null", "color").On("color")

// NamesFilament reports whether the request attaches the spool to a filament.
func (s *Spool) NamesFilament() bool { return !s.FilamentID.IsNull() || !s.FilamentNumber.IsNull() }

// mayFollow reports whether a PATCH may depend on a filament: it attaches spools to a filament, or it has Followed
// fields.
func (s *Spool) mayFollow() bool {
	followed := s.MaterialType.Set || s.MaterialName.Set || s.Brand.Set || s.Color.Set || s.ColorHex.Set ||
		s.DiameterMM.Set || s.Density.Set
	return s.NamesFilament() || followed && !s.FilamentID.Set
}

// lockFilaments returns a statement that locks the filaments that the requests name, in the order of their ids,
// until the end of the transaction. The statement returns the fields of these filaments.
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
				select id from filaments where number = n.number
			) f
		)
		select locked.* from (select distinct id from named order by id) ids cross join lateral (
			select id as filament_id, number, material_type, nullif(material_name, '') as material_name,
				vendor_name as brand, color, left(color_hex, 7) as color_hex, diameter_mm, density_g_cm3,
				net_weight_grams, spool_weight_grams, price as purchase_price
			from filaments where id = ids.id and hidden_at is null for share
		) locked`, ids, numbers)
}

// filamentsByName maps ids and numbers to filaments.
type filamentsByName map[string]*FollowedFields

// byName returns the filaments that the statement of lockFilaments locked.
func byName(locked *db.Stmt) (filamentsByName, error) {
	all, err := followedOf(locked)
	found := filamentsByName{}
	for i, f := range all {
		found[string(*f.FilamentID)], found[strconv.FormatInt(f.Number, 10)] = &all[i], &all[i]
	}
	return found, err
}

// attachOne attaches one request to its filament, which the statement has locked.
func attachOne(locked *db.Stmt, s *Spool, isNew bool) error {
	filaments, err := byName(locked)
	if err != nil {
		return err
	}
	return filaments.attach(s, isNew)
}

// AttachAll locks the filaments that the requests name, and makes each request follow its filament, as Attach does.
// isNew reports whether request i creates a spool. The slice has an error or nil for each request.
func AttachAll(ctx context.Context, d *db.DB, spools []*Spool, isNew func(i int) bool) ([]error, error) {
	locked := lockFilaments(spools...)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	filaments, err := byName(locked)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(spools))
	for i, s := range spools {
		errs[i] = filaments.attach(s, isNew(i))
	}
	return errs, nil
}

// checkFollowed checks the changes against each spool that the statement locked.
func checkFollowed(locked *db.Stmt, s *Spool) error {
	all, err := followedOf(locked)
	for i := range all {
		if err == nil {
			err = s.CheckFollowed(&all[i])
		}
	}
	return err
}

// followedOf decodes the rows of a statement.
func followedOf(s *db.Stmt) (all []FollowedFields, err error) {
	return all, json.Unmarshal(s.Array(), &all)
}

// attach makes a spool follow the filament that it names. A new spool without weights or a price also gets these
// from the filament.
func (f filamentsByName) attach(s *Spool, isNew bool) error {
	field, name := "filament_id", string(s.FilamentID.Or(""))
	if s.FilamentID.IsNull() {
		field, name = "filament_number", strconv.FormatInt(*s.FilamentNumber.Value, 10)
	}
	filament := f[name]
	if filament == nil {
		return ErrUnknownFilament.With(field).On(field)
	}
	if err := s.follow(filament); err != nil {
		return err
	}
	set(&s.FilamentID, filament.FilamentID)
	s.FilamentNumber = value.Optional[int64]{}
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

// follow copies the fields of the filament to the request. It returns an error if the request has different values.
func (s *Spool) follow(f *FollowedFields) error {
	if err := s.CheckFollowed(f); err != nil {
		return err
	}
	set(&s.MaterialType, f.MaterialType)
	set(&s.MaterialName, f.MaterialName)
	set(&s.Brand, f.Brand)
	set(&s.Color, f.Color)
	set(&s.ColorHex, f.ColorHex)
	set(&s.DiameterMM, f.DiameterMM)
	set(&s.Density, f.Density)
	return nil
}

// CheckFollowed returns an error if the request changes fields that a spool takes from its filament. f has the fields
// of the filament, or of a spool that follows one.
func (s *Spool) CheckFollowed(f *FollowedFields) error {
	if f.FilamentID == nil {
		return nil
	}
	var changed []string
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"material_type", differs(s.MaterialType, f.MaterialType)},
		{"material_name", differs(s.MaterialName, f.MaterialName)},
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

// differs reports whether the request sends the field with another value.
func differs[T comparable](field value.Optional[T], value *T) bool {
	return field.Set && (field.IsNull() != (value == nil) || value != nil && *field.Value != *value)
}

func set[T any](field *value.Optional[T], to *T) {
	*field = value.Optional[T]{Set: true, Value: to}
}

func inherit[T any](field *value.Optional[T], value *T) {
	if !field.Set {
		set(field, value)
	}
}

// A change of a filament or of a vendor changes at most maxFollowers spools, of which at most maxStocked are in
// stock. Deductions from spools in stock wait for the change.
const (
	maxFollowers = 10_000
	maxStocked   = 2_000
)

// spread tells which columns of spools change with the filament or vendor that has the id $1.
type spread struct {
	from            string // the table f that has the change
	spools          string // a condition: the spools s that follow it
	columns, values string // the columns of spools, and what they become
}

var (
	spreadFilament = spread{"filaments", `s.filament_id = $1::uuid`, Followed, FollowedValues}
	spreadVendor   = spread{"vendors",
		`s.filament_id = any (array(select id from filaments where vendor_id = $1::uuid))`, `brand`, `f.name`}
)

// run runs update, which changes a filament or a vendor, and then changes the spools. The update locks the
// filaments, so that no other transaction attaches a spool meanwhile. fields are the changed fields that spools
// follow. result returns the filament or vendor. run calls check after update and the first run of result.
func (s spread) run(ctx context.Context, d *db.DB, id string, fields []string, update, result *db.Stmt,
	check func() error,
) error {
	var spools, stocked int
	err := d.Decide(ctx, []*db.Stmt{update, s.counted(id).Into(&spools, &stocked), result},
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
	return FilamentError(err, fields...)
}

// FilamentError converts the violation of catalog/variants.sql that too many variants of products would change with a
// filament, whose fields of the request change.
func FilamentError(err error, fields ...string) error {
	if !db.Violates(err, "products_variant_limit") {
		return err
	}
	var problems server.Problems
	for _, name := range fields {
		problems.Add(name, "cannot be changed: more than 5,000 variants of products are of the filament")
	}
	return server.AsError(problems.Err()).Because(err)
}

// counted returns a statement that counts all the spools and the spools in stock, each up to maxFollowers+1.
func (s spread) counted(id string) *db.Stmt {
	return db.SQL(`
		select count(*), count(*) filter (where in_stock)
		from (select s.in_stock from spools s where `+s.spools+` limit $2) followers`, id, maxFollowers+1)
}

// changes returns statements that change the spools that the condition selects. They lock these spools in the order
// of their ids, as other operations on several spools do.
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

// SpreadVendors copies the new names of vendors to their filaments and spools.
func SpreadVendors(ctx context.Context, d *db.DB, vendors []string) error {
	if len(vendors) == 0 {
		return nil
	}
	named := db.SQL(`
		update filaments f set vendor_name = v.name, updated_at = now()
		from unnest($1::uuid[]) n (id) cross join lateral (
			select id, name from vendors where id = n.id
		) v
		where f.vendor_id = v.id and f.vendor_id = any ($1::uuid[]) and f.vendor_name <> v.name
		returning f.id`, vendors)
	if err := d.Write(ctx, named); err != nil {
		return err
	}
	changed, err := transfer.StoredRows(named)
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range changed {
		ids = append(ids, s.Text("id"))
	}
	return SpreadFilaments(ctx, d, ids)
}

// SpreadFilaments copies changed fields of filaments to their spools. The error is a 422 if there are too many
// spools.
func SpreadFilaments(ctx context.Context, d *db.DB, filaments []string) error {
	if len(filaments) == 0 {
		return nil
	}
	var spools, stocked int
	if err := d.Read(ctx, db.SQL(`
		select count(*), count(*) filter (where in_stock)
		from (select s.in_stock from spools s where s.filament_id = any ($1::uuid[]) limit $2) followers`,
		filaments, maxFollowers+1).Into(&spools, &stocked)); err != nil {
		return err
	}
	if spools > maxFollowers || stocked > maxStocked {
		return server.Invalid("rows", "change more than %d spools, or more than %d in stock", maxFollowers, maxStocked)
	}
	slices.Sort(filaments)
	for batch := range slices.Chunk(filaments, 100) {
		var changes []*db.Stmt
		for _, id := range batch {
			changes = append(changes, spreadFilament.changes(id, "")...)
		}
		if err := d.Write(ctx, changes...); err != nil {
			return err
		}
	}
	return nil
}
