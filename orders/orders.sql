-- Returns how many pieces of an item of an order have been produced, and how many its unfinished runs plan. This is
-- the only place with these rules. A completed run, also one that was removed after it had deducted filament, has
-- produced the good pieces of its items; an item without counts has produced all its pieces. A pending, running or
-- paused run plans all pieces of its items, unless it was removed. Failed and cancelled runs do not count.
create or replace function order_item_pieces(item uuid) returns table (produced bigint, planned bigint)
language sql stable as $$
	select coalesce(sum(n.good), 0),
		coalesce(sum(i.quantity) filter (where r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null), 0)
	from run_items i
	join production_runs r on r.id = i.run_id
	cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
	where i.order_item_id = item
$$;

-- Returns the state of an order's item for the run that prints it, as an object: the id, reference, customer and
-- status of the order, whether the order was removed, whether the item was withdrawn, the quantity of the item, and
-- the columns of order_item_pieces.
create or replace function order_item_state(item uuid) returns json language sql stable as $$
	select json_build_object('order_id', o.id, 'reference', o.reference, 'customer', o.customer, 'status', o.status,
		'removed', o.hidden_at is not null, 'withdrawn', i.withdrawn_at is not null, 'quantity', i.quantity,
		'produced', p.produced, 'planned', p.planned)
	from (select * from order_items i where i.id = item) i
	join orders o on o.id = i.order_id
	cross join lateral order_item_pieces(i.id) p
$$;

-- Returns why an item of a run with the product cannot print an item of an order, or null if it can:
--
--   UNKNOWN        the item does not exist, or was withdrawn, or its order was removed
--   OTHER_PRODUCT  the item has another product
--   CANCELLED      the order is cancelled
create or replace function order_item_problem(item uuid, product uuid) returns text language sql stable as $$
	select case when o.id is null then 'UNKNOWN' when i.product_id <> product then 'OTHER_PRODUCT'
		when o.status = 'cancelled' then 'CANCELLED' end
	from (select) always
	left join order_items i on i.id = item and i.withdrawn_at is null
	left join orders o on o.id = i.order_id and o.hidden_at is null
$$;

-- Returns the orders whose items a run prints, at most 100, each as an object with its id.
create or replace function printed_orders(run uuid) returns json language sql stable as $$
	select coalesce(json_agg(json_build_object('id', o.order_id)), '[]')
	from (
		select distinct o.order_id from run_items i join order_items o on o.id = i.order_item_id
		where i.run_id = run order by o.order_id limit 100
	) o
$$;

-- Returns the orders whose items a run prints and that are done because everything is produced.
create or replace function produced_orders(run uuid) returns setof uuid language sql stable as $$
	select o.id
	from (
		select distinct x.order_id as id from run_items i join order_items x on x.id = i.order_item_id where i.run_id = run
	) u
	join orders o on o.id = u.id
	where o.status = 'done' and not exists (
		select from order_items i cross join order_item_pieces(i.id) p
		where i.order_id = o.id and i.withdrawn_at is null and p.produced < i.quantity)
$$;

-- Reopens done orders that no longer have all pieces because the end of a run was corrected or removed. An order
-- that was marked done by hand stays done.
create or replace function reopen_orders(ids uuid[]) returns void language sql as $$
	update orders o set status = 'in_production', updated_at = now()
	where o.id = any (ids) and o.status = 'done' and exists (
		select from order_items i cross join order_item_pieces(i.id) p
		where i.order_id = o.id and i.withdrawn_at is null and i.delivered is null and p.produced < i.quantity)
$$;

-- Forgets the delivered pieces of an order that is no longer done.
create or replace function order_reopened() returns trigger language plpgsql as $$
begin
	update order_items i set delivered = null, delivered_at = null
	where i.order_id = new.id and i.delivered is not null;
	return null;
end $$;
create or replace trigger order_reopened after update of status on orders
	for each row when (old.status = 'done' and new.status <> 'done') execute function order_reopened();

-- Updates the status of open orders (received, in_production) to the progress of their runs: in_production when a
-- run that prints an item has started, and done when everything is produced and no line waits for its product. It never
-- changes a status back; reopen_orders does. It does not change done and cancelled orders, nor orders without items.
--
-- The orders are locked first, in the order of their ids. The next statement sees the runs of the transactions for
-- which the lock waited, so that the last of several concurrent runs finds everything produced.
create or replace function settle_orders(ids uuid[]) returns void language plpgsql as $$
begin
	if cardinality(ids) = 0 then
		return;
	end if;
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	update orders o set status = n.status, updated_at = now()
	from (
		select u.id, case when bool_and(p.produced >= i.quantity) and not exists (
				select from orders w where w.id = u.id and w.unassigned_count > 0) then 'done'
			when bool_or(exists (
				select from run_items r
				join production_runs s on s.id = r.run_id
				where r.order_item_id = i.id and s.status in ('in_progress', 'paused', 'completed')
			)) then 'in_production' end as status
		from (select distinct u.id from unnest(ids) u (id)) u
		join order_items i on i.order_id = u.id and i.withdrawn_at is null
		cross join lateral order_item_pieces(i.id) p
		group by u.id
	) n
	where o.id = n.id and o.is_open and o.status <> n.status;
end $$;

-- Sends the event of the status of an order that was created or got another status, in whatever way: order.received,
-- order.in_production, order.done or order.cancelled. A change back to received sends no event, because the order was
-- received before. An event has less than 19 kB, so it has only the oldest items, as many as fit. item_count counts
-- all items.
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
			join products p on p.id = i.product_id
			where i.order_id = new.id and i.withdrawn_at is null
		) j
	) l on true;
	return null;
end $$;
create or replace trigger order_created after insert on orders for each row execute function order_changed();
create or replace trigger order_changed after update of status on orders
	for each row when (new.status <> old.status and new.status <> 'received')
	execute function order_changed();
