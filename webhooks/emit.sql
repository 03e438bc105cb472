-- Events for webhooks. Features call emit_event in the transaction of the event's cause, so that the event exists if and
-- only if its cause does. Frequent operations call event_webhooks first, and build the data of the event only for
-- emit_event_to.

-- Returns the enabled webhooks that want events of the type, or null if there are none.
create or replace function event_webhooks(event text) returns uuid[] language plpgsql stable as $$
begin
	return (
		select array_agg(w.id) from webhooks w
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and w.disabled_at is null and event = any (w.events));
end $$;

-- Reports whether emit_event would send an event of the type.
create or replace function has_webhook(event text) returns boolean language sql stable as $$
	select event_webhooks(event) is not null
$$;

-- Returns a timestamp as the API shows it: in UTC, with a fraction of a second only if it is not zero.
create or replace function event_time(at timestamptz) returns text language sql stable as $$
	select btrim(to_json(at at time zone 'UTC')::text, '"') || 'Z'
$$;

-- Returns the body of an event that happens now.
create or replace function event_body(event text, data json) returns text language sql stable as $$
	select format('{"type":"%s","timestamp":"%s","data":%s}', event, event_time(now()), data)
$$;

-- Adds an event, and a delivery to each of the webhooks, which are those of event_webhooks. The data must be an object of
-- less than 19 kB.
create or replace function emit_event_to(hooks uuid[], event text, data json) returns void language plpgsql as $$
declare
	message text := 'msg_' || uuid_v7();
	text_of_body text := event_body(event, data);
begin
	insert into webhook_deliveries (id, webhook_id, event_id, type, body, next_try_at)
	select uuid_v7(), hook, message, event, text_of_body, now() from unnest(hooks) hook;
	perform queue_add(hooks);
end $$;

-- Adds an event, and a delivery to each webhook of the tenant that wants it.
create or replace function emit_event(event text, data json) returns void language plpgsql as $$
declare
	hooks uuid[] := event_webhooks(event);
begin
	if hooks is not null then
		perform emit_event_to(hooks, event, data);
	end if;
end $$;
