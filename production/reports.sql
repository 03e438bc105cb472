-- Returns the run to which a report of a printer about a spool belongs, or no row. printer is the printer of the API
-- key, or else the printer in whose slot the spool is, or null. The function returns the first of these runs:
--
--   * the run in progress, or else a paused run, on the printer; among several runs, a run that has the spool, and
--     among these the run that started last
--   * the only run in progress or paused that has the spool and no printer; if printer is null, also a run with a
--     printer
--   * the run that ended last on the printer, if a request ended it in the last 15 minutes and printer is not null,
--   because a client may send its last report late. Without a known printer, a report after the end of a run may be of
--     another print. A run that neither started nor used filament, such as a run that was cancelled while it was
--     pending, has not printed, and does not count.
--
-- A run ends when complete, fail or cancel ends it, or else at completed_at. The function reads the newest 200 runs
-- of the spool.
create or replace function reporting_run(printer uuid, spool uuid)
returns table (run uuid, printer_id uuid, updated_at timestamptz, ended boolean,
	ended_at timestamptz) language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	found_run record;
begin
	if printer is not null then
		return query
			select r.id, r.printer_id, r.updated_at, false, r.ended_at
			from production_runs r
			where r.tenant_id = tenant and r.status in ('in_progress', 'paused') and r.printer_id = printer
				and r.hidden_at is null -- as in the index of lists by status
			order by r.status = 'in_progress' desc,
				exists (select from run_materials m where m.tenant_id = tenant and m.spool_id = spool and m.run_id = r.id)
					desc,
				r.started_at desc nulls last, r.id desc
			limit 1;
		if found then
			return;
		end if;
	end if;

	select r.*, count(*) over () as printing_runs into found_run
	from (
		select distinct m.run_id from run_materials m
		where m.tenant_id = tenant and m.spool_id = spool
		order by m.run_id desc limit 200
	) m
	join production_runs r on r.tenant_id = tenant and r.id = m.run_id and (printer is null or r.printer_id is null)
			and r.status in ('in_progress', 'paused') and r.hidden_at is null
	limit 1;
	if found then
		if found_run.printing_runs = 1 then
			return query select found_run.id, found_run.printer_id, found_run.updated_at, false,
				found_run.ended_at;
		end if;
		return;
	end if;

	if printer is not null then
		return query
			select r.id, r.printer_id, r.updated_at, r.deducted_at is not null, r.ended_at
			from (
				select x.* from (
					select x.* from production_runs x
					where x.tenant_id = tenant and x.printer_id = printer and x.ended_at < now() + interval '1 minute'
						and (x.started_at is not null or x.actual_total_filament_grams is distinct from 0)
					order by x.ended_at desc, x.id desc limit 1
				) x
				where x.deducted_at > now() - interval '15 minutes'
				union all
				select x.* from production_runs x
				where x.tenant_id = tenant and x.printer_id = printer and x.deducted_at is null and x.hidden_at is null
					and x.status in ('completed', 'failed', 'cancelled')
					and x.completed_at > now() - interval '15 minutes' and x.completed_at < now() + interval '1 minute'
			) r
			where r.started_at is not null or r.actual_total_filament_grams is distinct from 0
			order by coalesce(r.ended_at, r.completed_at) desc, r.id desc limit 1;
	end if;
end $$;

-- Returns the last time at which a run of the spool started or was completed, or null. It reads only runs whose
-- filament is not deducted, and only the newest 200 runs of the spool. Reports without a run get different ledger
-- entries before and after this time, so that use_outside_runs can distinguish them. It cannot if the run gets the
-- spool later.
create or replace function last_run_boundary(spool uuid) returns timestamptz language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	return (
		select max(r.bound)
		from (
			select distinct m.run_id from run_materials m
			where m.tenant_id = tenant and m.spool_id = spool
			order by m.run_id desc limit 200
		) m
		cross join lateral (
			select u.bound from production_runs r
			cross join lateral (values (r.started_at), (r.completed_at)) u (bound)
			where r.tenant_id = tenant and r.id = m.run_id and r.deducted_at is null and u.bound <= now()
		) r
	);
