// Package production implements production runs: print jobs with the products to print, the spools to print from, and
// the deduction of the used filament.
package production

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spoolwright/auth"
	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Tag is the tag of the operations.
var Tag = &server.Tag{
	Name: "production-runs", Leads: true, Fields: fields,
	Description: "Print jobs. Completing a run deducts the filament that it used from the spools. A run can also " +
		"fail or be cancelled, which deducts the filament that it wasted.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Orders has the functions of package orders that production calls. orders imports production, so it passes them.
type Orders struct {
	// Follow returns a statement that updates the status of the orders whose items the run prints. It must follow
	// the statements that change the status of the run, or add or change its items.
	Follow func(run string) *db.Stmt

	// Settle returns a statement that adjusts the pieces in stock by the difference of the pieces that the run has
	// produced since it was last settled. It must be the last change of a transaction that changes the status of the run,
	// deletes it, or adds, changes or removes items of it.
	Settle func(run string) *db.Stmt

	// Lock returns a statement that locks the orders of the items that a run prints, and the orders of further
	// items, until the end of the transaction. The lock keeps others from removing those items or canceling the orders.
	// The run must be locked, if it exists.
	Lock func(run string, items ...string) *db.Stmt

	// Printed returns a SQL expression for a JSON array of the orders whose items a run prints: at most 100 objects
	// with an id. run is a SQL expression for the id of the run.
	Printed func(run string) string

	// Named returns a SQL expression for a JSON array of the orders whose items a run prints: at most three objects
	// with the id, reference, customer and due_date, those that are due first. The due_date of an order that has ended
	// or was removed is null. run is a SQL expression for the id of the run.
	Named func(run string) string

	// ItemOf returns a SQL expression for the id of the item of an order that has the product and, if possible, needs
	// more pieces, or null. The order is not cancelled. Both parameters are SQL expressions.
	ItemOf func(order, product string) string

	// Sought is where a search of runs also looks: the references and customers of the orders whose items they print.
	Sought server.Place

	// State returns a SQL expression for a JSON object about an item of an order. item is a SQL expression for the
	// id of the item. The object has the order_id, reference, customer and status of the order, whether the order
	// was removed, the quantity of the item, and the numbers of pieces that are produced and planned.
	State func(item string) string

	// Problem returns a SQL expression for the reason why an item of a run with the product cannot print the item of
	// an order (UNKNOWN, OTHER_PRODUCT or CANCELLED), or null if it can. Both parameters are SQL expressions.
	Problem func(item, product string) string
}

// RunsOfSpool selects the runs that name the spool $1, which an undo of an import then keeps.
const RunsOfSpool = `select from run_materials where spool_id = $1`

// Routes returns the operations of /api/v1/production-runs.
func Routes(orders Orders) func(*db.DB) []server.Route {
	return func(d *db.DB) []server.Route { return routes(handlers{d, orders}) }
}

func routes(h handlers) []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/production-runs", server.Read,
			server.HandleList[RunListItem](h.db, h.list), listDoc),
		server.Op("GET /api/v1/production-runs/export", server.Read,
			exporter(h.orders).Handle(h.db, "production-runs"), exportDoc),
		server.Op("POST /api/v1/production-runs", server.Write, server.Handle(h.create), createDoc),
		server.Op("POST /api/v1/production-runs/from-file", server.Write, server.HandleStream(catalog.FileMedia,
			catalog.FileExample, catalog.MaxFile, h.readFile, h.fromFile), fromFileDoc),
		server.Op("GET /api/v1/production-runs/{id}", server.Read, server.Handle(h.get), getDoc).Versioned(
			func(ids ...string) []*db.Stmt { return []*db.Stmt{lockRun(ids[0])} }),
		server.Op("PATCH /api/v1/production-runs/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/production-runs/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/production-runs/{id}/restore", server.Write, server.Handle(h.restore), restoreDoc),
		server.Op("POST /api/v1/production-runs/{id}/items", server.Write, server.Handle(h.addItem), addItemDoc),
		server.Op("PATCH /api/v1/production-runs/{id}/items/{item_id}", server.Write, server.Handle(h.updateItem),
			updateItemDoc),
		server.Op("DELETE /api/v1/production-runs/{id}/items/{item_id}", server.Write, server.Handle(h.deleteItem),
			deleteItemDoc),
		server.Op("POST /api/v1/production-runs/{id}/materials", server.Write, server.Handle(h.addMaterial),
			addMaterialDoc),
		server.Op("PATCH /api/v1/production-runs/{id}/materials/{material_id}", server.Write,
			server.Handle(h.updateMaterial), updateMaterialDoc),
		server.Op("DELETE /api/v1/production-runs/{id}/materials/{material_id}", server.Write,
			server.Handle(h.deleteMaterial), deleteMaterialDoc),
		server.Op("POST /api/v1/production-runs/{id}/materials/{material_id}/exchange", server.Write,
			server.Handle(h.exchange), exchangeDoc),
		server.Op("POST /api/v1/production-runs/{id}/start", server.Write, server.Handle(h.start), startDoc),
		server.Op("POST /api/v1/production-runs/{id}/move", server.Write, server.Handle(h.move), moveDoc),
		server.Op("POST /api/v1/production-runs/{id}/complete", server.Write, server.Handle(h.complete).OptionalBody(),
			completeDoc),
		server.Op("POST /api/v1/production-runs/{id}/fail", server.Write, server.Handle(h.fail), failDoc),
		server.Op("POST /api/v1/production-runs/{id}/cancel", server.Write, server.Handle(h.cancel).OptionalBody(),
			cancelDoc),
		server.Op("POST /api/v1/production-runs/{id}/correct", server.Write, server.Handle(h.correct), correctDoc),
		server.Op("POST /api/v1/production-runs/{id}/reopen", server.Write, server.Handle(h.reopen).OptionalBody(),
			reopenDoc),
		server.Op("GET /api/v1/production-runs/{id}/history", server.Read, server.HandleListOf[RunEvent](h.db,
			`select id from production_runs where id = $1 and hidden_at is null`, HistoryFilter.list), historyDoc),
		server.Op("GET /api/v1/products/{id}/cost-breakdown", server.Read,
			server.Handle(h.productCosts), productCostsDoc),
		server.Op("GET /api/v1/products/costs", server.Read, server.Handle(h.listCosts), listCostsDoc),
		server.Op("GET /api/v1/reports/printers", server.Read, server.Handle(h.reportPrinters), printerReportDoc),
		server.Op("GET /api/v1/production-runs/{id}/check", server.Read, server.Handle(h.check), checkDoc),
		server.Op("POST /api/v1/printer-states", server.Write, server.Handle(h.sendStates), sendStatesDoc).ForWatchers(),
		server.Op("POST /api/v1/printer-states/lease", server.Write, server.Handle(h.lease), leaseDoc).ForWatchers().
			Silent(),
		server.Op("GET /api/v1/printer-states", server.Read,
			server.HandleList[PrinterState](h.db, StateFilter.list), listStatesDoc),
		server.Op("GET /api/v1/printer-states/changes", server.Read,
			server.HandleList[StateChange](h.db, ChangeFilter.list), listChangesDoc),
		server.Op("POST /api/v1/printers/{id}/answer", server.Write, server.Handle(h.answer), answerDoc),
		server.Op("GET /api/v1/queue", server.Read, server.Handle(h.queue), queueDoc),
		server.Op("GET /api/v1/reports/usage", server.Read, server.Handle(h.reportUsage), usageReportDoc),
		server.Op("GET /api/v1/reports/usage/export", server.Read,
			ExportUsage.Handle(h.db, "usage"), exportUsageDoc),
		server.Op("GET /api/v1/reports/waste", server.Read, server.Handle(h.reportWaste), wasteReportDoc),
	}
}

