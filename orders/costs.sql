-- Returns whether an item of an order earns its price. It does if the order is open or done, or was removed after it
-- was done. A cancelled order earns nothing, nor does an order that was removed while it was open, nor a withdrawn
-- item. No other code has this rule.
create or replace function order_item_earns(status text, hidden_at timestamptz, withdrawn_at timestamptz)
returns boolean language sql immutable as $$
	select withdrawn_at is null and (status = 'done' or status <> 'cancelled' and hidden_at is null)
$$;

-- Returns how many pieces an item of an order sells: the ordered ones or, once the order is done, those of them that
-- the customer got. No other code has this rule.
create or replace function order_item_sold(status text, quantity int, delivered int) returns int
language sql immutable as $$
	select case when status = 'done' then least(coalesce(delivered, quantity), quantity) else quantity end
$$;

-- Returns the costs and the pieces of each item of an ended run. A run without items has one line without an item. A
-- run that complete, fail or cancel has not ended has no line.
create or replace function run_lines(run uuid) returns table (item uuid, product_id uuid, order_item_id uuid, good int,
	failed int, filament numeric, waste numeric, machine numeric, energy numeric, labour numeric)
language sql stable as $$
	select s.id, s.product_id, s.order_item_id, n.good, n.failed,
		share_of(r.filament_cost, s.low, s.high, s.total), share_of(r.waste_cost, s.low, s.high, s.total),
		share_of(r.machine_cost, s.low, s.high, s.total), share_of(r.energy_cost, s.low, s.high, s.total),
		share_of(r.labour_cost, s.low, s.high, s.total)
	from (select * from production_runs r where r.id = run and r.deducted_at is not null) r
	cross join lateral (
		select s.id, s.product_id, s.order_item_id, s.quantity, s.successful_quantity, s.failed_quantity,
			coalesce(s.low, 0) as low, coalesce(s.high, 1) as high, coalesce(s.total, 1) as total
		from (select) always left join run_shares(run) s on true
	) s
	cross join lateral run_item_pieces(r.status, s.quantity, s.successful_quantity, s.failed_quantity) n
$$;

-- Returns the run items that printed good pieces for an item of an order in ended runs, oldest first, with the sold
-- pieces and the revenue. Only as many pieces earn revenue as order_item_sold says. revenue is null if there is no price.
create or replace function order_item_sales(order_item uuid) returns table (item uuid, pieces bigint, revenue numeric)
language sql stable as $$
	select s.item, s.pieces, s.pieces * s.unit_price
	from (
		select n.item, n.unit_price, least(n.good, greatest(n.quantity - coalesce(n.before, 0), 0)) as pieces
		from (
			select x.id as item, order_item_sold(o.status, i.quantity, i.delivered) as quantity, i.unit_price, n.good,
				sum(n.good) over (order by r.ended_at, x.run_id, x.id
					rows between unbounded preceding and 1 preceding) as before
			from (select * from order_items i where i.id = order_item) i
			join orders o on o.id = i.order_id and order_item_earns(o.status, o.hidden_at, i.withdrawn_at)
			join run_items x on x.order_item_id = order_item
			join production_runs r on r.id = x.run_id and r.ended_at is not null
			cross join lateral run_item_pieces(r.status, x.quantity, x.successful_quantity, x.failed_quantity) n
		) n
		where n.good > 0
	) s
	where s.pieces > 0
$$;

-- Returns the money of an order. revenue is what its items earn. cost is its share of the cost of the ended runs
-- that print its items, including withdrawn items. expected_cost is the cost, by product_costs, of the pieces that
-- an open order still needs. Each is the sum of the known amounts, or null if no amount is known. unknown names the
-- amounts that are missing in a sum: parts of costs, and revenue if an item that earns has no price.
--
-- force_generic_plan: an export calls the function for each order, and planning takes ten times as long as running.
create or replace function order_money(order_id uuid)
returns table (revenue numeric, cost numeric, expected_cost numeric, unknown text[])
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	open boolean;
	items uuid[];
	ids uuid[];
	pieces numeric[];
	priced boolean;
	of_runs text[];
	of_rest text[] := '{}';
begin
	select o.is_open, case when count(*) filter (where e.earns) = 0 then 0
			else sum(order_item_sold(o.status, i.quantity, i.delivered) * i.unit_price) filter (where e.earns) end,
		count(*) filter (where e.earns and i.unit_price is null) = 0, array_agg(i.id)
	into open, revenue, priced, items
	from orders o
	left join order_items i on i.order_id = o.id
	cross join lateral (
		select i.id is not null and order_item_earns(o.status, o.hidden_at, i.withdrawn_at) as earns
	) e
	where o.id = order_money.order_id
	group by o.is_open;

	select case when count(*) = 0 then 0 else known_sum(array[sum(l.filament), sum(l.waste), sum(l.machine),
			sum(l.energy), sum(l.labour)]) end,
		incomplete_parts('{filament,waste,machine,energy,labour}', array[count(l.filament), count(l.waste),
			count(l.machine), count(l.energy), count(l.labour)], count(*))
	into cost, of_runs
	from (
		select distinct i.run_id from unnest(items) u (id)
		join run_items i on i.order_item_id = u.id
	) u
	cross join lateral run_lines(u.run_id) l
	where l.order_item_id = any (items);

	expected_cost := 0;
	select array_agg(n.product_id), array_agg(n.pieces) into ids, pieces
	from (
		select i.product_id, sum(i.quantity - greatest(p.produced, i.delivered)) as pieces
		from order_items i
		cross join lateral order_item_pieces(i.id) p
		where i.order_id = order_money.order_id and open and i.withdrawn_at is null and i.quantity > greatest(p.produced, i.delivered)
		group by i.product_id
	) n;
	if ids is not null then
		select known_sum(array[sum(c.filament * n.pieces), sum(c.machine * n.pieces), sum(c.energy * n.pieces),
				sum(c.labour * n.pieces), sum(c.failures * n.pieces)]),
			incomplete_parts('{filament,machine,energy,labour,failures}', array[count(c.filament), count(c.machine),
				count(c.energy), count(c.labour), count(c.failures)], count(*))
		into expected_cost, of_rest
		from unnest(ids, pieces) n (id, pieces)
		join product_costs(ids) c on c.id = n.id;
	end if;
	unknown := array(
		select p.name from unnest('{filament,waste,machine,energy,labour,failures,revenue}'::text[])
			with ordinality p (name, n)
		where p.name = any (of_runs || of_rest) or p.name = 'revenue' and not priced
		order by p.n);
	return next;
end $$;
