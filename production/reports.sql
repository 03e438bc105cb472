-- Returns the run that a report of a printer about a spool belongs to, or no row. printer is that of the API key, or
-- else the one in whose slot the spool is, or null. The first of these runs:
--
--   * the run in progress, else paused, on the printer; of several, one that has the spool, and then the one that
--     started last
--   * the only run in progress or paused without a printer, or any if the printer is not known, that has the spool
--   * the run that ended last on the printer, in the last 15 minutes, if the printer is known. A client may send its
--     last report late. Without a known printer, a report after the end of a run may be of another print.
--
-- A run ends when complete, fail or cancel ends it, or else at completed_at. Of the runs of a spool, the function reads
-- the newest 200.
create or replace function reporting_run(printer uuid, spool uuid)
returns table (run uuid, printer_id uuid, updated_at timestamptz, ended boolean) language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	found_run record;
begin
	if printer is not null then
		return query
			select r.id, r.printer_id, r.updated_at, false
			from production_runs r
			where r.tenant_id = tenant and r.status in ('in_progress', 'paused') and r.printer_id = printer
				and r.hidden_at is null and r.created_at < 'infinity' -- as in the index of lists by status
			order by r.status = 'in_progress' desc,
				exists (select from run_materials m where m.tenant_id = tenant and m.spool_id = spool and m.run_id = r.id
					and num_nonnulls(m.spool_id) = 1) desc,
				r.started_at desc nulls last, r.id desc
			limit 1;
		if found then
			return;
		end if;
	end if;

	select r.*, count(*) over () as printing_runs into found_run
	from (
		select distinct m.run_id from run_materials m
		where m.tenant_id = tenant and m.spool_id = spool and num_nonnulls(m.spool_id) = 1
		order by m.run_id desc limit 200
	) m
	cross join lateral (
		select r.id, r.printer_id, r.updated_at
		from production_runs r
		where r.tenant_id = tenant and r.id = m.run_id and (printer is null or r.printer_id is null)
			and r.status in ('in_progress', 'paused') and r.hidden_at is null
		offset 0
	) r
	limit 1;
	if found then
		if found_run.printing_runs = 1 then
			return query select found_run.id, found_run.printer_id, found_run.updated_at, false;
		end if;
		return;
	end if;

	if printer is not null then
		return query
			select r.id, r.printer_id, r.updated_at, r.deducted_at is not null
			from (
				select x.* from production_runs x
				where x.tenant_id = tenant and x.printer_id = printer and x.deducted_at > now() - interval '15 minutes'
				union all
				select x.* from production_runs x
				where x.tenant_id = tenant and x.printer_id = printer and x.deducted_at is null and x.hidden_at is null
					and x.status in ('completed', 'failed', 'cancelled')
					and x.completed_at > now() - interval '15 minutes' and x.completed_at < now() + interval '1 minute'
			) r
			order by coalesce(r.deducted_at, r.completed_at) desc, r.id desc limit 1;
	end if;
end $$;

-- Deducts what a printer reports, as report_use does, and records it as use of the run that it belongs to. Returns the
-- spool's id, or null if there is no spool with the number.
--
-- A spool that the run did not name becomes one of its materials, with the spool's price and no estimate. If the run has
-- ended and its use of the spool is what printers reported, the report raises that use and its cost, at the prices that
-- the run froze. If a person stated the use, the report is recorded and takes nothing.
--
-- The run is locked before the printer and the spool, as whatever ends a run does. A shared lock is enough unless the
-- run or its materials change, so that printers with several spools do not wait.
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
	named boolean;
	stated boolean;
	used record;
begin
	select s.id into spool from spools s where s.tenant_id = tenant and s.number = spool_number and s.hidden_at is null;
	if not found then
		return null;
	end if;
	key_printer := (select k.printer_id from api_keys k
		where k.tenant_id = tenant and k.id = nullif(current_setting('app.api_key_id', true), '')::uuid);
	printer := coalesce(key_printer,
		(select l.printer_id from printer_slots l where l.tenant_id = tenant and l.spool_id = spool));
	for attempt in 1..10 loop
		select * into r from reporting_run(printer, spool);
		exit when not found;
		select bool_or(true), bool_and(not m.actual_reported) into named, stated
		from run_materials m
		where m.tenant_id = tenant and m.spool_id = spool and m.run_id = r.run and num_nonnulls(m.spool_id) = 1;
		if named and not r.ended then
			perform from production_runs x where x.tenant_id = tenant and x.id = r.run and x.updated_at = r.updated_at
				for share;
		else
			perform from production_runs x where x.tenant_id = tenant and x.id = r.run and x.updated_at = r.updated_at
				for no key update;
		end if;
		exit when found;
		r.run := null; -- the run has changed: look again
	end loop;
	if r.run is not null and named is null and (select count(*) >= 500 from run_materials m
		where m.tenant_id = tenant and m.run_id = r.run)
	then
		r.run := null; -- a run has at most so many materials
	end if;
	if key_printer is not null then
		perform load_reported(spool_number);
	end if;

	select * into used from report_use(spool_number, weight, length, token, repeat_seconds,
		coalesce(printer, r.printer_id), r.run, coalesce(r.ended and stated, false));
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
		set sent_actual_grams = least(greatest(coalesce(m.sent_actual_grams, 0) + used.grams, 0), 1000000)
		where m.tenant_id = tenant and m.id = (
			select x.id from run_materials x
			where x.tenant_id = tenant and x.run_id = r.run and x.spool_id = spool and x.actual_reported
			order by x.created_at desc, x.id desc limit 1);
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

-- Returns what printers reported for a material of a run, or null if they reported nothing. Reports name a spool. If a
-- run has several materials of a spool, the reports fill them in order, each up to its estimate, and the last of them
-- takes the rest.
create or replace function material_reported(run uuid, spool uuid, material uuid) returns numeric
language sql stable as $$
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
$$;

-- Returns the grams that left the spool of a material without a run since the run started, until it ended: null unless
-- there are some, and for a run whose filament is deducted. Of several materials of a spool, the last one has them.
create or replace function material_outside(run uuid, spool uuid, material uuid) returns numeric
language sql stable as $$
	select nullif(greatest(use_outside_runs(spool, r.started_at, coalesce(r.completed_at, 'infinity')), 0), 0)
	from production_runs r
	where r.id = run and r.deducted_at is null and r.started_at is not null and material = (
		select x.id from run_materials x where x.run_id = run and x.spool_id = spool
		order by x.created_at desc, x.id desc limit 1)
$$;