type handlers struct {
	db     *db.DB
	orders Orders
}

// RunStatus is the state of a production run.
type RunStatus string

const (
	pending    RunStatus = "pending"
	inProgress RunStatus = "in_progress"
	paused     RunStatus = "paused"
	completed  RunStatus = "completed"
	failed     RunStatus = "failed"
	cancelled  RunStatus = "cancelled"
)

// Enum returns all states.
func (RunStatus) Enum() []string {
	return []string{string(pending), string(inProgress), string(paused), string(completed), string(failed),
		string(cancelled)}
}

// Run is a production run in requests and in responses, except lists.
type Run struct {
	ID             value.UUID                      `json:"id" rule:"readOnly,notNull"`
	Status         value.Optional[RunStatus]       `json:"status" rule:"notNull"`
	PrinterID      value.Optional[value.UUID]      `json:"printer_id"`
	PrinterName    value.Optional[string]          `json:"printer_name"`
	QueuePosition  value.Optional[value.Decimal]   `json:"queue_position" rule:"maximum=1000000"`
	StartedAt      value.Optional[value.Timestamp] `json:"started_at"`
	CompletedAt    value.Optional[value.Timestamp] `json:"completed_at"`
	EstimatedHours value.Optional[value.Decimal]   `json:"estimated_print_time_hours" rule:"maximum=100000"`
	ActualHours    value.Optional[value.Decimal]   `json:"actual_print_time_hours" rule:"maximum=100000"`
	EstimatedGrams value.Optional[value.Decimal]   `json:"estimated_total_filament_grams" rule:"maximum=1000000"`
	ActualGrams    value.Optional[value.Decimal]   `json:"actual_total_filament_grams" rule:"maximum=1000000"`
	QualityRating  value.Optional[int64]           `json:"quality_rating" rule:"minimum=1,maximum=5"`
	QualityNotes   value.Optional[string]          `json:"quality_notes" rule:"maxLength=10000"`
	Notes          value.Optional[string]          `json:"notes" rule:"maxLength=10000"`
	FailureReason  value.Optional[FailureReason]   `json:"failure_reason"`
	FailureNotes   value.Optional[string]          `json:"failure_notes" rule:"maxLength=10000"`
	CreatedAt      value.Timestamp                 `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt      value.Timestamp                 `json:"updated_at" rule:"readOnly,notNull"`
	Deducted       bool                            `json:"inventory_updated" rule:"readOnly,notNull"`
	DeductedAt     value.Timestamp                 `json:"inventory_updated_at" rule:"readOnly"`
	HiddenAt       value.Timestamp                 `json:"hidden_at" rule:"readOnly"`
	HiddenBy       value.UUID                      `json:"hidden_by" rule:"readOnly"`
	Hider          string                          `json:"hidden_by_name" rule:"readOnly,unsorted"`
	Cost           value.Decimal                   `json:"cost" rule:"readOnly"`
	Parts          RunCostParts                    `json:"cost_parts" rule:"readOnly,notNull"`
	Unknown        UnknownParts                    `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Items          []RunItem                       `json:"items"`
	Materials      []RunMaterial                   `json:"materials"`
	Variance       Variance                        `json:"variance_analysis" rule:"readOnly,notNull"`
	Warnings       []RunWarning                    `json:"warnings" rule:"readOnly,notNull"`
	LikelyEnd      value.Timestamp                 `json:"likely_completed_at" rule:"readOnly"`
	UsageSource    string                          `json:"usage_source" rule:"readOnly,enum=reports|grams|length|estimate,named=UsageSource"`
}

// RunCostParts are the parts of the cost of a run.
type RunCostParts struct {
	Filament value.Decimal `json:"filament"`
	Waste    value.Decimal `json:"waste"`
	Machine  value.Decimal `json:"machine"`
	Energy   value.Decimal `json:"energy"`
	Labour   value.Decimal `json:"labour"`
}

// RunWarning is a state of a run that its users may not expect.
type RunWarning struct {
	Code      RunWarningCode `json:"code" rule:"notNull"`
	Detail    string         `json:"detail" rule:"notNull"`
	SpoolID   *value.UUID    `json:"spool_id"`
	OrderID   *value.UUID    `json:"order_id"`
	ProductID *value.UUID    `json:"product_id"`
}

// RunWarningCode is the kind of a RunWarning: INVENTORY_NOT_UPDATED, a StepCode, or an EndWarningCode of a correction.
type RunWarningCode string

// Enum returns all codes.
func (RunWarningCode) Enum() []string {
	return append([]string{"INVENTORY_NOT_UPDATED", "FILAMENT_SHORTFALL", "SPOOL_ARCHIVED", "WEIGHED_SINCE",
		"WEIGHED_DURING_RUN", catalog.CountedSince}, StepCode("").Enum()[1:]...)
}

// The details of warnings. They are parts of SQL literals.
const (
	notUpdated language.Text = "The status is completed, but no filament was deducted from the spools; " +
		"completeProductionRun deducts it"
	twoAtOnce language.Text = "Another run is also in progress on the printer"
)

// RunListItem is a production run in lists.
type RunListItem struct {
	ID             value.UUID      `json:"id" rule:"notNull"`
	Status         RunStatus       `json:"status" rule:"notNull"`
	PrinterID      value.UUID      `json:"printer_id"`
	PrinterName    string          `json:"printer_name"`
	QueuePosition  value.Decimal   `json:"queue_position"`
	StartedAt      value.Timestamp `json:"started_at"`
	CompletedAt    value.Timestamp `json:"completed_at"`
	EstimatedHours value.Decimal   `json:"estimated_print_time_hours"`
	ActualHours    value.Decimal   `json:"actual_print_time_hours"`
	EstimatedGrams value.Decimal   `json:"estimated_total_filament_grams"`
	ActualGrams    value.Decimal   `json:"actual_total_filament_grams"`
	QualityRating  int64           `json:"quality_rating"`
	FailureReason  FailureReason   `json:"failure_reason"`
	CreatedAt      value.Timestamp `json:"created_at" rule:"notNull"`
	UpdatedAt      value.Timestamp `json:"updated_at" rule:"notNull"`
	Deducted       bool            `json:"inventory_updated" rule:"notNull"`
	DeductedAt     value.Timestamp `json:"inventory_updated_at"`
	HiddenAt       value.Timestamp `json:"hidden_at"`
	HiddenBy       value.UUID      `json:"hidden_by"`
	Hider          string          `json:"hidden_by_name" rule:"unsorted"`
	Cost           value.Decimal   `json:"cost"`
	Items          []ListedProduct `json:"items" rule:"notNull"`
	ItemCount      int64           `json:"item_count" rule:"notNull,unsorted"`
	AllItems       []RunItem       `json:"all_items" rule:"notNull"`
	Materials      []ListedSpool   `json:"materials" rule:"notNull"`
	Orders         []ListedOrder   `json:"orders" rule:"notNull"`
	Print          *RunPrint       `json:"print" rule:"unsorted"`
}

