package inventory

import (
	"context"
	"encoding/json"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

var vendorTag = &server.Tag{Name: "vendors", Fields: fields, Description: "The manufacturers of filament."}

func (h handlers) vendorRoutes() []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/vendors", server.Read,
			server.HandleList[Vendor](h.db, VendorFilter.list), listVendorsDoc),
		server.Op("POST /api/v1/vendors", server.Write, server.Handle(h.createVendor), createVendorDoc),
		server.Op("GET /api/v1/vendors/export", server.Read, ExportVendors.Handle(h.db, "vendors"),
			exportVendorsDoc),
		server.Op("POST /api/v1/vendors/import", server.Write, vendorKind.imports().Endpoint(h.db),
			importVendorsDoc),
		server.Op("GET /api/v1/vendors/{id}", server.Read, server.HandleGet[Vendor](h.db, selectVendor), getVendorDoc).
			Versioned(server.LockRow("vendors")),
		server.Op("PATCH /api/v1/vendors/{id}", server.Write, server.Handle(h.updateVendor), updateVendorDoc),
		server.Op("DELETE /api/v1/vendors/{id}", server.Write, server.Handle(h.deleteVendor), deleteVendorDoc),
		server.Op("POST /api/v1/vendors/{id}/restore", server.Write, server.Handle(h.restoreVendor), restoreVendorDoc),
	}
}

// Vendor is a manufacturer of filament in requests and responses.
type Vendor struct {
	ID               server.UUID                     `json:"id" rule:"readOnly,notNull"`
	Number           int64                           `json:"number" rule:"readOnly,notNull"`
	Name             server.Optional[string]         `json:"name" rule:"required"`
	Notes            server.Optional[string]         `json:"notes" rule:"maxLength=10000"`
	EmptySpoolWeight server.Optional[server.Decimal] `json:"empty_spool_weight_grams" rule:"maximum=1000000"`
	ExternalID       server.Optional[string]         `json:"external_id"`
	Extra            server.Optional[server.Extra]   `json:"extra" rule:"notNull,unsorted"`
	SpoolCount       int64                           `json:"spool_count" rule:"readOnly,notNull"`
	Remaining        server.Decimal                  `json:"remaining_grams" rule:"readOnly,notNull"`
	CreatedAt        server.Timestamp                `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt        server.Timestamp                `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt         server.Timestamp                `json:"hidden_at" rule:"readOnly"`
}

const vendorColumns = `id, number, name, notes, empty_spool_weight_grams, external_id, extra, spool_count,
	remaining_grams, created_at, updated_at, hidden_at`

// vendorsTable is vendors with the quantities of their spools in stock. It reads these spools and no others, so that
// its time depends on the stock and not on the history of the tenant.
var vendorsTable = `(select v.*, ` + quantities(`
	(select f.id from filaments f where f.vendor_id = v.id) f cross join lateral (
		select s.remaining_weight_grams from spools s where s.filament_id = f.id and `+inStock+` offset 0
	) s`) + ` from vendors v) vendors`

// inStock is the condition for the spools s of which the quantities are.
const inStock = `s.in_stock and not s.archived and s.hidden_at is null`

// quantities returns the columns with the number of the rows s of a source, and the filament that remains on them.
func quantities(from string) string {
	return `(select count(*) from ` + from + `) as spool_count,
		(select coalesce(sum(s.remaining_weight_grams), 0) from ` + from + `) as remaining_grams`
}

// VendorFilter selects vendors.
type VendorFilter struct {
	server.ExtraFilter
	Number      server.Optional[int64]         `query:"number" rule:"minimum=1,maximum=999999999"`
	Name        server.Optional[string]        `query:"name"`
	ExternalID  server.Optional[string]        `query:"external_id"`
	CreatedFrom server.Optional[server.Moment] `query:"created_from"`
	CreatedTo   server.Optional[server.Moment] `query:"created_to"`
	Search      server.Optional[string]        `query:"search" rule:"search"`
	Hidden      server.Optional[bool]          `query:"hidden" rule:"default=false"`
}

