-- Returns the period of a report of the tenant from a day to a day, which may be null: its first day, the day after
-- its last day, the current day, and the tenant's time zone and currency. By default it has 30 days and ends today.
create or replace function report_period(tenant uuid, from_day date, to_day date)
returns table (first date, until date, today date, zone text, currency text) language sql stable as $$
	select coalesce(from_day, t.last - 29), t.last + 1, t.today, t.time_zone, t.currency
	from (
		select coalesce(to_day, greatest(d.today, from_day)) as last, d.today, s.time_zone, s.currency
		from tenants s cross join lateral (select (now() at time zone s.time_zone)::date as today) d
		where s.tenant_id = tenant
	) t
$$;

-- Returns the use of filament from the day first until the day before last, in the time zone: one row for each day,
-- material and color and, with by_printer, one row for each day and printer. The printer is the printer of the run,
-- or of the API key that reported the use. If neither has one, only a name is known: the run's printer_name, or the
-- name of the key. printer_key is the id of the printer or the name, and '' without both. If only_printer is not
-- null, only the use of this printer is returned.
--
-- grams is the use: deductions, also by runs and printers, and their shortfall_grams, which exceed the recorded weight
-- of the spool. wasted_grams is the part of grams that runs wasted: see completed_waste. corrected_grams is the
-- filament that weighing and edits removed; grams does not include it. cost is the cost of grams, and null if no price
-- is known; unpriced_grams is the part of grams without a price. The entries of an ended run share the cost of the
-- run, at the prices that it froze, exactly. Other use has the price of the contents of the spool at that time. The
-- cost of each entry has six decimals, so that all groups add up to the same total.
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
	grams numeric, wasted_grams numeric, corrected_grams numeric, cost numeric, unpriced_grams numeric
)
language sql stable as $$
	select grouping(e.material_type) = 1, e.day, coalesce(e.material_type, ''), coalesce(e.color_key, ''),
		coalesce(e.printer_key, ''), case when grouping(e.material_type) = 0 then min(e.color) end,
		case when grouping(e.material_type) = 1 then min(e.printer_name) end, sum(e.grams),
		sum(round(e.grams * e.wasted_parts / 1000000000000, 6)), sum(e.corrected_grams),
		sum(case when e.corrected then null
			when e.run_grams is null then round(e.grams * e.price, 6)
			else share_of(e.run_cost, e.high - e.grams, e.high, nullif(e.run_grams, 0)) end),
		sum(case when e.run_grams is null then case when e.price is null then e.grams else 0 end
			when e.run_unpriced > 0 then share_of(e.run_unpriced, e.high - e.grams, e.high, e.run_grams) else 0 end)
	from (
		select e.*, sum(e.grams) over (partition by e.run_id, e.spool_id order by e.id) as high
		from (
			select u.id, u.spool_id, (coalesce(u.used_at, u.created_at) at time zone zone)::date as day, s.material_type,
				s.color_key, s.color,
				coalesce(p.name, r.printer_name, k.name) as printer_name,
				coalesce(u.printer_id::text,
					lower(coalesce(r.printer_name, k.name, '') collate "und-x-icu") collate "C") as printer_key,
				u.kind in ('measured', 'edited') as corrected,
				case when u.kind in ('measured', 'edited') then 0
					else coalesce(u.shortfall_grams, 0) - u.change_grams end as grams,
				case when u.kind in ('measured', 'edited') then coalesce(u.shortfall_grams, 0) - u.change_grams
					else 0 end as corrected_grams,
				coalesce(r.wasted_parts, 0) as wasted_parts, u.run_id, m.grams as run_grams, m.cost as run_cost,
				m.unpriced as run_unpriced,
				case when c.closed_at is null then s.cost_per_gram else c.cost_per_gram end as price
			from spool_usage u
			join spools s on s.tenant_id = u.tenant_id and s.id = u.spool_id
			left join production_runs r on r.tenant_id = u.tenant_id and r.id = u.run_id
			left join lateral (
				select x.closed_at, x.cost_per_gram from spool_contents x
				where x.tenant_id = u.tenant_id and x.spool_id = u.spool_id and x.closed_at > coalesce(u.used_at, u.created_at)
				order by x.closed_at limit 1
			) c on true
			left join lateral (
				select coalesce(sum(x.actual_weight_grams), 0) as grams,
					sum(rounded_quotient(x.actual_weight_grams * x.cost_per_gram, 1)) as cost,
					sum(x.actual_weight_grams) filter (where x.cost_per_gram is null) as unpriced
				from run_materials x
				where x.tenant_id = u.tenant_id and x.run_id = r.id and x.spool_id = u.spool_id
			) m on r.ended_at is not null
			left join printers p on p.tenant_id = u.tenant_id and p.id = u.printer_id
			left join api_keys k on u.kind = 'printed' and k.tenant_id = u.tenant_id
				and k.id = case when num_nonnulls(u.reverses_id, u.moves_id) = 0 then u.api_key_id else u.reporter_id end
			where u.tenant_id = tenant
				and coalesce(u.used_at, u.created_at) >= first::timestamp at time zone zone - interval '3 hours'
				and coalesce(u.used_at, u.created_at) < last::timestamp at time zone zone + interval '3 hours'
				and (coalesce(u.used_at, u.created_at) at time zone zone)::date >= first
				and (coalesce(u.used_at, u.created_at) at time zone zone)::date < last
				and (only_printer is null or u.printer_id = only_printer)
				and u.kind not in ('created', 'discarded', 'refilled')
		) e
	) e
	group by grouping sets ((e.day, e.material_type, e.color_key), (e.day, e.printer_key))
