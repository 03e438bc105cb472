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
--
-- used is the value of the components that the item took from stock, and came the value of its good pieces that came
-- into stock. If not all parts of that value are known, valued is false, and came is the sum of those that are known.
drop function if exists run_lines(uuid);
create or replace function run_lines(run uuid) returns table (item uuid, product_id uuid, order_item_id uuid, good int,
	failed int, filament numeric, waste numeric, machine numeric, energy numeric, labour numeric, used numeric,
	came numeric, valued boolean)
language sql stable as $$
	select s.id, s.product_id, s.order_item_id, n.good, n.failed, c.filament, c.waste, c.machine, c.energy, c.labour,
		e.used, case when e.valued or n.good = 0 then e.came
			else coalesce(known_sum(array[c.filament, c.waste, c.machine, c.energy, c.labour]), 0) + e.used end, e.valued
	from (select * from production_runs r where r.id = run and r.deducted_at is not null) r
	cross join lateral (
		select s.id, s.product_id, s.order_item_id, s.quantity, s.successful_quantity, s.failed_quantity,
			coalesce(s.low, 0) as low, coalesce(s.high, 1) as high, coalesce(s.total, 1) as total
		from (select) always left join run_shares(run) s on true
	) s
	cross join lateral (
		select share_of(r.filament_cost, s.low, s.high, s.total) as filament,
			share_of(r.waste_cost, s.low, s.high, s.total) as waste,
			share_of(r.machine_cost, s.low, s.high, s.total) as machine,
			share_of(r.energy_cost, s.low, s.high, s.total) as energy,
			share_of(r.labour_cost, s.low, s.high, s.total) as labour
	) c
	cross join lateral (
		select -coalesce(sum(e.value) filter (where e.kind = 'used'), 0) as used,
			coalesce(sum(e.value) filter (where e.kind <> 'used'), 0) as came,
			coalesce(bool_and(e.cost is not null) filter (where e.kind <> 'used'), true) as valued
		from piece_entries e where e.run_id = run and e.run_item_id = s.id
	) e
	cross join lateral run_item_pieces(r.status, s.quantity, s.successful_quantity, s.failed_quantity) n
$$;

-- Returns the items of ended runs that printed good pieces of the product for an item of an order, oldest first.
-- before is the number of good pieces of those that are earlier.
--
--   sold       the pieces that earn revenue: only as many as order_item_sold says
--   delivered  the pieces that the customer got: the item gets its own pieces first
--   kept       the pieces whose cost is the order's: those that are sold or delivered; the others are in stock
--
-- kept_cost and delivered_cost are their parts of came, by run_lines. revenue is null if nothing is sold, or there is
-- no price.
drop function if exists order_item_sales(uuid);
create or replace function order_item_own(order_item uuid) returns table (item uuid, good int, before bigint,
	valued boolean, sold bigint, revenue numeric, kept_cost numeric, delivered bigint, delivered_cost numeric)
language sql stable as $$
	select n.item, n.good, n.before, n.valued, n.sold, nullif(n.sold, 0) * n.unit_price,
		case when n.kept = n.good then n.came else round(n.came * n.kept / n.good, 6) end, n.delivered,
		case when n.delivered = n.good then n.came else round(n.came * n.delivered / n.good, 6) end
	from (
		select n.*, least(greatest(n.sells - n.before, 0), n.good) as sold,
			least(greatest(n.got - n.before, 0), n.good) as delivered,
			least(greatest(greatest(n.sells, n.got) - n.before, 0), n.good) as kept
		from (
			select x.id as item, l.good, l.came, l.valued, i.unit_price, coalesce(i.delivered, 0) as got,
				case when order_item_earns(o.status, o.hidden_at, i.withdrawn_at)
					then order_item_sold(o.status, i.quantity, i.delivered) else 0 end as sells,
				coalesce(sum(l.good) over (order by r.ended_at, x.run_id, x.id
					rows between unbounded preceding and 1 preceding), 0) as before
			from (select * from order_items i where i.id = order_item) i
			join orders o on o.id = i.order_id
			join run_items x on x.order_item_id = order_item and x.product_id = i.product_id
			join production_runs r on r.id = x.run_id and r.ended_at is not null
			cross join lateral (
				select l.good, l.came, l.valued from run_lines(x.run_id) l where l.item = x.id offset 0
			) l
			where l.good > 0
		) n
	) n
