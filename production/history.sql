-- Returns the state of a run for its history, without its items and materials and with the first 5,000 characters of
-- its notes.
create or replace function run_state(r production_runs) returns json language sql stable as $$
	select json_build_object('status', r.status, 'started_at', event_time(r.started_at),
		'completed_at', event_time(r.completed_at), 'actual_print_time_hours', trim_scale(r.actual_print_time_hours),
		'actual_total_filament_grams', trim_scale(r.actual_total_filament_grams), 'failure_reason', r.failure_reason,
		'failure_notes', left(r.failure_notes, 5000), 'cost', trim_scale(known_sum(array[r.filament_cost, r.waste_cost,
			r.machine_cost, r.energy_cost, r.labour_cost])))
$$;
