package imports

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// FromSpools is the request to create filaments from spools that have none.
type FromSpools struct {
	DryRun value.Optional[bool] `json:"dry_run"`
}

// FromSpoolsResult lists the changes of the request.
type FromSpoolsResult struct {
	VendorsCreated   int64              `json:"vendors_created" rule:"notNull"`
	FilamentsCreated int64              `json:"filaments_created" rule:"notNull"`
	SpoolsChanged    int64              `json:"spools_changed" rule:"notNull"`
	HasMore          bool               `json:"has_more" rule:"notNull"`
	DryRun           bool               `json:"dry_run" rule:"notNull"`
	Items            []FilamentOfSpools `json:"items"`
}

// FilamentOfSpools is a filament that the request created or found for spools.
type FilamentOfSpools struct {
	ID           *value.UUID            `json:"id"`
	Number       *int64                 `json:"number"`
	Action       transfer.ImportAction  `json:"action" rule:"notNull"`
	VendorName   *string                `json:"vendor_name"`
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	MaterialName *string                `json:"material_name"`
	Color        string                 `json:"color" rule:"notNull"`
	ColorHex     *string                `json:"color_hex"`
	DiameterMM   value.Decimal          `json:"diameter_mm" rule:"notNull"`
	Spools       int64                  `json:"spools" rule:"notNull"`
}

var filamentsFromSpoolsDoc = &server.Doc{
	ID: "createFilamentsFromSpools", Tag: filamentsTag, Summary: "Create filaments from spools",
	Description: "Assigns filaments to spools without one: spools with equal `material_type`, `material_name`, " +
		"`brand`, `color`, `color_hex`, `diameter_mm` and `density_g_cm3` get the same filament, ignoring case. It is " +
		"the existing filament with these values or, if there is none, a new filament with the weights and the price " +
		"of the newest spool. Missing vendors are created. Spools that differ in case get the text of the filament. " +
		"Removed spools stay as they are.\n\nA request changes at most 2,000 spools, in the order of their numbers, " +
		"in one transaction. `has_more` tells that there are further ones: repeat the request. Repeated requests make " +
		"nothing twice.",
	Request: `{"dry_run":false}`,
}

// maxFromSpools is the maximum number of spools that a request changes. Deductions from these spools wait for the
// request.
const maxFromSpools = 2_000

// filamentOfSpools are the columns of a new filament that its spools determine.
var filamentOfSpools = strings.Split("vendor_id vendor_name material_type material_name color color_hex diameter_mm "+
	"density_g_cm3 net_weight_grams spool_weight_grams price", " ")

// spoolGroup is a group of equal spools without a filament.
type spoolGroup struct {
	newest struct {
		ID          string
		Number      int64
		BrandKey    *string `json:"brand_key"`
		ColorKey    string  `json:"color_key"`
		MaterialKey string  `json:"material_key"`
		inventory.FollowedFields
	}
	ids    []string
	vendor vendorName
	id     string // of the filament
}

