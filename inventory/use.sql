-- Deducts the filament of a production run from spools: grams[n] from spool_ids[n], where a spool may occur
-- several times. Writes one ledger row of the kind, run or wasted, for each spool. Returns one row for each spool, with
-- short = false.
--
-- If any of the spools is hidden or has less than its total, nothing changes; the function returns only those
-- spools, with short = true, deducted as the grams that the run needs, and both weights as the grams that
-- remain.
--
-- All the spools must exist in the tenant that the transaction is bound to. They are locked in the order of
-- their ids, so that runs with common spools cannot deadlock.
--
-- force_generic_plan: for short arrays of known length the planner would plan each statement again at each
-- call, which takes longer than running it. With "lateral (... offset 0)" and in the loop, a spool is always read
-- by its primary key, whatever the planner knows of the table.
create or replace function take_filament(run uuid, spool_ids uuid[], grams numeric[], kind text)
returns table (
	spool_id uuid, name text, previous_weight numeric, new_weight numeric, deducted numeric, short boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
	perform from (select distinct u.id from unnest(spool_ids) u (id) order by u.id) u
	cross join lateral (select from spools s where s.id = u.id for no key update) s;

	return query
		select s.id, spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams, s.remaining_weight_grams,
			used.total, true
		from (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used
		cross join lateral (select * from spools s where s.id = used.id offset 0) s
		where s.hidden_at is not null or s.remaining_weight_grams < used.total
		order by s.id;
	if found then
		return;
	end if;

	insert into spool_usage (spool_id, kind, run_id, before_grams, after_grams)
	select s.id, take_filament.kind, run, s.remaining_weight_grams, s.remaining_weight_grams - used.total
	from (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used
	cross join lateral (select * from spools s where s.id = used.id offset 0) s
	order by s.id;

	short := false;
	for spool_id, deducted in
		select u.id, sum(u.g) from unnest(spool_ids, grams) u (id, g) group by u.id order by u.id
	loop
		update spools s set remaining_weight_grams = s.remaining_weight_grams - deducted, updated_at = now(),
			first_used_at = coalesce(s.first_used_at, now()), last_used_at = now()
		where s.id = spool_id
		returning spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams + deducted,
			s.remaining_weight_grams
		into name, previous_weight, new_weight;
		return next;
	end loop;
end $$;
