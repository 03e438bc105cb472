-- Returns how many pieces of an item of an order have been produced, and how many its unfinished runs plan. This is
-- the only place with these rules. A completed run, also one that was removed after it had deducted filament, has
-- produced the good pieces of its items; an item without counts has produced all its pieces. A pending, running or
-- paused run plans all pieces of its items, unless it was removed. Failed and cancelled runs do not count.
create or replace function order_item_pieces(item uuid) returns table (produced bigint, planned bigint)
language sql stable as $$
	select coalesce(sum(n.good), 0),
		coalesce(sum(i.quantity) filter (where r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null), 0)
	from run_items i
	cross join lateral (select r.status, r.hidden_at from production_runs r where r.id = i.run_id offset 0) r
	cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
	where i.order_item_id = item
$$;

-- Returns why an item of a run with the product cannot print an item of an order, or null if it can:
--
--   UNKNOWN        the item does not exist, or its order was removed
--   OTHER_PRODUCT  the item has another product
--   CANCELLED      the order is cancelled
create or replace function order_item_problem(item uuid, product uuid) returns text language sql stable as $$
	select case when o.id is null then 'UNKNOWN' when i.product_id <> product then 'OTHER_PRODUCT'
		when o.status = 'cancelled' then 'CANCELLED' end
	from (select) always
	left join lateral (select i.order_id, i.product_id from order_items i where i.id = item offset 0) i on true
	left join lateral (
		select o.id, o.status from orders o where o.id = i.order_id and o.hidden_at is null offset 0
	) o on true
$$;

-- Changes the status of open orders (received, in_production) to what their runs have achieved: in_production when
-- a run that prints one of their items has started, and done when everything is produced. It never changes a status
-- back, and leaves done and cancelled orders as they are.
--
-- The orders are locked first, in the order of their ids. The statement after that sees the runs of the transactions
-- that it waited for: the last of several concurrent runs finds everything produced.
create or replace function settle_orders(ids uuid[]) returns void language plpgsql as $$
begin
	if cardinality(ids) = 0 then
		return;
	end if;
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	update orders o set status = n.status, updated_at = now()
	from (
		select u.id, case when bool_and(p.produced >= i.quantity) then 'done'
			when bool_or(exists (
				select from run_items r
				cross join lateral (select s.status from production_runs s where s.id = r.run_id offset 0) s
				where r.order_item_id = i.id and s.status in ('in_progress', 'paused', 'completed')
			)) then 'in_production' end as status
		from (select distinct u.id from unnest(ids) u (id)) u
		cross join lateral (select i.id, i.quantity from order_items i where i.order_id = u.id offset 0) i
		cross join lateral order_item_pieces(i.id) p
		group by u.id
	) n
	where o.id = n.id and o.is_open and o.status <> n.status;
end $$;

-- Sends the event of the status of an order that was created or got another status, in whatever way: order.received,
-- order.in_production, order.done or order.cancelled. A change back to received has none: the order was received
-- before. An event has less than 19 kB, and so the oldest of the items, as many as fit. item_count counts all of them.
create or replace function order_changed() returns trigger language plpgsql as $$
declare
	event text := 'order.' || new.status;
	hooks uuid[] := event_webhooks(event);
begin
	if hooks is null then
		return null;
	end if;
	perform emit_event(hooks, event, json_build_object('id', new.id, 'source', new.source,
		'reference', new.reference, 'customer', new.customer, 'due_date', new.due_date, 'status', new.status,
		'items', coalesce(json_agg(l.item order by l.n) filter (where l.size < 13000), '[]'), 'item_count', count(*)
			filter (where l.item is not null)))
	from (select) always
	left join lateral (
		select j.n, j.item, sum(octet_length(j.item::text)) over (order by j.n) as size
		from (
			select row_number() over (order by i.created_at, i.id) as n, json_build_object('id', i.id,
				'product_id', i.product_id, 'sku', p.sku, 'quantity', i.quantity) as item
			from order_items i
			cross join lateral (select p.sku from products p where p.id = i.product_id offset 0) p
			where i.order_id = new.id
		) j
	) l on true;
	return null;
end $$;
create or replace trigger order_created after insert on orders for each row execute function order_changed();
create or replace trigger order_changed after update of status on orders
	for each row when (new.status <> old.status and new.status <> 'received')
	execute function order_changed();
