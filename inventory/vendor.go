package inventory

import (
	"context"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// VendorsTag is the tag of the operations on vendors.
var VendorsTag = &server.Tag{Name: "vendors", Fields: fields, Description: "The manufacturers of filament."}

func (h handlers) vendorRoutes() []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/vendors", server.Read,
			server.HandleList[Vendor](h.db, vendorFilter.list), listVendorsDoc),
		server.Op("POST /api/v1/vendors", server.Write, server.Handle(h.createVendor), createVendorDoc),
		server.Op("GET /api/v1/vendors/export", server.Read, exportVendors.Handle(h.db, "vendors"),
			exportVendorsDoc),
		server.Op("GET /api/v1/vendors/{id}", server.Read, server.HandleGet[Vendor](h.db, selectVendor), getVendorDoc).
			Versioned(server.LockRow("vendors")),
		server.Op("PATCH /api/v1/vendors/{id}", server.Write, server.Handle(h.updateVendor), updateVendorDoc),
		server.Op("DELETE /api/v1/vendors/{id}", server.Write, server.Handle(h.deleteVendor), deleteVendorDoc),
		server.Op("POST /api/v1/vendors/{id}/restore", server.Write, server.Handle(h.restoreVendor), restoreVendorDoc),
	}
}

// Vendor is a manufacturer of filament in requests and responses.
type Vendor struct {
	ID               value.UUID                    `json:"id" rule:"readOnly,notNull"`
	Number           int64                         `json:"number" rule:"readOnly,notNull"`
	Name             value.Optional[string]        `json:"name" rule:"required"`
	Notes            value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	EmptySpoolWeight value.Optional[value.Decimal] `json:"empty_spool_weight_grams" rule:"maximum=1000000"`
	ExternalID       value.Optional[string]        `json:"external_id"`
	Extra            value.Optional[value.Extra]   `json:"extra" rule:"notNull,unsorted"`
	SpoolCount       int64                         `json:"spool_count" rule:"readOnly,notNull"`
	Remaining        value.Decimal                 `json:"remaining_grams" rule:"readOnly,notNull"`
	CreatedAt        value.Timestamp               `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt        value.Timestamp               `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt         value.Timestamp               `json:"hidden_at" rule:"readOnly"`
	HiddenBy         value.UUID                    `json:"hidden_by" rule:"readOnly"`
	Hider            string                        `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

const vendorColumns = `id, number, name, notes, empty_spool_weight_grams, external_id, extra, spool_count,
	remaining_grams, created_at, updated_at, hidden_at, ` + auth.HiddenBy

// vendorsTable is vendors with the number and the weight of each vendor's spools in stock. It reads only spools in
// stock, so that its time does not depend on the history of the tenant.
var vendorsTable = withQuantities("vendors", `
	(select f.id from filaments f where f.vendor_id = t.id) f cross join lateral (
		select s.remaining_weight_grams from spools s where s.filament_id = f.id and `+inStock+` offset 0
	) s`)

// inStock is the condition for the spools s that the quantities include.
const inStock = `s.in_stock and not s.archived and s.hidden_at is null`

// withQuantities returns a table t with two columns for the spools s in a source: their number, and the sum of their
// remaining weights. A statement that uses neither reads no spools.
func withQuantities(table, from string) string {
	return `(select t.*, q.* from ` + table + ` t left join lateral (select count(*) as spool_count,
		coalesce(sum(s.remaining_weight_grams), 0) as remaining_grams from ` + from + `) q on true) ` + table
}

type vendorFilter struct {
	server.ExtraFilter
	Number      value.Optional[int64]        `query:"number" rule:"minimum=1,maximum=999999999"`
	Name        value.Optional[string]       `query:"name"`
	ExternalID  value.Optional[string]       `query:"external_id"`
	CreatedFrom value.Optional[value.Moment] `query:"created_from"`
	CreatedTo   value.Optional[value.Moment] `query:"created_to"`
	Search      value.Optional[string]       `query:"search" rule:"search"`
	server.Hiding
}

var listVendorsDoc = &server.Doc{
	ID: "listVendors", Tag: VendorsTag, Summary: "List vendors",
	Description: "All filters but `search` use an index. `search`, `extra.KEY` and a `sort_by` without an index " +
		"read all matching vendors. A parameter `extra.KEY`, such as `extra.tag`, selects those in which the " +
		"custom field has this value, not case-sensitive.",
}

const vendorByNumber = `select id from vendors where number = ?`

func (f vendorFilter) list() *server.List {
	l := server.NewHidingList(vendorsTable, vendorColumns, "vendors", f.Hiding)
	l.Computed()
	l.CountOrdered()
	l.Among(vendorByNumber, f.Number)
	l.WhereText("name_key", f.Name)
	l.WhereText("external_id_key", f.ExternalID)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.WhereExtra(f.ExtraFilter)
	l.SearchNumbered(f.Search, vendorByNumber)
	return l
}

var getVendorDoc = &server.Doc{
	ID: "getVendor", Tag: VendorsTag, Summary: "Get a vendor",
	Description: "Returns the vendor with the quantities of its spools in stock, which are part of its `ETag`.",
}

func selectVendor(id string) *db.Stmt {
	return db.SQL(`select `+vendorColumns+` from `+vendorsTable+` where id = $1 and hidden_at is null`, id)
}

var errDuplicateVendor = server.Conflict("DUPLICATE_VENDOR", "Another vendor has the name %s", "Polymaker").On("name")

// vendorError converts the error for a name that another vendor has to a 409.
func vendorError(err error, name string) error {
	if db.Violates(err, "vendors_name") {
		return errDuplicateVendor.With(name).Because(err)
	}
	return err
}

var createVendorDoc = &server.Doc{
	ID: "createVendor", Tag: VendorsTag, Summary: "Create a vendor",
	Description: "The name must be unique, without regard to case (`DUPLICATE_VENDOR`). A removed vendor does not " +
		"count.",
	Errors: []*server.Error{errDuplicateVendor},
}

func (h handlers) createVendor(ctx context.Context, r *server.Request[Vendor]) (server.Created[Vendor], error) {
	id := value.NewID()
	vendor := selectVendor(id)
	err := withExtra(ctx, h.db, "vendor", r.In.Extra, func(ctx context.Context) error {
		return h.db.Write(ctx, insertVendor(id, &r.In), vendor)
	})
	return server.One(vendor, vendorError(err, r.In.Name.Or("")))
}

func insertVendor(id string, in *Vendor) *db.Stmt {
	return db.SQL(`
		insert into vendors (id, number, name, notes, empty_spool_weight_grams, external_id, extra)
		values ($1, next_number('vendors', 1, 1), $2, $3, $4::numeric, $5, $6::jsonb)`,
		id, in.Name.Arg(), in.Notes.Arg(), in.EmptySpoolWeight.Arg(), in.ExternalID.Arg(), in.Extra.Or(nil).Values())
}

var updateVendorDoc = &server.Doc{
	ID: "updateVendor", Tag: VendorsTag, Summary: "Update a vendor",
	Description: "A new name becomes that of the vendor's filaments and the `brand` of their spools, in the same " +
		"transaction. A vendor with more than 10,000 spools, or 2,000 in stock, keeps its name (`422`).",
	Errors: []*server.Error{errDuplicateVendor},
}

func (h handlers) updateVendor(ctx context.Context, r *server.Request[Vendor]) (ok server.OK[Vendor], err error) {
	err = withExtra(ctx, h.db, "vendor", r.In.Extra, func(ctx context.Context) error {
		ok, err = h.changeVendor(ctx, r.ID("id"), r.In)
		return err
	})
	return ok, err
}

func (h handlers) changeVendor(ctx context.Context, id string, in Vendor) (server.OK[Vendor], error) {
	vendor := selectVendor(id)
	set, args := server.Assignments(&in, []any{id})
	if set == "" {
		return server.One(vendor, h.db.Read(ctx, vendor))
	}
	update := db.SQL(`update vendors set `+set+`, updated_at = now() where id = $1 and hidden_at is null`, args...)
	if !in.Name.Set {
		return server.One(vendor, h.db.Write(ctx, update, vendor))
	}
	// If the vendor is hidden, run does not find it, and takes the change back.
	renamed := db.SQL(`
		with vendor as (
			update vendors set `+set+`, updated_at = now() where id = $1 returning name
		)
		update filaments f set vendor_name = vendor.name, updated_at = now() from vendor
		where f.vendor_id = $1 and f.vendor_name <> vendor.name`, args...)
	err := spreadVendor.run(ctx, h.db, id, []string{"name"}, renamed, vendor, func() error { return nil })
	return server.One(vendor, vendorError(err, in.Name.Or("")))
}

var deleteVendorDoc = &server.Doc{
	ID: "deleteVendor", Tag: VendorsTag, Summary: "Remove a vendor",
	Description: "Deletes the vendor. If filaments name it, it is hidden instead: lists no longer contain it, " +
		"requests with its id return 404, and its filaments keep its name. `GET /api/v1/vendors?hidden=true` lists " +
		"hidden vendors, and `restoreVendor` shows one again.",
}

func (h handlers) deleteVendor(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	return nil, h.remove(ctx, "vendors", r.ID("id"))
}

// remove deletes a row of a table, or hides it if other rows refer to it.
func (h handlers) remove(ctx context.Context, table, id string) error {
	locked, removed := server.Remove(table, id)
	return server.Found(locked, h.db.Write(ctx, locked, removed))
}

var restoreVendorDoc = &server.Doc{
	ID: "restoreVendor", Tag: VendorsTag, Summary: "Restore a removed vendor",
	Description: "Shows a vendor again that was hidden when it was removed. It cannot be restored while another " +
		"vendor has its name (`DUPLICATE_VENDOR`). For a vendor that is not hidden, the operation changes nothing " +
		"and returns the vendor.",
	Errors: []*server.Error{errDuplicateVendor.On()},
}

func (h handlers) restoreVendor(ctx context.Context, r *server.Request[struct{}]) (server.OK[Vendor], error) {
	id := r.ID("id")
	return server.Restore(ctx, h.db, "vendors", id, selectVendor(id), "vendors_name", errDuplicateVendor)
}

var exportVendors = transfer.Export[Vendor]("vendors", 500, transfer.ListPage(vendorFilter.list,
	`select `+vendorColumns+` from `+vendorsTable+` where id = page.id`))

var exportVendorsDoc = &server.Doc{
	ID: "exportVendors", Tag: VendorsTag, Summary: "Export vendors",
	Description: transfer.ExportDescription + "vendor, oldest first, which `POST /api/v1/vendors/import` can read.",
}
