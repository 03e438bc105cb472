package production

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"spoolwright/db"
	"spoolwright/server"
)

var queueTag = &server.Tag{
	Name: "queue", Fields: fields,
	Description: "The unfinished runs by printer, in the order in which it prints them, with expected times.",
}

// QueueFilter selects runs of the queue.
type QueueFilter struct {
	PrinterID server.Optional[server.UUID] `query:"printer_id"`
}

// Queue is the unfinished runs by printer.
type Queue struct {
	Total int64       `json:"total" rule:"notNull"`
	Runs  []QueuedRun `json:"runs" rule:"notNull"`
}

// QueuedRun is a run of the queue.
type QueuedRun struct {
	ID             server.UUID      `json:"id" rule:"notNull"`
	Status         RunStatus        `json:"status" rule:"notNull"`
	PrinterID      server.UUID      `json:"printer_id"`
	PrinterName    string           `json:"printer_name"`
	Place          int64            `json:"place" rule:"notNull"`
	QueuePosition  server.Decimal   `json:"queue_position"`
	EstimatedHours server.Decimal   `json:"estimated_print_time_hours"`
	StartAt        server.Timestamp `json:"expected_start_at"`
	EndAt          server.Timestamp `json:"expected_end_at"`
	Items          []QueuedItem     `json:"items" rule:"notNull"`
}

// QueuedItem is a product that a run of the queue prints.
type QueuedItem struct {
	ProductID   server.UUID `json:"product_id" rule:"notNull"`
	ProductName string      `json:"product_name" rule:"notNull"`
	Quantity    int64       `json:"quantity" rule:"notNull"`
}

var queueDoc = &server.Doc{
	ID: "getQueue", Tag: queueTag, Summary: "Get the queue",
	Description: "Runs that are in progress or paused come first. The pending runs of a printer follow in the " +
		"order of `queue_position`, those without one last, in the order of their creation; " +
		"`moveProductionRun` moves one. Expected times follow from the estimates at each request: a run that starts, " +
		"ends or fails shifts the others.",
}

func (h handlers) queue(ctx context.Context, r *server.Request[QueueFilter]) (server.OK[Queue], error) {
	queue := db.SQL(`
		select count(*) as total, coalesce(json_agg(json_build_object('id', q.id, 'status', q.status,
				'printer_id', q.printer_id, 'printer_name', q.printer_name, 'place', q.place,
				'queue_position', trim_scale(q.queue_position),
				'estimated_print_time_hours', trim_scale(q.estimated_print_time_hours),
				'expected_start_at', event_time(q.expected_start), 'expected_end_at', event_time(q.expected_end),
				'items', q.items)
				order by q.n) filter (where q.n <= 1000), '[]') as runs
		from (
			select r.*, q.place, q.expected_start, q.expected_end,
				row_number() over (order by p.number, q.printer_id, q.place) as n,
				(select coalesce(json_agg(json_build_object('product_id', i.product_id, 'product_name', i.name,
						'quantity', i.quantity) order by i.created_at, i.id), '[]')
					from (select i.id, i.created_at, i.product_id, i.quantity, p.name
						from (select * from run_items i where i.run_id = r.id offset 0) i
						cross join lateral (select p.name from products p where p.id = i.product_id offset 0) p) i) as items
			from run_queue() q
			cross join lateral (select * from production_runs r where r.id = q.id offset 0) r
			left join lateral (select p.number from printers p where p.id = q.printer_id offset 0) p on true
			where $1::uuid is null or q.printer_id = $1::uuid
		) q`, r.In.PrinterID.Arg())
	return server.One(queue, h.db.Read(ctx, queue))
}

// MoveRequest is the body of move.
type MoveRequest struct {
	Place server.Optional[int64] `json:"place" rule:"required,minimum=1,maximum=1000000"`
}

var errNotQueued = server.BadRequest("RUN_NOT_OPEN", "The run is completed, failed or cancelled; it cannot be moved")