// RunPrint is what a watched printer says about a run that it prints.
type RunPrint struct {
	Progress value.Decimal   `json:"progress"`
	EndsAt   value.Timestamp `json:"ends_at"`
}

// printOf selects the RunPrint of the run with an id, while a watcher watches its print.
func printOf(run string) string {
	return `select (s.job::json ->> 'progress')::numeric as progress,
			to_char((s.received_at + make_interval(secs => (s.job::json ->> 'seconds_left')::float8)) at time zone 'UTC',
				'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ends_at
		from printer_jobs j
		join printer_states s on s.id = j.printer_id and s.job_id = j.job and s.state in ('printing', 'paused', 'attention')
		join printer_leases l on l.id = s.id and l.expires_at > now()
		where j.run_id = ` + run + ` and j.outcome is null`
}

// ListedProduct is a product that a run in a list prints.
type ListedProduct struct {
	ProductID   value.UUID `json:"product_id" rule:"notNull"`
	ProductName string     `json:"product_name" rule:"notNull"`
	Picture     string     `json:"picture_version"`
	Quantity    int64      `json:"quantity" rule:"notNull"`
}

// ListedItem is a product in an event.
type ListedItem struct {
	ProductID   value.UUID `json:"product_id" rule:"notNull"`
	ProductName string     `json:"product_name" rule:"notNull"`
	Quantity    int64      `json:"quantity" rule:"notNull"`
}

// ListedSpool is a spool that a run in a list prints from.
type ListedSpool struct {
	SpoolID     value.UUID `json:"spool_id" rule:"notNull"`
	SpoolNumber int64      `json:"spool_number" rule:"notNull"`
	SpoolName   string     `json:"spool_name" rule:"notNull"`
	ColorHex    string     `json:"color_hex"`
}

// ListedOrder is an order that a run in a list prints items of. DueDate is null if the order has ended or was removed.
type ListedOrder struct {
	ID        value.UUID `json:"id" rule:"notNull"`
	Reference string     `json:"reference"`
	Customer  string     `json:"customer"`
	DueDate   value.Date `json:"due_date"`
}

// ListedItems returns SQL expressions for the first three items of a run, as a JSON array of ListedProduct, and for
// the number of all its items. run is a SQL expression for the id of the run.
func ListedItems(run string) (items, count string) {
	return `(select coalesce(json_agg(json_build_object('product_id', i.product_id, 'product_name', p.name,
			'picture_version', p.picture_version, 'quantity', i.quantity) order by i.created_at, i.id), '[]')
		from (select * from run_items x where x.run_id = ` + run + ` order by x.created_at, x.id limit 3) i
		cross join lateral (select name, picture_version from products where id = i.product_id offset 0) p)`,
		`(select count(*) from run_items i where i.run_id = ` + run + `)`
}

// ListedSpools returns a SQL expression for the first eight materials of a run, as a JSON array of ListedSpool.
func ListedSpools(run string) string {
	return `(select coalesce(json_agg(json_build_object('spool_id', s.id, 'spool_number', s.number,
			'spool_name', spool_name(s.material_type, s.material_name, s.color, s.brand), 'color_hex', s.color_hex)
			order by m.created_at, m.id), '[]')
		from (select * from run_materials x where x.run_id = ` + run + ` order by x.created_at, x.id limit 8) m
		cross join lateral (select * from spools where id = m.spool_id offset 0) s)`
}

// Variance has the differences between the actual values of a run and its estimates: actual minus estimated. A
// difference is null if one of the values is null. A percentage is also null if the estimate is zero.
type Variance struct {
	MaterialGrams   value.Decimal `json:"material_variance_grams"`
	MaterialPercent value.Decimal `json:"material_variance_percent"`
	TimeHours       value.Decimal `json:"time_variance_hours"`
	TimePercent     value.Decimal `json:"time_variance_percent"`
}

const listColumns = `id, status, printer_id, printer_name, queue_position, started_at, completed_at,
	estimated_print_time_hours, actual_print_time_hours, estimated_total_filament_grams, actual_total_filament_grams,
	quality_rating, failure_reason, created_at, updated_at, inventory_updated, inventory_updated_at, hidden_at,
	` + auth.HiddenBy + `, cost`

// runsTable is production_runs with the fields that have no column of the same name.
const runsTable = `(select *, deducted_at is not null as inventory_updated, deducted_at as inventory_updated_at,
		known_sum(array[filament_cost, waste_cost, machine_cost, energy_cost, labour_cost]) as cost
	from production_runs) production_runs`

const runColumns = stateColumns + ", " + warningsColumn

// stateColumns lists the columns of a run without its warnings.
const stateColumns = `id, status, printer_id, printer_name, queue_position, started_at, completed_at,
	estimated_print_time_hours, actual_print_time_hours, estimated_total_filament_grams, actual_total_filament_grams,
	quality_rating, quality_notes, notes, failure_reason, failure_notes, created_at, updated_at, inventory_updated,
	inventory_updated_at, hidden_at, ` + auth.HiddenBy + `, cost,
	json_build_object('filament', trim_scale(filament_cost), 'waste', trim_scale(waste_cost),
		'machine', trim_scale(machine_cost), 'energy', trim_scale(energy_cost), 'labour', trim_scale(labour_cost)
	) as cost_parts,
	case when inventory_updated then to_json(unknown_parts('{filament,waste,machine,energy,labour}',
		array[filament_cost, waste_cost, machine_cost, energy_cost, labour_cost])) else '[]' end as unknown_parts,
	json_build_object(
		'material_variance_grams', trim_scale(actual_total_filament_grams - estimated_total_filament_grams),
		'material_variance_percent', trim_scale(round((actual_total_filament_grams - estimated_total_filament_grams)
			* 100 / nullif(estimated_total_filament_grams, 0), 1)),
		'time_variance_hours', trim_scale(actual_print_time_hours - estimated_print_time_hours),
		'time_variance_percent', trim_scale(round((actual_print_time_hours - estimated_print_time_hours)
			* 100 / nullif(estimated_print_time_hours, 0), 1))
	) as variance_analysis,
	case when not inventory_updated and status in ('in_progress', 'paused', 'completed') then
		coalesce(completed_at,
			(select greatest(max(coalesce(u.updated_at, u.created_at)), production_runs.started_at)
				from spool_usage u where u.run_id = production_runs.id and u.kind = 'printed' having count(*) > 0),
			started_at + make_interval(secs => (estimated_print_time_hours * 3600)::float8))
	end as likely_completed_at, usage_source`

