-- Returns the product of a line, and the number of its pieces in one unit of the line. Both are null for a line that
-- the farm does not print. There is no row if the line has no product yet. A product with the SKU takes precedence;
-- otherwise it is the product that a person has assigned to the SKU or, for a line without a SKU, to the title. A SKU
-- alone does not name a product with variants: a shop may give all options of a product the same SKU. Then it is the
-- product that a person has assigned to the SKU with the title. Case is ignored, except that of two products whose SKUs
-- differ only in case, the one with the case of the line is chosen. No other code has this rule.
create or replace function order_line_match(title text, sku text) returns table (product_id uuid, pieces int)
language sql stable rows 1 as $$
	select m.product_id, m.pieces
	from (
		(select 1 as n, p.id as product_id, 1 as pieces
			from products p
			where p.sku_key = lower(order_line_match.sku collate "und-x-icu") collate "C" and p.sku <> ''
				and p.hidden_at is null
			order by p.sku = order_line_match.sku desc, p.created_at, p.id limit 1)
		union all
		(select case when a.with_title then 2 else 3 end, a.product_id, a.pieces
			from order_assignments a
			where a.match_key in (line_match_key(order_line_match.title, order_line_match.sku),
					line_title_key(order_line_match.title, order_line_match.sku))
				and (a.product_id is null
					or exists (select from products p where p.id = a.product_id and p.hidden_at is null)))
	) m
	where m.n = 2 or coalesce(order_line_match.sku, '') = ''
		or not exists (select from products v where v.variant_of = m.product_id and v.hidden_at is null)
	order by m.n limit 1
$$;

