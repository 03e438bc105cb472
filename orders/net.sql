-- Returns the products that an open order needs, with components at all levels; none if the order is not open.
create or replace function order_products(order_id uuid) returns uuid[] language sql stable as $$
	select coalesce(array_agg(e.id), '{}')
	from (
		select array_agg(i.product_id) as ids, array_agg(1::numeric) as pieces
		from orders o join order_items i on i.order_id = o.id and i.withdrawn_at is null
		where o.id = order_products.order_id and o.is_open
	) i
	cross join lateral explode_pieces(i.ids, i.pieces) e
$$;

-- Returns the products and all that contain them, directly or through others.
create or replace function containing_products(ids uuid[]) returns uuid[]
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	more uuid[] := ids;
begin
	while cardinality(more) > 0 loop
		select array_agg(u.id) into more
		from (
			select distinct c.product_id as id from unnest(more) m (id)
			cross join lateral (
				select c.product_id from product_components c
				where c.tenant_id = tenant and c.component_product_id = m.id offset 0
			) c
		) u
		where u.id <> all (ids);
		ids := ids || coalesce(more, '{}');
	end loop;
	return ids;
end $$;

-- Returns the items of open orders that need pieces, in the order in which they take them: by the due dates of the
-- orders (orders without one last), then by the creation of the orders and of the items. place counts from 1, and
-- pieces are the quantity less the delivered pieces. Then comes one row without a product, the place of runs that
-- print no item, and a row for each element of extra. related and extra are those of net_pieces.
create or replace function net_places(tenant uuid, related uuid[], extra json)
returns table (place int, order_id uuid, order_item_id uuid, line int, delivered float8, product_id uuid, pieces float8)
language sql stable as $$
	select row_number() over (order by n.rank, n.line, n.due_date, n.created_at, n.order_id, n.added, n.id)::int,
		n.order_id, n.id, n.line, n.delivered::float8, n.product_id, n.pieces::float8
	from (
		select 1 as rank, o.id as order_id, o.due_date, o.created_at, i.id, i.created_at as added, null::int as line,
			i.product_id, i.quantity - coalesce(i.delivered, 0) as pieces, coalesce(i.delivered, 0) as delivered
		from orders o
		cross join lateral (
			select * from order_items i
			where i.tenant_id = tenant and i.order_id = o.id and i.withdrawn_at is null offset 0
		) i
		where o.tenant_id = tenant and o.is_open
		union all
		select 2, null, null, null, null, null, null, null, 0, 0
		union all
		select 3, null, null, null, null, null, x.n, x.product_id, x.quantity, 0
		from json_to_recordset(coalesce(extra, '[]')) x (n int, product_id uuid, quantity bigint)
		where x.product_id is not null
	) n
	where n.rank = 2 or n.pieces > 0 and (related is null or n.product_id = any (related))
$$;

-- Returns the pieces of unfinished runs: a row for each product and the item that its runs print (null for no item).
-- takes is the part of pieces whose components come from stock. Of products that are not in related, it returns only
-- rows with takes, because related may contain their components.
create or replace function unfinished_pieces(tenant uuid, related uuid[])
returns table (order_item_id uuid, product_id uuid, pieces float8, takes float8)
language sql stable as $$
	select x.order_item_id, x.product_id, x.pieces, x.takes
	from (
		select i.order_item_id, i.product_id, sum(i.quantity::float8) as pieces,
			coalesce(sum(i.quantity::float8) filter (where i.parts_from_stock), 0) as takes
		from production_runs r
		cross join lateral (
			select * from run_items i where i.tenant_id = tenant and i.run_id = r.id offset 0
		) i
		where r.tenant_id = tenant and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
		group by i.order_item_id, i.product_id
	) x
	where x.takes > 0 or related is null or x.product_id = any (related)
$$;

