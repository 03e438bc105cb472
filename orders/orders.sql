-- Returns the number of produced pieces of an item of an order, and the number of pieces that its unfinished runs
-- plan. A completed run has produced the good pieces of its items, or all pieces of an item without counts, even if
-- the run was removed after it had deducted filament. A pending, running or paused run plans all pieces of its items,
-- unless it was removed. Failed and cancelled runs do not count, nor do runs that print parts of the product for the
-- item. No other code has these rules.
create or replace function order_item_pieces(item uuid) returns table (produced bigint, planned bigint)
language sql stable as $$
	select coalesce(sum(n.good), 0),
		coalesce(sum(i.quantity) filter (where r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null), 0)
	from run_items i
	join production_runs r on r.id = i.run_id
	cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
	where i.order_item_id = item and i.product_id = (select o.product_id from order_items o where o.id = item)
$$;

-- Reports whether a product is in another product as a component, at any level.
create or replace function is_part_of(part uuid, product uuid) returns boolean language sql stable as $$
	with recursive above (id) as (
		select c.product_id from product_components c where c.component_product_id = part
		union
		select c.product_id from above a cross join lateral (
			select * from product_components c where c.component_product_id = a.id offset 0) c
	)
	select exists (select from above a where a.id = product)
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
--   OTHER_PRODUCT  the item has another product, and the product is not a part of it
--   CANCELLED      the order is cancelled
create or replace function order_item_problem(item uuid, product uuid) returns text language sql stable as $$
	select case when o.id is null then 'UNKNOWN' when i.product_id <> product and not is_part_of(product, i.product_id)
			then 'OTHER_PRODUCT'
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

-- Updates the status of open orders (received, in_production): in_production when a run that prints an item has
-- started, and done when every item is delivered and each line has a product. It never changes a status back, and
-- leaves done and cancelled orders and orders without items as they are.
--
-- The orders are locked first, in the order of their ids. The next statement sees the runs of transactions that the
-- lock waited for.
create or replace function settle_orders(ids uuid[]) returns void language plpgsql as $$
begin
	if cardinality(ids) = 0 then
		return;
	end if;
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	update orders o set status = n.status, updated_at = now()
	from (
		select u.id, case when bool_and(coalesce(i.delivered, 0) >= i.quantity) and not exists (
				select from orders w where w.id = u.id and w.unassigned_count > 0) then 'done'
			when bool_or(exists (
				select from run_items r
				join production_runs s on s.id = r.run_id
				where r.order_item_id = i.id and s.status in ('in_progress', 'paused', 'completed')
			)) then 'in_production' end as status
		from (select distinct u.id from unnest(ids) u (id)) u
		join order_items i on i.order_id = u.id and i.withdrawn_at is null
		group by u.id
	) n
	where o.id = n.id and o.is_open and o.status <> n.status;
end $$;

-- Reports whether a delivery assembles a product from its components: a kit (a product with components and without
-- filament of its own) if p_kits is true, and a product that consists only of its plates in any case. check_pieces has
-- this rule, too.
create or replace function is_made_on_delivery(product uuid, p_kits boolean) returns boolean language sql stable as $$
	select case when p_kits then exists (select from product_components c where c.product_id = product)
			and not exists (select from product_materials m where m.product_id = product and m.is_required)
		else is_plated(product) end
$$;

-- Returns products and, as far as a delivery assembles them, their components at all levels.
create or replace function products_with_parts(ids uuid[], p_kits boolean) returns uuid[] language sql stable as $$
	with recursive part (id) as (
		select u.id from unnest(ids) u (id)
		union
		select c.component_product_id
		from part p
		cross join lateral (
			select * from product_components c where c.product_id = p.id and is_made_on_delivery(p.id, p_kits) offset 0
		) c
	)
	select array(select p.id from part p)
$$;

-- Returns what a delivery must assemble to have p_wanted pieces of a product in stock: products, each before its
-- components, and the number of pieces of each. As in net_pieces, pieces at any level are taken from stock first, and
-- only the missing ones are assembled. Both are null if there are too few parts.
create or replace function assembly_of(p_product uuid, p_wanted bigint, p_kits boolean, out products uuid[],
	out pieces numeric[]) language plpgsql stable as $$
