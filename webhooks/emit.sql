-- Events for webhooks. Features call has_webhook and emit_event in the transaction of the event's cause, so that the
-- event exists if and only if its cause does.

-- Reports whether emit_event would send an event of the type. It makes an event without a webhook cheap: the caller
-- then need not build its data.
create or replace function has_webhook(event text) returns boolean language plpgsql stable as $$
begin
	return exists (
		select from webhooks w
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and w.disabled_at is null and event = any (w.events));
end $$;

-- Returns a timestamp as the API shows it: in UTC, with a fraction of a second only if it is not zero.
create or replace function event_time(at timestamptz) returns text language sql stable as $$
	select regexp_replace(to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '\.?0+$', '') || 'Z'
	where at is not null
$$;

-- Returns the body of an event that happens now.
create or replace function event_body(event text, data json) returns text language sql stable as $$
	select format('{"type":"%s","timestamp":"%s","data":%s}', event, event_time(now()), data)
$$;

-- Adds an event, and a delivery to each webhook of the tenant that wants it. The data must be an object of less than
-- 19 kB.
create or replace function emit_event(event text, data json) returns void language plpgsql as $$
declare
	hooks uuid[];
begin
	with added as (
		insert into webhook_deliveries (id, webhook_id, event_id, type, body, next_try_at)
		select uuid_v7(), w.id, e.id, event, e.body, now()
		from (select 'msg_' || uuid_v7() as id, event_body(event, data) as body) e
		cross join webhooks w
		where w.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and w.disabled_at is null and event = any (w.events)
		returning webhook_id
	)
	select array_agg(a.webhook_id) into hooks from added a;
	if hooks is not null then
		perform queue_add(hooks);
	end if;
end $$;