$$;

-- Returns the use of filament as ledger_usage does: of the days before the day `summarized` from usage_days, and of
-- the other days from the ledger.
create or replace function usage_between(
	tenant uuid, of_printers boolean, first date, last date, zone text, summarized date, only_printer uuid
)
returns table (
	day date, material_type text, color_key text, printer_key text, color text, printer_name text, grams numeric,
	wasted_grams numeric, corrected_grams numeric, cost numeric, unpriced_grams numeric
)
language sql stable as $$
	select d.day, d.material_type, d.color_key, d.printer_key, d.color, d.printer_name, d.grams, d.wasted_grams,
		d.corrected_grams, d.cost, d.unpriced_grams
	from usage_days d
	where d.tenant_id = tenant and d.by_printer = of_printers and d.day >= first and d.day < least(last, summarized)
	union all
	select l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name, l.grams, l.wasted_grams,
		l.corrected_grams, l.cost, l.unpriced_grams
	from ledger_usage(tenant, greatest(first, summarized), last, zone, only_printer) l
	where l.by_printer = of_printers
$$;

-- Returns the group of a report to which use belongs: the values that all use in the group has in common.
create or replace function usage_group(
	group_by text, material_type text, color_key text, printer_key text, day date
) returns text[] language sql stable as $$
	select case group_by
		when 'material' then array[material_type]
		when 'color' then array[material_type, color_key]
		when 'printer' then array[printer_key]
		else array[date_trunc(group_by, day)::date::text] -- day, week or month
	end
$$;

-- Returns the price per gram of an entry as ledger_usage has it, or null. It is the mean of a run's materials.
create or replace function use_price(run uuid, spool uuid, at timestamptz) returns numeric language sql stable as $$
	select case when m.spool is null then spool_price(use_price.spool, at)
		else coalesce(rounded_quotient(m.cost, m.grams), m.price) end
	from (select) always
	left join (
		select min(m.spool_id::text) as spool, sum(m.actual_weight_grams * m.cost_per_gram) as cost,
			nullif(sum(m.actual_weight_grams) filter (where m.cost_per_gram is not null), 0) as grams,
			min(m.cost_per_gram) as price
		from production_runs r join run_materials m on m.run_id = r.id
		where r.id = use_price.run and r.ended_at is not null and m.spool_id = use_price.spool
	) m on true
$$;

-- Returns the filament that was lost from the day first until the day before last, in the time zone: the rest on
-- removed spools, on the day of the removal, and on spools that were refilled.
create or replace function filament_losses(tenant uuid, first date, last date, zone text)
returns table (day date, material_type text, color_key text, color text, grams numeric, cost numeric)
language sql stable as $$
	select (s.hidden_at at time zone zone)::date, s.material_type, s.color_key, s.color, s.remaining_weight_grams,
		round(s.remaining_weight_grams * s.cost_per_gram, 6)
	from spools s
	where s.tenant_id = tenant and s.in_stock and s.hidden_at >= first::timestamp at time zone zone
		and s.hidden_at < last::timestamp at time zone zone
	union all
	select (c.closed_at at time zone zone)::date, s.material_type, s.color_key, s.color, u.grams,
		round(u.grams * c.cost_per_gram, 6)
	from spool_contents c
	join spools s on s.tenant_id = c.tenant_id and s.id = c.spool_id
	cross join lateral (
		select -sum(x.change_grams) as grams from spool_usage x
		where x.tenant_id = c.tenant_id and x.spool_id = c.spool_id and x.kind = 'discarded'
			and coalesce(x.used_at, x.created_at) = c.closed_at
	) u
	where c.tenant_id = tenant and c.closed_at >= first::timestamp at time zone zone
		and c.closed_at < last::timestamp at time zone zone and u.grams <> 0
$$;

-- Adds the rows of ledger_usage for the days to usage_days.
create or replace function add_usage_days(first date, last date, zone text) returns void language sql as $$
	insert into usage_days (by_printer, day, material_type, color_key, printer_key, color, printer_name, grams,
		wasted_grams, corrected_grams, cost, unpriced_grams)
	select l.by_printer, l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name,
		least(greatest(l.grams, -999999999), 999999999), least(greatest(l.wasted_grams, -999999999), 999999999),
		least(greatest(l.corrected_grams, -999999999), 999999999),
		case when l.cost is not null then least(greatest(l.cost, -999999999), 999999999) end,
		least(greatest(l.unpriced_grams, -999999999), 999999999)
	from ledger_usage(nullif(current_setting('app.tenant_id', true), '')::uuid, first, last, zone) l
$$;

-- Summarizes up to `most` days of the ledger in usage_days, and returns the number of summarized days. Call it until
-- it returns 0. A day is closed two hours after its end, because an entry of a printer grows for an hour, and a
-- transaction takes much less than another hour. Only closed days are summarized. usage_changes lists spools and
-- times that changed: their days are summarized again, up to `most` days. If more days changed, this call and the
-- next calls summarize all days again from the first changed day.
--
-- After the tenant's time zone has changed, the function first deletes the days in the old time zone, up to `most`
-- days in each call, and then summarizes all days again.
--
-- Only one transaction at a time summarizes a tenant; a concurrent call returns 0. The function locks no row that
-- other statements wait for.
create or replace function summarize_usage(most int) returns int language plpgsql as $$
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
	select * into spools_changed, times_changed, changes from take_usage_changes();
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

-- Makes summarize_usage summarize all days again, after entries of the ledger were deleted.
create or replace function summarize_again() returns void language sql as $$
	update usage_summaries s set time_zone = null
	where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

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