declare
	needed uuid[] := array[p_product];
	wanted numeric[] := array[p_wanted];
	made uuid[];
	missing numeric[];
	possible boolean;
begin
	products := '{}';
	pieces := '{}';
	while cardinality(needed) > 0 loop
		-- The products of the highest level: no other remaining product contains them.
		with demand as materialized (
			select u.id, sum(u.pieces) as pieces, p.levels, max(p.levels) over () as most
			from unnest(needed, wanted) u (id, pieces)
			join products p on p.id = u.id
			group by u.id, p.levels
		), lack as materialized (
			select d.id, d.pieces - greatest(coalesce(s.on_hand, 0), 0) as pieces
			from demand d
			left join product_pieces s on s.product_id = d.id
			where d.levels = d.most and d.pieces > greatest(coalesce(s.on_hand, 0), 0)
		), rest as (
			select d.id, d.pieces from demand d where d.levels < d.most
			union all
			select c.component_product_id, l.pieces * c.quantity
			from lack l join product_components c on c.product_id = l.id
		)
		select l.made, l.missing, l.possible, r.needed, r.wanted into made, missing, possible, needed, wanted
		from (
			select coalesce(array_agg(l.id), '{}') as made, coalesce(array_agg(l.pieces), '{}') as missing,
				coalesce(bool_and(is_made_on_delivery(l.id, p_kits)), true) as possible
			from lack l
		) l
		cross join (select array_agg(r.id) as needed, array_agg(r.pieces) as wanted from rest r) r;
		if not possible then
			products := null;
			pieces := null;
			return;
		end if;
		products := products || made;
		pieces := pieces || missing;
	end loop;
end $$;

-- Assembles pieces of a product until p_wanted pieces are in stock, or fewer if there are too few parts; see
-- assembly_of. The pieces of the product and its parts must be locked; see products_with_parts.
create or replace function assemble_for_delivery(p_product uuid, p_wanted bigint, p_kits boolean, p_order uuid,
	p_order_item uuid) returns void language plpgsql as $$
declare
	possible bigint; -- a number of pieces for which there are enough parts
	most bigint := p_wanted; -- the maximum number of pieces for which there may be enough parts
	n bigint := p_wanted;
	tried record;
	products uuid[];
	pieces numeric[];
	step record;
begin
	select greatest(s.on_hand, 0) into possible from product_pieces s where s.product_id = p_product;
	if possible >= p_wanted or not is_made_on_delivery(p_product, p_kits) then
		return;
	end if;
	-- Binary search: parts that are enough for a number of pieces are enough for fewer.
	while possible < most loop
		tried := assembly_of(p_product, n, p_kits);
		if tried.products is null then
			most := n - 1;
		else
			possible := n;
			products := tried.products;
			pieces := tried.pieces;
		end if;
		n := (possible + most + 1) / 2;
	end loop;
	for step in
		select u.product, u.pieces from unnest(products, pieces) with ordinality u (product, pieces, n) order by u.n desc
	loop
		perform assemble_pieces(uuid_v7(), step.product, step.pieces::bigint, false, null, p_order, p_order_item);
	end loop;
end $$;

-- Sets the delivered pieces of an item of a locked order. Every delivery calls it. Returns false and changes nothing
-- if the number is negative or exceeds the ordered pieces.
create or replace function set_delivered(p_item uuid, p_delivered bigint) returns boolean language plpgsql as $$
begin
	update order_items i set delivered = p_delivered, delivered_at = now()
	where i.id = p_item and p_delivered between 0 and greatest(i.quantity, i.delivered);
	return found;
end $$;

