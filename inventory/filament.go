package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// FilamentsTag is the tag of the operations on filaments.
var FilamentsTag = &server.Tag{
	Name: "filaments", Fields: fields,
	Description: "Filaments as they are bought: the material, color and price that their spools have.",
}

func (h handlers) filamentRoutes() []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/filaments", server.Read,
			server.HandleList[Filament](h.db, filamentFilter.list), listFilamentsDoc),
		server.Op("POST /api/v1/filaments", server.Write, server.Handle(h.createFilament), createFilamentDoc),
		server.Op("PATCH /api/v1/filaments", server.Write, server.HandleUpdates[SeveralFilaments](h.db,
			errUnknownFilaments, h.updateFilament), updateSeveralFilamentsDoc),
		server.Op("POST /api/v1/filaments/batch", server.Write, server.HandleBatch[SeveralFilaments](h.db, h.createFilament),
			createSeveralFilamentsDoc),
		server.Op("GET /api/v1/filaments/export", server.Read, exportFilaments.Handle(h.db, "filaments"),
			exportFilamentsDoc),
		server.Op("GET /api/v1/filaments/{id}", server.Read,
			server.HandleGet[Filament](h.db, selectFilament), getFilamentDoc).Versioned(lockFilament),
		server.Op("PATCH /api/v1/filaments/{id}", server.Write, server.Handle(h.updateFilament), updateFilamentDoc),
		server.Op("DELETE /api/v1/filaments/{id}", server.Write, server.Handle(h.deleteFilament), deleteFilamentDoc),
		server.Op("POST /api/v1/filaments/{id}/restore", server.Write, server.Handle(h.restoreFilament),
			restoreFilamentDoc),
		server.Op("POST /api/v1/filaments/{id}/spools", server.Write, server.Handle(h.addFilamentSpools),
			addFilamentSpoolsDoc),
	}
}

// ColorArrangement tells how the colors of a filament with several colors are arranged.
type ColorArrangement string

// Enum returns all arrangements: side by side, or one after the other.
func (ColorArrangement) Enum() []string { return []string{"coaxial", "longitudinal"} }

