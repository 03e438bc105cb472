-- What PostgreSQL checks when rows of deliveries are inserted or changed. As in a list of checks, a condition that is null
-- is met.
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
		alter table webhook_deliveries add constraint webhook_deliveries_valid check (valid_delivery(webhook_deliveries));
	end if;
end $$;
