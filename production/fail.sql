-- Ends a production run that failed or was cancelled: deducts the filament that it wasted, all or nothing, and only
-- once. Locks the run first and then the spools, as complete_run does. Returns one row.
--
-- outcome is the new status, failed or cancelled. reason and notes are stored with the run; null keeps the value that
-- it has. The list sets values of the run's materials before it ends. It is a JSON array of objects with different ids:
-- {"id", "wasted_grams"}. As for complete_run, both weights of the spool, if they are recorded, take precedence. A
-- material without any of these values wasted nothing.
--
-- If the run has ended, problem is null, finished_at is its completed_at, and details is a JSON array with an object
-- for each spool from which filament was deducted: spool_id, previous_weight, new_weight, deducted (grams).
--
-- Otherwise nothing has changed, and problem says why. Details names the rows with the problem, if there are any:
--
--   NOT_FOUND
--   RUN_ALREADY_COMPLETED
--   RUN_NOT_OPEN           the run has ended, or its status is completed, failed or cancelled, but not outcome
--   UNKNOWN_REFERENCE      the entries with an id that is not in the run: list (its name), n (from 0)
--   INSUFFICIENT_FILAMENT  the spools that are removed or have too little, as in complete_run
create or replace function end_run(target uuid, outcome text, reason text, notes text, material_list jsonb)
returns table (problem text, finished_at timestamptz, details json)
language plpgsql as $$
declare
	run production_runs;
	spool_ids uuid[];
	grams numeric[];
	short boolean;
begin
	select * into run from production_runs r where r.id = target and r.hidden_at is null for no key update;
	if not found then
		problem := 'NOT_FOUND';
		return next;
		return;
	end if;
	if run.deducted_at is not null and run.status = 'completed' then
		problem := 'RUN_ALREADY_COMPLETED';
		return next;
		return;
	end if;
	if run.deducted_at is not null
		or run.status in ('completed', 'failed', 'cancelled') and run.status <> outcome
	then
		problem := 'RUN_NOT_OPEN';
		return next;
		return;
	end if;

	if jsonb_array_length(material_list) > 0 then
		select json_agg(json_build_object('list', 'materials', 'n', e.n - 1) order by e.n) into details
		from jsonb_array_elements(material_list) with ordinality e (entry, n)
		where not exists (select from run_materials m where m.run_id = target and m.id = (e.entry ->> 'id')::uuid);
		if details is not null then
			problem := 'UNKNOWN_REFERENCE';
			return next;
			return;
		end if;
	end if;

	select array_agg(a.spool_id order by a.created_at, a.id), array_agg(a.grams order by a.created_at, a.id)
	into spool_ids, grams
	from (
		select m.id, m.created_at, m.spool_id,
			coalesce(m.spool_weight_before_grams - m.spool_weight_after_grams, e.wasted_grams,
				m.actual_weight_grams) as grams
		from run_materials m
		left join jsonb_to_recordset(material_list) e (id uuid, wasted_grams numeric) on e.id = m.id
		where m.run_id = target
	) a
	where a.grams > 0;

	details := '[]';
	if spool_ids is not null then
		select t.is_short, t.details into short, details from take_run_filament(target, spool_ids, grams, 'wasted') t;
		if short then
			problem := 'INSUFFICIENT_FILAMENT';
			return next;
			return;
		end if;
	end if;

	update run_materials m set sent_actual_grams = e.wasted_grams
	from jsonb_to_recordset(material_list) e (id uuid, wasted_grams numeric)
	where m.run_id = target and m.id = e.id;
	finished_at := finish_run(target, outcome, reason, notes, grams);
	return next;
end $$;
