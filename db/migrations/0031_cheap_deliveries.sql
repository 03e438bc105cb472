-- As in 0023: PostgreSQL parses the checks of a table again for each statement that changes it, which took a third of the
-- time of an event.
create function valid_delivery(d webhook_deliveries) returns boolean language plpgsql immutable parallel safe as $$
begin
	return d.status in ('pending', 'delivered', 'failed')
		and (d.next_try_at is null or d.status = 'pending')
		and least(d.tries, d.duration_ms) >= 0
		and greatest(length(d.event_id), length(d.type)) <= 100
		and octet_length(d.body) < 20000
		and length(d.response) <= 1024
		and length(d.error) <= 500;
end $$;
alter table webhook_deliveries
	add constraint webhook_deliveries_valid check (valid_delivery(webhook_deliveries)) not valid,
	drop constraint webhook_deliveries_event_id_check,
	drop constraint webhook_deliveries_type_check,
	drop constraint webhook_deliveries_body_check,
	drop constraint webhook_deliveries_status_check,
	drop constraint webhook_deliveries_tries_check,
	drop constraint webhook_deliveries_check,
	drop constraint webhook_deliveries_duration_ms_check,
	drop constraint webhook_deliveries_response_check,
	drop constraint webhook_deliveries_error_check;
alter table webhook_deliveries validate constraint webhook_deliveries_valid;

-- Events insert signals without a function of the owner, whose calls are slow. Row-level security is not forced, so that
-- the functions of the owner still see the signals of all tenants.
alter table queue_signals
	alter tenant_id set default nullif(current_setting('app.tenant_id', true), '')::uuid,
	enable row level security;
create policy tenant on queue_signals
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant insert on queue_signals to spoolwright_app;
