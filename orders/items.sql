-- Returns how many pieces of an item of an order have been produced, and how many its unfinished runs plan. This is the
-- only place with these rules. A completed run, also one that was removed after it had deducted filament, has produced
-- the good pieces of its items; an item without counts has produced all its pieces. A pending, running or paused run
-- plans all pieces of its items. Failed and cancelled runs do not count.
create or replace function order_item_pieces(item uuid) returns table (produced bigint, planned bigint)
language sql stable as $$
	select coalesce(sum(coalesce(i.successful_quantity, i.quantity - coalesce(i.failed_quantity, 0)))
			filter (where r.status = 'completed'), 0),
		coalesce(sum(i.quantity) filter (where r.status in ('pending', 'in_progress', 'paused')), 0)
	from run_items i
	cross join lateral (select r.status from production_runs r where r.id = i.run_id offset 0) r
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
