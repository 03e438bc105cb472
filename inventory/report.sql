-- Returns the change of an entry of the ledger; u.change_grams is the same as change_grams(u). A generated column would
-- cost time at every deduction, because PostgreSQL parses its expression for each statement.
create or replace function change_grams(u spool_usage) returns numeric
language sql immutable parallel safe as $$ select u.after_grams - u.before_grams $$;

-- Returns the usual density of a material in g/cm3.
create or replace function usual_density(material_type text) returns numeric
language sql immutable parallel safe as $$
	select coalesce(('{"PETG": 1.27, "ABS": 1.04, "ASA": 1.05, "TPU": 1.21, "PC": 1.20, "HIPS": 1.03, "PVA": 1.23,
		"Nylon": 1.14}'::jsonb -> material_type)::numeric, 1.24)
$$;

-- Returns the grams of one millimeter of filament. diameter is in mm, density in g/cm3.
create or replace function grams_per_mm(diameter numeric, density numeric) returns numeric
language sql immutable parallel safe as $$
	select 3.14159265358979324 / 4 * diameter * diameter * density / 1000
$$;

-- Returns the entries of earlier reports of a spool that took effect and that a report repeats: those with the same
-- token, and those of an equal report that another process received in the last repeat_seconds. Equal reports have the
-- same upper 32 bits of their tokens; the next 16 bits identify the process.
--
-- PostgreSQL inlines this function and extended_entry in the statements of report_use. They get the tenant of the
-- transaction as a parameter, and extended_entry lists the columns that it reads: both make reports faster.
create or replace function repeated_entries(tenant uuid, spool uuid, token bigint, repeat_seconds float8)
returns table (id uuid) language sql stable as $$
	select u.id from spool_usage u
	where u.tenant_id = tenant and u.spool_id = spool and u.kind = 'printed'
		and u.created_at > now() - interval '2 hours'
		and (u.report_token = token or u.report_token >> 32 = token >> 32 and u.report_token >> 16 <> token >> 16
			and u.updated_at > now() - make_interval(secs => repeat_seconds))
$$;

-- Returns the entry of the ledger that a report extends, or no row: the last entry of the spool, if the same caller
-- reported it for the same printer and run, at most an hour ago, and the spool did not change in between. An entry
-- without a run that is older than since is never extended.
--
-- remaining and changed are the remaining weight and updated_at of the spool. Every change of a spool sets updated_at,
-- so the function compares both with the entry; the comparison does not depend on the order of clock times.
create or replace function extended_entry(
	tenant uuid, spool uuid, remaining numeric, changed timestamptz, printer uuid, run uuid, covered boolean,
	since timestamptz
)
returns table (id uuid, before_grams numeric, after_grams numeric, shortfall_grams numeric, covered_grams numeric)
language sql stable as $$
	select e.id, e.before_grams, e.after_grams, e.shortfall_grams, e.covered_grams
	from (
		select u.id, u.kind, u.run_id, u.printer_id, u.user_id, u.api_key_id, u.before_grams, u.after_grams,
			u.shortfall_grams, u.covered_grams, u.created_at, u.updated_at
		from spool_usage u
		where u.tenant_id = tenant and u.spool_id = spool
		order by u.created_at desc, u.id desc limit 1
	) e
	where e.kind = 'printed' and e.after_grams = remaining and e.updated_at = changed
		and e.api_key_id is not distinct from nullif(current_setting('app.api_key_id', true), '')::uuid
		and e.printer_id is not distinct from printer and e.run_id is not distinct from run
		and (e.covered_grams is not null) = covered and (run is not null or since is null or e.created_at >= since)
		and e.user_id is not distinct from nullif(current_setting('app.user_id', true), '')::uuid
		and e.created_at between clock_timestamp() - interval '1 hour' and clock_timestamp()
$$;

-- Deducts the use that a printer reports: weight in grams or, if weight is null, length in mm. A negative report
-- adds filament, up to the net weight of the spool. The function returns the spool, or null if no spool has the
-- number; the run of the report; and the grams that it added to the ledger, or null if the report repeats another
-- report or reports nothing.
--
-- A printer cannot undo a print, so a report that exceeds the remaining weight leaves 0 g, and the ledger stores the
-- shortfall. A report extends the entry that extended_entry returns, or else adds one.
--
-- If there is a run or a printer, the caller has locked it before this function locks the spool, in the same order as
-- the end of a run. A negative report of more grams than the run has used belongs to no run. returnable is the use of
-- the run; if it is null, the ledger tells the use. If covered is true, the use of the run is known without the report:
-- the entry stores the grams in covered_grams, and the spool keeps its weight.
--
-- If the run has ended, at the time ended, the filament left the spool before that: a weighing since then keeps the
-- weight of the spool.
--
-- Every statement that changes remaining weights adds entries to the ledger, as this function does.
--
-- token identifies the report. It is null if the client sent an idempotency key. If repeat_seconds is not null, the
-- report may repeat an earlier one, see repeated_entries. The function changes nothing for a repeated report.
create or replace function report_use(
	spool_number int, weight numeric, length numeric, token bigint, repeat_seconds float8,
	for_printer uuid default null, for_run uuid default null, covered boolean default false,
	since timestamptz default null, returnable numeric default null, ended timestamptz default null,
	out spool uuid, out run uuid, out grams numeric
)
language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	s record; -- not all columns, because each costs time
	e record; -- the entry of the ledger that the report extends, and then the new entry
	used numeric;
	start_grams numeric;
	left_grams numeric;
	shortfall numeric;
	weighed record; -- the first weighing after the end of the run
	balance numeric; -- the grams that are taken back at it
	shift numeric := 0;
begin
	select x.id, x.material_type, x.diameter_mm, x.density_g_cm3, x.net_weight_grams, x.remaining_weight_grams, x.updated_at
		into s
		from spools x where x.tenant_id = tenant and x.number = spool_number
		and x.hidden_at is null
		for no key update;
	if not found then
		return;
	end if;
	spool := s.id;
	used := round(coalesce(weight, length * grams_per_mm(s.diameter_mm,
		coalesce(s.density_g_cm3, usual_density(s.material_type)))), 6);
	used := least(greatest(used, -1000000), 1000000);
	if used = 0 then -- no change of the remaining weight, but a use of the spool
		update spools x set updated_at = now(), edited_at = now(), last_used_at = now(),
			first_used_at = coalesce(x.first_used_at, now())
		where x.tenant_id = tenant and x.id = s.id;
		return;
	end if;
	if repeat_seconds is not null and exists (select from repeated_entries(tenant, s.id, token, repeat_seconds)) then
		return;
	end if;
	run := for_run;
	if used < 0 and run is not null and used + coalesce(returnable,
		(select u.grams from run_use(run) u where u.spool_id = s.id), 0) < 0
	then
		run := null;
	end if;
	covered := covered and run is not null;

	start_grams := s.remaining_weight_grams;
	if run is not null and ended is not null and not covered then
		select * into weighed from weighing_since(s.id, ended);
		if found then
			start_grams := weighed.expected;
			balance := 0;
		end if;
	end if;
	select x.* into e
		from extended_entry(tenant, s.id, s.remaining_weight_grams, s.updated_at, for_printer, run, covered, since) x
		where balance is null; -- a report before a weighing begins a new entry
	if found then
		start_grams := e.before_grams;
		used := used + e.before_grams - e.after_grams + e.shortfall_grams + coalesce(e.covered_grams, 0);
	end if;
	if covered then
		left_grams := start_grams;
		shortfall := 0;
		used := least(greatest(used, -999999999), 999999999);
	else
		left_grams := least(greatest(start_grams - used, 0), greatest(start_grams, s.net_weight_grams));
		shortfall := least(greatest(used - start_grams, 0), 999999999);
	end if;
	if balance is not null then
		balance := start_grams - left_grams;
		shift := s.remaining_weight_grams - least(start_grams, left_grams);
	end if;
	if e.id is null then
		e.id := uuid_v7();
		if balance > 0 then
			perform balance_usage(s.id, weighed.id, e.id, s.remaining_weight_grams, balance);
		end if;
		insert into spool_usage (id, spool_id, kind, run_id, printer_id, before_grams, after_grams, shortfall_grams,
			covered_grams, updated_at, report_token)
		values (e.id, s.id, 'printed', run, for_printer, start_grams + shift, left_grams + shift, shortfall,
			case when covered then used end, now(), token);
		if balance < 0 then
			perform balance_usage(s.id, weighed.id, e.id, left_grams + shift, balance);
		end if;
		grams := start_grams - left_grams + shortfall;
	else
		update spool_usage u
		set after_grams = left_grams, shortfall_grams = shortfall, covered_grams = case when covered then used end,
			updated_at = now(), report_token = token
		where u.tenant_id = tenant and u.id = e.id;
		grams := e.after_grams - left_grams + shortfall - e.shortfall_grams;
	end if;
	update spools x set remaining_weight_grams = left_grams + shift + least(coalesce(balance, 0), 0), updated_at = now(),
		first_used_at = coalesce(x.first_used_at, now()), last_used_at = now()
	where x.tenant_id = tenant and x.id = s.id;
end $$;

-- Returns the use of a run for each spool. grams is the sum of all ledger entries of the run. reported is the sum of
-- the entries of printers, with the grams that they reported after a person stated the use. short is the part of
-- grams that the spool did not have. taken is the sum of the entries that do not come from printers.
create or replace function run_use(run uuid)
returns table (spool_id uuid, grams numeric, reported numeric, short numeric, taken numeric)
language sql stable as $$
	select u.spool_id, sum(coalesce(u.shortfall_grams, 0) - u.change_grams),
		sum(coalesce(u.shortfall_grams, 0) - u.change_grams + coalesce(u.covered_grams, 0))
			filter (where u.kind = 'printed'),
		sum(coalesce(u.shortfall_grams, 0)),
		coalesce(sum(coalesce(u.shortfall_grams, 0) - u.change_grams) filter (where u.kind <> 'printed'), 0)
	from spool_usage u
	where u.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and u.run_id = run
	group by u.spool_id
$$;

-- Returns the first weighing of a spool after a moment: the first entry of a scale, or of an edit of the remaining
-- weight, that says what the spool had and was not taken back; or a refill, which begins new contents. expected is
-- what the spool should have had then, by all changes of earlier moments that are known now.
--
-- What changes at an earlier moment does not change the weight of the spool: the ledger gets an entry for the change,
-- and one that takes back its grams at the weighing, with the id of the weighing in weighing_id.
create or replace function weighing_since(spool uuid, moment timestamptz)
returns table (id uuid, weighed_at timestamptz, kind text, expected numeric) language sql stable as $$
	select w.id, w.created_at, w.kind, w.before_grams - coalesce((
			select sum(b.change_grams) from spool_usage b
			where b.tenant_id = w.tenant_id and b.spool_id = w.spool_id and b.weighing_id = w.id), 0)
	from spool_usage w
	where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and w.spool_id = spool
		and w.created_at > moment and w.kind in ('measured', 'edited', 'discarded')
		and num_nonnulls(w.reverses_id, w.weighing_id, w.counted_run_id) = 0
		and not exists (select from spool_usage v where v.tenant_id = w.tenant_id and v.reverses_id = w.id)
	order by w.created_at, w.id limit 1
$$;

-- Returns the weighing of a spool at which changes of a run's use are balanced, or no row: the newest one at which
-- entries of the run were balanced, or else the last one between two times, those of the run. grams is the use of the
-- run before it that was taken back since: the most that it had been, less what is left. used is what the ends of the
-- run took before the last of these weighings, and after what the run took since. Use that the run counts as its own
-- left the spool without it.
create or replace function run_weighing(run uuid, spool uuid, since timestamptz, until timestamptz)
returns table (id uuid, weighed_at timestamptz, kind text, expected numeric, grams numeric, used numeric, after numeric)
language sql stable as $$
	with own as (
		select w.id, w.created_at, greatest(max(b.total), 0) - sum(b.change_grams) as grams
		from (
			select b.*, b.change_grams,
				sum(b.change_grams) over (partition by b.weighing_id order by b.created_at, b.id) as total
			from spool_usage b
			join spool_usage e on e.tenant_id = b.tenant_id and e.id = b.balances_id and e.run_id = run
			where b.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and b.spool_id = spool
				and b.weighing_id is not null
		) b
		join spool_usage w on w.tenant_id = b.tenant_id and w.id = b.weighing_id
		where not exists (select from spool_usage v where v.tenant_id = w.tenant_id and v.reverses_id = w.id)
		group by w.tenant_id, w.id
		order by w.created_at desc, w.id desc limit 1
	), during as (
		select s.id, w.created_at
		from spool_usage w
		cross join lateral weighing_since(spool, w.created_at - interval '1 microsecond') s
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and w.spool_id = spool
			and w.kind in ('measured', 'edited', 'discarded') and w.created_at > since and w.created_at <= until
			and s.id = w.id
		order by w.created_at desc, w.id desc limit 1
	)
	select w.id, w.created_at, w.kind, s.expected, coalesce(o.grams, 0), u.used, u.after
	from (select) one left join own o on true left join during d on true
	join spool_usage w on w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
		and w.id = coalesce(o.id, d.id)
	cross join lateral weighing_since(spool, w.created_at - interval '1 microsecond') s
	cross join lateral (
		select coalesce(sum(case when e.later then e.kept else e.grams end) filter (where e.kind <> 'printed'), 0) as used,
			coalesce(sum(e.grams - e.kept) filter (where e.later), 0) as after
		from (
			select e.kind, e.created_at > greatest(o.created_at, d.created_at) as later,
				coalesce(e.shortfall_grams, 0) - e.change_grams as grams, coalesce((
					select sum(b.change_grams) from spool_usage b
					where b.tenant_id = e.tenant_id and b.spool_id = spool and b.weighing_id is not null and b.balances_id = e.id
						and not exists (
							select from spool_usage v where v.tenant_id = b.tenant_id and v.reverses_id = b.weighing_id)
				), 0) as kept
			from (
				select x.*, x.change_grams from spool_usage x
				where x.tenant_id = w.tenant_id and x.run_id = run and x.spool_id = spool
				union all
				select x.*, x.change_grams from spool_usage x
				where x.tenant_id = w.tenant_id and x.spool_id = spool and x.counted_run_id = run
					and x.created_at > coalesce(since, '-infinity')
			) e
		) e
	) u
$$;

-- Returns the grams that left a spool between two times outside of runs: by reports, deductions, weighing and edits,
-- or only by the given kinds of entries. The result is negative if more grams were added. An entry that reverses or
-- moves another entry counts at the time of that other entry.
create or replace function use_outside_runs(
	spool uuid, since timestamptz, until timestamptz, kinds text[] default '{deducted,printed,measured,edited}'
) returns numeric
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select coalesce(sum(coalesce(u.shortfall_grams, 0) - u.change_grams), 0)
		from (
			select x.kind, x.change_grams, x.shortfall_grams from spool_usage x
			where x.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and x.spool_id = spool
				and x.created_at >= since and x.created_at < until and x.run_id is null and x.used_at is null
			union all
			select x.kind, x.change_grams, x.shortfall_grams from spool_usage x
			where x.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and x.spool_id = spool
				and x.used_at >= since and x.used_at < until and x.run_id is null
		) u
		where u.kind = any (kinds)
	);
end $$;

-- Returns the run that counts an entry of a spool as its own use although the entry has no run, or null. created is
-- the time of the entry, and used the time of the use.
create or replace function counting_run(spool uuid, used timestamptz, created timestamptz) returns uuid
language sql stable as $$
	select c.run_id
	from (
		select u.counted_run_id as run_id, max(u.created_at) as counted_at from spool_usage u
		where u.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and u.spool_id = spool
			and u.created_at >= created and u.counted_run_id is not null
		group by u.counted_run_id having sum(coalesce(u.shortfall_grams, 0) - u.change_grams) < 0
	) c
	join production_runs r on r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and r.id = c.run_id
	where used >= r.started_at and used < case when r.ended_at < r.deducted_at then r.ended_at else c.counted_at end
	limit 1
$$;
