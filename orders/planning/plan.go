// Package planning proposes the production runs that print what orders still need, and creates them.
package planning

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value"
)

var tag = &server.Tag{
	Name: "plan", Fields: fields,
	Description: "Plans of production runs for missing pieces: printers, times and spools.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Routes are the operations of plans.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("POST /api/v1/plan", server.Write, server.Handle(h.plan).OptionalBody(), planDoc),
		server.Op("POST /api/v1/orders/{id}/plan", server.Write, server.Handle(h.planOrder).OptionalBody(),
			planOrderDoc),
		server.Op("POST /api/v1/production-runs/{id}/replan", server.Write, server.Handle(h.replan), replanDoc),
	}
}

type handlers struct{ db *db.DB }

// OrderPlanRequest is the body of a plan of an order.
type OrderPlanRequest struct {
	Create  value.Optional[bool]                      `json:"create" rule:"notNull"`
	ItemIDs value.Optional[value.Several[value.UUID]] `json:"item_ids"`
	Runs    []PlannedRun                              `json:"runs"`
}

// Check adds a problem for an empty list of runs.
func (r *OrderPlanRequest) Check(problems *server.Problems) { checkRuns(r.Runs, problems) }

func checkRuns(runs []PlannedRun, problems *server.Problems) {
	if runs != nil && len(runs) == 0 {
		problems.Add("runs", "must have an entry; omit runs to let the service choose them")
	}
}

// PlanRequest is the body of a plan.
type PlanRequest struct {
	Create value.Optional[bool] `json:"create" rule:"notNull"`
	Items  []PlanItem           `json:"items"`
	Runs   []PlannedRun         `json:"runs"`
}

// Check adds a problem for an empty list: without items, the plan is for all open orders.
func (r *PlanRequest) Check(problems *server.Problems) {
	if r.Items != nil && len(r.Items) == 0 {
		problems.Add("items", "must have an entry; omit items to plan the open orders")
	}
	checkRuns(r.Runs, problems)
}

