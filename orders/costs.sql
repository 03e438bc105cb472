-- Returns the exchange rate from the currency of an order to the currency of the farm, or null if it is unknown. The
-- rate is 1 for the currency of the farm, and for a farm without a currency. Most orders have no currency of their
-- own, and need no call of foreign_rate.
create or replace function foreign_rate(p_currency text, rate numeric) returns numeric language sql stable as $$
	select case when t.currency = p_currency then 1 when rate is not null then rate when t.currency is null then 1 end
	from tenants t
$$;

create or replace function order_rate(currency text, rate numeric) returns numeric language sql stable as $$
	select case when currency is null then 1 else foreign_rate(currency, rate) end
$$;

-- Returns the exchange rate of an order in a currency, and the day of the rate: the given rate and day (by default
-- today), or else those in the settings. Both are null if there is no rate. The currency of the farm has only a given
-- rate.
create or replace function order_exchange(p_currency text, rate numeric, day date, out rate_now numeric, out since date)
language sql stable as $$
	select x.rate, case when x.rate is not null then coalesce(day, x.date) end
	from tenants t
	left join jsonb_to_recordset(t.exchange_rates) r (currency text, rate numeric, exchange_date date)
		on r.currency = p_currency and r.currency <> t.currency
	cross join lateral (
		select coalesce(order_exchange.rate, r.rate) as rate, case when order_exchange.rate is null then r.exchange_date
			else (now() at time zone t.time_zone)::date end as date
	) x
$$;

-- Sets the rates of orders that have none, when the settings get a rate for their currency.
create or replace function convert_orders() returns trigger language plpgsql as $$
begin
	update orders o set exchange_rate = x.rate_now, exchange_date = x.since, updated_at = now()
	from jsonb_to_recordset(new.exchange_rates) r (currency text)
	cross join lateral order_exchange(r.currency, null, null) x
	where o.currency = r.currency and o.exchange_rate is null and x.rate_now is not null;
	return null;
end $$;
create or replace trigger orders_converted after update of exchange_rates, currency on tenants for each row
	when (new.exchange_rates <> old.exchange_rates or new.currency is distinct from old.currency)
	execute function convert_orders();

-- Returns the price of items of orders, as an amount for a number of pieces: price for pieces as it was given, tax for
-- tax_pieces in the currency of the order, and net for net_pieces in the currency of the farm, without tax. Unknown
-- amounts are null. line_share divides an amount among pieces. The numbers of pieces can be multiples of the real
-- ones, so that no amount is rounded. No other code has these rules.
create or replace function item_price(unit_price numeric, line_price numeric, line_pieces bigint, tax_amount numeric,
	included boolean, tax_percent numeric, rate numeric)
returns table (price numeric, pieces numeric, tax numeric, tax_pieces numeric, net numeric, net_pieces numeric)
language sql immutable rows 1 as $$
	select b.price, b.pieces, coalesce(tax_amount, b.price * tax_percent),
		b.pieces * case when tax_amount is not null then 1 when included then 100 + tax_percent else 100 end,
		case when not included then b.price when tax_amount is not null then greatest(b.price - tax_amount, 0)
			else b.price * 100 end * rate,
		b.pieces * case when included and tax_amount is null then 100 + tax_percent else 1 end
	from (select coalesce(line_price, unit_price) as price, coalesce(line_pieces, 1)::numeric as pieces) b
$$;

-- Returns the share of the pieces low + 1 to high in an amount for pieces. The shares of successive ranges add up to
-- the amount exactly.
create or replace function line_share(amount numeric, low numeric, high numeric, pieces numeric) returns numeric
language sql immutable as $$
	select 0.000001
		* (div(amount * high * 2000000 + pieces, pieces * 2) - div(amount * low * 2000000 + pieces, pieces * 2))
$$;

-- Converts the selling_price of a product to the terms of an order: its currency, and whether its prices include tax.
-- Returns null if the price is unknown. usual_price does this for an existing order.
create or replace function price_in_order(selling_price numeric, included boolean, tax_percent numeric, rate numeric)
returns numeric language sql stable as $$
	select case when p.price <= 1000000 then p.price end
	from (
		select round(selling_price * case when t.prices_include_tax then 100 else 100 + n.percent end
			/ (case when t.prices_include_tax then 100 + n.percent else 100 end * rate), 6) as price
		from tenants t
		cross join lateral (select case when t.prices_include_tax = included then 0 when included then tax_percent
			else t.sales_tax_percent end as percent) n
	) p