var listVendorsDoc = &server.Doc{
	ID: "listVendors", Tag: vendorTag, Summary: "List vendors",
	Description: "All filters but `search` use an index. `search`, `extra.KEY` and a `sort_by` without an index " +
		"read all matching vendors. A parameter `extra.KEY`, such as `extra.tag`, selects those in which the " +
		"custom field has this value, not case-sensitive.",
}

// vendorByNumber is the query of the id of the vendor with a number.
const vendorByNumber = `select id from vendors where number = ? and num_nonnulls(number) = 1`

// list returns the list of the vendors that the filter selects.
func (f VendorFilter) list() *server.List {
	l := server.NewHidingList(vendorsTable, vendorColumns, "vendors", f.Hidden.Or(false))
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
	ID: "getVendor", Tag: vendorTag, Summary: "Get a vendor",
	Description: "Returns the vendor with the quantities of its spools in stock, which are part of its `ETag`.",
}

func selectVendor(id string) *db.Stmt {
	return db.SQL(`select `+vendorColumns+` from `+vendorsTable+` where id = $1 and hidden_at is null`, id)
}

var errDuplicateVendor = server.Conflict("DUPLICATE_VENDOR", "Another vendor has the name %s", "Polymaker").On("name")

// vendorError returns the 409 for a name that another vendor has.
func vendorError(err error, name string) error {
	if db.Violates(err, "vendors_name") {
		return errDuplicateVendor.With(name).Because(err)
	}
	return err
}

var createVendorDoc = &server.Doc{
	ID: "createVendor", Tag: vendorTag, Summary: "Create a vendor",
	Description: "The name must be unique, without regard to case (`DUPLICATE_VENDOR`). A removed vendor does not " +
		"count.",
	Errors: []*server.Error{errDuplicateVendor},
}

func (h handlers) createVendor(ctx context.Context, r *server.Request[Vendor]) (server.Created[Vendor], error) {
	id := db.NewID()
	vendor := selectVendor(id)
	err := withExtra(ctx, h.db, "vendor", r.In.Extra, func(ctx context.Context) error {
		return h.db.Write(ctx, insertVendor(id, &r.In), vendor)
	})
	return server.One(vendor, vendorError(err, r.In.Name.Or("")))
}

// insertVendor returns a statement that creates a vendor.
func insertVendor(id string, in *Vendor) *db.Stmt {
	return db.SQL(`
		insert into vendors (id, name, notes, empty_spool_weight_grams, external_id, extra)
		values ($1, $2, $3, $4::numeric, $5, $6::jsonb)`,
		id, in.Name.Arg(), in.Notes.Arg(), in.EmptySpoolWeight.Arg(), in.ExternalID.Arg(), in.Extra.Or(nil).Values())
}

var updateVendorDoc = &server.Doc{
	ID: "updateVendor", Tag: vendorTag, Summary: "Update a vendor",
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

// changeVendor changes a vendor.
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
	renamed := db.SQL(`
		with vendor as (
			update vendors set `+set+`, updated_at = now() where id = $1 and hidden_at is null returning name
		)
		update filaments f set vendor_name = vendor.name, updated_at = now() from vendor
		where f.vendor_id = $1 and f.vendor_name <> vendor.name`, args...)
	err := spreadVendor.run(ctx, h.db, id, []string{"name"}, renamed, vendor, func() error { return nil })
	return server.One(vendor, vendorError(err, in.Name.Or("")))
}

var deleteVendorDoc = &server.Doc{
	ID: "deleteVendor", Tag: vendorTag, Summary: "Remove a vendor",
	Description: "Deletes the vendor. If filaments name it, it is hidden instead: lists no longer contain it, " +
		"requests with its id return 404, and its filaments keep its name. `GET /api/v1/vendors?hidden=true` lists " +
		"hidden vendors, and `restoreVendor` shows one again.",
}

func (h handlers) deleteVendor(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	return nil, h.remove(ctx, "vendors", r.ID("id"), `select from filaments where vendor_id = $1`)
}

// remove deletes a row of a table, or hides it if the query names rows that refer to it.
func (h handlers) remove(ctx context.Context, table, id, named string) error {
	// The lock waits for transactions that are about to refer to the row. The next statement reads their rows.
	locked := db.SQL(`select id from `+table+` where id = $1 and hidden_at is null for update`, id)
	removed := db.SQL(`
		with hidden as (
			update `+table+` set hidden_at = now(), updated_at = now()
			where id = $1 and hidden_at is null and exists (`+named+`)
		)
		delete from `+table+` where id = $1 and hidden_at is null and not exists (`+named+`)`, id)
	return server.Found(locked, h.db.Write(ctx, locked, removed))
}

