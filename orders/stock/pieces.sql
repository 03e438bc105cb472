-- Returns the pieces of products: in stock (on_hand), of these the pieces that open orders and unfinished runs take
-- (reserved) and the others (available), in unfinished runs (incoming), and the pieces that open orders need and that
-- are neither in stock nor in a run (missing). See net_pieces. If ids is null, there is a row for each product with
-- pieces.
create or replace function product_stock(ids uuid[])
returns table (product_id uuid, on_hand bigint, reserved bigint, available bigint, incoming bigint, missing bigint)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	return query
		with needed as materialized (
			select n.product_id, sum(n.reserved) as reserved, sum(n.missing) as missing
			from net_pieces(ids) n group by n.product_id
		), coming as materialized (
			select i.product_id, sum(i.quantity) as pieces
			from production_runs r
			cross join lateral (
				select * from run_items i
				where i.tenant_id = tenant and i.run_id = r.id and (ids is null or i.product_id = any (ids)) offset 0
			) i
			where r.tenant_id = tenant and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
			group by i.product_id
		), product as materialized (
			select distinct u.id from unnest(ids) u (id) where ids is not null
			union
			select s.product_id from product_pieces s where s.tenant_id = tenant and ids is null
			union
			select n.product_id from needed n
			union
			select c.product_id from coming c
		)
		select u.id, coalesce(s.on_hand, 0)::bigint, coalesce(n.reserved, 0)::bigint,
			(coalesce(s.on_hand, 0) - coalesce(n.reserved, 0))::bigint, coalesce(c.pieces, 0)::bigint,
			coalesce(n.missing, 0)::bigint
		from product u
		left join lateral (
			select s.on_hand from product_pieces s where s.tenant_id = tenant and s.product_id = u.id offset 0
		) s on true
		left join needed n on n.product_id = u.id
		left join coming c on c.product_id = u.id;
end $$;

-- Updates ready_at of open orders and low_since of products, and sends the events order.ready and product.low_stock.
--
-- An order is ready if all its undelivered pieces are in stock for it and all its lines have a product. If the farm
-- assembles on delivery, the components of products that are only assembled, at all levels, may be in stock instead;
-- the plates of a product always may. is_made_on_delivery has the same rule. A product becomes low when its available
-- pieces are fewer than minimum_pieces, and is low until they reach 110 % of that, it is removed, or it has no
-- minimum.
create or replace function check_pieces() returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	assembles boolean;
	ready uuid[];
	found record;
begin
	select t.assemble_on_delivery into assembles from tenants t where t.tenant_id = tenant;
	ready := array(
		select n.order_id from net_pieces() n where n.order_id is not null group by n.order_id
		having bool_and(n.incoming = 0 and (n.missing = 0
			or not n.printed and (assembles or is_plated(n.product_id)))));
	perform note_ready_orders(ready);

	for found in
		with product as materialized (
			select p.id, p.name, p.sku, p.minimum_pieces, l.low_since
			from products p
			left join product_pieces l on l.tenant_id = tenant and l.product_id = p.id
			where p.tenant_id = tenant and p.hidden_at is null and p.minimum_pieces is not null
		), level as (
			select p.*, s.on_hand, s.reserved, s.available, s.incoming,
				s.available < case when p.low_since is null then p.minimum_pieces
					else ceil(p.minimum_pieces * 1.1) end as low
			from product p
			join product_stock(array(select p.id from product p)) s on s.product_id = p.id
		)
		select l.*, now() as since
		from note_low_pieces(
			array(select l.id from level l where l.low and l.low_since is null),
			array(
				select s.product_id from product_pieces s
				where s.tenant_id = tenant and s.low_since is not null
					and not exists (select from level l where l.id = s.product_id and l.low))) c (id)
		left join level l on l.id = c.id -- an inner join does not call the function if there is no level
	loop
		perform emit_event(event_webhooks('product.low_stock'), 'product.low_stock', json_build_object(
			'id', found.id, 'name', found.name, 'sku', found.sku, 'minimum_pieces', found.minimum_pieces,
			'on_hand', found.on_hand, 'reserved', found.reserved, 'available', found.available,
			'incoming', found.incoming, 'low_since', event_time(found.since)));
	end loop;
end $$;
