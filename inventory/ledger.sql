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

-- Records a spool whose material, color or price changed, so that summarize_usage summarizes its past days again.
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

-- Records the old and new times of entries that moved to another time, so that summarize_usage summarizes the days
-- of these times again. A day is not yet closed an hour after its end.
create or replace function usage_dated(times timestamptz[]) returns void language sql as $$
	insert into usage_changes (used_at)
	select distinct t.used_at from unnest(times) t (used_at) where t.used_at < now() - interval '1 hour'
$$;

-- Deletes up to 100 of these records. Returns the spools, the times, and the number of records.
create or replace function take_usage_changes(out spools uuid[], out times timestamptz[], out changes int)
language sql as $$
	with taken as (
		delete from usage_changes c
		where c.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and c.id in (
			select x.id from usage_changes x
			where x.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid order by x.id limit 100)
		returning c.spool_id, c.used_at
	)
	select array_agg(distinct t.spool_id), array_agg(distinct t.used_at), count(*)::int from taken t
$$;

-- Adds the entry that takes back another entry at a weighing: see weighing_since.
create or replace function balance_usage(spool uuid, weighing uuid, entry uuid, before numeric, grams numeric)
returns void language sql as $$
	insert into spool_usage (spool_id, kind, before_grams, after_grams, weighing_id, balances_id, used_at)
	select w.spool_id, w.kind, before, before + grams, w.id, entry, w.created_at from spool_usage w
	where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and w.id = weighing;
	select usage_dated(array(select w.created_at from spool_usage w
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and w.id = weighing));
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

-- Only reports of printers change the weight of an entry. The day of such an entry is summarized again.
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