// warningsColumn selects the warnings of a run, except the warnings of its check.
const warningsColumn = `case
	when status = 'completed' and not inventory_updated
			and exists (select from run_materials m where m.run_id = production_runs.id)
		then json_build_array(json_build_object('code', 'INVENTORY_NOT_UPDATED', 'detail', '` + string(notUpdated) + `',
			'spool_id', null, 'order_id', null, 'product_id', null))
	when status = 'in_progress' and printer_id is not null and printer_is_busy(printer_id, id, status)
		then json_build_array(json_build_object('code', 'PRINTER_BUSY', 'detail', '` + string(twoAtOnce) + `',
			'spool_id', null, 'order_id', null, 'product_id', null))
	else '[]' end as warnings`

// RunFilter selects production runs.
type RunFilter struct {
	Status        value.Optional[value.Set[RunStatus]] `query:"status"`
	FailureReason value.Optional[FailureReason]        `query:"failure_reason"`
	PrinterID     value.Optional[value.UUID]           `query:"printer_id"`
	PrinterName   value.Optional[string]               `query:"printer_name"`
	OrderID       value.Optional[value.UUID]           `query:"order_id"`
	ProductID     value.Optional[value.UUID]           `query:"product_id"`
	SpoolID       value.Optional[value.UUID]           `query:"spool_id"`
	LotNumber     value.Optional[string]               `query:"lot_number"`
	StartedFrom   value.Optional[value.Moment]         `query:"started_from"`
	StartedTo     value.Optional[value.Moment]         `query:"started_to"`
	CompletedFrom value.Optional[value.Moment]         `query:"completed_from"`
	CompletedTo   value.Optional[value.Moment]         `query:"completed_to"`
	CreatedFrom   value.Optional[value.Moment]         `query:"created_from"`
	CreatedTo     value.Optional[value.Moment]         `query:"created_to"`
	Needs         value.Optional[RunNeed]              `query:"needs"`
	Search        value.Optional[string]               `query:"search" rule:"search"`
	Expand        value.Optional[server.Expand]        `query:"expand"`
	server.Hiding
}

// RunNeed is an action of a person that a run waits for.
type RunNeed string

const (
	needsStart        RunNeed = "start"
	needsConfirmation RunNeed = "confirmation"
)

// Enum returns all needs.
func (RunNeed) Enum() []string { return []string{string(needsStart), string(needsConfirmation)} }

// runsThatNeed has a query of the ids of the runs for each need. A run needs confirmation if its job on a watched
// printer has ended, if its estimated time is over and no watched printer still prints it, or if it is completed but has
// not deducted filament. A pending run needs a start if its printer prints it next and is free and available or, in a
// farm without printers, always.
var runsThatNeed = map[RunNeed]string{
	needsConfirmation: `select r.id from production_runs r
			join printer_jobs j on j.run_id = r.id and j.outcome is not null
			where r.status in ('in_progress', 'paused') and r.deducted_at is null and r.hidden_at is null
		union
		select r.id from production_runs r
			where r.status = 'in_progress' and r.hidden_at is null
				and r.started_at + r.estimated_print_time_hours * interval '1 hour' < now()
				and not exists (` + printOf("r.id") + `)
		union
		select r.id from production_runs r
			where r.status = 'completed' and r.deducted_at is null and r.hidden_at is null`,
	needsStart: `select q.id from run_queue() q
		join production_runs r on r.id = q.id
		left join printers p on p.id = q.printer_id
		where r.status = 'pending' and case when q.printer_id is not null then q.place = 1 and p.status = 'available'
			else not exists (select from printers p where p.hidden_at is null) end`,
}

var listDoc = &server.Doc{
	ID: "listProductionRuns", Tag: Tag, Summary: "List production runs",
	Description: "A run in the list has its first items, materials and orders; `getProductionRun` has all, with their " +
		"figures. " + server.ExpandRules + " All filters but `search` use an index. `search` and a `sort_by` " +
		"without an index read all matching runs.",
}

// list returns the list of the selected production runs, each with its first items, materials and orders.
func (h handlers) list(f RunFilter) *server.List {
	items, count := ListedItems("production_runs.id")
	all := `'[]'::json`
	if !f.Expand.IsNull() {
		all = allItems
	}
	l := f.list(h.orders, listColumns+", "+items+" as items, "+count+" as item_count, "+all+" as all_items, "+
		ListedSpools("production_runs.id")+" as materials, "+h.orders.Named("production_runs.id")+" as orders, "+
		"(select row_to_json(p) from ("+printOf("production_runs.id")+
		" and production_runs.status in ('in_progress', 'paused')) p) as print")
	l.Computed()
	if !f.Expand.IsNull() {
		l.Large()
	}
	return l
}

// list returns the list of the columns of the selected production runs.
func (f RunFilter) list(orders Orders, columns string) *server.List {
	l := server.NewHidingList(runsTable, columns, "production_runs", f.Hiding)
	l.WhereEach("status", f.Status)
	l.WhereEqual("printer_id", f.PrinterID)
	l.WhereText("printer_key", f.PrinterName)
	l.Among(`select i.run_id as id from order_items o join run_items i on i.order_item_id = o.id where o.order_id = ?`,
		f.OrderID)
	l.Among(`select run_id as id from run_items where product_id = ?`, f.ProductID)
	l.Among(`select run_id as id from run_materials where spool_id = ?`, f.SpoolID)
	l.Among(`select run_id as id from runs_of_lot(?)`, f.LotNumber)
	l.Among(`select id from production_runs where failure_reason = ?
		union select run_id from run_items where failure_reason = ?`, f.FailureReason)
	if ids, ok := runsThatNeed[f.Needs.Or("")]; ok {
		l.Within(ids)
	}
	l.Between("started_at", f.StartedFrom, f.StartedTo)
	l.Between("completed_at", f.CompletedFrom, f.CompletedTo)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.Search(f.Search, server.Place{Column: "id", Key: `p.search_key`, Texts: `concat_ws(E'\n', p.name, p.sku)`,
		Rows: `select i.run_id from products p join run_items i on i.product_id = p.id where true`},
		server.Place{Column: "id", Key: `s.search_key`, Texts: `s.lot_number`,
			Rows: `select m.run_id ` + FromLots + ` where true`}, orders.Sought)
	return l
}

// FromLots joins all lots s with the materials m of the runs that printed from a spool while it had the lot.
var FromLots = `
	from (
		select id, lot_number, search_key, null::timestamptz as until from spools where lot_key is not null
		union all
		select spool_id, lot_number, ` + server.Searchable("lot_number") + `, closed_at from spool_contents
		where lot_key is not null
	) s
	join run_materials m on m.spool_id = s.id
	join production_runs lr on lr.id = m.run_id and (s.until is null or lr.started_at <= s.until)
		and not exists (select from spool_contents c where c.spool_id = s.id
			and c.closed_at >= lr.completed_at and c.closed_at < coalesce(s.until, 'infinity'))`