-- Returns the components that unfinished runs take from stock: a row for each place and product. The place is that of
-- the item that the run prints (an index of p_item), or else p_runs. c_item, c_product and c_takes are columns of
-- unfinished_pieces.
create or replace function parts_of_runs(
	tenant uuid, related uuid[], c_item uuid[], c_product uuid[], c_takes float8[], p_item uuid[], p_runs int
)
returns table (place int, product_id uuid, pieces float8)
language sql stable as $$
	select coalesce(p.place, p_runs)::int, k.component_product_id, sum(c.takes * k.quantity) as pieces
	from unnest(c_item, c_product, c_takes) c (item, product, takes)
	cross join lateral (
		select * from product_components k where k.tenant_id = tenant and k.product_id = c.product offset 0
	) k
	left join unnest(p_item) with ordinality p (item, place) on p.item = c.item
	where c.takes > 0 and (related is null or k.component_product_id = any (related))
	group by 1, 2
$$;

-- Returns those of the given products that have the highest level: none of the others contains them.
create or replace function highest_products(tenant uuid, products uuid[]) returns table (id uuid)
language sql stable as $$
	select x.id
	from (
		select u.id, max(p.levels) as levels, max(max(p.levels)) over () as most
		from (select distinct u.id from unnest(products) u (id)) u
		cross join lateral (select p.levels from products p where p.tenant_id = tenant and p.id = u.id offset 0) p
		group by u.id
	) x
	where x.levels = x.most
$$;

-- Returns for each of the products its pieces in stock (on_hand) and in unfinished runs (coming: the sum of its
-- c_pieces), both 0 if seen has the product; and whether it has components (assembled) and materials of its own.
create or replace function net_products(tenant uuid, products uuid[], seen uuid[], c_product uuid[], c_pieces float8[])
returns table (id uuid, on_hand float8, coming float8, assembled boolean, has_materials boolean)
language sql stable as $$
	select u.id, case when u.id = any (seen) then 0 else greatest(coalesce(s.on_hand, 0), 0) end::float8,
		case when u.id = any (seen) then 0 else coalesce(c.pieces, 0) end, k.id is not null, m.id is not null
	from unnest(products) u (id)
	left join lateral (
		select s.on_hand from product_pieces s where s.tenant_id = tenant and s.product_id = u.id offset 0
	) s on true
	left join lateral (
		select k.id from product_components k where k.tenant_id = tenant and k.product_id = u.id limit 1
	) k on true
	left join lateral (
		select m.id from product_materials m
		where m.tenant_id = tenant and m.product_id = u.id and m.is_required limit 1
	) m on true
	left join (
		select c.product, sum(c.pieces) as pieces from unnest(c_product, c_pieces) c (product, pieces) group by c.product
	) c on c.product = u.id
$$;

-- Distributes the pieces of the highest products: returns a row for each of them and each place that needs it, with the
-- columns of net_pieces, and whether the product has components. The parameters are the variables of net_pieces with
-- the same names. Each step uses what the one before it leaves:
--
--   demand, product   what the places need of the products, and the pieces that there are
--   own               the pieces that an item's own runs have made or are printing
--   first, second     pieces in stock: of the own runs (a), and of those that the items before leave (stock)
--   third, fourth     pieces of unfinished runs: of the own ones (b), and of those that the items before leave (run)
create or replace function net_level(
	tenant uuid, highest uuid[], seen uuid[],
	p_item uuid[], p_line int[], p_delivered float8[],
	c_item uuid[], c_product uuid[], c_pieces float8[],
	d_place int[], d_product uuid[], d_top boolean[], d_pieces float8[]
)
returns table (place int, product_id uuid, of_item boolean, printed boolean, assembled boolean, needed float8,
	reserved float8, incoming float8, missing float8)
