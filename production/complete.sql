-- Completes a production run: deducts the actual weight of each of its materials from the material's spool, all
-- or nothing, and only once. Locks the run first and then the spools. Returns one row.
--
-- The lists set values of the run's materials and items before it is completed. They are JSON arrays of objects
-- with different ids: {"id", "actual_weight_grams"}, and {"id", "successful_quantity", "failed_quantity",
-- "failure_reason"}, where a missing quantity or reason stays as it is.
--
-- If the run is completed, problem is null, finished_at is the run's completed_at, and details is a JSON array
-- with an object for each spool: spool_id, previous_weight, new_weight, deducted (grams).
--
-- Otherwise nothing has changed, and problem says why. Details names the rows with the problem, if there are
-- any:
--
--   NOT_FOUND
--   RUN_ALREADY_COMPLETED
--   RUN_NOT_OPEN           the status is failed or cancelled
--   RUN_HAS_NO_MATERIALS
--   UNKNOWN_REFERENCE      the entries with an id that is not in the run: list (its name), n (from 0)
--   TOO_MANY_PIECES        the entries with more pieces than the item's quantity: list, n
--   ACTUAL_USAGE_MISSING   the materials without an actual weight: material_id, spool_name
--   INSUFFICIENT_FILAMENT  the spools that are removed or have too little: spool_id, spool_name, remaining, needed
--                          (grams), enough (whether remaining is enough, so that the spool must have been removed)
create or replace function complete_run(target uuid, material_list jsonb, item_list jsonb)
returns table (problem text, finished_at timestamptz, details json)
language plpgsql as $$
declare
	run production_runs;
	spool_ids uuid[];
	grams numeric[];
	short boolean;
	has_lists boolean := jsonb_array_length(material_list) + jsonb_array_length(item_list) > 0;
begin
	select * into run from production_runs r where r.id = target and r.hidden_at is null for no key update;
	if not found then
		problem := 'NOT_FOUND';
		return next;
		return;
	end if;
	if run.status in ('failed', 'cancelled') then
		problem := 'RUN_NOT_OPEN';
		return next;
		return;
	end if;
	if run.deducted_at is not null then
		problem := 'RUN_ALREADY_COMPLETED';
		return next;
		return;
	end if;

	if has_lists then
		select json_agg(json_build_object('list', e.list, 'n', e.n) order by e.list desc, e.n) into details
		from (
			select 'materials' as list, e.n - 1 as n
			from jsonb_array_elements(material_list) with ordinality e (entry, n)
			where not exists (select from run_materials m where m.run_id = target and m.id = (e.entry ->> 'id')::uuid)
			union all
			select 'items', e.n - 1 from jsonb_array_elements(item_list) with ordinality e (entry, n)
			where not exists (select from run_items i where i.run_id = target and i.id = (e.entry ->> 'id')::uuid)
		) e;
		if details is not null then
			problem := 'UNKNOWN_REFERENCE';
			return next;
			return;
		end if;
		select json_agg(json_build_object('list', 'items', 'n', e.n - 1) order by e.n) into details
		from jsonb_array_elements(item_list) with ordinality e (entry, n)
		join run_items i on i.run_id = target and i.id = (e.entry ->> 'id')::uuid
		where coalesce(case when e.entry ? 'successful_quantity' then (e.entry ->> 'successful_quantity')::bigint
				else i.successful_quantity end, 0)
			+ coalesce(case when e.entry ? 'failed_quantity' then (e.entry ->> 'failed_quantity')::bigint
				else i.failed_quantity end, 0) > i.quantity;
		if details is not null then
			problem := 'TOO_MANY_PIECES';
			return next;
			return;
		end if;
	end if;

	-- The rule for the actual weight is that of the generated column run_materials.actual_weight_grams.
	select array_agg(a.spool_id order by a.created_at, a.id), array_agg(a.grams order by a.created_at, a.id),
		json_agg(json_build_object('material_id', a.id, 'spool_name', a.spool_name) order by a.created_at, a.id)
			filter (where a.grams is null)
	into spool_ids, grams, details
	from (
		select m.id, m.created_at, m.spool_id, spool_name(s.material_type, s.color, s.brand) as spool_name,
			coalesce(m.spool_weight_before_grams - m.spool_weight_after_grams, e.actual_weight_grams,
				m.actual_weight_grams) as grams
		from run_materials m
		join spools s on s.id = m.spool_id
		left join jsonb_to_recordset(material_list) e (id uuid, actual_weight_grams numeric) on e.id = m.id
		where m.run_id = target
	) a;
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

	select t.is_short, t.details into short, details from take_run_filament(target, spool_ids, grams, 'run') t;
	if short then
		problem := 'INSUFFICIENT_FILAMENT';
		return next;
		return;
	end if;

	if has_lists then
		update run_materials m set sent_actual_grams = e.actual_weight_grams
		from jsonb_to_recordset(material_list) e (id uuid, actual_weight_grams numeric)
		where m.run_id = target and m.id = e.id;
		update run_items i set
			successful_quantity = case when e.entry ? 'successful_quantity'
				then (e.entry ->> 'successful_quantity')::int else i.successful_quantity end,
			failed_quantity = case when e.entry ? 'failed_quantity'
				then (e.entry ->> 'failed_quantity')::int else i.failed_quantity end,
			failure_reason = case when e.entry ? 'failure_reason'
				then e.entry ->> 'failure_reason' else i.failure_reason end
		from jsonb_array_elements(item_list) e (entry)
		where i.run_id = target and i.id = (e.entry ->> 'id')::uuid;
	end if;
	finished_at := finish_run(target, 'completed', null, null, grams);
	return next;
end $$;
