-- Returns the unfinished runs, with the place of each run in the queue of its printer and its expected start and
-- end. This is the only place with these rules:
--
--   * Runs that are in progress or paused come first, in the order of their start. The other runs follow in the order
--     of queue_position. Runs without queue_position come last, in the order of their creation.
--   * A started run ends when its estimated time is over, but not before now. A pending run starts when all runs
--     before it have ended.
--   * A run without an estimated time takes no time, and its end is unknown. A run without a printer has no times.
--   * No time is after the year 9999.
create or replace function run_queue()
returns table (id uuid, printer_id uuid, place bigint, expected_start timestamptz, expected_end timestamptz)
language sql stable as $$
	with run as (
		select r.*, r.status <> 'pending' as running, r.estimated_print_time_hours * interval '1 hour' as duration
		from production_runs r
		where r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
	), queue as (
		select r.*, row_number() over w as place,
			coalesce(max(greatest(now(), coalesce(r.started_at, now()) + coalesce(r.duration, '0'))) filter (where r.running)
				over (partition by r.printer_id), now()) as free,
			least(coalesce(sum(r.estimated_print_time_hours) filter (where not r.running) over w, 0), 100000000)
				* interval '1 hour' as waiting
		from run r
		window w as (partition by r.printer_id order by r.running desc, case when r.running then r.started_at end,
			r.queue_position, r.created_at, r.id rows unbounded preceding)
	)
	select q.id, q.printer_id, q.place,
		case when q.printer_id is null then null when q.running then coalesce(q.started_at, now())
			else least(q.free + q.waiting - coalesce(q.duration, '0'), '9999-12-31T23:59:59Z') end,
		case when q.printer_id is null or q.duration is null then null
			when q.running then greatest(now(), coalesce(q.started_at, now()) + q.duration)
			else least(q.free + q.waiting, '9999-12-31T23:59:59Z') end
	from queue q
$$;

-- Creates the runs of a plan. Each run is an object with id, printer_id, printer_updated_at, product_id,
-- order_item_id, quantity, hours, grams and materials. It prints no components: these are taken from stock. Each
-- material is an object with spool_id, edited_at and grams. printer_updated_at and edited_at are the times of the
-- printer and the spool that the plan has read.
--
-- The function raises a violation of the check plan_outdated, which is not a constraint of a table, if a printer or
-- spool has changed since the plan read it, or if a spool has less filament than its unfinished runs take.
--
-- Printers are locked until the transaction ends. Spools are not locked: they are checked at the end, in one
-- snapshot, so that no report of a printer waits for the plan. A report after the check has the same effect as a
-- report after the commit.
create or replace function create_planned_runs(runs json) returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	outdated boolean;
	hooks uuid[] := event_webhooks('production_run.planned');
begin
	select bool_or(p.id is null) into outdated
	from (select distinct r.printer_id as id, r.printer_updated_at as updated_at
		from json_to_recordset(runs) r (printer_id uuid, printer_updated_at timestamptz) order by id) u
	left join lateral (
		select p.id from printers p
		where p.tenant_id = tenant and p.id = u.id and p.updated_at = u.updated_at for share
	) p on true;
	if outdated then
		raise exception 'a printer was changed' using errcode = 'check_violation', constraint = 'plan_outdated';
	end if;
	-- Locks the spools in one order, as the foreign keys lock them.
	perform from (
		select distinct m.spool_id as id
		from json_to_recordset(runs) r (materials json), json_to_recordset(r.materials) m (spool_id uuid) order by id
	) u
	cross join lateral (select from spools s where s.tenant_id = tenant and s.id = u.id for key share) s;
	insert into production_runs (id, status, printer_id, printer_name, estimated_print_time_hours,
		estimated_total_filament_grams)
	select r.id, 'pending', r.printer_id, p.name, r.hours, case when r.grams <= 1000000 then r.grams end
	from json_to_recordset(runs) r (id uuid, printer_id uuid, hours numeric, grams numeric)
	join printers p on p.tenant_id = tenant and p.id = r.printer_id
	order by r.id;
	insert into run_items (id, run_id, product_id, order_item_id, parts_from_stock, quantity, estimated_material_cost,
		estimated_total_cost, planned_bom)
	select uuid_v7(), r.id, r.product_id, r.order_item_id, p.has_parts, r.quantity, p.material_cost * r.quantity,
		p.material_cost * r.quantity, p.bom
	from json_to_recordset(runs) r (id uuid, product_id uuid, order_item_id uuid, quantity int)
	join (
		select p.id, p.material_cost, product_bom(p.id, true) as bom,
			exists (select from product_components c where c.tenant_id = tenant and c.product_id = p.id) as has_parts
		from (select distinct r.product_id as id from json_to_recordset(runs) r (product_id uuid)) u
		join products p on p.tenant_id = tenant and p.id = u.id
		offset 0 -- one product_bom for each product, not for each run
	) p on p.id = r.product_id;
	insert into run_materials (id, run_id, spool_id, estimated_weight_grams, cost_per_gram, planned_filament)
	select uuid_v7(), r.id, m.spool_id, m.grams, s.cost_per_gram, s.filament
	from json_to_recordset(runs) r (id uuid, materials json),
		json_to_recordset(r.materials) m (spool_id uuid, grams numeric)
	cross join lateral (
		select s.cost_per_gram, spool_filament(s) as filament from spools s
		where s.tenant_id = tenant and s.id = m.spool_id
	) s;
	if hooks is not null then
		perform emit_event(hooks, 'production_run.planned', json_build_object('id', r.id, 'printer_id', r.printer_id,
				'printer_name', r.printer_name, 'estimated_print_time_hours', trim_scale(r.estimated_print_time_hours),
				'estimated_total_filament_grams', trim_scale(r.estimated_total_filament_grams),
				'items', event_items(r.id), 'item_count', event_item_count(r.id)))
		from (select u.id from json_to_recordset(runs) u (id uuid) order by u.id) u
		join production_runs r on r.tenant_id = tenant and r.id = u.id;
	end if;
	if exists (
		select from (
			select u.id, sum(u.grams) as grams, max(u.edited_at) as edited_at
			from (
				select m.spool_id as id, null as grams, m.edited_at, true as planned
				from json_to_recordset(runs) r (materials json),
					json_to_recordset(r.materials) m (spool_id uuid, edited_at timestamptz)
				union all
				select m.spool_id, m.grams, null, false from unfinished_materials() m
			) u
			group by u.id having bool_or(u.planned)
		) u
		join spools s on s.tenant_id = tenant and s.id = u.id
		where s.edited_at is distinct from u.edited_at or s.remaining_weight_grams < u.grams
	) then
		raise exception 'a spool was changed' using errcode = 'check_violation', constraint = 'plan_outdated';
	end if;
	perform count_rows('production_runs', json_array_length(runs));