end $$;

-- Deducts a report of a printer, as report_use does, and records it as use of its run. Returns the spool's id, or
-- null if no spool has the number.
--
-- If the spool is not a material of the run, it becomes a material, with the spool's price and without an estimate.
-- If the run has ended and its use of the spool comes from reports, the report increases this use and its cost, at
-- the prices that the run froze. If several materials have the spool, the last one gets the additional grams, and
-- negative reports reduce the last ones first. If a person stated the use, the report is recorded but deducts
-- nothing.
--
-- The run is locked before the printer and the spool, in the same order as at the end of a run. A shared lock is
-- enough unless the run or its materials change, so that printers with several spools do not wait.
create or replace function report_printed(
	spool_number int, weight numeric, length numeric, token bigint, repeat_seconds float8
)
returns uuid language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	spool uuid;
	key_printer uuid;
	printer uuid;
	r record;
	in_runs boolean; -- whether the spool is a material of any run
	named boolean;
	stated boolean;
	from_reports numeric; -- the use of an ended run of the spool that comes from reports
	used record;
begin
	select s.id into spool from spools s where s.tenant_id = tenant and s.number = spool_number;
	if not found then
		return null;
	end if;
	key_printer := (select k.printer_id from api_keys k
		where k.tenant_id = tenant and k.id = nullif(current_setting('app.api_key_id', true), '')::uuid);
	printer := coalesce(key_printer,
		(select l.printer_id from printer_slots l where l.tenant_id = tenant and l.spool_id = spool));
	in_runs := exists (select from run_materials m
		where m.tenant_id = tenant and m.spool_id = spool);
	if printer is null and not in_runs then -- the fast path of a farm without runs
		return (select u.spool from report_use(spool_number, weight, length, token, repeat_seconds) u);
	end if;
	for attempt in 1..10 loop
		select * into r from reporting_run(printer, spool);
		exit when not found;
		select bool_or(true), bool_and(not m.actual_reported), sum(coalesce(m.sent_actual_grams, 0))
			filter (where m.actual_reported)
		into named, stated, from_reports
		from run_materials m
		where m.tenant_id = tenant and m.spool_id = spool and m.run_id = r.run;
		if named and not r.ended then
			perform from production_runs x where x.tenant_id = tenant and x.id = r.run and x.updated_at = r.updated_at
				for share;
		else
			perform from production_runs x where x.tenant_id = tenant and x.id = r.run and x.updated_at = r.updated_at
				for no key update;
		end if;
		exit when found;
		r.run := null; -- the run has changed: search again
	end loop;
	if r.run is not null and named is null and (select count(*) >= 500 from run_materials m
		where m.tenant_id = tenant and m.run_id = r.run)
	then
		r.run := null; -- the run has the maximum number of materials
	end if;
	if key_printer is not null then
		perform load_reported(spool_number);
	end if;

	select * into used from report_use(spool_number, weight, length, token, repeat_seconds,
		( -- locked, so that nobody deletes it before the ledger refers to it
			select p.id from printers p where p.tenant_id = tenant and p.id = coalesce(printer, r.printer_id) for key share
		), r.run, coalesce(r.ended and stated, false),
		case when in_runs and (r.run is null or least(weight, length) < 0) then last_run_boundary(spool) end,
		case when r.ended then from_reports end, r.ended_at);
	if used.run is null then
		return used.spool;
	end if;
	if named is null then
		insert into run_materials (id, run_id, spool_id, cost_per_gram, actual_reported)
		select uuid_v7(), r.run, s.id, s.cost_per_gram, r.ended
		from spools s where s.tenant_id = tenant and s.id = spool;
	end if;
	if r.ended and used.grams <> 0 then
		update run_materials m
		set sent_actual_grams = case when used.grams > 0 then least(x.grams + used.grams, 1000000)
			else x.grams - least(x.grams, greatest(-used.grams - x.later, 0)) end
		from (
			select x.id, coalesce(x.sent_actual_grams, 0) as grams,
				coalesce(sum(x.sent_actual_grams) over (o rows between unbounded preceding and 1 preceding), 0) as later,
				row_number() over o as place
			from run_materials x
			where x.tenant_id = tenant and x.run_id = r.run and x.spool_id = spool and x.actual_reported
			window o as (order by x.created_at desc, x.id desc)
		) x
		where m.tenant_id = tenant and m.id = x.id
			and (used.grams > 0 and x.place = 1 or used.grams < 0 and x.grams > 0);
		update production_runs x set updated_at = clock_timestamp(),
			actual_total_filament_grams = (select case when sum(m.actual_weight_grams) <= 1000000
				then sum(m.actual_weight_grams) end from run_materials m where m.tenant_id = tenant and m.run_id = r.run),
			filament_cost = c.filament, waste_cost = c.waste
		from production_runs o
		cross join lateral run_cost(o.id, o.status, null) c
		where o.tenant_id = tenant and o.id = r.run and x.tenant_id = tenant and x.id = o.id;
	elsif named is null then
		update production_runs x set updated_at = clock_timestamp() where x.tenant_id = tenant and x.id = r.run;
	end if;
	return used.spool;
