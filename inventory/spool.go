// Package inventory owns the filament spools and their usage ledger.
package inventory

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spoolwright/auth"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// SpoolsTag is the tag of the operations on spools.
var SpoolsTag = &server.Tag{
	Name: "spools", Leads: true, Fields: fields,
	Description: "Filament spools, their costs, and the ledger of the filament used.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Commands are the commands for spools, and for the filament catalog.
var Commands = []cli.Command{
	importCatalogCommand,
	Export.Command("spools"),
	exportVendors.Command("vendors"),
	exportFilaments.Command("filaments"),
}

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of spools. Other packages call spool_name, move_spool,
// filament_prices, report_use, run_use and use_outside_runs in their own statements, and so within their own
// transactions.
var Definitions = db.Definitions("inventory", functions, "number", "prices", "report", "ledger", "rows")

// Routes are the operations of vendors, filaments and spools, and the report of usage.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return slices.Concat(h.vendorRoutes(), h.filamentRoutes(), h.catalogRoutes(), []server.Route{
		server.Op("GET /api/v1/spools", server.Read, server.Handle(h.list), listDoc),
		server.Op("POST /api/v1/spools", server.Write, server.Handle(h.create), createDoc),
		server.Op("PATCH /api/v1/spools", server.Write, server.Handle(h.updateMany), updateManyDoc),
		server.Op("DELETE /api/v1/spools", server.Write, server.Handle(h.deleteMany), deleteManyDoc),
		server.Op("POST /api/v1/spools/batch", server.Write, server.Handle(h.createBatch), createBatchDoc),
		server.Op("GET /api/v1/spools/export", server.Read, server.HandleExport("spools", h.export), exportDoc),
		server.Op("GET /api/v1/spools/{id}", server.Read,
			server.HandleGet[Spool](h.db, selectSpool), getDoc).Versioned(lockSpool),
		server.Op("GET /api/v1/spools/by-number/{number}", server.Read, server.Handle(h.getByNumber), getByNumberDoc).
			Versioned(server.NoLock),
		server.Op("PATCH /api/v1/spools/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/spools/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/spools/{id}/restore", server.Write, server.Handle(h.restore), restoreDoc),
		server.Op("POST /api/v1/spools/{id}/deduct", server.Write, server.Handle(h.deduct), deductDoc),
		server.Op("POST /api/v1/spools/{id}/refill", server.Write, server.Handle(h.refill).OptionalBody(), refillDoc),
		server.Op("POST /api/v1/spools/{id}/measure", server.Write, server.Handle(h.measure), measureDoc),
		server.Op("GET /api/v1/spools/{id}/usage", server.Read,
			// also of a hidden spool
			server.HandleListOf[Usage](h.db, `select id from spools where id = $1`, usageFilter.list), usageDoc),
		server.Op("POST /api/v1/spools/{id}/usage/{entry_id}/reverse", server.Write,
			server.Handle(h.reverse).OptionalBody(), reverseDoc),
		server.Op("POST /api/v1/spools/{id}/usage/{entry_id}/move", server.Write, server.Handle(h.move), moveDoc),
		server.Op("GET /api/v1/custom-fields", server.Read,
			server.HandleList[CustomField](h.db, customFieldFilter.list), listCustomFieldsDoc),
		server.Op("POST /api/v1/custom-fields", server.Write, server.Handle(h.createCustomField),
			createCustomFieldDoc),
		server.Op("GET /api/v1/custom-fields/{id}", server.Read,
			server.HandleGet[CustomField](h.db, selectCustomField), getCustomFieldDoc).Versioned(lockCustomField),
		server.Op("PATCH /api/v1/custom-fields/{id}", server.Write, server.Handle(h.updateCustomField),
			updateCustomFieldDoc),
		server.Op("DELETE /api/v1/custom-fields/{id}", server.Write, server.Handle(h.deleteCustomField),
			deleteCustomFieldDoc),
		server.Op("GET /api/v1/reports/filament", server.Read, server.Handle(h.reportFilament), filamentReportDoc),
	})
}

type handlers struct{ db *db.DB }