// PlanItem is a product to plan.
type PlanItem struct {
	ProductID value.Optional[value.UUID] `json:"product_id" rule:"notNull"`
	SKU       value.Optional[string]     `json:"sku" rule:"writeOnly,notNull,insteadOf=product_id"`
	Quantity  value.Optional[int64]      `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
}

// Plan lists the runs that a plan proposes or created.
type Plan struct {
	Created    bool              `json:"created" rule:"notNull"`
	FinishedAt value.Timestamp   `json:"finished_at"`
	Runs       []PlannedRun      `json:"runs" rule:"notNull"`
	Unplanned  []UnplannedItem   `json:"unplanned" rule:"notNull"`
	Missing    []MissingFilament `json:"missing" rule:"notNull"`
	FromStock  []PlannedPieces   `json:"from_stock" rule:"notNull"`
	ToAssemble []PlannedPieces   `json:"to_assemble" rule:"notNull"`
}

// PlannedPieces are pieces of a product that need no run.
type PlannedPieces struct {
	ProductID   value.UUID `json:"product_id" rule:"notNull"`
	ProductName string     `json:"product_name" rule:"notNull"`
	Quantity    int64      `json:"quantity" rule:"notNull"`
}

// PlannedRun is a run of a plan. A request contains the runs of a plan that a person has changed.
type PlannedRun struct {
	ID          *value.UUID                `json:"id" rule:"readOnly"`
	PrinterID   value.Optional[value.UUID] `json:"printer_id" rule:"notNull"`
	PrinterName string                     `json:"printer_name" rule:"readOnly,notNull"`
	OrderID     *value.UUID                `json:"order_id" rule:"readOnly"`
	OrderItemID value.Optional[value.UUID] `json:"order_item_id"`
	ProductID   value.Optional[value.UUID] `json:"product_id" rule:"required"`
	ProductName string                     `json:"product_name" rule:"readOnly,notNull"`
	Picture     *string                    `json:"picture_version" rule:"readOnly"`
	Quantity    value.Optional[int64]      `json:"quantity" rule:"required,minimum=1,maximum=1000000"`
	Hours       *value.Decimal             `json:"estimated_print_time_hours" rule:"readOnly"`
	Grams       value.Decimal              `json:"estimated_total_filament_grams" rule:"readOnly,notNull"`
	StartAt     value.Timestamp            `json:"expected_start_at" rule:"readOnly,notNull"`
	EndAt       value.Timestamp            `json:"expected_end_at" rule:"readOnly"`
	Materials   []PlannedMaterial          `json:"materials" rule:"notNull"`
}

// PlannedMaterial is the filament that a planned run takes from a spool.
type PlannedMaterial struct {
	MaterialType inventory.MaterialType     `json:"material_type" rule:"readOnly,notNull"`
	MaterialName *string                    `json:"material_name" rule:"readOnly"`
	Color        string                     `json:"color" rule:"readOnly,notNull"`
	DiameterMM   value.Decimal              `json:"diameter_mm" rule:"readOnly,notNull"`
	SpoolID      value.Optional[value.UUID] `json:"spool_id" rule:"required"`
	SpoolNumber  int64                      `json:"spool_number" rule:"readOnly,notNull"`
	Grams        value.Decimal              `json:"grams" rule:"readOnly,notNull"`
}

// UnplannedItem is an item with pieces that no run of the plan prints.
type UnplannedItem struct {
	OrderID     *value.UUID `json:"order_id"`
	OrderItemID *value.UUID `json:"order_item_id"`
	ProductID   value.UUID  `json:"product_id" rule:"notNull"`
	ProductName string      `json:"product_name" rule:"notNull"`
	Quantity    int64       `json:"quantity" rule:"notNull"`
	Reason      string      `json:"reason" rule:"notNull,enum=NO_PRINTER|NO_FILAMENT|LEFT_OUT"`
}

// MissingFilament is filament that the unplanned pieces lack.
type MissingFilament struct {
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	MaterialName *string                `json:"material_name"`
	Color        string                 `json:"color" rule:"notNull"`
	DiameterMM   value.Decimal          `json:"diameter_mm" rule:"notNull"`
	FilamentID   *value.UUID            `json:"filament_id"`
	Missing      value.Decimal          `json:"missing_grams" rule:"notNull"`
}

// maxRuns is the maximum number of runs of a plan.
const maxRuns = 5000

var (
	errTooLarge = server.Conflict("PLAN_TOO_LARGE", "A plan can have at most %d runs; this plan needs more", maxRuns)
	errOutdated = server.Conflict("PLAN_OUTDATED",
		"Spools or printers changed while the runs were created; nothing was created: plan again")
	errNotOpen     = server.Conflict("ORDER_NOT_OPEN", "The order is cancelled; nothing can be planned for it")
	errUnknownItem = server.BadRequest("UNKNOWN_REFERENCE", "Not an item of the order: %s", "item_ids[0]").
			On("item_ids[0]")
	errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "items[0].sku").On("items[0].sku")
)

const rules = "Proposes a run for each plate of `pieces_per_plate` pieces, with a printer, an expected time and " +
	"spools. Orders get pieces in the order of their due dates: first pieces in stock (`from_stock`), then those of " +
	"unfinished runs; only the remaining pieces are printed. Components are planned in the same way, at all levels, " +
	"and `to_assemble` lists the pieces to assemble from them. Filament that unfinished runs and other open orders " +
	"reserve is not used. With `create`, exactly these runs are created, as `pending`: all or none. With `runs`, the " +
	"plan consists of these runs: those of an earlier response, with other printers, spools, numbers of pieces, or in " +
	"another order. What does not fit the rules is a 422 that names the field, such as `runs[2].printer_id`. " +
	"`docs/planning.md` has the rules."

var planDoc = &server.Doc{
	ID: "createPlan", Tag: tag, Summary: "Plan products, or all open orders",
	Description: "Plans the items of the request or, without items, all open orders, in the order of their due " +
		"dates. Pieces of `items` are for the stock: exactly the requested number is printed. " + rules,
	Errors:  []*server.Error{errUnknownProduct, errTooLarge, errOutdated},
	Request: `{"create":false}`,
}

func (h handlers) plan(ctx context.Context, r *server.Request[PlanRequest]) (server.OK[Plan], error) {
	rows := make([]map[string]any, len(r.In.Items))
	for i, item := range r.In.Items {
		rows[i] = map[string]any{"n": i, "product_id": item.ProductID.Arg(), "sku": item.SKU.Arg(),
			"quantity": item.Quantity.Or(1)}
	}
	return h.answer(ctx, request{items: rows, named: r.In.Items, runs: r.In.Runs, create: r.In.Create.Or(false)})
}

var planOrderDoc = &server.Doc{
	ID: "planOrder", Tag: orders.Tag, Summary: "Plan an order",
	Description: "Plans the pieces of the order's items that are neither in stock nor planned. " + rules,
	Errors:      []*server.Error{errNotOpen, errTooLarge, errOutdated},
	Request:     `{"create":true}`,
}

func (h handlers) planOrder(ctx context.Context, r *server.Request[OrderPlanRequest]) (server.OK[Plan], error) {
	return h.answer(ctx, request{order: r.ID("id"), only: r.In.ItemIDs.Arg(), items: []map[string]any{},
		runs: r.In.Runs, create: r.In.Create.Or(false)})
}

// request is what to plan: an order, a list of items, the items of a replaced run, or all open orders.
type request struct {
	order  string
	only   any // the ids of the items of the order to plan, or nil
	items  []map[string]any
	named  []PlanItem
	runs   []PlannedRun // the runs that a person has chosen, or nil
	replan bool
	create bool
}

// answer plans in one round trip, and creates the runs in another.
func (h handlers) answer(ctx context.Context, q request) (server.OK[Plan], error) {
	plan, err := h.attempts(ctx, q)
	if err != nil {
		return nil, err
	}
	return server.Encode(plan)
}

// attempts plans up to four times, because printers or spools may change during an attempt.
func (h handlers) attempts(ctx context.Context, q request) (plan Plan, err error) {
	for range 4 {
		if plan, err = h.attempt(ctx, q); !db.Violates(err, "plan_outdated") {
			return plan, err
		}
		if db.InTx(ctx) { // keeps the rest of the transaction
			if err := h.db.Write(ctx, db.SQL("rollback to savepoint plan")); err != nil {
				return plan, err
			}
		}
	}
	return plan, errOutdated.Because(err)
}

// stateSQL selects the input of a plan in one row. $1 is an order, $2 whether to plan all open orders, $3 the list
// of items to plan, $4 the tenant, $5 the items of the order to plan, or null for all, and $6 the spools of the runs
// that a person has chosen.
//
// net is what open orders and the list need, and where it comes from. need has the rows of net for the plan. item has
// the pieces of need to print: those that are neither in stock nor in unfinished runs. It is ordered by the due dates
// of the orders, orders without a due date last, and then by the creation of the orders; products come before their
// components. Of printers that are free at the same time, a plan prefers the first; printers whose run is overdue come
// last.
var stateSQL = `
	with line as materialized (
		select l.n, p.id as product_id, l.order_item_id, l.quantity
		from json_to_recordset($3::json) l (n int, product_id uuid, sku text, order_item_id uuid, quantity bigint)
		left join lateral ` + catalog.Named("l.product_id", "l.sku") + ` p on true
	), net as materialized (
		select n.* from net_pieces(null, (
			select json_agg(json_build_object('n', l.n, 'product_id', l.product_id, 'quantity', l.quantity))
			from line l where l.order_item_id is null)) n
	), need as materialized (
		select n.* from net n
		where n.line is not null or ($2 or n.order_id = $1::uuid) and ($5::uuid[] is null or n.order_item_id = any ($5))
		union all
		-- The pieces of a replaced run, at most as many as the item of the order needs.
		select n.place, n.order_id, n.order_item_id, l.n, n.product_id, n.of_item, n.printed, least(n.needed, e.total),
			0, 0, least(n.missing, e.total)
		from line l
		join net n on n.order_item_id = l.order_item_id
		join lateral explode_pieces(array[l.product_id], array[l.quantity::numeric]) e on e.id = n.product_id
		where l.product_id is not null
	), item as materialized (
		select n.order_id, n.order_item_id, n.product_id, n.missing::numeric as quantity,
			row_number() over (order by n.place, p.levels desc, p.created_at, p.id) as place
		from need n cross join lateral (select * from products p where p.id = n.product_id offset 0) p
		where n.printed and n.missing > 0
	), product as materialized (
		select p.id, p.name, p.picture_version, coalesce(p.pieces_per_plate, 1) as per_plate,
			coalesce(p.pieces_per_plate, 1000000) as most, e.minutes
		from (select distinct i.product_id as id from item i) i
		join products p on p.id = i.id
		cross join lateral estimate_products(array[p.id], array[1::numeric], '{t}') e
	), material as materialized (
		select p.id as product_id, m.* from product p
		cross join lateral explode_products(array[p.id], array[1::numeric], '{t}') m
		where m.grams > 0
	), busy as materialized (
		select distinct r.printer_id as id from production_runs r
		where r.printer_id is not null and r.status in ('in_progress', 'paused') and r.hidden_at is null
	), filament as materialized (
		-- The runs that need the filament, at most as many as a plan can have, and the grams of all of them.
		select m.material_key, m.color_key,
			least(sum(div(i.quantity - 1, m.per_plate) + 1), ` + strconv.Itoa(maxRuns) + `) as runs,
			sum(i.quantity * least(round(m.grams, 6), 999999999)) as grams
		from item i
		join (select m.*, p.per_plate from material m join product p on p.id = m.product_id) m on m.product_id = i.product_id
		group by 1, 2
	), queue as materialized (
		select * from run_queue()
	), taken as materialized (
		select m.spool_id, sum(m.grams) as grams, (array_agg(m.printer_id order by m.run_id))[1] as printer_id
		from unfinished_materials() m group by m.spool_id
	)
	select
		(select o.status from orders o where o.id = $1::uuid and o.hidden_at is null) as status,
		(select coalesce(json_agg(w.n - 1 order by w.n), '[]') from unnest($5::uuid[]) with ordinality w (id, n)
			where not exists (select from order_items i
				where i.id = w.id and i.order_id = $1::uuid and i.withdrawn_at is null)) as unknown,
		-- The lines without a known product, except those of an item that needs nothing.
		(select coalesce(json_agg(l.n order by l.n), '[]') from line l
			where l.product_id is null and (l.order_item_id is null
				or exists (select from net n where n.order_item_id = l.order_item_id and n.missing > 0))) as unnamed,
		(select coalesce(json_agg(json_build_object('product_id', u.id, 'product_name', p.name, 'quantity', u.reserved)
				order by p.created_at, p.id) filter (where u.reserved > 0), '[]')
			from (select n.product_id as id, sum(n.reserved) as reserved from need n group by n.product_id) u
			join products p on p.id = u.id) as from_stock,
		(select coalesce(json_agg(json_build_object('product_id', u.id, 'product_name', p.name, 'quantity', u.missing)
				order by p.created_at, p.id), '[]')
			from (select n.product_id as id, sum(n.missing) as missing from need n
				where not n.printed and n.missing > 0 group by n.product_id) u
			join products p on p.id = u.id where not is_plated(u.id)) as to_assemble,
		(select coalesce(json_agg(json_build_object('order_id', i.order_id, 'order_item_id', i.order_item_id,
			'product_id', i.product_id, 'quantity', least(i.quantity, 999999999)) order by i.place), '[]')
				from item i) as items,
		(select coalesce(json_agg(json_build_object('id', p.id, 'name', p.name, 'picture', p.picture_version,
				'per_plate', p.per_plate, 'most', p.most,
				'minutes', case when p.minutes <= 6000000 then trim_scale(round(p.minutes, 6)) end,
				'materials', m.materials)), '[]')
			from product p
			cross join lateral (
				select coalesce(json_agg(json_build_object('material', m.material_key, 'key', m.color_key,
					'filament', m.filament_id, 'type', m.material_type, 'name', m.material_name, 'color', m.color,
					'diameter', trim_scale(m.diameter_mm), 'grams', trim_scale(least(round(m.grams, 6), 999999999)))
						order by m.material_key, m.color_key, m.filament_id nulls first), '[]') as materials
				from material m where m.product_id = p.id
			) m) as products,
		(select coalesce(json_agg(json_build_object('id', p.id, 'name', p.name, 'slots', p.slots,
				'diameter', trim_scale(p.diameter_mm), 'materials', p.materials, 'updated_at', p.updated_at,
				'free', event_time(greatest(q.free, now()))) order by b.id is not null, p.number), '[]')
			from printers p
			left join busy b on b.id = p.id
			left join (select q.printer_id, max(q.expected_end) as free from queue q group by q.printer_id) q
				on q.printer_id = p.id
			where p.status = 'available' and p.hidden_at is null) as printers,
		-- Spools that differ only in their numbers are used in the order of the numbers. Each run empties some spools
		-- and uses a part of one more, so a plan uses at most one spool per run, plus those that its grams empty. The
		-- others are left out.
		(select coalesce(json_agg(json_build_object('id', s.id, 'number', s.number, 'material', s.material_key,
				'key', s.color_key, 'filament', s.filament_id, 'edited_at', s.edited_at, 'free', trim_scale(s.free),
				'opened', s.opened, 'printer', s.printer_id) order by s.number), '[]')
			from (
				select s.*, row_number() over (partition by s.material_key, s.color_key, s.filament_id, s.free, s.opened,
					s.printer_id order by s.number) as place
				from (
					select s.id, s.number, s.material_key, s.color_key, s.filament_id, s.edited_at,
						s.remaining_weight_grams - coalesce(t.grams, 0) as free, f.runs, f.grams,
						s.first_used_at is not null or s.remaining_weight_grams < s.net_weight_grams as opened,
						coalesce(l.printer_id, t.printer_id) as printer_id
					from filament f
					join spools s on s.color_key = f.color_key and s.material_key = f.material_key and s.in_stock
							and not s.archived and s.hidden_at is null
					left join taken t on t.spool_id = s.id
					left join printer_slots l on l.spool_id = s.id
				) s
				where s.free > 0 or s.id = any ($6::uuid[])
			) s
			where s.id = any ($6::uuid[]) or s.place <= s.runs + s.grams / nullif(s.free, 0) + 1) as spools,
		(select coalesce(json_agg(json_build_object('material', g.material_key, 'key', g.color_key,
				'filament', g.filament_id,
				'left', trim_scale(greatest(least(round(g.remaining - g.held, 6), 999999999), -999999999)),
				'loose', trim_scale(least(round(g.loose, 6), 999999999)))), '[]')
			from (select array_agg(f.material_key) as materials, array_agg(f.color_key) as colors
				from filament f having count(*) > 0) f
			cross join lateral filament_stock($4, f.materials, f.colors,
				case when not $2 then array(select distinct i.order_id from item i where i.order_id is not null) end) g) as stock,
		-- When the unfinished runs of the order end.
		(select json_build_object('last', event_time(max(q.expected_end)),
				'unknown', coalesce(bool_or(q.expected_end is null), false))
			from order_items i
			join run_items r on r.order_item_id = i.id
			join queue q on q.id = r.run_id
			where i.order_id = $1::uuid) as planned`

func (h handlers) attempt(ctx context.Context, q request) (plan Plan, err error) {
	all := q.order == "" && len(q.items) == 0
	var order any
	if q.order != "" {
		order = q.order
	}
	var f *farm
	read := db.SQL(stateSQL, order, all, db.Recordset(q.items), db.ActorOf(ctx).Tenant, q.only, q.spools())
	choose := func() error {
		s := &state{}
		if err := json.Unmarshal(read.Object(), s); err != nil {
			return err
		}
		switch {
		case q.order != "" && s.Status == nil:
			return server.ErrNotFound
		case q.order != "" && *s.Status == "cancelled":
			return errNotOpen
		case len(s.Unknown) > 0:
			var fields []string
			for _, n := range s.Unknown {
				fields = append(fields, fmt.Sprintf("item_ids[%d]", n))
			}
			return errUnknownItem.With(server.JoinFields(fields)).On(fields...)
		}
		if err := q.unknown(s.Unnamed); err != nil {
			return err
		}
		if q.replan && len(s.Unnamed) > 0 {
			return errRemoved
		}
		f = s.farm()
		if q.runs != nil {
			runs, rest, err := f.chosen(q.runs)
			if err != nil {
				return err
			}
			plan = f.plan(runs, rest, s.Planned.Last, s.Planned.Unknown)
		} else {
			total := int64(0)
			for _, i := range f.items {
				if total += (i.Quantity-1)/f.products[i.ProductID].PerPlate + 1; total > maxRuns {
					return errTooLarge
				}
			}
			runs, rest := f.choose()
			plan = f.plan(runs, rest, s.Planned.Last, s.Planned.Unknown)
		}
		plan.FromStock, plan.ToAssemble = s.FromStock, s.ToAssemble
		if q.replan {
			return plan.complete()
		}
		return nil
	}
	if !q.create {
		if err = h.db.Read(ctx, db.FreshPlan(), read); err == nil {
			err = choose()
		}
		return plan, err
	}
	// The locks serialize the plans of a tenant, and keep other runs from printing the items at the same time.
	before := []*db.Stmt{db.SQL("savepoint plan"), db.Lock("plan"), db.FreshPlan(), db.SQL(`
		select from (
			select o.id from orders o where o.is_open and ($2 or o.id = $1::uuid) order by o.id
		) u cross join lateral (select from orders o where o.id = u.id for no key update) o`, order, all), read}
	err = h.db.Decide(ctx, before, func() ([]*db.Stmt, error) {
		if err := choose(); err != nil {
			return nil, err
		}
		plan.Created = true
		updated, edited := map[value.UUID]string{}, map[value.UUID]*string{}
		for _, p := range f.printers {
			updated[value.UUID(p.ID)] = p.UpdatedAt
		}
		for _, s := range f.spools {
			edited[value.UUID(s.ID)] = s.EditedAt
		}
		rows := make([]map[string]any, len(plan.Runs))
		for i := range plan.Runs {
			r := &plan.Runs[i]
			id := value.UUID(value.NewID())
			r.ID = &id
			materials := make([]map[string]any, len(r.Materials))
			for j, m := range r.Materials {
				materials[j] = map[string]any{"spool_id": m.SpoolID, "edited_at": edited[*m.SpoolID.Value],
					"grams": m.Grams.String()}
			}
			rows[i] = map[string]any{"id": id, "printer_id": r.PrinterID,
				"printer_updated_at": updated[*r.PrinterID.Value], "product_id": r.ProductID,
				"order_item_id": r.OrderItemID, "quantity": r.Quantity, "hours": r.Hours, "grams": r.Grams.String(),
				"materials": materials}
		}
		return []*db.Stmt{production.CreatePlanned(rows)}, nil
	})
	return plan, err
}

// unknown returns the error for the items of the request that name no product.
func (q request) unknown(unnamed []int) error {
	if q.named == nil {
		return nil
	}
	var fields, shown []string
	for _, n := range unnamed {
		field := "product_id"
		if !q.named[n].SKU.IsNull() {
			field = "sku"
		}
		field = fmt.Sprintf("items[%d].%s", n, field)
		fields, shown = append(fields, field), append(shown, server.WithValue(field, q.named[n].SKU))
	}
	if fields != nil {
		return errUnknownProduct.With(server.JoinFields(shown)).On(fields...)
	}
	return nil
}

// state is the result of stateSQL.
type state struct {
	Status     *string
	Unknown    []int           // the indices of item_ids that are no items of the order
	Unnamed    []int           // the indices of items that name no product
	FromStock  []PlannedPieces `json:"from_stock"`
	ToAssemble []PlannedPieces `json:"to_assemble"`
	Items      []item
	Products   []struct {
		ID        string
		Name      string
		PerPlate  int64 `json:"per_plate"`
		Most      int64
		Minutes   *value.Decimal
		Materials []need
		Picture   *string
	}
	Printers []printer
	Spools   []spool
	Stock    []struct { // the groups of each filament; see filament_stock
		group
		Left, Loose value.Decimal
	}
	Planned struct {
		Last    *time.Time
		Unknown bool
	}
}

func (s *state) farm() *farm {
	f := &farm{items: s.Items, products: map[string]product{}, printers: s.Printers,
		spools: s.Spools, left: map[group]value.Decimal{}, loose: map[filament]value.Decimal{}}
	for _, p := range s.Products {
		f.products[p.ID] = product{p.Name, p.PerPlate, p.Most, p.Minutes, p.Materials, p.Picture}
	}
	for _, g := range s.Stock {
		f.left[g.group] += g.Left
		f.loose[g.filament] = g.Loose
	}
	return f
}

// plan returns the plan with the runs, after which the pieces of rest are missing. last is the end of the existing
// runs; unknown reports that this end is unknown.
func (f *farm) plan(runs []run, rest []unplanned, last *time.Time, unknown bool) Plan {
	plan := Plan{Runs: []PlannedRun{}, Unplanned: []UnplannedItem{}, Missing: []MissingFilament{}}
	known := len(rest) == 0 && !unknown
	if last != nil {
		plan.FinishedAt.Time = last.UTC()
	}
	id := func(s *string) *value.UUID { return (*value.UUID)(s) }
	for _, r := range runs {
		p := f.products[r.ProductID]
		one := PlannedRun{PrinterID: value.Some(value.UUID(r.printer.ID)), PrinterName: r.printer.Name,
			OrderID: id(r.OrderID), OrderItemID: value.Optional[value.UUID]{Value: id(r.OrderItemID)},
			ProductID: value.Some(value.UUID(r.ProductID)), ProductName: p.Name, Picture: p.Picture,
			Quantity: value.Some(r.Quantity), Hours: r.hours, Grams: r.grams,
			StartAt: value.Timestamp{Time: r.start}, Materials: []PlannedMaterial{}}
		if r.hours == nil {
			known = false
		} else {
			one.EndAt = value.Timestamp{Time: r.end}
			if r.end.After(plan.FinishedAt.Time) {
				plan.FinishedAt.Time = r.end
			}
		}
		for _, m := range r.materials {
			one.Materials = append(one.Materials, PlannedMaterial{inventory.MaterialType(m.Type), m.Name, m.Color, m.Diameter,
				value.Some(value.UUID(m.spool.ID)), m.spool.Number, m.Grams})
		}
		plan.Runs = append(plan.Runs, one)
	}
	if !known {
		plan.FinishedAt.Time = time.Time{}
	}
	needed := map[group]need{}
	for _, u := range rest {
		p := f.products[u.ProductID]
		plan.Unplanned = append(plan.Unplanned, UnplannedItem{id(u.OrderID), id(u.OrderItemID), value.UUID(u.ProductID),
			p.Name, u.Quantity, u.reason})
		if u.reason == leftOut {
			continue
		}
		for _, n := range p.Materials {
			grams := min(needed[n.group].Grams+times(n.Grams, u.Quantity), times(value.DecimalOne, 999_999_999))
			n.Grams = grams
			needed[n.group] = n
		}
	}
	taken := map[filament]value.Decimal{} // the grams that needs for a single group take first
	all := slices.Collect(maps.Values(needed))
	value.Sort(all, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.Material, b.Material), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Filament, b.Filament))
	})
	for _, n := range first(all) {
		has := min(f.free(n), f.onSpools(n))
		if n.Filament == "" {
			has = max(0, has-taken[n.filament])
		} else {
			taken[n.filament] += min(has, n.Grams)
		}
		if n.Grams > has {
			plan.Missing = append(plan.Missing, MissingFilament{inventory.MaterialType(n.Type), n.Name, n.Color, n.Diameter,
				id(n.entry()), n.Grams - has})
		}
	}
	value.Sort(plan.Missing, func(a, b MissingFilament) int {
		return cmp.Or(cmp.Compare(a.MaterialType, b.MaterialType),
			cmp.Compare(value.OrZero(a.MaterialName), value.OrZero(b.MaterialName)),
			cmp.Compare(a.Color, b.Color), cmp.Compare(a.DiameterMM, b.DiameterMM))
	})
	return plan
}