var getDoc = &server.Doc{
	ID: "getProductionRun", Tag: Tag, Summary: "Get a production run",
	Description: "Returns the run with its items, its materials, and the differences between actual values and " +
		"estimates. The names of removed products and spools remain.",
}

func (h handlers) get(ctx context.Context, r *server.Request[struct{}]) (server.OK[Run], error) {
	return respond(ctx, h.db.Read, r.ID("id"))
}

// respond runs the statements before, and three statements that select the run, its items and its materials, in one
// round trip. send is db.Read or db.Write. respond returns the JSON of a Run, or ErrNotFound.
func respond(
	ctx context.Context, send func(context.Context, ...*db.Stmt) error, id string, before ...*db.Stmt,
) ([]byte, error) {
	return respondWith(ctx, send, id, runColumns, nil, before...)
}

// respondWith is respond with the given columns of the run. If warnings is not nil, the run gets the warnings that
// it returns.
func respondWith(ctx context.Context, send func(context.Context, ...*db.Stmt) error, id, columns string,
	warnings func() ([]CheckStep, error), before ...*db.Stmt,
) ([]byte, error) {
	run := db.SQL(`select `+columns+` from `+runsTable+` where id = $1 and hidden_at is null`, id)
	items := db.SQL(`
		select `+itemColumns+` from run_items i join products p on p.id = i.product_id
		where i.run_id = $1 order by i.created_at, i.id`, id)
	materials := db.SQL(`
		select `+materialColumns+` from run_materials m join spools s on s.id = m.spool_id
		where m.run_id = $1 order by m.created_at, m.id`, id)
	if err := server.Found(run, send(ctx, append(before, run, items, materials)...)); err != nil {
		return nil, err
	}
	fields := run.Object()
	b := make([]byte, 0, len(fields)+len(items.Array())+len(materials.Array())+32)
	b = append(b, fields[:len(fields)-1]...)
	b = append(b, `,"items":`...)
	b = append(b, items.Array()...)
	b = append(b, `,"materials":`...)
	b = append(append(b, materials.Array()...), '}')
	if warnings == nil {
		return b, nil
	}
	list, err := warnings()
	if err != nil {
		return nil, err
	}
	return server.Extend(b, "warnings", list)
}

var errUnknownReferences = server.BadRequest("UNKNOWN_REFERENCE", "%s",
	"Not a product: items[1].sku; not a spool: materials[0].spool_id").
	Each(unknownReference("Not a product: %s", "items[1].sku", "items[1].sku"),
		unknownReference("Not a spool: %s", "materials[0].spool_id", "materials[0].spool_id"))

// unknownReference returns the problem with a field that names no existing resource. shown is the field in the message,
// see server.WithValue.
func unknownReference(format language.Text, field, shown string) server.FieldError {
	return server.FieldError{Field: field, Message: language.Sprintf(format, shown)}
}

const printerRules = "`printer_id` names a printer, whose name becomes `printer_name`. A `printer_name` without " +
	"`printer_id` selects the printer with this name, ignoring case, if it exists. The run keeps this name even if the " +
	"printer is renamed."

var errUnknownPrinter = server.BadRequest("UNKNOWN_REFERENCE",
	"printer_id is not the id of a printer").On("printer_id")

var createDoc = &server.Doc{
	ID: "createProductionRun", Tag: Tag, Summary: "Create a production run",
	Description: "All fields are optional. The default `status` is `pending`. Unless the request has the time, " +
		"`in_progress` sets `started_at` and `completed` sets `completed_at` to the current time.\n\n" +
		"The request may contain the run's items and materials, all or nothing. Errors name the entry, such as " +
		"`items[1].product_id`. The defaults of their fields are those of the operations that add one.\n\n" +
		printerRules + "\n\n" +
		"`estimated_total_filament_grams` and `estimated_print_time_hours` come from the bills of materials of the " +
		"items with all components, and are computed again when items are added, changed or removed, until the run ends. " +
		"A value that a request sets stays; `null` returns to the computed value. The filament is that of required " +
		"materials. The time is null if a product has no `estimated_print_time_minutes`, unless it only has " +
		"components.\n\n" +
		"No `status` deducts filament, not even `completed`: `inventory_updated` is false until `completeProductionRun`.",
	Errors: []*server.Error{errUnknownReferences},
}