language sql stable as $$
	with demand as materialized (
		select u.place, u.product, p.item, u.top, u.top and p.line is not null as extra, u.pieces,
			case when u.top then p.delivered else 0 end as delivered
		from (
			select u.place, u.product, bool_or(u.top) as top, least(sum(u.pieces), 1e9) as pieces
			from unnest(d_place, d_product, d_top, d_pieces) u (place, product, top, pieces)
			where u.product = any (highest)
			group by u.place, u.product
		) u
		join unnest(p_item, p_line, p_delivered) with ordinality p (item, line, delivered, place) on p.place = u.place
	), product as materialized (
		select p.* from net_products(tenant, highest, seen, c_product, c_pieces) p
	), own as materialized (
		select d.*, p.on_hand, p.coming, p.assembled, p.has_materials,
			case when d.extra or p.on_hand = 0 then 0 else least(d.pieces, greatest(0, coalesce((
				select sum(n.good::float8) from run_items i
				join production_runs r on r.tenant_id = tenant and r.id = i.run_id and r.status = 'completed'
				cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
				where i.tenant_id = tenant and i.order_item_id = d.item and i.product_id = d.product), 0)
				- d.delivered)) end as made,
			case when d.extra then 0 else least(d.pieces, coalesce(c.pieces, 0)) end as printing
		from demand d
		join product p on p.id = d.product
		left join unnest(c_item, c_product, c_pieces) c (item, product, pieces)
			on c.item = d.item and c.product = d.product
	), first as (
		select o.*, greatest(0, least(o.made, o.on_hand - coalesce(sum(o.made) over before, 0))) as a
		from own o
		window before as (partition by o.product order by o.place rows between unbounded preceding and 1 preceding)
	), second as (
		select f.*, f.a + case when f.extra then 0 else greatest(0, least(f.pieces - f.a,
			f.on_hand - sum(f.a) over (partition by f.product) - coalesce(sum(case when f.extra then 0 else f.pieces - f.a end)
				over before, 0))) end as stock
		from first f
		window before as (partition by f.product order by f.place rows between unbounded preceding and 1 preceding)
	), third as (
		select s.*, least(s.printing, s.pieces - s.stock) as b from second s
	), fourth as (
		select t.*, t.b + case when t.extra then 0 else greatest(0, least(t.pieces - t.stock - t.b,
			t.coming - sum(t.b) over (partition by t.product)
				- coalesce(sum(case when t.extra then 0 else t.pieces - t.stock - t.b end) over before, 0))) end as run
		from third t
		window before as (partition by t.product order by t.place rows between unbounded preceding and 1 preceding)
	)
	select f.place, f.product, f.top, f.has_materials or not f.assembled, f.assembled, f.pieces, f.stock, f.run,
		f.pieces - f.stock - f.run as missing
	from fourth f
$$;

-- Returns which pieces open orders need, and where they come from. There is a row for each product that an item of an
-- order needs: the product of the item and, as far as it must be assembled, its components, at all levels. No other
-- code has these rules:
--
--   * An item needs its quantity less the delivered pieces. Items take pieces in the order of net_places; the column
--     place is the position.
--   * reserved: pieces in stock. An item takes the good pieces of its own runs first, and then pieces that the items
--     before it leave.
--   * incoming: pieces of unfinished runs. An item takes those of its own runs first, and then pieces of other runs
--     that neither the items of these runs nor the items before it need.
--   * missing: the other pieces. They must be printed if printed is true. Each missing piece of a product with
--     components needs these: the components have rows of their own. So do the components of an unfinished run with
--     parts_from_stock; they have the place of the item that the run prints, or a place after all items, without an
--     order.
--
-- If only_products is not null, only the rows of these products are returned.
--
-- extra is a JSON array of additional demand, after all items: n, product_id and quantity. These products must be
-- made: only their components are taken from stock and runs. line is n.
--
-- The function reads the places and what their items need, the pieces of unfinished runs, and the components that these
-- take from stock. Then a loop goes down the levels of the products. One statement, net_level, distributes all products
-- of a level; another adds the components of the missing pieces to the demand for the levels below.
--
-- Pieces are integers up to 1,000,000,000, which float8 represents and adds exactly, in less time than numeric.
--
-- PostgreSQL inlines net_places and the functions after it, because they are in language sql, stable and without
-- settings: a session plans them once, as parts of the statements here.
--
-- enable_nestloop: PostgreSQL does not know how many elements the arrays have, and would compare each item with each
-- run.
create or replace function net_pieces(only_products uuid[] default null, extra json default null)
returns table (place int, order_id uuid, order_item_id uuid, line int, product_id uuid, of_item boolean,
	printed boolean, needed float8, reserved float8, incoming float8, missing float8)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_nestloop = off as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	related uuid[]; -- only_products with the products that contain them, or null for all products
	-- The places.
	p_order uuid[];
	p_item uuid[];
	p_line int[];
	p_delivered float8[];
	p_runs int; -- the place of runs that print no item
	-- The rows of unfinished_pieces.
	c_item uuid[];
	c_product uuid[];
	c_pieces float8[];
	c_takes float8[];
	-- The demand that is not processed yet. top is true for products of items, and false for components.
	d_place int[];
	d_product uuid[];
	d_top boolean[];
	d_pieces float8[];
	-- The products of the highest level, and the products whose stock is already distributed.
	highest uuid[];
	seen uuid[] := '{}';
	-- The rows of net_level.
	l_place int[];
	l_product uuid[];
	l_top boolean[];
	l_printed boolean[];
	l_assembled boolean[];
	l_needed float8[];
	l_reserved float8[];
	l_incoming float8[];
	l_missing float8[];