$$;

create or replace function usual_price(order_id uuid, product_id uuid) returns numeric language sql stable as $$
	select price_in_order(p.selling_price, o.prices_include_tax, o.sales_tax_percent,
		order_rate(o.currency, o.exchange_rate))
	from orders o, products p where o.id = usual_price.order_id and p.id = usual_price.product_id
$$;

-- Returns whether an item of an order earns its price. It does if the order is open or done, or was removed after it
-- was done. A cancelled order earns nothing, nor does an order that was removed while it was open, nor a withdrawn
-- item. No other code has this rule.
create or replace function order_item_earns(status text, hidden_at timestamptz, withdrawn_at timestamptz)
returns boolean language sql immutable as $$
	select withdrawn_at is null and (status = 'done' or status <> 'cancelled' and hidden_at is null)
$$;

-- Returns the number of pieces that an item of an order sells: the ordered pieces or, once the order is done, the
-- delivered ones, at most as many as were ordered. No other code has this rule.
create or replace function order_item_sold(status text, quantity int, delivered int) returns int
language sql immutable as $$
	select case when status = 'done' then least(coalesce(delivered, quantity), quantity) else quantity end
$$;

-- Returns the part of came that the first pieces of an item of a run carry; see run_lines.
create or replace function carried_cost(came numeric, pieces bigint, good int, carriers bigint) returns numeric
language sql immutable as $$
	select case when pieces = good then came
		when pieces > good - carriers then round(came * (pieces - good + carriers) / carriers, 6) else 0 end
$$;

-- Returns the costs and the pieces of each item of a run that complete, fail or cancel ended. Other runs have no
-- lines. A run without items has one line without an item.
--
-- used is the value of the components that the item took from stock, and stocked the value that came into stock with
-- its pieces. valued reports whether all parts of the cost of the good pieces are known. came is the cost that they
-- carry: stocked or, if a part is unknown, the sum of the known parts, which never came into stock. Only the last
-- carriers of the good pieces carry it: the others left the stock before their cost was known.
create or replace function run_lines(run uuid) returns table (item uuid, product_id uuid, order_item_id uuid, good int,
	failed int, filament numeric, waste numeric, machine numeric, energy numeric, labour numeric, used numeric,
	stocked numeric, came numeric, valued boolean, carriers bigint)
language sql stable as $$
	select s.id, s.product_id, s.order_item_id, n.good, n.failed, c.filament, c.waste, c.machine, c.energy, c.labour,
		e.used, e.stocked, case when e.valued or n.good = 0 then e.stocked
			else coalesce(known_sum(array[c.filament, c.waste, c.machine, c.energy, c.labour]), 0) + e.used end, e.valued,
		case when e.valued then least(greatest(e.carriers, 0), n.good) else n.good end
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
			coalesce(sum(e.value) filter (where e.kind <> 'used'), 0) as stocked,
			coalesce(sum(e.pieces - e.shortfall) filter (where e.kind <> 'used' and e.cost is null), 0) = 0 as valued,
			sum(valued_change(e)) filter (where e.kind <> 'used' and e.product_id = s.product_id) as carriers
		from piece_entries e where e.run_id = run and e.run_item_id = s.id
	) e
	cross join lateral run_item_pieces(r.status, s.quantity, s.successful_quantity, s.failed_quantity) n
$$;

-- Returns the changes of the value of the stock that run_lines does not account for, because the item was removed from
-- the run, or the run was reopened or has not ended. There is a row for each such item of a run with entries since a
-- time. value is negative if the item took out more than it brought. moment is the time of its newest entry.
-- order_item_id is set for a removed item: the item of the order that it printed.
create or replace function unsettled_pieces(since timestamptz) returns table (product_id uuid, order_item_id uuid,
	value numeric, moment timestamptz)