end $$;

-- Returns the grams that each unfinished run still takes from its spools, and the printer of the run. The grams are
-- the weights of the run's materials less the grams that printers have reported. If printers reported a spool
-- without such a weight, the reported grams reduce the weights of other spools of the run: first the spools of the
-- same material and color.
create or replace function unfinished_materials()
returns table (run_id uuid, printer_id uuid, spool_id uuid, grams numeric)
language sql stable as $$
	select x.run_id, x.printer_id, x.spool_id, x.grams
	from (
		select w.run_id, w.printer_id, w.spool_id,
			w.rest - least(w.rest, greatest(sum(w.unused) over r - coalesce(sum(w.rest) over (
				partition by w.run_id order by w.spool_id rows between unbounded preceding and 1 preceding), 0), 0)) as grams
		from (
			select f.run_id, f.printer_id, f.spool_id,
				f.rest - least(f.rest, greatest(f.spare - f.earlier, 0)) as rest,
				case when f.place = 1 then greatest(f.spare - f.total, 0) else 0 end as unused
			from (
				select m.run_id, m.printer_id, m.spool_id, m.rest,
					sum(m.spare) over c as spare, sum(m.rest) over c as total,
					coalesce(sum(m.rest) over (partition by m.run_id, s.material_key, s.color_key order by m.spool_id
						rows between unbounded preceding and 1 preceding), 0) as earlier,
					row_number() over (partition by m.run_id, s.material_key, s.color_key order by m.spool_id) as place
				from (
					select n.run_id, n.printer_id, n.spool_id, greatest(n.grams - coalesce(u.reported, 0), 0) as rest,
						case when n.grams = 0 then greatest(coalesce(u.reported, 0), 0) else 0 end as spare
					from (
						select r.id as run_id, r.printer_id, m.spool_id, coalesce(sum(m.grams), 0) as grams,
							r.status <> 'pending' or r.started_at is not null as started
						from production_runs r
						cross join lateral (
							select m.spool_id, coalesce(m.actual_weight_grams, m.estimated_weight_grams) as grams
							from run_materials m where m.tenant_id = r.tenant_id and m.run_id = r.id
						) m
						where r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
							and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
						group by r.id, r.printer_id, r.status, r.started_at, m.spool_id
					) n
					left join lateral (
						select u.reported from run_use(n.run_id) u where n.started and u.spool_id = n.spool_id
					) u on true
				) m
				join spools s on s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and s.id = m.spool_id
				window c as (partition by m.run_id, s.material_key, s.color_key)
			) f
		) w
		window r as (partition by w.run_id)
	) x
	where x.grams > 0
$$;

-- Reports whether the printer prints another run, so that the run, which has the status run_status, cannot start on
-- it. This is the only place with the rule. A paused print is still on the printer, so pending runs wait for it. Any
-- of several paused runs can continue. A run whose job on a watched printer has ended waits only for a person, and needs
-- no printer.
create or replace function printer_is_busy(printer uuid, run uuid, run_status text) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select not exists (select from printer_jobs j where j.run_id = run and j.outcome is not null) and exists (
			select from production_runs o
			where o.printer_id = printer and o.id <> run and o.status in ('in_progress', 'paused') and o.hidden_at is null
				and (o.status = 'in_progress' or run_status = 'pending')
				and not exists (select from printer_jobs j where j.run_id = o.id and j.outcome is not null)
		)
	);
end $$;

-- Returns a description of the filament of a spool for people. It is used to report that the filament has changed
-- since a run was planned.
create or replace function spool_filament(spool spools) returns text language sql immutable as $$
	select material_label(spool.material_type, spool.material_name) || ' ' || spool.color
		|| case when spool.diameter_mm <> 1.75 then ' ' || trim_scale(spool.diameter_mm) || ' mm' else '' end
$$;
