-- Sends the event of the status that an order has: order.received, order.in_production, order.done or order.cancelled.
-- An event has less than 19 kB, and so the oldest of the items, as many as fit. item_count counts all of them.
create or replace function emit_order(order_id uuid) returns void language plpgsql as $$
declare
	o orders;
	hooks uuid[];
begin
	select * into o from orders x where x.id = order_id;
	hooks := event_webhooks('order.' || o.status);
	if hooks is null then
		return;
	end if;
	perform emit_event('order.' || o.status, json_build_object('id', o.id, 'source', o.source,
		'reference', o.reference, 'customer', o.customer, 'due_date', o.due_date, 'status', o.status,
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
			where i.order_id = o.id
		) j
	) l on true;
end $$;

-- Sends the event of the new status when the status of an order changes, in whatever way. A change back to received
-- has none: the order was received before.
create or replace function order_changed() returns trigger language plpgsql as $$
begin
	perform emit_order(new.id);
	return null;
end $$;
create or replace trigger order_changed after update of status on orders
	for each row when (new.status <> old.status and new.status <> 'received')
	execute function order_changed();
