// Package printers owns the farm's printers and the record of the spools that are loaded into them.
package printers

import (
	"context"
	"embed"

	"spoolwright/auth"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Tag is the tag of the operations.
var Tag = &server.Tag{
	Name: "printers", Fields: fields,
	Description: "The printers of the farm: what they can print, which spools are loaded, and how long they have " +
		"printed.",
}

var (
	// fields describes the fields of the requests and responses.
	//
	//go:embed fields.md
	fields string
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of printers.
var Definitions = db.Definitions("printers", functions, "slots", "diameter")

// Commands are the commands for printers.
var Commands = []cli.Command{Export.Command("printers")}

// Routes are the operations of /api/v1/printers.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/printers", server.Read, server.HandleList[Printer](h.db, PrinterFilter.list), listDoc),
		server.Op("POST /api/v1/printers", server.Write, server.Handle(h.create), createDoc),
		server.Op("GET /api/v1/printers/export", server.Read, Export.Handle(h.db, "printers"), exportDoc),
		server.Op("GET /api/v1/printers/names", server.Read,
			server.HandleList[PrinterName](h.db, NameFilter.list), namesDoc).ForWatchers(),
		server.Op("GET /api/v1/printers/{id}", server.Read,
			server.HandleGet[Printer](h.db, selectPrinter), getDoc).Versioned(lockPrinter),
		server.Op("PATCH /api/v1/printers/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/printers/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/printers/{id}/restore", server.Write, server.Handle(h.restore), restoreDoc),
		server.Op("POST /api/v1/printers/{id}/maintained", server.Write, server.Handle(h.maintained), maintainedDoc),
		server.Op("PUT /api/v1/printers/{id}/slots/{number}", server.Write, server.Handle(h.load), loadDoc),
	}
}

type handlers struct{ db *db.DB }

// Status is the state of a printer: whether it can print.
type Status string

// Enum returns all states.
func (Status) Enum() []string { return []string{"available", "maintenance", "retired"} }