language sql stable as $$
	select n.product_id, n.order_item_id, n.value, u.moment
	from (
		select e.run_id, e.run_item_id, max(e.created_at) as moment from piece_entries e
		where e.kind in ('used', 'corrected') and e.run_id is not null and e.created_at >= since
		group by e.run_id, e.run_item_id
	) u
	left join run_items x on x.id = u.run_item_id and x.run_id = u.run_id
	cross join lateral (
		select e.product_id, case when x.id is null then e.order_item_id end as order_item_id, sum(e.value) as value
		from piece_entries e where e.run_id = u.run_id and e.run_item_id = u.run_item_id
		group by 1, 2
		having sum(e.value) <> 0
	) n
	where x.id is null
		or not exists (select from production_runs r where r.id = u.run_id and r.deducted_at is not null)
$$;

-- Returns the pieces in stock that runs printed for items of open orders and that are not delivered yet, of the
-- products ids, or of all products if ids is null. If too few are in stock, because pieces were scrapped or other
-- orders took them, the first orders get them, as in net_pieces.
create or replace function waiting_pieces(ids uuid[]) returns table (order_item_id uuid, pieces bigint)
language sql stable as $$
	select w.id, greatest(least(w.made, w.on_hand - w.before), 0)
	from (
		select i.id, i.made, greatest(s.on_hand, 0) as on_hand, coalesce(sum(i.made) over (partition by i.product_id
			order by i.due_date, i.ordered_at, i.order_id, i.created_at, i.id
			rows between unbounded preceding and 1 preceding), 0) as before
		from (
			select i.id, i.product_id, i.order_id, i.created_at, o.due_date, o.created_at as ordered_at,
				least(i.quantity, p.produced) - coalesce(i.delivered, 0) as made
			from order_items i
			join orders o on o.id = i.order_id and o.is_open
			cross join lateral order_item_pieces(i.id) p
			where i.withdrawn_at is null and i.product_id = any (coalesce(ids, array(
				select s.product_id from product_pieces s where s.on_hand > 0)))
		) i
		join product_pieces s on s.product_id = i.product_id
		where i.made > 0
	) w
$$;

-- Returns the items of ended runs that printed good pieces of the product for an item of an order, oldest first.
-- before is the number of good pieces in the earlier rows. waiting is the number of pieces that wait in stock for
-- delivery; see waiting_pieces.
--
--   sold       the pieces that earn revenue, at most order_item_sold
--   delivered  the pieces that the customer got: the item gets its own pieces first
--   kept       the pieces whose cost belongs to the order: delivered, or waiting for delivery
--   unvalued   those of the delivered pieces that left the stock without a known cost
--
-- kept_cost and delivered_cost are the shares of these pieces in came of run_lines. revenue is the share of the sold
-- pieces in the net price of item_price; it is null if nothing is sold, or the price is unknown.
create or replace function order_item_own(order_item uuid, waiting bigint default 0) returns table (item uuid, good int,
	before bigint, valued boolean, sold bigint, revenue numeric, kept_cost numeric, delivered bigint,
	delivered_cost numeric, unvalued bigint)
language sql stable as $$
	select n.item, n.good, n.before, n.valued, n.sold,
		case when n.sold > 0 then line_share(n.net, n.before, n.before + n.sold, n.net_pieces) end,
		carried_cost(n.came, n.kept, n.good, n.carriers), n.delivered,
		carried_cost(n.came, n.delivered, n.good, n.carriers),
		case when n.valued then least(n.delivered, n.good - n.carriers) else n.delivered end
	from (
		select n.*, least(greatest(n.sells - n.before, 0), n.good) as sold,
			least(greatest(n.got - n.before, 0), n.good) as delivered,
			least(greatest(n.got + coalesce(waiting, 0) - n.before, 0), n.good) as kept
		from (
			select x.id as item, l.good, l.came, l.valued, l.carriers, p.net, p.net_pieces, coalesce(i.delivered, 0) as got,
				case when order_item_earns(o.status, o.hidden_at, i.withdrawn_at)
					then order_item_sold(o.status, i.quantity, i.delivered) else 0 end as sells,
				coalesce(sum(l.good) over (order by r.ended_at, x.run_id, x.id
					rows between unbounded preceding and 1 preceding), 0) as before
			from (select * from order_items i where i.id = order_item) i
			join orders o on o.id = i.order_id
			cross join lateral item_price(i.unit_price, i.line_price, i.line_pieces, i.tax_amount, o.prices_include_tax,
				o.sales_tax_percent, order_rate(o.currency, o.exchange_rate)) p
			join run_items x on x.order_item_id = order_item and x.product_id = i.product_id
			join production_runs r on r.id = x.run_id and r.ended_at is not null
			cross join lateral (
				select l.good, l.came, l.valued, l.carriers from run_lines(x.run_id) l where l.item = x.id offset 0
			) l
			where l.good > 0
		) n
	) n