func (h handlers) create(ctx context.Context, r *server.Request[Run]) (server.Created[Run], error) {
	id, in := value.NewID(), &r.In
	status := in.Status.Or(pending)
	items, materials := itemRows(in.Items), materialRows(in.Materials)
	product := catalog.Named("i.product_id", "i.sku")
	if slices.ContainsFunc(in.Items, func(i RunItem) bool { return i.ofFile() }) {
		product = `(select p.* from ` + product + ` p
				union all
				select p.* from ` + catalog.OfFile("i.file_name", "i.file_sha256") + ` f join products p on p.id = f.id)`
	}
	var invalid invalidEntries
	statements := []*db.Stmt{db.SQL(`
		with item as materialized (
			select i.*, p.id as product, p.id is null as unknown,
				coalesce(i.estimated_material_cost, p.material_cost * i.quantity) as material_cost,
				coalesce(i.estimated_total_cost, case when i.parts_from_stock then p.material_cost else p.total_cost end
					* i.quantity) as total_cost,
				case when i.order_item_id is not null
					then `+h.orders.Problem("i.order_item_id", "p.id")+` end as order_problem
			from json_to_recordset($13::json) i (n int, id uuid, product_id uuid, sku text, file_name text,
				file_sha256 text, order_item_id uuid, parts_from_stock boolean, quantity int, successful_quantity int,
				failed_quantity int, failure_reason text, estimated_material_cost numeric, estimated_total_cost numeric)
			left join lateral `+product+` p on true
		), material as materialized (
			select m.*, s.id as spool, s.cost_per_gram as spool_cost, s.filament
			from json_to_recordset($14::json) m (n int, id uuid, spool_id uuid, spool_number int,
				estimated_weight_grams numeric, sent_actual_grams numeric, spool_weight_before_grams numeric,
				spool_weight_after_grams numeric, estimated_purge_grams numeric, actual_purge_grams numeric,
				cost_per_gram numeric)
			left join lateral `+namedSpool("m.spool_id", "m.spool_number")+` s on true
		), printer as materialized (
			select id, name from `+printers.Named("$17::uuid", "$3::text")+` p
		), run as (
			insert into production_runs (id, status, printer_id, printer_name, queue_position, started_at, completed_at,
				estimated_print_time_hours, actual_print_time_hours,
				estimated_total_filament_grams, actual_total_filament_grams, quality_rating, quality_notes, notes,
				failure_reason, failure_notes, grams_given, hours_given)
			select $1::uuid, $2, (select id from printer), coalesce((select name from printer), $3), $18::numeric,
				coalesce($4::timestamptz, case when $2 = 'in_progress' then now() end),
				coalesce($5::timestamptz, case when $2 = 'completed' then now() end),
				$6::numeric, $7::numeric, $8::numeric, $9::numeric, $10::int, $11, $12, $15, $16,
				$8::numeric is not null, $6::numeric is not null
			where not exists (select from item where unknown or order_problem is not null
					or greatest(material_cost, total_cost) > 999999999)
				and not exists (select from material where spool is null)
				and ($17::uuid is null or exists (select from printer))
			returning id
		), items as (
			insert into run_items (id, run_id, product_id, order_item_id, parts_from_stock, quantity, successful_quantity,
				failed_quantity, failure_reason, estimated_material_cost, estimated_total_cost, planned_bom)
			select i.id, run.id, i.product, i.order_item_id, i.parts_from_stock, i.quantity, i.successful_quantity,
				i.failed_quantity, i.failure_reason, round(i.material_cost, 6), round(i.total_cost, 6),
				case when $2 = 'pending' then product_bom(i.product, i.parts_from_stock) end
			from run, item i order by i.n
		), materials as (
			insert into run_materials (id, run_id, spool_id, estimated_weight_grams, sent_actual_grams,
				spool_weight_before_grams, spool_weight_after_grams, estimated_purge_grams, actual_purge_grams,
				cost_per_gram, planned_filament)
			select m.id, run.id, m.spool, m.estimated_weight_grams, m.sent_actual_grams, m.spool_weight_before_grams,
				m.spool_weight_after_grams, m.estimated_purge_grams, m.actual_purge_grams,
				coalesce(m.cost_per_gram, m.spool_cost), m.filament
			from run, material m order by m.n
		)
		select array(select n from item where unknown order by n),
			array(select n from item where greatest(material_cost, total_cost) > 999999999 order by n),
			array(select n from material where spool is null order by n),
			array(select n from item where order_problem = 'UNKNOWN' order by n),
			array(select n from item where order_problem = 'OTHER_PRODUCT' order by n),
			array(select n from item where order_problem = 'CANCELLED' order by n),
			$17::uuid is not null and not exists (select from printer)`,
		id, string(status), in.PrinterName.Arg(), in.StartedAt.Arg(), in.CompletedAt.Arg(),
		in.EstimatedHours.Arg(), in.ActualHours.Arg(), in.EstimatedGrams.Arg(), in.ActualGrams.Arg(),
		in.QualityRating.Arg(), in.QualityNotes.Arg(), in.Notes.Arg(), items, materials,
		in.FailureReason.Arg(), in.FailureNotes.Arg(), in.PrinterID.Arg(), in.QueuePosition.Arg()).
		Into(&invalid.products, &invalid.costs, &invalid.spools, &invalid.orderItems, &invalid.otherProducts,
			&invalid.cancelled, &invalid.printer)}
	if len(in.Items) > 0 {
		statements = append(statements, estimate(id))
	}
	var linked []string
	for _, i := range in.Items {
		if !i.OrderItemID.IsNull() {
			linked = append(linked, string(*i.OrderItemID.Value))
		}
	}
	if linked != nil {
		statements = append(append([]*db.Stmt{h.orders.Lock(id, linked...)}, statements...), h.orders.Follow(id))
	}
	if status == completed {
		statements = append(statements, h.orders.Settle(id))
	}
	counted := db.SQL(`select count_rows('production_runs', 1) from production_runs where id = $1`, id)
	run, err := respond(ctx, func(ctx context.Context, all ...*db.Stmt) error {
		return h.db.Write(ctx, append(all, counted)...)
	}, id, statements...)
	if problem := invalid.err(in); problem != nil {
		return nil, problem
	}
	return run, itemError(err)
}

// invalidEntries has the indexes of the invalid items and materials of a new run.
type invalidEntries struct {
	products      []int32 // items with an unknown product
	costs         []int32 // items whose estimated costs are too large
	spools        []int32 // materials with an unknown spool
	orderItems    []int32 // items with an unknown item of an order
	otherProducts []int32 // items with an item of an order that has another product
	cancelled     []int32 // items with an item of a cancelled order
	printer       bool    // whether there is no such printer
}

func (e invalidEntries) err(in *Run) error {
	var unknown []string
	var fields []server.FieldError
	if e.printer {
		unknown = append(unknown, "not a printer: printer_id")
		fields = append(fields, unknownReference("Not a printer: %s", "printer_id", "printer_id"))
	}
	for _, list := range []struct {
		format  language.Text
		list    string
		indexes []int32
		field   func(i int32) (name string, sku value.Optional[string])
	}{
		{"Not a product: %s", "items", e.products, func(i int32) (string, value.Optional[string]) {
			return in.Items[i].productField(), in.Items[i].SKU
		}},
		{"Not an item of an order: %s", "items", e.orderItems, func(int32) (name string, sku value.Optional[string]) {
			return "order_item_id", sku
		}},
		{"Not a spool: %s", "materials", e.spools, func(i int32) (name string, sku value.Optional[string]) {
			return in.Materials[i].spoolField(), sku
		}},
	} {
		var names []string
		for _, i := range list.indexes {
			field, sku := list.field(i)
			field = fmt.Sprintf("%s[%d].%s", list.list, i, field)
			name := server.WithValue(field, sku)
			names = append(names, name)
			fields = append(fields, unknownReference(list.format, field, name))
		}
		if names != nil {
			unknown = append(unknown, "n"+language.Sprintf(list.format, server.JoinFields(names))[1:])
		}
	}
	if text := strings.Join(unknown, "; "); text != "" {
		return errUnknownReferences.With("N" + text[1:]).Each(fields...)
	}
	var problems server.Problems
	for _, list := range []struct {
		field   string
		message language.Text
		indexes []int32
	}{
		{"quantity", costTooLarge, e.costs},
		{"order_item_id", otherOrderProduct, e.otherProducts},
		{"order_item_id", cancelledOrder, e.cancelled},
	} {
		for _, i := range list.indexes {
			problems.Add(fmt.Sprintf("items[%d].%s", i, list.field), list.message)
		}
	}
	return problems.Err()
}

// Check reports more good and failed pieces than the default quantity in an item of a new run.
func (r *Run) Check(problems *server.Problems) {
	for i, item := range r.Items {
		if item.Quantity.IsNull() && item.SuccessfulQuantity.Or(0)+item.FailedQuantity.Or(0) > 1 {
			problems.Add(fmt.Sprintf("items[%d].successful_quantity", i), tooManyPieces)
		}
	}
}

var errCompleted = server.BadRequest("RUN_ALREADY_COMPLETED",
	"The run has ended and its filament is deducted; use correctProductionRun or reopenProductionRun to change it")

var updateDoc = &server.Doc{
	ID: "updateProductionRun", Tag: Tag, Summary: "Update a production run",
	Description: "A change of `status`, even to `completed`, does not deduct filament: `inventory_updated` stays " +
		"false, and `warnings` has `INVENTORY_NOT_UPDATED` if the run has materials. To deduct the filament, call " +
		"`completeProductionRun`, `failProductionRun` or `cancelProductionRun`, before or after the change. Once the " +
		"filament is deducted, the status cannot change (`RUN_ALREADY_COMPLETED`, except for the same value), but all " +
		"other fields can. A change of `started_at`, `completed_at` or `actual_print_time_hours` is then a correction, " +
		"with all the effects of `correctProductionRun`. `in_progress` sets `started_at`, and `completed` sets " +
		"`completed_at`, to the current time, unless the run or the request has the time. If a run that has ended is set " +
		"back to another status, its `completed_at` becomes null, unless the request sends it.\n\n" + printerRules,
	Errors: []*server.Error{errUnknownPrinter, errCompleted},
}

