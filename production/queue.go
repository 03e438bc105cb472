package production

import (
	"context"
	"encoding/json"
	"slices"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

var queueTag = &server.Tag{
	Name: "queue", Fields: fields,
	Description: "The unfinished runs by printer, in the order in which it prints them, with expected times.",
}

// QueueFilter selects runs of the queue.
type QueueFilter struct {
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
}

// Queue lists the unfinished runs by printer.
type Queue struct {
	Total int64       `json:"total" rule:"notNull"`
	Runs  []QueuedRun `json:"runs" rule:"notNull"`
}

// QueuedRun is a run of the queue.
type QueuedRun struct {
	ID             value.UUID      `json:"id" rule:"notNull"`
	Status         RunStatus       `json:"status" rule:"notNull"`
	PrinterID      value.UUID      `json:"printer_id"`
	PrinterName    string          `json:"printer_name"`
	Place          int64           `json:"place" rule:"notNull"`
	QueuePosition  value.Decimal   `json:"queue_position"`
	EstimatedHours value.Decimal   `json:"estimated_print_time_hours"`
	StartAt        value.Timestamp `json:"expected_start_at"`
	EndAt          value.Timestamp `json:"expected_end_at"`
	Items          []ListedProduct `json:"items" rule:"notNull"`
	Materials      []ListedSpool   `json:"materials" rule:"notNull"`
	Orders         []ListedOrder   `json:"orders" rule:"notNull"`
	Steps          []CheckStep     `json:"steps" rule:"notNull"`
}

var queueDoc = &server.Doc{
	ID: "getQueue", Tag: queueTag, Summary: "Get the queue",
	Description: "Runs that are in progress or paused come first. The pending runs of a printer follow in the " +
		"order of `queue_position`, those without one last, in the order of their creation; " +
		"`moveProductionRun` moves one. Expected times follow from the estimates at each request: a run that starts, " +
		"ends or fails shifts the others. `steps` are the steps that `getProductionRunCheck` returns for each run.",
}

func (h handlers) queue(ctx context.Context, r *server.Request[QueueFilter]) (server.OK[Queue], error) {
	queue := db.SQL(`
		select count(*) as total, coalesce(json_agg(json_build_object('id', q.id, 'status', q.status,
				'printer_id', q.printer_id, 'printer_name', q.printer_name, 'place', q.place,
				'queue_position', trim_scale(q.queue_position),
				'estimated_print_time_hours', trim_scale(q.estimated_print_time_hours),
				'expected_start_at', event_time(q.expected_start), 'expected_end_at', event_time(q.expected_end),
				'items', q.items, 'materials', q.materials, 'orders', q.orders)
				order by q.n) filter (where q.n <= 1000), '[]') as runs
		from (
			select r.*, q.place, q.expected_start, q.expected_end,
				row_number() over (order by p.number, q.printer_id, q.place) as n,
				(select coalesce(json_agg(json_build_object('product_id', i.product_id, 'product_name', i.name,
						'picture_version', i.picture_version, 'quantity', i.quantity) order by i.created_at, i.id), '[]')
					from (select i.id, i.created_at, i.product_id, i.quantity, p.name, p.picture_version
						from (select * from run_items i where i.run_id = r.id) i
						join products p on p.id = i.product_id) i) as items,
				`+ListedSpools("r.id")+` as materials, `+h.orders.Named("r.id")+` as orders
			from run_queue() q
			join production_runs r on r.id = q.id
			left join printers p on p.id = q.printer_id
			where $1::uuid is null or q.printer_id = $1::uuid
		) q`, r.In.PrinterID.Arg())
	checks := h.checks(`
		select q.id from run_queue() q
		left join printers p on p.id = q.printer_id
		where $1::uuid is null or q.printer_id = $1::uuid
		order by p.number, q.printer_id, q.place limit 1000`, r.In.PrinterID.Arg())
	if err := h.db.Read(ctx, queue, checks); err != nil {
		return nil, err
	}
	steps, err := readSteps(checks)
	if err != nil {
		return nil, err
	}
	var found struct {
		Total int64             `json:"total"`
		Runs  []json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal(queue.Object(), &found); err != nil {
		return nil, err
	}
	for i, run := range found.Runs {
		var named struct{ ID string }
		if err := json.Unmarshal(run, &named); err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(steps[named.ID])
		if err != nil {
			return nil, err
		}
		found.Runs[i] = slices.Concat(run[:len(run)-1], []byte(`,"steps":`), encoded, []byte("}"))
	}
	return json.Marshal(found)
}

// MoveRequest is the body of move.
type MoveRequest struct {
	Place value.Optional[int64] `json:"place" rule:"required,minimum=1,maximum=1000000"`
}

var errNotQueued = server.BadRequest("RUN_NOT_OPEN", "The run is completed, failed or cancelled; it cannot be moved")

var moveDoc = &server.Doc{
	ID: "moveProductionRun", Tag: Tag, Summary: "Move a pending run in the queue",
	Description: "Moves the run to a `place` among the unfinished runs of its printer, as `getQueue` counts them, and " +
		"shifts the pending runs between its old and its new place. It does not pass runs that have started, and " +
		"takes the last place if there are fewer. The pending runs get the values 1, 2, 3 and so on of " +
		"`queue_position`, except runs after both places that had no value. If the run is already at the place, or has " +
		"started, the operation changes nothing and returns the run. A run that has ended cannot be moved " +
		"(`RUN_NOT_OPEN`).",
	Errors: []*server.Error{errNotQueued},
}

func (h handlers) move(ctx context.Context, r *server.Request[MoveRequest]) (server.OK[Run], error) {
	// Moves on one printer wait for each other here. The update sees the changes of the previous move.
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
			join production_runs r on r.id = q.id
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

// CreatePlanned returns a statement that creates the runs of a plan. Each run has the fields that
// create_planned_runs lists. The statement violates plan_outdated if the printers or spools have changed.
func CreatePlanned(runs []map[string]any) *db.Stmt {
	return db.SQL(`select create_planned_runs($1::json)::text`, db.Recordset(runs))
}

// Replaced is a run whose pieces are planned again.
type Replaced struct {
	IsPending bool            // whether the run has not started, so that other runs replace it
	HasEnded  bool            // whether the run is completed, failed or cancelled, so that it stays
	Items     json.RawMessage // for json_to_recordset: the pieces of each product and item of an order that it lacks
}

// Replace returns statements that lock a run, set was to its state, and remove the run if it is pending. The caller
// must then count the removed run with Count. A run that has ended lacks the pieces that are not good. The first
// statement returns a row if the run exists and is not hidden; otherwise the caller must roll the transaction back.
// The statements between run after the lock of the run, and may lock more rows.
func Replace(run string, was *Replaced, between ...*db.Stmt) []*db.Stmt {
	statements := []*db.Stmt{db.SQL(`
		select r.status = 'pending' and r.deducted_at is null and not exists (
			select from spool_usage u where u.run_id = r.id), r.status in ('completed', 'failed', 'cancelled')
		from production_runs r where r.id = $1 and r.hidden_at is null for update`, run).
		Into(&was.IsPending, &was.HasEnded)}
	return append(append(statements, between...),
		db.SQL(`
			select coalesce(json_agg(json_build_object('n', i.n, 'product_id', i.product_id,
				'order_item_id', i.order_item_id, 'quantity', i.quantity) order by i.n), '[]')::text
			from (
				select row_number() over (order by min(i.created_at), min(i.id::text)) as n, i.product_id, i.order_item_id,
					sum(i.quantity - coalesce(i.successful_quantity, case r.status when 'completed' then i.quantity else 0 end))
						as quantity
				from run_items i join production_runs r on r.id = i.run_id
				where i.run_id = $1 group by i.product_id, i.order_item_id
			) i
			where i.quantity > 0`, run).Into((*[]byte)(&was.Items)),
		db.SQL(`delete from production_runs where id = $1 and status = 'pending'`, run))
}
