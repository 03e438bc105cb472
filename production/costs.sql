-- Returns amount / divisor, rounded to six decimals, half away from zero, or null if it is not known or larger than
-- 999,999,999. A numeric division has a limited number of decimals, so that round(amount / divisor, 6) would round
-- twice; div() on whole numbers is exact.
create or replace function cost_of(amount numeric, divisor numeric) returns numeric language sql immutable as $$
	select case when amount <= 999999999 * divisor then div(amount * 2000000 + divisor, divisor * 2) * 0.000001 end
$$;

-- Returns how many good pieces an item of a run has, and how many failed ones, by the status of the run. A completed
-- run without counts has only good pieces; all pieces of a failed run failed; those of other runs are neither.
create or replace function run_item_pieces(status text, quantity int, successful_quantity int, failed_quantity int)
returns table (good int, failed int)
language sql immutable as $$
	select case status when 'completed' then coalesce(successful_quantity, quantity - coalesce(failed_quantity, 0))
			else 0 end,
		case status when 'completed' then coalesce(failed_quantity, quantity - successful_quantity, 0)
			when 'failed' then quantity else 0 end
$$;

-- Returns the items of a run, each with its share of what the run costs: in proportion to the items' estimated costs,
-- or to their quantities if no item has one. The share is that between the sums low and high of all.
create or replace function run_shares(run uuid) returns table (id uuid, product_id uuid, order_item_id uuid,
	quantity int, successful_quantity int, failed_quantity int, low numeric, high numeric, total numeric)
language sql stable as $$
	select i.id, i.product_id, i.order_item_id, i.quantity, i.successful_quantity, i.failed_quantity,
		sum(i.weight) over w - i.weight, sum(i.weight) over w, sum(i.weight) over ()
	from (
		select i.*, case when coalesce(sum(i.cost) over (), 0) = 0 then i.quantity else coalesce(i.cost, 0) end as weight
		from (
			select x.*, greatest(x.estimated_material_cost, x.estimated_total_cost) as cost
			from run_items x where x.run_id = run
		) i
	) i
	window w as (order by i.created_at, i.id rows between unbounded preceding and current row)
$$;

-- Returns the share of an amount between low and high of a total. The amounts of successive shares add up exactly.
create or replace function share_of(amount numeric, low numeric, high numeric, total numeric) returns numeric
language sql immutable as $$
	select cost_of(amount * high, total) - cost_of(amount * low, total)
$$;

-- Returns what a run costs that ends now with the status and the hours of printing, in parts that add up. A part is
-- null if it is unknown. A rate of 0 leaves its part out.
--
-- filament  the grams at the price of each material of the run, or else of its spool, less the waste
-- waste     the share of that for failed pieces; all of it, unless the run is completed
-- machine   the hours at the rate of the printer, or else of the tenant
-- energy    the hours at the power of the printer, or else of the tenant
-- labour    the work on the good pieces, with their components
create or replace function run_cost(run uuid, status text, hours numeric)
returns table (filament numeric, waste numeric, machine numeric, energy numeric, labour numeric)
language plpgsql stable as $$
declare
	hour_cost numeric;
	hour_energy numeric; -- cost of the energy of an hour
	work_cost numeric; -- of an hour
	minutes numeric := 0;
	spent numeric;
begin
	select coalesce(p.hour_cost, t.machine_hour_cost),
		case when t.energy_kwh_cost = 0 then 0
			else t.energy_kwh_cost * coalesce(p.power_watts, t.machine_power_watts) / 1000 end,
		t.labour_hour_cost
	into hour_cost, hour_energy, work_cost
	from tenants t
	left join lateral (
		select p.hour_cost, p.power_watts from production_runs r
		cross join lateral (select * from printers p where p.id = r.printer_id offset 0) p
		where r.id = run
	) p on true
	where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid;

	select case when bool_and(m.price is not null) is not false
			then cost_of(coalesce(sum(m.grams * m.price), 0), 1) end
	into spent
	from (
		select m.actual_weight_grams as grams, coalesce(m.cost_per_gram, s.cost_per_gram) as price
		from run_materials m
		cross join lateral (select s.cost_per_gram from spools s where s.id = m.spool_id offset 0) s
		where m.run_id = run and m.actual_weight_grams > 0
	) m;
	if status = 'completed' then
		select sum(cost_of(share_of(spent, s.low, s.high, s.total) * n.failed, s.quantity)) into waste
		from run_shares(run) s
		cross join lateral run_item_pieces(status, s.quantity, s.successful_quantity, s.failed_quantity) n
		where n.failed > 0;
		waste := case when spent is not null then coalesce(waste, 0) end;
		if work_cost > 0 then
			select case when i.ids is null then 0 else e.labour_minutes end
			into minutes
			from (
				select array_agg(i.product_id) as ids, array_agg(n.good::numeric) as pieces
				from run_items i
				cross join lateral run_item_pieces(status, i.quantity, i.successful_quantity, i.failed_quantity) n
				where i.run_id = run and n.good > 0
			) i
			cross join lateral estimate_products(i.ids, i.pieces) e;
		end if;
	else
		waste := spent;
		work_cost := coalesce(work_cost, 0); -- there is none
	end if;
	filament := spent - waste;
	machine := case when hour_cost = 0 then 0 else cost_of(hours * hour_cost, 1) end;
	energy := case when hour_energy = 0 then 0 else cost_of(hours * hour_energy, 1) end;
	labour := case when work_cost = 0 then 0 else cost_of(minutes * work_cost, 60) end;
	return next;
