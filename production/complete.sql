-- Completes a production run: deducts the actual weight of each of its materials from the material's spool, all
-- or nothing, and only once. Locks the run first and then the spools. Returns one row.
--
-- If the run is completed, problem is null, finished_at is the run's completed_at, and details is a JSON array
-- with an object for each spool: spool_id, previous_weight, new_weight, deducted (grams).
--
-- Otherwise nothing has changed, and problem says why. Details names the rows with the problem, if there are
-- any:
--
--   NOT_FOUND
--   RUN_ALREADY_COMPLETED
--   RUN_HAS_NO_MATERIALS
--   ACTUAL_USAGE_MISSING   the materials without an actual weight: material_id, spool_name
--   INSUFFICIENT_FILAMENT  the spools that are removed or have too little: spool_id, spool_name, remaining, needed
--                          (grams), enough (whether remaining is enough, so that the spool must have been removed)
--
-- Programs of release 0.1.0 call complete_run, which is in a migration and does the same.
create or replace function complete_run_2(target uuid)
returns table (problem text, finished_at timestamptz, details json)
language plpgsql as $$
declare
	run production_runs;
	spool_ids uuid[];
	grams numeric[];
	short boolean;
begin
	select * into run from production_runs r where r.id = target for no key update;
	if not found then
		problem := 'NOT_FOUND';
		return next;
		return;
	end if;
	if run.deducted_at is not null then
		problem := 'RUN_ALREADY_COMPLETED';
		return next;
		return;
	end if;

	select array_agg(m.spool_id order by m.created_at, m.id),
		array_agg(m.actual_weight_grams order by m.created_at, m.id),
		json_agg(json_build_object('material_id', m.id, 'spool_name', spool_name(s.material_type, s.color, s.brand))
			order by m.created_at, m.id) filter (where m.actual_weight_grams is null)
	into spool_ids, grams, details
	from run_materials m join spools s on s.id = m.spool_id
	where m.run_id = target;
	if spool_ids is null then
		problem := 'RUN_HAS_NO_MATERIALS';
		return next;
		return;
	end if;
	if details is not null then
		problem := 'ACTUAL_USAGE_MISSING';
		return next;
		return;
	end if;

	-- Either all the rows are short or none is.
	select bool_or(u.short),
		json_agg(
			case when u.short then json_build_object('spool_id', u.spool_id, 'spool_name', u.name,
				'remaining', trim_scale(u.previous_weight), 'needed', trim_scale(u.deducted),
				'enough', u.previous_weight >= u.deducted)
			else json_build_object('spool_id', u.spool_id, 'previous_weight', trim_scale(u.previous_weight),
				'new_weight', trim_scale(u.new_weight), 'deducted', trim_scale(u.deducted)) end
			order by u.spool_id)
	into short, details
	from use_filament(target, spool_ids, grams) u;
	if short then
		problem := 'INSUFFICIENT_FILAMENT';
		return next;
		return;
	end if;

	update production_runs r set
		status = 'completed',
		deducted_at = now(),
		completed_at = coalesce(r.completed_at, now()),
		actual_total_filament_grams = (select sum(g) from unnest(grams) g),
		actual_print_time_hours = coalesce(r.actual_print_time_hours, case when r.started_at is not null then
			greatest(0, round(extract(epoch from coalesce(r.completed_at, now()) - r.started_at) / 3600, 6)) end)
	where r.id = target
	returning r.completed_at into finished_at;
	return next;
end $$;