// Printer is a printer in requests and responses.
type Printer struct {
	ID                  value.UUID                                        `json:"id" rule:"readOnly,notNull"`
	Number              int64                                             `json:"number" rule:"readOnly,notNull"`
	Name                value.Optional[string]                            `json:"name" rule:"required"`
	Model               value.Optional[string]                            `json:"model"`
	Location            value.Optional[string]                            `json:"location"`
	Notes               value.Optional[string]                            `json:"notes" rule:"maxLength=10000"`
	NozzleMM            value.Optional[value.Decimal]                     `json:"nozzle_mm" rule:"exclusiveMinimum=0,maximum=10"`
	DiameterMM          value.Optional[value.Decimal]                     `json:"diameter_mm" rule:"notNull,enum=1.75|2.85"`
	Slots               value.Optional[int64]                             `json:"slots" rule:"notNull,minimum=1,maximum=64"`
	Materials           value.Optional[value.Set[inventory.MaterialType]] `json:"materials" rule:"notNull,empty"`
	HourCost            value.Optional[value.Decimal]                     `json:"hour_cost" rule:"maximum=1000000"`
	PowerWatts          value.Optional[value.Decimal]                     `json:"power_watts" rule:"maximum=1000000"`
	Status              value.Optional[Status]                            `json:"status" rule:"notNull,named=PrinterStatus"`
	MaintenanceInterval value.Optional[value.Decimal]                     `json:"maintenance_interval_hours" rule:"exclusiveMinimum=0,maximum=1000000"`
	MaintainedAt        value.Timestamp                                   `json:"maintained_at" rule:"readOnly"`
	PrintedHours        value.Decimal                                     `json:"printed_hours" rule:"readOnly,notNull"`
	MaintenanceDue      bool                                              `json:"maintenance_due" rule:"readOnly,notNull"`
	Loaded              []LoadedSpool                                     `json:"loaded" rule:"readOnly,notNull"`
	CreatedAt           value.Timestamp                                   `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt           value.Timestamp                                   `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt            value.Timestamp                                   `json:"hidden_at" rule:"readOnly"`
	HiddenBy            value.UUID                                        `json:"hidden_by" rule:"readOnly"`
	Hider               string                                            `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

// LoadedSpool is a spool in a slot of a printer.
type LoadedSpool struct {
	Slot        int64         `json:"slot" rule:"notNull"`
	SpoolID     value.UUID    `json:"spool_id" rule:"notNull"`
	SpoolNumber int64         `json:"spool_number" rule:"notNull"`
	Name        string        `json:"name" rule:"notNull"`
	Remaining   value.Decimal `json:"remaining_grams" rule:"notNull"`
}

const printerColumns = `id, number, name, model, location, notes, nozzle_mm, diameter_mm, slots,
	array_to_json(materials) as materials, hour_cost, power_watts, status, maintenance_interval_hours, maintained_at,
	printed_hours, maintenance_due, loaded, created_at, updated_at, hidden_at, ` + auth.HiddenBy

// Table is printers with computed columns: the hours of completed and failed runs that ended since the last
// maintenance, and the spools in the slots.
const Table = `(select p.*, h.printed_hours,
		coalesce(h.printed_hours >= p.maintenance_interval_hours, false) as maintenance_due,
		(select coalesce(json_agg(json_build_object('slot', l.slot, 'spool_id', s.id, 'spool_number', s.number,
				'name', spool_name(s.material_type, s.material_name, s.color, s.brand),
				'remaining_grams', trim_scale(s.remaining_weight_grams)) order by l.slot), '[]')
			from (select l.slot, l.spool_id from printer_slots l where l.printer_id = p.id) l
			join spools s on s.id = l.spool_id and s.hidden_at is null) as loaded
	from printers p
	cross join lateral (
		select coalesce(sum(r.actual_print_time_hours), 0) as printed_hours from production_runs r
		where r.printer_id = p.id and r.ended_at >= coalesce(p.maintained_at, '-infinity')
			and r.status in ('completed', 'failed')
	) h) printers`

// PrinterFilter selects printers.
type PrinterFilter struct {
	Number      value.Optional[int64]             `query:"number" rule:"minimum=1,maximum=999999999"`
	Name        value.Optional[string]            `query:"name"`
	Status      value.Optional[value.Set[Status]] `query:"status" rule:"named=PrinterStatus"`
	SpoolID     value.Optional[value.UUID]        `query:"spool_id"`
	CreatedFrom value.Optional[value.Moment]      `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]      `query:"created_to"`
	Search      value.Optional[string]            `query:"search" rule:"search"`
	server.Hiding
}

var listDoc = &server.Doc{
	ID: "listPrinters", Tag: Tag, Summary: "List printers",
	Description: "All filters but `search` use an index. `search` and a `sort_by` without an index read all " +
		"matching printers.",
}

const printerByNumber = `select id from printers where number = ?`

func (f PrinterFilter) list() *server.List {
	l := server.NewHidingList(Table, printerColumns, "printers", f.Hiding)
	l.Computed()
	l.CountOrdered()
	l.Among(printerByNumber, f.Number)
	l.WhereText("name_key", f.Name)
	l.WhereEach("status", f.Status)
	l.Among(`select printer_id as id from printer_slots where spool_id = ?`, f.SpoolID)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.SearchNumbered(f.Search, printerByNumber)
	return l
}

var getDoc = &server.Doc{
	ID: "getPrinter", Tag: Tag, Summary: "Get a printer",
	Description: "Returns the printer with its hours and the spools that are loaded, which are part of its `ETag`.",
}

func selectPrinter(id string) *db.Stmt {
	return db.SQL(`select `+printerColumns+` from `+Table+` where id = $1 and hidden_at is null`, id)
}

// Named returns a subquery for the printer that has the id or, if the id is null, the name. Hidden printers do not
// count. The subquery locks the printer, so that nobody removes it before the transaction ends.
func Named(id, name string) string {
	return `(
				select l.id, l.name
				from (
					(select p.id from printers p where p.id = ` + id + `)
					union all
					(select p.id from printers p
						where ` + id + ` is null and p.name_key = lower(` + name + ` collate "und-x-icu") collate "C"
							and p.hidden_at is null)
				) n
				cross join lateral (
					select p.id, p.name from printers p where p.id = n.id and p.hidden_at is null for key share
				) l
			)`
}