// Spool is a spool of filament in requests and responses.
type Spool struct {
	ID             value.UUID                    `json:"id" rule:"readOnly,notNull"`
	Number         int64                         `json:"number" rule:"readOnly,notNull"`
	FilamentID     value.Optional[value.UUID]    `json:"filament_id"`
	FilamentNumber value.Optional[int64]         `json:"filament_number" rule:"writeOnly,notNull,insteadOf=filament_id,optional,minimum=1,maximum=999999999"`
	MaterialType   value.Optional[MaterialType]  `json:"material_type" rule:"required,unless=filament_id"`
	Brand          value.Optional[string]        `json:"brand"`
	Color          value.Optional[string]        `json:"color" rule:"required,unless=filament_id"`
	ColorHex       value.Optional[string]        `json:"color_hex" rule:"format=color"`
	Finish         value.Optional[string]        `json:"finish"`
	DiameterMM     value.Optional[value.Decimal] `json:"diameter_mm" rule:"required,unless=filament_id,enum=1.75|2.85"`
	NetWeight      value.Optional[value.Decimal] `json:"net_weight_grams" rule:"required,unless=filament_id,exclusiveMinimum=0,maximum=1000000"`
	Remaining      value.Optional[value.Decimal] `json:"remaining_weight_grams" rule:"notNull,maximum=1000000"`
	SpoolWeight    value.Optional[value.Decimal] `json:"spool_weight_grams" rule:"maximum=1000000"`
	PurchasePrice  value.Optional[value.Decimal] `json:"purchase_price" rule:"maximum=1000000"`
	CostPerGram    value.Decimal                 `json:"cost_per_gram" rule:"readOnly"`
	Supplier       value.Optional[string]        `json:"supplier"`
	PurchaseDate   value.Optional[value.Date]    `json:"purchase_date"`
	Notes          value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Location       value.Optional[string]        `json:"location"`
	LotNumber      value.Optional[string]        `json:"lot_number"`
	Density        value.Optional[value.Decimal] `json:"density_g_cm3" rule:"exclusiveMinimum=0,maximum=100"`
	MaterialName   value.Optional[string]        `json:"material_name"`
	Archived       value.Optional[bool]          `json:"archived" rule:"notNull"`
	Extra          value.Optional[value.Extra]   `json:"extra" rule:"notNull,unsorted"`
	FirstUsedAt    value.Timestamp               `json:"first_used_at" rule:"readOnly"`
	LastUsedAt     value.Timestamp               `json:"last_used_at" rule:"readOnly"`
	CreatedAt      value.Timestamp               `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt      value.Timestamp               `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt       value.Timestamp               `json:"hidden_at" rule:"readOnly"`
	HiddenBy       value.UUID                    `json:"hidden_by" rule:"readOnly"`
	Hider          string                        `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

var (
	spoolFields  = strings.Replace(columnsOf[Spool](), ", hidden_by_name", "", 1) // in the order of the fields
	spoolColumns = strings.Replace(spoolFields, "hidden_by", auth.HiddenBy, 1)    // with an expression for hidden_by
	inputNames   = server.SchemaOf[Spool]().Writable()                            // the fields of requests
	inputColumns = strings.Join(inputNames, ", ")
	inputValues  = parameters(2, len(inputNames)) // their parameters; $1 is the id
)

func inputValue(column string) string { return fmt.Sprintf("$%d", 2+slices.Index(inputNames, column)) }

// columnsOf returns the columns that have the names of T's response fields.
func columnsOf[T any]() string {
	var names []string
	for _, f := range server.SchemaOf[T]().Fields {
		if !f.WriteOnly {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// parameters returns the names of n parameters of a statement, beginning with the number from.
func parameters(from, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("$%d", from+i)
	}
	return strings.Join(names, ", ")
}

// values returns the values of a new spool in the order of inputNames. It replaces omitted fields by their defaults.
func (s *Spool) values() []any {
	values := server.Values(s)
	for i, name := range inputNames {
		switch name {
		case "remaining_weight_grams":
			if values[i] == nil {
				values[i] = s.NetWeight.Arg()
			}
		case "archived":
			values[i] = s.Archived.Or(false)
		case "extra":
			values[i] = s.Extra.Or(nil).Values()
		}
	}
	return values
}

// NewRow returns the columns of a new spool for json_populate_recordset, with the same defaults as values.
func (s *Spool) NewRow() map[string]any {
	row := map[string]any{}
	for i, value := range s.values() {
		row[inputNames[i]] = value
	}
	row["extra"] = json.RawMessage(s.Extra.Or(nil).Values())
	return row
}

// Filter are the parameters of the spool list.
type Filter struct {
	server.ListQuery
	SpoolFilter
}

// SpoolFilter selects spools.
type SpoolFilter struct {
	server.ExtraFilter
	Number         value.Optional[int64]                   `query:"number" rule:"minimum=1,maximum=999999999"`
	MaterialType   value.Optional[value.Set[MaterialType]] `query:"material_type"`
	Brand          value.Optional[string]                  `query:"brand"`
	Color          value.Optional[string]                  `query:"color"`
	FilamentID     value.Optional[value.UUID]              `query:"filament_id"`
	Location       value.Optional[string]                  `query:"location"`
	LotNumber      value.Optional[string]                  `query:"lot_number"`
	Supplier       value.Optional[string]                  `query:"supplier"`
	InStock        value.Optional[bool]                    `query:"in_stock"`
	RemainingBelow value.Optional[value.Decimal]           `query:"remaining_below" rule:"maximum=1000000"`
	CreatedFrom    value.Optional[value.Moment]            `query:"created_from"`
	CreatedTo      value.Optional[value.Moment]            `query:"created_to"`
	Search         value.Optional[string]                  `query:"search" rule:"search"`
	Archived       value.Optional[Archived]                `query:"archived" rule:"default=false"`
	server.Hiding
}

// Archived is the filter of a list for archived spools.
type Archived string

// Enum returns all values: only archived spools, only the others, or all.
func (Archived) Enum() []string { return []string{"true", "false", "any"} }

var listDoc = &server.Doc{
	ID: "listSpools", Tag: SpoolsTag, Summary: "List spools",
	Description: "All filters but `search`, `extra.KEY` and `remaining_below` use an index, and so does an " +
		"`updated_from` within the last day. The others, and a `sort_by` without an index, read all matching spools. A " +
		"parameter `extra.KEY`, such as `extra.tag`, selects the spools in which the custom field has this value, not " +
		"case-sensitive.",
}

func (h handlers) list(ctx context.Context, r *server.Request[Filter]) (server.Page[Spool], error) {
	l := r.In.list()
	if r.In.SortBy.Or("") == "number" {
		l.And("number is not null") // the partial index has this predicate
		l.Ordered("number")
	}
	return server.ListPage[Spool](ctx, h.db.Read, l, r.In.ListQuery)
}

const spoolByNumber = `select id from spools where number = ?`

func (f SpoolFilter) list() *server.List {
	hidden, archived := f.Hidden.Or("false") != "false", f.Archived.Or("false")
	counted := "spools" // neither hidden nor archived
	if archived != "false" {
		counted = ""
	}
	l := server.NewHidingList("spools", spoolColumns, counted, server.Hiding{ID: f.ID, Hidden: f.Hidden})
	l.Since(f.UpdatedFrom, UpdatedSpools)
	l.CountOrdered() // spools_in_stock and others begin with the tenant and have no other condition
	switch {
	case archived == "true":
		l.And("archived")
	case archived == "false" && !(hidden && f.Archived.IsNull()):
		l.And("not archived")
	case archived == "any" && !hidden:
		l.Each("archived", "'{false,true}'::boolean[]") // the indexes hold archived and other spools separately
	}
	l.Among(spoolByNumber, f.Number)
	l.WhereEach("material_type", f.MaterialType)
	l.WhereText("brand_key", f.Brand)
	l.WhereText("color_key", f.Color)
	l.WhereEqual("filament_id", f.FilamentID)
	l.WhereText("location_key", f.Location)
	l.WhereText("lot_key", f.LotNumber)
	l.WhereText("supplier_key", f.Supplier)
	l.WhereEqual("in_stock", f.InStock)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	if in := f.RemainingBelow; !in.IsNull() {
		l.Scan("remaining_weight_grams < ?::numeric", in.Arg())
	}
	l.WhereExtra(f.ExtraFilter)
	l.SearchNumbered(f.Search, spoolByNumber, server.Place{Column: "filament_id",
		Rows: `select f.id from filaments f where true`, Key: `f.search_key`,
		Texts: `concat_ws(E'\n', f.name, f.material_name)`})
	return l
}

var getDoc = &server.Doc{
	ID: "getSpool", Tag: SpoolsTag, Summary: "Get a spool",
	Description: "`GET /api/v1/spools/{id}/usage` returns the history of its remaining weight.",
}

var getByNumberDoc = &server.Doc{
	ID: "getSpoolByNumber", Tag: SpoolsTag, Summary: "Get the spool with a number",
	Description: "Returns what `getSpool` does, for the number that is on the label of a spool.",
}

func (h handlers) getByNumber(ctx context.Context, r *server.Request[struct{}]) (server.OK[Spool], error) {
	spool := db.SQL(`select `+spoolColumns+` from spools where `+byNumber, r.Number()).Quick()
	return server.One(spool, h.db.Read(ctx, spool))
}

var lockSpool = server.LockRow("spools")

var selectSpoolSQL = `select ` + spoolColumns + ` from spools where id = $1 and hidden_at is null`

func selectSpool(id string) *db.Stmt { return db.SQL(selectSpoolSQL, id).Quick() }

const costTooLarge = "makes cost_per_gram larger than 999,999,999"

// CostError converts the error for a cost_per_gram out of range to a 422. PostgreSQL computes cost_per_gram.
func CostError(err error) error { return costErrorOn("purchase_price", err) }

// costErrorOn is CostError for the given field of the request.
func costErrorOn(field string, err error) error {
	if errors.Is(err, db.ErrOutOfRange) {
		return server.Invalid(field, costTooLarge).Because(err)
	}
	return err
}

// Check rejects a price if the request has the price and the net weight and cost_per_gram is out of range. It exists
// so that an import can name the row.
func (s *Spool) Check(problems *server.Problems) {
	if s.PurchasePrice.IsNull() || s.NetWeight.IsNull() {
		return
	}
	const million = 1_000_000 // both numbers are at most a million, in millionths, so nothing overflows
	price, net := int64(*s.PurchasePrice.Value), int64(*s.NetWeight.Value)
	if (2*price*million+net)/(2*net) > 999_999_999*million {
		problems.Add("purchase_price", costTooLarge)
	}
}

// SpoolBatch is the body of a request that creates several equal spools.
type SpoolBatch struct {
	Quantity value.Optional[int64] `json:"quantity" rule:"required,writeOnly,minimum=1,maximum=100"`
	Spool
}

// CreatedSpools is the list of spools that a request created.
type CreatedSpools struct {
	Items []Spool `json:"items" rule:"readOnly,notNull"`
}

const initialWeight = "`remaining_weight_grams` is `net_weight_grams` by default. It is the first entry of the " +
	"usage ledger."

const filamentRules = "With `filament_id` or `filament_number`, the spool has its `material_type`, " +
	"`material_name`, `brand`, `color`, `color_hex`, `diameter_mm` and `density_g_cm3` from the filament, and they " +
	"change with it; other " +
	"values in the request are a `FILAMENT_FIELD`."

const inheritRules = filamentRules + " `net_weight_grams`, `spool_weight_grams` and `purchase_price` are those of " +
	"the filament by default."

var createDoc = &server.Doc{
	ID: "createSpool", Tag: SpoolsTag, Summary: "Create a spool",
	Description: initialWeight + " `createSpoolBatch` creates several equal spools.\n\n" + inheritRules,
	Errors:      []*server.Error{ErrUnknownFilament, errFilamentField},
}

func (h handlers) create(ctx context.Context, r *server.Request[Spool]) (server.Created[Spool], error) {
	spool, err := h.add(ctx, r.In, 1)
	if err != nil {
		return nil, err
	}
	return spool.Object(), nil
}

var createBatchDoc = &server.Doc{
	ID: "createSpoolBatch", Tag: SpoolsTag, Summary: "Create several equal spools",
	Description: "Creates `quantity` equal spools, all or none. " + initialWeight +
		" The `Location` is the list of spools.\n\n" + inheritRules,
	Errors: []*server.Error{ErrUnknownFilament, errFilamentField},
}

func (h handlers) createBatch(
	ctx context.Context, r *server.Request[SpoolBatch],
) (server.Created[CreatedSpools], error) {
	spools, err := h.add(ctx, r.In.Spool, *r.In.Quantity.Value)
	if err != nil {
		return nil, err
	}
	return createdSpools(spools), nil
}

func createdSpools(spools *db.Stmt) []byte {
	return slices.Concat([]byte(`{"items":`), spools.Array(), []byte(`}`))
}

// add checks the custom fields, and then creates equal spools with insert.
func (h handlers) add(ctx context.Context, in Spool, quantity int64) (spools *db.Stmt, err error) {
	err = withExtra(ctx, h.db, "spool", in.Extra, func(ctx context.Context) error {
		spools, err = h.insert(ctx, in, quantity)
		return err
	})
	return spools, err
}

// insert creates equal spools, attached to a filament if the request names one. It returns the executed statement.
func (h handlers) insert(ctx context.Context, in Spool, quantity int64) (spools *db.Stmt, err error) {
	if !in.NamesFilament() {
		if spools, err = insert(&in, quantity); err == nil {
			err = h.db.Write(ctx, spools)
		}
		return spools, CostError(err)
	}
	locked := lockFilaments(&in)
	err = h.db.Decide(ctx, []*db.Stmt{locked}, func() ([]*db.Stmt, error) {
		attached := in
		err := attachOne(locked, &attached, true)
		if err == nil {
			spools, err = insert(&attached, quantity)
		}
		return []*db.Stmt{spools}, err
	})
	return spools, CostError(err)
}

// insertSQL creates the spool $1, with the first entry of its ledger, and returns it.
var insertSQL = `
	with entry as (
		insert into spool_usage (spool_id, kind, before_grams, after_grams)
		values ($1::uuid, 'created', 0, ` + inputValue("remaining_weight_grams") + `::numeric)
	)
	insert into spools (id, number, ` + inputColumns + `)
	values ($1::uuid, next_number('spools', 1, ` + isCounted + `), ` + inputValues + `) returning ` + spoolColumns

// isCounted is an expression: 1 if the total of lists counts the new spool, and 0 if the spool is archived.
var isCounted = `(not ` + inputValue("archived") + `::boolean)::int`

// insert returns a statement that creates equal spools, and returns them in the order of their ids.
func insert(in *Spool, quantity int64) (*db.Stmt, error) {
	if quantity == 1 { // quicker than the statement below
		return db.SQL(insertSQL, slices.Insert(in.values(), 0, any(value.NewID()))...).Expect(1), nil
	}
	ids := make([]string, quantity)
	for i := range ids {
		ids[i] = value.NewID()
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	count := strconv.FormatInt(quantity, 10)
	return db.SQL(`
		with spool as (
			insert into spools (id, number, `+inputColumns+`)
			select list.id::uuid, first.number + list.n - 1, `+inputValues+`
			from json_array_elements_text($1::json) with ordinality list (id, n)
			cross join next_number('spools', `+count+`, `+count+` * `+isCounted+`) first (number)
			order by list.n
			returning `+spoolFields+`
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
			select id, 'created', 0, remaining_weight_grams from spool
		)
		select `+spoolColumns+` from spool order by id`,
		slices.Insert(in.values(), 0, any(string(list)))...).Expect(len(ids)), nil
}

var updateDoc = &server.Doc{
	ID: "updateSpool", Tag: SpoolsTag, Summary: "Update a spool",
	Description: "A changed `remaining_weight_grams`, for example after weighing the spool, is an entry of the " +
		"usage ledger. Omit it to change other fields: a value that you fetched earlier would undo the deductions " +
		"since then.\n\n" + filamentRules + " A `filament_id` of null detaches the spool, which keeps its values.",
	Errors: []*server.Error{ErrUnknownFilament, errFilamentField},
}

func (h handlers) update(ctx context.Context, r *server.Request[Spool]) (ok server.OK[Spool], err error) {
	err = withExtra(ctx, h.db, "spool", r.In.Extra, func(ctx context.Context) error {
		ok, err = h.change(ctx, r.ID("id"), r.In)
		return err
	})
	return ok, err
}

func (h handlers) change(ctx context.Context, id string, in Spool) (server.OK[Spool], error) {
	if !in.mayFollow() {
		run := h.db.Write
		if set, _ := server.Assignments(&in, nil); set == "" {
			run = h.db.Read
		}
		spool := update(id, &in)
		return server.One(spool, CostError(run(ctx, spool)))
	}
	locked := lockFilaments(&in)
	if !in.NamesFilament() {
		locked = db.SQL(`select filament_id, `+Followed+` from spools where id = $1 and hidden_at is null
			for no key update`, id)
	}
	var spool *db.Stmt
	err := h.db.Decide(ctx, []*db.Stmt{locked}, func() ([]*db.Stmt, error) {
		changes := in
		err := server.Found(locked, nil)
		if in.NamesFilament() {
			err = attachOne(locked, &changes, false)
		} else if err == nil {
			err = checkFollowed(locked, &changes)
		}
		spool = update(id, &changes)
		return []*db.Stmt{spool}, err
	})
	if err != nil {
		return nil, CostError(err)
	}
	return server.One(spool, nil)
}

// update returns a statement that changes a spool, and returns it.
func update(id string, in *Spool) *db.Stmt {
	set, args := server.Assignments(in, []any{id})
	switch {
	case set == "":
		return selectSpool(id)
	case in.Remaining.Set || in.Archived.Set:
		return edit(`id = $1 and hidden_at is null`, spoolFields, spoolColumns, set, in.Archived.Set, args)
	}
	return db.SQL(`update spools set `+set+`, updated_at = now(), edited_at = now()
		where id = $1 and hidden_at is null returning `+spoolColumns, args...)
}

var deleteDoc = &server.Doc{
	ID: "deleteSpool", Tag: SpoolsTag, Summary: "Remove a spool",
	Description: "Hides the spool: lists no longer contain it, and requests with its id return 404, except for " +
		"`listSpoolUsage`. It does not count for prices. Production runs with this spool keep its name and cost. " +
		"`GET /api/v1/spools?hidden=true` lists hidden spools, and `restoreSpool` shows one again.",
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	hidden := hide(`id = $1 and hidden_at is null`, r.ID("id"))
	return nil, server.Found(hidden, h.db.Write(ctx, hidden))
}

// hide returns a statement that hides and counts the spool that the condition selects, and returns its id. arg is $1.
// The statement sets updated_at, as every change of a spool must, because report_use relies on it.
func hide(condition string, arg any) *db.Stmt {
	return db.SQL(`
		with hidden as (
			update spools set hidden_at = now(), updated_at = now(), edited_at = now()
			where `+condition+` returning id, archived
		)
		select id, count_rows('spools', archived::int - 1) from hidden`, arg)
}

var restoreDoc = &server.Doc{
	ID: "restoreSpool", Tag: SpoolsTag, Summary: "Restore a removed spool",
	Description: "Shows a spool again that was removed. Its fields and its usage ledger are those that it had " +
		"before. For a spool that is not hidden, the operation changes nothing and returns the spool.",
}

func (h handlers) restore(ctx context.Context, r *server.Request[struct{}]) (server.OK[Spool], error) {
	restored := db.SQL(`
		with restored as (
			update spools set hidden_at = null, updated_at = now(), edited_at = now()
			where id = $1 and hidden_at is not null returning archived
		)
		select count_rows('spools', 1 - archived::int) from restored`, r.ID("id"))
	spool := selectSpool(r.ID("id"))
	// The lock makes restore wait for a running delete. Without it, the delete could hide the spool after the
	// update.
	return server.One(spool, h.db.Write(ctx, lockSpool(r.ID("id"))[0], restored, spool))
}