var moveDoc = &server.Doc{
	ID: "moveProductionRun", Tag: tag, Summary: "Move a pending run in the queue",
	Description: "Moves the run to a `place` among the unfinished runs of its printer, as `getQueue` counts them, and " +
		"shifts the pending runs between its old and its new place. It does not pass runs that have started, and " +
		"takes the last place if there are fewer. The pending runs get the values 1, 2, 3 and so on of " +
		"`queue_position`, except those behind both places that had none. For a run that has the place, or that has " +
		"started, the operation changes nothing and returns the run. One that has ended cannot be moved " +
		"(`RUN_NOT_OPEN`).",
	Errors: []*server.Error{errNotQueued},
}

func (h handlers) move(ctx context.Context, r *server.Request[MoveRequest]) (server.OK[Run], error) {
	// Moves on one printer wait for each other here. The update sees what the one before has changed.
	locked := db.SQL(`
		select r.id from production_runs m
		join production_runs r on r.printer_id is not distinct from m.printer_id and r.status = 'pending'
		where m.id = $1 order by r.id for no key update of r`, r.ID("id"))
	var isOpen bool
	moved := db.SQL(`
		with pending as materialized (
			select q.id, r.queue_position as position, row_number() over (order by q.place) as n,
				min(q.place) over () - 1 as started, count(*) over () as total
			from (select q.* from production_runs m join run_queue() q on q.printer_id is not distinct from m.printer_id
				where m.id = $1) q
			cross join lateral (select * from production_runs r where r.id = q.id offset 0) r
			where r.status = 'pending'
		), moved as materialized (
			select id, n, least(greatest($2::bigint - started, 1), total) as place from pending where id = $1
		), changed as (
			update production_runs r set queue_position = least(p.place, 1000000), updated_at = now()
			from (
				select p.id, p.position, case when p.id = m.id then m.place
						when p.n between m.n and m.place then p.n - 1
						when p.n between m.place and m.n then p.n + 1
						else p.n end as place, greatest(m.n, m.place) as last
				from moved m, pending p where m.n <> m.place
			) p
			where r.id = p.id and r.status = 'pending' and r.queue_position is distinct from least(p.place, 1000000)
				and (p.position is not null or p.place <= p.last)
		)
		select exists (select from production_runs where id = $1 and status in ('pending', 'in_progress', 'paused'))`,
		r.ID("id"), r.In.Place.Arg()).Into(&isOpen)
	run, err := respond(ctx, h.db.Write, r.ID("id"), locked, moved)
	if err == nil && !isOpen {
		err = errNotQueued
	}
	return run, err
}

// CreatePlanned returns a statement that creates runs as a plan has them, each with the fields that
// create_planned_runs names. It fails with a violation of plan_outdated if the printers or spools have changed.
func CreatePlanned(runs []map[string]any) *db.Stmt {
	return db.SQL(`select create_planned_runs($1::json)::text`, db.Recordset(runs))
}

// Check says whether a run can start, and what to do first.
type Check struct {
	Ready bool        `json:"ready" rule:"notNull"`
	Steps []CheckStep `json:"steps" rule:"notNull"`
}

// CheckStep is what has to be done before a run can start.
type CheckStep struct {
	Code    string       `json:"code" rule:"notNull,enum=RUN_ENDED|NO_PRINTER|PRINTER_NOT_AVAILABLE|PRINTER_BUSY|NO_MATERIALS|SPOOL_REMOVED|MATERIAL_NOT_PRINTED|TOO_LITTLE_FILAMENT|LOAD_SPOOL"`
	Detail  string       `json:"detail" rule:"notNull"`
	SpoolID *server.UUID `json:"spool_id"`
}

var checkDoc = &server.Doc{
	ID: "getProductionRunCheck", Tag: tag, Summary: "Check whether a run can start",
	Description: "Tells whether the printer is free, the right spools are loaded, and enough filament is left, and " +
		"lists what to do first. Nothing enforces these steps: `startProductionRun` starts the run all the same. A " +
		"run that is in progress is only checked for its spools.",
}