// LockSlots returns a statement that makes changes of the slots of a tenant's printers wait for each other. It must
// run before the locks of runs, printers and spools.
func LockSlots() *db.Stmt { return db.Lock("printer_slots") }

// Exchange returns a statement that replaces a spool by the spool next in its slot. If printer is not nil, only a
// slot of this printer counts.
func Exchange(printer *string, spool, next string) *db.Stmt {
	return db.SQL(`
		select load_slot(l.printer_id, l.slot, $3)::text
		from (select l.printer_id, l.slot from printer_slots l
			where l.spool_id = $2 and ($1::uuid is null or l.printer_id = $1::uuid)) l`, printer, spool, next)
}

// SeeTray returns a statement for what a printer says is in a slot: a tray with a tag, which may be nil, or none. It
// loads and unloads the slot as the tag says.
func SeeTray(printer string, slot int64, tag *string, empty bool) *db.Stmt {
	return db.SQL(`select see_tray($1, $2, $3, $4)::text`, printer, slot, tag, empty)
}

// SeeSpool returns a statement for the number of the spool that a printer says is in its only slot, which may be nil,
// and of the one that it has named before. It loads the spool. Without one, it unloads the one before. If the printer
// has several slots, nobody knows in which one the spool is.
func SeeSpool(printer string, slot int64, number, before *int64) *db.Stmt {
	return db.SQL(`
		select load_slot(p.id, p.slots, s.id)::text
		from printers p left join spools s on s.number = $3::int and s.hidden_at is null and not s.archived
		where p.id = $1 and p.slots = 1 and $2::int = 1 and (s.id is not null or exists (
			select from printer_slots l join spools o on o.id = l.spool_id and o.number = $4::int
			where l.printer_id = p.id and l.slot = 1))`, printer, slot, number, before)
}

func lockPrinter(ids ...string) []*db.Stmt {
	return []*db.Stmt{LockSlots(), db.SQL(`select id from printers where id = $1 for no key update`, ids[0])}
}

var (
	errDuplicate = server.Conflict("DUPLICATE_PRINTER", "Another printer has the name %s", "Prusa 1").On("name")
	errSlotInUse = server.Conflict("SLOT_IN_USE", "A spool is loaded into slot %d; unload it first", 4).On("slots")

	errUnknownSpool = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a spool", "spool_id").On("spool_id")
)

// nameError converts the error of a name that another printer has to a 409.
func nameError(err error, name string) error {
	if db.Violates(err, "printers_name") {
		return errDuplicate.With(name).Because(err)
	}
	return err
}

var createDoc = &server.Doc{
	ID: "createPrinter", Tag: Tag, Summary: "Create a printer",
	Description: "The name must be unique, without regard to case (`DUPLICATE_PRINTER`). A removed printer does not " +
		"count.",
	Errors: []*server.Error{errDuplicate},
}

func (h handlers) create(ctx context.Context, r *server.Request[Printer]) (server.Created[Printer], error) {
	id, in := value.NewID(), &r.In
	materials := in.Materials.Or(value.Set[inventory.MaterialType]{})
	created := db.SQL(`
		insert into printers (id, number, name, model, location, notes, nozzle_mm, diameter_mm, slots, materials, hour_cost,
			power_watts, status, maintenance_interval_hours)
		values ($1, next_number('printers', 1, 1), $2, $3, $4, $5, $6::numeric, $13::numeric, $7::int, $8::text[],
			$9::numeric, $10::numeric, $11, $12::numeric)`,
		id, in.Name.Arg(), in.Model.Arg(), in.Location.Arg(), in.Notes.Arg(), in.NozzleMM.Arg(), in.Slots.Or(1),
		[]string(materials), in.HourCost.Arg(), in.PowerWatts.Arg(), string(in.Status.Or("available")),
		in.MaintenanceInterval.Arg(), in.DiameterMM.Or(1_750_000).String())
	printer := selectPrinter(id)
	return server.One(printer, nameError(h.db.Write(ctx, created, printer), in.Name.Or("")))
}

