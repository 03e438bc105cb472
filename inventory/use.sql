-- Deducts filament from spools for a production run: grams[n] from spool_ids[n], where a spool may occur several times.
-- Writes one ledger row of the kind, run or wasted, for each spool.
--
-- Callers lock the spools and compare the weights before, to tell clients which spools have too little. If a spool is
-- hidden or has less than its total nevertheless, the function raises check_violation.
--
-- The spools are locked in the order of their ids, so that runs with common spools cannot deadlock.
--
-- force_generic_plan: for short arrays of known length the planner would plan the loop's query again at each call, which
-- takes longer than running it. In the loop, a spool is always read by its primary key, whatever the planner knows of the
-- table.
create or replace function take_filament(run uuid, spool_ids uuid[], grams numeric[], kind text) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
	spool uuid;
	used numeric;
	remaining numeric;
begin
	for spool, used in
		select u.id, sum(u.g) from unnest(spool_ids, grams) u (id, g) group by u.id order by u.id
	loop
		update spools s set remaining_weight_grams = s.remaining_weight_grams - used, updated_at = now(),
			first_used_at = coalesce(s.first_used_at, now()), last_used_at = now()
		where s.id = spool and s.hidden_at is null and s.remaining_weight_grams >= used
		returning s.remaining_weight_grams into remaining;
		if not found then
			raise exception 'spool % is removed, or has less than % g', spool, used using errcode = 'check_violation';
		end if;
		insert into spool_usage (spool_id, kind, run_id, before_grams, after_grams)
		values (spool, kind, run, remaining + used, remaining);
	end loop;
end $$;