$$;

-- Returns how many pieces have a known cost, because runs printed them for the item, in a delivery that raises the
-- delivered pieces of an item of an order to target.
create or replace function known_cost_pieces(order_item uuid, target bigint) returns bigint
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select coalesce(sum(least(greatest(known_cost_pieces.target - o.before, 0), o.good) - o.delivered), 0)
		from order_item_own(order_item) o where o.valued
	);
end $$;

-- Returns the number and the cost of the delivered pieces of an item of an order that no run printed for it. The
-- ledger of pieces does not tell pieces apart, so the cost is that of all delivered pieces less the cost of those that
-- runs printed for the item. scrapped is the cost of returned pieces that were scrapped. unknown reports whether the
-- cost of some pieces is unknown; cost is the cost of the others, or null.
create or replace function order_item_taken(order_item uuid) returns table (pieces bigint, cost numeric,
	scrapped numeric, unknown boolean)
language sql stable as $$
	select n.pieces, case when n.cost <> 0 or n.pieces > 0 and not n.unknown then n.cost end, n.scrapped, n.unknown
	from (
		select coalesce(i.delivered, 0) - o.delivered as pieces, e.cost - o.cost as cost, e.scrapped,
			e.unknown > o.unvalued as unknown
		from (select * from order_items i where i.id = order_item offset 0) i -- as in expected_cost
		cross join lateral (
			select (array_agg(e.order_item_id))[1] as item,
				coalesce(-sum(e.value) filter (where e.kind <> 'scrapped'), 0) as cost,
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
				coalesce(sum(o.unvalued), 0) as unvalued
			from order_item_own(e.item) o -- the entries come first, so that items without entries read no runs
		) o
	) n
$$;

