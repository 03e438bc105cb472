// Package planning proposes the production runs that print what orders still need, and creates them.
package planning

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
)

var tag = &server.Tag{
	Name: "plan", Fields: fields,
	Description: "Which runs print what is still missing: on which printers, when, and from which spools.",
}

var (
	// fields describes the fields of the requests and responses.
	//
	//go:embed fields.md
	fields string
	//go:embed plan.sql
	planSQL string
)

// Definitions are the SQL functions of plans.
var Definitions = []db.Definition{{Name: "planning/plan", Version: 1, SQL: planSQL}}

// Routes are the operations of plans.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("POST /api/v1/plan", server.Write, server.Handle(h.plan).OptionalBody(), planDoc),
		server.Op("POST /api/v1/orders/{id}/plan", server.Write, server.Handle(h.planOrder).OptionalBody(),
			planOrderDoc),
	}
}

type handlers struct{ db *db.DB }

// OrderPlanRequest is the body of a plan of an order.
type OrderPlanRequest struct {
	Create server.Optional[bool] `json:"create" rule:"notNull"`
}

// PlanRequest is the body of a plan.
type PlanRequest struct {
	Create server.Optional[bool] `json:"create" rule:"notNull"`
	Items  []PlanItem            `json:"items"`
}

// PlanItem is a product to plan.
type PlanItem struct {
	ProductID server.Optional[server.UUID] `json:"product_id" rule:"notNull"`
	SKU       server.Optional[string]      `json:"sku" rule:"writeOnly,notNull,insteadOf=product_id"`
	Quantity  server.Optional[int64]       `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
}

// Plan is what a plan proposes, or has created.
type Plan struct {
	Created    bool              `json:"created" rule:"notNull"`
	FinishedAt server.Timestamp  `json:"finished_at"`
	Runs       []PlannedRun      `json:"runs" rule:"notNull"`
	Unplanned  []UnplannedItem   `json:"unplanned" rule:"notNull"`
	Missing    []MissingFilament `json:"missing" rule:"notNull"`
}

// PlannedRun is a run of a plan.
type PlannedRun struct {
	ID          *server.UUID      `json:"id"`
	PrinterID   server.UUID       `json:"printer_id" rule:"notNull"`
	PrinterName string            `json:"printer_name" rule:"notNull"`
	OrderID     *server.UUID      `json:"order_id"`
	OrderItemID *server.UUID      `json:"order_item_id"`
	ProductID   server.UUID       `json:"product_id" rule:"notNull"`
	ProductName string            `json:"product_name" rule:"notNull"`
	Quantity    int64             `json:"quantity" rule:"notNull"`
	Hours       *server.Decimal   `json:"estimated_print_time_hours"`
	Grams       server.Decimal    `json:"estimated_total_filament_grams" rule:"notNull"`
	StartAt     server.Timestamp  `json:"expected_start_at" rule:"notNull"`
	EndAt       server.Timestamp  `json:"expected_end_at"`
	Materials   []PlannedMaterial `json:"materials" rule:"notNull"`
}

// PlannedMaterial is what a run of a plan takes from a spool.
type PlannedMaterial struct {
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	Color        string                 `json:"color" rule:"notNull"`
	SpoolID      server.UUID            `json:"spool_id" rule:"notNull"`
	SpoolNumber  int64                  `json:"spool_number" rule:"notNull"`
	Grams        server.Decimal         `json:"grams" rule:"notNull"`
}

// UnplannedItem is what no run of a plan prints.
type UnplannedItem struct {
	OrderID     *server.UUID `json:"order_id"`
	OrderItemID *server.UUID `json:"order_item_id"`
	ProductID   server.UUID  `json:"product_id" rule:"notNull"`
	ProductName string       `json:"product_name" rule:"notNull"`
	Quantity    int64        `json:"quantity" rule:"notNull"`
	Reason      string       `json:"reason" rule:"notNull,enum=NO_PRINTER|NO_FILAMENT"`
}

// MissingFilament is filament that is missing for the pieces that are not planned.
type MissingFilament struct {
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	Color        string                 `json:"color" rule:"notNull"`
	Missing      server.Decimal         `json:"missing_grams" rule:"notNull"`
}

// maxRuns is the maximum number of runs of a plan.
const maxRuns = 5000

var (
	errTooLarge = server.Conflict("PLAN_TOO_LARGE", "A plan can have %d runs; this one needs more", maxRuns)
	errOutdated = server.Conflict("PLAN_OUTDATED",
		"Spools or printers have changed while the runs were created; nothing was created, plan again")
	errNotOpen        = server.Conflict("ORDER_NOT_OPEN", "The order is cancelled; nothing can be planned for it")
	errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "items[0].sku").On("items[0].sku")
)

const rules = "Proposes a run for each plate of `pieces_per_plate` pieces, with a printer, an expected time and spools. " +
	"Pieces that unfinished runs plan are not planned again, and filament that unfinished runs and other open orders " +
	"reserve is not used. With `create`, exactly these runs are created, as `pending`: all or none. `docs/planning.md` " +
	"has the rules."

var planDoc = &server.Doc{
	ID: "createPlan", Tag: tag, Summary: "Plan products, or all open orders",
	Description: "Plans the items of the request or, without items, all open orders, those that are due first before the " +
		"others. " + rules,
	Errors:  []*server.Error{errUnknownProduct, errTooLarge, errOutdated},
	Request: `{"create":false}`,
}

func (h handlers) plan(ctx context.Context, r *server.Request[PlanRequest]) (server.OK[Plan], error) {
	rows := make([]map[string]any, len(r.In.Items))
	for i, item := range r.In.Items {
		rows[i] = map[string]any{"n": i, "product_id": item.ProductID.Arg(), "sku": item.SKU.Arg(),
			"quantity": item.Quantity.Or(1)}
	}
	return h.answer(ctx, request{items: rows, named: r.In.Items, create: r.In.Create.Or(false)})
}

var planOrderDoc = &server.Doc{
	ID: "planOrder", Tag: orders.Tag, Summary: "Plan an order",
	Description: "Plans what is neither produced nor planned of the order's items. " + rules,
	Errors:      []*server.Error{errNotOpen, errTooLarge, errOutdated},
	Request:     `{"create":true}`,
}

func (h handlers) planOrder(ctx context.Context, r *server.Request[OrderPlanRequest]) (server.OK[Plan], error) {
	return h.answer(ctx, request{order: r.ID("id"), items: []map[string]any{}, create: r.In.Create.Or(false)})
}

// request is what to plan: an order, items, or else all open orders.
type request struct {
	order  string
	items  []map[string]any
	named  []PlanItem
	create bool
}

// answer plans in one round trip, and creates the runs in another.
func (h handlers) answer(ctx context.Context, q request) (server.OK[Plan], error) {
	for try := 0; ; try++ {
		plan, problem, err := h.attempt(ctx, q)
		if err == nil && problem != nil && try < 3 {
			continue
		}
		if err == nil && problem != nil {
			err = errOutdated
		}
		if err != nil {
			return nil, err
		}
		return server.Encode(plan)
	}
}

func (h handlers) attempt(ctx context.Context, q request) (plan Plan, problem *string, err error) {
	var order any
	if q.order != "" {
		order = q.order
	}
	list, args := db.Recordset(q.items), []any{order, q.order == "" && len(q.items) == 0}
	const items = `plan_items($1::uuid, $2::boolean, $3::json)`
	// The products of the items, as rows of a plan need them.
	named := db.SQL(`
		select l.n, p.id as product_id from json_to_recordset($1::json) l (n int, product_id uuid, sku text)
		left join lateral `+catalog.Named("l.product_id", "l.sku")+` p on true order by l.n`, list)
	if len(q.items) > 0 {
		if err := h.db.Read(ctx, named); err != nil {
			return plan, nil, err
		}
		var found []struct {
			N         int
			ProductID *string `json:"product_id"`
		}
		if err := json.Unmarshal(named.Array(), &found); err != nil {
			return plan, nil, err
		}
		var unknown []string
		for _, f := range found {
			if q.items[f.N]["product_id"] = f.ProductID; f.ProductID == nil {
				field := "product_id"
				if !q.named[f.N].SKU.IsNull() {
					field = "sku"
				}
				unknown = append(unknown, fmt.Sprintf("items[%d].%s", f.N, field))
			}
		}
		if unknown != nil {
			return plan, nil, errUnknownProduct.With(server.JoinFields(unknown)).On(unknown...)
		}
		list = db.Recordset(q.items)
	}
	args = append(args, list)
	var status string
	var last *time.Time
	unknown := false
	opened := db.SQL(`select status from orders where id = $1 and hidden_at is null`, order).Into(&status)
	missing := db.SQL(`select order_id, order_item_id, product_id, quantity from `+items+` order by place`, args...)
	products := db.SQL(`
		select p.id, p.name, coalesce(p.pieces_per_plate, 1) as per_plate,
			case when e.minutes <= 6000000 then trim_scale(round(e.minutes, 6)) end as minutes, m.materials
		from (select distinct product_id as id from `+items+`) i
		cross join lateral (select * from products p where p.id = i.id offset 0) p
		cross join lateral estimate_products(array[p.id], array[1::numeric]) e
		cross join lateral (
			select coalesce(json_agg(json_build_object('type', m.material_type, 'key', m.color_key, 'color', m.color,
				'grams', trim_scale(least(round(m.grams, 6), 999999999))) order by m.material_type, m.color_key), '[]') as materials
			from explode_products(array[p.id], array[1::numeric]) m where m.grams > 0
		) m`, args...)
	printers := db.SQL(`
		select p.id, p.name, p.slots, array_to_json(p.materials) as materials,
			(extract(epoch from greatest(q.free, now())) * 1000000)::bigint as free
		from printers p
		left join (select printer_id, max(expected_end) as free from run_queue() group by printer_id) q on q.printer_id = p.id
		where p.status = 'available' and p.hidden_at is null order by p.number`)
	spools := db.SQL(`
		select s.id, s.number, s.material_type as type, s.color_key as key,
			trim_scale(greatest(s.remaining_weight_grams - coalesce(t.grams, 0), 0)) as free,
			s.first_used_at is not null or s.remaining_weight_grams < s.net_weight_grams as opened,
			coalesce(l.printer_id, t.printer_id) as printer
		from spools s
		left join (
			select m.spool_id, sum(m.grams) as grams, (array_agg(m.printer_id order by m.run_id))[1] as printer_id
			from unfinished_materials() m group by m.spool_id
		) t on t.spool_id = s.id
		left join printer_slots l on l.spool_id = s.id
		where s.in_stock and not s.archived and s.hidden_at is null
			and (s.material_type, s.color_key) in (
				select m.material_type, m.color_key
				from (select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces from `+items+` i) i
				cross join lateral explode_products(i.ids, i.pieces) m)
		order by s.number`, args...)
	// What is in stock less what is reserved, and with what the planned orders reserve themselves.
	budget := db.SQL(`
		select t.material_type as type, t.color_key as key, trim_scale(least(greatest(sum(t.grams), -999999999), 999999999)) as grams
		from (
			select m.material_type, m.color_key, least(round(m.grams, 6), 999999999) as grams
			from (select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces from `+items+` i
				where i.order_id is not null) i
			cross join lateral explode_products(i.ids, i.pieces) m
			union all
			select r.material_type, r.color_key, -least(round(r.grams, 6), 999999999) from reserved_materials($4) r
			union all
			select s.material_type, s.color_key, sum(s.remaining_weight_grams) from spools s
			where s.in_stock and not s.archived and s.hidden_at is null group by s.material_type, s.color_key
		) t group by t.material_type, t.color_key`, append(slices.Clone(args), db.ActorOf(ctx).Tenant)...)
	// When the unfinished runs of the order end.
	planned := db.SQL(`
		select max(q.expected_end), coalesce(bool_or(q.expected_end is null), false)
		from order_items i
		cross join lateral (select r.run_id from run_items r where r.order_item_id = i.id offset 0) r
		join run_queue() q on q.id = r.run_id
		where i.order_id = $1::uuid`, order).Into(&last, &unknown)
	reads := []*db.Stmt{opened, missing, products, printers, spools, budget, planned}
	var f *farm
	choose := func() error {
		switch {
		case q.order != "" && opened.Rows() == 0:
			return server.ErrNotFound
		case status == "cancelled":
			return errNotOpen
		}
		if f, err = read(missing, products, printers, spools, budget); err != nil {
			return err
		}
		total := int64(0)
		for _, i := range f.items {
			if total += (i.Quantity-1)/f.products[i.ProductID].PerPlate + 1; total > maxRuns {
				return errTooLarge
			}
		}
		plan = f.plan(last, unknown)
		return nil
	}
	if !q.create {
		if err = h.db.Read(ctx, append([]*db.Stmt{db.AllowScans()}, reads...)...); err == nil {
			err = choose()
		}
		return plan, nil, err
	}
	// The locks make plans of a tenant wait for each other, and keep other runs from printing the items meanwhile.
	before := []*db.Stmt{db.Lock("plan"), db.AllowScans(), db.SQL(`
		select from (
			select o.id from orders o where o.is_open and ($2 or o.id = $1::uuid) order by o.id
		) u cross join lateral (select from orders o where o.id = u.id offset 0 for no key update) o`, args[:2]...)}
	err = h.db.Decide(ctx, append(before, reads...), func() ([]*db.Stmt, error) {
		if err := choose(); err != nil {
			return nil, err
		}
		plan.Created = true
		problem = nil
		rows := make([]map[string]any, len(plan.Runs))
		for i := range plan.Runs {
			r := &plan.Runs[i]
			id := server.UUID(db.NewID())
			r.ID = &id
			materials := make([]map[string]any, len(r.Materials))
			for j, m := range r.Materials {
				materials[j] = map[string]any{"spool_id": m.SpoolID, "grams": m.Grams.String()}
			}
			rows[i] = map[string]any{"id": id, "printer_id": r.PrinterID, "product_id": r.ProductID,
				"order_item_id": r.OrderItemID, "quantity": r.Quantity, "hours": r.Hours, "grams": r.Grams.String(),
				"materials": materials}
		}
		return []*db.Stmt{production.CreatePlanned(rows).Into(&problem)}, nil
	})
	return plan, problem, err
}

// read returns the farm that the statements have read.
func read(items, products, printers, spools, budget *db.Stmt) (*farm, error) {
	f := &farm{products: map[string]product{}, budget: map[filament]server.Decimal{}}
	var all []struct {
		ID        string
		Name      string
		PerPlate  int64 `json:"per_plate"`
		Minutes   *server.Decimal
		Materials []struct {
			Type, Key, Color string
			Grams            server.Decimal
		}
	}
	var lines []struct {
		OrderID     *string `json:"order_id"`
		OrderItemID *string `json:"order_item_id"`
		ProductID   string  `json:"product_id"`
		Quantity    int64
	}
	var machines []struct {
		ID, Name  string
		Slots     int
		Materials []string
		Free      int64 // in microseconds
	}
	var stock []struct {
		ID        string
		Number    int64
		Type, Key string
		Free      server.Decimal
		Opened    bool
		Printer   *string
	}
	var grams []struct {
		Type, Key string
		Grams     server.Decimal
	}
	for _, s := range []struct {
		rows *db.Stmt
		to   any
	}{{items, &lines}, {products, &all}, {printers, &machines}, {spools, &stock}, {budget, &grams}} {
		if err := json.Unmarshal(s.rows.Array(), s.to); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		one := product{Name: p.Name, PerPlate: p.PerPlate, Minutes: p.Minutes}
		for _, m := range p.Materials {
			one.Materials = append(one.Materials, need{filament{m.Type, m.Key}, m.Color, m.Grams})
		}
		f.products[p.ID] = one
	}
	for _, l := range lines {
		f.items = append(f.items, item(l))
	}
	for _, p := range machines {
		free := time.UnixMicro(p.Free).UTC()
		f.printers = append(f.printers, printer{p.ID, p.Name, p.Slots, p.Materials, free})
	}
	for _, s := range stock {
		at := ""
		if s.Printer != nil {
			at = *s.Printer
		}
		f.spools = append(f.spools, spool{s.ID, s.Number, s.Free, s.Opened, at, filament{s.Type, s.Key}})
	}
	for _, g := range grams {
		f.budget[filament{g.Type, g.Key}] = g.Grams
	}
	return f, nil
}

// plan returns the plan for the farm, which it changes. Last is when the runs end that are planned already, unless that is
// unknown.
func (f *farm) plan(last *time.Time, unknown bool) Plan {
	plan := Plan{Runs: []PlannedRun{}, Unplanned: []UnplannedItem{}, Missing: []MissingFilament{}}
	runs, rest := f.choose()
	known := len(rest) == 0 && !unknown
	if last != nil {
		plan.FinishedAt.Time = last.UTC()
	}
	id := func(s *string) *server.UUID { return (*server.UUID)(s) }
	for _, r := range runs {
		one := PlannedRun{PrinterID: server.UUID(r.printer.ID), PrinterName: r.printer.Name, OrderID: id(r.OrderID),
			OrderItemID: id(r.OrderItemID), ProductID: server.UUID(r.ProductID), ProductName: f.products[r.ProductID].Name,
			Quantity: r.Quantity, Hours: r.hours, Grams: r.grams, StartAt: server.Timestamp{Time: r.start},
			Materials: []PlannedMaterial{}}
		if r.hours == nil {
			known = false
		} else {
			one.EndAt = server.Timestamp{Time: r.end}
			if r.end.After(plan.FinishedAt.Time) {
				plan.FinishedAt.Time = r.end
			}
		}
		for _, m := range r.materials {
			one.Materials = append(one.Materials, PlannedMaterial{inventory.MaterialType(m.Type), m.Color,
				server.UUID(m.spool.ID), m.spool.Number, m.Grams})
		}
		plan.Runs = append(plan.Runs, one)
	}
	if !known {
		plan.FinishedAt.Time = time.Time{}
	}
	left := map[filament]server.Decimal{}
	for _, s := range f.spools {
		left[s.filament] += max(s.Free, 0)
	}
	needed, colors := map[filament]server.Decimal{}, map[filament]string{}
	for _, u := range rest {
		p := f.products[u.ProductID]
		plan.Unplanned = append(plan.Unplanned, UnplannedItem{id(u.OrderID), id(u.OrderItemID), server.UUID(u.ProductID),
			p.Name, u.Quantity, u.reason})
		for _, n := range p.Materials {
			needed[n.filament] = min(needed[n.filament]+times(n.Grams, u.Quantity), times(server.DecimalOne, 999_999_999))
			colors[n.filament] = n.Color
		}
	}
	for n, grams := range needed {
		if grams -= max(0, min(left[n], f.budget[n])); grams > 0 {
			plan.Missing = append(plan.Missing, MissingFilament{inventory.MaterialType(n.Type), colors[n], grams})
		}
	}
	slices.SortFunc(plan.Missing, func(a, b MissingFilament) int {
		return cmp.Or(cmp.Compare(a.MaterialType, b.MaterialType), cmp.Compare(a.Color, b.Color))
	})
	return plan
}