$$;

-- Returns how many of the pieces that an item of an order gets, so that it has so many, have a known cost because runs
-- printed them for it.
create or replace function own_valued(order_item uuid, target bigint) returns bigint language sql stable as $$
	select coalesce(sum(least(greatest(own_valued.target - o.before, 0), o.good) - o.delivered), 0)
	from order_item_own(order_item) o where o.valued
$$;

-- Returns what the customer got of an item of an order, and no run printed for it, from the ledger of pieces: the
-- number of these pieces, and their cost. As the ledger does not tell pieces apart, the cost is that of all delivered
-- pieces, less what the runs say of those that they printed for the item. scrapped is the cost of the pieces that came
-- back and were scrapped. unknown says whether the cost of pieces is unknown; cost is then that of the others, or
-- null.
create or replace function order_item_taken(order_item uuid) returns table (pieces bigint, cost numeric,
	scrapped numeric, unknown boolean)
language sql stable as $$
	select n.pieces, case when n.cost <> 0 or n.pieces > 0 and not n.unknown then n.cost end, n.scrapped, n.unknown
	from (
		select coalesce(i.delivered, 0) - o.delivered as pieces, e.cost - o.cost as cost, e.scrapped,
			e.unknown > o.unvalued as unknown
		from (select * from order_items i where i.id = order_item) i
		cross join lateral (
			select coalesce(-sum(e.value) filter (where e.kind <> 'scrapped'), 0) as cost,
				coalesce(-sum(e.value) filter (where e.kind = 'scrapped'), 0) as scrapped,
				coalesce(sum(e.shortfall - e.unvalued) filter (where e.kind <> 'scrapped'), 0) as unknown
			from piece_entries e
			where e.order_id = i.order_id and e.order_item_id = order_item
				and e.kind in ('delivered', 'returned', 'scrapped')
			having count(*) > 0
		) e
		cross join lateral (
			select coalesce(sum(o.delivered), 0) as delivered,
				coalesce(sum(o.delivered_cost) filter (where o.valued), 0) as cost,
				coalesce(sum(o.delivered) filter (where not o.valued), 0) as unvalued
			from order_item_own(order_item) o
		) o
	) n
$$;

