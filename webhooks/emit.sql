-- Events for webhooks. Features call emit_event in the transaction of the event's cause, so that the event exists if
-- and only if its cause does. They call event_webhooks first: before they build the data, where that takes long.

-- Returns the enabled webhooks that want events of the type, or null if there are none. A webhook wants a type that is
-- in its list, by name or as part of a group: order.* has order.done, and * has all types.
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

-- Returns the body of an event that happens now.
create or replace function event_body(event text, data json) returns json language sql stable as $$
	select json_build_object('type', event, 'timestamp', event_time(now()), 'data', data)
$$;

-- Adds an event, and a delivery to each of the webhooks, which event_webhooks has returned. The data must be an object
-- of less than 19 kB.
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
	select uuid_v7(), hook, message, event, body, now() from unnest(hooks) hook;
	perform queue_add(hooks);
end $$;

-- What PostgreSQL checks when rows of deliveries are inserted or changed. As in a list of checks, a condition that is
-- null is met.
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
