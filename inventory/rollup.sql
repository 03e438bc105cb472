-- Returns the use of filament from the day first until the day before last, in the time zone: one row for each day,
-- material and colour and, with by_printer, one row for each day and printer. The printer is the printer of the run,
-- or of the API key that reported the use. If neither has one, only a name is known: the run's printer_name, or the
-- name of the key. printer_key is the id of the printer or the name, and '' without both. If only_printer is not
-- null, only the use of this printer is returned.
--
-- grams is the use: deductions, also by runs and printers, and their shortfall_grams, which exceed the recorded
-- weight of the spool. wasted_grams is the part of grams that runs wasted: see run_waste. corrected_grams is the
-- filament that weighing and edits removed; grams does not include it. cost is the cost of grams at the spools'
-- current prices, and null if no spool has a price.
--
-- An entry of an ended run counts at the end of the run, an entry that reverses or moves another entry at the time
-- of that other entry, and every other entry at its own time.
--
-- Where clocks are set back at midnight, the time at which a day begins is not exact; the bounds of the index by
-- time are therefore three hours wider.
create or replace function ledger_usage(
	tenant uuid, first date, last date, zone text, only_printer uuid default null
)
returns table (
	by_printer boolean, day date, material_type text, color_key text, printer_key text, color text, printer_name text,
	grams numeric, wasted_grams numeric, corrected_grams numeric, cost numeric
)
language sql stable as $$
	select grouping(e.material_type) = 1, e.day, coalesce(e.material_type, ''), coalesce(e.color_key, ''),
		coalesce(e.printer_key, ''), case when grouping(e.material_type) = 0 then min(e.color) end,
		case when grouping(e.material_type) = 1 then min(e.printer_name) end, sum(e.grams),
		sum(round(e.grams * e.wasted_parts / 1000000000000, 6)), sum(e.corrected_grams), sum(e.grams * e.price)
	from (
		select (coalesce(u.used_at, u.created_at) at time zone zone)::date as day, s.material_type, s.color_key, s.color,
			coalesce(r.printer_name, p.name, k.name) as printer_name,
			coalesce(u.printer_id::text,
				lower(coalesce(r.printer_name, k.name, '') collate "und-x-icu") collate "C") as printer_key,
			case when u.kind in ('measured', 'edited') then 0
				else coalesce(u.shortfall_grams, 0) - u.change_grams end as grams,
			case when u.kind in ('measured', 'edited') then coalesce(u.shortfall_grams, 0) - u.change_grams
				else 0 end as corrected_grams,
			coalesce(r.wasted_parts, 0) as wasted_parts,
			case when u.kind not in ('measured', 'edited') then s.cost_per_gram end as price
		from spool_usage u
		join spools s on s.tenant_id = u.tenant_id and s.id = u.spool_id
		left join production_runs r on r.tenant_id = u.tenant_id and r.id = u.run_id
		left join printers p on p.tenant_id = u.tenant_id and p.id = u.printer_id
		left join api_keys k on u.kind = 'printed' and k.tenant_id = u.tenant_id
			and k.id = case when num_nonnulls(u.reverses_id, u.moves_id) = 0 then u.api_key_id else u.reporter_id end
		where u.tenant_id = tenant
			and coalesce(u.used_at, u.created_at) >= first::timestamp at time zone zone - interval '3 hours'
			and coalesce(u.used_at, u.created_at) < last::timestamp at time zone zone + interval '3 hours'
			and (coalesce(u.used_at, u.created_at) at time zone zone)::date >= first
			and (coalesce(u.used_at, u.created_at) at time zone zone)::date < last
			and (only_printer is null or u.printer_id = only_printer)
			and u.kind <> 'created'
	) e
	group by grouping sets ((e.day, e.material_type, e.color_key), (e.day, e.printer_key))
$$;

-- Adds the rows of ledger_usage for the days to usage_days.
create or replace function add_usage_days(first date, last date, zone text) returns void language sql as $$
	insert into usage_days (by_printer, day, material_type, color_key, printer_key, color, printer_name, grams,
		wasted_grams, corrected_grams, cost)
	select l.by_printer, l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name,
		least(greatest(l.grams, -999999999), 999999999), least(greatest(l.wasted_grams, -999999999), 999999999),
		least(greatest(l.corrected_grams, -999999999), 999999999),
		case when l.cost is not null then least(greatest(l.cost, -999999999), 999999999) end
	from ledger_usage(nullif(current_setting('app.tenant_id', true), '')::uuid, first, last, zone) l
