-- Deducts the filament of a production run from spools: grams[n] from spool_ids[n], where a spool may occur
-- several times. Writes one ledger row for each spool. Returns one row for each spool, with short = false.
--
-- If any of the spools is hidden or has less than its total, nothing changes; the function returns only those
-- spools, with short = true, deducted as the grams that the run needs, and both weights as the grams that
-- remain.
--
-- All the spools must exist in the tenant that the transaction is bound to. They are locked in the order of
-- their ids, so that runs with common spools cannot deadlock.
--
-- force_generic_plan: for short arrays of known length the planner would plan each statement again at each
-- call, which takes longer than running it. The generic plan is the same: each spool by its primary key.
create or replace function use_filament(run uuid, spool_ids uuid[], grams numeric[])
returns table (
	spool_id uuid, name text, previous_weight numeric, new_weight numeric, deducted numeric, short boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
	perform from spools s where s.id = any (spool_ids) order by s.id for no key update;

	return query
		select s.id, spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams, s.remaining_weight_grams,
			used.total, true
		from spools s
		join (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used on used.id = s.id
		where s.hidden_at is not null or s.remaining_weight_grams < used.total
		order by s.id;
	if found then
		return;
	end if;

	insert into spool_usage (spool_id, kind, run_id, before_grams, after_grams)
	select s.id, 'run', run, s.remaining_weight_grams, s.remaining_weight_grams - used.total
	from spools s
	join (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used on used.id = s.id
	order by s.id;

	return query
		update spools s set remaining_weight_grams = s.remaining_weight_grams - used.total, updated_at = now(),
			first_used_at = coalesce(s.first_used_at, now()), last_used_at = now()
		from (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used
		where s.id = used.id
		returning s.id, spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams + used.total,
			s.remaining_weight_grams, used.total, false;
end $$;