-- Returns the money of an order. revenue is what its items earn. cost is the sum of parts:
--
--   filament, waste, machine, energy, labour   the order's share of the ended runs that print its items, including
--                                              withdrawn items
--   stock                                      the pieces that the order took from stock, less those that its runs
--                                              put into stock
--
-- expected_cost is the cost of the pieces that an open order still needs: at the average cost of the pieces in stock,
-- as far as there are such pieces, and otherwise by product_costs. It does not ask which other orders need the same
-- pieces. Each is the sum of the known amounts, or null if no amount is known. unknown names the amounts that are
-- missing in a sum: parts of costs, and revenue if an item that earns has no price.
--
-- force_generic_plan: an export calls the function for each order, and planning takes ten times as long as running.
drop function if exists order_money(uuid);
create or replace function order_money(order_id uuid)
returns table (revenue numeric, cost numeric, cost_parts json, expected_cost numeric, unknown text[])
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	open boolean;
	items uuid[];
	ids uuid[];
	pieces numeric[];
	of_stock numeric;
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

	with own as materialized (
		select o.item, o.kept_cost from unnest(items) u (id) cross join lateral order_item_own(u.id) o
	), amount as (
		select true as is_line, l.filament, l.waste, l.machine, l.energy, l.labour,
			nullif(l.used - l.came + coalesce(o.kept_cost, 0), 0) as stock, false as unknown
		from (
			select distinct i.run_id from unnest(items) u (id)
			join run_items i on i.order_item_id = u.id
		) u
		cross join lateral run_lines(u.run_id) l
		left join own o on o.item = l.item
		where l.order_item_id = any (items)
		union all
		select false, null, null, null, null, null,
			case when t.cost is not null or t.scrapped <> 0 then coalesce(t.cost, 0) + t.scrapped end, t.unknown
		from unnest(items) u (id) cross join lateral order_item_taken(u.id) t
		where t.cost is not null or t.scrapped <> 0 or t.unknown
	)
	select case when count(*) = 0 then 0 else known_sum(array[sum(a.filament), sum(a.waste), sum(a.machine),
			sum(a.energy), sum(a.labour), sum(a.stock)]) end,
		cost_parts(array[sum(a.filament), sum(a.waste), sum(a.machine), sum(a.energy), sum(a.labour)],
			count(*) filter (where a.is_line), sum(a.stock), bool_or(a.unknown)),
		incomplete_parts('{filament,waste,machine,energy,labour}', array[count(a.filament), count(a.waste),
			count(a.machine), count(a.energy), count(a.labour)], count(*) filter (where a.is_line))
			|| case when bool_or(a.unknown) then '{stock}' else '{}' end::text[]
	into cost, cost_parts, of_runs
	from amount a;

	expected_cost := 0;
	select array_agg(n.product_id), array_agg(n.pieces - n.of_stock), sum(n.stock_cost)
	into ids, pieces, of_stock
	from (
		select n.product_id, n.pieces, coalesce(s.pieces, 0) as of_stock, case when s.pieces > 0 then
			round(s.value * s.pieces / s.valued, 6) end as stock_cost
		from (
			select i.product_id, sum(i.quantity - greatest(p.produced, coalesce(i.delivered, 0))) as pieces,
				sum(greatest(p.produced - coalesce(i.delivered, 0), 0)) as waiting
			from order_items i
			cross join lateral order_item_pieces(i.id) p
			where i.order_id = order_money.order_id and open and i.withdrawn_at is null
				and i.quantity > greatest(p.produced, coalesce(i.delivered, 0))
			group by i.product_id
		) n
		left join lateral (
			select s.value, s.on_hand - s.unvalued as valued,
				greatest(least(n.pieces, s.on_hand - n.waiting, s.on_hand - s.unvalued), 0) as pieces
			from product_pieces s where s.product_id = n.product_id offset 0
		) s on true
	) n;
	if ids is not null then
		select known_sum(array[sum(c.filament * n.pieces), sum(c.machine * n.pieces), sum(c.energy * n.pieces),
				sum(c.labour * n.pieces), sum(c.failures * n.pieces), of_stock]),
			incomplete_parts('{filament,machine,energy,labour,failures}', array[count(c.filament), count(c.machine),
				count(c.energy), count(c.labour), count(c.failures)], count(*))
		into expected_cost, of_rest
		from unnest(ids, pieces) n (id, pieces)
		join product_costs(ids) c on c.id = n.id
		where n.pieces > 0;
	end if;
	unknown := array(
		select p.name from unnest('{filament,waste,machine,energy,labour,stock,failures,revenue}'::text[])
			with ordinality p (name, n)
		where p.name = any (of_runs || of_rest) or p.name = 'revenue' and not priced
		order by p.n);
	return next;
end $$;

-- Returns the parts of a cost as an object, from the sums of lines of runs, of which there are so many, and the sum of
-- stock. A part is null if it is unknown for all lines.
create or replace function cost_parts(of_runs numeric[], lines bigint, stock numeric, unknown boolean) returns json
language sql immutable as $$
	select json_build_object('filament', p.sums[1], 'waste', p.sums[2], 'machine', p.sums[3], 'energy', p.sums[4],
		'labour', p.sums[5], 'stock', trim_scale(coalesce(stock, case when unknown is not true then 0 end)))
	from (
		select array_agg(trim_scale(case when lines = 0 then 0 else a.amount end) order by a.n) as sums
		from unnest(of_runs) with ordinality a (amount, n)
	) p
$$;
