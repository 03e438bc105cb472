-- Returns what was used from the day first until the day before last, in the time zone: a row for each day, material
-- and colour, and, with by_printer, a row for each day and printer. The printer is that of the run or of the API key
-- that reported, or else only a name: the printer_name of the run or that of the key. printer_key is the id of the
-- printer or the name, and '' if there is neither. If only_printer is not null, only what this printer used is
-- returned.
--
-- Used is what was deducted, also by runs and printers, what failed runs wasted, and the differences that a scale
-- found. It includes the grams that a spool was not thought to have. Edits of the remaining weight correct it and do not count. cost is at the price that the spool has now, and
-- null if no spool has one.
--
-- Only statements with the condition num_nonnulls(created_at) = 1 use the index by time. Where clocks are set back at
-- midnight, the beginning of a day as a time is not exact; the bounds of the index are therefore three hours wider.
create or replace function ledger_usage(
	tenant uuid, first date, last date, zone text, only_printer uuid default null
)
returns table (
	by_printer boolean, day date, material_type text, color_key text, printer_key text, color text, printer_name text,
	grams numeric, cost numeric
)
language sql stable as $$
	select grouping(e.material_type) = 1, e.day, coalesce(e.material_type, ''), coalesce(e.color_key, ''),
		coalesce(e.printer_key, ''), case when grouping(e.material_type) = 0 then min(e.color) end,
		case when grouping(e.material_type) = 1 then min(e.printer_name) end, sum(e.grams), sum(e.cost)
	from (
		select (u.created_at at time zone zone)::date as day, s.material_type, s.color_key, s.color,
			coalesce(r.printer_name, p.name, k.name) as printer_name,
			coalesce(u.printer_id::text,
				lower(coalesce(r.printer_name, k.name, '') collate "und-x-icu") collate "C") as printer_key,
			coalesce(u.shortfall_grams, 0) - u.change_grams as grams,
			(coalesce(u.shortfall_grams, 0) - u.change_grams) * s.cost_per_gram as cost
		from spool_usage u
		join spools s on s.tenant_id = u.tenant_id and s.id = u.spool_id
		left join production_runs r on r.tenant_id = u.tenant_id and r.id = u.run_id
		left join printers p on p.tenant_id = u.tenant_id and p.id = u.printer_id
		left join api_keys k on u.kind = 'printed' and k.tenant_id = u.tenant_id and k.id = u.api_key_id
		where u.tenant_id = tenant and num_nonnulls(u.created_at) = 1
			and u.created_at >= first::timestamp at time zone zone - interval '3 hours'
			and u.created_at < last::timestamp at time zone zone + interval '3 hours'
			and (u.created_at at time zone zone)::date >= first and (u.created_at at time zone zone)::date < last
			and (only_printer is null or u.printer_id = only_printer)
			and u.kind in ('deducted', 'run', 'wasted', 'printed', 'measured')
	) e
	group by grouping sets ((e.day, e.material_type, e.color_key), (e.day, e.printer_key))
$$;

-- Summarises up to `most` days of the ledger in usage_days, and returns how many days it summarised. Call it until it
-- returns 0. Only days that have ended two hours ago count as closed: an entry of a printer grows for an hour, and a
-- transaction takes much less than another hour. The days of spools in usage_changes are summarised again: also up to
-- `most` of them, or else all days since the first of them, by this and the next calls.
--
-- After the tenant's time zone has changed, the days in the old one are deleted first, up to `most` of them at a time,
-- and then all days are summarised again.
--
-- One transaction at a time summarises a tenant; another one returns 0. It locks no row that other statements wait
-- for.
create or replace function summarise_usage(most int) returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	zone text := (select t.time_zone from tenants t where t.tenant_id = tenant);
	old_zone text;
	closed date := ((now() - interval '2 hours') at time zone zone)::date;
	first date;
	last date;
	again date[];
	spools_changed uuid[];
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
		select (u.created_at at time zone zone)::date into first
		from spool_usage u where u.tenant_id = tenant and num_nonnulls(u.created_at) = 1 order by u.created_at limit 1;
		if first is null then
			return 0;
		end if;
	end if;

	-- The statements after this one see the spools as the changes have left them.
	with changed as (
		delete from usage_changes c where c.tenant_id = tenant and c.id in (
			select x.id from usage_changes x where x.tenant_id = tenant order by x.id limit 100)
		returning c.spool_id
	)
	select array_agg(distinct c.spool_id) into spools_changed from changed c;
	select array_agg(distinct (u.created_at at time zone zone)::date) into again
	from unnest(spools_changed) c (id)
	cross join lateral (
		select u.created_at from spool_usage u
		where u.tenant_id = tenant and u.spool_id = c.id
			and (u.created_at at time zone zone)::date < first
		order by u.created_at offset 0
	) u;
	again := coalesce(again, '{}');
	if cardinality(again) > most then
		select min(a.day) into first from unnest(again) a (day);
		delete from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false) and x.day >= first;
		again := '{}';
	end if;
	last := least(closed, first + most);
	if cardinality(again) > 0 then
		delete from usage_days x where x.tenant_id = tenant and x.by_printer in (true, false) and x.day = any (again);
	end if;
	foreach d in array again loop
		insert into usage_days (tenant_id, by_printer, day, material_type, color_key, printer_key, color, printer_name,
			grams, cost)
		select tenant, l.by_printer, l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name,
			least(greatest(l.grams, -999999999), 999999999),
			case when l.cost is not null then least(greatest(l.cost, -999999999), 999999999) end
		from ledger_usage(tenant, d, d + 1, zone) l;
	end loop;

	if first < last then
		insert into usage_days (tenant_id, by_printer, day, material_type, color_key, printer_key, color, printer_name,
			grams, cost)
		select tenant, l.by_printer, l.day, l.material_type, l.color_key, l.printer_key, l.color, l.printer_name,
			least(greatest(l.grams, -999999999), 999999999),
			case when l.cost is not null then least(greatest(l.cost, -999999999), 999999999) end
		from ledger_usage(tenant, first, last, zone) l;
		insert into usage_summaries (tenant_id, next_day, time_zone) values (tenant, last, zone)
		on conflict (tenant_id) do update set next_day = excluded.next_day, time_zone = excluded.time_zone;
	end if;
	return greatest(last - first, 0) + coalesce(cardinality(spools_changed), 0);
end $$;

-- Remembers a spool whose material, colour or price changed, so that summarise_usage summarises its past days again.
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
