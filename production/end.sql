-- What complete_run and end_run have in common.

-- Deducts the filament of a run, as take_filament does: grams[n] from spool_ids[n]. Details is a JSON array with an
-- object for each spool: spool_id, previous_weight, new_weight, deducted (grams).
--
-- If is_short is true, nothing has changed, and details has an object for each spool that is removed or has too little:
-- spool_id, spool_name, remaining, needed (grams), enough (whether remaining is enough, so that the spool must have been
-- removed).
create or replace function take_run_filament(run uuid, spool_ids uuid[], grams numeric[], kind text)
returns table (is_short boolean, details json) language plpgsql as $$
begin
	return query
		select bool_or(u.short), -- either all the rows are short or none is
			json_agg(
				case when u.short then json_build_object('spool_id', u.spool_id, 'spool_name', u.name,
					'remaining', trim_scale(u.previous_weight), 'needed', trim_scale(u.deducted),
					'enough', u.previous_weight >= u.deducted)
				else json_build_object('spool_id', u.spool_id, 'previous_weight', trim_scale(u.previous_weight),
					'new_weight', trim_scale(u.new_weight), 'deducted', trim_scale(u.deducted)) end
				order by u.spool_id)
		from take_filament(run, spool_ids, grams, kind) u;
end $$;

-- Sets the status of a run whose filament has been deducted to completed, failed or cancelled, and sends the event. Null
-- reason and notes keep the values that the run has. Returns the run's completed_at.
create or replace function finish_run(target uuid, outcome text, reason text, notes text, grams numeric[])
returns timestamptz language plpgsql as $$
declare
	run production_runs;
	event text := 'production_run.' || outcome;
	hooks uuid[];
	data json;
begin
	update production_runs r set
		status = outcome,
		failure_reason = coalesce(finish_run.reason, r.failure_reason),
		failure_notes = coalesce(finish_run.notes, r.failure_notes),
		deducted_at = now(),
		completed_at = coalesce(r.completed_at, now()),
		-- Values that a client could not send back are null.
		actual_total_filament_grams = (select case when sum(g) <= 1000000 then sum(g) end
			from unnest(coalesce(grams, '{0}')) g),
		actual_print_time_hours = coalesce(r.actual_print_time_hours,
			(select case when h <= 100000 then h end from (
				select greatest(0, round(extract(epoch from coalesce(r.completed_at, now()) - r.started_at) / 3600, 6)) as h
				where r.started_at is not null) t))
	where r.id = target
	returning * into run;
	hooks := case when outcome <> 'cancelled' then event_webhooks(event) end;
	if hooks is not null then
		data := json_build_object(
			'id', run.id, 'started_at', event_time(run.started_at), 'completed_at', event_time(run.completed_at),
			'printer_name', run.printer_name,
			'actual_print_time_hours', trim_scale(run.actual_print_time_hours),
			'actual_total_filament_grams', trim_scale(run.actual_total_filament_grams));
		if outcome = 'failed' then
			data := data::jsonb || jsonb_build_object('failure_reason', run.failure_reason);
		end if;
		perform emit_event_to(hooks, event, data);
	end if;
	return run.completed_at;
end $$;