$$;

-- Summarises up to `most` days of the ledger in usage_days, and returns the number of summarised days. Call it until
-- it returns 0. A day is closed two hours after its end, because an entry of a printer grows for an hour, and a
-- transaction takes much less than another hour. Only closed days are summarised. usage_changes lists spools and
-- times that changed: their days are summarised again, up to `most` days. If more days changed, this call and the
-- next calls summarise all days again from the first changed day.
--
-- After the tenant's time zone has changed, the function first deletes the days in the old time zone, up to `most`
-- days in each call, and then summarises all days again.
--
-- Only one transaction at a time summarises a tenant; a concurrent call returns 0. The function locks no row that
-- other statements wait for.
create or replace function summarise_usage(most int) returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	zone text := (select t.time_zone from tenants t where t.tenant_id = tenant);
	old_zone text;
	closed date := ((now() - interval '2 hours') at time zone zone)::date;
	first date;
	done date; -- the day at which earlier calls stopped
	last date;
	again date[];
	spools_changed uuid[];
	times_changed timestamptz[];
	changes int;
	d date;
begin
	if not pg_try_advisory_xact_lock(hashtextextended('usage days ' || tenant, 0)) then
		return 0;
	end if;
	select s.next_day, s.time_zone into first, old_zone from usage_summaries s where s.tenant_id = tenant;
	if first is not null and old_zone is distinct from zone then
		update usage_summaries s set time_zone = null where s.tenant_id = tenant;
		select min(x.day) into d from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false);
		if d is not null then
			delete from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false) and x.day < d + most;
			return 1;
		end if;
		first := null;
	end if;
	if first is null then
		select (coalesce(u.used_at, u.created_at) at time zone zone)::date into first
		from spool_usage u where u.tenant_id = tenant
		order by coalesce(u.used_at, u.created_at) limit 1;
		if first is null then
			return 0;
		end if;
	end if;
	done := first;

	-- The statements after this one read the changed spools.
	with changed as (
		delete from usage_changes c where c.tenant_id = tenant and c.id in (
			select x.id from usage_changes x where x.tenant_id = tenant order by x.id limit 100)
		returning c.spool_id, c.used_at
	)
	select array_agg(distinct c.spool_id), array_agg(distinct c.used_at), count(*)
	into spools_changed, times_changed, changes from changed c;
	select array_agg(distinct (c.used_at at time zone zone)::date) into again
	from (
		select coalesce(u.used_at, u.created_at) as used_at
		from unnest(spools_changed) c (id)
		cross join lateral (
			select u.used_at, u.created_at from spool_usage u
			where u.tenant_id = tenant and u.spool_id = c.id
			order by u.created_at
		) u
		union all
		select t.used_at from unnest(times_changed) t (used_at)
	) c
	where (c.used_at at time zone zone)::date < first;
	again := coalesce(again, '{}');
	if cardinality(again) > most then
		select min(a.day) into first from unnest(again) a (day);
		delete from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false) and x.day >= first;
		done := first;
		again := '{}';
	end if;
	-- Skips days without entries, of which there may be many.
	select least(greatest((coalesce(u.used_at, u.created_at) at time zone zone)::date, first), closed) into d
	from spool_usage u
	where u.tenant_id = tenant
		and coalesce(u.used_at, u.created_at) >= first::timestamp at time zone zone
	order by coalesce(u.used_at, u.created_at) limit 1;
	first := greatest(first, coalesce(d, closed));
	last := least(closed, first + most);
	if cardinality(again) > 0 then
		delete from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false) and x.day = any (again);
	end if;
	foreach d in array again loop
		perform add_usage_days(d, d + 1, zone);
	end loop;

	if done < last then
		perform add_usage_days(first, last, zone);
		insert into usage_summaries (tenant_id, next_day, time_zone) values (tenant, last, zone)
		on conflict (tenant_id) do update set next_day = excluded.next_day, time_zone = excluded.time_zone;
	end if;
	return greatest(last - done, 0) + changes;
end $$;

