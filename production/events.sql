-- Sends the event production_run.started for a run.
create or replace function emit_run_started(run uuid) returns void language plpgsql as $$
begin
	if event_webhooks('production_run.started') is not null then
		perform emit_event('production_run.started', json_build_object('id', r.id, 'printer_name', r.printer_name,
			'started_at', event_time(r.started_at)))
		from production_runs r where r.id = run;
	end if;
end $$;

-- Sends the event when the status of a run becomes in_progress, in whatever way, unless a paused run continues.
create or replace function run_started() returns trigger language plpgsql as $$
begin
	perform emit_run_started(new.id);
	return null;
end $$;
create or replace trigger run_started after update of status on production_runs
	for each row when (new.status = 'in_progress' and old.status <> 'in_progress'
		and (old.status <> 'paused' or old.started_at is null))
	execute function run_started();