end $$;

-- Returns what is expected for one good piece of each product, with its components: the parts of its cost, each null
-- if it is unknown.
--
-- filament  the stored total_cost, if it is complete
-- machine   the estimated print time at the rate of the tenant
-- energy    the estimated print time at the power of the tenant
-- labour    the work
-- failures  the filament, machine and energy of the failed pieces for a good one. If f pieces of a hundred fail, there
--           are f / (100 - f) failed ones for each good one.
--
-- force_generic_plan: planning takes longer than running, also in explode_pieces and estimate_products.
create or replace function product_costs(ids uuid[])
returns table (id uuid, filament numeric, machine numeric, energy numeric, labour numeric, failures numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	tenant record;
begin
	select t.labour_hour_cost, t.machine_hour_cost, t.failure_rate_percent, t.failure_rate_measured,
		case when t.energy_kwh_cost = 0 then 0 else t.energy_kwh_cost * t.machine_power_watts end as energy
	into tenant from tenants t where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid;
	return query
		select c.id, c.filament, c.machine, c.energy, c.labour,
			case when o.bad = 0 then 0
				else cost_of((c.filament + c.machine + c.energy) * o.bad, nullif(o.good, 0)) end
		from (
			select u.id, p.product,
				case when p.costs_complete then p.total_cost end as filament,
				case when tenant.machine_hour_cost = 0 then 0
					else cost_of(e.minutes * tenant.machine_hour_cost, 60) end as machine,
				case when tenant.energy = 0 then 0 else cost_of(e.minutes * tenant.energy, 60000) end as energy,
				case when tenant.labour_hour_cost = 0 then 0
					else cost_of(e.labour_minutes * tenant.labour_hour_cost, 60) end as labour
			from unnest(ids) u (id)
			cross join lateral (
				select p.id as product, p.costs_complete, p.total_cost from products p where p.id = u.id offset 0
			) p
			cross join lateral estimate_products(array[u.id], array[1::numeric]) e
		) c
		left join lateral measured_failures(c.product) m on tenant.failure_rate_measured
		cross join lateral (
			select case when m.good + m.failed > 0 then m.failed else tenant.failure_rate_percent end as bad,
				case when m.good + m.failed > 0 then m.good else 100 - tenant.failure_rate_percent end as good
		) o;
end $$;

-- Returns the good and the failed pieces of a product in the runs that complete or fail has ended in the last 90 days.
-- It reads the newest 1,000 items of runs with the product.
create or replace function measured_failures(product uuid) returns table (good bigint, failed bigint)
language sql stable as $$
	select sum(n.good), sum(n.failed)
	from (
		select i.* from run_items i where i.product_id = product and num_nonnulls(i.product_id) = 1
		order by i.run_id desc limit 1000
	) i
	cross join lateral (select r.status, r.deducted_at from production_runs r where r.id = i.run_id offset 0) r
	cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
	where r.deducted_at > now() - interval '90 days'
$$;

-- Returns the sum of the amounts that are not null, or null if all are.
create or replace function known_sum(amounts numeric[]) returns numeric language sql immutable as $$
	select sum(p.amount) from unnest(amounts) p (amount)
$$;

-- Returns the names of the parts that are null.
create or replace function unknown_parts(names text[], amounts numeric[]) returns text[] language sql immutable as $$
	select coalesce(array_agg(p.name order by p.n), '{}')
	from unnest(names, amounts) with ordinality p (name, amount, n) where p.amount is null
$$;

-- Returns the names of the parts that fewer than all rows know.
create or replace function incomplete_parts(names text[], known bigint[], all_rows bigint) returns text[]
language sql immutable as $$
	select coalesce(array_agg(p.name order by p.n), '{}')
	from unnest(names, known) with ordinality p (name, known, n) where p.known < all_rows
$$;