// checked is what a check reads.
type checked struct {
	Status    RunStatus
	Deducted  bool
	PrinterID *string `json:"printer_id"`
	Printer   *struct {
		Name, Status string
		Materials    []string
		Busy         bool
	}
	Spools []struct {
		ID         server.UUID
		Number     int64
		Name, Type string
		Gone       bool
		Loaded     bool
		Remaining  server.Decimal
		Needed     server.Decimal
	}
}

func (h handlers) check(ctx context.Context, r *server.Request[struct{}]) (server.OK[Check], error) {
	run := db.SQL(`
		select r.status, r.deducted_at is not null as deducted, r.printer_id,
			(select json_build_object('name', p.name, 'status', p.status, 'materials', p.materials, 'busy', exists (
					select from production_runs o where o.printer_id = p.id and o.status in ('in_progress', 'paused')
						and o.id <> r.id))
				from printers p where p.id = r.printer_id and p.hidden_at is null) as printer,
			(select coalesce(json_agg(json_build_object('id', s.id, 'number', s.number,
					'name', spool_name(s.material_type, s.color, s.brand), 'type', s.material_type,
					'gone', s.hidden_at is not null or s.archived,
					'loaded', exists (select from printer_slots l where l.spool_id = s.id and l.printer_id = r.printer_id),
					'remaining', trim_scale(s.remaining_weight_grams),
					'needed', trim_scale(least(m.grams, 999999999))) order by s.number), '[]')
				from (select m.spool_id, sum(coalesce(m.actual_weight_grams, m.estimated_weight_grams, 0)) as grams
					from run_materials m where m.run_id = r.id group by m.spool_id) m
				cross join lateral (select * from spools s where s.id = m.spool_id offset 0) s) as spools
		from production_runs r where r.id = $1 and r.hidden_at is null`, r.ID("id"))
	if err := server.Found(run, h.db.Read(ctx, run)); err != nil {
		return nil, err
	}
	var c checked
	if err := json.Unmarshal(run.Object(), &c); err != nil {
		return nil, err
	}
	steps := c.steps()
	return server.Encode(Check{len(steps) == 0, steps})
}

// steps returns what has to be done before the run can start.
func (c *checked) steps() []CheckStep {
	steps := []CheckStep{}
	add := func(spool *server.UUID, code, format string, args ...any) {
		steps = append(steps, CheckStep{code, fmt.Sprintf(format, args...), spool})
	}
	if c.Deducted || slices.Contains([]RunStatus{completed, failed, cancelled}, c.Status) {
		add(nil, "RUN_ENDED", "The run has ended; create another one")
		return steps
	}
	at := "a printer"
	switch p := c.Printer; {
	case c.PrinterID == nil:
		add(nil, "NO_PRINTER", "Choose a printer for the run")
	case p == nil:
		add(nil, "PRINTER_NOT_AVAILABLE", "The printer was removed; choose another one")
	default:
		at = p.Name
		if p.Status != "available" {
			add(nil, "PRINTER_NOT_AVAILABLE", "%s is not available: its status is %s", p.Name, p.Status)
		}
		if p.Busy && c.Status == pending {
			add(nil, "PRINTER_BUSY", "Wait until the run in progress on %s has ended", p.Name)
		}
	}
	if len(c.Spools) == 0 {
		add(nil, "NO_MATERIALS", "Add the spools to print from")
	}
	for i := range c.Spools {
		s := &c.Spools[i]
		switch {
		case s.Gone:
			add(&s.ID, "SPOOL_REMOVED", "Spool %d, %s, was removed or archived; choose another one", s.Number, s.Name)
			continue
		case c.Printer != nil && len(c.Printer.Materials) > 0 && !slices.Contains(c.Printer.Materials, s.Type):
			add(&s.ID, "MATERIAL_NOT_PRINTED", "%s does not print %s; choose another printer", at, s.Type)
		}
		if s.Remaining < s.Needed {
			add(&s.ID, "TOO_LITTLE_FILAMENT", "Spool %d, %s, has %s g of the %s g needed", s.Number, s.Name, s.Remaining,
				s.Needed)
		}
		if !s.Loaded && c.Printer != nil {
			add(&s.ID, "LOAD_SPOOL", "Load spool %d, %s, into %s", s.Number, s.Name, at)
		}
	}
	return steps
}
