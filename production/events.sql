-- Returns the first three items of a run in the form that events use.
create or replace function event_items(run uuid) returns json language sql stable as $$
	select coalesce(json_agg(json_build_object('product_id', i.product_id, 'product_name', p.name, 'quantity', i.quantity)
		order by i.created_at, i.id), '[]')
	from (select * from run_items x where x.run_id = run order by x.created_at, x.id limit 3) i
	join products p on p.id = i.product_id
$$;

-- Returns the number of items of a run.
create or replace function event_item_count(run uuid) returns bigint language sql stable as $$
	select count(*) from run_items i where i.run_id = run
$$;

-- Sends the event production_run.started when a run is created in progress or its status becomes in_progress,
-- whatever statement does it. It does not send the event when a paused run continues or a run is reopened; reopening
-- has its own event.
create or replace function run_started() returns trigger language plpgsql as $$
declare
	hooks uuid[] := event_webhooks('production_run.started');
begin
	if hooks is not null then
		perform emit_event(hooks, 'production_run.started', json_build_object('id', new.id,
			'printer_id', new.printer_id, 'printer_name', new.printer_name, 'started_at', event_time(new.started_at),
			'items', event_items(new.id), 'item_count', event_item_count(new.id)));
	end if;
	return null;
end $$;
-- The trigger of a new run waits for the end of the transaction, when the run has its items.
do $$
begin
	if not exists (
		select from pg_trigger where tgrelid = 'production_runs'::regclass and tgname = 'run_created_started'
	) then
		create constraint trigger run_created_started after insert on production_runs deferrable initially deferred
			for each row when (new.status = 'in_progress') execute function run_started();
	end if;
end $$;
create or replace trigger run_started after update of status on production_runs
	for each row when (new.status = 'in_progress' and old.status <> 'in_progress'
		and (old.status <> 'paused' or old.started_at is null) and old.deducted_at is null)
	execute function run_started();

-- Dates the ledger entries of a run by the run's end, and again when the end, the waste of its pieces or a price
-- changes.
create or replace function run_dated() returns trigger language plpgsql as $$
begin
	if new.ended_at is distinct from old.ended_at then
		perform date_run_usage(new.id, new.ended_at);
	end if;
	-- When a run ends, that change and the following ledger entries have recorded the day already.
	if old.ended_at is not null and new.ended_at is not null then
		perform usage_dated(array[new.ended_at]);
	end if;
	return null;
end $$;
create or replace trigger run_dated after update of completed_at, deducted_at, wasted_parts on production_runs
	for each row when (old.ended_at is not null or new.ended_at is not null)
	execute function run_dated();

-- When a spool is refilled, gives materials of runs that have not started, and have the price of the old contents, the
-- price of the new contents.
create or replace function spool_refilled() returns trigger language plpgsql as $$
begin
	with changed as (
		update run_materials m set cost_per_gram = s.cost_per_gram
		from spools s, production_runs r
		where s.tenant_id = new.tenant_id and s.id = new.spool_id and m.tenant_id = new.tenant_id
			and m.spool_id = new.spool_id and m.cost_per_gram is not distinct from new.cost_per_gram
			and m.cost_per_gram is distinct from s.cost_per_gram and r.tenant_id = m.tenant_id and r.id = m.run_id
			and r.status = 'pending' and r.deducted_at is null
		returning m.run_id
	)
	update production_runs r set updated_at = now() from changed c
	where r.tenant_id = new.tenant_id and r.id = c.run_id;
	return null;
end $$;
-- The trigger waits for the end of the transaction, when the spool has its new price.
do $$
begin
	if not exists (
		select from pg_trigger where tgrelid = 'spool_contents'::regclass and tgname = 'spool_refilled'
	) then
		create constraint trigger spool_refilled after insert on spool_contents deferrable initially deferred
			for each row execute function spool_refilled();
	end if;
end $$;
