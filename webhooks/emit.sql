-- Events for webhooks. Features call emit_event in the transaction that causes the event, so that the event exists if
-- and only if the cause is committed. If building the data takes long, they call event_webhooks first, and build the
-- data only if a webhook is subscribed to the event.

-- Returns the enabled webhooks that are subscribed to events of the type, or null if there are none. A webhook is
-- subscribed to a type that its list contains by name or in a group: order.* includes order.done, and * includes all
-- types.
create or replace function event_webhooks(event text) returns uuid[] language plpgsql stable as $$
declare
	names text[] := array[event, split_part(event, '.', 1) || '.*', '*'];
begin
	return (
		select array_agg(w.id) from webhooks w
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and w.disabled_at is null and w.events && names);
end $$;

-- Returns a timestamp as the API shows it: in UTC, with a fraction of a second only if it is not zero.
create or replace function event_time(at timestamptz) returns text language sql stable as $$
	select btrim(to_json(at at time zone 'UTC')::text, '"') || 'Z'
$$;

-- Returns the body of an event whose time is now.
create or replace function event_body(event text, data json) returns json language sql stable as $$
	select json_build_object('type', event, 'timestamp', event_time(now()), 'data', data)
$$;

-- Returns the time at which the daily e-mail for an event that happens now is due: a minute after the end of the day
-- in the tenant's time zone. The transactions that began on that day have ended then, so that one e-mail has all of
-- its events.
create or replace function daily_email_time() returns timestamptz language sql stable as $$
	select (date_trunc('day', now() at time zone t.time_zone) + interval '1 day') at time zone t.time_zone
		+ interval '1 minute'
	from tenants t where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

-- Adds an event, and a delivery to each webhook in hooks, which is the result of event_webhooks. The data must be an
-- object of less than 19 kB.
create or replace function emit_event(hooks uuid[], event text, data json) returns void language plpgsql as $$
declare
	message text;
	body json;
begin
	if hooks is null then
		return;
	end if;
	message := 'msg_' || gen_random_uuid();
	body := event_body(event, data);
	insert into webhook_deliveries (id, webhook_id, event_id, type, body, next_try_at)
	select uuid_v7(), w.id, message, event, body, case when w.daily then daily_email_time() else now() end
	from webhooks w
	where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and w.id = any (hooks);
	perform queue_add(hooks);
end $$;

-- Contains the checks of rows of webhook_deliveries. As in check constraints, a null condition passes.
create or replace function valid_delivery(d webhook_deliveries) returns boolean
language plpgsql immutable parallel safe as $$
begin
	return d.status in ('pending', 'delivered', 'failed')
		and (d.next_try_at is null or d.status = 'pending')
		and least(d.tries, d.duration_ms) >= 0
		and greatest(length(d.event_id), length(d.type)) <= 100
		and octet_length(d.body) < 20000
		and length(d.response) <= 1024
		and length(d.error) <= 500;
end $$;

do $$
begin
	if not exists (select from pg_constraint where conname = 'webhook_deliveries_valid') then
		alter table webhook_deliveries
			add constraint webhook_deliveries_valid check (valid_delivery(webhook_deliveries));
	end if;
end $$;