var restoreVendorDoc = &server.Doc{
	ID: "restoreVendor", Tag: vendorTag, Summary: "Restore a removed vendor",
	Description: "Shows a vendor again that was hidden when it was removed. It cannot be restored while another " +
		"vendor has its name (`DUPLICATE_VENDOR`). For a vendor that is not hidden, the operation changes nothing " +
		"and returns the vendor.",
	Errors: []*server.Error{errDuplicateVendor.On()},
}

func (h handlers) restoreVendor(ctx context.Context, r *server.Request[struct{}]) (server.OK[Vendor], error) {
	var name string
	id := r.ID("id")
	locked := db.SQL(`select name from vendors where id = $1 for no key update`, id).Into(&name)
	restored := db.SQL(`update vendors set hidden_at = null, updated_at = now()
		where id = $1 and hidden_at is not null`, id)
	vendor := selectVendor(id)
	err := h.db.Write(ctx, locked, restored, vendor)
	if db.Violates(err, "vendors_name") {
		return nil, errDuplicateVendor.With(name).On().Because(err)
	}
	return server.One(vendor, err)
}

// ExportVendors writes vendors.
var ExportVendors = transfer.Export[Vendor](500, transfer.ListPage(VendorFilter.list,
	`select `+vendorColumns+` from `+vendorsTable+` where id = page.id`))

var exportVendorsDoc = &server.Doc{
	ID: "exportVendors", Tag: vendorTag, Summary: "Export vendors",
	Description: transfer.ExportDescription + "vendor, oldest first, which `POST /api/v1/vendors/import` can read.",
}

// vendorName is a vendor that a name names: nothing if there is no name, and a name without an id if a dry run would
// create the vendor.
type vendorName struct {
	ID   *string
	Name *string
}

// nameVendors locks the vendors with the names, without regard to case, and creates those that do not exist, in the
// order of the names, unless it is a dry run. It returns the vendor of each name, and how many it created or would.
func nameVendors(
	ctx context.Context, d *db.DB, names []string, dryRun bool,
) (vendors []vendorName, created int64, err error) {
	if len(names) == 0 {
		return nil, 0, nil
	}
	type named struct {
		N    int
		Key  string
		ID   *string
		Name *string
	}
	found := func() (all []named, err error) {
		locked := db.SQL(`
			with named as materialized (
				select n, lower(name collate "und-x-icu") collate "C" as key from unnest($1::text[]) with ordinality w (name, n)
			), found as materialized (
				select v.* from (select distinct key from named order by key) k cross join lateral (
					select id, name, name_key from vendors where name_key = k.key and hidden_at is null for share
				) v
			)
			select n, key, id, found.name from named left join found on name_key = key order by n`, names)
		if err := d.Write(ctx, locked); err != nil {
			return nil, err
		}
		return all, json.Unmarshal(locked.Array(), &all)
	}
	all, err := found()
	if err != nil {
		return nil, 0, err
	}
	var ids, missing []string
	seen := map[string]int{}
	for i, v := range all {
		first, known := seen[v.Key]
		switch {
		case v.ID != nil:
		case known:
			all[i].Name = all[first].Name
		default:
			seen[v.Key], all[i].Name = i, &names[i]
			ids, missing = append(ids, db.NewID()), append(missing, names[i])
		}
	}
	if len(missing) > 0 && !dryRun {
		err = d.Write(ctx, db.SQL(`
			insert into vendors (id, name)
			select id, name from unnest($1::uuid[], $2::text[]) with ordinality v (id, name, n) order by n
			-- Another transaction has created the vendor.
			on conflict (tenant_id, name_key) where hidden_at is null and name_key is not null do nothing`, ids,
			missing))
		if err == nil {
			all, err = found()
		}
	}
	for _, v := range all {
		vendors = append(vendors, vendorName{v.ID, v.Name})
	}
	return vendors, int64(len(missing)), err
}