var updateDoc = &server.Doc{
	ID: "updatePrinter", Tag: Tag, Summary: "Update a printer",
	Description: "A new name becomes the `location` of the loaded spools, and the `printer_name` of the printer's " +
		"production runs does not change. A printer keeps the slots that have a spool (`SLOT_IN_USE`).",
	Errors: []*server.Error{errDuplicate, errSlotInUse},
}

func (h handlers) update(ctx context.Context, r *server.Request[Printer]) (server.OK[Printer], error) {
	id, in := r.ID("id"), &r.In
	printer := selectPrinter(id)
	set, args := server.Assignments(in, []any{id})
	if set == "" {
		return server.One(printer, h.db.Read(ctx, printer))
	}
	var last int64
	var name string
	locked := db.SQL(`select name from printers where id = $1 and hidden_at is null for no key update`, id).Into(&name)
	slots := db.SQL(`select coalesce(max(slot), 0)::bigint from printer_slots where printer_id = $1`, id).Into(&last)
	err := h.db.Decide(ctx, []*db.Stmt{LockSlots(), locked, slots}, func() ([]*db.Stmt, error) {
		switch {
		case locked.Rows() == 0:
			return nil, server.ErrNotFound
		case last > in.Slots.Or(last):
			return nil, errSlotInUse.With(last)
		}
		return []*db.Stmt{
			db.SQL(`update printers set `+set+`, updated_at = now() where id = $1`, args...),
			db.SQL(`select move_spool(l.spool_id, $2, $3)::text
				from (select spool_id from printer_slots where printer_id = $1 order by spool_id) l`, id, name,
				in.Name.Or(name)),
			printer,
		}, nil
	})
	if err != nil {
		return nil, nameError(err, in.Name.Or(""))
	}
	return server.One(printer, nil)
}

var deleteDoc = &server.Doc{
	ID: "deletePrinter", Tag: Tag, Summary: "Remove a printer",
	Description: "Unloads the spools, and deletes the printer. If production runs, entries of the usage ledger or " +
		"API keys name it, it is hidden instead: lists no longer contain it, requests with its id return 404, the " +
		"runs keep its name, and its keys work and stay its own until you revoke them. `GET " +
		"/api/v1/printers?hidden=true` lists hidden printers, and `restorePrinter` shows one again.",
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	id := r.ID("id")
	locked, removed := server.Remove("printers", id)
	return nil, server.Found(locked, h.db.Write(ctx, LockSlots(), locked,
		db.SQL(`select load_slot(l.printer_id, l.slot, null)::text
			from (select l.printer_id, l.slot from printer_slots l where l.printer_id = $1 order by l.spool_id) l`, id),
		wakeWatcher(id), removed))
}

var restoreDoc = &server.Doc{
	ID: "restorePrinter", Tag: Tag, Summary: "Restore a removed printer",
	Description: "Restores a printer that was hidden when it was removed, with empty slots. It cannot be restored " +
		"while another printer has its name (`DUPLICATE_PRINTER`). For a printer that is not hidden, the operation " +
		"changes nothing and returns the printer.",
	Errors: []*server.Error{errDuplicate.On()},
}

func (h handlers) restore(ctx context.Context, r *server.Request[struct{}]) (server.OK[Printer], error) {
	id := r.ID("id")
	var restored server.OK[Printer]
	return restored, h.db.Tx(ctx, func(ctx context.Context) (err error) {
		restored, err = server.Restore(ctx, h.db, "printers", id, selectPrinter(id), "printers_name", errDuplicate)
		if err != nil {
			return err
		}
		return h.db.Write(ctx, wakeWatcher(id))
	})
}

var maintainedDoc = &server.Doc{
	ID: "maintainedPrinter", Tag: Tag, Summary: "Record the maintenance of a printer",
	Description: "Sets `maintained_at` to the current time, so that `printed_hours` begins again at 0. A printer " +
		"with the `status` `maintenance` becomes `available`. Hours of a run that is in progress count when it " +
		"ends.",
}