end $$;

-- Returns the grams that printers reported for a material of a run, or null if they reported nothing. Reports name a
-- spool, not a material. If several materials of a run have the spool, the reports fill these materials in order,
-- each up to its estimate, and the last material gets the rest.
create or replace function material_reported(run uuid, spool uuid, material uuid) returns numeric
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select case when m.is_last then greatest(u.reported - m.before, 0)
			else least(greatest(u.reported - m.before, 0), m.estimate) end
		from run_use(run) u
		cross join (
			select x.id, coalesce(x.estimated_weight_grams, 0) as estimate,
				coalesce(sum(x.estimated_weight_grams) over w, 0) as before, lead(x.id) over o is null as is_last
			from run_materials x where x.run_id = run and x.spool_id = spool
			window o as (order by x.created_at, x.id), w as (o rows between unbounded preceding and 1 preceding)
		) m
		where u.spool_id = spool and u.reported is not null and m.id = material
	);
end $$;

-- Returns the grams that left the spool of a material outside of runs from the start until the end of the material's
-- run: the time until, or else completed_at. kinds are the kinds of ledger entries to count. Grams that the run took
-- before it was reopened, and that a later weighing includes, are the run's own use and do not count. The result is
-- null if it would be 0, or if the filament of the run is deducted. If several materials of the run have the spool,
-- only the last one has the grams.
--
-- force_generic_plan, here and in material_weighed: an export calls both for each material, and planning takes ten
-- times as long as running.
create or replace function material_outside(
	run uuid, spool uuid, material uuid, kinds text[] default '{deducted,printed,measured,edited}',
	until timestamptz default null
) returns numeric
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select nullif(greatest(use_outside_runs(spool, r.started_at, coalesce(until, r.completed_at, 'infinity'), kinds)
			- coalesce((select w.grams from run_weighing(r.id, spool, null, null) w), 0), 0), 0)
		from production_runs r
		where r.id = run and r.deducted_at is null and r.started_at is not null and material = (
			select x.id from run_materials x where x.run_id = run and x.spool_id = spool
			order by x.created_at desc, x.id desc limit 1)
	);
end $$;

-- Returns when the spool was first weighed during an ended run, or null.
create or replace function material_weighed(run uuid, spool uuid) returns timestamptz
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select w.weighed_at from production_runs r cross join lateral weighing_since(spool, r.started_at) w
		where r.id = run and r.ended_at > w.weighed_at
	);
end $$;