// Filament is a kind of filament in requests and responses.
type Filament struct {
	ID                  value.UUID                       `json:"id" rule:"readOnly,notNull"`
	Number              int64                            `json:"number" rule:"readOnly,notNull"`
	VendorID            value.Optional[value.UUID]       `json:"vendor_id"`
	Vendor              value.Optional[string]           `json:"vendor" rule:"writeOnly,notNull,minLength=1,insteadOf=vendor_id,optional"`
	VendorName          string                           `json:"vendor_name" rule:"readOnly"`
	Name                value.Optional[string]           `json:"name"`
	MaterialType        value.Optional[MaterialType]     `json:"material_type" rule:"required"`
	MaterialName        value.Optional[string]           `json:"material_name"`
	Color               value.Optional[string]           `json:"color" rule:"required"`
	ColorHex            value.Optional[string]           `json:"color_hex" rule:"format=alphaColor"`
	ColorHexes          value.Optional[value.Colors]     `json:"color_hexes" rule:"notNull,format=alphaColor"`
	ColorArrangement    value.Optional[ColorArrangement] `json:"color_arrangement"`
	DiameterMM          value.Optional[value.Decimal]    `json:"diameter_mm" rule:"required,enum=1.75|2.85"`
	Density             value.Optional[value.Decimal]    `json:"density_g_cm3" rule:"exclusiveMinimum=0,maximum=100"`
	NetWeight           value.Optional[value.Decimal]    `json:"net_weight_grams" rule:"exclusiveMinimum=0,maximum=1000000"`
	SpoolWeight         value.Optional[value.Decimal]    `json:"spool_weight_grams" rule:"maximum=1000000"`
	Price               value.Optional[value.Decimal]    `json:"price" rule:"maximum=1000000"`
	ExtruderTemperature value.Optional[int64]            `json:"extruder_temperature_c" rule:"maximum=1000"`
	BedTemperature      value.Optional[int64]            `json:"bed_temperature_c" rule:"maximum=1000"`
	ArticleNumber       value.Optional[string]           `json:"article_number"`
	URL                 value.Optional[string]           `json:"url" rule:"maxLength=2000,format=link"`
	ExternalID          value.Optional[string]           `json:"external_id"`
	Notes               value.Optional[string]           `json:"notes" rule:"maxLength=10000"`
	Extra               value.Optional[value.Extra]      `json:"extra" rule:"notNull,unsorted"`
	SpoolCount          int64                            `json:"spool_count" rule:"readOnly,notNull"`
	Remaining           value.Decimal                    `json:"remaining_grams" rule:"readOnly,notNull"`
	CreatedAt           value.Timestamp                  `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt           value.Timestamp                  `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt            value.Timestamp                  `json:"hidden_at" rule:"readOnly"`
	HiddenBy            value.UUID                       `json:"hidden_by" rule:"readOnly"`
	Hider               string                           `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

// The table stores an empty string for a name or a material that clients of the API of Spoolman left out.
const filamentColumns = `id, number, vendor_id, vendor_name, nullif(name, '') as name, material_type,
	nullif(material_name, '') as material_name, color, color_hex,
	array_to_json(color_hexes) as color_hexes, color_arrangement, diameter_mm, density_g_cm3, net_weight_grams,
	spool_weight_grams, price, extruder_temperature_c, bed_temperature_c, article_number, url, external_id, notes,
	extra, spool_count, remaining_grams, created_at, updated_at, hidden_at, ` + auth.HiddenBy

// filamentsTable is filaments with the number and the weight of each filament's spools in stock; see vendorsTable.
var filamentsTable = withQuantities("filaments", `spools s where s.filament_id = t.id and `+inStock)

type filamentFilter struct {
	server.ExtraFilter
	Number        value.Optional[int64]                   `query:"number" rule:"minimum=1,maximum=999999999"`
	VendorID      value.Optional[value.UUID]              `query:"vendor_id"`
	Vendor        value.Optional[string]                  `query:"vendor"`
	MaterialType  value.Optional[value.Set[MaterialType]] `query:"material_type"`
	Color         value.Optional[string]                  `query:"color"`
	ArticleNumber value.Optional[string]                  `query:"article_number"`
	ExternalID    value.Optional[string]                  `query:"external_id"`
	CreatedFrom   value.Optional[value.Moment]            `query:"created_from"`
	CreatedTo     value.Optional[value.Moment]            `query:"created_to"`
	Search        value.Optional[string]                  `query:"search" rule:"search"`
	server.Hiding
}

var listFilamentsDoc = &server.Doc{
	ID: "listFilaments", Tag: FilamentsTag, Summary: "List filaments",
	Description: "All filters but `search` use an index. `search`, `extra.KEY` and a `sort_by` without an index " +
		"read all matching filaments. A parameter `extra.KEY`, such as `extra.tag`, selects those in which the " +
		"custom field has this value, not case-sensitive.",
}

const filamentByNumber = `select id from filaments where number = ?`

func (f filamentFilter) list() *server.List {
	l := server.NewHidingList(filamentsTable, filamentColumns, "filaments", f.Hiding)
	l.Computed()
	l.CountOrdered() // several indexes begin with the tenant and have no other condition
	l.Among(filamentByNumber, f.Number)
	l.WhereEqual("vendor_id", f.VendorID)
	l.WhereText("vendor_key", f.Vendor)
	l.WhereEach("material_type", f.MaterialType)
	l.WhereText("color_key", f.Color)
	l.WhereText("article_number_key", f.ArticleNumber)
	l.WhereText("external_id_key", f.ExternalID)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.WhereExtra(f.ExtraFilter)
	l.SearchNumbered(f.Search, filamentByNumber)
	return l
}

var getFilamentDoc = &server.Doc{
	ID: "getFilament", Tag: FilamentsTag, Summary: "Get a filament",
	Description: "Returns the filament with the quantities of its spools in stock, which are part of its `ETag`.",
}

func selectFilament(id string) *db.Stmt {
	return db.SQL(`select `+filamentColumns+` from `+filamentsTable+` where id = $1 and hidden_at is null`, id)
}

var errUnknownVendor = server.BadRequest("UNKNOWN_REFERENCE", "Not the id of a vendor: vendor_id").On("vendor_id")

const vendorRules = "`vendor` names the vendor instead of `vendor_id`, without regard to case; if there is none " +
	"with the name, it is created."

var lockFilament = server.LockRow("filaments")

// namedVendor returns CTEs, and args with further arguments appended. The last CTE, vendor, has the id and the name
// of the vendor that the request names. The CTE locks the vendor until the end of the transaction, so that its name
// does not change. namedVendor returns "" if the request names no vendor.
func namedVendor(in *Filament, args []any) (string, []any) {
	n := len(args)
	switch {
	case !in.VendorID.IsNull():
		return fmt.Sprintf(`with vendor as materialized (
			select id, name from vendors where id = $%d::uuid and hidden_at is null for share
		) `, n+1), append(args, in.VendorID.Arg())
	case in.Vendor.IsNull():
		return "", args
	}
	return fmt.Sprintf(`with found as materialized (
			select id, name from vendors
			where name_key = lower($%[2]d::text collate "und-x-icu") collate "C" and hidden_at is null for share
		), added as (
			insert into vendors (id, name) select $%[1]d::uuid, $%[2]d::text where not exists (select from found)
			-- Another transaction has created the vendor. The update locks it, and returns it.
			on conflict (tenant_id, name_key) where hidden_at is null and name_key is not null
				do update set name = vendors.name
			returning id, name, xmax = 0 as is_new
		), vendor as materialized (
			select id, name from found
			union all
			select id, name from added where count_rows('vendors', is_new::int) is not null
		) `, n+1, n+2), append(args, value.NewID(), in.Vendor.Arg())
}

var createFilamentDoc = &server.Doc{
	ID: "createFilament", Tag: FilamentsTag, Summary: "Create a filament", Description: vendorRules,
	Errors: []*server.Error{errUnknownVendor},
}

// filamentInputs are the columns that requests set, except vendor_id.
var filamentInputs = slices.DeleteFunc(server.SchemaOf[Filament]().Writable(),
	func(name string) bool { return name == "vendor_id" })

func (h handlers) createFilament(
	ctx context.Context, r *server.Request[Filament],
) (ok server.Created[Filament], err error) {
	err = withExtra(ctx, h.db, "filament", r.In.Extra, func(ctx context.Context) error {
		ok, err = h.addFilament(ctx, r.In)
		return err
	})
	return ok, err
}

func (h handlers) addFilament(ctx context.Context, in Filament) (server.Created[Filament], error) {
	id, row := value.NewID(), server.Row(&in)
	row["color_hexes"] = []string(in.ColorHexes.Or(value.Colors{}))
	row["extra"] = in.Extra.Or(nil).Values()
	args := []any{id}
	for _, name := range filamentInputs {
		args = append(args, row[name])
	}
	columns, values := strings.Join(filamentInputs, ", "), parameters(2, len(filamentInputs))
	with, args := namedVendor(&in, args)
	if with != "" {
		columns, values = columns+", vendor_id, vendor_name", values+", vendor.id, vendor.name from vendor"
	}
	created := db.SQL(with+`insert into filaments (id, number, `+columns+`)
		select $1::uuid, next_number('filaments', 1, 1), `+values+` returning id`, args...)
	filament := selectFilament(id)
	if err := h.db.Write(ctx, created, filament); err != nil {
		return nil, err
	}
	if created.Rows() == 0 {
		return nil, errUnknownVendor
	}
	return server.One(filament, nil)
}

const spreadRules = "The spools of the filament change with it, in the same transaction: their `material_type`, " +
	"`material_name`, `brand` (the name of the vendor), `color`, `color_hex`, `diameter_mm`, `density_g_cm3` and " +
	"`updated_at`, also " +
	"those of archived and removed spools. A filament with more than 10,000 spools, or 2,000 in stock, or of more than " +
	"5,000 variants of products, keeps these fields (`422`)."

var updateFilamentDoc = &server.Doc{
	ID: "updateFilament", Tag: FilamentsTag, Summary: "Update a filament",
	Description: spreadRules + "\n\n" + vendorRules,
	Errors:      []*server.Error{errUnknownVendor},
}

func (h handlers) updateFilament(
	ctx context.Context, r *server.Request[Filament],
) (ok server.OK[Filament], err error) {
	err = withExtra(ctx, h.db, "filament", r.In.Extra, func(ctx context.Context) error {
		ok, err = h.changeFilament(ctx, r.ID("id"), r.In)
		return err
	})
	return ok, err
}

func (h handlers) changeFilament(ctx context.Context, id string, in Filament) (server.OK[Filament], error) {
	filament := selectFilament(id)
	with, args := namedVendor(&in, []any{id})
	removed := in.VendorID.Set && in.VendorID.IsNull()
	in.VendorID.Set = false
	set, args := server.Assignments(&in, args)
	condition := ""
	switch {
	case with != "":
		set = strings.TrimPrefix(set+", "+`vendor_id = (select id from vendor),
			vendor_name = (select name from vendor)`, ", ")
		condition = " and exists (select from vendor)"
	case removed:
		set = strings.TrimPrefix(set+", vendor_id = null, vendor_name = null", ", ")
	case set == "":
		return server.One(filament, h.db.Read(ctx, filament))
	}
	updated := db.SQL(with+`update filaments set `+set+`, updated_at = now()
		where id = $1::uuid and hidden_at is null`+condition+` returning id`, args...)
	var fields []string
	for name, isSet := range map[string]bool{"vendor_id": with != "" && in.Vendor.IsNull() || removed,
		"vendor": !in.Vendor.IsNull(), "material_type": in.MaterialType.Set,
		"material_name": in.MaterialName.Set, "color": in.Color.Set,
		"color_hex": in.ColorHex.Set, "diameter_mm": in.DiameterMM.Set, "density_g_cm3": in.Density.Set} {
		if isSet {
			fields = append(fields, name)
		}
	}
	if fields == nil {
		return server.One(filament, h.db.Write(ctx, updated, filament))
	}
	slices.Sort(fields)
	err := spreadFilament.run(ctx, h.db, id, fields, updated, filament, func() error {
		if updated.Rows() == 0 && filament.Rows() > 0 {
			return errUnknownVendor
		}
		return nil
	})
	return server.One(filament, err)
}

var deleteFilamentDoc = &server.Doc{
	ID: "deleteFilament", Tag: FilamentsTag, Summary: "Remove a filament",
	Description: "Deletes the filament. If spools are of it, or products name it, it is hidden instead: lists no " +
		"longer contain it, requests with its id return 404, and its spools and the materials of products stay as they " +
		"are. `GET /api/v1/filaments?hidden=true` " +
		"lists hidden filaments, and `restoreFilament` shows one again.",
}

func (h handlers) deleteFilament(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	return nil, h.remove(ctx, "filaments", r.ID("id"))
}

var restoreFilamentDoc = &server.Doc{
	ID: "restoreFilament", Tag: FilamentsTag, Summary: "Restore a removed filament",
	Description: "Shows a filament again that was hidden when it was removed. For a filament that is not hidden, " +
		"the operation changes nothing and returns the filament.",
}

func (h handlers) restoreFilament(ctx context.Context, r *server.Request[struct{}]) (server.OK[Filament], error) {
	id := r.ID("id")
	filament := selectFilament(id)
	// The lock makes restore wait for a running delete.
	return server.One(filament, h.db.Write(ctx, lockFilament(id)[0], server.Restored("filaments", id), filament))
}

// FilamentSpools is the body of a request that creates equal spools of a filament.
type FilamentSpools struct {
	Quantity      value.Optional[int64]         `json:"quantity" rule:"required,writeOnly,minimum=1,maximum=100"`
	Finish        value.Optional[string]        `json:"finish"`
	NetWeight     value.Optional[value.Decimal] `json:"net_weight_grams" rule:"notNull,exclusiveMinimum=0,maximum=1000000"`
	Remaining     value.Optional[value.Decimal] `json:"remaining_weight_grams" rule:"notNull,maximum=1000000"`
	SpoolWeight   value.Optional[value.Decimal] `json:"spool_weight_grams" rule:"maximum=1000000"`
	PurchasePrice value.Optional[value.Decimal] `json:"purchase_price" rule:"maximum=1000000"`
	Supplier      value.Optional[string]        `json:"supplier"`
	PurchaseDate  value.Optional[value.Date]    `json:"purchase_date"`
	Notes         value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Location      value.Optional[string]        `json:"location"`
	LotNumber     value.Optional[string]        `json:"lot_number"`
	Archived      value.Optional[bool]          `json:"archived" rule:"notNull"`
}

var addFilamentSpoolsDoc = &server.Doc{
	ID: "addFilamentSpools", Tag: FilamentsTag, Summary: "Create spools of a filament",
	Description: "Creates `quantity` equal spools of the filament, all or none, as `createSpoolBatch` does. " +
		"`net_weight_grams`, `spool_weight_grams` and `purchase_price` are those of the filament by default. " +
		initialWeight + " The `Location` is the filament.",
}

func (h handlers) addFilamentSpools(
	ctx context.Context, r *server.Request[FilamentSpools],
) (server.Created[CreatedSpools], error) {
	in := &r.In
	spools, err := h.insert(ctx, Spool{
		FilamentID: value.Some(value.UUID(r.ID("id"))), Finish: in.Finish, NetWeight: in.NetWeight,
		Remaining: in.Remaining, SpoolWeight: in.SpoolWeight, PurchasePrice: in.PurchasePrice, Supplier: in.Supplier,
		PurchaseDate: in.PurchaseDate, Notes: in.Notes, Location: in.Location, LotNumber: in.LotNumber,
		Archived: in.Archived,
	}, *in.Quantity.Value)
	if e, ok := errors.AsType[*server.Error](err); ok && e.Code == ErrUnknownFilament.Code {
		return nil, server.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return createdSpools(spools), nil
}

var exportFilaments = transfer.Export[Filament]("filaments", 500, transfer.ListPage(filamentFilter.list,
	`select `+filamentColumns+` from `+filamentsTable+` where id = page.id`))

var exportFilamentsDoc = &server.Doc{
	ID: "exportFilaments", Tag: FilamentsTag, Summary: "Export filaments",
	Description: transfer.ExportDescription +
		"filament, oldest first, which `POST /api/v1/filaments/import` can read; several colors are separated by " +
		"commas.",
}

// NearestDiameter returns the standard diameter of a filament in mm, 1.75 or 2.85. Filament that is sold as 3 mm is
// 2.85 mm thick. ok is false if d is not close to a standard diameter.
func NearestDiameter(d value.Decimal) (nearest value.Decimal, ok bool) {
	const tenth = 100_000
	switch {
	case d >= 1_750_000-tenth && d <= 1_750_000+tenth:
		return 1_750_000, true
	case d >= 2_850_000-tenth && d <= 3_000_000+tenth:
		return 2_850_000, true
	}
	return 0, false
}

// SeveralFilaments is the result of a request on several filaments.
type SeveralFilaments struct {
	Items []Filament `json:"items" rule:"readOnly,notNull"`
}

var errUnknownFilaments = server.BadRequest("UNKNOWN_REFERENCE", "Not a filament: %s", "items[1].id").On("items[1].id")

var (
	createSeveralFilamentsDoc = server.BatchDoc(createFilamentDoc, "filaments",
		`{"items":[{"material_type":"PLA","color":"Black","diameter_mm":1.75},`+
			`{"material_type":"PETG","color":"Red","diameter_mm":1.75}]}`)
	updateSeveralFilamentsDoc = server.UpdatesDoc(updateFilamentDoc, "filament", errUnknownFilaments,
		`{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"price":24.9}}]}`)
)
