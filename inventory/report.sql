-- Returns the usual density of a material in g/cm3.
create or replace function usual_density(material_type text) returns numeric
language sql immutable parallel safe as $$
	select case material_type when 'PETG' then 1.27 when 'ABS' then 1.04 when 'ASA' then 1.05 when 'TPU' then 1.21
		when 'PC' then 1.20 when 'HIPS' then 1.03 when 'PVA' then 1.23 when 'Nylon' then 1.14 else 1.24 end
$$;

-- Returns the grams of a millimetre of filament with the diameter in mm and the density in g/cm3.
create or replace function grams_per_mm(diameter numeric, density numeric) returns numeric
language sql immutable parallel safe as $$
	select 3.14159265358979324 / 4 * diameter * diameter * density / 1000
$$;

-- Deducts what a printer reports: weight in grams or, if that is null, length in mm. A negative report adds filament,
-- but not more than a full spool has. Returns the spool, or null if there is none with the number; the run that the
-- report belongs to; and the grams that the ledger has got for it, or null if the report repeats another one or
-- reports nothing.
--
-- A printer cannot undo what it has printed, so a report that exceeds the remaining weight leaves 0 g, and the ledger
-- keeps the shortfall. Reports of the same caller within an hour of the first one, for the same run and with no other
-- change of the spool in between, are one ledger entry, which grows. Every change of a spool sets updated_at, so the
-- entry grows only if both still have the time and the weight of its last report; the order of the clock's times does
-- not matter for that.
--
-- The caller has locked the run, if there is one, before this function locks the spool, as whatever ends a run does. A
-- negative report of more than the run has used belongs to no run. If covered, the use of the run is known without the
-- report: the entry has the grams in covered_grams, and the spool keeps its weight.
--
-- Together with weightChange in ledger.go, the function is all that changes remaining weights.
--
-- token identifies the report, and is null if the client sent a key. If repeat_seconds is not null, the report may
-- repeat one that took effect: that with the same token or, of other processes, one in the last repeat_seconds that is
-- equal, which means that its token has the same upper half. Then the function changes nothing. The lower half of a
-- token starts with 16 bits of the process.
drop function if exists report_use(int, numeric, numeric, bigint, float8);
create or replace function report_use(
	spool_number int, weight numeric, length numeric, token bigint, repeat_seconds float8,
	for_printer uuid default null, for_run uuid default null, covered boolean default false,
	out spool uuid, out run uuid, out grams numeric
)
language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	s spools;
	e spool_usage;
	used numeric;
	start_grams numeric;
	left_grams numeric;
	shortfall numeric;
	printer uuid := ( -- locked, so that nobody deletes it before the ledger has it
		select p.id from printers p where p.tenant_id = tenant and p.id = for_printer for key share);
begin
	select * into s from spools x where x.tenant_id = tenant and x.number = spool_number
		and x.hidden_at is null
		for no key update;
	if not found then
		return;
	end if;
	spool := s.id;
	used := round(coalesce(weight, length * grams_per_mm(s.diameter_mm,
		coalesce(s.density_g_cm3, usual_density(s.material_type)))), 6);
	used := least(greatest(used, -1000000), 1000000);
	if used = 0 then -- which is no change of the remaining weight, but a use
		update spools x set updated_at = now(), edited_at = now(), last_used_at = now(),
			first_used_at = coalesce(x.first_used_at, now())
		where x.tenant_id = tenant and x.id = s.id;
		return;
	end if;
	if repeat_seconds is not null and exists (
		select from spool_usage u
		where u.tenant_id = tenant and u.spool_id = s.id and u.kind = 'printed'
			and u.created_at > now() - interval '2 hours'
			and (u.report_token = token or u.report_token >> 32 = token >> 32 and u.report_token >> 16 <> token >> 16
				and u.updated_at > now() - make_interval(secs => repeat_seconds))
	) then
		return;
	end if;
	run := for_run;
	if used < 0 and run is not null and used + coalesce(
		(select u.grams from run_use(run) u where u.spool_id = s.id), 0) < 0
	then
		run := null;
	end if;
	covered := covered and run is not null;

	select * into e from spool_usage u where u.tenant_id = tenant and u.spool_id = s.id
		order by u.created_at desc, u.id desc limit 1;
	start_grams := s.remaining_weight_grams;
	if e.kind = 'printed' and e.after_grams = s.remaining_weight_grams and e.updated_at = s.updated_at
		and e.api_key_id is not distinct from nullif(current_setting('app.api_key_id', true), '')::uuid
		and e.printer_id is not distinct from printer and e.run_id is not distinct from run
		and (e.covered_grams is not null) = covered
		and e.user_id is not distinct from nullif(current_setting('app.user_id', true), '')::uuid
		and e.created_at between clock_timestamp() - interval '1 hour' and clock_timestamp()
	then
		start_grams := e.before_grams;
		used := used + e.before_grams - e.after_grams + e.shortfall_grams + coalesce(e.covered_grams, 0);
	else
		e.id := null;
	end if;
	if covered then
		left_grams := start_grams;
		shortfall := 0;
		used := least(greatest(used, -999999999), 999999999);
	else
		left_grams := least(greatest(start_grams - used, 0), greatest(start_grams, s.net_weight_grams));
		shortfall := least(greatest(used - start_grams, 0), 999999999);
	end if;
	if e.id is null then
		insert into spool_usage (spool_id, kind, run_id, printer_id, before_grams, after_grams, shortfall_grams,
			covered_grams, updated_at, report_token)
		values (s.id, 'printed', run, printer, start_grams, left_grams, shortfall, case when covered then used end, now(),
			token);
		grams := start_grams - left_grams + shortfall;
	else
		update spool_usage u
		set after_grams = left_grams, shortfall_grams = shortfall, covered_grams = case when covered then used end,
			updated_at = now(), report_token = token
		where u.tenant_id = tenant and u.id = e.id;
		grams := e.after_grams - left_grams + shortfall - e.shortfall_grams;
	end if;
	update spools x set remaining_weight_grams = left_grams, updated_at = now(),
		first_used_at = coalesce(x.first_used_at, now()), last_used_at = now()
	where x.tenant_id = tenant and x.id = s.id;
end $$;

-- Returns what a run has used of each spool: grams by all entries of its ledger, and reported by those of printers,
-- with what they reported after a person had stated the use. short are the grams of it that the spool did not have.
create or replace function run_use(run uuid)
returns table (spool_id uuid, grams numeric, reported numeric, short numeric)
language sql stable as $$
	select u.spool_id, sum(coalesce(u.shortfall_grams, 0) - u.change_grams),
		sum(coalesce(u.shortfall_grams, 0) - u.change_grams + coalesce(u.covered_grams, 0))
			filter (where u.kind = 'printed'),
		sum(coalesce(u.shortfall_grams, 0))
	from spool_usage u
	where u.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and u.run_id = run
	group by u.spool_id
$$;

-- Returns the grams that left a spool between two times without a run: by reports, deductions, weighing and edits. It
-- is negative if more was added.
create or replace function use_outside_runs(spool uuid, since timestamptz, until timestamptz) returns numeric
language sql stable as $$
	select coalesce(sum(coalesce(u.shortfall_grams, 0) - u.change_grams), 0)
	from spool_usage u
	where u.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and u.spool_id = spool
		and u.created_at >= since and u.created_at < until
		and u.run_id is null and u.kind in ('deducted', 'printed', 'measured', 'edited')
$$;