func (h handlers) maintained(ctx context.Context, r *server.Request[struct{}]) (server.OK[Printer], error) {
	id := r.ID("id")
	printer := selectPrinter(id)
	return server.One(printer, h.db.Write(ctx, db.SQL(`
		update printers set maintained_at = now(), updated_at = now(),
			status = case when status = 'maintenance' then 'available' else status end
		where id = $1 and hidden_at is null`, id), printer))
}

// Load is the body of a request that loads a spool into a slot.
type Load struct {
	SpoolID     value.Optional[value.UUID] `json:"spool_id"`
	SpoolNumber value.Optional[int64]      `json:"spool_number" rule:"insteadOf=spool_id,optional,minimum=1,maximum=999999999"`
}

// Check reports a request without a field: null must be sent to unload a slot.
func (l *Load) Check(problems *server.Problems) {
	if !l.SpoolID.Set && !l.SpoolNumber.Set {
		problems.Add("spool_id", "is required, or spool_number; null unloads the slot")
	}
}

// field returns the field in which the request names the spool.
func (l *Load) field() string {
	if l.SpoolNumber.IsNull() {
		return "spool_id"
	}
	return "spool_number"
}

var loadDoc = &server.Doc{
	ID: "loadPrinterSlot", Tag: Tag, Summary: "Load a spool into a slot, or unload the slot",
	Description: "Names the spool by `spool_id` or `spool_number`; `null` unloads the slot. A spool is in at most one " +
		"slot: it is unloaded from its previous slot, and the spool that was in the new slot is unloaded.\n\n" +
		"The `location` of a loaded spool is the name of the printer. When the spool is unloaded, its previous location " +
		"returns, unless someone has changed the location in the meantime. A request that loads the spool that is already " +
		"in the slot changes nothing.\n\n" +
		"If a watched printer has read an RFID tag in the slot, the spool has this tag from now on, and the spool that had " +
		"it before no longer does: `createPrinterStates` then loads the spool where its tag is.",
	Errors: []*server.Error{errUnknownSpool},
}

func (h handlers) load(ctx context.Context, r *server.Request[Load]) (server.OK[Printer], error) {
	id, in := r.ID("id"), &r.In
	var slots int64
	var spool *string
	found := db.SQL(`select slots::bigint from printers where id = $1 and hidden_at is null`, id).Into(&slots)
	named := db.SQL(`
		(select s.id::text from spools s where s.id = $1::uuid and s.hidden_at is null)
		union all
		(select s.id::text from spools s where s.number = $2::int and s.hidden_at is null)`,
		in.SpoolID.Arg(), in.SpoolNumber.Arg()).Into(&spool)
	printer := selectPrinter(id)
	err := h.db.Decide(ctx, []*db.Stmt{LockSlots(), found, named}, func() ([]*db.Stmt, error) {
		switch {
		case found.Rows() == 0:
			return nil, server.ErrNotFound
		case r.Number() > slots:
			return nil, server.Invalid("number", "must be from 1 to %d, the number of slots of the printer", slots)
		case spool == nil && !(in.SpoolID.IsNull() && in.SpoolNumber.IsNull()):
			return nil, errUnknownSpool.With(in.field()).On(in.field())
		}
		return []*db.Stmt{
			db.SQL(`select load_slot($1, $2, $3::uuid)::text`, id, r.Number(), spool),
			db.SQL(`update spool_tags set spool_id = $3::uuid
				where printer_id = $1 and slot = $2 and $3::uuid is not null`, id, r.Number(), spool),
			printer,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return server.One(printer, nil)
}

// Export writes all printers.
var Export = transfer.Export[Printer]("printers", 500, transfer.ListPage(PrinterFilter.list,
	`select `+printerColumns+` from `+Table+` where id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportPrinters", Tag: Tag, Summary: "Export printers",
	Description: transfer.ExportDescription + "printer, oldest first, without the spools that are loaded.",
}
