-- Returns what a line sells, or no row if it has no product yet: a product, and how many pieces of it one unit of the
-- line has, or null for a line that the farm does not print. No other code has this rule. The SKU of a product comes
-- first, then what a person has assigned to the SKU or, for a line without SKU, to the title. Case does not matter; of
-- two products whose SKUs differ only in case, the one with the same case comes first.
create or replace function order_line_match(title text, sku text) returns table (product_id uuid, pieces int)
language sql stable rows 1 as $$
	select m.product_id, m.pieces
	from (
		(select 1 as n, p.id as product_id, 1 as pieces
			from products p
			where p.sku_key = lower(order_line_match.sku collate "und-x-icu") collate "C" and p.sku <> '' and p.hidden_at is null
			order by p.sku = order_line_match.sku desc, p.created_at, p.id limit 1)
		union all
		(select 2, a.product_id, a.pieces
			from order_assignments a
			where a.match_key = case when order_line_match.sku <> ''
					then 'sku ' || (lower(order_line_match.sku collate "und-x-icu") collate "C")
					else 'title ' || (lower(order_line_match.title collate "und-x-icu") collate "C") end
				and (a.product_id is null
					or exists (select from products p where p.id = a.product_id and p.hidden_at is null)))
	) m order by m.n limit 1
$$;

-- Makes items of the lines of orders whose product is known now, and counts the others. An order that is done is open
-- again then. The orders are locked in the sequence of their ids, as settle_orders does.
create or replace function match_order_lines(ids uuid[]) returns void language plpgsql as $$
begin
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	with found as materialized (
		select l.id, l.order_id, l.quantity, l.unit_price, l.created_at, m.product_id, m.pieces, uuid_v7() as item
		from order_lines l
		cross join lateral order_line_match(l.title, l.sku) m
		where l.order_id = any (ids) and l.item_id is null and not l.ignored and l.quantity > 0
			and coalesce(l.quantity::bigint * m.pieces, 0) <= 1000000
	), items as (
		insert into order_items (id, order_id, product_id, quantity, unit_price)
		select f.item, f.order_id, f.product_id, f.quantity * f.pieces,
			coalesce(round(f.unit_price / f.pieces, 6), (select p.selling_price from products p where p.id = f.product_id))
		from found f where f.product_id is not null order by f.created_at, f.id
	), lines as (
		update order_lines l set item_id = case when f.product_id is not null then f.item end, pieces = f.pieces,
			ignored = f.product_id is null
		from found f where l.id = f.id
	)
	update orders o set updated_at = now(),
		status = case when o.status = 'done' and f.more then 'in_production' else o.status end
	from (select f.order_id, bool_or(f.product_id is not null) as more from found f group by f.order_id) f
	where o.id = f.order_id;

	update orders o set unassigned_count = n.lines
	from (
		select u.id, (select count(*) from order_lines l
			where l.order_id = u.id and l.item_id is null and not l.ignored and l.quantity > 0) as lines
		from (select distinct u.id from unnest(ids) u (id)) u
	) n
	where o.id = n.id and o.unassigned_count <> n.lines;
	perform settle_orders(ids);
end $$;
