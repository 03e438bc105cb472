-- Sends the event production_run.started when a run is created in progress or its status becomes in_progress,
-- whatever statement does it. It does not send the event when a paused run continues or a run is reopened; reopening
-- has its own event.
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
		and (old.status <> 'paused' or old.started_at is null) and old.deducted_at is null)
	execute function run_started();

-- Dates the use of a run by the run's end, also if the end or the waste of its pieces changes later.
create or replace function run_dated() returns trigger language plpgsql as $$
begin
	if new.ended_at is distinct from old.ended_at then
		perform date_run_usage(new.id, new.ended_at);
	end if;
	-- When a run ends, that change and the following ledger entries have recorded the day already.
	if old.ended_at is not null and new.wasted_parts is distinct from old.wasted_parts then
		perform usage_dated(array[new.ended_at]);
	end if;
	return null;
end $$;
create or replace trigger run_dated after update of completed_at, deducted_at, wasted_parts on production_runs
	for each row when (old.ended_at is distinct from new.ended_at or old.wasted_parts is distinct from new.wasted_parts)
	execute function run_dated();