func (h handlers) filamentsFromSpools(
	ctx context.Context, r *server.Request[FromSpools],
) (server.OK[FromSpoolsResult], error) {
	var result FromSpoolsResult
	err := h.db.Tx(ctx, func(ctx context.Context) (err error) {
		result, err = fromSpools(ctx, h.db, r.In.DryRun.Or(false))
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(result)
}

// fromSpools creates filaments from spools in the transaction of ctx.
func fromSpools(ctx context.Context, d *db.DB, dryRun bool) (result FromSpoolsResult, err error) {
	result.DryRun, result.Items = dryRun, []FilamentOfSpools{}
	// Only one such transaction of a tenant runs at a time, so that two transactions do not create filaments from the
	// same spools.
	alone := db.SQL(`select pg_advisory_xact_lock(hashtextextended('filaments of spools ' || $1::text, 0))::text`,
		db.ActorOf(ctx).Tenant)
	const free = "computed_filament is not null and hidden_at is null" // spools without a filament, as an index has it
	locked := server.LockRows("spools", `id, number, brand_key, color_key, material_key, `+inventory.Followed+`,
			net_weight_grams, spool_weight_grams, purchase_price`,
		`select id from spools where `+free+` order by number limit $1`, free, maxFromSpools+1)
	if err := d.Write(ctx, alone, locked); err != nil {
		return result, err
	}
	groups, more, err := groupSpools(locked.Array())
	if err != nil || len(groups) == 0 {
		return result, err
	}
	result.HasMore = more
	if result.VendorsCreated, err = findVendors(ctx, d, groups, dryRun); err != nil {
		return result, err
	}
	found, err := findFilaments(ctx, d, groups)
	if err != nil {
		return result, err
	}
	var spools, filaments []string
	var created []map[string]any
	for i, g := range groups {
		f := &g.newest
		item := FilamentOfSpools{Action: "unchanged", VendorName: g.vendor.Name, MaterialType: *f.MaterialType,
			MaterialName: f.MaterialName, Color: *f.Color, ColorHex: f.ColorHex, DiameterMM: *f.DiameterMM,
			Spools: int64(len(g.ids))}
		if match, ok := found[i]; ok {
			g.id = string(match.ID)
			item.ID, item.Number, item.Color, item.ColorHex = &match.ID, &match.Number, match.Color, match.ColorHex
		} else {
			g.id, item.Action = value.NewID(), "created"
			result.FilamentsCreated++
			created = append(created, map[string]any{
				"id": g.id, "vendor_id": g.vendor.ID, "vendor_name": g.vendor.Name, "material_type": f.MaterialType,
				"material_name": f.MaterialName, "color": f.Color, "color_hex": f.ColorHex, "diameter_mm": f.DiameterMM,
				"density_g_cm3":    f.Density,
				"net_weight_grams": f.NetWeight, "spool_weight_grams": f.SpoolWeight, "price": f.Price})
		}
		result.SpoolsChanged += item.Spools
		result.Items = append(result.Items, item)
		for _, id := range g.ids {
			spools, filaments = append(spools, id), append(filaments, g.id)
		}
	}
	if dryRun {
		return result, nil
	}
	if err := insertRows(ctx, d, "filaments", filamentOfSpools, created); err != nil {
		return result, err
	}
	for i, g := range groups {
		if item := &result.Items[i]; item.ID == nil {
			id, number := value.UUID(g.id), int64(created[0]["number"].(int))
			item.ID, item.Number, created = &id, &number, created[1:]
		}
	}
	return result, d.Write(ctx, db.SQL(`
		update spools s set filament_id = f.id, (`+inventory.Followed+`) = row(`+inventory.FollowedValues+
		`), updated_at = now(), edited_at = now()
		from unnest($1::uuid[], $2::uuid[]) l (id, filament_id) cross join lateral (
			select * from filaments where id = l.filament_id
		) f
		where s.id = l.id and s.id = any ($1::uuid[])`, spools, filaments))
}

// groupSpools groups equal spools and returns the groups in the order of their lowest numbers. more reports whether
// there are further spools.
func groupSpools(locked []byte) (groups []*spoolGroup, more bool, err error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(locked, &rows); err != nil {
		return nil, false, err
	}
	spools := make([]*spoolGroup, len(rows))
	for i, row := range rows {
		spools[i] = &spoolGroup{}
		if err := json.Unmarshal(row, &spools[i].newest); err != nil {
			return nil, false, err
		}
	}
	slices.SortFunc(spools, func(a, b *spoolGroup) int { return int(a.newest.Number - b.newest.Number) })
	if more = len(spools) > maxFromSpools; more {
		spools = spools[:maxFromSpools]
	}
	byKey := map[[5]string]*spoolGroup{}
	for _, first := range spools {
		s := &first.newest
		if s.BrandKey != nil && strings.TrimSpace(*s.BrandKey) == "" {
			s.Brand, s.BrandKey = nil, nil
		}
		key := [5]string{s.MaterialKey, value.OrZero(s.BrandKey), s.ColorKey, strings.ToUpper(value.OrZero(s.ColorHex)),
			s.DiameterMM.String()}
		if s.Density != nil {
			key[4] += " " + s.Density.String()
		}
		g := byKey[key]
		if g == nil {
			g = first
			byKey[key] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, s.ID)
		g.newest = *s
	}
	return groups, more, nil
}

// findVendors sets the vendors of the groups, and returns how many vendors it created, or would create in a dry run.
func findVendors(ctx context.Context, d *db.DB, groups []*spoolGroup, dryRun bool) (created int64, err error) {
	var names []string
	var of []*spoolGroup
	for _, g := range groups {
		if g.newest.Brand != nil {
			names, of = append(names, *g.newest.Brand), append(of, g)
		}
	}
	vendors, added, err := nameVendors(ctx, d, names, dryRun)
	for i, g := range of {
		if err == nil {
			g.vendor = vendors[i]
		}
	}
	return int64(len(added)), err
}

// foundFilament is an existing filament that matches a group of spools.
type foundFilament struct {
	N        int        `json:"n"`
	ID       value.UUID `json:"id"`
	Number   int64      `json:"number"`
	Color    string     `json:"color"`
	ColorHex *string    `json:"color_hex"`
}

// findFilaments locks the existing filaments that match groups, and returns them by the index of the group.
func findFilaments(ctx context.Context, d *db.DB, groups []*spoolGroup) (map[int]foundFilament, error) {
	wanted := make([]map[string]any, len(groups))
	for i, g := range groups {
		f := &g.newest
		wanted[i] = map[string]any{"n": i, "material_type": f.MaterialType,
			"material_key": f.MaterialKey, "color_key": f.ColorKey,
			"vendor_key": f.BrandKey, "color_hex": f.ColorHex, "diameter_mm": f.DiameterMM, "density_g_cm3": f.Density}
	}
	list, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	locked := db.SQL(`
		select w.n, f.* from json_to_recordset($1::json) w (n int, material_type text, material_key text, color_key text,
			vendor_key text,
			color_hex text, diameter_mm numeric, density_g_cm3 numeric)
		cross join lateral (
			select id, number, color, color_hex from filaments
			where color_key = w.color_key and hidden_at is null and material_type = w.material_type
				and vendor_key is not distinct from w.vendor_key and upper(color_hex) is not distinct from upper(w.color_hex)
				and diameter_mm = w.diameter_mm and density_g_cm3 is not distinct from w.density_g_cm3
				and material_key(material_type, material_name, diameter_mm) = w.material_key
			order by created_at, id limit 1 for share
		) f`, string(list))
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	var rows []foundFilament
	found := map[int]foundFilament{}
	err = json.Unmarshal(locked.Array(), &rows)
	for _, row := range rows {
		found[row.N] = row
	}
	return found, err
}
