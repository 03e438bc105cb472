-- The queue of items with due work, such as webhooks with deliveries. The service may only insert into queue_signals,
-- for the tenant that the transaction is bound to. The functions after queue_add run with their owner's privileges
-- (security definer), and row-level security does not apply to the owner. These functions have a fixed search_path,
-- and only the service's role may call them. queue_claim and queue_state work on items of all tenants; the other
-- functions work on items of the transaction's tenant.

-- Makes the items of a kind due now. The function only inserts rows, so that it never waits for another transaction.
-- For webhooks it raises a notice with the SQLSTATE SW200, after which the service claims items as soon as the
-- transaction is committed. Workers of other kinds poll the queue.
create or replace function queue_add(items uuid[], of_kind text default 'webhook') returns void language plpgsql as $$
begin
	insert into queue_signals (item_id, kind) select unnest(items), of_kind;
	if of_kind = 'webhook' then
		raise notice 'work was added to the queue' using errcode = 'SW200';
	end if;
end $$;

-- Leases up to most due items of the kind, of any tenant except the tenants in exceptions, to holder. Also returns,
-- with fresh = false, the items that holder leased earlier and for which queue_add was called since.
create or replace function queue_claim(of_kind text, holder uuid, most int, lease_seconds int, exceptions uuid[])
returns table (tenant_id uuid, item_id uuid, fresh boolean)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
	with taken as (
		delete from queue_signals s
		where s.ctid = any (array(
			select g.ctid from queue_signals g where g.kind = of_kind limit 10000 for update skip locked))
		returning s.tenant_id, s.item_id
	)
	insert into queue_items as q (tenant_id, item_id, kind, due_at, signalled)
	select distinct t.tenant_id, t.item_id, of_kind, now(), true from taken t order by 1, 2
	on conflict on constraint queue_items_pkey do update set due_at = least(q.due_at, excluded.due_at), signalled = true;

	return query select q.tenant_id, q.item_id, false from queue_items q
	where q.kind = of_kind and q.leased_by = holder and q.signalled and q.leased_until > now();

	return query
		update queue_items q
		set leased_by = holder, leased_until = now() + make_interval(secs => lease_seconds), signalled = false
		from (
			select i.tenant_id, i.item_id from queue_items i
			where i.due_at <= now() and (i.leased_until is null or i.leased_until <= now())
				and i.kind = of_kind and i.tenant_id <> all (exceptions)
			order by i.due_at limit most for update skip locked
		) due
		where q.tenant_id = due.tenant_id and q.item_id = due.item_id and q.kind = of_kind
		returning q.tenant_id, q.item_id, true;
end $$;

-- Extends the lease of an item. Returns false if holder no longer has the lease.
create or replace function queue_renew(item uuid, holder uuid, lease_seconds int) returns boolean
language plpgsql security definer set search_path = public, pg_temp as $$
begin
	update queue_items q set leased_until = now() + make_interval(secs => lease_seconds)
	where q.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and q.item_id = item
		and q.leased_by = holder;
	return found;
end $$;

-- Ends the lease of an item. The item becomes due again after due_seconds, or leaves the queue if due_seconds is null.
-- If queue_add was called for the item since the lease began or since the last call, the lease does not end, and the
-- function returns false. The statements that end the lease check signalled: they wait for a concurrent queue_claim
-- that merges a signal, and then see the merged signal.
create or replace function queue_release(item uuid, holder uuid, due_seconds float8) returns boolean
language plpgsql security definer set search_path = public, pg_temp as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	if due_seconds is null then
		delete from queue_items q
		where q.tenant_id = tenant and q.item_id = item and q.leased_by = holder and not q.signalled;
	else
		update queue_items q
		set leased_by = null, leased_until = null, due_at = now() + make_interval(secs => due_seconds)
		where q.tenant_id = tenant and q.item_id = item and q.leased_by = holder and not q.signalled;
	end if;
	if found then
		return true;
	end if;
	update queue_items q set signalled = false
	where q.tenant_id = tenant and q.item_id = item and q.leased_by = holder and q.signalled;
	return not found;
end $$;

-- Returns the state of the webhooks in the queue, for monitoring: the number of signals that queue_claim has not
-- merged, at most 1,000; of due items without a lease; of due items with a lease; and the seconds since the first item
-- without a lease became due.
create or replace function queue_state(out signals int, out waiting int, out leased int, out oldest_seconds float8)
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
	select count(*) into signals from (select from queue_signals g where g.kind = 'webhook' limit 1000) s;
	select count(*) filter (where w.waits), count(*) filter (where not w.waits),
		coalesce(extract(epoch from now() - min(w.due_at) filter (where w.waits)), 0)
	into waiting, leased, oldest_seconds
	from (
		select q.due_at, q.leased_until is null or q.leased_until <= now() as waits
		from queue_items q where q.kind = 'webhook' and q.due_at <= now()
	) w;
end $$;

revoke all on function queue_claim(text, uuid, int, int, uuid[]), queue_renew, queue_release, queue_state from public;
grant execute on function queue_claim(text, uuid, int, int, uuid[]), queue_renew, queue_release,
	queue_state to spoolwright_app;
