-- Returns the unfinished runs with the place of each among those of its printer, and when it is expected to start and to
-- end. This is the only place with these rules:
--
--   * Runs that are in progress or paused come first, in the order of their start. The others follow in the order of
--     queue_position; those without one come last, in the order of their creation.
--   * A run that has started ends when its estimated time is over, but not before now. A pending run starts when all
--     runs before it have ended.
--   * A run without an estimated time takes no time, and when it ends is unknown. A run without a printer has no times.
create or replace function run_queue()
returns table (id uuid, printer_id uuid, place bigint, expected_start timestamptz, expected_end timestamptz)
language sql stable as $$
	with run as (
		select r.*, r.status <> 'pending' as running, r.estimated_print_time_hours * interval '1 hour' as duration
		from production_runs r
		where r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and r.status in ('pending', 'in_progress', 'paused')
	), queue as (
		select r.*, row_number() over w as place,
			coalesce(max(greatest(now(), coalesce(r.started_at, now()) + coalesce(r.duration, '0'))) filter (where r.running)
				over (partition by r.printer_id), now()) as free,
			coalesce(sum(r.duration) filter (where not r.running) over w, '0') as waiting
		from run r
		window w as (partition by r.printer_id order by r.running desc, case when r.running then r.started_at end,
			r.queue_position, r.created_at, r.id rows unbounded preceding)
	)
	select q.id, q.printer_id, q.place,
		case when q.printer_id is null then null when q.running then coalesce(q.started_at, now())
			else q.free + q.waiting - coalesce(q.duration, '0') end,
		case when q.printer_id is null or q.duration is null then null
			when q.running then greatest(now(), coalesce(q.started_at, now()) + q.duration)
			else q.free + q.waiting end
	from queue q
$$;

-- Creates runs as a plan has them, and returns null; or creates none, and returns why:
--
--   PRINTER  a printer is no longer available
--   SPOOL    a spool was removed or archived, or has less left than unfinished runs and the plan take from it
--
-- Each run is an object with id, printer_id, product_id, order_item_id, quantity, hours, grams and materials. The
-- printers and spools are locked in the order of their ids, the printers first, until the transaction ends.
create or replace function create_planned_runs(runs json) returns text language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	if exists (
		select from (select distinct r.printer_id as id
			from json_to_recordset(runs) r (printer_id uuid) order by id) u
		left join lateral (
			select p.id from printers p
			where p.tenant_id = tenant and p.id = u.id and p.status = 'available' and p.hidden_at is null for share
		) p on true
		where p.id is null
	) then
		return 'PRINTER';
	end if;
	perform from (
		select distinct m.spool_id as id
		from json_to_recordset(runs) r (materials json), json_to_recordset(r.materials) m (spool_id uuid) order by id
	) u
	cross join lateral (select from spools s where s.tenant_id = tenant and s.id = u.id for share) s;
	if exists (
		select from (
			select t.spool_id as id, sum(t.grams) as grams
			from (
				select m.spool_id, m.grams
				from json_to_recordset(runs) r (materials json), json_to_recordset(r.materials) m (spool_id uuid, grams numeric)
				union all
				select m.spool_id, m.grams from unfinished_materials() m
			) t
			group by t.spool_id
		) t
		cross join lateral (
			select * from spools s where s.tenant_id = tenant and s.id = t.id offset 0
		) s
		where (s.hidden_at is not null or s.archived or s.remaining_weight_grams < t.grams)
			and exists (select from json_to_recordset(runs) r (materials json),
				json_to_recordset(r.materials) m (spool_id uuid) where m.spool_id = t.id)
	) then
		return 'SPOOL';
	end if;
	insert into production_runs (id, status, printer_id, printer_name, estimated_print_time_hours,
		estimated_total_filament_grams)
	select r.id, 'pending', r.printer_id, p.name, r.hours, case when r.grams <= 1000000 then r.grams end
	from json_to_recordset(runs) r (id uuid, printer_id uuid, hours numeric, grams numeric)
	cross join lateral (select p.name from printers p where p.tenant_id = tenant and p.id = r.printer_id offset 0) p
	order by r.id;
	insert into run_items (id, run_id, product_id, order_item_id, quantity, estimated_material_cost, estimated_total_cost)
	select uuid_v7(), r.id, r.product_id, r.order_item_id, r.quantity, p.material_cost * r.quantity,
		p.total_cost * r.quantity
	from json_to_recordset(runs) r (id uuid, product_id uuid, order_item_id uuid, quantity int)
	cross join lateral (
		select p.material_cost, p.total_cost from products p where p.tenant_id = tenant and p.id = r.product_id offset 0
	) p;
	insert into run_materials (id, run_id, spool_id, estimated_weight_grams, cost_per_gram)
	select uuid_v7(), r.id, m.spool_id, m.grams, s.cost_per_gram
	from json_to_recordset(runs) r (id uuid, materials json),
		json_to_recordset(r.materials) m (spool_id uuid, grams numeric)
	cross join lateral (select s.cost_per_gram from spools s where s.tenant_id = tenant and s.id = m.spool_id offset 0) s;
	perform emit_event('production_run.planned', json_build_object('id', r.id, 'printer_id', r.printer_id,
			'printer_name', r.printer_name, 'estimated_print_time_hours', trim_scale(r.estimated_print_time_hours),
			'estimated_total_filament_grams', trim_scale(r.estimated_total_filament_grams)))
	from (select u.id from json_to_recordset(runs) u (id uuid) order by u.id) u
	cross join lateral (select * from production_runs r where r.tenant_id = tenant and r.id = u.id offset 0) r;
	return null;
end $$;

-- Returns the grams that each unfinished run takes from its spools, with the printer of the run.
create or replace function unfinished_materials()
returns table (run_id uuid, printer_id uuid, spool_id uuid, grams numeric)
language sql stable as $$
	select r.id, r.printer_id, m.spool_id, m.grams
	from production_runs r
	cross join lateral (
		select m.spool_id, coalesce(m.actual_weight_grams, m.estimated_weight_grams) as grams from run_materials m
		where m.tenant_id = r.tenant_id and m.run_id = r.id offset 0
	) m
	where r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
		and r.status in ('pending', 'in_progress', 'paused') and m.grams > 0
$$;
