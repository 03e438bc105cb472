-- Returns the money of an order: the revenue of all its items; the cost of its share of the ended runs that print its
-- items; and the cost that product_costs expects of the pieces that an open order still needs. Each is the sum of what
-- is known, or null if nothing is. unknown names what is not in a sum: parts of costs, and revenue if an item has no
-- price.
--
-- force_generic_plan: an export calls the function for each order, and planning takes ten times as long as running.
create or replace function order_money(order_id uuid, is_open boolean)
returns table (revenue numeric, cost numeric, expected_cost numeric, unknown text[])
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	items uuid[];
	ids uuid[];
	pieces numeric[];
	priced boolean;
	of_runs text[];
	of_rest text[] := '{}';
begin
	select sum(i.quantity * i.unit_price), count(*) = count(i.unit_price), array_agg(i.id)
	into revenue, priced, items
	from order_items i where i.order_id = order_money.order_id;

	select case when count(*) = 0 then 0 else known_sum(array[sum(s.filament), sum(s.waste), sum(s.machine),
			sum(s.energy), sum(s.labour)]) end,
		incomplete_parts('{filament,waste,machine,energy,labour}', array[count(s.filament), count(s.waste),
			count(s.machine), count(s.energy), count(s.labour)], count(*))
	into cost, of_runs
	from (
		select distinct i.run_id from unnest(items) u (id)
		cross join lateral (select i.run_id from run_items i where i.order_item_id = u.id offset 0) i
	) u
	cross join lateral (
		select r.* from production_runs r where r.id = u.run_id and r.deducted_at is not null offset 0
	) r
	cross join lateral (
		select share_of(r.filament_cost, s.low, s.high, s.total) as filament,
			share_of(r.waste_cost, s.low, s.high, s.total) as waste,
			share_of(r.machine_cost, s.low, s.high, s.total) as machine,
			share_of(r.energy_cost, s.low, s.high, s.total) as energy,
			share_of(r.labour_cost, s.low, s.high, s.total) as labour
		from run_shares(r.id) s where s.order_item_id = any (items)
	) s;

	expected_cost := 0;
	select array_agg(n.product_id), array_agg(n.pieces) into ids, pieces
	from (
		select i.product_id, sum(i.quantity - p.produced) as pieces
		from order_items i
		cross join lateral order_item_pieces(i.id) p
		where i.order_id = order_money.order_id and is_open and i.quantity > p.produced
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
