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