func (h handlers) update(ctx context.Context, r *server.Request[Run]) (server.OK[Run], error) {
	id, in := r.ID("id"), r.In
	u := h.updateOf(id, in)
	if !in.StartedAt.Set && !in.CompletedAt.Set && !in.ActualHours.Set {
		if u.update == nil {
			return respond(ctx, h.db.Read, id)
		}
		run, err := respond(ctx, h.db.Write, id, u.statements...)
		if err = u.err(err); err != nil {
			return nil, err
		}
		return warned(run, steps(countedSince(u.balances)))
	}
	// For an ended run, the request is a correction.
	e := ending{changesEnd: true, started: in.StartedAt, EndTime: EndTime{in.CompletedAt, in.ActualHours}}
	c, known := correction{ending: e}, true
	reads := c.reads(h, id)
	if !in.PrinterID.IsNull() {
		reads = append(reads, db.SQL(`
			select (select count(*) from `+printers.Named("$2::uuid", "null")+` p) = 1
				or exists (select from production_runs r where r.id = $1 and r.printer_id = $2)`,
			id, in.PrinterID.Arg()).Into(&known))
	}
	run, err := respond(ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
		return h.db.Decide(ctx, reads, func() (writes []*db.Stmt, err error) {
			if err := c.read.read(); err != nil {
				return nil, err
			}
			if u = h.updateOf(id, in); c.read.run.deducted {
				switch c.ending = e; {
				case !known:
					return nil, errUnknownPrinter
				case in.Status.Or(c.read.run.status) != c.read.run.status:
					return nil, errCompleted.On("status")
				case c.changes():
					if writes, err = c.writes(h, id); err != nil {
						return nil, err
					}
				}
				rest := in
				rest.StartedAt.Set, rest.CompletedAt.Set, rest.ActualHours.Set = false, false, false
				rest.Status.Set = false // the run has this status
				u = h.updateOf(id, rest)
			}
			return slices.Concat(writes, u.statements, stmts), nil
		})
	}, id)
	if err = u.err(err); err != nil {
		return nil, err
	}
	return warned(run, append(c.steps(), steps(countedSince(u.balances))...))
}

// warned returns a run with more warnings.
func warned(run []byte, more []CheckStep) ([]byte, error) {
	if len(more) == 0 {
		return run, nil
	}
	list, err := json.Marshal(more)
	before, after, _ := bytes.Cut(run, []byte(`"warnings":[`))
	if list = list[:len(list)-1]; after[0] != ']' {
		list = append(list, ',')
	}
	return slices.Concat(before, []byte(`"warnings":`), list, after), err
}

// runUpdate has the statements that set fields of a run.
type runUpdate struct {
	statements     []*db.Stmt
	locked, update *db.Stmt // null if there is nothing to set
	known          bool     // whether the printer is known
	balances       string   // the result of catalog.Balanced if the status is set
}

// err converts the error of the statements.
func (u *runUpdate) err(err error) error {
	if u.update == nil {
		return err
	}
	if err = server.Found(u.locked, err); err == nil && !u.known {
		return errUnknownPrinter
	} else if err == nil && u.update.Rows() == 0 {
		return errCompleted.On("status")
	}
	return err
}

// updateOf returns the statements that set the fields of a PATCH.
func (h handlers) updateOf(run string, in Run) *runUpdate {
	fill := ""
	switch in.Status.Or("") {
	case inProgress:
		fill = fillTime(&in.StartedAt, "started_at")
	case completed:
		fill = fillTime(&in.CompletedAt, "completed_at")
	case pending:
		if !in.StartedAt.Set {
			fill = `, started_at = ` + startedBy("r.started_at", "r.id")
		}
	}
	if open := []RunStatus{pending, inProgress, paused}; slices.Contains(open, in.Status.Or("")) && !in.CompletedAt.Set {
		fill += `, completed_at = case when r.status in ('pending', 'in_progress', 'paused') then r.completed_at end`
	}
	printer, name := in.PrinterID, in.PrinterName
	in.PrinterID.Set, in.PrinterName.Set = false, false
	set, args := server.Assignments(&in, []any{run})
	u := &runUpdate{known: true, locked: lockRun(run)}
	open := ""
	u.statements = []*db.Stmt{u.locked}
	if printer.Set || name.Set {
		args = append(args, printer.Arg(), name.Arg())
		id, text := fmt.Sprintf("$%d::uuid", len(args)-1), fmt.Sprintf("$%d::text", len(args))
		set = strings.TrimPrefix(set+`, (printer_id, printer_name) = (
			select case when r.printer_id = `+id+` then r.printer_id else p.id end,
				case when r.printer_id = `+id+` then r.printer_name else coalesce(p.name, `+text+`) end
			from (select) always left join lateral `+printers.Named(id, text)+` p on true)`, ", ")
		if !printer.IsNull() { // a removed printer is allowed only if the run has it already
			u.statements = append(u.statements, db.SQL(`
				select exists (select from printers p where p.id = $2 and p.hidden_at is null)
					or exists (select from production_runs r where r.id = $1 and r.printer_id = $2)`,
				run, printer.Arg()).Into(&u.known))
			open = ` and (r.printer_id = ` + id + ` or exists (
				select from printers p where p.id = ` + id + ` and p.hidden_at is null))`
		}
	}
	if set == "" {
		return &runUpdate{}
	}
	if in.Status.Set {
		args = append(args, in.Status.Arg())
		open += fmt.Sprintf(" and (deducted_at is null or status = $%d)", len(args))
	}
	if in.EstimatedGrams.Set {
		fill += fmt.Sprintf(", grams_given = %t", !in.EstimatedGrams.IsNull())
	}
	if in.EstimatedHours.Set {
		fill += fmt.Sprintf(", hours_given = %t", !in.EstimatedHours.IsNull())
	}
	u.update = db.SQL(`update production_runs r set `+set+fill+`, updated_at = now()
		where id = $1 and hidden_at is null`+open+` returning id`, args...)
	u.statements = append(u.statements, u.update)
	if in.EstimatedGrams.Set || in.EstimatedHours.Set {
		u.statements = append(u.statements, estimate(run))
	}
	if in.Status.Set {
		u.statements = append(u.statements, h.orders.Follow(run), h.orders.Settle(run),
			catalog.Balanced(run).Into(&u.balances))
	}
	return u
}

