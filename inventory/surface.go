package inventory

import (
	"context"
	"encoding/json"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// The functions below change spools, filaments and vendors by number, for the API of Spoolman. The functions with a
// context run several statements in one transaction, which can be part of a larger transaction.

// byNumber is the condition that selects the spool with the number $1, unless it is hidden. The subquery makes
// PostgreSQL use the index of numbers, and not an index of the spools that are not hidden.
const byNumber = `id = (select n.id from spools n where n.number = $1) and hidden_at is null`

// SpoolUse has changes of a spool that Spool cannot express.
type SpoolUse struct {
	// Used is the used weight: the initial weight less the remaining weight. Without it, a change of
	// net_weight_grams alone keeps the used weight.
	Used                value.Optional[value.Decimal]
	FirstUsed, LastUsed value.Optional[value.Timestamp]
}

// Edit returns a statement that changes the spool with the number to the fields of in, and returns the spool's id.
// If the remaining weight changes, the ledger gets an entry. It is at most the initial weight, unless the spool had
// more and keeps it.
func Edit(number int64, in *Spool, use SpoolUse) *db.Stmt {
	remaining := in.Remaining
	others := *in
	others.Remaining = value.Optional[value.Decimal]{}
	set, args := server.Assignments(&others, []any{number})
	add := func(column, value string, arg any) {
		args = append(args, arg)
		if set != "" {
			set += ", "
		}
		set += column + " = " + strings.ReplaceAll(value, "?", parameters(len(args), 1))
	}
	net := "net_weight_grams"
	if !in.NetWeight.IsNull() && (!use.Used.IsNull() || !remaining.IsNull()) {
		args = append(args, in.NetWeight.Arg())
		net = parameters(len(args), 1) + "::numeric"
	}
	switch {
	case !use.Used.IsNull():
		add("remaining_weight_grams", "greatest("+net+" - ?::numeric, 0)", use.Used.Arg())
	case !remaining.IsNull():
		add("remaining_weight_grams", "case when remaining_weight_grams = ?::numeric then remaining_weight_grams "+
			"else least(?::numeric, "+net+") end", remaining.Arg())
	case !in.NetWeight.IsNull():
		add("remaining_weight_grams",
			"greatest(?::numeric - greatest(net_weight_grams - remaining_weight_grams, 0), 0)", in.NetWeight.Arg())
	}
	if use.FirstUsed.Set {
		add("first_used_at", "?::timestamptz", use.FirstUsed.Arg())
	}
	if use.LastUsed.Set {
		add("last_used_at", "?::timestamptz", use.LastUsed.Arg())
	}
	if set == "" {
		set = "hidden_at = null" // the column keeps its value
	}
	return edit(byNumber, "id, remaining_weight_grams", "id, remaining_weight_grams", set, in.Archived.Set, args)
}

// Attach locks the filament that the request names, and makes the request follow it. A new spool also gets the
// weights and the price of the filament; if the filament has no weight, the spool gets the weight otherwise.
func Attach(ctx context.Context, d *db.DB, in *Spool, isNew bool, otherwise value.Decimal) error {
	locked := lockFilaments(in)
	if err := d.Write(ctx, locked); err != nil {
		return err
	}
	filaments, err := byName(locked)
	if err != nil {
		return err
	}
	for _, f := range filaments {
		if f.NetWeight == nil {
			f.NetWeight = &otherwise
		}
	}
	return filaments.attach(in, isNew)
}

// AddSpool creates a spool and returns its number. The spool has at most its initial weight.
func AddSpool(ctx context.Context, d *db.DB, in *Spool, use SpoolUse) (number int64, err error) {
	switch {
	case !use.Used.IsNull():
		in.Remaining = value.Some(max(*in.NetWeight.Value-*use.Used.Value, 0))
	case !in.Remaining.IsNull():
		in.Remaining = value.Some(min(*in.NetWeight.Value, *in.Remaining.Value))
	}
	spools, err := insert(in, 1)
	if err != nil {
		return 0, err
	}
	if err := d.Write(ctx, spools); err != nil {
		return 0, CostError(err)
	}
	number, err = numberOf(spools.Object())
	if err == nil && (use.FirstUsed.Set || use.LastUsed.Set) {
		err = d.Write(ctx, Edit(number, &Spool{}, SpoolUse{FirstUsed: use.FirstUsed, LastUsed: use.LastUsed}))
	}
	return number, err
}

func numberOf(text []byte) (int64, error) {
	var resource struct {
		Number int64 `json:"number"`
	}
	err := json.Unmarshal(text, &resource)
	return resource.Number, err
}

// Hide returns a statement that hides the spool with the number and returns its id.
func Hide(number int64) *db.Stmt {
	return hide(byNumber, number)
}

// MeasureGross returns a statement that sets the remaining weight of the spool to the gross weight less the weight
// of the empty spool, and returns the spool's id. The weight of the empty spool comes from the spool, its filament
// or its vendor, or else is 0. If the result exceeds the initial weight, it becomes the initial weight, too.
func MeasureGross(number int64, gross string) *db.Stmt {
	return db.SQL(`
		with spool as (
			update spools set remaining_weight_grams = greatest(net, 0),
				net_weight_grams = greatest(net_weight_grams, net),
				first_used_at = case when net > net_weight_grams then first_used_at else coalesce(first_used_at, now()) end,
				last_used_at = case when net > net_weight_grams then last_used_at else now() end,
				updated_at = now(), edited_at = now()
			from (
				select id as old_id, remaining_weight_grams as before, $2::numeric - coalesce(nullif(spool_weight_grams, 0),
					(select coalesce(nullif(f.spool_weight_grams, 0), v.empty_spool_weight_grams)
						from filaments f left join vendors v on v.tenant_id = f.tenant_id and v.id = f.vendor_id
						where f.tenant_id = spools.tenant_id and f.id = spools.filament_id), 0) as net
				from spools where `+byNumber+` for no key update
			) old
			where id = old_id
			returning id, before, remaining_weight_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
			select id, 'measured', before, remaining_weight_grams from spool
		)
		select id from spool`, number, gross)
}

// numbered locks the row of a table that has the number, and returns its id.
func numbered(ctx context.Context, d *db.DB, table string, number int64) (id string, err error) {
	row := db.SQL(`select id::text from `+table+` where number = $1 and hidden_at is null
		for no key update`, number).Into(&id)
	return id, server.Found(row, d.Write(ctx, row))
}

// AddVendor creates a vendor and returns its number. If a vendor has the name already, AddVendor fills in the fields
// that this vendor does not have.
func AddVendor(ctx context.Context, d *db.DB, in *Vendor) (number int64, err error) {
	const fill = `set notes = coalesce(v.notes, n.notes), external_id = coalesce(v.external_id, n.external_id),
		empty_spool_weight_grams = coalesce(v.empty_spool_weight_grams, n.empty_spool_weight_grams),
		extra = n.extra || v.extra, updated_at = now()`
	added := db.SQL(`
		with n as (
			select $1::uuid as id, $2::text as name, $3::text as notes, $4::numeric as empty_spool_weight_grams,
				$5::text as external_id, $6::jsonb as extra
		), found as (
			update vendors v `+fill+` from n
			where v.name_key = lower(n.name collate "und-x-icu") collate "C" and v.hidden_at is null returning number
		), added as (
			insert into vendors as v (id, name, notes, empty_spool_weight_grams, external_id, extra)
			select * from n where not exists (select from found)
			-- Another transaction has created the vendor.
			on conflict (tenant_id, name_key) where hidden_at is null and name_key is not null
				do `+strings.ReplaceAll("update "+fill, "n.", "excluded.")+`
			returning number, xmax = 0 as is_new
		)
		select number, 0 from found union all select number, count_rows('vendors', is_new::int) from added`,
		value.NewID(), in.Name.Arg(), in.Notes.Arg(), in.EmptySpoolWeight.Arg(), in.ExternalID.Arg(),
		in.Extra.Or(nil).Values()).Into(&number, nil)
	return number, d.Write(ctx, added)
}

// EditVendor changes the vendor with the number.
func EditVendor(ctx context.Context, d *db.DB, number int64, in Vendor) error {
	id, err := numbered(ctx, d, "vendors", number)
	if err == nil {
		_, err = handlers{d}.changeVendor(ctx, id, in)
	}
	return err
}

var errLargeVendor = server.Conflict("VENDOR_IN_USE",
	"The filaments of the vendor have more than %d spools, or more than %d in stock", maxFollowers, maxStocked)

// RemoveVendor deletes the vendor with the number. Its filaments and their spools then have no vendor.
func RemoveVendor(ctx context.Context, d *db.DB, number int64) error {
	id, err := numbered(ctx, d, "vendors", number)
	if err != nil {
		return err
	}
	var spools, stocked int
	removal := spread{spreadVendor.from, spreadVendor.spools, "brand", "null::text"}
	return d.Decide(ctx, []*db.Stmt{
		db.SQL(`select count_rows('vendors', -1)`), // before the locks of filaments, as when both are created
		db.SQL(`select id from filaments where vendor_id = $1 order by id for no key update`, id),
		removal.counted(id).Into(&spools, &stocked),
	}, func() ([]*db.Stmt, error) {
		if spools > maxFollowers || stocked > maxStocked {
			return nil, errLargeVendor
		}
		return append(append(removal.changes(id, ` and not s.in_stock`), removal.changes(id, "")...),
			db.SQL(`update filaments set vendor_id = null, vendor_name = null, updated_at = now() where vendor_id = $1`, id),
			db.SQL(`delete from vendors where id = $1`, id)), nil
	})
}

// AddFilament creates a filament and returns its number.
func AddFilament(ctx context.Context, d *db.DB, in Filament) (number int64, err error) {
	text, err := handlers{d}.addFilament(ctx, in)
	if err != nil {
		return 0, err
	}
	return numberOf(text)
}

// EditFilament changes the filament with the number, and its spools.
func EditFilament(ctx context.Context, d *db.DB, number int64, in Filament) error {
	id, err := numbered(ctx, d, "filaments", number)
	if err == nil {
		_, err = handlers{d}.changeFilament(ctx, id, in)
	}
	return err
}

// errFilamentInUse is the error of RemoveFilament for a filament that has spools.
var errFilamentInUse = &server.Error{Status: 403, Code: "FILAMENT_IN_USE", Detail: language.Sprintf(
	"The filament still has spools")}

// RemoveFilament removes the filament with the number, unless it has a spool that is not hidden.
func RemoveFilament(ctx context.Context, d *db.DB, number int64) error {
	id, err := numbered(ctx, d, "filaments", number)
	if err != nil {
		return err
	}
	used := db.SQL(`select id from spools where filament_id = $1 and hidden_at is null limit 1`, id)
	if err := d.Write(ctx, used); err != nil {
		return err
	}
	if used.Rows() > 0 {
		return errFilamentInUse
	}
	return handlers{d}.remove(ctx, "filaments", id)
}

// VendorByNumber locks the vendor with a number, and returns its id and the weight of its empty spools.
func VendorByNumber(
	ctx context.Context, d *db.DB, number int64,
) (id value.UUID, weight value.Optional[value.Decimal], err error) {
	var text string
	var grams *string
	row := db.SQL(`select id::text, trim_scale(empty_spool_weight_grams)::text from vendors
		where number = $1 and hidden_at is null for share`, number).Into(&text, &grams)
	if err := server.Found(row, d.Write(ctx, row)); err != nil {
		return "", weight, err
	}
	if grams != nil {
		n, _ := value.ParseDecimal(*grams)
		weight = value.Some(n)
	}
	return value.UUID(text), weight, nil
}

var errManySpools = server.BadRequest("TOO_MANY_SPOOLS", "More than %d spools have this value", maxFollowers)

// RenameLocation moves all spools from one location to another, and returns their number.
func RenameLocation(ctx context.Context, d *db.DB, from, to string) (int, error) {
	return rename(changeEach(ctx, d, "spools", `location = $2 and hidden_at is null`, `location = $3`, from, to))
}

// RenameValue replaces a text of a custom field in all spools that have this text, and returns their number.
func RenameValue(ctx context.Context, d *db.DB, key, from, to string) (int, error) {
	return rename(changeEach(ctx, d, "spools", `extra ->> $2 = $3 and hidden_at is null`,
		`extra = jsonb_set(extra, array[$2], to_jsonb($4::text))`, key, from, to))
}

func rename(n int, err error) (int, error) {
	if err == nil && n > maxFollowers {
		err = errManySpools
	}
	return n, err
}