-- Makes summarise_usage summarise all days again, after entries of the ledger were deleted.
create or replace function summarise_again() returns void language sql as $$
	update usage_summaries s set time_zone = null
	where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

-- Gives a spool whose first entry of the ledger was deleted a new one, so that the entries sum up to its weight.
create or replace function begin_ledger(spool uuid) returns void language sql as $$
	insert into spool_usage (spool_id, kind, before_grams, after_grams, created_at)
	select s.id, 'created', 0, s.remaining_weight_grams - coalesce(sum(u.change_grams), 0), s.created_at
	from spools s left join spool_usage u on u.tenant_id = s.tenant_id and u.spool_id = s.id
	where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and s.id = spool
	group by s.tenant_id, s.id
$$;

-- Dates the ledgers of spools that are samples as the spools and the runs are dated.
create or replace function date_sample_usage() returns void
language sql security definer set search_path = public, pg_temp as $$
	update spool_usage u set created_at = coalesce(u.used_at, p.created_at)
	from sample_rows s, spools p
	where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
		and u.tenant_id = s.tenant_id and u.spool_id = s.id and p.tenant_id = s.tenant_id and p.id = s.id
		and (u.used_at is not null or u.kind = 'created')
$$;

revoke all on function date_sample_usage from public;
grant execute on function date_sample_usage to spoolwright_app;

-- Records a spool whose material, colour or price changed, so that summarise_usage summarises its past days again.
create or replace function usage_changed() returns trigger language plpgsql as $$
begin
	insert into usage_changes (tenant_id, spool_id) values (new.tenant_id, new.id);
	return null;
end $$;
create or replace trigger usage_changed after update of material_type, color, purchase_price, net_weight_grams
	on spools
	for each row when (old.material_type is distinct from new.material_type or old.color is distinct from new.color
		or old.cost_per_gram is distinct from new.cost_per_gram)
	execute function usage_changed();

-- Records the old and new times of entries that moved to another time, so that summarise_usage summarises the days
-- of these times again. A day is not yet closed an hour after its end.
create or replace function usage_dated(times timestamptz[]) returns void language sql as $$
	insert into usage_changes (used_at)
	select distinct t.used_at from unnest(times) t (used_at) where t.used_at < now() - interval '1 hour'
$$;

-- Dates the entries of a run by the run's end. If ended is null, because the run prints again, entries of printers
-- get their own times. The end of the run made the other entries, and reopening reversed them; these keep the day on
-- which they cancel each other out.
create or replace function date_run_usage(run uuid, ended timestamptz) returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	times timestamptz[];
begin
	with dated as (
		select u.id, coalesce(u.used_at, u.created_at) as used_at from spool_usage u
		where u.tenant_id = tenant and u.run_id = run and u.used_at is distinct from ended
			and (ended is not null or u.kind = 'printed')
	), changed as (
		update spool_usage u set used_at = ended from dated d where u.tenant_id = tenant and u.id = d.id
		returning d.used_at as old_time, coalesce(u.used_at, u.created_at) as new_time
	)
	select array_agg(distinct t.used_at) into times
	from changed c cross join lateral (values (c.old_time), (c.new_time)) t (used_at);
	perform usage_dated(times);
end $$;

-- Sets the printer of a new entry of a run, and dates the entry by the end of the run, as date_run_usage does.
create or replace function usage_added() returns trigger language plpgsql as $$
begin
	select r.ended_at, coalesce(new.printer_id, r.printer_id) into new.used_at, new.printer_id
	from production_runs r where r.tenant_id = new.tenant_id and r.id = new.run_id;
	if new.used_at is not null then
		perform usage_dated(array[new.used_at]);
	end if;
	return new;
end $$;
create or replace trigger usage_added before insert on spool_usage
	for each row when (new.run_id is not null) execute function usage_added();

-- Only reports of printers change the weight of an entry. The day of such an entry is summarised again.
create or replace function usage_grows() returns trigger language plpgsql as $$
begin
	if old.kind <> 'printed' then
		return null;
	end if;
	perform usage_dated(array[new.used_at]);
	return new;
end $$;
create or replace trigger usage_grows before update of after_grams, shortfall_grams, covered_grams, report_token,
		updated_at
	on spool_usage
	for each row when (old.kind <> 'printed' or old.used_at is not null) execute function usage_grows();