// estimate returns a statement that computes the estimates that no client gave from the current bills of materials
// of the run's items. It must follow statements that change items. An estimate is null without items, and if it
// exceeds the largest value. A run that has ended keeps its estimates. In a completed run, the statement also
// computes the work and the wasted part of the filament from the numbers of pieces. What was unknown at the end stays
// unknown until a correction.
func estimate(run string) *db.Stmt {
	return db.SQL(`
		update production_runs r set
			estimated_total_filament_grams = case when r.grams_given or r.deducted_at is not null
				then r.estimated_total_filament_grams when e.grams <= 1000000 then e.grams end,
			estimated_print_time_hours = case when r.hours_given or r.deducted_at is not null
				then r.estimated_print_time_hours when e.minutes <= 6000000 then round(e.minutes / 60, 6) end,
			(wasted_parts, filament_cost, waste_cost, labour_cost) = (
				select c.wasted_parts, case when r.filament_cost is not null then c.filament end,
					case when r.waste_cost is not null then c.waste end, case when r.labour_cost is not null then c.labour end
				from run_cost(r.id, r.status, r.actual_print_time_hours) c where r.deducted_at is not null)
		from (
			select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces,
				array_agg(i.parts_from_stock) as alone
			from run_items i where i.run_id = $1
		) i
		cross join lateral estimate_products(i.ids, i.pieces, i.alone) e
		where r.id = $1 and r.hidden_at is null and case when r.deducted_at is null
			then not (r.grams_given and r.hours_given) else r.status = 'completed' end`, run)
}

// touched is a CTE that sets updated_at of the runs whose rows the CTE "changed" returns.
const touched = `touched as (
			update production_runs r set updated_at = now() from changed c where r.id = c.run_id
		)`

// fillTime returns the assignment of the current time to the column, for a SET clause. It returns "" if the request
// sends a time. The assignment keeps a time that the run has, unless the request clears it.
func fillTime(sent *value.Optional[value.Timestamp], column string) string {
	if !sent.IsNull() {
		return ""
	}
	cleared := sent.Set
	sent.Set = false
	if cleared {
		return ", " + column + " = now()"
	}
	return ", " + column + " = coalesce(" + column + ", now())"
}

var (
	errEnded = server.BadRequest("RUN_NOT_OPEN", "The run is completed, failed or cancelled; it cannot be started")
	errBusy  = server.Conflict("PRINTER_BUSY",
		"%s is printing another run. End that run first, or choose another printer", "Prusa 1")
)

var startDoc = &server.Doc{
	ID: "startProductionRun", Tag: Tag, Summary: "Start or continue a production run",
	Description: "Sets the `status` to `in_progress`, and `started_at` to the current time unless it is set. A run " +
		"that is `completed`, `failed` or `cancelled` cannot be started (`RUN_NOT_OPEN`).\n\n" +
		"A printer prints one run at a time: while another run is in progress on the printer of the run, it cannot " +
		"start or continue, and while another one is paused there, a pending run cannot start (`PRINTER_BUSY`). Of " +
		"several requests at the same time, one succeeds. No other step of `getProductionRunCheck` prevents the start; " +
		"the response has the steps as `warnings`.\n\n" +
		"For a run that is in progress, the operation changes nothing and returns the run.",
	Errors: []*server.Error{errEnded, errBusy},
}

func (h handlers) start(ctx context.Context, r *server.Request[struct{}]) (server.OK[Run], error) {
	return h.startRun(ctx, r.ID("id"), nil)
}

// startRun starts a run at a time, or now if at is nil.
func (h handlers) startRun(ctx context.Context, id string, at any) ([]byte, error) {
	// Starts on one printer wait for each other here. The update sees whether the previous transaction has started a
	// run.
	alone := db.SQL(`select pg_advisory_xact_lock(hashtextextended('start on ' || printer_id, 0))::text
		from production_runs where id = $1 and printer_id is not null`, id)
	started := db.SQL(`
		update production_runs set status = 'in_progress', started_at = coalesce(started_at,
				least(greatest(coalesce($2::timestamptz, now()), now() - interval '60 days'), now())),
			updated_at = case when status = 'in_progress' and started_at is not null then updated_at else now() end
		where id = $1 and hidden_at is null and deducted_at is null and (status = 'in_progress'
			or status in ('pending', 'paused') and not (printer_id is not null and printer_is_busy(printer_id, id, status)))
		returning id`, id, at)
	var ended bool
	var printer string
	state := db.SQL(`
		select deducted_at is not null or status not in ('pending', 'in_progress', 'paused'), coalesce(printer_name, '')
		from production_runs where id = $1`, id).Into(&ended, &printer)
	checks := h.checks(`select $1::uuid as id`, id)
	run, err := respondWith(ctx, h.db.Write, id, stateColumns, func() ([]CheckStep, error) {
		all, err := readSteps(checks)
		return all[id], err
	}, lockRun(id), alone, started, state, h.orders.Follow(id), checks)
	switch {
	case err != nil || started.Rows() == 1:
		return run, err
	case ended:
		return nil, errEnded
	}
	return nil, errBusy.With(printer)
}

var deleteDoc = &server.Doc{
	ID: "deleteProductionRun", Tag: Tag, Summary: "Remove a production run",
	Description: "Deletes the run with its items and materials. A run that has deducted filament " +
		"(`inventory_updated`), or for which printers have reported some, is hidden instead, because usage ledgers name " +
		"it: lists no longer contain it, and requests with its id return 404. `GET /api/v1/production-runs?hidden=true` " +
		"lists hidden runs, and `restoreProductionRun` shows one again. The deducted filament is not returned to the " +
		"spools. " + countedRemoval,
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	var balances string
	// The lock makes delete wait for complete and for reports, because they decide whether delete hides or deletes
	// the run.
	locked := db.SQL(`select id from production_runs where id = $1 and hidden_at is null for update`, r.ID("id"))
	removed := db.SQL(`
		with run as materialized (
			select r.id, r.deducted_at is not null or exists (select from spool_usage u where u.run_id = $1) as used
			from production_runs r where r.id = $1 and r.hidden_at is null
		), hidden as (
			update production_runs p set hidden_at = now(), updated_at = now() from run where p.id = run.id and run.used
		)
		delete from production_runs p using run where p.id = run.id and not run.used`, r.ID("id"))
	err := h.db.Decide(ctx, []*db.Stmt{locked}, func() ([]*db.Stmt, error) {
		return []*db.Stmt{removed, h.orders.Settle(r.ID("id")), catalog.Balanced(r.ID("id")).Into(&balances), Count(-1)},
			server.Found(locked, nil)
	})
	return removal(balances, err)
}

var restoreDoc = &server.Doc{
	ID: "restoreProductionRun", Tag: Tag, Summary: "Restore a removed production run",
	Description: "Restores a run that was hidden when it was removed, with its items and materials. For a run that is " +
		"not hidden, the operation changes nothing and returns the run.",
}

func (h handlers) restore(ctx context.Context, r *server.Request[struct{}]) (server.OK[Run], error) {
	// The lock makes restore wait for a running delete. Without it, the delete could hide the run after the update.
	locked := db.SQL(`select id from production_runs where id = $1 for no key update`, r.ID("id"))
	return respond(ctx, h.db.Write, r.ID("id"), locked, server.Restored("production_runs", r.ID("id")))
}

// Count returns a statement that adds n to the total of runs. It must be the last one of its transaction that locks a
// row.
func Count(n int) *db.Stmt { return db.SQL(`select count_rows('production_runs', $1)`, n) }