begin
	if cardinality(only_products) = 0 then
		return;
	end if;
	if only_products is not null then
		related := containing_products(only_products);
	end if;

	select array_agg(n.order_id order by n.place), array_agg(n.order_item_id order by n.place),
		array_agg(n.line order by n.place), array_agg(n.delivered order by n.place),
		min(n.place) filter (where n.product_id is null), array_agg(n.place) filter (where n.product_id is not null),
		array_agg(n.product_id) filter (where n.product_id is not null),
		array_agg(true) filter (where n.product_id is not null),
		array_agg(n.pieces) filter (where n.product_id is not null)
	into p_order, p_item, p_line, p_delivered, p_runs, d_place, d_product, d_top, d_pieces
	from net_places(tenant, related, extra) n;

	select array_agg(u.order_item_id), array_agg(u.product_id), array_agg(u.pieces), array_agg(u.takes)
	into c_item, c_product, c_pieces, c_takes
	from unfinished_pieces(tenant, related) u;

	select d_place || coalesce(array_agg(d.place), '{}'), d_product || coalesce(array_agg(d.product_id), '{}'),
		d_top || coalesce(array_agg(false), '{}'), d_pieces || coalesce(array_agg(d.pieces), '{}')
	into d_place, d_product, d_top, d_pieces
	from parts_of_runs(tenant, related, c_item, c_product, c_takes, p_item, p_runs) d;

	while cardinality(d_place) > 0 loop
		highest := array(select h.id from highest_products(tenant, d_product) h);

		select array_agg(l.place), array_agg(l.product_id), array_agg(l.of_item), array_agg(l.printed),
			array_agg(l.assembled), array_agg(l.needed), array_agg(l.reserved), array_agg(l.incoming), array_agg(l.missing)
		into l_place, l_product, l_top, l_printed, l_assembled, l_needed, l_reserved, l_incoming, l_missing
		from net_level(tenant, highest, seen, p_item, p_line, p_delivered, c_item, c_product, c_pieces, d_place, d_product,
			d_top, d_pieces) l;
		return query
			select l.place, p.order_id, p.item, p.line, l.product, l.top, l.printed, l.needed, l.reserved, l.incoming,
				l.missing
			from unnest(l_place, l_product, l_top, l_printed, l_needed, l_reserved, l_incoming, l_missing)
				l (place, product, top, printed, needed, reserved, incoming, missing)
			join unnest(p_order, p_item, p_line) with ordinality p (order_id, item, line, place) on p.place = l.place
			where only_products is null or l.product = any (only_products);

		select array_agg(r.place), array_agg(r.product), array_agg(r.top), array_agg(r.pieces)
		into d_place, d_product, d_top, d_pieces
		from (
			select u.place, u.product, u.top, u.pieces
			from unnest(d_place, d_product, d_top, d_pieces) u (place, product, top, pieces)
			where u.product <> all (highest)
			union all
			select l.place, c.component_product_id, false, least(l.missing * c.quantity, 1e9)
			from unnest(l_place, l_product, l_assembled, l_missing) l (place, product, assembled, missing)
			cross join lateral (
				select c.component_product_id, c.quantity from product_components c
				where c.tenant_id = tenant and c.product_id = l.product offset 0
			) c
			where l.assembled and l.missing > 0 and (related is null or c.component_product_id = any (related))
		) r;
		seen := seen || highest;
	end loop;
end $$;

-- Sets ready_at of open orders: an order is ready if it is in ready and each of its lines has a product.
create or replace function note_ready_orders(ready uuid[]) returns void language sql as $$
	update orders o set ready_at = case when o.ready_at is null then now() end
	where o.is_open and (o.ready_at is not null) <> (o.id = any (ready) and o.unassigned_count = 0)
$$;