-- Delivers pieces of a locked order. p_targets has rows with the id of an item and the number of its pieces that the
-- customer has after the delivery (delivered). With p_rest, the customer gets all pieces of the other items; otherwise
-- these do not change. With p_assemble, missing pieces of kits (products with components and without required
-- materials) are assembled first, at all levels, as far as there are parts; if it is null, the setting of the farm
-- applies. Plates become their product in any case. Each difference is an entry of the ledger of pieces: pieces beyond
-- the stock are a shortfall, and pieces that the customer no longer has return to the stock. With p_again, the targets
-- correct earlier deliveries, as of the last delivery of the item. A removed item in p_targets is put back.
--
-- Returns the shortfalls as a JSON array of objects with order_item_id, product_id, product_name and pieces.
create or replace function deliver_pieces(p_order uuid, p_targets json, p_rest boolean, p_assemble boolean,
	p_again boolean default false) returns json language plpgsql as $$
declare
	item record;
	entry piece_entries;
	short jsonb := '[]';
	at timestamptz;
begin
	if p_assemble is null then
		select t.assemble_on_delivery into p_assemble
		from tenants t where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid;
	end if;
	update order_items i set withdrawn_at = null
	from json_to_recordset(p_targets) s (id uuid)
	where i.id = s.id and i.order_id = p_order and i.withdrawn_at is not null;
	perform lock_pieces(products_with_parts(array(
		select i.product_id from order_items i where i.order_id = p_order and i.withdrawn_at is null), p_assemble));
	for item in
		select i.id, i.product_id, p.name, t.target, t.target - coalesce(i.delivered, 0) as n
		from order_items i
		join products p on p.id = i.product_id
		left join json_to_recordset(p_targets) s (id uuid, delivered int) on s.id = i.id
		cross join lateral (
			select coalesce(s.delivered, case when p_rest then greatest(i.quantity, i.delivered) end) as target
		) t
		where i.order_id = p_order and i.withdrawn_at is null and t.target is distinct from i.delivered
			and t.target is not null
		order by i.created_at, i.id
	loop
		select max(coalesce(e.happened_at, e.created_at)) into at from piece_entries e
		where p_again and e.order_id = p_order and e.order_item_id = item.id and e.kind = 'delivered' and e.reverses is null;
		if item.n > 0 then
			if not exists (select from count_after(item.product_id, at)) then
				perform assemble_for_delivery(item.product_id, item.n, p_assemble, p_order, item.id);
			end if;
			entry := null;
			entry.product_id := item.product_id;
			entry.kind := 'delivered';
			entry.pieces := -item.n;
			entry.order_id := p_order;
			entry.order_item_id := item.id;
			entry.happened_at := at;
			entry := move_pieces(entry, p_valued => known_cost_pieces(item.id, item.target));
			if entry.shortfall > 0 then
				short := short || jsonb_build_object('order_item_id', item.id, 'product_id', item.product_id,
					'product_name', item.name, 'pieces', entry.shortfall);
			end if;
		elsif item.n < 0 then
			perform take_piece_back(item.id, -item.n, null, at);
		end if;
		perform set_delivered(item.id, item.target);
	end loop;
	return short;
end $$;

-- Returns delivered pieces of an item of an order to the stock, at the average cost of all delivered pieces of the
-- item. Pieces without a known cost come back first. p_at is happened_at of the entry; see move_pieces.
create or replace function take_piece_back(p_item uuid, p_pieces bigint, p_reason text, p_at timestamptz default null)
returns piece_entries language plpgsql as $$
declare
	item order_items;
	cost numeric; -- of the delivered pieces with a known cost
	unknown bigint; -- the others
	known bigint;
	entry piece_entries;
begin
	select * into item from order_items i where i.id = p_item;
	select -coalesce(sum(e.value), 0), coalesce(sum(e.shortfall - e.unvalued), 0),
		coalesce(sum(e.unvalued - e.pieces), 0)
	into cost, unknown, known
	from piece_entries e
	where e.order_id = item.order_id and e.order_item_id = p_item and e.kind in ('delivered', 'returned');
	unknown := case when known > 0 then least(p_pieces, greatest(unknown, p_pieces - known, 0)) else p_pieces end;
	entry.product_id := item.product_id;
	entry.kind := 'returned';
	entry.pieces := p_pieces;
	entry.cost := round(cost * (p_pieces - unknown) / nullif(known, 0), 6);
	entry.unvalued := unknown;
	entry.order_id := item.order_id;
	entry.order_item_id := p_item;
	entry.reason := p_reason;
	entry.happened_at := p_at;
	return move_pieces(entry);