-- Takes components of the pieces from stock, at all levels, as far as they are in stock with a known cost. cost is
-- their cost. ids and pieces are the products that must still be made, each without its components, and how many
-- pieces of each. All three are null if no component is in stock. claimed[n] is the number of pieces of p_ids[n] in
-- stock that are taken already.
create or replace function take_parts(p_ids uuid[], p_pieces numeric[], claimed numeric[], out ids uuid[],
	out pieces numeric[], out cost numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	made uuid[] := p_ids;
	wanted numeric[] := p_pieces;
	level record;
begin
	while cardinality(made) > 0 loop -- from the highest level down, as in explode_pieces
		with pending as materialized (
			select u.id, u.pieces, p.levels, max(p.levels) over () as highest
			from (select n.id, sum(n.pieces) as pieces from unnest(made, wanted) n (id, pieces) group by n.id) u
			cross join lateral (select p.levels from products p where p.id = u.id offset 0) p
			where u.pieces > 0
		), top as materialized (
			select p.id, p.pieces - coalesce(s.pieces, 0) as pieces,
				case when s.pieces > 0 then round(s.value * s.pieces / s.valued, 6) end as cost
			from pending p
			left join unnest(p_ids, claimed) c (id, pieces) on c.id = p.id
			left join lateral (
				select s.value, s.on_hand - s.unvalued as valued,
					greatest(least(p.pieces, least(s.on_hand, s.on_hand - s.unvalued) - coalesce(c.pieces, 0)), 0) as pieces
				from product_pieces s where s.product_id = p.id offset 0
			) s on true
			where p.levels = p.highest
		), below as (
			select p.id, p.pieces from pending p where p.levels < p.highest
			union all
			select c.component_product_id, t.pieces * c.quantity from top t cross join lateral (
				select c.component_product_id, c.quantity from product_components c where c.product_id = t.id offset 0
			) c
		)
		select t.*, b.* into level
		from (select array_agg(t.id) as ids, array_agg(t.pieces) as pieces, sum(t.cost) as cost from top t) t,
			(select array_agg(b.id) as below, array_agg(b.pieces) as wanted from below b) b;
		ids := ids || level.ids;
		pieces := pieces || level.pieces;
		cost := coalesce(cost + level.cost, cost, level.cost);
		made := level.below;
		wanted := level.wanted;
	end loop;
	if cost is null then
		ids := null;
		pieces := null;
	end if;
end $$;

-- Returns the cost of the pieces that the items of an open order still need, besides the pieces that wait for them.
-- Pieces in stock count with their average cost, the others with product_costs, and so do the components of pieces that
-- are assembled; see take_parts. Other orders that need the same pieces are ignored. cost and unknown are as in
-- order_money.
create or replace function expected_cost(items uuid[], waiting bigint[], out cost numeric, out unknown text[])
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	ids uuid[];
	pieces numeric[];
	of_stock numeric;
	claimed numeric[]; -- of the pieces in stock
	kits boolean;
	needs boolean;
	made_ids uuid[];
	made_pieces numeric[];
	of_parts numeric;
begin
	cost := 0;
	unknown := '{}';
	select array_agg(n.product_id), array_agg(n.pieces - n.of_stock), array_agg(n.waiting + n.of_stock),
		sum(n.stock_cost), bool_or(n.pieces > n.of_stock and p.levels > 0), bool_or(n.pieces > 0)
	into ids, pieces, claimed, of_stock, kits, needs
	from (
		select n.product_id, n.pieces, n.waiting, coalesce(s.pieces, 0) as of_stock, case when s.pieces > 0 then
			round(s.value * s.pieces / s.valued, 6) end as stock_cost
		from (
			-- Includes products of which nothing is needed: their waiting pieces cannot be parts of other products.
			select i.product_id, coalesce(sum(u.waiting), 0) as waiting,
				greatest(sum(greatest(i.quantity - coalesce(i.delivered, 0), 0) - coalesce(u.waiting, 0)), 0) as pieces
			from unnest(items, waiting) u (id, waiting)
			cross join lateral (
				select * from order_items i where i.id = u.id and i.withdrawn_at is null
				offset 0 -- finds each item by its id, also before PostgreSQL has statistics of the items
			) i
			group by i.product_id
		) n
		left join lateral (
			select s.value, s.on_hand - s.unvalued as valued,
				greatest(least(n.pieces, s.on_hand - n.waiting, s.on_hand - s.unvalued), 0) as pieces
			from product_pieces s where s.product_id = n.product_id offset 0
		) s on true
	) n
	cross join lateral (select p.levels from products p where p.id = n.product_id offset 0) p;
	if kits then
		select t.ids, t.pieces, t.cost into made_ids, made_pieces, of_parts from take_parts(ids, pieces, claimed) t;
	end if;
	if needs then
		select known_sum(array[sum(c.filament * n.pieces), sum(c.machine * n.pieces), sum(c.energy * n.pieces),
				sum(c.labour * n.pieces), sum(c.failures * n.pieces), of_stock, of_parts]),
			incomplete_parts('{filament,machine,energy,labour,failures}', array[count(c.filament), count(c.machine),
				count(c.energy), count(c.labour), count(c.failures)], count(*))
		into cost, unknown
		from unnest(coalesce(made_ids, ids), coalesce(made_pieces, pieces)) n (id, pieces)
		join product_costs(coalesce(made_ids, ids), made_ids is not null) c on c.id = n.id
		where n.pieces > 0;
	end if;
end $$;

-- Returns the money of an order. revenue is what its items earn, without tax. cost is the sum of parts:
--
--   filament, waste, machine, energy, labour   the order's share of the ended runs that print its items, including
--                                              withdrawn items
--   stock                                      the pieces that the order took from stock, less those that its runs
--                                              put into stock and that do not wait for it; see waiting_pieces
--
-- expected_cost is the cost of the pieces that an open order still needs; see the function expected_cost. Each result
-- is the sum of the known amounts, or null if no amount is known. unknown names the amounts that are missing in a sum:
-- parts of costs, revenue if an item that earns has no known price, and currency if that is because the currency of the
-- order has no rate.
--
-- all_waiting is the result of waiting_pieces for all products, as an object whose keys are the ids of the items.
-- Without it, the function computes the result for the order.
--
-- force_generic_plan: an export calls the function for each order, and planning takes ten times as long as running.
create or replace function order_money(order_id uuid, all_waiting jsonb default null)
returns table (revenue numeric, cost numeric, cost_parts json, expected_cost numeric, unknown text[])
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	open boolean;
	items uuid[];
	made uuid[];
	waiting bigint[]; -- of items
	priced boolean;
	converted boolean;
	of_runs text[];
	of_rest text[] := '{}';
begin
	select o.is_open, case when count(*) filter (where e.earns) = 0 then 0
			else sum(line_share(p.net, 0, order_item_sold(o.status, i.quantity, i.delivered), p.net_pieces))
				filter (where e.earns) end,
		count(*) filter (where e.earns and p.net is null) = 0, count(*) filter (where e.earns and r.rate is null) = 0,
		array_agg(i.id)
	into open, revenue, priced, converted, items
	from orders o
	cross join lateral (select order_rate(o.currency, o.exchange_rate) as rate offset 0) r
	left join order_items i on i.order_id = o.id
	cross join lateral item_price(i.unit_price, i.line_price, i.line_pieces, i.tax_amount, o.prices_include_tax,
		o.sales_tax_percent, r.rate) p
	cross join lateral (
		select i.id is not null and order_item_earns(o.status, o.hidden_at, i.withdrawn_at) as earns
	) e
	where o.id = order_money.order_id
	group by o.is_open;

	-- waiting_pieces is called only for orders that can have such pieces.
	if open and all_waiting is not null then
		select array_agg((all_waiting ->> u.id::text)::bigint order by u.n) into waiting
		from unnest(items) with ordinality u (id, n);
	elsif open then
		select array_agg(distinct i.product_id) into made
		from order_items i cross join lateral order_item_pieces(i.id) p
		-- With i.id = any (items), PostgreSQL 16 reads all items until it has statistics of them.
		where i.order_id = order_money.order_id and i.withdrawn_at is null and p.produced > coalesce(i.delivered, 0);
	end if;
	if made is not null then
		select array_agg(w.pieces order by u.n) into waiting
		from unnest(items) with ordinality u (id, n)
		left join waiting_pieces(made) w on w.order_item_id = u.id;
	end if;

	with own as materialized (
		select o.item, o.kept_cost
		from unnest(items, waiting) u (id, waiting) cross join lateral order_item_own(u.id, u.waiting) o
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
		union all
		select false, null, null, null, null, null, -e.value, false
		from piece_entries e
		where e.order_id = order_money.order_id and e.run_id is not null
			and not exists (select from run_items x where x.id = e.run_item_id and x.run_id = e.run_id)
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
	if open then
		select e.cost, e.unknown into expected_cost, of_rest from expected_cost(items, waiting) e;
	end if;
	unknown := array(
		select p.name from unnest('{filament,waste,machine,energy,labour,stock,failures,revenue,currency}'::text[])
			with ordinality p (name, n)
		where p.name = any (of_runs || of_rest) or p.name = 'revenue' and not priced
			or p.name = 'currency' and not converted
		order by p.n);
	return next;
end $$;

-- Returns the parts of a cost as an object. of_runs has the sums over the lines of runs, lines is their number, and
-- stock is the sum of pieces from stock. A part is null if it is unknown for all lines.
create or replace function cost_parts(of_runs numeric[], lines bigint, stock numeric, unknown boolean) returns json
language sql immutable as $$
	select json_build_object('filament', p.sums[1], 'waste', p.sums[2], 'machine', p.sums[3], 'energy', p.sums[4],
		'labour', p.sums[5], 'stock', trim_scale(coalesce(stock, case when unknown is not true then 0 end)))
	from (
		select array_agg(trim_scale(case when lines = 0 then 0 else a.amount end) order by a.n) as sums
		from unnest(of_runs) with ordinality a (amount, n)
	) p
$$;