-- Creates items for the lines of orders whose product is known now, and counts the other lines. This reopens an order
-- that is done. The orders are locked in the order of their ids, as in settle_orders.
create or replace function match_order_lines(ids uuid[]) returns void language plpgsql as $$
begin
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	with found as materialized (
		select l.id, l.order_id, l.quantity, l.line_price, l.line_pieces * m.pieces as line_pieces, l.tax_amount,
			l.created_at, m.product_id, m.pieces, uuid_v7() as item
		from order_lines l
		cross join lateral order_line_match(l.title, l.sku) m
		where l.order_id = any (ids) and l.item_id is null and not l.ignored and l.quantity > 0
			and coalesce(l.quantity::bigint * m.pieces, 0) <= 1000000
	), items as (
		insert into order_items (id, order_id, product_id, quantity, unit_price, line_price, line_pieces, tax_amount)
		select f.item, f.order_id, f.product_id, f.quantity * f.pieces,
			coalesce(round(f.line_price / f.line_pieces, 6), usual_price(f.order_id, f.product_id)), f.line_price,
			f.line_pieces, f.tax_amount
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

-- Gives the lines of an order the ids of the shop's lines that sell the same, if they have no id, or one that a file
-- import made up.
create or replace function name_order_lines(p_order uuid, p_lines json) returns void language plpgsql as $$
begin
	update order_lines l set shop_line = n.shop_line
	from (
		select l.id, l.match_key, coalesce(l.shop_line like 'file %', true) as loose,
			row_number() over (partition by l.match_key, coalesce(l.shop_line like 'file %', true)
				order by l.created_at, l.id) as nth
		from order_lines l
		where l.order_id = p_order and (l.shop_line is null or not exists (
			select from json_to_recordset(p_lines) n (shop_line text) where n.shop_line = l.shop_line))
	) o
	join (
		select n.shop_line, k.match_key, n.shop_line like 'file %' as loose,
			row_number() over (partition by k.match_key, n.shop_line like 'file %' order by n.n) as nth
		from json_to_recordset(p_lines) n (n int, shop_line text, title text, sku text)
		cross join lateral line_match_key(n.title, n.sku) k (match_key)
		where not exists (select from order_lines x where x.order_id = p_order and x.shop_line = n.shop_line)
	) n on n.match_key = o.match_key and n.nth = o.nth
	where l.id = o.id and (l.shop_line is null or n.loose <> o.loose);
end $$;

-- Updates the lines of a locked order to those that the shop has now. p_lines has rows of lineRows with shop_line, the
-- id of the line in the shop. A line that the shop has removed gets the quantity 0, and its item is removed from the
-- order; runs that print the item stay. If a line sells another product now, its item is removed too, and the line is
-- matched again. An item with delivered pieces stays, because the shop may only have changed the SKU; its line is
-- marked as replaced. Only what changed in the shop changes here, so that changes by people stay. An order whose items
-- did not come as lines keeps them.
create or replace function sync_order_lines(p_order uuid, p_lines json) returns void language plpgsql as $$
begin
	if exists (select from order_items i where i.order_id = p_order)
			and not exists (select from order_lines l where l.order_id = p_order) then
		return;
	end if;

	perform name_order_lines(p_order, p_lines);

	with now as materialized (
		select n.shop_line, n.title, n.sku, n.quantity, n.line_price, n.line_pieces, n.tax_amount
		from json_to_recordset(p_lines) n (shop_line text, title text, sku text, quantity int, line_price numeric,
			line_pieces bigint, tax_amount numeric)
	), line as materialized (
		select l.id, l.item_id, l.pieces, l.quantity as was, n.shop_line is not null as known,
			coalesce(n.quantity, 0) as quantity, n.line_price, n.line_pieces, n.tax_amount, n.title, n.sku,
			n.shop_line is not null and
				(round(n.line_price / n.line_pieces, 9), round(n.tax_amount / n.line_pieces, 9)) is distinct from
				(round(l.line_price / l.line_pieces, 9), round(l.tax_amount / l.line_pieces, 9)) as repriced,
			k.differs and not coalesce(k.delivered, false) as other,
			case when k.differs then coalesce(k.delivered, false) else l.replaced and not k.renamed end as replaced
		from order_lines l
		left join now n on n.shop_line = l.shop_line
		cross join lateral (
			select k.renamed, k.renamed and not coalesce(i.same, false) as differs, i.delivered > 0 as delivered
			from (
				select coalesce(line_match_key(n.title, n.sku) <> l.match_key
					or line_title_key(n.title, n.sku) <> line_title_key(l.title, l.sku) and (l.ignored or exists (
						select from order_items i join products p on p.id = i.product_id
						where i.id = l.item_id and (p.variant_of is not null or exists (
							select from products v where v.variant_of = p.id and v.hidden_at is null)))), false) as renamed
			) k
			left join lateral (
				select i.delivered, exists (
					select from order_line_match(n.title, n.sku) m
					where m.product_id = i.product_id and m.pieces = l.pieces) as same
				from order_items i where k.renamed and i.id = l.item_id
			) i on true
		) k
		where l.order_id = p_order and l.shop_line is not null and (n.shop_line is null and l.quantity > 0
			or n.shop_line is not null and (n.quantity, n.line_price, n.line_pieces, n.tax_amount, n.title, n.sku)
				is distinct from (l.quantity, l.line_price, l.line_pieces, l.tax_amount, l.title, l.sku))
	), items as (
		update order_items i set
			quantity = case when not l.other and l.quantity > 0 and l.quantity <> l.was
				then least(l.quantity::bigint * l.pieces, 1000000)
				else i.quantity end,
			unit_price = case when l.repriced and not l.other then round(l.line_price / (l.line_pieces * l.pieces), 6)
				else i.unit_price end,
			line_price = case when l.repriced and not l.other then l.line_price else i.line_price end,
			line_pieces = case when l.repriced and not l.other then l.line_pieces * l.pieces else i.line_pieces end,
			tax_amount = case when l.repriced and not l.other then l.tax_amount else i.tax_amount end,
			withdrawn_at = case when l.other or l.quantity = 0 and l.was > 0 then coalesce(i.withdrawn_at, now())
				when l.quantity > 0 and l.was = 0 then null else i.withdrawn_at end
		from line l
		join order_items b on b.id = l.item_id
		where i.id = l.item_id
		returning i.withdrawn_at is null and i.quantity > coalesce(i.delivered, 0)
			and (b.withdrawn_at is not null or i.quantity > b.quantity) as more
	), changed as (
		update order_lines o set quantity = l.quantity, title = case when l.known then l.title else o.title end,
			sku = case when l.known then l.sku else o.sku end,
			line_price = case when l.known then l.line_price else o.line_price end,
			line_pieces = case when l.known then l.line_pieces else o.line_pieces end,
			tax_amount = case when l.known then l.tax_amount else o.tax_amount end,
			item_id = case when not l.other then o.item_id end, pieces = case when not l.other then o.pieces end,
			ignored = o.ignored and not l.other, replaced = l.replaced
		from line l where o.id = l.id returning o.id
	)
	update orders o set updated_at = now(),
		status = case when o.status = 'done' and exists (select from items where more) then 'in_production'
			else o.status end
	where o.id = p_order and exists (select from changed);

	insert into order_lines (id, order_id, shop_line, title, sku, quantity, line_price, line_pieces, tax_amount)
	select n.id, p_order, n.shop_line, n.title, n.sku, n.quantity, n.line_price, n.line_pieces, n.tax_amount
	from json_to_recordset(p_lines) n (n int, id uuid, shop_line text, title text, sku text, quantity int,
		line_price numeric, line_pieces bigint, tax_amount numeric)
	where not exists (select from order_lines l where l.order_id = p_order and l.shop_line = n.shop_line)
	order by n.n
	limit greatest(0, 1000 - (select count(*) from order_lines l where l.order_id = p_order));

	perform match_order_lines(array[p_order]);
end $$;
