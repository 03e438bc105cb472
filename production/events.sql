-- Sends the event production_run.started when a run is created in progress, or its status becomes in_progress, in
-- whatever way, unless a paused run continues.
create or replace function run_started() returns trigger language plpgsql as $$
begin
	perform emit_event(event_webhooks('production_run.started'), 'production_run.started',
		json_build_object('id', new.id, 'printer_id', new.printer_id,
		'printer_name', new.printer_name, 'started_at', event_time(new.started_at)));
	return null;
end $$;
create or replace trigger run_created after insert on production_runs
	for each row when (new.status = 'in_progress') execute function run_started();
create or replace trigger run_started after update of status on production_runs
	for each row when (new.status = 'in_progress' and old.status <> 'in_progress'
		and (old.status <> 'paused' or old.started_at is null))
	execute function run_started();