end $$;

-- Locks an order against concurrent deliveries.
create or replace function lock_order_pieces(p_order uuid) returns void language sql as $$
	select from orders o where o.id = p_order for no key update
$$;

-- Lowers the delivered pieces of an item of a locked order; a negative number raises them. This reopens a done order
-- that then lacks pieces. Returns the result of set_delivered.
create or replace function take_back_delivered(p_item uuid, p_pieces int) returns boolean language plpgsql as $$
declare
	item order_items;
begin
	if not set_delivered(p_item, (
			select coalesce(i.delivered, 0) - p_pieces from order_items i where i.id = p_item)) then
		return false;
	end if;
	select * into item from order_items i where i.id = p_item;
	update orders o set updated_at = now(),
		status = case when o.status = 'done' and p_pieces > 0 and item.delivered < item.quantity then 'in_production'
			else o.status end
	where o.id = item.order_id;
	perform settle_orders(array[item.order_id]);
	return true;
end $$;

-- Takes back all deliveries and returns of a locked order, by reversing entries of the ledger of pieces.
create or replace function take_back_deliveries(p_order uuid) returns void language plpgsql as $$
declare
	entry piece_entries;
begin
	perform lock_pieces(array(select e.product_id from piece_entries e where e.order_id = p_order));
	for entry in
		select e.* from piece_entries e
		where e.order_id = p_order and e.kind in ('delivered', 'returned') and e.reverses is null
			and not exists (select from piece_entries r where r.reverses = e.id)
		order by e.kind, e.created_at, e.id -- what was delivered comes back before what was returned leaves again
	loop
		perform reverse_pieces(entry, null);
	end loop;
	-- If the pieces did not come back at their cost of delivery, the item keeps its day: reports show the difference on
	-- it.
	update order_items i set delivered = case when n.differs then 0 end, delivered_at = case when n.differs then now() end
	from (
		select x.id, coalesce(sum(e.value), 0) <> 0 as differs
		from order_items x
		left join piece_entries e on e.order_id = p_order and e.order_item_id = x.id
			and e.kind in ('delivered', 'returned')
		where x.order_id = p_order and x.delivered is not null
		group by x.id
	) n
	where i.id = n.id;
end $$;

-- Records that the customer of a locked order has sent pieces back. p_items has rows with the id of an item, a
-- quantity (at most the delivered pieces), and to_stock. Pieces that do not go to stock are scrapped at once.
create or replace function return_pieces(p_order uuid, p_items json, p_reason text) returns void
language plpgsql as $$
declare
	item record;
	entry piece_entries;
begin
	perform lock_pieces(array(
		select i.product_id from json_to_recordset(p_items) s (id uuid) join order_items i on i.id = s.id));
	for item in
		select i.id, i.product_id, s.quantity, s.to_stock
		from json_to_recordset(p_items) s (n int, id uuid, quantity int, to_stock boolean)
		join order_items i on i.id = s.id and i.order_id = p_order
		order by s.n
	loop
		entry := take_piece_back(item.id, item.quantity, p_reason);
		if not item.to_stock then
			entry.id := null;
			entry.kind := 'scrapped';
			entry.cost := value_of(entry.pieces, entry.unvalued, -entry.value);
			entry.pieces := -entry.pieces;
			entry.unvalued := -entry.unvalued;
			perform move_pieces(entry);
		end if;
		perform set_delivered(item.id, i.delivered - item.quantity) from order_items i where i.id = item.id;
	end loop;
end $$;

-- Sends an event when an order is created or its status changes, whatever the cause: order.received,
-- order.in_production, order.done or order.cancelled. A change back to received sends no event, because the order was
-- received before. The event order.ready is sent when ready_at is set. An event is smaller than 19 kB, so it has only
-- as many of the oldest items as fit. item_count counts all items.
create or replace function order_changed() returns trigger language plpgsql as $$
declare
	event text := coalesce(tg_argv[0], 'order.' || new.status);
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
create or replace trigger order_ready after update of ready_at on orders
	for each row when (old.ready_at is null and new.ready_at is not null) execute function order_changed('order.ready');
