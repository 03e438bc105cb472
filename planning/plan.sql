-- Returns what a plan has to produce: the items of an order, of all open orders, or of a list. quantity is what is
-- neither produced nor planned by unfinished runs, in the order in which it is planned: by the due dates of the orders,
-- those without one last, and then by their creation.
create or replace function plan_items(only_order uuid, all_orders boolean, list json)
returns table (order_id uuid, order_item_id uuid, product_id uuid, quantity bigint, due date, place bigint)
language sql stable as $$
	select n.order_id, n.order_item_id, n.product_id, n.quantity, n.due,
		row_number() over (order by n.due, n.created_at, n.order_id, n.n, n.order_item_id)
	from (
		select o.id as order_id, i.id as order_item_id, i.product_id, i.quantity - p.produced - p.planned as quantity,
			o.due_date as due, o.created_at, extract(epoch from i.created_at) as n
		from orders o
		cross join lateral (select * from order_items i where i.tenant_id = o.tenant_id and i.order_id = o.id offset 0) i
		cross join lateral order_item_pieces(i.id) p
		where o.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and o.is_open
			and (all_orders or o.id = only_order)
		union all
		select null, null, l.product_id, l.quantity, null, null, l.n
		from json_to_recordset(list) l (n int, product_id uuid, quantity bigint)
	) n
	where n.quantity > 0
$$;
